#ifndef SBX_BASE_PUBLISH_H
#define SBX_BASE_PUBLISH_H

/*
 * A publication's steps: what its own sandbox runs, one after the other, and
 * the words for what can refuse it.  The scripts are fixed; what differs are
 * their arguments, and the paths (each with its NUL) on standard input: COUNT
 * that were declared, then those that a merge brings.
 * On standard output each has one line:
 *
 *   no STEP TEXT	it is refused, by a step of sbx_publish_steps; TEXT is
 *			what git said of it, printable ASCII
 *
 * or what is said beside its row.  ID is a whole object id, "-": there is none.
 */

#include <stdint.h>

#define SBX_PUBLISH_LINE 1024		/* bytes of that line, with its newline */
#define SBX_PUBLISH_BASE "/workspace/base"	/* what FETCH leaves */
#define SBX_PUBLISH_IN "/workspace/in"	/* what BUILD finds */
#define SBX_PUBLISH_MAX_BASE (64u << 20)	/* bytes of the former */
#define SBX_PUBLISH_MAX_NAMES (4u << 20)	/* bytes of the declared paths */
#define SBX_PUBLISH_MAX_DIFF (4u << 20)	/* bytes of a patch that is shown */

enum sbx_publish_script {
	/*
	 * URL BASE BRANCH PARENT2 MERGED COUNT.  tip ID default NAME format
	 * sha1|sha256 like ID fork ID: where the branch is, the repository's default
	 * branch, and the tree of the branch's commit where its parents are
	 * BASE (and PARENT2), as those of a publication that was made before,
	 * and where PARENT2 and BASE parted, if they have history in common.
	 * BASE has to be of a branch, whichever; PARENT2 has to be reachable
	 * from where the repository has its branch MERGED: any commit can be
	 * fetched by its id, also that of a fork.
	 * Leaves in
	 * SBX_PUBLISH_BASE what `git cat-file --batch` says of BASE, the tree
	 * at its root, the trees of all directories on a declared path, their
	 * .gitattributes, .secrets.baseline and the declared files as they were; of the last, and
	 * of files at all, those that are small enough; of PARENT2 the same
	 * but for the files, and where they parted the trees; and all trees
	 * that PARENT2 has otherwise than these two.  All asked for
	 * by id, each once.
	 */
	SBX_PUBLISH_FETCH,
	/* BASE PARENT2 COUNT.  tree ID commit ID: made of files/ and commit in
	 * SBX_PUBLISH_IN, and of what PARENT2 has of the other paths, with no
	 * more than these paths changed. */
	SBX_PUBLISH_BUILD,
	/*
	 * URL COMMIT BRANCH TIP FORCE.  at ID said ok|no|none TEXT: where the
	 * branch is after it, "?" when that cannot be told, and what the remote
	 * said of the push.
	 */
	SBX_PUBLISH_PUSH,
	/*
	 * BASE COMMIT, after BUILD.  files N added N deleted N cut 0|1, of lines;
	 * and below that for who looks at it: each changed path as git's raw
	 * lines and its numbers have it, an empty line, the patch, cut where it
	 * is longer than SBX_PUBLISH_MAX_DIFF.  Without what a merge brings,
	 * which is not here.
	 */
	SBX_PUBLISH_SHOW,
	/*
	 * URL BRANCH COMMIT, in a sandbox of its own.  at ID in yes|no: where the
	 * branch is, and whether COMMIT is among the last 500 of its history.
	 */
	SBX_PUBLISH_LOOK,
	SBX_PUBLISH_SCRIPT_MAX
};
struct sbx_publish_row {
	const char *name;
	uint32_t seconds;	/* that it may take */
	const char *script;	/* for bash */
};
extern const struct sbx_publish_row
    sbx_publish_scripts[SBX_PUBLISH_SCRIPT_MAX];

/* Why a publication was refused, and what can be done. */
struct sbx_publish_step {
	const char *word, *cause, *mend;
};
/* NULL: there is no such word. */
const struct sbx_publish_step *sbx_publish_step(const char *word);
extern const struct sbx_publish_step sbx_publish_steps[];
extern const unsigned sbx_publish_steps_n;

#endif
