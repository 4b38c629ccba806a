# clients that people use, driving the suite; tests/lib/node.py finds them
INTEROP_TESTS = tests/interop/test_sdk_stdio.py \
	tests/interop/test_sdk_http.py tests/interop/test_inspector.py \
	tests/interop/test_mcp_remote.py tests/interop/test_agents.py \
	tests/interop/test_clients_egress.py tests/interop/test_loop.py \
	tests/interop/test_fakegithub.py tests/interop/test_github.py \
	tests/interop/test_publish.py tests/interop/test_pushes.py \
	tests/interop/test_pipeline.py
TESTS += $(INTEROP_TESTS)
EXTRA_DIST += $(INTEROP_TESTS) tests/interop/clients.mjs \
	tests/interop/cutter.mjs tests/interop/loop.mjs tests/interop/tour.mjs \
	tests/interop/pipeline.mjs \
	tests/interop/package.json tests/interop/package-lock.json \
	tests/interop/agents/package.json \
	tests/interop/agents/package-lock.json tests/interop/openapi.mjs \
	tests/lib/fakegithub.py tests/lib/model.py tests/lib/node.py

# what test runners wrote, for test_report and the fuzzer's corpus
EXTRA_DIST += tests/interop/reports
