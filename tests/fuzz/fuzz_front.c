/*
 * The whole front: several connections at once (HTTP, lines of a Unix socket,
 * stdio), sessions, event streams and calls, in its event loop, with a monitor
 * at the other end of its channel that answers as the input says.
 *
 * The input is records, each ended by a NUL; a record's first byte is what
 * happens, the rest its text:
 *
 *	0..5	bytes from that client: 0 to 3 HTTP, 4 Unix, 5 stdio
 *	c h	the client named by the next digit goes; closes its half
 *	s	it stops reading, or goes on
 *	r R i E	the oldest call's result: good, an error's, one that wants input,
 *		an error of the protocol
 *	n	the newest call's result
 *	p l f	progress of the oldest; a line for its client's log, with its
 *		level first; a refusal, the text is its code
 *	P	progress of all;  F: a refusal of all
 *	d	the monitor knows no token from now on, or any
 *	t	answers that take their time become streams, and calls tasks
 *	w	all that may expire does
 *
 * In a client's bytes: \1 and a digit is the id of a session, the newest is 0;
 * \2 is the length of what follows the next empty line; \3 the header lines
 * that every request has; \4 the two members of _meta of a modern request;
 * \5 the newest requestState, \6 the newest task.
 *
 * What goes out is framed as HTTP has it, all JSON in it is clean, and in the
 * end nothing is left: not here, and no call at the monitor's.
 */

#include "common/base/json.h"
#include "common/base/log.h"
#include "sbxd/front/calls.h"
#include "sbxd/front/http.h"
#include "sbxd/front/inputs.h"
#include "sbxd/front/tasks.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

enum { CLIENTS = 6, FIRST_LINES = 4, STDIO = 5, TURNS = 5, ROUNDS = 200 };

struct client_end {
	int fd;			/* -1: not connected */
	bool stuck;
	struct sbx_buf got;
};
struct known_call {
	uint32_t number;
	uint64_t principal;
};
struct fake {			/* the monitor */
	struct sbx_peer *peer;
	struct known_call calls[SBX_FRONT_CALLS];
	size_t ncalls;
	uint64_t last_principal;
	bool nobody;
};

static struct front front;
static struct fake fake;
static struct client_end ends[CLIENTS];
static char request_state[33];

/* --- the monitor ------------------------------------------------------------ */

static void
forget_call(size_t i)
{
	fake.ncalls--;
	memmove(&fake.calls[i], &fake.calls[i + 1],
	    (fake.ncalls - i) * sizeof(fake.calls[0]));
}

static int
on_call(struct sbx_peer *p, struct sbx_in *in)
{
	const struct sbx_call *m = &in->m.call;

	(void)p;
	if (fake.ncalls == SBX_FRONT_CALLS || m->principal == 0 ||
	    m->principal > fake.last_principal)
		abort();
	for (size_t i = 0; i < fake.ncalls; i++)
		if (fake.calls[i].number == m->call)
			abort();
	fake.calls[fake.ncalls++] = (struct known_call){ m->call,
		m->principal };
	return (0);
}

static int
on_call_cancel(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	for (size_t i = 0; i < fake.ncalls; i++)
		if (fake.calls[i].number == in->m.call_cancel.call) {
			forget_call(i);
			break;
		}
	return (0);
}

static int
on_front_gone(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	if (in->m.front_gone.principal == 0)
		abort();
	for (size_t i = fake.ncalls; i-- > 0;)
		if (fake.calls[i].principal == in->m.front_gone.principal)
			forget_call(i);
	return (0);
}

/* stdio's principal is 1 */
static int
on_front_eof(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	for (size_t i = fake.ncalls; i-- > 0;)
		if (fake.calls[i].principal == 1)
			forget_call(i);
	return (0);
}

static uint64_t
somebody(void)
{
	return (fake.nobody ? 0 : ++fake.last_principal);
}

