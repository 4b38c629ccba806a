/* What the machine has: directories, space, users, programs, images. */
#include "sbxd/cli/doctor.h"

#include "common/base/cgroup.h"
#include "common/base/image.h"
#include "common/base/rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#define SPACE_LEAST (64ull << 20)	/* the journal's reserve, and some */
#define SPACE_GOOD (2ull << 30)		/* run_total_bytes' default */
#define INODES_LEAST 2000		/* a suite and a sandbox, empty */
#define INODES_GOOD 200000		/* SBX_COPY_MAX_FILES */

int
doctor_config(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	doctor_step(r, "parse(%.96s/sbx.conf)", d->cli->paths.etc);
	if (d->conf_err.code == 0)
		return (0);
	doctor_detail(r, "%s", d->conf_err.msg);
	r->error = d->conf_err.sys_errno;
	return (-1);
}

/* --- directories --------------------------------------------------------------- */

/* Why there is no directory of ours. */
static int
dir_result(const struct doctor_dir *dir, const char *path,
    struct doctor_result *r)
{
	if (dir->call[0] == '\0')
		return (0);
	doctor_step(r, "%s in %.100s", dir->call, dir->path);
	r->error = dir->error;
	if (dir->error == EROFS)
		doctor_mend(r, "mount -o remount,rw %s\n", dir->path);
	else if (dir->error == ENOSPC || dir->error == EDQUOT)
		doctor_mend(r, "sbx clean\ndf -h %s\n", dir->path);
	else
		doctor_mend(r, "mkdir -p -m 0700 %s\nchown %u %s\n", path,
		    geteuid(), path);
	doctor_mend(r, "# or have it elsewhere: SBX_ROOT=/another/directory\n");
	return (-1);
}

int
doctor_state(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	doctor_detail(r, "%.380s", d->cli->paths.state);
	return (dir_result(&d->state, d->cli->paths.state, r));
}

/* Another who owns it, or may write there, could put anything there. */
int
doctor_owner(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	const char *path = d->cli->paths.state;
	struct stat st;

	(void)c;
	doctor_step(r, "stat(%.100s)", path);
	if (stat(path, &st) == -1)
		return (doctor_need(r, errno == ENOENT));
	doctor_detail(r, "uid %u, mode %04o", st.st_uid, st.st_mode & 07777);
	if (st.st_uid != geteuid())
		doctor_mend(r, "chown %u %s\n", geteuid(), path);
	if ((st.st_mode & 022) != 0)
		doctor_mend(r, "chmod go-w %s\n", path);
	return (doctor_fact(r, r->mend[0] == '\0'));
}

/* A file of a source, as the broker takes one.  false: r says what is wrong.
 * key: it is the one that signs. */
static bool
credential_ok(struct doctor_result *r, const char *file, uid_t owner, bool key)
{
	struct stat st;

	doctor_step(r, "lstat(%.100s)", file);
	if (lstat(file, &st) == -1) {
		(void)doctor_failed(r);
		if (key)
			doctor_mend(r, "openssl genpkey -algorithm ed25519 "
			    "-out %s\n", file);
		else
			doctor_mend(r, "sbx register app\n"
			    "# or: sbx register token\n");
		return (false);
	}
	doctor_detail(r, "%.200s: uid %u, mode %04o", file, st.st_uid,
	    st.st_mode & 07777);
	if (!S_ISREG(st.st_mode))
		doctor_mend(r, "# name the file itself, in sbx.conf\n");
	else if (st.st_uid != owner)
		doctor_mend(r, "chown %u %s\n", owner, file);
	if (S_ISREG(st.st_mode) && (st.st_mode & 077) != 0)
		doctor_mend(r, "chmod 0600 %s\n", file);
	return (doctor_fact(r, r->mend[0] == '\0') == 0);
}

