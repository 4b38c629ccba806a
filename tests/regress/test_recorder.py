#!/usr/bin/env python3
"""sbxd-recorder, driven as the monitor and the engine do."""
import errno
import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

PROGRAM = os.environ["SBX_BUILD"] + "/sbxd-recorder"
ENGINE, PROXY = 2, 6        # enum sbx_proc
OUT, ERR = 0, 1             # enum sbx_stream
SEG = 32 << 10
CAP = 8 * SEG
NONE = (1 << 64) - 1
# root of a user namespace is none: back to a plain user in there
ROOT = os.geteuid() == 0 and "inside-user" not in sys.argv
PLAIN = [] if "inside-user" not in sys.argv else [
    "unshare", "-U", "--map-user=1000", "--map-group=1000"]
t = mcp.Tap()


def run_id(n):
    return "%016x" % n


def pattern(n, seed=0):
    """n bytes that tell their place: 8 bytes each, no two alike"""
    return b"".join(b"%07x\n" % ((i + seed) & 0xfffffff)
                    for i in range((n + 7) // 8))[:n]


class Recorder:
    """The program, a store below a directory, channels of both peers."""

    def __init__(self, store=None, cap=CAP, total=64 * CAP):
        self.store = store or tempfile.mkdtemp(prefix="sbx-recorder-")
        if ROOT:
            who = pwd.getpwnam("sbxd")
            os.chown(self.store, who.pw_uid, who.pw_gid)
        self.cap, self.total = cap, total
        self.pipes = {}     # run: the engine's duplicates, [out, err]
        self.proc = None

    def start(self, fresh=0, nofile=None):
        """It runs when this returns; live runs are opened again."""
        mine, theirs = ipc.pair()
        argv = [*PLAIN, PROGRAM]
        if nofile is not None:
            argv = ["prlimit", "--nofile=%d" % nofile, *argv]
        self.proc = ipc.spawn(argv[0], theirs, argv[1:])
        self.mon = ipc.Chan(mine)
        d = os.open(self.store, os.O_RDONLY | os.O_DIRECTORY)
        self.mon.send("RECORDER_START", 0, [d], fresh=fresh,
                      run_cap_bytes=self.cap, total_cap_bytes=self.total)
        os.close(d)
        self.mon.recv(want="HELLO", timeout=10)
        self.eng = self.introduce(ENGINE)
        for run, fds in self.pipes.items():
            self.eng.send("RUN_OPEN", 0, fds, run=run)
        return self

    def introduce(self, proc):
        a, b = ipc.pair()
        self.mon.send("INTRODUCE", 0, [b.fileno()], peer=proc)
        b.close()
        return ipc.Chan(a)

    def open(self, run):
        """RUN_OPEN; returns the write ends"""
        o, e = os.pipe(), os.pipe()
        self.pipes[run] = [o[0], e[0]]
        self.eng.send("RUN_OPEN", 0, self.pipes[run], run=run)
        return o[1], e[1]

    def closed(self, run):
        for fd in self.pipes.pop(run):
            os.close(fd)
        self.eng.send("RUN_CLOSED", 0, run=run)

    def ask(self, name, run, timeout=10, **kw):
        self.mon.send(name, 7, run=run, **kw)
        return self.mon.recv(timeout=timeout, want=(
            "RUN_FINISHED", "RUN_DATA", "RUN_NODATA", "RUN_STATS"))

    def finish(self, run):
        """(known, out bytes, err bytes); waits for an open run of it"""
        m = self.ask("RUN_FINISH", run)
        return m["known"], m["out_bytes"], m["err_bytes"]

    def piece(self, run, stream=OUT, offset=0):
        m = self.ask("RUN_READ", run, stream=stream, offset=offset)
        data = None
        if m.name == "RUN_DATA":
            data = os.pread(m.fds[0], m["length"], m["file_offset"])
        m.close()
        return m, data

    def read(self, run, stream=OUT):
        """[(offset, bytes)] of all that is kept, pieces joined"""
        at, out = 0, []
        while True:
            m, data = self.piece(run, stream, at)
            if m.name != "RUN_DATA":
                return out
            if out and out[-1][0] + len(out[-1][1]) == m["start"]:
                out[-1] = (out[-1][0], out[-1][1] + data)
            else:
                out.append((m["start"], data))
            at = m["start"] + len(data)
            if not data:
                raise ValueError("an empty RUN_DATA")

    def wait_for(self, run, n, timeout=20):
        """until n bytes of standard output were taken, kept or lost"""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.ask("RUN_STAT", run)["out_bytes"] >= n:
                return True
            time.sleep(0.01)
        return False

    def put(self, box, path, data, fd=None, **kw):
        """KEEP_PUT: (error, reason)"""
        own = fd is None
        if own:
            fd = memfd(data)
        self.mon.send("KEEP_PUT", 7, [fd], container=box, path=path, **kw)
        if own:
            os.close(fd)
        m = self.mon.recv(timeout=10, want=("KEEP_HAVE",))
        return m["error"], m["reason"]

    def get(self, box, path, steps=1):
        """KEEP_GET: (bytes or None, message)"""
        self.mon.send("KEEP_GET", 7, container=box, path=path, steps=steps)
        m = self.mon.recv(timeout=10, want=("KEEP_VERSION", "KEEP_NONE"))
        data = None
        if m.name == "KEEP_VERSION":
            data = os.pread(m.fds[0], 6 << 20, 0)
            m["writable"] = fcntl.fcntl(m.fds[0], fcntl.F_GETFL) & os.O_ACCMODE
        m.close()
        return data, m

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()
        self.mon.close()
        self.eng.close()

    def end(self):
        """exit status, by SHUTDOWN; the store is removed"""
        status = None
        if self.proc.poll() is None:
            self.mon.send("SHUTDOWN")
            try:
                status = self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        for fds in self.pipes.values():
            for fd in fds:
                os.close(fd)
        shutil.rmtree(self.store, ignore_errors=True)
        return status


def memfd(data, seal=True):
    fd = os.memfd_create("x", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    if seal:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE |
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:1 << 16]):]


