#ifndef SBX_COURIER_FIELDS_H
#define SBX_COURIER_FIELDS_H

/*
 * What of an answer of GitHub's REST API goes on, and what of a request's body
 * is taken: members by name, everything else is not there.  No I/O.
 * Source: GitHub REST API, version 2022-11-28.
 */

#include "common/base/base.h"
#include "common/base/rest.h"

#define FIELDS_ANSWER_MAX (8u << 20)	/* bytes, of the host's */
#define FIELDS_BODY_MAX (256u << 10)
#define FIELDS_VALUES_MAX 200000u	/* of an answer: 100 issues have less than
					 * a tenth */
#define FIELDS_DEPTH 32u

/* The answer to op, of n bytes, as JSON with the allowed members of it alone.
 * 0, SBX_E_SYNTAX (it is not JSON of that kind), SBX_E_LIMIT. */
int fields_answer(enum sbx_rest_op op, const char *text, size_t n,
    struct sbx_buf *out);
/* "message" of the host's answer that is none, and of its first errors, into
 * ret_text; "" when it has none. */
void fields_message(const char *text, size_t n, char *ret_text, size_t size);

/*
 * A request's body for op, written anew.  NULL, or why it is refused;
 * *ret_code: "bad_request" or "bot_command", which with bot_commands is none.
 */
const char *fields_body(enum sbx_rest_op op, bool bot_commands,
    const char *text, size_t n, struct sbx_buf *out, const char **ret_code);
/* Does a line of it begin, after blanks, with '/' or '@'? */
bool fields_has_bot_command(const char *text, size_t n);

#endif
