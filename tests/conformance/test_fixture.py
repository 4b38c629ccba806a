#!/usr/bin/env python3
"""What only the fixture's tools can show of the product: content of every
type, headers that repeat arguments, an answer that lets its connection go."""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
# the official suite asks for tools that are not as this product's have to be
os.environ.pop("SBX_MCP_RECORD", None)
import fixture  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}}
MISMATCH = (400, -32020)


class Daemon:
    def __init__(self, build, **env):
        self.root = tempfile.mkdtemp(prefix="sbx-fixture-")
        os.chmod(self.root, 0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(self.root + "/err", "w") as err:
            self.proc = subprocess.Popen(
                [build + "/sbxd", "--transport", "http", "--port",
                 str(self.port)], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=err,
                env=dict(os.environ, SBX_ROOT=self.root,
                         SBX_HTTP_AUTH="none", **env))
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with open(self.root + "/err") as f:
                if "serving http://" in f.read():
                    return
            time.sleep(0.02)
        raise RuntimeError("the daemon does not serve")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(20)
        mcp.remove(self.root)

    def send(self, method, body=None, **headers):
        """(status, headers, text) of one request on its own connection"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        h = {"Accept": "application/json, text/event-stream",
             "Content-Type": "application/json"}
        h.update({k.replace("_", "-"): v for k, v in headers.items()})
        c.request(method, "/mcp", json.dumps(body) if body else None, h)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, r.headers, text

    def modern(self, method, params, **headers):
        """(status, answer) of one request of 2026-07-28"""
        params = dict(params, _meta=META)
        h = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if "name" in params or "uri" in params:
            h["Mcp_Name"] = params.get("name") or params["uri"]
        h.update(headers)
        status, _, text = self.send("POST", {
            "jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            **h)
        return status, json.loads(text)

    def session(self, version="2025-11-25"):
        """the headers of a new session"""
        _, h, _ = self.send("POST", {
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}})
        return {"Mcp_Session_Id": h["Mcp-Session-Id"],
                "MCP_Protocol_Version": version}

    def reconnection(self, s, tool="test_reconnection"):
        return self.send("POST", {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool}}, **s)


def test_content():
    for version in ("2024-11-05", "2025-11-25"):
        with mcp.Suite() as s:
            s.initialize(version)
            r = s.request("tools/call",
                          {"name": "test_multiple_content_types"})
            ok([c["type"] for c in r["content"]] ==
               ["text", "image", "resource"] and r["isError"] is False and
               "structuredContent" not in r,
               "%s: content of a tool's own is told as it is" % version, r)
            t = {t["name"]: t for t in s.request("tools/list")["tools"]}
            ok("outputSchema" not in t["test_simple_text"],
               "%s: no schema of an output that has none" % version)
            r = s.request("tools/call", {"name": "test_error_handling"})
            ok(r["isError"] and '"error"' in r["content"][0]["text"],
               "%s: its error has the one shape" % version, r)


def test_headers():
    def call(arguments, **headers):
        status, m = d.modern("tools/call", {
            "name": "test_custom_headers", "arguments": arguments},
            **headers)
        return status, m.get("error", {}).get("code")

    good = (200, None)
    rows = [
        ("nothing given, nothing repeated", {}, {}, good),
        ("a string", {"region": "us"}, {"Mcp_Param_Region": "us"}, good),
        ("names have no case", {"region": "us"},
         {"mcp_param_REGION": "us"}, good),
        ("values have", {"region": "us"}, {"Mcp_Param_Region": "US"},
         MISMATCH),
        ("base64", {"region": "Hello"},
         {"Mcp_Param_Region": "=?base64?SGVsbG8=?="}, good),
        ("base64 of UTF-8", {"region": "\u4e16"},
         {"Mcp_Param_Region": "=?base64?5LiW?="}, good),
        ("bad padding", {"region": "Hello"},
         {"Mcp_Param_Region": "=?base64?SGVsbG8?="}, MISMATCH),
        ("raw UTF-8", {"region": "\u4e16"},
         {"Mcp_Param_Region": "\u4e16".encode()}, MISMATCH),
        ("missing", {"region": "us"}, {}, MISMATCH),
        ("of nothing", {}, {"Mcp_Param_Region": "us"}, MISMATCH),
        ("null is nothing", {"region": None}, {}, good),
        ("an integer", {"count": 42}, {"Mcp_Param_Count": "42"}, good),
        ("an integer, as a number", {"count": 42},
         {"Mcp_Param_Count": "42.0"}, good),
        ("another integer", {"count": 420}, {"Mcp_Param_Count": "42"},
         MISMATCH),
        ("a boolean", {"dry": True}, {"Mcp_Param_Dry_Run": "true"}, good),
        ("the other boolean", {"dry": True},
         {"Mcp_Param_Dry_Run": "false"}, MISMATCH),
        ("inside of an object", {"where": {"zone": "a"}},
         {"Mcp_Param_Zone": "a"}, good),
        ("inside, another", {"where": {"zone": "a"}},
         {"Mcp_Param_Zone": "b"}, MISMATCH),
        ("unknown ones are nobody's", {}, {"Mcp_Param_Other": "x"}, good),
        ("a NUL ends nothing", {"region": "us\0x"},
         {"Mcp_Param_Region": "us"}, MISMATCH),
    ]
    with Daemon(build) as d:
        for text, arguments, headers, want in rows:
            got = call(arguments, **headers)
            ok(got == want, "headers: " + text, got)
        # the older revisions have none of it
        s = d.session()
        _, _, text = d.send("POST", {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "test_custom_headers",
                "arguments": {"region": "us"}}}, **s)
        ok("It was called" in text, "headers: not before " + MODERN, text)
        status, m = d.modern("resources/read", {"uri": "test://none"})
        ok(m["error"]["code"] == -32602 and
           m["error"]["data"] == {"uri": "test://none"},
           "a missing resource is named in the error's data", m)
        bad = dict(META, **{"io.modelcontextprotocol/protocolVersion": "v9"})
        for said, code in ((MODERN, -32020), ("v9", -32022)):
            status, _, text = d.send("POST", {
                "jsonrpc": "2.0", "id": 1, "method": "tools/list",
                "params": {"_meta": bad}}, MCP_Protocol_Version=said,
                Mcp_Method="tools/list")
            ok((status, json.loads(text)["error"]["code"]) == (400, code),
               "a version that is not here, by a header of " + said, text)


def test_hold():
    def events(text):
        return [dict(line.split(": ", 1) for line in e.split("\n")
                     if ": " in line) for e in text.split("\n\n") if e]

    with Daemon(build, SBX_HTTP_HOLD="1") as d:
        s = d.session()
        began = time.monotonic()
        status, h, text = d.reconnection(s)
        took = time.monotonic() - began
        e = events(text)
        ok(h["Content-Type"] == "text/event-stream" and took < 3.4 and
           "result" not in text and e[-1] == {"retry": "1000"},
           "hold: a silent answer lets its connection go, with retry",
           (took, text))
        status, h, text = d.send("GET", Last_Event_ID=e[0]["id"], **s)
        ok(status == 200 and "Reconnection test completed" in text,
           "hold: the answer is where it is asked for", text)
        _, _, text = d.send("GET", Last_Event_ID=e[0]["id"], **s)
        ok("Reconnection test completed" in text,
           "hold: and once more, should that have been lost", text)
        _, _, text = d.reconnection(d.session("2025-06-18"))
        ok("Reconnection test completed" in text,
           "hold: clients of before are not let go", text)
        c = d.reconnection(d.session(), "test_tool_with_progress")[2]
        ok("Done." in c, "hold: a short answer is as ever", c)
    with Daemon(build) as d:
        _, _, text = d.reconnection(d.session())
        ok("Reconnection test completed" in text,
           "hold: no answer lets go when it is 0", text)


with fixture.programs() as build:
    mcp.BUILD = build
    mcp.main(tap, globals(), sys.argv[1:])
