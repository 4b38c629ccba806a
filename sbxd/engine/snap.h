#ifndef SBX_ENGINE_SNAP_H
#define SBX_ENGINE_SNAP_H

/*
 * Layers and snapshots.  A layer is the upper directory of a sandbox that is
 * not written any more, NAME/upper below scratch.  It lives as long as a
 * sandbox stands on it or a snapshot holds it.
 */

#include "common/base/limits.h"
#include "common/proto/proto.h"

#include <sys/queue.h>
#include <sys/types.h>

struct engine;
struct event;
struct sandbox;
struct scratch;
struct image;
struct snap_op;

LIST_HEAD(snap_op_list, snap_op);

#define LAYER_NAME 32

struct layer {
	LIST_ENTRY(layer) link;
	struct engine *e;
	char path[LAYER_NAME + 8];	/* NAME/upper, below scratch */
	uid_t uid;			/* whose files they are, held */
	int upper;			/* owned: the layer itself */
	unsigned refs;
	/* its directory is that of a sandbox which lives: when the snapshot
	 * fails it stays where it is */
	bool lent;
	/* a copy: its change times say when it was made; those of what was
	 * copied are its access times, which no guest can set any more */
	bool copied;
};
LIST_HEAD(layer_list, layer);

/* What a sandbox stands on, above its image: top first, a reference each. */
struct stack {
	struct layer *layers[SBX_MAX_LAYERS];
	unsigned n;
};

struct snapshot {
	LIST_ENTRY(snapshot) link;
	char id[SBX_CONTAINER_HEX + 1];
	struct image *image;		/* held */
	char wanted[256];		/* what it was asked for by */
	struct stack stack;
};
LIST_HEAD(snapshot_list, snapshot);

/* --- layer.c ------------------------------------------------------------------ */
/* NAME/upper, of uid's files.  One reference, the caller's; upper: consumed. */
struct layer *layer_new(struct engine *e, const char *name, int upper,
    uid_t uid, bool copied);
/* Its directory has another name now, and is its own. */
void layer_renamed(struct layer *l, const char *name);
/* A name that no layer had. */
void layer_name(struct engine *e, char name[LAYER_NAME]);
/* At the last reference its directory goes, if it is not lent. */
void layer_unref(struct layer *l);
/* Below dst's own: dst must have room.  References are added. */
void stack_add(struct stack *dst, const struct stack *src);
/* On top; consumes the reference.  The stack must have room. */
void stack_push(struct stack *s, struct layer *l);
void stack_clear(struct stack *s);
struct snapshot *snapshot_find(struct engine *e, const char *id);
/* stack: consumed; image: borrowed. */
void snapshot_add(struct engine *e, const char *id, struct image *image,
    const char *wanted, struct stack *stack);
void snapshot_free(struct engine *e, struct snapshot *s);
/* All, at the engine's end. */
void snapshot_finish(struct engine *e);

/* --- snap_copy.c: in a child ---------------------------------------------------- */
struct snap_copy {
	int sources[SBX_MAX_LAYERS + 1]; /* upper directories, lowest first */
	bool copied[SBX_MAX_LAYERS + 1]; /* as in struct layer */
	unsigned n;
	int to;			/* NAME: NAME/upper is filled; -1: only looked at */
	bool digest;
};
struct snap_result {
	int32_t error;		/* errno */
	uint64_t files, bytes;	/* names that are no directories; of data */
	bool cloned;		/* every file's blocks are shared */
	char digest[65], reason[160];
};
/*
 * Start the child.  Descriptors are borrowed; *ret_fd (owned): its result,
 * whole, then the end.  0, SBX_E_SYS.
 */
int snap_copy_start(const struct snap_copy *c, pid_t *ret_pid, int *ret_fd,
    struct sbx_err *err);

/* --- snap.c --------------------------------------------------------------------- */
void snap_take(struct engine *e, const struct sbx_snap_take *q, uint32_t id);
void snap_restore(struct engine *e, const struct sbx_snap_restore *q,
    uint32_t id);
/* A child ended: true when it was one that copies. */
bool snap_reaped(struct engine *e, pid_t pid);
/* Fewer processes live in it. */
void snap_job_gone(struct sandbox *sb);
/* The sandbox that is to take another's place is ready, or has ended. */
void snap_next_ready(struct sandbox *next);
void snap_next_ended(struct sandbox *next);
/* A sandbox in the middle of it was reaped: true when its end is no news. */
bool snap_old_reaped(struct sandbox *old);
/* Children are killed, at the engine's end. */
void snap_finish(struct engine *e);

#endif
