# what tries to get around the egress proxy; `run` prints it as a table
TESTS += tests/gauntlet/test_gauntlet.py
EXTRA_DIST += tests/gauntlet/test_gauntlet.py tests/gauntlet/run \
	tests/gauntlet/clients.py tests/gauntlet/framing.py \
	tests/gauntlet/gauntlet.py tests/gauntlet/git.py \
	tests/gauntlet/githost.py tests/gauntlet/hello.py \
	tests/gauntlet/inside.py \
	tests/gauntlet/names.py tests/gauntlet/ours.py \
	tests/gauntlet/rivals.py tests/gauntlet/technique.py \
	tests/gauntlet/tls.py tests/gauntlet/world.py \
	tests/gauntlet/RESULTS.md
