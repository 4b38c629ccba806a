"""sbx-proxy alone, with the test as its monitor, its engine, its journal, its
name server, its upstreams and its sandboxes.  Nothing leaves the namespaces
that the test makes.

    import egress
    egress.enter()                  # once, first: our own network namespace;
                                    # raises egress.Unable where it is not had
    ca = egress.Authority()         # upstreams' certificates; ca.pem
    dns = egress.Dns({"a.example": ["192.0.2.7"]})
    up = egress.Upstream(ca, ["a.example"])         # TLS, counts what comes
    with egress.Proxy(["allow_host a.example",
                       "resolve a.example:443 127.0.0.1:%d" % up.port],
                      roots_pem=ca.pem) as p:
        s = p.open()                # a sandbox that has egress
        sock = s.connect()          # from inside it to the proxy
        reply = egress.Reply(sock, s.request("GET", "http://a.example/"))
        status, sock, text = s.tunnel("a.example:443")      # CONNECT
        tls = s.tls(sock, "a.example")      # trusts what the sandbox trusts
        s.popen(["curl", ...])      # a program in its network namespace
        p.policy([...])             # reload; returns when it is in force
        p.grant(s, "push", "git.example", "o/r", ref=..., new_id=...)
        p.denied(s, "sni_mismatch") # its records of that code, waits for one
        p.records                   # all: dicts of op, phase, principal,
                                    # container and the record's fields

Sockets of the test itself (servers, the proxy's upstreams) are in the
namespace of enter(), where only lo is up; a sandbox has another, with lo only.
What is not pinned by a "resolve" entry is looked up at 127.0.0.1, where a
Dns() answers; addresses that it may then dial are in Internet() alone.
"""
import ctypes
import ctypes.util
import fcntl
import os
import pwd
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

import ipc

BUILD = os.environ.get("SBX_BUILD", os.getcwd())
PROGRAM = os.path.join(BUILD, "sbx-proxy")
PORT = 3128
MONITOR, ENGINE, JOURNALD = 0, 2, 4     # of enum sbx_proc
OPS = {"fetch": 0, "push": 1, "api": 2}  # enum sbx_grant_op
OPEN, REFUSED, USED, EXPIRED, REVOKED = range(5)  # enum sbx_grant_phase
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Unable(Exception):
    """This machine or user cannot do it: skip, with this reason."""


# --- namespaces ---------------------------------------------------------------

