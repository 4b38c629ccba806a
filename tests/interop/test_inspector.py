#!/usr/bin/env python3
"""The Inspector's command line, by which people try a server."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import node  # noqa: E402
import web  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
HERE, = node.need("@modelcontextprotocol/inspector")
SBX = os.environ["SBX_BUILD"] + "/sbx"


class Inspector:
    def __init__(self, home, target, options=()):
        self.env = dict(os.environ, HOME=home, SBX_ROOT=home + "/sbx")
        self.target, self.options = target, list(options)

    def run(self, method, *args):
        """exit status, the result, what was said besides"""
        r = subprocess.run(
            [node.binary(), HERE + "/clients/launcher/build/index.js",
             "--cli", *self.options, "--method", method, "--format", "json",
             *args, *self.target], env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=90)
        try:
            return r.returncode, json.loads(r.stdout)["result"], r.stderr
        except (ValueError, KeyError):
            return r.returncode, None, r.stdout + r.stderr

    def call(self, tool, **arguments):
        status, result, err = self.run(
            "tools/call", "--tool-name", tool, "--tool-args-json",
            json.dumps(arguments))
        return (result or {}).get("structuredContent", (status, err))


def one(name, i):
    r = i.call("run_container_and_exec", image="host",
               commands=["echo once", "exit 3"])
    ok(isinstance(r, dict) and r["status"] == "failed" and
       r["exit_code"] == 3 and r["output"] == "once\n", f"{name}: a call", r)


def tour(name, i):
    status, r, err = i.run("tools/list")
    ok(status == 0 and any(t["name"] == "sandbox_exec" for t in r["tools"]) and
       "0 errors" in err, f"{name}: tools/list", (status, err))
    status, r, err = i.run("resources/templates/list")
    ok(status == 0 and "sbx://run/" in json.dumps(r),
       f"{name}: resources/templates/list", (status, r, err))
    one(name, i)
    status, r, err = i.run("tools/call", "--tool-name", "sandbox_exec",
                           "--tool-args-json", '{"comands": ["true"]}')
    ok(status != 0 and "comands" in json.dumps(r) + err,
       f"{name}: an error is one for a script, too", (status, r, err))


def sandbox(name, i):
    """what lives longer than one command of it"""
    box = i.call("sandbox_initialize", image="host")["container_id"]
    r = i.call("sandbox_exec", container_id=box, commands=["echo in a box"])
    ok(r["output"] == "in a box\n", f"{name}: a sandbox outlives a client", r)
    status, res, err = i.run("resources/read", "--uri",
                             f"sbx://run/{r['run_id']}/stdout")
    ok(status == 0 and res["contents"][0]["text"] == "in a box\n",
       f"{name}: resources/read", (status, res, err))
    r = i.call("sandbox_stop", container_id=box)
    ok(r["status"] == "ok", f"{name}: and is stopped", r)


def main():
    home = tempfile.mkdtemp(prefix="sbx-inspector-")
    os.chmod(home, 0o755)
    os.mkdir(home + "/sbx", 0o755)
    d = web.Daemon()
    url = f"http://127.0.0.1:{d.port}"
    token = ["--header", f"Authorization: Bearer {d.token}"]
    try:
        tour("stdio", Inspector(home, [SBX, "mcp", "--private"]))
        one("stdio, modern", Inspector(home, [SBX, "mcp", "--private"],
                                       ["--protocol-era", "modern"]))
        i = Inspector(home, [url + "/mcp"], token)
        tour("HTTP", i)
        sandbox("HTTP", i)
        one("SSE", Inspector(home, [url + "/sse"], token))
        one("HTTP, modern", Inspector(home, [url + "/mcp"], [
            "--protocol-era", "modern", *token]))
        status, _, err = Inspector(home, [url + "/mcp"], [
            "--stored-auth-only", "--header", "Authorization: Bearer x"]
            ).run("tools/list")
        ok(status != 0 and "auth" in err, "a wrong token is said to be one",
           (status, err))
    finally:
        d.close()
        node.remove(home)
    tap.done()


main()
