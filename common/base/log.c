#include "common/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_TEXT 512		/* as LOG in msgs.def */
#define LOG_LINE (LOG_TEXT + 96)

/*
 * The one mutable global of the common code: a process has one stderr, and a
 * line must come out also where no context is at hand (sbx_fatal).
 */
static struct {
	const char *tag;
	enum sbx_log_level level;
	sbx_log_sink sink;
	void *arg;
	bool in_sink;		/* a sink that logs must not call itself */
} log_state = { .tag = "sbx", .level = SBX_LOG_NOTICE };

static const char *const log_words[SBX_LOG_MAX] = {
	[SBX_LOG_ERR] = "error",
	[SBX_LOG_WARN] = "warning",
	[SBX_LOG_NOTICE] = "notice",
	[SBX_LOG_INFO] = "info",
	[SBX_LOG_DEBUG] = "debug",
};

void
sbx_log_init(const char *tag, enum sbx_log_level level)
{
	log_state.tag = tag;
	log_state.level = level;
}

void
sbx_log_to(sbx_log_sink sink, void *arg)
{
	log_state.sink = sink;
	log_state.arg = arg;
}

enum sbx_log_level
sbx_log_level_get(void)
{
	return (log_state.level);
}

/* One write(2), so that lines of several processes do not mix. */
static void
log_stderr(enum sbx_log_level level, const char *text)
{
	char line[LOG_LINE];
	int n;

	n = snprintf(line, sizeof(line) - 1, "%.64s: %s: %s", log_state.tag,
	    log_words[level], text);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* Where should a failure to log be logged? */
	}
}

static void SBX_PRINTF(2, 0)
log_va(enum sbx_log_level level, const char *fmt, va_list ap)
{
	char text[LOG_TEXT + 1];
	int saved = errno;
	char *p;

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	/* A line break in a message would forge the next line's tag. */
	for (p = text; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	if (log_state.sink != NULL && !log_state.in_sink) {
		log_state.in_sink = true;
		log_state.sink(log_state.arg, level, text);
		log_state.in_sink = false;
	} else
		log_stderr(level, text);
	errno = saved;
}

void
sbx_log(enum sbx_log_level level, const char *fmt, ...)
{
	va_list ap;

	if (level > log_state.level || level >= SBX_LOG_MAX)
		return;
	va_start(ap, fmt);
	log_va(level, fmt, ap);
	va_end(ap);
}

void
sbx_fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(SBX_LOG_ERR, fmt, ap);
	va_end(ap);
	_exit(2);
}
