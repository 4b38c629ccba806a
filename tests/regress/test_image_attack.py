#!/usr/bin/env python3
"""What whoever makes an image can try against the one who imports it: every
source here is built by the test, imported by `sbx image import`, and judged
by what is in the store, beside it, and in a directory that no image may reach.
"""
import fcntl
import gzip
import io
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from imgsrc import (ARCH, OTHER, Oci, Store, d, docker, f, hard,  # noqa: E402
                    header, member, sha, sym, tar)

tap = mcp.Tap()
ok = tap.ok
s = None


def refused(source, name, *says):
    """Nothing of it stays, and the sentence names the entry."""
    before = s.images()
    r = s.add(source)
    ok(0 < r.returncode < 4 and s.images() == before and not s.staging() and
       s.host_is_whole() and r.stdout == "" and r.stderr.count("\n") == 1 and
       "is refused: " in r.stderr and all(w in r.stderr for w in says),
       f"refused: {name}",
       (r.returncode, r.stdout, r.stderr, s.staging(), s.host_is_whole()))


class Taken:
    """An image that was imported: its tree, what inspect says."""

    def __init__(self, source, name):
        r = s.add(source)
        self.good = r.returncode == 0 and s.host_is_whole() and \
            not s.staging()
        ok(self.good, f"taken: {name}", (r.returncode, r.stderr))
        self.said, self.hex = r.stderr, r.stdout.strip()[7:]
        self.top = f"{s.dir}/{self.hex}"
        self.info = json.loads(s.sbx("inspect", self.hex).stdout) \
            if self.good else {}

    def at(self, path, part="rootfs"):
        return f"{self.top}/{part}/{path}"

    def has(self, path):
        return os.path.lexists(self.at(path))

    def text(self, path, part="rootfs"):
        try:
            with open(self.at(path, part), "rb") as file:
                return file.read()
        except OSError as e:
            return e

    def mode(self, path):
        return stat.S_IMODE(os.lstat(self.at(path)).st_mode) \
            if self.has(path) else None

    def tree(self):
        return sorted(os.path.relpath(os.path.join(base, n), self.top +
                                      "/rootfs")
                      for base, dirs, files in os.walk(self.top + "/rootfs")
                      for n in dirs + files)


# --- what is tried -----------------------------------------------------------

def names():
    for name in ("/etc/x", "//etc/x", "../x", "a/../x", "a/../../x", "..",
                 "./../x", "a/..", "a/./../b"):
        refused(tar(d("a"), f(name)), f"a file called {name}", name)
    refused(tar(d("../x")), "a directory above", "../x")
    refused(tar(sym("../x", "y")), "a link above", "../x")
    refused(tar(f("a" * 256)), "a name of 256 bytes", "a" * 40)
    refused(tar(f("/".join(["d" * 99] * 42))), "a path of 4199 bytes", "ddd")
    refused(tar(f("/".join(["d"] * 129))), "a depth of 129", "d/d/d")
    refused(tar(f("..")), "only ..", "..")
    t = Taken(tar(d("./"), f("./a//b/./c"), f("tab\tnew\nline"),
                  f("\u00e4\u2028"), f("-rf"), f("/".join(["d"] * 128))),
              "odd names")
    ok(t.text("a/b/c") == b"x" and t.has("tab\tnew\nline") and
       t.has("\u00e4\u2028") and t.has("-rf"), "odd names are kept as they are",
       t.good and t.tree())
    ok(t.mode("a") == t.mode("a/b") == 0o755,
       "directories that no entry made can be entered", t.mode("a"))
    t = Taken(header(b"\xff\xfe", b"00000000001\0") + b"x" +
              bytes(511 + 1024), "a name that is not UTF-8")
    ok(t.good and os.listdir(os.fsencode(t.at(""))) == [b"\xff\xfe"],
       "... is kept byte by byte")
    data = tar(f("nul", pax={"path": "ab0cd"})).replace(b"=ab0cd", b"=ab\0cd")
    r = s.add(data)
    ok(s.host_is_whole() and (r.returncode != 0 or not any(
        "cd" in n for n in os.listdir(f"{s.dir}/{r.stdout.strip()[7:]}"
                                      "/rootfs"))), "a NUL in a name", r)
    s.clear()


