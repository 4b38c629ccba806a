/* The submodules of a clone, and those in them (clone.h). */

#include "sbxd/worker/clone.h"

#include "sbxd/worker/run.h"
#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <stdio.h>
#include <string.h>

#define OUT_MAX (256u << 10)
#define PATH_SHOWN 200u

struct module {
	/* below the work tree; borrowed from what named it */
	const char *dir;	/* the tree that has it, "": the clone's own */
	const char *path;	/* in that */
	struct gh_repo repo;	/* which it is, if it may be asked for */
	bool known;
	char grant[17];
};

/* All of one clone: level after level, each in the trees of the one before. */
struct modules {
	struct call *call;
	struct clone *c;
	struct module m[CLONE_MODULES];
	size_t n, from;		/* from: the first of this level */
	size_t more;		/* of this level, for which there is no room */
	bool over;		/* there is no use in going on */
	struct sbx_buf out[CLONE_NESTED];	/* owned: of each level */
};

static bool
pair(struct pieces *in, const char **ret_name, const char **ret_value)
{
	size_t n;

	return (piece_next(in, ret_name, &n) && piece_next(in, ret_value, &n));
}

static struct pieces
pieces_of(const struct sbx_buf *b)
{
	return ((struct pieces){ b->data, b->data + b->len });
}

/* --- which they are ---------------------------------------------------------------- */

/* "submodule.NAME.url" and its path stand side by side in no certain order, in
 * what follows `in`. */
static const char *
module_url(struct pieces in, const char *key, size_t len)
{
	const char *name, *value;

	while (pair(&in, &name, &value) && strcmp(name, "in") != 0)
		if (strcmp(name, "module") == 0 &&
		    strncmp(value, key, len) == 0 &&
		    strncmp(value + len, "url\n", 4) == 0)
			return (value + len + 4);
	return ("");
}

/* Which repository a URL of .gitmodules means, as git will, in a clone of
 * `from`.  false: none that could be granted. */
static bool
module_repo(const struct gh_repo *from, const char *url, struct gh_repo *ret_r)
{
	char text[512];
	const char *slash = strchr(from->repo, '/');

	if (strncmp(url, "https://", 8) == 0)
		return (gh_repo_parse(url, ret_r));
	if (strncmp(url, "ssh://git@", 10) == 0)
		(void)snprintf(text, sizeof(text), "https://%s", url + 10);
	else if (strncmp(url, "git@", 4) == 0) {
		(void)snprintf(text, sizeof(text), "https://%s", url + 4);
		if (strchr(text + 8, ':') == NULL)
			return (false);
		*strchr(text + 8, ':') = '/';
	} else if (strncmp(url, "../../", 6) == 0)
		(void)snprintf(text, sizeof(text), "https://%s/%s",
		    from->host, url + 6);
	else if (strncmp(url, "../", 3) == 0)
		(void)snprintf(text, sizeof(text), "https://%s/%.*s/%s",
		    from->host, (int)(slash - from->repo), from->repo,
		    url + 3);
	else
		return (false);
	return (gh_repo_parse(text, ret_r));
}

/* One more, if there is room.  from NULL: what has it is nothing that could be
 * granted. */
static void
module_add(struct modules *s, struct pieces in, const char *value,
    const char *dir, const struct gh_repo *from)
{
	const char *nl = strchr(value, '\n');
	struct module *m;

	if (nl == NULL || nl - value < 5 || strncmp(nl - 5, ".path", 5) != 0 ||
	    nl[1] == '\0')
		return;
	if (s->n == CLONE_MODULES) {
		s->more++;
		return;
	}
	m = &s->m[s->n++];
	*m = (struct module){ .dir = dir, .path = nl + 1 };
	m->known = from != NULL && module_repo(from, module_url(in, value,
	    (size_t)(nl - value) - 4), &m->repo);
}

