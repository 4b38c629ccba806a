#!/usr/bin/env python3
"""run_python: what reaches the interpreter, and what comes back."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import imgsrc  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
GHP = "ghp_" + "a1B2c3D4e5" * 4


def run(code, **kw):
    number = S.start_call("run_python", container_id=BOX, code=code, **kw)
    return S.answer(number)["result"]["structuredContent"]


def sh(*commands):
    return S.call("sandbox_exec", container_id=BOX, commands=list(commands))


def test_code():
    r = run("import sys\nprint('é \"$HOME\" `x`', sys.argv)\n"
            "print('bad', file=sys.stderr)")
    tap.ok(r["status"] == "ok" and r["exit_code"] == 0 and
           r["output"] == "é \"$HOME\" `x` ['-']\n" and
           r["stderr"] == "bad\n" and len(r["run_id"]) == 16,
           "both streams, and nothing is quoted", r)
    r = run("if __name__ == '__main__':\n    print(1 +\n          1)\nx = 1 /"
            " 0")
    tap.ok(r["status"] == "failed" and r["exit_code"] == 1 and
           r["output"] == "2\n" and "line 4" in r["stderr"] and
           "ZeroDivisionError" in r["stderr"], "a traceback has its line", r)
    tap.ok(run("import sys; sys.exit(7)")["exit_code"] == 7, "an exit code")
    r = run("import sys; print(repr(sys.stdin.read()))")
    tap.ok(r["output"] == "''\n", "nothing else is on its standard input", r)
    r = run("x = '''" + "a" * 500000 + "'''\nprint(len(x))")
    tap.ok(r["output"] == "500000\n", "code larger than an argument", r)
    r = run("import os\nprint(os.getcwd())", working_dir="/tmp")
    tap.ok(r["output"] == "/tmp\n", "working_dir", r)
    tap.ok(run("1", working_dir="x")["code"] == "bad_argument",
           "a relative one")
    r = run("print('" + GHP[:20] + "' + '" + GHP[20:] + "')")
    tap.ok(GHP not in str(r) and r["masked"] == 1, "secrets are masked", r)
    r = run("import os; os.write(1, b'a\\xff\\x00b')")
    tap.ok(r["replaced_bytes"] == 1, "bytes that are no text", r)


def test_views():
    r = run("for i in range(3000): print(i)\nraise SystemExit('the end')")
    tap.ok(r["status"] == "failed" and r["stderr"] == "the end\n" and
           r["total_lines"] == 3000 and r["truncated"] and
           r["output"].endswith("2999\n"), "the end of what failed", r)
    r = run("for i in range(1500): print(i)")
    tap.ok(not r["truncated"] and r["shown"] == 1500,
           "2000 lines are shown by default", r["shown"])
    r = run("print('x\\n' * 5, end='')", max_lines=0)
    tap.ok(r["code"] == "bad_argument", "max_lines 0", r)
    r = run("import time\nprint(1, flush=True)\ntime.sleep(60)", timeout=1)
    tap.ok(r["status"] == "timeout" and r["exit_code"] is None and
           r["output"] == "1\n" and r["elapsed_seconds"] < 5, "a timeout", r)


def test_which():
    r = sh("mkdir -p ~/.venv/bin", "printf '#!/bin/sh\\necho venv\\n' "
           "> ~/.venv/bin/python3", "chmod +x ~/.venv/bin/python3")
    tap.ok(run("1")["output"] == "venv\n", "~/.venv is used", r)
    sh("rm -r ~/.venv")
    tap.ok(imgsrc.small(S, "bare"), "an image without python")
    box = S.call("sandbox_initialize", image="bare")["container_id"]
    r = S.call("run_python", container_id=box, code="1")
    tap.ok(r["code"] == "no_python" and "run_id" in r, "is told", r)
    r = S.call("run_python", container_id="0" * 12, code="1")
    tap.ok(r["code"] == "not_found", "no such sandbox", r)


if __name__ == "__main__":
    with mcp.Suite() as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        mcp.main(tap, globals(), sys.argv[1:])
