/* Which tests a tree asks for, and what their reports say. */
#include "common/base/fresh.h"
#include "sbxd/judge/judge.h"
#include "sbxd/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

uint32_t
report_found(const struct tree *t)
{
	uint32_t found = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].mode != 0120000 &&
		    strchr(t->v[i].path, '/') == NULL)
			found |= sbx_fresh_of(t->v[i].path);
	return (found);
}

/* The first line of what a script of fresh.c wrote names the format. */
static bool
take_format(struct sbx_report_in *in)
{
	static const char *const names[SBX_REPORT_FORMAT_MAX] = {
		[SBX_REPORT_PYTEST] = "pytest", [SBX_REPORT_JEST] = "jest",
		[SBX_REPORT_TAP] = "tap", [SBX_REPORT_GO] = "go",
		[SBX_REPORT_CARGO] = "cargo",
		[SBX_REPORT_AUTOMAKE] = "automake",
		[SBX_REPORT_CTEST] = "ctest",
	};
	const char *nl = memchr(in->report, '\n', in->report_len);
	size_t n = nl != NULL ? (size_t)(nl - in->report) : 0;

	for (int i = 0; i < SBX_REPORT_FORMAT_MAX; i++) {
		if (n == 0 || strlen(names[i]) != n ||
		    memcmp(in->report, names[i], n) != 0)
			continue;
		in->format = (enum sbx_report_format)i;
		in->report += n + 1;
		in->report_len -= n + 1;
		in->output = in->report;
		in->output_len = in->report_len;
		return (true);
	}
	return (false);
}

/* Of at most len bytes at offset, as many as there are. */
static size_t
read_report(int fd, uint64_t offset, size_t len, char *buf)
{
	size_t got = 0;
	ssize_t n;

	while (got < len && (n = pread(fd, buf + got, len - got,
	    (off_t)(offset + got))) > 0)
		got += (size_t)n;
	return (got);
}

static void
judge(struct sbx_report_in *in, struct sbx_judge_verdict *ret)
{
	static char why[256];
	struct sbx_report r;

	sbx_report_parse(in, &r);
	memcpy(why, r.why, sizeof(why));
	*ret = (struct sbx_judge_verdict){
		.green = r.verdict == SBX_VERDICT_GREEN,
		.verdict = sbx_verdict_name(r.verdict), .reason = why,
		.total = (uint32_t)r.total, .passed = (uint32_t)r.passed,
		.failed = (uint32_t)r.failed, .errors = (uint32_t)r.errors,
		.skipped = (uint32_t)r.skipped };
	sbx_report_clear(&r);
}

/* What ended otherwise than by itself is not green, whatever it wrote. */
void
report_judge(const struct sbx_judge_report *q, int fd,
    struct sbx_judge_verdict *ret)
{
	struct sbx_report_in in = { .status = WIFEXITED(q->status) ?
	    WEXITSTATUS(q->status) : 128 + WTERMSIG(q->status) };
	char *buf = NULL;

	*ret = (struct sbx_judge_verdict){ .verdict = "unparsable",
		.reason = "it reported nothing that is known" };
	if (q->why == SBX_EXIT_TIMEOUT)
		*ret = (struct sbx_judge_verdict){ .verdict = "timeout",
			.reason = "it took longer than it may" };
	else if (q->why != SBX_EXIT_EXITED)
		*ret = (struct sbx_judge_verdict){ .verdict = "crash",
			.reason = "it was killed" };
	else if (q->length >= SBX_REPORT_BYTES)
		ret->reason = "it reported more than is read";
	else {
		buf = sbx_xcalloc(1, (size_t)q->length + 1);
		in.report = buf;
		in.report_len = read_report(fd, q->offset, (size_t)q->length,
		    buf);
		if (take_format(&in))
			judge(&in, ret);
	}
	free(buf);
}
