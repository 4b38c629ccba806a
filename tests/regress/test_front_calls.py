#!/usr/bin/env python3
"""The front's calls: what goes to the monitor, what of a worker's result goes
to the client, progress, cancel, ids, and a worker that lies."""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from front_monitor import (Front, HANDLE, LEGACY, META, MODERN,  # noqa: E402
                           P, Tap, bad_result, is_error)
import ipc  # noqa: E402

t = Tap()
f = Front()
c = f.c
c.initialize()


def call(mid, name="sandbox_exec", args=None, raw=None, meta=None):
    """a tools/call as its bytes; the arguments exactly as in raw"""
    text = json.dumps(args).encode() if raw is None else raw
    head = json.dumps({"jsonrpc": "2.0", "id": mid, "method": "tools/call"})
    params = b'{"name":%s' % json.dumps(name).encode()
    if text != b"null":
        params += b',"arguments":' + text
    if meta:
        params += b',"_meta":' + json.dumps(meta).encode()
    c.raw(head[:-1].encode() + b',"params":' + params + b"}}\n")


# --- to the monitor
call(1, raw=b'{ "container_id" : "abcd\\u0065f012345","x":[1.50, "\\u00e9"] }')
m = f.call()
t.ok(m.args == b'{ "container_id" : "abcd\\u0065f012345","x":[1.50, '
     b'"\\u00e9"] }', "the arguments are the client's bytes", m.args)
t.ok(m["principal"] == HANDLE and m["tool"] == "sandbox_exec" and
     m["container"] == "abcdef012345" and m["want_progress"] == 0,
     "CALL names principal, tool and sandbox", m)
f.result(m["call"], {"status": "ok"})
c.recv()
for raw, want, text in (
        (b"{}", "", "none"), (b'{"container_id":""}', "", "empty"),
        (b'{"container_id":5}', "", "a number"),
        (b'{"container_id":"\xc3\xa9"}', "", "not ASCII"),
        (b'{"container_id":"a\\nb"}', "", "a newline"),
        (b'{"container_id":"%s"}' % (b"a" * 64), "a" * 64, "64 bytes"),
        (b'{"container_id":"%s"}' % (b"a" * 65), "", "65 bytes"),
        (b'{"container_id":"%s"}' % (b"\\u0061" * 64), "a" * 64,
         "64 escaped bytes"),
        (b'{"a":{"container_id":"x"},"container_id":"y"}', "y", "nested one"),
        (b'{"\\u0063ontainer_id":"my box"}', "my box", "escaped name"),
        (b'{"a":"container_id\\":","b":["}"],"container_id":"z"}', "z",
         "quotes before")):
    call(2, raw=raw)
    m = f.call()
    t.ok(m["container"] == want and m.args == raw, "container: " + text, m)
    f.result(m["call"], {"status": "ok"})
    c.recv()
call(3)
m = f.call()
t.ok(m.args == b"{}", "absent arguments are {}", m.args)
f.result(m["call"], {})
c.recv()
c.raw(b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"\\u0061rgume'
      b'nts":{"q":1},"name":"sandbox_exec"}}\n')
m = f.call()
t.ok(m.args == b'{"q":1}', "escaped \"arguments\"", m.args)
f.result(m["call"], {})
c.recv()
big = b'{"x":"' + b"y" * (8 << 20) + b'"}'
call(4, raw=big)
m = f.call()
t.ok(m.args == big, "8 MiB of arguments")
f.result(m["call"], {})
c.recv()
many = b'{"x":[' + b"0," * (4 << 20) + b"0]}"
call(5, raw=many)
m = f.call(20)
with open("/proc/%d/status" % f.proc.pid, encoding="ascii") as status:
    hwm = [int(x.split()[1]) for x in status if x.startswith("VmHWM")][0]
t.ok(m.args == many and hwm < 200 << 10,
     "four million numbers cost no tree of them", hwm)
f.result(m["call"], {})
c.recv(20)

# --- answered without the monitor
for raw in (b"[]", b'"{}"', b"1", b"true"):
    call(6, raw=raw)
    r = c.recv()
    t.ok(bad_result(LEGACY[1], "call", r) is None and r["result"]["isError"]
         and r["result"]["structuredContent"]["code"] == "bad_argument",
         "arguments %s: a tool error" % raw, r)
