#ifndef SBX_JUDGE_MATCH_H
#define SBX_JUDGE_MATCH_H

#include "common/base/base.h"

struct token;
struct pattern {
	struct token *v;	/* owned */
	size_t n;
};
void pattern_make(struct pattern *p, const char *text);
void pattern_clear(struct pattern *p);
/* The whole text; *steps grows by what it cost. */
bool pattern_match(const struct pattern *p, const char *text, uint64_t *steps);

#endif
