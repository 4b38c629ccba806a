# shellcheck shell=bash disable=SC2034
# What contrib/quickstart and contrib/check share.  Sourced by bash.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

BUILD_PACKAGES="gcc make autoconf automake pkg-config libc6-dev linux-libc-dev
	libevent-dev libjson-c-dev libcurl4-openssl-dev libseccomp-dev
	libcap-dev libssl-dev libarchive-dev libpcre2-dev git python3"

# need_packages PACKAGE ...: root installs what is missing, others are told.
need_packages() {
	local p missing=()
	for p in "$@"; do
		case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
		*' installed') ;;
		*) missing+=("$p") ;;
		esac
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	command -v apt-get >/dev/null ||
		die "this machine has no apt-get; install what provides: ${missing[*]}"
	if [ "$(id -u)" -ne 0 ]; then
		die "missing packages; as root: apt-get install --no-install-recommends ${missing[*]}"
	fi
	say "installing: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 && return 0
	apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null ||
		die "apt-get could not install: ${missing[*]}"
}

# Started by root, each component drops to a user of its own.
need_users() {
	[ "$(id -u)" -eq 0 ] || return 0
	local u
	for u in $(awk '$1 == "u" { print $2 }' "$top/contrib/sysusers.d/sbx.conf"); do
		getent passwd "$u" >/dev/null && continue
		say "adding the system user $u"
		useradd --system --user-group --no-create-home --home-dir / \
			--shell /usr/sbin/nologin "$u" || die "could not add the user $u"
	done
	need_subids
}

# Ids for sandboxes, one each: the next free range, as useradd(8) gives people.
need_subids() {
	local first last
	grep -qs '^sbxd:' /etc/subuid && grep -qs '^sbxd:' /etc/subgid && return 0
	touch /etc/subuid /etc/subgid
	first=$(awk -F: 'BEGIN { n = 100000 } $2 + $3 > n { n = $2 + $3 }
		END { print n }' /etc/subuid /etc/subgid)
	last=$((first + 65535))
	say "giving user sbxd the ids $first to $last for sandboxes"
	usermod --add-subuids "$first-$last" --add-subgids "$first-$last" sbxd ||
		die "could not give user sbxd ids: see subuid(5)"
}

# build DIR CONFIGURE-ARGUMENT ...: out of tree, quietly unless it fails.
build() {
	local dir=$1; shift
	case $top$dir in
	*[[:space:]]*) die "configure and make cannot work below a path with" \
		"blanks: take another place than '$top'" ;;
	esac
	mkdir -p "$dir" || die "cannot make $dir"
	[ -w "$dir" ] || die "$dir belongs to another user: clone as yourself"
	[ -x "$top/configure" ] && [ "$top/configure" -nt "$top/configure.ac" ] ||
		"$top/autogen.sh" >"$dir/autogen.log" 2>&1 || { tail -n 20 "$dir/autogen.log"; die "autogen.sh failed"; }
	( cd "$dir" && { [ -f config.status ] || "$top/configure" -q "$@"; } && make -s -j"$(nproc)" ) >"$dir/build.log" 2>&1 ||
		{ tail -n 40 "$dir/build.log"; die "the build failed: $dir/build.log"; }
}
