#!/usr/bin/env python3
"""Snapshots as sbxd alone decides of them, among fakes: foreign and forged
ids, callers that go away half-way, answers that cross.  One test is one
function."""
import os
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
import ipc      # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok


class Hub(fakehub.Hub):
    """With an engine that takes snapshots, unless told to wait."""

    def __init__(self, *args, **kw):
        self.slow, self.waiting = False, []
        super().__init__(*args, **kw)
        if not self.wait(self.serving):
            ok(False, "the suite serves", self.said())

    def client(self, uid=1001):
        handle, sock, conn = self.connect(uid)
        self.keep = getattr(self, "keep", []) + [sock, conn]
        return handle

    def ready(self, handle, **values):
        w = self.begin(handle, "sandbox_initialize")
        box = self.box(w, **values)["container"]
        self.result(w)
        return box

    def on_SNAP_TAKE(self, p, m):
        self.waiting.append((p, m))
        if not self.slow:
            self.taken()

    def taken(self, error=0):
        p, m = self.waiting.pop(0)
        if m["end"]:
            p.send("SANDBOX_ENDED", container=m["container"], why=1)
        p.send("SNAP_TAKEN", m.id, container=m["container"],
               snapshot=m["snapshot"], error=error, files=1, bytes=1,
               digest="ab" * 32)
        self.settle()

    def on_SNAP_RESTORE(self, p, m):
        p.send("SNAP_RESTORED", m.id, container=m["container"],
               snapshot=m["snapshot"])

    def snap(self, w, box, **values):
        return self.ask(w, "SB_SNAPSHOT", container=box, **values)

    def dropped(self):
        return [m["snapshot"] for m in self.named("SNAP_DROP")]

    def copied(self, w, box, dest):
        """a copy from a client's root that has come to its end"""
        n = len(self.named("ENGINE_UNPACK"))
        have = len(self.seen)
        fd = ipc.memfd(b"")
        w.send("COPY_IN", 77, [fd], container=box, mode=1, source=".",
               dest=dest)
        os.close(fd)
        m = self.wait(lambda: self.named("ENGINE_UNPACK")[n:])[0]
        c = self.peers["copyin"]
        c.send("HELLO", version="0.1.0")
        c.send("COPYIN_DONE", files=1, bytes=1)
        self.settle(0.05)
        self.peers["engine"].send("ENGINE_UNPACKED", m.id, container=box,
                                  files=1, bytes=1, final_path=dest)
        return self.wait(lambda: next(
            (m for p, m in self.seen[have:] if p == "worker" and
             m.name == "COPY_DONE"), None))


def other(ident):
    return ident.translate(str.maketrans("0123456789abcdef",
                                         "123456789abcdef0"))


def test_foreign():
    """what a worker in somebody's hands can name"""
    with Hub() as h:
        a, b = h.client(1001), h.client(1002)
        box, own = h.ready(a, name="mine"), h.ready(b)
        w = h.begin(a)
        snap = h.snap(w, box, name="good")["snapshot"]
        deps = h.ask(w, "DEPS_MAKE", image="host", commands=["true"])
        run = h.named("ENGINE_EXEC")[-1]["run"]
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0, why=0)
        deps = deps or h.wait(lambda: h.named("DEPS_READY"))[0]
        ok(deps.name == "DEPS_READY" and deps["snapshot"],
           "a dependency layer", deps)
        h.result(w)
        w = h.begin(b)
        for name, values in (
                ("SB_SNAPSHOT", {"container": box}),
                ("SB_RESTORE", {"container": box, "snapshot": snap,
                                "force": 1}),
                ("SB_RESTORE", {"container": own, "snapshot": snap,
                                "force": 1}),
                ("SB_FORK", {"container": box, "count": 1}),
                ("SB_FORK", {"snapshot": snap, "count": 1}),
                ("SB_FORK", {"snapshot": deps["snapshot"], "count": 1}),
                ("SB_CREATE", {"snapshot": snap}),
                ("SB_CREATE", {"snapshot": deps["snapshot"]}),
                ("SNAP_REMOVE", {"snapshot": snap}),
                ("SNAP_REMOVE", {"snapshot": deps["snapshot"]})):
            real = h.ask(w, name, **values)
            fake = h.ask(w, name, **{
                k: other(v) if v in (box, snap, deps["snapshot"]) else v
                for k, v in values.items()})
            ids = {box, snap, deps["snapshot"]} & set(values.values())

            def plain(m):
                text = m["reason"]
                for i in ids:
                    text = text.replace(i, "X").replace(other(i), "X")
                return m["code"], text
            ok(real.name == "WORK_REFUSED" and real["code"] == "not_found" and
               plain(real) == plain(fake),
               f"{name} {sorted(values)}: another's is as good as none", real)
        for name in ("good", "snap-" + snap, "", "../x", "*", "a/b", "\n"):
            m = h.ask(w, "SB_RESTORE", container=own, snapshot=name, force=1)
            ok(m["code"] == "not_found", f"another's by name {name!r}", m)
        m = h.ask(w, "SNAP_LIST")
        ok(m["count"] == 0 and not h.named("SNAP_ITEM"),
           "a list shows nothing of another", m)
        ok(not h.named("SNAP_RESTORE") and not h.dropped(),
           "the engine was asked for nothing")
        h.result(w)
        w = h.begin(b)
        m = h.ask(w, "DEPS_MAKE", (), 0.3, image="host", commands=["true"])
        ok(m is None and len(h.named("SNAP_TAKE")) == 2,
           "nor is another's dependency layer given out", m)
        hidden = h.named("SANDBOX_CREATE")[-1]["container"]
        w = h.begin(b)
        for name, values in (("SB_STOP", {"force": 1}), ("SB_LABEL", {}),
                             ("SB_SNAPSHOT", {}), ("SB_FORK", {"count": 1}),
                             ("EXEC_START", {"argv": ["a"], "cwd": "/"}),
                             ("COPY_IN", {"dest": "/x"})):
            fds = [ipc.memfd(b"")] * ipc.BY_NAME[name].fds
            m = h.ask(w, name, fds, container=hidden, **values)
            ok(m.name == "WORK_REFUSED" and m["code"] == "not_found",
               f"{name}: nobody reaches where a layer is made", m)


