#ifndef SBX_FRONT_ASKS_H
#define SBX_FRONT_ASKS_H

/*
 * What a server may ask of its client, and what an answer looks like: read by
 * the front, which trusts neither side, and by the tools in a worker.
 * Source: ServerRequest, InputRequest and InputResponse of the schemas.
 */

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct sbx_buf;

struct ask_kind;

/*
 * The kind of a request, by its method and its params (NULL: it has none).
 * NULL: there is none such, or the params lack what it must have.
 */
const struct ask_kind *ask_find(const char *method,
    struct json_object *params);
/* enum sbx_client_can: what the client must have declared for it. */
uint32_t ask_needs(const struct ask_kind *kind);
const char *ask_method(const struct ask_kind *kind);
/* Is it a result of that kind; kind NULL: of any? */
bool ask_answered(const struct ask_kind *kind, struct json_object *answer);
/* The answer to a request of that method? */
bool ask_answers(const char *method, struct json_object *answer);
/* These bits as a ClientCapabilities object. */
void ask_put_capabilities(struct sbx_buf *b, uint32_t bits);

#endif
