#!/usr/bin/env python3
"""sbxd among fakes: what it decides, and what it does when any of the others
dies, lies, floods or says nothing.  One test is one function."""
import os
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
from fakehub import client  # noqa: E402
import ipc      # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok


def hub(*args, **kw):
    h = fakehub.Hub(*args, **kw)
    if not h.wait(h.serving):
        ok(False, "the suite serves", h.said())
    return h


def ready_box(h, handle, **values):
    w = h.begin(handle, "sandbox_initialize")
    box = h.box(w, **values)["container"]
    h.result(w)
    return box


# --- start and end -----------------------------------------------------------

def test_start():
    h = fakehub.Hub()
    held = []
    h.on_JOURNAL_APPEND = lambda p, m: held.append((p, m))
    h.settle(0.4)
    ok(not h.serving(), "nobody is let in before suite_start is durable")
    ok(held and held[0][1]["op"] == "suite_start" and held[0][1]["flags"] & 1,
       "suite_start is the first record, and durable", held[:1])
    ok({"engine", "recorder", "journald", "broker", "proxy", "zygote",
        "front"} <= set(h.peers), "all components were started")
    m = h.named("ENGINE_START")[0]
    ok(m["nofile_hard"] >= 128 and m["nproc"] > 0, "limits of guests", m)
    ok(h.named("RECORDER_START")[0]["fresh"] == 1, "the store is collected")
    held[0][0].send("JOURNAL_DONE", held[0][1].id, seq=1)
    ok(h.wait(h.serving), "then they are")
    h.close()


def test_introduce():
    with fakehub.Hub() as h:
        got = []
        h.on_INTRODUCE = lambda p, m: got.append((p.proc, m))
        h.wait(h.serving)
        names = {(p, fakehub.PROCS[m["peer"]]): m for p, m in got}
        for a, b in (("engine", "recorder"), ("engine", "proxy")):
            one = socket.socket(fileno=names[(a, b)].fds.pop())
            two = socket.socket(fileno=names[(b, a)].fds.pop())
            one.send(b"hello")
            ok(two.recv(9) == b"hello", f"{a} and {b} share a channel")
        got.clear()
        h.kill("recorder")
        ok(h.wait(lambda: {p for p, _ in got} == {"engine", "recorder"}),
           "and get a new one when one of them is started again", got)


def test_end():
    for sig, name in ((15, "SIGTERM"), (2, "SIGINT")):
        with hub() as h:
            ready_box(h, client(h))
            began = time.monotonic()
            h.term(sig)
            ok(h.ended() == 0 and time.monotonic() - began < 1,
               f"{name} ends the suite, exit 0", h.said())
            ops = [r["op"] for r in h.records]
            ok(ops[-2:] == ["sandbox_end", "suite_end"],
               "sandboxes and the suite are recorded as ended", ops)
    with hub() as h:
        h.on_SHUTDOWN = lambda p, m: None
        began = time.monotonic()
        h.term()
        code = h.ended()
        took = time.monotonic() - began
        ok(code == 0 and took < 1.2, "also when nobody obeys", (code, took))
        ok(len(h.named("START_KILL")) == 7, "who does not go is killed")
    with hub() as h:
        h.term(1)
        h.settle()
        ok(h.proc.poll() is None and "SIGHUP" in h.said(),
           "SIGHUP is ignored with a line")


def test_start_fails():
    for name in ("engine", "proxy", "front"):
        h = fakehub.Hub(hello=False)
        h.on_JOURNAL_APPEND = lambda p, m: None
        h.wait(lambda: "front" in h.peers)
        h.kill(name, 2 << 8)
        code = h.ended()
        ok(code == 2 and f"{name} ended before it was ready" in h.said(),
           f"{name} that ends at the start: exit 2 and a sentence",
           (code, h.said()))
        h.close()


def test_slot():
    with hub() as h:
        ok(oct(os.stat(h.dir + "/run/suite-0").st_mode & 0o777) == "0o700" and
           oct(os.stat(h.dir + "/run/suite-0/mcp.sock").st_mode & 0o777)
           == "0o600", "the control socket is its owner's alone")
        two = fakehub.subprocess.run(
            [h.dir + "/sbxd"], env={"SBX_ROOT": h.dir, "HOME": "/x",
                                    "PATH": "/usr/bin:/bin"},
            user=h.uid, stderr=fakehub.subprocess.PIPE, timeout=5)
        ok(two.returncode == 2 and b"a suite runs already" in two.stderr,
           "one suite a slot", two)


def test_engine_dies():
    with hub() as h:
        began = time.monotonic()
        h.kill("engine")
        code = h.ended()
        ok(code == 3 and time.monotonic() - began < 1.2,
           "the engine's death ends the suite, exit 3", (code, h.said()))
        ok(h.records[-1]["op"] == "suite_end" and h.records[-1]["code"] == 3,
           "and is recorded", h.records[-2:])


# --- calls and workers ----------------------------------------------------------

def test_calls():
    with hub() as h:
        a, b = client(h, 1001), client(h, 1002)
        w = h.begin(a)
        m = h.result(w)
        ok(m.name == "CALL_RESULT" and ipc.read_fd(m.fds[0]) ==
           b'{"status":"ok"}', "a result reaches the front", m)
        w2 = h.begin(a)
        ok(w2 is w, "a principal keeps its worker")
        h.result(w2)
        w3 = h.begin(b)
        ok(w3 is not w, "another one never gets it")
        h.result(w3, is_error=1)
        ok(h.wait(lambda: not w3.open), "an error is a worker's last result")
        w4 = h.begin(b)
        ok(w4 is not None and w4 is not w3, "the next call has a fresh one")
        h.result(w4)
        for _ in range(254):
            h.result(h.begin(a))
        ok(h.wait(lambda: not w.open), "256 calls, then it is replaced")


