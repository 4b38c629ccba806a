/*
 * sbxd-judge: says which tree crossed, and what its tests ended with; or which
 * commit a publication makes, and whether it may.
 *
 * The monitor starts one for each verification and each publication.  It sees
 * bytes of one sandbox and reports of another, both hostile; what it says is what
 * the monitor grants by.  It opens nothing, has no network and keeps nothing.
 * Were it in the hands of the stream of files (stream.c, tree.c: nothing else of a
 * sandbox is read before the tree is named, once), it could name another tree, to
 * its own principal alone; in those of a report, lie about that tree alone.  Of a
 * publication, it could name another commit: the publisher, in which nothing of
 * that sandbox ran, must come to the same one.
 */
#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/proto/accepts.h"
#include "config.h"
#include "sbxd/judge/judge.h"
#include "sbxd/judge/publish.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHANNEL_FD 3
#define START_TIMEOUT_MS 10000
#define SEND_TIMEOUT_MS 10000
#define IDLE_MS (7200 * 1000)	/* tests of one runner may take half of it */

static const uint16_t types[] = { SBX_MSG_JUDGE_TREE, SBX_MSG_JUDGE_REPORT,
	SBX_MSG_JUDGE_PUBLISH, SBX_MSG_JUDGE_FILES, SBX_MSG_JUDGE_SIGNED, 0 };
static const struct sbx_accepts list = { SBX_PROC_JUDGE, SBX_PROC_MONITOR,
	types };

static void
hex(char *dst, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(dst + 2 * i, 3, "%02x", p[i]);
}

static int
on_tree(struct sbx_chan *chan, struct sbx_in *in)
{
	static struct tree t;
	char sha1[41] = "", sha256[65] = "";
	struct sbx_judge_treed m = { .sha1 = sha1, .sha256 = sha256 };
	int fd = sbx_steal_fd(&in->fds[0]), out = sbx_steal_fd(&in->fds[1]);
	struct id id;
	int r;

	r = stream_pass(&t, fd, out);
	if (r == 0)
		r = tree_id(&t, &id);
	if (r == 0)
		r = stream_end(&t, out);
	sbx_close(&fd);
	sbx_close(&out);
	if (r == 0) {
		hex(sha1, id.sha1, sizeof(id.sha1));
		hex(sha256, id.sha256, sizeof(id.sha256));
		m.files = (uint32_t)t.n;
		m.bytes = t.bytes;
		m.found = report_found(&t);
	}
	m.error = t.error;
	m.reason = t.reason;
	r = sbx_chan_send(chan, SBX_MSG_JUDGE_TREED, 0, &m, NULL,
	    SEND_TIMEOUT_MS);
	tree_clear(&t);
	return (r);
}

static int
on_report(struct sbx_chan *chan, struct sbx_in *in)
{
	struct sbx_judge_verdict m = { 0 };

	report_judge(&in->m.judge_report, in->fds[0], &m);
	return (sbx_chan_send(chan, SBX_MSG_JUDGE_VERDICT, 0, &m, NULL,
	    SEND_TIMEOUT_MS));
}

/* The base stays open for what is read of it while the files cross. */
static int
on_publish(struct pub *p, struct sbx_in *in)
{
	pub_begin(p, &in->m.judge_publish, in->fds);
	pub_scout(p);
	p->objects.fd = sbx_steal_fd(&in->fds[1]);
	return (0);
}

static struct sbx_strs
told(const struct told *t)
{
	return ((struct sbx_strs){ t->text.data, 4 * t->n,
	    (uint32_t)t->text.len });
}

static int
finish(struct sbx_chan *chan, struct pub *p, int out)
{
	char tree[65] = "", commit[65] = "";
	struct sbx_judged m = { .tree = tree, .commit = commit };
	int r;

	pub_end(p, out);
	if (p->step[0] == '\0') {
		oid_hex(p->format, &p->tree, tree);
		oid_hex(p->format, &p->commit, commit);
	}
	m.step = p->step;
	m.reason = p->reason;
	m.added = p->added;
	m.modified = p->modified;
	m.deleted = p->deleted;
	m.unchanged = p->unchanged;
	m.bytes = p->bytes;
	m.total = p->findings.total;
	m.findings = told(&p->findings);
	m.nwaived = p->passed.total;
	m.waived = told(&p->passed);
	r = sbx_chan_send(chan, SBX_MSG_JUDGED, 0, &m, NULL, SEND_TIMEOUT_MS);
	sbx_close(&p->objects.fd);
	pub_clear(p);
	return (r);
}

static int
on_files(struct sbx_chan *chan, struct sbx_in *in, struct pub *p)
{
	int SBX_CLEANUP(fd) fd = sbx_steal_fd(&in->fds[0]);
	int SBX_CLEANUP(fd) out = sbx_steal_fd(&in->fds[1]);

	pub_cross(p, fd, out);
	pub_build(p);
	pub_commit(p);
	if (p->step[0] != '\0' || (p->allow & SBX_PUBLISH_SIGN) == 0)
		return (finish(chan, p, out));
	p->out = sbx_steal_fd(&out);
	return (sbx_chan_send(chan, SBX_MSG_JUDGE_COMMIT, 0,
	    &(struct sbx_judge_commit){ .commit = p->text.data }, NULL,
	    SEND_TIMEOUT_MS));
}

