#!/usr/bin/env python3
"""Images as their users make them: every kind of source, each compression,
layers in any order, and sandboxes of what came out.  What somebody hostile
would make is in test_image_attack.py.

Arguments: parts to run.  SBX_SEED: the seed of what is random, as it is shown.
"""
import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from imgsrc import (ARCH, OTHER, Oci, Store, d, docker, f, hard,  # noqa: E402
                    member, rootfs, sha, sym, tar)

tap = mcp.Tap()
ok = tap.ok
s = None
SEED = int(os.environ.get("SBX_SEED", random.randrange(1 << 32)))
rnd = random.Random(SEED)


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, check=True,
                          stdout=subprocess.PIPE).stdout


PACKS = {"tar": bytes, "gzip": gzip.compress, "bzip2": bz2.compress,
         "xz": lzma.compress, "zstd": zstd}
if shutil.which("zstd") is None:
    del PACKS["zstd"]


def tree_of(top):
    """{path: what is there}, as bytes where names may be anything"""
    out = {}
    top = os.fsencode(top)
    for base, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(base, n)
            st = os.lstat(p)
            rel, mode = os.path.relpath(p, top), stat.S_IMODE(st.st_mode)
            if stat.S_ISLNK(st.st_mode):
                out[rel] = ("link", os.readlink(p))
            elif stat.S_ISDIR(st.st_mode):
                out[rel] = ("dir", mode)
            else:
                with open(p, "rb") as data:
                    out[rel] = ("file", mode, data.read())
    return out


def digest(r):
    return r.stdout.strip() if r.returncode == 0 else r


def taken(source, text, *names):
    """its tree and what inspect says, or two of nothing"""
    r = s.add(source, *names)
    left = s.staging()
    if not ok(r.returncode == 0 and not left, text, (r, left)):
        return {}, {}
    return tree_of(f"{s.dir}/{digest(r)[7:]}/rootfs"), \
        json.loads(s.sbx("inspect", digest(r)).stdout)


def refused(source, text, *says):
    before = s.images()
    r = s.add(source)
    ok(r.returncode == 1 and r.stdout == "" and s.images() == before and
       not s.staging() and all(w in r.stderr for w in says), text,
       (r, s.staging()))


def on_disk(members, top):
    """The same as a directory, made by python alone."""
    os.mkdir(top)
    for t, data in members:
        p = os.path.join(top, t.name)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        if t.isdir():
            os.makedirs(p, exist_ok=True)
        elif t.issym():
            os.symlink(t.linkname, p)
        elif t.islnk():
            os.link(os.path.join(top, t.linkname), p, follow_symlinks=False)
        else:
            with open(p, "wb") as out:
                out.write(data)
        if not t.issym() and not t.islnk():
            os.chmod(p, t.mode)
    return top


# --- kinds of sources --------------------------------------------------------

PLAIN = [d("etc"), f("etc/passwd", b"root:x:0:0::/:/bin/sh\n"), d("bin"),
         f("bin/sh", b"#!", mode=0o755), sym("sh", "bin/sh"),
         hard("bin/ash", "bin/sh"), d("var/empty", mode=0o700),
         f("var/empty/\u00e4 \u65e5", b""), hard("sh2", "sh"),
         f("big", bytes(range(256)) * 4096)]


