#ifndef SBX_PROXY_STRIP_H
#define SBX_PROXY_STRIP_H

/*
 * Heads of HTTP as they go on: written anew from what was read, without what
 * concerns one connection only, without the client's credentials, and without
 * what would make another request of it behind us.  No I/O.
 * Source: RFC 9110 section 7.6, RFC 9112 section 3.2.
 */

#include "common/http/http.h"
#include "sbx-proxy/host.h"

#define STRIP_HEAD_MAX (SBX_HTTP_HEAD_BYTES + 1024u)

/* A request, in origin form, to host; port_default is not written.  false: it
 * is too long then. */
bool strip_request(const struct sbx_http_head *h, const struct host *host,
    uint16_t port, uint16_t port_default, struct sbx_buf *out);
/* An answer.  chunked: as its body will be sent, else the length stands as it
 * was; close: the connection ends with it. */
bool strip_answer(const struct sbx_http_answer *a, bool chunked, bool close,
    struct sbx_buf *out);
/* A query without the parameters that carry credentials; '?' included when
 * something is left. */
void strip_query(struct sbx_text query, struct sbx_buf *out);

#endif
