/*
 * A record as a line, and the chain of hashes.  What is written here is read by
 * `tail -f` as well as by verify: it must be one line of valid JSON whatever a
 * writer sent.
 */

#include "sbx-journald/journald.h"

#include "common/base/json.h"
#include "common/base/mask.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define KEY_MAX 64

int
chain_maker_init(struct chain_maker *m)
{
	const time_t zero = 0;
	struct tm tm;

	/* fetched once: the cage permits no loading of providers later */
	m->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	m->ctx = EVP_MD_CTX_new();
	m->wall_s = UINT64_MAX;
	/* the first call looks for a time zone file, which the cage refuses */
	(void)gmtime_r(&zero, &tm);
	if (m->sha256 == NULL || m->ctx == NULL)
		return (SBX_E_SYS);
	return (EVP_DigestInit_ex2(m->ctx, m->sha256, NULL) == 1 ? 0 :
	    SBX_E_SYS);
}

void
chain_maker_clear(struct chain_maker *m)
{
	EVP_MD_CTX_free(m->ctx);
	EVP_MD_free(m->sha256);
	m->ctx = NULL;
	m->sha256 = NULL;
}

void
chain_hash(struct chain_maker *m, const void *p, size_t n,
    uint8_t ret_hash[JOURNAL_HASH])
{
	unsigned len;

	/* in memory and initialised: it cannot fail but by a broken library,
	 * and then no record may claim a hash */
	if (EVP_DigestInit_ex2(m->ctx, NULL, NULL) != 1 ||
	    EVP_DigestUpdate(m->ctx, p, n) != 1 ||
	    EVP_DigestFinal_ex(m->ctx, ret_hash, &len) != 1)
		abort();
}

/* This is on the path of every record: no printf, lengths known ahead. */
#define add_lit(b, lit) ((void)sbx_buf_add((b), (lit), sizeof(lit) - 1))

static void
add_u64(struct sbx_buf *b, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	(void)sbx_buf_add(b, digits + i, sizeof(digits) - i);
}

