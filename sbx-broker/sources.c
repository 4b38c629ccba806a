#include "sbx-broker/sources.h"

#include "sbx-broker/given.h"
#include "sbx-broker/key.h"
#include "sbx-broker/sshsig.h"
#include "sbx-broker/token.h"
#include "sbx-proxy/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 4
#define SIGNER "publish_signing_key "

const char *
source_kind_name(enum source_kind kind)
{
	static const char *const names[SOURCE_KIND_MAX] = { "command", "app",
		"token" };

	return (kind < SOURCE_KIND_MAX ? names[kind] : "");
}

const char *
source_api_host(const char *host, char buf[254])
{
	if (strcmp(host, SOURCE_GITHUB) == 0)
		return ("api.github.com");
	return (sbx_strlcpy(buf, host, 254) == 0 ? buf : "");
}

/* Source: GitHub Enterprise Server REST API, "Getting started". */
const char *
source_api_prefix(const char *host)
{
	return (strcmp(host, SOURCE_GITHUB) == 0 ? "" : "/api/v3");
}

/* --- files ---------------------------------------------------------------------- */

static void SBX_PRINTF(2, 3)
bad(struct source *s, const char *fmt, ...)
{
	char text[sizeof(s->bad)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut, not refused */
	va_end(ap);
	(void)snprintf(s->bad, sizeof(s->bad), "%.120s: %.130s", s->file, text);
}

/* Can only its owner, who is us, have written or read it?  Or did systemd give
 * it to us?  false: s says why not. */
static bool
is_ours(struct source *s, int fd, const struct stat *st)
{
	const unsigned owner = (unsigned)st->st_uid, us = (unsigned)geteuid();
	const char *why = "";

	if (st->st_uid == 0 && us != 0 &&
	    (why = given_check(fd, st, us)) == NULL)
		return (true);
	if (owner != us)
		bad(s, "its owner is uid %u, but sbx-broker is uid %u; chown "
		    "it%s%s", owner, us, *why != '\0' ? "; as a credential of "
		    "systemd: " : "", why);
	else if ((st->st_mode & (S_IRWXG | S_IRWXO)) != 0)
		bad(s, "its mode is %04o, others could read it; chmod 0600",
		    (unsigned)(st->st_mode & 07777));
	else
		return (true);
	return (false);
}

/* What it means that there is no way to a file. */
static void
bad_open(struct source *s, int error)
{
	if (error == ELOOP)
		bad(s, "it is a symbolic link; name the file itself");
	else if (error == EACCES && strncmp(s->file, GIVEN_BELOW,
	    sizeof(GIVEN_BELOW) - 1) == 0)
		bad(s, "%s: systemd gives it to the user of the unit, and "
		    "sbx-broker is uid %u; set User= there", strerror(error),
		    (unsigned)geteuid());
	else if (error == EACCES)
		bad(s, "%s: sbx-broker is uid %u, which must own the file and "
		    "may enter its directory%s", strerror(error),
		    (unsigned)geteuid(), s->host[0] == '\0' ?
		    "" : " (`sbx register` does both)");
	else
		bad(s, "%s", strerror(error));
}

/* -1: s says why.  Not blocking, so that a FIFO of that name does not hold us
 * up. */
static int
file_open(struct source *s)
{
	SBX_CLEANUP(fd) int fd = -1;
	struct stat st;

	/* first: what is changed while it is read is another file */
	s->fd = open(s->file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd != -1 && fstat(s->fd, &s->was) == -1)
		sbx_close(&s->fd);
	fd = open(s->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
	    O_NOCTTY);
	if (fd < 0)
		bad_open(s, errno);
	else if (fstat(fd, &st) < 0)
		bad(s, "fstat: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		bad(s, "it is no regular file");
	else if (is_ours(s, fd, &st))
		return (sbx_steal_fd(&fd));
	return (-1);
}

/* All of it, at most max bytes.  NULL: s says why. */
static struct sbx_secret *
file_read(struct source *s, size_t max)
{
	SBX_CLEANUP(secret) struct sbx_secret *text = NULL;
	SBX_CLEANUP(fd) int fd = file_open(s);
	struct sbx_secret *whole;
	struct sbx_err err = { 0 };
	int n;

	if (fd < 0)
		return (NULL);
	/* one byte more, to see that there is none */
	if ((text = sbx_secret_new(max + 1, &err)) == NULL) {
		bad(s, "%s", err.msg);
		return (NULL);
	}
	while ((n = sbx_secret_read(text, fd)) > 0)
		;
	if (n == SBX_E_SYS)
		bad(s, "read: %s", strerror(errno));
	else if (n < 0 || sbx_secret_len(text) > max)
		bad(s, "it is larger than %zu bytes", max);
	else {
		whole = text;
		text = NULL;
		return (whole);
	}
	return (NULL);
}

static void
read_key(struct source *s)
{
	SBX_CLEANUP(secret) struct sbx_secret *pem = NULL;
	char jwt[KEY_JWT_SIZE];
	struct sbx_err err = { 0 };

	if ((pem = file_read(s, SOURCE_KEY_MAX)) == NULL)
		return;
	if (key_read(pem, &s->key, &err) < 0) {
		bad(s, "%s", err.msg);
		return;
	}
	/* one is signed here, with all that libcrypto loads for it */
	if (key_fingerprint(s->key, s->fingerprint) < 0 ||
	    key_jwt(s->key, s->app, (uint64_t)time(NULL), jwt,
	    sizeof(jwt)) < 0)
		bad(s, "its key cannot sign");
	explicit_bzero(jwt, sizeof(jwt));
}

static void
read_token(struct source *s)
{
	struct sbx_secret *text = file_read(s, SOURCE_TOKEN_MAX);
	const char *why;

	if (text == NULL)
		return;
	sbx_secret_trim(text);
	why = token_check(s->host, sbx_secret_text(text),
	    sbx_secret_len(text));
	if (why != NULL) {
		bad(s, "no token: %s", why);
		sbx_secret_free(text);
		return;
	}
	s->token = token_new(text, s);
	s->token->until_ns = UINT64_MAX;
}

/* --- lines ------------------------------------------------------------------------ */

/* Words between blanks.  How many there are; more than WORDS_MAX are not kept. */
static unsigned
split(char *line, char *words[WORDS_MAX])
{
	unsigned n = 0;
	size_t len;

	for (line += strspn(line, " \t"); *line != '\0';
	    line += strspn(line, " \t")) {
		if (n < WORDS_MAX)
			words[n] = line;
		n++;
		len = strcspn(line, " \t");
		if (line[len] != '\0')
			line[len++] = '\0';
		line += len;
	}
	return (n);
}

static int
set_host(struct source *s, const char *name, struct sbx_err *err)
{
	char buf[254];
	struct host h;

	if (host_read((struct sbx_text){ name, strlen(name) }, &h) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "%.64s is no host",
		    name));
	s->prefix = source_api_prefix(h.text);
	if (sbx_strlcpy(s->host, h.text, sizeof(s->host)) < 0 ||
	    sbx_strlcpy(s->api_host, source_api_host(h.text, buf),
	    sizeof(s->api_host)) < 0)
		return (sbx_err_set(err, SBX_E_LIMIT, "a host is too long"));
	return (0);
}

static int
set_file(struct source *s, const char *name, struct sbx_err *err)
{
	if (strncmp(name, "%d/", 3) == 0)
		return (sbx_err_set(err, SBX_E_NOENT, "%.64s: %%d is where "
		    "systemd puts the credentials of a unit, and sbxd was "
		    "started without (LoadCredential=, systemd.exec(5))",
		    name));
	if (name[0] != '/')
		return (sbx_err_set(err, SBX_E_SYNTAX, "%.64s: a file's name "
		    "begins with /", name));
	if (sbx_strlcpy(s->file, name, sizeof(s->file)) < 0)
		return (sbx_err_set(err, SBX_E_LIMIT, "%.64s...: a file's name "
		    "has at most %zu bytes", name, sizeof(s->file) - 1));
	return (0);
}

/* An App's id, or its client id: both sign. */
static bool
is_issuer(const char *s)
{
	size_t n = strlen(s);

	return (n > 0 && n <= KEY_ISSUER_MAX && strspn(s,
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	    "._-") == n);
}

static int
read_app(struct source *s, char **w, unsigned n, struct sbx_err *err)
{
	int r;

	if (n != 3 && n != 4)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "github_app [HOST] ID INSTALLATION KEYFILE"));
	r = set_host(s, n == 4 ? *w++ : SOURCE_GITHUB, err);
	if (r < 0)
		return (r);
	if (!is_issuer(w[0]) || sbx_strlcpy(s->app, w[0], sizeof(s->app)) < 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "github_app: %.64s is no App's id", w[0]));
	if (sbx_parse_u64(w[1], 1, INT64_MAX, &s->installation) < 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "github_app: %.64s is no installation's number", w[1]));
	if ((r = set_file(s, w[2], err)) == 0)
		read_key(s);
	return (r);
}

