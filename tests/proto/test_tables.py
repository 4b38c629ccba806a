#!/usr/bin/env python3
"""What every program has handlers for (-P) is what msgs.def lets it receive.

A message that a process may receive but has no handler for is dead text in
the declaration; a handler for what it may not receive is dead code, which a
later edit of a mask would bring to life.
"""
import os
import re
import subprocess
import sys

build, src = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(src, "tests", "lib"))
import ipc  # noqa: E402

PROGRAMS = {  # program: what its -P may speak for
    "sbxd": {"monitor"}, "sbxd-starter": {"starter"},
    "sbxd-engine": {"engine"}, "sbxd-recorder": {"recorder"},
    "sbx-journald": {"journald"}, "sbx-broker": {"broker"},
    "sbx-broker-command": {"command"},
    "sbx-broker-courier": {"courier"},
    "sbx-proxy": {"proxy"}, "sbxd-worker": {"zygote", "worker"},
    "sbx": {"cli"}, "sbxd-front": {"front"}, "sbxd-copyin": {"copyin"},
    "sbxd-image": {"image"}, "sbx-init": {"init"}, "sbxd-judge": {"judge"},
}
EXCLUDED = {
    "engine-docker": "the second engine: not built yet",
}
failed = count = 0


def ok(cond, text, why=()):
    global failed, count
    count += 1
    print("%sok %d - %s" % ("" if cond else "not ", count, text))
    for line in () if cond else why:
        print("# " + line)
    failed += not cond


def names(mask):
    """The processes of a mask as it is written in msgs.def."""
    out = set()
    for word in re.findall(r"P_\w+|P\(\s*\w+\s*\)", mask):
        if word in MACROS:
            out |= MACROS[word]
        else:
            out.add(re.search(r"\(\s*(\w+)", word)[1]
                    .lower().replace("_", "-"))
    return out


with open(os.path.join(src, "common/proto/proto.h"), encoding="ascii") as f:
    header = f.read()
MACROS = {}
for m in re.finditer(r"#define (P_\w+) ((?:.*\\\n)*.*)\n", header):
    MACROS[m[1]] = names(m[2])
procs = [w.lower().replace("_", "-") for w in re.findall(
    r"SBX_PROC_(\w+)", re.search(r"enum sbx_proc \{(.*?)\}", header, re.S)[1])
    if w != "MAX"]

printed = {}  # process: {(remote, message)}
for program, selves in PROGRAMS.items():
    try:
        p = subprocess.run([os.path.join(build, program), "-P"],
                           stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=20, text=True)
        lines = p.stdout.split("\n")
        good = p.returncode == 0 and lines.pop() == ""
        rows = [tuple(line.split(" ")) for line in lines]
        good = good and all(len(r) == 3 for r in rows)
        why = [p.stderr.strip()[:200]]
    except (OSError, subprocess.TimeoutExpired) as e:
        good, rows, why = False, [], [str(e)]
    ok(good, "%s -P prints its tables" % program, why)
    rows = rows if good else []
    ok({r[0] for r in rows} <= selves and (rows or not good),
       "%s speaks for itself only" % program)
    twice = {r for r in rows if rows.count(r) > 1}
    ok(not twice, "%s lists no row twice" % program,
       [" ".join(r) for r in sorted(twice)])
    for self, remote, message in rows:
        printed.setdefault(self, set()).add((remote, message))

ok(set(procs) == set().union(*PROGRAMS.values()) | set(EXCLUDED),
   "every process is walked or excluded by name",
   sorted(set(procs) ^ (set().union(*PROGRAMS.values()) | set(EXCLUDED))))
for proc in procs:
    if proc in EXCLUDED:
        print("# excluded: %s: %s" % (proc, EXCLUDED[proc]))
        continue
    want = {(sender, m.name) for m in ipc.BY_NAME.values()
            if proc in names(m.receivers)
            for sender in names(m.senders) if sender not in EXCLUDED}
    have = printed.get(proc, set())
    ok(have and want == have, "%s has a handler for all that it may receive, "
       "and no other" % proc,
       ["no handler: %s from %s" % (m, r) for r, m in sorted(want - have)] +
       ["may not receive: %s from %s" % (m, r)
        for r, m in sorted(have - want)])
# What carries a credential is wiped behind it (sbx_wire_secret).
with open(os.path.join(src, "common/proto/wire.c"), encoding="ascii") as f:
    listed = set(re.findall(r"SBX_MSG_(\w+)", re.search(
        r"^sbx_wire_secret\(.*?^}", f.read(), re.S | re.M)[0]))
carry = {m.name for m in ipc.BY_NAME.values()
         if {f for _, f in m.fields} & {"token", "jwt"}}
ok(listed == carry and carry, "what carries a credential is wiped",
   sorted(listed ^ carry))
print("1..%d" % count)
sys.exit(failed > 0)
