#include "common/base/publish.h"

#include <string.h>

/*
 * Git's own configuration is what stands here and nothing else: none of the
 * system's or of a user's, no hooks, no other protocol, no helper.  What is pushed
 * is compressed once, and quickly: it has a part of a processor for that.  no: the
 * line of a refusal, with the end of what stands in the file err.
 */
#define HEAD "set -u -o pipefail; umask 022; cd /workspace || exit 1\n" \
	"export LC_ALL=C GIT_DIR=/workspace/repo GIT_CONFIG_NOSYSTEM=1 " \
	"GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 " \
	"GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= " \
	"GIT_LITERAL_PATHSPECS=1 GIT_OPTIONAL_LOCKS=0\n" \
	"n=0; set_config() { export \"GIT_CONFIG_KEY_$n=$1\" " \
	"\"GIT_CONFIG_VALUE_$n=$2\"; n=$((n + 1)); }\n" \
	"set_config core.hooksPath /dev/null\n" \
	"set_config core.protectHFS true\n" \
	"set_config core.protectNTFS true\n" \
	"set_config core.attributesFile /dev/null\n" \
	"set_config core.fsmonitor false\n" \
	"set_config core.logAllRefUpdates false\n" \
	"set_config credential.helper ''\n" \
	"set_config core.looseCompression 0\n" \
	"set_config pack.compression 1\n" \
	"set_config fetch.fsckObjects true\n" \
	"set_config fetch.recurseSubmodules false\n" \
	"set_config gc.auto 0\n" \
	"set_config maintenance.auto false\n" \
	"set_config http.followRedirects false\n" \
	"set_config protocol.allow never\n" \
	"set_config protocol.https.allow always\n" \
	"set_config push.recurseSubmodules no\n" \
	"export GIT_CONFIG_COUNT=$n\n" \
	"no() { printf 'no %s ' \"$1\"; tail -c 400 err | tr -c ' -~' ' ' | " \
	"tail -c 240; echo; exit 0; }\n" \
	": >err\n"

/*
 * Where an object is not there it is said to be missing, and not fetched for
 * itself: whoever promised it is forgotten.  Blobs are fetched in one go.  How
 * large one is that is asked for by its id cannot be known before; so where the
 * directories of the declared files are small, these are asked for, with a limit
 * (for each depth by itself: a directory that is in another is not looked into
 * by tree:1), and else, or where that is not understood, what comes is cut off when it is
 * more than could be used: then it goes on with the attributes alone.
 * Of history only commits are fetched, of both sides of a merge.
 */
#define REACHES \
	"lost() { grep -q -e 'not our ref' -e 'unadvertised' err || no fetch\n" \
	"  grep -q '^[0-9a-f]' refs || echo 'the repository is empty' >err; " \
	"no no_such_base; }\n" \
	"reaches() { local GIT_DIR=/workspace/line n found=1\n" \
	"  git init -q --bare --template= --object-format=$format $GIT_DIR " \
	"2>err || no fetch\n" \
	"  for n in 100 1000 10000 100000; do\n" \
	"    git fetch -q --depth=$n --filter=tree:0 --no-tags " \
	"--no-write-fetch-head -- \"$url\" \"$1\" $base 2>err || lost; forget\n" \
	"    git rev-list \"$1\" 2>err | grep -x $second >/dev/null && " \
	"found=0 && fork=$(git merge-base $base $second 2>err) && return 0\n" \
	"    fork=; [ -s $GIT_DIR/shallow ] || return $found\n" \
	"  done; return $found; }\n"

/* A commit can be fetched by its id that is only of a fork, and has what nobody
 * here let in. */
