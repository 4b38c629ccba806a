#!/usr/bin/env python3
"""checkpoint, checkpoint_list, checkpoint_restore."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
ID = "git -c user.name=n -c user.email=a@b.c "


def call(tool, **kw):
    return S.call(tool, container_id=BOX, **kw)


def sh(*commands):
    r = S.call("sandbox_exec", container_id=BOX, commands=list(commands))
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["output"]


def test_none():
    for tool, kw in (("checkpoint", {"message": "x"}), ("checkpoint_list", {}),
                     ("checkpoint_restore", {"sha": "a" * 40})):
        r = call(tool, **kw)
        ok(r["code"] == "no_repository" and "git init" in
           r["recommended_next_action"], f"{tool}: no repository", r)
    sh("git init -q -b main .")
    r = call("checkpoint_list")
    ok(r["status"] == "ok" and r["checkpoints"] == [], "no commit yet", r)


def test_save():
    sh("mkdir d", "echo 1 > a", "echo 2 > 'd/b c'", "echo o > x.o",
       "echo '*.o' > .gitignore", "git config commit.gpgSign true",
       "git config gpg.program /bin/false", "git config core.hooksPath h",
       "mkdir h", "printf '#!/bin/sh\\ntouch /tmp/hook\\nexit 1\\n' > "
       "h/pre-commit", "cp h/pre-commit h/post-commit", "chmod +x h/*")
    r = call("checkpoint", message="first: \"$HOME\" `x`\n\n# more\n",
             working_dir="/workspace/d")
    ok(r["status"] == "ok" and len(r["sha"]) == 40 and r["swept_untracked"] ==
       [".gitignore", "a", "d/b c", "h/post-commit", "h/pre-commit"] and
       r["swept_total"] == 5, "a checkpoint", r)
    ok(sh("git cat-file commit HEAD").endswith("\n\nfirst: \"$HOME\" `x`\n\n"
                                               "# more\n") and
       sh("git log -1 --format=%an,%cn") == "sbx checkpoint,sbx checkpoint\n",
       "its message, as it was given")
    ok("gone" in sh("ls /tmp/hook 2>/dev/null || echo gone") and
       sh("git status --short --ignored") == "!! x.o\n",
       "no hook ran, and nothing is left")
    again = call("checkpoint", message="nothing new")
    ok(again["status"] == "ok" and again["swept_untracked"] == [] and
       again["sha"] != r["sha"], "an empty one", again)
    r = call("checkpoint", message="-F /etc/passwd")
    ok(r["message"] == "-F /etc/passwd" and
       sh("git log -1 --format=%s") == "-F /etc/passwd\n", "a dash", r)
    r = call("checkpoint", message=" \n")
    ok(r["code"] == "bad_argument", "an empty message", r)


def test_list():
    sh(ID + "-c commit.gpgSign=false commit -qn --allow-empty -m 'mine'")
    r = call("checkpoint_list")
    ok(r["scope"] == "all" and [(c["message"], c["by_checkpoint"]) for c in
                                r["checkpoints"]] == [
        ("mine", False), ("-F /etc/passwd", True), ("nothing new", True),
        ("first: \"$HOME\" `x`", True)] and not r["truncated"],
       "all, where there is no remote", r)
    r = call("checkpoint_list", limit=2)
    ok(len(r["checkpoints"]) == 2 and r["truncated"], "a limit", r)
    sh("git init -q --bare /tmp/o.git", "git remote add origin /tmp/o.git",
       "git -c core.hooksPath=/dev/null push -q origin HEAD:main",
       "git fetch -q")
    r = call("checkpoint_list")
    ok(r["scope"] == "unpushed" and r["checkpoints"] == [],
       "what a remote has is left out", r)


def test_restore():
    sh("echo good > a")
    good = call("checkpoint", message="good")["sha"]
    r = call("checkpoint_list")
    ok([c["sha"] for c in r["checkpoints"]] == [good], "unpushed ones", r)
    sh("echo bad > a", "rm 'd/b c'", "echo new > new", "git add a")
    bad = call("checkpoint", message="bad")["sha"]
    sh("echo worse > a", "echo keep > untracked")
    r = call("checkpoint_restore", sha=good[:10])
    ok(r["status"] == "ok" and r["restored_to"] == good and r["previous"] ==
       bad and r["discarded"] == ["a"] and "untracked" in r["warning"],
       "restored, with what is gone", r)
    ok(sh("cat a 'd/b c' untracked; ls new 2>&1 || true").startswith(
        "good\n2\nkeep\nls:"), "the files are as they were")
    r = call("checkpoint_restore", sha=bad)
    ok(r["restored_to"] == bad and sh("cat a new") == "bad\nnew\n",
       "and forward again", r)
    r = call("checkpoint_restore", sha="f" * 40)
    ok(r["code"] == "no_such_checkpoint", "no such commit", r)
    r = call("checkpoint_restore", sha=sh(
        "git rev-parse 'HEAD^{tree}'").strip())
    ok(r["code"] == "no_such_checkpoint", "a tree is none", r)
    for sha in ("HEAD", "--hard", "../x", "abc"):
        ok(call("checkpoint_restore", sha=sha)["code"] == "bad_argument",
           f"{sha} is no sha")


def test_merge():
    sh("git config --unset core.hooksPath", "git config commit.gpgSign false",
       "git checkout -q -b side HEAD~1", "echo side > a",
       ID + "commit -qam side", "git checkout -q main",
       ID + "merge -q side || true")
    r = call("checkpoint", message="x")
    ok(r["code"] == "merge_in_progress" and "<<<<" in sh("cat a"),
       "conflict marks are not taken", r)
    sh("echo solved > a", "git add a")
    ok(call("checkpoint", message="x")["code"] == "merge_in_progress",
       "nor is a merge ended")
    sh("git merge --abort")
    sh("touch .git/index.lock")
    r = call("checkpoint", message="x")
    ok(r["code"] == "git_failed" and "index.lock" in r["error"],
       "what git says", r)
    sh("rm .git/index.lock")


if __name__ == "__main__":
    with mcp.Suite() as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        mcp.main(tap, globals(), sys.argv[1:])
