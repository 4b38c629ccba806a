#!/usr/bin/env python3
"""The proxy alone: what opens, what is refused before a question is asked,
where it dials, what a tunnel takes, what is told of it, and grants."""
import os
import re
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import egress  # noqa: E402
import ipc  # noqa: E402
from box import Tap  # noqa: E402

t = Tap()
OID = "a" * 40


def refuses(s):
    """the kernel refuses a connection to it"""
    try:
        s.connect(3).close()
    except ConnectionRefusedError:
        return True
    return False


def ended(sock, timeout=3):
    """the other side closed it, within that time"""
    sock.settimeout(timeout)
    try:
        while sock.recv(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        return True
    except TimeoutError:
        return False
    return True


def hello_through(s, target, hello, slices=1):
    """a tunnel, then these bytes, in so many pieces; (socket, what came)"""
    status, sock, _ = s.tunnel(target)
    if status != 200:
        return sock, None
    size = max(1, len(hello) // slices)
    try:
        for i in range(0, len(hello), size):
            sock.sendall(hello[i:i + size])
            time.sleep(0.002 if slices > 1 else 0)
        sock.settimeout(5)
        return sock, sock.recv(65536)
    except (ConnectionError, TimeoutError):
        return sock, b""


# --- opening ------------------------------------------------------------------

def test_opening(ca):
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem) as p:
        s = p.sandbox()
        t.ok(refuses(s), "a held socket refuses")
        n = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] == 0 and not refuses(s),
             "PROXY_OPEN opens it", m)
        t.ok(b"BEGIN CERT" in s.trust["bundle"], "its clients get the roots")
        n = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] == 0, "a second one is answered too", m)
        n = p.ask_open("0000000000ee")
        s2 = egress.Sandbox(p, "0000000000ee")
        p.sandboxes.append(s2)
        p.ping()
        t.ok(n not in p.opened, "it may come before the socket")
        p.hand_in(s2)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] == 0 and not refuses(s2),
             "and is answered when that came", m)
        old, first = s2.listener, dict(s2.trust)
        s2.ns = egress.Netns()
        with s2.ns:
            s2.listener = socket.socket()
        s2.listener.bind(("127.0.0.1", egress.PORT))
        s2.trust.clear()
        got = p.hand_in(s2)
        t.ok(got == (0, "") and not refuses(s2),
             "a sandbox built anew goes on being open", got)
        t.ok(p.wait(lambda: s2.trust.get("root")) == first["root"],
             "with the same authority, sent again")
        old.close()
        p.end(s)
        t.ok(refuses_or_gone(s), "PROXY_CLOSE closes it")
        n = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] != 0, "an ended one is not opened again", m)
        p.trusts = "no"
        s = p.open()
        t.ok(s.error == 5 and s.reason == "no room" and refuses(s),
             "what the engine refuses stays closed", s.reason)
        p.trusts = "silent"
        s = p.sandbox()
        n = p.ask_open(s.container)
        p.ping()
        n2 = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n2))
        t.ok(m and m[0]["error"] == 16, "while it opens another is refused", m)
        p.end(s)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] == 125, "its end answers what is owed", m)
        s = p.sandbox()
        n = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n), 13)
        t.ok(m and m[0]["error"] == 110 and refuses(s),
             "a silent engine is waited for 10 s", m)
        t.ok(all(len(v) == 1 for v in p.opened.values()),
             "each is answered once", p.opened)
        s = p.sandbox()
        n = p.ask_open(s.container)
        p.ping()
        p.hang_up(egress.ENGINE)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and m[0]["error"] == 125, "the engine's end answers too", m)
    t.same(p.proc.returncode, 0, "it ends with the monitor")


def refuses_or_gone(s):
    """the test holds the socket too, so that it may listen still: then nobody
    answers"""
    try:
        with s.connect(2) as c:
            c.sendall(b"GET http://a.example/ HTTP/1.1\r\n\r\n")
            c.settimeout(0.5)
            return c.recv(1) == b""
    except (ConnectionError, TimeoutError):
        return True


def test_no_roots():
    with egress.Proxy(["allow_host a.example"], roots_pem=b"") as p:
        s = p.open()
        t.ok(s.error and "ca-certificates" in s.reason,
             "without roots nothing opens, and it says why", s.reason)
        p.policy([], roots_pem=b"-----BEGIN CERTIFICATE-----\nAAAA\n"
                 b"-----END CERTIFICATE-----\n")
        t.ok(any("was not taken" in x for x in p.log),
             "broken roots are told of", p.log)


