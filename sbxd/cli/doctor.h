#ifndef SBX_CLI_DOCTOR_H
#define SBX_CLI_DOCTOR_H

/*
 * sbx doctor: what the suite needs of this machine, each tried as the suite
 * would try it, in a child that ends.  One row a prerequisite: doctor_table.c.
 */

#include "common/base/conf.h"
#include "sbxd/cli/cli.h"

#define DOCTOR_MEND_MAX 2048
#define DOCTOR_DEADLINE_MS 5000	/* of one check; then its child is killed */

enum doctor_weight {
	DOCTOR_ESSENTIAL,	/* without it no suite or no sandbox starts */
	DOCTOR_OPTIONAL,	/* without it something is lost */
	DOCTOR_WEIGHT_MAX
};
enum doctor_state {
	DOCTOR_FOUND, DOCTOR_MISSING,
	DOCTOR_UNTRIED,		/* what it needs is missing itself */
	DOCTOR_STATE_MAX
};
enum doctor_user {
	DOCTOR_CALLER,
	DOCTOR_ENGINE,		/* started by root: the user of the suite */
	DOCTOR_USER_MAX
};

/* Shared with the child, so that what it was doing is known however it ends. */
struct doctor_result {
	enum doctor_state state;
	bool minor;		/* some of it is there: optional after all */
	bool grave;		/* this suite cannot do without: essential */
	int error;		/* errno of the call, 0: none */
	char call[128];		/* the last that was tried, "" : none */
	char detail[384];	/* one sentence or list, "" : none */
	char mend[DOCTOR_MEND_MAX]; /* instead of the row's, "" : the row's */
	unsigned ms;
};

/* What every check is told. */
struct doctor {
	const struct cli *cli;
	struct sbx_conf conf;
	struct sbx_err conf_err;	/* code 0: it was read */
	uid_t uid;		/* of DOCTOR_ENGINE */
	gid_t gid;
	/* A directory of ours on the filesystem of each, removed at the end;
	 * -1: error and call say why there is none. */
	struct doctor_dir {
		char path[PATH_MAX];	/* of it, or where it should have been */
		char call[128];
		int fd, error;
	} state, run;
};

struct doctor_check {
	const char *name;	/* for programs: letters, digits, '.', '_' */
	const char *what;
	enum doctor_weight weight;
	enum doctor_user user;
	/* In a child, in the state's directory (if there is one), as `user`:
	 * 0, or -1 with the failed call in the result. */
	int (*probe)(const struct doctor *d, const struct doctor_check *c,
	    struct doctor_result *r);
	const char *needs;	/* name of a row before this one, or NULL */
	const char *lost;	/* what one has not without it */
	const char *mend;	/* commands, a line each */
	uint64_t arg;		/* the probe's own */
	const char *text;
	bool root_only;		/* only asked when root asks */
};
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_nchecks;

/* Take what the machine is: configuration, users, directories. */
void doctor_begin(struct doctor *d, const struct cli *cli);
void doctor_end(struct doctor *d);
/*
 * Try c.  Blocks for DOCTOR_DEADLINE_MS and a little at most.  *ret: filled.
 */
void doctor_try(const struct doctor *d, const struct doctor_check *c,
    struct doctor_result *ret);

/* --- for probes --------------------------------------------------------------- */

/* Before a call: this is what is tried now. */
void doctor_step(struct doctor_result *r, const char *fmt, ...)
    SBX_PRINTF(2, 3);
/* The step failed, with errno; returns -1. */
int doctor_failed(struct doctor_result *r);
/* The step found no fault of a call, but a fact: 0 when good, else -1. */
int doctor_fact(struct doctor_result *r, bool good);
/* 0 when good, else doctor_failed(). */
int doctor_need(struct doctor_result *r, bool good);
void doctor_detail(struct doctor_result *r, const char *fmt, ...)
    SBX_PRINTF(2, 3);
void doctor_mend(struct doctor_result *r, const char *fmt, ...)
    SBX_PRINTF(2, 3);	/* appends */

/* Mend of a refused user namespace, or of what is refused in one. */
void doctor_mend_userns(const struct doctor *d, struct doctor_result *r);
/* A number of /proc/sys, or absent. */
int64_t doctor_sysctl(const char *path, int64_t absent);

/* Probes, by the file that has them. */
#define DOCTOR_PROBE(name) int name(const struct doctor *, \
    const struct doctor_check *, struct doctor_result *)
/* doctor_kernel.c */
DOCTOR_PROBE(doctor_kernel);
DOCTOR_PROBE(doctor_clone3);
DOCTOR_PROBE(doctor_close_range);
DOCTOR_PROBE(doctor_openat2);
DOCTOR_PROBE(doctor_pidfd);
DOCTOR_PROBE(doctor_execveat);
DOCTOR_PROBE(doctor_memfd);
DOCTOR_PROBE(doctor_memfd_exec);
DOCTOR_PROBE(doctor_seccomp);
DOCTOR_PROBE(doctor_landlock);
DOCTOR_PROBE(doctor_landlock_abi);
DOCTOR_PROBE(doctor_nofile);
DOCTOR_PROBE(doctor_clock);
DOCTOR_PROBE(doctor_links);
/* doctor_sandbox.c */
DOCTOR_PROBE(doctor_namespace);
DOCTOR_PROBE(doctor_maps);
DOCTOR_PROBE(doctor_private);
DOCTOR_PROBE(doctor_tmpfs);
DOCTOR_PROBE(doctor_overlay);
DOCTOR_PROBE(doctor_setattr);
DOCTOR_PROBE(doctor_devices);
DOCTOR_PROBE(doctor_pivot);
DOCTOR_PROBE(doctor_proc);
DOCTOR_PROBE(doctor_devpts);
DOCTOR_PROBE(doctor_hostname);
DOCTOR_PROBE(doctor_loopback);
/* doctor_ids.c */
DOCTOR_PROBE(doctor_ids);
/* doctor_host.c */
DOCTOR_PROBE(doctor_config);
DOCTOR_PROBE(doctor_state);
DOCTOR_PROBE(doctor_owner);
DOCTOR_PROBE(doctor_lockdown);
DOCTOR_PROBE(doctor_rules);
DOCTOR_PROBE(doctor_credentials);
DOCTOR_PROBE(doctor_space);
DOCTOR_PROBE(doctor_run);
DOCTOR_PROBE(doctor_append_only);
DOCTOR_PROBE(doctor_user);
DOCTOR_PROBE(doctor_become);
DOCTOR_PROBE(doctor_suite_programs);
DOCTOR_PROBE(doctor_program);
DOCTOR_PROBE(doctor_images);
DOCTOR_PROBE(doctor_limit);
DOCTOR_PROBE(doctor_leftovers);

#endif
