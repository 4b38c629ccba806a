/* clean: remove what dead suites left on the disk; -f: stop sandboxes, too */
#include "sbxd/cli/cli.h"

#include "common/base/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEAN_FDS 32
#define CLEAN_PASSES 64

#define TELL_NS UINT64_C(200000000)

static size_t unreadable, failed, removed;
static uint64_t told_ns;

/* How far it is, to whoever watches; gigabytes take a while. */
static void
progress(void)
{
	uint64_t now;

	if (++removed % 1024 != 0 || !isatty(STDERR_FILENO))
		return;
	now = sbx_mono_ns();
	if (now - told_ns < TELL_NS)
		return;
	told_ns = now;
	fprintf(stderr, "\r%zu files removed", removed);
}

/* overlayfs leaves directories of mode 000 behind: they are opened up, and what
 * is below them is for the next pass */
static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	if (type == FTW_DNR && chmod(path, 0700) == 0) {
		unreadable++;
		return (0);
	}
	if (ftw->level == 0)
		return (0);
	if (remove(path) == 0)
		progress();
	else if (errno != ENOENT)
		failed++;
	return (0);
}

/* Mostly one pass: what could not be looked into is the exception. */
void
cli_empty_dir(const char *dir)
{
	size_t before = failed;

	for (int pass = 0; pass < CLEAN_PASSES; pass++) {
		unreadable = 0;
		failed = before;
		(void)nftw(dir, remove_one, CLEAN_FDS,
		    FTW_PHYS | FTW_MOUNT | FTW_DEPTH);
		if (unreadable == 0)
			break;
	}
	if (told_ns != 0)
		fprintf(stderr, "\r%zu files removed\n", removed);
	told_ns = 0;
}

/*
 * Safe while suites run: a live suite holds the lock of its slot, and this
 * holds it meanwhile, so that none can start on what is being removed.
 */
static void
clean_slot(const struct cli *cli, int slot, bool tell)
{
	static const char *const parts[] = { "scratch", "runs" };
	char path[PATH_MAX + 64];
	int SBX_CLEANUP(fd) lock = -1;

	(void)snprintf(path, sizeof(path), "%s/suite-%d/lock",
	    cli->paths.state, slot);
	lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (lock == -1 || flock(lock, LOCK_EX | LOCK_NB) == -1)
		return;
	for (size_t i = 0; i < SBX_NELEM(parts); i++) {
		(void)snprintf(path, sizeof(path), "%s/suite-%d/%s",
		    cli->paths.state, slot, parts[i]);
		if (access(path, F_OK) == 0)
			cli_empty_dir(path);
	}
	if (tell)
		printf("suite %d: scratch and runs removed, "
		    "journal kept\n", slot);
}

static void
clean_all(const struct cli *cli, bool tell)
{
	failed = 0;
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++)
		if (cli->slot == -1 || cli->slot == slot)
			clean_slot(cli, slot, tell);
}

/* Files of sandboxes that had ids of their own are this user's to delete, but
 * only from a namespace that maps those ids. */
static int
become_owner(void)
{
	const struct passwd *pw = getpwuid(geteuid());
	int SBX_CLEANUP(fd) fd = -1;
	struct sbx_subids range;
	struct sbx_err err = { 0 };

	if (geteuid() == 0 || pw == NULL ||
	    sbx_subids(pw->pw_name, geteuid(), &range, &err) != 0 ||
	    sbx_userns_make(geteuid(), getegid(), &range, &fd, NULL,
	    &err) != 0)
		return (-1);
	return (setns(fd, CLONE_NEWUSER));
}

static int
stop_all(struct cli *cli, int slot)
{
	struct json_object *res, *list;
	struct sbx_err err;
	struct client c;
	int status = CLI_OK;

	if (client_open(cli, slot, &c, &err) != 0)
		return (CLI_OK);
	if (client_call(&c, "sandbox_list_containers", json_object_new_object(),
	    15000, &res, &err) != 0 ||
	    !json_object_object_get_ex(res, "containers", &list)) {
		json_object_put(res);
		client_close(&c);
		return (cli_fail(CLI_FATAL, &err));
	}
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const char *id = client_str(json_object_array_get_idx(list, i),
		    "container_id");
		struct json_object *args = json_object_new_object(), *r = NULL;

		json_object_object_add(args, "container_id",
		    json_object_new_string(id));
		json_object_object_add(args, "force",
		    json_object_new_boolean(true));
		if (client_call(&c, "sandbox_stop", args, 15000, &r, &err) != 0)
			status = cli_fail(CLI_FATAL, &err);
		else
			printf("%s stopped\n", id);
		json_object_put(r);
	}
	json_object_put(res);
	client_close(&c);
	return (status);
}

int
cmd_clean(struct cli *cli, int argc, char **argv)
{
	bool force = false;
	int ch, status = CLI_OK, r;

	while ((ch = getopt(argc, argv, "f")) != -1) {
		if (ch != 'f')
			return (CLI_SYNTAX);
		force = true;
	}
	if (optind != argc)
		return (CLI_SYNTAX);
	for (int slot = 0; slot < SBX_MAX_SLOTS; slot++) {
		if (cli->slot != -1 && cli->slot != slot)
			continue;
		if (force && (r = stop_all(cli, slot)) != CLI_OK)
			status = r;
	}
	clean_all(cli, true);
	if (failed != 0 && become_owner() == 0)
		clean_all(cli, false);
	if (failed != 0) {
		fprintf(stderr, "sbx: %zu files could not be removed (another "
		    "user's?)\n", failed);
		status = CLI_FATAL;
	}
	return (status);
}
