#!/usr/bin/env python3
"""search_in_container: what is found, where, and pages of it."""
import glob
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import imgsrc  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
GHP = "ghp_" + "a1B2c3D4e5" * 4
KEY = "-----%s PRIVATE" + " KEY-----"
MAKE = r"""
import os
os.makedirs("src/deep", exist_ok=True)
os.makedirs(".hid", exist_ok=True)
os.makedirs(".git/x", exist_ok=True)
def put(name, data):
    with open(name, "wb") as f:
        f.write(data)
put("src/a.py", b"import os\n\ndef f(a):\n    return os.path(a)\n\nprint(f(1))\n")
put("src/b.c", b"int x;\r\nint needle_b;\r\nint z;\r\n")
put("src/deep/utf.txt", "äö needle ü\n".encode())
put("src/deep/latin.txt", b"\xe4\xf6 needle\n")
put("src/-dash.txt", b"a -needle b\n--needle\n")
put(".hid/h.txt", b"needle hidden\n")
put(".git/x/g.txt", b"needle git\n")
put(".gitignore", b"ignored.txt\n")
put("ignored.txt", b"needle ignored\n")
put("many.txt", b"".join(b"hit %d\n" % i for i in range(200)))
for i in range(30):
    put("src/deep/m%02d.txt" % i, b"one many\ntwo\nthree many\n")
put("long.txt", b"x" * 3000 + b"LONG" + b"y" * 3000 + b"\n")
put("ctx.txt", b"".join(b"l%d\n" % i for i in range(1, 21)))
put("bin.dat", b"needle\0\1\2")
put("new\nline.txt", b"odd name\n")
"""


def search(pattern=None, **kw):
    if pattern is not None:
        kw["pattern"] = pattern
    number = S.start_call("search_in_container", container_id=kw.pop(
        "box", BOX), **kw)
    return S.answer(number)["result"]["structuredContent"]


def sh(*commands, box=None):
    return S.call("sandbox_exec", container_id=box or BOX,
                  commands=list(commands))


def places(r):
    return [(m["file"], m["line"], m.get("column"), m["text"])
            for m in r["matches"]]


def test_places():
    r = search("needle", path="src")
    ok(r["status"] == "ok" and r["tool"] == "rg" and r["root"] ==
       "/workspace" and len(r["run_id"]) == 16, "a search", r)
    ok(places(r) == [
        ("src/-dash.txt", 1, 4, "a -needle b"),
        ("src/-dash.txt", 2, 3, "--needle"),
        ("src/b.c", 2, 5, "int needle_b;"),
        ("src/deep/latin.txt", 1, 4, "\ufffd\ufffd needle"),
        ("src/deep/utf.txt", 1, 4, "äö needle ü")],
       "each with line and column in characters, from 1, in order", places(r))
    ok(r["replaced_bytes"] == 2, "a line that is no text", r)
    ok(r["shown"] == r["total"] == 5 and not r["truncated"] and
       r["next_offset"] is None and "total_is_lower_bound" not in r, "counts",
       r)
    r = search("needle", path="/workspace/src/b.c")
    ok(r["root"] == "/" and places(r) == [
        ("/workspace/src/b.c", 2, 5, "int needle_b;")],
       "an absolute path, of a file", r)
    r = search("odd name")
    ok(places(r) == [("new\nline.txt", 1, 1, "odd name")], "an odd name", r)
    r = search("no such thing")
    ok(r["status"] == "ok" and r["total"] == 0 and r["matches"] == [],
       "nothing is no error", r)


def test_patterns():
    r = search("-needle", path="src")
    ok(r["total"] == 2, "a pattern that begins with -", r)
    r = search("--needle", path="src")
    ok(r["total"] == 1, "or with two", r)
    r = search("a(b")
    ok(r["status"] == "error" and r["code"] == "search_failed" and
       "unclosed group" in r["error"] and "a(b" in r["error"],
       "a bad one has rg's words", r)
    r = search(r"needle(?=_b)")
    ok(r["total"] == 1 and r["engine"] == "pcre2", "lookaround", r)
    r = search(r"(?<=int )needle(?")
    ok(r["code"] == "search_failed" and len(r["error"]) > 20,
       "a bad one with it", r)
    r = search("NEEDLE", path="src", ignore_case=True)
    ok(r["total"] == 5, "ignore_case", r)
    ok(search("NEEDLE", path="src")["total"] == 0, "and not")
    r = search("needle", glob="*.c")
    ok([m["file"] for m in r["matches"]] == ["src/b.c"], "glob", r)
    r = search("needle", glob="-x")
    ok(r["status"] == "ok", "a glob that begins with -", r)
    r = search("print", path="--help")
    ok(r["code"] == "no_such_path", "a path that does", r)


