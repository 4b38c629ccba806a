#!/usr/bin/env python3
"""What a tool asks of its client: the rounds of a modern client and what its
requestState is bound to, the requests that a legacy client is sent, and
workers that ask for what must not be asked."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from front_monitor import Front, META, P, Tap, is_error  # noqa: E402

t = Tap()
INPUT = 2
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


TESTS = [test_modern, test_bound, test_unasked, test_capabilities,
         test_hostile, test_other_methods]
if __name__ == "__main__":
    for test in TESTS:
        test()
    t.done()
