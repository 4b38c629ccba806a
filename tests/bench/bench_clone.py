#!/usr/bin/env python3
"""What a private clone takes through a courier, beside plain git that has the
token itself, from the same server on this machine.

	bench_clone.py [MiB]

Prints JSON lines like bench.py, never a verdict: seconds of all in turns and
the ratio of ours to plain git; CPU seconds of a clone and the most memory of the
proxy and of couriers meanwhile.  Where squid is installed (squid-openssl), plain
git through it, which looks into the same TLS, too.
SBX_BENCH_CLONE_MB: 256 by default; the aim (a ratio of 1.15) is for 1024.  The
repository cannot be compressed, so it is the bytes that are measured.  The
host makes its pack once and sends it from a file, so that what it costs to make
one, which would be on another machine, is in nobody's time.
"""
import base64
import json
import os
import shutil
import socket
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
    """VmHWM and CPU of what lives only as long as an exchange"""

    def __init__(self, suite):
        super().__init__(daemon=True)
        self.suite, self.kib, self.over = suite, {}, threading.Event()
        self.ticks = {}     # {(name, pid): as of the last look}
        self.start()

    def run(self):
        while not self.over.wait(0.25):
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
            with open("/proc/%d/stat" % pid) as f:
                user, system = f.read().rpartition(")")[2].split()[11:13]
            self.ticks[name, pid] = int(user) + int(system)
        except OSError:
            pass    # it ended

    def cpu(self, clones):
        """{name: seconds for each of so many}"""
        return {n: round(sum(v for (m, _), v in self.ticks.items() if m == n)
                         / os.sysconf("SC_CLK_TCK") / clones, 3)
                for n in WATCHED.values()}


class Squid:
    """A proxy that looks into the same TLS, and no more than that; its client
    has the token."""
    HELPER = "/usr/lib/squid/security_file_certgen"

    def __init__(self, gh):
        self.dir = tempfile.mkdtemp(prefix="bench-clone-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.ca = self.dir + "/ca.crt"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
             "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj",
             "/CN=Test Interception"], cwd=self.dir, check=True,
            stderr=subprocess.DEVNULL)
        with open(self.dir + "/hosts", "w", encoding="ascii") as f:
            f.write("127.0.0.1 github.com\n")
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write("""http_port 127.0.0.1:%d ssl-bump \
generate-host-certificates=on tls-cert=%s/ca.crt tls-key=%s/ca.key
sslcrtd_program %s -s %s/certs -M 4MB
tls_outgoing_options cafile=%s/root.pem
hosts_file %s/hosts
acl hello at_step SslBump1
ssl_bump peek hello
ssl_bump bump all
http_access allow all
cache deny all
access_log none
cache_log %s/log
pid_filename none
shutdown_lifetime 0 seconds
""" % (self.port, self.dir, self.dir, self.HELPER, self.dir, gh.ca.dir,
                self.dir, self.dir))
        subprocess.run([self.HELPER, "-c", "-s", self.dir + "/certs", "-M",
                        "4MB"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["chmod", "-R", "a+rwX", self.dir], check=True)
        self.proc = subprocess.Popen(
            [find("squid"), "-N", "-f", self.dir + "/conf"], cwd=self.dir,
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.up()

    def up(self):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)

    def options(self):
        return ["-c", "http.proxy=http://127.0.0.1:%d" % self.port,
                "-c", "http.sslCAInfo=" + self.ca]

    def close(self):
        self.proc.terminate()
        self.proc.wait(20)
        shutil.rmtree(self.dir, ignore_errors=True)


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def direct(gh, token, options=()):
    home = tempfile.mkdtemp(prefix="bench-clone-")
    auth = base64.b64encode(b"x-access-token:" + token.text.encode()).decode()
    began = time.monotonic()
    r = subprocess.run(
        ["git", "-c", "http.curloptResolve=github.com:%d:127.0.0.1" % gh.port,
         "-c", "http.sslCAInfo=%s/root.pem" % gh.ca.dir,
         "-c", "http.extraHeader=Authorization: Basic " + auth, *options,
         "clone", "-q",
         "https://github.com:%d/acme/big" % gh.port, home + "/big"],
        env={"PATH": os.environ["PATH"], "HOME": home,
             "GIT_TERMINAL_PROMPT": "0"}, stdin=subprocess.DEVNULL,
        timeout=1800)
    took = time.monotonic() - began
    shutil.rmtree(home, ignore_errors=True)
    return took if r.returncode == 0 else None


def through(s):
    """seconds, or why not; with all of the machine, as the rivals have: by
    default a sandbox gets a quarter of it"""
    box = s.call("sandbox_initialize", allow_network=True,
                 cpus=os.cpu_count())["container_id"]
    began = time.monotonic()
    r = s.call("clone_repo", container_id=box, repo="acme/big", timeout=1800)
    while r.get("status") == "running" and time.monotonic() - began < 1800:
        time.sleep(0.2)
        r = s.call("sandbox_exec_check", container_id=box,
                   job_id=r.get("job_id") or r["run_id"], timeout=1800)
    took = time.monotonic() - began
    s.call("sandbox_stop", container_id=box, force=True)
    return took if r.get("status") == "ok" else r


def measure(ways, suite):
    """ways: {name: what takes so long}, "sbx" among them"""
    times = {k: [] for k in ways}
    peaks = Peaks(suite)
    for _ in range(ROUNDS):     # of the first one the pack is made
        for name, way in ways.items():
            value = way()
            if not isinstance(value, float):
                print(json.dumps({"name": "clone", "way": name,
                                  "failed": str(value)}))
                return
            times[name].append(value)
    peaks.over.set()
    peaks.join(5)
    best = {k: min(v) for k, v in times.items()}
    print(json.dumps({"name": "clone_%d_mib" % MIB, "unit": "s",
                      **{k: round(v, 3) for k, v in best.items()},
                      "ratio": round(best["sbx"] / best["direct"], 3)}))
    print(json.dumps({"name": "clone_cpu", "unit": "s",
                      **peaks.cpu(ROUNDS)}))
    print(json.dumps({"name": "clone_peak", "unit": "KiB", **peaks.kib}),
          flush=True)


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        print(json.dumps({"name": "clone", "skipped": str(e)}))
        return
    gh = fakegithub.Github(ca, validate=False)
    gh.kept, squid = {}, None
    try:
        gh.repo("acme/big", private=True).large(MIB)
        token = gh.static(["acme/big"])
        path = gh.put("token", token.text + "\n")
        with mcp.Suite(conf=gh.conf() + "allowed_repo acme/big\n"
                       "github_token_file %s\n" % path,
                       stderr=subprocess.DEVNULL) as s:
            ways = {"direct": lambda: direct(gh, token),
                    "sbx": lambda: through(s)}
            if find("squid") and os.path.exists(Squid.HELPER):
                squid = Squid(gh)
                ways["squid"] = lambda: direct(gh, token, squid.options())
            measure(ways, s)
    finally:
        if squid:
            squid.close()
        gh.close()
        ca.close()


if __name__ == "__main__":
    main()
