#!/usr/bin/env python3
"""sbxd-engine and sbx-init, driven as the monitor and the recorder do."""
import errno
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

BUILD = os.environ["SBX_BUILD"]
RECORDER, PROXY = 3, 6      # enum sbx_proc
EXITED, KILLED, GONE = 0, 2, 3  # enum sbx_exit_why
BOX = "0123456789ab"


class Engine:
    def __init__(self, scratch=None, init=BUILD + "/sbx-init"):
        self.scratch = scratch or tempfile.mkdtemp(prefix="sbx-engine-")
        if os.getuid() == 0:
            who = pwd.getpwnam("sbxd")
            os.chown(self.scratch, who.pw_uid, who.pw_gid)
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(BUILD + "/sbxd-engine", theirs)
        self.mon = ipc.Chan(mine)
        d = os.open(self.scratch, os.O_RDONLY | os.O_DIRECTORY)
        i = os.open(init, os.O_PATH)
        u = os.open("/proc/self/ns/user", os.O_RDONLY)
        self.mon.send("ENGINE_START", 0, [d, i, d, u], nofile_hard=1000,
                      nproc=200)
        for fd in (d, i, u):
            os.close(fd)
        self.mon.recv(want="HELLO", timeout=10)
        self.runs = 0
        self.rec = self.introduce(RECORDER)

    def introduce(self, proc):
        a, b = ipc.pair()
        self.mon.send("INTRODUCE", 0, [b.fileno()], peer=proc)
        b.close()
        return ipc.Recorder(a) if proc == RECORDER else ipc.Chan(a)

    def create(self, box=BOX):
        self.mon.send("SANDBOX_CREATE", 1, container=box, image="host")
        return self.mon.recv(want=("SANDBOX_READY", "SANDBOX_ENDED"),
                             timeout=20)

    def stop(self, box=BOX):
        self.mon.send("SANDBOX_STOP", 2, container=box)
        return self.mon.recv(want="SANDBOX_ENDED")

    def start(self, argv, box=BOX, stdin=b"", cwd="/workspace", env=()):
        """(run, ENGINE_EXEC_STARTED, [stdout, stderr])"""
        self.runs += 1
        run = "%016x" % self.runs
        fd = ipc.memfd(stdin)
        self.mon.send("ENGINE_EXEC", self.runs, [fd], container=box, run=run,
                      argv=argv, cwd=cwd, env=list(env))
        os.close(fd)
        started = self.mon.recv(want="ENGINE_EXEC_STARTED")
        while started["error"] != errno.EAGAIN:
            m = self.rec.recv(want="RUN_OPEN")
            if m["run"] == run:
                return run, started, m.fds
            m.close()       # one that the last recorder had not taken
        return run, started, []

    def run(self, argv, timeout=20, **kw):
        """(started, exited or None, stdout, stderr) of a whole command"""
        run, started, fds = self.start(argv, **kw)
        out = [b"", b""]
        if started["error"]:
            return started, None, b"", b""
        until = time.monotonic() + timeout
        open_fds = set(fds)
        while open_fds and time.monotonic() < until:
            for fd in select.select(list(open_fds), [], [], 0.2)[0]:
                data = os.read(fd, 1 << 16)
                out[fds.index(fd)] += data
                if not data:
                    open_fds.discard(fd)
        for fd in fds:
            os.close(fd)
        ended = self.mon.recv(want="ENGINE_EXITED")
        while ended["run"] != run:
            ended = self.mon.recv(want="ENGINE_EXITED")
        return started, ended, *out

    def text(self, script, **kw):
        return self.run(["bash", "-c", script], **kw)[2].decode()

    def kill(self, run):
        began = time.monotonic()
        self.mon.send("ENGINE_KILL", 77, run=run)
        return (self.mon.recv(want="ENGINE_KILLED"),
                time.monotonic() - began)

    def inits(self):
        return [p for p in mcp.tree(self.proc.pid)
                if mcp.program(p) == "sbx-init"]

    def end(self, keep=False):
        self.mon.close()
        status = self.proc.wait(10)
        if not keep:
            mcp.remove(self.scratch)
        return status


