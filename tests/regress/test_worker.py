"""The worker, driven by a monitor of the test's own: every tool's good path,
every bad argument, refusals, odd answers, and how it ends."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "regress"))
sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import worker_monitor as wm  # noqa: E402
from mcp import Tap  # noqa: E402

t = Tap()
work = tempfile.mkdtemp()
m = wm.Monitor(cwd=work)


def check(what, result, want_error=False, /, **members):
    """the result has these members, and is (no) error"""
    r, is_error = result
    good = is_error == want_error and all(
        r.get(k) == v for k, v in members.items())
    t.ok(good, what, r)
    return r


def bad(name, tool, args, code, *words, **more):
    """a bad argument: the code, and words that the sentence must have"""
    r, is_error = m.call(tool, args, **more)
    t.ok(is_error and r["code"] == code and
         all(w in r["error"] for w in words), name, r)


t.ok(m.hello["version"] and m.worker_hello["pid"] != m.hello["pid"],
     "zygote and worker say hello")
m.zygote.send("PING", 9)
p = m.zygote.recv(want="PONG")
t.ok(p.id == 9 and p["healthy"] == 1, "zygote answers a ping")

# --- lifecycle ----------------------------------------------------------------
r = check("initialize", m.call("sandbox_initialize", {}), status="ok",
          image="host", image_digest=None, image_reason="why: host",
          network="off", name=None,
          warnings=[])
box = r["container_id"]
L = r["limits"]
t.ok(L["pids"] == {"limit": 500, "enforced": True} and
     L["memory"] == {"limit": 1 << 30, "enforced": True} and
     L["swap"] == {"limit": 0, "enforced": True} and
     L["cpus"] == {"limit": 0.5, "enforced": True} and
     L["nofile"] == {"limit": 3584, "enforced": True}, "limits that hold", L)
t.ok(L["disk"]["limit"] is None and not L["disk"]["enforced"] and
     "scratch_storage" in L["disk"]["reason"], "one that does not, and why", L)
r = m.call("sandbox_initialize", {"mem_limit": "2g", "cpus": 1.5,
                                  "disk_limit": "64M", "ttl_seconds": 60})[0]
t.ok(m.created[-4:] == [2 << 30, 1500, 64 << 20, 60] and
     len(r["warnings"]) == 1 and "disk_limit" in r["warnings"][0],
     "limits that are asked for", (m.created, r))
for name, value in (("mem_limit", "much"), ("mem_limit", "0"),
                    ("disk_limit", "1.5g"), ("disk_limit", ""), ("cpus", 0),
                    ("cpus", -1), ("cpus", 1e9), ("cpus", "2"),
                    ("ttl_seconds", 0), ("mem_limit", 5)):
    bad("no limit: %s %r" % (name, value), "sandbox_initialize",
        {name: value}, "bad_argument", name)
check("initialize with name and label",
      m.call("sandbox_initialize", {"name": "n.1", "session_label": "L é",
                                    "image": "host"}),
      name="n.1", session_label="L é")
check("null is an absent argument",
      m.call("sandbox_initialize", {"name": None}), name=None)
check("what asks for nothing is no mistake",
      m.call("sandbox_initialize", {"allow_network": False, "pr": None}),
      network="off")
m.override["SB_CREATE"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("image_unknown", "No image \"x\u2028y\".", "Use host."))
r = check("a refusal is the error object",
          m.call("sandbox_initialize", {"image": "x"}), True, status="error",
          code="image_unknown", error="No image \"x\u2028y\".",
          recommended_next_action="Use host.")
del m.override["SB_CREATE"]

r = check("list", m.call("sandbox_list_containers"), status="ok", total=5,
          snapshots=[])
m.snapshots = [dict(snapshot="a" * 12, name="n", label="", container=box,
                    image="host", method=2, files=3, bytes=4,
                    created_wall_ns=1700000000123000000)]
check("list with a snapshot", m.call("sandbox_list_containers"),
      snapshots=[{"snapshot_id": "a" * 12, "name": "n", "container_id": box,
                  "session_label": None, "image": "host", "method": "copy",
                  "files": 3, "bytes": 4,
                  "created_at": "2023-11-14T22:13:20.123Z"}])
r = check("snapshot", m.call("sandbox_snapshot", {"container_id": box,
          "name": "n"}, container=box), status="ok", snapshot_id="a" * 12,
          name="n", files=None, bytes=7, method="stacked",
          processes="not part of a snapshot")
r = check("restore", m.call("sandbox_restore", {"container_id": box,
          "snapshot": "n", "force": True}, container=box), status="ok",
          snapshot_id="a" * 12, name="n")
t.ok(len(r["ended_runs"]) == 1 and m.forced == 1, "restore: what ended", r)
r = check("fork", m.call("sandbox_fork", {"snapshot": "n", "count": 3,
          "name": "f"}), status="ok", count=3)
t.ok([x["name"] for x in r["sandboxes"]] == ["f-1", "f-2", "f-3"],
     "fork: each", r)
for x in r["sandboxes"]:
    del m.boxes[x["container_id"]]
check("drop", m.call("sandbox_drop_snapshot", {"snapshot": "n"}),
      status="ok", snapshot_id="a" * 12, name="n", dropped=True)
r = check("setup", m.call("sandbox_initialize", {"setup": ["a", "b c"]}),
          status="ok", deps={"layer": "sha256:" + "0" * 64, "cached": True,
          "seconds": 1.5, "files": 2, "bytes": 3, "run_id": "e" * 16})
t.ok(m.setup == ["a", "b c"], "setup: the commands as they are", m.setup)
del m.boxes[r["container_id"]]
m.snapshots = []
r = check("list again", m.call("sandbox_list_containers"), status="ok",
          total=5)
c = r["containers"][0]
t.ok(c["container_id"] == box and c["state"] == "running" and
     c["created_at"] == "2023-11-14T22:13:20.123Z" and
     c["age_seconds"] == 61.5 and c["network"] == "off", "a list's entry", c)
check("attach by name",
      m.call("sandbox_attach", {"name_or_id": "n.1", "session_label": "new"}),
      found=True, match_type="name", session_label="new",
      previous_session_label="L é")
check("attach by prefix", m.call("sandbox_attach", {"name_or_id": box[:11]}),
      True, code="ambiguous")
check("attach by id", m.call("sandbox_attach", {"name_or_id": box}),
      container_id=box, match_type="id")
check("attach to nothing", m.call("sandbox_attach", {"name_or_id": "zz"}),
      True, code="not_found")
m.boxes[box]["has_baseline"] = 1
check("stop is refused", m.call("sandbox_stop", {"container_id": box}), True,
      code="unpushed_work")
check("stop by force",
      m.call("sandbox_stop", {"container_id": box, "force": True}),
      status="ok", stopped=True, container_id=box)
check("stop of nothing", m.call("sandbox_stop", {"container_id": box}), True,
      code="not_found")
box = m.box("work")

# --- exec ---------------------------------------------------------------------


def run(*commands, **more):
    return m.call("sandbox_exec", {"container_id": box,
                                   "commands": list(commands), **more})


r = check("exec", run("echo hi"), status="ok", exit_code=0, output="hi\n",
          shown=1, total_lines=1, truncated=False, next_offset=None,
          has_more=False, out_bytes=3, err_bytes=0)
t.ok("stderr" not in r and r["container_id"] == box, "no stderr, no member")
check("cd and variables carry over",
      run("mkdir -p d; cd d", "x=1", "echo ${PWD##*/} $x"), output="d 1\n")
check("stops at the first that fails", run("echo a", "(exit 3)", "echo b"),
      status="failed", exit_code=3, output="a\n")
check("a comment ends with its command", run("echo a # b", "echo c"),
      output="a\nc\n")
check("a here-document ends with its command",
      run("cat <<X\nin\nX", "echo c"), output="in\nc\n")
check("an unclosed here-document does not take the next command",
      run("cat <<X\nin", "echo c"), output="in\nc\n")
check("set -e of a command holds",
      run("set -e", "false; echo not here"), status="failed", exit_code=1,
      output="")
check("a syntax error fails", run("if", "echo c"), status="failed",
      output="")
check("[[ is there, also with a timeout", run("[[ a == a ]]", timeout=5),
      status="ok")
r = check("stderr is apart", run("echo o; echo e >&2; false"),
          status="failed", exit_code=1, output="o\n", stderr="e\n",
          stderr_lines=1)
t.ok(r["failed_command"].startswith("echo o"), "names the command", r)
r, _ = run("false # ghp_secret" + "0" * 30)
t.ok("ghp_secret" not in json.dumps(r), "a secret in it is masked", r)
r, _ = run("echo ghp_secret%s" % ("0" * 30))
t.ok("ghp_secret" not in json.dumps(r) and r["masked"] == 1,
     "as in the output", r)
check("a signal", run("kill -TERM $$"), status="failed", exit_code=143,
      signal="SIGTERM")
check("argv, no shell", m.call("sandbox_exec", {
    "container_id": box, "argv": ["printf", "%s|", "$HOME", "a b"]}),
    output="$HOME|a b|")
check("stdin", run("cat; echo", stdin="é\n1"), output="é\n1\n")
check("environment", run("echo $A$B", env={"A": "x=", "B": "y"}),
      output="x=y\n")
check("lists come as JSON text, too", m.call("sandbox_exec", {
    "container_id": box, "commands": "[\"echo 1\"]",
    "env": "{\"A\":\"b\"}"}), output="1\n")
run("true", working_dir="/usr")
t.ok(m.last_exec["cwd"] == "/usr" and m.last_exec["timeout_ms"] == 600000,
     "working_dir, and the server's timeout")
check("30.0 is an integer", run("true", timeout=30.0), status="ok")
t.ok(m.last_exec["timeout_ms"] == 30000, "timeout in seconds")
check("timeout", run("echo x; sleep 30", timeout=1), status="timeout",
      exit_code=None, output="x\n")
r = check("bytes that are not UTF-8", run("printf 'a\\377\\000\\033[1mb'"),
          replaced_bytes=1)
t.ok("\ufffd" in r["output"], "are replaced", r)
r = check("long output shows both ends", run("seq 1 500; exit 1"),
          status="failed", shown=100, total_lines=500, truncated=True,
          has_more=True)
t.ok(r["output"].startswith("1\n2\n") and r["output"].endswith("500\n") and
     r["next_offset"] <= 50, "its last line, and where to go on", r)
rid = r["run_id"]
r = check("a page of lines", run("seq 1 500", offset=100, limit=3),
          output="101\n102\n103\n", shown=3, next_offset=103, has_more=True)
check("max_lines", run("seq 1 50", max_lines=10), shown=10, truncated=True)
check("full", run("seq 1 500", verbose="full"), shown=500, truncated=False)
check("error_only of a good run", run("echo a; echo b >&2",
                                      verbose="error_only"), output="")
r = check("error_only of a bad run",
          run("seq 1 200; echo b >&2; exit 1", verbose="error_only",
              max_lines=10), stderr="b\n")
t.ok(r["output"].endswith("200\n"), "has its end", r)
r = check("token budget", run("seq 1 5000", verbose="full",
                              max_output_tokens=100), truncated=True)
t.ok(r["estimated_tokens"] <= 150, "is kept", r)
r = check("a large output", run("seq 1 300000"), total_lines=300000,
          truncated=True)
t.ok(r["output"].endswith("300000\n"), "shows its end", r["output"][-80:])
big = r["run_id"]

check("colours go", run("printf '\\033[31mred\\033[0m \\033]0;t\\a.\\n'"),
      output="red .\n")
check("progress shows its last state", run("printf '1%%\\r2%%\\r3%%\\nx\\r\\n'"),
      output="3%\nx\n")
check("repeated lines are counted", run("yes x | head -5; yes y | head -2"),
      output="[\u00d75] x\n[\u00d72] y\n", total_lines=7)
data = '{"a":1}\n{"a":1}\n@@ -1,3 +1,3 @@\n \n \n-x\r\n-x\r\n'
check("data stays as it is", run("cat", stdin=data), output=data)


def early(s, q):
    """the clock of this test: 45 s pass at once"""
    s.state(q["run"], q.id)


m.override["EXEC_WAIT"] = early
r = check("still running: a job", run("echo begin; sleep 5"),
          status="running", exit_code=None)
t.ok(r["job_id"] == r["run_id"] and "recommended_next_action" in r,
     "has a handle", r)
m.override.clear()
check("check of it, running",
      m.call("sandbox_exec_check", {"container_id": box,
                                    "job_id": r["job_id"]}),
      status="running", output="begin\n", last_output_seconds_ago=0.2)
check("kill of it", m.call("sandbox_exec_kill", {"job_id": r["job_id"]}),
      status="ok", killed=True, exit_code=None)
check("check of it, killed",
      m.call("sandbox_exec_check", {"job_id": r["job_id"]}),
      status="failed", exit_code=137, signal="SIGKILL", output="begin\n")
check("kill again", m.call("sandbox_exec_kill", {"job_id": r["job_id"]}),
      status="ok", killed=False)
check("progress is told", m.call("sandbox_exec", {
    "container_id": box, "commands": ["sleep 4.5"]}, progress=1), status="ok")
done = [p["done"] for p in m.progress]
t.ok(len(done) == 2 and done == sorted(set(done)), "and increases", done)

# --- jobs ---------------------------------------------------------------------
r = check("background", m.call("sandbox_exec_background", {
    "container_id": box, "commands": ["echo job", "sleep 1", "exit 2"]}),
    status="running")
job = r["job_id"]
t.ok(job == r["run_id"] and m.last_exec["background"] == 1 and
     m.last_exec["timeout_ms"] == 0, "no time limit of its own", r)
check("check waits", m.call("sandbox_exec_check", {"job_id": job, "wait": 10}),
      status="failed", exit_code=2, output="job\n")
check("a result stays", m.call("sandbox_exec_check", {"job_id": job}),
      status="failed", output="job\n")
check("unknown job", m.call("sandbox_exec_check", {"job_id": "0" * 16}), True,
      code="unknown_run")
check("unknown job to kill", m.call("sandbox_exec_kill",
                                    {"job_id": "0" * 16}), True,
      code="unknown_run")
other = m.box()
check("a job of another sandbox", m.call("sandbox_exec_check", {
    "container_id": other, "job_id": job}), True, code="unknown_run")

# --- stored output -------------------------------------------------------------
check("read_output, tail", m.call("read_output", {"run_id": rid, "tail": 2}),
      output="499\n500\n", offset=498, shown=2, has_more=False,
      total_lines=500)
check("read_output, page", m.call("read_output", {"run_id": rid, "offset": 9,
                                                  "limit": 2}),
      output="10\n11\n", next_offset=11, has_more=True, stream="stdout")
check("read_output past the end", m.call("read_output", {
    "run_id": rid, "offset": 9999}), output="", shown=0, next_offset=None)
check("read_output of stderr", m.call("read_output", {
    "run_id": rid, "stream": "stderr"}), output="", total_bytes=0)
n, got = 0, ""
while n is not None:
    r, _ = m.call("read_output", {"run_id": big, "offset": n, "limit": 10000})
    got, n = got + r["output"], r["next_offset"]
t.ok(got == "".join("%d\n" % i for i in range(1, 300001)),
     "pages make the whole")
m.runs["f" * 16] = wm.Run(box, "sandbox_exec", b"a" * 40000 + b"\nb")
r = check("a long line is several", m.call("read_output", {
    "run_id": "f" * 16, "offset": 1, "limit": 2}), shown=2, total_lines=4,
    next_offset=3)
t.ok(r["output"] == "a" * (40000 - 16384) + "\n", "cut at 16384", r)
pem = ("x\n-----BEGIN RSA PRIVATE KEY-----\n" + "Zm9v\n" * 5 +
       "-----END RSA PRIVATE KEY-----\ny\n")
m.runs["e" * 16] = wm.Run(box, "sandbox_exec", pem.encode())
r = check("no page shows the inside of a key", m.call("read_output", {
    "run_id": "e" * 16, "offset": 3, "limit": 3}), output="***\n***\n***\n",
    masked=3, total_lines=9)
m.runs["d" * 16] = wm.Run(box, "sandbox_exec",
                          b"".join(b"%08d\n" % i for i in range(100000)))
m.runs["d" * 16].gap = (0, 300003, 600000)
r = check("a gap is told", m.call("read_output", {
    "run_id": "d" * 16, "offset": 33333, "limit": 4}), dropped_bytes=299997)
t.ok("299997 bytes were not kept" in r["output"], "where it is", r)
m.override["OUT_READ"] = lambda s, q: s.chan.send("OUT_NODATA", q.id, known=0)
check("evicted output", m.call("read_output", {"run_id": rid}), True,
      code="output_gone")
m.override.clear()
r, e = m.call("resources/read", {"uri": "sbx://run/%s/stdout" % rid})
t.ok(not e and r["contents"][0]["mimeType"] == "text/plain" and
     r["contents"][0]["text"].startswith("1\n2\n") and
     r["contents"][0]["uri"].endswith("stdout"), "resources/read", r)
r, e = m.call("resources/read", {"uri": "sbx://run/%s/stdout?offset=498"
                                        % rid})
t.ok(r["contents"][0]["text"] == "499\n500\n", "a later page", r)
for uri in ("", "sbx://run/zz/stdout", "sbx://run/%s/x" % rid,
            "sbx://run/%s/stdoutx" % rid, "file:///etc/passwd",
            "sbx://run/%s/stdout?offset=-1" % rid):
    r, e = m.call("resources/read", {"uri": uri})
    t.ok(e and r["code"] in ("not_found", "bad_argument"), "bad URI " + uri, r)
seen, cursor = [], {}
for i in range(150):
    m.runs["%016x" % (0xc000 + i)] = wm.Run(box, "sandbox_exec", b"o", b"e")
while True:
    r, e = m.call("resources/list", cursor)
    seen += [x["uri"] for x in r["resources"]]
    if "nextCursor" not in r:
        break
    cursor = {"cursor": r["nextCursor"]}
t.ok(len(seen) == len(set(seen)) and len(seen) > len(m.runs) and
     "%016x" % (0xc000 + 149) in seen[0], "resources/list pages", len(seen))
r, e = m.call("resources/list", {"cursor": "x"})
t.ok(e and r["code"] == "bad_cursor", "bad cursor")

# --- throwaway ------------------------------------------------------------------
m.asked.clear()
before = set(m.boxes)
check("run_container_and_exec",
      m.call("run_container_and_exec", {"commands": ["echo t; exit 4"]}),
      status="failed", exit_code=4, output="t\n")
t.ok(set(m.boxes) == before and m.asked[0] == "SB_CREATE" and
     m.asked[-1] == "SB_STOP", "it is gone", m.asked)
m.override["EXEC_START"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("busy", "Six calls already."))
check("refused exec", m.call("run_container_and_exec", {"commands": ["x"]}),
      True, code="busy")
t.ok(set(m.boxes) == before, "it is gone then, too")
m.override.clear()
m.asked.clear()
bad("bad arguments make none", "run_container_and_exec", {"commands": []},
    "bad_argument", "commands")
t.ok(m.asked == [], "nothing was asked", m.asked)

# --- sandbox dies under a call -----------------------------------------------------


def dies(s, q):
    s.runs[q["run"]].proc.kill()
    s.runs[q["run"]].poll(5)
    s.runs[q["run"]].why = wm.SANDBOX
    s.state(q["run"], q.id)


m.override["EXEC_WAIT"] = dies
r = check("the sandbox dies", run("echo last; sleep 9"), True,
          code="sandbox_gone", exit_code=None)
t.ok("run_id" in r and "output" in r, "with what there is", r)
m.override["EXEC_WAIT"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("sandbox_gone", "It ended."))
r = check("refused wait", run("sleep 9"), True, code="sandbox_gone")
t.ok("run_id" in r, "names the run", r)
m.override.clear()

# --- copy -----------------------------------------------------------------------
git = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", HOME=work,
           GIT_CONFIG_NOSYSTEM="1")


def repository(fmt="sha1"):
    d = tempfile.mkdtemp(dir=work)
    sh = ("git init -q --object-format=%s . && printf '*.o\\n' >.gitignore &&"
          " mkdir 'd e' && touch a 'd e/t\tx' gone x.o new && git add "
          ".gitignore a 'd e' gone && git update-index --add --cacheinfo "
          "160000,$(git hash-object -t tree /dev/null),sub && rm gone" % fmt)
    subprocess.run(["sh", "-c", sh], cwd=d, env=git, check=True)
    return d


m.report = b"secret\t.env\0link out\ta\xffb\0"
for fmt in ("sha1", "sha256"):
    m.cwd = repository(fmt)
    m.copies.clear()
    before = set(m.boxes)
    r = check("copy_project " + fmt,
              m.call("copy_project", {"container_id": box}), status="ok",
              git=True, tracked=3, untracked_copied=0, untracked_skipped=1,
              deleted_skipped=1, submodules_skipped=1, files=3, bytes=42,
              source=".", dest="/workspace", refused_total=2)
    t.ok(m.copies[0][0] == 0 and m.copies[1] == (
        1, ".", "/workspace", b".gitignore\0a\0d e/t\tx\0.git\0"),
        "the list " + fmt, m.copies)
    t.ok(set(m.boxes) == before, "the throwaway sandbox is gone")
t.ok(r["refused"] == [{"path": ".env", "reason": "secret"},
                      {"path": "a\ufffdb", "reason": "link out"}] and
     r["replaced_bytes"] == 1, "refused paths by name", r)
m.report = b""
r = check("copy_project with untracked", m.call("copy_project", {
    "container_id": box, "include_untracked": True, "dest_dir": "/d"}),
    tracked=3, untracked_copied=1, untracked_skipped=0, dest="/d")
t.ok(sorted(m.copies[-1][3].split(b"\0")) == sorted(
    [b".gitignore", b"a", b"d e/t\tx", b"new", b".git", b""]), "the list",
    m.copies[-1])
subprocess.run(["git", "config", "core.fsmonitor", "touch OWNED"], cwd=m.cwd,
               env=git, check=True)
m.call("copy_project", {"container_id": box})
t.ok(not os.path.exists(os.path.join(m.cwd, "OWNED")),
     "configuration of the project is not looked at")
with open(os.path.join(m.cwd, ".git", "index"), "wb") as f:
    f.write(b"DIRC nonsense")
check("a broken index", m.call("copy_project", {"container_id": box}), True,
      code="git_failed")
shutil.rmtree(os.path.join(m.cwd, ".git"))
check("no git", m.call("copy_project", {"container_id": box}), True,
      code="not_git")
check("no git, all files", m.call("copy_project", {
    "container_id": box, "include_untracked": True}), git=False,
    untracked_copied=5)
with open(os.path.join(m.cwd, ".git"), "w") as f:
    f.write("gitdir: /etc")
check("a .git file", m.call("copy_project", {"container_id": box}), True,
      code="not_git")


def copy_fails(s, q):
    fd = ipc.memfd(b"secret\tkey.pem\0", seal=False)
    s.chan.send("COPY_DONE", q.id, [fd], error=13, reason="not below the root",
                refused=1)
    os.close(fd)


m.override["COPY_IN"] = copy_fails
r = check("copy that fails", m.call("copy_project", {"container_id": box}),
          True, code="copy_failed")
check("copy_file that fails", m.call("copy_file", {
    "container_id": box, "local_src_file": "x"}), True, code="copy_failed")
m.override["COPY_IN"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("no_root", "Your client gave no directory."))
check("no root", m.call("copy_project", {"container_id": box}), True,
      code="no_root")
t.ok(set(m.boxes) == before, "the throwaway sandbox is gone")
m.override.clear()
r = check("copy_file", m.call("copy_file", {
    "container_id": box, "local_src_file": "a/b", "dest_path": "/x"}),
    status="ok", source="a/b", dest="/x", refused=[])
t.ok(m.copies[-1] == (2, "a/b", "/x", b""), "as asked", m.copies[-1])
m.cwd = work

# --- bad arguments ----------------------------------------------------------------
C = {"container_id": box}
bad("unknown argument", "sandbox_exec", {**C, "comands": ["x"]},
    "unknown_argument", "\"comands\"", "did you mean \"commands\"",
    "working_dir")
bad("another name for it", "sandbox_exec", {**C, "cwd": "/"},
    "unknown_argument", "did you mean \"working_dir\"")
bad("nothing near", "sandbox_exec", {**C, "zzzzzzzzz": 1},
    "unknown_argument", "zzzzzzzzz")
bad("takes none", "sandbox_list_containers", {"x": 1}, "unknown_argument",
    "takes none")
bad("hostile name", "sandbox_exec", {**C, "\x1b[31m\n" * 400: 1},
    "unknown_argument", "\\x1b")
for args, word in (({"branch": "x"}, "clone_repo"), ({"repo": "a/b"}, "pr"),
                   ({"pr": 1}, "repo"), ({"clone_repo": "x"}, "OWNER/NAME"),
                   ({"clone_repo": "a/b", "repo": "a/b", "pr": 1,
                     "branch": "x"}, "branch")):
    bad("a clone of nothing", "run_container_and_exec",
        {"commands": ["x"], **args}, "bad_argument", word)
bad("missing", "sandbox_exec", {"commands": ["x"]}, "missing_argument",
    "container_id")
bad("several", "publish", {"container_id": "00" * 6, "repo": "o/r"},
    "missing_argument", '"branch" is missing', 'too: "message", "files".')
bad("a prefix of an id", "sandbox_exec", {"container_id": "ab12",
    "commands": ["x"]}, "bad_argument", "12 hex", "sandbox_attach")
bad("neither", "sandbox_exec", C, "bad_argument", "commands", "argv")
bad("both", "sandbox_exec", {**C, "commands": ["a"], "argv": ["b"]},
    "bad_argument", "not both")
bad("empty argv", "sandbox_exec", {**C, "argv": []}, "bad_argument", "argv")
bad("string for a list", "sandbox_exec", {**C, "commands": "echo 1"},
    "bad_argument", "write [\"echo 1\"]")
bad("number in a list", "sandbox_exec", {**C, "commands": ["a", 1]},
    "bad_argument", "item 1")
bad("number in env", "sandbox_exec", {**C, "commands": ["a"],
                                      "env": {"A": 1}},
    "bad_argument", "env", "A")
for env in ({"": "x"}, {"A=B": "x"}):
    bad("env name", "sandbox_exec", {**C, "commands": ["a"], "env": env},
        "bad_argument", "env")
bad("quoted number", "sandbox_exec", {**C, "commands": ["a"],
                                      "timeout": "30"},
    "bad_argument", "timeout", "write 30")
for v in (-1, 86401, 1.5, True, [], {}, "x"):
    bad("timeout %r" % (v,), "sandbox_exec",
        {**C, "commands": ["a"], "timeout": v}, "bad_argument", "timeout")
for v in ("", "x", "ABCDEF012345", "0" * 11, "0" * 13, 5,
          "../" + "0" * 9, "000000000000\n"):
    bad("container_id %r" % (v,), "sandbox_exec",
        {"container_id": v, "commands": ["a"]}, "bad_argument",
        "container_id")
bad("enum", "sandbox_exec", {**C, "commands": ["a"], "verbose": "loud"},
    "bad_argument", "verbose", "summary")
bad("NUL", "sandbox_exec", {**C, "commands": ["a\0b"]}, "bad_argument",
    "U+0000")
bad("relative working_dir", "sandbox_exec",
    {**C, "commands": ["a"], "working_dir": "src"}, "bad_argument",
    "/workspace/src")
bad("relative dest", "copy_project", {**C, "dest_dir": "src"},
    "bad_argument", "dest_dir")
bad("too large", "sandbox_exec", {**C, "commands": ["x" * 125000]},
    "too_large", "commands")
bad("too large in all", "sandbox_exec", {**C, "argv": ["x" * 1000] * 130},
    "too_large", "argv")
bad("too large env", "sandbox_exec",
    {**C, "commands": ["a"], "env": {"A": "x" * 30000}}, "too_large", "env")
bad("tail and offset", "read_output", {"run_id": rid, "tail": 1, "offset": 2},
    "bad_argument", "tail")
bad("name", "sandbox_initialize", {"name": "-x"}, "bad_argument", "name")
bad("label", "sandbox_initialize", {"session_label": "x" * 65},
    "bad_argument", "session_label")
bad("duplicate key", "sandbox_initialize", '{"name":"a","name":"b"}',
    "bad_argument", "name", "twice")
bad("duplicate key in JSON text", "sandbox_exec",
    {**C, "commands": ["a"], "env": '{"A":"1","A":"2"}'}, "bad_argument",
    "env")
for text in ("[]", "1", "null", "", "{", '{"a":NaN}', '{"a":"\xff"}'.encode(
        "latin-1"), "{}{}", '{"a":1e999}', "[" * 100 + "]" * 100,
        '{"name":12345678901234567890}'):
    bad("arguments %r" % (text[:20],), "sandbox_initialize", text,
        "bad_argument")
bad("bound to another sandbox", "sandbox_exec", {**C, "commands": ["a"]},
    "bad_call", container=other)
bad("not sealed", "sandbox_initialize", {}, "bad_argument", seal=False)
r, e = m.call("no_such_tool", {})
t.ok(e and r["code"] == "unknown_tool", "unknown tool", r)

# --- schemas ----------------------------------------------------------------------
total = 0
for tool in m.tools.values():
    n = len(tool["description"].encode())
    total += n
    t.ok(n <= 1024, "description of " + tool["name"], n)
    if wm.jsonschema is not None:
        for which in ("input", "output"):
            wm.jsonschema.Draft202012Validator.check_schema(tool[which])
t.ok(total <= 12000, "all descriptions together", total)
t.ok(m.checked > 150, "%d results fit their schemas" % m.checked)
schema = m.tools["sandbox_stop"]["output"]
t.ok(wm.fits({"status": "ok"}, schema) and
     wm.fits({"status": "error", "error": "x"}, schema) and
     wm.fits({"status": "error", "error": "x", "code": "y", "z": 1}, schema),
     "and others do not")

# --- odd answers of the monitor -----------------------------------------------------


def odd(name, message, fn, tool, args, code="internal"):
    """the worker answers with an error and ends: it is out of step"""
    m.override[message] = fn
    pid = m.worker_hello["pid"]
    try:
        r, e = m.call(tool, args)
    except ipc.Closed:
        r, e = {"code": code}, True     # it could not even say so
    m.override.clear()
    x = m.zygote.recv(5, want="WORKER_EXITED")
    t.ok(e and r["code"] == code and wm.gone(pid) and
         x["worker"] == m.next_worker, name, (r, x))
    m.chan.close()
    m.fork()


def wrong_id(s, q):
    s.chan.send("EXEC_STARTED", q.id + 1, run="0" * 16)


E = {**C, "commands": ["true"]}
odd("an answer to another question", "EXEC_START", wrong_id, "sandbox_exec", E)
odd("an answer of another kind", "EXEC_START",
    lambda s, q: s.chan.send("SB_LABELLED", q.id, previous=""),
    "sandbox_exec", E)
odd("a call inside a call", "EXEC_START",
    lambda s, q: s.start("sandbox_list_containers", {}, mid=q.id),
    "sandbox_exec", E)
odd("a bad run id", "EXEC_START",
    lambda s, q: s.chan.send("EXEC_STARTED", q.id, run="../x"),
    "sandbox_exec", E)
odd("the state of another run", "EXEC_WAIT",
    lambda s, q: s.chan.send("RUN_STATE", q.id, run="1" * 16, container=box),
    "sandbox_exec", E)
odd("a state that there is not", "EXEC_WAIT",
    lambda s, q: s.chan.send("RUN_STATE", q.id, run=q["run"], state=9),
    "sandbox_exec", E)


def before_offset(s, q):
    fd = ipc.memfd(b"x")
    s.chan.send("OUT_DATA", q.id, [fd], start=0, length=0, total=9)
    os.close(fd)


odd("output that goes nowhere", "OUT_READ", before_offset, "sandbox_exec",
    {**C, "commands": ["echo something"]})
odd("a list that counts wrong", "SB_LIST",
    lambda s, q: s.chan.send("SB_END", q.id, count=3),
    "sandbox_list_containers", {})


def endless(s, q):
    b = dict(m.boxes[box])
    for _ in range(300):
        try:
            s.chan.send("SB_ITEM", q.id, **b)
        except ipc.Closed:
            return


odd("a list without end", "SB_LIST", endless, "sandbox_list_containers", {})
odd("a bad sandbox id", "SB_CREATE",
    lambda s, q: s.chan.send("SB_CREATED", q.id, container="x", run="y",
                             image="host"), "sandbox_initialize", {})
odd("a broken record", "SB_CREATE",
    lambda s, q: s.chan.send_raw(ipc.HDR.pack(3, 141, 1, q.id) + b"abc"),
    "sandbox_initialize", {})


def short(s, q):
    """a segment that was dropped between the answer and the read"""
    fd = ipc.memfd(b"ab")
    if q["offset"] == 0:
        s.chan.send("OUT_DATA", q.id, [fd], start=0, length=500, total=500)
    else:
        s.chan.send("OUT_NODATA", q.id, known=1, total=500)
    os.close(fd)


m.override["OUT_READ"] = short
check("a segment shorter than promised", m.call("read_output",
                                                {"run_id": rid}), output="ab")
m.override.clear()

# --- life and death -----------------------------------------------------------------
m.chan.close()
m.zygote.recv(5, want="WORKER_EXITED")
m.fork()
for i in range(256):
    r, e = m.call("sandbox_list_containers")
t.ok(not e, "256 calls")
x = m.zygote.recv(5, want="WORKER_EXITED")
t.ok(x["worker"] == m.next_worker and x["status"] == 0,
     "and then it ends by itself", x)
m.chan.close()
m.fork()
t0 = time.monotonic()
for i in range(200):
    m.call("sandbox_list_containers")
print("# %.0f us a call, with the test's monitor" %
      ((time.monotonic() - t0) / 200 * 1e6))
n = m.next_worker
m.start("sandbox_exec", E)
m.chan.recv(want="EXEC_START").close()
m.zygote.send("WORKER_KILL", worker=n)
x = m.zygote.recv(5, want="WORKER_EXITED")
t.ok(x["worker"] == n and os.WTERMSIG(x["status"]) == signal.SIGKILL,
     "killed in the middle of a call", x)
m.zygote.send("WORKER_KILL", worker=n)
m.chan.close()
m.fork()
check("the next one serves", m.call("sandbox_list_containers"), status="ok")
m.chan.close()
x = m.zygote.recv(5, want="WORKER_EXITED")
t.ok(x["status"] == 0, "a worker ends with its channel", x)
chans = []
for i in range(40):
    m.fork()
    chans.append((m.chan, m.worker_hello["pid"]))
a, b = ipc.pair()
m.zygote.send("WORKER_FORK", worker=99, _fds=[b.fileno()])
b.close()
x = m.zygote.recv(5, want="WORKER_EXITED")
t.ok(x["worker"] == 99 and x["status"] < 0, "no more than 40 workers", x)
try:
    a.recv(10)
    t.ok(a.recv(10) == b"", "whose channel is closed")
except OSError:
    t.ok(True, "whose channel is closed")
code = m.close()
t.ok(code == 0, "the zygote ends with the monitor", code)
t.ok(all(wm.gone(pid) for _, pid in chans), "and its workers with it")
for c, _ in chans:
    c.close()

m = wm.Monitor()
m.zygote.send("SHUTDOWN")
t.ok(m.proc.wait(5) == 0 and wm.gone(m.worker_hello["pid"]),
     "shut down in order")
m.close()
m = wm.Monitor()
m.zygote.send_raw(ipc.HDR.pack(0, 130, 1, 0))
t.ok(m.proc.wait(5) == 3 and wm.gone(m.worker_hello["pid"]),
     "a message that is not for a zygote ends it")
m.close()
m = wm.Monitor()
m.proc.kill()
t.ok(wm.gone(m.worker_hello["pid"]) or os.environ.get("SBX_NO_CAGE"),
     "workers die with the zygote")
m.close()
shutil.rmtree(work)
t.done()
sys.exit(1 if t.bad else 0)
