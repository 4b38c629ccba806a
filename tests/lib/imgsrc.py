"""Sources of images, made byte by byte, and a store to import them into."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

import mcp

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
OTHER = "s390x"


# --- making archives ---------------------------------------------------------

def member(name, kind=tarfile.REGTYPE, data=b"", mode=None, link="", pax=None):
    t = tarfile.TarInfo(name)
    t.type, t.linkname, t.size = kind, link, len(data)
    t.mode = mode if mode is not None else (
        0o755 if kind == tarfile.DIRTYPE else 0o644)
    t.pax_headers = pax or {}
    return t, data


def f(name, data=b"x", **kw):
    return member(name, data=data, **kw)


def d(name, **kw):
    return member(name, tarfile.DIRTYPE, **kw)


def sym(name, link):
    return member(name, tarfile.SYMTYPE, link=link)


def hard(name, link):
    return member(name, tarfile.LNKTYPE, link=link)


def tar(*members, fmt=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for info, data in members:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def header(name, size, typeflag=b"0", link=b""):
    """One by hand: what tarfile would not write.  size: 12 bytes."""
    h = bytearray(512)
    h[:len(name)] = name
    h[100:108], h[108:116], h[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    h[124:136], h[136:148], h[148:156] = size, b"00000000000\0", b" " * 8
    h[156:157], h[157:157 + len(link)] = typeflag, link
    h[257:265] = b"ustar\x0000"
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Oci:
    """An image layout: {path: bytes}, to be spoilt by the test."""

    def __init__(self, *layers, config=None, pack=gzip.compress, ids=None,
                 arch=ARCH, platform=True):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        self.config = {
            "architecture": arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": ids if ids is not None
                       else ["sha256:" + sha(x) for x in layers]}}
        c = self.blob(json.dumps(self.config).encode())
        self.manifest = {"schemaVersion": 2, "config": c, "layers": [
            self.blob(pack(x)) for x in layers]}
        self.descriptor = self.blob(json.dumps(self.manifest).encode())
        if platform:
            self.descriptor["platform"] = {"os": "linux",
                                           "architecture": arch}
        self.index(self.descriptor)

    def blob(self, data):
        self.files["blobs/sha256/" + sha(data)] = data
        return {"digest": "sha256:" + sha(data), "size": len(data),
                "mediaType": "application/octet-stream"}

    def index(self, *descriptors):
        self.files["index.json"] = json.dumps({
            "schemaVersion": 2, "manifests": list(descriptors)}).encode()
        return self

    def tar(self, *more):
        return tar(*[f(p, data) for p, data in self.files.items()], *more)

    def save(self, top):
        for path, data in self.files.items():
            os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
            with open(f"{top}/{path}", "wb") as out:
                out.write(data)
        return top


def docker(*layers, config=None, names=None, ids=None, more=(), paths=None,
           arch=ARCH, images=1):
    """What `docker save` wrote before it wrote layouts."""
    paths = paths or [f"{i}/layer.tar" for i in range(len(layers))]
    c = json.dumps({"architecture": arch, "os": "linux",
                    "config": config or {}, "rootfs": {
                        "type": "layers",
                        "diff_ids": ids or ["sha256:" + sha(x)
                                            for x in layers]}}).encode()
    m = [{"Config": sha(c) + ".json", "RepoTags": names, "Layers": paths}]
    return tar(f(sha(c) + ".json", c), *more,
               *[f(p, x) for p, x in zip(paths, layers)],
               f("manifest.json", json.dumps(m * images).encode()))


# --- a store -----------------------------------------------------------------

class Store:
    def __init__(self, base):
        self.base, self.root = base, base + "/root"
        os.mkdir(self.root)
        self.env = {"PATH": os.environ["PATH"], "SBX_ROOT": self.root,
                    "HOME": base}
        self.dir = self.root + "/state/images"
        self.canary = base + "/canary"
        os.mkdir(self.canary, 0o755)
        with open(self.canary + "/passwd", "w") as out:
            out.write("canary:x:0:0::/:/bin/sh\n")
        # writable for whoever is lured here
        os.chmod(self.canary, 0o777)
        os.chmod(self.canary + "/passwd", 0o666)
        os.chmod(base, 0o755)

    def sbx(self, *words, data=None, timeout=120):
        r = subprocess.run([mcp.BUILD + "/sbx", "image", *words],
                           input=data, capture_output=True, env=self.env,
                           timeout=timeout)
        r.stdout = r.stdout.decode("utf-8", "replace")
        # a build with sanitizers says so each time
        r.stderr = "".join(
            x for x in r.stderr.decode("utf-8", "replace").splitlines(True)
            if not x.startswith("warning: built with sanitizers"))
        return r

    def add(self, source, *names):
        """Import bytes or a path."""
        words = [w for n in names for w in ("--name", n)]
        if isinstance(source, str):
            return self.sbx("import", *words, source)
        path = self.base + "/source"
        with open(path, "wb") as out:
            out.write(source)
        return self.sbx("import", *words, path)

    def images(self):
        return sorted(n for n in os.listdir(self.dir) if len(n) == 64) \
            if os.path.isdir(self.dir) else []

    def staging(self):
        return [n for n in os.listdir(self.dir) if n.startswith("tmp.")]

    def host_is_whole(self):
        with open(self.canary + "/passwd") as text:
            return os.listdir(self.canary) == ["passwd"] and \
                text.read() == "canary:x:0:0::/:/bin/sh\n"

    def clear(self):
        for hex_ in self.images():
            r = self.sbx("rm", hex_)
            if r.returncode != 0:
                for n in json.loads(self.sbx("inspect", hex_).stdout)["names"]:
                    self.sbx("rm", n)


# --- what a sandbox can be made of -------------------------------------------

PROGRAMS = ("bash", "sh", "cat", "ls", "env", "id", "touch", "readlink", "sleep")


def programs(names=PROGRAMS):
    """{path in the image: file of this machine}: a few, and what they load"""
    out = {}
    for name in names:
        real = os.path.realpath(shutil.which(name, path="/usr/bin:/bin"))
        out["usr/bin/" + name] = real
        ldd = subprocess.run(["ldd", real], stdout=subprocess.PIPE, text=True)
        for word in ldd.stdout.split():
            if word.startswith("/"):
                out[word.lstrip("/")] = os.path.realpath(word)
    return out


def rootfs(*more, names=PROGRAMS):
    """members of a tar that has a shell"""
    out = [sym("bin", "usr/bin")]
    for path, source in programs(names).items():
        with open(source, "rb") as data:
            out.append(f(path, data.read(), mode=0o755))
    return out + list(more)


def small(suite, name, *names):
    """An image of a shell and a few programs in a suite's store: False when
    it cannot be imported."""
    path = suite.root + "/" + name + ".tar"
    with open(path, "wb") as out:
        out.write(tar(*rootfs(names=PROGRAMS + names)))
    r = suite.sbx("image", "import", "--name", name, path)
    os.unlink(path)
    return r.returncode == 0
