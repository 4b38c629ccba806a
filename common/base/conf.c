#include "common/base/conf.h"

#include "common/base/cgroup.h"

#include <inttypes.h>
#include <string.h>

#define SHOWN 64	/* bytes of a foreign word in a message */

const struct sbx_conf_row sbx_conf_rows[SBX_CONF_K_MAX] = {
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CONF_UINT(n, e, d, lo, hi, u, t)                                      \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t,                  \
	    .kind = SBX_CONF_UINT, .unit = SBX_CONF_##u, .min = lo, .max = hi,\
	    .offset = offsetof(struct sbx_conf, n), .def = TEXT(d) },
#define CONF_BOOL(n, e, d, t)                                                 \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t,                  \
	    .kind = SBX_CONF_BOOL, .offset = offsetof(struct sbx_conf, n),    \
	    .def = (d) ? "yes" : "no" },
#define CONF_WORD(n, e, d, w, t)                                              \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t, .words = w,      \
	    .kind = SBX_CONF_WORD, .offset = offsetof(struct sbx_conf, n),    \
	    .def = d },
#define CONF_PATH(n, e, d, t)                                                 \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t,                  \
	    .kind = SBX_CONF_PATH, .max = SBX_CONF_PATH_MAX - 1,              \
	    .offset = offsetof(struct sbx_conf, n), .def = d },
#define CONF_STR(n, e, d, hi, t)                                              \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t,                  \
	    .kind = SBX_CONF_STR, .max = hi,                                  \
	    .offset = offsetof(struct sbx_conf, n), .def = d },
#define CONF_LIST(n, e, t)                                                    \
	[SBX_CONF_K_##n] = { .name = #n, .env = e, .doc = t,                  \
	    .kind = SBX_CONF_LIST, .max = SBX_CONF_LINE_MAX,                  \
	    .offset = offsetof(struct sbx_conf, n), .def = "" },
#include "common/base/conf.def"
#undef CONF_UINT
#undef CONF_BOOL
#undef CONF_WORD
#undef CONF_PATH
#undef CONF_STR
#undef CONF_LIST
};

/* --- the nearest valid word --------------------------------------------- */

/* Levenshtein distance; words longer than SHOWN count as far away. */
static unsigned
distance(const char *a, size_t alen, const char *b, size_t blen)
{
	unsigned row[SHOWN + 1], up, diagonal;
	size_t i, j;

	if (alen > SHOWN || blen > SHOWN)
		return (SHOWN * 2);
	for (j = 0; j <= blen; j++)
		row[j] = (unsigned)j;
	for (i = 1; i <= alen; i++) {
		diagonal = row[0];
		row[0] = (unsigned)i;
		for (j = 1; j <= blen; j++) {
			up = row[j];
			diagonal += a[i - 1] != b[j - 1];
			if (up + 1 < diagonal)
				diagonal = up + 1;
			if (row[j - 1] + 1 < diagonal)
				diagonal = row[j - 1] + 1;
			row[j] = diagonal;
			diagonal = up;
		}
	}
	return (row[blen]);
}

/* There is always one. */
static const char *
nearest_keyword(const char *word)
{
	const char *best = sbx_conf_rows[0].name;
	unsigned d, best_d = ~0u;
	size_t i;

	for (i = 0; i < SBX_CONF_K_MAX; i++) {
		d = distance(word, strlen(word), sbx_conf_rows[i].name,
		    strlen(sbx_conf_rows[i].name));
		if (d < best_d) {
			best_d = d;
			best = sbx_conf_rows[i].name;
		}
	}
	return (best);
}

/* The next word of a blank-separated list after *p, or NULL. */
static const char *
word_next(const char **p, size_t *ret_len)
{
	const char *start = *p + strspn(*p, " ");

	*ret_len = strcspn(start, " ");
	*p = start + *ret_len;
	return (*ret_len > 0 ? start : NULL);
}

/* --- values -------------------------------------------------------------- */