static void
add_i32(struct sbx_buf *b, int32_t v)
{
	if (v < 0)
		add_lit(b, "-");
	add_u64(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* RFC 3339 in UTC with nanoseconds; the date is made once a second. */
static void
add_wall(struct chain_maker *m, struct sbx_buf *b)
{
	uint64_t now = sbx_wall_ns(), ns = now % NS_PER_S;
	time_t s = (time_t)(now / NS_PER_S);
	char frac[11] = ".000000000";
	struct tm tm;
	size_t i;

	if (m->wall_s != (uint64_t)s) {
		m->wall_s = (uint64_t)s;
		if (gmtime_r(&s, &tm) == NULL || strftime(m->wall,
		    sizeof(m->wall), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
			(void)sbx_strlcpy(m->wall, "1970-01-01T00:00:00",
			    sizeof(m->wall));
	}
	for (i = 9; i > 0; i--) {
		frac[i] = (char)('0' + ns % 10);
		ns /= 10;
	}
	add_lit(b, "\"");
	(void)sbx_buf_str(b, m->wall);
	(void)sbx_buf_add(b, frac, 10);
	add_lit(b, "Z\"");
}

/* Short texts are most of what comes: no shape of mask.c is below this. */
#define SECRET_MIN 20

static bool
may_hold_secret(const char *s, size_t len)
{
	return (len >= SECRET_MIN || memchr(s, '=', len) != NULL ||
	    memchr(s, ':', len) != NULL);
}

/*
 * Foreign text: secrets are masked in the text as it came, before escaping
 * could break their shape.
 */
static void
add_text(struct chain_maker *m, struct sbx_buf *b, const char *s)
{
	size_t len = strlen(s);

	/* cannot be longer than a message; masked as a whole, or a secret
	 * over the border would be missed */
	if (len > sizeof(m->scratch))
		len = sizeof(m->scratch);
	if (may_hold_secret(s, len)) {
		memcpy(m->scratch, s, len);
		(void)sbx_mask(m->scratch, &len);
		s = m->scratch;
	}
	(void)sbx_json_str(b, s, len, NULL);
}

static void
add_fields(struct chain_maker *m, struct sbx_buf *b,
    const struct sbx_strs *fields)
{
	const char *key, *value;
	char sep = '{';

	for (key = sbx_strs_next(fields, NULL); key != NULL;
	    key = value == NULL ? NULL : sbx_strs_next(fields, value)) {
		value = sbx_strs_next(fields, key);
		(void)sbx_buf_add(b, &sep, 1);
		sep = ',';
		add_lit(b, "\"");
		(void)sbx_buf_str(b, key);
		add_lit(b, "\":");
		add_text(m, b, value == NULL ? "" : value);
	}
	if (sep == '{')
		(void)sbx_buf_add(b, &sep, 1);
	add_lit(b, "}");
}

int
chain_add(struct chain_maker *m, struct chain *c, const struct record *r,
    struct sbx_buf *b)
{
	static const struct sbx_strs none;
	char hex[JOURNAL_HASH_HEX + 1];
	size_t start = b->len;

	/* each append after one that did not fit fails too: seen at the end */
	journal_hex(c->hash, hex);
	add_lit(b, "{\"seq\":");
	add_u64(b, c->seq + 1);
	add_lit(b, ",\"prev\":\"");
	(void)sbx_buf_add(b, hex, JOURNAL_HASH_HEX);
	add_lit(b, "\",\"wall\":");
	add_wall(m, b);
	add_lit(b, ",\"mono_ns\":");
	add_u64(b, sbx_mono_ns());
	add_lit(b, ",\"component\":");
	add_text(m, b, r->component);
	add_lit(b, ",\"op\":");
	add_text(m, b, r->op);
	add_lit(b, ",\"phase\":");
	add_text(m, b, r->phase);
	add_lit(b, ",\"principal\":");
	add_text(m, b, r->principal);
	add_lit(b, ",\"container_id\":");
	add_text(m, b, r->container);
	add_lit(b, ",\"run_id\":");
	add_text(m, b, r->run);
	add_lit(b, ",\"code\":");
	add_i32(b, r->code);
	add_lit(b, ",\"fields\":");
	add_fields(m, b, r->fields == NULL ? &none : r->fields);
	add_lit(b, "}\n");
	if (b->overflow) {
		b->overflow = false;
		b->len = start;
		return (SBX_E_LIMIT);
	}
	/* without the newline: it is the one byte that a crash may lack */
	chain_hash(m, b->data + start, b->len - start - 1, c->hash);
	c->seq++;
	return (0);
}

static bool
plain_key(const char *key)
{
	size_t n = 0;

	while ((key[n] >= 'a' && key[n] <= 'z') ||
	    (key[n] >= 'A' && key[n] <= 'Z') ||
	    (key[n] >= '0' && key[n] <= '9') || key[n] == '_' ||
	    key[n] == '-' || key[n] == '.')
		n++;
	return (n > 0 && n <= KEY_MAX && key[n] == '\0');
}

int
chain_check_fields(const struct sbx_strs *fields)
{
	const char *keys[32], *key = NULL, *s = NULL;
	size_t n = 0, i;

	if (fields->count > 2 * SBX_NELEM(keys))
		return (SBX_E_DECODE);
	while ((s = sbx_strs_next(fields, s)) != NULL) {
		if (key != NULL) {
			key = NULL;	/* s is its value */
			continue;
		}
		key = s;
		if (!plain_key(key))
			return (SBX_E_DECODE);
		/* a member twice would make the line no JSON for a reader */
		for (i = 0; i < n; i++)
			if (strcmp(keys[i], key) == 0)
				return (SBX_E_DECODE);
		keys[n++] = key;
	}
	return (0);
}
