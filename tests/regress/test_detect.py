#!/usr/bin/env python3
"""Which image a sandbox gets that names none: a real suite with a store made
by hand and a project that changes, then sbxd among fakes that lie or say
nothing.  Nothing that goes wrong may be an error: it is `host`, and why."""
import os
import pwd
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
ROOT = os.getuid() == 0
DIRS = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777,
        "run": 0o755, "workspace": 0o755, "home": 0o755,
        "home/sandbox": 0o755, "etc": 0o755}
FILES = {"etc/passwd": "sandbox:x:1000:1000::/home/sandbox:/bin/sh\n",
         "etc/group": "sandbox:x:1000:\n", "etc/hosts": "",
         "etc/hostname": "", "etc/resolv.conf": ""}
HEX = "1d" * 32
NONE = "no file at the top"


def own(top):
    if not ROOT:
        return
    pw = pwd.getpwnam("sbxd")
    for base, dirs, files in os.walk(top):
        for n in ["."] + dirs + files:
            os.lchown(os.path.join(base, n), pw.pw_uid, pw.pw_gid)


class Store:
    """STATE/images with one image of nothing, called whatever is wanted."""

    def __init__(self, root):
        self.dir = root + "/state/images"
        top = os.path.join(self.dir, HEX)
        os.makedirs(top + "/rootfs")
        for d, mode in DIRS.items():
            os.makedirs(f"{top}/skel/{d}")
            os.chmod(f"{top}/skel/{d}", mode)
        for f, text in FILES.items():
            with open(f"{top}/skel/{f}", "w") as out:
                out.write(text)
        with open(top + "/config", "w") as out:
            out.write("sbx-image 1\n")
        open(top + "/lock", "w").close()
        own(self.dir)

    def names(self, *names, digest=HEX):
        with open(self.dir + "/names", "w") as out:
            for n in names:
                out.write(f"{n} sha256:{digest}\n")
        own(self.dir)


def project(top, *names):
    """top holds exactly these; NAME/ a directory, NAME@ a link, NAME| a pipe"""
    for n in os.listdir(top):
        p = os.path.join(top, n)
        shutil.rmtree(p) if os.path.isdir(p) and not os.path.islink(p) \
            else os.unlink(p)
    for n in names:
        p = os.path.join(top, n.rstrip("/@|"))
        if n.endswith("/"):
            os.makedirs(p)
        elif n.endswith("@"):
            os.symlink("/etc/hostname", p)
        elif n.endswith("|"):
            os.mkfifo(p)
        else:
            os.makedirs(os.path.dirname(p), exist_ok=True)
            open(p, "w").close()


def init(s, **arguments):
    r = s.call("sandbox_initialize", **arguments)
    if r["status"] == "ok":
        s.call("sandbox_stop", container_id=r["container_id"])
    return r


def expect(s, image, *words, text, ask_for=None):
    r = init(s, **({"image": ask_for} if ask_for else {}))
    why = r.get("image_reason")
    if words == (None,):
        good = why is None
    else:
        good = isinstance(why, str) and all(w in why for w in words)
    ok(r["status"] == "ok" and r["image"] == image and good, text, r)
    return r


CASES = (
    # files, image, words of the reason
    ((), "host", (NONE, "no image full: host")),
    (("README", "src/go.mod"), "host", (NONE,)),
    (("go.mod",), "go", ("go.mod is there: go",)),
    (("pyproject.toml",), "python", ("pyproject.toml is there: python",)),
    (("setup.py",), "python", ("setup.py",)),
    (("requirements-dev.txt",), "python", ("requirements*.txt",)),
    (("Pipfile", "tox.ini"), "python", ("Pipfile",)),
    (("requirements.txt.bak",), "host", (NONE,)),
    (("package.json",), "host", ("the store has no image js",
                                 "contrib/images/build js", ": host")),
    (("tsconfig.json",), "host", ("tsconfig.json is there, but",)),
    (("Cargo.toml",), "host", ("Containerfile.rust",)),
    (("CMakeLists.txt",), "host", ("for which no image is made",)),
    (("pom.xml",), "host", ("for which no image is made",)),
    (("go.mod", "package.json"), "host",
     ("package.json and go.mod are there, of several languages",
      "no image full: host")),
    (("go.mod", "CMakeLists.txt"), "host", ("several",)),
    (("setup.py", "go.mod", "package.json", "Cargo.toml"), "host",
     ("setup.py, package.json, go.mod are there",)),
    # not a regular file: counts for nothing, and is not opened
    (("go.mod@",), "host", (NONE,)),
    (("go.mod/",), "host", (NONE,)),
    (("go.mod|",), "host", (NONE,)),
)


