"""What one technique is, and how it is done.

T(group, name, data, want, record, via=..., ...)

data    bytes, or a list of them (sent one after another with a pause), or a
        function(run) that does it all and returns what came of it.  TOKEN in
        it stands for text that must never reach anybody's server.
want    the status of the last answer, "close" (closed without one), a set of
        such, or whatever the function returns
record  (layer, code) of the journal's record of it; None: it is let through,
        harmless (then want says how), or nothing of it reaches the proxy
via     None: the bytes are the first that the proxy gets; ("tunnel", host):
        behind a CONNECT that was answered; ("inner", host): inside of TLS
        that the proxy ends; a third member is the SNI
control the name of a control that must pass, or the refusal means nothing
reach   True: the token may reach the good server (want says what is judged)
only    "sbx": what other proxies have not (grants, sandboxes of the suite)
"""
import socket
import ssl
import time

TOKEN = b"%TOKEN--TOKEN--%"     # as long as what it stands for
# what the journal says of what does not parse
PARSE = frozenset([("parse", "bad_request"), ("parse", "bad_host")])
ALL = []


class T:
    def __init__(self, group, name, data, want, record=None, via=None,
                 control="plain", reach=False, only=None, index=-1, **kw):
        self.group, self.name, self.data, self.want = group, name, data, want
        self.record, self.via, self.control = record, via, control
        self.reach, self.only, self.index, self.kw = reach, only, index, kw
        ALL.append(self)


class Got:
    """Everything that came back on one connection."""

    def __init__(self):
        self.raw, self.statuses, self.closed = b"", [], False
        self.text = ""

    def parse(self):
        """Statuses of the answers in raw, by their framing."""
        rest, self.statuses = self.raw, []
        while rest.startswith(b"HTTP/1."):
            head, sep, rest = rest.partition(b"\r\n\r\n")
            if not sep:
                break
            status = int(head.split(b" ", 2)[1])
            self.statuses.append(status)
            n = 0
            for line in head.lower().split(b"\r\n")[1:]:
                if line.startswith(b"content-length:"):
                    n = int(line[15:])
            if status == 100:
                self.statuses.pop()
                continue
            if b"transfer-encoding: chunked" in head.lower():
                break
            self.text = rest[:n].decode("utf-8", "replace")
            rest = rest[n:]
        return self

    def verdict(self, index=-1):
        if self.statuses:
            try:
                return self.statuses[index]
            except IndexError:
                return self.statuses[-1]
        return "close" if self.closed else "open"


PATIENCE = [3.0]     # for an answer; less with targets that never close


def take(c, got, wait=None, linger=0.12):
    """Read what comes: until it closes, or an answer and then silence."""
    end = time.monotonic() + (PATIENCE[0] if wait is None else wait)
    while True:
        left = end - time.monotonic()
        if left <= 0:
            break
        c.settimeout(left)
        try:
            b = c.recv(1 << 16)
        except (socket.timeout, ssl.SSLWantReadError):
            break
        except (OSError, ssl.SSLError):
            got.closed = True
            break
        if not b:
            got.closed = True
            break
        got.raw += b
        if b"\r\n\r\n" in got.raw:
            end = min(end, time.monotonic() + linger)
    return got.parse()


def push_out(c, data):
    """Send it, in parts if it is a list; False: the other end is gone."""
    try:
        for i, part in enumerate(data if isinstance(data, list) else [data]):
            if i:
                time.sleep(0.02)
            c.sendall(part)
    except (OSError, ssl.SSLError):
        return False
    return True


def connect_head(host, port=443, extra=b""):
    if isinstance(host, str):
        host = host.encode()
    return b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n%s\r\n" % (
        host, port, host, port, extra)


class Refused(Exception):
    """The way to where the technique begins is closed."""

    def __init__(self, got):
        super().__init__("status %s" % got.verdict())
        self.got = got


class Run:
    """One technique under way against one target."""

    def __init__(self, target, box, token, number=0):
        self.target, self.box, self.token = target, box, token
        self.number, self.world = number, target.world
        self.socks = []

    def fill(self, data):
        if isinstance(data, list):
            return [self.fill(d) for d in data]
        return data.replace(TOKEN, self.token)

    def dial(self, box=None):
        c = self.target.connect(box or self.box)
        self.socks.append(c)
        return c

    def tunnel(self, host, port=443, box=None):
        """A socket behind CONNECT."""
        c, got = self.dial(box), Got()
        c.sendall(connect_head(host, port))
        c.settimeout(5)
        while b"\r\n\r\n" not in got.raw:
            b = c.recv(1)       # not a byte of what follows
            if not b:
                got.closed = True
                break
            got.raw += b
        if got.parse().verdict() != 200:
            take(c, got)
            raise Refused(got)
        return c

    def inner(self, host, sni=None, port=443, alpn=None, box=None):
        c = self.tunnel(host, port, box)
        ctx = self.target.trust(box or self.box)
        if alpn:
            ctx.set_alpn_protocols(alpn)
        try:
            c = ctx.wrap_socket(c, server_hostname=sni or host)
        except (OSError, ssl.SSLError) as e:
            got = Got()
            got.closed, got.text = True, str(e)
            raise Refused(got) from e
        self.socks.append(c)
        return c

    def ask(self, c, data, wait=None):
        got = Got()
        push_out(c, self.fill(data))
        return take(c, got, wait)

    def begin(self, via):
        if via is None:
            return self.dial()
        if via[0] == "tunnel":
            return self.tunnel(*via[1:])
        return self.inner(*via[1:])

    def do(self, t):
        """(verdict, text)"""
        if callable(t.data):
            got = t.data(self)
            return (got.verdict(t.index), got.text) \
                if isinstance(got, Got) else (got, "")
        try:
            got = self.ask(self.begin(t.via), t.data)
        except Refused as e:
            got = e.got
        return got.verdict(t.index), got.text

    def close(self):
        for c in self.socks:
            try:
                c.close()
            except OSError:
                pass


# --- requests ---------------------------------------------------------------

def get(host, path=b"/" + TOKEN, extra=b"", method=b"GET", of=None, body=b"",
        version=b"HTTP/1.1"):
    """In absolute form, as a proxy is asked; of: Host, if it is another."""
    host = host.encode() if isinstance(host, str) else host
    of = host if of is None else of
    return method + b" http://" + host + path + b" " + version + \
        b"\r\nHost: " + of + b"\r\n" + extra + b"\r\n" + body


def origin(host, path=b"/" + TOKEN, extra=b"", method=b"GET", body=b""):
    host = host.encode() if isinstance(host, str) else host
    if body and b"ontent-Length" not in extra and b"ransfer-" not in extra:
        extra += b"Content-Length: %d\r\n" % len(body)
    return method + b" " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + \
        extra + b"\r\n" + body


def carrying(host):
    """CONNECT to what must be refused, the token in a header."""
    host = host.encode() if isinstance(host, str) else host
    return b"CONNECT " + host + b" HTTP/1.1\r\nHost: " + host + \
        b"\r\nX-Data: " + TOKEN + b"\r\n\r\n"
