#!/usr/bin/env python3
"""The validator of what servers send, and the judge above it: each keyword;
a value of each definition, and each of them with something taken away or of
a wrong type; conversations in which the server errs."""
import copy
import json
import os
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import mcpjudge  # noqa: E402
import mcpschema  # noqa: E402

tap = mcp.Tap()
ok = tap.ok

# schema, values that fit, values that do not
KEYWORDS = [
    ({"type": "string"}, ["", "x"], [1, None, [], {}, True]),
    ({"type": "integer"}, [1, -1, 1.0], [1.5, True, "1", None]),
    ({"type": "number"}, [1, 1.5], [True, "1", None]),
    ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
    ({"type": "null"}, [None], [0, "", False]),
    ({"type": "array"}, [[], [1]], [{}, "x"]),
    ({"type": "object"}, [{}, {"a": 1}], [[], None]),
    ({"type": ["string", "integer"]}, ["x", 1], [1.5, None, True]),
    ({"const": "a"}, ["a"], ["b", None]),
    ({"const": 1}, [1, 1.0], [True, "1"]),
    ({"enum": ["a", 1, None]}, ["a", 1, None], ["b", True, 0]),
    ({"anyOf": [{"type": "string"}, {"minimum": 3, "type": "number"}]},
     ["x", 3], [2, None]),
    ({"oneOf": [{"minimum": 3}, {"maximum": 5}]}, [2, 6], [4]),
    ({"allOf": [{"minimum": 3}, {"maximum": 5}]}, [3, 5], [2, 6]),
    ({"not": {"type": "string"}}, [1], ["x"]),
    ({"if": {"required": ["a"]}, "then": {"required": ["b"]},
      "else": {"required": ["c"]}}, [{"a": 1, "b": 1}, {"c": 1}],
     [{"a": 1}, {"b": 1}]),
    ({"required": ["a"]}, [{"a": None}, 7], [{}, {"b": 1}]),
    ({"properties": {"a": {"type": "string"}}}, [{"a": "x"}, {"b": 1}],
     [{"a": 1}]),
    ({"properties": {"a": True}, "additionalProperties": False},
     [{}, {"a": 1}], [{"b": 1}]),
    ({"additionalProperties": {"type": "string"}}, [{"a": ""}], [{"a": 1}]),
    ({"patternProperties": {"^x": {"type": "string"}},
      "additionalProperties": False}, [{"x1": ""}], [{"x1": 1}, {"y": ""}]),
    ({"items": {"type": "string"}}, [[], ["x"]], [[1], ["x", None]]),
    ({"minItems": 1}, [[1], "x"], [[]]),
    ({"maxItems": 1}, [[], [1]], [[1, 2]]),
    ({"uniqueItems": True}, [[1, True, "1"]], [[1, 1.0], [{}, {}]]),
    ({"minLength": 2}, ["xx"], ["x"]),
    ({"maxLength": 2}, ["xx"], ["xxx"]),
    ({"minProperties": 1}, [{"a": 1}], [{}]),
    ({"maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 1}]),
    ({"pattern": "^[a-f]+$"}, ["abc", 7], ["xyz", ""]),
    ({"minimum": 0}, [0, "x"], [-1]),
    ({"maximum": 1}, [1], [1.1]),
    ({"exclusiveMinimum": 0}, [0.1], [0]),
    ({"exclusiveMaximum": 1}, [0.9], [1]),
    ({"multipleOf": 5}, [10], [7]),
    ({"format": "uri", "type": "string"},
     ["sbx://run/x/stdout", "file:///a%20b", "a:"],
     ["", "no scheme", "/a", "x:a b", "x:%2", "x:ä"]),
    ({"format": "byte"}, ["", "aGk="], ["aGk", "a b=", "ä"]),
    ({"format": "uri-template"}, ["sbx://run/{id}/{stream}", "{?a,b*}"],
     ["{", "a}b", "{a b}", "a b"]),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}},
     ["x"], [1]),
    (True, [1, None], []),
    ({"properties": {"a": False}}, [{}], [{"a": 1}]),
]