def test_gone_fork():
    """whoever forked is gone before the state is there"""
    with Hub() as h:
        a = h.client()
        box = h.ready(a)
        h.slow = True
        for i, how in enumerate(("a cancel", "a dead worker")):
            w = h.begin(a)
            w.send("SB_FORK", 77, container=box, count=2)
            take = h.wait(lambda: h.named("SNAP_TAKE")[i:])[0]
            if i == 0:
                h.peers["front"].send("CALL_CANCEL", call=w.number)
            else:
                h.kill_worker(w)
            h.settle()
            before = h.dropped().count(take["snapshot"])
            h.taken()
            ok(h.dropped().count(take["snapshot"]) > before,
               how + ": the state that comes later is dropped", h.dropped())
        ok(len(h.named("SANDBOX_CREATE")) == 1, "nothing was made of them")


def test_gone_setup():
    """the same for a dependency layer, and for a snapshot"""
    with Hub() as h:
        a = h.client()
        box = h.ready(a)
        h.slow = True
        w = h.begin(a, "sandbox_initialize")
        w.send("DEPS_MAKE", 77, image="host", commands=["true"])
        run = h.wait(lambda: h.named("ENGINE_EXEC"))[0]["run"]
        h.peers["engine"].send("ENGINE_EXITED", run=run, status=0, why=0)
        take = h.wait(lambda: h.named("SNAP_TAKE"))[0]
        ok(take["end"] == 1, "its sandbox ends with it")
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        h.settle()
        before = h.dropped().count(take["snapshot"])
        h.taken()
        ok(h.dropped().count(take["snapshot"]) > before,
           "a layer that nobody waits for is dropped", h.dropped())
        w = h.begin(a)
        w.send("SB_SNAPSHOT", 77, container=box)
        take = h.wait(lambda: h.named("SNAP_TAKE")[1:])[0]
        h.peers["front"].send("CALL_CANCEL", call=w.number)
        h.settle()
        h.taken()
        ok(h.dropped()[-1] == take["snapshot"], "so is a snapshot")
        w = h.begin(a)
        ok(h.ask(w, "SNAP_LIST")["count"] == 0, "there is none")


def test_crossing():
    """two stops of one sandbox: each goes by the answers to its own
    questions"""
    with Hub() as h:
        a = h.client()
        box = h.ready(a)
        root = tempfile.mkdtemp()
        fd = os.open(root, os.O_PATH)
        h.peers["front"].send("FRONT_ROOT", 0, [fd], principal=a)
        w = h.begin(a, "copy_project")
        for dest in ("/workspace/p", "/workspace/q"):
            h.copied(w, box, dest)
        os.close(fd)
        os.rmdir(root)
        h.result(w)
        asked = []
        h.on_ENGINE_WORK = lambda p, m: asked.append((p, m))

        def tell():
            """only below q is work"""
            p, m = asked.pop(0)
            work = [m["path"] + "/new"] if m["path"] == "/workspace/q" else []
            p.send("ENGINE_WORK_FOUND", m.id, container=m["container"],
                   complete=1, count=len(work), names=work)
            h.settle(0.05)

        ws = [h.begin(a), h.begin(a)]
        for w in ws:
            w.send("SB_STOP", 77, container=box)
        h.wait(lambda: len(asked) == 2)
        have = len(h.seen)
        for _ in range(4):
            if asked:
                tell()
        h.settle()
        got = [m for p, m in h.seen[have:] if p == "worker"]
        ok(not h.named("SANDBOX_STOP") and [m.name for m in got] ==
           ["WORK_REFUSED"] * 2 and all(m["code"] == "unpushed_work"
                                        for m in got),
           "both are refused for the sake of the one place", got)


