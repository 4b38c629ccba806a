#!/usr/bin/env python3
"""`sbx shell`, driven like a person at a terminal would, and the control
socket, driven like somebody who wants it to fall."""
import array
import fcntl
import glob
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import box as tap  # noqa: E402
import ipc  # noqa: E402
import mcp  # noqa: E402

T = tap.Tap()
ok = T.ok
SBX = mcp.BUILD + "/sbx"
HDR = ipc.HDR


class Shell:
    """A program on a terminal of its own, whose master is read here."""

    def __init__(self, argv, env, rows=30, cols=100):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.proc = subprocess.Popen(
            argv, env=env, stdin=self.slave, stdout=self.slave,
            stderr=self.slave, preexec_fn=self.child)

    @staticmethod
    def child():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def size(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, data):
        os.write(self.master, data if isinstance(data, bytes)
                 else data.encode())

    def read(self, seconds=0.0):
        """what came; b"" when nothing does in time"""
        if not select.select([self.master], [], [], seconds)[0]:
            return b""
        data = os.read(self.master, 65536)
        # readline's bracketed paste is in the way of every pattern
        self.seen = re.sub(rb"\x1b\[\?2004[hl]\r?", b"", self.seen + data)
        return data

    def expect(self, pattern, seconds=10):
        """wait for it; what came up to its end is taken"""
        until = time.monotonic() + seconds
        while True:
            m = re.search(pattern, self.seen, re.S)
            if m:
                self.seen = self.seen[m.end():]
                return m
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.read(left)

    def run(self, line, pattern, seconds=10):
        self.seen = b""
        self.send(line + "\n")
        return self.expect(pattern, seconds)

    def wait(self, seconds=10):
        """its exit status, its output read meanwhile; None: it goes on"""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.read(0.02)
            if self.proc.poll() is not None:
                while self.read(0.02):
                    pass
                return self.proc.returncode
        return None

    def restored(self):
        return termios.tcgetattr(self.slave) == self.modes

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        os.close(self.master)
        os.close(self.slave)


class Suite(mcp.Suite):
    def __init__(self, **kw):
        self.log = open("/tmp/sbx-shell-log.%d" % os.getpid(), "w+b")
        os.unlink(self.log.name)
        super().__init__(stderr=self.log, **kw)
        self.id = self.call("sandbox_initialize", name="b1")["container_id"]

    def shell(self, *words, **kw):
        return Shell([SBX, "shell", *words],
                     dict(self.env, TERM="xterm"), **kw)

    def bash(self, **kw):
        sh = self.shell("b1", **kw)
        if not sh.expect(rb"\$ "):
            ok(False, "a prompt", sh.seen)
        return sh

    def ctl(self):
        return self.root + "/run/suite-1/ctl.sock"

    def jobs(self):
        boxes = self.call("sandbox_list_containers")["containers"]
        return boxes[0]["jobs"] if boxes else 0

    def shells(self):
        return [r for r in self.journal() if r["op"] == "shell"]


def pids_of(word):
    """processes of the machine with that word in their command line"""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def gone(word, seconds):
    """until none of them lives; the time it took, or None"""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if not pids_of(word):
            return time.monotonic() - began
        time.sleep(0.01)
    return None


