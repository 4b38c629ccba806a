#!/usr/bin/env python3
"""`sbx lockdown off` with suites that are played here: its file goes when all
that run have agreed, and not before."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

SBX = os.environ["SBX_BUILD"] + "/sbx"
t = mcp.Tap()
root = tempfile.mkdtemp(prefix="sbx-lock-")
LOCK = root + "/state/lockdown"


class Fake:
    """The control socket of one suite.  answer: what it says to a lockdown, a
    message's name, or None: it dies."""

    def __init__(self, slot, answer):
        where = "%s/run/suite-%d" % (root, slot)
        os.makedirs(where, exist_ok=True)
        self.path, self.answer, self.file = where + "/ctl.sock", answer, []
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.bind(self.path)
        self.sock.listen(4)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                s = self.sock.accept()[0]
            except OSError:
                return
            ch = ipc.Chan(s)
            ch.send("CTL_HELLO")
            try:
                m = ch.recv(5, "CTL_LOCKDOWN")
                self.file.append((m["on"], os.path.exists(LOCK)))
                if self.answer:
                    ch.send(self.answer, m.id, **(
                        {"code": "journal_unavailable", "reason": "no disk"}
                        if self.answer == "CTL_REFUSED" else {}))
            except ipc.Closed:
                pass
            ch.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(5)
        os.unlink(self.path)


def sbx(*argv):
    return subprocess.run([SBX, *argv], capture_output=True, text=True,
                          timeout=60, env=dict(os.environ, SBX_ROOT=root))


def locked():
    return os.path.exists(LOCK)


def test_nobody():
    t.ok(sbx("lockdown").returncode == 0 and locked(), "on, with no suite")
    r = sbx("lockdown", "off")
    t.ok(r.returncode == 0 and not locked() and "lifted" in r.stdout,
         "off, with no suite", r)
    t.ok(sbx("lockdown", "off").returncode == 0, "twice is once")
    for words in (("broker", "status"), ("publish", "list"),
                  ("publish", "list", "--json")):
        r = sbx(*words)
        t.ok(r.returncode == 3 and "suite" in r.stderr,
             "no suite to ask: " + " ".join(words), r)


def test_agreed():
    with Fake(0, "CTL_LOCKED") as a, Fake(1, "CTL_LOCKED") as b:
        t.ok(sbx("lockdown").returncode == 0 and locked(), "on, for both")
        t.ok(a.file == b.file == [(1, True)], "with its file before them")
        r = sbx("lockdown", "off")
        t.ok(r.returncode == 0 and not locked(), "both agree: it goes", r)
        t.ok(r.stdout.splitlines() == ["suite 0: open", "suite 1: open",
                                       "The lockdown is lifted."],
             "each is named once", r)
        t.ok(a.file[1] == b.file[1] == (0, True),
             "after they did", (a.file, b.file))
        t.ok(a.file[2:] == b.file[2:] == [(0, False)],
             "and who started meanwhile is told once more", a.file)


def test_not_agreed():
    for answer, how in (("CTL_REFUSED", "refuses"), (None, "dies")):
        with Fake(0, "CTL_LOCKED"), Fake(1, answer):
            sbx("lockdown")
            r = sbx("lockdown", "off")
            t.ok(r.returncode == 3 and locked(),
                 "one that %s keeps it" % how, r)
            t.ok("suite 1" in r.stderr and "stays locked down" in r.stderr and
                 "lifted" not in r.stdout and (answer is None or
                                               "no disk" in r.stderr),
                 "and it is said", r)
        with Fake(0, "CTL_LOCKED"):
            t.ok(sbx("lockdown", "off").returncode == 0 and not locked(),
                 "until it has gone")


try:
    mcp.main(t, globals(), sys.argv[1:])
finally:
    shutil.rmtree(root, ignore_errors=True)