static int
read_token_file(struct source *s, char **w, unsigned n, struct sbx_err *err)
{
	int r;

	if (n != 1 && n != 2)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "github_token_file [HOST] FILE"));
	r = set_host(s, n == 2 ? *w++ : SOURCE_GITHUB, err);
	if (r == 0 && (r = set_file(s, w[0], err)) == 0)
		read_token(s);
	return (r);
}

/* What is run stays with the monitor. */
static int
read_command(struct source *s, char **w, unsigned n, struct sbx_err *err)
{
	uint64_t within = 0;

	if (n != 1 || sbx_parse_u64(w[0], 1, SOURCE_COMMAND_S, &within) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "github_token_command SECONDS"));
	s->within_s = (unsigned)within;
	return (set_host(s, SOURCE_GITHUB, err));
}

static const struct {
	const char *keyword;
	enum source_kind kind;
	int (*read)(struct source *s, char **words, unsigned n,
	    struct sbx_err *err);
} rows[] = {
	{ "github_token_command", SOURCE_COMMAND, read_command },
	{ "github_app", SOURCE_APP, read_app },
	{ "github_token_file", SOURCE_TOKEN, read_token_file },
};

static int
read_line(struct sources *all, const char *line, enum source_kind kind,
    struct sbx_err *err)
{
	const size_t len = strlen(rows[kind].keyword);
	SBX_CLEANUP(free) char *copy = NULL;
	char *words[WORDS_MAX] = { NULL };
	struct sbx_err why = { 0 };
	struct source *s;

