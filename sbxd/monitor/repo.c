#include "sbxd/monitor/monitor.h"

#include <string.h>

/*
 * A repository that one call of a worker reads in a sandbox: with a credential
 * where it is listed and there is a source, for as long as the call lasts, and
 * else as any sandbox with a way out may.
 */

void
repo_anonymous(struct worker *w, const char *code, const char *why)
{
	(void)sbx_send_repo_opened(w->peer, w->ask.id,
	    &(struct sbx_repo_opened){ .grant = "", .code = code,
	    .why = why }, NULL);
	ask_done(w);
}

/*
 * Safe for a hostile worker: into own sandboxes only, and what may be read with
 * a credential is the operator's to say.  What comes of it is in that sandbox
 * alone, whose owner the worker speaks for.
 */
void
repo_open(struct monitor *m, struct worker *w, const struct sbx_repo_open *q)
{
	struct sandbox *sb = sandbox_own(m, w, q->container);

	if (sb == NULL)
		return;
	if (m->locked)
		ask_refuse(w, "locked", LOCKED_NEXT, LOCKED_WHY);
	else if (!repos_is_one(q->host, q->repo))
		ask_refuse(w, "bad_argument", "Write OWNER/NAME, or "
		    "HOST/OWNER/NAME.", "there can be no such repository");
	else if (!sb->network)
		ask_refuse(w, "no_network", "Make a sandbox with "
		    "allow_network.", "sandbox %s has no way out", sb->id);
	else if (w->who->anybody)
		repo_anonymous(w, "anonymous", "a client of http_auth none has no part in "
		    "the operator's credentials");
	else if (!repos_may_read(m, q->host, q->repo)) {
		journal_add(m, &(struct record){ .op = "repo_open",
		    .phase = "refused", .who = w->who, .container = sb->id },
		    "host", q->host, "repo", q->repo, NULL);
		repo_anonymous(w, "not_listed", "the repository is in neither "
		    "allowed_repo nor allow_read: it is read without a credential");
	} else if (!repos_source(m, q->host))
		repo_anonymous(w, "no_source", "no source of a credential is "
		    "configured for that host");
	else if (!grant_fetch(m, w, sb, q->host, q->repo, q->lifetime_ms))
		ask_refuse(w, "busy", "Retry in a moment.", "as many "
		    "repositories are being read with a credential as may be");
}

/* Absolute, and it does not lead up. */
static bool
path_ok(const char *path)
{
	const char *p;

	if (path[0] != '/')
		return (false);
	for (p = strstr(path, "/.."); p != NULL; p = strstr(p + 1, "/.."))
		if (p[3] == '/' || p[3] == '\0')
			return (false);
	return (true);
}

/* Also when it went ill or had none. */
void
repo_run_ended(struct monitor *m, const struct run *r)
{
	struct sandbox *sb = sandbox_find(m, r->container);
	uint64_t end_ns = r->started_wall_ns + (r->ended_ns - r->started_ns);

	grant_run_ended(m, r);
	if (r->clone_path != NULL && sb != NULL && r->why == SBX_EXIT_EXITED &&
	    r->status == 0)
		guard_copied(m, sb, r->clone_path, r->started_wall_ns,
		    end_ns);
}

/*
 * Safe for a hostile worker: a grant of its own call goes to a run of its own
 * principal in the same sandbox, and lives no longer for it.  What is called a
 * clone is excused by the guard for the time that this run took: the principal
 * loses nothing that it could not discard by force.
 */
void
repo_run(struct monitor *m, struct worker *w, const struct sbx_repo_run *q)
{
	struct run *r = run_own(m, w, q->run);

	if (r == NULL)
		return;
	if ((q->path[0] != '\0' || q->grant[0] == '\0') && !path_ok(q->path)) {
		ask_refuse(w, "bad_argument", "Write an absolute path without "
		    "\"..\" in it.", "there can be no clone in that place");
		return;
	}
	if (q->grant[0] != '\0' && !grant_to_run(m, w, q->grant, r)) {
		ask_refuse(w, "unknown_grant", "", "this call has no such "
		    "grant for that sandbox");
		return;
	}
	if (q->path[0] != '\0') {
		free(r->clone_path);
		r->clone_path = sbx_xstrdup(q->path);
	}
	if (r->state == SBX_RUN_ENDED)
		repo_run_ended(m, r);
	(void)sbx_send_repo_runs(w->peer, w->ask.id,
	    &(struct sbx_repo_runs){ 0 }, NULL);
	ask_done(w);
}