def commands(tap, e):
    s, x, out, err = e.run(["sh", "-c", "cat; echo e >&2; exit 3"],
                           stdin=b"in")
    tap.ok(out == b"in" and err == b"e\n" and x["status"] == 3 << 8 and
           x["why"] == EXITED, "stdin, stdout, stderr, exit code", (s, x, out))
    s, x, _, _ = e.run(["sh", "-c", "kill -SEGV $$"])
    tap.ok(x["status"] & 127 == signal.SIGSEGV, "killed by a signal", x)
    s, x, _, _ = e.run(["no-such-program"])
    tap.ok(s["error"] == 2 and "no-such-program" in s["reason"] and x is None,
           "a missing program is named", s)
    s, x, _, _ = e.run(["true"], cwd="/nowhere")
    tap.ok(s["error"] == 2 and "working directory" in s["reason"],
           "a missing working directory is named", s)
    out = e.text("echo $A $HOME $PWD", env=["A=b c"], cwd="/tmp")
    tap.ok(out == "b c /home/sandbox /tmp\n", "env and cwd", out)
    s, x, out, _ = e.run(["head", "-c", "5000000", "/dev/zero"])
    tap.ok(len(out) == 5000000, "5 MB through the pipes", len(out))
    out = e.text("printf '%s\\n' \"$@\" | wc -c", timeout=20)
    s, x, out, _ = e.run(["printf", "%s\n"] + ["x" * 100] * 900)
    tap.ok(out.count(b"\n") == 900, "900 arguments", x)


def inside(tap, e):
    out = e.text("id -u; cat /proc/self/uid_map; hostname; "
                 "grep -c : /proc/net/dev; ls -A /root /var/lib /home | cat")
    tap.ok(out.split()[:4] == ["1000", "1000", out.split()[2], "1"] and
           BOX in out and "\n1\n" in out, "one uid, a hostname, only lo", out)
    out = e.text("ls -l /proc/self/fd | awk '{print $9}'")
    tap.ok(sorted(out.split()) == ["0", "1", "2", "3"],     # 3: ls itself
           "only 0, 1, 2 are open", out)
    mounts = e.text("cat /proc/self/mounts").splitlines()
    bad = [m for m in mounts if " / " not in m and "devtmpfs" not in m and
           "devpts" not in m and m.split()[1] != "/dev" and
           "nodev" not in m.split()[3]]
    tap.ok(not bad, "every mount but /dev is nodev", bad)
    usr = [m for m in mounts if m.split()[1] == "/usr"]
    tap.ok(usr and {"ro", "nosuid", "nodev"} <= set(usr[0].split()[3].split(",")),
           "/usr is ro,nosuid,nodev", usr)
    out = e.text("touch /usr/x /etc/alternatives/x /proc/sys/kernel/x 2>&1; "
                 "echo w > /workspace/f && echo h > ~/f && echo t > /tmp/f && "
                 "echo ok")
    tap.ok(out.endswith("ok\n") and out.count("cannot touch") == 3,
           "writable: workspace, home, tmp", out)
    out = e.text("python3 -c \"import asyncio; asyncio.run(asyncio.sleep(0)); "
                 "print('loop')\"")
    tap.ok(out == "loop\n", "asyncio works", out)


def trees(tap, e):
    """every kind of tree is gone within a second"""
    hard = {
        "sleep": "exec sleep 1000",
        "ignores TERM": "trap '' TERM INT HUP; while :; do sleep 1; done",
        "double fork, setsid": "(setsid sh -c 'setsid sleep 1000 & exit' &); "
                               "sleep 1000",
        "fork loop": "f() { while :; do sleep 1000 & sleep 0.001; done; }; "
                     "f & f & wait",
        "fork bomb": "b() { b | b & }; b; sleep 1000",
        "stopped": "sleep 1000 & kill -STOP $!; kill -STOP $$; sleep 1000",
    }
    for name, script in hard.items():
        run, started, fds = e.start(["bash", "-c", script])
        time.sleep(0.4)
        killed, took = e.kill(run)
        left = [p for p in mcp.tree(e.proc.pid)
                if mcp.program(p) in ("sleep", "bash", "sh") and mcp.alive(p)]
        tap.ok(killed["left"] == 0 and took < 1 and not left,
               f"kill: {name}", (killed, took, left))
        e.mon.recv(want="ENGINE_EXITED")
        e.rec.recv(want="RUN_CLOSED")
        for fd in fds:
            os.close(fd)


