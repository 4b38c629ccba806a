"""A small MCP client over stdio, and a suite of a test's own around it.

    with mcp.Suite() as s:              # private suite below a new SBX_ROOT
        box = s.call("sandbox_initialize")["container_id"]

Only the standard library; every wait has a deadline.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import mcprecord

BUILD = os.environ.get("SBX_BUILD", "")


class Closed(Exception):
    """the server ended, or did not answer in time"""


class Client:
    """One connection: stdio of a process, or any pair of file objects."""
    can = {}        # its capabilities
    says = None     # what its user does with what he is asked

    def __init__(self, argv, env=None, cwd=None, hello=True, stderr=None):
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, env=env,
                                     stdout=subprocess.PIPE, cwd=cwd,
                                     stderr=stderr)
        self.pid = self.proc.pid
        self.buf = b""
        self.last = 0
        self.notes = []     # notifications seen while waiting
        self.record = mcprecord.Recorder("stdio")
        if hello:
            self.initialize()

    def initialize(self, version="2025-11-25"):
        result = self.request("initialize", {
            "protocolVersion": version, "capabilities": self.can,
            "clientInfo": {"name": "test", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def raw(self, data):
        self.record.sent(data)
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(dict(message, jsonrpc="2.0")).encode() + b"\n")

    def notify(self, method, params=None):
        self.send({"method": method, **({"params": params} if params else {})})

    def recv(self, timeout=30):
        """the next message, whatever it is"""
        until = time.monotonic() + timeout
        fd = self.proc.stdout.fileno()
        while b"\n" not in self.buf:
            left = until - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise Closed("no answer in time")
            data = os.read(fd, 1 << 16)
            if not data:
                raise Closed("the server closed its output")
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        self.record.got(line)
        return json.loads(line)

    def start(self, method, params=None):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params or {}})
        return self.last

    def answer(self, number, timeout=30):
        until = time.monotonic() + timeout
        while True:
            message = self.recv(max(0.01, until - time.monotonic()))
            if message.get("id") == number and "method" not in message:
                return message
            self.notes.append(message)
            if self.says and message.get("method") == "elicitation/create":
                self.send({"id": message["id"],
                           "result": {"action": self.says}})

    def request(self, method, params=None, timeout=30):
        message = self.answer(self.start(method, params), timeout)
        if "error" in message:
            raise RuntimeError(message["error"])
        return message["result"]

    def start_call(self, tool, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool, timeout=60, **arguments):
        """structuredContent of one call; `timeout` is this client's"""
        number = self.start_call(tool, **arguments)
        message = self.answer(number, timeout)
        if "error" in message:
            raise RuntimeError(message["error"])
        return message["result"]["structuredContent"]

    def close(self, timeout=5):
        """close stdin, wait; returns (exit status, seconds it took)"""
        began = time.monotonic()
        try:
            self.proc.stdin.close()
        except OSError:
            pass
        try:
            status = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            status = None
        self.proc.stdout.close()
        return status, time.monotonic() - began


class Suite(Client):
    """A private suite below an SBX_ROOT of its own, removed at the end."""

    def __init__(self, copy_root=None, conf="", env=None, stderr=None,
                 root=None, prefix=()):
        self.root = root or tempfile.mkdtemp(prefix="sbx-test-")
        os.chmod(self.root, 0o755)
        if conf:
            os.makedirs(self.root + "/etc")
            with open(self.root + "/etc/sbx.conf", "w") as f:
                f.write(conf)
        self.env = dict(os.environ, SBX_ROOT=self.root, **(env or {}))
        argv = [*prefix, BUILD + "/sbx", "mcp", "--private"]
        if copy_root:
            argv += ["--copy-root", copy_root]
        super().__init__(argv, env=self.env, stderr=stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        if os.geteuid() != 0:
            self.sbx("clean")   # what belongs to sandboxes' own ids
        remove(self.root)

    def sbx(self, *arguments, **kw):
        """the command line, for this suite"""
        return subprocess.run([BUILD + "/sbx", *arguments], env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60, text=True, **kw)

    def journal(self):
        """all records written so far"""
        out = self.sbx("journal", "show", "--json", "-n", "100000").stdout
        return [json.loads(line) for line in out.splitlines()]

    def processes(self):
        """{program name: [pid]} of everything below this suite's monitor"""
        found = {}
        for pid in filter(alive, tree(self.pid)):
            found.setdefault(program(pid), []).append(pid)
        return found

    def wait_for(self, condition, timeout=10):
        """condition() until it is true; its value"""
        until = time.monotonic() + timeout
        while True:
            value = condition()
            if value or time.monotonic() > until:
                return value
            time.sleep(0.02)


def remove(root):
    """rm -r, also of what overlayfs leaves with mode 000"""
    for _ in range(64):
        again = False
        for base, dirs, _files in os.walk(root):
            for d in dirs:
                p = os.path.join(base, d)
                if not os.path.islink(p) and not os.access(p, os.R_OK | os.X_OK):
                    os.chmod(p, 0o700)
                    again = True
        if not again:
            break
    shutil.rmtree(root, ignore_errors=True)


def program(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def stat(pid):
    """(state letter, parent) or None"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            rest = f.read().rsplit(")", 1)[1].split()
        return rest[0], int(rest[1])
    except OSError:
        return None


def alive(pid):
    """exists and is not a zombie"""
    s = stat(pid)
    return s is not None and s[0] not in "ZX"


def tree(pid):
    """pid and everything below it"""
    kids = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            s = stat(int(entry))
            if s:
                kids.setdefault(s[1], []).append(int(entry))
    todo, seen = [pid], []
    while todo:
        seen.append(todo.pop())
        todo += kids.get(seen[-1], [])
    return seen


def sanitized():
    """Is it a build with sanitizers?  It keeps what was freed, and takes no
    mlock(2)."""
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as f:
        return "#define SBX_SANITIZERS 1" in f.read()


class Tap:
    """ok(), skip() and the plan at the end"""

    def __init__(self):
        self.n = self.bad = 0

    def ok(self, good, text, got=None):
        self.n += 1
        self.bad += not good
        print(("ok" if good else "not ok"), self.n, "-", text, flush=True)
        if not good and got is not None:
            print("#", repr(got)[:2000], flush=True)
        return good

    def skip(self, why, text=""):
        """a feature this machine lacks; a failure where it must work"""
        if os.environ.get("SBX_MUST_WORK") == "1":
            return self.ok(False, f"{text}: {why}")
        self.n += 1
        print(f"ok {self.n} - {text} # SKIP {why}", flush=True)
        return True

    def absent(self, why, text):
        """what this user or kernel cannot have, wherever it is run"""
        self.n += 1
        print(f"ok {self.n} - {text} # SKIP {why}", flush=True)

    def done(self):
        print(f"1..{self.n}", flush=True)


def main(tap, tests, only=()):
    """Every test_* of a file, or the named ones; a failure is one, and the
    others go on.  Does not return."""
    for name, test in list(tests.items()):
        if name.startswith("test_") and (not only or name in only):
            try:
                test()
            except Exception as e:  # pylint: disable=broad-except
                tap.ok(False, f"{name}: {e!r}")
                print("#", traceback.format_exc().replace("\n", "\n# "))
    tap.done()
    sys.exit(tap.bad > 0)


def kill(pid, sig=signal.SIGKILL):
    os.kill(pid, sig)
