/* publish, approve: publications, seen from outside of the sandboxes */
#include "common/base/json.h"
#include "common/base/mask.h"
#include "sbxd/cli/cli.h"
#include "sbxd/cli/cmd_journal.h"
#include "sbxd/cli/ctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 15000
#define SHOWN_MAX (32u << 20)	/* of what SHOW (publish.h) printed */
#define CELLS 10		/* of a row of CTL_PUBLISHES */
#define REASON_MAX 200		/* CTL_PUBLISH_ANSWER.reason */

static const char *const columns[CELLS] = { "run_id", "state", "outcome",
	"step", "principal", "container_id", "repo", "branch", "commit",
	"age_seconds" };

/* One request on a connection of its own; *ret_c is there after 0 alone. */
static int
ask(const struct cli *cli, int slot, uint16_t type, const void *m,
    uint16_t answer, struct sbx_chan *ret_c, struct sbx_err *err)
{
	int r = ctl_open(cli, slot, ret_c, err);

	if (r != 0)
		return (r);
	r = sbx_chan_send(ret_c, type, 1, m, NULL, ANSWER_MS);
	if (r != 0)
		(void)sbx_err_set(err, r, "it cannot be asked: %s",
		    sbx_error_name(r));
	else
		r = ctl_expect(ret_c, answer, ANSWER_MS, err);
	if (r != 0)
		sbx_chan_clear(ret_c);
	return (r);
}

/* --- text for terminals ------------------------------------------------------------ */

/* What is no text, or would steer a terminal or what is beside it, as \xNN; so
 * are lines, unless it may have several: what a part of the suite said must not
 * look like what another one did. */
static void
make_safe(struct sbx_buf *b, const char *text, size_t len, bool lines)
{
	unsigned n;

	for (size_t i = 0; i < len; i += n) {
		const char *s = text + i;

		n = sbx_utf8_len(s, len - i);
		if ((lines && (*s == '\n' || *s == '\t')) || (n > 0 &&
		    !sbx_is_invisible(sbx_utf8_point(s, n)))) {
			n = n > 0 ? n : 1;
			(void)sbx_buf_add(b, s, n);
			continue;
		}
		n = 1;
		(void)sbx_buf_printf(b, "\\x%02x", (unsigned char)*s);
	}
}

static struct json_object *
safe_json(const char *s)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char SBX_CLEANUP(free) *copy = sbx_xstrdup(s);
	size_t len = strlen(copy);
	struct json_object *o;

	sbx_buf_init(&b, 4 * len + 16);
	(void)sbx_mask(copy, &len);
	make_safe(&b, copy, len, false);
	o = json_object_new_string_len(b.len > 0 ? b.data : "", (int)b.len);
	return (o);
}

static const struct { const char *name; bool is_bool; } numbers[] = {
	{ "age_seconds", false }, { "added", false }, { "modified", false },
	{ "deleted", false }, { "unchanged", false }, { "bytes", false },
	{ "findings_total", false }, { "files_changed", false },
	{ "lines_added", false }, { "lines_deleted", false },
	{ "merged_files", false }, { "grant_uses", false }, { "line", false }, { "diff_cut", true },
	{ "grant_used", true } };

static void
put(struct json_object *o, const char *name, const char *value)
{
	struct json_object *v = NULL;
	uint64_t n;

	for (size_t i = 0; i < SBX_NELEM(numbers) && v == NULL; i++)
		if (strcmp(name, numbers[i].name) == 0 && sbx_parse_u64(value,
		    0, INT64_MAX, &n) == 0)
			v = numbers[i].is_bool ? json_object_new_boolean(n !=
			    0) : json_object_new_int64((int64_t)n);
	json_object_object_add(o, name, v != NULL ? v : safe_json(value));
}

static int
print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
	    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
	return (CLI_OK);
}

/* --- list ------------------------------------------------------------------------------ */

/* Each row, of each suite that runs, to fn until it says true; false: none
 * did.  *ret_suites: how many run. */
typedef bool row_fn(void *arg, int slot, const char *const *cells);

static bool
rows_of(const struct sbx_strs *v, int slot, row_fn *fn, void *arg)
{
	const char *cells[CELLS], *s = NULL;
	unsigned n = 0;

	while ((s = sbx_strs_next(v, s)) != NULL) {
		cells[n++] = s;
		if (n == CELLS && fn(arg, slot, cells))
			return (true);
		n %= CELLS;
	}
	return (false);
}