def feed(fd, data, close=True):
    """A thread that writes it: pipes are smaller than what is tested."""
    def work():
        write_all(fd, data)
        if close:
            os.close(fd)
    th = threading.Thread(target=work, daemon=True)
    th.start()
    return th


def test_exact():
    r, a, b = Recorder().start(fresh=1), run_id(1), run_id(2)
    o, e = r.open(a)
    out, err = pattern(5 * SEG + 123), bytes(range(256)) * 300
    th = [feed(o, out, False), feed(e, err, False)]
    for x in th:
        x.join(20)
    got = r.finish(a)
    t.ok(got == (1, len(out), len(err)),
         "RUN_FINISH drains what the pipes hold", got)
    t.ok(r.read(a) == [(0, out)] and r.read(a, ERR) == [(0, err)],
         "both streams are stored byte by byte")
    m, data = r.piece(a, OUT, SEG + 10)
    t.ok(data == out[SEG + 10:2 * SEG] and m["start"] == SEG + 10 and
         m["file_offset"] == 10 and m["total"] == len(out),
         "a read begins anywhere and ends with its segment", m)
    m = r.ask("RUN_READ", a, stream=OUT, offset=0)
    refused = 0
    for attempt in (lambda: os.write(m.fds[0], b"x"),
                    lambda: os.ftruncate(m.fds[0], 0)):
        try:
            attempt()
        except OSError:
            refused += 1
    t.ok(refused == 2, "what is handed out is read-only")
    m.close()
    m, _ = r.piece(a, OUT, len(out))
    t.ok(m.name == "RUN_NODATA" and m["known"] == 1 and
         m["total"] == len(out), "no data at the end, but known", m)
    os.write(o, b"a descendant's")
    t.ok(r.wait_for(a, len(out) + 14),
         "output of descendants is recorded after RUN_FINISH")
    m = r.ask("RUN_STAT", a)
    t.ok(m["known"] == 1 and m["err_bytes"] == len(err) and
         m["dropped"] == 0 and m["idle_ms"] < 5000, "RUN_STAT", m)
    os.write(o, b" last words")
    os.close(o)
    os.close(e)
    r.closed(a)
    t.ok(r.wait_for(a, len(out) + 25) and
         r.read(a)[0][1].endswith(b"descendant's last words"),
         "what was there at RUN_CLOSED is stored")
    o, e = r.open(b)
    m = r.ask("RUN_STAT", b)
    t.ok(m["known"] == 1 and m["idle_ms"] == NONE, "a silent run is idle", m)
    os.write(o, b"x")
    r.wait_for(b, 1)
    r.mon.send("RUN_DROP", 0, run=a)
    m, _ = r.piece(a)
    t.ok(m.name == "RUN_NODATA" and m["known"] == 0 and
         os.listdir(r.store) == [b], "RUN_DROP forgets the run", m)
    r.mon.send("RUN_DROP", 0, run=b)
    th = feed(o, pattern(1 << 20))
    th.join(10)
    t.ok(not th.is_alive() and r.ask("RUN_STAT", b)["known"] == 0 and
         os.listdir(r.store) == [], "a dropped run that prints never waits")
    os.close(e)
    m = [r.ask(n, run_id(99), **kw) for n, kw in (
        ("RUN_FINISH", {}), ("RUN_STAT", {}),
        ("RUN_READ", {"stream": 0, "offset": 0}))]
    t.ok([x["known"] for x in m] == [0, 0, 0], "unknown runs are unknown", m)
    t.ok(r.end() == 0, "SHUTDOWN ends it with status 0")


