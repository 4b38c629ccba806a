/* The authority of a sandbox: what it issues and what not, what is kept of it,
 * and what clients get. */
#include "sbx-proxy/ca.h"
#include "sbx-proxy/issue.h"
#include "sbx-proxy/jks.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define ID "0123456789ab"
#define DAY 86400

static struct policy policy;
static struct sbx_err err;

static struct ca *
make(void)
{
	struct ca *ca = NULL;

	if (!ok(ca_make(ID, &policy, &ca, &err) == 0, "an authority is made"))
		exit(1);
	return (ca);
}

static SSL_CTX *
context(struct ca *ca, const char *name)
{
	struct host h = { .kind = HOST_NAME };
	SSL_CTX *c = NULL;

	(void)sbx_strlcpy(h.text, name, sizeof(h.text));
	return (ca_context(ca, &h, &c, &err) == 0 ? c : NULL);
}

/* What sandboxes get. */
struct given {
	int fds[4];
	char *p[4];
	size_t n[4];
};

static void
give(const struct ca *ca, const struct roots *r, struct given *g)
{
	if (!ok(ca_trust(ca, r, g->fds, &err) == 0, "descriptors of it"))
		exit(1);
	for (int i = 0; i < 4; i++)
		if (sbx_memfd_read(g->fds[i], 8u << 20, &g->p[i],
		    &g->n[i]) != 0)
			exit(1);
}

static void
given_clear(struct given *g)
{
	for (int i = 0; i < 4; i++) {
		sbx_close(&g->fds[i]);
		free(g->p[i]);
	}
}

static X509 *
read_pem(const char *p, size_t n)
{
	BIO *b = BIO_new_mem_buf(p, (int)n);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

	BIO_free(b);
	return (x);
}

/* The intermediate and its key, out of what is kept. */
static void
unpack(const struct given *g, EVP_PKEY **ret_key, X509 **ret_x)
{
	const uint8_t *p = (const uint8_t *)g->p[3], *q = p + 20;
	long k = p[8] << 24 | p[9] << 16 | p[10] << 8 | p[11];
	long n = p[12] << 24 | p[13] << 16 | p[14] << 8 | p[15];

	*ret_key = d2i_PrivateKey(EVP_PKEY_EC, NULL, &q, k);
	*ret_x = d2i_X509(NULL, &q, n);
}

/* As a client does, strictly.  X509_V_OK or why not. */
static int
verify(X509 *root, X509 *leaf, X509 *above, const char *name, time_t when)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	STACK_OF(X509) *chain = sk_X509_new_null();
	X509_VERIFY_PARAM *v;
	int r;

	(void)sk_X509_push(chain, above);
	(void)X509_STORE_add_cert(store, root);
	(void)X509_STORE_CTX_init(c, store, leaf, chain);
	v = X509_STORE_CTX_get0_param(c);
	(void)X509_STORE_CTX_set_default(c, "ssl_server");
	(void)X509_VERIFY_PARAM_set_flags(v, X509_V_FLAG_X509_STRICT);
	(void)X509_VERIFY_PARAM_set1_host(v, name, 0);
	X509_VERIFY_PARAM_set_time(v, when);
	r = X509_verify_cert(c) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(c);
	X509_STORE_CTX_free(c);
	X509_STORE_free(store);
	sk_X509_free(chain);
	return (r);
}

