#!/usr/bin/env python3
"""lint_in_container and type_check_in_container: real tools where they are
installed, and tools of the project that write what the real ones document."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import test_verify as v  # noqa: E402

tap = v.tap
ok = tap.ok


def call(tool, d, **kw):
    return v.S["s"].call(tool, 120, container_id=v.S["box"], working_dir=d,
                         **kw)


def lint(d, **kw):
    return call("lint_in_container", d, **kw)


def types(d, **kw):
    return call("type_check_in_container", d, **kw)


def found(r):
    return [(f["file"], f["line"], f["rule"]) for f in r.get("findings", [])]


def test_shell():
    d = v.files("s", a__sh="#!/bin/sh\necho $1\n", b__sh="#!/bin/sh\nexit 0\n")
    r = lint(d, file_path="a.sh")
    if not v.here("shellcheck"):
        ok(r["status"] == "failed" and r["ran"] is False and
           "not installed" in r["reason"], "without shellcheck: not clean", r)
        return
    ok(r["status"] == "failed" and r["tool"] == "shellcheck" and r["ran"] and
       r["tool_version"][:1].isdigit() and found(r) == [("a.sh", 2, "SC2086")]
       and r["run_id"], "shellcheck", r)
    r = lint(d, file_path="b.sh")
    ok(r["status"] == "ok" and r["ran"] and r["findings"] == [], "clean", r)
    r = lint(d, file_path=d + "/a.sh")
    ok(found(r) == [("a.sh", 2, "SC2086")], "by an absolute path", r)


def test_c():
    d = v.files("c", a__c="#include <stdlib.h>\nint main(void)\n{\n"
                "\tchar *p = malloc(1);\n\tp[4] = 0;\n\treturn 0;\n}\n")
    r = lint(d, file_path="a.c")
    if not v.here("cppcheck") and not v.here("clang-tidy"):
        ok(r["ran"] is False and r["status"] == "failed", "no tool for C", r)
        return
    ok(r["status"] == "failed" and r["ran"] and
       any(f["line"] == 5 for f in r["findings"]), "C: the line", r)


def test_go():
    d = v.files("g", go__mod="module m\n\ngo 1.19\n",
                a__go="package m\n\nimport \"fmt\"\n\nfunc F() {\n"
                "\tfmt.Printf(\"%d\", \"x\")\n}\n")
    r = lint(d)
    if not v.here("go"):
        ok(r["ran"] is False and r["status"] == "failed", "no tool for Go", r)
        return
    ok(r["status"] == "failed" and r["ran"] and
       r["findings"][0]["line"] == 6, "go vet", r)


def test_rust():
    d = v.files("r", {"Cargo.toml": '[package]\nname = "d"\nversion = "0.1.0"'
                      '\nedition = "2021"\n', "src/lib.rs":
                      "pub fn f(v: &Vec<i32>) -> i32 {\n    v[0]\n}\n"})
    r = lint(d)
    if not v.here("cargo-clippy"):
        ok(r["ran"] is False and r["status"] == "failed" and
           "clippy" in r["reason"], "no clippy", r)
        return
    ok(r["status"] == "failed" and r["ran"] and
       ("src/lib.rs", 1, "clippy::ptr_arg") in found(r), "clippy", r)


FAKE = "#!/bin/sh\ncase $* in *--version*) echo v9.8.7; exit;; esac\n" \
    "echo \"$*\" >args\ncat <<'E'\n%s\nE\nexit %d\n"


def fake(text, code):
    return FAKE % (text, code)


def test_errors_only():
    if v.here("ruff") or v.here("flake8"):
        tap.absent("ruff or flake8 is installed", "no configuration")
        return
    for name, text, code, files, option in (
            ("flake8", "a.py:1:1: F821 undefined name 'x'", 1,
             {"setup.cfg": "[flake8]\nmax-line-length = 100\n"},
             "--select=E9,F"),
            ("pylint", '[{"type":"error","module":"a","obj":"","line":1,'
             '"column":0,"path":"a.py","symbol":"undefined-variable",'
             '"message":"no x","message-id":"E0602"}]', 2,
             {"pyproject.toml": "[tool.pylint.main]\njobs = 1\n"},
             "--errors-only")):
        tool = {".venv/bin/" + name: fake(text, code)}
        r = lint(v.files("f1", tool, a__py="x\n"), file_path="a.py")
        args = v.sh("cat /workspace/f1/args")["output"]
        ok(r["ran"] and len(r["findings"]) == 1 and option in args and
           r["config"].startswith("none") and option in r["config"],
           name + " without a configuration: errors only, and said so",
           (r, args))
        r = lint(v.files("f2", dict(tool, **files), a__py="x\n"),
                 file_path="a.py")
        ok(r["ran"] and option not in v.sh("cat /workspace/f2/args")["output"]
           and "config" not in r, name + " with one: as that says", r)


def test_python():
    ruff = ('[{"cell":null,"code":"F401","end_location":{"column":10,"row":1},'
            '"filename":"/workspace/p/a.py","fix":null,"location":{"column":8,'
            '"row":1},"message":"`os` imported but unused","noqa_row":1,'
            '"url":"https://docs.example/F401"}]')
    d = v.files("p", {".venv/bin/ruff": fake(ruff, 1)}, a__py="import os\n")
    r = lint(d, file_path="a.py")
    ok(r["status"] == "failed" and r["tool"] == "ruff" and r["ran"] and
       r["tool_version"] == "9.8.7" and found(r) == [("a.py", 1, "F401")] and
       r["findings"][0]["severity"] == "error", "ruff, of the project", r)
    r = lint(d, file_path="a.py", fix=True)
    ok("--fix" in v.sh("cat /workspace/p/args")["output"], "fix", r)
    d = v.files("p2", {".venv/bin/ruff": fake("error: no such option", 2)},
                a__py="x = 1\n")
    r = lint(d, file_path="a.py")
    ok(r["status"] == "failed" and r["ran"] is False and
       "exit code 2" in r["reason"], "one that cannot run is not clean", r)
    d = v.files("p3", {".venv/bin/ruff": fake("not json", 0)}, a__py="x = 1\n")
    r = lint(d, file_path="a.py")
    ok(r["status"] == "failed" and r["ran"] is False, "nor one that babbles",
       r)
    pyright = ('{"version":"1.1.414","time":"1","generalDiagnostics":[{"file":'
               '"/workspace/p4/a.py","severity":"%s","message":"no","range":{'
               '"start":{"line":4,"character":2},"end":{"line":4,"character":'
               '3}},"rule":"reportX"}],"summary":{"filesAnalyzed":1}}')
    d = v.files("p4", {".venv/bin/pyright": fake(pyright % "error", 1)},
                a__py="x = 1\n")
    r = types(d, file_path="a.py")
    ok(r["status"] == "failed" and found(r) == [("a.py", 5, "reportX")] and
       r["findings"][0]["column"] == 3, "pyright, lines from 1", r)
    d = v.files("p5", {".venv/bin/pyright": fake(pyright % "warning", 0)},
                a__py="x = 1\n")
    r = types(d, file_path="a.py")
    ok(r["status"] == "ok" and len(r["findings"]) == 1, "a warning", r)


def test_js():
    eslint = ('[{"filePath":"/workspace/j/a.js","messages":[{"ruleId":'
              '"no-undef","severity":2,"message":"no x","line":3,"column":1}],'
              '"errorCount":1,"warningCount":0}]')
    d = v.files("j", {"node_modules/.bin/eslint": fake(eslint, 1),
                      "package.json": "{}"}, a__js="x\n")
    r = lint(d, file_path="a.js")
    ok(r["status"] == "failed" and r["tool"] == "eslint" and
       found(r) == [("a.js", 3, "no-undef")], "eslint of node_modules", r)
    d = v.files("j2", {"node_modules/.bin/eslint": fake("[]", 2),
                       "package.json": "{}"}, a__js="x\n")
    r = lint(d, file_path="a.js")
    ok(r["status"] == "failed" and r["ran"] is False, "eslint without a "
       "configuration is not clean", r)
    d = v.files("j3", {"node_modules/.bin/tsc": fake(
        "a.ts(2,7): error TS2322: Type 'string' is not assignable to type "
        "'number'.", 2), "tsconfig.json": "{}"}, a__ts="x\n")
    r = types(d)
    ok(r["status"] == "failed" and found(r) == [("a.ts", 2, "TS2322")] and
       r["findings"][0]["column"] == 7, "tsc", r)
    d = v.files("j4", {"package.json": "{}"}, a__js="x\n")
    r = lint(d, file_path="a.js")
    if not v.here("eslint"):
        ok(r["ran"] is False and r["status"] == "failed" and
           "node_modules" in r["reason"], "no eslint", r)


def test_edges():
    d = v.files("x", README="x")
    for r in (lint(d), types(d), lint(d, file_path="README")):
        ok(r["status"] == "failed" and r["ran"] is False and r["reason"],
           "no language is not clean", r)
    r = lint(d, file_path="nothing.py")
    ok(r.get("code") == "bad_argument", "no such file", r)
    r = lint(d, file_path="-rf")
    ok(r.get("code") == "bad_argument", "no options", r)
    r = lint(d, file_path="a.py", nonsense=1)
    ok(r.get("code") == "unknown_argument", "unknown arguments", r)


if __name__ == "__main__":
    with mcp.Suite() as suite:
        v.S["s"] = suite
        v.S["box"] = suite.call("sandbox_initialize")["container_id"]
        mcp.main(tap, {k: f for k, f in globals().items()
                       if k.startswith("test_") and callable(f)},
                 sys.argv[1:])
