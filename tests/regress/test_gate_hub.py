#!/usr/bin/env python3
"""Fresh verifications at sbxd among fakes, most of which lie: a pass is of the
tree that crossed and of tests that ended, its principal's own, or there is
none; and nothing is left behind.  One test is one function."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
from fakehub import box_of, client  # noqa: E402
import ipc      # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
SHA1, SHA256, IMAGE = "a" * 40, "b" * 64, "sha256:" + "c" * 64
PYTHON, GO = 1, 4
MAKING, FILES, TESTS, ENDED = range(4)


def hub(found=PYTHON, **kw):
    """Everybody honest, all tests green."""
    h = fakehub.Hub(**kw)
    h.on_SANDBOX_CREATE = lambda p, m: p.send(
        "SANDBOX_READY", m.id, container=m["container"], digest=IMAGE)
    h.on_JUDGE_TREE = lambda p, m: (m.close(), treed(p, found=found))
    h.on_ENGINE_FILE = lambda p, m: (m.close(), p.send("ENGINE_FILED", m.id))
    h.on_ENGINE_UNPACK = lambda p, m: (m.close(), p.send(
        "ENGINE_UNPACKED", m.id, container=m["container"]))
    h.on_ENGINE_EXEC = run
    h.on_JUDGE_REPORT = lambda p, m: (m.close(), verdict(p))
    h.wait(h.serving)
    return h


def said(p, name, **values):
    """by a judge, who may be killed meanwhile"""
    try:
        p.send(name, 0, **values)
    except ipc.Closed:
        pass


def treed(p, **values):
    said(p, "JUDGE_TREED", **{"sha1": SHA1, "sha256": SHA256, "files": 1,
                              "bytes": 2, "found": PYTHON, **values})


def verdict(p, green=1, word="green"):
    said(p, "JUDGE_VERDICT", green=green, verdict=word, total=1,
         passed=green)


def run(p, m):
    m.close()
    p.send("ENGINE_EXEC_STARTED", m.id, run=m["run"])
    p.send("ENGINE_EXITED", run=m["run"], status=0, why=0)


def nothing(_p, m):
    m.close()


def start(h, w, box, **values):
    fd = ipc.memfd(b"a\0")
    m = h.ask(w, "GATE_START", [fd], container=box, dir="/workspace",
              **{"timeout_ms": 60000, **values})
    os.close(fd)
    return m


def end(h, w, g, timeout=8):
    return h.ask(w, "GATE_WAIT", [], timeout, gate=g["gate"],
                 wait_ms=timeout * 1000)


def begun(h):
    """a worker, its sandbox and the state of a verification"""
    a = client(h)
    box = box_of(h, a)
    w = h.begin(a, "verify_in_container")
    return w, box, start(h, w, box)


def fresh_of(h):
    return (h.named("SANDBOX_CREATE") or [{"container": ""}])[-1]["container"]


def ends(h, g):
    return [r for r in h.records if r["op"] == "verify_fresh" and
            r["phase"] == "end" and r["run"] == g["gate"]]


def clean(h, g, what):
    """nothing of it is left: no sandbox, no judge; its end is recorded"""
    h.settle()
    made = {m["container"] for m in h.named("SANDBOX_CREATE")[1:]}
    gone = {m["container"] for m in h.named("SANDBOX_STOP")}
    gone |= {m for m in getattr(h, "died", [])}
    ok(made <= gone, f"{what}: no sandbox stays", (made, gone))
    ok(not [p for p in h.all if p.proc == "judge"],
       f"{what}: nor a judge")
    r = ends(h, g)
    ok(len(r) == 1 and r[0]["flags"] == 2, f"{what}: its end is recorded, "
       "once", r)
    return r[0] if r else None


def shell(h, box):
    """what an operator is told, or ENGINE_SHELL where it is taken"""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(h.dir + "/run/suite-0/ctl.sock")
    c = h.keep_ctl = ipc.Chan(s)

    def came():
        try:
            return c.recv(0.01)
        except ipc.Timeout:
            return (h.named("ENGINE_SHELL") or [None])[0]
    h.wait(came)                    # CTL_HELLO
    c.send("SHELL_START", 3, container=box, rows=24, cols=80)
    return h.wait(came)


def refused(m, code):
    return m is not None and m.name == "WORK_REFUSED" and m["code"] == code


def failed(h, w, g, word, what, timeout=8):
    m = end(h, w, g, timeout)
    ok(m and m.name == "GATE_STATE" and m["phase"] == ENDED and
       m["passed"] == 0 and word in m["reason"], f"{what}: no pass, and why",
       m)
    r = clean(h, g, what)
    ok(r and r["code"] == 1, f"{what}: recorded as none", r)


def test_pass():
    with hub(PYTHON | GO) as h:
        order = []

        def exec_one(p, m):
            order.append(("run", m["run"]))
            ok(m["argv"][:2] == ["bash", "-c"] and len(m["argv"]) == 3 and
               m["cwd"] == "/workspace" and m["env"] == [],
               "what runs is the monitor's own", m)
            run(p, m)
        h.on_ENGINE_EXEC = exec_one

        def report(p, m):
            order.append(("judge", m["runner"], m["status"], m["why"]))
            m.close()
            verdict(p)
        h.on_JUDGE_REPORT = report
        w, box, g = begun(h)
        ok(g.name == "GATE_STATE" and g["container"] == box and
           g["phase"] == MAKING and g["passed"] == 0, "it begins", g)
        made = h.named("SANDBOX_CREATE")[-1]
        ok(made["image"] == IMAGE and made["snapshot"] == "" and
           made["container"] != box, "in a sandbox of that image, by digest",
           made)
        m = end(h, w, g)
        ok(m["phase"] == ENDED and m["passed"] == 1 and m["sha1"] == SHA1 and
           m["sha256"] == SHA256 and m["digest"] == IMAGE and
           m["reason"] == "" and len(m["results"]) == 18, "a pass", m)
        ok([o[0] for o in order] == ["run", "judge", "run", "judge"] and
           [o[1:] for o in order[1::2]] == [(0, 0, 0), (2, 0, 0)],
           "one after the other, each judged", order)
        f, u = h.named("ENGINE_FILE")[-1], h.named("ENGINE_UNPACK")[-1]
        ok(f["container"] == box and u["container"] == made["container"] and
           u["dest"] == "/workspace", "from the one to the other", (f, u))
        r = [r for r in h.records if r["op"] == "verify_fresh"]
        ok([(x["phase"], x["flags"], x["code"]) for x in r] ==
           [("start", 1, 0), ("end", 2, 0)], "recorded, before it began "
           "durably", r)
        ok(r[1]["fields"]["ran"] == "python go" and
           r[1]["fields"]["tree"] == SHA1, "with what ran on what", r)
        clean(h, g, "a pass")


def test_red():
    for at in 0, 1:
        with hub(PYTHON | GO) as h:
            seen = []

            def report(p, m):
                m.close()
                seen.append(m)
                verdict(p, len(seen) - 1 != at, "green")
            h.on_JUDGE_REPORT = report
            w, _, g = begun(h)
            m = end(h, w, g)
            ok(m["phase"] == ENDED and m["passed"] == 0 and len(seen) == 2,
               f"number {at} is red: no pass", m)
            r = clean(h, g, "red")
            ok(r["code"] == 1, "red: recorded as none", r)
    for found, word in ((0, "how it is tested"), (1 << 31, "how it is")):
        with hub(found) as h:
            w, _, g = begun(h)
            failed(h, w, g, word, f"nothing to run ({found:#x})")


def test_judge_lies():
    """In the hands of a tree: it has one word at a time, when asked."""
    def early(p, m):
        m.close()
        verdict(p)

    def twice(p, m):
        m.close()
        treed(p)
        treed(p)

    def both(p, m):
        m.close()
        treed(p)
        verdict(p)

    def not_hex(p, m):
        m.close()
        treed(p, sha1="A" * 40)

    def more(p, m):
        m.close()
        verdict(p)
        verdict(p)

    for name, how, found in (
            ("JUDGE_TREE", early, PYTHON), ("JUDGE_TREE", twice, PYTHON),
            ("JUDGE_TREE", both, PYTHON), ("JUDGE_TREE", not_hex, PYTHON),
            ("JUDGE_REPORT", more, PYTHON | GO)):
        with hub(found) as h:
            if how in (both, more):
                h.on_RUN_READ = nothing
                first = []
                if how is more:
                    h.on_RUN_READ = lambda p, m: first or (
                        first.append(m),
                        fakehub.Hub.on_RUN_READ(h, p, m))
            setattr(h, "on_" + name, how)
            w, _, g = begun(h)
            failed(h, w, g, "the process that judges it ended", how.__name__)


def test_stale():
    """Answers that were not asked for, are no answers."""
    with hub() as h:
        held = []
        h.on_JUDGE_TREE = lambda p, m: held.append((p, m))
        w, _, g = begun(h)
        h.wait(lambda: held)
        e, r = h.peers["engine"], h.peers["recorder"]
        for i in range(0, 3):
            e.send("ENGINE_FILED", i, error=5, reason="a lie")
            e.send("ENGINE_UNPACKED", i, error=5, reason="a lie")
        fd = ipc.memfd(b"x")
        r.send("RUN_DATA", 0, [fd], length=1, total=1)
        h.settle()
        ok(not h.named("JUDGE_REPORT"), "a report of nothing is not judged")
        p, m = held[0]
        h.on_JUDGE_TREE(p, m)
        reads = []

        def read(p, m):
            reads.append(m.id)
            fd = ipc.memfd(b"python\n")
            for _ in range(2):      # the second is of nothing
                p.send("RUN_DATA", m.id, [fd], length=7, total=7)
            os.close(fd)
        h.on_RUN_READ = read
        h.on_JUDGE_REPORT = nothing
        m.close()
        treed(p)
        h.wait(lambda: h.named("JUDGE_REPORT"))
        h.settle()
        ok(len(h.named("JUDGE_REPORT")) == 1, "a report is judged once",
           h.named("JUDGE_REPORT"))
        r.send("RUN_DATA", reads[0], [fd], length=1, total=1)
        os.close(fd)
        h.settle()
        ok(len(h.named("JUDGE_REPORT")) == 1, "also later")
        verdict(p)
        m = end(h, w, g)
        ok(m and m["passed"] == 1, "then it goes on", m)
        clean(h, g, "stale answers")


def test_piece():
    """What is not there, or not all of it."""
    for what, values, length in (
            ("cut at its head", {"start": 5, "length": 5, "total": 10},
             2 ** 64 - 1),
            ("in several pieces", {"length": 5, "total": 10}, 2 ** 64 - 1),
            ("whole", {"length": 5, "total": 5, "file_offset": 3}, 5)):
        with hub() as h:
            def read(p, m):
                fd = ipc.memfd(b"pytest\n")
                p.send("RUN_DATA", m.id, [fd], **values)
                os.close(fd)
            h.on_RUN_READ = read
            w, _, g = begun(h)
            end(h, w, g)
            q = h.named("JUDGE_REPORT")
            ok(len(q) == 1 and q[0]["length"] == length,
               f"a report {what}: the judge knows", q)
    with hub() as h:
        h.on_RUN_READ = lambda p, m: p.send("RUN_NODATA", m.id)
        w, _, g = begun(h)
        end(h, w, g)
        q = h.named("JUDGE_REPORT")
        ok(len(q) == 1 and q[0]["length"] == 0, "no report: nothing is", q)


def test_other_end():
    """Something else ends in its sandbox: its tests have not."""
    with hub() as h:
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"]))
        w, _, g = begun(h)
        h.wait(lambda: h.named("ENGINE_EXEC"))
        h.settle()
        fresh = fresh_of(h)
        # an operator looks into it
        m = shell(h, fresh)
        ok(m and m.name == "CTL_REFUSED" and m["code"] == "not_found",
           "nobody gets a shell in it", m)
        if m and m.name == "ENGINE_SHELL":
            h.peers["engine"].send("ENGINE_EXEC_STARTED", m.id, run=m["run"],
                                   error=2, reason="no shell")
            h.settle()
        ok(not h.named("RUN_READ"), "no report is read before its end",
           h.named("RUN_READ"))
        h.peers["engine"].send("ENGINE_EXITED", status=256, why=0,
                               run=h.named("ENGINE_EXEC")[-1]["run"])
        h.on_JUDGE_REPORT = lambda p, m: (m.close(),
                                          verdict(p, 0, "red"))
        m = end(h, w, g)
        ok(m["passed"] == 0, "what they ended with counts", m)


def test_hidden():
    with hub() as h:
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"]))
        a, b = client(h), client(h, 1002)
        box = box_of(h, a)
        w, w2 = h.begin(a), h.begin(a)
        g = start(h, w, box)
        h.wait(lambda: h.named("ENGINE_EXEC"))
        fresh, null = fresh_of(h), os.open("/dev/null", os.O_RDONLY)
        for name, values, fds in (
                ("EXEC_START", {"argv": ["a"], "cwd": "/"}, [null]),
                ("COPY_IN", {"dest": "/x"}, [null]), ("SB_SNAPSHOT", {}, []),
                ("SB_STOP", {"force": 1}, []), ("SB_LABEL", {}, []),
                ("SB_FORK", {"count": 1}, []),
                ("FILE_ASK", {"op": 1, "path": "x"}, [null, null]),
                ("UNDO_KEEP", {"path": "x"}, [null]),
                ("UNDO_FIND", {"path": "x"}, []),
                ("GATE_START", {"dir": "/", "timeout_ms": 1}, [null])):
            m = h.ask(w2, name, fds, container=fresh, **values)
            ok(refused(m, "not_found"), f"{name}: nobody gets into it", m)
        m = h.ask(w2, "FILE_ASK", [null, null], container=box, op=3,
                  path="/")
        ok(refused(m, "bad_argument"), "no worker packs files by itself", m)
        ok(h.ask(w2, "SB_LIST")["count"] == 1, "nor is it listed")
        wb = h.begin(b)
        ok(refused(start(h, wb, box), "not_found"),
           "no work of another's is verified")
        ok(refused(h.ask(wb, "GATE_WAIT", gate=g["gate"]), "unknown_run"),
           "nor does another learn of a verification")
        ok(refused(h.ask(wb, "EXEC_KILL",
                         run=h.named("ENGINE_EXEC")[-1]["run"]),
                   "unknown_run"), "or ends it")
        # its own may: that is red
        h.on_JUDGE_REPORT = lambda p, m: (
            m.close(), verdict(p, m["why"] == 0, "killed"))
        h.ask(w2, "EXEC_KILL", run=h.named("ENGINE_EXEC")[-1]["run"])
        m = end(h, w, g)
        ok(m["passed"] == 0, "tests that were killed are no pass", m)
        os.close(null)


def test_phases():
    """Somebody goes in each phase."""
    def hold(h, name):
        setattr(h, "on_" + name, nothing)
        return name

    def fresh_dies(h, w):
        h.died = [fresh_of(h)]
        h.peers["engine"].send("SANDBOX_ENDED", 0, container=fresh_of(h),
                               why=0, reason="no more memory")

    def judge_dies(h, w):
        h.kill("judge")

    for until in ("SANDBOX_CREATE", "JUDGE_TREE", "ENGINE_EXEC", "RUN_READ",
                  "JUDGE_REPORT"):
        for how, word in ((fresh_dies, "no more memory"),
                          (judge_dies, "the process that judges it ended")):
            if until == "SANDBOX_CREATE" and how is judge_dies:
                continue
            with hub() as h:
                a = client(h)
                box = box_of(h, a)
                hold(h, until)
                w = h.begin(a)
                n = len(h.named(until))
                g = start(h, w, box)
                h.wait(lambda: len(h.named(until)) > n)
                h.settle()
                how(h, w)
                failed(h, w, g, word, f"{how.__name__} at {until}")
        # whoever asked is gone
        with hub() as h:
            a = client(h)
            box = box_of(h, a)
            hold(h, until)
            w, w2 = h.begin(a), h.begin(a)
            n = len(h.named(until))
            g = start(h, w, box)
            h.wait(lambda: len(h.named(until)) > n)
            h.kill_worker(w)
            h.settle()
            if until == "SANDBOX_CREATE":   # a late one is not kept
                h.peers["engine"].send("SANDBOX_READY", 0,
                                       container=fresh_of(h))
            failed(h, w2, g, "its call did not complete", f"cancel at {until}")


def test_work_goes():
    """The files' sandbox: it is looked at once more."""
    with hub() as h:
        a = client(h)
        box = box_of(h, a)
        h.on_SANDBOX_CREATE = nothing
        w, w2 = h.begin(a), h.begin(a)
        g = start(h, w, box)
        h.wait(lambda: len(h.named("SANDBOX_CREATE")) > 1)
        ok(h.ask(w2, "SB_STOP", container=box, force=1).name ==
           "SB_STOPPED", "it is stopped meanwhile")
        h.peers["engine"].send("SANDBOX_READY", 0, container=fresh_of(h))
        failed(h, w, g, "the sandbox of the files is gone", "stopped")
        ok(not h.named("ENGINE_FILE") and not [
            m for m in h.named("START") if m["proc"] ==
            fakehub.PROCS.index("judge")], "and nothing was begun")