def _call(name, *args):
    if getattr(_libc, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def _up(ifname="lo"):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", ifname.encode(), 1))


def enter():
    """Put this process into a network namespace of its own.  Before threads."""
    uid, gid = os.getuid(), os.getgid()
    try:
        if uid == 0:
            _call("unshare", CLONE_NEWNET)
        else:
            # mapped to itself, so that the proxy does not take us for root
            _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
            for name, text in (("setgroups", "deny"),
                               ("uid_map", "%d %d 1" % (uid, uid)),
                               ("gid_map", "%d %d 1" % (gid, gid))):
                with open("/proc/self/" + name, "w") as f:
                    f.write(text)
        _up()
    except OSError as e:
        raise Unable("no network namespace: %s" % e) from e


class Netns:
    """A network namespace; `with ns:` is in it (this thread alone).  A socket
    belongs to where it was made, for good."""

    def __init__(self):
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _call("unshare", CLONE_NEWNET)
            try:
                self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
                _up()
            finally:
                _call("setns", home, CLONE_NEWNET)
        finally:
            os.close(home)
        self.homes = threading.local()

    def __enter__(self):
        self.homes.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _call("setns", self.fd, CLONE_NEWNET)
        return self

    def __exit__(self, *_):
        _call("setns", self.homes.fd, CLONE_NEWNET)
        os.close(self.homes.fd)

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Internet(Netns):
    """Hosts with ordinary addresses, behind a cable: what the proxy dials when
    nothing is pinned.  In it (`with`) servers can be bound to self.addrs
    (Upstream(..., at=ADDR, ns=internet)); as root and with ip(8) only."""

    def __init__(self, addrs=("93.184.216.34", "2606:2800:220::34")):
        if os.getuid() != 0 or not shutil.which("ip"):
            raise Unable("a cable between namespaces needs root and ip(8)")
        super().__init__()
        self.addrs = addrs
        run = lambda *a: subprocess.run(["ip", *a], check=True,  # noqa: E731
                                        stdin=subprocess.DEVNULL)
        try:
            run("link", "add", "cable0", "type", "veth", "peer", "name",
                "cable1", "netns", "/proc/%d/fd/%d" % (os.getpid(), self.fd))
            run("link", "set", "cable0", "up")
            run("addr", "add", "93.184.216.1/24", "dev", "cable0")
            run("-6", "addr", "add", "2606:2800:220::1/64", "dev", "cable0",
                "nodad")
            run("route", "add", "default", "via", "93.184.216.254")
            with self:
                run("link", "set", "cable1", "up")
                for a in addrs:
                    six = ":" in a
                    run("addr", "add", a + ("/64" if six else "/24"), "dev",
                        "cable1", *(["nodad"] if six else []))
        except (OSError, subprocess.CalledProcessError) as e:
            raise Unable("no cable between namespaces: %s" % e) from e


# --- name server ----------------------------------------------------------------

class Dns:
    """A name server.  names: {"host": ["192.0.2.1", "2001:db8::1"]}, or an
    rcode (3: no such name), or None (no answer), or f(question bytes, type) ->
    the whole datagram.  Others do not exist.  asked: [(name, type)]."""

    def __init__(self, names=None, at="127.0.0.1", port=53):
        self.names = dict(names or {})
        self.asked = []
        self.delay = 0
        six = ":" in at
        self.sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET,
                                  socket.SOCK_DGRAM)
        self.sock.bind((at, port))
        threading.Thread(target=self._serve, daemon=True).start()

    @staticmethod
    def question(data):
        """(name in lower case, type, bytes of header and question)"""
        labels, pos = [], 12
        while data[pos]:
            labels.append(data[pos + 1:pos + 1 + data[pos]])
            pos += 1 + data[pos]
        kind = struct.unpack_from(">H", data, pos + 1)[0]
        return b".".join(labels).decode().lower(), kind, data[:pos + 5]

    @staticmethod
    def reply(question, kind, addrs, rcode=0, flags=0x8180):
        """A datagram with the addresses of that type (1: A, 28: AAAA)."""
        out = b""
        n = 0
        for a in addrs:
            six = ":" in a
            if (kind == 28) == six:
                raw = socket.inet_pton(socket.AF_INET6 if six else
                                       socket.AF_INET, a)
                out += struct.pack(">HHHIH", 0xc00c, kind, 1, 5,
                                   len(raw)) + raw
                n += 1
        return (question[:2] + struct.pack(">HHHHH", flags | rcode, 1, n, 0,
                                           0) + question[12:] + out)

    def _serve(self):
        while True:
            try:
                data, peer = self.sock.recvfrom(4096)
                name, kind, q = self.question(data)
            except OSError:
                return
            except (IndexError, struct.error):
                continue
            self.asked.append((name, kind))
            what = self.names.get(name, 3)
            if what is None:
                continue
            if callable(what):
                data = what(q, kind)
            elif isinstance(what, int):
                data = self.reply(q, kind, [], what)
            else:
                data = self.reply(q, kind, what)
            time.sleep(self.delay)
            try:
                self.sock.sendto(data, peer)
            except OSError:
                pass    # whoever asked has gone

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass    # it never was connected; recvfrom() wakes all the same
        self.sock.close()


# --- upstreams --------------------------------------------------------------------

