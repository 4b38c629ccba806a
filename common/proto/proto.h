#ifndef SBX_PROTO_PROTO_H
#define SBX_PROTO_PROTO_H

/*
 * The messages of msgs.def as C: processes, numbers, structs, codecs, tables.
 */

#include "common/base/base.h"

#include <stddef.h>
#include <stdint.h>

#define SBX_PROTO_VERSION 1
#define SBX_HDR_BYTES 12	/* u32 length, u16 type, u16 version, u32 id */
#define SBX_MSG_BYTES_MAX 172032 /* largest body in msgs.def */
#define SBX_MSG_FDS_MAX 4

/* One kind of process.  A peer's identity is known from its descriptor. */
enum sbx_proc {
	SBX_PROC_MONITOR, SBX_PROC_STARTER, SBX_PROC_ENGINE, SBX_PROC_RECORDER,
	SBX_PROC_JOURNALD, SBX_PROC_BROKER, SBX_PROC_PROXY, SBX_PROC_ZYGOTE,
	SBX_PROC_FRONT, SBX_PROC_WORKER, SBX_PROC_COPYIN, SBX_PROC_INIT,
	SBX_PROC_COURIER, SBX_PROC_JUDGE, SBX_PROC_ENGINE_DOCKER, SBX_PROC_CLI,
	SBX_PROC_IMAGE, SBX_PROC_COMMAND,
	SBX_PROC_MAX
};
const char *sbx_proc_name(enum sbx_proc proc);	/* "monitor", "engine" ... */

/* The meaning of small integers in messages. */
enum sbx_stream { SBX_STREAM_OUT, SBX_STREAM_ERR, SBX_STREAM_MAX };
enum sbx_journal_flag {
	SBX_JOURNAL_DURABLE = 1,   /* answer after fdatasync */
	SBX_JOURNAL_RESERVED = 2,  /* ends a crossing: may use the reserve;
				    * from the monitor only */
};
enum sbx_end_why {
	SBX_END_CREATE,		/* it never became ready */
	SBX_END_STOP,		/* asked for */
	SBX_END_DIED,		/* its init ended by itself or was killed */
	SBX_END_VIOLATION,	/* its init broke the protocol */
	SBX_END_KILL_FAILED,	/* a run could not be killed in time */
	SBX_END_SHUTDOWN,	/* the suite ends */
	SBX_END_IMAGE,		/* as CREATE: there is no such image */
	SBX_END_MAX
};
enum sbx_exit_why {
	SBX_EXIT_EXITED,	/* by itself: status from wait(2) */
	SBX_EXIT_TIMEOUT,	/* killed at its timeout */
	SBX_EXIT_KILLED,	/* killed on request or cancel */
	SBX_EXIT_SANDBOX,	/* its sandbox ended */
	SBX_EXIT_MEMORY,	/* by itself, but its sandbox ran out of memory
				 * meanwhile, and something was killed */
	SBX_EXIT_MAX
};
enum sbx_sandbox_state {
	SBX_SANDBOX_CREATING, SBX_SANDBOX_READY, SBX_SANDBOX_STOPPING,
	SBX_SANDBOX_FROZEN,	/* a snapshot or a restore is under way */
	SBX_SANDBOX_MAX
};
/* What a worker's result is. */
enum sbx_result_kind {
	SBX_RESULT_OK,
	SBX_RESULT_ERROR,	/* the error object */
	SBX_RESULT_FAULT,	/* the same, told as a JSON-RPC error */
	SBX_RESULT_INPUT,	/* {"inputRequests":{...},"state":...}: the
				 * client is asked, and the call made again */
	SBX_RESULT_MAX
};
/* What a client says it can do, as bits. */
enum sbx_client_can {
	SBX_CAN_ELICIT = 1,	/* show a form */
	SBX_CAN_ELICIT_URL = 2,	/* open a URL */
	SBX_CAN_SAMPLE = 4,
	SBX_CAN_SAMPLE_TOOLS = 8,
	SBX_CAN_ROOTS = 16,
	SBX_CAN_TASKS = 32,	/* wait for a task */
};
/* MCP's levels of log messages: those of RFC 5424, the least first. */
enum sbx_mcp_level {
	SBX_MCP_NONE, SBX_MCP_DEBUG, SBX_MCP_INFO, SBX_MCP_NOTICE,
	SBX_MCP_WARNING, SBX_MCP_ERROR, SBX_MCP_CRITICAL, SBX_MCP_ALERT,
	SBX_MCP_EMERGENCY, SBX_MCP_MAX
};
/* What holds a sandbox within its limits, as bits. */
enum sbx_limit {
	SBX_LIMIT_MEMORY = 1, SBX_LIMIT_SWAP = 2, SBX_LIMIT_PIDS = 4,
	SBX_LIMIT_CPU = 8, SBX_LIMIT_DISK = 16,
	SBX_LIMIT_PIDS_RLIMIT = 32,	/* by setrlimit(2) only */
};
enum sbx_storage { SBX_STORAGE_DISK, SBX_STORAGE_TMPFS, SBX_STORAGE_MAX };
/* How a snapshot came about. */
enum sbx_snap_method {
	SBX_SNAP_STACKED,	/* what was written became a layer */
	SBX_SNAP_REFLINK,	/* copied, sharing its blocks */
	SBX_SNAP_COPY, SBX_SNAP_MAX
};
/* What one exchange is granted for, beyond what the policy allows. */
enum sbx_grant_op { SBX_GRANT_FETCH, SBX_GRANT_PUSH, SBX_GRANT_API,
	SBX_GRANT_OP_MAX };
