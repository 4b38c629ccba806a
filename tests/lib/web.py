"""A daemon that serves HTTP, and a client of it that does all right unless it
is told not to.

    d = web.Daemon()
    h = web.Http(d)
    h.initialize()
    box = h.result("sandbox_initialize", image="host")["container_id"]

Only the standard library; every wait has a deadline.
"""
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

import mcp
import mcprecord

BUILD = os.environ.get("SBX_BUILD", "")
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}}
BOTH = "application/json, text/event-stream"
RECORD = mcprecord.Recorder("http")
_exchanges = itertools.count(1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    def __init__(self, *args, root=None, **env):
        self.root = root or tempfile.mkdtemp(prefix="sbx-http-")
        self.port = free_port()
        self.env = dict(os.environ, SBX_ROOT=self.root, **env)
        self.err = open(self.root + "/err", "w+")
        self.proc = subprocess.Popen(
            [BUILD + "/sbxd", "--transport", "http", "--port",
             str(self.port), *args], env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.err)
        end = time.time() + 20
        while "serving http://" not in self.log() and \
                self.proc.poll() is None and time.time() < end:
            time.sleep(0.02)
        try:
            with open(self.root + "/etc/token-local") as f:
                self.token = f.read().strip()
        except OSError:
            self.token = None

    def log(self):
        with open(self.root + "/err") as f:
            return f.read()

    def sbx(self, *args):
        return subprocess.run([BUILD + "/sbx", *args], env=self.env,
                              capture_output=True, text=True, timeout=30)

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(20)
        self.err.close()

    def close(self):
        self.stop()
        mcp.remove(self.root)


class Http:
    """One connection; default headers of a client that does all right."""

    def __init__(self, d, token=None):
        self.d, self.token = d, token or d.token
        self.c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30)
        self.session = None
        self.id = 0

    def send(self, method, path="/mcp", body=None, **headers):
        h = {"Accept": BOTH}
        if self.token:
            h["Authorization"] = "Bearer " + self.token
        if self.session:
            h["Mcp-Session-Id"] = self.session
        if body is not None:
            h["Content-Type"] = "application/json"
            body = body if isinstance(body, (str, bytes)) else \
                json.dumps(body)
        h.update({k.replace("_", "-"): v for k, v in headers.items()})
        h = {k: v for k, v in h.items() if v is not None}
        return self._recorded(path, body, h, lambda: self.c.request(
            method, path, body, h) or self.c.getresponse())

    def _recorded(self, path, body, headers, exchange):
        """x: the exchange, s: its session, v: its version by the headers"""
        where = {"x": next(_exchanges), "v": headers.get(
            "MCP-Protocol-Version"), "s": headers.get("Mcp-Session-Id") or
            path.partition("session_id=")[2]}
        if body is not None:
            RECORD.request(body, **where)
        r = exchange()
        where["s"] = r.getheader("Mcp-Session-Id") or where["s"]
        return mcprecord.Response(r, RECORD, where)

    def ask(self, method, path="/mcp", body=None, **headers):
        r = self.send(method, path, body, **headers)
        return r.status, r, r.read()

    def rpc(self, method, params=None, **headers):
        self.id += 1
        m = {"jsonrpc": "2.0", "id": self.id, "method": method}
        if params is not None:
            m["params"] = params
        status, r, text = self.ask("POST", body=m, **headers)
        if r.getheader("Content-Type") == "text/event-stream":
            text = events(text)[-1][1]
        return status, json.loads(text) if text else None

    def modern(self, method, named=None, **params):
        h = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if named:
            h["Mcp_Name"] = named
        return self.rpc(method, dict(params, _meta=META), **h)

    def initialize(self, version="2025-11-25"):
        status, r, text = self.ask("POST", body={
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}})
        self.session = r.getheader("Mcp-Session-Id")
        self.ask("POST", body={"jsonrpc": "2.0",
                               "method": "notifications/initialized"})
        return status, json.loads(text)

    def tool(self, tool, /, **arguments):
        return self.rpc("tools/call", {"name": tool,
                                       "arguments": arguments})[1]

    def result(self, tool, /, **arguments):
        return self.tool(tool, **arguments)["result"]["structuredContent"]


def two(d, *versions):
    """clients of alice and bob, initialized"""
    tokens = [d.sbx("token", "add", n).stdout.strip()
              for n in ("alice", "bob")]
    clients = [Http(d, t) for t in tokens]
    for c, version in zip(clients, versions or ("2025-11-25",) * 2):
        c.initialize(version)
    return clients


def events(text):
    """[(id, data)] of a stream that has ended, comments left out."""
    out = []
    for block in text.decode().split("\n\n"):
        f = dict(line.split(": ", 1) for line in block.split("\n")
                 if ": " in line and not line.startswith(":"))
        if f.get("data"):
            out.append((f.get("id"), f["data"]))
    return out
