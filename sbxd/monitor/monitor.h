#ifndef SBX_MONITOR_MONITOR_H
#define SBX_MONITOR_MONITOR_H

/*
 * What sbxd, the monitor, holds: one struct, passed down.  Objects refer to
 * each other by pointer only within this process; everything that crossed a
 * channel is looked up again by its id and its owner.
 */

#include "common/base/base.h"
#include "common/base/cgroup.h"
#include "common/base/conf.h"
#include "common/base/homes.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/proto/peer.h"
#include "sbxd/monitor/layers.h"
#include "sbxd/monitor/repos.h"
#include "sbxd/monitor/snapshot.h"

#include <string.h>
#include <sys/queue.h>
#include <sys/types.h>

struct event;
struct event_base;
struct monitor;
struct worker;

#define MS_NS UINT64_C(1000000)
#define S_NS UINT64_C(1000000000)

/* What a child's channel has got to; used in the dispatch tables. */
enum peer_state {
	ST_NEW,		/* started, no HELLO yet */
	ST_READY,	/* HELLO came; for a worker: idle */
	ST_BUSY,	/* worker: has a call, may ask */
	ST_ASKED,	/* worker: asked, waits for our answer */
	ST_DEAD,	/* given up, its end is under way: nothing permitted */
	ST_MAX
};

/* --- components ---------------------------------------------------------- */

enum component_state {
	COMP_ABSENT,	/* not wanted yet */
	COMP_STARTING,	/* START sent, no HELLO yet */
	COMP_READY,	/* HELLO came */
	COMP_ENDING,	/* channel or process gone, the other one not yet */
	COMP_BACKOFF,	/* dead, its restart is scheduled */
	COMP_DOWN,	/* died too often: its work is refused */
	COMP_STATE_MAX
};
struct component {
	struct monitor *m;
	enum sbx_proc proc;
	enum component_state state;
	struct sbx_peer *peer;		/* owned; NULL: no channel */
	struct event *timer;		/* owned: restart */
	uint32_t instance;		/* of the START last sent */
	bool alive;			/* no EXITED for it yet */
	pid_t pid;			/* 0: not known */
	uint64_t since_ns;		/* of the state, monotonic */
	uint64_t deaths_ns[SBX_RESTARTS_PER_MIN]; /* a ring */
	unsigned deaths, backoff_ms;
	char reason[128];		/* how it ended last */
	unsigned log_tokens;		/* LOG lines it may still send */
	uint64_t log_filled_ns;
	unsigned log_dropped;
	bool renewed;			/* ended by us: no death of its own */
};

/* --- who ----------------------------------------------------------------- */

/* These tests ran green on that tree in a fresh sandbox (gate.c).  Whoever
 * looks for a tree compares both of its ids. */
struct pass {
	uint64_t when_wall_ns;		/* 0: unused */
	char sha1[41], sha256[65];
	char image[256];		/* by digest; "host" has none */
	char layer[96], ran[64];
	char gate[SBX_RUN_HEX + 1];	/* of the verification */
};
#define MAX_PASSES 32			/* of one principal, the oldest go first */

/* Who owns sandboxes and runs.  Kept while it has a session or a sandbox. */
struct principal {
	bool used;
	char name[65];			/* "uid:1000" */
	uid_t uid;
	gid_t gid;
	bool anybody;			/* of http_auth none: has no part in
					 * the operator's credentials */
	unsigned sessions;
	unsigned tokens;		/* asks it may make: policy_rate() */
	uint64_t rate_ns;
	unsigned api_tokens;		/* the same of API_ASK: api.c */
	uint64_t api_ns;
	struct pass passes[MAX_PASSES];
	unsigned next_pass;
};
/* Whom a bearer token of HTTP stands for; setup_http.c. */
struct token {
	char name[SBX_MAX_TOKEN_NAME + 1];
	char sha256[65];		/* of the token; itself never here */
	int root_fd;			/* owned; -1: no copying */
	uid_t uid;			/* with whose rights, then */
	gid_t gid;
};
/* A connected client: the handle is what the front names it by. */
struct session {
	bool used;
	uint64_t handle;		/* random, never 0 */
	struct principal *who;
	int fd;				/* owned; -1 for stdio and tokens */
	bool token;			/* of HTTP; ends by FRONT_GONE */
	char sha256[65];		/* of its token; "": http_auth none */
	int root_fd;			/* owned; -1: copying is unavailable */
};

/* --- work ---------------------------------------------------------------- */

struct call {
	bool used;
	uint32_t number;		/* the front's */
	struct session *session;
	struct principal *who;
	struct worker *worker;		/* NULL: waits for one */
	bool recovery;			/* of the pool for stop and list */
	bool want_progress, patient;
	uint8_t log_level;		/* as in CALL */
	uint32_t client_can;
	char *inputs;			/* owned */
	int args_fd;			/* owned until handed on */
	uint64_t since_ns;
	char tool[65], container[65];
	unsigned runs;			/* whose `call` this is */
	bool watches;			/* asked RUN_WATCH */
	char capped[65];		/* what the sandbox's cap counts */
};

/*
 * The one request that a worker waits for.  Continuations find their worker
 * by what they answer (run, container, id at the other side), so an object
 * never points at a worker that may be gone.
 */
struct ask {
	uint16_t type;			/* 0: none */
	uint32_t id;			/* of the worker's request */
	uint64_t deadline_ns;		/* refused with `timeout` then */
	enum sbx_proc back;		/* whose answer with back_id is next */
	uint32_t back_id;		/* 0: none */
	void (*then)(struct monitor *m, struct worker *w, struct sbx_in *in,
	    const char *why);		/* in NULL: it failed, why says so */
	char container[SBX_CONTAINER_HEX + 1];
	char run[SBX_RUN_HEX + 1];
	uint8_t stream;			/* OUT_READ */
	uint64_t offset;
	bool force;			/* SB_STOP, SB_RESTORE */
	uint32_t look_id;		/* of our ENGINE_WORK; 0: none */
	char snapshot[SBX_CONTAINER_HEX + 1];	/* SB_RESTORE, SB_FORK */
	char name[65], label[65];	/* SB_FORK */
	uint32_t count;			/* SB_FORK */
	uint64_t since_ns;		/* SB_RESTORE: what ended from then on */
	char grant[17];			/* REPO_OPEN */
};
enum worker_state {
	WORKER_NONE,	/* the slot is free */
	WORKER_FORKING,	/* no HELLO yet */
	WORKER_IDLE,	/* fresh, or bound to `who` */
	WORKER_BUSY,	/* has a call */
	WORKER_DYING,	/* killed; no WORKER_EXITED yet */
	WORKER_STATE_MAX
};
struct worker {
	struct monitor *m;
	enum worker_state state;
	uint32_t id;			/* never used again */
	struct sbx_peer *peer;		/* owned; NULL when ended */
	struct principal *who;		/* NULL: fresh */
	bool exited;			/* WORKER_EXITED came */
	struct call *call;
	unsigned calls;
	unsigned logs;			/* of its call */
	uint64_t progress_ns;		/* when one was passed on last */
	uint64_t since_ns;		/* of the state or last answer */
	struct event *timer;		/* owned: end of EXEC_WAIT */
	struct ask ask;
};

struct baseline {
	uint64_t when_wall_ns;		/* 0: unused */
	char *dest;			/* owned: path inside */
	/* the last copy to the same place: what changed then is no work */
	uint64_t copied_from_ns, copied_to_ns;
	uint32_t count_id;		/* asked for `old`; 0: no more */
	uint32_t old;			/* files when it was made */
};
#define MAX_BASELINES 8
/* Where the reaper is with one sandbox (reap.c). */
struct reap {
	uint32_t ask_id;		/* at the engine; 0: not asking */
	unsigned step;			/* which baseline it asked about */
	uint64_t used_ns;		/* of the sandbox, when it began */
	uint64_t again_ns;		/* not before */
	char reason[96];
	uint64_t held_ns;		/* when it was spared; 0: never */
	char held[256];			/* why */
};
/* One that the suite ended by itself; remembered for who owned it. */
struct reaped {
	bool used, told;
	char who[65];			/* the principal may be gone */
	char id[SBX_CONTAINER_HEX + 1], name[65], reason[96];
	uint64_t when_wall_ns;
};
/* 0: none.  Of a sandbox that is ready, what the engine set and read back. */
struct limits {
	uint64_t mem_bytes, disk_bytes, ttl_s;
	uint32_t cpu_milli;		/* thousandths of a processor */
	uint32_t enforced;		/* enum sbx_limit bits */
};
/* What package_install put into a sandbox, for fresh verifications. */
struct installs {
	char *lines;			/* owned: of install.h, each with its
					 * NUL; SBX_INSTALLS_BYTES, or NULL */
	uint32_t count, len;
	uint32_t left_out;		/* installs that are none of these */
};
struct snapshot {
	TAILQ_ENTRY(snapshot) link;	/* newest first */
	char id[SBX_CONTAINER_HEX + 1];
	char container[SBX_CONTAINER_HEX + 1];	/* of what it was taken */
	char name[65], label[65], image[256], why_image[256];
	struct principal *who;
	struct call *maker;		/* of a fork's state; NULL: kept */
	bool ready;			/* the engine has it */
	bool hidden;			/* a fork's state, a dependency layer */
	bool live;			/* runs lived meanwhile */
	bool network;			/* of that sandbox */
	uint8_t method;			/* enum sbx_snap_method */
	uint32_t depth;
	uint64_t files, bytes, began_wall_ns;
	struct limits limits;		/* of that sandbox */
	char digest[96];		/* of its image */
	char layer[SBX_CONTAINER_HEX + 1];	/* as of a sandbox */
	struct installs installs;
	struct baseline baselines[MAX_BASELINES];
};
TAILQ_HEAD(snapshot_list, snapshot);

