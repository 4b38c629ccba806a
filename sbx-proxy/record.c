#include "sbx-proxy/record.h"

const char *
layer_name(enum layer layer)
{
	static const char *const names[LAYER_MAX] = { "parse", "limit",
		"policy", "dns", "address", "dial", "sni", "tls", "host",
		"gate", "grant", "push", "budget" };

	return (layer < LAYER_MAX ? names[layer] : "");
}

void
record_denied(struct listener *l, enum layer layer, const char *code,
    const char *target, const char *why)
{
	(void)l;
	(void)layer;
	(void)code;
	(void)target;
	(void)why;
}

void
record_passed(const struct record_passed *r)
{
	(void)r;
}

void
record_flush(struct listener *l)
{
	(void)l;
}

void
denials_free(struct denials *d)
{
	(void)d;
}
