/* common/proto/wire.c: one check at a time, and nothing leaks. */

#include "common/proto/wire.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/proto/raw.h"
#include "tests/proto/sample.h"
#include "tests/tap.h"

static struct sbx_in in;
static int ch[2];
static int null_fds[SBX_MSG_FDS_MAX];	/* descriptor 0, n times */

static enum sbx_proc
one_of(uint32_t mask)
{
	return ((enum sbx_proc)__builtin_ctz(mask));
}

static bool
is_message(unsigned type)
{
	return (type < SBX_MSG_MAX && sbx_msg_specs[type].name != NULL);
}

static int
recv_as(unsigned type)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[type];

	return (sbx_wire_recv(ch[1], one_of(s->to), one_of(s->from), &in,
	    MSG_DONTWAIT));
}

/* The sample as a record, with what the caller wants of it. */
static int
inject(unsigned type, enum sample how, int nfds)
{
	SBX_CLEANUP(free) uint8_t *body = NULL;
	SBX_CLEANUP(free) uint8_t *rec = NULL;
	size_t len;

	body = sample_body(type, how, -1, NULL, 0, &len);
	rec = sample_record(type, 7, body, len, &len);
	if (!raw_send(ch[0], rec, len, nfds))
		return (SBX_E_SYS);
	return (recv_as(type));
}

static bool
sends(unsigned type, enum sample how)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[type];
	union sbx_any_msg m;
	bool good;
	int i;

	sample_fill(type, how, &m);
	good = sbx_wire_send(ch[0], one_of(s->from), (uint16_t)type, 0xfffffffe,
	    &m, null_fds, MSG_DONTWAIT) == 0 && recv_as(type) == 0 &&
	    in.hdr.type == type && in.hdr.id == 0xfffffffe &&
	    in.nfds == s->fds && sample_equal(type, &m, &in.m);
	for (i = 0; i < in.nfds; i++)
		good = good && in.fds[i] > 2 &&
		    (fcntl(in.fds[i], F_GETFD) & FD_CLOEXEC) != 0;
	sbx_in_clear(&in);
	return (good && in.nfds == 0);
}

#define F_NONE
#define F_U8(n)
#define F_U32(n)
#define F_U64(n)
#define F_I32(n)
#define F_STR(n, max) || strcmp(#n, "token") == 0 || strcmp(#n, "jwt") == 0
#define F_STRS(n, count, max)
#define MSG(NAME, name, num, from, to, nfds, max, fields) \
	if (type == (num)) \
		return (false fields);
static bool
names_a_secret(unsigned type)
{
#include "common/proto/msgs.def"
	return (false);
}
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* What carries a credential is known for it, and wiped when it was handled. */
static bool
is_wiped(unsigned type)
{
	bool secret = sbx_wire_secret((uint16_t)type), left = false;

	if (inject(type, SAMPLE_SOME, sbx_msg_specs[type].fds) != 0)
		return (false);
	sbx_in_clear(&in);
	for (size_t i = 0; i < sizeof(in.body); i++)
		left |= in.body[i] != 0;
	return (secret == names_a_secret(type) && (!secret || !left));
}

/* Every process that may not send it, and every one that may not get it. */
static bool
masks_hold(unsigned type)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[type];
	SBX_CLEANUP(free) uint8_t *body = NULL;
	SBX_CLEANUP(free) uint8_t *rec = NULL;
	enum sbx_proc p;
	bool good = true;
	size_t len;
	int r;

	body = sample_body(type, SAMPLE_SOME, -1, NULL, 0, &len);
	rec = sample_record(type, 7, body, len, &len);
	for (p = 0; p < SBX_PROC_MAX; p++) {
		good = good && raw_send(ch[0], rec, len, s->fds);
		r = sbx_wire_recv(ch[1], one_of(s->to), p, &in, MSG_DONTWAIT);
		good = good && in.hdr.type == type && r ==
		    ((s->from & (1u << p)) != 0 ? 0 : SBX_E_SENDER);
		sbx_in_clear(&in);
		good = good && raw_send(ch[0], rec, len, s->fds);
		r = sbx_wire_recv(ch[1], p, one_of(s->from), &in, MSG_DONTWAIT);
		good = good && r ==
		    ((s->to & (1u << p)) != 0 ? 0 : SBX_E_RECEIVER);
		sbx_in_clear(&in);
	}
	return (good);
}

