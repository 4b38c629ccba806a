#include "sbxd/cli/cmd_journal.h"

#include "sbx-journald/reader.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_USAGE = 1, EXIT_FATAL = 2, EXIT_UNTRUE = 4 };

#define FOLLOW_PAUSE_NS 200000000
#define FOLLOW_TRIES 5	/* at a line whose end is not there yet */
#define TAIL_DEFAULT 10
#define SINCE_MAX 32	/* yyyy-mm-ddThh:mm:ss.nnnnnnnnnZ */
/* A line, each byte of it as an escape, and the names around it. */
#define RENDER_MAX (8u * JOURNAL_LINE_MAX)

struct view {
	struct journal_filter filter;
	uint64_t count;		/* UINT64_MAX: all */
	bool follow, json;
	char since[SINCE_MAX];
};

static int
usage(void)
{
	fprintf(stderr, "usage: sbx journal tail [-f] [-n N] [--json]\n"
	    "       sbx journal show [-c CONTAINER] [-r RUN] [-o OP] "
	    "[-s SINCE] [-n N] [--json]\n"
	    "       sbx journal verify [--checkpoint SEQ:HASH]\n");
	return (EXIT_USAGE);
}

static int
fail(const struct sbx_err *err)
{
	fprintf(stderr, "sbx: %s\n", err->msg);
	return (err->code == SBX_E_POLICY ? EXIT_UNTRUE : EXIT_FATAL);
}

/* 0, SBX_E_CLOSED when nobody reads stdout any more. */
static int
print_line(const struct view *view, const struct journal_line *l)
{
	struct journal_record rec;
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };

	sbx_buf_init(&b, RENDER_MAX);
	if (journal_parse(l->text, l->len, &rec) < 0) {
		/* its bytes could be anything: say where it is, no more */
		if (l->ended)
			fprintf(stderr, "sbx: " JOURNAL_NAME_FMT ", byte %"
			    PRIu64 ": no record, skipping\n", l->file,
			    l->offset);
		return (0);
	}
	if (view->json)
		(void)sbx_buf_add(&b, l->text, l->len);
	else
		(void)journal_render(&rec, &b);
	journal_record_clear(&rec);
	(void)sbx_buf_add(&b, "\n", 1);
	return (fwrite(b.data, 1, b.len, stdout) == b.len &&
	    (!view->follow || fflush(stdout) == 0) ? 0 : SBX_E_CLOSED);
}

/* Print what matches from here on, `most` lines and then those that come. */
static int
print_from(const struct view *view, struct journal_reader *r, uint64_t most,
    struct sbx_err *err)
{
	const struct timespec pause = { .tv_nsec = FOLLOW_PAUSE_NS };
	struct journal_line l;
	int res, tries = 0;

	while (most > 0 || view->follow) {
		res = journal_next(r, &l, err);
		if (res == SBX_E_AGAIN && view->follow &&
		    fflush(stdout) == 0) {
			/* ended by a signal, as tail(1) is */
			(void)nanosleep(&pause, NULL);
			continue;
		}
		if (res < 0)
			return (res == SBX_E_AGAIN ? 0 : res);
		/* being written, or a crash left it: then it stays so */
		if (view->follow && !l.ended && tries++ < FOLLOW_TRIES) {
			journal_unread(r, &l);
			(void)nanosleep(&pause, NULL);
			continue;
		}
		tries = 0;
		if (!journal_line_matches(&view->filter, &l))
			continue;
		if (print_line(view, &l) < 0)
			return (sbx_err_sys(err, "writing to stdout"));
		most -= most > 0;
	}
	return (0);
}

