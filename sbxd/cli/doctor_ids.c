/* A range of ids for sandboxes, as the monitor takes it. */
#include "sbxd/cli/doctor.h"

#include "common/base/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANGE 65536u
#define FIRST 100000u		/* SUB_UID_MIN of login.defs(5) */

/* Behind every range of the file; a line that is none counts for nothing. */
static uint64_t
end_of_ranges(const char *file)
{
	FILE *f = fopen(file, "re");
	uint64_t first, n, end = FIRST;
	char line[512];
	char *a, *b;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		a = strchr(line, ':');
		b = a == NULL ? NULL : strchr(a + 1, ':');
		if (b == NULL)
			continue;
		*b++ = '\0';
		if (sbx_parse_u64(a + 1, 0, UINT32_MAX, &first) == 0 &&
		    sbx_parse_u64(b, 0, UINT32_MAX, &n) == 0 &&
		    first + n > end)
			end = first + n;
	}
	if (f != NULL)
		(void)fclose(f);
	return (end);
}

static void
mend_range(struct doctor_result *r, const char *user)
{
	uint64_t first = end_of_ranges(SBX_SUBUID_FILE);
	uint64_t gids = end_of_ranges(SBX_SUBGID_FILE);

	first = gids > first ? gids : first;
	doctor_mend(r, "echo '%s:%u:%u' >>%s\n"
	    "echo '%s:%u:%u' >>%s\n", user, (unsigned)first, RANGE,
	    SBX_SUBUID_FILE, user, (unsigned)first, RANGE, SBX_SUBGID_FILE);
}

/* A child in a user namespace of the suite's user, until it is killed. */
static pid_t
make_namespace(const struct doctor *d, struct doctor_result *r)
{
	bool by_root = geteuid() == 0;
	int pipefd[2];
	char ok = 1;
	pid_t pid;

	doctor_step(r, "pipe2");
	if (doctor_need(r, pipe2(pipefd, O_CLOEXEC) == 0) != 0)
		return (-1);
	if ((pid = fork()) == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((by_root && (setresgid(d->gid, d->gid, d->gid) == -1 ||
		    setresuid(d->uid, d->uid, d->uid) == -1)) ||
		    unshare(CLONE_NEWUSER) == -1 ||
		    prctl(PR_SET_DUMPABLE, 1) == -1 ||
		    write(pipefd[1], &ok, 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	doctor_step(r, "unshare(CLONE_NEWUSER)");
	(void)close(pipefd[1]);
	if (pid == -1 || read(pipefd[0], &ok, 1) != 1)
		return (doctor_failed(r));
	return (pid);
}

static int
write_map(struct doctor_result *r, pid_t pid, const char *name, unsigned own,
    unsigned first, unsigned n)
{
	char SBX_CLEANUP(free) *path =
	    sbx_xasprintf("/proc/%d/%s", (int)pid, name);
	char SBX_CLEANUP(free) *text =
	    sbx_xasprintf("%u %u 1\n%u %u %u\n", own, own, first, first, n);
	int SBX_CLEANUP(fd) fd = open(path, O_WRONLY | O_CLOEXEC);

	doctor_step(r, "write(/proc/PID/%s)", name);
	return (doctor_need(r, fd != -1 &&
	    sbx_write_all(fd, text, strlen(text)) == 0));
}

/* Without root only newuidmap and newgidmap, set-user-ID, may write them. */
static int
run_helper(struct doctor_result *r, pid_t pid, const char *program,
    unsigned own, unsigned first, unsigned n)
{
	char text[4][16];
	char *argv[9] = { (char *)(uintptr_t)program, text[0], text[1],
		text[1], (char *)(uintptr_t)"1", text[2], text[2], text[3] };
	const unsigned numbers[] = { (unsigned)pid, own, first, n };
	int status = -1;
	pid_t helper;

	for (size_t i = 0; i < SBX_NELEM(numbers); i++)
		(void)snprintf(text[i], sizeof(text[i]), "%u", numbers[i]);
	doctor_step(r, "execvp(%s)", program);
	if ((helper = fork()) == 0) {
		/* what it says is what its status says, for a human */
		(void)close(STDERR_FILENO);
		(void)execvp(program, argv);
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (helper == -1 || waitpid(helper, &status, 0) != helper)
		return (doctor_failed(r));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		errno = ENOENT;
		doctor_mend(r, "apt-get install uidmap\n"
		    "# or: dnf install shadow-utils, apk add shadow-subids\n");
		return (doctor_failed(r));
	}
	if (status == 0)
		return (0);
	doctor_detail(r, "it refused the range that %s gives",
	    SBX_SUBUID_FILE);
	doctor_mend(r, "chmod u+s $(command -v %s)\n# and no no_new_privs "
	    "around the suite\n", program);
	return (doctor_fact(r, false));
}

static int
map_range(const struct doctor *d, struct doctor_result *r,
    const struct sbx_subids *s)
{
	pid_t pid = make_namespace(d, r);
	int res;

	if (pid == -1)
		return (-1);
	if (geteuid() == 0)
		res = write_map(r, pid, "gid_map", d->gid, s->gid, s->n) != 0 ?
		    -1 : write_map(r, pid, "uid_map", d->uid, s->uid, s->n);
	else
		res = run_helper(r, pid, "newgidmap", d->gid, s->gid, s->n) !=
		    0 ? -1 : run_helper(r, pid, "newuidmap", d->uid, s->uid,
		    s->n);
	(void)kill(pid, SIGKILL);
	return (res);
}

int
doctor_ids(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	const struct passwd *pw = getpwuid(d->uid);
	struct sbx_subids s;
	struct sbx_err err = { 0 };

	(void)c;
	doctor_step(r, "read(%s)", SBX_SUBUID_FILE);
	if (pw == NULL) {
		doctor_detail(r, "uid %u has no name", d->uid);
		return (doctor_fact(r, false));
	}
	if (sbx_subids(pw->pw_name, d->uid, &s, &err) != 0) {
		doctor_detail(r, "%s", err.msg);
		mend_range(r, pw->pw_name);
		return (doctor_fact(r, false));
	}
	doctor_detail(r, "%u ids from %u for %.64s", s.n, s.uid, pw->pw_name);
	return (map_range(d, r, &s));
}
