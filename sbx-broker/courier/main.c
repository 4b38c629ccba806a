/*
 * sbx-broker-courier: carries one exchange that has a credential.
 *
 * One for each exchange.  It is started ahead by the starter, on a channel to
 * the broker, waits caged for its one job, and ends with it.  It alone adds a
 * credential to what a sandbox or a worker asked for, to the one host that the
 * socket it was handed leads to, after it has compared the request with the
 * grant itself, and it looks for that credential in all that comes back.
 * Both ends are hostile.  In the hands of one it holds one credential for one
 * repository, and two sockets: it must never be able to dial, to open a file,
 * or to see another exchange.
 *
 * Calls beside those of every caged process: what libcurl asks of a socket
 * that is connected.
 */
#include "common/base/log.h"
#include "common/base/rest.h"
#include "common/privs/privs.h"
#include "common/privs/start.h"
#include "common/proto/accepts.h"
#include "sbx-broker/courier/https.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEND_TIMEOUT_MS 10000
#define JWT_MAX 1536u

static const uint16_t start_types[] = { SBX_MSG_COURIER_START, 0 };
static const uint16_t job_types[] = { SBX_MSG_COURIER_GIT,
	SBX_MSG_COURIER_REST, SBX_MSG_COURIER_MINT, SBX_MSG_COURIER_REVOKE, 0 };
static const struct sbx_accepts start_list = { SBX_PROC_COURIER,
	SBX_PROC_BROKER, start_types };
static const struct sbx_accepts job_list = { SBX_PROC_COURIER,
	SBX_PROC_BROKER, job_types };

static struct courier_secret secret;
static struct courier courier = { .secret = &secret };

/* --- what a job is given ---------------------------------------------------------- */

/* It goes into a header, so nothing but visible characters. */
static bool
is_visible(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s <= ' ' || *s > '~')
			return (false);
	return (true);
}

static void
base64(char *dst, const char *src, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t v;

	for (; n > 0; src += 3, n -= n < 3 ? n : 3) {
		v = (uint32_t)(unsigned char)src[0] << 16 |
		    (n > 1 ? (uint32_t)(unsigned char)src[1] << 8 : 0) |
		    (n > 2 ? (unsigned char)src[2] : 0);
		*dst++ = digits[v >> 18];
		*dst++ = digits[v >> 12 & 63];
		*dst++ = n > 1 ? digits[v >> 6 & 63] : '=';
		*dst++ = n > 2 ? digits[v & 63] : '=';
	}
	*dst = '\0';
}

/* The header, and what is looked for in what comes back.  user "": Bearer. */
static bool
take_secret(const char *user, const char *token)
{
	static char pair[sizeof(secret.user) + sizeof(secret.token) + 1];
	struct courier_secret *s = &secret;

	if (*token == '\0')
		return (true);
	if (!is_visible(token) || !is_visible(user) ||
	    strchr(user, ':') != NULL ||
	    sbx_strlcpy(s->token, token, sizeof(s->token)) < 0 ||
	    sbx_strlcpy(s->user, user, sizeof(s->user)) < 0)
		return (courier_fail(&courier, "bad_request", "a credential "
		    "has characters that no header takes"));
	s->len = strlen(s->token);
	if (canary_set(&s->canary, s->token, s->len) < 0)
		return (courier_fail(&courier, "bad_request", "a credential "
		    "has %u to %u characters", CANARY_MIN, CANARY_MAX));
	if (*user == '\0') {
		(void)snprintf(s->header, sizeof(s->header),
		    "Authorization: Bearer %.2048s", s->token);
		return (true);
	}
	(void)snprintf(pair, sizeof(pair), "%.63s:%.2048s", s->user, s->token);
	(void)sbx_strlcpy(s->header, "Authorization: Basic ",
	    sizeof(s->header)); /* fits */
	base64(s->header + strlen(s->header), pair, strlen(pair));
	explicit_bzero(pair, sizeof(pair));
	return (true);
}

static bool
take_job(const struct sbx_in *in)
{
	switch ((int)in->hdr.type) {
	case SBX_MSG_COURIER_GIT:
		return (take_secret(in->m.courier_git.user,
		    in->m.courier_git.token));
	case SBX_MSG_COURIER_REST:
		return (take_secret("", in->m.courier_rest.token));
	case SBX_MSG_COURIER_MINT:
		return (take_secret("", in->m.courier_mint.jwt));
	case SBX_MSG_COURIER_REVOKE:
		return (take_secret("", in->m.courier_revoke.token));
	}
	sbx_fatal("a job of type %u", in->hdr.type);
}

/* --- what became of it ------------------------------------------------------------ */

/* Nothing of what an upstream said may carry the credential on. */
static const char *
reason(void)
{
	struct courier_end *e = &courier.end;

	if (canary_find(&secret.canary, e->reason, strlen(e->reason)))
		return ("the reason has the credential in it");
	return (e->reason);
}

bool
courier_begun(struct courier *c)
{
	return (sbx_wire_send(c->channel, SBX_PROC_COURIER,
	    SBX_MSG_COURIER_BEGUN, 0, &(struct sbx_courier_begun){ 0 }, NULL,
	    MSG_DONTWAIT) == 0 || courier_fail(c, "upstream", "the broker "
	    "does not listen"));
}

