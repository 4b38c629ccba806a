#!/usr/bin/env python3
"""What a push takes by a grant, from a sandbox through the proxy and a courier,
beside plain git that has the token itself, to the same server on this machine.

	bench_push.py [MiB ...]

Prints JSON lines like bench.py, never a verdict: for each size seconds of all in
turns and the ratio of ours to plain git, CPU seconds of a push and the most
memory of proxy and couriers, which should not grow with the size, and the load
before.  Where squid is installed (squid-openssl), plain git through it, too.
SBX_BENCH_PUSH_MB: 2 by default; the aim (a ratio of 1.15) is for 1024.  What is
pushed cannot be compressed, and stands in a pack already.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SRC, "tests", "lib"),
                os.path.join(SRC, "tests", "bench")]
SIZES = [int(x) for x in sys.argv[1:] or
         os.environ.get("SBX_BENCH_PUSH_MB", "2").split()]
sys.argv[1:] = []
import bench_clone  # noqa: E402
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

ROUNDS = 2
REPO = "acme/push"
# $1 MiB: one more commit, in a pack of its own
MAKE = r"""set -e
git config user.name x; git config user.email x@example.invalid
git config core.compression 0; git config pack.window 0
git config core.bigFileThreshold 1m; git config gc.auto 0
left=$1; i=0; while [ $left -gt 0 ]; do n=$((left < 16 ? left : 16))
head -c ${n}M /dev/urandom >f$i; left=$((left - n)); i=$((i + 1)); done
git add -A; git commit -qm more; git repack -dq; git rev-parse HEAD"""


class Plain:
    """git with the token, from a directory of this machine"""

    def __init__(self, gh, token, mib):
        self.gh = gh
        self.home = tempfile.mkdtemp(prefix="bench-push-")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home,
                    "GIT_TERMINAL_PROMPT": "0"}
        auth = base64.b64encode(b"x-access-token:" +
                                token.text.encode()).decode()
        self.git = ["git", "-c", "http.curloptResolve=github.com:%d:127.0.0.1"
                    % gh.port, "-c", "http.sslCAInfo=%s/root.pem" % gh.ca.dir,
                    "-c", "http.extraHeader=Authorization: Basic " + auth]
        self.url = "https://github.com:%d/%s" % (gh.port, REPO)
        self.dir = self.home + "/push"
        subprocess.run([*self.git, "clone", "-q", self.url, self.dir],
                       env=self.env, check=True)
        subprocess.run(["bash", "-c", MAKE, "sbx", str(mib)], cwd=self.dir,
                       env=self.env, check=True, stdout=subprocess.DEVNULL)

    def push(self, options=()):
        began = time.monotonic()
        r = subprocess.run([*self.git, *options, "push", "-q", self.url,
                            "HEAD:refs/heads/new"], cwd=self.dir, env=self.env,
                           stdin=subprocess.DEVNULL, timeout=1800,
                           stderr=subprocess.PIPE)
        took = time.monotonic() - began
        return took if r.returncode == 0 else r.stderr.decode()

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)


class Ours:
    """a sandbox, with all of the machine: by default it gets a quarter"""

    def __init__(self, s, mib):
        self.s = s
        self.box = s.call("sandbox_initialize", allow_network=True,
                          cpus=os.cpu_count(), mem_limit="8g",
                          disk_limit="8g")["container_id"]
        r = s.call("clone_repo", container_id=self.box, repo=REPO)
        self.dir = r["clone_path"]
        self.commit = self.sh(MAKE.replace("$1", str(mib)))[0].split()[-1]

    def sh(self, command):
        """what it wrote, seconds"""
        began = time.monotonic()
        r = self.s.call("sandbox_exec", container_id=self.box, timeout=1800,
                        working_dir=self.dir, commands=[command])
        while r.get("status") == "running":
            time.sleep(0.1)
            r = self.s.call("sandbox_exec_check", container_id=self.box,
                            job_id=r["job_id"], timeout=1800)
        took = time.monotonic() - began
        if r.get("status") != "ok":
            raise RuntimeError(r)
        return r.get("output", ""), took

    def push(self):
        r = self.s.sbx("grant", "-t", "1800", self.box, "github.com/" + REPO,
                       "refs/heads/new", self.commit)
        if r.returncode:
            return r.stderr
        try:
            return self.sh("git push -q https://github.com/%s "
                           "HEAD:refs/heads/new" % REPO)[1]
        except RuntimeError as e:
            return str(e)

    def close(self):
        self.s.call("sandbox_stop", container_id=self.box, force=True)


def forget(repo):
    """so that all of it is sent again"""
    repo.git("update-ref", "-d", "refs/heads/new")
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")


def measure(mib, repo, ways, suite):
    times = {k: [] for k in ways}
    load = os.getloadavg()[0]
    peaks = bench_clone.Peaks(suite)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            value = way()
            if not isinstance(value, float):
                print(json.dumps({"name": "push_%d_mib" % mib, "way": name,
                                  "failed": str(value)}))
                return
            times[name].append(value)
            forget(repo)
    peaks.over.set()
    peaks.join(5)
    best = {k: min(v) for k, v in times.items()}
    print(json.dumps({"name": "push_%d_mib" % mib, "unit": "s",
                      **{k: round(v, 3) for k, v in best.items()},
                      "ratio": round(best["sbx"] / best["direct"], 3),
                      "load": round(load, 2)}))
    print(json.dumps({"name": "push_%d_mib_cpu" % mib, "unit": "s",
                      **peaks.cpu(ROUNDS)}))
    print(json.dumps({"name": "push_%d_mib_peak" % mib, "unit": "KiB",
                      **peaks.kib}), flush=True)


def size(mib, gh, repo, token, squid):
    path = gh.put("token", token.text + "\n")
    with mcp.Suite(conf=gh.conf() + "allowed_repo %s\ngithub_token_file %s\n" %
                   (REPO, path), stderr=subprocess.DEVNULL) as s:
        plain, ours = Plain(gh, token, mib), Ours(s, mib)
        ways = {"direct": plain.push, "sbx": ours.push}
        if squid:
            ways["squid"] = lambda: plain.push(squid.options())
        try:
            measure(mib, repo, ways, s)
        finally:
            plain.close()
            ours.close()


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        print(json.dumps({"name": "push", "skipped": str(e)}))
        return
    gh, squid = fakegithub.Github(ca, validate=False), None
    try:
        repo = gh.repo(REPO, private=True, files={"a": "1\n"})
        token = gh.static([REPO])
        if bench_clone.find("squid") and os.path.exists(
                bench_clone.Squid.HELPER):
            squid = bench_clone.Squid(gh)
        for mib in SIZES:
            size(mib, gh, repo, token, squid)
    finally:
        if squid:
            squid.close()
        gh.close()
        ca.close()


if __name__ == "__main__":
    main()
