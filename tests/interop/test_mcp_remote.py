#!/usr/bin/env python3
"""mcp-remote, which gives clients that know stdio only a server by HTTP."""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
os.environ.pop("SBX_MCP_RECORD", None)  # what it makes of answers is its own
import mcp  # noqa: E402
import node  # noqa: E402
import web  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
HERE, = node.need("mcp-remote")


def remote(d, home, path, *options, token=None):
    return mcp.Client(
        [node.binary(), HERE + "/dist/proxy.js",
         f"http://127.0.0.1:{d.port}{path}", "--silent", "--header",
         "Authorization:${SBX_AUTH}", *options],
        env=dict(os.environ, HOME=home,
                 SBX_AUTH=f"Bearer {token or d.token}"), hello=False)


def cancel(name, c, box):
    """In its modern mode it neither closes the stream, as the revision has
    it, nor could anybody tell whose id it is that it posts instead."""
    number = c.start_call("sandbox_exec", container_id=box,
                          commands=["sleep 4321"])
    time.sleep(1)
    c.notify("notifications/cancelled", {"requestId": number})
    end = time.time() + 10
    while "sleep 4321" in (r := c.call(
            "sandbox_exec", container_id=box, commands=[
                'cat /proc/[0-9]*/cmdline | tr "\\0" " "']))["output"] and \
            time.time() < end:
        time.sleep(0.1)
    ok("sleep 4321" not in r["output"], f"{name}: cancel", r)


def tour(name, c):
    r = c.initialize()
    ok(r["serverInfo"]["name"] == "sbx", f"{name}: initialize", r)
    ok(len(c.request("tools/list")["tools"]) > 10, f"{name}: tools/list")
    ok(c.request("resources/templates/list")["resourceTemplates"],
       f"{name}: templates")
    box = c.call("sandbox_initialize", image="host")["container_id"]
    r = c.call("sandbox_exec", container_id=box, commands='["echo text"]')
    ok(r["output"] == "text\n", f"{name}: a list as its text", r)
    number = c.start("tools/call", {
        "name": "sandbox_exec", "_meta": {"progressToken": "t"},
        "arguments": {"container_id": box, "commands": ["sleep 4"]}})
    c.notes = []
    ok("result" in c.answer(number) and [
        n for n in c.notes if n["method"] == "notifications/progress" and
        n["params"]["progressToken"] == "t"], f"{name}: progress", c.notes)
    if name != "modern":
        cancel(name, c, box)
    r = c.call("sandbox_exec", container_id=box, comands=["true"])
    ok(r["status"] == "error" and "comands" in r["error"],
       f"{name}: an error", r)
    r = c.call("sandbox_stop", container_id=box, force=True)
    ok(r["status"] == "ok", f"{name}: stop", r)
    status, took = c.close(10)
    ok(status == 0, f"{name}: it ends with its client", (status, took))


def main():
    home = tempfile.mkdtemp(prefix="sbx-remote-")
    d = web.Daemon()
    try:
        for name, path, options in (
                ("HTTP", "/mcp", ["--transport", "http-only"]),
                ("HTTP or else SSE", "/mcp", []),
                ("modern", "/mcp", ["--protocol", "auto"]),
                ("SSE", "/sse", ["--transport", "sse-only"])):
            tour(name, remote(d, home, path, *options))
        c = remote(d, home, "/mcp", token="wrong")
        began = time.time()
        try:
            c.initialize()
            ok(False, "a wrong token is refused")
        except (mcp.Closed, RuntimeError, OSError) as e:
            ok(time.time() - began < 20, "a wrong token ends it: no browser,"
               " no loop", repr(e))
        c.close()
    finally:
        d.close()
        node.remove(home)
    tap.done()


main()
