#!/usr/bin/env python3
"""Copy streams, good and hostile, unpacked by the sbx-init of a sandbox; and
those of sbxd-copyin."""
import errno
import os
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import box  # noqa: E402
import ipc  # noqa: E402

LIST, FILE = 1, 2               # enum sbx_copy_mode
T_END, T_FILE, LINK, DIR = 0, 1, 2, 3   # enum sbx_copy_type
BOX = "0123456789ab"
tap = box.Tap()


def rec(kind, path=b"", data=b"", mode=0o644, size=None):
    return struct.pack(">BHHQ", kind, mode, len(path),
                       len(data) if size is None else size) + path + data


END = rec(T_END)


def sh(e, script):
    return e.run(BOX, script).out.decode(errors="surrogateescape")


def fresh(e, dest="/workspace/d"):
    """Everything outside of dest, to be compared later."""
    sh(e, f"rm -rf {dest} /workspace/d; mkdir -p /workspace/out; "
       "echo keep >/workspace/out/f")


def outside(e):
    """Paths, times and content outside of /workspace/d."""
    return sh(e, "cd /; find /workspace /home /tmp -xdev -path /workspace/d "
              "-prune -o -path /workspace -o -printf '%p %y %s %m %T@ %l\\n' | "
              "sort; cat /workspace/out/f; ls /")


def good(e):
    fresh(e)
    e.unpack(BOX, "/workspace/new/er/dir", rec(DIR, b"x") + END)
    out = sh(e, "cd /workspace/new/er/dir && ls -d x")
    tap.ok(out == "x\n", "LIST: the destination is made", out)
    names = b"\xff\xfe\n\t'", b"deep/er/and/deeper"
    stream = b"".join(rec(T_FILE, n, b"data " + n) for n in names) + \
        rec(T_FILE, b"run", b"#!/bin/sh\necho ran\n", 0o100755) + \
        rec(T_FILE, b"suid", b"x", 0o106755) + rec(DIR, b"void") + \
        rec(DIR, b"deep") + rec(LINK, b"deep/l", b"../run") + \
        rec(T_FILE, b"empty") + END
    for again in ("", ", and again over it"):
        m = e.unpack(BOX, "/workspace/d", stream)
        out = sh(e, "cd /workspace/d; find . -mindepth 1 -printf '%m %y %P|' "
                 "| cat -v; ./run; cat deep/er/and/deeper; readlink deep/l")
        tap.ok(m["error"] == 0 and m["files"] == 8 and
               m["final_path"] == "/workspace/d" and
               all(x in out for x in ("644 f M-^?M-~", "755 f suid|",
                                      "755 d void|", "644 f empty|",
                                      "ran\ndata deep/er/and/deeper../run")),
               "files, modes, names, links, directories" + again, (m, out))
    for dest in ("/workspace/d", "/workspace/d/", "/workspace/d//"):
        m = e.unpack(BOX, dest, rec(T_FILE, b"one", dest.encode()) + END,
                     FILE)
        out = sh(e, "cat /workspace/d/one")
        tap.ok(m["error"] == 0 and out == dest and
               m["final_path"] == "/workspace/d/one",
               f"FILE: {dest} keeps the name", (m, out))
    m = e.unpack(BOX, "/workspace/d/two", rec(T_FILE, b"one", b"2") + END,
                 FILE)
    tap.ok(m["error"] == 0 and m["final_path"] == "/workspace/d/two" and
           sh(e, "cat /workspace/d/two") == "2", "FILE: the full path", m)
    m = e.unpack(BOX, "/workspace/d/two", rec(T_FILE, b"one", b"22") + END,
                 FILE)
    tap.ok(m["error"] == 0 and sh(e, "cat /workspace/d/two") == "22",
           "FILE: over a file", m)
    sh(e, "ln -sfn out /workspace/way")
    m = e.unpack(BOX, "/workspace/way", rec(T_FILE, b"g", b"3") + END, FILE)
    tap.ok(m["error"] == 0 and sh(e, "cat /workspace/out/g") == "3",
           "FILE: a destination may be a link to a directory", m)
    for dest in ("/workspace/d/no/f", "/workspace/d/new/", "/workspace/d/two/",
                 "/workspace/d/two/f", "/workspace/d/no/..", "/usr/x", "rel",
                 "", "/workspace/d/" + "n" * 300):
        m = e.unpack(BOX, dest, rec(T_FILE, b"one", b"2") + END, FILE)
        tap.ok(m["error"] != 0 and m["reason"], f"FILE: not {dest[:20]!r}", m)
    out = sh(e, "cd /workspace/d; ls -d no new; cat two")
    tap.ok(out == "22", "and nothing is made for them", out)
    m = e.unpack(BOX, "/workspace/d", END, FILE)
    tap.ok(m["error"] == 0 and m["files"] == 0, "FILE: nothing to copy", m)


