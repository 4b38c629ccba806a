#!/usr/bin/env python3
"""The front's connections: framing, limits, back-pressure, all kinds of
stdio, and what a client on the Unix socket may send."""
import array
import json
import os
import pty
import signal
import socket
import sys
import tempfile
import threading
import time
import tty

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from front_monitor import (Client, Front, Tap, is_error)  # noqa: E402
import ipc  # noqa: E402

t = Tap()
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


with open(os.path.join(os.environ["SBX_BUILD"], "config.h"),
          encoding="ascii") as config:
    # a sanitizer keeps what was freed
    SPARE = (1 << 20) * ("#define SBX_SANITIZERS 1" in config.read())


def open_fds(front):
    try:
        return len(os.listdir("/proc/%d/fd" % front.proc.pid))
    except PermissionError:
        return None


def rss_kib(front):
    with open("/proc/%d/status" % front.proc.pid, encoding="ascii") as s:
        return [int(x.split()[1]) for x in s if x.startswith("VmRSS")][0]


def writer(c, data):
    def run():
        try:
            c.raw(data)
        except OSError:
            pass
    w = threading.Thread(target=run, daemon=True)
    w.start()
    return w


def smuggle(s, data, fds):
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", fds))])


# --- framing and limits on stdio
f = Front()
c = f.c
c.request("ping")
fds = open_fds(f)
w = writer(c, b"".join(PING % i for i in range(10000)))
t.ok(all(c.recv()["id"] == i for i in range(10000)), "10,000 pipelined pings")
w.join()
for i, b in enumerate(PING % 1 + b"\r\n" + PING % 2):
    c.raw(b"%c" % b)
t.ok(c.recv()["id"] == 1 and c.recv()["id"] == 2, "one byte at a time")
c.raw(PING % 3 + (PING % 4)[:10])
t.ok(c.recv()["id"] == 3 and c.line(0.1) is None, "half a message waits")
c.raw((PING % 4)[10:])
t.ok(c.recv()["id"] == 4, "and is answered when it is whole")

head = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":' \
       b'"sandbox_exec","arguments":{"x":"'
c.initialize()
size = (16 << 20) - len(head) - 4
w = writer(c, head + b"y" * size + b'"}}}\n')
m = f.call(20)
t.ok(len(m.args) == size + 8, "a message of 16 MiB is taken", len(m.args))
f.result(m["call"], {})
t.ok(c.recv()["id"] == 5, "and answered")
for n in (1, 70000, 20 << 20):
    w = writer(c, head + b"y" * (size + n) + b'"}}}\n' + PING % 6)
    r = c.recv(20)
    t.ok(is_error(r, -32700), "%d bytes more: -32700" % n, r)
    t.ok(c.recv(20)["id"] == 6, "and the connection lives")
w = writer(c, b"[" * (16 << 20) + b"\n" + PING % 7)
t.ok(is_error(c.recv(20), -32700) and c.recv(20)["id"] == 7,
     "16 MiB of brackets: -32700")
w = writer(c, b"\n" * 1000000 + PING % 8)
t.ok(c.recv(20)["id"] == 8, "a million empty lines")
t.ok(open_fds(f) in (fds, None), "no descriptor was left open")

# --- a client that does not read
w = writer(c, b"".join(PING % i for i in range(200000)))
time.sleep(1)
t.ok(w.is_alive() and rss_kib(f) < (64 << 10) + SPARE,
     "a client that does not read is not read", rss_kib(f))
t.ok(f.alive(), "the front lives meanwhile")
t.ok(all(c.recv()["id"] == i for i in range(200000)),
     "and all is answered in order when it reads")
w.join()

# --- the end of stdio
c.raw(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":'
      b'"sandbox_exec"}}\n' + (PING % 9)[:-1])
os.close(c.fd_out)
m = f.mon.recv(want="FRONT_EOF")
t.ok(m.name == "FRONT_EOF" and c.line(2) == b"",
     "end of input: FRONT_EOF, nothing more is sent")
f.mon.send("SHUTDOWN")
t.ok(f.proc.wait(5) == 0, "SHUTDOWN: exit 0")
f = Front()
os.close(f.c.fd_in)
f.c.raw(PING % 1)
t.ok(f.mon.recv(want="FRONT_EOF").name == "FRONT_EOF",
     "closed output is the end too")
