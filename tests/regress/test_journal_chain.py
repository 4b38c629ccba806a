#!/usr/bin/env python3
"""Records, their chain over restarts and files, writers, modes, outlets."""
import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import ipc  # noqa: E402
import journal as J  # noqa: E402

SCHEMA = os.path.join(os.environ["SBX_SRC"], "tests", "regress",
                      "journal.schema.json")
ENGINE, PROXY, BROKER = 2, 6, 5   # enum sbx_proc
t = J.Tap()


def fits(schema, v):
    """The part of JSON Schema that journal.schema.json uses."""
    kind = {"object": dict, "string": str, "integer": int}[schema["type"]]
    if type(v) is not kind:
        return False
    if kind is str:
        return re.search(schema.get("pattern", ""), v) is not None and \
            len(v) <= schema.get("maxLength", 1 << 20)
    if kind is int:
        return schema.get("minimum", v) <= v <= schema.get("maximum", v)
    extra = schema["additionalProperties"]
    names = schema.get("propertyNames", {}).get("pattern", "")
    return all(k in v for k in schema.get("required", [])) and \
        len(v) <= schema.get("maxProperties", 100) and \
        all(re.search(names, k) for k in v) and \
        all(fits(schema.get("properties", {}).get(k, extra), x)
            if schema.get("properties", {}).get(k, extra) else False
            for k, x in v.items())


def basics(d):
    p = d.new("basics")
    dm = J.Daemon(p)
    done = dm.put(fields=["argv", "make test", "tool", "sandbox_exec"])
    t.ok(done["seq"] == 2 and done["reason"] == "",
         "a durable record is answered with its number")
    for _ in range(3):
        dm.append(flags=0)
    done = dm.put(op="exec", phase="end", code=-3, principal="", run="")
    t.ok(done["seq"] == 6, "a record that is not durable is not answered")
    dm.ch.send("PING", 77)
    pong = dm.ch.recv(want="PONG")
    t.ok(pong.id == 77 and pong["healthy"] == 1 and "seq=6" in pong["state"],
         "PING is answered")
    t.ok(dm.stop() == 0, "SHUTDOWN ends it with 0")
    rec = J.records(p)
    with open(SCHEMA, encoding="ascii") as f:
        schema = json.load(f)
    t.ok(len(rec) == 6 and all(fits(schema, r) for r in rec),
         "all records fit the published schema")
    t.ok(rec[0]["op"] == "open" and rec[0]["fields"]["version"] == "1" and
         rec[0]["component"] == "journald",
         "the first record says the version")
    t.ok(rec[1]["fields"] == {"argv": "make test", "tool": "sandbox_exec"} and
         rec[1]["component"] == "monitor" and
         rec[1]["principal"] == "uid:1000" and
         rec[1]["container_id"] == "0123456789ab" and
         rec[1]["run_id"] == "0123456789abcdef" and rec[5]["code"] == -3,
         "what was sent is what is written")
    t.ok(all(a["mono_ns"] <= b["mono_ns"] for a, b in zip(rec, rec[1:])),
         "the monotonic clock does not go back")
    modes = [stat.S_IMODE(os.stat(f).st_mode) for f in
             J.files(p) + [os.path.join(p, "lock")]]
    t.ok(modes == [0o600, 0o600], "its files are its owner's only")
    t.ok(J.read(p, "verify")[0] == 0, "verify agrees")


def restarts(d):
    p = d.new("restarts")
    for i in range(3):
        dm = J.Daemon(p)
        dm.put()
        dm.append(flags=0)
        if i == 1:
            dm.ch.close()
            t.ok(dm.proc.wait(10) == 0, "the monitor's end ends it with 0")
        else:
            dm.stop()
    rec = J.records(p)
    t.ok(len(rec) == 9 and [r["fields"]["why"] for r in rec
                            if r["op"] == "open"] ==
         ["created", "started", "started"], "the chain goes over restarts, "
         "also with records that nobody waited for")


def rotation(d):
    p = d.new("rotation")
    dm = J.Daemon(p, rotate=16384)
    for i in range(250):
        dm.append(flags=0, fields=["n", str(i)])
        if i % 40 == 0:
            dm.put()
    dm.stop()
    names = [os.path.basename(f) for f in J.files(p)]
    t.ok(len(names) > 3 and names == ["journal.%06d.jsonl" % (i + 1) for i in
                                      range(len(names))],
         "files are numbered in order")
    rec = J.records(p)
    opens = [r for r in rec if r["op"] == "open"]
    t.ok([r["fields"]["n"] for r in rec if "n" in r["fields"]] ==
         [str(i) for i in range(250)], "no record is lost at the borders")
    t.ok([r["fields"]["why"] for r in opens] == ["created"] +
         ["rotated"] * (len(opens) - 1), "each file begins with open")
    t.ok(J.read(p, "verify")[0] == 0, "verify follows over the files")
    # crash right after the new file was made: nothing is in it
    J.write(p, b"", len(names) + 1)
    dm = J.Daemon(p)
    dm.put()
    dm.stop()
    t.ok(len(J.records(p)) == len(rec) + 2 and J.read(p, "verify")[0] == 0,
         "an empty newest file carries the chain on")


