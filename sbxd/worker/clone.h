#ifndef SBX_WORKER_CLONE_H
#define SBX_WORKER_CLONE_H

/*
 * A clone by git in a sandbox.  What makes it possible to read a private
 * repository is a grant that ends with the run; no credential comes near the
 * sandbox.  What git and the script print is what a sandbox says.
 */

#include "common/base/base.h"
#include "sbxd/worker/ask.h"
#include "sbxd/worker/github.h"

struct call;

#define CLONE_MODULES 32u	/* submodules that are fetched, of all levels */
#define CLONE_NESTED 4u		/* levels: those in others, in others again */

struct clone {
	bool wanted;
	/* what; borrowed */
	const char *container;
	struct gh_repo repo;
	char dest[4096];	/* the work tree itself */
	const char *branch;	/* NULL: the default */
	const char *head, *base;	/* of the pull request, or NULL */
	char pull_head[256], pull_base[256];
	uint64_t pr, depth;	/* 0: none */
	bool partial;		/* without blobs */
	bool fetch;		/* into the clone that is there */
	bool modules;		/* submodules, too */
	struct json_object *named;	/* array of those to read with a
					 * credential, NULL: none */
	uint64_t timeout_ms;
	/* what came of it */
	struct ask_repo grant;
	char run[17];
	bool running;		/* goes on as the job `run` */
	struct sbx_buf out;	/* owned: what it printed */
	const char *got_branch, *got_head, *got_default, *got_base;
	bool shallow;
	struct sbx_buf warnings;	/* owned: each with its NUL */
	struct sbx_buf granted;	/* owned: names of submodules, the same */
};
/* Buffers, and the default time; the rest is zero. */
void clone_init(struct call *call, struct clone *c);
void clone_clear(struct clone *c);
/*
 * To its end, or until the call may wait no longer: c->running then.  1; else
 * as tool_fn: the result says why not.
 */
int clone_run(struct call *call, struct clone *c);
/* The same, of a run that went on: c->run. */
int clone_again(struct call *call, struct clone *c);
/* Members: repo, clone_path, credential ... of a result or of a part of it. */
void clone_put(struct call *call, const struct clone *c);
/*
 * What .gitmodules says is the sandbox's word, and its code may have written it
 * since the clone: which of the operator's private repositories go there is the
 * client's to say, by name.  And what it was granted is told to it.
 */
bool clone_module_is_named(const struct clone *c, const struct gh_repo *r);
void clone_module_granted(struct clone *c, const struct gh_repo *r);
/* Items of an open array. */
void clone_warn(struct call *call, const struct clone *c);

/* For its submodules: a warning; a script of clone.sh, 1 or as tool_fn; a grant
 * for no longer than a run of it may last, 0 or the refusal. */
extern const char *const clone_sh;
void clone_say(struct clone *c, const char *fmt, ...) SBX_PRINTF(2, 3);
int clone_start(struct call *call, const struct clone *c,
    const char *const *argv, const char *dir, char *ret_run);
int clone_grant(struct call *call, const struct clone *c,
    const struct gh_repo *r, struct ask_repo *ret_grant);
/* What c->out names, fetched if that was asked for, and else told of.  0, or
 * the channel's end. */
int clone_modules(struct call *call, struct clone *c);

/*
 * For sandbox_initialize: is a clone asked for (c->wanted), and of what?  1;
 * else as tool_fn, with the error object.
 */
int clone_wanted(struct call *call, struct clone *c);
/* The clone failed, the result says why: the sandbox goes, unless it is to be
 * kept.  As tool_fn. */
int clone_failed(struct call *call, const struct clone *c);

/*
 * Install what the project at dir says it needs, with the arguments pip_extras
 * and pip_args: the members status, run_id, job_id, managers and stderr of the
 * open object.  deps_check(): is pip_args words?  false with the error object.
 * 0, or the channel's end; *ret_running: it goes on as a job.
 */
bool deps_check(struct call *call);
int deps_install(struct call *call, const char *container, const char *dir,
    bool *ret_running);

#endif
