#ifndef SBX_PROXY_POLICY_H
#define SBX_PROXY_POLICY_H

/*
 * Which hosts a sandbox may be led to, and how.  What is built in can be added
 * to and never weakened: of all entries that fit a host, the one that looks
 * into its traffic most strictly decides how it is led.
 */

#include "common/proto/proto.h"
#include "sbx-proxy/host.h"

#include <sys/socket.h>

#define POLICY_MAX 1024u	/* entries, the built-in ones included */
#define POLICY_PINS 256u
#define POLICY_ENTRIES_BYTES 122880u /* PROXY_POLICY */

enum policy_scheme { POLICY_HTTP = 1, POLICY_HTTPS = 2 };

/* How a host is led; the later, the stricter. */
enum policy_how {
	POLICY_TUNNEL,		/* bytes as they are, to the name in the TLS
				 * hello */
	POLICY_INTERCEPT,	/* TLS ends in the proxy */
	POLICY_REGISTRY,	/* the same, and GET and HEAD only */
	POLICY_GIT,		/* the same, git's paths only; pushes by grant */
	POLICY_GITHUB,		/* the same, and judged by gate.h */
	POLICY_HOW_MAX
};

/* "[http://|https://]host[:port]", ".domain" (it and all below) or "*". */
struct policy_rule {
	struct host host;	/* without the leading dot; "" for "*" */
	bool domain, any;
	uint8_t schemes;	/* enum policy_scheme */
	uint16_t port;		/* 0: the scheme's own */
	enum policy_how how;
	bool builtin;
};
/* A name and port that stand for one address, without DNS. */
struct policy_pin {
	struct host host;
	uint16_t port;
	struct sockaddr_storage addr;
	socklen_t len;
};
struct policy {
	struct policy_rule *rules;	/* owned */
	size_t n;
	struct policy_pin *pins;	/* owned */
	size_t npins;
	uint64_t out_bytes;	/* that a sandbox may send to a tunnelled host */
	bool locked;		/* nothing is allowed to anybody */
};

/* What is built in. */
void policy_init(struct policy *p);
void policy_clear(struct policy *p);
/* One more entry.  any: "*" is permitted.  0; SBX_E_SYNTAX, SBX_E_LIMIT with
 * err set. */
int policy_add(struct policy *p, const char *entry, enum policy_how how,
    bool any, struct sbx_err *err);
/* What is built in and, of sbx.conf(5), "allow_host V", "intercept_host V",
 * "grant_host V" and "resolve HOST:PORT ADDRESS:PORT".  On error *p is empty.
 * 0; SBX_E_SYNTAX, SBX_E_LIMIT with err set. */
int policy_load(struct policy *p, const struct sbx_strs *entries, bool any,
    uint64_t out_bytes, struct sbx_err *err);
struct sbx_conf;
/* The settings as entries, whose bytes are b's; and as a policy.  0, and what
 * policy_load() returns. */
int policy_entries(const struct sbx_conf *c, struct sbx_strs *ret,
    struct sbx_buf *b, struct sbx_err *err);
int policy_conf(struct policy *p, const struct sbx_conf *c,
    struct sbx_err *err);
/* NULL: there is none. */
const struct policy_pin *policy_pin(const struct policy *p,
    const struct host *host, uint16_t port);

struct verdict {
	bool allowed;
	enum policy_how how;
	const struct policy_rule *rule;	/* that allowed it */
	const char *code;	/* of a refusal: a stable word */
	char reason[384];	/* a sentence without its full stop */
	char mend[384];		/* the narrowest change that would allow it */
};
void policy_decide(const struct policy *p, enum policy_scheme scheme,
    const struct host *host, uint16_t port, struct verdict *ret_verdict);
/* "https://.github.com": the entry as it could be written. */
void policy_text(const struct policy_rule *r, char *text, size_t size);

#endif
