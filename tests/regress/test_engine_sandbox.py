#!/usr/bin/env python3
"""What guests meet inside a sandbox, and what they cannot do to it: real
namespaces, the real sbx-init.  Started by root it runs twice: with the engine
that drops to its own user, and with an ordinary user's."""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import ipc  # noqa: E402
from box import (FILE, LIST, Engine, Tap, alive, all_dead,  # noqa: E402
                 children, make_scratch, pss_kib, remove, users, wait_trash)

CREATE, STOP, DIED, VIOLATION, IMAGE = 0, 1, 2, 3, 6  # enum sbx_end_why
EXITED, KILLED, SANDBOX = 0, 2, 3               # enum sbx_exit_why
A, B = "0123456789ab", "ba9876543210"
tap = Tap()


def record(kind, path=b"", data=b"", mode=0o644):
    return struct.pack(">BHHQ", kind, mode, len(path), len(data)) + path + data


def test_basic(e):
    r = e.run(A, ["echo", "hello  world"])
    tap.ok(r.error == 0 and r.out == b"hello  world\n" and r.code == 0 and
           r.why == EXITED, "argv is kept, output and status come", r)
    tap.same(e.run(A, "exit 7").code, 7, "exit code 7")
    tap.same(e.run(A, "kill -SEGV $$").status & 0x7f, 11,
             "death by signal is a signal")
    r = e.run(A, ["cat"], stdin=b"abc" * 1000)
    tap.ok(r.out == b"abc" * 1000, "stdin arrives", r)
    r = e.run(A, "echo out; echo err >&2")
    tap.ok(r.out == b"out\n" and r.err == b"err\n", "two streams", r)
    r = e.run(A, ["head", "-c", "20000000", "/dev/zero"])
    tap.same(len(r.out), 20000000, "20 MB of output through the pipe")
    r = e.run(A, "pwd; cd; pwd; id -u; id -g; id -un; hostname", cwd="/tmp")
    tap.same(r.out.decode().split(),
             ["/tmp", "/home/sandbox", "1000", "1000", "sandbox", A],
             "working directory, home, ids, host name")
    r = e.run(A, ["env"], env=["FOO=bar baz", "LANG=xx"])
    env = dict(line.split("=", 1) for line in r.out.decode().splitlines())
    tap.ok(env.get("FOO") == "bar baz" and env.get("LANG") == "xx" and
           env.get("USER") == "sandbox" and "TMPDIR" not in env and
           env["PATH"].startswith("/usr/local/sbin:"),
           "environment: own, extra, overridden", env)
    r = e.run(A, ["nosuchprogram"])
    tap.ok(r.error == 2 and "nosuchprogram" in r.reason,
           "missing program: ENOENT, named", r)
    tap.same(e.run(A, ["/etc/passwd"]).error, 13, "not executable: EACCES")
    tap.ok(e.run(A, [""]).error == 2, "an empty name: ENOENT")
    r = e.run(A, ["true"], cwd="/no/such/dir")
    tap.ok(r.error == 2 and "/no/such/dir" in r.reason,
           "missing working directory is named", r)
    e.run(A, "printf 'echo script $1' > s; chmod +x s")
    tap.same(e.run(A, ["./s", "x"]).out, b"script x\n",
             "a script without #! runs as with execvp")
    r = e.run(A, "grep -E 'open files|processes' /proc/self/limits")
    tap.same(re.findall(rb"  (\d+)  +(\d+) ", r.out),
             [(b"200", b"200"), (b"512", b"512")],
             "limits of processes and descriptors")
    r = e.run(A, "grep -E '^Sig(Ign|Blk)' /proc/self/status; umask")
    tap.same(re.findall(rb"\t(\w+)", r.out), [b"0" * 16] * 2,
             "no signal ignored or blocked")
    tap.ok(r.out.endswith(b"0022\n"), "umask 022", r)


def test_fds(e):
    r = e.run(A, ["python3", "-c", "import os; print(sorted(int(f) for f in "
                  "os.listdir('/proc/self/fd')))"])
    tap.same(r.out, b"[0, 1, 2, 3]\n", "only 0, 1, 2 open (3: the listing)")
    r = e.run(A, "ls -l /proc/self/fd /proc/1/fd /proc/1/exe; "
              "cat /proc/1/maps; cat /proc/1/environ; cat /proc/1/mem")
    tap.ok(r.err.count(b"ermission denied") >= 4 and
           b"sbx-init" not in r.out and b"socket:" not in r.out,
           "PID 1 cannot be looked into", r)
    r = e.run(A, "p=$PPID; cat /proc/$p/comm; ls /proc/$p/fd; "
              "readlink /proc/$p/exe; cat /proc/$p/environ")
    tap.ok(r.out == b"sbx-job\n" and r.err.count(b"ermission denied") >= 2,
           "nor can a supervisor", r)


