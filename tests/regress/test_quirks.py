#!/usr/bin/env python3
"""What real clients do that a textbook does not have: how they probe, connect
again, leave things out, and write what they send.  Each was seen of one, or
is in the reports of their users."""
import http.client
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from web import BOTH, Daemon, Http, events  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
SSE = "text/event-stream"
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"}}}


def raw(d, text, wait=10):
    """one connection: what comes until its end"""
    with socket.create_connection(("127.0.0.1", d.port), wait) as s:
        s.sendall(text.encode())
        got = b""
        while True:
            part = s.recv(65536)
            if not part:
                return got
            got += part


def test_probes(d):
    """Before anything, and without a token: a client that meets a 404 here
    does not begin OAuth, and one that meets a body in HEAD's answer reads it
    as the next answer."""
    for path in ("/.well-known/oauth-protected-resource",
                 "/.well-known/oauth-protected-resource/mcp",
                 "/.well-known/oauth-authorization-server",
                 "/.well-known/oauth-authorization-server/mcp",
                 "/.well-known/openid-configuration",
                 "/.well-known/openid-configuration/mcp",
                 "/mcp/.well-known/openid-configuration",
                 "/authorize", "/token", "/", "/favicon.ico"):
        h = Http(d)
        h.token = None
        status, r, text = h.ask("GET", path, Accept="application/json")
        ok(status == 404 and "error" in json.loads(text) and
           r.getheader("WWW-Authenticate") is None, f"GET {path}: 404",
           (status, text))
    h = Http(d)
    h.token = None
    status, r, text = h.ask("POST", "/register", {"redirect_uris": []})
    ok(status == 404 and b"sbx token add" in text,
       "who wants to register is told of tokens", text)
    status, r, text = h.ask("POST", body=HELLO)
    ok(status == 401 and "resource_metadata" not in
       r.getheader("WWW-Authenticate", "") and b"sbx token" in text,
       "no token: 401, without metadata to follow", text)
    for method, path, status in (("OPTIONS", "/mcp", 405),
                                 ("HEAD", "/mcp", 405), ("HEAD", "/", 404),
                                 ("HEAD", "/sse", 405), ("PUT", "/mcp", 405)):
        got = raw(d, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = got.partition(b"\r\n\r\n")
        ok(head.startswith(b"HTTP/1.1 %d " % status) and body == b"" and
           (status != 405 or b"\r\nAllow: " in head),
           f"{method} {path}: {status} and no body", got)
    for headers in ({}, {"Accept": SSE}):
        status, r, text = Http(d).ask("GET", **headers)
        ok(status == 405 and r.getheader("Allow") == "POST" and text == b"",
           "GET without a session: 405, go on by POST", (status, text))
    ok(Http(d).ask("DELETE")[0] == 405, "DELETE without a session: 405")


def test_spelling(d):
    """The same request in other words."""
    h = Http(d)
    for path in ("/mcp/", "/mcp/?profile=review", "/mcp?profile=review"):
        ok(h.ask("POST", path, HELLO)[0] == 200, f"POST {path}")
    for path, status in (("/mcp//", 404), ("//mcp", 404), ("/MCP", 404),
                         ("/mcp/x", 404)):
        ok(Http(d).ask("POST", path, HELLO)[0] == status, f"not {path}")
    for accept in ("application/json;q=0.9, text/event-stream;q=0.8",
                   "text/event-stream,application/json", "*/*",
                   "application/*, text/*;q=0.1",
                   "Application/JSON ,\ttext/Event-Stream; charset=utf-8"):
        ok(h.ask("POST", body=HELLO, Accept=accept)[0] == 200,
           f"Accept: {accept!r}")
    for kind in ("application/json; charset=utf-8", "Application/Json",
                 "application/json;charset=UTF-8"):
        ok(h.ask("POST", body=HELLO, Content_Type=kind)[0] == 200,
           f"Content-Type: {kind}")
    for auth in ("Bearer ", "bearer ", "BEARER "):
        ok(h.ask("POST", body=HELLO, Authorization=auth + d.token)[0] == 200,
           f"Authorization: {auth}TOKEN")
    status, r, _ = Http(d).ask("POST", body=HELLO, Connection="close")
    ok(status == 200 and r.getheader("Connection") == "close",
       "Connection: close is answered, and done")
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30)
    c.request("POST", "/mcp", iter([json.dumps(HELLO)[:20].encode(),
                                    json.dumps(HELLO)[20:].encode()]),
              {"Accept": BOTH, "Content-Type": "application/json",
               "Authorization": "Bearer " + d.token}, encode_chunked=True)
    ok(c.getresponse().status == 200, "a body in chunks")


