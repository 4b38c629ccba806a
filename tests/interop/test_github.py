#!/usr/bin/env python3
"""The suite and a GitHub of real parts, from end to end: private repositories
are read and written by tokens that nobody but the broker and its couriers ever
has.  When all is done, that is looked for: every credential in every encoding,
in all files of the suite, all that it said, and the memory of all others."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import canary  # noqa: E402
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
GHE = "ghe.test"
MODULE = ("160000", None)
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + \
    "\nsize 12345\n"


class Suite(mcp.Suite):
    """keeps all that it said"""

    def __init__(self, **kw):
        self.lines, self.err = [], tempfile.TemporaryFile()
        super().__init__(stderr=self.err, **kw)

    def recv(self, timeout=30):
        message = super().recv(timeout)
        self.lines.append(repr(message))
        return message

    def box(self, **kw):
        r = self.call("sandbox_initialize", allow_network=True, timeout=120,
                      **kw)
        if "container_id" not in r:
            raise RuntimeError(r)
        return r["container_id"]

    def sh(self, box, *commands):
        """(exit code, output)"""
        r = self.call("sandbox_exec", container_id=box, commands=[
            c + " 2>&1" for c in commands], timeout=120)
        return r.get("exit_code", -1), r.get("output", str(r))

    def broker(self):
        return self.processes().get("sbx-broker", [None])[0]


class Place:
    """The world of all tests: a GitHub, and a suite that has its Apps."""

    def __init__(self):
        self.ca = egress.Authority()
        gh = self.gh = fakegithub.Github(self.ca, enterprise=GHE)
        self.suites, self.s, self.box, self.canary = [], None, "", None
        self.secret = gh.repo("acme/secret", private=True,
                              files={"README.md": "as it was\n"})
        self.secret.commit({"README.md": "the secret one\n",
                            "second.txt": "2\n"}, base=self.secret.tip())
        self.open = gh.repo("acme/open")
        self.other = gh.repo("acme/other", private=True)
        self.module = gh.repo("acme/module", private=True)
        self.read = gh.repo("acme/readable", private=True)
        self.corp = gh.repo(GHE + "/corp/tool", private=True)
        self.app = gh.app(["acme/secret", "acme/module", "acme/readable",
                           "acme/super", "acme/lfs", "acme/old", "acme/other"])
        self.corp_app = gh.app([GHE + "/corp/tool"])

    def suite(self, conf):
        s = Suite(conf=self.gh.conf() + conf)
        self.suites.append(s)
        return s

    def start(self):
        self.s = self.suite("".join("allowed_repo acme/%s\n" % n for n in (
            "secret", "module", "super", "lfs", "old")) +
            "allowed_repo %s/corp/tool\n" % GHE +
            "allow_read acme/readable\n" +
            "github_app %d %d %s\n" % (self.app.id, self.app.installation,
                                       self.app.pem) +
            "github_app %s %d %d %s\n" % (
                GHE, self.corp_app.id, self.corp_app.installation,
                self.corp_app.pem))
        self.box = self.s.box()

    def clone(self, repo, dest, box=None, **kw):
        return self.s.call("clone_repo", container_id=box or self.box,
                           repo=repo, dest_dir="/workspace/" + dest,
                           timeout=120, **kw)

    def close(self):
        for s in self.suites:
            s.__exit__()
        self.gh.close()
        self.ca.close()


def sentence(r, code=None):
    return r.get("status") == "error" and len(r.get("error", "")) > 20 and \
        (code is None or r.get("code") == code)


# --- reads -----------------------------------------------------------------------

def clones(p):
    r = p.clone("acme/secret", "a")
    ok(r.get("status") == "ok", "a private repository is cloned", r)
    code, out = p.s.sh(p.box, "cat /workspace/a/secret/README.md")
    ok(out == "the secret one\n", "and is there", out)
    t = p.gh.tokens[-1]
    ok(t.asked.get("repositories") == ["secret"] and
       t.permissions == {"contents": "read", "metadata": "read"},
       "by a token for that one repository, to read", t.asked)
    git = p.gh.seen(host="github.com", path="acme/secret")
    ok(git and all(x.token == t for x in git if x.status == 200),
       "and by no other", git)
    code, out = p.s.sh(p.box, "cd /workspace/a/secret && git config -l --local;"
                       "cat ~/.gitconfig ~/.git-credentials; env")
    ok("ghs_" not in out and "extraheader" not in out.lower(),
       "no trace of it is in the sandbox", out)
    code, out = p.s.sh(p.box, "cd /workspace/a/secret && git fetch")
    ok(code != 0 and p.gh.log[-1].auth == "" and p.gh.log[-1].status == 401,
       "and its grant is over: git alone gets nothing", (code, out))
    ok("BLOCKED by sbx" in out and "clone_repo" in out, "and is told why",
       out)
    n = len(p.gh.tokens)
    r = p.clone("ACME/Secret", "b")
    ok(r.get("status") == "ok" and len(p.gh.tokens) == n,
       "again, by the token that is there", r)


def versions(p):
    for v in (0, 1, 2):
        p.s.sh(p.box, "git config --global protocol.version %d" % v)
        n = len(p.gh.log)
        r = p.clone("acme/secret", "v%d" % v)
        said = {x.headers.get("git-protocol", "") for x in p.gh.log[n:]
                if x.host == "github.com"}
        ok(r.get("status") == "ok" and said == {
            "" if v == 0 else "version=%d" % v},
           "protocol %d" % v, (r, said))
    p.s.sh(p.box, "git config --global --unset protocol.version")
    r = p.clone("acme/secret", "shallow", depth=1)
    code, out = p.s.sh(p.box, "git -C /workspace/shallow/secret rev-list "
                       "--count HEAD")
    ok(r.get("status") == "ok" and out == "1\n", "a shallow clone", (r, out))
    r = p.clone("acme/secret", "partial", filter="blob:none")
    code, out = p.s.sh(p.box, "git -C /workspace/partial/secret rev-list "
                       "--objects --all --missing=print | grep -c '^?'")
    ok(r.get("status") == "ok" and out != "0\n", "a partial clone", (r, out))


def initialize(p):
    r = p.s.call("sandbox_initialize", allow_network=True, timeout=120,
                 clone_repo="acme/secret")
    ok(r.get("status") == "ok" and r.get("clone", {}).get("repo") ==
       "acme/secret", "sandbox_initialize clones", r)
    p.s.call("sandbox_stop", container_id=r.get("container_id", "x"),
             force=True)
    p.secret.commit({"b.txt": "b\n"}, "refs/heads/topic", p.secret.tip())
    r = p.s.call("sandbox_initialize", allow_network=True, timeout=120,
                 clone_repo="acme/secret", branch="topic")
    ok(r.get("status") == "ok" and r.get("clone", {}).get("branch") == "topic",
       "a branch of it", r)
    p.s.call("sandbox_stop", container_id=r.get("container_id", "x"),
             force=True)
    pull = p.secret.pull("feature", {"new.txt": "new\n"})
    r = p.s.call("sandbox_initialize", allow_network=True, timeout=120,
                 repo="acme/secret", pr=pull["number"])
    ok(r.get("status") == "ok", "a pull request", r)
    if "container_id" in r:
        code, out = p.s.sh(r["container_id"], "cd %s && git rev-parse HEAD" %
                           r["clone"]["clone_path"])
        ok(out.strip() == pull["pull"]["head"], "its head is checked out", out)
        p.s.call("sandbox_stop", container_id=r["container_id"], force=True)
    r = p.s.call("sandbox_initialize", allow_network=True, timeout=120,
                 clone_repo="acme/other", deps=False)
    ok(sentence(r), "one that is not listed is an error", r)
    ok(not any(b["image"] and b["container_id"] == r.get("container_id")
               for b in p.s.call("sandbox_list_containers").get(
                   "containers", ())), "and no sandbox is left", r)


def unlisted(p):
    n = len(p.gh.log)
    r = p.clone("acme/other", "other")
    new = p.gh.log[n:]
    ok(sentence(r) and "allowed_repo" in str(r),
       "an unlisted private repository: the error names the mend", r)
    ok(all(x.auth == "" for x in new), "and no credential was used", new)
    n = len(p.gh.log)
    code, out = p.s.sh(p.box, "cd /workspace && GIT_TERMINAL_PROMPT=0 git "
                       "clone https://github.com/acme/secret hand")
    new = p.gh.log[n:]
    ok(code != 0 and new and all(x.auth == "" for x in new),
       "git by hand, of a listed one without a grant: none either",
       (out, new))
    n = len(p.gh.log)
    code, out = p.s.sh(p.box, "cd /workspace && git -c http.extraHeader="
                       "'Authorization: Basic eDp5' clone "
                       "https://github.com/acme/secret hand2")
    ok(code != 0 and all(x.auth == "" for x in p.gh.log[n:]),
       "nor one of its own", (out, p.gh.log[n:]))
    n = len(p.gh.log)
    r = p.clone("acme/open", "open")
    ok(r.get("status") == "ok" and all(x.auth == "" for x in p.gh.log[n:]),
       "a public one is read without", r)
    r = p.clone("acme/readable", "readable")
    ok(r.get("status") == "ok", "one that is listed to be read", r)


def submodules(p):
    files = {".gitmodules": "".join(
        '[submodule "%s"]\n\tpath = %s\n\turl = %s\n' % (n, n, u)
        for n, u in (("rel", "../module"),
                     ("ssh", "git@github.com:acme/module.git"),
                     ("https", "https://github.com/acme/open"),
                     ("closed", "https://github.com/acme/other")))}
    for n, r in (("rel", p.module), ("ssh", p.module), ("https", p.open),
                 ("closed", p.other)):
        files[n] = ("160000", r.tip())
    p.gh.repo("acme/super", private=True, files=files)
    n = len(p.gh.log)
    r = p.clone("acme/super", "super", submodules=True,
                submodule_repos=["acme/module", "acme/other"])
    code, out = p.s.sh(p.box, "cd /workspace/super/super; ls rel ssh https "
                       "closed")
    ok(r.get("status") == "ok" and out.count("README.md") == 3,
       "submodules by https, ssh and a relative URL", (r, out))
    ok("closed" in str(r.get("warnings")), "and one that is not listed is "
       "named", r)
    ok(not [x for x in p.gh.log[n:] if x.auth and ("other" in x.target or
                                                   "open" in x.target)],
       "which no credential was used for", p.gh.log[n:])
    n = len(p.gh.log)
    r = p.clone("acme/super", "unnamed", submodules=True)
    ok(r.get("status") == "ok" and "submodule rel" in str(r.get("warnings"))
       and not [x for x in p.gh.log[n:] if x.auth and "module" in x.target],
       "nor for those that the client does not name", (r, p.gh.log[n:]))
    p.gh.repo("else/lure", files={
        ".gitmodules": '[submodule "m"]\n\tpath = m\n'
        "\turl = https://github.com/acme/module\n",
        "m": ("160000", p.module.tip())})
    n = len(p.gh.log)
    r = p.clone("else/lure", "lure", submodules=True)
    ok(r.get("status") == "ok" and "submodule m" in str(r.get("warnings")) and
       not [x for x in p.gh.log[n:] if x.auth],
       "a repository does not choose what else is read with a credential",
       (r, p.gh.log[n:]))


def partial(p):
    """What a filter left out comes with a grant, and not without."""
    r = p.clone("acme/secret", "part", filter="blob:none")
    ok(r.get("status") == "ok" and "fetch: true" in str(r.get("warnings")),
       "a partial clone says how the rest comes", r)
    show = "cd /workspace/part/secret && git show HEAD~1:README.md"
    code, out = p.s.sh(p.box, show)
    ok(code != 0, "git alone does not get it any more", out)
    p.secret.commit({"third.txt": "3\n"}, base=p.secret.tip())
    r = p.clone("acme/secret", "part", fetch=True)
    ok(r.get("status") == "ok" and r.get("credential") == "grant",
       "fetch: by a grant of its own", r)
    code, out = p.s.sh(p.box, show)
    ok((code, out) == (0, "as it was\n"), "all of it is there", (code, out))
    code, out = p.s.sh(p.box, "cd /workspace/part/secret && git show "
                       "origin/main:third.txt")
    ok((code, out) == (0, "3\n"), "and what is new", (code, out))


def throwaway(p):
    r = p.s.call("run_container_and_exec", commands=[
        "cat README.md; git log --oneline | wc -l"], clone_repo="acme/secret",
        timeout=120)
    ok(r.get("status") == "ok" and r["output"].startswith("the secret one\n")
       and r["clone"]["credential"] == "grant" and "install" not in r and
       r["deps"]["status"] == "ok", "commands in a throwaway clone", r)
    r = p.s.call("run_container_and_exec", commands=["true"],
                 clone_repo="acme/none", timeout=120)
    ok(sentence(r), "one that is not there", r)
    r = p.s.call("run_container_and_exec", commands=["true"], branch="x")
    ok(sentence(r, "bad_argument"), "a branch of nothing", r)
    r = p.s.call("sandbox_list_containers")
    ok([x["container_id"] for x in r["containers"]] == [p.box],
       "and nothing is left of them", r)


def lfs(p):
    p.gh.repo("acme/lfs", private=True, files={
        ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "big.bin": LFS})
    r = p.clone("acme/lfs", "lfs")
    ok(r.get("status") == "ok" and "LFS" in str(r.get("warnings")) and
       "big.bin" in str(r.get("warnings")), "LFS is said not to be fetched",
       r)
    code, out = p.s.sh(p.box, "curl -s -m 20 -X POST -d '{\"operation\":"
                       "\"download\",\"objects\":[{\"oid\":\"%s\",\"size\":1}"
                       "]}' https://github.com/acme/lfs.git/info/lfs/objects"
                       "/batch" % ("a" * 64))
    ok(p.gh.hidden not in out, "and a batch by hand gets no credential", out)


def renamed(p):
    p.gh.repo("acme/old", private=True)
    p.gh.rename("acme/old", "acme/new")
    n = len(p.gh.log)
    r = p.clone("acme/old", "old")
    new = [x for x in p.gh.log[n:] if x.host == "github.com"]
    ok(sentence(r), "a renamed repository is an error", r)
    ok(not any(x.auth and "acme/new" in x.target for x in new),
       "its new name gets no credential that was not granted", new)
    r = p.s.call("issue_view", container_id=p.box, repo="acme/old",
                 issue_number=1)
    ok(sentence(r), "and so it is by REST", r)


# --- REST ---------------------------------------------------------------------------

def views(p):
    i = p.secret.issue("An issue", "Its body.")
    for n in range(120):
        p.secret.comment(i, "comment number %d" % n)
    r = p.s.call("issue_view", container_id=p.box, repo="acme/secret",
                 issue_number=i["number"])
    ok(r.get("status") == "ok" and r.get("title") == "An issue" and
       r.get("comments") == 120, "an issue with all its comments", r)
    code, out = p.s.sh(p.box, "cat %s | tail -c 2000" % r.get("file"))
    ok("comment number 119" in out, "saved in the sandbox", out)
    pull = p.secret.pull("viewed", {"new.txt": "n\n"}, title="A change",
                         body="Of this and that.")
    sha = pull["pull"]["head"]
    p.secret.review(pull, "needs work", "CHANGES_REQUESTED", "critic")
    p.secret.remark(pull, "this line")
    p.secret.check(sha, "build", "failure")
    p.secret.status(sha, "lint")
    r = p.s.call("pr_view", container_id=p.box, repo="acme/secret",
                 pr=pull["number"])
    ok(r.get("status") == "ok" and r["checks"]["failed"] == 1 and
       r["checks"]["passed"] == 1 and
       r["reviews"][0]["state"] == "CHANGES_REQUESTED", "a pull request", r)
    code, out = p.s.sh(p.box, "cat %s" % r.get("file"))
    ok("needs work" in out and "this line" in out and "build" in out,
       "with reviews, remarks and checks", out)
    ok(p.gh.hidden not in out + str(r), "without what answers hold besides")
    n = len(p.gh.log)
    r = p.s.call("issue_view", container_id=p.box, repo="acme/open",
                 issue_number=p.open.issue()["number"])
    ok(r.get("status") == "ok" and not any(x.auth for x in p.gh.log[n:]),
       "of a public repository, without a credential", r)
    n = len(p.gh.log)
    p.other.issue()
    r = p.s.call("issue_view", container_id=p.box, repo="acme/other",
                 issue_number=1)
    ok(sentence(r, "not_found") and not any(x.auth for x in p.gh.log[n:]),
       "of a private one that is not listed: not found", r)


def echoes(p):
    """a host that says the token back"""
    i = p.secret.issue("Echo", "It says:")
    for form in ("raw", "base64 at 0", "base64 at 1", "base64url at 2", "hex",
                 "HEX", "Basic at 0"):
        p.gh.echo = form
        r = p.s.call("issue_view", container_id=p.box, repo="acme/secret",
                     issue_number=i["number"])
        c = canary.Canary({n: v for n, v in p.gh.secrets().items()
                           if n.startswith("token")})
        code, out = p.s.sh(p.box, "cat %s" % r.get("file", "/dev/null"))
        ok(not c.text("", str(r) + out), "a token said back, %s" % form,
           (r, out))
    p.gh.echo = None


def writes(p):
    r = p.s.call("sandbox_issue_write", repo="acme/secret", method="create",
                 title="From a sandbox", body="What it found.")
    made = p.secret.issues.get(r.get("number"))
    ok(r.get("status") == "ok" and made and made["title"] ==
       "From a sandbox" and made["login"] == p.app.login, "an issue is made",
       r)
    t = p.gh.tokens[-1]
    ok(t.asked.get("repositories") == ["secret"] and "contents" not in
       t.permissions, "by a token for that alone", t.asked)
    r = p.s.call("sandbox_issue_write", repo="acme/secret", method="comment",
                 issue_number=made["number"], body="More of it.")
    ok(r.get("status") == "ok" and made["comments"][-1]["body"] ==
       "More of it.", "a comment", r)
    for text in ("/merge", "@bot deploy", "fine\n/approve\n"):
        n = len(p.gh.seen(method="POST"))
        r = p.s.call("sandbox_issue_write", repo="acme/secret",
                     method="comment", issue_number=made["number"], body=text)
        ok(sentence(r, "bot_command") and "allow_bot_commands" in str(r) and
           len(p.gh.seen(method="POST")) == n,
           "a line for a bot is refused: %r" % text, r)
    for repo in ("acme/readable", "acme/open"):
        r = p.s.call("sandbox_issue_write", repo=repo, method="create",
                     title="x", body="y")
        ok(sentence(r) and "allowed_repo" in str(r) and not p.gh.seen(
            host="api.github.com", method="POST", path=repo), "nothing is written to " + repo, r)
    reviews(p)


def reviews(p):
    pull = p.secret.pull("theirs", {"new.txt": "1\n2\n"})
    r = p.s.call("sandbox_pr_review_write", repo="acme/secret",
                 pr=pull["number"], event="APPROVE", body="Well done.",
                 head_sha=pull["pull"]["head"],
                 comments=[{"path": "new.txt", "line": 1, "body": "here"}])
    ok(r.get("status") == "ok" and pull["pull"]["reviews"][-1]["state"] ==
       "APPROVED" and pull["pull"]["comments"][-1]["body"] == "here",
       "a review", r)
    mine = p.secret.pull("mine", {"new.txt": "1\n"}, login=p.app.login)
    r = p.s.call("sandbox_pr_review_write", repo="acme/secret",
                 pr=mine["number"], event="APPROVE", body="My own.",
                 head_sha=mine["pull"]["head"])
    ok(r.get("status") == "ok" and r.get("downgraded_to") == "COMMENT" and
       mine["pull"]["reviews"][-1]["state"] == "COMMENTED",
       "of one's own: a remark", r)


def limits(p):
    i = p.secret.issue()
    for secondary in (False, True):
        p.gh.limited("GET", "/issues/", secondary, times=1)
        r = p.s.call("issue_view", container_id=p.box, repo="acme/secret",
                     issue_number=i["number"])
        ok(sentence(r, "rate_limited"), "a rate limit, %s" % (
            "429" if secondary else "403"), r)
        p.gh.rules.clear()
    for t in p.gh.tokens:
        t.revoked = True
    n = len(p.gh.tokens)
    r = p.s.call("issue_view", container_id=p.box, repo="acme/secret",
                 issue_number=i["number"])
    r = r if r.get("status") == "ok" else p.s.call(
        "issue_view", container_id=p.box, repo="acme/secret",
        issue_number=i["number"])
    ok(r.get("status") == "ok" and len(p.gh.tokens) > n,
       "a token that the host takes no more is minted again", r)
    p.gh.answer_next("POST", "/access_tokens", 500)
    for t in p.gh.tokens:
        t.revoked = True
    r = p.clone("acme/secret", "nomint")
    ok(sentence(r) or r.get("status") == "ok", "a mint that fails", r)
    p.gh.rules.clear()


def lives(p):
    """tokens are kept until five minutes before their end"""
    p.gh.token_life = 200
    for t in p.gh.tokens:
        t.revoked = True
    p.clone("acme/module", "life0")
    n = len(p.gh.tokens)
    r = p.clone("acme/module", "life1")
    ok(r.get("status") == "ok" and len(p.gh.tokens) > n,
       "a token that ends within five minutes is not used again", r)
    p.gh.token_life = 3600


def recorded(p):
    """what the journal has of all that"""
    records = p.s.journal()
    ops = {}
    for r in records:
        ops.setdefault(r["op"], []).append(r)
    for op in ("grant", "token_mint", "exchange"):
        ok(ops.get(op), "the journal has each %s" % op, sorted(ops))
    used = [x for x in p.gh.log if x.auth == "basic"]
    ok(len([r for r in ops.get("exchange", ()) if r["phase"] == "end"]) >=
       len(used), "every exchange with a credential is one of them",
       (len(used), len(ops.get("exchange", ()))))
    ok(any("acme/other" in str(r) and r["phase"] == "refused"
           for r in records), "and what was refused", sorted(ops))


# --- writes of git --------------------------------------------------------------------

def pushes(p):
    at = "/workspace/push/secret"
    r = p.clone("acme/secret", "push")
    ok(r.get("status") == "ok", "a clone to push from", r)
    code, out = p.s.sh(p.box, "cd %s && git config user.name t && git config "
                       "user.email t@e.invalid && head -c 2500000 /dev/urandom"
                       " >large && git add large && git commit -qm large && "
                       "git rev-parse HEAD" % at)
    sha = out.strip()[-40:]
    code, out = p.s.sh(p.box, "cd %s && git push origin HEAD:refs/heads/x" %
                       at)
    ok(code != 0 and not p.gh.seen(path="git-receive-pack", auth="basic"),
       "a push without a grant gets no credential", out)
    r = p.s.sbx("grant", p.box, "acme/secret", "refs/heads/x", "b" * 40)
    code, out = p.s.sh(p.box, "cd %s && git push origin HEAD:refs/heads/x" %
                       at)
    # git asks with an empty one first whether it may
    ok(r.returncode == 0 and code != 0 and not [
        x for x in p.gh.seen(method="POST", path="git-receive-pack")
        if x.sent > 4], "one that differs from its grant is refused here",
       (r, out))
    r = p.s.sbx("grant", p.box, "acme/secret", "refs/heads/x", sha)
    code, out = p.s.sh(p.box, "cd %s && git push origin HEAD:refs/heads/x" %
                       at)
    ok(r.returncode == 0 and code == 0 and p.secret.tip("refs/heads/x") ==
       sha, "a push by an operator's grant", (r, out))
    t = p.gh.tokens[-1]
    ok(t.permissions.get("contents") == "write" and
       t.asked.get("repositories") == ["secret"], "by a token for it",
       t.asked)
    code, out = p.s.sh(p.box, "cd %s && git push origin HEAD:refs/heads/y" %
                       at)
    ok(code != 0, "and no other with it", out)


def enterprise(p):
    r = p.clone(GHE + "/corp/tool", "corp")
    ok(r.get("status") == "ok", "a GitHub Enterprise Server's repository", r)
    i = p.corp.issue("of the corp")
    r = p.s.call("issue_view", container_id=p.box, repo=GHE + "/corp/tool",
                 issue_number=i["number"])
    ok(r.get("status") == "ok" and r.get("title") == "of the corp" and
       p.gh.seen(host=GHE, path="/api/v3/repos/corp/tool/issues/1"),
       "and its issue", r)


# --- what goes wrong --------------------------------------------------------------------

def killed(p):
    """the broker, in the middle of a clone"""
    big = p.gh.repo("acme/module2", private=True)
    p.app.repos.add("acme/module2")
    del big
    p.secret.large(24)
    p.gh.pace = 0.3
    number = p.s.start_call("clone_repo", container_id=p.box,
                            repo="acme/secret", dest_dir="/workspace/kill")
    ok(p.s.wait_for(lambda: [x for x in p.gh.seen(
        method="POST", path="git-upload-pack") if x.status == 0], 20),
       "a slow clone")
    time.sleep(1)
    was = p.s.broker()
    os.kill(was, signal.SIGKILL)
    r = p.s.answer(number, 90)["result"]["structuredContent"]
    p.gh.pace = 0
    ok(sentence(r) or r.get("status") in ("error", "failed"),
       "a broker that dies ends it with a sentence", r)
    ok(p.s.wait_for(lambda: p.s.broker() not in (None, was)),
       "another takes its place")
    r = p.s.wait_for(lambda: (lambda r: r.get("status") == "ok" and r)(
        p.clone("acme/secret", "again%d" % time.monotonic_ns())), 20)
    ok(r, "and the next clone is whole", r)


def status(p):
    r = p.s.sbx("broker", "status")
    ok(r.returncode == 0 and str(p.app.id) in r.stdout and
       GHE in r.stdout, "sbx broker status names the sources", r)
    c = canary.Canary(p.gh.secrets())
    ok(not c.text("", r.stdout + r.stderr), "and no secret", c.found)


def lockdown(p):
    # those of a broker that was killed are over, too
    for t in p.gh.tokens:
        t.revoked = True
    for n in ("before1", "before2"):
        p.clone("acme/secret", n)
    live = [t for t in p.gh.tokens if t.live()]
    ok(live, "tokens are there")
    r = p.s.sbx("lockdown", "on")
    ok(r.returncode == 0, "lockdown", r)
    ok(p.s.wait_for(lambda: not any(t.live() for t in live), 10),
       "revokes every token at its host")
    n = len(p.gh.log)
    r = p.clone("acme/secret", "locked")
    ok(sentence(r), "then nothing is cloned", r)
    code, out = p.s.sh(p.box, "curl -sS -m 10 https://github.com/acme/open")
    ok(code != 0 and len(p.gh.log) == n, "and no sandbox has a way out",
       (code, out, p.gh.log[n:]))
    r = p.s.sbx("lockdown", "off")
    ok(r.returncode == 0, "until it is lifted", r)
    box = p.s.box()
    r = p.s.wait_for(lambda: (lambda r: r.get("status") == "ok" and r)(
        p.clone("acme/secret", "free%d" % time.monotonic_ns(), box=box)), 20)
    ok(r, "and all is as before", r)
    p.s.call("sandbox_stop", container_id=box, force=True)


# --- other sources ----------------------------------------------------------------------

def command(p):
    t = p.gh.static(["acme/secret"], kind="ghp_")
    path = p.gh.put("command", "#!/bin/sh\ncat %s\n" % p.gh.put(
        "command-token", t.text + "\n"))
    for f in (path, p.gh.dir + "/command-token"):
        os.chmod(f, 0o755)
    s = p.suite("allowed_repo acme/secret\ngithub_token_command %s\n" % path)
    box = s.box()
    r = s.call("clone_repo", container_id=box, repo="acme/secret", timeout=60)
    ok(r.get("status") == "ok" and p.gh.log[-1].token == t,
       "a token that a command prints", r)
    with open(path, "w") as f:
        f.write("#!/bin/sh\necho %s >&2\nexit 3\n" % t.text)
    r = s.call("clone_repo", container_id=box, repo="acme/secret",
               dest_dir="/workspace/2", timeout=60)
    ok(sentence(r), "a command that fails", r)


def static(p):
    t = p.gh.static(["acme/secret"])
    path = p.gh.put("token", t.text + "\n")
    s = p.suite("allowed_repo acme/secret\ngithub_token_file %s\n" % path)
    r = s.call("clone_repo", container_id=s.box(), repo="acme/secret",
               timeout=60)
    ok(r.get("status") == "ok" and p.gh.log[-1].token == t,
       "a token in a file", r)
    loose = p.gh.put("loose", t.text + "\n")
    os.chmod(loose, 0o644)
    s = p.suite("allowed_repo acme/secret\ngithub_token_file %s\n" % loose)
    r = s.call("clone_repo", container_id=s.box(), repo="acme/secret",
               timeout=60)
    ok(sentence(r), "a file that others may read is not taken", r)
    text = s.sbx("broker", "status")
    ok("loose" in text.stdout + text.stderr, "and status says so", text)


# --- the canary ---------------------------------------------------------------------------

def everywhere(c, s):
    """in one suite: files, what it said, its processes"""
    c.tree(s.root)
    c.text("results", "\n".join(s.lines))
    s.err.seek(0)
    c.text("standard error", s.err.read())
    c.text("journal", s.sbx("journal", "show", "--json", "-n", "100000").stdout)
    return {} if canary.why_not() else c.processes(s)


def scan(p):
    c = canary.Canary(p.gh.secrets())
    print("# %d secrets in %d forms" % (len(p.gh.secrets()), len(c.forms)))
    seen = {}
    for s in p.suites:
        seen.update(everywhere(c, s))
    print("# %d MiB, processes: %r" % (c.looked >> 20, seen))
    ok(not c.found, "no credential is anywhere but with the broker and its "
       "couriers", c.found[:20])
    if canary.why_not():
        return tap.absent(canary.why_not(), "the memory of the others")
    want = {"sbxd", "sbxd-front", "sbxd-worker", "sbxd-engine",
            "sbxd-recorder", "sbx-proxy", "sbx-journald", "sbx-init"}
    return ok(want <= set(seen), "the memory of all others was looked at",
              want - set(seen))


def planted(p):
    """the test of the test"""
    t = p.gh.static(kind="ghp_")
    c = canary.Canary({"planted": t.text})
    half = t.text[:len(t.text) // 2]
    p.s.sh(p.box, "printf '%s' | base64 -w0 >/workspace/planted" % t.text)
    p.s.call("sandbox_exec_background", container_id=p.box,
             argv=["sh", "-c", "x=%s; sleep 300; echo $x" % half])
    p.gh.tokens.remove(t)
    seen = everywhere(c, p.s)
    where = " ".join(x[0] for x in c.found)
    ok("planted" in where, "a planted one is found in a sandbox's file",
       c.found)
    ok(any(x[0] == "results" or "journal" in x[0] or "/runs" in x[0]
           for x in c.found), "and in what was recorded of it", c.found)
    if seen:
        ok("sleep" in where or "sh (" in where,
           "and in a process of the sandbox", c.found)


PARTS = [clones, versions, initialize, unlisted, submodules, partial,
         throwaway, lfs, renamed,
         views, echoes, writes, limits, lives, pushes, enterprise, status,
         command, static, killed, recorded, lockdown, scan, planted]


def main():
    try:
        p = Place()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return tap.done()
    names = sys.argv[1:]
    try:
        p.start()
        for part in PARTS:
            if names and part.__name__ not in names:
                continue
            try:
                part(p)
            except Exception as e:  # pylint: disable=broad-except
                tap.ok(False, "%s: %r" % (part.__name__, e))
                import traceback
                print("#", traceback.format_exc().replace("\n", "\n# "))
        ok(not p.gh.wrong, "every request fits GitHub's description",
           p.gh.wrong)
        if not p.gh.validated:
            print("# not validated:", p.gh.description.why)
        ok(not p.gh.errors, "the fake made no mistake", p.gh.errors)
    finally:
        p.close()
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
