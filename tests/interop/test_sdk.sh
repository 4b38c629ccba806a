#!/usr/bin/env bash
# The official TypeScript SDK's client drives the whole tour over stdio.
# SBX_INTEROP: a directory with node_modules (contrib/check makes it).
set -u
skip() {
	if [ "${SBX_MUST_WORK-}" = 1 ]; then
		echo "1..1"; echo "not ok 1 - $1"
	else
		echo "1..0 # SKIP $1"
	fi
	exit 0
}
command -v node >/dev/null || skip "node is not installed"
[ -d "${SBX_INTEROP-}/node_modules/@modelcontextprotocol/sdk" ] ||
	skip "no @modelcontextprotocol/sdk: npm ci in a copy of tests/interop, SBX_INTEROP names it"
work=$(mktemp -d /tmp/sbx-sdk-XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
chmod 0755 "$work"
mkdir "$work/project" "$work/root" && cd "$work/project" || exit 1
git init -q . && printf 'int main(void) { return 0; }\n' >main.c &&
	printf '*.o\n' >.gitignore && touch junk.o untracked.c &&
	git add main.c .gitignore &&
	git -c user.name=t -c user.email=t@example.invalid commit -qm first || exit 1
SBX_ROOT=$work/root timeout 120 node "$SBX_SRC/tests/interop/tour.mjs" \
	"$SBX_BUILD/sbx" "$work/project"
status=$?
[ $status -eq 0 ] || echo "Bail out! the client exited with $status"
exit 0
