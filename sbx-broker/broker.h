#ifndef SBX_BROKER_BROKER_H
#define SBX_BROKER_BROKER_H

/*
 * All that the key process knows.  An exchange becomes a job; a job waits for
 * its grant's turn, for a token and for a courier, in this order, and is told
 * of when it is over.
 */

#include "common/base/limits.h"
#include "common/proto/record.h"
#include "sbx-broker/sources.h"
#include "sbx-broker/token.h"

#include <sys/queue.h>

struct event;
struct event_base;
struct ask;
struct child;
struct grant;
struct job;
struct mint;

/* How long is waited for what, at most; tests have less patience. */
#ifndef BROKER_HASTY
#define BROKER_CHILD_MS 10000	/* until a courier is ready */
#define BROKER_TURN_MS 30000	/* for other exchanges of the grant */
#define BROKER_COURIER_MS 20000	/* for a courier that is free */
#define BROKER_MINT_MS 30000	/* a courier has HTTPS_TEXT_S for it */
#define BROKER_EXCHANGE_MS 3600000	/* one exchange of git */
#define BROKER_OVER_MS 10000	/* a courier's end, after its last word */
#define BROKER_LATE_MS 35000	/* a courier that mints, with what came too late */
#else
#define BROKER_CHILD_MS 1000
#define BROKER_TURN_MS 1100
#define BROKER_COURIER_MS 800
#define BROKER_MINT_MS 1300
#define BROKER_EXCHANGE_MS 2000
#define BROKER_OVER_MS 700
#define BROKER_LATE_MS 1800
#endif
#define BROKER_DIAL_MS 25000	/* for a connection */
#define BROKER_TOKEN_MS 330000	/* of the operator's command (300 s) or a mint */
#define BROKER_COMMAND_MS 5000	/* the command's process, behind its time */
#define BROKER_LOCK_MS 1800	/* all revocations; the monitor waits 2 s */

/* How many there may be at once. */
#define BROKER_JOBS 96u		/* exchanges, waiting ones included */
#define BROKER_JOBS_GRANT 4u	/* under way, of one grant */
#define BROKER_MINTS 32u
#define BROKER_ASKS 160u	/* of the monitor, not answered yet */
#define BROKER_TOKENS 64u	/* kept */
#define BROKER_REVOKES 128u	/* tokens that wait to be revoked, */
#define BROKER_REVOKING 6u	/* and are being */
#define BROKER_COURIERS 32u	/* alive, and the operator's command */
#define BROKER_KEEP_IDLE 2u	/* couriers kept ready, once there is use for them */
#define BROKER_RESERVE 4u	/* couriers that exchanges leave to mints, */
#define BROKER_RESERVE_REST 4u	/* and those of git to REST */
#define BROKER_ANNOUNCED 32u	/* publications whose commit may be signed */
#define BROKER_LOCKERS 8u	/* lock messages that wait for one answer */

#define BROKER_REASON 256	/* of the field in messages, with NUL */
#define BROKER_LOCKED "the suite is locked down; `sbx lockdown off` ends that"

/* How something ended that did not go well. */
struct fault {
	int error;		/* enum sbx_error; 0: none */
	const char *code;	/* a stable word, never NULL with an error */
	char reason[BROKER_REASON];
};
void fault_set(struct fault *f, int error, const char *code,
    const char *fmt, ...) SBX_PRINTF(4, 5);

LIST_HEAD(asks, ask);
LIST_HEAD(children, child);
LIST_HEAD(grants, grant);
LIST_HEAD(mints, mint);
TAILQ_HEAD(jobs, job);