def test_tampering(ca):
    """A sandbox that keeps its socket does odd things with it."""
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem) as p:
        good = p.open()
        s = p.open()
        s.listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                              struct.pack("ii", 1, 60))
        for _ in range(3):
            c = s.connect()
            c.sendall(b"GET http://b.example/ HTTP/1.1\r\nHost: b.example"
                      b"\r\n\r\n")
            c.close()
        s.listener.listen(1)
        t.ok(p.ping(2) and good.get("http://b.example/").status == 403,
             "options that accepted sockets inherit hold nobody up")
        s.listener.setblocking(True)
        s.connect(2)
        t.ok(p.ping(2) is not None, "nor does a socket that blocks")
        t.ok(p.denied(s, "listener_tampered"), "which is told, and closed")
        s = p.open()
        s.listener.setblocking(False)
        stolen = 0
        for _ in range(300):
            c = s.connect(2)
            try:
                s.listener.accept()[0].close()
                stolen += 1
            except BlockingIOError:
                pass
            c.close()
        t.ok(p.ping(2) is not None,
             "a sandbox may steal its own connections (%d)" % stolen)
        s = p.open()
        s.listener.shutdown(socket.SHUT_RDWR)
        t.ok(p.denied(s, "listener_tampered") and p.ping(2),
             "or shut its listener down")
        s = p.sandbox()
        s.listener.listen(1)
        n = p.ask_open(s.container)
        m = p.wait(lambda: p.opened.get(n))
        t.ok(m and not m[0]["error"] and
             s.get("http://b.example/").status == 403,
             "one that listens by itself is taken over")
        t.ok(good.get("http://b.example/").status == 403,
             "the others are served all the while")


def test_rest(ca):
    """Nothing that a sandbox or a host does makes it run without end."""
    def urgent(_server, sock):
        sock.recv(65536)
        sock.sendall(b"a")
        time.sleep(0.3)
        sock.send(b"x", socket.MSG_OOB)
        sock.sendall(b"more")
        time.sleep(5)

    hosts = {"a.example": egress.Upstream(handler=egress.echo_handler),
             "b.example": egress.Upstream(handler=urgent)}
    with egress.Proxy(["allow_host .example", "intercept_host i.example"] + [
            "resolve %s:443 127.0.0.1:%d" % (n, u.port)
            for n, u in hosts.items()], roots_pem=ca.pem) as p:
        s = p.open()
        hello = egress.client_hello("a.example")
        sock, got = hello_through(s, "a.example:443", hello)
        sock.send(b"x", socket.MSG_OOB)
        sock.sendall(b"more")
        t.ok(got and sock.recv(64) == b"more" and p.rests(),
             "urgent data of a client is passed over")
        sock, got = hello_through(s, "b.example:443",
                                  egress.client_hello("b.example"))
        t.ok(got == b"a" and sock.recv(64) == b"more" and p.rests(),
             "and that of a host")
        # of all kinds that are given by the kernel alone
        s.listener.setsockopt(socket.SOL_SOCKET, 37, 0x312)  # SO_TIMESTAMPING
        sock, got = hello_through(s, "a.example:443", hello)
        _, sock2, _ = s.tunnel("i.example:443")
        t.ok(got and sock2 and p.rests(), "so are a sandbox's time stamps")
        s = p.open()
        try:
            s.listener.setsockopt(socket.SOL_SOCKET, 42, 100)  # SO_PEEK_OFF
        except OSError:
            pass    # before Linux 6.9
        sock = s.connect()
        sock.sendall(b"GET http")
        t.ok(p.rests(), "and a place that it would have peeked at")
    for u in hosts.values():
        u.close()


def test_turns(ca):
    """New keys, which are no data, take no more than a turn."""
    with egress.Proxy(["intercept_host i.example"], roots_pem=ca.pem) as p:
        s = p.open()
        status, sock, _ = s.tunnel("i.example:443")
        try:
            keys = egress.key_updates(sock, "i.example", 30000)
        except egress.Unable as e:
            t.skip("turns", str(e))
            return
        sock.setblocking(False)
        sent = sock.send(keys)
        began = time.monotonic()
        time.sleep(0.05)
        t.ok(status == 200 and sent > len(keys) / 4 and p.ping(10) and
             time.monotonic() - began < 0.3, "a flood of keys holds nobody up",
             (sent, len(keys), time.monotonic() - began))


