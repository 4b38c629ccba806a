#!/usr/bin/env python3
"""verify_in_container with fresh: true.  The tree is what crossed, the pass is
of that tree, and a work sandbox cannot forge one."""
import os
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
PROJECT = {
    "pyproject.toml": "[project]\nname = 'p'\nversion = '1'\n",
    "p.py": "def twice(n):\n    return 2 * n\n",
    "test_p.py": "from p import twice\n\n\ndef test_twice():\n"
                 "    assert twice(3) == 6\n",
}


def new(s, **kw):
    r = s.call("sandbox_initialize", **kw)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["container_id"]


def sh(s, box, *commands, **kw):
    r = s.call("sandbox_exec", container_id=box, commands=list(commands),
               verbose="full", **kw)
    return r.get("output", r) if r["status"] == "ok" else r


def project(s, box, files=None, repo=True):
    for name, text in (files or PROJECT).items():
        r = s.call("write_file_sandbox", container_id=box, file_name=name,
                   file_contents=text, dest_dir="/workspace")
        if r["status"] != "ok":
            raise RuntimeError(r)
    if repo:
        sh(s, box, "git init -q", "git add -A", "git -c user.name=t "
           "-c user.email=t@t commit -qm base")


def fresh(s, box, **kw):
    n = s.start_call("verify_in_container", container_id=box,
                     fresh=True, **kw)
    r = s.answer(n, 60)["result"]["structuredContent"]
    till = time.monotonic() + 120
    while r["status"] == "running" and time.monotonic() < till:
        r = s.call("verify_in_container", container_id=box, fresh=True,
                   run_id=r["run_id"])
    return r


def tree(s, box):
    return sh(s, box, "export GIT_INDEX_FILE=/tmp/i; git read-tree HEAD; "
              "git add -A; git write-tree").strip()


def green(s):
    """A pass, of git's own tree, and another tree after an edit."""
    box = new(s)
    project(s, box)
    r = fresh(s, box)
    ok(r["status"] == "ok" and r["gate"] is True and r["fresh"] is True,
       "a green tree passes", r)
    ok(r["tree_id"] == tree(s, box), "the tree is git's own",
       (r["tree_id"], tree(s, box)))
    t = r["tests"][0] if r["tests"] else {}
    ok(t.get("runner") == "python" and t.get("verdict") == "green" and
       t.get("passed") == 1, "what ran is said, with its counts", r["tests"])
    out = s.call("read_output", run_id=t.get("run_id"), stream="stderr")
    ok("1 passed" in out.get("output", ""), "its output can be read", out)
    boxes = s.call("sandbox_list_containers")["containers"]
    ok([x["container_id"] for x in boxes] == [box],
       "the fresh sandbox is nobody's, and gone", boxes)
    sh(s, box, "echo >>p.py")
    r2 = fresh(s, box)
    ok(r2["gate"] and r2["tree_id"] != r["tree_id"],
       "a later edit is another tree", r2)
    sh(s, box, "sed -i 's/2 [*]/3 */' p.py")
    r = fresh(s, box)
    ok(r["status"] == "failed" and r["gate"] is False and
       r["tests"][0]["failed"] == 1, "a red tree does not pass", r)
    r = s.call("verify_in_container", container_id=box, fresh=True,
               run_id="0" * 16)
    ok(r["status"] == "error" and r["code"] == "unknown_run",
       "an unknown job", r)
    r = s.call("verify_in_container", container_id="0" * 12, fresh=True)
    ok(r["status"] == "error", "an unknown sandbox", r)
    r = s.call("verify_in_container", container_id=box, fresh=True,
               test_filter="twice")
    ok(r["status"] == "error" and "test_filter" in r["error"],
       "a part of the tests is no fresh verification", r)