def test_hidden():
    def names(**kw):
        return {m["file"] for m in search("needle", **kw)["matches"]}
    sh("git init -q t", "mv .gitignore ignored.txt t/")
    base = names()
    ok(not any("hid" in n or "git" in n or "ignored" in n for n in base),
       "hidden and ignored files are left out", base)
    ok(names(hidden=True) - base == {".hid/h.txt"},
       "hidden: not .git", names(hidden=True))
    ok(names(no_ignore=True) - base == {"t/ignored.txt"}, "no_ignore",
       names(no_ignore=True))
    ok(not any("bin.dat" in n for n in base), "no binary files")


def test_modes():
    r = search("many", path="src", output_mode="files_with_matches")
    ok(r["total"] == 30 and r["matches"][0] == {"file": "src/deep/m00.txt"},
       "files_with_matches", r)
    r = search("many", path="src", output_mode="count", max_results=3)
    ok(r["total"] == 30 and r["matches"] == [
        {"file": "src/deep/m%02d.txt" % i, "count": 2} for i in range(3)] and
       r["next_offset"] == 3, "count", r)
    r = search(run_id=r["run_id"], offset=29)
    ok(r["matches"] == [{"file": "src/deep/m29.txt", "count": 2}] and
       not r["has_more"], "a page of that", r)


def test_pages():
    r = search("hit", path="many.txt")
    ok(r["total"] == 200 and r["shown"] == 50 and r["truncated"] and
       r["next_offset"] == 50, "200 hits, 50 shown", r["total"])
    run, got = r["run_id"], places(r)
    sh("rm many.txt")       # a search would find nothing now
    while r["next_offset"] is not None:
        r = search(run_id=run, offset=r["next_offset"])
        if r.get("run_id") != run:
            break
        got += places(r)
    ok(got == [("many.txt", i + 1, 1, "hit %d" % i) for i in range(200)],
       "pages go on exactly, and nothing runs again", got[:3])
    r = search(run_id=run, offset=500)
    ok(r["status"] == "ok" and r["matches"] == [] and not r["has_more"],
       "past the end", r)
    r = search("hit", offset=50)
    ok(r["code"] == "bad_argument" and "run_id" in r["error"],
       "offset alone", r)
    r = search("other", run_id=run, offset=50)
    ok(r["code"] == "bad_argument" and "pattern" in r["error"],
       "a page of something else", r)
    r = search("hit", run_id=run, offset=1, max_results=1, path="many.txt")
    ok(places(r) == [("many.txt", 2, 1, "hit 1")], "the same again", r)
    other = sh("echo")["run_id"]
    r = search(run_id=other)
    ok(r["code"] == "unknown_run", "a run of another tool", r)
    r = search(run_id="0" * 16)
    ok(r["status"] == "error", "no run", r)
    r = search()
    ok(r["code"] == "bad_argument" and "pattern" in r["error"], "no pattern",
       r)


def test_many_files():
    sh("mkdir -p wide && for i in $(seq 1000 1999); do echo wide; done | "
       "(cd wide && split -l 1 -d -a 4)")
    for mode in ("content", "files_with_matches", "count"):
        r = search("wide", path="wide", output_mode=mode, max_results=1000)
        names = [m["file"] for m in r.get("matches", [])]
        ok(r["status"] == "ok" and r["total"] == 1000 and len(names) == 1000
           and names == sorted(names), f"a thousand files: {mode}", r)
    sh("rm -r wide")


def test_context():
    r = search("l(5|6|9)$", path="ctx.txt", context=2)
    ok([(m["line"], m.get("context", False)) for m in r["matches"]] == [
        (3, True), (4, True), (5, False), (6, False), (7, True), (8, True),
        (9, False), (10, True), (11, True)] and r["shown"] == r["total"] == 3,
       "context lines are there, once, and are not counted", r)
    r = search(run_id=r["run_id"], offset=1, max_results=1)
    ok([m["line"] for m in r["matches"]] == [4, 5, 6, 7, 8] and
       [m["line"] for m in r["matches"] if "context" not in m] == [6],
       "also in a later page", r)


