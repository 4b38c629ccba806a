/* The roots that upstreams are verified with, and that sandboxes get. */

#include "sbx-proxy/ca.h"
#include "sbx-proxy/issue.h"
#include "sbx-proxy/jks.h"

#include <limits.h>
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/pem.h>

static int
add_jks(struct sbx_buf *b, X509 *x, unsigned n)
{
	uint8_t *der = NULL;
	char alias[32];
	int len = i2d_X509(x, &der), r;

	if (len <= 0)
		return (SBX_E_SYS);
	(void)snprintf(alias, sizeof(alias), "root%u", n);
	r = jks_entry(b, alias, der, (size_t)len);
	OPENSSL_free(der);
	return (r);
}

static int
add_root(struct roots *r, X509 *x)
{
	int e;

	if (X509_STORE_add_cert(r->store, x) != 1)
		return (SBX_E_SYS);
	/* Written anew, so that nothing else of the text goes into sandboxes:
	 * people keep keys in such files. */
	if ((e = issue_pem(x, &r->pem)) != 0 ||
	    (e = add_jks(&r->jks, x, r->n)) != 0)
		return (e);
	r->n++;
	return (0);
}

/* NULL: there is no more, or *ret_error is set. */
static X509 *
next(BIO *in, int *ret_error)
{
	/* a password of no bytes, or the terminal would be asked for one */
	X509 *x = PEM_read_bio_X509(in, NULL, NULL, (char []){ "" });
	unsigned long e;

	if (x != NULL)
		return (x);
	e = ERR_peek_last_error();
	ERR_clear_error();
	if (ERR_GET_LIB(e) != ERR_LIB_PEM ||
	    ERR_GET_REASON(e) != PEM_R_NO_START_LINE)
		*ret_error = SBX_E_SYNTAX;
	return (NULL);
}

static int
read_all(struct roots *r, BIO *in)
{
	int e = 0;
	X509 *x;

	while (e == 0 && (x = next(in, &e)) != NULL) {
		e = add_root(r, x);
		X509_free(x);
	}
	return (e != 0 ? e : r->n == 0 ? SBX_E_SYNTAX : 0);
}

static int
explain(int e, const struct roots *r, struct sbx_err *err)
{
	ERR_clear_error();
	if (e == SBX_E_LIMIT)
		return (sbx_err_set(err, e, "the roots have more than %u bytes",
		    CA_ROOTS_MAX));
	if (e == SBX_E_SYNTAX && r->n == 0)
		return (sbx_err_set(err, e, "there is no certificate in it"));
	if (e == SBX_E_SYNTAX)
		return (sbx_err_set(err, e,
		    "what follows certificate %u is none", r->n));
	return (sbx_err_set(err, e, "OpenSSL has no memory for the roots"));
}

int
roots_read(const char *pem, size_t n, struct roots **ret, struct sbx_err *err)
{
	struct roots *r;
	BIO *in;
	int e = SBX_E_SYS;

	if (n > CA_ROOTS_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT,
		    "the roots have more than %u bytes", CA_ROOTS_MAX));
	ERR_clear_error();
	r = sbx_xcalloc(1, sizeof(*r));
	sbx_buf_init(&r->pem, CA_ROOTS_MAX);
	sbx_buf_init(&r->jks, CA_ROOTS_MAX);
	r->store = X509_STORE_new();
	in = BIO_new_mem_buf(pem, (int)n);
	if (r->store != NULL && in != NULL)
		e = read_all(r, in);
	BIO_free(in);
	if (e != 0) {
		(void)explain(e, r, err);
		roots_free(r);
		return (e);
	}
	*ret = r;
	return (0);
}

void
roots_free(struct roots *r)
{
	if (r == NULL)
		return;
	X509_STORE_free(r->store);
	sbx_buf_clear(&r->pem);
	sbx_buf_clear(&r->jks);
	free(r);
}
