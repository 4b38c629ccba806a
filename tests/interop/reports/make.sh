#!/usr/bin/env bash
# Runs every test runner that is installed to every outcome, and keeps what it
# wrote: RUNNER/OUTCOME.report (its structured report), .out (standard output
# and error), and a line of `exits`.  Paths of this machine are taken out.
#
#	tests/interop/reports/make.sh [RUNNER ...]
#
# NODE_MODULES names a directory with jest and vitest in its node_modules.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
modules=${NODE_MODULES-}
PATH=/usr/bin:/bin:$PATH
export LC_ALL=C.UTF-8 CI=1 NO_COLOR=1 CARGO_TERM_COLOR=never CARGO_NET_OFFLINE=true
export HOME=$work/home GOFLAGS=-mod=mod GOCACHE=$work/gocache PYTHONDONTWRITEBYTECODE=1
mkdir -p "$HOME"
touch "$here/exits"

clean() { # FILE: no path of this machine, no time that changes
	sed -E -i -e "s,$work/p,/p,g; s,$work,/tmp,g" \
		-e "s,${modules:-/nowhere}/node_modules,/p/node_modules,g" \
		-e 's,(\.\./)+[^ "()]*node_modules,/p/node_modules,g' \
		-e 's/hostname="[^"]*"/hostname="host"/g; s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?/2026-01-01T00:00:00.000000/g' "$1"
}

# keep RUNNER OUTCOME REPORT COMMAND ...: run it below the project, keep all
keep() {
	local runner=$1 outcome=$2 report=$3 status to=$here/$1; shift 3
	mkdir -p "$to"
	(cd "$work/p" && timeout -s KILL 60 "$@") >"$work/out" 2>&1 </dev/null
	status=$?
	rm -f "$to/$outcome".{report,out}
	if [ "$report" = - ]; then
		cp "$work/out" "$to/$outcome.report"
	else
		clean "$work/out"; cp "$work/out" "$to/$outcome.out"
		[ ! -s "$report" ] || cp "$report" "$to/$outcome.report"
	fi
	[ ! -f "$to/$outcome.report" ] || clean "$to/$outcome.report"
	{ grep -v "^$runner/$outcome " "$here/exits"; echo "$runner/$outcome $status"; } |
		LC_ALL=C sort >"$work/exits"
	cp "$work/exits" "$here/exits"
	rm -f "$report"
}
project() { rm -rf "$work/p"; mkdir -p "$work/p"; } # then files by `file`
file() { mkdir -p "$(dirname "$work/p/$1")"; cat >"$work/p/$1"; }
have() { command -v "$1" >/dev/null || { echo "$1: not here, kept as it is"; return 1; }; }

run_pytest() {
	python3 -c 'import pytest' 2>/dev/null || { echo "pytest: not here"; return; }
	pt() { local o=$1; shift
		keep pytest "$o" "$work/r.xml" timeout -s KILL 20 python3 -m pytest -p no:cacheprovider \
			-q --junit-xml="$work/r.xml" -o junit_family=xunit1 "$@"; }
	project; file test_a.py <<<$'def test_one():\n    assert 1\n\ndef test_two():\n    assert True\n'
	pt pass
	file test_b.py <<'PY'
import pytest


def deep(n):
    total = 0
    for i in range(n):
        total += i
    assert total == 7, "the sum of <%d> & more" % n


def test_long():
    a = 1
    b = 2
    c = 3
    d = 4
    e = 5
    f = 6
    g = 7
    h = 8
    i = 9
    j = 10
    k = 11
    l = 12
    assert a + b + c + d + e + f + g + h + i + j + k + l == 79


@pytest.mark.parametrize("n", [3, 5, 6])
def test_param(n):
    deep(n)


@pytest.fixture
def broken():
    raise RuntimeError("no database")


def test_fixture(broken):
    pass


@pytest.fixture
def late():
    yield 1
    raise ValueError("teardown went wrong")


def test_teardown(late):
    assert late == 1


@pytest.mark.skip(reason="not today")
def test_skipped():
    assert 0


@pytest.mark.xfail
def test_xfail():
    assert 0


@pytest.mark.xfail(strict=True)
def test_xpass():
    assert 1


class TestClass:
    def test_method(self):
        assert {"a": 1, "b": [1, 2]} == {"a": 1, "b": [1, 3]}
PY
	pt fail
	project; file test_c.py <<<$'import nothing_there\n\ndef test_x():\n    pass\n'
	file test_d.py <<<$'def test_y():\n    pass\n'
	pt collect
	project; file test_e.py <<<$'def test_x(:\n    pass\n'; pt syntax
	project; file test_f.py <<<$'x = 1\n'; pt none
	project; file test_g.py <<<$'import os, signal\n\ndef test_x():\n    os.kill(os.getpid(), signal.SIGSEGV)\n'; pt crash
	project; file test_h.py <<<$'import os\n\ndef test_x():\n    os._exit(0)\n'; pt exit0
	project; file test_i.py <<<$'import time\n\ndef test_x():\n    time.sleep(300)\n'
	keep pytest timeout "$work/r.xml" timeout -s TERM 2 python3 -m pytest -p no:cacheprovider -q \
		--junit-xml="$work/r.xml" -o junit_family=xunit1
	project; file test_j.py <<<$'import pytest\n\n@pytest.mark.skip\ndef test_x():\n    pass\n'; pt skipped
	project; file conftest.py <<<$'raise RuntimeError("conftest")\n'; file test_k.py <<<$'def test_x():\n    pass\n'; pt conftest
	project; file test_l.py <<<$'def test_x():\n    pass\n'; pt usage --no-such-option
	project; file test_m.py <<<$'import subprocess, sys\n\ndef test_x():\n    print("<testcase/>]]>\\x1b[31m\\x00")\n    assert "\\x01" == "]]>"\n'; pt odd
}

