#include "sbx-broker/key.h"

#include <inttypes.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#define HEAP_MIN (32u << 10)	/* a power of two */
#define HEAP_KEY (8u << 10)	/* of one more key; it keeps a quarter of that */
#define HEAP_SMALLEST 32	/* piece in it */
#define DER_MAX 2048		/* of a public key of KEY_BITS_MAX bits */
#define SIG_MAX (KEY_BITS_MAX / 8)

int
key_init(unsigned keys, struct sbx_err *err)
{
	size_t heap = HEAP_MIN;

	while (heap < HEAP_MIN + keys * HEAP_KEY)
		heap *= 2;
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG |
	    OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL) != 1 ||
	    RAND_status() != 1)
		return (sbx_err_set(err, SBX_E_SYS, "libcrypto cannot begin"));
	/* 1: locked; 2: the memory is there, but was not locked */
	if (CRYPTO_secure_malloc_init(heap, HEAP_SMALLEST) != 1)
		return (sbx_err_set(err, SBX_E_SYS, "memory for keys cannot be "
		    "locked (RLIMIT_MEMLOCK of the suite; LimitMEMLOCK= of its "
		    "unit)"));
	return (0);
}

/* An encrypted key has no password here, and nobody is asked for one. */
static int
no_password(char *buf, int size, int rwflag, void *ctx)
{
	(void)buf, (void)size, (void)rwflag, (void)ctx;
	return (-1);
}

static EVP_PKEY *
parse(const struct sbx_secret *pem)
{
	BIO *bio = BIO_new_mem_buf(sbx_secret_text(pem),
	    (int)sbx_secret_len(pem)); /* SBX_SECRET_MAX at most */
	EVP_PKEY *key = NULL;

	if (bio != NULL)
		key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
	(void)BIO_free(bio); /* borrows what is read */
	return (key);
}

int
key_read(const struct sbx_secret *pem, EVP_PKEY **ret_key, struct sbx_err *err)
{
	EVP_PKEY *key = parse(pem);
	int bits, r = 0;

	if (key == NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "it holds no private "
		    "key in PEM (PKCS#1 or PKCS#8), or an encrypted one"));
	bits = EVP_PKEY_get_bits(key);
	if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA)
		r = sbx_err_set(err, SBX_E_SYNTAX, "its key is not of RSA");
	else if (bits < KEY_BITS_MIN || bits > KEY_BITS_MAX)
		r = sbx_err_set(err, SBX_E_RANGE, "its key has %d bits, not "
		    "%d to %d", bits, KEY_BITS_MIN, KEY_BITS_MAX);
	if (r < 0)
		EVP_PKEY_free(key);
	else
		*ret_key = key;
	return (r);
}

int
key_read_ed25519(const struct sbx_secret *pem, EVP_PKEY **ret_key,
    struct sbx_err *err)
{
	const char *text = sbx_secret_text(pem);
	const bool ssh = strncmp(text, "-----BEGIN OPENSSH", 18) == 0;
	EVP_PKEY *key;

	if (strstr(text, "ENCRYPTED") != NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "it is encrypted, and "
		    "nobody is there who has its password; write it without"));
	if ((key = ssh ? key_read_openssh(pem) : parse(pem)) == NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "it holds no private "
		    "key %s", ssh ? "of Ed25519, or an encrypted one "
		    "(ssh-keygen -t ed25519 -N '')" : "in PEM (PKCS#8) or "
		    "OpenSSH's form"));
	if (EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(key);
		return (sbx_err_set(err, SBX_E_SYNTAX, "its key is not of "
		    "Ed25519"));
	}
	*ret_key = key;
	return (0);
}

void
key_free(EVP_PKEY *key)
{
	EVP_PKEY_free(key);
}

int
key_fingerprint(const EVP_PKEY *key, char ret_text[KEY_FINGERPRINT_SIZE])
{
	unsigned char der[DER_MAX], *p = der, md[32], text[48];
	int n = i2d_PUBKEY(key, NULL);

	if (n <= 0 || n > DER_MAX || i2d_PUBKEY(key, &p) != n ||
	    EVP_Digest(der, (size_t)n, md, NULL, EVP_sha256(), NULL) != 1)
		return (SBX_E_SYS);
	(void)EVP_EncodeBlock(text, md, sizeof(md)); /* 44 characters */
	(void)snprintf(ret_text, KEY_FINGERPRINT_SIZE, "SHA256:%s",
	    (const char *)text);
	return (0);
}

/* RFC 7515 section 2: base64url without padding, appended at *len of buf. */
static int
add_base64url(char *buf, size_t size, size_t *len, const void *p, size_t n)
{
	const size_t bytes = (n + 2) / 3 * 4;
	size_t i;

	if (bytes + 1 > size - *len)
		return (SBX_E_LIMIT);
	(void)EVP_EncodeBlock((unsigned char *)buf + *len, p, (int)n);
	for (i = *len; i < *len + bytes && buf[i] != '='; i++)
		buf[i] = buf[i] == '+' ? '-' : buf[i] == '/' ? '_' : buf[i];
	buf[i] = '\0';
	*len = i;
	return (0);
}

static int
sign(EVP_PKEY *key, const char *text, size_t len, unsigned char sig[SIG_MAX],
    size_t *ret_n)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good;

	*ret_n = SIG_MAX;
	good = ctx != NULL &&
	    EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	    EVP_DigestSign(ctx, sig, ret_n, (const unsigned char *)text,
	    len) == 1;
	EVP_MD_CTX_free(ctx);
	return (good ? 0 : SBX_E_SYS);
}

int
key_jwt(EVP_PKEY *key, const char *issuer, uint64_t now_s, char *buf,
    size_t size)
{
	static const char head[] = "{\"alg\":\"RS256\",\"typ\":\"JWT\"}";
	unsigned char sig[SIG_MAX];
	char claims[160];
	size_t len = 0, n;
	int r;

	/* the issuer's letters need no escape */
	(void)snprintf(claims, sizeof(claims), "{\"iat\":%" PRIu64
	    ",\"exp\":%" PRIu64 ",\"iss\":\"%.64s\"}",
	    now_s - KEY_IAT_BEFORE_S, now_s + KEY_EXP_AFTER_S, issuer);
	if ((r = add_base64url(buf, size, &len, head,
	    sizeof(head) - 1)) < 0 || size - len < 2)
		return (SBX_E_LIMIT);
	buf[len++] = '.';
	if ((r = add_base64url(buf, size, &len, claims, strlen(claims))) < 0 ||
	    (r = sign(key, buf, len, sig, &n)) < 0)
		return (r);
	if (size - len < 2)
		return (SBX_E_LIMIT);
	buf[len++] = '.';
	r = add_base64url(buf, size, &len, sig, n);
	OPENSSL_cleanse(sig, sizeof(sig));
	return (r);
}