def test_errors():
    for name, how, word in (
            ("ENGINE_FILE", lambda p, m: p.send(
                "ENGINE_FILED", m.id, error=13, reason="not readable"),
             "not readable"),
            ("ENGINE_UNPACK", lambda p, m: p.send(
                "ENGINE_UNPACKED", m.id, error=28, reason="disk full"),
             "disk full"),
            ("JUDGE_TREE", lambda p, m: treed(
                p, error=22, reason="a bad path", sha1="", sha256=""),
             "a bad path")):
        with hub() as h:
            setattr(h, "on_" + name, lambda p, m: (m.close(), how(p, m)))
            w, _, g = begun(h)
            failed(h, w, g, word, word)
    with hub() as h:    # the writer that nobody listened to is not the cause
        h.on_JUDGE_TREE = lambda p, m: (m.close(), treed(
            p, error=22, reason="a bad path", sha1="", sha256=""))
        h.on_ENGINE_FILE = lambda p, m: (m.close(), p.send(
            "ENGINE_FILED", m.id, error=32, reason="Broken pipe"))
        w, _, g = begun(h)
        failed(h, w, g, "a bad path", "a broken pipe")


def test_journal():
    with hub() as h:
        a = client(h)
        box = box_of(h, a)
        h.on_JOURNAL_APPEND = lambda p, m: p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="disk full") \
            if m["flags"] & 1 else None
        w = h.begin(a)
        n = len(h.named("SANDBOX_CREATE"))
        for _ in range(20):     # more than there are places
            m = start(h, w, box)
            if not refused(m, "journal_unavailable"):
                break
        ok(refused(m, "journal_unavailable") and "disk full" in m["reason"],
           "what cannot be recorded is not begun", m)
        ok(len(h.named("SANDBOX_CREATE")) == n, "nor is its sandbox made")
        del h.on_JOURNAL_APPEND
        g = start(h, w, box)
        ok(g.name == "GATE_STATE" and end(h, w, g)["passed"] == 1,
           "later it is", g)
    # the call ends before the record is durable
    with hub() as h:
        a = client(h)
        box = box_of(h, a)
        held = []
        h.on_JOURNAL_APPEND = lambda p, m: held.append(m) \
            if m["flags"] & 1 else None
        w, w2 = h.begin(a), h.begin(a)
        fd = ipc.memfd(b"a\0")
        w.send("GATE_START", 77, [fd], container=box, dir="/")
        os.close(fd)
        h.wait(lambda: held)
        h.kill_worker(w)
        h.settle()
        h.peers["journald"].send("JOURNAL_DONE", held[0].id, seq=9)
        h.settle()
        ok(len(h.named("SANDBOX_CREATE")) == 1, "a call that ended first "
           "makes no sandbox")
        del h.on_JOURNAL_APPEND
        got = [start(h, w2, box) for _ in range(2)]
        ok([m.name for m in got] == ["GATE_STATE"] * 2,
           "and holds no place", got)


