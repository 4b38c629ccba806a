#!/usr/bin/env python3
"""Files of a sandbox: reading, listing, writing, editing, undoing; what the
bytes are afterwards, and what a hostile sandbox can make of it."""
import os
import signal
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
# what no edit may touch: line ends, Latin-1, NUL, form feed, U+2028
ODD = (b"first\r\nsecond\nlat\xe9in\nn\x00ul\nform\x0cfeed\n"
       b"u\xe2\x80\xa82028\n\ttab \nlast")


def call(tool, **kw):
    return S.call(tool, container_id=BOX, **kw)


def answers(*numbers):
    """in their order, whichever came first"""
    got = {}
    while len(got) < len(numbers):
        m = S.recv(60)
        if m.get("id") in numbers:
            got[m["id"]] = m["result"]["structuredContent"]
    return [got[n] for n in numbers]


def sh(*commands, **kw):
    r = S.call("sandbox_exec", container_id=BOX, commands=list(commands),
               verbose="full", **kw)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["output"]


def python(code):
    r = call("run_python", code=code)
    if r["status"] != "ok":
        raise RuntimeError(r)
    return r["output"]


def put(name, data):
    """bytes into a file, by the sandbox itself"""
    python("open(%r, 'wb').write(%r)" % ("/workspace/" + name, data))


def get(name):
    """its bytes"""
    return bytes.fromhex(python(
        "print(open(%r, 'rb').read().hex())" % ("/workspace/" + name)))


def write(name, text, **kw):
    return call("write_file_sandbox", file_name=name, file_contents=text, **kw)


def edit(name, text=None, **kw):
    if text is not None:
        kw["file_contents"] = text
    return call("edit_file", file_name=name, **kw)


def read(name, **kw):
    return call("read_file_range", file_path=name, **kw)


def undo(name, **kw):
    return call("undo_file_edit", file_path=name, **kw)


def left():
    """temporary files of edits"""
    return sh("find / -xdev -name '.sbx-*' 2>/dev/null || true")


def test_read():
    put("ten", b"".join(b"line %d\n" % i for i in range(10)))
    r = read("ten")
    tap.ok(r["status"] == "ok" and r["path"] == "/workspace/ten" and
           r["content"].count("\n") == 10 and r["total_lines"] == 10 and
           r["shown"] == 10 and not r["has_more"] and
           r["next_offset"] is None and r["file_size"] ==
           {"lines": 10, "bytes": 70, "approx_tokens": 18}, "all of it", r)
    r = read("ten", offset=3, limit=2)
    tap.ok(r["content"] == "line 3\nline 4\n" and r["start_line"] == 4 and
           r["has_more"] and r["next_offset"] == 5, "offset and limit", r)
    r = read("/workspace/ten", start_line=9, end_line=99)
    tap.ok(r["content"] == "line 8\nline 9\n" and not r["has_more"],
           "start_line and end_line", r)
    r = read("ten", tail_lines=3)
    tap.ok(r["content"] == "line 7\nline 8\nline 9\n" and
           r["start_line"] == 8, "tail_lines", r)
    tap.ok(read("ten", limit=-1)["shown"] == 10, "limit -1")
    r = read("ten", offset=50)
    tap.ok(r["content"] == "" and r["shown"] == 0 and r["total_lines"] == 10
           and not r["has_more"], "past the end", r)
    for kw in ({"tail_lines": 1, "offset": 1}, {"start_line": 2, "limit": 3},
               {"start_line": 5, "end_line": 4}, {"limit": 0},
               {"tail_lines": 0}):
        tap.ok(read("ten", **kw)["code"] == "bad_argument", "refused: %r" % kw)
    r = read("none")
    tap.ok(r["status"] == "error" and r["code"] == "not_found",
           "no such file", r)
    put("open", b"a\nb")
    tap.ok(read("open")["total_lines"] == 2 and
           read("open", tail_lines=1)["content"] == "b" and
           read("open", offset=1)["content"] == "b", "no newline at the end")
    put("empty", b"")
    tap.ok(read("empty")["total_lines"] == 0 and
           read("empty", tail_lines=5)["content"] == "", "an empty file")
    put("long", b"a\n" + b"x" * 100000 + b"\nb\n")
    r = read("long")
    tap.ok(r["cut_lines"] == 1 and "[96000 bytes more]" in r["content"] and
           r["content"].endswith("]\nb\n") and r["shown"] == 3,
           "a long line is cut, with a mark")
    sh("(echo a; head -c 5242880 /dev/zero | tr '\\0' x; printf '\\nb\\n') "
       ">/tmp/long")
    more = f"[{5242880 - 4000} bytes more]"
    r = read("/tmp/long")
    tap.ok(r["shown"] == 3 and r["cut_lines"] == 1 and more in r["content"]
           and r["content"].endswith("]\nb\n"),
           "one of 5 MiB, with the number that is true", r["content"][-99:])
    r = read("/tmp/long", tail_lines=2)
    tap.ok(r["shown"] == 2 and r["start_line"] == 2 and more in r["content"]
           and r["content"].endswith("]\nb\n"), "and in a tail",
           r["content"][-99:])
    put("bytes", b"a\xff\x00\xe9b\n")
    r = read("bytes")
    tap.ok(r["replaced_bytes"] == 2 and r["content"] == "a�\0�b\n",
           "bytes that are no text are replaced and counted", r)
    put("secret", b"key ghp_" + b"a1B2c3D4e5" * 4 + b"\n")
    r = read("secret")
    tap.ok("ghp_" not in r["content"] and r["masked"] == 1,
           "secrets are masked", r)