static void
test_chain(void)
{
	struct ca *ca = make();
	struct given g;
	SSL_CTX *c = context(ca, "api.github.com");
	STACK_OF(X509) *chain = NULL;
	time_t now = time(NULL);
	X509 *root, *leaf, *above;

	give(ca, NULL, &g);
	root = read_pem(g.p[1], g.n[1]);
	leaf = SSL_CTX_get0_certificate(c);
	(void)SSL_CTX_get0_chain_certs(c, &chain);
	ok(sk_X509_num(chain) == 1, "the intermediate goes along");
	above = sk_X509_value(chain, 0);
	ok(verify(root, leaf, above, "api.github.com", now) == X509_V_OK,
	    "a leaf is good by root and intermediate, also strictly");
	ok(verify(root, leaf, above, "github.com", now) ==
	    X509_V_ERR_HOSTNAME_MISMATCH, "for its own name only");
	ok(verify(root, leaf, above, "api.github.com", now + 29 * DAY) ==
	    X509_V_OK, "for 29 days");
	ok(verify(root, leaf, above, "api.github.com", now + 31 * DAY) ==
	    X509_V_ERR_CERT_HAS_EXPIRED, "not for 31");
	ok(verify(root, leaf, above, "api.github.com", now - 1800) ==
	    X509_V_OK, "from half an hour ago");
	ok(verify(root, leaf, above, "api.github.com", now - 7200) ==
	    X509_V_ERR_CERT_NOT_YET_VALID, "not from two");
	ok(X509_NAME_entry_count(X509_get_subject_name(leaf)) == 0,
	    "a leaf has no subject");
	ok(X509_get_extension_flags(leaf) & EXFLAG_SAN_CRITICAL &&
	    X509_get_key_usage(leaf) == KU_DIGITAL_SIGNATURE &&
	    X509_get_extended_key_usage(leaf) == XKU_SSL_SERVER,
	    "critical name, usages of a server");
	ok(X509_get_pathlen(root) == 1 && X509_get_pathlen(above) == 0 &&
	    X509_get_key_usage(root) == KU_KEY_CERT_SIGN &&
	    X509_get_key_usage(above) == KU_KEY_CERT_SIGN,
	    "path lengths and usages of authorities");
	X509_free(root);
	given_clear(&g);
	ca_free(ca);
}

static int
forced(X509 *root, X509 *above, EVP_PKEY *key, const char *name)
{
	X509 *x = issue_leaf(name, key, above, key);
	int r = verify(root, x, above, name, time(NULL));

	X509_free(x);
	return (r);
}

static void
test_constraints(void)
{
	static const char *const others[] = { "example.org", "com",
		"github.com.example.org", "notgithub.com" };
	struct ca *ca = make();
	EVP_PKEY *key, *new_key = issue_key();
	X509 *root, *above, *sub, *leaf;
	struct given g;

	give(ca, NULL, &g);
	unpack(&g, &key, &above);
	root = read_pem(g.p[1], g.n[1]);
	ok(forced(root, above, key, "github.com") == X509_V_OK &&
	    forced(root, above, key, "a.b.github.com") == X509_V_OK,
	    "the key can make what it should");
	for (size_t i = 0; i < SBX_NELEM(others); i++) {
		ok(forced(root, above, key, others[i]) ==
		    X509_V_ERR_PERMITTED_VIOLATION,
		    "a certificate for %s counts nowhere", others[i]);
		err.code = 0;
		ok(context(ca, others[i]) == NULL && err.code == SBX_E_POLICY,
		    "and is not made");
	}
	sub = issue_intermediate(ID, &policy, new_key, above, key);
	leaf = issue_leaf("github.com", new_key, sub, new_key);
	ok(verify(above, leaf, sub, "github.com", time(NULL)) != X509_V_OK,
	    "it can make no authority below itself");
	X509_free(sub);
	X509_free(leaf);
	X509_free(above);
	X509_free(root);
	EVP_PKEY_free(key);
	EVP_PKEY_free(new_key);
	given_clear(&g);
	ca_free(ca);
}

