#!/usr/bin/env python3
"""Whose processes and files the sandboxes' are.  With a range of ids each has
one of its own; with one id all share it.  In both cases two sandboxes cannot
read each other's files, signal or trace each other: tried from inside, and,
by a process of the other's very id on the host, from outside."""
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
from box import (Engine, Tap, children, have, make_scratch,  # noqa: E402
                 remove, wait_trash)
import mcp  # noqa: E402

A, B = "0123456789ab", "ba9876543210"
RANGE = (600000, 2048)
tap = Tap()


def uid_of(pid):
    return os.stat("/proc/%d" % pid).st_uid


def host_uid(e, box):
    """By a process that only this sandbox has."""
    run, _ = e.start(box, ["sleep", "47"])
    end = time.monotonic() + 5
    while time.monotonic() < end:
        for p in children(e.proc.pid):
            try:
                with open("/proc/%d/cmdline" % p) as f:
                    found = f.read() == "sleep\x0047\0"
            except OSError:
                continue
            if found:
                uid = uid_of(p)
                return uid, p, run
        time.sleep(0.02)
    return None, None, run


def as_uid(uid, gid, f):
    """What f() says when it runs as that uid, without capabilities."""
    rd, wr = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            out = f()
        except OSError as err:
            out = "errno %d" % err.errno
        os.write(wr, str(out).encode())
        os._exit(0)
    os.close(wr)
    out = os.read(rd, 200).decode()
    os.close(rd)
    os.waitpid(pid, 0)
    return out


def test_inside(e):
    """One tries what it can at the other, in its own namespaces."""
    e.run(A, "echo secret >/workspace/s; chmod 600 /workspace/s; "
          "echo secret >/tmp/s; echo secret >/dev/shm/s")
    r = e.run(B, "cat /workspace/s /tmp/s /dev/shm/s")
    tap.ok(b"secret" not in r.out and r.code != 0, "files are not seen", r)
    r = e.run(B, "ls -d /proc/[0-9]* | wc -l")
    tap.ok(int(r.out) < 10, "nor processes", r)
    run, _ = e.start(A, ["sleep", "48"])
    r = e.run(B, "kill -9 -1; i=2; while [ $i -lt 300 ]; do "
              "kill -9 $i; i=$((i+1)); done 2>/dev/null; echo done")
    tap.ok(e.run(A, "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '").out
           .count(b"sleep 48") == 1, "a signal to all ends nothing there", r)
    r = e.run(B, "cat /proc/self/uid_map /proc/self/gid_map; id -u; id -G; "
              "cat /proc/self/setgroups")
    lines = r.out.split(b"\n")
    tap.ok(len(lines[0].split()) == 3 and lines[0].split()[0] == b"1000" and
           lines[0].split()[2] == b"1" and lines[1].split()[2] == b"1" and
           lines[2:5] == [b"1000", b"1000", b"deny"],
           "one id is mapped, and no groups", r)
    e.kill(run)


def test_outside(e, scratch, own):
    """A process on the host that has the other's id: as if a guest had got
    out of all of its namespaces, with nothing but its uid."""
    ua, pa, ra = host_uid(e, A)
    ub, pb, rb = host_uid(e, B)
    first, n = RANGE
    if own:
        tap.ok(ua != ub and first <= ua < first + n and first <= ub < first + n,
               "two ids, of the range", (ua, ub))
        up = os.path.join(scratch, A, "upper")
        st = [os.stat(os.path.join(up, d)) for d in (".", "workspace",
                                                     "home/sandbox")]
        tap.ok(all((s.st_uid, s.st_gid) == (ua, ua) for s in st),
               "scratch belongs to it")
        # the scratch directory is closed: opened for it, as by a leak
        fd = os.open(up, os.O_PATH)
        e.run(A, "mkdir -m 700 /workspace/d; echo x >/workspace/d/f; "
              "chmod 600 /workspace/d/f")
        tap.same(as_uid(ub, ub, lambda: os.open(
            "workspace/d/f", os.O_RDONLY, dir_fd=fd)), "errno 13",
            "another's id cannot read its files")
        tap.same(as_uid(ub, ub, lambda: os.open(
            "workspace/new", os.O_WRONLY | os.O_CREAT, dir_fd=fd)),
            "errno 13", "nor write there")
        os.close(fd)
        tap.same(as_uid(ub, ub, lambda: os.kill(pa, 0)), "errno 1",
                 "nor signal it")
        tap.same(as_uid(ub, ub, lambda: ptrace(pa)), "errno 1",
                 "nor trace it")
        tap.same(as_uid(ua, ua, lambda: os.kill(pa, 0)), "None",
                 "(its own id may, so the test can fail)")
        tap.ok(as_uid(ub, ub, lambda: os.kill(e.proc.pid, 0)) == "errno 1",
               "nor the engine")
    else:
        tap.ok(ua == ub == uid_of(e.proc.pid), "one id, the engine's",
               (ua, ub))
    for box, run in ((A, ra), (B, rb)):
        m, _ = e.kill(run)
        tap.ok(m["left"] == 0, "the engine ends what is not its own id's", m)


