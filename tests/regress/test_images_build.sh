#!/usr/bin/env bash
# contrib/images: its scripts, tables and Containerfiles agree and pin all of
# what they take.  With SBX_IMAGES=1 (minutes, a mirror, mmdebstrap) it builds
# `minimal` twice, imports it and runs a command in a sandbox of it:
#
#	SBX_IMAGES=1 SBX_BUILD=build SBX_SRC=. tests/regress/test_images_build.sh
set -u
shopt -s lastpipe	# none() counts, so it must not be in a subshell
src=${SBX_SRC:-$(cd "$(dirname "$0")/../.." && pwd)}
images=$src/contrib/images
table=$images/packages
n=0 bad=0
dir=
trap '[ -z "$dir" ] || rm -rf "$dir"' EXIT

ok() { # STATUS TEXT
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else
		bad=$((bad + 1)); echo "not ok $n - $2"; fi
}
skip() { # WHY TEXT: never a failure, it is a long test or needs a mirror
	n=$((n + 1)); echo "ok $n - $2 # SKIP $1"
}
# none TEXT: standard input must be empty
none() {
	local found; found=$(cat)
	[ -z "$found" ] || printf '%s\n' "$found" | sed 's/^/# /'
	[ -z "$found" ]; ok $? "$1"
}

if command -v shellcheck >/dev/null; then
	(cd "$images" && shellcheck -x -P SCRIPTDIR build fetch) | none "shellcheck"
elif [ "${SBX_MUST_WORK-}" = 1 ]; then
	ok 1 "shellcheck is not installed"
else
	skip "not installed" shellcheck
fi

# --- the table ----------------------------------------------------------------
awk -F '\t' '/^(#|$)/ { next }
	$1 == "suite" { if (NF != 2) print; next }
	$1 == "image" { if (NF != 3) print; next }
	$1 == "env" { if (NF != 3 || $3 !~ /^[A-Z_]+=/) print; next }
	NF != 4 || ($2 != "deb" && $2 != "npm") { print }' "$table" |
	none "each row is of a known kind"
awk -F '\t' '$2 == "deb" && $4 !~ /^([0-9]+:)?[0-9][A-Za-z0-9.+~:-]*$/ ||
	$2 == "npm" && $4 !~ /^[0-9]+[.][0-9]+[.][0-9]+$/' "$table" |
	none "each package has one exact version"
awk -F '\t' '/^#/ { next } $2 == "deb" || $2 == "npm" {
	if (seen[$1, $2, $3]++) print }' "$table" | none "and is in a set once"
awk -F '\t' '$1 == "image" { n = split($3, word, " ")
		for (i = 1; i <= n; i++) used[word[i]] = 1 }
	$2 == "deb" || $2 == "npm" { have[$1] = 1 }
	END { for (k in used) if (!(k in have)) print "no rows: " k
		for (k in have) if (!(k in used)) print "in no image: " k }' \
	"$table" | none "each set has rows and is in an image"
awk -F '\t' '$2 == "deb" { if (($3 in v) && v[$3] != $4) print
	v[$3] = $4 }' "$table" | none "a package has one version in all sets"
for i in base python js go minimal; do
	grep -q "^image	$i	" "$table" || echo "$i"
done | none "the five images that need no Docker are there"

# --- npm's locks -------------------------------------------------------------
for set in $(awk -F '\t' '$2 == "npm" { print $1 }' "$table" | sort -u); do
	awk -F '\t' -v s="$set" '$1 == s && $2 == "npm" {
		print "\"" $3 "\": \"" $4 "\"" }' "$table" >"${TMPDIR:-/tmp}/sbx-t.$$"
	grep -o '"[^"]*": "[0-9][^"]*"' "$images/npm/$set/package.json" |
		diff - "${TMPDIR:-/tmp}/sbx-t.$$" | none "npm/$set is the table's"
	rm -f "${TMPDIR:-/tmp}/sbx-t.$$"
	python3 - "$images/npm/$set" <<'END' | none "its lock has a digest of each file"
import json, sys
want = json.load(open(sys.argv[1] + "/package.json"))["dependencies"]
lock = json.load(open(sys.argv[1] + "/package-lock.json"))["packages"]
for name, version in want.items():
    if lock["node_modules/" + name]["version"] != version:
        print(name, "is another version in the lock")