def test_places():
    with hub() as h:
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"]))
        a, b, c = client(h), client(h, 1002), client(h, 1003)
        w = {x: h.begin(x, "sandbox_initialize") for x in (a, b, c)}
        box = {x: h.box(w[x])["container"] for x in w}
        one, two, three, four = [start(h, w[x], box[x])
                                 for x in (a, a, b, b)]
        ok({m.name for m in (one, two, three, four)} == {"GATE_STATE"},
           "two of one principal, four of all", (one, two, three, four))
        ok(refused(start(h, w[a], box[a]), "busy") and
           refused(start(h, w[c], box[c]), "busy"), "and no more")
        h.wait(lambda: len(h.named("ENGINE_EXEC")) == 4)
        for m in h.named("ENGINE_EXEC"):
            h.peers["engine"].send("ENGINE_EXITED", run=m["run"])
        ok(end(h, w[a], one)["passed"] == 1 and
           end(h, w[b], three)["passed"] == 1 and
           end(h, w[b], four)["passed"] == 1, "then they end")
        h.on_ENGINE_EXEC = run
        for i in range(30):     # b's many push out b's own, not a's
            end(h, w[b], start(h, w[b], box[b]))
        m = h.ask(w[a], "GATE_WAIT", gate=one["gate"])
        ok(m.name == "GATE_STATE" and m["passed"] == 1,
           "what one learns is not lost by what others do", m)
        ok(refused(h.ask(w[a], "GATE_WAIT", gate=one["gate"],
                         wait_ms=3600001), "bad_argument"),
           "a wait has a limit")