def test_caps():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a, name="mine")
        names = [box, "mine", box[:6], box, "mine", box]
        first = [h.begin(a, "sandbox_exec", n) for n in names]
        ok(all(first), "six calls in one sandbox, however it is named")
        m = h.outcome(h.call(a, "sandbox_exec", box))
        ok(m and m.get("code") == "busy" and "sandbox" in m["reason"],
           "the seventh is busy", m)
        rest = [h.begin(a) for _ in range(18)]
        ok(all(rest), "24 calls in all")
        m = h.outcome(h.call(a, "sandbox_exec"))
        ok(m and m.get("code") == "busy" and "global" in m["reason"],
           "the 25th is busy", m)
        stops = [h.begin(a, "sandbox_list_containers") for _ in range(4)]
        ok(all(stops), "four more may stop and list")
        m = h.outcome(h.call(a, "sandbox_stop", box))
        ok(m and m.get("code") == "busy" and "recovery" in m["reason"],
           "not five", m)
        h.result(first[0])
        ok(h.begin(a, "sandbox_exec", box), "room is given back")


def test_bad_calls():
    with hub() as h:
        a = client(h)
        m = h.outcome(h.call(a + 1, "sandbox_exec"))
        ok(m["code"] == "unknown_principal", "a handle that was never given")
        m = h.outcome(h.call(a, "Sandbox exec"))
        ok(m["code"] == "unknown_tool", "no tool's name", m)
        m = h.outcome(h.call(a, "sandbox_exec", "../etc"))
        ok(m["code"] == "not_found", "no sandbox's name", m)
        one, two = socket.socketpair()
        ok(h.auth(one.fileno()) == 0, "a connection of the front's own making "
           "is nobody")
        ok(h.auth(os.open("/dev/null", 0)) == 0, "nor is what is no socket")
        handle, sock, conn = h.connect(1003)
        sock.close()
        m = h.outcome(h.call(handle, "sandbox_exec"))
        ok(m["code"] == "unknown_principal", "a client that is gone is not "
           "spoken for", m)
        w = h.begin(a)
        h.call(a, "sandbox_exec")
        h.next_call -= 1
        front = h.peers["front"]
        h.call(a, "sandbox_exec")
        ok(h.wait(lambda: not front.open), "a call number twice ends the front")
        ok(h.wait(lambda: not w.open), "and its calls")
        ok(h.wait(lambda: len(h.named("FRONT_LISTEN")) == 2),
           "a new front has the listener")
        a = client(h)
        ok(h.begin(a) is not None, "and serves")


def test_two_asks():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        h.on_ENGINE_EXEC = lambda p, m: m.close()
        w, other = h.begin(a), h.begin(a)
        fd = ipc.memfd(b"")
        w.send("EXEC_START", 1, [fd], container=box, argv=["a"], cwd="/")
        w.send("SB_LIST", 2)
        m = h.outcome(w.number)
        ok(m and m.get("code") == "worker_died", "a second ask ends the "
           "worker and fails its call", m)
        ok(h.result(other).name == "CALL_RESULT", "the others go on")
        w = h.begin(a)
        w.send("HELLO", version="x")
        ok(h.outcome(w.number)["code"] == "worker_died", "HELLO twice")


def test_garbage():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        hdr = ipc.HDR
        bad = [b"", b"x", hdr.pack(0, 255, 1, 0), hdr.pack(9, 1, 1, 0),
               hdr.pack(0, 110, 1, 0), hdr.pack(0, 131, 1, 0),
               hdr.pack(1, 142, 1, 0) + b"\0", b"\xff" * 300,
               hdr.pack(0, 144, 2, 0)]
        for i, b in enumerate(bad[1:]):
            w = h.begin(a)
            w.send_raw(b)
            m = h.outcome(w.number)
            ok(m and m.get("code") == "worker_died", f"garbage {i} costs a "
               "worker and its call", m)
        ok(h.proc.poll() is None and "front" in h.peers,
           "and nothing else", h.said())
        for name in ("proxy", "broker", "recorder"):
            p = h.peers[name]
            p.send_raw(hdr.pack(0, 110, 1, 0))
            ok(h.wait(lambda: not p.open and h.peers.get(name, p) is not p),
               f"a violation ends {name}, which is started again")
        w = h.begin(a)
        m = h.ask(w, "SB_LIST", container=box)
        ok(h.named("SB_ITEM")[-1]["container"] == box, "the sandbox is there")


def test_worker_dies():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a, "run_container_and_exec")
        made = h.box(w, throwaway=1)["container"]
        fg = h.run(w, box)["run"]
        bg = h.run(w, box, background=1)["run"]
        h.kill_worker(w)
        m = h.outcome(w.number)
        ok(m["code"] == "worker_died", "a dead worker is one failed call", m)
        h.settle()
        killed = [k["run"] for k in h.named("ENGINE_KILL")]
        ok(killed == [fg], "its foreground run is killed, not the background "
           "one", (killed, fg, bg))
        stopped = [s["container"] for s in h.named("SANDBOX_STOP")]
        ok(stopped == [made], "what it made is stopped, nothing else",
           stopped)
        w = h.begin(a)
        ok(w is not None, "the next call is served")


