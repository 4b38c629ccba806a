/* The table as text, for people and for the test that compares units. */

#include "common/privs/row.h"

#include <linux/landlock.h>
#include <string.h>
#include <sys/capability.h>

static const struct {
	uint64_t bit;
	const char *name;
} right_names[] = {
	{ LANDLOCK_ACCESS_FS_EXECUTE, "execute" },
	{ LANDLOCK_ACCESS_FS_WRITE_FILE, "write" },
	{ LANDLOCK_ACCESS_FS_READ_FILE, "read" },
	{ LANDLOCK_ACCESS_FS_READ_DIR, "list" },
	{ LANDLOCK_ACCESS_FS_REMOVE_DIR, "rmdir" },
	{ LANDLOCK_ACCESS_FS_REMOVE_FILE, "unlink" },
	{ LANDLOCK_ACCESS_FS_MAKE_DIR, "mkdir" },
	{ LANDLOCK_ACCESS_FS_MAKE_REG, "create" },
	{ 1ULL << 14, "truncate" },	/* not in every header: see rows.c */
};

static void
print_user(struct sbx_buf *b, const struct sbx_privs_row *row)
{
	static const char *const ids[SBX_IDS_MAX] = {
		[SBX_IDS_OWN] = NULL,
		[SBX_IDS_KEEP] = "that of its parent",
		[SBX_IDS_ARGS] = "the caller it works for",
	};

	(void)sbx_buf_printf(b, "  user: %s\n",
	    row->user ? row->user : ids[row->ids]);
}

static void
print_caps(struct sbx_buf *b, const struct sbx_privs_row *row)
{
	(void)sbx_buf_str(b, "  capabilities:");
	if (row->flags & SBX_ROW_CAPS)
		(void)sbx_buf_str(b, " those of the caller");
	else if (row->flags & SBX_ROW_NAMESPACES)
		(void)sbx_buf_str(b, " in its own namespaces only");
	else if (row->caps == 0)
		(void)sbx_buf_str(b, " none");
	for (int c = 0; c < 64; c++) {
		char *name;

		if (!(row->caps & 1ull << c))
			continue;
		name = cap_to_name(c);
		(void)sbx_buf_printf(b, " %s", name ? name : "?");
		(void)cap_free(name); /* fails on NULL only */
	}
	(void)sbx_buf_str(b, "\n");
}

/* A denylist names what it refuses; here it is what is left. */
static void
print_families(struct sbx_buf *b, const struct sbx_privs_row *row)
{
	if (row->flags & SBX_ROW_DENY)
		(void)sbx_buf_str(b, "  sockets: unix inet inet6 netlink\n");
	else if (row->families == 0)
		(void)sbx_buf_str(b, "  sockets: none\n");
	else
		(void)sbx_buf_printf(b, "  sockets:%s%s%s\n",
		    row->families & SBX_FAM_UNIX ? " unix" : "",
		    row->families & SBX_FAM_INET ? " inet" : "",
		    row->families & SBX_FAM_INET6 ? " inet6" : "");
}

static void
print_dirs(struct sbx_buf *b, const struct sbx_privs_row *row)
{
	if (!(row->flags & SBX_ROW_LANDLOCK)) {
		(void)sbx_buf_str(b, "  files: not restricted by Landlock\n");
		return;
	}
	if (row->dirs[0].what == NULL)
		(void)sbx_buf_str(b, "  files: none\n");
	for (int i = 0; i < SBX_PRIVS_DIRS_MAX && row->dirs[i].what; i++) {
		(void)sbx_buf_printf(b, "  files: %s:", row->dirs[i].what);
		for (size_t n = 0; n < SBX_NELEM(right_names); n++)
			if (row->dirs[i].rights & right_names[n].bit)
				(void)sbx_buf_printf(b, " %s",
				    right_names[n].name);
		(void)sbx_buf_str(b, "\n");
	}
}

static void
print_limit(struct sbx_buf *b, const char *name, rlim_t v, const char *all)
{
	if (v == RLIM_INFINITY)
		(void)sbx_buf_printf(b, " %s %s", name, all);
	else
		(void)sbx_buf_printf(b, " %s %llu", name,
		    (unsigned long long)v);
}

/* As the filter takes it: a name that an earlier list has is not repeated. */
static void
print_list(struct sbx_buf *b, const struct sbx_privs_row *row, unsigned upto,
    const struct sbx_privs_call *list)
{
	size_t column = 0;

	for (const struct sbx_privs_call *c = list; c->name; c++) {
		const char *text = sbx_privs_rule_text(c->rule);
		size_t n = strlen(c->name) + (text ? strlen(text) + 2 : 0) + 1;

		if (sbx_privs_mentioned(row, upto, c->name))
			continue;
		if (column == 0 || column + n > 76) {
			(void)sbx_buf_str(b, column ? "\n    " : "    ");
			column = 4;
		}
		(void)sbx_buf_printf(b, text ? "%s(%s) " : "%s ", c->name,
		    text);
		column += n;
	}
	if (column != 0)
		(void)sbx_buf_str(b, "\n");
}

static void
print_row(struct sbx_buf *b, enum sbx_proc proc)
{
	const struct sbx_privs_row *row = sbx_privs_row(proc);

	(void)sbx_buf_printf(b, "%s\n  why: %s\n", sbx_proc_name(proc),
	    row->why);
	print_user(b, row);
	print_caps(b, row);
	print_families(b, row);
	print_dirs(b, row);
	(void)sbx_buf_printf(b, "  executes programs: %s\n",
	    row->flags & SBX_ROW_EXEC ? "yes" : "no");
	(void)sbx_buf_printf(b, "  namespaces: %s\n",
	    row->flags & SBX_ROW_NAMESPACES ? "user (its own, or that of\n"
	    "    sandboxes, which it is handed) net" : "none of its own");
	(void)sbx_buf_printf(b, "  dies with its parent: %s\n",
	    row->flags & SBX_ROW_DIES ? "yes" : "no");
	(void)sbx_buf_str(b, "  limits: core 0");
	print_limit(b, "nofile", row->nofile, "hard");
	print_limit(b, "nproc", row->nproc, "unchanged");
	print_limit(b, "data", row->data, "unchanged");
	if (row->flags & SBX_ROW_DENY) {
		(void)sbx_buf_str(b, "\n  system calls, all but:\n");
		print_list(b, row, SBX_PRIVS_LISTS, sbx_privs_denied);
	} else {
		(void)sbx_buf_str(b, "\n  system calls, no others:\n");
		for (unsigned i = 0; i < SBX_NELEM(row->calls) &&
		    row->calls[i]; i++)
			print_list(b, row, i, row->calls[i]);
	}
}

int
sbx_privs_print(struct sbx_buf *b)
{
	for (int p = 0; p < SBX_PROC_MAX; p++) {
		if (p > 0)
			(void)sbx_buf_str(b, "\n");
		print_row(b, (enum sbx_proc)p);
	}
	return (b->overflow ? SBX_E_LIMIT : 0);
}
