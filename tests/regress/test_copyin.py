#!/usr/bin/env python3
"""sbxd-copyin, driven as the monitor does; its stream read as sbx-init does."""
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402

PROGRAM = os.environ["SBX_BUILD"] + "/sbxd-copyin"
NAMES, LIST, FILE = 0, 1, 2
END, T_FILE, T_LINK, T_DIR = 0, 1, 2, 3
UID = 65534 if os.geteuid() == 0 else os.geteuid()
GID = 65534 if os.geteuid() == 0 else os.getegid()
GHP = b"ghp_" + b"a1B2c3D4e5" * 4
KEY_LINE = b"-----%s PRIVATE" + b" KEY-----\n"
PEM = (KEY_LINE % b"BEGIN" + b"MIIEowIBAAKCAQEAu1SU1LfVLPHCozMx"
       b"H2Mo4lgOEePzNm0tRgeLezV6ffAt\n" * 3 + KEY_LINE % b"END")
count = [0, 0]


def ok(cond, text, more=None):
    count[0] += 1
    print("%sok %d - %s" % ("" if cond else "not ", count[0], text))
    if not cond:
        count[1] += 1
        if more is not None:
            print("# %r" % (more,))
    sys.stdout.flush()


class Copy:
    """One copy: run to its end; .files {path: bytes}, .links, .dirs, .done,
    .report [(why, path)], .ended: whether END came."""

    def __init__(self, root, mode, source="", paths=(), during=None,
                 reader=None, list_bytes=None):
        mine, theirs = ipc.pair()
        self.p = ipc.spawn(PROGRAM, theirs, stderr=subprocess.PIPE)
        ch = ipc.Chan(mine)
        rd, wr = os.pipe()
        rootfd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        if list_bytes is None:
            list_bytes = b"".join(os.fsencode(x) + b"\0" for x in paths)
        lst = ipc.memfd(list_bytes)
        rep = os.memfd_create("report")
        ch.send("COPYIN_START", 0, (rootfd, lst, wr, rep), mode=mode,
                source=source, uid=UID, gid=GID)
        for fd in (rootfd, lst, wr):
            os.close(fd)
        self.raw = b""
        if reader is None:
            t = threading.Thread(target=self._read, args=(rd,))
            t.start()
        else:
            reader(rd)
            t = None
        if during is not None:
            during()
        self.hello = self.done = None
        try:
            self.hello = ch.recv(10, "HELLO")
            self.done = ch.recv(60, "COPYIN_DONE")
        except ipc.Closed:
            pass
        if t is not None:
            t.join(60)
        self.exit = self.p.wait(10)
        self.stderr = self.p.stderr.read()
        self.p.stderr.close()
        ch.close()
        self.report = []
        for line in ipc.read_fd(rep).split(b"\0")[:-1]:
            why, _, path = line.partition(b"\t")
            self.report.append((why.decode(), path))
        os.close(rep)
        self._parse()

    def _read(self, fd):
        parts = []
        while True:
            b = os.read(fd, 1 << 20)
            if not b:
                break
            parts.append(b)
        os.close(fd)
        self.raw = b"".join(parts)

    def _parse(self):
        self.files, self.links, self.dirs, self.modes = {}, {}, [], {}
        self.ended, self.order = False, []
        at = 0
        while at + 13 <= len(self.raw) and not self.ended:
            kind, mode, plen, size = struct.unpack_from(">BHHQ", self.raw, at)
            path = self.raw[at + 13:at + 13 + plen]
            data = self.raw[at + 13 + plen:at + 13 + plen + size]
            at += 13 + plen + size
            if len(data) != size:
                break
            self.order.append(path)
            self.modes[path] = mode
            if kind == T_FILE:
                self.files[path] = data
            elif kind == T_LINK:
                self.links[path] = data
            elif kind == T_DIR:
                self.dirs.append(path)
            elif kind == END:
                self.ended = True
        self.rest = self.raw[at:]

    def why(self, path):
        return [w for w, p in self.report if p == os.fsencode(path)]


def put(root, path, data=b"x\n", mode=0o644):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as f:
        f.write(data)
    os.chmod(full, mode)


def new_root():
    d = tempfile.mkdtemp(prefix="sbx-copyin-")
    os.chmod(d, 0o755)
    return d


