/* Finding a member's bytes in a text that is known to be clean. */

#include <string.h>

#include "common/base/base.h"
#include "sbxd/front/member.h"
#include "tests/tap.h"

static const struct {
	const char *text, *name, *want;	/* want NULL: not found */
} cases[] = {
	{ "{}", "a", NULL },
	{ "[]", "a", NULL },
	{ "1", "a", NULL },
	{ "", "a", NULL },
	{ "{\"a\":1}", "a", "1" },
	{ "{\"a\":1}", "b", NULL },
	{ " { \"a\" : -1.5e+3 } ", "a", "-1.5e+3" },
	{ "{\"a\":true,\"b\":null}", "b", "null" },
	{ "{\"a\":{\"b\":1},\"b\":2}", "b", "2" },
	{ "{\"a\":[\"b\",{\"b\":1}],\"b\":[ 2 , [3] ]}", "b", "[ 2 , [3] ]" },
	{ "{\"a\":\"}\\\"],\",\"b\":\"\\\\\"}", "b", "\"\\\\\"" },
	{ "{\"a\":\"\\\\\",\"b\":{\"x\":\"}\"}}", "b", "{\"x\":\"}\"}" },
	{ "{\"a\\\"\":1,\"a\":2}", "a", "2" },
	{ "{\"\\u0061b\":1}", "ab", "1" },
	{ "{\"a\\u0062\":1}", "ab", "1" },
	{ "{\"a\\u005F\":1}", "a_", "1" },
	{ "{\"a\\u005f\":1}", "a_", "1" },
	{ "{\"\\u0161\":1}", "a", NULL },
	{ "{\"\\u00610\":1}", "a", NULL },
	{ "{\"aa\":1,\"a\":2}", "a", "2" },
	{ "{\"a\":1,\"aa\":2}", "aa", "2" },
	{ "{\"\":1}", "a", NULL },
	{ "{\"a\":\n\t[\n]\r\n}", "a", "[\n]" },
	{ "{\"\\\\u0061\":1,\"a\":2}", "a", "2" },
};

int
main(void)
{
	struct span s;
	char shown[128];
	size_t i, cut;
	bool found;

	tap_plan((int)SBX_NELEM(cases) + 1);
	for (i = 0; i < SBX_NELEM(cases); i++) {
		s = (struct span){ 0 };
		found = member_find(cases[i].text, strlen(cases[i].text),
		    cases[i].name, &s);
		ok(cases[i].want == NULL ? !found : found &&
		    s.len == strlen(cases[i].want) &&
		    memcmp(s.p, cases[i].want, s.len) == 0,
		    "%zu: %s in %s", i, cases[i].name,
		    sbx_vis(shown, sizeof(shown), cases[i].text,
		    strlen(cases[i].text)));
	}
	/* A text that is cut is not clean, but must not be read past. */
	for (i = 0; i < SBX_NELEM(cases); i++)
		for (cut = 0; cut < strlen(cases[i].text); cut++) {
			char *copy = malloc(cut + 1);

			memcpy(copy, cases[i].text, cut);
			if (member_find(copy, cut, cases[i].name, &s) &&
			    s.p + s.len > copy + cut)
				return 1;
			free(copy);
		}
	ok(true, "cut texts are not read past");
	return tap_done();
}
