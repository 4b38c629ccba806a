/* image: the store of images that sandboxes are made of */
#include "sbxd/cli/cli.h"

#include "common/base/image.h"
#include "common/proto/accepts.h"
#include "common/proto/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_NAMES 16
#define IMPORT_MS 3600000	/* of one import */
#define END_MS 2000		/* from its answer to its end */
#define STAGING "tmp."

static const uint16_t image_types[] = { SBX_MSG_IMAGE_DONE, 0 };
const struct sbx_accepts cli_from_image = { SBX_PROC_CLI, SBX_PROC_IMAGE,
	image_types };

/* An open store. */
struct store {
	int dir;		/* owned */
	uid_t uid;		/* whose all of it is */
	gid_t gid;
	struct sbx_image_names names;
};

/* --- the store ----------------------------------------------------------------- */

/* Made where there is none, as the suite's user's. */
static int
store_open(const struct cli *cli, struct store *s, struct sbx_err *err)
{
	char path[PATH_MAX + 16];
	const struct passwd *pw;
	int r;

	*s = (struct store){ .dir = -1, .uid = geteuid(), .gid = getegid() };
	if (geteuid() == 0) {
		if ((pw = getpwnam("sbxd")) == NULL)
			return (sbx_err_set(err, SBX_E_NOENT, "there is no "
			    "user sbxd: sbx doctor says how to add it"));
		s->uid = pw->pw_uid;
		s->gid = pw->pw_gid;
	}
	(void)snprintf(path, sizeof(path), "%s/images", cli->paths.state);
	if ((r = sbx_make_dirs(path, err)) != 0)
		return (r);
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir == -1 || (geteuid() == 0 &&
	    fchown(s->dir, s->uid, s->gid) == -1))
		return (sbx_err_sys(err, "%.160s", path));
	return (sbx_image_names_read(s->dir, &s->names, err));
}

static void
store_close(struct store *s)
{
	sbx_image_names_clear(&s->names);
	sbx_close(&s->dir);
}

/* Exclusive while names are changed. */
static int
store_lock(struct store *s, int *ret_fd, struct sbx_err *err)
{
	int fd = openat(s->dir, "names.lock", O_RDWR | O_CREAT | O_NOFOLLOW |
	    O_CLOEXEC, 0600);

	if (fd == -1 || flock(fd, LOCK_EX) == -1)
		return (sbx_err_sys(err, "the lock of the store"));
	sbx_image_names_clear(&s->names);
	*ret_fd = fd;
	return (sbx_image_names_read(s->dir, &s->names, err));
}

/* The file is replaced whole: readers see the old one or the new one. */
static int
store_write_names(struct store *s, struct sbx_err *err)
{
	SBX_CLEANUP_BUF struct sbx_buf b = { 0 };
	int SBX_CLEANUP(fd) fd = -1;
	int r;

	sbx_buf_init(&b, SBX_IMAGE_NAMES_MAX);
	if ((r = sbx_image_names_print(&s->names, &b)) != 0)
		return (sbx_err_set(err, r, "the store has no room for more "
		    "names"));
	/* The directory is another user's when root calls: what lies there,
	 * a hard link to a file of root's for one, is not written to. */
	if (unlinkat(s->dir, "names.new", 0) == -1 && errno != ENOENT)
		return (sbx_err_sys(err, "the names of the store"));
	fd = openat(s->dir, "names.new", O_WRONLY | O_CREAT | O_EXCL |
	    O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd == -1 || (geteuid() == 0 && fchown(fd, s->uid, s->gid) == -1) ||
	    sbx_write_all(fd, b.data != NULL ? b.data : "", b.len) != 0 ||
	    fsync(fd) == -1 || renameat(s->dir, "names.new", s->dir, "names")
	    == -1 || fsync(s->dir) == -1)
		return (sbx_err_sys(err, "the names of the store"));
	return (0);
}

