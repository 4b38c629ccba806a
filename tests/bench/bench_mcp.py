#!/usr/bin/env python3
"""What a request costs, beside a minimal server of the official SDK.

	bench_mcp.py [requests] [idle] [memory]		(all of them)

Prints JSON lines like bench.py: median, p95 and p99 of one request in ms, and
requests per second, over stdio, over HTTP on one connection and on 16 at once;
the same bytes from the same client in turns to both servers.  The rival lists
the same tools and answers tools/call at once with one result; sbx hands it to
a worker: sandbox_list_containers, and read_output for the 16 at once.  Without
node or SBX_INTEROP (a directory with the SDK's node_modules) there is no rival.

idle: 100 calls a second beside 500 idle connections.  memory: KiB of each
process after 1/10 and after all of SBX_BENCH_CALLS calls (100000): its PSS,
which also moves with who else shares its libraries, and in that its own.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BUILD, SRC = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402
import mcpload as load  # noqa: E402
import web  # noqa: E402

ROUNDS, EACH = 10, int(os.environ.get("SBX_BENCH_RUNS", "50")) * 8
RIVAL = "@modelcontextprotocol/sdk"
KINDS = {"tools_call": ("tools/call", load.LIST),
         "tools_list": ("tools/list", {}), "ping": ("ping", None)}


def figures(samples, seconds):
    ms = [s * 1000 for s in samples]
    return {"median": round(load.quantile(ms, .5), 4),
            "p95": round(load.quantile(ms, .95), 4),
            "p99": round(load.quantile(ms, .99), 4),
            "per_second": round(len(samples) / seconds)}


def show(name, aim, ours, theirs):
    """each: (samples, seconds), of all rounds"""
    line = {"name": name, "unit": "ms", "runs": len(ours[0]), "aim": aim}
    line.update(figures(*ours))
    if theirs:
        f = figures(*theirs)
        line["rival"] = RIVAL
        line.update({"rival_" + k: v for k, v in f.items()})
        line["ratio"] = round(line["median"] / f["median"], 3)
        line["ratio_p99"] = round(line["p99"] / f["p99"], 3)
        line["ratio_per_second"] = round(
            line["per_second"] / f["per_second"], 2)
    print(json.dumps(line), flush=True)


def compare(name, ours, theirs, run):
    """run(client) in turns"""
    sides = [s for s in (ours, theirs) if s is not None]
    got = [([], [0.0]) for _ in sides]
    for i in range(ROUNDS + 1):
        for side, (samples, spent) in zip(sides, got):
            began = time.perf_counter()
            one = run(side)
            if i > 0:       # the first warms up
                spent[0] += time.perf_counter() - began
                samples += one
    got = [(samples, spent[0]) for samples, spent in got]
    show(name, "ratio below 1.0", got[0], got[1] if theirs else None)


class Rival:
    """None of it without the SDK."""

    def __init__(self, directory, tools, result):
        self.argv = ["node", SRC + "/tests/bench/mcp_server.mjs"]
        for name, value in (("tools", tools), ("result", result)):
            self.argv.append(f"{directory}/{name}.json")
            with open(self.argv[-1], "w") as f:
                json.dump(value, f)
        self.procs = []

    @staticmethod
    def there():
        return shutil.which("node") and os.path.isdir(os.path.join(
            os.environ.get("SBX_INTEROP", "/nowhere"), "node_modules",
            RIVAL))

    def start(self, *port):
        p = subprocess.Popen([*self.argv, *port], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.procs.append(p)
        return p

    def stdio(self):
        p = self.start()
        return load.Lines(p.stdin.fileno(), p.stdout.fileno())

    def http(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.start(str(port)).stdout.readline()
        return port

    def close(self):
        for p in self.procs:
            p.kill()
            p.wait()


def lines_of(client):
    return load.Lines(client.proc.stdin.fileno(), client.proc.stdout.fileno())


def over_stdio(directory):
    with mcp.Suite() as suite:
        ours = lines_of(suite)
        tools = json.loads(ours.ask(ours.make("tools/list")))["result"]
        result = json.loads(ours.ask(ours.make("tools/call", load.LIST)))["result"]
        rival = Rival(directory, tools["tools"], result["structuredContent"])
        theirs = rival.stdio() if rival.there() else None
        for name, (method, params) in KINDS.items():
            compare("mcp_stdio_" + name, ours, theirs, lambda c: load.in_turn(
                c, c.make(method, params), EACH))
        rival.close()
    return rival


def over_http(rival):
    d = web.Daemon()
    try:
        port = rival.http() if rival.there() else None
        ours = [load.Web(d.port, d.token) for _ in range(16)]
        theirs = [load.Web(port) for _ in range(16)] if port else None
        run = load.a_run(ours[0])
        for name, (method, params) in KINDS.items():
            compare("mcp_http_" + name, ours, theirs, lambda c: load.in_turn(
                c[0], c[0].make(method, params), EACH))
            params = run if name == "tools_call" else params
            compare("mcp_http16_" + name, ours, theirs, lambda c: load.at_once(
                c, lambda one: one.make(method, params), EACH * 2))
        modern = load.Web(d.port, d.token, "")
        compare("mcp_http_modern_tools_call", modern, None, lambda c:
                load.in_turn(c, c.modern("tools/call", load.LIST,
                                         load.LIST["name"]), EACH))
    finally:
        d.close()
        rival.close()


def idle():
    d = web.Daemon()
    try:
        busy = [load.Web(d.port, d.token) for _ in range(16)]
        call = load.a_run(busy[0])
        for count in (0, 500):
            quiet = load.crowd(d.port, d.token, count)
            got = load.steady(busy, lambda c: c.make("tools/call", call), 100,
                              10)
            show(f"mcp_calls_beside_{count}_idle", "100 a second",
                 (got, 10), None)
        for c in quiet:
            c.close()
    finally:
        d.close()


def sizes(pid):
    """(KiB, of these its own) of every process that lives through it"""
    return {mcp.program(p): (load.pss_kib(p), load.pss_kib(p, "Pss_Anon"))
            for p in mcp.tree(pid)
            if mcp.alive(p) and mcp.program(p) != "sbxd-worker"}


def grown(name, calls, work, pid):
    """work(n): n calls"""
    work(calls // 10)
    before = sizes(pid)
    work(calls - calls // 10)
    after = sizes(pid)
    for what, (pss, own) in sorted(after.items()):
        was, was_own = before.get(what, (0, 0))
        print(json.dumps({
            "name": f"{name}_{what}", "unit": "KiB", "runs": calls,
            "aim": "no growth", "median": pss, "grown": pss - was,
            "own": own, "own_grown": own - was_own}), flush=True)


def memory():
    calls = int(os.environ.get("SBX_BENCH_CALLS", "100000"))
    with mcp.Suite() as suite:
        ours = lines_of(suite)
        grown("mcp_stdio_memory", calls, lambda n: load.in_turn(
            ours, ours.make("tools/call", load.LIST), n), suite.pid)
    d = web.Daemon()
    try:
        quiet = [load.Web(d.port, d.token) for _ in range(3)]
        grown("mcp_http_memory", calls, lambda n: load.churn(
            quiet, d.port, d.token, n), d.proc.pid)
    finally:
        d.close()


def main():
    directory = tempfile.mkdtemp(prefix="sbx-bench-mcp-")
    try:
        what = sys.argv[1:] or ["requests", "idle", "memory"]
        if "requests" in what:
            over_http(over_stdio(directory))
        if "idle" in what:
            idle()
        if "memory" in what:
            memory()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


main()
