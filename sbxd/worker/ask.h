#ifndef SBX_WORKER_ASK_H
#define SBX_WORKER_ASK_H

/*
 * What a worker asks of the monitor: one function per request of msgs.def,
 * named as the monitor's handler of it.  Each sends, waits for the answer up
 * to a deadline, and checks that it is one of the permitted answers.
 *
 * All return 0, SBX_E_POLICY when the monitor refused (ask->refused says
 * why), or another negative sbx_error when the channel is no longer usable:
 * closed, out of step, or silent past the deadline.  After such an error the
 * worker must end, since a late answer would be taken for another's.
 * Answers are copied; they stay valid.
 */

#include "common/base/limits.h"
#include "common/proto/accepts.h"
#include "common/proto/wire.h"
#include "sbxd/worker/limits.h"

#define ASK_MS 20000	/* the monitor gives up after 15 s, and says so */
#define ASK_SNAPSHOT_MS 44000	/* a copy of much */
#define ASK_CREATE_MS 40000	/* a sandbox that starts on a busy machine */

extern const struct sbx_accepts worker_from_monitor;

struct ask_refused {
	char code[32];
	char reason[4096];
	char next[512];
};

struct ask {
	struct sbx_chan chan;
	struct ask_refused refused;
	bool broken;		/* the channel is out of step: end */
	uint32_t snaps;		/* the SNAP_LIST that is not answered yet */
};

struct ask_created {
	char container[17], run[17], image[256], digest[96], name[65];
	bool network, own_user;
	struct limits limits;
	/* the image's configuration; lists borrowed until the next question */
	char user[65], workdir[1024];
	char why_image[256];		/* "": the image was asked for */
	struct sbx_strs env, entrypoint;
};

struct ask_item {
	char container[17], name[65], label[65], image[256], principal[65];
	char digest[96], reap_held[256];
	uint8_t state, match;
	bool network, has_baseline;
	uint32_t jobs;
	struct limits limits;
	uint64_t created_wall_ns, age_ms, idle_ms;
};

/* A sandbox that the suite ended by itself. */
struct ask_reaped {
	char container[17], name[65], reason[128];
	uint64_t when_wall_ns;
};

struct ask_snapshot {
	char id[17], container[17], run[17], name[65], label[65], image[256];
	uint8_t method;
	bool live;
	uint64_t files, bytes, created_wall_ns;	/* UINT64_MAX: not known */
};

struct ask_restored {
	char id[17], run[17], name[65];
	struct sbx_strs ended;	/* borrowed until the next question */
};

struct ask_deps {
	char run[17], snapshot[17], layer[96];
	int32_t error;		/* wait(2) status of the commands */
	bool cached;
	uint64_t ms, files, bytes;
};

/* A run as the monitor knows it. */
struct ask_run {
	char run[17], container[17], tool[65];
	uint8_t state, why;
	int32_t status;
	bool background;
	uint64_t elapsed_ms, idle_ms, out_bytes, err_bytes, dropped;
	uint64_t started_wall_ns;
};

/* Part of a stored stream; fd -1: nothing at or past that offset. */
struct ask_data {
	int fd;			/* owned by the caller */
	bool known;
	uint64_t start, length, file_offset, total;
};

struct ask_copied {
	int fd;			/* report, owned by the caller */
	int32_t error;
	uint32_t files, refused;
	uint64_t bytes;
	char reason[256];
	char final_path[4096];
};

/* FILE_DONE, what a sandbox says. */
struct ask_filed {
	int32_t error;
	char reason[256];
	char path[4096];	/* without links; "" after most failures */
	uint32_t mode;		/* permissions */
	uint64_t size, ino, mtime_ns, ctime_ns;	/* with mode: the stamp */
	uint64_t total, first, count, bytes;
};
/* Of UNDO_VERSION or UNDO_NONE. */
struct ask_undo {
	bool known;		/* false: there is no such version */
	bool absent;		/* there was no file */
	uint32_t mode;
	int fd;			/* owned by the caller; -1 */
	struct sbx_strs versions;	/* borrowed until the next question */
};