def test_flood(ca):
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem) as p:
        bad, good = p.open(), p.open()
        held = []
        for _ in range(256 + 60):
            held.append(bad.connect(3))
        t.ok(p.denied(bad, "too_many_connections"),
             "more connections than one may have wait, and it is told")
        began = time.monotonic()
        t.ok(good.get("http://b.example/").status == 403 and
             time.monotonic() - began < 1, "another is served at once")
        for c in held[:200]:
            c.close()
        held[-1].sendall(b"GET http://b.example/ HTTP/1.1\r\n"
                         b"Host: b.example\r\n\r\n")
        t.ok(egress.Reply(held[-1]).status == 403,
             "when there is room those that waited are served")
        for c in held[200:]:
            c.close()


def test_share(ca):
    """Some sandboxes that hold all that they may."""
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem) as p:
        bad, good = [p.open() for _ in range(6)], p.open()
        held = [b.connect(3) for b in bad for _ in range(256)]
        p.ping()
        t.same([good.get("http://b.example/").status for _ in range(3)],
               [403] * 3, "do not keep another out")
        t.same(p.open().get("http://b.example/").status, 403,
               "nor one that comes when all are taken")
        more = [good.connect(3) for _ in range(8)]
        more[-1].sendall(b"GET http://b.example/ HTTP/1.1\r\n"
                         b"Host: b.example\r\n\r\n")
        more[-1].settimeout(1)
        try:
            got = more[-1].recv(64)
        except TimeoutError:
            got = None
        t.ok(got is None, "past its own few it waits")
        for c in held[:50]:
            c.close()
        more[-1].settimeout(5)
        t.ok(more[-1].recv(64).startswith(b"HTTP/1.1 403"),
             "until some end")
        for c in held + more:
            c.close()


# --- names and addresses ----------------------------------------------------------

SPECIAL = ("127.0.0.1", "10.0.0.1", "172.16.9.9", "192.168.1.1",
           "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
           "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1", "fc00::1",
           "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
           "ff02::1", "2001:db8::1")


def test_addresses(ca, net):
    names = {"h%d.example" % i: [a] for i, a in enumerate(SPECIAL)}
    names["gone.example"] = 3
    names["none.example"] = []
    names["broken.example"] = 2
    names["own.example"] = ["93.184.216.1"]
    names["mixed.example"] = ["10.0.0.1", net.addrs[0], "::1"]
    names["real.example"] = [net.addrs[0]]
    names["six.example"] = [net.addrs[1]]
    names["lower.example"] = lambda q, k: egress.Dns.reply(
        q[:12] + q[12:-4].lower() + q[-4:], k, [net.addrs[0]])
    names["forged.example"] = lambda q, k: egress.Dns.reply(
        b"\0\0" + q[2:], k, [net.addrs[0]])
    names["other.example"] = lambda q, k: egress.Dns.reply(
        q[:12] + b"\5wrong" + q[18:], k, [net.addrs[0]])
    names["loop.example"] = lambda q, k: q[:2] + struct.pack(
        ">HHHHH", 0x8180, 1, 1, 0, 0) + q[12:] + b"\xc0\x0c" * 3
    dns = egress.Dns(names)
    up = egress.Upstream(ca, ["real.example"], at=net.addrs[0], port=443,
                         ns=net)
    up6 = egress.Upstream(ca, ["six.example"], at=net.addrs[1], port=443,
                          ns=net)
    own = egress.Upstream(at="93.184.216.1", port=443)
    with egress.Proxy(["allow_host https://.example",
                       "allow_host https://10.1.2.3",
                       "allow_host https://[::1]"], roots_pem=ca.pem) as p:
        s = p.open()
        for i, a in enumerate(SPECIAL):
            name = "h%d.example" % i
            status, sock, text = s.tunnel(name + ":443")
            t.ok(status == 403 and a in text and "address" in text,
                 "refused: a name that leads to " + a, (status, text))
            sock.close()
            if not p.denied(s, "address_refused", target="CONNECT %s:443" %
                            name, layer="address"):
                t.ok(False, "and it is told", p.records[-3:])
        for literal in ("10.1.2.3", "[::1]"):
            t.same(s.tunnel(literal + ":443")[0], 403,
                   "refused: the address itself, " + literal)
        status, _, text = s.tunnel("own.example:443")
        t.ok(status == 403 and "this host" in text and not own.connections,
             "refused: an address of this host", text)
        for name, part in (("gone", "does not exist"),
                           ("none", "has no address"),
                           ("broken", "no name server")):
            status, _, text = s.tunnel(name + ".example:443")
            t.ok(status == 502 and part in text, "%s: %s" % (name, part),
                 (status, text))
            t.ok(p.denied(s, "dns_failed", target="CONNECT %s.example:443" %
                          name), "and it is told")
        for name in ("mixed", "real", "lower"):
            status, sock, text = s.tunnel(name + ".example:443")
            t.ok(status == 200, "an ordinary address is dialled: " + name,
                 text)
            sock.close()
        t.ok(s.tunnel("six.example:443")[0] == 200, "one of IPv6 as well")
        for name in ("forged", "other", "loop"):
            t.same(s.tunnel(name + ".example:443")[0], 502,
                   "an answer that is none is not taken: " + name)
        dns.asked.clear()
        for target in ("denied.test:443", "real.example:8443",
                       "a.real.example.test:443", "10.0.0.1:443"):
            t.same(s.tunnel(target)[0], 403, "not allowed: " + target)
        t.same(s.get("http://real.example/").status, 403,
               "not allowed: another scheme")
        t.same(dns.asked, [], "what is denied asks no question")
    for x in (dns, up, up6, own):
        x.close()


