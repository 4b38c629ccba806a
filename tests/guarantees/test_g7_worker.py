#!/usr/bin/env python3
"""G7, the worker: fully taken over, it can act only within the policy of the
one principal it is bound to.

The hostile worker gets its orders as the arguments of a tool call and says
what it was answered."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import evil  # noqa: E402
import mcp  # noqa: E402

WORKER = r'''
import json
def serve(ch):
    ch.send("HELLO", version="evil", pid=os.getpid(), features=0)
    while True:
        m = ch.recv(timeout=3600)
        if m.name != "WORK_CALL":
            continue
        orders = json.loads(ipc.read_fd(m.fds[0]))
        m.close()
        said = []
        for i, (name, fields) in enumerate(orders.get("asks", []), 1):
            fds = [ipc.memfd(b"")] if ipc.BY_NAME[name].fds else []
            try:
                ch.send(name, i, fds, **fields)
                a = ch.recv(timeout=8)
                said.append([a.name, dict(a)])
                while a.name in ("SB_ITEM", "RUN_STATE") and name in (
                        "SB_LIST", "RUN_LIST"):
                    a = ch.recv(timeout=8)
                    said.append([a.name, dict(a)])
                a.close()
            except (ipc.Closed, ipc.Timeout, OSError) as e:
                said.append([type(e).__name__, {}])
                break
        out = ipc.memfd(json.dumps({"status": "ok", "said": said}).encode())
        try:
            ch.send("WORK_RESULT", 0, [out], kind=0)
        except ipc.Closed:
            os._exit(0)
while True:
    m = mon.recv(timeout=3600)
    if m.name == "WORKER_FORK":
        if os.fork() == 0:
            serve(ipc.Chan(socket.socket(fileno=m.fds[0])))
        m.close()
    elif m.name in ("SHUTDOWN",):
        os._exit(0)
    elif m.name == "PING":
        mon.send("PONG", m.id, healthy=1, state="")
'''


def order(s, *asks):
    got = s.call("sandbox_list_containers", asks=list(asks))
    return got.get("said", [["no answer", got]])


def create(s, name):
    return order(s, ["SB_CREATE", {"image": "host", "name": name}])[0]


def main():
    tap = mcp.Tap()
    with evil.suite("sbxd-worker", WORKER,
                    stderr=subprocess.DEVNULL) as s:
        kind, box = create(s, "mine")
        tap.ok(kind == "SB_CREATED", "it may do what its principal may", box)
        for name, fields in [
                ("EXEC_START", {"container": "0123456789ab", "argv": ["true"],
                                "cwd": "/"}),
                ("SB_STOP", {"container": "0123456789ab", "force": 1}),
                ("OUT_READ", {"run": "0" * 16}),
                ("EXEC_KILL", {"run": "0" * 16}),
                ("COPY_IN", {"container": "0123456789ab", "mode": 2,
                             "source": "x", "dest": "/workspace"}),
                ("COPY_IN", {"container": box["container"], "mode": 2,
                             "source": "../../etc/passwd",
                             "dest": "/workspace"}),
                ("SB_CREATE", {"image": "../../..", "name": "x"}),
                ("EXEC_START", {"container": box["container"], "argv": [],
                                "cwd": "/"})]:
            [kind, got] = order(s, [name, fields])[0]
            tap.ok(kind == "WORK_REFUSED" or
                   kind == "COPY_DONE" and got["error"] != 0,
                   f"{name} {json.dumps(fields)[:60]} is not granted",
                   [kind, got])
        # what no worker may send: the monitor ends it, and only it
        for name, fields in [("SHUTDOWN", {}),
                             ("WORKER_KILL", {"worker": 1}),
                             ("FRONT_EOF", {}),
                             ("SANDBOX_STOP", {"container":
                                               box["container"]}),
                             ("JOURNAL_APPEND", {"flags": 1, "op": "forged",
                                                 "phase": ""})]:
            got = s.call("sandbox_list_containers", asks=[[name, fields]])
            tap.ok(got.get("status") == "error",
                   f"{name} from a worker costs its one call", got)
        alive = order(s, ["SB_LIST", {"container": ""}])
        tap.ok(box["container"] in [i.get("container") for _, i in alive],
               "all else is untouched", alive)
        ops = {r["op"] for r in s.journal()}
        tap.ok("forged" not in ops, "no record in another's name", ops)
    tap.done()


main()
