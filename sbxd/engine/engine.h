#ifndef SBX_ENGINE_ENGINE_H
#define SBX_ENGINE_ENGINE_H

/* What the engine holds: one struct, passed down. */

#include "common/base/cgroup.h"
#include "common/base/image.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/proto/peer.h"
#include "sbxd/engine/snap.h"

#include <sys/queue.h>
#include <sys/types.h>

struct engine;
struct event;
struct event_base;

#define CREATE_S 15		/* a sandbox that is not ready by then is not */
#define QUIET_MS 30		/* after a create, the next is made ready */
#define KILL_S 2		/* init answers a kill within 1 s, or is ended */
#define MAX_WAITING 4		/* requests for the same thing at once */
#define SNAP_WAIT_MS 100	/* for the last process of a run that ended */
#define SNAP_DIGEST_S 120	/* for a layer that is kept under a digest */
#define MAX_HELPS 8	/* asked of one init and not answered */

/* --- image_host.c: what of the host a sandbox of image `host` sees ---------- */
#define MAX_BINDS 40
struct binds {
	struct {
		char source[64];	/* absolute, on the host */
		char target[64];	/* relative, below the new root */
	} v[MAX_BINDS];
	size_t n;
};
/* Fill skel, an empty directory, the lowest layer.  0, SBX_E_SYS. */
int image_host_prepare(int skel, struct binds *ret_binds,
    struct sbx_err *err);

/* --- image.c: the images of the store, while they are in use ---------------- */
#define SKEL "skel"		/* of image host, in the scratch directory */
#define IMAGES "images"		/* where the store is mounted, likewise */
struct image {
	LIST_ENTRY(image) link;
	struct engine *e;
	unsigned refs;
	char hex[SBX_IMAGE_HEX + 1];	/* "" for the host's */
	char layers[2][96];		/* top first, below scratch */
	size_t nlayers;
	const struct binds *binds;	/* borrowed, NULL: none */
	int dir, lock;			/* owned; -1 for the host's */
	struct sbx_image_config config;
};
LIST_HEAD(image_list, image);
/* wanted: host, a name, a digest or a prefix of one.  *ret: for as long as
 * the caller puts it back.  0, SBX_E_NOENT, and what the store's files make
 * of it, err set. */
int image_get(struct engine *e, const char *wanted, struct image **ret,
    struct sbx_err *err);
/* The first of the names that image_get() takes, borrowed from them, or "". */
const char *image_first(struct engine *e, const struct sbx_strs *names);
struct image *image_hold(struct image *im);
void image_put(struct image *im);	/* NULL ok */
void image_add_host(struct engine *e);	/* once; never put back */
/* What a guest finds in its environment; a list as strings of a message, whose
 * bytes are b's.  0, SBX_E_LIMIT. */
int image_env(const struct image *im, struct sbx_strs *strs,
    struct sbx_buf *b);
int image_strs(const struct sbx_image_list *l, struct sbx_strs *strs,
    struct sbx_buf *b);

/* --- ids.c: who of the engine's namespace a sandbox's user is ---------------- */
struct ids {
	uint32_t first, n;		/* n 0: all share the engine's own */
	uint32_t next;			/* index of the one tried first */
	uint16_t *used;			/* owned: holders of each */
};
void ids_open(struct ids *ids, uint32_t first, uint32_t n);
/* One that nobody holds and that was free for the longest; geteuid() where
 * there is no range, or all of it is held. */
uid_t ids_take(struct ids *ids);
void ids_hold(struct ids *ids, uid_t uid);	/* once more */
void ids_put(struct ids *ids, uid_t uid);

/* --- guest_filter.c ----------------------------------------------------------- */
/* The filter of guests and their init, as BPF in a sealed memfd (owned). */
int guest_filter(int *ret_fd, struct sbx_err *err);

/* --- cgroup.c --------------------------------------------------------------------- */
LIST_HEAD(group_list, group_left);
struct groups {
	int dir[SBX_CGROUP_MAX];	/* owned: the suite's, -1: none */
	unsigned serial;
	struct event *timer;		/* owned */
	struct group_list left;		/* to be removed later */
};
/* A sandbox's, in each hierarchy; serial is its name. */
struct cgroup {
	unsigned serial, has, joined;	/* bits of enum sbx_hierarchy */
	int kills;			/* owned: counts kills, -1: not known */
};
int groups_open(struct groups *g, struct event_base *base); /* 0, SBX_E_SYS */
/* CGROUP of the monitor; parent: consumed.  0, SBX_E_POLICY. */
int groups_add(struct groups *g, unsigned hierarchy, int parent,
    const char *name);
/* Never fails: what there is, is in *ret_group.  ret_join: owned by the
 * caller; what a new process uses to get into it, -1: nothing. */