js_project() { project; [ -z "$modules" ] || ln -s "$modules/node_modules" "$work/p/node_modules"
	file package.json <<<'{"name":"p","version":"1.0.0"}'; }

run_jest() {
	[ -x "$modules/node_modules/.bin/jest" ] || { echo "jest: not here"; return; }
	jt() { local o=$1; shift
		keep jest "$o" "$work/r.json" node_modules/.bin/jest --ci --rootDir "$work/p" --json --outputFile="$work/r.json" "$@"; }
	js_project; file a.test.js <<<$'test("adds", () => { expect(1 + 1).toBe(2); });\n'; jt pass
	file b.test.js <<'JS'
describe("math", () => {
  test("is wrong", () => {
    const got = { a: 1, b: [1, 2] };
    expect(got).toEqual({ a: 1, b: [1, 3] });
  });
  test.skip("later", () => {});
  test.todo("some day");
});
test("throws", () => { throw new Error("boom\nsecond line"); });
JS
	jt fail
	js_project; file a.test.js <<<$'test("adds", () => { expect(1).toBe(1); });\n'
	file c.test.js <<<$'test("x", () => {\n'; jt syntax
	js_project; file d.test.js <<<$'require("./nothing");\ntest("x", () => {});\n'; jt module
	js_project; file e.test.js <<<$'const x = 1;\n'; jt empty
	js_project; file x.js <<<$'\n'; jt none
	js_project; file f.test.js <<<$'test("x", () => { process.kill(process.pid, "SIGKILL"); });\n'; jt crash
	js_project; file g.test.js <<<$'test.skip("x", () => {});\n'; jt skipped
	js_project; file h.test.js <<<$'beforeAll(() => { throw new Error("no server"); });\ntest("x", () => {});\n'; jt hook
}

run_vitest() {
	[ -x "$modules/node_modules/.bin/vitest" ] || { echo "vitest: not here"; return; }
	vt() { local o=$1; shift
		keep vitest "$o" "$work/r.json" node_modules/.bin/vitest run --reporter=default \
			--reporter=json --outputFile.json="$work/r.json" "$@"; }
	js_project; file a.test.js <<<$'import { test, expect } from "vitest";\ntest("adds", () => { expect(1 + 1).toBe(2); });\n'; vt pass
	file b.test.js <<'JS'
import { describe, test, expect } from "vitest";
describe("math", () => {
  test("is wrong", () => {
    expect({ a: 1 }).toEqual({ a: 2 });
  });
  test.skip("later", () => {});
  test.todo("some day");
});
JS
	vt fail
	js_project; file a.test.js <<<$'import { test, expect } from "vitest";\ntest("adds", () => { expect(1).toBe(1); });\n'
	file c.test.js <<<$'import { test } from "vitest";\ntest("x", () => {\n'; vt syntax
	js_project; file d.test.js <<<$'import "./nothing";\nimport { test } from "vitest";\ntest("x", () => {});\n'; vt module
	js_project; file e.test.js <<<$'const x = 1;\n'; vt empty
	js_project; file x.js <<<$'\n'; vt none
	js_project; file f.test.js <<<$'import { test } from "vitest";\ntest("x", () => { Promise.reject(new Error("nobody waits")); });\n'; vt unhandled
	js_project; file g.test.js <<<$'import { test } from "vitest";\ntest.skip("x", () => {});\n'; vt skipped
	js_project; file h.test.js <<<$'import { test, beforeAll } from "vitest";\nbeforeAll(() => { throw new Error("no server"); });\ntest("x", () => {});\n'; vt hook
}

