/*
 * diff_in_container: what a work tree has that its base has not.  One run
 * lists all of it; for one path a second one prints its hunks.  Pages come
 * from the stored output, whose first line is ours.
 */

#include "sbxd/worker/script.h"
#include "sbxd/worker/worker.h"

#include <json-c/json.h>
#include <string.h>

#define TOOL "diff_in_container"
#define OUT_MAX (48u << 20)
#define CHANGES_MAX 200000u
#define HUNK_MAX (128u << 10)	/* of one hunk in a result */
#define PAGE_BYTES (1u << 20)
#define RAW_MAX (256u << 10)
#define UNTRACKED "untracked"
#define LETTERS "AMDRCTU"
#define MERGE_BASE "merge-base"
#define WORKTREE "worktree"

enum { EXIT_BAD_BASE = 4, EXIT_NO_BASE = 5, EXIT_NO_MERGE_BASE = 6 };

/* Options that leave nothing to the repository's configuration. */
#define DIFF_OPTIONS                                                     \
	"-M --no-color --no-ext-diff --no-textconv --submodule=short "   \
	"--no-relative -O/dev/null "
#define GIT_DIFF                                                         \
	"git --literal-pathspecs -c diff.suppressBlankEmpty=false "      \
	"-c core.quotePath=true diff " DIFF_OPTIONS

/*
 * $1 our line, $2 the base or "", $3 "worktree" or "merge-base", $4 "raw" or
 * "".  Prints the line, then pieces: root, base, its commit, mode; what git
 * says of each path; an empty one.  Then untracked names; an empty one; of
 * those that are files the number of lines, and once more with binary ones as
 * 0, each with a newline; an empty one; and so on, until there are no names.
 * Then the diff, if it is wanted.
 *
 * Each program costs milliseconds: one git tells the root and HEAD, one the
 * configuration, one the remote's branches; files are counted many at once.
 * "/" is no name: the list of them failed.
 */
static const char list_script[] =
    SCRIPT_GIT_ENV
    "h=$1 b=$2 mode=$3 raw=$4 n=HEAD c=\n"
    "nl='\n"
    "'\n"
    "t=$(git rev-parse --show-toplevel -q --verify 'HEAD^{commit}')\n"
    "case $? in 0) c=${t##*\"$nl\"} t=${t%\"$nl\"*} ;; esac\n"
    "[ -n \"$t\" ] && cd -- \"$t\" || exit 3\n"
    "head=$c\n"
    "at() { c=$(git rev-parse -q --verify \"$1^{commit}\"); }\n"
    "pick() {\n"
    "if at \"refs/remotes/origin/$1\"; then n=origin/$1\n"
    "elif at \"$1\"; then n=$1\n"
    "else return 1; fi\n"
    "}\n"
    "conf() {\n"
    "conf=$nl$(git config --get-regexp '^(sbx\\.base$|remote\\..+\\.)')$nl\n"
    "case $conf in *\"${nl}sbx.base \"*) ;; *) return 1 ;; esac\n"
    "r=${conf##*\"${nl}sbx.base \"}\n"
    "pick \"${r%%\"$nl\"*}\"\n"
    "}\n"
    "known() {\n"
    "o=refs/remotes/origin/\n"
    "refs=$nl$(git for-each-ref '--format=%(refname) %(objectname) "
    "%(symref)' ${o}HEAD ${o}main ${o}master)$nl\n"
    "for r in HEAD main master; do\n"
    "case $refs in *\"$nl$o$r \"*) ;; *) continue ;; esac\n"
    "l=${refs#*\"$nl$o$r \"}\n"
    "l=${l%%\"$nl\"*} c=${l%% *} n=${l#* }\n"
    "case $r,$n in HEAD,) continue ;; *,) n=$o$r ;; esac\n"
    "return\n"
    "done\n"
    "return 1\n"
    "}\n"
    "if [ \"$mode\" = worktree ]; then :\n"
    "elif [ -n \"$b\" ]; then pick \"$b\" || exit 4\n"
    "elif conf || known; then n=${n#refs/remotes/}\n"
    "else case $conf in *\"${nl}remote.\"*) exit 5 ;; esac\n"
    "n=HEAD c=$head\n"
    "fi\n"
    "if [ -z \"$c\" ]; then\n"
    "n='no commit' c=$(git hash-object -t tree --stdin </dev/null) || exit 1\n"
    "elif [ \"$mode\" = merge-base ] && [ \"$c\" != \"$head\" ]; then\n"
    "c=$(git merge-base \"$c\" HEAD) || exit 6\n"
    "fi\n"
    "printf '%s\\n' \"$h\"\n"
    "printf '%s\\0%s\\0%s\\0%s\\0' \"$t\" \"$n\" \"$c\" \"$mode\"\n"
    GIT_DIFF "--raw --numstat -z \"$c\" -- || exit 7\n"
    "printf '\\0'\n"
    "{ git ls-files -o --exclude-standard -z || printf '/\\0'; } |\n"
    "xargs -0 -r -n 2000 sh -c '\n"
    "files() {\n"
    "for f; do\n"
    "[ ! -f \"$f\" ] || [ -L \"$f\" ] || printf \"%s\\0\" \"$f\"\n"
    "done\n"
    "}\n"
    "all=1\n"
    "printf \"%s\\0\" \"$@\"\n"
    "printf \"\\0\"\n"
    "for f; do [ -f \"$f\" ] && [ ! -L \"$f\" ] || all=; done\n"
    "if [ \"$all\" ]; then\n"
    "grep -acHZ \"\" -- \"$@\"\n"
    "grep -cHIZ \"\" -- \"$@\"\n"
    "else\n"
    "files \"$@\" | xargs -0 -r grep -acHZ \"\" --\n"
    "files \"$@\" | xargs -0 -r grep -cHIZ \"\" --\n"
    "fi\n"
    "printf \"\\0\"' sbx\n"
    "printf '\\0'\n"
    "[ -z \"$raw\" ] || " GIT_DIFF "-p -U3 \"$c\" --\n"
    "exit 0\n";

