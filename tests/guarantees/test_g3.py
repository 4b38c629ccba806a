#!/usr/bin/env python3
"""G3: only sbx-proxy can open an IP connection; the one exception is the
command that an operator has configured to print a token.

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
import egress  # noqa: E402
import fakegithub  # noqa: E402
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


def same_net(pid):
    """not in a sandbox's own network namespace"""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink(
            "/proc/self/ns/net")
    except OSError:
        return False    # it ended


def exchange(tap):
    """While couriers work: each has the one socket that the proxy dialled for
    it, and nobody else has any."""
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        return tap.skip(str(e), "sockets during an exchange")
    gh = fakegithub.Github(ca, validate=False)
    gh.repo("acme/secret", private=True).large(4, piece=4)
    path = gh.put("token", gh.static(["acme/secret"]).text + "\n")
    try:
        with mcp.Suite(conf=gh.conf() + "allowed_repo acme/secret\n"
                       "github_token_file %s\n" % path) as s:
            box = s.call("sandbox_initialize",
                         allow_network=True)["container_id"]
            gh.pace = 0.5
            number = s.start_call("clone_repo", container_id=box,
                                  repo="acme/secret")
            tap.ok(s.wait_for(lambda: gh.seen(
                method="POST", path="git-upload-pack"), 20), "an exchange")
            holders = {}
            for name, pids in s.processes().items():
                n = [len(sockets(p) & ip_inodes(p)) for p in pids
                     if same_net(p)]
                if any(n) and name != "sbx-proxy":
                    holders[name] = sorted(n)
            gh.pace = 0
            s.answer(number, 60)
            tap.ok(set(holders) == {"sbx-broker-cour"} and
                   max(holders["sbx-broker-cour"]) == 1, "of the suite only "
                   "the proxy and a courier hold sockets, the courier one",
                   holders)
    finally:
        gh.close()
        ca.close()
    return None


def main():
    tap = mcp.Tap()
    for row in ROWS:
        for family in (socket.AF_INET, socket.AF_INET6):
            got = probe(row, family)
            tap.ok(got in (10, -signal.SIGSYS),
                   f"{row}: socket({family.name}) is refused", got)
    tap.ok(probe("proxy", socket.AF_INET) == 0,
           "the proxy may have an IP socket", probe("proxy", socket.AF_INET))
    tap.ok(probe("command", socket.AF_INET) == 0,
           "and so may the operator's own command, the documented exception",
           probe("command", socket.AF_INET))
    if "rows" in sys.argv[1:]:
        tap.done()
        sys.exit(tap.bad > 0)
    if os.getuid() == 0:
        exchange(tap)
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
