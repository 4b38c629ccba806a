"""An Internet of a test's own, in network namespaces that end with it.

    w = World()                 # this process has moved to "the host"
    w.answers["good.test"] = ["45.10.0.2"]
    ... what proxies do here reaches w's servers ...
    w.mark(); ...; w.arrivals(), w.questions()

Three namespaces, joined by one pair of virtual wires:

    host      45.10.0.1, 2a0b::1: where the proxy runs; its loopback is a trap
    internet  GOOD serves the names that the policy allows; EVIL and every
              other address, the private ones included, belong to the attacker
    sandboxes only loopback; egress.py makes them

Whatever reaches any server is kept with the address that it came to, so that
"refused" can be told from "nothing arrived".  Names are asked of a server on
the host's 127.0.0.1:53 that keeps the questions.
"""
import ctypes
import os
import socket
import ssl
import struct
import subprocess
import tempfile
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
import egress  # noqa: E402

GOOD, EVIL = "45.10.0.2", "45.10.0.3"
LISTED = "45.10.0.4"     # good, and allowed by its number
GOOD6, EVIL6 = "2a0b::2", "2a0b::3"
HOST, HOST6 = "45.10.0.1", "2a0b::1"
# of the attacker, too: where an answer of DNS may point
TRAPS = ["10.0.0.5", "172.16.9.9", "192.168.1.1", "169.254.169.254",
         "100.64.0.1", "198.18.0.1", "192.0.0.170", "192.0.2.1",
         "198.51.100.1", "203.0.113.1", "192.88.99.1", "240.0.0.1"]
TRAPS6 = ["fd12::1", "2002:a00:5::1", "64:ff9b::a00:5", "2001:db8::1",
          "2001::5", "fec0::1"]
PORTS = [21, 22, 25, 53, 80, 443, 3128, 5432, 8000, 8443, 9418]
NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *args):
    if getattr(_libc, name)(*args) != 0:
        e = ctypes.get_errno()
        raise OSError(e, name + ": " + os.strerror(e))


def why_not():
    """None, or why there can be no such world here."""
    for tool in ("ip", "openssl"):
        if not any(os.access(os.path.join(d, tool), os.X_OK) for d in
                   os.environ["PATH"].split(":") + ["/usr/sbin", "/sbin"]):
            return "there is no " + tool
    if os.geteuid() != 0:
        return "wires between namespaces need root"
    return None


def ns_open():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Inside:
    """with Inside(fd): this thread is in that network namespace"""

    def __init__(self, fd):
        self.fd = fd

    def __enter__(self):
        self.back = ns_open()
        _call("setns", self.fd, NEWNET)

    def __exit__(self, *_):
        _call("setns", self.back, NEWNET)
        os.close(self.back)


def ip(*lines):
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    p = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n",
                       text=True, stderr=subprocess.PIPE, env=env,
                       check=False)
    if p.returncode != 0:
        raise RuntimeError("ip: " + p.stderr)


# --- certificates -----------------------------------------------------------

class Certs:
    """A public authority, and what it issued: good.pem for every name that is
    allowed here, evil.pem for the attacker's names."""

    def __init__(self, where, good, evil):
        self.dir = where
        self.ca = os.path.join(where, "ca.pem")
        key = os.path.join(where, "ca.key")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                      "-out", self.ca, "-days", "30", "-subj",
                      "/CN=Test Public Authority")
        self.good = self._issue("good", good, key)
        self.evil = self._issue("evil", evil, key)
        with open(self.ca, "rb") as f:
            self.pem = f.read()

    def _openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, cwd=self.dir,
                       stderr=subprocess.DEVNULL)

    def _issue(self, name, names, key):
        out = os.path.join(self.dir, name)
        with open(out + ".ext", "w", encoding="ascii") as f:
            f.write("basicConstraints=CA:false\nsubjectAltName=" + ",".join(
                ("IP:" if n[0].isdigit() and n[-1].isdigit() else "DNS:") + n
                for n in names) + "\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                      out + ".key", "-out", out + ".csr", "-subj",
                      "/O=" + name)
        self._openssl("x509", "-req", "-in", out + ".csr", "-CA", self.ca,
                      "-CAkey", key, "-CAcreateserial", "-days", "20",
                      "-extfile", out + ".ext", "-out", out + ".crt")
        with open(out + ".pem", "wb") as f:
            for part in (".key", ".crt"):
                with open(out + part, "rb") as g:
                    f.write(g.read())
        return out + ".pem"

    def server(self, name):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(getattr(self, name))
        return c


# --- what arrives -----------------------------------------------------------