	if (strncmp(line, rows[kind].keyword, len) != 0 ||
	    (line[len] != ' ' && line[len] != '\0'))
		return (0);
	if (all->n == SOURCES_MAX)
		return (sbx_err_set(err, SBX_E_LIMIT,
		    "more than %u sources", SOURCES_MAX));
	copy = sbx_xstrdup(line + len);
	s = &all->s[all->n++];
	s->kind = kind;
	s->fd = -1;
	/* what was meant is not known, but it was meant to be used */
	if (rows[kind].read(s, words, split(copy, words), &why) < 0) {
		(void)snprintf(s->bad, sizeof(s->bad), "%s", why.msg);
		if (s->host[0] == '\0')
			(void)set_host(s, SOURCE_GITHUB, NULL); /* it is one */
	}
	return (1);
}

static unsigned
count_keys(const struct sbx_strs *lines)
{
	const char *l;
	unsigned n = 0;

	for (l = sbx_strs_next(lines, NULL); l != NULL;
	    l = sbx_strs_next(lines, l))
		n += strncmp(l, "github_app ", 11) == 0 ||
		    strncmp(l, SIGNER, sizeof(SIGNER) - 1) == 0;
	return (n);
}

/* 1: it was one. */
static int
read_signer(struct sources *all, const char *line, struct sbx_err *err)
{
	struct source *s = &all->signer;
	SBX_CLEANUP(secret) struct sbx_secret *pem = NULL;
	struct sbx_err why = { 0 };

	if (strncmp(line, SIGNER, sizeof(SIGNER) - 1) != 0)
		return (0);
	if (all->signs)
		return (sbx_err_set(err, SBX_E_LIMIT, "more than one " SIGNER));
	all->signs = true;
	s->fd = -1;
	if (set_file(s, line + sizeof(SIGNER) - 1, &why) < 0)
		(void)snprintf(s->bad, sizeof(s->bad), "%s", why.msg);
	else if ((pem = file_read(s, SOURCE_KEY_MAX)) == NULL)
		return (1);
	else if (key_read_ed25519(pem, &s->key, &why) < 0)
		bad(s, "%s", why.msg);
	else if (sshsig_ready(s->key, all->signer_line) < 0)
		bad(s, "its key cannot sign");
	return (1);
}