def test_list():
    d = new_root()
    put(d, "p/a.txt", b"hello\n")
    put(d, "p/bin/run", b"#!/bin/sh\n", 0o755)
    put(d, "p/sub/deep/er/x", b"")
    put(d, "p/big", b"0123456789" * 300000)
    put(d, b"p/\xff\xfe name".decode("utf-8", "surrogateescape"), b"bytes")
    put(d, "p/new\nline", b"nl")
    os.link(d + "/p/a.txt", d + "/p/hard")
    os.symlink("a.txt", d + "/p/link")
    os.symlink("../a.txt", d + "/p/sub/up")
    names = ["a.txt", "bin/run", "sub/deep/er/x", "big", "hard", "link",
             "sub/up", b"\xff\xfe name".decode("utf-8", "surrogateescape"),
             "new\nline"]
    c = Copy(d, LIST, "p", names)
    ok(c.exit == 0 and c.done and c.done["error"] == 0 and c.ended and
       not c.rest and c.done["refused"] == 0, "a list is copied",
       (c.exit, c.done, c.report, c.stderr))
    ok(c.files.get(b"a.txt") == b"hello\n" and
       c.files.get(b"sub/deep/er/x") == b"" and
       c.files.get(b"big") == b"0123456789" * 300000 and
       c.files.get(b"hard") == b"hello\n", "with its content")
    ok(c.modes[b"bin/run"] & 0o111 == 0o111 and
       c.modes[b"a.txt"] & 0o111 == 0, "and what is executable")
    ok(c.links == {b"link": b"a.txt", b"sub/up": b"../a.txt"},
       "links inside stay links", c.links)
    ok(c.files.get(b"\xff\xfe name") == b"bytes" and
       c.files.get(b"new\nline") == b"nl", "names are any bytes")
    ok(c.done["files"] == 9 and c.done["bytes"] == 3000000 + 12 + 10 + 7,
       "they are counted", c.done)
    c = Copy(d, LIST, d + "/p", ["a.txt"])
    ok(c.ended and list(c.files) == [b"a.txt"],
       "a source may be named by its path on the host", c.done)
    c = Copy(d, LIST, "", ["p/a.txt"])
    ok(c.ended and list(c.files) == [b"p/a.txt"], "the root itself", c.done)
    for src, word in (("..", "below"), ("p/../..", "below"), ("/", "below"),
                      ("/etc", "below"), (d + "x", "below"),
                      ("none", "no such"), ("p/a.txt", "not a directory"),
                      (os.path.dirname(d), "below")):
        c = Copy(d, LIST, src, ["passwd", "a.txt"])
        ok(c.done and c.done["error"] != 0 and word in c.done["reason"] and
           not c.files and not c.ended, "refused as a source: %s" %
           src.replace(d, "ROOT"), c.done)
    shutil.rmtree(d)