static bool
each_row(const struct cli *cli, row_fn *fn, void *arg, unsigned *ret_suites)
{
	const struct sbx_ctl_publish_list m = { 0 };
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	bool done = false;
	int r;

	*ret_suites = 0;
	for (int slot = 0; slot < SBX_MAX_SLOTS && !done; slot++) {
		if (cli->slot != -1 && cli->slot != slot)
			continue;
		r = ask(cli, slot, SBX_MSG_CTL_PUBLISH_LIST, &m,
		    SBX_MSG_CTL_PUBLISHES, &c, &err);
		if (r != 0) {
			if (r != SBX_E_NOENT)
				fprintf(stderr, "sbx: suite %d: %s\n", slot,
				    ctl_text(&err));
			continue;
		}
		++*ret_suites;
		done = rows_of(&c.in->m.ctl_publishes.rows, slot, fn, arg);
		sbx_chan_clear(&c);
	}
	return (done);
}

static bool
print_row(void *arg, int slot, const char *const *v)
{
	char repo[64], branch[48], what[48];

	(void)arg;
	(void)snprintf(what, sizeof(what), "%s%s%s", strcmp(v[1], "ended") ==
	    0 ? v[2] : v[1], v[3][0] != '\0' ? " " : "", v[3]);
	printf("%-16s  %-24s  %-36s  %-24s  %-12.12s  %7ss  %d\n", v[0], what,
	    sbx_vis(repo, sizeof(repo), v[6], strlen(v[6])),
	    sbx_vis(branch, sizeof(branch), v[7], strlen(v[7])),
	    v[8][0] != '\0' ? v[8] : "-", v[9], slot);
	return (false);
}

static bool
json_row(void *arg, int slot, const char *const *v)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < CELLS; i++)
		put(o, columns[i], v[i]);
	json_object_object_add(o, "suite", json_object_new_int(slot));
	json_object_array_add(arg, o);
	return (false);
}

static int
list(const struct cli *cli)
{
	struct json_object *all = json_object_new_array();
	unsigned suites;

	if (!cli->json)
		printf("%-16s  %-24s  %-36s  %-24s  %-12s  %8s  %s\n", "RUN",
		    "STATE", "REPOSITORY", "BRANCH", "COMMIT", "AGE", "SUITE");
	(void)each_row(cli, cli->json ? json_row : print_row, all, &suites);
	if (suites == 0)
		fprintf(stderr, "sbx: no suite of yours is running\n");
	if (cli->json)
		(void)print_json(all);
	else
		json_object_put(all);
	return (suites == 0 ? CLI_PEER : CLI_OK);
}

/* --- one of them ------------------------------------------------------------------------ */

struct found {
	const char *run;
	int slot;
	char commit[65], branch[245], repo[400];
};

static bool
is_it(void *arg, int slot, const char *const *v)
{
	struct found *f = arg;

	if (strcmp(v[0], f->run) != 0)
		return (false);
	f->slot = slot;
	(void)sbx_strlcpy(f->repo, v[6], sizeof(f->repo));
	(void)sbx_strlcpy(f->branch, v[7], sizeof(f->branch));
	(void)sbx_strlcpy(f->commit, v[8], sizeof(f->commit));
	return (true);
}

static bool
is_run(const char *run)
{
	if (sbx_is_hex(run, 16))
		return (true);
	fprintf(stderr, "sbx: '%.64s' is no run_id of a publication, which "
	    "has 16 hex digits\n", run);
	return (false);
}

/* 0, or the exit status. */
static int
find(const struct cli *cli, const char *run, struct found *ret)
{
	unsigned suites;

	*ret = (struct found){ .run = run };
	if (!is_run(run))
		return (CLI_USAGE);
	if (each_row(cli, is_it, ret, &suites))
		return (CLI_OK);
	if (suites == 0)
		fprintf(stderr, "sbx: no suite of yours is running\n");
	else
		fprintf(stderr, "sbx: no suite that runs has publication %s "
		    "(any more); `sbx journal show --run %s` has its "
		    "records\n", run, run);
	return (CLI_PEER);
}

