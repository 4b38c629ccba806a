#!/usr/bin/env python3
"""The proxy's part of exchanges with a credential: what it hands on, to whom,
and what it makes of the answer.  The test is the monitor and the courier; the
client is in a network namespace with the proxy's socket."""
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress   # noqa: E402
import mcp      # noqa: E402

t = mcp.Tap()
ok = t.ok
OID, ZERO = "a" * 40, "0" * 40
REFS = "/o/r/info/refs?service=git-upload-pack"


class Host:
    """Where github.com leads to."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.settimeout(5)
        self.port = self.sock.getsockname()[1]

    def take(self):
        s, _ = self.sock.accept()
        s.settimeout(5)
        return s


class Courier:
    """What the monitor gets for one."""

    def __init__(self, p):
        p.wait(lambda: p.exchanges)
        self.m = p.exchanges.pop(0) if p.exchanges else None
        if self.m is None:
            return
        self.dialled, self.stream = (socket.socket(fileno=fd)
                                     for fd in self.m.fds)
        self.m.fds.clear()
        self.stream.settimeout(5)

    def head(self):
        got = b""
        while b"\r\n\r\n" not in got:
            b = self.stream.recv(65536)
            if not b:
                break
            got += b
        return got

    def say(self, raw=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
            b"Connection: close\r\n\r\nhi"):
        self.stream.sendall(raw)

    def close(self):
        self.dialled.close()
        self.stream.close()


class Client:
    """A connection to github.com from inside, as git's."""

    def __init__(self, s, name="github.com"):
        self.name = name
        status, sock, body = s.tunnel(name + ":443")
        if status != 200:
            raise RuntimeError("CONNECT: %s %s" % (status, body))
        self.tls = s.tls(sock, name)
        self.tls.settimeout(15)

    def ask(self, method, path, body=b"", **headers):
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + self.name]
        lines += ["%s: %s" % (k.replace("_", "-"), v)
                  for k, v in headers.items()]
        if body:
            lines.append("Content-Length: %d" % len(body))
        self.tls.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    def reply(self):
        got = b""
        while b"\r\n\r\n" not in got:
            b = self.tls.recv(65536)
            if not b:
                return 0, got.decode("latin-1")
            got += b
        head, body = got.split(b"\r\n\r\n", 1)
        n = [line.split(b":")[1] for line in head.lower().split(b"\r\n")
             if line.startswith(b"content-length:")]
        while n and len(body) < int(n[0]):
            body += self.tls.recv(65536)
        return int(head.split()[1]), body.decode("latin-1")

    def close(self):
        self.tls.close()


def place(ca, host, **more):
    return egress.Proxy(
        ["resolve github.com:443 127.0.0.1:%d" % host.port,
         "resolve api.github.com:443 127.0.0.1:%d" % host.port,
         "grant_host git.example", "allow_host tunnel.example",
         "resolve tunnel.example:443 127.0.0.1:%d" % host.port],
        roots_pem=ca.pem, **more)


def test_read(ca, host):
    with place(ca, host) as p:
        g = p.grant(p.sandbox(), "fetch", "github.com", "o/r", credential=1)
        ok(g["state"] == egress.REFUSED and "no egress" in g["reason"],
           "none for a sandbox that has no way out", g)
        s = p.open()
        for name in "tunnel.example", "evil.example":
            g = p.grant(s, "fetch", name, "o/r", credential=1)
            ok(g["state"] == egress.REFUSED and
               "none that is granted" in g["reason"], "none for " + name, g)
        g = p.grant(s, "fetch", "github.com", "o/r", uses=3, credential=1)
        ok(g["state"] == egress.OPEN, "a grant with a credential opens", g)
        c = Client(s)
        c.ask("GET", REFS, Authorization="Basic Z3Vlc3Q6c2VjcmV0",
              Git_Protocol="version=2")
        up = host.take()
        k = Courier(p)
        ok(k.m and k.m["grant"] == g["grant"] and k.m.id != 0,
           "its exchange is handed to the monitor", k.m)
        head = k.head()
        ok(head.startswith(b"GET " + REFS.encode() + b" HTTP/1.1\r\n") and
           b"Z3Vlc3Q6" not in head and b"version=2" in head,
           "the request, without what the client has as its own", head)
        k.dialled.setblocking(True)
        k.dialled.sendall(b"ping")
        ok(up.recv(9) == b"ping", "with a socket that leads to the host")
        k.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        ok(c.reply() == (200, "hi"), "its answer is the client's")
        used = [m for m in p.states if m["state"] == egress.USED]
        ok(len(used) == 1 and used[0]["uses"] == 2, "a read is a use", used)
        r = p.passed(s, what="git read")
        ok(r and r[0]["via"] == "courier" and r[0]["grant"] == g["grant"],
           "it is on record", r)
        k.close()
        up.close()
        for n in (2, 1):
            c.ask("POST", "/o/r/git-upload-pack", b"0000")
            up, k = host.take(), Courier(p)
            ok(k.m is not None and k.head().endswith(b"0000"),
               "each has a courier of its own, whatever the last one said")
            k.say()
            ok(c.reply()[0] == 200, "and its answer")
            k.close()
            up.close()
        ok([m["uses"] for m in p.states if m["state"] == egress.USED] ==
           [2, 1, 0], "until it is used up", p.states)
        for path in (REFS, "/o/other/info/refs?service=git-upload-pack"):
            c.close()
            c = Client(s)
            c.ask("GET", path)
            up = host.take()
            ok(up.recv(1) == b"\x16" and not p.exchanges,
               "without a grant it is TLS of the proxy's own")
            up.close()
        c.close()


