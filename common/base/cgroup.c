#include "common/base/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TEXT_MAX (256u << 10)	/* of a file of /proc or /sys */
#define BASE "sbx"		/* our group below a hierarchy's root */
#define DEPTH 4			/* of groups below ours that are removed */

const char *
sbx_cgroup_name(enum sbx_hierarchy h)
{
	static const char *const names[SBX_CGROUP_MAX] = {
		[SBX_CGROUP_V2] = "v2", [SBX_CGROUP_MEMORY] = "memory",
		[SBX_CGROUP_PIDS] = "pids", [SBX_CGROUP_CPU] = "cpu",
	};

	return (h < SBX_CGROUP_MAX ? names[h] : "?");
}

/* --- reading ------------------------------------------------------------- */

/* All of a small file.  0, SBX_E_SYS, SBX_E_LIMIT. */
static int
slurp(const char *path, struct sbx_buf *b)
{
	SBX_CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[4096];
	ssize_t n;

	if (fd == -1)
		return (SBX_E_SYS);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (sbx_buf_add(b, chunk, (size_t)n) != 0)
			return (SBX_E_LIMIT);
	/* an empty one, too, is a string */
	return (n < 0 ? SBX_E_SYS : sbx_buf_add(b, "", 0));
}

/* Is word one of the list, whose parts are separated by one of seps? */
static bool
has_word(const char *list, const char *seps, const char *word)
{
	size_t n, len = strlen(word);

	for (; *list != '\0'; list += n) {
		list += strspn(list, seps);
		n = strcspn(list, seps);
		if (n == len && memcmp(list, word, n) == 0)
			return (true);
	}
	return (false);
}

static bool
file_has(const char *dir, const char *name, const char *word)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char path[PATH_MAX];

	sbx_buf_init(&b, TEXT_MAX);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    sizeof(path) || slurp(path, &b) != 0 || b.data == NULL)
		return (false);
	return (has_word(b.data, " \n", word));
}

/* The controllers that a v2 group's file lists. */
static unsigned
listed(const char *dir, const char *file)
{
	unsigned bits = 0;

	for (int h = SBX_CGROUP_MEMORY; h < SBX_CGROUP_MAX; h++)
		if (file_has(dir, file, sbx_cgroup_name((enum sbx_hierarchy)h)))
			bits |= SBX_CGROUP_BIT(h);
	return (bits);
}

static bool
exists(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) <
	    sizeof(path) && access(path, F_OK) == 0);
}

/* May this user make groups in dir?  By the effective ids; the file system
 * may be read-only, too. */
static bool
may_make(const char *dir)
{
	return (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0);
}

/* And, as v2 wants it, move processes about below it? */
static bool
may_use(const char *dir)
{
	char path[PATH_MAX];

	return (may_make(dir) && (size_t)snprintf(path, sizeof(path),
	    "%s/cgroup.procs", dir) < sizeof(path) &&
	    faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0);
}

/* --- where the hierarchies are ------------------------------------------- */

/* One line of mountinfo: proc(5). */
struct mount_line {
	const char *root, *target, *type, *options;
};

/* Splits line in place. */
static bool
parse_mount(char *line, struct mount_line *ret_m)
{
	char *tail = strstr(line, " - "), *word;
	unsigned i;

	*ret_m = (struct mount_line){ NULL, NULL, NULL, NULL };
	if (tail == NULL)
		return (false);
	*tail = '\0';
	tail += strlen(" - ");
	for (i = 0; (word = strsep(&line, " ")) != NULL; i++) {
		if (i == 3)
			ret_m->root = word;
		else if (i == 4)
			ret_m->target = word;
	}
	ret_m->type = strsep(&tail, " ");
	(void)strsep(&tail, " ");	/* the source */
	ret_m->options = strsep(&tail, " ");
	return (ret_m->target != NULL && ret_m->type != NULL &&
	    ret_m->options != NULL);
}

/* The mount of hierarchy h: its point, and which group is its root. */
static bool
find_mount(enum sbx_hierarchy h, char mount[256], char root[PATH_MAX])
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	struct mount_line m;
	char *line, *rest;
	bool v2 = h == SBX_CGROUP_V2;

	sbx_buf_init(&b, TEXT_MAX);
	if (slurp("/proc/self/mountinfo", &b) != 0)
		return (false);
	for (rest = b.data; (line = strsep(&rest, "\n")) != NULL;) {
		if (!parse_mount(line, &m) ||
		    strcmp(m.type, v2 ? "cgroup2" : "cgroup") != 0 ||
		    (!v2 && !has_word(m.options, ",", sbx_cgroup_name(h))))
			continue;
		/* escaped blanks: not a place where anybody mounts it */
		if (strchr(m.target, '\\') == NULL &&
		    sbx_strlcpy(mount, m.target, 256) == 0 &&
		    sbx_strlcpy(root, m.root, PATH_MAX) == 0)
			return (true);
	}
	return (false);
}

