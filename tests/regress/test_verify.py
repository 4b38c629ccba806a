#!/usr/bin/env python3
"""verify_in_container: real runners in a sandbox, and runners of the project
that say what the test wants.  A runner that is not installed is skipped here;
its reports are those of tests/interop/reports."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
S = {}


def files(name, more=None, **kw):
    """a project below /workspace, made anew; `___` in a name is a slash and
    `__` a dot; names in `more` are as they are"""
    d = "/workspace/" + name
    script = ["rm -rf \"$1\"; mkdir -p \"$1\"; cd \"$1\"; shift\n"
              "while [ $# -gt 0 ]; do mkdir -p \"$(dirname \"$1\")\"; "
              "printf %s \"$2\" >\"$1\"; case $1 in *.sh|*.test|*/bin/*|*/.bin/*) chmod +x \"$1\";; "
              "esac; shift 2; done"]
    argv = ["bash", "-c", script[0], "sh", d]
    for key, text in kw.items():
        argv += [key.replace("___", "/").replace("__", "."), text]
    for key, text in (more or {}).items():
        argv += [key, text]
    r = S["s"].call("sandbox_exec", container_id=S["box"], argv=argv)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return d


def sh(command, **kw):
    return S["s"].call("sandbox_exec", container_id=S["box"],
                       commands=[command], verbose="full", **kw)


def verify(d, **kw):
    s = S["s"]
    r = s.answer(s.start_call("verify_in_container", container_id=S["box"],
                              working_dir=d, **kw), 180)
    r = r["result"]["structuredContent"]
    ok(r.get("gate") is False or r["status"] == "error", "gate is false", r)
    return r


def is_(r, status, verdict, text, **counts):
    good = r["status"] == status and r.get("verdict") == verdict and \
        all(r.get(k) == v for k, v in counts.items())
    ok(good, text, r)


def failures(r):
    return [f for t in r["tests"] for f in t["failures"]]


def here(program):
    return shutil.which(program, path="/usr/bin:/bin:/usr/local/bin")


def test_python():
    if subprocess.run(["/usr/bin/python3", "-c", "import pytest"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        tap.absent("pytest is not installed", "python")
        return
    long = "def test_long():\n" + "".join(
        f"    v{i} = {i}\n" for i in range(60)) + "    assert v1 == v2, 'ones'\n"
    d = files("py", setup__py="", m__py="def f():\n    return 1\n",
              test_m__py="from m import f\n\n\ndef test_f():\n    assert f() == 1\n")
    r = verify(d)
    is_(r, "ok", "green", "python: green", passed=1, total=1)
    ok(r["gate_incomplete"] or r["lint"][0]["ran"], "what could not run is "
       "said", r)
    ok("verify_in_container" not in json.dumps(sh("ls -A " + d + " /tmp")) and
       "sbx-verify" not in sh("ls /tmp")["output"] and
       "__pycache__" not in sh("ls " + d)["output"], "nothing is left")
    d = files("py2", setup__py="", test_l__py=long + """

import pytest


@pytest.mark.parametrize("n", [1, 2])
def test_p(n):
    assert n == 1


@pytest.fixture
def broken():
    raise RuntimeError("no database")


def test_fix(broken):
    pass


def test_secret():
    assert "ghp_" + "a1B2c3D4e5" * 4 == ""