/* A fresh verification as the monitor knows it. */
struct ask_gate {
	char id[17], container[17], reason[256], sha1[41], sha256[65];
	char image[256], digest[96], layer[96];
	uint8_t phase;		/* enum sbx_gate_phase */
	bool passed;
	uint32_t files;
	uint64_t bytes, elapsed_ms;
	/* RUNNER VERDICT RUN TOTAL PASSED FAILED ERRORS SKIPPED REASON each;
	 * borrowed until the next question */
	struct sbx_strs results;
};

/* GATE_DEPS_STATE. */
struct ask_gate_deps {
	char layer[96], setup[96], run[17];
	bool prepared, cached;
	int32_t error;		/* wait(2) status of the commands */
	uint32_t left_out;
	struct sbx_strs packages;	/* borrowed until the next question */
};

/* A publication as the monitor has it: PUBLISH_STATE. */
struct ask_publish {
	char id[17], step[32], reason[256], next[256];
	char tip[65], base[65], tree[65], commit[65];
	char branch[245], default_branch[245];
	uint8_t phase;		/* enum sbx_publish_phase */
	uint8_t outcome;	/* enum sbx_publish_outcome */
	uint32_t added, modified, deleted, unchanged, total;
	uint64_t bytes, elapsed_ms;
	char gate[17], gate_status[8], gate_ran[64];
	uint32_t nwaived;
	uint8_t is_signed;	/* enum sbx_publish_signed */
	struct sbx_strs findings, waived; /* borrowed until the next question */
};
/* PUBLISH_QUESTION */
struct ask_question {
	char host[254], repo[141], branch[245], commit[65], base[65];
	uint32_t files, plus, minus, declared, merged;
	struct sbx_strs paths;	/* borrowed until the next question */
};
/* OVERRIDE_STATE */
struct ask_override {
	char host[254], repo[141], branch[245];
	bool confirm;
	uint32_t count;
	uint64_t left_s;
	struct sbx_strs findings;	/* borrowed until the next question */
};

/* May it be read with a credential? */
struct ask_repo {
	char grant[17];		/* "": without one, and why */
	char code[16];		/* REPO_OPENED */
	char why[256];
};
/* API_DONE */
struct ask_api {
	int32_t error;
	uint32_t status, next_page;
	char code[32], reason[256];
	uint64_t retry_s;
	bool credential;
	bool begun;		/* a write, which the host may have done */
};

/* Owns fd from now on. */
void ask_init(struct ask *a, int fd);
void ask_clear(struct ask *a);

int sb_create(struct ask *a, const struct sbx_sb_create *m,
    struct ask_created *ret_created);
/* ret_run: char[17] */
int sb_stop(struct ask *a, const char *container, bool force, char *ret_run);
/*
 * Each sandbox to fn (arg first; the item is borrowed), in the monitor's
 * order, and their number to *ret_n.  More than its table holds is
 * SBX_E_LIMIT.  After them, to reaped (NULL: a whole list was not asked for),
 * those that were ended since the last whole list; snap_list() must follow.
 * What was made of it is void when this fails.
 */
int sb_list(struct ask *a, const char *container,
    void (*fn)(void *arg, const struct ask_item *item),
    void (*reaped)(void *arg, const struct ask_reaped *r), void *arg,
    size_t *ret_n);
/* ret_previous: char[65] */
int sb_label(struct ask *a, const char *container, const char *label,
    char *ret_previous);
int sb_snapshot(struct ask *a, const struct sbx_sb_snapshot *m,
    struct ask_snapshot *ret_snapshot);
int sb_restore(struct ask *a, const struct sbx_sb_restore *m,
    struct ask_restored *ret_restored);
/* Each to fn as it comes; void when this fails. */
int sb_fork(struct ask *a, const struct sbx_sb_fork *m,
    void (*fn)(void *arg, const struct ask_created *c), void *arg,
    size_t *ret_n);
/* Each to fn; its container is of what it was taken, run is "".  Asked for by
 * a whole sb_list() before it, so that one wait does for both. */