class Authority:
    """A root for upstreams, by openssl(1).  pem: bytes, for roots_pem."""

    def __init__(self, name="Test Root"):
        if not shutil.which("openssl"):
            raise Unable("openssl(1) is not installed")
        self.dir = tempfile.mkdtemp(prefix="egress-ca-")
        self.n = 0
        self._openssl("req", "-x509", *self._key("root"), "-out",
                      self._path("root.pem"), "-days", "3", "-subj",
                      "/CN=" + name, "-addext",
                      "keyUsage=critical,keyCertSign,cRLSign")
        with open(self._path("root.pem"), "rb") as f:
            self.pem = f.read()

    def _path(self, name):
        return os.path.join(self.dir, name)

    def _key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", self._path(name + ".key")]

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True,
                       timeout=30)

    def issue(self, names):
        """(certificate file, key file) for those names (or addresses)."""
        self.n += 1
        n = "leaf%d" % self.n
        alt = ",".join(("IP:" if x.replace(".", "").isdigit() or ":" in x
                        else "DNS:") + x for x in names)
        with open(self._path(n + ".ext"), "w") as f:
            f.write("subjectAltName=" + alt + "\n")
        self._openssl("req", *self._key(n), "-out", self._path(n + ".csr"),
                      "-subj", "/O=test")
        self._openssl("x509", "-req", "-in", self._path(n + ".csr"), "-CA",
                      self._path("root.pem"), "-CAkey",
                      self._path("root.key"), "-CAcreateserial", "-days", "2",
                      "-extfile", self._path(n + ".ext"), "-out",
                      self._path(n + ".pem"))
        return self._path(n + ".pem"), self._path(n + ".key")

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def read_head(f):
    """(first line, {name in lower case: value}, raw bytes) of a request or an
    answer; None at the end."""
    raw = b""
    while not raw.endswith(b"\r\n\r\n"):
        line = f.readline(65537)
        if not line:
            return None
        raw += line
    lines = raw.decode("latin-1").split("\r\n")
    return lines[0], {n.strip().lower(): v.strip() for n, _, v in
                      (x.partition(":") for x in lines[1:-2])}, raw


def read_body(f, head, answer=False):
    """The body that head announces; of an answer without length, all."""
    if head.get("transfer-encoding", "").lower() == "chunked":
        out = b""
        while True:
            n = int(f.readline().split(b";")[0], 16)
            out += f.read(n)
            f.readline()
            if n == 0:
                return out
    if "content-length" in head:
        return f.read(int(head["content-length"]))
    return f.read() if answer else b""


class Upstream:
    """A server at 127.0.0.1:port, TLS if names are given.

    handler(server, socket): what one connection is; http_handler by default,
    which asks answer(request) for (status, headers, body) of each request and
    keeps them in self.requests as dicts of method, target, headers, body, raw.
    self.connections counts what was accepted, self.names what SNI said.
    """

    def __init__(self, authority=None, names=(), handler=None, answer=None,
                 at="127.0.0.1", port=0, ns=None):
        self.requests, self.connections, self.names = [], 0, []
        self.handler, self.answer = handler or http_handler, answer
        self.errors = []
        self.context = None
        if names:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*authority.issue(names))
            self.context.sni_callback = \
                lambda _s, name, _c: self.names.append(name)
        family = socket.AF_INET6 if ":" in at else socket.AF_INET
        if ns:
            with ns:
                self.sock = socket.socket(family)
        else:
            self.sock = socket.socket(family)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((at, port))
        self.sock.listen(512)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                s, _ = self.sock.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(s,),
                             daemon=True).start()

    def _one(self, s):
        try:
            s.settimeout(60)
            if self.context:
                s = self.context.wrap_socket(s, server_side=True)
            self.handler(self, s)
        except (OSError, ValueError) as e:
            self.errors.append(e)
        finally:
            s.close()

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass    # closed already
        self.sock.close()