# --- tunnels --------------------------------------------------------------------------

def test_tunnels(ca):
    names = ["a.example", "b.example", "127.0.0.1"]
    up = egress.Upstream(ca, names)
    echo = egress.Upstream(handler=egress.echo_handler)
    pins = ["resolve a.example:443 127.0.0.1:%d" % up.port,
            "resolve b.example:443 127.0.0.1:%d" % up.port,
            "resolve 127.0.0.1:443 127.0.0.1:%d" % up.port,
            "resolve echo.example:443 127.0.0.1:%d" % echo.port,
            "resolve dead.example:443 127.0.0.1:1"]
    allow = ["allow_host .example", "allow_host 127.0.0.1"]
    with egress.Proxy(allow + pins, roots_pem=ca.pem,
                      out_bytes=1 << 30) as p:
        s = p.open()
        status, sock, _ = s.tunnel("a.example:443")
        tls = s.tls(sock, "a.example")
        r = egress.Reply(tls, s.request("GET", "/x", host="a.example"))
        t.ok(status == 200 and r.status == 200 and
             r.body.startswith(b"hello"), "a tunnel with the right name", r)
        tls.close()
        got = p.passed(s, what="tunnel", host="a.example", port="443")
        t.ok(got and int(got[0]["out"]) > 100 and int(got[0]["in"]) > 100 and
             "end" not in got[0] and got[0]["principal"] == "tester",
             "and a record of it", got)
        for what, hello, code in (
                ("another name", egress.client_hello("b.example"),
                 "sni_mismatch"),
                ("a name below", egress.client_hello("x.a.example"),
                 "sni_mismatch"),
                ("no name", egress.client_hello(None), "sni_missing"),
                ("no TLS", b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
                 "sni_missing"),
                ("SSH", b"SSH-2.0-x\r\n" + b"x" * 40, "sni_missing")):
            names_before = list(up.names)
            sock, got = hello_through(s, "a.example:443", hello)
            t.ok(not got, "closed: a ClientHello with " + what, got)
            t.ok(p.denied(s, code, layer="sni", target="CONNECT "
                          "a.example:443"), "told as " + code)
            t.same(up.names, names_before, "and no byte of it went on")
            sock.close()
        hello = egress.client_hello("a.example")
        for what, raw, slices in (
                ("in records of one byte", egress.fragment(hello, 1), 1),
                ("in records of 7, in pieces", egress.fragment(hello, 7), 40),
                ("byte by byte", hello, len(hello))):
            sock, got = hello_through(s, "a.example:443", raw, slices)
            # OpenSSL may refuse so many records; what counts is that it heard
            t.ok(got, "passed on: the right name " + what, got)
            sock.close()
        sock, got = hello_through(s, "A.Example.:443", hello)
        t.ok(got, "names are compared in their one form")
        sock, got = hello_through(s, "127.0.0.1:443",
                                  egress.client_hello(None))
        t.ok(got, "a tunnel to an address asks for no name")
        sock, got = hello_through(s, "127.0.0.1:443",
                                  egress.client_hello("a.example"))
        t.ok(not got, "and is closed when it asks for one")
        status, _, text = s.tunnel("dead.example:443")
        t.ok(status == 502 and "cannot be reached" in text and
             p.denied(s, "connect_failed", layer="dial"),
             "what does not answer is told", (status, text))
        began = time.monotonic()
        _, sock, _ = s.tunnel("a.example:443")
        t.ok(ended(sock, 13) and 9 < time.monotonic() - began < 13,
             "a client that says nothing is waited for 10 s")
        t.ok(p.denied(s, "hello_timeout"), "and told")
        test_bytes(p, s, hello)
        test_reload(p, s, allow, pins, hello)
    up.close()
    echo.close()