int
doctor_credentials(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	const struct sbx_conf_list *const lists[] = { &d->conf.github_app,
		&d->conf.github_token_file };
	const struct passwd *pw = geteuid() == 0 ? getpwnam("sbx-broker") :
	    NULL;
	uid_t owner = pw != NULL ? pw->pw_uid : geteuid();
	const char *v, *end, *file, *signer = d->conf.publish_signing_key;
	unsigned n = signer[0] != '\0';

	(void)c;
	if (*signer == '/' && !credential_ok(r, signer, owner, true))
		return (-1);
	for (size_t i = 0; i < SBX_NELEM(lists); i++) {
		v = lists[i]->data;
		for (end = v + lists[i]->len; v < end; v += strlen(v) + 1) {
			file = strrchr(v, ' ') != NULL ? strrchr(v, ' ') + 1 :
			    v;
			/* else it is systemd's to bring */
			if (*file == '/' && !credential_ok(r, file, owner,
			    false))
				return (-1);
			n++;
		}
	}
	doctor_detail(r, "%u files are named in sbx.conf", n);
	return (0);
}

/* The judge reads them, as it does when something is published. */
int
doctor_rules(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	const char *path = d->conf.secret_rules;
	int SBX_CLEANUP(fd) fd = -1;
	char judge[PATH_MAX + 16];
	struct sbx_err err = { 0 };

	(void)c;
	if (path[0] == '\0') {
		doctor_detail(r, "those that are built in");
		return (0);
	}
	doctor_step(r, "sbxd-judge -R <%.100s", path);
	(void)snprintf(judge, sizeof(judge), "%s/sbxd-judge", d->cli->bindir);
	if ((fd = sbx_rules_open(path, &err)) != -1 &&
	    sbx_rules_check(access(judge, X_OK) == 0 ? d->cli->bindir :
	    SBX_PKGLIBEXECDIR, path, fd, &err) == 0)
		return (0);
	doctor_detail(r, "%s", err.msg);
	return (doctor_fact(r, false));
}

int
doctor_lockdown(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	doctor_step(r, "stat(%.100s/lockdown)", d->cli->paths.state);
	if (cli_locked(d->cli))
		doctor_detail(r, "one is on");
	return (doctor_fact(r, !cli_locked(d->cli)));
}

int
doctor_space(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct statvfs v;
	uint64_t bytes;

	(void)c;
	doctor_step(r, "fstatvfs(%.100s)", d->cli->paths.state);
	if (doctor_need(r, fstatvfs(d->state.fd, &v) == 0) != 0)
		return (-1);
	bytes = (uint64_t)v.f_bavail * v.f_frsize;
	/* some filesystems do not count files, and say 0 of 0 */
	doctor_detail(r, "%" PRIu64 " MiB free, %" PRIu64 " files%s",
	    bytes >> 20, (uint64_t)v.f_favail,
	    v.f_files == 0 ? " (not counted)" : "");
	r->minor = bytes >= SPACE_LEAST && (v.f_files == 0 ||
	    v.f_favail >= INODES_LEAST);
	return (doctor_fact(r, bytes >= SPACE_GOOD && (v.f_files == 0 ||
	    v.f_favail >= INODES_GOOD)));
}

static int
bind_socket(const struct doctor *d, struct doctor_result *r)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int SBX_CLEANUP(fd) fd = -1;

	/* by a short name: its own path is longer than the suite's */
	doctor_step(r, "fchdir");
	if (doctor_need(r, fchdir(d->run.fd) == 0) != 0)
		return (-1);
	doctor_step(r, "socket(AF_UNIX)");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (doctor_need(r, fd != -1) != 0)
		return (-1);
	(void)sbx_strlcpy(sun.sun_path, "s", sizeof(sun.sun_path));
	doctor_step(r, "bind in %.100s", d->cli->paths.run);
	return (doctor_need(r, bind(fd, (struct sockaddr *)&sun,
	    sizeof(sun)) == 0 && listen(fd, 1) == 0));
}

int
doctor_run(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	const char *run = d->cli->paths.run;
	size_t len = strlen(run) + strlen("/suite-31/mcp.sock");
	struct sockaddr_un sun;

	(void)c;
	doctor_detail(r, "%.380s", run);
	if (len >= sizeof(sun.sun_path)) {
		doctor_step(r, "bind");
		errno = ENAMETOOLONG;
		doctor_detail(r, "the path of a suite's socket would have %zu "
		    "bytes, of at most %zu", len, sizeof(sun.sun_path) - 1);
		return (doctor_failed(r));
	}
	if (dir_result(&d->run, run, r) != 0)
		return (-1);
	return (bind_socket(d, r));
}

/*
 * On a file without a name: nothing stays, however this ends.
 */