def test_handshake(d):
    """Who is early, late, or says what nobody asked for."""
    h = Http(d)
    status, r, text = h.ask("POST", body=HELLO)
    h.session = r.getheader("Mcp-Session-Id")
    a = h.rpc("tools/list")[1]
    ok(len(a["result"]["tools"]) > 10,
       "a request before notifications/initialized")
    ok(h.result("sandbox_list_containers")["containers"] == [], "and a call")
    for note in ({"method": "notifications/initialized"},
                 {"method": "notifications/initialized", "params": {}},
                 {"method": "notifications/initialized", "params": None},
                 {"method": "notifications/roots/list_changed"},
                 {"method": "notifications/no/such", "params": {"x": [1]}},
                 {"method": "notifications/cancelled",
                  "params": {"requestId": 12345, "reason": "timeout"}},
                 {"method": "$/cancelRequest", "params": {"id": 1}},
                 {"id": 77, "result": {}},
                 {"id": 78, "error": {"code": -32601, "message": "no"}}):
        status, r, text = h.ask("POST", body=dict(note, jsonrpc="2.0"))
        ok(status == 202 and text == b"", f"{note}: 202", (status, text))
    ok(h.rpc("ping")[1]["result"] == {}, "the session goes on")
    status, r, text = h.ask("POST", body=dict(HELLO, id=5))
    ok(status == 200 and r.getheader("Mcp-Session-Id") == h.session,
       "who initializes again keeps the session", text)


def test_ids(d):
    h = Http(d)
    h.initialize()
    for mid in (0, -1, -9007199254740991, 9007199254740991, "", "0", "abc",
                "4b1f6a52-0000-4000-8000-000000000000", "\u00e9\u2028\""):
        status, r, text = h.ask("POST", body={
            "jsonrpc": "2.0", "id": mid, "method": "ping"})
        a = json.loads(text)
        ok(status == 200 and a["id"] == mid and
           isinstance(a["id"], type(mid)), f"id {mid!r} comes back", a)
    for params in ({"params": None}, {"params": {}}, {},
                   {"params": {"_meta": {}}},
                   {"params": {"cursor": None}}):
        a = h.ask("POST", body=dict(params, jsonrpc="2.0", id=1,
                                    method="tools/list"))
        ok(a[0] == 200 and b'"tools":' in a[2], f"tools/list with {params}",
           a[2][:200])
    for method, params in (("resources/list", {"cursor": None}),
                           ("resources/templates/list", None)):
        a = h.rpc(method, params)[1]
        ok("result" in a, f"{method} with {params}", a)


def test_arguments(d):
    """What models and their hosts make of a schema."""
    h = Http(d)
    h.initialize()
    box = h.result("sandbox_initialize", image="host")["container_id"]
    for text, params in (
            ("no arguments", {}), ("arguments null", {"arguments": None}),
            ("arguments {}", {"arguments": {}})):
        a = h.rpc("tools/call", dict(params,
                                     name="sandbox_list_containers"))[1]
        ok("result" in a and not a["result"].get("isError"), text, a)
    for name, value in (("commands", json.dumps(["echo one", "echo two"])),
                        ("argv", json.dumps(["printf", "one\ntwo\n"])),
                        ("commands", ["echo one", "echo two"])):
        r = h.result("sandbox_exec", container_id=box, **{name: value})
        ok(r["status"] == "ok" and r["output"] == "one\ntwo\n",
           f"{name} as {type(value).__name__}", r)
    for args in ({"commands": "echo one"}, {"commands": "[1]"},
                 {"commands": "[\"echo\""}, {"commands": {"0": "echo"}},
                 {"command": "echo"}, {"commands": []}, {}):
        a = h.tool("sandbox_exec", container_id=box, **args)
        ok("result" in a and a["result"]["isError"] and
           "command" in a["result"]["content"][0]["text"],
           f"{args}: an error that says how", a)
    # a call without a progress token has no progress, and needs none
    for token in (None, 0, "", "t-1"):
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        status, r, text = h.ask("POST", body={
            "jsonrpc": "2.0", "id": "p", "method": "tools/call",
            "params": dict(meta, name="sandbox_exec", arguments={
                "container_id": box, "commands": ["sleep 3; echo over"]})})
        notes = [json.loads(x) for _, x in events(text)][:-1]
        ok((notes != []) == bool(meta) and b"over" in text and
           all(n["method"] == "notifications/progress" and
               n["params"]["progressToken"] == token for n in notes),
           f"progress of token {token!r}", text[-500:])
    h.result("sandbox_stop", container_id=box, force=True)


