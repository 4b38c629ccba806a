#!/usr/bin/env python3
"""Many sandboxes at once.

	bench_many.py [N]		SBX_BENCH_MANY, 200

Prints one JSON object a line: how fast they are made, what one costs in
memory (its processes' own pages, all processes' share, and what the machine
has less), how long a command takes among the idle ones and in each of them,
and how long the end takes.  `cpus`: what it ran on; pin it to two with
taskset -c 0,1.
"""
import json
import os
import statistics
import sys
import tempfile
import time

SRC = os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

N = int(sys.argv[1] if len(sys.argv) > 1 else
        os.environ.get("SBX_BENCH_MANY", "200"))
EXECS = 100


def report(name, unit, value, **more):
    print(json.dumps(dict({"name": name, "unit": unit, "sandboxes": N,
                           "median": round(value, 3),
                           "cpus": len(os.sched_getaffinity(0))}, **more)),
          flush=True)


def p95(samples):
    return sorted(samples)[int(len(samples) * 0.95) - 1]


def rollup(pid, what):
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith(what + ":"))
    except (OSError, StopIteration):
        return 0


def available_kib():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith("MemAvailable:"))


def kernel_kib(pid):
    """what the kernel counts for the groups of the suite, v1 or v2; None"""
    total = None
    try:
        with open("/proc/%d/cgroup" % pid) as f:
            lines = [x.strip().split(":", 2) for x in f]
    except OSError:
        return None
    for _, names, path in lines:
        for base, file in (("/sys/fs/cgroup/memory", "memory.kmem."
                            "usage_in_bytes"),
                           ("/sys/fs/cgroup", "memory.stat")):
            name = base + path + "/" + file
            if ("memory" not in names.split(",")) == (base[-1] == "y") or \
                    not os.path.exists(name):
                continue
            with open(name) as f:
                text = f.read()
            if file == "memory.stat":
                text = next((x.split()[1] for x in text.splitlines()
                             if x.startswith("kernel ")), "0")
            total = int(text) >> 10
    return total


def exec_ms(s, box):
    began = time.perf_counter()
    r = s.call("sandbox_exec", container_id=box, argv=["true"])
    assert r["status"] == "ok", r
    return (time.perf_counter() - began) * 1000


def main():
    root = tempfile.mkdtemp(prefix="sbx-bench-")
    s = mcp.Suite(root=root)
    time.sleep(1)
    free, pss = available_kib(), sum(rollup(p, "Pss") for p in
                                     mcp.tree(s.pid))
    one = s.call("sandbox_initialize")["container_id"]
    alone = [exec_ms(s, one) for _ in range(EXECS)]
    boxes, times = [one], []
    began = time.perf_counter()
    for _ in range(N - 1):
        t = time.perf_counter()
        r = s.call("sandbox_initialize")
        times.append((time.perf_counter() - t) * 1000)
        assert r["status"] == "ok", (len(boxes), r)
        boxes.append(r["container_id"])
    took = time.perf_counter() - began
    report("many_create", "ms", statistics.median(times), p95=round(
        p95(times), 3), per_second=round((N - 1) / took, 1))
    time.sleep(1)
    inits = s.processes().get("sbx-init", [])
    report("many_init_private", "KiB", statistics.median(
        rollup(p, "Private_Dirty") + rollup(p, "Private_Clean")
        for p in inits))
    report("many_pss", "KiB", (sum(rollup(p, "Pss") for p in
                                   mcp.tree(s.pid)) - pss) / N,
           suite_idle=pss)
    report("many_available", "KiB", (free - available_kib()) / N)
    kernel = [k for k in map(kernel_kib, inits) if k is not None]
    if kernel:
        report("many_kernel", "KiB", statistics.median(kernel))
    among = [exec_ms(s, one) for _ in range(EXECS)]
    report("many_exec", "ms", statistics.median(among), p95=round(
        p95(among), 3), alone=round(statistics.median(alone), 3), ratio=round(
        statistics.median(among) / statistics.median(alone), 2))
    each = [exec_ms(s, b) for b in boxes]
    report("many_exec_each", "ms", statistics.median(each),
           p95=round(p95(each), 3))
    pids = [p for p in mcp.tree(s.pid) if p != s.pid]
    began = time.perf_counter()
    s.close(timeout=30)
    while any(mcp.alive(p) for p in pids) and \
            time.perf_counter() - began < 60:
        time.sleep(0.01)
    left = sum(mcp.alive(p) for p in pids)
    report("many_end", "ms", (time.perf_counter() - began) * 1000, left=left)
    mcp.remove(root)
    return 1 if left else 0


sys.exit(main())