def test_large():
    """2 GB: by range and tail, in little memory."""
    sh("cd /tmp; yes 0123456789abcdefghijklmnopqrstuvwxyz012345678901234567890"
       "123456789 | head -c 4000000 > big", "truncate -s 64M sparse",
       "printf 'the end\\n' >> sparse")
    r = read("/tmp/sparse", tail_lines=1)
    tap.ok(r["status"] == "ok" and r["total_lines"] == 1 and
           r["file_size"]["bytes"] == (64 << 20) + 8 and
           r["cut_lines"] == 1, "the tail of 64 MB that are one line",
           str(r)[:300])
    # once to the end before: how long that takes is the disk's matter
    job = S.call("sandbox_exec_background", container_id=BOX, commands=[
        "cd /tmp; printf 'one\\ntwo\\n' > s2; truncate -s 2G s2; "
        "printf '\\nlast\\n' >> s2; wc -l s2"])["job_id"]
    while call("sandbox_exec_check", job_id=job, wait=20)["status"] == \
            "running":
        pass
    r = read("/tmp/s2", start_line=1, end_line=2)
    tap.ok(r["content"] == "one\ntwo\n" and r["total_lines"] == 4 and
           r["next_offset"] == 2, "a range of it", str(r)[:300])
    r = read("/tmp/s2", tail_lines=1)
    tap.ok(r["content"] == "last\n" and r["start_line"] == 4, "its tail",
           str(r)[:300])
    r = read("/tmp/big", limit=-1)
    tap.ok(r["status"] == "ok" and r["has_more"] and r["shown"] > 5000 and
           r["next_offset"] == r["shown"], "a page has a limit", r["shown"])
    n = r["next_offset"]
    r = read("/tmp/big", offset=n, limit=1)
    tap.ok(r["start_line"] == n + 1 and r["shown"] == 1, "and goes on there")
    r = edit("/tmp/s2", "x", old_str="one")
    tap.ok(r["code"] == "too_large", "too large to be edited", r)
    r = write("/tmp/s2", "small\n")
    tap.ok(r["status"] == "ok" and not r["undo"] and
           read("/tmp/s2")["content"] == "small\n",
           "it is overwritten, without undo", r)
    sh("rm /tmp/sparse /tmp/big")


def test_list():
    sh("mkdir -p l/a/b/c l/.h/x l/.git", "cd l; touch z a/1.py a/b/2.py "
       "a/b/c/3.py .h/x/4 .git/5 'a/sp ace' .dot; ln -s /etc/passwd link")
    r = call("list_files", path="l")
    tap.ok(r["status"] == "ok" and r["path"] == "/workspace/l" and
           r["files"] == ["a/1.py", "a/b/2.py", "a/sp ace", "link", "z"] and
           r["total"] == 5, "sorted, three deep", r)
    r = call("list_files", path="l", max_depth=9, pattern="*.py")
    tap.ok(r["files"] == ["a/1.py", "a/b/2.py", "a/b/c/3.py"], "a pattern", r)
    r = call("list_files", path="l", max_depth=9, pattern="a/b/*")
    tap.ok(r["files"] == ["a/b/2.py", "a/b/c/3.py"], "of the path", r)
    r = call("list_files", path="l", hidden=True)
    tap.ok(".h/x/4" in r["files"] and ".dot" in r["files"] and
           not [x for x in r["files"] if ".git/" in x], "hidden ones", r)
    tap.ok(call("list_files", path="l/.h")["files"] == ["x/4"],
           "below a hidden one that is named")
    r = call("list_files", path="l", offset=1, limit=2)
    tap.ok(r["files"] == ["a/b/2.py", "a/sp ace"] and r["total"] == 5 and
           r["has_more"] and r["next_offset"] == 3, "a page", r)
    tap.ok(call("list_files", path="l/z")["code"] == "not_directory" and
           call("list_files", path="no")["code"] == "not_found", "errors")
    python("import os\nos.chdir('/dev/shm')\nfor d in range(15):\n"
           "    os.makedirs('n/%d' % d)\n    for f in range(1000):\n"
           "        open('n/%d/%d' % (d, f), 'w').close()")
    began = time.monotonic()
    r = call("list_files", path="/dev/shm/n")
    took = time.monotonic() - began
    tap.ok(r["total"] == 15000 and r["shown"] == 1000 and took < 0.5,
           "15000 files in %.3f s" % took, took)
    sh("rm -r /dev/shm/n")


