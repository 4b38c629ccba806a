#ifndef SBX_CLI_TERMINAL_H
#define SBX_CLI_TERMINAL_H

/* The caller's terminal, or pipes, joined to the master side of a sandbox's
 * pseudo terminal. */

#include "common/proto/wire.h"

/* How it ended. */
struct terminal_end {
	bool by_suite;		/* SHELL_ENDED came: status, why, reason */
	int32_t status;		/* wait(2) */
	uint8_t why;		/* enum sbx_exit_why */
	char reason[256];
	bool quit;		/* by ~. */
	int signal;		/* by this signal to ourselves, else 0 */
};

/* Rows and columns of the caller's terminal; 24 and 80 when there is none. */
void terminal_size(uint32_t *ret_rows, uint32_t *ret_cols);
/*
 * Carry bytes both ways until the command ends, the suite is gone, the caller
 * quits, or a signal says so.  The caller's terminal is raw meanwhile and as
 * before afterwards.  ctl, master: borrowed; master becomes non-blocking.
 * Whatever the other side does with the terminal, signals and ~. are heard.
 * 0, SBX_E_CLOSED (the suite is gone), SBX_E_SYS with err set.
 */
int terminal_run(struct sbx_chan *ctl, int master,
    struct terminal_end *ret_end, struct sbx_err *err);
/* A line of ours to standard error, after terminal_run(): lost rather than
 * waited for when that takes nothing. */
void terminal_say(const char *fmt, ...) SBX_PRINTF(1, 2);

#endif
