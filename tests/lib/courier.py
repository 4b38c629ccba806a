"""sbx-broker-courier alone, with the test as its broker, its proxy and its
sandbox.

    c = courier.Courier(ca.pem)             # caged, ready
    c.git(up.port, repo="o/r", token=T)     # its job; c.stream: the sandbox's
    c.stream.sendall(b"GET ...")            # end
    a = c.answer()                          # Answer: status headers body whole
    c.over()                                # COURIER_OVER, as a dict

    g = courier.Gate(ca.pem, port, lambda: {"repo": "o/r", ...})
    g.git("clone", g.url("o/r"), "dir")     # git(1), each request of which has
                                            # a courier of its own
"""
import os
import socket
import subprocess
import threading
import time

import ipc

BUILD = os.environ.get("SBX_BUILD", os.getcwd())
PROGRAM = os.path.join(BUILD, "sbx-broker-courier")
FETCH, PUSH = 0, 1


class Answer:
    """What came on the stream until its end.  whole: with all that its head
    promised."""

    def __init__(self, raw):
        self.raw = raw
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int((lines[0] + "  0").split()[1]) if raw else 0
        self.headers = {k.lower(): v.strip() for k, _, v in
                        (x.partition(":") for x in lines[1:])}
        self.whole = bool(raw)
        if self.headers.get("transfer-encoding") == "chunked":
            body, self.whole = self._chunks(body)
        elif "content-length" in self.headers:
            self.whole = len(body) == int(self.headers["content-length"])
        self.body = body

    @staticmethod
    def _chunks(data):
        out, at = [], 0
        while True:
            end = data.find(b"\r\n", at, at + 20)
            n = int(data[at:end], 16) if end > 0 else -1
            if n <= 0 or len(data) < end + 4 + n:
                return b"".join(out), n == 0 and data[end:] == b"\r\n\r\n"
            out.append(data[end + 2:end + 2 + n])
            at = end + 4 + n

    def __repr__(self):
        return "<%d %r %r%s>" % (self.status, self.headers, self.body[:300],
                                 "" if self.whole else " cut")