def test_write():
    r = write("new/dir/f.txt", "é\n")
    tap.ok(r["status"] == "ok" and r["created"] and r["bytes"] == 3 and
           r["diff"] == "@@ -0,0 +1,1 @@\n+é\n" and
           r["path"] == "/workspace/new/dir/f.txt", "parents; bytes", r)
    sh("chmod 751 new/dir/f.txt; ln -s dir/f.txt new/link")
    r = write("new/link", "by the link\n")
    tap.ok(r["path"] == "/workspace/new/dir/f.txt" and not r["created"] and
           sh("readlink new/link; stat -c %a new/dir/f.txt; cat new/link") ==
           "dir/f.txt\n751\nby the link\n", "link and mode stay", r)
    r = write("f.txt", "abs\n", dest_dir="/tmp/other")
    tap.ok(r["path"] == "/tmp/other/f.txt", "dest_dir", r)
    r = write("/tmp/abs", "x", dest_dir="/workspace")
    tap.ok(r["path"] == "/tmp/abs", "an absolute name wins", r)
    r = write("f", "a\nb\nc\n")
    r = write("f", "B\n", start_line=2, end_line=2)
    tap.ok(get("f") == b"a\nB\nc\n" and r["replaced"] == 1, "a range", r)
    write("f", "d", append=True)
    tap.ok(get("f") == b"a\nB\nc\nd\n", "append")
    write("f", "", old_str="B\n")
    tap.ok(get("f") == b"a\nc\nd\n", "old_str")
    r = write("f", "x", old_str="q", append=True)
    tap.ok(r["code"] == "bad_argument", "one way only", r)
    r = write("f", "a\nc\nd\n")
    tap.ok(r["status"] == "ok" and not r["changed"] and r["diff"] == "",
           "what it is already", r)
    for name, code in (("/proc/cpuinfo", "not_a_file"),
                       ("/workspace", "is_directory"),
                       ("/usr/bin/x", "read_only"),
                       ("f/below", "not_found")):
        r = write(name, "x")
        tap.ok(r["status"] == "error" and
               (r["code"] == code or name == "/usr/bin/x"),
               "refused: " + name, r)
    tap.ok(left() == "", "no temporary file stays")


