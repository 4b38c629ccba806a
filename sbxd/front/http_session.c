#include "sbxd/front/http.h"

#include "sbxd/front/calls.h"
#include "sbxd/front/subs.h"

#include <string.h>

#define IDLE_NS UINT64_C(3600000000000)	/* a session without requests */

/*
 * Clients leave sessions behind that they never end.  The one that goes is of
 * who has most of them, so that nobody's are ended by another's greed; its
 * client, should it come back, is told to begin anew.
 */
static bool
end_idle(struct front *f)
{
	struct http_session *s, *idle = NULL;

	for (s = f->sessions; s != NULL; s = s->next) {
		if ((s->get != NULL && s->get->c != NULL) ||
		    s->client.ncalls != 0)
			continue;
		if (idle == NULL || s->user->nsessions > idle->user->nsessions ||
		    (s->user->nsessions == idle->user->nsessions &&
		    s->used_ns < idle->used_ns))
			idle = s;
	}
	if (idle == NULL)
		return (false);
	http_session_end(idle);
	return (true);
}

/* The stream that the client opened for it with GET. */
static struct sink *
session_events(struct client *who)
{
	struct stream *get = ((struct http_session *)((char *)who -
	    offsetof(struct http_session, client)))->get;

	return (get != NULL && get->c != NULL ? &get->sink : NULL);
}

struct http_session *
http_session_new(struct front *f, struct http_user *u)
{
	struct http_session *s;

	if (f->nsessions >= SBX_MAX_HTTP_SESSIONS && !end_idle(f))
		return (NULL);
	s = sbx_xcalloc(1, sizeof(*s));
	s->f = f;
	sbx_random_hex(s->id, HTTP_ID_HEX / 2);
	s->client.principal = u->principal;
	s->client.events = session_events;
	s->user = u;
	u->refs++;
	u->nsessions++;
	s->used_ns = sbx_mono_ns();
	s->next = f->sessions;
	f->sessions = s;
	f->nsessions++;
	return (s);
}

struct http_session *
http_session_find(struct front *f, struct sbx_text id,
    const struct http_user *u)
{
	struct http_session *s;

	for (s = f->sessions; s != NULL; s = s->next)
		if (s->user == u && id.len == HTTP_ID_HEX &&
		    sbx_same_secret(id.p, s->id, HTTP_ID_HEX)) {
			s->used_ns = sbx_mono_ns();
			return (s);
		}
	return (NULL);
}

void
http_session_end(struct http_session *s)
{
	struct front *f = s->f;
	struct http_session **p = &f->sessions;
	struct stream *st, *next;

	calls_cancel_client(f, &s->client);
	subs_drop(f, &s->client, NULL);
	for (st = f->streams; st != NULL; st = next) {
		next = st->next;
		if (st->session == s)
			stream_free(st);
	}
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	f->nsessions--;
	s->user->nsessions--;
	http_user_put(s->user);
	free(s);
}

/* One that has a stream open or work under way is not idle. */
void
http_session_sweep(struct front *f, uint64_t now_ns)
{
	struct http_session *s, *next;

	for (s = f->sessions; s != NULL; s = next) {
		next = s->next;
		if (s->get == NULL && s->client.ncalls == 0 &&
		    now_ns - s->used_ns > IDLE_NS)
			http_session_end(s);
	}
}

/*
 * The answer to initialize carries the new session's id, and the request's own
 * client becomes the session's.
 */
int
http_session_begin(struct sink *to)
{
	struct stream *st;

	if (to->http == NULL)
		return (0);
	st = (struct stream *)((char *)to - offsetof(struct stream, sink));
	if (st->session != NULL)
		return (0);	/* it initializes anew */
	st->session = http_session_new(to->f, st->user);
	if (st->session == NULL)
		return (SBX_E_LIMIT);
	st->session->client.rev = to->client->rev;
	st->session->client.can = to->client->can;
	st->session->client.log_level = to->client->log_level;
	st->session->client.profile = to->client->profile;
	return (0);
}
