/*
 * What the certificates of a sandbox cost, in microseconds; one JSON line a
 * figure.
 *
 *	bench_ca [roots.pem]
 */
#include "sbx-proxy/ca.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 101
#define ID "0123456789ab"

static uint64_t times[ROUNDS];
static struct policy policy;
static struct roots *roots;

static int
by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x < *y ? -1 : *x > *y);
}

static void
print(const char *name)
{
	qsort(times, ROUNDS, sizeof(times[0]), by_size);
	printf("{\"bench\":\"%s\",\"rounds\":%d,\"median_us\":%llu,"
	    "\"p95_us\":%llu}\n", name, ROUNDS,
	    (unsigned long long)times[ROUNDS / 2] / 1000,
	    (unsigned long long)times[ROUNDS * 95 / 100] / 1000);
}

static void
must(int r, const struct sbx_err *err)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_ca: %s\n", err->msg);
	exit(1);
}

static void
read_roots(const char *path)
{
	SBX_CLEANUP(free) char *p = sbx_xcalloc(1, CA_ROOTS_MAX);
	int SBX_CLEANUP(fd) fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd == -1 ? -1 : read(fd, p, CA_ROOTS_MAX);
	struct sbx_err err = { 0 };
	uint64_t t = sbx_mono_ns();

	if (n <= 0 || roots_read(p, (size_t)n, &roots, &err) != 0)
		return;		/* a machine without roots */
	printf("{\"bench\":\"ca_roots\",\"roots\":%u,\"us\":%llu}\n", roots->n,
	    (unsigned long long)(sbx_mono_ns() - t) / 1000);
}

static void
bench_contexts(struct ca *ca)
{
	struct sbx_err err = { 0 };
	struct host h = { .kind = HOST_NAME };
	SSL_CTX *c;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = sbx_mono_ns();

		(void)snprintf(h.text, sizeof(h.text), "n%d.github.com", i);
		must(ca_context(ca, &h, &c, &err), &err);
		times[i] = sbx_mono_ns() - t;
	}
	print("ca_context_cold");
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = sbx_mono_ns();

		must(ca_context(ca, &h, &c, &err), &err);
		times[i] = sbx_mono_ns() - t;
	}
	print("ca_context_warm");
}

int
main(int argc, char **argv)
{
	struct sbx_err err = { 0 };
	struct ca *ca = NULL;
	int fds[4];

	policy_init(&policy);
	read_roots(argc > 1 ? argv[1] : "/etc/ssl/certs/ca-certificates.crt");
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = sbx_mono_ns();

		ca_free(ca);
		must(ca_make(ID, &policy, &ca, &err), &err);
		times[i] = sbx_mono_ns() - t;
	}
	print("ca_make");
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = sbx_mono_ns();

		must(ca_trust(ca, roots, fds, &err), &err);
		times[i] = sbx_mono_ns() - t;
		for (int k = 0; k < 4; k++)
			sbx_close(&fds[k]);
	}
	print("ca_trust");
	bench_contexts(ca);
	ca_free(ca);
	roots_free(roots);
	policy_clear(&policy);
	return (0);
}