def test_match():
    write("m", "one\ntwo\n  two\nthree\n")
    r = edit("m", "2", old_str="two")
    tap.ok(r["code"] == "ambiguous" and "lines 2, 3" in r["error"],
           "61: twice: both lines", r)
    r = edit("m", "2", old_str="two", expected_count=3)
    tap.ok(r["code"] == "count_mismatch" and "2 times, not 3" in r["error"]
           and get("m") == b"one\ntwo\n  two\nthree\n",
           "61: not as many: nothing is written", r)
    r = edit("m", "2", old_str="two", expected_count=2)
    tap.ok(get("m") == b"one\n2\n  2\nthree\n" and r["replaced"] == 2,
           "61: all", r)
    r = edit("m", edits=[{"old_str": "one", "new_str": "1"},
                         {"old_str": "four", "new_str": "4"}])
    tap.ok(r["code"] == "no_match" and "edits[1]" in r["error"] and
           get("m") == b"one\n2\n  2\nthree\n", "62: one fails, none is made",
           r)
    r = edit("m", edits=[{"old_str": "one\n2", "new_str": "x"},
                         {"old_str": "2\n  ", "new_str": "y"}])
    tap.ok(r["code"] == "overlap", "62: an overlap", r)
    r = edit("m", edits=[{"old_str": "three", "new_str": "one"},
                         {"old_str": "one", "new_str": "three"}])
    tap.ok(get("m") == b"three\n2\n  2\none\n",
           "62: all are of the original text", r)
    write("i", "class A:\n    def f(self):\n        return 1\n")
    r = edit("i", "def f(self):\n    x = 2\n    return x",
             old_str="def f(self):\n    return 1")
    tap.ok(r["flexible_match"] and get("i") == b"class A:\n    def f(self):\n"
           b"        x = 2\n        return x\n", "63: indented as it was", r)
    r = edit("i", "y", old_str="def g(self):\n    x = 2\n    return x\n")
    tap.ok(r["code"] == "no_match" and r["near_miss"]["line"] == 2 and
           r["near_miss"]["differs_at"] == 2 and
           ">>>     2     def f(self):" in r["near_miss"]["context"] and
           "def f(self)" in r["error"] and "def g(self)" in r["error"],
           "64: a near miss shows the first difference", r)
    put("tab", b"if a:\n\tb = 'x\x01y'\n\tc = 1\n")
    r = edit("tab", "z", old_str="if a:\n\tb = 'xy'\n\tc = 1\n")
    tap.ok(r["code"] == "no_match" and "\\001" in r["error"] or
           "\\x01" in r["error"] or "^A" in r["error"],
           "64: escaped", r["error"])
    r = edit("i", "x = 2\n        return x", old_str="x = 1\n        return x")
    tap.ok(r["code"] == "no_match" and r["already_applied"] and
           "already" in r["error"], "65: already applied", r)
    for kw in ({}, {"old_str": "a", "append": True}, {"old_str": ""},
               {"start_line": 9, "file_contents": "x"},
               {"edits": [{"old_str": "", "new_str": "x"}]},
               {"edits": [{"old_str": "x"}]}, {"edits": ["x"]},
               {"edits": [{"old_str": "x", "new_str": 1}]},
               {"append": True, "file_contents": "x", "expected_count": 1}):
        r = edit("m", **{"file_contents": "x", **kw} if "edits" not in kw
                 else kw)
        tap.ok(r["status"] == "error" and r["code"] in
               ("bad_argument", "missing_argument"), "refused: %r" % kw, r)
    tap.ok(edit("none", "x", append=True)["code"] == "not_found",
           "no such file")


def test_python():
    src = ("import a\n\nclass A:\n    @deco\n    def f(self):\n"
           "        \"\"\"What it does.\"\"\"\n        return 1\n\n\n"
           "class B:\n    def f(self):\n        return 2\n\n\n"
           "def g():\n    return 3\n")
    write("p.py", src)
    r = edit("p.py", "def f(self):\n    \"\"\"Only this.\"\"\"",
             old_str="def A.f", ast=True)
    tap.ok(r["code"] == "docstring_only" and get("p.py") == src.encode(),
           "66: only a docstring", r)
    r = edit("p.py", "def f(self):\n    return 9", old_str="def f(self):")
    tap.ok(r["code"] == "ambiguous" and "lines 5, 11" in r["error"],
           "67: which one", r)
    r = edit("p.py", "def f(self):\n    return 9", old_str="def f(self):",
             line=11)
    tap.ok(r["status"] == "ok" and get("p.py") == src.replace(
        "return 2", "return 9").encode(), "67: line says", r)
    r = edit("p.py", "def f(self, x):\n    y = x\n    return y",
             old_str="def A.f")
    want = src.replace("return 2", "return 9").replace(
        "def f(self):\n        \"\"\"", "def f(self, x):\n        \"\"\""
    ).replace("return 1", "y = x\n        return y")
    tap.ok(get("p.py") == want.encode(),
           "decorator and docstring are kept", r.get("diff", r))
    r = edit("p.py", "def f(self):\n    return 0", old_str="def A.f",
             preserve="none")
    tap.ok("@deco" not in get("p.py").decode() and "What it" not in
           get("p.py").decode(), "unless told", r.get("diff", r))
    r = edit("p.py", "def g():\n    return (", old_str="def g():")
    tap.ok(r["code"] == "syntax" and b"return (" not in get("p.py"),
           "what does not parse is not written", r)
    r = edit("p.py", "def h():\n    return 1", old_str="def h():")
    tap.ok(r["code"] == "no_definition", "no such definition", r)
    r = edit("p.py", "def g(a):", old_str="def g():")
    tap.ok(b"def g(a):\n    return 3\n" in get("p.py"),
           "a signature by a signature is text", r)
    r = edit("p.py", "return 3 3", old_str="return 3")
    tap.ok("does not parse" in r["warning"] and "line" in r["warning"],
           "it says that a file does not parse", r)
    put("crlf.py", b"def a():\r\n    return 1\r\n\r\nb = a()\r\n")
    r = edit("crlf.py", "def a():\n    x = 1\n    return x",
             old_str="def a():")
    tap.ok(get("crlf.py") == b"def a():\r\n    x = 1\r\n    return x\r\n\r\n"
           b"b = a()\r\n" and r["line_endings"] == "crlf", "CR LF", r)
    put("s.py", b"class A:\n    def a(self):\n        pass\n")
    edit("s.py", "def a(self):\n    return '''x\n  y\nz'''",
         old_str="def a(self):")
    tap.ok(get("s.py") == b"class A:\n    def a(self):\n        return '''x\n"
           b"  y\nz'''\n", "a string keeps its lines", get("s.py"))