#define BASED \
	"history() { local n=$1; shift; git fetch -q --depth=$n --filter=tree:0 " \
	"--no-tags --no-write-fetch-head -- \"$url\" \"$@\" 2>err || no fetch\n" \
	"  forget; }\n" \
	"based() { local GIT_DIR=/workspace/line n v\n" \
	"  [ $base = \"$tip\" ] && return 0\n" \
	"  awk -F'\t' -v b=$base '$1 == b && $2 ~ /^refs.heads./ { f = 1 } " \
	"END { exit !f }' refs && return 0\n" \
	"  git init -q --bare --template= --object-format=$format $GIT_DIR " \
	"2>err || no fetch\n" \
	"  v=($tip $(ref \"$default\")); [ ${#v[@]} -gt 0 ] && " \
	"for n in 100 1000 10000 100000; do history $n \"${v[@]}\"\n" \
	"    git rev-list \"${v[@]}\" 2>err | grep -x $base >/dev/null && " \
	"return 0; [ -s $GIT_DIR/shallow ] || break; done\n" \
	"  grep -q '^[0-9a-f]' refs && for n in 100 1000; do " \
	"history $n '+refs/heads/*:refs/heads/*'\n" \
	"    git rev-list --branches 2>err | grep -x $base >/dev/null && " \
	"return 0; done; return 1; }\n"

