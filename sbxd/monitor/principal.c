#include "sbxd/monitor/monitor.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Who is connected.  A principal is an identity that the kernel told us (the
 * peer's uid); a session is one connection of it, known to the front by a
 * random handle that it cannot make up.
 */

/* Its finished runs and dependency layers go with it; it has nothing else
 * (principal_in_use). */
static void
principal_free(struct monitor *m, struct principal *p)
{
	gate_drop_principal(m, p);
	publish_drop_principal(m, p);
	override_drop_principal(m, p);
	exchange_drop_principal(m, p);
	api_drop_principal(m, p);
	deps_drop_principal(m, p);
	snapshot_drop_principal(m, p);
	run_drop_principal(m, p);
	memset(p, 0, sizeof(*p));
}

/* Does anything still belong to it or act for it? */
static bool
principal_in_use(const struct monitor *m, const struct principal *p)
{
	const struct sandbox *sb;
	size_t i;

	if (p->sessions > 0)
		return (true);
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (sb->who == p)
			return (true);
	if (snapshot_any_of(m, p))
		return (true);
	for (i = 0; i < SBX_NELEM(m->calls); i++)
		if (m->calls[i].used && m->calls[i].who == p)
			return (true);
	for (i = 0; i < SBX_NELEM(m->workers); i++)
		if (m->workers[i].state != WORKER_NONE &&
		    m->workers[i].who == p)
			return (true);
	return (false);
}

/* The one of this name, else a free slot, else that of somebody who is gone
 * and left nothing but finished runs. */
static struct principal *
principal_get(struct monitor *m, const char *name, uid_t uid, gid_t gid)
{
	struct principal *p, *slot = NULL;
	size_t i;

	for (i = 0; i < SBX_MAX_PRINCIPALS; i++) {
		p = &m->principals[i];
		if (p->used && strcmp(p->name, name) == 0)
			return (p);
		if (!p->used && slot == NULL)
			slot = p;
	}
	for (i = 0; slot == NULL && i < SBX_MAX_PRINCIPALS; i++) {
		p = &m->principals[i];
		if (!principal_in_use(m, p)) {
			principal_free(m, p);
			slot = p;
		}
	}
	if (slot == NULL)
		return (NULL);
	slot->used = true;
	slot->uid = uid;
	slot->gid = gid;
	(void)sbx_strlcpy(slot->name, name, sizeof(slot->name));
	return (slot);
}

/* No client's: what the suite does by itself. */
struct principal *
principal_suite(struct monitor *m)
{
	return (principal_get(m, "suite", m->uid, m->gid));
}

/* A new handle each time: one that ended is never valid again. */
static struct session *
session_new(struct monitor *m, const char *name, uid_t uid, gid_t gid,
    const char **ret_why)
{
	struct session *s = NULL;
	size_t i;

	for (i = 0; i < SBX_NELEM(m->sessions) && s == NULL; i++)
		if (!m->sessions[i].used)
			s = &m->sessions[i];
	if (s == NULL) {
		*ret_why = "too many connections";
		return (NULL);
	}
	if ((s->who = principal_get(m, name, uid, gid)) == NULL) {
		*ret_why = "too many principals";
		return (NULL);
	}
	s->used = true;
	s->fd = s->root_fd = -1;
	do
		sbx_random(&s->handle, sizeof(s->handle));
	while (s->handle == 0);
	s->who->sessions++;
	return (s);
}

static struct session *
session_of_uid(struct monitor *m, uid_t uid, gid_t gid, const char **ret_why)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "uid:%u", uid);
	return (session_new(m, name, uid, gid, ret_why));
}

/* The session of a token that is in use.  sha256 "": of http_auth none. */
static struct session *
session_of_token(struct monitor *m, const char *sha256)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->sessions); i++)
		if (m->sessions[i].used && m->sessions[i].token &&
		    strcmp(m->sessions[i].sha256, sha256) == 0)
			return (&m->sessions[i]);
	return (NULL);
}

/* Whose token is it, by the file as it is now, looked at ten times a second
 * at most: it may be new, or taken back. */
