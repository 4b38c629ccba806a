#!/usr/bin/env python3
"""sbxd-copyin, driven as the monitor does; the test reads its stream.

No secret stands here: those that must be refused are put together when the
test runs, from pieces that look like nothing.
"""
import errno
import os
import pwd
import random
import shutil
import socket
import stat
import string
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

PROGRAM = os.environ["SBX_BUILD"] + "/sbxd-copyin"
NAMES, LIST, FILE = 0, 1, 2             # enum sbx_copy_mode
END, T_FILE, LINK, DIR = 0, 1, 2, 3     # enum sbx_copy_type
MIB = 1 << 20
ROOT = os.geteuid() == 0
RNG = random.Random(20)


def letters(n):
    return "".join(RNG.choices(string.ascii_letters + string.digits, k=n))


def token():
    return "ghp" + "_" + letters(36)


def private_key():
    rule, what = "-" * 5, "RSA PRIVATE" + " KEY"
    body = "\n".join(letters(64) for _ in range(8))
    return f"{rule}BEGIN {what}{rule}\n{body}\n{rule}END {what}{rule}\n"


def records(raw):
    """([(type, mode, path, data)], did it end well?)"""
    out, pos = [], 0
    while pos + 13 <= len(raw):
        kind = raw[pos]
        mode, n = (int.from_bytes(raw[pos + i:pos + i + 2], "big")
                   for i in (1, 3))
        size = int.from_bytes(raw[pos + 5:pos + 13], "big")
        path = raw[pos + 13:pos + 13 + n]
        data = raw[pos + 13 + n:pos + 13 + n + size]
        pos += 13 + n + size
        if kind == END:
            return out, pos == len(raw) and not path and not data
        out.append((kind, mode, path, data))
    return out, False


class Result:
    """What one copy came to: .files .links .dirs by path, .done, .report"""

    def __init__(self, raw, done, report, status):
        self.raw, self.done, self.report_raw, self.status = \
            raw, done, report, status
        found, self.whole = records(raw)
        self.count = len(found)
        self.files = {p: d for k, _, p, d in found if k == T_FILE}
        self.modes = {p: m & 0o777 for k, m, p, _ in found if k == T_FILE}
        self.links = {p: d for k, _, p, d in found if k == LINK}
        self.dirs = {p for k, _, p, _ in found if k == DIR}
        self.report = {}
        for line in report.split(b"\0")[:-1]:
            why, path = line.split(b"\t", 1)
            self.report[path] = why.decode()

    @property
    def good(self):
        return self.whole and self.done["error"] == 0 and self.status == 0

    def __repr__(self):
        return (f"whole={self.whole} done={self.done!r} "
                f"report={self.report!r} files={list(self.files)[:30]!r}")


class Copy:
    """One sbxd-copyin, up to its HELLO; what it writes is read by .finish()"""

    def __init__(self, src, mode, source="", listed=(), user=None, uid=None,
                 gid=None, list_fd=None):
        popen = {}
        if user is not None:
            popen = {"user": user.pw_uid, "group": user.pw_gid,
                     "extra_groups": []}
            uid, gid = user.pw_uid, user.pw_gid
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(PROGRAM, theirs, stdin=subprocess.DEVNULL,
                              **popen)
        self.chan = ipc.Chan(mine)
        self.out, wr = os.pipe()
        self.report = os.memfd_create("report", os.MFD_CLOEXEC)
        if list_fd is None:
            list_fd = ipc.memfd(b"".join(os.fsencode(p) + b"\0"
                                         for p in listed))
        fds = [os.open(src, os.O_RDONLY | os.O_DIRECTORY), list_fd, wr,
               self.report]
        self.chan.send("COPYIN_START", 0, fds, mode=mode, source=source,
                       uid=os.geteuid() if uid is None else uid,
                       gid=os.getegid() if gid is None else gid)
        for fd in fds[:3]:
            os.close(fd)
        self.chan.recv(want="HELLO", timeout=10)

    def drain(self):
        parts = []
        while True:
            b = os.read(self.out, MIB)
            if not b:
                return b"".join(parts)
            parts.append(b)

    def finish(self, read=True):
        raw = self.drain() if read else b""
        done = self.chan.recv(want="COPYIN_DONE", timeout=20)
        status = self.proc.wait(10)
        result = Result(raw, done, ipc.read_fd(self.report), status)
        os.close(self.out)
        os.close(self.report)
        self.chan.close()
        return result