def writers(d):
    p = d.new("writers")
    dm = J.Daemon(p)
    chans = {}
    for proc in (PROXY, BROKER):
        mine, theirs = ipc.pair()
        dm.ch.send("INTRODUCE", 0, [theirs.fileno()], peer=proc)
        theirs.close()
        chans[proc] = ipc.Chan(mine)
        chans[proc].send("JOURNAL_APPEND", 5, flags=1, op="deny", phase="",
                         principal="monitor", fields=["host", "x.test"])
        m = chans[proc].recv(want="JOURNAL_DONE")
        t.ok(m.id == 5 and m["seq"] > 0, "writer %d is answered" % proc)
    # the reserve is for the records that the monitor ends crossings with
    mine, theirs = ipc.pair()
    dm.ch.send("INTRODUCE", 0, [theirs.fileno()], peer=PROXY)
    theirs.close()
    chans[PROXY] = ipc.Chan(mine)
    chans[PROXY].send("JOURNAL_APPEND", 6, flags=J.DURABLE | J.RESERVED,
                      op="deny", phase="end")
    try:
        chans[PROXY].recv(5)
        t.ok(False, "a proxy that asks for the reserve is cut off")
    except ipc.Closed:
        t.ok(True, "a proxy that asks for the reserve is cut off")
    mine, theirs = ipc.pair()
    dm.ch.send("INTRODUCE", 0, [theirs.fileno()], peer=PROXY)
    theirs.close()
    chans[PROXY] = ipc.Chan(mine)
    # a writer may do nothing but append
    chans[PROXY].send("PING", 1)
    try:
        chans[PROXY].recv(5)
        t.ok(False, "a proxy that asks for more is cut off")
    except ipc.Closed:
        t.ok(True, "a proxy that asks for more is cut off")
    mine, theirs = ipc.pair()
    dm.ch.send("INTRODUCE", 0, [theirs.fileno()], peer=BROKER)
    theirs.close()
    try:
        chans[BROKER].recv(5)
        t.ok(False, "a new channel replaces the old one")
    except ipc.Closed:
        t.ok(True, "a new channel replaces the old one")
    t.ok(dm.put()["seq"] > 0 and dm.stop() == 0, "the journal goes on")
    t.ok([r["component"] for r in J.records(p)] ==
         ["journald", "proxy", "broker", "monitor"],
         "the component is the channel's")


def allowance(d):
    """A proxy that writes as fast as it can is held to its allowance; the
    monitor is not, and what was dropped is told."""
    p = d.new("allowance")
    dm = J.Daemon(p)
    mine, theirs = ipc.pair()
    dm.ch.send("INTRODUCE", 0, [theirs.fileno()], peer=PROXY)
    theirs.close()
    ch = ipc.Chan(mine)

    def flood(n, flags=0):
        ch.send("JOURNAL_APPEND", n, flags=flags, op="deny", phase="",
                principal="p", fields=["x", "y" * 16000])
    began, sent, last = time.monotonic(), 0, {"seq": 1, "reason": ""}
    while last["seq"] > 0 and sent < 20000:
        for i in range(100):
            flood(1)
        flood(2, J.DURABLE)
        sent += 101
        last = ch.recv(20, want="JOURNAL_DONE")
    took = time.monotonic() - began
    t.ok(last["seq"] == 0 and "quota" in last["reason"],
         "a record beyond the allowance is refused")
    t.ok(dm.put()["seq"] > 0, "the monitor's are not")
    size = sum(os.path.getsize(os.path.join(p, f)) for f in os.listdir(p))
    most = (8 << 20) + int(took * 1000 + 500) * 10240 + 20000
    t.ok((8 << 20) - 20000 < size < most, "%d bytes after %.2f s, of %d" %
         (size, took, sent * 16000))
    time.sleep(0.3)
    flood(3, J.DURABLE)
    t.ok(ch.recv(10, want="JOURNAL_DONE")["seq"] > 0,
         "with time it earns more")
    t.ok(dm.stop() == 0 and J.read(p, "verify")[0] == 0, "the chain is whole")
    rec = J.records(p)
    kept = sum(r["component"] == "proxy" for r in rec)
    told = [r["fields"] for r in rec if r["op"] == "dropped"]
    t.ok(sum(int(f["proxy"]) for f in told) == sent + 1 - kept and
         all(f["broker"] == "0" for f in told) and 1 <= len(told) <= 3,
         "what was dropped is told (%d kept, %r)" % (kept, told))


def refused(d, what, name, mid=0, fds=(), **values):
    dm = J.Daemon(d.new("refused-" + what.replace(" ", "-")))
    dm.ch.send(name, mid, fds, **values)
    status = dm.proc.wait(10)
    dm.ch.close()
    t.ok(status == 3, "refused: " + what)