/* digest NULL: forget the name. */
static int
name_set(struct store *s, const char *name, const char *digest,
    struct sbx_err *err)
{
	struct sbx_image_names *n = &s->names;
	size_t i;

	for (i = 0; i < n->n && strcmp(n->v[i].name, name) != 0; i++)
		;
	if (digest == NULL) {
		if (i < n->n)
			n->v[i] = n->v[--n->n];
		return (0);
	}
	if (i == n->n) {
		if (n->n == SBX_IMAGE_MAX_NAMES)
			return (sbx_err_set(err, SBX_E_LIMIT, "the store has "
			    "%u names already", SBX_IMAGE_MAX_NAMES));
		n->v = sbx_xreallocarray(n->v, ++n->n, sizeof(*n->v));
	}
	(void)sbx_strlcpy(n->v[i].name, name, sizeof(n->v[i].name));
	(void)sbx_strlcpy(n->v[i].digest, digest, sizeof(n->v[i].digest));
	return (0);
}

/* What imports and removals left that did not end: nobody holds it. */
static void
collect(struct store *s)
{
	DIR *d = fdopendir(openat(s->dir, ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC));
	struct dirent *e;
	int fd;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, STAGING, strlen(STAGING)) != 0)
			continue;
		fd = openat(s->dir, e->d_name, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC);
		if (fd != -1 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)sbx_remove_at(s->dir, e->d_name);
		sbx_close(&fd);
	}
	if (d != NULL)
		(void)closedir(d);
}

/* --- import ----------------------------------------------------------------------- */

struct import {
	const char *names[MAX_NAMES];
	unsigned nnames;
	char staging[32];
	int staging_fd, source;		/* owned */
};

static void
exec_importer(const struct cli *cli, int channel)
{
	char path[PATH_MAX + 32];
	char *argv[] = { (char *)(uintptr_t)"sbxd-image", NULL };

	(void)snprintf(path, sizeof(path), "%s/sbxd-image", cli->bindir);
	if (access(path, X_OK) == -1)
		(void)snprintf(path, sizeof(path), "%s/sbxd-image",
		    SBX_PKGLIBEXECDIR);
	if (channel == 3 ? fcntl(3, F_SETFD, 0) == -1 : dup2(channel, 3) == -1)
		_exit(127);
	(void)execv(path, argv);
	_exit(127);
}

/* It ended, or broke the protocol: what is known of it. */
static int
no_end(int r, pid_t pid, pid_t *ret_pid, struct sbx_err *err)
{
	int status = 0;

	if (r == SBX_E_CLOSED && waitpid(pid, &status, 0) == pid) {
		*ret_pid = -1;
		if (WIFSIGNALED(status))
			return (sbx_err_set(err, r, "sbxd-image was killed by "
			    "signal %d%s", WTERMSIG(status), WTERMSIG(status)
			    == SIGSYS ? ": it called what its cage forbids" :
			    ""));
	}
	return (sbx_err_set(err, r != 0 ? r : SBX_E_STATE, "sbxd-image did "
	    "not come to an end; what it said is above"));
}

/* Let the caged program make it.  c: its channel, cleared by the caller. */
static int
run_importer(const struct cli *cli, const struct import *im,
    const char *source, struct sbx_chan *c, pid_t *ret_pid,
    struct sbx_err *err)
{
	struct sbx_image_start m;
	char shown[1024];
	const int fds[] = { im->staging_fd, im->source };
	int pair[2], r;
	pid_t pid;