/* What commands make of an image; kept, or being made. */
struct deps {
	TAILQ_ENTRY(deps) link;		/* newest first */
	struct principal *who;
	struct call *maker;		/* while that call waits */
	uint32_t asker;			/* the worker, until image is known */
	char image[256], digest[96];	/* as asked for, and what it was */
	char why[256];			/* that image */
	bool packages;			/* for gates: the commands are lines of
					 * install.h, and run on a layer: */
	char base[SBX_CONTAINER_HEX + 1], base_layer[96];	/* "": none */
	char *commands;			/* owned: each with its NUL */
	uint32_t len, count;
	bool network;			/* with a way out, as asked for */
	bool ready, failed;
	char container[SBX_CONTAINER_HEX + 1];	/* where they run; "" at last */
	char run[SBX_RUN_HEX + 1];
	char snapshot[SBX_CONTAINER_HEX + 1];
	uint32_t take_id;		/* of our SNAP_TAKE, else 0 */
	char layer[96];			/* its name by content */
	uint64_t began_ns, ms, files, bytes;
};
TAILQ_HEAD(deps_list, deps);
#define DEPS_WAIT_S 38			/* then a call is told to ask again */

/* A judge of one's own; hidden.c. */
struct judge {
	struct sbx_peer *peer;		/* owned; NULL when ended */
	uint32_t instance;		/* the starter's number for it; 0: none */
};
/* What a verification waits for, each answered once. */
enum gate_ask {
	GATE_PACK, GATE_UNPACK,		/* the engine */
	GATE_READ,			/* the recorder */
	GATE_ASK_MAX
};
/* A fresh verification; ended ones are kept until there is no room. */
struct gate {
	bool used;
	struct monitor *m;
	char id[SBX_RUN_HEX + 1];
	struct principal *who;
	struct call *maker;		/* while that call waits */
	enum sbx_gate_phase phase;
	char work[SBX_CONTAINER_HEX + 1];	/* whose files */
	char fresh[SBX_CONTAINER_HEX + 1];	/* "": none (any more) */
	char image[256], digest[96], layer[96];
	char layer_snap[SBX_CONTAINER_HEX + 1];
	/* its dependency layer, where that is more than setup's */
	char setup[96];			/* layer of that, "": none */
	struct installs installs;
	char prep[SBX_CONTAINER_HEX + 1];	/* where one is made; "": none */
	char prep_run[SBX_RUN_HEX + 1];
	int32_t prep_error;
	bool prepared, cached;
	char from[256];			/* image of the fresh one */
	struct limits limits;		/* and what it may use */
	char *dir;			/* owned; of the files, in the work one */
	int list_fd;			/* owned: their names */
	uint64_t timeout_ms;		/* of each run */
	struct judge judge;
	uint32_t asked[GATE_ASK_MAX];	/* ids of our requests; 0: none */
	bool judging;			/* JUDGE_REPORT is unanswered */
	bool packed, unpacked, treed;
	char held[256];			/* why it will fail, if nobody knows
					 * better */
	char sha1[41], sha256[65];	/* the tree */
	uint32_t files;
	uint64_t bytes;
	uint32_t todo;			/* rows of sbx_fresh to run */
	unsigned row;			/* the one that runs */
	char run[SBX_RUN_HEX + 1], ran[64];
	struct sbx_buf results;		/* owned: GATE_STATE.results */
	uint32_t nresults;
	bool red, passed;
	char reason[256];		/* why there is no verdict */
	uint64_t began_ns, ended_ns, by_ns;
};
#define MAX_GATES 16
#define GATE_MAKE_NS (60 * S_NS)	/* for its sandbox */

/* What a publication waits for, each answered once. */
enum publish_ask {
	PUBLISH_PACK, PUBLISH_UNPACK, PUBLISH_BASE,	/* the engine */
	PUBLISH_LINE,			/* the recorder */
	PUBLISH_SIGN,			/* the broker */
	PUBLISH_ASK_MAX
};
/* One publication; ended ones are kept until there is no room. */
struct publish {
	bool used;
	struct monitor *m;
	char id[SBX_RUN_HEX + 1];
	struct principal *who;
	struct call *maker;		/* while that call waits */
	enum sbx_publish_phase phase;
	enum sbx_publish_outcome outcome;
	char work[SBX_CONTAINER_HEX + 1];	/* whose files */
	char box[SBX_CONTAINER_HEX + 1];	/* "": none (any more) */
	/* as asked for; owned: dir, names, message */
	char *dir, *names, *message;
	size_t nnames, nmessage;
	size_t ndeclared;		/* bytes of names: a merge's follow, */
	uint32_t declared, merged;	/* so many paths each */
	char names_hash[65];		/* of the declared ones, for its end */
	char host[254], repo[141], branch[245], base[65], parent2[65];
	char merge_branch[245];		/* that parent2 must be on, or "" */
	char fork[65];			/* where it left base's history, or "" */
	uint32_t flags;
	char digest[96];		/* of its sandbox's image */
	struct judge judge;
	uint32_t asked[PUBLISH_ASK_MAX];	/* ids of our requests; 0: none */
	char run[SBX_RUN_HEX + 1];	/* of the script that runs, or "" */
	char fetch[17], push[17];	/* grants; "": none */
	bool push_ran, push_used;	/* its script; its grant */
	int base_fd;			/* owned: what FETCH left */
	bool packed, unpacked, judged, built;
	/* what FETCH said */
	char tip[65], like[65], default_branch[245];
	/* what the judge said */
	char tree[65], commit[65];
	uint32_t added, modified, deleted, unchanged, total, nfindings;
	uint64_t bytes;
	struct sbx_buf findings, waived;	/* owned */
	uint32_t nwaived, waived_total;
	uint64_t override;		/* its serial; 0: none holds */
	/* what SHOW said, and whose output has the rest; "": none */
	uint32_t files, plus, minus;
	bool cut;
	char shown[SBX_RUN_HEX + 1];
	struct pass pass;		/* its gate's */
	char granted[17];		/* for its push; kept */
	/* by an operator: of the record of it, JOURNAL_DONE is awaited; 0: none */
	uint32_t approve_id;
	bool user_asked;		/* for his approval */
	bool sign;			/* as configured when it began, */
	char signed_id[65];		/* and what it came to; "": not yet */
	bool look;			/* it only finds out how a push ended, */
	char whose[65];			/* of that principal's */
	char held_step[32], held[256];	/* why it will be refused, if nobody
					 * knows better */
	char step[32], reason[256];	/* why it was */
	/* PUBLISH_STATE's: the verification that it waits, or waited, for */
	char gate[SBX_RUN_HEX + 1], gate_ran[64];
	const char *gate_status;	/* a constant; NULL: "" */
	uint64_t began_ns, ended_ns, by_ns;
};
#define MAX_PUBLISHES 16
#define MAX_PUSHES 16	/* whose end is not known (publish_reconcile.c) */
struct pushed;
/* Findings of secrets that do not count for one branch. */
struct override {
	bool used, held;		/* its record is durable */
	char id[SBX_RUN_HEX + 1];
	struct principal *who;
	char host[254], repo[141], branch[245];
	char (*prints)[65];		/* owned: n fingerprints */
	uint32_t n;
	uint64_t serial, until_ns;
};
#define MAX_OVERRIDES 16

