/*
 * How fast files are looked at for secrets: one JSON line.
 *
 *	bench_scan [-r rules.toml] file ...
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sbxd/judge/scan.h"

#define PIECE (128u << 10)
#define ROUNDS 7

static void
count(void *ctx, const struct scan_finding *f)
{
	(void)f;
	++*(unsigned long *)ctx;
}

/* Of this process: what else runs does not count. */
static uint64_t
cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

static char *
slurp(const char *path, size_t *ret_n)
{
	FILE *f = fopen(path, "rbe");
	size_t size = 1 << 20, got;
	char *p = NULL;

	*ret_n = 0;
	if (f == NULL)
		return (NULL);
	do {
		size *= 2;
		p = sbx_xreallocarray(p, size, 1);
		got = fread(p + *ret_n, 1, size - *ret_n, f);
		*ret_n += got;
	} while (got > 0);
	(void)fclose(f);
	return (p);
}

/* The best of some rounds: the others were in somebody's way. */
static void
scan_file(struct scan *s, const char *path, unsigned long *bytes,
    unsigned long *found, uint64_t *ns)
{
	SBX_CLEANUP(free) char *p = NULL;
	uint64_t best = UINT64_MAX, began, took;
	unsigned long here = 0;
	size_t n;

	p = slurp(path, &n);
	for (int i = 0; i < ROUNDS && p != NULL; i++) {
		here = 0;
		began = cpu_ns();
		scan_begin(s, path, NULL, 0, count, &here);
		for (size_t at = 0; at < n; at += PIECE)
			if (scan_add(s, p + at, n - at < PIECE ? n - at :
			    PIECE) != 0)
				break;
		(void)scan_end(s);
		took = cpu_ns() - began;
		best = took < best ? took : best;
	}
	*ns += p != NULL ? best : 0;
	*bytes += n;
	*found += here;
}

int
main(int argc, char **argv)
{
	unsigned long bytes = 0, found = 0;
	char reason[SCAN_REASON], *rules = NULL;
	uint64_t ns = 0, began;
	struct scan *s;
	size_t n = 0;
	int first = 1;

	if (argc > 2 && strcmp(argv[1], "-r") == 0) {
		rules = slurp(argv[2], &n);
		first = 3;
	}
	began = cpu_ns();
	s = scan_new(rules, n, reason);
	if (s == NULL) {
		(void)fprintf(stderr, "bench_scan: %s\n", reason);
		return (1);
	}
	began = cpu_ns() - began;
	for (int i = first; i < argc; i++)
		scan_file(s, argv[i], &bytes, &found, &ns);
	printf("{\"name\":\"secret scan\",\"files\":%d,\"bytes\":%lu,"
	    "\"findings\":%lu,\"start_ms\":%.2f,\"cpu_s\":%.3f,"
	    "\"mb_per_s\":%.1f}\n", argc - first, bytes, found,
	    (double)began / 1e6, (double)ns / 1e9,
	    ns > 0 ? (double)bytes * 1e3 / (double)ns : 0);
	scan_free(s);
	free(rules);
	return (0);
}
