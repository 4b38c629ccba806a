#!/usr/bin/env python3
"""Figures of a whole suite, each beside a rival measured in the same run.

Prints one JSON object a line: name, unit, median and p95 of `runs` samples,
and where there is a rival its name, median and the ratio of the medians.
SBX_BENCH_RUNS: samples of each (50).
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD, SRC = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "50"))


def timed(action):
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def p95(samples):
    return sorted(samples)[int(len(samples) * 0.95) - 1]


def report(name, unit, samples, aim, rival=None, rival_samples=None):
    line = {"name": name, "unit": unit, "runs": len(samples), "aim": aim,
            "median": round(statistics.median(samples), 3),
            "p95": round(p95(samples), 3)}
    if rival:
        line["rival"] = rival
        line["rival_median"] = round(statistics.median(rival_samples), 3)
        line["ratio"] = round(line["median"] / line["rival_median"], 2)
    print(json.dumps(line), flush=True)


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("Pss:"))


def tree(pid):
    """pid and everything below it"""
    kids = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                kids.setdefault(parent, []).append(int(entry))
            except OSError:
                pass
    todo, seen = [pid], []
    while todo:
        seen.append(todo.pop())
        todo += kids.get(seen[-1], [])
    return seen


def suite_pss(pid):
    total = 0
    for p in tree(pid):
        try:
            total += pss_kib(p)
        except OSError:
            pass    # ended meanwhile
    return total


def bwrap_true():
    subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
                   check=True)


def fork_exec_true():
    pid = os.posix_spawn("/usr/bin/true", ["true"], {})
    os.waitpid(pid, 0)


def create(client):
    ours, theirs = [], []
    for _ in range(RUNS):
        made = {}

        def start():
            made.update(client.call("sandbox_initialize"))
        ours.append(timed(start))
        assert made["status"] == "ok", made
        theirs.append(timed(bwrap_true))
        client.call("sandbox_stop", container_id=made["container_id"],
                    force=True)
    report("sandbox_initialize", "ms", ours, "ratio 1.0",
           "bwrap --unshare-all --ro-bind / / true", theirs)


def calls(client, box):
    ours, theirs, quick = [], [], []
    for _ in range(RUNS):
        ours.append(timed(lambda: client.call(
            "sandbox_exec", container_id=box, argv=["true"])))
        theirs.append(timed(fork_exec_true))
        quick.append(timed(lambda: client.call("sandbox_list_containers")))
    report("sandbox_exec_true", "ms", ours, "ratio 2.0", "fork+exec of true",
           theirs)
    report("tools_call_no_sandbox", "ms", quick, "0.3 ms")


def memory(client):
    idle = suite_pss(client.pid)
    report("suite_pss_idle", "KiB", [idle], "12288 KiB")
    boxes = [client.call("sandbox_initialize")["container_id"]
             for _ in range(20)]
    time.sleep(0.2)
    report("sandbox_pss_idle", "KiB", [(suite_pss(client.pid) - idle) / 20],
           "1024 KiB")
    for box in boxes:
        client.call("sandbox_stop", container_id=box, force=True)


def main():
    root = tempfile.mkdtemp(prefix="sbx-bench-")
    os.chmod(root, 0o755)
    client = mcp.Client([f"{BUILD}/sbx", "mcp", "--private"],
                        env=dict(os.environ, SBX_ROOT=root))
    try:
        time.sleep(0.5)
        memory(client)
        time.sleep(1)       # what it stopped is deleted in the background
        box = client.call("sandbox_initialize")["container_id"]
        calls(client, box)
        create(client)
    finally:
        client.close()
        shutil.rmtree(root, ignore_errors=True)


main()
