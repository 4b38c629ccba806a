#ifndef SBX_FRONT_BATCH_H
#define SBX_FRONT_BATCH_H

/*
 * Several messages in one array, and their answers in one.
 * Source: JSON-RPC 2.0 section 6; MCP revision 2025-03-26, basic.
 */

#include "sbxd/front/sink.h"

/* text: a well-formed array; of its messages SBX_MAX_BATCH are taken.  clean: so
 * is each; otherwise each is looked at alone, and one that is not costs the others
 * nothing.  Answers on `to`, when the last answer is there. */
void batch_run(struct sink *to, const char *text, size_t len, bool clean);

#endif