def hostile(e):
    big = 1 << 40
    streams = {
        "..": rec(T_FILE, b"../out/f", b"evil"),
        ".. within": rec(T_FILE, b"a/../../out/f", b"evil"),
        ".. at the end": rec(DIR, b"a/.."),
        "absolute": rec(T_FILE, b"/workspace/out/f", b"evil"),
        "an empty component": rec(T_FILE, b"a//b", b"evil"),
        "a slash at the end": rec(T_FILE, b"a/", b"evil"),
        "no path": rec(T_FILE, b"", b"evil"),
        "a dot": rec(T_FILE, b"./a", b"evil"),
        "NUL in a path": rec(T_FILE, b"a\0b", b"evil"),
        "a long name": rec(T_FILE, b"n" * 256, b"evil"),
        "a long path": rec(T_FILE, b"/".join([b"n" * 99] * 41), b"evil"),
        "a huge size": rec(T_FILE, b"a", b"evil", size=big),
        "the hugest size": rec(T_FILE, b"a", b"evil", size=(1 << 64) - 1),
        "two of half the hugest": rec(T_FILE, b"a", b"", size=0) +
        rec(T_FILE, b"b", b"evil", size=(1 << 63) + 5),
        "a huge link": rec(LINK, b"a", b"evil", size=big),
        "a link of 4096": rec(LINK, b"a", b"e" * 4096),
        "an empty link": rec(LINK, b"a"),
        "NUL in a link": rec(LINK, b"a", b"x\0y"),
        "a directory with data": rec(DIR, b"a", b"evil"),
        "type 9": rec(9, b"a", b"evil"),
        "type 255": rec(255, b"a"),
        "END with data": rec(T_END, b"", b"evil"),
        "END with a path": rec(T_END, b"a"),
        "a link, and through it": rec(LINK, b"l", b"../out") +
        rec(T_FILE, b"l/f", b"evil"),
        "a link, and a directory below": rec(LINK, b"l", b"../out") +
        rec(DIR, b"l/d"),
        "a link, and far below it": rec(LINK, b"l", b"../out") +
        rec(T_FILE, b"l/a/b/c", b"evil"),
        "a link by two": rec(LINK, b"l", b"..") +
        rec(LINK, b"l/out/m", b"/tmp"),
        "a link as a directory": rec(LINK, b"l", b"../out") + rec(DIR, b"l"),
        "a file over a directory": rec(DIR, b"a") +
        rec(T_FILE, b"a", b"evil"),
        "a link over a directory": rec(DIR, b"a") + rec(LINK, b"a", b"x"),
        "a directory over a file": rec(T_FILE, b"a", b"") + rec(DIR, b"a"),
        "a file below a file": rec(T_FILE, b"a", b"") +
        rec(T_FILE, b"a/b", b"evil"),
    }
    fresh(e)
    before = outside(e)
    for name, stream in streams.items():
        m = e.unpack(BOX, "/workspace/d", stream + END)
        tap.ok(m["error"] != 0 and m["reason"], f"refused: {name}", m)
        sh(e, "rm -rf /workspace/d")
    for name, stream in {
            "a link": rec(LINK, b"a", b"x"), "a directory": rec(DIR, b"a"),
            "a path": rec(T_FILE, b"a/b", b"evil"),
            "two": rec(T_FILE, b"a", b"1") + rec(T_FILE, b"b", b"2"),
            "..": rec(T_FILE, b"../out/f", b"evil")}.items():
        sh(e, "mkdir -p /workspace/d; ln -s ../out /workspace/d/a")
        m = e.unpack(BOX, "/workspace/d", stream + END, FILE)
        tap.ok(m["error"] != 0, f"FILE refuses {name}", m)
        sh(e, "rm -rf /workspace/d")
    sh(e, "mkdir /workspace/d; ln -s ../out/f /workspace/d/l; "
       "ln /workspace/out/f /workspace/d/hard; mkfifo /workspace/d/p")
    m = e.unpack(BOX, "/workspace/d", rec(T_FILE, b"l", b"1") +
                 rec(T_FILE, b"hard", b"2") + rec(T_FILE, b"p", b"3") + END)
    out = sh(e, "cd /workspace/d; cat l hard p; find . -type f | wc -l")
    tap.ok(m["error"] == 0 and out == "1233\n", "links, other names and fifos "
           "are replaced, not written to", (m, out))
    m = e.unpack(BOX, "/workspace/d", rec(T_FILE, b"x", b"1") + END +
                 rec(T_FILE, b"y", b"evil") + END)
    out = sh(e, "ls -d /workspace/d/[xy]")
    tap.ok(m["error"] == 0 and out == "/workspace/d/x\n",
           "behind END nothing is read", (m, out))
    tap.same(outside(e), before, "nothing outside was written")