	if (sbx_wire_pair(pair) != 0 || (pid = fork()) == -1)
		return (sbx_err_sys(err, "fork"));
	if (pid == 0)
		exec_importer(cli, pair[1]);
	sbx_close(&pair[1]);
	*ret_pid = pid;
	/* it is a line of a file later */
	m = (struct sbx_image_start){ .source = sbx_vis(shown, sizeof(shown),
	    source, strlen(source)) };
	sbx_chan_init(c, pair[0], SBX_PROC_CLI, SBX_PROC_IMAGE);
	r = sbx_chan_send(c, SBX_MSG_IMAGE_START, 0, &m, fds, 10000);
	if (r == 0)
		r = sbx_chan_recv(c, IMPORT_MS);
	if (r != 0 || !sbx_accepts(&cli_from_image, c->in->hdr.type))
		return (no_end(r, pid, ret_pid, err));
	if (c->in->m.image_done.error != 0)
		return (sbx_err_set(err, SBX_E_POLICY, "the image is refused: "
		    "%.200s", c->in->m.image_done.reason));
	return (sbx_image_is_digest(c->in->m.image_done.digest) ? 0 :
	    sbx_err_set(err, SBX_E_SYNTAX, "sbxd-image named no digest"));
}

static int
make_staging(struct store *s, struct import *im, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) lock = -1;
	int r;

	/* held meanwhile: another import would collect what is not locked */
	if ((r = store_lock(s, &lock, err)) != 0)
		return (r);
	collect(s);
	(void)snprintf(im->staging, sizeof(im->staging), STAGING);
	sbx_random_hex(im->staging + strlen(im->staging), 8);
	if (mkdirat(s->dir, im->staging, 0700) == -1 || (im->staging_fd =
	    openat(s->dir, im->staging, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC)) == -1 || flock(im->staging_fd, LOCK_EX) == -1 ||
	    (geteuid() == 0 && fchown(im->staging_fd, s->uid, s->gid) == -1))
		return (sbx_err_sys(err, "a directory in the store"));
	return (0);
}

/* To its place, under its names. */
static int
place(struct store *s, const struct import *im,
    const struct sbx_image_done *m, bool *ret_known, struct sbx_err *err)
{
	const char *hex = m->digest + strlen(SBX_IMAGE_ALGORITHM);
	int SBX_CLEANUP(fd) lock = -1;
	int r = 0;

	*ret_known = false;
	if (syncfs(im->staging_fd) == -1)
		return (sbx_err_sys(err, "writing the image to disk"));
	if ((r = store_lock(s, &lock, err)) != 0)
		return (r);
	if (renameat2(s->dir, im->staging, s->dir, hex, RENAME_NOREPLACE) ==
	    -1) {
		if (errno != EEXIST)
			return (sbx_err_sys(err, "the image's place"));
		*ret_known = true;
	}
	for (unsigned i = 0; r == 0 && i < im->nnames; i++)
		r = name_set(s, im->names[i], m->digest, err);
	if (r == 0)
		r = store_write_names(s, err);
	return (r);
}

static void
tell(const struct import *im, const struct sbx_image_done *m, bool known)
{
	printf("%s\n", m->digest);
	fprintf(stderr, "%s %llu files, %.1f MB", known ?
	    "the store has it already:" : "imported:",
	    (unsigned long long)m->files, (double)m->bytes / 1e6);
	if (m->setuid + m->devices + m->other > 0)
		fprintf(stderr, "; dropped: %llu set-id bits, %llu devices, "
		    "%llu others", (unsigned long long)m->setuid,
		    (unsigned long long)m->devices,
		    (unsigned long long)m->other);
	for (unsigned i = 0; i < im->nnames; i++)
		fprintf(stderr, "%s%s", i == 0 ? "; named " : ", ",
		    im->names[i]);
	fprintf(stderr, "\n");
}

/* Gone, before what it made is trusted with a place: it could still write
 * there.  It ends by itself after its answer. */
static void
end_importer(pid_t pid, bool answered)
{
	int SBX_CLEANUP(fd) fd = answered ? (int)syscall(SYS_pidfd_open, pid,
	    0) : -1;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd == -1 || poll(&p, 1, END_MS) != 1)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static int