/* $1 our line, $2 the commit, $3 "untracked" or another status, then one path
 * or two. */
static const char hunks_script[] =
    SCRIPT_GIT
    "h=$1 c=$2 s=$3\n"
    "shift 3\n"
    "printf '%s\\n' \"$h\"\n"
    "[ \"$s\" = untracked ] || exec " GIT_DIFF "-p -U3 \"$c\" -- \"$@\"\n"
    GIT_DIFF "-p -U3 --no-index -- /dev/null \"$1\"\n"
    "[ $? -le 1 ]\n";

struct text {
	const char *p;
	size_t len;
};

/* One path; texts are borrowed from the output. */
struct change {
	struct text path, old;	/* old: of a rename or a copy */
	uint64_t add, del;
	char status;		/* git's letter, '?': untracked */
	bool binary;
};
struct list {
	struct text top, base, commit, mode, raw;
	bool worktree;
	struct change *v;
	size_t n, size;
};

static bool
same(const struct text *a, const struct text *b)
{
	return (a->len == b->len && memcmp(a->p, b->p, a->len) == 0);
}

/* --- reading the list --------------------------------------------------------- */

static struct change *
add(struct list *l)
{
	if (l->n == CHANGES_MAX)
		return (NULL);
	if (l->n == l->size) {
		l->size = l->size == 0 ? 64 : l->size * 2;
		l->v = sbx_xreallocarray(l->v, l->size, sizeof(*l->v));
	}
	memset(&l->v[l->n], 0, sizeof(l->v[l->n]));
	return (&l->v[l->n++]);
}

static bool
next(struct pieces *in, struct text *ret_t)
{
	return (piece_next(in, &ret_t->p, &ret_t->len));
}

/* ":100644 100644 1a2b 3c4d R100", and one path or two.  What is not merged
 * is told more than once: that is the word that counts. */
static bool
read_raw(struct pieces *in, struct list *l, const struct text *head)
{
	const char *letter = memrchr(head->p, ' ', head->len);
	struct change *c, *last = l->n > 0 ? &l->v[l->n - 1] : NULL;

	if (letter == NULL || letter + 1 >= head->p + head->len)
		return (false);
	c = add(l);
	if (c == NULL || !next(in, &c->path))
		return (false);
	c->status = letter[1];
	if (memchr(LETTERS, c->status, sizeof(LETTERS) - 1) == NULL)
		return (false);
	if (c->status == 'R' || c->status == 'C') {
		c->old = c->path;
		return (next(in, &c->path));
	}
	if (last != NULL && same(&last->path, &c->path)) {
		if (c->status == 'U')
			last->status = 'U';
		l->n--;
	}
	return (true);
}