static int
on_front_token(struct sbx_peer *p, struct sbx_in *in)
{
	return (sbx_send_front_user(p, 0, &(struct sbx_front_user){
	    .number = in->m.front_token.number, .principal = somebody() },
	    NULL));
}

static int
on_front_auth(struct sbx_peer *p, struct sbx_in *in)
{
	return (sbx_send_front_principal(p, 0, &(struct sbx_front_principal){
	    .conn = in->m.front_auth.conn, .principal = somebody(),
	    .name = "n", .reason = "r" }, NULL));
}

static int
on_front_root(struct sbx_peer *p, struct sbx_in *in)
{
	(void)p;
	(void)in;
	return (0);
}

static const struct sbx_dispatch fake_rows[SBX_MSG_MAX] = {
	[SBX_MSG_FRONT_TOKEN] = { SBX_ST_ANY, 0, on_front_token },
	[SBX_MSG_FRONT_AUTH] = { SBX_ST_ANY, 0, on_front_auth },
	[SBX_MSG_FRONT_GONE] = { SBX_ST_ANY, 0, on_front_gone },
	[SBX_MSG_FRONT_EOF] = { SBX_ST_ANY, 0, on_front_eof },
	[SBX_MSG_FRONT_ROOT] = { SBX_ST_ANY, 0, on_front_root },
	[SBX_MSG_CALL] = { SBX_ST_ANY, 0, on_call },
	[SBX_MSG_CALL_CANCEL] = { SBX_ST_ANY, 0, on_call_cancel },
};
static const struct sbx_dispatch_table fake_table = {
	SBX_PROC_MONITOR, SBX_PROC_FRONT, fake_rows
};

/* Neither side may break the other's protocol, whatever a client does. */
static void
on_channel_end(struct sbx_peer *p, int error)
{
	(void)p;
	(void)error;
	abort();
}

static void
send_result(uint32_t call, uint8_t kind, const uint8_t *text, size_t len)
{
	SBX_CLEANUP(fd) int fd = -1;

	if (sbx_memfd_sealed("result", text, len, &fd) == 0)
		(void)sbx_send_call_result(fake.peer, 0,
		    &(struct sbx_call_result){ .call = call, .kind = kind },
		    &fd);
}

static void
send_progress(uint32_t call, uint64_t done)
{
	(void)sbx_send_call_progress(fake.peer, 0, &(struct sbx_call_progress){
	    .call = call, .done = done, .total = done & 1 ? 0 : done + 1,
	    .message = done & 2 ? "" : "m\n\"" }, NULL);
}

static void
send_refusal(uint32_t call, const uint8_t *text, size_t len)
{
	char code[16], shown[sizeof(code)];

	(void)snprintf(code, sizeof(code), "%.*s", len < 15 ? (int)len : 15,
	    (const char *)text);
	(void)sbx_send_call_refused(fake.peer, 0, &(struct sbx_call_refused){
	    .call = call, .reason = "r", .next = len & 1 ? "n" : "",
	    .code = sbx_vis(shown, sizeof(shown), code, strlen(code)) }, NULL);
}

static void
send_log(uint32_t call, const uint8_t *text, size_t len)
{
	char shown[256] = "";

	if (len == 0)
		return;
	(void)sbx_send_call_log(fake.peer, 0, &(struct sbx_call_log){
	    .call = call, .level = text[0] % SBX_MCP_MAX, .text = sbx_vis(shown,
	    sizeof(shown), (const char *)text + 1, len - 1) }, NULL);
}

/* To one call, which then runs on unless it was answered. */
static void
answer(size_t i, uint8_t what, const uint8_t *text, size_t len)
{
	static const char kinds[SBX_RESULT_MAX] = { [SBX_RESULT_OK] = 'r',
		[SBX_RESULT_ERROR] = 'R', [SBX_RESULT_INPUT] = 'i',
		[SBX_RESULT_FAULT] = 'E' };
	uint32_t call = fake.calls[i].number;

	if (what == 'p')
		send_progress(call, len);
	else if (what == 'l')
		send_log(call, text, len);
	else {
		forget_call(i);
		if (what == 'f')
			send_refusal(call, text, len);
		else
			send_result(call, (uint8_t)((const char *)memchr(kinds,
			    what, sizeof(kinds)) - kinds), text, len);
	}
}

