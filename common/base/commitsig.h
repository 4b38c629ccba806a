#ifndef SBX_BASE_COMMITSIG_H
#define SBX_BASE_COMMITSIG_H

/*
 * A commit's signature by an SSH key, as git has it with gpg.format ssh.
 * Source: gitformat-signature(5); OpenSSH, PROTOCOL.sshsig.
 */

#include "common/base/base.h"

#define SBX_COMMITSIG_MAX 1023u	/* bytes, armored */
#define SBX_COMMITSIG_BEGIN "-----BEGIN SSH SIGNATURE-----\n"
#define SBX_COMMITSIG_END "-----END SSH SIGNATURE-----\n"

/* Is it armored, of lines of base64 and nothing else? */
bool sbx_commitsig_good(const char *armored);
/*
 * Append a commit's n bytes with the header of the signature, behind the others.
 * 0, SBX_E_SYNTAX: these are no commit, or it has a signature; SBX_E_LIMIT.
 */
int sbx_commitsig_add(struct sbx_buf *b, const char *commit, size_t n,
    const char *armored);

#endif