/* From *at on, as both lists have one order. */
static struct change *
find(struct list *l, const struct text *path, size_t *at)
{
	size_t i, k;

	for (i = 0; i < l->n; i++) {
		k = (*at + i) % l->n;
		if (same(&l->v[k].path, path)) {
			*at = k;
			return (&l->v[k]);
		}
	}
	return (NULL);
}

/* "12 TAB 3 TAB path", or without the path and then both; "-": binary. */
static bool
read_numbers(struct pieces *in, struct list *l, const struct text *t,
    size_t *at)
{
	const char *end = t->p + t->len, *tab1, *tab2;
	struct text path;
	struct change *c;

	tab1 = memchr(t->p, '\t', t->len);
	tab2 = tab1 == NULL ? NULL : memchr(tab1 + 1, '\t',
	    (size_t)(end - tab1 - 1));
	if (tab2 == NULL)
		return (false);
	path = (struct text){ tab2 + 1, (size_t)(end - tab2 - 1) };
	if (path.len == 0 && (!next(in, &path) || !next(in, &path)))
		return (false);
	c = find(l, &path, at);
	if (c == NULL)
		return (true);	/* changed meanwhile */
	if (*t->p == '-') {
		c->binary = true;
		return (true);
	}
	c->add = piece_number(t->p, tab1);
	c->del = piece_number(tab1 + 1, tab2);
	return (c->add != UINT64_MAX && c->del != UINT64_MAX);
}

/* NAME NUL NUMBER newline.  The first number of a name is its lines; a second
 * one of 0 is that of a file that is binary. */
static bool
read_lines(struct pieces *in, struct list *l, const struct text *path,
    size_t *at)
{
	const char *nl = memchr(in->p, '\n', (size_t)(in->end - in->p));
	uint64_t n = nl == NULL ? UINT64_MAX : piece_number(in->p, nl);
	struct change *c;

	if (n == UINT64_MAX)
		return (false);
	in->p = nl + 1;
	c = find(l, path, at);
	if (c == NULL || c->status != '?')
		return (true);
	if (n == 0 && c->add > 0)
		c->binary = true;
	if (n > c->add)
		c->add = n;
	if (c->binary)
		c->add = 0;
	return (true);
}

/* Some names and what was counted of them; *ret_more: there were any. */
static bool
read_untracked(struct pieces *in, struct list *l, size_t *at, bool *ret_more)
{
	struct change *c;
	struct text t;

	*ret_more = false;
	while (next(in, &t) && t.len > 0) {
		c = add(l);
		if (c == NULL || *t.p == '/')
			return (false);
		c->path = t;
		c->status = '?';
		if (!*ret_more)
			*at = l->n - 1;
		*ret_more = true;
	}
	while (*ret_more && next(in, &t) && t.len > 0)
		if (!read_lines(in, l, &t, at))
			return (false);
	return (true);
}

static bool
read_list(struct pieces in, struct list *l)
{
	struct text t;
	size_t at = 0;
	bool untracked = true;

	if (!next(&in, &l->top) || !next(&in, &l->base) ||
	    !next(&in, &l->commit) || !next(&in, &l->mode))
		return (false);
	l->worktree = l->mode.len == sizeof(WORKTREE) - 1;
	while (next(&in, &t) && t.len > 0)
		if (!(*t.p == ':' ? read_raw(&in, l, &t) :
		    read_numbers(&in, l, &t, &at)))
			return (false);
	while (untracked)
		if (!read_untracked(&in, l, &at, &untracked))
			return (false);
	l->raw = (struct text){ in.p, (size_t)(in.end - in.p) };
	return (true);
}

/* --- results ------------------------------------------------------------------ */

static void
put_page(struct result *r, uint64_t offset, uint64_t shown, uint64_t total)
{
	bool more = shown > 0 && offset + shown < total;

	result_u64(r, "shown", shown);
	result_u64(r, "total", total);
	result_bool(r, "truncated", more || offset > 0);
	if (more)
		result_u64(r, "next_offset", offset + shown);
	else
		result_null(r, "next_offset");
	result_bool(r, "has_more", more);
}