static bool
fds_are_exact(unsigned type)
{
	static const int counts[] = { 0, 1, 2, 3, 4, 5, 8, RAW_FDS_MAX };
	int before = open_fds(), want = sbx_msg_specs[type].fds, r;
	bool good = true;
	size_t i;

	for (i = 0; i < SBX_NELEM(counts); i++) {
		r = inject(type, SAMPLE_SOME, counts[i]);
		good = good && r == (counts[i] == want ? 0 : SBX_E_FDS);
		sbx_in_clear(&in);
		good = good && open_fds() == before;
	}
	return (good);
}

static bool
length_is_checked(unsigned type)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[type];
	SBX_CLEANUP(free) uint8_t *body = NULL;
	SBX_CLEANUP(free) uint8_t *rec = NULL;
	size_t len, n;
	bool good;
	int before = open_fds();

	/* the body that the message would have, but too long by one */
	n = (size_t)s->max_bytes + 1;
	body = sbx_xcalloc(1, n);
	rec = sample_record(type, 7, body, n, &len);
	good = raw_send(ch[0], rec, len, s->fds) &&
	    recv_as(type) == SBX_E_LENGTH;
	/* and the header says that it is not: only the kernel tells, of the
	 * largest one */
	rec[1] = (uint8_t)(s->max_bytes >> 16);
	rec[2] = (uint8_t)(s->max_bytes >> 8);
	rec[3] = (uint8_t)s->max_bytes;
	good = good && raw_send(ch[0], rec, len, s->fds) &&
	    recv_as(type) == SBX_E_LENGTH;
	/* header says one more, one less, far more than came */
	free(rec);
	free(body);
	body = sample_body(type, SAMPLE_SOME, -1, NULL, 0, &n);
	rec = sample_record(type, 7, body, n, &len);
	rec[3]++;
	good = good && raw_send(ch[0], rec, len, s->fds) &&
	    recv_as(type) == SBX_E_LENGTH;
	rec[3] = (uint8_t)(rec[3] - 2);
	good = good && raw_send(ch[0], rec, len, s->fds) &&
	    recv_as(type) == SBX_E_LENGTH;
	rec[0] = 0xff;
	good = good && raw_send(ch[0], rec, len, s->fds) &&
	    recv_as(type) == SBX_E_LENGTH;
	return (good && open_fds() == before);
}

/* Trailing and missing bytes with a header that agrees. */
static bool
decode_is_checked(unsigned type)
{
	const struct sbx_msg_spec *s = &sbx_msg_specs[type];
	SBX_CLEANUP(free) uint8_t *body = NULL;
	SBX_CLEANUP(free) uint8_t *longer = NULL;
	SBX_CLEANUP(free) uint8_t *rec = NULL;
	size_t len, n;
	int before = open_fds();
	bool good = true;

	body = sample_body(type, SAMPLE_SOME, -1, NULL, 0, &n);
	longer = sbx_xcalloc(1, n + 1);
	memcpy(longer, body, n);
	if (n + 1 <= s->max_bytes) {
		rec = sample_record(type, 7, longer, n + 1, &len);
		good = raw_send(ch[0], rec, len, s->fds) &&
		    recv_as(type) == SBX_E_DECODE && in.nfds == 0;
		free(rec);
		rec = NULL;
	}
	if (n > 0) {
		rec = sample_record(type, 7, longer, n - 1, &len);
		good = good && raw_send(ch[0], rec, len, s->fds) &&
		    recv_as(type) == SBX_E_DECODE;
	}
	return (good && open_fds() == before);
}

