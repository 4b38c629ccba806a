/* A broken courier (--wrap=push_judge): a push that reads well is taken for the
 * granted one.  For test_broken.py. */
#include "common/base/base.h"
#include "common/git/push.h"

int __real_push_judge(const char *p, size_t n, const struct push_grant *grant,
    size_t *ret_used, const char **ret_why);
int __wrap_push_judge(const char *p, size_t n, const struct push_grant *grant,
    size_t *ret_used, const char **ret_why);

int
__wrap_push_judge(const char *p, size_t n, const struct push_grant *grant,
    size_t *ret_used, const char **ret_why)
{
	const int r = __real_push_judge(p, n, grant, ret_used, ret_why);

	return (r == SBX_E_POLICY && n > 4 ? 0 : r);
}
