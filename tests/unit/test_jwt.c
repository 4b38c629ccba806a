/* sbx-broker/key.c, whose JWTs openssl(1) verifies, and token.c. */

#include "sbx-broker/key.h"
#include "sbx-broker/sources.h"
#include "sbx-broker/token.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char top[] = "/tmp/sbx-jwt.XXXXXX";

/* cmd: may use $T, the directory. */
static bool
sh(const char *cmd)
{
	return (setenv("T", top, 1) == 0 && system(cmd) == 0);
}

static bool
save(const char *name, const void *p, size_t n)
{
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s/%s", top, name);
	FILE *f = fopen(path, "we");

	return (f != NULL && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static struct sbx_secret *
load(const char *name)
{
	SBX_CLEANUP(free) char *path = sbx_xasprintf("%s/%s", top, name);
	SBX_CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct sbx_secret *s = sbx_secret_new(16384, NULL);

	while (fd >= 0 && s != NULL && sbx_secret_read(s, fd) > 0)
		;
	return (s);
}

/* base64url, decoded to out; its length, -1: it is none. */
static int
decode(const char *p, size_t n, unsigned char *out, size_t size)
{
	SBX_CLEANUP(free) char *b = sbx_xcalloc(1, n + 5);
	size_t i, pad = (4 - n % 4) % 4;
	int len;

	for (i = 0; i < n; i++) {
		if (strchr("+/=", p[i]) != NULL)
			return (-1);
		b[i] = p[i] == '-' ? '+' : p[i] == '_' ? '/' : p[i];
	}
	memset(b + n, '=', pad);
	if ((n + pad) / 4 * 3 > size)
		return (-1);
	len = EVP_DecodeBlock(out, (unsigned char *)b, (int)(n + pad));
	return (len < 0 ? -1 : len - (int)pad);
}

static void
test_jwt(const char *name)
{
	struct sbx_secret *pem = load(name);
	char jwt[KEY_JWT_SIZE] = "", fingerprint[KEY_FINGERPRINT_SIZE];
	char *dot1 = NULL, *dot2 = NULL;
	unsigned char out[2048];
	struct sbx_err err = { 0 };
	EVP_PKEY *key = NULL;
	int n;

	if (!ok(pem != NULL && key_read(pem, &key, &err) == 0,
	    "%s is read: %s", name, err.msg))
		return;
	if (!ok(key_jwt(key, "12345", 1700000000, jwt, sizeof(jwt)) == 0 &&
	    (dot1 = strchr(jwt, '.')) != NULL &&
	    (dot2 = strchr(dot1 + 1, '.')) != NULL &&
	    strchr(dot2 + 1, '.') == NULL, "%s: a JWT has three parts", name))
		return;
	n = decode(jwt, (size_t)(dot1 - jwt), out, sizeof(out));
	ok(n == 27 && memcmp(out, "{\"alg\":\"RS256\",\"typ\":\"JWT\"}",
	    27) == 0, "%s: its head", name);
	n = decode(dot1 + 1, (size_t)(dot2 - dot1 - 1), out, sizeof(out) - 1);
	out[n < 0 ? 0 : n] = '\0';
	ok(strcmp((char *)out, "{\"iat\":1699999940,\"exp\":1700000540,"
	    "\"iss\":\"12345\"}") == 0, "%s: a minute back, nine on: %s", name,
	    out);
	n = decode(dot2 + 1, strlen(dot2 + 1), out, sizeof(out));
	ok(n >= 256 && save("sig", out, (size_t)n) &&
	    save("text", jwt, (size_t)(dot2 - jwt)) &&
	    sh("openssl dgst -sha256 -verify $T/pub -signature $T/sig $T/text "
	    ">/dev/null"), "%s: openssl verifies it", name);
	ok(save("text", jwt, (size_t)(dot2 - jwt - 1)) &&
	    !sh("openssl dgst -sha256 -verify $T/pub -signature $T/sig $T/text "
	    ">/dev/null 2>&1"), "%s: and nothing else", name);
	ok(key_jwt(key, "12345", 1700000000, jwt, 100) == SBX_E_LIMIT &&
	    key_jwt(key, "12345", 1700000000, jwt, 200) == SBX_E_LIMIT,
	    "%s: not past its room", name);
	ok(key_fingerprint(key, fingerprint) == 0 &&
	    strlen(fingerprint) == 51 && save("fp", fingerprint + 7, 44) &&
	    sh("openssl rsa -pubin -in $T/pub -outform DER 2>/dev/null | "
	    "openssl sha256 -binary | openssl base64 | tr -d '\\n' | "
	    "cmp -s - $T/fp"), "%s: its fingerprint: %s", name, fingerprint);
	key_free(key);
	sbx_secret_free(pem);
}

static void
test_largest(void)
{
	struct sbx_secret *pem = load("4096");
	char jwt[KEY_JWT_SIZE], issuer[KEY_ISSUER_MAX + 1];
	EVP_PKEY *key = NULL;

	memset(issuer, 'x', KEY_ISSUER_MAX);
	issuer[KEY_ISSUER_MAX] = '\0';
	ok(pem != NULL && key_read(pem, &key, NULL) == 0 &&
	    key_jwt(key, issuer, UINT64_MAX, jwt, sizeof(jwt)) == 0,
	    "the largest key and issuer fit the message");
	key_free(key);
	sbx_secret_free(pem);
}

static void
test_token(void)
{
	static const struct {
		const char *host, *text;
		bool good;
	} cases[] = {
		{ "github.com", "ghs_0123456789abcdefABCDEF", true },
		{ "github.com", "ghp_0123456789abcdefABCDEF", true },
		{ "github.com", "github_pat_0123456789_ABCDEF", true },
		{ "github.com", "gho_0123456789abcdefABCDEF", true },
		{ "github.com", "ghu_0123456789abcdefABCDEF", true },
		{ "github.com", "ghs_eyJhbGciOi.eyJpc3Mi-_.sig-_", true },
		{ "github.com", "ghr_0123456789abcdefABCDEF", false },
		{ "github.com", "0123456789abcdef0123456789", false },
		{ "github.com", "ghs_short", false },
		{ "github.com", "", false },
		{ "github.com", "ghs_0123456789\nabcdefABCD", false },
		{ "github.com", "ghs_0123456789 abcdefABCD", false },
		{ "github.com", "ghs_0123456789\"abcdefABCD", false },
		{ "ghe.example", "0123456789abcdef0123456789", true },
		{ "ghe.example", "0123456789abcdef012", false },
	};
	size_t i, n;

	for (i = 0; i < SBX_NELEM(cases); i++) {
		n = strlen(cases[i].text);
		ok((token_check(cases[i].host, cases[i].text, n) == NULL) ==
		    cases[i].good, "%s: a token of %zu bytes is %s",
		    cases[i].host, n, cases[i].good ? "taken" : "refused");
	}
	ok(token_check("ghe.example", "0123456789abcdef0123\0x", 22) != NULL,
	    "nothing hides behind a NUL");
}

static struct token *
kept(struct tokens *c, const struct source *s, const char *repo,
    uint64_t until_ns)
{
	struct token *t = token_new(sbx_secret_new(64, NULL), s);

	(void)sbx_strlcpy(t->repo, repo, sizeof(t->repo));
	t->permissions = "p";
	t->until_ns = until_ns;
	tokens_keep(c, t);
	return (t);
}

static void
test_cache(void)
{
	static struct source s = { .host = "github.com" };
	struct tokens c = { .n = 0 };
	struct token *a = kept(&c, &s, "o/a", 100), *b;

	ok(tokens_find(&c, "github.com", "o/a", "p", 99) == a &&
	    tokens_find(&c, "github.com", "o/a", "q", 99) == NULL &&
	    tokens_find(&c, "github.com", "o/b", "p", 99) == NULL &&
	    tokens_find(&c, "other.example", "o/a", "p", 99) == NULL,
	    "a token is found by host, repository and permissions");
	ok(tokens_find(&c, "github.com", "o/a", "p", 100) == NULL && c.n == 1,
	    "not when it is over");
	b = kept(&c, &s, "o/b", 100);
	ok(tokens_oldest(&c) == a, "the oldest");
	tokens_drop(&c, a);
	tokens_drop(&c, a);
	tokens_drop(&c, NULL);
	ok(c.n == 1 && a->refs == 1 && tokens_oldest(&c) == b,
	    "one is dropped once");
	token_unref(a);
	tokens_drop(&c, b);
	ok(c.n == 0 && tokens_oldest(&c) == NULL && b->refs == 1,
	    "the last one");
	token_unref(b);
}

/* --- keys as ssh-keygen makes them ---------------------------------------------- */

/* A file's text between its first and last line, as bytes; their number. */
static size_t
ssh_bytes(const char *name, unsigned char out[1024])
{
	struct sbx_secret *s = load(name);
	unsigned char text[1025];
	const char *p = sbx_secret_text(s);
	size_t n = 0, pad;

	for (p = strchr(p, '\n') + 1; *p != '-'; p++)
		if (*p != '\n')
			text[n++] = (unsigned char)*p;
	pad = (text[n - 1] == '=') + (text[n - 2] == '=');
	sbx_secret_free(s);
	return ((size_t)EVP_DecodeBlock(out, text, (int)n) - pad);
}

/* Is the key of these bytes taken? */
static bool
ssh_taken(const unsigned char *p, size_t n)
{
	struct sbx_secret *s = sbx_secret_new(4096, NULL);
	unsigned char text[1500];
	EVP_PKEY *key;
	bool good;
	int len = EVP_EncodeBlock(text, p, (int)n);

	(void)sbx_secret_add(s, "-----BEGIN OPENSSH PRIVATE KEY-----\n", 36);
	(void)sbx_secret_add(s, text, (size_t)len);
	(void)sbx_secret_add(s, "\n-----END OPENSSH PRIVATE KEY-----\n", 35);
	key = key_read_openssh(s);
	good = key != NULL;
	key_free(key);
	sbx_secret_free(s);
	return (good);
}

static void
test_ssh(void)
{
	unsigned char p[1024], q[1024];
	struct sbx_secret *s = load("ssh");
	size_t n, i, bad = 0, comment = 0;
	EVP_PKEY *key = NULL;
	struct sbx_err err = { 0 };

	ok(key_read_ed25519(s, &key, &err) == 0, "an OpenSSH key: %s", err.msg);
	key_free(key);
	n = ssh_bytes("ssh", p);
	ok(n > 200 && ssh_taken(p, n), "by its bytes");
	for (i = 0; i < n; i++)
		bad += ssh_taken(p, i);
	ok(bad == 0, "not cut anywhere");
	for (i = 0; i < n; i++) {
		memcpy(q, p, n);
		q[i] ^= 1;
		comment += ssh_taken(q, n);
		q[i] ^= 0x81;
		comment += ssh_taken(q, n);
	}
	/* "remark" is the one thing that may say what it likes */
	ok(comment == 12, "nor with a bit that is another, but in its comment "
	    "(%zu)", comment);
	memcpy(q, p, n);
	q[n] = 0;
	ok(!ssh_taken(q, n + 1), "nothing follows");
	sbx_secret_free(s);
	for (i = 0; i < 2; i++) {
		s = load(i == 0 ? "sshenc" : "sshrsa");
		ok(key_read_openssh(s) == NULL, "%s is none", i == 0 ?
		    "an encrypted one" : "another kind");
		sbx_secret_free(s);
	}
	s = sbx_secret_new(4096, NULL);
	(void)sbx_secret_add(s, "-----BEGIN OPENSSH PRIVATE KEY-----\n=\n", 38);
	ok(key_read_openssh(s) == NULL, "no base64");
	sbx_secret_free(s);
}

int
main(void)
{
	struct sbx_err err = { 0 };

	tap_plan(0);
	if (!sh("openssl version >/dev/null 2>&1")) {
		skip("no openssl(1)");
		return (tap_done());
	}
	if (!ok(mkdtemp(top) != NULL && key_init(8, &err) == 0 &&
	    sh("cd $T && openssl genrsa -traditional -out pkcs1 2048 2>/dev/null "
	    "&& openssl pkcs8 -topk8 -nocrypt -in pkcs1 -out pkcs8 && "
	    "openssl rsa -in pkcs1 -pubout -out pub 2>/dev/null && "
	    "openssl genrsa -out 4096 4096 2>/dev/null"), "keys: %s", err.msg))
		return (tap_done());
	test_jwt("pkcs1");
	test_jwt("pkcs8");
	test_largest();
	if (sh("cd $T && ssh-keygen -q -t ed25519 -N '' -C remark -f ssh && "
	    "ssh-keygen -q -t ed25519 -N secret -f sshenc && "
	    "ssh-keygen -q -t rsa -b 2048 -N '' -f sshrsa"))
		test_ssh();
	else
		skip("no ssh-keygen(1)");
	test_token();
	test_cache();
	(void)sh("rm -rf \"$T\"");
	return (tap_done());
}
