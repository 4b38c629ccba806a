#!/usr/bin/env python3
"""What clients are told of when it changes: subscriptions of every revision,
over stdio and HTTP, of one's own runs only, and nothing after their end."""
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from web import BOTH, Daemon, Http, META, MODERN, two  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
ID = "io.modelcontextprotocol/subscriptionId"
UPDATED = "notifications/resources/updated"
ACK = "notifications/subscriptions/acknowledged"


def uri_of(run, stream="stdout"):
    return f"sbx://run/{run}/{stream}"


def notes(c, seconds):
    """all that comes within so long, and did before"""
    until = time.monotonic() + seconds
    while True:
        try:
            c.notes.append(c.recv(max(0.01, until - time.monotonic())))
        except mcp.Closed:
            out, c.notes = c.notes, []
            return [n for n in out if "method" in n]


def updates(c, seconds):
    return [n["params"] for n in notes(c, seconds) if n["method"] == UPDATED]


def wait_update(c, seconds=15):
    """the first update, or None"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        got = updates(c, 0.2)
        if got:
            return got[0]
    return None


def job(c, box, command):
    return c.call("sandbox_exec_background", container_id=box,
                  commands=[command])["job_id"]


def end(c, box, run):
    c.call("sandbox_exec", container_id=box, commands=[f"touch /tmp/{run}"])


def waiting(name):
    """a command that ends when end(name) says so"""
    return f"while [ ! -e /tmp/{name} ]; do sleep 0.05; done; echo over"


def error(c, method, **params):
    return c.answer(c.start(method, params)).get("error", {})


def test_stdio():
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", image="host")["container_id"]
        run = job(s, box, waiting("a"))
        ok(error(s, "resources/subscribe", uri=uri_of("0" * 16))
           .get("code") == -32002, "a run that is not there: refused")
        ok(error(s, "resources/subscribe", uri="file:///etc/passwd")
           .get("code") == -32002, "no resource at all: refused")
        ok(error(s, "resources/subscribe").get("code") == -32602 and
           error(s, "resources/unsubscribe").get("code") == -32602,
           "without uri: invalid params")
        for stream in ("stdout", "stderr", "stdout"):
            r = s.request("resources/subscribe", {"uri": uri_of(run, stream)})
            ok(r == {}, f"{stream}: an empty result", r)
        s.request("resources/unsubscribe", {"uri": uri_of(run, "stderr")})
        r = s.request("resources/unsubscribe", {"uri": "x:y"})
        ok(r == {}, "unsubscribing what is not subscribed is no error", r)
        ok(updates(s, 0.5) == [], "nothing before anything changes")
        end(s, box, "a")
        ok(wait_update(s) == {"uri": uri_of(run)},
           "its end is told, of what is subscribed still, once")
        ok(updates(s, 0.5) == [], "and not again")
        text = s.request("resources/read", {"uri": uri_of(run)})
        ok(text["contents"][0]["text"] == "over\n", "it can be read then",
           text)

        run = job(s, box, "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; "
                  "done")
        s.request("resources/subscribe", {"uri": uri_of(run)})
        first = wait_update(s)
        began = time.monotonic()
        second = wait_update(s)
        took = time.monotonic() - began
        ok(first == second == {"uri": uri_of(run)} and took > 1.5,
           "growth is told, not more often than every two seconds", took)
        s.request("resources/unsubscribe", {"uri": uri_of(run)})
        ok(updates(s, 3) == [], "nothing after unsubscribing")
        s.call("sandbox_exec_kill", job_id=run)
        ok(updates(s, 1) == [], "its end neither")

        run = job(s, box, waiting("limit"))
        codes = [error(s, "resources/subscribe",
                       uri=uri_of(run) + f"?offset={i}").get("code")
                 for i in range(65)]
        ok(codes == [None] * 64 + [-32603], "a client has 64 at most",
           codes[-3:])
        end(s, box, "limit")
        got = []
        until = time.monotonic() + 15
        while len(got) < 64 and time.monotonic() < until:
            got += updates(s, 0.3)
        ok(sorted(g["uri"] for g in got) == sorted(
            uri_of(run) + f"?offset={i}" for i in range(64)),
           "each is told by its own URI", len(got))
        s.call("sandbox_stop", container_id=box, force=True)


def test_race():
    """A run that ends while it is being subscribed is told of."""
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", image="host")["container_id"]
        missed = 0
        for i in range(20):
            run = job(s, box, f"sleep 0.{i:02}")
            a = s.answer(s.start("resources/subscribe",
                                 {"uri": uri_of(run)}))
            until = time.monotonic() + 5
            told = False
            while not told and time.monotonic() < until:
                told = any(u["uri"] == uri_of(run) for u in updates(s, 0.05))
                if s.call("sandbox_exec_check", job_id=run)["status"] != \
                        "running" and not told:
                    told = any(u["uri"] == uri_of(run)
                               for u in updates(s, 0.3))
                    break
            # it had ended before: then reading is enough
            checked = s.call("sandbox_exec_check", job_id=run)
            missed += not told and "error" not in a and \
                checked["status"] == "running"
        ok(missed == 0, "no end is missed that comes after the answer",
           missed)
        s.call("sandbox_stop", container_id=box, force=True)


def listen(c, **notifications):
    number = c.start("subscriptions/listen", {
        "_meta": META, "notifications": notifications})
    until = time.monotonic() + 15
    while time.monotonic() < until:
        m = c.recv(15)
        if m.get("method") == ACK or m.get("id") == number:
            return number, m
        c.notes.append(m)
    return number, None


def test_listen():
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", image="host")["container_id"]
        found = s.request("server/discover", {"_meta": META})
        ok(found["capabilities"]["resources"] == {"subscribe": True},
           "the capability is declared", found["capabilities"])
        run = job(s, box, waiting("b"))
        one, ack = listen(s, toolsListChanged=True, unknown=7,
                          resourceSubscriptions=[
                              uri_of(run), uri_of("0" * 16), "nothing"])
        ok(ack["params"] == {"_meta": {ID: one}, "notifications": {
            "resourceSubscriptions": [uri_of(run)]}},
           "what is honoured is repeated, the rest left out", ack)
        two, ack = listen(s)
        ok(ack["params"] == {"_meta": {ID: two}, "notifications": {}},
           "one that asks for nothing listens too", ack)
        three, ack = listen(s, resourceSubscriptions=[uri_of(run)])
        ok(ack["params"]["_meta"] == {ID: three}, "several at once", ack)
        for bad in ("x", [7], ["x"] * 65, ["x" * 1025]):
            m = listen(s, resourceSubscriptions=bad)[1]
            ok(m.get("error", {}).get("code") == -32602,
               "a bad filter: invalid params", m)
        s.notify("notifications/cancelled", {"requestId": three})
        end(s, box, "b")
        got = []
        until = time.monotonic() + 15
        while not got and time.monotonic() < until:
            got = updates(s, 0.3)
        got += updates(s, 0.5)
        ok(got == [{"_meta": {ID: one}, "uri": uri_of(run)}],
           "told once, by the id of the request that is not cancelled", got)
        s.call("sandbox_stop", container_id=box, force=True)
        s.proc.send_signal(signal.SIGTERM)
        ended = {}
        try:
            while True:
                m = s.recv(10)
                ended[m.get("id")] = m
        except mcp.Closed:
            pass
        ok(all(n in ended and ended[n]["result"] == {
            "resultType": "complete", "_meta": {ID: n}} for n in (one, two))
           and three not in ended, "the server's end closes them gracefully",
           ended)


class Events:
    """A stream of events, read as they come."""

    def __init__(self, d, token, method, body=None, **headers):
        h = {"Host": "localhost", "Accept": BOTH,
             "Authorization": "Bearer " + token, **headers}
        text = "" if body is None else json.dumps(body)
        if body is not None:
            h["Content-Type"] = "application/json"
            h["Content-Length"] = str(len(text))
        self.s = socket.create_connection(("127.0.0.1", d.port), 10)
        self.s.sendall((f"{method} /mcp HTTP/1.1\r\n" + "".join(
            f"{k.replace('_', '-')}: {v}\r\n" for k, v in h.items()) +
            "\r\n" + text).encode())
        self.buf = b""

    def next(self, seconds=15):
        """a message's JSON, or None"""
        until = time.monotonic() + seconds
        while True:
            while b"\n" in self.buf:
                line, self.buf = self.buf.split(b"\n", 1)
                if line.startswith(b"data: {"):
                    return json.loads(line[6:])
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.s.settimeout(left)
            try:
                data = self.s.recv(65536)
            except socket.timeout:
                return None
            if not data:
                return None
            self.buf += data

    def close(self):
        self.s.close()


