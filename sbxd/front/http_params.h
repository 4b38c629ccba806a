#ifndef SBX_FRONT_HTTP_PARAMS_H
#define SBX_FRONT_HTTP_PARAMS_H

#include "common/http/http.h"
#include "sbxd/front/member.h"

struct sbx_tool;

#define HTTP_PARAM_NAME 80	/* bytes of "Mcp-Param-..." */

/*
 * Do the headers of a tools/call say something else than those of its
 * arguments (one clean JSON object) that the tool's schema marks with
 * x-mcp-header?  A marked one that is not given, or null, has no header.
 * *ret_header: the first that does.
 */
bool http_params_differ(const struct sbx_http_head *h,
    const struct sbx_tool *t, struct span arguments,
    char ret_header[HTTP_PARAM_NAME]);

#endif