#define FETCH "url=$1 base=$2 branch=$3 second=$4 merged=$5 count=$6\n" \
	"cat >names || exit 1\n" \
	"format=sha1; [ ${#base} -eq 64 ] && format=sha256\n" \
	"git init -q --bare --template= --object-format=$format repo 2>err || " \
	"no fetch\n" \
	"git ls-remote --symref -- \"$url\" HEAD 'refs/heads/*' >refs 2>err || " \
	"no fetch\n" \
	"ref() { R=refs/heads/$1 awk -F'\\t' '$2 == ENVIRON[\"R\"] && " \
	"$1 !~ /:/ { print $1; exit }' refs; }\n" \
	"tip=$(ref \"$branch\")\n" \
	"default=$(awk -F'\\t' '$2 == \"HEAD\" && /^ref: refs.heads./ " \
	"{ print substr($1, 17); exit }' refs)\n" \
	"get() { git fetch -q --depth=1 --no-tags --no-write-fetch-head " \
	"\"$@\" 2>err; }\n" \
	"forget() { git config --remove-section \"remote.$url\"; " \
	"git config --unset extensions.partialClone; } 2>/dev/null\n" \
	REACHES BASED \
	"based || { echo 'it is not on a branch of the repository' >err; " \
	"grep -q '^[0-9a-f]' refs || echo 'the repository is empty' >err; " \
	"no no_such_base; }\n" \
	"wanted=$base fork=; if [ \"$second\" != - ]; then\n" \
	"  wanted=\"$base $second\" theirs=$(ref \"$merged\")\n" \
	"  [ -n \"$theirs\" ] && reaches $theirs || { " \
	"echo \"it is not on the branch $merged\" >err; no merge; }\n" \
	"fi\n" \
	"get --filter=blob:none -- \"$url\" $wanted $fork || lost\n" \
	"forget\n" \
	"type=$(git cat-file -t $base 2>err) && [ \"$type\" = commit ] || " \
	"no no_such_base\n" \
	"like=\n" \
	"if [ -n \"$tip\" ] && [ \"$tip\" != $base ]; then\n" \
	"  get --filter=tree:0 -- \"$url\" $tip || no fetch; forget\n" \
	"  [ \"$(git cat-file commit $tip | sed -n " \
	"'/^$/q; s/^parent //p' | tr '\\n' ' ')\" = \"$wanted \" ] && " \
	"like=$(git cat-file commit $tip | sed -n '1s/^tree //p')\n" \
	"fi\n" \
	"declare -A seen; printf '.gitattributes\\0.secrets.baseline\\0' >" \
	"attributes\n" \
	"while IFS= read -r -d '' p; do while [ \"${p%/*}\" != \"$p\" ]; do " \
	"p=${p%/*}; [ -n \"${seen[$p/]-}\" ] && break; seen[$p/]=1; " \
	"printf '%s/.gitattributes\\0' \"$p\" >>attributes; done; done <names\n" \
	"list() { xargs -0r git ls-tree -t --full-tree " \
	"--format='%(objecttype) %(objectname)' -- $1; }\n" \
	"head -z -n $count names >mine\n" \
	": >entries; for c in $wanted $fork; do { list $c <attributes && " \
	"list $c <names; } 2>err >>entries || no fetch; done\n" \
	"awk '$1 == \"tree\" && !s[$2]++ { print $2 }' entries >trees\n" \
	"if [ \"$second\" != - ]; then for c in $base $fork; do git diff-tree " \
	"-r -t --raw --no-renames --no-abbrev $c $second; done 2>err | " \
	"awk '$1 == \":040000\" && !s[$3]++ { print $3 } " \
	"$2 == \"040000\" && !s[$4]++ { print $4 }' " \
	">>trees || no fetch; fi\n" \
	"blobs() { awk '$1 == \"blob\" && !s[$2]++ { print $2 }'; }\n" \
	"for c in $wanted; do list $c <attributes || exit; done 2>err | " \
	"blobs >attrs || no fetch\n" \
	"list $base <mine 2>err | blobs >old || no fetch\n" \
	"cat attrs old >blobs\n" \
	"while IFS= read -r -d '' p; do d=${p%/*}; n=${p//[!\\/]/}; " \
	"[ \"$d\" = \"$p\" ] && d=; printf '%s\\0' \"$d\" >>level.${#n}; " \
	"done <mine\n" \
	"for f in level.*; do if [ $f = level.0 ]; then " \
	"git rev-parse $base^{tree}; else sort -zu $f | xargs -0r git ls-tree " \
	"-d --full-tree --format='%(objectname)' -- $base; fi 2>err | " \
	"sort -u >parents.${f#*.}; done\n" \
	"entries=$(git cat-file --batch-check='%(objectsize)' < <(cat " \
	"parents.*) | awk '{ t += $1 } END { print int(t / 40) }')\n" \
	"few() { (ulimit -c 0; ulimit -f 36864; git -c " \
	"fetch.negotiationAlgorithm=noop -c fetch.unpackLimit=1 fetch -q " \
	"--depth=1 --no-tags --no-write-fetch-head \"$@\" --stdin -- \"$url\") " \
	"2>err; }\n" \
	"limited() { set -- parents.*; [ $# -le 3 ] || return 1; r=0\n" \
	"cp attrs also; for f; do cat also $f >wanted; : >also; " \
	"[ ! -s wanted ] || few --filter=combine:blob:limit=16777217+tree:1 " \
	"<wanted || { r=1; break; }; done; forget; return $r; }\n" \
	"if [ -s old ] && [ $entries -le $(($(wc -l <old) * 16 + 64)) ] && " \
	"limited; then :; elif [ -s blobs ]; then few <blobs || { " \
	"grep -q -e 'signal 25' -e 'index-pack' err || no fetch; " \
	"rm -f repo/objects/pack/tmp_*; " \
	"if [ -s attrs ]; then few <attrs || no fetch; fi; }; fi\n" \
	"git cat-file --batch-check='%(objectname) %(objectsize)' <blobs | " \
	"awk '$2 <= 16777216 && t + $2 <= 33554432 { t += $2; print $1 }' " \
	">small\n" \
	"{ for c in $wanted $fork; do echo $c; git rev-parse $c^{tree}; done; " \
	"cat trees small; } | " \
	"awk '!s[$0]++' | git cat-file --batch >base 2>err || no fetch\n" \
	"[ $(stat -c %s base) -le 67108864 ] || { echo 'the trees of the base " \
	"have more than 64 MiB' >err; no too_large; }\n" \
	"echo \"tip ${tip:--} default ${default:--} format $format like " \
	"${like:--} fork ${fork:--}\"\n"