def at_a_terminal(s):
    sh = s.bash()
    m = sh.run("tty", rb"\n(/dev/pts/\d+)\r\n")
    ok(m, "tty names a terminal of the sandbox", sh.seen)
    ok(sh.run("echo $TERM; pwd", rb"\nxterm\r\n/workspace\r\n"),
       "TERM is the caller's, and it starts in the workspace", sh.seen)
    ok(sh.run("stty size", rb"\n30 100\r\n"), "the size is the caller's",
       sh.seen)
    sh.run("trap 'echo winch''ed' WINCH; echo re''ady", rb"ready")
    sh.size(50, 132)
    m = sh.run("stty size", rb"\n50 132\r\n")
    ok(m, "it follows", sh.seen)
    ok(m and b"winched" in m.string or sh.run("", rb"winched"),
       "and the program hears of it", sh.seen)
    m = sh.run("ls /proc/self/fd; echo e''nd", rb"\n([0-9 \r\n]+)end")
    ok(m and m[1].split() == [b"0", b"1", b"2", b"3"],
       "descriptors 0, 1 and 2 and what ls opened", sh.seen)
    m = sh.run("readlink /proc/self/fd/[012]; echo e''nd", rb"\n(/.*)end")
    ok(m and len(set(m[1].split())) == 1 and m[1].startswith(b"/dev/pts/"),
       "all three are the sandbox's terminal", m and m[1])
    sh.run("sleep 100", rb"sleep 100\r\n")
    time.sleep(0.3)
    sh.send(b"\x03")
    ok(sh.run("echo rc=$?", rb"\nrc=130\r\n", 3), "^C interrupts", sh.seen)
    sh.run("sleep 100", rb"sleep 100\r\n")
    time.sleep(0.3)
    sh.send(b"\x1a")
    ok(sh.expect(rb"Stopped"), "^Z stops", sh.seen)
    ok(sh.run("jobs", rb"Stopped +sleep 100"), "it is a job", sh.seen)
    sh.run("fg", rb"sleep 100\r\n")
    time.sleep(0.3)
    sh.send(b"\x03")
    ok(sh.run("echo back", rb"\nback\r\n", 3), "fg and ^C", sh.seen)
    if shutil.which("python3", path="/usr/bin"):
        for req in ("0x5412", "0x541C"):
            ok(sh.run("python3 -c 'import fcntl; fcntl.ioctl(0, %s, "
                      "b\"\\3x\")'" % req, rb"PermissionError", 20),
               "typing into a terminal is refused: ioctl %s" % req, sh.seen)
    else:
        T.skip("TIOCSTI", "no python3 in the sandbox")
    ok(s.jobs() == 1, "it is a job of its sandbox")
    sh.send("exit 7\n")
    ok(sh.wait() == 7 and sh.restored(), "its status is sbx's, the terminal "
       "as before", sh.seen)
    ok(s.jobs() == 0, "no job any more")
    sh.close()


def ends(s):
    for words, status in ((("sh", "-c", "kill -TERM $$"), 143),
                          (("true",), 0), (("sh", "-c", "exit 255"), 255)):
        sh = s.shell("b1", "--", *words)
        ok(sh.wait() == status and sh.restored(),
           "%s: status %d" % (words, status), sh.proc.returncode)
        sh.close()
    sh = s.shell("b1", "no-such-program")
    ok(sh.wait() == 2 and b"cannot execute no-such-program" in sh.seen,
       "what cannot be executed", sh.seen)
    sh.close()
    sh = s.shell("-w", "/no/such", "b1")
    ok(sh.wait() == 2 and b"working directory /no/such" in sh.seen,
       "where it cannot be", sh.seen)
    sh.close()
    sh = s.shell("-w", "/usr", "b1", "--", "pwd")
    ok(sh.wait() == 0 and sh.seen == b"/usr\r\n", "-w", sh.seen)
    sh.close()
    sh = s.shell("nobody")
    ok(sh.wait() == 1 and b"no sandbox 'nobody'" in sh.seen, "no such "
       "sandbox", sh.seen)
    sh.close()
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        sh = s.bash()
        sh.proc.send_signal(sig)
        ok(sh.wait(3) == 128 + sig and sh.restored(),
           "%s: the terminal is as before" % sig.name, sh.proc.returncode)
        sh.close()
    big = "import sys; sys.stdout.write('x' * 3000000 + 'END')"
    sh = s.shell("b1", "--", "python3", "-c", big)
    n = 0
    while sh.proc.poll() is None or select.select([sh.master], [], [],
                                                  0.1)[0]:
        n += len(sh.read(0.1))
    ok(n == 3000003 and sh.seen.endswith(b"END"),
       "nothing that was printed last is lost", n)
    sh.close()


