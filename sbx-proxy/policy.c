#include "sbx-proxy/policy.h"

#include "common/base/log.h"

#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define PORT_HTTP 80
#define PORT_HTTPS 443

/* Of GitHub, and of the public registries of Python, npm, Go and Rust. */
static const struct {
	const char *entry;
	enum policy_how how;
} builtin[] = {
	{ "https://.github.com", POLICY_GITHUB },
	{ "https://.githubusercontent.com", POLICY_GITHUB },
	{ "https://pypi.org", POLICY_REGISTRY },
	{ "https://files.pythonhosted.org", POLICY_REGISTRY },
	{ "https://.npmjs.org", POLICY_REGISTRY },
	{ "https://proxy.golang.org", POLICY_REGISTRY },
	{ "https://sum.golang.org", POLICY_REGISTRY },
	{ "https://crates.io", POLICY_REGISTRY },
	{ "https://static.crates.io", POLICY_REGISTRY },
	{ "https://index.crates.io", POLICY_REGISTRY },
	{ "https://static.rust-lang.org", POLICY_REGISTRY },
};

static uint16_t
own_port(uint8_t scheme)
{
	return (scheme == POLICY_HTTP ? PORT_HTTP : PORT_HTTPS);
}

static const char *
scheme_text(uint8_t schemes)
{
	return (schemes == POLICY_HTTP ? "http://" :
	    schemes == POLICY_HTTPS ? "https://" : "");
}

/* *text moves behind it. */
static uint8_t
read_scheme(const char **text)
{
	uint8_t s;

	for (s = POLICY_HTTP; s <= POLICY_HTTPS; s++) {
		size_t n = strlen(scheme_text(s));

		if (strncmp(*text, scheme_text(s), n) == 0) {
			*text += n;
			return (s);
		}
	}
	return (POLICY_HTTP | POLICY_HTTPS);
}

/* 0, SBX_E_SYNTAX. */
static int
read_rule(const char *text, struct policy_rule *r)
{
	struct sbx_text t;
	uint16_t none = 1;	/* no port is none of the two */

	r->schemes = read_scheme(&text);
	if (strcmp(text, "*") == 0) {
		r->any = true;
		return (0);
	}
	r->domain = *text == '.';
	text += r->domain;
	t = (struct sbx_text){ text, strlen(text) };
	if (host_read(t, &r->host) == 0)
		return (r->domain && r->host.kind != HOST_NAME ?
		    SBX_E_SYNTAX : 0);
	if (host_port_read(t, none, &r->host, &r->port) != 0)
		return (SBX_E_SYNTAX);
	return (r->domain && r->host.kind != HOST_NAME ? SBX_E_SYNTAX : 0);
}

int
policy_add(struct policy *p, const char *entry, enum policy_how how,
    bool any, struct sbx_err *err)
{
	struct policy_rule r = { .how = how };

	if (read_rule(entry, &r) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "\"%s\" is no host: "
		    "write host, .domain, host:port or https://host", entry));
	if (r.any && !any)
		return (sbx_err_set(err, SBX_E_SYNTAX, "\"*\" opens the whole "
		    "Internet to every sandbox: it is allowed by "
		    "allow_any_host yes only"));
	if (p->n == POLICY_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "more than %u hosts",
		    POLICY_MAX));
	p->rules = sbx_xreallocarray(p->rules, p->n + 1,
	    sizeof(*p->rules));
	p->rules[p->n++] = r;
	return (0);
}

void
policy_init(struct policy *p)
{
	struct sbx_err err;
	size_t i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < SBX_NELEM(builtin); i++) {
		if (policy_add(p, builtin[i].entry, builtin[i].how, false,
		    &err) != 0)
			sbx_fatal("a built-in host: %s", err.msg);
		p->rules[i].builtin = true;
	}
}

void
policy_clear(struct policy *p)
{
	free(p->rules);
	free(p->pins);
	memset(p, 0, sizeof(*p));
}

/* "HOST:PORT ADDRESS:PORT" */
static int
add_pin(struct policy *p, const char *value, struct sbx_err *err)
{
	size_t n = strcspn(value, " ");
	const char *to = value + n + strspn(value + n, " ");
	struct policy_pin pin = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&pin.addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&pin.addr;
	struct host addr;
	uint16_t port;

	if (host_port_read((struct sbx_text){ value, n }, 0, &pin.host,
	    &pin.port) != 0 ||
	    host_port_read((struct sbx_text){ to, strlen(to) }, 0, &addr,
	    &port) != 0 || addr.kind == HOST_NAME)
		return (sbx_err_set(err, SBX_E_SYNTAX, "\"%s\" is not HOST:PORT "
		    "ADDRESS:PORT", value));
	if (p->npins == POLICY_PINS)
		return (sbx_err_set(err, SBX_E_LIMIT, "more than %u pinned "
		    "names", POLICY_PINS));
	if (addr.kind == HOST_V4) {
		pin.len = sizeof(*v4);
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		(void)inet_pton(AF_INET, addr.text, &v4->sin_addr);
	} else {
		pin.len = sizeof(*v6);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		(void)inet_pton(AF_INET6, addr.text, &v6->sin6_addr);
	}
	p->pins = sbx_xreallocarray(p->pins, p->npins + 1, sizeof(pin));
	p->pins[p->npins++] = pin;
	return (0);
}

