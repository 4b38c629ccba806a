#ifndef SBX_BASE_LIMITS_H
#define SBX_BASE_LIMITS_H

/* What a peer can make grow has its limit here; what one format fixes (a line
 * of the journal, a message) stands with the format. */

#define SBX_CONTAINER_HEX 12	/* digits of a container id */
#define SBX_RUN_HEX 16		/* digits of a run id */
#define SBX_MAX_SANDBOXES 256
#define SBX_MAX_REAPED 64	/* remembered, oldest go first */
#define SBX_MAX_PRINCIPALS 64
#define SBX_MAX_TOKENS 64
#define SBX_MAX_TOKEN_NAME 58	/* "token:NAME" is a principal's, of 64 */
#define SBX_MAX_CONNECTIONS 64	/* of one front, without stdio and HTTP */
#define SBX_MAX_HTTP 1024	/* HTTP connections of one front */
#define SBX_MAX_HTTP_USERS 64	/* tokens in use at once */
#define SBX_MAX_HTTP_SESSIONS 1024
#ifndef SBX_MAX_HTTP_BODIES	/* tests have less memory */
#define SBX_MAX_HTTP_BODIES (256u << 20) /* bytes of all of them together; one
					  * token has half at most */
#endif
#define SBX_MAX_HTTP_STREAMS 1280	/* answers under way or kept */
#define SBX_MAX_HTTP_STREAMS_USER 960	/* of one token */
#define SBX_MAX_HTTP_GETS 4	/* streams of GET in one session */
#define SBX_HTTP_KEEP (1u << 20) /* bytes of one kept answer */
#ifndef SBX_MAX_HTTP_KEPT
#define SBX_MAX_HTTP_KEPT (64u << 20) /* of all of them together */
#endif
#define SBX_MAX_CTL 8		/* connections of operators */
#define SBX_MAX_CALLS 24	/* in flight, all principals */
#define SBX_MAX_CALLS_SANDBOX 6
#define SBX_MAX_CALL_LOGS 100	/* for the client's log, by one call */
#define SBX_MAX_CALLS_RECOVERY 4 /* kept for stop and list */
#define SBX_MAX_TOOLS 128	/* with what no list shows */
#define SBX_MAX_CALLS_PATIENT 16 /* of them, that may last (tasks) */
#define SBX_MAX_CALLS_PATIENT_PRINCIPAL 8
#define SBX_MAX_CALLS_PATIENT_SANDBOX 4
#define SBX_MAX_WORKERS 40
#define SBX_WORKER_POOL 2	/* fresh ones kept ready */
#define SBX_WORKER_CALLS 256	/* then it is replaced */
#define SBX_MAX_JOBS_SANDBOX 64	/* live jobs (a job may outlive its command) */
#define SBX_MAX_RUNS 4096	/* remembered by the monitor, oldest go first */
#define SBX_RUN_RECORDS 16	/* of its journal kept for its principal, */
#define SBX_RUN_RECORDS_BYTES 8192u /* oldest go first */
#define SBX_MAX_JSON (16u << 20) /* one MCP message */
#define SBX_MAX_JSON_DEPTH 64
#define SBX_MAX_RESULT (4u << 20) /* a worker's result */
#define SBX_MAX_ENVELOPE (256u << 10) /* a message without its arguments */
#define SBX_MAX_REQUEST_ID 256	/* bytes of a string id or progress token */
#define SBX_MAX_FRONT_CALLS 256	/* the front's own table, all connections */
#define SBX_MAX_FRONT_CALLS_PRINCIPAL 128 /* of one handle, in that table */
#define SBX_MAX_CONN_CALLS 64	/* of one connection, in that table */
#define SBX_MAX_BATCH 64	/* messages in one array */
#define SBX_MAX_FORWARD 65536u	/* bytes of params that the front passes on */
#define SBX_MAX_FRONT_LISTENS 1024 /* of subscriptions/listen, beside them */
#define SBX_MAX_SUBS 1024	/* subscriptions of one front */
#define SBX_MAX_SUBS_CLIENT 64	/* of one handle, and in one request */
#define SBX_MAX_ASKS 8		/* of its client, by one result */
#define SBX_MAX_ASK_BYTES (64u << 10) /* such a result */
#define SBX_MAX_ROUNDS 8	/* of one call that waits for its client */
#define SBX_MAX_INPUTS 256	/* calls that clients are to make again */
#define SBX_MAX_INPUTS_PRINCIPAL 16
#define SBX_MAX_INPUTS_BYTES 32767 /* answers and state (CALL.inputs) */
#ifndef SBX_INPUT_S		/* tests have less patience */
#define SBX_INPUT_S 600u	/* for a user's answer */
#endif
#define SBX_MAX_TASKS 128	/* of one front, with what may become one */
#define SBX_MAX_TASKS_PRINCIPAL 32
#define SBX_MAX_TASK_BYTES (64u << 20) /* of what they ended with, in all */
#define SBX_MAX_TASK_BYTES_PRINCIPAL (32u << 20)
#define SBX_TASK_AFTER_MS 1500	/* a call that lasts longer becomes one */
#define SBX_TASK_KEEP_MS 600000u /* after its end */
#define SBX_TASK_POLL_MS 1000	/* how often clients shall look */
#define SBX_FRONT_OUT_MARK (1u << 20) /* unsent: requests are not read */
#define SBX_FRONT_OUT_MAX (64u << 20) /* unsent: the connection is closed */
#define SBX_MAX_COMMANDS (120u << 10) /* all commands/argv of one exec */
#define SBX_ARGV_SHOWN 1024	/* bytes of a command in the journal */
#define SBX_SANDBOX_NPROC 500
#define SBX_NOFILE_GAP 512	/* suite's soft NOFILE minus a sandbox's hard */
#define SBX_EGRESS_PORT 3128
#define SBX_UID_SANDBOX 1000
#define SBX_COPY_MAX_FILES 200000u
#define SBX_COPY_MAX_BYTES (2ull << 30)
#define SBX_COPY_MAX_PATH 4095u
/* One channel: what waits to be sent, and the mark past which its peer is not
 * read (peer.h). */
