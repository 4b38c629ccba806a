#!/bin/bash
# Every file of every corpus goes through its target without a crash.
n=0
for dir in "$SBX_SRC"/tests/fuzz/corpus/*/; do
	name=$(basename "$dir")
	n=$((n + 1))
	if [ ! -x "$SBX_BUILD/fuzz_$name" ]; then
		echo "not ok $n - $name: there is no fuzz_$name"
	elif out=$("$SBX_BUILD/fuzz_$name" "$dir"* 2>&1); then
		echo "ok $n - $name: $(ls "$dir" | wc -l) files"
	else
		echo "not ok $n - $name"
		echo "$out" | tail -40 | sed 's/^/# /'
	fi
done
echo "1..$n"
