/*
 * sbx, the command line.
 *
 * It holds nothing and has no privilege of its own: it talks MCP to a running
 * suite over that suite's sockets, as the user who calls it, reads the journal's
 * files with that user's rights, or becomes a private suite (mcp).
 * Nobody talks to it.  It must never be able to do what its caller may not.
 */
#include "common/proto/accepts.h"
#include "config.h"
#include "sbxd/cli/cli.h"
#include "sbxd/cli/cmd_journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cmd_journal_slot(struct cli *, int, char **);
static int cmd_version(struct cli *, int, char **);

static const struct command {
	const char *name;
	int (*run)(struct cli *, int, char **);
	const char *args, *what;
} commands[] = {
	{ "mcp", cmd_mcp, "[--copy-root DIR] [--profile NAME] [--private]",
	    "serve MCP on stdin and stdout" },
	{ "ps", cmd_ps, "[--json]", "list sandboxes" },
	{ "exec", cmd_exec, "[-i] [-w DIR] [-t SECONDS] SANDBOX -- COMMAND ...",
	    "run a command in a sandbox" },
	{ "shell", cmd_shell, "[-w DIR] SANDBOX [-- COMMAND ...]",
	    "a terminal in a sandbox" },
	{ "stop", cmd_stop, "[-f] SANDBOX ...", "stop sandboxes" },
	{ "clean", cmd_clean, "[-f]",
	    "remove what dead suites left; -f: stop all sandboxes first" },
	{ "image", cmd_image, "import [--name NAME]... SOURCE | list [--json] |"
	    "\n           inspect IMAGE | name NAME IMAGE | rm IMAGE",
	    "keep the images that sandboxes are made of" },
	{ "token", cmd_token, "add [--copy-root DIR] NAME | list | rm NAME",
	    "say who may use MCP over HTTP" },
	{ "journal", cmd_journal_slot, "tail|show|verify [OPTION ...]",
	    "read and verify the audit journal" },
	{ "grant", cmd_grant,
	    "[-f] [-o OLD] [-t SECONDS] SANDBOX [HOST/]OWNER/NAME REF NEW",
	    "let a sandbox push one commit to one ref" },
	{ "publish", cmd_publish, "list [--json] | show [--json] "
	    "[--unmasked] RUN | "
	    "reconcile RUN",
	    "show what is published: files, diff, verdicts, gate, grant" },
	{ "approve", cmd_approve, "RUN | --refuse RUN [REASON]",
	    "let a publication go that waits for it, or refuse it" },
	{ "lockdown", cmd_lockdown, "[on | off | status]",
	    "end every grant and token and close all ways out, or lift that" },
	{ "broker", cmd_broker, "status",
	    "show where credentials come from, and nothing of them" },
	{ "register", cmd_register, "app [--host HOST] [--id N] "
	    "[--installation N] [--key FILE]\n           [--write] [--replace] |"
	    "\n           token [--host HOST] [--stdin] [--write] [--replace]",
	    "put a GitHub App's key or a token where the broker reads it" },
	{ "explain", cmd_explain, "[-X METHOD] URL | push [HOST/]OWNER/NAME REF",
	    "say whether egress allows it, why, and what would" },
	{ "doctor", cmd_doctor, "[--json]", "check what this machine lacks" },
	{ "version", cmd_version, "", "print the version" },
};

static int
usage(FILE *out)
{
	fprintf(out, "usage: sbx [-s SUITE] COMMAND [ARGUMENT ...]\n\n");
	for (size_t i = 0; i < SBX_NELEM(commands); i++)
		fprintf(out, "  %-8s %s\n           %s\n", commands[i].name,
		    commands[i].args, commands[i].what);
	return (out == stdout ? CLI_OK : CLI_USAGE);
}

static int
usage_of(const struct command *cmd, const char *name, FILE *out)
{
	fprintf(out, "usage: %s%s%s\n", name,
	    cmd->args[0] == '\0' ? "" : " ", cmd->args);
	return (out == stdout ? CLI_OK : CLI_USAGE);
}

static int
run_command(const struct command *cmd, struct cli *cli, int argc, char **argv)
{
	static char name[32];
	int status;

	(void)snprintf(name, sizeof(name), "sbx %s", cmd->name);
	argv[0] = name;		/* getopt(3) puts it before what it says */
	optind = 0;		/* ... and scans anew */
	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return (usage_of(cmd, name, stdout));
	status = cmd->run(cli, argc, argv);
	if (status != CLI_SYNTAX)
		return (status);
	return (usage_of(cmd, name, stderr));
}