/* At most RAW_MAX bytes of it, whole lines. */
static void
put_raw(struct result *r, const struct text *raw, size_t *masked)
{
	size_t len = raw->len;
	const char *nl;

	if (len > RAW_MAX) {
		nl = memrchr(raw->p, '\n', RAW_MAX);
		len = nl == NULL ? RAW_MAX : (size_t)(nl - raw->p) + 1;
		result_bool(r, "raw_truncated", true);
	}
	script_put(r, "raw_diff", raw->p, len, masked);
}

static void
put_status(struct result *r, const char *key, char status)
{
	char letter[2] = { status, '\0' };

	result_str(r, key, status == '?' ? UNTRACKED : letter);
}

static void
put_change(struct result *r, const struct change *c, size_t *masked)
{
	result_open(r, NULL, '{');
	script_put(r, "path", c->path.p, c->path.len, masked);
	if (c->old.p != NULL)
		script_put(r, "old_path", c->old.p, c->old.len, masked);
	put_status(r, "status", c->status);
	result_u64(r, "additions", c->add);
	result_u64(r, "deletions", c->del);
	result_u64(r, "changes", c->add + c->del);
	if (c->binary)
		result_bool(r, "binary", true);
	result_close(r, '}');
}

/* Of a directory those below it; "": all. */
static bool
below(const struct change *c, const struct text *dir)
{
	size_t len = dir->len;

	while (len > 0 && dir->p[len - 1] == '/')
		len--;
	return (len == 0 || (c->path.len > len &&
	    memcmp(c->path.p, dir->p, len) == 0 && c->path.p[len] == '/'));
}

static void
put_changes(struct call *call, const struct list *l, const struct text *dir,
    size_t *masked)
{
	struct result *r = call->res;
	uint64_t offset = (uint64_t)args_int(&call->args, "offset");
	uint64_t limit = (uint64_t)args_int(&call->args, "limit");
	uint64_t total = 0, shown = 0, add_all = 0, del_all = 0, others = 0;
	size_t i, bytes = 0;

	result_open(r, "files", '[');
	for (i = 0; i < l->n; i++) {
		if (!below(&l->v[i], dir))
			continue;
		if (total >= offset && total == offset + shown &&
		    shown < limit && bytes < PAGE_BYTES) {
			put_change(r, &l->v[i], masked);
			bytes += l->v[i].path.len + 128;
			shown++;
		}
		total++;
		add_all += l->v[i].add;
		del_all += l->v[i].del;
		others += l->v[i].status == '?';
	}
	result_close(r, ']');
	put_page(r, offset, shown, total);
	result_u64(r, "total_files", total);
	result_u64(r, "total_additions", add_all);
	result_u64(r, "total_deletions", del_all);
	result_u64(r, "total_untracked", others);
}

static void
put_base(struct result *r, const struct list *l)
{
	result_strn(r, "base", l->base.p, l->base.len);
	result_strn(r, "base_commit", l->commit.p, l->commit.len);
	result_str(r, "mode", l->worktree ? WORKTREE : MERGE_BASE);
}

static void
put_masked(struct result *r, size_t masked)
{
	if (masked > 0)
		result_u64(r, "masked", masked);
}

static void
put_summary(struct call *call, const struct ask_run *st,
    const struct list *l, const struct text *dir, bool raw)
{
	size_t masked = 0;

	result_str(call->res, "status", "ok");
	script_ids(call, st);
	put_base(call->res, l);
	put_changes(call, l, dir, &masked);
	if (raw)
		put_raw(call->res, &l->raw, &masked);
	put_masked(call->res, masked);
}

/* --- hunks -------------------------------------------------------------------- */

struct hunk {
	uint64_t n[4];		/* old start, old count, new start, new count */
	struct text header, body;
};

static struct text
line_at(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return ((struct text){ p, (size_t)((nl != NULL ? nl + 1 : end) -
	    p) });
}

/* "12,3" or "12"; where it ends, NULL: it is not that. */
static const char *
read_range(const char *p, const char *end, uint64_t *ret_n)
{
	const char *q = p;

	while (q < end && *q >= '0' && *q <= '9')
		q++;
	ret_n[0] = piece_number(p, q);
	ret_n[1] = 1;
	if (q < end && *q == ',') {
		p = ++q;
		while (q < end && *q >= '0' && *q <= '9')
			q++;
		ret_n[1] = piece_number(p, q);
	}
	return (ret_n[0] == UINT64_MAX || ret_n[1] == UINT64_MAX ? NULL : q);
}

