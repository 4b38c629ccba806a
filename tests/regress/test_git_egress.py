#!/usr/bin/env python3
"""git as it is, against `git http-backend` over TLS, through the proxy: what
passes, what is refused and what the user reads then, and that large packs need
no memory."""
import os
import re
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SRC, "tests", d) for d in ("lib", "gauntlet")]
import box as tests  # noqa: E402
import clients  # noqa: E402
import githost  # noqa: E402
import ours  # noqa: E402
import world  # noqa: E402

tap = tests.Tap()
ZERO = "0" * 40
BIG = int(os.environ.get("SBX_GIT_MIB", "100"))


class Place:
    """A sandbox with git in it, and the repositories that it speaks to."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="sbx-git.")
        os.mkdir(self.dir + "/home")
        self.w = world.World(["github.com", "git.test"], ["evil.test"])
        self.root = self.dir + "/hosted"
        self.make("o", "r")
        self.make("o", "tiny", commits=1)
        self.host = githost.GitHost(self.w, self.root)
        self.p = ours.Ours(self.w, ["grant_host https://git.test"])
        self.box = self.p.box()
        self.env = clients.environment(self.box, self.dir + "/home")
        self.n = 0

    def make(self, owner, repo, commits=30):
        """Commits enough that a fetch says more than 1 KiB of what it has."""
        work = "%s/make-%s" % (self.dir, repo)
        bare = "%s/%s/%s.git" % (self.root, owner, repo)
        os.makedirs(os.path.dirname(bare), exist_ok=True)
        self.local("init", "-q", "-b", "main", work)
        for i in range(commits):
            with open("%s/file%d" % (work, i), "w", encoding="ascii") as f:
                f.write("%d\n" % i * 50)
            self.local("-C", work, "add", ".")
            self.local("-C", work, "commit", "-qm", "commit %d" % i)
        self.local("clone", "-q", "--bare", work, bare)
        self.local("-C", bare, "config", "http.receivepack", "true")
        self.local("-C", bare, "config", "uploadpack.allowFilter", "true")
        self.local("-C", bare, "config", "receive.advertisePushOptions",
                   "true")
        self.local("-C", bare, "config", "receive.certNonceSeed", "x")

    def local(self, *args):
        return subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t.test", *args],
            check=True, stdout=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "HOME": self.dir}).stdout.strip()

    def git(self, *args, timeout=120, **env):
        """In the sandbox: (exit code, what the user reads)."""
        p = clients.run(self.box, ["git", "-c", "user.name=t", "-c",
                                   "user.email=t@t.test", *args],
                        dict(self.env, **env), timeout)
        return p.returncode, p.stdout + p.stderr

    def fresh(self):
        self.n += 1
        return "%s/home/w%d" % (self.dir, self.n)

    def clone(self, host="git.test", repo="o/r", *args, **env):
        d = self.fresh()
        code, out = self.git("clone", "-q", *args,
                             "https://%s/%s.git" % (host, repo), d, **env)
        return d, code, out

    def commit(self, d, name, data=b"x\n", branch="topic"):
        self.local("-C", d, "checkout", "-qB", branch)
        with open(os.path.join(d, name), "wb") as f:
            f.write(data)
        self.local("-C", d, "add", ".")
        self.local("-C", d, "commit", "-qm", name)
        return self.local("-C", d, "rev-parse", "HEAD")

    def tip(self, ref="refs/heads/topic"):
        try:
            return self.local("-C", self.root + "/o/r.git", "rev-parse", "-q",
                              "--verify", ref)
        except subprocess.CalledProcessError:
            return None

    def close(self):
        code = self.p.close()
        self.w.close()
        subprocess.run(["rm", "-rf", "--", self.dir], check=False)
        return code


def reads(x):
    for host in ("github.com", "git.test"):
        for v in ("0", "1", "2"):
            d, code, out = x.clone(host, "o/r", "-c", "protocol.version=" + v)
            tap.ok(code == 0 and os.path.exists(d + "/file29"),
                   "clone from %s, protocol %s" % (host, v), out)
            code, out = x.git("-C", d, "fetch", "origin")
            tap.same(code, 0, "fetch, protocol " + v)
    has_v2 = [h.get(b"git-protocol") for m, t, h in x.host.seen
              if m == b"POST"]
    tap.ok(b"version=2" in has_v2 and b"version=1" in has_v2,
           "Git-Protocol reaches the server", has_v2)
    d, code, out = x.clone("git.test", "o/r", "--depth=3")
    n = x.local("-C", d, "rev-list", "--count", "HEAD") if code == 0 else out
    tap.same(n, "3", "clone --depth=3")
    code, out = x.git("-C", d, "fetch", "-q", "--unshallow")
    n = x.local("-C", d, "rev-list", "--count", "HEAD")
    tap.same((code, n), (0, "30"), "fetch --unshallow")
    d, code, out = x.clone("git.test", "o/r", "--filter=blob:none")
    tap.ok(code == 0 and os.path.exists(d + "/file29"),
           "clone --filter=blob:none, files fetched as they are needed", out)
    # what it has is told in more than 1 KiB: git compresses such a request
    d, code, out = x.clone("git.test", "o/r")
    for i in range(40):
        x.commit(d, "own%d" % i, b"%d" % i, "topic")
    x.commit(x.dir + "/make-r", "news", branch="main")
    x.local("-C", x.dir + "/make-r", "push", "-q", x.root + "/o/r.git", "main")
    del x.host.seen[:]
    code, out = x.git("-C", d, "-c", "protocol.version=0", "fetch", "-q",
                      "origin")
    packed = any(h.get(b"content-encoding") == b"gzip"
                 for _, _, h in x.host.seen)
    tap.ok(code == 0 and packed, "a fetch whose request is compressed",
           (code, out, packed))
    code, out = x.git("ls-remote", "https://github.com/o/tiny")
    tap.ok(code == 0 and "refs/heads/main" in out, "ls-remote without .git",
           out)


def refused(x, what, result, *words):
    code, out = result
    tap.ok(code != 0 and all(w in out for w in words),
           what + ": what the user reads", out)
    print("# " + out.strip().replace("\n", "\n# "), flush=True)


def grant(x, ref, old, new, uses=1, op="push", force=0):
    return x.p.grant(x.box, op, "git.test", "o/r", ref, old, new, uses, 60000,
                     force)


def big_refused(x, d, mib):
    """The answer is read although a pack was under way."""
    name = "refused%d" % mib
    x.commit(d, name, os.urandom(mib << 20), name)
    del x.host.seen[:]
    began = time.monotonic()
    refused(x, "granted one push, tried another with a pack of %d MiB" % mib,
            x.git("-C", d, "push", "origin", name), "[remote rejected]",
            name + " (BLOCKED by sbx: it changes another ref")
    print("# in %.2f s" % (time.monotonic() - began), flush=True)
    posts = [h.get(b"content-length") for m, t, h in x.host.seen
             if m == b"POST"]
    tap.ok(not set(posts) - {b"4"} and
           x.tip("refs/heads/" + name) is None, "nothing but a probe went on",
           posts)
    x.local("-C", d, "checkout", "-q", "topic")


def pushes(x):
    d, code, out = x.clone()
    new = x.commit(d, "one")
    for host in ("git.test", "github.com"):
        refused(x, "push to %s without a grant" % host,
                x.git("-C", d, "push", "https://%s/o/r.git" % host, "topic"),
                "remote: ", "BLOCKED by sbx: ")
    refused(x, "clone from a host that is not listed",
            x.clone("evil.test")[1:], "403")
    tap.same(x.tip(), None, "nothing was pushed")
    grant(x, "refs/heads/topic", ZERO, new)
    code, out = x.git("-C", d, "push", "origin", "topic")
    tap.same((code, x.tip()), (0, new), "push with a grant")
    if code:
        print("# " + out.replace("\n", "\n# "))
    second = x.commit(d, "two")
    refused(x, "a second push with the same grant",
            x.git("-C", d, "push", "origin", "topic"), "BLOCKED by sbx")
    grant(x, "refs/heads/topic", new, second)
    other = "another ref than the granted one"
    for what, args, why in [
            ("another ref", ["topic:main"], [other]),
            ("a delete", ["--delete", "topic"], ["it deletes a ref"]),
            ("a tag beside it", ["topic", "HEAD:refs/tags/v1"],
             ["v1 (BLOCKED by sbx: ", "topic (BLOCKED by sbx: "]),
            ("two refs", ["topic", "topic:other"], ["topic -> other"]),
            ("another commit", ["--force", "HEAD~2:refs/heads/topic"],
             ["another commit than the granted one"])]:
        refused(x, "granted one push, tried " + what,
                x.git("-C", d, "push", "origin", *args), "[remote rejected]",
                "remote: BLOCKED by sbx: ", "(BLOCKED by sbx: ", *why)
    tap.ok("push_not_granted" in repr(x.p.records(x.box)), "on record")
    for mib in (1, 5, BIG):
        grant(x, "refs/heads/topic", new, second)   # each is read a few times
        big_refused(x, d, mib)
    tap.same(x.tip(), new, "and the ref did not move")
    refused(x, "the granted push, with a push option",
            x.git("-C", d, "push", "-o", "ci.skip", "origin", "topic"),
            "it has push options")
    gpg = x.dir + "/home/gpg"       # what git takes for a signature
    with open(gpg, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\ncat >/dev/null\nprintf '\\n[GNUPG:] SIG_CREATED "
                "\\n' >&2\necho '-----BEGIN PGP SIGNATURE-----'\n")
    os.chmod(gpg, 0o755)
    grant(x, "refs/heads/topic", new, second)
    refused(x, "the granted push, signed",
            x.git("-C", d, "-c", "gpg.program=" + gpg, "push", "--signed",
                  "origin", "topic"), "remote: BLOCKED by sbx: it is signed",
            "topic (BLOCKED by sbx: it is signed")
    code, out = x.git("-C", d, "push", "origin", "topic")
    tap.same((code, x.tip()), (0, second), "the granted push itself")
    x.local("-C", d, "reset", "-q", "--hard", "HEAD~1")
    third = x.commit(d, "three")
    grant(x, "refs/heads/topic", second, third)
    code, out = x.git("-C", d, "push", "--force", "origin", "topic")
    tap.same((code, x.tip()), (0, third), "a granted push that forces: the "
             "old id was as granted")
    grant(x, "refs/heads/topic", ZERO, second, force=1)
    x.local("-C", d, "reset", "-q", "--hard", second)
    code, out = x.git("-C", d, "push", "--force", "origin", "topic")
    tap.same((code, x.tip()), (0, second), "a push granted with force, "
             "whatever the old id")


def large(x):
    d, _, _ = x.clone()
    for mib, what in ((2, "2 MiB"), (BIG, "%d MiB" % BIG)):
        before = x.p.reset_peak()
        name = "big%d" % mib
        new = x.commit(d, name, os.urandom(mib << 20), name)
        del x.host.seen[:]
        grant(x, "refs/heads/" + name, ZERO, new)
        code, out = x.git("-C", d, "push", "origin", name, timeout=400)
        tap.same((code, x.tip("refs/heads/" + name)), (0, new),
                 "push of " + what)
        if code:
            print("# " + out.replace("\n", "\n# "))
        posts = [h for m, t, h in x.host.seen if m == b"POST"]
        tap.ok([h.get(b"content-length") for h in posts][:1] == [b"4"] and
               any(h.get(b"transfer-encoding") == b"chunked" for h in posts),
               what + ": a probe, and then chunks", posts)
        rise = x.p.peak_kib() - before
        tap.ok(rise < 8192, "%s: the proxy's peak rose by %d KiB" %
               (what, rise))
    before = x.p.reset_peak()
    d2, code, out = x.clone("git.test", "o/r", "--single-branch", "-b",
                            "big%d" % BIG)
    tap.ok(code == 0 and os.path.getsize("%s/big%d" % (d2, BIG)) == BIG << 20,
           "clone of %d MiB" % BIG, out)
    rise = x.p.peak_kib() - before
    tap.ok(rise < 8192, "the proxy's peak rose by %d KiB" % rise)


def recorded(x):
    """What was let through is told, without queries and without secrets."""
    r = x.p.records(x.box, 2, 1)
    text = repr(r)
    tap.ok(len(r) > 10 and "service=" not in text, "%d records, no query in "
           "them" % len(r), text[:400])
    tap.ok(re.search("git read|git write|push", text) is not None,
           "they say what it was", text[:400])


def main():
    why = world.why_not() or ("" if os.access(
        subprocess.run(["git", "--exec-path"], stdout=subprocess.PIPE,
                       check=True, text=True).stdout.strip() +
        "/git-http-backend", os.X_OK) else "there is no git-http-backend")
    if why:
        tap.skip("git through the proxy", why)
        return tap.done()
    x = Place()
    try:
        reads(x)
        pushes(x)
        large(x)
        recorded(x)
        tap.ok(x.p.alive(), "the proxy lives", x.p.log()[-5:])
    finally:
        tap.same(x.close(), 0, "and ends as it should")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
