#include "sbxd/monitor/monitor.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/*
 * Diagnostics of the children: tagged with what the channel says they are,
 * escaped, and at a bounded rate each, so that a compromised one can neither
 * speak as another nor drown the rest.
 */

#define LOG_BURST 200
#define LOG_PER_S 50

/* The tag comes from the channel; level and text are the child's. */
void
log_child(struct component *c, const char *tag, uint8_t level,
    const char *text)
{
	uint64_t now = sbx_mono_ns(), fresh;
	char shown[512];

	fresh = (now - c->log_filled_ns) / (S_NS / LOG_PER_S);
	if (fresh > 0) {
		c->log_filled_ns = now;
		c->log_tokens = fresh >= LOG_BURST ? LOG_BURST :
		    c->log_tokens + (unsigned)fresh;
		if (c->log_tokens > LOG_BURST)
			c->log_tokens = LOG_BURST;
	}
	if (c->log_tokens == 0) {
		c->log_dropped++;
		return;
	}
	c->log_tokens--;
	if (c->log_dropped > 0) {
		log_warn("%s: %u lines dropped, it logs too fast", tag,
		    c->log_dropped);
		c->log_dropped = 0;
	}
	sbx_vis(shown, sizeof(shown), text, strlen(text));
	sbx_log(level < SBX_LOG_MAX ? (enum sbx_log_level)level : SBX_LOG_DEBUG,
	    "%s: %s", tag, shown);
}

/* A wait(2) status, or -errno of a failed start, in words. */
const char *
log_status(int status, char *dst, size_t size)
{
	if (status < 0)
		(void)snprintf(dst, size, "could not be started: %s",
		    strerror(-status));
	else if (WIFSIGNALED(status))
		(void)snprintf(dst, size, "killed by signal %d",
		    WTERMSIG(status));
	else
		(void)snprintf(dst, size, "exited with %d",
		    WEXITSTATUS(status));
	return (dst);
}