static int
show(const struct view *view, const char *dir, const char *cache)
{
	struct journal_reader *r;
	struct sbx_err err = { 0 };
	uint64_t most = view->count;
	int res;

	res = journal_open(dir, &r, &err);
	if (res < 0)
		return (fail(&err));
	if (cache != NULL)
		journal_cache(r, cache);
	journal_want(r, &view->filter);
	if (view->count != UINT64_MAX)
		res = journal_seek_last(r, &view->filter, view->count, &most,
		    &err);
	if (res == 0)
		res = print_from(view, r, most, &err);
	journal_close(r);
	if (fflush(stdout) != 0)
		return (EXIT_FATAL);
	return (res < 0 ? fail(&err) : EXIT_OK);
}

int
cmd_journal_records(const char *dir, const char *cache, const char *run,
    struct json_object *to, struct sbx_err *err)
{
	const struct journal_filter filter = { .run = run };
	struct journal_reader *r;
	struct journal_record rec;
	struct journal_line l;
	int res = journal_open(dir, &r, err);

	if (res < 0)
		return (res);
	if (cache != NULL)
		journal_cache(r, cache);
	journal_want(r, &filter);
	while ((res = journal_next(r, &l, err)) == 0) {
		if (!journal_line_matches(&filter, &l) ||
		    journal_parse(l.text, l.len, &rec) < 0)
			continue;
		json_object_array_add(to, json_object_get(rec.all));
		journal_record_clear(&rec);
	}
	journal_close(r);
	return (res == SBX_E_AGAIN ? 0 : res);
}

/*
 * When: a beginning of a record's own time, or how long ago (30s, 10m, 2h,
 * 7d).  0, SBX_E_SYNTAX.
 */
static int
parse_since(const char *s, char ret_since[SINCE_MAX])
{
	static const char shape[] = "0000-00-00T00:00:00.000000000Z";
	static const struct { char unit; unsigned seconds; } units[] = {
		{ 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	size_t i, len = strlen(s);
	char number[16];
	struct tm tm;
	uint64_t n;
	time_t t;

	for (i = 0; s[i] != '\0' && shape[i] != '\0'; i++)
		if (shape[i] == '0' ? s[i] < '0' || s[i] > '9' :
		    s[i] != shape[i])
			break;
	if (len >= 4 && s[i] == '\0')
		return (sbx_strlcpy(ret_since, s, SINCE_MAX));
	if (len < 2 || len > sizeof(number))
		return (SBX_E_SYNTAX);
	memcpy(number, s, len - 1);
	number[len - 1] = '\0';
	for (i = 0; i < SBX_NELEM(units); i++)
		if (units[i].unit == s[len - 1])
			break;
	if (i == SBX_NELEM(units) ||
	    sbx_parse_u64(number, 0, 1000000000, &n) < 0)
		return (SBX_E_SYNTAX);
	t = time(NULL) - (time_t)(n * units[i].seconds);
	if (gmtime_r(&t, &tm) == NULL ||
	    strftime(ret_since, SINCE_MAX, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		return (SBX_E_SYNTAX);
	return (0);
}

/* An id, or for a sandbox the beginning of one, as the records have it. */
static int
parse_id(const char *what, const char *s, size_t min, size_t max)
{
	size_t len = strlen(s);

	if (len >= min && len <= max && sbx_is_hex(s, len))
		return (0);
	fprintf(stderr, "sbx: '%.64s' is not the id of a %s, which has %zu hex "
	    "digits\n", s, what, max);
	return (SBX_E_SYNTAX);
}

static const struct option long_options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "container", required_argument, NULL, 'c' },
	{ "run", required_argument, NULL, 'r' },
	{ "op", required_argument, NULL, 'o' },
	{ "since", required_argument, NULL, 's' },
	{ "checkpoint", required_argument, NULL, 'k' },
	{ NULL, 0, NULL, 0 },
};

static int
parse_view(struct view *view, int argc, char **argv, const char *options)
{
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, options, long_options, NULL)) !=
	    -1) {
		/* a long option counts only where its letter is permitted */
		if (c == '?' || (c != 'j' && strchr(options, c) == NULL))
			return (SBX_E_SYNTAX);
		if (c == 'f')
			view->follow = true;
		else if (c == 'j')
			view->json = true;
		else if (c == 'c') {
			view->filter.container = optarg;
			if (parse_id("sandbox", optarg, 1, 12) < 0)
				return (SBX_E_SYNTAX);
		} else if (c == 'r') {
			view->filter.run = optarg;
			if (parse_id("run", optarg, 16, 16) < 0)
				return (SBX_E_SYNTAX);
		} else if (c == 'o')
			view->filter.op = optarg;
		else if (c == 's') {
			view->filter.since = view->since;
			if (parse_since(optarg, view->since) < 0) {
				fprintf(stderr, "sbx: -s takes a time in UTC, "
				    "as 2026-07-28T14:00, or how long ago, as "
				    "30s, 10m, 2h or 7d\n");
				return (SBX_E_SYNTAX);
			}
		} else if (sbx_parse_u64(optarg, 0, 1000000000, &view->count) <
		    0) {
			fprintf(stderr, "sbx: -n takes a number of records\n");
			return (SBX_E_SYNTAX);
		}
	}
	return (optind == argc ? 0 : SBX_E_SYNTAX);
}

