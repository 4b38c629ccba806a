/*
 * COURIER_MINT and COURIER_REVOKE: a token of a GitHub App's installation, for
 * one repository, and its end.
 */

#include "sbx-broker/courier/https.h"

#include "common/base/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define ANSWER_MAX 65536u
#define DEPTH 16u
#define LIFE_MAX_S 7200u	/* the host's are an hour; clocks differ */

/* What libraries leave in memory of the answer goes with the process, which
 * ends with this job; what is ours is wiped here. */
static void
wipe(struct https_whole *w)
{
	if (w->answer.data != NULL)
		explicit_bzero(w->answer.data, w->answer.size);
	sbx_buf_clear(&w->answer);
}

/* At its full size from the start, so that no copy is left behind. */
static void
make_room(struct https_whole *w)
{
	SBX_CLEANUP(free) char *zeros = sbx_xcalloc(1, ANSWER_MAX);

	sbx_buf_init(&w->answer, ANSWER_MAX);
	(void)sbx_buf_add(&w->answer, zeros, ANSWER_MAX); /* it fits */
	w->answer.len = 0;
}

static bool
ask(struct courier *c, struct https_whole *w, const char *host, unsigned port,
    const char *path, int sock)
{
	struct https h;
	bool good = https_open(&h, c, host, port, path, sock);

	if (good) {
		https_header(&h, "Accept: application/vnd.github+json");
		https_header(&h, "X-GitHub-Api-Version: 2022-11-28");
		https_header(&h, "User-Agent: sbx");
		if (w->body != NULL)
			https_header(&h, "Content-Type: application/json");
		good = https_whole(&h, w);
	}
	https_close(&h);
	return (good);
}

static bool
refused(struct courier *c, unsigned status)
{
	const char *why, *code = courier_status_code(status, &why);

	return (courier_fail(c, code, "%s (status %u)", why, status));
}

/* --- the answer to a mint --------------------------------------------------------- */

static struct json_object *
member(struct json_object *o, const char *name, enum json_type type)
{
	struct json_object *v;

	return (json_object_get_type(o) == json_type_object &&
	    json_object_object_get_ex(o, name, &v) &&
	    json_object_get_type(v) == type ? v : NULL);
}

static int
level(const char *s)
{
	static const char *const levels[] = { "read", "write", "admin" };

	for (size_t i = 0; i < SBX_NELEM(levels); i++)
		if (strcmp(s, levels[i]) == 0)
			return ((int)i + 1);
	return (99);
}

/* Nothing in got that was not asked for, nor more of it. */
static bool
permissions_fit(struct json_object *asked, struct json_object *got)
{
	if (got == NULL)
		return (false);
	json_object_object_foreach(got, name, v) {
		struct json_object *a = member(asked, name, json_type_string);

		if (a == NULL || json_object_get_type(v) != json_type_string ||
		    level(json_object_get_string(v)) >
		    level(json_object_get_string(a)))
			return (false);
	}
	return (true);
}

static bool
repositories_fit(const char *repo, struct json_object *got)
{
	struct json_object *name;

	if (got == NULL || json_object_array_length(got) != 1)
		return (false);
	name = member(json_object_array_get_idx(got, 0), "full_name",
	    json_type_string);
	return (name != NULL &&
	    strcasecmp(json_object_get_string(name), repo) == 0);
}

/* "2016-07-11T22:14:10Z", RFC 3339; 0: it is none. */
static uint64_t
seconds(const char *s)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
	unsigned v[6] = { 0 }, part = 0;
	struct tm tm = { 0 };
	time_t t;

	if (strlen(s) != strlen(shape))
		return (0);
	for (size_t i = 0; shape[i] != '\0'; i++)
		if (shape[i] != 'd') {
			part++;
			if (s[i] != shape[i])
				return (0);
		} else if (s[i] < '0' || s[i] > '9')
			return (0);
		else
			v[part] = v[part] * 10 + (unsigned)(s[i] - '0');
	if (v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > 31 || v[3] > 23 ||
	    v[4] > 59 || v[5] > 60)
		return (0);
	tm.tm_year = (int)v[0] - 1900;
	tm.tm_mon = (int)v[1] - 1;
	tm.tm_mday = (int)v[2];
	tm.tm_hour = (int)v[3];
	tm.tm_min = (int)v[4];
	tm.tm_sec = (int)v[5];
	t = timegm(&tm);
	return (t > 0 ? (uint64_t)t : 0);
}

