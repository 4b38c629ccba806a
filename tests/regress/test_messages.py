#!/usr/bin/env python3
"""Makes a server say all that it can: each method, error, notification and
tool, in each revision, over stdio, Streamable HTTP and the older pair of
HTTP and events.  What it says is judged by the protocol's schemas, here as in
check_messages.py; the test itself only asks for answers."""
import base64
import itertools
import json
import os
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
if "SBX_MCP_RECORD" not in os.environ:
    os.environ["SBX_MCP_RECORD"] = tempfile.mkdtemp(prefix="sbx-messages-")
import mcp  # noqa: E402
import mcpjudge  # noqa: E402
import mcpschema  # noqa: E402
import web  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
P = mcpschema.RESERVED
MODERN = mcpschema.NAMES[-1]
LEGACY = mcpschema.NAMES[:-1]
CAN = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ids = itertools.count(1000)

# what this client answers when a server asks
ANSWERS = {
    "ping": {}, "roots/list": {"roots": []},
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {
        "role": "assistant", "model": "none",
        "content": {"type": "text", "text": "no"}},
}


class Suite(mcp.Suite):
    def recv(self, timeout=30):
        m = super().recv(timeout)
        if isinstance(m, dict) and "id" in m and "method" in m:
            self.send({"id": m["id"], "result": ANSWERS.get(m["method"], {})})
        return m


class Peer:
    """One client in one revision; ask() gives the answer or None."""

    def __init__(self, rev):
        self.rev = rev
        self.modern = rev == MODERN
        self.capabilities = {}

    def params(self, params):
        if not self.modern:
            return params
        meta = {P + "protocolVersion": self.rev,
                P + "clientCapabilities": self.capabilities,
                P + "clientInfo": {"name": "t", "version": "1"},
                P + "logLevel": "debug"}
        return dict(params, _meta=dict(meta, **params.get("_meta", {})))

    def message(self, method, params):
        m = {"jsonrpc": "2.0", "method": method}
        params = self.params(params)
        return dict(m, params=params) if params else m

    def ask(self, method, **params):
        return self.exchange(dict(self.message(method, params),
                                  id=next(ids)))

    def call(self, tool, _meta=None, **arguments):
        more = {"_meta": _meta} if _meta else {}
        r = self.ask("tools/call", name=tool, arguments=arguments, **more)
        content = ((r or {}).get("result") or {}).get("content") or [{}]
        return mcpjudge.json_of(content[0].get("text")) or {}

    def hello(self):
        if not self.modern:
            self.ask("initialize", protocolVersion=self.rev,
                     capabilities=self.capabilities,
                     clientInfo={"name": "t", "version": "1"})
            self.tell("notifications/initialized")


class Stdio(Peer):
    def __init__(self, rev, suite):
        super().__init__(rev)
        self.s = suite
        self.hello()

    def tell(self, method, **params):
        self.s.send(self.message(method, params))

    def exchange(self, m, timeout=60):
        self.s.send(m)
        return self.s.answer(m["id"], timeout)

    def raw(self, text):
        self.s.raw(text + b"\n")
        while True:
            m = self.s.recv()
            if isinstance(m, list) or "method" not in m:
                return m

    def cancelled(self, method, params):
        """begun, and given up; nothing but the next answer may come"""
        m = dict(self.message(method, params), id=next(ids))
        self.s.send(m)
        time.sleep(0.7)
        self.tell("notifications/cancelled", requestId=m["id"])
        self.s.notes = []
        self.ask("tools/list")
        return not any(n.get("id") == m["id"] for n in self.s.notes)


