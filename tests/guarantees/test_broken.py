#!/usr/bin/env python3
"""Each of G1, G3, G4 and G7 (courier, broker, proxy) broken on purpose, once: a
test of a guarantee that cannot fail is none.

A broken program takes the place of the good one in a directory like this build,
and the guarantee's own test is run there.  What must fail is listed; nothing
else of that test may."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.setdefault("SBX_BUILD", os.getcwd())
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import egress  # noqa: E402
import evil  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
OTHERS = ["row_probe", "evil_exec", "evil_courier"]
CAGED = ["monitor", "recorder", "journald", "broker", "zygote", "front",
         "worker", "copyin", "courier", "judge"]


def run(test, args, program, by):
    """(what failed, all of it) of a test, where a program is another"""
    with tempfile.TemporaryDirectory(prefix="sbx-broken-") as d:
        os.chmod(d, 0o755)
        for name in evil.PROGRAMS + evil.HELPERS + OTHERS:
            shutil.copy2(os.path.join(BUILD, name), d)
        shutil.copy2(os.path.join(BUILD, by), os.path.join(d, program))
        r = subprocess.run(
            [sys.executable, "%s/tests/guarantees/%s.py" % (SRC, test), *args],
            env=dict(os.environ, SBX_BUILD=d, SBX_MCP_RECORD=""),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120)
    return re.findall(r"^not ok \d+ - (.*)$", r.stdout, re.M), r


def broken(what, test, args, program, by, must, may=()):
    bad, r = run(test, args, program, by)
    for line in must:
        ok(line in bad, "%s: not ok - %s" % (what, line), (bad, r.stdout[-900:]))
    ok(set(bad) <= set(must) | set(may) and r.returncode,
       "%s: and nothing else" % what, (bad, r.returncode))


def main():
    try:
        egress.Authority().close()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return tap.done()
    broken("G3, a call too many in each row", "test_g3", ["rows"],
           "row_probe", "broken_probe",
           ["%s: socket(%s) is refused" % (row, family) for row in CAGED
            for family in ("AF_INET", "AF_INET6")])
    broken("G4, the same", "test_g4", ["files"], "row_probe", "broken_probe",
           ["%s: in its cage a key's file cannot be opened, by its own owner "
            "either" % row for row in CAGED + ["proxy"]])
    broken("G1, a broker that logs a token", "test_g1", [], "sbx-broker",
           "broken_broker_log", ["during a clone: not in files, journal or log",
                                 "afterwards: not in files, journal or log"],
           ["during a clone: not in the memory, environment or arguments of "
            "any other process", "afterwards: not in the memory, environment "
            "or arguments of any other process"])
    broken("G7, a courier with a weak cage", "test_g7_courier",
           ["key", "file", "inet", "unix"], "evil_courier", "broken_evil",
           [x + ": the cage kills it, or refuses" for x in (
               "key", "file", "inet", "unix")])
    for word, line in (("twice", "twice: the broker hangs up"),
                       ("minted", "the broker goes on")):
        broken("G7, a broker that takes any word", "test_g7_courier", [word],
               "sbx-broker", "broken_broker_any", [line])
    broken("G7, a courier that takes any push of a proxy", "test_g7_proxy",
           ["couriers"], "sbx-broker-courier", "broken_courier",
           ["a grant to push: the courier refuses another ref",
            "before it reaches the host", "and nothing was pushed"])
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
