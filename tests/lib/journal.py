"""A real sbx-journald on a directory, with the test in the monitor's place."""
import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ipc  # noqa: E402

DURABLE, RESERVED = 1, 2
MEMBERS = ["seq", "prev", "wall", "mono_ns", "component", "op", "phase",
           "principal", "container_id", "run_id", "code", "fields"]
BUILD = os.environ.get("SBX_BUILD", ".")
PROGRAM = os.path.join(BUILD, "sbx-journald")


def owner():
    """(uid, gid, Popen arguments): whose the journal is.  Root starts the
    daemon as root where its user exists, else as somebody without rights."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid(), {}
    for name in ("sbx-journal", "tester", "nobody"):
        try:
            u = pwd.getpwnam(name)
        except KeyError:
            continue
        how = {} if name == "sbx-journal" else {
            "user": u.pw_uid, "group": u.pw_gid, "extra_groups": []}
        return u.pw_uid, u.pw_gid, how
    raise RuntimeError("no user to run as")


class Daemon:
    def __init__(self, path, rotate=64 << 20, reserve=256 << 10, stdout=0,
                 args=(), **popen):
        uid, gid, how = owner()
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
            os.chown(path, uid, gid)
        self.path, self.next_id, self.state = path, 0, []
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(PROGRAM, theirs, args, **how, **popen)
        self.ch = ipc.Chan(mine)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.ch.send("JOURNALD_START", 0, [fd], rotate_bytes=rotate,
                     reserve_bytes=reserve, to_stdout=stdout)
        os.close(fd)
        self.ch.recv(10, want="HELLO")

    def append(self, flags=DURABLE, op="exec", phase="start",
               principal="uid:1000", container="0123456789ab",
               run="0123456789abcdef", code=0, fields=()):
        self.next_id += 1
        self.ch.send("JOURNAL_APPEND", self.next_id, flags=flags, op=op,
                     phase=phase, principal=principal, container=container,
                     run=run, code=code, fields=list(fields))
        return self.next_id

    def done(self, want_id=None, timeout=10):
        """The next JOURNAL_DONE; JOURNAL_STATE goes to self.state."""
        while True:
            m = self.ch.recv(timeout, want=("JOURNAL_DONE", "JOURNAL_STATE"))
            if m.name == "JOURNAL_STATE":
                self.state.append(m)
                continue
            assert want_id is None or m.id == want_id, m
            return m

    def wait_state(self, able, timeout=10):
        while not self.state or self.state[-1]["able"] != able:
            self.state.append(self.ch.recv(timeout, want="JOURNAL_STATE"))

    def put(self, **kw):
        """One durable record; its answer."""
        return self.done(self.append(**kw))

    def stop(self):
        """Orderly; the exit status."""
        try:
            self.ch.send("SHUTDOWN")
        except ipc.Closed:
            pass
        status = self.proc.wait(10)
        self.ch.close()
        return status

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait(10)


class Dir:
    """A scratch directory, removed at the end."""

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="sbx-journal.")
        os.chmod(self.root, 0o755)
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.root, ignore_errors=True)

    def new(self, name):
        return os.path.join(self.root, name)


def files(path):
    return sorted(os.path.join(path, f) for f in os.listdir(path)
                  if f.startswith("journal."))


def raw(path):
    return b"".join(open(f, "rb").read() for f in files(path))


def lines(path):
    return raw(path).split(b"\n")[:-1]


def no_twins(pairs):
    assert len({k for k, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def records(path):
    """All records, with the chain checked independently of the reader."""
    out, prev, seq = [], "0" * 64, 0
    for line in lines(path):
        try:
            r = json.loads(line.decode("utf-8"), object_pairs_hook=no_twins)
        except ValueError:
            r = None
        if r is not None:
            assert list(r) == MEMBERS, list(r)
            assert r["prev"] == prev, (r["seq"], r["prev"], prev)
            assert r["seq"] == seq + 1, (r["seq"], seq)
            seq = r["seq"]
            out.append(r)
        prev = hashlib.sha256(line).hexdigest()
    return out


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def ok(self, good, what):
        self.n += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.n, what),
              flush=True)
        return good

    def skip(self, why):
        if os.environ.get("SBX_MUST_WORK") == "1":
            self.ok(False, "must work here: " + why)
            return
        self.n += 1
        print("ok %d # SKIP %s" % (self.n, why), flush=True)

    def end(self):
        print("1..%d" % self.n, flush=True)
        sys.exit(self.failed > 0)


def read(path, *args):
    """(exit status, stdout, stderr) of `sbx journal ARGS` on the directory."""
    r = subprocess.run([os.path.join(BUILD, "journal-read"), path, *args],
                       capture_output=True, timeout=60)
    return r.returncode, r.stdout, r.stderr


def anchor(path):
    """SEQ:HASH of the last line."""
    last = lines(path)[-1]
    return "%d:%s" % (json.loads(last)["seq"],
                      hashlib.sha256(last).hexdigest())


def write(path, data, number=1):
    """A journal directory with these bytes as its file `number`."""
    uid, gid, _ = owner()
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
        os.chown(path, uid, gid)
    name = os.path.join(path, "journal.%06d.jsonl" % number)
    with open(name, "wb") as f:
        f.write(data)
    os.chown(name, uid, gid)
    os.chmod(name, 0o600)
