#ifndef SBX_BASE_INSTALL_H
#define SBX_BASE_INSTALL_H

/*
 * Installing packages by the managers of the languages: what a sandbox runs
 * for it, and again where a dependency layer is made of what was installed.
 */

#include "common/base/base.h"

/* Of a shell: which Python, that of $VIRTUAL_ENV or ~/.venv, else the system's. */
#define SBX_INSTALL_PYTHON                                               \
	"py=python3 v=${VIRTUAL_ENV:-$HOME/.venv}\n"                     \
	"if [ -x \"$v/bin/python3\" ]; then py=$v/bin/python3; "         \
	"else v=; fi\n"
#define SBX_INSTALL_NO_VENV 68	/* exit code: there is no place for them */

/* For sh: $1 the manager, $2 "offline" or "", then its arguments. */
extern const char sbx_install_script[];
/*
 * For bash: $1 the former, then lines of sbx_install_line(), which it runs one
 * after the other, in /workspace.  What npm writes beside node_modules goes
 * again; cargo and go, which take packages for a project only, have an empty
 * one.  When one fails that is the end, and the last line of stderr names it.
 */
extern const char sbx_install_again[];

/*
 * Does this manager get `package` by its name alone, from a registry?  Not from
 * a file, a directory, a repository or a URL; what is not clearly a name is
 * none.
 */
bool sbx_install_named(const char *manager, const char *package);
/*
 * Add the line "MANAGER VERB [--upgrade] PACKAGE ..." with its NUL: words of
 * a shell, which expands nothing in them.  packages: each with its NUL.  0;
 * SBX_E_SYNTAX: one of them is no name, or there is none; SBX_E_LIMIT.
 */
int sbx_install_line(struct sbx_buf *b, const char *manager, bool upgrade,
    const char *packages, size_t len);

#endif