def escapes(s):
    sh = s.bash()
    ok(sh.run("echo a~.b", rb"\na~\.b\r\n"), "not within a line", sh.seen)
    sh.send("\n~~.\n")
    ok(sh.expect(rb"~\."), "~~ is a tilde", sh.seen)
    sh.send("\n~?")
    ok(sh.expect(rb"suspend sbx"), "~? helps", sh.seen)
    sh.send("\n~.")
    ok(sh.wait(3) == 129 and sh.restored() and b"disconnected" in sh.seen,
       "~. ends it", (sh.proc.returncode, sh.seen))
    sh.close()
    for what, script in (
            ("holds it closed", "exec <&- >&- 2>&-; sleep 4000"),
            ("never reads", "stty raw -echo; echo up; sleep 4000"),
            ("floods", "stty raw -echo; yes"),
            ("ignores all signals", "trap '' HUP INT TERM; echo up; "
             "while :; do sleep 1; done")):
        sh = s.shell("b1", "--", "sh", "-c", script)
        sh.read(5)
        time.sleep(0.3)
        if what == "never reads":
            for _ in range(60):    # more than any buffer on the way
                sh.send(b"x" * 1024)
                time.sleep(0.005)
        sh.send("\r~.")
        ok(sh.wait(3) == 129 and sh.restored(),
           "a guest that %s: ~. ends it" % what, sh.proc.returncode)
        sh.close()
    sh = s.shell("b1", "--", "sh", "-c", "stty raw; yes")
    sh.read(5)
    time.sleep(0.5)
    sh.send("\r~.")            # and nothing of what it prints is taken
    try:
        status = sh.proc.wait(3)
    except subprocess.TimeoutExpired:
        status = None
    ok(status == 129 and sh.restored(), "a terminal that is stuck: ~. ends "
       "it", status)
    sh.close()
    deadline = time.monotonic() + 2
    while s.jobs() and time.monotonic() < deadline:
        time.sleep(0.02)
    ok(s.jobs() == 0, "and nothing of them lives")


def suspended(s):
    """in a shell of the host, as sbx is used"""
    sh = Shell(["bash", "--norc", "-i"], dict(s.env, TERM="xterm",
                                              PS1="HOST> "))
    sh.expect(rb"HOST> ")
    sh.send("%s shell b1\n" % SBX)
    sh.expect(rb"shell b1\r\n.*\$ ")
    sh.send("echo one\n")
    ok(sh.expect(rb"\none\r\n"), "a shell in a shell", sh.seen)
    sh.send("~\x1a")
    ok(sh.expect(rb"Stopped.*HOST> "), "~^Z stops sbx", sh.seen)
    ok(sh.run("stty -a", rb" icanon.* echo "), "the terminal is the host's",
       sh.seen)
    sh.size(44, 111)
    sh.send("fg\n")
    sh.expect(rb"shell b1\r\n")
    time.sleep(0.3)
    ok(sh.run("stty size", rb"\n44 111\r\n"), "fg goes on, with the new size",
       sh.seen)
    m = sh.run("exit 5", rb"HOST> ")
    ok(m and sh.run("echo rc=$?", rb"\nrc=5\r\n"), "and ends", sh.seen)
    sh.send("%s shell b1\n" % SBX)
    sh.expect(rb"shell b1\r\n.*\$ ")
    sbx = [p for p in pids_of("shell") if p in pids_of("b1")]
    for p in sbx:
        os.kill(p, signal.SIGTSTP)
    ok(sbx and sh.expect(rb"Stopped.*HOST> "), "SIGTSTP", sh.seen)
    ok(sh.run("stty -a", rb" icanon.* echo "), "the terminal is given back",
       sh.seen)
    sh.run("kill -CONT %1; sleep 0.5; echo a''wake", rb"awake")
    sh.send("fg\n")
    sh.expect(rb"shell b1")
    time.sleep(0.5)
    ok(sh.run("echo two", rb"^echo two\r\n\r?two\r\n"), "SIGCONT",
       sh.seen)
    sh.send("exit\n")
    ok(sh.expect(rb"HOST> "), "the end of it", sh.seen)
    sh.close()