def cut(e):
    """at every byte"""
    stream = rec(DIR, b"d") + rec(T_FILE, b"d/f", b"abc") + \
        rec(LINK, b"l", b"d/f") + END
    wrong = [n for n in range(len(stream))
             if e.unpack(BOX, "/workspace/d", stream[:n])["error"] !=
             errno.EPIPE]
    tap.same(wrong, [], f"cut at each of {len(stream)} bytes")
    m = e.unpack(BOX, "/workspace/d", stream)
    tap.ok(m["error"] == 0, "and then whole", m)
    # each byte of the headers changed: an answer every time
    sh(e, "rm -rf /workspace/d")
    before = outside(e)
    for n in range(len(stream)):
        e.unpack(BOX, "/workspace/d", stream[:n] +
                 bytes([stream[n] ^ 0x2e]) + stream[n + 1:])
    tap.same(outside(e), before, "each byte changed: nothing outside")


def many(e):
    count = 10000
    stream = b"".join(rec(T_FILE, b"m/%d/%d" % (i % 100, i), b"x%d" % i)
                      for i in range(count)) + END
    m = e.unpack(BOX, "/workspace/d", stream)
    out = sh(e, "cd /workspace/d/m; find . -type f | wc -l; cat 7/107")
    tap.ok(m["error"] == 0 and m["files"] == count and
           out == f"{count}\nx107", "10,000 files", (m, out))
    deep = b"/".join([b"q"] * 1000) + b"/f"
    m = e.unpack(BOX, "/workspace/d", rec(T_FILE, deep, b"x") + END)
    tap.ok(m["error"] == 0, "1,000 directories deep", m)
    # eight at once are taken, the ninth is refused, none is lost
    ends, ids = [], []
    for i in range(9):
        rd, wr = os.pipe()
        ids.append(e.next_id())
        e.mon.send("ENGINE_UNPACK", ids[-1], [rd], container=BOX, mode=LIST,
                   dest=f"/workspace/d/p{i}")
        os.close(rd)
        ends.append(wr)
    m = e.answer(ids[8], "ENGINE_UNPACKED")
    tap.ok(m["error"] != 0 and "too many" in m["reason"],
           "nine copies at once are one too many", m)
    for i, wr in enumerate(ends):
        try:
            os.write(wr, rec(T_FILE, b"f", b"%d" % i) + END)
        except BrokenPipeError:
            pass
        os.close(wr)
    got = [e.answer(i, "ENGINE_UNPACKED")["error"] for i in ids[:8]]
    tap.ok(got == [0] * 8 and sh(e, "cat /workspace/d/p*/f") == "01234567",
           "the eight are done", got)
    # who refuses a stream does not leave its writer waiting
    m = e.unpack(BOX, "/workspace/d", rec(9) + bytes(1 << 20))
    tap.ok(m["error"] != 0, "a refused stream's writer is told", m)