enum sbx_grant_phase {
	SBX_GRANT_OPEN,		/* taken */
	SBX_GRANT_REFUSED,	/* not taken */
	SBX_GRANT_USED,		/* once more; uses: what is left */
	SBX_GRANT_EXPIRED, SBX_GRANT_REVOKED, SBX_GRANT_PHASE_MAX
};
enum sbx_match { SBX_MATCH_ALL, SBX_MATCH_NAME, SBX_MATCH_ID, SBX_MATCH_MAX };
enum sbx_run_phase {
	SBX_RUN_STARTING, SBX_RUN_RUNNING, SBX_RUN_ENDED, SBX_RUN_MAX
};
/* What started a run on a terminal; no tool of a client has a blank in its
 * name.  Such a run has no stored output. */
#define SBX_TOOL_SHELL "sbx shell"
enum sbx_gate_phase {
	SBX_GATE_MAKING,	/* its sandbox is being made */
	SBX_GATE_FILES,		/* the files are crossing */
	SBX_GATE_TESTS, SBX_GATE_ENDED, SBX_GATE_MAX
};
enum sbx_publish_flag {
	SBX_PUBLISH_DRY_RUN = 1,	/* all but the push */
	SBX_PUBLISH_FORCE = 2,		/* where allow_force is on */
	SBX_PUBLISH_VERIFY = 4		/* who asks starts a verification where
					 * one is missing: PUBLISH_GATE */
};
/* What the configuration permits a publication to change. */
enum sbx_publish_allow {
	SBX_PUBLISH_SENSITIVE = 1,
	SBX_PUBLISH_SIGN = 2,		/* and must: JUDGE_COMMIT */
	SBX_PUBLISH_UPSTREAM = 4	/* as the former, what parent2 brings */
};
enum sbx_publish_signed {
	SBX_PUBLISH_UNSIGNED, SBX_PUBLISH_SIGNED,
	SBX_PUBLISH_TO_SIGN		/* it would be */
};
enum sbx_publish_phase {
	SBX_PUBLISH_MAKING,	/* its sandbox is being made */
	SBX_PUBLISH_FETCHING,	/* the base */
	SBX_PUBLISH_JUDGING,	/* the files are crossing */
	SBX_PUBLISH_BUILDING,	/* the commit, in the publisher */
	SBX_PUBLISH_GATE,	/* a fresh verification is looked for */
	SBX_PUBLISH_APPROVAL,	/* the operator's is waited for */
	SBX_PUBLISH_PUSHING, SBX_PUBLISH_ENDED, SBX_PUBLISH_PHASE_MAX
};
enum sbx_publish_outcome {
	SBX_PUBLISH_NONE, SBX_PUBLISH_PUSHED,
	SBX_PUBLISH_LANDED,	/* it was there already */
	SBX_PUBLISH_WOULD,	/* a dry run of what would go */
	SBX_PUBLISH_REFUSED,	/* nothing left */
	SBX_PUBLISH_UNKNOWN,	/* it may have: look at the branch */
	SBX_PUBLISH_OUTCOME_MAX
};
enum sbx_copy_mode {
	SBX_COPY_NAMES,	/* every name, empty files; .gitignore and .git/index
			 * with their content: for git in a throwaway sandbox */
	SBX_COPY_LIST,	/* the listed paths, and .git (cleaned) when listed */
	SBX_COPY_FILE,	/* one file */
	SBX_COPY_MARKERS, /* for sbxd-copyin only: nothing is copied, the
			 * marker files of languages are looked for */
	SBX_COPY_MAX
};

