#!/usr/bin/env python3
"""G5: a boundary crossing happens only after its journal record is durable.
If the journal cannot commit, crossings and new sandboxes are refused.

The crossing that exists is the copy-in of host files."""
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402


def copyins(suite):
    return suite.processes().get("sbxd-copyin", [])


def stopped_journal(tap, s, box):
    """While the journal is stopped, nothing crosses; then it does."""
    [journald] = s.processes()["sbx-journald"]
    os.kill(journald, signal.SIGSTOP)
    number = s.start_call("copy_file", container_id=box,
                          local_src_file="data.txt", dest_path="/workspace")
    crossed = False
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        crossed = crossed or bool(copyins(s))
    tap.ok(not crossed, "no process reads the host before the record is "
           "durable")
    seen = s.call("sandbox_exec", container_id=box, argv=["ls", "/workspace"])
    tap.ok("data.txt" not in seen["output"],
           "and nothing is in the sandbox; plain execution goes on", seen)
    os.kill(journald, signal.SIGCONT)
    result = s.answer(number)["result"]["structuredContent"]
    tap.ok(result["status"] == "ok", "then it crosses", result)
    records = s.journal()
    starts = [r for r in records if r["op"] == "copy_in" and
              r["phase"] == "start"]
    tap.ok(len(starts) == 1 and starts[0]["container_id"] == box,
           "its record is there", records[-5:])


def dead_journal(tap, s, box):
    """Killed until it stays down: refused, with the reason."""
    for _ in range(6):
        if not s.wait_for(lambda: s.processes().get("sbx-journald"), 8):
            break
        for pid in s.processes().get("sbx-journald", []):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    s.wait_for(lambda: not s.processes().get("sbx-journald"), 3)
    time.sleep(0.5)
    copied = s.call("copy_file", container_id=box, local_src_file="data.txt",
                    dest_path="/workspace/again.txt")
    tap.ok(copied["status"] == "error" and "journal" in copied["error"],
           "with a dead journal a crossing is refused, with the reason",
           copied)
    made = s.call("sandbox_initialize")
    tap.ok(made["status"] == "error" and "journal" in made["error"],
           "so is a new sandbox", made)
    ran = s.call("sandbox_exec", container_id=box, argv=["cat",
                 "/workspace/data.txt"])
    tap.ok(ran["status"] == "ok" and "for the sandbox" in ran["output"],
           "plain execution goes on", ran)


def main():
    tap = mcp.Tap()
    with tempfile.TemporaryDirectory(prefix="sbx-g5-") as project:
        os.chmod(project, 0o755)
        with open(project + "/data.txt", "w") as f:
            f.write("for the sandbox\n")
        with mcp.Suite(copy_root=project) as s:
            box = s.call("sandbox_initialize")["container_id"]
            stopped_journal(tap, s, box)
        with mcp.Suite(copy_root=project) as s:
            box = s.call("sandbox_initialize")["container_id"]
            s.call("copy_file", container_id=box, local_src_file="data.txt",
                   dest_path="/workspace")
            dead_journal(tap, s, box)
    tap.done()


main()