def through(e):
    """sbxd-copyin's stream into the sandbox, as the monitor connects them"""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        subprocess.run(["sh", "-c", "mkdir -p a/b; echo x >a/b/f; ln -s f "
                        "a/b/l; echo '#!' >run; chmod 755 run; head -c 3000000"
                        " /dev/urandom >big; touch 'o\tdd'; printf A >s.env"],
                       cwd=d, check=True)
        mine, theirs = ipc.pair()
        p = ipc.spawn(box.BUILD + "/sbxd-copyin", theirs)
        ch, (rd, wr) = ipc.Chan(mine), os.pipe()
        fds = [os.open(d, os.O_RDONLY | os.O_DIRECTORY),
               ipc.memfd(b"a/b/f\0a/b/l\0run\0big\0o\tdd\0s.env\0"), wr,
               os.memfd_create("report")]
        ch.send("COPYIN_START", 0, fds, mode=LIST, source="",
                uid=os.geteuid(), gid=os.getegid())
        for fd in fds:
            os.close(fd)
        mid = e.next_id()
        e.mon.send("ENGINE_UNPACK", mid, [rd], container=BOX, mode=LIST,
                   dest="/workspace/whole")
        os.close(rd)
        m = e.answer(mid, "ENGINE_UNPACKED")
        done = ch.recv(want="COPYIN_DONE")
        p.wait(5)
        with open(d + "/big", "rb") as f:
            big = f.read()
        same = e.run(BOX, "cd /workspace/whole; cat big").out == big
        out = sh(e, "cd /workspace/whole; cat a/b/l; find . ! -type d | sort; "
                 "test -x run && echo runs")
        tap.ok(m["error"] == 0 and done["error"] == 0 and same and
               m["files"] == done["files"] == 5 and
               m["bytes"] == done["bytes"] and done["refused"] == 1 and
               out == "x\n./a/b/f\n./a/b/l\n./big\n./o\tdd\n./run\nruns\n",
               "from the host into the sandbox", (m, done, same, out))
        # the sandbox ends in the middle of it
        mine, theirs = ipc.pair()
        p = ipc.spawn(box.BUILD + "/sbxd-copyin", theirs)
        ch, (rd, wr) = ipc.Chan(mine), os.pipe()
        fds = [os.open(d, os.O_RDONLY | os.O_DIRECTORY),
               ipc.memfd(b"big\0" * 300), wr, os.memfd_create("report")]
        ch.send("COPYIN_START", 0, fds, mode=LIST, source="",
                uid=os.geteuid(), gid=os.getegid())
        for fd in fds:
            os.close(fd)
        mid = e.next_id()
        e.mon.send("ENGINE_UNPACK", mid, [rd], container=BOX, mode=LIST,
                   dest="/workspace/whole")
        os.close(rd)
        ch.recv(want="HELLO", timeout=10)
        e.stop(BOX)
        m = e.answer(mid, "ENGINE_UNPACKED")
        done = ch.recv(want="COPYIN_DONE", timeout=5)
        tap.ok(m["error"] != 0 and done["error"] == errno.EPIPE and
               p.wait(5) == 0, "the sandbox ends: both ends say so",
               (m, done))


def main():
    top, scratch = box.make_scratch(None)
    user = "sbxd" if os.geteuid() == 0 else None
    e = box.Engine(scratch, user).introduce("recorder")
    watchdog = threading.Timer(150, e.proc.kill)
    watchdog.start()
    try:
        m = e.create(BOX)
        tap.ok(m.name == "SANDBOX_READY", "a sandbox", m)
        for part in (good, hostile, cut, many):
            part(e)
            tap.ok(sh(e, "echo alive") == "alive\n",
                   f"the sandbox lives on after: {part.__name__}")
        through(e)
        tap.ok(e.close() == 0, "the engine ends well")
    finally:
        watchdog.cancel()
        box.remove(top)
    tap.done()


main()
