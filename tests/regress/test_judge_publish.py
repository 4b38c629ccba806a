#!/usr/bin/env python3
"""sbxd-judge and publications: the tree is that which git itself makes of the same
files on the same base, and what must not go is refused with its step.

    test_judge_publish.py [NUMBER]      so many random trees (300)
"""
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import zlib

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import mcp  # noqa: E402
import pubjudge  # noqa: E402
from pubjudge import (Base, FILE, LINK, LINK_MODE, OVER, SUBMODULE, line,  # noqa: E402
                      oid, publish, rec)

NUMBER = int(sys.argv[1]) if len(sys.argv) > 1 else 300
TEXT, EXEC = 0o100644, 0o100755
SENSITIVE = 1
tap = mcp.Tap()
lock = threading.Lock()


# --- git itself ---------------------------------------------------------------------

class Git:
    """A repository without a work tree of its own."""

    def __init__(self, top, fmt):
        self.top, self.fmt = top, fmt
        self.dir = os.path.join(top, fmt + ".git")
        self.run("init", "-q", "--bare", "--object-format=" + fmt, self.dir)

    def run(self, *args, text=b"", **env):
        env = {**os.environ, "GIT_DIR": self.dir, "GIT_CONFIG_NOSYSTEM": "1",
               "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_LITERAL_PATHSPECS": "1",
               **env}
        p = subprocess.run(["git", "-c", "core.bare=false", *args], env=env,
                           input=text, capture_output=True, timeout=120,
                           cwd=env.get("GIT_WORK_TREE", self.top))
        if p.returncode != 0:
            raise RuntimeError("git %s: %s" % (args, p.stderr))
        return p.stdout

    def store(self, base):
        for name, (kind, data) in base.objects.items():
            d = os.path.join(self.dir, "objects", name[:2])
            os.makedirs(d, exist_ok=True)
            with open(os.path.join(d, name[2:]), "wb") as f:
                f.write(zlib.compress(b"%s %d\0" % (kind, len(data)) + data,
                                      1))

    def tree(self, base, names, files, key):
        """What git add and git write-tree make of them."""
        self.store(base)
        work = os.path.join(self.top, key)
        env = {"GIT_WORK_TREE": work,
               "GIT_INDEX_FILE": os.path.join(self.top, key + ".index")}
        os.makedirs(work)
        for path, (mode, data) in files.items():
            full = os.path.join(os.fsencode(work), path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if mode == LINK_MODE:
                os.symlink(data, full)
                continue
            with open(full, "wb") as f:
                f.write(data)
            os.chmod(full, 0o755 if mode == EXEC else 0o644)
        self.run("read-tree", base.commit, **env)
        self.run("add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul",
                 text=b"\0".join(names), **env)
        return self.run("write-tree", **env).decode().strip(), env


# --- random trees -----------------------------------------------------------------------

PARTS = [b"a", b"a.b", b"a-b", b"a0", b"b", b"c.txt", b"d.c", b"e f", b"z!",
         b"\xc3\xa4", b"e\xcc\x81", b"\xe6\x97\xa5\xe6\x9c\xac",
         b"\xf0\x9f\x98\x80.md", b"\xef\xac\x81", b"%41", b"x.bin", b"Makefile", b"src", b"foo", b"foobar",
         b"#h", b"!n", b"q\"r", b"[s]", b"tt*", b"long-name-of-a-file.py"]
PATTERNS = ["*", "*.txt", "*.c", "/a", "a", "src/*", "src/**", "**/a",
            "a*b", "foo*", "foo**/b", "f?o*", "[a-c]*", "[!a-c]*", "b/",
            "/src/**/b", "\"q\\\"r\"", "\"e f\"", "\\#h", "\\!n", "!a",
            "*.[ct]*", "[[:alpha:]]", "[[:digit:]x]*", "src/*/a", "**",
            "*/a", "a/**/b", "\\[s]", "[s]", "[", "foo\\", "*a*b*c*", "/foo/",
            "\"\\303\\244\"", "t*\\*", "[]a]", "[^a]*", "[a-]*", "/*", "**/src/**",
            "**/bar", "/**/oo", "t0/**/a", "**/**/in"]
SAYS = ["text", "-text", "text=auto", "!text", "eol=lf", "eol=crlf", "ident",
        "-ident", "binary", "mine", "-mine", "crlf", "-crlf", "crlf=input",
        "diff=x", "merge=ours", "linguist-generated", "export-ignore",
        "!eol", "text=odd", "filter", "-filter", "whitespace=x", "=bad",
        "working-tree-encoding=UTF-8", "!working-tree-encoding", "inner",
        "!binary", "binary=x", "--odd"]
PIECES = [b"word ", b"\n", b"\r\n", b"\r", b"$Id$", b"$Id: abc $", b"$Id:\n$",
          b"$Id", b"$", b"\0", b"\x1a", b"\x7f", b"caf\xc3\xa9", b"\t",
          b"x" * 300, b"line\r\n" * 5, b"line\n" * 5, b"\x01\x02"]


def content(r):
    kind = r.random()
    pieces = PIECES if kind < .4 else PIECES[:3] if kind < .7 else \
        [b"word", b"\r\n", b"$Id: x $"]
    return b"".join(r.choice(pieces) for _ in range(r.randint(0, 12)))


def path(r, dirs=()):
    if dirs and r.random() < .5:
        return r.choice(dirs) + r.choice(PARTS)
    return b"/".join(r.choice(PARTS) for _ in range(r.randint(1, 4)))


def fits(p, files):
    parts = p.split(b"/")
    return not any(b"/".join(parts[:i]) in files for i in
                   range(1, len(parts) + 1)) and \
        not any(f.startswith(p + b"/") for f in files)


def one(r):
    kind = r.random()
    if kind < .1:
        return LINK_MODE, content(r).replace(b"\0", b"") + b"t"
    return (EXEC if kind < .25 else TEXT), content(r)


def attributes(r, root):
    out = []
    if root and r.random() < .5:
        out.append("[attr]mine text=auto ident")
        out.append("[attr]inner mine eol=crlf -diff")
    for _ in range(r.randint(1, 8)):
        out.append(r.choice(PATTERNS) + " " + " ".join(
            r.choice(SAYS) for _ in range(r.randint(1, 3))))
    return (r.choice(["\n", "\r\n"]).join(out) + r.choice(["", "\n"])).encode()


def random_files(r, sub):
    files = {}
    for _ in range(r.randint(1, 25)):
        p = path(r)
        if fits(p, files):
            files[p] = one(r)
    for d in sorted({p[:p.rfind(b"/") + 1] for p in files}):
        if r.random() < (.8 if d == b"" else .3):
            files[d + b".gitattributes"] = (TEXT, attributes(r, d == b""))
    if r.random() < .2 and fits(b"sub", files):
        files[b"sub"] = (SUBMODULE, sub)
    return files


def random_changes(r, files):
    """Names that are declared, and what came of them."""
    after, names, now = dict(files), set(), {}
    dirs = sorted({p[:p.rfind(b"/") + 1] for p in files})
    plain = [p for p in files if b".gitattributes" not in p and p != b"sub"]

    def gone(p):
        names.add(p)
        del after[p]
        now.pop(p, None)

    def comes(p, what):
        names.add(p)
        if any(q.startswith(p + b"/") for q in files):
            what = TEXT, what[1]        # git add takes no link there
        after[p] = now[p] = what

    for _ in range(r.randint(1, 12)):
        kind = r.random()
        p = r.choice(plain) if plain else b"a"
        if kind < .35 and p in after:           # other content, or the same
            comes(p, r.choice([one(r), (r.choice([TEXT, EXEC]), files[p][1]),
                               files[p]]))
        elif kind < .5 and p in after:
            gone(p)
        elif kind < .6:                         # a directory goes
            d = p[:p.find(b"/") + 1]
            for q in [q for q in after if d and q.startswith(d)]:
                if b".gitattributes" not in q:
                    gone(q)
        elif kind < .7 and p in after:          # renamed
            q, what = path(r, dirs), now.get(p, files[p])
            gone(p)
            comes(q if fits(q, after) else p, what)
        elif kind < .75 and p in after:         # a file becomes a directory
            gone(p)
            comes(p + b"/in", one(r))
        elif kind < .8:                         # a directory becomes a file
            d = p[:p.find(b"/")] if b"/" in p else None
            inside = [q for q in after if d and q.startswith(d + b"/")]
            if inside and all(b".gitattributes" not in q for q in inside):
                for q in inside:
                    gone(q)
                comes(d, one(r))
        else:
            q = path(r, dirs)
            if fits(q, after):
                comes(q, one(r))
    # what was new and went again was never there
    return {n for n in names if n in now or n in files}, now


def random_case(seed, fmt, trees):
    """So many trees, one at the top or each in a directory of it."""
    r = random.Random(seed)
    sub = b"12" * (20 if fmt == "sha1" else 32)
    files, names, now = {}, set(), {}
    for i in range(trees):
        top = b"t%d/" % i if trees > 1 else b""
        some = random_files(r, sub)
        n, came = random_changes(r, some)
        files.update((top + p, v) for p, v in some.items())
        names.update(top + p for p in n)
        now.update((top + p, v) for p, v in came.items())
    if trees > 1:
        files[b".gitattributes"] = (TEXT, attributes(r, True))
    return Base(files, fmt), sorted(names, key=lambda n: r.random()), now


def check_case(seed, git, trees):
    """"" or what is wrong."""
    base, names, now = random_case(seed, git.fmt, trees)
    if not names:
        return ""
    want, env = git.tree(base, names, now, "w%d" % seed)
    text = None
    if seed % 4 == 0:           # as git itself prints it
        text = git.run("cat-file", "--batch", text="\n".join(
            base.needed(names)).encode("utf-8", "surrogateescape") + b"\n")
    j = publish(base, names, now, text=text, allow=SENSITIVE,
                before=b"tip - default - format x\n")
    j.end()
    if j.m is None:
        return "it ended"
    if want == base.tree:
        return "" if j.m["step"] == "unchanged" else "unchanged: %r" % j.m
    if j.m["step"] or j.m["tree"] != want:
        return "git's tree is %s: %r" % (want, j.m)
    commit = pubjudge.commit_bytes(want, base.commit)
    if j.m["commit"] != oid(git.fmt, b"commit", commit):
        return "the commit is %s" % j.m["commit"]
    if j.out is None or j.out.pop(b"commit") != (FILE, 0o644, commit):
        return "the commit is not written"
    if j.m["added"] + j.m["modified"] + j.m["deleted"] + j.m["unchanged"] != \
            len(names):
        return "counts: %r of %d" % (j.m, len(names))
    if seed % 8 == 0:
        blobs = {}
        for e in git.run("ls-files", "-s", "-z", **env).split(b"\0")[:-1]:
            meta, p = e.split(b"\t", 1)
            blobs[b"files/" + p] = meta.split()[1].decode()
        for p, (_, _, data) in j.out.items():
            if blobs.get(p) != oid(git.fmt, b"blob", data):
                return "%r is written otherwise" % p
        if len(j.out) != len(now):
            return "%d files are written" % len(j.out)
    return ""


def random_trees():
    """In publications of one and of many trees, since each costs processes."""
    wrong, cases, left = [], [], NUMBER
    while left > 0:
        cases.append(min(left, 29 if len(cases) % 4 > 1 else 1))
        left -= cases[-1]

    def some(part, top):
        gits = [Git(top, "sha1"), Git(top, "sha256")]
        for seed in range(part, len(cases), 2):
            try:
                bad = check_case(seed, gits[seed // 4 % 2], cases[seed])
            except Exception as e:  # pylint: disable=broad-except
                bad = repr(e)
            if bad:
                with lock:
                    wrong.append("%d: %s" % (seed, bad))

    with tempfile.TemporaryDirectory() as top:
        threads = []
        for part in range(2):
            d = os.path.join(top, str(part))
            os.mkdir(d)
            threads.append(threading.Thread(target=some, args=(part, d)))
            threads[-1].start()
        for t in threads:
            t.join()
    tap.ok(not wrong, "%d random trees are what git makes of them" % NUMBER,
           "%d wrong: %s" % (len(wrong), wrong[:5]))


# --- what is refused ------------------------------------------------------------------

def ok(j, step, what, word=""):
    """It was refused so, with a reason, and what went on has no end."""
    m = j.m or {}
    tap.ok(m.get("step") == step and (word in m["reason"]) and (
        not step or (m["reason"] and m["tree"] == m["commit"] == "" and
                     not j.raw.endswith(OVER))),
           "%s: %s" % (what, step or "goes"), m or "it ended")
    j.end()
    return m


HERE = {b"README": (TEXT, b"hello\n"), b"run": (EXEC, b"#!/bin/sh\n"),
        b"src/a.c": (TEXT, b"int a;\n"), b"src/b.c": (TEXT, b"int b;\n"),
        b"src/in/c.c": (TEXT, b"int c;\n"), b"link": (LINK_MODE, b"README"),
        b"sub": (SUBMODULE, b"34" * 20), b"Caf\xc3\xa9": (TEXT, b"x"),
        b".github/w.yml": (TEXT, b"on: push\n"), b"docs/x": (TEXT, b"x")}
here = Base(HERE)
other = Base({b"other": (0o100644, b"x")})
NEW = (TEXT, b"new\n")


def simple(names, files, base=here, **asked):
    return publish(base, names, files, **asked)


def paths():
    # more of them: tests/unit/test_publish.c
    for name, word in ((b"a/../b", '".."'), (b"a/.Git/hooks/x", ".git"),
                       (b".g\xe2\x80\x8cit/x", ".git"), (b"\xff", "UTF-8")):
        ok(simple([name], {name: NEW}), "path", "the path %r" % name, word)
    ok(simple([], {}, names_raw=b"a\0a\0"), "path", "a path declared twice")
    ok(simple([], {}, names_raw=b""), "unchanged", "no path")
    ok(simple([], {}, names_raw=b"a"), "malformed", "a path without its end")
    ok(simple([], {}, names_raw=b"".join(b"%d\0" % i for i in range(50001))),
       "too_large", "50,001 paths")
    for name, other in ((b"readme", "README"), (b"Src/x", "src"),
                        (b"cafe\xcc\x81", "Caf")):
        ok(simple([name], {name: NEW}), "path", "%r beside what is there" %
           name, other)
    ok(simple([b"x/A", b"x/a"], dict.fromkeys((b"x/A", b"x/a"), NEW)), "path",
       "two new names that differ by case")
    ok(simple([b"README", b"readme"], {b"readme": NEW}), "",
       "a file's name in another case, the old one gone")
    both = Base({b"A": NEW, b"a": NEW})
    ok(simple([b"A"], {b"A": (TEXT, b"x")}, base=both), "",
       "one of two that the base has already")


def ways():
    ok(simple([b"src"], {b"src": NEW}), "path", "a file over a directory",
       "not all declared")
    ok(simple([b"src", b"src/a.c"], {b"src": NEW}), "path",
       "a file over a directory of which one is declared", "not all declared")
    inside = [b"src/a.c", b"src/b.c", b"src/in/c.c"]
    m = ok(simple([b"src"] + inside, {b"src": NEW}), "",
           "a file over a directory that is declared whole")
    tap.ok((m["added"], m["deleted"]) == (1, 3), "its files are counted", m)
    ok(simple([b"src"] + inside, {b"src": NEW, b"src/a.c": NEW}), "path",
       "a file and a directory of one name", "as a directory")
    ok(simple([b"README/x"], {b"README/x": NEW}), "path",
       "a directory over a file", "not declared")
    ok(simple([b"README", b"README/x"], {b"README/x": NEW}), "",
       "a directory over a file that is declared")
    ok(simple([b"link/x"], {b"link/x": NEW}), "path",
       "a path through a link", "in the way")
    ok(simple([b"sub/x"], {b"sub/x": NEW}, allow=SENSITIVE), "mode",
       "a path in a submodule", "submodule")
    ok(simple([b"src"], {}), "path", "a directory that is declared gone",
       "directory")
    ok(simple([b"gone"], {}), "missing", "what nobody has", "gone")
    ok(simple([b"README/x"], {}), "missing", "what nobody has below a file")
    ok(simple([b"README", b"README/x"], {b"README": NEW}), "missing",
       "what nobody has below a file that came")
    ok(simple([b"README"], {b"README": HERE[b"README"]}), "unchanged",
       "a file as it is")
    m = ok(simple([b"README", b"new"], {b"README": HERE[b"README"],
                                        b"new": NEW}), "", "some as they are")
    tap.ok((m["unchanged"], m["added"]) == (1, 1), "both are counted", m)
    ok(simple([b"README"], {b"README": (EXEC, b"hello\n")}), "",
       "a mode that changes")
    m = ok(simple(list(HERE), {}, allow=SENSITIVE), "", "all of it goes")
    tap.ok(m["tree"] == oid("sha1", b"tree", b""), "to the empty tree", m)
    everything = [b"docs/x", b"src/in/c.c"]
    j = simple(everything, {})
    left = Base({p: v for p, v in HERE.items() if p not in everything})
    tap.ok(j.m and j.m["tree"] == left.tree,
           "directories without a file are gone", j.m)
    j.end()


def sensitive():
    for name in b".github/w.yml", b"docs/CODEOWNERS", b"src/.gitattributes":
        ok(simple([name], {name: NEW}), "sensitive", "%r" % name,
           "allow_sensitive_paths")
    ok(simple([b".github/w.yml"], {}), "sensitive", "a workflow that goes")
    for name, files in ((b"l", {b"l": (LINK_MODE, b"/etc")}),
                        (b"link", {b"link": NEW}), (b"link", {}),
                        (b"sub", {}), (b"sub", {b"sub": NEW})):
        ok(simple([name], files), "sensitive", "%r: %r" % (name, files),
           "symbolic")
        ok(simple([name], files, allow=SENSITIVE), "",
           "%r, where they may" % name)
    ok(simple([b".github/w.yml"], {b".github/w.yml": NEW}, allow=SENSITIVE),
       "", "a workflow, where it may")
    ok(simple([b".github/w.yml", b"x"], {
        b".github/w.yml": HERE[b".github/w.yml"], b"x": NEW}), "",
       "a workflow that is as it was")
    ok(simple([b"src/CODEOWNERS"], {b"src/CODEOWNERS": NEW}), "",
       "owners where nobody looks")
    for text in b"", b"a\0b":
        ok(simple([b"l"], {b"l": (LINK_MODE, text)}, allow=SENSITIVE), "mode",
           "a link to %r" % text)


def attributed():
    def of(attrs, more=()):
        return Base({**HERE, b".gitattributes": (TEXT, attrs),
                     **dict(more)})

    for attrs, word in (
            (b"*.c filter=lfs", "filter=lfs"),
            (b"*.c working-tree-encoding=UTF-16", "encoding=UTF-16"),
            (b"*.c working-tree-encoding", "encoding"),
            (b"[attr]big filter=lfs -text\n*.c big", "filter=lfs"),
            (b"\"[attr]big\" filter=lfs\n*.c big", "filter=lfs"),
            (b"*.c builtin_x", "for itself"), (b"*.c " + b"x" * 2100, "2047"),
            (b"*.c a\0b", "zero"),
            (b"\n".join(b"x a%d" % i for i in range(600)), "attributes"),
            (b"#" * (2 << 20), "more"), (b"x y\n" * 65537, "more lines")):
        ok(simple([b"src/a.c"], {b"src/a.c": NEW}, base=of(attrs)),
           "attribute", "%r" % attrs[:40], word)
    ok(simple([b"src/a.c"], {}, base=of(b"*.c filter=lfs")), "",
       "what a filter made is gone")
    ok(simple([b"README"], {b"README": NEW}, base=of(b"*.c filter=lfs")), "",
       "a filter of other files")
    ok(simple([b"src/a.c"], {b"src/a.c": NEW}, base=Base(
        {**HERE, b"src/.gitattributes": (LINK_MODE, b"x")})), "attribute",
       "attributes that are a link", "no file")
    ok(simple([b"src/a.c"], {b"src/a.c": NEW}, base=Base(
        {**HERE, b"src/.gitattributes/x": NEW})), "attribute",
       "attributes that are a directory", "no file")
    slow = b"\n".join(b"%s%d text" % (b"*a" * 900, i) for i in range(500))
    ok(simple([b"a" * n for n in (250, 251, 252)], {}, base=of(slow)),
       "attribute", "patterns that match for ever", "too long")
    many = b"\n".join([b"* " + b"a " * 1000] * 500)
    ok(simple([b"%d" % i for i in range(1100)], {}, base=of(many)),
       "attribute", "attributes that are more than files", "too long")
    big = of(b"* text")
    ok(simple([b"f"], [rec(FILE, b"f", size=(64 << 20) + 1)], base=big),
       "too_large", "line ends in more than 64 MiB", "64 MiB")
    auto = of(b"* text=auto", {b"f": (TEXT, b"a\r\n" * 3)})
    names, new = [b"f"], {b"f": (TEXT, b"b\r\n")}
    some = b"".join(line(i, *auto.objects[i]) for i in auto.needed(names)
                    if auto.objects[i][1] != auto.files[b"f"][1])
    ok(simple(names, new, base=auto, text=some), "too_large",
       "line ends that depend on what was not given", "base's file")
    ok(simple(names, {b"f": (TEXT, b"b\n")}, base=auto, text=some), "",
       "line ends that do not")


def lies():
    names, files = [b"src/a.c"], {b"src/a.c": NEW}
    good = here.batch(names)
    real, = (here.objects[i] for i in [here.dirs[b"src/"]])

    def base(text, what, word="", before=b"", **asked):
        ok(publish(here, names, files, text=text, before=before, **asked),
           "base", what, word)

    base(b"", "nothing", "commit is not there")
    base(good[:-1], "the last line without its end")
    for cut in 10, 60, 200, len(good) // 2:
        base(good[:cut], "cut at %d" % cut)
    base(good.replace(b"int a", b"int z"), "a byte of a blob", "id")
    base(good.replace(b"100644 a.c", b"100755 a.c"), "a mode in a tree", "id")
    base(good.replace(b"README", b"README".lower()), "a name in a tree", "id")
    base(good.replace(b"base\n", b"baze\n"), "a letter of the commit", "id")
    base(good.replace(b" tree ", b" blob ", 1), "a tree as a blob", "id")
    base(good.replace(here.commit.encode(), b"0" * 40), "another commit")
    base(good.replace(line(here.dirs[b"src/"], *real), b""),
         "without a directory", "directory")
    base(good + b"x\n", "one line more")
    base(good + b"a b c d\n", "a line of four words")
    base(good + b"%s blob 9999999999999999999999\n" % (b"1" * 40),
         "a size past all numbers", "larger")
    base(good + b"%s blob %d\n" % (b"1" * 40, 65 << 20), "a size of 65 MiB",
         "larger")
    base(good + b"%s blob 1000\nx" % (b"1" * 40), "a size past the end",
         "cut off")
    base(good + b"%s blob -1\n\n" % (b"1" * 40), "a size below zero")
    base(good + b"%s blob 01\nx\n" % (b"1" * 40), "a size of two forms")
    base(good + line(oid("sha1", b"tag", b"x"), b"tag", b"x"), "a tag",
         "type")
    base(good + line("2" * 64, b"blob", b""), "an id of the other format")
    base(good + b"y" * 9000 + b" missing\n", "a line of 9,000 bytes")
    base(good, "an offset past the end", base_offset=1 << 40)
    base(good, "a length past the end", "", base_length=len(good) + 1)
    base(good, "a length past all files", "more", base_length=1 << 63)
    base(good, "an offset past all files", "more", base_offset=1 << 63)
    def later(fd):
        os.pwrite(fd, b"z", good.index(b"int a") + 4)
        return b""

    # more than a pipe holds: when it is gone, the base was read
    ok(publish(here, [b"new"] + names, [
        rec(FILE, b"new", b"x\n" * 500000), later,
        rec(FILE, names[0], NEW[1]) + OVER]), "base",
       "a byte that is another one when it is read again", "file cannot")
    extra = line(oid("sha1", b"blob", b"more"), b"blob", b"more")
    ok(publish(here, names, files, text=extra + good + extra + good +
               b"HEAD:x y missing\n"), "", "more than was asked for")
    ok(publish(here, names, files, before=b"tip - default - format sha1\n"),
       "", "what is not at the file's begin")
    for body, what in (
            (b"100644 a\0" + b"1" * 19, "an entry cut off"),
            (b"100644 a" + b"1" * 30, "a name without its end"),
            (b"100644 \0" + b"1" * 20, "an empty name"),
            (b"100644 a/b\0" + b"1" * 20, "a slash in a name"),
            (b"0100644 a\0" + b"1" * 20, "a mode with a zero before"),
            (b"140000 a\0" + b"1" * 20, "a mode of a socket"),
            (b"100644 b\0" + b"1" * 20 + b"100644 a\0" + b"1" * 20,
             "bad order"),
            (b"100644 a\0" + b"1" * 20 + b"100644 a\0" + b"1" * 20,
             "a name twice"),
            (b"100644 a\0" + b"1" * 20 + b"100644 a-\0" + b"1" * 20 +
             b"40000 a\0" + b"1" * 20, "a file and a directory of a name")):
        liar = Base({})
        liar.tree = liar.dirs[b""] = liar.add(b"tree", body)
        liar.commit = liar.add(b"commit", b"tree %s\n\nx" %
                               liar.tree.encode())
        ok(publish(liar, [b"x"], {b"x": NEW}), "base", what, "none that git")
    for text in b"tree x\n\n", b"parent " + b"1" * 40, b"", b"tree " + \
            b"1" * 40, b"tree " + b"1" * 64 + b"\n":
        liar = Base({})
        liar.commit = liar.add(b"commit", text)
        ok(publish(liar, [b"x"], {b"x": NEW}), "base", "the commit %r" % text,
           "no tree")


def streams():
    one = [b"README"]
    for files, step, what in (
            (rec(FILE, b"other", b"1") + OVER, "path", "what is not declared"),
            (rec(FILE, b"README", b"1") * 2 + OVER, "path", "a file twice"),
            (rec(FILE, b"README", b"12", size=3), "suite", "a file cut"),
            (rec(FILE, b"README", b"1"), "suite", "no end"),
            (rec(3, b"README") + OVER, "suite", "a directory"),
            (rec(9, b"README") + OVER, "suite", "an unknown record"),
            (rec(0, b"", b"x") + OVER, "suite", "data behind the end"),
            (b"\1\1", "suite", "half a head"),
            (rec(LINK, b"README", b"x" * 5000) + OVER, "suite",
             "a link's text of 5000 bytes"),
            (rec(FILE, b"README\0x") + OVER, "suite", "a zero"),
            (rec(FILE, b"README", size=3 << 30), "too_large", "3 GiB")):
        ok(publish(here, one, files), step, "a stream: " + what)
    big = os.urandom(1 << 20) * 3 + b"end"
    j = publish(here, one, {b"README": (TEXT, big)})
    tap.ok(j.out and j.out[b"files/README"] == (FILE, 0o644, big),
           "a large file is written as it is", j.m)
    j.end()
    j = publish(here, [b"d/x"], {b"d/x": (0o100711, b"1")})
    tap.ok(j.out and j.out[b"files/d/x"] == (FILE, 0o644, b"1"),
           "modes are git's", j.m)
    j.end()


def commits():
    def of(what, step="malformed", **asked):
        return ok(publish(here, [b"x"], {b"x": NEW}, **asked), step, what)

    for author in ("", "x", "A <a@b", "A a@b>", "<a@b>", " <a@b>", "A<a@b>",
                   "A <a@b> x", "A <a b>", "A\nparent x <a@b>", "A <a@b\n>",
                   "A <>", "A <a@b> <c@d>", "A <a@<b>", "A\x7f <a@b>"):
        of("the author %r" % author, author=author)
    of("a time past all calendars", time=1 << 40)
    for parent in "x", "1" * 39, "1" * 64, "G" * 40, here.commit:
        of("the second parent %r" % parent, parent2=parent)
    of("the base in capitals", base=here.commit.upper())
    of("a short base", base="12")
    for message in b"", b"\n\n", b"a\0b", b"\xff\n", b"x" * 70000:
        of("the message %r" % message[:20], message=message)
    of("a fingerprint of another form", waived=["x"])
    for message, want in ((b"m", b"m\n"), (b"m\n\n\n", b"m\n"),
                          (b" m\r\n\tb \n", b" m\r\n\tb \n")):
        j = publish(here, [b"x"], {b"x": NEW}, message=message, theirs=other,
                    fork=other)
        text = pubjudge.commit_bytes(j.m["tree"], here.commit, other.commit,
                                     want)
        tap.ok(j.out and j.out.get(b"commit") == (FILE, 0o644, text) and
               j.m["commit"] == oid("sha1", b"commit", text),
               "the message %r with two parents" % message, j.m)
        j.end()
    ok(publish(here, [b"README"], {b"README": HERE[b"README"]}, theirs=other,
               fork=other), "", "a merge that changes nothing")


def merges():
    """What the second parent has just so is not ours."""
    token = b"token = ghp_" + b"16C7e42F292c6912E7710c838347Ae178B4a\n"
    theirs = Base({**{k: v for k, v in HERE.items() if k != b"src/b.c"},
                   b".github/w.yml": (TEXT, b"on: theirs\n"),
                   b"keys": (TEXT, token), b"l": (LINK_MODE, b"x"),
                   b"sub": (SUBMODULE, b"56" * 20), b"readme": (TEXT, b"r"),
                   b"src/a.c": (EXEC, b"int a;\n"), b"new/x": (TEXT, b"x")})
    gone, w = [b"src/b.c"], b".github/w.yml"
    came = [b".github/w.yml", b"keys", b"l", b"sub", b"readme", b"src/a.c",
            b"new/x"]

    def of(what, step, names, files, merged=(), word="", left=(), **asked):
        merged = list(merged) + [n for n in (w, b"l", b"sub") if n not in (
            *names, *merged, *left)]
        j = publish(here, names, files, theirs=theirs, merged=merged, **asked)
        tree = (j.m or {}).get("tree")
        return ok(j, step, what, word), tree

    m, tree = of("all that it changed", "", [], {}, came + gone)
    tap.ok(tree == theirs.tree and m["added"] == 4 and m["deleted"] == 1 and
           m["modified"] == 3, "is its tree", m)
    m, tree = of("with something of our own", "", [b"mine"], {b"mine": NEW},
                 came + gone)
    tap.ok(tree == Base({**theirs.files, b"mine": NEW}).tree, "is both")
    of("a secret that it has", "", [b"keys"], {b"keys": (TEXT, token)})
    of("the same, and one byte", "secret", [b"keys"],
       {b"keys": (TEXT, token + b"\n")})
    of("the same in a file of another name", "secret", [b"mine"],
       {b"mine": (TEXT, token)}, came)
    of("a secret that it has, beside one that it has not", "secret",
       [b"keys", b"mine"], {b"keys": (TEXT, token), b"mine": (TEXT, token)})
    of("a workflow that it has", "", [w], {w: theirs.files[w]})
    of("the same, and one byte", "sensitive", [w],
       {w: (TEXT, theirs.files[w][1] + b"\n")})
    of("the same, another mode", "sensitive", [w], {w: (EXEC,
                                                       theirs.files[w][1])})
    of("a workflow as the base has it", "sensitive", [w, b"mine"],
       {w: HERE[w], b"mine": NEW})
    of("a link that it has", "", [b"l"], {b"l": (LINK_MODE, b"x")})
    of("another link", "sensitive", [b"l"], {b"l": (LINK_MODE, b"y")})
    of("a workflow that goes", "sensitive", [w], {})
    of("what it deleted", "", gone, {})
    of("what neither has", "merge", [], {}, [b"nix"], "neither")
    of("what is merged comes from a sandbox", "path", [], {b"keys": NEW},
       [b"keys"], "not declared")
    of("what is merged away comes", "path", [], {b"src/b.c": NEW}, gone,
       "not declared")
    of("a name twice", "path", [b"keys"], {b"keys": NEW}, [b"keys"], "twice")
    of("more names than there are", "malformed", [b"x"], {b"x": NEW},
       left=[w, b"l", b"sub"], merged_count=2)
    ok(publish(here, [b"x"], {}, merged_count=1), "malformed",
       "merged, and no second parent")

    # from another branch than the default one it is as if it was declared
    for name in w, b"l", b"sub":
        of("%r, of any branch" % name, "sensitive", [], {}, [name], allow=0)
    ok(publish(here, [], {}, theirs=Base({**HERE, b"keys": (TEXT, token)}),
               merged=[b"keys"], allow=0), "", "a file of any branch")

    # nor is it undone for who merges this into that branch
    for name in w, b"l", b"sub":
        of("%r is left out" % name, "sensitive", [], {}, gone, "leaves",
           [name])
    for change in {w: None}, {b"docs/CODEOWNERS": NEW}, {
            b"deep/er/.gitattributes": NEW}, {b".github": NEW, w: None}, {
            b"src/a.c": (LINK_MODE, b"x")}, {b"src": (LINK_MODE, b"x"),
                                             **{k: None for k in HERE if
                                                k[:4] == b"src/"}}:
        new = Base({k: v for k, v in {**HERE, **change}.items() if v})
        for on, what in (here, "left out"), (new, "there already"):
            ok(publish(on, [b"x"], {b"x": NEW}, theirs=Base({
                **new.files, b"n": NEW}), fork=here),
               "sensitive" if on is here else "",
               "%r of theirs is %s" % (sorted(change), what))
        ok(publish(here, [b"x"], {b"x": NEW}, theirs=Base({
            **new.files, b"n": NEW}), fork=new), "",
           "%r is of this side" % sorted(change))
    ok(publish(here, [b"x"], {b"x": NEW}, theirs=Base({**HERE, w: NEW}),
               allow=SENSITIVE), "", "where it is permitted")
    of("a workflow that it has, of any branch", "sensitive", [w],
       {w: theirs.files[w]}, allow=0)

    # what this side changed since both parted is not undone by a merge
    old = Base({k: v for k, v in HERE.items() if k not in (w, b"src/b.c")})
    for what, theirs_, fork in (
            ("an own ancestor", old, old),
            ("a branch that has not got it", Base({**old.files, b"n": NEW}),
             old),
            ("a branch of no common history", old, Base({}))):
        for name in w, b"src/b.c":
            ok(publish(here, [], {}, theirs=theirs_, fork=fork,
                       merged=[name]), "merge", "%r is taken away by %s" % (
                           name, what))
        ok(publish(here, [w], {}, theirs=theirs_, fork=fork), "sensitive",
           "a workflow is deleted as in " + what)
    ok(publish(here, [], {}, theirs=theirs, fork=Base({
        **HERE, b"src/a.c": NEW}), merged=[b"src/a.c"]), "merge",
       "what both sides changed", "declare")
    ok(publish(here, [], {}, theirs=theirs, fork=theirs, merged=[b"new/x"]),
       "merge", "what this side deleted")
    ok(publish(here, [b"x"], {b"x": NEW}, theirs=theirs, fork="no",
               text=here.batch([b"x"]) + theirs.batch([b"x"])), "malformed",
       "no commit where both parted")

    # its attributes where they are merged, the base's where not
    lfs = Base({**HERE, b".gitattributes": (TEXT, b"*.c filter=lfs\n"),
                b"src/a.c": (TEXT, b"pointer\n")})
    for merged, step in ([b".gitattributes"], "attribute"), ([], ""):
        ok(publish(here, [b"src/b.c"], {b"src/b.c": NEW}, theirs=lfs,
                   merged=merged, allow=SENSITIVE | pubjudge.UPSTREAM), step, "attributes that %s merged" % (
                       "are" if merged else "are not"))
    ok(publish(here, [b"src/a.c"], {b"src/a.c": (TEXT, b"pointer\n")},
               theirs=lfs, merged=[b".gitattributes"]), "",
       "a filtered file as it has it")

    # it cannot be another tree than that commit's
    text = theirs.batch(came)
    for what, lie in (
            ("a blob's id in its tree", text.replace(
                bytes.fromhex(oid("sha1", b"blob", token)), b"\1" * 20)),
            ("another commit", text.replace(b"base\n", b"baze\n")),
            ("no commit", b""), ("no directory", text.replace(line(
                theirs.dirs[b"new/"], *theirs.objects[theirs.dirs[b"new/"]]),
                b""))):
        ok(publish(here, [], {}, text=here.batch(came) + lie, names_raw=b"".join(
            n + b"\0" for n in came), parent2=theirs.commit,
            fork=here.commit, merged_count=len(came)), "base", "a lie: " + what)


def secrets():
    token = b"ghp_" + b"16C7e42F292c6912E7710c838347Ae178B4a"
    dirty = (TEXT, b"a\nb\n\ntoken = \"" + token + b"\"\n")

    def of(what, step, files, on=here, **asked):
        return ok(publish(on, list(files), files, **asked), step, what)

    m = of("a token", "secret", {b"README": dirty, b"x": NEW})
    found = m["findings"]
    tap.ok(m["total"] == 1 and len(found) == 4 and found[1:3] ==
           ["README", "4"] and len(found[3]) == 64 and
           token.decode() not in str(m), "it is told without itself", m)
    m = of("one that is waived", "", {b"README": dirty}, waived=[found[3]])
    tap.ok((m["nwaived"], m["waived"], m["total"]) == (1, found, 0),
           "is told of, too", m)
    of("it in another file", "secret", {b"x": dirty}, waived=[found[3]])
    of("another", "secret", {b"README": (TEXT, dirty[1].replace(
        b"16C7", b"29D8"))}, waived=[found[3]])
    agreed = json.dumps({"version": "1", "results": {"x": [{
        "type": "t", "hashed_secret": hashlib.sha1(token).hexdigest()}, {
        "hashed_secret": 1}], "y": 1}}).encode()
    with_it = Base({b".secrets.baseline": (TEXT, agreed)})
    of("one of the base's baseline", "", {b"README": dirty}, on=with_it)
    of("another than that of it", "secret", {b"README": (
        TEXT, dirty[1].replace(b"16C7", b"29D8"))}, on=with_it)
    of("one of a baseline that is published itself", "secret", {
        b"README": dirty, b".secrets.baseline": (TEXT, agreed)},
       allow=SENSITIVE)
    of("a baseline", "sensitive", {b".Secrets.baseline": (TEXT, b"{}")})
    for what, text in (("cut", agreed[:-1]),
                       ("of too many values", agreed[:-1] + b', "z": [' +
                        b"1," * (1 << 18) + b"1]}"), ("of another form", b"[]"),
                       ("a link", None)):
        of("a baseline that is " + what, "secret", {b"README": dirty},
           on=Base({b".secrets.baseline": (TEXT, text) if text else
                    (LINK_MODE, agreed)}))
    of("a baseline below the root", "secret", {b"README": dirty},
       on=Base({b"d/.secrets.baseline": (TEXT, agreed)}))
    was = Base({b"README": dirty})
    of("one that the base has", "", {b"README": (TEXT, dirty[1] + b"c\n")},
       on=was)
    ok(publish(was, [b"README"], {b"README": (TEXT, dirty[1] + b"c\n")},
               text=was.batch([])), "secret",
       "one that the base may have, its file not given")
    m = of("in a link", "secret", {b"l": (LINK_MODE, b"token=" + token)},
           allow=SENSITIVE)
    m = of("in a new path", "secret", {b"d/" + token + b".png": NEW, b"x": NEW})
    tap.ok(m["total"] == 1 and m["findings"][1:3] == [
        "d/%s.png" % token.decode(), "1"], "which is named", m)
    named = Base({b"d/" + token: NEW})
    of("in a path that the base has", "", {b"d/" + token: (TEXT, b"x")},
       on=named)
    of("in the message", "secret", {b"x": NEW}, message=b"m " + token)
    of("in the author", "secret", {b"x": NEW},
       author="%s <a@b>" % token.decode())
    crlf = Base({b".gitattributes": (TEXT, b"* text")})
    of("in a file whose line ends change", "secret",
       {b"x": (TEXT, dirty[1].replace(b"\n", b"\r\n"))}, on=crlf)
    many = {b"f%d" % i: (TEXT, dirty[1].replace(b"16C7", b"1%03d" % i))
            for i in range(80)}
    m = of("eighty", "secret", many)
    tap.ok(m["total"] == 80 and len(m["findings"]) == 256,
           "all are counted, sixty-four are told", m["total"])
    m = of("those waived", "secret", many, waived=m["findings"][3::4])
    tap.ok((m["total"], m["nwaived"], len(m["findings"]),
            len(m["waived"])) == (16, 64, 64, 256), "the others are told", m)
    long = b"".join(b"%s\n" % token.replace(b"16C7", b"%04d" % i)
                    for i in range(1100))
    limit = hashlib.sha256(b"scan-limit\0x\0\0").hexdigest()
    m = of("more than are looked for", "secret", {b"x": (TEXT, long)},
           waived=[limit])
    tap.ok((m["total"], m["nwaived"]) == (1001, 0), "which is not waived", m)
    of("it where it stays as it is", "", {b"README": dirty, b"n": NEW}, on=was)
    rules = b'[[rules]]\nid = "mine"\nregex = \'\'\'zq[0-9]{4}\'\'\'\n'
    m = of("by rules of the operator's", "secret",
           {b"x": (TEXT, b"zq1234\n")}, rules=rules)
    tap.ok(m["findings"][:3] == ["mine", "x", "1"], "which are named", m)
    m = of("rules that are none", "malformed", {b"x": NEW}, rules=b"[[[")
    tap.ok("rules" in m["reason"], "which is said", m)


ARMOR = ("-----BEGIN SSH SIGNATURE-----\nAAAA+/0=\nBB==\n"
         "-----END SSH SIGNATURE-----\n")


def signatures():
    for on, word in ((here, b"gpgsig"), (Base({b"README": HERE[b"README"]},
                                              "sha256"), b"gpgsig-sha256")):
        j = publish(on, [b"x"], {b"x": NEW}, allow=2, sign=lambda c: ARMOR)
        plain = pubjudge.commit_bytes(j.m["tree"], on.commit)
        tap.ok(j.unsigned == plain, "the commit is shown as it is", j.m)
        head, _, body = plain.partition(b"\n\n")
        text = head + b"\n" + word + b" " + ARMOR.strip().replace(
            "\n", "\n ").encode() + b"\n\n" + body
        tap.ok(j.m["step"] == "" and j.out.get(b"commit") == (
            FILE, 0o644, text) and j.m["commit"] == oid(on.fmt, b"commit",
                                                        text),
               "and made with its signature: %s" % word.decode(), j.m)
        j.end()
    for what, bad in (("none", ""), ("another's", ARMOR.replace("SSH", "PGP")),
                      ("of no line", ARMOR.replace("AAAA+/0=\nBB==\n", "")),
                      ("a long line", ARMOR.replace("AAAA", "A" * 80)),
                      ("a header", ARMOR.replace("BB==", "BB==\nparent x")),
                      ("a blank line", ARMOR.replace("BB", "\nBB")),
                      ("more behind it", ARMOR + "x"), ("not ended",
                                                       ARMOR[:-6])):
        ok(publish(here, [b"x"], {b"x": NEW}, allow=2,
                   sign=lambda c, bad=bad: bad), "sign", "a signature: " +
           what)
    j = publish(here, [b"x"], {b"x": NEW})
    j.ch.send("JUDGE_SIGNED", 0, signature=ARMOR)
    tap.ok(j.p.wait(10) == 3, "a signature that nobody asked for ends it")


def folds():
    """The table of names that are one is what python says they are."""
    src = os.environ["SBX_SRC"]
    made = subprocess.run(
        [sys.executable, os.path.join(src, "contrib", "mkfold.py")],
        check=True, capture_output=True, timeout=60).stdout
    with open(os.path.join(src, "sbxd", "judge", "fold.def"), "rb") as f:
        have = f.read()
    if made.split(b"\n", 1)[0] != have.split(b"\n", 1)[0]:
        tap.absent("fold.def is of another Unicode than this python")
    else:
        tap.ok(made == have, "fold.def is of Unicode's tables")


def order():
    """One tree or one publication, once, in order."""
    null = os.open("/dev/null", os.O_RDWR)

    def after(*messages):
        mine, theirs = ipc.pair()
        p = ipc.spawn(os.path.join(os.environ["SBX_BUILD"], "sbxd-judge"),
                      theirs)
        ch = ipc.Chan(mine)
        ch.recv(10, "HELLO")
        for name, n in messages:
            fds = [null] * n
            try:
                ch.send(name, 0, fds)
            except ipc.Closed:
                break
        return p.wait(10) == 3

    publication, files = ("JUDGE_PUBLISH", 4), ("JUDGE_FILES", 2)
    tap.ok(after(files), "files before their publication end it")
    tap.ok(after(publication, publication), "a second publication ends it")
    tap.ok(after(publication, ("JUDGE_TREE", 2)), "a tree after one ends it")
    tap.ok(after(publication, ("JUDGE_REPORT", 1)), "a report, too")
    tap.ok(after(("JUDGE_TREE", 2), publication),
           "a publication after a tree ends it")
    j = publish(here, [b"x"], {b"x": NEW})
    j.ch.send("JUDGE_FILES", 0, (null, null))
    tap.ok(j.p.wait(10) == 3, "files twice end it")
    j = publish(here, [b"x"], {b"x": NEW})
    tap.ok(j.end() == 0, "it ends with its channel")
    os.close(null)


random_trees()
for check in (paths, ways, sensitive, attributed, lies, streams, commits,
              merges, secrets, signatures, folds, order):
    check()
tap.done()
sys.exit(tap.bad > 0)
