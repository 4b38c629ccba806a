#!/usr/bin/env python3
"""Guests that go for what a command is before its exec: a copy of sbx-init,
which is the host's file and has their uid."""
import os
import sys
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ.setdefault("SBX_BUILD", os.getcwd())
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

tap = mcp.Tap()

MEMFD = """import os
fd = os.memfd_create("x", os.MFD_CLOEXEC)
os.write(fd, open("/usr/bin/true", "rb").read())
os.execve(fd, ["true"], {})
"""
# Whatever starts next is stopped before it executes anything, and then its
# supervisor is killed.
STOP = """import os, signal
me = os.getpid()
print("go", flush=True)
for _ in range(3000000):
    for pid in (me + 2, me + 3, me + 4):
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            continue
        os.kill(pid - 1, signal.SIGKILL)
        print("caught", flush=True)
        signal.pause()
"""


def test_own_program(s, box):
    s.call("sandbox_exec", container_id=box, commands=[
        "printf '#!/proc/self/exe\\n' >s && chmod 755 s && ln -s "
        "/proc/self/exe l"])
    for path in ("/proc/self/exe", "/proc/thread-self/exe", "/workspace/s",
                 "/workspace/l"):
        r = s.call("sandbox_exec", container_id=box, argv=[path])
        tap.ok(r.get("code") == "exec_failed" and
               "Permission denied" in r["error"],
               path + " does not execute the host's sbx-init", r)
    r = s.call("sandbox_exec", container_id=box, argv=["python3", "-c", MEMFD])
    tap.ok(r["status"] == "ok", "a program without a name is executed", r)
    r = s.call("sandbox_exec", container_id=box, commands=[
        "cp /usr/bin/true /workspace/t && ./t && cp t /dev/shm && "
        "! /dev/shm/t 2>/dev/null && cp t /tmp/t && /tmp/t"])
    tap.ok(r["status"] == "ok", "programs of the sandbox are executed", r)


def test_stopped_before_exec(s):
    for _ in range(10):
        box = s.call("sandbox_initialize")["container_id"]
        job = s.call("sandbox_exec_background", container_id=box,
                     argv=["python3", "-c", STOP])["job_id"]

        def seen():
            return s.call("sandbox_exec_check", container_id=box,
                          job_id=job)["output"]
        s.wait_for(lambda: "go" in seen())
        began = time.monotonic()
        s.call("sandbox_exec", container_id=box, argv=["true"])
        took = time.monotonic() - began
        caught = "caught" in seen()
        if caught:
            break
        s.call("sandbox_stop", container_id=box, force=True)
    tap.ok(caught and took < 5, "a command that was stopped before its exec "
           "and orphaned is given up at once", (caught, took))
    r = s.call("sandbox_exec", container_id=box, argv=["echo", "on"])
    tap.ok(r.get("output") == "on\n", "its sandbox serves on", r)
    r = s.call("sandbox_exec_kill", container_id=box, job_id=job)
    tap.ok(r["status"] == "ok", "and kills", r)


# What one sandbox takes of that all share: terminals, and files that take
# memory without having a size.
TAKE = """import os
n, fds = 0, []
try:
    while n < 2000:
        fds.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
        n += 1
except OSError:
    pass
m = 0
try:
    while m < 100000:
        os.mknod("/dev/shm/%d" % m)
        m += 1
except OSError:
    pass
print(n, m, flush=True)
"""


def test_shared(s, box):
    r = s.call("sandbox_exec", container_id=box, argv=["python3", "-c", TAKE])
    terminals, names = map(int, r["output"].split())
    tap.ok(8 <= terminals <= 64, "a sandbox has terminals, not those of all",
           terminals)
    tap.ok(1000 < names < 20000, "and files in memory, not without a number",
           names)


with mcp.Suite() as suite:
    test_own_program(suite, suite.call("sandbox_initialize")["container_id"])
    test_stopped_before_exec(suite)
    test_shared(suite,
                suite.call("sandbox_initialize")["container_id"])
tap.done()
sys.exit(tap.bad != 0)
