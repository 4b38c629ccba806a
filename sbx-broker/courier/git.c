/*
 * COURIER_GIT: one request of git and its answer, from the stream to the host
 * and back.
 *
 * The stream's other end is a sandbox, behind the proxy; both it and the host
 * may say what they like, as slowly as they like.  Nothing goes to the host
 * before the request was compared with the grant, a push's commands included.
 * Nothing comes back before it was searched for the credential.  Memory is what
 * is below, whatever the size of a pack.
 */

#include "sbx-broker/courier/https.h"
#include "sbx-broker/courier/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_MAX (2u * SBX_HTTP_HEAD_BYTES)
#define OUT_MAX (256u << 10)
#define OUT_MARK (128u << 10)	/* beyond it the host is not read */
#define PIECE_MAX (64u << 10)	/* of what libcurl hands over at once */
/* Who sends or takes less is not waited for longer than for who does nothing. */
#define SLOW_BYTES 1024u	/* a second */
#define SLOW_NS (HTTPS_IDLE_S * UINT64_C(1000000000))
#define LINGER_MS 2000
#define LINGER_BYTES (64u << 20)

struct exchange {
	struct courier *c;
	int stream;
	struct request_grant grant;
	struct sbx_http_head head;
	struct request request;

	/* from the sandbox; the head stands at the beginning while it is read */
	char in[IN_MAX];
	size_t in_at, in_len;
	uint64_t body_left;		/* with a length */
	struct sbx_http_chunks chunks;
	bool body_over, in_over, in_bad;
	char held[PUSH_HEAD_MAX];	/* of a push: what was judged */
	size_t held_at, held_len;

	/* to the sandbox */
	char out[OUT_MAX];
	size_t out_at, out_len;
	bool answered;			/* a head is in it */
	bool out_bad;			/* nobody takes it */
	/* of the host's answer: what may be the beginning of the credential,
	 * and what comes behind it */
	char piece[CANARY_BYTES + PIECE_MAX];
	size_t kept;
	struct sbx_buf answer_head;
	size_t head_bytes;
	unsigned status;
	bool line_seen, head_over, no_body, type_good;

	struct https https;
	bool in_paused, out_paused;
	uint64_t slow_ns;		/* waited for the sandbox, less what it
					 * moved since */
};

static struct exchange exchange;

/* --- the stream -------------------------------------------------------------------- */

static void
moved(struct exchange *x, size_t n)
{
	const uint64_t ns = n * (UINT64_C(1000000000) / SLOW_BYTES);

	https_moved(&x->https);
	x->slow_ns -= ns < x->slow_ns ? ns : x->slow_ns;
}

/* As https_step().  waits: for nobody but the sandbox. */
static bool
stream_step(struct exchange *x, struct pollfd *p, bool waits)
{
	const uint64_t from = sbx_mono_ns();

	if (!https_step(&x->https, p, 1))
		return (false);
	if (waits)
		x->slow_ns += sbx_mono_ns() - from;
	return (x->slow_ns <= SLOW_NS || courier_fail(x->c, "timeout",
	    "the sandbox sends or takes less than %u bytes a second",
	    SLOW_BYTES));
}

