"""An engine as a test drives it: its monitor, recorder and proxy are here.

    e = Engine(scratch, user).introduce("recorder")
    e.create(ID)                      SANDBOX_READY or SANDBOX_ENDED
    r = e.run(ID, ["echo", "x"])      r.out r.err r.code r.error r.reason
    run, started = e.start(ID, argv); e.wait(run); e.kill(run)
"""
import os
import pwd
import re
import select
import subprocess
import tempfile
import time

import ipc

BUILD = os.environ.get("SBX_BUILD", os.getcwd())
MUST = os.environ.get("SBX_MUST_WORK") == "1"
PROCS = {"recorder": 3, "proxy": 6}  # enum sbx_proc
LIST, FILE = 1, 2  # enum sbx_copy_mode


class Tap:
    def __init__(self):
        self.n = self.failed = 0
        self.prefix = ""

    def ok(self, good, name, note=None):
        self.n += 1
        print("%sok %d - %s%s" % ("" if good else "not ", self.n, self.prefix,
                                  name), flush=True)
        if not good:
            self.failed += 1
            if note is not None:
                print("# " + repr(note)[:1500].replace("\n", "\n# "),
                      flush=True)
        return good

    def same(self, got, want, name):
        return self.ok(got == want, name, "got %r, want %r" % (got, want))

    def absent(self, name, why):
        """what this user cannot have, wherever it is run"""
        self.n += 1
        print(f"ok {self.n} - {self.prefix}{name} # SKIP {why}", flush=True)

    def skip(self, name, why):
        if MUST:
            return self.ok(False, name, "must work here: " + why)
        self.n += 1
        print("ok %d - %s%s # SKIP %s" % (self.n, self.prefix, name, why),
              flush=True)
        return True

    def done(self):
        print("1..%d" % self.n)
        return 1 if self.failed else 0


class Result:
    """What came of one run."""

    def __init__(self):
        self.error = self.status = self.why = None
        self.reason, self.out, self.err = "", b"", b""
        self.gone = False

    @property
    def code(self):
        return None if self.status is None else \
            os.waitstatus_to_exitcode(self.status)

    def __repr__(self):
        return "error=%r %r status=%r why=%r gone=%r out=%r err=%r" % (
            self.error, self.reason, self.status, self.why, self.gone,
            self.out[-500:], self.err[-500:])


