/*
 * row_probe ROW FAMILY|PATH: enter a row, then try socket(FAMILY), or to open
 * the file for reading.  Exits 0 when that went, 10 when it was refused with an
 * errno; a cage that kills ends it by SIGSYS.  20: the row could not be
 * entered.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/privs/row.h"

int
main(int argc, char **argv)
{
	struct sbx_privs_args args = { .uid = getuid(), .gid = getgid() };
	struct sbx_err err;
	uint32_t features;
	uint64_t family = 0;
	int dirs[SBX_PRIVS_DIRS_MAX], proc = 0;

	if (argc != 3 || (*argv[2] != '/' &&
	    sbx_parse_u64(argv[2], 1, 64, &family) != 0))
		return (20);
	while (proc < SBX_PROC_MAX && strcmp(sbx_proc_name(proc), argv[1]) != 0)
		proc++;
	if (proc == SBX_PROC_MAX)
		return (20);
	for (size_t i = 0; i < SBX_NELEM(dirs); i++)
		dirs[i] = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	args.dir_fds = dirs;
	while (args.ndir_fds < SBX_PRIVS_DIRS_MAX && sbx_privs_row((enum
	    sbx_proc)proc)->dirs[args.ndir_fds].what != NULL)
		args.ndir_fds++;
	if (sbx_privs_enter(proc, &args, &features, &err) != 0) {
		fprintf(stderr, "%s: %s\n", argv[1], err.msg);
		return (20);
	}
	_exit((family == 0 ? open(argv[2], O_RDONLY) :
	    socket((int)family, SOCK_STREAM, 0)) == -1 ? 10 : 0);
}
