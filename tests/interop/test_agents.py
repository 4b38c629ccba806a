#!/usr/bin/env python3
"""Claude Code and opencode: configured as contrib/clients.md says, seen to
connect, and then really at work in a sandbox, with a model that plays a
script.  Their homes are temporary, and there is no way out to a network."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import model  # noqa: E402
import node  # noqa: E402
import web  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
CLAUDE, OPENCODE = node.need(
    "@anthropic-ai/claude-code-linux-x64", "opencode-linux-x64",
    variable="SBX_AGENTS")
SBX = os.environ["SBX_BUILD"] + "/sbx"
STEPS = [
    ("run_container_and_exec", lambda _: {
        "image": "host", "commands": ["echo once"]}),
    ("sandbox_initialize", lambda _: {"image": "host", "name": "agent"}),
    ("sandbox_exec", lambda r: {
        "container_id": json.loads(r)["container_id"],
        "commands": ["echo from within", "exit 4"]}),
    ("sandbox_attach", lambda _: {"name_or_id": "agent"}),
    ("sandbox_stop", lambda r: {
        "container_id": json.loads(r)["container_id"], "force": True}),
]


class Agent:
    """In a directory of its own, with a home of its own."""

    def __init__(self, program, **env):
        self.home = tempfile.mkdtemp(prefix="sbx-agent-")
        os.chmod(self.home, 0o755)
        self.cwd = self.home + "/project"
        for name in ("/project", "/sbx"):
            os.mkdir(self.home + name, 0o755)
        self.program = program
        self.env = {
            "PATH": os.environ["PATH"], "HOME": self.home,
            "SBX_ROOT": self.home + "/sbx", "NO_COLOR": "1",
            "XDG_RUNTIME_DIR": self.home, "SHELL": "/bin/bash",
            # whatever it wants of the world ends here
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost", **env}

    def run(self, *args, timeout=240):
        r = subprocess.run([self.program, *args], env=self.env, cwd=self.cwd,
                           stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=timeout)
        return r.returncode, r.stdout + r.stderr

    def write(self, name, o):
        with open(f"{self.cwd}/{name}", "w") as f:
            json.dump(o, f)

    def close(self):
        node.remove(self.home)


def worked(name, m, text):
    """What the tools told the model, in the order of STEPS."""
    try:
        r = [json.loads(x) for x in m.results]
        good = len(r) == len(STEPS) and r[0]["output"] == "once\n" and \
            r[2]["output"] == "from within\n" and r[2]["exit_code"] == 4 and \
            r[3]["container_id"] == r[1]["container_id"] and \
            r[4]["status"] == "ok"
    except (ValueError, KeyError, IndexError):
        good = False
    ok(good and "all done" in text, f"{name}: works in a sandbox",
       (m.results, text))


def claude(d):
    a = Agent(CLAUDE + "/claude", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
              DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1",
              ENABLE_TOOL_SEARCH="false", ANTHROPIC_API_KEY="x",
              TOKEN=d.token)
    url = f"http://127.0.0.1:{d.port}"
    auth = f"Authorization: Bearer {d.token}"
    try:
        for args in (["sbx", "--", SBX, "mcp"],
                     ["--transport", "http", "sbx-http", url + "/mcp",
                      "--header", auth],
                     ["--transport", "sse", "sbx-sse", url + "/sse",
                      "--header", auth],
                     ["--transport", "http", "wrong", url + "/mcp",
                      "--header", "Authorization: Bearer x"]):
            status, out = a.run("mcp", "add", *args)
            ok(status == 0, "claude mcp add " + args[0], out)
        status, out = a.run("mcp", "list")
        for name in ("sbx", "sbx-http", "sbx-sse"):
            line = [x for x in out.split("\n") if x.startswith(name + ":")]
            ok(line and line[0].endswith("Connected"),
               f"claude mcp list: {name} is connected", out)
        ok("token is not known" in out, "and what is wrong is said", out)
        status, out = a.run("mcp", "get", "sbx-http")
        ok(status == 0 and "Connected" in out, "claude mcp get", out)
        for name, entry in (
                ("stdio", {"command": SBX, "args": ["mcp"]}),
                ("HTTP", {"type": "http", "url": url + "/mcp", "headers": {
                    "Authorization": "Bearer ${TOKEN}"}}),
                ("SSE", {"type": "sse", "url": url + "/sse", "headers": {
                    "Authorization": "Bearer ${TOKEN}"}})):
            a.write("mcp.json", {"mcpServers": {"sbx": entry}})
            with model.Model(STEPS) as m:
                a.env["ANTHROPIC_BASE_URL"] = m.url
                status, out = a.run(
                    "-p", "go", "--mcp-config", a.cwd + "/mcp.json",
                    "--strict-mcp-config", "--allowedTools", "mcp__sbx")
                worked(f"claude, {name}", m, out)
    finally:
        a.close()


def opencode(d):
    a = Agent(OPENCODE + "/bin/opencode", OPENCODE_DISABLE_AUTOUPDATE="1",
              OPENCODE_DISABLE_MODELS_FETCH="1",
              OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
              OPENCODE_DISABLE_LSP_DOWNLOAD="1", TOKEN=d.token)
    entries = {
        "sbx": {"type": "local", "command": [SBX, "mcp"]},
        "sbx-http": {"type": "remote", "oauth": False,
                     "url": f"http://127.0.0.1:{d.port}/mcp", "headers": {
                         "Authorization": "Bearer {env:TOKEN}"}}}
    try:
        a.write("opencode.json", {"mcp": entries})
        status, out = a.run("mcp", "list")
        for name in entries:
            ok(f"{name} connected" in out.replace("\x1b[90m", ""),
               f"opencode mcp list: {name} is connected", out)
        for name, entry in entries.items():
            with model.Model(STEPS) as m:
                a.write("opencode.json", {
                    "mcp": {"sbx": entry}, "model": "fake/m",
                    "small_model": "fake/m", "provider": {"fake": {
                        "npm": "@ai-sdk/openai-compatible", "name": "fake",
                        "options": {"baseURL": m.url + "/v1",
                                    "apiKey": "x"},
                        "models": {"m": {"name": "m", "tool_call": True}}}}})
                status, out = a.run("run", "go")
                worked(f"opencode, {name}", m, out)
    finally:
        a.close()


def main():
    d = web.Daemon()
    try:
        claude(d)
        opencode(d)
    finally:
        d.close()
    tap.done()


main()