class Arrival:
    """One connection: to = (address, port), sni, data as it was read (inside
    of TLS, where there was TLS), raw = bytes before that."""

    def __init__(self, to):
        self.to, self.sni, self.data, self.tls = to, None, b"", False
        self.spoke = False      # a byte came
        self.when = time.monotonic()
        self.closed = False

    def __repr__(self):
        return "%s:%d tls=%s sni=%r %r" % (*self.to, self.tls, self.sni,
                                           self.data[:200])


def is_evil(address, port):
    return not (address in (GOOD, GOOD6, LISTED) and port in (80, 443, 8443))


class Server(threading.Thread):
    """Accepts on sockets that were made anywhere; a thread a connection."""

    def __init__(self, world, socks):
        super().__init__(daemon=True)
        self.world, self.socks = world, socks

    def run(self):
        for s in self.socks:
            threading.Thread(target=self.accept, args=(s,),
                             daemon=True).start()

    def accept(self, s):
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,),
                             daemon=True).start()

    def serve(self, c):
        address, port = c.getsockname()[:2]
        if address.startswith("::ffff:"):
            address = address[7:]
        a = Arrival((address, port))
        self.world.arrived.append(a)
        c.settimeout(20)
        try:
            self.talk(c, a, "evil" if is_evil(address, port) else "good")
        except (OSError, ValueError, ssl.SSLError) as e:
            a.error = e
        a.closed = True
        c.close()

    def talk(self, c, a, who):
        first = c.recv(1, socket.MSG_PEEK)
        a.spoke = first != b""
        if first == b"\x16":
            ctx = self.world.certs.server(who)

            def sni(_s, name, _c):
                a.sni = name
            ctx.sni_callback = sni
            a.tls = True
            c = ctx.wrap_socket(c, server_side=True)
        handler = self.world.handlers.get(who, http_serve)
        handler(c, a, who)
        c.close()


class Reader:
    """Of a connection, what was read kept in its arrival."""

    def __init__(self, c, a):
        self.c, self.a, self.buf = c, a, b""
        self.keep = 1 << 20

    def more(self):
        b = self.c.recv(1 << 16)
        self.buf += b
        if len(self.a.data) < self.keep:
            self.a.data += b
        return b

    def until(self, mark):
        while mark not in self.buf:
            if not self.more():
                return None
        out, self.buf = self.buf.split(mark, 1)
        return out

    def exactly(self, n):
        while len(self.buf) < n:
            if not self.more():
                raise ValueError("cut")
        out, self.buf = self.buf[:n], self.buf[n:]
        return out


def read_request(r):
    """(method, target, headers, body) or None."""
    head = r.until(b"\r\n\r\n")
    if head is None:
        return None
    lines = head.split(b"\r\n")
    method, target, _ = lines[0].split(b" ", 2)
    h = {}
    for line in lines[1:]:
        k, _, v = line.partition(b":")
        h[k.strip().lower()] = v.strip()
    body = b""
    if h.get(b"expect", b"").lower() == b"100-continue":
        r.c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if h.get(b"transfer-encoding", b"").lower() == b"chunked":
        while True:
            n = int(r.until(b"\r\n").split(b";")[0], 16)
            part = r.exactly(n)
            r.exactly(2)
            if n == 0:
                break
            body += part
    else:
        body = r.exactly(int(h.get(b"content-length", b"0")))
    return method, target, h, body


def http_serve(c, a, who):
    """Answers every request with who it is and what it was asked."""
    r = Reader(c, a)
    while True:
        q = read_request(r)
        if q is None:
            return
        method, target, h, _ = q
        extra, status = b"", b"200 OK"
        if target.startswith(b"/redirect"):
            status, extra = b"302 Found", b"Location: " + \
                target.partition(b"?")[2] + b"\r\n"
        if target.startswith(b"/cookie"):
            extra = b"Set-Cookie: a=b\r\n"
        body = b"%s %s %s\n" % (who.encode(), method, target)
        c.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\n"
                  b"Content-Length: %d\r\n%s\r\n" % (len(body), extra) +
                  (b"" if method == b"HEAD" else body))
        if h.get(b"connection", b"").lower() == b"close":
            return


# --- DNS --------------------------------------------------------------------

def qname(packet):
    labels, pos = [], 12
    while packet[pos]:
        labels.append(packet[pos + 1:pos + 1 + packet[pos]].decode("latin-1"))
        pos += 1 + packet[pos]
    return ".".join(labels), pos + 1


def wire_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + \
        b"\0"


