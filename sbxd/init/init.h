#ifndef SBX_INIT_INIT_H
#define SBX_INIT_INIT_H

/* What PID 1 of a sandbox holds: one struct, passed down. */

#include "common/base/limits.h"
#include "common/proto/accepts.h"
#include "common/proto/filework.h"
#include "common/proto/wire.h"

#include <sys/stat.h>
#include <sys/types.h>

#define INIT_FD 3		/* the channel to the engine */
#define MAX_HELPERS 8
#define KILL_MS 900		/* a tree must be dead by then: the engine's
				 * promise of 1 s, less the way to it */
#define KILL_SUPERVISOR_MS 600	/* its tree is dead, it is not: it dies too */
#define UNPACK_STALL_MS 120000	/* a stream without a byte for so long ends */

struct job {
	char run[SBX_RUN_HEX + 1];	/* "": the slot is free */
	pid_t supervisor;		/* 0: it ended */
	int report_fd;			/* owned; -1 when read to its end */
	bool started, exited;
	bool killing;
	bool orphaned;			/* its supervisor was killed: it ends
					 * when PID 1 has no foreign child */
	uint32_t kill_id, killed;
	uint64_t kill_since_ns;
};
/* A child without exec that works on files. */
struct helper {
	pid_t pid;			/* 0: the slot is free */
	uint32_t id;
	int result_fd;			/* owned */
	void (*answer)(uint32_t id, int fd); /* reads it; at its end or death */
};
struct init {
	struct sbx_in in;
	char *env[64 + 1];		/* owned strings; the sandbox's own */
	uint32_t nofile, nproc;
	int oom_fd;			/* owned: our own oom_score_adj, -1 */
	struct job jobs[SBX_MAX_JOBS_SANDBOX];
	struct helper helpers[MAX_HELPERS];
	uint64_t orphans_since_ns;	/* 0: there are none to kill */
};

/* What a supervisor tells PID 1, one record a write(2). */
struct report {
	char what;			/* 'S' started, 'E' exec failed,
					 * 'X' command ended */
	int32_t value;			/* errno, or wait(2) status */
	char where[192];		/* what failed */
};

/* cage.c: everything that PID 1 and so all guests lose.  0 or -errno with
 * *ret_where set. */
int init_cage(int bpf_fd, const char **ret_where);
/* The address that egress will use.  Descriptor, or -errno. */
int init_listener(void);

/* from_engine.c */
extern const struct sbx_accepts init_from_engine;
int init_handle(struct init *in);	/* one message; 0 or an sbx_error */
void init_send(uint16_t type, uint32_t id, const void *msg, const int *fds);

/* job.c */
/* tty: fds are a terminal, which becomes the controlling one; only then may
 * argv be empty: the login shell. */
void job_start(struct init *in, const struct sbx_init_exec *q, int fds[3],
    uint32_t id, bool tty);
/* The answer when there is not even a supervisor whose end would say so. */
void job_never_started(const char *run, uint32_t id, int error,
    const char *where);
struct job *job_find(struct init *in, const char *run);
void job_report(struct init *in, struct job *j);
void job_reaped(struct init *in, pid_t pid, int status);
void job_gone(struct init *in, struct job *j); /* frees the slot */

/* kill.c */
void kill_begin(struct init *in, struct job *j, uint32_t id);
/* Begin to SIGKILL what fell to PID 1 because its supervisor is gone. */
void kill_orphans(struct init *in);
/* Go on with all kills; ms until it wants to run again, -1: nothing to do. */
int kill_step(struct init *in);

/* shell.c */
void shell_start(struct init *in, const struct sbx_init_shell *q, uint32_t id);

/* helper.c */
/*
 * Fork: 0 in the child, which writes at most a pipe's fill to *ret_result and
 * _exit()s; the pid in PID 1; -errno.  name: for prctl(2).
 */
pid_t helper_fork(struct init *in, uint32_t id, const char *name,
    void (*answer)(uint32_t id, int fd), int *ret_result);
void helper_result(struct helper *h);	/* it wrote, or was killed */
/* All n bytes of what it wrote; false: it was killed before. */
bool helper_read(int fd, void *p, size_t n);

/* unpack.c, file.c */
void unpack_start(struct init *in, const struct sbx_init_unpack *q, int fd,
    uint32_t id);
void file_start(struct init *in, const struct sbx_init_file *q,
    const int fds[2], uint32_t id);

/* What a helper that works on files says, in its own memory. */
struct file_work {
	const struct sbx_init_file *q;
	uint64_t max;			/* bytes of its answer */
	uint64_t began_ns;		/* monotonic; of a PACK */
	int in, out;
	struct sbx_init_filed r;	/* its strings are the two below */
	/* reason, of what was written: what a change could not keep, or "" */
	char reason[256], path[4096];
};
/* Sets error and reason ("what: strerror"); -1. */
int file_failed(struct file_work *w, int error, const char *what);
int file_failed_as(struct file_work *w, int error, const char *what,
    const char *why);
/* A sentence's end for what is no regular file, or one that cannot be read. */
const char *file_kind(const struct stat *st);
/* Of a path that is not there, or is a link that leads nowhere; -1. */
int file_missing(struct file_work *w, int error, const char *path);
/* The path without links, and the stamp of what is there.  -1: failed. */
int file_resolve(struct file_work *w, const char *path, struct stat *ret_st);
void file_stamp(struct file_work *w, const struct stat *st);
void file_read(struct file_work *w);
void file_list(struct file_work *w);	/* filelist.c */
void file_pack(struct file_work *w);
void file_write(struct file_work *w);	/* filewrite.c */

#endif