def pipes(s):
    r = s.sbx("shell", "b1", input="echo hi; exit 3\n")
    ok(r.returncode == 3 and "hi\n" in r.stdout.replace("\r", ""),
       "a script by pipe", r)
    r = s.sbx("shell", "b1", "--", "cat", input="one\ntwo")
    ok(r.returncode == 0 and r.stdout.replace("\r", "") == "one\ntwo",
       "its end is the end of input, and nothing is echoed", r)
    r = s.sbx("shell", "b1", "--", "stty", "size", stdin=subprocess.DEVNULL)
    ok(r.returncode == 0 and r.stdout.split() == ["24", "80"],
       "a size there is", r)
    s.env["TERM"] = "x;reboot"
    r = s.sbx("shell", "b1", "--", "sh", "-c", "echo ${TERM-none}",
              stdin=subprocess.DEVNULL)
    ok(r.stdout.split() in (["none"], ["dumb"]),
       "a TERM that is no name is not passed on", r)
    s.env["TERM"] = "xterm"


def killed(s):
    words = ["48%d%d" % (i, os.getpid()) for i in range(3)]
    sh = s.bash()
    sh.run("sleep %s & setsid nohup sleep %s & (trap '' HUP; exec sleep %s) "
           "& echo st''arted" % tuple(words), rb"started")
    deadline = time.monotonic() + 3
    while not all(map(pids_of, words)) and time.monotonic() < deadline:
        time.sleep(0.02)
    ok(all(map(pids_of, words)), "processes of a shell", words)
    sh.proc.kill()
    began = time.monotonic()
    took = [gone(w, 3) for w in words]
    total = time.monotonic() - began
    ok(None not in took and total < 1.0,
       "kill -9 of sbx: all are dead within a second", total)
    print("# after %.0f ms" % (total * 1000))
    sh.close()
    sh = s.bash()
    sh.run("(trap '' HUP; exec sleep %s) & echo st''arted" % words[1],
           rb"started")
    sh.send("exit\n")
    ok(sh.wait() == 0, "a shell that ends by itself")
    time.sleep(0.6)
    ok(pids_of(words[1]), "leaves running what ignores SIGHUP")
    s.call("sandbox_exec_kill", job_id=s.shells()[-1]["run_id"])
    ok(gone(words[1], 1) is not None, "and its job id ends it")
    sh.close()
    sh = s.bash()
    sh.run("(trap '' HUP; exec sleep %s) & echo st''arted" % words[0],
           rb"started")
    run = s.shells()[-1]["run_id"]
    r = s.call("read_output", run_id=run)
    ok(r["status"] == "running" and r.get("interactive") is True and
       r["output"] == "" and r["total_bytes"] == 0,
       "read_output: interactive, and nothing stored", r)
    r = s.call("sandbox_exec_kill", job_id=run)
    ok(r["killed"] is True, "sandbox_exec_kill takes it", r)
    ok(sh.wait(3) == 137 and sh.restored() and b"killed on request" in
       sh.seen, "and sbx says why", (sh.proc.returncode, sh.seen))
    ok(gone(words[0], 1) is not None, "nothing of it lives")
    sh.close()


def stopped(s):
    box = s.call("sandbox_initialize", name="b2")["container_id"]
    sh = s.shell("b2")
    sh.expect(rb"\$ ")
    r = s.call("sandbox_stop", container_id=box, force=True)
    ok(r["status"] == "ok" and sh.wait(3) == 137 and sh.restored() and
       b"the sandbox ended" in sh.seen, "sandbox_stop, and sbx says why",
       (sh.proc.returncode, sh.seen))
    sh.close()
    box = s.call("sandbox_initialize", name="b3")["container_id"]
    sh = s.shell("b3")
    sh.expect(rb"\$ ")
    sh.send("kill -9 -1\n")
    ok(sh.wait(5) in (137, 129) and sh.restored(),
       "a guest that kills everything", sh.proc.returncode)
    sh.close()
    s.call("sandbox_stop", container_id=box, force=True)


