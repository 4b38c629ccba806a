/* Sizes and processors as people write them; a place is always a sentence. */

#include <string.h>
#include <unistd.h>

#include "common/base/cgroup.h"
#include "tests/tap.h"

static const struct {
	const char *in;
	int r;
	uint64_t bytes;
} sizes[] = {
	{ "1", 0, 1 }, { "512m", 0, 512ull << 20 }, { "2G", 0, 2ull << 30 },
	{ "3t", 0, 3ull << 40 }, { "64k", 0, 65536 }, { "007", 0, 7 },
	{ "", SBX_E_SYNTAX, 0 }, { "g", SBX_E_SYNTAX, 0 },
	{ "-1", SBX_E_SYNTAX, 0 }, { "1.5g", SBX_E_SYNTAX, 0 },
	{ "1 g", SBX_E_SYNTAX, 0 }, { "2gb", SBX_E_SYNTAX, 0 },
	{ "2p", SBX_E_SYNTAX, 0 }, { "0", SBX_E_RANGE, 0 },
	{ "0g", SBX_E_RANGE, 0 }, { "9223372036854775808", SBX_E_RANGE, 0 },
	{ "99999999999t", SBX_E_RANGE, 0 },
	{ "111111111111111111111111111", SBX_E_SYNTAX, 0 },
};
static const struct {
	const char *in;
	int r;
	uint32_t milli;
} cpus[] = {
	{ "1", 0, 1000 }, { "0.5", 0, 500 }, { "1.25", 0, 1250 },
	{ "0.001", 0, 1 }, { "16", 0, 16000 }, { "2.0000", 0, 2000 },
	{ "", SBX_E_SYNTAX, 0 }, { ".5", SBX_E_SYNTAX, 0 },
	{ "1.", SBX_E_SYNTAX, 0 }, { "1,5", SBX_E_SYNTAX, 0 },
	{ "-1", SBX_E_SYNTAX, 0 }, { "1e3", SBX_E_SYNTAX, 0 },
	{ "0", SBX_E_RANGE, 0 }, { "0.0", SBX_E_RANGE, 0 },
	{ "4097", SBX_E_RANGE, 0 }, { "99999999999", SBX_E_SYNTAX, 0 },
};

static void
test_values(void)
{
	char text[32];
	uint64_t b = 0;
	uint32_t m = 0;

	for (size_t i = 0; i < SBX_NELEM(sizes); i++)
		ok(sbx_parse_size(sizes[i].in, &b) == sizes[i].r &&
		    (sizes[i].r != 0 || b == sizes[i].bytes), "size \"%s\"",
		    sizes[i].in);
	for (size_t i = 0; i < SBX_NELEM(cpus); i++)
		ok(sbx_parse_cpus(cpus[i].in, &m) == cpus[i].r &&
		    (cpus[i].r != 0 || m == cpus[i].milli), "cpus \"%s\"",
		    cpus[i].in);
	ok(strcmp(sbx_format_size(text, sizeof(text), 2ull << 30), "2g") == 0,
	    "gigabytes");
	ok(strcmp(sbx_format_size(text, sizeof(text), 1537), "1537") == 0,
	    "odd bytes");
}

/* Whatever machine this is. */
static void
test_places(void)
{
	struct sbx_limit_probe rows[SBX_LIMIT_ROWS];
	struct sbx_cgroup_place p;
	bool whole = true;

	ok(sbx_limits_probe("", "disk", geteuid(), rows) == 0, "probe");
	for (int i = 0; i < SBX_LIMIT_ROWS; i++)
		whole = whole && rows[i].name != NULL && rows[i].how[0] != '\0'
		    && rows[i].enforced == (rows[i].mend[0] == '\0');
	ok(whole, "each row says how, or the mend");
	for (int h = 0; h < SBX_CGROUP_MAX; h++)
		ok(sbx_cgroup_find((enum sbx_hierarchy)h, "/sbx/../..",
		    geteuid(), &p) == 0 && !p.usable && p.why[0] != '\0',
		    "a path that leaves the hierarchy, %s",
		    sbx_cgroup_name((enum sbx_hierarchy)h));
	ok(sbx_cgroup_find(SBX_CGROUP_MEMORY, "/no-such-group", geteuid(),
	    &p) == 0 && !p.usable && p.why[0] != '\0',
	    "a group that is not there");
}

int
main(void)
{
	test_values();
	test_places();
	return (tap_done());
}
