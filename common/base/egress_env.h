#ifndef SBX_BASE_EGRESS_ENV_H
#define SBX_BASE_EGRESS_ENV_H

/*
 * What programs of a sandbox with egress are told by their environment: the
 * proxy, and whom to trust besides the world's roots.  Every client has a
 * lever of its own; this is the only list of them.
 */

#include "common/base/base.h"

struct sbx_strs;

/* Below the root of a sandbox: what the engine puts there for its clients. */
#define SBX_TRUST_DIR "run/sbx"
#define SBX_TRUST_BUNDLE "ca-bundle.pem" /* the world's roots and ours */
#define SBX_TRUST_OWN "ca.pem"
#define SBX_TRUST_JKS "java.jks"
#define SBX_TRUST_WGETRC "wgetrc"
#define SBX_TRUST_ENV "env.sh"

struct sbx_egress_var {
	const char *name, *value;
	bool always;	/* else a shell that has one keeps it */
};
extern const struct sbx_egress_var sbx_egress_vars[];
extern const size_t sbx_egress_vars_n;

/* Append all to s, whose bytes are b's.  0, SBX_E_LIMIT. */
int sbx_egress_env_add(struct sbx_strs *s, struct sbx_buf *b);
/* Append a file for shells that begin with another environment.
 * 0, SBX_E_LIMIT. */
int sbx_egress_env_sh(struct sbx_buf *b);
/* What wget reads instead of the system's file. */
extern const char sbx_egress_wgetrc[];

#endif