/* Of SANDBOX_READY, kept; strings owned. */
struct made {
	struct sbx_strs env, entrypoint;
	char user[65], workdir[1024];
	bool own_user;
};
struct sandbox {
	TAILQ_ENTRY(sandbox) link;
	char id[SBX_CONTAINER_HEX + 1];
	char name[65], label[65], image[256];
	char digest[96];		/* of its image, "" for host */
	char why_image[256];		/* "": the image was asked for */
	struct principal *who;
	struct call *maker;		/* the call that made it, or NULL */
	enum sbx_sandbox_state state;
	bool throwaway;
	bool sent;			/* SANDBOX_CREATE is with the engine */
	bool doomed;			/* unwanted: stop it when ready */
	bool asked_stop;		/* its end is no surprise */
	bool stop_late;			/* a warning was given */
	bool hidden;			/* of deps.c: nobody may name it */
	bool network;			/* it has a way out, or is to get one */
	struct made *made;		/* owned: while that is being opened */
	uint32_t fork_worker, fork_ask;	/* while others are made with it */
	char snapshot[SBX_CONTAINER_HEX + 1];	/* to begin from, "": none */
	char layer[SBX_CONTAINER_HEX + 1];	/* a deps.snapshot below it */
	uint64_t kept_wall_ns;		/* a snapshot has all of then; 0: none */
	char kept_by[SBX_CONTAINER_HEX + 1];	/* that one, "": a hidden one */
	unsigned live_runs;
	struct limits limits;
	uint64_t created_wall_ns, created_ns, used_ns, stop_by_ns;
	struct baseline baselines[MAX_BASELINES];
	struct installs installs;
	struct reap reap;
};
TAILQ_HEAD(sandbox_list, sandbox);

struct run {
	TAILQ_ENTRY(run) link;		/* newest first */
	LIST_ENTRY(run) hash;
	struct monitor *m;
	char id[SBX_RUN_HEX + 1];
	char container[SBX_CONTAINER_HEX + 1];
	struct principal *who;
	struct call *call;		/* NULL once its call ended */
	char tool[65];
	enum sbx_run_phase state;
	bool background;
	bool stored;			/* the recorder may know it */
	bool interactive;		/* on a terminal: never recorded */
	bool finishing;			/* RUN_FINISH sent, not answered */
	bool killing;			/* the same of ENGINE_KILL */
	uint8_t why, kill_why;		/* enum sbx_exit_why; MAX: none */
	int32_t status;
	unsigned finish_tries;
	uint64_t timeout_ms;
	uint64_t started_ns, started_wall_ns, ended_ns, finish_by_ns;
	uint64_t out_bytes, err_bytes;
	/* watch.c */
	bool watched;
	uint32_t look_id;		/* of our RUN_STAT; 0: none yet */
	uint64_t looked_ns, told_bytes, told_end_ns;	/* monotonic */
	struct event *timer;		/* owned: its timeout */
	char *clone_path;		/* owned: REPO_RUN.path; NULL: none */
	char *install;			/* owned: a line of install.h, "": one
					 * that is left out; NULL: it is none */
	struct sbx_buf records;		/* RUN_RECORDS.text, owned */
	uint32_t nrecords, records_dropped;
};
TAILQ_HEAD(run_list, run);
LIST_HEAD(run_chain, run);
#define RUN_CHAINS 1024

enum grant_step {
	GRANT_RECORDING,
	GRANT_SOURCING,			/* BROKER_GRANT is unanswered */
	GRANT_OPENING,			/* GRANT_OPEN is */
	GRANT_LIVE,			/* the proxy took it */
	GRANT_SPENT,			/* over, but for exchanges under way */
};
/* One exchange more than the hosts of egress allow, for one sandbox. */
struct grant {
	bool used;
	enum grant_step step;
	char id[17];
	char container[SBX_CONTAINER_HEX + 1];
	struct principal *who;		/* whose that is */
	struct call *maker;		/* ends with it; NULL: an operator's */
	char run[SBX_RUN_HEX + 1];	/* ends with that instead; or "" */
	enum sbx_grant_op op;
	char host[254], repo[141], ref[256], old_id[65], new_id[65];
	bool force, credential;
	bool publish;			/* a publication's: it is told */
	uint32_t uses;			/* left */
	uint32_t lifetime_ms;
	uint64_t by_ns;			/* of an open one: over by then */
	uint32_t record_id;		/* JOURNAL_DONE awaited; 0: durable */
};

/* One that a courier does, from PROXY_EXCHANGE to BROKER_EXCHANGED. */
struct exchange {
	uint32_t id;			/* of our BROKER_EXCHANGE; 0: unused */
	uint32_t proxy_id;		/* 0: that proxy is gone */
	char grant[17], container[SBX_CONTAINER_HEX + 1];
	struct principal *who;		/* NULL: gone */
	uint64_t began_ns;
};
/* A request of REST, until it is recorded as over. */
struct api {
	bool used, began;		/* began: the start is on record */
	uint32_t worker;		/* who waits; 0: nobody any more */
	struct principal *who;		/* NULL: gone */
	const struct sbx_rest *row;
	uint8_t op;
	char host[254], repo[141], text[256];
	uint64_t number, by_ns;
	uint64_t end_ns;		/* who waits is answered then */
	uint32_t page;
	bool credential;
	int body_fd, answer_fd;		/* owned, until they are sent on */
	uint32_t dial_id, rest_id;	/* of our request; 0: none */
};
/* A connection that the broker waits for. */
struct dial {
	uint32_t id;			/* of our PROXY_DIAL; 0: unused */
	uint32_t broker_id;
	uint64_t by_ns;
};
/* Started for the broker: a courier, or a run of the operator's command. */
struct courier {
	uint32_t instance;		/* the starter's; 0: unused */
	uint32_t want;			/* the broker's BROKER_WANT */
	uint8_t proc;
};

/* What an operator's connection has got to; used in from_cli.c. */
enum ctl_state {
	CTL_NEW,	/* accepted; may ask */
	CTL_ASKED,	/* wants a shell, waits for our answer */
	CTL_SHELL,	/* has one; its end ends the shell */
	CTL_OVER,	/* told the end: only its close is awaited */
	CTL_STATE_MAX
};
struct ctl {
	bool used;
	struct monitor *m;
	struct sbx_peer *peer;		/* owned */
	uid_t uid;			/* the kernel's word */
	uint64_t by_ns;			/* deadline of all states but SHELL */
	uint32_t id;			/* of its request */
	char run[SBX_RUN_HEX + 1];	/* "": none */
	char grant[17];			/* that it waits for, or "" */
	char publish[SBX_RUN_HEX + 1];	/* of which it wants to know */
	uint32_t look_id;		/* of our request for that; 0: none */
	uint32_t back_id;		/* of our request for it; 0: none */
	int master;			/* owned; until it is handed on */
};

/* A sandbox whose image is being chosen. */
struct detect {
	bool used;
	struct monitor *m;
	uint32_t worker_id;		/* who waits */
	struct sbx_sb_create q;		/* its strings are the next two */
	char name[65], label[65];
	uint32_t instance;		/* the starter's number; 0: no look */
	struct sbx_peer *peer;		/* owned: sbxd-copyin */
	bool exited;
	uint32_t found;			/* rows of sbx_markers, as bits */
	char seen[120];			/* the first half of the sentence */
	char lang[16];			/* its image, "" for none or several */
	uint32_t find_id;		/* of IMAGE_FIND; 0: not sent */
	uint64_t by_ns;
};

/* One copy from a client's root into a sandbox. */
struct copy {
	bool used;
	struct monitor *m;
	uint32_t instance;		/* the starter's number for it */
	uint32_t worker_id;		/* who waits; 0: nobody any more */
	struct principal *who;
	char container[SBX_CONTAINER_HEX + 1], run[SBX_RUN_HEX + 1];
	uint8_t mode;
	char *source, *dest;		/* owned */
	int root_fd, list_fd, report_fd; /* owned */
	struct sbx_peer *peer;		/* owned: sbxd-copyin */
	bool started, exited, read_done, unpack_done;
	int32_t unpack_error;		/* kept until the reader said why */
	char unpack_reason[256];
	uint32_t unpack_id;
	int32_t error;
	uint32_t files, refused;
	uint64_t bytes, by_ns, from_wall_ns;
	char reason[256], *final_path;	/* owned */
};
#define MAX_COPIES SBX_MAX_CALLS

