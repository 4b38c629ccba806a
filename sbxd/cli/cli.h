#ifndef SBX_CLI_CLI_H
#define SBX_CLI_CLI_H

/* The command line's own: its environment, and a client of a suite. */

#include "common/base/paths.h"

#include <json-c/json.h>
#include <sys/types.h>

struct cli {
	struct sbx_paths paths;
	char bindir[PATH_MAX];	/* where this program is; sbxd is beside it */
	const char *home, *term; /* borrowed from the environment, or NULL */
	int slot;		/* -s N, or -1: every running suite */
	bool json;		/* --json */
};

enum { CLI_OK = 0, CLI_USAGE = 1, CLI_FATAL = 2, CLI_PEER = 3,
	CLI_SYNTAX = -1 };	/* main prints how to call, exits CLI_USAGE */

/* A suite's control socket: MCP with stdio framing, one call at a time. */
struct client {
	int fd, slot;
	long id;
	struct sbx_buf in;
};
/*
 * Connect to a socket of the suite in `slot`; type: SOCK_STREAM or
 * SOCK_SEQPACKET.  *ret_fd: owned by the caller.  Errors: as client_open.
 */
int client_connect(const char *path, int type, int slot, int *ret_fd,
    struct sbx_err *err);
/*
 * Connect to the suite in `slot`.  Its socket is in a directory that only
 * this user (or root) can write, which is what makes it trustworthy.
 * 0, SBX_E_NOENT (no suite there), SBX_E_POLICY (another user's), SBX_E_SYS.
 */
int client_open(const struct cli *cli, int slot, struct client *ret_c,
    struct sbx_err *err);
void client_close(struct client *c);
/*
 * Call a tool and wait for its structured result.  args: consumed.
 * *ret_result: owned by the caller (json_object_put).  A result with isError
 * is SBX_E_POLICY with its sentence in err, and *ret_result is still set.
 * 0, SBX_E_TIMEOUT, SBX_E_CLOSED, SBX_E_SYNTAX, SBX_E_POLICY, SBX_E_SYS.
 */
int client_call(struct client *c, const char *tool, struct json_object *args,
    int timeout_ms, struct json_object **ret_result, struct sbx_err *err);
/* Member as text, "" when absent or null; borrowed. */
const char *client_str(struct json_object *o, const char *name);
int64_t client_int(struct json_object *o, const char *name, int64_t absent);

/*
 * The suite that has sandbox or name `who`: connected in *ret_c, its id in
 * ret_id.  0, SBX_E_NOENT, SBX_E_EXISTS (more than one), and client_call's.
 */
int cli_find(const struct cli *cli, const char *who, struct client *ret_c,
    char ret_id[16], struct sbx_err *err);

/* sbx.conf of this user and SBX_*; no file: everything at its default.  0,
 * SBX_E_SYS, SBX_E_LIMIT, and what sbx_conf_parse() returns. */
struct sbx_conf;
int cli_conf(const struct cli *cli, struct sbx_conf *c, struct sbx_err *err);
/* What of the suite's channels this program takes (sbx -P). */
struct sbx_accepts;
extern const struct sbx_accepts cli_from_monitor, cli_from_image;
/* Remove what is below dir, links not followed, not across a mount. */
void cli_empty_dir(const char *dir);
/* Print "sbx: sentence" and return status. */
int cli_fail(int status, const struct sbx_err *err);
/* argv[0] is "sbx NAME".  Each returns an exit status, or CLI_SYNTAX. */
int cmd_mcp(struct cli *cli, int argc, char **argv);
int cmd_ps(struct cli *cli, int argc, char **argv);
int cmd_exec(struct cli *cli, int argc, char **argv);
int cmd_shell(struct cli *cli, int argc, char **argv);
int cmd_stop(struct cli *cli, int argc, char **argv);
int cmd_clean(struct cli *cli, int argc, char **argv);
int cmd_image(struct cli *cli, int argc, char **argv);
int cmd_token(struct cli *cli, int argc, char **argv);
/* "HOST/OWNER/NAME" or "OWNER/NAME", which is GitHub's, as grants have them: in
 * lower case, and cut in place.  Not checked. */
void cli_repo(char *text, const char **ret_host, const char **ret_repo);
/* Below refs/heads/ or refs/tags/. */
bool cli_is_ref(const char *s);
int cmd_explain(struct cli *cli, int argc, char **argv);
int cmd_grant(struct cli *cli, int argc, char **argv);
int cmd_lockdown(struct cli *cli, int argc, char **argv);
int cmd_publish(struct cli *cli, int argc, char **argv);
int cmd_approve(struct cli *cli, int argc, char **argv);
int cmd_broker(struct cli *cli, int argc, char **argv);
int cmd_register(struct cli *cli, int argc, char **argv);
/* Are suites of this user locked down? */
bool cli_locked(const struct cli *cli);
int cmd_doctor(struct cli *cli, int argc, char **argv);

#endif
