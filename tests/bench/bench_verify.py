#!/usr/bin/env python3
"""What verify_in_container takes beside the runner, of small projects.

One JSON object a line.  median, p95: the call without the runner's own time,
which is what the tool says of it (`seconds` of its step).  whole: the call.
rival_median: the bare runner by sandbox_exec of the same suite, a sample after
each of ours; over: whole without that.  SBX_BENCH_RUNS: samples of each (10).
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
    "make": ("make", ["make", "-k", "check"], "printf 'check:\\n\\t@printf \"1..1\\\\nok 1\\\\n\"\\n' >Makefile"),
    "python": ("pytest", ["python3", "-m", "pytest", "-q"], "touch setup.py; printf 'def test_a():\\n    pass\\n' >test_a.py"),
    "node": ("node", ["node", "--test"], "echo '{}' >package.json; "
             "echo 'require(\"node:test\")(\"a\", () => {});' >a.test.js"),
}


def present(tool):
    if tool == "pytest":
        return subprocess.run(["/usr/bin/python3", "-c", "import pytest"],
                              stderr=subprocess.DEVNULL,
                              check=False).returncode == 0
    return shutil.which(tool, path="/usr/bin:/bin") is not None


def p95(values):
    return sorted(values)[max(0, int(len(values) * 0.95) - 1)]


def bare(s, box, name, argv):
    began = time.perf_counter()
    r = s.call("sandbox_exec", 120, container_id=box, argv=argv,
               working_dir="/workspace/" + name)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return (time.perf_counter() - began) * 1000


def measure(s, box, name, argv):
    beside, whole, rival = [], [], []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        r = s.call("verify_in_container", 120, container_id=box,
                   working_dir="/workspace/" + name)
        ms = (time.perf_counter() - began) * 1000
        if r["status"] != "ok":
            raise RuntimeError(r)
        whole.append(ms)
        beside.append(ms - 1000 * sum(t["seconds"] for t in r["tests"]))
        rival.append(bare(s, box, name, argv))
    # the first one warms up
    median = [statistics.median(v[1:]) for v in (beside, whole, rival)]
    print(json.dumps({
        "name": f"verify_beside_runner_{name}", "unit": "ms", "runs": RUNS,
        "median": round(median[0], 1), "p95": round(p95(beside[1:]), 1),
        "aim": AIM_MS, "whole": round(median[1], 1),
        "rival": "sandbox_exec " + " ".join(argv),
        "rival_median": round(median[2], 1),
        "over": round(median[1] - median[2], 1)}), flush=True)


def main():
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", cpus=os.cpu_count()) \
            if os.geteuid() == 0 else s.call("sandbox_initialize")
        box = box.get("container_id") or \
            s.call("sandbox_initialize")["container_id"]
        for name, (tool, argv, make) in PROJECTS.items():
            if not present(tool):
                continue
            s.call("sandbox_exec", container_id=box, commands=[
                f"mkdir {name} && cd {name} && {make}; git init -q . && "
                "git add . && git -c user.name=x -c user.email=x@x commit "
                "-qm a && echo >>README"])
            measure(s, box, name, argv)


main()
