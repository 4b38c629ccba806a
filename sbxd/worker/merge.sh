# Runs in a sandbox, by bash -c: a branch of the remote merged into the work
# tree.  Becomes merge_script.h.
#
#	base DIR HOST URL BRANCH
#	complete DIR
#	abort DIR
#
# Standard output has pieces only, each with its NUL, in pairs: a name and a
# value, "end" last.  "no" is why nothing was done, by the table of tool_merge.c.
# What git prints goes to standard error.
# shellcheck shell=bash
set -u
exec 3>&1 1>&2
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1
export GIT_ASKPASS=true SSH_ASKPASS=true GIT_PAGER=cat GIT_EDITOR=true
export GIT_MERGE_AUTOEDIT=no GIT_LITERAL_PATHSPECS=1
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null/none
export GIT_AUTHOR_NAME='sbx merge' GIT_AUTHOR_EMAIL=merge@sbx.invalid
export GIT_COMMITTER_NAME='sbx merge' GIT_COMMITTER_EMAIL=merge@sbx.invalid
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_EXTERNAL_DIFF
unset GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND
command -v git >/dev/null || exit 127
say() { printf '%s\0%s\0' "$1" "$2" >&3; }
end() { say end ''; exit 0; }
no() { say no "$1"; end; }
g() {
	git -c core.hooksPath=/dev/null -c commit.gpgSign=false \
		-c merge.verifySignatures=false -c merge.autoStash=false \
		-c rerere.enabled=false -c submodule.recurse=false \
		-c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
		-c credential.helper= -c fetch.recurseSubmodules=false \
		-c "url.https://$host/.insteadOf=git@$host:" \
		-c "url.https://$host/.insteadOf=ssh://git@$host/" "$@"
}
id() { git rev-parse -q --verify "$1^{commit}"; }
unmerged() { # "MODE ID STAGE\tPATH", each with its NUL
	git ls-files -u -z
}
stages() { unmerged | head -c 1000000 | xargs -0 -r printf 'stage\0%s\0' >&3; }
paths() { unmerged | sed -z 's/^[^\t]*\t//' | sort -zu; }

mode=$1 host=${3:-github.com} url=${4-} base=${5-}
cd -- "$2" && top=$(git rev-parse --show-toplevel) && cd -- "$top" || exit 3
gitdir=$(git rev-parse --git-dir) || exit 3
head=$(id HEAD) || no no_commit
say before "$head"

under_way() {
	for f in CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
		[ ! -e "$gitdir/$f" ] || no other_in_progress
	done
}

# --- base -----------------------------------------------------------------------

fetch() { g fetch -q --no-tags --no-write-fetch-head "$@"; }

# A history that was cut short is deepened where it ends, until both sides meet.
meet() {
	local n
	for n in 100 1000 10000; do
		[ -z "$(git merge-base HEAD "$tip")" ] || return 0
		[ -s "$gitdir/shallow" ] || no unrelated
		# words: ids, by which not every host lets itself be asked
		# shellcheck disable=SC2046
		fetch --deepen=$n -- "$url" "refs/heads/$base" \
			$(head -n 50 "$gitdir/shallow") ||
			fetch --deepen=$n -- "$url" "refs/heads/$base" || no fetch
	done
	[ -n "$(git merge-base HEAD "$tip")" ] || no shallow
}

