#!/usr/bin/env python3
"""diff_in_container: what changed since which base, and nothing else does."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import imgsrc  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
GHP = "ghp_" + "a1B2c3D4e5" * 4
GIT = "export HOME=/tmp; git config --global user.email a@b.c; " \
    "git config --global user.name n; git config --global " \
    "init.defaultBranch main"
MAKE = r"""
import os
os.makedirs("d/sub")
def put(name, data):
    with open(name, "wb") as f:
        f.write(data)
put("edit.txt", b"".join(b"line %d\n" % i for i in range(1, 101)))
put("gone.txt", b"1\n2\n")
put("old name.txt", b"".join(b"same %d\n" % i for i in range(30)))
put("bin.dat", b"\0\1\2")
put("d/sub/x.c", b"int x;\n")
put("m\u00e9.txt", b"a\n")
put("exec.sh", b"#!/bin/sh\n")
put(".gitignore", b"*.o\n")
"""
CHANGE = r"""
import os
def put(name, data):
    with open(name, "wb") as f:
        f.write(data)
lines = [b"line %d\n" % i for i in range(1, 101)]
for at in (2, 30, 60, 97):
    lines[at] = b"changed %d\n" % at
lines.insert(50, b"new\n")
put("edit.txt", b"".join(lines))
os.unlink("gone.txt")
os.rename("old name.txt", "new\nname.txt")
with open("new\nname.txt", "ab") as f:
    f.write(b"more\n")
