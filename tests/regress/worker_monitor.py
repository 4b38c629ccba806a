"""A monitor for the worker's tests: it answers what a worker asks from a few
tables, and runs what it is asked to run for real (without a sandbox), so that
what a tool makes of commands and output is tested as it is.
"""
import json
import os
import pwd
import re
import select
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

BUILD = os.environ["SBX_BUILD"]
WORKER = os.path.join(BUILD, "sbxd-worker")
EXITED, TIMEOUT, KILLED, SANDBOX = range(4)
STARTING, RUNNING, ENDED = range(3)


def tools():
    out = subprocess.run([os.path.join(BUILD, "tools-dump")], check=True,
                         capture_output=True, timeout=20).stdout
    return {t["name"]: t for t in map(json.loads, out.splitlines())}


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool,
         "null": type(None)}


def is_type(v, name):
    if name == "number":
        return isinstance(v, (int, float)) and not isinstance(v, bool)
    if name == "integer":
        return is_type(v, "number") and v == int(v)
    return isinstance(v, TYPES[name])


def fits(v, s, where="result"):
    """Check v against schema s: the keywords that the tools use, and no
    other (JSON Schema, draft 2020-12).  What is wrong, or None."""
    for key, arg in s.items():
        bad = None
        if key == "type":
            names = arg if isinstance(arg, list) else [arg]
            bad = not any(is_type(v, n) for n in names)
        elif key == "enum":
            bad = v not in arg
        elif key == "const":
            bad = v != arg
        elif key == "pattern":
            bad = isinstance(v, str) and not re.search(arg, v)
        elif key == "required" and isinstance(v, dict):
            bad = [n for n in arg if n not in v]
        elif key == "additionalProperties" and isinstance(v, dict):
            known = s.get("properties", {})
            more = [n for n in v if n not in known]
            bad = more if arg is False else [
                w for w in (fits(v[n], arg, where + "." + n) for n in more)
                if w]
        elif key == "properties" and isinstance(v, dict):
            bad = [w for w in (fits(v[n], arg[n], where + "." + n)
                               for n in v if n in arg) if w]
        elif key == "items" and isinstance(v, list):
            bad = [w for w in (fits(x, arg, where + "[]") for x in v) if w]
        elif key == "if":
            then = s["then"] if fits(v, arg) is None else s["else"]
            bad = fits(v, then, where)
        elif key not in ("required", "additionalProperties", "properties",
                         "items", "then", "else", "description"):
            bad = "unknown keyword"
        if bad:
            return "%s: %s: %r" % (where, key, bad)
    return None


def unprivileged():
    """Started by root a worker wants the suite's own users; where they are
    not installed it runs as nobody, as it does for a caller without root."""
    if os.geteuid() != 0:
        return {}
    try:
        pwd.getpwnam("sbx-front")
        return {}
    except KeyError:
        return {"user": 65534, "group": 65534, "extra_groups": []}


class Refuse(Exception):
    """raised by a handler: WORK_REFUSED"""

    def __init__(self, code, reason, nxt=""):
        super().__init__(code)
        self.fields = dict(code=code, reason=reason, next=nxt)


class Run:
    def __init__(self, container, tool, out=b"", err=b"", state=ENDED,
                 why=EXITED, status=0, background=0):
        self.container, self.tool = container, tool
        self.out, self.err, self.state = out, err, state
        self.why, self.status, self.background = why, status, background
        self.start = time.time()
        self.proc = None
        self.gap = None         # (stream, first, last): not kept

    def poll(self, seconds):
        """wait for the end of a real process"""
        p = self.proc
        if p is None or self.state == ENDED:
            return
        try:
            p.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        self.out, self.err = self._read("o"), self._read("e")
        if p.returncode is not None:
            self.state = ENDED
            if self.why == EXITED:
                self.status = (-p.returncode if p.returncode < 0
                               else p.returncode << 8)

    def _read(self, which):
        with open(os.path.join(self.dir, which), "rb") as f:
            return f.read()


