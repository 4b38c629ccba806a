#include "sbx-broker/check.h"

#include "common/base/base.h"
#include "sbx-proxy/gate.h"
#include "sbx-proxy/host.h"

#include <string.h>

bool
check_host(const char *s)
{
	struct host h;

	return (host_read((struct sbx_text){ s, strlen(s) }, &h) == 0 &&
	    strcmp(s, h.text) == 0);
}

static bool
part_is_good(const char *s, size_t n, size_t max, bool upper)
{
	size_t i;

	if (n > max || strspn(s, ".") >= n)	/* n 0, too */
		return (false);
	for (i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') &&
		    !(upper && s[i] >= 'A' && s[i] <= 'Z') &&
		    !(s[i] >= '0' && s[i] <= '9') &&
		    strchr("-_.", s[i]) == NULL)
			return (false);
	return (true);
}

bool
check_repo(const char *s, bool upper)
{
	size_t n = strcspn(s, "/");

	return (s[n] == '/' && part_is_good(s, n, GATE_OWNER_MAX, upper) &&
	    part_is_good(s + n + 1, strlen(s + n + 1), GATE_REPO_MAX, upper));
}

bool
check_oid(const char *s)
{
	return (sbx_is_hex(s, 40) || sbx_is_hex(s, 64));
}
