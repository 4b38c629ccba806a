# Runs in a sandbox, by sh -c: a clone, what is new for one, or the submodules
# of one.  Becomes clone_script.h.
#
#	clone HOST URL DEST BRANCH DEPTH FILTER PR HEAD BASE
#	fetch, the same
#	modules HOST DEST DEPTH [DIR PATH]...
#
# Standard output has pieces only, each with its NUL, in pairs: a name and a
# value.  What git prints goes to standard error.
# shellcheck shell=sh
set -u
exec 3>&1 1>&2
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1
export GIT_ASKPASS=true SSH_ASKPASS=true GIT_PAGER=cat GIT_EDITOR=true
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_EXTERNAL_DIFF
unset GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND
command -v git >/dev/null || exit 127
mode=$1 host=$2
say() { printf '%s\0%s\0' "$1" "$2" >&3; }
g() {
	git --literal-pathspecs -c protocol.allow=never \
		-c protocol.https.allow=always -c credential.helper= \
		-c "url.https://$host/.insteadOf=git@$host:" \
		-c "url.https://$host/.insteadOf=ssh://git@$host/" \
		-c url.https://github.com/.insteadOf=git@github.com: \
		-c url.https://github.com/.insteadOf=ssh://git@github.com/ \
		"$@"
}
at() { git rev-parse -q --verify "$1^{commit}"; }

modules() { # FILE BYTES
	git config -f "$1" -z --get-regexp '^submodule\..*\.(path|url)$' |
		head -c "$2" | xargs -0 -r printf 'module\0%s\0' >&3
}

if [ "$mode" = modules ]; then
	cd -- "$3" || exit 1
	top=$PWD depth=$4
	shift 4
	[ "$depth" != 0 ] || depth=
	err=$(mktemp) || exit 1
	while [ $# -gt 1 ]; do
		at=${1:+$1/}$2
		if g -C "$top/$1" submodule update --init \
			${depth:+--depth "$depth"} -- "$2" 2>"$err"; then
			[ -e "$at/.git" ] || say failed "$at"
		else
			say failed "$at"
		fi
		say said "$(tail -n 3 "$err" | head -c 400)"
		cat "$err"
		[ ! -f "$at/.gitmodules" ] || { say in "$at"; modules "$at/.gitmodules" 8000; }
		shift 2
	done
	rm -f "$err"
	say end ''
	exit 0
fi

clone() {
	mkdir -p -- "$(dirname -- "$dest")" || exit 1
	set -- clone
	[ -z "$branch" ] || set -- "$@" --branch "$branch"
	[ "$depth" = 0 ] || set -- "$@" --depth "$depth"
	[ -z "$filter" ] || set -- "$@" "--filter=$filter"
	[ "$pr" = 0 ] || set -- "$@" --no-checkout
	g "$@" -- "$url" "$dest" || exit 11
	cd -- "$dest" || exit 1
	if [ "$pr" != 0 ]; then
		set -- fetch
		[ "$depth" = 0 ] || set -- "$@" --depth "$depth"
		g "$@" origin "pull/$pr/head" || exit 12
		g checkout -q -B "$head" FETCH_HEAD -- || exit 13
	fi
}

fetch() {
	cd -- "$dest" && git rev-parse -q --git-dir >/dev/null || exit 14
	refs=$(git config --get-all remote.origin.fetch) ||
		refs='+refs/heads/*:refs/remotes/origin/*'
	[ -z "$branch" ] ||
		refs="$refs +refs/heads/$branch:refs/remotes/origin/$branch"
	set -f -- fetch
	[ "$depth" = 0 ] || set -- "$@" --depth "$depth"
	if [ -z "$filter" ]; then
		[ "$(git config remote.origin.promisor)" != true ] ||
			set -- "$@" --refetch --no-filter
	else
		set -- "$@" "--filter=$filter"
	fi
	# words, none of which git's own names of refs can break
	# shellcheck disable=SC2086
	g "$@" -- "$url" $refs || exit 12
	set +f
}

url=$3 dest=$4 branch=$5 depth=$6 filter=$7 pr=$8 head=$9
shift 9
base=$1
if [ "$mode" = fetch ]; then
	fetch
elif [ -L "$dest" ] || { [ -e "$dest" ] && [ ! -d "$dest" ]; } ||
	[ -n "$(ls -A -- "$dest" 2>/dev/null)" ]; then
	exit 10
else
	clone
fi
def=$(git symbolic-ref -q --short refs/remotes/origin/HEAD)
def=${def#origin/}
[ -n "$base" ] || base=$def
if ! at "refs/remotes/origin/$base" >/dev/null; then
	base=$(at HEAD)
fi
if [ "$mode" = fetch ]; then
	base=$(git config sbx.base)
elif [ -n "$base" ]; then
	git config sbx.base "$base"
fi
say branch "$(git symbolic-ref -q --short HEAD)"
say head "$(at HEAD)"
say default "$def"
say base "$base"
say shallow "$(git rev-parse --is-shallow-repository)"
[ "$mode" = fetch ] || find . -name .git -prune -o -type f -size -2 -print0 |
	xargs -0 -r grep -lx -e 'version https://git-lfs.github.com/spec/v1' -- |
	head -n 20 | tr '\n' '\0' | xargs -0 -r printf 'lfs\0%s\0' >&3
[ ! -f .gitmodules ] || modules .gitmodules 60000
say end ''