static int
on_signed(struct sbx_chan *chan, struct sbx_in *in, struct pub *p)
{
	if (p->out == -1)
		return (SBX_E_STATE);
	pub_sign(p, in->m.judge_signed.signature);
	return (finish(chan, p, p->out));
}

/* Of standard input, which the cage takes away: bytes, that nothing looks at
 * before. */
static size_t
take_rules(char rules[SCAN_MAX_RULES_BYTES + 1])
{
	size_t n = 0;
	ssize_t got;

	while (n <= SCAN_MAX_RULES_BYTES &&
	    (got = read(0, rules + n, SCAN_MAX_RULES_BYTES + 1 - n)) > 0)
		n += (size_t)got;
	return (n);
}

/*
 * Not started by the monitor: are these rules?  0, or 1 and on standard output why
 * not.
 */
static int
check_rules(const char *rules, size_t n)
{
	struct sbx_privs_args args = { 0 };
	char why[SCAN_REASON] = "there are none";
	struct sbx_err err = { 0 };
	uint32_t features;

	if (sbx_privs_enter(SBX_PROC_JUDGE, &args, &features, &err) < 0)
		sbx_fatal("%s", err.msg);
	if (n > SCAN_MAX_RULES_BYTES)
		(void)sbx_strlcpy(why, "more than 1 MiB", sizeof(why));
	else if (n > 0 && scan_new(rules, n, why) != NULL)
		return (0);
	(void)sbx_write_all(1, why, strlen(why));
	(void)sbx_write_all(1, "\n", 1);
	return (1);
}

static void
enter(struct sbx_chan *chan, bool trap)
{
	struct sbx_privs_args args = { .trap = trap };
	struct sbx_hello hello = { .version = PACKAGE_VERSION,
		.pid = (uint32_t)getpid() };
	struct sbx_err err = { 0 };

	if (sbx_privs_enter(SBX_PROC_JUDGE, &args, &hello.features, &err) < 0)
		sbx_fatal("%s", err.msg);
	if (sbx_chan_send(chan, SBX_MSG_HELLO, 0, &hello, NULL,
	    SEND_TIMEOUT_MS) < 0)
		_exit(3);
}

/* A tree, then reports; or a publication, then its files, then their signature
 * where one is waited for, and no more. */
static bool
in_order(uint16_t type, uint16_t last)
{
	switch (type) {
	case SBX_MSG_JUDGE_REPORT:
		return (last == SBX_MSG_JUDGE_TREE ||
		    last == SBX_MSG_JUDGE_REPORT);
	case SBX_MSG_JUDGE_FILES:
		return (last == SBX_MSG_JUDGE_PUBLISH);
	case SBX_MSG_JUDGE_SIGNED:
		return (last == SBX_MSG_JUDGE_FILES);
	default:
		return (last == 0);
	}
}

static int
on_message(struct sbx_chan *chan, struct sbx_in *in)
{
	static struct pub p;

	switch (in->hdr.type) {
	case SBX_MSG_JUDGE_TREE:
		return (on_tree(chan, in));
	case SBX_MSG_JUDGE_REPORT:
		return (on_report(chan, in));
	case SBX_MSG_JUDGE_PUBLISH:
		return (on_publish(&p, in));
	case SBX_MSG_JUDGE_SIGNED:
		return (on_signed(chan, in, &p));
	default:
		return (on_files(chan, in, &p));
	}
}

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = { &list, NULL };
	bool debug = argc > 1 && strncmp(argv[1], "-d", 2) == 0;
	static char rules[SCAN_MAX_RULES_BYTES + 1];
	bool check = argc == 2 && strcmp(argv[1], "-R") == 0;
	uint16_t last = 0;
	struct sbx_chan chan;
	int timeout = START_TIMEOUT_MS, r = 0;
	size_t nrules = 0;

	sbx_accepts_print(argc, argv, NULL, lists);
	if (argc > 1 && !debug && !check)
		return (1);
	if (check)
		nrules = take_rules(rules);
	sbx_privs_early();
	sbx_log_init("sbxd-judge", debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	/* what it would open for its configuration it may not open later */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		sbx_fatal("libcrypto does not start");
	hasher_free(hasher_new());
	if (check)
		return (check_rules(rules, nrules));
	sbx_chan_init(&chan, CHANNEL_FD, SBX_PROC_JUDGE, SBX_PROC_MONITOR);
	enter(&chan, debug);
	for (; r == 0 && sbx_chan_recv(&chan, timeout) == 0; timeout =
	    IDLE_MS) {
		if (!sbx_accepts(&list, chan.in->hdr.type) ||
		    !in_order(chan.in->hdr.type, last))
			return (3);
		last = chan.in->hdr.type;
		r = on_message(&chan, chan.in);
	}
	return (r == 0 ? 0 : 3);
}