class Monitor:
    """a zygote, and one worker at a time"""

    def __init__(self, cwd=None):
        self.cwd = cwd
        self.boxes = {}         # id: fields of SB_ITEM
        self.notes = []         # run, whole, packages of PACKAGE_NOTE
        self.runs = {}          # id: Run
        self.asked = []         # names of what the worker asked
        self.progress = []
        self.override = {}      # message name: function(self, message)
        self.copies = []
        self.exec_timeout_ms = 600000
        self.tmp = tempfile.TemporaryDirectory()
        self.counter = 0
        self.checked = 0
        mine, theirs = ipc.pair()
        self.proc = ipc.spawn(WORKER, theirs, **unprivileged())
        self.zygote = ipc.Chan(mine)
        self.hello = self.zygote.recv(want="HELLO")
        self.tools = tools()
        self.next_worker = 0
        self.fork()

    def fork(self):
        mine, theirs = ipc.pair()
        self.next_worker += 1
        self.zygote.send("WORKER_FORK", worker=self.next_worker,
                         _fds=[theirs.fileno()])
        theirs.close()
        self.chan = ipc.Chan(mine)
        self.worker_hello = self.chan.recv(want="HELLO")
        return self.next_worker

    def close(self):
        self.zygote.close()
        self.chan.close()
        try:
            code = self.proc.wait(5)
        finally:
            if self.proc.poll() is None:
                self.proc.kill()
                self.proc.wait()
        for r in self.runs.values():
            if r.proc is not None and r.proc.poll() is None:
                r.proc.kill()
                r.proc.wait()
        self.tmp.cleanup()
        return code

    def hex(self, n):
        self.counter += 1
        return "%0*x" % (n, 0xabc0000 + self.counter)

    def box(self, name="", **more):
        cid = self.hex(12)
        self.boxes[cid] = dict(
            container=cid, name=name, label="", image="host",
            principal="uid:0", state=1, match=0, network=0, jobs=0,
            created_wall_ns=1700000000123000000, age_ms=61500, idle_ms=500,
            has_baseline=0, nproc=500, nofile=3584, enforced=0x2f,
            mem_bytes=1 << 30, cpu_milli=500, **more)
        return cid

    # one call ----------------------------------------------------------------
    def start(self, tool, args, container=None, progress=0, seal=True, mid=7,
              **more):
        """send WORK_CALL; args: an object, or its text"""
        text = args if isinstance(args, (bytes, str)) else json.dumps(args)
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogateescape")
        if container is None:
            arg = self.tools.get(tool, {}).get("container_arg", "")
            container = args.get(arg, "") if isinstance(args, dict) and arg \
                else ""
            container = container if isinstance(container, str) else ""
        fd = ipc.memfd(text, seal=seal)
        self.chan.send("WORK_CALL", mid, [fd], tool=tool, container=container,
                       want_progress=progress,
                       exec_timeout_ms=self.exec_timeout_ms, **more)
        os.close(fd)

    def call(self, tool, args=None, timeout=60, **more):
        """(result object, is_error); the result fits its schema"""
        self.start(tool, {} if args is None else args, **more)
        end = time.monotonic() + timeout
        while True:
            m = self.chan.recv(max(0.1, end - time.monotonic()))
            if m.name == "WORK_RESULT":
                return self.result(tool, m)
            self.answer(m)
            m.close()

    def result(self, tool, m):
        text = ipc.read_fd(m.fds[0])
        m.close()
        r = json.loads(text.decode("utf-8"))
        for c in ("\u2028", "\u2029"):
            assert c.encode() not in text, "raw line separator"
        assert all(b >= 0x20 for b in text), "raw control character"
        assert m.id == 7, "id of another call"
        assert (r.get("status") == "error") == (m["kind"] == 1)
        if tool in self.tools:
            schema = self.tools[tool]["output"]
            wrong = fits(r, schema)
            assert wrong is None, wrong
            if jsonschema is not None:
                jsonschema.Draft202012Validator(schema).validate(r)
            self.checked += 1
        return r, (m["kind"] == 1)

    def answer(self, m):
        self.asked.append(m.name)
        if m.name == "WORK_PROGRESS":
            self.progress.append(m)
            return
        try:
            fn = self.override.get(m.name)
            if fn is not None:
                fn(self, m)
            else:
                getattr(self, "on_" + m.name.lower())(m)
        except Refuse as e:
            self.chan.send("WORK_REFUSED", m.id, **e.fields)

    # what a worker may ask -----------------------------------------------------
    def need_box(self, cid):
        if cid not in self.boxes:
            raise Refuse("not_found", "There is no sandbox %s." % cid,
                         "sandbox_list_containers shows yours.")
        return self.boxes[cid]

    def need_run(self, rid):
        if rid not in self.runs:
            raise Refuse("unknown_run", "There is no run %s." % rid)
        return self.runs[rid]

    def on_sb_create(self, m):
        cid = self.box(m["name"])
        image = m["image"] or "host"    # "": the monitor chooses
        self.boxes[cid].update(label=m["label"], image=image)
        self.boxes[cid]["_throwaway"] = m["throwaway"]
        self.chan.send("SB_CREATED", m.id, container=cid, run=self.hex(16),
                       image=image, name=m["name"],
                       why_image="" if m["image"] else "why: host",
                       network=0, nproc=500, nofile=3584, **self.limits(m))

    def limits(self, m):
        """as a monitor whose machine enforces all but disk"""
        self.created = [m["mem_bytes"], m["cpu_milli"], m["disk_bytes"],
                        m["ttl_s"]]
        return dict(enforced=0x2f, mem_bytes=m["mem_bytes"] or 1 << 30,
                    cpu_milli=m["cpu_milli"] or 500,
                    disk_bytes=m["disk_bytes"], ttl_s=m["ttl_s"])

    def on_sb_stop(self, m):
        box = self.need_box(m["container"])
        if box["has_baseline"] and not m["force"]:
            raise Refuse("unpushed_work", "There is new work: a.c",
                         "force: true discards it.")
        del self.boxes[m["container"]]
        self.chan.send("SB_STOPPED", m.id, container=m["container"],
                       run=self.hex(16))

    def on_sb_list(self, m):
        want, found = m["container"], []
        for b in self.boxes.values():
            match = 0 if want == "" else 1 if b["name"] == want else \
                2 if b["container"].startswith(want) and len(want) > 3 else -1
            if match >= 0:
                found.append(dict(b, match=match))
        for b in found:
            b.pop("_throwaway", None)
            self.chan.send("SB_ITEM", m.id, **b)
        self.chan.send("SB_END", m.id, count=len(found))

    def on_snap_list(self, m):
        for s in getattr(self, "snapshots", []):
            self.chan.send("SNAP_ITEM", m.id, **s)
        self.chan.send("SB_END", m.id,
                       count=len(getattr(self, "snapshots", [])))

    def on_sb_snapshot(self, m):
        self.need_box(m["container"])
        self.chan.send("SB_SNAPSHOTTED", m.id, snapshot="a" * 12,
                       container=m["container"], run=self.hex(16),
                       name=m["name"] or "snap-x", method=0, live=0, depth=1,
                       files=(1 << 64) - 1, bytes=7)

    def on_sb_restore(self, m):
        self.need_box(m["container"])
        self.forced = m["force"]
        self.chan.send("SB_RESTORED", m.id, container=m["container"],
                       run=self.hex(16), snapshot="a" * 12,
                       name=m["snapshot"], ended=[self.hex(16)])

    def on_sb_fork(self, m):
        for i in range(m["count"]):
            self.chan.send("SB_CREATED", m.id, container=self.box(""),
                           run=self.hex(16), image="host",
                           name="%s-%d" % (m["name"], i + 1))
        self.chan.send("SB_END", m.id, count=m["count"])

    def on_snap_remove(self, m):
        self.chan.send("SNAP_REMOVED", m.id, snapshot="a" * 12,
                       name=m["snapshot"])

    def on_deps_make(self, m):
        self.setup = m["commands"]
        self.chan.send("DEPS_READY", m.id, run="e" * 16, error=0,
                       snapshot="b" * 12, layer="sha256:" + "0" * 64,
                       cached=1, ms=1500, files=2, bytes=3)

    def on_sb_label(self, m):
        box = self.need_box(m["container"])
        self.chan.send("SB_LABELLED", m.id, previous=box["label"])
        box["label"] = m["label"]

    def on_exec_start(self, m):
        self.need_box(m["container"])
        rid = self.hex(16)
        r = Run(m["container"], "sandbox_exec", state=RUNNING,
                background=m["background"])
        r.dir = os.path.join(self.tmp.name, rid)
        os.mkdir(r.dir)
        self.last_exec = m
        self.stdin = ipc.read_fd(m.fds[0])
        with open(os.path.join(r.dir, "o"), "wb") as o, \
                open(os.path.join(r.dir, "e"), "wb") as e:
            r.proc = subprocess.Popen(
                m["argv"], stdin=subprocess.PIPE, stdout=o, stderr=e,
                cwd=self.cwd, start_new_session=True,
                env=dict(os.environ, **dict(v.split("=", 1)
                                            for v in m["env"])))
        data, pipe = self.stdin, r.proc.stdin

        def feed():
            try:
                pipe.write(data)
                pipe.close()
            except OSError:
                pass
        threading.Thread(target=feed, daemon=True).start()
        if m["timeout_ms"]:
            r.deadline = time.monotonic() + m["timeout_ms"] / 1000
        self.runs[rid] = r
        self.chan.send("EXEC_STARTED", m.id, run=rid)

    def state(self, rid, mid):
        r = self.runs[rid]
        self.chan.send("RUN_STATE", mid, run=rid, container=r.container,
                       tool=r.tool, state=r.state, why=r.why, status=r.status,
                       background=r.background, elapsed_ms=1234, idle_ms=200,
                       out_bytes=len(r.out), err_bytes=len(r.err))

    def on_package_note(self, m):
        self.notes.append((m["run"], m["whole"], m["packages"]))
        self.chan.send("PACKAGE_NOTED", m.id, kept=m["whole"])

    def on_exec_wait(self, m):
        r = self.need_run(m["run"])
        end = time.monotonic() + m["wait_ms"] / 1000
        until = min(end, getattr(r, "deadline", end))
        r.poll(max(0.02, until - time.monotonic()))
        if r.state != ENDED and getattr(r, "deadline", end + 1) <= \
                time.monotonic():
            r.why, r.status = TIMEOUT, 9
            r.proc.kill()
            r.poll(5)
        self.state(m["run"], m.id)

    def on_exec_kill(self, m):
        r = self.need_run(m["run"])
        if r.state != ENDED:
            r.why, r.status = KILLED, 9
            r.proc.kill()
            r.poll(5)
        self.state(m["run"], m.id)

    SEG = 100000

    def on_out_read(self, m):
        r = self.need_run(m["run"])
        data, at = (r.err if m["stream"] else r.out), m["offset"]
        if r.gap and r.gap[0] == m["stream"] and r.gap[1] <= at < r.gap[2]:
            at = r.gap[2]
        if at >= len(data):
            self.chan.send("OUT_NODATA", m.id, known=1, total=len(data))
            return
        end = min(len(data), (at // self.SEG + 1) * self.SEG)
        if r.gap and r.gap[0] == m["stream"] and at < r.gap[1]:
            end = min(end, r.gap[1])
        fd = ipc.memfd(b"xyz" + data[at:end])
        self.chan.send("OUT_DATA", m.id, [fd], start=at, length=end - at,
                       file_offset=3, total=len(data))
        os.close(fd)

    def on_run_list(self, m):
        runs = list(reversed(self.runs))[m["skip"]:m["skip"] + m["max"]]
        for rid in runs:
            self.state(rid, m.id)
        self.chan.send("SB_END", m.id, count=len(runs))

    report = b""

    def on_copy_in(self, m):
        self.need_box(m["container"])
        self.copies.append((m["mode"], m["source"], m["dest"],
                            ipc.read_fd(m.fds[0])))
        fd = ipc.memfd(self.report if m["mode"] else b"", seal=False)
        self.chan.send("COPY_DONE", m.id, [fd], files=3, bytes=42,
                       refused=self.report.count(b"\0") if m["mode"] else 0,
                       final_path=m["dest"])
        os.close(fd)


def gone(pid, seconds=2.0):
    """true when the process ends in that time"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open("/proc/%d/stat" % pid) as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        select.select([], [], [], 0.01)
    return False
