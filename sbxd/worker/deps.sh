# Runs in a sandbox, by sh -c, in a work tree: installs what the project there
# says it needs.  Becomes clone_script.h.
#
#	EXTRAS [PIP-ARG ...]
#
# Standard output has pieces in threes, each with its NUL: a manager, ok, failed
# or skipped, and a word about it.  What they print goes to standard error.
# shellcheck shell=sh
set -u
extras=$1
shift
exec 3>&1 1>&2
export CI=1 NO_COLOR=1 LC_ALL=C.UTF-8
say() { printf '%s\0%s\0%s\0' "$1" "$2" "$3" >&3; }
ran() { # MANAGER WHAT COMMAND...
	m=$1 w=$2
	shift 2
	if "$@"; then say "$m" ok "$w"; else say "$m" failed "$w"; fi
}
any=

python() {
	command -v python3 >/dev/null || { say pip skipped 'no python3 here'; return; }
	py=python3 v=${VIRTUAL_ENV:-$HOME/.venv}
	if [ -x "$v/bin/python3" ]; then py=$v/bin/python3; else v=; fi
	if [ -z "$v" ] && python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("stdlib"),
    "EXTERNALLY-MANAGED")))'; then
		v=$HOME/.venv
		python3 -m venv --system-site-packages "$v" ||
			{ say pip failed "python3 -m venv $v"; return; }
		py=$v/bin/python3
	fi
	if [ -n "$v" ] && command -v uv >/dev/null; then
		ran uv "uv pip install -e .$extras" uv pip install -q \
			--python "$py" -e ".$extras" "$@"
	else
		ran pip "pip install -e .$extras" "$py" -m pip install -q \
			--disable-pip-version-check --no-input -e ".$extras" "$@"
	fi
}

if [ -f setup.py ] || { [ -f pyproject.toml ] && grep -Eq \
	'^\[(project|build-system|tool\.poetry)\]' pyproject.toml; }; then
	any=1
	python "$@"
elif [ -f pyproject.toml ]; then
	any=1
	say pip skipped 'pyproject.toml declares no project'
fi
if [ -f package.json ]; then
	any=1
	if ! command -v npm >/dev/null; then
		say npm skipped 'no npm here'
	elif [ -f package-lock.json ]; then
		ran npm 'npm ci' npm ci --no-audit --no-fund
	else
		ran npm 'npm install --no-package-lock' npm install \
			--no-package-lock --no-audit --no-fund
	fi
fi
[ ! -f go.mod ] || { any=1; say go skipped 'go fetches when it builds'; }
[ ! -f Cargo.toml ] || { any=1; say cargo skipped 'cargo fetches when it builds'; }
[ -n "$any" ] || say none skipped 'no manifest found'
