/* doctor: each prerequisite, found or not, with the mend */
#include "sbxd/cli/cli.h"

#include <errno.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int missing;

static void
report(bool found, const char *what, const char *mend)
{
	printf("%-7s %s\n", found ? "ok" : "MISSING", what);
	if (found)
		return;
	printf("        %s\n", mend);
	missing++;
}

/* What the kernel lacks is known to the program that prints the rows. */
static void
check_kernel(const struct cli *cli)
{
	char path[PATH_MAX + 16];
	char *argv[] = { path, (char *)(uintptr_t)"-c", NULL };
	int status;
	pid_t pid;

	/* beside this program in a build directory, else where it was
	 * installed */
	(void)snprintf(path, sizeof(path), "%s/sbx-privs", cli->bindir);
	if (access(path, X_OK) == -1)
		(void)snprintf(path, sizeof(path), "%s/sbx-privs",
		    SBX_PKGLIBEXECDIR);
	(void)fflush(stdout);
	if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) == -1) {
		report(false, path, "install the suite again");
		return;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		missing++;
}

static void
check_users(void)
{
	static const char *const users[] = { "sbxd", "sbx-front", "sbx-broker",
		"sbx-proxy", "sbx-journal" };
	char what[64], mend[128];

	for (size_t i = 0; i < SBX_NELEM(users); i++) {
		(void)snprintf(what, sizeof(what), "user %s", users[i]);
		(void)snprintf(mend, sizeof(mend), "systemd-sysusers sbx.conf, "
		    "or: useradd --system --user-group --no-create-home %s",
		    users[i]);
		report(getpwnam(users[i]) != NULL, what, mend);
	}
}

/* The image `host` shows a sandbox this machine's own programs. */
static void
check_programs(void)
{
	static const char *const programs[] = { "bash", "git" };
	char path[64], mend[64];

	for (size_t i = 0; i < SBX_NELEM(programs); i++) {
		(void)snprintf(path, sizeof(path), "/usr/bin/%s", programs[i]);
		(void)snprintf(mend, sizeof(mend), "apt-get install %s",
		    programs[i]);
		report(access(path, X_OK) == 0, path, mend);
	}
}

int
cmd_doctor(struct cli *cli, int argc, char **argv)
{
	struct sbx_err err;
	struct client c;

	(void)argv;
	if (argc != 1)
		return (CLI_SYNTAX);
	check_kernel(cli);
	if (geteuid() == 0)
		check_users();
	check_programs();
	printf("state   %s\nrun     %s\nconfig  %s/sbx.conf\n",
	    cli->paths.state, cli->paths.run, cli->paths.etc);
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++)
		if (client_open(cli, slot, &c, &err) == 0) {
			printf("suite   %d is running\n", slot);
			client_close(&c);
		}
	printf("%s\n", missing == 0 ? "nothing is missing" :
	    "mend what is MISSING, then run this again");
	return (missing == 0 ? CLI_OK : CLI_FATAL);
}