base() {
	under_way
	[ ! -e "$gitdir/MERGE_HEAD" ] || { stages; no merge_in_progress; }
	[ -n "$base" ] || base=$(git config sbx.base)
	! [[ $base =~ ^[0-9a-f]{40,64}$ ]] || base=
	[ -n "$base" ] || base=$(git symbolic-ref -q --short \
		refs/remotes/origin/HEAD) || no no_base
	base=${base#origin/}
	say branch "$base"
	[ -n "$url" ] || url=$(git config remote.origin.url) || no no_remote
	git update-index -q --refresh
	git diff-index --name-only -z HEAD -- >"$list" || exit 1
	if [ -s "$list" ]; then
		head -z -n 100 "$list" | xargs -0 printf 'dirty\0%s\0' >&3
		no dirty
	fi
	fetch -- "$url" "+refs/heads/$base:refs/remotes/origin/$base" || no fetch
	tip=$(id "refs/remotes/origin/$base") || no fetch
	say tip "$tip"
	git merge-base --is-ancestor "$tip" HEAD && {
		git update-ref "refs/sbx/merged/$base" "$tip"
		say outcome up_to_date
		end
	}
	meet
	g merge -q --ff --no-edit --no-verify --no-stat --no-squash --commit \
		--no-log -m "Merge branch '$base'" -- "$tip"
	r=$?
	[ -e "$gitdir/MERGE_HEAD" ] || [ $r = 0 ] || no merge_failed
	git update-ref "refs/sbx/merged/$base" "$tip"
	if [ $r != 0 ]; then
		say outcome conflicts
		stages
		end
	fi
	after=$(id HEAD)
	say head "$after"
	say changed "$(git diff --no-ext-diff --no-renames --name-only -z "$head" \
		"$after" | tr -cd '\0' | wc -c)"
	[ "$after" = "$tip" ] && say outcome fast_forward || say outcome merged
}

# --- complete ---------------------------------------------------------------------

# Is what stands there what git left there, and no decision of anybody?  In a
# text that both sides changed it left marks; anything else it left as one side
# has it.
undecided() { # PATH
	local modes ids now
	modes=$(git ls-files -u -- "$1" | cut -c1-6 | sort -u)
	ids=$(git ls-files -u -- "$1" | awk '$3 > 1 { print $2 }')
	if [ -L "$1" ]; then
		now=$(readlink -n -- "$1" | git hash-object --stdin)
	elif [ -f "$1" ]; then
		now=$(git hash-object -- "$1")
	else	# removed, which is one; but of a submodule there is no file
		[[ $modes == *160000* ]]
		return
	fi
	[[ " ${ids//$'\n'/ } " == *" $now "* ]] || return 1
	[ "$(wc -w <<<"$ids")" = 2 ] || return 0
	[[ $modes != *120000* ]] || return 0
	[[ $(git check-attr merge -- "$1") != *": merge: unset" ]] || return 0
	# words: ids
	# shellcheck disable=SC2086
	[[ $(git diff --no-ext-diff --numstat $ids) == -* ]]
}

marks() { # PATH
	[ -f "$1" ] && [ ! -L "$1" ] || return 1
	grep -naE '^(<{7}|>{7})( |$)' -- "$1" | cut -d: -f1 | head -n 20 |
		grep . >"$list"
}

finish() {
	under_way
	[ -e "$gitdir/MERGE_HEAD" ] || no no_merge
	say parent2 "$(head -n 1 "$gitdir/MERGE_HEAD")"
	local f left=0 n=0
	{ paths; git ls-files --resolve-undo -z | sed -z 's/^[^\t]*\t//'; } |
		sort -zu >"$all"
	while IFS= read -rd '' f; do
		if marks "$f"; then
			say marks "$(tr '\n' , <"$list") $f"
			left=1
		fi
	done <"$all"
	paths >"$all"
	while IFS= read -rd '' f; do
		if undecided "$f"; then
			say undecided "$f"
			left=1
		fi
		n=$((n + 1))
	done <"$all"
	[ $left = 0 ] || no unresolved
	git update-index --add --remove -z --stdin <"$all" || no stage
	[ -z "$(git ls-files -u)" ] || no stage
	g commit -q --no-verify --no-edit --cleanup=strip || no commit
	say resolved $n
	say head "$(id HEAD)"
	say outcome completed
}

# --- abort -------------------------------------------------------------------------

# What was resolved so far is kept as a commit of its own, beside the branch.
keep() {
	local index tree r
	index=$(cd -- "$gitdir" && pwd)/sbx-index
	cp -- "$gitdir/index" "$index" || return 1
	export GIT_INDEX_FILE=$index
	g add -A && tree=$(git write-tree) &&
		kept=$(git commit-tree -p HEAD -p MERGE_HEAD \
			-m 'What a merge had come to when it was given up' \
			"$tree") && git update-ref refs/sbx/aborted "$kept"
	r=$?
	unset GIT_INDEX_FILE
	rm -f -- "$index"
	return $r
}

give_up() {
	[ -e "$gitdir/MERGE_HEAD" ] || { under_way; no no_merge; }
	keep || no keep
	say kept "$kept"
	g merge --abort || no abort
	say head "$(id HEAD)"
	say outcome aborted
}

list=$(mktemp) && all=$(mktemp) || exit 1
trap 'rm -f -- "$list" "$all"' EXIT
case $mode in
base) base ;;
complete) finish ;;
abort) give_up ;;
esac
end