struct broker {
	struct event_base *base;	/* owned */
	struct sbx_peer *monitor;	/* owned; NULL: its channel ended */
	struct sbx_peer *journald;	/* owned; NULL: there is none */
	int exit_code;			/* of main(): 0, or 3 on a violation */
	int roots;			/* owned; for couriers */
	bool bot_commands;
	bool locked;
	struct sources sources;
	struct tokens tokens;		/* the cache */
	struct grants grants;
	unsigned ngrants;
	struct mints mints;
	unsigned nmints;
	struct jobs jobs;
	unsigned njobs;
	struct asks asks;
	unsigned nasks;
	struct children children;
	unsigned nchildren;
	unsigned keep_idle;		/* couriers kept ready */
	unsigned failures;		/* of couriers in a row, to get ready */
	uint64_t pool_from_ns;		/* none is asked for before */
	struct event *pool_timer;	/* owned */
	/* a lock that is waited for */
	uint32_t lockers[BROKER_LOCKERS];
	unsigned nlockers;
	unsigned revoked, unrevoked;	/* since it began */
	struct event *lock_timer;	/* owned */
	unsigned nrevokes;		/* of the jobs */
	struct event *revoke_timer, *expiry_timer;	/* owned */
	/* sign.c */
	char author[256];
	struct announced {
		char publish[17], host[254], repo[141], base[65], parent2[65];
		bool is_signed;
		uint64_t number;	/* of its signature */
	} announced[BROKER_ANNOUNCED];
	unsigned next_announced;
	uint64_t signatures;
	/* records of the journal */
	struct sbx_record_rate record_rate;
	uint64_t records_more, records_lost;
};

/* What is taken from each.  There is no other table. */
extern const struct sbx_dispatch_table broker_from_monitor;
extern const struct sbx_dispatch_table broker_from_journald;
extern const struct sbx_dispatch_table broker_from_courier;
extern const struct sbx_dispatch_table broker_from_command;

/* fd: consumed.  Replaces an older channel. */
void broker_add_journald(struct broker *k, int fd);

/* --- ask.c: what the monitor is asked for ------------------------------------ */
enum ask_kind { ASK_COURIER, ASK_COMMAND, ASK_DIAL, ASK_KIND_MAX };
/* id: of the request.  fd: consumed by it; -1: why says why not.  Once, from the
 * loop, and not after ask_forget(). */
typedef void (*ask_done)(void *ctx, uint32_t id, int fd, const char *why);
/* host: of a dial.  NULL: it cannot be asked; *ret_why (static) says why. */
struct ask *ask_start(struct broker *k, enum ask_kind kind, const char *host,
    ask_done done, void *ctx, const char **ret_why);
/* Nobody waits for it any longer; its answer is taken and closed.  NULL ok. */
void ask_forget(struct ask *a);
unsigned ask_count(const struct broker *k, enum ask_kind kind);
/* The answer to an id: fd is taken from *fd, -1: why.  0, SBX_E_STATE: nobody
 * asked. */
int ask_answered(struct broker *k, uint32_t id, unsigned kinds, int *fd,
    const char *why);
void ask_free_all(struct broker *k);

/* --- pool.c: the channels that the monitor brought ----------------------------- */
enum child_state {
	CHILD_LOADING,		/* COURIER_START is sent */
	CHILD_IDLE, CHILD_MINT, CHILD_WORK,
	CHILD_OVER,		/* it said its last word */
	CHILD_COMMAND, CHILD_STATE_MAX
};
struct child {
	LIST_ENTRY(child) link;
	struct broker *k;
	uint32_t id;		/* of the BROKER_WANT that it came for */
	struct sbx_peer *peer;	/* owned; its state is ours */
	struct job *job;	/* MINT, WORK; NULL: nobody waits for it */
	const struct source *source; /* MINT: of the token, */
	char repo[141];		/* and what it is for */
	struct mint *mint;	/* COMMAND */
	int within_ms;		/* COMMAND */
	struct event *timer;	/* owned; LOADING, OVER, COMMAND */
};
void pool_init(struct broker *k);
/* Give what is free to who waits, and ask for more where that is not enough. */
void pool_run(struct broker *k);
void child_set_state(struct child *c, enum child_state state);
/* Nobody hears of it any more.  Its channel is closed, and a courier is killed,
 * which its peers may have made block; but one that mints ends its work, so that
 * what comes of it can be revoked. */
