#!/usr/bin/env python3
"""Ends that nobody planned: what is left after SIGKILL of the processes that
the suite stands on, and what goes on when another one is killed.

Processes, mounts, network namespaces, listeners and control groups are gone
within 2 s; scratch is collected by the next start, which records it.
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
LIMIT = 2.0
GROUPS = "/sys/fs/cgroup"


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return None


def groups_of(pid):
    """directories of the groups of a sandbox's init that are the suite's"""
    found = set()
    try:
        with open("/proc/%d/cgroup" % pid) as f:
            lines = f.read().splitlines()
    except OSError:
        return found
    for line in lines:
        _, names, path = line.split(":", 2)
        base = os.path.join(GROUPS, "unified" if not names else
                            names.replace("name=", ""))
        if not os.path.isdir(base):
            base = GROUPS
        parent = os.path.dirname(path)
        if "suite-" in parent and os.path.isdir(base + parent):
            found.add(base + parent)
    return found


def started(pid):
    """ticks since boot"""
    try:
        with open("/proc/%s/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[19])
    except OSError:
        return None


class Before:
    """what there is of a suite, to be looked for afterwards"""

    def __init__(self, suite):
        self.root = suite.root
        self.pids = [p for p in mcp.tree(suite.pid) if p != suite.pid]
        inits = suite.processes().get("sbx-init", [])
        mine = {link("/proc/self/ns/" + n) for n in ("net", "mnt")}
        self.ns = {link("/proc/%d/ns/%s" % (p, n)) for p in self.pids
                   for n in ("net", "mnt")} - mine - {None}
        self.ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * \
            os.sysconf("SC_CLK_TCK")
        self.groups = set().union(*(groups_of(p) for p in inits))

    def left(self):
        found = [("process", p, mcp.program(p)) for p in self.pids
                 if mcp.alive(p)]
        for p in os.listdir("/proc"):
            # numbers of namespaces are given again, to newer processes
            if p.isdigit() and (started(p) or 1e18) <= self.ticks:
                found += [("namespace", p, n) for n in ("net", "mnt")
                          if link("/proc/%s/ns/%s" % (p, n)) in self.ns]
        with open("/proc/net/unix") as f:
            found += [("listener", x.split()[-1]) for x in f
                      if self.root in x]
        with open("/proc/self/mountinfo") as f:
            found += [("mount", x.split()[4]) for x in f if self.root in x]
        found += [("group", g) for g in self.groups if os.path.isdir(g)]
        return found

    def gone(self):
        """(what is left after the limit, seconds it took)"""
        began = time.monotonic()
        while True:
            left = self.left()
            took = time.monotonic() - began
            if not left or took > LIMIT:
                return left, took
            time.sleep(0.02)


def load(s):
    boxes = [s.call("sandbox_initialize")["container_id"] for _ in range(3)]
    s.call("sandbox_exec_background", container_id=boxes[0], commands=[
        "trap '' TERM HUP INT; (setsid sleep 1000 &); while :; do sleep 1; "
        "done"])
    s.call("sandbox_exec", container_id=boxes[1], commands=[
        "echo work > /workspace/w; (setsid sleep 1000 >/dev/null 2>&1 &)"])
    return boxes


def killed(*victims):
    what = " and ".join(victims)
    s = mcp.Suite(stderr=open(os.devnull, "w"))
    try:
        boxes = load(s)
        before = Before(s)
        ok(len(before.ns) > 3, what + ": there is something to look for",
           before.ns)
        pids = [p for v in victims for p in s.processes()[v]]
        for p in pids:
            os.kill(p, signal.SIGKILL)
        left, took = before.gone()
        # the starter removes the groups, and nobody else can
        spared = [x for x in left if x[0] == "group"] \
            if "sbxd-starter" in victims else []
        ok([x for x in left if x not in spared] == [],
           "%s killed: nothing stays (%.2f s)%s" % (what, took, ", but empty "
           "control groups" if spared else ""), left)
        s.close()
        collected(s, what, boxes)
        ok(not [g for g in before.groups if os.path.isdir(g)],
           what + " killed: no control group after the next start",
           before.groups)
    finally:
        s.close()
        mcp.remove(s.root)


def collected(s, what, boxes):
    scratch = os.path.join(s.root, "state", "suite-1", "scratch")
    with Again(s) as again:
        ok(again.call("sandbox_initialize")["status"] == "ok",
           what + " killed: the next start works")
        s.wait_for(lambda: not set(boxes) & set(os.listdir(scratch)), 5)
        ok(not set(boxes) & set(os.listdir(scratch)),
           what + " killed: it collects the scratch", os.listdir(scratch))
        found = {r["container_id"] for r in s.journal()
                 if r["op"] == "leftover"}
        ended = {r["container_id"] for r in s.journal()
                 if r["op"] in ("sandbox_end", "sandbox_stop") and
                 r["phase"] == "end"}
        ok(set(boxes) <= found | ended,
           what + " killed: each sandbox is recorded as ended or left",
           (boxes, found, ended))


class Again(mcp.Client):
    """the next suite below the same root"""

    def __init__(self, s):
        super().__init__([mcp.BUILD + "/sbx", "mcp", "--private"], env=s.env,
                         stderr=open(os.devnull, "w"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def component(victim):
    """comes back under sandboxes that go on"""
    with mcp.Suite(stderr=open(os.devnull, "w")) as s:
        box = s.call("sandbox_initialize")["container_id"]
        n = 300
        job = s.call("sandbox_exec_background", container_id=box, commands=[
            "i=0; while [ $i -lt %d ]; do echo line-$i; i=$((i+1)); "
            "sleep 0.01; done" % n])["job_id"]
        time.sleep(0.5)
        old = s.processes()[victim]
        os.kill(old[0], signal.SIGKILL)

        def back():
            now = s.processes().get(victim, [])
            return now and old[0] not in now
        ok(s.wait_for(back, 10), victim + " killed: another one comes")
        if victim == "sbxd-front":
            s.initialize()

        def works():
            try:
                return s.call("sandbox_exec", container_id=box, commands=[
                    "echo after"], timeout=20).get("output") == "after\n"
            except (RuntimeError, KeyError):
                return False
        ok(s.wait_for(works, 10), victim + " killed: commands run")

        def over():
            r = s.call("sandbox_exec_check", job_id=job)
            return r["status"] != "running" and r
        r = s.wait_for(over, 30)
        ok(r and r["status"] == "ok", victim + " killed: the job goes on", r)
        out, at = [], 0
        while True:
            r = s.call("read_output", run_id=job, offset=at, limit=10000)
            out += r["output"].split()
            if not r["has_more"]:
                break
            at = r["next_offset"]
        ok(out == ["line-%d" % i for i in range(n)],
           victim + " killed: its output is complete", (len(out), out[:3]))


for v in (["sbxd"], ["sbxd-engine"], ["sbxd-starter"],
          ["sbxd", "sbxd-engine"], ["sbxd", "sbxd-starter"],
          ["sbxd-engine", "sbxd-starter"]):
    killed(*v)
for v in ("sbxd-recorder", "sbx-journald", "sbx-broker", "sbx-proxy",
          "sbxd-worker", "sbxd-front"):
    component(v)
tap.done()
