#include "sbxd/monitor/monitor.h"

#include "config.h"

#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The control socket: where an operator is let in.  The listener was made
 * before the cage; who connects is the kernel's word, looked at before a byte
 * is read.
 */

#define ACCEPT_BATCH 4
#define FIRST_NS (5 * S_NS)	/* for the first message, and for the close */

/* A shell that it had is ended with it. */
static void
ctl_ended(struct sbx_peer *p, int error)
{
	struct ctl *c = sbx_peer_ctx(p);

	if (error != SBX_E_CLOSED)
		log_warn("connection of an operator closed: %s uid=%u type=%u",
		    sbx_error_name(error), c->uid, sbx_peer_last_type(p));
	shell_gone(c);
	grant_ctl_gone(c);
	sbx_close(&c->master);
	memset(c, 0, sizeof(*c));
	c->master = -1;
}

/* It waits for this before it asks, so a refusal is never overtaken. */
static void
ctl_full(int fd)
{
	const struct sbx_ctl_refused q = { .code = "busy",
		.reason = "the suite has as many connections of operators as "
		"it may", .next = "End a shell first." };

	(void)sbx_wire_send(fd, SBX_PROC_MONITOR, SBX_MSG_CTL_REFUSED, 0, &q,
	    NULL, MSG_DONTWAIT);
}

/*
 * Safe for a hostile peer: it is root or whoever started the suite, or it is
 * closed unread.  Takes fd.
 */
static void
ctl_new(struct monitor *m, int fd)
{
	int SBX_CLEANUP(fd) conn = fd;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	struct ctl *c = NULL;
	size_t i;

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1 ||
	    cred.pid == 0 || !policy_is_ctl(m, cred.uid)) {
		log_warn("not an operator, closed uid=%u", cred.uid);
		return;
	}
	for (i = 0; i < SBX_NELEM(m->ctls) && c == NULL; i++)
		if (!m->ctls[i].used)
			c = &m->ctls[i];
	if (c == NULL) {
		ctl_full(conn);
		return;
	}
	*c = (struct ctl){ .used = true, .m = m, .uid = cred.uid,
		.by_ns = sbx_mono_ns() + FIRST_NS, .master = -1 };
	c->peer = sbx_peer_new(m->base, sbx_steal_fd(&conn),
	    &monitor_from_cli, c, ctl_ended);
	sbx_peer_set_state(c->peer, CTL_NEW);
	(void)sbx_send_ctl_hello(c->peer, 0,
	    &(struct sbx_ctl_hello){ .version = PACKAGE_VERSION }, NULL);
	tick_arm(m);
}

static void
on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct monitor *m = arg;
	unsigned i;
	int conn;

	(void)what;
	for (i = 0; i < ACCEPT_BATCH && !m->stopping; i++) {
		conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (conn >= 0) {
			ctl_new(m, conn);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* no descriptor left: not again before the next tick */
		log_warn("accept of an operator: %s", strerror(errno));
		(void)event_del(m->ctl_accept);
		tick_arm(m);
		return;
	}
}

void
ctl_serve(struct monitor *m)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->ctls); i++)
		m->ctls[i].master = -1;
	if (m->fd_ctl == -1)
		return;
	m->ctl_accept = event_new(m->base, m->fd_ctl, EV_READ | EV_PERSIST,
	    on_accept, m);
	if (m->ctl_accept == NULL || event_add(m->ctl_accept, NULL) != 0)
		sbx_fatal("the control socket cannot be watched");
}

struct ctl *
ctl_of_run(struct monitor *m, const char *run)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->ctls); i++)
		if (m->ctls[i].used && strcmp(m->ctls[i].run, run) == 0)
			return (&m->ctls[i]);
	return (NULL);
}

struct ctl *
ctl_of_back(struct monitor *m, uint32_t id)
{
	for (size_t i = 0; i < SBX_NELEM(m->ctls); i++)
		if (m->ctls[i].used && id != 0 && m->ctls[i].back_id == id)
			return (&m->ctls[i]);
	return (NULL);
}

void
ctl_over(struct ctl *c)
{
	sbx_peer_set_state(c->peer, CTL_OVER);
	c->back_id = c->look_id = 0;
	c->by_ns = sbx_mono_ns() + FIRST_NS;
	tick_arm(c->m);
}

void
ctl_refuse(struct ctl *c, const char *code, const char *next,
    const char *fmt, ...)
{
	char reason[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	(void)sbx_send_ctl_refused(c->peer, c->id,
	    &(struct sbx_ctl_refused){ .code = code, .reason = reason,
	    .next = next }, NULL);
	c->run[0] = '\0';
	ctl_over(c);
}

/* A shell may last; everything else of a connection has its time. */
void
ctl_tick(struct monitor *m, uint64_t now_ns)
{
	struct ctl *c;
	size_t i;

	if (m->ctl_accept != NULL &&
	    !event_pending(m->ctl_accept, EV_READ, NULL))
		(void)event_add(m->ctl_accept, NULL);
	for (i = 0; i < SBX_NELEM(m->ctls); i++) {
		c = &m->ctls[i];
		if (!c->used || sbx_peer_state(c->peer) == CTL_SHELL)
			continue;
		tick_arm(m);
		if (now_ns < c->by_ns)
			continue;
		if (sbx_peer_state(c->peer) == CTL_ASKED) {
			if (lockdown_late(c))
				continue;
			shell_gone(c);
			grant_ctl_gone(c);
			ctl_refuse(c, "timeout", c->look_id != 0 ? "`sbx "
			    "publish show` tells whether it does it later." :
			    "", "the suite did not do it in time");
		} else
			sbx_peer_end_later(c->peer, SBX_E_TIMEOUT);
	}
}
