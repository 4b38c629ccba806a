#!/usr/bin/env bash
# Every fuzz target takes its whole corpus.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
targets=("$SBX_SRC"/tests/fuzz/fuzz_*.c)
echo "1..${#targets[@]}"
n=0 fail=0
for source in "${targets[@]}"; do
	name=$(basename "$source" .c)
	corpus=$SBX_SRC/tests/fuzz/corpus/${name#fuzz_}
	n=$((n + 1))
	# a fuzzer proper runs its corpus and stops
	flag=
	grep -aq LLVMFuzzerRunDriver "$SBX_BUILD/$name" 2>/dev/null && flag=-runs=0
	# shellcheck disable=SC2086
	if timeout 120 "$SBX_BUILD/$name" $flag "$corpus" >"$out/log" 2>&1; then
		echo "ok $n - $name: $(tail -n 1 "$out/log")"
	else
		echo "not ok $n - $name over $corpus"
		tail -n 20 "$out/log" | sed 's/^/# /'
		fail=1
	fi
done
exit $fail