def declared(s):
    """With files the tree is HEAD's with these, and only these, changed."""
    box = new(s)
    project(s, box)
    sh(s, box, "echo 'x = 1' >new.py; echo broken >>test_p.py")
    r = fresh(s, box, files=["new.py"])
    want = sh(s, box, "export GIT_INDEX_FILE=/tmp/j; git read-tree HEAD; "
              "git add new.py; git write-tree").strip()
    ok(r["status"] == "ok" and r["tree_id"] == want,
       "undeclared changes are not in it", (r, want))
    r = fresh(s, box, files=["new.py", "test_p.py"])
    ok(r["status"] == "failed", "declared ones are", r)
    sh(s, box, "rm p.py; git checkout -q test_p.py")
    r = fresh(s, box, files=["p.py"])
    ok(r["status"] == "failed" and r["files"] == 2,
       "a declared deletion is one", r)
    for bad in ("../x", "none.py", ".git/config", "/etc/passwd"):
        r = fresh(s, box, files=[bad])
        ok(r["status"] == "error" and bad in r["error"],
           f"declaring {bad} is refused", r)


def none(s):
    """What is not tested does not pass."""
    for files, what in (
            ({"a.txt": "x"}, "nothing that says how it is tested"),
            ({"pyproject.toml": ""}, "no test"),
            ({"pyproject.toml": "", "test_x.py": "def test_x(:\n"},
             "tests that cannot be collected"),
            ({"pyproject.toml": "", "test_x.py":
              "import os\ndef test_x():\n    os.kill(os.getpid(), 9)\n"},
             "a crash"),
            ({"pyproject.toml": "", "test_x.py": "import pytest\n"
              "@pytest.mark.skip\ndef test_x():\n    pass\n"},
             "skipped tests alone"),
            ({"pyproject.toml": "", "test_x.py":
              "import time\ndef test_x():\n    time.sleep(99)\n"},
             "tests that take too long")):
        box = new(s)
        project(s, box, files)
        r = fresh(s, box, **({"timeout": 3} if "too long" in what else {}))
        ok(r["status"] == "failed" and r["gate"] is False,
           f"{what}: no pass", r)
        s.call("sandbox_stop", container_id=box, force=True)


def forged(s):
    """A work sandbox that lies in every way it can."""
    red = dict(PROJECT)
    red["p.py"] = red["p.py"].replace("2 *", "3 *")
    box = new(s)
    project(s, box, red)
    # programs before the real ones, a plugin, a report that is there already
    sh(s, box, "mkdir -p ~/bin ~/.local/bin; for p in python3 pytest git bash "
       "cat; do printf '#!/bin/sh\\nexit 0\\n' >~/.local/bin/$p; chmod +x "
       "~/.local/bin/$p; done; python3 -c pass")
    sh(s, box, "mkdir -p $(python3 -m site --user-site); echo 'raise "
       "SystemExit(0)' >$(python3 -m site --user-site)/sitecustomize.py; "
       "echo '<testsuites><testsuite tests=\"1\" failures=\"0\" "
       "errors=\"0\"><testcase classname=\"t\" name=\"t\"/></testsuite>"
       "</testsuites>' >/tmp/r")
    r = fresh(s, box)
    ok(r["status"] == "failed" and not r["gate"] and
       r["tests"][0]["failed"] == 1,
       "programs and plugins of the work sandbox are not there", r)
    # an index that lies about what the files are
    sh(s, box, "git update-index --assume-unchanged p.py")
    r = fresh(s, box)
    honest = sh(s, box, "git update-index --no-assume-unchanged p.py; "
                "GIT_INDEX_FILE=/tmp/k git add -A; "
                "GIT_INDEX_FILE=/tmp/k git write-tree").strip()
    ok(r["tree_id"] == honest, "an index that lies changes nothing",
       (r["tree_id"], honest))
    # an index that leaves the test out: another tree
    sh(s, box, "git rm -q --cached test_p.py; echo test_p.py "
       ">>.git/info/exclude")
    r2 = fresh(s, box)
    ok(r2["tree_id"] != r["tree_id"] and not r2["gate"],
       "a list that leaves a file out is another tree", r2)
    # a swap while it is read: the tree is what crossed, whatever that was
    sh(s, box, "git add -f test_p.py")
    job = s.call("sandbox_exec_background", container_id=box, commands=[
        "while :; do echo 'def twice(n): return 2 * n' >g; mv g p.py; "
        "echo 'def twice(n): return 3 * n' >b; mv b p.py; done"])
    good = set()
    for _ in range(6):
        r = fresh(s, box, files=["p.py"])
        if r["status"] in ("ok", "failed"):
            good.add((r["tree_id"], r["status"]))
    s.call("sandbox_exec_kill", container_id=box, job_id=job["job_id"])
    trees = [t for t, _ in good]
    ok(good and len(trees) == len(set(trees)),
       "files that are swapped meanwhile: a tree has one verdict", good)


