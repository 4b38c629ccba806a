#ifndef SBX_COURIER_REQUEST_H
#define SBX_COURIER_REQUEST_H

/*
 * What a git client asks for, compared with the one grant; and where a host
 * may send it instead.  No I/O.
 * Source: gitprotocol-http(5), RFC 9110.
 */

#include "common/git/push.h"
#include "common/http/http.h"
#include "common/proto/proto.h"

struct request_grant {
	enum sbx_grant_op op;		/* FETCH or PUSH */
	const char *host, *repo;
	unsigned port;
	struct push_grant push;		/* of PUSH */
};

struct request {
	bool rpc;		/* POST to the service, not its refs */
	bool dot_git;		/* asked for as NAME.git */
	bool gzip;		/* the body is */
	char protocol;		/* '1' or '2'; 0: not said */
};

/* "git-upload-pack" or "git-receive-pack" */
const char *request_service(const struct request_grant *g);
/* NULL, or why h is not what was granted. */
const char *request_judge(const struct request_grant *g,
    const struct sbx_http_head *h, struct request *ret);
/* The path with its query, anew from the grant.  The caller frees it. */
char *request_path(const struct request_grant *g, const struct request *r);
/* Is it a URL of the same request of some repository on the same host? */
bool request_location_is_good(const struct request_grant *g,
    const struct request *r, struct sbx_text location);

#endif