def test_other(ca, host):
    """A grant is one sandbox's, one repository's, and of reading alone."""
    with place(ca, host) as p:
        a, b = p.open(), p.open()
        p.grant(a, "fetch", "github.com", "o/r", uses=9, credential=1)
        for s, method, path, what in (
                (b, "GET", REFS, "another sandbox"),
                (a, "GET", "/o/r2/info/refs?service=git-upload-pack",
                 "another repository"),
                (a, "GET", "/o/r/archive/main.zip", "a file"),
                (a, "GET", "/o/r/info/refs?service=git-receive-pack",
                 "a push")):
            c = Client(s)
            c.ask(method, path)
            if what == "a push":
                ok(c.reply()[0] == 403, "no credential for " + what)
            else:
                up = host.take()
                ok(up.recv(1) == b"\x16", "no credential for " + what)
                up.close()
            c.close()
        ok(not p.exchanges, "the monitor is asked for none")
        c = Client(a, "api.github.com")
        c.ask("GET", "/repos/o/r")
        up = host.take()
        ok(up.recv(1) == b"\x16" and not p.exchanges, "nor is the API")
        up.close()
        c.close()


def test_none(ca, host):
    with place(ca, host) as p:
        s = p.open()
        g = p.grant(s, "fetch", "github.com", "o/r", uses=99, credential=1)

        def one():
            c = Client(s)
            c.ask("GET", REFS)
            up = host.take()
            up.close()
            return c, Courier(p)

        for code, status in (("no_courier", 502), ("not_granted", 403),
                             ("locked", 403)):
            c, k = one()
            p.monitor.send("PROXY_NO_EXCHANGE", k.m.id, code=code,
                           reason="because\nof that")
            got = c.reply()
            ok(got[0] == status and "because\\x0aof that" in got[1],
               f"{code}: {status}, and why", got)
            ok(p.denied(s, code, layer="courier"), "on record")
            k.close()
            c.close()
        c, k = one()
        k.close()
        time.sleep(0.5)
        p.monitor.send("PROXY_NO_EXCHANGE", k.m.id, code="no_courier",
                       reason="it is full")
        got = c.reply()
        ok(got[0] == 502 and "it is full" in got[1],
           "a word that comes behind the stream's end", got)
        c.close()
        c, k = one()
        k.close()
        began = time.monotonic()
        got = c.reply()
        ok(got[0] == 502 and "closed the connection" in got[1] and
           2 < time.monotonic() - began < 8, "none that comes at all", got)
        c.close()
        c, k = one()
        p.monitor.send("PROXY_NO_EXCHANGE", k.m.id + 1000, code="x")
        k.say()
        ok(c.reply() == (200, "hi"), "a word about another is none")
        p.monitor.send("PROXY_NO_EXCHANGE", k.m.id, code="x")
        ok(p.ping() is not None, "nor is one that is late")
        k.close()
        c.close()
        c, k = one()
        k.head()
        k.say(b"garbage\r\n\r\n")
        ok(c.reply()[0] == 502, "an answer that is none")
        k.close()
        c.close()
        c = Client(s)
        p.revoke(g["grant"])
        c.ask("GET", REFS)
        up = host.take()
        ok(up.recv(1) == b"\x16", "revoked: no courier any more")
        up.close()
        c.close()


def pkt(text):
    return b"%04x" % (len(text) + 4) + text