class Web(Peer):
    def __init__(self, rev, daemon):
        super().__init__(rev)
        self.d = daemon
        self.h = web.Http(daemon)
        self.hello()

    def headers(self, m):
        if not self.modern:
            return {} if self.rev < "2025-06-18" or not self.h.session else \
                {"MCP_Protocol_Version": self.rev}
        params = m.get("params", {})
        name = params.get("uri", params.get("name"))
        named = {} if not isinstance(name, str) else {
            "Mcp_Name": "=?base64?%s?=" % base64.b64encode(
                name.encode()).decode()}
        return dict(named, MCP_Protocol_Version=self.rev,
                    Mcp_Method=m["method"])

    def post(self, body, **headers):
        r = self.h.send("POST", body=body, **headers)
        self.h.session = r.getheader("Mcp-Session-Id") or self.h.session
        text = r.read()
        if r.getheader("Content-Type") == "text/event-stream":
            said = [json.loads(d) for _, d in web.events(text)]
            return next((m for m in said if isinstance(m, list) or
                         "method" not in m), None)
        return json.loads(text) if text else None

    def exchange(self, m):
        return self.post(m, **self.headers(m))

    def tell(self, method, **params):
        m = self.message(method, params)
        self.post(m, **self.headers(m))

    def raw(self, text):
        return self.post(text, **({"MCP_Protocol_Version": self.rev,
                                   "Mcp_Method": "ping"} if self.modern else
                                  {}))

    def cancelled(self, method, params):
        m = dict(self.message(method, params), id=next(ids))
        other = web.Http(self.d)
        other.session = self.h.session
        done = []

        def post():
            try:
                r = other.send("POST", body=m, **self.headers(m))
                done.append(b'"id": %d' % m["id"] in r.read())
            except (OSError, ValueError):
                pass    # the end of it is what is wanted
        t = threading.Thread(target=post, daemon=True)
        t.start()
        time.sleep(0.7)
        if self.modern:
            other.c.sock.shutdown(2)
        else:
            self.tell("notifications/cancelled", requestId=m["id"])
        t.join(10)
        return not t.is_alive() and not any(done)


class Pair(Peer):
    """the event stream of 2024-11-05, and what is posted beside it"""

    def __init__(self, rev, daemon):
        super().__init__(rev)
        self.h, self.stream = web.Http(daemon), web.Http(daemon)
        self.r = self.stream.send("GET", "/sse", Accept="text/event-stream")
        self.path = self.event()
        self.hello()

    def event(self):
        data = ""
        while True:
            line = self.r.readline().decode()
            if line.startswith("data: "):
                data += line[6:].rstrip("\n")
            elif not line or (line == "\n" and data):
                return data

    def post(self, body):
        return self.h.ask("POST", self.path, body)

    def exchange(self, m):
        self.post(m)
        return self.wait()

    def wait(self):
        while True:
            m = mcpjudge.json_of(self.event())
            if m is None or isinstance(m, list) or "method" not in m:
                return m

    def tell(self, method, **params):
        self.post(self.message(method, params))

    def raw(self, text):
        status, r, body = self.post(text)
        if status == 202:
            return self.wait()
        return json.loads(body) if body else None

    def cancelled(self, method, params):
        m = dict(self.message(method, params), id=next(ids))
        self.post(m)
        time.sleep(0.7)
        self.tell("notifications/cancelled", requestId=m["id"])
        return (self.ask("ping") or {}).get("id") != m["id"]

    def close(self):
        self.stream.c.close()


# --- what is asked -----------------------------------------------------------

