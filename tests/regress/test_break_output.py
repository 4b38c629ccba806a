#!/usr/bin/env python3
"""Output that grows when it is made JSON: the result keeps its status.
Output that no disk has room for: the result says so."""
import json
import os
import subprocess
import sys
import tempfile

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ.setdefault("SBX_BUILD", os.getcwd())
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

tap = mcp.Tap()
MAX_RESULT = 4 << 20
BINARY = [
    "head -c 3000000 /dev/zero",
    "head -c 3000000 /dev/zero | tee /dev/stderr",
    "head -c 3000000 /dev/zero | tr '\\0' '\\177' | fold -w 900",
    "head -c 3000000 /dev/zero | tr '\\0' '\"' | fold -w 900 | cat -n",
    "head -c 3000000 /dev/zero | tr '\\0' '\\001' | fold -w 70 | cat -n >&2",
]


def test(s, box):
    for command in BINARY:
        for view in ({}, {"max_lines": 10000}, {"verbose": "full"},
                     {"verbose": "error_only", "max_lines": 10000},
                     {"max_output_tokens": 1000000}):
            r = s.call("sandbox_exec", container_id=box,
                       commands=[command + "; exit 3"], **view)
            good = r.get("exit_code") == 3 and "run_id" in r and \
                len(json.dumps(r)) < MAX_RESULT
            tap.ok(good, f"{command} {view}: shown as far as it fits",
                   {k: v for k, v in r.items() if k != "output"})
    r = s.call("read_output", run_id=r["run_id"], stream="stderr", limit=10)
    tap.ok(r.get("shown") == 10, "and is read page by page", r)


def test_full():
    directory = tempfile.mkdtemp(prefix="sbx-full-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none",
                    directory], check=True)
    tempfile.tempdir = directory
    try:
        with mcp.Suite(stderr=subprocess.DEVNULL) as s:
            box = s.call("sandbox_initialize")["container_id"]
            s.call("sandbox_exec", container_id=box,
                   commands=["head -c 32M /dev/zero >/workspace/x || :"])
            for command, lost in (("echo hi", 3), ("echo hi >&2", 3),
                                  ("head -c 100000 /dev/zero", 100000)):
                r = s.call("sandbox_exec", container_id=box,
                           commands=[command])
                tap.ok(r.get("exit_code") == 0 and
                       r["out_bytes"] + r["err_bytes"] +
                       r.get("dropped_bytes", 0) == lost,
                       "full disk: " + command + " tells what was lost", r)
            s.call("sandbox_exec", container_id=box,
                   commands=["rm -f /workspace/x"])
            r = s.call("sandbox_exec", container_id=box, commands=["echo hi"])
            tap.ok(r["output"] == "hi\n" and "dropped_bytes" not in r,
                   "with room again, nothing is lost", r)
    finally:
        tempfile.tempdir = None
        subprocess.run(["umount", "-l", directory], check=True)
        os.rmdir(directory)


with mcp.Suite() as suite:
    test(suite, suite.call("sandbox_initialize")["container_id"])
if os.getuid() == 0:        # only root can mount
    test_full()
tap.done()
sys.exit(tap.bad != 0)