def mounts_wrong(lines):
    devices = {"/dev/" + d for d in ("null", "zero", "full", "random",
                                     "urandom", "tty")}
    out = []
    for line in lines:
        f = line.split()
        at, opts = f[4], f[5].split(",")
        device = at in devices or f[3] == "/null"
        if "nosuid" not in opts and not (device and at.startswith("/proc")):
            out.append(line)
        if "nodev" not in opts and not device and at not in ("/dev",
                                                             "/dev/pts"):
            out.append(line)
        if "ro" not in opts and not device and at not in (
                "/", "/proc", "/dev/shm", "/dev/pts", "/etc/hosts",
                "/etc/hostname"):
            out.append(line)
    return out


def test_inside(e):
    r = e.run(A, "cat /proc/self/uid_map /proc/self/gid_map")
    tap.ok([x.split()[::2] for x in r.out.splitlines()] ==
           [[b"1000", b"1"]] * 2, "one id is mapped, and it is not 0", r)
    r = e.run(A, "cat /proc/self/status")
    s = dict(line.split(":\t", 1) for line in r.out.decode().splitlines()
             if ":\t" in line)
    tap.ok(all(int(s[c], 16) == 0 for c in
               ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")) and
           s["NoNewPrivs"] == "1" and s["Seccomp"] == "2",
           "no capability in any set, no_new_privs, a filter", s)
    r = e.run(A, "cat /proc/self/mountinfo")
    lines = r.out.decode().splitlines()
    tap.ok(len(lines) > 5 and not mounts_wrong(lines),
           "mounts: nosuid, nodev; all but a few read-only",
           mounts_wrong(lines))
    r = e.run(A, "ls -A / /home /root /var /run /etc; ls -A /sys; "
              "cat /etc/shadow")
    names = r.out.decode().split()
    tap.ok(not {"shadow", "tester", "work", "boot", "sudoers", "lost+found",
                "systemd", "ssh"} & set(names),
           "nothing of the host's home, root, var, run", names)
    r = e.run(A, "touch /usr/x /usr/bin/x; echo 1 > /proc/sys/kernel/"
              "hostname; cat /proc/kcore | wc -c; mknod /tmp/n c 1 3; "
              "mknod /tmp/b b 8 0; touch /dev/x; mkfifo /tmp/p && echo fifo")
    tap.ok(r.err.count(b"ead-only") >= 4 and r.err.count(b"mknod") == 2 and
           r.out == b"0\nfifo\n",
           "/usr, /dev, /proc/sys read-only; no device nodes", r)
    r = e.run(A, "tail -n +3 /proc/net/dev | cut -d: -f1")
    tap.same(r.out.split(), [b"lo"], "no network device but lo")
    r = e.run(A, ["python3", "-c", NET])
    tap.same(r.out.decode().split(), ["refused", "loopback", "noroute"],
             "3128 refuses, loopback works, the rest has no route")
    r = e.run(A, "getent passwd sandbox; getent hosts %s; cat /etc/hostname"
              "; wc -c < /etc/resolv.conf" % A)
    tap.ok(b"/home/sandbox" in r.out and b"127.0.0.1" in r.out and
           r.out.endswith(A.encode() + b"\n0\n"),
           "names: passwd, hosts, own name, no resolver", r)
    r = e.run(A, "mkdir -p a/b c && echo x > a/b/f && mv a/b/f c/ && "
              "ln c/f a/g && mv a c/ && cat c/a/g && echo y > /tmp/t && "
              "mv /tmp/t . && touch /home/sandbox/h /run/r && rm -r c t")
    tap.ok(r.code == 0 and r.out == b"x\n",
           "rename and link across directories; home, tmp, run writable", r)
    if shutil.which("git"):
        r = e.run(A, "git init -q . && git config user.email a@b && "
                  "git config user.name n && echo 1 > f && git add f && "
                  "git commit -qm m && git log --oneline | wc -l; "
                  "rm -rf .git f")
        tap.same(r.out.strip(), b"1", "git works in /workspace")


NET = r"""
import socket
s = socket.socket()
try:
    s.connect(("127.0.0.1", 3128)); print("open")
except ConnectionRefusedError:
    print("refused")
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
c = socket.create_connection(l.getsockname()); print("loopback")
s = socket.socket()
try:
    s.connect(("192.0.2.1", 80)); print("out")
except OSError as e:
    print("noroute" if e.errno == 101 else e)
"""

# x86-64 numbers: libc has no wrapper for most of these
FILTER = r"""
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
bad = []
def call(name, nr, *a, errs=(errno.EPERM,)):
    ctypes.set_errno(0)
    r = libc.syscall(nr, *[ctypes.c_long(x) for x in a])
    e = ctypes.get_errno()
    if r != -1 or e not in errs:
        bad.append("%s: %d %s" % (name, r, errno.errorcode.get(e, e)))
NS = (errno.ENOSYS,)
for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000,
             0x04000000, 0x02000000, 0x80):
    call("unshare %x" % flag, 272, flag)
    if flag != 0x80:
        call("clone %x" % flag, 56, flag | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 88, errs=NS)
call("setns", 308, 0, 0)
call("mount", 165, 0, 0, 0, 0, 0)
call("umount2", 166, 0, 0)
call("pivot_root", 155, 0, 0)
call("chroot", 161, 0)
call("fsopen", 430, 0, 0)
call("open_tree", 428, 0, 0, 0)
call("move_mount", 429, 0, 0, 0, 0, 0)
call("mount_setattr", 442, 0, 0, 0, 0, 0)
call("prlimit64 of 1", 302, 1, 0, 0, 0)
call("prlimit64 of 1, high half", 302, 0x100000001, 0, 0, 0)
call("bpf", 321, 0, 0, 0)
call("io_uring_setup", 425, 1, 0, errs=NS + (errno.EPERM,))
call("userfaultfd", 323, 0)
call("perf_event_open", 298, 0, 0, 0, 0, 0)
call("keyctl", 250, 0, 0)
call("add_key", 248, 0, 0, 0, 0, 0)
call("open_by_handle_at", 304, 0, 0, 0)
call("kexec_load", 246, 0, 0, 0, 0)
call("init_module", 175, 0, 0, 0)
call("finit_module", 313, 0, 0, 0)
call("kcmp", 312, 1, 1, 0, 0, 0)
call("process_vm_writev", 311, 1, 0, 0, 0, 0, 0, errs=NS)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0, errs=NS)
call("pidfd_getfd", 438, 0, 0, 0)
call("personality", 135, 0x0400000)
call("TIOCSTI", 16, 0, 0x5412, 0)
call("TIOCSTI, high half", 16, 0, 0x100005412, 0)
call("TIOCLINUX", 16, 0, 0x541c, 0)
call("ptrace of 1", 101, 16, 1, 0, 0)
call("ptrace of the supervisor", 101, 16, os.getppid(), 0, 0)
call("reboot", 169, 0, 0, 0, 0)
call("settimeofday", 164, 0, 0)
call("swapon", 167, 0, 0)
for f, t, p in ((40, 1, 0), (17, 3, 0), (38, 5, 0), (16, 3, 16), (16, 3, 12),
                (16, 3, 15), (31, 3, 1), (29, 3, 1), (44, 3, 0)):
    try:
        socket.socket(f, t, p); bad.append("family %d/%d" % (f, p))
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.EAFNOSUPPORT, errno.EACCES):
            bad.append("family %d/%d: %s" % (f, p, e))
for path in ("/proc/1/mem", "/proc/1/root/etc", "/proc/1/ns/net"):
    try:
        os.close(os.open(path, os.O_RDONLY)); bad.append(path)
    except PermissionError:
        pass
print("; ".join(bad) or "all refused")
"""

WORKS = r"""
import asyncio, mmap, multiprocessing, os, pty, socket, threading
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.send(b"y"); assert b.recv(1) == b"y"
socket.socket(16, 3, 0).close()
async def m():
    p = await asyncio.create_subprocess_exec("echo", "hi",
        stdout=asyncio.subprocess.PIPE)
    return (await p.communicate())[0]
assert asyncio.run(m()) == b"hi\n"
t = threading.Thread(target=lambda: None); t.start(); t.join()
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
mfd, s = pty.openpty(); os.write(s, b"z"); assert os.read(mfd, 1)
mmap.mmap(-1, 4096)
u = socket.socket(socket.AF_UNIX); u.bind("/tmp/u"); u.listen()
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/u")
print("works")
"""


def test_filter(e):
    if os.uname().machine == "x86_64":
        r = e.run(A, ["python3", "-c", FILTER])
        tap.ok(r.out == b"all refused\n", "the guest filter's list", r)
    r = e.run(A, ["python3", "-c", WORKS])
    tap.ok(r.out == b"works\n",
           "socketpair, asyncio, threads, multiprocessing, pty work", r)
    if shutil.which("strace"):
        r = e.run(A, "strace -f -o /tmp/tr sh -c 'echo a' && "
                  "grep execve /tmp/tr; grep write /tmp/tr")
        tap.ok(r.code == 0 and b'"a\\n"' in r.out,
               "strace works among guests", r)


FORKS = r"""
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.001)
"""
# its first thread ends: proc(5) shows a zombie whose other thread forks on
LEADER = r"""
import ctypes, os, threading, time
def go():
    time.sleep(0.1)
    if os.fork() == 0:
        os.setsid()
    time.sleep(1000)
threading.Thread(target=go).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_kill(e):
    cases = [
        ("sleep", ["sleep", "1000"]),
        ("one that ignores SIGTERM, SIGHUP, SIGINT",
         ["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done"]),
        ("double fork and setsid", ["sh", "-c",
         "setsid sh -c 'setsid sleep 1001 & sleep 1002 & wait' & "
         "(sleep 1003 &) ; sleep 1004"]),
        ("a fork loop", ["sh", "-c", "f() { f | f & }; f; sleep 1000"]),
        ("a fork loop with setsid", ["python3", "-c", FORKS]),
        ("a stopped tree", ["sh", "-c", "sleep 1000 & kill -STOP $!; "
                            "kill -STOP $$"]),
        ("one that stops its supervisor", ["sh", "-c",
         "while :; do kill -STOP $PPID; done"]),
        ("threads whose leader ended", ["python3", "-c", LEADER]),
    ]
    for name, argv in cases:
        run, m = e.start(A, argv)
        time.sleep(0.3)
        m, took = e.kill(run)
        r = e.wait(run, 5, gone=True)
        tap.ok(m["left"] == 0 and took < 1.1 and r.gone and
               r.status is not None, "kill: %s" % name, (m, took, r))
        e.forget(run)
    left = e.run(A, "ps -e -o pid=,comm= | grep -v ' ps$'").out.decode()
    tap.ok(not re.search(r"sleep|python", left), "nothing of them lives", left)
    run, m = e.start(A, ["sh", "-c", "sleep 1000 & sleep 1000 & exit 3"])
    r = e.wait(run)
    tap.ok(r.code == 3 and not r.gone, "the command ended, its tree has not",
           r)
    m, took = e.kill(run)
    r2 = e.wait(run, 1, gone="only")
    tap.ok(m["left"] == 0 and m["killed"] == 2 and r2.gone,
           "what outlived its command is killed by its run", (m, r2))
    for run in ("f" * 16, run):
        m, took = e.kill(run)
        tap.ok(m["left"] == 0 and m["killed"] == 0,
               "kill of a run that is not there", m)


def test_supervisor_killed(e):
    run, m = e.start(A, ["sh", "-c", "setsid sleep 2001 & sleep 0.2; "
                         "kill -9 $PPID; sleep 2002"])
    r = e.wait(run, 5, gone=True)
    tap.ok(r.gone and r.status is not None,
           "a guest kills its supervisor: the run ends", r)
    run, m = e.start(A, ["python3", "-c", "import os, signal\n"
                         "os.kill(os.getppid(), signal.SIGKILL)\n" + FORKS])
    r = e.wait(run, 5, gone=True)
    tap.ok(r.gone and r.status is not None,
           "so does a fork loop's that killed its own", r)
    out = e.run(A, "ps -e -o args=").out
    tap.ok(b"2001" not in out and b"2002" not in out and b"fork" not in out,
           "and the orphans with them", out)
    e.run(A, "kill -9 1; kill -STOP 1; kill -TERM -1; true")
    e.run(A, "kill -9 -1")
    tap.same(e.run(A, ["echo", "still"]).out, b"still\n",
             "signals to PID 1 and to all: it goes on")


def test_two(e):
    m = e.create(B)
    if not tap.ok(m.name == "SANDBOX_READY", "a second sandbox", m):
        return
    m = e.create(B)
    tap.ok(m.name == "SANDBOX_ENDED", "its id twice is refused", m)
    run, _ = e.start(A, ["python3", "-c", "import socket, time\n"
                         "s = socket.socket(); s.bind(('127.0.0.1', 8080))\n"
                         "s.listen(); u = socket.socket(socket.AF_UNIX)\n"
                         "u.bind('\\0abs'); u.listen()\n"
                         "open('/workspace/mark', 'w'); time.sleep(1000)"])
    for _ in range(50):
        if e.run(A, "test -e mark").code == 0:
            break
        time.sleep(0.05)
    r = e.run(B, ["python3", "-c", "import socket, os\n"
                  "def t(f, a):\n"
                  " try: socket.socket(f).connect(a); print('open')\n"
                  " except ConnectionRefusedError: print('refused')\n"
                  "t(2, ('127.0.0.1', 8080)); t(1, '\\0abs')\n"
                  "print(os.path.exists('/workspace/mark'))"])
    tap.same(r.out.split(), [b"refused", b"refused", b"False"],
             "neither sees the other's loopback, abstract sockets, files")
    r = e.run(B, "ps -e -o args=")
    tap.ok(b"8080" not in r.out and r.out.count(b"\n") < 6,
           "nor its processes", r)
    a, b = [e.run(x, "readlink /proc/self/ns/net /proc/self/ns/user "
                  "/proc/self/ns/pid /proc/self/ns/ipc /proc/self/ns/uts "
                  "/proc/self/ns/mnt /proc/self/ns/cgroup").out.split()
            for x in (A, B)]
    own = [os.readlink("/proc/self/ns/" + n).encode() for n in (
        "net", "user", "pid", "ipc", "uts", "mnt", "cgroup")]
    tap.ok(len(a) == 7 and not set(a) & set(b) and not set(a + b) & set(own),
           "every namespace is its own", (a, b, own))
    e.kill(run)
    e.wait(run, 2, gone=True)
    e.forget(run)
    m = e.stop(B)
    tap.ok(m["why"] == STOP, "stop", m)
    m = e.stop(B)
    tap.ok(m["why"] == STOP, "stop of one that is gone", m)
    m = e.create(B)
    tap.ok(m.name == "SANDBOX_READY" and
           e.run(B, "ls /workspace").out == b"",
           "its id can be used again, and is empty", m)
    ids = [e.next_id() for _ in range(3)]
    for i in ids:
        e.mon.send("SANDBOX_STOP", i, container=B)
    tap.ok(all(e.answer(i, "SANDBOX_ENDED")["why"] == STOP for i in ids),
           "each of three stops is answered")
    c, s = e.next_id(), e.next_id()
    e.mon.send("SANDBOX_CREATE", c, container=B, image="host")
    e.mon.send("SANDBOX_STOP", s, container=B)
    m, m2 = e.answer(c, ("SANDBOX_ENDED", "SANDBOX_READY")), \
        e.answer(s, "SANDBOX_ENDED")
    tap.ok(m2["why"] == STOP, "stopped while it is made: both are answered",
           (m, m2))


def test_listener(e):
    e.introduce("proxy")
    m = e.proxy.recv(5, "PROXY_LISTENER")
    tap.ok(m["container"] == A, "a new proxy gets the listeners there are", m)
    s = socket.socket(fileno=m.fds[0])
    tap.ok(s.family == socket.AF_INET and s.type == socket.SOCK_STREAM and
           s.getsockname() == ("127.0.0.1", 3128) and
           s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0,
           "bound to 127.0.0.1:3128, TCP, not listening", s)
    so_netns_cookie = 71
    tap.ok(s.getsockopt(socket.SOL_SOCKET, so_netns_cookie, 8) !=
           socket.socket().getsockopt(socket.SOL_SOCKET, so_netns_cookie, 8),
           "in another network namespace")
    s.listen()
    run, _ = e.start(A, ["python3", "-c", "import socket; s = socket."
                         "create_connection(('127.0.0.1', 3128)); s.send("
                         "b'GET'); print(s.recv(9))"])
    c, _ = s.accept()
    c.send(c.recv(9) + b"!")
    tap.same(e.wait(run).out, b"b'GET!'\n",
             "the listener carries a connection")
    e.forget(run)
    old = e.proxy
    e.introduce("proxy")
    m = e.proxy.recv(5, "PROXY_LISTENER")
    tap.ok(m["container"] == A, "the next proxy gets it too", m)
    m.close()
    s.close()
    old.close()
    e.create(B)
    m = e.proxy.recv(5, "PROXY_LISTENER")
    tap.same(m["container"], B, "a new sandbox's listener comes by itself")
    m.close()
    e.stop(B)
    e.proxy.send("PROXY_LISTENER_STATE", 0, container=A, error=0, reason="")


def test_recorder(e):
    run, _ = e.start(A, ["sh", "-c", "echo one; sleep 0.7; echo two"])
    time.sleep(0.2)
    first = os.read(e.fds[run][0], 100)
    e.forget(run)
    e.rec.close()
    e.rec = None
    time.sleep(0.2)
    r2, m = e.start(A, ["true"])
    tap.ok(m["error"] == 11 and "recorder" in m["reason"],
           "no recorder: exec is refused with the reason", m)
    e.introduce("recorder")
    time.sleep(0.1)
    e.opened()
    tap.ok(run in e.fds, "a new recorder gets the live run again", e.fds)
    r = e.wait(run, gone=True)
    tap.ok(first + r.out == b"one\ntwo\n" and r.code == 0,
           "and nothing of its output is lost", (first, r))
    e.forget(run)


def test_unpack(e):
    fi, ln, di, en = 1, 2, 3, 0
    m = e.unpack(A, "/workspace/p", record(di, b"d") +
                 record(fi, b"d/x", b"hello", 0o755) +
                 record(fi, b"deep/er/y", b"1" * 60000, 0o666) +
                 record(ln, b"l", b"/etc") + record(en))
    r = e.run(A, "cd p; stat -c '%n %a %F' d d/x deep/er/y; readlink l; "
              "cat d/x; wc -c < deep/er/y")
    tap.ok(m["error"] == 0 and r.out.decode().splitlines() == [
        "d 755 directory", "d/x 755 regular file",
        "deep/er/y 644 regular file", "/etc", "hello60000"],
        "a copy stream is unpacked, with modes", (m, r))
    tap.ok(m["bytes"] == 60005 and m["final_path"] == "/workspace/p",
           "its counts and path", m)
    m = e.unpack(A, "/workspace/p", record(fi, b"l/evil", b"x") + record(en))
    tap.ok(m["error"] != 0, "nothing is written through a link", m)
    m = e.unpack(A, "/workspace/p", record(fi, b"l", b"now a file") +
                 record(en))
    r = e.run(A, "stat -c %F p/l; ls /etc | grep -c evil")
    tap.ok(m["error"] == 0 and r.out.startswith(b"regular file\n0"),
           "a link is replaced, not followed", (m, r))
    passed = [bad for bad in (b"../x", b"/x", b"a//b", b"a/./b", b"a/..",
                              b"", b"a/", b"a\0b", b".")
              if e.unpack(A, "/workspace/q", record(fi, bad, b"x") +
                          record(en))["error"] == 0]
    tap.same(passed, [], "bad paths are refused")
    for name, stream in (
            ("without END", record(fi, b"x", b"x")),
            ("with an unknown record", record(9, b"x", b"x") + record(en)),
            ("with too many bytes", struct.pack(">BHHQ", fi, 0, 1, 1 << 40) +
             b"x"), ("that is empty", b"")):
        m = e.unpack(A, "/workspace/q", stream)
        tap.ok(m["error"] != 0, "a stream %s is refused" % name, m)
    m = e.unpack(A, "/workspace/p", record(fi, b"name", b"1") + record(en),
                 FILE)
    tap.ok(m["error"] == 0 and m["final_path"] == "/workspace/p/name",
           "FILE into a directory keeps the name", m)
    m = e.unpack(A, "/workspace/p/other", record(fi, b"name", b"2") +
                 record(en), FILE)
    tap.ok(m["error"] == 0 and m["final_path"] == "/workspace/p/other" and
           e.run(A, "cat p/other").out == b"2", "FILE to a full path", m)
    m = e.unpack(A, "/workspace/none/there", record(fi, b"name", b"2") +
                 record(en), FILE)
    tap.ok(m["error"] == 2, "FILE without a parent is an error", m)
    m = e.unpack(A, "relative", record(en))
    tap.ok(m["error"] != 0, "a relative destination is refused", m)
    rd, wr = os.pipe()
    mid = e.next_id()
    e.mon.send("ENGINE_UNPACK", mid, [rd], container=A, mode=LIST,
               dest="/workspace")
    os.close(rd)
    e.run(A, "sleep 0.1; pkill -STOP sbx-unpack; sleep 0.1; "
          "pkill -9 sbx-unpack; true")
    m = e.answer(mid, "ENGINE_UNPACKED")
    tap.ok(m["error"] != 0, "a guest kills the helper: an error", m)
    os.close(wr)


def test_too_late(e):
    """what nobody waits for any more is not started"""
    r = e.run(A, "touch /workspace/late", by_ns=1)
    tap.ok(r.error == 110 and "nobody waits" in r.reason, "too late", r)
    r = e.run(A, "test ! -e /workspace/late", by_ns=time.monotonic_ns() +
              10 ** 10)
    tap.ok(r.error == 0 and r.status == 0, "and in time", r)


def test_work(e):
    e.run(A, "rm -rf /workspace/* ; mkdir -p /workspace/w/src; cd w; "
          "echo 1 > src/a; echo 1 > b; mkdir .git; echo x > .git/HEAD")
    time.sleep(0.02)
    since = time.time_ns()
    m = e.work(A, "/workspace/w", since)
    tap.ok(m["complete"] == 1 and m["count"] == 0, "no work yet", m)
    e.run(A, "cd w; mkdir -p src/__pycache__ node_modules .git/objects; "
          "touch src/__pycache__/x node_modules/y .git/index "
          ".git/objects/z .git/FETCH_HEAD; cat src/a")
    m = e.work(A, "/workspace/w", since)
    tap.ok(m["complete"] == 1 and m["count"] == 0, "caches are no work", m)
    e.run(A, "cd w; echo 2 > src/a; touch -d 2001-01-01 src/a; "
          "mkdir -p .git/refs/heads; echo 1 > .git/refs/heads/main")
    m = e.work(A, "/workspace/w", since)
    tap.ok(m["count"] == 2 and m["names"] == ["src/a"],
           "an edit (also back-dated) and a commit are", m)
    m = e.work(A, "/workspace/none", since)
    tap.ok(m["complete"] == 1 and m["count"] == 0, "a path never written", m)
    e.run(A, "mkdir -p far; ln -s / far/l; python3 -c \"import os\n"
          "for i in range(300):\n os.mkdir('x'); os.chdir('x')\n"
          "open('f','w')\"")
    m = e.work(A, "/workspace", since)
    tap.ok(m["complete"] == 0, "too deep to tell is said", m)
    e.run(A, "mkdir many; cd many; seq 60000 | xargs touch", timeout=60)
    t = time.monotonic()
    m = e.work(A, "/workspace/many", since)
    took = time.monotonic() - t
    tap.ok(m["count"] > 0 and took < 1, "60,000 files: bounded", (m, took))
    e.run(A, "rm -rf /workspace/*", timeout=60)


def test_refused(e):
    m = e.create(B, "nosuch:image")
    tap.ok(m.name == "SANDBOX_ENDED" and m["why"] == IMAGE and
           "image" in m["reason"], "another image is refused", m)
    run, m = e.start("f" * 12, ["true"])
    tap.ok(m["error"] != 0, "exec in a sandbox that is not there", m)
    runs = []
    for _ in range(70):
        run, m = e.start(A, ["sleep", "1000"])
        runs.append((run, m["error"]))
    tap.same(sum(err == 0 for _, err in runs), 64,
             "64 runs of a sandbox at once, the next is refused")
    run, m = e.start(A, ["true"], run=runs[1][0])
    tap.ok(m["error"] == 17, "a run id twice is refused", m)
    t = time.monotonic()
    ids = []
    for run, err in runs:
        if err == 0:
            ids.append(e.next_id())
            e.mon.send("ENGINE_KILL", ids[-1], run=run)
    left = [e.answer(i, "ENGINE_KILLED")["left"] for i in ids]
    took = time.monotonic() - t
    tap.ok(not any(left) and took < 2, "64 kills at once", (left, took))
    for run, err in runs:
        if err == 0:
            e.wait(run, 2, gone=True)
        e.forget(run)


def boxes(scratch):
    return sorted(n for n in os.listdir(scratch)
                  if re.fullmatch("[0-9a-f]{12}", n))


def test_scratch(e):
    e.create(B)
    e.run(B, "mkdir -p a; touch a/f; chmod 000 a; python3 -c \"import os\n"
          "for i in range(3000):\n os.mkdir('x'); os.chdir('x')\n\"")
    e.stop(B)
    until = time.monotonic() + 10   # it is moved there after the answer
    while B in boxes(e.scratch) and time.monotonic() < until:
        time.sleep(0.01)
    left = wait_trash(e.scratch, 60)
    tap.same((left, boxes(e.scratch)), ([], [A]),
             "a stopped sandbox's scratch goes, however deep")


def test_ends(e):
    m = e.create(B)
    run, _ = e.start(B, ["sleep", "1000"])
    pids = [m["pid"]] + children(m["pid"])
    os.kill(m["pid"], signal.SIGKILL)
    x = e.mon.recv(5, "ENGINE_EXITED")
    while x["run"] != run:      # of a run before, told late
        x = e.mon.recv(5, "ENGINE_EXITED")
    d = e.mon.recv(5, "SANDBOX_ENDED")
    tap.ok(x["run"] == run and x["why"] == SANDBOX and
           d["why"] == DIED and d["container"] == B,
           "init is killed: its runs end, then the sandbox", (x, d))
    tap.ok(all_dead(pids, 1), "and nothing lives")
    e.forget(run)
    e.mon.send("PING", 77)
    tap.ok(e.answer(77, "PONG")["healthy"] == 1, "PING")


FAKE = r"""
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
/* INIT_READY with its socket, then INIT_GONE for a run that is not there. */
int main(void)
{
	unsigned char ready[12] = { 0, 0, 0, 0, 0, 71, 0, 1 };
	unsigned char gone[33] = { 0, 0, 0, 21, 0, 76, 0, 1, 0, 0, 0, 0,
	    0, 0, 0, 16, 'f', 'f', 'f', 'f', 'f', 'f', 'f', 'f',
	    'f', 'f', 'f', 'f', 'f', 'f', 'f', 'f', 0 };
	struct sockaddr_in a = { .sin_family = AF_INET,
	    .sin_port = htons(PORT), .sin_addr.s_addr = htonl(0x7f000001) };
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } c = { 0 };
	struct iovec v = { ready, sizeof(ready) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c,
	    .msg_controllen = sizeof(c) };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	bind(s, (struct sockaddr *)&a, sizeof(a));
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	c.h.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&c.h), &s, sizeof(int));
	sendmsg(3, &m, 0);
	usleep(200000);
	send(3, gone, sizeof(gone), 0);
	for (;;)
		pause();
}
"""


def fake_init(d, port):
    """An init that says what it must not."""
    path, c = os.path.join(d, "fake%d" % port), os.path.join(d, "fake.c")
    with open(c, "w", encoding="ascii") as f:
        f.write(FAKE)
    r = subprocess.run(["cc", "-DPORT=%d" % port, "-static", "-o", path, c],
                       check=False)
    return path if r.returncode == 0 else None


def lives(user):
    """What needs engines of its own: violations, deaths, leftovers."""
    d, s = make_scratch(user)
    fake = fake_init(d, 3128)
    if fake is None:
        tap.skip("a lying init", "no static C library")
    else:
        e = Engine(s, user, fake)
        m = e.create(A)
        m2 = e.mon.recv(5, "SANDBOX_ENDED")
        tap.ok(m.name == "SANDBOX_READY" and m2["why"] == VIOLATION,
               "an init that breaks the protocol: its sandbox ends", m2)
        tap.ok(all_dead([m["pid"]], 1), "and is dead")
        tap.ok(e.proc.poll() is None, "the engine goes on")
        tap.same(e.close(), 0, "the monitor's end: exit 0")
        e = Engine(s, user, fake_init(d, 3129))
        m = e.create(A)
        tap.ok(m.name == "SANDBOX_ENDED", "a socket that is not the egress "
               "socket is not taken", m)
        e.close()
    e = Engine(s, user, "/bin/false")
    m = e.create(A)
    tap.ok(m.name == "SANDBOX_ENDED" and m["why"] == CREATE,
           "an init that ends at once: CREATE is answered", m)
    e.close()
    wait_trash(s, 5)
    test_engine_killed(s, user)
    e = Engine(s, user)
    e.mon.send("SANDBOX_CREATE", 5, container="../../../../x", image="host")
    tap.same(e.proc.wait(5), 3, "a bad container id ends the channel")
    e.mon.close()
    remove(d)


def test_engine_killed(s, user):
    e = Engine(s, user).introduce("recorder")
    e.create(A)
    e.create(B)
    e.start(A, ["sh", "-c", "setsid sleep 1000 & trap '' TERM; sleep 1000"])
    e.start(B, ["sleep", "1000"])
    pids = children(e.proc.pid)
    tap.ok(len(pids) >= 7, "two sandboxes run", pids)
    e.proc.kill()
    e.proc.wait()
    tap.ok(all_dead(pids, 1), "engine killed: nothing lives after 1 s",
           [p for p in pids if alive(p)])
    e.mon.close()
    tap.same(boxes(s), [A, B], "its scratch is left")
    e = Engine(s, user).introduce("recorder")
    left = sorted(e.mon.recv(5, "ENGINE_LEFTOVER")["container"]
                  for _ in range(2))
    tap.same(left, sorted([A, B]), "the next start reports both")
    tap.same((wait_trash(s, 5), boxes(s)), ([], []), "and removes them")
    m = e.create(A)
    tap.ok(m.name == "SANDBOX_READY" and e.run(A, "ls").out == b"",
           "and the id is free")
    e.start(A, ["sleep", "1000"])
    pids = children(e.proc.pid)
    t = time.monotonic()
    tap.same(e.close(), 0, "the monitor's end with a sandbox: exit 0")
    tap.ok(all_dead(pids, 0.2) and time.monotonic() - t < 1,
           "and it is gone")


FLOOD = r"""
import array, socket, time
l = []
try:
    while True:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        l.append((a, b))
        while True:
            try:
                a.sendmsg([b"x"], [(1, 1, array.array("i", [0] * 250))],
                          socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
except OSError as e:
    print(e, flush=True)
time.sleep(100)
"""


def many(user):
    """Descriptors in flight, memory, the limit of sandboxes."""
    d, s = make_scratch(user)
    e = Engine(s, user).introduce("recorder")
    ids = ["%012x" % i for i in range(24)]
    for i in ids:
        e.mon.send("SANDBOX_CREATE", e.next_id(), container=i, image="host")
    up = [e.mon.recv(20, "SANDBOX_READY") for _ in ids]
    tap.same(len(up), 24, "24 sandboxes at once")
    runs = [e.start(i, ["python3", "-c", FLOOD])[0] for i in ids[:4]]
    time.sleep(0.7)
    r = e.run(ids[5], ["echo", "x"])
    tap.ok(r.out == b"x\n", "guests with descriptors in flight: exec goes on",
           r)
    for run in runs:
        e.kill(run)
    try:
        pss = sorted(pss_kib(m["pid"]) for m in up)
        tap.ok(pss[-1] < 1024, "an idle sandbox takes less than 1 MB", pss)
        print("# PSS of an idle sbx-init: %d KiB" % pss[len(pss) // 2])
    except PermissionError:
        pass    # not dumpable: only root may look
    tap.same(e.close(), 0, "and all of them end")
    remove(d)


def suite(user):
    d, s = make_scratch(user)
    e = Engine(s, user).introduce("recorder")
    tap.ok(e.hello["pid"] == e.proc.pid, "HELLO from inside the cage")
    m = e.create(A)
    if not tap.ok(m.name == "SANDBOX_READY" and m["pid"] > 1, "create", m):
        return
    try:
        for test in (test_basic, test_fds, test_inside, test_filter,
                     test_kill, test_supervisor_killed, test_two,
                     test_listener, test_recorder, test_unpack,
                     test_too_late, test_work,
                     test_refused, test_scratch, test_ends):
            test(e)
            if e.proc.poll() is not None:
                tap.ok(False, "%s ended the engine" % test.__name__,
                       e.mon.log)
                return
        if os.geteuid() == 0:
            fds = os.listdir("/proc/%d/fd" % e.proc.pid)
            tap.ok(len(fds) < 24, "no descriptor is left behind", len(fds))
    finally:
        pids = children(e.proc.pid)
        e.close()
        tap.ok(all_dead(pids, 2), "closing ends everything")
        remove(d)
    lives(user)
    many(user)


def main():
    if not users():
        tap.skip("everything", "started by root, and there is no user sbxd")
    for user, tap.prefix in users():
        suite(user)
    return tap.done()


sys.exit(main())
