#!/usr/bin/env python3
"""search_in_container, diff_in_container and run_python beside what they run,
started by sandbox_exec of the same suite as argv.  One JSON object a line."""
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "30"))
MAKE = """
import os
for d in range(20):
    os.makedirs("src/d%d" % d)
    for i in range(50):
        with open("src/d%d/%d.py" % (d, i), "w") as f:
            f.write("import os\\n" * 20 + "needle = %d\\n" % i * (i == 7))
"""


def timed(s, tool, **arguments):
    began = time.perf_counter()
    r = s.call(tool, **arguments)
    if r["status"] != "ok":
        raise SystemExit(r)
    return (time.perf_counter() - began) * 1000


def compare(s, box, tool, arguments, argv, suffix=""):
    """A sample of the rival after each of ours: both have the same noise."""
    mine, bare = [], []
    timed(s, tool, **arguments, **box)
    timed(s, "sandbox_exec", argv=argv, **box)
    for _ in range(RUNS):
        mine.append(timed(s, tool, **arguments, **box))
        bare.append(timed(s, "sandbox_exec", argv=argv, **box))
    a, b = statistics.median(mine), statistics.median(bare)
    print(json.dumps({
        "name": tool + suffix, "unit": "ms", "runs": RUNS,
        "median": round(a, 2), "max": round(max(mine), 2),
        "rival": "sandbox_exec " + " ".join(argv),
        "rival_median": round(b, 2), "over": round(a - b, 2)}), flush=True)


def main():
    with mcp.Suite() as s:
        box = {"container_id": s.call("sandbox_initialize", cpus=2)[
            "container_id"]}
        timed(s, "run_python", code=MAKE, **box)
        timed(s, "sandbox_exec", commands=["git init -q"], **box)
        compare(s, box, "search_in_container", {"pattern": "needle"},
                ["rg", "--json", "-e", "needle", "--", "."])
        # 1,000 files that git does not know, and then one change
        compare(s, box, "diff_in_container", {},
                ["git", "status", "--porcelain", "-uall"], "_untracked")
        timed(s, "sandbox_exec", commands=[
            "git add . && git -c user.name=x -c user.email=x@x commit -qm a "
            "&& echo >>src/d0/0.py"], **box)
        compare(s, box, "diff_in_container", {},
                ["git", "diff", "--raw", "--numstat", "-z", "HEAD"])
        compare(s, box, "run_python", {"code": "1"}, ["python3", "-c", "1"])


main()