def links():
    out = s.canary
    for text, name in ((out, "an absolute link"), (".", "a link to ."),
                       ("d", "a link within"), ("..", "a link to .."),
                       ("../" * 40 + out[1:], "a relative link out"),
                       ("l2", "a chain"), ("/proc/self/root", "a magic link"),
                       ("/proc/self/fd/3", "a descriptor")):
        refused(tar(d("d"), sym("l2", out), sym("l", text), f("l/x")),
                f"a file through {name}", "l/x")
    refused(tar(sym("l", out), d("l/d")), "a directory through a link", "l/d")
    refused(tar(sym("l", out), d("l/d/e")), "two through a link", "l/d/e")
    refused(tar(sym("l", out), sym("l/d", "x")), "a link through a link")
    refused(tar(d("d"), sym("d", out), f("d/x")),
            "a directory that became a link", "d/x")
    refused(tar(f("d"), f("d/x")), "a file below a file", "d/x")
    refused(tar(d("d"), f("d/x"), sym("d", out), f("d/passwd", b"bad")),
            "a full directory that became a link", "d/passwd")
    t = Taken(tar(sym("l", out + "/passwd"), f("l", b"mine")),
              "a file over a link")
    ok(t.text("l") == b"mine" and not os.path.islink(t.at("l")),
       "... replaces it")
    t = Taken(tar(sym("l", out), d("l"), f("l/x")), "a directory over a link")
    ok(t.text("l/x") == b"x", "... replaces it")
    t = Taken(tar(f("a", b"1"), d("a"), f("a/b"), f("a", b"2")),
              "a file over a directory, as often as it comes")
    ok(t.text("a") == b"2", "the last one wins")
    t = Taken(tar(sym("a", "/" + "x" * 3000), sym("b", "/etc/\u00e4"),
                  sym("c", "nowhere")), "links of all kinds")
    ok(t.good and os.readlink(t.at("a")) == "/" + "x" * 3000 and
       os.readlink(t.at("b")) == "/etc/\u00e4", "their text is kept")


def hard_links():
    out = s.canary
    for target in (out + "/passwd", "../canary/passwd", "d/../../x",
                   "l/passwd", "d", "nowhere", "h", "."):
        refused(tar(d("d"), sym("l", out), hard("h", target)),
                f"a hard link to {target if len(target) < 20 else 'the host'}",
                "'h'")
    t = Taken(tar(f("a", b"first"), hard("b", "a"), f("b", b"second")),
              "a file over a hard link")
    ok((t.text("a"), t.text("b")) == (b"first", b"second"),
       "the other name keeps its content")
    t = Taken(tar(f("a", mode=0o644), hard("b", "./a"), f("a", b"new",
                  mode=0o600)), "a file over what was linked to")
    ok((t.text("a"), t.text("b"), t.mode("b")) == (b"new", b"x", 0o644),
       "the link keeps the old one")
    t = Taken(tar(sym("l", out), hard("h", "l")), "a hard link to a link")
    ok(t.good and os.readlink(t.at("h")) == out, "is that link, as text")
    refused(tar(sym("l", out), hard("h", "l"), f("h/x")),
            "a file through a hard link to a link", "h/x")
    if s.max_links < 70000:
        refused(tar(f("a"), *[hard(f"h{i}", "a") for i in range(70000)]),
                "more hard links than a file may have", "h6")


def dropped():
    """Ordinary images have all of these."""
    t = Taken(tar(f("su", mode=0o4755), f("wall", mode=0o2755),
                  d("mail", mode=0o2775), d("tmp", mode=0o1777),
                  member("null", tarfile.CHRTYPE),
                  member("sda", tarfile.BLKTYPE), member("p",
                                                         tarfile.FIFOTYPE),
                  f("cap", pax={"SCHILY.xattr.security.capability": "x",
                                "SCHILY.xattr.user.a": "y"})),
              "set-id bits, devices, pipes, attributes")
    i = t.info
    ok((i.get("dropped_setuid"), i.get("dropped_devices"),
        i.get("dropped_other"), i.get("dropped_xattrs", 0) > 0) ==
       (3, 2, 1, True), "they are counted", i)
    ok((t.mode("su"), t.mode("wall"), t.mode("mail"), t.mode("tmp")) ==
       (0o755, 0o755, 0o775, 0o1777) and not t.has("null") and
       not t.has("sda") and not t.has("p"), "and not there",
       t.good and t.tree())
    ok(t.good and os.listxattr(t.at("cap")) == [], "no attribute is there")
    ok("3 set-id" in t.said and "2 devices" in t.said, "and said", t.said)
    t = Taken(tar(d("a", mode=0), f("a/b", mode=0), d("a/c", mode=0o111),
                  f("a/c/d", mode=0o001), d("a", mode=0)),
              "directories that their owner cannot use")
    ok(t.good and t.text("a/b") == b"x" and t.text("a/c/d") == b"x" and
       t.mode("a/c/d") & 0o777 == 0o401, "the suite's user can read them",
       t.mode("a/c/d"))
    owner = pwd.getpwnam("sbxd").pw_uid if os.geteuid() == 0 else os.geteuid()
    ok(t.good and {os.lstat(os.path.join(b, n)).st_uid for b, ds, fs in
                   os.walk(t.top) for n in ds + fs + ["."]} == {owner},
       "all of it is the suite's user's")


