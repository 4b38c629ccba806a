#!/usr/bin/env python3
"""Escape drills: from inside a sandbox everything is tried that the guest
filter, the namespaces and the mounts are there for.  One line for each, as

    drill | what was tried | what came of it | verdict

`refused` is an errno or a death; `harmless` goes, and is the guest's own;
`absent` is not in this kernel; `HOLE` fails.  `make check TESTS=tests/
guarantees/test_drills.py` leaves the list in its log.
"""
import os
import pty
import re
import select
import shutil
import socket
import sys
import tempfile
import time

SRC = os.environ["SBX_SRC"]
sys.path.insert(0, SRC + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
DRILL = "/workspace/drill"
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
# in the filter for some arguments only, and tried with them by the drills
CONDITIONAL = {"socket", "personality"}


def denied():
    """[(name, number)] of both lists, as their sources have them"""
    with open(SRC + "/sbxd/engine/guest_filter.c") as f:
        text = f.read()
    refused = text[text.index("} refused[] = {"):]
    names = set(re.findall(r'{ "(\w+)", E\w+ }',
                           refused[:refused.index("};")]))
    with open(SRC + "/common/privs/rows.c") as f:
        text = f.read()
    text = text[text.index("sbx_privs_denied[] = {"):]
    names |= set(re.findall(r'{ "(\w+)",', text[:text.index("};")]))
    with open(HEADER) as f:
        numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", f.read()))
    names -= CONDITIONAL
    # newer than this header, and the same everywhere since 5.1
    numbers.setdefault("process_madvise", "440")
    numbers.setdefault("quotactl_fd", "443")
    return [(n, numbers[n]) for n in sorted(names) if n in numbers], \
        sorted(n for n in names if n not in numbers)


class Box:
    """a sandbox with the drill in it"""

    def __init__(self, suite):
        self.s = suite
        self.id = suite.call("sandbox_initialize")["container_id"]
        r = suite.call("copy_file", container_id=self.id,
                       local_src_file="drill", dest_path=DRILL)
        assert r["status"] == "ok", r

    def output(self, run):
        text, at = "", 0
        while True:
            r = self.s.call("read_output", run_id=run, offset=at, limit=10000)
            text += r["output"]
            if not r["has_more"]:
                return text
            at = r["next_offset"]

    def run(self, *argv):
        r = self.s.call("sandbox_exec", container_id=self.id,
                        argv=[DRILL, *map(str, argv)], timeout=120)
        if "run_id" not in r:
            return r, ""
        return r, self.output(r["run_id"])

    def background(self, *argv):
        r = self.s.call("sandbox_exec_background", container_id=self.id,
                        argv=[DRILL, *map(str, argv)])
        return r.get("job_id") or r["run_id"]

    def stop(self):
        return self.s.call("sandbox_stop", container_id=self.id, force=True)


def table(text, want=1):
    """a line each"""
    n = 0
    for line in text.splitlines():
        part = line.split("\t")
        if len(part) != 4:
            continue
        n += 1
        ok(part[3] != "HOLE", " | ".join(part))
    ok(n >= want, f"{n} drills, at least {want}", text[-500:])


def drill_all(box):
    r, text = box.run("all")
    table(text, 280)
    ok(r["status"] == "ok", "the drills came to their end", r)
    calls, unknown = denied()
    print("# not a call of this machine:", ", ".join(unknown))
    _, text = box.run("syscalls", *[x for c in calls for x in c])
    table(text, 60)


def drill_descriptors(box):
    """only 0, 1 and 2: in a call, in a job, in a shell"""
    _, text = box.run("fds")
    table(text, 3)
    job = box.background("fds")
    box.s.wait_for(lambda: "fd/2" in box.output(job))
    table(box.output(job), 3)
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["SBX_ROOT"] = box.s.root
        os.execv(mcp.BUILD + "/sbx", ["sbx", "shell", box.id, "--", DRILL,
                                      "fds"])
    text, until = b"", time.monotonic() + 20
    while time.monotonic() < until:
        if not select.select([fd], [], [], 0.5)[0]:
            continue
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        if not data:
            break
        text += data
    os.waitpid(pid, 0)
    table(text.decode(errors="replace").replace("\r", ""), 3)


def works(box, what):
    r = box.s.call("sandbox_exec", container_id=box.id,
                   commands=["echo alive"])
    ok(r["status"] == "ok" and r["output"] == "alive\n", what, r)


def line(box, job, word):
    """the first line of a background drill"""
    return box.s.wait_for(lambda: next(
        (x for x in box.output(job).splitlines() if word in x), None), 30)


def drill_counted(one, two):
    """what the kernel counts by user, taken whole"""
    job = one.background("inflight", 20)
    table(line(one, job, "in flight") or "")
    works(two, "descriptors in flight: another sandbox's command starts")
    works(one, "descriptors in flight: and one in the same")
    fresh = Box(one.s)
    works(fresh, "descriptors in flight: and a new sandbox")
    fresh.stop()
    one.s.call("sandbox_exec_kill", job_id=job)
    job = one.background("inotify", 20)
    table(line(one, job, "inotify") or "")
    _, text = two.run("inotify", 0)
    table(text)
    ok(" 0, then" not in text,
       "inotify: one sandbox cannot take the instances of another", text)
    one.s.call("sandbox_exec_kill", job_id=job)


def drill_reach(one, two):
    """another's loopback and abstract sockets, and the host's"""
    job = one.background("listen", 8123, 60)
    line(one, job, "listening")
    ok("HOLE" in one.run("connect", 8123, "drill")[1],
       "its own listeners can be reached")
    print("# from the other sandbox")
    table(two.run("connect", 8123, "drill")[1], 2)
    tcp = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    local.bind("\0sbx-drill-%d" % os.getpid())
    local.listen()
    print("# of the host")
    table(two.run("connect", tcp.getsockname()[1],
                  "sbx-drill-%d" % os.getpid())[1], 2)
    one.s.call("sandbox_exec_kill", job_id=job)


def drill_epoll(one, two):
    """all epoll watches of the user, and millions of things to clear away"""
    three = Box(one.s)
    job = three.background("epoll", 60)
    text = one.s.wait_for(lambda: three.output(job).count("\n") >= 4 and
                          three.output(job), 120)
    table(text or "")
    works(two, "epoll watches used up: another sandbox's command starts")
    fresh = Box(one.s)
    works(fresh, "epoll watches used up: and a new sandbox")
    fresh.stop()
    began = time.monotonic()
    r = three.stop()
    print("# its end took %.1f s" % (time.monotonic() - began))
    ok(r["status"] == "ok", "epoll watches used up: the sandbox ends", r)
    works(two, "epoll watches used up: and only it")


def drill_stop(one, two):
    """the supervisors of runs are the guest's to stop, not to hide behind"""
    job = one.background("listen", 8124, 600)
    line(one, job, "listening")
    r, text = one.run("stop-helpers")
    table(text)
    works(one, "all but PID 1 stopped: a new command starts")
    works(two, "and in the neighbour")
    began = time.monotonic()
    r = one.s.call("sandbox_exec_kill", job_id=job)
    ok(r["status"] == "ok" and time.monotonic() - began < 5,
       "what is stopped can be killed", r)
    r = one.stop()
    ok(r["status"] == "ok" and time.monotonic() - began < 10,
       "and the sandbox ended", r)


def main():
    root = tempfile.mkdtemp(prefix="sbx-drill-")
    shutil.copy(os.path.join(mcp.BUILD, "drill"), root)
    os.chmod(root, 0o755)
    try:
        with mcp.Suite(copy_root=root) as s:
            one, two = Box(s), Box(s)
            for part, boxes in ((drill_all, (one,)),
                                (drill_descriptors, (one,)),
                                (drill_counted, (one, two)),
                                (drill_reach, (one, two)),
                                (drill_epoll, (one, two)),
                                (drill_stop, (one, two))):
                print("#", part.__doc__ or part.__name__)
                part(*boxes)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    tap.done()


main()