static void
test_hosts(void)
{
	struct policy p = { 0 };
	struct ca *ca = NULL;
	struct host v4 = { HOST_V4, "192.0.2.1" };
	SSL_CTX *c;

	ok(ca_make(ID, &p, &ca, &err) == 0, "with nothing to intercept");
	ok(context(ca, "github.com") == NULL, "it issues nothing");
	ca_free(ca);
	policy_init(&p);
	(void)policy_add(&p, "https://own.example.org", POLICY_INTERCEPT, false,
	    &err);
	(void)policy_add(&p, "https://192.0.2.1", POLICY_INTERCEPT, false,
	    &err);
	(void)policy_add(&p, "https://tunnel.example.org", POLICY_TUNNEL,
	    false, &err);
	if (!ok(ca_make(ID, &p, &ca, &err) == 0, "with entries"))
		return;
	ok(context(ca, "own.example.org") != NULL, "an entry to intercept");
	ok(context(ca, "tunnel.example.org") == NULL, "none of a tunnel");
	ok(ca_context(ca, &v4, &c, &err) == SBX_E_POLICY, "no address");
	ca_free(ca);
	policy_clear(&p);
}

/* --- what is kept ----------------------------------------------------------------- */

static int
load(const void *p, size_t n, const char *container)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct ca *ca = NULL;
	int r;

	if (sbx_memfd_sealed("kept", p, n, &fd) != 0)
		return (SBX_E_SYS);
	r = ca_load(fd, container, &ca, &err);
	ca_free(ca);
	return (r);
}

static void
test_kept(void)
{
	int SBX_CLEANUP(fd) null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct ca *ca = make(), *other = make(), *again = NULL;
	struct given g, h, o;
	uint8_t md[32];
	size_t k;
	unsigned taken = 0;
	char *p;

	give(ca, NULL, &g);
	ok(ca_load(g.fds[3], ID, &again, &err) == 0, "what was kept is read");
	give(again, NULL, &h);
	ok(g.n[3] == h.n[3] && memcmp(g.p[3], h.p[3], g.n[3]) == 0 &&
	    g.n[1] == h.n[1] && memcmp(g.p[1], h.p[1], g.n[1]) == 0,
	    "it is the same authority");
	ok(context(again, "github.com") != NULL, "and issues");
	ok(load(g.p[3], g.n[3], "ba9876543210") == SBX_E_SYNTAX,
	    "not of another sandbox");
	for (size_t n = 0; n < g.n[3]; n++)
		taken += load(g.p[3], n, ID) == 0;
	ok(taken == 0, "refused when cut anywhere");
	p = sbx_xcalloc(1, g.n[3] + 1);
	memcpy(p, g.p[3], g.n[3]);
	ok(load(p, g.n[3] + 1, ID) == SBX_E_SYNTAX, "or too long");
	for (size_t i = 0; i < g.n[3]; i++)
		for (int bit = 0; bit < 8; bit += 7) {
			p[i] = (char)(p[i] ^ (1 << bit));
			taken += load(p, g.n[3], ID) == 0;
			p[i] = g.p[3][i];
		}
	ok(taken == 0, "or with a bit changed anywhere: %u were taken", taken);
	/* whole, but the key of another */
	give(other, NULL, &o);
	k = (size_t)(uint8_t)p[11] + 20;	/* the end of the key */
	memcpy(p, o.p[3], k);
	for (size_t i = 12; i < 20; i++)
		p[i] = g.p[3][i];
	(void)EVP_Q_digest(NULL, "SHA256", NULL, p, g.n[3] - 32, md, NULL);
	memcpy(p + g.n[3] - 32, md, 32);
	ok(o.p[3][11] == g.p[3][11] && load(p, g.n[3], ID) == SBX_E_SYNTAX,
	    "or with a key that is another's");
	memcpy(p, g.p[3], g.n[3]);
	ok(load(p, g.n[3], ID) == 0, "and not otherwise");
	ok(ca_load(null, ID, &again, &err) == SBX_E_SYNTAX, "or no memory");
	free(p);
	given_clear(&g);
	given_clear(&h);
	given_clear(&o);
	ca_free(ca);
	ca_free(other);
	ca_free(again);
}

/* --- contexts ------------------------------------------------------------------------ */

