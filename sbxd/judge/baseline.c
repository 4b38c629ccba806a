/*
 * The baseline that a repository has agreed on: .secrets.baseline at the root of
 * the base, as detect-secrets writes it.  results{PATH: [{hashed_secret}]}, which
 * is the SHA-1 of what was found; wherever it is found again, it does not count.
 * What is no such file counts for nothing, so that its findings stay.
 */
#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/judge/publish.h"

#include <json-c/json.h>
#include <openssl/evp.h>
#include <string.h>

#define MAX_BYTES (4u << 20)
#define MAX_DEPTH 16
#define MAX_VALUES (16 * BASELINE_MAX)	/* each is an allocation of json-c's */
#define SHA1_BYTES 20

static int
by_bytes(const void *a, const void *b)
{
	return (memcmp(a, b, SHA1_BYTES));
}

static void
take(struct baseline *b, struct json_object *finding)
{
	struct json_object *o;
	struct oid id;
	const char *s;

	if (!json_object_object_get_ex(finding, "hashed_secret", &o) ||
	    !json_object_is_type(o, json_type_string))
		return;
	s = json_object_get_string(o);
	if (b->n == BASELINE_MAX || oid_parse(s, strlen(s), &id) != ID_SHA1)
		return;
	memcpy(b->v[b->n++], id.b, SHA1_BYTES);
}

static struct json_object *
parse(const char *text, size_t n)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (sbx_json_scan(text, n, MAX_BYTES, MAX_DEPTH, NULL) != 0 ||
	    sbx_json_values(text, n) > MAX_VALUES ||
	    (tok = json_tokener_new_ex(MAX_DEPTH)) == NULL)
		return (NULL);
	o = json_tokener_parse_ex(tok, text, (int)n);
	json_tokener_free(tok);
	return (o);
}

void
baseline_read(struct baseline *b, const char *text, size_t n)
{
	struct json_object *top = parse(text, n), *results = NULL;

	if (json_object_is_type(top, json_type_object) &&
	    json_object_object_get_ex(top, "results", &results) &&
	    json_object_is_type(results, json_type_object)) {
		json_object_object_foreach(results, path, list) {
			(void)path;
			for (size_t i = 0; json_object_is_type(list,
			    json_type_array) && i <
			    json_object_array_length(list); i++)
				take(b, json_object_array_get_idx(list, i));
		}
	}
	json_object_put(top);
	qsort(b->v, b->n, SHA1_BYTES, by_bytes);
}

bool
baseline_has(const struct baseline *b, const char *secret, size_t n)
{
	uint8_t id[SHA1_BYTES];

	if (b->n == 0)
		return (false);
	if (EVP_Digest(secret, n, id, NULL, EVP_sha1(), NULL) != 1)
		sbx_fatal("libcrypto does not hash");
	return (bsearch(id, b->v, b->n, SHA1_BYTES, by_bytes) != NULL);
}
