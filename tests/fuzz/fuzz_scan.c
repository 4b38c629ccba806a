/*
 * The scanner for secrets.  The first byte: 0, the rest are rules (TOML), and
 * are used on themselves if they are taken; else, a file, for the built-in
 * rules, in pieces of so many bytes.  What is found depends on no piece.
 */
#include <string.h>

#include "sbxd/judge/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	unsigned n, lines, limits;
};

static void
add(void *ctx, const struct scan_finding *f)
{
	struct sum *s = ctx;

	if (f->line == 0 || strlen(f->fingerprint) != 64 ||
	    strcmp(f->path, "a/b.py") != 0)
		abort();
	s->n++;
	s->lines += f->line;
	s->limits += strcmp(f->rule, SCAN_LIMIT) == 0;
}

static struct sum
scan(struct scan *s, const uint8_t *p, size_t n, size_t piece)
{
	struct sum sum = { 0 };
	int r = 0;

	scan_begin(s, "a/b.py", NULL, 0, add, &sum);
	for (size_t at = 0; at < n && r == 0; at += piece)
		r = scan_add(s, p + at, n - at < piece ? n - at : piece);
	if (scan_end(s) != 0)
		r = -1;
	if ((r != 0) != (sum.limits == 1) || sum.limits > 1 ||
	    sum.n > SCAN_MAX_FINDINGS + 1)
		abort();
	return (sum);
}

/* The file is its own base: nothing of it is new. */
static void
scan_old(struct scan *s, const uint8_t *p, size_t n)
{
	struct sum sum = { 0 };

	scan_begin(s, "a/b.py", p, n, add, &sum);
	(void)scan_add(s, p, n);
	(void)scan_end(s);
	if (sum.n > sum.limits)
		abort();
}

static void
scan_file(const uint8_t *p, size_t n, size_t piece)
{
	static struct scan *s;
	char reason[SCAN_REASON];
	struct sum one, two;

	if (s == NULL && (s = scan_new(NULL, 0, reason)) == NULL)
		abort();
	one = scan(s, p, n, n + 1);
	two = scan(s, p, n, piece);
	if (one.n != two.n || one.lines != two.lines)
		abort();
	scan_old(s, p, n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char reason[SCAN_REASON];
	struct scan *s;

	if (size < 2)
		return (0);
	if (data[0] != '0') {
		scan_file(data + 1, size - 1, data[0]  == 0 ? 1 : data[0]);
		return (0);
	}
	s = scan_new((const char *)data + 1, size - 1, reason);
	if (s == NULL && (reason[0] == '\0' || strlen(reason) >= SCAN_REASON))
		abort();
	if (s != NULL)
		(void)scan(s, data + 1, size - 1, size);
	scan_free(s);
	return (0);
}
