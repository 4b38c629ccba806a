#!/usr/bin/env python3
"""Snapshot, fork and restore of a tree of 1 GB, beside `cp -a`.

The tree: 8 files of 100 MB and 20,000 of 10 KB in 200 directories.  The rival
copies the same tree on the same filesystem in the same run.  One JSON object a
line, as bench.py prints them.  SBX_BENCH_RUNS: samples of each (5).
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SRC = os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "5"))
MAKE = """
import os, sys
os.chdir(sys.argv[1])
for i in range(8):
    with open("large%d" % i, "wb") as f:
        for _ in range(100):
            f.write(os.urandom(1 << 20))
for d in range(200):
    os.makedirs("d%d" % d)
    for i in range(100):
        with open("d%d/%d" % (d, i), "wb") as f:
            f.write(os.urandom(10240))
"""


def timed(action):
    began = time.perf_counter()
    result = action()
    ms = (time.perf_counter() - began) * 1000
    if isinstance(result, dict) and result.get("status") != "ok":
        raise SystemExit(result)
    return ms, result


def report(name, samples, rival, rival_samples, **more):
    line = {"name": name, "unit": "ms", "runs": len(samples),
            "median": round(statistics.median(samples), 1),
            "max": round(max(samples), 1), "rival": rival,
            "rival_median": round(statistics.median(rival_samples), 1), **more}
    line["ratio"] = round(line["median"] / line["rival_median"], 4)
    print(json.dumps(line), flush=True)


def main():
    root = tempfile.mkdtemp(prefix="sbx-bench-")
    s = mcp.Suite(root=root)
    try:
        tree = root + "/tree"
        os.mkdir(tree)
        subprocess.run([sys.executable, "-c", MAKE, tree], check=True)
        copy = []
        for _ in range(RUNS):
            copy.append(timed(lambda: subprocess.run(
                ["cp", "-a", "--reflink=auto", tree, root + "/copy"],
                check=True))[0])
            shutil.rmtree(root + "/copy")
        shutil.rmtree(tree)
        box = s.call("sandbox_initialize")["container_id"]
        s.call("sandbox_exec", container_id=box, timeout=300,
               argv=["python3", "-c", MAKE, "/workspace"])
        took = {"stacked": [], "live copy": [], "restore": [], "fork": [],
                "fork of 8, each": []}
        method = ""
        for i in range(RUNS):
            job = s.call("sandbox_exec_background", container_id=box,
                         commands=["sleep 1000"])["job_id"]
            ms, r = timed(lambda: s.call("sandbox_snapshot",
                                         container_id=box))
            took["live copy"].append(ms)
            method, copied = r["method"], r["bytes"]
            s.call("sandbox_drop_snapshot", snapshot=r["snapshot_id"])
            s.call("sandbox_exec_kill", container_id=box, job_id=job)
            if i + 1 < RUNS:
                time.sleep(1)   # what was dropped is being deleted
        keep = s.call("sandbox_snapshot", container_id=box)["snapshot_id"]
        for _ in range(RUNS):
            s.call("sandbox_exec", container_id=box,
                   commands=["rm -rf d1 large0; echo x >d2/0"])
            took["restore"].append(timed(lambda: s.call(
                "sandbox_restore", container_id=box, snapshot=keep,
                force=True))[0])
            ms, r = timed(lambda: s.call("sandbox_fork", snapshot=keep))
            took["fork"].append(ms)
            ms, q = timed(lambda: s.call("sandbox_fork", snapshot=keep,
                                         count=8))
            took["fork of 8, each"].append(ms / 8)
            for f in r["sandboxes"] + q["sandboxes"]:
                s.call("sandbox_stop", container_id=f["container_id"],
                       force=True)
        # each of these has the whole tree in what it keeps
        for _ in range(RUNS):
            f = s.call("sandbox_initialize")["container_id"]
            s.call("sandbox_exec", container_id=f, timeout=300,
                   argv=["python3", "-c", MAKE, "/workspace"])
            ms, r = timed(lambda: s.call("sandbox_snapshot", container_id=f))
            took["stacked"].append(ms)
            assert r["method"] == "stacked", r
            s.call("sandbox_drop_snapshot", snapshot=r["snapshot_id"])
            s.call("sandbox_stop", container_id=f, force=True)
        rival = "cp -a --reflink=auto"
        report("snapshot, no process (stacked)", took["stacked"], rival, copy)
        report("snapshot, live job (%s)" % method, took["live copy"], rival,
               copy, bytes=copied)
        report("restore", took["restore"], rival, copy)
        report("fork", took["fork"], rival, copy)
        report("fork of 8, each", took["fork of 8, each"], rival, copy)
    finally:
        s.close()
        mcp.remove(root)


if __name__ == "__main__":
    main()
