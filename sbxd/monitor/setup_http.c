#include "sbxd/monitor/monitor.h"

#include "common/base/paths.h"
#include "common/base/token.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What HTTP needs, before the cage: the listener, which the front is handed,
 * and the file of tokens, which stays open so that one that was added is known
 * without a restart.
 */

/* --- the listener ----------------------------------------------------------- */

/* An address, not a name: nothing here asks a name server. */
static int
find_address(const struct monitor *m, struct addrinfo **ret_ai,
    struct sbx_err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE };
	char port[8];

	(void)snprintf(port, sizeof(port), "%u", (unsigned)m->conf.port);
	if (getaddrinfo(m->conf.host, port, &hints, ret_ai) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, "host must be an "
		    "address such as 127.0.0.1, not '%.64s'", m->conf.host));
	return (0);
}

static bool
is_loopback(const struct addrinfo *ai)
{
	struct sockaddr_in in = { 0 };
	struct sockaddr_in6 in6 = { 0 };

	if (ai->ai_family == AF_INET) {
		memcpy(&in, ai->ai_addr, sizeof(in));
		return (ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET);
	}
	memcpy(&in6, ai->ai_addr, sizeof(in6));
	return (IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr));
}

/* What a configuration can say that no suite with HTTP starts with. */
int
setup_http_check(const struct monitor *m, bool *ret_public,
    struct sbx_err *err)
{
	struct addrinfo *ai;
	int r;

	*ret_public = false;
	if (strcmp(m->conf.transport, "http") != 0)
		return (0);
	if ((r = find_address(m, &ai, err)) != 0)
		return (r);
	*ret_public = !is_loopback(ai);
	freeaddrinfo(ai);
	if (*ret_public && strcmp(m->conf.http_auth, "none") == 0)
		return (sbx_err_set(err, SBX_E_POLICY, "http_auth none lets "
		    "everybody who reaches %.64s use sandboxes: set http_auth "
		    "token, or host 127.0.0.1", m->conf.host));
	return (0);
}

static int
open_listener(struct monitor *m, struct sbx_err *err)
{
	int SBX_CLEANUP(fd) fd = -1;
	struct addrinfo *ai;
	const int on = 1;
	int r;

	if ((r = find_address(m, &ai, err)) != 0)
		return (r);
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on,
	    sizeof(on)) == -1 || bind(fd, ai->ai_addr, ai->ai_addrlen) == -1 ||
	    listen(fd, 256) == -1)
		r = sbx_err_sys(err, "listen on %.64s port %u (another one "
		    "can be chosen with --port)", m->conf.host,
		    (unsigned)m->conf.port);
	freeaddrinfo(ai);
	if (r == 0)
		m->fd_http = sbx_steal_fd(&fd);
	return (r);
}

/* --- tokens ------------------------------------------------------------------- */

static struct token *
token_named(struct monitor *m, const char *name)
{
	for (size_t i = 0; i < m->ntokens; i++)
		if (strcmp(m->tokens[i].name, name) == 0)
			return (&m->tokens[i]);
	return (NULL);
}

/* Its directory is opened before the cage only, with whose rights it is. */
static void
open_root(const struct monitor *m, struct token *t, const char *root)
{
	struct sbx_err err = { 0 };
	struct stat st;

	if (root[0] == '\0')
		return;
	if (sbx_homes_open_root(&m->homes, root, &t->root_fd, &err) != 0 ||
	    fstat(t->root_fd, &st) == -1) {
		log_warn("token %s: copying is unavailable: %s", t->name,
		    err.msg);
		sbx_close(&t->root_fd);
		return;
	}
	t->uid = m->by_root ? st.st_uid : m->uid;
	t->gid = m->by_root ? st.st_gid : m->gid;
}

/* A token of a line; its directory from the table before, if it was there. */
static void
take_token(struct monitor *m, const struct sbx_token *line, bool caged,
    struct token *t)
{
	struct token *old = token_named(m, line->name);

	*t = (struct token){ .root_fd = -1, .uid = (uid_t)-1,
		.gid = (gid_t)-1 };
	(void)sbx_strlcpy(t->name, line->name, sizeof(t->name));
	(void)sbx_strlcpy(t->sha256, line->sha256, sizeof(t->sha256));
	if (old != NULL && strcmp(old->sha256, t->sha256) == 0) {
		t->root_fd = sbx_steal_fd(&old->root_fd);
		t->uid = old->uid;
		t->gid = old->gid;
	} else if (!caged)
		open_root(m, t, line->root);
}

/*
 * The whole table anew; one line that is none and the old one stays.  caged:
 * a new token's directory cannot be opened any more.
 */
