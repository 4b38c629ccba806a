/*
 * What a sandbox sends to the proxy: a ClientHello, the head of a push, a
 * host, the path of a request to GitHub.  The first byte says which.  Beside
 * crashes: what is taken must be in its one form, and reading one byte less
 * must never be enough.
 */
#include "sbx-proxy/gate.h"
#include "sbx-proxy/hello.h"
#include "common/git/push.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void
on_hello(const uint8_t *p, size_t n)
{
	char name[256], again[256];
	const char *why;

	if (hello_name(p, n, name, &why) != 0)
		return;
	/* what follows the hello changes nothing */
	while (n > 0 && hello_name(p, n - 1, again, &why) == 0) {
		if (strcmp(name, again) != 0)
			abort();
		n--;
	}
	if (n > 0 && hello_name(p, n - 1, again, &why) != SBX_E_AGAIN)
		abort();
}

/* What is reported is packets, and the bytes of foreign refs no others than
 * those that can be printed. */
static void
on_refused_push(const char *p, size_t n, size_t used, const char *why)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, 2 * PUSH_REPORT_MAX);
	if (used > n)
		abort();
	if (!push_report(p, n, why, "Mend", &b))
		return;
	if (b.len < 8 || memcmp(b.data + b.len - 8, "00000000", 8) != 0 ||
	    memmem(p, used, "side-band-64k", 13) == NULL)
		abort();
	for (size_t i = 0; i < b.len; i++)
		if ((unsigned char)b.data[i] < ' ' && b.data[i] != '\n' &&
		    b.data[i] != 1 && b.data[i] != 2)
			abort();
}

static void
on_push(const char *p, size_t n)
{
	struct push_grant g = { .ref = "refs/heads/x", .new_id = B,
		.old_id = B };
	size_t used = 0;
	const char *why;
	int r = push_judge(p, n, &g, &used, &why);

	if (r == SBX_E_POLICY)
		on_refused_push(p, n, used, why);
	if (r != 0)
		return;
	if (used > n || memmem(p, used, B " refs/heads/x", 53) == NULL)
		abort();
	if (push_judge(p, used - 1, &g, &used, &why) != SBX_E_AGAIN)
		abort();
}

static void
on_host(const char *p, size_t n)
{
	struct host h, again;
	struct sbx_text t;
	uint16_t port;
	char text[HOST_MAX + 3];

	if (host_port_read((struct sbx_text){ p, n }, 80, &h, &port) != 0)
		return;
	t = (struct sbx_text){ text, 0 };
	if (h.kind == HOST_V6)
		text[t.len++] = '[';
	memcpy(text + t.len, h.text, strlen(h.text));
	t.len += strlen(h.text);
	if (h.kind == HOST_V6)
		text[t.len++] = ']';
	if (port == 0 || host_read(t, &again) != 0 || again.kind != h.kind ||
	    strcmp(again.text, h.text) != 0)
		abort();
}

static void
on_gate(const char *p, size_t n)
{
	static const char *const hosts[] = { "github.com", "api.github.com",
		"codeload.github.com" };
	struct sbx_http_head head;
	struct host h = { .kind = HOST_NAME };
	struct gate g;
	const char *why;
	size_t used;

	if (sbx_http_head(p, n, &head, &used, &why) != 0 ||
	    head.form != SBX_HTTP_ORIGIN)
		return;
	for (size_t i = 0; i < SBX_NELEM(hosts); i++) {
		(void)sbx_strlcpy(h.text, hosts[i], sizeof(h.text));
		gate_classify(&h, &head, &g);
		if ((g.class == GATE_DENIED) != (g.why != NULL))
			abort();
		if (g.class == GATE_GIT_WRITE && (*g.owner == '\0' ||
		    *g.repo == '\0' || strchr(g.repo, '/') != NULL))
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const texts[])(const char *, size_t) = { on_push,
		on_host, on_gate };

	if (size == 0)
		return (0);
	if (data[0] % 4 == 3)
		on_hello(data + 1, size - 1);
	else
		texts[data[0] % 4]((const char *)data + 1, size - 1);
	return (0);
}
