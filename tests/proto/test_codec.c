/*
 * Every message of msgs.def: samples survive the way there and back; every
 * body that differs from a right one in length, NULs or limits is refused;
 * and whatever is taken has exactly the encoding that it came in.
 */

#include "common/proto/wire.h"

#include "tests/proto/sample.h"
#include "tests/tap.h"

static uint8_t buf[2 * SBX_MSG_BYTES_MAX];

static int
get(unsigned type, const uint8_t *p, size_t len)
{
	union sbx_any_msg m;

	return (sbx_msg_specs[type].get(p, len, &m));
}

/* Decoded and encoded again, it must be the same bytes. */
static bool
canonical(unsigned type, const uint8_t *p, size_t len)
{
	union sbx_any_msg m;
	size_t n;

	return (sbx_msg_specs[type].get(p, len, &m) == 0 &&
	    sbx_msg_specs[type].put(&m, buf, sbx_msg_specs[type].max_bytes,
	    &n) == 0 && n == len && memcmp(buf, p, len) == 0);
}

static bool
round_trips(unsigned type, enum sample how)
{
	const struct sbx_msg_spec *spec = &sbx_msg_specs[type];
	SBX_CLEANUP(free) uint8_t *want = NULL;
	union sbx_any_msg in, out;
	size_t len = 0, want_len;

	sample_fill(type, how, &in);
	want = sample_body(type, how, -1, NULL, 0, &want_len);
	memset(&out, 0xa5, sizeof(out));
	return (want_len <= spec->max_bytes &&
	    spec->put(&in, buf, spec->max_bytes, &len) == 0 &&
	    len == want_len && memcmp(buf, want, len) == 0 &&
	    spec->get(want, len, &out) == 0 &&
	    sample_equal(type, &in, &out) && canonical(type, want, len));
}

/* Cut at each byte; one byte more; put into a buffer one byte too small. */
static bool
exact_length(unsigned type, enum sample how)
{
	const struct sbx_msg_spec *spec = &sbx_msg_specs[type];
	SBX_CLEANUP(free) uint8_t *p = NULL;
	SBX_CLEANUP(free) uint8_t *q = NULL;
	union sbx_any_msg m;
	size_t i, len, n;
	bool good = true;

	p = sample_body(type, how, -1, NULL, 0, &len);
	for (i = 0; i < len && good; i++) {
		if (how == SAMPLE_FULL) {
			good = get(type, p, i) == SBX_E_DECODE;
			continue;
		}
		/* a copy of the exact size: a sanitizer guards its end */
		q = sbx_xcalloc(1, i);
		memcpy(q, p, i);
		good = get(type, q, i) == SBX_E_DECODE;
		free(q);
	}
	q = sbx_xcalloc(1, len + 1);
	memcpy(q, p, len);
	good = good && get(type, q, len + 1) == SBX_E_DECODE;
	q[len] = 'x';
	good = good && get(type, q, len + 1) == SBX_E_DECODE;
	sample_fill(type, how, &m);
	if (len > 0)
		good = good && spec->put(&m, buf, len - 1, &n) == SBX_E_LIMIT;
	return (good);
}

static void
be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

/* The sample with these bytes for field i: what does the decoder say? */
static int
get_odd(unsigned type, int i, const void *raw, size_t raw_len)
{
	SBX_CLEANUP(free) uint8_t *p = NULL;
	size_t len;

	p = sample_body(type, SAMPLE_SOME, i, raw, raw_len, &len);
	return (get(type, p, len));
}

/* One string: at its limit, past it, NUL inside, NUL missing, length lies. */
static bool
string_is_strict(unsigned type, int i, uint32_t max)
{
	uint8_t *p = sbx_xcalloc(1, max + 16);
	bool good;

	memset(p, 'x', max + 16);
	be32(p, max);
	p[4 + max] = '\0';
	good = get_odd(type, i, p, 4 + max + 1) == 0;
	p[4 + max] = 'x';
	good = good && get_odd(type, i, p, 4 + max + 1) == SBX_E_DECODE;
	be32(p, max + 1);
	p[5 + max] = '\0';
	good = good && get_odd(type, i, p, 5 + max + 1) == SBX_E_DECODE;
	be32(p, max);
	p[4 + max] = '\0';
	p[4 + max / 2] = '\0';	/* max is 8 at least */
	good = good && get_odd(type, i, p, 4 + max + 1) == SBX_E_DECODE;
	be32(p, UINT32_MAX);
	good = good && get_odd(type, i, p, 4 + max + 1) == SBX_E_DECODE;
	be32(p, UINT32_MAX - 1);
	good = good && get_odd(type, i, p, 4 + max + 1) == SBX_E_DECODE;
	free(p);
	return (good);
}

