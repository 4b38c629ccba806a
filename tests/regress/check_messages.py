#!/usr/bin/env python3
"""Every message that a server sent while the tests ran, by the JSON schema of
its revision.  Runs after the others (local.mk): they recorded what they heard
below the build directory.

usage: check_messages.py [DIRECTORY ...]	what single tests recorded

With a directory, for one test that was run alone with SBX_MCP_RECORD=DIRECTORY,
any number of messages will do; else there must be enough of each revision.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.environ.get("SBX_SRC", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")) + "/tests/lib")
import mcp  # noqa: E402
import mcpjudge  # noqa: E402
import mcpschema  # noqa: E402

ENOUGH = 100        # of each revision, which test_messages.py alone sends

# What a server may send by the schemas, and why this one does not, where a
# client does not make it (it is printed of what was not seen).
_UNASKED = "none but tools of tests/conformance ask their client"
_FIXED = "it never changes while a server lives"
_TASKS = "tasks are those of the extension of 2026-07-28"
ABSENT = {
    "CancelledNotification": "it takes back what it asked its client only",
    "CreateMessageRequest": _UNASKED,
    "ElicitRequest": _UNASKED,
    "ElicitationCompleteNotification": "a tool is not told that it is",
    "InputRequiredResult": _UNASKED,
    "ListRootsRequest": _UNASKED,
    "PingRequest": "transports tell that a client is gone",
    "CreateTaskResult": _TASKS,
    "GetTaskRequest": "a client is asked for no task",
    "GetTaskResult": _TASKS,
    "GetTaskPayloadRequest": "a client is asked for no task",
    "GetTaskPayloadResult": _TASKS,
    "CancelTaskRequest": "a client is asked for no task",
    "CancelTaskResult": _TASKS,
    "ListTasksRequest": "a client is asked for no task",
    "ListTasksResult": _TASKS,
    "TaskStatusNotification": _TASKS,
    "PromptListChangedNotification": _FIXED,
    "ResourceListChangedNotification": "it is not declared: runs are many",
    "ToolListChangedNotification": _FIXED,
}


def tools_known(judge):
    """What the program lists, for a test that did not ask for the list."""
    dump = os.environ.get("SBX_BUILD", "") + "/tools-dump"
    if not os.path.exists(dump):
        return
    out = subprocess.run([dump], stdout=subprocess.PIPE, check=True,
                         text=True, timeout=20).stdout
    for line in out.splitlines():
        tool = json.loads(line)
        judge.outputs.setdefault(tool["name"], tool["output"])


def main():
    tap = mcp.Tap()
    single = sys.argv[1:]
    if mcpschema.directory() is None:
        tap.skip("SBX_MCP_SCHEMA names no directory with MCP's schemas",
                 "what servers sent")
        tap.done()
        sys.exit(tap.bad > 0)
    judge = mcpjudge.Judge(mcpschema.load())
    for top in single or [os.environ["SBX_BUILD"] + "/mcp-record"]:
        judge.read(top)
    tools_known(judge)
    checked = mcpjudge.report(judge, tap)
    for name, rev in judge.revs.items():
        missing = sorted(rev.known() - set(judge.seen[name]))
        for kind in missing:
            print(f"# {name}, not seen: {kind}" +
                  (f" ({ABSENT[kind]})" if kind in ABSENT else ""))
    if single:
        n = sum(sum(s.values()) for s in judge.seen.values())
        tap.ok(n > 0, f"{n} messages were seen")
    else:
        for name in judge.revs:
            n = sum(judge.seen[name].values())
            tap.ok(n >= ENOUGH, f"{name}: enough messages were seen", n)
        tap.ok(checked >= ENOUGH, "enough results of tools were seen",
               checked)
    tap.done()
    sys.exit(tap.bad > 0)


main()