def test_paths():
    """A guest made the list."""
    d = new_root()
    put(d, "secret-outside", b"outside")
    put(d, "p/in", b"inside")
    put(d, "p/dir/file", b"f")
    put(d, "p/.git/config", b"[credential]\n\thelper = store\n")
    put(d, "p/sub/.git/HEAD", b"ref\n")
    os.symlink("/etc", d + "/p/etc")
    os.symlink("..", d + "/p/dotdot")
    os.symlink("dir", d + "/p/dirlink")
    os.symlink("/etc/passwd", d + "/p/abs")
    os.symlink("dir/../../secret-outside", d + "/p/out")
    os.symlink("in", d + "/p/fine")
    os.mkfifo(d + "/p/fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind(d + "/p/sock")
    bad = ["../secret-outside", "dir/../../secret-outside", "/etc/passwd",
           "etc/passwd", "dotdot/secret-outside", "abs", "out", "fifo",
           "sock", "dir", "dir/", "./in", "dir//file", "dir/./file", "gone",
           ".git/config", ".GIT/config", "sub/.git/HEAD", "dirlink/file", "",
           "a" * 5000, "x/" * 3000 + "y"]
    if os.geteuid() == 0:
        os.mknod(d + "/p/dev", 0o666 | 0o020000, os.makedev(1, 5))
        bad.append("dev")
    c = Copy(d, LIST, "p", bad + ["in", "fine"])
    ok(c.done and c.done["error"] == 0 and c.ended and
       c.files == {b"in": b"inside"} and c.links == {b"fine": b"in"},
       "nothing but what is inside", (c.done, c.files, c.links))
    ok(c.done["refused"] == len(bad) and sorted(p for _, p in c.report) ==
       sorted(os.fsencode(x) for x in bad), "each of %d is reported" %
       len(bad), (c.done, c.report))
    ok("link out" in c.why("abs")[0] and "link out" in c.why("out")[0] and
       "symbolic link" in c.why("etc/passwd")[0] and
       "regular" in c.why("fifo")[0] and "gone" in c.why("gone")[0],
       "with the reason", c.report)
    s.close()
    c = Copy(d, LIST, "p", list_bytes=b"in\0no-nul")
    ok(c.done and c.done["error"] != 0 and not c.ended,
       "a list without its end is refused", c.done)
    shutil.rmtree(d)


def test_secrets():
    d = new_root()
    refused = {
        ".env": b"A=1\n", ".env.local": b"A=1\n", "deploy/prod.env": b"A=1",
        ".netrc": b"machine", ".git-credentials": b"https://a:b@c\n",
        "id_rsa": b"k", "keys/id_ed25519": b"k", "server.pem": PEM,
        "tls/server.KEY": PEM, "k.p12": b"\x30", ".npmrc":
        b"//npm.example.invalid/:_authToken=" + b"0a1b2c3d" * 4 + b"\n",
        ".pypirc": b"[pypi]\npassword = pypi-" + b"AgE" + b"a1" * 30 + b"\n",
        "home/.aws/credentials": b"x", ".docker/config.json": b"{}",
        ".ssh/config2": b"x", "src/main.py": b"TOKEN = '" + GHP + b"'\n",
        "sa.json": b'{"type": "service_account", "private_key": "' +
        PEM.replace(b"\n", b"\\n") + b'"}', ".env.example": b"T=" + GHP,
        "deploy_rsa": PEM, ".envrc": b"export API_KEY=abc123def456\n",
    }
    kept = {
        ".env.template": b"A=\n", ".env.sample": b"A=\n",
        "example.env": b"A=\n", "id_rsa.pub": b"ssh-rsa AAAA\n",
        "cert.pem": b"-----BEGIN CERTIFICATE-----\nMIIE\n",
        "notes.key": b"c major\n", "package.json": b'{"private": true}',
        "sub/.npmrc": b"save-exact=true\n", "environment.py": b"x",
        "src/config.py": b"password = 'hunter2'\n", "a.json": b"[]",
        "tests/data.txt": b"AKIA" + b"IOSFODNN7EXAMPLE", "env": b"x",
        "key_test.go": b"const k = `" + PEM + b"`\n",
    }
    for n, b in list(refused.items()) + list(kept.items()):
        put(d, n, b)
    c = Copy(d, LIST, "", list(refused) + list(kept))
    ok(c.ended and c.files == {os.fsencode(k): v for k, v in kept.items()},
       "templates and sources are copied, secrets are not",
       (set(c.files) ^ {os.fsencode(k) for k in kept}, c.done))
    ok(c.done["refused"] == len(refused) and
       all(w.startswith("refused: ") for w, _ in c.report) and
       {p for _, p in c.report} == {os.fsencode(k) for k in refused},
       "each is refused by name", c.report)
    ok(GHP not in c.raw and b"hunter2" not in repr(c.report).encode(),
       "no token in the stream")
    for n in ("id_rsa", "src/main.py", ".docker/config.json"):
        c = Copy(d, FILE, n)
        ok(c.done and c.done["error"] != 0 and "secret" in c.done["reason"]
           and not c.files and len(c.report) == 1, "copy_file %s" % n, c.done)
    shutil.rmtree(d)


CONFIG = b"""\xef\xbb\xbf# https://u:COMMENT@h
[core]
\trepositoryformatversion = 0
\tfilemode = true ; a comment
\tbare
\thooksPath = /evil
\tfsmonitor = SECRET1
\tsshCommand = ssh -i SECRET2
[credential]
\thelper = !echo SECRET3
[credential "https://x"]
\tusername = SECRET4
[http]
\textraheader = AUTHORIZATION: basic SECRET5
[HTTP "https://github.com/"]
\tExtraHeader = SECRET6
[url "https://tok:SECRET7@github.com/"]
\tinsteadOf = https://github.com/
[remote "origin"]
\turl = https://user:SECRET8@github.com/o/r.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
\tproxy = http://u:SECRET9@p
[remote "up"] url = "https://SECRET10@github.com/o/r"
[remote "cont"]
\turl = https://a:SEC\\
RET11@h/r
[remote "esc"]
\turl = "https://a:SECRET12\\"@h/r"
[remote "ssh"]
\turl = ssh://git:SECRET13@h/r
[remote "ssh2"]
\turl = ssh://git@h/r
[remote "scp"]
\turl = git@github.com:o/r
[remote "https://u:SECRET14@h/"]
\turl = https://h/
[branch "main"]
\tremote = https://SECRET15:x@h/r
\tmerge = refs/heads/main
[include]
\tpath = /SECRET16
[includeIf "gitdir:/"]
\tpath = SECRET17
[github]
\ttoken = SECRET18
[user]
\tname = A "quoted \\\\ \\"name\\"" # c
\temail = a@example.org
[remote.old]
\turl = https://u:SECRET19@h
[remote "tok"]
\turl = https://h/r?private_token=GHP_SECRET20SECRET20SECRET
[alias]
\tx = !echo SECRET21
""".replace(b"GHP", b"ghp")


def git(d, *args):
    env = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", HOME="/nonexistent",
               GIT_CONFIG_GLOBAL="/dev/null")
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", d] +
                          list(args), env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=30)