class Courier:
    def __init__(self, roots, args=(), start=True, program=PROGRAM):
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(program, theirs, args,
                              stderr=subprocess.PIPE)
        self.chan, self.stream = ipc.Chan(mine), None
        if start:
            fd = roots if isinstance(roots, int) else ipc.memfd(roots)
            self.chan.send("COURIER_START", 7, [fd])
            os.close(fd)
            self.ready = self.chan.recv(20, "COURIER_READY")

    @staticmethod
    def dial(port):
        return socket.create_connection(("127.0.0.1", port))

    def git(self, at, stream=None, sock=None, **job):
        """COURIER_GIT; at: the port where the host is.  stream: of the sandbox, when
        it is there already"""
        if stream is None:
            self.stream, stream = socket.socketpair()
        sock = sock or self.dial(at)
        self.chan.send("COURIER_GIT", 8, [sock.fileno(), stream.fileno()], **{
            "op": FETCH, "host": "github.com", "port": 443, "repo": "o/r",
            "user": "x-access-token", "token": "", **job})
        stream.close()
        sock.close()
        return self

    def rest(self, port, op, body=b"", answer=None, sock=None, **job):
        """COURIER_REST; self.file is what it writes to"""
        self.file = os.memfd_create("answer", os.MFD_ALLOW_SEALING) \
            if answer is None else answer
        fd, sock = ipc.memfd(body), sock or self.dial(port)
        self.chan.send("COURIER_REST", 9, [sock.fileno(), fd, self.file], **{
            "op": op, "host": "api.github.com", "port": 443, "repo": "o/r",
            "page": 1, "token": "", "within_ms": 30000, **job})
        os.close(fd)
        sock.close()
        return self

    def mint(self, port, **job):
        with self.dial(port) as sock:
            self.chan.send("COURIER_MINT", 10, [sock.fileno()], **{
                "host": "api.github.com", "port": 443, "repo": "o/r",
                "permissions": '{"metadata":"read"}', **job})
        return self.chan.recv(30, "COURIER_MINTED")

    def revoke(self, port, **job):
        with self.dial(port) as sock:
            self.chan.send("COURIER_REVOKE", 11, [sock.fileno()], **{
                "host": "api.github.com", "port": 443, **job})
        return self.over()

    def ask(self, *lines, body=b""):
        """send it and read all that comes back"""
        self.send(*lines, body=body)
        return self.answer()

    def send(self, *lines, body=b""):
        self.stream.sendall("".join(x + "\r\n" for x in (*lines, "")).encode()
                            + body)

    def answer(self, timeout=30):
        self.stream.settimeout(timeout)
        raw = []
        while True:
            try:
                data = self.stream.recv(1 << 18)
            except ConnectionResetError:
                break
            if not data:
                break
            raw.append(data)
        self.stream.close()
        return Answer(b"".join(raw))

    def over(self, timeout=30):
        """begun: it said before that the host may have it"""
        m = self.chan.recv(timeout, ("COURIER_OVER", "COURIER_BEGUN"))
        self.begun = m.name == "COURIER_BEGUN"
        return self.chan.recv(timeout, "COURIER_OVER") if self.begun else m

    def text(self):
        """what REST wrote"""
        return ipc.read_fd(self.file)

    def memory_kib(self, what="VmHWM"):
        with open("/proc/%d/status" % self.proc.pid) as f:
            for line in f:
                if line.startswith(what + ":"):
                    return int(line.split()[1])
        return 0

    def wait(self, timeout=10):
        """exit status"""
        try:
            return self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            return None

    def said(self):
        return self.proc.stderr.read().decode("utf-8", "replace")

    def close(self):
        self.chan.close()
        status = self.wait()
        self.proc.stderr.close()
        if self.stream:
            self.stream.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Gate:
    """What git(1) speaks to as its host: each connection is a courier's
    stream.  job(): the fields of its COURIER_GIT."""

    def __init__(self, roots, port, job, home):
        self.roots, self.upstream, self.job = roots, port, job
        self.home, self.overs, self.errors, self.peak = home, [], [], 0
        self.taken = 0
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(64)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, repo, host="github.com"):
        return "http://%s:%d/%s.git" % (host, self.port, repo)

    def _serve(self):
        while True:
            try:
                s, _ = self.sock.accept()
            except OSError:
                return
            self.taken += 1
            threading.Thread(target=self._one, args=(s,), daemon=True).start()

    def _one(self, s):
        try:
            with Courier(self.roots) as c:
                c.git(self.upstream, s, port=self.port, **self.job())
                while True:
                    try:
                        self.peak = max(self.peak, c.memory_kib())
                        self.overs.append(dict(c.over(0.05)))
                        return
                    except ipc.Timeout:
                        pass
        except (OSError, ipc.Closed) as e:
            self.errors.append(repr(e))
        finally:
            s.close()

    def git(self, *args, config=(), timeout=300):
        """(exit status, its words)"""
        p = subprocess.run(
            ["git", "-c", "http.curloptResolve=github.com:%d:127.0.0.1" %
             self.port, "-c", "credential.helper=",
             *(x for c in config for x in ("-c", c)), *args],
            capture_output=True, timeout=timeout, env={
                "PATH": os.environ["PATH"], "HOME": self.home, "LC_ALL": "C",
                "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
                "GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.invalid",
                "GIT_COMMITTER_NAME": "T",
                "GIT_COMMITTER_EMAIL": "t@example.invalid"})
        return p.returncode, (p.stdout + p.stderr).decode("utf-8", "replace")

    def settled(self, timeout=10):
        """the ends of all exchanges, once they are there"""
        end = time.monotonic() + timeout
        while len(self.overs) + len(self.errors) < self.taken and \
                time.monotonic() < end:
            time.sleep(0.02)
        return self.overs

    def close(self):
        self.sock.close()
