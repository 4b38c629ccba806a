#!/usr/bin/env python3
"""sbxd-judge: a stream of files is the tree that git would make of them, what
goes on is what was judged, and what no tree may have is refused whole."""
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading

build, src = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(src, "tests", "lib"))
import ipc  # noqa: E402
import mcp  # noqa: E402

END, FILE, LINK, DIR = range(4)
tap = mcp.Tap()


def rec(kind, path, data=b"", mode=0o644, size=None):
    return struct.pack(">BHHQ", kind, mode, len(path),
                       len(data) if size is None else size) + path + data


OVER = rec(END, b"", mode=0)


class Judge:
    """One life: .m is JUDGE_TREED (None: it ended first), .out what went on."""

    def __init__(self, stream, cut_out=False):
        mine, theirs = ipc.pair()
        self.p = ipc.spawn(os.path.join(build, "sbxd-judge"), theirs)
        self.ch = ipc.Chan(mine)
        self.ch.recv(10, "HELLO")
        r1, w1 = os.pipe()
        r2, w2 = os.pipe()
        self.ch.send("JUDGE_TREE", 0, (r1, w2))
        os.close(r1)
        os.close(w2)
        if cut_out:
            os.close(r2)
        self.out = b""
        feed = threading.Thread(target=self._feed, args=(w1, stream))
        feed.start()
        if not cut_out:
            with os.fdopen(r2, "rb") as f:
                self.out = f.read()
        try:
            self.m = self.ch.recv(30, "JUDGE_TREED")
        except ipc.Closed:
            self.m = None
        feed.join(30)

    @staticmethod
    def _feed(fd, stream):
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(stream)
        except BrokenPipeError:
            pass

    def end(self):
        self.ch.close()
        return self.p.wait(10)


def git(tree, fmt):
    """What git itself calls the work tree."""
    with tempfile.TemporaryDirectory() as g:
        env = {**os.environ, "GIT_DIR": g, "GIT_WORK_TREE": tree,
               "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

        def run(*args):
            return subprocess.run(["git", *args], env=env, cwd=tree,
                                  check=True, capture_output=True,
                                  timeout=60).stdout.decode().strip()
        run("init", "-q", "--object-format=" + fmt)
        run("add", "-A")
        return run("write-tree")


def check_tree(files, links, what):
    """files: {path: (bytes, executable)}."""
    with tempfile.TemporaryDirectory() as top:
        top = os.fsencode(top)
        recs = []
        for path, (data, x) in files.items():
            full = os.path.join(top, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(data)
            os.chmod(full, 0o755 if x else 0o644)
            recs.append(rec(FILE, path, data, 0o755 if x else 0o644))
        for path, text in links.items():
            os.symlink(text, os.path.join(top, path))
            recs.append(rec(LINK, path, text))
        random.shuffle(recs)
        j = Judge(b"".join(recs) + OVER)
        for fmt in "sha1", "sha256":
            tap.ok(j.m and j.m[fmt] == git(os.fsdecode(top), fmt),
                   f"{what}: the tree of git's own, {fmt}", j.m)
        tap.ok(j.out == b"".join(recs) + OVER,
               f"{what}: what goes on is what was judged", len(j.out))
        tap.ok(j.m and j.m["files"] == len(recs), f"{what}: files are counted")
        tap.ok(j.end() == 0, f"{what}: it ends with its channel")


random.seed(5)
check_tree({b"a.b": (b"1", False), b"a/c": (b"2", True), b"a-b": (b"", False),
            b"a/d/e": (b"x" * 300000, False), b"a0": (b"3", False),
            b"a!": (b"\0\r\n", False), b"z/\xff\xfe": (b"4", False),
            b"z/\xc3\xa4": (b"5", False)},
           {b"link": b"a/c"}, "names around a slash")
names = ["".join(random.choice("ab./-0!") for _ in range(random.randint(1, 9)))
         for _ in range(3000)]
many = {}
for n in names:
    parts = [p for p in n.split("/") if p.strip(".")]
    if parts and not any("/".join(parts[:i]).encode() in many
                         for i in range(1, len(parts) + 1)):
        path = "/".join(parts).encode()
        if not any(k.startswith(path + b"/") for k in many):
            many[path] = (os.urandom(random.randint(0, 99)),
                          random.random() < .3)
check_tree(many, {}, f"{len(many)} random names")

j = Judge(rec(FILE, b"x", b"1", 0o010) + OVER)
tap.ok(j.out == rec(FILE, b"x", b"1", 0o644) + OVER,
       "a mode that git does not know is one that it does", j.out)
j.end()
j = Judge(OVER)
tap.ok(j.m and j.m["sha1"] == "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
       "no file: the empty tree", j.m)
j.end()
j = Judge(rec(FILE, b"go.mod", b"") + rec(FILE, b"sub/Cargo.toml", b"") +
          rec(LINK, b"package.json", b"x") + OVER)
tap.ok(j.m and bin(j.m["found"]).count("1") == 1,
       "files at the top alone ask for tests, and no links", j.m)
j.end()

for stream, what in (
        (rec(FILE, b"a", b"1") * 2 + OVER, "a path twice"),
        (rec(FILE, b"a") + rec(FILE, b"a.b") + rec(FILE, b"a/c") + OVER,
         "a file where a directory is"),
        (rec(FILE, b"a/c") + rec(LINK, b"a", b"/tmp") + OVER,
         "a link where a directory is"),
        *((rec(FILE, p) + OVER, f"the path {p!r}") for p in (
            b"", b"/x", b"x/", b"a//b", b"./a", b"a/../b", b"..", b".git/x",
            b"s/.GIT/hooks/x", b".Git", b"a\0b", b"d/" * 200 + b"f",
            b"n" * 300)),
        (rec(DIR, b"d") + OVER, "a directory of its own"),
        (rec(9, b"d") + OVER, "an unknown record"),
        (rec(LINK, b"l", b"x" * 5000) + OVER, "a link's text of 5000 bytes"),
        (rec(FILE, b"f", b"", size=3 << 30), "a file of 3 GiB"),
        (rec(FILE, b"f", b"12", size=3), "a file cut off"),
        (rec(FILE, b"f", b"1"), "a stream without its end"),
        (rec(END, b"", b"x") + OVER, "data behind the end"),
        (b"\x01\x01", "half a head")):
    j = Judge(stream)
    tap.ok(j.m and j.m["error"] != 0 and j.m["reason"] and j.m["sha1"] == "",
           f"{what} is refused, with a reason", j.m)
    tap.ok(not j.out.endswith(OVER), f"{what}: what went on has no end")
    j.end()
j = Judge(rec(FILE, b"f", b"x" * 300000) + OVER, cut_out=True)
tap.ok(j.m and j.m["error"] == 32, "nobody takes what goes on", j.m)
j.end()

j = Judge(OVER)
null = os.open("/dev/null", os.O_RDONLY)
j.ch.send("JUDGE_TREE", 0, (null, null))
tap.ok(j.p.wait(10) == 3, "a second tree ends it")
mine, theirs = ipc.pair()
p = ipc.spawn(os.path.join(build, "sbxd-judge"), theirs)
ch = ipc.Chan(mine)
ch.recv(10, "HELLO")
ch.send("JUDGE_REPORT", 0, (null,))
tap.ok(p.wait(10) == 3, "a report before its tree ends it")
tap.done()
sys.exit(tap.bad > 0)
