#!/usr/bin/env python3
"""publish, from end to end: a private repository on a GitHub of real parts, a
sandbox that does what it likes to its clone, and what reaches the remote."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
NAME = "sbx-test <sbx-test@example.invalid>"
RUNS = "vitest, jest or node --test"
FILES = {
    "package.json": '{"name": "p", "version": "1.0.0"}\n',
    "add.js": "exports.add = (a, b) => a - b;\n",
    "test/add.test.js": "const t = require('node:test');\n"
    "const a = require('node:assert');\n"
    "t('adds', () => a.strictEqual(require('../add').add(1, 2), 3));\n",
    "docs/a.md": "a\n", "docs/b.md": "b\n", "crlf.txt": "x\ny\n",
    ".gitattributes": "*.txt text\n*.png binary\n"}
KEY = "AKIA" + "Q3EXAMPLE7" + "ZZYYXX"


class Place:
    def __init__(self):
        self.ca = egress.Authority()
        self.gh = fakegithub.Github(self.ca)
        self.repo = self.gh.repo("acme/secret", private=True, files=FILES)
        self.other = self.gh.repo("acme/other", private=True, files=FILES)
        self.app = self.gh.app(["acme/secret"])
        self.s, self.box, self.n = None, "", 0

    def start(self, conf=""):
        self.s = mcp.Suite(conf=self.gh.conf() + "allowed_repo acme/secret\n"
                           "github_app %d %d %s\npublish_author \"%s\"\n%s" % (
                               self.app.id, self.app.installation,
                               self.app.pem, NAME, conf))
        self.new_box()

    def new_box(self):
        r = self.s.call("sandbox_initialize", allow_network=True,
                        clone_repo="acme/secret", deps=False, timeout=120)
        if r["status"] != "ok":
            raise RuntimeError(r)
        self.box, self.at = r["container_id"], r["clone"]["clone_path"]

    def sh(self, *commands):
        r = self.s.call("sandbox_exec", container_id=self.box, timeout=120,
                        working_dir=self.at, commands=list(commands))
        if r["status"] != "ok":
            raise RuntimeError(r)
        return r["output"]

    def publish(self, files, branch, **more):
        """its result, when it has ended"""
        args = {"container_id": self.box, "repo": "acme/secret",
                "branch": branch, "message": "Change it.", "files": files,
                "working_dir": self.at, **more}
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

    def close(self):
        if self.s:
            self.s.__exit__()
        self.gh.close()
        self.ca.close()


def signing_key(p):
    """an Ed25519 key of the broker's, and what its configuration says"""
    pem = os.path.join(p.gh.dir, "sign.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out",
                    pem], check=True, capture_output=True)
    return "publish_signing_key %s\n" % p.gh.broker_owns(pem)


def is_signed(p, commit):
    """git's word, with the key that `sbx broker status` shows"""
    lines = p.s.sbx("broker", "status").stdout
    key = next((x.strip() for x in lines.splitlines()
                if x.strip().startswith("ssh-ed25519 ")), "")
    allowed = os.path.join(p.gh.dir, "allowed")
    with open(allowed, "w", encoding="utf-8") as f:
        f.write("%s namespaces=\"git\" %s\n" % (
            NAME.split("<")[1][:-1], key))
    r = subprocess.run(
        ["git", "-c", "gpg.format=ssh", "-c",
         "gpg.ssh.allowedSignersFile=" + allowed, "-C", p.repo.path,
         "verify-commit", commit], capture_output=True, text=True)
    ok(r.returncode == 0 and "Good \"git\" signature" in r.stderr,
       "git finds it well signed", (key, r.stderr))


def refused(p, what, step, files, branch="fix", **more):
    """nothing has reached the remote, and it says why"""
    before = p.repo.git("for-each-ref")
    r = p.publish(files, branch, **more)
    ok(r.get("status") == "error" and r.get("code") == step and
       len(r.get("error", "")) > 15 and
       p.repo.git("for-each-ref") == before, "%s: %s" % (what, step), r)
    return r