/* 0: not a suffix of this unit. */
static uint64_t
unit_factor(enum sbx_conf_unit unit, char suffix)
{
	switch (suffix) {
	case 'K': return (unit == SBX_CONF_BYTES ? UINT64_C(1) << 10 : 0);
	case 'M': return (unit == SBX_CONF_BYTES ? UINT64_C(1) << 20 : 0);
	case 'G': return (unit == SBX_CONF_BYTES ? UINT64_C(1) << 30 : 0);
	case 's': return (unit == SBX_CONF_SECONDS ? 1 : 0);
	case 'm': return (unit == SBX_CONF_SECONDS ? 60 : 0);
	case 'h': return (unit == SBX_CONF_SECONDS ? 3600 : 0);
	}
	return (0);
}

/* Digits and at most one suffix; ranges are those of the row. */
static int
parse_uint(const struct sbx_conf_row *row, const char *value, uint64_t *ret_v)
{
	char digits[24];
	size_t len = strlen(value);
	uint64_t factor = 1, v;
	int r;

	if (len == 0 || len >= sizeof(digits))
		return (SBX_E_SYNTAX);
	(void)sbx_strlcpy(digits, value, sizeof(digits));
	if (digits[len - 1] < '0' || digits[len - 1] > '9') {
		if ((factor = unit_factor(row->unit, digits[len - 1])) == 0)
			return (SBX_E_SYNTAX);
		digits[len - 1] = '\0';
	}
	if ((r = sbx_parse_u64(digits, 0, UINT64_MAX, &v)) != 0)
		return (r);
	if (__builtin_mul_overflow(v, factor, &v))
		return (SBX_E_RANGE);
	if (v < row->min || v > row->max)
		return (SBX_E_RANGE);
	*ret_v = v;
	return (0);
}

/* The words that people write; dumped as yes and no. */
static int
parse_bool(const char *value, bool *ret_v)
{
	static const char *const words[][2] = { { "no", "yes" },
	    { "0", "1" }, { "off", "on" }, { "false", "true" } };
	size_t i;

	for (i = 0; i < SBX_NELEM(words); i++) {
		if (strcmp(value, words[i][0]) == 0 ||
		    strcmp(value, words[i][1]) == 0) {
			*ret_v = strcmp(value, words[i][1]) == 0;
			return (0);
		}
	}
	return (SBX_E_SYNTAX);
}

static int
set_uint(struct sbx_conf *c, const char *where,
    const struct sbx_conf_row *row, const char *value, bool store,
    struct sbx_err *err)
{
	static const char *const units[SBX_CONF_UNIT_MAX] = {
		[SBX_CONF_NONE] = "", [SBX_CONF_BYTES] = " bytes (or K, M, G)",
		[SBX_CONF_SECONDS] = " seconds (or s, m, h)" };
	char shown[SHOWN];
	uint64_t v;
	int r;

	if ((r = parse_uint(row, value, &v)) != 0)
		return (sbx_err_set(err, r,
		    "%s: '%s' must be %" PRIu64 "..%" PRIu64 "%s, not '%s'",
		    where, row->name, row->min, row->max, units[row->unit],
		    sbx_vis(shown, sizeof(shown), value, strlen(value))));
	if (store)
		memcpy((char *)c + row->offset, &v, sizeof(v));
	return (0);
}

static int
set_bool(struct sbx_conf *c, const char *where,
    const struct sbx_conf_row *row, const char *value, bool store,
    struct sbx_err *err)
{
	char shown[SHOWN];
	bool v;

	if (parse_bool(value, &v) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%s: unknown value '%s' of '%s', valid: 'yes', 'no'",
		    where, sbx_vis(shown, sizeof(shown), value, strlen(value)),
		    row->name));
	if (store)
		memcpy((char *)c + row->offset, &v, sizeof(v));
	return (0);
}

static int
set_word(struct sbx_conf *c, const char *where,
    const struct sbx_conf_row *row, const char *value, bool store,
    struct sbx_err *err)
{
	const char *p = row->words, *w, *best = "";
	size_t len, best_len = 0, value_len = strlen(value);
	unsigned d, best_d = ~0u;
	char shown[SHOWN];