def test_suite():
    base = tempfile.mkdtemp(prefix="sbx-detect-")
    os.chmod(base, 0o755)
    top, root = base + "/project", base + "/suite"
    os.mkdir(top)
    os.mkdir(root)
    if not ROOT:
        os.chmod(root, 0o700)
    try:
        with mcp.Suite(copy_root=top, root=root) as s:
            run_suite(s, Store(root), top)
    finally:
        mcp.remove(base)


def run_suite(s, store, top):
    project(top, "pyproject.toml")
    expect(s, "host", "pyproject.toml is there, but the store has no image "
           "python (contrib/images/build python makes it): host",
           text="no names at all")
    store.names("python", "go")
    for files, image, words in CASES:
        project(top, *files)
        expect(s, image, *words, text=" ".join(files) or "an empty project")
    project(top, "go.mod")
    r = init(s)
    ok(r["image_digest"] == "sha256:" + HEX, "it is the store's", r)
    expect(s, "host", None, text="a named image has no reason", ask_for="host")
    expect(s, "go", "go.mod", text="auto is as good as none", ask_for="auto")
    store.names("full")
    for files, words in (
            (("go.mod",), ("no image go", "build go makes it): full")),
            (("go.mod", "package.json"), ("several languages: full",)),
            (("pom.xml",), ("no image is made: full",)),
            ((), (NONE, ": full"))):
        project(top, *files)
        expect(s, "full", *words, text="full: " + " ".join(files))
    store.names("full", "go", digest="2e" * 32)
    project(top, "go.mod")
    expect(s, "host", "no image go", text="a name without its image")
    with open(store.dir + "/names", "w") as out:
        out.write("go sha256:../../..\n")
    expect(s, "host", "no image go", text="a names file that is none")
    project(top)
    os.mkdir(top + "/many")
    for i in range(100001):
        os.close(os.open(f"{top}/{i}", os.O_CREAT | os.O_WRONLY, 0o600))
    expect(s, "host", "could not be looked at", "entries",
           text="a directory without end")
    project(top, "go.mod")
    if ROOT:
        tap.absent("root may read it", "an unreadable directory")
    else:
        os.chmod(top, 0)
        expect(s, "host", "could not be looked at",
               text="an unreadable directory")
        os.chmod(top, 0o700)
    r = s.call("run_container_and_exec", commands=["true"], image="auto")
    ok(r["status"] == "ok" and r["image"] == "host" and
       "no image go" in r["image_reason"], "run_container_and_exec says it", r)
    found = [r for r in s.journal() if r["op"] == "sandbox_create" and
             r["phase"] == "start"]
    text = str(found)
    ok("go.mod is there: go" in text and "several languages" in text,
       "the journal says the choice", found[:2])


def test_default():
    with tempfile.TemporaryDirectory(prefix="sbx-detect-") as top, \
            mcp.Suite(copy_root=top, conf="default_image host\n") as s:
        os.chmod(top, 0o755)
        project(top, "go.mod")
        expect(s, "host", "default_image", text="default_image decides")
        expect(s, "host", "no image go", text="unless auto is asked for",
               ask_for="auto")


# --- among fakes ---------------------------------------------------------------

def ask(h, handle, **values):
    """a worker that asks for a sandbox, and the START of the reader"""
    w = h.begin(handle, "sandbox_initialize")
    have = len(h.named("COPYIN_START"))
    values = dict({"image": "", "name": "", "label": "", "snapshot": ""},
                  **values)
    w.send("SB_CREATE", 77, **values)
    if h.wait(lambda: h.named("COPYIN_START")[have:], 1):
        h.peers["copyin"].send("HELLO", version="0.1.0")
    return w, h.named("COPYIN_START")[have:]


def created(h, have, timeout=4):
    h.wait(lambda: h.named("SANDBOX_CREATE")[have:], timeout)
    return (h.named("SANDBOX_CREATE")[have:] or [{"image": None}])[0]