void group_make(struct groups *g, struct cgroup *ret_group,
    int ret_join[SBX_CGROUP_MAX]);
/* 0: none.  Returns enum sbx_limit bits of what the kernel took. */
uint32_t group_limit(const struct groups *g, struct cgroup *gr,
    uint64_t mem_bytes, uint32_t cpu_milli, uint32_t pids);
/* How many of its processes were killed for want of memory. */
uint64_t group_kills(const struct cgroup *gr);
/* Its processes were killed: let them die at the machine's pace and not at
 * theirs, since the kernel's clearing up counts as theirs. */
void group_hurry(const struct groups *g, const struct cgroup *gr);
/* Its processes are dead or dying; removed now or soon.  Empties *gr. */
void group_drop(struct groups *g, struct cgroup *gr);

/* --- scratch.c ------------------------------------------------------------------ */
struct scratch {
	int dir, trash;			/* dir borrowed, trash owned */
	pid_t deleter;			/* 0: none runs */
	bool more;			/* to delete when it ended */
	bool tmpfs;			/* each sandbox's is one of its own */
	unsigned serial, nspares;
};
/* dir: for as long as s lives, and the working directory.  storage: enum
 * sbx_storage.  0, SBX_E_SYS. */
int scratch_open(struct scratch *s, int dir, unsigned storage,
    struct sbx_err *err);
/* dir/ID/{upper,work,trust} for a new sandbox whose user is uid (and gid), in the
 * engine's namespace.  0, SBX_E_SYS. */
int scratch_make(struct scratch *s, const char *id, uid_t uid,
    struct sbx_err *err);
/* The same to stand on layers, of which top is the uppermost: nothing in it but
 * what / is like. */
int scratch_make_over(struct scratch *s, const char *id, uid_t uid, int top,
    struct sbx_err *err);
/* The one made as `from` is now that of id.  0, SBX_E_SYS (errno). */
int scratch_rename(struct scratch *s, const char *from, const char *id);
/* Set its size.  SBX_LIMIT_DISK when it has one now, else 0. */
uint32_t scratch_limit(struct scratch *s, const char *id, uint64_t bytes);
/* scratch_tmpfs.c, names below scratch: 0, or -1 with errno. */
int scratch_tmpfs_mount(const char *name);
int scratch_tmpfs_move(const char *from, const char *to);
int scratch_tmpfs_size(const char *name, uint64_t bytes);
void scratch_tmpfs_drop(const char *name);
/* Make one ahead, in a quiet moment; true: there may be one more. */
bool scratch_spare(struct scratch *s);
/* Delete it in a child of low priority; at once only its name goes. */
void scratch_drop(struct scratch *s, const char *name);
/* A child ended: true when it was the one that deletes. */
bool scratch_reaped(struct scratch *s, pid_t pid);
/* Names of what is not a sandbox's own. */
#define SCRATCH_LAYER "layer."
#define SCRATCH_NEXT "next."
#define SCRATCH_AHEAD "ahead."
/* All sandboxes that an earlier life left: found() each. */
void scratch_collect(struct scratch *s, void (*found)(void *, const char *),
    void *arg);

/* --- mounts.c --------------------------------------------------------------------- */
/*
 * Enter a mount namespace of the engine's own, whose working directory is
 * scratch and where the image store is at IMAGES below that; e->scratch_fd and
 * e->images_fd are opened anew in it.  Once, caged.  0, SBX_E_SYS.
 */
int mounts_prepare(struct engine *e, struct sbx_err *err);

/* --- build.c ---------------------------------------------------------------------- */
#define MAX_LAYERS (SBX_MAX_LAYERS + 2)	/* below a sandbox's own */
struct build {
	/* names below scratch, which is the working directory */
	const char *dir, *lower[MAX_LAYERS];	/* lower: top first */
	size_t nlower;
	const struct binds *binds;	/* NULL: none */
	int init_fd, channel_fd, null_fd;
	int go_fd;			/* pipe: the id, when it is known */
	int join[SBX_CGROUP_MAX];	/* of cgroup.c, -1: none */
	uid_t uid;			/* its user, in the engine's namespace */
	gid_t gid;
};
/*
 * Clone a child into new namespaces of every kind, let it build the sandbox,
 * wait for its id and become sbx-init with channel_fd as its descriptor 3.
 * What fails there comes as INIT_FAILED on the channel.  0 with pid and pidfd
 * (owned), or SBX_E_SYS.
 */
int build_start(const struct build *b, pid_t *ret_pid, int *ret_pidfd,
    struct sbx_err *err);