def test_killed(rounds=20):
    """A fast writer, and a recorder killed while it stores."""
    noise, bad, kills = os.urandom(24 << 20), [], 0
    for i in range(rounds):
        r, a = Recorder(cap=128 << 20, total=1 << 31).start(1), run_id(i)
        o, e = r.open(a)
        stop, size = threading.Event(), []

        def work(o=o, stop=stop, size=size):
            n = 0
            while n < 5 * len(noise) and not stop.is_set():
                at = n % len(noise)
                n += os.write(o, noise[at:at + 50000])
            size.append(n)
            os.close(o)
        th = threading.Thread(target=work, daemon=True)
        th.start()
        for j in range(3):
            time.sleep(0.001 * (1 + (i * 7 + j * 3) % 11))
            kills += th.is_alive()
            r.kill()
            r.start()
        stop.set()
        os.close(e)
        th.join(30)
        want = (noise * (size[0] // len(noise) + 1))[:size[0]]
        if not r.wait_for(a, len(want)) or r.read(a) != [(0, want)]:
            bad.append((i, len(want), [(s, len(d)) for s, d in r.read(a)]))
        r.end()
    t.ok(not bad and kills >= 2 * rounds,
         "kill -9 loses and repeats no byte, %d times while written" % kills,
         bad)


def test_killed_past_cap():
    r, a = Recorder().start(fresh=1), run_id(1)
    o, e = r.open(a)
    data = pattern(40 * SEG + 77)
    th = feed(o, data)
    while th.is_alive():
        r.kill()
        r.start()
        time.sleep(0.005)
    r.wait_for(a, len(data))
    got = r.read(a)
    t.ok(len(got) == 2 and all(data[s:s + len(d)] == d for s, d in got) and
         got[0][0] == 0 and sum(got[1][0:1]) + len(got[1][1]) == len(data),
         "past the cap, too", [(s, len(d)) for s, d in got])
    os.close(e)
    r.end()


def test_cap():
    r, a = Recorder().start(fresh=1), run_id(1)
    o, e = r.open(a)
    data = pattern(100 * SEG + 5)
    feed(o, data).join(20)
    r.wait_for(a, len(data))
    got = r.read(a)
    kept = sum(len(d) for _, d in got)
    t.ok(len(got) == 2 and got[0] == (0, data[:2 * SEG]) and
         len(got[1][1]) >= 2 * SEG and
         got[1][0] + len(got[1][1]) == len(data) and
         data.endswith(got[1][1]) and kept <= CAP,
         "the cap keeps head and tail", [(s, len(d)) for s, d in got])
    m, d = r.piece(a, OUT, 2 * SEG + 3)
    t.ok(m["start"] == got[1][0] and m["total"] == len(data) and
         d == data[m["start"]:m["start"] + SEG],
         "a read in the gap goes on behind it", m)
    on_disk = sum(os.stat(os.path.join(r.store, a, f)).st_size
                  for f in os.listdir(os.path.join(r.store, a)))
    m = r.ask("RUN_STAT", a)
    t.ok(on_disk == kept and m["dropped"] == len(data) - kept,
         "what is dropped is counted, and off the disk", (on_disk, m))
    mode = [stat.S_IMODE(os.stat(p).st_mode) for p in (
        os.path.join(r.store, a), os.path.join(r.store, a, "o.0000"))]
    t.ok(mode == [0o700, 0o600], "nobody else may read it", mode)
    os.close(e)
    r.end()


def test_total():
    r = Recorder(total=4 * CAP).start(fresh=1)
    live = run_id(0xfff)
    lo, le = r.open(live)
    os.write(lo, b"still here")
    r.wait_for(live, 10)
    for i in range(12):
        o, e = r.open(run_id(i))
        os.close(e)
        feed(o, pattern(CAP - 5)).join(10)
        r.wait_for(run_id(i), CAP - 5)
        r.closed(run_id(i))
    known = [i for i in range(12)
             if r.ask("RUN_STAT", run_id(i))["known"] == 1]
    t.ok(known in (list(range(8, 12)), list(range(9, 12))) and
         sorted(os.listdir(r.store)) ==
         sorted([run_id(i) for i in known] + [live]),
         "the total cap evicts the runs that ended first", known)
    t.ok(r.read(live) == [(0, b"still here")], "and never a live one")
    r.kill()
    r.start()
    t.ok(r.read(run_id(11)) == [(0, pattern(CAP - 5))],
         "ended runs are read after a restart")
    t.ok(r.ask("RUN_STAT", run_id(11))["idle_ms"] < 60000,
         "their last output keeps its time")
    r.kill()
    os.mkdir(os.path.join(r.store, "not a run"))
    r.start(fresh=1)
    left = [x for x in os.listdir(r.store) if x != live]
    t.ok(left == [] and r.read(live) == [], "a fresh start empties the store",
         left)
    os.close(lo)
    os.close(le)
    r.end()


def test_flood():
    """Another run's word is stored while a gigabyte pours in."""
    r = Recorder(cap=8 << 20).start(fresh=1)
    fo, fe = r.open(run_id(1))
    o, e = r.open(run_id(2))
    flood = subprocess.Popen(["head", "-c", str(1 << 30), "/dev/zero"],
                             stdout=fo)
    os.close(fo)
    worst = ping = n = 0
    while flood.poll() is None:
        begin = time.monotonic()
        os.write(o, b"tick\n")
        n += 5
        r.wait_for(run_id(2), n)
        worst = max(worst, time.monotonic() - begin)
        begin = time.monotonic()
        r.mon.send("PING", 9)
        r.mon.recv(want="PONG")
        ping = max(ping, time.monotonic() - begin)
        time.sleep(0.002)
    t.ok(n >= 50 and worst < 1 and ping < 1, "a flood starves nobody: %d "
         "words, %.0f ms, ping %.0f ms at worst" % (n / 5, worst * 1000,
                                                    ping * 1000))
    t.ok(r.wait_for(run_id(1), 1 << 30) and
         r.read(run_id(2)) == [(0, b"tick\n" * (n // 5))],
         "and all of it is counted")
    for fd in (fe, o, e):
        os.close(fd)
    r.end()


def test_descriptors():
    """Many runs that printed once: a segment that rests is closed."""
    r = Recorder().start(fresh=1, nofile=600)
    held = []
    for i in range(200):
        o, e = r.open(run_id(i))
        write_all(o, b"out %d" % i)
        write_all(e, b"err %d" % i)
        held += [o, e]
    good = all(r.wait_for(run_id(i), 5) for i in range(200))
    t.ok(good, "200 runs are recorded with 600 descriptors")
    for i in range(200):
        write_all(held[2 * i], b"!")
    good = all(r.wait_for(run_id(i), 6 + (i > 9) + (i > 99))
               for i in range(200))
    t.ok(good and all(r.read(run_id(i)) == [(0, b"out %d!" % i)] and
                      r.read(run_id(i), ERR) == [(0, b"err %d" % i)]
                      for i in range(200)),
         "and lose nothing by it")
    for fd in held:
        os.close(fd)
    r.end()


def expect_end(r, which, what):
    """The channel that broke the rule ends; so does the process for the
    monitor's."""
    end = r.eng if which == "engine" else r.mon
    try:
        while True:
            end.recv(timeout=5)
    except ipc.Closed:
        good = True
    except ipc.Timeout:
        good = False
    t.ok(good, what)
    if which == "engine":
        t.ok(r.proc.poll() is None, "and only the engine's channel")
    else:
        t.ok(r.proc.wait(5) == 3, "and the recorder, with status 3")
    r.end()


BAD = ["", "0123", "../../../../etc1", "0123456789abcde/", "0123456789ABCDEF",
       "0123456789abcdeg"]


def test_bad():
    for bad in BAD:
        r = Recorder().start(fresh=1)
        p = [os.pipe(), os.pipe()]
        r.eng.send("RUN_OPEN", 0, [p[0][0], p[1][0]], run=bad)
        expect_end(r, "engine", "RUN_OPEN of %r is a violation" % bad)
        for fd in p[0] + p[1]:
            os.close(fd)
    for bad in BAD[2:4]:
        for name, kw in (("RUN_READ", {"stream": 0, "offset": 0}),
                         ("RUN_FINISH", {}), ("RUN_STAT", {}),
                         ("RUN_DROP", {})):
            r = Recorder().start(fresh=1)
            r.mon.send(name, 1, run=bad, **kw)
            expect_end(r, "monitor", "%s of %r is a violation" % (name, bad))
    r = Recorder().start(fresh=1)
    r.mon.send("RUN_READ", 1, run=run_id(1), stream=2, offset=0)
    expect_end(r, "monitor", "so is a third stream")
    r = Recorder().start(fresh=1)
    a, b = ipc.pair()
    r.mon.send("INTRODUCE", 0, [b.fileno()], peer=PROXY)
    expect_end(r, "monitor", "and another peer than the engine")
    a.close()
    b.close()
    for what in ("a file", "a directory", "a write end"):
        r = Recorder().start(fresh=1)
        p = os.pipe()
        fd = {"a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
              "a directory": lambda: os.open("/", os.O_RDONLY),
              "a write end": lambda: os.dup(p[1])}[what]()
        r.eng.send("RUN_OPEN", 0, [fd, p[0]], run=run_id(1))
        expect_end(r, "engine", "a stream that is %s is a violation" % what)
        for x in (fd, *p):
            os.close(x)


def test_hostile_store():
    """What somebody put into the store leads nowhere."""
    r, a = Recorder().start(fresh=1), run_id(1)
    o, e = r.open(a)
    os.write(o, b"x")
    r.wait_for(a, 1)
    secret = tempfile.NamedTemporaryFile()
    secret.write(b"secret")
    secret.flush()
    os.chmod(secret.name, 0o666)
    name = os.path.join(r.store, a, "o.0000")
    os.unlink(name)
    os.symlink(secret.name, name)
    m, data = r.piece(a)
    t.ok(m.name == "RUN_NODATA", "a link in place of a segment is not read",
         (m, data))
    r.kill()
    r.start()
    os.write(o, b"more")
    r.wait_for(a, 4)
    with open(secret.name, "rb") as f:
        t.ok(f.read() == b"secret", "nor written through")
    os.close(o)
    os.close(e)
    r.end()


BOX, BOX2 = "0123456789ab", "ba9876543210"


def test_undo():
    r = Recorder().start(fresh=1)
    t.ok(r.get(BOX, "/a")[1].name == "KEEP_NONE" and os.listdir(r.store) == [],
         "what was never kept is not there")
    got = [r.put(BOX, "/workspace/a", b"version %d" % i, mode=0o640 + i % 2)
           for i in range(13)]
    t.ok(got == [(0, "")] * 13, "versions are kept", got)
    data, m = r.get(BOX, "/workspace/a")
    t.ok(data == b"version 12" and m["mode"] == 0o640 and not m["absent"] and
         m["writable"] == os.O_RDONLY, "the last one, read-only", m)
    now = time.time_ns()
    sizes = [int(x.split()[0]) for x in m["versions"]]
    ages = [now - int(x.split()[1]) for x in m["versions"]]
    t.ok(sizes == [10, 10, 10] + [9] * 7 and ages == sorted(ages) and
         0 <= ages[-1] < 60 * 10 ** 9, "ten are kept, newest first", m)
    t.ok(r.get(BOX, "/workspace/a", 10)[0] == b"version 3" and
         r.get(BOX, "/workspace/a", 11)[0] is None and
         r.get(BOX, "/workspace/a", 0)[0] is None, "and no more")
    r.put(BOX, "/workspace/new", b"", absent=1)
    r.put(BOX2, "/workspace/a", b"another box's")
    data, m = r.get(BOX, "/workspace/new")
    t.ok(data == b"" and m["absent"] and m["versions"][0].startswith("- "),
         "that there was no file", m)
    t.ok(r.get(BOX2, "/workspace/a")[0] == b"another box's" and
         r.get(BOX, "/workspace/A")[0] is None, "by sandbox and path")
    names = os.listdir(r.store + "/undo")
    t.ok(len(names) == 12 and not [n for n in names if "work" in n],
         "names are the recorder's own", names)
    big = b"x" * (5 << 20)
    t.ok(r.put(BOX, "/big", big) == (0, "") and
         r.get(BOX, "/big")[0] == big, "five MiB")
    got = r.put(BOX, "/big", big + b"y")
    t.ok(got[0] == errno.EFBIG and "5 MiB" in got[1], "and not a byte more",
         got)
    fd = memfd(b"x", seal=False)
    t.ok(r.put(BOX, "/big", b"", fd=fd)[0] == errno.EINVAL,
         "nothing that could change meanwhile")
    os.close(fd)
    with open("/etc/passwd", "rb") as f:
        t.ok(r.put(BOX, "/big", b"", fd=f.fileno())[0] == errno.EINVAL,
             "no file of anybody's")
    t.ok(r.put(BOX, "/x", b"bytes", absent=1)[0] == errno.EINVAL,
         "no bytes where there was no file")
    with open(r.store + "/undo/part", "wb") as f:
        f.write(b"half")
    with open(r.store + "/undo/" + names[0] + "x", "wb") as f:
        f.write(b"not ours")
    r.kill()
    r.start()
    data, m = r.get(BOX, "/workspace/a", 2)
    t.ok(data == b"version 11" and len(m["versions"]) == 10 and
         m["mode"] == 0o641 and r.get(BOX, "/workspace/new")[1]["absent"] and
         len(os.listdir(r.store + "/undo")) == 13,
         "a restarted recorder has them, and only them", m)
    r.put(BOX, "/workspace/a", b"after")
    t.ok(r.get(BOX, "/workspace/a")[0] == b"after" and
         r.get(BOX, "/workspace/a", 10)[0] == b"version 4", "and goes on")
    r.mon.send("KEEP_DROP", 0, container=BOX)
    t.ok(r.get(BOX, "/workspace/a")[1]["versions"] == [] and
         r.get(BOX2, "/workspace/a")[0] == b"another box's" and
         len(os.listdir(r.store + "/undo")) == 1,
         "KEEP_DROP removes those of one sandbox")
    r.kill()
    r.start(fresh=1)
    t.ok(r.get(BOX2, "/workspace/a")[0] is None and
         os.listdir(r.store) == [], "a fresh start removes all")
    t.ok(r.end() == 0, "status 0")


def test_undo_all():
    """All together have a limit, too."""
    r, big = Recorder().start(fresh=1), os.urandom(5 << 20)
    fd = memfd(big)
    for i in range(104):
        r.put(BOX, "/f%d" % i, b"", fd=fd)
    kept = [i for i in range(104) if r.get(BOX, "/f%d" % i)[0] is not None]
    disk = sum(os.stat(r.store + "/undo/" + n).st_size
               for n in os.listdir(r.store + "/undo"))
    t.ok(kept == list(range(2, 104)) and disk <= 512 << 20,
         "512 MiB in all, the oldest go first", (kept[:3], disk))
    os.close(fd)
    r.end()


def test_undo_many():
    """So many that sorting them asks the system for memory."""
    r = Recorder().start(fresh=1)
    for i in range(200):
        r.put(BOX, "/f%d" % i, b"%d" % i)
    r.kill()
    r.start()
    got = [r.get(BOX, "/f%d" % i)[0] for i in range(200)]
    t.ok(got == [b"%d" % i for i in range(200)],
         "two hundred, by a restarted recorder", got[:3])
    r.end()


def test_undo_hostile():
    for box in ("../../../etc", "0123456789aB", ""):
        for name in ("KEEP_PUT", "KEEP_GET", "KEEP_DROP"):
            r = Recorder().start(fresh=1)
            fds = [memfd(b"x")] if name == "KEEP_PUT" else []
            r.mon.send(name, 1, fds, container=box,
                       **({} if name == "KEEP_DROP" else {"path": "/a"}))
            expect_end(r, "monitor", "%s of %r is a violation" % (name, box))
    r = Recorder().start(fresh=1)
    r.put(BOX, "/a", b"x")
    name = r.store + "/undo/" + os.listdir(r.store + "/undo")[0]
    os.unlink(name)
    os.symlink("/etc/passwd", name)
    t.ok(r.get(BOX, "/a")[0] is None, "a link in its place is not followed")
    os.symlink("/etc/passwd", r.store + "/undo/part")
    got = r.put(BOX, "/a", b"y")
    t.ok(got[0] == errno.ELOOP and "could not be written" in got[1],
         "nor written through", got)
    r.end()


def test_disk_full():
    """On a tiny tmpfs, in a mount namespace."""
    store = tempfile.mkdtemp(prefix="sbx-recorder-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=777",
                       "none", store], check=False).returncode != 0:
        t.skip("no tmpfs", "disk full")
        return
    r = Recorder(store, cap=8 << 20, total=64 << 20).start(fresh=1)
    for i in range(2):      # ended runs make room first
        o, e = r.open(run_id(i))
        os.close(e)
        feed(o, pattern(100 << 10)).join(10)
        r.wait_for(run_id(i), 100 << 10)
        r.closed(run_id(i))
    data = pattern(2 << 20)
    o, e = r.open(run_id(9))
    th = feed(o, data)
    th.join(20)
    t.ok(not th.is_alive(), "a full disk does not hold the writer")
    known, n, _ = r.finish(run_id(9))
    m = r.ask("RUN_STAT", run_id(9))
    end = time.monotonic() + 5
    while n + m["dropped"] < len(data) and time.monotonic() < end:
        m = r.ask("RUN_STAT", run_id(9))
    got = r.read(run_id(9))
    t.ok(known == 1 and got == [(0, data[:n])] and n >= 300 << 10 and
         n + m["dropped"] == len(data),
         "what is stored is its begin, the rest is counted", (n, m))
    t.ok(r.ask("RUN_STAT", run_id(0))["known"] == 0,
         "an ended run made room for it")
    got = r.put(BOX, "/a", b"x" * (200 << 10))
    t.ok(got[0] == errno.ENOSPC and "disk of the run store is full" in got[1]
         and os.listdir(r.store + "/undo") == [],
         "what a file was is not kept then, and nothing stays of it", got)
    o2, e2 = r.open(run_id(10))
    feed(o2, data).join(20)
    r.mon.send("PING", 3)
    m = r.mon.recv(want="PONG")
    lines = [x for x in r.mon.log if "not stored" in x]
    t.ok(m["healthy"] == 0 and len(lines) == 1,
         "it is said once, and PONG says so", (m, r.mon.log))
    for fd in (e, e2):
        os.close(fd)
    r.end()
    subprocess.run(["umount", store], check=False)
    os.rmdir(store)


def enter(why):
    """Again, inside of a mount namespace: for the disk alone."""
    how, what = (["-m"], "inside") if ROOT else (["-Urm"], "inside-user")
    done = subprocess.run(["unshare", *how, sys.executable, __file__,
                           what], check=False, stdout=subprocess.PIPE,
                          text=True)
    lines = [x for x in done.stdout.splitlines() if "ok " in x[:8]]
    if not lines:
        t.skip("no user and mount namespaces", why)
    for x in lines:
        t.ok(x.startswith("ok "), x.split(" - ", 1)[-1], done.stdout)


def main():
    if len(sys.argv) > 1:
        test_disk_full()
        t.done()
        return 0
    for test in (test_exact, test_cap, test_total, test_killed_past_cap,
                 test_killed, test_flood, test_descriptors, test_bad,
                 test_hostile_store, test_undo, test_undo_all,
                 test_undo_many, test_undo_hostile):
        try:
            test()
        except Exception as e:  # one failure must not hide the others
            t.ok(False, "%s: %s: %s" % (test.__name__, type(e).__name__, e))
    enter("a full disk")
    t.done()
    return t.bad > 0


if __name__ == "__main__":
    sys.exit(main())
