#include "sbxd/image/importer.h"

#include "common/base/egress_env.h"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What stands beside an image's tree, and the name of it all.
 *
 * The digest is SHA-256 over a text: one line an entry, in the order of their
 * names (a directory before what is in it), and the configuration that is the
 * image's own.  Times, where it came from and the machine it is for, which is
 * this one whether that was said or not, are not in it, so the same content
 * has the same name however it was packed.
 */

#define PASSWD_MAX (1u << 20)
#define BLOCK (256u << 10)

/* --- sums ---------------------------------------------------------------------------- */

static void
to_hex(const unsigned char *sum, char hex[65])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 32; i++) {
		hex[2 * i] = digits[sum[i] >> 4];
		hex[2 * i + 1] = digits[sum[i] & 15];
	}
	hex[64] = '\0';
}

int
hash_file(struct importer *im, int fd, char ret_hex[65])
{
	static char buf[BLOCK];
	EVP_MD_CTX *sum = EVP_MD_CTX_new();
	unsigned char out[EVP_MAX_MD_SIZE];
	off_t at = 0;
	ssize_t n;

	if (sum == NULL || EVP_DigestInit_ex(sum, EVP_sha256(), NULL) != 1)
		sbx_fatal("out of memory");
	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		(void)EVP_DigestUpdate(sum, buf, (size_t)n);
		at += n;
	}
	if (n == 0 && EVP_DigestFinal_ex(sum, out, NULL) == 1)
		to_hex(out, ret_hex);
	EVP_MD_CTX_free(sum);
	return (n == 0 ? 0 : import_fail_sys(im, "reading back"));
}

struct listing {
	struct importer *im;
	EVP_MD_CTX *sum;
	char path[PATH_BYTES];
};

/* Lengths before texts: no two trees have the same listing. */
static void
put_line(struct listing *l, const char *type, mode_t mode, const char *what)
{
	char head[64];

	(void)snprintf(head, sizeof(head), "%s %04o %zu ", type,
	    (unsigned)(mode & 07777), strlen(l->path));
	(void)EVP_DigestUpdate(l->sum, head, strlen(head));
	(void)EVP_DigestUpdate(l->sum, l->path, strlen(l->path));
	(void)snprintf(head, sizeof(head), " %zu ", strlen(what));
	(void)EVP_DigestUpdate(l->sum, head, strlen(head));
	(void)EVP_DigestUpdate(l->sum, what, strlen(what));
	(void)EVP_DigestUpdate(l->sum, "\n", 1);
}

static int list_dir(struct listing *l, int dir);

static int
list_one(struct listing *l, int dir, const char *name)
{
	int SBX_CLEANUP(fd) fd = -1;
	char text[PATH_BYTES], hex[65];
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return (import_fail_sys(l->im, "reading back"));
	l->im->config.files++;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, text, sizeof(text) - 1);
		if (n == -1)
			return (import_fail_sys(l->im, "reading back"));
		text[n] = '\0';
		put_line(l, "link", 0, text);
		return (0);
	}
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return (import_fail_sys(l->im, "reading back"));
	if (S_ISDIR(st.st_mode)) {
		put_line(l, "dir", st.st_mode, "");
		return (list_dir(l, sbx_steal_fd(&fd)));
	}
	/* once more: a file has as many names as somebody gave it */
	l->im->config.bytes += (uint64_t)st.st_size;
	if (l->im->config.bytes > MAX_BYTES)
		return (import_fail(l->im, SBX_E_LIMIT, "all its names of "
		    "files together hold more than %llu GiB",
		    MAX_BYTES >> 30));
	if ((r = hash_file(l->im, fd, hex)) != 0)
		return (r);
	put_line(l, "file", st.st_mode, hex);
	return (0);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return (strcmp((*a)->d_name, (*b)->d_name));
}

static int
not_dots(const struct dirent *e)
{
	return (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0);
}

