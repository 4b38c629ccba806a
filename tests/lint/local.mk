# tests/lint: what can be measured of the style, and what each program links
SBX_LINTS = tests/lint/sizes.py tests/lint/banned.py tests/lint/headers.py \
	tests/lint/args.py tests/lint/link.sh
TESTS += $(SBX_LINTS)
EXTRA_DIST += $(SBX_LINTS) tests/lint/source.py
