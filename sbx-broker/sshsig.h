#ifndef SBX_BROKER_SSHSIG_H
#define SBX_BROKER_SSHSIG_H

/*
 * Signatures of commits by an Ed25519 key, as `ssh-keygen -Y verify -n git`
 * takes them.  Source: OpenSSH, PROTOCOL.sshsig; RFC 8709 section 4.
 */

#include "common/base/commitsig.h"

#include <openssl/types.h>

#define SSHSIG_LINE 96		/* "ssh-ed25519 " and base64 of 51 bytes */

/* The public key, as a line of authorized_keys has it.  0, SBX_E_SYS. */
int sshsig_line(const EVP_PKEY *key, char ret_line[SSHSIG_LINE]);
/* 0, SBX_E_SYS. */
int sshsig_make(EVP_PKEY *key, const void *p, size_t n,
    char ret_armored[SBX_COMMITSIG_MAX + 1]);

/* The id that a commit has with that signature.  0, SBX_E_SYS. */
int sshsig_commit_id(const char *commit, const char *armored, bool sha256,
    char ret_id[65]);
/* Before the cage: the line, and all that libcrypto loads for the others. */
int sshsig_ready(EVP_PKEY *key, char ret_line[SSHSIG_LINE]);

#endif
