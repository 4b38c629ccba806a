"""SNI, fronting, upgrades, redirects, limits: another host inside of a way
that was opened to an allowed one."""
import socket
import ssl
import struct
import time

import hello
from technique import (PARSE, T, TOKEN, Got, Refused, connect_head, get,
                       origin, push_out, take)

TUN, IN, REG = ("tunnel", "tunnel.test"), ("inner", "inner.test"), \
    ("inner", "pypi.org")
SNI = ("sni", "sni_mismatch")
SNIS = {SNI, ("sni", "sni_missing")}
POLICY = ("policy", "host_not_allowed")
HOST = ("host", "host_mismatch")

# --- SNI in a tunnel ----------------------------------------------------------------

T_ = b"t" + TOKEN      # in the hello: as a name of its own where one fits


def h(*exts, **kw):
    return hello.record(hello.with_sni(*exts, **kw))


EV = hello.sni(b"evil.test")
TN = hello.sni(b"tunnel.test")
for name, data in [
        ("an unlisted name", h(EV)),
        ("another listed name", h(hello.sni(b"a.wide.test"))),
        ("a name below the listed one", h(hello.sni(b"x.tunnel.test"))),
        ("no server_name", h()),
        ("an empty list", h((0, b"\0\0"))),
        ("an empty extension", h((0, b""))),
        ("an empty name", h(hello.sni(b""))),
        ("two names, the listed one first",
         h(hello.sni(b"tunnel.test", b"evil.test"))),
        ("two names, the listed one last",
         h(hello.sni(b"evil.test", b"tunnel.test"))),
        ("the listed name twice", h(hello.sni(b"tunnel.test",
                                              b"tunnel.test"))),
        ("two extensions, the listed one first", h(TN, EV)),
        ("two extensions, the listed one last", h(EV, TN)),
        ("a second extension at the end",
         hello.record(hello.with_sni(TN, EV, last=True))),
        ("a name of another kind", h(hello.sni(b"tunnel.test", kind=1))),
        ("another kind, then the listed name",
         h((0, struct.pack(">H", 26) + b"\1\0\11evil.test\0\0\13tunnel.test"))),
        ("NUL in the name", h(hello.sni(b"tunnel.test\0.evil.test"))),
        ("NUL, then the listed name", h(hello.sni(b"evil.test\0tunnel.test"))),
        ("a blank in the name", h(hello.sni(b"tunnel.test evil.test"))),
        ("an address", h(hello.sni(b"45.10.0.3"))),
        ("a name of 255 bytes", h(hello.sni(b"a" * 255))),
        ("a list that is longer than its extension",
         h((0, struct.pack(">H", 99) + b"\0\0\13tunnel.test"))),
        ("bytes behind the list",
         h((0, hello.sni(b"tunnel.test")[1] + b"\0\0\11evil.test"))),
        ("a name that is longer than its list",
         h((0, struct.pack(">H", 14) + b"\0\0\77tunnel.test"))),
        ("Encrypted Client Hello", h(TN, (hello.ECH, b"\0" + b"x" * 40))),
        ("Encrypted Client Hello without a name", h((hello.ECH, b"\0" * 30))),
        ("Encrypted Client Hello, GREASE of the inner kind",
         h(TN, (hello.ECH, b"\1"))),
        ("an unlisted name in records of one byte",
         hello.records(hello.with_sni(EV), 1)),
        ("an unlisted name in records of 40 bytes",
         hello.records(hello.with_sni(EV), 40)),
        ("the name's second half in another record, unlisted",
         hello.records(hello.with_sni(hello.sni(b"tunnel.test.evil.test")),
                       70)),
        ("an unlisted name, the listed one in a second hello",
         h(EV) + h(TN)),
        ("an empty record first", hello.record(b"") + h(EV)),
        ("a warning alert first, then an unlisted name",
         hello.record(b"\1\0", 21) + h(EV)),
        ("a change of cipher first", hello.record(b"\1", 20) + h(EV)),
        ("application data first", hello.record(T_, 23)),
        ("a heartbeat", hello.record(b"\1\x40\0", 24)),
        ("another handshake message first",
         hello.record(b"\0\0\0\0" + hello.with_sni(EV))),
        ("an SSLv2 hello", b"\x80\x2e\x01\0\2\0\x15\0\0\0\x10" + b"\0" * 40),
        ("an SSLv3 record", hello.record(hello.with_sni(EV), version=0x0300)),
        ("a record of a version that is none",
         hello.record(hello.with_sni(EV), version=0x0a0a)),
        ("a record of 65535 bytes", b"\x16\3\1\xff\xff" + b"x" * 400),
        ("a hello of 16 MiB, announced",
         hello.record(b"\1\xff\xff\xff" + hello.with_sni(TN)[4:])),
        ("a hello that is shorter than its extensions",
         hello.record(b"\1\0\0\x30" + hello.with_sni(TN)[4:])),
        ("a request of HTTP", origin("tunnel.test")),
        ("a banner of SSH", b"SSH-2.0-OpenSSH_9.2 " + TOKEN + b"\r\n"),
        ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + TOKEN),
        ("a PROXY header, then an unlisted name",
         b"PROXY TCP4 1.2.3.4 5.6.7.8 1 443\r\n" + h(EV)),
        ("a PROXY header, then the listed name",
         b"PROXY TCP4 1.2.3.4 5.6.7.8 1 443 \r\n" + h(TN)),
        ("the PROXY header of version 2",
         b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\1" * 12 + h(TN)),
        ("SOCKS5", b"\5\1\0" + TOKEN), ("a second CONNECT",
                                       connect_head("evil.test") + TOKEN),
        ("STARTTLS", b"EHLO x\r\nSTARTTLS\r\n" + TOKEN),
        ("git's own protocol", b"0032git-upload-pack /o/r\0host=evil.test\0" +
         TOKEN), ("zeros", b"\0" * 600), ("TOKEN and nothing else", TOKEN),
]:
    T("sni", name, data, "close", SNIS, via=TUN, control="tunnel")