void child_end(struct child *c);
/* The process of the operator's command, for m; it has so long.  fd: consumed. */
struct child *pool_command(struct broker *k, int fd, struct mint *m,
    int within_ms);
unsigned pool_count(const struct broker *k, enum child_state state);
/* Mints under way that nobody waits for: their tokens are revoked. */
unsigned pool_late(const struct broker *k);
void pool_end_late(struct broker *k);	/* not even that */
void pool_free(struct broker *k);

/* --- sign.c: commits --------------------------------------------------------------- */
/* 0, SBX_E_RANGE: the monitor sent what it may not. */
int sign_announce(struct broker *k, const struct sbx_broker_announce *q);
/* Answered by BROKER_SIGNED. */
int sign_commit(struct broker *k, uint32_t id, const struct sbx_broker_sign *q);

/* --- job.c ----------------------------------------------------------------------- */
enum job_kind { JOB_GIT, JOB_REST, JOB_MINT, JOB_REVOKE, JOB_KIND_MAX };
enum job_state {
	JOB_NEW,
	JOB_TURN,		/* waits for other exchanges of its grant */
	JOB_TOKEN,		/* for its token */
	JOB_DIAL,		/* for its connection; MINT, REVOKE */
	JOB_COURIER,		/* for a courier */
	JOB_RUNNING, JOB_STATE_MAX
};
/* How one ended. */
struct outcome {
	struct fault fault;
	bool told;		/* by its courier */
	uint32_t status, next_page;
	uint64_t out_bytes, in_bytes, retry_s;
};
struct job {
	TAILQ_ENTRY(job) link;
	struct broker *k;
	enum job_kind kind;
	enum job_state state;
	uint32_t id;		/* of the monitor's request; GIT, REST */
	int fds[3];		/* owned; -1: none */
	struct event *timer;	/* owned; of its state */
	struct ask *ask;	/* DIAL */
	struct child *child;	/* RUNNING */
	struct token *token;	/* a reference, or NULL */
	struct mint *mint;	/* TOKEN: waits for it; of MINT: its own */
	char grant[17];		/* GIT */
	bool counted;		/* among those of its grant that run */
	uint8_t op;		/* enum sbx_grant_op, or sbx_rest_op */
	const char *why;	/* REVOKE: static */
	unsigned tries;		/* REVOKE: before this one */
	uint64_t from_ns;	/* REVOKE: not before, monotonic */
	bool credential;	/* REST */
	bool begun;		/* the host may have done what changes it */
	uint64_t by_ns;		/* REST: it is over then, whatever its state */
	char host[254], repo[141];
	const char *permissions; /* static: what its token must be for */
	uint64_t number;	/* REST */
	uint32_t page;
	char text[256];
};
struct job *job_new(struct broker *k, enum job_kind kind);
void job_set_state(struct job *j, enum job_state state);
/* From there on it goes by itself: for its token, if it needs one, then for a
 * courier; job_dial(): for a connection to that host first. */
void job_start(struct job *j);
void job_dial(struct job *j, const char *host);
/* t: a reference is taken. */
void job_has_token(struct job *j, struct token *t);
/* Has it too little time left for a courier? */
bool job_is_late(const struct job *j);
/* Give it to c.  0, or what sbx_peer_send() returns. */
int job_send(struct job *j, struct child *c);
/* It is over: who waits for it is told, and it is freed. */
void job_end(struct job *j, const struct outcome *out);
void job_fail(struct job *j, int error, const char *code, const char *fmt, ...)
    SBX_PRINTF(4, 5);
