#ifndef SBX_STARTER_STARTER_H
#define SBX_STARTER_STARTER_H

#include "common/base/cgroup.h"
#include "common/proto/accepts.h"

#include <sys/types.h>

#define STARTER_CHILDREN 128	/* eight daemons, copies, looks for an image,
				 * judges, couriers */
#define STARTER_EXEC_MS 5000	/* from fork to exec, on a loaded machine */
#define STARTER_REPLACE_MS 2000	/* from SIGKILL to the end of the old one */
#define STARTER_DRAIN_MS 700	/* for the children, once the monitor ended */
#define STARTER_LEFT_MS 200	/* for what they left */
#define STARTER_GROUPS_MS 400	/* for the last process of a sandbox to go */
#define STARTER_SEND_MS 1000	/* a monitor that does not read is dead */

struct starter_child {
	enum sbx_proc proc;
	uint32_t instance;
	pid_t pid;		/* not reaped: only we do, so it is ours */
};

struct starter {
	struct sbx_chan monitor;
	int programs;		/* directory, O_PATH */
	int signals;		/* signalfd: SIGCHLD, SIGTERM, SIGINT, SIGHUP */
	bool debug;		/* each child gets -d, once */
	bool ending;
	uint64_t kill_at_ns;	/* monotonic, once ending */
	struct starter_child children[STARTER_CHILDREN];
	size_t nchildren;
	uint32_t last[SBX_PROC_MAX]; /* instance, 0: none so far */
	struct {
		int dir;	/* owned, -1: none */
		char name[64];	/* the suite's group in it */
	} groups[SBX_CGROUP_MAX];
};

/*
 * Start the program of proc, control its control channel (consumed).  An
 * older instance of a daemon that still lives is killed and reaped first.
 * Reports STARTED, or EXITED with pid 0 and -errno: EPERM not one of ours,
 * EEXIST an instance number that was used, EAGAIN too many, EINVAL not a
 * channel, EBUSY the older instance does not go, else what fork or exec said.
 * Blocks up to STARTER_EXEC_MS + STARTER_REPLACE_MS.
 */
void child_start(struct starter *s, uint32_t proc, uint32_t instance,
    int control);
/* SIGKILL; one that is gone already is not an error. */
void child_kill(struct starter *s, uint32_t proc, uint32_t instance);
void child_kill_all(struct starter *s);
/* Reap those of our children that ended; reports EXITED of each.  What one of
 * them left is killed, which may take several calls: each end is a SIGCHLD. */
void child_reap(struct starter *s);
/* The same once more, until nothing is left, for timeout_ms at most. */
void child_end_left(const struct starter *s, int timeout_ms);

/* Give the children their time, then end.  Once; later calls do nothing. */
void starter_end(struct starter *s);
/* Send to the monitor; when it cannot take it, the suite ends. */
void starter_send(struct starter *s, uint16_t type, uint32_t id,
    const void *msg);

extern const struct sbx_accepts starter_from_monitor;
/* Receive and obey what is there: 0, or negative when the channel ended. */
int from_monitor(struct starter *s);

#endif
