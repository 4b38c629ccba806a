"""A monitor for the front's tests: it starts sbxd-front, gives it clients, and
answers its calls as a test says.  With it a small check of what the front
sends, by the facts of each revision's schema.
"""
import json
import os
import pwd
import select
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import mcprecord  # noqa: E402
from mcp import Tap  # noqa: E402,F401

FRONT = os.path.join(os.environ["SBX_BUILD"], "sbxd-front")
HANDLE = 0x1122334455667788
LEGACY = ("2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
P = "io.modelcontextprotocol/"
META = {P + "protocolVersion": MODERN, P + "clientCapabilities": {},
        P + "clientInfo": {"name": "test", "version": "1"}}


def unprivileged():
    """as nobody where the suite's users are not installed"""
    if os.geteuid() != 0:
        return {}
    try:
        pwd.getpwnam("sbx-front")
        return {}
    except KeyError:
        return {"user": 65534, "group": 65534, "extra_groups": []}


class Client:
    """A client's ends: raw bytes out, lines in."""

    def __init__(self, fd_in, fd_out):
        self.fd_in, self.fd_out = fd_in, fd_out     # we read, we write
        self.buf, self.last = b"", 0
        self.record = mcprecord.Recorder("front", fake=True)

    def raw(self, data):
        self.record.sent(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd_out, view):]

    def send(self, **message):
        self.raw(json.dumps(dict(message, jsonrpc="2.0")).encode() + b"\n")

    def line(self, timeout=5):
        """The next line, as bytes; None when none comes, b"" at the end."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buf:
            left = end - time.monotonic()
            if left < 0 or not select.select([self.fd_in], [], [], left)[0]:
                return None
            try:
                data = os.read(self.fd_in, 1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return b""
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        self.record.got(line)
        return line

    def recv(self, timeout=5):
        line = self.line(timeout)
        return json.loads(line) if line else line

    def request(self, method, params=None, timeout=5):
        self.last += 1
        self.send(id=self.last, method=method,
                  **({} if params is None else {"params": params}))
        return self.recv(timeout)

    def modern(self, method, **params):
        return self.request(method, dict(params, _meta=META))

    def initialize(self, version="2025-11-25"):
        r = self.request("initialize", {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}})
        self.send(method="notifications/initialized")
        return r

    def close(self):
        for fd in {self.fd_in, self.fd_out}:
            os.close(fd)


class Front:
    def __init__(self, profile="", stdio=True, args=()):
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(FRONT, theirs, args=args, **unprivileged())
        self.mon = ipc.Chan(mine)
        self.mon.send("FRONT_START", profile=profile)
        self.hello = self.mon.recv(want="HELLO")
        self.c = self.stdio() if stdio else None
        self.dir = None

    def stdio(self, fds=None):
        """FRONT_STDIO with two pipes (or given descriptors)"""
        r1, w1 = os.pipe()
        r2, w2 = os.pipe()
        self.mon.send("FRONT_STDIO", 0, fds or [r1, w2], principal=HANDLE,
                      name="uid:0")
        os.close(r1)
        os.close(w2)
        return Client(r2, w1)

    def listen(self):
        self.dir = tempfile.mkdtemp()
        self.path = os.path.join(self.dir, "s")
        s = socket.socket(socket.AF_UNIX)
        s.bind(self.path)
        s.listen(200)
        self.mon.send("FRONT_LISTEN", 0, [s.fileno()])
        s.close()

    def connect(self, principal=None, accept=True, first=None):
        """A connected client that the monitor accepted (or not)."""
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        if first:
            first(s)
        a = self.mon.recv(want="FRONT_AUTH")
        a.close()
        if accept:
            self.mon.send("FRONT_PRINCIPAL", conn=a["conn"],
                          principal=principal or HANDLE + a["conn"],
                          name="uid:1")
        fd = s.detach()
        c = Client(fd, fd)
        c.conn, c.handle = a["conn"], principal or HANDLE + a["conn"]
        return c

    def call(self, timeout=5):
        """The next CALL, with its arguments as .args (bytes)."""
        m = self.mon.recv(timeout, want="CALL")
        m.args = ipc.read_fd(m.fds[0])
        m.close()
        return m

    def result(self, number, data, is_error=0, seal=True):
        if not isinstance(data, (bytes, bytearray)):
            data = json.dumps(data).encode()
        fd = ipc.memfd(data, seal=seal)
        self.mon.send("CALL_RESULT", 0, [fd], call=number, kind=is_error)
        os.close(fd)

    def alive(self):
        self.mon.send("PING", 77)
        m = self.mon.recv(want="PONG")
        return m["healthy"] == 1 and m.id == 77

    def end(self):
        """Close the monitor's end; the exit status."""
        self.mon.close()
        status = self.proc.wait(5)
        if self.dir:
            os.unlink(self.path)
            os.rmdir(self.dir)
        return status


