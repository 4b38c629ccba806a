/* A policy from the settings of sbx.conf(5). */

#include "common/base/conf.h"
#include "sbx-proxy/policy.h"

#include <stdio.h>
#include <string.h>

static int
add_list(struct sbx_strs *s, struct sbx_buf *b, const char *keyword,
    const struct sbx_conf_list *l)
{
	char line[SBX_CONF_LINE_MAX + 32];
	const char *v = l->data;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < l->count; i++, v += strlen(v) + 1) {
		/* as long as a line of the file at most */
		(void)snprintf(line, sizeof(line), "%s %.*s", keyword,
		    (int)SBX_CONF_LINE_MAX, v);
		r = sbx_strs_add(s, b, line);
	}
	return (r);
}

int
policy_entries(const struct sbx_conf *c, struct sbx_strs *ret,
    struct sbx_buf *b, struct sbx_err *err)
{
	sbx_buf_init(b, POLICY_ENTRIES_BYTES);
	memset(ret, 0, sizeof(*ret));
	if (add_list(ret, b, "allow_host", &c->allow_host) != 0 ||
	    add_list(ret, b, "intercept_host", &c->intercept_host) != 0 ||
	    add_list(ret, b, "grant_host", &c->grant_host) != 0 ||
	    add_list(ret, b, "resolve", &c->resolve) != 0 ||
	    ret->count > POLICY_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT, "there are more than %u "
		    "hosts", POLICY_MAX));
	return (0);
}

int
policy_conf(struct policy *p, const struct sbx_conf *c, struct sbx_err *err)
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_strs s;
	int r;

	if ((r = policy_entries(c, &s, &b, err)) != 0)
		return (r);
	return (policy_load(p, &s, c->allow_any_host, c->tunnel_out_bytes,
	    err));
}