/*
 * What index-info makes of a path that it does not like is looked at after it:
 * it ignores such paths, and lets a file take the place of a directory.  Of what
 * is merged no file is here, nor needed: it is where the second parent is.
 */
#define BUILD "base=$1 second=$2 count=$3; cat >names || exit 1\n" \
	"export GIT_INDEX_FILE=/workspace/index; zero=${base//?/0}\n" \
	"git read-tree $base 2>err || no base\n" \
	": >info; : >have; : >modes\n" \
	"head -z -n $count names >mine; tail -z -n +$((count + 1)) names " \
	">theirs\n" \
	"if [ -s theirs ]; then xargs -0 printf \"0 $zero\\t%s\\0\" <theirs " \
	">info && xargs -0 git ls-tree -z --full-tree $second -- <theirs " \
	">>info 2>err && git update-index -z --index-info <info 2>err || " \
	"no base; : >info; fi\n" \
	"from=$(git write-tree --missing-ok 2>err) || no base\n" \
	"while IFS= read -r -d '' p; do f=in/files/$p\n" \
	"  if [ -L \"$f\" ]; then id=$(readlink -n -- \"$f\" | git hash-object " \
	"-w --no-filters --stdin 2>err) || no base; " \
	"printf '120000 %s\\t%s\\0' $id \"$p\" >>info\n" \
	"  elif [ -f \"$f\" ]; then m=100644; [ -x \"$f\" ] && m=100755; " \
	"printf '%s\\0' \"$f\" >>have; printf '%s %s\\0' $m \"$p\" >>modes\n" \
	"  else printf '0 %s\\t%s\\0' $zero \"$p\" >>info; fi\n" \
	"done <mine\n" \
	"xargs -0r git hash-object -w --no-filters -- <have >ids 2>err || " \
	"no base\n" \
	"while IFS= read -r -d '' p && read -r id <&3; do " \
	"printf '%s %s\\t%s\\0' ${p%% *} $id \"${p#* }\"; " \
	"done <modes 3<ids >>info\n" \
	"git update-index -z --index-info <info 2>err || no base\n" \
	"tree=$(git write-tree --missing-ok 2>err) && " \
	"commit=$(git hash-object -t commit -w --no-filters -- in/commit " \
	"2>err) || no base\n" \
	"git diff-tree -r -z --no-renames --name-only $base $tree 2>err | " \
	"sort -zu >changed || no base\n" \
	"sort -zu names >declared\n" \
	"[ $(comm -z -23 changed declared | wc -c) -eq 0 ] || " \
	"{ echo 'more changed than was declared' >err; no disagree; }\n" \
	"[ \"$(git rev-parse $commit^{tree} 2>err)\" = $tree ] || " \
	"{ echo 'the commit is of another tree' >err; no disagree; }\n" \
	"echo $from >from\n" \
	"echo \"tree $tree commit $commit\"\n"

/*
 * The remote is asked what it has of the commit (push.negotiate): where the
 * base is the tip of no branch any more, it cannot be known from its refs, and
 * all of its files would have to be sent, which are not here.
 */
#define PUSH "url=$1 commit=$2 ref=refs/heads/$3 tip=$4; how=--no-thin\n" \
	"[ \"$tip\" = - ] && tip=\n" \
	"[ \"$5\" = 1 ] && how=\"--no-thin --force-with-lease=$ref:$tip\"\n" \
	"git -c push.negotiate=true push $how --porcelain --no-verify " \
	"--no-signed -- \"$url\" $commit:$ref >out 2>err; said=none\n" \
	"line=$(R=:$ref awk -F'\\t' 'NF >= 3 && substr($2, length($2) - " \
	"length(ENVIRON[\"R\"]) + 1) == ENVIRON[\"R\"] { print; exit }' out)\n" \
	"case $line in '!'*) said=no; printf '%s' \"${line##*\t}\" >>err;; " \
	"?*) said=ok;; esac\n" \
	"at=?; if git ls-remote -- \"$url\" $ref >refs 2>/dev/null; then " \
	"at=$(R=$ref awk -F'\\t' '$2 == ENVIRON[\"R\"] { print $1; exit }' " \
	"refs); at=${at:--}; fi\n" \
	"printf 'at %s said %s ' $at $said; tail -c 400 err | tr -c ' -~' ' ' " \
	"| tail -c 240; echo\n"

