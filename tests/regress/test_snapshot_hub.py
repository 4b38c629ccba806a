#!/usr/bin/env python3
"""Snapshots at sbxd among fakes: whose they are, all or none, and what is left
when somebody dies in the middle.  One test is one function."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
from fakehub import box_of, client  # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok


def hub():
    h = fakehub.Hub()
    h.on_SNAP_TAKE = lambda p, m: p.send(
        "SNAP_TAKEN", m.id, container=m["container"], snapshot=m["snapshot"],
        files=1, bytes=2, depth=1, digest="d" * 64 if m["end"] else "")
    h.on_SNAP_RESTORE = lambda p, m: p.send(
        "SNAP_RESTORED", m.id, container=m["container"],
        snapshot=m["snapshot"])
    h.wait(h.serving)
    return h


def refused(m, code):
    return m is not None and m.name == "WORK_REFUSED" and m["code"] == code


def test_foreign():
    with hub() as h:
        a, b = client(h, 1001), client(h, 1002)
        box = box_of(h, a)
        w = h.begin(a)
        s = h.ask(w, "SB_SNAPSHOT", container=box, name="mine")
        ok(s.name == "SB_SNAPSHOTTED", "a snapshot", s)
        h.result(w)
        other = box_of(h, b)
        w = h.begin(b)
        for name, values in (
                ("SB_SNAPSHOT", {"container": box}),
                ("SB_RESTORE", {"container": box, "snapshot": "mine"}),
                ("SB_RESTORE", {"container": other, "snapshot": "mine"}),
                ("SB_RESTORE", {"container": other,
                                "snapshot": s["snapshot"], "force": 1}),
                ("SB_FORK", {"container": box, "count": 1}),
                ("SB_FORK", {"snapshot": s["snapshot"], "count": 1}),
                ("SB_CREATE", {"image": "host", "snapshot": s["snapshot"]}),
                ("SNAP_REMOVE", {"snapshot": s["snapshot"]}),
                ("SNAP_REMOVE", {"snapshot": "mine"})):
            n = len(h.named("SNAP_TAKE") + h.named("SNAP_RESTORE") +
                    h.named("SANDBOX_CREATE") + h.named("SNAP_DROP"))
            m = h.ask(w, name, **values)
            ok(refused(m, "not_found") and n == len(
                h.named("SNAP_TAKE") + h.named("SNAP_RESTORE") +
                h.named("SANDBOX_CREATE") + h.named("SNAP_DROP")),
               f"{name}: another's is as good as none", m)
        ok(h.ask(w, "SNAP_LIST")["count"] == 0, "nor is it listed")
        ok(h.ask(w, "SB_SNAPSHOT", container=other, name="mine").name ==
           "SB_SNAPSHOTTED", "its name is free for others")


def test_fork():
    with hub() as h:
        a = client(h, 1001)
        box = box_of(h, a)
        w = h.begin(a)
        n = len(h.records)
        m = h.ask(w, "SB_FORK", container=box, count=3)
        h.wait(lambda: h.named("SB_END", "worker"))
        made = [x["container"] for x in h.named("SB_CREATED")[1:]]
        ok(len(made) == 3 and h.named("SB_END")[-1]["count"] == 3,
           "forks are told at the end", (m, made))
        r = [r for r in h.records[n:] if r["op"] == "sandbox_create"]
        ok([(x["container"], x["flags"]) for x in r
            if x["phase"] == "start"] == [(c, 1) for c in made],
           "each is recorded, durably, before it is asked for", r)
        ok(len(h.named("SNAP_DROP")) == 1, "their state goes")
        # one of them cannot be made
        calls = []

        def create(p, m):
            calls.append(m["container"])
            if len(calls) == 3:
                p.send("SANDBOX_ENDED", m.id, container=m["container"],
                       why=0, reason="clone: no")
            else:
                h.__class__.on_SANDBOX_CREATE(h, p, m)
        h.on_SANDBOX_CREATE = create
        stops = len(h.named("SANDBOX_STOP"))
        m = h.ask(w, "SB_FORK", container=box, count=4)
        ok(refused(m, "sandbox_failed") and "clone: no" in m["reason"],
           "one fails: all are refused", m)
        h.settle()
        stopped = {x["container"] for x in h.named("SANDBOX_STOP")[stops:]}
        ok(stopped == set(calls) - {calls[2]}, "and those that stood are "
           "stopped", (stopped, calls))
        ok(len(h.named("SNAP_DROP")) == 2, "and the state is dropped")
        # the journal refuses the second
        h.on_SANDBOX_CREATE = lambda p, m: \
            h.__class__.on_SANDBOX_CREATE(h, p, m)
        seen = []

        def append(p, m):
            if m["op"] == "sandbox_create" and m["phase"] == "start":
                seen.append(m["container"])
                if len(seen) == 2:
                    p.send("JOURNAL_DONE", m.id, seq=0, reason="disk full")
                    return
            h.__class__.on_JOURNAL_APPEND(h, p, m)
        h.on_JOURNAL_APPEND = append
        n = len(h.named("SANDBOX_CREATE"))
        m = h.ask(w, "SB_FORK", container=box, count=3)
        h.settle()
        ok(refused(m, "journal_unavailable") and
           len(h.named("SANDBOX_CREATE")) == n + 1,
           "what cannot be recorded is not made", m)
        ok(h.named("SANDBOX_STOP")[-1]["container"] == seen[0],
           "and the one before it is not kept")


def test_frozen():
    with hub() as h:
        a = client(h, 1001)
        box = box_of(h, a)
        held = []
        h.on_SNAP_TAKE = lambda p, m: held.append((p, m))
        w, w2 = h.begin(a), h.begin(a)
        w.send("SB_SNAPSHOT", 5, container=box)
        h.wait(lambda: held)
        ok(held[0][1]["may_move"] == 1, "nothing runs: it may move")
        for name, values in (("EXEC_START", {"container": box, "argv": ["a"],
                                             "cwd": "/"}),
                             ("SB_SNAPSHOT", {"container": box}),
                             ("SB_STOP", {"container": box})):
            fds = [os.open("/dev/null", os.O_RDONLY)] if \
                name == "EXEC_START" else []
            m = h.ask(w2, name, fds, **values)
            ok(refused(m, "sandbox_busy"), f"{name} meanwhile is refused", m)
        p, m = held[0]
        p.send("SNAP_TAKEN", m.id, container=box, snapshot=m["snapshot"],
               error=28, reason="No space left on device")
        m = h.wait(lambda: next((x for _, x in h.seen if x.id == 5 and
                                 x.name == "WORK_REFUSED"), None))
        ok(refused(m, "snapshot_failed") and "No space" in m["reason"],
           "a failure is told in its words", m)
        ok(h.run(w2, box).name == "EXEC_STARTED", "then it goes on")
        # with a run in it, it stays
        h.on_SNAP_TAKE = lambda p, m: held.append((p, m))
        w.send("SB_SNAPSHOT", 6, container=box)
        h.wait(lambda: len(held) > 1)
        ok(held[1][1]["may_move"] == 0 and
           h.run(w2, box).name == "EXEC_STARTED",
           "with a live run it is not frozen")
        # who asked dies: what comes of it is nobody's
        h.kill_worker(w)
        h.settle()
        p, m = held[1]
        p.send("SNAP_TAKEN", m.id, container=box, snapshot=m["snapshot"])
        h.wait(lambda: h.named("SNAP_DROP"))
        ok(h.named("SNAP_DROP")[-1]["snapshot"] == m["snapshot"],
           "a snapshot that nobody waits for is dropped")
        ok(h.ask(w2, "SNAP_LIST")["count"] == 0, "and in no list")


def setup_of(h, handle, *commands):
    """a worker that waits for a layer, and the sandbox of the commands"""
    n = len(h.named("ENGINE_EXEC"))
    w = h.begin(handle, "sandbox_initialize")
    w.send("DEPS_MAKE", 9, image="host", commands=list(commands))
    h.wait(lambda: len(h.named("ENGINE_EXEC")) > n)
    return w, (h.named("ENGINE_EXEC") or [None])[-1]


def layer(h):
    return h.wait(lambda: next((m for m in h.named("DEPS_READY", "worker")
                                if m.id == 9), None))


def test_setup():
    with hub() as h:
        a, b = client(h, 1001), client(h, 1002)
        w, x = setup_of(h, a, "one", "two  three")
        ok(x["argv"][:2] == ["bash", "-c"] and x["argv"][4:] ==
           ["one", "two  three"] and x["env"] == [], "the commands are "
           "run by the monitor, as they are", x)
        w2 = h.begin(a)
        fd = os.open("/dev/null", os.O_RDONLY)
        for name, values, fds in (
                ("EXEC_START", {"argv": ["a"], "cwd": "/"}, [fd]),
                ("COPY_IN", {"dest": "/x"}, [fd]), ("SB_SNAPSHOT", {}, []),
                ("SB_STOP", {"force": 1}, []), ("SB_LABEL", {}, []),
                ("SB_FORK", {"count": 1}, [])):
            m = h.ask(w2, name, fds, container=x["container"], **values)
            ok(refused(m, "not_found"), f"{name}: nobody gets into it", m)
        ok(h.ask(w2, "SB_LIST")["count"] == 0, "nor is it listed")
        h.peers["engine"].send("ENGINE_EXITED", run=x["run"], status=0, why=0)
        m = layer(h)
        ok(m and m["error"] == 0 and m["cached"] == 0 and
           m["layer"].startswith("sha256:"), "a layer", m)
        ok(h.named("SNAP_TAKE")[-1]["end"] == 1, "its sandbox ended with it")
        have = len(h.named("ENGINE_EXEC"))
        h.seen[:] = [s for s in h.seen if s[1].name != "DEPS_READY"]
        w3 = h.begin(a)
        w3.send("DEPS_MAKE", 9, image="host", commands=["one", "two  three"])
        again = layer(h)
        ok(again["cached"] == 1 and again["layer"] == m["layer"] and
           len(h.named("ENGINE_EXEC")) == have, "the same again is kept",
           again)
        m = h.ask(w3, "SB_CREATE", image="", snapshot=again["snapshot"])
        ok(m.name == "SB_CREATED" and
           h.named("SANDBOX_CREATE")[-1]["snapshot"] == again["snapshot"],
           "a sandbox begins from it", m)
        ok(refused(h.ask(w3, "SNAP_REMOVE", snapshot=again["snapshot"]),
                   "not_found"), "it cannot be dropped under the others")
        wb, y = setup_of(h, b, "one", "two  three")
        ok(y["container"] != x["container"] and
           len(h.named("ENGINE_EXEC")) == have + 1,
           "another principal does not learn of it", y)
        ok(refused(h.ask(h.begin(b), "SB_CREATE", image="host",
                         snapshot=again["snapshot"]), "not_found"),
           "nor has it")
        h.kill_worker(wb)
        h.settle()
        ok(h.named("SANDBOX_STOP")[-1]["container"] == y["container"],
           "whoever asked is gone: it is ended")
    with hub() as h:
        a = client(h, 1001)
        w, x = setup_of(h, a, "false")
        h.peers["engine"].send("ENGINE_EXITED", run=x["run"], status=256,
                               why=0)
        m = layer(h)
        ok(m and m["error"] == 256 and m["run"] == x["run"] and
           m["snapshot"] == "", "commands that fail make none", m)
        h.settle()
        ok(h.named("SANDBOX_STOP")[-1]["container"] == x["container"] and
           not h.named("SNAP_TAKE"), "and leave no sandbox")


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
mcp.main(tap, globals(), sys.argv[1:])