def test_http():
    d = Daemon()
    try:
        alice, bob = two(d, "2025-11-25", "2024-11-05")
        cid = alice.result("sandbox_initialize", image="host")["container_id"]
        run = alice.result("sandbox_exec_background", container_id=cid,
                           commands=[waiting("c")])["job_id"]
        uri = uri_of(run)
        a = alice.rpc("resources/subscribe", {"uri": uri})[1]
        ok(a.get("result") == {}, "a session subscribes", a)
        a = bob.rpc("resources/subscribe", {"uri": uri})[1]
        b = bob.rpc("resources/subscribe", {"uri": uri_of("0" * 16)})[1]
        ok(a["error"]["code"] == -32002 and a["error"] == b["error"],
           "another's run is as one that is not there", a)
        streams = {
            "alice": Events(d, alice.token, "GET",
                            Mcp_Session_Id=alice.session),
            "bob": Events(d, bob.token, "GET", Mcp_Session_Id=bob.session)}
        body = {"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen",
                "params": {"_meta": META, "notifications": {
                    "resourceSubscriptions": [uri]}}}
        modern = {"MCP_Protocol_Version": MODERN,
                  "Mcp_Method": "subscriptions/listen"}
        for who, token in (("a", alice.token), ("b", bob.token)):
            streams["listen " + who] = Events(d, token, "POST", body,
                                              **modern)
        gone = Events(d, alice.token, "POST", dict(body, id="gone"), **modern)
        m = gone.next()
        ok(m["method"] == ACK, "a listening request over HTTP", m)
        gone.close()
        m = streams["listen a"].next()
        ok(m["params"] == {"_meta": {ID: "L"}, "notifications": {
            "resourceSubscriptions": [uri]}}, "acknowledged", m)
        m = streams["listen b"].next()
        ok(m["params"]["notifications"] == {},
           "another principal's listens to nothing", m)
        alice.result("sandbox_exec", container_id=cid,
                     commands=["touch /tmp/c"])
        m = streams["alice"].next()
        ok(m == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}},
           "told on the session's stream", m)
        m = streams["listen a"].next()
        ok(m == {"jsonrpc": "2.0", "method": UPDATED, "params": {
            "_meta": {ID: "L"}, "uri": uri}}, "and on the listening one", m)
        ok([s.next(1) for s in streams.values()] == [None] * 4,
           "and nothing else anywhere")
        ok(alice.rpc("ping")[0] == 200 and bob.rpc("ping")[0] == 200,
           "one whose stream has gone harms nobody")

        # the session's end is its subscriptions' end
        run = alice.result("sandbox_exec_background", container_id=cid,
                           commands=[waiting("d")])["job_id"]
        alice.rpc("resources/subscribe", {"uri": uri_of(run)})
        streams["alice"].close()
        short = alice.result("sandbox_exec_background", container_id=cid,
                             commands=[waiting("f")])["job_id"]
        alice.rpc("resources/subscribe", {"uri": uri_of(short)})
        alice.result("sandbox_exec", container_id=cid,
                     commands=["touch /tmp/f; sleep 1"])
        for want in ({"uri": uri_of(short)}, None):
            later = Events(d, alice.token, "GET", Mcp_Session_Id=alice.session)
            m = later.next(5 if want else 1)
            ok((m and m["params"]) == want, "what nobody could hear is told "
               "when a stream is opened, once", m)
            later.close()
            time.sleep(0.3)
        ok(alice.ask("DELETE")[0] == 204, "a session ends")
        alice.session = None
        alice.initialize()
        again = Events(d, alice.token, "GET", Mcp_Session_Id=alice.session)
        alice.result("sandbox_exec", container_id=cid,
                     commands=["touch /tmp/d"])
        ok(again.next(1.5) is None, "and its subscriptions with it")
        alice.result("sandbox_stop", container_id=cid, force=True)
        ok(d.proc.poll() is None, "the suite lives")
        d.proc.send_signal(signal.SIGTERM)
        m = streams["listen a"].next()
        ok(m == {"jsonrpc": "2.0", "id": "L", "result": {
            "resultType": "complete", "_meta": {ID: "L"}}},
           "its end closes what listens over HTTP", m)
    finally:
        d.close()