#define SBX_PEER_QUEUE_BYTES (4u << 20)
#define SBX_PEER_QUEUE_RECORDS 1024u
#define SBX_PEER_MARK_BYTES (1u << 20)
#define SBX_PEER_MARK_RECORDS 256u
#define SBX_JOURNAL_BATCH_BYTES (2u << 20) /* lines of one commit */
#define SBX_JOURNAL_BATCH_RECORDS 4096
#define SBX_JOURNAL_ANSWERS 16384	/* of one writer, not sent yet */
#define SBX_JOURNAL_TORN 16	/* lines that wait for their account */
#define SBX_JOURNAL_BURST (8u << 20) /* bytes of the proxy, or of the broker, */
#define SBX_JOURNAL_BYTES_MS (SBX_MAX_SANDBOXES * 40u) /* and how many more each
				 * millisecond: as many as guests can cause, each
				 * with 40 records a second of 1 KiB */
#define SBX_PROXY_CONNS 256	/* of one sandbox, through the proxy */
#define SBX_PROXY_CONNS_ALL 1500 /* each has two descriptors, and two pipes
				  * while something is in them */
#define SBX_PROXY_PIPES 16	/* kept for the next */
#define SBX_PROXY_BUDGETS 32	/* tunnelled hosts counted for one sandbox */
#define SBX_MAX_GRANTS 64	/* open at once, all sandboxes */
#define SBX_MAX_GRANTS_WORKERS 48 /* of them, that calls asked for, */
#define SBX_MAX_GRANTS_PRINCIPAL 32 /* and one principal's */
#define SBX_MAX_COURIERS 40	/* alive at once, with runs of the operator's
				 * command */
#define SBX_MAX_EXCHANGES 24	/* under way with a credential, all grants: as
				 * many couriers as the broker has for them, */
#define SBX_MAX_EXCHANGES_PRINCIPAL 12 /* one principal's, */
#define SBX_MAX_EXCHANGES_GRANT 8 /* and one grant's */
#define SBX_GRANT_READS 8u	/* exchanges of a push grant that change nothing */
#define SBX_MAX_BROKER_DIALS 8
#define SBX_MAX_SOURCES 64	/* of credentials */
#define SBX_SOURCES_BYTES 16384u
/* A request of REST.  Worker, monitor, broker and courier wait for each other,
 * each a step longer than whom it asked, and all of it fits into one call of
 * 45 s: when somebody is told that it came too late, nobody is at it. */
#define SBX_API_MS 42000u	/* the monitor's, and then less by a step: */
#define SBX_API_STEP_MS 2000u	/* the broker's, the courier's; the worker's
				 * more */
#define SBX_API_LEAST_MS 3000u	/* a courier's: with less none begins */
#define SBX_MAX_API 8		/* requests of REST under way, */
#define SBX_MAX_API_PRINCIPAL 4
#define SBX_PROXY_CLOSED 64	/* ids of ended sandboxes it remembers */
/* A file's change time lags behind the clock by up to a tick (10 ms at most).
 * A copy is told to be over so long after its last byte, and what changes
 * from then on is newer than this margin before. */
#define SBX_COPY_SETTLE_MS 12
#define SBX_COPY_MARGIN_MS 11
#define SBX_MAX_SNAPSHOTS 64	/* of a suite; each is a handle */
#define SBX_MAX_SNAPSHOTS_PRINCIPAL 16
#define SBX_MAX_SETUPS 32	/* dependency layers that are kept */
#define SBX_MAX_SETUPS_PRINCIPAL 8
#define SBX_MAX_FORKS 16	/* made by one call */
#define SBX_MAX_UNDO 10		/* versions of one file, */
#define SBX_UNDO_BYTES (5u << 20)	/* each, */
#define SBX_UNDO_ALL_BYTES (512u << 20) /* and of all; oldest go first */
/* Layers below one sandbox; the options of its mount are one page. */
#define SBX_MAX_LAYERS 32
#define SBX_SNAP_MAX_BYTES (16ull << 30) /* copied for one snapshot */
#define SBX_SNAP_MAX_FILES 2000000u
#define SBX_SNAP_COPY_S 38	/* a call must be answered within 45 s */
/* What package_install put into one sandbox by name, for fresh verifications;
 * beyond that it is counted. */
#define SBX_MAX_INSTALLS 32
#define SBX_INSTALLS_BYTES 8192
#define SBX_SETUP_S 900		/* all commands of one dependency layer */
#define SBX_RESTARTS_PER_MIN 5	/* deaths in a minute: stays down */
#define SBX_SHUTDOWN_MS 1000

#endif