def test_cancel():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run = h.run(w, box)["run"]
        w.send("EXEC_WAIT", 5, run=run, wait_ms=60000)
        h.settle(0.05)
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        ok(h.wait(lambda: not w.open), "a cancel ends the worker")
        h.settle()
        ok([k["run"] for k in h.named("ENGINE_KILL")] == [run],
           "and kills what ran")
        ok(not [m for m in h.named("CALL_RESULT") + h.named("CALL_REFUSED")
                if m["call"] == w.number], "no answer follows")
        h.peers["front"].send("CALL_CANCEL", call=4242)
        h.settle(0.05)
        ok("front" in h.peers, "a cancel that comes late is no violation")
        # while the sandbox is still being made
        h.on_SANDBOX_CREATE = lambda p, m: None
        w = h.begin(a, "sandbox_initialize")
        w.send("SB_CREATE", 1, image="host")
        create = h.wait(lambda: h.named("SANDBOX_CREATE")[1:])[0]
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        h.settle()
        h.peers["engine"].send("SANDBOX_READY", create.id,
                               container=create["container"], pid=1)
        ok(h.wait(lambda: [s for s in h.named("SANDBOX_STOP")
                           if s["container"] == create["container"]]),
           "a sandbox that comes too late is stopped")


def test_gone_client():
    with hub() as h:
        handle, sock, conn = h.connect(1001)
        w = h.begin(handle)
        h.peers["front"].send("FRONT_GONE", principal=handle)
        ok(h.wait(lambda: not w.open), "a connection that ends cancels its "
           "calls")
        conn.close()
        sock.settimeout(2)
        ok(sock.recv(1) == b"", "the monitor lets go of it too")


# --- sandboxes -----------------------------------------------------------------------

def test_create():
    with hub() as h:
        a, b = client(h, 1001), client(h, 1002)
        w = h.begin(a, "sandbox_initialize")
        m = h.box(w, name="web")
        ok(m.name == "SB_CREATED" and len(m["container"]) == 12 and
           len(m["run"]) == 16 and m["name"] == "web", "a sandbox", m)
        ok(h.box(w, name="web")["code"] == "name_in_use", "a name is unique")
        n = len(h.named("SANDBOX_CREATE"))
        for bad in ("../a", "A", "/", "a b", "sha256:12", "sha256:" + "G" * 64):
            ok(h.ask(w, "SB_CREATE", image=bad)["code"] == "unknown_image",
               f"image {bad!r}")
        ok(len(h.named("SANDBOX_CREATE")) == n, "the engine is not asked")
        for bad in ("-a", ".a", "a/b", "a b", "a\x01"):
            ok(h.box(w, name=bad)["code"] == "bad_name", f"name {bad!r}")
        ok(h.box(w)["name"].startswith("sbx-"), "a name is made up")
        r = [r for r in h.records if r["op"] == "sandbox_create"]
        ok([(x["phase"], x["flags"]) for x in r[:2]] ==
           [("start", 1), ("end", 0)], "start is durable, end follows", r[:2])
        wb = h.begin(b, "sandbox_initialize")
        ok(h.box(wb, name="web").name == "SB_CREATED",
           "another principal may use the same name")
        h.on_SANDBOX_CREATE = lambda p, m: p.send(
            "SANDBOX_ENDED", m.id, container=m["container"], why=0,
            reason="clone: Operation not permitted")
        m = h.box(w)
        ok(m["code"] == "sandbox_failed" and "clone" in m["reason"],
           "a failure is told in its words", m)
        h.on_SANDBOX_CREATE = lambda p, m: p.send(
            "SANDBOX_ENDED", m.id, container=m["container"], why=6,
            reason="there is no image alpine")
        m = h.ask(w, "SB_CREATE", image="alpine")
        ok(m["code"] == "unknown_image" and "alpine" in m["reason"],
           "so is an image that there is not", m)
        digest = "sha256:" + "0123456789abcdef" * 4
        h.on_SANDBOX_CREATE = lambda p, m: p.send(
            "SANDBOX_READY", m.id, container=m["container"], pid=5000,
            digest=digest, user="app", workdir="/proc/self/fd/7",
            env=["A=b"], entrypoint=["/bin/x"], own_user=1)
        m = h.ask(w, "SB_CREATE", image="full")
        ok((m["digest"], m["user"], m["workdir"], m["env"], m["entrypoint"],
            m["own_user"]) == (digest, "app", "/proc/self/fd/7", ["A=b"],
                               ["/bin/x"], 1), "an image says what it is", m)
        h.ask(w, "SB_LIST", container=m["container"])
        ok(h.named("SB_ITEM")[-1]["digest"] == digest, "a list has its digest")
        r = [r for r in h.records if r["op"] == "sandbox_create"]
        ok(r[-1]["phase"] == "end" and digest in str(r[-1]),
           "so has the journal", r[-1])


def test_principals():
    with hub() as h:
        a, b = client(h, 1001), client(h, 1002)
        box = ready_box(h, a, name="mine")
        w = h.begin(a)
        run = h.run(w, box)["run"]
        h.result(w)
        w = h.begin(b)
        for name, values in (("SB_STOP", {"container": None}),
                             ("SB_LABEL", {"container": None}),
                             ("EXEC_START", {"container": None, "argv": ["a"],
                                             "cwd": "/"}),
                             ("COPY_IN", {"container": None, "dest": "/x"}),
                             ("EXEC_WAIT", {"run": None}),
                             ("EXEC_KILL", {"run": None}),
                             ("OUT_READ", {"run": None})):
            key = "container" if "container" in values else "run"
            real = box if key == "container" else run
            fake = real.translate(str.maketrans("0123456789abcdef",
                                                "123456789abcdef0"))
            fds = [ipc.memfd(b"")] * ipc.BY_NAME[name].fds
            one = h.ask(w, name, fds, **dict(values, **{key: real}))
            two = h.ask(w, name, fds, **dict(values, **{key: fake}))
            ok(one.name == "WORK_REFUSED" and one["code"] in
               ("not_found", "unknown_run") and
               one["reason"].replace(real, "X") ==
               two["reason"].replace(fake, "X") and one["code"] ==
               two["code"], f"{name}: another's is as good as none", one)
        for ref in ("", box, "mine", box[:6]):
            n = len(h.named("SB_ITEM"))
            m = h.ask(w, "SB_LIST", container=ref)
            ok(m["count"] == 0 and len(h.named("SB_ITEM")) == n,
               f"SB_LIST {ref!r} shows nothing of another", m)
        ok(h.ask(w, "RUN_LIST", max=100)["count"] == 0,
           "RUN_LIST shows nothing of another")
        r = [r for r in h.records if r["op"] == "policy_refusal"]
        ok(len(r) == 1 and r[0]["principal"] == "uid:1002",
           "trying is recorded, at a bounded rate", r)
        w = h.begin(a)
        m = h.ask(w, "SB_LIST")
        item = h.named("SB_ITEM")[-1]
        ok(m["count"] == 1 and item["principal"] == "uid:1001" and
           item["name"] == "mine" and item["jobs"] == 1, "the owner sees it",
           item)
        ok(h.ask(w, "SB_LABEL", container=box, label="l1")["previous"] == ""
           and h.ask(w, "SB_LABEL", container=box)["previous"] == "l1",
           "labels")


