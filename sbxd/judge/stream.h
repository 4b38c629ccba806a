#ifndef SBX_JUDGE_STREAM_H
#define SBX_JUDGE_STREAM_H

/* Records of copy streams (common/proto/copystream.h), both ways. */

#include "common/base/limits.h"

#include <stddef.h>
#include <stdint.h>

struct record {
	unsigned type;		/* FILE or LINK */
	unsigned mode;		/* 0644 or 0755: git knows two */
	uint64_t size;		/* of the data, which follows */
	char path[SBX_COPY_MAX_PATH + 1];
};
/* 1: the end; 0: *r is set; -1: *ret_why says why, *ret_error is an errno. */
int stream_record(int in, struct record *r, int *ret_error,
    const char **ret_why);
/* Exactly n bytes, or the stream is cut or stalls: as above, 0 or -1. */
int stream_take(int in, void *p, size_t n, int *ret_error,
    const char **ret_why);
/* 0, or -1: nobody takes it. */
int stream_head(int out, unsigned type, unsigned mode, const char *path,
    uint64_t size);

#endif