/* What nobody's attributes, drivers or configuration have a part in.  In the place
 * of old files that were too large to be fetched, a line that says so; and where it
 * takes long to find what large files have in common, these are as binary ones. */
#define SHOW "base=$1 commit=$2; [ ! -s from ] || read -r base <from\n" \
	"big=; look() { timeout 90 git $big diff-tree -r --no-renames --no-ext-diff " \
	"--no-textconv --no-color --full-index --no-abbrev \"$@\" $base $commit " \
	"2>err; }\n" \
	"look --raw >list && look --raw -z >raw || no suite\n" \
	"declare -A gone; while read -r id _; do gone[$id]=1; done < <(awk " \
	"'$5 != \"A\" && $1 != \":160000\" { print $3 }' list | git cat-file " \
	"--batch-check | grep ' missing$')\n" \
	"if [ ${#gone[@]} -gt 0 ]; then export GIT_INDEX_FILE=/workspace/shown\n" \
	"id=$(echo '(not here for the size of what is changed)' | " \
	"git hash-object -w --stdin) && git read-tree $base 2>err && " \
	"while IFS= read -r -d '' h && IFS= read -r -d '' p; do h=(${h#:}); " \
	"[ -n \"${gone[${h[2]}]-}\" ] && " \
	"printf '%s %s\\t%s\\0' ${h[0]} $id \"$p\"; done <raw | " \
	"git update-index -z --index-info 2>err; base=$(git write-tree " \
	"--missing-ok 2>err) || no suite; fi\n" \
	"look --numstat >nums; r=$?; [ $r -ne 124 ] || { " \
	"big='-c core.bigFileThreshold=1m'; look --numstat >nums; r=$?; }\n" \
	"[ $r -eq 0 ] && cat nums >>list || no suite\n" \
	"look -p | head -c 4194305 >patch; r=${PIPESTATUS[0]}\n" \
	"cut=0; [ $(stat -c %s patch) -le 4194304 ] || cut=1 r=0\n" \
	"[ $r -eq 0 ] || no suite\n" \
	"awk -v cut=$cut '/^:/ { f++ } /^[0-9]/ { a += $1; d += $2 } END { " \
	"printf \"files %d added %d deleted %d cut %d\\n\", f, a, d, cut }' " \
	"list; cat list; echo; head -c 4194304 patch\n"

/* As FETCH; of history only commits are fetched. */
#define LOOK "url=$1 branch=$2 commit=$3 in=no\n" \
	"format=sha1; [ ${#commit} -eq 64 ] && format=sha256\n" \
	"git init -q --bare --template= --object-format=$format repo 2>err || " \
	"no fetch\n" \
	"git ls-remote -- \"$url\" \"refs/heads/$branch\" >refs 2>err || " \
	"no fetch\n" \
	"at=$(R=refs/heads/$branch awk -F'\\t' '$2 == ENVIRON[\"R\"] && " \
	"$1 !~ /:/ { print $1; exit }' refs)\n" \
	"if [ \"$at\" = $commit ]; then in=yes\n" \
	"elif [ -n \"$at\" ] && git fetch -q --depth=500 --filter=tree:0 " \
	"--no-tags --no-write-fetch-head -- \"$url\" $at 2>err; then\n" \
	"  { git config --remove-section \"remote.$url\"; " \
	"git config --unset extensions.partialClone; } 2>/dev/null\n" \
	"  git merge-base --is-ancestor $commit $at 2>/dev/null && in=yes\n" \
	"fi\n" \
	"echo \"at ${at:--} in $in\"\n"