/* Of the next piece of what SHOW printed; true: there is more. */
static bool
add_piece(const struct sbx_ctl_publication *q, int fd, struct sbx_buf *b)
{
	size_t n = q->length < SHOWN_MAX ? (size_t)q->length : SHOWN_MAX;
	char SBX_CLEANUP(free) *text = sbx_xcalloc(1, n + 1);
	ssize_t got = n > 0 ? pread(fd, text, n, (off_t)q->file_offset) : 0;

	if (got <= 0 || sbx_buf_add(b, text, (size_t)got) != 0)
		return (false);
	return (b->len < q->total && b->len < SHOWN_MAX);
}

struct shown {
	struct json_object *o;		/* owned: all but the next */
	struct sbx_buf text;		/* owned: what SHOW printed */
};

static void
take_members(struct json_object *o, const struct sbx_strs *v)
{
	const char *s = NULL, *value;

	while ((s = sbx_strs_next(v, s)) != NULL &&
	    (value = sbx_strs_next(v, s)) != NULL) {
		put(o, strcmp(s, "files") == 0 ? "files_changed" : s, value);
		s = value;
	}
}

static void
take_findings(struct json_object *o, const struct sbx_strs *v)
{
	static const char *const keys[] = { "rule", "path", "line",
		"fingerprint" };
	struct json_object *all = json_object_new_array(), *one = NULL;
	const char *s = NULL;
	unsigned n = 0;

	while ((s = sbx_strs_next(v, s)) != NULL) {
		if (n % SBX_NELEM(keys) == 0) {
			one = json_object_new_object();
			json_object_array_add(all, one);
		}
		put(one, keys[n++ % SBX_NELEM(keys)], s);
	}
	json_object_object_add(o, "findings", all);
}

static int
get(const struct cli *cli, const struct found *f, struct shown *ret,
    struct sbx_err *err)
{
	struct sbx_ctl_publish_show m = { .publish = f->run };
	struct sbx_chan c;
	bool more = true;
	int r = 0;

	sbx_buf_init(&ret->text, SHOWN_MAX);
	ret->o = NULL;
	while (r == 0 && more) {
		m.offset = ret->text.len;
		r = ask(cli, f->slot, SBX_MSG_CTL_PUBLISH_SHOW, &m,
		    SBX_MSG_CTL_PUBLICATION, &c, err);
		if (r != 0)
			break;
		if (ret->o == NULL) {
			ret->o = json_object_new_object();
			take_members(ret->o, &c.in->m.ctl_publication.members);
			take_findings(ret->o,
			    &c.in->m.ctl_publication.findings);
		}
		more = add_piece(&c.in->m.ctl_publication, c.in->fds[0],
		    &ret->text);
		sbx_chan_clear(&c);
	}
	return (r);
}

/* --- what SHOW printed -------------------------------------------------------------------- */

/* The next line, without its end; NULL: there is none, or an empty one. */
static char *
line_of(char **at)
{
	char *line = strsep(at, "\n");

	return (line != NULL && *line != '\0' ? line : NULL);
}

/* ":100644 100755 OLD NEW M<tab>PATH", as git quotes it. */
static struct json_object *
file_of(char *line)
{
	static const char *const keys[] = { "old_mode", "mode", "old_id", "id",
		"status" };
	struct json_object *o = json_object_new_object();
	char *path = line + 1, *word, *words = strsep(&path, "\t");

	for (size_t i = 0; i < SBX_NELEM(keys); i++)
		if ((word = strsep(&words, " ")) != NULL)
			json_object_object_add(o, keys[i], safe_json(word));
	json_object_object_add(o, "path", safe_json(path != NULL ? path :
	    ""));
	return (o);
}

/* "3<tab>1<tab>PATH", of the file that comes next; "-": it is binary. */
static void
numbers_of(struct json_object *o, char *line)
{
	const char *plus = strsep(&line, "\t"), *minus = strsep(&line, "\t");
	uint64_t n;

	if (sbx_parse_u64(plus, 0, INT32_MAX, &n) == 0)
		json_object_object_add(o, "lines_added",
		    json_object_new_int64((int64_t)n));
	else
		json_object_object_add(o, "binary",
		    json_object_new_boolean(1));
	if (minus != NULL && sbx_parse_u64(minus, 0, INT32_MAX, &n) == 0)
		json_object_object_add(o, "lines_deleted",
		    json_object_new_int64((int64_t)n));
}

/*
 * "files" and "diff" to s->o; masked as a whole, as a key has several lines.
 * Whoever made the files decides what looks like a secret: that something is not
 * shown is said, and bare shows it.
 */