run_node() {
	have node || return
	nt() { local o=$1; shift
		keep node "$o" "$work/r.tap" node --test --test-reporter=spec --test-reporter-destination=stdout \
			--test-reporter=tap --test-reporter-destination="$work/r.tap" "$@"; }
	project; file a.test.js <<'JS'
const { test, describe, it } = require("node:test");
const assert = require("node:assert");
test("adds", () => assert.equal(1 + 1, 2));
describe("suite", () => { it("inner", () => {}); it("inner two", () => {}); });
JS
	nt pass
	file b.test.js <<'JS'
const { test, describe, it } = require("node:test");
const assert = require("node:assert");
test("wrong", () => {
  assert.deepStrictEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] });
});
test("skipped", { skip: "not today" }, () => assert(0));
test("to do", { todo: true }, () => assert(0));
describe("outer", () => {
  describe("middle", () => { it("throws", () => { throw new TypeError("boom: [it]"); }); it("fine", () => {}); });
});
test("parent", async (t) => { await t.test("child", () => {}); assert.equal(1, 2); });
test("cancelled", async (t) => { t.test("never awaited", async () => { await new Promise((r) => setTimeout(r, 500)); }); });
JS
	nt fail
	project; file c.test.js <<<$'test(\n'; nt syntax
	# a file without tests has its number among files
	project; file a.test.js <<<$'const { test } = require("node:test");\ntest("a", () => {});\ntest("b", () => {});\n'
	file b.test.js <<<$'exports.x = 1;\n'; nt helper
	file b.test.js <<<$'test(\n'; nt late
	project; file d.test.js <<<$'const x = 1;\n'; nt empty
	project; file x.js <<<$'\n'; nt none
	project; file e.test.js <<<$'const { test } = require("node:test");\ntest("x", () => { process.kill(process.pid, "SIGKILL"); });\n'; nt crash
	project; file f.test.js <<<$'const { test } = require("node:test");\ntest("x", { timeout: 50 }, () => new Promise((r) => setTimeout(r, 5000)));\n'; nt timeout
	project; file g.test.js <<<$'const { test } = require("node:test");\ntest("x", { skip: true }, () => {});\n'; nt skipped
}

run_go() {
	have go || return
	gt() { local o=$1; shift
		keep go "$o" "$work/r.go" bash -c 'go test -json "$@" >"$0"' "$work/r.go" "$@" ./...; }
	gp() { project; file go.mod <<<$'module example.test/m\n\ngo 1.19\n'; }
	gp; file a/a_test.go <<<$'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) {}\n'
	file b/b_test.go <<<$'package b\n\nimport "testing"\n\nfunc TestA(t *testing.T) { t.Log("fine") }\n'
	file c/c.go <<<$'package c\n'; gt pass
	file a/a_test.go <<'GO'
package a

import "testing"

func TestA(t *testing.T) {
	t.Errorf("got %d, want %d", 1, 2)
}

func TestSub(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("bad one", func(t *testing.T) {
		t.Fatal("this is wrong")
	})
	t.Run("later", func(t *testing.T) { t.Skip("not today") })
}

func TestSkip(t *testing.T) { t.Skip("no network") }

func TestPrint(t *testing.T) { print("no newline") }
GO
	gt fail
	gp; file a/a_test.go <<<$'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) { undefined() }\n'
	file b/b_test.go <<<$'package b\n\nimport "testing"\n\nfunc TestA(t *testing.T) {}\n'; gt compile
	gp; file c/c.go <<<$'package c\n'; gt none
	gp; file d/d_test.go <<<$'package d\n\nimport "testing"\n\nfunc TestP(t *testing.T) {\n\tvar m map[string]int\n\tm["x"] = 1\n}\nfunc TestQ(t *testing.T) {}\n'; gt panic
	gp; file e/e_test.go <<<$'package e\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestX(t *testing.T) { os.Exit(0) }\n'; gt exit0
	gp; file f/f_test.go <<<$'package f\n\nimport (\n\t"testing"\n\t"time"\n)\n\nfunc TestX(t *testing.T) { time.Sleep(time.Minute) }\n'; gt timeout -timeout 1s
	gp; file g/g_test.go <<<$'package g\n\nimport (\n\t"os"\n\t"syscall"\n\t"testing"\n)\n\nfunc TestX(t *testing.T) { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }\n'; gt crash
	gp; file h/h_test.go <<<$'package h\n\nimport "testing"\n\nfunc TestX(t *testing.T) { t.Skip() }\n'; gt skipped
	gp; file i/i_test.go <<<$'package i\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(3) }\nfunc TestX(t *testing.T) {}\n'; gt main
	gp; file j/j.go <<<$'package j\n\nimport "nothing.test/x"\n\nvar _ = x.Y\n'
	file j/j_test.go <<<$'package j\n\nimport "testing"\n\nfunc TestX(t *testing.T) {}\n'; GOFLAGS=-mod=mod GOPROXY=off gt module
}

