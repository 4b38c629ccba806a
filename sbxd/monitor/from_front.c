#include "sbxd/monitor/monitor.h"

#include <string.h>

/*
 * The front parses what clients send, so it may be in a client's hands.  It
 * can name a handle that the monitor gave out for a live connection, and
 * that is all it is believed.
 */

static struct monitor *
of(struct sbx_peer *p)
{
	return (((struct component *)sbx_peer_ctx(p))->m);
}

/* Who it is comes from the socket, not from the front (session_accept). */
static int
on_front_auth(struct sbx_peer *p, struct sbx_in *in)
{
	struct sbx_front_principal a = { .conn = in->m.front_auth.conn,
		.name = "", .reason = "" };
	struct session *s = NULL;
	struct monitor *m = of(p);
	const char *why;

	if (m->stopping)
		a.reason = "the suite is shutting down";
	else if (session_accept(m, in->fds[0], &s, &why) != 0) {
		a.reason = why;
		log_warn("connection refused: %s", why);
		journal_add(m, &(struct record){ .op = "client_refused",
		    .code = 1 }, "reason", why, NULL);
	} else {
		a.principal = s->handle;
		a.name = s->who->name;
	}
	return (sbx_send_front_principal(p, in->hdr.id, &a, NULL));
}

/* A wrong one is recorded, but not as often as somebody can try. */
static void
token_refused(struct monitor *m)
{
	uint64_t now = sbx_mono_ns();

	if (now - m->refused_ns < S_NS)
		return;
	m->refused_ns = now;
	log_warn("a bearer token is nobody's");
	journal_add(m, &(struct record){ .op = "client_refused", .code = 1 },
	    "reason", "a bearer token is nobody's", NULL);
}

static int
on_front_token(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);
	struct sbx_front_user a = { .number = in->m.front_token.number };
	struct session *s = NULL;

	if (!m->stopping)
		s = session_token(m, in->m.front_token.sha256);
	if (s != NULL)
		a.principal = s->handle;
	else
		token_refused(m);
	return (sbx_send_front_user(p, in->hdr.id, &a, NULL));
}

/* The front can only take away what it could use itself. */
static int
on_front_gone(struct sbx_peer *p, struct sbx_in *in)
{
	struct monitor *m = of(p);
	struct session *s = session_find(m, in->m.front_gone.principal);

	/* stdio's session has no connection of its own: it ends by EOF */
	if (s != NULL && (s->fd != -1 || s->token))
		session_free(m, s);
	return (0);
}

/*
 * A descriptor that the client sent; which directory it is gets looked at, not
 * believed.
 */
static int
on_front_root(struct sbx_peer *p, struct sbx_in *in)
{
	struct session *s = session_find(of(p), in->m.front_root.principal);

	if (s == NULL || s->fd == -1)
		return (0);
	if (session_root(of(p), s, sbx_steal_fd(&in->fds[0])) != 0)
		log_warn("%s: its copy root was not taken, ignoring",
		    s->who->name);
	return (0);
}

static int
on_front_eof(struct sbx_peer *p, struct sbx_in *in)
{
	(void)in;
	if (!of(p)->stdio)
		return (SBX_E_STATE);
	shutdown_begin(of(p), 0, "the client closed its input");
	return (0);
}

/* A number that is in use would let one client's answer reach another. */
static int
on_call(struct sbx_peer *p, struct sbx_in *in)
{
	if (call_find(of(p), in->m.call.call) != NULL)
		return (SBX_E_STATE);
	call_new(of(p), &in->m.call, sbx_steal_fd(&in->fds[0]));
	return (0);
}

static int
on_call_cancel(struct sbx_peer *p, struct sbx_in *in)
{
	struct call *c = call_find(of(p), in->m.call_cancel.call);

	if (c != NULL)		/* else its answer crossed the cancel */
		call_cancel(of(p), c);
	return (0);
}

static int
on_run_unwatch(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_run_unwatch *q = &in->m.run_unwatch;
	struct session *s = session_find(of(p), q->principal);

	if (s != NULL)
		watch_over(of(p), s, q->run);
	return (0);
}

static const struct sbx_dispatch rows[SBX_MSG_MAX] = {
	[SBX_MSG_HELLO] = { SBX_ST(ST_NEW), SBX_D_ONCE, component_hello },
	[SBX_MSG_LOG] = { SBX_ST_ANY, 0, component_log },
	[SBX_MSG_PONG] = { SBX_ST(ST_READY), 0, component_pong },
	[SBX_MSG_FRONT_AUTH] = { SBX_ST(ST_READY), 0, on_front_auth },
	[SBX_MSG_FRONT_TOKEN] = { SBX_ST(ST_READY), 0, on_front_token },
	[SBX_MSG_FRONT_GONE] = { SBX_ST(ST_READY), 0, on_front_gone },
	[SBX_MSG_FRONT_ROOT] = { SBX_ST(ST_READY), 0, on_front_root },
	[SBX_MSG_FRONT_EOF] = { SBX_ST(ST_READY), SBX_D_ONCE, on_front_eof },
	[SBX_MSG_CALL] = { SBX_ST(ST_READY), 0, on_call },
	[SBX_MSG_CALL_CANCEL] = { SBX_ST(ST_READY), 0, on_call_cancel },
	[SBX_MSG_RUN_UNWATCH] = { SBX_ST(ST_READY), 0, on_run_unwatch },
};
const struct sbx_dispatch_table monitor_from_front = {
	SBX_PROC_MONITOR, SBX_PROC_FRONT, rows };
