#!/usr/bin/env python3
"""The official TypeScript clients over HTTP, all at once on one daemon: 1.x
with Streamable HTTP and with the pair before it, 2.x in both eras."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import node  # noqa: E402
import web  # noqa: E402

tap = mcp.Tap()
node.need("@modelcontextprotocol/sdk", "@modelcontextprotocol/client")


def main():
    d = web.Daemon()
    try:
        env = {"SBX_TOKEN": d.token}
        url = f"http://127.0.0.1:{d.port}/mcp"
        tours = [node.Tour(kind, url, **dict(env, **more)) for kind, more in (
            ("sdk-http", {"SBX_LONG": "1"}), ("sdk-sse", {}),
            ("client-http-modern", {"SBX_LONG": "1"}),
            ("client-http-legacy", {}), ("client-http-auto", {}))]
        for t in tours:
            t.wait(tap)
        h = web.Http(d)
        h.initialize()
        tap.ok(h.result("sandbox_list_containers")["containers"] == [],
               "nothing is left of any")
        tap.ok(d.proc.poll() is None, "the daemon lives")
    finally:
        d.close()
    tap.done()


main()