def p50(s, n=11):
    took = []
    for _ in range(n):
        began = time.monotonic()
        s.call("sandbox_exec", container_id=s.id, argv=["true"])
        took.append(time.monotonic() - began)
    return sorted(took)[n // 2]


def flood(s):
    quiet = p50(s)
    sh = s.shell("b1", "--", "sh", "-c",
                 "stty raw; head -c 100000000 /dev/zero | tr '\\0' x; "
                 "echo E''ND")
    sh.read(5)
    time.sleep(0.3)
    slow = p50(s)
    ok(slow < 2 * quiet + 0.03, "100 MB wait for a reader that is stuck: "
       "exec keeps its speed", (quiet, slow))
    print("# exec p50 %.1f ms, beside the flood %.1f ms" %
          (quiet * 1000, slow * 1000))
    other = s.bash()
    ok(other.run("echo fine", rb"\nfine\r\n", 3), "and another shell, too",
       other.seen)
    other.close()
    n, began, tail = len(sh.seen), time.monotonic(), b""
    while time.monotonic() - began < 120:
        if not select.select([sh.master], [], [], 1)[0]:
            if sh.proc.poll() is not None:
                break
            continue
        data = os.read(sh.master, 65536)
        n += len(data)
        tail = (tail + data)[-16:]
    ok(sh.wait(3) == 0 and n == 100000004 and tail.endswith(b"END\n"),
       "then all of it comes", (n, tail))
    print("# %.1f MB/s to a terminal" % (n / 1e6 / (time.monotonic() - began)))
    sh.close()


def not_stored(s):
    before = s.call("sandbox_list_containers")
    ok(before["status"] == "ok", "the suite is there")
    sh = s.shell("b1", "--", "printf", "\033]0;EVIL%s\007", "TITLE")
    ok(sh.wait() == 0 and b"\033]0;EVILTITLE\007" in sh.seen,
       "what it prints comes as it is", sh.seen)
    sh.close()
    s.log.seek(0)
    log = s.log.read()
    files = b""
    for path in glob.glob(s.root + "/**/*", recursive=True):
        if "/scratch/" in path or not os.path.isfile(path):
            continue
        try:
            with open(path, "rb") as f:
                files += f.read()
        except OSError:
            pass
    ok(b"EVIL" in files, "the journal has the command")
    ok(b"EVILTITLE" not in files + log and b"\033" not in files and
       b"\033" not in log, "and nothing of the output, nor a bare escape")
    shells = s.shells()
    starts = {r["run_id"]: r for r in shells if r["phase"] == "start"}
    finis = {r["run_id"] for r in shells if r["phase"] == "end"}
    ok(starts and set(starts) == finis, "each start has its end",
       set(starts) ^ finis)
    ok(all(r["fields"]["operator"] == "uid:%d" % os.getuid()
           for r in starts.values()), "and the operator's name")


def connect(path):
    c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    c.settimeout(10)
    c.connect(path)
    return c


def closed(c, seconds=3):
    """closed by the other side within the time"""
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([c], [], [], left)[0]:
            return False
        try:
            if not c.recv(65536):
                return True
        except ConnectionError:
            return True


def garbage(s):
    good = s.bash()
    path = s.ctl()
    ok(os.stat(path).st_mode & 0o777 == 0o600 and
       os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700,
       "the socket is its owner's, in a directory that is")
    start = ipc.pack("SHELL_START", container=s.id, argv=["true"], cwd="",
                     term="", rows=1, cols=1)
    num = ipc.BY_NAME["SHELL_START"].num
    whole = HDR.pack(len(start), num, 1, 1) + start
    null = os.open("/dev/null", os.O_RDWR)
    bad = {
        "nothing at all": (b"", ()), "one byte": (b"x", ()),
        "a header cut": (whole[:11], ()),
        "a body cut": (whole[:-1], ()),
        "a byte too many": (whole + b"x", ()),
        "another version": (HDR.pack(len(start), num, 2, 1) + start, ()),
        "a length that lies": (HDR.pack(1 << 30, num, 1, 1) + start, ()),
        "no such type": (HDR.pack(0, 255, 1, 1), ()),
        "type 0": (HDR.pack(0, 0, 1, 1), ()),
        "a type out of range": (HDR.pack(0, 65535, 1, 1), ()),
        "an answer": (HDR.pack(0, ipc.BY_NAME["CTL_HELLO"].num, 1, 1), ()),
        "what a worker asks": (HDR.pack(0, ipc.BY_NAME["SB_LIST"].num, 1, 1),
                               ()),
        "what the engine says": (HDR.pack(0, ipc.BY_NAME["ENGINE_PTY"].num,
                                          1, 1), (null,)),
        "a descriptor": (whole, (null,)),
        "ten descriptors": (whole, (null,) * 10),
        "noise": (os.urandom(4000), ()),
        "a large record": (HDR.pack(150000, num, 1, 1) + b"\0" * 150000, ()),
    }
    for what, (data, fds) in bad.items():
        c = connect(path)
        c.recv(1000)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400 << 10)
        try:
            c.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                array.array("i", fds))] if fds else [])
        except OSError as e:
            ok(False, "%s cannot be sent: %s" % (what, e))
        if what == "nothing at all":
            c.shutdown(socket.SHUT_WR)
        ok(closed(c), "%s closes that connection" % what)
        c.close()
    os.close(null)
    for what, values in (
            ("no sandbox", {"container": "0" * 12}),
            ("TERM with a blank", {"term": "a b"}),
            ("a relative directory", {"cwd": "x"}),
            ("an empty command", {"argv": [""]}),
            ("a size that is none", {"rows": 70000})):
        c = ipc.Chan(connect(path))
        c.recv(want="CTL_HELLO")
        c.send("SHELL_START", 9, **dict({
            "container": s.id, "argv": ["true"], "rows": 1, "cols": 1},
            **values))
        m = c.recv()
        ok(m.name == "CTL_REFUSED" and m.id == 9 and m["reason"],
           "%s is refused" % what, m)
        c.close()
    ok(good.run("echo fine", rb"\nfine\r\n"), "a shell beside it goes on",
       good.seen)
    silent = [connect(path) for _ in range(7)]
    ok(all(c.recv(1000) for c in silent), "eight connections")
    c = ipc.Chan(connect(path))
    m = c.recv()
    ok(m.name == "CTL_REFUSED" and m["code"] == "busy", "the ninth is one "
       "too many", m)
    c.close()
    sh = s.shell("b1")
    ok(sh.wait() == 2 and b"as many connections" in sh.seen,
       "and sbx says so", sh.seen)
    sh.close()
    began = time.monotonic()
    ok(all(closed(c, 8) for c in silent) and time.monotonic() - began > 3,
       "who says nothing is closed after 5 s", time.monotonic() - began)
    for c in silent:
        c.close()
    second = s.bash()
    ok(good.run("echo one", rb"\none\r\n") and
       second.run("echo two", rb"\ntwo\r\n"), "two shells at once")
    m = good.run("tty", rb"\n(/dev/pts/\d+)\r\n")
    n = second.run("tty", rb"\n(/dev/pts/\d+)\r\n")
    ok(m and n and m[1] != n[1], "each on a terminal of its own")
    for sh in (good, second):
        sh.send("exit\n")
        ok(sh.wait() == 0, "and they end")
        sh.close()


