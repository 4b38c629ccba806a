#include "sbxd/monitor/monitor.h"

#include "common/base/egress_env.h"
#include "sbx-proxy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Ways out of sandboxes.  What they may reach is sbx.conf's to say and the
 * proxy's to hold them to; which of them have one is decided here, and asked
 * of the proxy only once the record of their making is durable.
 */

#define ENV_BYTES 32768u	/* ENGINE_EXEC */
#define RESOLV "/etc/resolv.conf"

/* --- what they may reach ------------------------------------------------- */

int
egress_check(const struct sbx_conf *c, struct sbx_err *err)
{
	struct policy policy;
	int r;

	if ((r = policy_conf(&policy, c, err)) != 0)
		return (r);
	r = repos_check(c, &policy, err);
	policy_clear(&policy);
	return (r);
}

/* A file, which a directory or a pipe is not; -1 with errno. */
static int
open_file(const char *path)
{
	int SBX_CLEANUP(fd) fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY |
	    O_NONBLOCK);
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		return (-1);
	if (!S_ISREG(st.st_mode)) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
		return (-1);
	}
	return (sbx_steal_fd(&fd));
}

/* Where distributions have theirs: Debian and Arch, Fedora, SUSE, Alpine. */
static const char *const system_roots[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* The first that can be read; none: the first, which then reads as empty. */
static const char *
find_roots(void)
{
	for (size_t i = 0; i < SBX_NELEM(system_roots); i++)
		if (access(system_roots[i], R_OK) == 0)
			return (system_roots[i]);
	return (system_roots[0]);
}

/* Something that reads as empty where there is none: the proxy then says what
 * is missing to whoever needs it. */
static int
open_or_null(const char *path, struct sbx_err *err)
{
	int fd = open_file(path);

	if (fd == -1)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		(void)sbx_err_sys(err, "%.160s", path);
	return (fd);
}

int
setup_egress(struct monitor *m, struct sbx_err *err)
{
	bool own = m->conf.upstream_ca[0] != '\0';
	const char *roots = own ? m->conf.upstream_ca : find_roots();

	m->fd_roots = own ? open_file(roots) : open_or_null(roots, err);
	if (own && m->fd_roots == -1)
		return (sbx_err_sys(err, "upstream_ca: %.160s", roots));
	if (m->fd_roots == -1 ||
	    (m->fd_resolv = open_or_null(RESOLV, err)) == -1)
		return (SBX_E_SYS);
	return (0);
}

int
egress_policy(struct monitor *m)
{
	struct sbx_peer *p = m->comps[SBX_PROC_PROXY].peer;
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	struct sbx_err err;
	struct sbx_proxy_policy msg = {
		.any_host = m->conf.allow_any_host, .locked = m->locked,
		/* to the proxy 0 is what it says */
		.out_bytes = m->conf.tunnel_out_bytes != 0 ?
		    m->conf.tunnel_out_bytes : UINT64_MAX };

	if (p == NULL ||
	    policy_entries(&m->conf, &msg.entries, &b, &err) != 0)
		return (SBX_E_CLOSED);
	if (m->conf.allow_any_host)
		log_warn("allow_any_host is set: `allow_host *` lets every "
		    "sandbox with egress reach the whole Internet");
	return (sbx_send_proxy_policy(p, 0, &msg,
	    (int[]){ m->fd_roots, m->fd_resolv }));
}

/* The settings of egress are the ones that can change while a suite runs; the
 * sources of credentials change with the broker (broker_renew). */
static void
take_settings(struct sbx_conf *to, const struct sbx_conf *from)
{
	to->allow_host = from->allow_host;
	to->intercept_host = from->intercept_host;
	to->grant_host = from->grant_host;
	to->resolve = from->resolve;
	to->allow_any_host = from->allow_any_host;
	to->tunnel_out_bytes = from->tunnel_out_bytes;
	to->allowed_repo = from->allowed_repo;
	to->allow_read = from->allow_read;
}

static bool
is_source(unsigned k)
{
	return (k == SBX_CONF_K_github_token_command ||
	    k == SBX_CONF_K_github_token_timeout ||
	    k == SBX_CONF_K_github_app || k == SBX_CONF_K_github_token_file ||
	    k == SBX_CONF_K_allow_bot_commands ||
	    k == SBX_CONF_K_publish_signing_key);
}

/* After take_settings(): who has made something stricter must not believe it in
 * force.  What the command line says stays. */
static void
tell_left(const struct monitor *m, const struct sbx_conf *c)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { .max = 4096 };

	for (unsigned k = 0; k < SBX_CONF_K_MAX; k++)
		if (!is_source(k) &&
		    m->conf.source[k] != SBX_CONF_FROM_ARGS &&
		    !sbx_conf_same(&m->conf, c, &sbx_conf_rows[k]))
			(void)sbx_buf_printf(&b, " %s", sbx_conf_rows[k].name);
	if (b.len > 0)
		log_warn("SIGHUP: these are as they were until the suite is "
		    "started again:%.*s", (int)b.len, b.data);
}