def test_git():
    d = new_root()
    p = d + "/p"
    os.mkdir(p)
    git(p, "init", "-q", "-b", "main")
    put(p, "f.txt", b"content\n")
    git(p, "add", ".")
    git(p, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m",
        "one")
    put(p, ".git/config", CONFIG)
    put(p, ".git/hooks/post-checkout", b"#!/bin/sh\n", 0o755)
    put(p, ".git/index.lock")
    put(p, ".git/refs/heads/x.lock")
    put(p, ".git/modules/m/config", b"[remote \"o\"]\n\turl=https://a:B@c\n")
    put(p, ".git/worktrees/w/gitdir", b"/host/path")
    put(p, ".git/objects/info/alternates", b"/host/objects\n")
    put(p, ".git/FETCH_HEAD", b"0123\tbranch of https://u:SECRET22@h/r\n")
    put(p, ".git/credentials", b"SECRET23")
    os.symlink("/etc/passwd", p + "/.git/evil")
    subprocess.run(["chmod", "-R", "a+rX", d], check=True)
    c = Copy(d, LIST, "p", ["f.txt", ".git"])
    ok(c.ended and c.done["error"] == 0, "a repository is copied",
       (c.done, c.stderr))
    cfg = c.files.get(b".git/config", b"")
    ok(b"SECRET" not in c.raw and b"SEC" not in cfg,
       "no credential of .git leaves", cfg)
    ok(not [f for f in c.files if b"hooks" in f or f.endswith(b".lock") or
            b"modules" in f or b"worktrees" in f or b"alternates" in f or
            b"FETCH_HEAD" in f] and not c.links,
       "nor hooks, locks, other work trees", list(c.files))
    ok(c.why(".git/FETCH_HEAD") and c.why(".git/credentials") and
       c.why(".git/evil") and c.why(".git/objects/info/alternates"),
       "what may be missed is reported", c.report)
    t = new_root()
    for f in c.dirs:
        os.makedirs(os.path.join(t, os.fsdecode(f)), exist_ok=True)
    for f, b in c.files.items():
        put(t, os.fsdecode(f), b)
    ok(git(t, "status", "--porcelain").stdout == b"" and
       git(t, "log", "--format=%s").stdout == b"one\n",
       "git takes the copy", git(t, "status"))

    def get(*a):
        return git(t, "config", *a).stdout.strip()

    ok(get("remote.origin.url") == b"https://github.com/o/r.git" and
       get("remote.up.url") == b"https://github.com/o/r" and
       get("remote.cont.url") == b"https://h/r" and
       get("remote.esc.url") == b"https://h/r" and
       get("remote.ssh.url") == b"ssh://git@h/r" and
       get("remote.ssh2.url") == b"ssh://git@h/r" and
       get("remote.scp.url") == b"git@github.com:o/r" and
       get("branch.main.remote") == b"https://h/r",
       "remotes are kept without user info", cfg)
    ok(get("user.name") == b'A quoted \\ "name"' and
       get("user.email") == b"a@example.org" and
       get("--type=bool", "core.bare") == b"true" and
       get("--type=bool", "core.filemode") == b"true",
       "what was kept means the same", (get("user.name"), cfg))
    shutil.rmtree(t)
    # a linked work tree
    w = d + "/w"
    os.mkdir(w)
    put(w, ".git", b"gitdir: /elsewhere\n")
    put(w, "f")
    c = Copy(d, LIST, "w", ["f", ".git"])
    ok(c.ended and list(c.files) == [b"f"] and
       "linked work tree" in c.why(".git")[0], "a .git file is refused",
       (c.files, c.report))
    for src in ("p/.git", "p/.git/objects"):
        c = Copy(d, LIST, src, ["config", "HEAD"])
        ok(c.done and c.done["error"] != 0 and not c.files,
           "the repository is no source: %s" % src, c.done)
    c = Copy(d, FILE, "p/.git/config")
    ok(c.done and c.done["error"] != 0 and not c.files,
       "nor is a file of it", c.done)
    # names only
    put(p, ".gitignore", b"*.o\n")
    put(p, "sub/.gitignore", b"*.a\n")
    put(p, ".env", b"SECRET24\n")
    os.mkfifo(p + "/fifo")
    c = Copy(d, NAMES, "p")
    ok(c.ended and c.files.get(b".gitignore") == b"*.o\n" and
       c.files.get(b"sub/.gitignore") == b"*.a\n" and
       c.files.get(b"f.txt") == b"" and c.files.get(b".env") == b"" and
       c.files[b".git/index"].startswith(b"DIRC") and
       b".git/config" not in c.files and b"SECRET" not in c.raw and
       b"fifo" in c.files, "NAMES: names, .gitignore, the index",
       (c.done, c.files))
    c = Copy(d, NAMES, "w")
    ok(c.ended and c.files == {b".git": b"", b"f": b""},
       "NAMES: a .git file is one", c.files)
    shutil.rmtree(d)


