#include "sbx-broker/sshsig.h"

#include "common/base/log.h"

#include <endian.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "SSHSIG"
#define TYPE "ssh-ed25519"
#define NAMESPACE "git"
#define HASH "sha512"
#define BLOB_MAX 256
#define LINE_CHARS 70		/* as ssh-keygen(1) breaks them */
#define COMMIT_MAX 69632u	/* BROKER_SIGN.commit */

/* What is put together; never more than BLOB_MAX. */
struct blob {
	unsigned char p[BLOB_MAX];
	size_t n;
};

static void
add_raw(struct blob *b, const void *p, size_t n)
{
	if (n > sizeof(b->p) - b->n)
		sbx_fatal("a signature of more than %d bytes", BLOB_MAX);
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

/* A string of the SSH protocol: its length in four bytes first (RFC 4251). */
static void
add(struct blob *b, const void *p, size_t n)
{
	const uint32_t len = htobe32((uint32_t)n);

	add_raw(b, &len, sizeof(len));
	add_raw(b, p, n);
}

static void
add_text(struct blob *b, const char *s)
{
	add(b, s, strlen(s));
}

static int
public_blob(const EVP_PKEY *key, struct blob *b)
{
	unsigned char raw[32];
	size_t n = sizeof(raw);

	b->n = 0;
	if (EVP_PKEY_get_raw_public_key(key, raw, &n) != 1 || n != sizeof(raw))
		return (SBX_E_SYS);
	add_text(b, TYPE);
	add(b, raw, n);
	return (0);
}

int
sshsig_line(const EVP_PKEY *key, char ret_line[SSHSIG_LINE])
{
	unsigned char text[BLOB_MAX * 2];
	struct blob b;
	int r = public_blob(key, &b);

	if (r != 0)
		return (r);
	(void)EVP_EncodeBlock(text, b.p, (int)b.n);
	(void)snprintf(ret_line, SSHSIG_LINE, TYPE " %.80s", (const char *)text);
	return (0);
}

/* What the key signs: not the text, but that it is of our namespace, and its
 * hash. */
static int
sign(EVP_PKEY *key, const void *p, size_t n, unsigned char ret_sig[64])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char md[64];
	struct blob b = { .n = 0 };
	size_t len = 64;
	bool good;

	if (ctx == NULL)
		sbx_fatal("no memory to sign");
	good = EVP_Digest(p, n, md, NULL, EVP_sha512(), NULL) == 1;
	add_raw(&b, MAGIC, 6);
	add_text(&b, NAMESPACE);
	add_text(&b, "");
	add_text(&b, HASH);
	add(&b, md, sizeof(md));
	good = good && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
	    EVP_DigestSign(ctx, ret_sig, &len, b.p, b.n) == 1 && len == 64;
	EVP_MD_CTX_free(ctx);
	return (good ? 0 : SBX_E_SYS);
}

static void
armor(const struct blob *b, char *dst)
{
	unsigned char text[BLOB_MAX * 2];
	size_t n = (size_t)EVP_EncodeBlock(text, b->p, (int)b->n), part;
	char *s = dst + sizeof(SBX_COMMITSIG_BEGIN) - 1;

	memcpy(dst, SBX_COMMITSIG_BEGIN, sizeof(SBX_COMMITSIG_BEGIN));
	for (size_t at = 0; at < n; at += part) {
		part = n - at < LINE_CHARS ? n - at : LINE_CHARS;
		memcpy(s, text + at, part);
		s += part;
		*s++ = '\n';
	}
	memcpy(s, SBX_COMMITSIG_END, sizeof(SBX_COMMITSIG_END));
}
_Static_assert(BLOB_MAX * 2 + sizeof(SBX_COMMITSIG_BEGIN SBX_COMMITSIG_END) <
    SBX_COMMITSIG_MAX, "any of them fits");

int
sshsig_make(EVP_PKEY *key, const void *p, size_t n,
    char ret_armored[SBX_COMMITSIG_MAX + 1])
{
	const uint32_t version = htobe32(1);
	struct blob pub, sig = { .n = 0 }, b = { .n = 0 };
	unsigned char raw[64];
	int r;

	if ((r = public_blob(key, &pub)) != 0 || (r = sign(key, p, n, raw)) != 0)
		return (r);
	add_text(&sig, TYPE);
	add(&sig, raw, sizeof(raw));
	add_raw(&b, MAGIC, 6);
	add_raw(&b, &version, sizeof(version));
	add(&b, pub.p, pub.n);
	add_text(&b, NAMESPACE);
	add_text(&b, "");
	add_text(&b, HASH);
	add(&b, sig.p, sig.n);
	armor(&b, ret_armored);
	return (0);
}

int
sshsig_commit_id(const char *commit, const char *armored, bool sha256,
    char ret_id[65])
{
	struct sbx_buf SBX_CLEANUP_BUF b = { 0 };
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char head[32];
	bool good;

	if (ctx == NULL)
		sbx_fatal("no memory to hash");
	sbx_buf_init(&b, COMMIT_MAX + 2 * SBX_COMMITSIG_MAX);
	good = sbx_commitsig_add(&b, commit, strlen(commit), armored) == 0;
	(void)snprintf(head, sizeof(head), "commit %zu", b.len);
	good = good && EVP_DigestInit_ex(ctx, sha256 ? EVP_sha256() :
	    EVP_sha1(), NULL) == 1 &&
	    EVP_DigestUpdate(ctx, head, strlen(head) + 1) == 1 &&
	    EVP_DigestUpdate(ctx, b.data, b.len) == 1 &&
	    EVP_DigestFinal_ex(ctx, md, &n) == 1;
	EVP_MD_CTX_free(ctx);
	for (unsigned i = 0; good && i < n; i++)
		(void)snprintf(ret_id + 2 * i, 3, "%02x", md[i]);
	return (good ? 0 : SBX_E_SYS);
}

int
sshsig_ready(EVP_PKEY *key, char ret_line[SSHSIG_LINE])
{
	static const char none[] = "tree \n\n";	/* which is no commit */
	char armored[SBX_COMMITSIG_MAX + 1], id[65];
	int r;

	if ((r = sshsig_line(key, ret_line)) == 0 &&
	    (r = sshsig_make(key, none, sizeof(none) - 1, armored)) == 0 &&
	    (r = sshsig_commit_id(none, armored, false, id)) == 0)
		r = sshsig_commit_id(none, armored, true, id);
	return (r);
}