def kinds():
    """One content, one digest, however it is packed."""
    top = on_disk(PLAIN, s.base + "/kinds")
    want = digest(s.add(top, "kinds"))
    ok(isinstance(want, str), "a directory", want)
    got = tree_of(f"{s.dir}/{want[7:]}/rootfs")
    ok(got == tree_of(top), "is there as it was", got)
    for fmt, name in ((tarfile.USTAR_FORMAT, "ustar"),
                      (tarfile.GNU_FORMAT, "gnu"),
                      (tarfile.PAX_FORMAT, "pax")):
        r = s.add(tar(*PLAIN, fmt=fmt))
        ok(digest(r) == want, f"a tar of format {name}", r)
    data = tar(*PLAIN)
    for name, pack in PACKS.items():
        r = s.add(pack(data))
        ok(digest(r) == want, f"{name}: the same digest", r)
        r = s.sbx("import", "-", data=pack(data))
        ok(digest(r) == want, f"{name} in a pipe", r)
        r = s.add(Oci(data, pack=pack).tar())
        ok(digest(r) == want, f"a layer in {name}", r)
    for name, pack in PACKS.items():
        r = s.add(pack(Oci(data).tar()))
        ok(digest(r) == want, f"a layout, its tar in {name}", r)
        r = s.sbx("import", "-", data=pack(docker(data)))
        ok(digest(r) == want, f"docker save, in {name}, in a pipe", r)
    r = s.add(gzip.compress(data[:700]) + gzip.compress(data[700:]))
    ok(digest(r) == want, "gzip of two members", r)
    halves = [tar(*PLAIN[:5]), tar(*PLAIN[5:])]
    for name, source in (
            ("a directory", Oci(*halves).save(s.base + "/layout")),
            ("a tar", Oci(*halves).tar()), ("docker save", docker(*halves))):
        r = s.add(source)
        ok(digest(r) == want, f"two layers, {name}", r)
    if shutil.which("tar"):
        r = subprocess.run(["tar", "-C", top, "-cf", "-", "."], check=True,
                           stdout=subprocess.PIPE)
        r = s.sbx("import", "-", data=r.stdout)
        ok(digest(r) == want, "what tar(1) makes of the directory", r)
    ok(len(s.images()) == 1, "all of it is one image", s.images())


def dockers():
    """What `docker save` writes, before and after it wrote layouts."""
    a, b = tar(f("a", b"1")), tar(f("b", b"2"))
    want = digest(s.add(Oci(a, b).tar()))
    extra = [f("x/VERSION", b"1.0"), f("x/json", b"{}"),
             f("repositories", b"{}")]
    r = s.add(docker(a, b, more=extra))
    ok(digest(r) == want, "the old form, with what else is in it", r)
    t, i = taken(docker(a, paths=["x/layer.tar", "y/layer.tar"],
                        ids=["sha256:" + sha(a)] * 2,
                        more=[sym("y/layer.tar", "../x/layer.tar")]),
                 "the same layer twice, the second a link")
    ok(t == {b"a": ("file", 0o644, b"1")} and i.get("layers") == 2,
       "is applied twice", (t, i))
    # the new form: a layout that also has a manifest.json
    o = Oci(a, b, platform=False)
    o.files["manifest.json"] = json.dumps([{
        "Config": "blobs/sha256/" + o.manifest["config"]["digest"][7:],
        "RepoTags": ["x:1", "x:2"], "Layers": [
            "blobs/sha256/" + x["digest"][7:] for x in
            o.manifest["layers"]]}]).encode()
    r = s.add(o.tar())
    ok(digest(r) == want, "the new form", r)
    # each tag is an entry of its index
    o.index(*[dict(o.descriptor, annotations={
        "org.opencontainers.image.ref.name": n}) for n in "12"])
    r = s.add(o.tar())
    ok(digest(r) == want, "the new form, one image with two tags", r)
    # attestations stand beside the images
    other = Oci(a, arch=OTHER)
    o.files.update({k: v for k, v in other.files.items() if "blobs" in k})
    o.index(o.blob(json.dumps({"schemaVersion": 2, "manifests": [
        dict(other.descriptor, platform={"os": "unknown",
                                         "architecture": "unknown"}),
        dict(o.descriptor, platform={"os": "linux",
                                     "architecture": ARCH})]}).encode()))
    r = s.add(o.tar())
    ok(digest(r) == want, "an index with an attestation", r)
    two = Oci(b, platform=False)
    o = Oci(a, platform=False)
    o.files.update({k: v for k, v in two.files.items() if "blobs" in k})
    refused(o.index(o.descriptor, two.descriptor).tar(),
            "two images that name no machine", "2 images", "copy one")