def copy(src, mode, source="", listed=(), **kw):
    return Copy(src, mode, source, listed, **kw).finish()


def put(root, path, data=b"", mode=0o644):
    where = os.path.join(os.fsencode(root), os.fsencode(path))
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)
    os.chmod(where, mode)


class Tree:
    """A source directory beside a directory that must stay unread"""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="sbx-copyin.")
        os.chmod(self.top, 0o755)
        self.root = self.top + "/src"
        os.mkdir(self.root)
        self.outside = b"outside-" + letters(20).encode()
        put(self.top, "outside/secret", self.outside)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def put(self, *a, **kw):
        put(self.root, *a, **kw)

    def link(self, target, path):
        os.symlink(target, self.root + "/" + path)


# --- what is copied -----------------------------------------------------------

def plain(tap):
    odd = b"d/\xff\xfe name\n\t'\""
    every = bytes(range(256)) * 5000        # > 1 MiB: not held in memory
    with Tree() as t:
        t.put("a", "text\n")
        t.put("empty")
        t.put("run.sh", "#!/bin/sh\n", mode=0o755)
        t.put("private", "x", mode=0o600)
        t.put("big", every)
        t.put("edge", b"e" * MIB)
        t.put("deep/er/file", "deep")
        t.put(odd, "odd")
        want = {b"a": b"text\n", b"empty": b"", b"run.sh": b"#!/bin/sh\n",
                b"private": b"x", b"big": every, b"edge": b"e" * MIB,
                b"deep/er/file": b"deep", odd: b"odd"}
        r = copy(t.root, LIST, listed=list(want))
        tap.ok(r.good and r.files == want, "LIST: files, byte for byte", r)
        tap.ok({p for p, m in r.modes.items() if m & 0o111} == {b"run.sh"},
               "and which of them are executable", r.modes)
        tap.ok(r.done["files"] == len(want) and r.done["refused"] == 0 and
               r.done["bytes"] == sum(map(len, want.values())),
               "and counts them", r.done)
        r = copy(t.root, LIST, "deep", listed=["er/file"])
        tap.ok(r.good and r.files == {b"er/file": b"deep"},
               "LIST below a directory of the root", r)
        r = copy(t.root, LIST, t.root + "/deep", listed=["er/file"])
        tap.ok(r.good and r.files == {b"er/file": b"deep"},
               "which may be named by its path on the host", r)
        r = copy(t.root, LIST)
        tap.ok(r.good and r.count == 0, "LIST of nothing", r)
        for name, path in (("a", "a"), ("deep/er/file", "file")):
            r = copy(t.root, FILE, name)
            tap.ok(r.good and r.files == {os.fsencode(path):
                                          want[os.fsencode(name)]},
                   f"FILE: {name} by its last name", r)


def names(tap):
    with Tree() as t:
        secret = token()
        t.put("a", "content")
        t.put(".env", secret)
        t.put("d/.gitignore", "*.o\n")
        t.put(".gitignore", "build\n")
        t.put(".git/index", b"DIRC")
        t.put(".git/info/exclude", "local\n")
        t.put(".git/config", "[remote \"o\"]\nurl = x\n")
        t.put("sub/.git/index", b"other")
        t.put("sub/f", "x")
        t.link("a", "l")
        os.mkdir(t.root + "/void")
        os.mkfifo(t.root + "/fifo")
        r = copy(t.root, NAMES)
        tap.ok(r.good and set(r.files) | set(r.links) >=
               {b"a", b".env", b"d/.gitignore", b".gitignore", b".git/index",
                b"sub/f", b"l"} and {b"d", b"sub", b"void", b".git"} <= r.dirs,
               "NAMES: every name", r)
        tap.ok({p for p, d in r.files.items() if d} ==
               {b"d/.gitignore", b".gitignore", b".git/index",
                b".git/info/exclude"},
               "NAMES: the content of what git lists by, and of nothing else",
               r.files)
        tap.ok(not [p for p in r.files if b"sub/.git" in p or b"config" in p],
               "NAMES: no other repository, no configuration", r)
    with Tree() as t:
        t.put(".git", "gitdir: /elsewhere\n")
        r = copy(t.root, NAMES)
        tap.ok(r.good and r.files == {b".git": b""},
               "NAMES: a .git file is a name", r)