run_cargo() {
	have cargo || return
	ct() { local o=$1; shift; keep cargo "$o" - cargo test --workspace --no-fail-fast "$@"; }
	cp_() { project; file Cargo.toml <<<$'[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n'; }
	cp_; file src/lib.rs <<'RS'
/// Adds.
/// ```
/// assert_eq!(demo::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() { assert_eq!(super::add(1, 2), 3); }
    #[test]
    #[ignore]
    fn slow() {}
}
RS
	file tests/outer.rs <<<$'#[test]\nfn outer() { assert!(demo::add(2, 2) == 4); }\n'; ct pass
	file tests/outer.rs <<<$'#[test]\nfn adds() {\n    let got = demo::add(2, 2);\n    assert_eq!(got, 5, "two and two\\nis more");\n}\n#[test]\n#[should_panic]\nfn no_panic() {}\n#[test]\nfn result() -> Result<(), String> { Err("went wrong".into()) }\n'; ct fail
	cp_; file src/lib.rs <<<$'pub fn x() -> i32 { "a" }\n\n#[test]\nfn t() {}\n'; ct compile
	cp_; file src/lib.rs <<<$'pub fn x() {}\n'; ct none
	cp_; file src/lib.rs <<<$'#[test]\nfn t() { std::process::abort(); }\n#[test]\nfn u() {}\n'; ct crash
	cp_; file src/lib.rs <<<$'#[test]\nfn t() { std::process::exit(0); }\n'; ct exit0
	cp_; file src/lib.rs <<<$'/// ```\n/// assert_eq!(1, 2);\n/// ```\npub fn x() {}\n\n#[test]\nfn fine() {}\n'; ct doc
	cp_; file src/lib.rs <<<$'#[test]\n#[ignore]\nfn t() {}\n'; ct ignored
	project; file Cargo.toml <<<$'[package\n'; file src/lib.rs <<<$'\n'; ct manifest
}

