"""sbxd-judge and one publication, without the suite: bases as python builds them,
printed as `git cat-file --batch` does.

    base = pubjudge.Base({b"a/b": (0o100644, b"text")}, "sha1")
    j = pubjudge.publish(base, [b"a/b"], {b"a/b": (0o100644, b"new")})
    j.m["step"], j.m["tree"], j.out     # JUDGED, {path: (kind, mode, bytes)}
"""
import fcntl
import hashlib
import os
import struct
import threading

import ipc

END, FILE, LINK = 0, 1, 2
LINK_MODE, SUBMODULE = 0o120000, 0o160000
UPSTREAM = 4  # enum sbx_publish_allow
AUTHOR, TIME = "A Person <a@example.org>", 1700000000
BUILD = os.environ["SBX_BUILD"]


def rec(kind, path, data=b"", mode=0o644, size=None):
    return struct.pack(">BHHQ", kind, mode, len(path),
                       len(data) if size is None else size) + path + data


OVER = rec(END, b"", mode=0)


def oid(fmt, kind, data):
    h = hashlib.new(fmt, b"%s %d\0" % (kind, len(data)))
    h.update(data)
    return h.hexdigest()


def line(name, kind, data):
    return b"%s %s %d\n%s\n" % (name.encode(), kind, len(data), data)


class Base:
    """files: {path: (mode, bytes)}; of a submodule, its id in hexadecimal."""

    def __init__(self, files, fmt="sha1"):
        self.fmt, self.files, self.objects = fmt, files, {}
        self.dirs = {}          # path: id of its tree
        self.tree = self._tree(b"", files)
        self.commit = self.add(b"commit", (
            "tree %s\nauthor X <x@y.z> 1 +0000\ncommitter X <x@y.z> 1 "
            "+0000\n\nbase\n" % self.tree).encode())

    def add(self, kind, data):
        name = oid(self.fmt, kind, data)
        self.objects[name] = (kind, data)
        return name

    def _tree(self, prefix, files):
        here, below = {}, {}
        for path, (mode, data) in files.items():
            head, slash, tail = path.partition(b"/")
            if slash:
                below.setdefault(head, {})[tail] = (mode, data)
            else:
                here[head] = (mode, data.decode() if mode == SUBMODULE else
                              self.add(b"blob", data), b"")
        for name, sub in below.items():
            here[name] = (0o40000, self._tree(prefix + name + b"/", sub),
                          b"/")
        body = b"".join(
            b"%o %s\0" % (mode, name) + bytes.fromhex(i)
            for name, (mode, i, slash) in sorted(
                here.items(), key=lambda e: e[0] + e[1][2]))
        self.dirs[prefix] = self.add(b"tree", body)
        return self.dirs[prefix]

    def needed(self, names):
        """Ids in the order in which a publisher asks for them."""
        dirs = {b""}
        for n in names:
            parts = n.split(b"/")
            dirs |= {b"/".join(parts[:i]) + b"/" for i in
                     range(1, len(parts))}
        out = [self.commit]
        for d in sorted(dirs):
            out.append(self.dirs.get(d) or "%s:%s" % (
                self.commit, os.fsdecode(d[:-1])))
        for path in [d + b".gitattributes" for d in sorted(dirs)] + \
                [b".secrets.baseline", *names]:
            if path in self.files and self.files[path][0] != SUBMODULE:
                out.append(oid(self.fmt, b"blob", self.files[path][1]))
        return out

    def batch(self, names):
        out = []
        for i in self.needed(names):
            out.append(line(i, *self.objects[i]) if i in self.objects else
                       os.fsencode(i) + b" missing\n")
        return b"".join(out)


def trees(*bases):
    """all of them"""
    return b"".join(line(i, *b.objects[i]) for b in bases if isinstance(b, Base)
                    for i in b.dirs.values())


