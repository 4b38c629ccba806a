#!/usr/bin/env python3
"""A run that clones, at sbxd among fakes: its grant ends with it and not with
the call, and what it leaves is what the guard of work compares with."""
import os
import signal
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
CONF = "allowed_repo o/r\ngithub_app 12 34 /nowhere/key.pem\n"


class Place:
    def __init__(self):
        self.h = fakehub.Hub("--transport", "unix", conf=CONF)
        self.h.on_BROKER_GRANT = lambda p, m: p.send(
            "BROKER_GRANTED", grant=m["grant"], source="app")
        self.h.wait(self.h.serving)
        self.who = self.client(1001)
        self.box = self.make(self.who)
        self.w = self.h.begin(self.who, "clone_repo")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.h.close()

    def client(self, uid):
        handle, sock, conn = self.h.connect(uid)
        self.keep = getattr(self, "keep", []) + [sock, conn]
        return handle

    def make(self, handle):
        w = self.h.begin(handle, "sandbox_initialize")
        box = self.h.box(w, want_network=1)["container"]
        self.h.result(w)
        return box

    def grant(self, box=None, w=None):
        return self.h.ask(w or self.w, "REPO_OPEN", [], container=box or self.box,
                          host="github.com", repo="o/r",
                          lifetime_ms=600000)["grant"]

    def bind(self, run, grant="", path="/workspace/r", w=None):
        return self.h.ask(w or self.w, "REPO_RUN", [], run=run, grant=grant,
                          path=path)

    def end(self, run, status=0, why=0):
        self.h.peers["engine"].send("ENGINE_EXITED", run=run, status=status,
                                    why=why)
        self.h.wait(lambda: [r for r in self.h.records if r["op"] == "exec"
                             and r["phase"] == "end" and r["run"] == run])
        self.h.settle()

    def revoked(self, grant):
        return [m for m in self.h.named("GRANT_REVOKE") if
                m["grant"] == grant]

    def looked(self):
        return [m["path"] for m in self.h.named("ENGINE_WORK")]


def refused(m, code):
    return m.name == "WORK_REFUSED" and m["code"] == code


def test_grant():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        ok(p.bind(run, g).name == "REPO_RUNS", "a grant goes to a run")
        p.h.result(p.w)
        p.h.settle()
        ok(not p.revoked(g), "which may outlive the call")
        ok(not p.looked(), "nothing is compared yet")
        p.end(run)
        ok(p.revoked(g) and [r["fields"]["reason"] for r in p.h.records if
                             r["op"] == "grant" and r["phase"] == "end"] ==
           ["its run ended"], "and ends with it, on record")
        ok(p.looked() == ["/workspace/r"], "what it left is counted",
           p.looked())
        w = p.h.begin(p.who, "sandbox_stop")
        p.h.work = ["a.c"]
        m = p.h.ask(w, "SB_STOP", container=p.box)
        ok(refused(m, "unpushed_work") and "a.c" in m["reason"] and
           p.looked()[-1] == "/workspace/r", "newer work is kept from a stop",
           m)


def test_unbound():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        ok(p.bind(run).name == "REPO_RUNS", "a run without a grant")
        p.h.result(p.w)
        p.h.settle()
        ok(p.revoked(g), "one that no run has ends with its call")
        p.end(run)
        ok(p.looked() == ["/workspace/r"], "the place is noted all the same")


def test_grant_alone():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        ok(p.bind(run, g, "").name == "REPO_RUNS", "a grant without a place")
        p.end(run)
        ok(p.revoked(g) and not p.looked(), "ends, and nothing is compared")


def test_failed():
    for status, why, what in ((256, 0, "that fails"), (9, 2, "killed")):
        with Place() as p:
            g = p.grant()
            run = p.h.run(p.w, p.box)["run"]
            p.bind(run, g)
            p.end(run, status, why)
            ok(p.revoked(g) and not p.looked(), "a clone %s: the grant ends, "
               "nothing is compared" % what, p.looked())


def test_two():
    """Of one repository in one sandbox: no one's end is the other's."""
    with Place() as p:
        g1 = p.grant()
        run1 = p.h.run(p.w, p.box)["run"]
        p.bind(run1, g1)
        w2 = p.h.begin(p.who, "clone_repo")
        g2 = p.grant(w=w2)
        run2 = p.h.run(w2, p.box)["run"]
        p.bind(run2, g2, "/workspace/r2", w=w2)
        p.end(run1)
        p.h.result(p.w)
        p.h.settle()
        ok(not p.revoked(g1) and not p.revoked(g2),
           "what either is read by stays while one goes on")
        w3 = p.h.begin(p.who, "clone_repo")
        g3 = p.grant(w=w3)
        p.h.result(w2)
        p.end(run2)
        ok(not [g for g in (g1, g2, g3) if p.revoked(g)], "or a third one")
        p.h.result(w3)
        p.h.settle()
        ok(all(p.revoked(g) for g in (g1, g2, g3)) and
           len([r for r in p.h.records if r["op"] == "grant" and
                r["phase"] == "end"]) == 3, "and all end with the last")
        w4 = p.h.begin(p.who, "clone_repo")
        g4, g5 = p.grant(w=w4), p.grant(w=w4)
        p.h.result(w4)
        p.h.settle()
        ok(p.revoked(g4) and p.revoked(g5), "two of one call hold nothing up")


