#!/usr/bin/env python3
"""G3: only sbx-proxy can open an IP connection.

Every row that is caged by a filter is entered and tries; the processes of a
running suite are looked at from outside.  The three that the guarantee does
not rest on a filter for: the starter (its children inherit its filter; it
takes two fixed messages and nothing else), the engine and sbx-init (a network
namespace with nothing but lo)."""
import os
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

BUILD = os.environ["SBX_BUILD"]
ROWS = ["monitor", "recorder", "journald", "broker", "zygote", "front",
        "worker", "copyin", "courier", "judge"]


def probe(row, family):
    return subprocess.run([f"{BUILD}/row_probe", row, str(int(family))],
                          stderr=subprocess.PIPE).returncode


def sockets(pid):
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return {m.group(1) for m in map(re.compile(r"socket:\[(\d+)\]").match,
                                    found) if m}


def ip_inodes(pid):
    """inodes of all IP sockets of a process's network namespace"""
    found = set()
    for proto in ("tcp", "tcp6", "udp", "udp6", "raw"):
        try:
            with open(f"/proc/{pid}/net/{proto}") as f:
                found |= {line.split()[9] for line in f.readlines()[1:]}
        except OSError:
            pass    # it ended, or the kernel has no such protocol
    return found


def main():
    tap = mcp.Tap()
    for row in ROWS:
        for family in (socket.AF_INET, socket.AF_INET6):
            got = probe(row, family)
            tap.ok(got in (10, -signal.SIGSYS),
                   f"{row}: socket({family.name}) is refused", got)
    tap.ok(probe("proxy", socket.AF_INET) == 0,
           "the proxy may have an IP socket", probe("proxy", socket.AF_INET))
    with mcp.Suite() as s:
        s.call("sandbox_initialize")
        procs = s.processes()
        if os.getuid() == 0:    # others' descriptors are not for us to see
            for name, pids in procs.items():
                for pid in pids:
                    tap.ok(not sockets(pid) & ip_inodes(pid),
                           f"{name} holds no IP socket of its namespace")
        for name in ("sbxd-engine", "sbx-init"):
            for pid in procs.get(name, []):
                with open(f"/proc/{pid}/net/dev") as f:
                    devices = [line.split(":")[0].strip()
                               for line in f.readlines()[2:]]
                tap.ok(devices == ["lo"], f"{name} has no device but lo",
                       devices)
        for name, pids in procs.items():
            for pid in pids:
                with open(f"/proc/{pid}/status") as f:
                    status = dict(line.split(":\t", 1) for line in f
                                  if ":\t" in line)
                tap.ok(status["NoNewPrivs"].strip() == "1" and
                       status["Seccomp"].strip() == "2",
                       f"{name} has no_new_privs and a filter", status)
    tap.done()


main()