struct monitor {
	struct event_base *base;
	struct sbx_conf conf;
	struct sbx_paths paths;
	bool stdio, by_root, serving;
	unsigned debug, slot, slot_first, slot_last;
	/* kept open for ever: after the cage nothing can be opened */
	int dir_journal, dir_runs, dir_scratch, dir_images;
	int dir_conf;			/* of sbx.conf, -1: there is none */
	char *conf_path;		/* owned: sbx.conf */
	const char *conf_name;		/* the last part of it */
	bool conf_named;		/* by -f: it must be there */
	int fd_roots, fd_resolv;	/* for the proxy */
	int fd_init, fd_userns, fd_lock, fd_http, fd_tokens, fd_listen, fd_ctl;
	uint32_t first_uid, uids;	/* for sandboxes; 0: they share one */
	int fd_in, fd_out;		/* the stdio client's, else -1 */
	int fd_root;			/* copy root of stdio, else -1 */
	char root_reason[256];		/* why there is none */
	struct sbx_homes homes;		/* no client's copy root */
	char socket[112];		/* getsockname() of the listener */
	uid_t uid, front_uid;
	gid_t gid;
	uint32_t nofile_hard;
	struct { int fd; char name[64]; } groups[SBX_CGROUP_MAX]; /* -1: none */
	uint32_t limits_able;		/* enum sbx_limit bits */
	uint64_t mem_max, mem_default;
	uint32_t cpu_max, cpu_default;	/* thousandths */
	pid_t starter_pid;
	struct component comps[SBX_PROC_MAX];
	struct sbx_peer *starter;	/* owned */
	uint32_t next_id;		/* for requests of ours */
	/* journal */
	bool journal_able;
	char journal_reason[256];
	uint64_t journal_lost;
	uint32_t suite_start_id, suite_end_id; /* JOURNAL_DONE awaited */
	uint64_t suite_start_by_ns, busy_ns, foreign_ns;
	/* tables */
	struct principal principals[SBX_MAX_PRINCIPALS];
	struct session sessions[SBX_MAX_CONNECTIONS + SBX_MAX_HTTP_USERS + 1];
	struct token tokens[SBX_MAX_TOKENS];
	size_t ntokens;
	unsigned tokens_line;		/* of what tokens_read() refused */
	uint64_t tokens_read_ns, refused_ns;
	struct call calls[SBX_MAX_CALLS + SBX_MAX_CALLS_RECOVERY];
	struct worker workers[SBX_MAX_WORKERS];
	uint32_t next_worker, next_copy;
	struct copy copies[MAX_COPIES];
	struct detect detects[MAX_COPIES];
	struct ctl ctls[SBX_MAX_CTL];
	struct grant grants[SBX_MAX_GRANTS];
	struct exchange exchanges[SBX_MAX_EXCHANGES];
	uint64_t exchange_refused_ns;
	struct api apis[SBX_MAX_API];
	struct dial dials[SBX_MAX_BROKER_DIALS];
	struct courier couriers[SBX_MAX_COURIERS];
	bool locked;			/* lockdown.c */
	const char *given;		/* %d of sources; NULL: nothing */
	uint32_t lock_grants;		/* that ended by it */
	uint32_t lock_id;		/* of BROKER_LOCK: its end is not known yet */
	uint32_t unlock_id;		/* JOURNAL_DONE awaited, to lift it */
	struct sandbox_list sandboxes;
	struct snapshot_list snapshots;
	struct deps_list deps;
	struct gate gates[MAX_GATES];
	struct publish publishes[MAX_PUBLISHES];
	struct pushed *pushes;		/* MAX_PUSHES, of a file */
	unsigned push_tries[MAX_PUSHES];
	uint64_t push_next_ns;		/* not before, another look */
	struct override overrides[MAX_OVERRIDES];
	uint64_t override_serial;
	char *secret_rules;		/* owned: that file */
	size_t nsecret_rules;
	unsigned nsandboxes, nruns;
	struct run_list runs;
	struct run_chain chains[RUN_CHAINS];
	struct event *tick;		/* owned: while there are deadlines */
	struct event *reap_timer;	/* owned: the next end by time */
	struct reaped reaped[SBX_MAX_REAPED];
	unsigned next_reaped;
	struct event *ctl_accept;	/* owned: of fd_ctl, once serving */
	/* end */
	bool stopping, stop_killed;
	unsigned stop_step;		/* enum stop_step */
	uint32_t stop_lock_id;		/* of BROKER_LOCK: tokens are revoked */
	struct sbx_conf *renew;		/* owned: sources that count when the
					 * old ones' tokens are revoked */
	uint32_t renew_id;		/* of BROKER_LOCK for that */
	uint64_t renew_by_ns;
	uint32_t look_id;		/* of BROKER_STATUS, at a SIGHUP */
	char signer_bad[256];		/* why the broker that runs cannot sign;
					 * "": it can, or did not say yet */
	int exit_code;
	struct event *stop_timer, *sigs[4];
};

/* --- tables of handlers, one a peer -------------------------------------- */
extern const struct sbx_dispatch_table monitor_from_starter,
    monitor_from_engine, monitor_from_recorder, monitor_from_journald,
    monitor_from_broker, monitor_from_proxy, monitor_from_zygote,
    monitor_from_front, monitor_from_worker, monitor_from_copyin, monitor_from_judge,
    monitor_from_cli;

/* --- tick.c: deadlines --------------------------------------------------- */
void tick_arm(struct monitor *m);	/* something has a deadline now */

/* --- component.c --------------------------------------------------------- */
extern const enum sbx_proc component_order[];
extern const size_t component_order_n;
void component_init(struct monitor *m);
void component_start(struct component *c);
int component_hello(struct sbx_peer *p, struct sbx_in *in);	/* handler */
int component_log(struct sbx_peer *p, struct sbx_in *in);	/* handler */
int component_pong(struct sbx_peer *p, struct sbx_in *in);	/* handler */
void component_exited(struct component *c, uint32_t instance, int status);
/* Its peer broke the protocol or is overdue: end it, restart follows. */
void component_fail(struct component *c, const char *reason);
/* The same, if it lives, without counting it among its deaths. */
void component_renew(struct component *c, const char *reason);
bool component_ready(const struct monitor *m, enum sbx_proc proc);
/* Its channel when it can take requests, else NULL. */
struct sbx_peer *component_peer(struct monitor *m, enum sbx_proc proc);
/* A sentence for a refusal: why there is no such component now. */
const char *component_why(const struct monitor *m, enum sbx_proc proc);
void component_tick(struct monitor *m, uint64_t now_ns);
/* All are up and suite_start is durable: let clients in. */
void component_serve(struct monitor *m);

/* --- introduce.c --------------------------------------------------------- */
void introduce(struct monitor *m, enum sbx_proc started);

/* --- log.c --------------------------------------------------------------- */
void log_child(struct component *c, const char *tag, uint8_t level,
    const char *text);
const char *log_status(int status, char *dst, size_t size);

/* --- journal.c ----------------------------------------------------------- */
struct record {
	uint8_t flags;			/* enum sbx_journal_flag */
	const char *op, *phase;		/* phase: "start", "end", "" */
	const struct principal *who;	/* NULL: the suite itself */
	const char *container, *run;	/* NULL: none */
	int32_t code;			/* 0 or what failed */
};
/* Fire and forget; pairs of key, value, NULL.  Lost ones are counted. */
void journal_add(struct monitor *m, const struct record *r, ...)
    __attribute__((sentinel));
/* What a `then` of journal_cross() was told: NULL when the record is durable
 * and the crossing permitted, else why it is not. */
const char *journal_why(const struct sbx_in *in, const char *why);
/*
 * A crossing: `then` of the worker's ask is called with JOURNAL_DONE, or with
 * NULL and the reason; on failure to send, before this returns.
 */
void journal_cross(struct monitor *m, struct worker *w,
    void (*then)(struct monitor *, struct worker *, struct sbx_in *,
    const char *), const struct record *r, ...) __attribute__((sentinel));
/* The suite's own first and last record; the id for JOURNAL_DONE, 0: lost. */
/* As journal_add(), but durable, with JOURNAL_DONE of the id that it returns.
 * 0: it could not be sent. */
uint32_t journal_own(struct monitor *m, const struct record *r, ...);
uint32_t journal_suite(struct monitor *m, const char *op, int32_t code);
/* Somebody named what is another's: recorded at a bounded rate. */
void journal_foreign(struct monitor *m, const struct principal *who,
    const char *what, const char *id);
bool journal_up(const struct monitor *m, const char **ret_why);
/* The ask of RUN_JOURNAL: what was sent of one of the worker's own runs. */
void journal_run(struct monitor *m, struct worker *w, const char *run);

