#ifndef SBX_BROKER_KEY_H
#define SBX_BROKER_KEY_H

/*
 * A GitHub App's private key, and the one thing that is signed with it: a JWT
 * whose every byte is built here.  And the key of commits (sshsig.h).
 * Source: RFC 7515, RFC 7518 section 3.3 (RS256), RFC 8017; GitHub,
 * "Generating a JSON Web Token (JWT) for a GitHub App".
 */

#include "common/base/secret.h"

#include <openssl/types.h>

#define KEY_BITS_MIN 2048
#define KEY_BITS_MAX 4096	/* a JWT must fit its message */
#define KEY_FINGERPRINT_SIZE 56	/* "SHA256:" and base64 of 32 bytes */
#define KEY_JWT_SIZE 1537	/* of COURIER_MINT.jwt, with NUL */
#define KEY_ISSUER_MAX 64u
#define KEY_IAT_BEFORE_S 60u	/* GitHub's clock may be behind ours */
#define KEY_EXP_AFTER_S 540u	/* ten minutes are the most that it takes */

/* Once, before the cage: what libcrypto loads, and locked memory in which the
 * own numbers of so many parsed keys are kept.  0, SBX_E_SYS. */
int key_init(unsigned keys, struct sbx_err *err);
/* PEM, PKCS#1 or PKCS#8, not encrypted.  *ret_key is the caller's.  0,
 * SBX_E_SYNTAX, SBX_E_RANGE with err set. */
int key_read(const struct sbx_secret *pem, EVP_PKEY **ret_key,
    struct sbx_err *err);
/* The same of Ed25519, in PKCS#8 or OpenSSH's form. */
int key_read_ed25519(const struct sbx_secret *pem, EVP_PKEY **ret_key,
    struct sbx_err *err);
/* The latter alone: NULL when it is none, or encrypted.  opensshkey.c */
EVP_PKEY *key_read_openssh(const struct sbx_secret *text);
void key_free(EVP_PKEY *key);	/* NULL ok */
/* Of the public key's DER, as GitHub shows it beside an App's key.  0,
 * SBX_E_SYS. */
int key_fingerprint(const EVP_PKEY *key, char ret_text[KEY_FINGERPRINT_SIZE]);
/* issuer: KEY_ISSUER_MAX letters, digits, '.', '_' and '-' at most, checked by
 * the caller.  buf: KEY_JWT_SIZE, as good as a token while it lasts.  0,
 * SBX_E_SYS, SBX_E_LIMIT. */
int key_jwt(EVP_PKEY *key, const char *issuer, uint64_t now_s, char *buf,
    size_t size);

#endif