static void
take_shown(struct shown *s, bool bare)
{
	SBX_CLEANUP_BUF struct sbx_buf safe = { 0 };
	struct json_object *files = json_object_new_array();
	char *at, *line;
	size_t next = 0, masked = 0;

	json_object_object_add(s->o, "files", files);
	if (s->text.len == 0)
		return;
	sbx_buf_init(&safe, 4u * SHOWN_MAX);
	if (!bare)
		masked = sbx_mask(s->text.data, &s->text.len);
	make_safe(&safe, s->text.data, s->text.len, true);
	at = safe.data;
	(void)strsep(&at, "\n");	/* the monitor has read that */
	while ((line = line_of(&at)) != NULL)
		if (*line == ':')
			json_object_array_add(files, file_of(line));
		else if (next < json_object_array_length(files))
			numbers_of(json_object_array_get_idx(files, next++),
			    line);
	json_object_object_add(s->o, "diff", json_object_new_string(
	    at != NULL ? at : ""));
	if (masked > 0)
		json_object_object_add(s->o, "masked",
		    json_object_new_int64((int64_t)masked));
}

/* --- show ------------------------------------------------------------------------------- */

static void
print_file(struct json_object *o)
{
	char lines[48] = "binary";

	if (!json_object_object_get_ex(o, "binary", NULL))
		(void)snprintf(lines, sizeof(lines), "+%lld -%lld",
		    (long long)client_int(o, "lines_added", 0),
		    (long long)client_int(o, "lines_deleted", 0));
	printf("  %s %s %.12s..%.12s %-12s %s\n", client_str(o, "status"),
	    client_str(o, "mode"), client_str(o, "old_id"),
	    client_str(o, "id"), lines, client_str(o, "path"));
}

static void
print_finding(struct json_object *o)
{
	printf("  %s %s:%lld %s\n", client_str(o, "rule"),
	    client_str(o, "path"), (long long)client_int(o, "line", 0),
	    client_str(o, "fingerprint"));
}

static void
print_array(struct json_object *o, const char *name,
    void (*print)(struct json_object *))
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, name, &v) ||
	    json_object_array_length(v) == 0)
		return;
	printf("%s:\n", name);
	for (size_t i = 0; i < json_object_array_length(v); i++)
		print(json_object_array_get_idx(v, i));
}

static void
print_all(struct json_object *o)
{
	struct json_object *cut;

	json_object_object_foreach(o, name, v)
		if (!json_object_is_type(v, json_type_array) &&
		    strcmp(name, "diff") != 0 && strcmp(name, "shown") != 0)
			printf("%-16s %s\n", name, json_object_get_string(v));
	print_array(o, "findings", print_finding);
	print_array(o, "files", print_file);
	if (client_str(o, "diff")[0] != '\0')
		printf("\n%s", client_str(o, "diff"));
	else if (client_str(o, "shown")[0] != '\0')
		printf("\nits diff is not kept any more\n");
	if (json_object_object_get_ex(o, "diff_cut", &cut) &&
	    json_object_get_boolean(cut))
		printf("\n(cut here: the diff is longer than 4 MiB)\n");
	if (client_int(o, "masked", 0) > 0)
		printf("\n(*** in it hide %lld pieces that look like secrets, "
		    "and lines with them: --unmasked shows them)\n",
		    (long long)client_int(o, "masked", 0));
}

static const char *
cache_of(const struct cli *cli)
{
	return (cli->paths.cache[0] == '\0' ? NULL : cli->paths.cache);
}

/* Its records, of the journal of that suite. */
static int
print_records(const struct cli *cli, const struct found *f, char *dir)
{
	char run[32];
	char *argv[] = { "journal", "show", "--run", run, NULL };

	(void)sbx_strlcpy(run, f->run, sizeof(run));
	printf("\nrecords:\n");
	(void)fflush(stdout);
	return (cmd_journal(dir, cache_of(cli), 4, argv));
}

static int
json_records(const struct cli *cli, const struct found *f, const char *dir,
    struct json_object *o)
{
	struct json_object *all = json_object_new_array();
	struct sbx_err err = { 0 };
	int r = cmd_journal_records(dir, cache_of(cli), f->run, all, &err);

	json_object_object_add(o, "records", all);
	return (r == 0 ? CLI_OK : ctl_fail(CLI_PEER, &err));
}

