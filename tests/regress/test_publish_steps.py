#!/usr/bin/env python3
"""The scripts of a publisher, by themselves, with git and git-http-backend: what
they say of a base is all of it, what they build is what was declared, and what
they push is that.  One test is one function."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress       # noqa: E402
import fakegithub   # noqa: E402
import mcp          # noqa: E402

tap = mcp.Tap()
ok = tap.ok
BUILD = os.environ["SBX_BUILD"]
ODD = ["-n", "a b", 'q"u', "n\nl", "t\tt", "ä/ö", "*", ":(top)x", "\\back",
       "sub/-d/x", "%s", "$(id)", "b\xff".encode("latin-1").decode(
           "utf-8", "surrogateescape")]


def enc(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


class World:
    def __init__(self):
        out = subprocess.run([BUILD + "/publish-steps"], check=True,
                             stdout=subprocess.PIPE).stdout.decode()
        v = out.split("\0")
        n = 3 * [x.isdigit() for x in v[1::3]].index(False)
        self.scripts = {v[i]: v[i + 2] for i in range(0, n, 3)}
        self.steps = set(v[n::3]) - {""}
        self.ca = egress.Authority()
        self.gh = fakegithub.Github(self.ca, enterprise="localhost",
                                    validate=False)
        # who may is not what is looked at here
        self.gh._may_git = lambda *a: None  # pylint: disable=W0212
        self.n = 0

    def repo(self, files=None, sha256=False, name=None):
        self.n += 1
        r = self.gh.repo("localhost/o/r%d" % self.n)
        if sha256:
            shutil.rmtree(r.path)
            r.git("init", "-q", "--bare", "-b", "main",
                  "--object-format=sha256", r.path, at=None)
            for k in ("http.receivepack", "uploadpack.allowFilter",
                      "uploadpack.allowAnySHA1InWant"):
                r.git("config", k, "true")
        if files:
            commit(r, files)
        r.url = "https://localhost:%d/o/r%d" % (self.gh.port, self.n)
        return r

    def close(self):
        self.gh.close()
        self.ca.close()


W = None


def commit(r, files, ref="refs/heads/main", base=None):
    """as Repo.commit(), with any path"""
    out = b"commit %s\ncommitter T <t@example.invalid> 1700000000 +0000\n" \
        b"data 1\nm\n" % enc(ref)
    if base:
        out += b"from %s\n" % base.encode()
    for path, text in files.items():
        path = b'"' + b"".join(b"\\%03o" % c for c in enc(path)) + b'"'
        if text is None:
            out += b"D %s\n" % path
            continue
        mode, text = text if isinstance(text, tuple) else ("100644", text)
        out += b"M %s inline %s\ndata %d\n%s\n" % (
            mode.encode(), path, len(enc(text)), enc(text))
    r.git("fast-import", "--quiet", "--force", data=out)
    return r.tip(ref)


class Publisher:
    """a sandbox, but for what it is"""

    def __init__(self, r, names):
        self.r, self.names = r, names
        self.dir = tempfile.mkdtemp(prefix="publisher-")
        # what others would have git do
        with open(self.dir + "/.gitconfig", "w") as f:
            f.write('[url "https://nowhere.invalid/"]\ninsteadOf = https://\n'
                    "[core]\nhooksPath = %s\nautocrlf = true\n" % self.dir)
        with open(self.dir + "/pre-push", "w") as f:
            f.write("#!/bin/sh\ntouch %s/hooked\n" % self.dir)
        os.chmod(self.dir + "/pre-push", 0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, name, *args):
        """the one line"""
        script = W.scripts[name].replace("/workspace", self.dir)
        p = subprocess.run(
            ["bash", "-c", script, "publish", *args], cwd="/",
            input=b"".join(enc(n) + b"\0" for n in self.names),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
            env={"PATH": os.environ["PATH"], "HOME": self.dir,
                 "GIT_SSL_CAINFO": W.ca.dir + "/root.pem"})
        self.err = p.stderr.decode("utf-8", "replace")
        out = p.stdout.decode()
        if name == "show" and not p.returncode and not out.startswith("no "):
            return out
        if p.returncode or out.count("\n") != 1 or len(out) > 1024:
            return "broken: %d %r %r" % (p.returncode, out, self.err)
        return out.rstrip("\n")

    def fetch(self, base, branch="topic", second="-", merged="main",
              brought=0):
        return self.run("fetch", self.r.url, base, branch, second,
                        merged if second != "-" else "-",
                        str(len(self.names) - brought))

    def build(self, base, second="-", brought=0):
        return self.run("build", base, second,
                        str(len(self.names) - brought))

    def objects(self):
        """what was left for the judge: {id: (type, bytes)}"""
        with open(self.dir + "/base", "rb") as f:
            data = f.read()
        out, at = {}, 0
        while at < len(data):
            end = data.index(b"\n", at)
            oid, kind, size = data[at:end].decode().split(" ")
            out[oid] = kind, data[end + 1:end + 1 + int(size)]
            at = end + 2 + int(size)
        return out

    def git(self, *args, data=None):
        return subprocess.run(
            ["git", "--git-dir", self.dir + "/repo", *args], check=True,
            input=data, stdout=subprocess.PIPE,
            env=dict(W.gh.env())).stdout.decode().strip()

    def put(self, files, base, tree, parents=()):
        """as the judge writes it"""
        for path, text in files.items():
            p = os.path.join(enc(self.dir), b"in/files", enc(path))
            os.makedirs(os.path.dirname(p), exist_ok=True)
            mode, text = text if isinstance(text, tuple) else (
                "100644", text)
            if mode == "120000":
                os.symlink(enc(text), p)
                continue
            with open(p, "wb") as f:
                f.write(enc(text))
            os.chmod(p, int(mode[-3:], 8))
        os.makedirs(self.dir + "/in", exist_ok=True)
        with open(self.dir + "/in/commit", "w") as f:
            f.write("tree %s\n" % tree + "".join(
                "parent %s\n" % p for p in (base, *parents)) +
                "author A <a@b.c> 1 +0000\ncommitter A <a@b.c> 1 +0000\n\n"
                "a message\n")


def whole(r, base, files):
    """the tree of an ordinary commit of them"""
    return r.git("rev-parse", commit(r, files, "refs/judge/x", base) +
                 "^{tree}")


def publish(p, files, base, branch="topic", second="-", force="0",
            brought=()):
    """the line of each step; the last one that was"""
    said = p.fetch(base, branch, second, brought=len(brought))
    m = re.fullmatch(r"tip (\S+) default (\S+) format (\S+) like (\S+) "
                     r"fork (\S+)", said)
    if not m:
        return [said]
    tree = whole(p.r, base, {**files, **dict(brought)})
    p.put({k: v for k, v in files.items() if v is not None}, base, tree,
          [] if second == "-" else [second])
    built = p.build(base, second, len(brought))
    n = re.fullmatch("tree (%s) commit ([0-9a-f]+)" % tree, built)
    if not n:
        return [said, built, "want %s" % tree]
    return [said, built, p.run("push", p.r.url, n[2], branch, m[1], force),
            n[2]]


def landed(p, v, what, branch="topic"):
    good = len(v) == 4 and v[2].startswith("at %s said ok" % v[3]) and \
        p.r.tip("refs/heads/" + branch) == v[3]
    ok(good, what, (v, p.err))
    ok(not os.path.exists(p.dir + "/hooked"), what + ": no hook ran")
    return good


# --- what arrives ---------------------------------------------------------------

def test_new_branch():
    r = W.repo({"a": "1\n", "d/b": "2\n", "d/.gitattributes": "* text\n",
                ".secrets.baseline": "{}\n", "other/c": "3\n",
                "other/.secrets.baseline": "{ }\n"})
    base = r.tip()
    with Publisher(r, ["a", "d/e/new", "d/b"]) as p:
        n = len(W.gh.log)
        v = publish(p, {"a": "one\n", "d/e/new": "new\n", "d/b": None}, base)
        landed(p, v, "a new branch")
        ok(v[0] == "tip - default main format sha1 like - fork -", "what is there",
           v)
        have = p.objects()
        want = [base] + [r.git("rev-parse", base + x) for x in (
            "^{tree}", ":d", ":.secrets.baseline", ":d/.gitattributes", ":a",
            ":d/b")]
        ok(list(have)[:5] == want[:5] and set(have) == set(want),
           "the base's objects on the way, and no others", have)
        ok(r.git("show", "topic:a") == "one" and r.git(
            "ls-tree", "-r", "--name-only", "topic").split() ==
            [".secrets.baseline", "a", "d/.gitattributes", "d/e/new",
             "other/.secrets.baseline", "other/c"], "is there")
        asked = [(x.method, x.path.split("/")[-1]) for x in W.gh.log[n:]]
        ok(("POST", "git-receive-pack") in asked and len(asked) <= 14,
           "in so many requests", asked)
        # once more: it is there already
    with Publisher(r, ["a", "d/e/new", "d/b"]) as p:
        v = p.fetch(base)
        ok(v == "tip %s default main format sha1 like %s fork -" % (
            r.tip("refs/heads/topic"), r.git("rev-parse", "topic^{tree}")),
           "a publication that landed is known again", v)


def test_existing_branch():
    r = W.repo({"a": "1\n"})
    base = commit(r, {"a": "2\n"}, "refs/heads/topic", r.tip())
    with Publisher(r, ["a"]) as p:
        landed(p, publish(p, {"a": "3\n"}, base), "on a branch that exists")
    old = base
    with Publisher(r, ["b"]) as p:
        v = p.fetch(r.tip())
        ok(v == "tip %s default main format sha1 like - fork -" %
           r.tip("refs/heads/topic"), "it moved: that is said", v)
        base = r.tip("refs/heads/topic")
        commit(r, {"c": "c\n"}, "refs/heads/topic", base)
        v = publish(p, {"b": "b\n"}, base)
    with Publisher(r, ["b"]) as p:
        tip = r.tip("refs/heads/topic")
        v = p.fetch(tip)
        tree = whole(r, tip, {"b": "b\n"})
        p.put({"b": "b\n"}, tip, tree)
        n = p.build(tip).split(" ")[-1]
        moved = commit(r, {"c": "d\n"}, "refs/heads/topic", tip)
        v = p.run("push", r.url, n, "topic", tip, "0")
        ok(v.startswith("at %s said no" % moved) and "fetch first" in v,
           "it moves before the push: refused", (v, p.err))
        v = p.run("push", r.url, n, "topic", tip, "1")
        ok(v.startswith("at %s said no" % moved), "also by force", v)
        v = p.run("push", r.url, n, "topic", moved, "1")
        ok(v.startswith("at %s said ok" % n), "by force, from there", v)
    ok(old != tip, "two commits")


def test_old_base():
    """The base is the tip of nothing any more."""
    files = {"d%d/f%d" % (i, j): "%d %d\n" % (i, j) for i in range(5)
             for j in range(20)}
    r = W.repo(files)
    base = r.tip()
    commit(r, {"d0/f0": "moved on\n"}, base=base)
    with Publisher(r, ["d1/f1"]) as p:
        landed(p, publish(p, {"d1/f1": "mine\n"}, base),
               "on a commit that is no tip")
        got = p.git("cat-file", "--batch-check", "--batch-all-objects")
        ok(got.count(" blob ") == 21, "and no blob of another directory was "
           "fetched", got)


def test_base_of_fork():
    """What can be fetched by its id alone is no base: its workflows would be
    on a branch of the repository."""
    r = W.repo({"a": "1\n"})
    old = r.tip()
    side = commit(r, {"b": "1\n"}, "refs/heads/side", old)
    commit(r, {"b": "2\n"}, "refs/heads/side", side)
    commit(r, {"a": "2\n"}, base=old)
    fork = commit(r, {".github/w.yml": "evil\n"}, "refs/pull/1/head", old)
    for what, base, good in (
            ("a pull request of a fork", fork, False),
            ("an old commit of the default branch", old, True),
            ("an old one of another branch", side, True)):
        with Publisher(r, ["a"]) as p:
            v = p.fetch(base)
            ok(v.startswith("tip - ") if good else v.startswith(
                "no no_such_base it is not on a branch"), what, v)


def test_names():
    files = {n: "old %s" % i for i, n in enumerate(ODD)}
    for path, what in (("main", files), ("main2", {"x": "x"})):
        r = W.repo(what)
        with Publisher(r, ODD) as p:
            new = {n: "new %d\n" % i if i % 3 else None
                   for i, n in enumerate(ODD)}
            if path == "main2":
                new = {n: "new\n" for n in ODD}
            landed(p, publish(p, new, r.tip()), "odd names, %s" % path)


def test_modes():
    r = W.repo({"x": ("100755", "#!/bin/sh\n"), "l": ("120000", "x"),
                "f": "f\n"})
    new = {"x": "plain\n", "l": ("100644", "a file\n"),
           "f": ("100755", "f\n"), "m": ("120000", "nowhere\nat all"),
           "k": ("120000", "/etc/passwd")}
    with Publisher(r, list(new)) as p:
        landed(p, publish(p, new, r.tip()), "modes and links")
        out = r.git("ls-tree", "topic")
        ok([x.split()[0] for x in out.splitlines()] == [
            "100755", "120000", "100644", "120000", "100644"], "are there",
           out)


def test_many():
    files = {"d%d/f%d" % (i % 50, i): "%d\n" % i for i in range(2000)}
    r = W.repo(files)
    new = {k: v + "more\n" for k, v in files.items()}
    new["d3/f3"] = None
    with Publisher(r, list(new)) as p:
        landed(p, publish(p, new, r.tip()), "2,000 files")
        ok(len(p.objects()) == 2 + 50 + 2000, "all of their base is there",
           len(p.objects()))


def test_sha256():
    r = W.repo({"a": "1\n", "d/b": "2\n"}, sha256=True)
    with Publisher(r, ["d/b"]) as p:
        v = publish(p, {"d/b": "two\n"}, r.tip())
        landed(p, v, "a SHA-256 repository")
        ok("format sha256" in v[0], "is one", v)
    with Publisher(r, ["a"]) as p:
        v = p.fetch("a" * 40)
        ok(v.startswith("no fetch") or v.startswith("no no_such_base"),
           "no base of the other kind", v)


def test_merge():
    r = W.repo({"a": "1\n"})
    base = commit(r, {"b": "b\n"}, "refs/heads/topic", r.tip())
    other = commit(r, {"c": "c\n"}, base=r.tip())
    with Publisher(r, ["c"]) as p:
        v = publish(p, {"c": "c\n"}, base, second=other)
        landed(p, v, "a merge")
        ok(r.git("rev-parse", "topic^1", "topic^2").split() == [base, other],
           "has both parents")
    with Publisher(r, ["c"]) as p:
        v = p.fetch(base, second=other)
        ok(v.split()[-3:] == [r.git("rev-parse", "topic^{tree}"), "fork",
                              r.git("rev-parse", base + "^")],
           "and is known again", v)
        v = p.fetch(base)
        ok(v.split()[-3] == "-" or v.startswith("no "), "as that alone", v)


def test_merged():
    """What a merge brings is taken from the second parent, by id."""
    r = W.repo({"a": "1\n", "d/gone": "1\n", "d/stays": "1\n", "f": "1\n",
                "s/old": "1\n"})
    base = commit(r, {"a": "topic\n"}, "refs/heads/topic", r.tip())
    theirs = {"else/where/y": "y\n", "d/gone": None, "d/new": "new\n", "f": ("120000", "d"),
              "ä b": "odd\n", "s/old": None, "s": "a file\n",
              "big": "x" * 3000000}
    second = commit(r, {**theirs, ".gitattributes": "x\n"}, base=r.tip())
    names = ["d/gone", "d/new", "f", "s", "s/old", "ä b", "big"]
    for i in range(150):
        commit(r, {"later": "%d\n" % i}, base=r.tip())
    with Publisher(r, ["a", "mine"] + names) as p:
        os.makedirs(p.dir + "/in/files/d")
        for n in "d/new", "d/gone":     # what is not to be looked at
            with open(p.dir + "/in/files/" + n, "w") as f:
                f.write("other\n")
        v = publish(p, {"a": "both\n", "mine": "m\n"}, base, second=second,
                    brought=[(n, theirs[n]) for n in names])
        landed(p, v, "a merge of an older commit")
        ok(r.git("rev-parse", "topic^1", "topic^2").split() == [base, second]
           and r.git("diff", "--name-only", "topic", second).split() ==
           [".gitattributes", "a", "else/where/y", "mine"],
           "has its files without any being here")
        got = p.git("cat-file", "--batch-check", "--batch-all-objects")
        ok(got.count(" blob ") <= 6, "no blob of them was fetched", got)
        v = p.run("show", base, v[3])
        ok(v.startswith("files 2 added 2 deleted 1 cut 0\n") and
           "-topic\n+both\n" in v, "what is our own of it is shown", v)
        have = p.objects()
        want = [r.git("rev-parse", x) for x in (
            base, second, base + "^{tree}", second + "^{tree}", base + ":d",
            base + "^", base + "^^{tree}", base + "^:d", second + ":else",
            second + ":else/where",
            second + ":d", second + ":.gitattributes", base + ":a")]
        ok(set(want) <= set(have) and r.git("rev-parse", second + ":d/new")
           not in have, "the judge gets both parents' trees, and those of "
           "where they parted", have)


    with Publisher(r, names) as p:
        landed(p, publish(p, {}, base, "pure", second,
                          brought=[(n, theirs[n]) for n in names]),
               "a merge and nothing else", "pure")


def test_merged_lies():
    """A commit that can be fetched by its id is not one of a branch."""
    r = W.repo({"a": "1\n"})
    base = r.tip()
    commit(r, {"b": "1\n"}, base=base)
    fork = commit(r, {"evil": "1\n"}, "refs/pull/1/head", base)
    side = commit(r, {"side": "1\n"}, "refs/heads/side", base)
    with Publisher(r, ["evil"]) as p:
        for what, second, merged in (
                ("of no branch", fork, "main"),
                ("of another branch", side, "main"),
                ("of a branch that is not there", side, "nix"),
                ("of no branch by another name", fork, "../pull/1/head"),
                ("that is not there", "1" * 40, "main")):
            v = p.fetch(base, second=second, merged=merged, brought=1)
            ok(v.startswith("no merge"), "a second parent " + what, v)
            shutil.rmtree(p.dir + "/repo")
            shutil.rmtree(p.dir + "/line", ignore_errors=True)
        v = p.fetch(base, second=side, merged="side", brought=1)
        ok(v.startswith("tip - ") and v.endswith(" fork " + base),
           "of the branch that it is of", v)


def test_fork():
    """Where both sides parted, whatever is between."""
    r = W.repo({"a": "1\n"})
    old = r.tip()
    parted = commit(r, {"b": "1\n"}, base=old)
    commit(r, {"m": "1\n"}, base=parted)
    r.git("fast-import", "--quiet", data=b"".join(
        b"commit refs/heads/topic\ncommitter T <t@x.y> 1700000000 +0000\n"
        b"data 1\nm\n%sM 644 inline t\ndata 3\n%03d\n" % (
            b"" if i else b"from %s\n" % parted.encode(), i)
        for i in range(120)))
    base = r.tip("refs/heads/topic")
    alone = commit(r, {"a": "2\n"}, "refs/heads/alone")
    for what, second, merged, want in (
            ("the tip", r.tip(), "main", parted),
            ("an ancestor of the base", old, "main", old),
            ("of no common history", alone, "alone", "-")):
        with Publisher(r, ["a"]) as p:
            v = p.fetch(base, second=second, merged=merged, brought=1)
            ok(v.endswith(" fork " + want), what, v)
    with Publisher(r, ["a"]) as p:
        v = p.fetch("1" * 40, second=r.tip(), brought=1)
        ok(v.startswith("no no_such_base"), "no base to part from", v)


# --- what is shown ----------------------------------------------------------------

def shown(p, files, base):
    p.fetch(base)
    tree = whole(p.r, base, files)
    p.put({k: v for k, v in files.items() if v is not None}, base, tree)
    return p.run("show", base, p.build(base).split(" ")[-1])


def test_show():
    r = W.repo({"a": "1\n2\n", "d/b": "2\n", "bin": "\0old", "x y": "x\n",
                ".gitattributes": "* diff=evil\n", "same": "s\n"})
    base = r.tip()
    new = {"a": "1\nzwei\ndrei\n", "d/b": None, "bin": "\0new", "n\new":
           "+\x1b[31mred\n", "x y": ("100755", "x\n")}
    with Publisher(r, list(new)) as p:
        with open(p.dir + "/.gitconfig", "a") as f:
            f.write('[diff "evil"]\ntextconv = touch %s/hooked;cat\n'
                    "command = touch %s/hooked\n[diff]\nexternal = touch "
                    "%s/hooked\n" % (p.dir, p.dir, p.dir))
        v = shown(p, new, base)
        head, _, rest = v.partition("\n")
        ok(head == "files 5 added 3 deleted 2 cut 0", "what is changed, in "
           "numbers", v)
        raw, _, diff = rest.partition("\n\n")
        v = [x.split("\t") for x in raw.split("\n")]
        m = {x[1]: x[0].split(" ") for x in v if x[0][0] == ":"}
        n = [x for x in v if x[0][0] != ":"]
        ok(set(m) == {"a", "d/b", "bin", "x y", '"n\\new"'} and
           [x[2] for x in n] == list(m) and m["a"][2] == r.git(
               "rev-parse", base + ":a") and len(m["bin"][3]) == 40 and
           (m["x y"][1], m["d/b"][4], m['"n\\new"'][4]) == (
               "100755", "D", "A"), "each path, by modes and whole ids", raw)
        ok(["-", "-", "bin"] in n and ["2", "1", "a"] in n,
           "with its lines, where it has some", n)
        ok("-2\n+zwei\n+drei\n" in diff and "Binary files a/bin and b/bin"
           in diff and "deleted file mode 100644" in diff, "and the patch",
           diff)
        ok(not os.path.exists(p.dir + "/hooked"), "nothing was run for it")
    with Publisher(r, ["big"]) as p:
        v = shown(p, {"big": "a line of it\n" * 400000}, base)
        ok(v.startswith("files 1 added 400000 deleted 0 cut 1\n") and
           len(v) - v.index("\n\n") - 2 == 4 << 20, "a long one is cut",
           len(v))
    slow = W.scripts["show"]
    W.scripts["show"] = slow.replace("nums; r=$?;", "nums; r=124;", 1)
    with Publisher(r, ["big", "a"]) as p:
        v = shown(p, {"big": "a line of it\n" * 100000, "a": "1\n"}, base)
        ok(v.startswith("files 2 added 0 deleted 1 cut 0\n") and
           "\n-\t-\tbig\n" in v and "\n-2\n" in v and
           "/dev/null and b/big differ" in v, "what takes long is not looked "
           "into", v)
    W.scripts["show"] = slow
    with Publisher(r, ["a"]) as p:
        p.fetch(base)
        v = p.run("show", base, "a" * 40)
        ok(v.startswith("no suite fatal: bad object"), "one that is not there", v)


def test_look():
    r = W.repo({"a": "1\n"})
    first = r.tip()
    one = commit(r, {"a": "2\n"}, "refs/heads/topic", first)
    two = commit(r, {"a": "3\n"}, "refs/heads/topic", one)
    aside = commit(r, {"a": "4\n"}, "refs/heads/aside", first)

    def look(branch, oid):
        with Publisher(r, []) as p:
            return p.run("look", r.url, branch, oid)
    for branch, oid, at, there in (
            ("topic", two, two, "yes"), ("topic", one, two, "yes"),
            ("topic", aside, two, "no"), ("topic", "a" * 40, two, "no"),
            ("none", two, "-", "no")):
        v = look(branch, oid)
        ok(v == "at %s in %s" % (at, there), "where the branch is: %s" %
           there, v)
    r.url += "x"
    ok(look("topic", two).startswith("no fetch "), "no such repository")


# --- what does not ----------------------------------------------------------------

def test_no_base():
    r = W.repo()
    r.git("update-ref", "-d", "refs/heads/main")
    with Publisher(r, ["a"]) as p:
        v = p.fetch("a" * 40)
        ok(v.startswith("no no_such_base the repository is empty"),
           "an empty repository", v)
    r = W.repo({"a": "1\n"})
    for base in ("a" * 40, r.git("rev-parse", "main:a"),
                 r.git("rev-parse", "main^{tree}")):
        with Publisher(r, ["a"]) as p:
            v = p.fetch(base)
            ok(v.startswith("no no_such_base"), "no commit of it", v)
    r.url += "x"
    with Publisher(r, ["a"]) as p:
        v = p.fetch("a" * 40)
        ok(v.startswith("no fetch") and len(v) > 20, "no such repository", v)
    for url in ("http://localhost:1/o/r", "file:///etc", "/etc", "ext::id",
                "https://localhost:1/o/r"):
        with Publisher(r, ["a"]) as p:
            r.url = url
            v = p.fetch("a" * 40)
            ok(v.startswith("no fetch"), "nothing but https: " + url, v)


def test_build_lies():
    """What index-info makes of a path is not taken for what was meant."""
    r = W.repo({"a": "1\n", "d/b": "2\n"})
    base = r.tip()
    for names, files in ((["d"], {"d": "a file\n"}),
                         (["a/x"], {"a/x": "below a file\n"})):
        with Publisher(r, names) as p:
            p.fetch(base)
            p.put(files, base, whole(r, base, {"x": "x"}))
            v = p.build(base)
            ok(v.startswith("no disagree more changed"), "more than was "
               "declared: %s" % names, v)
    for names in ([".git/config"], ["../x"], ["/x"], ["x/../../y"], ["x//y"],
                  ["g/.GIT/hooks/x"], ["git~1"]):
        with Publisher(r, names) as p:
            p.fetch(base)
            p.put({"a": "1\n"}, base, r.git("rev-parse", base + "^{tree}"))
            os.makedirs(p.dir + "/in/files/g/.GIT/hooks")
            for n in "git~1", "g/.GIT/hooks/x":
                with open(p.dir + "/in/files/" + n, "w") as f:
                    f.write("x")
            v = p.build(base)
            ok(v.startswith("no ") or v.startswith("tree %s " % r.git(
                "rev-parse", base + "^{tree}")), "never in a tree: %s" %
                names, v)
    with Publisher(r, ["a"]) as p:
        p.fetch(base)
        p.put({"a": "2\n"}, base, r.git("rev-parse", base + "^{tree}"))
        v = p.build(base)
        ok(v.startswith("no disagree the commit is of another"),
           "a commit of another tree", v)


def test_base_limit():
    r = W.repo({"d%d/%d" % (i, j): "x\n" for i in range(4)
                for j in range(30)})
    whole = W.scripts["fetch"]
    ok("67108864" in whole, "the base has a limit")
    with Publisher(r, ["d1/1", "d2/1"]) as p:
        W.scripts["fetch"] = whole.replace("67108864", "1000")
        try:
            v = p.fetch(r.tip())
        finally:
            W.scripts["fetch"] = whole
        ok(v.startswith("no too_large the trees of the base"),
           "trees that are larger are refused", v)


def test_blobs():
    big = "x" * ((16 << 20) + 1)
    r = W.repo({"big": big, "d/small": "small\n", "d/.gitattributes":
                "a\n"})
    with Publisher(r, ["big", "d/small"]) as p:
        p.fetch(r.tip())
        have = p.objects()
        ok(r.git("rev-parse", "main:d/small") in have and
           r.git("rev-parse", "main:big") not in have,
           "what is too large is left out", {k: v[0] for k, v in have.items()})


def test_huge():
    """An old file that is larger than can be used is not fetched whole; the
    argument is its MiB."""
    mib = int(os.environ.get("SBX_HUGE_MIB", "40"))
    big = os.urandom(mib << 20)
    r = W.repo({".gitattributes": "*.x text\n", **{
        "large/f%03d" % i: "%d\n" % i for i in range(400)}, "top": "t\n",
        "small/a/b/c": "c\n", "small/d": "d\n",
        "small/big": big, "large/big": big})
    for where in "small", "large":
        with Publisher(r, [where + "/big", "top", "small/a/b/c",
                           "small/d"]) as p:
            began = time.monotonic()
            said = p.fetch(r.tip())
            took = time.monotonic() - began
            have = p.objects()
            size = sum(os.path.getsize(os.path.join(a, f)) for a, _, v in
                       os.walk(p.dir + "/repo") for f in v) / (1 << 20)
            ok(said.startswith("tip ") and size < 1 and
               r.git("rev-parse", "main:.gitattributes") in have and
               r.git("rev-parse", "main:small/big") not in have,
               "%d MiB in a %s directory: %.2f MiB are kept" % (
                   mib, where, size), (said, p.err))
            ok(where == "large" or {r.git("rev-parse", "main:" + n) for n in (
                "top", "small/a/b/c", "small/d")} <= have.keys(),
               "and the others are", have.keys())
            print("# %.2f s" % took)
            p.names = [where + "/big"]
            landed(p, publish(p, {where + "/big": "now small\n"},
                              r.tip(), where),
                   "and it is replaced", where)
        for text in "now small\n", None:
            with Publisher(r, ["top", where + "/big", "small/d"]) as p:
                v = shown(p, {where + "/big": text, "top": "new\n",
                              "small/d": None}, r.tip())
                ok(v.startswith("files 3 added %d deleted 3 cut 0\n" % (
                    2 if text else 1)) and
                   "\n-(not here for the size of what is changed)\n" in v and
                   "\n+new\n" in v and ("\n-t\n+new\n" in v) ==
                   (where == "small") and r.git(
                       "rev-parse", "main:%s/big" % where) in v,
                   "and is shown as that", v)


def test_refused_push():
    r = W.repo({"a": "1\n"})
    with open(r.path + "/hooks/update", "w") as f:
        f.write("#!/bin/sh\necho GH006: Protected branch >&2\nexit 1\n")
    os.chmod(r.path + "/hooks/update", 0o755)
    with Publisher(r, ["a"]) as p:
        v = publish(p, {"a": "2\n"}, r.tip())
        ok(len(v) == 4 and v[2].startswith("at - said no") and
           "declined" in v[2], "the remote declines", v)
    old = W.gh._backend    # pylint: disable=protected-access

    def backend(s, f, seen, r, what):
        if what == "git-receive-pack":
            s.shutdown(socket.SHUT_RDWR)
            return False
        return old(s, f, seen, r, what)
    with Publisher(W.repo({"a": "1\n"}), ["a"]) as p:
        W.gh._backend = backend     # pylint: disable=protected-access
        try:
            v = publish(p, {"a": "2\n"}, p.r.tip())
        finally:
            W.gh._backend = old     # pylint: disable=protected-access
        ok(len(v) == 4 and v[2].startswith("at - said none"),
           "the connection breaks", v)


def test_table():
    said = set(re.findall(r"\bno ([a-z_]+)", " ".join(W.scripts.values())))
    ok(said <= W.steps, "each refusal has its row", said - W.steps)


try:
    if not shutil.which("git"):
        raise egress.Unable("git is not installed")
    W = World()
except egress.Unable as e:
    tap.skip(str(e), "the publisher's scripts")
    tap.done()
    sys.exit(tap.bad > 0)
try:
    mcp.main(tap, globals(), sys.argv[1:])
finally:
    W.close()