int
tokens_read(struct monitor *m, bool caged)
{
	SBX_CLEANUP(free) char *text = sbx_xcalloc(1, SBX_TOKENS_FILE + 1);
	struct token table[SBX_MAX_TOKENS];
	struct sbx_token_reader lines;
	struct sbx_token line;
	size_t n = 0, i;
	ssize_t len;

	len = m->fd_tokens == -1 ? -1 : pread(m->fd_tokens, text,
	    SBX_TOKENS_FILE + 1, 0);
	if (len < 0 || (size_t)len > SBX_TOKENS_FILE)
		return (SBX_E_LIMIT);
	if ((m->tokens_line = sbx_tokens_check(text, (size_t)len)) != 0)
		return (SBX_E_SYNTAX);
	lines = (struct sbx_token_reader){ text, text + len, 0 };
	while (sbx_token_next(&lines, &line) == 1)
		take_token(m, &line, caged, &table[n++]);
	for (i = 0; i < m->ntokens; i++)
		sbx_close(&m->tokens[i].root_fd);
	memcpy(m->tokens, table, n * sizeof(table[0]));
	m->ntokens = n;
	return (0);
}

/* In the order of the table, each to its end: how long it takes says nothing
 * of how much of a digest was right. */
struct token *
token_find(struct monitor *m, const char *sha256)
{
	struct token *found = NULL;

	for (size_t i = 0; i < m->ntokens; i++)
		if (sbx_same_secret(m->tokens[i].sha256, sha256,
		    SBX_SHA256_HEX))
			found = &m->tokens[i];
	return (found);
}

const char *
http_url(const struct monitor *m, char dst[SBX_HTTP_URL_MAX])
{
	bool v6 = strchr(m->conf.host, ':') != NULL;

	(void)snprintf(dst, SBX_HTTP_URL_MAX, "http://%s%s%s:%u/mcp",
	    v6 ? "[" : "", m->conf.host, v6 ? "]" : "",
	    (unsigned)m->conf.port);
	return (dst);
}

/* --- the first token -------------------------------------------------------------- */

static void
print_clients(const struct monitor *m, const char *token)
{
	char url[SBX_HTTP_URL_MAX];

	(void)fprintf(stderr, "\nFor an MCP client:\n\n"
	    "  { \"mcpServers\": { \"sbx\": { \"type\": \"http\",\n"
	    "      \"url\": \"%s\",\n"
	    "      \"headers\": { \"Authorization\": \"Bearer %s\" } } } }\n\n",
	    http_url(m, url), token);
}

/*
 * Nobody was given a token yet: one named local, in a file of its own that only
 * its user can read, and its digest where the others are.
 */
static int
first_token(struct monitor *m, const char *path, struct sbx_err *err)
{
	char token[SBX_TOKEN_SIZE], sha256[SBX_SHA256_HEX + 1], line[160];
	int r;

	sbx_token_new(token, sha256);
	(void)snprintf(line, sizeof(line), SBX_TOKEN_LOCAL " %s\n", sha256);
	if ((r = sbx_token_save(path, token, err)) != 0)
		return (r);
	if (sbx_write_all(m->fd_tokens, line, strlen(line)) != 0)
		return (sbx_err_sys(err, "the file of tokens"));
	print_clients(m, token);
	return (0);
}

int
setup_http(struct monitor *m, struct sbx_err *err)
{
	char SBX_CLEANUP(free) *path = NULL, *first = NULL;
	struct stat st;
	bool public;
	int r;

	if (strcmp(m->conf.transport, "http") != 0)
		return (0);
	if ((r = setup_http_check(m, &public, err)) != 0 ||
	    (r = sbx_make_dirs(m->paths.etc, err)) != 0)
		return (r);
	path = sbx_xasprintf("%s/tokens", m->paths.etc);
	m->fd_tokens = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (m->fd_tokens == -1 || fstat(m->fd_tokens, &st) == -1)
		return (sbx_err_sys(err, "%.160s", path));
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return (sbx_err_set(err, SBX_E_POLICY, "%.160s can be written "
		    "by others: chown and chmod 600 it", path));
	/* nothing is said of how to get in before it is known that one can */
	if ((r = open_listener(m, err)) != 0)
		return (r);
	if (public)
		log_warn("tokens travel in clear text to %s: let a reverse "
		    "proxy speak TLS before it, host 127.0.0.1, and name the "
		    "proxy in http_hosts", m->conf.host);
	first = sbx_xasprintf("%s/token-local", m->paths.etc);
	if (strcmp(m->conf.http_auth, "token") != 0)
		;	/* nobody shows one */
	else if (st.st_size == 0 && (r = first_token(m, first, err)) != 0)
		return (r);
	else if (st.st_size != 0 && access(first, F_OK) == 0)
		log_notice("the token of local is in %s", first);
	if (tokens_read(m, false) != 0)
		return (sbx_err_set(err, SBX_E_SYNTAX, SBX_TOKEN_BAD_LINE,
		    path, m->tokens_line, SBX_MAX_TOKENS));
	return (0);
}
