#ifndef SBX_WORKER_GATE_H
#define SBX_WORKER_GATE_H

/* Fresh verifications: their part of verify_in_container. */

struct call;

/* Start one of the files at dir (inside), with the arguments files and
 * timeout, and wait for it; or wait for one that was started.  As tool_fn. */
int gate_fresh(struct call *call, const char *dir);
int gate_again(struct call *call, const char *job);

#endif
