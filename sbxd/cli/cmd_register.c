/* register: a GitHub App's key or a token, put where the broker reads it */
#include "sbxd/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

/*
 * A secret is never an argument, which every user of the machine can read: a
 * token is typed unseen, or comes on standard input; a key comes as a file.
 */

#define SECRET_MAX 16384	/* bytes of a key */
#define TOKEN_MAX 2048

struct entry {
	char host[254], id[24], installation[24], key[PATH_MAX];
	bool app, from_stdin, append;
	char *secret;		/* owned, SECRET_MAX + 1 bytes; wiped */
	size_t len;
};

static void
entry_wipe(struct entry *e)
{
	explicit_bzero(e->secret, SECRET_MAX + 1);
	free(e->secret);
}

/* --- asking ------------------------------------------------------------------ */

/* A line of the terminal, its end cut off.  seen false: not echoed. */
static int
ask(const char *question, bool seen, char *dst, size_t size,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	struct termios was, mute;
	sigset_t all, before;
	ssize_t n;

	if (tty == -1 || tcgetattr(tty, &was) == -1)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no terminal to "
		    "ask for the %s: give it as an option, a token with "
		    "--stdin", question));
	mute = was;
	if (!seen)
		mute.c_lflag &= ~(tcflag_t)ECHO;
	/* a signal must not leave the terminal mute: it comes afterwards */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	(void)dprintf(tty, "%s: ", question);
	(void)tcsetattr(tty, TCSAFLUSH, &mute);
	n = read(tty, dst, size - 1);
	(void)tcsetattr(tty, TCSAFLUSH, &was);
	if (!seen)
		(void)dprintf(tty, "\n");
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (n <= 0)
		return (sbx_err_set(err, SBX_E_CLOSED, "nothing was entered"));
	dst[n] = '\0';
	dst[strcspn(dst, "\r\n")] = '\0';
	return (0);
}

static int
ask_if(const char *question, char *dst, size_t size, struct sbx_err *err)
{
	return (dst[0] != '\0' ? 0 : ask(question, true, dst, size, err));
}

/* All of fd, SECRET_MAX bytes at most. */
static int
read_all(int fd, const char *what, struct entry *e, struct sbx_err *err)
{
	ssize_t n;

	while ((n = read(fd, e->secret + e->len, SECRET_MAX + 1 - e->len)) > 0)
		if ((e->len += (size_t)n) > SECRET_MAX)
			return (sbx_err_set(err, SBX_E_LIMIT, "%.160s is "
			    "longer than %d bytes", what, SECRET_MAX));
	e->secret[e->len] = '\0';
	return (n == 0 ? 0 : sbx_err_sys(err, "%.160s", what));
}

/* --- what is taken ------------------------------------------------------------ */

static int
take_token(struct entry *e, struct sbx_err *err)
{
	size_t i;
	int r;

	r = e->from_stdin ? read_all(STDIN_FILENO, "standard input", e, err) :
	    ask("token (not shown)", false, e->secret, TOKEN_MAX + 2, err);
	if (r != 0)
		return (r);
	e->secret[strcspn(e->secret, "\r\n")] = '\0';
	e->len = strlen(e->secret);
	for (i = 0; i < e->len; i++)
		if (e->secret[i] <= ' ' || e->secret[i] >= 127)
			break;
	if (e->len == 0 || e->len > TOKEN_MAX || i < e->len)
		return (sbx_err_set(err, SBX_E_SYNTAX, "a token is one word "
		    "of up to %d bytes", TOKEN_MAX));
	return (0);
}

static bool
is_number(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return (n > 0 && n <= 18 && s[n] == '\0');
}