for path, p in lock.items():
    if path and not p.get("inBundle") and \
            not p.get("integrity", "").startswith("sha512-"):
        print(path, "has no sha512")
    if "resolved" in p:
        print(path, "says where it came from")
END
done

# --- Containerfiles ------------------------------------------------------------
cd "$images" || exit 1
for i in base python go js rust full minimal; do
	[ -f "Containerfile.$i" ] || echo "$i"
done | none "a Containerfile of each image"
grep -H '^FROM' Containerfile.* | grep -vE '@sha256:[0-9a-f]{64}$|\$\{[A-Z]+\}( AS [a-z]+)?$' |
	none "FROM names a digest, or what must be given"
grep -HE '^ARG (BASE|PYTHON|JS|GO|RUST)=' Containerfile.* | none "which has no default"
grep -HE '^ARG [A-Z]+_SHA256=' Containerfile.* | grep -vE '=[0-9a-f]{64}$' | none "sums are sums"
awk '/^ARG [A-Z]+_(VERSION|SHA256)=/ { split($2, a, "="); if ((a[1] in v) &&
	v[a[1]] != a[2]) print FILENAME, $2; v[a[1]] = a[2] }' Containerfile.* |
	none "and the same everywhere"
# each fetch has a sum as its second argument, on its line or the next
awk '/fetch "https:/ { l = $0; while (l ~ /\\$/ && l !~ /_SHA256"/) {
		if ((getline more) <= 0) break; l = l more }
	if (l !~ /fetch "https:[^"]*" *\\? *"\$[A-Z]+_SHA256"/) print FILENAME ": " l }' \
	Containerfile.* | none "nothing is fetched without one"
grep -HnE '(curl|wget) ' Containerfile.* | grep -v '^[^:]*:[0-9]*:#' | none "nor by another way"
grep -HnE 'pip install' Containerfile.* | grep -v -e '--no-cache-dir --only-binary :all:' |
	none "pip takes wheels only"
[ "$(grep -c 'pip install' Containerfile.* | awk -F : '{ s += $2 } END { print s }')" = \
	"$(cat Containerfile.* | grep -c -e --require-hashes)" ]
ok $? "by their hashes"
grep -hv '^#' pip/*.txt | grep -vE '^[a-z-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}$' |
	none "pip's lists have them"
sed -e :a -e '/\\$/N; s/\\\n//; ta' Containerfile.* |
	grep -E 'npm (install|i) |npm ci' | grep -v -e 'npm ci --ignore-scripts' | none "npm runs no script"

# --- what may not be in the repository -----------------------------------------
grep -rnE 'deb\.debian\.org|registry\.npm|files\.pythonhosted|pypi\.org' . |
	none "no registry is named"

# --- for real ------------------------------------------------------------------
if [ "${SBX_IMAGES-}" != 1 ]; then
	skip "long: set SBX_IMAGES=1" "minimal is built twice, imported and run"
	echo "1..$n"
	exit $((bad != 0))
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/sbx-images-test-XXXXXX")
chmod 0755 "$dir"
./build --check minimal >"$dir/log" 2>&1
ok $? "two builds give the same package set"
sed 's/^/# /' "$dir/log"
build=${SBX_BUILD:-$src/build}
export SBX_ROOT=$dir/root
mkdir "$SBX_ROOT" && chmod 0755 "$SBX_ROOT"
if ! "$build/sbx" help 2>&1 | grep -qw image; then
	ok 1 "this sbx has no command image"
else
	SBX=$build/sbx ./build minimal >"$dir/log" 2>&1
	ok $? "minimal is imported"
	sed 's/^/# /' "$dir/log" | tail -n 5
	SBX_SRC=$src SBX_BUILD=$build python3 - <<'END'
import os, sys
sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp
with mcp.Suite(root=os.environ["SBX_ROOT"]) as s:
    r = s.call("run_container_and_exec", image="minimal", commands=[
        "git --version", "rg --version", "jq --version",
        "printf 'def test_a():\\n    assert 1\\n' >test_a.py",
        "pytest-3 -q", "head -1 /usr/local/share/sbx/packages", "id -un"])
    print("#", str(r)[:1500])
    sys.exit(0 if r["status"] == "ok" and "1 passed" in r["output"] and
             r["image"] == "minimal" else 1)
END
	ok $? "a sandbox of it runs git, rg, jq and pytest"
fi
echo "1..$n"
exit $((bad != 0))
