#!/usr/bin/env python3
"""merge_base, merge_complete and merge_abort in a worker with a monitor of the
test's own: real git, and what is told of it."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRC = os.environ["SBX_SRC"]
sys.path[:0] = [SRC + "/tests/regress", SRC + "/tests/lib"]
import worker_monitor as wm  # noqa: E402
from mcp import Tap  # noqa: E402

t = Tap()
top = tempfile.mkdtemp()
os.chmod(top, 0o755)
ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null",
       "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "T",
       "GIT_AUTHOR_EMAIL": "t@example.invalid", "GIT_COMMITTER_NAME": "T",
       "GIT_COMMITTER_EMAIL": "t@example.invalid"}
LINES = "".join("%d\n" % i for i in range(40))


def git(*args, cwd=None):
    return subprocess.run(["git", "-c", "core.hooksPath=/dev/null", "-c",
                           "commit.gpgSign=false", *args],
                          cwd=cwd or work, env=ENV,
                          check=True, capture_output=True,
                          text=True).stdout.strip()


def write(name, text, at=None):
    path = os.path.join(at or work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def read(name):
    with open(os.path.join(work, name), "rb") as f:
        return f.read()


class Hub(wm.Monitor):
    opened, bound, closed, grant = (), (), (), ""

    def on_repo_open(self, m):
        self.opened += ((m["host"], m["repo"]),)
        self.chan.send("REPO_OPENED", m.id, grant=self.grant, why="so")

    def on_repo_run(self, m):
        self.bound += ((m["grant"], m["path"]),)
        self.chan.send("REPO_RUNS", m.id)

    def on_repo_close(self, m):
        self.closed += (m["grant"],)
        self.chan.send("REPO_CLOSED", m.id)

    def on_exec_start(self, m):
        self.cwd = m["cwd"] if os.path.isdir(m["cwd"]) else top
        super().on_exec_start(m)


far, up, work = (os.path.join(top, n) for n in ("far", "up", "w"))
git("init", "-q", "--bare", "-b", "main", far, cwd=top)
git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=far)
git("clone", "-q", far, up, cwd=top)
git("checkout", "-q", "-b", "main", cwd=up)
for name, text in (("a", LINES), ("b", LINES), ("bin", b"\0base"),
                   ("gone", "1\n"), ("kept", "1\n"), ("dir/ä b", LINES)):
    write(name, text, up)
git("add", ".", cwd=up)
git("commit", "-qm", "one", cwd=up)
git("push", "-q", "origin", "main", cwd=up)


def upstream(files, branch="main"):
    git("checkout", "-q", branch, cwd=up)
    for n, text in files.items():
        if text is None:
            os.unlink(os.path.join(up, n))
        else:
            write(n, text, up)
    git("add", "-A", cwd=up)
    git("commit", "-qm", "theirs", cwd=up)
    git("push", "-q", "origin", branch, cwd=up)
    return git("rev-parse", "HEAD", cwd=up)


def mine(files):
    for n, text in files.items():
        if text is None:
            os.unlink(os.path.join(work, n))
        else:
            write(n, text)
    git("add", "-A")
    git("commit", "-qm", "mine")
    return git("rev-parse", "HEAD")


def clone(*more):
    subprocess.run(["rm", "-rf", work], check=True)
    git("clone", "-q", *more, "file://" + far, work, cwd=top)
    git("config", "sbx.base", "main")
    # what a repository may have set up for whoever works in it
    git("config", "core.hooksPath", top + "/hooks")
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", "/bin/false")
    git("config", "core.editor", "/bin/false")


os.mkdir(top + "/hooks")
for h in ("pre-merge-commit", "post-merge", "commit-msg", "pre-commit",
          "post-checkout", "prepare-commit-msg"):
    write("hooks/" + h, "#!/bin/sh\ntouch %s/ran\nexit 1\n" % top, top)
    os.chmod(top + "/hooks/" + h, 0o755)
clone()
m = Hub(cwd=top)
box = m.box("work")


def call(what, tool, want_error=False, more=None, **members):
    m.opened, m.bound, m.closed = (), (), ()
    r, is_error = m.call(tool, {"container_id": box, "working_dir": work,
                                **(more or {})})
    t.ok(is_error == want_error and
         all(r.get(k) == v for k, v in members.items()), what, r)
    return r


def clean():
    return git("status", "--porcelain") == ""


# --- without a conflict ------------------------------------------------------------
r = call("nothing new", "merge_base", status="ok", outcome="up_to_date",
         base_branch="main")
tip = upstream({"b": LINES.replace("7\n", "seven\n", 1), "gone": None})
r = call("nothing of our own", "merge_base", status="ok",
         outcome="fast_forward", head=tip, tip=tip, changed=2)
before = mine({"a": LINES.replace("1\n", "one\n", 1)})
tip = upstream({"a": LINES.replace("39\n", "last\n"), "new": "new\n"})
r = call("both changed", "merge_base", status="ok", outcome="merged",
         before=before, tip=tip, changed=2)
t.ok(git("log", "-1", "--format=%P %an %cn %s") ==
     "%s %s sbx merge sbx merge Merge branch 'main'" % (before, tip) and
     r["head"] == git("rev-parse", "HEAD") and
     read("a").startswith(b"0\none\n") and read("a").endswith(b"last\n") and
     git("rev-parse", "refs/sbx/merged/main") == tip, "is a merge of both")
call("once more", "merge_base", outcome="up_to_date")
t.ok(not m.opened, "no credential where no repository was named", m.opened)

# --- what is refused --------------------------------------------------------------------
upstream({"new": "newer\n"})
write("a", "dirty\n")
r = call("changes", "merge_base", True, code="dirty", dirty=["a"])
t.ok(read("a") == b"dirty\n" and "checkpoint" in r["recommended_next_action"],
     "are kept", r)
git("checkout", "-q", "a")
write("untracked", "mine\n")
upstream({"untracked": "theirs\n"})
r = call("a file that nobody added", "merge_base", True, code="merge_failed")
t.ok("untracked" in r["error"] and read("untracked") == b"mine\n" and
     not os.path.exists(work + "/.git/MERGE_HEAD"), "is kept", r)
os.unlink(work + "/untracked")
call("no such branch", "merge_base", True, {"base_branch": "nix"},
     code="fetch")
call("a name of none", "merge_base", True, {"base_branch": "-x"},
     code="bad_argument")
call("no merge", "merge_complete", True, code="no_merge")
call("no merge", "merge_abort", True, code="no_merge")
git("checkout", "-q", "--orphan", "lone", cwd=up)
git("commit", "-qm", "x", cwd=up)
git("push", "-q", "origin", "lone", cwd=up)
call("nothing in common", "merge_base", True, {"base_branch": "lone"},
     code="unrelated")
call("no repository", "merge_base", True, {"working_dir": top},
     code="no_repository")
m.grant = "ab" * 8
call("a repository that is named", "merge_base", True,
     {"repo": "127.0.0.1/Acme/x"}, code="fetch")
t.ok(m.opened == (("127.0.0.1", "acme/x"),) and
     m.bound == (("ab" * 8, ""),), "is read by a grant that ends with the run",
     (m.opened, m.bound))
m.grant = ""
call("what is left", "merge_base", outcome="merged")

# --- conflicts ----------------------------------------------------------------------------
before = mine({"a": LINES.replace("5\n", "ours\n", 1), "bin": b"\0ours",
               "kept": "ours\n", "dir/ä b": None, "both": "ours\n",
               "taken": "ours\n", "other": "1\n"})
tip = upstream({"a": LINES.replace("5\n", "theirs\n", 1), "bin": b"\0theirs",
                "kept": None, "dir/ä b": "theirs\n", "both": "theirs\n",
                "taken": "theirs\n", "clean": "theirs\n"})
r = call("conflicts", "merge_base", status="failed", outcome="conflicts",
         conflicts_total=6, before=before, tip=tip)
t.ok({c["path"]: c["kind"] for c in r["conflicts"]} == {
    "a": "both_modified", "bin": "both_modified", "kept": "deleted_by_them",
    "dir/ä b": "deleted_by_us", "both": "both_added",
    "taken": "both_added"}, "each with its kind", r)
r = call("again", "merge_base", True, code="merge_in_progress")
t.ok(len(r["conflicts"]) == 6, "they are told again", r)
r = call("a checkpoint of it", "checkpoint", True, {"message": "x"},
         code="merge_in_progress")
write("notes", "mine\n")
write("other", "edited\n")
write("taken", "ours\n")
r = call("nothing is resolved", "merge_complete", True, code="unresolved",
         undecided=["bin", "dir/ä b", "kept"])
where = [i + 1 for i, x in enumerate(read("a").split(b"\n"))
         if x[:7] in (b"<<<<<<<", b">>>>>>>")]
t.ok({x["path"]: x["lines"] for x in r["marks"]} ==
     {"a": where, "both": [1, 5]}, "marks are told by line", r)

# given up: all of it is kept
r = call("given up", "merge_abort", status="ok", outcome="aborted",
         head=before)
t.ok(git("show", r["kept"] + ":notes") == "mine" and
     git("show", r["kept"] + ":taken") == "ours" and
     "<<<<<<<" in git("show", r["kept"] + ":a") and
     git("rev-parse", r["kept"] + "^1", r["kept"] + "^2").split() ==
     [before, tip] and read("notes") == b"mine\n" and
     read("other") == b"edited\n", "and kept", r)
t.ok(not os.path.exists(work + "/.git/MERGE_HEAD") and
     read("a") == LINES.replace("5\n", "ours\n", 1).encode(),
     "the work tree is as before")

# resolved
git("checkout", "-q", "other")
call("the same conflicts", "merge_base", outcome="conflicts")
write("a", LINES.replace("5\n", "both\n", 1))
write("both", "both\n")
write("taken", "ours\n")
write("bin", b"\0mixed")
git("add", "kept")
os.unlink(work + "/dir/ä b")
write("other", "edited\n")
write("both", "<<<<<<< HEAD\n")
git("add", "both")
r = call("marks that were added", "merge_complete", True, code="unresolved",
         marks=[{"path": "both", "lines": [1]}])
write("both", "both\n")
git("add", "both")
r = call("resolved", "merge_complete", status="ok", outcome="completed",
         before=before, parent2=tip, resolved=4)
t.ok(git("log", "-1", "--format=%P%n%B") ==
     "%s %s\nMerge branch 'main'" % (before, tip) and
     git("rev-parse", "HEAD") == r["head"], "is committed", r)
t.ok(git("ls-files") == "\n".join(sorted(
    ["a", "b", "bin", "both", "clean", "kept", "new", "other", "taken",
     "untracked"])) and git("status", "--porcelain") ==
    "M other\n?? notes" and read("bin") == b"\0mixed",
    "with the paths that were unmerged, and no others",
    git("status", "--porcelain"))
t.ok(not os.path.exists(top + "/ran"), "no hook ran")

# --- little history ----------------------------------------------------------------------
git("checkout", "-q", "main", cwd=up)
git("checkout", "-q", "-b", "topic", cwd=up)
for i in range(5):
    upstream({"t": "%d\n" % i}, "topic")
for i in range(5):
    upstream({"m": "%d\n" % i})
clone("--depth", "1", "-b", "topic")
r = call("a shallow clone is deepened", "merge_base", outcome="merged")
t.ok(clean() and read("m") == b"4\n" and read("t") == b"4\n", "to where both "
     "parted")
# a tree where git has no name for anybody
t.ok("user.name" not in git("config", "--list"), "without a user's name")
m.close()
t.done()