def test_stop():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a, "sandbox_stop")
        m = h.ask(w, "SB_STOP", container=box)
        ok(m.name == "SB_STOPPED" and m["container"] == box and
           not h.named("ENGINE_WORK"), "no baseline: it stops at once", m)
        ok(h.wait(lambda: h.named("PROXY_CLOSE"))[0]["container"] == box,
           "its listener is closed")
        ok(h.ask(w, "SB_STOP", container=box)["code"] == "not_found",
           "and is gone")
        h.on_SANDBOX_CREATE = lambda p, m: None
        other = h.begin(a, "sandbox_initialize")
        other.send("SB_CREATE", 1, image="host")
        create = h.wait(lambda: h.named("SANDBOX_CREATE")[1:])[0]
        h.peers["engine"].send("SANDBOX_READY", create.id,
                               container=create["container"], pid=1)
        ok(h.wait(lambda: [x for x in h.named("SB_CREATED")
                           if x["container"] == create["container"]]),
           "the next one is made meanwhile")


def test_ended_by_itself():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run = h.run(w, box)["run"]
        w.send("EXEC_WAIT", 77, run=run, wait_ms=60000)
        h.settle(0.05)
        h.peers["engine"].send("SANDBOX_ENDED", container=box, why=2,
                               status=9, reason="its init was killed")
        m = h.wait(lambda: h.named("RUN_STATE"))[0]
        ok(m["state"] == 2 and m["why"] == 3, "its runs end with it", m)
        r = h.wait(lambda: [r for r in h.records if r["op"] ==
                            "sandbox_end"])
        ok(r and r[0]["container"] == box, "it is recorded")
        ok(h.named("PROXY_CLOSE")[0]["container"] == box, "its listener too")
        h.ask(w, "EXEC_WAIT", run=run)
        ok(h.named("RUN_STATE")[-1]["state"] == 2, "the run is still known")
        ok(h.ask(w, "EXEC_KILL", run=run).name == "RUN_STATE",
           "and can be killed to no effect")
        ok(h.run(w, box)["code"] == "not_found", "the sandbox is not")


def test_watched():
    """a run's changes are told by the handles of its principal alone"""
    with hub() as h:
        a, b = client(h), client(h, 1002)
        box = ready_box(h, a)
        w, v = h.begin(a), h.begin(b)
        run = h.run(w, box)["run"]
        front = h.peers["front"]
        ok(h.ask(v, "RUN_WATCH", run=run).name == "WORK_REFUSED",
           "another's run cannot be watched")
        ok(h.ask(w, "RUN_WATCH", run=run).name == "RUN_STATE",
           "its own can")
        front.send("RUN_UNWATCH", principal=b, run=run)
        front.send("RUN_UNWATCH", principal=12345, run=run)
        h.wait(lambda: h.named("RUN_CHANGED"), 6)
        told = [(m["principal"], m["ended"]) for m in h.named("RUN_CHANGED")]
        ok(told == [(a, 0)], "its growth is told, whatever others say", told)
        front.send("RUN_UNWATCH", principal=a, run=run)
        h.output = b"more than before"
        h.settle(2.6)
        ok(len(h.named("RUN_CHANGED")) == 1, "until it says so itself")
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0, why=0)
        h.wait(lambda: h.named("RUN_CHANGED")[1:])
        told = [(m["principal"], m["ended"]) for m in h.named("RUN_CHANGED")]
        ok(told[1:] == [(a, 1)], "its end is told", told)


def test_throwaway():
    with hub() as h:
        a = client(h)
        w = h.begin(a, "run_container_and_exec")
        box = h.box(w, throwaway=1)["container"]
        run = h.run(w, box)["run"]
        h.result(w)
        h.settle()
        ok(not h.named("SANDBOX_STOP"), "a throwaway sandbox outlives its "
           "call while a run lives in it")
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0)
        ok(h.wait(lambda: h.named("SANDBOX_STOP")), "and ends with it")
        w = h.begin(a, "run_container_and_exec")
        h.box(w, throwaway=1)
        h.result(w)
        ok(h.wait(lambda: h.named("SANDBOX_STOP")[1:]),
           "one without a run ends with its call")


# --- runs ------------------------------------------------------------------------------