int
doctor_append_only(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	int SBX_CLEANUP(fd) fd = -1;
	int flags;

	(void)c;
	doctor_step(r, "open(O_TMPFILE)");
	fd = openat(d->state.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (doctor_need(r, fd != -1) != 0)
		return (-1);
	doctor_step(r, "ioctl(FS_IOC_GETFLAGS)");
	if (doctor_need(r, ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) != 0)
		return (-1);
	flags |= FS_APPEND_FL;
	doctor_step(r, "ioctl(FS_IOC_SETFLAGS, FS_APPEND_FL)");
	return (doctor_need(r, ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0));
}

/* --- users and programs ---------------------------------------------------------- */

int
doctor_user(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)d;
	doctor_step(r, "getpwnam(%s)", c->text);
	if (getpwnam(c->text) != NULL)
		return (0);
	doctor_mend(r, "useradd --system --user-group --no-create-home "
	    "--shell /usr/sbin/nologin %s\n", c->text);
	return (doctor_fact(r, false));
}

/* It was done before this is called. */
int
doctor_become(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	(void)c;
	doctor_step(r, "geteuid");
	return (doctor_fact(r, geteuid() == d->uid && getegid() == d->gid));
}

/* Beside this program in a build directory, else where it was installed. */
int
doctor_suite_programs(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	static const char *const names[] = { "sbxd", "sbxd-starter",
		"sbxd-engine", "sbxd-recorder", "sbxd-front", "sbxd-worker",
		"sbxd-copyin", "sbxd-judge", "sbx-journald", "sbx-broker",
		"sbx-broker-courier", "sbx-broker-command", "sbx-proxy",
		"sbx-init" };
	char path[PATH_MAX + 32];

	(void)c;
	for (size_t i = 0; i < SBX_NELEM(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", d->cli->bindir,
		    names[i]);
		doctor_step(r, "access(%.100s, X_OK)", path);
		if (access(path, X_OK) == 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s",
		    SBX_PKGLIBEXECDIR, names[i]);
		if (doctor_need(r, access(path, X_OK) == 0) != 0)
			return (-1);
	}
	return (0);
}

/* The image `host` shows a sandbox this machine's own programs. */
int
doctor_program(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	char path[64];

	(void)d;
	(void)snprintf(path, sizeof(path), "/usr/bin/%s", c->text);
	doctor_step(r, "access(%s, X_OK)", path);
	if (access(path, X_OK) == 0)
		return (0);
	doctor_mend(r, "apt-get install %s\n"
	    "# or: dnf install %s, zypper install %s, apk add %s, pacman -S %s"
	    "\n", c->text, c->text, c->text, c->text, c->text);
	return (doctor_failed(r));
}

/* --- images, limits, leftovers ---------------------------------------------------- */

static void
list_images(int store, struct doctor_result *r)
{
	struct sbx_image_names names;
	size_t n = strlen("host");

	doctor_detail(r, "host");
	if (sbx_image_names_read(store, &names, NULL) == 0)
		for (size_t i = 0; i < names.n && n < sizeof(r->detail); i++)
			n += (size_t)snprintf(r->detail + n,
			    sizeof(r->detail) - n, " %s", names.v[i].name);
	sbx_image_names_clear(&names);
}

int
doctor_images(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	char path[PATH_MAX + 16], hex[SBX_IMAGE_HEX + 1];
	int SBX_CLEANUP(fd) store = -1;
	struct sbx_err err = { 0 };

	(void)c;
	(void)snprintf(path, sizeof(path), "%s/images", d->cli->paths.state);
	doctor_step(r, "open(%.100s)", path);
	store = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (store == -1 && errno != ENOENT)
		return (doctor_failed(r));
	doctor_detail(r, "host");
	if (store != -1)
		list_images(store, r);
	/* auto takes host where the store has nothing that fits */
	if (strcmp(d->conf.default_image, SBX_IMAGE_HOST) == 0 ||
	    strcmp(d->conf.default_image, SBX_IMAGE_AUTO) == 0)
		return (0);
	doctor_step(r, "resolve(%.64s)", d->conf.default_image);
	if (store != -1 && sbx_image_resolve(store, d->conf.default_image, hex,
	    &err) == 0)
		return (0);
	doctor_detail(r, "default_image %.64s: %s", d->conf.default_image,
	    store == -1 ? "the store is empty" : err.msg);
	return (doctor_fact(r, false));
}

