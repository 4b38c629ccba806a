/* Java's key stores (jks.h). */

#include "sbx-proxy/jks.h"

#include <string.h>

#include <openssl/evp.h>

#define MAGIC 0xfeedfeedu
#define VERSION 2u
#define TRUSTED 2u		/* the kind of an entry */
#define DIGEST 20		/* SHA-1 */

static int
add_number(struct sbx_buf *b, uint64_t v, unsigned bytes)
{
	uint8_t p[8];

	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	return (sbx_buf_add(b, p, bytes));
}

/* DataOutput.writeUTF(); of ASCII it is the same. */
static int
add_utf(struct sbx_buf *b, const char *s)
{
	size_t n = strlen(s);
	int r = add_number(b, n, 2);

	return (r != 0 ? r : sbx_buf_add(b, s, n));
}

int
jks_entry(struct sbx_buf *b, const char *alias, const uint8_t *der, size_t n)
{
	if (add_number(b, TRUSTED, 4) != 0 || add_utf(b, alias) != 0 ||
	    add_number(b, sbx_wall_ns() / 1000000, 8) != 0 ||
	    add_utf(b, "X.509") != 0 || add_number(b, n, 4) != 0 ||
	    sbx_buf_add(b, der, n) != 0)
		return (SBX_E_LIMIT);
	return (0);
}

/* Says only that the file is whole: everybody knows the password. */
static bool
digest(const void *p, size_t n, uint8_t md[DIGEST])
{
	static const char white[] = "Mighty Aphrodite";
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	char wide[2 * (sizeof(JKS_PASSWORD) - 1)];
	bool good;

	for (size_t i = 0; i < sizeof(wide) / 2; i++) {
		wide[2 * i] = 0;
		wide[2 * i + 1] = JKS_PASSWORD[i];
	}
	good = c != NULL && EVP_DigestInit_ex(c, EVP_sha1(), NULL) &&
	    EVP_DigestUpdate(c, wide, sizeof(wide)) &&
	    EVP_DigestUpdate(c, white, sizeof(white) - 1) &&
	    EVP_DigestUpdate(c, p, n) && EVP_DigestFinal_ex(c, md, NULL);
	EVP_MD_CTX_free(c);
	return (good);
}

int
jks_store(struct sbx_buf *b, const struct sbx_buf *entries, unsigned n)
{
	size_t begin = b->len;
	uint8_t md[DIGEST];

	if (add_number(b, MAGIC, 4) != 0 || add_number(b, VERSION, 4) != 0 ||
	    add_number(b, n, 4) != 0 ||
	    sbx_buf_add(b, entries->data, entries->len) != 0)
		return (SBX_E_LIMIT);
	if (!digest(b->data + begin, b->len - begin, md))
		return (SBX_E_SYS);
	return (sbx_buf_add(b, md, sizeof(md)));
}