def test_transform():
    put("t1", b"a\r\nb\xff\n")
    put("t2", b"c\n")
    sh("chmod 600 t1")
    code = "def transform(t):\n    print('noise')\n    return t.upper()\n"
    r = call("transform_file", paths=["t1", "/workspace/t2"], code=code)
    tap.ok(r["status"] == "ok" and r["changed"] and
           [f["path"] for f in r["files"]] == ["/workspace/t1",
                                               "/workspace/t2"] and
           "-c\n+C\n" in r["files"][1]["diff"] and "noise" not in str(r) and
           len(r["run_id"]) == 16 and get("t1") == b"A\r\nB\xff\n" and
           sh("stat -c %a t1") == "600\n", "69: two files, modes stay", r)
    before = get("t1"), get("t2")
    r = call("transform_file", paths=["t1", "t2"], code="def transform(t):\n"
             "    if 'C' in t:\n        raise ValueError('no')\n"
             "    return 'changed'\n")
    tap.ok(r["code"] == "transform_failed" and "ValueError: no" in r["error"]
           and (get("t1"), get("t2")) == before and left() == "",
           "68: the second raises, both stay", r)
    for code, what in (("x = 1", "defines no function"),
                       ("def transform(t): return 1", "not str"),
                       ("def transform(t) return", "SyntaxError"),
                       ("raise SystemExit(0)", "SystemExit"),
                       ("import os\nos._exit(0)", "ended early")):
        r = call("transform_file", file_path="t1", code=code)
        tap.ok(r["code"] == "transform_failed" and what in r["error"] and
               get("t1") == before[0], "refused: %r" % code, r)
    r = call("transform_file", file_path="t1", code="def transform(t): "
             "return t")
    tap.ok(r["status"] == "ok" and not r["changed"] and
           r["files"][0]["diff"] == "", "nothing changes", r)
    r, = answers(S.start_call(
        "transform_file", container_id=BOX, file_path="t1", timeout=1,
        code="import time\ndef transform(t): time.sleep(60)"))
    tap.ok(r["status"] == "timeout", "a time-out", r)
    sh("ln t2 t2b; ln -s t1 t1b")
    r = call("transform_file", paths=["t1", "t1b"], code="def transform(t): "
             "return ''")
    tap.ok(r["code"] == "bad_argument", "one file twice", r)
    r = call("transform_file", paths=["t1", "none"], code=code)
    tap.ok(r["code"] == "not_found", "one that is not there", r)
    r = call("transform_file", code="def transform(t): return t")
    tap.ok(r["code"] == "bad_argument", "no file", r)
    r = call("transform_file", file_path="t1", code="import sys, os\n"
             "def transform(t):\n    for fd in range(3, 20):\n        try:\n"
             "            os.write(fd, b'3\\nxyz')\n        except OSError:\n"
             "            pass\n    return t")
    tap.ok(r["status"] in ("ok", "error") and get("t1") in
           (before[0], b"xyz"), "code that writes to all descriptors", r)


