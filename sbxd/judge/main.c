/*
 * sbxd-judge: says which tree crossed, and what its tests ended with.
 *
 * The monitor starts one for each verification.  It sees bytes of one sandbox
 * and reports of another, both hostile; what it says is what the monitor
 * grants by.  It opens nothing, has no network and keeps nothing.  Were it in
 * the hands of the stream of files (stream.c, tree.c: nothing else of a sandbox
 * is read before the tree is named, once), it could name another tree, to its
 * own principal alone; in those of a report, lie about that tree alone.
 */
#include "common/base/log.h"
#include "common/privs/privs.h"
#include "common/proto/accepts.h"
#include "config.h"
#include "sbxd/judge/judge.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHANNEL_FD 3
#define START_TIMEOUT_MS 10000
#define SEND_TIMEOUT_MS 10000
#define IDLE_MS (7200 * 1000)	/* tests of one runner may take half of it */

static const uint16_t types[] = { SBX_MSG_JUDGE_TREE, SBX_MSG_JUDGE_REPORT, 0 };
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

int
main(int argc, char **argv)
{
	static const struct sbx_accepts *const lists[] = { &list, NULL };
	bool debug = argc > 1 && strncmp(argv[1], "-d", 2) == 0, seen = false;
	struct sbx_chan chan;
	int timeout = START_TIMEOUT_MS, r = 0;

	sbx_accepts_print(argc, argv, NULL, lists);
	if (argc > 1 && !debug)
		return (1);
	sbx_privs_early();
	sbx_log_init("sbxd-judge", debug ? SBX_LOG_DEBUG : SBX_LOG_INFO);
	/* what it would open for its configuration it may not open later */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		sbx_fatal("libcrypto does not start");
	hasher_free(hasher_new());
	sbx_chan_init(&chan, CHANNEL_FD, SBX_PROC_JUDGE, SBX_PROC_MONITOR);
	enter(&chan, debug);
	for (; r == 0 && sbx_chan_recv(&chan, timeout) == 0; timeout =
	    IDLE_MS) {
		if (!sbx_accepts(&list, chan.in->hdr.type) ||
		    (chan.in->hdr.type == SBX_MSG_JUDGE_TREE) == seen)
			return (3);	/* one tree, first */
		seen = true;
		r = chan.in->hdr.type == SBX_MSG_JUDGE_TREE ?
		    on_tree(&chan, chan.in) : on_report(&chan, chan.in);
	}
	return (r == 0 ? 0 : 3);
}