/* The one that was put at that place; NULL: none. */
static const struct module *
module_at(const struct modules *s, const char *at)
{
	const struct module *m;
	size_t n;

	for (m = s->m; m < s->m + s->n; m++) {
		n = strlen(m->dir);
		if (strncmp(at, m->dir, n) == 0 &&
		    (n == 0 || at[n++] == '/') && strcmp(at + n, m->path) == 0)
			return (m);
	}
	return (NULL);
}

/* Those of `out`, which are the next level. */
static void
level_read(struct modules *s, const struct sbx_buf *out)
{
	struct pieces in = pieces_of(out), part = in;
	const struct gh_repo *from = &s->c->repo;
	const char *name, *value, *dir = "";
	const struct module *m;

	s->from = s->n;
	while (pair(&in, &name, &value))
		if (strcmp(name, "in") == 0) {
			m = module_at(s, value);
			dir = value;
			from = m != NULL && m->known ? &m->repo : NULL;
			part = in;
		} else if (strcmp(name, "module") == 0)
			module_add(s, part, value, dir, from);
}

/* --- what they may be read with ----------------------------------------------------- */

static const char *
module_shown(const struct module *m, char vis[PATH_SHOWN])
{
	char text[PATH_SHOWN];

	(void)snprintf(text, sizeof(text), "%s%s%s", m->dir, *m->dir != '\0' ?
	    "/" : "", m->path);
	return (sbx_vis(vis, PATH_SHOWN, text, strlen(text)));
}

/* Those that the client named and the operator lists get a grant, others are
 * read without.  0, or the channel's end. */
static int
level_grant(struct modules *s)
{
	struct module *m;
	struct ask_repo g;
	char vis[PATH_SHOWN];
	int error;

	for (m = s->m + s->from; m < s->m + s->n; m++) {
		if (!m->known || !clone_module_is_named(s->c, &m->repo))
			continue;
		error = clone_grant(s->call, s->c, &m->repo, &g);
		if (error == 0) {
			memcpy(m->grant, g.grant, sizeof(m->grant));
			if (*g.grant != '\0')
				clone_module_granted(s->c, &m->repo);
		} else if (error == SBX_E_POLICY)
			clone_say(s->c, "submodule %s: %s",
			    module_shown(m, vis), s->call->ask->refused.reason);
		else
			return (error);
	}
	return (0);
}

/* What no run took over. */
static int
level_close(struct modules *s)
{
	struct module *m;

	for (m = s->m + s->from; m < s->m + s->n; m++) {
		if (*m->grant == '\0')
			continue;
		if (repo_close(s->call->ask, m->grant) != 0 &&
		    s->call->ask->broken)
			return (SBX_E_STATE);
		*m->grant = '\0';
	}
	return (0);
}

/* --- fetching them ------------------------------------------------------------------ */

/* What became of each: pieces again. */
static void
level_said(struct modules *s, const struct sbx_buf *out)
{
	struct pieces in = pieces_of(out);
	const char *name, *value, *path = NULL;
	char vis[PATH_SHOWN], said[500];

	while (pair(&in, &name, &value)) {
		if (strcmp(name, "failed") == 0)
			path = value;
		else if (strcmp(name, "said") == 0 && path != NULL) {
			clone_say(s->c, "submodule %s could not be fetched: "
			    "%s", sbx_vis(vis, sizeof(vis), path,
			    strlen(path)), sbx_vis(said, sizeof(said), value,
			    strlen(value)));
			path = NULL;
		}
	}
}

/* It has ended, or goes on.  0, or the channel's end. */
static int
level_ended(struct modules *s, const char *run, const struct ask_run *st,
    struct sbx_buf *out)
{
	bool whole;
	int r;

