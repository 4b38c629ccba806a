#!/usr/bin/env python3
"""How long it takes to import an image, beside what else unpacks it.

	bench_image.py [ROOTFS.tar]	(mmdebstrap --variant=minbase bookworm)

Without an argument a tree of the same kind is made: 9,000 files, 160 MB.
Prints JSON lines like bench.py.  Every sample goes to a fresh directory of
the same file system and ends with what it wrote on the disk, since an import
does that by itself: the rivals are followed by `sync -f`.  As layers it is an
OCI layout of one gzip layer; umoci unpacks it, skopeo copies it (and unpacks
nothing).  SBX_BENCH_RUNS: samples of each (5).
"""
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

BUILD = os.environ["SBX_BUILD"]
RUNS = int(os.environ.get("SBX_BENCH_RUNS", "5"))
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")


def report(name, samples, aim, rivals):
    for rival, others in rivals:
        print(json.dumps({
            "name": name, "unit": "s", "runs": len(samples), "aim": aim,
            "median": round(statistics.median(samples), 3),
            "p95": round(max(samples), 3), "rival": rival,
            "rival_median": round(statistics.median(others), 3),
            "ratio": round(statistics.median(samples) /
                           statistics.median(others), 2)}), flush=True)


def synthetic(path):
    """Sizes as a distribution has them: many small files, some large."""
    r = random.Random(1)
    words = [r.randbytes(r.randrange(2, 9)) for _ in range(4096)]
    with tarfile.open(path, "w") as t:
        for i in range(9000):
            size = int(r.paretovariate(0.7) * 900) % 2000000
            data = b"".join(r.choices(words, k=size // 6 + 1))[:size]
            info = tarfile.TarInfo(f"usr/d{i % 300}/f{i}")
            info.size, info.mode = len(data), 0o644
            t.addfile(info, io.BytesIO(data))


def layout(top, rootfs):
    """An OCI layout of the tar as one gzip layer."""
    blobs = top + "/blobs/sha256"
    os.makedirs(blobs)

    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{blobs}/{digest}", "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + digest, "size": len(data)}

    with open(rootfs, "rb") as f:
        data = f.read()
    kind = "application/vnd.oci.image."
    layer = put(gzip.compress(data, 6, mtime=0))
    layer["mediaType"] = kind + "layer.v1.tar+gzip"
    config = put(json.dumps({
        "architecture": ARCH, "os": "linux", "config": {}, "rootfs": {
            "type": "layers", "diff_ids": [
                "sha256:" + hashlib.sha256(data).hexdigest()]},
        "history": [{"created_by": "bench"}]}).encode())
    config["mediaType"] = kind + "config.v1+json"
    manifest = put(json.dumps({
        "schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
        "config": config, "layers": [layer]}).encode())
    manifest.update(mediaType=kind + "manifest.v1+json",
                    annotations={"org.opencontainers.image.ref.name": "b"})
    with open(top + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
    with open(top + "/oci-layout", "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')


class Bench:
    def __init__(self, base):
        self.base, self.n = base, 0

    def fresh(self):
        self.n += 1
        path = f"{self.base}/run{self.n}"
        os.mkdir(path)
        return path

    def once(self, make):
        """make(dir): a command line; its time, with what it wrote stored."""
        path = self.fresh()
        env, argv = make(path)
        os.sync()
        began = time.perf_counter()
        r = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
        if argv[0] != BUILD + "/sbx":
            subprocess.run(["sync", "-f", path], check=True)
        took = time.perf_counter() - began
        if r.returncode != 0:
            sys.exit(f"{' '.join(argv)}: {r.stderr}")
        subprocess.run(["chmod", "-R", "u+rwX", path])
        shutil.rmtree(path)
        return took

    def interleaved(self, *makes):
        """One of each in turn, so that all meet the same machine."""
        out = [[] for _ in makes]
        for _ in range(RUNS):
            for i, make in enumerate(makes):
                out[i].append(self.once(make))
        return out


def sbx(source):
    return lambda path: (dict(os.environ, SBX_ROOT=path), [
        BUILD + "/sbx", "image", "import", source])


def command(*words):
    return lambda path: (dict(os.environ), [
        w.replace("@", path) for w in words])


def main():
    base = tempfile.mkdtemp(prefix="sbx-bench-image-", dir=os.environ.get(
        "TMPDIR", "/var/tmp"))
    try:
        b, rootfs = Bench(base), base + "/rootfs.tar"
        if len(sys.argv) > 1:
            shutil.copy(sys.argv[1], rootfs)
        else:
            synthetic(rootfs)
        with open(rootfs, "rb") as f, gzip.open(rootfs + ".gz", "wb", 6) as z:
            shutil.copyfileobj(f, z)
        layout(base + "/oci", rootfs)
        root = os.geteuid() == 0
        for name, source in (("image import, tar", rootfs),
                             ("image import, tar.gz", rootfs + ".gz")):
            ours, theirs = b.interleaved(
                sbx(source), command("tar", "-C", "@", "-xf", source))
            report(name, ours, "2x tar, which hashes nothing",
                   [("tar -x", theirs)])
        rivals = [("umoci unpack", command(
            "umoci", "unpack", *([] if root else ["--rootless"]), "--image",
            base + "/oci:b", "@/bundle"))] if shutil.which("umoci") else []
        if shutil.which("skopeo"):
            rivals.append(("skopeo copy", command(
                "skopeo", "copy", "--quiet", "--insecure-policy",
                f"oci:{base}/oci:b", "oci:@/copy:b")))
        if not rivals:
            rivals = [("tar -x of the layer", command(
                "tar", "-C", "@", "-xf", rootfs + ".gz"))]
        ours, *theirs = b.interleaved(sbx(base + "/oci"),
                                      *[m for _, m in rivals])
        report("image import, OCI layout", ours, "1x umoci",
               [(n, t) for (n, _), t in zip(rivals, theirs)])
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", base])
        shutil.rmtree(base, ignore_errors=True)


main()
