#include "sbxd/front/http.h"

#include "common/base/sha256.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/tasks.h"

#include <string.h>

/*
 * Who a request is from: the front has the digest of the token only while it
 * looks it up, and the monitor says whose it is.
 */

#define AGAIN_NS UINT64_C(2000000000)	/* is it still somebody's? */
#define FORGET_NS UINT64_C(600000000000)
#define NOBODY_NS UINT64_C(1000000000)	/* a wrong token is asked again */

/* The token of "Bearer TOKEN"; p NULL: none, or not of that form. */
static struct sbx_text
bearer(const struct sbx_http_head *head)
{
	struct sbx_text v = sbx_http_header(head, "authorization", NULL);
	static const char scheme[] = "Bearer ";
	size_t n = sizeof(scheme) - 1;

	if (v.p == NULL || v.len <= n || v.len > n + HTTP_TOKEN_MAX ||
	    !sbx_text_is_nocase((struct sbx_text){ v.p, n }, scheme))
		return ((struct sbx_text){ 0 });
	return ((struct sbx_text){ v.p + n, v.len - n });
}

static void
user_free(struct front *f, struct http_user *u)
{
	struct http_user **p = &f->users;

	while (*p != u)
		p = &(*p)->next;
	*p = u->next;
	f->nusers--;
	if (u->principal != 0) {
		inputs_forget(f, u->principal);
		(void)monitor_gone(f, u->principal);
	}
	free(u);
}

/* A token can be taken back: what it is used for waits for the answer, then
 * and again. */
static void
ask_again(struct front *f, struct http_user *u, uint64_t now_ns)
{
	if (now_ns - u->said_ns > AGAIN_NS &&
	    monitor_token(f, u->number, u->sha256) == 0) {
		u->known = false;
		u->said_ns = now_ns;
	}
}

/* It is nobody's any more: what was begun with it ends. */
static void
revoke(struct front *f, struct http_user *u)
{
	struct http_session *s, *next;
	struct stream *st, *after;

	for (st = f->streams; st != NULL; st = st->next)
		if (st->user == u && st->c != NULL)
			conn_end(st->c, "its token was taken back");
	for (s = f->sessions; s != NULL; s = next) {
		next = s->next;
		if (s->user == u)
			http_session_end(s);
	}
	for (st = f->streams; st != NULL; st = after) {
		after = st->next;
		if (st->user == u)
			stream_free(st);
	}
	tasks_gone(f, u->principal);
	inputs_forget(f, u->principal);
	(void)monitor_gone(f, u->principal);
	u->principal = 0;
}

void
http_user_sweep(struct front *f, uint64_t now_ns)
{
	struct http_user *u, *next;
	uint64_t limit;

	for (u = f->users; u != NULL; u = next) {
		next = u->next;
		if (u->known && u->principal != 0)
			ask_again(f, u, now_ns);
		limit = u->known && u->principal == 0 ? NOBODY_NS : FORGET_NS;
		if (u->refs == 0 && now_ns - u->used_ns > limit &&
		    (u->principal == 0 || !tasks_any(f, u->principal)))
			user_free(f, u);
	}
}

/* Whoever tries tokens does not keep others out: what turned out to be
 * nobody's goes first. */
static int
make_room(struct front *f)
{
	struct http_user *u;

	http_user_sweep(f, sbx_mono_ns());
	if (f->nusers < SBX_MAX_HTTP_USERS)
		return (0);
	for (u = f->users; u != NULL; u = u->next)
		if (u->refs == 0 && u->known && u->principal == 0) {
			user_free(f, u);
			return (0);
		}
	return (SBX_E_LIMIT);
}

static int
user_new(struct front *f, const char *sha256, struct http_user **ret_u)
{
	struct http_user *u;

	if (make_room(f) != 0)
		return (SBX_E_LIMIT);
	u = sbx_xcalloc(1, sizeof(*u));
	u->number = ++f->last_conn;
	(void)sbx_strlcpy(u->sha256, sha256, sizeof(u->sha256));
	u->next = f->users;
	f->users = u;
	f->nusers++;
	if (monitor_token(f, u->number, sha256) != 0)
		u->known = true;	/* nobody can say: refused */
	*ret_u = u;
	return (0);
}

int
http_user_get(struct front *f, const struct sbx_http_head *head,
    struct http_user **ret_u)
{
	struct sbx_text token = bearer(head);
	struct sbx_sha256 sum;
	struct http_user *u;
	char sha256[SBX_SHA256_HEX + 1] = "";

	if (token.p == NULL && !f->http_open)
		return (SBX_E_NOENT);
	if (token.p != NULL) {
		sbx_sha256_init(&sum);
		sbx_sha256_add(&sum, token.p, token.len);
		sbx_sha256_end(&sum, sha256);
	}
	for (u = f->users; u != NULL; u = u->next)
		if (strcmp(u->sha256, sha256) == 0)
			break;
	if (u == NULL && user_new(f, sha256, &u) != 0)
		return (SBX_E_LIMIT);
	if (u->known && u->principal != 0)
		ask_again(f, u, sbx_mono_ns());
	u->refs++;
	u->used_ns = sbx_mono_ns();
	*ret_u = u;
	return (0);
}

void
http_user_put(struct http_user *u)
{
	if (u == NULL)
		return;
	u->refs--;
	u->used_ns = sbx_mono_ns();
}

void
http_user_known(struct front *f, uint32_t number, uint64_t principal)
{
	struct http_user *u = f->users;
	struct conn *c, *next;

	while (u != NULL && u->number != number)
		u = u->next;
	if (u == NULL || u->known) {
		if (principal != 0)
			(void)monitor_gone(f, principal);
		return;
	}
	u->known = true;
	u->said_ns = sbx_mono_ns();
	if (u->principal != 0 && principal != u->principal)
		revoke(f, u);
	u->principal = principal;
	for (c = f->conns; c != NULL; c = next) {
		next = c->next;	/* they are freed from the loop only */
		if (c->http != NULL && c->http->user == u)
			http_go_on(c);
	}
}