static void
read_stream(struct exchange *x)
{
	ssize_t n;

	if (x->in_at == x->in_len)
		x->in_at = x->in_len = 0;
	if (x->in_len == sizeof(x->in) || x->in_over)
		return;
	n = recv(x->stream, x->in + x->in_len, sizeof(x->in) - x->in_len,
	    MSG_DONTWAIT);
	if (n > 0) {
		x->in_len += (size_t)n;
		moved(x, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		x->in_over = true;
}

static void
write_stream(struct exchange *x)
{
	ssize_t n;

	while (x->out_at < x->out_len && !x->out_bad) {
		n = send(x->stream, x->out + x->out_at, x->out_len - x->out_at,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			x->out_at += (size_t)n;
			moved(x, (size_t)n);
		} else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			x->out_bad = true;
	}
	x->out_at = x->out_len = 0;
}

static size_t
out_waits(const struct exchange *x)
{
	return (x->out_len - x->out_at);
}

/* OUT_MARK is far enough from the end for all that is put at once. */
static void
put(struct exchange *x, const void *p, size_t n)
{
	if (x->out_at > 0) {
		memmove(x->out, x->out + x->out_at, out_waits(x));
		x->out_len -= x->out_at;
		x->out_at = 0;
	}
	if (n > sizeof(x->out) - x->out_len) {
		x->out_bad = true;
		return;
	}
	memcpy(x->out + x->out_len, p, n);
	x->out_len += n;
}

/* --- the body ------------------------------------------------------------------------ */

/* What is there of it, without its framing.  Returns 0 also at its end. */
static size_t
take_body(struct exchange *x, char *dst, size_t size)
{
	size_t n = x->in_len - x->in_at, used;
	const char *data = x->in + x->in_at;
	int r;

	if (x->body_over || n == 0)
		return (0);
	n = n < size ? n : size;
	if (!x->head.chunked) {
		n = n < x->body_left ? n : (size_t)x->body_left;
		used = n;
		x->body_left -= n;
		x->body_over = x->body_left == 0;
	} else {
		r = sbx_http_chunk(&x->chunks, data, n, &used, &data, &n);
		x->body_over = r == 1;
		x->in_bad |= r < 0;
		if (r < 0)
			return (0);
	}
	memcpy(dst, data, n);
	x->in_at += used;
	return (n);
}

static size_t
fill_body(struct exchange *x, char *dst, size_t size)
{
	size_t had = x->in_at, n = 0;

	do {
		had = x->in_at;
		n += take_body(x, dst + n, size - n);
	} while (n < size && x->in_at != had);
	return (n);
}

/* --- what goes up -------------------------------------------------------------------- */

static size_t
on_read(char *dst, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	size_t got = x->held_len - x->held_at;

	size *= n;
	if (got > 0) {
		got = got < size ? got : size;
		memcpy(dst, x->held + x->held_at, got);
		x->held_at += got;
	} else
		got = fill_body(x, dst, size);
	if (x->in_bad || (got == 0 && !x->body_over && x->in_over &&
	    x->in_at == x->in_len))
		return (CURL_READFUNC_ABORT);
	if (got == 0 && !x->body_over) {
		x->in_paused = true;
		return (CURL_READFUNC_PAUSE);
	}
	x->c->end.out_bytes += got;
	https_moved(&x->https);
	return (got);
}

/* --- what comes back ------------------------------------------------------------------ */

static const char *const passed[] = { "content-type", "cache-control",
	"content-encoding", "expires", "pragma", "location" };

/* Gone through by names only that the sandbox needs. */
static void
answer_header(struct exchange *x, struct sbx_text name, struct sbx_text value)
{
	char want[80];

	for (size_t i = 0; i < SBX_NELEM(passed); i++) {
		if (!sbx_text_is_nocase(name, passed[i]))
			continue;
		if (strcmp(passed[i], "location") == 0 &&
		    !request_location_is_good(&x->grant, &x->request, value))
			return;
		(void)sbx_buf_printf(&x->answer_head, "%s: %.*s\r\n",
		    passed[i], (int)value.len, value.p); /* overflow tells */
	}
	(void)snprintf(want, sizeof(want), "application/x-%s-%s",
	    request_service(&x->grant), x->request.rpc ? "result" :
	    "advertisement");
	if (sbx_text_is_nocase(name, "content-type"))
		x->type_good = sbx_text_is_nocase(value, want);
}

static bool
is_text(struct sbx_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.p[i] < ' ' || t.p[i] > '~')
			return (false);
	return (true);
}

static void
answer_line(struct exchange *x, const char *p, size_t n)
{
	const char *colon = memchr(p, ':', n);
	struct sbx_text name, value;

	if (colon == NULL)
		return;
	name = (struct sbx_text){ p, (size_t)(colon - p) };
	value = (struct sbx_text){ colon + 1, n - name.len - 1 };
	while (value.len > 0 && (*value.p == ' ' || *value.p == '\t')) {
		value.p++;
		value.len--;
	}
	if (is_text(name) && is_text(value))
		answer_header(x, name, value);
}

/* The host's words for a status go nowhere. */
static void
answer_begin(struct exchange *x)
{
	char line[64];
	const struct sbx_buf *b = &x->answer_head;

	if (b->overflow || canary_find(&x->c->secret->canary, b->data, b->len)) {
		(void)courier_fail(x->c, b->overflow ? "upstream" :
		    "secret_in_answer", "the host's headers %s", b->overflow ?
		    "are too long" : "have the credential in them");
		return;
	}
	x->answered = true;
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %u sbx\r\n", x->status);
	put(x, line, strlen(line));
	put(x, b->data, b->len);
	if (!x->no_body)
		put(x, "transfer-encoding: chunked\r\n", 28);
	put(x, "connection: close\r\n\r\n", 21);
}

static void
answer_judge(struct exchange *x)
{
	x->no_body = x->status == 204 || x->status == 304;
	x->c->end.status = x->status;
	if (x->c->end.code != NULL)
		return;
	if (x->status == 401 || x->status == 407) {
		/* else git would ask somebody in the sandbox for a password */
		(void)courier_fail(x->c, "unauthorized", "the host does not "
		    "take the credential that is configured for it (status "
		    "%u): the operator can mend that", x->status);
	} else if (x->status == 200 && !x->type_good) {
		(void)courier_fail(x->c, "upstream", "the host's answer is "
		    "none of git's");
	} else
		answer_begin(x);
}

static size_t
on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	size_t len = n * size;
	const char *why = https_line_fault(p, len, &x->head_bytes);

	if (why != NULL) {
		(void)courier_fail(x->c, "upstream", "%s", why);
		return (0);
	}
	if (x->head_over)
		return (len);	/* trailers go nowhere */
	if (!x->line_seen) {
		if (len < 12 || memcmp(p, "HTTP/1.", 7) != 0)
			return (0);
		x->line_seen = true;
		/* libcurl has read it; digits follow the blank */
		x->status = 0;
		for (const char *s = p + 9; s < p + 12; s++)
			x->status = x->status * 10 + (unsigned)(*s - '0') % 10;
		sbx_buf_clear(&x->answer_head);
		sbx_buf_init(&x->answer_head, 16384);
		(void)sbx_buf_str(&x->answer_head, ""); /* fits */
		return (len);
	}
	if (len > 2) {
		answer_line(x, p, len - 2);
		return (len);
	}
	if (x->status < 200) {
		x->line_seen = false;	/* another one follows */
		return (len);
	}
	x->head_over = true;
	answer_judge(x);
	return (x->answered ? len : 0);
}