/* dir: consumed. */
static int
list_dir(struct listing *l, int dir)
{
	size_t len = strlen(l->path);
	struct dirent **names = NULL;
	int n = scandirat(dir, ".", &names, not_dots, by_name), r = 0;

	if (n == -1)
		r = import_fail_sys(l->im, "reading back");
	for (int i = 0; i < n; i++) {
		if (r == 0 && (size_t)snprintf(l->path + len,
		    sizeof(l->path) - len, "%s%s", len > 0 ? "/" : "",
		    names[i]->d_name) >= sizeof(l->path) - len)
			r = import_fail(l->im, SBX_E_LIMIT, "a path is too "
			    "long");
		if (r == 0)
			r = list_one(l, dir, names[i]->d_name);
		l->path[len] = '\0';
		free(names[i]);
	}
	free(names);
	(void)close(dir);
	return (r);
}

static void
put_config(struct listing *l)
{
	const struct sbx_image_config *c = &l->im->config;

	(void)sbx_strlcpy(l->path, "user", sizeof(l->path));
	put_line(l, "config", 0, c->user);
	(void)sbx_strlcpy(l->path, "workdir", sizeof(l->path));
	put_line(l, "config", 0, c->workdir);
	(void)sbx_strlcpy(l->path, "env", sizeof(l->path));
	for (size_t i = 0; i < c->env.n; i++)
		put_line(l, "config", 0, c->env.v[i]);
	(void)sbx_strlcpy(l->path, "entrypoint", sizeof(l->path));
	for (size_t i = 0; i < c->entrypoint.n; i++)
		put_line(l, "config", 0, c->entrypoint.v[i]);
}

