/* Reports of test runners and linters, in every format. */

#include <string.h>

#include "sbxd/report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_findings(unsigned format, const char *p, size_t n)
{
	struct sbx_findings f;

	(void)sbx_findings_parse(format % SBX_FINDINGS_FORMAT_MAX, p, n, &f);
	if (f.n > SBX_FINDINGS_MAX || f.n > f.total || f.errors > f.total)
		abort();
	sbx_findings_clear(&f);
}

/* What holds of every report. */
static void
check(const struct sbx_report *r, const struct sbx_report_in *in)
{
	size_t bytes = 0;

	if (r->nfailures > SBX_REPORT_FAILURES || r->total != r->passed +
	    r->failed + r->errors + r->skipped)
		abort();
	for (size_t i = 0; i < r->nfailures; i++) {
		if (strlen(r->failures[i].test) > SBX_REPORT_NAME_BYTES + 64 ||
		    strlen(r->failures[i].error) > SBX_REPORT_ERROR_BYTES + 64)
			abort();
		bytes += strlen(r->failures[i].error);
	}
	if (bytes > SBX_REPORT_ERRORS_BYTES + SBX_REPORT_ERROR_BYTES + 64)
		abort();
	if (r->verdict == SBX_VERDICT_GREEN && (r->passed == 0 ||
	    r->failed + r->errors > 0 || r->nfailures > 0 ||
	    in->status != 0))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SBX_CLEANUP(free) char *report = NULL;
	SBX_CLEANUP(free) char *output = NULL;
	struct sbx_report_in in = { 0 };
	struct sbx_report r;
	const uint8_t *nul;

	if (size < 2)
		return (0);
	if (data[0] >= 16) {
		try_findings(data[0], (const char *)data + 2, size - 2);
		return (0);
	}
	in.format = data[0] % SBX_REPORT_FORMAT_MAX;
	in.status = data[1] & 1 ? data[1] : 0;
	data += 2;
	size -= 2;
	nul = size == 0 ? NULL : memchr(data, 0, size);
	in.report_len = nul == NULL ? size : (size_t)(nul - data);
	in.output_len = nul == NULL ? 0 : size - in.report_len - 1;
	/* each ends where its memory does */
	in.report = report = sbx_xcalloc(1, in.report_len);
	memcpy(report, data, in.report_len);
	in.output = output = sbx_xcalloc(1, in.output_len);
	if (in.output_len > 0)
		memcpy(output, nul + 1, in.output_len);
	sbx_report_parse(&in, &r);
	check(&r, &in);
	sbx_report_clear(&r);
	return (0);
}
