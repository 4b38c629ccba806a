#!/usr/bin/env python3
"""G6: what grants access is computed by the process that grants, from bytes
that crossed to it; never from a flag or claim of the other side, and never
from state that a sandbox can write."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

def work_state(tap, project):
    """The stop guard looks at the scratch layer from outside: what a guest
    writes about its own state (git's, clocks, mtimes) decides nothing."""
    with mcp.Suite(copy_root=project) as s:
        box = s.call("sandbox_initialize")["container_id"]
        s.call("copy_project", container_id=box, local_src_dir=".")
        r = s.call("sandbox_stop", container_id=box)
        tap.ok(r["status"] == "ok", "nothing new: it stops", r)
        box = s.call("sandbox_initialize")["container_id"]
        s.call("copy_project", container_id=box, local_src_dir=".")
        s.call("sandbox_exec", container_id=box, commands=[
            "cd /workspace", "echo changed >> main.c",
            "touch -d '2001-01-01' main.c",
            "git update-index --assume-unchanged main.c || true"])
        r = s.call("sandbox_stop", container_id=box)
        tap.ok(r["status"] == "error" and "main.c" in r["error"],
               "an old mtime and a lying index do not hide work", r)
        s.call("sandbox_exec", container_id=box, commands=[
            "cd /workspace", "git update-index --no-assume-unchanged main.c",
            "git -c user.name=a -c user.email=a@example.invalid commit -qam x",
            "git status --short"])
        r = s.call("sandbox_stop", container_id=box)
        tap.ok(r["status"] == "error", "committed work is work too", r)


def copy_claims(tap, project, outside):
    """Which host paths may be read is decided by the reader, below the
    descriptor, not by what a path says."""
    with mcp.Suite(copy_root=project) as s:
        box = s.call("sandbox_initialize")["container_id"]
        for path in (outside, "../" + os.path.basename(outside),
                     "link-out", "dir-out/passwd", "./../" +
                     os.path.basename(outside), "/etc/passwd"):
            r = s.call("copy_file", container_id=box, local_src_file=path,
                       dest_path="/workspace/stolen")
            tap.ok(r["status"] == "error", f"copy_file {path!r}: refused", r)
        r = s.call("copy_project", container_id=box, local_src_dir="..")
        tap.ok(r["status"] == "error", "copy_project '..': refused", r)
        r = s.call("sandbox_exec", container_id=box, commands=[
            "ls -A /workspace"])
        tap.ok("stolen" not in r["output"], "and nothing came in", r)


def home_root(tap):
    """--copy-root of a home directory or a parent of it is refused."""
    for root in ("/", os.path.expanduser("~")):
        with mcp.Suite(copy_root=root, stderr=subprocess.DEVNULL) as s:
            box = s.call("sandbox_initialize")["container_id"]
            r = s.call("copy_file", container_id=box,
                       local_src_file="etc/passwd", dest_path="/workspace")
            tap.ok(r["status"] == "error", f"copy root {root}: no copying", r)


def main():
    tap = mcp.Tap()
    with tempfile.TemporaryDirectory(prefix="sbx-g6-") as base:
        os.chmod(base, 0o755)
        project, outside = base + "/project", base + "/outside"
        os.mkdir(project)
        with open(outside, "w") as f:
            f.write("not yours\n")
        with open(project + "/main.c", "w") as f:
            f.write("int main(void) { return 0; }\n")
        os.symlink(outside, project + "/link-out")
        os.symlink("/etc", project + "/dir-out")
        subprocess.run("git init -q . && git add main.c && git -c user.name=a "
                       "-c user.email=a@example.invalid commit -qm x",
                       shell=True, cwd=project, check=True)
        work_state(tap, project)
        copy_claims(tap, project, outside)
        home_root(tap)
    tap.done()


main()
