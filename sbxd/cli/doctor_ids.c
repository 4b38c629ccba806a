/* A range of ids for sandboxes, as the monitor takes it. */
#include "sbxd/cli/doctor.h"

#include "common/base/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
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

/* What newuidmap(1) or newgidmap(1) needs. */
static void
mend_helper(struct doctor_result *r, const char *call)
{
	const char *name = call + strlen("execvp(");

	if (r->error == ENOENT)
		doctor_mend(r, "apt-get install uidmap\n"
		    "# or: dnf install shadow-utils, apk add shadow-subids\n");
	else {
		doctor_detail(r, "it refused the range that %s gives",
		    SBX_SUBUID_FILE);
		doctor_mend(r, "chmod u+s $(command -v %.*s)\n# and no "
		    "no_new_privs around the suite\n",
		    (int)strcspn(name, ")"), name);
	}
}

/* As the monitor does it. */
static int
map_range(const struct doctor *d, struct doctor_result *r,
    const struct sbx_subids *s)
{
	int SBX_CLEANUP(fd) null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int SBX_CLEANUP(fd) fd = -1;
	struct sbx_err err = { 0 };
	const char *call;

	doctor_step(r, "unshare(CLONE_NEWUSER)");
	/* what a program says is what its status says, for a human */
	(void)dup2(null, STDERR_FILENO);
	if (sbx_userns_make(d->uid, d->gid, s, &fd, &call, &err) == 0)
		return (0);
	doctor_step(r, "%s", call);
	r->error = err.sys_errno;
	if (strncmp(call, "execvp(", strlen("execvp(")) == 0)
		mend_helper(r, call);
	return (-1);
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