# --- what each revision's schema says of a result --------------------------

def has(o, **types):
    """{name: type}; the missing or mistyped names"""
    return [n for n, t in types.items() if not isinstance(o.get(n), t) or
            (t is int and isinstance(o.get(n), bool))]


def bad_result(rev, kind, r, cached=False):
    """What is wrong with the result of an answer r; None when nothing is."""
    if not isinstance(r, dict) or r.get("jsonrpc") != "2.0" or \
            set(r) != {"jsonrpc", "id", "result"}:
        return "envelope: %r" % (r,)
    o, bad = r["result"], []
    modern = rev == MODERN
    if modern:
        bad += has(o, resultType=str, _meta=dict)
        if o.get("resultType") != "complete":
            bad.append("resultType")
        bad += has(o.get("_meta", {}).get(P + "serverInfo", {}),
                   name=str, version=str)
        if cached:
            bad += has(o, ttlMs=int, cacheScope=str)
            if o.get("cacheScope") not in ("public", "private") or \
                    o.get("ttlMs", -1) < 0:
                bad.append("cache hints")
    if not modern and {"resultType", "ttlMs", "cacheScope"} & set(o):
        bad.append("members of a later revision")
    if not modern and "_meta" in o:
        bad.append("_meta")
    bad += {
        "initialize": lambda: has(o, protocolVersion=str, capabilities=dict,
                                  serverInfo=dict, instructions=str),
        "discover": lambda: has(o, supportedVersions=list, capabilities=dict,
                                instructions=str),
        "empty": list,
        "tools": lambda: has(o, tools=list) or [
            t.get("name") for t in o["tools"] if bad_tool(t)],
        "templates": lambda: has(o, resourceTemplates=list) or [
            t for t in o["resourceTemplates"]
            if has(t, uriTemplate=str, name=str)],
        "resources": lambda: has(o, resources=list) or [
            t for t in o["resources"] if has(t, uri=str, name=str)],
        "contents": lambda: has(o, contents=list) or [
            t for t in o["contents"] if has(t, uri=str, text=str)],
        "call": lambda: bad_call(o),
    }[kind]()
    return bad or None


def bad_tool(t):
    bad = has(t, name=str, title=str, description=str, inputSchema=dict,
              outputSchema=dict, annotations=dict)
    if not bad:
        bad = has(t["annotations"], readOnlyHint=bool, destructiveHint=bool,
                  idempotentHint=bool, openWorldHint=bool)
        bad += [s for s in ("inputSchema", "outputSchema")
                if t[s].get("type") != "object"]
    return bad + list(set(t) - {"name", "title", "description", "inputSchema",
                                "outputSchema", "annotations"})


def bad_call(o):
    bad = has(o, content=list, structuredContent=dict, isError=bool)
    if not bad and (len(o["content"]) != 1 or
                    o["content"][0].get("type") != "text" or
                    json.loads(o["content"][0]["text"]) !=
                    o["structuredContent"]):
        bad = ["the text is not the structured content"]
    return bad


def is_error(r, code, mid="absent"):
    """Is r the JSON-RPC error with that code (and id)?"""
    return isinstance(r, dict) and r.get("jsonrpc") == "2.0" and \
        isinstance(r.get("error"), dict) and r["error"].get("code") == code \
        and isinstance(r["error"].get("message"), str) and \
        "result" not in r and r.get("id", "absent") == mid
