#ifndef SBX_BASE_SHA256_H
#define SBX_BASE_SHA256_H

/*
 * SHA-256, for the processes that link no crypto library: names of things by
 * their content, nothing secret.  Source: FIPS 180-4.
 */

#include <stddef.h>
#include <stdint.h>

#define SBX_SHA256_HEX 64

struct sbx_sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[64];
};
void sbx_sha256_init(struct sbx_sha256 *s);
void sbx_sha256_add(struct sbx_sha256 *s, const void *p, size_t n);
/* Ends it: 64 lower-case digits and NUL. */
void sbx_sha256_end(struct sbx_sha256 *s, char hex[SBX_SHA256_HEX + 1]);

#endif