def config():
    c = {"User": "app:1000", "WorkingDir": "/srv", "Env": ["A=1", "B=\u00e4 b"],
         "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo hi"]}
    a = tar(f("a"))
    for kind, source in (("layout", Oci(a, config=c).tar()),
                         ("docker save", docker(a, config=c))):
        _, i = taken(source, f"a {kind} with a configuration")
        ok((i.get("user"), i.get("workdir"), i.get("env"),
            i.get("entrypoint"), i.get("layers"), i.get("files")) ==
           (c["User"], c["WorkingDir"], c["Env"],
            c["Entrypoint"] + c["Cmd"], 1, 1), "inspect says it", i)
    ok(len(s.images()) == 1, "both are one image")
    for key, value in (("Env", ["A=2"]), ("User", "x"), ("WorkingDir", "/x"),
                       ("Cmd", ["x"])):
        s.add(Oci(a, config=dict(c, **{key: value})).tar())
    ok(len(s.images()) == 5, "another configuration is another image")
    for what in ({}, None):
        _, i = taken(Oci(a, config=what).tar(), f"config {what}")
        ok(i.get("env") == [] and i.get("user") is None, "says nothing", i)


def others():
    """Images that skopeo(1) and umoci(1) wrote, and what they read of ours."""
    top = s.base
    if shutil.which("skopeo") is None or shutil.which("umoci") is None:
        tap.absent("skopeo or umoci is not installed", "their images")
        return

    def run(*words):
        r = subprocess.run(words, cwd=top, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=60)
        ok(r.returncode == 0, " ".join(words[:2]), r)

    with open(top + "/d.tar", "wb") as out:
        out.write(docker(tar(*PLAIN), names=["node:22"],
                         config={"Env": ["A=1"]}))
    want = digest(s.add(top + "/d.tar"))
    for source, to in (("docker-archive:d.tar", "oci:node"),
                       ("docker-archive:d.tar", "oci-archive:node.tar"),
                       ("oci:node", "docker-archive:back.tar:node:22")):
        run("skopeo", "copy", "--insecure-policy", source, to)
        r = s.add(f"{top}/{to.split(':')[1]}")
        ok(digest(r) == want, f"{to} of skopeo is the same image", r)
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    run("umoci", "init", "--layout", "um")
    run("umoci", "new", "--image", "um:a")
    run("umoci", "unpack", *rootless, "--image", "um:a", "b")
    on_disk(PLAIN, top + "/plain")
    subprocess.run(["cp", "-a", top + "/plain/.", top + "/b/rootfs"],
                   check=True)
    run("umoci", "repack", "--image", "um:a", "b")
    shutil.rmtree(top + "/b/rootfs/etc")
    os.symlink("var", top + "/b/rootfs/etc")
    os.unlink(top + "/b/rootfs/sh")
    os.mkdir(top + "/b/rootfs/sh")
    open(top + "/b/rootfs/sh/new", "w").close()
    run("umoci", "repack", "--refresh-bundle", "--image", "um:a", "b")
    want = digest(s.add(top + "/b/rootfs"))
    r = s.add(top + "/um")
    ok(digest(r) == want, "two layers of umoci are what it packed", r)


# --- names, as they come -----------------------------------------------------