def ptrace(pid):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, None, None) == -1:      # PTRACE_ATTACH
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))
    return None


def test_work(e, scratch):
    """What the engine does in a tree that is not its own."""
    since = time.time_ns()
    time.sleep(0.03)
    e.run(A, "mkdir -p /workspace/p/q; echo 1 >/workspace/p/q/f; "
          "chmod 000 /workspace/p/q; mkdir -m 000 /workspace/z")
    m = e.work(A, "/workspace", since)
    tap.ok(m["count"] == 1 and m["names"] == ["p/q/f"] and m["complete"],
           "new work is found in closed directories", m)
    e.stop(A)
    tap.same(wait_trash(scratch, 5), [], "and all of it is deleted")


def test_reuse(e):
    seen = []
    for _ in range(24):
        e.create(A)
        uid, _, _ = host_uid(e, A)
        seen.append(uid)
        e.stop(A)
    tap.ok(len(set(seen)) == len(seen), "an id does not come back soon", seen)


def test_ahead(e):
    """Asked for while the next one is being made ahead: its scratch may be
    renamed only when it is open."""
    bad = []
    for i in range(120):
        m = e.create(A)
        if m.name == "SANDBOX_READY":
            e.stop(A)
        else:
            bad.append(m["reason"])
        time.sleep(0.028 + i % 40 * 0.0003)
    tap.same(bad, [], "a sandbox at any moment after another")


def test_small_range():
    """Fewer ids than sandboxes: they go round, and nothing breaks."""
    top, scratch = make_scratch(None)
    try:
        e = Engine(scratch, uids=(600000, 3)).introduce("recorder")
        ready = [e.create("%012x" % i) for i in range(6)]
        tap.ok(all(m.name == "SANDBOX_READY" for m in ready),
               "more sandboxes than ids", ready[-1])
        tap.ok(sorted(m["own_user"] for m in ready) == [0, 0, 0, 1, 1, 1],
               "and it is said which have one of their own",
               [m["own_user"] for m in ready])
        e.close()
    finally:
        remove(top)


def round_of(uids):
    top, scratch = make_scratch(None)
    try:
        e = Engine(scratch, uids=uids).introduce("recorder")
        for box in (A, B):
            m = e.create(box)
            tap.ok(m.name == "SANDBOX_READY" and
                   m["own_user"] == (uids is not None), "a sandbox", m)
        test_inside(e)
        test_outside(e, scratch, uids is not None)
        test_work(e, scratch)
        test_ahead(e)
        if uids is not None:
            test_reuse(e)
        # killed: the next start collects what belongs to those ids
        e.create(A)
        e.run(A, "mkdir -m 000 /workspace/d; echo x >/workspace/f")
        e.proc.kill()
        e.proc.wait()
        e = Engine(scratch, uids=uids)
        left = [e.mon.recv(5, "ENGINE_LEFTOVER")["container"]
                for _ in range(2)]
        tap.ok(sorted(left) == [A, B] and wait_trash(scratch, 5) == [],
               "what a killed one left goes", left)
        tap.same(e.close(), 0, "the engine ends well")
    finally:
        remove(top)


# --- the whole suite, which makes the namespace ------------------------------

def suite(want, prefix):
    """Two sandboxes of a private suite; want: own or shared."""
    with mcp.Suite(stderr=subprocess.DEVNULL) as s:
        boxes = [s.call("sandbox_initialize") for _ in range(2)]
        tap.ok([b.get("users") for b in boxes] == [want] * 2,
               prefix + "the result says users: " + want, boxes[0])
        for b in boxes:
            s.call("sandbox_exec_background", container_id=b["container_id"],
                   argv=["sleep", "49"])
        uids = s.wait_for(lambda: two_sleepers(s.pid), 5)
        tap.ok(uids and len(set(uids)) == (2 if want == "own" else 1),
               prefix + "so do their processes", uids)
        out = s.call("sandbox_exec", container_id=boxes[0]["container_id"],
                     argv=["id", "-u"])
        tap.ok("1000" in str(out), prefix + "inside it is uid 1000", out)
        return uids


