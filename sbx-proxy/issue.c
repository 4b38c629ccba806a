/* The three kinds of certificates (issue.h). */

#include "sbx-proxy/issue.h"

#include "common/base/base.h"
#include "sbx-proxy/ca.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define BEFORE_S 3600		/* clocks of sandboxes are ours; of what they
				 * were restored from, perhaps not */
#define SERIAL_BYTES 16		/* the first bit is 0: a positive number */
/* Bits of keyUsage, RFC 5280 section 4.2.1.3. */
#define USAGE_SIGN 0
#define USAGE_CERTS 5

EVP_PKEY *
issue_key(void)
{
	return (EVP_EC_gen("P-256"));
}

void
issue_name(const char *container, const char *what, char ret_name[65])
{
	(void)snprintf(ret_name, 65, "sbx %.16s %s", container, what);
}

static bool
set_serial(X509 *x)
{
	uint8_t b[SERIAL_BYTES];
	BIGNUM *n;
	bool good;

	if (RAND_bytes(b, sizeof(b)) != 1)
		return (false);
	b[0] = (uint8_t)((b[0] & 0x7f) | 0x40);	/* never short, never 0 */
	if ((n = BN_bin2bn(b, sizeof(b), NULL)) == NULL)
		return (false);
	good = BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
	BN_free(n);
	return (good);
}

/* issuer NULL: its own. */
static bool
set_dates(X509 *x, const X509 *issuer)
{
	if (issuer != NULL)
		return (X509_set1_notBefore(x, X509_get0_notBefore(issuer)) &&
		    X509_set1_notAfter(x, X509_get0_notAfter(issuer)));
	return (X509_gmtime_adj(X509_getm_notBefore(x), -BEFORE_S) != NULL &&
	    X509_gmtime_adj(X509_getm_notAfter(x), CA_DAYS * 86400l) != NULL);
}

static bool
set_subject(X509 *x, const char *name)
{
	X509_NAME *n = X509_get_subject_name(x);

	return (name == NULL || X509_NAME_add_entry_by_txt(n, "CN",
	    MBSTRING_ASC, (const uint8_t *)name, -1, -1, 0) == 1);
}

static bool
set_usage(X509 *x, int bit)
{
	ASN1_BIT_STRING *s = ASN1_BIT_STRING_new();
	bool good = s != NULL && ASN1_BIT_STRING_set_bit(s, bit, 1) &&
	    X509_add1_ext_i2d(x, NID_key_usage, s, 1, 0) == 1;

	ASN1_BIT_STRING_free(s);
	return (good);
}

static bool
set_authority(X509 *x, long pathlen)
{
	BASIC_CONSTRAINTS *c = BASIC_CONSTRAINTS_new();
	bool good;

	if (c == NULL)
		return (false);
	c->ca = 1;
	c->pathlen = ASN1_INTEGER_new();
	good = c->pathlen != NULL && ASN1_INTEGER_set(c->pathlen, pathlen) &&
	    X509_add1_ext_i2d(x, NID_basic_constraints, c, 1, 0) == 1 &&
	    set_usage(x, USAGE_CERTS);
	BASIC_CONSTRAINTS_free(c);
	return (good);
}

/* Which key is certified, RFC 5280 section 4.2.1.2 (1). */
static ASN1_OCTET_STRING *
key_id(const X509 *x)
{
	ASN1_OCTET_STRING *s = ASN1_OCTET_STRING_new();
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (s == NULL || !X509_pubkey_digest(x, EVP_sha1(), md, &n) ||
	    !ASN1_OCTET_STRING_set(s, md, (int)n)) {
		ASN1_OCTET_STRING_free(s);
		return (NULL);
	}
	return (s);
}

static bool
set_key_ids(X509 *x, const X509 *issuer)
{
	ASN1_OCTET_STRING *own = key_id(x);
	AUTHORITY_KEYID *a = AUTHORITY_KEYID_new();
	bool good = own != NULL && a != NULL &&
	    X509_add1_ext_i2d(x, NID_subject_key_identifier, own, 0, 0) == 1;

	if (good && issuer != NULL)
		good = (a->keyid = key_id(issuer)) != NULL &&
		    X509_add1_ext_i2d(x, NID_authority_key_identifier, a, 0,
		    0) == 1;
	ASN1_OCTET_STRING_free(own);
	AUTHORITY_KEYID_free(a);
	return (good);
}

/* All but what its kind adds.  issuer NULL: itself; name NULL: no subject. */
static X509 *
begin(const char *name, EVP_PKEY *key, const X509 *issuer, const X509 *dates)
{
	X509 *x = X509_new();

	if (x != NULL && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	    set_dates(x, dates) && set_subject(x, name) &&
	    X509_set_issuer_name(x, X509_get_subject_name(issuer != NULL ?
	    issuer : x)) && X509_set_pubkey(x, key) && set_key_ids(x, issuer))
		return (x);
	X509_free(x);
	return (NULL);
}

static X509 *
finish(X509 *x, bool good, EVP_PKEY *issuer_key)
{
	if (good && X509_sign(x, issuer_key, EVP_sha256()) > 0)
		return (x);
	X509_free(x);
	return (NULL);
}

