#ifndef SBX_PROXY_GATE_H
#define SBX_PROXY_GATE_H

/*
 * What a request to GitHub is.  One table names each shape that is known; all
 * others are refused.  Source: gitprotocol-http(5); GitHub's REST API.
 */

#include "common/http/http.h"
#include "sbx-proxy/host.h"

#define GATE_OWNER_MAX 39u	/* bytes of an account's name */
#define GATE_REPO_MAX 100u	/* of a repository's */

enum gate_class {
	GATE_DENIED,
	GATE_GIT_READ,		/* clone, fetch */
	GATE_GIT_WRITE,		/* push */
	GATE_API_READ,
	GATE_API_WRITE,
	GATE_GRAPHQL,		/* a query or a mutation: its body tells */
	GATE_ASSET,		/* a file */
	GATE_CLASS_MAX
};

struct gate {
	enum gate_class class;
	/* lower case; "" where the shape names none */
	char owner[GATE_OWNER_MAX + 1], repo[GATE_REPO_MAX + 1];
	const char *why;	/* of GATE_DENIED, for a human */
};

/* host: canonical, one of GitHub's.  h: its head, in origin form. */
void gate_classify(const struct host *host, const struct sbx_http_head *h,
    struct gate *ret_gate);
/* The same for a host that the operator named as one of git: git's requests
 * only.  A push must name the repository in lower case, as its grant does,
 * since there another case may be another repository. */
void gate_classify_git(const struct sbx_http_head *h, struct gate *ret_gate);
const char *gate_name(enum gate_class class);	/* "git read" ... */

#endif