def names():
    raw = [b"latin\xe9", "utf\u00e9".encode(), b"a b\tc\nd\\e\"f", b"%s%n",
           b"x" * 255, b"--help", b"\xf0\x9f\x90\x9f", b"\xed\xa0\x80"]
    members = []
    for n in raw:
        n = os.fsdecode(n)
        members += [f(n, b"1"), sym("l" + n[:200], n), hard("h" + n[:200], n)]
    want = None
    for fmt, name in ((tarfile.GNU_FORMAT, "gnu"), (tarfile.PAX_FORMAT,
                                                    "pax")):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=fmt,
                          errors="surrogateescape") as t:
            for info, data in members:
                t.addfile(info, io.BytesIO(data))
        t, i = taken(out.getvalue(), f"names that are no UTF-8, {name}")
        ok(all(t.get(n) == t.get(b"h" + n[:200]) == ("file", 0o644, b"1")
               for n in raw), "are there, and hard links to them",
           sorted(t))
        ok(all(t.get(b"l" + os.fsencode(os.fsdecode(n)[:200])) == ("link", n)
               for n in raw), "and links to them", sorted(t.items()))
        ok(want in (None, i.get("digest")), "one digest", i)
        want = i.get("digest")
    top = on_disk(members, s.base + "/raw")
    r = s.add(top)
    ok(digest(r) == want, "a directory of them is the same", r)
    # a hard link whose name only pax can say, and not in UTF-8
    bad = tar(f("a", b"x"), member("h", tarfile.LNKTYPE, link="a",
                                   pax={"linkpath": "QQQQ"}))
    r = s.add(bad.replace(b"linkpath=QQQQ", b"linkpath=\xff\xfe\xfd\xfc"))
    ok(r.returncode == 1, "a hard link to what is not there is no file", r)
    t, _ = taken(tar(f("a", b"1"), d("b"), f("a", b"2", mode=0o600),
                     sym("b", "x"), d("b", mode=0o700), f("b/c"), sym("l", "1"),
                     sym("l", "2")), "entries that come twice")
    ok(t == {b"a": ("file", 0o600, b"2"), b"b": ("dir", 0o700),
             b"b/c": ("file", 0o644, b"x"), b"l": ("link", b"2")},
       "the last one counts", t)
    t, _ = taken(tar(f("a"), sym("l", "a"), hard("l2", "l"), hard("l3", "l2")),
                 "a hard link to a link")
    ok([t.get(n) for n in (b"l2", b"l3")] == [("link", b"a")] * 2,
       "is that link", t)