def violations(d):
    bad = dict(flags=1, op="x", phase="")
    refused(d, "a field twice", "JOURNAL_APPEND", fields=["a", "1", "a", "2"],
            **bad)
    refused(d, "a key with a quote", "JOURNAL_APPEND", fields=['a"', "1"],
            **bad)
    refused(d, "an empty key", "JOURNAL_APPEND", fields=["", "1"], **bad)
    refused(d, "unknown flags", "JOURNAL_APPEND", op="x", flags=4)
    refused(d, "a second start", "JOURNALD_START", 0,
            [os.open("/", os.O_RDONLY)])
    refused(d, "an engine as writer", "INTRODUCE", 0, [ipc.pair()[0].fileno()],
            peer=ENGINE)


def locked(d):
    p = d.new("locked")
    dm = J.Daemon(p)
    try:
        J.Daemon(p, stderr=subprocess.DEVNULL)
        t.ok(False, "a second journald on the directory ends")
    except ipc.Closed:
        t.ok(True, "a second journald on the directory ends")
    t.ok(dm.put()["seq"] == 2 and dm.stop() == 0, "and the first goes on")


def stdout(d):
    p = d.new("stdout")
    r, w = os.pipe()
    dm = OnPipe(p, w)
    for _ in range(3):
        dm.put()
    t.ok(os.read(r, 1 << 16) == J.raw(p), "the lines are on stdout as well")
    size = fcntl.fcntl(r, 1032)   # F_GETPIPE_SZ
    n = size // 300 + 400
    good = all(dm.put()["seq"] > 0 for _ in range(n))
    t.ok(good, "a reader of stdout that sleeps stops nothing")
    os.read(r, 1 << 20)
    dm.put()
    rest = os.read(r, 1 << 20)
    dm.stop()
    t.ok(rest.endswith(b"\n") and J.lines(p)[-1] ==
         rest.split(b"\n")[-2], "after it woke it gets whole lines again")
    os.close(r)
    os.close(w)


class OnPipe(J.Daemon):
    """With the write end of a pipe as stdout."""

    def __init__(self, path, w):
        self.w = w
        saved = os.dup(1)
        sys.stdout.flush()
        os.dup2(w, 1)
        try:
            super().__init__(path, stdout=1)
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def views(d):
    p = d.new("views")
    dm = J.Daemon(p, rotate=16384)
    for i in range(120):
        dm.append(flags=0, container="%012x" % (i % 3), op="exec",
                  run="%016x" % i, fields=["n", str(i)])
    dm.put(op="last")
    dm.stop()
    out = J.read(p, "tail", "-n", "4")[1].splitlines()
    t.ok(len(out) == 4 and b" last " in out[-1], "tail shows the last records")
    out = J.read(p, "tail", "-n", "100")[1].splitlines()
    t.ok(len(out) == 100, "tail goes back over files")
    out = J.read(p, "show", "-c", "%012x" % 1, "--json")[1].splitlines()
    t.ok(len(out) == 40 and all(json.loads(x)["container_id"] ==
                                "%012x" % 1 for x in out),
         "show selects a container, as JSON")
    out = J.read(p, "show", "-c", "%012x" % 1, "-n", "2")[1].splitlines()
    t.ok(len(out) == 2 and b"n=118" in out[1], "and its last records")
    out = J.read(p, "show", "-r", "%016x" % 7)[1].splitlines()
    t.ok(len(out) == 1 and b"n=7" in out[0], "show selects a run")
    out = J.read(p, "show", "-o", "open")[1].splitlines()
    t.ok(len(out) == len([f for f in J.files(p) if os.path.getsize(f)]),
         "show selects an operation")
    out = J.read(p, "show", "-s", "2999")[1]
    t.ok(out == b"", "show selects by time")
    t.ok(J.read(p, "tail", "-x")[0] == 1 and J.read(p, "nonsense")[0] == 1 and
         J.read(p, "verify", "--checkpoint", "x")[0] == 1,
         "wrong usage is 1")
    t.ok(J.read(d.new("nothing"), "tail")[0] == 2, "no journal is 2")


def follow(d):
    p = d.new("follow")
    dm = J.Daemon(p, rotate=16384)
    dm.put(op="first")
    f = subprocess.Popen([os.path.join(J.BUILD, "journal-read"), p, "tail",
                          "-f", "-n", "1"], stdout=subprocess.PIPE)
    good = b" first " in f.stdout.readline()
    for i in range(150):
        dm.append(flags=0, op="more", fields=["n", str(i)])
    dm.put(op="end")
    seen = 0
    while True:
        line = f.stdout.readline()
        seen += b" more " in line
        if b" end " in line or not line:
            break
    f.kill()
    f.wait()
    f.stdout.close()
    dm.stop()
    t.ok(good and seen == 150 and len(J.files(p)) > 1,
         "tail -f follows into new files")


with J.Dir() as scratch:
    for test in (basics, restarts, rotation, writers, allowance, violations, locked,
                 stdout, views, follow):
        test(scratch)
t.end()