for name, near in (("sandbox_exce", "sandbox_exec"), ("exec", "exec"),
                   ("x" * 5000, ""), ("", ""), ("a\0b\n", "")):
    call(7, name=name)
    r = c.recv()
    s = r["result"]["structuredContent"]
    t.ok(bad_result(LEGACY[1], "call", r) is None and r["result"]["isError"]
         and s["code"] == "unknown_tool" and s["status"] == "error" and
         near in s["recommended_next_action"],
         "unknown tool %.20r" % name, r)
for params in (None, {}, {"name": 1}):
    r = c.request("tools/call", params)
    t.ok(is_error(r, -32602, c.last), "tools/call with %s: -32602" % params, r)

# --- results
nasty = {"status": "failed", "output": "a\"\\\n\u2028\x1b é \U0001f600"}
for rev in LEGACY + (MODERN,):
    if rev != MODERN:
        c.initialize(rev)
    call("id-" + rev, args={}, meta=META if rev == MODERN else None)
    m = f.call()
    f.result(m["call"], nasty, is_error=1)
    r = c.recv()
    t.ok(bad_result(rev, "call", r) is None and r["id"] == "id-" + rev and
         r["result"]["isError"] is True and
         r["result"]["structuredContent"] == nasty, rev + ": a result", r)
call(8)
m = f.call()
f.result(m["call"], b' {\n"a":\r\n{"jsonrpc":"2.0","id":8,"result":{}}\n}\n')
line = c.line()
t.ok(json.loads(line)["result"]["structuredContent"]["a"]["id"] == 8 and
     c.line(0.1) is None, "newlines in a result do not end the line", line)
full = b'{"a":"' + b'\\"' * ((4 << 19) - 10) + b'"}'
call(9)
m = f.call()
f.result(m["call"], full)
r = c.recv(20)
t.ok(r["result"]["structuredContent"] == json.loads(full), "a 4 MiB result")

# --- results of a worker that lies
for data, text in ((b"", "empty"), (b"{", "cut"), (b"[]", "a list"),
                   (b'{"a":1,"a":2}', "duplicate keys"),
                   (b'{"a":"\xff"}', "not UTF-8"), (b"{}{}", "two"),
                   (b'{"a":"\n"}', "a raw newline in a string"),
                   (b'{"a":NaN}', "NaN"), (b'{"a":"\\ud800"}', "surrogate"),
                   (b'{"a":' + b"[" * 63 + b"]" * 63 + b"}", "deep"),
                   (b'{"a":"' + b"x" * (4 << 20) + b'"}', "too long")):
    call(10)
    m = f.call()
    f.result(m["call"], data)
    r = c.recv()
    t.ok(bad_result(MODERN, "call", r) and r["result"]["isError"] and
         r["result"]["structuredContent"]["code"] == "bad_result",
         "hostile result, %s: an error" % text, r)
call(10)
m = f.call()
f.result(m["call"], {"status": "ok"}, seal=False)
r = c.recv()
t.ok(r["result"]["structuredContent"]["code"] == "bad_result",
     "hostile result, not sealed: an error", r)
call(10)
m = f.call()
fd = os.open("/dev/null", os.O_RDONLY)
f.mon.send("CALL_RESULT", 0, [fd], call=m["call"])
os.close(fd)
r = c.recv()
t.ok(r["result"]["structuredContent"]["code"] == "bad_result",
     "hostile result, no memfd: an error", r)

# --- refusals
for code in ("busy", "worker_died", "unknown_principal", "suite_degraded"):
    call(11)
    m = f.call()
    f.mon.send("CALL_REFUSED", call=m["call"], code=code, reason="No \"x\".",
               next="Wait.")
    r = c.recv()
    s = r["result"]["structuredContent"]
    t.ok(bad_result(LEGACY[1], "call", r) is None and r["result"]["isError"]
         and s == {"status": "busy" if code == "busy" else "error",
                   "code": code, "error": "No \"x\".",
                   "recommended_next_action": "Wait."}, "refused: " + code, r)

