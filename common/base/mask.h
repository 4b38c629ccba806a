#ifndef SBX_BASE_MASK_H
#define SBX_BASE_MASK_H

/*
 * Known shapes of secrets, from one table: tokens by prefix (ghp_ gho_ ghu_
 * ghs_ ghr_ github_pat_ glpat- xox?- sk- sk-ant- AKIA ... ), PEM private key
 * blocks, Authorization headers, URL user info with a password, KEY=value of
 * names that say token, secret, password, api key.
 */

#include "common/base/base.h"

/* Replace each by "***", never longer than before: in place, *len shrinks.
 * Returns how many were masked.  Any bytes; NUL is an ordinary byte. */
size_t sbx_mask(char *text, size_t *len);
/* Does it hold one (without changing it)?  The shape's name, or NULL. */
const char *sbx_mask_find(const char *text, size_t len);
/* The same, of issued tokens only: shapes that no ordinary source file has,
 * unlike password = "..." and the keys of a test. */
const char *sbx_mask_find_token(const char *text, size_t len);

#endif
