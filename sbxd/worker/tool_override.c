/*
 * secret_scan_override: findings by which publish was refused are let out.  What
 * they are is the judge's word, told by the monitor; whether the user agreed the
 * monitor reads itself.
 */

#include "sbxd/worker/findings.h"

#include "common/base/limits.h"
#include "sbxd/worker/github.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define PRINTS_BYTES 4224u	/* OVERRIDE_ASK.fingerprints, */
#define PRINTS_MAX 64u		/* and how many */
#define REASON_MAX 512u

static const char *const keys[] = { "rule", "path", "line", "fingerprint" };

/* The next one of them.  false: it was the last. */
static bool
finding_next(const struct sbx_strs *all, const char **at,
    const char *ret_v[SBX_NELEM(keys)])
{
	for (size_t i = 0; i < SBX_NELEM(keys); i++)
		if ((ret_v[i] = *at = sbx_strs_next(all, *at)) == NULL)
			return (false);
	return (true);
}

void
findings_put(struct result *r, const char *key, const struct sbx_strs *findings)
{
	const char *at = NULL, *v[SBX_NELEM(keys)];
	uint64_t line;

	result_open(r, key, '[');
	while (finding_next(findings, &at, v)) {
		result_open(r, NULL, '{');
		for (size_t i = 0; i < SBX_NELEM(keys); i++)
			if (i != 2)
				result_masked(r, keys[i], v[i], strlen(v[i]));
			else if (sbx_parse_u64(v[i], 0, UINT32_MAX, &line) ==
			    0)
				result_u64(r, keys[i], line);
		result_close(r, '}');
	}
	result_close(r, ']');
}

static bool
prints_get(struct call *call, struct sbx_strs *ret, struct sbx_buf *b)
{
	struct json_object *list = args_json(&call->args, "fingerprints");
	const size_t n = list != NULL ? json_object_array_length(list) : 0;
	const char *s;

	sbx_buf_init(b, PRINTS_BYTES);
	for (size_t i = 0; i < n; i++) {
		s = json_object_get_string(json_object_array_get_idx(list,
		    i));
		if (!sbx_is_hex(s, 64) || i == PRINTS_MAX ||
		    sbx_strs_add(ret, b, s) != 0)
			return (gh_bad(call, "\"fingerprints\" must be up to "
			    "64 of those that the result of publish has."));
	}
	return (n > 0 || gh_bad(call, "\"fingerprints\" must name what is let "
	    "out."));
}

/* What the user is asked: all of it. */
static bool
agreed(struct call *call, const struct ask_override *o, const char *reason)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	const char *at = NULL, *v[SBX_NELEM(keys)];

	sbx_buf_init(&b, GH_SHOWN_MAX);
	(void)sbx_buf_printf(&b, "Let what looks like secrets go out to %s/%s, "
	    "branch %s?  Who can read that repository can read them.\n\n",
	    o->host, o->repo, o->branch);
	while (finding_next(&o->findings, &at, v)) {
		(void)gh_text(&b, v[1], strlen(v[1]), &(struct gh_text){
		    .line = true, .max = 4096 });
		(void)sbx_buf_printf(&b, ":%s: %s\n", v[2], v[0]);
	}
	(void)sbx_buf_str(&b, "\nThe reason that is given:\n");
	gh_show(&b, reason);
	return (gh_confirmed(call, &b));
}

static void
put(struct call *call, const struct sbx_override_ask *m,
    const struct ask_override *o)
{
	struct result *r = call->res;
	char repo[400];

	(void)snprintf(repo, sizeof(repo), "%s/%s", o->host, o->repo);
	result_str(r, "status", "ok");
	result_str(r, "container_id", m->container);
	result_str(r, "run_id", m->publish);
	result_str(r, "repo", repo);
	result_str(r, "branch", o->branch);
	result_u64(r, "waived", o->count);
	result_u64(r, "expires_in_seconds", o->left_s);
	result_str(r, "recommended_next_action", "Publish again with the same "
	    "arguments, without run_id.");
}

int
tool_secret_scan_override(struct call *call)
{
	struct sbx_override_ask m = {
		.container = args_str(&call->args, "container_id", NULL),
		.publish = args_str(&call->args, "run_id", NULL),
		.reason = args_str(&call->args, "reason", NULL) };
	SBX_CLEANUP_BUF struct sbx_buf prints = { 0 };
	struct ask_override o;
	int r;

	if (gh_blank(m.reason) || strlen(m.reason) > REASON_MAX)
		return (gh_bad(call, "\"reason\" must say why that is no "
		    "secret, in up to 512 bytes."), 0);
	if (!gh_clean_out(call, "reason", m.reason) ||
	    !prints_get(call, &m.fingerprints, &prints))
		return (0);
	r = override_ask(call->ask, &m, &o);
	if (r != 0)
		return (call_refused(call, r));
	if (o.confirm && !agreed(call, &o, m.reason))
		return (0);
	m.hold = 1;
	r = override_ask(call->ask, &m, &o);
	if (r != 0)
		return (call_refused(call, r));
	put(call, &m, &o);
	return (0);
}