def test_config_bytes():
    """Any bytes as .git/config: no crash, and what comes out parses."""
    d = new_root()
    put(d, "p/.git/HEAD", b"ref: refs/heads/main\n")
    bad = 0
    import random
    rnd = random.Random(7)
    cuts = [CONFIG[:n] for n in range(0, len(CONFIG), 97)]
    cuts += [bytes(rnd.choice(b'[]"\\=\n\t #;aurl.coe\r\0\xff')
                   for _ in range(300)) for _ in range(25)]
    cuts += [b"[remote \"x\"]\nurl = \"" + b"\\\\" * 9000 + b"\"\n",
             b"[" * 2000, b"[core]\n" + b"bare = \\\n" * 5000]
    for n, text in enumerate(cuts):
        put(d, "p/.git/config", text)
        c = Copy(d, LIST, "p", [".git"])
        put(d, "out", c.files.get(b".git/config", b"[["))
        r = git("/", "config", "-f", d + "/out", "-l")
        if c.exit != 0 or not c.ended or r.returncode != 0:
            bad += 1
            print("# %d %r" % (n, (c.exit, c.done, r.stderr, text[:80])))
    ok(bad == 0, "%d broken configurations" % len(cuts))
    shutil.rmtree(d)


def test_one():
    d = new_root()
    put(d, "a/f.txt", b"one")
    os.symlink("f.txt", d + "/a/link")
    os.symlink("a", d + "/alink")
    os.mkfifo(d + "/fifo")
    c = Copy(d, FILE, "a/f.txt")
    ok(c.ended and c.files == {b"f.txt": b"one"}, "one file", c.done)
    c = Copy(d, FILE, d + "/a/f.txt")
    ok(c.ended and c.files == {b"f.txt": b"one"}, "by its path on the host")
    for src, word in (("a", "directory"), ("a/link", "link"), ("none", "no "),
                      ("alink/f.txt", "link"), ("fifo", "regular"),
                      ("../etc/passwd", "below"), ("/etc/passwd", "below"),
                      ("", "directory"), ("a/f.txt/", "not a directory")):
        c = Copy(d, FILE, src)
        ok(c.exit == 0 and c.done and c.done["error"] != 0 and
           word in c.done["reason"] and not c.files and not c.ended,
           "not one file: %r" % src, (c.exit, c.done))
    shutil.rmtree(d)