/* --- setup_http.c -------------------------------------------------------- */
#define SBX_HTTP_URL_MAX 288	/* scheme, host in brackets, port, path */
int setup_http(struct monitor *m, struct sbx_err *err);
int setup_http_check(const struct monitor *m, bool *ret_public,
    struct sbx_err *err);
const char *http_url(const struct monitor *m, char dst[SBX_HTTP_URL_MAX]);
/* 0, or the table stays: SBX_E_SYNTAX, SBX_E_LIMIT. */
int tokens_read(struct monitor *m, bool caged);
struct token *token_find(struct monitor *m, const char *sha256);

/* --- principal.c --------------------------------------------------------- */
struct principal *principal_suite(struct monitor *m);	/* NULL: no room */
struct session *session_stdio(struct monitor *m);
int session_accept(struct monitor *m, int conn_fd, struct session **ret_s,
    const char **ret_why);
/* Of whom the digest of a bearer token is; "": http_auth none.  NULL: of
 * nobody, or there is no room. */
struct session *session_token(struct monitor *m, const char *sha256);
struct session *session_find(struct monitor *m, uint64_t handle);
void session_free(struct monitor *m, struct session *s);
/* Takes fd.  0 or SBX_E_POLICY. */
int session_root(struct monitor *m, struct session *s, int fd);

/* --- policy.c: every decision about who may do what ---------------------- */
bool policy_tool_name(const char *tool);
bool policy_container_ref(const char *ref);
bool policy_is_recovery(const char *tool);
bool policy_sandbox_name(const char *name);
bool policy_path_inside(const char *path);
bool policy_is_operator(const struct monitor *m, const struct principal *p);
/* May this uid, as the kernel names it, give orders to the suite? */
bool policy_is_ctl(const struct monitor *m, uid_t uid);
/* Does the session's client still hold its connection? */
bool policy_connected(const struct session *s);
/* The call fits below the caps; else *ret_why says which one it meets. */
bool policy_call_fits(struct monitor *m, const struct call *c,
    const char **ret_why);
/* May it last as long as its work?  Else it has the time of any other. */
bool policy_patient_fits(const struct monitor *m, const struct call *c);
/* Of this principal, by whole id; NULL when foreign or absent alike. */
struct sandbox *policy_sandbox(struct monitor *m, const struct principal *p,
    const char *id);
/* By id or name. */
struct snapshot *policy_snapshot(struct monitor *m, const struct principal *p,
    const char *ref);
struct run *policy_run(struct monitor *m, const struct principal *p,
    const char *id);
/* false: it asks for too much in too short a time */
bool policy_rate(struct principal *p);
/* May a client copy from below this directory? */
bool policy_copy_root(const struct monitor *m, int fd);
/* argv, env, cwd of an exec; NULL or what is wrong with them. */
const char *policy_exec(const struct sbx_exec_start *e);
const char *policy_shell(const struct sbx_shell_start *q);

/* --- call.c -------------------------------------------------------------- */
void call_new(struct monitor *m, const struct sbx_call *msg, int args_fd);
struct call *call_find(struct monitor *m, uint32_t number);
void call_refuse(struct monitor *m, uint32_t number, const char *code,
    const char *reason, const char *next);
/* Answered or refused: forget it.  undo: kill what it left running. */
void call_end(struct monitor *m, struct call *c, bool undo);
void call_cancel(struct monitor *m, struct call *c);
void call_cancel_all(struct monitor *m, const struct session *s);
/* Give waiting calls the workers that are idle now. */
void call_dispatch(struct monitor *m);
void call_tick(struct monitor *m, uint64_t now_ns);

/* --- worker.c ------------------------------------------------------------ */
void worker_fill(struct monitor *m);
struct worker *worker_for(struct monitor *m, struct principal *who);
void worker_give(struct worker *w, struct call *c);
void worker_idle(struct worker *w, bool is_error);
void worker_kill(struct worker *w);
void worker_exited(struct monitor *m, uint32_t id, int status);
void worker_all_gone(struct monitor *m);	/* the zygote died */
struct worker *worker_find(struct monitor *m, uint32_t id);
void worker_tick(struct monitor *m, uint64_t now_ns);
/* asks */
void ask_begin(struct worker *w, const struct sbx_in *in, unsigned seconds);
void ask_refuse(struct worker *w, const char *code, const char *next,
    const char *fmt, ...) SBX_PRINTF(4, 5);
void ask_done(struct worker *w);		/* the answer was sent */
struct worker *ask_of_run(struct monitor *m, uint16_t type, const char *run);
struct worker *ask_of_sandbox(struct monitor *m, uint16_t type,
    const char *container);
struct worker *ask_of_id(struct monitor *m, enum sbx_proc back, uint32_t id);
void ask_fail_all(struct monitor *m, enum sbx_proc back, const char *why);

/* --- sandbox.c ----------------------------------------------------------- */
/* why_image: how the image was chosen; "": it was asked for. */
void sandbox_create(struct monitor *m, struct worker *w,
    const struct sbx_sb_create *q, const char *why_image);
void sandbox_list(struct monitor *m, struct worker *w, const char *ref);
/* It stands, and has its way out where it is to have one: tell its maker. */
void sandbox_made(struct monitor *m, struct sandbox *sb,
    const struct sbx_sandbox_ready *q);
void sandbox_ready(struct monitor *m, const struct sbx_sandbox_ready *q);
void sandbox_ended(struct monitor *m, const struct sbx_sandbox_ended *q);
struct sandbox *sandbox_find(struct monitor *m, const char *id);
/* A whole id, a prefix of at least 4 digits or a name, as SB_LIST takes. */
struct sandbox *sandbox_resolve(struct monitor *m, const struct principal *p,
    const char *ref);
void sandbox_stop(struct monitor *m, struct sandbox *sb, const char *reason);
void sandbox_call_ended(struct monitor *m, struct call *c, bool undo);
void sandbox_unwanted(struct monitor *m, const char *id);
void sandbox_run_ended(struct monitor *m, struct sandbox *sb);
void sandbox_tick(struct monitor *m, uint64_t now_ns);
/* In its table, CREATING, of w's call; name "": by its id.  It is asked for by
 * sandbox_send_create(), once that is recorded. */
struct sandbox *sandbox_new(struct monitor *m, struct worker *w,
    const char *image, const char *name, const char *label);
/* The same of nobody's call, and hidden. */
struct sandbox *sandbox_hidden(struct monitor *m, struct principal *who,
    const char *image);
/* snapshot "": none.  false: the engine is not there. */
bool sandbox_send_create(struct monitor *m, struct sandbox *sb,
    const char *snapshot);
void sandbox_free(struct monitor *m, struct sandbox *sb);
bool sandbox_name_taken(struct monitor *m, const struct principal *who,
    const char *name);
/* true: it is not READY, and w's ask was refused for that. */
/* The worker's principal's, ready; NULL: the ask was refused. */
struct sandbox *sandbox_own(struct monitor *m, struct worker *w,
    const char *id);
bool sandbox_barred(struct worker *w, const struct sandbox *sb);

/* --- egress.c: ways out --------------------------------------------------- */
/* Can the proxy be told these hosts?  0, SBX_E_SYNTAX, SBX_E_LIMIT; err set. */
int egress_check(const struct sbx_conf *c, struct sbx_err *err);
/* What the proxy needs of files, before the cage.  0, SBX_E_SYS. */
int setup_egress(struct monitor *m, struct sbx_err *err);
/* Tell the proxy what sandboxes may reach.  0, SBX_E_CLOSED. */
int egress_policy(struct monitor *m);
void egress_reload(struct monitor *m);		/* SIGHUP */
/* It stands; sandbox_made() follows, or its end. */
void egress_open(struct monitor *m, struct sandbox *sb,
    const struct sbx_sandbox_ready *q);
void egress_opened(struct monitor *m, const struct sbx_proxy_opened *q);
/* A new life of the proxy: all that was open is to be so again. */
int egress_proxy_started(struct monitor *m);
/* What a command of that sandbox finds in its environment, with own (NULL ok)
 * behind it; the bytes are b's.  0, SBX_E_LIMIT. */
int egress_env(const struct sandbox *sb, const struct sbx_strs *own,
    struct sbx_strs *ret, struct sbx_buf *b);
void made_free(struct made *k);			/* NULL ok */

/* --- grant.c --------------------------------------------------------------- */
/* For an operator, who is answered; no byte of it goes out before its record
 * is durable. */
void grant_ask(struct ctl *c, const struct sbx_ctl_grant *q);
/* The same for w's ask, to read, while its call lasts.  false: no room. */
bool grant_fetch(struct monitor *m, struct worker *w,
    const struct sandbox *sb, const char *host, const char *repo,
    uint32_t lifetime_ms);