	while ((w = word_next(&p, &len)) != NULL) {
		if (len == value_len && memcmp(w, value, len) == 0) {
			if (store)
				(void)sbx_strlcpy((char *)c + row->offset,
				    value, SBX_CONF_WORD_MAX);
			return (0);
		}
		d = distance(value, value_len, w, len);
		if (d < best_d) {
			best_d = d;
			best = w;
			best_len = len;
		}
	}
	return (sbx_err_set(err, SBX_E_SYNTAX,
	    "%s: unknown value '%s' of '%s', nearest valid: '%.*s' of %s",
	    where, sbx_vis(shown, sizeof(shown), value, value_len), row->name,
	    (int)best_len, best, row->words));
}

/* Names as the header Host has them, but for the port, which is nobody's. */
static bool
are_hosts(const char *p)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	const char *w;
	size_t len;

	while ((w = word_next(&p, &len)) != NULL) {
		bool v6 = w[0] == '[' && w[len - 1] == ']' && len > 3;
		size_t n = v6 ? 1 + strspn(w + 1, ":.0123456789abcdefABCDEF") +
		    1 : strspn(w, letters);

		while (!v6 && n > 0 && n < len && strchr("._-", w[n]) != NULL)
			n += 1 + strspn(w + n + 1, letters);
		if (n != len)
			return (false);
	}
	return (true);
}

static int
set_text(struct sbx_conf *c, const char *where,
    const struct sbx_conf_row *row, const char *value, bool store,
    struct sbx_err *err)
{
	size_t i, len = strlen(value);

	if (len > row->max)
		return (sbx_err_set(err, SBX_E_RANGE,
		    "%s: '%s' is longer than %" PRIu64 " bytes", where,
		    row->name, row->max));
	if (row->kind == SBX_CONF_PATH && len > 0 && value[0] != '/')
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%s: '%s' must be an absolute path", where, row->name));
	for (i = 0; i < len; i++)
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "%s: '%s' holds a control character", where,
			    row->name));
	if (row == &sbx_conf_rows[SBX_CONF_K_http_hosts] && !are_hosts(value))
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s: '%s' must be host "
		    "names with blanks between them, such as 'sbx.example "
		    "[2001:db8::1]', without scheme, path or port", where,
		    row->name));
	if (store)
		memcpy((char *)c + row->offset, value, len + 1);
	return (0);
}

/* No entry is of a control character, so they can be shown and sent. */
static int
add_entry(struct sbx_conf_list *l, const char *entry, size_t len)
{
	if (l->len + len + 1 > sizeof(l->data))
		return (SBX_E_LIMIT);
	memcpy(l->data + l->len, entry, len);
	l->data[l->len + len] = '\0';
	l->len += (uint32_t)len + 1;
	l->count++;
	return (0);
}

/* Those of the same source are added to each other.  A comma is in no host and
 * no address. */
static int
set_list(struct sbx_conf *c, const char *where,
    const struct sbx_conf_row *row, const char *value, bool store,
    struct sbx_err *err)
{
	struct sbx_conf_list *l = (void *)((char *)c + row->offset);
	size_t i, n, len;

	for (i = 0; value[i] != '\0'; i++)
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "%s: '%s' holds a control character", where,
			    row->name));
	for (; store && *value != '\0'; value += n + (value[n] == ',')) {
		value += strspn(value, " ");
		n = strcspn(value, ",");
		for (len = n; len > 0 && value[len - 1] == ' '; len--)
			;
		if (len > 0 && add_entry(l, value, len) != 0)
			return (sbx_err_set(err, SBX_E_LIMIT, "%s: all '%s' "
			    "together are longer than %u bytes", where,
			    row->name, SBX_CONF_LIST_MAX));
	}
	return (0);
}

