#ifndef SBX_BASE_LOG_H
#define SBX_BASE_LOG_H

/*
 * Diagnostics (not the audit: that is the journal).  A process writes to
 * stderr until it has a channel to the monitor; then its sink sends LOG.
 * One sentence, then key=value.  Foreign text goes through sbx_vis() first.
 */

#include "common/base/base.h"

enum sbx_log_level {
	SBX_LOG_ERR, SBX_LOG_WARN, SBX_LOG_NOTICE, SBX_LOG_INFO, SBX_LOG_DEBUG,
	SBX_LOG_MAX
};
typedef void (*sbx_log_sink)(void *arg, enum sbx_log_level level,
    const char *text);

/* tag: the process's name, borrowed for ever.  level: the highest shown. */
void sbx_log_init(const char *tag, enum sbx_log_level level);
/* NULL sink: stderr, as "TAG: level: text\n". */
void sbx_log_to(sbx_log_sink sink, void *arg);
enum sbx_log_level sbx_log_level_get(void);
/* One complete line (no newline); longer than 512 bytes is cut. */
void sbx_log(enum sbx_log_level level, const char *fmt, ...) SBX_PRINTF(2, 3);
#define log_err(...) sbx_log(SBX_LOG_ERR, __VA_ARGS__)
#define log_warn(...) sbx_log(SBX_LOG_WARN, __VA_ARGS__)
#define log_notice(...) sbx_log(SBX_LOG_NOTICE, __VA_ARGS__)
#define log_info(...) sbx_log(SBX_LOG_INFO, __VA_ARGS__)
#define log_debug(...) sbx_log(SBX_LOG_DEBUG, __VA_ARGS__)
/* Broken invariant, no memory, no cage: log at err and _exit(2). */
_Noreturn void sbx_fatal(const char *fmt, ...) SBX_PRINTF(1, 2);

#endif
