#ifndef SBX_BASE_CONF_H
#define SBX_BASE_CONF_H

/*
 * sbx.conf(5): lines of `keyword value`, # comments, double quotes with
 * backslash escapes.  A setting comes from the command line, else its SBX_*
 * variable, else the file, else conf.def.
 */

#include "common/base/base.h"

#define SBX_CONF_FILE_MAX (256u << 10)	/* bytes of a file */
#define SBX_CONF_LINE_MAX 4608u		/* bytes of a line */
#define SBX_CONF_PATH_MAX 4096		/* with the NUL */
#define SBX_CONF_STR_MAX 256		/* with the NUL */
#define SBX_CONF_LIST_MAX 16384		/* all entries of one, a NUL behind each */
#define SBX_CONF_WORD_MAX 32		/* with the NUL */

enum sbx_conf_kind {
	SBX_CONF_UINT, SBX_CONF_BOOL, SBX_CONF_WORD, SBX_CONF_PATH,
	SBX_CONF_STR, SBX_CONF_LIST, SBX_CONF_KIND_MAX
};
/* The later wins. */
enum sbx_conf_source {
	SBX_CONF_DEFAULT, SBX_CONF_FROM_FILE, SBX_CONF_FROM_ENV,
	SBX_CONF_FROM_ARGS, SBX_CONF_SOURCE_MAX
};
enum sbx_conf_unit {
	SBX_CONF_NONE, SBX_CONF_BYTES, SBX_CONF_SECONDS, SBX_CONF_UNIT_MAX
};
enum sbx_conf_id {
#define CONF_UINT(n, env, def, min, max, unit, doc) SBX_CONF_K_##n,
#define CONF_BOOL(n, env, def, doc) SBX_CONF_K_##n,
#define CONF_WORD(n, env, def, words, doc) SBX_CONF_K_##n,
#define CONF_PATH(n, env, def, doc) SBX_CONF_K_##n,
#define CONF_STR(n, env, def, max, doc) SBX_CONF_K_##n,
#define CONF_LIST(n, env, doc) SBX_CONF_K_##n,
#include "common/base/conf.def"
#undef CONF_UINT
#undef CONF_BOOL
#undef CONF_WORD
#undef CONF_PATH
#undef CONF_STR
#undef CONF_LIST
	SBX_CONF_K_MAX
};

/* Entries one after the other, as struct sbx_strs has them. */
struct sbx_conf_list {
	uint32_t count, len;
	char data[SBX_CONF_LIST_MAX];
};

/* A setting by its keyword.  A word is one of its row's words. */
struct sbx_conf {
#define CONF_UINT(n, env, def, min, max, unit, doc) uint64_t n;
#define CONF_BOOL(n, env, def, doc) bool n;
#define CONF_WORD(n, env, def, words, doc) char n[SBX_CONF_WORD_MAX];
#define CONF_PATH(n, env, def, doc) char n[SBX_CONF_PATH_MAX];
#define CONF_STR(n, env, def, max, doc) char n[SBX_CONF_STR_MAX];
#define CONF_LIST(n, env, doc) struct sbx_conf_list n;
#include "common/base/conf.def"
#undef CONF_UINT
#undef CONF_BOOL
#undef CONF_WORD
#undef CONF_PATH
#undef CONF_STR
#undef CONF_LIST
	uint8_t source[SBX_CONF_K_MAX];	/* enum sbx_conf_source */
};

/* A row of conf.def, for the man page check and for help texts. */
struct sbx_conf_row {
	const char *name, *env, *doc, *words;
	enum sbx_conf_kind kind;
	enum sbx_conf_unit unit;
	uint64_t min, max;	/* UINT: range; STR, PATH: max bytes */
	size_t offset;		/* in struct sbx_conf */
	const char *def;	/* as it would be written */
};
extern const struct sbx_conf_row sbx_conf_rows[SBX_CONF_K_MAX];

/* Every setting at its default. */
void sbx_conf_init(struct sbx_conf *c);
/*
 * One setting.  where: what an error message begins with ("--profile");
 * the value is text as in the file, without quotes.  A setting that has a
 * later source already stays as it is, but the value is checked all the same.
 * 0, SBX_E_NOENT (no such keyword), SBX_E_SYNTAX, SBX_E_RANGE; err set.
 */
int sbx_conf_set(struct sbx_conf *c, const char *where, const char *name,
    const char *value, enum sbx_conf_source source, struct sbx_err *err);
/*
 * A whole file.  Any bytes; err begins with "FILE:LINE: ".  A keyword may
 * stand once, but for lists.  0, SBX_E_NOENT (unknown keyword), SBX_E_SYNTAX, SBX_E_RANGE,
 * SBX_E_EXISTS (twice), SBX_E_LIMIT.
 */
int sbx_conf_parse(struct sbx_conf *c, const char *file, const char *text,
    size_t len, struct sbx_err *err);
/* The SBX_* variables; an empty one counts as unset.  env: getenv(3). */
int sbx_conf_env(struct sbx_conf *c, char *(*env)(const char *),
    struct sbx_err *err);
/* What no single line shows: settings that this build cannot serve. */
int sbx_conf_check(const struct sbx_conf *c, struct sbx_err *err);
/* Whether both have the same setting of row. */
bool sbx_conf_same(const struct sbx_conf *a, const struct sbx_conf *b,
    const struct sbx_conf_row *row);
/* All settings as a file that sbx_conf_parse() reads back to the same.
 * 0, SBX_E_LIMIT. */
int sbx_conf_dump(const struct sbx_conf *c, struct sbx_buf *b);

#endif
