# Runs in a sandbox, by sh -c: a clone, or the submodules of one.  Becomes
# clone_script.h.
#
#	clone HOST URL DEST BRANCH DEPTH FILTER PR HEAD BASE
#	modules HOST DEST DEPTH PATH...
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

if [ "$mode" = modules ]; then
	cd -- "$3" || exit 1
	depth=$4
	shift 4
	err=$(mktemp) || exit 1
	for p; do
		set -- submodule update --init
		[ "$depth" = 0 ] || set -- "$@" --depth "$depth"
		if g "$@" -- "$p" 2>"$err"; then
			[ ! -e "$p/.gitmodules" ] || say nested "$p"
			[ -e "$p/.git" ] || say failed "$p"
		else
			say failed "$p"
		fi
		say said "$(tail -n 3 "$err" | head -c 400)"
		cat "$err"
	done
	rm -f "$err"
	say end ''
	exit 0
fi

url=$3 dest=$4 branch=$5 depth=$6 filter=$7 pr=$8 head=$9
shift 9
base=$1
if [ -L "$dest" ] || { [ -e "$dest" ] && [ ! -d "$dest" ]; } ||
	[ -n "$(ls -A -- "$dest" 2>/dev/null)" ]; then
	exit 10
fi
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
def=$(git symbolic-ref -q --short refs/remotes/origin/HEAD)
def=${def#origin/}
[ -n "$base" ] || base=$def
if ! at "refs/remotes/origin/$base" >/dev/null; then
	base=$(at HEAD)
fi
[ -z "$base" ] || git config sbx.base "$base"
say branch "$(git symbolic-ref -q --short HEAD)"
say head "$(at HEAD)"
say default "$def"
say base "$base"
say shallow "$(git rev-parse --is-shallow-repository)"
find . -name .git -prune -o -type f -size -2 -print0 |
	xargs -0 -r grep -lx -e 'version https://git-lfs.github.com/spec/v1' -- |
	head -n 20 | tr '\n' '\0' | xargs -0 -r printf 'lfs\0%s\0' >&3
[ ! -f .gitmodules ] || git config -f .gitmodules -z --get-regexp \
	'^submodule\..*\.(path|url)$' | head -c 60000 |
	xargs -0 -r printf 'module\0%s\0' >&3
say end ''