static int
take_key(struct entry *e, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	int r;

	if ((r = ask_if("number of the App", e->id, sizeof(e->id),
	    err)) != 0 || (r = ask_if("number of its installation",
	    e->installation, sizeof(e->installation), err)) != 0 ||
	    (r = ask_if("file of its private key", e->key, sizeof(e->key),
	    err)) != 0)
		return (r);
	if (!is_number(e->id) || !is_number(e->installation))
		return (sbx_err_set(err, SBX_E_SYNTAX, "an App and an "
		    "installation of it are numbers, which GitHub shows on "
		    "their pages"));
	fd = open(e->key, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd == -1)
		return (sbx_err_sys(err, "%.160s", e->key));
	if ((r = read_all(fd, e->key, e, err)) != 0)
		return (r);
	if (strncmp(e->secret, "-----BEGIN ", 11) != 0 ||
	    strstr(e->secret, "PRIVATE KEY-----") == NULL)
		return (sbx_err_set(err, SBX_E_SYNTAX, "%.160s is no private "
		    "key in PEM", e->key));
	if (strstr(e->secret, "ENCRYPTED") != NULL)
		return (sbx_err_set(err, SBX_E_UNSUPPORTED, "%.140s is "
		    "encrypted: write it without (openssl pkey)", e->key));
	return (0);
}

static bool
host_is_good(const char *s)
{
	return (s[0] != '\0' && s[0] != '.' && s[0] != '-' &&
	    strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(s));
}

static int
take_host(struct entry *e, struct sbx_err *err)
{
	for (char *p = e->host; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	return (host_is_good(e->host) ? 0 : sbx_err_set(err, SBX_E_SYNTAX,
	    "\"%.100s\" is no name of a host", e->host));
}

/* --- where it goes --------------------------------------------------------------- */

/* The broker's user where suites have users, else who calls. */
static int
find_owner(uid_t *ret_uid, gid_t *ret_gid, struct sbx_err *err)
{
	const struct passwd *pw;

	*ret_uid = geteuid();
	*ret_gid = getegid();
	if (geteuid() != 0)
		return (0);
	if ((pw = getpwnam("sbx-broker")) == NULL)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no user "
		    "sbx-broker: run `systemd-sysusers` first (see `sbx "
		    "doctor`)"));
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return (0);
}

/* The directory of credentials, which is its owner's alone. */
static int
open_dir(const struct cli *cli, uid_t uid, gid_t gid, char path[PATH_MAX + 32],
    int *ret_dir, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) dir = -1;
	struct stat st;

	(void)snprintf(path, PATH_MAX + 32, "%s/credentials", cli->paths.etc);
	(void)mkdir(cli->paths.etc, 0755);	/* the next one tells */
	if (mkdir(path, 0700) == -1 && errno != EEXIST)
		return (sbx_err_sys(err, "%.160s", path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir == -1 || fstat(dir, &st) == -1)
		return (sbx_err_sys(err, "%.160s", path));
	if (st.st_uid != uid && st.st_uid != geteuid())
		return (sbx_err_set(err, SBX_E_POLICY, "%.160s is somebody "
		    "else's", path));
	if ((st.st_uid != uid && fchown(dir, uid, gid) == -1) ||
	    fchmod(dir, 0700) == -1)
		return (sbx_err_sys(err, "%.160s", path));
	*ret_dir = sbx_steal_fd(&dir);
	return (0);
}

/* Whole and 0600, or as it was before. */
static int
write_secret(int dir, const char *name, const struct entry *e, uid_t uid,
    gid_t gid, struct sbx_err *err)
{
	static const char temp[] = ".new";
	int SBX_CLEANUP(fd) fd = -1;

	(void)unlinkat(dir, temp, 0);	/* of one that was cut short */
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (fd == -1 || sbx_write_all(fd, e->secret, e->len) != 0 ||
	    (geteuid() == 0 && fchown(fd, uid, gid) == -1) ||
	    fsync(fd) == -1 || renameat(dir, temp, dir, name) == -1)
		return (sbx_err_sys(err, "%.160s", name));
	return (0);
}

static int
append_conf(const struct cli *cli, const char *line, struct sbx_err *err)
{
	char path[PATH_MAX + 16];
	int SBX_CLEANUP(fd) fd = -1;

	(void)snprintf(path, sizeof(path), "%s/sbx.conf", cli->paths.etc);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd == -1 || sbx_write_all(fd, line, strlen(line)) != 0)
		return (sbx_err_sys(err, "%.160s", path));
	fprintf(stderr, "sbx: written to %s\n", path);
	return (0);
}