static int
load_entry(struct policy *p, const char *entry, bool any, struct sbx_err *err)
{
	static const struct {
		const char *keyword;
		enum policy_how how;
	} words[] = {
		{ "allow_host ", POLICY_TUNNEL },
		{ "intercept_host ", POLICY_INTERCEPT },
		{ "grant_host ", POLICY_GIT },
	};
	size_t i, n;

	if (strncmp(entry, "resolve ", 8) == 0)
		return (add_pin(p, entry + 8, err));
	for (i = 0; i < SBX_NELEM(words); i++) {
		n = strlen(words[i].keyword);
		if (strncmp(entry, words[i].keyword, n) == 0)
			return (policy_add(p, entry + n, words[i].how, any,
			    err));
	}
	return (sbx_err_set(err, SBX_E_SYNTAX, "\"%s\" is no keyword of "
	    "egress", entry));
}

int
policy_load(struct policy *p, const struct sbx_strs *entries, bool any,
    uint64_t out_bytes, struct sbx_err *err)
{
	const char *s = NULL;
	int r;

	policy_init(p);
	p->out_bytes = out_bytes;
	while ((s = sbx_strs_next(entries, s)) != NULL)
		if ((r = load_entry(p, s, any, err)) != 0) {
			policy_clear(p);
			return (r);
		}
	return (0);
}

const struct policy_pin *
policy_pin(const struct policy *p, const struct host *host, uint16_t port)
{
	size_t i;

	for (i = 0; i < p->npins; i++)
		if (p->pins[i].port == port &&
		    p->pins[i].host.kind == host->kind &&
		    strcmp(p->pins[i].host.text, host->text) == 0)
			return (&p->pins[i]);
	return (NULL);
}

/* Addresses have no domains: only an entry of exactly that one fits. */
static bool
host_fits(const struct policy_rule *r, const struct host *h)
{
	size_t n = strlen(h->text), m = strlen(r->host.text);

	if (r->any)
		return (h->kind == HOST_NAME);
	if (r->host.kind != h->kind)
		return (false);
	if (strcmp(r->host.text, h->text) == 0)
		return (true);
	return (r->domain && n > m && h->text[n - m - 1] == '.' &&
	    strcmp(h->text + n - m, r->host.text) == 0);
}

static bool
port_fits(const struct policy_rule *r, enum policy_scheme scheme,
    uint16_t port)
{
	return ((r->schemes & scheme) != 0 &&
	    port == (r->port != 0 ? r->port : own_port(scheme)));
}

void
policy_text(const struct policy_rule *r, char *text, size_t size)
{
	char port[8] = "";
	bool v6 = r->host.kind == HOST_V6;

	if (r->port != 0)
		(void)snprintf(port, sizeof(port), ":%u", r->port);
	(void)snprintf(text, size, "%s%s%s%s%s%s", scheme_text(r->schemes),
	    r->any ? "*" : r->domain ? "." : "", v6 ? "[" : "", r->host.text,
	    v6 ? "]" : "", port);
}

static void
refuse(struct verdict *v, const char *code, enum policy_scheme scheme,
    const struct host *host, uint16_t port)
{
	struct policy_rule want = { .host = *host, .schemes = (uint8_t)scheme,
		.port = port != own_port((uint8_t)scheme) ? port : 0 };
	char text[sizeof(want.host.text) + 32];

	v->code = code;
	policy_text(&want, text, sizeof(text));
	(void)snprintf(v->reason, sizeof(v->reason), "%s is not a host that "
	    "sandboxes may reach", text);
	(void)snprintf(v->mend, sizeof(v->mend), "To allow it, the operator writes "
	    "`allow_host %s` into sbx.conf", text);
}

void
policy_decide(const struct policy *p, enum policy_scheme scheme,
    const struct host *host, uint16_t port, struct verdict *ret_verdict)
{
	struct verdict *v = ret_verdict;
	const struct policy_rule *r;
	bool known = false;
	size_t i;

	memset(v, 0, sizeof(*v));
	for (i = 0; i < p->n; i++) {
		r = &p->rules[i];
		if (!host_fits(r, host))
			continue;
		/* "*" makes no host known, it only lets through */
		known = known || !r->any;
		/* how it is led is not a question of the port */
		if (r->how > v->how)
			v->how = r->how;
		if (v->rule == NULL && port_fits(r, scheme, port))
			v->rule = r;
	}
	v->allowed = v->rule != NULL && !p->locked;
	if (p->locked) {
		v->code = "locked";
		(void)snprintf(v->reason, sizeof(v->reason), "the suite is "
		    "locked down");
		(void)snprintf(v->mend, sizeof(v->mend), "An operator lifts it "
		    "with `sbx lockdown off`");
	} else if (!v->allowed)
		refuse(v, known ? "port_not_allowed" : "host_not_allowed",
		    scheme, host, port);
}
