#!/usr/bin/env bash
# PROTOCOL.ipc is what msgs.def says.
echo 1..2
if ! out=$("$SBX_BUILD/gen-protocol"); then
	echo "not ok 1 - gen-protocol runs"
	exit 1
fi
if diff <(printf '%s\n' "$out") "$SBX_SRC/PROTOCOL.ipc" | sed 's/^/# /' |
	head -n 20 | grep .; then
	echo "not ok 1 - PROTOCOL.ipc is current: run make protocol"
	fail=1
else
	echo "ok 1 - PROTOCOL.ipc is current"
fi
declared=$(grep -c '^MSG(' "$SBX_SRC/common/proto/msgs.def")
printed=$(printf '%s\n' "$out" | grep -c '^[0-9]* [A-Z_]*$')
if [ "$declared" -eq "$printed" ]; then
	echo "ok 2 - all $declared messages are in it"
else
	echo "not ok 2 - $declared messages declared, $printed printed"
	fail=1
fi
exit "${fail:-0}"