static int
get_strs(unsigned type, int i, uint32_t count, uint32_t len, const char *data,
    size_t data_len)
{
	uint8_t *p = sbx_xcalloc(1, 8 + data_len);
	int r;

	be32(p, count);
	be32(p + 4, len);
	memcpy(p + 8, data, data_len);
	r = get_odd(type, i, p, 8 + data_len);
	free(p);
	return (r);
}

static bool
strings_are_strict(unsigned type, int i, uint32_t count, uint32_t max)
{
	char *d = sbx_xcalloc(1, max + 1);
	bool good;

	/* all zero: `count` empty strings, and no more */
	good = get_strs(type, i, count, count, d, count) == 0 &&
	    get_strs(type, i, count + 1, count + 1, d, count + 1) ==
	    SBX_E_DECODE &&
	    get_strs(type, i, count - 1, count, d, count) == SBX_E_DECODE &&
	    get_strs(type, i, 0, 1, d, 1) == SBX_E_DECODE &&
	    get_strs(type, i, 1, 0, d, 0) == SBX_E_DECODE &&
	    get_strs(type, i, 0, 0, d, 0) == 0;
	/* one string, of all bytes and one more; without its NUL */
	memset(d, 'x', max);
	good = good && get_strs(type, i, 1, max, d, max) == SBX_E_DECODE &&
	    get_strs(type, i, 1, max + 1, d, max + 1) == SBX_E_DECODE;
	d[max - 1] = '\0';
	good = good && get_strs(type, i, 1, max, d, max) == 0 &&
	    get_strs(type, i, 2, max, d, max) == SBX_E_DECODE &&
	    get_strs(type, i, UINT32_MAX, max, d, max) == SBX_E_DECODE &&
	    get_strs(type, i, 1, UINT32_MAX, d, max) == SBX_E_DECODE;
	free(d);
	return (good);
}

static bool
fields_are_strict(unsigned type)
{
	const struct field *f = fields_of[type];
	int i;

	for (i = 0; f[i].kind != FIELD_END; i++) {
		if (f[i].kind == FIELD_STR &&
		    !string_is_strict(type, i, f[i].max))
			return (false);
		if (f[i].kind == FIELD_STRS &&
		    !strings_are_strict(type, i, f[i].count, f[i].max))
			return (false);
	}
	return (true);
}

