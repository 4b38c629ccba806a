#!/usr/bin/env python3
"""What a private clone takes through a courier, beside plain git that has the
token itself, from the same server on this machine.

	bench_clone.py [MiB]

Prints JSON lines like bench.py, never a verdict: seconds of both in turns and
their ratio, and the most memory of the proxy and of a courier meanwhile.
SBX_BENCH_CLONE_MB: 256 by default; the aim (a ratio of 1.15) is for 1024.  The
repository cannot be compressed, so it is the bytes that are measured.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

MIB = int(sys.argv[1] if len(sys.argv) > 1 else
          os.environ.get("SBX_BENCH_CLONE_MB", "256"))
ROUNDS = 2
WATCHED = {"sbx-proxy": "proxy", "sbx-broker-cour": "courier"}


class Peaks(threading.Thread):
    """VmHWM of what lives only as long as an exchange"""

    def __init__(self, suite):
        super().__init__(daemon=True)
        self.suite, self.kib, self.over = suite, {}, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            for name, pids in self.suite.processes().items():
                for pid in pids if name in WATCHED else ():
                    self.look(WATCHED[name], pid)

    def look(self, name, pid):
        try:
            with open("/proc/%d/status" % pid) as f:
                for line in f:
                    if line.startswith("VmHWM:"):
                        self.kib[name] = max(self.kib.get(name, 0),
                                             int(line.split()[1]))
        except OSError:
            pass    # it ended


def direct(gh, token):
    home = tempfile.mkdtemp(prefix="bench-clone-")
    auth = base64.b64encode(b"x-access-token:" + token.text.encode()).decode()
    began = time.monotonic()
    r = subprocess.run(
        ["git", "-c", "http.curloptResolve=github.com:%d:127.0.0.1" % gh.port,
         "-c", "http.sslCAInfo=%s/root.pem" % gh.ca.dir,
         "-c", "http.extraHeader=Authorization: Basic " + auth, "clone", "-q",
         "https://github.com:%d/acme/big" % gh.port, home + "/big"],
        env={"PATH": os.environ["PATH"], "HOME": home,
             "GIT_TERMINAL_PROMPT": "0"}, stdin=subprocess.DEVNULL,
        timeout=1800)
    took = time.monotonic() - began
    shutil.rmtree(home, ignore_errors=True)
    return took if r.returncode == 0 else None


def through(s):
    """seconds, or why not"""
    box = s.call("sandbox_initialize", allow_network=True)["container_id"]
    began = time.monotonic()
    r = s.call("clone_repo", container_id=box, repo="acme/big", timeout=1800)
    while r.get("status") == "running" and time.monotonic() - began < 1800:
        time.sleep(0.2)
        r = s.call("sandbox_exec_check", container_id=box,
                   job_id=r.get("job_id") or r["run_id"], timeout=1800)
    took = time.monotonic() - began
    s.call("sandbox_stop", container_id=box, force=True)
    return took if r.get("status") == "ok" else r


def measure(gh, s, token):
    times = {"direct": [], "sbx": []}
    peaks = Peaks(s)
    for _ in range(ROUNDS):
        for name, value in (("direct", direct(gh, token)),
                            ("sbx", through(s))):
            if not isinstance(value, float):
                print(json.dumps({"name": "clone", "failed": str(value)}))
                return
            times[name].append(value)
    peaks.over.set()
    peaks.join(5)
    best = {k: min(v) for k, v in times.items()}
    print(json.dumps({"name": "clone_%d_mib" % MIB, "unit": "s",
                      "sbx": round(best["sbx"], 3),
                      "direct": round(best["direct"], 3),
                      "ratio": round(best["sbx"] / best["direct"], 3)}))
    print(json.dumps({"name": "clone_peak", "unit": "KiB", **peaks.kib}),
          flush=True)


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        print(json.dumps({"name": "clone", "skipped": str(e)}))
        return
    gh = fakegithub.Github(ca, validate=False)
    try:
        gh.repo("acme/big", private=True).large(MIB)
        token = gh.static(["acme/big"])
        path = gh.put("token", token.text + "\n")
        with mcp.Suite(conf=gh.conf() + "allowed_repo acme/big\n"
                       "github_token_file %s\n" % path,
                       stderr=subprocess.DEVNULL) as s:
            measure(gh, s, token)
    finally:
        gh.close()
        ca.close()


if __name__ == "__main__":
    main()