RUN = "0" * 12
METHODS = {     # method: parameters, each of which is asked for
    "ping": [{}],
    "server/discover": [{}],
    "tools/list": [{}, {"cursor": "x"}],
    "tools/call": [{}, {"name": 7}, {"name": "no_such", "arguments": {}},
                   {"name": "sandbox_exec", "arguments": [1]}],
    "resources/list": [{}, {"cursor": "x"}, {"cursor": 1}],
    "resources/templates/list": [{}, {"cursor": "x"}],
    "resources/read": [{}, {"uri": "file:///etc/passwd"}, {"uri": ""},
                       {"uri": f"sbx://run/{RUN}/stdout"}],
    "resources/subscribe": [{}, {"uri": f"sbx://run/{RUN}/stdout"}],
    "resources/unsubscribe": [{}, {"uri": f"sbx://run/{RUN}/stdout"}],
    "prompts/list": [{}, {"cursor": "x"}],
    "prompts/get": [{}, {"name": "no_such"}, {"name": 7}],
    "completion/complete": [
        {}, {"ref": {"type": "ref/prompt", "name": "no_such"},
             "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "sbx://run/{run_id}/{stream}"},
         "argument": {"name": "stream", "value": "std"}},
        {"ref": {"type": "x"}, "argument": {"name": "x", "value": ""}}],
    "logging/setLevel": [{}, {"level": "loud"}, {"level": "debug"}],
    "tasks/list": [{}], "tasks/get": [{}, {"taskId": "no_such"}],
    "tasks/result": [{}, {"taskId": "no_such"}],
    "tasks/cancel": [{}, {"taskId": "no_such"}],
    "tasks/update": [{}, {"taskId": "no_such"}],
    "no/such": [{}],
    "subscriptions/listen": [{}],
}
RAW = [b"{", b"[", b"7", b"[]", b'"x"', b"null", b"{}", b'{"id":1}',
       b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
       b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
       b'{"jsonrpc":"2.0","id":77,"method":"ping","params":[1]}',
       b'{"jsonrpc":"1.0","id":78,"method":"ping"}',
       b'{"jsonrpc":"2.0","id":79,"method":"p\\ud800"}',
       b'[{"jsonrpc":"2.0","id":801,"method":"ping"},7,'
       b'{"jsonrpc":"2.0","id":802,"method":"no/such"},'
       b'{"jsonrpc":"2.0","id":803,"method":"tools/list"}]']
TYPES = {"string": [7, ""], "integer": ["x", -1, 1.5], "number": ["x"],
         "boolean": ["x"], "array": [7, "x", [7]], "object": [7, [1]]}


def answered(r):
    return isinstance(r, (dict, list)) and r != {}


def test_methods(p, what):
    missing = [(method, params) for method, all_ in METHODS.items()
               for params in all_ if not answered(p.ask(method, **params))]
    ok(not missing, f"{what}: each method answers", missing)
    missing = [text for text in RAW if not answered(p.raw(text))]
    ok(not missing, f"{what}: so does what is no request", missing)
    listed = (p.ask("prompts/list") or {}).get("result", {}) \
        .get("prompts", [])
    for prompt in listed:
        arguments = {a["name"]: "x" for a in prompt.get("arguments", [])}
        for given in ({}, arguments):
            ok(answered(p.ask("prompts/get", name=prompt["name"],
                              arguments=given)), "a prompt")
        for name in arguments:
            p.ask("completion/complete", argument={"name": name, "value": ""},
                  ref={"type": "ref/prompt", "name": prompt["name"]})


def test_bad_arguments(p, what):
    """Each wrong type in one place only: an error costs a worker its life."""
    few = p.rev != MODERN or not isinstance(p, Stdio)
    tools = p.ask("tools/list")["result"]["tools"]
    missing = []
    for t in tools:
        props = t["inputSchema"].get("properties", {})
        tries = [{"no_such": 1}]
        if t["inputSchema"].get("required"):
            tries.append({})
        for name, node in props.items():
            kinds = node.get("type", "object")
            for value in TYPES[kinds if isinstance(kinds, str) else kinds[0]]:
                tries.append({name: value})
        for arguments in tries[:2] if few else tries:
            if p.call(t["name"], **arguments).get("status") is None:
                missing.append((t["name"], arguments))
    ok(not missing, f"{what}: {len(tools)} tools say what is wrong with their "
       "arguments", missing)