# --- numbers that are not waiting
f.result(4000000, {"status": "ok"})
f.mon.send("CALL_REFUSED", call=4000001, code="busy", reason="", next="")
f.mon.send("CALL_PROGRESS", call=0, done=1, total=2, message="")
t.ok(c.line(0.2) is None and f.alive(), "unknown call numbers are ignored")

# --- ids
call(12)
first = f.call()
call(12)
r = c.recv()
t.ok(is_error(r, -32600, 12), "an id in flight is refused", r)
c.send(id=12, method="ping")
t.ok(is_error(c.recv(), -32600, 12), "for any method")
call("12")
second = f.call()
t.ok(second["call"] != first["call"], "\"12\" is another id than 12")
f.result(second["call"], {"n": 2})
t.ok(c.recv()["id"] == "12", "answered out of order")
f.result(first["call"], {"n": 1})
t.ok(c.recv()["id"] == 12, "and the first one too")
f.result(first["call"], {"n": 1})
t.ok(c.line(0.1) is None, "a second result is ignored")
call(12)
m = f.call()
f.result(m["call"], {"n": 3})
t.ok(c.recv()["result"]["structuredContent"] == {"n": 3},
     "an answered id may be used again")

# --- cancel
call(13)
m = f.call()
c.send(method="notifications/cancelled", params={"requestId": "13"})
c.send(method="notifications/cancelled", params={"requestId": 99})
c.send(method="notifications/cancelled", params={"requestId": None})
t.ok(f.mon.quiet(0.1), "cancel of something else is ignored")
c.send(method="notifications/cancelled",
       params={"requestId": 13, "reason": "x"})
t.ok(f.mon.recv(want="CALL_CANCEL")["call"] == m["call"], "cancel is sent on")
f.result(m["call"], {"status": "ok"})
f.mon.send("CALL_PROGRESS", call=m["call"], done=1, total=2, message="")
t.ok(c.line(0.2) is None, "nothing is sent after a cancel")
c.send(method="notifications/cancelled", params={"requestId": 13})
t.ok(f.mon.quiet(0.1), "a second cancel is ignored")
call(14)
m = f.call()
f.result(m["call"], {})
c.send(method="notifications/cancelled", params={"requestId": 14})
r = c.recv(0.5)
t.ok(f.mon.quiet(0.1) if r else
     f.mon.recv(want="CALL_CANCEL")["call"] == m["call"],
     "a cancel that crosses the answer: one of the two wins", r)
for i in range(200):
    call(i)
    c.send(method="notifications/cancelled", params={"requestId": i})
numbers = []
for i in range(200):
    numbers.append(f.call()["call"])
    f.result(numbers[-1], {})
t.ok([f.mon.recv(want="CALL_CANCEL")["call"] for _ in numbers] == numbers,
     "each call has its cancel")
t.ok(c.line(0.2) is None and f.alive(), "200 calls, each cancelled at once")

# --- a monitor that lags behind
pairs = b"".join(
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":'
    b'"sandbox_exec"}}\n{"jsonrpc":"2.0","method":"notifications/cancelled",'
    b'"params":{"requestId":%d}}\n' % (i, i) for i in range(5000))
w = threading.Thread(target=c.raw, args=(pairs,), daemon=True)
w.start()
time.sleep(0.5)
t.ok(w.is_alive(), "calls are not read while the monitor lags behind")
good = True
for i in range(5000):
    m = f.call()
    good &= f.mon.recv(want="CALL_CANCEL")["call"] == m["call"]
t.ok(good and f.alive() and c.request("ping")["result"] == {},
     "none is lost when it reads again")
w.join()

# --- progress
call(15, meta={"progressToken": "tok\"15"})
m = f.call()
t.ok(m["want_progress"] == 1, "a token wants progress")
start = time.monotonic()
for i in range(100):
    f.mon.send("CALL_PROGRESS", call=m["call"], done=i // 2, total=50,
               message="m%d" % i)
    time.sleep(0.01)
span = time.monotonic() - start
f.result(m["call"], {})
f.mon.send("CALL_PROGRESS", call=m["call"], done=99, total=0, message="")
got = []
while True:
    r = c.recv()
    if r.get("id") == 15:
        break
    got.append(r["params"])