def test_layer():
    """A layer goes along by its snapshot, and only by that."""
    with hub() as h:
        h.on_SNAP_TAKE = lambda p, m: p.send(
            "SNAP_TAKEN", m.id, container=m["container"],
            snapshot=m["snapshot"], files=1, digest="d" * 64)
        h.on_SNAP_RESTORE = lambda p, m: p.send(
            "SNAP_RESTORED", m.id, container=m["container"],
            snapshot=m["snapshot"])
        a = client(h)
        w = h.begin(a, "sandbox_initialize")
        w.send("DEPS_MAKE", 9, image="host", commands=["one"])
        d = h.wait(lambda: (h.named("DEPS_READY") or [None])[0])
        box = h.ask(w, "SB_CREATE", snapshot=d["snapshot"])["container"]
        plain = h.box(w)["container"]
        s = h.ask(w, "SB_SNAPSHOT", container=box)
        g = start(h, w, box)
        m = end(h, w, g)
        c = h.named("SANDBOX_CREATE")[-1]
        ok(m["passed"] == 1 and m["layer"] == d["layer"] and
           c["snapshot"] == d["snapshot"], "with the layer that it began "
           "from, not as it is", (m, c))
        m = end(h, w, start(h, w, plain))
        ok(m["layer"] == "" and
           h.named("SANDBOX_CREATE")[-1]["snapshot"] == "",
           "one without has none", m)
        h.ask(w, "SB_RESTORE", container=plain, snapshot=s["snapshot"],
              force=1)
        m = end(h, w, start(h, w, plain))
        ok(m["layer"] == d["layer"] and
           h.named("SANDBOX_CREATE")[-1]["snapshot"] == d["snapshot"],
           "restored to a state on the layer, it is on that, not on the "
           "state", m)