def test_tools(p, what, project):
    made = p.call("sandbox_initialize", image="host", name="m")
    box = made.get("container_id")
    if box is None:
        tap.skip(made.get("error", "?"), f"{what}: tools that do their work")
        return
    c = {"container_id": box}
    run = p.call("sandbox_exec", commands=["seq 1 300", "echo x >&2"], **c)
    job = p.call("sandbox_exec_background", commands=["echo a; sleep 60"],
                 **c)
    rid, j = run.get("run_id"), {"job_id": job.get("job_id")}
    steps = [
        ("sandbox_exec", dict(c, argv=["false"])),
        ("sandbox_exec", dict(c, commands=["sleep 9"], timeout=1)),
        ("sandbox_exec", dict(c, argv=["printf", "\\377\\0\\033[1m"])),
        ("sandbox_exec", dict(c, commands=["seq 1 9"], offset=2, limit=3,
                              verbose="full")),
        ("sandbox_exec", dict(c, commands="[\"true\"]")),
        ("sandbox_exec_check", dict(c, wait=1, **j)),
        ("sandbox_exec_kill", dict(c, **j)),
        ("sandbox_exec_check", dict(c, **j)),
        ("sandbox_exec_kill", dict(c, **j)),
        ("read_output", {"run_id": rid}),
        ("read_output", {"run_id": rid, "stream": "stderr", "tail": 1}),
        ("read_output", {"run_id": rid, "offset": 10, "limit": 5}),
        ("read_output", {"run_id": rid, "offset": 999999}),
        ("run_container_and_exec", {"commands": ["echo"], "image": "host"}),
        ("run_container_and_exec", {"commands": ["exit 3"],
                                    "image": "no_such"}),
        ("sandbox_initialize", {"image": "host", "setup": ["false"]}),
        ("sandbox_list_containers", {}),
        ("sandbox_attach", {"name_or_id": "m"}),
        ("sandbox_attach", {"name_or_id": "no_such"}),
        ("copy_project", dict(c, local_src_dir=project)),
        ("copy_project", dict(c, local_src_dir="/")),
        ("copy_file", dict(c, local_src_file=project + "/a.c")),
        ("copy_file", dict(c, local_src_file=project + "/none")),
        ("sandbox_snapshot", dict(c, name="m1")),
        ("sandbox_snapshot", dict(c, name="m1")),
        ("sandbox_list_containers", {}),
        ("sandbox_fork", {"snapshot": "m1", "count": 1, "name": "m2"}),
        ("sandbox_restore", dict(c, snapshot="m1", force=True)),
        ("sandbox_drop_snapshot", {"snapshot": "m1"}),
        ("sandbox_drop_snapshot", {"snapshot": "m1"}),
        ("sandbox_exec", dict(c, commands=["touch new"])),
        ("sandbox_stop", c), ("sandbox_stop", dict(c, force=True)),
        ("sandbox_stop", c), ("sandbox_exec", dict(c, commands=["true"])),
    ]
    missing = [s for s in steps if p.call(s[0], **s[1]).get("status") is None]
    ok(not missing, f"{what}: tools do their work, or say why not", missing)
    for uri in (f"sbx://run/{rid}/stdout", f"sbx://run/{rid}/stderr",
                f"sbx://run/{rid}/stdout?offset=250"):
        r = p.ask("resources/read", uri=uri)
        ok("result" in r, f"{what}: {uri[-15:]} is a resource", r)
    r = p.ask("resources/list")
    ok(r.get("result", {}).get("resources"), f"{what}: there are some", r)
    for c in p.call("sandbox_list_containers").get("containers", []):
        p.call("sandbox_stop", container_id=c["container_id"], force=True)


def test_long(p, what):
    slow = {"commands": ["echo a; sleep 2; echo b"], "image": "host"}
    r = p.call("run_container_and_exec", _meta={"progressToken": f"p{what}"},
               **slow)
    ok(r.get("status"), f"{what}: a call with progress", r)
    p.capabilities = dict(CAN) if p.modern else {}
    p.call("run_container_and_exec", commands=["true"], image="host")
    p.capabilities = {}
    r = p.cancelled("tools/call", {
        "name": "run_container_and_exec",
        "arguments": {"commands": ["sleep 60"], "image": "host"}})
    ok(r, f"{what}: what is cancelled is not answered")


