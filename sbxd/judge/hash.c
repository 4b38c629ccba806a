/* git's object ids, in both formats at once. */
#include "common/base/log.h"
#include "sbxd/judge/judge.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

struct hasher {
	EVP_MD_CTX *ctx[ID_MAX];
	bool skip[ID_MAX];
};

static void
must(int ok)
{
	if (ok != 1)
		sbx_fatal("libcrypto does not hash");
}

struct hasher *
hasher_new(void)
{
	struct hasher *h = sbx_xcalloc(1, sizeof(*h));

	for (int i = 0; i < ID_MAX; i++)
		must((h->ctx[i] = EVP_MD_CTX_new()) != NULL);
	return (h);
}

void
hasher_free(struct hasher *h)
{
	for (int i = 0; i < ID_MAX; i++)
		EVP_MD_CTX_free(h->ctx[i]);
	free(h);
}

void
hasher_only(struct hasher *h, int format)
{
	for (int i = 0; i < ID_MAX; i++)
		h->skip[i] = i != format;
}

void
hasher_begin(struct hasher *h, const char *type, uint64_t size)
{
	char head[40];
	int n = snprintf(head, sizeof(head), "%s %llu", type,
	    (unsigned long long)size);

	must(EVP_DigestInit_ex(h->ctx[ID_SHA1], EVP_sha1(), NULL));
	must(EVP_DigestInit_ex(h->ctx[ID_SHA256], EVP_sha256(), NULL));
	hasher_add(h, head, (size_t)n + 1);
}

void
hasher_add(struct hasher *h, const void *p, size_t n)
{
	for (int i = 0; i < ID_MAX; i++)
		if (!h->skip[i])
			must(EVP_DigestUpdate(h->ctx[i], p, n));
}

void
hasher_end(struct hasher *h, struct id *ret_id)
{
	uint8_t *const to[ID_MAX] = { ret_id->sha1, ret_id->sha256 };

	memset(ret_id, 0, sizeof(*ret_id));
	for (int i = 0; i < ID_MAX; i++)
		if (!h->skip[i])
			must(EVP_DigestFinal_ex(h->ctx[i], to[i], NULL));
}
