#!/usr/bin/env python3
"""G7, the front: fully taken over, it can act only as principals that are
connected meanwhile.  It has no handle but what the monitor gave it, cannot
make up a connection, and cannot reach a worker, the engine or the journal."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import evil  # noqa: E402
import mcp  # noqa: E402

FRONT = r'''
import json, time
def args(o):
    return [ipc.memfd(json.dumps(o).encode())]
def attempt(name, send, wants=("CALL_REFUSED", "CALL_RESULT",
                               "FRONT_PRINCIPAL")):
    send()
    try:
        a = mon.recv(timeout=3, want=wants)
        fields = dict(a)
        if a.name == "CALL_RESULT":
            fields["result"] = json.loads(ipc.read_fd(a.fds[0]))
        a.close()
        say(json.dumps([name, a.name, fields]))
    except ipc.Timeout:
        say(json.dumps([name, "nothing", {}]))
handle = None
while handle is None:
    m = mon.recv(timeout=30)
    if m.name == "PING":
        mon.send("PONG", m.id, healthy=1, state="")
    if m.name == "FRONT_STDIO":
        handle = m["principal"]
    elif m.name != "FRONT_LISTEN":
        m.close()
def call(number, principal, tool="sandbox_list_containers", a={}, box=""):
    return lambda: mon.send("CALL", 0, args(a), principal=principal,
                            call=number, tool=tool, container=box)
attempt("own handle", call(1, handle))
attempt("made-up handle", call(2, handle ^ 1))
attempt("handle 0", call(3, 0))
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
attempt("made-up connection", lambda: mon.send("FRONT_AUTH", 0, [a.fileno()],
                                               conn=7))
attempt("tool with a path", call(4, handle, "../../x"))
attempt("cancel of nothing", lambda: (mon.send("CALL_CANCEL", call=99),
                                      call(5, handle)()))
attempt("root of another", lambda: (
    mon.send("FRONT_ROOT", 0, [os.open("/", os.O_PATH)], principal=handle ^ 1),
    call(6, handle)()))
attempt("second root", lambda: (
    mon.send("FRONT_ROOT", 0, [os.open("/etc", os.O_PATH)], principal=handle),
    call(7, handle)()))
say(json.dumps(["alive", "", {}]))
mon.send(%r, **%r)
time.sleep(5)
say(json.dumps(["lives on", "", {}]))
'''
FORBIDDEN = [("JOURNAL_APPEND", {"flags": 1, "op": "forged", "phase": ""}),
             ("SANDBOX_STOP", {"container": "0123456789ab"}),
             ("WORKER_KILL", {"worker": 1})]


def run(name, fields):
    with evil.suite("sbxd-front", FRONT % (name, fields), hello=False,
                    copy_root=os.environ["SBX_SRC"],
                    stderr=subprocess.DEVNULL) as s:
        s.wait_for(lambda: any('"alive"' in x for x in s.said()), 30)
        ended = s.wait_for(lambda: [r for r in s.journal() if r["op"] ==
                                    "component_exit" and "front" in
                                    json.dumps(r["fields"])], 10)
        ops = [r["op"] for r in s.journal()]
        return [json.loads(x) for x in s.said()], ops, ended


def main():
    tap = mcp.Tap()
    first = True
    for name, fields in FORBIDDEN:
        said, ops, ended = run(name, fields)
        got = {}
        for what, kind, data in said:
            got.setdefault(what, (kind, data))
        if first:
            tap.ok(got.get("own handle", [""])[0] == "CALL_RESULT",
                   "with its own handle it may call", said)
            for what in ("made-up handle", "handle 0", "tool with a path"):
                tap.ok(got.get(what, [""])[0] == "CALL_REFUSED" or
                       got[what][1].get("kind") == 1,
                       f"{what}: refused", got.get(what))
            kind, data = got.get("made-up connection", ("", {}))
            tap.ok(kind == "FRONT_PRINCIPAL" and data["principal"] == 0,
                   "a connection it made up is nobody", (kind, data))
            for what in ("cancel of nothing", "root of another",
                         "second root"):
                tap.ok(got.get(what, [""])[0] == "CALL_RESULT",
                       f"{what}: no effect", got.get(what))
        first = False
        tap.ok(ended and "lives on" not in got,
               f"{name} from the front ends the front", said)
        tap.ok("forged" not in ops, "no record in another's name", ops)
    tap.done()


main()