def rebels(tap, e):
    # at once, when its supervisor has perhaps not said that it was started
    for _ in range(20):
        e.start(["sh", "-c", "kill -9 $PPID; sleep 1000"])
        x = e.mon.recv(want="ENGINE_EXITED")
        e.rec.recv(want="RUN_CLOSED")
        if x["why"] != KILLED:
            break
    tap.ok(x["why"] == KILLED, "a guest may kill its supervisor at once", x)
    run, _, fds = e.start(["bash", "-c", "sleep 1000 & kill -9 $PPID; "
                           "sleep 1000"])
    x = e.mon.recv(want="ENGINE_EXITED")
    e.rec.recv(want="RUN_CLOSED")
    time.sleep(0.1)
    left = [p for p in mcp.tree(e.proc.pid) if mcp.program(p) == "sleep"
            and mcp.alive(p)]
    tap.ok(x["why"] == KILLED and not left,
           "a guest that kills its supervisor loses its tree", (x, left))
    e.run(["bash", "-c", "kill -9 1; kill -9 -1"])
    tap.ok(e.text("echo alive") == "alive\n", "PID 1 is out of reach")
    run, _, fds = e.start(["sh", "-c", "sleep 0.3 & echo first; exit 0"])
    x = e.mon.recv(want="ENGINE_EXITED")
    tap.ok(x["status"] == 0, "the command's end is told at once")
    began = time.monotonic()
    while e.rec.recv(want="RUN_CLOSED")["run"] != run:
        pass
    tap.ok(time.monotonic() - began > 0.1, "its tree's end when that comes")


def peers(tap, e):
    proxy = e.introduce(PROXY)
    m = proxy.recv(want="PROXY_LISTENER")
    s = socket.socket(fileno=m.fds[0])
    tap.ok(s.getsockname() == ("127.0.0.1", 3128) and
           s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0,
           "the proxy gets the bound socket, not listening", s.getsockname())
    out = e.text("python3 -c \"import socket; socket.create_connection(("
                 "'127.0.0.1', 3128), 2)\" 2>&1 | tail -1")
    tap.ok("Connection refused" in out, "which refuses", out)
    s.close()
    proxy.close()
    run, _, fds = e.start(["sh", "-c", "sleep 0.5; echo late"])
    e.rec.close()
    e.rec = e.introduce(RECORDER)
    # also what is over and was not taken by the last recorder
    runs, closed = {}, set()
    while True:
        whole = run in runs and closed >= set(runs)
        try:
            m = e.rec.recv(1.0 if whole else 10.0,
                           want=("RUN_OPEN", "RUN_CLOSED"))
        except ipc.Timeout:
            if whole:
                break
            raise
        if m.name == "RUN_OPEN":
            runs[m["run"]] = m
        else:
            closed.add(m["run"])
    tap.ok(run in runs, "a new recorder gets the live runs again", runs)
    e.mon.recv(want="ENGINE_EXITED")
    tap.ok(os.read(runs[run].fds[0], 100) == b"late\n", "and loses nothing")
    e.rec.close()
    e.rec = e.introduce(RECORDER)
    tap.ok(e.rec.quiet(0.3), "what was taken is not sent again", e.rec.kept)
    s, x, out, _ = e.run(["sh", "-c", "echo kept"])
    e.start(["sh", "-c", "echo held; exec sleep 0.2"])
    time.sleep(0.1)
    e.rec.close()       # dies before it took the second one
    time.sleep(0.4)
    e.rec = e.introduce(RECORDER)
    m = e.rec.recv(want="RUN_OPEN")
    tap.ok(os.read(m.fds[0], 100) == b"held\n",
           "a run that ended without a recorder is kept for the next", m)
    e.rec.recv(want="RUN_CLOSED")
    e.rec.close()
    time.sleep(0.1)
    e.mon.send("ENGINE_EXEC", 5, [ipc.memfd(b"")], container=BOX,
               run="f" * 16, argv=["true"], cwd="/")
    m = e.mon.recv(want="ENGINE_EXEC_STARTED")
    tap.ok(m["error"] != 0 and "recorder" in m["reason"],
           "without a recorder nothing is run", m)
    e.rec = e.introduce(RECORDER)