import_into(const struct cli *cli, struct store *s, struct import *im,
    const char *source, struct sbx_err *err)
{
	struct sbx_chan c = { .fd = -1 };
	bool known = false;
	pid_t pid = -1;
	int r;

	if ((r = make_staging(s, im, err)) == 0)
		r = run_importer(cli, im, source, &c, &pid, err);
	if (pid != -1)
		end_importer(pid, r == 0);
	if (r == 0)
		r = place(s, im, &c.in->m.image_done, &known, err);
	if (r == 0)
		tell(im, &c.in->m.image_done, known);
	if (c.in != NULL)
		sbx_chan_clear(&c);
	if (im->staging[0] != '\0' && (r != 0 || known))
		(void)sbx_remove_at(s->dir, im->staging);
	return (r);
}

static int
image_import(const struct cli *cli, struct store *s, int argc, char **argv,
    struct sbx_err *err)
{
	static const struct option longs[] = {
		{ "name", required_argument, NULL, 'n' }, { 0 } };
	struct import im = { .staging_fd = -1, .source = -1 };
	int ch, r;

	optind = 0;
	while ((ch = getopt_long(argc, argv, "n:", longs, NULL)) != -1) {
		if (ch != 'n' || im.nnames == MAX_NAMES)
			return (CLI_SYNTAX);
		if (!sbx_image_is_name(optarg))
			return (sbx_err_set(err, SBX_E_SYNTAX, "'%.64s' is no "
			    "name of an image: a-z 0-9 . _ - / : of at most "
			    "128", optarg));
		im.names[im.nnames++] = optarg;
	}
	if (argc - optind != 1)
		return (CLI_SYNTAX);
	im.source = strcmp(argv[optind], "-") == 0 ?
	    fcntl(0, F_DUPFD_CLOEXEC, 3) :
	    open(argv[optind], O_RDONLY | O_CLOEXEC);
	if (im.source == -1)
		return (sbx_err_sys(err, "%.160s", argv[optind]));
	r = import_into(cli, s, &im, argv[optind], err);
	sbx_close(&im.staging_fd);
	sbx_close(&im.source);
	return (r);
}

/* --- show ------------------------------------------------------------------------------ */

static int
config_of(const struct store *s, const char *hex,
    struct sbx_image_config *ret, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) dir = openat(s->dir, hex, O_RDONLY | O_DIRECTORY |
	    O_NOFOLLOW | O_CLOEXEC);

	*ret = (struct sbx_image_config){ 0 };
	return (dir == -1 ? sbx_err_sys(err, "image %.12s", hex) :
	    sbx_image_config_read(dir, ret, err));
}

static struct json_object *
strings(const struct sbx_image_list *l)
{
	struct json_object *a = json_object_new_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_object_array_add(a, json_object_new_string(l->v[i]));
	return (a);
}

static void
put(struct json_object *o, const char *name, const char *text)
{
	(void)json_object_object_add(o, name, *text == '\0' ? NULL :
	    json_object_new_string(text));
}

static struct json_object *
describe(const struct store *s, const char *hex,
    const struct sbx_image_config *c)
{
	struct json_object *o = json_object_new_object();
	struct json_object *names = json_object_new_array();
	char digest[SBX_IMAGE_DIGEST_SIZE];

	(void)snprintf(digest, sizeof(digest), SBX_IMAGE_ALGORITHM "%.64s",
	    hex);
	put(o, "digest", digest);
	for (size_t i = 0; i < s->names.n; i++)
		if (strcmp(s->names.v[i].digest, digest) == 0)
			(void)json_object_array_add(names,
			    json_object_new_string(s->names.v[i].name));
	(void)json_object_object_add(o, "names", names);
#define NUMBER(key) (void)json_object_object_add(o, #key, \
    json_object_new_uint64(c->key));
	SBX_IMAGE_NUMBERS(NUMBER)
