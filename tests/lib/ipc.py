"""The channels of the suite for tests: messages as common/proto/msgs.def
declares them, over an AF_UNIX SOCK_SEQPACKET socketpair.

    mine, theirs = ipc.pair()
    p = ipc.spawn(program, theirs)              # the channel is its fd 3
    ch = ipc.Chan(mine)
    ch.send("FRONT_START", profile="", observability=0)
    m = ch.recv(timeout=5, want="HELLO")        # m.name m.id m.fds m["pid"]

Integers and text are fields by name; F_STRS is a list of bytes or str; a
field left out is 0, "" or [].  Received strings are str (surrogateescape),
received F_STRS lists of str.  Descriptors in m.fds are the caller's to close
(m.close()).  Nothing is checked beyond decoding: a test may send what the
suite must refuse (send_raw, and fds of any number).
"""
import array
import ctypes
import fcntl
import os
import re
import select
import socket
import struct
import subprocess
import time

HDR = struct.Struct(">IHHI")  # length of the body, type, version, id
VERSION = 1
_INTS = {"F_U8": "B", "F_U32": "I", "F_U64": "Q", "F_I32": "i"}


class Closed(Exception):
    """The other end is gone."""


class Timeout(Exception):
    """Nothing (wanted) came in time."""


class Spec:
    def __init__(self, name, num, senders, receivers, fds, max_bytes, fields):
        self.name, self.num, self.fds, self.max = name, num, fds, max_bytes
        self.senders, self.receivers = senders, receivers
        self.fields = fields  # [(kind, name)]


def _source():
    root = os.environ.get("SBX_SRC") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return os.path.join(root, "common", "proto", "msgs.def")


def _split(text):
    """Split at commas outside of parentheses."""
    out, depth, cur = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            out.append(cur.strip())
            cur = ""
        else:
            cur += c
    return out + [cur.strip()]


def load(path=None):
    """Parse msgs.def: {name: Spec}, {number: Spec}."""
    with open(path or _source(), encoding="ascii") as f:
        text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    by_name, by_num = {}, {}
    pos = 0
    while True:
        pos = text.find("MSG(", pos)
        if pos < 0:
            return by_name, by_num
        depth, end = 0, pos + 3
        while True:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
            if depth == 0:
                break
        a = _split(text[pos + 4:end - 1])
        fields = re.findall(r"(F_[A-Z0-9]+)\(\s*(\w+)", a[7])
        spec = Spec(a[0], int(a[2]), a[3], a[4], int(a[5]), int(a[6]), fields)
        by_name[spec.name] = by_num[spec.num] = spec
        pos = end


BY_NAME, BY_NUM = load()


def _bytes(v):
    return v if isinstance(v, (bytes, bytearray)) else \
        str(v).encode("utf-8", "surrogateescape")


def pack(name, /, **values):
    """The body of a message."""
    spec, out = BY_NAME[name], b""
    for kind, field in spec.fields:
        if kind in _INTS:
            out += struct.pack(">" + _INTS[kind], values.pop(field, 0))
        elif kind == "F_STR":
            b = _bytes(values.pop(field, ""))
            out += struct.pack(">I", len(b)) + b + b"\0"
        elif kind == "F_STRS":
            items = [_bytes(s) + b"\0" for s in values.pop(field, [])]
            b = b"".join(items)
            out += struct.pack(">II", len(items), len(b)) + b
        else:
            raise ValueError("unknown kind " + kind)
    if values:
        raise ValueError("%s has no field %s" % (name, ", ".join(values)))
    return out


def unpack(name, body):
    """Fields of a body; trailing bytes are an error."""
    out, pos = {}, 0
    for kind, field in BY_NAME[name].fields:
        if kind in _INTS:
            s = struct.Struct(">" + _INTS[kind])
            out[field] = s.unpack_from(body, pos)[0]
            pos += s.size
        elif kind == "F_STR":
            n = struct.unpack_from(">I", body, pos)[0]
            raw = body[pos + 4:pos + 5 + n]
            if len(raw) != n + 1 or raw[n:] != b"\0":
                raise ValueError("bad string " + field)
            out[field] = raw[:n].decode("utf-8", "surrogateescape")
            pos += 5 + n
        else:
            count, n = struct.unpack_from(">II", body, pos)
            raw = body[pos + 8:pos + 8 + n]
            items = raw.split(b"\0")[:-1]
            if len(raw) != n or len(items) != count:
                raise ValueError("bad strings " + field)
            out[field] = [i.decode("utf-8", "surrogateescape") for i in items]
            pos += 8 + n
    if pos != len(body):
        raise ValueError("%d bytes too many in %s" % (len(body) - pos, name))
    return out


