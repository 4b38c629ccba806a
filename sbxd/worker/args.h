#ifndef SBX_WORKER_ARGS_H
#define SBX_WORKER_ARGS_H

/*
 * A tool's arguments, checked against the tool's own input schema: what a
 * client reads is what is enforced.  Known keywords: type (one), enum,
 * pattern, minLength, maxLength, minimum, maximum, items (strings, or objects
 * with properties as the arguments have them), minItems,
 * maxItems, maxProperties, additionalProperties (strings), default, required.
 * A schema with another one does not compile.
 *
 * Beyond the schema: null stands for an absent optional argument, and an
 * array or object may come as its JSON text, because some clients send that.
 */

#include "common/base/base.h"

struct json_object;
struct result;
struct sbx_tool;

struct args_schema;	/* a compiled schema */

struct args {
	const struct args_schema *schema;
	struct json_object *obj;	/* owned */
};

/*
 * Compile tool's schema.  Owned by the caller, for ever (made once, before
 * the fork).  NULL with err set: the schema is wrong, which is our fault.
 */
struct args_schema *args_compile(const struct sbx_tool *tool,
    struct sbx_err *err);
void args_schema_free(struct args_schema *s);

/*
 * Scan, parse and check len bytes of text.  *ret_args: args_clear() it, also
 * after a failure.  0, or SBX_E_SYNTAX with the error object in res: it names
 * the argument and the mend.
 */
int args_check(const struct args_schema *s, const char *text, size_t len,
    struct args *ret_args, struct result *res);
void args_clear(struct args *a);

/* Values, of arguments that are in the schema with that type. */
bool args_has(const struct args *a, const char *name);
/* The argument, else its default, else NULL.  *ret_len NULL ok. */
const char *args_str(const struct args *a, const char *name, size_t *ret_len);
bool args_bool(const struct args *a, const char *name);
/* The argument, else its default, else 0. */
int64_t args_int(const struct args *a, const char *name);
/* The argument, else its default, else 0. */
double args_number(const struct args *a, const char *name);
/* Array or object, NULL when absent. */
struct json_object *args_json(const struct args *a, const char *name);

#endif