/* "@@ -1,2 +3,4 @@ header" */
static bool
read_head(const struct text *l, struct hunk *h)
{
	const char *end = l->p + l->len, *p;

	if (l->len < 4 || memcmp(l->p, "@@ -", 4) != 0)
		return (false);
	p = read_range(l->p + 4, end, h->n);
	if (p == NULL || end - p < 2 || memcmp(p, " +", 2) != 0)
		return (false);
	p = read_range(p + 2, end, h->n + 2);
	if (p == NULL || end - p < 3 || memcmp(p, " @@", 3) != 0)
		return (false);
	p += 3;
	p += p < end && *p == ' ';
	h->header = (struct text){ p, (size_t)(end - p) };
	if (h->header.len > 0 && end[-1] == '\n')
		h->header.len--;
	return (true);
}

/* The next hunk at or after *at. */
static bool
next_hunk(const struct text *patch, size_t *at, struct hunk *ret_h)
{
	const char *end = patch->p + patch->len;
	struct text l;
	size_t body;
	bool head = false;

	while (!head && *at < patch->len) {
		l = line_at(patch->p + *at, end);
		*at += l.len;
		head = read_head(&l, ret_h);
	}
	for (body = *at; head && *at < patch->len; *at += l.len) {
		l = line_at(patch->p + *at, end);
		if (memchr(" +-\\", *l.p, 4) == NULL)
			break;
	}
	ret_h->body = (struct text){ patch->p + body, *at - body };
	return (head);
}

static void
put_hunk(struct result *r, const struct hunk *h, size_t *masked)
{
	static const char *const names[] = { "old_start", "old_count",
		"new_start", "new_count" };
	size_t len = h->body.len, i;
	const char *nl;

	result_open(r, NULL, '{');
	for (i = 0; i < SBX_NELEM(names); i++)
		result_u64(r, names[i], h->n[i]);
	script_put(r, "header", h->header.p, h->header.len, masked);
	if (len > HUNK_MAX) {
		nl = memrchr(h->body.p, '\n', HUNK_MAX);
		len = nl == NULL ? HUNK_MAX : (size_t)(nl - h->body.p) + 1;
		result_bool(r, "cut", true);
	}
	script_put(r, "content", h->body.p, len, masked);
	result_close(r, '}');
}

static void
put_hunks(struct call *call, const struct text *patch, size_t *masked)
{
	struct result *r = call->res;
	uint64_t offset = (uint64_t)args_int(&call->args, "offset");
	uint64_t limit = (uint64_t)args_int(&call->args, "limit");
	uint64_t total = 0, shown = 0;
	size_t at = 0, bytes = 0;
	struct hunk h;

	result_open(r, "hunks", '[');
	for (; next_hunk(patch, &at, &h); total++) {
		if (total < offset || shown == limit || bytes > PAGE_BYTES)
			continue;
		put_hunk(r, &h, masked);
		bytes += h.body.len < HUNK_MAX ? h.body.len : HUNK_MAX;
		shown++;
	}
	result_close(r, ']');
	put_page(r, offset, shown, total);
}

/* Members of our line, as far as nobody forged it, go into the result. */
static const struct {
	const char *key;
	enum json_type type;
} members[] = {
	{ "base", json_type_string }, { "base_commit", json_type_string },
	{ "path", json_type_string }, { "old_path", json_type_string },
	{ "change_status", json_type_string },
	{ "additions", json_type_int }, { "deletions", json_type_int },
};

static void
put_header(struct result *r, struct json_object *header, size_t *masked)
{
	struct json_object *v;
	size_t i;

	for (i = 0; i < SBX_NELEM(members); i++) {
		if (!json_object_object_get_ex(header, members[i].key, &v) ||
		    !json_object_is_type(v, members[i].type))
			continue;
		if (members[i].type == json_type_int)
			result_i64(r, members[i].key,
			    json_object_get_int64(v));
		else
			script_put(r, members[i].key, json_object_get_string(v),
			    (size_t)json_object_get_string_len(v), masked);
	}
	if (json_object_object_get_ex(header, "binary", &v))
		result_bool(r, "binary", true);
	result_str(r, "mode", json_object_object_get_ex(header, "mode", &v) &&
	    strcmp(json_object_get_string(v), WORKTREE) == 0 ? WORKTREE :
	    MERGE_BASE);
}

