#!/usr/bin/env python3
"""SIGKILL in a stream of records, and torn lines of every length."""
import hashlib
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import journal as J  # noqa: E402

LIVES, WINDOW = 20, 64
t = J.Tap()


def stream(dm, acked, life):
    """Append until killed; what was answered goes to acked."""
    sent, end = {}, time.monotonic() + random.uniform(0.01, 0.08)

    def take(timeout):
        m = dm.ch.recv(timeout, want="JOURNAL_DONE")
        assert m["seq"] > 0, m
        acked[m["seq"]] = sent.pop(m.id)
    while time.monotonic() < end:
        while len(sent) < WINDOW:
            mark = "%d-%d" % (life, dm.next_id)
            sent[dm.append(fields=["mark", mark, "pad", "x" *
                                   random.randrange(500)])] = mark
        take(5)
    dm.kill()
    try:
        while True:
            take(0.5)
    except (ipc.Closed, ipc.Timeout):
        dm.ch.close()


def kills(d):
    p = d.new("kills")
    acked = {}
    for life in range(LIVES):
        stream(J.Daemon(p, rotate=200000), acked, life)
    J.Daemon(p).stop()
    marks = {r["seq"]: r["fields"].get("mark") for r in J.records(p)}
    t.ok(len(acked) > LIVES * 10, "%d records were acknowledged in %d lives" %
         (len(acked), LIVES))
    t.ok(all(marks.get(seq) == mark for seq, mark in acked.items()),
         "no acknowledged record is lost")
    code, out, err = J.read(p, "verify")
    t.ok(code == 0, "the chain is good after all of them")
    if code:
        print("#", out, err)


def restart(path, data):
    """Start and stop on these bytes; the records and verify's status."""
    J.write(path, data)
    dm = J.Daemon(path)
    done = dm.put()
    dm.stop()
    return done, J.records(path), J.read(path, "verify")[0]


def torn_ok(path, good, cut):
    """Is the cut last line accounted for, and only it?"""
    rest = cut[len(good):]
    done, rec, status = restart(path, cut)
    torn = [r for r in rec if r["op"] == "torn"]
    raw = J.raw(path)
    whole = 0
    try:
        json.loads(rest)
        whole = 1    # only its newline was missing
    except ValueError:
        pass
    return status == 0 and raw.startswith(cut + b"\n") and \
        len(torn) == 1 and done["seq"] == 5 + whole and \
        torn[0]["fields"] == {
            "file": "1", "offset": str(len(good)), "length": str(len(rest)),
            "sha256": hashlib.sha256(rest).hexdigest()}


def torn(d):
    p = d.new("torn-source")
    dm = J.Daemon(p)
    dm.put()
    dm.put(fields=["text", "last \u20ac \n\x1b"])
    dm.stop()
    full = J.raw(p)
    start = full.rindex(b"\n", 0, len(full) - 1) + 1
    p = d.new("torn")
    bad = [n for n in range(start + 1, len(full))
           if not torn_ok(p, full[:start], full[:n])]
    t.ok(bad == [], "a last line cut at any of its %d bytes is ended, "
         "accounted for and verified" % (len(full) - start - 1))
    if bad:
        print("# not at", bad)
    for what, junk in (("zeros", b"\0" * 5000), ("binary", b"\xff\xfe{" * 9),
                       ("a large one", b"x" * 300000)):
        t.ok(torn_ok(p, full[:start], full[:start] + junk),
             "a tail of " + what)
    _, rec, status = restart(p, full[:start] + b"one\ntwo\nthree")
    t.ok(status == 0 and len([r for r in rec if r["op"] == "torn"]) == 3,
         "several torn lines, as of a crash in the repair")
    _, rec, status = restart(p, b"nothing but this")
    t.ok(status == 0 and [r["op"] for r in rec] == ["torn", "open", "exec"],
         "a file that never had a record")
    _, rec, status = restart(p, full[:start])
    t.ok(status == 0 and not [r for r in rec if r["op"] == "torn"],
         "a clean end needs no torn record")


def torn_repair(d):
    """The repair itself cut at every byte: repaired again."""
    p = d.new("torn-source")
    full = J.raw(p)
    q = d.new("repair")
    J.write(q, full + b"torn")
    J.Daemon(q).stop()
    mended = J.raw(q)
    bad = []
    for n in range(len(full) + 4, len(mended), 7):
        if restart(q, mended[:n])[2] != 0:
            bad.append(n)
    t.ok(bad == [], "a crash in the repair is repaired")
    if bad:
        print("# not at", bad)


def changed_tail(d):
    """A last record that does not follow: said, and not healed."""
    p = d.new("torn-source")
    full = J.raw(p)
    lines = full.splitlines(keepends=True)
    q = d.new("changed")
    J.write(q, b"".join(lines[:1] + lines[2:]))
    J.Daemon(q).stop()
    last = json.loads(J.lines(q)[-1])
    t.ok(last["op"] == "open" and last["fields"]["tail"] == "mismatch" and
         J.read(q, "verify")[0] == 4, "a gap at the end is said by open and "
         "still found by verify")


with J.Dir() as scratch:
    kills(scratch)
    torn(scratch)
    torn_repair(scratch)
    changed_tail(scratch)
t.end()