static void
monitor_does(uint8_t what, const uint8_t *text, size_t len)
{
	if (what == 'd')
		fake.nobody = !fake.nobody;
	else if (what == 'F')
		while (fake.ncalls > 0)
			answer(0, 'f', text, len);
	else if (fake.ncalls == 0)
		return;
	else if (what == 'P')
		for (size_t i = 0; i < fake.ncalls; i++)
			answer(i, 'p', text, len);
	else if (what == 'n')
		answer(fake.ncalls - 1, 'r', text, len);
	else if (strchr("rRiEpfl", what) != NULL)
		answer(0, what, text, len);
}

/* --- what comes out ----------------------------------------------------------- */

static void
check_json(const char *p, size_t n)
{
	if (n == 0 || (*p != '{' && *p != '[') || sbx_json_scan(p, n,
	    SBX_FRONT_OUT_MAX, SBX_MAX_JSON_DEPTH + 4, NULL) != 0)
		abort();
}

/* data: lines of a stream's whole events; those of the older pair and of a
 * stream's beginning are no messages. */
static void
check_events(const char *p, const char *end)
{
	const char *line;

	for (; p < end && (line = memchr(p, '\n', (size_t)(end - p))) != NULL;
	    p = line + 1)
		if (line - p > 6 && memcmp(p, "data: ", 6) == 0 &&
		    p[6] != '/')
			check_json(p + 6, (size_t)(line - p) - 6);
}

/* The chunks at p; NULL: they have not ended. */
static const char *
check_chunks(const char *p, const char *end)
{
	const char *crlf;
	size_t n;

	while ((crlf = memmem(p, (size_t)(end - p), "\r\n", 2)) != NULL) {
		n = strtoul(p, NULL, 16);	/* banned elsewhere: our own */
		p = crlf + 2;
		if ((size_t)(end - p) < n + 2)
			return (NULL);
		if (memcmp(p + n, "\r\n", 2) != 0)
			abort();
		check_events(p, p + n);
		p += n + 2;
		if (n == 0)
			return (p);
	}
	return (NULL);
}

/* One answer; NULL: it was cut. */
static const char *
check_answer(const char *p, const char *end)
{
	const char *body = memmem(p, (size_t)(end - p), "\r\n\r\n", 4), *h;
	size_t n = 0;

	if (memcmp(p, "HTTP/1.1 ", (size_t)(end - p) < 9 ?
	    (size_t)(end - p) : 9) != 0)
		abort();
	if (body == NULL)
		return (NULL);
	body += 4;
	if (memmem(p, (size_t)(body - p), "\r\nTransfer-Encoding: chunked\r\n",
	    30) != NULL)
		return (check_chunks(body, end));
	h = memmem(p, (size_t)(body - p), "\r\nContent-Length: ", 18);
	if (h != NULL)
		n = strtoul(h + 18, NULL, 10);
	if ((size_t)(end - body) < n)
		return (NULL);
	if (n > 0)
		check_json(body, n);
	return (body + n);
}

static void
check_http(const char *p, const char *end)
{
	while (p != NULL && p < end)
		p = check_answer(p, end);
}

static void
check_lines(const char *p, const char *end)
{
	const char *line;

	for (; p < end && (line = memchr(p, '\n', (size_t)(end - p))) != NULL;
	    p = line + 1)
		check_json(p, (size_t)(line - p));
}

/* --- the clients ---------------------------------------------------------------- */

static void
find_state(const char *p, size_t n)
{
	static const char name[] = "\"requestState\":\"";
	const char *at = memmem(p, n, name, sizeof(name) - 1);

	if (at != NULL && n - (size_t)(at - p) > sizeof(name) + 32)
		(void)snprintf(request_state, sizeof(request_state), "%.32s",
		    at + sizeof(name) - 1);
}