def leftover():
    """Monitor and engine killed at once: nobody deletes.  `sbx clean` must,
    although the files are not the caller's."""
    with mcp.Suite(stderr=subprocess.DEVNULL) as s:
        box = s.call("sandbox_initialize")["container_id"]
        s.call("sandbox_exec", container_id=box, commands=[
            "mkdir -p d/e; echo x >d/e/f; chmod 000 d/e d"])
        pids = mcp.tree(s.pid)
        engine = [p for p in pids if mcp.program(p) == "sbxd-engine"]
        os.kill(s.pid, signal.SIGSTOP)
        os.kill(engine[0], signal.SIGKILL)
        os.kill(s.pid, signal.SIGKILL)
        s.wait_for(lambda: not any(mcp.alive(p) for p in pids))
        scratch = s.root + "/state/suite-1/scratch"
        tap.ok(box in os.listdir(scratch), "(something is left)")
        r = s.sbx("clean")
        tap.ok(r.returncode == 0 and r.stdout.count("suite 1:") == 1 and
               not r.stderr and os.listdir(scratch) == [],
               "sbx clean removes what a killed suite left", r)


def two_sleepers(pid):
    out = []
    for p in mcp.tree(pid):
        try:
            with open("/proc/%d/cmdline" % p) as f:
                if f.read() == "sleep\x0049\0":
                    out.append(uid_of(p))
        except OSError:
            pass
    return out if len(out) == 2 else None


def child(mode):
    """In a mount namespace of its own, with its own /etc/subuid: prints."""
    sub = {"range": "sbxd:700000:65536\n", "numbers": "%d:800000:65536\n" %
           pwd.getpwnam("sbxd").pw_uid, "none": "", "few": "sbxd:1000:100\n",
           "torn": "sbxd\n:::\nsbxd:1:\nsbxd:x:65536\nsbxd:900000:65536"}
    d = tempfile.mkdtemp(prefix="sbx-users.")
    try:
        with open(d + "/sub", "w") as f:
            f.write(sub[mode])
        for name in ("subuid", "subgid"):
            subprocess.run(["mount", "--bind", d + "/sub", "/etc/" + name],
                           check=True)
        uids = suite("shared" if mode in ("none", "few") else "own",
                     mode + ": ")
        if mode == "torn":
            tap.ok(uids and all(900000 <= u < 965536 for u in uids),
                   "the line that parses counts", uids)
    finally:
        shutil.rmtree(d)


def again(mode, *before):
    """This file once more, as a child; its tests count here."""
    p = subprocess.run([*before, "python3", os.path.abspath(__file__), mode],
                       stdout=subprocess.PIPE, text=True, timeout=120)
    for line in p.stdout.splitlines():
        if line.startswith(("ok", "not ok")):
            tap.ok(line.startswith("ok"), line.split(" - ", 1)[1])
        elif line.startswith("#"):
            print(line)
    tap.same(p.returncode, 0, mode + ": all of it ran")


def rootless():
    user = "tester"
    if not have(user):
        tap.skip("rootless", "no user tester")
        return
    home = pwd.getpwnam(user).pw_dir
    keep = {k: v for k, v in os.environ.items() if k.startswith("SBX_")}
    run = ["runuser", "-u", user, "--", "env", "-i", "HOME=" + home,
           *("%s=%s" % kv for kv in keep.items())]
    with open("/etc/subuid") as f:
        mine = any(line.startswith(user + ":") for line in f)
    if mine and shutil.which("newuidmap"):
        again("rootless-own", *run, "PATH=" + os.environ["PATH"])
    else:
        tap.skip("rootless with a range", "needs newuidmap (package uidmap) "
                 "and a line of user tester in /etc/subuid")
    # a PATH without newuidmap: links to all else
    d = tempfile.mkdtemp(prefix="sbx-path.")
    try:
        os.chmod(d, 0o755)
        for n in os.listdir("/usr/bin"):
            if n not in ("newuidmap", "newgidmap"):
                os.symlink("/usr/bin/" + n, os.path.join(d, n))
        again("rootless-shared", *run, "PATH=" + d)
    finally:
        shutil.rmtree(d)


def main():
    if len(sys.argv) > 1:
        mode = sys.argv[1]
        if mode.startswith("rootless-"):
            suite(mode[9:], mode + ": ")
            tap.prefix = mode + ": "
            leftover()
        else:
            child(mode)
        return 1 if tap.failed else 0
    if os.geteuid() != 0:
        # root runs the parts of an ordinary user as one
        tap.absent("users", "only root can be several users")
        return tap.done()
    if not have("sbxd"):
        tap.skip("users", "needs the user sbxd")
        return tap.done()
    for tap.prefix, uids in (("one id: ", None), ("a range: ", RANGE)):
        round_of(uids)
    tap.prefix = ""
    test_small_range()
    for mode in ("range", "numbers", "none", "few", "torn"):
        again(mode, "unshare", "--mount", "--propagation", "private")
    rootless()
    return tap.done()


if __name__ == "__main__":
    signal.alarm(250)
    sys.exit(main())