static int
show(const struct cli *cli, const char *run, bool bare)
{
	char dir[PATH_MAX + 64];
	struct sbx_err err = { 0 };
	struct shown s = { 0 };
	struct found f;
	int r = find(cli, run, &f);

	if (r != CLI_OK)
		return (r);
	(void)snprintf(dir, sizeof(dir), "%s/suite-%d/journal",
	    cli->paths.state, f.slot);
	if (get(cli, &f, &s, &err) != 0)
		r = ctl_fail(CLI_PEER, &err);
	else
		take_shown(&s, bare);
	sbx_buf_clear(&s.text);
	if (r == CLI_OK && cli->json) {
		r = json_records(cli, &f, dir, s.o);
		(void)print_json(s.o);
		return (r);
	}
	if (r == CLI_OK) {
		print_all(s.o);
		r = print_records(cli, &f, dir);
	}
	json_object_put(s.o);
	return (r);
}

/* --- reconcile ---------------------------------------------------------------------------- */

/* Each suite that runs is asked: one that started anew has no row of it yet. */
static int
reconcile(const struct cli *cli, const char *run)
{
	const struct sbx_ctl_publish_reconcile m = { .publish = run };
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	int r = SBX_E_NOENT;

	if (!is_run(run))
		return (CLI_USAGE);
	(void)sbx_err_set(&err, r, "no suite of yours is running");
	for (int slot = 0; r != 0 && slot < SBX_MAX_SLOTS; slot++) {
		struct sbx_err e = { 0 };

		if (cli->slot != -1 && cli->slot != slot)
			continue;
		r = ask(cli, slot, SBX_MSG_CTL_PUBLISH_RECONCILE, &m,
		    SBX_MSG_CTL_PUBLISH_ANSWERED, &c, &e);
		if (r == 0)
			sbx_chan_clear(&c);
		else if (r != SBX_E_NOENT)
			err = e;
	}
	if (r != 0)
		return (ctl_fail(CLI_PEER, &err));
	printf("its branch is looked at: `sbx publish show %s`\n", run);
	return (CLI_OK);
}

int
cmd_publish(struct cli *cli, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "unmasked", no_argument, NULL, 'u' }, { 0 } };
	bool bare = false;
	int ch;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (ch != 'j' && ch != 'u')
			return (CLI_SYNTAX);
		cli->json |= ch == 'j';
		bare |= ch == 'u';
	}
	argc -= optind;
	argv += optind;
	if (argc == 1 && strcmp(argv[0], "list") == 0)
		return (list(cli));
	if (argc == 2 && strcmp(argv[0], "show") == 0)
		return (show(cli, argv[1], bare));
	if (argc == 2 && strcmp(argv[0], "reconcile") == 0)
		return (reconcile(cli, argv[1]));
	return (CLI_SYNTAX);
}

/* --- approve ----------------------------------------------------------------------------- */

int
cmd_approve(struct cli *cli, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "refuse", no_argument, NULL, 'r' }, { 0 } };
	struct sbx_ctl_publish_answer m = { .approve = 1 };
	struct sbx_err err = { 0 };
	struct sbx_chan c;
	struct found f;
	int ch, r;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (ch != 'r')
			return (CLI_SYNTAX);
		m.approve = 0;
	}
	if (argc - optind < 1 || argc - optind > (m.approve ? 1 : 2))
		return (CLI_SYNTAX);
	if ((r = find(cli, argv[optind], &f)) != CLI_OK)
		return (r);
	m.publish = f.run;
	m.commit = f.commit;
	m.branch = f.branch;
	m.reason = argc - optind == 2 ? argv[optind + 1] : "";
	if (strlen(m.reason) > REASON_MAX) {
		fprintf(stderr, "sbx: the reason is longer than %d bytes\n",
		    REASON_MAX);
		return (CLI_USAGE);
	}
	r = ask(cli, f.slot, SBX_MSG_CTL_PUBLISH_ANSWER, &m,
	    SBX_MSG_CTL_PUBLISH_ANSWERED, &c, &err);
	if (r != 0)
		return (ctl_fail(CLI_PEER, &err));
	sbx_chan_clear(&c);
	printf("%s: %s to %s of %s\n", m.approve ? "approved" : "refused",
	    f.commit, f.branch, f.repo);
	return (CLI_OK);
}