run_automake() {
	have automake || return
	am() { local o=$1; shift
		keep automake "$o" "$work/r.log" bash -c 'autoreconf -i >/dev/null 2>&1; ./configure -q >/dev/null 2>&1; make -s -k check; s=$?
			cat $(find . -name test-suite.log | sort) >"$0" 2>/dev/null; exit $s' "$work/r.log"; }
	ap() { project; file configure.ac <<<$'AC_INIT([demo],[1])\nAC_CONFIG_AUX_DIR([aux])\nAM_INIT_AUTOMAKE([foreign -Wall])\nAC_PROG_CC\nAC_CONFIG_FILES([Makefile])\nAC_REQUIRE_AUX_FILE([tap-driver.sh])\nAC_OUTPUT\n'; }
	t() { file "$1"; chmod +x "$work/p/$1"; }
	ap; file Makefile.am <<<$'TESTS = a.sh b.sh\nEXTRA_DIST = a.sh b.sh\n'; t a.sh <<<$'#!/bin/sh\nexit 0\n'; t b.sh <<<$'#!/bin/sh\nexit 77\n'; am pass
	ap; file Makefile.am <<<$'TESTS = a.sh b.sh c.sh d.sh e.sh\nXFAIL_TESTS = d.sh e.sh\nEXTRA_DIST = a.sh\n'
	t a.sh <<<$'#!/bin/sh\nexit 0\n'; t b.sh <<<$'#!/bin/sh\necho "b.c:12: assertion failed: x == 3"\nexit 1\n'
	t c.sh <<<$'#!/bin/sh\nkill -SEGV $$\n'; t d.sh <<<$'#!/bin/sh\nexit 0\n'; t e.sh <<<$'#!/bin/sh\nexit 1\n'; am fail
	ap; file Makefile.am <<<$'TESTS = a.test b.test\nTEST_EXTENSIONS = .test\nTEST_LOG_DRIVER = $(SHELL) $(top_srcdir)/aux/tap-driver.sh\nEXTRA_DIST = a.test\n'
	t a.test <<<$'#!/bin/sh\nprintf "1..3\\nok 1 - one\\nnot ok 2 - two\\n# got 1, want 2\\nok 3 # SKIP three\\n"\n'; t b.test <<<$'#!/bin/sh\nprintf "1..2\\nok 1 - one\\n"\n'; am tap
	ap; file Makefile.am <<<$'check_PROGRAMS = a\nTESTS = a\n'; file a.c <<<$'int main(void) { return x; }\n'; am compile
	ap; file Makefile.am <<<$'TESTS =\n'; am none
	ap; file Makefile.am <<<$'TESTS = a.sh\n'; t a.sh <<<$'#!/bin/sh\nexit 99\n'; am error
	ap; file Makefile.am <<<$'TESTS = a.sh\n'; t a.sh <<<$'#!/bin/sh\nexit 77\n'; am skipped
}

run_ctest() {
	have ctest || return
	kt() { local o=$1; shift
		keep ctest "$o" "$work/r.xml" bash -c 'mkdir b; cd b; cmake .. >/dev/null 2>&1; make -s 2>&1 || exit 9
			ctest --output-junit "$0" --output-on-failure "$@"' "$work/r.xml" "$@"; }
	kp() { project; file CMakeLists.txt; }
	kp <<<$'cmake_minimum_required(VERSION 3.10)\nproject(d C)\nenable_testing()\nadd_test(NAME one COMMAND true)\nadd_test(NAME two COMMAND true)\n'; kt pass
	kp <<<$'cmake_minimum_required(VERSION 3.10)\nproject(d C)\nenable_testing()\nadd_executable(t t.c)\nadd_test(NAME good COMMAND true)\nadd_test(NAME assertion COMMAND t)\nadd_test(NAME missing COMMAND /nowhere/x)\nadd_test(NAME skip COMMAND sh -c "exit 77")\nset_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)\nadd_test(NAME slow COMMAND sleep 30)\nset_tests_properties(slow PROPERTIES TIMEOUT 1)\nadd_test(NAME off COMMAND true)\nset_tests_properties(off PROPERTIES DISABLED TRUE)\n'
	file t.c <<<$'#include <assert.h>\nint main(void) {\n\tint x = 2;\n\tassert(x == 3);\n\treturn 0;\n}\n'; kt fail
	kp <<<$'cmake_minimum_required(VERSION 3.10)\nproject(d C)\nenable_testing()\n'; kt none
	kp <<<$'cmake_minimum_required(VERSION 3.10)\nproject(d C)\nenable_testing()\nadd_executable(t t.c)\nadd_test(NAME t COMMAND t)\n'
	file t.c <<<$'int main(void) { return x; }\n'; kt compile
}

run_tap() { # any producer: by hand, as TAP 13 and 14 have them
	tp() { local o=$1; shift; keep tap "$o" - cat "$work/p/t"; }
	project
	file t <<<$'TAP version 14\n1..3\nok 1 - a\nok 2 - b # SKIP not here\nnot ok 3 - c # TODO later'; tp pass
	file t <<<$'1..3\nok 1 - a\nnot ok 2 - b\n  ---\n  message: "x is 2"\n  at: lib/x.js:12:3\n  ...\nok 3'; tp fail
	file t <<<$'1..3\nok 1 - a\nok 2 - b'; tp plan
	file t <<<$'1..0 # SKIP no database'; tp skipall
	file t <<<$'1..3\nok 1 - a\nBail out! no more disk'; tp bailout
	file t <<<$'ok 1 - a\nok 2 - b'; tp noplan
	file t <<<$'TAP version 14\n# Subtest: outer\n    ok 1 - in\n    not ok 2 - out\n    1..2\nnot ok 1 - outer\n1..1'; tp nested
	file t <<<$'TAP version 14\n# Subtest: outer\n    ok 1 - in\n    1..2\nok 1 - outer\n1..1'; tp nestedplan
	file t <<<$'hello\nworld'; tp notap
	file t <<<$'1..2\nok 1 - a\nok 1 - a again'; tp twice
}

[ $# -gt 0 ] || set -- pytest jest vitest node go cargo automake ctest tap
for r; do "run_$r"; done