X509 *
issue_root(const char *container, EVP_PKEY *key)
{
	char name[65];
	X509 *x;

	issue_name(container, "root", name);
	if ((x = begin(name, key, NULL, NULL)) == NULL)
		return (NULL);
	return (finish(x, set_authority(x, 1), key));
}

static GENERAL_NAME *
dns_name(const char *name)
{
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_IA5STRING *s = ASN1_IA5STRING_new();

	if (g == NULL || s == NULL || !ASN1_STRING_set(s, name, -1)) {
		GENERAL_NAME_free(g);
		ASN1_IA5STRING_free(s);
		return (NULL);
	}
	GENERAL_NAME_set0_value(g, GEN_DNS, s);
	return (g);
}

static bool
permit(NAME_CONSTRAINTS *nc, const char *name)
{
	GENERAL_SUBTREE *t = GENERAL_SUBTREE_new();
	GENERAL_NAME *g = dns_name(name);

	if (t == NULL || g == NULL ||
	    !sk_GENERAL_SUBTREE_push(nc->permittedSubtrees, t)) {
		GENERAL_SUBTREE_free(t);
		GENERAL_NAME_free(g);
		return (false);
	}
	GENERAL_NAME_free(t->base);
	t->base = g;
	return (true);
}

static bool
is_permitted(const NAME_CONSTRAINTS *nc, const char *name)
{
	int n = sk_GENERAL_SUBTREE_num(nc->permittedSubtrees);

	for (int i = 0; i < n; i++) {
		const GENERAL_SUBTREE *t = sk_GENERAL_SUBTREE_value(
		    nc->permittedSubtrees, i);
		const ASN1_IA5STRING *s = t->base->d.dNSName;

		if ((size_t)ASN1_STRING_length(s) == strlen(name) &&
		    memcmp(ASN1_STRING_get0_data(s), name, strlen(name)) == 0)
			return (true);
	}
	return (false);
}

/* An exact name, too, permits what is below it: no form of the constraint is
 * narrower.  Without one name nothing would be constrained, so one stands
 * there that nobody has (RFC 6761 section 6.4). */
static bool
permit_all(NAME_CONSTRAINTS *nc, const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (r->how < POLICY_INTERCEPT || r->any ||
		    r->host.kind != HOST_NAME || r->host.text[0] == '\0' ||
		    is_permitted(nc, r->host.text))
			continue;
		if (!permit(nc, r->host.text))
			return (false);
	}
	return (sk_GENERAL_SUBTREE_num(nc->permittedSubtrees) > 0 ||
	    permit(nc, "invalid"));
}

static bool
set_constraints(X509 *x, const struct policy *p)
{
	NAME_CONSTRAINTS *nc = NAME_CONSTRAINTS_new();
	bool good = nc != NULL && (nc->permittedSubtrees =
	    sk_GENERAL_SUBTREE_new_null()) != NULL && permit_all(nc, p) &&
	    X509_add1_ext_i2d(x, NID_name_constraints, nc, 1, 0) == 1;

	NAME_CONSTRAINTS_free(nc);
	return (good);
}

X509 *
issue_intermediate(const char *container, const struct policy *p,
    EVP_PKEY *key, const X509 *root, EVP_PKEY *root_key)
{
	char name[65];
	X509 *x;

	issue_name(container, "intermediate", name);
	if ((x = begin(name, key, root, root)) == NULL)
		return (NULL);
	return (finish(x, set_authority(x, 0) && set_constraints(x, p),
	    root_key));
}

static bool
set_server(X509 *x)
{
	EXTENDED_KEY_USAGE *u = sk_ASN1_OBJECT_new_null();
	bool good = u != NULL &&
	    sk_ASN1_OBJECT_push(u, OBJ_nid2obj(NID_server_auth)) > 0 &&
	    X509_add1_ext_i2d(x, NID_ext_key_usage, u, 0, 0) == 1;

	sk_ASN1_OBJECT_free(u);	/* the object is OpenSSL's own */
	return (good && set_usage(x, USAGE_SIGN));
}

/* Critical, as there is no subject: RFC 5280 section 4.2.1.6. */
static bool
set_name(X509 *x, const char *name)
{
	GENERAL_NAMES *list = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *g = dns_name(name);
	bool good = list != NULL && g != NULL &&
	    sk_GENERAL_NAME_push(list, g) > 0;

	if (!good)
		GENERAL_NAME_free(g);
	good = good && X509_add1_ext_i2d(x, NID_subject_alt_name, list, 1,
	    0) == 1;
	GENERAL_NAMES_free(list);
	return (good);
}

X509 *
issue_leaf(const char *name, EVP_PKEY *key, const X509 *issuer,
    EVP_PKEY *issuer_key)
{
	X509 *x = begin(NULL, key, issuer, issuer);

	if (x == NULL)
		return (NULL);
	return (finish(x, set_name(x, name) && set_server(x), issuer_key));
}

int
issue_pem(X509 *x, struct sbx_buf *b)
{
	BIO *mem = BIO_new(BIO_s_mem());
	char *p = NULL;
	long n;
	int r = SBX_E_SYS;

	if (mem != NULL && PEM_write_bio_X509(mem, x) == 1 &&
	    (n = BIO_get_mem_data(mem, &p)) > 0)
		r = sbx_buf_add(b, p, (size_t)n);
	BIO_free(mem);
	return (r);
}