def close_only(run, c, data):
    got = Got()
    push_out(c, run.fill(data))
    take(c, got)
    return "close" if got.closed and not got.statuses else got.verdict()


def segments(run):
    c = run.tunnel("tunnel.test")
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = hello.record(hello.with_sni(EV))
    push_out(c, [data[i:i + 24] for i in range(0, len(data), 24)])
    return close_only(run, c, b"")


T("sni", "an unlisted name, in many segments", segments, "close", SNIS,
  control="pieces")


def early(run):
    """The hello in the same segment as CONNECT."""
    c = run.dial()
    got = run.ask(c, connect_head("tunnel.test") + h(EV))
    return "close" if got.closed and got.statuses in ([], [200]) and \
        not got.raw.endswith(TOKEN) else got.verdict()


T("sni", "an unlisted name, sent together with CONNECT", early, "close", SNIS,
  control="tunnel")


def hello_then_more(run):
    """What follows an unlisted hello must not go on either."""
    return close_only(run, run.tunnel("tunnel.test"), h(EV) + TOKEN * 9)


T("sni", "data right behind an unlisted name", hello_then_more, "close", SNIS,
  control="tunnel")


def huge(run):
    return close_only(run, run.tunnel("tunnel.test"), hello.records(
        hello.with_sni(TN, pad=20000), 8000))


T("sni", "a hello of 20 KiB", huge, "close", SNIS | {("limit", "")},
  control="tunnel")

for host, name in [("inner.test", b"evil.test"), ("inner.test",
                                                   b"tunnel.test"),
                   ("github.com", b"pypi.org"), ("pypi.org", b"github.com"),
                   ("github.com", b"evil.test"), ("pypi.org", b"evil.test"),
                   ("github.com", b"api.github.com"),
                   ("api.github.com", b"github.com"),
                   ("github.com", b"tunnel.test")]:
    T("sni", "CONNECT %s, SNI %s" % (host, name.decode()),
      h(hello.sni(name)), "close", SNIS | {("tls", "")}, via=("tunnel", host),
      control="inner")
for name, data in [("no server_name", h()), ("NUL in it", h(hello.sni(
        b"inner.test\0.evil.test"))), ("two names", h(hello.sni(
            b"inner.test", b"evil.test"))), ("no TLS", origin("inner.test")),
                   ("SSH", b"SSH-2.0-x " + TOKEN + b"\r\n")]:
    T("sni", "to an intercepted host: " + name, data, "close",
      SNIS | {("tls", "")}, via=("tunnel", "inner.test"), control="inner")

# --- fronting: Host inside of TLS --------------------------------------------------

for host in (b"evil.test", b"tunnel.test", b"pypi.org", b"inner.test.evil.test",
             b"inner.test:8443", b"inner.test:80", b"x.inner.test",
             b"evil.test:443", b"45.10.0.3"):
    T("fronting", "Host: %s in inner.test" % host.decode(),
      origin(host), 421, HOST, via=IN, control="inner")
