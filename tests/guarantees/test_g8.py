#!/usr/bin/env python3
"""G8: killing any process at any moment loses no committed record and leaves
no orphan sandbox, no orphan process, no open grant, no secret on the disk."""
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

VICTIMS = ["sbxd", "sbxd-starter", "sbxd-engine", "sbxd-recorder",
           "sbx-journald", "sbx-broker", "sbx-proxy", "sbxd-front",
           "sbxd-worker", "sbx-init"]
ENDS_SUITE = {"sbxd", "sbxd-starter", "sbxd-engine"}


def load(suite):
    """sandboxes, a background job that ignores SIGTERM, calls in flight"""
    boxes = [suite.call("sandbox_initialize")["container_id"]
             for _ in range(2)]
    suite.call("sandbox_exec_background", container_id=boxes[0], commands=[
        "trap '' TERM HUP; (setsid sleep 1000 &) ; while :; do echo x; "
        "sleep 0.01; done"])
    return boxes


def gone(pids, seconds=10):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(mcp.alive(p) for p in pids):
            return True
        time.sleep(0.02)
    return False


def one(tap, victim, rng):
    suite = mcp.Suite(stderr=open(os.devnull, "w"))
    try:
        load(suite)
        everything = mcp.tree(suite.pid)
        before = {r["seq"]: r for r in suite.journal()}
        pids = suite.processes().get(victim, [])
        if not tap.ok(bool(pids), f"{victim} runs", suite.processes()):
            return
        time.sleep(rng.random() * 0.2)
        # the first, since a child that builds a sandbox has its name until
        # it becomes another program
        os.kill(pids[0] if victim in ENDS_SUITE else rng.choice(pids),
                signal.SIGKILL)
        if victim in ENDS_SUITE:
            tap.ok(gone([p for p in everything if p != suite.pid]),
                   f"{victim} killed: nothing of the suite lives on",
                   [mcp.program(p) for p in everything if mcp.alive(p)])
        else:
            time.sleep(0.5)
        suite.close()
        tap.ok(gone(everything), f"{victim} killed, then the end: no orphans",
               [(p, mcp.program(p)) for p in everything if mcp.alive(p)])
        check = suite.sbx("journal", "verify")
        tap.ok(check.returncode == 0, f"{victim} killed: the chain is whole",
               check.stdout + check.stderr)
        after = {r["seq"]: r for r in suite.journal()}
        tap.ok(all(after.get(k) == v for k, v in before.items()),
               f"{victim} killed: no committed record is lost")
        restart(tap, suite, victim)
    finally:
        suite.close()
        mcp.remove(suite.root)


def restart(tap, suite, victim):
    """the next start on the slot collects, says so, and works"""
    scratch = os.path.join(suite.root, "state", "suite-1", "scratch")
    lost = [d for d in os.listdir(scratch) if len(d) == 12] \
        if os.access(scratch, os.R_OK) else []
    again = mcp.Client([mcp.BUILD + "/sbx", "mcp", "--private"],
                       env=suite.env, stderr=open(os.devnull, "w"))
    made = again.call("sandbox_initialize")
    tap.ok(made["status"] == "ok", f"{victim} killed: the next start works",
           made)
    left = [d for d in lost if os.path.exists(os.path.join(scratch, d))]
    tap.ok(not left, f"{victim} killed: no scratch is left", left)
    again.close()
    found = {r["container_id"] for r in suite.journal()
             if r["op"] == "leftover"}
    tap.ok(set(lost) <= found,
           f"{victim} killed: the record names each sandbox it found",
           (lost, found))


def hammer(tap, rng):
    """random victims under load; whatever is said to be durable stays so"""
    suite = mcp.Suite(stderr=open(os.devnull, "w"))
    try:
        load(suite)
        stop = threading.Event()

        def calls():
            while not stop.is_set():
                try:
                    suite.call("run_container_and_exec", commands=["true"],
                               timeout=10)
                except (mcp.Closed, RuntimeError, OSError, ValueError):
                    return
        t = threading.Thread(target=calls)
        t.start()
        victims = ["sbxd-recorder", "sbx-journald", "sbx-proxy", "sbxd-worker"]
        for victim in rng.sample(victims, len(victims)):
            time.sleep(rng.random() * 0.3)
            pids = suite.processes().get(victim)
            if pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
        time.sleep(0.5)
        stop.set()
        t.join(20)
        everything = mcp.tree(suite.pid)
        suite.close()
        tap.ok(gone(everything), "killed at random under load: no orphans",
               [(p, mcp.program(p)) for p in everything if mcp.alive(p)])
        check = suite.sbx("journal", "verify")
        tap.ok(check.returncode == 0, "killed at random: the chain is whole",
               check.stdout + check.stderr)
    finally:
        suite.close()
        mcp.remove(suite.root)


def main():
    seed = int(os.environ.get("SBX_SEED", random.randrange(1 << 30)))
    print(f"# SBX_SEED={seed}")
    rng, tap = random.Random(seed), mcp.Tap()
    for victim in VICTIMS:
        one(tap, victim, rng)
    hammer(tap, rng)
    tap.done()


main()
