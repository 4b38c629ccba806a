/* The authority of one sandbox (ca.h). */

#include "sbx-proxy/ca.h"

#include "sbx-proxy/issue.h"
#include "sbx-proxy/jks.h"

#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

struct leaf {
	char name[HOST_MAX + 1];
	SSL_CTX *ctx;		/* owned; NULL: free */
	uint64_t used;
};
struct ca {
	X509 *root, *intermediate;	/* owned */
	EVP_PKEY *key;			/* owned; the intermediate's */
	/* owned; of all leaves, made with the first.  All of them lead to this
	 * process, so a key each would part nothing. */
	EVP_PKEY *leaf_key;
	NAME_CONSTRAINTS *names;	/* owned */
	struct leaf leaves[CA_LEAVES];
	uint64_t clock;			/* of `used` */
};

static const uint8_t alpn[] = "\x08http/1.1";
#define ALPN_LEN (sizeof(alpn) - 1)

static int
fail(struct sbx_err *err, const char *what)
{
	unsigned long e = ERR_peek_error();
	const char *why = ERR_reason_error_string(e);

	ERR_clear_error();
	return (sbx_err_set(err, SBX_E_SYS, "%s: %s", what,
	    why != NULL ? why : "OpenSSL does not say why"));
}

void
ca_free(struct ca *ca)
{
	if (ca == NULL)
		return;
	for (size_t i = 0; i < CA_LEAVES; i++)
		SSL_CTX_free(ca->leaves[i].ctx);
	X509_free(ca->root);
	X509_free(ca->intermediate);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf_key);
	NAME_CONSTRAINTS_free(ca->names);
	free(ca);
}

/* --- made and kept ------------------------------------------------------------ */

static bool
read_names(struct ca *ca)
{
	ca->names = X509_get_ext_d2i(ca->intermediate, NID_name_constraints,
	    NULL, NULL);
	return (ca->names != NULL);
}

int
ca_make(const char *container, const struct policy *p, struct ca **ret,
    struct sbx_err *err)
{
	SBX_CLEANUP(pkey) EVP_PKEY *root_key =
	    issue_key();
	struct ca *ca = sbx_xcalloc(1, sizeof(*ca));

	if (root_key != NULL && (ca->key = issue_key()) != NULL &&
	    (ca->root = issue_root(container, root_key)) != NULL &&
	    (ca->intermediate = issue_intermediate(container, p, ca->key,
	    ca->root, root_key)) != NULL && read_names(ca)) {
		if (i2d_X509(ca->intermediate, NULL) <= CA_NAMES_MAX) {
			*ret = ca;
			return (0);
		}
		ca_free(ca);
		return (sbx_err_set(err, SBX_E_SYS, "so many hosts are "
		    "intercepted that no certificate holds their names"));
	}
	ca_free(ca);
	return (fail(err, "no authority can be made"));
}

/*
 * What the engine keeps: magic, three lengths of 32 bits, big endian, and so
 * many bytes: the key, the intermediate, the root, each DER; then SHA-256
 * of all that, since not every bit of DER means something.
 */
static const uint8_t magic[8] = "sbx-ca1";
#define PARTS 3
#define HEAD (sizeof(magic) + 4 * PARTS)
#define SUM 32

struct part {
	const uint8_t *p;
	size_t n;
};

static bool
sum_of(const uint8_t *p, size_t n, uint8_t md[SUM])
{
	return (EVP_Q_digest(NULL, "SHA256", NULL, p, n, md, NULL) == 1);
}

static bool
kept_split(const uint8_t *p, size_t n, struct part parts[PARTS])
{
	size_t at = HEAD;
	uint8_t md[SUM];

	if (n < HEAD + SUM || memcmp(p, magic, sizeof(magic)) != 0)
		return (false);
	n -= SUM;
	if (!sum_of(p, n, md) || memcmp(p + n, md, SUM) != 0)
		return (false);
	for (size_t i = 0; i < PARTS; i++) {
		const uint8_t *q = p + sizeof(magic) + 4 * i;
		size_t len = (size_t)q[0] << 24 | (size_t)q[1] << 16 |
		    (size_t)q[2] << 8 | q[3];

		if (len == 0 || len > n - at)
			return (false);
		parts[i] = (struct part){ p + at, len };
		at += len;
	}
	return (at == n);
}