for host in (b"inner.test@evil.test", b"inner.test,evil.test", b"inner.test/",
             b"", b"inner.test:", b"inner.test:0443", b"inner_test",
             b"evil.test\0inner.test", b"*"):
    T("fronting", "Host: %r in inner.test" % host.decode(),
      origin(host), {400, 421}, PARSE | {HOST}, via=IN, control="inner")
for outer, host in [("github.com", b"api.github.com"),
                    ("api.github.com", b"github.com"),
                    ("github.com", b"evil.test"), ("pypi.org", b"github.com"),
                    ("pypi.org", b"crates.io"), ("github.com", b"pypi.org"),
                    ("raw.githubusercontent.com", b"github.com"),
                    ("git.test", b"github.com")]:
    T("fronting", "Host: %s in %s" % (host.decode(), outer),
      origin(host, b"/o/r.git/info/refs?service=git-upload-pack&" + TOKEN),
      421, HOST, via=("inner", outer), control="inner")
T("fronting", "another host in the second request of a connection",
  origin("inner.test", b"/ok") + origin("evil.test"), 421, HOST, via=IN,
  control="inner")
T("fronting", "absolute form inside of TLS, to another host",
  get("evil.test"), {400, 421}, PARSE | {HOST}, via=IN, control="inner")
T("fronting", "absolute form inside of TLS, Host of the right one",
  get("evil.test", of=b"inner.test"), {400, 421}, PARSE | {HOST}, via=IN,
  control="inner")
T("fronting", "absolute form inside of TLS to the same host, without TLS",
  get("inner.test"), {400, 421}, PARSE | {HOST}, via=IN, control="inner")
T("fronting", "CONNECT with a Host that is not its target",
  b"CONNECT tunnel.test:443 HTTP/1.1\r\nHost: evil.test\r\nX: " + TOKEN +
  b"\r\n\r\n", {400, 421}, PARSE | {HOST}, control="tunnel")
T("fronting", "absolute form to a listed host, Host of another listed one",
  get("plain.test", of=b"tunnel.test"), {400, 421}, PARSE | {HOST})
T("fronting", "absolute form to a listed host, Host unlisted",
  get("plain.test", of=b"evil.test"), {400, 421}, PARSE | {HOST})
T("fronting", "absolute form, Host with another port",
  get("plain.test", of=b"plain.test:8080"), {400, 421}, PARSE | {HOST})
for x in (b"X-Forwarded-Host", b"X-Host", b"X-Original-URL", b"X-Rewrite-URL",
          b"Forwarded: host=evil.test; x", b"X-Forwarded-Server"):
    T("fronting", "%s to a registry" % x.split(b":")[0].decode(),
      origin("pypi.org", b"/x", (x + b": ")[:len(x) + 2] + TOKEN + b"\r\n"),
      {200, 400, 403}, None, via=REG, control="registry")

# --- upgrades, and other protocols ---------------------------------------------------