static void
test_leaves(void)
{
	struct ca *ca = make();
	SSL_CTX *first = context(ca, "n0.github.com"), *second;
	char name[64];

	SSL_CTX_up_ref(first);
	second = context(ca, "n1.github.com");
	SSL_CTX_up_ref(second);
	ok(context(ca, "n0.github.com") == first, "one context a name");
	for (int i = 2; i < CA_LEAVES; i++) {
		(void)snprintf(name, sizeof(name), "n%d.github.com", i);
		(void)context(ca, name);
	}
	ok(context(ca, "n0.github.com") == first, "as many as are kept");
	(void)context(ca, "more.github.com");
	ok(context(ca, "n0.github.com") == first, "what was used last stays");
	ok(context(ca, "n1.github.com") != second, "what was not, goes");
	SSL_CTX_free(first);
	SSL_CTX_free(second);
	ca_free(ca);
}

struct talk {
	const char *alpn;	/* of the client, wire form; NULL: none */
	int most;		/* protocol version of the client, 0: any */
	const char *host;
};

/* Does a handshake succeed?  *ret_alpn: what was chosen. */
static bool
talk(SSL_CTX *server, SSL_CTX *client, const struct talk *t, char ret_alpn[32])
{
	SSL *s = SSL_new(server), *c = SSL_new(client);
	BIO *a = NULL, *b = NULL;
	const uint8_t *alpn = NULL;
	unsigned n = 0;
	bool done = false;

	(void)BIO_new_bio_pair(&a, 0, &b, 0);
	SSL_set_bio(s, a, a);
	SSL_set_bio(c, b, b);
	SSL_set_accept_state(s);
	SSL_set_connect_state(c);
	(void)SSL_set1_host(c, t->host);
	(void)SSL_set_tlsext_host_name(c, t->host);
	if (t->alpn != NULL)
		(void)SSL_set_alpn_protos(c, (const uint8_t *)t->alpn,
		    (unsigned)strlen(t->alpn));
	if (t->most != 0)
		(void)SSL_set_max_proto_version(c, t->most);
	for (int i = 0; i < 20 && !done; i++) {
		int x = SSL_do_handshake(c), y = SSL_do_handshake(s);

		done = x == 1 && y == 1;
	}
	SSL_get0_alpn_selected(c, &alpn, &n);
	(void)snprintf(ret_alpn, 32, "%.*s", (int)n, (const char *)alpn);
	SSL_free(s);
	SSL_free(c);
	return (done);
}

static void
test_talk(void)
{
	struct ca *ca = make(), *other = make();
	struct roots *roots = NULL;
	SSL_CTX *server = context(ca, "github.com"), *client;
	struct given g;
	char alpn[32];

	give(ca, NULL, &g);
	ok(roots_read(g.p[0], g.n[0], &roots, &err) == 0 && roots->n == 1,
	    "the sandbox's bundle is one of roots");
	client = ca_upstream(roots);
	ok(talk(server, client, &(struct talk){ .host = "github.com" },
	    alpn) && strcmp(alpn, "http/1.1") == 0,
	    "both ends understand each other: http/1.1");
	ok(talk(server, client, &(struct talk){ .host = "github.com",
	    .most = TLS1_2_VERSION }, alpn), "TLS 1.2");
	ok(!talk(server, client, &(struct talk){ .host = "github.com",
	    .most = TLS1_1_VERSION }, alpn), "not TLS 1.1");
	ok(!talk(server, client, &(struct talk){ .host = "api.github.com" },
	    alpn), "another name is refused");
	ok(!talk(context(other, "github.com"), client,
	    &(struct talk){ .host = "github.com" }, alpn),
	    "another's certificate is refused");
	ok(!talk(server, client, &(struct talk){ .host = "github.com",
	    .alpn = "\x02h2" }, alpn), "HTTP/2 alone is refused");
	ok(talk(server, client, &(struct talk){ .host = "github.com",
	    .alpn = "\x02h2\x08http/1.1" }, alpn) &&
	    strcmp(alpn, "http/1.1") == 0, "of two the one that is ours");
	SSL_CTX_free(client);
	client = SSL_CTX_new(TLS_client_method());
	ok(talk(server, client, &(struct talk){ .host = "github.com" },
	    alpn) && alpn[0] == '\0', "none is asked for: none is chosen");
	SSL_CTX_free(client);
	client = ca_upstream(NULL);
	ok(!talk(server, client, &(struct talk){ .host = "github.com" },
	    alpn), "without roots nobody is trusted");
	SSL_CTX_free(client);
	roots_free(roots);
	given_clear(&g);
	ca_free(ca);
	ca_free(other);
}