/* Our own group in h, as a path below mount; false: it is not below. */
static bool
find_own(enum sbx_hierarchy h, const char *mount, const char *root,
    char own[PATH_MAX])
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	char *line, *rest, *names, *path;

	sbx_buf_init(&b, TEXT_MAX);
	if (slurp("/proc/self/cgroup", &b) != 0)
		return (false);
	for (rest = b.data; (line = strsep(&rest, "\n")) != NULL;) {
		if ((names = strchr(line, ':')) == NULL ||
		    (path = strchr(++names, ':')) == NULL)
			continue;
		*path++ = '\0';
		if (h == SBX_CGROUP_V2 ? *names != '\0' :
		    !has_word(names, ",", sbx_cgroup_name(h)))
			continue;
		if (strncmp(path, root, skip) != 0 ||
		    strstr(path, "/..") != NULL)
			return (false);
		path += skip;
		return ((size_t)snprintf(own, PATH_MAX, "%s%s", mount,
		    strcmp(path, "/") == 0 ? "" : path) < PATH_MAX);
	}
	return (false);
}

/* --- choosing ------------------------------------------------------------ */

/* The path of a's parent, not above mount; false: a is mount. */
static bool
parent(const char *mount, const char *a, char dst[PATH_MAX])
{
	const char *slash = strrchr(a, '/');

	if (strcmp(a, mount) == 0 || slash == NULL ||
	    (size_t)(slash - a) < strlen(mount))
		return (false);
	(void)snprintf(dst, PATH_MAX, "%.*s", (int)(slash - a), a);
	return (true);
}

/* systemd marks what it handed over: systemd.resource-control(5). */
static bool
delegated(const char *dir)
{
	static const char *const marks[] = { "trusted.delegate",
		"user.delegate" };
	char v;

	for (size_t i = 0; i < SBX_NELEM(marks); i++)
		if (getxattr(dir, marks[i], &v, 1) == 1 && v == '1')
			return (true);
	return (false);
}

static int
unusable(struct sbx_cgroup_place *p, const char *why)
{
	p->usable = false;
	(void)sbx_strlcpy(p->why, why, sizeof(p->why));
	return (0);
}

static int
choose(struct sbx_cgroup_place *p, const char *dir)
{
	p->usable = true;
	return (sbx_strlcpy(p->base, dir, sizeof(p->base)));
}

/*
 * A v2 group with processes of its own gives its children no controllers, so
 * an ancestor that gives them already is better than our own group.  Every
 * ancestor up to it must be ours, or nothing can be moved below it.
 */
static int
choose_v2_user(struct sbx_cgroup_place *p, const char *own)
{
	char dir[PATH_MAX], up[PATH_MAX];

	if (*own == '\0' || !may_use(own)) {
		(void)snprintf(p->mend, sizeof(p->mend),
		    "systemd-run --user --scope -p Delegate=yes -- "
		    "COMMAND\nor, in a unit of sbx: Delegate=yes");
		return (unusable(p, "the group that this was started in "
		    "belongs to somebody else"));
	}
	(void)sbx_strlcpy(dir, own, sizeof(dir));
	while (parent(p->mount, dir, up) && may_use(up)) {
		p->controllers = listed(up, "cgroup.subtree_control");
		if (p->controllers != 0)
			return (choose(p, up));
		(void)sbx_strlcpy(dir, up, sizeof(dir));
	}
	p->controllers = listed(own, "cgroup.controllers");
	p->empty = true;
	if (p->controllers != 0)
		return (choose(p, own));
	(void)snprintf(p->mend, sizeof(p->mend), "mkdir -p /etc/systemd/system/"
	    "user@.service.d\nprintf '[Service]\\nDelegate=cpu memory pids\\n' "
	    "> /etc/systemd/system/user@.service.d/sbx.conf\n"
	    "systemctl daemon-reload   # then log in anew");
	return (unusable(p, "its group has no controllers"));
}

