/* Which tests a tree asks for, and what their reports say. */
#include "common/base/fresh.h"
#include "sbxd/judge/judge.h"

#include <string.h>

uint32_t
report_found(const struct tree *t)
{
	uint32_t found = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].mode != 0120000 &&
		    strchr(t->v[i].path, '/') == NULL)
			found |= sbx_fresh_of(t->v[i].path);
	return (found);
}

void
report_judge(const struct sbx_judge_report *q, int fd,
    struct sbx_judge_verdict *ret)
{
	(void)q, (void)fd;
	*ret = (struct sbx_judge_verdict){ .verdict = "unparsable",
		.reason = "not built" };
}