int snap_list(struct ask *a,
    void (*fn)(void *arg, const struct ask_snapshot *s), void *arg);
/* ret_id: char[13], ret_name: char[65] */
int snap_remove(struct ask *a, const char *ref, char *ret_id,
    char *ret_name);
int deps_make(struct ask *a, const struct sbx_deps_make *m,
    struct ask_deps *ret_deps);
/* stdin_fd: borrowed.  ret_run: char[17] */
int exec_start(struct ask *a, const struct sbx_exec_start *m, int stdin_fd,
    char *ret_run);
int exec_wait(struct ask *a, const char *run, uint32_t wait_ms,
    struct ask_run *ret_run);
/* As it is now; its changes are told to clients from then on. */
int run_watch(struct ask *a, const char *run, struct ask_run *ret_run);
int exec_kill(struct ask *a, const char *run, struct ask_run *ret_run);
/* Its records, a JSON object a line (borrowed until the next question), and
 * how many more there were. */
int run_journal(struct ask *a, const char *run, const char **ret_text,
    uint32_t *ret_dropped);
int out_read(struct ask *a, const char *run, enum sbx_stream stream,
    uint64_t offset, struct ask_data *ret_data);
int run_list(struct ask *a, uint32_t skip, uint32_t max,
    struct ask_run *runs, size_t *ret_n);
/* list_fd: borrowed sealed memfd. */
int copy_in(struct ask *a, const struct sbx_copy_in *m, int list_fd,
    int timeout_ms, struct ask_copied *ret_copied);

/* fds: borrowed; [0] sealed. */
int file_ask(struct ask *a, const struct sbx_file_ask *m, const int fds[2],
    struct ask_filed *ret_filed);
/* fd: borrowed, sealed.  *ret_filed: error and reason only. */
int undo_keep(struct ask *a, const struct sbx_undo_keep *m, int fd,
    struct ask_filed *ret_filed);
int undo_find(struct ask *a, const struct sbx_undo_find *m,
    struct ask_undo *ret_undo);

/* list_fd: borrowed, sealed. */
int gate_start(struct ask *a, const struct sbx_gate_start *m, int list_fd,
    struct ask_gate *ret_gate);
int gate_wait(struct ask *a, const char *gate, uint32_t wait_ms,
    struct ask_gate *ret_gate);
int gate_deps(struct ask *a, const char *gate, struct ask_gate_deps *ret_deps);
int package_note(struct ask *a, const struct sbx_package_note *m,
    bool *ret_kept);
/* fds: names, message; borrowed. */
int publish_start(struct ask *a, const struct sbx_publish_start *m,
    const int fds[2], struct ask_publish *ret_publish);
int publish_wait(struct ask *a, const char *publish, uint32_t wait_ms,
    struct ask_publish *ret_publish);
/* From now on the publication waits for that verification. */
int publish_gate(struct ask *a, const char *publish, const char *gate,
    struct ask_publish *ret_publish);
/* SBX_E_POLICY, not_asked: its user is not to be asked. */
int publish_question(struct ask *a, const char *publish,
    struct ask_question *ret_question);
/* He answered, in what this call was given. */
int publish_said(struct ask *a, const char *publish,
    struct ask_publish *ret_publish);
int override_ask(struct ask *a, const struct sbx_override_ask *m,
    struct ask_override *ret_override);

int repo_open(struct ask *a, const struct sbx_repo_open *m,
    struct ask_repo *ret_repo);
int repo_close(struct ask *a, const char *grant);
/* grant "", path "": there is none. */
int repo_run(struct ask *a, const char *run, const char *grant,
    const char *path);
/* fds: borrowed; [0] sealed. */
int api_ask(struct ask *a, const struct sbx_api_ask *m, const int fds[2],
    struct ask_api *ret_api);

/* Not a request: nothing comes back. */
int work_progress(struct ask *a, uint64_t done, uint64_t total,
    const char *message);
int work_log(struct ask *a, enum sbx_mcp_level level, const char *text);

#endif