const struct sbx_publish_row sbx_publish_scripts[SBX_PUBLISH_SCRIPT_MAX] = {
	[SBX_PUBLISH_FETCH] = { "fetch", 300, HEAD FETCH },
	[SBX_PUBLISH_BUILD] = { "build", 300, HEAD BUILD },
	[SBX_PUBLISH_PUSH] = { "push", 1800, HEAD PUSH },
	[SBX_PUBLISH_SHOW] = { "show", 300, HEAD SHOW },
	[SBX_PUBLISH_LOOK] = { "look", 120, HEAD LOOK },
};

const struct sbx_publish_step sbx_publish_steps[] = {
	{ "fetch", "the base could not be read from the repository",
	    "Retry; a private repository has to be in allowed_repo." },
	{ "upstream_moved", "the branch has moved on since the base",
	    "Fetch it, merge or rebase, verify, publish again." },
	{ "no_such_base", "the repository does not have the base",
	    "Start from a commit that it has; its first one is the "
	    "operator's to push." },
	{ "path", "a declared path cannot be in a repository",
	    "Declare files by their path below the top of the tree." },
	{ "mode", "a declared file is none that git keeps",
	    "Declare regular files and links only." },
	{ "sensitive", "a declared path is one that only the operator permits",
	    "Leave it out, or have the operator set "
	    "allow_sensitive_paths." },
	{ "merge", "what was merged is not what the repository has on that "
	    "branch", "Merge the branch again with merge_base, verify, "
	    "publish that." },
	{ "attribute", "an attribute of a declared path is not understood",
	    "Leave the path out." },
	{ "secret", "what is added looks like a secret",
	    "Take it out of the files. What is no secret can be let out by "
	    "secret_scan_override." },
	{ "unchanged", "nothing of what was declared differs from the base",
	    "Declare what was changed." },
	{ "missing", "a declared path is neither in the sandbox nor in the "
	    "base", "Leave it out." },
	{ "too_large", "it is larger than may be published",
	    "Publish less at once." },
	{ "malformed", "the arguments cannot be meant so",
	    "Correct them." },
	{ "base", "the base does not have the form that git gives it",
	    "Start from another commit." },
	{ "disagree", "the judge and the publisher have come to different "
	    "commits", "Nothing can be done from here: tell the operator." },
	{ "verify_gate", "no fresh verification of exactly this tree has "
	    "passed", "Mend what failed, and publish again: "
	    "read_output with the run_id in tests shows what they printed." },
	{ "confirm", "the operator did not approve it",
	    "Ask the operator, who approves with `sbx approve`; publish "
	    "again." },
	{ "protected_ref", "the branch is the default one",
	    "Publish to another branch, or have the operator set "
	    "allow_protected_ref." },
	{ "not_allowed", "the configuration does not permit it",
	    "Have the operator change sbx.conf." },
	{ "sign", "the commit could not be signed",
	    "Have the operator look at `sbx broker status`." },
	{ "push", "the repository did not take it",
	    "See what it said." },
	{ "unknown", "whether it arrived is not known",
	    "The suite looks at the branch in a minute; publishing the same "
	    "again is safe." },
	{ "locked", "the suite is locked down",
	    "An operator lifts it with `sbx lockdown off`." },
	{ "busy", "as many publications are under way as may be",
	    "Retry when one has ended." },
	{ "suite", "a part of the suite failed",
	    "Retry." },
	{ "cancelled", "its call did not complete",
	    "Call again." },
};
const unsigned sbx_publish_steps_n =
    sizeof(sbx_publish_steps) / sizeof(sbx_publish_steps[0]);

const struct sbx_publish_step *
sbx_publish_step(const char *word)
{
	for (unsigned i = 0; i < sbx_publish_steps_n; i++)
		if (strcmp(sbx_publish_steps[i].word, word) == 0)
			return (&sbx_publish_steps[i]);
	return (NULL);
}
