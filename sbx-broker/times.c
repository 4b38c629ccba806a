#include "sbx-broker/times.h"

#include "common/base/base.h"
#include "sbx-broker/token.h"

#define NS_S 1000000000ull

uint64_t
times_left_s(uint64_t now_s, uint64_t expires_s)
{
	return (expires_s > now_s ? expires_s - now_s : 0);
}

bool
times_odd(uint64_t now_s, uint64_t expires_s)
{
	const uint64_t left = times_left_s(now_s, expires_s);

	return (left < TIMES_LIFE_S - TIMES_SKEW_S ||
	    left > TIMES_LIFE_S + TIMES_SKEW_S);
}

uint64_t
times_keep_s(uint64_t now_s, uint64_t expires_s)
{
	const uint64_t left = times_left_s(now_s, expires_s);

	if (left <= TOKEN_MARGIN_S)
		return (0);
	return (left - TOKEN_MARGIN_S < TOKEN_KEEP_S ? left - TOKEN_MARGIN_S :
	    TOKEN_KEEP_S);
}

uint64_t
times_revoke_s(uint64_t now_s, uint64_t expires_s)
{
	return (times_odd(now_s, expires_s) ? TIMES_LIFE_S :
	    times_left_s(now_s, expires_s));
}

uint64_t
times_again_ns(unsigned tries, uint64_t retry_s, uint64_t now_ns,
    uint64_t expires_ns)
{
	static const unsigned pauses_s[TIMES_TRIES] = { 0, 1, 30, 300 };
	uint64_t s;

	if (tries == 0 || tries >= TIMES_TRIES)
		return (0);
	s = pauses_s[tries] > retry_s ? pauses_s[tries] : retry_s;
	if (now_ns >= expires_ns || s >= (expires_ns - now_ns) / NS_S)
		return (0);
	return (now_ns + s * NS_S);
}
