TESTS += tests/interop/test_sdk.sh
EXTRA_DIST += tests/interop/test_sdk.sh tests/interop/tour.mjs \
	tests/interop/package.json tests/interop/package-lock.json
