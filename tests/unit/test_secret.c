/* common/base/secret.c, and that the wire forgets what it carried. */

#include "common/base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/proto/wire.h"
#include "config.h"
#include "tests/tap.h"

#define CANARY "ghs_CANARYcanaryCANARYcanaryCANARYcanary"

static void
test_basic(void)
{
	struct sbx_err err = { 0 };
	struct sbx_secret *s = sbx_secret_new(16, &err);

	if (!ok(s != NULL, "a secret is made: %s", err.msg))
		return;
	ok(sbx_secret_len(s) == 0 && *sbx_secret_text(s) == '\0',
	    "it is empty");
	ok(sbx_secret_add(s, " \tab c\r\n ", 9) == 0 && sbx_secret_len(s) == 9,
	    "bytes are added");
	ok(sbx_secret_add(s, "12345678", 8) == SBX_E_LIMIT &&
	    sbx_secret_len(s) == 9, "not past its room");
	sbx_secret_trim(s);
	ok(strcmp(sbx_secret_text(s), "ab c") == 0 && sbx_secret_len(s) == 4,
	    "blanks around it are dropped");
	ok(sbx_secret_same(s, "ab c", 4) && !sbx_secret_same(s, "ab d", 4) &&
	    !sbx_secret_same(s, "ab", 2), "it is compared");
	sbx_secret_clear(s);
	ok(sbx_secret_len(s) == 0 && memcmp(sbx_secret_text(s),
	    "\0\0\0\0\0\0\0\0\0", 9) == 0, "it is cleared");
	sbx_secret_trim(s);
	ok(sbx_secret_len(s) == 0, "an empty one has nothing to drop");
	sbx_secret_free(s);
	sbx_secret_free(NULL);
	ok(sbx_secret_new(0, &err) == NULL && err.code == SBX_E_RANGE &&
	    sbx_secret_new(SBX_SECRET_MAX + 1, &err) == NULL &&
	    err.code == SBX_E_RANGE, "not of any size");
}

static void
test_read(void)
{
	struct sbx_secret *s = sbx_secret_new(8, NULL);
	int fd[2];

	if (!ok(s != NULL && pipe2(fd, O_NONBLOCK) == 0, "prepare"))
		return;
	ok(sbx_secret_read(s, fd[0]) == SBX_E_AGAIN, "nothing to read yet");
	(void)!write(fd[1], "123456789", 9);
	ok(sbx_secret_read(s, fd[0]) == 8 && sbx_secret_same(s, "12345678", 8),
	    "what there is room for is read");
	ok(sbx_secret_read(s, fd[0]) == SBX_E_LIMIT, "and no more");
	sbx_secret_clear(s);
	(void)close(fd[1]);
	ok(sbx_secret_read(s, fd[0]) == 1 && sbx_secret_read(s, fd[0]) == 0,
	    "the rest, and the end");
	ok(sbx_secret_read(s, -1) == SBX_E_SYS, "what cannot be read");
	(void)close(fd[0]);
	sbx_secret_free(s);
}

/* What the kernel says of the mapping that p is in. */
static bool
flags_of(const void *p, char *ret_flags, size_t size)
{
	unsigned long from, to, at = (unsigned long)(uintptr_t)p;
	char line[512];
	bool in = false;
	FILE *f = fopen("/proc/self/smaps", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			in = from <= at && at < to;
		if (in && strncmp(line, "VmFlags:", 8) == 0) {
			line[strcspn(line, "\n")] = '\0';
			(void)snprintf(ret_flags, size, "%s", line);
			(void)fclose(f);
			return (true);
		}
	}
	if (f != NULL)
		(void)fclose(f);
	return (false);
}

static void
test_kernel(void)
{
	struct sbx_secret *s = sbx_secret_new(100, NULL);
	char flags[512] = "";
	int status = 0;
	pid_t pid;

	if (!ok(s != NULL && sbx_secret_add(s, CANARY, strlen(CANARY)) == 0 &&
	    flags_of(s, flags, sizeof(flags)), "the kernel shows it"))
		return;
#ifndef SBX_SANITIZERS /* their mlock(2) does nothing */
	ok(strstr(flags, " lo") != NULL, "it is locked: %s", flags);
#endif
	ok(strstr(flags, " dd") != NULL, "it is not dumped: %s", flags);
	ok(strstr(flags, " wf") != NULL, "it is wiped by fork: %s", flags);
	if ((pid = fork()) == 0) {
		bool gone = sbx_secret_len(s) == 0 &&
		    *sbx_secret_text(s) == '\0' &&
		    sbx_secret_add(s, "x", 1) == SBX_E_LIMIT;

		sbx_secret_free(s);
		_exit(gone ? 0 : 1);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	    "a child has an empty one without room");
	ok(sbx_secret_same(s, CANARY, strlen(CANARY)), "the parent still has it");
	sbx_secret_free(s);
}

#ifndef SBX_SANITIZERS
static void
test_no_lock(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit none = { 0, 0 };
		struct sbx_err err = { 0 };

		/* root is not held to it */
		if ((geteuid() == 0 && setresuid(65534, 65534, 65534) < 0) ||
		    setrlimit(RLIMIT_MEMLOCK, &none) < 0)
			_exit(2);
		_exit(sbx_secret_new(8, &err) == NULL &&
		    err.code == SBX_E_SYS &&
		    strstr(err.msg, "RLIMIT_MEMLOCK") != NULL ? 0 : 1);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	    "without locked memory there is none, and the mend is named");
}
#endif

/* The type alone says it, so nobody can forget. */
static void
test_wire(void)
{
	struct sbx_command_token m = { .token = CANARY, .reason = "" };
	SBX_CLEANUP(free) struct sbx_in *in = sbx_xcalloc(1, sizeof(*in));
	int pair[2];

	if (!ok(sbx_wire_pair(pair) == 0, "pair"))
		return;
	ok(sbx_wire_send(pair[0], SBX_PROC_COMMAND, SBX_MSG_COMMAND_TOKEN, 0,
	    &m, NULL, 0) == 0 &&
	    sbx_wire_recv(pair[1], SBX_PROC_BROKER, SBX_PROC_COMMAND, in,
	    0) == 0 && strcmp(in->m.command_token.token, CANARY) == 0,
	    "a token crosses");
	sbx_in_clear(in);
	ok(memmem(in->body, sizeof(in->body), CANARY, 8) == NULL,
	    "it is gone from the receiver's buffer");
	ok(sbx_wire_secret(SBX_MSG_COURIER_GIT) &&
	    !sbx_wire_secret(SBX_MSG_PING), "others are left alone");
	(void)close(pair[0]);
	(void)close(pair[1]);
}

int
main(void)
{
	tap_plan(0);
	test_basic();
	test_read();
	test_kernel();
#ifndef SBX_SANITIZERS
	test_no_lock();
#endif
	test_wire();
	return (tap_done());
}