def test_recorder():
    with hub() as h:
        w, _, g = None, None, None
        h.on_RUN_READ = lambda p, m: h.kill("recorder")
        w, _, g = begun(h)
        h.wait(lambda: h.named("RUN_READ"))
        m = h.ask(w, "GATE_WAIT", gate=g["gate"])
        ok(m["phase"] == TESTS and m["passed"] == 0, "without a report "
           "nothing is judged", m)
    with hub() as h:
        h.on_JUDGE_REPORT = lambda p, m: (m.close(), h.kill("proxy"),
                                          verdict(p))
        w, _, g = begun(h)
        ok(end(h, w, g)["passed"] == 1, "it needs no proxy")


def test_shutdown():
    for until in ("SANDBOX_CREATE", "JUDGE_TREE", "ENGINE_EXEC",
                  "JUDGE_REPORT"):
        with hub() as h:
            a = client(h)
            box = box_of(h, a)
            n = len(h.named(until))
            setattr(h, "on_" + until, nothing)
            g = start(h, h.begin(a), box)
            h.wait(lambda: len(h.named(until)) > n)
            h.settle()
            h.term()
            ok(h.ended() == 0, f"the suite ends at {until}", h.said())
            r = ends(h, g)
            ok(len(r) == 1 and r[0]["code"] == 1 and
               r[0]["fields"]["reason"] == "the suite ends",
               "and that of a verification is recorded", r)
            ok(not [p for p in h.all if p.proc == "judge"],
               "no judge stays")


# --- what package_install installed ---------------------------------------------

def layers(found=PYTHON, **kw):
    """a hub whose engine makes layers of sandboxes, which end with it"""
    h = hub(found, **kw)
    h.died = []

    def take(p, m):
        p.send("SNAP_TAKEN", m.id, container=m["container"],
               snapshot=m["snapshot"], files=1,
               digest="d" * 64 if m["end"] else "")
        if m["end"]:
            h.died.append(m["container"])
            p.send("SANDBOX_ENDED", 0, container=m["container"], why=1)
    h.on_SNAP_TAKE = take
    h.on_SNAP_RESTORE = lambda p, m: p.send(
        "SNAP_RESTORED", m.id, container=m["container"],
        snapshot=m["snapshot"])
    return h


def net_box(h, a):
    w = h.begin(a, "sandbox_initialize")
    box = h.box(w, want_network=1)["container"]
    h.result(w)
    return box


def note(h, w, run, *packages, **values):
    return h.ask(w, "PACKAGE_NOTE", run=run, packages=list(packages),
                 **{"manager": "pip", "whole": 1, **values})


def install(h, a, box, *packages, tool="package_install", **values):
    """kept?"""
    w = h.begin(a, tool)
    m = note(h, w, h.run(w, box)["run"], *packages, **values)
    h.result(w)
    return m["kept"] if m and m.name == "PACKAGE_NOTED" else m


def of_layers(h):
    """the commands that made some"""
    return [m for m in h.named("ENGINE_EXEC") if len(m["argv"]) > 4]


def deps(h, w, g):
    return h.ask(w, "GATE_DEPS", gate=g["gate"])


