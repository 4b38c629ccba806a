#ifndef SBX_WORKER_FINDINGS_H
#define SBX_WORKER_FINDINGS_H

#include "common/proto/proto.h"

struct result;

/* Findings of secrets, as JUDGED has them, as an array of the result. */
void findings_put(struct result *r, const char *key,
    const struct sbx_strs *findings);

#endif