def test_push(ca, host):
    with place(ca, host) as p:
        s = p.open()
        g = p.grant(s, "push", "github.com", "o/r", "refs/heads/x",
                    new_id=OID, credential=1)
        kind = {"Content_Type": "application/x-git-receive-pack-request"}
        c = Client(s)
        c.ask("GET", "/o/r/info/refs?service=git-receive-pack")
        up, k = host.take(), Courier(p)
        ok(k.m and k.m["grant"] == g["grant"], "the refs of a push")
        k.say()
        ok(c.reply()[0] == 200, "come by a courier")
        k.close()
        up.close()
        other = pkt(f"{ZERO} {OID} refs/heads/y\0 agent=x\n".encode())
        c.ask("POST", "/o/r/git-receive-pack", other + b"0000PACK", **kind)
        got = c.reply()
        ok(got[0] in (200, 403) and not p.exchanges,
           "another change is refused here, before any courier", got)
        c.close()
        c = Client(s)
        good = pkt(f"{ZERO} {OID} refs/heads/x\0 agent=x\n".encode()) + \
            b"0000PACK"
        c.ask("POST", "/o/r/git-receive-pack", good, **kind)
        up, k = host.take(), Courier(p)
        got = k.head()
        while good not in got:
            got += k.stream.recv(4096)
        ok(k.m["grant"] == g["grant"] and got.endswith(good),
           "the granted one goes on whole")
        k.say()
        ok(c.reply()[0] == 200, "with its answer")
        k.close()
        up.close()
        c.ask("POST", "/o/r/git-receive-pack", good, **kind)
        ok(c.reply()[0] == 403 and not p.exchanges, "once")
        c.close()


def test_dial(ca, host):
    dns = egress.Dns({"git.example": ["127.0.0.1"],
                      "uploads.github.com": ["10.1.2.3"]})
    with place(ca, host) as p:
        m = p.dial("api.github.com")
        up = host.take()
        s = socket.socket(fileno=m.fds.pop())
        s.setblocking(True)
        s.sendall(b"x")
        ok(m.name == "PROXY_DIALLED" and up.recv(9) == b"x",
           "a connection for the monitor")
        s.close()
        up.close()
        for name, port, code in (
                ("git.example", 443, "address_refused"),
                ("uploads.github.com", 443, "address_refused"),
                ("none.github.com", 443, "dns_failed"),
                ("tunnel.example", 443, "host_not_allowed"),
                ("evil.example", 443, "host_not_allowed"),
                ("pypi.org", 443, "host_not_allowed"),
                ("API.github.com", 443, "host_not_allowed"),
                ("api.github.com", 80, "host_not_allowed"),
                ("api.github.com", 0, "host_not_allowed"),
                ("api.github.com", 70000, "host_not_allowed"),
                ("169.254.169.254", 443, "host_not_allowed"),
                ("", 443, "host_not_allowed")):
            m = p.dial(name, port)
            ok(m.name == "PROXY_NOT_DIALLED" and m["code"] == code and
               m["reason"], f"not {name}:{port}: {code}", m)
        os.kill(p.proc.pid, signal.SIGSTOP)
        ids = range(90001, 90018)
        for n in ids:
            p.monitor.send("PROXY_DIAL", n, host="none.github.com", port=443)
        os.kill(p.proc.pid, signal.SIGCONT)
        p.wait(lambda: all(n in p.dialled for n in ids))
        codes = [m and m["code"] for m in map(p.dialled.get, ids)]
        ok(codes == ["dns_failed"] * 16 + ["busy"],
           "16 are under way, no more", codes)
        s = p.open()
        c = Client(s)
        p.policy(["resolve api.github.com:443 127.0.0.1:%d" % host.port],
                 locked=1)
        try:
            ended = c.tls.recv(1) == b""
        except OSError:
            ended = True
        ok(ended, "locked down: what was connected is cut")
        r = s.get("http://tunnel.example/")
        ok(r.status == 403 and "locked down" in r.text, "nothing passes", r)
        ok(s.tunnel("github.com:443")[0] == 403, "to nobody")
        ok(p.denied(s, "locked"), "on record")
        m = p.dial("api.github.com")
        ok(m.name == "PROXY_DIALLED", "tokens can be revoked all the same", m)
        p.policy(["allow_host a.example"], locked=0)
        ok(s.get("http://b.example/").status == 403 and
           not p.find(s, op="egress", code="locked", target="http://b.example"
                      ":80/"), "lifted")
    dns.close()


def main():
    try:
        egress.enter()
        ca = egress.Authority()
    except egress.Unable as e:
        t.skip("egress", str(e))
        return t.done()
    host = Host()
    for test in (test_read, test_other, test_none, test_push, test_dial):
        test(ca, host)
    ca.close()
    t.done()
    return t.bad > 0


sys.exit(main())