	if (st->state != SBX_RUN_ENDED) {
		clone_say(s->c, "The submodules are still being fetched, by "
		    "job %s: wait for it with sandbox_exec_check. Those in "
		    "them are not.", run);
		s->over = true;
		return (0);
	}
	/* nobody else worked there meanwhile */
	r = repo_run(s->call->ask, run, "", s->c->dest);
	if (r == 0)
		r = script_output(s->call, st, OUT_MAX, out, &whole);
	if (r != 0)
		return (call_refused(s->call, r));
	level_said(s, out);
	if (st->why != SBX_EXIT_EXITED || script_exit(st) != 0)
		clone_say(s->c, "Not all submodules were fetched: read_output "
		    "of run %s says why.", run);
	return (0);
}

/* Start, bind the grants to the run, wait.  0, or the channel's end. */
static int
level_run(struct modules *s, struct sbx_buf *out)
{
	const char *argv[8 + 2 * CLONE_MODULES + 1] = { "sh", "-c",
		clone_sh, "sbx", "modules", s->c->repo.host, s->c->dest };
	char depth[24], run[17];
	struct module *m;
	struct ask_run st;
	size_t n = 7;
	int r;

	(void)snprintf(depth, sizeof(depth), "%llu",
	    (unsigned long long)s->c->depth);
	argv[n++] = depth;
	for (m = s->m + s->from; m < s->m + s->n; m++) {
		argv[n++] = m->dir;
		argv[n++] = m->path;
	}
	r = clone_start(s->call, s->c, argv, "/", run);
	if (r != 1)
		return (r);
	for (m = s->m + s->from; m < s->m + s->n; m++) {
		if (*m->grant == '\0')
			continue;
		r = repo_run(s->call->ask, run, m->grant, "");
		if (r != 0)
			return (call_refused(s->call, r));
		*m->grant = '\0';	/* ends with the run */
	}
	r = run_wait(s->call, run, script_wait_ms(s->call, s->c->timeout_ms),
	    s->c->timeout_ms, &st);
	return (r == 0 ? level_ended(s, run, &st, out) :
	    call_refused(s->call, r));
}

/* A refusal is a warning.  0, or the channel's end. */
static int
level_fetch(struct modules *s, struct sbx_buf *out)
{
	int r = level_grant(s), closed;

	if (s->more > 0)
		clone_say(s->c, "Only the first %u of %zu submodules were "
		    "fetched.", CLONE_MODULES, s->n + s->more);
	s->over = s->more > 0;
	if (r == 0)
		r = level_run(s, out);
	if (s->call->res->kind == SBX_RESULT_ERROR) {
		clone_say(s->c, "The submodules were not fetched.");
		result_reset(s->call->res);
		s->over = true;
	}
	closed = level_close(s);
	return (r != 0 ? r : closed);
}

static int
fetch(struct modules *s)
{
	const struct sbx_buf *named = &s->c->out;
	char vis[PATH_SHOWN];
	int r = 0;

	for (unsigned level = 0; r == 0 && !s->over; level++) {
		level_read(s, named);
		if (s->n == s->from && s->more == 0)
			break;
		if (level == CLONE_NESTED) {
			clone_say(s->c, "submodule %s is deeper than %u in "
			    "others: it, and what else is so deep, is not "
			    "fetched.", module_shown(&s->m[s->from], vis),
			    CLONE_NESTED);
			break;
		}
		sbx_buf_init(&s->out[level], OUT_MAX);
		r = level_fetch(s, &s->out[level]);
		named = &s->out[level];
	}
	return (r);
}

int
clone_modules(struct call *call, struct clone *c)
{
	struct modules s = { .call = call, .c = c };
	int r = 0;

	if (c->modules)
		r = fetch(&s);
	else {
		level_read(&s, &c->out);
		if (s.n > 0)
			clone_say(c, "It has %zu submodules, which were not "
			    "fetched: clone_repo has the argument submodules.",
			    s.n + s.more);
	}
	for (unsigned i = 0; i < CLONE_NESTED; i++)
		sbx_buf_clear(&s.out[i]);
	return (r);
}