def test_text():
    r = search("LONG")
    m = r["matches"][0]
    ok("LONG" in m["text"] and len(m["text"]) < 520 and m["column"] == 3001
       and m["text"][0] == m["text"][-1] == "\u2026",
       "a long line is cut around what matched", m)
    sh("printf -- 'token %s x\\n' " + GHP[:20] + "'" + GHP[20:] + "' > tok.txt",
       "printf -- '" + KEY % "BEGIN" + "\\nQUJDREVGRw\\nSElKS0xNTg\\n" +
       KEY % "END" + "\\n' > key.txt")
    r = search("token")
    ok(GHP not in str(r) and r["masked"] == 1 and "***" in str(r),
       "secrets are masked", r)
    r = search("SElK|END", path="key.txt", context=3)
    ok("QUJD" not in str(r) and "SElK" not in str(r) and r["masked"] >= 2,
       "lines of a key are hidden", r)


def test_denied():
    sh("ln -s / root; ln -s /proc p; ln -s src s")
    for path in ("/", "/proc", "/proc/1", "/sys", "/dev/", "//", "/x/..",
                 "../../proc", "..", "../.", "/workspace/../../dev/shm",
                 "root", "p", "root/proc", "p/self"):
        r = search("needle", path=path)
        ok(r.get("code") == "path_denied", f"{path} is refused", r)
    for path in ("/workspace/../workspace/src", "src/../src", "s", "./src/",
                 "root/workspace/src"):
        r = search("needle", path=path)
        ok(r.get("total") == 5, f"{path} is not", r)
    r = search("x", path="none")
    ok(r["code"] == "no_such_path" and "none" in r["error"],
       "a path that is not there", r)
    sh("rm root p s")


def test_slow():
    sh("mkfifo fifo")
    r = search("x", path="fifo", timeout=1)
    ok(r.get("code") == "no_such_path", "what has no end is refused", r)
    sh("rm fifo", "python3 -c \"open('large.txt', 'w').write("
       "('z' * 70 + chr(10)) * 250000)\"")
    r = search("^z", path="large.txt", max_results=2)
    ok(r.get("total_is_lower_bound") and r["total"] > 10000 and
       r["shown"] == 2 and r["has_more"],
       "more than is kept is told as such", {**r, "matches": 0})
    sh("rm large.txt")


def test_endless():
    """More than is read is not searched for."""
    sh("yes '' | head -c 600000000 >/tmp/endless")
    began = time.monotonic()
    r = search("^", path="/tmp/endless", max_results=3)
    took = time.monotonic() - began
    sh("rm /tmp/endless")
    ok(r["status"] == "ok" and r["shown"] == 3 and r["has_more"] and
       r["total_is_lower_bound"] and r["total"] > 10000,
       "what was printed until there was too much is shown", str(r)[:500])
    again = S.call("sandbox_exec_check", container_id=BOX,
                   job_id=r["run_id"])
    ok(again.get("signal") == "SIGKILL" or again["exit_code"] is None or
       again["exit_code"] > 2, "then it was ended", str(again)[:500])
    ok(took < 30, "soon", took)
    r = search(run_id=r["run_id"], offset=3, max_results=2)
    ok([m["line"] for m in r["matches"]] == [4, 5], "it has pages", str(r)[:500])


