#!/usr/bin/env python3
"""Snapshots, restores, forks and dependency layers of a whole suite."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

ok = None


def new(s, **kw):
    r = s.call("sandbox_initialize", **kw)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["container_id"]


def sh(s, box, *commands, **kw):
    r = s.call("sandbox_exec", container_id=box, commands=list(commands),
               verbose="full", **kw)
    return r.get("output", r) if r["status"] == "ok" else r


def answers(s, numbers):
    """in their order, whichever came first"""
    got = {}
    while len(got) < len(numbers):
        m = s.recv(60)
        if m.get("id") in numbers:
            got[m["id"]] = m["result"]["structuredContent"]
    return [got[n] for n in numbers]


def snap(s, box, **kw):
    return s.call("sandbox_snapshot", container_id=box, **kw)


def restore(s, box, what, **kw):
    return s.call("sandbox_restore", container_id=box, snapshot=what, **kw)


def listed(s):
    return s.call("sandbox_list_containers")


def cycle(s):
    """Snapshot, damage, restore."""
    box = new(s, name="base")
    sh(s, box, "mkdir a; echo one >a/f; echo two >b; ln -s b c")
    r = snap(s, box, name="good", session_label="before")
    ok(r["status"] == "ok" and r["method"] == "stacked" and
       r["name"] == "good" and r["files"] == 3 and
       r["processes"] == "not part of a snapshot", "a snapshot", r)
    first = r["snapshot_id"]
    ok(sh(s, box, "cat a/f b; test -L c") == "one\ntwo\n", "the sandbox goes on")
    ok(snap(s, box, name="good")["code"] == "name_in_use",
       "a name is used once")
    ok(snap(s, box, name="-x")["code"] in ("bad_name", "bad_argument"),
       "a bad name")
    ok(snap(s, "0" * 12)["code"] == "not_found", "of no sandbox")
    sh(s, box, "rm -r a; mkdir a; echo new >a/n; echo broken >b")
    r = restore(s, box, "good")
    ok(r.get("code") == "unpushed_work" and "a/n" in r["error"],
       "a restore is refused while there is newer work", r)
    r = restore(s, box, "good", force=True)
    ok(r["status"] == "ok" and r["snapshot_id"] == first and
       r["container_id"] == box and r["ended_runs"] == [], "forced", r)
    ok(sh(s, box, "cat a/f b; ls a; readlink c") == "one\ntwo\nf\nb\n",
       "it is what it was", sh(s, box, "cat a/f b; ls a; readlink c"))
    r = restore(s, box, first)
    ok(r["status"] == "ok", "nothing is newer now: no force needed", r)
    ok(restore(s, box, "none")["code"] == "not_found", "no such snapshot")
    shown = listed(s)["snapshots"]
    ok([(x["name"], x["snapshot_id"], x["container_id"],
         x["session_label"]) for x in shown] ==
       [("good", first, box, "before")], "the list shows it", shown)
    return box, first


def live(s, box):
    job = s.call("sandbox_exec_background", container_id=box, commands=[
        "while :; do date +%s%N >now; sleep 0.01; done"])["job_id"]
    time.sleep(0.2)
    r = snap(s, box, name="live")
    ok(r["status"] == "ok" and r["method"] in ("copy", "reflink") and
       "at some moment" in r["note"], "a live job: copied, and said so", r)
    r = restore(s, box, "live")
    ok(r.get("code") == "runs_live" and job in r["error"],
       "a restore is refused while runs live", r)
    r = restore(s, box, "live", force=True)
    ok(r["status"] == "ok" and r["ended_runs"] == [job],
       "forced: it says which ended", r)
    r = s.call("sandbox_exec_check", container_id=box, job_id=job)
    ok(r.get("code") == "sandbox_gone" and "was restored" in r["error"] and
       "list_containers" in r["recommended_next_action"],
       "the job has ended, and not as if its sandbox had", r)
    ok(sh(s, box, "test -e now && cat b; pgrep -c sleep || true")
       .split()[0] == "two", "its files are there, its processes are not")
    # commands that come meanwhile wait for it
    numbers = [s.start_call("sandbox_snapshot", container_id=box)] + [
        s.start_call("sandbox_exec", container_id=box, commands=["echo hi"])
        for _ in range(3)]
    got = answers(s, numbers)
    ok(all(g["status"] == "ok" for g in got),
       "commands during a snapshot are not lost", got)
    s.call("sandbox_drop_snapshot", snapshot=got[0]["snapshot_id"])


def forks(s, box, first):
    before = listed(s)["total"]
    r = s.call("sandbox_fork", snapshot="good", count=8, name="try")
    ids = [x["container_id"] for x in r.get("sandboxes", [])]
    ok(r["status"] == "ok" and len(set(ids)) == 8 and
       [x["name"] for x in r["sandboxes"]] ==
       ["try-%d" % i for i in range(1, 9)], "8 forks of a snapshot", r)
    for i, f in enumerate(ids):
        sh(s, f, f"echo {i} >b; rm a/f")
    ok([sh(s, f, "cat b; ls a") for f in ids] ==
       ["%d\n" % i for i in range(8)], "they are independent")
    ok(sh(s, box, "cat b a/f") == "two\none\n", "of their source, too")
    items = {c["container_id"]: c for c in listed(s)["containers"]}
    ok(all(items[f]["limits"] == items[box]["limits"] for f in ids),
       "their limits are the source's")
    r = s.call("sandbox_fork", container_id=box, count=2)
    ok(r["status"] == "ok" and
       [sh(s, x["container_id"], "cat b") for x in r["sandboxes"]] ==
       ["two\n"] * 2, "2 forks of a sandbox as it is", r)
    ids += [x["container_id"] for x in r["sandboxes"]]
    ok(len(listed(s)["snapshots"]) == 2, "without a snapshot in the list",
       listed(s)["snapshots"])
    for args, code in (({}, "bad_argument"), ({"snapshot": "none"},
                       "not_found"), ({"container_id": box, "snapshot":
                       "good"}, "bad_argument"), ({"snapshot": "good",
                       "name": "try", "count": 2}, "name_in_use"),
                       ({"snapshot": "good", "count": 17}, "bad_argument"),
                       ({"container_id": "0" * 12}, "not_found")):
        r = s.call("sandbox_fork", **args)
        ok(r.get("code") == code, f"refused: {args}", r)
    ok(listed(s)["total"] == before + 10, "and none was made")
    r = s.call("sandbox_fork")
    ok("container_id" in r["error"] and "snapshot" in r["error"],
       "neither is refused by the names of both", r)
    r = s.call("sandbox_drop_snapshot", snapshot="good")
    ok(r["status"] == "ok" and r["snapshot_id"] == first, "dropped", r)
    ok(sh(s, ids[8], "cat b a/f") == "two\none\n",
       "what was made from it goes on")
    ok(s.call("sandbox_drop_snapshot", snapshot=first)["code"] ==
       "not_found", "it is gone")
    for f in ids:
        s.call("sandbox_stop", container_id=f, force=True)


def guard(s, root):
    """What sandbox_stop guards, across snapshots."""
    box = new(s)
    r = s.call("copy_project", container_id=box, local_src_dir=root)
    ok(r["status"] == "ok", "a project is copied in", r)
    keep = snap(s, box)["snapshot_id"]
    f = s.call("sandbox_fork", snapshot=keep)["sandboxes"][0]["container_id"]
    r = s.call("sandbox_stop", container_id=f)
    ok(r["status"] == "ok", "a fork without work of its own stops", r)
    sh(s, box, "echo work >mine")  # in the project
    more = snap(s, box)["snapshot_id"]
    r = s.call("sandbox_stop", container_id=box)
    ok(r.get("code") == "unpushed_work" and "mine" in r["error"],
       "work below a snapshot is guarded as before", r)
    ok(restore(s, box, keep)["status"] == "ok", "all of it is kept: restored")
    r = s.call("sandbox_stop", container_id=box)
    ok(r["status"] == "ok", "without work it stops", r)
    f = s.call("sandbox_fork", snapshot=more)["sandboxes"][0]["container_id"]
    r = s.call("sandbox_stop", container_id=f)
    ok(r.get("code") == "unpushed_work", "a fork with work is guarded", r)
    s.call("sandbox_stop", container_id=f, force=True)
    for x in (keep, more):
        s.call("sandbox_drop_snapshot", snapshot=x)


def limits(s):
    box = new(s)
    got = [snap(s, box) for _ in range(17)]
    mine = [g["snapshot_id"] for g in got if g["status"] == "ok"]
    ok(got[-1].get("code") == "too_many_snapshots" and len(mine) < 17,
       "there are so many and no more", got[-1])
    for x in mine:
        s.call("sandbox_drop_snapshot", snapshot=x)
    ok(snap(s, box)["status"] == "ok", "after dropping there is room")
    s.call("sandbox_stop", container_id=box, force=True)


def deps(s):
    setup = ["echo lib >~/lib; echo printed", "cd /workspace; mkdir d",
             "test -d d; echo x >d/x"]
    r = s.call("sandbox_initialize", setup=setup)
    d = r.get("deps") or {}
    ok(r["status"] == "ok" and d.get("cached") is False and
       d["layer"].startswith("sha256:") and d["files"] == 2,
       "a dependency layer", r)
    a = r["container_id"]
    ok(sh(s, a, "cat ~/lib d/x; echo own >>~/lib") == "lib\nx\n",
       "the sandbox begins with it")
    r2 = s.call("sandbox_initialize", setup=setup)
    ok(r2["deps"]["cached"] is True and r2["deps"]["layer"] == d["layer"],
       "the same again is kept", r2)
    b = r2["container_id"]
    ok(sh(s, b, "cat ~/lib") == "lib\n", "and not what was done in another")
    r = s.call("sandbox_initialize", setup=setup + ["true"])
    ok(r["deps"]["cached"] is False and r["deps"]["layer"] != d["layer"],
       "other commands are another layer", r)
    c = r["container_id"]
    before = listed(s)
    r = s.call("sandbox_initialize", setup=["true", "echo why >&2; (exit 7)",
                                            "never"])
    ok(r.get("code") == "setup_failed" and "why" in r["error"] and
       "command 2 of 3" in r["error"] and "status 7" in r["error"],
       "a command that fails is named", r)
    ok(listed(s) == before or listed(s)["total"] == before["total"],
       "and no sandbox is left")
    r = s.call("read_output", run_id=r["run_id"], stream="stderr")
    ok("why" in r["output"], "its output stays readable", r)
    r = s.call("sandbox_initialize", setup=["sleep 1; echo $$ >~/p"])
    ok(r["status"] == "ok", "one that takes its time", r)
    e = r["container_id"]
    # two at once: one replay
    numbers = [s.start_call("sandbox_initialize", setup=["sleep 1"])
               for _ in range(2)]
    got = answers(s, numbers)
    ok(len({g["deps"]["run_id"] for g in got}) == 1, "two who want the same "
       "wait for one", got)
    # nobody can get into the sandbox of a setup
    n = s.start_call("sandbox_initialize", setup=["sleep 2; ls ~ /workspace"])
    seen = set()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        for rec in s.journal()[-4:]:
            if rec["op"] == "sandbox_create" and rec.get("container"):
                seen.add(rec["container"])
        if seen:
            break
    box = s.answer(n)["result"]["structuredContent"]
    for x in seen - {a, b, c, e}:
        r = s.call("sandbox_exec", container_id=x, commands=["true"])
        if x != box["container_id"]:
            ok(r.get("code") == "not_found", "a setup's sandbox has no name",
               r)
    for x in (a, b, c, e, box["container_id"],
              *(g["container_id"] for g in got)):
        s.call("sandbox_stop", container_id=x, force=True)


def deaths(s):
    """A worker that dies in the middle, and a cancelled call."""
    box = new(s)
    sh(s, box, "head -c 200000000 /dev/urandom >big")
    job = s.call("sandbox_exec_background", container_id=box,
                 commands=["sleep 100"])["job_id"]
    n = s.start_call("sandbox_snapshot", container_id=box, name="cut")
    time.sleep(0.05)
    s.notify("notifications/cancelled", {"requestId": n})
    end = time.monotonic() + 20
    while time.monotonic() < end and any(
            x["name"] == "cut" for x in listed(s)["snapshots"]):
        time.sleep(0.1)
    r = snap(s, box, name="cut2")
    ok(r["status"] == "ok" or "under way" in r["error"],
       "a cancelled snapshot is in nobody's way", r)
    n = s.start_call("sandbox_fork", container_id=box, count=8)
    time.sleep(0.02)    # its state is being copied
    s.notify("notifications/cancelled", {"requestId": n})
    end = time.monotonic() + 20
    while time.monotonic() < end and listed(s)["total"] > 1:
        time.sleep(0.1)
    ok(listed(s)["total"] == 1, "a cancelled fork leaves none",
       listed(s)["containers"])
    s.call("sandbox_exec_kill", container_id=box, job_id=job)
    s.call("sandbox_stop", container_id=box, force=True)


def journal(s):
    ops = {}
    for r in s.journal():
        ops.setdefault((r["op"], r.get("phase", "")), []).append(r)
    for op in (("snapshot", "start"), ("snapshot", "end"),
               ("restore", "start"), ("restore", "end"),
               ("snapshot_drop", "")):
        ok(op in ops, "the journal has %s %s" % op, sorted(ops))


def restart(root):
    """After SIGKILL of the engine the next start has nothing of it."""
    s = mcp.Suite(root=root)
    box = new(s)
    sh(s, box, "echo x >x")
    snap(s, box)
    pids = mcp.tree(s.pid)
    engine = [p for p in pids if mcp.program(p) == "sbxd-engine"]
    os.kill(engine[0], signal.SIGKILL)
    s.proc.wait(10)
    s.close()
    s = mcp.Suite(root=root)
    left, end = [], time.monotonic() + 10
    while not left and time.monotonic() < end:
        left = [r for r in s.journal() if r["op"] == "leftover"]
    ok(left and listed(s)["snapshots"] == [], "after SIGKILL of the engine "
       "the next start records what it found, and has no snapshot", left)
    end = time.monotonic() + 10
    found = ["?"]
    while time.monotonic() < end and found:
        found = [n for d, ds, fs in os.walk(root) for n in ds
                 if n.startswith(("layer.", "next."))]
        time.sleep(0.1)
    ok(not found, "and no layer", found)
    s.close()


def full():
    """A small filesystem below."""
    root = tempfile.mkdtemp(prefix="sbx-test-")
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=755",
                        "tmpfs", root], check=True, stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as e:
        os.rmdir(root)
        print("ok - disk full # SKIP no tmpfs: %s" % e)
        return
    try:
        s = mcp.Suite(root=root)
        box = new(s)
        r = sh(s, box, "head -c 28000000 /dev/urandom >big; ls -s big")
        job = s.call("sandbox_exec_background", container_id=box,
                     commands=["sleep 100"])["job_id"]
        r = snap(s, box)
        ok(r.get("code") == "snapshot_failed" and "No space" in r["error"],
           "disk full: a copy fails with its reason", r)
        end = time.monotonic() + 5
        left = ["?"]
        while time.monotonic() < end and left:
            left = [n for d, ds, fs in os.walk(root) for n in ds
                    if n.startswith("layer.")]
            time.sleep(0.1)
        ok(not left and listed(s)["snapshots"] == [],
           "disk full: nothing half-made stays", left)
        s.call("sandbox_exec_kill", container_id=box, job_id=job)
        ok(sh(s, box, "stat -c %s big") == "28000000\n",
           "disk full: the sandbox is as it was")
        r = snap(s, box)
        ok(r["status"] == "ok" and r["method"] == "stacked",
           "disk full: stacking needs no room", r)
        s.close()
    finally:
        subprocess.run(["umount", "-l", root])
        os.rmdir(root)


def memory():
    """Scratch in a tmpfs of each sandbox's own."""
    with mcp.Suite(conf="scratch_storage tmpfs\n") as s:
        box = new(s, disk_limit="64m")
        sh(s, box, "echo one >a; rm -rf b; mkdir b; echo x >b/x")
        r = snap(s, box, name="t")
        ok(r["status"] == "ok" and r["method"] == "copy" and
           "live" not in r["note"], "tmpfs: copied, as it must be", r)
        f = s.call("sandbox_fork", snapshot="t", count=2)
        ok(f["status"] == "ok" and [sh(s, x["container_id"], "cat a b/x")
           for x in f["sandboxes"]] == ["one\nx\n"] * 2, "tmpfs: forks", f)
        sh(s, box, "rm -rf a b; echo y >y")
        r = restore(s, box, "t", force=True)
        ok(r["status"] == "ok" and sh(s, box, "cat a b/x; ls | wc -l") ==
           "one\nx\n2\n", "tmpfs: a restore", r)
        r = snap(s, box)
        ok(r["status"] == "ok", "tmpfs: and on from there", r)
        setup = ["echo lib >~/lib"]
        r = s.call("sandbox_initialize", setup=setup)
        again = s.call("sandbox_initialize", setup=setup)
        ok(r["status"] == "ok" and again["deps"]["cached"] and
           sh(s, again["container_id"], "cat ~/lib") == "lib\n",
           "tmpfs: a dependency layer", (r, again))


def main():
    global ok
    tap = mcp.Tap()
    ok = tap.ok
    src = tempfile.mkdtemp(prefix="sbx-test-src-")
    os.chmod(src, 0o755)
    with open(src + "/in.txt", "w") as f:
        f.write("in\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c",
                  "user.email=t@t", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", src, *words], check=True)
    root = tempfile.mkdtemp(prefix="sbx-test-")
    try:
        s = mcp.Suite(copy_root=src, root=root)
        try:
            box, first = cycle(s)
            live(s, box)
            forks(s, box, first)
            s.call("sandbox_drop_snapshot", snapshot="live")
            s.call("sandbox_stop", container_id=box, force=True)
            guard(s, src)
            limits(s)
            deps(s)
            deaths(s)
            journal(s)
        finally:
            s.close()
        restart(root)
        memory()
        if os.geteuid() == 0:
            full()
    finally:
        mcp.remove(root)
        mcp.remove(src)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
