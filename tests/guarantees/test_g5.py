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
    """Killed, and not back yet: refused, with the reason.  Four times, since
    each time it stays away for longer; a fifth would end the suite."""
    for _ in range(4):
        [journald] = s.wait_for(lambda: s.processes().get("sbx-journald"))
        time.sleep(0.2)
        os.kill(journald, signal.SIGKILL)
        s.wait_for(lambda: not mcp.alive(journald))
    copied = s.call("copy_file", container_id=box, local_src_file="data.txt",
                    dest_path="/workspace/again.txt")
    tap.ok(copied["status"] == "error" and "journal" in copied["error"],
           "with a dead journal a crossing is refused, naming it",
           copied)
    made = s.call("sandbox_initialize")
    tap.ok(made["status"] == "error" and "journal" in made["error"],
           "so is a new sandbox", made)
    ran = s.call("sandbox_exec", container_id=box, argv=["cat",
                 "/workspace/data.txt"])
    tap.ok(ran["status"] == "ok" and "for the sandbox" in ran["output"],
           "plain execution goes on", ran)
    s.wait_for(lambda: s.processes().get("sbx-journald"))
    made = s.wait_for(lambda: s.call("sandbox_initialize")["status"] == "ok")
    tap.ok(made, "back again: new sandboxes")
    lost = [r for r in s.journal() if "lost_records" in r["fields"]]
    tap.ok(bool(lost), "what was not recorded meanwhile is counted",
           s.journal()[-8:])


def full_disk(tap, s, box, state):
    """No space: refused, and said; space again: goes on."""
    filler = os.path.join(state, "filler")

    out = open(filler, "wb", buffering=0)

    def fill():
        try:
            while out.write(b"x" * 4096):
                pass
        except OSError:
            pass
    fill()
    refused = None
    for _ in range(200):    # the journal has some room of its own
        for _ in range(10):
            s.call("sandbox_exec", container_id=box,
                   argv=["true", "x" * 1000])
        refused = s.call("sandbox_initialize")
        if refused["status"] != "ok":
            break
        s.call("sandbox_stop", container_id=refused["container_id"],
               force=True)
        fill()
    tap.ok(refused["status"] == "error" and
           ("journal" in refused["error"] or "space" in refused["error"]),
           "disk full: a new sandbox is refused, and says why", refused)
    copied = s.call("copy_file", container_id=box, local_src_file="data.txt",
                    dest_path="/workspace/full.txt")
    tap.ok(copied["status"] == "error", "disk full: so is a crossing", copied)
    out.close()
    os.unlink(filler)
    ok = s.wait_for(lambda: s.call("sandbox_initialize")["status"] == "ok", 15)
    tap.ok(ok, "space again: new sandboxes")
    check = s.sbx("journal", "verify")
    tap.ok(check.returncode == 0, "and the chain is whole",
           check.stdout + check.stderr)


def on_small_disk(tap, project):
    """in a mount namespace of our own; only root can have one here"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) != 0:
        tap.skip("unshare of a mount namespace", "disk full")
        return
    libc.mount(None, b"/", None, 0x40000 | 0x4000, None)    # private
    root = tempfile.mkdtemp(prefix="sbx-g5-disk-")
    os.chmod(root, 0o755)
    if libc.mount(b"tmpfs", root.encode(), b"tmpfs", 0,
                  b"size=48m,mode=0755") != 0:
        tap.skip("mount of a tmpfs", "disk full")
        return
    try:
        with mcp.Suite(copy_root=project, root=root,
                       conf="journal_reserve_bytes 1048576\n") as s:
            box = s.call("sandbox_initialize")["container_id"]
            full_disk(tap, s, box, root)
    finally:
        libc.umount2(root.encode(), 2)
        os.rmdir(root)


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
        if os.getuid() == 0:
            on_small_disk(tap, project)
    tap.done()


main()