def test_packages():
    with layers() as h:
        a = client(h)
        box = net_box(h, a)
        ok(install(h, a, box, "one", "two>=2", "[") == 0 and
           install(h, a, box, "one", "two >= 2") == 1 and
           install(h, a, box, "@s/n", manager="npm") == 1 and
           not any(install(h, a, box, n, manager="npm") for n in (
               "n@.", "n@..", "@s/n@.x", "n@ .")) and
           install(h, a, box, "one", upgrade=1) == 1, "what is kept is told")
        w = h.begin(a)
        h.records.clear()
        g = start(h, w, box)
        ok(g.name == "GATE_STATE" and g["phase"] == MAKING, "it begins", g)
        m = end(h, w, g)
        want = ["pip install one 'two >= 2'", "npm install @s/n",
                "pip install --upgrade one"]
        x, made = of_layers(h)[-1], h.named("SANDBOX_CREATE")
        ok(x["argv"][:2] == ["bash", "-c"] and x["argv"][5:] == want and
           any(e.startswith("HTTPS_PROXY=") for e in x["env"]) and
           x["cwd"] == "/workspace", "the monitor installs them", x)
        ok(made[-2]["container"] == x["container"] != box and
           made[-2]["image"] == IMAGE and made[-2]["snapshot"] == "" and
           h.named("PROXY_OPEN")[-1]["container"] == x["container"],
           "in a sandbox of the image that has a way out", made)
        s = h.named("SNAP_TAKE")[-1]
        ok(s["container"] == x["container"] and s["end"] == 1 and
           made[-1]["snapshot"] == s["snapshot"] and made[-1]["image"] ==
           IMAGE and h.named("ENGINE_UNPACK")[-1]["container"] ==
           made[-1]["container"], "the files go to another, on what came of "
           "that, which has none", made)
        ok(m["passed"] == 1 and m["layer"].startswith("sha256:"), "a pass", m)
        d = deps(h, w, g)
        ok(d["packages"] == want and d["prepared"] == 1 and d["setup"] == ""
           and d["layer"] == m["layer"] and d["left_out"] == 5 and
           d["cached"] == 0 and d["run"] == x["run"] and d["error"] == 0,
           "what it is made of", d)
        r = [r for r in h.records if r["op"] == "verify_fresh"]
        ok([(x["phase"], x["flags"]) for x in r] == [("start", 1), ("end", 2)]
           and r[0]["fields"]["packages"] == " ".join(want) and
           r[1]["fields"]["layer"] == m["layer"],
           "recorded, before it began durably", r)
        n = len(of_layers(h))
        m2 = end(h, w, start(h, w, box))
        ok(m2["passed"] == 1 and m2["layer"] == m["layer"] and
           len(of_layers(h)) == n, "again it is there", m2)
        ok(refused(deps(h, h.begin(client(h, 1002)), g), "unknown_run"),
           "nobody else learns of it")
        clean(h, g, "packages")


def test_packages_hostile():
    """Nothing but names, of a run of that tool, once."""
    with layers() as h:
        a, b = client(h), client(h, 1002)
        box, plain = net_box(h, a), box_of(h, a)
        for manager, names in (
                ("pip", ("--index-url=x", "-r", "./x", "../x", "/x", ".",
                         "x.whl", "x/y", "git+https://h/x", "x @ file:///y",
                         "x;y", "$(x)", "x'y", 'x"y', "x\ny", "x`y`", "")),
                ("npm", ("me/it", "x.tgz", "file:x", "x@file:y", "@s",
                         "@s/../x", "npm:x", "x@y/z", "x'")),
                ("cargo", ("./x", "x/y", "--path", "x@git:y")),
                ("go", ("./...", "all", "x", "localdir/x@v1", "x.org/a b")),
                ("apt", ("x",)), ("", ("x",)), ("pip'", ("x",))):
            for name in names:
                k = install(h, a, box, name, manager=manager)
                ok(k == 0, f"{manager} {name!r} is no name", k)
        for manager, name in (("pip", "a[b]>=1,<2"), ("npm", "@s/n@^1.2"),
                              ("cargo", "serde@1"),
                              ("go", "example.org/x/y@v1.2.3")):
            ok(install(h, a, box, name, manager=manager) == 1,
               f"{manager} {name}")
        ok(install(h, a, box, "x", whole=0) == 0 and
           install(h, a, box) == 0 and
           install(h, a, box, "x", manager="npm", upgrade=1) == 0 and
           install(h, a, box, "x", tool="sandbox_exec") == 0 and
           install(h, a, plain, "x") == 0, "nor is what was not all named, "
           "or by another tool, or without a way out")
        w = h.begin(a, "package_install")
        run_ = h.run(w, box)["run"]
        wb = h.begin(b, "package_install")
        ok(refused(note(h, wb, run_, "evil"), "unknown_run"),
           "another's run is none")
        w2 = h.begin(a, "package_install")
        ok(refused(note(h, w2, run_, "evil"), "bad_argument"),
           "nor one of another call")
        ok(note(h, w, run_, "once")["kept"] == 1 and
           refused(note(h, w, run_, "evil"), "bad_argument"),
           "and what was told stays told")
        g = start(h, w, box)
        d = deps(h, w, g)
        ok([p.split()[-1] for p in d["packages"]] == [
            "'a[b]>=1,<2'", "'@s/n@^1.2'", "serde@1",
            "example.org/x/y@v1.2.3", "once"], "so that is what is kept", d)
        d = deps(h, w, start(h, w, plain))
        ok(d["packages"] == [] and d["left_out"] == 1, "and there nothing", d)


