#!/bin/bash
# sbxd -n, -T and the command line: pairs config/NAME.in, config/NAME.ok, the
# dump that reads back to itself, the order of the sources, unknown options.
cd "$SBX_SRC/tests/regress" || exit 2
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
sbxd=$SBX_BUILD/sbxd
export SBX_ROOT=$tmp
unset "${!SBX_EXEC@}" SBX_TRANSPORT SBX_PROFILE SBX_PORT
n=0
ok() {	# status text
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

for in in config/*.in; do
	name=${in%.in}
	"$sbxd" -n -f "$in" >"$tmp/out" 2>&1
	code=$?
	want=1
	grep -q '^configuration OK$' "$name.ok" && want=0
	cmp -s "$tmp/out" "$name.ok" && [ $code -eq $want ]
	ok $? "$in: exit $want and its sentence" || cat "$tmp/out"
done

"$sbxd" -T -f config/good.in >"$tmp/one" && "$sbxd" -T -f "$tmp/one" >"$tmp/two"
ok $? "-T"
cmp -s "$tmp/one" "$tmp/two"
ok $? "the dump reads back to itself"
grep -q '^copy_root "/srv/a b"$' "$tmp/one"
ok $? "a value with a blank is quoted"

mkdir -p "$tmp/etc"
echo "port 1" >"$tmp/etc/sbx.conf"
[ "$("$sbxd" -T | grep '^port')" = "port 1" ]
ok $? "etc/sbx.conf is read"
[ "$(SBX_PORT=2 "$sbxd" -T | grep '^port')" = "port 2" ]
ok $? "a variable beats the file"
[ "$(SBX_PORT=2 "$sbxd" -T --port 3 | grep '^port')" = "port 3" ]
ok $? "the command line beats the variable"
SBX_PORT=x "$sbxd" -n >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "SBX_PORT: 'port' must be" "$tmp/out"
ok $? "a bad variable is named"
"$sbxd" --prot 3 >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q -- "--prot" "$tmp/out" && grep -q '^usage:' "$tmp/out"
ok $? "an unknown option: exit 1, its name, usage"
"$sbxd" -n operand >"$tmp/out" 2>&1
[ $? -eq 1 ]
ok $? "an operand: exit 1"
"$sbxd" --profile nosuch -n >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "of all implement review issue$" "$tmp/out"
ok $? "an unknown profile: exit 1, with the valid ones"
"$sbxd" --help >"$tmp/out" && grep -q '^usage: sbxd' "$tmp/out" &&
    grep -q -e '--host address' "$tmp/out"
ok $? "--help: exit 0, usage"
SBX_HTTP_AUTH=none "$sbxd" -n --transport http --host 0.0.0.0 >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "set http_auth token, or host 127.0.0.1" "$tmp/out"
ok $? "no tokens and no loopback: exit 1, with what to set"
SBX_HTTP_AUTH=none "$sbxd" -n --transport http >"$tmp/out"
ok $? "no tokens on loopback"
for c in mcp token exec journal; do
	"$SBX_BUILD/sbx" $c --help >"$tmp/out" && grep -q "^usage: sbx $c " "$tmp/out"
	ok $? "sbx $c --help: exit 0, usage"
done
"$sbxd" -n -f "$tmp/absent" >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q absent "$tmp/out"
ok $? "a file that is named must exist"
"$sbxd" -n -f "$tmp" >"$tmp/out" 2>&1
[ $? -eq 1 ]
ok $? "a directory is not a configuration"
printf '[[rules]]\nid = "x"\nregex = "("\n' >"$tmp/rules"
SBX_SECRET_RULES="$tmp/rules" "$sbxd" -n >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "secret_rules: $tmp/rules: .*x" "$tmp/out"
ok $? "secret_rules: what the judge does not understand, with its words"
SBX_SECRET_RULES="$SBX_SRC/sbxd/judge/rules.toml" "$sbxd" -n >"$tmp/out"
ok $? "secret_rules: those that are built in, as a file"
"$sbxd" -V | grep -q '^sbxd [0-9]'
ok $? "-V"
SBX_ALLOW_HOST=a.example,b.example SBX_ALLOW_ANY_HOST=no \
    SBX_RESOLVE="a.example:443 127.0.0.1:1" "$sbxd" -T >"$tmp/one"
[ "$(grep -c '^allow_host [ab].example$' "$tmp/one")" -eq 2 ] &&
    grep -q '^resolve "a.example:443 127.0.0.1:1"$' "$tmp/one"
ok $? "lists from variables"
echo "allow_host c.example" >"$tmp/etc/sbx.conf"
echo "allow_host .d.example:8443 # and all below" >>"$tmp/etc/sbx.conf"
[ "$("$sbxd" -T | grep -c '^allow_host')" -eq 2 ] &&
    [ "$(SBX_ALLOW_HOST=a.example "$sbxd" -T | grep '^allow_host')" = \
    "allow_host a.example" ]
ok $? "a list may stand many times, and a variable takes its place"
SBX_CPUS=x "$sbxd" -n -f config/together.in >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "together.in:2: run_cap" "$tmp/out"
ok $? "settings that do not go together: the line"
echo "cpus 2" >"$tmp/etc/sbx.conf"
SBX_CPUS=x "$sbxd" -n >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "^sbxd: cpus must be" "$tmp/out"
ok $? "a bad variable is not blamed on a line of the file"
echo "github_token_file $tmp/none" >"$tmp/etc/sbx.conf"
"$sbxd" -n >"$tmp/out" 2>&1
[ $? -eq 1 ] && grep -q "sbx.conf:1: github_token_file" "$tmp/out"
ok $? "a file that is missing: the line that names it"
rm "$tmp/etc/sbx.conf"
man=$SBX_SRC/sbxd/monitor/sbx.conf.5
export SBX_ALLOW_HOST=a SBX_INTERCEPT_HOST=b SBX_GRANT_HOST=c
export SBX_RESOLVE="a:1 127.0.0.1:2" SBX_ALLOWED_REPOS=a/b SBX_ALLOW_READ=c/d
export SBX_GITHUB_APP="1 2 /key.pem" SBX_GITHUB_TOKEN_FILE=/token
[ "$("$sbxd" -T | cut -d' ' -f1)" = \
    "$(sed -n 's/^\.It Ic \([a-z_]*\) .*/\1/p' "$man")" ]
ok $? "sbx.conf(5) has the keywords of the dump, in its order"
# the one whose name others chose
[ "$("$sbxd" -T | cut -d' ' -f1 | tr a-z A-Z |
    sed 's/^/SBX_/; s/ALLOWED_REPO$/&S/')" = \
    "$(sed -n 's/^\.Pq Ev //p' "$man")" ]
ok $? "and their variables"
[ ! -e "$tmp/state" ] && [ ! -e "$tmp/run" ]
ok $? "none of this left anything behind"
mkdir -p "$tmp/other/etc"
SBX_ROOT=$tmp/other SBX_UPSTREAM_CA=/etc timeout 20 "$sbxd" </dev/null \
    >"$tmp/out" 2>&1
[ $? -eq 2 ] && grep -q 'upstream_ca: /etc: Is a directory' "$tmp/out"
ok $? "authorities that are a directory are refused at the start"
echo "1..$n"
