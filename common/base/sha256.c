#include "common/base/sha256.h"

#include <endian.h>
#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first primes,
 * and of their square roots. */
static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t begin[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t
ror(uint32_t x, unsigned n)
{
	return (x >> n | x << (32 - n));
}

static void
block(struct sbx_sha256 *s, const uint8_t *p)
{
	uint32_t w[64], v[8], t1, t2;

	for (unsigned i = 0; i < 16; i++) {
		memcpy(&w[i], p + 4 * i, 4);
		w[i] = be32toh(w[i]);
	}
	for (unsigned i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		    (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3) +
		    (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->h, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		t1 = v[7] + (ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25)) +
		    ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
		t2 = (ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22)) +
		    ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (unsigned i = 0; i < 8; i++)
		s->h[i] += v[i];
}

void
sbx_sha256_init(struct sbx_sha256 *s)
{
	memcpy(s->h, begin, sizeof(s->h));
	s->bytes = 0;
}

void
sbx_sha256_add(struct sbx_sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t have = s->bytes % 64, part;

	s->bytes += n;
	if (have > 0) {
		part = n < 64 - have ? n : 64 - have;
		memcpy(s->block + have, p, part);
		p += part;
		n -= part;
		if (have + part < 64)
			return;
		block(s, s->block);
	}
	for (; n >= 64; n -= 64, p += 64)
		block(s, p);
	if (n > 0)
		memcpy(s->block, p, n);
}

void
sbx_sha256_end(struct sbx_sha256 *s, char hex[SBX_SHA256_HEX + 1])
{
	static const uint8_t pad[64] = { 0x80 };
	static const char digits[] = "0123456789abcdef";
	uint64_t bits = htobe64(s->bytes * 8);
	size_t have = s->bytes % 64;

	sbx_sha256_add(s, pad, (have < 56 ? 56 : 120) - have);
	sbx_sha256_add(s, &bits, sizeof(bits));
	for (unsigned i = 0; i < SBX_SHA256_HEX; i++)
		hex[i] = digits[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
	hex[SBX_SHA256_HEX] = '\0';
}