def dropped():
    top = s.base + "/dropped"
    os.makedirs(top + "/d")
    for n, mode in (("su", 0o4711), ("sg", 0o2755)):
        open(f"{top}/{n}", "w").close()
        os.chmod(f"{top}/{n}", mode)
    os.chmod(top + "/d", 0o2775)
    os.mkfifo(top + "/fifo")
    counts = {"dropped_setuid": 3, "dropped_other": 1, "dropped_devices": 0,
              "dropped_xattrs": 0}
    try:
        os.setxattr(top + "/su", "user.a", b"1")
        counts["dropped_xattrs"] = 1
    except OSError:
        tap.absent("no user attributes here", "attributes of a file")
    if os.geteuid() == 0:
        os.mknod(top + "/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(top + "/loop", 0o660 | stat.S_IFBLK, os.makedev(7, 0))
        counts["dropped_devices"] = 2
    t, i = taken(top, "a directory with what no sandbox may have")
    ok(t == {b"d": ("dir", 0o775), b"su": ("file", 0o711, b""),
             b"sg": ("file", 0o755, b"")}, "it is not there", t)
    ok({k: i.get(k) for k in counts} == counts, "and counted", i)


# --- layers ------------------------------------------------------------------

class Model:
    """What layers make, by the words of the specification: whiteouts are of
    the layers below alone, wherever they stand in theirs."""

    def __init__(self):
        self.t, self.mine = {}, set()

    def below(self, path):
        return [p for p in self.t if p.startswith(path + "/")]

    def rm(self, path):
        for p in self.below(path) + [path]:
            self.t.pop(p, None)

    def rm_lower(self, path, itself):
        """what this layer did not make, of path or below it"""
        for p in self.below(path) + ([path] if itself else []):
            if p not in self.mine:
                self.t.pop(p, None)

    def parents(self, path):
        parts = path.split("/")[:-1]
        for i in range(len(parts)):
            p = "/".join(parts[:i + 1])
            self.t.setdefault(p, ("dir", 0o755))
            self.mine.add(p)

    def can(self, path):
        parts = path.split("/")
        return all(self.t.get("/".join(parts[:i]), ("dir",))[0] == "dir"
                   for i in range(1, len(parts)))

    def put(self, path, what):
        self.parents(path)
        if not (what[0] == "dir" and self.t.get(path, "x")[0] == "dir"):
            self.rm(path)
        self.t[path] = what
        self.mine.add(path)


NAMES = ["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "c/c", "a/a/a", "a/b/c",
         "b/a/c", "a/a/a/b"]


def step(m, low):
    """One entry that is allowed, in the model and as a member."""
    path = rnd.choice(NAMES)
    kind = rnd.choice(["file"] * 4 + ["dir"] * 3 + ["sym", "hard", "hard"] +
                      (["wh"] * 3 + ["opq"] * 2 if low else []))
    if not m.can(path):
        return None
    data, mode = b"%d" % rnd.randrange(1 << 30), rnd.choice([0o644, 0o755])
    if kind == "file":
        m.put(path, ("file", mode, data))
        return f(path, data, mode=mode)
    if kind == "dir":
        m.put(path, ("dir", mode | 0o700))
        return d(path, mode=mode)
    if kind == "sym":
        m.put(path, ("link", data))
        return sym(path, data.decode())
    if kind == "hard":
        # not to itself, nor to what it replaces
        to = [p for p, w in m.t.items() if w[0] != "dir" and p != path and
              not p.startswith(path + "/")]
        if not to:
            return None
        to = rnd.choice(to)
        m.put(path, m.t[to])
        return hard(path, to)
    head, _, last = path.rpartition("/")
    head += "/" if head else ""
    if kind == "wh":
        m.parents(path)
        m.rm_lower(path, True)
        return f(f"{head}.wh.{last}", b"")
    if m.t.get(path, ("dir",))[0] != "dir":
        return None
    m.parents(path + "/x")
    m.rm_lower(path, False)
    return f(path + "/.wh..wh..opq", b"")


def layers():
    print(f"# SBX_SEED={SEED}", flush=True)
    bad = None
    for n in range(300):
        m, all_layers = Model(), []
        for low in range(rnd.randrange(1, 5)):
            m.mine, members = set(), []
            for _ in range(rnd.randrange(1, 12)):
                e = step(m, low > 0)
                if e:
                    members.append(e)
            all_layers.append(tar(*members))
        if not m.t:
            continue
        r = s.add(Oci(*all_layers).tar() if n % 2 else docker(*all_layers))
        want = {k.encode(): v for k, v in m.t.items()}
        got = tree_of(f"{s.dir}/{digest(r)[7:]}/rootfs") \
            if r.returncode == 0 else r
        if got != want:
            bad = (n, r, [[(i.name, i.type, i.linkname) for i in
                           tarfile.open(fileobj=io.BytesIO(x))]
                          for x in all_layers], got, want)
            break
    ok(bad is None, "300 stacks of random layers are what they should be", bad)
    for n in s.images():
        s.sbx("rm", n)
    low = tar(d("x"), f("x/old"), f("x/both", b"old"))
    for text, upper in (
            ("before", [f(".wh.x", b""), d("x"), f("x/new")]),
            ("after", [d("x"), f("x/new"), f(".wh.x", b"")])):
        t, _ = taken(Oci(low, tar(*upper)).tar(), f"a directory that is "
                     f"removed and made anew, the whiteout {text} it")
        ok(set(t) == {b"x", b"x/new"}, "has nothing of the old one", t)
    t, _ = taken(Oci(tar(f("a", b"1"), hard("b", "a")), tar(f("a", b"2")),
                     tar(hard("c", "b"), f(".wh.b", b""))).tar(),
                 "hard links across layers")
    ok(t == {b"a": ("file", 0o644, b"2"), b"c": ("file", 0o644, b"1")},
       "keep what they were linked to", t)
    t, i = taken(Oci(tar(f("a"), f("b"), d("c"), f("c/d"), f("e")),
                     tar(member("a", tarfile.CHRTYPE),
                         member("b", tarfile.FIFOTYPE),
                         member("c", tarfile.BLKTYPE))).tar(),
                 "devices where lower layers have files")
    ok(set(t) == {b"e"} and i.get("dropped_devices") == 2,
       "are dropped, and the files are gone", (t, i))
    t, _ = taken(Oci(tar(d("p", mode=0)), tar(f("p/x", mode=0)),
                     tar(d("p", mode=0o050), f("p/y"))).tar(),
                 "directories without a mode, layer by layer")
    ok(t == {b"p": ("dir", 0o750), b"p/x": ("file", 0o400, b"x"),
             b"p/y": ("file", 0o644, b"x")}, "can be used", t)


# --- damage ------------------------------------------------------------------

def cut():
    """Half of an image is no image."""
    members = [d("etc")] + [f(f"etc/{i}", os.urandom(rnd.randrange(3000)))
                            for i in range(12)]
    plain = tar(*members)
    end = len(plain.rstrip(b"\0")) + 511 & ~511
    for name, data, last in (
            ("tar", plain, end), ("tar.gz", gzip.compress(plain), None),
            ("tar.xz", lzma.compress(plain), None),
            ("tar.bz2", bz2.compress(plain), None),
            ("layout", Oci(plain).tar(), None),
            ("docker save", docker(plain), None)):
        if last is None:
            last = len(data) - 1 if data[:2] != b"oc" else \
                len(data.rstrip(b"\0"))
            if name == "docker save":
                last = len(data.rstrip(b"\0"))
        offsets = sorted({0, 1, 511, 512, last} | set(range(
            0, last, 512 * (1 + last // 20000))) | {
            rnd.randrange(last) for _ in range(12)})
        before, took = s.images(), []
        for n in offsets:
            if n > last:
                continue
            r = s.add(data[:n])
            if r.returncode != 1 or r.stdout or s.staging() or \
                    s.images() != before:
                took.append((n, r.stdout, r.stderr))
        ok(not took, f"{name}, cut at {len(offsets)} places: refused, and "
           "nothing stays", (last, took[:5]))
    before, took = s.images(), []
    packed = gzip.compress(plain)
    for i in range(60):
        data = bytearray((Oci(plain).tar, lambda: plain, lambda: packed)
                         [i % 3]())
        for _ in range(1 + i % 5):
            data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
        r = s.add(bytes(data))
        if r.returncode not in (0, 1) or "signal" in r.stderr or s.staging():
            took.append(r)
    ok(not took, "60 with bits turned: an answer each", took[:3])
    took = [r for r in (s.add(os.urandom(n)) for n in (1, 511, 512, 4096,
                                                       100000))
            if r.returncode != 1]
    ok(not took, "noise is refused", took)
    for n in set(s.images()) - set(before):
        s.sbx("rm", n)


# --- the store ---------------------------------------------------------------

def store():
    r = s.sbx("list")
    ok(r.returncode == 0 and r.stdout == "", "an empty store", r)
    r = s.sbx("list", "--json")
    ok(json.loads(r.stdout) == [], "in JSON", r)
    a = digest(s.add(tar(f("a", b"12345")), "one", "team/two:1.0"))
    b = digest(s.add(tar(f("b", mode=0o4755))))
    r = s.sbx("list")
    ok(r.stdout.count("\n") == 2 and "one team/two:1.0" in r.stdout and
       a[:19] in r.stdout and b[:19] in r.stdout, "two images, two names", r)
    i = {x["digest"]: x for x in json.loads(s.sbx("list", "--json").stdout)}
    ok(set(i) == {a, b} and i[a]["names"] == ["one", "team/two:1.0"] and
       i[b]["names"] == [] and i[a]["bytes"] == 5 and i[a]["files"] == 1 and
       i[b]["dropped_setuid"] == 1 and
       abs(i[a]["created"] - time.time()) < 600, "in JSON", i)
    for what in ("one", a, a[7:], a[7:19], "team/two:1.0"):
        r = s.sbx("inspect", what)
        ok(r.returncode == 0 and json.loads(r.stdout) == i[a],
           f"inspect by {what[:20]}", r)
    for words in (("inspect", "none"), ("inspect", a[7:18]), ("rm", "none"),
                  ("name", "x", "none"), ("name", "host", a),
                  ("name", "auto", a), ("name", "A", a), ("name", "../x", a),
                  ("import", "--name", "x y", "/dev/null"), ("rm", "host"),
                  ("import",), ("import", "--", "a", "b"), ("none",), (),
                  ("import", "--name"), ("list", "x"), ("rm", "one", "x")):
        before = s.sbx("list").stdout
        r = s.sbx(*words)
        ok(r.returncode == 1 and r.stdout == "" and r.stderr and
           s.sbx("list").stdout == before, f"refused: {' '.join(words)}"
           .replace(a, "sha256:..."), r)
    r = s.sbx("name", "moved", a)
    ok(r.returncode == 0, "name", r)
    r = s.sbx("name", "moved", b)
    r = s.sbx("inspect", "moved")
    ok(json.loads(r.stdout)["digest"] == b, "a name moves", r)
    r = s.add(tar(f("a", b"12345")), "moved", "more")
    ok("already" in r.stderr and json.loads(s.sbx("inspect", "moved").stdout)
       ["names"] == ["one", "team/two:1.0", "moved", "more"],
       "an import of what is there moves names, too", r)
    for n in ("moved", "more", "team/two:1.0"):
        s.sbx("rm", n)
    ok(a[7:] in s.images(), "rm of all its names but one leaves it")
    r = s.sbx("rm", "one")
    ok(r.returncode == 0 and s.images() == [b[7:]], "rm of the last takes it",
       r)
    r = s.sbx("rm", b[7:19])
    ok(r.returncode == 0 and s.images() == [] and
       sorted(os.listdir(s.dir)) == ["names", "names.lock"],
       "rm by a prefix of what has no name", (r, os.listdir(s.dir)))


# --- sandboxes ---------------------------------------------------------------

MOUNTS = ("dev", "proc", "sys", "tmp", "run", "workspace", "home", "etc")
TEXT = {"absolute": lambda n: "/x/" + n, "relative": lambda n: "x/" + n,
        "chained": lambda n: "y/" + n, "looping": lambda n: n,
        "dangling": lambda n: "/nowhere", "above": lambda n: "/../../../" + n}


def new(c, image):
    r = c.call("sandbox_initialize", image=image)
    return r.get("container_id"), r


def sh(c, box, *commands):
    r = c.call("sandbox_exec", container_id=box, commands=list(commands),
               verbose="full")
    return r.get("output", "") if r["status"] == "ok" else repr(r)


def linked():
    """Images whose mount points are links, each as a tar; their names."""
    for kind, text in TEXT.items():
        members = [d("x"), d("y")]
        for n in MOUNTS:
            members += [d("x/" + n), f(f"x/{n}/image", b"its own"),
                        sym("y/" + n, "../x/" + n), sym(n, text(n))]
        r = s.add(gzip.compress(tar(*rootfs(*members))), kind)
        ok(r.returncode == 0, f"an image with {kind} mount points", r)


def sandboxes():
    c = {"User": "root", "WorkingDir": "/srv", "Env": [
        "PATH=/opt/bin:/usr/bin", "GREETING=hello there", "HOME=/root"],
        "Entrypoint": ["/bin/false"]}
    s.add(Oci(tar(*rootfs(d("srv"), f("old"), f("etc/passwd", b"root:x:0:0::"
                                                b"/root:/bin/sh\n"))),
              tar(f("opt/bin/tool", b"#!/bin/sh\necho tool of $GREETING\n",
                    mode=0o4755), f(".wh.old", b"")), config=c).tar(), "app")
    linked()
    with mcp.Suite(root=s.root) as c:
        box, r = new(c, "app")
        hex_ = json.loads(s.sbx("inspect", "app").stdout)["digest"]
        ok(r["status"] == "ok" and r["image"] == "app" and
           r["image_digest"] == hex_, "a sandbox of an OCI image", r)
        out = sh(c, box, "tool; pwd; id -u; id -un; echo $HOME; ls /")
        ok(out.split()[:5] == ["tool", "of", "hello", "there", "/workspace"]
           and "1000\nsandbox\n/home/sandbox\n" in out and
           "old" not in out.split() and "srv" in out.split(),
           "its layers, its environment, not its user", out)
        out = sh(c, box, "touch ~/a /workspace/b /tmp/c && cat /etc/passwd")
        ok("root:x:0:0" in out and "sandbox:x:1000" in out,
           "it can be worked in", out)
        used = s.sbx("rm", "app")
        ok(used.returncode == 1 and "sandbox" in used.stderr and
           hex_[7:] in s.images(), "rm while it is used is refused", used)
        r = s.add(tar(f("other")), "app")
        ok(r.returncode == 0 and sh(c, box, "tool").startswith("tool of"),
           "its name moves to another image meanwhile", r)
        r = s.sbx("rm", hex_)
        ok(r.returncode == 1 and hex_[7:] in s.images(),
           "which does not make it free", r)
        for kind, text in TEXT.items():
            other, r = new(c, kind)
            if not ok(r["status"] == "ok", f"a sandbox of the image with "
                      f"{kind} mount points", r):
                continue
            out = sh(c, other, "touch /tmp/t /workspace/w ~/h /dev/shm/s && "
                     "echo written; ls -d /proc/self /dev/null; "
                     "cat /etc/hostname; ls /etc /dev /tmp; ls -ld / /etc "
                     "/dev /proc /tmp /home /workspace /sys")
            ok("written" in out and "/proc/self\n" in out and
               "/dev/null\n" in out and other in out and
               "->" not in out and "image" not in out.split(),
               "uses our directories, never the links", out)
            c.call("sandbox_stop", container_id=other)
        c.call("sandbox_stop", container_id=box)
        r = c.wait_for(lambda: s.sbx("rm", hex_).returncode == 0)
        ok(r and hex_[7:] not in s.images(), "rm when the last has ended", r)
        box, r = new(c, hex_)
        ok(box is None and r["status"] != "ok", "then it is no image", r)
        # what the store held is as it was
        for kind in TEXT:
            hex_ = json.loads(s.sbx("inspect", kind).stdout)["digest"][7:]
            again = s.sbx("import", f"{s.dir}/{hex_}/rootfs")
            ok(digest(again) == "sha256:" + hex_,
               f"the image with {kind} ones is unchanged", again)


def main():
    global s
    base = tempfile.mkdtemp(prefix="sbx-import-")
    parts = (kinds, dockers, config, others, names, dropped, layers, cut, store,
             sandboxes)
    try:
        for part in parts:
            if len(sys.argv) > 1 and part.__name__ not in sys.argv[1:]:
                continue
            print("#", part.__name__, flush=True)
            s = Store(tempfile.mkdtemp(dir=base))
            os.chmod(base, 0o755)
            part()
    finally:
        mcp.remove(base)
    tap.done()
    return 1 if tap.bad else 0


sys.exit(main())
