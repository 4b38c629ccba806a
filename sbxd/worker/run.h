#ifndef SBX_WORKER_RUN_H
#define SBX_WORKER_RUN_H

/*
 * One run of something in a sandbox: what to start, waiting for it, and the
 * result that shows it.  Tools that run things are made of these.
 */

#include "common/proto/proto.h"
#include "sbxd/worker/ask.h"

struct call;

struct run_spec {
	const char *container;	/* borrowed */
	const char *cwd;	/* borrowed, "" = the sandbox's own */
	const char *head;	/* borrowed: EXEC_START.head; NULL: "" */
	struct sbx_strs argv, env;
	struct sbx_buf argv_buf, env_buf; /* owned */
	int stdin_fd;		/* owned */
	uint64_t timeout_ms;	/* 0: none */
	bool background;
	const char *only;	/* the one command, when there is one */
};

/*
 * From the arguments commands | argv, working_dir, env, stdin, timeout.
 * ret_spec is to be cleared in any case.
 * 0, SBX_E_SYNTAX with the error object in call->res, SBX_E_SYS.
 */
int run_spec_from_args(struct call *call, struct run_spec *ret_spec);
/* argv: NULL-terminated.  Empty standard input.  0, SBX_E_LIMIT, SBX_E_SYS. */
int run_spec_make(const char *container, const char *cwd,
    const char *const *argv, struct run_spec *ret_spec);
void run_spec_clear(struct run_spec *spec);

/* ret_run: char[17].  As the asks of ask.h. */
int run_start(struct call *call, const struct run_spec *spec, char *ret_run);
/*
 * Wait until it ended or `ms` passed, telling the client meanwhile.
 * As the asks of ask.h.
 */
int run_wait(struct call *call, const char *run, uint32_t ms,
    uint64_t timeout_ms, struct ask_run *ret_state);
/* The same; one that prints more than max_out is killed. */
int run_wait_most(struct call *call, const char *run, uint32_t ms,
    uint64_t timeout_ms, uint64_t max_out, struct ask_run *ret_state);
/*
 * Start, and wait as long as a call may.  1: *ret_state is how it is; else as
 * tool_fn, with the error object.
 */
int run_await(struct call *call, const struct run_spec *spec,
    struct ask_run *ret_state);
/*
 * Start, wait as long as a call may, and make the result.  *ret_over: false
 * when the run goes on as a job.  As tool_fn.
 */
int run_foreground(struct call *call, const struct run_spec *spec,
    bool *ret_over);
/* The result that shows a run, with the view that the arguments ask for.
 * only: the one command, or NULL.  As tool_fn. */
int run_result(struct call *call, const struct ask_run *state,
    const char *only);
/* exit_code and, when a signal ended it, signal. */
void run_put_exit(struct call *call, const struct ask_run *state);

#endif