def http_handler(server, s):
    f = s.makefile("rb")
    while True:
        head = read_head(f)
        if not head:
            return
        line, headers, raw = head
        method, target, _ = (line + "  ").split(" ", 2)
        r = {"method": method, "target": target, "headers": headers,
             "raw": raw, "body": read_body(f, headers)}
        server.requests.append(r)
        status, more, body = server.answer(r) if server.answer else (
            200, {}, b"hello from upstream\n")
        more = {"Content-Length": str(len(body)), **more}
        s.sendall(b"HTTP/1.1 %d X\r\n" % status + "".join(
            "%s: %s\r\n" % kv for kv in more.items()).encode() + b"\r\n")
        if method != "HEAD":
            s.sendall(body)


def echo_handler(_server, s):
    """sends back what comes"""
    while True:
        b = s.recv(65536)
        if not b:
            return
        s.sendall(b)


def sink_handler(server, s):
    """takes all that comes, and counts it in server.taken"""
    server.taken = getattr(server, "taken", 0)
    while True:
        b = s.recv(1 << 18)
        if not b:
            return
        server.taken += len(b)


# --- ClientHellos --------------------------------------------------------------------

def client_hello(name, **options):
    """The first bytes of a TLS client that asks for name (None: no SNI)."""
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_NONE
    if "alpn" in options:
        ctx.set_alpn_protocols(options["alpn"])
    out = ssl.MemoryBIO()
    o = ctx.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def fragment(hello, size):
    """The same message in records that carry `size` bytes each."""
    body = hello[5:]
    return b"".join(hello[:3] + struct.pack(">H", len(body[i:i + size])) +
                    body[i:i + size] for i in range(0, len(body), size))


def key_updates(sock, name, count):
    """TLS 1.3 on that socket, then the bytes of so many messages that say
    nothing but that a new key follows; they are not sent."""
    paths = [ctypes.util.find_library(x) for x in ("ssl", "crypto")]
    if None in paths:
        raise Unable("no libssl for the test")
    tls, crypto = (ctypes.CDLL(x) for x in paths)
    ptr = ctypes.c_void_p

    def new(lib, fn, *args):
        getattr(lib, fn).restype = ptr
        return ptr(getattr(lib, fn)(*args))

    s = new(tls, "SSL_new", new(tls, "SSL_CTX_new",
                                new(tls, "TLS_client_method")))
    tls.SSL_ctrl(s, 55, 0, ctypes.c_char_p(name.encode()))  # its SNI
    come, go = (new(crypto, "BIO_new", new(crypto, "BIO_s_mem"))
                for _ in range(2))
    for bio in come, go:
        crypto.BIO_ctrl(bio, 130, ctypes.c_long(-1), None)  # empty: later
    tls.SSL_set_bio(s, come, go)
    tls.SSL_set_connect_state(s)
    buf = ctypes.create_string_buffer(1 << 20)

    def made():
        out = b""
        while (n := crypto.BIO_read(go, buf, len(buf))) > 0:
            out += buf.raw[:n]
        return out

    while tls.SSL_do_handshake(s) != 1:
        sock.sendall(made())
        got = sock.recv(65536)
        if not got:
            raise OSError("closed")
        crypto.BIO_write(come, got, len(got))
    sock.sendall(made())
    for _ in range(count):
        tls.SSL_key_update(s, 0)
        tls.SSL_do_handshake(s)
    return made()


# --- the sandbox -----------------------------------------------------------------------

class Reply:
    """An answer read from a socket: status (0: none came), headers, body."""

    def __init__(self, sock, request=b"", timeout=15, head_only=False):
        self.status, self.line, self.headers, self.body = 0, "", {}, b""
        sock.settimeout(timeout)
        f = sock.makefile("rb", 0) if head_only else sock.makefile("rb")
        try:
            if request:
                sock.sendall(request)
            head = read_head(f)
            if not head:
                return
            self.line, self.headers, self.raw = head
            self.status = int(self.line.split(" ")[1])
            if not head_only and not request.startswith(b"HEAD "):
                self.body = read_body(f, self.headers, True)
        except (ConnectionError, TimeoutError, ssl.SSLError):
            pass    # status says how far it came

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def __repr__(self):
        return "%r %r" % (self.line, self.body[:300])