static bool
take_token(struct courier *c, struct json_object *o)
{
	struct json_object *v = member(o, "token", json_type_string);
	char *s = v == NULL ? NULL : (char *)(uintptr_t)
	    json_object_get_string(v);
	size_t n = s == NULL ? 0 : (size_t)json_object_get_string_len(v);
	bool good = n >= CANARY_MIN && n <= COURIER_SECRET_MAX;

	for (size_t i = 0; good && i < n; i++)
		good = s[i] > ' ' && s[i] <= '~';
	if (good) {
		explicit_bzero(c->secret, sizeof(*c->secret));
		memcpy(c->secret->token, s, n);
		c->secret->len = n;
		c->end.minted = true;
	}
	if (s != NULL)
		explicit_bzero(s, n);
	return (good);
}

static const char *
take_all(struct courier *c, const struct sbx_courier_mint *m,
    struct json_object *asked, struct json_object *o, uint64_t *ret_expires)
{
	struct json_object *v = member(o, "expires_at", json_type_string);
	uint64_t now = sbx_wall_ns() / 1000000000;

	if (!take_token(c, o))
		return ("has no token");
	if (v == NULL ||
	    (*ret_expires = seconds(json_object_get_string(v))) == 0)
		return ("does not say when the token expires");
	if (*ret_expires > now + LIFE_MAX_S)
		return ("has a token that lives for too long");
	if (!permissions_fit(asked, member(o, "permissions",
	    json_type_object)))
		return ("gives other permissions than were asked for");
	if (!repositories_fit(m->repo, member(o, "repositories",
	    json_type_array)))
		return ("is for other repositories than was asked for");
	return (NULL);
}

static struct json_object *
parse(const char *text, size_t n)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (sbx_json_scan(text, n, ANSWER_MAX, DEPTH, NULL) < 0 ||
	    (tok = json_tokener_new_ex((int)DEPTH + 1)) == NULL)
		return (NULL);
	o = json_tokener_parse_ex(tok, text, (int)n);
	json_tokener_free(tok);
	return (o);
}

static bool
take_answer(struct courier *c, const struct sbx_courier_mint *m,
    struct https_whole *w, uint64_t *ret_expires)
{
	struct json_object *asked, *o;
	const char *why;

	if (w->status != 201)
		return (refused(c, w->status));
	asked = parse(m->permissions, strlen(m->permissions));
	o = parse(w->answer.data, w->answer.len);
	why = take_all(c, m, asked, o, ret_expires);
	(void)json_object_put(asked); /* counts are not asked for */
	(void)json_object_put(o);
	return (why == NULL || courier_fail(c, "upstream", "the host's answer "
	    "%s", why));
}

/* --- the jobs --------------------------------------------------------------------------- */

static char *
mint_body(const struct sbx_courier_mint *m)
{
	struct json_object *o = parse(m->permissions, strlen(m->permissions));
	bool good = json_object_get_type(o) == json_type_object &&
	    json_object_object_length(o) > 0;

	(void)json_object_put(o); /* its count is not asked for */
	return (good && courier_repo_is_good(m->repo) ? sbx_xasprintf(
	    "{\"repositories\":[\"%s\"],\"permissions\":%s}",
	    strchr(m->repo, '/') + 1, m->permissions) : NULL);
}

void
courier_mint(struct courier *c, struct sbx_in *in, uint64_t *ret_expires)
{
	const struct sbx_courier_mint *m = &in->m.courier_mint;
	SBX_CLEANUP(free) char *body = mint_body(m);
	SBX_CLEANUP(free) char *path = sbx_xasprintf(
	    "%s/app/installations/%" PRIu64 "/access_tokens", m->prefix,
	    m->installation);
	struct https_whole w = { .method = "POST", .body = body };

	if (body == NULL || !courier_prefix_is_good(m->prefix)) {
		(void)courier_fail(c, "bad_request", "the job has no "
		    "repository or no permissions");
		return;
	}
	w.body_len = strlen(body);
	make_room(&w);
	if (ask(c, &w, m->host, m->port, path, sbx_steal_fd(&in->fds[0])))
		(void)take_answer(c, m, &w, ret_expires); /* c->end tells */
	wipe(&w);
}

void
courier_revoke(struct courier *c, struct sbx_in *in)
{
	const struct sbx_courier_revoke *m = &in->m.courier_revoke;
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s/installation/token",
	    m->prefix);
	struct https_whole w = { .method = "DELETE" };

	if (!courier_prefix_is_good(m->prefix) || *m->token == '\0') {
		(void)courier_fail(c, "bad_request", "the job has no token");
		return;
	}
	make_room(&w);
	if (ask(c, &w, m->host, m->port, path,
	    sbx_steal_fd(&in->fds[0])) && w.status != 204)
		(void)refused(c, w.status); /* c->end tells */
	wipe(&w);
}