def mounts():
    """What the engine mounts on is never the image's."""
    out = s.canary
    for kind, text in (("absolute", lambda n: out), ("relative", lambda n:
                       "../" * 30 + out[1:]), ("chained", lambda n: "x/" + n)):
        members = [d("x")]
        for n in ("dev", "proc", "sys", "tmp", "run", "workspace", "home",
                  "etc"):
            members += [sym("x/" + n, out), sym(n, text(n))]
        t = Taken(tar(*members), f"mount points that are {kind} links")
        ok(t.good and os.readlink(t.at("etc")) == text("etc"),
           "the links are kept")
        ok(t.good and all(stat.S_ISDIR(os.lstat(t.at(n, "skel")).st_mode)
                          for n in ("dev", "proc", "sys", "tmp", "run",
                                    "workspace", "home", "home/sandbox",
                                    "etc")), "and hidden by directories")
        ok(b"canary" not in t.text("etc/passwd", "skel") and
           b"sandbox:x:1000:" in t.text("etc/passwd", "skel"),
           "passwd is ours", t.text("etc/passwd", "skel"))
    for n, what in ((sym("etc/passwd", out + "/passwd"), "a link out"),
                    (sym("etc/passwd", "/etc/shadow"), "a link to shadow"),
                    (d("etc/passwd"), "a directory"),
                    (f("etc/passwd", b"many:x:5:5::/:\n" * 80000), "1.2 MB"),
                    (f("etc/passwd", b"\0" * 4096), "NULs"),
                    (f("etc/passwd", b"sandbox:x:0:0::/:/x\nevil:x:1000:0:::\n"
                       b"::\nx"), "our names")):
        t = Taken(tar(d("etc"), n), f"a passwd that is {what}")
        text = t.text("etc/passwd", "skel")
        ok(isinstance(text, bytes) and text.count(b"\n") == 1 and
           text.startswith(b"sandbox:x:1000:1000:") and
           os.lstat(t.at("etc/passwd", "skel")).st_mode == 0o100644,
           "passwd is ours alone", text[:200])
    t = Taken(tar(f("etc/passwd", b"root:x:0:0::/:/bin/sh\nme:x:1000:1:::\n"
                    b"www:x:33:33:::"), f("etc/group",
                                          b"root:x:0:\nstaff:x:1000:me\n")),
              "a passwd of an ordinary image")
    ok(t.good and [x.split(b":")[0] for x in
                   t.text("etc/passwd", "skel").splitlines()] ==
       [b"root", b"www", b"sandbox"] and b"staff" not in
       t.text("etc/group", "skel"), "its others are kept",
       t.text("etc/passwd", "skel"))


