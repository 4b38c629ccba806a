/*
 * What a build under sanitizers needs inside a cage.  Such a build is for
 * tests only: its filters allow a few more calls (rows.c), and it says so.
 */

#include "common/privs/row.h"

#include <string.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef SBX_SANITIZERS
static bool caged;

/* Called by the runtime at exit.  Source: sanitizer/lsan_interface.h. */
int __lsan_is_turned_off(void);

int
__lsan_is_turned_off(void)
{
	return (caged);
}

void
sbx_privs_sanitizer_caged(void)
{
	static const char text[] = "warning: built with sanitizers, so the "
	    "seccomp filter allows more calls: for tests only\n";

	if (!caged)
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	caged = true;
}
#else
void
sbx_privs_sanitizer_caged(void)
{
}
#endif