/* Each bit in turn, then several at random: refused, or canonical. */
static bool
flips_are_safe(unsigned type)
{
	SBX_CLEANUP(free) uint8_t *p = NULL;
	SBX_CLEANUP(free) uint8_t *q = NULL;
	uint32_t seed = type * 2654435761u + 1;
	size_t bit, len;
	int i, k;

	p = sample_body(type, SAMPLE_SOME, -1, NULL, 0, &len);
	q = sbx_xcalloc(1, len);
	for (bit = 0; bit < 8 * len; bit++) {
		memcpy(q, p, len);
		q[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		if (get(type, q, len) != SBX_E_DECODE &&
		    !canonical(type, q, len))
			return (false);
	}
	for (i = 0; i < 2000 && len > 0; i++) {
		memcpy(q, p, len);
		for (k = 0; k < 3; k++) {
			seed = seed * 1664525u + 1013904223u;
			q[(seed >> 8) % len] ^= (uint8_t)(1u << (seed >> 29));
		}
		if (get(type, q, len) != SBX_E_DECODE &&
		    !canonical(type, q, len))
			return (false);
	}
	return (true);
}

static void
test_put_limits(void)
{
	static char big[131074];
	struct sbx_log l = { .text = big };
	struct sbx_exec_start x = { .cwd = NULL };
	size_t len;

	memset(big, 'x', 513);
	ok(sbx_msg_specs[SBX_MSG_LOG].put(&l, buf, 1024, &len) == SBX_E_LIMIT,
	    "put refuses a string past its limit");
	big[512] = '\0';
	ok(sbx_msg_specs[SBX_MSG_LOG].put(&l, buf, 1024, &len) == 0,
	    "and takes it at its limit");
	ok(sbx_msg_specs[SBX_MSG_EXEC_START].put(&x, buf, sizeof(buf), &len)
	    == 0 && canonical(SBX_MSG_EXEC_START, buf, len),
	    "put sends NULL as \"\" and no strings");

	memset(big, 0, sizeof(big));
	x.argv = (struct sbx_strs){ .data = big, .count = 1025, .len = 1025 };
	ok(sbx_msg_specs[SBX_MSG_EXEC_START].put(&x, buf, sizeof(buf), &len)
	    == SBX_E_LIMIT, "put refuses too many strings");
	x.argv.count = 1024;
	ok(sbx_msg_specs[SBX_MSG_EXEC_START].put(&x, buf, sizeof(buf), &len)
	    == SBX_E_LIMIT, "put refuses a count that is not the strings'");
	memset(big, 'x', sizeof(big) - 1);
	x.argv = (struct sbx_strs){ .data = big, .count = 1, .len = 131073 };
	ok(sbx_msg_specs[SBX_MSG_EXEC_START].put(&x, buf, sizeof(buf), &len)
	    == SBX_E_LIMIT, "put refuses strings past their limit");
	x.argv.len = 131072;
	ok(sbx_msg_specs[SBX_MSG_EXEC_START].put(&x, buf, sizeof(buf), &len)
	    == SBX_E_LIMIT, "put refuses a last string without NUL");
	ok(sbx_msg_specs[SBX_MSG_PING].put(NULL, buf, 0, &len) == 0 &&
	    len == 0, "put of nothing");
}

static void
test_strs(void)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct sbx_strs s = { 0 };
	const char *p;
	char all[64] = "";

	sbx_buf_init(&b, 10);
	ok(sbx_strs_next(&s, NULL) == NULL, "no strings, no next");
	ok(sbx_strs_add(&s, &b, "abc") == 0 && sbx_strs_add(&s, &b, "") == 0 &&
	    sbx_strs_add(&s, &b, "defg") == 0 && s.count == 3 && s.len == 10,
	    "strings are added up to the buffer's maximum");
	ok(sbx_strs_add(&s, &b, "") == SBX_E_LIMIT && s.count == 3 &&
	    s.len == 10, "and no further");
	for (p = NULL; (p = sbx_strs_next(&s, p)) != NULL;)
		(void)snprintf(all + strlen(all), sizeof(all) - strlen(all),
		    "<%s>", p);
	ok(strcmp(all, "<abc><><defg>") == 0, "and come back in order");
}

int
main(void)
{
	unsigned t, n = 0;
	int how;

	tap_plan(0);
	for (t = 0; t < SBX_MSG_MAX; t++) {
		const struct sbx_msg_spec *spec = &sbx_msg_specs[t];
		bool rt = true, len = true;

		if (spec->name == NULL)
			continue;
		n++;
		for (how = 0; how < SAMPLE_MAX; how++) {
			rt = rt && round_trips(t, how);
			len = len && exact_length(t, how);
		}
		ok(rt, "%s: every sample survives", spec->name);
		ok(len, "%s: each cut and each byte too many is refused",
		    spec->name);
		ok(fields_are_strict(t), "%s: limits and NULs are checked",
		    spec->name);
		ok(flips_are_safe(t), "%s: flipped bits are refused or exact",
		    spec->name);
		ok(spec->from != 0 && spec->to != 0 && (spec->from &
		    ~((1u << SBX_PROC_MAX) - 1)) == 0 && (spec->to &
		    ~((1u << SBX_PROC_MAX) - 1)) == 0,
		    "%s: somebody sends and receives it", spec->name);
	}
	ok(n > 50, "%u messages", n);
	test_put_limits();
	test_strs();
	for (t = 0; t < SBX_PROC_MAX; t++)
		ok(sbx_proc_name(t) != NULL, "process %u has a name", t);
	ok(strcmp(sbx_proc_name(SBX_PROC_MAX), "unknown") == 0,
	    "a process that does not exist has none");
	return (tap_done());
}
