#include "sbxd/monitor/monitor.h"

#include "common/base/install.h"

#include <string.h>

/*
 * What package_install put into a sandbox.  A fresh verification installs the
 * same into its dependency layer, and what is in that decides whether tests
 * pass: so it is kept here, where nothing that runs in a sandbox gets at it,
 * and only as the names that a client gave.  It ends with the sandbox, and goes
 * with its snapshots and forks.
 */

void
installs_clear(struct installs *i)
{
	free(i->lines);
	*i = (struct installs){ 0 };
}

void
installs_copy(struct installs *to, const struct installs *from)
{
	struct installs copy = *from;

	copy.lines = NULL;
	if (from->len > 0) {
		copy.lines = sbx_xcalloc(1, SBX_INSTALLS_BYTES);
		memcpy(copy.lines, from->lines, from->len);
	}
	installs_clear(to);
	*to = copy;
}

/* Where it has the same, NULL: nowhere. */
static char *
find(const struct installs *i, const char *line)
{
	char *p = i->lines;

	for (uint32_t at = 0; at < i->len; at += (uint32_t)strlen(p + at) + 1)
		if (strcmp(p + at, line) == 0)
			return (p + at);
	return (NULL);
}

static bool
room(const struct installs *i, size_t len)
{
	return (i->count < SBX_MAX_INSTALLS &&
	    i->len + len <= SBX_INSTALLS_BYTES);
}

/* The same again is later by that, and there once. */
static void
add(struct installs *i, const char *line)
{
	size_t len = strlen(line) + 1;
	char *p;

	if (i->lines == NULL)
		i->lines = sbx_xcalloc(1, SBX_INSTALLS_BYTES);
	if ((p = find(i, line)) != NULL) {
		i->len -= (uint32_t)len;
		i->count--;
		memmove(p, p + len, (size_t)(i->lines + i->len - p));
	}
	if (len == 1 || !room(i, len)) {
		if (i->left_out < UINT32_MAX)
			i->left_out++;
		return;
	}
	memcpy(i->lines + i->len, line, len);
	i->len += (uint32_t)len;
	i->count++;
}

void
packages_run_ended(struct monitor *m, const struct run *r)
{
	struct sandbox *sb = sandbox_find(m, r->container);

	if (r->install != NULL && sb != NULL && r->why == SBX_EXIT_EXITED &&
	    r->status == 0)
		add(&sb->installs, r->install);
}

/*
 * Safe for a hostile worker: once for a run of its own call, names of packages
 * that its principal may have installed anyway, which each verification tells.
 */
void
packages_note(struct monitor *m, struct worker *w,
    const struct sbx_package_note *q)
{
	struct run *r = run_own(m, w, q->run);
	const struct sandbox *sb;
	struct sbx_buf SBX_CLEANUP_BUF line = { 0 };
	bool kept;

	if (r == NULL)
		return;
	if (r->call == NULL || r->call != w->call || r->install != NULL) {
		ask_refuse(w, "bad_argument", "", "run %s is none of this "
		    "call, or was noted before", r->id);
		return;
	}
	sb = sandbox_find(m, r->container);
	sbx_buf_init(&line, SBX_INSTALLS_BYTES);
	kept = q->whole && sb != NULL && sb->network &&
	    strcmp(r->tool, "package_install") == 0 &&
	    sbx_install_line(&line, q->manager, q->upgrade != 0,
	    q->packages.data, q->packages.len) == 0 &&
	    (room(&sb->installs, line.len) ||
	    find(&sb->installs, line.data) != NULL);
	r->install = sbx_xstrdup(kept ? line.data : "");
	if (r->state == SBX_RUN_ENDED)
		packages_run_ended(m, r);
	(void)sbx_send_package_noted(w->peer, w->ask.id,
	    &(struct sbx_package_noted){ .kept = kept }, NULL);
	ask_done(w);
}