/* Exact: what is nearly right is an error that says so. */
static const struct sbx_conf_row *
row_find(const char *name)
{
	size_t i;

	for (i = 0; i < SBX_CONF_K_MAX; i++)
		if (strcmp(sbx_conf_rows[i].name, name) == 0)
			return (&sbx_conf_rows[i]);
	return (NULL);
}

int
sbx_conf_set(struct sbx_conf *c, const char *where, const char *name,
    const char *value, enum sbx_conf_source source, struct sbx_err *err)
{
	static int (*const set[SBX_CONF_KIND_MAX])(struct sbx_conf *,
	    const char *, const struct sbx_conf_row *, const char *, bool,
	    struct sbx_err *) = {
		[SBX_CONF_UINT] = set_uint, [SBX_CONF_BOOL] = set_bool,
		[SBX_CONF_WORD] = set_word, [SBX_CONF_PATH] = set_text,
		[SBX_CONF_STR] = set_text, [SBX_CONF_LIST] = set_list };
	const struct sbx_conf_row *row = row_find(name);
	char shown[SHOWN];
	bool store;
	int r;

	if (row == NULL)
		return (sbx_err_set(err, SBX_E_NOENT,
		    "%s: unknown keyword '%s', nearest valid: '%s'", where,
		    sbx_vis(shown, sizeof(shown), name, strlen(name)),
		    nearest_keyword(name)));
	store = source >= c->source[row - sbx_conf_rows];
	if (store && source != c->source[row - sbx_conf_rows] &&
	    row->kind == SBX_CONF_LIST)
		memset((char *)c + row->offset, 0,
		    sizeof(struct sbx_conf_list));
	r = set[row->kind](c, where, row, value, store, err);
	if (r == 0 && store)
		c->source[row - sbx_conf_rows] = (uint8_t)source;
	return (r);
}

void
sbx_conf_init(struct sbx_conf *c)
{
	size_t i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < SBX_CONF_K_MAX; i++)
		(void)sbx_conf_set(c, "default", sbx_conf_rows[i].name,
		    sbx_conf_rows[i].def, SBX_CONF_DEFAULT, NULL);
}

/* --- lines ---------------------------------------------------------------- */

/* Blanks at *p; \r too, so that a file from elsewhere works. */
static size_t
skip_blanks(const char *s, size_t len, size_t at)
{
	while (at < len && (s[at] == ' ' || s[at] == '\t' || s[at] == '\r'))
		at++;
	return (at);
}

/*
 * The word at *at into dst (as large as the line, so it always fits): bare up
 * to a blank or #, or quoted with \" and \\.
 * 0 or SBX_E_SYNTAX; *at is behind it.
 */
static int
take_word(const char *s, size_t len, size_t *at, char *dst)
{
	size_t i = *at, n = 0;

	if (i < len && s[i] == '"') {
		for (i++; i < len && s[i] != '"'; i++) {
			if (s[i] == '\\' && ++i >= len)
				break;
			dst[n++] = s[i];
		}
		if (i >= len)
			return (SBX_E_SYNTAX);
		i++;
		/* a word ends at its quote: "a"b is a slip, not "ab" */
		if (i < len && strchr(" \t\r#", s[i]) == NULL)
			return (SBX_E_SYNTAX);
	} else {
		while (i < len && strchr(" \t\r#\"", s[i]) == NULL)
			dst[n++] = s[i++];
		if (i < len && s[i] == '"')
			return (SBX_E_SYNTAX);
	}
	dst[n] = '\0';
	*at = i;
	return (0);
}

static bool
is_list(const char *key)
{
	const struct sbx_conf_row *row = row_find(key);

	return (row != NULL && row->kind == SBX_CONF_LIST);
}

/* One word; of a list all that follow, with one blank between them.  *at is
 * behind it and the blanks. */
static int
take_value(const char *s, size_t len, size_t *at, char *dst, bool list)
{
	size_t n = 0;
	int r;

	do {
		if (n > 0)
			dst[n++] = ' ';
		if ((r = take_word(s, len, at, dst + n)) != 0)
			return (r);
		n += strlen(dst + n);
		*at = skip_blanks(s, len, *at);
	} while (list && *at < len && s[*at] != '#');
	return (0);
}

