"""A host of git repositories, over TLS, in a World: `git http-backend` behind
a small server, which streams both ways.

    host = GitHost(world, root)         # root/o/r.git
    host.seen                           # [(method, target, headers)]
"""
import os
import subprocess
import threading

import world

BACKEND = "git"


class Body:
    """A request's body as it comes, decoded from its chunks."""

    def __init__(self, r, headers):
        self.r, self.n = r, 0
        self.chunked = headers.get(b"transfer-encoding", b"") == b"chunked"
        self.left = int(headers.get(b"content-length", b"0"))

    def part(self):
        if not self.chunked:
            if self.left == 0:
                return b""
            b = self.some(self.left)
            self.left -= len(b)
        else:
            if self.left == 0:
                self.left = int(self.r.until(b"\r\n"), 16)
                if self.left == 0:
                    self.r.exactly(2)
                    self.chunked = False
                    return b""
            b = self.some(self.left)
            self.left -= len(b)
            if self.left == 0:
                self.r.exactly(2)
        self.n += len(b)
        return b

    def some(self, most):
        if not self.r.buf and not self.r.more():
            raise ValueError("cut")
        b, self.r.buf = self.r.buf[:most], self.r.buf[most:]
        return b


class GitHost:
    def __init__(self, w, root, who="good"):
        self.root, self.seen, self.lock = root, [], threading.Lock()
        w.handlers[who] = self.serve

    def serve(self, c, a, _who):
        c.settimeout(120)
        r = world.Reader(c, a)
        r.keep = 1 << 16
        while True:
            head = r.until(b"\r\n\r\n")
            if head is None:
                return
            lines = head.split(b"\r\n")
            method, target, _ = lines[0].split(b" ", 2)
            h = {}
            for line in lines[1:]:
                k, _, v = line.partition(b":")
                h[k.strip().lower()] = v.strip()
            with self.lock:
                self.seen.append((method, target, h))
            if h.get(b"expect", b"").lower() == b"100-continue":
                c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.answer(c, method, target, h, Body(r, h))

    def answer(self, c, method, target, h, body):
        path, _, query = target.decode().partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.root,
               "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": method.decode(),
               "REMOTE_ADDR": "192.0.2.9", "REMOTE_USER": "tester",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*", "HOME": "/nonexistent"}
        for name, key in ((b"content-type", "CONTENT_TYPE"),
                          (b"content-encoding", "HTTP_CONTENT_ENCODING"),
                          (b"git-protocol", "GIT_PROTOCOL")):
            if name in h:
                env[key] = h[name].decode()
        if b"content-length" in h:
            env["CONTENT_LENGTH"] = h[b"content-length"].decode()
        p = subprocess.Popen([BACKEND, "http-backend"], env=env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        feeder = threading.Thread(target=self.feed, args=(p, body),
                                  daemon=True)
        feeder.start()
        out = b""
        while b"\r\n\r\n" not in out:
            b = p.stdout.read1(1 << 16)
            if not b:
                break
            out += b
        head, _, rest = out.partition(b"\r\n\r\n")
        status, lines = b"200 OK", []
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"status:"):
                status = line[7:].strip()
            elif line:
                lines.append(line)
        c.sendall(b"HTTP/1.1 " + status + b"\r\n" + b"".join(
            x + b"\r\n" for x in lines) + b"Transfer-Encoding: chunked\r\n\r\n")
        while rest or (rest := p.stdout.read1(1 << 16)):
            c.sendall(b"%x\r\n" % len(rest) + rest + b"\r\n")
            rest = b""
        c.sendall(b"0\r\n\r\n")
        p.stdout.close()
        p.wait()
        feeder.join(30)

    @staticmethod
    def feed(p, body):
        gone = False
        try:
            while True:
                b = body.part()
                if not b:
                    break
                if not gone:
                    try:
                        p.stdin.write(b)
                    except OSError:
                        gone = True     # what is left is read all the same
            p.stdin.close()
        except (OSError, ValueError):
            p.stdin.close()