def test_undo():
    name = "u.txt"
    write(name, "1\n")
    write(name, "2\n")
    sh("chmod 640 " + name)
    write(name, "3\n")
    r = undo(name)
    tap.ok(get(name) == b"2\n" and r["status"] == "ok" and
           r["diff"] == "@@ -1,1 +1,1 @@\n-3\n+2\n" and
           r["restored_steps_back"] == 1 and
           [v["size_bytes"] for v in r["snapshots"]] == [2, 2, 2, None],
           "undo", r)
    undo(name)
    tap.ok(get(name) == b"3\n", "70: undo again is redo")
    r = undo(name, steps=5)
    tap.ok(r["status"] == "ok" and
           r["removed"] and sh("test -e %s || echo gone" % name) == "gone\n",
           "a file that an edit made is removed", r)
    r = undo(name)
    tap.ok(get(name) == b"3\n" and r["created"] and
           sh("stat -c %a " + name) == "640\n", "and comes back", r)
    r = undo(name, steps=10)
    tap.ok(r["code"] == "bad_argument" and len(r["snapshots"]) == 7,
           "not so many", r)
    r = undo("ten")
    tap.ok(r["code"] == "no_history" and r["snapshots"] == [],
           "nothing is kept", r)
    put("big", b"x" * (5 << 20) + b"end\n")
    r = edit("big", "END", old_str="end")
    tap.ok(r["status"] == "ok" and not r["undo"] and "5 MiB" in
           r["undo_note"] and undo("big")["code"] == "no_history",
           "71: one of more than 5 MiB is not kept", r["undo_note"])
    put("odd", ODD)
    edit("odd", "x", old_str="last")
    undo("odd")
    tap.ok(get("odd") == ODD, "bytes come back")
    write(name, "before the end\n")
    write(name, "after\n")
    for pid in S.processes()["sbxd-recorder"]:
        os.kill(pid, signal.SIGKILL)
    S.wait_for(lambda: undo(name).get("status") == "ok", 20)
    tap.ok(get(name) == b"before the end\n",
           "versions outlive the recorder", get(name))


def test_bytes():
    """34: what an edit does not name stays as it is."""
    for what, kw, want in (
            ("old_str", {"text": "2nd", "old_str": "second"},
             ODD.replace(b"second", b"2nd")),
            ("a range", {"text": "S", "start_line": 2, "end_line": 2},
             ODD.replace(b"second", b"S")),
            ("the last line", {"text": "L", "start_line": 8},
             ODD.replace(b"last", b"L")),
            ("append", {"text": "more"}, ODD + b"\nmore"),
            ("edits", {"edits": [{"old_str": "first", "new_str": "1"},
                                 {"old_str": "feed", "new_str": "f"}]},
             ODD.replace(b"first", b"1").replace(b"feed", b"f"))):
        put("odd", ODD)
        if what == "append":
            kw["append"] = True
        r = edit("odd", **kw)
        tap.ok(r["status"] == "ok" and get("odd") == want,
               "34: bytes stay: " + what, (r, get("odd")))
    put("odd", ODD)
    r = call("transform_file", file_path="odd", code="def transform(t):\n"
             "    return t.replace('second', '2nd')")
    tap.ok(get("odd") == ODD.replace(b"second", b"2nd"),
           "34: bytes stay: transform", r)
    for what, data in (("UTF-16", "a\nb\n".encode("utf-16")),
                       ("UTF-16 without a mark", "some\n".encode("utf-16-le"))):
        put("wide", data)
        got = [edit("wide", "x", **kw)["code"] for kw in (
            {"old_str": "b"}, {"start_line": 1}, {"append": True})]
        tap.ok(got == ["encoding"] * 3 and get("wide") == data,
               "34: %s is left alone" % what, got)
    put("crlf", b"a\r\nb\r\n")
    r = edit("crlf", "x\ny", start_line=2)
    tap.ok(get("crlf") == b"a\r\nx\r\ny\r\n" and r["line_endings"] == "crlf",
           "CR LF goes in where there is nothing else", r)
    r = edit("crlf", "z", append=True)
    tap.ok(get("crlf") == b"a\r\nx\r\ny\r\nz\r\n", "also at the end", r)
    put("nofinal", b"a\r\nb")
    edit("nofinal", "c", append=True)
    tap.ok(get("nofinal") == b"a\r\nb\r\nc", "the last newline stays away",
           get("nofinal"))