/* --- roots and key stores ------------------------------------------------------------ */

static int
roots_of(const char *text, struct roots **ret)
{
	return (roots_read(text, strlen(text), ret, &err));
}

static void
test_roots(void)
{
	static const char key[] = "-----BEGIN PRIVATE KEY-----\nAAAA\n"
	    "-----END PRIVATE KEY-----\n";
	struct ca *ca = make();
	struct given g;
	struct roots *r = NULL;
	char *text, *big;

	give(ca, NULL, &g);
	text = sbx_xasprintf("Issuer: somebody\n%s%s# and\n%s", g.p[1], key,
	    g.p[1]);
	ok(roots_of(text, &r) == 0 && r->n == 2, "among other text");
	ok(strstr(r->pem.data, "PRIVATE") == NULL &&
	    strstr(r->pem.data, "somebody") == NULL,
	    "which does not go on");
	roots_free(r);
	free(text);
	text = sbx_xasprintf("%s-----BEGIN CERTIFICATE-----\nAAAA\n"
	    "-----END CERTIFICATE-----\n", g.p[1]);
	ok(roots_of(text, &r) == SBX_E_SYNTAX, "one that is none");
	free(text);
	text = sbx_xasprintf("%s%.300s", g.p[1], g.p[1]);
	ok(roots_of(text, &r) == SBX_E_SYNTAX, "a torn one");
	free(text);
	text = sbx_xasprintf("-----BEGIN CERTIFICATE-----\n"
	    "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"
	    "00000000000000000000000000000000\n\nAAAA\n"
	    "-----END CERTIFICATE-----\n");
	ok(roots_of(text, &r) == SBX_E_SYNTAX, "no password is asked for");
	free(text);
	ok(roots_of("", &r) == SBX_E_SYNTAX && roots_of(key, &r) ==
	    SBX_E_SYNTAX, "not one");
	big = sbx_xcalloc(1, CA_ROOTS_MAX + 1);
	ok(roots_read(big, CA_ROOTS_MAX + 1, &r, &err) == SBX_E_LIMIT,
	    "too much");
	free(big);
	given_clear(&g);
	ca_free(ca);
}

static void
test_jks(void)
{
	static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	struct ca *ca = make();
	struct roots *r = NULL;
	struct given g, all;
	uint8_t md[20];
	size_t n = sizeof(md), body;
	char *p;

	give(ca, NULL, &g);
	(void)roots_read(g.p[1], g.n[1], &r, &err);
	give(ca, r, &all);
	body = all.n[2] - sizeof(md);
	p = sbx_xcalloc(1, sizeof(salt) - 1 + body);
	memcpy(p, salt, sizeof(salt) - 1);
	memcpy(p + sizeof(salt) - 1, all.p[2], body);
	ok(EVP_Q_digest(NULL, "SHA1", NULL, p, sizeof(salt) - 1 + body, md,
	    &n) == 1 && memcmp(md, all.p[2] + body, sizeof(md)) == 0,
	    "the digest of a key store");
	ok(memcmp(all.p[2], "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\2\0\0\0\2\0\3sbx",
	    21) == 0, "its head: two entries, ours first");
	ok(all.n[0] == 2 * g.n[1] && memcmp(all.p[0] + g.n[1], g.p[1],
	    g.n[1]) == 0, "the bundle: all roots, and ours");
	free(p);
	roots_free(r);
	given_clear(&g);
	given_clear(&all);
	ca_free(ca);
}