f.end()
f = Front()
f.c.raw(PING % 1)
f.proc.send_signal(signal.SIGPIPE)
t.ok(f.c.recv()["id"] == 1, "SIGPIPE is ignored")
f.mon.close()
t.ok(f.proc.wait(1) == 0, "the monitor ends: exit 0 at once")

# --- other kinds of stdio
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "in")
    with open(path, "wb") as o:
        o.write(b"".join(PING % i for i in range(5000)))
    f = Front(stdio=False)
    src = os.open(path, os.O_RDONLY)
    dst = os.open(os.path.join(d, "out"), os.O_RDWR | os.O_CREAT)
    f.mon.send("FRONT_STDIO", 0, [src, dst], principal=1, name="x")
    f.mon.recv(want="FRONT_EOF")
    lines = ipc.read_fd(dst).splitlines()
    t.ok([json.loads(x)["id"] for x in lines] == list(range(5000)),
         "files as stdio", len(lines))
    t.ok(f.alive(), "alive")
    f.end()
    f = Front(stdio=False)
    null = os.open("/dev/null", os.O_RDWR)
    f.mon.send("FRONT_STDIO", 0, [null, null], principal=1, name="x")
    t.ok(f.mon.recv(want="FRONT_EOF").name == "FRONT_EOF",
         "/dev/null as stdio: the end")
    f.end()
    for fd in src, dst, null:
        os.close(fd)
f = Front(stdio=False)
a, b = socket.socketpair()
fd = a.detach()
f.mon.send("FRONT_STDIO", 0, [b.fileno(), b.fileno()], principal=1, name="x")
b.close()
c = Client(fd, fd)
w = writer(c, b"".join(PING % i for i in range(20000)))
t.ok(all(c.recv()["id"] == i for i in range(20000)), "a socket as stdio")
f.end()
f = Front(stdio=False)
master, slave = pty.openpty()
tty.setraw(slave)
f.mon.send("FRONT_STDIO", 0, [slave, slave], principal=1, name="x")
c = Client(master, master)
c.raw(PING % 1)
t.ok(c.recv()["id"] == 1, "a terminal as stdio")
w = writer(c, b"".join(PING % i for i in range(2000)))
time.sleep(0.3)
t.ok(f.alive(), "a stopped terminal does not stop the front")
t.ok(all(c.recv()["id"] == i for i in range(2000)), "and gets it all")
t.ok(os.get_blocking(slave), "a terminal's flags are left alone")
f.end()

# --- the Unix socket
f = Front(stdio=False)
f.listen()
c = f.connect(accept=False, first=lambda s: s.sendall(PING % 1))
t.ok(c.line(0.2) is None, "nothing is answered before the monitor says who")
f.mon.send("FRONT_PRINCIPAL", conn=c.conn, principal=5, name="uid:1")
t.ok(c.recv()["id"] == 1, "then it is")
f.mon.send("FRONT_PRINCIPAL", conn=c.conn, principal=6, name="uid:1")
f.mon.send("FRONT_PRINCIPAL", conn=999, principal=0, name="", reason="x")
t.ok(f.alive() and f.mon.quiet(0.1), "a second word on it is ignored")
c.close()
t.ok(f.mon.recv(want="FRONT_GONE")["principal"] == 5,
     "its end is told with its handle")
c = f.connect(accept=False)
f.mon.send("FRONT_PRINCIPAL", conn=c.conn, principal=0, name="",
           reason="not you")
r = c.recv()
t.ok("not you" in r["error"]["message"] and c.line(2) == b"",
     "refused: the reason, then closed", r)
c.close()
c = f.connect(accept=False)
t.ok(c.line(7) == b"", "without an answer it is closed after 5 s")
f.mon.send("FRONT_PRINCIPAL", conn=c.conn, principal=7, name="uid:1")
t.ok(f.mon.recv(want="FRONT_GONE")["principal"] == 7,
     "a handle that comes too late is given back")
c.close()

# --- two clients
a, b = f.connect(), f.connect()
for c in a, b:
    c.initialize()
    c.send(id=1, method="tools/call", params={"name": "sandbox_exec"})
ma, mb = f.call(), f.call()
t.ok({ma["principal"], mb["principal"]} == {a.handle, b.handle},
     "each calls under its own handle")
b.send(method="notifications/cancelled", params={"requestId": 1})
t.ok(f.mon.recv(want="CALL_CANCEL")["call"] == (
    mb if mb["principal"] == b.handle else ma)["call"],
     "a cancel reaches its own connection's call only")
