#ifndef SBX_JUDGE_SCAN_PARTS_H
#define SBX_JUDGE_SCAN_PARTS_H

/* Private to the scanner for secrets (scan*.c). */

#include "sbxd/judge/scan.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* --- memory that ends all at once ------------------------------------------- */
struct pool {
	struct pool_block *last;
};
void *pool_get(struct pool *p, size_t n);	/* zeroed, never NULL */
char *pool_text(struct pool *p, const char *s, size_t n);
void pool_free(struct pool *p);

/* --- scan_toml.c: what gitleaks' configurations use of TOML ------------------ */
#define TOML_MAX_TEXT (32u << 10)	/* bytes of one string */
#define TOML_MAX_ITEMS 8192		/* of one array */
#define TOML_MAX_KEY 64

enum toml_type { TOML_TEXT, TOML_NUMBER, TOML_BOOL, TOML_TEXTS };
struct toml_value {
	enum toml_type type;
	double number;
	bool whole;		/* number had no point */
	bool yes;
	char **v;		/* TOML_TEXT: one; in the pool */
	size_t n;
};
struct toml {
	struct pool *pool;
	char *reason;		/* SCAN_REASON bytes: of the refusal */
	unsigned line;
	/* Both 0 or toml_fail().  key is as written; it is not looked at whether
	 * it was there before. */
	int (*table)(void *ctx, const char *name, bool array);
	int (*value)(void *ctx, const char *key, const struct toml_value *v);
	void *ctx;
	const char *p, *end;	/* private from here on */
};
int toml_fail(struct toml *t, const char *fmt, ...) SBX_PRINTF(2, 3); /* -1 */
int toml_parse(struct toml *t, const char *p, size_t n);

/* --- scan_re.c: regular expressions as Go's regexp/syntax has them ----------- */
#define RE_MAX_DEPTH 40			/* of groups */
#define RE_MAX_REPEAT 1000		/* as Go has it */
#define RE_MAX_GROUPS 200
#define RE_MAX_OUT (256u << 10)		/* bytes handed to PCRE2 */
#define RE_ENDLESS UINT32_MAX
#define RE_MAX_PRE 4096			/* before a word that is looked for */

#define LITS_MAX 48
#define LIT_MAX 16
/* Words of which one is in each match, in lower case. */
struct lits {
	unsigned n;
	uint8_t len[LITS_MAX];
	char s[LITS_MAX][LIT_MAX];
};
struct re {
	pcre2_code *code;
	unsigned groups;
	uint32_t min, max;	/* bytes of a match; RE_ENDLESS */
	/* A match has one of words, which begins pre_min to pre_max bytes after
	 * it does; n 0: nothing of use is known. */
	struct lits words;
	uint32_t pre_min, pre_max;
};
/* 0, or -1 with reason (SCAN_REASON bytes). */
int re_compile(struct re *re, const char *text, char *reason);
void re_free(struct re *re);

/* --- scan_words.c: many words at once (Aho and Corasick, 1975) ---------------- */
#define WORDS_MAX_STATES 65535u

struct words;
/* A word in lower case was found: its last byte is at p[end - 1]. */
typedef void words_found(void *ctx, uint32_t word, size_t end);
struct words *words_new(void);
/* Returns its number; the same word has the same. */
uint32_t words_add(struct words *w, const char *s, size_t n);
int words_build(struct words *w);	/* -1: too many */
void words_find(const struct words *w, const char *p, size_t from, size_t to,
    words_found *found, void *ctx);
void words_free(struct words *w);

/* --- scan_rules.c ------------------------------------------------------------- */
#define RULES_MAX_PATTERNS 4096		/* in all of a configuration */
#define RULES_MAX_ALLOWS 256
#define RULE_MAX_KEYWORDS 512

enum allow_target { ALLOW_SECRET, ALLOW_MATCH, ALLOW_LINE };
struct allow {
	bool all;		/* condition: AND */
	bool commits;		/* asks for commits: none is known, so never */
	enum allow_target target;
	struct re **regexes, **paths;
	size_t nregexes, npaths;
	char **stops;		/* in lower case */
	size_t nstops;
	char **rules;		/* targetRules */
	size_t nrules;
	bool path_ok;		/* of the file at hand */
};
struct rule {
	const char *id;
	struct re *regex, *path;	/* NULL: none */
	unsigned group;			/* secretGroup */
	double entropy;
	char **keywords;		/* in lower case */
	size_t nkeywords;
	struct allow **allows;
	size_t nallows;
};
struct rules {
	struct pool pool;
	struct rule v[SCAN_MAX_RULES];
	size_t n;
	struct allow *allows[RULES_MAX_ALLOWS]; /* all of them */
	size_t nallows;
	struct allow *global[RULES_MAX_ALLOWS];
	size_t nglobal;
	struct re *patterns[RULES_MAX_PATTERNS];
	size_t npatterns;
};
/* 0, or -1 with reason. */
int rules_read(struct rules *r, const char *p, size_t n, char *reason);
void rules_free(struct rules *r);

/* The built-in configuration (rules.toml). */
extern const char rules_builtin[];
extern const size_t rules_builtin_len;

/* --- scan_old.c: lines of the base's file ------------------------------------- */
struct old;
/* Borrowed: p must stay until old_free().  The work is done when first asked. */
struct old *old_new(const void *p, size_t n);
bool old_has(struct old *o, const char *line, size_t n);
void old_free(struct old *o);

/* --- scan_text.c: UTF-16 and base64 --------------------------------------------- */
enum text_form { TEXT_UNKNOWN, TEXT_BYTES, TEXT_LE, TEXT_BE };
struct text {
	enum text_form form;
	uint8_t held[2];	/* of what is not yet whole */
	unsigned nheld;
};
/* Room for what n bytes of UTF-16 become, and what was held. */
#define TEXT_ROOM(n) (3 * ((n) / 2 + 2) + 2)
size_t text_put(struct text *t, const uint8_t *p, size_t n, char *dst);
size_t text_end(struct text *t, char *dst);
/* The form that the first two bytes say. */
enum text_form text_form(const uint8_t *p, size_t n);

#define BASE64_MIN 24		/* characters */
#define BASE64_MAX (48u << 10)	/* of a longer run, the first */
/* The next run of base64, of BASE64_MIN at least, that begins from *at to before
 * limit; in either alphabet.  false: there is none. */
bool base64_next(const char *p, size_t len, size_t limit, size_t *at,
    size_t *ret_end);
/* dst has room for 3/4 of n.  0: it is none, or not of printable text. */
size_t base64_decode(const char *p, size_t n, char *dst);

#endif