def untouched(s):
    """Nothing else runs in it, and it has no way out."""
    box = new(s)
    project(s, box, {"pyproject.toml": "", "test_x.py": """
import os, socket
def test_alone():
    names = {open(f"/proc/{p}/comm").read().strip()
             for p in os.listdir("/proc") if p.isdigit()}
    assert names <= {"sbx-init", "sbx-job", "bash", "python3"}, names
def test_no_net():
    s = socket.socket()
    s.settimeout(2)
    assert s.connect_ex(("127.0.0.1", 3128)) != 0
    assert not [k for k in os.environ if k.lower().endswith("_proxy")]
def test_files():
    assert sorted(os.listdir("/workspace")) in (
        ["pyproject.toml", "test_x.py"],
        ["__pycache__", "pyproject.toml", "test_x.py"])
"""})
    sh(s, box, "sleep 300 >/dev/null 2>&1 & echo x >/tmp/y; echo z >ignored; "
       "echo ignored >.git/info/exclude")
    r = fresh(s, box)
    ok(r["status"] == "ok", "alone, without a way out, with its files only",
       r)
    def verified():
        return [x for x in s.journal() if x["op"] == "verify_fresh"]
    s.wait_for(lambda: verified()[-1]["phase"] == "end")
    ops = verified()
    ok([x["phase"] for x in ops[-2:]] == ["start", "end"] and
       ops[-1]["fields"].get("tree") == r["tree_id"], "the journal has it", ops[-2:])


def submodule(s):
    """A tree that cannot be verified is refused before anything runs."""
    box = new(s)
    project(s, box)
    sh(s, box, "git update-index --add --cacheinfo 160000,"
       "$(git rev-parse HEAD),'libs/a b'")
    for kw in ({}, {"files": ["p.py"]}):
        if kw:
            sh(s, box, "git -c user.name=t -c user.email=t@t commit -qm sub")
        r = fresh(s, box, **kw)
        ok(r.get("code") == "submodule" and "libs/a b" in r["error"] and
           r["recommended_next_action"], "a submodule is named", r)


def layer(s):
    """The dependency layer of the work sandbox is below it."""
    box = new(s, setup=["mkdir -p ~/dep; echo 'v = 7' >~/dep/depmod.py"])
    project(s, box, {"pyproject.toml": "", "test_x.py": "import os, sys\n"
            "sys.path.insert(0, os.path.expanduser('~/dep'))\n"
            "import depmod\ndef test_v():\n    assert depmod.v == 7\n"})
    sh(s, box, "echo 'v = 8' >~/dep/depmod.py")
    r = fresh(s, box)
    ok(r["status"] == "ok" and (r["layer"] or "").startswith("sha256:"),
       "what setup made is there, and what was changed since is not", r)