def test_bytes(p, s, _hello):
    """through the echo: what is sent comes back, whole, in order"""
    hello = egress.client_hello("echo.example")
    sock, got = hello_through(s, "echo.example:443", hello)
    while len(got) < len(hello):
        got += sock.recv(65536)
    t.ok(got == hello, "the ClientHello goes on as it came")
    block = os.urandom(1 << 20)
    sent = back = 0
    wrong = False
    sock.setblocking(False)
    before = p.rss_kib()
    import select
    out = 64 << 20
    while back < out:
        r, w, _ = select.select([sock], [sock] if sent < out else [], [], 10)
        if not r and not w:
            break
        if w:
            sent += sock.send(block[sent % len(block):][:65536])
        if r:
            b = sock.recv(1 << 18)
            if not b:
                break
            while b:
                at = back % len(block)
                n = min(len(b), len(block) - at)
                wrong = wrong or b[:n] != block[at:at + n]
                b = b[n:]
                back += n
    t.ok(back >= out and not wrong, "64 MiB both ways are the same bytes",
         (sent, back, wrong))
    t.ok(p.rss_kib() - before < 4096, "with memory as before",
         (before, p.rss_kib()))
    sock.setblocking(True)
    sock.shutdown(socket.SHUT_WR)
    t.ok(ended(sock), "a half-closed tunnel ends when the other half does")


def test_reload(p, s, allow, pins, hello):
    sock, got = hello_through(s, "a.example:443", hello)
    other, got2 = hello_through(s, "b.example:443",
                                egress.client_hello("b.example"))
    p.policy(["allow_host b.example", *pins])
    began = time.monotonic()
    t.ok(got and ended(sock, 2) and time.monotonic() - began < 1,
         "a tunnel that is allowed no more ends at once")
    t.ok(p.passed(s, end="the policy does not allow it any more"),
         "and its record says why")
    t.ok(got2 and not ended(other, 0.3), "one that is allowed goes on")
    p.policy(["intercept_host b.example", *pins])
    t.ok(ended(other, 2), "until its host is led in another way")
    p.policy(allow + pins)
    sock, got = hello_through(s, "a.example:443", hello)
    there = [x for x in pins if x.startswith("resolve a.example:443 ")]
    p.policy(allow + [x for x in pins if x not in there] +
             ["resolve a.example:443 127.0.0.1:9"])
    t.ok(got and there and ended(sock, 2),
         "or until its name stands for another address")
    p.policy(["intercept_host b.example", *pins])
    p.policy(["allow_host not a host"])
    t.ok(any("was not taken" in x for x in p.log), "a bad policy is told")
    p.policy(["intercept_host b.example", "resolve x"])
    status, _, _ = s.tunnel("a.example:443")
    t.same(status, 403, "and what was before stays")
    p.policy(allow + pins)


