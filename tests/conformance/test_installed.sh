#!/usr/bin/env bash
# What `make install` installs serves nothing of the fixture: neither its
# programs nor one of its names is there.
set -u
work=$(mktemp -d /tmp/sbx-installed-XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 fail=0
result() { # STATUS TEXT
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else
		echo "not ok $n - $2"; fail=1; fi
}

make -s -C "$SBX_BUILD" install DESTDIR="$work" >"$work/log" 2>&1
result $? "everything is installed below a directory"
mapfile -t programs < <(find "$work" -type f -perm -u+x)
[ ${#programs[@]} -ge 10 ]
result $? "${#programs[@]} programs"

# the names, from where they are served
mapfile -t names < <(sed -n 's/^\t{ "\([a-z0-9_]*\)",.*/\1/p' \
	"$SBX_SRC/tests/conformance/rows.c")
names+=(test://)
[ ${#names[@]} -ge 12 ] &&
	printf '%s\n' "${names[@]}" >"$work/names" &&
	grep -qaFf "$work/names" "$SBX_BUILD/tests/conformance/sbxd-front" &&
	grep -qaFf "$work/names" "$SBX_BUILD/tests/conformance/sbxd-worker"
result $? "${#names[@]} names, which the fixture's programs do have"
found=$(grep -laFf "$work/names" "${programs[@]}")
[ -z "$found" ]
result $? "no installed program has one ${found//$work/}"
echo "1..$n"
exit $fail
