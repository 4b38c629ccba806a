#ifndef SBX_PRIVS_START_H
#define SBX_PRIVS_START_H

/*
 * The common begin of the programs that the starter executes: each is handed
 * a channel to the monitor as descriptor 3, and told what to do by one message
 * on it.
 */

#include "common/proto/accepts.h"
#include "common/proto/wire.h"

struct sbx_program {
	const char *name;	/* of the program, in front of its log lines */
	const struct sbx_accepts *list;	/* its *_START and nothing else */
	/* What else it accepts, for -P; ends with NULL.  NULL: nothing. */
	const struct sbx_dispatch_table *const *tables;
};

/*
 * First call of main().  `-P` alone: print what is accepted, exit 0.  `-d...`
 * alone: log debugging messages; anything else is exit 1.  Then
 * sbx_privs_early(), the log on stderr, and the start message, for which it
 * waits 10 s at most: without it sbx_fatal(), exit 2.
 * how: borrowed, its name for ever.  *ret_chan: the channel, with the message
 * in ->in, owned by the caller (sbx_chan_clear() when fd was stolen, too).
 * Returns whether -d was given: sbx_privs_args.trap.
 */
bool sbx_program_start(int argc, char **argv, const struct sbx_program *how,
    struct sbx_chan *ret_chan);

#endif