static int
choose_v2_root(struct sbx_cgroup_place *p, const char *own)
{
	char dir[PATH_MAX];

	p->controllers = listed(p->mount, "cgroup.controllers");
	if (*own != '\0' && strcmp(own, p->mount) != 0 && delegated(own)) {
		p->controllers = listed(own, "cgroup.controllers");
		p->empty = true;
		return (choose(p, own));
	}
	/* only the true root has no type, and may have processes and children
	 * with controllers at once: a container's root may not */
	if (exists(p->mount, "cgroup.type") && p->controllers !=
	    listed(p->mount, "cgroup.subtree_control")) {
		(void)snprintf(p->mend, sizeof(p->mend), "cd %s && mkdir init\n"
		    "for p in $(cat cgroup.procs); do echo $p > "
		    "init/cgroup.procs; done\n"
		    "echo '+memory +pids +cpu' > cgroup.subtree_control",
		    p->mount);
		return (unusable(p, "the root group of this container has "
		    "processes and gives its children no controllers"));
	}
	p->make = true;
	(void)snprintf(dir, sizeof(dir), "%s/%s", p->mount, BASE);
	return (choose(p, dir));
}

static void
mend_v1(struct sbx_cgroup_place *p, uid_t uid)
{
	(void)snprintf(p->mend, sizeof(p->mend),
	    "mkdir -p %s/%s/uid-%u\nchown -R %u %s/%s/uid-%u", p->mount, BASE,
	    uid, uid, p->mount, BASE, uid);
}

static int
choose_v1(struct sbx_cgroup_place *p, const char *own, uid_t uid)
{
	char dir[PATH_MAX];

	if (uid == 0) {
		p->make = true;
		(void)snprintf(dir, sizeof(dir), "%s/%s", p->mount, BASE);
		return (choose(p, dir));
	}
	if (*own != '\0' && may_make(own))
		return (choose(p, own));
	(void)snprintf(dir, sizeof(dir), "%s/%s/uid-%u", p->mount, BASE, uid);
	if (may_make(dir))
		return (choose(p, dir));
	mend_v1(p, uid);
	return (unusable(p, "no group is this user's"));
}

/* The keyword `cgroup`: there, or not at all. */
static int
choose_wanted(struct sbx_cgroup_place *p, bool v2, const char *wanted)
{
	char dir[PATH_MAX];

	if (strstr(wanted, "/..") != NULL || (size_t)snprintf(dir, sizeof(dir),
	    "%s%s", p->mount, wanted) >= sizeof(dir))
		return (unusable(p, "the path of keyword cgroup is not one"));
	if (v2)
		p->controllers = listed(dir, "cgroup.controllers");
	if ((v2 ? may_use(dir) : may_make(dir)) && p->controllers != 0)
		return (choose(p, dir));
	(void)snprintf(p->mend, sizeof(p->mend), "mkdir -p %.250s\n"
	    "chown -R %u %.250s", dir, (unsigned)geteuid(), dir);
	return (unusable(p, "the group of keyword cgroup is missing, has no "
	    "controllers, or belongs to somebody else"));
}

/* Root needs a file system that can be written; what lies below may not
 * exist yet. */
static int
check_writable(struct sbx_cgroup_place *p)
{
	if (!p->usable || !p->make || may_make(p->mount))
		return (0);
	(void)snprintf(p->mend, sizeof(p->mend), "mount -o remount,rw %s",
	    p->mount);
	return (unusable(p, "its file system is read-only here"));
}

int
sbx_cgroup_find(enum sbx_hierarchy h, const char *wanted, uid_t uid,
    struct sbx_cgroup_place *ret_place)
{
	struct sbx_cgroup_place *p = ret_place;
	char root[PATH_MAX], own[PATH_MAX] = "", unused[256];
	bool v2 = h == SBX_CGROUP_V2;
	int r;

	memset(p, 0, sizeof(*p));
	if (!find_mount(h, p->mount, root))
		return (unusable(p, "it is not mounted"));
	p->controllers = v2 ? 0 : SBX_CGROUP_BIT(h);
	if (!find_own(h, p->mount, root, own))
		*own = '\0';
	if (*wanted != '\0')
		r = choose_wanted(p, v2, wanted);
	else if (!v2)
		r = choose_v1(p, own, uid);
	else
		r = uid == 0 ? choose_v2_root(p, own) : choose_v2_user(p, own);
	if (r != 0)
		return (SBX_E_SYS);
	/* a controller is in one hierarchy only; v1's were just not listed,
	 * but a mount that is gone may leave its name behind */
	for (int c = SBX_CGROUP_MEMORY; v2 && c < SBX_CGROUP_MAX; c++)
		if (find_mount((enum sbx_hierarchy)c, unused, root))
			p->controllers &= ~SBX_CGROUP_BIT(c);
	if (v2 && p->usable && p->controllers == 0)
		return (unusable(p, "it has none of memory, pids and cpu"));
	return (check_writable(p));
}

