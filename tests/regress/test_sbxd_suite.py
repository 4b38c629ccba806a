#!/usr/bin/env python3
"""The whole suite, real programs: how it starts and ends, and what is left
after each of them is killed.  One test is one function."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

BUILD = os.environ["SBX_BUILD"]
UID = 54322 if os.getuid() == 0 else os.getuid()
NAMES = ("sbxd-starter", "sbxd-engine", "sbxd-recorder", "sbx-journald",
         "sbx-broker", "sbx-proxy", "sbxd-worker", "sbxd-front")
tap = mcp.Tap()
ok = tap.ok


def kill(pid):
    if pid <= 1:
        raise RuntimeError("there is no such process")
    os.kill(pid, signal.SIGKILL)


class Suite(mcp.Client):
    """sbxd itself on stdio, as an unprivileged uid, below its own root"""

    def __init__(self, *args, hello=True, transport="stdio", conf=""):
        self.root = tempfile.mkdtemp(prefix="sbx-suite-")
        if conf:
            os.makedirs(self.root + "/etc")
            with open(self.root + "/etc/sbx.conf", "w") as f:
                f.write(conf)
        os.makedirs(self.root + "/project")
        for base, dirs, files in os.walk(self.root):
            for n in [base] + [os.path.join(base, x) for x in dirs + files]:
                if os.getuid() == 0:
                    os.chown(n, UID, UID)
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("SBX_")}
        env.update(SBX_ROOT=self.root, HOME=self.root)
        argv = [BUILD + "/sbxd", "--transport", transport, *args]
        if os.getuid() == 0:
            argv = ["setpriv", "--reuid", str(UID), "--regid", str(UID),
                    "--clear-groups"] + argv
        self.err = open(self.root + "/stderr", "w+b")
        self.seen = set()
        try:
            super().__init__(argv, env=env, cwd=self.root + "/project",
                             stderr=self.err, hello=hello)
        except Exception as e:
            said = self.said()
            self.__exit__()
            raise RuntimeError(f"no suite: {e!r}: {said}") from e

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.close()
        self.err.close()
        mcp.remove(self.root)

    def said(self):
        with open(self.root + "/stderr", "rb") as f:
            return f.read().decode("utf-8", "replace")

    def pids(self):
        found = {}
        for pid in mcp.tree(self.pid):
            self.seen.add(pid)
            found.setdefault(mcp.program(pid), []).append(pid)
        return found

    def pid_of(self, name):
        return (self.pids().get(name) or [0])[0]

    def wait_for(self, condition, timeout=5):
        until = time.monotonic() + timeout
        while True:
            value = condition()
            if value or time.monotonic() > until:
                return value
            time.sleep(0.02)

    def left(self, seconds=1.0):
        """pids of this suite that still live after that long"""
        return self.wait_for(
            lambda: not [p for p in self.seen if mcp.alive(p)], seconds) or \
            [(p, mcp.program(p)) for p in self.seen if mcp.alive(p)]

    def records(self):
        out = []
        for slot in ("suite-0", "suite-1"):
            d = f"{self.root}/state/{slot}/journal"
            for n in sorted(os.listdir(d)) if os.path.isdir(d) else []:
                with open(d + "/" + n, "rb") as f:
                    out += [json.loads(x) for x in f if x.endswith(b"\n")]
        return out

    def box(self):
        return self.call("sandbox_initialize")["container_id"]

    def sh(self, box, *commands, **kw):
        return self.call("sandbox_exec", container_id=box,
                         commands=list(commands), **kw)

    def replaced(self, name, old):
        """a new one of that name, that serves"""
        return self.wait_for(lambda: self.pid_of(name) not in (0, old))


def test_start_and_end():
    began = time.monotonic()
    with Suite() as s:
        took = time.monotonic() - began
        ok(took < 1, "initialize is answered within a second", took)
        box = s.box()
        s.sh(box, "sleep 1000 & echo started")
        job = s.call("sandbox_exec_background", container_id=box,
                     commands=["exec sleep 1000"])
        ok(job["status"] == "running", "a background job", job)
        names = s.pids()
        ok(set(NAMES) <= set(names), "all programs run", names)
        status, took = s.close()
        ok(status == 0 and took < 1, "the end of input ends it within a "
           "second, exit 0", (status, took, s.said()))
        ok(s.left(0.3) is True, "no process is left", s.left(0))
        ops = [r["op"] for r in s.records() if r["component"] != "journald"]
        ok(ops[:1] == ["suite_start"] and ops[-1:] == ["suite_end"],
           "the journal begins with suite_start and ends with suite_end",
           ops)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        with Suite() as s:
            box = s.box()
            s.sh(box, "setsid sleep 1000 & trap '' TERM; echo started")
            s.pids()
            began = time.monotonic()
            os.kill(s.pid, sig)
            status = s.proc.wait(3)
            ok(status == (0 if sig != signal.SIGKILL else -9) and
               time.monotonic() - began < 1.1, f"{sig.name}: ends", status)
            ok(s.left(1.2 if sig == signal.SIGKILL else 0.3) is True,
               f"{sig.name}: no process is left", s.left(0))


def test_early_input():
    with Suite(hello=False) as s:
        s.start("initialize", {"protocolVersion": "2025-11-25",
                               "capabilities": {}, "clientInfo":
                               {"name": "t", "version": "1"}})
        ok("result" in s.answer(1, 5), "what the client wrote before anybody "
           "listened is answered")
    with Suite(hello=False) as s:
        status, took = s.close()
        ok(status == 0 and took < 1.5, "a client that only closes its input",
           (status, took, s.said()))


def test_component_killed():
    with Suite() as s:
        box = s.box()
        for name in ("sbx-proxy", "sbx-broker", "sbx-journald",
                     "sbxd-recorder"):
            old = s.pid_of(name)
            kill(old)
            ok(s.replaced(name, old), f"{name} is started again", s.said())
            time.sleep(0.15)
            r = s.sh(box, "echo still here")
            ok(r["status"] == "ok" and "still here" in r["output"],
               f"and the sandbox works on after {name}", r)
        ok(s.wait_for(lambda: "container_id" in s.call("sandbox_initialize")),
           "and another one can be made")
        starts = [r for r in s.records() if r["op"] == "component_start"]
        ok(len(starts) >= 11, "each start is recorded", len(starts))


def test_zygote_killed():
    with Suite() as s:
        box = s.box()
        n = s.start_call("sandbox_exec", container_id=box,
                         commands=["sleep 20"])
        time.sleep(0.3)
        workers = s.pids()["sbxd-worker"]
        old = min(workers)
        kill(old)
        m = s.answer(n, 5)["result"]
        ok(m["isError"] and m["structuredContent"]["code"] == "worker_died",
           "a killed zygote: its calls failed", m)
        ok(s.sh(box, "echo ok")["status"] == "ok", "the next call is served")
        ok(not [p for p in workers if mcp.alive(p)], "its workers went along")
        r = s.sh(box, "pgrep -x sleep || echo none")
        ok("none" in r["output"], "and what they ran", r)


def test_worker_killed():
    with Suite() as s:
        box = s.box()
        bg = s.call("sandbox_exec_background", container_id=box,
                    commands=["exec sleep 999"])["job_id"]
        n = s.start_call("sandbox_exec", container_id=box,
                         commands=["sleep 20"])
        time.sleep(0.3)
        workers = s.pids()["sbxd-worker"]
        zygote = min(workers)
        for p in workers:
            if p != zygote:
                kill(p)
        m = s.answer(n, 5)["result"]
        ok(m["structuredContent"]["code"] == "worker_died",
           "a killed worker is one failed call", m)
        r = s.sh(box, "pgrep -fx 'sleep 20' || echo none")
        ok("none" in r.get("output", ""), "what it ran is gone", r)
        r = s.call("sandbox_exec_check", job_id=bg)
        ok(r["status"] == "running", "a background job is not", r)


def test_recorder_loses_nothing():
    with Suite() as s:
        box = s.box()
        lines = 60000
        job = s.call("sandbox_exec_background", container_id=box, commands=[
            f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); "
            "done"])["job_id"]
        for _ in range(3):
            time.sleep(0.25)
            old = s.pid_of("sbxd-recorder")
            kill(old)
            s.replaced("sbxd-recorder", old)
        r = s.wait_for(lambda: (lambda c: c["status"] != "running" and c)(
            s.call("sandbox_exec_check", job_id=job)), 30)
        want = "".join(f"line {i}\n" for i in range(lines))
        got, at = "", 0
        while r and at is not None:
            page = s.call("read_output", run_id=job, offset=at, limit=10000)
            got += page["output"] + ("" if page["output"].endswith("\n")
                                     else "\n")
            at = page["next_offset"] if page.get("has_more") else None
        ok(got.split() == want.split(), "three kills of the recorder lose no "
           "byte of a job's output", (r, len(got), len(want)))


def test_front_killed():
    with Suite() as s:
        box = s.box()
        old = s.pid_of("sbxd-front")
        kill(old)
        ok(s.replaced("sbxd-front", old), "the front is started again")
        s.initialize()
        r = s.call("sandbox_list_containers")
        ok(box in json.dumps(r), "the sandbox is there, after initialize", r)


def test_many_kills():
    """An engine that is slow to kill, and many who ask for it at once."""
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", image="host")["container_id"]
        run = s.call("sandbox_exec_background", container_id=box,
                     commands=["sleep 600"])["job_id"]
        engine = s.processes()["sbxd-engine"][0]
        os.kill(engine, signal.SIGSTOP)
        asked = [s.start_call("sandbox_exec_kill", job_id=run)
                 for _ in range(12)]
        time.sleep(0.5)
        os.kill(engine, signal.SIGCONT)
        got = set()
        while asked:
            m = s.recv()
            if m.get("id") in asked:
                asked.remove(m["id"])
                got.add(m["result"]["structuredContent"]["status"])
        ok(got == {"ok"} and engine in s.processes()["sbxd-engine"],
           "all are answered, and the suite lives", got)
        s.call("sandbox_stop", container_id=box, force=True)


def test_engine_killed():
    with Suite() as s:
        s.box()
        s.pids()
        kill(s.pid_of("sbxd-engine"))
        status = s.proc.wait(3)
        ok(status == 3 and "engine" in s.said(), "without its engine the "
           "suite ends, exit 3", (status, s.said()))
        ok(s.left(1) is True, "no process is left", s.left(0))
        ok(s.records()[-1]["op"] == "suite_end", "and that is recorded")
    with Suite() as s:
        s.box()
        s.pids()
        kill(s.pid_of("sbxd-starter"))
        status = s.proc.wait(3)
        ok(status == 3, "the same without its starter", (status, s.said()))
        ok(s.left(1) is True, "no process is left", s.left(0))


def test_five_deaths():
    with Suite() as s:
        box = s.box()
        run = s.sh(box, "echo kept")["run_id"]
        for _ in range(5):
            old = s.wait_for(lambda: s.pid_of("sbxd-recorder"), 4)
            kill(old)
            s.wait_for(lambda: not mcp.alive(old))
            time.sleep(0.05)
        s.wait_for(lambda: "stays down" in s.said())
        m = s.call("read_output", run_id=run)
        ok(m["status"] == "error" and "signal 9" in m["error"],
           "five deaths: down, and its work is refused with the reason", m)
        ok(box in json.dumps(s.call("sandbox_list_containers")),
           "the rest works")


def test_caps():
    with Suite() as s:
        box = s.box()
        calls = [s.start_call("sandbox_exec", container_id=box,
                              commands=["sleep 2"]) for _ in range(7)]
        got = {}
        while len(got) < 7:
            m = s.recv(10)
            if m.get("id") in calls:
                got[m["id"]] = m["result"]["structuredContent"]
        states = sorted(r["status"] for r in got.values())
        ok(states == ["busy"] + ["ok"] * 6, "a seventh call in one sandbox "
           "is busy at once", states)
        ok(got[calls[6]]["status"] == "busy", "it is the seventh that is")


class SocketClient(mcp.Client):
    """MCP with stdio framing over the control socket, as some uid"""

    def __init__(self, path, uid):
        super().__init__([sys.executable, "-c", BRIDGE, path, str(uid)])


BRIDGE = """
import os, select, socket, sys
uid = int(sys.argv[2])
if os.getuid() == 0:
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
while True:
    r, _, _ = select.select([0, s], [], [])
    if 0 in r:
        d = os.read(0, 65536)
        if not d:
            break
        s.sendall(d)
    if s in r:
        d = s.recv(65536)
        if not d:
            break
        os.write(1, d)
