"""sbxd alone, among fakes: one test plays the starter, and through it every
other process of the suite, over real channels.

    with fakehub.Hub() as h:
        h.wait(lambda: h.serving())
        call = h.call("uid", "sandbox_exec", "")    # as the front
        w = h.wait(lambda: h.worker_of(call))       # the worker that got it

pump() answers what arrives as an honest process would (on_NAME methods, which
a test may replace on the object); everything seen is kept in h.seen.
Started by root, sbxd runs as an unprivileged uid of its own, without an
account: the rows' users are not needed then.
"""
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import ipc

BUILD = os.environ.get("SBX_BUILD", "")
UID = 54321
PROCS = ("monitor starter engine recorder journald broker proxy zygote front "
         "worker copyin init courier judge engine-docker cli image "
         "command").split()
STARTER = """#!/usr/bin/python3 -I
# passes its channel to the test, and lives until the test lets go
import array, os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(os.environ["SBX_FAKE_SOCKET"])
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                    array.array("i", [3]))])
os.close(3)
s.recv(1)
"""


class Peer(ipc.Chan):
    """The far end of one of the monitor's channels."""

    def __init__(self, fd, proc, instance=0):
        super().__init__(socket.socket(fileno=fd))
        self.proc, self.instance, self.open = proc, instance, True
        self.call, self.given = None, 0         # a worker's

    def end(self):
        if self.open:
            self.open = False
            self.close()