/* A keyword, blanks, one value, perhaps a comment. */
static int
parse_line(struct sbx_conf *c, const char *where, const char *s, size_t len,
    struct sbx_err *err)
{
	char key[SBX_CONF_LINE_MAX + 1], value[SBX_CONF_LINE_MAX + 1];
	size_t at = skip_blanks(s, len, 0);

	if (at == len || s[at] == '#')
		return (0);
	if (take_word(s, len, &at, key) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s: stray quote",
		    where));
	at = skip_blanks(s, len, at);
	if (at == len || s[at] == '#') {
		char shown[SHOWN];

		/* a misspelt keyword is the better message of the two */
		if (row_find(key) == NULL)
			return (sbx_conf_set(c, where, key, "",
			    SBX_CONF_FROM_FILE, err));
		return (sbx_err_set(err, SBX_E_SYNTAX, "%s: '%s' has no value",
		    where, sbx_vis(shown, sizeof(shown), key, strlen(key))));
	}
	if (take_value(s, len, &at, value, is_list(key)) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%s: a quote is not closed or stands inside a word",
		    where));
	if (at < len && s[at] != '#')
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "%s: more than one value, quote it if it holds blanks",
		    where));
	return (sbx_conf_set(c, where, key, value, SBX_CONF_FROM_FILE, err));
}

/* A keyword that stands twice: one of the two is not what was meant. */
static int
check_twice(const uint8_t *before, const uint8_t *seen, const char *where,
    struct sbx_err *err)
{
	size_t i;

	for (i = 0; i < SBX_CONF_K_MAX; i++)
		if (before[i] != 0 && seen[i] != 0 &&
		    sbx_conf_rows[i].kind != SBX_CONF_LIST)
			return (sbx_err_set(err, SBX_E_EXISTS,
			    "%s: '%s' was set before", where,
			    sbx_conf_rows[i].name));
	return (0);
}

/* Line by line; the first mistake ends it. */
int
sbx_conf_parse(struct sbx_conf *c, const char *file, const char *text,
    size_t len, struct sbx_err *err)
{
	uint8_t seen[SBX_CONF_K_MAX] = { 0 };
	SBX_CLEANUP(free) char *where = NULL;
	const char *p = text, *end = text + len, *nl;
	struct sbx_conf one;
	unsigned line;
	int r;

	if (len > SBX_CONF_FILE_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT,
		    "%s:1: the file is longer than %u bytes", file,
		    SBX_CONF_FILE_MAX));
	for (line = 1; p < end; line++, p = nl + 1) {
		if ((nl = memchr(p, '\n', (size_t)(end - p))) == NULL)
			nl = end;
		free(where);
		where = sbx_xasprintf("%.160s:%u", file, line);
		if ((size_t)(nl - p) > SBX_CONF_LINE_MAX)
			return (sbx_err_set(err, SBX_E_LIMIT,
			    "%s: the line is longer than %u bytes", where,
			    SBX_CONF_LINE_MAX));
		if (memchr(p, '\0', (size_t)(nl - p)) != NULL)
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "%s: NUL byte", where));
		/* alone first: then its source tells which keyword it was */
		memset(one.source, 0, sizeof(one.source));
		if ((r = parse_line(&one, where, p, (size_t)(nl - p), err)) ||
		    (r = check_twice(seen, one.source, where, err)) ||
		    (r = parse_line(c, where, p, (size_t)(nl - p), err)))
			return (r);
		for (size_t i = 0; i < SBX_CONF_K_MAX; i++)
			seen[i] |= one.source[i];
	}
	return (0);
}

/* By the variable's name in messages: no file to point to. */
int
sbx_conf_env(struct sbx_conf *c, char *(*env)(const char *),
    struct sbx_err *err)
{
	const char *v;
	size_t i;
	int r;