static int
verify(const char *dir, uint64_t seq, const char *hash)
{
	struct journal_verdict v;
	struct sbx_err err = { 0 };
	int res;

	res = journal_verify(dir, seq, hash, &v, &err);
	if (res == SBX_E_POLICY || (res < 0 && v.last_seq > 0))
		fprintf(stderr, "sbx: verification failed after record %" PRIu64
		    ":\n", v.last_seq);
	if (res < 0)
		return (fail(&err));
	printf("%" PRIu64 " records good, last %" PRIu64 ":%s\n", v.records,
	    v.last_seq, v.last_hash);
	if (v.torn_lines > 0)
		printf("%" PRIu64 " torn lines, %" PRIu64
		    " bytes, accounted for\n", v.torn_lines, v.torn_bytes);
	if (v.unfinished > 0)
		printf("the last line has %" PRIu64 " bytes and no end: being "
		    "written, or cut by a crash\n", v.unfinished);
	if (v.anchored)
		printf("anchored at checkpoint %" PRIu64 "\n", seq);
	else
		printf("tail unanchored\n");
	return (fflush(stdout) == 0 ? EXIT_OK : EXIT_FATAL);
}

static int
cmd_verify(const char *dir, int argc, char **argv)
{
	char *hash = NULL;
	uint64_t seq = 0;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c != 'k')
			return (usage());
		if ((hash = strchr(optarg, ':')) != NULL)
			*hash++ = '\0';
		if (hash == NULL ||
		    sbx_parse_u64(optarg, 1, INT64_MAX, &seq) < 0 ||
		    !sbx_is_hex(hash, JOURNAL_HASH_HEX)) {
			fprintf(stderr, "sbx: --checkpoint takes SEQ:HASH as "
			    "verify printed it, with %d hex digits\n",
			    JOURNAL_HASH_HEX);
			return (usage());
		}
	}
	return (optind == argc ? verify(dir, seq, hash) : usage());
}

int
cmd_journal(const char *dir, const char *cache, int argc, char **argv)
{
	struct view view = { .count = UINT64_MAX };
	const char *verb = argc > 1 ? argv[1] : "";

	argc--;
	argv++;
	if (strcmp(verb, "verify") == 0)
		return (cmd_verify(dir, argc, argv));
	if (strcmp(verb, "tail") == 0) {
		view.count = TAIL_DEFAULT;
		return (parse_view(&view, argc, argv, "fn:") < 0 ? usage() :
		    show(&view, dir, cache));
	}
	if (strcmp(verb, "show") == 0)
		return (parse_view(&view, argc, argv, "c:r:o:s:n:") < 0 ?
		    usage() : show(&view, dir, cache));
	return (usage());
}