""")
    r = verify(d)
    is_(r, "failed", "failed", "python: red", passed=1, failed=3, errors=1)
    f = {x["test"]: x for x in failures(r)}
    ok("assert 1 == 2" in f["test_l::test_long"]["error"] and
       f["test_l::test_long"]["file"] == "test_l.py" and
       f["test_l::test_long"]["line"] == 62,
       "the assertion of a test of 60 lines, at its line", f)
    ok("assert 2 == 1" in f["test_l::test_p[2]"]["error"] and
       "no database" in f["test_l::test_fix"]["error"],
       "of a parameter, of a fixture", f)
    ok("a1B2c3D4e5a1B2" not in json.dumps(r), "secrets are masked", r)
    ok("short test summary" in r["output"] and "FAILED" in r["output"],
       "the end of the output is shown", r["output"])
    ok(sh("true")["status"] == "ok" and "no database" in S["s"].call(
        "read_output", run_id=r["run_id"], stream="stderr")["output"],
       "all of it is stored")
    r = verify(d, test_filter="nothing_like_this")
    is_(r, "failed", "no_tests", "a filter that selects nothing is not green")
    r = verify(d, test_filter="test_p and 1")
    ok([t.get("filtered", False) for t in r["tests"]] == [True, False] and
       r["tests"][0]["verdict"] == "green" and r["verdict"] == "failed",
       "what the filter selects, then all", r)
    r = verify(d, test_filter="test_long")
    ok(len(r["tests"]) == 1 and r["partial"], "red: not all", r)
    r = verify(d, pytest_args=["--no-such-option"])
    is_(r, "failed", "collection_error", "an option that pytest has not")
    r = verify(files("py3", setup__py=""))
    is_(r, "failed", "no_tests", "no tests are not green")
    r = verify(files("py4", setup__py="", test_x__py="import nothing\n"))
    is_(r, "failed", "collection_error", "an import that fails")
    r = verify(files("py5", setup__py="", test_x__py=
                     "import os\n\ndef test_x():\n    os.abort()\n"))
    is_(r, "failed", "crash", "a signal")
    r = verify(files("py6", setup__py="", test_x__py=
                     "import os\n\ndef test_x():\n    os._exit(0)\n"))
    is_(r, "failed", "crash", "exit code 0 without a report")
    r = verify(files("py7", setup__py="", test_x__py=
                     "import time\n\ndef test_x():\n    time.sleep(60)\n"),
               timeout=3)
    is_(r, "timeout", "timeout", "a test that hangs")
    ok("sbx-verify" not in sh("ls /tmp")["output"], "and nothing is left")
    r = verify(files("py8", setup__py="", test_x__py=
                     "def test_x():\n    pass\n", conftest__py=
                     "import glob\nimport os\nimport pytest\n\n\n"
                     "def pytest_sessionfinish():\n"
                     "    os.kill(os.getppid(), 9)\n"))
    is_(r, "failed", "crash", "one that kills what watches it")


def test_affected():
    if subprocess.run(["/usr/bin/python3", "-c", "import pytest"],
                      stderr=subprocess.DEVNULL).returncode != 0 or \
            not here("git"):
        tap.absent("pytest or git is not installed", "affected")
        return
    d = files("af", {"p/__init__.py": ""}, setup__py="", p___a__py="X = 1\n",
              p___b__py="from . import a\n",
              p___c__py="Y = 2\n",
              test_b__py="import p.b\n\n\ndef test_b():\n    assert p.b.a.X == 1\n",
              test_c__py="from p import c\n\n\ndef test_c():\n    assert c.Y == 2\n")
    sh(f"cd {d}; git init -q . && git add . && "
       "git -c user.name=x -c user.email=x@x commit -qm a; echo >>p/a.py")
    r = verify(d, test_scope="affected")
    is_(r, "ok", "partial", "affected: never green", passed=1)
    ok(r["partial"] and r["test_selection"]["selected_count"] == 1 and
       r["test_selection"]["changed_files"] == ["p/a.py"] and
       r["test_selection"]["widened_to_full_reason"] is None and
       [x["path"] for x in r["diff_summary"]["unstaged"]["files"]] ==
       ["p/a.py"] and r["diff_summary"]["staged"]["total_files"] == 0,
       "one test is affected", r)
    again = verify(d, test_scope="affected")
    ok(again["diff_hash"] == r["diff_hash"], "the same change, the same hash")
    sh(f"cd {d}; echo '# more' >>p/a.py")
    ok(verify(d, test_scope="affected")["diff_hash"] != r["diff_hash"],
       "another one, another")
    sh(f"cd {d}; echo >conftest.py")
    r = verify(d, test_scope="affected")
    ok(r["test_selection"]["mode"] == "widened" and r["verdict"] == "partial"
       and "conftest" in r["test_selection"]["widened_to_full_reason"] and
       r["passed"] == 2, "conftest: all", r)
    r = verify(d, test_scope="affected", test_filter="x")
    ok(r.get("code") == "bad_argument", "not with a filter", r)
    before = sh(f"cd {d}; sha256sum .git/index; stat -c %Y .git/index")
    verify(d)
    ok(before["output"] == sh(f"cd {d}; sha256sum .git/index; "
                              "stat -c %Y .git/index")["output"],
       "the index is as it was")


FAKE = """#!/bin/sh
for a; do case $a in --outputFile*=*) out=${a#*=};; esac; done
%s
"""


def fake(report, code=0):
    text = json.dumps(report).replace("'", "'\\''")
    return FAKE % f"printf %s '{text}' >\"$out\"\nexit {code}"


def suite(total, status="passed", tests=("passed",), **kw):
    return {"numTotalTests": total, "success": status == "passed",
            "numFailedTests": 0, "testResults": [
                {"name": "/workspace/x/a.test.js", "status": status,
                 "message": kw.get("message", ""),
                 "assertionResults": [{"fullName": "t%d" % i, "status": s,
                                       "failureMessages": []}
                                      for i, s in enumerate(tests)]}]}


def test_js():
    if not here("node"):
        tap.absent("node is not installed", "js")
        return
    good = ("const t = require('node:test');\nconst a = require('node:assert')"
            ";\nt('one', () => a.equal(1, 1));\n")
    d = files("n1", package__json='{"scripts":{"test":"node --test"}}',
              a__test__js=good)
    if here("npm"):
        is_(verify(d), "ok", "green", "npm test, node --test", passed=1)
        r = verify(files("n2", package__json='{"scripts":{"test":"no-such-thing"}}'))
        is_(r, "failed", "missing_runner", "a test command that is not there")
        r = verify(files("n3", package__json='{"scripts":{"test":"echo command '
                         'not found; exit 1"}}'))
        is_(r, "failed", "unparsable", "one that only says so is not missing")
    else:
        tap.absent("npm is not installed", "npm test")
    d = files("n4", package__json="{}", a__test__js=good +
              "t('two', () => a.equal(1, 2));\n")
    r = verify(d)
    is_(r, "failed", "failed", "node --test: red", passed=1, failed=1)
    f = failures(r)[0]
    ok(f["test"] == "two" and f["file"] == "a.test.js" and f["line"] == 4 and
       "1 == 2" in f["error"], "the failure, at its line", f)
    r = verify(files("n5", package__json="{}", a__test__js="const x = 1;\n"))
    is_(r, "failed", "no_tests", "a file without a test is none that passed")
    r = verify(files("n6", package__json="{}"))
    is_(r, "failed", "no_tests", "no test at all")
    r = verify(files("n7", package__json="{}", a__test__js="const x = ;\n"))
    is_(r, "failed", "compile_failure", "a syntax error")
    for name, report, code, want in (
            ("green", suite(1), 0, "green"),
            ("a file that does not compile", suite(
                0, "failed", (), message="SyntaxError: Unexpected"), 1,
             "compile_failure"),
            ("totals that do not agree", suite(2), 0, "unparsable"),
            ("an exit code that says otherwise", suite(1), 1, "failed")):
        d = files("j1", {"node_modules/.bin/jest": fake(report, code)},
                  package__json="{}")
        r = verify(d)
        is_(r, "ok" if want == "green" else "failed", want, "jest: " + name)
    d = files("t1", {"node_modules/.bin/jest": fake(suite(1))},
              package__json="{}", tsconfig__json="{}")
    r = verify(d)
    ok(r["languages"] == ["ts"] and len(r["tests"]) == 1,
       "a TypeScript project is run once", r)


def test_make():
    if not here("make"):
        tap.absent("make is not installed", "make")
        return
    mk = ("check:\n\t@printf '1..2\\nok 1 - a\\n%s\\n'; exit %d\n")
    r = verify(files("m1", Makefile=mk % ("ok 2 - b", 0)))
    is_(r, "ok", "green", "make check with TAP", passed=2)
    r = verify(files("m2", Makefile=mk % ("not ok 2 - b\\n# x.c:7: no", 1)))
    is_(r, "failed", "failed", "red", passed=1, failed=1)
    ok(failures(r)[0]["file"] == "x.c" and failures(r)[0]["line"] == 7,
       "at its line", r)
    r = verify(files("m3", Makefile="check:\n\t@echo fine\n"))
    is_(r, "failed", "unparsable", "words are no tests")
    r = verify(files("m4", Makefile="check: a\n\t./a\na: a.c\n\t$(CC) -o a a.c\n",
                     a__c="int main(void) { return x; }\n"))
    if here("cc"):
        is_(r, "failed", "compile_failure", "what does not compile")
        ok(failures(r)[0]["file"] == "a.c", "where", r)
    if not here("ctest") or not here("cc"):
        tap.absent("cmake is not installed", "ctest")
        return
    cm = ("cmake_minimum_required(VERSION 3.10)\nproject(d C)\n"
          "enable_testing()\nadd_test(NAME one COMMAND true)\n")
    is_(verify(files("k1", CMakeLists__txt=cm)), "ok", "green", "ctest",
        passed=1)
    r = verify(files("k2", CMakeLists__txt=cm +
                     "add_test(NAME two COMMAND false)\n"))
    is_(r, "failed", "failed", "ctest: red", passed=1, failed=1)
    r = verify(files("k3", CMakeLists__txt=cm + "add_executable(t t.c)\n",
                     t__c="int main(void) { return x; }\n"))
    is_(r, "failed", "compile_failure", "ctest: what does not build")
    f = failures(r)[0]
    ok((f["file"], f["line"]) == ("t.c", 1) and "t.c:1:" in r["why"],
       "where, and in the reason", r)
    r = verify(files("k4", CMakeLists__txt=cm + "find_package(NoSuch REQUIRED)"
                     "\n"))
    is_(r, "failed", "compile_failure", "ctest: what cmake refuses")
    f = failures(r)[0]
    ok((f["file"], f["line"]) == ("CMakeLists.txt", 5), "where", r)
    r = verify(files("k5", CMakeLists__txt=cm + "add_executable(t s/t.c)\n"
                     "add_test(NAME two COMMAND t)\n", s___t__c=
                     "#include <assert.h>\n#include <stdio.h>\n"
                     "int main(void) {\n\tputs(\"read x.ini:3\");\n"
                     "\tfflush(stdout);\n\tassert(1 == 2);\n}\n"))
    is_(r, "failed", "failed", "ctest: an assertion", passed=1, failed=1)
    f = failures(r)[0]
    ok((f["test"], f["file"], f["line"]) == ("two", "s/t.c", 6) and
       "1 == 2" in f["error"], "at its line", f)


def test_go_rust():
    if here("go"):
        good = 'package %s\n\nimport "testing"\n\nfunc TestA(t *testing.T) %s\n'
        d = files("go1", go__mod="module m\n\ngo 1.19\n",
                  a___a_test__go=good % ("a", "{ t.Error(\"wrong\") }"),
                  b___b_test__go=good % ("b", "{}"))
        r = verify(d, skip_lint_gate=True)
        is_(r, "failed", "failed", "go: two tests of one name", passed=1,
            failed=1)
        f = failures(r)[0]
        ok(f["test"] == "m/a.TestA" and f["line"] == 5 and
           "wrong" in f["error"], "the one that failed", f)
        is_(verify(d, path="b", skip_lint_gate=True), "ok", "green",
            "go: a directory", passed=1)
        d = files("go2", go__mod="module m\n\ngo 1.19\n",
                  a_test__go=good % ("m", "{ nothing() }"))
        r = verify(d)
        is_(r, "failed", "lint_failed", "go: vet sees it first")
        ok(r["lint"][0]["findings"] and not r["tests"], "nothing ran", r)
        r = verify(d, skip_lint_gate=True)
        is_(r, "failed", "compile_failure", "go: what does not compile")
    else:
        tap.absent("go is not installed", "go")
    if not here("cargo"):
        tap.absent("cargo is not installed", "cargo")
        return
    toml = '[package]\nname = "d"\nversion = "0.1.0"\nedition = "2021"\n'
    d = files("r1", Cargo__toml=toml, src___lib__rs="#[test]\nfn t() {\n    "
              "assert_eq!(1, 2);\n}\n#[test]\nfn u() {}\n")
    r = verify(d, skip_lint_gate=True)
    is_(r, "failed", "failed", "cargo: red", passed=1, failed=1)
    ok(failures(r)[0]["file"] == "src/lib.rs" and
       failures(r)[0]["line"] == 3, "at its line", r)
    r = verify(files("r2", Cargo__toml=toml, src___lib__rs="fn x( {}\n"),
               skip_lint_gate=True)
    is_(r, "failed", "compile_failure", "cargo: what does not compile")


def test_gates():
    ruff = ('#!/bin/sh\nprintf %%s \'%s\'\nexit %d\n')
    finding = ('[{"code":"W291","filename":"/workspace/g1/a.py","location":'
               '{"row":3,"column":1},"message":"blanks"}]')
    d = files("g1", setup__py="", a__py="", venv___bin___ruff=ruff %
              (finding, 1), test_a__py="def test_a():\n    pass\n")
    r = verify(d)
    is_(r, "failed", "lint_failed", "a warning of ruff fails the gate")
    ok(r["lint"][0]["tool"] == "ruff" and r["lint"][0]["ran"] and
       r["lint"][0]["findings"][0]["file"] == "a.py" and
       r["lint"][0]["findings"][0]["line"] == 3 and r["tests"] == [],
       "the finding; no test ran", r)
    d = files("g2", setup__py="", venv___bin___ruff=ruff % ("[]", 2),
              test_a__py="def test_a():\n    pass\n")
    r = verify(d)
    ok(r["gate_incomplete"] and not r["lint"][0]["ran"] and
       "exit code 2" in r["lint"][0]["reason"], "one that cannot run is said",
       r)
    right = ('{"version":"1","generalDiagnostics":[{"file":"a.py","severity":'
             '"%s","message":"m","range":{"start":{"line":1,"character":0},'
             '"end":{"line":1,"character":1}},"rule":"r"}],"summary":{}}')
    d = files("g3", setup__py="", venv___bin___ruff=ruff % ("[]", 0),
              venv___bin___pyright=ruff % (right % "warning", 0),
              test_a__py="def test_a():\n    pass\n")
    r = verify(d)
    ok(r["types"][0]["findings"][0]["line"] == 2 and
       not r["gate_incomplete"] and r["verdict"] != "types_failed",
       "a warning of pyright does not fail it", r)
    d = files("g4", setup__py="", venv___bin___ruff=ruff % ("[]", 0),
              venv___bin___pyright=ruff % (right % "error", 1),
              test_a__py="def test_a():\n    pass\n")
    is_(verify(d), "failed", "types_failed", "an error does")
    r = verify(d, skip_lint_gate=True, skip_type_gate=True)
    ok(r["lint"] == [] and r["types"] == [] and r["gate_incomplete"],
       "skipped, and said so", r)
    d = files("g5", setup__py="", venv___bin___ruff=ruff % ("nonsense", 0),
              test_a__py="def test_a():\n    pass\n")
    r = verify(d)
    ok(not r["lint"][0]["ran"] and r["gate_incomplete"],
       "output that is none of the tool is not clean", r)


def test_edges():
    r = verify(files("e1", README="x"))
    is_(r, "failed", "no_language", "no language is not green")
    r = verify("/workspace/nowhere")
    ok(r.get("code") == "bad_argument" and "working_dir" in r["error"],
       "no such directory", r)
    r = verify("relative")
    ok(r.get("code") == "bad_argument", "a relative one", r)
    r = verify("/workspace/e1", path="../../etc/none")
    ok(r.get("code") == "bad_argument", "no such path", r)
    r = verify("/workspace/e1", path="--version")
    ok(r.get("code") == "bad_argument", "a path that is an option", r)
    if here("make"):
        # a job that lasts: its verdict by run_id
        d = files("e2", Makefile="check:\n\t@printf '1..1\\nok 1\\n'\n")
        r = verify(d)
        again = verify(d, run_id=r["run_id"])
        ok(again["verdict"] == "green" and again["run_id"] == r["run_id"],
           "the same verdict again, by run_id", again)
        check = S["s"].call("sandbox_exec_check", job_id=r["run_id"])
        ok(check.get("code") == "other_tool" and "verify_in_container" in
           check["error"] and "run_id" in check["recommended_next_action"],
           "sandbox_exec_check leaves its verdict to this tool", check)
        ok(r["gate_incomplete"] is False, "nothing is missing", r)
        again = verify(d, run_id=verify(d, skip_type_gate=True)["run_id"])
        ok(again["verdict"] == "green" and again["gate_incomplete"] is True,
           "by run_id, too, a gate that was skipped is incomplete", again)
        other = sh("true")["run_id"]
        ok(verify(d, run_id=other).get("code") == "unknown_run",
           "not of another tool's run")
        d = files("e3", Makefile="check:\n\t@printf '== 1 make\\n1..1\\n"
                  "ok 1\\nK\\tgate\\tgreen\\n'; kill -9 $$PPID; sleep 5\n")
        r = verify(d)
        ok(r["status"] == "failed" and r["verdict"] != "green",
           "a make that is killed is not green", r)


def main():
    with mcp.Suite() as s:
        S["s"] = s
        S["box"] = s.call("sandbox_initialize")["container_id"]
        mcp.main(tap, globals(), sys.argv[1:])


if __name__ == "__main__":
    began = time.monotonic()
    main()