def reason(h):
    r = [r for r in h.records if r["op"] == "sandbox_create"]
    return str(r[-1]) if r else ""


def test_fakes():
    top = tempfile.mkdtemp(prefix="sbx-detect-")
    r, _w = os.pipe()
    answers = []
    try:
        with fakehub.Hub("--transport", "stdio", "--copy-root", top,
                         stdin=r) as h:
            h.on_IMAGE_FIND = lambda p, m: answers and p.send(
                "IMAGE_FOUND", m.id, name=answers.pop(0))
            run_fakes(h, answers, top)
    finally:
        os.rmdir(top)


def run_fakes(h, answers, top):
    handle = h.wait(lambda: h.named("FRONT_STDIO"))[0]["principal"]
    have = len(h.named("SANDBOX_CREATE"))
    _w, start = ask(h, handle)
    ok(start and start[0]["mode"] == 3 and start[0]["uid"] == h.uid and
       all(os.path.samestat(os.fstat(f), os.stat(top)) for f in start[0].fds),
       "the reader gets the root and the client's uid, nothing else", start)
    c = h.peers["copyin"]
    answers.append("go")
    c.send("COPYIN_MARKERS", found=1 << 7)
    c.send("COPYIN_DONE")
    ok(created(h, have)["image"] == "go", "found and there", reason(h))

    def one(found, answer, image, words, text, **done):
        have = len(h.named("SANDBOX_CREATE"))
        ask(h, handle)
        if answer is not None:
            answers.append(answer)
        c = h.peers["copyin"]
        if found is not None:
            c.send("COPYIN_MARKERS", found=found)
        c.send("COPYIN_DONE", **done)
        m = created(h, have)
        ok(m["image"] == image and words in reason(h), text,
           (m, reason(h)))
        h.settle()
    one(1 << 31, "", "host", NONE, "bits of no row mean nothing")
    one(None, "", "host", NONE, "no MARKERS: none found")
    one(1 << 7, "../../etc", "host", "no image go",
        "the engine cannot name another than asked for")
    one(1 << 7, "python", "host", "no image go", "also not one of ours")
    one(None, None, "host", "not be looked at (no)", "a look that fails",
        error=13, reason="no")
    silent(h, handle)
    two(h, handle, answers)


def silent(h, handle):
    have = len(h.named("SANDBOX_CREATE"))
    began = time.monotonic()
    ask(h, handle)
    m = created(h, have)
    took = time.monotonic() - began
    ok(m["image"] == "host" and "more than 2 s" in reason(h) and
       1.9 < took < 3.5, "a reader that says nothing has 2 s",
       (m, took, reason(h)))
    ok(h.wait(lambda: h.named("START_KILL")), "and is ended")
    have = len(h.named("SANDBOX_CREATE"))
    ask(h, handle)
    h.kill("copyin")
    ok(created(h, have)["image"] == "host" and "ended early" in reason(h),
       "a reader that dies", reason(h))
    have = len(h.named("SANDBOX_CREATE"))
    began = time.monotonic()
    ask(h, handle)
    h.peers["copyin"].send("COPYIN_DONE")
    m = created(h, have)
    ok(m["image"] == "host" and "did not say" in reason(h) and
       time.monotonic() - began < 4, "an engine that says nothing",
       (m, reason(h)))


def two(h, handle, answers):
    have = len(h.named("SANDBOX_CREATE"))
    w, _s = ask(h, handle)
    c = h.peers["copyin"]
    c.send("COPYIN_MARKERS", found=1)
    c.send("COPYIN_MARKERS", found=2)
    ok(created(h, have)["image"] == "host" and h.wait(lambda: not c.open),
       "MARKERS come once", reason(h))
    have = len(h.named("SANDBOX_CREATE"))
    w, _s = ask(h, handle)
    c = h.peers["copyin"]
    h.kill_worker(w)
    h.wait(lambda: not c.open, 2)
    h.settle(0.5)
    ok(not h.named("SANDBOX_CREATE")[have:], "nobody waits: nothing is made")
    have = len(h.named("SANDBOX_CREATE"))
    answers.append("")
    w, start = ask(h, handle, image="host")
    ok(created(h, have)["image"] == "host" and not start,
       "a named image is not looked for", start)


test_suite()
test_default()
test_fakes()
tap.done()
sys.exit(1 if tap.bad else 0)