def test_grep():
    """a sandbox that has no rg"""
    ok(imgsrc.small(S, "bare", "grep", "mkdir"), "an image without rg")
    box = S.call("sandbox_initialize", image="bare")["container_id"]
    sh("mkdir -p src .hid", "printf 'a\\n-needle\\nb\\n' > src/x",
       "echo 'needle (two) needle' > src/y", "echo needle > .hid/h",
       "echo needle > src/.dot", "printf 'needle\\0' > src/bin", box=box)
    r = search("needle", box=box)
    ok(r["tool"] == "grep" and r["fallback"] is True and [
        (m["file"], m["line"], m["text"]) for m in r["matches"]] == [
            ("src/x", 2, "-needle"), ("src/y", 1, "needle (two) needle")],
       "grep, and the result says so", r)
    r = search("-needle", context=1, box=box)
    ok([m["line"] for m in r["matches"]] == [1, 2, 3] and r["total"] == 1,
       "a dash, and context", r)
    r = search("needle", hidden=True, output_mode="count", box=box)
    ok(r["matches"] == [{"file": n, "count": 1} for n in
                        (".hid/h", "src/.dot", "src/x", "src/y")],
       "hidden, and count", r)
    r = search("NEEDLE", ignore_case=True, output_mode="files_with_matches",
               max_results=1, box=box)
    ok(r["matches"] == [{"file": "src/x"}] and r["total"] == 2, "files", r)
    r = search(run_id=r["run_id"], offset=1, box=box)
    ok(r["matches"] == [{"file": "src/y"}], "a page", r)
    r = search("a(b", box=box)
    ok(r["code"] == "search_failed" and "grep" in r["error"], "bad", r)
    r = search("x", glob="*.c", box=box)
    ok(r["code"] == "no_rg" and "glob" in r["error"],
       "what grep cannot do is refused", r)
    r = search("x", mode="structural", box=box)
    ok(r["code"] == "no_ast_grep", "no ast-grep", r)
    S.call("sandbox_stop", container_id=box, force=True)
    ok(imgsrc.small(S, "barer"), "an image without either")
    box = S.call("sandbox_initialize", image="barer")["container_id"]
    ok(search("x", box=box)["code"] == "no_grep", "neither")


def ast_grep():
    """the program, from where the npm modules of the tests are"""
    at = os.environ.get("SBX_INTEROP", "")
    for d in (at, at + "/node_modules"):
        found = glob.glob(d + "/@ast-grep/cli-linux-*/ast-grep")
        if found:
            return found[0]
    return shutil.which("ast-grep")


def test_structural():
    r = search("print($A)", mode="structural")
    program = ast_grep()
    if program is None:
        ok(r["code"] == "no_ast_grep", "no ast-grep", r)
        tap.absent("ast-grep is not installed", "structures")
        return
    shutil.copy(program, ROOT + "/ast-grep")
    sh("mkdir -p ~/.local/bin")
    r = S.call("copy_file", container_id=BOX, local_src_file=ROOT +
               "/ast-grep", dest_path="/home/sandbox/.local/bin/ast-grep")
    ok(r["status"] == "ok", "ast-grep is in the sandbox", r)
    sh("chmod +x ~/.local/bin/ast-grep")
    r = search("print($A)", mode="structural")
    ok(r["tool"] == "ast-grep" and places(r) == [
        ("src/a.py", 6, 1, "print(f(1))")] and
       r["matches"][0]["end_column"] == 12, "a structure, from line 1", r)
    r = search("$F($A)", mode="structural", language="python",
               max_results=1)
    ok(r["total"] == 3 and places(r)[0][:3] == ("src/a.py", 4, 12),
       "a language", r)
    r = search(run_id=r["run_id"], offset=1)
    ok([p[1] for p in places(r)] == [6, 6], "its pages", r)
    r = search("$F($A)", mode="structural", language="python",
               output_mode="count")
    ok(r["matches"] == [{"file": "src/a.py", "count": 3}] and r["total"] == 1,
       "count", r)
    for kw in ({"ignore_case": True}, {"context": 1}):
        r = search("x", mode="structural", **kw)
        ok(r["code"] == "bad_argument", f"{kw} is refused", r)
    r = search("x", mode="structural", language="klingon")
    ok(r["code"] == "search_failed" and "klingon" in r["error"],
       "an unknown language", r)
    r = search("print($A)", mode="structural", glob="*.c")
    ok(r["total"] == 0, "glob", r)


def test_race():
    """the same search gives the same order"""
    first = search("e", max_results=1000)["matches"]
    same = all(search("e", max_results=1000)["matches"] == first
               for _ in range(5))
    ok(same and len(first) > 50, "the order is the same each time")


if __name__ == "__main__":
    ROOT = tempfile.mkdtemp(prefix="sbx-test-")
    os.chmod(ROOT, 0o755)
    if shutil.which("rg", path="/usr/bin:/bin:/usr/local/bin") is None:
        tap.skip("rg is not installed (package ripgrep)")
        tap.done()
        sys.exit(tap.bad > 0)
    with mcp.Suite(copy_root=ROOT) as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        S.call("run_python", container_id=BOX, code=MAKE)
        mcp.main(tap, globals(), sys.argv[1:])