def test_budget(ca):
    sink = egress.Upstream(handler=egress.sink_handler)
    pin = " 127.0.0.1:%d" % sink.port
    names = ["h%d.example" % i for i in range(40)]
    with egress.Proxy(["allow_host .example"] +
                      ["resolve %s:443%s" % (n, pin) for n in names],
                      roots_pem=ca.pem, out_bytes=100000) as p:
        s = p.open()

        def push(name, n):
            """send so many bytes; how many the sink has then"""
            before = getattr(sink, "taken", 0)
            status, sock, _ = s.tunnel(name + ":443")
            hello = egress.client_hello(name)
            try:
                sock.sendall(hello + b"x" * (n - len(hello)))
                sock.shutdown(socket.SHUT_WR)
                ended(sock)
            except OSError:
                pass    # it was cut off
            sock.close()
            time.sleep(0.1)
            return status, getattr(sink, "taken", 0) - before

        t.same(push("h0.example", 60000), (200, 60000), "within the budget")
        t.same(push("h0.example", 60000), (200, 40000),
               "past it a tunnel ends, whoever began before")
        t.ok(p.denied(s, "budget_used_up", layer="budget",
                      target="CONNECT h0.example:443"), "and it is told")
        t.ok(p.passed(s, end="budget_used_up"), "in its record too")
        t.same(push("h1.example", 50000)[1], 50000, "other hosts have theirs")
        for n in names[2:31]:
            push(n, 1000)
        push(names[31], 60000)
        t.same(push(names[32], 60000)[1], 40000,
               "past 31 hosts the rest share one")
        other = p.open()
        s = other
        t.same(push("h0.example", 50000)[1], 50000,
               "another sandbox has its own")
        p.policy(["allow_host .example"] +
                 ["resolve %s:443%s" % (n, pin) for n in names],
                 out_bytes=0)
        t.same(push("h3.example", 2000)[1], 0, "of nothing, nothing goes out")
    sink.close()


def test_plain_budget(ca):
    """What is sent without TLS counts as well."""
    web = egress.Upstream()
    with egress.Proxy(["allow_host a.example", "resolve a.example:80 "
                       "127.0.0.1:%d" % web.port], roots_pem=ca.pem,
                      out_bytes=100000) as p:
        s = p.open()

        def post(n, **headers):
            return s.send(s.request("POST", "http://a.example/", headers,
                                    b"x" * n)).status

        t.same(post(60000), 200, "a body within the budget")
        t.same(post(60000), 403, "one past it is refused")
        t.ok(p.denied(s, "budget_used_up", layer="budget"), "on record")
        sizes = [len(r["body"]) for r in web.requests]
        t.ok(sizes.count(60000) == 1 and sum(sizes) <= 100000,
             "and is no whole request to the host", sizes)
        t.same(s.get("http://a.example/").status, 403,
               "nor is any other, however small")
        s = p.open()
        with s.connect() as sock:
            got = [egress.Reply(sock, s.request(
                "GET", "http://a.example/" + "y" * 7000)).status
                for _ in range(15)]
        t.same((got[:14], got[14]), ([200] * 14, 403),
               "what a head says counts like a body")
    web.close()


# --- records --------------------------------------------------------------------------

def test_records(ca):
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem) as p:
        s, other = p.open(), p.open()
        for _ in range(25):
            s.get("http://no.example/x?secret=1")
        r = p.denied(s, "host_not_allowed")
        t.ok(r and r[0]["count"] == "1" and r[0]["layer"] == "policy" and
             r[0]["phase"] == "" and r[0]["verdict"] == "denied" and
             r[0]["principal"] == "tester" and "no.example" in r[0]["reason"],
             "a refusal is told at once", r)
        t.same(len(r), 1, "and once")
        t.ok("secret" not in repr(p.records), "without its query")
        r = p.wait(lambda: [x for x in p.find(s, code="host_not_allowed")
                            if x["count"] != "1"], 13)
        t.ok(r and r[0]["count"] == "24" and r[0]["first"] <= r[0]["last"] and
             re.match(r"20\d\d-.*Z$", r[0]["first"]),
             "then coalesced, with how often, first and last", r)
        before = len(p.records)
        for i in range(300):
            s.get("http://n%d.example/" % i)
        burst = len(p.records) - before
        t.ok(15 <= burst <= 100, "a flood of others is told at a bounded rate",
             burst)
        other.get("http://no.example/")
        t.ok(p.denied(other, "host_not_allowed", timeout=1),
             "while another's is told at once")
        p.end(s)
        told = lambda: sum(  # noqa: E731
            int(x.get("count", 0)) + int(x.get("dropped", 0))
            for x in p.find(s, verdict="denied"))
        p.wait(lambda: told() >= 325, 3)
        t.same(told(), 325, "and each is counted when the sandbox ends")
    with egress.Proxy(["allow_host a.example"], roots_pem=ca.pem,
                      journal=False) as p:
        s = p.open()
        for i in range(3):
            s.get("http://n%d.example/" % i)
        p.introduce(egress.JOURNALD)
        p.ping()
        s.get("http://last.example/")
        r = p.denied(s, "host_not_allowed")
        t.ok(r and r[0].get("lost_records") == "3",
             "what no journal took is counted in the next", r)