def listen(d, session, **headers):
    h = Http(d)
    h.session = session
    r = h.send("GET", Accept=SSE, **headers)
    return h, r


def first_id(r):
    line = r.readline().decode()
    return line[4:].strip() if line.startswith("id: ") else line


def test_streams(d):
    """A client whose network was gone listens anew, and we may not know yet
    that the connection before is dead."""
    h = Http(d)
    h.initialize()
    one, r1 = listen(d, h.session)
    two, r2 = listen(d, h.session)
    id1, id2 = first_id(r1), first_id(r2)
    ok(r1.status == r2.status == 200 and id1 != id2 and id1[0] == "g",
       "a second GET, while the first is not known to be dead", (id1, id2))
    # it names the last event it has: the other is cut, and it goes on
    again, r = listen(d, h.session, Last_Event_ID=id2)
    ok(r.status == 200, "GET with the id of one that is still open")
    r2.read()
    ok(True, "which ends")
    # a cut that was noticed
    one.c.close()
    time.sleep(0.3)
    back, r = listen(d, h.session, Last_Event_ID=id1)
    ok(r.status == 200, "GET with the id of one that was closed", r.status)
    # and one of which nothing is known any more: 404 would end the session
    late, r = listen(d, h.session, Last_Event_ID="g99999-0")
    ok(r.status == 200 and first_id(r)[0] == "g",
       "GET with an id that is forgotten")
    ok(h.rpc("ping")[0] == 200, "the session has not ended")
    # not without end
    many = [listen(d, h.session) for _ in range(6)]
    ok(all(r.status == 200 for _, r in many), "and again, six times")
    r = many[0][1]
    r.read()
    ok(True, "the oldest are ended")
    for x, _ in many + [(again, 0), (back, 0), (late, 0)]:
        x.c.close()
    ok(h.ask("DELETE")[0] == 204, "the session ends by DELETE")
    gone, r = listen(d, h.session)
    ok(r.status == 404, "and then it is not found: initialize anew")


def test_left_behind(d):
    """Most clients never end a session: the table must not fill up."""
    other = Http(d, d.sbx("token", "add", "other").stdout.strip())
    time.sleep(1.1)     # tokens are looked at once a second
    other.initialize()
    busy = Http(d)
    busy.initialize()
    watch, r = listen(d, busy.session)
    first_id(r)
    h = Http(d)
    bad = 0
    for _ in range(300):
        h.session = None
        bad += h.initialize()[0] != 200
    ok(bad == 0, "300 sessions are begun and left", bad)
    ok(h.rpc("ping")[0] == 200, "the last one works")
    ok(other.rpc("ping")[0] == 200, "another principal's is still there")
    ok(busy.rpc("ping")[0] == 200, "and one that is listened to")
    watch.c.close()


def test_stdio():
    """The same handshakes on stdio."""
    with mcp.Suite() as s:
        s.request("ping")
        for m in ({"method": "notifications/no/such"},
                  {"id": 5, "result": {}},
                  {"method": "notifications/initialized", "params": None}):
            s.send(m)
        for mid in (-7, "x", 0):
            s.send({"id": mid, "method": "tools/list", "params": None})
            a = s.recv()
            ok(a["id"] == mid and "tools" in a["result"], f"id {mid!r}", a)
        s.send({"id": 3, "method": "tools/call", "params": {
            "name": "sandbox_list_containers", "arguments": None}})
        ok(s.recv()["result"]["structuredContent"]["containers"] == [],
           "arguments null")
        s.raw(b'\xef\xbb\xbf\n')
        ok("error" in s.recv(), "a byte order mark is an error, no end")
        s.raw(b'\r\n{"jsonrpc":"2.0","id":9,"method":"ping"}\r\n')
        ok(s.recv()["id"] == 9, "CRLF")


def main():
    d = Daemon()
    try:
        for test in (test_probes, test_spelling, test_handshake, test_ids,
                     test_arguments, test_streams, test_left_behind):
            test(d)
        ok(d.proc.poll() is None, "the suite lives")
    finally:
        d.close()
    test_stdio()
    tap.done()


main()