/* --- blank.c ---------------------------------------------------------------------- */
/* How a sandbox is to be made. */
struct mould {
	struct image *image;		/* borrowed */
	const struct stack *stack;	/* borrowed; NULL or empty: none */
	const char *dir;		/* of its scratch; NULL: its id */
};
/* A sandbox that is built, or being built, and waits for its id. */
struct blank {
	pid_t pid;			/* 0: there is none */
	int pidfd, channel, go;		/* owned */
	struct cgroup group;
	char dir[LAYER_NAME];		/* of its scratch */
	uid_t uid;			/* of ids.c, to be put back */
	dev_t dev;			/* its image, by its top layer, which */
	ino_t ino;			/* its mount keeps from being reused */
};
/* One made ahead for that mould if there is, else a new one; it is told its id.
 * Its descriptors are the caller's, go is closed.  Its scratch keeps the name
 * in ret_b until it is ready: it may still be opening it.  0, SBX_E_SYS. */
int blank_take(struct engine *e, const struct mould *mould, const char *id,
    struct blank *ret_b, struct sbx_err *err);
/* Make one ahead, in a quiet moment. */
void blank_ahead(struct engine *e);
/* A child ended: true when it was the one made ahead. */
bool blank_reaped(struct engine *e, pid_t pid);
/* End it, at the engine's end. */
void blank_drop(struct engine *e);

/* --- sandbox.c, job.c ---------------------------------------------------------------- */
struct sandbox;

struct job {
	LIST_ENTRY(job) link;		/* of its sandbox */
	LIST_ENTRY(job) hash;
	struct sandbox *sb;
	char run[SBX_RUN_HEX + 1];
	int out[2];			/* read ends of stdout, stderr, owned */
	uint32_t exec_id;		/* the monitor's request */
	uint32_t kill_ids[MAX_WAITING];	/* those that wait for its end */
	unsigned nkills;
	struct event *kill_timer;	/* owned */
	uint64_t kills;			/* of its group, when it began */
	bool started, exited;
	bool shell, pty;		/* on a terminal; its master was sent */
};
LIST_HEAD(job_list, job);

/* A run whose processes are gone, until the recorder has what its pipes hold:
 * a recorder may die with it, and then the next one gets it. */
struct spent {
	LIST_ENTRY(spent) link;
	char run[SBX_RUN_HEX + 1];
	int out[2];			/* owned */
};
LIST_HEAD(spent_list, spent);

enum sandbox_state {
	SB_CREATING, SB_READY,
	SB_FROZEN,			/* another is to take its place */
	SB_ENDING, SB_STATE_MAX
};
/* Copying in or work on files, under way in init. */
struct help {
	uint32_t id;		/* of the monitor's question */
	bool used, file;
};
struct sandbox {
	LIST_ENTRY(sandbox) link;
	struct engine *e;
	char id[SBX_CONTAINER_HEX + 1];	/* "": to take another's place */
	char dir[LAYER_NAME];		/* of its scratch */
	enum sandbox_state state;
	struct stack stack;		/* that it stands on */
	struct snap_op *op;		/* that it is in the middle of */
	struct sbx_peer *init;		/* owned; NULL when the channel ended */
	pid_t pid;			/* 0: reaped */
	struct cgroup group;
	uint64_t mem_bytes, disk_bytes;	/* 0: none */
	uint32_t cpu_milli, enforced;	/* enum sbx_limit bits */
	uid_t uid;			/* of ids.c, held */
	struct image *image;		/* held */
	char wanted[256];		/* what the image was asked for by */
	int pidfd, listener;		/* owned */
	int authority;			/* owned; of the proxy's, -1: none */
	uint64_t trust_ns;		/* since when they are counted */
	unsigned trusts;
	uint32_t create_id;		/* of CREATE while it waits, else 0 */
	uint32_t stop_ids[MAX_WAITING];	/* of each STOP that waits */
	unsigned nstops;
	uint8_t why;			/* enum sbx_end_why, while ENDING */
	char reason[256];
	struct event *timer;		/* owned: CREATE_S */
	struct job_list jobs;
	unsigned njobs;
	struct help helps[MAX_HELPS];
};
LIST_HEAD(sandbox_list, sandbox);

struct engine {
	struct event_base *base;
	struct sbx_peer *monitor, *recorder, *proxy;	/* owned, NULL: none */
	struct event *sigchld, *quiet;	/* owned */
	int scratch_fd, init_fd, filter_fd, null_fd;	/* owned */
	int images_fd;			/* owned */
	int userns_fd;			/* owned, until it is entered */
	struct groups groups;
	struct scratch scratch;
	struct blank ahead;
	unsigned ahead_failed, ahead_serial;
	uint32_t nofile, nproc;
	uint8_t storage;		/* enum sbx_storage */
	struct binds binds;
	struct image_list images;	/* in use, and the host's */
	struct image *recent;		/* of the last sandbox, while in use */
	struct ids ids;
	struct sandbox_list sandboxes;
	struct layer_list layers;
	struct snapshot_list snapshots;
	struct snap_op_list snap_ops;
	unsigned nsnapshots, layer_serial;
	unsigned nsandboxes;
	int fd_max;			/* RLIMIT_NOFILE */
	struct spent_list spent;
	bool ending;
	int exit_code;
	bool asked_to_end;		/* SHUTDOWN came */
};