/* As one chunk, all but what may be the credential's beginning. */
static bool
pass_on(struct exchange *x, const char *p, size_t n, bool last)
{
	const struct canary *c = &x->c->secret->canary;
	char line[32];
	size_t keep;

	if (canary_find(c, p, n))
		return (courier_fail(x->c, "secret_in_answer", "the host's "
		    "answer has the credential in it"));
	keep = last ? 0 : canary_tail(c, p, n);
	if (n > keep) {
		(void)snprintf(line, sizeof(line), "%zx\r\n", n - keep);
		put(x, line, strlen(line));
		put(x, p, n - keep);
		put(x, "\r\n", 2);
	}
	memmove(x->piece, p + n - keep, keep);
	x->kept = keep;
	return (true);
}

static size_t
on_write(char *p, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	size_t len = size * n;
	bool good;

	/* no body without a head before it */
	if (!x->answered || x->out_bad || x->no_body || len > PIECE_MAX)
		return (0);
	if (out_waits(x) > OUT_MARK) {
		x->out_paused = true;
		return (CURL_WRITEFUNC_PAUSE);
	}
	if (x->kept == 0) {
		good = pass_on(x, p, len, false);
	} else {
		memcpy(x->piece + x->kept, p, len);
		good = pass_on(x, x->piece, x->kept + len, false);
	}
	x->c->end.in_bytes += len;
	https_moved(&x->https);
	return (good ? len : 0);
}