static void
put_path(struct call *call, const struct ask_run *st,
    struct json_object *header, const struct text *patch)
{
	size_t masked = 0;

	result_str(call->res, "status", "ok");
	script_ids(call, st);
	put_header(call->res, header, &masked);
	put_hunks(call, patch, &masked);
	if (args_bool(&call->args, "raw"))
		put_raw(call->res, patch, &masked);
	put_masked(call->res, masked);
}

/* --- the tool ----------------------------------------------------------------- */

static int
too_large(struct call *call, const struct ask_run *st)
{
	result_error(call->res, "too_large",
	    "Give path, or have .gitignore name what is not source.",
	    "There is more than %u bytes of changed and untracked paths.",
	    OUT_MAX);
	script_ids(call, st);
	return (0);
}

/* The script ended before our line. */
static int
not_begun(struct call *call, const struct ask_run *st)
{
	const char *base = args_str(&call->args, "base", NULL);
	int r;

	if (script_no_git(call, st, &r))
		return (r);
	switch (st->out_bytes == 0 ? script_exit(st) : 0) {
	case EXIT_BAD_BASE:
		result_error(call->res, "no_such_base", "Give a branch, a tag "
		    "or a commit that the sandbox has.",
		    "\"base\" %s is no commit of this repository.", base);
		break;
	case EXIT_NO_BASE:
		result_error(call->res, "no_base", "Give base, or worktree: "
		    "true for what is not committed.",
		    "There is a remote, but neither origin/HEAD nor "
		    "origin/main nor origin/master here.");
		break;
	case EXIT_NO_MERGE_BASE:
		return (script_failed(call, st, "no_merge_base", "Give "
		    "another base, or worktree: true.", "The base and HEAD "
		    "have no commit in common"));
	default:
		return (script_failed(call, st, "diff_failed", NULL, "git"));
	}
	script_ids(call, st);
	return (0);
}

static void
hunks_header(struct result *h, const struct list *l, const struct change *c)
{
	result_init(h);
	result_str(h, "diff", "hunks");
	put_base(h, l);
	result_strn(h, "path", c->path.p, c->path.len);
	if (c->old.p != NULL)
		result_strn(h, "old_path", c->old.p, c->old.len);
	put_status(h, "change_status", c->status);
	result_u64(h, "additions", c->add);
	result_u64(h, "deletions", c->del);
	if (c->binary)
		result_bool(h, "binary", true);
	result_close(h, '}');
}

static char *
copy(const struct text *t)
{
	char *s = sbx_xcalloc(1, t->len + 1);

	if (t->len > 0)
		memcpy(s, t->p, t->len);
	return (s);
}

static int show(struct call *call, const struct ask_run *st);

/* The second run, for one path. */
static int
show_path(struct call *call, const struct list *l, const struct change *c)
{
	SBX_CLEANUP(free) char *top = copy(&l->top), *at = copy(&l->commit);
	SBX_CLEANUP(free) char *path = copy(&c->path), *old = copy(&c->old);
	struct result header;
	const char *argv[] = { "sh", "-c", hunks_script, "sbx", NULL, at,
		c->status == '?' ? UNTRACKED : "tracked", path,
		*old != '\0' ? old : NULL, NULL };
	const struct script s = { .cwd = top, .argv = argv };
	struct ask_run st;
	int r;

	hunks_header(&header, l, c);
	argv[4] = header.text.data;
	r = script_run(call, &s, &st);
	result_clear(&header);
	return (r == 1 ? show(call, &st) : r);
}

/* A path as the list has it: below the root of the repository. */
static void
relative(const struct list *l, struct text *path)
{
	if (path->len > l->top.len && path->p[l->top.len] == '/' &&
	    memcmp(path->p, l->top.p, l->top.len) == 0) {
		path->p += l->top.len + 1;
		path->len -= l->top.len + 1;
	}
	while (path->len > 1 && memcmp(path->p, "./", 2) == 0) {
		path->p += 2;
		path->len -= 2;
	}
	if (path->len == 1 && *path->p == '.')
		path->len = 0;
}

