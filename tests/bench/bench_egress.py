#!/usr/bin/env python3
"""What the way out costs, beside squid, tinyproxy and mitmproxy where they are
installed (squid-openssl, tinyproxy, mitmproxy), in one run and in turns.

	bench_egress.py [MiB of one transfer]

Prints JSON lines like bench.py, never a verdict: MiB a second through a
tunnel and through interception, what one warm request takes more than without
a proxy (p50, ms), and the peak of each proxy's memory for the transfers.
SBX_BENCH_EGRESS_MIB: 2048 for what the aims say; 64 by default.  The upstream
and the client are in python, and TLS there is most of the time.
"""
import json
import os
import socket
import ssl
import statistics
import sys
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SRC, "tests", d) for d in ("lib", "gauntlet")]
import ours  # noqa: E402
import rivals  # noqa: E402
import technique  # noqa: E402
import world  # noqa: E402

MIB = int(sys.argv[1] if len(sys.argv) > 1 else
          os.environ.get("SBX_BENCH_EGRESS_MIB", "64"))
ROUNDS, EACH = 3 if MIB <= 256 else 1, 200
HOSTS = {"tunnel": "tunnel.test", "intercept": "inner.test"}
BLOCK = bytes(1 << 18)


def serve(c, a, _who):
    """GET /N answers with N MiB."""
    r = world.Reader(c, a)
    r.keep = 0
    while True:
        q = world.read_request(r)
        if q is None:
            return
        n = int(q[1][1:]) << 20
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        while n:
            c.sendall(BLOCK)
            n -= len(BLOCK)


def ask(c, host, mib):
    """Seconds of one request with its answer."""
    began, left = time.perf_counter(), None
    c.sendall(technique.origin(host, b"/%d" % mib))
    buf = b""
    while b"\r\n\r\n" not in buf:
        buf += c.recv(1 << 16)
    left = (mib << 20) - len(buf.split(b"\r\n\r\n", 1)[1])
    view = memoryview(bytearray(1 << 18))
    while left > 0:
        n = c.recv_into(view)
        if n == 0:
            raise OSError("cut")
        left -= n
    return time.perf_counter() - began


class Direct:
    """No proxy."""
    name, has_inner = "none", True

    def __init__(self, w):
        self.world = w

    def open(self, host):
        s = socket.create_connection((world.GOOD, 443))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ssl.create_default_context(
            cafile=self.world.certs.ca).wrap_socket(s, server_hostname=host)


class Through:
    def __init__(self, target):
        self.target, self.name = target, target.name
        self.has_inner, self.box = target.has_inner, target.box()

    def open(self, host):
        run = technique.Run(self.target, self.box, b"")
        c = run.inner(host)
        c.settimeout(600)
        return c


def show(name, unit, values):
    base = values.pop("none", None)
    line = {"name": name, "unit": unit}
    line.update({k: round(v, 3) for k, v in values.items()})
    if base is not None:
        line["direct"] = round(base, 3)
    rest = [v for k, v in values.items() if k != "sbx"]
    if rest and "sbx" in values:
        best = max(rest) if unit == "MiB/s" else min(rest)
        line["ratio_best_rival"] = round(values["sbx"] / best, 3)
    print(json.dumps(line), flush=True)


def measure(sides, how, host):
    speed, p50 = {}, {}
    for _ in range(ROUNDS):
        for s in sides:
            if how == "intercept" and not s.has_inner:
                continue
            c = s.open(host)
            ask(c, host, 0)
            p50.setdefault(s.name, []).extend(
                ask(c, host, 0) for _ in range(EACH))
            t = ask(c, host, MIB)
            speed.setdefault(s.name, []).append(MIB / t)
            c.close()
    show("egress_%s_throughput" % how, "MiB/s",
         {k: statistics.median(v) for k, v in speed.items()})
    base = statistics.median(p50["none"])
    show("egress_%s_added_p50" % how, "ms",
         {k: (statistics.median(v) - base) * 1000
          for k, v in p50.items() if k != "none"})


def main():
    why = world.why_not()
    if why:
        print(json.dumps({"name": "egress", "skipped": why}))
        return
    w = world.World(list(HOSTS.values()), ["evil.test"])
    w.handlers["good"] = serve
    targets = [ours.Ours(w, ["allow_host https://tunnel.test",
                             "intercept_host https://inner.test"])]
    sides = [Direct(w), Through(targets[0])]
    try:
        for name, kind in rivals.MEASURED.items():
            why = kind.missing()
            if why:
                print(json.dumps({"name": "egress_rival", "rival": name,
                                  "absent": why}), flush=True)
                continue
            targets.append(kind(w))
            sides.append(Through(targets[-1]))
        for how, host in HOSTS.items():
            measure(sides, how, host)
        show("egress_peak", "KiB", {t.name: t.peak_kib() for t in targets})
    finally:
        for t in targets:
            t.close()
        w.close()


if __name__ == "__main__":
    main()
