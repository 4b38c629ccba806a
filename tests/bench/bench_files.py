#!/usr/bin/env python3
"""read_file_range and list_files beside the bare command in the same sandbox,
timed inside of it: sed -n, tail, find.

A file of 100,000 lines, one of 2 GB, and a tree of 100,000 files.  One JSON
object a line, as bench.py prints them: milliseconds more than the rival in
`more`.  SBX_BENCH_RUNS: samples of each (9).
"""
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "9"))
MAKE = """
import os
os.chdir('/workspace')
with open('lines', 'w') as f:
    for i in range(100000):
        f.write('line %d of a file with a hundred thousand of them\\n' % i)
with open('large', 'wb') as f:
    block = b'0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\\n'
    block *= 16384
    for _ in range(2048):
        f.write(block)
for d in range(100):
    os.makedirs('tree/%d' % d)
    for i in range(1000):
        open('tree/%d/%d' % (d, i), 'w').close()
"""
# the rival's time, without the start of Python
TIME = """
import subprocess, time
for _ in range(%d):
    t = time.perf_counter()
    subprocess.run(%r, shell=True, stdout=subprocess.DEVNULL)
    print((time.perf_counter() - t) * 1000)
"""


class Bench:
    def __init__(self, s, box):
        self.s, self.box = s, box

    def bare(self, command):
        r = self.s.call("run_python", container_id=self.box, timeout=600,
                        code=TIME % (RUNS, command))
        if r["status"] != "ok":
            raise SystemExit(r)
        return [float(x) for x in r["output"].split()]

    def ours(self, tool, kw):
        out = []
        for _ in range(RUNS):
            began = time.perf_counter()
            r = self.s.call(tool, container_id=self.box, **kw)
            out.append((time.perf_counter() - began) * 1000)
            if r["status"] != "ok":
                raise SystemExit(r)
        return out

    def report(self, name, command, tool, **kw):
        rival, ours = self.bare(command), self.ours(tool, kw)
        line = {"name": name, "unit": "ms", "runs": RUNS,
                "median": round(statistics.median(ours), 2),
                "max": round(max(ours), 2), "rival": command,
                "rival_median": round(statistics.median(rival), 2)}
        line["more"] = round(line["median"] - line["rival_median"], 2)
        print(json.dumps(line), flush=True)


def wait(s, box, job):
    """until a job ended"""
    while True:
        r = s.call("sandbox_exec_check", container_id=box, job_id=job,
                   wait=20)
        if r["status"] != "running":
            return r


def main():
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", cpus=2)["container_id"]
        job = s.call("sandbox_exec_background", container_id=box,
                     argv=["python3", "-c", MAKE])["job_id"]
        r = wait(s, box, job)
        if r["status"] != "ok":
            raise SystemExit(r)
        b = Bench(s, box)
        b.report("read_range", "sed -n 50001,50050p lines",
                 "read_file_range", file_path="lines", start_line=50001,
                 end_line=50050)
        b.report("read_tail", "tail -n 50 lines; wc -l lines",
                 "read_file_range", file_path="lines", tail_lines=50)
        b.report("read_range_2g", "sed -n 1000001,1000050p large",
                 "read_file_range", file_path="large", start_line=1000001,
                 end_line=1000050)
        b.report("read_tail_2g", "tail -n 50 large; wc -l large",
                 "read_file_range", file_path="large", tail_lines=50)
        b.report("list_100000", "find tree -type f | sort",
                 "list_files", path="tree")
        # removing them takes longer than the suite's end may
        job = s.call("sandbox_exec_background", container_id=box,
                     argv=["rm", "-r", "tree", "large"])["job_id"]
        wait(s, box, job)


if __name__ == "__main__":
    main()