#undef NUMBER
#define TEXT(key, size) put(o, #key, c->key);
	SBX_IMAGE_TEXTS(TEXT)
#undef TEXT
	(void)json_object_object_add(o, "env", strings(&c->env));
	(void)json_object_object_add(o, "entrypoint",
	    strings(&c->entrypoint));
	return (o);
}

static void
list_line(const struct store *s, const char *hex,
    const struct sbx_image_config *c)
{
	char digest[SBX_IMAGE_DIGEST_SIZE], when[32] = "";
	time_t t = (time_t)c->created;
	struct tm tm;
	bool any = false;

	(void)snprintf(digest, sizeof(digest), SBX_IMAGE_ALGORITHM "%.64s",
	    hex);
	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	printf("%.19s  %9.1f MB  %7llu files  %s  ", digest,
	    (double)c->bytes / 1e6, (unsigned long long)c->files, when);
	for (size_t i = 0; i < s->names.n; i++)
		if (strcmp(s->names.v[i].digest, digest) == 0) {
			printf("%s%s", any ? " " : "", s->names.v[i].name);
			any = true;
		}
	printf("%s\n", any ? "" : "-");
}

static int
image_list(const struct cli *cli, struct store *s, int argc, char **argv,
    struct sbx_err *err)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	struct json_object *all = json ? json_object_new_array() : NULL;
	struct sbx_image_config c;
	struct dirent *e;
	DIR *d;

	(void)cli;
	if (argc != 1 && !json)
		return (CLI_SYNTAX);
	d = fdopendir(openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	while (d != NULL && (e = readdir(d)) != NULL) {
		if (!sbx_is_hex(e->d_name, SBX_IMAGE_HEX))
			continue;
		if (config_of(s, e->d_name, &c, err) != 0)
			fprintf(stderr, "sbx: %s\n", err->msg);
		else if (json)
			(void)json_object_array_add(all, describe(s,
			    e->d_name, &c));
		else
			list_line(s, e->d_name, &c);
		sbx_image_config_clear(&c);
	}
	if (d != NULL)
		(void)closedir(d);
	if (json)
		puts(json_object_to_json_string_ext(all,
		    JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(all);
	return (0);
}

static int
image_inspect(const struct cli *cli, struct store *s, int argc, char **argv,
    struct sbx_err *err)
{
	char hex[SBX_IMAGE_HEX + 1];
	struct sbx_image_config c;
	struct json_object *o;
	int r;

	(void)cli;
	if (argc != 2)
		return (CLI_SYNTAX);
	if ((r = sbx_image_resolve(s->dir, argv[1], hex, err)) != 0)
		return (r);
	if ((r = config_of(s, hex, &c, err)) == 0) {
		o = describe(s, hex, &c);
		puts(json_object_to_json_string_ext(o,
		    JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(o);
	}
	sbx_image_config_clear(&c);
	return (r);
}

/* --- change -------------------------------------------------------------------------------- */

static int
image_name(const struct cli *cli, struct store *s, int argc, char **argv,
    struct sbx_err *err)
{
	char hex[SBX_IMAGE_HEX + 1], digest[SBX_IMAGE_DIGEST_SIZE];
	int SBX_CLEANUP(fd) lock = -1;
	int r;

	(void)cli;
	if (argc != 3)
		return (CLI_SYNTAX);
	if (!sbx_image_is_name(argv[1]))
		return (sbx_err_set(err, SBX_E_SYNTAX, "'%.64s' is no name of "
		    "an image", argv[1]));
	if ((r = store_lock(s, &lock, err)) != 0 ||
	    (r = sbx_image_resolve(s->dir, argv[2], hex, err)) != 0)
		return (r);
	(void)snprintf(digest, sizeof(digest), SBX_IMAGE_ALGORITHM "%.64s",
	    hex);
	if ((r = name_set(s, argv[1], digest, err)) != 0)
		return (r);
	return (store_write_names(s, err));
}

/* How many names it has beside the one that was given; *ret_one: one. */
static size_t
other_names(const struct store *s, const char *digest, const char *given,
    const char **ret_one)
{
	size_t n = 0;

	for (size_t i = 0; i < s->names.n; i++)
		if (strcmp(s->names.v[i].digest, digest) == 0 &&
		    strcmp(s->names.v[i].name, given) != 0) {
			*ret_one = s->names.v[i].name;
			n++;
		}
	return (n);
}

static int
remove_image(struct store *s, const char *hex, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) dir = -1, SBX_CLEANUP(fd) lock = -1;
	char gone[32] = STAGING;

	dir = openat(s->dir, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	lock = dir == -1 ? -1 : openat(dir, "lock", O_RDONLY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (lock == -1)
		return (sbx_err_sys(err, "image %.12s", hex));
	if (flock(lock, LOCK_EX | LOCK_NB) == -1)
		return (sbx_err_set(err, SBX_E_POLICY, "sandboxes use it (sbx "
		    "ps): stop them first"));
	sbx_random_hex(gone + strlen(gone), 8);
	if (renameat2(s->dir, hex, s->dir, gone, RENAME_NOREPLACE) == -1)
		return (sbx_err_sys(err, "image %.12s", hex));
	/* it is none from now on, and must not keep its names */
	if (sbx_remove_at(s->dir, gone) == -1)
		fprintf(stderr, "sbx: not all of it could be deleted (%s): "
		    "the next import tries again\n", strerror(errno));
	return (0);
}

static int
image_rm(const struct cli *cli, struct store *s, int argc, char **argv,
    struct sbx_err *err)
{
	char hex[SBX_IMAGE_HEX + 1], digest[SBX_IMAGE_DIGEST_SIZE];
	int SBX_CLEANUP(fd) lock = -1;
	const char *one = "";
	size_t others;
	bool named;
	int r;

	(void)cli;
	if (argc != 2)
		return (CLI_SYNTAX);
	if ((r = store_lock(s, &lock, err)) != 0 ||
	    (r = sbx_image_resolve(s->dir, argv[1], hex, err)) != 0)
		return (r);
	(void)snprintf(digest, sizeof(digest), SBX_IMAGE_ALGORITHM "%.64s",
	    hex);
	others = other_names(s, digest, argv[1], &one);
	named = sbx_image_names_find(&s->names, argv[1]) != NULL;
	if (others > 0 && !named)
		return (sbx_err_set(err, SBX_E_POLICY, "it is called %s: "
		    "remove it by its name", one));
	if (others == 0 && (r = remove_image(s, hex, err)) != 0)
		return (r);
	if (others > 0)
		fprintf(stderr, "only the name is removed: it is also called "
		    "%s\n", one);
	(void)name_set(s, argv[1], NULL, NULL);	/* it forgets only */
	return (store_write_names(s, err));
}

/* --- which of them ---------------------------------------------------------------------------- */

int
cmd_image(struct cli *cli, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct cli *, struct store *, int, char **,
		    struct sbx_err *);
	} verbs[] = {
		{ "import", image_import }, { "list", image_list },
		{ "inspect", image_inspect }, { "rm", image_rm },
		{ "name", image_name },
	};
	struct sbx_err err = { 0 };
	struct store s = { .dir = -1 };
	int r = CLI_SYNTAX;

	for (size_t i = 0; argc > 1 && i < SBX_NELEM(verbs); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		argv[1] = argv[0];	/* getopt(3) puts it before its words */
		r = store_open(cli, &s, &err);
		if (r == 0)
			r = verbs[i].run(cli, &s, argc - 1, argv + 1, &err);
		store_close(&s);
		break;
	}
	if (r == CLI_SYNTAX && err.code == 0)
		return (CLI_SYNTAX);
	return (r == 0 ? CLI_OK : cli_fail(CLI_USAGE, &err));
}