static int
tell_over(struct sbx_chan *chan, uint32_t id)
{
	const struct courier_end *e = &courier.end;
	struct sbx_courier_over m = { .error = courier_error(e->code),
		.status = e->status, .out_bytes = e->out_bytes,
		.in_bytes = e->in_bytes, .code = e->code == NULL ? "" : e->code,
		.reason = reason(), .next_page = e->next_page,
		.retry_s = e->retry_s };

	return (sbx_chan_send(chan, SBX_MSG_COURIER_OVER, id, &m, NULL,
	    SEND_TIMEOUT_MS));
}

static int
tell_minted(struct sbx_chan *chan, uint32_t id, uint64_t expires)
{
	const struct courier_end *e = &courier.end;
	struct sbx_courier_minted m = { .error = courier_error(e->code),
		.status = e->status,
		/* also one that is refused: it is to be revoked */
		.token = e->minted ? secret.token : "",
		.expires_wall_s = e->code == NULL ? expires : 0,
		.reason = e->code == NULL ? "" : reason() };

	return (sbx_chan_send(chan, SBX_MSG_COURIER_MINTED, id, &m, NULL,
	    SEND_TIMEOUT_MS));
}

static int
run(struct sbx_chan *chan)
{
	struct sbx_in *in = chan->in;
	uint16_t type = in->hdr.type;
	uint64_t expires = 0;
	bool ready = take_job(in);
	int r;

	courier.channel = chan->fd;
	if (type == SBX_MSG_COURIER_REST)
		courier.by_ns = sbx_mono_ns() + in->m.courier_rest.within_ms *
		    UINT64_C(1000000);
	if (type == SBX_MSG_COURIER_GIT)
		courier_git(&courier, in);
	else if (ready && type == SBX_MSG_COURIER_REST)
		courier_rest(&courier, in);
	else if (ready && type == SBX_MSG_COURIER_REVOKE)
		courier_revoke(&courier, in);
	else if (ready)
		courier_mint(&courier, in, &expires);
	r = type == SBX_MSG_COURIER_MINT ?
	    tell_minted(chan, in->hdr.id, expires) :
	    tell_over(chan, in->hdr.id);
	explicit_bzero(in->body, sizeof(in->body));
	explicit_bzero(&secret, sizeof(secret));
	return (r);
}

/* --- the start ---------------------------------------------------------------------- */

/* All couriers get the same file, whose offset they share. */
static int
read_roots(int fd, struct sbx_buf *b, struct sbx_err *err)
{
	char part[16384];
	ssize_t n;

	sbx_buf_init(b, HTTPS_ROOTS_MAX);
	while ((n = pread(fd, part, sizeof(part), (off_t)b->len)) > 0)
		if (sbx_buf_add(b, part, (size_t)n) < 0)
			return (sbx_err_set(err, SBX_E_LIMIT, "the roots that "
			    "hosts are verified with have more than %u bytes: "
			    "mend upstream_ca", HTTPS_ROOTS_MAX));
	return (n < 0 ? sbx_err_sys(err, "the roots") : 0);
}

static int
lock(struct sbx_chan *chan, struct sbx_err *err)
{
	/* of the received message, what a job has in it */
	if (mlock(&secret, sizeof(secret)) < 0 ||
	    mlock(chan->in->body, SBX_HDR_BYTES + 4096) < 0)
		return (sbx_err_sys(err, "%zu KiB of memory for credentials "
		    "cannot be locked: raise RLIMIT_MEMLOCK (LimitMEMLOCK=)",
		    sizeof(secret) / 1024));
	return (0);
}

static int
prepare(struct sbx_chan *chan, bool trap, uint32_t *ret_features,
    struct sbx_err *err)
{
	struct sbx_privs_args args = { .trap = trap };
	SBX_CLEANUP_BUF struct sbx_buf roots = { 0 };
	int r;

	r = read_roots(chan->in->fds[0], &roots, err);
	sbx_in_clear(chan->in);
	if (r == 0)
		r = https_init(roots.data, roots.len, err);
	if (r == 0)
		r = lock(chan, err);
	if (r == 0)
		r = sbx_privs_enter(SBX_PROC_COURIER, &args, ret_features, err);
	return (r);
}

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = { &start_list,
		&job_list, NULL };
	static const struct sbx_program how = {
		.name = "sbx-broker-courier", .list = &start_list,
	};
	struct sbx_courier_ready ready = { 0 };
	struct sbx_err err = { 0 };
	struct sbx_chan chan;
	uint32_t id;
	bool debug;

	sbx_accepts_print(argc, argv, NULL, lists);
	/* No proxy, key log or configuration that somebody else chose. */
	if (clearenv() != 0)
		return (2);
	/* https_step() ends what hangs by it */
	if (signal(SIGALRM, SIG_DFL) == SIG_ERR)
		return (2);
	debug = sbx_program_start(argc, argv, &how, &chan);
	id = chan.in->hdr.id;
	if (prepare(&chan, debug, &ready.features, &err) < 0)
		sbx_fatal("%s", err.msg);
	if (sbx_chan_send(&chan, SBX_MSG_COURIER_READY, id, &ready, NULL,
	    SEND_TIMEOUT_MS) < 0 || sbx_chan_recv(&chan, -1) < 0)
		return (3);		/* the broker is gone */
	if (!sbx_accepts(&job_list, chan.in->hdr.type))
		return (3);
	return (run(&chan) < 0 ? 3 : 0);
}
