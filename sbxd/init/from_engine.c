/* What the engine may ask of PID 1. */
#include "sbxd/init/init.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint16_t types[] = { SBX_MSG_INIT_START, SBX_MSG_INIT_EXEC,
	SBX_MSG_INIT_KILL, SBX_MSG_INIT_UNPACK, SBX_MSG_INIT_SHELL,
	SBX_MSG_INIT_FILE, 0 };
const struct sbx_accepts init_from_engine = { SBX_PROC_INIT, SBX_PROC_ENGINE,
	types };

/* A send that fails means that the engine is gone: so is the sandbox. */
void
init_send(uint16_t type, uint32_t id, const void *msg, const int *fds)
{
	if (sbx_wire_send(INIT_FD, SBX_PROC_INIT, type, id, msg, fds, 0) != 0)
		_exit(3);
}

static void
on_kill(struct init *in, const char *run, uint32_t id)
{
	struct job *j = job_find(in, run);
	struct sbx_init_killed m = { .run = run };

	if (j == NULL)
		init_send(SBX_MSG_INIT_KILLED, id, &m, NULL);
	else
		kill_begin(in, j, id);
}

int
init_handle(struct init *in)
{
	int r = sbx_wire_recv(INIT_FD, SBX_PROC_INIT, SBX_PROC_ENGINE, &in->in,
	    MSG_DONTWAIT);

	if (r == SBX_E_AGAIN)
		return (0);
	if (r < 0)
		return (r);
	if (!sbx_accepts(&init_from_engine, in->in.hdr.type) ||
	    in->in.hdr.type == SBX_MSG_INIT_START)	/* once, and it came */
		r = SBX_E_STATE;
	else if (in->in.hdr.type == SBX_MSG_INIT_EXEC)
		job_start(in, &in->in.m.init_exec, in->in.fds, in->in.hdr.id,
		    false);
	else if (in->in.hdr.type == SBX_MSG_INIT_SHELL)
		shell_start(in, &in->in.m.init_shell, in->in.hdr.id);
	else if (in->in.hdr.type == SBX_MSG_INIT_KILL)
		on_kill(in, in->in.m.init_kill.run, in->in.hdr.id);
	else if (in->in.hdr.type == SBX_MSG_INIT_FILE)
		file_start(in, &in->in.m.init_file, in->in.fds, in->in.hdr.id);
	else
		unpack_start(in, &in->in.m.init_unpack, in->in.fds[0],
		    in->in.hdr.id);
	sbx_in_clear(&in->in);
	return (r);
}