/* --- the request ----------------------------------------------------------------------- */

/* Wait for the sandbox, which has sent less than is needed. */
static bool
wait_for_more(struct exchange *x)
{
	struct pollfd p = { .fd = x->stream, .events = POLLIN };

	if (x->in_over)
		return (courier_fail(x->c, "bad_request", "the request ended "
		    "before its end"));
	if (!stream_step(x, &p, true))
		return (false);
	if (p.revents != 0)
		read_stream(x);
	return (true);
}

static bool
read_request(struct exchange *x)
{
	const char *why;
	size_t used;
	int r;

	while ((r = sbx_http_head(x->in, x->in_len, &x->head, &used, &why)) ==
	    SBX_E_AGAIN)
		if (!wait_for_more(x))
			return (false);
	if (r < 0)
		return (courier_fail(x->c, "bad_request", "the request does "
		    "not parse: %s", why));
	if ((why = request_judge(&x->grant, &x->head, &x->request)) != NULL)
		return (courier_fail(x->c, "not_granted", "the request is not "
		    "the granted one: %s", why));
	x->in_at = used;
	x->body_left = x->head.length;
	x->body_over = !x->head.chunked && x->head.length == 0;
	return (true);
}

/* Four bytes, by which git asks whether the credential is good. */
static bool
is_probe(const struct exchange *x)
{
	return (x->body_over && x->held_len == 4 &&
	    memcmp(x->held, "0000", 4) == 0);
}

/* All of a push that says what it changes, or the four bytes by which git asks
 * whether the credential is good. */
static bool
judge_push(struct exchange *x)
{
	const char *why;
	size_t used, got;
	int r;

	for (;;) {
		got = fill_body(x, x->held + x->held_len,
		    sizeof(x->held) - x->held_len);
		x->held_len += got;
		if (is_probe(x))
			return (true);
		/* the four bytes alone: more may come, or the end of chunks */
		r = push_judge(x->held, x->held_len, &x->grant.push, &used,
		    &why);
		if (r == SBX_E_POLICY && !x->body_over && x->held_len == 4)
			r = SBX_E_AGAIN;
		if (r == 0)
			return (true);
		if (r != SBX_E_AGAIN || x->body_over || x->in_bad)
			return (courier_fail(x->c, "not_granted", "the push is "
			    "not the granted one: %s", r == SBX_E_AGAIN ?
			    "its reference update request is cut" : why));
		if (got == 0 && !wait_for_more(x))
			return (false);
	}
}

#define SET(x, option, value) (curl_easy_setopt((x)->https.easy, \
	CURLOPT_##option, (value)) == CURLE_OK)

static bool
set_body(struct exchange *x)
{
	curl_off_t length = (curl_off_t)x->head.length;

	https_header(&x->https, "Content-Type: application/x-%s-request",
	    request_service(&x->grant));
	if (x->request.gzip)
		https_header(&x->https, "Content-Encoding: gzip");
	if (x->head.chunked)
		https_header(&x->https, "Transfer-Encoding: chunked");
	return (SET(x, POST, 1L) && SET(x, READFUNCTION, on_read) &&
	    SET(x, READDATA, x) && SET(x, POSTFIELDSIZE_LARGE,
	    x->head.chunked ? (curl_off_t)-1 : length));
}