static int
name_it(struct importer *im, char ret_hex[SBX_IMAGE_HEX + 1])
{
	struct listing *l = sbx_xcalloc(1, sizeof(*l));
	unsigned char out[EVP_MAX_MD_SIZE];
	int fd, r;

	l->im = im;
	l->sum = EVP_MD_CTX_new();
	if (l->sum == NULL ||
	    EVP_DigestInit_ex(l->sum, EVP_sha256(), NULL) != 1)
		sbx_fatal("out of memory");
	im->config.files = im->config.bytes = 0;
	fd = openat(im->rootfs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd == -1 ? import_fail_sys(im, "reading back") : list_dir(l, fd);
	put_config(l);
	if (EVP_DigestFinal_ex(l->sum, out, NULL) == 1)
		to_hex(out, ret_hex);
	EVP_MD_CTX_free(l->sum);
	free(l);
	return (r);
}

/* --- the layer above ------------------------------------------------------------------- */

/* A small file of the image; "" when there is none that is reached without a
 * link.  Owned. */
static char *
read_small(struct importer *im, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int SBX_CLEANUP(fd) fd = (int)syscall(SYS_openat2, im->rootfs, path,
	    &how, sizeof(how));
	char *text = sbx_xcalloc(1, PASSWD_MAX + 1);
	size_t len = 0;
	struct stat st;
	ssize_t n;

	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
	    st.st_size > PASSWD_MAX)
		return (text);
	while (len < PASSWD_MAX &&
	    (n = read(fd, text + len, PASSWD_MAX - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return (text);
}

/* Does this line of passwd(5) or group(5) take a name or id of ours? */
static bool
is_ours(const char *line)
{
	const char *id = strchr(line, ':');
	size_t name = id == NULL ? 0 : (size_t)(id - line);

	if (id == NULL || name == 0)
		return (true);	/* no line of it at all */
	id = strchr(id + 1, ':');
	return ((name == 7 && memcmp(line, "sandbox", 7) == 0) ||
	    (id != NULL && strncmp(id + 1, "1000:", 5) == 0));
}

static int
put_file(struct importer *im, int skel, const char *path, const char *text,
    size_t len)
{
	int SBX_CLEANUP(fd) fd = openat(skel, path, O_WRONLY | O_CREAT |
	    O_EXCL | O_CLOEXEC, 0644);

	if (fd == -1 || fchmod(fd, 0644) == -1 ||
	    sbx_write_all(fd, text, len) != 0)
		return (import_fail_sys(im, "the skeleton"));
	return (0);
}

/* Who the image knows, and the one user that everything runs as. */
static int
put_users(struct importer *im, int skel, const char *path, const char *ours)
{
	SBX_CLEANUP(free) char *text = read_small(im, path);
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	size_t n;

	sbx_buf_init(&b, PASSWD_MAX + 256);
	for (char *line = text; *line != '\0'; line += n) {
		n = strcspn(line, "\n");
		if (line[n] == '\n')
			line[n++] = '\0';
		if (!is_ours(line))
			(void)sbx_buf_printf(&b, "%s\n", line);
	}
	(void)sbx_buf_str(&b, ours);
	return (b.overflow ? import_fail(im, SBX_E_LIMIT, "etc/passwd is too "
	    "long") : put_file(im, skel, path, b.data, b.len));
}

/*
 * Real directories and files for all that a sandbox mounts on, above whatever
 * the image has there: a link of the image is never followed, being hidden.
 */
static int
make_skel(struct importer *im)
{
	static const struct { const char *path; mode_t mode; } dirs[] = {
		{ "dev", 0755 }, { "etc", 0755 }, { "etc/profile.d", 0755 },
		{ "home", 0755 },
		{ "home/sandbox", 0755 }, { "proc", 0555 }, { "run", 0755 },
		{ SBX_TRUST_DIR, 0755 },
		{ "sys", 0555 }, { "tmp", 01777 }, { "workspace", 0755 },
	};
	static const char *const empty[] = { "etc/hostname", "etc/hosts",
		"etc/resolv.conf" };
	static const char profile[] =
	    "if [ -r /" SBX_TRUST_DIR "/" SBX_TRUST_ENV " ]; then\n"
	    "\t. /" SBX_TRUST_DIR "/" SBX_TRUST_ENV "\nfi\n";
	bool bash = faccessat(im->rootfs, "usr/bin/bash", F_OK,
	    AT_SYMLINK_NOFOLLOW) == 0 || faccessat(im->rootfs, "bin/bash",
	    F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	int SBX_CLEANUP(fd) skel = -1;
	char line[128];
	int r;

	if (mkdirat(im->staging, "skel", 0755) == -1 ||
	    fchmodat(im->staging, "skel", 0755, 0) == -1 || (skel = openat(
	    im->staging, "skel", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return (import_fail_sys(im, "the skeleton"));
	for (size_t i = 0; i < SBX_NELEM(dirs); i++)
		if (mkdirat(skel, dirs[i].path, 0700) == -1 ||
		    fchmodat(skel, dirs[i].path, dirs[i].mode, 0) == -1)
			return (import_fail_sys(im, "the skeleton"));
	for (size_t i = 0; i < SBX_NELEM(empty); i++)
		if ((r = put_file(im, skel, empty[i], "", 0)) != 0)
			return (r);
	if ((r = put_file(im, skel, "etc/profile.d/sbx.sh", profile,
	    strlen(profile))) != 0)
		return (r);
	(void)snprintf(line, sizeof(line), "sandbox:x:1000:1000:sandbox:"
	    "/home/sandbox:/bin/%s\n", bash ? "bash" : "sh");
	if ((r = put_users(im, skel, "etc/passwd", line)) != 0)
		return (r);
	return (put_users(im, skel, "etc/group", "sandbox:x:1000:\n"));
}

static int
put_settings(struct importer *im)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };

	sbx_buf_init(&b, SBX_IMAGE_CONFIG_MAX);
	im->config.created = sbx_wall_ns() / 1000000000u;
	if (sbx_image_config_print(&im->config, &b) != 0)
		return (import_fail(im, SBX_E_LIMIT, "its configuration is "
		    "too long"));
	if (put_file(im, im->staging, "config", b.data, b.len) != 0)
		return (im->err.code);
	return (put_file(im, im->staging, "lock", "", 0));
}

int
finish(struct importer *im, char ret_hex[SBX_IMAGE_HEX + 1])
{
	int r;

	if ((r = make_skel(im)) != 0 || (r = name_it(im, ret_hex)) != 0)
		return (r);
	if (im->config.files == 0)
		return (import_fail(im, SBX_E_NOENT, "there is nothing in "
		    "it"));
	return (put_settings(im));
}