class Msg(dict):
    """A received message: its fields, and .name .id .fds"""

    def __init__(self, name, mid, fields, fds):
        super().__init__(fields)
        self.name, self.id, self.fds = name, mid, fds

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def __repr__(self):
        return "%s#%d%s" % (self.name, self.id, dict(self))


class Chan:
    def __init__(self, sock):
        self.sock = sock
        self.log = []   # LOG lines seen by recv()
        self.kept = []  # messages passed over by recv(want=)

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()

    def send_raw(self, data, fds=()):
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                array.array("i", fds))] if fds else []
        try:
            self.sock.sendmsg([data], anc)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed() from e

    def send(self, _name, _id=0, _fds=(), **values):
        body = pack(_name, **values)
        self.send_raw(HDR.pack(len(body), BY_NAME[_name].num, VERSION, _id)
                      + body, _fds)

    def recv(self, timeout=5.0, want=None, keep_log=False):
        """The next message; LOG goes to self.log unless keep_log.  want: a
        name or names; others are put in self.kept and come first later."""
        names = (want,) if isinstance(want, str) else want
        for i, m in enumerate(self.kept):
            if names is None or m.name in names:
                return self.kept.pop(i)
        end = time.monotonic() + timeout
        while True:
            m = self._one(end)
            if m.name == "LOG" and not keep_log and "LOG" not in (names or ()):
                self.log.append(m["text"])
                continue
            if names is None or m.name in names:
                return m
            self.kept.append(m)

    def quiet(self, seconds=0.2):
        """True when nothing but LOG comes for that long."""
        try:
            self.kept.append(self.recv(seconds))
        except Timeout:
            return True
        return False

    def _one(self, end):
        left = max(0, end - time.monotonic())
        if not select.select([self.sock], [], [], left)[0]:
            raise Timeout()
        try:
            data, anc, _, _ = self.sock.recvmsg(
                1 << 18, socket.CMSG_SPACE(16 * 4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError as e:
            raise Closed() from e
        if not data:
            raise Closed()
        fds = array.array("i")
        for level, kind, raw in anc:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(raw[:len(raw) - len(raw) % fds.itemsize])
        length, num, version, mid = HDR.unpack_from(data)
        body = data[HDR.size:]
        if version != VERSION or length != len(body):
            raise ValueError("bad header %r" % data[:12])
        spec = BY_NUM[num]
        return Msg(spec.name, mid, unpack(spec.name, body), list(fds))


class Recorder(Chan):
    """The recorder's end of the engine's channel: takes what is closed."""

    def _one(self, end):
        m = super()._one(end)
        if m.name == "RUN_CLOSED":
            try:
                self.send("RUN_TAKEN", run=m["run"])
            except Closed:
                pass    # the engine has ended meanwhile
        return m


def pair():
    """Two connected ends: (socket of the test, socket for a child)."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for s in (a, b):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return a, b


def spawn(program, theirs, args=(), **popen):
    """Start `program` with the socket `theirs` as its descriptor 3; closes it
    here."""
    fd = theirs.fileno()

    def to_three():
        if fd == 3:
            os.set_inheritable(3, True)
        else:
            os.dup2(fd, 3)

    # Popen's own pipe must not be the 3 that to_three() overwrites
    held = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)]
    while held[-1] < 3:
        held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    try:
        return subprocess.Popen([program, *args], preexec_fn=to_three,
                                close_fds=False, **popen)
    finally:
        theirs.close()
        for h in held:
            os.close(h)


def memfd(data, name="test", seal=True):
    """A memfd that holds data, sealed as sbx_memfd_sealed() does."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    if seal:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL |
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW |
                    fcntl.F_SEAL_WRITE)
    return fd


def read_fd(fd):
    """All of a file or memfd from its start, whatever its offset."""
    out, pos = b"", 0
    while True:
        b = os.pread(fd, 1 << 20, pos)
        if not b:
            return out
        out += b
        pos += len(b)


def die_with_parent():
    """For preexec functions of a test's own helpers: prctl(2) PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, 9)