struct sandbox *sandbox_find(struct engine *e, const char *id);
/* NULL: as many as there may be.  false: there is none of that id. */
struct help *help_new(struct sandbox *sb, uint32_t id);
bool help_over(struct sandbox *sb, uint32_t id, bool file);
int help_failed(struct sbx_peer *monitor, uint32_t id, int32_t error,
    const char *reason);		/* ENGINE_FILED */
void sandbox_create(struct engine *e, const struct sbx_sandbox_create *q,
    uint32_t id);
/* Build one over stack, in scratch dir, that may take the place of sb (snap.c
 * hears of it through op).  0, SBX_E_SYS. */
int sandbox_build_next(struct sandbox *sb, const char *dir,
    struct image *image, const char *wanted, const struct stack *stack,
    struct snap_op *op, struct sandbox **ret_next, struct sbx_err *err);
/* listener: consumed.  0, or SBX_E_POLICY when it is not what it should be. */
int sandbox_is_ready(struct sandbox *sb, int listener);
/* id: the monitor's request, answered when it has ended.  0, SBX_E_LIMIT. */
int sandbox_stop(struct sandbox *sb, uint32_t id);
/* End it: init dies, and everything in it; ENDED follows when it is reaped. */
void sandbox_end(struct sandbox *sb, enum sbx_end_why why, const char *fmt,
    ...) SBX_PRINTF(3, 4);
void sandbox_reaped(struct engine *e, pid_t pid, int status);
void sandbox_tell_proxy(struct sandbox *sb);

struct job *job_find(struct engine *e, const char *run);
/* id: the monitor's request.  There is none of that run. */
struct job *job_new(struct sandbox *sb, const char *run, uint32_t id);
void job_refuse(struct engine *e, const char *run, uint32_t id, int error,
    const char *reason);
void job_exec(struct sandbox *sb, const struct sbx_engine_exec *q,
    int stdin_fd, uint32_t id);
void job_started(struct job *j, int32_t error, const char *reason);
void job_exited(struct job *j, int32_t status, uint8_t why);
/* id: the monitor's request, answered by KILLED.  0, SBX_E_LIMIT. */
int job_kill(struct job *j, uint32_t id);
void job_killed(struct job *j, uint32_t killed, uint8_t left);
void job_gone(struct job *j);		/* frees it */
void job_tell_recorder(struct job *j);
void spent_tell_recorder(struct engine *e);	/* all of them */
void spent_taken(struct engine *e, const char *run);

/* --- shell.c --------------------------------------------------------------------------- */
void shell_exec(struct sandbox *sb, const struct sbx_engine_shell *q,
    uint32_t id);
/* fd: consumed.  0, SBX_E_STATE, SBX_E_POLICY when it is no such thing. */
int shell_pty(struct job *j, int fd);

/* --- work.c ---------------------------------------------------------------------------- */
void work_find(struct sandbox *sb, const struct sbx_engine_work *q,
    uint32_t id);

/* --- trust.c --------------------------------------------------------------------------- */
#define TRUST "trust"		/* beside a sandbox's upper */
/* PROXY_TRUST: write the files, keep the authority (fds: borrowed but for
 * that).  0, or errno with *ret_reason. */
int trust_take(struct sandbox *sb, int fds[], const char **ret_reason);
/* sb takes old's place: the same files, and the authority is its now.  0, or
 * errno. */
int trust_inherit(struct sandbox *sb, struct sandbox *old);
/* A new proxy gets the authority that was kept. */
void trust_tell_proxy(const struct sandbox *sb);

/* --- tables of handlers, one a peer ------------------------------------------------------ */
extern const struct sbx_dispatch_table engine_from_monitor, engine_from_init,
    engine_from_recorder, engine_from_proxy;
/* Runs leave descriptors for sandboxes, and those for all the rest: a message
 * whose descriptors find no place would cost the channel that it came by. */
#define FD_JOBS(e) ((e)->fd_max - (e)->fd_max / 8)
#define FD_SANDBOXES(e) ((e)->fd_max - (e)->fd_max / 16)
/* Do soon what can wait for a quiet moment. */
void engine_quiet(struct engine *e);
/* A new channel replaces the old one.  fd: owned. */
void engine_add_peer(struct engine *e, enum sbx_proc proc, int fd);

#endif