def sealed(data, seals=0xf):
    fd = os.memfd_create("t", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as f:
        f.write(data)
    fcntl.fcntl(fd, 1033, seals)
    return fd


def stream(files):
    return b"".join(rec(LINK if mode == LINK_MODE else FILE, path, data,
                        0o755 if mode == 0o100755 else 0o644)
                    for path, (mode, data) in files.items()) + OVER


def parse(data):
    """{path: (kind, mode, bytes)} of a whole stream, else None."""
    out, at = {}, 0
    while len(data) - at >= 13:
        kind, mode, n, size = struct.unpack_from(">BHHQ", data, at)
        at += 13
        if kind == END:
            return out if at == len(data) else None
        out[data[at:at + n]] = (kind, mode, data[at + n:at + n + size])
        at += n + size
    return None


class Judged:
    def __init__(self, asked, base_text, names, message, rules, files):
        sign = asked.pop("sign", None)      # the commit's bytes: a signature
        mine, theirs = ipc.pair()
        self.p = ipc.spawn(os.path.join(BUILD, "sbxd-judge"), theirs)
        self.ch = ipc.Chan(mine)
        self.ch.recv(10, "HELLO")
        fds = [sealed(names), sealed(base_text, 0), sealed(message),
               sealed(rules)]
        self.base_fd = os.dup(fds[1])
        self.ch.send("JUDGE_PUBLISH", 0, fds, **asked)
        r1, w1 = os.pipe()
        r2, w2 = os.pipe()
        self.ch.send("JUDGE_FILES", 0, (r1, w2))
        for fd in fds + [r1, w2]:
            os.close(fd)
        feed = threading.Thread(target=self._feed, args=(w1, files))
        feed.start()
        if sign:
            self.unsigned = self.ch.recv(10, "JUDGE_COMMIT")["commit"].encode()
            self.ch.send("JUDGE_SIGNED", 0, signature=sign(self.unsigned))
        with os.fdopen(r2, "rb") as f:
            self.raw = f.read()
        self.out = parse(self.raw)
        try:
            self.m = self.ch.recv(60, "JUDGED")
        except ipc.Closed:
            self.m = None
        feed.join(60)
        os.close(self.base_fd)

    def _feed(self, fd, files):
        try:
            with os.fdopen(fd, "wb") as f:
                for part in files if isinstance(files, list) else [files]:
                    f.write(part(self.base_fd) if callable(part) else part)
        except BrokenPipeError:
            pass

    def end(self):
        self.ch.close()
        return self.p.wait(10)


def publish(on, names, files, text=None, message=b"subject\n\nbody\n",
            rules=b"", before=b"", names_raw=None, theirs=None, merged=(),
            merged_count=None, fork=None, **asked):
    """on: the Base; files: {path: (mode, bytes)}, or a stream as bytes or a list
    of them, and of what makes them of the base's descriptor; theirs: the second
    parent's Base, fork: where both parted, or its id (None:
    on), merged: names that become what it has; asked: fields of
    JUDGE_PUBLISH."""
    names = list(names) + list(merged)
    text = on.batch(names) if text is None else text
    if theirs is not None:
        text += theirs.batch(names) + (
            fork.batch(names) if isinstance(fork, Base) else b"") + trees(
                on, theirs, fork)
        asked = {"parent2": theirs.commit, "merged": len(merged),
                 "fork": (on if fork is None else fork), "allow": UPSTREAM,
                 **asked}
    elif fork is not None:
        asked["fork"] = fork
    if isinstance(asked.get("fork"), Base):
        asked["fork"] = asked["fork"].commit
    if merged_count is not None:
        asked["merged"] = merged_count
    asked = {"base": on.commit, "author": AUTHOR, "time": TIME,
             "base_offset": len(before), "base_length": len(text), **asked}
    return Judged(asked, before + text,
                  b"".join(n + b"\0" for n in names) if names_raw is None else
                  names_raw, message, rules,
                  stream(files) if isinstance(files, dict) else files)


def commit_bytes(tree, base, parent2="", message=b"subject\n\nbody\n"):
    return ("tree %s\nparent %s\n%sauthor %s %d +0000\ncommitter %s %d +0000"
            "\n\n" % (tree, base, "parent %s\n" % parent2 if parent2 else "",
                      AUTHOR, TIME, AUTHOR, TIME)).encode() + message