int
cli_fail(int status, const struct sbx_err *err)
{
	fprintf(stderr, "sbx: %s\n", err->msg);
	return (status);
}

static int
cmd_version(struct cli *cli, int argc, char **argv)
{
	(void)cli, (void)argc, (void)argv;
	puts(PACKAGE_STRING);
	return (CLI_OK);
}

/* When a file of this journal was last written; 0 when there is none. */
static int64_t
journal_written(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	int64_t ns, last = 0;

	if (d == NULL)
		return (0);
	while ((e = readdir(d)) != NULL)
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
		    0 && S_ISREG(st.st_mode)) {
			ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
			    st.st_mtim.tv_nsec;
			last = ns > last ? ns : last;
		}
	(void)closedir(d);
	return (last);
}

/* The suite whose journal was written last: what a reader most likely means
 * when none is named. */
static int
newest_journal(const struct cli *cli)
{
	char path[PATH_MAX + 64];
	int64_t ns, best = 0;
	int slot = -1;

	for (int i = 0; i < SBX_MAX_SLOTS; i++) {
		(void)snprintf(path, sizeof(path), "%s/suite-%d/journal",
		    cli->paths.state, i);
		ns = journal_written(path);
		if (ns > best) {
			best = ns;
			slot = i;
		}
	}
	return (slot);
}

static int
cmd_journal_slot(struct cli *cli, int argc, char **argv)
{
	char dir[PATH_MAX + 64];
	int slot = cli->slot != -1 ? cli->slot : newest_journal(cli);

	if (slot == -1) {
		fprintf(stderr, "sbx: no journal below %s: no suite ran yet\n",
		    cli->paths.state);
		return (CLI_USAGE);
	}
	(void)snprintf(dir, sizeof(dir), "%s/suite-%d/journal",
	    cli->paths.state, slot);
	return (cmd_journal(dir, cli->paths.cache[0] == '\0' ? NULL :
	    cli->paths.cache, argc, argv));
}

/* The directory of this very program, where sbxd is installed too. */
static void
find_bindir(struct cli *cli)
{
	ssize_t n = readlink("/proc/self/exe", cli->bindir, PATH_MAX - 1);
	char *slash;

	if (n <= 0) {
		(void)sbx_strlcpy(cli->bindir, SBX_BINDIR, PATH_MAX);
		return;
	}
	cli->bindir[n] = '\0';
	if ((slash = strrchr(cli->bindir, '/')) != NULL)
		*slash = '\0';
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' }, { 0 } };
	static const struct sbx_accepts *const lists[] = { &cli_from_monitor,
		&cli_from_image, NULL };
	static struct cli cli = { .slot = -1 };
	struct sbx_err err;
	uint64_t v;
	int ch;

	sbx_accepts_print(argc, argv, NULL, lists);
	while ((ch = getopt_long(argc, argv, "+s:hV", longs, NULL)) != -1) {
		switch (ch) {
		case 's':
			if (sbx_parse_u64(optarg, 0, SBX_MAX_SLOTS - 1, &v)) {
				fprintf(stderr, "sbx: -s takes a suite's number"
				    ", 0 to %d\n", SBX_MAX_SLOTS - 1);
				return (CLI_USAGE);
			}
			cli.slot = (int)v;
			break;
		case 'h':
			return (usage(stdout));
		case 'V':
			return (cmd_version(&cli, 0, NULL));
		default:
			return (usage(stderr));
		}
	}
	if (optind == argc)
		return (usage(stderr));
	if (strcmp(argv[optind], "help") == 0)
		return (usage(stdout));
	(void)signal(SIGPIPE, SIG_IGN);
	find_bindir(&cli);
	cli.home = getenv("HOME");
	cli.term = getenv("TERM");
	if (sbx_paths_get(geteuid(), getenv, &cli.paths, &err) != 0)
		return (cli_fail(CLI_USAGE, &err));
	for (size_t i = 0; i < SBX_NELEM(commands); i++)
		if (strcmp(argv[optind], commands[i].name) == 0)
			return (run_command(&commands[i], &cli, argc - optind,
			    argv + optind));
	fprintf(stderr, "sbx: unknown command '%s'; `sbx --help` lists them\n",
	    argv[optind]);
	return (CLI_USAGE);
}
