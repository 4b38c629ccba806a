#!/usr/bin/env python3
"""G1: no credential, nothing derived from one, and none that an upstream hands
out in an answer enters a sandbox, the front, a worker, the proxy, the monitor,
the journal or a log.

Looked at in the middle of it: a clone of a private repository that is slow, and
while it runs an issue of it; then once more when both are over.  interop/
test_github.py does the same after everything else that there is."""
import os
import sys
import tempfile

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import canary  # noqa: E402
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
OTHERS = {"sbxd", "sbxd-front", "sbxd-worker", "sbxd-engine",
          "sbxd-recorder", "sbx-proxy", "sbx-journald", "sbx-init"}


def look(gh, s, err, when):
    c = canary.Canary(gh.secrets())
    c.tree(s.root)
    err.seek(0)
    c.text("standard error", err.read())
    c.text("journal", s.sbx("journal", "show", "--json", "-n", "9999").stdout)
    ok(not c.found, "%s: not in files, journal or log" % when, c.found[:9])
    if canary.why_not():
        return tap.absent(canary.why_not(), "the memory of others")
    n = len(c.found)
    seen = c.processes(s)
    print("# %s: %d MiB, %r" % (when, c.looked >> 20, seen))
    ok(len(c.found) == n, "%s: not in the memory, environment or arguments of "
       "any other process" % when, c.found[n:][:9])
    return ok(OTHERS <= set(seen), "%s: all of them were looked at" % when,
              seen)


def holder(gh, s):
    """the scan finds it where it may be"""
    c = canary.Canary(gh.secrets())
    if canary.why_not():
        return tap.absent(canary.why_not(), "the broker's memory")
    c.process(s.processes()["sbx-broker"][0])
    return ok(c.found, "the broker has one, and the same look finds it")


def broken(gh, s, box):
    """the guarantee is broken by hand, and this test sees it"""
    t = gh.static(kind="ghp_")
    c = canary.Canary({"planted": t.text})
    gh.tokens.remove(t)
    s.call("sandbox_exec_background", container_id=box, argv=[
        "sh", "-c", "echo %s | rev; sleep 60; : %s" % (t.text, t.text[:30])])
    s.wait_for(lambda: c.tree(s.root), 10)
    ok(c.found, "what a sandbox's process prints is found in its run", c.found)
    if canary.why_not():
        return tap.absent(canary.why_not(), "the memory of a sandbox")
    c.found.clear()
    c.processes(s)
    return ok(any(x[0].startswith(("sh ", "sleep ")) for x in c.found),
              "and in that process", c.found)


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return tap.done()
    gh = fakegithub.Github(ca, validate=False)
    r = gh.repo("acme/secret", private=True)
    r.large(8, piece=8)
    r.issue("An issue", "Its body.")
    a = gh.app(["acme/secret"])
    err = tempfile.TemporaryFile()
    try:
        with mcp.Suite(conf=gh.conf() + "allowed_repo acme/secret\n"
                       "github_app %d %d %s\n" % (a.id, a.installation, a.pem),
                       stderr=err) as s:
            box = s.call("sandbox_initialize",
                         allow_network=True)["container_id"]
            gh.pace = 0.5
            number = s.start_call("clone_repo", container_id=box,
                                  repo="acme/secret")
            ok(s.wait_for(lambda: gh.seen(path="git-upload-pack",
                                          method="POST"), 20),
               "a clone is under way")
            look(gh, s, err, "during a clone")
            gh.pace = 0
            got = s.answer(number, 120)["result"]["structuredContent"]
            ok(got.get("status") == "ok", "it ends well", got)
            got = s.call("issue_view", container_id=box, repo="acme/secret",
                         issue_number=1)
            ok(got.get("status") == "ok", "an issue is read", got)
            look(gh, s, err, "afterwards")
            holder(gh, s)
            broken(gh, s, box)
    finally:
        gh.close()
        ca.close()
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
