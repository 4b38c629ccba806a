#ifndef SBX_MONITOR_SNAPSHOT_H
#define SBX_MONITOR_SNAPSHOT_H

/* Snapshots of sandboxes, and sandboxes that begin as others are. */

#include "common/proto/peer.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
struct monitor;
struct principal;
struct sandbox;
struct snapshot;
struct worker;

/* --- snapshot.c ---------------------------------------------------------- */
struct snapshot *snapshot_find(struct monitor *m, const char *id);
struct snapshot *snapshot_named(struct monitor *m,
    const struct principal *who, const char *name);
/* That of w's principal, or NULL and its ask is refused; likewise a sandbox
 * that is ready. */
struct snapshot *snapshot_own(struct monitor *m, struct worker *w,
    const char *ref);
struct sandbox *snapshot_source(struct monitor *m, struct worker *w,
    const char *id);
/*
 * Ask for one.  hidden: in no list; end: the sandbox ends with it.  *ret_id: of
 * our SNAP_TAKE.  NULL: the engine is not there.
 */
struct snapshot *snapshot_begin(struct monitor *m, struct sandbox *sb,
    bool hidden, bool end, uint32_t *ret_id);
void snapshot_drop(struct monitor *m, struct snapshot *s);
/* What a sandbox of this state has: baselines, image. */
void snapshot_give(const struct snapshot *s, struct sandbox *sb);
void snapshot_ask(struct monitor *m, struct worker *w,
    const struct sbx_sb_snapshot *q);
void snapshot_ask_restore(struct monitor *m, struct worker *w,
    const struct sbx_sb_restore *q);
void snapshot_list(struct monitor *m, struct worker *w);
void snapshot_remove(struct monitor *m, struct worker *w, const char *ref);
void snapshot_taken(struct monitor *m, struct sbx_in *in);
void snapshot_restored(struct monitor *m, struct sbx_in *in);
/* For w's restore. */
void snapshot_work_found(struct monitor *m, struct worker *w,
    struct sandbox *sb, const struct sbx_engine_work_found *q);
void snapshot_call_ended(struct monitor *m, const struct call *c);
bool snapshot_any_of(const struct monitor *m, const struct principal *p);
void snapshot_drop_principal(struct monitor *m, const struct principal *p);

/* --- fork.c -------------------------------------------------------------- */
void fork_ask(struct monitor *m, struct worker *w,
    const struct sbx_sb_fork *q);
/* The worker that waits for this one among others, NULL: none. */
struct worker *fork_worker(struct monitor *m, const struct sandbox *sb);
void fork_ready(struct monitor *m, struct worker *w);
void fork_ended(struct monitor *m, struct worker *w, struct sandbox *sb,
    const char *reason);
void fork_undo(struct monitor *m, struct worker *w);

#endif