UPG = ("gate", "upgrade")
for name, via, data in [
        ("WebSocket inside of TLS", IN,
         origin("inner.test", extra=b"Connection: Upgrade\r\nUpgrade: "
                b"websocket\r\nSec-WebSocket-Key: eA==\r\n"
                b"Sec-WebSocket-Version: 13\r\n")),
        ("WebSocket to a registry", REG,
         origin("pypi.org", extra=b"Connection: Upgrade\r\nUpgrade: "
                b"websocket\r\n")),
        ("h2c inside of TLS", IN,
         origin("inner.test", extra=b"Connection: Upgrade, HTTP2-Settings\r\n"
                b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")),
        ("h2c in plain", None,
         get("plain.test", extra=b"Connection: Upgrade, HTTP2-Settings\r\n"
             b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")),
        ("WebSocket in plain", None,
         get("plain.test", extra=b"Connection: Upgrade\r\nUpgrade: websocket"
             b"\r\n")),
        ("TLS by Upgrade", None,
         get("plain.test", extra=b"Connection: Upgrade\r\nUpgrade: TLS/1.0"
             b"\r\n")),
        ("Upgrade that Connection does not name", IN,
         origin("inner.test", extra=b"Upgrade: websocket\r\n"))]:
    T("upgrade", name, data, {400, 403, 426, 501}, UPG, via=via,
      control="inner" if via else "plain")
for name, via, data in [
        ("the preface of HTTP/2 inside of TLS", IN,
         b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + TOKEN),
        ("the preface of HTTP/2 to the proxy", None,
         b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + TOKEN),
        ("TLS to the proxy itself", None,
         hello.record(hello.with_sni(TN)) + b"\r\n\r\n"),
        ("SOCKS5 to the proxy", None, b"\5\1\0\5\1\0\3\11evil.test\1\xbb\r\n"),
        ("SOCKS4 to the proxy", None, b"\4\1\1\xbb\x2d\x0a\0\3\0\r\n\r\n"),
        ("a PROXY header to the proxy", None,
         b"PROXY TCP4 127.0.0.1 127.0.0.1 1 3128\r\n" + get("plain.test")),
        ("the PROXY header of version 2 to the proxy", None,
         b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\1" * 12 +
         get("plain.test")),
        ("RTSP", None, b"DESCRIBE rtsp://plain.test/ RTSP/1.0\r\n\r\n"),
        ("ICAP", None, b"REQMOD icap://evil.test/ ICAP/1.0\r\nHost: evil.test"
         b"\r\n\r\n"), ("FTP", None, b"USER anonymous\r\nPASS x\r\n\r\n")]:
    T("upgrade", name, data, {400, 403, 505, "close"}, PARSE,
      via=via, control="inner" if via else "plain")


def alpn(run):
    """HTTP/2 offered in TLS is not taken."""
    c = run.inner("inner.test", alpn=["h2", "http/1.1"])
    chosen = c.selected_alpn_protocol()
    got = run.ask(c, origin("inner.test", b"/x")).verdict()
    return "http/1.1" if chosen in (None, "http/1.1") and got == 200 else \
        "%s, %s" % (chosen, got)


T("upgrade", "HTTP/2 by ALPN", alpn, "http/1.1", None, control="inner",
  only="sbx")


def alpn_only(run):
    try:
        c = run.inner("inner.test", alpn=["h2"])
    except Refused:
        return "not h2"
    return "h2" if c.selected_alpn_protocol() == "h2" else "not h2"


T("upgrade", "nothing but HTTP/2 by ALPN", alpn_only, "not h2", None,
  control="inner", only="sbx")


def old_tls(version):
    def f(run):
        c = run.tunnel("inner.test")
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
        ctx.set_ciphers("ALL:@SECLEVEL=0")
        ctx.minimum_version = ctx.maximum_version = version
        try:
            c = ctx.wrap_socket(c, server_hostname="inner.test")
        except (OSError, ssl.SSLError):
            return "close"
        return c.version()
    return f


for v in ("TLSv1", "TLSv1_1"):
    T("upgrade", "%s to an intercepted host" % v,
      old_tls(getattr(ssl.TLSVersion, v)), "close", {("tls", ""), None},
      control="inner", only="sbx")

# --- redirects --------------------------------------------------------------------------


def redirect(where, via=None):
    """The server sends the client elsewhere; the client goes there."""
    def f(run):
        path = b"/redirect?" + where.replace(TOKEN, b"x")
        first = run.ask(run.begin(via), origin("inner.test", path) if via else
                        get("plain.test", path))
        if first.verdict() != 302:
            return "the first: %s" % first.verdict()
        if where.startswith(b"https"):
            host = where.split(b"/")[2]
            host += b"" if host[-1:].isdigit() and b":" in host else b":443"
            data = b"CONNECT " + host + b" HTTP/1.1\r\nHost: " + host + \
                b"\r\nX: " + TOKEN + b"\r\n\r\n"
        else:
            data = get(where.split(b"/")[2], b"/" + TOKEN)
        return run.ask(run.dial(), data)
    return f


for where in (b"http://evil.test/" + TOKEN, b"https://evil.test/" + TOKEN,
              b"http://169.254.169.254/" + TOKEN, b"http://127.0.0.1/" + TOKEN,
              b"https://[::1]/" + TOKEN):
    T("redirects", "followed to " + where.replace(TOKEN, b"").decode(), redirect(where), 403,
      POLICY)
T("redirects", "followed to another port", redirect(b"http://plain.test:8080/"),
  403, ("policy", "port_not_allowed"))
T("redirects", "from inside of TLS to an unlisted host",
  redirect(b"https://evil.test/", IN), 403, POLICY, control="inner")
T("redirects", "from https to http of the same host",
  redirect(b"http://inner.test/", IN), 403, ("policy", "port_not_allowed"),
  control="inner")

# --- limits -----------------------------------------------------------------------------

LIMIT = ("limit", "bad_request")
for name, data in [
        ("a request line of 9000 bytes", get("plain.test", b"/" + b"a" * 9000 +
                                             TOKEN)),
        ("120 headers", get("plain.test", extra=b"".join(
            b"X-%d: 1\r\n" % i for i in range(120)))),
        ("headers of 70 KiB", get("plain.test", extra=b"".join(
            b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(70)))),
        ("one header of 70 KiB", get("plain.test", extra=b"X: " +
                                     b"a" * 70000 + b"\r\n")),
        ("a head of 1 MiB that never ends", b"GET http://plain.test/ HTTP/1.1"
         b"\r\n" + b"X: y\r\n" * 175000)]:
    T("limits", name, data, {400, 413, 414, 431, "close"}, LIMIT)


def flood(run):
    """More connections than one sandbox may have: the rest waits for its own
    turn, and another sandbox does not."""
    held, other = [], run.target.box()
    try:
        held = [run.target.connect(run.box) for _ in range(256)]
        time.sleep(0.3)
        late = run.dial()
        first = run.ask(late, get("plain.test", b"/late"), 0.5).verdict()
        theirs = run.ask(run.dial(other), get("plain.test", b"/ok")).verdict()
        for c in held:
            c.close()
        del held[:]
        then = run.ask(late, b"").verdict()
    finally:
        for c in held:
            c.close()
        run.target.drop(other)
        run.target.forget(other)
    return (first, theirs, then)


T("limits", "256 idle connections, and one more", flood, ("open", 200, 200),
  ("limit", "too_many_connections"), only="sbx", reach=True)


def end_of_hello(run):
    """One that never ends, of the right name."""
    c = run.tunnel("tunnel.test")
    push_out(c, hello.record(hello.with_sni(TN)[:-40]))
    return take(c, Got(), 14).verdict()


T("sni", "a hello that never ends", end_of_hello, "close", {
    ("sni", ""), ("limit", "")}, control="tunnel", only="sbx")


def slow_head(run):
    """Idle heads do not hold anybody else up."""
    held = [run.dial() for _ in range(50)]
    for c in held:
        c.sendall(b"GET http://plain.test/ HT")
    t = time.monotonic()
    got = run.ask(run.dial(), get("plain.test", b"/ok")).verdict()
    return "goes on" if got == 200 and time.monotonic() - t < 2 else \
        "%s in %.1f s" % (got, time.monotonic() - t)


T("limits", "50 heads that never end", slow_head, "goes on", None, only="sbx")


def budget(run):
    """More bytes out of a tunnel than its budget."""
    c = run.inner("budget.test")
    sent = 0
    try:
        c.settimeout(4)
        for _ in range(48):
            c.sendall(b"x" * 65536)
            sent += 65536
    except (OSError, ssl.SSLError):
        pass
    time.sleep(0.3)
    came = sum(len(a.data) for a in run.world.arrivals(False))
    return "cut" if came <= (1 << 20) + 65536 else "%d came" % came


T("limits", "3 MiB out of a tunnel whose budget is 1 MiB", budget, "cut",
  ("budget", ""), only="sbx", control="tunnel")


def budget_again(run):
    """The budget is the sandbox's and the host's, not the tunnel's."""
    came = 0
    for _ in range(4):
        try:
            c = run.inner("budget.test")
            c.settimeout(4)
            for _ in range(12):
                c.sendall(b"x" * 65536)
        except (OSError, ssl.SSLError, Refused):
            pass
    time.sleep(0.3)
    came = sum(len(a.data) for a in run.world.arrivals(False))
    return "cut" if came <= (1 << 20) + 65536 else "%d came" % came


T("limits", "the budget in four tunnels", budget_again, "cut", ("budget", ""),
  only="sbx", control="tunnel")


def denials(run):
    """2000 refusals make few records, and none of another's late."""
    other, n = run.target.box(), 0
    try:
        for i in range(2000):
            c = run.target.connect(run.box)
            c.sendall(connect_head("h%d.evil.test" % i))
            c.settimeout(5)
            n += b" 403 " in c.recv(4096)
            c.close()
        t = time.monotonic()
        run.ask(run.dial(other), connect_head("evil.test"))
        late = not run.target.records(other, 2)
        late = late or time.monotonic() - t > 2
        few = len(run.target.records(run.box, 0))
    finally:
        run.target.drop(other)
    return "few" if n == 2000 and few <= 400 and not late else \
        "%d refused, %d records, late %s" % (n, few, late)


T("limits", "2000 refusals, and the journal", denials, "few", POLICY,
  only="sbx")