static X509 *
read_cert(const struct part *part)
{
	const uint8_t *p = part->p;
	X509 *x = d2i_X509(NULL, &p, (long)part->n);

	if (x != NULL && p == part->p + part->n)
		return (x);
	X509_free(x);
	return (NULL);
}

static EVP_PKEY *
read_key(const struct part *part)
{
	const uint8_t *p = part->p;
	EVP_PKEY *k = d2i_PrivateKey(EVP_PKEY_EC, NULL, &p, (long)part->n);

	if (k != NULL && p == part->p + part->n)
		return (k);
	EVP_PKEY_free(k);
	return (NULL);
}

static bool
key_fits(EVP_PKEY *key, const X509 *x)
{
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(key, NULL);
	bool good = c != NULL && EVP_PKEY_pairwise_check(c) == 1 &&
	    X509_check_private_key(x, key) == 1;

	EVP_PKEY_CTX_free(c);
	return (good);
}

static bool
signed_by(X509 *x, X509 *issuer)
{
	return (X509_verify(x, X509_get0_pubkey(issuer)) == 1 &&
	    X509_NAME_cmp(X509_get_issuer_name(x),
	    X509_get_subject_name(issuer)) == 0);
}

/* Of that sandbox, and not of another? */
static bool
is_of(const X509 *x, const char *container)
{
	char name[65], is[65] = "";

	issue_name(container, "intermediate", name);
	return (X509_NAME_get_text_by_NID(X509_get_subject_name(x),
	    NID_commonName, is, sizeof(is)) > 0 && strcmp(is, name) == 0);
}

static bool
kept_read(struct ca *ca, const uint8_t *p, size_t n, const char *container)
{
	struct part parts[PARTS];

	return (kept_split(p, n, parts) &&
	    (ca->key = read_key(&parts[0])) != NULL &&
	    (ca->intermediate = read_cert(&parts[1])) != NULL &&
	    (ca->root = read_cert(&parts[2])) != NULL &&
	    key_fits(ca->key, ca->intermediate) &&
	    signed_by(ca->intermediate, ca->root) &&
	    signed_by(ca->root, ca->root) &&
	    is_of(ca->intermediate, container) && read_names(ca));
}

int
ca_load(int fd, const char *container, struct ca **ret, struct sbx_err *err)
{
	SBX_CLEANUP(free) char *p = NULL;
	struct ca *ca;
	size_t n = 0;
	bool good;

	if (sbx_memfd_read(fd, CA_KEPT_MAX, &p, &n) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "what was kept of an authority cannot be read"));
	ca = sbx_xcalloc(1, sizeof(*ca));
	good = kept_read(ca, (const uint8_t *)p, n, container);
	OPENSSL_cleanse(p, n);
	ERR_clear_error();
	if (!good) {
		ca_free(ca);
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "what was kept is not this sandbox's authority"));
	}
	*ret = ca;
	return (0);
}

static uint8_t *
put_length(uint8_t *p, int n)
{
	*p++ = (uint8_t)(n >> 24);
	*p++ = (uint8_t)(n >> 16);
	*p++ = (uint8_t)(n >> 8);
	*p++ = (uint8_t)n;
	return (p);
}

/* One allocation of the right size, so that no copy of the key stays. */
static int
kept_write(const struct ca *ca, int *ret_fd)
{
	int k = i2d_PrivateKey(ca->key, NULL),
	    i = i2d_X509(ca->intermediate, NULL), o = i2d_X509(ca->root, NULL),
	    r = SBX_E_SYS;
	size_t n = HEAD + (size_t)k + (size_t)i + (size_t)o + SUM;
	uint8_t *b, *p;

	if (k <= 0 || i <= 0 || o <= 0 || n > CA_KEPT_MAX ||
	    (b = OPENSSL_malloc(n)) == NULL)
		return (SBX_E_SYS);
	memcpy(b, magic, sizeof(magic));
	p = put_length(put_length(put_length(b + sizeof(magic), k), i), o);
	if (i2d_PrivateKey(ca->key, &p) == k &&
	    i2d_X509(ca->intermediate, &p) == i &&
	    i2d_X509(ca->root, &p) == o && sum_of(b, n - SUM, p))
		r = sbx_memfd_sealed("authority", b, n, ret_fd);
	OPENSSL_clear_free(b, n);
	return (r);
}