t.ok(2 <= len(got) <= 1 + 4 * span + 1, "at most four a second", len(got))
values = [g["progress"] for g in got]
t.ok(values == sorted(set(values)), "strictly rising", values)
t.ok(all(g["progressToken"] == "tok\"15" and g["total"] == 50 and
         g["message"][0] == "m" for g in got), "token, total, message", got)
t.ok(c.line(0.1) is None, "none after the end")
call(16)
m = f.call()
f.mon.send("CALL_PROGRESS", call=m["call"], done=1, total=2, message="")
t.ok(c.line(0.1) is None, "none without a token")
f.result(m["call"], {})
c.recv()
for token in (1.5, None, [], 1 << 53, "x" * 257):
    call(17, meta={"progressToken": token})
    r = c.recv()
    t.ok(is_error(r, -32602, 17), "progressToken %.12r: -32602" % token, r)

# --- resources
c.initialize("2025-11-25")
page = {"contents": [{"uri": "sbx://run/0123456789abcdef/stdout",
                      "mimeType": "text/plain", "text": "a\nb"}]}
for rev in LEGACY[1], MODERN:
    meta = {"_meta": META} if rev == MODERN else {}
    uri = "sbx://run/0123456789abcdef/stdout"
    c.send(id=20, method="resources/read", params=dict(meta, uri=uri))
    m = f.call()
    t.ok(m["tool"] == "resources/read" and m["container"] == "" and
         json.loads(m.args) == {"uri": uri}, rev + ": read is a call", m)
    f.result(m["call"], dict(page, resultType="x", evil=1))
    r = c.recv()
    t.ok(bad_result(rev, "contents", r, True) is None and
         r["result"]["contents"] == page["contents"] and
         "evil" not in r["result"], rev + ": contents and no more", r)
    for code, want in (("not_found", -32002 if rev != MODERN else -32602),
                       ("bad_argument", -32602), ("internal", -32603),
                       ("", -32603)):
        c.send(id=21, method="resources/read", params=dict(meta, uri=uri))
        m = f.call()
        f.result(m["call"], {"status": "error", "error": "No.",
                             "code": code}, is_error=1)
        r = c.recv()
        t.ok(is_error(r, want, 21) and r["error"]["message"] == "No.",
             "%s: %r is %d" % (rev, code, want), r)
    for data in (b"{}", b'{"contents":{}}', b"x"):
        c.send(id=22, method="resources/read", params=dict(meta, uri=uri))
        m = f.call()
        f.result(m["call"], data)
        r = c.recv()
        t.ok(is_error(r, -32603, 22), "%s: hostile %s" % (rev, data), r)
    c.send(id=23, method="resources/list", params=dict(meta, cursor="7"))
    m = f.call()
    t.ok(json.loads(m.args) == {"cursor": "7"}, rev + ": the cursor", m.args)
    f.result(m["call"], {"resources": [{"uri": "a:b", "name": "n"}],
                         "nextCursor": "8"})
    r = c.recv()
    t.ok(bad_result(rev, "resources", r, True) is None and
         r["result"]["nextCursor"] == "8", rev + ": list", r)
    c.send(id=24, method="resources/list", params=meta)
    m = f.call()
    t.ok(m.args == b"{}", rev + ": list without a cursor", m.args)
    f.mon.send("CALL_REFUSED", call=m["call"], code="busy", reason="Full.",
               next="")
    t.ok(is_error(c.recv(), -32603, 24), rev + ": refused")
    for method, params, result in (
            ("resources/templates/list", {}, {"resourceTemplates": []}),
            ("prompts/list", {}, {"prompts": [{"name": "p"}]}),
            ("prompts/get", {"name": "p", "arguments": {"a": "b"}},
             {"messages": [], "description": "d"}),
            ("completion/complete",
             {"ref": {"type": "ref/prompt", "name": "p"},
              "argument": {"name": "a", "value": "b"}},
             {"completion": {"values": ["c"]}})):
        c.send(id=25, method=method, params=dict(meta, x="unknown", **params))
        m = f.call()
        t.ok(m["tool"] == method and json.loads(m.args) == params,
             "%s: %s is a call with its params" % (rev, method), m.args)
        f.result(m["call"], dict(result, evil=1))
        r = c.recv()["result"]
        t.ok({k: r.get(k) for k in result} == result and "evil" not in r,
             "%s: %s is answered" % (rev, method), r)

