#ifndef SBX_COURIER_HTTPS_H
#define SBX_COURIER_HTTPS_H

/*
 * One HTTPS exchange by libcurl, on a socket that was dialled for it.  All that
 * needs a file, a socket or memory of its own is made before the cage.
 * Source: libcurl's own manual pages; RFC 9110.
 */

#include "sbx-broker/courier/courier.h"

#include <curl/curl.h>
#include <poll.h>

#define HTTPS_ROOTS_MAX (2u << 20)	/* bytes of PEM */
#define HTTPS_HEAD_MAX 65536u		/* bytes of all headers of an answer */
#define HTTPS_EXTRAS 2u

#ifndef HTTPS_IDLE_S			/* tests have less patience */
#define HTTPS_IDLE_S 120u
#endif
#ifndef HTTPS_WHOLE_S
#define HTTPS_WHOLE_S 3600u
#endif
#define HTTPS_LAST_MS 5000u	/* from the last deadline to the last word */
#define HTTPS_TEXT_S 25u	/* one that a call waits for, or a mint */

/* libcurl and the roots in PEM.  Before the cage, once.  0 or err is set. */
int https_init(const char *pem, size_t n, struct sbx_err *err);

struct https {
	CURL *easy;
	struct curl_slist *headers, *resolve;
	struct courier *courier;
	int sock;
	bool begun, over;
	CURLcode result;		/* when over */
	unsigned limit_s;		/* for all of it */
	uint64_t moved_ns, until_ns;	/* the last byte; the end of all */
	uint64_t watched_ns;
	char why[CURL_ERROR_SIZE];
};

/* To https://host:port and path (with its query).  sock: taken.  False: it
 * failed, c->end says why. */
bool https_open(struct https *h, struct courier *c, const char *host,
    unsigned port, const char *path, int sock);
void https_header(struct https *h, const char *fmt, ...) SBX_PRINTF(2, 3);
/* Not before all is set. */
bool https_begin(struct https *h);
/*
 * Wait for what moves, and move it.  extra: of the caller (HTTPS_EXTRAS at
 * most), revents set.  False: a deadline passed, or the broker is gone;
 * c->end says which.
 */
bool https_step(struct https *h, struct pollfd *extra, size_t n);
/* What is left to be done has HTTPS_LAST_MS. */
void https_last(void);
/* A byte moved somewhere. */
void https_moved(struct https *h);
/* Of result: the code word and the reason into c->end. */
void https_failed(struct https *h);
void https_close(struct https *h);

/*
 * A line of an answer's headers or trailers, of which all together are *bytes
 * long: NULL, or why the answer is not read.  What is coded in another way than
 * by chunks was not asked for, and nobody could search it for the credential.
 */
const char *https_line_fault(const char *p, size_t n, size_t *bytes);

/* A whole exchange with texts of bounded length. */
struct https_whole {
	const char *method, *body;	/* body NULL: none */
	size_t body_len;
	struct sbx_buf answer;		/* made by the caller with its limit,
					 * and cleared */
	unsigned status;
	size_t head_bytes;
	const char *fault;		/* of its headers; NULL: none */
	/* of headers, "" where there is none */
	char link[2048], location[1024], retry_after[32], remaining[32],
	    reset[32], content_type[128];
};
/* False: there was no answer, c->end says why. */
bool https_whole(struct https *h, struct https_whole *w);

#endif
