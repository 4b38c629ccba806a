#!/usr/bin/env python3
"""What a tool asks of its client: the rounds of a modern client and what its
requestState is bound to, the requests that a legacy client is sent, and
workers that ask for what must not be asked."""
import http.client
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import front_monitor  # noqa: E402
from front_monitor import Front, META, MODERN, P, Tap, is_error  # noqa: E402

t = Tap()
INPUT = 3          # SBX_RESULT_INPUT
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}},
       "roots": {}}
FORM = {"method": "elicitation/create", "params": {
    "message": "Your name?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}}}}
URL = {"method": "elicitation/create", "params": {
    "mode": "url", "message": "Go there", "url": "https://example.com/x"}}
SAMPLE = {"method": "sampling/createMessage", "params": {
    "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
    "maxTokens": 10}}
TOOLS = {"method": "sampling/createMessage", "params": dict(
    SAMPLE["params"], tools=[])}
ROOTS = {"method": "roots/list"}
FILLED = {"action": "accept", "content": {"name": "Ann"}}
SAID = {"role": "assistant", "model": "m", "content": {
    "type": "text", "text": "!"}}
TREES = {"roots": [{"uri": "file:///x"}]}


def meta(can=None, **more):
    return dict(META, **{P + "clientCapabilities": ALL if can is None else can},
                **more)


def ask(f, c, requests, state=None, can=None, name="sandbox_exec", args=None,
        **params):
    """a modern call whose worker asks; the call and the client's answer"""
    c.last += 1
    c.send(id=c.last, method="tools/call", params=dict(
        params, name=name, arguments=args or {}, _meta=meta(can)))
    m = f.call()
    result = requests if isinstance(requests, bytes) else \
        {"inputRequests": requests}
    if state is not None:
        result["state"] = state
    f.result(m["call"], result, INPUT)
    return m, c.recv()


def again(c, state, responses=None, name="sandbox_exec", args=None, **more):
    """the client's next round"""
    params = dict(more, name=name, arguments=args or {}, _meta=meta())
    if state is not None:
        params["requestState"] = state
    if responses is not None:
        params["inputResponses"] = responses
    c.last += 1
    c.send(id=c.last, method="tools/call", params=params)


def done(f, c):
    """the call that follows, ended; its inputs and the client's answer"""
    m = f.call()
    f.result(m["call"], {"status": "ok"})
    return json.loads(m["inputs"]) if m["inputs"] else None, c.recv()


def refused(c, state, responses=None, text="", **kw):
    again(c, state, responses, **kw)
    r = c.recv()
    return is_error(r, -32602, c.last) and text in r["error"]["message"] and \
        "without requestState" in r["error"]["message"]


def test_modern():
    f = Front()
    c = f.c
    m, r = ask(f, c, {"who": FORM, "tree": ROOTS}, {"step": 1})
    o = r.get("result", {})
    t.ok(m["inputs"] == "" and m["client_can"] == 31, "a first round has no "
         "inputs, and says what the client can do", m)
    t.ok(o.get("resultType") == "input_required" and set(o) == {
        "resultType", "_meta", "inputRequests", "requestState"} and
         o["inputRequests"] == {"who": FORM, "tree": ROOTS},
         "what the worker asks is the client's answer", r)
    state = o["requestState"]
    t.ok(len(state) == 32 and "step" not in json.dumps(o),
         "its state stays here: the client has a handle", state)
    again(c, state, {"who": FILLED, "other": FILLED, "x": {}})
    m = f.call()
    t.ok(json.loads(m["inputs"]) == {"inputResponses": {"who": FILLED},
                                     "state": {"step": 1}},
         "answers and state are handed on, what was not asked is not",
         m["inputs"])
    f.result(m["call"], {"inputRequests": {"tree": ROOTS}, "state": 2}, INPUT)
    r = c.recv()
    t.ok(r["result"]["inputRequests"] == {"tree": ROOTS} and
         r["result"]["requestState"] != state, "what is missing is asked "
         "again, with a new handle", r)
    again(c, r["result"]["requestState"], {"tree": TREES})
    inputs, r = done(f, c)
    t.ok(inputs == {"inputResponses": {"who": FILLED, "tree": TREES},
                    "state": 2}, "the answers of all rounds are there",
         inputs)
    t.ok(r["result"]["resultType"] == "complete", "and then it is done", r)
    f.end()


def test_bound():
    f = Front(stdio=False)
    f.listen()
    c = f.connect()

    def handle(**kw):
        return ask(f, c, {"who": FORM}, {"n": 1}, **kw)[1]["result"][
            "requestState"]

    s = handle()
    again(c, s, {"who": FILLED})
    done(f, c)
    t.ok(refused(c, s, {"who": FILLED}), "a handle is good once")
    s = handle()
    t.ok(refused(c, s + "-TAMPERED", {"who": FILLED}), "longer: refused")
    t.ok(refused(c, s[:-1] + ("0" if s[-1] != "0" else "1")), "changed: "
         "refused")
    t.ok(refused(c, s + "\0x"), "with more behind a NUL: refused")
    t.ok(refused(c, 5) and refused(c, ""), "no string, or none: refused")
    again(c, s, {"who": FILLED})
    t.ok(done(f, c)[0]["state"] == {"n": 1}, "none of these used it up")
    for kw in ({"args": {"container_id": "y"}}, {"name": "sandbox_stop"}):
        s = handle()
        t.ok(refused(c, s, {"who": FILLED}, **kw), "another %s: refused" %
             list(kw)[0])
        t.ok(refused(c, s), "and that was its use")
    s = handle()
    c.last += 1
    c.send(id=c.last, method="prompts/get", params={
        "name": "p", "requestState": s, "_meta": meta()})
    t.ok(is_error(c.recv(), -32602, c.last), "another method: refused")
    d = f.connect()
    s = handle()
    d.last = 100
    t.ok(refused(d, s, {"who": FILLED}), "another principal: refused")
    again(c, s, {"who": FILLED})
    t.ok(done(f, c)[0] is not None, "and its owner still has it")
    for wrong in ({"who": 5}, {"who": {}}, {"who": {"action": "yes"}},
                  {"who": dict(FILLED, content=[])}, {"who": SAID}, [], "x"):
        s = handle()
        t.ok(refused(c, s, wrong), "no answer to that: %s" % json.dumps(wrong))
    for action in ("decline", "cancel"):
        s = handle()
        again(c, s, {"who": {"action": action}})
        t.ok(done(f, c)[0]["inputResponses"]["who"] == {"action": action},
             action + " is an answer")
    s = handle()
    again(c, s)
    t.ok(done(f, c)[0] == {"inputResponses": {}, "state": {"n": 1}},
         "no answer at all: the tool is asked")
    s = handle()
    again(c, s, {"who": dict(FILLED, content={"name": "x" * 40000})})
    r = c.recv()
    t.ok(r["result"]["structuredContent"]["code"] == "too_large",
         "too long an answer is refused", r)
    c.close()
    d.close()
    f.end()


def test_unasked():
    f = Front()
    c = f.c
    for given, want in (({"who": FILLED}, {"who": FILLED}),
                        ({"a": SAID, "b": TREES, "c": {"x": 1}},
                         {"a": SAID, "b": TREES}),
                        ({"k" * 65: FILLED}, {}), ({}, {})):
        again(c, None, given)
        got = done(f, c)[0]
        t.ok(got == {"inputResponses": want}, "answers ahead of the question "
             "are given to the tool, if they are answers", got)
    again(c, None, {"who": 12345})
    t.ok(is_error(c.recv(), -32602, c.last), "a number is none")
    c.last += 1
    c.send(id=c.last, method="tools/list", params={
        "requestState": "x", "inputResponses": 5, "_meta": meta()})
    t.ok("result" in c.recv(), "a method that asks nothing ignores them")
    f.end()


def test_capabilities():
    f = Front()
    c = f.c
    for can, request, need in (
            ({}, FORM, {"elicitation": {"form": {}}}),
            ({"elicitation": {}}, URL, {"elicitation": {"url": {}}}),
            ({"elicitation": {"url": {}}}, FORM,
             {"elicitation": {"form": {}}}),
            ({"roots": {}}, SAMPLE, {"sampling": {}}),
            ({"sampling": {}}, TOOLS, {"sampling": {"tools": {}}}),
            ({"sampling": {}}, ROOTS, {"roots": {}})):
        _, r = ask(f, c, {"k": request}, can=can)
        t.ok(is_error(r, -32021, c.last) and
             r["error"]["data"] == {"requiredCapabilities": need},
             "%s is not asked without %s" % (request["method"],
                                             json.dumps(need)), r)
    _, r = ask(f, c, {"a": FORM, "b": SAMPLE, "c": ROOTS},
               can={"sampling": {}})
    t.ok(r["error"]["data"]["requiredCapabilities"] == {
        "elicitation": {"form": {}}, "roots": {}}, "all that lack are named",
         r)
    _, r = ask(f, c, {"k": FORM}, can={"elicitation": {}})
    t.ok("inputRequests" in r["result"], "an empty elicitation means forms")
    f.end()


def test_hostile():
    f = Front()
    c = f.c
    one = {"inputRequests": {"k": FORM}}

    def but(**kw):
        return {"inputRequests": {"k": dict(FORM, **kw)}}
    for what, result in (
            ("no requests", {}), ("none of them", {"inputRequests": {}}),
            ("an array", {"inputRequests": [FORM]}),
            ("nine", {"inputRequests": {"k%d" % i: FORM for i in range(9)}}),
            ("a long key", {"inputRequests": {"k" * 65: FORM}}),
            ("an empty key", {"inputRequests": {"": FORM}}),
            ("a key to break out", {"inputRequests": {'a":{},"b': FORM}}),
            ("a key of another script", {"inputRequests": {"\u00e9": FORM}}),
            ("another method", but(method="tools/call")),
            ("a notification", but(method="notifications/cancelled")),
            ("no method", {"inputRequests": {"k": {"params": {}}}}),
            ("a method that is no string", but(method=5)),
            ("a request that is none", {"inputRequests": {"k": 5}}),
            ("params that are none", but(params=5)),
            ("null params", but(params=None)),
            ("params without a schema", but(params={"message": "x"})),
            ("params without a message", but(params={
                "requestedSchema": {}})),
            ("a mode of its own", but(params=dict(FORM["params"],
                                                  mode="voice"))),
            ("a URL that is none", but(params=dict(URL["params"], url=5))),
            ("roots with a string", {"inputRequests": {"k": dict(
                ROOTS, params="x")}}),
            ("too much", dict(one, state="x" * 70000))):
        _, r = ask(f, c, json.dumps(result).encode())
        t.ok(r.get("result", {}).get("structuredContent", {}).get("code") ==
             "bad_result", "a worker that asks with %s is refused" % what, r)
    _, r = ask(f, c, json.dumps({"inputRequests": {"k": dict(
        FORM, id=5, jsonrpc="1.0")}, "requestState": "x",
        "resultType": "complete", "isError": True}).encode())
    t.ok(r["result"]["inputRequests"] == {"k": FORM} and
         len(r["result"]["requestState"]) == 32,
         "members of a worker's own do not come through", r)
    for method, params in (("prompts/list", {}), ("resources/list", {}),
                           ("completion/complete", {
                               "ref": {}, "argument": {}})):
        c.last += 1
        c.send(id=c.last, method=method, params=dict(params, _meta=meta()))
        f.result(f.call()["call"], one, INPUT)
        t.ok(is_error(c.recv(), -32603, c.last), method + " asks nothing")
    t.ok(f.alive(), "the front lives")
    f.end()


def test_other_methods():
    f = Front()
    c = f.c
    for method, params, good in (
            ("prompts/get", {"name": "p"}, {"messages": []}),
            ("resources/read", {"uri": "sbx://x"}, {"contents": []})):
        c.last += 1
        c.send(id=c.last, method=method, params=dict(params, _meta=meta()))
        f.result(f.call()["call"], {"inputRequests": {"k": FORM}}, INPUT)
        r = c.recv()
        t.ok(r["result"]["resultType"] == "input_required", method + " asks",
             r)
        c.last += 1
        c.send(id=c.last, method=method, params=dict(
            params, _meta=meta(), inputResponses={"k": FILLED},
            requestState=r["result"]["requestState"]))
        m = f.call()
        t.ok(json.loads(m["inputs"]) == {"inputResponses": {"k": FILLED}},
             "and has its answer", m["inputs"])
        f.result(m["call"], good)
        t.ok(c.recv()["result"]["resultType"] == "complete", "and is done")
    f.end()


# --- clients that are sent requests

def legacy(f, version="2025-11-25", can=None, c=None):
    c = c or f.c
    c.last += 1
    c.send(id=c.last, method="initialize", params={
        "protocolVersion": version, "capabilities": ALL if can is None
        else can, "clientInfo": {"name": "test", "version": "1"}})
    c.recv()
    return c


def call(f, c, requests, state=None, **params):
    """a legacy call whose worker asks; its number over there"""
    c.last += 1
    c.send(id=c.last, method="tools/call", params=dict(
        params, name="sandbox_exec", arguments={"x": "\u00e9"}))
    m = f.call()
    give(f, m, requests, state)
    return m


def give(f, m, requests, state=None):
    f.result(m["call"], dict({"inputRequests": requests},
                             **({} if state is None else {"state": state})),
             INPUT)


def code(r):
    for block in r.get("result", {}).get("content", []):
        return json.loads(block["text"]).get("code")
    return None


def test_legacy():
    f = Front()
    c = legacy(f)
    m = call(f, c, {"who": FORM, "tree": ROOTS}, {"n": 1})
    one, two = c.recv(), c.recv()
    t.ok(one == {"jsonrpc": "2.0", "id": one["id"], **FORM} and
         two == {"jsonrpc": "2.0", "id": two["id"], **ROOTS} and
         one["id"] != two["id"] and one["id"].startswith("sbx-"),
         "a legacy client is sent requests", (one, two))
    for what, answer in (
            ("an id of nobody", dict(id="sbx-99", result=FILLED)),
            ("the id as a number", dict(id=1, result=FILLED)),
            ("an empty id", dict(id="", result=FILLED)),
            ("sbx-0", dict(id="sbx-0", result=FILLED)),
            ("an id with more", dict(id=one["id"] + " ", result=FILLED)),
            ("null", dict(id=None, result=FILLED)),
            ("an error without an id", dict(error={"code": 1,
                                                   "message": "x"}))):
        c.send(**answer)
        t.ok(c.request("ping")["result"] == {}, "an answer is ignored: " +
             what)
    f.result(m["call"], {"status": "early"})
    c.send(id=two["id"], result=TREES)
    t.ok(c.request("ping")["result"] == {}, "it waits for all of them; a "
         "result of nobody's is no end")
    c.send(id=two["id"], result={"roots": []})
    c.send(id=one["id"], result={"action": "decline"})
    n = f.call()
    t.ok(n["call"] == m["call"] and n.args == m.args and
         n["tool"] == m["tool"] and n["client_can"] == 31 and
         json.loads(n["inputs"]) == {"inputResponses": {
             "tree": TREES, "who": {"action": "decline"}},
             "state": {"n": 1}}, "then the call is made again", n)
    give(f, n, {"who": FORM})
    r = c.recv()
    c.send(id=r["id"], result=FILLED)
    n = f.call()
    t.ok(json.loads(n["inputs"]) == {"inputResponses": {
        "tree": TREES, "who": FILLED}}, "a second answer takes the place of "
        "the first", n["inputs"])
    f.result(n["call"], {"status": "ok"})
    t.ok(c.recv()["result"]["isError"] is False, "and it is done")
    c.send(id=r["id"], result=FILLED)
    t.ok(c.request("ping")["result"] == {}, "a late answer is ignored")
    for name, value in (("requestState", "0" * 32),
                        ("inputResponses", {"who": FILLED})):
        c.send(id=1000, method="tools/call", params={
            "name": "sandbox_exec", "arguments": {}, name: value})
        n = f.call()
        t.ok(n["inputs"] == "", name + " of a legacy client is nothing")
        f.result(n["call"], {})
        c.recv()
    f.end()


def test_legacy_ends():
    f = Front()
    c = legacy(f)
    for what, answer in (
            ("an error", dict(error={"code": -1, "message": "no"})),
            ("another shape", dict(result={"action": "maybe"})),
            ("null", dict(result=None))):
        call(f, c, {"a": FORM, "b": SAMPLE})
        one, two = c.recv(), c.recv()
        c.send(id=one["id"], **answer)
        gone, end = c.recv(), c.recv()
        t.ok(gone["method"] == "notifications/cancelled" and
             gone["params"]["requestId"] == two["id"] and
             code(end) == "client_failed" and end["result"]["isError"],
             "%s ends the call, and the other request" % what, (gone, end))
    m = call(f, c, {"a": FORM, "b": SAMPLE})
    one, two = c.recv(), c.recv()
    c.send(id=one["id"], result=FILLED)
    c.send(method="notifications/cancelled", params={"requestId": c.last})
    gone = c.recv()
    t.ok(gone["method"] == "notifications/cancelled" and
         gone["params"]["requestId"] == two["id"], "a client that cancels its "
         "call hears that ours is over", gone)
    c.send(id=two["id"], result=SAID)
    t.ok(c.request("ping")["result"] == {} and f.mon.quiet(),
         "and nothing more comes of it", m)
    m = call(f, c, {"a": FORM})
    for _ in range(7):
        c.send(id=c.recv()["id"], result=FILLED)
        give(f, f.call(), {"a": FORM})
    c.send(id=c.recv()["id"], result=FILLED)
    give(f, f.call(), {"a": FORM})
    t.ok(code(c.recv()) == "too_many_rounds", "nine rounds are too many")
    call(f, c, {"a": SAMPLE})
    c.send(id=c.recv()["id"], result=dict(SAID, content={
        "type": "text", "text": "x" * 40000}))
    t.ok(code(c.recv()) == "too_large", "a long answer ends it as well")
    call(f, c, {"a": dict(FORM, params=dict(FORM["params"], message=5))})
    t.ok(code(c.recv()) == "bad_result", "nor may a worker ask for anything")
    call(f, c, {"a": FORM})
    c.recv()
    c.close()
    m = f.mon.recv(want="FRONT_EOF")
    t.ok(m.name == "FRONT_EOF" and f.alive(), "its end is the call's")
    f.end()


def test_revisions():
    for version, can in (("2024-11-05", 20), ("2025-03-26", 20),
                         ("2025-06-18", 21), ("2025-11-25", 31)):
        f = Front()
        c = legacy(f, version)
        for request, bit in ((FORM, 1), (URL, 2), (SAMPLE, 4), (TOOLS, 8),
                             (ROOTS, 16)):
            m = call(f, c, {"k": request})
            r = c.recv()
            if can & bit:
                want = dict(request)
                if request is URL:
                    want["params"] = dict(URL["params"],
                                          elicitationId=r["id"])
                t.ok(r == {"jsonrpc": "2.0", "id": r["id"], **want} and
                     m["client_can"] == can, "%s asks %s" % (
                         version, request["method"]), r)
                c.send(id=r["id"], result={1: FILLED, 2: {
                    "action": "accept"}, 16: TREES}.get(bit, SAID))
                f.result(f.call()["call"], {})
                c.recv()
            else:
                t.ok(code(r) == "client_cannot" and m["client_can"] == can,
                     "%s has no %s" % (version, request["method"]), r)
        f.end()
    f = Front()
    c = legacy(f, can={"roots": {}})
    call(f, c, {"k": SAMPLE})
    r = c.recv()
    t.ok(code(r) == "client_cannot" and r["result"]["isError"] and
         "sampling" in r["result"]["structuredContent"]["error"],
         "what is not declared is named", r)
    f.end()


def test_table():
    f = Front(stdio=False)
    f.listen()
    clients = [f.connect() for _ in range(17)]
    handles = []
    for c in clients[:16]:
        for _ in range(16):
            handles.append((c, ask(f, c, {"k": FORM})[1]["result"][
                "requestState"]))
    c = clients[0]
    ask(f, c, {"k": FORM})
    t.ok(refused(*handles[0], {"k": FILLED}), "the seventeenth of one client "
         "takes the place of its oldest")
    again(*handles[1], {"k": FILLED})
    t.ok(done(f, c)[0] is not None, "the others are there")
    ask(f, c, {"k": FORM})
    late = clients[16]
    s = ask(f, late, {"k": FORM})[1]["result"]["requestState"]
    for n in range(20):
        s = ask(f, late, {"k": FORM})[1]["result"]["requestState"]
    again(late, s, {"k": FILLED})
    t.ok(done(f, late)[0] is not None, "a full table has room for another "
         "client")
    kept = 0
    for c, s in handles[16:]:
        again(c, s, {"k": FILLED})
        r = c.recv(0.05)
        if r is None:
            done(f, c)
            kept += 1
    t.ok(kept >= 240 - 17, "which costs nobody all of theirs", kept)
    c = clients[1]
    s = ask(f, c, {"k": FORM})[1]["result"]["requestState"]
    c.close()
    f.mon.recv(want="FRONT_GONE")
    t.ok(refused(f.connect(principal=c.handle), s, {"k": FILLED}),
         "a principal's handles go with it")
    f.end()


class Web:
    """the front's HTTP, with a token that the monitor knows"""

    def __init__(self, f):
        self.f = f
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(10)
        self.port = s.getsockname()[1]
        f.mon.send("FRONT_LISTEN", 0, [s.fileno()], kind=1)
        s.close()

    def post(self, body, token="a", known=False, session=None, head=()):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        more = dict(head)
        if session:
            more["Mcp-Session-Id"] = session
        c.request("POST", "/mcp", json.dumps(dict(body, jsonrpc="2.0")), dict(
            more, Authorization="Bearer " + token, Accept="application/json, "
            "text/event-stream", **{"Content-Type": "application/json"}))
        if not known:
            m = self.f.mon.recv(want="FRONT_TOKEN")
            self.f.mon.send("FRONT_USER", number=m["number"],
                            principal=ord(token))
        return c

    def modern(self, mid, known=True, can=None, **params):
        params = dict(params, name="sandbox_exec", arguments={},
                      _meta=meta(can))
        return self.post({"id": mid, "method": "tools/call",
                          "params": params}, known=known, head={
                              "Mcp-Protocol-Version": MODERN,
                              "Mcp-Method": "tools/call",
                              "Mcp-Name": "sandbox_exec"})


def event(r):
    """the next message of an event stream"""
    while True:
        line = r.readline()
        if not line:
            return None
        if line.startswith(b"data: {"):
            return json.loads(line[6:])


def test_http_modern():
    f = Front(stdio=False)
    w = Web(f)
    c = w.modern(1, known=False)
    f.result(f.call()["call"], {"inputRequests": {"k": FORM}}, INPUT)
    r = c.getresponse()
    o = json.loads(r.read())["result"]
    t.ok(r.status == 200 and o["resultType"] == "input_required", "HTTP: an "
         "answer of its own", o)
    c = w.modern(2, requestState=o["requestState"],
                 inputResponses={"k": FILLED})
    m = f.call()
    t.ok(json.loads(m["inputs"])["inputResponses"] == {"k": FILLED},
         "and a request of its own")
    f.result(m["call"], {})
    c.getresponse().read()
    r = w.modern(3, requestState=o["requestState"]).getresponse()
    t.ok(r.status == 400 and is_error(json.loads(r.read()), -32602, 3),
         "a refused state is a 400")
    c = w.modern(4, can={})
    f.result(f.call()["call"], {"inputRequests": {"k": SAMPLE}}, INPUT)
    r = c.getresponse()
    t.ok(r.status == 400 and is_error(json.loads(r.read()), -32021, 4),
         "and a missing capability")
    f.end()


def test_http_legacy():
    f = Front(stdio=False)
    w = Web(f)
    session = {}
    for token in "ab":
        c = w.post({"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": ALL,
            "clientInfo": {"name": "x", "version": "1"}}}, token=token)
        r = c.getresponse()
        session[token] = r.getheader("Mcp-Session-Id")
        r.read()
    c = w.post({"id": 2, "method": "tools/call", "params": {
        "name": "sandbox_exec", "arguments": {}}}, known=True,
        session=session["a"])
    f.result(f.call()["call"], {"inputRequests": {"k": FORM}}, INPUT)
    r = c.getresponse()
    one = event(r)
    t.ok(one["method"] == "elicitation/create" and r.getheader(
        "Content-Type") == "text/event-stream", "HTTP: a request on the "
        "stream of the call", one)
    other = w.post({"id": one["id"], "result": FILLED}, known=True,
                   token="b", session=session["b"]).getresponse()
    t.ok(other.status == 202 and f.mon.quiet(), "another session's "
         "answer is ignored")
    other = w.post({"id": one["id"], "result": FILLED}, known=True,
                   session=session["a"]).getresponse()
    t.ok(other.status == 202 and other.read() == b"", "an answer: 202")
    m = f.call()
    t.ok(json.loads(m["inputs"])["inputResponses"] == {"k": FILLED},
         "and it goes on")
    f.result(m["call"], {"status": "ok"})
    t.ok(event(r)["id"] == 2 and event(r) is None, "to its end")
    c = w.post({"id": 3, "method": "tools/call", "params": {
        "name": "sandbox_exec", "arguments": {}}}, known=True,
        session=session["a"])
    f.result(f.call()["call"], {"inputRequests": {"k": FORM}}, INPUT)
    r = c.getresponse()
    one = event(r)
    w.post({"method": "notifications/cancelled", "params": {
        "requestId": 3}}, known=True, session=session["a"]).getresponse()
    gone = event(r)
    t.ok(gone["params"]["requestId"] == one["id"] and event(r) is None,
         "cancelled: ours is over, and the stream", gone)
    t.ok(f.alive(), "the front lives")
    f.end()


# --- a front of less patience: a second for an answer

def test_time():
    front_monitor.FRONT = os.path.join(os.environ["SBX_BUILD"], "front-hasty")
    f = Front()
    c = f.c
    s = ask(f, c, {"k": FORM})[1]["result"]["requestState"]
    time.sleep(1.1)
    t.ok(refused(c, s, {"k": FILLED}), "a handle that is too old is refused")
    s = ask(f, c, {"k": FORM})[1]["result"]["requestState"]
    time.sleep(2.5)
    t.ok(refused(c, s, {"k": FILLED}, "not known"), "and forgotten")
    legacy(f)
    call(f, c, {"a": FORM, "b": ROOTS})
    one, two = c.recv(), c.recv()
    c.send(id=two["id"], result=TREES)
    gone, end = c.recv(), c.recv()
    t.ok(gone["params"]["requestId"] == one["id"] and
         code(end) == "client_silent", "a client that never answers: its "
         "call ends, and our request", (gone, end))
    c.send(id=one["id"], result=FILLED)
    t.ok(c.request("ping")["result"] == {}, "its late answer is ignored")
    f.end()


TESTS = [test_modern, test_bound, test_unasked, test_capabilities,
         test_hostile, test_other_methods, test_legacy, test_legacy_ends,
         test_revisions, test_table, test_http_modern, test_http_legacy,
         test_time]
if __name__ == "__main__":
    for test in TESTS:
        test()
    t.done()
