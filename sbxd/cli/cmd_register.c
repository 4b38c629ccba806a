/* register: a GitHub App's key or a token, put where the broker reads it */
#include "sbxd/cli/cli.h"

#include "common/base/conf.h"
#include "sbx-broker/key.h"
#include "sbx-broker/sources.h"
#include "sbx-broker/token.h"
#include "sbx-proxy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
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

#define SECRET_MAX SOURCE_KEY_MAX /* what the broker reads of a file */

struct entry {
	char host[254], id[24], installation[24], key[PATH_MAX];
	bool app, from_stdin, append, replace;
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

static volatile sig_atomic_t got;

static void
on_signal(int sig)
{
	got = sig;
}

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/*
 * A line of the terminal.  What would end or stop the program waits until the
 * terminal is as it was; all but a stop ends the question.  -1: nothing came.
 */
static ssize_t
read_line(int tty, char *dst, size_t size, const sigset_t *before)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct sigaction was[SBX_NELEM(ending)];
	struct pollfd p = { .fd = tty, .events = POLLIN };
	sigset_t during = *before;
	ssize_t n = -1;

	(void)sigaddset(&during, SIGTSTP);
	for (size_t i = 0; i < SBX_NELEM(ending); i++) {
		(void)sigdelset(&during, ending[i]);
		(void)sigaction(ending[i], &act, &was[i]);
	}
	while (got == 0 && n == -1) {
		if (ppoll(&p, 1, NULL, &during) > 0)
			n = read(tty, dst, size);
		else if (errno != EINTR)
			break;
	}
	for (size_t i = 0; i < SBX_NELEM(ending); i++)
		(void)sigaction(ending[i], &was[i], NULL);
	return (n);
}

/* A line of the terminal, its end cut off.  seen false: not echoed.  how: what
 * helps without a terminal. */
static int
ask(const char *question, bool seen, const char *how, char *dst, size_t size,
    struct sbx_err *err)
{
	int SBX_CLEANUP(fd) tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	struct termios was, mute;
	sigset_t all, before;
	ssize_t n;

	if (tty == -1 || tcgetattr(tty, &was) == -1)
		return (sbx_err_set(err, SBX_E_NOENT, "there is no terminal to "
		    "ask for the %s: %s", question, how));
	mute = was;
	if (!seen)
		mute.c_lflag &= ~(tcflag_t)ECHO;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	(void)dprintf(tty, "%s%s: ", question, seen ? "" : " (not shown)");
	(void)tcsetattr(tty, TCSAFLUSH, &mute);
	n = read_line(tty, dst, size - 1, &before);
	(void)tcsetattr(tty, TCSAFLUSH, &was);
	if (!seen || got != 0)
		(void)dprintf(tty, "\n");
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (got != 0)
		(void)raise(got);	/* ends us, or it was ignored before */
	if (n <= 0)
		return (sbx_err_set(err, SBX_E_CLOSED, "nothing was entered"));
	dst[n] = '\0';
	dst[strcspn(dst, "\r\n")] = '\0';
	return (0);
}

static int
ask_if(const char *question, const char *how, char *dst, size_t size,
    struct sbx_err *err)
{
	return (dst[0] != '\0' ? 0 : ask(question, true, how, dst, size, err));
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

/* As the broker takes it. */
static int
take_token(struct entry *e, struct sbx_err *err)
{
	const char *why;
	int r;

	r = e->from_stdin ? read_all(STDIN_FILENO, "standard input", e, err) :
	    ask("token", false, "pipe it to `sbx register token --stdin`",
	    e->secret, SECRET_MAX, err);
	if (r != 0)
		return (r);
	e->secret[strcspn(e->secret, "\r\n")] = '\0';
	e->len = strlen(e->secret);
	why = token_check(e->host, e->secret, e->len);
	return (why == NULL ? 0 : sbx_err_set(err, SBX_E_SYNTAX, "that is no "
	    "token of %.60s: %s", e->host, why));
}

static bool
is_number(const char *s)
{
	uint64_t n;

	return (strspn(s, "0123456789") == strlen(s) && strlen(s) <= 18 &&
	    sbx_parse_u64(s, 1, INT64_MAX, &n) == 0);
}

/* As the broker takes it. */
static int
check_key(const struct entry *e, struct sbx_err *err)
{
	SBX_CLEANUP(secret) struct sbx_secret *pem = NULL;
	struct sbx_err why = { 0 };
	EVP_PKEY *key = NULL;
	int r;

	if ((r = key_init(1, err)) != 0)
		return (r);
	if ((pem = sbx_secret_new(SECRET_MAX, err)) == NULL)
		return (err->code);
	if (sbx_secret_add(pem, e->secret, e->len) != 0 ||
	    (r = key_read(pem, &key, &why)) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "%.100s: %.140s",
		    e->key, why.msg));
	key_free(key);
	return (0);
}