def test_listen(p, what):
    """A subscription, which stays open until it is cancelled."""
    wanted = {"notifications": {"toolsListChanged": True,
                                "promptsListChanged": True,
                                "resourcesListChanged": True}}
    m = dict(p.message("subscriptions/listen", wanted), id=next(ids))
    if isinstance(p, Stdio):
        p.s.send(m)
        got = p.s.recv()
        p.tell("notifications/cancelled", requestId=m["id"])
    else:
        other = web.Http(p.d)
        r = other.send("POST", body=m, **p.headers(m))
        line = b""
        while not line.startswith(b"data: {"):
            line = r.readline()
        r.readline()
        got = json.loads(line[6:])
        other.c.close()
    ok(got.get("method") == "notifications/subscriptions/acknowledged",
       f"{what}: a subscription is acknowledged", got)


def test_versions(p, what):
    for version in ("1900-01-01", "2025-11-25", "", 7):
        r = p.ask("tools/list", _meta={P + "protocolVersion": version})
        ok("error" in r, f"{what}: {version!r} in _meta", r)
    r = p.ask("tools/list", _meta={P + "clientCapabilities": 7})
    ok("error" in r, f"{what}: capabilities that are none", r)


def test_headers(p, what):
    for name in ("MCP_Protocol_Version", "Mcp_Method", "Mcp_Name"):
        for value in ("x", None):
            m = dict(p.message("tools/call", {"name": "sandbox_exec"}),
                     id=next(ids))
            r = p.post(m, **dict(p.headers(m), **{name: value}))
            ok("error" in r, f"{what}: {name} {value}", r)


def everything(p, what, project):
    test_methods(p, what)
    test_bad_arguments(p, what)
    test_long(p, what)
    if not isinstance(p, Pair):
        test_tools(p, what, project)
    if p.modern:
        test_listen(p, what)
        test_versions(p, what)
        if isinstance(p, Web):
            test_headers(p, what)


def test_refused(d):
    """What HTTP refuses before it is a message of any revision."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for what, kw in (("token", {"Authorization": None}),
                     ("Origin", {"Origin": "http://evil.example"}),
                     ("type", {"Content_Type": "text/plain"}),
                     ("session", {"Mcp_Session_Id": "0" * 32})):
        for path in ("/mcp", "/messages?session_id=" + "0" * 32):
            status = web.Http(d).ask("POST", path, body, **kw)[0]
            ok(status >= 400, f"{path[:9]}: refused for its {what}", status)


def judge():
    if mcpschema.directory() is None:
        tap.skip("SBX_MCP_SCHEMA names no directory with MCP's schemas",
                 "what the server said")
        return
    j = mcpjudge.Judge(mcpschema.load())
    j.read(os.environ["SBX_MCP_RECORD"])
    mcpjudge.report(j, tap)
    for name, rev in j.revs.items():
        print(f"# {name}, not seen: "
              f"{', '.join(sorted(rev.known() - set(j.seen[name])))}")
        for kind in ("ProgressNotification", "CallToolResult",
                     "ListResourcesResult", "error -32602"):
            ok(j.seen[name][kind], f"{name}: {kind} was seen")
        ok(not j.seen[name]["error -32603"],
           f"{name}: nothing that was asked is an internal error")


def main():
    with tempfile.TemporaryDirectory() as project:
        os.chmod(project, 0o755)
        with open(project + "/a.c", "w", encoding="utf-8") as f:
            f.write("int a;\n")
        with Suite(copy_root=project) as s:
            for rev in mcpschema.NAMES:
                everything(Stdio(rev, s), f"stdio {rev}", project)
        d = web.Daemon()
        try:
            for rev in mcpschema.NAMES:
                everything(Web(rev, d), f"HTTP {rev}", project)
            for rev in LEGACY:
                p = Pair(rev, d)
                everything(p, f"pair {rev}", project)
                p.close()
            test_refused(d)
        finally:
            d.close()
    judge()
    tap.done()
    sys.exit(tap.bad > 0)


main()