def test_keywords():
    for root, good, bad in KEYWORDS:
        s = mcpschema.Schema(root if isinstance(root, dict) else {})
        wrong = [v for v in good if s.validate(v, root)] + \
            [v for v in bad if not s.validate(v, root)]
        ok(not wrong, json.dumps(root)[:70], wrong)
    for root in ({"type": "object", "dependentRequired": {}},
                 {"properties": {"a": {"contains": {}}}},
                 {"anyOf": [{"items": {"$dynamicRef": "#x"}}]},
                 {"items": [{}]}, {"format": "date"},
                 {"$ref": "http://example.com/x"}):
        try:
            mcpschema.Schema(root)
            refused = False
        except mcpschema.Unknown:
            refused = True
        ok(refused, "refused, for it is not known: " + json.dumps(root))
    old = {"$ref": "#/definitions/a", "minimum": 3, "definitions": {
        "a": {"type": "integer"}}}
    ok(not mcpschema.Schema(dict(old, **{
        "$schema": "http://json-schema.org/draft-07/schema#"})).validate(
            1, old), "draft-07 reads nothing beside a $ref")
    ok(mcpschema.Schema(old).validate(1, old), "2020-12 does")


WRONG = {"string": 7, "number": "x", "integer": "x", "boolean": "x",
         "array": {}, "object": "x"}


def mutations(rev, kind, value):
    """(what, a value that is wrong by that) for each object in it"""
    visits = []
    rev.validate(value, rev.defs[kind], "", (kind, ()), visits)
    for v in visits:
        if not v.alone:
            continue        # another choice may allow it
        for name in v.node.get("required", ()):
            kept = v.value.pop(name, None)
            yield f"{v.where} without {name}", value
            v.value[name] = kept
        for name, node in v.node.get("properties", {}).items():
            if name not in v.value:
                continue
            while "$ref" in node:
                node = rev.find(node["$ref"])
            bad = WRONG.get(node["type"]) if isinstance(
                node.get("type"), str) else None
            if bad is not None:
                kept, v.value[name] = v.value[name], bad
                yield f"{v.where}.{name} of a wrong type", value
                v.value[name] = kept


TEXTS = {"uri": "a:b", "byte": "YQ==", "uri-template": "a:{b}"}


def make(rev, node, depth=0):
    """a value that fits: all that it may have, near the top"""
    if "$ref" in node:
        return make(rev, rev.find(node["$ref"]), depth)
    for key in ("const", "enum", "anyOf", "oneOf"):
        if key in node:
            return (node[key] if key == "const" else
                    node[key][0] if key == "enum" else
                    make(rev, node[key][0], depth + 1))
    kind = node.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [make(rev, node["items"], depth + 1)] if depth < 5 else []
    if kind != "object":
        return {"string": TEXTS.get(node.get("format"), "x"), "null": None,
                "boolean": True}.get(kind, node.get("minimum", 1))
    value = {}
    for part in [node] + node.get("allOf", []):
        if "$ref" in part:
            value.update(make(rev, part, depth))
        for name, n in part.get("properties", {}).items():
            if depth < 4 or name in part.get("required", ()):
                value[name] = make(rev, n, depth + 1)
    return value


def test_made(rev):
    tried, n = 0, 0
    for kind in sorted(rev.defs):
        value = make(rev, rev.defs[kind])
        bad = rev.errors(value, kind, strict=False)
        missed = []
        for what, wrong in mutations(rev, kind, copy.deepcopy(value)):
            tried += 1
            if not rev.errors(wrong, kind, strict=False):
                missed.append(what)
        n += 1
        if bad or missed:
            ok(False, f"{rev.name} {kind}", (bad or missed, value))
    ok(n > 75 and tried > 300, f"{rev.name}: a value of each of {n} "
       f"definitions, {tried} times broken", (n, tried))


META = {mcpjudge.VERSION: "2026-07-28",
        mcpschema.RESERVED + "clientCapabilities": {}}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
OUT = dict(TOOL, outputSchema={"type": "object", "required": ["n"],
                               "properties": {"n": {"type": "integer"}}})
MODERN = {"resultType": "complete"}
CACHE = dict(MODERN, ttlMs=1, cacheScope="public")
TEXT = [{"type": "text", "text": '{"n": 1}'}]


def call(content=None, **more):
    return dict({"content": content or TEXT}, **more)