/* A record with everything wrong, mended from the first check to the last. */
static void
test_order(void)
{
	uint8_t *rec = sbx_xcalloc(1, 2048);
	size_t len = SBX_HDR_BYTES + 17;	/* WORKER_FORK has at most 8 */

#define TRY(self, remote, nfds)                                               \
	(raw_send(ch[0], rec, len, nfds) ? sbx_wire_recv(ch[1],               \
	    SBX_PROC_##self, SBX_PROC_##remote, &in, MSG_DONTWAIT) : 1)
	rec[5] = 255;
	ok(TRY(FRONT, FRONT, 2) == SBX_E_VERSION, "first the version");
	rec[7] = SBX_PROTO_VERSION;
	ok(TRY(FRONT, FRONT, 2) == SBX_E_TYPE && in.hdr.type == 255,
	    "then the type");
	rec[5] = SBX_MSG_WORKER_FORK;
	ok(TRY(FRONT, FRONT, 2) == SBX_E_SENDER, "then the sender");
	ok(TRY(FRONT, MONITOR, 2) == SBX_E_RECEIVER, "then the receiver");
	ok(TRY(ZYGOTE, MONITOR, 2) == SBX_E_LENGTH, "then the length");
	rec[3] = 17;
	ok(TRY(ZYGOTE, MONITOR, 2) == SBX_E_LENGTH, "also past its maximum");
	rec[3] = 5;
	len = SBX_HDR_BYTES + 5;
	ok(TRY(ZYGOTE, MONITOR, 2) == SBX_E_FDS, "then the descriptors");
	ok(TRY(ZYGOTE, MONITOR, 1) == SBX_E_DECODE, "then the fields");
	rec[3] = 4;
	len = SBX_HDR_BYTES + 4;
	ok(TRY(ZYGOTE, MONITOR, 1) == 0, "then it is a message");
	sbx_in_clear(&in);
#undef TRY
	free(rec);
}

static void
test_headers(void)
{
	uint8_t *rec = sbx_xcalloc(1, SBX_HDR_BYTES + SBX_MSG_BYTES_MAX + 9);
	int before = open_fds(), r;
	bool good = true;
	unsigned t;
	size_t n;

	for (n = 1; n < SBX_HDR_BYTES; n++)
		good = good && raw_send(ch[0], rec, n, 1) &&
		    recv_as(SBX_MSG_PING) == SBX_E_LENGTH && in.hdr.type == 0;
	ok(good && open_fds() == before, "records shorter than a header");
	ok(raw_send(ch[0], rec, 0, 1) && recv_as(SBX_MSG_PING) == SBX_E_CLOSED
	    && open_fds() == before, "an empty record is an end");
	good = true;
	for (n = 0; n <= UINT16_MAX; n++) {
		if (n == SBX_PROTO_VERSION)
			continue;
		rec[6] = (uint8_t)(n >> 8);
		rec[7] = (uint8_t)n;
		rec[5] = SBX_MSG_PING;
		good = good && raw_send(ch[0], rec, SBX_HDR_BYTES, 0) &&
		    recv_as(SBX_MSG_PING) == SBX_E_VERSION;
	}
	ok(good, "every other version");
	good = true;
	rec[6] = 0;
	rec[7] = SBX_PROTO_VERSION;
	for (t = 0; t <= UINT16_MAX; t++) {
		if (is_message(t))
			continue;
		rec[4] = (uint8_t)(t >> 8);
		rec[5] = (uint8_t)t;
		good = good && raw_send(ch[0], rec, SBX_HDR_BYTES, 0) &&
		    sbx_wire_recv(ch[1], SBX_PROC_MONITOR, SBX_PROC_FRONT,
		    &in, MSG_DONTWAIT) == SBX_E_TYPE && in.hdr.type == t;
	}
	ok(good, "every unknown type");
	rec[4] = 0;
	rec[5] = SBX_MSG_EXEC_START;
	rec[1] = 0x02;
	rec[3] = 1;	/* 0x20001 - one more than what fits */
	n = SBX_HDR_BYTES + SBX_MSG_BYTES_MAX + 1;
	r = raw_send(ch[0], rec, n, 1) ? recv_as(SBX_MSG_EXEC_START) : 1;
	ok(r == SBX_E_LENGTH && open_fds() == before,
	    "a record longer than any: %s", sbx_error_name(r));
	ok(recv_as(SBX_MSG_PING) == SBX_E_AGAIN, "nothing is left over");
	free(rec);
}

static void
test_send_errors(void)
{
	struct sbx_worker_fork f = { .worker = 1 };
	int bad = -1, sent = 0, r;
	static char text[600];
	struct sbx_log l = { .text = text };

	ok(sbx_wire_send(ch[0], SBX_PROC_MONITOR, 255, 1, &f, NULL, 0) ==
	    SBX_E_TYPE && sbx_wire_send(ch[0], SBX_PROC_MONITOR, 9999, 1, &f,
	    NULL, 0) == SBX_E_TYPE, "an unknown type is not sent");
	ok(sbx_wire_send(ch[0], SBX_PROC_FRONT, SBX_MSG_WORKER_FORK, 1, &f,
	    null_fds, 0) == SBX_E_SENDER, "nor what is not ours to send");
	ok(sbx_wire_send(ch[0], SBX_PROC_MONITOR, SBX_MSG_WORKER_FORK, 1, &f,
	    NULL, 0) == SBX_E_FDS && sbx_wire_send(ch[0], SBX_PROC_MONITOR,
	    SBX_MSG_WORKER_FORK, 1, &f, &bad, 0) == SBX_E_FDS,
	    "nor without its descriptor");
	bad = 1000;
	ok(sbx_wire_send(ch[0], SBX_PROC_MONITOR, SBX_MSG_WORKER_FORK, 1, &f,
	    &bad, 0) == SBX_E_SYS && errno == EBADF,
	    "nor with one that is not open");
	memset(text, 'x', sizeof(text) - 1);
	ok(sbx_wire_send(ch[0], SBX_PROC_FRONT, SBX_MSG_LOG, 1, &l, NULL, 0)
	    == SBX_E_LIMIT, "nor past its limits");
	ok(recv_as(SBX_MSG_PING) == SBX_E_AGAIN, "so nothing came");
	l.text = "y";
	while ((r = sbx_wire_send(ch[0], SBX_PROC_FRONT, SBX_MSG_LOG, 1, &l,
	    NULL, MSG_DONTWAIT)) == 0 && sent < 1000000)
		sent++;
	ok(r == SBX_E_AGAIN && sent > 100, "a full socket says so (after %d)",
	    sent);
	while (recv_as(SBX_MSG_LOG) == 0)
		sent--;
	ok(sent == 0, "and everything arrives");
}

/* Two records of the largest size fit, for everybody. */
static void
test_largest(void)
{
	union sbx_any_msg m;
	int i, r[2];

	sample_fill(SBX_MSG_EXEC_START, SAMPLE_FULL, &m);
	for (i = 0; i < 2; i++)
		r[i] = sbx_wire_send(ch[0], SBX_PROC_WORKER,
		    SBX_MSG_EXEC_START, 1, &m, null_fds, MSG_DONTWAIT);
	ok(r[0] == 0 && r[1] == 0, "two of the largest records wait: %s %s",
	    sbx_error_name(r[0]), sbx_error_name(r[1]));
	for (i = 0; i < 2; i++) {
		r[i] = recv_as(SBX_MSG_EXEC_START);
		r[i] += sample_equal(SBX_MSG_EXEC_START, &m, &in.m) ? 0 : 1;
		sbx_in_clear(&in);
	}
	ok(r[0] == 0 && r[1] == 0, "and arrive whole");
}

/* --- the blocking client --------------------------------------------------- */

static void
chans(struct sbx_chan *worker, struct sbx_chan *monitor)
{
	int fd[2];

	if (sbx_wire_pair(fd) < 0)
		abort();
	sbx_chan_init(worker, fd[0], SBX_PROC_WORKER, SBX_PROC_MONITOR);
	sbx_chan_init(monitor, fd[1], SBX_PROC_MONITOR, SBX_PROC_WORKER);
}

static void
test_chan(void)
{
	struct sbx_chan w, m;
	struct sbx_exec_wait ask = { .run = "0123456789abcdef" };
	struct sbx_sb_end end = { .count = 3 };
	uint64_t began;
	int r;

	chans(&w, &m);
	began = sbx_mono_ns();
	r = sbx_chan_recv(&w, 50);
	began = (sbx_mono_ns() - began) / 1000000;
	ok(r == SBX_E_TIMEOUT && began >= 50 && began < 2000,
	    "a receive ends at its deadline");
	ok(sbx_chan_recv(&w, 0) == SBX_E_TIMEOUT, "also at once");
	ok(sbx_chan_send(&w, SBX_MSG_PING, 1, NULL, NULL, 0) == SBX_E_SENDER &&
	    sbx_chan_send(&m, SBX_MSG_PING, 1, NULL, NULL, 0) ==
	    SBX_E_RECEIVER, "masks hold for the sender too");

	(void)sbx_chan_send(&m, SBX_MSG_SB_END, 1, &end, NULL, 100);
	ok(sbx_chan_call(&w, SBX_MSG_EXEC_WAIT, &ask, NULL, 1000) == 0 &&
	    w.in->hdr.type == SBX_MSG_SB_END && w.in->m.sb_end.count == 3,
	    "a call gets the answer with its id");
	ok(sbx_chan_recv(&m, 100) == 0 && m.in->hdr.id == 1 &&
	    strcmp(m.in->m.exec_wait.run, ask.run) == 0,
	    "the other side got the question");
	(void)sbx_chan_send(&m, SBX_MSG_SB_END, 1, &end, NULL, 100);
	ok(sbx_chan_call(&w, SBX_MSG_EXEC_WAIT, &ask, NULL, 1000) ==
	    SBX_E_STATE, "an answer to something else is refused");
	ok(sbx_chan_call(&w, SBX_MSG_EXEC_WAIT, &ask, NULL, 30) ==
	    SBX_E_TIMEOUT, "no answer is a timeout");
	w.next_id = UINT32_MAX;
	(void)sbx_chan_send(&m, SBX_MSG_SB_END, 1, &end, NULL, 100);
	ok(sbx_chan_call(&w, SBX_MSG_EXEC_WAIT, &ask, NULL, 1000) == 0,
	    "ids are never 0");
	sbx_chan_clear(&m);
	ok(sbx_chan_send(&w, SBX_MSG_EXEC_WAIT, 1, &ask, NULL, 100) ==
	    SBX_E_CLOSED && sbx_chan_recv(&w, -1) == SBX_E_CLOSED,
	    "the end of the other side is seen");
	sbx_chan_clear(&w);
	sbx_chan_clear(&w);
	ok(w.fd == -1, "clearing twice is harmless");
}

static void
test_chan_full(void)
{
	struct sbx_chan w, m;
	struct sbx_exec_wait ask = { .run = "r" };
	int before = open_fds(), i, n = 0, status;
	pid_t pid;

	chans(&w, &m);
	while (sbx_chan_send(&w, SBX_MSG_EXEC_WAIT, 1, &ask, NULL, 0) == 0)
		n++;
	ok(sbx_chan_send(&w, SBX_MSG_EXEC_WAIT, 1, &ask, NULL, 30) ==
	    SBX_E_TIMEOUT, "a send ends at its deadline");
	pid = fork();
	if (pid == 0) {
		/* the reader: slow at first, then all */
		(void)usleep(50000);
		for (i = 0; i < n + 1; i++)
			if (sbx_chan_recv(&m, 5000) != 0)
				_exit(1);
		_exit(0);
	}
	ok(sbx_chan_send(&w, SBX_MSG_EXEC_WAIT, 1, &ask, NULL, 5000) == 0,
	    "a send waits for room");
	ok(waitpid(pid, &status, 0) == pid && status == 0,
	    "and nothing is lost");
	sbx_chan_clear(&w);
	sbx_chan_clear(&m);
	ok(open_fds() == before, "channels leave nothing open");
}

/* What a process sent before it died counts, even when it left our own
 * messages unread: the kernel then reports a reset first. */
static void
test_last_words(void)
{
	struct sbx_chan w, m;
	struct sbx_sb_end end = { .count = 1 };
	struct sbx_work_result res = { .kind = 0 };

	chans(&w, &m);
	(void)sbx_chan_send(&m, SBX_MSG_SB_END, 1, &end, NULL, 100);
	(void)sbx_chan_send(&w, SBX_MSG_WORK_RESULT, 9, &res, null_fds, 100);
	sbx_chan_clear(&w);
	ok(sbx_chan_recv(&m, 1000) == 0 && m.in->hdr.id == 9 &&
	    m.in->nfds == 1, "the last message of a dead peer arrives");
	ok(sbx_chan_recv(&m, 1000) == SBX_E_CLOSED, "then its end");
	sbx_chan_clear(&m);
}

int
main(void)
{
	int before = open_fds();
	unsigned t;

	tap_plan(0);
	if (!ok(sbx_wire_pair(ch) == 0, "a pair"))
		return (tap_done());
	ok((fcntl(ch[0], F_GETFD) & FD_CLOEXEC) != 0 &&
	    (fcntl(ch[1], F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
	for (t = 0; t < SBX_MSG_MAX; t++) {
		const char *name = sbx_msg_specs[t].name;

		if (!is_message(t))
			continue;
		ok(sends(t, SAMPLE_EMPTY) && sends(t, SAMPLE_SOME) &&
		    sends(t, SAMPLE_FULL), "%s arrives as sent", name);
		ok(masks_hold(t), "%s: sender and receiver", name);
		ok(fds_are_exact(t), "%s: number of descriptors", name);
		ok(is_wiped(t), "%s: wiped if it is a secret", name);
		ok(length_is_checked(t), "%s: length", name);
		ok(decode_is_checked(t), "%s: fields", name);
	}
	test_order();
	test_headers();
	test_send_errors();
	test_largest();
	close(ch[0]);
	ok(recv_as(SBX_MSG_PING) == SBX_E_CLOSED &&
	    recv_as(SBX_MSG_PING) == SBX_E_CLOSED, "a closed peer");
	close(ch[1]);
	ok(recv_as(SBX_MSG_PING) == SBX_E_SYS, "no descriptor at all");
	test_chan();
	test_chan_full();
	test_last_words();
	ok(open_fds() == before, "no descriptor leaked");
	return (tap_done());
}
