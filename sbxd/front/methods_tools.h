#ifndef SBX_FRONT_METHODS_TOOLS_H
#define SBX_FRONT_METHODS_TOOLS_H

#include "common/base/base.h"

#include <stdint.h>

/* The bit of a profile's name ("" is SBX_PROFILE_ALL).  0, SBX_E_NOENT. */
int profile_find(const char *name, uint8_t *ret_profile);
/* Append the `tools` array of that profile: the same bytes each time. */
void tools_put(struct sbx_buf *b, uint32_t fields, uint8_t profile);
/* The name most like this one, for a mend; NULL when none is. */
const char *tools_nearest(const char *name, size_t len);

#endif