/* --- programs of others ----------------------------------------------------------------- */

/* 127: there is no such program. */
static int
run(char *const argv[])
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		(void)dup2(null, 1);
		(void)dup2(null, 2);
		(void)execvp(argv[0], argv);
		_exit(127);
	}
	(void)waitpid(pid, &status, 0);
	return (WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void
put(const char *path, const void *p, size_t n)
{
	int SBX_CLEANUP(fd) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC |
	    O_CLOEXEC, 0600);

	if (fd == -1 || sbx_write_all(fd, p, n) != 0)
		exit(1);
}

static void
judge(char *const argv[], const char *what)
{
	int r = run(argv);

	if (r == 127)
		skip(argv[0]);
	else
		ok(r == 0, "%s: %s", argv[0], what);
}

#define ARG(s) ((char *)(uintptr_t)(s))
static void
test_others(void)
{
	char dir[] = "/tmp/sbx-ca.XXXXXX";
	struct ca *ca = make();
	SSL_CTX *c = context(ca, "github.com");
	SBX_CLEANUP_BUF struct sbx_buf b = { .data = NULL };
	SBX_CLEANUP_BUF struct sbx_buf chained = { .data = NULL };
	STACK_OF(X509) *chain = NULL;
	struct given g;

	sbx_buf_init(&chained, 65536);
	give(ca, NULL, &g);
	if (mkdtemp(dir) == NULL || chdir(dir) == -1)
		exit(1);
	put("ca.pem", g.p[1], g.n[1]);
	put("java.jks", g.p[2], g.n[2]);
	sbx_buf_init(&b, 65536);
	(void)issue_pem(SSL_CTX_get0_certificate(c), &b);
	put("leaf.pem", b.data, b.len);
	sbx_buf_consume(&b, b.len);
	(void)SSL_CTX_get0_chain_certs(c, &chain);
	(void)issue_pem(sk_X509_value(chain, 0), &b);
	put("above.pem", b.data, b.len);
	(void)issue_pem(SSL_CTX_get0_certificate(c), &chained);
	(void)sbx_buf_add(&chained, b.data, b.len);
	put("chain.pem", chained.data, chained.len);
	judge((char *[]){ ARG("openssl"), ARG("verify"), ARG("-x509_strict"),
	    ARG("-purpose"), ARG("sslserver"), ARG("-CAfile"), ARG("ca.pem"),
	    ARG("-untrusted"), ARG("above.pem"), ARG("leaf.pem"), NULL },
	    "the chain");
	judge((char *[]){ ARG("certtool"), ARG("--verify"), ARG("--infile"),
	    ARG("chain.pem"), ARG("--load-ca-certificate"), ARG("ca.pem"),
	    NULL }, "the chain");
	judge((char *[]){ ARG("keytool"), ARG("-list"), ARG("-keystore"),
	    ARG("java.jks"), ARG("-storepass"), ARG(JKS_PASSWORD),
	    ARG("-alias"), ARG("sbx"), NULL }, "the key store");
	(void)unlink("ca.pem");
	(void)unlink("java.jks");
	(void)unlink("leaf.pem");
	(void)unlink("above.pem");
	(void)unlink("chain.pem");
	if (chdir("/") == 0)
		(void)rmdir(dir);
	given_clear(&g);
	ca_free(ca);
}

int
main(void)
{
	policy_init(&policy);
	tap_plan(0);
	test_chain();
	test_constraints();
	test_hosts();
	test_kept();
	test_leaves();
	test_talk();
	test_roots();
	test_jks();
	test_others();
	policy_clear(&policy);
	return (tap_done());
}
