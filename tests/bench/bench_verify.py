#!/usr/bin/env python3
"""What verify_in_container takes beside the runner, of small projects.

One JSON object a line: name, unit, median and p95 of `runs` samples.  The
runner's own time is what the tool says of it (`seconds` of its step).
SBX_BENCH_RUNS: samples of each (10).
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

BUILD, SRC = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "10"))
AIM_MS = 150
PROJECTS = {
    "make": ("make", "printf 'check:\\n\\t@printf \"1..1\\\\nok 1\\\\n\"\\n' >Makefile"),
    "python": ("pytest", "touch setup.py; printf 'def test_a():\\n    pass\\n' >test_a.py"),
    "node": ("node", "echo '{}' >package.json; "
             "echo 'require(\"node:test\")(\"a\", () => {});' >a.test.js"),
}


def present(tool):
    if tool == "pytest":
        return subprocess.run(["/usr/bin/python3", "-c", "import pytest"],
                              stderr=subprocess.DEVNULL,
                              check=False).returncode == 0
    return shutil.which(tool, path="/usr/bin:/bin") is not None


def measure(s, box, name):
    beside = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        r = s.call("verify_in_container", 120, container_id=box,
                   working_dir="/workspace/" + name)
        ms = (time.perf_counter() - began) * 1000
        if r["status"] != "ok":
            raise RuntimeError(r)
        beside.append(ms - 1000 * sum(t["seconds"] for t in r["tests"]))
    beside = sorted(beside[1:])     # the first one warms up
    print(json.dumps({
        "name": f"verify_beside_runner_{name}", "unit": "ms", "runs": RUNS,
        "median": round(statistics.median(beside), 1),
        "p95": round(beside[max(0, int(RUNS * 0.95) - 1)], 1),
        "aim": AIM_MS}), flush=True)


def main():
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", cpus=os.cpu_count()) \
            if os.geteuid() == 0 else s.call("sandbox_initialize")
        box = box.get("container_id") or \
            s.call("sandbox_initialize")["container_id"]
        for name, (tool, make) in PROJECTS.items():
            if not present(tool):
                continue
            s.call("sandbox_exec", container_id=box, commands=[
                f"mkdir {name} && cd {name} && {make}; git init -q . && "
                "git add . && git -c user.name=x -c user.email=x@x commit "
                "-qm a && echo >>README"])
            measure(s, box, name)


main()