def test_packages_kept():
    """What ended well, as often as there is room, as long as its state is."""
    with layers() as h:
        a = client(h)
        box = net_box(h, a)
        w = h.begin(a, "package_install")
        s = h.ask(w, "SB_SNAPSHOT", container=box)["snapshot"]
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"]))
        for status, why in ((256, 0), (0, 1), (9, 2)):
            r = h.run(w, box)["run"]
            note(h, w, r, "bad")
            h.peers["engine"].send("ENGINE_EXITED", run=r, status=status,
                                   why=why)
            h.settle(0.05)
        r = h.run(w, box)["run"]
        note(h, w, r, "good")

        def begin():
            g = start(h, w, box)
            d = deps(h, w, g)
            h.settle(0.05)
            return g, d
        _, d = begin()
        ok(d["packages"] == [] and d["left_out"] == 0,
           "what failed or has not ended is none", d)
        h.peers["engine"].send("ENGINE_EXITED", run=r)
        h.settle(0.05)
        g, d = begin()
        ok(d["packages"] == ["pip install good"], "what ended well is", d)
        h.on_ENGINE_EXEC = run
        for m in h.named("ENGINE_EXEC"):
            h.peers["engine"].send("ENGINE_EXITED", run=m["run"])
        end(h, w, g)
        for i in list(range(31)) + [3]:
            install(h, a, box, f"p{i}")
        ok(install(h, a, box, "more") == 0 and
           install(h, a, box, "x" * 8000) == 0, "there is a limit")
        g, d = begin()
        ok(len(d["packages"]) == 32 and d["left_out"] == 2 and
           d["packages"].count("pip install p3") == 1 and
           d["packages"][-1] == "pip install p3", "the same is once, by its "
           "last time; the rest is counted", d)
        end(h, w, g)
        h.ask(w, "SB_RESTORE", container=box, snapshot=s, force=1)
        g, d = begin()
        ok(d["packages"] == [] and d["left_out"] == 0,
           "an earlier state has what it had", d)
        end(h, w, g)
        install(h, a, box, "x")
        s = h.ask(w, "SB_SNAPSHOT", container=box)["snapshot"]
        install(h, a, box, "y")
        h.ask(w, "SB_RESTORE", container=box, snapshot=s, force=1)
        for i in range(28):
            install(h, a, box, f"{i:0200d}")
        _, d = begin()
        ok([p[-1] for p in d["packages"][:2]] == ["x", "0"] and
           len(d["packages"]) == 29, "and gets more on that", d)


def test_packages_many():
    """They stand on what setup made, and push out none of that."""
    with layers() as h:
        a = client(h)
        w = h.begin(a, "sandbox_initialize")
        d = h.ask(w, "DEPS_MAKE", image="host", commands=["one"])
        first = h.ask(w, "SB_CREATE", snapshot=d["snapshot"])["container"]
        d = h.ask(w, "DEPS_MAKE", image="host", commands=["two"])
        box = h.ask(w, "SB_CREATE", snapshot=d["snapshot"],
                    want_network=1)["container"]
        names = set()
        for i in range(10):
            ok(install(h, a, box, f"p{i}") == 1, f"install {i}")
            g = start(h, w, box)
            m = end(h, w, g)
            made = h.named("SANDBOX_CREATE")
            got = deps(h, w, g)
            names.add(got["layer"])
            ok(m["passed"] == 1 and got["setup"] == d["layer"] and
               made[-2]["snapshot"] == d["snapshot"] !=
               made[-1]["snapshot"], "on the layer of setup", (m, made[-2:]))
        ok(len(names) == 10, "each is another layer", names)
        m = start(h, w, first)
        ok(m.name == "GATE_STATE" and end(h, w, m)["passed"] == 1,
           "that of another sandbox is still kept", m)
    with layers() as h:
        a = client(h)
        w = h.begin(a, "sandbox_initialize")
        d = h.ask(w, "DEPS_MAKE", image=IMAGE, commands=["pip install x"],
                  network=1)
        made, names = len(of_layers(h)), {d["layer"]}
        for box in (net_box(h, a), h.ask(
                w, "SB_CREATE", snapshot=d["snapshot"],
                want_network=1)["container"]):
            install(h, a, box, "x")
            g = start(h, w, box)
            end(h, w, g)
            names.add(deps(h, w, g)["layer"])
        ok(len(of_layers(h)) == made + 2 and len(names) == 3, "none is taken "
           "for another by its commands", names)


def test_packages_script():
    """What runs for it, with managers that only say what they were asked."""
    with layers() as h:
        a = client(h)
        box = net_box(h, a)
        for manager, name in (("npm", "@s/n"), ("cargo", "serde@1"),
                              ("npm", "fail"), ("go", "x.org/y")):
            install(h, a, box, name, manager=manager)
        w = h.begin(a)
        end(h, w, start(h, w, box))
        argv = of_layers(h)[-1]["argv"]
    top = tempfile.mkdtemp()
    for name, text in (
            ("npm", "case $* in *fail*) exit 3; esac; touch package.json "
             "package-lock.json; mkdir -p node_modules"),
            ("cargo", "[ $1 = init ] || [ -f Cargo.toml ] || exit 9; "
             ">Cargo.toml"), ("go", "[ -f go.mod ] || >go.mod")):
        with open(top + "/" + name, "w") as f:
            f.write("#!/bin/sh\necho \"${PWD##*/}: ${0##*/} $*\" >>%s/log\n"
                    "%s\n" % (top, text))
        os.chmod(top + "/" + name, 0o755)

    def sh(*lines):
        r = subprocess.run(argv[:5] + list(lines), cwd=top + "/w",
                           stderr=subprocess.PIPE, env={
                               "PATH": top + ":/usr/bin:/bin", "TMPDIR":
                               top + "/t"}, check=False, text=True)
        with open(top + "/log") as f:
            return r, [line.split(": ", 1) for line in f.read().split("\n")
                       if line]
    for d in "wt":
        os.mkdir(top + "/" + d)
    r, log = sh(argv[5], argv[6], argv[8])
    ok(r.returncode == 0 and [x[1] for x in log] == [
        "npm install --no-audit --no-fund -- @s/n",
        "cargo init -q --lib --vcs none --name sbx .",
        "cargo add -- serde@1", "cargo fetch", "go mod init sbx",
        "go get -- x.org/y"] and log[0][0] == "w" and
        not {"w", "t"} & {x[0] for x in log[1:]}, "each its way", (r, log))
    ok(os.listdir(top + "/w") == ["node_modules"] and not os.listdir(
        top + "/t"), "only node_modules stays", os.listdir(top + "/w"))
    with open(top + "/w/package.json", "w") as f:
        f.write("{}")
    r, _ = sh(*argv[5:8])
    ok(r.returncode == 3 and r.stderr.endswith(
        "package_install: command 3 of 3 ended with status 3: npm install "
        "fail\n"), "which failed is said", r)
    os.unlink(top + "/w/package-lock.json")
    r, _ = sh(argv[5])
    ok(sorted(os.listdir(top + "/w")) == ["node_modules", "package.json"],
       "a package.json that was there stays", os.listdir(top + "/w"))
    shutil.rmtree(top)


