#!/usr/bin/env python3
"""G7: what a proxy that was taken over can do to the others."""
import os
import subprocess
import sys
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import evil  # noqa: E402
import mcp  # noqa: E402

# says that all is open, and never that a grant's time is over; of what nobody
# asked for it speaks as well
PROXY = """
mon.send("PROXY_OPENED", 0, container="0123456789ab", error=0, reason="")
mon.send("GRANT_STATE", 0, grant="0" * 16, state=2, uses=0, reason="x")
while True:
    m = mon.recv(3600)
    if m.name == "PROXY_OPEN":
        for _ in range(3):
            mon.send("PROXY_OPENED", m.id, container=m["container"], error=0,
                     reason="")
    elif m.name == "GRANT_OPEN":
        say("granted")
        for _ in range(3):
            mon.send("GRANT_STATE", 0, grant=m["grant"], state=0, uses=1,
                     reason="\\x1b[2J")
    elif m.name == "GRANT_REVOKE":
        say("revoked " + m["grant"])
    m.close()
"""


def main():
    tap = mcp.Tap()
    with evil.suite("sbx-proxy", PROXY, stderr=subprocess.DEVNULL,
                    conf="grant_host git.example\n") as s:
        box = s.call("sandbox_initialize", allow_network=True)["container_id"]
        r = s.sbx("grant", "-t", "1", box, "git.example/o/r",
                  "refs/heads/x", "a" * 40)
        began = time.monotonic()
        tap.ok(r.returncode == 0 and s.said() == ["granted"],
               "a grant is opened", r)

        def grants(phase):
            return [r for r in s.journal() if r["op"] == "grant" and
                    r["phase"] == phase]

        tap.ok(s.wait_for(lambda: grants("end"), 15) and
               time.monotonic() - began < 12,
               "its end does not wait for the proxy's word")
        tap.ok(s.wait_for(lambda: len(s.said()) == 2, 5),
               "which is told to revoke it", s.said())
        r = s.call("sandbox_exec", container_id=box, commands=["echo alive"])
        tap.ok("alive" in str(r), "all else goes on", r)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