class Hub:
    def __init__(self, *args, conf="", env=None, hello=True, stdin=None,
                 broker=None):
        self.dir = tempfile.mkdtemp(prefix="sbx-hub-")
        self.uid = UID if os.getuid() == 0 else os.getuid()
        self.seen, self.records, self.peers, self.workers = [], [], {}, {}
        self.all = []           # every Peer that is open
        self.seq = self.given = 0
        self.hello = hello      # components say HELLO by themselves
        self.auto_worker = True
        self.work = []          # paths that ENGINE_WORK finds
        self.output = b"output\n"
        self.broker = broker or {}      # what else BROKER_STATE says
        self.next_call = 0
        self.handles = {}
        self.starter = None
        self._program(conf)
        self._start(args, env or {}, stdin)

    # --- the process -------------------------------------------------------

    def _program(self, conf):
        shutil.copy(BUILD + "/sbxd", self.dir + "/sbxd")
        for name, text in (("sbxd-starter", STARTER), ("sbx-init", "")):
            with open(self.dir + "/" + name, "w") as f:
                f.write(text)
            os.chmod(self.dir + "/" + name, 0o755)
        if "secret_rules" in conf:      # looked at by the real one
            shutil.copy(BUILD + "/sbxd-judge", self.dir + "/sbxd-judge")
        if conf:
            os.makedirs(self.dir + "/etc")
            with open(self.dir + "/etc/sbx.conf", "w") as f:
                f.write(conf)
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.door.bind(self.dir + "/door")
        self.door.listen(1)
        for base, _, names in os.walk(self.dir):
            for n in [base] + [os.path.join(base, n) for n in names]:
                if os.getuid() == 0:
                    os.chown(n, self.uid, self.uid)

    def _start(self, args, env, stdin):
        def drop():
            ipc.die_with_parent()
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)

        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("SBX_")}
        self.stderr = open(self.dir + "/stderr", "w+b")
        self.proc = subprocess.Popen(
            [self.dir + "/sbxd", *args], preexec_fn=drop, cwd=self.dir,
            stdin=stdin or subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.stderr, env=dict(
                clean, SBX_ROOT=self.dir, HOME="/nonexistent",
                SBX_FAKE_SOCKET=self.dir + "/door", **env))
        self.door.settimeout(0.1)
        until = time.monotonic() + 10
        self.conn = None
        while self.conn is None:
            try:
                self.conn, _ = self.door.accept()
            except TimeoutError as e:
                if self.proc.poll() is None and time.monotonic() < until:
                    continue
                raise RuntimeError("sbxd started nobody: " +
                                   self.said()) from e
        _, fds, _, _ = socket.recv_fds(self.conn, 1, 4)
        self.starter = Peer(fds[0], "starter")
        self.all.append(self.starter)

    def said(self):
        self.stderr.flush()
        with open(self.dir + "/stderr", "rb") as f:
            return f.read().decode("utf-8", "replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for p in list(self.all):
            p.end()
        for _, m in self.seen:
            for fd in m.fds:
                try:
                    os.close(fd)
                except OSError:
                    pass        # a test took it
        self.conn.close()
        if self.proc.poll() is None:
            try:
                self.proc.wait(2)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.stderr.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def term(self, sig=signal.SIGTERM):
        os.kill(self.proc.pid, sig)

    def ended(self, timeout=3):
        """its exit status once it ended by itself, else None"""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            self.pump(0.02)
            if self.proc.poll() is not None:
                return self.proc.returncode
        return None

    # --- the loop ------------------------------------------------------------

    def pump(self, seconds=0.0):
        """answer what has come; True when anything had"""
        ready, _, _ = select.select([p for p in self.all if p.open], [], [],
                                    seconds)
        for p in ready:
            if not p.open:
                continue
            try:
                m = p.recv(0, keep_log=True)
            except ipc.Timeout:
                continue
            except ipc.Closed:
                self.gone(p)
                continue
            self.seen.append((p.proc, m))
            getattr(self, "on_" + m.name, self.on_other)(p, m)
        return bool(ready)

    def wait(self, condition, timeout=5):
        until = time.monotonic() + timeout
        while True:
            value = condition()
            if value or time.monotonic() > until:
                return value
            self.pump(0.02)

    def settle(self, seconds=0.15):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.pump(0.02)

    def gone(self, p):
        """the monitor closed its end: so would the process"""
        p.end()
        self.all.remove(p)
        if p.proc == "worker":
            z = self.peers.get("zygote")
            self.workers.pop(p.instance, None)
            if z and z.open:
                z.send("WORKER_EXITED", worker=p.instance, status=0)
        elif p is not self.starter:
            self.exited(p, 0)
        else:
            self.conn.close()       # the stand-in of the starter ends

    def exited(self, p, status):
        if self.peers.get(p.proc) is p:
            del self.peers[p.proc]
        if self.starter.open:
            try:
                self.starter.send("EXITED", proc=PROCS.index(p.proc),
                                  instance=p.instance, pid=4000,
                                  status=status)
            except ipc.Closed:
                pass

    def kill(self, name, status=9):
        """that component dies"""
        p = self.peers[name]
        if name == "zygote":
            for w in list(self.workers.values()):
                w.end()
                self.all.remove(w)
            self.workers.clear()
        p.end()
        self.all.remove(p)
        self.exited(p, status)

    def kill_worker(self, w):
        w.end()
        self.all.remove(w)
        self.workers.pop(w.instance, None)
        self.peers["zygote"].send("WORKER_EXITED", worker=w.instance,
                                  status=9)

    def named(self, name, proc=None):
        return [m for p, m in self.seen
                if m.name == name and proc in (None, p)]

    # --- honest answers --------------------------------------------------------

    def on_other(self, p, m):
        """nothing to answer; its descriptors are the test's to look at"""

    def on_START(self, _p, m):
        name = PROCS[m["proc"]]
        p = Peer(m.fds.pop(), name, m["instance"])
        self.all.append(p)
        self.peers[name] = p
        self.starter.send("STARTED", proc=m["proc"], instance=m["instance"],
                          pid=4000 + m["proc"])
        if self.hello and name not in ("copyin", "courier", "command"):
            p.send("HELLO", version="0.1.0", pid=4000, features=0)

    def on_START_KILL(self, _p, m):
        p = next((p for p in self.all if p.proc == PROCS[m["proc"]] and
                  p.instance == m["instance"]), None)
        if p:
            p.end()
            self.all.remove(p)
            self.exited(p, 9)

    def on_SHUTDOWN(self, p, _m):
        p.end()
        self.all.remove(p)
        if p is self.starter:
            self.conn.close()
        else:
            self.exited(p, 0)

    def on_JOURNAL_APPEND(self, p, m):
        f = m["fields"]
        self.records.append(dict(m, fields=dict(zip(f[::2], f[1::2]))))
        if m["flags"] & 1:
            self.seq += 1
            p.send("JOURNAL_DONE", m.id, seq=self.seq)

    def on_SANDBOX_CREATE(self, p, m):
        p.send("SANDBOX_READY", m.id, container=m["container"], pid=5000)

    def on_PROXY_OPEN(self, p, m):
        p.send("PROXY_OPENED", m.id, container=m["container"])

    def on_GRANT_OPEN(self, p, m):
        p.send("GRANT_STATE", 0, grant=m["grant"], uses=m["uses"])

    def on_BROKER_GRANT(self, p, m):
        p.send("BROKER_GRANTED", 0, grant=m["grant"], source="app")

    def on_BROKER_LOCK(self, p, m):
        p.send("BROKER_LOCKED", m.id, tokens=2 * m["on"])

    def on_BROKER_STATUS(self, p, m):
        p.send("BROKER_STATE", m.id, lines=["source app"], **self.broker)

    def on_PROXY_DIAL(self, p, m):
        pair = socket.socketpair()
        p.send("PROXY_DIALLED", m.id, [pair[0].fileno()])
        for s in pair:
            s.close()

    def on_BROKER_REST(self, p, m):
        os.write(m.fds[2], b'{"ok":true}')
        m.close()
        p.send("BROKER_RESTED", m.id, status=200)

    def on_SANDBOX_STOP(self, p, m):
        p.send("SANDBOX_ENDED", m.id, container=m["container"], why=1)

    def on_ENGINE_EXEC(self, p, m):
        m.close()
        p.send("ENGINE_EXEC_STARTED", m.id, run=m["run"])

    def on_ENGINE_KILL(self, p, m):
        p.send("ENGINE_KILLED", m.id, run=m["run"], killed=1)
        p.send("ENGINE_EXITED", run=m["run"], status=9, why=2)

    def on_ENGINE_WORK(self, p, m):
        p.send("ENGINE_WORK_FOUND", m.id, container=m["container"],
               complete=1, count=len(self.work), names=self.work[:10])

    def on_RUN_FINISH(self, p, m):
        p.send("RUN_FINISHED", m.id, run=m["run"], known=1,
               out_bytes=len(self.output))

    def on_RUN_STAT(self, p, m):
        p.send("RUN_STATS", m.id, known=1, out_bytes=len(self.output),
               idle_ms=1)

    def on_RUN_READ(self, p, m):
        n = len(self.output)
        if m["offset"] >= n or m["stream"] != 0:
            p.send("RUN_NODATA", m.id, known=1, total=n)
            return
        fd = ipc.memfd(self.output)
        p.send("RUN_DATA", m.id, [fd], start=m["offset"],
               length=n - m["offset"], file_offset=m["offset"], total=n)
        os.close(fd)

    def on_WORKER_FORK(self, _p, m):
        w = Peer(m.fds.pop(), "worker", m["worker"])
        self.all.append(w)
        self.workers[w.instance] = w
        if self.auto_worker:
            w.send("HELLO", version="0.1.0", pid=6000, features=0)

    def on_WORKER_KILL(self, _p, m):
        w = self.workers.get(m["worker"])
        if w:
            self.kill_worker(w)

    def on_WORK_CALL(self, w, m):
        self.given += 1
        w.call, w.given = m, self.given
        m["args"] = ipc.read_fd(m.fds[0])
        m.close()

    def on_FRONT_LISTEN(self, _p, m):
        self.listener = socket.socket(fileno=m.fds.pop())
        self.listener.settimeout(5)

    # --- as the front --------------------------------------------------------------

    def serving(self):
        return self.named("FRONT_LISTEN") or self.named("FRONT_STDIO")

    def connect(self, uid):
        """a client of that uid; its principal handle (0: refused)"""
        path = self.dir + "/run/suite-0/mcp.sock"
        pid = 0
        if os.getuid() == 0:
            os.chmod(os.path.dirname(path), 0o711)
            os.chmod(self.dir, 0o711)
            os.chmod(self.dir + "/run", 0o711)
            os.chmod(path, 0o666)
        mine, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            if os.getuid() == 0:
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            socket.send_fds(theirs, [b"x"], [s.fileno()])
            theirs.recv(1)
            os._exit(0)
        _, fds, _, _ = socket.recv_fds(mine, 1, 1)
        client = socket.socket(fileno=fds[0])
        conn, _ = self.listener.accept()
        mine.send(b"x")
        os.waitpid(pid, 0)
        mine.close()
        theirs.close()
        return self.auth(conn.fileno()), client, conn

    def auth(self, fd):
        n = len(self.named("FRONT_PRINCIPAL"))
        self.peers["front"].send("FRONT_AUTH", 1, [fd], conn=7)
        got = self.wait(lambda: self.named("FRONT_PRINCIPAL")[n:])
        return got[0]["principal"]

    def call(self, handle, tool, container="", args=b"{}", progress=0,
             **more):
        """as the front: a tools/call; its number"""
        self.next_call += 1
        fd = ipc.memfd(args)
        self.peers["front"].send("CALL", 0, [fd], principal=handle,
                                 call=self.next_call, tool=tool,
                                 container=container, want_progress=progress,
                                 **more)
        os.close(fd)
        return self.next_call

    def begin(self, handle, tool="sandbox_exec", container="", **more):
        """a call and the worker that has it"""
        before = self.given
        n = self.call(handle, tool, container, **more)
        w = self.wait(lambda: next(
            (w for w in self.workers.values() if w.given > before), None))
        if w:
            w.number = n
        return w

    def outcome(self, number):
        """CALL_RESULT or CALL_REFUSED of that call, or None"""
        return self.wait(lambda: next(
            (m for m in self.named("CALL_RESULT") + self.named("CALL_REFUSED")
             if m["call"] == number), None))

    # --- as a worker -----------------------------------------------------------------

    def ask(self, w, _name, fds=(), _timeout=5, /, **values):
        """one request; its answer"""
        have = len(self.seen)
        w.send(_name, 77, fds, **values)
        return self.wait(lambda: next(
            (m for p, m in self.seen[have:] if p == "worker" and m.id == 77
             and m.name != "SB_ITEM"), None), _timeout)

    def result(self, w, is_error=0, text=b'{"status":"ok"}'):
        fd = ipc.memfd(text)
        w.send("WORK_RESULT", 0, [fd], kind=is_error)
        os.close(fd)
        return self.outcome(w.number)

    def box(self, w, **values):
        return self.ask(w, "SB_CREATE", image="host", **values)

    def run(self, w, container, argv=("true",), **values):
        fd = ipc.memfd(b"")
        m = self.ask(w, "EXEC_START", [fd], container=container,
                     argv=list(argv), env=[], cwd="/workspace", **values)
        os.close(fd)
        return m


def client(h, uid=1001):
    """a client, connected for as long as the hub is there"""
    handle, sock, conn = h.connect(uid)
    h.keep = getattr(h, "keep", []) + [sock, conn]
    return handle


def box_of(h, handle):
    """the id of a sandbox of its own"""
    w = h.begin(handle, "sandbox_initialize")
    box = h.box(w)["container"]
    h.result(w)
    return box
