# Runs in a sandbox, by bash -c: what verify_in_container, lint_in_container
# and type_check_in_container ask of it, in one run.  Becomes verify_script.h.
#
#	MODE DIR PATH LANGUAGE FILTER SCOPE SKIP AFFECTED [PYTEST-ARG ...]
#
# MODE: verify, lint, fix, types, sweep.  Standard output has records only, a
# line each, fields separated by tabs; what tools print goes to standard error:
#	K name value
#	S kind language tool ran status built milliseconds version command reason
#	B name bytes	and so many bytes of it: belongs to the S before
# shellcheck shell=bash
set -u
mode=$1 wd=$2 path=$3 language=$4 filter=$5 scope=$6 skip=$7 affected=$8
shift 8
exec 3>&1 1>&2
export CI=1 NO_COLOR=1 CARGO_TERM_COLOR=never
: "${PYTHONPYCACHEPREFIX:=/tmp/.sbx-pycache}" # not into the work tree
export PYTHONPYCACHEPREFIX
for d in /tmp/sbx-verify.*; do # what a killed run left
	p=${d#*.}
	[ ! -d "$d" ] || [ -d "/proc/${p%%.*}" ] || rm -rf "$d"
done
[ "$mode" != sweep ] || exit 0
T=$(mktemp -d "/tmp/sbx-verify.$$.XXXXXX") || exit 70
trap 'rm -rf "$T"; kv end 1' EXIT
N=$RANDOM$RANDOM
red= # a gate found something
now=0 flat=

# the helpers fork nothing: each run of a program costs a millisecond or more
flat() { flat=${1//[$'\n\t\r']/ }; flat=${flat:0:900}; }
kv() { flat "$2"; printf 'K\t%s\t%s\n' "$1" "$flat" >&3; }
blob() { # NAME FILE: a regular file, if it is not too large
	local n=0 x
	[ -f "$2" ] || return 0
	if [ -s "$2" ] && [[ $1 = report || $1 = content ]] &&
		{ IFS= LC_ALL=C read -r -N 60000 x <"$2"; [ ${#x} -lt 15000 ]; }; then
		local LC_ALL=C # a small one, without NUL
		printf 'B\t%s\t%s\n%s\n' "$1" ${#x} "$x" >&3
		return
	fi
	[ ! -s "$2" ] || n=$(stat -c %s -- "$2")
	[ "$n" -lt 8000000 ] || return 0
	printf 'B\t%s\t%s\n' "$1" "$n" >&3
	[ "$n" = 0 ] || head -c "$n" -- "$2" >&3
	echo >&3
}
names() { # NAME FILE: of what ends with NUL each
	local LC_ALL=C n=0 x a
	mapfile -d '' -n 3000 -t a <"$2"
	[ ${#a[@]} -lt 3000 ] || { blob "$1" "$2"; return; }
	for x in "${a[@]}"; do n=$((n + ${#x} + 1)); done
	printf 'B\t%s\t%s\n' "$1" $n >&3
	[ $n = 0 ] || printf '%s\0' "${a[@]}" >&3
	echo >&3
}
step() { # KIND LANGUAGE TOOL RAN STATUS BUILT MS VERSION COMMAND REASON
	local out=S f
	for f; do flat "$f"; out=$out$'\t'$flat; done
	printf '%s\n' "$out" >&3
}
missing() { step "$1" "$2" "$3" 0 127 1 0 '' '' "$4"; } # KIND LANGUAGE TOOL REASON
now() { now=$((${EPOCHREALTIME/[.,]/} / 1000)); }
have() { command -v "$1" >/dev/null 2>&1; }
cores=
cores() { # those that this process may use, as nproc says
	local key list part
	[ -z "$cores" ] || return
	while read -r key list; do
		[ "$key" != Cpus_allowed_list: ] || for part in ${list//,/ }; do
			cores=$((cores + ${part#*-} - ${part%-*} + 1))
		done
	done 2>/dev/null </proc/self/status
	cores=${cores:-2}
}
slurp() { # FILE: without NUL, if it is a small one
	local LC_ALL=C
	text=
	[ ! -f "$1" ] || IFS= read -r -N 200000 text 2>/dev/null <"$1"
	[ -n "$text" ] && [ ${#text} -lt 200000 ]
}
# a program of the project's own node_modules, or of the image
js_tool() {
	local d=$PWD
	while [ -n "$d" ]; do
		tool=$d/node_modules/.bin/$1
		[ ! -x "$tool" ] || return 0
		d=${d%/*}
	done
	tool=$1
	have "$1"
}
# a program of the project's virtual environment, or of the image
py_tool() {
	local d
	for d in .venv venv ~/.venv; do [ ! -x "$d/bin/$1" ] || { tool=$d/bin/$1; return; }; done
	tool=$1
	have "$1"
}
# what version() and js_version() find is in $version, and only where it is shown
js_version() { # PROGRAM: what its package says
	local d
	version=
	[ "$mode" != verify ] || return 0
	d=$(readlink -f "$(command -v "$1")"); d=${d%/*}
	while [ -n "$d" ] && [ ! -f "$d/package.json" ]; do d=${d%/*}; done
	version=$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' "$d/package.json" 2>/dev/null | head -n 1)
}
version() { # COMMAND ...
	version=
	[ "$mode" = verify ] ||
		version=$("$@" 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
}

# --- linters and type checkers ----------------------------------------------

# KIND LANGUAGE TOOL VERSION RED-CODES COMMAND ...: RED-CODES are exit codes of
# findings; other codes than those and 0 mean that it could not run
check() {
	local kind=$1 lang=$2 tool=$3 v=$4 codes=$5 s b ran=1 reason='' o=$T/o; shift 5
	now; b=$now
	printf '\n== %s %s\n' "$N" "$tool"
	"$@" >"$T/o" 2>"$T/e" 3>&- </dev/null
	s=$?
	now
	case " 0 $codes " in
	*" $s "*) ;;
	*) ran=0 reason="it failed (exit code $s): $(tail -c 400 "$T/e" "$T/o" 2>/dev/null)" ;;
	esac
	step "$kind" "$lang" "$tool" $ran $s 1 $((now - b)) "$v" "$*" "$reason"
	case $tool in # those that write to standard error
	'go vet'|cppcheck) o=$T/e ;;
	esac
	blob out "$o"
	[ $ran = 0 ] || [ $s = 0 ] ||
		! grep -qE ':[0-9]+:|error TS|"(line|row|line_start|Line)"' "$o" || red=1
	[ ! -s "$T/e" ] || head -c 20000 "$T/e"
}

# what flake8 and pylint find by default is no project's taste; ruff's is errors
errors_only() { [ "$mode" != verify ] && only=("$1"); }
python_lint() {
	local fix=() tool='' only=()
	if py_tool ruff; then
		[ "$mode" != fix ] || fix=(--fix)
		version "$tool" --version
		RUFF_CACHE_DIR=$T/ruff check lint python ruff "$version" 1 \
			"$tool" check --output-format json "${fix[@]}" -- "${targets[@]}"
	elif py_tool flake8 && { [ -f .flake8 ] || { any setup.cfg tox.ini &&
		grep -qs '^\[flake8\]' setup.cfg tox.ini; } || errors_only --select=E9,F; }; then
		version "$tool" --version
		check lint python flake8 "$version" 1 "$tool" "${only[@]}" -- "${targets[@]}"
	elif py_tool pylint && { any .pylintrc pylintrc pylintrc.toml || { any pyproject.toml setup.cfg &&
		grep -qsE '^\[(tool\.)?pylint' pyproject.toml setup.cfg; } || errors_only --errors-only; }; then
		version "$tool" --version
		check lint python pylint "$version" "$(seq -s ' ' 1 31)" \
			"$tool" --output-format=json "${only[@]}" -- "${targets[@]}"
	else
		missing lint python ruff 'ruff is not installed in this image (nor flake8 or pylint with a configuration).'
	fi
	[ -z "${only[*]}" ] || kv config "none: run for errors only (${only[*]})"
}
python_types() {
	local tool=
	if py_tool pyright || js_tool pyright; then
		js_version "$tool"
		check types python pyright "$version" 1 "$tool" --outputjson "${targets[@]}"
	else
		missing types python pyright 'pyright is not installed in this image.'
	fi
}
js_lint() {
	local fix=() tool=
	[ "$mode" != fix ] || fix=(--fix)
	if js_tool eslint; then
		js_version "$tool"
		check lint "$lang" eslint "$version" 1 "$tool" --format json --max-warnings 0 \
			"${fix[@]}" "${targets[@]}"
	else
		missing lint "$lang" eslint 'eslint is neither in node_modules nor in this image.'
	fi
}
ts_types() {
	local tool=
	if ! js_tool tsc; then
		missing types "$lang" tsc 'tsc (typescript) is neither in node_modules nor in this image.'
		return
	fi
	js_version "$tool"
	if [ -f tsconfig.json ]; then
		check types "$lang" tsc "$version" '1 2' "$tool" --noEmit --pretty false -p .
	else
		check types "$lang" tsc "$version" '1 2' "$tool" --noEmit --pretty false "${targets[@]}"
	fi
}
go_lint() {
	local v out=(--out-format json) fix=() where=(./...)
	[ -z "$target" ] || where=("./$(go_dir "$target")")
	if have golangci-lint; then
		v=$(golangci-lint version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
		case $v in 1.*) ;; *) out=(--output.json.path stdout) ;; esac
		[ "$mode" != fix ] || fix=(--fix)
		check lint go golangci-lint "$v" 1 golangci-lint run "${out[@]}" "${fix[@]}" "${where[@]}"
	elif have go; then
		version go version
		check lint go 'go vet' "$version" '1 2' go vet "${where[@]}"
	else
		missing lint go golangci-lint 'neither golangci-lint nor go is installed in this image.'
	fi
}
rust_lint() {
	local fix=()
	[ "$mode" != fix ] || fix=(--fix --allow-dirty --allow-staged)
	if have cargo && have cargo-clippy; then
		version cargo clippy -V
		check lint rust clippy "$version" 101 cargo clippy --workspace \
			"${fix[@]}" --message-format=json -- -D warnings
	else
		missing lint rust clippy 'cargo clippy is not installed in this image.'
	fi
}
c_lint() {
	local db='' d enable=() fix=()
	[ "$mode" != verify ] || any ./*.c ./*.cc ./*.cpp ./*/*.c ./*/*.cc ./*/*.cpp ./*/*/*.c \
		./*/*/*.cc ./*/*/*.cpp || return 0
	cores
	for d in . build; do [ ! -f "$d/compile_commands.json" ] || db=$d; done
	# a macro that it does not know is a lack of configuration
	[ "$mode" != verify ] || enable=(--suppress=unknownMacro)
	[ "$mode" = verify ] || enable=("--enable=warning,style,performance,portability")
	if [ -n "$db" ] && [ -n "$target" ] && have clang-tidy; then
		[ "$mode" != fix ] || fix=(--fix)
		version clang-tidy --version
		check lint c clang-tidy "$version" 1 \
			clang-tidy --quiet -p "$db" "${fix[@]}" "${targets[@]}"
	elif have cppcheck; then
		version cppcheck --version
		check lint c cppcheck "$version" 1 cppcheck -q \
			"${enable[@]}" --suppress=missingIncludeSystem --error-exitcode=1 -j "$cores" \
			'--template={file}:{line}:{column}: {severity}: {message} [{id}]' "${targets[@]}"
	elif have clang-tidy && [ -n "$target" ]; then
		version clang-tidy --version
		check lint c clang-tidy "$version" 1 \
			clang-tidy --quiet "${targets[@]}" --
	else
		missing lint c cppcheck 'neither clang-tidy (with compile_commands.json) nor cppcheck is installed in this image.'
	fi
}
shell_lint() {
	if have shellcheck; then
		version shellcheck --version
		check lint shell shellcheck "$version" 1 \
			shellcheck --format=json1 -- "${targets[@]}"
	else
		missing lint shell shellcheck 'shellcheck is not installed in this image.'
	fi
}
lint() {
	case $lang in
	python|go|rust|c|shell) "${lang}_lint" ;;
	js|ts) js_lint ;;
	esac
}
types() {
	case $lang in
	python) python_types ;;
	ts) ts_types ;;
	js) [ "$mode" = verify ] || missing types js tsc 'JavaScript without tsconfig.json has no types to check.' ;;
	*) [ "$mode" = verify ] || missing types "$lang" '-' "The compiler of $lang checks types: verify_in_container builds." ;;
	esac
}

# --- tests --------------------------------------------------------------------

# LANGUAGE TOOL REPORT COMMAND ...
run_tests() {
	local l=$1 tool=$2 report=$3 b s; shift 3
	[ ! -e "$report" ] || rm -rf "$report"
	built=1
	printf '\n== %s %s\n' "$N" "$tool"
	now; b=$now
	"$@" 3>&- </dev/null
	s=$?
	now
	[ "$tool" != node ] || [ -s "$report" ] || tool=tap
	[ ! -e "$T/not-built" ] || { built=0; rm -f "$T/not-built"; }
	step test "$l" "$tool" 1 $s $built $((now - b)) '' "${shown:-$*}" ''
	blob report "$report"
	status=$s
}
python_tests() { # FILTERED
	local py line cpus n=() args=()
	shown=
	for py in .venv/bin/python venv/bin/python ~/.venv/bin/python python3 python; do have "$py" && break; done
	have "$py" || { missing test python pytest 'python3 is not installed in this image.'; return; }
	# that pytest is missing it says itself; workers of xdist pay on many cores
	cpus=()
	while IFS= read -r line; do case $line in processor*) cpus+=(1) ;; esac; done \
		2>/dev/null </proc/cpuinfo
	[ ${#cpus[@]} -lt 4 ] || ! "$py" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("xdist") is None or u.find_spec("xdist.plugin") is None)' 2>/dev/null ||
		n=(-n auto)
	if [ -n "$1" ]; then
		args=("${extra[@]}")
		[ -z "$filter" ] || args+=(-k "$filter")
	fi
	run_tests python pytest "$T/r.xml" "$py" -m pytest "--junit-xml=$T/r.xml" \
		-o junit_family=xunit1 -q "${n[@]}" "${args[@]}" ${selected[@]+"${selected[@]}"} ${target:+"$target"}
}
# shellcheck disable=SC2120  # others pass arguments, through run_tests
npm_test() {
	if have npm; then npm test --silent -- "$@"
	else PATH=$PWD/node_modules/.bin:$PATH sh -c "$script \"\$@\"" sh "$@"; fi
}
node_test() {
	if [ -n "$script" ]; then
		NODE_OPTIONS="${NODE_OPTIONS-} --test-reporter=spec --test-reporter-destination=stdout --test-reporter=tap --test-reporter-destination=$T/r" npm_test
	else
		node --test --test-reporter=spec --test-reporter-destination=stdout \
			--test-reporter=tap "--test-reporter-destination=$T/r" "$@"
	fi
}
# scripts.test of package.json.  Where nothing in it is escaped and it has one
# such object, at the top, that is seen without the start of a node.
simple_script() { # 1: it is not so simple
	local before inside open close q text
	local object='^[[:space:]]*:[[:space:]]*\{[^{]*$'
	local entry='[{,][[:space:]]*"test"[[:space:]]*:[[:space:]]*"([^"]*)"'
	slurp package.json || return 1
	case $text in
	*\\*|*'"scripts"'*'"scripts"'*) return 1 ;;
	*'"scripts"'*) ;;
	*) return 0 ;;
	esac
	before=${text%%'"scripts"'*} inside=${text#*'"scripts"'} inside=${inside%%\}*}
	open=${before//[!\{[]/} close=${before//[!\}\]]/} q=${inside//[!\"]/}
	[[ $((${#open} - ${#close})) = 1 && $inside =~ $object && $((${#q} % 2)) = 0 ]] || return 1
	[[ $inside != *'"test"'*'"test"'* ]] || return 1
	[[ ! $inside =~ $entry ]] || script=${BASH_REMATCH[1]}
}
js_test_files() {
	any ./*.test.js ./*.test.[cm]js ./*_test.js ./*-test.js ./test/*.js ./test/*.[cm]js ||
		[ -n "$(find . \( -name node_modules -o -name .git \) -prune -o \
		\( -name '*.test.[cm]js' -o -name '*.test.js' -o -name '*_test.js' -o -name '*-test.js' -o \
		-path './test/*.js' -o -path './test/*.[cm]js' \) -print -quit 2>/dev/null)" ]
}
js_tests() { # FILTERED
	local script='' last tool='' f=() only=()
	have node || { missing test "$lang" node 'node is not installed in this image.'; return; }
	[ -z "$target" ] || only=("$target")
	simple_script || script=$(node -e 'const p = JSON.parse(require("fs").readFileSync("package.json", "utf8"));
const s = (p.scripts || {}).test; console.log(typeof s === "string" ? s.replace(/\n/g, " ") : "")' 2>/dev/null)
	case $script in *'no test specified'*) script= ;; esac
	last=${script##*&&}; last=${last##*;}
	[ -z "$1" ] || [ -z "$filter" ] || f=(-t "$filter")
	shown="npm test ($script)"
	case $last in
	*vitest*) run_tests "$lang" vitest "$T/r" npm_test --reporter=default --reporter=json \
		"--outputFile.json=$T/r" "${f[@]}" "${only[@]}"; return ;;
	*jest*|*react-scripts\ test*) run_tests "$lang" jest "$T/r" npm_test --json "--outputFile=$T/r" \
		"${f[@]}" "${only[@]}"; return ;;
	*mocha*) run_tests "$lang" tap "$T/r" npm_test --reporter tap "${f[@]/-t/-g}"; return ;;
	*ava*) run_tests "$lang" tap "$T/r" npm_test --tap; return ;;
	esac
	case $script in
	*vitest*) script=;;
	*jest*) script=;;
	*--test-reporter*) run_tests "$lang" tap "$T/r" npm_test; return ;;
	?*) run_tests "$lang" node "$T/r" node_test; return ;;
	esac
	shown=
	if js_tool vitest; then
		run_tests "$lang" vitest "$T/r" "$tool" run --reporter=default --reporter=json \
			"--outputFile.json=$T/r" "${f[@]}" "${only[@]}"
	elif js_tool jest; then
		run_tests "$lang" jest "$T/r" "$tool" --json "--outputFile=$T/r" "${f[@]}" "${only[@]}"
	elif [ -n "$target" ] || js_test_files; then
		shown="node --test ${only[*]}"
		run_tests "$lang" node "$T/r" node_test "${only[@]}"
	else
		step test "$lang" none 1 0 1 0 '' '' 'package.json has no test script, and there are no test files.'
	fi
	shown=
}
ts_tests() { js_tests "$1"; }
go_dir() { if [ -d "$1" ]; then echo "${1%/}/..."; else echo "$(dirname "$1")"; fi; }
go_test() { go test -json "$@" >"$T/r"; }
go_tests() {
	local f=() where=(./...)
	have go || { missing test go go 'go is not installed in this image.'; return; }
	[ -z "$target" ] || where=("./$(go_dir "${target#./}")")
	[ -z "$1" ] || [ -z "$filter" ] || f=(-run "$filter")
	shown="go test -json ${f[*]} ${where[*]}"
	run_tests go go "$T/r" go_test "${f[@]}" "${where[@]}"
	shown=
}
rust_tests() {
	local f=()
	have cargo || { missing test rust cargo 'cargo is not installed in this image.'; return; }
	[ -z "$1" ] || [ -z "$filter" ] || f=("$filter")
	run_tests rust cargo "$T/none" cargo test --workspace --no-fail-fast "${f[@]}"
}
cmake_test() {
	local b=$T/build d
	cores
	for d in build build/*/ cmake-build-*/; do [ ! -f "$d/CMakeCache.txt" ] || { b=$d; break; }; done
	{ [ -f "$b/CMakeCache.txt" ] || cmake -S . -B "$b"; } && cmake --build "$b" -j "$cores" ||
		{ : >"$T/not-built"; return 1; }
	ctest --test-dir "$b" --output-junit "$T/r" --output-on-failure -j "$cores" "$@"
}
make_test() {
	local d=.
	cores
	if [ ! -f Makefile ] && [ ! -f GNUmakefile ] && [ ! -f makefile ]; then
		d=$T/build; mkdir -p "$d"
		(cd "$d" && "$OLDPWD/configure" -q) || { : >"$T/not-built"; return 1; }
	fi
	: >"$T/began"
	make -C "$d" -k -j "$cores" "$@"
	local s=$?
	for d in "$d"/test-suite.log "$d"/*/test-suite.log "$d"/*/*/test-suite.log \
		"$d"/*/*/*/test-suite.log; do
		[ ! "$d" -nt "$T/began" ] || cat "$d" >>"$T/r"
	done
	return $s
}
has_goal() { # GOAL
	local f text
	for f in Makefile GNUmakefile makefile; do
		slurp "$f" || continue
		[[ $'\n'$text != *$'\n'"$1"[:\ ]* ]] || return 0
	done
	grep -qsE "^$1[ :]" Makefile GNUmakefile makefile
}
c_tests() {
	local f=()
	if [ -f CMakeLists.txt ] && have ctest; then
		[ -z "$1" ] || [ -z "$filter" ] || f=(-R "$filter")
		shown="ctest ${f[*]}"
		run_tests c ctest "$T/r" cmake_test "${f[@]}"
	elif [ -f CMakeLists.txt ]; then
		missing test c ctest 'cmake is not installed in this image.'
	elif ! have make; then
		missing test c make 'make is not installed in this image.'
	elif [ -f configure ] || has_goal check; then
		[ -z "$1" ] || [ -z "$filter" ] || f=("TESTS=$filter")
		shown="make check ${f[*]}"
		run_tests c make "$T/r" make_test check "${f[@]}"
	elif has_goal test; then
		shown="make test"
		run_tests c make "$T/r" make_test test
	else
		missing test c make 'there is no CMakeLists.txt, configure or Makefile with a goal check or test: run the build system first.'
	fi
	shown=
}

# --- what there is ------------------------------------------------------------

found=() # LANGUAGE:DIRECTORY
add() { local x; for x in "${found[@]}"; do [ "${x%%:*}" != "$1" ] || return 0; done; found+=("$1:$2"); }
any() { local f; for f; do [ ! -e "$f" ] || return 0; done; return 1; }
look() { # DIRECTORY: its markers
	any "$1"/go.mod && add go "$1"
	any "$1"/Cargo.toml && add rust "$1"
	any "$1"/pyproject.toml "$1"/setup.py "$1"/setup.cfg "$1"/requirements*.txt "$1"/Pipfile \
		"$1"/tox.ini "$1"/pytest.ini "$1"/conftest.py && add python "$1"
	if any "$1"/tsconfig.json; then add ts "$1"
	elif any "$1"/package.json; then add js "$1"; fi
	any "$1"/CMakeLists.txt "$1"/configure "$1"/configure.ac "$1"/Makefile "$1"/GNUmakefile && add c "$1"
	return 0
}
by_name() {
	case $1 in
	*.py|*.pyi) echo python ;; *.ts|*.tsx|*.mts|*.cts) echo ts ;;
	*.js|*.jsx|*.mjs|*.cjs) echo js ;; *.go) echo go ;; *.rs) echo rust ;;
	*.c|*.h|*.cc|*.cpp|*.cxx|*.hpp|*.hh) echo c ;; *.sh|*.bash) echo shell ;;
	esac
}
up_to() { # FILE MARKER: the nearest directory above with the marker
	local d=${1%/*}
	[ "$d" != "$1" ] || d=.
	while :; do
		[ ! -e "$d/$2" ] || { echo "$d"; return; }
		case $d in */*) d=${d%/*} ;; *) break ;; esac
	done
	echo .
}
detect() {
	local l
	target=$path
	if [ -n "$language" ]; then
		l=$language; [ "$l" != typescript ] || l=ts; [ "$l" != javascript ] || l=js
		found=("$l:."); return
	fi
	if [ -f "$path" ] && l=$(by_name "$path") && [ -n "$l" ]; then
		[ "$mode" != verify ] || [ "$l" != shell ] || return
		found=("$l:."); return
	fi
	if [ -d "$path" ]; then
		look "$path"
		[ ${#found[@]} -eq 0 ] || { wd=$wd/$path; cd "$path" || exit 71; target=
			found=("${found[@]/%:*/:.}"); return; }
	fi
	look .
	# a Makefile beside another language is its helper
	if [ ${#found[@]} -gt 1 ]; then
		local keep=()
		for l in "${found[@]}"; do [ "$l" = c:. ] && ! any CMakeLists.txt configure configure.ac || keep+=("$l"); done
		found=("${keep[@]}")
	fi
	[ ${#found[@]} -eq 0 ] || return 0
	while IFS= read -r l; do look "${l%/*}"; done < <(find . -maxdepth 3 \( -name node_modules -o \
		-name .venv -o -name vendor -o -name dist -o -name build -o -name target -o -name .git \) -prune \
		-o -type f \( -name go.mod -o -name Cargo.toml -o -name pyproject.toml -o -name setup.py -o \
		-name 'requirements*.txt' -o -name package.json -o -name tsconfig.json -o -name CMakeLists.txt \) \
		-print 2>/dev/null | head -n 200 | sort)
	# tests without any marker
	[ ${#found[@]} -gt 0 ] || [ -z "$(find . -maxdepth 2 -name 'test_*.py' -print -quit 2>/dev/null)" ] || add python .
	return 0
}
git_diff() { # what changed, without touching the index
	local x u=all all=() new=() staged='' unstaged=''
	local g=(git --no-optional-locks -c core.fsmonitor= -c core.quotepath=off)
	[ -e .git ] || u=no # below the root only what is here is told
	"${g[@]}" -c status.renames=false -c diff.renames=false status --porcelain -z -u$u \
		>"$T/c" 2>/dev/null || return 0
	mapfile -d '' -n 3000 -t all <"$T/c"
	[ ${#all[@]} -lt 3000 ] || u=no staged=1 unstaged=1 # so many are not looked at here
	for x in "${all[@]}"; do
		case $x in
		\?\?*) new+=("${x:3}") ;;
		' '*) unstaged=1 ;;
		?' '*) staged=1 ;;
		*) staged=1 unstaged=1 ;;
		esac
	done
	for x in d s u; do : >"$T/$x"; done
	[ -z "$unstaged" ] || "${g[@]}" diff --no-ext-diff --numstat -z >"$T/d" 2>/dev/null
	[ -z "$staged" ] || "${g[@]}" diff --no-ext-diff --cached --numstat -z >"$T/s" 2>/dev/null
	if [ $u = no ]; then
		"${g[@]}" ls-files -o --exclude-standard -z >"$T/u" 2>/dev/null
		mapfile -d '' -n 1000 -t new <"$T/u"
	elif [ ${#new[@]} -gt 0 ]; then
		printf '%s\0' "${new[@]}" >"$T/u"
	fi
	names unstaged "$T/d"
	names staged "$T/s"
	names untracked "$T/u"
	{ [ -z "$staged$unstaged" ] ||
		"${g[@]}" diff --no-ext-diff --no-textconv --binary HEAD | sha256sum
	[ ${#new[@]} -eq 0 ] || git hash-object --no-filters -- "${new[@]:0:1000}"; } >"$T/h" 2>/dev/null
	blob content "$T/h"
}
scopes() { # what the gates look at
	if [ -n "$target" ]; then targets=("$target"); return; fi
	targets=()
	[ "$lang" != python ] || for d in src tests; do [ ! -d "$d" ] || targets+=("$d"); done
	[ ${#targets[@]} -gt 0 ] || targets=(.)
}

cd "$wd" 2>/dev/null || { kv problem "working_dir: $wd is not a directory of the sandbox."; exit 0; }
[ -z "$path" ] || [ -e "$path" ] || { kv problem "path: there is no $path below $wd."; exit 0; }
[ "$path" != . ] || path=
extra=("$@") selected=() shown='' target=''
kv nonce "$N"
kv skip "$skip"
detect
kv wd "$PWD"
[ "$mode" != verify ] || git_diff
for x in "${found[@]}"; do kv language "${x%%:*}"; done
each() { # FUNCTION ARGUMENT: in the directory of each language
	local x
	for x in "${found[@]}"; do
		lang=${x%%:*}
		pushd "${x#*:}" >/dev/null || continue
		scopes
		"$@"
		popd >/dev/null || exit 71
	done
}
in_ts_project() { # FILE: where its tsconfig.json is
	local d; d=$(up_to "$target" tsconfig.json)
	[ "$d" = . ] || { target=${target#"$d"/}; cd "$d" || exit 71; }
}
case $mode in
lint|fix) each lint; exit 0 ;;
types) [ -z "$target" ] || in_ts_project; each types; exit 0 ;;
esac
case $skip in *l*) ;; *) each lint ;; esac
case $skip in *t*) ;; *) each types ;; esac
[ -z "$red" ] || { kv gate red; exit 0; }
tests() { "${lang}_tests" "$1"; }
if [ "$scope" = affected ]; then
	lang=python
	python3 -c "$affected" "$T/sel" "$T/why" 3>&- || echo "the import graph could not be made" >"$T/why"
	blob selection "$T/sel"
	kv widened "$(cat "$T/why" 2>/dev/null)"
	if [ ! -s "$T/why" ]; then
		while IFS= read -r -d '' f; do case $f in =*) selected+=("${f#=}") ;; esac; done <"$T/sel"
		[ ${#selected[@]} -gt 0 ] || { kv nothing_affected 1; exit 0; }
	fi
	python_tests ''
	exit 0
fi
if [ -n "$filter" ] || [ ${#extra[@]} -gt 0 ]; then
	kv filtered 1
	status=0
	filtered() { [ "$status" -ne 0 ] || tests 1; }
	each filtered
	[ "$status" -eq 0 ] || exit 0
	kv filtered 0
fi
each tests ''
exit 0
