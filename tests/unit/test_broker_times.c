/* What the key process decides by the time of day, without waiting for it. */

#include "common/base/base.h"
#include "sbx-broker/sources.h"
#include "sbx-broker/times.h"
#include "sbx-broker/token.h"
#include "tests/tap.h"

#define NOW 1800000000u		/* wall time, s */
#define S UINT64_C(1000000000)

/* Of one that ends so long after now. */
static void
test_life(void)
{
	static const struct {
		int64_t left_s;
		uint64_t keep_s, revoke_s;
		bool odd;
	} rows[] = {
		{ 3600, 3300, 3600, false },
		{ 3540, 3240, 3540, false }, { 3660, 3300, 3660, false },
		{ 3539, 3239, 3600, true }, { 3661, 3300, 3600, true },
		{ 301, 1, 3600, true }, { 300, 0, 3600, true },
		{ 1, 0, 3600, true }, { 0, 0, 3600, true },
		{ -7200, 0, 3600, true }, { 86400, 3300, 3600, true },
		{ INT64_MAX / 2, 3300, 3600, true },
	};

	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		const uint64_t end = (uint64_t)(NOW + rows[i].left_s);

		ok(times_keep_s(NOW, end) == rows[i].keep_s &&
		    times_revoke_s(NOW, end) == rows[i].revoke_s &&
		    times_odd(NOW, end) == rows[i].odd,
		    "one of %lld s: used for %llu s, worth revoking for %llu",
		    (long long)rows[i].left_s,
		    (unsigned long long)rows[i].keep_s,
		    (unsigned long long)rows[i].revoke_s);
	}
}

static void
test_again(void)
{
	const uint64_t now = 5 * S, end = now + 3600 * S;

	ok(times_again_ns(1, 0, now, end) == now + S &&
	    times_again_ns(2, 0, now, end) == now + 30 * S &&
	    times_again_ns(3, 0, now, end) == now + 300 * S,
	    "a revocation is tried again after 1, 30 and 300 s");
	ok(times_again_ns(0, 0, now, end) == 0 &&
	    times_again_ns(TIMES_TRIES, 0, now, end) == 0 &&
	    times_again_ns(~0u, 0, now, end) == 0, "and then no more");
	ok(times_again_ns(1, 77, now, end) == now + 77 * S &&
	    times_again_ns(3, 77, now, end) == now + 300 * S,
	    "later where its host asks for that");
	ok(times_again_ns(1, 3599, now, end) == now + 3599 * S &&
	    times_again_ns(1, 3600, now, end) == 0 &&
	    times_again_ns(1, UINT64_MAX, now, end) == 0 &&
	    times_again_ns(3, 0, end - 300 * S, end) == 0 &&
	    times_again_ns(1, 0, end, end) == 0 &&
	    times_again_ns(1, 0, end + S, end) == 0,
	    "never when the token has ended by then");
}

/* Which of the cache is used at which time. */
static void
test_cache(void)
{
	static const struct source here = { .host = "github.com" };
	struct tokens all = { .n = 0 };
	struct token *t = token_new(NULL, &here);

	t->permissions = "p";
	(void)sbx_strlcpy(t->repo, "a/b", sizeof(t->repo));
	t->until_ns = 3300 * S;
	tokens_keep(&all, t);
	ok(tokens_find(&all, "github.com", "a/b", "p", 0) == t &&
	    tokens_find(&all, "github.com", "a/b", "p", 3300 * S - 1) == t,
	    "a token is found until its time");
	ok(tokens_find(&all, "github.com", "a/b", "p", 3300 * S) == NULL &&
	    tokens_find(&all, "github.com", "a/b", "p", UINT64_MAX) == NULL,
	    "and from then on not");
	tokens_drop(&all, t);
	token_unref(t);
}

int
main(void)
{
	tap_plan(0);
	test_life();
	test_again();
	test_cache();
	return (tap_done());
}