static int
show_list(struct call *call, const struct ask_run *st, struct list *l,
    const char *name, bool raw)
{
	struct text path = { name, strlen(name) };
	size_t i;

	relative(l, &path);
	for (i = 0; i < l->n && path.len > 0; i++)
		if (same(&l->v[i].path, &path) || (l->v[i].old.p != NULL &&
		    l->v[i].status == 'R' && same(&l->v[i].old, &path)))
			return (show_path(call, l, &l->v[i]));
	for (i = 0; i < l->n && path.len > 0; i++)
		if (below(&l->v[i], &path))
			break;
	if (path.len == 0 || i < l->n) {
		put_summary(call, st, l, &path, raw);
		return (0);
	}
	result_error(call->res, "no_changes", "Leave path out to see which "
	    "paths have changed; they are relative to the root of the "
	    "repository.", "There is no change in %s.", name);
	script_ids(call, st);
	return (0);
}

static int
show_output(struct call *call, const struct ask_run *st,
    struct json_object *header, const struct text *rest, bool whole)
{
	struct json_object *kind, *path, *raw;
	struct list l = { 0 };
	int r;

	if (!json_object_is_type(header, json_type_object) ||
	    !json_object_object_get_ex(header, "diff", &kind) ||
	    !json_object_object_get_ex(header, "path", &path) ||
	    !json_object_is_type(path, json_type_string))
		return (not_begun(call, st));
	if (script_exit(st) != 0)
		return (script_failed(call, st, "diff_failed", NULL, "git"));
	if (strcmp(json_object_get_string(kind), "hunks") == 0) {
		put_path(call, st, header, rest);
		return (0);
	}
	if (!read_list((struct pieces){ rest->p, rest->p + rest->len }, &l) ||
	    (!whole && l.raw.len == 0))
		r = whole ? script_failed(call, st, "diff_failed", NULL,
		    "git printed something else than a list") :
		    too_large(call, st);
	else
		r = show_list(call, st, &l, json_object_get_string(path),
		    json_object_object_get_ex(header, "raw", &raw) &&
		    json_object_get_boolean(raw));
	free(l.v);
	return (r);
}

static int
show(struct call *call, const struct ask_run *st)
{
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	struct json_object *header;
	struct text rest = { "", 0 };
	const char *nl;
	bool whole;
	int error;

	error = script_output(call, st, OUT_MAX, &out, &whole);
	if (error != 0)
		return (call_refused(call, error));
	nl = out.len == 0 ? NULL : memchr(out.data, '\n', out.len);
	header = nl == NULL ? NULL : script_json(out.data,
	    (size_t)(nl - out.data));
	if (nl != NULL)
		rest = (struct text){ nl + 1, out.len -
		    (size_t)(nl + 1 - out.data) };
	error = show_output(call, st, header, &rest, whole);
	json_object_put(header);
	return (error);
}

static int
list(struct call *call, const char *dir, const char *path)
{
	const char *base = args_str(&call->args, "base", NULL);
	bool raw = args_bool(&call->args, "raw");
	struct result header;
	const char *argv[] = { "sh", "-c", list_script, "sbx", NULL,
		base != NULL ? base : "", args_bool(&call->args, "worktree") ?
		WORKTREE : MERGE_BASE, raw && *path == '\0' ? "raw" : "",
		NULL };
	const struct script s = { .cwd = dir, .argv = argv };
	struct ask_run st;
	int r;

	result_init(&header);
	result_str(&header, "diff", "list");
	result_str(&header, "path", path);
	result_bool(&header, "raw", raw && *path == '\0');
	result_close(&header, '}');
	argv[4] = header.text.data;
	r = script_run(call, &s, &st);
	result_clear(&header);
	return (r == 1 ? show(call, &st) : r);
}

int
tool_diff_in_container(struct call *call)
{
	const char *path = args_str(&call->args, "path", NULL), *dir;
	struct ask_run st;
	int r;

	if (args_has(&call->args, "run_id")) {
		r = script_again(call, TOOL, 0, &st);
		return (r == 1 ? show(call, &st) : r);
	}
	if (args_has(&call->args, "base") &&
	    args_bool(&call->args, "worktree")) {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "Give \"base\" or \"worktree\", not both.");
		return (0);
	}
	if (args_int(&call->args, "offset") > 0) {
		result_error(call->res, "bad_argument",
		    "Mend the argument and call again.",
		    "\"offset\" needs the \"run_id\" of the first page: later "
		    "pages come from what that printed.");
		return (0);
	}
	if (!script_dir(call, &dir))
		return (0);
	return (list(call, dir, path != NULL ? path : ""));
}