/*
 * The file is the user's, who has to be able to change it later: root does it
 * as that user.  A keyword may stand once, so one that is there goes.
 */
static void
mend_disk(const struct doctor *d, struct doctor_result *r)
{
	const char *etc = d->cli->paths.etc;
	const struct passwd *pw = geteuid() == 0 ? NULL : getpwuid(geteuid());
	char as[64] = "", path[PATH_MAX + 16];

	if (pw != NULL)
		(void)snprintf(as, sizeof(as), "runuser -u %.40s -- ",
		    pw->pw_name);
	(void)snprintf(path, sizeof(path), "%s/sbx.conf", etc);
	if (access(path, F_OK) == 0)
		doctor_mend(r, "%ssed -i '/^[[:blank:]]*scratch_storage/d' "
		    "%s\n", as, path);
	else
		doctor_mend(r, "%smkdir -p %s\n", as, etc);
	doctor_mend(r, "echo 'scratch_storage tmpfs' | %stee -a %s\n", as,
	    path);
}

/* One limit of a sandbox, `arg` says which. */
int
doctor_limit(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	struct sbx_limit_probe rows[SBX_LIMIT_ROWS];

	doctor_step(r, "sbx_limits_probe");
	if (doctor_need(r, sbx_limits_probe(d->conf.cgroup,
	    d->conf.scratch_storage, geteuid(), rows) == 0) != 0)
		return (-1);
	doctor_step(r, "limit of %s", rows[c->arg].name);
	doctor_detail(r, "%s", rows[c->arg].how);
	if (rows[c->arg].enforced)
		return (0);
	if (c->arg == SBX_ROW_DISK)
		mend_disk(d, r);
	else
		doctor_mend(r, "%s\n", rows[c->arg].mend);
	/* then no sandbox is made without it */
	if (d->conf.require_limits)
		doctor_mend(r, "# or in sbx.conf: require_limits no\n");
	r->grave = d->conf.require_limits;
	return (doctor_fact(r, false));
}

/* Does a suite that is dead have files in this part of its slot? */
static bool
has_files(int slot, const char *part)
{
	int fd = openat(slot, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool some = false;

	if (d == NULL) {
		sbx_close(&fd);
		return (false);
	}
	while (!some && (e = readdir(d)) != NULL)
		some = e->d_name[0] != '.';
	(void)closedir(d);
	return (some);
}

/*
 * Looked up, not tried: a suite that starts in this moment must not find its
 * slot taken.
 */
static bool
is_locked(int slot)
{
	char line[256], inode[32];
	struct stat st;
	bool found = false;
	FILE *f;

	if (fstatat(slot, "lock", &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (false);
	(void)snprintf(inode, sizeof(inode), ":%ju ", (uintmax_t)st.st_ino);
	if ((f = fopen("/proc/locks", "re")) == NULL)
		return (true);	/* nothing is said of what is not known */
	while (!found && fgets(line, sizeof(line), f) != NULL)
		found = strstr(line, " FLOCK ") != NULL &&
		    strstr(line, inode) != NULL;
	(void)fclose(f);
	return (found);
}

int
doctor_leftovers(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *r)
{
	char path[PATH_MAX + 32], which[128] = "";
	size_t n = 0;

	(void)c;
	doctor_step(r, "open(%.100s/suite-N)", d->cli->paths.state);
	for (int i = 0; i < SBX_MAX_SLOTS; i++) {
		int SBX_CLEANUP(fd) slot = -1;

		(void)snprintf(path, sizeof(path), "%s/suite-%d",
		    d->cli->paths.state, i);
		slot = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
		    O_CLOEXEC);
		if (slot != -1 && !is_locked(slot) &&
		    (has_files(slot, "scratch") || has_files(slot, "runs"))) {
			n = strlen(which);
			(void)snprintf(which + n, sizeof(which) - n, "%s%d",
			    n > 0 ? ", " : "", i);
		}
	}
	if (which[0] == '\0')
		return (0);
	doctor_detail(r, "files of dead suites: %s", which);
	return (doctor_fact(r, false));
}