def sizes():
    for size, what in ((b"\x80" + b"\0" * 4 + b"\1" + b"\0" * 6, "1 TiB"),
                       (b"\x80" + b"\xff" * 11, "2^88 bytes"),
                       (b"\xff" * 12, "-1 bytes"),
                       (b"\xff" + b"\0" * 11, "-2^88 bytes")):
        refused(header(b"big", size) + b"x" * 1024, f"a file of {what}")
    refused(header(b"cut", b"00000010000\0") + b"x" * 512, "a cut file")
    refused(b"", "nothing")
    refused(bytes(10240), "an empty tar")
    refused(b"#!/bin/sh\necho no\n" * 999, "a script")
    refused(tar(f("a", b"x" * 4096))[:2000], "a cut tar")
    refused(gzip.compress(tar(f("a", os.urandom(65536))))[:-9], "a cut gzip")
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
              "GNU.sparse.name": "hole", "GNU.sparse.realsize": str(1 << 40)}
    refused(tar(f("GNUSparseFile.0/hole", b"1\n1099511627775\n1\n".ljust(
        512, b"\0") + b"x", pax=sparse)), "a sparse TiB")
    sparse["GNU.sparse.realsize"] = str(1 << 32)
    t = Taken(tar(f("GNUSparseFile.0/hole", b"1\n4294967295\n1\n".ljust(
        512, b"\0") + b"x", pax=sparse)), "a sparse file of 4 GiB")
    ok(t.good and os.lstat(t.at("hole")).st_size == 1 << 32 and
       os.lstat(t.at("hole")).st_blocks < 2048, "its hole stays one")
    # many holes, each small enough: counted by size
    parts = []
    for i in range(9):
        sparse.update({"GNU.sparse.name": f"h{i}"})
        parts.append(f(f"GNUSparseFile.0/h{i}", b"1\n4294967295\n1\n".ljust(
            512, b"\0") + b"x", pax=dict(sparse)))
    refused(tar(*parts), "36 GiB of holes")
    began = time.monotonic()
    parts = parts[:1] + [hard(f"l{i}", "h0") for i in range(300)]
    r = s.add(tar(*parts))
    ok(r.returncode != 0 or time.monotonic() - began < 60,
       "300 names of a hole are not read 300 times", time.monotonic() - began)
    s.clear()


def bombs():
    # the root again and again: it makes nothing, and counts
    one = tar(d("./"))[:512]
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb", compresslevel=1) as z:
        block = one * 4096
        for _ in range(256):
            z.write(block)
    refused(data.getvalue(), "1,048,576 entries")
    # a GiB of empty gzip members, itself packed: nothing comes out of it
    empty = gzip.compress(b"") * 50000
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb", compresslevel=1) as z:
        for _ in range(64):
            z.write(empty)
    began = time.monotonic()
    refused(gzip.compress(data.getvalue()), "gzip in gzip in gzip")
    ok(time.monotonic() - began < 30, "... at once", time.monotonic() - began)


def layers():
    out = s.canary
    low = tar(d("a"), f("a/1"), f("a/2"), d("a/s"), f("a/s/3"), f("b"),
              sym("l", out), d("u"), f("u/x"))
    cases = (
        ("a whiteout", [f("a/.wh.1", b"")],
         {"a", "a/2", "a/s", "a/s/3", "b", "l", "u", "u/x"}),
        ("a whiteout of a directory", [f(".wh.a", b"")],
         {"b", "l", "u", "u/x"}),
        ("a whiteout, and it again", [f("a/.wh.1", b""), f("a/1", b"new")],
         {"a", "a/1", "a/2", "a/s", "a/s/3", "b", "l", "u", "u/x"}),
        ("a whiteout after it", [f("a/1", b"new"), f("a/.wh.1", b"")],
         {"a", "a/1", "a/2", "a/s", "a/s/3", "b", "l", "u", "u/x"}),
        ("an opaque directory", [d("a"), f("a/.wh..wh..opq", b""), f("a/n")],
         {"a", "a/n", "b", "l", "u", "u/x"}),
        ("opaque after its files", [f("a/n"), f("a/.wh..wh..opq", b"")],
         {"a", "a/n", "b", "l", "u", "u/x"}),
        ("opaque after a file deeper", [f("a/s/n"), f("a/.wh..wh..opq", b"")],
         {"a", "a/s", "a/s/n", "b", "l", "u", "u/x"}),
        ("the root opaque", [f(".wh..wh..opq", b""), f("n")], {"n"}),
        ("a whiteout of a link", [f(".wh.l", b""), f(".wh.b", b""),
                                  f(".wh.u", b"")],
         {"a", "a/1", "a/2", "a/s", "a/s/3"}),
        ("a directory that became a file", [f("a")],
         {"a", "b", "l", "u", "u/x"}),
        ("a link that became a directory", [d("l"), f("l/z")],
         {"a", "a/1", "a/2", "a/s", "a/s/3", "b", "l", "l/z", "u", "u/x"}),
        ("a hard link to a lower file", [hard("h", "a/1"),
                                         f(".wh.a", b"")],
         {"b", "h", "l", "u", "u/x"}),
        ("a whiteout of nothing", [f("a/.wh.none", b"")],
         {"a", "a/1", "a/2", "a/s", "a/s/3", "b", "l", "u", "u/x"}),
    )
    for name, upper, want in cases:
        t = Taken(Oci(low, tar(*upper)).tar(), name)
        ok(t.good and set(t.tree()) == want, f"... {name}",
           t.good and sorted(set(t.tree()) ^ want))
    for name, upper in (
            ("a file through a lower link", [f("l/x")]),
            ("a whiteout through a lower link", [f("l/.wh.passwd", b"")]),
            ("an opaque marker behind a link", [f("l/.wh..wh..opq", b"")]),
            ("a hard link through a lower link", [hard("h", "l/passwd")]),
            ("a whiteout above", [f("a/../../.wh.x", b"")]),
            ("a whiteout of ..", [f("a/.wh...", b"")]),
            ("a whiteout of .", [f("a/.wh..", b"")]),
            ("a whiteout without a name", [f("a/.wh.", b"")])):
        refused(Oci(low, tar(*upper)).tar(), name)
    t = Taken(tar(f(".wh.a", b""), f("a")), "what is no layer")
    ok(set(t.tree()) == {".wh.a", "a"}, "has no whiteouts")
    t = Taken(Oci(*[tar(f(f"f{i}")) for i in range(128)]).tar(), "128 layers")
    ok(len(t.tree()) == 128, "all are there")
    refused(Oci(*[tar(f(f"f{i}")) for i in range(129)]).tar(), "129 layers")