/* --- using --------------------------------------------------------------- */

int
sbx_cgroup_put(int dir, const char *path, const char *text)
{
	SBX_CLEANUP(fd) int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	ssize_t n = (ssize_t)strlen(text);

	/* one write is one command to the kernel */
	return (fd != -1 && write(fd, text, (size_t)n) == n ? 0 : SBX_E_SYS);
}

int
sbx_cgroup_get(int dir, const char *path, char *dst, size_t size)
{
	SBX_CLEANUP(fd) int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd == -1 ? -1 : read(fd, dst, size - 1);

	dst[n > 0 ? n : 0] = '\0';
	return (n < 0 ? SBX_E_SYS : 0);
}

/* One try, without waiting.  0 or SBX_E_SYS. */
static int
remove_once(int parent, const char *name, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL)
		sbx_close(&fd);	/* not readable: may be empty all the same */
	while (d != NULL && depth > 0 && (e = readdir(d)) != NULL)
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0)
			(void)remove_once(dirfd(d), e->d_name, depth - 1);
	if (d != NULL)
		(void)closedir(d);
	return (unlinkat(parent, name, AT_REMOVEDIR) == 0 ? 0 : SBX_E_SYS);
}

int
sbx_cgroup_remove(int parent, const char *name, unsigned wait_ms)
{
	uint64_t until = sbx_mono_ns() + wait_ms * UINT64_C(1000000);
	struct statfs fs;

	/* so that a wrong descriptor can remove no ordinary directory */
	if (strchr(name, '/') != NULL || *name == '.' || *name == '\0' ||
	    fstatfs(parent, &fs) == -1 || (fs.f_type != CGROUP_SUPER_MAGIC &&
	    fs.f_type != CGROUP2_SUPER_MAGIC))
		return (SBX_E_POLICY);
	while (remove_once(parent, name, DEPTH) != 0) {
		if (errno == ENOENT)
			return (SBX_E_NOENT);
		if (errno != EBUSY && errno != ENOTEMPTY)
			return (SBX_E_SYS);
		if (sbx_mono_ns() >= until)
			return (SBX_E_TIMEOUT);
		(void)usleep(2000);
	}
	return (0);
}

/* --- doctor -------------------------------------------------------------- */

/* The place that has the controller, in v1 or in v2. */
static const struct sbx_cgroup_place *
place_of(const struct sbx_cgroup_place *all, enum sbx_hierarchy h)
{
	if (all[SBX_CGROUP_V2].usable &&
	    (all[SBX_CGROUP_V2].controllers & SBX_CGROUP_BIT(h)))
		return (&all[SBX_CGROUP_V2]);
	/* one that is not mounted at all is missing in v2 */
	return (all[h].mount[0] != '\0' ? &all[h] : &all[SBX_CGROUP_V2]);
}

static void
probe_group(struct sbx_limit_probe *row, const struct sbx_cgroup_place *all,
    enum sbx_hierarchy h)
{
	const struct sbx_cgroup_place *p = place_of(all, h);
	bool v2 = p == &all[SBX_CGROUP_V2];

	row->enforced = p->usable && (p->controllers & SBX_CGROUP_BIT(h)) != 0;
	if (row->enforced) {
		(void)snprintf(row->how, sizeof(row->how),
		    "cgroup %s, %s below %.180s", v2 ? "v2" : "v1",
		    sbx_cgroup_name(h), p->base);
		return;
	}
	(void)snprintf(row->how, sizeof(row->how), "cgroup %s, %s: %.180s",
	    v2 ? "v2" : "v1", sbx_cgroup_name(h), p->usable ?
	    "this controller is not given to the group" : p->why);
	(void)sbx_strlcpy(row->mend, p->mend[0] != '\0' ? p->mend :
	    "boot a kernel with this controller (CONFIG_MEMCG, "
	    "CONFIG_CGROUP_PIDS, CONFIG_CFS_BANDWIDTH; not "
	    "cgroup_disable=)", sizeof(row->mend));
}

/* As memory, where the kernel counts swap at all. */
static void
probe_swap(struct sbx_limit_probe *row, const struct sbx_limit_probe *memory,
    const struct sbx_cgroup_place *all)
{
	const struct sbx_cgroup_place *p = place_of(all, SBX_CGROUP_MEMORY);

	memcpy(row->how, memory->how, sizeof(row->how));
	memcpy(row->mend, memory->mend, sizeof(row->mend));
	row->enforced = memory->enforced && (p == &all[SBX_CGROUP_V2] ?
	    access("/proc/swaps", F_OK) == 0 :
	    exists(p->mount, "memory.memsw.limit_in_bytes"));
	if (row->enforced || !memory->enforced)
		return;
	(void)sbx_strlcpy(row->how, "this kernel does not count swap",
	    sizeof(row->how));
	(void)sbx_strlcpy(row->mend, "boot with swapaccount=1, or: swapoff -a",
	    sizeof(row->mend));
}