def by_hand(p, base, files):
    """the tree that a full clone and git add make of these bytes"""
    with tempfile.TemporaryDirectory() as d:
        def git(*a):
            return subprocess.run(
                ["git", "-c", "user.name=x", "-c", "user.email=x@x", *a],
                cwd=d, check=True, capture_output=True, text=True, env={
                    **os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
            ).stdout.strip()
        git("clone", "-q", p.repo.path, ".")
        git("checkout", "-q", base)
        for name, text in files.items():
            path = os.path.join(d, name)
            if text is None:
                os.unlink(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", newline="", encoding="utf-8") as f:
                f.write(text)
        git("add", "-A")
        return git("write-tree")


# --- the whole way ----------------------------------------------------------------

def whole(p):
    i = p.repo.issue(title="add subtracts", body="It should add.")
    p.start(signing_key(p))
    r = p.s.call("issue_view", container_id=p.box, repo="acme/secret",
                 issue_number=i["number"])
    ok(r.get("title") == "add subtracts", "the issue is read", r)
    where = {"container_id": p.box, "working_dir": p.at}
    r = p.s.call("verify_in_container", timeout=120, **where)
    ok(r["status"] == "failed", "red", r)
    p.sh("echo more >>docs/a.md")
    r = refused(p, "its fresh verification is red", "verify_gate",
                ["docs/a.md"])
    ok(r["gate"]["status"] == "failed" and r["gate"]["command"] == RUNS and
       r["gate"]["run_id"] and r["tests"][0]["failed"] == 1 and
       r["tests"][0]["verdict"] == "failed", "with what failed", r)
    r = p.s.call("edit_file", container_id=p.box, file_name="add.js",
                 dest_dir=p.at, edits=[{"old_str": "a - b",
                                        "new_str": "a + b"}])
    ok(r["status"] == "ok", "it is edited", r)
    r = p.s.call("verify_in_container", timeout=120, **where)
    ok(r["status"] == "ok" and r["gate"] is False, "green, and no gate", r)
    r = p.s.call("checkpoint", message="add adds", **where)
    ok(r["status"] == "ok", "a checkpoint", r)
    p.sh("git rm -q --cached docs/b.md",
         "rm docs/b.md", "echo stray >stray.txt")
    files = ["add.js", "docs/a.md", "docs/b.md"]
    base = p.tip("main")
    r = p.publish(files, "fix", dry_run=True)
    ok(r["status"] == "ok" and r["outcome"] == "dry_run" and
       r["gate"]["status"] == "passed" and not p.tip("fix") and
       r["signed"] is False and "will be signed" in r["warnings"][0],
       "a dry run verifies, and says what would go", r)
    passed, run = r["tree_id"], r["gate"]["run_id"]
    r = p.publish(files, "fix", create_pr=True, pr_title="Add", pr_body="x")
    ok(r["status"] == "ok" and r["outcome"] == "pushed" and
       p.tip("fix") == r["commit"] and r["base"] == base and
       r["worktree_leftover"] == ["stray.txt"] and not r["warnings"] and
       r["gate"] == {"run_id": run, "status": "passed", "command": RUNS},
       "it is pushed, by that verification", r)
    text = p.repo.git("cat-file", "commit", r["commit"])
    ok("tree %s\nparent %s\nauthor %s " % (passed, base, NAME) in text and
       text.endswith("\n\nChange it."), "as one commit on the base", text)
    ok(r["signed"] is True, "signed", r)
    is_signed(p, r["commit"])
    ok(passed == by_hand(p, base, {
        "add.js": "exports.add = (a, b) => a + b;\n", "docs/a.md":
        "a\nmore\n", "docs/b.md": None}), "whose tree is what git add makes")
    ok(r.get("pr_created") is True and r.get("pr_url", "").endswith(
        "/pull/%d" % r.get("pr_number", 0)), "with a pull request", r)
    r = p.publish(files, "fix", create_pr=True, pr_title="Add")
    ok(r["status"] == "ok" and r["outcome"] == "already_there" and
       r.get("pr_created") is False and r["signed"] is True,
       "again: it is there, and signed", r)
    return files


def second(p):
    """one more commit to the same branch, on the first"""
    first = p.tip("fix")
    refused(p, "force", "not_allowed", ["docs/a.md"], force=True)
    p.sh("echo yet more >>docs/a.md", "printf 'x\\r\\nz\\r\\n' >crlf.txt")
    files = ["docs/a.md", "crlf.txt"]
    where = {"container_id": p.box, "working_dir": p.at}
    r = p.s.call("verify_in_container", fresh=True, files=files,
                 branch="fix", timeout=120, **where)
    while r["status"] == "running":
        r = p.s.call("verify_in_container", fresh=True, run_id=r["run_id"],
                     timeout=120, **where)
    ok(r.get("gate"), "a fresh verification of what is added", r)
    tree, run = r["tree_id"], r["run_id"]
    r = p.publish(files, "fix")
    ok(r["status"] == "ok" and r["outcome"] == "pushed" and
       r["from"] == first == r["base"], "a second commit", r)
    ok(r["tree_id"] == tree and r["gate"]["run_id"] == run and
       p.repo.git("cat-file", "blob", "fix:crlf.txt") == "x\nz",
       "whose tree was verified as the base's attributes take it in", r)
    r = p.s.call("pr_view", container_id=p.box, repo="acme/secret",
                 pr=[i["number"] for i in p.repo.issues.values()
                     if i["pull"]][-1])
    ok(r["status"] == "ok", "its pull request is read", r)
    p.repo.commit({"docs/a.md": "theirs\n"}, "refs/heads/fix", p.tip("fix"))
    p.sh("echo mine >>docs/a.md")
    refused(p, "somebody pushed meanwhile", "upstream_moved", ["docs/a.md"])


# --- merges -----------------------------------------------------------------------

def merging(p):
    """main moves on under a branch: conflict, resolution, two parents"""
    p.new_box()
    where = {"container_id": p.box, "working_dir": p.at}
    p.sh("sed -i 's/a - b/a + b/' add.js", "echo ours >>docs/a.md")
    r = p.s.call("checkpoint", message="ours", **where)
    r = p.publish(["add.js", "docs/a.md"], "m")
    ok(r["status"] == "ok" and r["outcome"] == "pushed", "a branch", r)
    first = p.tip("m")
    main = p.repo.commit({
        "docs/a.md": "theirs\n", "docs/new.md": "new\n", "docs/b.md": None,
        ".github/x.yml": "on: push\n", "key.txt": KEY + "\n"},
        "refs/heads/main", p.tip("main"))
    r = p.s.call("merge_base", timeout=120, **where)
    ok(r["status"] == "error" and r["code"] == "fetch", "a private repository "
       "that was not named is read with no credential", r)
    r = p.s.call("merge_base", repo="acme/secret", timeout=120, **where)
    ok(r.get("outcome") == "conflicts" and r["tip"] == main and
       r["conflicts"] == [{"path": "docs/a.md", "kind": "both_modified"}],
       "a conflict", r)
    r = p.s.call("merge_complete", **where)
    ok(r.get("code") == "unresolved", "that is not resolved", r)
    p.sh("printf 'both\\n' >docs/a.md")
    r = p.s.call("merge_complete", **where)
    ok(r["outcome"] == "completed" and r["parent2"] == main, "and is", r)
    good = r["head"]
    r = refused(p, "a file of both sides is not declared",
                "merge_undeclared", [], "m")
    ok(r.get("undeclared") == ["docs/a.md"], "it is named", r)

    # what the sandbox says of the remote is a hint
    p.sh("git checkout -q --detach origin/main", "echo %s >stolen" % KEY,
         "git add stolen", "git -c user.name=x -c user.email=x@x commit -qm x",
         "git update-ref refs/remotes/origin/main HEAD",
         "git update-ref refs/sbx/merged/main HEAD",
         "git checkout -q --detach %s" % good,
         "git -c user.name=x -c user.email=x@x merge -q -m y origin/main")
    refused(p, "a forged branch of the remote", "merge", ["docs/a.md"], "m")
    ok(p.repo.git("log", "--all", "--format=%H", "--", "stolen") == "",
       "no undeclared secret is pushed")
    p.sh("git update-ref refs/remotes/origin/main %s" % main,
         "git update-ref refs/sbx/merged/main %s" % main,
         "git checkout -q --detach %s" % good, "echo stray >stray.txt")
    r = p.s.call("verify_in_container", fresh=True, files=["docs/a.md"],
                 branch="m", timeout=120, **where)
    while r["status"] == "running":
        r = p.s.call("verify_in_container", fresh=True, run_id=r["run_id"],
                     timeout=120, **where)
    ok(r.get("gate"), "a fresh verification of the merge", r)
    passed = r.get("tree_id")
    r = p.publish(["docs/a.md"], "m")
    ok(r["status"] == "ok" and r["outcome"] == "pushed" and
       r["tree_id"] == passed and r["parent2"] == main and
       r["merge_branch"] == "main" and r["merged_in"] == [
           ".github/x.yml", "docs/b.md", "docs/new.md", "key.txt"] and
       r["merged_in_total"] == 4 and r["worktree_leftover"] ==
       ["stray.txt"], "it is pushed", r)
    text = p.repo.git("cat-file", "commit", p.tip("m"))
    ok("tree %s\nparent %s\nparent %s\nauthor " % (by_hand(p, main, {
        "docs/a.md": "both\n", "add.js": "exports.add = (a, b) => a + b;\n"}),
        first, main) in text, "with both parents and what both are", text)
    r = p.publish(["docs/a.md"], "m")
    ok(r["status"] == "ok" and r["outcome"] == "already_there",
       "again: it is there", r)
    # nothing of our own: the merge is all there is
    main = p.repo.commit({"docs/new.md": "newer\n"}, "refs/heads/main", main)
    r = p.s.call("merge_base", repo="acme/secret", timeout=120, **where)
    ok(r.get("outcome") == "merged", "another merge", r)
    r = p.publish([], "m")
    ok(r["status"] == "ok" and r["outcome"] == "pushed" and
       r["merged_in"] == ["docs/new.md"], "is pushed by itself", r)
    r = p.publish([], "m")
    ok(r.get("outcome") == "already_there", "and is there", r)


# --- what does not leave ------------------------------------------------------------

def table(p):
    p.s.__exit__()
    p.start("verify_gate off\nsecret_override on\n")
    n = [0]

    def no(what, step, setup, files, branch=None, **more):
        n[0] += 1
        p.sh(*setup)
        refused(p, what, step, files, branch or "t%d" % n[0], **more)
        p.sh("git checkout -q -f HEAD", "git clean -qfdx")

    no("the default branch", "protected_ref", ["echo 1 >>add.js"],
       ["add.js"], "main")
    no("unchanged", "unchanged", ["true"], ["add.js"])
    no("what there is not", "missing", ["true"], ["nix"])
    no("a directory", "mode", ["echo 1 >>docs/a.md"], ["docs"])
    no("a secret", "secret", ["echo 'k = \"%s\"' >>add.js" % KEY], ["add.js"])
    no("a secret that a comment allows", "secret",
       ["echo 'k = \"%s\" # gitleaks:allow' >>add.js" % KEY], ["add.js"])
    no("a secret in a new file", "secret", ["mkdir -p x", "printf -- '-----"
       "BEGIN RSA PRIVATE KEY-----\\n%s\\n-----END RSA PRIVATE KEY-----\\n' "
       "\"$(head -c 600 /dev/urandom | base64 -w64)\" >x/k"], ["x/k"])
    no("a workflow", "sensitive", ["mkdir -p .github/workflows",
       "echo x >.github/workflows/x.yml"], [".github/workflows/x.yml"])
    no("owners", "sensitive", ["echo x >CODEOWNERS"], ["CODEOWNERS"])
    no("attributes", "sensitive", ["echo '* -text' >.gitattributes"],
       [".gitattributes"])
    no("a link", "sensitive", ["ln -s /etc/passwd l"], ["l"])
    no("a submodule's file", "sensitive", ["echo x >.gitmodules"],
       [".gitmodules"])
    no("a path of git", "path", ["true"], [".git/config"])
    no("one that HFS+ takes for it", "path",
       ["mkdir -p \"$(printf '.g\\342\\200\\214it')\"",
        "echo x >\"$(printf '.g\\342\\200\\214it')/config\""],
       [".g\u200cit/config"])
    no("one that NTFS takes for it", "path",
       ["mkdir -p git~1", "echo x >git~1/config"], ["git~1/config"])
    no("two names of one case", "path", ["echo x >DOCS"], ["DOCS"])
    no("out of the tree", "path", ["true"], ["../x"])
    no("another commit that is nowhere", "no_such_base",
       ["git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x",
        "git update-ref refs/remotes/origin/t%d HEAD" % (n[0] + 1),
        "echo 1 >>add.js"], ["add.js"])
    no("another repository", "not_allowed", ["echo 1 >>add.js"], ["add.js"],
       repo="acme/other")


def let_out(p):
    """a finding that is none goes, once"""
    p.sh("echo 'k = \"%s\"' >>add.js" % KEY)
    r = refused(p, "before it is let out", "secret", ["add.js"], "out")
    o = p.s.call("secret_scan_override", container_id=p.box,
                 run_id=r["run_id"], reason="An example's.",
                 fingerprints=[f["fingerprint"] for f in r["findings"]])
    ok(o["status"] == "ok" and o["waived"] == 1 and
       o["repo"] == "github.com/acme/secret", "it is let out", o)
    refused(p, "not to another branch", "secret", ["add.js"], "out2")
    r = p.publish(["add.js"], "out")
    ok(r["status"] == "ok" and r["pushed"] and r["waived_total"] == 1 and
       r["waived"][0]["path"] == "add.js" and KEY in p.repo.git(
           "cat-file", "blob", "out:add.js"), "and is pushed, with a word of "
       "it", r)
    p.sh("git checkout -q -f HEAD", "git clean -qfdx",
         "echo 'q = \"%s\"' >>docs/a.md" % KEY)
    refused(p, "nor again", "secret", ["docs/a.md"], "out")
    p.sh("git checkout -q -f HEAD", "git clean -qfdx")


def partial(p):
    """files of the base that a clone without blobs lacks are fetched"""
    other = tempfile.mkdtemp(prefix="sbx-partial.")
    try:
        for cmd in (["clone", "-q", "-b", "main", p.repo.path, "."],
                    ["config", "user.name", "t"],
                    ["config", "user.email", "t@t.test"],
                    ["checkout", "-q", "-b", "far"]):
            subprocess.run(["git", *cmd], cwd=other, check=True)
        for i in range(3):
            with open(other + "/far%d" % i, "w", encoding="ascii") as f:
                f.write("only there %d\n" % i)
        for cmd in (["add", "."], ["commit", "-qm", "far"],
                    ["push", "-q", "origin", "far"]):
            subprocess.run(["git", *cmd], cwd=other, check=True)
    finally:
        subprocess.run(["rm", "-rf", other], check=True)
    where = {"container_id": p.box, "working_dir": "/workspace/part"}
    r = p.s.call("clone_repo", timeout=120, container_id=p.box,
                 repo="acme/secret", branch="main", filter="blob:none",
                 dest_dir="/workspace/part")
    ok(r["status"] == "ok", "a clone without blobs", r)
    at, p.at = p.at, r["clone_path"]
    where["working_dir"] = p.at
    p.sh("sed -i 's/a - b/a + b/' add.js", "echo '// part' >>add.js",
         "echo new >docs/new.md")
    args = {"files": ["add.js", "docs/new.md"], "branch": "far"}
    r = p.s.call("verify_in_container", fresh=True, timeout=120, **where,
                 **args)
    ok(r.get("code") == "objects_missing" and
       "fetch: true" in r["recommended_next_action"], "a private repository "
       "that nobody named is not read for it", r)
    r = p.publish(args["files"], "far")
    ok(r["status"] == "ok" and r["pushed"] and r["gate"]["status"] ==
       "passed", "publish fetches what its verification needs", r)
    p.at = at


def hostile(p):
    """what a clone may hold has no part in what is pushed"""
    p.sh("git config remote.origin.url https://evil.test/x",
         "git config remote.origin.push refs/heads/*:refs/heads/*",
         "git config url.https://evil.test/.insteadOf https://github.com/",
         "git config core.attributesFile /workspace/attr",
         "git config filter.evil.clean 'echo evil'",
         "git config commit.template /etc/passwd",
         "echo '* filter=evil' >/workspace/attr",
         "echo '* filter=evil' >.git/info/attributes",
         "for h in pre-push pre-commit commit-msg post-index-change; do "
         "printf '#!/bin/sh\\ntouch /workspace/ran\\nexit 1\\n' "
         ">.git/hooks/$h; chmod +x .git/hooks/$h; done",
         "git replace HEAD $(git commit-tree -m evil HEAD^{tree} </dev/null)"
         " 2>/dev/null || true",
         "printf '%s\\n' $(git rev-parse HEAD) >.git/info/grafts",
         "rm -f /workspace/ran", "echo 1 >>docs/a.md", "chmod +x docs/a.md",
         "printf 'u\\r\\nv\\r\\n' >crlf.txt", "mkdir -p n/m",
         "echo '$Id$' >n/m/o", "touch -- n/-dash 'n/sp ace' 'n/qu\"ote'")
    files = ["docs/a.md", "crlf.txt", "n/m/o", "n/-dash", "n/sp ace",
             'n/qu"ote']
    r = p.publish(files, "hostile")
    ok(r["status"] == "ok" and r["outcome"] == "pushed",
       "a repository full of traps", r)
    got = p.repo.git("ls-tree", "-r", "-z", "--name-only", "hostile")
    ok(set(files) <= set(got.split("\0")), "its files", got)
    ok(p.repo.git("cat-file", "blob", "hostile:crlf.txt") == "u\nv" and
       p.repo.git("cat-file", "blob", "hostile:docs/a.md") ==
       p.repo.git("cat-file", "blob", "main:docs/a.md") + "\n1",
       "by the attributes of the base and no others")
    ok(p.sh("ls /workspace").find("ran") == -1, "no hook ran")
    ok(p.repo.git("rev-list", "--count", "main..hostile") == "1" and
       p.repo.git("diff", "--name-only", "main", "hostile").count("\n") == 5,
       "one commit, and what was declared")


def approval(p):
    """what an operator sees of it, before it goes and after"""
    p.s.__exit__()
    mcp.Suite.can = {"elicitation": {}}
    p.start("verify_gate off\nconfirm_publish user\nallow_force yes\n")
    mcp.Suite.can = {}
    p.s.says = "cancel"
    p.sh("echo 'b + \xe9\x1b[31m' >>add.js",
         "printf '//-----BEGIN PRIVATE KEY-----%s\nrm -rf home\n' >>add.js" % (
             "a" * 40), "echo token=%s >>docs/b.md" % (
        "ghp_" + "a1B2" * 9))
    refused(p, "a secret", "secret", ["docs/b.md"], "ask0")
    args = {"container_id": p.box, "repo": "acme/secret", "branch": "ask",
            "message": "Change it.", "files": ["add.js"],
            "working_dir": p.at}
    r = p.s.call("publish", timeout=120, **args)
    ok(r["status"] == "running" and r.get("waiting_for") == "approval" and
       not p.tip("ask"), "it waits for the operator", r)
    run, commit = r["run_id"], r["commit"]
    x = json.loads(p.s.sbx("publish", "list", "--json").stdout)
    ok([(i["run_id"], i["state"], i["step"]) for i in x][0] == (
        run, "waiting", "") and x[1]["step"] == "secret", "it is listed", x)
    t = p.s.sbx("publish", "list").stdout
    ok("%s  waiting " % run in t and "refused secret" in t, "as a table", t)
    x = json.loads(p.s.sbx("publish", "show", "--json", run).stdout)
    f = x["files"][0]
    ok((x["commit"], x["waiting_for"], x["lines_added"], len(x["files"])) == (
        commit, "approval", 3, 1) and (
            f["path"], f["mode"], f["status"], f["lines_added"],
            f["old_id"]) == ("add.js", "100644", "M", 3, p.repo.git(
                "rev-parse", "main:add.js")), "what it is of", x)
    v = [(i["op"], i["phase"]) for i in x["records"]]
    ok(v[0] == ("publish", "start") and ("publish", "held") in v and
       all(i["run_id"] == run for i in x["records"]), "with its records", v)
    t = p.s.sbx("publish", "show", run).stdout
    ok("+b + \xe9\\x1b[31m\n" in t and "\x1b" not in t and
       "held" in t.partition("\nrecords:\n")[2],
       "its diff and its records, safe for a terminal", t)
    ok("rm -rf" not in t and "hide 1 pieces" in t and "rm -rf home" in p.s.sbx(
        "publish", "show", "--unmasked", run).stdout,
       "nothing is hidden from who decides", t)
    r = p.s.sbx("approve", "f" * 16)
    ok(r.returncode == 3 and "no suite that runs has" in r.stderr, "none", r)
    r = p.s.sbx("approve", run)
    ok(r.returncode == 0 and r.stdout == "approved: %s to ask of "
       "github.com/acme/secret\n" % commit, "approved", r)
    r = p.s.call("publish", timeout=120, run_id=run, **args)
    while r.get("status") == "running":
        r = p.s.call("publish", timeout=120, run_id=run, **args)
    ok(r["status"] == "ok" and p.tip("ask") == commit == r["commit"],
       "and pushed", r)
    t = p.s.sbx("publish", "show", run).stdout
    ok("+b + " in t and "approved" in t and "grant_used" in t,
       "which is shown after its end", t)
    r = p.s.sbx("approve", run)
    ok(r.returncode == 3 and "does not wait" in r.stderr, "once", r)
    args["branch"] = "ask2"
    run = p.s.call("publish", timeout=120, **args)["run_id"]
    r = p.s.sbx("approve", "--refuse", run, "not today")
    ok(r.returncode == 0 and r.stdout.startswith("refused: "), "or not", r)
    r = p.s.call("publish", timeout=120, run_id=run, **args)
    ok(r.get("code") == "confirm" and "not today" in r["error"] and
       not p.tip("ask2"), "and nothing leaves", r)
    p.s.notes, p.s.says, args["branch"] = [], "accept", "ask3"
    r = p.s.call("publish", timeout=120, **args)
    text = [n["params"]["message"] for n in p.s.notes if "id" in n]
    ok(r["status"] == "ok" and p.tip("ask3") == r["commit"],
       "or the user approves", r)
    ok(len(text) == 1 and r["commit"] in text[0] and "branch ask3?" in text[0]
       and "\n1 files, 3 lines added, 0 deleted\n\nadd.js\n" in text[0],
       "who was asked once, about that", text)
    args.update(branch="ask", files=["docs/a.md"])
    p.sh("echo once more >>docs/a.md")
    r = p.s.call("publish", timeout=120, force=True, **args)
    ok(r["status"] == "ok" and r["from"] == commit and p.tip("ask") ==
       r["commit"] and p.tip("ask^") == r["base"] == p.tip("main") and
       p.repo.git("diff", "--name-only", "main", "ask") == "docs/a.md",
       "by force it takes the place of what was there", r)
    args.update(branch="ask4", files=["add.js"])
    p.s.says = "decline"
    r = p.s.call("publish", timeout=120, **args)
    ok(r.get("code") == "confirm" and "user" in r["error"] and
       not p.tip("ask4"), "or not", r)


def main():
    try:
        p = Place()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return
    try:
        for part in (whole, second, partial, merging, table, let_out,
                     hostile, approval):
            try:
                part(p)
            except Exception as e:  # pylint: disable=broad-except
                ok(False, "%s: %r" % (part.__name__, e))
        ok(not p.gh.wrong, "every request fits GitHub's description",
           p.gh.wrong)
        ok(not p.gh.errors, "the fake made no mistake", p.gh.errors)
    finally:
        p.close()


main()
tap.done()
sys.exit(tap.bad > 0)
