#include "common/base/fresh.h"

#include "common/base/markers.h"

#include <stdio.h>
#include <string.h>

enum { PYTHON, JS, GO, RUST, CTEST, CHECK };

#define TMP "t=$(mktemp -d) || exit 125; trap 'rm -rf \"$t\"' EXIT; "
/* what was reported, then how it ended */
#define SHOW(file) "s=$?; cat " file " 2>/dev/null; exit $s"

const struct sbx_fresh sbx_fresh[] = {
	[PYTHON] = { "python", "pytest", TMP "echo pytest; p=~/.venv/bin/python; "
	    "[ -x $p ] || p=python3; $p -m pytest "
	    "--junit-xml=\"$t/r\" -o junit_family=xunit1 -p no:cacheprovider "
	    "-q >&2; " SHOW("\"$t/r\"") },
	[JS] = { "js", "vitest, jest or node --test", TMP
	    "b=node_modules/.bin; if [ -x $b/vitest ]; then "
	    "echo jest; $b/vitest run --reporter=json --outputFile=\"$t/r\" "
	    ">&2; elif [ -x $b/jest ]; then echo jest; $b/jest --ci --json "
	    "--outputFile=\"$t/r\" >&2; else echo tap; node --test "
	    "--test-reporter=tap >\"$t/r\"; fi; " SHOW("\"$t/r\"") },
	[GO] = { "go", "go test", "echo go; exec go test -json ./..." },
	[RUST] = { "rust", "cargo test", "echo cargo; exec cargo test --workspace "
	    "--no-fail-fast --offline" },
	[CTEST] = { "ctest", "ctest", TMP "echo ctest; { cmake -S . -B \"$t/b\" && "
	    "cmake --build \"$t/b\" -j \"$(nproc)\"; } >&2 || exit 1; ctest "
	    "--test-dir \"$t/b\" --output-junit \"$t/r\" >&2; "
	    SHOW("\"$t/r\"") },
	[CHECK] = { "make", "make check", TMP "echo automake; { if [ -f configure.ac ] && "
	    "[ ! -x configure ]; then autoreconf -i || exit 1; fi; if [ -x "
	    "configure ]; then ./configure || exit 1; fi; make -k check "
	    "-j \"$(nproc)\"; } >\"$t/r\" 2>&1; s=$?; cat \"$t/r\" >&2; "
	    "cat \"$t/r\"; exit $s" },
};
const size_t sbx_fresh_n = sizeof(sbx_fresh) / sizeof(sbx_fresh[0]);

const char *
sbx_fresh_runs(const char *names, char *buf, size_t size)
{
	const char *s = names;
	size_t n, i, len = 0;

	for (*buf = '\0'; *s != '\0' && len < size; s += n + (s[n] == ' ')) {
		n = strcspn(s, " ");
		for (i = 0; i < sbx_fresh_n; i++)
			if (strncmp(sbx_fresh[i].name, s, n) == 0 &&
			    sbx_fresh[i].name[n] == '\0')
				len += (size_t)snprintf(buf + len, size - len,
				    "%s%s", len > 0 ? "; " : "",
				    sbx_fresh[i].runs);
	}
	return (buf);
}

/* A type checker's configuration says nothing about tests. */
uint32_t
sbx_fresh_of(const char *name)
{
	static const uint32_t rows[SBX_LANG_MAX] = {
		[SBX_LANG_PYTHON] = 1u << PYTHON, [SBX_LANG_JS] = 1u << JS,
		[SBX_LANG_GO] = 1u << GO, [SBX_LANG_RUST] = 1u << RUST,
	};
	int i = sbx_marker_match(name);

	if (strcmp(name, "CMakeLists.txt") == 0)
		return (1u << CTEST);
	if (strcmp(name, "configure.ac") == 0)
		return (1u << CHECK);
	return (i == -1 || strcmp(name, "tsconfig.json") == 0 ? 0 :
	    rows[sbx_markers[i].lang]);
}