def layouts():
    layer = tar(f("a", b"layer"))
    config = {"User": "1000:1000", "WorkingDir": "/srv/x y",
              "Env": ["A=b c", "B="], "Entrypoint": ["/e", "-x"],
              "Cmd": ["c d"]}
    o = Oci(layer, config=config)
    t = Taken(o.tar(), "a layout in a tar")
    i = t.info
    ok((i.get("user"), i.get("workdir"), i.get("env"), i.get("entrypoint"),
        i.get("architecture")) == ("1000:1000", "/srv/x y", ["A=b c", "B="],
                                   ["/e", "-x", "c d"], ARCH),
       "its configuration", i)
    ok(i.get("source_digest") == o.descriptor["digest"],
       "the manifest's own digest", i.get("source_digest"))
    r = s.sbx("inspect", o.descriptor["digest"])
    ok(r.returncode == 0 and t.hex in r.stdout,
       "an image is found by the digest that others know it by", r)
    r = s.add(o.save(s.base + "/layout"))
    ok(r.stdout.strip()[7:] == t.hex and "already" in r.stderr,
       "the directory of it is the same image", r)
    r = s.add(gzip.compress(o.tar()))
    ok(r.stdout.strip()[7:] == t.hex, "the tar of it, packed, too", r)
    r = s.add(docker(layer, config=config))
    ok(r.stdout.strip()[7:] == t.hex, "docker save of it, too", r)
    for name, pack in (("bzip2", ["bzip2"]), ("xz", ["xz"]),
                       ("zstd", ["zstd", "-q"])):
        if shutil.which(pack[0]) is None:
            tap.absent(f"no {pack[0]}", f"a layer packed by {name}")
            continue
        r = s.add(Oci(layer, config=config, pack=lambda x: subprocess.run(
            pack, input=x, capture_output=True, check=True).stdout).tar())
        ok(r.stdout.strip()[7:] == t.hex, f"a layer packed by {name}", r)
    a, b = Oci(layer, arch=OTHER), Oci(tar(f("mine")))
    b.files.update({k: v for k, v in a.files.items() if "blobs" in k})
    t = Taken(b.index(a.descriptor, b.descriptor).tar(), "two architectures")
    ok(t.tree() == ["mine"], "this machine's is chosen")
    inner = b.blob(json.dumps({"schemaVersion": 2, "manifests": [
        a.descriptor, b.descriptor]}).encode())
    t = Taken(b.index(inner).tar(), "an index in an index")
    ok(t.tree() == ["mine"], "this machine's is chosen")
    refused(a.tar(), "another architecture only")
    refused(Oci(layer, arch=OTHER, platform=False).tar(),
            "another architecture, said by the configuration alone")
    refused(docker(layer, arch=OTHER), "docker save of another architecture")
    t = Taken(Oci(layer, config={
        "User": "x\ny", "WorkingDir": "/a\0b", "Env": [
            "A=1\nB=2", "=x", "no", "C=\x1b[31m", "N=a\0b", 7, None, {}] +
        [f"V{i}=x" for i in range(100)] + ["BIG=" + "x" * 9000],
        "Entrypoint": ["x" * 5000, [], "ok"]}).tar(),
        "a configuration that cannot be said on lines")
    i = t.info
    ok(i.get("dropped_config", 0) >= 46 and len(i.get("env", "")) <= 64 and
       i.get("entrypoint") == ["ok"] and not i.get("user") and
       not any("1" == e[2:] or "N=" in e for e in i.get("env", [])),
       "what cannot is left out and counted", i)