static int
take_key(struct entry *e, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	int r;

	if ((r = ask_if("number of the App", "give --id", e->id,
	    sizeof(e->id), err)) != 0 ||
	    (r = ask_if("number of its installation", "give --installation",
	    e->installation, sizeof(e->installation), err)) != 0 ||
	    (r = ask_if("file of its private key", "give --key", e->key,
	    sizeof(e->key), err)) != 0)
		return (r);
	if (!is_number(e->id) || !is_number(e->installation))
		return (sbx_err_set(err, SBX_E_SYNTAX, "an App and an "
		    "installation of it are numbers from 1 on, which GitHub "
		    "shows on their pages"));
	fd = open(e->key, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd == -1)
		return (sbx_err_sys(err, "%.160s", e->key));
	if ((r = read_all(fd, e->key, e, err)) != 0)
		return (r);
	if (strstr(e->secret, "ENCRYPTED") != NULL)
		return (sbx_err_set(err, SBX_E_UNSUPPORTED, "%.140s is "
		    "encrypted: write it without (openssl pkey)", e->key));
	return (check_key(e, err));
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
	int r;

	(void)snprintf(path, PATH_MAX + 32, "%s/credentials", cli->paths.etc);
	/* root's is for all to read; what leads to others' is theirs */
	if (geteuid() == 0)
		(void)mkdir(cli->paths.etc, 0755);
	if ((r = sbx_make_dirs(cli->paths.etc, err)) != 0)
		return (r);
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

	if (!e->replace && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return (sbx_err_set(err, SBX_E_EXISTS, "%.120s is there, and "
		    "may be in use: --replace puts the new one in its place",
		    name));
	(void)unlinkat(dir, temp, 0);	/* of one that was cut short */
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (fd == -1 || sbx_write_all(fd, e->secret, e->len) != 0 ||
	    (geteuid() == 0 && fchown(fd, uid, gid) == -1) ||
	    fsync(fd) == -1 || renameat(dir, temp, dir, name) == -1)
		return (sbx_err_sys(err, "%.160s", name));
	return (0);
}

/* --- what sbx.conf needs ------------------------------------------------------- */

/* All of a file that is not there is nothing. */
static int
read_conf(const char *path, char **ret_text, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *text = sbx_xcalloc(1, SBX_CONF_FILE_MAX + 1);
	int SBX_CLEANUP(fd) fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;

	if (fd == -1 && errno != ENOENT)
		return (sbx_err_sys(err, "%.160s", path));
	while (fd != -1 && len < SBX_CONF_FILE_MAX && (n = read(fd, text + len,
	    SBX_CONF_FILE_MAX - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return (sbx_err_sys(err, "%.160s", path));
	*ret_text = text;
	text = NULL;
	return (0);
}

/* line ends with a newline. */
static bool
has_line(const char *text, const char *line)
{
	size_t n = strlen(line) - 1;

	for (; text != NULL && *text != '\0'; text = strchr(text, '\n'),
	    text += text != NULL)
		if (strncmp(text, line, n) == 0 && (text[n] == '\n' ||
		    text[n] == '\0'))
			return (true);
	return (false);
}

/* Each line that is not there. */
static int
append_conf(const struct cli *cli, const char *const lines[2],
    struct sbx_err *err)
{
	char SBX_CLEANUP(free) *text = NULL;
	char path[PATH_MAX + 16];
	int SBX_CLEANUP(fd) fd = -1;
	size_t n;
	int r;

	(void)snprintf(path, sizeof(path), "%s/sbx.conf", cli->paths.etc);
	if ((r = read_conf(path, &text, err)) != 0)
		return (r);
	n = strlen(text);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd == -1 || (n > 0 && text[n - 1] != '\n' &&
	    sbx_write_all(fd, "\n", 1) != 0))
		return (sbx_err_sys(err, "%.160s", path));
	for (size_t i = 0; i < 2; i++) {
		if (*lines[i] == '\0')
			continue;
		if (has_line(text, lines[i])) {
			fprintf(stderr, "sbx: %s has the line already; a suite "
			    "that runs reads the file anew at SIGHUP\n", path);
			continue;
		}
		if (sbx_write_all(fd, lines[i], strlen(lines[i])) != 0)
			return (sbx_err_sys(err, "%.160s", path));
		fprintf(stderr, "sbx: written to %s; a suite that runs takes "
		    "it at SIGHUP\n", path);
	}
	return (0);
}

/* Is git spoken with that host?  A configuration that is wrong is told of before
 * anything is kept. */
static int
is_led(const struct cli *cli, const char *name, bool *ret_led,
    struct sbx_err *err)
{
	struct sbx_conf SBX_CLEANUP(free) *c = sbx_xcalloc(1, sizeof(*c));
	struct policy p = { 0 };
	struct verdict v = { 0 };
	struct host host;
	int r;

	if ((r = cli_conf(cli, c, err)) != 0 ||
	    (r = policy_conf(&p, c, err)) != 0)
		return (r);
	if (host_read((struct sbx_text){ name, strlen(name) }, &host) == 0)
		policy_decide(&p, POLICY_HTTPS, &host, 443, &v);
	policy_clear(&p);
	*ret_led = v.allowed && (v.how == POLICY_GIT || v.how == POLICY_GITHUB);
	return (0);
}

/* host ends the keyword's value where it is not GitHub's own. */
static int
keep(const struct cli *cli, const struct entry *e, struct sbx_err *err)
{
	bool own = strcmp(e->host, "github.com") == 0, led;
	char SBX_CLEANUP(free) *name = NULL;
	char SBX_CLEANUP(free) *line = NULL;
	char SBX_CLEANUP(free) *way = NULL;
	char path[PATH_MAX + 32];
	int SBX_CLEANUP(fd) dir = -1;
	uid_t uid;
	gid_t gid;
	int r;

	name = e->app ? sbx_xasprintf("%s-app-%s.pem", e->host, e->id) :
	    sbx_xasprintf("%s-token", e->host);
	if ((r = is_led(cli, e->host, &led, err)) != 0 ||
	    (r = find_owner(&uid, &gid, err)) != 0 ||
	    (r = open_dir(cli, uid, gid, path, &dir, err)) != 0 ||
	    (r = write_secret(dir, name, e, uid, gid, err)) != 0)
		return (r);
	way = led ? sbx_xstrdup("") : sbx_xasprintf("grant_host %s\n",
	    e->host);
	line = sbx_xasprintf("%s %s%s%s%s%s%s%s/%s\n", e->app ? "github_app" :
	    "github_token_file", own ? "" : e->host, own ? "" : " ", e->id,
	    e->app ? " " : "", e->installation, e->app ? " " : "", path,
	    name);
	if (e->append)
		return (append_conf(cli, (const char *const[2]){ way, line },
		    err));
	fprintf(stderr, "sbx: write %s into %s/sbx.conf, with an "
	    "allowed_repo:\n", led ? "this line" : "these lines",
	    cli->paths.etc);
	(void)printf("%s%s", way, line);
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
		{ "replace", no_argument, NULL, 'r' },
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
		case 'r': e->replace = true; break;
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