/* host ends the keyword's value where it is not GitHub's own. */
static int
keep(const struct cli *cli, const struct entry *e, struct sbx_err *err)
{
	bool own = strcmp(e->host, "github.com") == 0;
	char SBX_CLEANUP(free) *name = NULL;
	char SBX_CLEANUP(free) *line = NULL;
	char path[PATH_MAX + 32];
	int SBX_CLEANUP(fd) dir = -1;
	uid_t uid;
	gid_t gid;
	int r;

	name = e->app ? sbx_xasprintf("%s-app-%s.pem", e->host, e->id) :
	    sbx_xasprintf("%s-token", e->host);
	if ((r = find_owner(&uid, &gid, err)) != 0 ||
	    (r = open_dir(cli, uid, gid, path, &dir, err)) != 0 ||
	    (r = write_secret(dir, name, e, uid, gid, err)) != 0)
		return (r);
	line = sbx_xasprintf("%s %s%s%s%s%s%s%s/%s\n", e->app ? "github_app" :
	    "github_token_file", own ? "" : e->host, own ? "" : " ", e->id,
	    e->app ? " " : "", e->installation, e->app ? " " : "", path,
	    name);
	if (e->append)
		return (append_conf(cli, line, err));
	fprintf(stderr, "sbx: write this line into %s/sbx.conf, with an "
	    "allowed_repo:\n", cli->paths.etc);
	fputs(line, stdout);
	return (0);
}

/* --- all of it ---------------------------------------------------------------------- */

static int
take_options(int argc, char **argv, struct entry *e)
{
	static const struct option longs[] = {
		{ "host", required_argument, NULL, 'h' },
		{ "id", required_argument, NULL, 'i' },
		{ "installation", required_argument, NULL, 'n' },
		{ "key", required_argument, NULL, 'k' },
		{ "stdin", no_argument, NULL, 's' },
		{ "write", no_argument, NULL, 'w' }, { 0 } };
	int ch, r = 0;

	while ((ch = getopt_long(argc, argv, "", longs, NULL)) != -1)
		switch (ch) {
		case 'h': r |= sbx_strlcpy(e->host, optarg, sizeof(e->host));
			break;
		case 'i': r |= sbx_strlcpy(e->id, optarg, sizeof(e->id));
			break;
		case 'n': r |= sbx_strlcpy(e->installation, optarg,
			    sizeof(e->installation));
			break;
		case 'k': r |= sbx_strlcpy(e->key, optarg, sizeof(e->key));
			break;
		case 's': e->from_stdin = true; break;
		case 'w': e->append = true; break;
		default: return (CLI_SYNTAX);
		}
	if (r != 0 || argc - optind != 1)
		return (CLI_SYNTAX);
	e->app = strcmp(argv[optind], "app") == 0;
	if (!e->app && strcmp(argv[optind], "token") != 0)
		return (CLI_SYNTAX);
	return (e->app ? (e->from_stdin ? CLI_SYNTAX : 0) :
	    e->id[0] != '\0' || e->installation[0] != '\0' ||
	    e->key[0] != '\0' ? CLI_SYNTAX : 0);
}

int
cmd_register(struct cli *cli, int argc, char **argv)
{
	struct entry e = { .host = "github.com" };
	struct sbx_err err = { 0 };
	int r;

	if ((r = take_options(argc, argv, &e)) != 0)
		return (r);
	e.secret = sbx_xcalloc(1, SECRET_MAX + 2);
	if ((r = take_host(&e, &err)) == 0 &&
	    (r = e.app ? take_key(&e, &err) : take_token(&e, &err)) == 0)
		r = keep(cli, &e, &err);
	entry_wipe(&e);
	return (r == 0 ? CLI_OK : cli_fail(CLI_USAGE, &err));
}