GOOD = {"2024-11-05": call(), "2025-03-26": call(), "2025-06-18": call(
    structuredContent={"n": 1}), "2025-11-25": call(
        structuredContent={"n": 1}, isError=False)}

# what it is; revision; method; what the server says (result, or whole)
ERRS = [
    ("ping with members", "2025-11-25", "ping", {"x": 1}),
    ("resultType too early", "2025-11-25", "ping", MODERN),
    ("icons too early", "2025-06-18", "tools/list",
     {"tools": [dict(TOOL, icons=[])]}),
    ("outputSchema too early", "2025-03-26", "tools/list", {"tools": [OUT]}),
    ("title too early", "2025-03-26", "tools/list",
     {"tools": [dict(TOOL, title="T")]}),
    ("annotations too early", "2024-11-05", "tools/list",
     {"tools": [dict(TOOL, annotations={})]}),
    ("execution too early", "2025-06-18", "tools/list",
     {"tools": [dict(TOOL, execution={})]}),
    ("structuredContent too early", "2025-03-26", "tools/call",
     call(structuredContent={"n": 1})),
    ("a link too early", "2025-03-26", "tools/call",
     call(TEXT + [{"type": "resource_link", "uri": "a:b", "name": "x"}])),
    ("audio too early", "2024-11-05", "tools/call",
     call(TEXT + [{"type": "audio", "data": "", "mimeType": "a/b"}])),
    ("cache hints too early", "2025-11-25", "resources/list",
     {"resources": [], "ttlMs": 1, "cacheScope": "public"}),
    ("reserved _meta too early", "2025-11-25", "ping",
     {"_meta": {mcpschema.RESERVED + "serverInfo": {}}}),
    ("completions too early", "2024-11-05", "initialize",
     {"protocolVersion": "2024-11-05", "serverInfo": {
         "name": "x", "version": "1"}, "capabilities": {"completions": {}}}),
    ("tasks in 2026-07-28", "2026-07-28", "server/discover", dict(
        CACHE, supportedVersions=[], capabilities={"tasks": {}})),
    ("no resultType", "2026-07-28", "tools/list", {
        "tools": [], "ttlMs": 1, "cacheScope": "public"}),
    ("an unknown resultType", "2026-07-28", "tools/call",
     call(resultType="x")),
    ("no cache hints", "2026-07-28", "tools/list", dict(MODERN, tools=[])),
    ("ping in 2026-07-28", "2026-07-28", "ping", MODERN),
    ("a method of no revision", "2025-11-25", "no/such", {}),
    ("discover too early", "2025-11-25", "server/discover", {}),
    ("no tools", "2025-11-25", "tools/list", {}),
    ("a tool without schema", "2025-11-25", "tools/list",
     {"tools": [{"name": "t"}]}),
    ("a schema that is no object's", "2025-11-25", "tools/list",
     {"tools": [{"name": "t", "inputSchema": {"type": "array"}}]}),
    ("another text", "2025-11-25", "tools/call",
     call(structuredContent={"n": 2})),
    ("not its outputSchema", "2025-11-25", "tools/call",
     call([{"type": "text", "text": '{"n": "x"}'}],
          structuredContent={"n": "x"})),
    ("text that is no JSON", "2024-11-05", "tools/call",
     call([{"type": "text", "text": "done"}])),
    ("no URI", "2025-11-25", "resources/read",
     {"contents": [{"uri": "no uri", "text": ""}]}),
    ("no base64", "2025-11-25", "resources/read",
     {"contents": [{"uri": "a:b", "blob": "%"}]}),
    ("initialize selects nothing", "2025-11-25", "initialize",
     {"protocolVersion": "1", "capabilities": {}, "serverInfo": {
         "name": "x", "version": "1"}}),
]
WHOLE = [
    ("no jsonrpc", "2025-11-25", {"id": 1, "result": {}}),
    ("jsonrpc 1.0", "2025-11-25", {"jsonrpc": "1.0", "id": 1, "result": {}}),
    ("a member too many", "2025-11-25",
     {"jsonrpc": "2.0", "id": 1, "result": {}, "x": 1}),
    ("an answer to nothing", "2025-11-25",
     {"jsonrpc": "2.0", "id": 99, "result": {}}),
    ("null as id", "2025-11-25", {"jsonrpc": "2.0", "id": None, "error": {
        "code": -32700, "message": ""}}),
    ("null as id where it was read", "2025-06-18", {
        "jsonrpc": "2.0", "id": None, "error": {"code": -32601,
                                                "message": ""}}),
    ("an error without message", "2025-11-25",
     {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601}}),
    ("a code that is text", "2025-11-25",
     {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": ""}}),
    ("-32022 without data", "2026-07-28",
     {"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": ""}}),
    ("a batch", "2025-06-18", [{"jsonrpc": "2.0", "id": 1, "result": {}}]),
    ("a task's status too early", "2025-06-18",
     {"jsonrpc": "2.0", "method": "notifications/tasks/status",
      "params": {}}),
    ("an acknowledgement too early", "2025-11-25",
     {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
      "params": {"notifications": {}}}),
    ("elicitation too early", "2025-03-26",
     {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {
         "message": "", "requestedSchema": {"type": "object",
                                            "properties": {}}}}),
    ("a request in 2026-07-28", "2026-07-28",
     {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    ("progress without token", "2025-11-25",
     {"jsonrpc": "2.0", "method": "notifications/progress",
      "params": {"progress": 1}}),
    ("progress with a message too early", "2024-11-05",
     {"jsonrpc": "2.0", "method": "notifications/progress",
      "params": {"progress": 1, "progressToken": 1, "message": ""}}),
    ("7", "2025-11-25", 7),
]


def judged(revs, rev, records):
    """what the judge says of one conversation in that revision"""
    judge = mcpjudge.Judge(revs)
    judge.outputs["t"] = OUT["outputSchema"]
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/a.jsonl", "w", encoding="utf-8") as f:
            for r in [{"transport": "stdio", "fake": False, "test": "t"},
                      {"d": ">", "m": {"id": 0, "method": "initialize"}},
                      {"d": "<", "m": {"jsonrpc": "2.0", "id": 0, "result": {
                          "protocolVersion": rev, "capabilities": {},
                          "serverInfo": {"name": "x", "version": "1"}}}}
                      ][:1 if rev == "2026-07-28" else 3] + records:
                f.write(json.dumps(r) + "\n")
        judge.read(d)
    judge.finish()
    return sorted(s for _, s in judge.bad), judge


def asked(method, rev, **params):
    if rev == "2026-07-28":
        params["_meta"] = META
    return {"d": ">", "m": {"id": 1, "method": method, "params": params}}


def said(result):
    return {"d": "<", "m": {"jsonrpc": "2.0", "id": 1, "result": result}}


def test_judge(revs):
    for rev, result in GOOD.items():
        bad, judge = judged(revs, rev, [asked("tools/call", rev, name="t"),
                                        said(result)])
        ok(not bad and judge.seen[rev]["CallToolResult"] == 1,
           f"{rev}: a good result", bad)
    for what, rev, method, result in ERRS:
        bad, _ = judged(revs, rev, [asked(method, rev, name="t"),
                                    said(result)])
        ok(bad, f"{rev}: {what}")
        print("# " + "; ".join(bad)[:300])
    for what, rev, message in WHOLE:
        method = "tools/list" if rev == "2026-07-28" else "ping"
        bad, _ = judged(revs, rev, [asked(method, rev),
                                    {"d": "<", "m": message}])
        ok(bad, f"{rev}: {what}")
        print("# " + "; ".join(bad)[:300])
    bad, _ = judged(revs, "2025-11-25", [{"d": "<", "text": "b'x'"}])
    ok(bad, "what is no JSON", bad)
    bad, _ = judged(revs, "2025-03-26", [
        {"d": ">", "m": [{"id": 1, "method": "ping"}]},
        {"d": "<", "m": [{"jsonrpc": "2.0", "id": 1, "result": {}}]}])
    ok(not bad, "a batch where there are batches", bad)


def main():
    test_keywords()
    if mcpschema.directory() is None:
        tap.skip("SBX_MCP_SCHEMA names no directory with MCP's schemas",
                 "the schemas of MCP")
    else:
        revs = mcpschema.load()
        for rev in revs.values():
            test_made(rev)
        test_judge(revs)
    tap.done()
    sys.exit(tap.bad > 0)


main()