def strangers(s):
    path = s.ctl()
    if os.getuid() != 0:
        T.absent("only root can be two users", "other uids")
        return
    probe = ("import os, socket, sys\n"
             "os.setgroups([]); os.setresgid(1234, 1234, 1234)\n"
             "os.setresuid(1234, 1234, 1234)\n"
             "c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
             "c.settimeout(5)\n"
             "c.connect(sys.argv[1])\n"
             "print(c.recv(1000))\n")
    r = subprocess.run([sys.executable, "-c", probe, path], text=True,
                       capture_output=True, timeout=20)
    ok("PermissionError" in r.stderr, "another uid does not get to the "
       "socket", r)
    opened = (s.root, s.root + "/run", os.path.dirname(path))
    modes = [os.stat(p).st_mode & 0o777 for p in opened]
    for p in opened:
        os.chmod(p, 0o711)
    os.chmod(path, 0o666)
    r = subprocess.run([sys.executable, "-c", probe, path], text=True,
                       capture_output=True, timeout=20)
    ok(r.stdout == "b''\n", "and where it does, it is closed unread", r)
    os.chmod(path, 0o600)
    for p, mode in zip(opened, modes):
        os.chmod(p, mode)


def hostile(s):
    """sbx beside a suite that hands it what a hostile sandbox could"""
    path = s.ctl()
    try:    # /dev/ptmx may be of devtmpfs, which is no sandbox's
        m = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
    except PermissionError:
        T.absent("ptmxmode of /dev/pts is 0", "a hostile terminal")
        return
    os.rename(path, path + ".real")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(path)
    server.listen(4)
    server.settimeout(10)

    def serve(fd):
        sh = s.shell("b1")
        c = ipc.Chan(server.accept()[0])
        c.send("CTL_HELLO", version="x")
        c.recv(want="SHELL_START")
        c.send("SHELL_STARTED", 1, [fd], run="0" * 16)
        return sh, c

    r, w = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    fcntl.ioctl(m, 0x40045431, b"\0" * 4)  # TIOCSPTLCK
    n = struct.unpack("i", fcntl.ioctl(m, 0x80045430, b"\0" * 4))[0]
    sl = os.open("/dev/pts/%d" % n, os.O_RDWR | os.O_NOCTTY)
    for what, fd in (("a pipe", r), ("a device", null),
                     ("the other side of a terminal", sl)):
        sh, c = serve(fd)
        ok(sh.wait(3) == 2 and b"not a terminal" in sh.seen,
           "%s is refused" % what, sh.seen)
        sh.close()
        c.close()
    os.close(r)
    os.close(w)
    os.close(null)
    # a terminal whose other holder takes the bytes and makes reads block
    sh, c = serve(m)
    thief = os.fork()
    while thief == 0:
        try:
            os.set_blocking(m, True)
            os.write(sl, b"z")
            os.read(m, 1)
        except BlockingIOError:
            pass
        except OSError:
            os._exit(1)
    time.sleep(1)
    sh.send("\r~.")
    ok(sh.wait(3) == 129 and sh.restored(), "a terminal that blocks: ~. ends "
       "it", sh.proc.returncode)
    os.kill(thief, signal.SIGKILL)
    os.waitpid(thief, 0)
    sh.close()
    c.close()
    sh, c = serve(m)
    time.sleep(0.3)
    c.close()
    ok(sh.wait(3) == 3 and sh.restored(), "the suite is gone, and sbx says "
       "so", (sh.proc.returncode, sh.seen))
    sh.close()
    os.close(m)
    os.close(sl)
    server.close()
    os.unlink(path)
    os.rename(path + ".real", path)


def at_the_end(s):
    """of the suite"""
    sh = s.bash()
    sh.run("sleep 47%d & echo st''arted" % os.getpid(), rb"started")
    status, _ = s.close()
    ok(status == 0, "the suite ends", status)
    ok(sh.wait(3) in (137, 3) and sh.restored() and
       b"ended" in sh.seen, "and its shells with it",
       (sh.proc.returncode, sh.seen))
    ok(gone("47%d" % os.getpid(), 1) is not None, "nothing of it lives")
    sh.close()


def main():
    parts = (at_a_terminal, ends, escapes, suspended, pipes, killed, stopped,
             flood, not_stored, garbage, strangers, hostile, at_the_end)
    with Suite() as s:
        for part in parts:
            if sys.argv[1:] and part.__name__ not in sys.argv[1:]:
                continue
            try:
                part(s)
            except Exception:  # pylint: disable=broad-except
                import traceback
                ok(False, part.__name__, traceback.format_exc())
    return T.done()


if __name__ == "__main__":
    sys.exit(main())