def test_packages_shared():
    with layers() as h:
        a = client(h)
        box = net_box(h, a)
        install(h, a, box, "x")
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"]))
        w, w2, w3 = h.begin(a), h.begin(a), h.begin(a)
        g, g2 = start(h, w, box), start(h, w2, box)
        h.wait(lambda: of_layers(h))
        h.settle()
        ok(len(of_layers(h)) == 1, "two wait for one layer")
        h.kill_worker(w)
        h.settle()
        m = h.ask(w3, "GATE_WAIT", gate=g["gate"])
        ok(m["phase"] == ENDED and "did not complete" in m["reason"] and
           not h.named("SANDBOX_STOP"), "one that goes leaves it", m)
        h.on_ENGINE_EXEC = run
        h.peers["engine"].send("ENGINE_EXITED",
                               run=of_layers(h)[0]["run"])
        m = end(h, w2, g2)
        ok(m["passed"] == 1 and len(of_layers(h)) == 1, "the other goes on",
           m)
        clean(h, g2, "shared")


def test_packages_fail():
    """In each phase, whatever goes: no pass, nothing stays."""
    def exits(h, w):
        h.peers["engine"].send("ENGINE_EXITED", status=256,
                               run=of_layers(h)[-1]["run"])

    def dies(h, w):
        h.died.append(fresh_of(h))
        h.peers["engine"].send("SANDBOX_ENDED", 0, container=fresh_of(h),
                               why=0, reason="no more memory")

    def cancel(h, w):
        h.kill_worker(w)
        if not h.named("PROXY_OPEN")[1:]:   # a late one is not kept
            h.settle()
            h.peers["engine"].send("SANDBOX_READY", 0,
                                   container=fresh_of(h))

    def no_layer(h, w):
        m = h.named("SNAP_TAKE")[-1]
        h.died.append(m["container"])
        h.peers["engine"].send("SNAP_TAKEN", m.id, container=m["container"],
                               snapshot=m["snapshot"], error=28,
                               reason="disk full")

    def no_way(h, w):
        h.peers["proxy"].send("PROXY_OPENED", 0, container=fresh_of(h),
                              error=5, reason="no more ports")

    for until, how, word in (
            ("SANDBOX_CREATE", dies, "no more memory"),
            ("SANDBOX_CREATE", cancel, "its call did not complete"),
            ("PROXY_OPEN", no_way, "its sandbox ended"),
            ("PROXY_OPEN", cancel, "its call did not complete"),
            ("ENGINE_EXEC", exits, "cannot be installed again"),
            ("ENGINE_EXEC", dies, "no more memory"),
            ("ENGINE_EXEC", cancel, "its call did not complete"),
            ("SNAP_TAKE", no_layer, "disk full")):
        with layers() as h:
            a = client(h)
            box = net_box(h, a)
            install(h, a, box, "x")
            w, w2 = h.begin(a), h.begin(a)
            n = len(h.named(until))
            setattr(h, "on_" + until, (lambda p, m: (m.close(), p.send(
                "ENGINE_EXEC_STARTED", m.id, run=m["run"])))
                if until == "ENGINE_EXEC" else nothing)
            g = start(h, w, box)
            h.wait(lambda: len(h.named(until)) > n)
            h.settle()
            how(h, w)
            failed(h, w2, g, word, f"{how.__name__} at {until}")
            d = deps(h, w2, g)
            ok(d["prepared"] == 0 and d["layer"] == "" and d["packages"] ==
               ["pip install x"] and d["error"] == (256 if how is exits else
                                                    0), "and that is told",
               d)
            if how is exits:
                ok(d["run"] == of_layers(h)[-1]["run"] and
                   not h.named("ENGINE_FILE"), "with what was printed; no "
                   "file went anywhere", d)
    with layers() as h:
        a = client(h)
        box = net_box(h, a)
        install(h, a, box, "x")
        h.on_SANDBOX_CREATE = nothing
        g = start(h, h.begin(a), box)
        h.settle()
        h.term()
        ok(h.ended() == 0 and len(ends(h, g)) == 1,
           "the suite ends meanwhile", h.said())


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
mcp.main(tap, globals(), sys.argv[1:])