def test_runs():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        m = h.run(w, box, ["echo", "hi"])
        run = m["run"]
        e = h.named("ENGINE_EXEC")[-1]
        ok(e["argv"] == ["echo", "hi"] and e["container"] == box and
           e["cwd"] == "/workspace" and e["run"] == run, "exec", e)
        h.ask(w, "EXEC_WAIT", run=run)
        m = h.named("RUN_STATE")[-1]
        ok(m["state"] == 1 and m["out_bytes"] == len(h.output) and
           m["tool"] == "sandbox_exec", "its state while it runs", m)
        began = time.monotonic()
        h.ask(w, "EXEC_WAIT", run=run, wait_ms=300)
        took = time.monotonic() - began
        ok(0.28 < took < 0.6, "a wait ends when its time is up", took)
        w.send("EXEC_WAIT", 77, run=run, wait_ms=60000)
        h.settle(0.05)
        n = len(h.named("RUN_STATE"))
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=256, why=0)
        m = h.wait(lambda: h.named("RUN_STATE")[n:])[0]
        ok(m["state"] == 2 and m["status"] == 256 and m["why"] == 0,
           "or when the run ended", m)
        m = h.ask(w, "OUT_READ", run=run, stream=0, offset=2)
        ok(m.name == "OUT_DATA" and m["length"] == len(h.output) - 2 and
           ipc.read_fd(m.fds[0]) == h.output, "output is a descriptor", m)
        m = h.ask(w, "OUT_READ", run=run, stream=1)
        ok(m.name == "OUT_NODATA" and m["known"] == 1, "or nothing", m)
        ok(h.ask(w, "OUT_READ", run=run, stream=9)["code"] == "bad_argument",
           "a stream that there is not")
        h.ask(w, "RUN_LIST", max=10)
        m = h.wait(lambda: h.named("SB_END"))[-1]
        ok(m["count"] == 2, "runs: this and the sandbox's making", m)
        r = [r for r in h.records if r["op"] == "exec"]
        ok([x["phase"] for x in r] == ["start", "end"] and
           r[0]["fields"]["argv"] == "echo hi" and not r[0]["flags"],
           "exec is recorded, and not waited for", r)


def test_bad_exec():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        fd = ipc.memfd(b"")
        for what, v in (("no command", {"argv": []}),
                        ("an empty one", {"argv": [""]}),
                        ("a relative directory", {"cwd": "x"}),
                        ("no NAME=", {"env": ["a b=c"]}),
                        ("no name", {"env": ["=c"]}),
                        ("too long", {"argv": ["a" * 122881]}),
                        ("days", {"timeout_ms": 1 << 63})):
            v = dict({"argv": ["a"], "cwd": "/", "env": ["A=1"]}, **v)
            m = h.ask(w, "EXEC_START", [fd], container=box, **v)
            ok(m.name == "WORK_REFUSED" and m["code"] == "bad_argument",
               f"exec refused: {what}", m)
        h.on_ENGINE_EXEC = lambda p, m: p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"], error=2,
            reason="no such program")
        m = h.run(w, box)
        ok(m["code"] == "exec_failed" and "no such program" in m["reason"],
           "a command that cannot be started", m)
        del h.on_ENGINE_EXEC
        runs = [h.run(w, box, background=1).name for _ in range(64)]
        ok(set(runs) == {"EXEC_STARTED"}, "64 jobs in a sandbox")
        ok(h.run(w, box)["code"] == "too_many_jobs", "not 65")


def test_timeout():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run = h.run(w, box, timeout_ms=200)["run"]
        began = time.monotonic()
        h.ask(w, "EXEC_WAIT", run=run, wait_ms=5000)
        m = h.named("RUN_STATE")[-1]
        took = time.monotonic() - began
        ok(m["state"] == 2 and m["why"] == 1 and 0.1 < took < 0.5,
           "a run is killed at its timeout, and says so", (m, took))
        run = h.run(w, box)["run"]
        h.ask(w, "EXEC_KILL", run=run)
        m = h.named("RUN_STATE")[-1]
        ok(m["run"] == run and m["state"] == 2 and m["why"] == 2,
           "or killed on request", m)


# --- others die -------------------------------------------------------------------------

def test_recorder_dies():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run, two = h.run(w, box)["run"], h.run(w, box)["run"]
        honest = h.on_RUN_FINISH, h.on_RUN_READ
        h.on_RUN_FINISH = h.on_RUN_READ = lambda p, m: None
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0)
        h.wait(lambda: h.named("RUN_FINISH"))
        w.send("OUT_READ", 77, run=two, stream=0)
        h.wait(lambda: h.named("RUN_READ"))
        h.on_RUN_FINISH, h.on_RUN_READ = honest
        h.kill("recorder")
        m = h.wait(lambda: h.named("OUT_DATA"))
        ok(m and m[0]["length"] == len(h.output),
           "a read is answered by the next recorder", m)
        starts = h.named("RECORDER_START")
        ok(len(starts) == 2 and starts[1]["fresh"] == 0,
           "which keeps what is stored", starts)
        h.ask(w, "EXEC_WAIT", run=run, wait_ms=2000)
        ok(h.named("RUN_STATE")[-1]["state"] == 2, "a run's end as well")
        # RUN_FINISH may overtake RUN_OPEN
        tries = []

        def unknown(p, m):
            tries.append(m)
            known = len(tries) > 12
            p.send("RUN_FINISHED", m.id, run=m["run"], known=known,
                   out_bytes=7 * known)
        h.on_RUN_FINISH = unknown
        h.peers["engine"].send("ENGINE_EXITED", run=two, status=0)
        h.ask(w, "EXEC_WAIT", run=two, wait_ms=4000)
        r = [r for r in h.records if r["run"] == two and r["phase"] == "end"]
        ok(r and r[0]["fields"]["out_bytes"] == "7",
           "a recorder that does not know a run yet is asked again", r)


def die_often(h, name):
    for i in range(5):
        h.kill(name)
        if i < 4 and not h.wait(lambda: name in h.peers, 4):
            return ok(False, f"{name} is started again", h.said())
        h.settle(0.03)
    return True