# --- grants -----------------------------------------------------------------------------

def test_grants(ca):
    with egress.Proxy(["grant_host git.example", "allow_host a.example"],
                      roots_pem=ca.pem) as p:
        s, closed = p.open(), p.sandbox()
        good = {"op": "push", "host": "git.example", "repo": "o/r",
                "ref": "refs/heads/x", "new_id": OID}
        g = p.grant(s, **good)
        t.ok(g["state"] == egress.OPEN and g["uses"] == 1, "a grant opens", g)
        t.ok(p.grant(s, ident=g["grant"], **good)["state"] == egress.REFUSED,
             "the same id is not taken twice")
        t.ok(p.grant(s, "fetch", "github.com", "o/r")["state"] == egress.OPEN,
             "GitHub is granted without an entry")
        t.ok(p.grant(s, "fetch", "github.com", "o/r", force=True)["state"] ==
             egress.REFUSED, "what only reads forces nothing")
        for what, change in (
                ("a host that is tunnelled", {"host": "a.example"}),
                ("an unknown host", {"host": "b.example"}),
                ("a host not canonical", {"host": "Git.example"}),
                ("a repository in capitals", {"repo": "O/r"}),
                ("a path", {"repo": "o/r/x"}),
                ("dots", {"repo": "o/.."}),
                ("no repository", {"repo": ""}),
                ("a ref elsewhere", {"ref": "refs/pull/1/head"}),
                ("a ref that git refuses", {"ref": "refs/heads/a..b"}),
                ("a short id", {"new_id": "abc"}),
                ("ids of two kinds", {"new_id": "b" * 64}),
                ("a deletion", {"new_id": "0" * 40}),
                ("no use", {"uses": 0}),
                ("no time", {"lifetime_ms": 0}),
                ("more than an hour", {"lifetime_ms": 3600001}),
                ("an unknown operation", {"op": 9, "ref": "", "new_id": ""}),
                ("a ref of a fetch", {"op": "fetch"}),
                ("an id that is none", {"ident": "xyz"})):
            m = p.grant(s, **{**good, **change})
            t.ok(m["state"] == egress.REFUSED and m["reason"],
                 "refused: " + what, m)
        t.ok(p.grant(closed, **good)["state"] == egress.REFUSED,
             "refused: a sandbox without egress")
        p.revoke(g["grant"])
        t.ok([m for m in p.states if m["grant"] == g["grant"] and
              m["state"] == egress.REVOKED], "one is revoked")
        g = p.grant(s, **{**good, "lifetime_ms": 200})
        t.ok(p.wait(lambda: [m for m in p.states if m["grant"] == g["grant"]
                             and m["state"] == egress.EXPIRED]),
             "one expires")
        taken = [p.grant(s, **good) for _ in range(17)]
        t.same([m["state"] for m in taken].count(egress.OPEN), 15,
               "a sandbox has 16 at most")
        p.end(s)
        t.same(len([m for m in p.states if m["state"] == egress.REVOKED]), 17,
               "all end with their sandbox")


def main():
    try:
        egress.enter()
        ca = egress.Authority()
    except egress.Unable as e:
        t.skip("egress", str(e))
        return t.done()
    test_opening(ca)
    test_no_roots()
    test_tampering(ca)
    test_rest(ca)
    test_turns(ca)
    test_flood(ca)
    test_share(ca)
    try:
        test_addresses(ca, egress.Internet())
    except egress.Unable as e:
        t.skip("addresses", str(e))
    test_tunnels(ca)
    test_budget(ca)
    test_plain_budget(ca)
    test_records(ca)
    test_grants(ca)
    return t.done()


if __name__ == "__main__":
    assert ipc
    sys.exit(main())