def broken_layouts():
    layer = tar(f("a", b"layer"))

    def spoilt(change):
        o = Oci(layer)
        change(o)
        return o.tar()

    def flip(which):
        def change(o):
            path = "blobs/sha256/" + which(o)["digest"][7:]
            o.files[path] = o.files[path][:-1] + b"?"
        return change

    def relayer(**kw):
        def change(o):
            o.manifest["layers"][0].update(kw)
            o.index(o.blob(json.dumps(o.manifest).encode()))
        return change

    refused(spoilt(flip(lambda o: o.descriptor)), "a manifest that was changed")
    refused(spoilt(flip(lambda o: o.manifest["config"])),
            "a configuration that was changed")
    refused(spoilt(flip(lambda o: o.manifest["layers"][0])),
            "a layer that was changed")
    refused(Oci(layer, ids=["sha256:" + "0" * 64]).tar(), "another diff_id")
    refused(Oci(layer, ids=[]).tar(), "no diff_id")
    refused(Oci(layer, ids=["sha256:" + sha(layer)] * 2).tar(),
            "a diff_id too many")
    for digest in ("sha256:../../../../etc/passwd", "sha512:" + "0" * 128,
                   "sha256:" + "A" * 64, "", "sha256:" + "0" * 64, "md5:x",
                   "sha256:" + "0" * 64 + "/../../../x", 5, None):
        refused(spoilt(relayer(digest=digest)),
                f"a layer called {str(digest)[:30]}")
    for text, name in ((b"", "nothing"), (b"[]", "a list"), (b"{", "cut"),
                       (b"{}", "empty"), (b'{"manifests":[]}', "no manifest"),
                       (b'{"manifests":{}}', "an object for a list"),
                       (b'{"manifests":[[]]}', "a list of lists"),
                       (b'{"manifests":[null]}', "null"),
                       (b'{"a":1,"a":2}', "a member twice"),
                       (b"[" * 100000, "deep"),
                       (b'{"a":"' + b"x" * (5 << 20) + b'"}', "5 MiB"),
                       (b"\xff\xfe{}", "not UTF-8")):
        refused(spoilt(lambda o: o.files.update({"index.json": text})),
                f"an index.json that is {name}")
    o = Oci(layer)
    for _ in range(9):
        o.index(o.blob(o.files["index.json"]))
    refused(o.tar(), "an index in an index, nine times")
    # names in the archive
    o = Oci(layer)
    refused(o.tar(f("../x")), "a layout with a name above")
    refused(o.tar(f("index.json", b"{}")), "a layout with a name twice")
    o = Oci(layer)
    blob = "blobs/sha256/" + o.manifest["layers"][0]["digest"][7:]
    del o.files[blob]
    refused(o.tar(), "a layout without its layer")
    refused(o.tar(sym(blob, s.canary + "/passwd")),
            "a layer that is a link to the host")
    refused(o.tar(sym(blob, "../../../canary/passwd")), "a link out of it")
    refused(o.tar(sym(blob, blob)), "a link to itself")
    refused(o.tar(d(blob)), "a layer that is a directory")
    refused(o.tar(member(blob, tarfile.FIFOTYPE)), "a layer that is a pipe")
    top = o.save(s.base + "/spoilt")
    os.symlink(s.canary + "/passwd", f"{top}/{blob}")
    refused(top, "a directory with a layer that is a link")
    os.unlink(f"{top}/{blob}")
    os.mkfifo(f"{top}/{blob}")
    refused(top, "a directory with a layer that is a pipe")
    shutil.rmtree(top + "/blobs")
    os.symlink(s.base + "/layout/blobs", top + "/blobs")
    refused(top, "a directory with blobs behind a link")