/* The BROKER_REST of that id, if it is not over. */
void job_cancel(struct broker *k, uint32_t id);
/* BROKER_EXCHANGE, BROKER_REST: descriptors are taken from in. */
void job_on_exchange(struct broker *k, struct sbx_in *in);
void job_on_rest(struct broker *k, struct sbx_in *in);
/* Those of a grant (NULL: all but revocations), or all revocations. */
void job_end_grant(struct broker *k, const char *grant, const char *code,
    const char *why);
void job_end_revocations(struct broker *k, const char *why);
void job_free_all(struct broker *k);

/* --- grant.c ----------------------------------------------------------------------- */
struct grant {
	LIST_ENTRY(grant) link;
	struct broker *k;
	char id[17];
	enum sbx_grant_op op;
	char host[254], repo[141], ref[256], old_id[65], new_id[65];
	bool force;
	uint32_t uses;		/* left */
	uint32_t reads;		/* PUSH: left, of those that change nothing */
	unsigned running;	/* exchanges under way */
	uint64_t by_ns;		/* monotonic */
	struct event *timer;	/* owned; of its end */
};
/* Answered by BROKER_GRANTED. */
int grant_open(struct broker *k, uint32_t id, const struct sbx_broker_grant *q);
void grant_revoke(struct broker *k, const char *id);
struct grant *grant_find(struct broker *k, const char *id);
/* NULL, or why none will begin any more. */
const char *grant_spent(const struct grant *g);
/* May one more exchange of it begin now?  It is counted then. */
bool grant_takes(struct grant *g);
/* One is over.  ran: a courier had it; used: it may have changed something. */
void grant_over(struct grant *g, bool ran, bool used);
/* Frees it if its time is over and nothing of it is under way. */
void grant_reap(struct grant *g);
void grant_free_all(struct broker *k);

/* --- mint.c: where tokens come from ------------------------------------------------ */
/* A job in JOB_TOKEN: it gets its token, at once or later, or it fails. */
void mint_for(struct job *j);
/* What its courier or command said, or that it said nothing. */
struct minted {
	int error;
	uint32_t status;
	const char *token, *reason;	/* borrowed */
	uint64_t expires_wall_s;	/* 0: of a command */
};
void mint_answered(struct mint *m, const struct minted *a);
void mint_failed(struct mint *m, const struct fault *f);
/* Of a job that mints: give it to c. */
int mint_send(struct job *j, struct child *c);
void mint_free_all(struct broker *k);

/* --- lock.c ---------------------------------------------------------------------------- */
void lock_init(struct broker *k);
/* 0, SBX_E_LIMIT: more of them than there can be. */
int lock_set(struct broker *k, uint32_t id, bool on);
/* One token is revoked, or cannot be. */
void lock_count(struct broker *k, bool revoked);
/* One of those that a lock waits for is over. */
void lock_check(struct broker *k);
bool lock_has_time(const struct broker *k); /* to revoke more tokens */
void lock_free(struct broker *k);

/* --- revoke.c -------------------------------------------------------------------------- */
void revoke_init(struct broker *k);
/* A reference is given back: of what is retired, the last one to revoke it. */
void token_release(struct broker *k, struct token *t);	/* NULL ok */
/* It leaves the cache, and is revoked when nobody has it any more.  why: static.
 * Of one that is in none: nothing. */
void token_retire(struct broker *k, struct token *t, const char *why);
void token_retire_all(struct broker *k, const char *why);
/* What a courier brought for nobody; "" is nothing. */
void revoke_text(struct broker *k, const struct source *s, const char *repo,
    const char *text, const char *why);
void revoke_expired(struct broker *k);	/* and at the next one's time again */
void revoke_next(struct broker *k);	/* there may be room for one more */
void revoke_hurry(struct broker *k);	/* those that are to be tried later: now */
void revoke_over(struct job *j, const struct outcome *out);
void revoke_free(struct broker *k);

/* --- status.c ---------------------------------------------------------------------------- */
int status_send(struct broker *k, uint32_t id);
/* For PONG, 255 bytes at most. */
void status_line(const struct broker *k, char *buf, size_t size);

#endif