static void
drain(struct client_end *e)
{
	static char buf[65536];
	ssize_t n;

	while (e->fd != -1 && !e->stuck &&
	    (n = recv(e->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		if (sbx_buf_add(&e->got, buf, (size_t)n) != 0)
			abort();
		find_state(buf, (size_t)n);
	}
}

static void
turn(void)
{
	for (int i = 0; i < TURNS; i++)
		(void)event_base_loop(front.base, EVLOOP_NONBLOCK);
	for (int i = 0; i < CLIENTS; i++)
		drain(&ends[i]);
}

static void
hang_up(int i)
{
	struct client_end *e = &ends[i];

	if (e->fd == -1)
		return;
	e->stuck = false;
	drain(e);
	sbx_close(&e->fd);
	if (e->got.len > 0)
		(i < FIRST_LINES ? check_http : check_lines)(e->got.data,
		    e->got.data + e->got.len);
	sbx_buf_clear(&e->got);
	turn();
}

static void
call_up(int i)
{
	static void (*const accepted[])(struct listener *, int) = {
		[LISTENER_UNIX] = conn_new_unix, [LISTENER_HTTP] = conn_new_http
	};
	enum listener_kind kind = i < FIRST_LINES ? LISTENER_HTTP :
	    LISTENER_UNIX;
	struct listener *l = &front.listeners[kind];
	int pair[2], size = 8192;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
		abort();
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	sbx_buf_init(&ends[i].got, 256u << 20);
	ends[i].fd = pair[1];
	ends[i].stuck = false;
	if (i == STDIO) {
		(void)conn_new_stdio(&front, pair[0],
		    fcntl(pair[0], F_DUPFD_CLOEXEC, 0), 1);
		return;
	}
	l->count++;
	accepted[kind](l, pair[0]);
}

static const char *
session_id(unsigned n)
{
	const struct http_session *s = front.sessions;

	while (s != NULL && n-- > 0)
		s = s->next;
	return (s == NULL ? "00000000000000000000000000000000" : s->id);
}

/* The text with what it cannot know filled in. */
static void
fill_in(struct sbx_buf *b, const uint8_t *p, size_t n)
{
	static const char usual[] = "Host: localhost\r\nContent-Type: "
	    "application/json\r\nAccept: application/json, "
	    "text/event-stream\r\n";
	static const char meta[] = "\"io.modelcontextprotocol/"
	    "protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"
	    "clientCapabilities\":{}";
	char tail[24] = "";
	struct sbx_buf rest;
	const uint8_t *empty;
	size_t i;

	for (i = 0; i < n && p[i] != 2; i++) {
		if (p[i] == 1 && i + 1 < n)
			(void)sbx_buf_str(b, session_id(p[++i] & 7));
		else if (p[i] == 3)
			(void)sbx_buf_str(b, usual);
		else if (p[i] == 4)
			(void)sbx_buf_str(b, meta);
		else if (p[i] == 5)
			(void)sbx_buf_str(b, request_state);
		else if (p[i] == 6 && front.tasks != NULL)
			(void)sbx_buf_str(b, front.tasks->id);
		else
			(void)sbx_buf_add(b, &p[i], 1);
	}
	if (i++ >= n)
		return;
	sbx_buf_init(&rest, b->max);
	fill_in(&rest, p + i, n - i);
	empty = rest.len == 0 ? NULL : memmem(rest.data, rest.len,
	    "\r\n\r\n", 4);
	(void)snprintf(tail, sizeof(tail), "%zu", empty == NULL ? 0 :
	    rest.len - (size_t)((const char *)empty - rest.data) - 4);
	(void)sbx_buf_str(b, tail);
	(void)sbx_buf_add(b, rest.data, rest.len);
	sbx_buf_clear(&rest);
}

static void
client_says(int i, const uint8_t *text, size_t len)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t done = 0;
	ssize_t n;

	if (ends[i].fd == -1)
		call_up(i);
	sbx_buf_init(&b, 8u << 20);
	fill_in(&b, text, len);
	turn();
	while (done < b.len) {
		n = send(ends[i].fd, b.data + done, b.len - done,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			break;	/* it is full or gone */
		done += (size_t)n;
		turn();
	}
}

/* --- a story ---------------------------------------------------------------------- */

static void
take_time(void)
{
	for (struct stream *st = front.streams; st != NULL; st = st->next)
		event_active(st->timer, EV_TIMEOUT, 0);
	for (struct task *t = front.tasks; t != NULL; t = t->next)
		if (t->timer != NULL)
			event_active(t->timer, EV_TIMEOUT, 0);
}

static void
expire(void)
{
	inputs_sweep(&front, UINT64_MAX);
	tasks_sweep(&front, UINT64_MAX);
	stream_sweep(&front, UINT64_MAX);
	http_session_sweep(&front, UINT64_MAX);
	http_user_sweep(&front, UINT64_MAX);
}

static void
record(const uint8_t *p, size_t n)
{
	int i = n > 1 ? (p[1] - '0') : -1;

	if (p[0] >= '0' && p[0] < '0' + CLIENTS)
		client_says(p[0] - '0', p + 1, n - 1);
	else if (strchr("chs", p[0]) != NULL) {
		if (i < 0 || i >= CLIENTS || ends[i].fd == -1)
			return;
		if (p[0] == 'c')
			hang_up(i);
		else if (p[0] == 'h')
			(void)shutdown(ends[i].fd, SHUT_WR);
		else
			ends[i].stuck = !ends[i].stuck;
	} else if (p[0] == 't')
		take_time();
	else if (p[0] == 'w')
		expire();
	else
		monitor_does(p[0], p + 1, n - 1);
	turn();
}

static void
begin(void)
{
	int pair[2];

	sbx_log_init("fuzz", SBX_LOG_ERR);
	if (front_init(&front, event_base_new(), "") != 0 ||
	    sbx_wire_pair(pair) != 0)
		abort();
	front.http_open = true;
	for (size_t i = 0; i < LISTENER_MAX; i++) {
		front.listeners[i].f = &front;
		front.listeners[i].max = SBX_MAX_HTTP;
	}
	front.monitor = sbx_peer_new(front.base, pair[0], &front_from_monitor,
	    &front, on_channel_end);
	fake.peer = sbx_peer_new(front.base, pair[1], &fake_table, NULL,
	    on_channel_end);
	for (int i = 0; i < CLIENTS; i++)
		ends[i].fd = -1;
}

/* Every connection ends, what still runs is answered, all that waits expires:
 * nothing may be left. */
static void
end(void)
{
	for (int i = 0; i < CLIENTS; i++)
		hang_up(i);
	for (int i = 0; i < ROUNDS && front.conns != NULL; i++)
		turn();
	monitor_does('F', (const uint8_t *)"", 0);
	turn();
	expire();
	turn();
	if (front.conns != NULL || front.ncalls != 0 || front.nstreams != 0 ||
	    front.nsessions != 0 || front.ninputs != 0 ||
	    front.tasks != NULL || front.nusers != 0 || front.bodies != 0 ||
	    fake.ncalls != 0)
		abort();
	for (size_t i = 0; i < LISTENER_MAX; i++)
		if (front.listeners[i].count != 0)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul;
	size_t n;

	if (front.base == NULL)
		begin();
	fake.nobody = false;
	fake.last_principal = 1;
	front.last_stream = front.last_conn = front.last_call = 0;
	front.last_ask = 0;
	request_state[0] = '\0';
	for (int i = 0; size > 0 && i < ROUNDS; i++) {
		nul = memchr(data, 0, size);
		n = nul == NULL ? size : (size_t)(nul - data);
		if (n > 0)
			record(data, n);
		n += nul != NULL;
		data += n;
		size -= n;
	}
	end();
	return (0);
}