def docker_archives():
    layer = tar(f("a", b"layer"))
    t = Taken(docker(layer, tar(f("b"))), "docker save, two layers")
    ok(t.tree() == ["a", "b"], "both are there")
    t = Taken(docker(layer, paths=["x/layer.tar", "y/layer.tar"],
                     ids=["sha256:" + sha(layer)] * 2,
                     more=[sym("y/layer.tar", "../x/layer.tar")]),
              "docker save, the same layer twice, by a link")
    ok(t.tree() == ["a"], "it is there")
    refused(docker(layer, images=2), "docker save of two images")
    refused(docker(layer, ids=["sha256:" + "0" * 64]), "a changed layer")
    for path in ("../layer.tar", "/etc/passwd", "none", "", "c.json/x"):
        refused(tar(f("manifest.json", json.dumps([{
            "Config": "c.json", "Layers": [path]}]).encode()),
            f("c.json", json.dumps({"architecture": ARCH, "rootfs": {
                "diff_ids": ["sha256:" + "0" * 64]}}).encode())),
            f"a layer called '{path}'")
    for target in ("../../../etc/passwd", s.canary + "/passwd", "layer.tar",
                   "../y/layer.tar"):
        refused(docker(layer, paths=["x/layer.tar", "y/layer.tar"],
                       ids=["sha256:" + sha(layer)] * 2,
                       more=[sym("y/layer.tar", target)]),
                f"docker save with a link to {target[-20:]}")
    t = Taken(tar(f("manifest.json", b"[]"), d("usr"), d("etc"),
                  f("usr/x")), "a tree with a manifest.json")
    ok("usr/x" in t.tree(), "is a tree")


def trees():
    top = s.base + "/tree"
    os.makedirs(top + "/d/e")
    for path, mode in (("d/f", 0o4755), ("d/e/g", 0o600), ("secret", 0)):
        with open(f"{top}/{path}", "wb") as out:
            out.write(path.encode())
        os.chmod(f"{top}/{path}", mode)
    os.chmod(top + "/d/e", 0o700)
    if os.geteuid() != 0:
        os.unlink(top + "/secret")
    os.link(top + "/d/f", top + "/h")
    os.symlink(s.canary, top + "/out")
    os.mkfifo(top + "/pipe")
    t = Taken(top, "a directory")
    ok(t.text("d/e/g") == b"d/e/g", "what only its owner reads is read", t.good)
    ok(t.good and os.readlink(t.at("out")) == s.canary and
       not t.has("pipe") and t.mode("d/f") == 0o755, "links stay text")
    ok(t.good and os.lstat(t.at("h")).st_ino == os.lstat(t.at("d/f")).st_ino,
       "two names of a file stay two names")
    if os.geteuid() == 0:
        ok(t.text("secret") == b"secret", "root's own is read, too")
    else:
        os.close(os.open(top + "/secret", os.O_CREAT | os.O_WRONLY, 0))
        refused(top, "a tree with a file that its caller cannot read",
                "secret")
        os.unlink(top + "/secret")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as a:
        a.add(top, ".")
    r = s.add(raw.getvalue())
    ok(r.stdout.strip()[7:] == t.hex, "the tar of it is the same image", r)
    with tarfile.open(fileobj=io.BytesIO(raw.getvalue())) as a:
        both = [m for m in a.getmembers()
                if m.name not in ("./h", "./d/f", ".")]
        back = [(m, a.extractfile(m).read() if m.isreg() else b"")
                for m in reversed(both)]
        first = next(m for m in a.getmembers() if m.isreg() and
                     m.name in ("./h", "./d/f"))
        other = "./d/f" if first.name == "./h" else "./h"
        back += [(first, a.extractfile(first).read()),
                 hard(other, first.name)]
    r = s.add(gzip.compress(tar(*back)))
    ok(r.stdout.strip()[7:] == t.hex, "also in another order, packed", r)
    r = s.sbx("import", "-", data=raw.getvalue())
    ok(r.stdout.strip()[7:] == t.hex, "also by a pipe", r)
    os.chmod(top + "/d/f", 0o700)
    r = s.add(top)
    ok(r.returncode == 0 and r.stdout.strip()[7:] != t.hex,
       "another mode is another image", r)
    os.symlink(top, s.base + "/link")
    r = s.add(s.base + "/link")
    ok(r.returncode == 0, "the caller's own link is followed", r)
    r = s.add(s.base + "/none")
    ok(r.returncode == 1 and "No such file" in r.stderr, "no such source", r)