/* --- what clients trust --------------------------------------------------------- */

static int
make_jks(const struct ca *ca, const struct roots *roots, struct sbx_buf *b)
{
	SBX_CLEANUP_BUF struct sbx_buf entries = { .data = NULL };
	uint8_t *der = NULL;
	int n = i2d_X509(ca->root, &der), r;

	if (n <= 0)
		return (SBX_E_SYS);
	sbx_buf_init(&entries, CA_ROOTS_MAX + CA_OWN_MAX);
	r = jks_entry(&entries, "sbx", der, (size_t)n);
	OPENSSL_free(der);
	if (r == 0 && roots != NULL)
		r = sbx_buf_add(&entries, roots->jks.data, roots->jks.len);
	if (r != 0)
		return (r);
	return (jks_store(b, &entries, roots != NULL ? roots->n + 1 : 1));
}

static int
seal(const char *name, const struct sbx_buf *b, int *ret_fd)
{
	return (sbx_memfd_sealed(name, b->data, b->len, ret_fd));
}

static int
make_all(const struct ca *ca, const struct roots *roots, int fds[4])
{
	SBX_CLEANUP_BUF struct sbx_buf own = { .data = NULL };
	SBX_CLEANUP_BUF struct sbx_buf all = { .data = NULL };
	SBX_CLEANUP_BUF struct sbx_buf jks = { .data = NULL };
	int r;

	sbx_buf_init(&own, CA_OWN_MAX);
	sbx_buf_init(&all, CA_ROOTS_MAX + CA_OWN_MAX);
	sbx_buf_init(&jks, CA_ROOTS_MAX + 2 * CA_OWN_MAX);
	if ((r = issue_pem(ca->root, &own)) != 0)
		return (r);
	/* Ours comes last: some clients look no further than a mismatch. */
	if (roots != NULL &&
	    (r = sbx_buf_add(&all, roots->pem.data, roots->pem.len)) != 0)
		return (r);
	if ((r = sbx_buf_add(&all, own.data, own.len)) != 0 ||
	    (r = make_jks(ca, roots, &jks)) != 0 ||
	    (r = seal("ca-bundle.pem", &all, &fds[0])) != 0 ||
	    (r = seal("ca.pem", &own, &fds[1])) != 0 ||
	    (r = seal("java.jks", &jks, &fds[2])) != 0)
		return (r);
	return (kept_write(ca, &fds[3]));
}

int
ca_trust(const struct ca *ca, const struct roots *roots, int ret_fds[4],
    struct sbx_err *err)
{
	int r;

	for (size_t i = 0; i < 4; i++)
		ret_fds[i] = -1;
	if ((r = make_all(ca, roots, ret_fds)) == 0)
		return (0);
	for (size_t i = 0; i < 4; i++)
		sbx_close(&ret_fds[i]);
	return (fail(err, "the sandbox's roots cannot be written"));
}

/* --- contexts ----------------------------------------------------------------- */

/* What both ends have.  Sessions are not resumed: a context is shared by
 * connections of which each is to be judged alone. */
static SSL_CTX *
new_context(const SSL_METHOD *method)
{
	SSL_CTX *c = SSL_CTX_new(method);

	if (c == NULL || !SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION)) {
		SSL_CTX_free(c);
		return (NULL);
	}
	(void)SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
	    SSL_OP_NO_RENEGOTIATION);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
	return (c);
}

/* A client that lists protocols and not ours would speak another one. */
static int
on_alpn(SSL *ssl, const uint8_t **out, uint8_t *outlen, const uint8_t *in,
    unsigned inlen, void *ctx)
{
	(void)ssl;
	(void)ctx;
	for (unsigned i = 0; i < inlen; i += in[i] + 1u) {
		if (in[i] != alpn[0] || inlen - i < ALPN_LEN ||
		    memcmp(in + i, alpn, ALPN_LEN) != 0)
			continue;
		*out = in + i + 1;
		*outlen = in[i];
		return (SSL_TLSEXT_ERR_OK);
	}
	return (SSL_TLSEXT_ERR_ALERT_FATAL);
}