def test_hostile():
    sh("mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero; ln -s /proc/self "
       "self; ln -s / root")
    began = time.monotonic()
    for name, code in (("fifo", "not_a_file"), ("loop", "file_failed"),
                       ("zero", "not_a_file"), ("/dev/tty", None),
                       ("/proc/kmsg", None), ("/proc/1/environ", None),
                       ("self/environ", None), ("/", "is_directory"),
                       ("self/fd/0", None), ("self/mem", None),
                       ("/proc/cpuinfo", "not_a_file"),
                       ("a" * 300, None), ("a/" * 2000 + "b", None)):
        r = read(name)
        tap.ok(r["status"] == "error" and (code is None or r["code"] == code),
               "not read: " + name[:30], r)
        r = edit(name, "x", append=True)
        tap.ok(r["status"] == "error", "not edited: " + name[:30], r)
    tap.ok(time.monotonic() - began < 10, "nothing waits")
    # what they are, and what to do
    python("import socket\ns = socket.socket(socket.AF_UNIX)\n"
           "s.bind('/workspace/sock')")
    sh("ln -s nowhere dangling; mkdir ro; echo 1 >ro/f; chmod 555 ro")
    for name, cause in (("fifo", "FIFO"), ("sock", "socket"),
                        ("zero", "device"), ("/", "directory"),
                        ("dangling", "link to nowhere, which is not there"),
                        ("/proc/cpuinfo", "kernel")):
        for r in read(name), edit(name, "x", append=True):
            tap.ok(cause in r["error"] and r["recommended_next_action"],
                   "said of %s: %s" % (name, cause), r)
    r = write("dangling", "x\n")
    tap.ok(r["code"] == "exists" and "link to nowhere" in r["error"] and
           "target" in r["recommended_next_action"], "written: the link", r)
    if sh("touch ro/x 2>&1 || true"):
        r = edit("ro/f", "2\n", append=True)
        tap.ok(r["code"] == "permission_denied" and "directory" in r["error"]
               and "chmod" in r["recommended_next_action"] and
               get("ro/f") == b"1\n", "a directory that cannot be written", r)
    # a file that changes all the time is never half written over
    put("busy", b"x" * 200000)
    job = S.call("sandbox_exec_background", container_id=BOX, commands=[
        "i=0; while :; do i=$((i+1)); printf '%d line\\n' $i >busy; done"])
    got = {edit("busy", "new", start_line=1).get("code", "ok")
           for _ in range(20)}
    S.call("sandbox_exec_kill", container_id=BOX, job_id=job["job_id"])
    tap.ok(got <= {"ok", "changed_meanwhile", "bad_argument"} and
           left() == "", "a file that changes meanwhile", got)
    # a tree that is deleted while it is walked
    job = S.call("sandbox_exec_background", container_id=BOX, commands=[
        "while :; do mkdir -p w/a/b/c/d/e; touch w/a/b/{1,2,3}; rm -rf w; "
        "done"])
    got = {call("list_files", max_depth=128)["status"] for _ in range(20)}
    S.call("sandbox_exec_kill", container_id=BOX, job_id=job["job_id"])
    tap.ok(got == {"ok"}, "a tree that goes away", got)
    # a directory that becomes a link to elsewhere reaches the sandbox only
    r = read("root/etc/hostname")
    tap.ok(r["status"] in ("ok", "error") and "/etc/shadow" not in str(r),
           "links lead where the sandbox may go")
    python("import os\nos.chdir('/tmp')\nfor i in range(200):\n"
           "    os.mkdir('d' * 100)\n    os.chdir('d' * 100)\n"
           "open('deep', 'w')")
    r = call("list_files", path="/tmp", max_depth=128, pattern="d*")
    tap.ok(r["status"] == "ok" and r["total_is_lower_bound"],
           "deeper than a path may be: it says so", r)
    sh("rm -rf /tmp/ddd* 2>/dev/null || true")
    # what works on files can be stopped and killed by the sandbox
    sh("truncate -s 20G /tmp/sparse")
    killer = S.start_call(
        "sandbox_exec", container_id=BOX, commands=[
            "for i in $(seq 200); do pkill -STOP -x sbx-file; "
            "pkill -KILL -x sbx-file && break; sleep 0.02; done; true"])
    r, _ = answers(S.start_call("read_file_range", container_id=BOX,
                                file_path="/tmp/sparse"), killer)
    tap.ok(r["status"] == "error" and r["code"] == "file_failed" and
           "killed" in r["error"], "a helper that is killed", r)
    sh("rm /tmp/sparse")
    tap.ok(read("ten")["status"] == "ok", "and work goes on")


def test_transaction():
    """A worker that is killed leaves nothing half done."""
    n, bad = 16, []
    for i in range(n):
        put("x%d" % i, b"old %d\n" % i)
    code = "def transform(t):\n    return t.replace('old', 'new')"
    names = ["x%d" % i for i in range(n)]
    for i in range(6):
        workers = set(S.processes().get("sbxd-worker", []))
        number = S.start_call("transform_file", container_id=BOX,
                              paths=names, code=code)
        time.sleep(0.05 + 0.04 * i)
        for pid in set(S.processes().get("sbxd-worker", [])) - workers:
            os.kill(pid, signal.SIGKILL)
        S.answer(number, 60)
        time.sleep(0.3)
        got = {x[:3] for x in sh("cat x?", "cat x1?").splitlines()}
        if got not in ({"old"}, {"new"}):
            bad.append(got)
        if got == {"new"}:
            for j in range(n):
                put("x%d" % j, b"old %d\n" % j)
    tap.ok(not bad and left() == "", "all files are as they were, or none", bad)