class Sandbox:
    """A network namespace with the socket that the proxy was handed."""

    def __init__(self, proxy, container):
        self.proxy, self.container = proxy, container
        self.principal = ""
        self.trust = {}     # bundle, root, java, authority: bytes
        self.error = None   # of PROXY_OPENED, and its reason
        self.reason = ""
        self.dir = os.path.join(proxy.dir, container)
        os.makedirs(self.dir, exist_ok=True)
        self.ns = Netns()
        with self.ns:
            self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", PORT))

    def connect(self, timeout=15):
        """A connection to the proxy from inside."""
        with self.ns:
            s = socket.socket()
        s.settimeout(timeout)
        s.connect(("127.0.0.1", PORT))
        return s

    def file(self, name):
        """Path of what the proxy sent: ca-bundle.pem, ca.pem, java.jks"""
        return os.path.join(self.dir, name)

    def env(self):
        """Variables by which usual clients find the proxy and trust it."""
        bundle = self.file("ca-bundle.pem")
        here = "http://127.0.0.1:%d" % PORT
        out = {n: bundle for n in ("SSL_CERT_FILE", "CURL_CA_BUNDLE",
                                   "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE",
                                   "PIP_CERT", "NODE_EXTRA_CA_CERTS",
                                   "CARGO_HTTP_CAINFO")}
        out.update({n: here for n in ("http_proxy", "https_proxy",
                                      "HTTP_PROXY", "HTTPS_PROXY",
                                      "all_proxy")})
        out["no_proxy"] = out["NO_PROXY"] = ""
        return out

    def popen(self, argv, env=None, **popen):
        """A program in this sandbox's network namespace (nothing else of a
        sandbox), with env() and PATH and HOME of its own."""
        full = {"PATH": os.environ.get("PATH", ""), "HOME": self.dir,
                "LC_ALL": "C.UTF-8", **self.env(), **(env or {})}

        def inside():
            ipc.die_with_parent()
            _call("setns", self.ns.fd, CLONE_NEWNET)

        return subprocess.Popen(argv, env=full, preexec_fn=inside, **popen)

    def run(self, argv, timeout=60, **popen):
        """CompletedProcess of popen(argv), with stdout and stderr as bytes"""
        p = self.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, **popen)
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
        return subprocess.CompletedProcess(argv, p.returncode, out, err)

    @staticmethod
    def request(method, target, headers=(), body=b"", host=None):
        """Bytes of a request; Host of the target unless host is given."""
        if host is None:
            host = target.split("//", 1)[-1].split("/", 1)[0]
        lines = ["%s %s HTTP/1.1" % (method, target), "Host: " + host]
        lines += ["%s: %s" % kv for kv in dict(headers).items()]
        if body:
            lines.append("Content-Length: %d" % len(body))
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body

    def send(self, raw, timeout=15):
        """Reply to raw bytes on a connection of its own, which is closed."""
        with self.connect(timeout) as s:
            return Reply(s, raw, timeout)

    def get(self, url, **headers):
        return self.send(self.request("GET", url, {
            "Connection": "close", **headers}))

    def tunnel(self, target, early=b"", timeout=25):
        """CONNECT target: (status, socket, body of a refusal)."""
        s = self.connect(timeout)
        r = Reply(s, ("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (
            target, target)).encode() + early, timeout, head_only=True)
        if r.status == 200 or not r.status:
            return r.status, s, ""
        body = b""
        try:
            n = int(r.headers.get("content-length", "65536"))
            while len(body) < n:
                b = s.recv(n - len(body))
                if not b:
                    break
                body += b
        except OSError:
            pass    # what came is what is told
        return r.status, s, body.decode("utf-8", "replace")

    def tls(self, sock, name, trust=None, alpn=("http/1.1",)):
        """TLS on that socket as a client that trusts this sandbox's bundle (or
        `trust`, PEM text) and asks for name."""
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if trust is None:
            trust = self.trust["bundle"].decode("latin-1")
        ctx.load_verify_locations(cadata=trust)
        if alpn:
            ctx.set_alpn_protocols(list(alpn))
        return ctx.wrap_socket(sock, server_hostname=name)

    def close(self):
        self.listener.close()
        self.ns.close()