/* The same for a publication, which is told (publish_granted()); q NULL: to read.
 * Its id, into ret_id; false: no room, or it is over at once. */
bool grant_publish(struct monitor *m, const struct sandbox *sb,
    const char *host, const char *repo, const struct sbx_ctl_grant *q,
    char ret_id[17]);
void grant_drop(struct monitor *m, const char *id, const char *why);
struct grant *grant_find(struct monitor *m, const char *id);
/* True: that JOURNAL_DONE was of a grant's record. */
bool grant_recorded(struct monitor *m, const struct sbx_in *in);
void grant_sourced(struct monitor *m, const struct sbx_broker_granted *q);
/* GRANT_STATE.  0, SBX_E_RANGE: more uses than it has. */
int grant_state(struct monitor *m, const struct sbx_grant_state *q);
void grant_idle(struct monitor *m, const char *id);	/* an exchange ended */
void grant_close(struct monitor *m, struct worker *w, const char *id);
/* Nobody waits for it now. */
void grant_ctl_gone(struct ctl *c);
void grant_worker_gone(struct worker *w);
void grant_call_ended(struct monitor *m, const struct call *c);
/* That run has it now; false: it is none of this call and that sandbox. */
bool grant_to_run(struct monitor *m, const struct worker *w, const char *id,
    const struct run *r);
void grant_run_ended(struct monitor *m, const struct run *r);
/* container NULL: the proxy is gone, and with it all of them. */
void grant_ended(struct monitor *m, const char *container, const char *why);
void grant_broker_lost(struct monitor *m);
void grant_journald_lost(struct monitor *m);
unsigned grant_lockdown(struct monitor *m);	/* how many ended */
void grant_relisted(struct monitor *m);	/* the lists of repositories changed */
void grant_tick(struct monitor *m, uint64_t now_ns);

/* --- repos.c: repositories and sources, as sbx.conf has them ---------------- */
static inline bool
repos_may_read(const struct monitor *m, const char *host, const char *repo)
{
	return (repos_reads(&m->conf, host, repo));
}

static inline bool
repos_may_write(const struct monitor *m, const char *host, const char *repo)
{
	return (repos_writes(&m->conf, host, repo));
}

static inline bool
repos_source(const struct monitor *m, const char *host)
{
	return (repos_sourced(&m->conf, host));
}

/* Is it the API of a host that there is a source for? */
static inline bool
repos_is_api(const struct monitor *m, const char *host)
{
	if (strcmp(host, SBX_GITHUB_API) == 0)
		return (repos_source(m, SBX_GITHUB));
	return (strcmp(host, SBX_GITHUB) != 0 && repos_source(m, host));
}

/* --- broker.c ----------------------------------------------------------------- */
int broker_start(struct component *c);		/* BROKER_START */
void broker_is_up(struct monitor *m);
int broker_want(struct monitor *m, uint32_t id, uint8_t proc);
void broker_kill(struct monitor *m, uint32_t id);	/* of a BROKER_WANT */
void broker_child_exited(struct monitor *m, uint8_t proc, uint32_t instance);
int broker_dial(struct monitor *m, uint32_t id,
    const struct sbx_broker_dial *q);
/* PROXY_DIAL; false: the proxy is not there. */
bool broker_proxy_dial(struct monitor *m, uint32_t id, const char *host);
/* PROXY_DIALLED or PROXY_NOT_DIALLED.  false: it was not the broker's. */
bool broker_dialled(struct monitor *m, struct sbx_in *in);
void broker_status_ask(struct ctl *c);
void broker_state(struct monitor *m, uint32_t id,
    const struct sbx_broker_state *q);
/* Other sources of credentials, and what else only the broker's start tells it;
 * true of the second: the id is that of what the first asked. */
void broker_renew(struct monitor *m, const struct sbx_conf *c);
bool broker_renewed(struct monitor *m, uint32_t id);
/* The same where it says that files are others now, or that it could not use
 * them. */
void broker_look(struct monitor *m);
void broker_lost(struct monitor *m);
void broker_proxy_lost(struct monitor *m);
void broker_tick(struct monitor *m, uint64_t now_ns);

/* --- exchange.c ----------------------------------------------------------------- */
/* PROXY_EXCHANGE.  fds: borrowed. */
void exchange_ask(struct monitor *m, uint32_t id, const char *grant,
    const int fds[2]);
void exchange_over(struct monitor *m, uint32_t id,
    const struct sbx_broker_exchanged *q);
bool exchange_any(const struct monitor *m, const char *grant);
void exchange_drop_principal(struct monitor *m, const struct principal *p);
void exchange_broker_lost(struct monitor *m);
void exchange_proxy_lost(struct monitor *m);

/* --- repo.c --------------------------------------------------------------------- */
void repo_open(struct monitor *m, struct worker *w,
    const struct sbx_repo_open *q);
/* REPO_OPENED without a grant. */
void repo_anonymous(struct worker *w, const char *code, const char *why);
/* A run that clones: what it has ends with it. */
void repo_run(struct monitor *m, struct worker *w,
    const struct sbx_repo_run *q);
void repo_run_ended(struct monitor *m, const struct run *r);

/* --- api.c ---------------------------------------------------------------------- */
/* fds: consumed. */
void api_ask(struct monitor *m, struct worker *w, const struct sbx_api_ask *q,
    int fds[2]);
bool api_dialled(struct monitor *m, struct sbx_in *in);	/* false: not its */
void api_rested(struct monitor *m, uint32_t id,
    const struct sbx_broker_rested *q);
void api_late(struct worker *w);	/* nobody answered in time */
void api_worker_gone(struct worker *w);
void api_drop_principal(struct monitor *m, const struct principal *p);
void api_broker_lost(struct monitor *m);
void api_proxy_lost(struct monitor *m);
void api_tick(struct monitor *m, uint64_t now_ns);

/* --- lockdown.c ------------------------------------------------------------------ */
#define LOCKED_WHY "the suite is locked down"
#define LOCKED_NEXT "An operator lifts it with `sbx lockdown off`."
/* Is it from the start?  Before the cage.  0, SBX_E_SYS. */
int lockdown_read(struct monitor *m, struct sbx_err *err);
void lockdown_ask(struct ctl *c, bool on);
void lockdown_broker(struct monitor *m, uint32_t id,
    const struct sbx_broker_locked *q);
void lockdown_broker_lost(struct monitor *m);
bool lockdown_late(struct ctl *c);	/* true: c was answered */
bool lockdown_recorded(struct monitor *m, const struct sbx_in *in);

/* --- guard.c: work newer than what was copied in --------------------------- */
void guard_ask_stop(struct monitor *m, struct worker *w,
    const struct sbx_sb_stop *q);
/* The engine's answer to the request `id`, whoever asked. */
void guard_found(struct monitor *m, const struct sbx_engine_work_found *q,
    uint32_t id);
/* A copy to dest, of these wall times: what is there now came in by it. */
void guard_copied(struct monitor *m, struct sandbox *sb, const char *dest,
    uint64_t from_ns, uint64_t to_ns);
/* Ask the engine about a baseline in use.  The request's id; 0: not sent. */
uint32_t guard_ask(struct monitor *m, const struct sandbox *sb,
    const struct baseline *b);
/* What was found, against what was there when b was made. */
bool guard_is_work(const struct sbx_engine_work_found *q,
    const struct baseline *b);
/* Refuse w's ask for it: "work below ... that is newer than what THAN; it is
 * lost when the sandbox BY". */
void guard_refuse(struct worker *w, const struct sbx_engine_work_found *q,
    const struct baseline *base, const char *next, const char *than,
    const char *by);

/* --- reap.c: ends by time --------------------------------------------------- */
void reap_arm(struct monitor *m);	/* something due may have changed */
/* The end of the call `c`, whose container was used until now. */
void reap_call_ended(struct monitor *m, const struct call *c);
/* true: it was the reaper that asked */
bool reap_found(struct monitor *m, const struct sbx_engine_work_found *q,
    uint32_t id);
/* What a sandbox that wants `ttl_s` (0: nothing) gets, in seconds; 0: none. */
uint64_t reap_ttl(const struct monitor *m, uint64_t ttl_s);
/* Why it is spared, "" when it is not; borrowed. */
const char *reap_held(const struct sandbox *sb);
/* The reaped one of this principal that `ref` (id or name) was; else NULL. */
const struct reaped *reap_find(const struct monitor *m,
    const struct principal *p, const char *ref);
/* Send SB_REAPED of what this list's owner was not told yet. */
int reap_tell(struct monitor *m, struct worker *w);
/* Refuse the ask: there is no such sandbox, or not any more. */
void reap_refuse(struct worker *w, const char *ref);