class Engine:
    ids = 0x1000

    def __init__(self, scratch, user=None, init=None, nproc=200, mods=None,
                 images=None, uids=None, storage=0):
        """uids: (first, how many) for a namespace with a range of ids, as
        the monitor makes it; only as root.  storage: enum sbx_storage."""
        mine, theirs = ipc.pair()
        self.scratch, popen = scratch, {}
        if user is not None:
            pw = pwd.getpwnam(user)
            popen = {"user": pw.pw_uid, "group": pw.pw_gid,
                     "extra_groups": []}
        env = {"PATH": os.environ["PATH"]}
        env.update((k, v) for k, v in os.environ.items()
                   if k.endswith("SAN_OPTIONS"))
        self.proc = ipc.spawn(os.path.join(BUILD, "sbxd-engine"), theirs,
                              stdin=subprocess.DEVNULL, env=env, **popen)
        self.mon = ipc.Chan(mine)
        fds = [os.open(scratch, os.O_RDONLY | os.O_DIRECTORY),
               os.open(init or os.path.join(BUILD, "sbx-init"), os.O_PATH),
               os.open(images or scratch, os.O_RDONLY | os.O_DIRECTORY),
               os.open("/proc/self/ns/user", os.O_RDONLY) if uids is None
               else range_userns(user or "sbxd", *uids)]
        first, n = uids or (0, 0)
        self.mon.send("ENGINE_START", 0, fds, nofile_hard=512, nproc=nproc,
                      first_uid=first, uids=n, storage=storage)
        for fd in fds:
            os.close(fd)
        self.hello = self.mon.recv(10, "HELLO")
        self.rec = self.proxy = None
        self.fds = {}  # run -> [out, err]

    def introduce(self, proc):
        """A new channel of the engine's."""
        mine, theirs = ipc.pair()
        self.mon.send("INTRODUCE", 0, [theirs.fileno()], peer=PROCS[proc])
        theirs.close()
        kind = ipc.Recorder if proc == "recorder" else ipc.Chan
        setattr(self, {"recorder": "rec"}.get(proc, proc), kind(mine))
        return self

    def next_id(self):
        Engine.ids += 1
        return Engine.ids

    def answer(self, mid, names, timeout=15):
        names = (names,) if isinstance(names, str) else names
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for i, m in enumerate(self.mon.kept):
                if m.name in names and m.id == mid:
                    return self.mon.kept.pop(i)
            self.pump()
        raise ipc.Timeout("%s #%d" % (names, mid))

    def create(self, container, image="host", **limits):
        mid = self.next_id()
        self.mon.send("SANDBOX_CREATE", mid, container=container, image=image,
                      **limits)
        return self.answer(mid, ("SANDBOX_READY", "SANDBOX_ENDED"))

    def stop(self, container):
        mid = self.next_id()
        self.mon.send("SANDBOX_STOP", mid, container=container)
        return self.answer(mid, "SANDBOX_ENDED")

    def start(self, container, argv, stdin=b"", env=(), cwd="/workspace",
              run=None, by_ns=0):
        """ENGINE_EXEC up to its answer: (run, answer)."""
        run = run or os.urandom(8).hex()
        mid = self.next_id()
        fd = ipc.memfd(stdin)
        os.lseek(fd, 0, os.SEEK_SET)
        self.mon.send("ENGINE_EXEC", mid, [fd], container=container, run=run,
                      argv=argv, env=list(env), cwd=cwd, by_ns=by_ns)
        os.close(fd)
        m = self.answer(mid, "ENGINE_EXEC_STARTED")
        self.opened()
        return run, m

    def opened(self):
        """Take what the recorder was sent."""
        while self.rec is not None:
            try:
                m = self.rec.recv(0, "RUN_OPEN")
            except (ipc.Timeout, ipc.Closed):
                return
            for fd in m.fds:
                os.set_blocking(fd, False)
            self.fds[m["run"]] = m.fds

    def pump(self):
        """Take one message of each channel into its .kept."""
        chans = [c for c in (self.mon, self.rec) if c is not None]
        for ch in select.select(chans, [], [], 0.005)[0]:
            m = ch._one(time.monotonic() + 1)
            if m.name == "LOG":
                ch.log.append(m["text"])
            else:
                ch.kept.append(m)

    def drain(self, run, r):
        for i, fd in enumerate(self.fds.get(run, ())):
            try:
                while True:
                    b = os.read(fd, 1 << 16)
                    if not b:
                        break
                    if i == 0:
                        r.out += b
                    else:
                        r.err += b
            except BlockingIOError:
                pass

    def wait(self, run, timeout=20, gone=False):
        """Until the command ended (gone: until all of the run did)."""
        r, end = Result(), time.monotonic() + timeout
        while time.monotonic() < end:
            self.drain(run, r)
            for i, m in enumerate(self.mon.kept):
                if m.name == "ENGINE_EXITED" and m["run"] == run:
                    r.status, r.why = m["status"], m["why"]
                    del self.mon.kept[i]
                    break
            for i, m in enumerate(self.rec.kept):
                if m.name == "RUN_CLOSED" and m["run"] == run:
                    r.gone = True
                    del self.rec.kept[i]
                    break
            if (r.status is not None or gone == "only") and \
                    (r.gone or not gone):
                break
            self.pump()
        self.drain(run, r)
        return r

    def forget(self, run):
        for fd in self.fds.pop(run, ()):
            os.close(fd)

    def run(self, container, argv, timeout=20, gone=False, **kw):
        if isinstance(argv, str):
            argv = ["/bin/sh", "-c", argv]
        run, m = self.start(container, argv, **kw)
        r = Result() if m["error"] != 0 else self.wait(run, timeout, gone)
        r.error, r.reason = m["error"], m["reason"]
        self.forget(run)
        return r

    def kill(self, run):
        """ENGINE_KILL: (answer, seconds)."""
        mid, t = self.next_id(), time.monotonic()
        self.mon.send("ENGINE_KILL", mid, run=run)
        m = self.answer(mid, "ENGINE_KILLED", 10)
        return m, time.monotonic() - t

    def unpack(self, container, dest, stream, mode=LIST):
        rd, wr = os.pipe()
        mid = self.next_id()
        self.mon.send("ENGINE_UNPACK", mid, [rd], container=container,
                      mode=mode, dest=dest)
        os.close(rd)
        try:
            os.write(wr, stream)
        except BrokenPipeError:
            pass
        os.close(wr)
        return self.answer(mid, "ENGINE_UNPACKED")

    def work(self, container, path, since):
        mid = self.next_id()
        self.mon.send("ENGINE_WORK", mid, container=container, path=path,
                      since_ns=since)
        return self.answer(mid, "ENGINE_WORK_FOUND")

    def close(self):
        """The monitor's channel ends; the exit code, None: it had to be
        killed."""
        self.mon.close()
        try:
            return self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            return None