def test_five_deaths():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run = h.run(w, box)["run"]
        began = time.monotonic()
        die_often(h, "recorder")
        took = time.monotonic() - began
        h.settle(2)
        ok("recorder" not in h.peers and "stays down" in h.said(),
           "five deaths in a minute: it stays down")
        ok(took > 1.4, "each restart after twice as long", took)
        m = h.ask(w, "OUT_READ", run=run, stream=0)
        ok(m["code"] == "suite_degraded" and "signal 9" in m["reason"],
           "its work is refused with the reason", m)
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0)
        h.ask(w, "EXEC_WAIT", run=run, wait_ms=2000)
        ok(h.named("RUN_STATE")[-1]["state"] == 2, "runs still end")
        ok([r for r in h.records if r["op"] == "component_down"],
           "it is recorded")
        die_often(h, "zygote")
        m = h.outcome(h.call(a, "sandbox_exec"))
        ok(m and m["code"] == "suite_degraded", "no workers: calls are "
           "refused", m)
        ok(h.outcome(w.number)["code"] == "worker_died", "and those that ran "
           "ended")
        h.term()
        ok(h.ended() == 0, "the suite itself lives on to its end")
    with hub() as h:
        die_often(h, "journald")
        ok(h.ended() == 3, "without a journal there is no suite, exit 3")


def test_journald_dies():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        h.kill("journald")
        h.hello = False
        m = h.box(w)
        ok(m["code"] == "journal_unavailable", "no journal, no new sandbox", m)
        ok(h.run(w, box).name == "EXEC_STARTED", "plain execution goes on")
        h.wait(lambda: "journald" in h.peers)
        h.peers["journald"].send("HELLO", version="0.1.0", pid=1)
        h.settle()
        lost = [r for r in h.records if "lost_records" in r["fields"]]
        ok(len(lost) == 1 and int(lost[0]["fields"]["lost_records"]) >= 2,
           "the first record after counts what was lost", lost)
        ok(h.box(w).name == "SB_CREATED", "then sandboxes again")
        h.peers["journald"].send("JOURNAL_STATE", able=0, reason="disk full")
        h.settle(0.05)
        m = h.box(w)
        ok(m["code"] == "journal_unavailable", "a journal that cannot commit",
           m)
        h.peers["journald"].send("JOURNAL_STATE", able=1)
        h.settle(0.05)
        ok(h.box(w).name == "SB_CREATED", "and can again")
        h.on_JOURNAL_APPEND = lambda p, m: m["flags"] & 1 and p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="no space left")
        n = len(h.named("SANDBOX_CREATE"))
        m = h.box(w)
        ok(m["code"] == "journal_unavailable" and "no space" in m["reason"]
           and len(h.named("SANDBOX_CREATE")) == n,
           "a record that was not committed stops it", m)
        h.on_JOURNAL_APPEND = lambda p, m: None
        w.send("SB_CREATE", 77, image="host")
        h.settle(0.05)
        h.kill("journald")
        ok(h.wait(lambda: [x for x in h.named("WORK_REFUSED")
                           if "restarted" in x["reason"]]),
           "one that dies before it answers too", h.named("WORK_REFUSED")[-1])
        ok(len(h.named("SANDBOX_CREATE")) == n, "no sandbox was made by it")


def test_zygote_dies():
    with hub() as h:
        a = client(h)
        w = h.begin(a)
        h.kill("zygote")
        m = h.outcome(w.number)
        ok(m and m["code"] == "worker_died", "the zygote takes its workers "
           "along", m)
        ok(h.begin(a) is not None, "the next one serves")


def test_front_dies():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a)
        run = h.run(w, box)["run"]
        h.kill("front")
        ok(h.wait(lambda: not w.open), "the front's calls end with it")
        ok(h.wait(lambda: [k for k in h.named("ENGINE_KILL")
                           if k["run"] == run]), "and what they ran")
        h.wait(lambda: len(h.named("FRONT_LISTEN")) == 2)
        m = h.outcome(h.call(a, "sandbox_exec"))
        ok(m["code"] == "unknown_principal", "old handles are worth nothing")
        b = client(h)
        w = h.begin(b)
        h.ask(w, "SB_LIST")
        ok(h.named("SB_ITEM")[-1]["container"] == box,
           "sandboxes belong to the uid, not to the connection")


def test_flood():
    with hub() as h:
        a = client(h)
        w = h.begin(a)
        for _ in range(1000):
            w.send("LOG", level=0, text="noise \x1b[31m")
        h.settle()
        lines = [x for x in h.said().splitlines() if "noise" in x]
        ok(100 <= len(lines) <= 300 and "\x1b" not in h.said(),
           "a child's log is bounded and escaped", len(lines))
        for _ in range(2000):
            h.peers["front"].send("CALL_CANCEL", call=1 << 31)
        ok(h.result(w).name == "CALL_RESULT", "a flood of late cancels only "
           "costs time")


# --- copies -----------------------------------------------------------------------------

def copy(h, w, box, **v):
    fd = ipc.memfd(v.pop("list", b""))
    v = dict({"container": box, "mode": 1, "source": ".",
              "dest": "/workspace/p"}, **v)
    w.send("COPY_IN", 77, [fd], **v)
    os.close(fd)


def answer(h, w, have):
    return h.wait(lambda: next((m for p, m in h.seen[have:]
                                if p == "worker" and m.id == 77), None))