static bool
is_below(const ASN1_IA5STRING *base, const char *name)
{
	size_t n = strlen(name), len = (size_t)ASN1_STRING_length(base);

	return (len > 0 && n >= len && memcmp(name + (n - len),
	    ASN1_STRING_get0_data(base), len) == 0 &&
	    (n == len || name[n - len - 1] == '.'));
}

static bool
may_issue(const struct ca *ca, const struct host *h)
{
	int n = sk_GENERAL_SUBTREE_num(ca->names->permittedSubtrees);

	if (h->kind != HOST_NAME)
		return (false);
	for (int i = 0; i < n; i++) {
		const GENERAL_NAME *g = sk_GENERAL_SUBTREE_value(
		    ca->names->permittedSubtrees, i)->base;

		if (g->type == GEN_DNS && is_below(g->d.dNSName, h->text))
			return (true);
	}
	return (false);
}

static SSL_CTX *
make_context(struct ca *ca, const struct host *h)
{
	SBX_CLEANUP(x509) X509 *x = NULL;
	SSL_CTX *c;

	if (ca->leaf_key == NULL && (ca->leaf_key = issue_key()) == NULL)
		return (NULL);
	x = issue_leaf(h->text, ca->leaf_key, ca->intermediate, ca->key);
	if (x == NULL || (c = new_context(TLS_server_method())) == NULL)
		return (NULL);
	SSL_CTX_set_alpn_select_cb(c, on_alpn, NULL);
	if (SSL_CTX_set_num_tickets(c, 0) &&
	    SSL_CTX_use_certificate(c, x) == 1 &&
	    SSL_CTX_use_PrivateKey(c, ca->leaf_key) == 1 &&
	    SSL_CTX_add1_chain_cert(c, ca->intermediate))
		return (c);
	SSL_CTX_free(c);
	return (NULL);
}

/* The one of that name, else the one to be replaced. */
static struct leaf *
find_leaf(struct ca *ca, const char *name)
{
	struct leaf *oldest = &ca->leaves[0];

	for (size_t i = 0; i < CA_LEAVES; i++) {
		struct leaf *l = &ca->leaves[i];

		if (l->ctx != NULL && strcmp(l->name, name) == 0)
			return (l);
		if (l->used < oldest->used)
			oldest = l;
	}
	return (oldest);
}

static int
check_issue(const struct ca *ca, const struct host *h, struct sbx_err *err)
{
	if (!may_issue(ca, h))
		return (sbx_err_set(err, SBX_E_POLICY, "the sandbox is older "
		    "than the entry for %s, a new one may reach it", h->text));
	/* 0: it cannot tell */
	if (X509_cmp_current_time(X509_get0_notAfter(ca->intermediate)) <= 0)
		return (sbx_err_set(err, SBX_E_POLICY, "the certificates of "
		    "this sandbox ended after %d days, a new one has its own",
		    CA_DAYS));
	return (0);
}

int
ca_context(struct ca *ca, const struct host *h, SSL_CTX **ret,
    struct sbx_err *err)
{
	struct leaf *l;
	SSL_CTX *c;
	int r = check_issue(ca, h, err);

	if (r != 0)
		return (r);
	l = find_leaf(ca, h->text);
	if (l->ctx == NULL || strcmp(l->name, h->text) != 0) {
		if ((c = make_context(ca, h)) == NULL)
			return (fail(err, "no certificate can be issued"));
		SSL_CTX_free(l->ctx);
		l->ctx = c;
		(void)sbx_strlcpy(l->name, h->text, sizeof(l->name));
	}
	l->used = ++ca->clock;
	*ret = l->ctx;
	return (0);
}

SSL_CTX *
ca_upstream(const struct roots *roots)
{
	SSL_CTX *c = new_context(TLS_client_method());

	if (c == NULL)
		return (NULL);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	if (roots != NULL)
		SSL_CTX_set1_cert_store(c, roots->store);
	if (SSL_CTX_set_alpn_protos(c, alpn, ALPN_LEN) == 0)
		return (c);
	SSL_CTX_free(c);
	return (NULL);
}
