#!/usr/bin/env python3
"""A run's records of the journal as a resource: the same as the journal has,
masked, bounded, and of one's own runs only."""
import json
import os
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from web import Daemon, two  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
# what only the journal itself can know of a record, and when it wrote it
CHAIN = {"seq", "prev", "wall", "mono_ns"}
RECORDS, BYTES = 16, 8192


def uri_of(run):
    return f"sbx://run/{run}/journal"


def journalled(s, run):
    """what `sbx journal` says of the run, without the chain"""
    out = s.sbx("journal", "show", "-r", run, "--json").stdout
    return [{k: v for k, v in json.loads(line).items() if k not in CHAIN}
            for line in out.splitlines()]


def records(contents):
    """the records of such a resource without their times, and dropped"""
    c = contents["contents"][0]
    doc = json.loads(c["text"])
    assert c["mimeType"] == "application/json" and set(doc) == {
        "records", "dropped"}, c
    times = [r.pop("sent") for r in doc["records"]]
    assert times == sorted(times) and all(len(t) == 24 for t in times), times
    return doc["records"], doc["dropped"]


def read(c, run):
    return records(c.request("resources/read", {"uri": uri_of(run)}))


def same(s, run, wait=5):
    """(ours, the journal's): its writer is another process, a moment behind"""
    until = time.monotonic() + wait
    while True:
        ours, theirs = read(s, run)[0], journalled(s, run)
        if ours == theirs or time.monotonic() > until:
            return ours, theirs
        time.sleep(0.05)


def check_same(s):
    made = s.call("sandbox_initialize", image="host")
    box = made["container_id"]
    runs = {
        "a sandbox that was made": made["run_id"],
        "a command": s.call("sandbox_exec", container_id=box,
                            argv=["sh", "-c", "echo 'ä\x01\"\\' >&2; exit 3",
                                  "\u2028"])["run_id"],
        "a secret": s.call("sandbox_exec", container_id=box, commands=[
            f"curl -H 'Authorization: Bearer {SECRET}' x; "
            f"password={SECRET} true"])["run_id"],
        "a job": s.call("sandbox_exec_background", container_id=box,
                        commands=["sleep 600"])["job_id"],
    }
    s.call("sandbox_exec_kill", job_id=runs["a job"])
    for what, run in runs.items():
        ours, theirs = same(s, run)
        ok(ours == theirs and ours and ours[0]["run_id"] == run,
           f"{what}: as the journal has it", (ours, theirs))
    ours = read(s, runs["a job"])
    ok([(r["op"], r["phase"]) for r in ours[0]] == [
        ("exec", "start"), ("kill", ""), ("exec", "end")] and ours[1] == 0,
       "from its start to its end", ours)
    text = json.dumps(read(s, runs["a secret"]))
    ok("***" in text and SECRET not in text, "what is secret is masked", text)
    return box, runs["a job"]


def check_lists(s, run):
    found = {r["uri"]: r for r in s.request("resources/list")["resources"]}
    ok(found[uri_of(run)]["mimeType"] == "application/json" and
       uri_of(run).replace("journal", "stdout") in found, "it is listed", found)
    found = s.request("resources/templates/list")["resourceTemplates"]
    ok([t["uriTemplate"] for t in found] == [
        "sbx://run/{run_id}/{stream}", "sbx://run/{run_id}/journal"],
       "and has a template", found)
    for bad in (uri_of("0" * 16), uri_of(run) + "?offset=1",
                uri_of(run) + "x", uri_of("x" * 16)):
        e = s.answer(s.start("resources/read", {"uri": bad})).get("error", {})
        ok(e.get("code") == -32002, f"{bad}: not found", e)


def check_bounds(s, box):
    run = s.call("sandbox_exec", container_id=box, argv=["true"])["run_id"]
    for _ in range(RECORDS + 2):  # also of what has ended: each is a record
        s.call("sandbox_exec_kill", job_id=run)
    ours, dropped = read(s, run)
    theirs = journalled(s, run)
    until = time.monotonic() + 5
    while len(theirs) < len(ours) + dropped and time.monotonic() < until:
        time.sleep(0.05)
        theirs = journalled(s, run)
    ok(len(ours) == RECORDS and len(theirs) == RECORDS + 4 and dropped == 4 and
       ours == theirs[-RECORDS:], "the newest are kept, the others counted",
       (len(ours), dropped, len(theirs)))
    # one byte becomes six: two such do not fit beside each other
    run = s.call("sandbox_exec", container_id=box, argv=["true"] + [
        "\x01" * 1000])["run_id"]
    ours, dropped = read(s, run)
    ok(len(ours) + dropped == 2 and ours[-1]["phase"] == "end" and
       len(json.dumps(ours)) < BYTES + 1024, "and not more than 8 KiB", dropped)


def test_stdio():
    with mcp.Suite() as s:
        box, run = check_same(s)
        check_lists(s, run)
        check_bounds(s, box)
        s.call("sandbox_stop", container_id=box, force=True)


def test_two():
    d = Daemon()
    try:
        alice, bob = two(d)
        box = alice.result("sandbox_initialize", image="host")["container_id"]
        run = alice.result("sandbox_exec", container_id=box,
                           argv=["echo", "of alice"])["run_id"]
        got = records(alice.rpc("resources/read", {"uri": uri_of(run)})[1][
            "result"])
        ok([r["fields"].get("argv") for r in got[0]] == ["echo of alice",
                                                         None] and
           {r["principal"] for r in got[0]} == {"token:alice"},
           "one's own is there", got)
        ok(got[0] == journalled(d, run), "as in the journal", got)
        answers = [bob.rpc("resources/read", {"uri": uri_of(r)})[1]["error"]
                   for r in (run, "0" * 16)]
        text = [json.dumps(a).replace(run, "R").replace("0" * 16, "R")
                for a in answers]
        ok(text[0] == text[1] and "alice" not in text[0],
           "another's is as one that is not there", answers)
        ok(run not in json.dumps(bob.rpc("resources/list")[1]) and
           run in json.dumps(alice.rpc("resources/list")[1]),
           "nor listed")
        a = bob.rpc("completion/complete", {
            "ref": {"type": "ref/resource",
                    "uri": "sbx://run/{run_id}/journal"},
            "argument": {"name": "run_id", "value": ""}})[1]
        ok(a["result"]["completion"]["values"] == [], "nor offered", a)
        alice.result("sandbox_stop", container_id=box, force=True)
    finally:
        d.close()


mcp.main(tap, globals(), sys.argv[1:])