#define P(proc) (1u << SBX_PROC_##proc)
/* who has a control channel to the monitor */
#define P_DAEMONS (P(STARTER) | P(ENGINE) | P(RECORDER) | P(JOURNALD) | \
    P(BROKER) | P(PROXY) | P(ZYGOTE) | P(FRONT))
#define P_CHILDREN (P_DAEMONS | P(WORKER) | P(COPYIN) | P(JUDGE))

/* A decoded F_STRS: `count` NUL-terminated strings, one after the other. */
struct sbx_strs {
	const char *data;
	uint32_t count;
	uint32_t len;		/* bytes, all NULs included */
};
/* The next string: pass NULL first, then the last one; NULL at the end. */
const char *sbx_strs_next(const struct sbx_strs *s, const char *last);
/* Growing one: strings appended (with NUL) to a buf made by the caller. */
int sbx_strs_add(struct sbx_strs *s, struct sbx_buf *b, const char *str);

#define MSG(NAME, name, num, from, to, fds, max, fields) \
	SBX_MSG_##NAME = num,
enum sbx_msg {
#include "common/proto/msgs.def"
	SBX_MSG_MAX = 384	/* numbers are below this */
};
#undef MSG

#define F_NONE uint8_t none_;
#define F_U8(n) uint8_t n;
#define F_U32(n) uint32_t n;
#define F_U64(n) uint64_t n;
#define F_I32(n) int32_t n;
#define F_STR(n, max) const char *n;
#define F_STRS(n, count, max) struct sbx_strs n;
#define MSG(NAME, name, num, from, to, fds, max, fields) \
	struct sbx_##name { fields };
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
#undef F_U8
#undef F_U32
#undef F_U64
#undef F_I32
#undef F_STR
#undef F_STRS

/* One row per message; unknown numbers have name NULL. */
struct sbx_msg_spec {
	const char *name;	/* "EXEC_START" */
	uint32_t from, to;	/* P() masks */
	uint32_t max_bytes;	/* of the body */
	uint32_t struct_bytes;
	uint8_t fds;		/* exactly */
	/* Encode *msg to buf; *ret_len bytes.  0, SBX_E_LIMIT. */
	int (*put)(const void *msg, uint8_t *buf, size_t size, size_t *ret_len);
	/* Decode all of buf, strings borrowed from it.  0, SBX_E_DECODE. */
	int (*get)(const uint8_t *buf, size_t len, void *msg);
};
extern const struct sbx_msg_spec sbx_msg_specs[SBX_MSG_MAX];

/* Large enough for any decoded message. */
union sbx_any_msg {
	max_align_t align_;
#define F_NONE
#define MSG(NAME, name, num, from, to, fds, max, fields) struct sbx_##name name;
#include "common/proto/msgs.def"
#undef MSG
#undef F_NONE
};

#endif
