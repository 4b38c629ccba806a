#!/usr/bin/env bash
# Each program links what its role needs, and nothing else.  A library that
# turns up here is code in that process: the table is the place to argue.
set -u
declare -A may=(
	[sbxd]="seccomp cap event_core"
	[sbxd-starter]="seccomp cap"
	[sbxd-engine]="seccomp cap event_core"
	[sbxd-recorder]="seccomp cap event_core"
	[sbx-journald]="seccomp cap event_core crypto"
	[sbx-broker]="seccomp cap event_core crypto"
	[sbx-broker-command]="seccomp cap"
	[sbx-broker-courier]="seccomp cap curl ssl crypto json-c"
	[sbx-proxy]="seccomp cap event_core event_openssl ssl crypto json-c"
	[sbxd-worker]="seccomp cap json-c"
	[sbxd-front]="seccomp cap event_core event_extra json-c"
	[sbxd-image]="seccomp cap archive crypto json-c"
	[sbxd-copyin]="seccomp cap archive"
	[sbxd-judge]="seccomp cap crypto json-c pcre2-8"
	[sbx-init]=""
	[sbx-privs]="seccomp cap"
	[sbx]="seccomp cap json-c crypto"
)
n=0 fail=0
result() { # STATUS TEXT
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else
		echo "not ok $n - $2"; fail=1; fi
}

echo "1..$((${#may[@]} + 3))"
for program in $(printf '%s\n' "${!may[@]}" | sort); do
	file=$SBX_BUILD/$program
	if [ ! -x "$file" ]; then
		result 1 "$program is built"
		continue
	fi
	extra=
	# the C library, also under its older names
	libc="c m ld-linux-x86-64 ld-linux-aarch64"
	# a sanitizer brings its own
	if grep -aq __ubsan_handle "$file"; then
		libc="$libc asan ubsan gcc_s stdc++ pthread rt dl resolv"
	fi
	for lib in $(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
		name=${lib%%.so*}
		name=${name#lib}
		name=${name%-2.1} # libevent_core-2.1.so.7
		case " $libc ${may[$program]} " in
		*" $name "*) ;;
		*) extra="$extra $lib" ;;
		esac
	done
	[ -z "$extra" ]
	result $? "$program links nothing unexpected$extra"
done

# PID 1 of a sandbox runs in any image, so it brings all it needs.
if [ -x "$SBX_BUILD/sbx-init" ] &&
	! readelf -l "$SBX_BUILD/sbx-init" | grep -q INTERP; then
	result 0 "sbx-init is static"
else
	result 1 "sbx-init is static"
fi

# Position independent, relocations read-only before main(), no executable
# stack: the compiler and linker flags of configure.ac came through.
soft=
for program in "${!may[@]}"; do
	file=$SBX_BUILD/$program
	[ -x "$file" ] || continue
	readelf -h "$file" | grep -q 'Type: *DYN' || soft="$soft $program:pie"
	readelf -l "$file" | grep -q GNU_RELRO || soft="$soft $program:relro"
	readelf -d "$file" | grep -qE 'BIND_NOW|Flags:.* NOW' ||
		soft="$soft $program:now"
	readelf -lW "$file" | grep 'GNU_STACK' | grep -q RWE &&
		soft="$soft $program:execstack"
done
[ -z "$soft" ]
result $? "every program is linked hard$soft"

# What is installed and not in the table was forgotten here.
forgotten=
for file in "$SBX_BUILD"/sbx*; do
	name=$(basename "$file")
	[ -f "$file" ] && [ -x "$file" ] && [ -z "${may[$name]+set}" ] &&
		head -c 4 "$file" | grep -q ELF && forgotten="$forgotten $name"
done
[ -z "$forgotten" ]
result $? "every program is in the table$forgotten"
exit $fail
