#!/usr/bin/env python3
"""What publish itself takes, by what is declared, without a verification.

	bench_publish.py [FILESxBYTES ...]

Prints JSON lines like bench.py, never a verdict: seconds until each record of the
journal (verdict: base fetched, files crossed and judged; push: commit made twice)
and of the whole call, or what refused it.
By default 100 files of 10,000 bytes.
"""
import json
import os
import subprocess
import sys
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

REPO = "acme/publish"
# lines of text, in directories of 200 files; $1 files of $2 bytes
MAKE = r"""python3 - $1 $2 <<'X'
import os, random, sys
n, size = int(sys.argv[1]), int(sys.argv[2])
random.seed(1)
some = "\n".join("line %x of a text" % random.getrandbits(60)
                 for i in range(4096)) + "\n"
for i in range(n):
    os.makedirs("d%d" % (i // 200), exist_ok=True)
    with open("d%d/f%d" % (i // 200, i), "w") as f:
        f.write("%d\n" % i + (some * (size // len(some) + 1))[:size])
X"""


def one(s, spec):
    files, size = (int(x) for x in spec.split("x"))
    box = s.call("sandbox_initialize", allow_network=True, mem_limit="4g",
                 cpus=os.cpu_count(), disk_limit="8g")["container_id"]
    at = s.call("clone_repo", container_id=box, repo=REPO)["clone_path"]
    s.call("sandbox_exec", container_id=box, working_dir=at, timeout=600,
           commands=[MAKE.replace("$1", str(files)).replace("$2", str(size))])
    args = {"container_id": box, "repo": REPO, "branch": "b" + spec,
            "message": "More.", "working_dir": at,
            "files": ["d%d/f%d" % (i // 200, i) for i in range(files)]}
    began = time.monotonic()
    r = s.call("publish", timeout=600, **args)
    while r.get("status") == "running":
        r = s.call("publish", timeout=600, run_id=r["run_id"], **args)
    took = time.monotonic() - began
    s.call("sandbox_stop", container_id=box, force=True)
    out = {"name": "publish_" + spec, "unit": "s", "all": round(took, 3)}
    if r.get("status") != "ok":
        return {**out, "failed": r.get("error")}
    v = [x for x in s.journal() if x["op"] == "publish" and
         x["run_id"] == r["run_id"]]
    for x in v[1:]:
        out[x["phase"]] = round((x["mono_ns"] - v[0]["mono_ns"]) / 1e9, 3)
    return out


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        print(json.dumps({"name": "publish", "skipped": str(e)}))
        return
    gh = fakegithub.Github(ca, validate=False)
    try:
        gh.repo(REPO, private=True, files={"a": "1\n"})
        path = gh.put("token", gh.static([REPO]).text + "\n")
        with mcp.Suite(conf=gh.conf() + "allowed_repo %s\nverify_gate off\n"
                       "github_token_file %s\n" % (REPO, path),
                       stderr=subprocess.DEVNULL) as s:
            for spec in sys.argv[1:] or ["100x10000"]:
                print(json.dumps(one(s, spec)), flush=True)
    finally:
        gh.close()
        ca.close()


if __name__ == "__main__":
    main()