def test_pair():
    """2024-11-05's own transport: the stream is the session's."""
    d = Daemon()
    try:
        s = Events.__new__(Events)
        s.s = socket.create_connection(("127.0.0.1", d.port), 10)
        s.s.sendall((f"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: {BOTH}"
                     f"\r\nAuthorization: Bearer {d.token}\r\n\r\n").encode())
        s.buf = b""
        while b"session_id=" not in s.buf or not s.buf.rstrip().endswith(
                s.buf.split(b"session_id=")[-1].rstrip()):
            s.buf += s.s.recv(4096)
        path = "/messages?session_id=" + \
            s.buf.split(b"session_id=")[1][:32].decode()
        post = Http(d)

        def ask(number, method, **params):
            post.ask("POST", path, {"jsonrpc": "2.0", "id": number,
                                    "method": method, "params": params})
            while True:
                m = s.next()
                if m is None or m.get("id") == number:
                    return m

        def tool(number, tool_name, **arguments):
            m = ask(number, "tools/call", name=tool_name, arguments=arguments)
            return json.loads(m["result"]["content"][0]["text"])

        ask(1, "initialize", protocolVersion="2024-11-05", capabilities={},
            clientInfo={"name": "t", "version": "1"})
        cid = tool(2, "sandbox_initialize", image="host")["container_id"]
        run = tool(3, "sandbox_exec_background", container_id=cid,
                   commands=[waiting("e")])["job_id"]
        ok(ask(4, "resources/subscribe", uri=uri_of(run))["result"] == {},
           "2024-11-05 subscribes")
        post.ask("POST", path, {
            "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
                "name": "sandbox_exec", "arguments": {
                    "container_id": cid, "commands": ["touch /tmp/e"]}}})
        got = [s.next(), s.next()]
        ok({"jsonrpc": "2.0", "method": UPDATED,
            "params": {"uri": uri_of(run)}} in got, "and is told", got)
        tool(6, "sandbox_stop", container_id=cid, force=True)
        s.close()
    finally:
        d.close()


mcp.main(tap, globals(), sys.argv[1:])