put("bin.dat", b"\0\1\2\3")
put("d/sub/x.c", b"int y;\n")
put("m\u00e9.txt", b"b\n")
os.chmod("exec.sh", 0o755)
put("un tracked.txt", b"1\n2\n3")
put("d/un.bin", b"\0" * 9 + b"\n\n")
put("d/empty", b"")
put("-dash", b"x\n")
put("a.o", b"ignored\n")
os.symlink("/dev/zero", "zero")
"""


def diff(**kw):
    kw.setdefault("container_id", BOX)
    return S.call("diff_in_container", **kw)


def sh(*commands, box=None):
    r = S.call("sandbox_exec", container_id=box or BOX,
               commands=[GIT, *commands])
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["output"]


def py(code, box=None):
    r = S.call("run_python", container_id=box or BOX, code=code)
    if r["status"] != "ok":
        raise RuntimeError(r)


def of(r, path):
    return next((f for f in r["files"] if f["path"] == path), None)


def numbers(f):
    return f and (f["status"], f["additions"], f["deletions"])


def state():
    return sh("sha256sum .git/index", "git count-objects",
              "stat -c %Y.%y .git/index", "find .git | sort | sha256sum")


def test_none():
    r = diff(working_dir="/tmp")
    ok(r["code"] == "no_repository" and "git init" in
       r["recommended_next_action"], "no repository", r)
    r = diff(base="-x")
    ok(r["code"] == "bad_argument", "a base that is an option", r)
    r = diff(offset=5)
    ok(r["code"] == "bad_argument" and "run_id" in r["error"],
       "offset alone", r)
    sh("git init -q")
    py(MAKE)
    r = diff()
    ok(r["status"] == "ok" and r["base"] == "no commit" and
       r["total_files"] == r["total_untracked"] == 8, "no commit yet", r)
    sh("git add -A", "git commit -qm one")
    r = diff()
    ok(r["files"] == [] and r["base"] == "HEAD" and r["mode"] ==
       "merge-base" and len(r["base_commit"]) == 40, "no change, no remote",
       r)


def test_list():
    py(CHANGE)
    before = state()
    r = diff()
    ok(state() == before, "index and repository are what they were")
    ok(numbers(of(r, "edit.txt")) == ("M", 5, 4) and
       numbers(of(r, "gone.txt")) == ("D", 0, 2), "edited and removed", r)
    f = of(r, "m\u00e9.txt")
    ok(numbers(f) == ("M", 1, 1), "a name that is not ASCII", r)
    f = of(r, "bin.dat")
    ok(f["binary"] and numbers(f) == ("M", 0, 0), "a binary file", f)
    ok(numbers(of(r, "exec.sh")) == ("M", 0, 0), "a mode", r)
    ok(numbers(of(r, "old name.txt")) == ("D", 0, 30) and
       numbers(of(r, "new\nname.txt")) == ("untracked", 31, 0),
       "a rename that git was not told of", r)
    ok(numbers(of(r, "un tracked.txt")) == ("untracked", 3, 0) and
       numbers(of(r, "d/empty")) == ("untracked", 0, 0) and
       numbers(of(r, "-dash")) == ("untracked", 1, 0) and
       numbers(of(r, "zero")) == ("untracked", 0, 0) and
       of(r, "a.o") is None, "untracked ones, not ignored ones", r)
    f = of(r, "d/un.bin")
    ok(f["binary"] and f["additions"] == 0, "a binary one", f)
    names = [f["path"] for f in r["files"]]
    ok(len(names) == len(set(names)) == r["total_files"] == r["total"] and
       r["total_untracked"] == 6, "each once", r)
    sh("git add -A")
    r = diff()
    f = of(r, "new\nname.txt")
    ok(f["old_path"] == "old name.txt" and numbers(f) == ("R", 1, 0) and
       of(r, "old name.txt") is None and r["total_untracked"] == 0,
       "a rename has both names and its numbers", r)
    r = diff(path="new\nname.txt")
    ok(r["old_path"] == "old name.txt" and r["change_status"] == "R" and
       r["total"] == 1 and "+more\n" in r["hunks"][0]["content"],
       "and its hunks", r)
    r2 = diff(path="old name.txt")
    ok(r2["hunks"] == r["hunks"], "by its old name, too", r2)
    sh("git reset -q")


def test_path():
    r = diff(path="edit.txt")
    h = r["hunks"]
    ok(r["total"] == len(h) == 5 and h[0] == {
        "old_start": 1, "old_count": 6, "new_start": 1, "new_count": 6,
        "header": "", "content": " line 1\n line 2\n-line 3\n+changed 2\n"
        " line 4\n line 5\n line 6\n"} and h[4]["old_start"] == 95 and
       r["additions"] == 5, "hunks", r)
    first = diff(path="edit.txt", limit=2)
    run = first["run_id"]
    ok(first["hunks"] == h[:2] and first["next_offset"] == 2 and
       first["truncated"], "a page", first)
    sh("cp edit.txt /tmp/e", "git checkout -q edit.txt")
    r = diff(run_id=run, offset=2, limit=2)
    r2 = diff(run_id=run, offset=4)
    ok(r["hunks"] + r2["hunks"] == h[2:] and r["path"] == "edit.txt" and
       r2["next_offset"] is None and r["run_id"] == run,
       "pages go on exactly, and nothing runs again", (r, r2))
    sh("cp /tmp/e edit.txt")
    r = diff(path="un tracked.txt")
    ok(r["change_status"] == "untracked" and r["hunks"][0]["content"] ==
       "+1\n+2\n+3\n\\ No newline at end of file\n", "an untracked file", r)
    r = diff(path="-dash")
    ok(r["hunks"][0]["content"] == "+x\n", "a name that begins with -", r)
    r = diff(path="zero")
    ok("/dev/zero" in r["hunks"][0]["content"], "a link is its text", r)
    r = diff(path="bin.dat")
    ok(r["binary"] and r["hunks"] == [], "a binary file", r)
    r = diff(path="/workspace/d/sub/x.c", raw=True)
    ok(r["path"] == "d/sub/x.c" and r["raw_diff"].startswith("diff --git"),
       "an absolute path, raw", r)
    r = diff(path="d")
    ok([f["path"] for f in r["files"]] == ["d/sub/x.c", "d/empty",
                                            "d/un.bin"], "a directory", r)
    r = diff(path="*.txt")
    ok(r["code"] == "no_changes", "not a pattern", r)
    r = diff(path="none")
    ok(r["code"] == "no_changes" and "none" in r["error"], "no change", r)
    r = diff(raw=True)
    ok(r["raw_diff"].count("diff --git") == 7 and "-line 3\n" in
       r["raw_diff"], "raw of all", r["raw_diff"][:300])


def test_pages():
    first = diff(limit=4)
    ok(first["shown"] == 4 and first["next_offset"] == 4, "a page of files",
       first)
    whole = diff()["files"]
    sh("touch later")
    r = diff(run_id=first["run_id"], offset=4)
    ok(first["files"] + r["files"] == whole and r["total_files"] ==
       len(whole), "and the others", r)
    sh("rm later")


def test_hostile():
    """What the repository's configuration says is not done."""
    sh("git config diff.external 'touch /tmp/bad #'",
       "git config core.pager 'touch /tmp/bad; cat'",
       "git config pager.diff 'touch /tmp/bad; cat'",
       "git config diff.c.textconv 'touch /tmp/bad; cat'",
       "echo '*.c diff=c' > .git/info/attributes",
       "git config diff.noprefix true", "git config color.ui always",
       "git config diff.renames false", "git config diff.context 0",
       "git config diff.relative true", "git config core.quotePath false",
       "git config diff.suppressBlankEmpty true", "git add -A")
    r = diff(path="d/sub/x.c")
    ok(r["hunks"] == [{"old_start": 1, "old_count": 1, "new_start": 1,
                       "new_count": 1, "header": "", "content":
                       "-int x;\n+int y;\n"}], "no colours, no textconv", r)
    r = diff(working_dir="/workspace/d")
    ok(numbers(of(r, "new\nname.txt")) == ("R", 1, 0),
       "renames, from a directory below", r)
    ok(sh("ls /tmp/bad 2>&1 || true").startswith("ls:"),
       "no program of its own ran")
    sh("git reset -q", "printf 'x %s\\n' " + GHP[:20] + "'" + GHP[20:] +
       "' > -dash")
    r = diff(path="-dash")
    ok(GHP not in str(r) and r["masked"] == 1, "secrets are masked", r)
    for name in ("diff.external", "core.pager", "pager.diff",
                 "diff.context"):
        sh("git config --unset " + name)