# --- what is not --------------------------------------------------------------

def links(tap):
    with Tree() as t:
        t.put("d/f", "x")
        kept = {"l1": "d/f", "d/l2": "../d/f", "l3": "missing", "l4": "d",
                "d/l5": ".."}
        left = {"o1": "../outside/secret", "o2": "/etc/passwd",
                "d/o3": "../../outside/secret", "o4": "d/../../outside",
                "o5": "..", "o6": "l4/../../outside"}
        for path, target in {**kept, **left}.items():
            t.link(target, path)
        r = copy(t.root, LIST, listed=[*kept, *left])
        tap.ok(r.good and r.links == {os.fsencode(k): os.fsencode(v)
                                      for k, v in kept.items()},
               "links within the source stay links, as text", r)
        tap.ok(set(r.report) == {os.fsencode(p) for p in left} and
               r.done["refused"] == len(left), "others are named", r.report)
        t.link("../outside", "way")
        t.link("d", "inner")
        paths = ["way/secret", "inner/f", "../outside/secret",
                 "d/../../outside/secret", "/etc/hostname",
                 t.top + "/outside/secret", "", ".", "..", "d//f", "d/", "./d"]
        r = copy(t.root, LIST, listed=paths)
        tap.ok(r.good and r.count == 0 and r.done["refused"] == len(paths),
               "a hostile list: .., absolute, through a link", r)
        tap.ok(t.outside not in r.raw, "nothing from outside")
        for source in ("way/secret", "../outside/secret", "/etc/hostname",
                       t.top + "/outside/secret", t.root + "/../outside/secret",
                       t.root + "x", "l1", "o1", "missing", "d", "", "."):
            r = copy(t.root, FILE, source)
            tap.ok(r.done["error"] != 0 and r.done["reason"] and
                   r.count == 0 and not r.whole, f"FILE: not {source!r}", r)
        for source in ("way", "inner", "..", "/", "/etc", "missing", "l1",
                       "d/f"):
            for mode in (NAMES, LIST):
                r = copy(t.root, mode, source, listed=["f", "secret"])
                tap.ok(r.done["error"] != 0 and r.raw == b"",
                       f"mode {mode}: no source {source!r}", r)


def special(tap):
    with Tree() as t:
        t.put("f", "x")
        os.mkfifo(t.root + "/fifo")
        s = socket.socket(socket.AF_UNIX)
        s.bind(t.root + "/sock")
        listed = ["fifo", "sock", "gone", "dir"]
        os.mkdir(t.root + "/dir")
        try:
            os.mknod(t.root + "/null", stat.S_IFCHR | 0o666,
                     os.makedev(1, 3))
            listed.append("null")
        except PermissionError:
            tap.absent("only root may mknod", "a device")
        r = copy(t.root, LIST, listed=["f", *listed])
        tap.ok(r.good and r.files == {b"f": b"x"} and
               set(r.report) == {os.fsencode(p) for p in listed},
               "fifo, socket, device, directory: skipped and named", r)
        for name in listed:
            r = copy(t.root, FILE, name)
            tap.ok(r.done["error"] != 0 and r.count == 0,
                   f"FILE: no {name}", r)
        s.close()


