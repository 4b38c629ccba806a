#!/usr/bin/env python3
"""MCP over HTTP under load: 500 idle connections beside 100 calls a second,
connections that ask for nothing, and memory after thousands of calls."""
import os
import resource
import socket
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import mcpload as load  # noqa: E402
import web  # noqa: E402

ROOT = os.geteuid() == 0
tap = mcp.Tap()
ok = tap.ok
# A sanitizer keeps what was freed.
with open(os.environ["SBX_BUILD"] + "/config.h") as f:
    SANITIZED = "#define SBX_SANITIZERS 1" in f.read()
GROWTH_KIB = 512    # a hundred bytes a call; an allocator's own steps are less


def make(client, call=load.LIST):
    return client.make("tools/call", call)


def test_idle(d):
    """Streams of both kinds and connections kept alive; one client is slow
    and one does not read."""
    quiet = load.crowd(d.port, d.token, 500)
    slow = socket.create_connection(("127.0.0.1", d.port))
    slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: local")
    stuck = load.Web(d.port, d.token)
    stuck.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.sock.sendall(stuck.make("tools/list") * 20)
    busy = [load.Web(d.port, d.token) for _ in range(16)]
    call = load.a_run(busy[0])
    try:
        took = load.steady(busy, lambda c: make(c, call), 100, 5)
    except load.Gone as e:
        took = [e]
    ok(len(took) == 500, "500 idle connections, 100 calls a second: all are "
       "answered", took[:1])
    if len(took) == 500:
        print(f"# p50 {load.quantile(took, .5) * 1e3:.2f} ms, "
              f"p99 {load.quantile(took, .99) * 1e3:.2f} ms")
    for i, c in enumerate(quiet):
        c.sock.setblocking(False)
        try:
            if not c.sock.recv(1, socket.MSG_PEEK):
                break
        except BlockingIOError:
            pass
    else:
        i += 1
    ok(i == len(quiet), "and no idle one was ended", i)
    kept = [c for i, c in enumerate(quiet) if i % 4 > 1]
    for c in kept:
        c.sock.setblocking(True)
        answer = c.ask(c.modern("tools/list"))
        if not answer.startswith(b"HTTP/1.1 200"):
            break
    ok(answer.startswith(b"HTTP/1.1 200"), "what was kept alive is served",
       answer[:200])
    for c in quiet + busy + [slow, stuck]:
        c.close()


def test_silent(d):
    """More connections than there may be, without a token or a request."""
    first = load.Web(d.port, d.token)
    silent = []
    for _ in range(1400):
        silent.append(socket.create_connection(("127.0.0.1", d.port), 10))
    began = time.monotonic()
    answers = [load.Web(d.port, d.token).ask(make(first)) for _ in range(20)]
    ok(all(a.startswith(b"HTTP/1.1 200") for a in answers) and
       time.monotonic() - began < 20,
       "silent connections keep nobody out", time.monotonic() - began)
    for c in silent:
        c.close()


def sizes(d):
    return {n: load.pss_kib(p, "Pss_Anon") for n, p in (
        (mcp.program(p), p) for p in mcp.tree(d.proc.pid))
        if n in ("sbxd", "sbxd-front")}


def bounded(before, after, what):
    grown = {n: after[n] - before[n] for n in after}
    print(f"# {what}: KiB grown {grown}, of {after}")
    ok(SANITIZED or all(g <= GROWTH_KIB for g in grown.values()),
       f"{what}: memory does not grow", (before, after))


def test_memory(d):
    web = [load.Web(d.port, d.token) for _ in range(3)]
    load.churn(web, d.port, d.token, 3000)
    before = sizes(d)
    load.churn(web, d.port, d.token, 5000)
    bounded(before, sizes(d), "5000 calls over HTTP, sessions that come and "
            "go, clients that vanish")


def test_memory_stdio():
    with mcp.Suite() as s:
        c = load.Lines(s.proc.stdin.fileno(), s.proc.stdout.fileno())

        def size():
            return {n: load.pss_kib(p[0], "Pss_Anon") for n, p in
                    s.processes().items() if n in ("sbxd", "sbxd-front")}
        load.in_turn(c, make(c), 2000)
        before = size()
        load.in_turn(c, make(c), 5000)
        bounded(before, size(), "5000 calls over stdio")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    d = web.Daemon()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        for test in (test_idle, test_silent, test_memory)[:3 if ROOT else 2]:
            test(d)
        ok(d.proc.poll() is None, "the suite lives")
    finally:
        d.close()
    if ROOT:
        test_memory_stdio()
    else:
        tap.absent("only root can look into what is caged",
                   "memory does not grow")
    tap.done()


main()