def test_restore_guard():
    with Hub() as h:
        a = h.client()
        box = h.ready(a)
        h.work = ["/workspace/new"]
        w = h.begin(a)
        first = h.snap(w, box, name="first")["snapshot"]
        second = h.snap(w, box)["snapshot"]
        h.ask(w, "SB_RESTORE", container=box, snapshot="first")
        since = h.named("ENGINE_WORK")[-1]["since_ns"]
        ok(since > 10 ** 18, "work is what is newer than the last snapshot",
           since)
        h.ask(w, "SNAP_REMOVE", snapshot=second)
        m = h.ask(w, "SB_RESTORE", container=box, snapshot="first")
        since = h.named("ENGINE_WORK")[-1]["since_ns"]
        ok(m["code"] == "unpushed_work" and since < 10 ** 10,
           "when that was dropped, all that is there", since)
        # a run that begins while it is looked for work
        h.work = []
        asked = []
        h.on_ENGINE_WORK = lambda p, m: asked.append((p, m))
        have = len(h.seen)
        w.send("SB_RESTORE", 77, container=box, snapshot="first")
        h.wait(lambda: asked)
        other_w = h.begin(a)
        run = h.run(other_w, box, background=1)["run"]
        for _ in range(16):
            if asked:
                p, m = asked.pop(0)
                p.send("ENGINE_WORK_FOUND", m.id, container=box, complete=1)
                h.settle(0.05)
        m = h.wait(lambda: next((m for p, m in h.seen[have:]
                                 if p == "worker" and m.name in
                                 ("WORK_REFUSED", "SB_RESTORED")), None))
        ok(m.name == "WORK_REFUSED" and m["code"] == "runs_live" and
           run in m["reason"], "a run that began meanwhile is not ended", m)
        m = h.ask(w, "SB_RESTORE", container=box, snapshot=first, force=1)
        ok(m.name == "SB_RESTORED", "by force it is", m)


def test_image():
    """the sandbox is of the snapshot's image from then on"""
    with Hub() as h:
        a = h.client()
        digests = {"host": "", "one": "sha256:" + "1" * 64}
        h.on_SANDBOX_CREATE = lambda p, m: p.send(
            "SANDBOX_READY", m.id, container=m["container"], pid=5000,
            digest=digests[m["image"]])
        w = h.begin(a)
        one = h.ask(w, "SB_CREATE", image="one")["container"]
        host = h.ask(w, "SB_CREATE", image="host")["container"]
        snap = h.snap(w, one)["snapshot"]
        h.ask(w, "SB_RESTORE", container=host, snapshot=snap, force=1)
        h.ask(w, "SB_LIST", container=host)
        item = h.named("SB_ITEM")[-1]
        ok((item["image"], item["digest"]) == ("one", digests["one"]),
           "the list says so, name and digest", item)


def test_fork_names():
    with Hub() as h:
        a = h.client()
        boxes = [h.ready(a), h.ready(a)]
        h.slow = True
        for box in boxes:
            w = h.begin(a)
            w.send("SB_FORK", 77, container=box, count=2, name="n")
        h.wait(lambda: len(h.waiting) == 2)
        have = len(h.seen)
        h.taken()
        h.taken()
        h.settle()
        got = sorted(m["code"] for p, m in h.seen[have:]
                     if p == "worker" and m.name == "WORK_REFUSED")
        w = h.begin(a)
        n = len(h.named("SB_ITEM"))
        h.ask(w, "SB_LIST")
        names = sorted(m["name"] for m in h.named("SB_ITEM")[n:])
        ok(got == ["name_in_use"] and names[:2] == ["n-1", "n-2"] and
           len(names) == 4, "two forks at once do not share names",
           (got, names))


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
for _name, _test in list(globals().items()):
    if _name.startswith("test_") and (len(sys.argv) < 2 or
                                      _name in sys.argv[1:]):
        try:
            _test()
        except Exception as e:  # pylint: disable=broad-except
            import traceback
            tap.ok(False, f"{_name}: {e!r}")
            print("#", traceback.format_exc().replace("\n", "\n# "))
tap.done()
sys.exit(tap.bad > 0)