def test_copy():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        w = h.begin(a, "copy_project")
        have = len(h.seen)
        copy(h, w, box)
        m = answer(h, w, have)
        ok(m["code"] == "no_copy_root", "no root, no copy", m)
        tmp = tempfile.mkdtemp()
        root = os.open(tmp, os.O_PATH)
        plain = os.open("/dev/null", os.O_RDONLY)
        h.peers["front"].send("FRONT_ROOT", 0, [plain], principal=a)
        h.settle(0.05)
        have = len(h.seen)
        copy(h, w, box)
        ok(answer(h, w, have)["code"] == "no_copy_root", "a root is a directory")
        for path in ("/", "/root", "/home"):
            bad = os.open(path, os.O_PATH)
            h.peers["front"].send("FRONT_ROOT", 0, [bad], principal=a)
            h.settle(0.05)
            have = len(h.seen)
            copy(h, w, box)
            ok(answer(h, w, have)["code"] == "no_copy_root",
               f"{path} is nobody's root")
        h.peers["front"].send("FRONT_ROOT", 0, [root], principal=a)
        h.settle(0.05)
        have = len(h.seen)
        copy(h, w, box, list=b"a\0b\0")
        start = h.wait(lambda: h.named("COPYIN_START"))[0]
        unpack = h.wait(lambda: h.named("ENGINE_UNPACK"))[0]
        ok(os.fstat(start.fds[0]).st_ino == os.stat(tmp).st_ino and
           ipc.read_fd(start.fds[1]) == b"a\0b\0" and start["uid"] == 1001,
           "sbxd-copyin gets the client's root, list and uid", start)
        r = [r for r in h.records if r["op"] == "copy_in"]
        ok(r and r[0]["phase"] == "start" and r[0]["flags"] & 1,
           "after the durable record", r)
        os.write(start.fds[3], b"report")
        c = h.peers["copyin"]
        c.send("HELLO", version="0.1.0")
        c.send("COPYIN_DONE", files=2, bytes=9, refused=1)
        h.settle(0.05)
        h.peers["engine"].send("ENGINE_UNPACKED", unpack.id, container=box,
                               files=2, bytes=9, final_path="/workspace/p")
        m = answer(h, w, have)
        ok(m.name == "COPY_DONE" and m["files"] == 2 and m["refused"] == 1 and
           m["final_path"] == "/workspace/p" and ipc.read_fd(m.fds[0]) ==
           b"report", "both ends reported: done", m)
        r = [r for r in h.records if r["op"] == "copy_in"]
        ok(r[-1]["phase"] == "end" and r[-1]["flags"] == 2, "and recorded")

        # what changed since is in the way of a stop
        h.work = ["/workspace/p/new.c"]
        m = h.ask(w, "SB_STOP", container=box)
        q = h.named("ENGINE_WORK")[-1]
        ok(m.name == "WORK_REFUSED" and m["code"] == "unpushed_work" and
           "new.c" in m["reason"] and "force" in m["next"],
           "the stop guard names the work", m)
        ok(q["path"] == "/workspace/p" and
           abs(q["since_ns"] / 1e9 - time.time()) < 5, "by our own clock", q)
        for names, count, word in (
                ([], 12, "was copied in: 12 of git's own (something was "
                 "committed); it is lost"),
                (["a"], 13, ": a, and 12 of git's own (something was"),
                (["a"] * 10, 13, "a, and 3 more;")):
            h.on_ENGINE_WORK = lambda p, m, names=names, count=count: p.send(
                "ENGINE_WORK_FOUND", m.id, container=m["container"],
                complete=1, count=count, names=names)
            m = h.ask(w, "SB_STOP", container=box)
            ok(word in m["reason"], "and counts the rest", m)
        h.on_ENGINE_WORK = lambda p, m: p.send(
            "ENGINE_WORK_FOUND", m.id, container=m["container"], complete=0)
        ok(h.ask(w, "SB_STOP", container=box)["code"] == "unpushed_work",
           "a walk that was not complete is not an all-clear")
        h.on_ENGINE_WORK = lambda p, m: None
        began = time.monotonic()
        m = h.ask(w, "SB_STOP", (), 6, container=box)
        ok(m.name == "WORK_REFUSED" and time.monotonic() - began < 5,
           "nor is silence", m)
        ok(h.ask(w, "SB_STOP", container=box, force=1).name == "SB_STOPPED",
           "force stops it")
        os.rmdir(tmp)


def test_copy_fails():
    with hub() as h:
        a = client(h)
        box = ready_box(h, a)
        tmp = tempfile.mkdtemp()
        root = os.open(tmp, os.O_PATH)
        h.peers["front"].send("FRONT_ROOT", 0, [root], principal=a)
        w = h.begin(a, "copy_project")
        have = len(h.seen)
        copy(h, w, box, dest="relative")
        ok(answer(h, w, have)["code"] == "bad_argument", "a relative place")
        have = len(h.seen)
        copy(h, w, box, mode=9)
        ok(answer(h, w, have)["code"] == "bad_argument", "an unknown mode")
        have = len(h.seen)
        copy(h, w, box)
        h.wait(lambda: h.named("ENGINE_UNPACK"))
        h.kill("copyin")
        m = answer(h, w, have)
        ok(m.name == "COPY_DONE" and m["error"] != 0, "a reader that dies", m)
        have = len(h.seen)
        copy(h, w, box)
        h.wait(lambda: h.named("ENGINE_UNPACK")[1:])
        h.peers["engine"].send("ENGINE_UNPACKED",
                               h.named("ENGINE_UNPACK")[-1].id, container=box,
                               error=5, reason="the stream was cut")
        c = h.peers["copyin"]
        c.send("HELLO", version="0.1.0")
        c.send("COPYIN_DONE", error=13, reason="permission denied: x")
        m = answer(h, w, have)
        ok(m["error"] == 13 and "permission" in m["reason"],
           "the reader's reason is the one to tell", m)
        copy(h, w, box)
        h.wait(lambda: h.named("ENGINE_UNPACK")[2:])
        c = h.peers["copyin"]
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        ok(h.wait(lambda: not c.open), "a cancel ends the copy")
        r = [r for r in h.records if r["op"] == "copy_in"]
        ok(len([x for x in r if x["phase"] == "start"]) ==
           len([x for x in r if x["phase"] == "end"]),
           "every start has its end", r)
        ok(not [x for x in h.named("ENGINE_WORK")], "no baseline came of it")
        os.rmdir(tmp)


