/*
 * A disk that fails: the commit code of sbx-journald in this process, with
 * write(2) and fdatasync(2) that fail when told to.
 */

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/json.h"
#include "sbx-journald/journald.h"
#include "sbx-journald/reader.h"
#include "tests/tap.h"

static bool sync_fails;
static ssize_t write_most = -1;	/* of the next write to the journal */
static struct journald j;

/* In place of the C library's. */
int
fdatasync(int fd)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t
write(int fd, const void *p, size_t n)
{
	size_t most = (size_t)write_most;

	if (write_most < 0 || fd != j.store.fd)
		return syscall(SYS_write, fd, p, n);
	if (most == 0) {
		errno = EIO;
		return -1;
	}
	write_most = 0;
	return syscall(SYS_write, fd, p, n < most ? n : most);
}

static void
on_end(struct sbx_peer *p, int error)
{
	(void)p;
	(void)error;
	j.writers[WRITER_MONITOR].peer = NULL;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Open the journal in dir; the other end of the channel is *ret_fd. */
static bool
begin(const char *dir, int *ret_fd)
{
	struct sbx_err err = { 0 };
	struct sbx_peer *p;
	struct tail tail;
	int pair[2];

	memset(&j, 0, sizeof(j));
	if (chain_maker_init(&j.maker) < 0 || sbx_wire_pair(pair) < 0)
		return false;
	outlet_init(&j.outlet, false);
	if (store_open(&j.store, open(dir, O_RDONLY | O_DIRECTORY), 1 << 20,
	    1 << 16, &j.maker, &tail, &err) < 0) {
		printf("# %s\n", err.msg);
		return false;
	}
	j.chain = tail.chain;
	j.end_line = tail.open_line;
	memcpy(j.torn, tail.torn, sizeof(j.torn));
	j.ntorn = tail.ntorn;
	j.open_why = "started";
	j.base = event_base_new();
	if (j.base == NULL || event_base_priority_init(j.base, 3) < 0 ||
	    commit_init(&j, &err) < 0)
		return false;
	p = sbx_peer_new(j.base, pair[0], &journald_from_monitor, &j, on_end);
	*ret_fd = pair[1];
	return writer_init(&j.writers[WRITER_MONITOR], &j, p) == 0;
}

static void
end(int fd)
{
	close(fd);
	commit_finish(&j);
	sbx_peer_free(j.writers[WRITER_MONITOR].peer);
	writer_clear(&j.writers[WRITER_MONITOR]);
	commit_clear(&j);
	event_base_free(j.base);
	outlet_clear(&j.outlet);
	store_clear(&j.store);
	chain_maker_clear(&j.maker);
}

/* Append one durable record; the number it is answered with. */
static uint64_t
append(int fd, uint32_t id)
{
	struct sbx_journal_append a = {
		.flags = SBX_JOURNAL_DURABLE, .op = "exec", .phase = "start",
		.principal = "", .container = "", .run = "",
	};
	static struct sbx_in in;
	int i;

	if (sbx_wire_send(fd, SBX_PROC_MONITOR, SBX_MSG_JOURNAL_APPEND, id,
	    &a, NULL, 0) < 0)
		return UINT64_MAX;
	for (i = 0; i < 100; i++) {
		(void)event_base_loop(j.base, EVLOOP_NONBLOCK);
		while (sbx_wire_recv(fd, SBX_PROC_MONITOR, SBX_PROC_JOURNALD,
		    &in, MSG_DONTWAIT) == 0)
			if (in.hdr.type == SBX_MSG_JOURNAL_DONE &&
			    in.hdr.id == id)
				return in.m.journal_done.seq;
	}
	return UINT64_MAX;
}

/* Run the loop until the journal is able again, at most 5 s. */
static bool
wait_able(void)
{
	uint64_t until = sbx_mono_ns() + UINT64_C(5000000000);

	while (!j.able && sbx_mono_ns() < until)
		(void)event_base_loop(j.base, EVLOOP_ONCE);
	return j.able;
}

static bool
verifies(const char *dir)
{
	struct journal_verdict v;
	struct sbx_err err = { 0 };
	int r = journal_verify(dir, 0, NULL, &v, &err);

	if (r < 0)
		printf("# %s\n", err.msg);
	return r == 0;
}

static unsigned
count_op(const char *dir, const char *op)
{
	struct journal_reader *r;
	struct journal_record rec;
	struct journal_line l;
	struct sbx_err err;
	unsigned n = 0;

	if (journal_open(dir, &r, &err) < 0)
		return 0;
	while (journal_next(r, &l, &err) == 0)
		if (journal_parse(l.text, l.len, &rec) == 0) {
			n += strcmp(rec.op, op) == 0;
			journal_record_clear(&rec);
		}
	journal_close(r);
	return n;
}

static void
test_sync(const char *dir)
{
	int fd;

	if (!ok(begin(dir, &fd), "begins"))
		return;
	ok(append(fd, 1) == 2, "a record is committed");
	sync_fails = true;
	ok(append(fd, 2) == 0, "after a failed sync it is refused");
	ok(append(fd, 3) == 0 && !j.able, "and so is the next");
	sync_fails = false;
	ok(append(fd, 4) == 0, "also when the disk is well, until a new file");
	ok(wait_able() && j.store.number == 2, "it goes on in a new file");
	ok(append(fd, 5) > 2, "where records are committed");
	end(fd);
	ok(verifies(dir), "the chain goes over both");
	ok(count_op(dir, "lost") == 1, "what was refused is counted");
}

/* The write ends after `most` bytes, for each length of one record. */
static void
test_write(const char *dir)
{
	unsigned most, bad = 0, cuts = 0;
	uint64_t before, seq;
	int fd;

	if (!ok(begin(dir, &fd), "begins again"))
		return;
	for (most = 0; most < 300; most += 60, cuts++) {
		before = j.chain.seq;
		write_most = most;
		seq = append(fd, 10 + most);
		write_most = -1;
		bad += seq != 0 || j.able || j.ntorn != (most > 0);
		bad += !wait_able() || j.ntorn != 0;
		/* `torn' unless nothing was written, and `lost' */
		bad += append(fd, 11 + most) != before + 2 + (most > 0);
	}
	end(fd);
	ok(bad == 0, "a write that fails in the middle is refused, ended and "
	    "accounted for (%u cuts)", cuts);
	ok(verifies(dir) && count_op(dir, "torn") == cuts - 1,
	    "and the chain is good");
}

int
main(void)
{
	char dir[] = "/tmp/test_journal_eio.XXXXXX";

	tap_plan(0);
	if (mkdtemp(dir) == NULL)
		return 2;
	test_sync(dir);
	test_write(dir);
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return tap_done();
}