def test_kept():
    put("many", b"1\n")
    sh("ln many many2; ln many many3")
    r = edit("many", "2\n", append=True)
    tap.ok("3 names" in r["warnings"][0] and get("many2") == b"1\n",
           "other names of a file: said", r)
    tap.ok("warnings" not in edit("many", "3\n", append=True),
           "a file with one name: nothing to say")
    r = call("transform_file", paths=["many2", "t-none"], code="")
    tap.ok(r["status"] == "error", "no warning of what was not done", r)
    r = call("transform_file", paths=["many2"],
             code="def transform(t): return t + 'x'")
    tap.ok("2 names" in r["warnings"][0], "by transform_file, too", r)
    has = python("import os\ntry:\n    os.setxattr('/workspace/many', "
                 "'user.a', b'v\\0w')\n    print(1)\nexcept OSError as e:\n"
                 "    print(e)\n")
    if has != "1\n":
        tap.absent(has.strip(), "extended attributes")
    else:
        r = edit("many", "4\n", append=True)
        tap.ok(python("import os\nprint(os.getxattr('/workspace/many', "
                      "'user.a'))") == "b'v\\x00w'\n" and "warnings" not in
               r, "an extended attribute is kept", r)
    # all names in the journal
    call("transform_file", paths=["many", "many2", "many3"],
         code="def transform(t): return t + 'y'")
    r = [x for x in S.journal() if x.get("op") == "file_write"][-1]
    tap.ok(r.get("files", r.get("fields", {}).get("files")) == "3" and
           all("/workspace/many" + n in str(r) for n in ("\\n", "2", "3")),
           "the journal has all names", r)
    # a diff of many rows fits
    names = ["d%d" % i for i in range(40)]
    for n in names:
        put(n, b"a\n" * 900)
    r = call("transform_file", paths=names, max_lines=2000,
             code="def transform(t): return t.replace('a', 'b' * 390)")
    tap.ok(r["status"] == "ok" and all(
        f["diff_cut"] and "rows are left out" in f["diff"] and
        f["added_lines"] == 900 for f in r["files"]),
        "the diffs of many files fit into a result", str(r)[:300])
    put("twice", b"x\n" * 3)
    r = edit("twice", "y", old_str="x")
    tap.ok(" 3 times, at" in r["error"], "counted exactly", r)
    put("blanks", b"  if a:\n    b\n" * 3)
    r = edit("blanks", "c", old_str="if a:\nb\n")
    tap.ok(" 2 times or more" in r["error"], "or not counted on", r)


def test_full():
    """A full disk: an error with a mend, and the file as it was."""
    with mcp.Suite(conf="scratch_storage tmpfs\n") as s:
        r = s.call("sandbox_initialize", mem_limit="256m", disk_limit="32m")
        box = r["container_id"]
        if not r["limits"]["disk"]["enforced"]:
            tap.absent(r["limits"]["disk"]["reason"], "a full disk")
            return

        def it(tool, **kw):
            return s.call(tool, container_id=box, **kw)
        it("write_file_sandbox", file_name="f", file_contents="old\n" * 1000)
        it("sandbox_exec", commands=["head -c 1G /dev/zero >fill || true"])
        r = it("write_file_sandbox", file_name="f",
               file_contents="new\n" * 100000)
        got = it("read_file_range", file_path="f", limit=1)
        tap.ok(r["status"] == "error" and r["code"] == "disk_full" and
               got["content"] == "old\n" and got["total_lines"] == 1000,
               "a full disk", (r, got))
        r = it("list_files", hidden=True)
        tap.ok(sorted(r["files"]) == ["f", "fill"],
               "no temporary file stays", r)


def test_many():
    got = answers(*[S.start_call("read_file_range", container_id=BOX,
                                 file_path="ten") for _ in range(20)])
    states = {r["status"] for r in got}
    tap.ok(states <= {"ok", "busy"} and "ok" in states,
           "many at once: done, or busy", states)


if __name__ == "__main__":
    with mcp.Suite() as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        mcp.main(tap, globals(), sys.argv[1:])