/* By kind first, so that the table has the order in which they are asked. */
int
sources_read(struct sources *all, const struct sbx_strs *lines,
    struct sbx_err *err)
{
	const unsigned keys = count_keys(lines);
	const char *l;
	unsigned kind, taken = 0;
	int r;

	if (keys > 0 && (r = key_init(keys, err)) < 0)
		return (r);
	for (kind = 0; kind < SOURCE_KIND_MAX; kind++)
		for (l = sbx_strs_next(lines, NULL); l != NULL;
		    l = sbx_strs_next(lines, l)) {
			r = read_line(all, l, (enum source_kind)kind, err);
			if (r < 0)
				return (r);
			taken += (unsigned)r;
		}
	for (l = sbx_strs_next(lines, NULL); l != NULL;
	    l = sbx_strs_next(lines, l)) {
		if ((r = read_signer(all, l, err)) < 0)
			return (r);
		taken += (unsigned)r;
	}
	if (taken != lines->count)
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "a source is none of github_token_command, github_app, "
		    "github_token_file, publish_signing_key"));
	return (0);
}

void
sources_clear(struct sources *all)
{
	for (unsigned i = 0; i < all->n; i++) {
		key_free(all->s[i].key);
		token_unref(all->s[i].token);
		sbx_close(&all->s[i].fd);
	}
	key_free(all->signer.key);
	if (all->signs)
		sbx_close(&all->signer.fd);
	explicit_bzero(all, sizeof(*all));
}

/* No path can be looked at in the cage.  Who puts another file in the place of
 * this one takes its name from it, which is a change of it. */
bool
source_changed(const struct source *s)
{
	const struct stat *was = &s->was;
	struct stat st;

	return (s->fd != -1 && (fstat(s->fd, &st) == -1 || st.st_nlink !=
	    was->st_nlink || st.st_mode != was->st_mode ||
	    st.st_uid != was->st_uid || st.st_gid != was->st_gid ||
	    st.st_size != was->st_size ||
	    memcmp(&st.st_mtim, &was->st_mtim, sizeof(st.st_mtim)) != 0 ||
	    memcmp(&st.st_ctim, &was->st_ctim, sizeof(st.st_ctim)) != 0));
}

const struct source *
sources_next(const struct sources *all, const char *host,
    const struct source *after)
{
	const struct source *s = after == NULL ? all->s : after + 1;

	for (; s < all->s + all->n; s++)
		if (strcmp(s->host, host) == 0)
			return (s);
	return (NULL);
}

void
source_said(struct sources *all, const struct source *s, const char *why)
{
	struct source *own = &all->s[s - all->s];

	own->asked_wall_ns = sbx_wall_ns();
	(void)snprintf(own->why, sizeof(own->why), "%s", /* cut, not refused */
	    why != NULL ? why : "");
}
