/*
 * Image `host`: this machine's /usr and what belongs to it, read-only, and of
 * /etc the little that programs need.  Nothing of /home, /root, /var, /run.
 *
 * The skeleton is the lowest layer of every sandbox's overlay: directories to
 * mount on, links as the host has them, and generated files.
 */
#include "common/base/egress_env.h"
#include "sbxd/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_MAX (4u << 20)

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
	{ "dev", 0755 }, { "etc", 0755 }, { "home", 0755 },
	{ "home/sandbox", 0755 }, { "mnt", 0755 }, { "opt", 0755 },
	{ "proc", 0555 }, { "root", 0700 }, { "run", 0755 },
	{ SBX_TRUST_DIR, 0755 }, { "sys", 0555 },
	{ "tmp", 01777 }, { "usr", 0755 }, { "var", 0755 },
	{ "var/lib", 0755 }, { "var/tmp", 01777 },
};
static const struct {
	const char *path, *text;
} files[] = {
	{ "etc/passwd",
	    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
	    "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n"
	    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n" },
	/* mounted over: they name the sandbox */
	{ "etc/hosts", "" }, { "etc/hostname", "" },
	{ "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n" },
	{ "etc/resolv.conf", "" },
	{ "etc/shells", "/bin/sh\n/bin/bash\n" },
	{ "etc/profile", "export PATH HOME LANG\n"
	    "if [ -r /" SBX_TRUST_DIR "/" SBX_TRUST_ENV " ]; then\n"
	    "\t. /" SBX_TRUST_DIR "/" SBX_TRUST_ENV "\nfi\n" },
};
/* Small files of the host that are copied, where they exist. */
static const char *const copied[] = { "etc/ld.so.cache", "etc/ld.so.conf",
	"etc/services", "etc/protocols", "etc/mime.types", "etc/magic",
	"etc/debian_version", "etc/locale.alias", "etc/ssl/openssl.cnf",
	"etc/ca-certificates.conf", "etc/os-release", "etc/localtime",
	"etc/timezone", "etc/inputrc", "etc/rpc", "etc/gai.conf",
	"etc/machine-info" };
/* Directories of the host that are bound read-only; a '*' ends a prefix. */
static const char *const bound[] = { "usr", "etc/alternatives",
	"etc/ssl/certs", "etc/perl", "etc/python3*", "etc/java-*",
	"etc/terminfo", "etc/fonts", "etc/ld.so.conf.d", "etc/vim",
	"etc/crypto-policies", "etc/pki/tls/certs",
	"etc/pki/ca-trust/extracted" };
/* On a merged host these are links into /usr, else directories. */
static const char *const tops[] = { "bin", "sbin", "lib", "lib32", "lib64",
	"libx32" };

/* mkdir -p below skel for all but the last component. */
static int
make_parents(int skel, const char *path)
{
	char part[PATH_MAX];

	for (const char *p = path; (p = strchr(p, '/')) != NULL; p++) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(p - path),
		    path);
		if (mkdirat(skel, part, 0755) == -1 && errno != EEXIST)
			return (-1);
	}
	return (0);
}

static int
put_file(int skel, const char *path, const void *text, size_t n)
{
	int SBX_CLEANUP(fd) fd = -1;

	if (make_parents(skel, path) == -1)
		return (-1);
	fd = openat(skel, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd == -1 || fchmod(fd, 0644) == -1)
		return (-1);
	return (sbx_write_all(fd, text, n) == 0 ? 0 : -1);
}

/* A host file that is not there or not readable is not there inside. */
static int
copy_file(int skel, const char *path)
{
	int SBX_CLEANUP(fd) fd = -1;
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	char source[PATH_MAX], chunk[16384];
	ssize_t n;

	sbx_buf_init(&b, COPY_MAX);
	(void)snprintf(source, sizeof(source), "/%s", path);
	fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd == -1)
		return (0);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (sbx_buf_add(&b, chunk, (size_t)n) != 0)
			return (0);
	return (put_file(skel, path, b.data, b.len));
}

static int
add_bind(struct binds *im, int skel, const char *path)
{
	char source[64];
	struct stat st;

	(void)snprintf(source, sizeof(source), "/%s", path);
	if (lstat(source, &st) == -1 || !S_ISDIR(st.st_mode))
		return (0);
	if (im->n == MAX_BINDS ||
	    sbx_strlcpy(im->v[im->n].target, path, 64) != 0) {
		errno = ENAMETOOLONG;
		return (-1);
	}
	(void)sbx_strlcpy(im->v[im->n++].source, source, 64);
	if (make_parents(skel, path) == -1 ||
	    (mkdirat(skel, path, 0755) == -1 && errno != EEXIST))
		return (-1);
	return (0);
}

/* All of /etc that begin with the prefix before '*'. */
static int
add_matches(struct binds *im, int skel, const char *pattern)
{
	size_t n = strlen(pattern) - 1 - strlen("etc/");
	char path[64];
	struct dirent *e;
	DIR *d = opendir("/etc");
	int r = 0;

	while (d != NULL && r == 0 && (e = readdir(d)) != NULL)
		if (strncmp(e->d_name, pattern + strlen("etc/"), n) == 0 &&
		    snprintf(path, sizeof(path), "etc/%s", e->d_name) <
		    (int)sizeof(path))
			r = add_bind(im, skel, path);
	if (d != NULL)
		(void)closedir(d);
	return (r);
}

static int
add_top(struct binds *im, int skel, const char *name)
{
	char source[16], target[PATH_MAX];
	ssize_t n;

	(void)snprintf(source, sizeof(source), "/%s", name);
	n = readlink(source, target, sizeof(target) - 1);
	if (n == -1)
		return (add_bind(im, skel, name));
	target[n] = '\0';
	return (symlinkat(target, skel, name));
}

static int
fill(struct binds *im, int skel)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < SBX_NELEM(dirs); i++)
		if (mkdirat(skel, dirs[i].path, 0700) == -1 ||
		    fchmodat(skel, dirs[i].path, dirs[i].mode, 0) == -1)
			r = -1;
	for (size_t i = 0; r == 0 && i < SBX_NELEM(files); i++)
		r = put_file(skel, files[i].path, files[i].text,
		    strlen(files[i].text));
	for (size_t i = 0; r == 0 && i < SBX_NELEM(copied); i++)
		r = copy_file(skel, copied[i]);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(tops); i++)
		r = add_top(im, skel, tops[i]);
	for (size_t i = 0; r == 0 && i < SBX_NELEM(bound); i++)
		r = strchr(bound[i], '*') != NULL ?
		    add_matches(im, skel, bound[i]) :
		    add_bind(im, skel, bound[i]);
	return (r);
}

int
image_host_prepare(int skel, struct binds *ret_binds, struct sbx_err *err)
{
	mode_t old = umask(022);
	int r = 0;

	ret_binds->n = 0;
	if (fill(ret_binds, skel) == -1)
		r = sbx_err_sys(err, "the skeleton of image host");
	(void)umask(old);
	return (r);
}