/* --- run.c --------------------------------------------------------------- */
void run_exec(struct monitor *m, struct worker *w,
    const struct sbx_exec_start *e, int stdin_fd);
/* In its table, STARTING; NULL when that is full of live ones. */
struct run *run_new(struct monitor *m, struct principal *who,
    const char *container, const char *tool);
/* argv as it was asked for, on one line, cut; b was made with its maximum. */
void run_show_argv(struct sbx_buf *b, const struct sbx_strs *argv);
void run_free(struct monitor *m, struct run *r);
/* A run without a process: what a call that made something is known by. */
struct run *run_mark(struct monitor *m, struct principal *who,
    const char *container, const char *tool);
void run_wait(struct monitor *m, struct worker *w,
    const struct sbx_exec_wait *q);
void run_kill_asked(struct monitor *m, struct worker *w, const char *id);
void run_read(struct monitor *m, struct worker *w,
    const struct sbx_out_read *q);
void run_list(struct monitor *m, struct worker *w,
    const struct sbx_run_list *q);
void run_exec_started(struct monitor *m,
    const struct sbx_engine_exec_started *q);
void run_exited(struct monitor *m, const struct sbx_engine_exited *q);
void run_killed(struct monitor *m, const struct sbx_engine_killed *q);
void run_finished(struct monitor *m, const struct sbx_run_finished *q);
struct run *run_find(struct monitor *m, const char *id);
/* The run of that id if it is this worker's principal's; else it is refused. */
struct run *run_own(struct monitor *m, struct worker *w, const char *id);
void run_kill(struct monitor *m, struct run *r, enum sbx_exit_why why);
void run_call_ended(struct monitor *m, struct call *c, bool undo);
void run_sandbox_ended(struct monitor *m, const char *container);
void run_wait_over(struct monitor *m, struct worker *w);
void run_recorder_back(struct monitor *m);	/* send again what is open */
void run_recorder_down(struct monitor *m);	/* for good */
void run_drop_principal(struct monitor *m, const struct principal *p);
void run_tick(struct monitor *m, uint64_t now_ns);

/* --- watch.c: runs whose changes clients are told of ---------------------- */
void watch_ask(struct monitor *m, struct worker *w, const char *run);
/* The end of a call that asked was told: what ended meanwhile is told again,
 * for the front has only now got somebody to tell. */
void watch_answered(struct monitor *m, const struct call *c);
void watch_over(struct monitor *m, const struct session *s, const char *run);
void watch_run_ended(struct monitor *m, struct run *r);
void watch_looked(struct monitor *m, const struct sbx_run_stats *q,
    uint32_t id);
void watch_tick(struct monitor *m, uint64_t now_ns);

/* --- ctl.c: the operator's connections ------------------------------------ */
void ctl_serve(struct monitor *m);		/* once: accept from now on */
void ctl_refuse(struct ctl *c, const char *code, const char *next,
    const char *fmt, ...) SBX_PRINTF(4, 5);
struct ctl *ctl_of_run(struct monitor *m, const char *run);
struct ctl *ctl_of_back(struct monitor *m, uint32_t id);
void ctl_over(struct ctl *c);		/* it has its last answer */
void ctl_tick(struct monitor *m, uint64_t now_ns);

/* --- shell.c -------------------------------------------------------------- */
void shell_start(struct ctl *c, const struct sbx_shell_start *q);
void shell_pty(struct monitor *m, const char *run, int fd);	/* takes fd */
/* What run.c learnt of an interactive run.  reason NULL: it started. */
void shell_started(struct monitor *m, const struct run *r,
    const char *reason);
void shell_ended(struct monitor *m, const struct run *r);
void shell_gone(struct ctl *c);		/* its operator is */
void shell_shutdown(struct monitor *m);
/* --- limits.c ------------------------------------------------------------ */
/* NULL and the limits of a new sandbox; or, in dst, why there can be none,
 * with the stable word for it. */
const char *limits_resolve(const struct monitor *m,
    const struct sbx_sb_create *q, struct limits *ret_limits,
    const char **ret_code, char *dst, size_t size);

/* --- detect.c ------------------------------------------------------------ */
/* Choose an image if none is named, then sandbox_create(). */
void detect_create(struct monitor *m, struct worker *w,
    const struct sbx_sb_create *q);
struct detect *detect_of_peer(struct monitor *m, const struct sbx_peer *p);
void detect_looked(struct detect *d, const struct sbx_copyin_done *q);
void detect_image_found(struct monitor *m, const struct sbx_image_found *q,
    uint32_t id);
void detect_exited(struct monitor *m, uint32_t instance);
void detect_worker_gone(struct monitor *m, uint32_t worker_id);
void detect_tick(struct monitor *m, uint64_t now_ns);

/* --- gate.c ------------------------------------------------------------------ */
/* list_fd: consumed.  Each answers the worker's ask, soon or later. */
void gate_start(struct monitor *m, struct worker *w,
    const struct sbx_gate_start *q, int list_fd);
void gate_wait(struct monitor *m, struct worker *w,
    const struct sbx_gate_wait *q);
void gate_wait_over(struct monitor *m, struct worker *w);
/* Each false: it was not for one of these. */
bool gate_sandbox_ready(struct monitor *m, struct sandbox *sb);
bool gate_run_ended(struct monitor *m, struct sandbox *sb);
bool gate_read(struct monitor *m, struct sbx_in *in);
bool gate_packed(struct monitor *m, const struct sbx_engine_filed *q,
    uint32_t id);
bool gate_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id);
void gate_sandbox_gone(struct monitor *m, struct sandbox *sb,
    const char *reason);
struct gate *gate_of_peer(struct monitor *m, const struct sbx_peer *p);
void gate_judge_ended(struct gate *g);
/* A pass of exactly that tree, which `who` has: its own id's format decides. */
const struct pass *gate_pass(const struct principal *who, const char *tree);
/* 0, or an sbx_error: the judge broke the protocol. */
int gate_treed(struct gate *g, const struct sbx_judge_treed *q);
int gate_verdict(struct gate *g, const struct sbx_judge_verdict *v);
void gate_call_ended(struct monitor *m, const struct call *c, bool undo);
/* Own ones only; NULL: there is none of that id. */
struct gate *gate_find(struct monitor *m, const struct principal *who,
    const char *id);
/* It ends without a verdict, unless it has ended; the record of nothing. */
void gate_fail(struct gate *g, const char *reason);
void gate_free(struct gate *g);
/* The answer to what w asked. */
void gate_state_send(struct worker *w, const struct gate *g);
void gate_drop_principal(struct monitor *m, const struct principal *p);
void gate_tick(struct monitor *m, uint64_t now_ns);
void gate_shutdown(struct monitor *m);	/* record what does not end by itself */

/* --- hidden.c: what verifications and publications do alike ------------------- */
/* Started; judge->peer may be sent to.  0, or an sbx_error. */
int judge_begin(struct monitor *m, struct judge *j);
void judge_kill(struct monitor *m, struct judge *j);
/* From a work sandbox through the judge to a hidden one; the monitor sees no byte
 * of it. */
struct crossing {
	struct judge *judge;
	bool publish;			/* JUDGE_FILES, else JUDGE_TREE */
	const struct sbx_engine_file *pack;
	int list_fd;			/* borrowed: the names */
	const char *to, *dest;
};
/* *ret_pack, *ret_unpack: ids of what the engine will answer.  0, or an
 * sbx_error. */
int hidden_cross(struct monitor *m, const struct crossing *c,
    uint32_t *ret_pack, uint32_t *ret_unpack);
struct script {
	const char *tool, *text, *shown;	/* shown: in the journal */
	const char *const *args;		/* $0 and what follows */
	size_t nargs;
	const void *input;			/* of standard input */
	size_t ninput;
	uint64_t timeout_ms;
};
/* NULL, or why it does not run. */
const char *hidden_run(struct monitor *m, struct sandbox *sb,
    const struct script *s, char ret_run[SBX_RUN_HEX + 1]);
/* Ask for what it wrote to standard output: the id of RUN_DATA or RUN_NODATA, 0:
 * the recorder is not there. */
uint32_t hidden_read(struct monitor *m, const char *run);
/* One place of a table of them.  who NULL: unused; ended_ns 0: it goes on. */
struct hidden_place {
	const struct principal *who;
	uint64_t ended_ns;
};
#define HIDDEN_RUNNING 4		/* at once, one principal: */
#define HIDDEN_RUNNING_OWN 2
#define HIDDEN_KEPT_OWN 4		/* of a full table: with as many its
					 * own make room */