static bool
set_request(struct exchange *x)
{
	https_header(&x->https, "User-Agent: git/2.39.0 (sbx)");
	if (x->request.rpc)
		https_header(&x->https, "Accept: application/x-%s-result",
		    request_service(&x->grant));
	else
		https_header(&x->https, "Accept: */*");
	if (x->request.protocol != 0)
		https_header(&x->https, "Git-Protocol: version=%c",
		    x->request.protocol);
	if (x->request.rpc && !set_body(x))
		return (false);
	return (SET(x, HEADERFUNCTION, on_header) && SET(x, HEADERDATA, x) &&
	    SET(x, WRITEFUNCTION, on_write) && SET(x, WRITEDATA, x));
}

/* --- the exchange ------------------------------------------------------------------------ */

static bool
take_grant(struct exchange *x, const struct sbx_courier_git *m)
{
	struct request_grant *g = &x->grant;

	*g = (struct request_grant){ .op = (enum sbx_grant_op)m->op,
		.host = m->host, .port = m->port, .repo = m->repo,
		.push.force = m->force != 0 };
	if (m->op != SBX_GRANT_FETCH && m->op != SBX_GRANT_PUSH)
		return (courier_fail(x->c, "bad_request", "the job is neither "
		    "a fetch nor a push"));
	if (!courier_repo_is_good(m->repo) || !courier_host_is_good(m->host))
		return (courier_fail(x->c, "bad_request", "the job has no "
		    "repository"));
	if (m->op == SBX_GRANT_PUSH && (!push_ref_is_good(m->ref) ||
	    sbx_strlcpy(g->push.ref, m->ref, sizeof(g->push.ref)) < 0 ||
	    sbx_strlcpy(g->push.new_id, m->new_id,
	    sizeof(g->push.new_id)) < 0 || sbx_strlcpy(g->push.old_id,
	    m->old_id, sizeof(g->push.old_id)) < 0))
		return (courier_fail(x->c, "bad_request", "the job has no "
		    "change of a ref"));
	return (true);
}

static bool
relay_step(struct exchange *x)
{
	struct pollfd p = { .fd = x->stream };

	if (x->in_paused && !x->in_over)
		p.events |= POLLIN;
	if (out_waits(x) > 0)
		p.events |= POLLOUT;
	if (!stream_step(x, &p, (x->in_paused && !x->in_over) ||
	    x->out_paused))
		return (false);
	if (p.revents & (POLLIN | POLLHUP) && x->in_paused)
		read_stream(x);
	write_stream(x);
	if (x->out_bad || (p.revents & (POLLHUP | POLLERR) && !x->in_paused &&
	    out_waits(x) == 0))
		return (courier_fail(x->c, "upstream", "the sandbox went "
		    "away"));
	if ((x->in_paused && (x->in_at < x->in_len || x->in_over)) ||
	    (x->out_paused && out_waits(x) <= OUT_MARK)) {
		x->in_paused = x->out_paused = false;
		(void)curl_easy_pause(x->https.easy, CURLPAUSE_CONT); /* its
					 * result comes with the end */
	}
	return (true);
}

static bool
relay(struct exchange *x)
{
	if (!set_request(x) || !https_begin(&x->https))
		return (courier_fail(x->c, "upstream", "libcurl takes no "
		    "request"));
	while (!x->https.over)
		if (!relay_step(x))
			return (false);
	if (x->https.result == CURLE_OK && x->answered) {
		if (x->no_body)
			return (true);
		if (!pass_on(x, x->piece, x->kept, true))
			return (false);
		put(x, "0\r\n\r\n", 5);
		return (true);
	}
	if (x->in_bad || x->https.result == CURLE_ABORTED_BY_CALLBACK)
		return (courier_fail(x->c, "bad_request", "the request's body "
		    "is cut or does not parse"));
	https_failed(&x->https);	/* unless the cause is known */
	return (false);
}