a.close()
t.ok(f.mon.recv(want="FRONT_GONE")["principal"] == a.handle, "gone")
for m in ma, mb:
    f.result(m["call"], {})
t.ok(b.line(0.2) is None and f.alive(), "results for nobody are dropped")
b.close()
f.mon.recv(want="FRONT_GONE")

# --- descriptors from a client
with tempfile.TemporaryDirectory() as d:
    dirfd = os.open(d, os.O_RDONLY | os.O_DIRECTORY)
    filefd = os.open("/dev/null", os.O_RDONLY)
    before = open_fds(f)
    c = f.connect(first=lambda s: smuggle(s, PING % 1, [dirfd]))
    m = f.mon.recv(want="FRONT_ROOT")
    t.ok(m["principal"] == c.handle and
         os.fstat(m.fds[0]).st_ino == os.stat(d).st_ino and
         c.recv()["id"] == 1, "a directory with the first bytes: FRONT_ROOT")
    m.close()
    s = socket.socket(fileno=os.dup(c.fd_in))
    smuggle(s, PING % 2, [dirfd])
    smuggle(s, PING % 3, [filefd] * 200)
    t.ok(c.recv()["id"] == 2 and c.recv()["id"] == 3 and f.mon.quiet(0.1),
         "later ones are closed")
    s.close()
    c.close()
    f.mon.recv(want="FRONT_GONE")
    for some, text in (([filefd], "a file"), ([dirfd, dirfd], "two"),
                       ([dirfd] * 253, "253")):
        c = f.connect(first=lambda s: smuggle(s, PING % 1, some))
        t.ok(c.recv()["id"] == 1 and f.mon.quiet(0.1),
             text + ": closed, the message is taken")
        c.close()
        f.mon.recv(want="FRONT_GONE")
    t.ok(open_fds(f) == before, "none of them stays open", open_fds(f))
    os.close(dirfd)
    os.close(filefd)

# --- many, and one that never reads
some = [f.connect() for _ in range(64)]
late = socket.socket(socket.AF_UNIX)
late.connect(f.path)
t.ok(f.mon.quiet(0.3), "the 65th connection waits")
some.pop().close()
f.mon.recv(want="FRONT_GONE")
m = f.mon.recv(want="FRONT_AUTH")
m.close()
f.mon.send("FRONT_PRINCIPAL", conn=m["conn"], principal=1, name="uid:1")
late.sendall(PING % 65)
t.ok(json.loads(late.makefile().readline())["id"] == 65,
     "and is served when one ends")
late.close()
for c in some:
    c.close()
for _ in range(len(some) + 1):      # in no order
    f.mon.recv(want="FRONT_GONE")
c = f.connect()
c.initialize()
for i in range(10):
    c.send(id=i, method="tools/call", params={"name": "sandbox_exec"})
numbers = [f.call()["call"] for _ in range(10)]
big = b'{"a":"' + b'\\"' * ((2 << 20) - 10) + b'"}'
for n in numbers[:2]:
    f.result(n, big)
c.raw(PING % 99)
time.sleep(0.3)
t.ok(f.alive() and rss_kib(f) > 8 << 10, "unread results are kept")
for n in numbers[2:]:
    f.result(n, big)
t.ok(f.mon.recv(20, want="FRONT_GONE")["principal"] == c.handle,
     "past 64 MiB of them it is closed")
c.close()
c = f.connect()
t.ok(f.alive() and rss_kib(f) < (64 << 10) + SPARE, "and its memory given back",
     rss_kib(f))
t.ok(f.end() == 0, "exit 0")

# --- how it is started
for args, want in ((["-x"], 1), (["-d", "-d"], 1)):
    mine, theirs = ipc.pair()
    p = ipc.spawn(f.proc.args[0], theirs, args=args)
    t.ok(p.wait(5) == want, "%s: exit 1" % args)
    mine.close()
for message in ({"_name": "SHUTDOWN"}, {"_name": "FRONT_START",
                                        "profile": "nonsense"}, None):
    mine, theirs = ipc.pair()
    p = ipc.spawn(f.proc.args[0], theirs, stderr=-1)
    ch = ipc.Chan(mine)
    if message:
        ch.send(**message)
    else:
        ch.close()
    err = p.communicate(timeout=5)[1]
    t.ok(p.returncode == 2 and err.count(b"\n") == 1,
         "start with %s: exit 2 with a sentence" % (message,), err)
    ch.close()

t.done()
sys.exit(t.bad > 0)