	for (i = 0; i < SBX_CONF_K_MAX; i++) {
		v = env(sbx_conf_rows[i].env);
		if (v == NULL || v[0] == '\0')
			continue;
		if ((r = sbx_conf_set(c, sbx_conf_rows[i].env,
		    sbx_conf_rows[i].name, v, SBX_CONF_FROM_ENV, err)) != 0)
			return (r);
	}
	return (0);
}

int
sbx_conf_check(const struct sbx_conf *c, struct sbx_err *err)
{
	uint32_t milli;

	if (c->run_cap_bytes > c->run_total_bytes)
		return (sbx_err_set(err, SBX_E_RANGE,
		    "run_cap_bytes is larger than run_total_bytes"));
	if (c->cpus[0] != '\0' && sbx_parse_cpus(c->cpus, &milli) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "cpus must be a number "
		    "of processors such as 2 or 0.5, with at most three "
		    "decimals"));
	if (c->journal_reserve_bytes > c->journal_rotate_bytes)
		return (sbx_err_set(err, SBX_E_RANGE,
		    "journal_reserve_bytes is larger than "
		    "journal_rotate_bytes"));
	return (0);
}

bool
sbx_conf_same(const struct sbx_conf *a, const struct sbx_conf *b,
    const struct sbx_conf_row *row)
{
	const char *x = (const char *)a + row->offset;
	const char *y = (const char *)b + row->offset;
	const struct sbx_conf_list *l = (const void *)x, *k = (const void *)y;

	if (row->kind == SBX_CONF_UINT)
		return (memcmp(x, y, sizeof(uint64_t)) == 0);
	if (row->kind == SBX_CONF_BOOL)
		return (*(const bool *)x == *(const bool *)y);
	if (row->kind == SBX_CONF_LIST)
		return (l->len == k->len && memcmp(l->data, k->data,
		    l->len) == 0);
	return (strcmp(x, y) == 0);
}

/* Quoted when a bare word would read differently. */
static int
dump_text(struct sbx_buf *b, const char *s)
{
	size_t i;
	int r = 0;

	if (s[0] != '\0' && strpbrk(s, " \t\r#\"\\") == NULL)
		return (sbx_buf_str(b, s));
	r |= sbx_buf_str(b, "\"");
	for (i = 0; s[i] != '\0'; i++) {
		if (s[i] == '"' || s[i] == '\\')
			r |= sbx_buf_add(b, "\\", 1);
		r |= sbx_buf_add(b, &s[i], 1);
	}
	r |= sbx_buf_str(b, "\"");
	return (r);
}

static void
dump_list(struct sbx_buf *b, const char *name, const struct sbx_conf_list *l)
{
	const char *s = l->data;

	for (uint32_t i = 0; i < l->count; i++, s += strlen(s) + 1) {
		(void)sbx_buf_printf(b, "%s ", name);
		(void)dump_text(b, s);
		(void)sbx_buf_str(b, "\n");
	}
}

int
sbx_conf_dump(const struct sbx_conf *c, struct sbx_buf *b)
{
	const struct sbx_conf_row *row;
	const char *at;
	uint64_t v;

	for (row = sbx_conf_rows; row < sbx_conf_rows + SBX_CONF_K_MAX; row++) {
		at = (const char *)c + row->offset;
		if (row->kind == SBX_CONF_LIST) {
			dump_list(b, row->name, (const void *)at);
			continue;
		}
		(void)sbx_buf_printf(b, "%s ", row->name);
		if (row->kind == SBX_CONF_UINT) {
			memcpy(&v, at, sizeof(v));
			(void)sbx_buf_printf(b, "%" PRIu64, v);
		} else if (row->kind == SBX_CONF_BOOL)
			(void)sbx_buf_str(b, *(const bool *)at ? "yes" : "no");
		else
			(void)dump_text(b, at);
		(void)sbx_buf_str(b, "\n");
	}
	return (b->overflow ? SBX_E_LIMIT : 0);
}