"""


def test_two_principals():
    if os.getuid() != 0:
        tap.absent("only root can be two users", "two principals")
        return
    with Suite(transport="unix", hello=False) as s:
        path = s.root + "/run/suite-0/mcp.sock"
        s.wait_for(lambda: "serving" in s.said())
        for p in (s.root, s.root + "/run", os.path.dirname(path)):
            os.chmod(p, 0o711)
        os.chmod(path, 0o666)
        a, b = SocketClient(path, 1001), SocketClient(path, 1002)
        box = a.call("sandbox_initialize", name="mine")["container_id"]
        run = a.call("sandbox_exec", container_id=box,
                     commands=["echo secret"])["run_id"]
        ok(box not in json.dumps(b.call("sandbox_list_containers")),
           "another uid's list does not show it")
        for tool, arguments in (
                ("sandbox_exec", {"container_id": box, "commands": ["id"]}),
                ("sandbox_stop", {"container_id": box, "force": True}),
                ("sandbox_attach", {"name_or_id": "mine"}),
                ("read_output", {"run_id": run}),
                ("sandbox_exec_check", {"job_id": run}),
                ("sandbox_exec_kill", {"job_id": run})):
            m = b.call(tool, **arguments)
            ok(m["status"] == "error" and m["code"] in
               ("not_found", "unknown_run") and "secret" not in json.dumps(m),
               f"{tool}: another's is as good as none", m)
        ok(a.call("sandbox_exec", container_id=box,
                  commands=["echo fine"])["status"] == "ok",
           "the owner's works on")
        a.close()
        c = SocketClient(path, 1001)
        ok(box in json.dumps(c.call("sandbox_list_containers")),
           "it outlives its connection")
        b.close()
        c.close()
        s.pids()
        os.kill(s.pid, signal.SIGTERM)
        ok(s.proc.wait(3) == 0 and s.left(0.5) is True, "SIGTERM ends it",
           s.said())


def test_copy():
    with Suite() as s:
        with open(s.root + "/project/a.txt", "w") as f:
            f.write("hello\n")
        box = s.box()
        r = s.call("copy_project", container_id=box,
                   local_src_dir=".", include_untracked=True)
        ok(r["status"] == "ok", "copy_project from the working directory", r)
        r = s.sh(box, "find / -name a.txt -exec cat {} + 2>/dev/null")
        ok("hello" in r.get("output", ""), "its file is there", r)
        s.sh(box, "echo work > /workspace/new.txt; ls -la /workspace")
        began = time.monotonic()
        m = s.call("sandbox_stop", container_id=box)
        took = time.monotonic() - began
        ok(m["status"] == "error" and "new.txt" in m["error"] and took < 0.2,
           "work that is newer stands in the way of a stop", (m, took))
        m = s.call("sandbox_stop", container_id=box, force=True)
        ok(m["status"] == "ok", "force stops it", m)
        box = s.box()
        s.call("copy_project", container_id=box, local_src_dir=".",
               include_untracked=True)
        m = s.call("sandbox_stop", container_id=box)
        ok(m["status"] == "ok", "nothing was done since: it stops", m)


ONLY = sys.argv[1:]
mcp.main(tap, globals(), ONLY)