def work(tap, e):
    since = time.time_ns()
    time.sleep(0.02)
    e.text("mkdir -p /workspace/p/.git/refs/heads /workspace/p/__pycache__; "
           "cd /workspace/p; echo x > 'a b'; echo x > .git/index; "
           "echo x > __pycache__/z; ln -s /etc/passwd l")

    def ask(when):
        e.mon.send("ENGINE_WORK", 6, container=BOX, path="/workspace",
                   since_ns=when)
        return e.mon.recv(want="ENGINE_WORK_FOUND")
    m = ask(since)
    tap.ok(m["complete"] == 1 and sorted(m["names"]) == ["p/a b", "p/l"],
           "work: new files, not caches or git's index", m)
    time.sleep(0.02)
    tap.ok(ask(time.time_ns())["count"] == 0, "work: none after now")
    e.text("touch -d 2001-01-01 '/workspace/p/a b'; ls")
    m = ask(since)
    tap.ok("p/a b" in m["names"], "work: an mtime of 2001 hides nothing", m)
    e.text("cd /workspace/p/.git/refs/heads; for i in $(seq 20); do echo x > "
           "$i; done")
    m = ask(since)
    tap.ok(m["count"] == 22 and sorted(m["names"]) == ["p/a b", "p/l"],
           "work: git's own are counted, the tree's are named", m)


def ends(tap):
    e = Engine()
    e.create()
    tap.ok(e.create("fedcba987654").name == "SANDBOX_READY", "two at once")
    out = e.text("ls /workspace; cat /proc/[0-9]*/comm", box="fedcba987654")
    tap.ok("f" not in out.split() and out.count("sbx-init") <= 2,
           "the second sees nothing of the first", out)
    run, _, fds = e.start(["sleep", "1000"])
    m = e.stop()
    x = e.mon.recv(want="ENGINE_EXITED")
    tap.ok(x["why"] == GONE and m["why"] == 1, "stop ends its runs", (x, m))
    e.mon.send("SANDBOX_CREATE", 3, container="a" * 12, image="nope")
    m = e.mon.recv(want="SANDBOX_ENDED")
    tap.ok("image" in m["reason"], "an unknown image", m)
    os.kill(e.inits()[0], signal.SIGKILL)
    m = e.mon.recv(want="SANDBOX_ENDED")
    tap.ok(m["why"] == 2 and m["container"] == "fedcba987654",
           "a killed init ends its sandbox, and says so", m)
    e.create()
    e.start(["bash", "-c", "(setsid sleep 1000 &); sleep 1000"])
    everything = mcp.tree(e.proc.pid)
    e.proc.kill()
    e.proc.wait()
    until = time.monotonic() + 1
    while any(mcp.alive(p) for p in everything) and time.monotonic() < until:
        time.sleep(0.01)
    tap.ok(not any(mcp.alive(p) for p in everything),
           "engine killed: nothing of it lives after 1 s", everything)
    e.mon.close()
    again = Engine(scratch=e.scratch)
    m = again.mon.recv(want="ENGINE_LEFTOVER")
    tap.ok(m["container"] == BOX, "the next start collects and says so", m)
    time.sleep(0.3)
    left = subprocess.run(["ls", e.scratch], stdout=subprocess.PIPE,
                          text=True).stdout.split()
    tap.ok(BOX not in left, "and removes", left)
    tap.ok(again.end() == 0, "the monitor's end is its end")


FAKE_INIT = """#include <sys/socket.h>
#include <unistd.h>
int main(void)
{
	static const char bad[] = "\\0\\0\\0\\1\\0\\64\\0\\1\\0\\0\\0\\0x";

	send(3, bad, sizeof(bad) - 1, 0);
	pause();
	return (0);
}
"""


def violation(tap):
    """an init that sends what only the monitor may send"""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with open(d + "/i.c", "w") as f:
            f.write(FAKE_INIT)
        if shutil.which("cc") is None or subprocess.run(
                ["cc", "-static", "-o", d + "/i", d + "/i.c"]).returncode:
            tap.skip("no static C compiler", "protocol violation by init")
            return
        e = Engine(init=d + "/i")
        m = e.create()
        tap.ok(m.name == "SANDBOX_ENDED" and "protocol" in m["reason"],
               "an init that breaks the protocol ends its sandbox only", m)
        e.mon.send("PING", 9)
        tap.ok(e.mon.recv(want="PONG")["healthy"] == 1, "the engine goes on")
        e.end()


def main():
    tap = mcp.Tap()
    e = Engine()
    m = e.create()
    tap.ok(m.name == "SANDBOX_READY", "a sandbox", (m, e.mon.log))
    for part in (commands, inside, trees, rebels, peers, work):
        part(tap, e)
    with open(f"/proc/{e.inits()[0]}/statm") as f:
        tap.ok(int(f.read().split()[1]) * 4 < 1500, "init is small")
    tap.ok(e.end() == 0, "it ends with the monitor")
    ends(tap)
    violation(tap)
    tap.done()


main()