def stat_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            s = f.read()
    except OSError:
        return None
    return s[s.rindex(")") + 2:].split()


def children(pid):
    """Every descendant that lives."""
    tree = {}
    for d in os.listdir("/proc"):
        st = stat_of(int(d)) if d.isdigit() else None
        if st and st[0] != "Z":
            tree.setdefault(int(st[1]), []).append(int(d))
    out, todo = [], [pid]
    while todo:
        for c in tree.get(todo.pop(), []):
            out.append(c)
            todo.append(c)
    return out


def alive(pid):
    st = stat_of(pid)
    return st is not None and st[0] not in "ZX"


def all_dead(pids, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(alive(p) for p in pids):
            return True
        time.sleep(0.01)
    return not any(alive(p) for p in pids)


def have(user):
    try:
        pwd.getpwnam(user)
        return True
    except KeyError:
        return False


def make_scratch(user):
    """A scratch directory for an engine started as `user` (None: as us):
    (what to remove, the directory)."""
    if user is None and os.geteuid() == 0:
        user = "sbxd"
    d = tempfile.mkdtemp(prefix="sbx-engine.")
    os.chmod(d, 0o711)
    s = os.path.join(d, "scratch")
    os.mkdir(s, 0o700)
    if user is not None:
        pw = pwd.getpwnam(user)
        os.chown(s, pw.pw_uid, pw.pw_gid)
    return d, s


def wait_trash(scratch, seconds):
    """What is still to be deleted then."""
    end, trash = time.monotonic() + seconds, os.path.join(scratch, "trash")
    while time.monotonic() < end and os.listdir(trash):
        time.sleep(0.05)
    return os.listdir(trash)


def range_userns(user, first, n):
    """A user namespace that maps the user's own id and a range."""
    pw = pwd.getpwnam(user)
    p = subprocess.Popen(["unshare", "-U", "--", "sleep", "30"],
                         user=pw.pw_uid, group=pw.pw_gid, extra_groups=[])
    try:
        mine, end = os.readlink("/proc/self/ns/user"), time.monotonic() + 5
        ns = "/proc/%d/ns/user" % p.pid
        while os.readlink(ns) == mine and time.monotonic() < end:
            time.sleep(0.01)
        for name, own in (("gid_map", pw.pw_gid), ("uid_map", pw.pw_uid)):
            with open("/proc/%d/%s" % (p.pid, name), "w") as f:
                f.write("%d %d 1\n%d %d %d\n" % (own, own, first, first, n))
        return os.open(ns, os.O_RDONLY)
    finally:
        p.kill()
        p.wait()


def users():
    """(user, prefix) for each way of starting an engine that there is."""
    if os.geteuid() != 0:
        return [(None, "")]
    out = [(None, "root: ")] if have("sbxd") else []
    plain = next((u for u in ("tester", "nobody") if have(u)), None)
    return out + ([(plain, plain + ": ")] if plain else [])


def remove(d):
    # not by shutil: guests make trees deeper than its recursion
    subprocess.run(["rm", "-rf", "--", d], stderr=subprocess.DEVNULL,
                   check=False)


def pss_kib(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return int(re.search(r"^Pss:\s+(\d+)", f.read(), re.M)[1])
