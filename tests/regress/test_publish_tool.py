#!/usr/bin/env python3
"""publish in a worker with a monitor of the test's own: what it reads from the
work tree, what it asks for, and what it makes of each answer."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRC = os.environ["SBX_SRC"]
sys.path[:0] = [SRC + "/tests/regress", SRC + "/tests/lib"]
import ipc  # noqa: E402
import worker_monitor as wm  # noqa: E402
from mcp import Tap  # noqa: E402

t = Tap()
top = tempfile.mkdtemp()
os.chmod(top, 0o755)
REST = {8: "PULLS_OF", 12: "PULL_CREATE"}
ENDED = 7
PUSHED, LANDED, WOULD, REFUSED, UNKNOWN = 1, 2, 3, 4, 5
NEW = "c" * 40
ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null",
       "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "T",
       "GIT_AUTHOR_EMAIL": "t@example.invalid", "GIT_COMMITTER_NAME": "T",
       "GIT_COMMITTER_EMAIL": "t@example.invalid"}


def git(*args, cwd=None):
    return subprocess.run(["git", *args], cwd=cwd or work, env=ENV,
                          check=True, capture_output=True,
                          text=True).stdout.strip()


def write(name, text):
    os.makedirs(os.path.dirname(os.path.join(work, name)), exist_ok=True)
    with open(os.path.join(work, name), "w", encoding="utf-8") as f:
        f.write(text)


class Hub(wm.Monitor):
    def __init__(self, **more):
        super().__init__(**more)
        self.pub, self.api, self.seen, self.started = {}, {}, [], []
        self.opened, self.over = [], {}

    def on_publish_start(self, m):
        self.started.append({
            **{k: m[k] for k in ("container", "dir", "host", "repo", "branch",
                                 "base", "parent2", "merge_branch", "merged",
                                 "flags")},
            "names": ipc.read_fd(m.fds[0]).decode().split("\0")[:-1],
            "message": ipc.read_fd(m.fds[1]).decode()})
        self.tell(m)

    def tell(self, m):
        self.chan.send("PUBLISH_STATE", m.id, **{
            "publish": "ab" * 8, "container": "", "phase": ENDED,
            "outcome": PUSHED, "step": "", "reason": "", "next": "",
            "tip": "", "base": "b" * 40, "tree": "d" * 40, "commit": NEW,
            "branch": "fix", "default_branch": "main", "grant": "",
            "added": 1, "modified": 1, "deleted": 0, "unchanged": 0,
            "bytes": 9, "total": 0, "findings": [], "elapsed_ms": 5,
            **self.pub})

    def on_override_ask(self, m):
        self.seen.append((m["container"], m["publish"], m["hold"],
                          m["reason"], m["fingerprints"]))
        if isinstance(self.over, str):
            raise wm.Refuse(self.over, "no")
        else:
            self.chan.send("OVERRIDE_STATE", m.id, **{
                "host": "github.com", "repo": "o/r", "branch": "fix",
                "confirm": 1, "count": m["hold"], "left_s": 3600 * m["hold"],
                "findings": ["aws-key", "a" + chr(0x202e), "7", "f" * 64],
                **self.over})

    def on_publish_confirm(self, m):
        self.seen.append((m["publish"], m["said"]))
        if isinstance(self.after, str):
            raise wm.Refuse(self.after, "no")
        if m["said"]:
            self.pub = self.after
            self.tell(m)
            return
        self.chan.send("PUBLISH_QUESTION", m.id, host="github.com",
                       repo="o/r", branch="fix", commit=NEW, base=BASE,
                       files=3, plus=4, minus=5, declared=3, merged=2,
                       paths=["a" + chr(0x202e), "new/b"])

    def on_publish_wait(self, m):
        self.started.append(m["publish"])
        self.tell(m)

    def gate_state(self, m, **more):
        self.chan.send("GATE_STATE", m.id, gate="ef" * 8, container=box,
                       **more)

    def on_gate_start(self, m):
        with open(m["dir"] + "/a", encoding="utf-8") as f:
            text = f.read()
        self.gates.append((sorted(ipc.read_fd(m.fds[0]).split(b"\0")), text))
        self.gate_state(m)

    def on_gate_wait(self, m):
        self.gate_state(m, phase=3, results=[
            "js", "failed", "12" * 8, "2", "1", "1", "0", "0", "1 of 2"])

    def on_publish_gate(self, m):
        self.gates.append((m["publish"], m["gate"]))
        self.pub = self.after
        self.tell(m)

    def on_repo_open(self, m):
        self.opened.append(m["repo"])
        self.chan.send("REPO_OPENED", m.id, grant="", why="it is not listed")

    def on_api_ask(self, m):
        op, body = REST[m["op"]], ipc.read_fd(m.fds[0])
        self.seen.append((op, m["repo"], m["text"],
                          json.loads(body) if body else None))
        answer = self.api.get(op, [])
        if isinstance(answer, str):
            self.chan.send("API_DONE", m.id, error=-19, code=answer,
                           reason="", status=422, retry_s=0)
            return
        os.write(m.fds[1], json.dumps(answer).encode())
        self.chan.send("API_DONE", m.id, status=200, next_page=0)

    def on_exec_start(self, m):
        self.cwd = m["cwd"] if os.path.isdir(m["cwd"]) else top
        super().on_exec_start(m)
        self.runs[list(self.runs)[-1]].tool = "publish"


work = os.path.join(top, "w")
far = os.path.join(top, "far")
git("init", "-q", "--bare", "-b", "main", far, cwd=top)
git("init", "-q", "-b", "main", work, cwd=top)
write("a", "1\n")
write("gone", "1\n")
git("add", ".")
git("commit", "-qm", "one")
git("remote", "add", "origin", far)
git("push", "-q", "origin", "main")
git("fetch", "-q")
git("config", "sbx.base", "main")
BASE = git("rev-parse", "HEAD")
m = Hub(cwd=top)
box = m.box("work")
ARGS = {"container_id": box, "repo": "O/r", "branch": "fix",
        "message": "Mend it.", "files": ["a", "./new/b", "gone", "a"],
        "working_dir": work}


def check(what, args, want_error=False, **members):
    m.seen, m.started, m.opened = [], [], []
    r, is_error = m.call("publish", {**ARGS, **args})
    t.ok(is_error == want_error and
         all(r.get(k) == v for k, v in members.items()), what, r)
    return r


# --- what is asked ------------------------------------------------------------------
write("a", "2\n")
write("new/b", "new\n")
write("left over", "x\n")
os.unlink(os.path.join(work, "gone"))
git("commit", "-qam", "a checkpoint")
r = check("it is pushed", {}, status="ok", outcome="pushed", pushed=True,
          commit=NEW, branch="fix", run_id="ab" * 8, repo="O/r")
t.ok(len(m.started) == 1 and m.started[0] == {
    "container": box, "dir": work, "host": "github.com", "repo": "o/r",
    "branch": "fix", "base": BASE, "parent2": "",
    "merge_branch": "", "merged": 0, "flags": 4,
    "names": ["a", "gone", "new/b"], "message": "Mend it."},
    "each name once, on the commit that was cloned, whatever was committed "
    "here since", m.started)
t.ok(r["worktree_leftover"] == ["left over"] and
     r["worktree_leftover_total"] == 1, "what stays behind is named", r)
t.ok(m.opened == ["o/r"] and len(r["warnings"]) == 1 and
     "could not fetch" in r["warnings"][0],
     "the work tree could not learn of it: a warning", r)

m.pub = {"outcome": WOULD}
check("a dry run", {"dry_run": True}, status="ok", outcome="dry_run",
      pushed=False, warnings=[])
t.ok(m.started[0]["flags"] == 5 and not m.opened, "and nothing after it")

# --- not verified yet ---------------------------------------------------------------
GATE = {"gate": "ef" * 8, "gate_ran": "js make"}
for what, pub, error, want in (
        ("green", {**GATE, "gate_status": "passed"}, False, {
            "status": "ok", "outcome": "pushed"}),
        ("red", {**GATE, "gate_status": "failed", "outcome": REFUSED, "step":
                 "verify_gate", "reason": "it did not pass", "next": "Mend."},
         True, {"code": "verify_gate", "pushed": False})):
    m.pub, m.after, m.gates = {
        "phase": 4, "outcome": 0, "gate_status": "missing", "base": BASE,
        "commit": ""}, pub, []
    r = check("%s, when it is verified" % what, {}, error, gate={
        "run_id": "ef" * 8, "status": pub["gate_status"],
        "command": "vitest, jest or node --test; make check"},
        **want)
    t.ok(len(m.gates) == 2 and m.gates[1] == ("ab" * 8, "ef" * 8) and
         m.gates[0] == ([b"", b"a", b"new/b"], "2\n"),
         "the same files on the same base were verified", m.gates)
    t.ok(not error or (r["tests"][0]["failed"], r["tests"][0]["verdict"]) ==
         (1, "failed"), "with what failed", r)
m.pub = {"phase": 4, "outcome": 0, "gate_status": "missing", "base": "b" * 40}
check("no base to verify on", {}, True, code="bad_argument")

# --- refusals -----------------------------------------------------------------------
m.pub = {"outcome": REFUSED, "step": "secret", "reason": "1 secret in what "
           "is added", "next": "Take it out.", "commit": "", "total": 1,
           "findings": ["aws-key", "a", "7", "f" * 64]}
check("a secret", {}, True, code="secret", step="secret", pushed=False,
      recommended_next_action="Take it out.", findings_total=1, findings=[
          {"rule": "aws-key", "path": "a", "line": 7,
           "fingerprint": "f" * 64}])
m.pub = {"nwaived": 2, "waived": ["aws-key", "a", "7", "f" * 64]}
check("what was let out is told", {}, status="ok", waived_total=2, waived=[
    {"rule": "aws-key", "path": "a", "line": 7, "fingerprint": "f" * 64}])
O = {"container_id": box, "run_id": "ab" * 8, "reason": "Of a test.",
     "fingerprints": ["f" * 64]}


def let_out(what, want, inputs="", **args):
    return told("secret_scan_override", {**O, **args}, what, want, inputs)


def told(tool, args, what, want, inputs=""):
    m.seen, m.started = [], []
    m.start(tool, args, client_can=1, inputs=inputs)
    while True:
        q = m.chan.recv(20)
        if q.name == "WORK_RESULT":
            break
        m.answer(q)
        q.close()
    r = json.loads(ipc.read_fd(q.fds[0]))
    q.close()
    got = "inputRequests" if "inputRequests" in r else r.get("code") or \
        r["status"]
    t.ok(got == want, what, r)
    return r


def word(s):
    return json.dumps({"inputResponses": {"confirm": {"action": s}}})


r = let_out("the user is asked", "inputRequests")
text = r["inputRequests"]["confirm"]["params"]["message"]
t.ok("github.com/o/r, branch fix" in text and "a<U+202E>:7: aws-key\n" in text
     and "> Of a test." in text, "and sees what it is", text)
t.ok([s[2] for s in m.seen] == [0], "nothing holds yet", m.seen)
let_out("he does not agree", "declined", word("decline"))
t.ok([s[2] for s in m.seen] == [0], "nothing holds", m.seen)
r = let_out("he agrees", "ok", word("accept"))
t.ok(m.seen == [(box, "ab" * 8, i, "Of a test.", ["f" * 64])
                for i in (0, 1)] and r["waived"] == 1 and
     r["expires_in_seconds"] == 3600 and r["repo"] == "github.com/o/r",
     "it holds", (m.seen, r))
m.over = {"confirm": 0}
let_out("where the operator permits it nobody is asked", "ok")
m.over = "not_allowed"
let_out("refused", "not_allowed")
for args in ({"reason": " "}, {"fingerprints": ["x"]},
             {"fingerprints": ["f" * 64] * 65}, {"fingerprints": []}):
    let_out("bad arguments %s" % (list(args),), "bad_argument", **args)
    t.ok(not m.seen, "nothing is asked", m.seen)
m.pub = {"outcome": UNKNOWN, "step": "push", "reason": "it was cut off",
           "next": "Repeat it."}
check("nobody knows", {}, True, code="unknown", step="push")
m.pub = {"outcome": LANDED}
check("repeated", {}, status="ok", outcome="already_there", pushed=False)
check("a run that went on", {"run_id": "ab" * 8}, status="ok")
t.ok(m.started == ["ab" * 8], "is looked at, not begun anew", m.started)
m.pub = {"phase": 5, "outcome": 0}
r = check("an operator is asked", {}, status="running", waiting_for="approval",
          job_id="ab" * 8)
t.ok(len(m.started) == 1 and "sbx approve" in r["recommended_next_action"],
     "which is told at once, for the user", (r, m.started))

# --- its user approves --------------------------------------------------------------
WAITS = {"phase": 5, "outcome": 0}
STATE = {"run_id": "ab" * 8, "commit": NEW}


def answered(action):
    return json.dumps({"inputResponses": {"confirm": {"action": action}},
                       "state": STATE})


m.pub, m.after = WAITS, {}
r = told("publish", ARGS, "the user is asked", "inputRequests")
text = r["inputRequests"]["confirm"]["params"]["message"]
t.ok("github.com/o/r, branch fix?" in text and NEW in text and BASE in text and
     "3 files, 4 lines added, 5 deleted\nand 2 files" in text and
     "a<U+202E>\nnew/b\nand 3 more\n" in text, "all of it", text)
t.ok(r["state"] == STATE and m.seen == [("ab" * 8, 0)] and
     isinstance(m.started[0], dict), "and what it is of is kept", r)
told("publish", ARGS, "he agrees", "ok", answered("accept"))
t.ok(m.seen == [("ab" * 8, 0), ("ab" * 8, 1)] and m.started == ["ab" * 8],
     "it goes on, and is not begun anew", (m.seen, m.started))
m.pub, m.after = WAITS, {"outcome": REFUSED, "step": "confirm", "reason":
                         "the user did not agree", "next": "Ask."}
told("publish", ARGS, "he does not agree", "confirm", answered("decline"))
m.pub, m.after = WAITS, WAITS
r = told("publish", ARGS, "he says nothing", "running", answered("cancel"))
t.ok(r["waiting_for"] == "approval", "it waits for the operator", r)
m.pub, m.after = WAITS, "not_asked"
told("publish", ARGS, "where the operator alone approves", "running")
told("publish", ARGS, "whatever was answered", "running", json.dumps({
    "inputResponses": {"confirm": {"action": "accept"}}}))
t.ok((NEW, 1) not in m.seen and isinstance(m.started[0], dict),
     "no question, no answer", m.seen)
m.pub = {"outcome": LANDED}
check("with other arguments", {"run_id": "ab" * 8, "branch": "other"}, True,
      code="bad_argument")
for arg in ("branch", "base_branch"):
    for name, word in (("a b", "it is of letters, digits"),
                       ("refs/heads/x", "without refs/heads/")):
        r = check("%s %s" % (arg, name), {arg: name}, True,
                  code="bad_argument")
        t.ok('"%s" is no branch' % arg in r["error"] and word in r["error"] and
             r["error"].count("refs/heads") == name.count("refs/heads"),
             "says what is wrong with it", r)
for what, args in (
        ("a branch with refs", {"branch": "x..y"}),
        ("an option", {"branch": "-x"}), ("a lock", {"branch": "x.lock/y"}),
        ("a blank message", {"message": " \n"}),
        ("onto itself", {"base_branch": "fix"}),
        ("no title", {"create_pr": True}),
        ("no repository", {"repo": "../x"}),
        ("a relative directory", {"working_dir": "w"})):
    check(what, args, True, code="bad_argument")
    t.ok(not m.started, "%s: nothing was begun" % what, m.started)
check("a secret in the branch's name", {"branch": "x-ghp_" + "a1B2" * 9}, True,
      code="secret_found")
t.ok(not m.started, "is not sent")
check("a secret in the message", {"message": "ghp_" + "a1B2" * 9}, True)
t.ok(not m.started, "is not sent")

# --- others' work --------------------------------------------------------------------
other = os.path.join(top, "other")
git("clone", "-q", far, other, cwd=top)
with open(other + "/a", "w", encoding="utf-8") as f:
    f.write("theirs\n")
git("commit", "-qam", "theirs", cwd=other)
git("push", "-q", "origin", "HEAD:refs/heads/fix", cwd=other)
git("fetch", "-q")
THEIRS = git("rev-parse", "origin/fix")
check("others changed a declared file", {}, True, code="upstream_overwrite",
      conflicting_paths=["a"])
t.ok(not m.started, "nothing was begun")
for what, how in (("a link to as much", lambda a: (
        os.rename(a, a + "2"), os.symlink("a2", a))),
                  ("its mode", lambda a: os.chmod(a, 0o755))):
    write("a", "theirs\n")
    how(os.path.join(work, "a"))
    check("they made it as it is here, but for " + what, {}, True,
          code="upstream_overwrite", conflicting_paths=["a"])
    os.unlink(os.path.join(work, "a"))
write("a", "theirs\n")
check("they made it as it is here", {}, status="ok")
t.ok(m.started[0]["base"] == THEIRS, "and it is on theirs", m.started)
os.path.exists(work + "/a2") and os.unlink(work + "/a2")
write("a", "2\n")
check("others changed another file", {"files": ["new/b"]}, status="ok")
t.ok(m.started[0]["base"] == THEIRS, "it is made on theirs", m.started)
git("update-ref", "refs/sbx/published/fix", THEIRS)
check("our own push is no others' work", {}, status="ok")

# --- merges ---------------------------------------------------------------------------
merged = os.path.join(top, "merged")
M = {"working_dir": merged, "branch": "topic"}
git("clone", "-q", "-b", "main", far, merged, cwd=top)
git("config", "sbx.base", "main", cwd=merged)


def commit(where, files, branch):
    for name, text in files.items():
        with open(os.path.join(where, name), "w", encoding="utf-8") as f:
            f.write(text)
    git("add", "-A", cwd=where)
    git("commit", "-qm", "x", cwd=where)
    git("push", "-q", "origin", "HEAD:refs/heads/" + branch, cwd=where)
    return git("rev-parse", "HEAD", cwd=where)


TEXT = "".join("%d\n" % i for i in range(30))
commit(merged, {"both": TEXT}, "main")
git("checkout", "-q", "-B", "main", "origin/main", cwd=other)
git("pull", "-q", "origin", "main", cwd=other)
TOPIC = commit(merged, {"both": TEXT.replace("3\n", "three\n", 1),
                        "mine": "1\n"}, "topic")
MAIN = commit(other, {"both": TEXT + "more\n", "theirs": "1\n",
                      "they": "1\n"}, "main")
git("fetch", "-q", cwd=merged)
git("merge", "-q", "--no-edit", "origin/main", cwd=merged)
r = check("what both sides changed must be declared", {**M, "files": []},
          True, code="merge_undeclared", undeclared=["both"])
t.ok(not m.started, "nothing was begun")
with open(merged + "/they", "a", encoding="utf-8") as f:
    f.write("and mine\n")
r = check("a merge", {**M, "files": ["both", "they"]}, status="ok",
          parent2=MAIN, merge_branch="main", merged_in=["theirs"],
          merged_in_total=1, worktree_leftover=[])
t.ok([m.started[0][k] for k in ("base", "parent2", "merge_branch", "merged",
                                "names")] == [
    TOPIC, MAIN, "main", 1, ["both", "they", "theirs"]], "is asked for with "
    "what it brings behind what is declared", m.started)
check("what it brings is not declared, but may be", {**M, "files": [
    "both", "they", "theirs"]}, status="ok", merged_in=[])
r = check("to a new branch", {**M, "branch": "next", "files": ["both"]},
          status="ok")
t.ok(m.started[0]["base"] == MAIN and m.started[0]["parent2"] == "" and
     "one parent" in r["merge_note"], "it is a commit on what was merged", r)
git("checkout", "-q", "-f", "--detach", TOPIC, cwd=merged)
check("without a merge", {**M, "files": []}, True, code="bad_argument")
git("checkout", "-q", "main", cwd=merged)
git("fetch", "-q", cwd=other)
git("checkout", "-q", "-B", "topic", TOPIC, cwd=other)
commit(other, {"theirs": "another\n"}, "topic")
git("fetch", "-q", cwd=merged)
check("others changed on the branch what the merge brings", {**M, "files": [
    "both", "they"]}, True, code="upstream_overwrite",
      conflicting_paths=["theirs"])

# --- pull requests ----------------------------------------------------------------------
m.pub = {}
PR = {"create_pr": True, "pr_title": "Mend", "pr_body": "Because."}
m.api = {"PULL_CREATE": {"number": 4, "html_url": "https://h/4"}}
check("a pull request is made", PR, status="ok", pr_number=4,
      pr_url="https://h/4", pr_created=True)
t.ok(m.seen == [("PULLS_OF", "o/r", "fix", None), ("PULL_CREATE", "o/r", "", {
    "title": "Mend", "body": "Because.", "head": "fix", "base": "main"})],
    "after it was looked for one", m.seen)
m.api["PULLS_OF"] = [{"number": 3, "html_url": "https://h/3",
                      "base": {"ref": "old"}},
                     {"number": 2, "html_url": "https://h/2",
                      "base": {"ref": "next"}}]
check("there is one", {**PR, "base_branch": "next"}, status="ok", pr_number=2,
      pr_created=False)
m.api = {"PULL_CREATE": {"number": 5, "html_url": "https://h/5"}}
m.pub = {"outcome": REFUSED, "step": "unchanged", "reason": "it is there",
         "next": "Declare.", "commit": "", "tree": "", "tip": "b" * 40}
r = check("the branch has it, a pull request has it not", PR, status="ok",
          outcome="already_there", pushed=False, pr_number=5)
t.ok("commit" not in r and "signed" not in r, "no commit is its own", r)
t.ok([s[0] for s in m.seen] == ["PULLS_OF", "PULL_CREATE"] and not m.opened,
     "it is made alone", (m.seen, m.opened))
for what, args, tip in (("not asked for", {"create_pr": False}, "b" * 40),
                        ("a dry run", {"dry_run": True}, "b" * 40),
                        ("no such branch", {}, ""),
                        ("another base", {}, "c" * 40)):
    m.pub["tip"] = tip
    check("unchanged, " + what, {**PR, **args}, True, code="unchanged")
    t.ok(not m.seen, what + ": none is made", m.seen)
m.pub = {}
for arg in ("pr_title", "pr_body"):
    r = check(arg + " without create_pr", {arg: "x"}, status="ok")
    t.ok("create_pr is not set" in r["warnings"][0] and not m.seen,
         "is a warning", r)
m.api = {"PULL_CREATE": "validation"}
r = check("it cannot be made", PR, status="ok", outcome="pushed")
t.ok("no pull request" in r["warnings"][0] and "pr_url" not in r,
     "is a warning: the push stands", r)

# --- a merge under way ---
git("checkout", "-q", "-b", "there", BASE)
write("a", "theirs\n")
git("commit", "-qam", "theirs")
git("checkout", "-q", "main")
subprocess.run(["git", "merge", "-q", "there"], cwd=work, env=ENV, check=False,
               capture_output=True)
for what in ("unmerged", "not yet committed"):
    check("%s: its marks do not go out" % what, {}, True,
          code="merge_in_progress")
    t.ok(not m.started, "%s: nothing was begun" % what, m.started)
    git("add", "a")
git("merge", "--abort")
check("given up", {}, status="ok")

# --- no clone --------------------------------------------------------------------------
alone = os.path.join(top, "alone")
git("init", "-q", "-b", "main", alone, cwd=top)
check("no commit", {"working_dir": alone}, True, code="no_commit")
git("commit", "-q", "--allow-empty", "-m", "x", cwd=alone)
r = check("no remote", {"working_dir": alone}, True, code="no_base")
t.ok("clone anew" in r["recommended_next_action"] and "depth" not in r[
    "recommended_next_action"], "all is there: no depth helps", r)
with open(os.path.join(alone, ".git/shallow"), "w", encoding="ascii") as f:
    f.write(git("rev-parse", "HEAD", cwd=alone) + "\n")
r = check("a shallow one", {"working_dir": alone}, True, code="no_base")
t.ok("more depth" in r["recommended_next_action"], "may lack depth", r)
check("no repository", {"working_dir": top}, True)
m.close()
t.done()