def test_other_sources():
    """A source that the file names no more is used no more."""
    with Place() as p:
        g = p.grant()
        with open(p.h.dir + "/etc/sbx.conf", "w", encoding="ascii") as f:
            f.write(CONF.split("\n")[0] + "\n")
        p.h.term(signal.SIGHUP)
        ok(p.h.wait(lambda: len(p.h.named("BROKER_START")) == 2) and
           p.h.named("BROKER_LOCK")[0]["on"] == 1, "tokens are revoked, and "
           "another broker takes over", p.h.said())
        ok([m["sources"] for m in p.h.named("BROKER_START")] ==
           [["github_app 12 34 /nowhere/key.pem"], []],
           "which knows the new ones alone", p.h.named("BROKER_START"))
        p.h.settle()
        ok(p.revoked(g), "what was open ended")
        m = p.h.ask(p.w, "REPO_OPEN", [], container=p.box, host="github.com",
                    repo="o/r", lifetime_ms=600000)
        ok(m["grant"] == "" and "no source" in m["why"], "and there is none "
           "for another", m)
        n = len(p.h.named("BROKER_LOCK"))
        p.h.term(signal.SIGHUP)
        p.h.settle(0.5)
        ok(len(p.h.named("BROKER_LOCK")) == n, "the same again changes "
           "nothing")


def test_other_files():
    """The lines are the same, but not what they name: the broker says so."""
    with Place() as p:
        def hup(what, anew, **said):
            n = len(p.h.named("BROKER_START"))
            p.h.broker = said
            p.h.term(signal.SIGHUP)
            if anew:
                p.h.wait(lambda: len(p.h.named("BROKER_START")) > n)
            p.h.settle(0.1 if anew else 0.4)
            ok(len(p.h.named("BROKER_START")) == n + anew, what,
               p.h.named("BROKER_START"))

        g = p.grant()
        hup("the same files change nothing", 0)
        ok(not p.revoked(g), "a grant goes on")
        hup("another one has a broker read it", 1, changed=1)
        ok(p.revoked(g) and p.h.named("BROKER_LOCK")[-1]["on"] == 1 and
           p.h.named("BROKER_START")[0] == p.h.named("BROKER_START")[1],
           "what was open ended, and the lines are the same")
        hup("what cannot be used is tried again", 1, bad=1)
        n = len(p.h.named("BROKER_START"))
        p.h.kill("broker")
        p.h.broker = {"changed": 1, "bad": 1}
        p.h.wait(lambda: len(p.h.named("BROKER_START")) > n)
        p.h.settle(0.4)
        ok(len(p.h.named("BROKER_START")) == n + 1, "but nothing without a "
           "SIGHUP")


def test_late():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        p.end(run)
        ok(p.bind(run, g).name == "REPO_RUNS" and p.revoked(g) and
           p.looked() == ["/workspace/r"], "a run that was over before")


def test_hostile():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        ok(refused(p.bind(run, path=""), "bad_argument"), "neither")
        for path in ("r", "/..", "/workspace/../../etc", "/a/.."):
            ok(refused(p.bind(run, g, path), "bad_argument"),
               "a path: %r" % path)
        ok(p.bind(run, "", "/a/..b").name == "REPO_RUNS", "dots in a name")
        ok(refused(p.bind("0" * 16, g), "unknown_run"), "no such run")
        ok(refused(p.bind(run, "f" * 16), "unknown_grant"), "no such grant")
        other = p.make(p.who)
        g2 = p.grant(other)
        ok(refused(p.bind(run, g2), "unknown_grant"), "of another sandbox")
        w = p.h.begin(p.who, "clone_repo")
        ok(refused(p.bind(run, g, w=w), "unknown_grant"), "of another call")
        if os.getuid() == 0:    # nobody else can play another user
            w = p.h.begin(p.client(1002), "clone_repo")
            ok(refused(p.bind(run, g, w=w), "unknown_run"), "another's run")
        p.end(run)
        ok(not p.revoked(g), "what was refused binds nothing")


def test_sandbox_ends():
    with Place() as p:
        g = p.grant()
        run = p.h.run(p.w, p.box)["run"]
        p.bind(run, g)
        p.h.peers["engine"].send("SANDBOX_ENDED", container=p.box, why=2,
                                 status=9, reason="its init was killed")
        p.h.wait(lambda: [r for r in p.h.records if r["op"] ==
                          "sandbox_end"])
        p.h.settle()
        ok(p.revoked(g) and not p.looked(), "with the sandbox all of it ends")


mcp.main(tap, dict(globals()), sys.argv[1:])