def test_rights():
    d = new_root()
    put(d, "open", b"o")
    put(d, "closed", b"c", 0)
    put(d, "dir/x", b"x")
    os.chmod(d + "/dir", 0)
    c = Copy(d, LIST, "", ["open", "closed", "dir/x"])
    ok(c.ended and list(c.files) == [b"open"] and
       "permission" in c.why("closed")[0] and
       "permission" in c.why("dir/x")[0],
       "what the caller may not read is reported", c.report)
    os.chmod(d + "/dir", 0o755)
    if os.geteuid() == 0:
        os.chmod(d + "/closed", 0o600)
        os.chown(d + "/closed", 12345, 12345)
        c = Copy(d, LIST, "", ["closed"])
        ok(c.ended and not c.files, "root's rights are not lent", c.report)
    shutil.rmtree(d)


def test_race():
    """A directory that is a link to /etc every other moment."""
    d = new_root()
    put(d, "p/real/passwd", b"mine")
    os.symlink("/etc", d + "/p/other")
    stop = threading.Event()
    libc = __import__("ctypes").CDLL(None, use_errno=True)

    def swap():
        a, b = (d + "/p/real").encode(), (d + "/p/other").encode()
        while not stop.is_set():
            libc.renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE

    t = threading.Thread(target=swap)
    t.start()
    got, skipped, bad = 0, 0, 0
    for _ in range(6):
        c = Copy(d, LIST, "p", ["real/passwd"] * 2000)
        got += len([1 for f in c.order if f])
        skipped += len(c.report)
        bad += not c.ended or any(v != b"mine" for v in c.files.values()) or \
            b"root:" in c.raw
    # a file that is a device, a fifo, a link in between
    stop.set()
    t.join()
    ok(bad == 0 and got + skipped == 12000, "a swapped link leads nowhere: "
       "%d copied, %d not" % (got, skipped))
    shutil.rmtree(d)


def test_change():
    d = new_root()
    with open(d + "/big", "wb") as f:
        f.truncate(64 << 20)
    os.chmod(d + "/big", 0o666)

    def shrink():
        os.truncate(d + "/big", 1 << 20)

    parts = []

    def reader(fd):
        parts.append(os.read(fd, 65536))
        shrink()
        while True:
            b = os.read(fd, 1 << 20)
            if not b:
                break
            parts.append(b)
        os.close(fd)

    c = Copy(d, LIST, "", ["big"], reader=reader)
    ok(c.done and c.done["error"] != 0 and "changed" in c.done["reason"],
       "a file that shrinks fails the copy", c.done)

    def leaves(fd):
        os.read(fd, 4096)
        os.close(fd)

    with open(d + "/big", "r+b") as f:
        f.truncate(64 << 20)
    c = Copy(d, LIST, "", ["big"], reader=leaves)
    ok(c.done and c.done["error"] == 32, "a reader that leaves ends it",
       c.done)
    with open(d + "/big", "r+b") as f:
        f.truncate((2 << 30) + 1)
    c = Copy(d, LIST, "", ["big"])
    ok(c.done and c.done["error"] == 27 and not c.files,
       "more bytes than a copy may have", c.done)
    put(d, "x", b"")
    c = Copy(d, LIST, "", ["x"] * 200001)
    ok(c.done and c.done["error"] == 27 and "files" in c.done["reason"] and
       not c.ended, "more files than a copy may have", c.done)
    shutil.rmtree(d)


def test_protocol():
    for name, kw in (("COPYIN_START", {"mode": 9}), ("PING", {}),):
        mine, theirs = ipc.pair()
        p = ipc.spawn(PROGRAM, theirs, stderr=subprocess.DEVNULL)
        ch = ipc.Chan(mine)
        fds = [os.open("/", os.O_RDONLY) for _ in range(4)] \
            if name == "COPYIN_START" else []
        ch.send(name, 0, fds, **kw)
        ok(p.wait(10) == 2, "refused at the start: %s" % name)
        ch.close()
        for fd in fds:
            os.close(fd)


for f in (test_list, test_paths, test_secrets, test_git, test_config_bytes,
          test_one, test_rights, test_race, test_change, test_protocol):
    f()
print("1..%d" % count[0])
sys.exit(count[1] > 0)