LANGUAGES = {  # runner: (what it needs, files, file, text to break, how)
    "js": ("node --test-reporter=tap --test --help", {
        "package.json": '{"name": "p"}', "p.test.js":
        "const test = require('node:test'), a = require('node:assert');\n"
        "test('sum', () => a.strictEqual(1 + 1, 2));\n"},
        "p.test.js", "1 + 1", "1 + 2"),
    "make": ("automake --version && autoconf --version && make --version", {
        "configure.ac": "AC_INIT([p], [1])\nAM_INIT_AUTOMAKE([foreign])\n"
        "AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
        "Makefile.am": "TESTS = t.sh\nEXTRA_DIST = t.sh\n"
        "TEST_LOG_COMPILER = sh\nSH_LOG_COMPILER = sh\n"
        "TEST_EXTENSIONS = .sh\n",
        "t.sh": "exit 0\n"}, "t.sh", "0", "1"),
    "go": ("go version", {
        "go.mod": "module p\n\ngo 1.19\n", "sub/p_test.go":
        "package sub\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) "
        "{\n\tif 1+1 != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n"},
        "sub/p_test.go", "1+1", "1+2"),
    "rust": ("cargo --version", {
        "Cargo.toml": "[package]\nname = 'p'\nversion = '0.1.0'\n"
        "edition = '2021'\n", "src/lib.rs":
        "#[test]\nfn sum() {\n    assert_eq!(1 + 1, 2);\n}\n"},
        "src/lib.rs", "1 + 1", "1 + 2"),
    "ctest": ("cmake --version", {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\n"
        "project(p NONE)\nenable_testing()\n"
        "add_test(NAME sum COMMAND sh ${CMAKE_SOURCE_DIR}/t.sh)\n",
        "t.sh": "exit 0\n"}, "t.sh", "0", "1"),
}


def languages(s):
    """Each row of what a tree asks for, green and red."""
    for runner, (needs, files, name, old, bad) in LANGUAGES.items():
        box = new(s)
        if not isinstance(sh(s, box, needs), str):
            tap.absent("its tools are not here", f"{runner}: green and red")
            continue
        project(s, box, files)
        r = fresh(s, box)
        t = (r["tests"] or [{}])[0]
        ok(r["status"] == "ok" and t["runner"] == runner and
           t["passed"] == 1, f"{runner}: green", r)
        project(s, box, {name: files[name].replace(old, bad)}, False)
        r = fresh(s, box)
        t = (r["tests"] or [{}])[0]
        ok(r["status"] == "failed" and not r["gate"] and
           t.get("failed") == 1, f"{runner}: red", r)
        s.call("sandbox_stop", container_id=box, force=True)


def killed(s):
    """The judge dies, or the sandbox of the files goes away."""
    box = new(s)
    project(s, box, {"pyproject.toml": "", "test_x.py":
                     "import time\ndef test_x():\n    time.sleep(8)\n"})
    n = s.start_call("verify_in_container", container_id=box, fresh=True)
    pids = s.wait_for(lambda: s.processes().get("sbxd-judge"), 20)
    ok(pids, "there is a judge")
    for pid in pids or ():
        mcp.kill(pid)
    r = s.answer(n, 60)
    r = r.get("result", r).get("structuredContent", r)
    ok(r.get("status") == "failed" and "judges" in r.get("why", ""),
       "a judge that dies: no pass, with the reason", r)
    r = fresh(s, box)
    ok(r["status"] == "ok", "the next one is judged", r)


def main():
    tests = (green, declared, none, forged, untouched, submodule, layer,
             languages, killed)
    with mcp.Suite() as s:
        box = new(s)
        has = "pytest" in str(sh(s, box, "python3 -m pytest --version 2>&1"))
        s.call("sandbox_stop", container_id=box, force=True)
        if not has:
            tap.skip("python3-pytest is not installed", "verification")
        for test in tests if has else ():
            if not sys.argv[1:] or test.__name__ in sys.argv[1:]:
                test(s)
    tap.done()
    return tap.bad > 0


if __name__ == "__main__":
    sys.exit(main())