/* Instead of the host's answer: a sentence for git's user. */
static void
answer_refusal(struct exchange *x)
{
	const struct courier_end *e = &x->c->end;
	bool ours = strcmp(e->code, "not_granted") == 0 ||
	    strcmp(e->code, "bad_request") == 0 ||
	    strcmp(e->code, "unauthorized") == 0;
	char head[200], text[COURIER_REASON_MAX + 40];
	int n;

	n = snprintf(text, sizeof(text), "BLOCKED by sbx: %s.\n",
	    canary_find(&x->c->secret->canary, e->reason, strlen(e->reason)) ?
	    e->code : e->reason);
	(void)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n"
	    "content-type: text/plain; charset=utf-8\r\n"
	    "content-length: %d\r\nconnection: close\r\n\r\n",
	    ours ? "403 Forbidden" : strcmp(e->code, "timeout") == 0 ?
	    "504 Gateway Timeout" : "502 Bad Gateway", n);
	x->answered = true;
	put(x, head, strlen(head));
	put(x, text, (size_t)n);
}

/* What is left goes out, as far as somebody takes it. */
static void
flush(struct exchange *x)
{
	struct pollfd p = { .fd = x->stream, .events = POLLOUT };

	write_stream(x);
	while (out_waits(x) > 0 && !x->out_bad) {
		if (!stream_step(x, &p, true))
			return;
		write_stream(x);
	}
}

/* Who still sends would lose the answer with a connection that is closed over
 * what nobody read. */
static void
linger(struct exchange *x)
{
	struct pollfd p = { .fd = x->stream, .events = POLLIN };
	uint64_t until = sbx_mono_ns() + LINGER_MS * UINT64_C(1000000), now;
	size_t dropped = 0;
	ssize_t n;

	(void)shutdown(x->stream, SHUT_WR);	/* or it is gone already */
	while (dropped < LINGER_BYTES && (now = sbx_mono_ns()) < until &&
	    poll(&p, 1, (int)((until - now) / 1000000) + 1) > 0) {
		n = recv(x->stream, x->in, sizeof(x->in), MSG_DONTWAIT);
		if (n <= 0)
			break;
		dropped += (size_t)n;
	}
}

/* From the stream to the host and back. */
static bool
carry(struct exchange *x, const struct sbx_courier_git *m, int *sock)
{
	SBX_CLEANUP(free) char *path = NULL;
	const char *why, *code;

	if (!take_grant(x, m) || !read_request(x))
		return (false);
	if (x->grant.op == SBX_GRANT_PUSH && x->request.rpc && !judge_push(x))
		return (false);
	if (x->grant.op == SBX_GRANT_PUSH && x->request.rpc && !is_probe(x) &&
	    !courier_begun(x->c))
		return (false);
	path = request_path(&x->grant, &x->request);
	if (!https_open(&x->https, x->c, m->host, m->port, path,
	    sbx_steal_fd(sock)) || !relay(x))
		return (false);
	if (x->status >= 200 && x->status < 300)
		return (true);
	code = courier_status_code(x->status, &why);
	return (courier_fail(x->c, code, "%s (status %u)", why, x->status));
}

void
courier_git(struct courier *c, struct sbx_in *in)
{
	struct exchange *x = &exchange;
	int sock = sbx_steal_fd(&in->fds[0]);

	x->c = c;
	x->stream = sbx_steal_fd(&in->fds[1]);
	/* nothing of libcurl yet, but its patience */
	x->https = (struct https){ .courier = c, .sock = -1, .over = true };
	https_moved(&x->https);
	x->https.until_ns = x->https.moved_ns +
	    HTTPS_WHOLE_S * UINT64_C(1000000000);
	if ((c->end.code != NULL || !carry(x, &in->m.courier_git, &sock)) &&
	    !x->answered)
		answer_refusal(x);
	x->https.over = true;
	flush(x);
	https_last();
	linger(x);
	https_close(&x->https);
	sbx_close(&sock);
	sbx_close(&x->stream);
	sbx_buf_clear(&x->answer_head);
}
