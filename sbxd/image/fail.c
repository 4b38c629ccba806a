#include "sbxd/image/importer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The first failure of an import is the one that is told. */

int
import_fail(struct importer *im, int code, const char *fmt, ...)
{
	va_list ap;

	if (im->err.code != 0)
		return (im->err.code);
	va_start(ap, fmt);
	(void)vsnprintf(im->err.msg, sizeof(im->err.msg), fmt, ap);
	va_end(ap);
	im->err.code = code;
	return (code);
}

int
import_fail_sys(struct importer *im, const char *fmt, ...)
{
	int error = errno;
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return (import_fail(im, SBX_E_SYS, "%s: %s", what, strerror(error)));
}