def secrets(tap):
    tok, key = token(), private_key()
    by_name = [".env", ".env.local", "prod.env", ".netrc", "id_rsa",
               ".git-credentials", "a/.ssh/config", ".aws/credentials",
               "b/.kube/config", "x.p12", "ID_RSA", ".Env"]
    content = {"server.pem": key, "tls.key": key, "main.py": f"t = '{tok}'\n",
               ".env.example": f"TOKEN={tok}\n", "d/notes": "x\n" * 250000 + tok,
               ".npmrc": f"//r.example/:_authToken={letters(40)}\n",
               "binary": b"\0\xff" + tok.encode() + b"\0"}
    kept = {"cert.pem": "not a key\n", ".env.template": "TOKEN=\n",
            ".env.sample": "TOKEN=changeme\n", "id_rsa.pub": "ssh-rsa AA\n",
            ".npmrc.dist": "x\n", "env": "x\n", "environment.py": "x\n",
            "src/token.c": "int token = next_token();\n", "notes": "ghp_\n"}
    with Tree() as t:
        for p in by_name:
            t.put(p, "S3=" + tok)
        for p, d in {**content, **kept}.items():
            t.put(p, d)
        r = copy(t.root, LIST, listed=[*by_name, *content, *kept])
        refused = {os.fsencode(p) for p in [*by_name, *content]}
        tap.ok(set(r.report) == refused and
               r.done["refused"] == len(refused),
               "secrets by name and content are refused and named",
               set(r.report) ^ refused)
        tap.ok(r.good and r.files == {os.fsencode(k): v.encode()
                                      for k, v in kept.items()},
               "templates and ordinary files are kept", r)
        everything = r.raw + r.report_raw + r.done["reason"].encode()
        tap.ok(tok.encode() not in everything and
               key.split("\n")[1].encode() not in everything,
               "no secret in the stream or the report")
        tap.ok(all(w.startswith("refused: ") for w in r.report.values()),
               "the report says why", r.report)
        for p in (".env", "main.py", "a/.ssh/config", "b/.kube/config"):
            r = copy(t.root, FILE, p)
            tap.ok(r.done["error"] == errno.EACCES and r.count == 0 and
                   r.done["refused"] == 1, f"FILE: {p} is refused", r)
        t.put("a/.ssh/config", "Host h\n")
        r = copy(t.root, LIST, "a/.ssh", listed=["config"])
        tap.ok(r.done["refused"] == 1 and r.count == 0,
               "a source within .ssh changes nothing", r)
        r = copy(t.root, FILE, "a/.ssh/config")
        tap.ok(r.done["error"] != 0 and r.count == 0, "nor does FILE", r)


# --- .git ---------------------------------------------------------------------

CONFIG = """\
\ufeff# [comment]
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\thooksPath = /host/hooks
\tfsmonitor = "evil --now"
\tsshCommand = ssh -i /host/key
\tpager = evil
\tattributesFile = /host/attributes
\tworktree = /host/tree
[include]
\tpath = /host/config
[includeIf "gitdir:/"]
\tpath = /host/other
[credential]
\thelper = store
[credential "https://h.example"]
\tusername = PASS
[http "https://h.example"]
\textraHeader = "X-Key: PASS"
[url "https://me:PASS@h.example/"]
\tinsteadOf = h:
[remote "origin"]
\turl = https://me:PASS@h.example/a/b.git ; comment
\tpushurl = ssh://git@h.example/a/b.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
\tproxy = http://me:PASS@proxy.example/
\tuploadpack = evil
[remote "other"]
\turl = https://me:\\
PASS@h.example/c.git
[remote "https://me:PASS@h.example/"]
\tfetch = x
[remote "third"] url = "https://h.example/d \\"e\\".git"
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[submodule "s"]
\turl = https://h.example/s.git
\tupdate = !evil
[alias]
\tco = !evil \\
[remote \\"fake\\"] \\
url = evil
[filter "x"]
\tclean = evil
\tsmudge = evil
[diff "x"]
\ttextconv = evil
[user]
\tname = "A # B"
\temail = a@example.org
\tsigningKey = evil
"""
WANT = {
    "core.repositoryformatversion": "0", "core.filemode": "true",
    "core.bare": "false", "remote.origin.url": "https://h.example/a/b.git",
    "remote.origin.pushurl": "ssh://git@h.example/a/b.git",
    "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    "remote.other.url": "https://h.example/c.git",
    "remote.third.url": "https://h.example/d \"e\".git",
    "branch.main.remote": "origin", "branch.main.merge": "refs/heads/main",
    "submodule.s.url": "https://h.example/s.git",
    "user.name": "A # B", "user.email": "a@example.org",
}