/* A mistake changes nothing: what was allowed before is what was meant then. */
void
egress_reload(struct monitor *m)
{
	struct sbx_conf *c = sbx_xcalloc(1, sizeof(*c));
	struct sbx_err err = { 0 };
	char entries[24], repos[24];
	int r;

	if ((r = options_reread(m, c, &err)) == 0 &&
	    (r = egress_check(c, &err)) != 0)
		options_place(m, c, &err);
	if (r != 0)
		log_err("SIGHUP: %s; the settings stay as they were", err.msg);
	else {
		if (!repos_same_sources(m->renew != NULL ? m->renew : &m->conf,
		    c))
			broker_renew(m, c);
		else
			broker_look(m);
		take_settings(&m->conf, c);
		grant_relisted(m);
		(void)egress_policy(m);	/* a new proxy gets it at its start */
		(void)snprintf(entries, sizeof(entries), "%u",
		    c->allow_host.count + c->intercept_host.count +
		    c->grant_host.count);
		(void)snprintf(repos, sizeof(repos), "%u",
		    c->allowed_repo.count + c->allow_read.count);
		journal_add(m, &(struct record){ .op = "egress_policy" },
		    "hosts", entries, "repositories", repos, "any_host",
		    c->allow_any_host ? "1" : "0", NULL);
		log_notice("SIGHUP: the hosts of egress and the repositories "
		    "were read again");
		tell_left(m, c);
	}
	free(c);
}

/* --- which of them ------------------------------------------------------- */

static int
send_open(struct monitor *m, struct sandbox *sb)
{
	struct sbx_peer *p = m->comps[SBX_PROC_PROXY].peer;

	if (p == NULL)
		return (SBX_E_CLOSED);
	return (sbx_send_proxy_open(p, ++m->next_id, &(struct sbx_proxy_open){
	    .container = sb->id, .principal = sb->who->name }, NULL));
}

/* data: owned by the caller. */
static struct sbx_strs
copy_strs(const struct sbx_strs *s)
{
	char *data = sbx_xcalloc(1, s->len + 1);

	if (s->len > 0)
		memcpy(data, s->data, s->len);
	return ((struct sbx_strs){ data, s->count, s->len });
}

/* What SANDBOX_READY said is told when its way out is open, too. */
static struct made *
made_keep(const struct sbx_sandbox_ready *q)
{
	struct made *k = sbx_xcalloc(1, sizeof(*k));

	k->env = copy_strs(&q->env);
	k->entrypoint = copy_strs(&q->entrypoint);
	(void)sbx_strlcpy(k->user, q->user, sizeof(k->user));
	(void)sbx_strlcpy(k->workdir, q->workdir, sizeof(k->workdir));
	k->own_user = q->own_user;
	return (k);
}

void
made_free(struct made *k)
{
	if (k == NULL)
		return;
	free((void *)(uintptr_t)k->env.data);
	free((void *)(uintptr_t)k->entrypoint.data);
	free(k);
}

/* None is better than one that its maker takes for open. */
static void
fail(struct monitor *m, struct sandbox *sb, const char *reason)
{
	struct worker *w = ask_of_sandbox(m, SBX_MSG_SB_CREATE, sb->id);

	journal_add(m, &(struct record){ .op = "egress", .phase = "start",
	    .who = sb->who, .container = sb->id, .code = 1 }, "reason",
	    reason, NULL);
	made_free(sb->made);
	sb->made = NULL;
	sb->state = SBX_SANDBOX_READY;
	if (w != NULL)
		ask_refuse(w, "egress_failed", "Create one without "
		    "allow_network, or have the operator look at `sbx "
		    "doctor`.", "the sandbox could not be given a way out: "
		    "%s", reason);
	sandbox_stop(m, sb, "its way out could not be opened");
}

void
egress_open(struct monitor *m, struct sandbox *sb,
    const struct sbx_sandbox_ready *q)
{
	sb->made = made_keep(q);
	if (send_open(m, sb) != 0)
		fail(m, sb, "the proxy is not there");
}

/* Of a sandbox that is being made, or, from a proxy that was started again, of
 * one that had its way out already. */
void
egress_opened(struct monitor *m, const struct sbx_proxy_opened *q)
{
	struct sandbox *sb = sandbox_find(m, q->container);
	struct sbx_sandbox_ready ready = { .container = q->container };
	struct made *k;

	if (sb == NULL || !sb->network)
		return;
	if ((k = sb->made) == NULL) {
		if (q->error != 0)
			log_warn("sandbox %s has lost its way out: %s",
			    sb->id, q->reason);
		return;
	}
	if (q->error != 0) {
		fail(m, sb, q->reason);
		return;
	}
	journal_add(m, &(struct record){ .op = "egress", .phase = "start",
	    .who = sb->who, .container = sb->id }, NULL);
	sb->made = NULL;
	ready.env = k->env;
	ready.entrypoint = k->entrypoint;
	ready.user = k->user;
	ready.workdir = k->workdir;
	ready.own_user = k->own_user;
	sandbox_made(m, sb, &ready);
	made_free(k);
}

int
egress_proxy_started(struct monitor *m)
{
	struct sandbox *sb;
	int r;

	grant_ended(m, NULL, "the proxy was started again");
	r = egress_policy(m);
	TAILQ_FOREACH(sb, &m->sandboxes, link)
		if (r == 0 && sb->network &&
		    (sb->state != SBX_SANDBOX_CREATING || sb->made != NULL))
			r = send_open(m, sb);
	return (r);
}

int
egress_env(const struct sandbox *sb, const struct sbx_strs *own,
    struct sbx_strs *ret, struct sbx_buf *b)
{
	const char *s = NULL;
	int r;

	sbx_buf_init(b, ENV_BYTES);
	memset(ret, 0, sizeof(*ret));
	r = sb->network ? sbx_egress_env_add(ret, b) : 0;
	/* the caller's come last and so decide */
	while (r == 0 && own != NULL && (s = sbx_strs_next(own, s)) != NULL)
		r = sbx_strs_add(ret, b, s);
	return (r);
}