def test_base():
    sh("git init -q --bare /tmp/o.git", "git remote add origin /tmp/o.git")
    r = diff()
    ok(r["code"] == "no_base" and "worktree" in r["recommended_next_action"],
       "a remote, and nothing of it", r)
    sh("git push -q origin HEAD:main", "git fetch -q origin",
       "git commit -qm two --allow-empty", "echo x > c.txt", "git add c.txt",
       "git commit -qm three", "echo y >> c.txt")
    r = diff()
    ok(r["base"] == "origin/main" and numbers(of(r, "c.txt")) == ("A", 2, 0),
       "origin/main, with what is committed and what is not", r)
    r = diff(worktree=True)
    ok(r["base"] == "HEAD" and r["mode"] == "worktree" and
       numbers(of(r, "c.txt")) == ("M", 1, 0), "worktree", r)
    sh("git push -q origin HEAD~1:refs/heads/dev", "git fetch -q origin",
       "side=$(git commit-tree -p origin/main -m side 'origin/main^{tree}')",
       "git push -q origin $side:refs/heads/ahead", "git fetch -q origin")
    ok(diff(base="dev")["base"] == "origin/dev", "a branch of origin")
    r = diff(base="ahead")
    ok(r["base_commit"] == sh("git rev-parse origin/main").strip(),
       "the merge base, not the branch", r)
    ok(diff(base="HEAD~1")["base"] == "HEAD~1", "a commit")
    ok(diff(base="nope")["code"] == "no_such_base", "none")
    sh("git config sbx.base dev")
    ok(diff()["base"] == "origin/dev", "the recorded one")
    sh("git config sbx.base nope", "git remote set-head origin dev")
    ok(diff()["base"] == "origin/dev", "origin/HEAD", diff())
    r = diff(base="dev", worktree=True)
    ok(r["code"] == "bad_argument", "both", r)
    sh("git checkout -q --orphan lone", "git commit -qm lone")
    ok(diff(base="dev")["code"] == "no_merge_base", "nothing in common")
    sh("git checkout -qf main", "git checkout -q -b other HEAD~1",
       "echo z > c.txt", "git add c.txt", "git commit -qm other",
       "git merge -q main || true")
    for r in (diff(), diff(worktree=True)):
        ok(of(r, "c.txt")["status"] in "AMU" and
           sum(f["path"] == "c.txt" for f in r["files"]) == 1,
           "what is not merged, once", r)


def test_many():
    py("import os\nos.mkdir('many')\nfor i in range(3000):\n"
       "    open('many/%05d' % i, 'w').write('a\\n' * (i % 7))")
    r = diff(path="many", limit=1000)
    ok(r["total_untracked"] == 3000 and r["total_additions"] ==
       sum(i % 7 for i in range(3000)), "3000 untracked files", {
           **r, "files": 0})


def test_no_git():
    ok(imgsrc.small(S, "bare"), "an image without git")
    box = S.call("sandbox_initialize", image="bare")["container_id"]
    ok(diff(container_id=box)["code"] == "no_git", "is told")
    r = diff(run_id=S.call("sandbox_exec", container_id=BOX,
                           commands=["echo"])["run_id"])
    ok(r["code"] == "unknown_run", "a run of another tool", r)


if __name__ == "__main__":
    with mcp.Suite() as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        mcp.main(tap, globals(), sys.argv[1:])