def as_git(top, text):
    """{key: value} as git reads it, None: it does not"""
    put(top, "as-git", text)
    p = subprocess.run(["git", "config", "-z", "--list", "-f",
                        top + "/as-git"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, cwd="/")
    if p.returncode:
        return None
    return dict((e.decode(errors="surrogateescape") + "\n").split("\n", 1)
                for e in p.stdout.split(b"\0")[:-1])


def listed_config(t, text):
    t.put(".git/config", text)
    r = copy(t.root, LIST, listed=[".git"])
    return r, r.files.get(b".git/config")


def config(tap):
    password = letters(24)
    with Tree() as t:
        r, got = listed_config(t, CONFIG.replace("PASS", password))
        tap.ok(r.good and got is not None and password.encode() not in r.raw
               and b"evil" not in got and b"/host" not in got,
               ".git/config: no credential, nothing to execute or read", got)
        if shutil.which("git") is None:
            tap.skip("no git", "as git reads it")
            return
        was = as_git(t.top, CONFIG.replace("PASS", password))
        tap.ok(was is not None and len(was) > len(WANT), "git reads the test's")
        have = {k: v.rstrip("\n") for k, v in as_git(t.top, got).items()}
        tap.ok(have == WANT, "and reads of ours what is kept", have)
        tok = token()
        for bad in (f"[user]\nname = {tok}\n", f"[branch \"{tok}\"]\nmerge=x\n",
                    f"[remote \"o\"]\nurl = https://{tok}@h.example/\n",
                    f"[remote \"o\"]\nurl = https://{tok}:x@h.example\n",
                    f"[remote \"o\"]\nurl=https://a@b:{tok}@h.example/p\n",
                    f"[user]\nname = x\n[broken\nname = {tok}\n",
                    f"[remote \"{tok}\n", f"# {tok}\n", f"{tok}\n",
                    f"[remote \"o\"]\nurl = \"https://{tok}@\\\nh.example/\"\n",
                    "[remote \"o\"]\r\nurl = https://\\\r\n"
                    f"{tok}@h.example/x\r\n", "[user]\nname=" + "y" * 9000 +
                    tok):
            r, got = listed_config(t, bad)
            tap.ok(tok.encode() not in r.raw + r.report_raw and r.good,
                   "no token of %r..." % bad[:24].replace(tok[:9], "TOKEN"),
                   got)
        differential(tap, t)


def differential(tap, t):
    """git reads nothing in the result that it did not read in the source"""
    bits = ["[core]", "[remote \"a\"]", "[remote \"a b\\\"c\"]", "[branch.x]",
            "[user]", "[alias]", "[Core]", "\n", "\n", "\n\t", " ", "\\\n",
            "\\", "\"", "#", ";", "=", " = ", "url", "name", "hooksPath",
            "bare", "x", "\\n", "\\t", "\\\"", "\r\n", "https://h/", "'", "]",
            "[remote \"q\\q\"]", "fetch = a b  c ", "merge=x;y", "\t"]
    bad, read = [], 0
    for i in range(60):
        text = "[user]\n" + "".join(RNG.choices(bits, k=RNG.randint(3, 14)))
        before = as_git(t.top, text)
        _, got = listed_config(t, text)
        after = as_git(t.top, got if got is not None else b"")
        if before is None:
            continue
        read += 1
        if after is None or not after.items() <= before.items() or \
                any(k.startswith("alias") or k.endswith("hookspath")
                    for k in after):
            bad.append((text, before, got, after))
    tap.ok(not bad and read > 5, f"git agrees on {read} odd configurations",
           bad[:2])


def repository(tap):
    tok = token()
    with Tree() as t:
        kept = {"HEAD": "ref: refs/heads/main\n", "index": b"DIRC\0",
                "objects/ab/cdef": b"x\x01\xff", "refs/heads/main": "a" * 40,
                "packed-refs": "# pack-refs\n", "info/exclude": "*.o\n",
                "logs/HEAD": "0 1 A <a@example.org> 1 +0\tcommit\n",
                "objects/pack/p.pack": tok}     # packed: not looked into
        left = {"hooks/pre-commit": "evil", "index.lock": "",
                "refs/heads/main.lock": "", "worktrees/w/HEAD": "x",
                "objects/info/alternates": "/elsewhere\n",
                "config.worktree": "evil", "modules/m/config": "evil",
                "credentials": tok, "logs/refs/heads/main": f"clone: from "
                f"https://me:{tok}@h.example/\n", "FETCH_HEAD": tok}
        for p, d in {**kept, **left}.items():
            t.put(".git/" + p, d)
        t.put(".git/config", "[core]\n\tbare = false\n")
        t.link("/etc/passwd", ".git/shallow")
        r = copy(t.root, LIST, listed=[".git"])
        want = {b".git/" + os.fsencode(p) for p in [*kept, "config"]}
        tap.ok(r.good and set(r.files) == want, "a repository",
               set(r.files) ^ want)
        tap.ok(all(r.files.get(b".git/" + k.encode()) ==
                   (v.encode() if isinstance(v, str) else v)
                   for k, v in kept.items()), "as it is")
        named = {b".git/objects/info/alternates", b".git/credentials",
                 b".git/logs/refs/heads/main", b".git/FETCH_HEAD",
                 b".git/shallow"}
        tap.ok(set(r.report) == named, "what a user may miss is named",
               r.report)
        r = copy(t.root, LIST, listed=[".git/hooks/pre-commit", ".git/config",
                                       ".GIT/config", "x/.git/config"])
        tap.ok(r.good and r.count == 0 and r.done["refused"] == 4,
               "a list reaches no part of it", r)
        r = copy(t.root, FILE, ".git/config")
        tap.ok(r.done["error"] != 0 and r.count == 0, "nor does FILE", r)
        r = copy(t.root, LIST, ".git", listed=["config", "hooks/pre-commit"])
        tap.ok(r.count == 0, "nor a source within it", r)
    for how in ("file", "link"):
        with Tree() as t:
            put(t.top, "outside/git/config", t.outside)
            if how == "file":
                t.put(".git", "gitdir: ../outside/git\n")
            else:
                t.link("../outside/git", ".git")
            r = copy(t.root, LIST, listed=[".git"])
            tap.ok(r.good and r.count == 0 and b".git" in r.report,
                   f"a .git that is a {how} is refused", r)
    with Tree() as t:
        t.put(".git/HEAD", "ref: refs/heads/main\n")
        put(t.top, "outside/config", t.outside)
        t.link("../../outside/config", ".git/config")
        t.link("../../outside", ".git/objects")
        r = copy(t.root, LIST, listed=[".git"])
        tap.ok(t.outside not in r.raw and set(r.files) == {b".git/HEAD"},
               "a .git whose parts are links", r)


# --- while it changes, and limits ---------------------------------------------

def swapped(tap):
    """a directory and a link to the outside take turns"""
    with Tree() as t:
        put(t.top, "outside/sub/f", t.outside)
        put(t.top, "outside/f", t.outside)
        put(t.top, "outside/.gitignore", t.outside)
        t.put("d/sub/f", "inside")
        t.put("d/f", "inside")
        t.put("d/.gitignore", "inside")
        os.symlink("../outside", t.root + "/l")
        until, turns = time.monotonic() + 3, 0

        def turn():
            nonlocal turns
            a, b, c = (t.root + x for x in ("/d", "/l", "/tmp"))
            while time.monotonic() < until:
                os.rename(a, c)
                os.rename(b, a)
                os.rename(a, b)
                os.rename(c, a)
                turns += 1
        th = threading.Thread(target=turn)
        th.start()
        bad = got = runs = 0
        while time.monotonic() < until:
            for r in (copy(t.root, LIST, listed=["d/f", "d/sub/f"] * 500),
                      copy(t.root, NAMES)):
                bad += t.outside in r.raw
                got += b"inside" in r.raw
                runs += 1
        th.join()
        tap.ok(not bad and got and turns > 100, "a directory that becomes a "
               "link: nothing from outside", (bad, got, runs, turns))


def moving(tap):
    """the stream stays well formed, or ends without its END"""
    with Tree() as t:
        t.put("big", b"b" * (40 * MIB))
        c = Copy(t.root, LIST, listed=["big", "after"])
        os.read(c.out, 1)       # it has begun
        os.truncate(t.root + "/big", MIB)
        r = c.finish()
        tap.ok(not r.whole and r.done["error"] == errno.EAGAIN and
               "big" in r.done["reason"], "a file that shrinks", r.done)
        t.put("big", b"b" * (4 * MIB))
        t.put("after", "x")
        c = Copy(t.root, LIST, listed=["big", "after"])
        first = os.read(c.out, 1)
        with open(t.root + "/big", "ab") as f:
            f.write(b"more" * MIB)
        raw = first + c.drain()
        found, whole = records(raw)
        r = c.finish()
        tap.ok(whole and [len(x[3]) for x in found] == [4 * MIB, 1] and
               r.done["error"] == 0, "a file that grows", r.done)
        stop = time.monotonic() + 1.5

        def shake():
            while time.monotonic() < stop:
                with open(t.root + "/small", "wb") as f:
                    f.write(b"s" * RNG.randint(0, 300000))
        th = threading.Thread(target=shake)
        th.start()
        bad = []
        while time.monotonic() < stop:
            r = copy(t.root, LIST, listed=["small"] * 50)
            bad += [r] if not r.whole and r.done["error"] != errno.EAGAIN \
                else []
        th.join()
        tap.ok(not bad, "a file written all the time", bad)


def limits(tap):
    with Tree() as t:
        t.put("f")
        with open(t.root + "/huge", "wb") as f:
            f.truncate(3 << 30)
        for mode in (LIST, FILE):
            began = time.monotonic()
            r = copy(t.root, mode, "huge" if mode == FILE else "", ["huge"])
            tap.ok(r.done["error"] == errno.EFBIG and not r.whole and
                   time.monotonic() - began < 2,
                   f"mode {mode}: 3 GiB are too many", r)
        c = Copy(t.root, LIST, listed=["f"] * 200001)
        raw = c.drain()
        found, whole = records(raw)
        r = c.finish()
        tap.ok(len(found) == 200000 and not whole and
               r.done["error"] == errno.EFBIG, "200,001 files are too many",
               (len(found), r.done))
        r = copy(t.root, LIST, listed=["no/" + "x" * 200 + "/" + str(i)
                                       for i in range(9000)])
        tap.ok(r.good and r.done["refused"] == 9000 and
               0 < len(r.report_raw) <= MIB, "the report has a limit too",
               (r.done, len(r.report_raw)))
        long = ["a" * 256, "/".join(["b" * 200] * 21), "/".join("c" * 2000)]
        r = copy(t.root, LIST, listed=[*long, "f"])
        tap.ok(r.good and list(r.files) == [b"f"] and
               r.done["refused"] == 3, "long names", r)
        os.chdir(t.root)
        for _ in range(200):
            os.mkdir("e")
            os.chdir("e")
        os.chdir("/")
        r = copy(t.root, NAMES)
        tap.ok(r.good and 100 < len(r.dirs) < 200, "depth",
               (len(r.dirs), r.done))
        for what, fd in (("without its end", ipc.memfd(b"f")),
                         ("not sealed", ipc.memfd(b"f\0", seal=False)),
                         ("a pipe", os.pipe()[0])):
            r = copy(t.root, LIST, list_fd=fd)
            tap.ok(r.done["error"] != 0 and r.raw == b"",
                   f"a list {what}", r)


def reader_gone(tap):
    with Tree() as t:
        t.put("big", b"b" * (8 * MIB))
        c = Copy(t.root, LIST, listed=["big"])
        os.read(c.out, 1)
        os.close(c.out)
        c.out = os.open("/dev/null", os.O_RDONLY)
        began = time.monotonic()
        r = c.finish(read=False)
        tap.ok(r.done["error"] == errno.EPIPE and r.status == 0 and
               time.monotonic() - began < 2,
               "a reader that goes away ends it", (r.done, r.status))


# --- whose rights ---------------------------------------------------------------

def rights(tap):
    plain_user = pwd.getpwuid(os.geteuid())
    if ROOT:
        plain_user = pwd.getpwnam("nobody")
    with Tree() as t:
        t.put("open", "x")
        t.put("shut", "shut-content", mode=0o600)
        t.put("closed/f", "shut-content")
        os.chmod(t.root + "/closed", 0o700)
        if not ROOT:
            os.chmod(t.root + "/shut", 0)
            os.chmod(t.root + "/closed", 0)
        listed = ["open", "shut", "closed/f"]
        ways = {"the caller's uid": {"user": None if not ROOT else plain_user}}
        if ROOT:
            ways["root gives it the caller's uid"] = {
                "uid": plain_user.pw_uid, "gid": plain_user.pw_gid}
        for what, kw in ways.items():
            r = copy(t.root, LIST, listed=listed, **kw)
            tap.ok(r.good and r.files == {b"open": b"x"} and set(r.report) ==
                   {b"shut", b"closed/f"} and b"-content" not in r.raw,
                   f"{what}: what it may not read is named", r)
            r = copy(t.root, FILE, "shut", **kw)
            tap.ok(r.done["error"] == errno.EACCES and
                   "permission" in r.done["reason"] and r.count == 0,
                   f"{what}: FILE says so", r)
            r = copy(t.root, NAMES, **kw)
            tap.ok(r.good and b"shut" in r.files and b"closed" in r.dirs and
                   b"closed/f" not in r.files, f"{what}: NAMES goes on", r)
        if not ROOT:
            os.chmod(t.root + "/closed", 0o700)
            return
        r = copy(t.root, LIST, listed=listed)
        tap.ok(r.good and len(r.files) == 3, "root reads its own", r)
        os.chown(t.root + "/shut", plain_user.pw_uid, plain_user.pw_gid)
        r = copy(t.root, LIST, listed=listed)
        tap.ok(r.good and set(r.report) == {b"shut"} and
               b"shut-content" in r.raw,     # closed/f
               "but not another's: it has no capability", r)
        c = Copy(t.root, LIST, listed=["open"], uid=plain_user.pw_uid,
                 gid=plain_user.pw_gid)
        # it may be done by now: its /proc entry stays until it is waited for
        with open(f"/proc/{c.proc.pid}/status") as f:
            st = dict(line.rstrip("\n").split(":\t", 1) for line in f
                      if ":\t" in line)
        c.finish()
        uid = str(plain_user.pw_uid)
        tap.ok(st["Uid"].split() == [uid] * 4 and int(st["CapPrm"], 16) == 0 and
               set(st["Groups"].split()) <= {str(plain_user.pw_gid)},
               "no other uid, group or capability is left",
               {k: st[k] for k in ("Uid", "Gid", "Groups", "CapPrm")})


def main():
    tap = mcp.Tap()
    for part in (plain, names, links, special, secrets, config, repository,
                 swapped, moving, limits, reader_gone, rights):
        part(tap)
    tap.done()


main()