def killed():
    """At any moment: nothing that is visible, nothing that runs."""
    data = tar(*[f(f"f{i}", os.urandom(30000)) for i in range(400)])
    before = s.images()
    for part in (0, 1000, len(data) // 2, len(data) - 1):
        p = subprocess.Popen([mcp.BUILD + "/sbx", "image", "import",
                              "--name", "half", "-"], env=s.env,
                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL)
        p.stdin.write(data[:part])
        p.stdin.flush()
        time.sleep(0.4)
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as text:
            kids = text.read().split()
        p.send_signal(signal.SIGKILL)
        p.wait()
        p.stdin.close()
        until = time.monotonic() + 5
        while any(os.path.exists(f"/proc/{k}") for k in kids) and \
                time.monotonic() < until:
            time.sleep(0.02)
        r = s.sbx("list")
        ok(kids and not any(os.path.exists(f"/proc/{k}") for k in kids) and
           s.images() == before and "half" not in r.stdout,
           f"SIGKILL after {part} bytes leaves nothing that is seen",
           (kids, r))
    r = s.add(tar(f("after")))
    ok(r.returncode == 0 and not s.staging(), "the next import collects it",
       s.staging())
    # the importer alone
    p = subprocess.Popen([mcp.BUILD + "/sbx", "image", "import", "-"],
                         env=s.env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(data[:5000])
    p.stdin.flush()
    time.sleep(0.4)
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as text:
        os.kill(int(text.read().split()[0]), signal.SIGKILL)
    out, err = p.communicate(timeout=20)
    ok(p.returncode != 0 and out == b"" and not s.staging() and
       b"sbxd-image" in err, "the importer killed: an error, and collected",
       (p.returncode, err, s.staging()))


def at_once():
    data, got = tar(*[f(f"f{i}", b"y" * 5000) for i in range(300)]), []
    path = s.base + "/both"
    with open(path, "wb") as out:
        out.write(data)
    ts = [threading.Thread(target=lambda i=i: got.append(s.sbx(
        "import", "--name", f"n{i}", path))) for i in range(6)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    ok(all(r.returncode == 0 for r in got) and
       len({r.stdout for r in got}) == 1 and not s.staging(),
       "six imports of the same at once: one image", got)
    r = json.loads(s.sbx("inspect", "n0").stdout or "{}")
    ok(sorted(r.get("names", [])) == [f"n{i}" for i in range(6)],
       "all its names are there", r)
    hex_ = got[0].stdout.strip()[7:]
    r = s.sbx("rm", hex_)
    ok(r.returncode != 0 and hex_ in s.images(),
       "rm by the digest of what is named is refused", r)
    fd = os.open(f"{s.dir}/{hex_}/lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    for i in range(1, 6):
        s.sbx("rm", f"n{i}")
    r = s.sbx("rm", "n0")
    ok(r.returncode != 0 and hex_ in s.images(),
       "rm of what is in use is refused", r)
    os.close(fd)
    r = s.sbx("rm", "n0")
    ok(r.returncode == 0 and hex_ not in s.images() and not s.staging(),
       "then it goes", r)


def full():
    if os.geteuid() != 0:
        tap.absent("only root mounts", "a disk that is full")
        return
    small = s.base + "/small"
    os.makedirs(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=755",
                    "none", small], check=True)
    try:
        env = dict(s.env, SBX_ROOT=small)
        for n, size in ((1, 8 << 20), (4000, 0)):
            path = s.base + "/source"
            with open(path, "wb") as out:
                out.write(tar(*[f(f"f{i}", os.urandom(size))
                                for i in range(n)]) if size else
                          tar(*[f(f"f{i}" + "n" * 200, b"x")
                                for i in range(n)]))
            r = subprocess.run([mcp.BUILD + "/sbx", "image", "import", path],
                               env=env, capture_output=True, text=True,
                               timeout=60)
            left = os.listdir(small + "/state/images")
            ok(r.returncode != 0 and "No space" in r.stderr and not [
                x for x in left if x.startswith("tmp.") or len(x) == 64],
               f"a full disk: {n} files", (r, left))
    finally:
        subprocess.run(["umount", small], check=True)


def main():
    global s
    # the suite's user must reach nothing by a path, so this may be 0755
    base = tempfile.mkdtemp(prefix="sbx-attack-")
    try:
        s = Store(base)
        s.max_links = os.pathconf(base, "PC_LINK_MAX")
        for part in (names, links, hard_links, dropped, mounts, sizes, bombs,
                     layers, layouts, broken_layouts, docker_archives, trees,
                     killed, at_once, full):
            if len(sys.argv) > 1 and part.__name__ not in sys.argv[1:]:
                continue
            print("#", part.__name__, flush=True)
            part()
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", base])
        shutil.rmtree(base, ignore_errors=True)
    tap.done()
    return 1 if tap.bad else 0


sys.exit(main())