# --- stdio --------------------------------------------------------------------------------

def test_stdio():
    r, w = os.pipe()
    os.write(w, b"early\n")
    with fakehub.Hub("--transport", "stdio", "--copy-root", ".",
                     stdin=r) as h:
        m = h.wait(lambda: h.named("FRONT_STDIO"))[0]
        ok(m["principal"] != 0 and m["name"] == f"uid:{h.uid}",
           "stdio is the caller", m)
        ok(os.read(m.fds[0], 99) == b"early\n", "what the client wrote already "
           "is there")
        ok(os.path.exists(h.dir + "/run/suite-1/mcp.sock"),
           "private suites begin at slot 1")
        c = h.begin(m["principal"], "copy_project")
        box = h.box(c)["container"]
        copy(h, c, box)
        start = h.wait(lambda: h.named("COPYIN_START"))
        ok(start and os.fstat(start[0].fds[0]).st_ino ==
           os.stat(h.dir).st_ino, "--copy-root is opened", h.said())
        h.kill("front")
        n = h.wait(lambda: h.named("FRONT_STDIO")[1:])
        ok(n and n[0]["principal"] != m["principal"], "a new front has them "
           "again, under a new handle")
        began = time.monotonic()
        h.wait(lambda: "front" in h.peers)
        h.peers["front"].send("FRONT_EOF")
        ok(h.ended() == 0 and time.monotonic() - began < 1,
           "the client's end is the suite's")
    with hub() as h:
        p = h.peers["front"]
        p.send("FRONT_EOF")
        ok(h.wait(lambda: not p.open) and h.proc.poll() is None,
           "but not of one that serves a socket")
    with fakehub.Hub("--transport", "stdio", "--copy-root", "/") as h:
        m = h.wait(lambda: h.named("FRONT_STDIO"))[0]
        c = h.begin(m["principal"], "copy_project")
        box = h.box(c)["container"]
        have = len(h.seen)
        copy(h, c, box)
        m = answer(h, c, have)
        ok(m["code"] == "no_copy_root" and "holds your home" in m["reason"],
           "a root that holds the home is refused, the rest works", m)


# --- egress --------------------------------------------------------------------

GRANT = {"host": "git.example", "repo": "o/r", "ref": "refs/heads/x",
         "old_id": "0" * 40, "new_id": "b" * 40, "lifetime_ms": 60000}
OPEN, REFUSED, USED, EXPIRED, REVOKED = range(5)


def operator(h, **values):
    """what an operator is told who asks for a grant"""
    def came():
        try:
            return c.recv(0)
        except ipc.Timeout:
            return None
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(h.dir + "/run/suite-0/ctl.sock")
    c = ipc.Chan(s)
    h.wait(came)                    # CTL_HELLO
    c.send("CTL_GRANT", 1, **values)
    m = h.wait(came)
    c.close()
    return m


def state(h, m, what, uses=0):
    h.peers["proxy"].send("GRANT_STATE", 0, grant=m["grant"], state=what,
                          uses=uses)
    h.settle()
    return [(r["phase"], r["fields"].get("reason")) for r in h.records
            if r["op"] == "grant" and r["fields"]["grant"] == m["grant"]]


def test_proxy_is_silent():
    """A sandbox whose way out is never opened ends with its call."""
    with fakehub.Hub() as h:
        h.wait(h.serving)
        h.on_PROXY_OPEN = lambda p, m: None
        w = h.begin(client(h), "sandbox_initialize")
        w.send("SB_CREATE", 1, image="host", want_network=1)
        m = h.wait(lambda: h.named("PROXY_OPEN"))
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        ok(h.wait(lambda: h.named("SANDBOX_STOP"))[0]["container"] ==
           m[0]["container"], "what waits for its way out can be ended")


def test_grants():
    with fakehub.Hub("--transport", "unix", conf="tunnel_out_bytes 0\n"
                     "grant_host git.example\n") as h:
        h.wait(h.serving)
        m = h.named("PROXY_POLICY")[0]
        ok(m["out_bytes"] == 2 ** 64 - 1 and m["entries"] ==
           ["grant_host git.example"], "the proxy has its policy; no limit is "
           "the highest", m)
        me = client(h)
        m = operator(h, container=ready_box(h, me), uses=1, **GRANT)
        ok(m and "allow_network" in m["reason"], "no grant where there is no "
           "way out", m)
        box = ready_box(h, me, want_network=1)
        ok(h.named("PROXY_OPEN")[0]["container"] == box, "its way out is opened")
        m = operator(h, container=box, uses=2, **GRANT)
        ok(m and m.name == "CTL_GRANTED", "a grant is opened", m)
        names = [(p, x.name, x.get("op")) for p, x in h.seen]
        start = [i for i, n in enumerate(names) if n[1:] ==
                 ("JOURNAL_APPEND", "grant")]
        ok(start and start[0] < names.index(("proxy", "GRANT_OPEN", 1)),
           "behind its record")
        ok(state(h, m, USED, 1)[1:] == [("use", "")], "a use is recorded")
        ok(state(h, m, USED, 0)[2:] == [("use", ""), ("end", "used up")],
           "and the last one ends it")
        ok(len(state(h, m, USED, 0)) == 4 and "proxy" in h.peers,
           "what comes after that is nothing")
        m = operator(h, container=box, uses=1, **GRANT)
        p = h.peers["proxy"]
        ok(state(h, m, USED, 1)[1:2] != [("use", "")] and
           h.wait(lambda: not p.open),
           "a use that leaves as many as before ends the proxy")


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
mcp.main(tap, globals(), sys.argv[1:])
