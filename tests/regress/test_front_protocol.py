#!/usr/bin/env python3
"""The front's protocol: the handshake, methods and errors of each revision,
and what is not a message at all."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from front_monitor import (Front, LEGACY, META, MODERN, P, Tap,  # noqa: E402
                           bad_result, is_error)

t = Tap()
f = Front()
c = f.c

# --- before initialize
t.ok(f.hello["pid"] == f.proc.pid, "HELLO comes first, with its pid")
r = c.request("tools/list")
t.ok(is_error(r, -32602, 1), "no version, not initialized: -32602", r)
t.ok(bad_result(LEGACY[1], "empty", c.request("ping")) is None,
     "ping is answered before initialize")
r = c.request("no/such")
t.ok(is_error(r, -32601, 3), "unknown method: -32601", r)

# --- the modern revision, on the same connection, without initialize
r = c.modern("server/discover")
t.ok(bad_result(MODERN, "discover", r, True) is None, "discover", r)
t.ok(r["result"]["supportedVersions"][0] == MODERN and
     set(LEGACY) < set(r["result"]["supportedVersions"]),
     "discover names the versions")
t.ok(set(r["result"]["capabilities"]) ==
     {"tools", "resources", "prompts", "completions", "logging",
      "extensions"},
     "discover declares what is there, and no more")
t.ok(len(r["result"]["instructions"].encode()) <= 2048,
     "instructions are at most 2,048 bytes")
r = c.modern("tools/list")
t.ok(bad_result(MODERN, "tools", r, True) is None, "modern tools/list", r)
modern_tools = r["result"]["tools"]
for name in ("ping", "initialize", "logging/setLevel", "resources/subscribe"):
    r = c.modern(name)
    t.ok(is_error(r, -32601, c.last), "modern: %s is not there" % name, r)
for version, text in (("1900-01-01", "unknown"), ("2025-11-25", "a legacy"),
                      ("", "an empty")):
    r = c.request("server/discover", {
        "_meta": dict(META, **{P + "protocolVersion": version})})
    t.ok(is_error(r, -32022, c.last) and
         r["error"]["data"]["requested"] == version and
         MODERN in r["error"]["data"]["supported"],
         "%s version in _meta: -32022 with the list" % text, r)
for key, value in ((P + "protocolVersion", 7), (P + "clientCapabilities", 1)):
    r = c.request("tools/list", {"_meta": dict(META, **{key: value})})
    t.ok(is_error(r, -32602, c.last), "mistyped %s: -32602" % key, r)
r = c.request("tools/list", {"_meta": {P + "protocolVersion": MODERN}})
t.ok(is_error(r, -32602, c.last), "no clientCapabilities: -32602", r)
r = c.request("server/discover")
t.ok(is_error(r, -32602, c.last), "discover without _meta is answered", r)

# --- the legacy ones
for version in LEGACY:
    r = c.initialize(version)
    t.ok(bad_result(version, "initialize", r) is None and
         r["result"]["protocolVersion"] == version,
         "initialize selects %s" % version, r)
    t.ok(r["result"]["serverInfo"]["name"] == "sbx", "serverInfo")
    r = c.request("tools/list")
    t.ok(bad_result(version, "tools", r) is None, version + " tools/list", r)
    t.ok(r["result"]["tools"] == modern_tools, "the same tools")
    t.ok(bad_result(version, "empty", c.request("ping")) is None,
         version + " ping")
    r = c.request("server/discover")
    t.ok(is_error(r, -32601, c.last), version + " has no discover", r)
    c.raw(b"{\n")
    r = c.recv()
    want = None if version == "2025-06-18" else "absent"
    t.ok(is_error(r, -32700, want),
         version + ": an error without id says " + str(want), r)
for version in ("2024-11-04", MODERN, "9999-99-99", ""):
    r = c.initialize(version)
    t.ok(r["result"]["protocolVersion"] == "2025-11-25",
         "initialize with %r gives the newest legacy one" % version, r)
r = c.request("initialize", {})
t.ok(is_error(r, -32602, c.last), "initialize without a version: -32602", r)
r = c.modern("tools/list")
t.ok(bad_result(MODERN, "tools", r, True) is None,
     "both eras on one connection", r)
r = c.request("tools/list", {"cursor": "x"})
t.ok(is_error(r, -32602, c.last), "tools/list: no such cursor", r)
for method, params in (
        ("resources/list", {"cursor": 1}), ("prompts/list", {"cursor": []}),
        ("resources/read", {"uri": "x" * 1025}), ("prompts/get", {}),
        ("prompts/get", {"name": "x", "arguments": []}),
        ("completion/complete", {"ref": "x", "argument": {}}),
        ("completion/complete", {"ref": {}}),
        ("logging/setLevel", {"level": "loud"}), ("logging/setLevel", {}),
        ("logging/setLevel", {"level": 7})):
    r = c.request(method, params)
    t.ok(is_error(r, -32602, c.last),
         "%s %.30s: -32602" % (method, params), r)
r = c.request("logging/setLevel", {"level": "error"})
t.ok(r.get("result") == {}, "a level is set", r)
r = c.request("resources/read", {})
t.ok(is_error(r, -32602, c.last), "resources/read without uri: -32602", r)

# --- the list of tools
total = sum(len(x["description"].encode()) for x in modern_tools)
t.ok(total <= 12000 and all(len(x["description"].encode()) <= 1024
                            for x in modern_tools),
     "descriptions are short", total)
t.ok(len({x["name"] for x in modern_tools}) == len(modern_tools) > 5,
     "tool names are unique")
a = c.request("tools/list")["result"]
b = c.request("tools/list")["result"]
t.ok(json.dumps(a) == json.dumps(b), "tools/list is the same each time")

# --- what is not a message
BAD = [
    (b"{", -32700, "cut"), (b"nonsense", -32700, "a word"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', -32700, "trailing text"),
    (b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}', -32700, "not UTF-8"),
    (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', -32700, "lone surrogate"),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, "NaN"),
    (b'{"jsonrpc":"2.0","id":1,"method":"a\x01"}', -32700, "control"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 70 +
     b"]" * 70 + b"}", -32600, "too deep", 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 70 +
     b"]" * 69 + b"}", -32700, "too deep, and cut"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 5000 +
     b"]" * 5000 + b"}", -32700, "far too deep"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}} x',
     -32700, "duplicate key, then trailing text"),
    (b'{"jsonrpc":"2.0","id":"\\u0031","method":"ping","params":{"a":'
     b"18446744073709551616}}", -32600, "a number beyond 64 bits", "1"),
    (b'{"params":{"name":"x","arguments":{"a":[-9223372036854775809]}},'
     b'"method":"tools/call","\\u0069d":-7,"jsonrpc":"2.0"}', -32600,
     "one in arguments, before the id", -7),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}',
     -32600, "a number beyond a double", 1),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":1e999}}', -32600,
     "one in an answer, whose id is ours"),
    (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', -32600,
     "a method that is two"),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping","params":[1e999]}', -32600,
     "beside an id that is none"),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 2000 + b'","method":"ping",'
     b'"params":[1e999]}', -32600, "beside an id that is too long"),
    (b'{"jsonrpc":"2.0","method":"ping","params":[1e999]}', -32600,
     "in a notification"),
    (b"[" * 100000, -32700, "very deep"),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600,
     "duplicate key"),
    (b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"ping"}', -32600,
     "duplicate key, escaped"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",'
     b'"arguments":{"a":1,"a":2}}}', -32600, "duplicate key in arguments", 1),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "batch"),
    (b"[]", -32600, "empty batch"), (b'"x"', -32600, "a string"),
    (b"7", -32600, "a number"), (b"null", -32600, "null"),
    (b"{}", -32600, "an empty object"),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, "id null"),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, "id 1.5"),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, "id true"),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, "id list"),
    (b'{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}', -32600,
     "id 2^53"),
    (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', -32600,
     "id beyond int64"),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 257 + b'","method":"ping"}', -32600,
     "long id"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"' + b"y" * 300000 +
     b'"}', -32600, "a large envelope", 1),
]
for line, code, text, *mid in BAD:
    c.raw(line + b"\n")
    r = c.recv()
    t.ok(is_error(r, code, *mid), "%s: %d" % (text, code), r)
for extra, mid, text in ((b'"id":5,"method":"ping"', 5, "no jsonrpc"),
                         (b'"jsonrpc":"1.0","id":6,"method":"ping"', 6,
                          "jsonrpc 1.0"),
                         (b'"jsonrpc":"2.0","id":7', 7, "no method"),
                         (b'"jsonrpc":"2.0","id":"8","method":8', "8",
                          "method is a number")):
    c.raw(b"{" + extra + b"}\n")
    r = c.recv()
    t.ok(is_error(r, -32600, mid), text + ": -32600 with its id", r)
for params in (b"[1]", b'"x"', b"7"):
    c.raw(b'{"jsonrpc":"2.0","id":9,"method":"ping","params":' + params +
          b"}\n")
    r = c.recv()
    t.ok(is_error(r, -32602, 9), "params %s: -32602" % params, r)

c.raw(b'{"jsonrpc":"2.0","id":9,"method":"ping","params":null}\n')
r = c.recv()
t.ok(r["id"] == 9 and "result" in r, "params null: as if they were absent", r)

# --- what is not answered
for text in ('{"jsonrpc":"2.0","method":"no/such"}',
             '{"jsonrpc":"2.0","method":"ping"}',
             '{"jsonrpc":"2.0","method":"tools/list","params":[]}',
             '{"jsonrpc":"2.0","method":"notifications/cancelled"}',
             '{"jsonrpc":"2.0","id":1,"result":{}}',
             '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
             "", "  \t ", "\r"):
    c.raw(text.encode() + b"\n")
for key, value in (("protocolVersion", 7), ("protocolVersion", "1900-01-01"),
                   ("protocolVersion", LEGACY[0]), ("clientCapabilities", 1),
                   ("logLevel", "loud")):
    c.send(method="notifications/cancelled", params={
        "requestId": 1, "_meta": dict(META, **{P + key: value})})
t.ok(c.line(0.2) is None, "notifications, right or wrong, answers, empty lines: no answer")
c.raw(b' {"jsonrpc":"2.0","id":"a\\"\\u2028\\u0000b","method":"ping"} \r\n')
line = c.line()
t.ok(json.loads(line)["id"] == 'a"\u2028\0b' and b"\xe2\x80\xa8" not in line,
     "an id comes back as it was, escaped", line)
c.send(id=-9007199254740991, method="ping")
t.ok(c.recv()["id"] == -9007199254740991, "the smallest integer id")
c.raw(b'{"\\u006detho\\u0064":"ping","id":1,"jsonrpc":"2.0","unknown":[]}\n')
t.ok(c.recv().get("result") == {}, "escaped names, unknown members")
t.ok(f.alive() and f.mon.quiet(0.1), "the monitor heard nothing of all this")
t.ok(f.end() == 0, "it exits 0 when the monitor's channel ends")

# --- profiles
sizes = {}
for profile in ("", "implement", "review", "issue"):
    f = Front(profile=profile)
    sizes[profile] = len(f.c.modern("tools/list")["result"]["tools"])
    f.end()
t.ok(sizes[""] >= max(sizes.values()) and min(sizes.values()) > 0,
     "profiles filter the list", sizes)

t.done()
sys.exit(t.bad > 0)
