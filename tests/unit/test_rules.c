/* The process that says whether rules are good: what it says, and that it ends. */

#include "common/base/rules.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/sbx-rules-XXXXXX", judge[64];

/* Of a judge that is this script. */
static int
check(const char *script, struct sbx_err *err)
{
	int fd = open(judge, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	int rules = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int r = sbx_write_all(fd, script, strlen(script));

	*err = (struct sbx_err){ 0 };
	sbx_close(&fd);
	if (r == 0)
		r = sbx_rules_check(dir, "/rules", rules, err);
	sbx_close(&rules);
	return (r);
}

int
main(void)
{
	static const struct {
		const char *what, *script, *said;
		int r;
	} rows[] = {
		{ "good", "exit 0", "", 0 },
		{ "not", "printf 'line 3\\033: x\\nmore'; exit 1",
		    "line 3\\x1b: x", SBX_E_SYNTAX },
		{ "it fails", "exit 2", "cannot say", SBX_E_SYS },
		{ "it is killed", "kill -9 $$", "cannot say", SBX_E_SYS },
		{ "it is silent", "exec sleep 20", "cannot say", SBX_E_SYS },
		{ "it stays", "exec sleep 20 >&-", "cannot say", SBX_E_SYS },
		{ "it says too much", "exec yes", "cannot say", SBX_E_SYS },
	};
	char script[128];
	struct sbx_err err;

	if (mkdtemp(dir) == NULL)
		return (2);
	(void)snprintf(judge, sizeof(judge), "%s/sbxd-judge", dir);
	tap_plan(SBX_NELEM(rows));
	for (size_t i = 0; i < SBX_NELEM(rows); i++) {
		const uint64_t from = sbx_mono_ns();
		int r;

		(void)snprintf(script, sizeof(script), "#!/bin/sh\n%s\n",
		    rows[i].script);
		r = check(script, &err);
		ok(r == rows[i].r && strstr(err.msg, rows[i].said) != NULL &&
		    sbx_mono_ns() - from < 10 * UINT64_C(1000000000),
		    "%s: %d %s", rows[i].what, r, err.msg);
	}
	(void)unlink(judge);
	(void)rmdir(dir);
	return (tap_done());
}
