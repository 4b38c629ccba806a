#!/usr/bin/env python3
"""What `sbx journal verify` finds: edit, deletion, reorder, duplicate,
truncation, an older copy, missing files."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import journal as J  # noqa: E402

FALSE = 4
t = J.Tap()


def verify(path, data, checkpoint=None):
    """Exit status and output for a journal of one file."""
    J.write(path, data)
    args = ["--checkpoint", checkpoint] if checkpoint else []
    return J.read(path, "verify", *args)


def make(path, **kw):
    dm = J.Daemon(path, **kw)
    for i in range(3):
        dm.put(fields=["n", str(i)])
    dm.stop()


def edits(d, good, anchor):
    last = good.rindex(b"\n", 0, len(good) - 1) + 1
    p = d.new("edit")
    missed, loose = [], []
    for i in range(len(good)):
        bad = good[:i] + bytes([good[i] ^ 1]) + good[i + 1:]
        if verify(p, bad, anchor)[0] != FALSE:
            missed.append(i)
        if i < last and verify(p, bad)[0] != FALSE:
            loose.append(i)
    t.ok(missed == [], "each changed byte is found against a checkpoint "
         "(%d bytes)" % len(good))
    t.ok(loose == [], "each changed byte before the last line is found "
         "without one")
    if missed or loose:
        print("# not found at", missed[:20], loose[:20])


def lines(d, good, anchor):
    p = d.new("lines")
    all_lines = good.splitlines(keepends=True)
    n = len(all_lines)

    def status(some, checkpoint=None):
        return verify(p, b"".join(some), checkpoint)[0]
    t.ok(all(status(all_lines[:i] + all_lines[i + 1:]) == FALSE
             for i in range(n - 1)), "a deleted line is found")
    t.ok(all(status(all_lines[:i] + [all_lines[i + 1], all_lines[i]] +
                    all_lines[i + 2:]) == FALSE for i in range(n - 1)),
         "reordered lines are found")
    t.ok(all(status(all_lines[:i] + [all_lines[i]] + all_lines[i:]) == FALSE
             for i in range(n)), "a repeated line is found")
    t.ok(all(status(all_lines[:i] + [b"\n"] + all_lines[i:]) == FALSE
             for i in range(n + 1)), "an empty line is found")
    t.ok(all(status(all_lines[:i] + [b'{"a":1}\n'] + all_lines[i:]) == FALSE
             for i in range(n + 1)), "a foreign line is found")
    code, out, _ = verify(p, b"".join(all_lines[:-1]))
    t.ok(code == 0 and b"tail unanchored" in out,
         "a cut tail is not seen without a checkpoint, which it says")
    t.ok(all(status(all_lines[:i], anchor) == FALSE for i in range(1, n)),
         "a cut tail is found against a checkpoint")
    t.ok(all(verify(p, good[:i], anchor)[0] == FALSE
             for i in range(len(good) - len(all_lines[-1]), len(good) - 1)),
         "a tail cut inside the last line as well")
    code, out, _ = verify(p, good, anchor)
    t.ok(code == 0 and b"anchored at" in out and b"unanchored" not in out,
         "the true journal has its anchor")
    early = "2:" + re.search(rb'"seq":3,"prev":"([0-9a-f]+)"',
                             good).group(1).decode()
    t.ok(verify(p, good, early)[0] == 0, "an earlier checkpoint is good too")
    wrong = anchor[:-1] + ("0" if anchor[-1] != "0" else "1")
    t.ok(verify(p, good, wrong)[0] == FALSE, "a wrong checkpoint is refused")


def older_copy(d):
    p = d.new("older")
    make(p)
    old = J.raw(p)
    make(p)
    anchor = J.anchor(p)
    t.ok(J.read(p, "verify", "--checkpoint", anchor)[0] == 0,
         "a longer journal is good")
    t.ok(verify(p, old, anchor)[0] == FALSE,
         "an older copy in its place is found against a checkpoint")
    # and a daemon that went on from the older copy makes another history
    make(p)
    t.ok(J.read(p, "verify")[0] == 0 and
         J.read(p, "verify", "--checkpoint", anchor)[0] == FALSE,
         "also when the chain went on from it")


def missing_files(d):
    p = d.new("missing")
    dm = J.Daemon(p, rotate=16384)
    for i in range(200):
        dm.append(flags=0)
        if i % 30 == 0:
            dm.put()
    dm.stop()
    names = J.files(p)
    data = {f: open(f, "rb").read() for f in names}
    for what, gone in (("first", names[0]), ("middle", names[1])):
        os.rename(gone, gone + ".away")
        t.ok(J.read(p, "verify")[0] == FALSE, "the %s file missing is found"
             % what)
        os.rename(gone + ".away", gone)
    os.rename(names[0], names[0] + ".x")
    os.rename(names[1], names[0])
    os.rename(names[0] + ".x", names[1])
    t.ok(J.read(p, "verify")[0] == FALSE, "exchanged files are found")
    for f in names:
        with open(f, "wb") as out:
            out.write(data[f])
    t.ok(J.read(p, "verify")[0] == 0, "put back it is good")
    with open(names[0], "ab") as out:
        out.write(b"x")
    t.ok(J.read(p, "verify")[0] == FALSE, "bytes at the end of an older file "
         "are found")


def forged_torn(d, good):
    """A torn record must fit what it accounts for."""
    p = d.new("torn")
    J.write(p, good + b"garbage")
    J.Daemon(p).stop()
    whole = J.raw(p)
    t.ok(verify(p, whole)[0] == 0, "a torn line with its record is good")
    bad = whole.replace(b"garbage", b"garbagf")
    t.ok(verify(p, bad)[0] == FALSE, "with another content it is not")
    cut = b"".join(x for x in whole.splitlines(keepends=True)
                   if b'"op":"torn"' not in x)
    t.ok(verify(p, cut)[0] == FALSE, "nor without its torn record")


with J.Dir() as scratch:
    first = scratch.new("good")
    make(first)
    raw, point = J.raw(first), J.anchor(first)
    edits(scratch, raw, point)
    lines(scratch, raw, point)
    older_copy(scratch)
    missing_files(scratch)
    forged_torn(scratch, raw)
t.end()
