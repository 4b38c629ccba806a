#ifndef SBX_BASE_RULES_H
#define SBX_BASE_RULES_H

/*
 * The operator's rules for secrets.  Nobody but sbxd-judge reads them, in its
 * cage: also to say whether they are any.
 */

#include "common/base/base.h"

#define SBX_RULES_MAX (1u << 20)	/* bytes of the file */
#ifndef SBX_RULES_MS
#define SBX_RULES_MS 10000		/* then it is ended */
#endif

/*
 * The regular file at path, opened to be read; -1: err.  Its size is 1 to
 * SBX_RULES_MAX.
 */
int sbx_rules_open(const char *path, struct sbx_err *err);
/*
 * Let dir/sbxd-judge read fd (borrowed) from its beginning.  0, or an sbx_error:
 * err says what of path it did not understand.  Forks; blocks up to SBX_RULES_MS.
 */
int sbx_rules_check(const char *dir, const char *path, int fd,
    struct sbx_err *err);

#endif