/* The place for a new one of who's, n: as many are under way as may be.  v has
 * more than HIDDEN_RUNNING places, so one is unused or has ended. */
size_t hidden_place(const struct hidden_place *v, size_t n,
    const struct principal *who);

/* --- publish.c, publish_ask.c ------------------------------------------------- */
int publish_check(const struct sbx_conf *c, struct sbx_err *err);
/* What secret_rules names is looked at; *ret_fd: open, if it names something. */
int publish_rules(const struct sbx_conf *c, int *ret_fd, struct sbx_err *err);
int setup_publish(struct monitor *m, struct sbx_err *err);
/* fds: consumed.  Each answers the worker's ask, soon or later. */
void publish_start(struct monitor *m, struct worker *w,
    const struct sbx_publish_start *q, int fds[2]);
void publish_wait(struct monitor *m, struct worker *w,
    const struct sbx_publish_wait *q);
void publish_wait_over(struct monitor *m, struct worker *w);
/* The same: the answer to what w asked. */
void publish_state_send(struct worker *w, const struct publish *p);
/* Own ones only; NULL: there is none of that id. */
struct publish *publish_find(struct monitor *m, const struct principal *who,
    const char *id);
/* publish_gate.c: judge and publisher agree on p->tree.  A verification of that
 * is found, waited for, or p is refused; publish_verified() goes on. */
void publish_gate_begin(struct publish *p);
void publish_verified(struct publish *p);
void publish_gate(struct monitor *m, struct worker *w,
    const struct sbx_publish_gate *q);
void publish_gate_ended(struct monitor *m, const struct gate *g);
/* The state of it, to whoever waits for its end. */
void publish_tell(struct publish *p);
/* What script number `row` (publish.h) said in its line, which is cut up for it;
 * "": none.  false: p was refused. */
struct publish_said {
	const char *value[5];
	uint32_t number[5];		/* of SHOW */
	char text[512];
};
bool publish_line(struct publish *p, unsigned row, char *line,
    struct publish_said *ret);
void publish_free(struct publish *p);
void publish_refuse(struct publish *p, const char *step, const char *fmt, ...)
    SBX_PRINTF(3, 4);
/* Each false: it was not for one of these. */
bool publish_sandbox_ready(struct monitor *m, struct sandbox *sb);
bool publish_run_ended(struct monitor *m, struct sandbox *sb);
bool publish_read(struct monitor *m, struct sbx_in *in);
bool publish_filed(struct monitor *m, const struct sbx_engine_filed *q,
    uint32_t id);
bool publish_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id);
void publish_sandbox_gone(struct monitor *m, struct sandbox *sb,
    const char *reason);
struct publish *publish_of_peer(struct monitor *m, const struct sbx_peer *p);
void publish_judge_ended(struct publish *p);
/* publish_sign.c.  One commit of p may be signed; false: p is refused. */
bool publish_announce(struct publish *p);
/* Each 0, or an sbx_error: the judge broke the protocol. */
int publish_sign(struct publish *p, const char *commit);
void publish_signed(struct monitor *m, uint32_t id,
    const struct sbx_broker_signed *q);
void publish_broker_lost(struct monitor *m);
enum sbx_publish_signed publish_is_signed(const struct publish *p);
struct publish *publish_answered(struct monitor *m, enum publish_ask what,
    uint32_t id);
int publish_judged(struct publish *p, const struct sbx_judged *q);
/* Is that grant wanted still?  It opened; it is used; it is over. */
bool publish_wants(struct monitor *m, const char *grant);
void publish_granted(struct monitor *m, const char *grant);
void publish_grant_used(struct monitor *m, const char *grant);
void publish_grant_over(struct monitor *m, const char *grant,
    const char *code, const char *why);
void publish_call_ended(struct monitor *m, const struct call *c, bool undo);
void publish_drop_principal(struct monitor *m, const struct principal *who);
void publish_lockdown(struct monitor *m);
void publish_tick(struct monitor *m, uint64_t now_ns);
void publish_shutdown(struct monitor *m);

/* --- publish_user.c ---------------------------------------------------------- */
void publish_confirm(struct monitor *m, struct worker *w,
    const struct sbx_publish_confirm *q);	/* answers w */

/* --- override.c -------------------------------------------------------------- */
/* Did the client that this call of that tool is of say that its user did so with
 * the question ("accept", "decline")?  Was it asked with that in its state?  The
 * words are the front's, not the worker's.  c may be NULL. */
bool call_user_said(const struct call *c, const char *tool, const char *action);
bool call_asked_of(const struct call *c, const char *name, const char *value);
/* Answers the worker's ask, soon or later. */
void override_ask(struct monitor *m, struct worker *w,
    const struct sbx_override_ask *q);
/* The fingerprints that do not count for p, which remembers whose they are: for
 * override_holds() when it is to be pushed, and override_end() when it was. */
void override_list(struct publish *p, struct sbx_strs *ret,
    struct sbx_buf *ret_text);
bool override_holds(const struct publish *p);
void override_end(const struct publish *p);
void override_drop_principal(struct monitor *m, const struct principal *who);
void override_lockdown(struct monitor *m);

/* --- file.c ------------------------------------------------------------------ */
/* Each answers the worker's ask, soon or later.  fds: borrowed. */
void file_ask(struct monitor *m, struct worker *w,
    const struct sbx_file_ask *q, const int fds[2]);
void undo_keep(struct monitor *m, struct worker *w,
    const struct sbx_undo_keep *q, const int *fd);
void undo_find(struct monitor *m, struct worker *w,
    const struct sbx_undo_find *q);
void undo_forget(struct monitor *m, const char *container);

/* --- copy.c -------------------------------------------------------------- */
void copy_start(struct monitor *m, struct worker *w,
    const struct sbx_copy_in *q, int list_fd);
void copy_read_done(struct copy *c, const struct sbx_copyin_done *q);
void copy_unpacked(struct monitor *m, const struct sbx_engine_unpacked *q,
    uint32_t id);
struct copy *copy_of_peer(struct monitor *m, const struct sbx_peer *p);
void copy_exited(struct monitor *m, uint32_t instance, int status);
void copy_worker_gone(struct monitor *m, uint32_t worker_id);
void copy_sandbox_ended(struct monitor *m, const char *container);
void copy_tick(struct monitor *m, uint64_t now_ns);

/* --- shutdown.c ---------------------------------------------------------- */
void shutdown_begin(struct monitor *m, int exit_code, const char *reason);
void shutdown_step(struct monitor *m);	/* something ended: go on */
void shutdown_revoked(struct monitor *m);	/* BROKER_LOCKED */

/* --- options.c, setup.c: before the cage; env is getenv(3) of main() ----- */
/* -1: go on; else the exit code, and why is on stderr. */
int setup_options(struct monitor *m, int argc, char **argv,
    char *(*env)(const char *));
/* Slot, directories, listener, sbx-init, copy root: the descriptors of m.
 * 0 or a negative sbx_error with err set. */
int setup_open(struct monitor *m, char *(*env)(const char *),
    struct sbx_err *err);
/*
 * setup_userns.c: where sandboxes are made, m->fd_userns, and the ids of it
 * that they may have, m->first_uid and m->uids.  uid, gid: the engine's.  That
 * there is no range is logged.  Runs newuidmap(1) and newgidmap(1), each for
 * 5 s at most.  0, SBX_E_SYS.
 */
int setup_userns(struct monitor *m, uid_t uid, gid_t gid,
    struct sbx_err *err);
/* setup_cgroup.c.  Defaults and bounds from the machine and sbx.conf.  0,
 * SBX_E_SYS, SBX_E_RANGE. */
int setup_limits(struct monitor *m, struct sbx_err *err);
/* The suite's groups, for the engine's uid; what is missing is logged. */
void setup_cgroups(struct monitor *m, uid_t engine);
/* Without a starter nobody else removes them. */
void setup_cgroups_undo(struct monitor *m);
/* *ret_channel: owned by the caller. */
/* Those of the file and the environment, as they are now, for what may change
 * while the suite runs.  0, and what sbx_conf_parse() returns. */
int options_reread(struct monitor *m, struct sbx_conf *c,
    struct sbx_err *err);
/* Put file and line before what a check of c said, where they are found. */
void options_place(struct monitor *m, const struct sbx_conf *c,
    struct sbx_err *err);
/* Where the suite's programs are.  0 or an sbx_error. */
int setup_program_dir(char dst[PATH_MAX], struct sbx_err *err);
int setup_starter(struct monitor *m, int *ret_channel, struct sbx_err *err);

#endif
