#!/usr/bin/env python3
"""A full disk: crossings are refused, their ends still fit, what was lost is
counted.  And the checkpoints to the system journal.  Both need a mount
namespace: a small tmpfs, and a /run of our own."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import journal as J  # noqa: E402

ROOT = os.geteuid() == 0 and "inside-user" not in sys.argv
SIZE, RESERVE = 6 << 20, 512 << 10
t = J.Tap()


def enter():
    """Again, inside of a mount namespace."""
    how = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    inside = "inside" if os.geteuid() == 0 else "inside-user"
    if subprocess.run(["unshare", *how, "true"], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        t.skip("no user and mount namespaces")
        t.end()
    os.execvp("unshare", ["unshare", *how, sys.executable, __file__, inside])


class Daemon(J.Daemon):
    """Root of a user namespace is no root: back to a plain user in there."""

    def __init__(self, path, **kw):
        if not ROOT:
            J.PROGRAM, J.owner = "unshare", lambda: (0, 0, {})
            kw["args"] = ["-U", "--map-user=1000", "--map-group=1000",
                          os.path.join(J.BUILD, "sbx-journald")]
        super().__init__(path, **kw)


def fill(path):
    with open(os.path.join(path, "ballast"), "wb", buffering=0) as f:
        for n in (65536, 4096):
            try:
                while True:
                    f.write(b"x" * n)
            except OSError:
                pass


def empty(path):
    os.unlink(os.path.join(path, "ballast"))


def until_refused(dm, flags):
    """(how many were committed, the refusal)"""
    for i in range(20000):
        m = dm.put(flags=flags, fields=["pad", "y" * 900])
        if m["seq"] == 0:
            return i, m
    return 20000, None


def full(mount):
    p = os.path.join(mount, "journal")
    dm = Daemon(p, reserve=RESERVE)
    t.ok(dm.put()["seq"] == 2, "with space a crossing is granted")
    fill(mount)
    n, m = until_refused(dm, J.DURABLE)
    t.ok(m is not None and "No space left" in m["reason"],
         "on a full disk it is refused and the reason said (after %d)" % n)
    dm.wait_state(0)
    t.ok("No space" in dm.state[-1]["reason"], "the monitor is told")
    for _ in range(7):
        dm.append(flags=0)
    t.ok(dm.put()["seq"] == 0, "refused as long as it lasts")
    dm.ch.send("PING", 3)
    t.ok(dm.ch.recv(want="PONG")["healthy"] == 0, "and PONG says so")
    ends = [dm.put(flags=J.DURABLE | J.RESERVED, phase="end")["seq"]
            for _ in range(50)]
    t.ok(all(ends), "records that end a crossing still fit")
    empty(mount)
    dm.wait_state(1)
    t.ok(dm.put()["seq"] > 0, "with space again crossings go on")
    rec = J.records(p)
    lost = [r["fields"] for r in rec if r["op"] == "lost"]
    t.ok(len(lost) == 1 and lost[0]["lost"] == "7" and
         lost[0]["refused"] == "2" and "No space" in lost[0]["reason"],
         "what was not written is counted")
    fill(mount)
    until_refused(dm, J.DURABLE)
    n, m = until_refused(dm, J.DURABLE | J.RESERVED)
    t.ok(m is not None and n * 1300 > RESERVE * 3 // 4,
         "the reserve holds what it promises (%d records)" % n)
    raw = J.raw(p)
    t.ok(raw[-1:] != b"\n", "the last write ended inside a record")
    empty(mount)
    dm.state.clear()
    dm.wait_state(1)
    t.ok(dm.put()["seq"] > 0, "after that it recovers as well")
    rec = J.records(p)
    t.ok([r["op"] for r in rec if r["op"] in ("torn", "lost")] ==
         ["lost", "torn", "lost"], "and accounts for the cut record")
    t.ok(J.read(p, "verify")[0] == 0, "verify agrees")
    start_full(mount, p, dm)


def start_full(mount, p, dm):
    fill(mount)
    until_refused(dm, J.DURABLE)
    until_refused(dm, J.DURABLE | J.RESERVED)
    dm.kill()
    dm.ch.close()
    dm = Daemon(p, reserve=RESERVE)
    dm.wait_state(0)
    t.ok(dm.put()["seq"] == 0, "started on a full disk it refuses")
    empty(mount)
    dm.wait_state(1)
    t.ok(dm.put()["seq"] > 0 and dm.stop() == 0, "and recovers")
    rec = J.records(p)
    t.ok(len([r for r in rec if r["op"] == "open"]) == 2 and
         J.read(p, "verify")[0] == 0, "with a good chain")


def rotate_full(mount):
    """No space for the next file: the old one stays in use."""
    p = os.path.join(mount, "rotate")
    dm = Daemon(p, rotate=16384, reserve=RESERVE)
    dm.put()
    fill(mount)
    seqs = [dm.put(flags=J.DURABLE | J.RESERVED,
                   fields=["pad", "z" * 900])["seq"] for _ in range(40)]
    t.ok(all(seqs), "a file that should be rotated goes on in a full disk")
    empty(mount)
    dm.state.clear()
    t.ok(dm.put()["seq"] > 0 and dm.stop() == 0, "it ends well")
    J.records(p)
    t.ok(J.read(p, "verify")[0] == 0, "and verifies")


def checkpoints(mount):
    if subprocess.run(["mount", "-t", "tmpfs", "run", "/run"],
                      check=False).returncode != 0:
        t.skip("no /run of our own")
        return
    os.makedirs("/run/systemd/journal")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind("/run/systemd/journal/socket")
    os.chmod("/run/systemd/journal/socket", 0o666)
    s.settimeout(5)
    p = os.path.join(mount, "checkpoints")
    dm = Daemon(p, reserve=0)
    first = s.recv(4096).decode()
    for _ in range(50):
        dm.put()
    dm.stop()
    last = s.recv(4096).decode()
    fields = dict(x.split("=", 1) for x in last.splitlines())
    point = "%s:%s" % (fields["SBX_CHECKPOINT_SEQ"],
                       fields["SBX_CHECKPOINT_SHA256"])
    t.ok(re.search("^SBX_CHECKPOINT_SEQ=1$", first, re.M) is not None,
         "the first record is a checkpoint")
    t.ok(fields["SYSLOG_IDENTIFIER"] == "sbx-journald" and
         point == J.anchor(p) and "checkpoint " + point ==
         fields["MESSAGE"], "the end is one, in the system journal")
    t.ok(J.read(p, "verify", "--checkpoint", point)[0] == 0,
         "verify takes it")
    t.ok(json.loads(J.lines(p)[0])["fields"]["checkpoints"] ==
         "system-journal", "open says where they go")
    s.close()
    dm = Daemon(p, reserve=0)
    dm.put()
    t.ok(dm.stop() == 0 and json.loads(J.lines(p)[52 - 1])["fields"]
         ["checkpoints"] == "none", "without one it says none")


if len(sys.argv) < 2:
    enter()
with J.Dir() as scratch:
    mount = scratch.new("small")
    os.mkdir(mount)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d,mode=755" %
                       SIZE, "small", mount], check=False).returncode != 0:
        t.skip("no tmpfs of our own")
        t.end()
    try:
        full(mount)
        shutil.rmtree(os.path.join(mount, "journal"))
        rotate_full(mount)
        shutil.rmtree(os.path.join(mount, "rotate"))
        checkpoints(mount)
    finally:
        subprocess.run(["umount", "-l", mount], check=False)
t.end()