# --- the proxy -------------------------------------------------------------------------

def _user():
    """as nobody where the suite's users are not installed"""
    if os.getuid() != 0:
        return {}
    try:
        pwd.getpwnam("sbx-proxy")
        return {}
    except KeyError:
        return {"user": 65534, "group": 65534, "extra_groups": []}


def _pem(data, name):
    return ipc.memfd(data if isinstance(data, bytes) else data.encode(), name)


class Proxy:
    """The program, and a thread that takes what it sends.

    entries: texts of policy ("allow_host ...", "intercept_host ...",
    "grant_host ...", "resolve HOST:PORT ADDRESS:PORT").
    trusts: how the engine answers PROXY_TRUST, "yes", "no" or "silent".
    program, debug: another build; -d, which names a refused system call.
    """

    def __init__(self, entries=(), any_host=False, out_bytes=1 << 20,
                 roots_pem=None, resolv="nameserver 127.0.0.1\n",
                 trusts="yes", program=PROGRAM, debug=False, journal=True):
        self.dir = tempfile.mkdtemp(prefix="egress-")
        os.chmod(self.dir, 0o755)
        self.records, self.log, self.states = [], [], []
        self.exchanges, self.dialled = [], {}
        self.opened, self.held, self.pongs = {}, {}, 0
        self.sandboxes, self.trusts = [], trusts
        self.changed = threading.Condition()
        self.ended = False
        if roots_pem is None:
            self.authority = Authority()
            roots_pem = self.authority.pem
        else:
            self.authority = None
        self.args = {"any_host": any_host, "out_bytes": out_bytes,
                     "roots_pem": roots_pem, "resolv": resolv}
        mine, theirs = ipc.pair()
        self.stderr = tempfile.TemporaryFile()
        self.proc = ipc.spawn(program, theirs, ["-d"] if debug else [],
                              stderr=self.stderr, **_user())
        self.monitor = ipc.Chan(mine)
        self.monitor.send("PROXY_START")
        self.hello = self.monitor.recv(10, "HELLO")
        self.engine, self.journald = None, None
        self.next_id, self.wake = 100, os.pipe()
        self.thread = threading.Thread(target=self._take, daemon=True)
        self.lock = threading.Lock()
        self.introduce(ENGINE)
        if journal:
            self.introduce(JOURNALD)
        self.thread.start()
        self.policy(entries)

    # --- channels -----------------------------------------------------------

    def introduce(self, which):
        mine, theirs = ipc.pair()
        old = self.engine if which == ENGINE else self.journald
        if which == ENGINE:
            self.engine = ipc.Chan(mine)
        else:
            self.journald = ipc.Chan(mine)
        self.monitor.send("INTRODUCE", 0, [theirs.fileno()], peer=which)
        theirs.close()
        os.write(self.wake[1], b"x")
        return old

    def hang_up(self, which):
        """That channel ends, as if its process had."""
        c = {MONITOR: self.monitor, ENGINE: self.engine,
             JOURNALD: self.journald}[which]
        c.sock.shutdown(socket.SHUT_RDWR)

    def _take(self):
        import select
        while not self.ended:
            chans = [c for c in (self.monitor, self.engine, self.journald)
                     if c and c.sock.fileno() >= 0]
            try:
                ready = select.select([self.wake[0], *chans], [], [], 1)[0]
            except (OSError, ValueError):
                continue    # one was closed meanwhile
            for c in ready:
                if c == self.wake[0]:
                    os.read(c, 4096)
                    continue
                try:
                    m = c.recv(0, keep_log=True)
                except ipc.Timeout:
                    continue
                except (ipc.Closed, OSError, ValueError):
                    c.close()
                    m = None
                with self.changed:
                    if m is not None:   # one without fields is false
                        getattr(self, "_on_" + m.name, self._other)(m)
                    self.changed.notify_all()

    def _other(self, m):
        self.log.append(repr(m))
        m.close()

    def _on_LOG(self, m):
        self.log.append(m["text"])

    def _on_PONG(self, m):
        self.pongs = max(self.pongs, m.id)
        self.state = m["state"]

    def _on_GRANT_STATE(self, m):
        self.states.append(dict(m))

    def _on_PROXY_OPENED(self, m):
        self.opened.setdefault(m.id, []).append(dict(m))

    def _on_PROXY_EXCHANGE(self, m):
        self.exchanges.append(m)

    def _on_PROXY_DIALLED(self, m):
        self.dialled[m.id] = m

    _on_PROXY_NOT_DIALLED = _on_PROXY_DIALLED

    def _on_PROXY_LISTENER_STATE(self, m):
        self.held[m["container"]] = (m["error"], m["reason"])

    def _on_PROXY_TRUST(self, m):
        for s in self.sandboxes:
            if s.container != m["container"]:
                continue
            for name, fd, path in zip(("bundle", "root", "java", "authority"),
                                      m.fds, ("ca-bundle.pem", "ca.pem",
                                              "java.jks", None)):
                s.trust[name] = ipc.read_fd(fd)
                if path:
                    with open(s.file(path), "wb") as f:
                        f.write(s.trust[name])
        m.close()
        if self.trusts != "silent":
            self.engine.send("PROXY_TRUSTED", m.id, container=m["container"],
                             error=0 if self.trusts == "yes" else 5,
                             reason="" if self.trusts == "yes" else "no room")

    def _on_JOURNAL_APPEND(self, m):
        f = m["fields"]
        r = dict(zip(f[::2], f[1::2]))
        r.update({k: m[k] for k in ("op", "phase", "principal", "container",
                                    "run", "flags")})
        r["at"] = time.monotonic()
        self.records.append(r)

    # --- what a monitor says ---------------------------------------------------

    def wait(self, condition, timeout=5):
        """condition() once it is true; its last value after the timeout"""
        with self.changed:
            self.changed.wait_for(condition, timeout)
            return condition()

    def ping(self, timeout=5):
        """All that was sent before is done.  Its state, or None."""
        with self.lock:
            self.next_id += 1
            n = self.next_id
        self.monitor.send("PING", n)
        return self.state if self.wait(lambda: self.pongs >= n,
                                       timeout) else None

    def policy(self, entries, **changes):
        """Reload; returns when it is in force."""
        self.args.update(changes)
        a = self.args
        fds = [_pem(a["roots_pem"], "roots"), _pem(a["resolv"], "resolv")]
        self.monitor.send("PROXY_POLICY", 0, fds, entries=list(entries),
                          any_host=int(a["any_host"]),
                          out_bytes=a["out_bytes"],
                          locked=a.get("locked", 0))
        for fd in fds:
            os.close(fd)
        return self.ping()

    def sandbox(self, container=None):
        """One whose socket is held and which was not opened."""
        container = container or "%012x" % random.getrandbits(48)
        s = Sandbox(self, container)
        self.sandboxes.append(s)
        self.hand_in(s)
        return s

    def hand_in(self, s):
        """As the engine: PROXY_LISTENER.  (error, reason)"""
        with self.changed:
            self.held.pop(s.container, None)
        self.engine.send("PROXY_LISTENER", 1, [s.listener.fileno()],
                         container=s.container)
        return self.wait(lambda: self.held.get(s.container))

    def ask_open(self, container, principal="tester"):
        """PROXY_OPEN; its request id"""
        with self.lock:
            self.next_id += 1
            n = self.next_id
        self.monitor.send("PROXY_OPEN", n, container=container,
                          principal=principal)
        return n

    def open(self, container=None, principal="tester", timeout=15):
        """A sandbox that has egress (or s.error and s.reason say why not)."""
        s = self.sandbox(container)
        s.principal = principal
        n = self.ask_open(s.container, principal)
        m = self.wait(lambda: self.opened.get(n), timeout)
        if not m:
            raise RuntimeError("PROXY_OPENED did not come: %r %s" % (
                self.log, self.said()))
        s.error, s.reason = m[0]["error"], m[0]["reason"]
        return s

    def end(self, s):
        """The sandbox ended: PROXY_CLOSE."""
        self.monitor.send("PROXY_CLOSE", 0, container=s.container)
        return self.ping()

    def grant(self, s, op, host, repo, ref="", old_id="0" * 40, new_id="",
              force=False, uses=1, lifetime_ms=60000, ident=None,
              credential=0):
        """GRANT_OPEN for that sandbox: its first GRANT_STATE, as a dict (state
        OPEN or REFUSED, and reason); ["grant"] is its id."""
        ident = ident or "%016x" % random.getrandbits(64)
        push = op == "push"
        before = len(self.states)
        self.monitor.send("GRANT_OPEN", 0, grant=ident, container=getattr(
            s, "container", s), op=OPS.get(op, op), host=host, repo=repo,
            ref=ref, old_id=old_id if push else "", new_id=new_id,
            force=int(force), uses=uses, lifetime_ms=lifetime_ms,
            credential=credential)
        got = self.wait(lambda: [m for m in self.states[before:]
                                 if m["grant"] == ident])
        return got[0] if got else None

    def dial(self, host, port=443, timeout=25):
        """PROXY_DIAL: PROXY_DIALLED or PROXY_NOT_DIALLED"""
        with self.lock:
            self.next_id += 1
            n = self.next_id
        self.monitor.send("PROXY_DIAL", n, host=host, port=port)
        self.wait(lambda: n in self.dialled, timeout)
        return self.dialled.get(n)

    def revoke(self, ident):
        self.monitor.send("GRANT_REVOKE", 0, grant=ident)
        return self.ping()

    # --- what it wrote -----------------------------------------------------------

    def find(self, s=None, **fields):
        """Records (of that sandbox) that have all these fields."""
        return [r for r in self.records if
                (s is None or r["container"] == s.container) and
                all(r.get(k) == v for k, v in fields.items())]

    def denied(self, s, code, timeout=3, **fields):
        """Records of refusals with that code; waits for the first."""
        return self.wait(lambda: self.find(s, op="egress", code=code,
                                           **fields), timeout)

    def passed(self, s, timeout=3, **fields):
        return self.wait(lambda: self.find(s, op="egress", phase="end",
                                           verdict="allowed", **fields),
                         timeout)

    def said(self):
        self.stderr.seek(0)
        return self.stderr.read().decode("utf-8", "replace")

    def rss_kib(self):
        with open("/proc/%d/status" % self.proc.pid) as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def cpu_s(self):
        """seconds of CPU that it has used"""
        with open("/proc/%d/stat" % self.proc.pid) as f:
            v = f.read().rsplit(")", 1)[1].split()
        return (int(v[11]) + int(v[12])) / os.sysconf("SC_CLK_TCK")

    def rests(self, seconds=1):
        """Does it wait, and not run, for so long?"""
        before = self.cpu_s()
        time.sleep(seconds)
        return self.cpu_s() - before < seconds / 10

    def close(self):
        """Its exit status."""
        try:
            self.monitor.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass    # it went first
        try:
            code = self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            code = self.proc.wait()
        self.ended = True
        os.write(self.wake[1], b"x")
        self.thread.join(2)
        for c in (self.monitor, self.engine, self.journald):
            if c:
                c.close()
        for fd in self.wake:
            os.close(fd)
        for s in self.sandboxes:
            s.close()
        if self.authority:
            self.authority.close()
        self.stderr.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            sys.stderr.write("# sbx-proxy: %s\n# %s\n" % (
                self.log[-20:], self.said()))
        self.close()