# --- messages for the client's log
for rev, level, wanted in ((LEGACY[1], None, "info"),
                           (LEGACY[1], "error", "error"),
                           (MODERN, None, None), (MODERN, "debug", "debug")):
    meta = dict(META) if rev == MODERN else {}
    if rev == MODERN and level:
        meta[P + "logLevel"] = level
    elif level:
        c.request("logging/setLevel", {"level": level})
    c.send(id=26, method="tools/call", params={
        "_meta": meta, "name": "sandbox_list_containers"})
    m = f.call()
    names = ["", "debug", "info", "notice", "warning", "error", "critical",
             "alert", "emergency"]
    least = names.index(wanted) if wanted else 0
    t.ok(m["log_level"] == least, "%s %s: from %s on" % (rev, level, wanted), m)
    for i in range(1, 9):
        f.mon.send("CALL_LOG", call=m["call"], level=i, text="t\n%d" % i)
    f.result(m["call"], {"status": "ok"})
    seen = []
    while "method" in (r := c.recv()):
        seen.append(r["params"])
    t.ok(seen == [{"level": names[i], "logger": "sbx", "data": "t\n%d" % i}
                  for i in range(1, 9) if least and i >= least],
         "%s: no other message comes" % rev, seen)
f.mon.send("CALL_LOG", call=m["call"], level=8, text="late")
t.ok("result" in c.request("ping"), "a message for an ended call is dropped")
r = c.request("resources/read", {"uri": "x" * 1025})
t.ok(is_error(r, -32602, c.last), "a long URI: -32602", r)

# --- subscriptions/listen
c.send(id="s", method="subscriptions/listen",
       params={"_meta": META, "notifications": {"toolsListChanged": True}})
r = c.recv()
t.ok(r["method"] == "notifications/subscriptions/acknowledged" and
     r["params"]["_meta"] == {P + "subscriptionId": "s"} and
     r["params"]["notifications"] == {} and "id" not in r,
     "listen is acknowledged", r)
t.ok(c.line(0.2) is None and f.mon.quiet(0.05), "and stays open",
     f.mon.kept)
c.send(id="s", method="tools/list", params={"_meta": META})
t.ok(is_error(c.recv(), -32600, "s"), "its id is in flight")
c.send(method="notifications/cancelled", params={"requestId": "s"})
t.ok(c.line(0.1) is None and f.mon.quiet(0.05), "cancelled without a word")
c.send(id="s", method="tools/list", params={"_meta": META})
t.ok(c.recv()["id"] == "s", "and its id is free")

# --- full tables
for i in range(100):
    call(1000 + i)
calls, busy = [], 0
for i in range(36):
    busy += c.recv()["result"]["structuredContent"]["status"] == "busy"
calls = [f.call() for _ in range(64)]
t.ok(busy == 36, "past 64 calls of a connection: busy at once", busy)
for m in calls:
    f.result(m["call"], {})
t.ok(sorted(c.recv()["id"] for _ in calls) == list(range(1000, 1064)),
     "the 64 are answered")

# --- what it costs
n = 3000
times = []
for i in range(n):
    call(i, args={"container_id": "abcdef012345", "commands": ["true"]})
    m = f.call()
    f.result(m["call"], {"status": "ok", "exit_code": 0})
    c.recv()
with open("/proc/%d/stat" % f.proc.pid, encoding="ascii") as stat:
    before = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
for i in range(n):
    call(i, args={"container_id": "abcdef012345", "commands": ["true"]})
    m = f.call()
    f.result(m["call"], {"status": "ok", "exit_code": 0})
    c.recv()
with open("/proc/%d/stat" % f.proc.pid, encoding="ascii") as stat:
    after = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
us = (after - before) / os.sysconf("SC_CLK_TCK") / n * 1e6
print("# %.0f us of CPU a call" % us)
t.ok(f.end() == 0, "exit 0")
t.done()
sys.exit(t.bad > 0)
