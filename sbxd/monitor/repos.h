#ifndef SBX_MONITOR_REPOS_H
#define SBX_MONITOR_REPOS_H

/*
 * Which repositories are worked on with a credential, and which hosts there is
 * one for, as sbx.conf(5) has them.  No state: the command line asks, too.
 */

#include "common/base/conf.h"

#define SBX_GITHUB "github.com"
#define SBX_GITHUB_API "api.github.com"

struct policy;
/* Are they well-formed, and is there a way to their hosts?  0, SBX_E_SYNTAX,
 * SBX_E_POLICY, SBX_E_LIMIT; err set. */
int repos_check(const struct sbx_conf *c, const struct policy *p,
    struct sbx_err *err);
/* A canonical host and "owner/name" in lower case. */
bool repos_is_one(const char *host, const char *repo);
const char *repos_api_host(const char *host);
/* With a credential: is it listed?  writes covers reads. */
bool repos_reads(const struct sbx_conf *c, const char *host,
    const char *repo);
bool repos_writes(const struct sbx_conf *c, const char *host,
    const char *repo);
/* Is a source configured for that host?  NULL: for any. */
bool repos_sourced(const struct sbx_conf *c, const char *host);
/* BROKER_START.sources, whose bytes are b's.  dir: what %d is, NULL: it stays.
 * 0, SBX_E_LIMIT. */
struct sbx_strs;
int repos_sources(const struct sbx_conf *c, const char *dir,
    struct sbx_strs *ret, struct sbx_buf *b);
bool repos_same_sources(const struct sbx_conf *a, const struct sbx_conf *b);

#endif
