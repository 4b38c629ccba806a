#include "sbx-broker/key.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

/*
 * An Ed25519 key in OpenSSH's own form, as ssh-keygen(1) makes one.  Not
 * encrypted, all of it but the comment has its place, and is compared there.
 * Source: OpenSSH, PROTOCOL.key.
 */

#define BEGIN "-----BEGIN OPENSSH PRIVATE KEY-----\n"
#define END "-----END OPENSSH PRIVATE KEY-----\n"
#define TYPE "\0\0\0\013ssh-ed25519\0\0\0\040"
#define TEXT_MAX 1024u		/* base64, with a comment of 400 bytes */
#define SEED 32u
/* magic, cipher, KDF, its options, one key, the public half up to its bytes */
static const char head[] = "openssh-key-v1\0" "\0\0\0\4none" "\0\0\0\4none"
    "\0\0\0\0" "\0\0\0\1" "\0\0\0\063" TYPE;
enum { AT_PUB = 62, AT_LENGTH = 94, AT_CHECK = 98, AT_TYPE = 106, AT_PUB2 = 125,
	AT_SECRET = 157, AT_SEED = 161, AT_PUB3 = 193, AT_COMMENT = 225,
	AT_TEXT = 229, BLOCK = 8 };
_Static_assert(sizeof(head) - 1 == AT_PUB, "the public half is next");

static uint32_t
u32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return (be32toh(v));
}

static bool
is_key(const unsigned char *p, size_t n)
{
	size_t at;

	if (n < AT_TEXT || memcmp(p, head, AT_PUB) != 0 ||
	    u32(p + AT_LENGTH) != n - AT_CHECK || (n - AT_CHECK) % BLOCK != 0 ||
	    u32(p + AT_CHECK) != u32(p + AT_CHECK + 4) ||
	    memcmp(p + AT_TYPE, TYPE, sizeof(TYPE) - 1) != 0 ||
	    memcmp(p + AT_PUB2, p + AT_PUB, SEED) != 0 ||
	    u32(p + AT_SECRET) != 2 * SEED ||
	    memcmp(p + AT_PUB3, p + AT_PUB, SEED) != 0 ||
	    u32(p + AT_COMMENT) > n - AT_TEXT)
		return (false);
	at = AT_TEXT + u32(p + AT_COMMENT);
	if (n - at >= BLOCK)
		return (false);
	for (size_t i = at; i < n; i++)		/* 1, 2, 3 ... */
		if (p[i] != i - at + 1)
			return (false);
	return (true);
}

/* The bytes of its base64, in the memory that had it; 0: it is none. */
static size_t
decode(const char *s, unsigned char *t)
{
	size_t n = 0, pad = 0;
	const char *end = strstr(s, "\n" END);

	if (strncmp(s, BEGIN, sizeof(BEGIN) - 1) != 0 || end == NULL ||
	    strlen(end) != sizeof(END))
		return (0);
	for (s += sizeof(BEGIN) - 1; s < end; s++) {
		if (*s == '\n')
			continue;
		pad += *s == '=';
		if (n == TEXT_MAX || (pad > 0 && *s != '=') || pad > 2)
			return (0);
		t[n++] = (unsigned char)*s;
	}
	return (n > 0 && n % 4 == 0 && EVP_DecodeBlock(t, t, (int)n) ==
	    (int)(n / 4 * 3) ? n / 4 * 3 - pad : 0);
}

EVP_PKEY *
key_read_openssh(const struct sbx_secret *text)
{
	unsigned char *p = OPENSSL_secure_zalloc(TEXT_MAX), pub[SEED];
	size_t len = SEED, n;
	EVP_PKEY *key = NULL;

	if (p == NULL)
		return (NULL);
	n = decode(sbx_secret_text(text), p);
	if (is_key(p, n))
		key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
		    p + AT_SEED, SEED);
	if (key != NULL && (EVP_PKEY_get_raw_public_key(key, pub, &len) != 1 ||
	    len != SEED || memcmp(pub, p + AT_PUB, SEED) != 0)) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	OPENSSL_secure_clear_free(p, TEXT_MAX);
	return (key);
}