class Dns(threading.Thread):
    """answers[name] = [address or "cname NAME" ...] or a function(n) of how
    often it was asked for a type; unknown names do not exist."""

    def __init__(self, world, sock):
        super().__init__(daemon=True)
        self.world, self.sock = world, sock

    def run(self):
        while True:
            try:
                q, who = self.sock.recvfrom(4096)
                name, end = qname(q)
                kind = struct.unpack_from(">H", q, end)[0]
                self.world.asked.append((name, kind))
                self.sock.sendto(self.answer(q, name.lower(), kind, end), who)
            except (OSError, ValueError, IndexError, struct.error):
                if self.sock.fileno() < 0:
                    return

    def answer(self, q, name, kind, end):
        have = self.world.answers.get(name)
        if callable(have):
            n = self.world.turns.setdefault((name, kind), 0)
            self.world.turns[(name, kind)] = n + 1
            have = have(n)
        out, n = b"", 0
        for h in have or ():
            rr, data = None, b""
            if h.startswith("cname "):
                rr, data = 5, wire_name(h[6:])
            elif ":" in h and kind == 28:
                rr, data = 28, socket.inet_pton(socket.AF_INET6, h)
            elif ":" not in h and kind == 1:
                rr, data = 1, socket.inet_aton(h)
            if rr:
                out += b"\xc0\x0c" + struct.pack(">HHIH", rr, 1, 1,
                                                 len(data)) + data
                n += 1
        flags = 0x8580 if have is not None else 0x8583
        return q[:2] + struct.pack(">HHHHH", flags, 1, n, 0, 0) + \
            q[12:end + 4] + out


# --- the whole --------------------------------------------------------------

class World:
    def __init__(self, good, evil):
        self.dir = tempfile.mkdtemp(prefix="sbx-world.")
        os.chmod(self.dir, 0o755)
        self.arrived, self.asked, self.turns = [], [], {}
        self.handlers = {}
        self.answers = {}
        for n in good:
            self.answers[n] = [GOOD]
        for n in evil:
            self.answers[n] = [EVIL]
        self.certs = Certs(self.dir, good, list(evil) + [EVIL])
        egress.enter()
        self.internet = ns_open()
        ip(*["addr add %s/32 dev lo" % a for a in TRAPS],
           *["addr add %s/128 dev lo" % a for a in TRAPS6])
        _call("unshare", NEWNET)
        self.host = ns_open()
        ip("link set lo up", "link add out type veth peer name in netns "
           "/proc/%d/fd/%d" % (os.getpid(), self.internet))
        self._wire()
        self._serve()
        self.mark()

    def _wire(self):
        addrs = lambda v4, v6: ["addr add %s/24 dev %%s" % a for a in v4] + \
            ["addr add %s/64 dev %%s nodad" % a for a in v6]
        with Inside(self.internet):
            ip(*[x % "in" for x in addrs([GOOD, EVIL, LISTED],
                                     [GOOD6, EVIL6])],
               "link set in up")
        ip(*[x % "out" for x in addrs([HOST], [HOST6])], "link set out up",
           "route add default via " + GOOD,
           "route add default via " + GOOD6)

    def _listen(self, family, address, ports):
        out = []
        for port in ports:
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, port))
            s.listen(512)
            out.append(s)
        return out

    def _serve(self):
        with Inside(self.internet):
            socks = self._listen(socket.AF_INET, "0.0.0.0", PORTS) + \
                self._listen(socket.AF_INET6, "::", PORTS)
        # what listens on the host itself must not be reached either
        ports = [p for p in PORTS if p != 3128]
        socks += self._listen(socket.AF_INET, "0.0.0.0", ports)
        socks += self._listen(socket.AF_INET6, "::", ports)
        Server(self, socks).start()
        with Inside(self.internet):
            self._sink("0.0.0.0", socket.AF_INET)
            self._sink("::", socket.AF_INET6)
        self._sink(HOST, socket.AF_INET)
        self._sink(HOST6, socket.AF_INET6)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 53))
        Dns(self, s).start()

    def _sink(self, address, family):
        """Datagrams have no business anywhere."""
        for port in (53, 67, 443, 5353):
            s = socket.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, port))
            threading.Thread(target=self._swallow, args=(s, port),
                             daemon=True).start()

    def _swallow(self, s, port):
        while True:
            try:
                data, _ = s.recvfrom(1 << 16)
            except OSError:
                return
            a = Arrival(("udp", port))
            a.data = data
            self.arrived.append(a)

    def mark(self):
        """From now on."""
        self.at = len(self.arrived), len(self.asked)

    def arrivals(self, evil=None):
        return [a for a in self.arrived[self.at[0]:]
                if evil is None or is_evil(*a.to) == evil]

    def questions(self):
        return [n for n, _ in self.asked[self.at[1]:]]

    def close(self):
        subprocess.run(["rm", "-rf", "--", self.dir], check=False)