static struct token *
token_now(struct monitor *m, const char *sha256)
{
	uint64_t now = sbx_mono_ns();

	if (!sbx_is_hex(sha256, 64))
		return (NULL);
	if (now - m->tokens_read_ns > S_NS / 10) {
		m->tokens_read_ns = now;
		if (tokens_read(m, true) != 0)
			log_warn("the file of tokens has a line that is none, "
			    "ignoring what is new in it");
	}
	return (token_find(m, sha256));
}

/*
 * Safe for a hostile front: it knows the digests of those who showed their
 * token to it, and no others.  It asks now and again for one that is in use,
 * which keeps its session.
 */
struct session *
session_token(struct monitor *m, const char *sha256)
{
	bool open = sha256[0] == '\0';
	struct token *t = open ? NULL : token_now(m, sha256);
	char name[80] = "http:anybody";
	struct session *s;
	const char *why;

	if (open ? strcmp(m->conf.http_auth, "none") != 0 : t == NULL)
		return (NULL);
	if ((s = session_of_token(m, sha256)) != NULL)
		return (s);
	if (!open)
		(void)snprintf(name, sizeof(name), "token:%s", t->name);
	s = session_new(m, name, open ? (uid_t)-1 : t->uid, open ? (gid_t)-1 :
	    t->gid, &why);
	if (s == NULL)
		return (NULL);
	s->token = true;
	s->who->anybody = open;
	(void)sbx_strlcpy(s->sha256, sha256, sizeof(s->sha256));
	if (!open && t->root_fd != -1)
		s->root_fd = fcntl(t->root_fd, F_DUPFD_CLOEXEC, 3);
	return (s);
}

/* The caller of sbxd itself, whose uid needs no asking. */
struct session *
session_stdio(struct monitor *m)
{
	const char *why;
	struct session *s = session_of_uid(m, m->uid, m->gid, &why);

	if (s != NULL && m->fd_root != -1)
		s->root_fd = fcntl(m->fd_root, F_DUPFD_CLOEXEC, 3);
	return (s);
}

/*
 * Safe for a hostile front: the descriptor must be an accepted connection of
 * our own listener (its local address is the listener's; the front can bind
 * nothing), and who is at its other end is the kernel's word.
 */
int
session_accept(struct monitor *m, int conn_fd, struct session **ret_s,
    const char **ret_why)
{
	struct sockaddr_un sun = { 0 };
	socklen_t len = sizeof(sun);
	struct ucred cred = { 0 };
	struct session *s;

	*ret_why = "not a connection of this suite's socket";
	if (getsockname(conn_fd, (struct sockaddr *)&sun, &len) == -1 ||
	    sun.sun_family != AF_UNIX || len <= sizeof(sun.sun_family) ||
	    strncmp(sun.sun_path, m->socket, sizeof(sun.sun_path)) != 0 ||
	    m->socket[0] == '\0')
		return (SBX_E_POLICY);
	len = sizeof(cred);
	if (getsockopt(conn_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1 ||
	    cred.pid == 0)
		return (SBX_E_POLICY);
	if (m->by_root && cred.uid == m->front_uid)
		return (SBX_E_POLICY);
	if ((s = session_of_uid(m, cred.uid, cred.gid, ret_why)) == NULL)
		return (SBX_E_LIMIT);
	s->fd = fcntl(conn_fd, F_DUPFD_CLOEXEC, 3);
	*ret_s = s;
	return (0);
}

/* By handle only; at most 65 are looked through. */
struct session *
session_find(struct monitor *m, uint64_t handle)
{
	size_t i;

	for (i = 0; i < SBX_NELEM(m->sessions); i++)
		if (m->sessions[i].used && m->sessions[i].handle == handle)
			return (&m->sessions[i]);
	return (NULL);
}

/* Its calls are cancelled; sandboxes stay, they belong to the principal. */
void
session_free(struct monitor *m, struct session *s)
{
	call_cancel_all(m, s);
	sbx_close(&s->fd);
	sbx_close(&s->root_fd);
	s->who->sessions--;
	memset(s, 0, sizeof(*s));
	s->fd = s->root_fd = -1;
}

/*
 * The client opened it itself, so it could read it anyway; which directories
 * are refused all the same is policy.  One a connection.
 */
int
session_root(struct monitor *m, struct session *s, int fd)
{
	if (s->root_fd != -1 || !policy_copy_root(m, fd)) {
		sbx_close(&fd);
		return (SBX_E_POLICY);
	}
	s->root_fd = fd;
	return (0);
}
