#include "common/base/json.h"
#include "common/base/limits.h"
#include "config.h"
#include "sbxd/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Each request carries its revision, so a connection has no state to make
 * first.  Source: MCP revision 2026-07-28, _meta. */
static struct json_object *
request_meta(void)
{
	struct json_object *meta = json_object_new_object(),
			   *info = json_object_new_object();

	json_object_object_add(info, "name", json_object_new_string("sbx"));
	json_object_object_add(info, "version",
	    json_object_new_string(PACKAGE_VERSION));
	json_object_object_add(meta, "io.modelcontextprotocol/protocolVersion",
	    json_object_new_string("2026-07-28"));
	json_object_object_add(meta, "io.modelcontextprotocol/clientInfo",
	    info);
	json_object_object_add(meta,
	    "io.modelcontextprotocol/clientCapabilities",
	    json_object_new_object());
	return (meta);
}

int
client_connect(const char *path, int type, int slot, int *ret_fd,
    struct sbx_err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int SBX_CLEANUP(fd) fd = -1;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (sbx_strlcpy(sun.sun_path, path, sizeof(sun.sun_path)) != 0)
		return (sbx_err_set(err, SBX_E_LIMIT,
		    "%.150s: longer than a socket's path may be", path));
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd == -1)
		return (sbx_err_sys(err, "socket"));
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		return (errno == ENOENT || errno == ECONNREFUSED ?
		    sbx_err_set(err, SBX_E_NOENT, "no suite runs in slot %d",
		    slot) : sbx_err_sys(err, "suite %d: connect", slot));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1)
		return (sbx_err_sys(err, "SO_PEERCRED"));
	if (cred.uid != 0 && cred.uid != geteuid() && geteuid() != 0)
		return (sbx_err_set(err, SBX_E_POLICY,
		    "the socket of suite %d belongs to uid %u", slot,
		    (unsigned)cred.uid));
	*ret_fd = sbx_steal_fd(&fd);
	return (0);
}

int
client_open(const struct cli *cli, int slot, struct client *ret_c,
    struct sbx_err *err)
{
	char path[PATH_MAX + 64];
	int fd, r;

	(void)snprintf(path, sizeof(path), "%s/suite-%d/mcp.sock",
	    cli->paths.run, slot);
	if ((r = client_connect(path, SOCK_STREAM, slot, &fd, err)) != 0)
		return (r);
	*ret_c = (struct client){ .fd = fd, .slot = slot };
	sbx_buf_init(&ret_c->in, SBX_MAX_JSON);
	return (0);
}

void
client_close(struct client *c)
{
	sbx_close(&c->fd);
	sbx_buf_clear(&c->in);
}

const char *
client_str(struct json_object *o, const char *name)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, name, &v) || v == NULL)
		return ("");
	return (json_object_get_string(v));
}

int64_t
client_int(struct json_object *o, const char *name, int64_t absent)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, name, &v) || v == NULL)
		return (absent);
	return (json_object_get_int64(v));
}

/* One line without its newline: *ret_n bytes at the front of c->in. */
static int
client_line(struct client *c, uint64_t until_ns, size_t *ret_n,
    struct sbx_err *err)
{
	char chunk[65536], *nl;
	size_t seen = 0;

	for (;;) {
		struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
		uint64_t now = sbx_mono_ns();
		ssize_t n;

		nl = c->in.len > seen ? memchr(c->in.data + seen, '\n',
		    c->in.len - seen) : NULL;
		if (nl != NULL) {
			*ret_n = (size_t)(nl - c->in.data);
			return (0);
		}
		seen = c->in.len;
		if (now >= until_ns || poll(&pfd, 1,
		    (int)((until_ns - now) / 1000000) + 1) == 0)
			return (sbx_err_set(err, SBX_E_TIMEOUT,
			    "the suite did not answer in time"));
		n = recv(c->fd, chunk, sizeof(chunk), 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return (sbx_err_set(err, SBX_E_CLOSED,
			    "the suite closed the connection"));
		if (sbx_buf_add(&c->in, chunk, (size_t)n) != 0)
			return (sbx_err_set(err, SBX_E_LIMIT,
			    "the suite's answer is too large"));
	}
}

/* The answer to request c->id, notifications skipped. */
static int
client_answer(struct client *c, int timeout_ms, struct json_object **ret_msg,
    struct sbx_err *err)
{
	uint64_t until = sbx_mono_ns() + (uint64_t)timeout_ms * 1000000;

	for (;;) {
		struct json_object *msg = NULL;
		size_t n;
		int r;

		if ((r = client_line(c, until, &n, err)) != 0)
			return (r);
		c->in.data[n] = '\0';
		if (sbx_json_scan(c->in.data, n, SBX_MAX_JSON,
		    SBX_MAX_JSON_DEPTH, NULL) == 0)
			msg = json_tokener_parse(c->in.data);
		sbx_buf_consume(&c->in, n + 1);
		if (msg == NULL || !json_object_is_type(msg, json_type_object)) {
			json_object_put(msg);
			return (sbx_err_set(err, SBX_E_SYNTAX,
			    "the suite sent something that is not JSON"));
		}
		if (client_int(msg, "id", -1) == c->id) {
			*ret_msg = msg;
			return (0);
		}
		json_object_put(msg);
	}
}

static int
client_result(struct json_object *msg, struct json_object **ret_result,
    struct sbx_err *err)
{
	struct json_object *o, *sc;

	if (json_object_object_get_ex(msg, "error", &o))
		return (sbx_err_set(err, SBX_E_SYNTAX, "%.200s",
		    client_str(o, "message")));
	if (!json_object_object_get_ex(msg, "result", &o) ||
	    !json_object_object_get_ex(o, "structuredContent", &sc) ||
	    !json_object_is_type(sc, json_type_object))
		return (sbx_err_set(err, SBX_E_SYNTAX,
		    "the suite's answer has no structured result"));
	*ret_result = json_object_get(sc);
	if (client_int(o, "isError", 0) != 0) {
		char text[200];
		const char *s = client_str(sc, "error");

		return (sbx_err_set(err, SBX_E_POLICY, "%s",
		    sbx_vis(text, sizeof(text), s, strlen(s))));
	}
	return (0);
}

int
client_call(struct client *c, const char *tool, struct json_object *args,
    int timeout_ms, struct json_object **ret_result, struct sbx_err *err)
{
	struct json_object *req = json_object_new_object(),
			   *params = json_object_new_object(), *msg = NULL;
	SBX_CLEANUP_BUF struct sbx_buf out = { 0 };
	int r;

	*ret_result = NULL;
	json_object_object_add(params, "_meta", request_meta());
	json_object_object_add(params, "name", json_object_new_string(tool));
	json_object_object_add(params, "arguments", args);
	json_object_object_add(req, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(req, "id", json_object_new_int64(++c->id));
	json_object_object_add(req, "method",
	    json_object_new_string("tools/call"));
	json_object_object_add(req, "params", params);
	sbx_buf_init(&out, SBX_MAX_JSON);
	r = sbx_buf_printf(&out, "%s\n", json_object_to_json_string_ext(req,
	    JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(req);
	if (r != 0)
		return (sbx_err_set(err, r, "the request is too large"));
	if (sbx_write_all(c->fd, out.data, out.len) != 0)
		return (sbx_err_sys(err, "writing to the suite"));
	if ((r = client_answer(c, timeout_ms, &msg, err)) != 0)
		return (r);
	r = client_result(msg, ret_result, err);
	json_object_put(msg);
	return (r);
}