int
sbx_limits_probe(const char *wanted, const char *storage, uid_t uid,
    struct sbx_limit_probe ret_rows[SBX_LIMIT_ROWS])
{
	static const char *const names[SBX_LIMIT_ROWS] = { "memory", "swap",
		"pids", "cpus", "disk" };
	struct sbx_cgroup_place all[SBX_CGROUP_MAX];
	struct sbx_limit_probe *disk = &ret_rows[SBX_ROW_DISK];
	int r;

	memset(ret_rows, 0, SBX_LIMIT_ROWS * sizeof(*ret_rows));
	for (int i = 0; i < SBX_LIMIT_ROWS; i++)
		ret_rows[i].name = names[i];
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		if ((r = sbx_cgroup_find((enum sbx_hierarchy)h, wanted, uid,
		    &all[h])) != 0)
			return (r);
	probe_group(&ret_rows[SBX_ROW_MEMORY], all, SBX_CGROUP_MEMORY);
	probe_group(&ret_rows[SBX_ROW_PIDS], all, SBX_CGROUP_PIDS);
	probe_group(&ret_rows[SBX_ROW_CPUS], all, SBX_CGROUP_CPU);
	probe_swap(&ret_rows[SBX_ROW_SWAP], &ret_rows[SBX_ROW_MEMORY], all);
	disk->enforced = strcmp(storage, "tmpfs") == 0;
	(void)sbx_strlcpy(disk->how, disk->enforced ? "a tmpfs a sandbox" :
	    "scratch lies on the disk, without a quota", sizeof(disk->how));
	if (!disk->enforced)
		(void)sbx_strlcpy(disk->mend, "in sbx.conf: scratch_storage "
		    "tmpfs", sizeof(disk->mend));
	return (0);
}

/* --- values -------------------------------------------------------------- */

int
sbx_parse_cpus(const char *s, uint32_t *ret_milli)
{
	uint64_t whole, part = 0, scale = 100;
	const char *dot = strchr(s, '.');
	char digits[8];
	size_t n = dot != NULL ? (size_t)(dot - s) : strlen(s);

	if (n == 0 || n >= sizeof(digits))
		return (SBX_E_SYNTAX);
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (sbx_parse_u64(digits, 0, 9999999, &whole) != 0 ||
	    (dot != NULL && dot[1] == '\0'))
		return (SBX_E_SYNTAX);
	for (dot = dot != NULL ? dot + 1 : ""; *dot != '\0'; dot++) {
		if (*dot < '0' || *dot > '9')
			return (SBX_E_SYNTAX);
		part += (uint64_t)(*dot - '0') * scale;
		scale /= 10;
	}
	whole = whole * 1000 + part;
	if (whole == 0 || whole > 4096 * 1000)
		return (SBX_E_RANGE);
	*ret_milli = (uint32_t)whole;
	return (0);
}

int
sbx_parse_size(const char *s, uint64_t *ret_bytes)
{
	static const char units[] = "kmgt";
	char digits[24];
	const char *unit = NULL;
	size_t n = strlen(s);
	uint64_t v;
	int r;

	if (n == 0 || n >= sizeof(digits))
		return (SBX_E_SYNTAX);
	memcpy(digits, s, n + 1);
	if (digits[n - 1] > '9') {
		unit = strchr(units, digits[n - 1] | 0x20);
		if (unit == NULL || n == 1)
			return (SBX_E_SYNTAX);
		digits[n - 1] = '\0';
	}
	if ((r = sbx_parse_u64(digits, 0, INT64_MAX, &v)) != 0)
		return (r);
	if (unit != NULL && __builtin_mul_overflow(v, UINT64_C(1) <<
	    (10 * (unsigned)(unit - units + 1)), &v))
		return (SBX_E_RANGE);
	if (v == 0 || v > INT64_MAX)
		return (SBX_E_RANGE);
	*ret_bytes = v;
	return (0);
}

const char *
sbx_format_size(char *dst, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "", "k", "m", "g", "t" };
	size_t u = 0;

	while (bytes != 0 && bytes % 1024 == 0 && u + 1 < SBX_NELEM(units)) {
		bytes /= 1024;
		u++;
	}
	(void)snprintf(dst, size, "%" PRIu64 "%s", bytes, units[u]);
	return (dst);
}
