#!/usr/bin/env python3
"""Ends by time: what is taken, what is spared, and what is said of either.
And the guard: deletions, and copies to the same place."""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok


def sh(s, box, *commands):
    return s.call("sandbox_exec", container_id=box, commands=list(commands))


def make(s, **kw):
    return s.call("sandbox_initialize", **kw)["container_id"]


def listed(s):
    return s.call("sandbox_list_containers")


def ids(s):
    return {c["container_id"] for c in listed(s)["containers"]}


def held(s, box):
    return next(c["reap_held"] for c in listed(s)["containers"]
                if c["container_id"] == box)


def records(s, op):
    return [r for r in s.journal() if r["op"] == op]


def project():
    d = tempfile.mkdtemp(prefix="sbx-reap-")
    for name in ("a.c", "b.c", "c.c"):
        with open(os.path.join(d, name), "w") as f:
            f.write(name)
    return d


def test_idle():
    with mcp.Suite(conf="sandbox_idle 2\n",
                   stderr=open(os.devnull, "w")) as s:
        clean, job, work = make(s, name="clean"), make(s), make(s)
        s.call("sandbox_exec_background", container_id=job,
               commands=["sleep 600"])
        sh(s, work, "echo x > /workspace/new.c")
        call = s.start_call("sandbox_exec", container_id=clean,
                            commands=["sleep 4"])
        s.answer(call)
        ok(clean in ids(s), "a call under way is no idleness")
        gone = s.wait_for(lambda: clean not in ids(s), 8)
        ok(gone, "an unused sandbox is taken")
        left = ids(s)
        ok(job in left, "one with a background job is not")
        ok(work in left, "nor one with work in it")
        why = s.wait_for(lambda: held(s, work), 5)
        ok("new.c" in (why or "") and "2 s" in (why or ""),
           "which the list says, with the file", why)
        ok(held(s, job) is None, "a busy one is not held by anything")
        r = records(s, "sandbox_reap")
        ok([x["container_id"] for x in r] == [clean] and
           "not used for 2 s" in r[0]["fields"]["reason"] and
           r[0]["fields"]["name"] == "clean",
           "the journal says what was taken and why", r)
        r = records(s, "sandbox_reap_held")
        ok([x["container_id"] for x in r] == [work],
           "and once what was spared", r)
        got = s.call("sandbox_exec", container_id=clean, commands=["true"])
        ok(got["status"] == "error" and
           got["code"] == "sandbox_gone" and
           "not used for 2 s" in got["error"],
           "a call on it says what became of it", got)
        got = s.call("sandbox_attach", name_or_id="clean")
        ok(got["status"] == "error" and
           "not used for 2 s" in got["error"],
           "by its name as well", got)
        got = s.call("sandbox_exec", container_id="0123456789ab",
                     commands=["true"])
        ok(got["code"] == "not_found", "an unknown id is unknown",
           got)
        # work goes, and with the next look the sandbox
        sh(s, work, "rm /workspace/new.c")
        ok(s.wait_for(lambda: work not in ids(s), 8),
           "what is empty again is taken")
        ok(s.call("sandbox_stop", container_id=job)["status"] == "ok",
           "a spared one can be stopped")


def test_told_once():
    with mcp.Suite(conf="sandbox_idle 1\n",
                   stderr=open(os.devnull, "w")) as s:
        box = make(s, name="told")
        s.wait_for(lambda: records(s, "sandbox_reap"), 6)
        first, second = listed(s), listed(s)
        ok([(r["container_id"], r["name"]) for r in first["reaped"]] ==
           [(box, "told")] and "1 s" in first["reaped"][0]["reason"] and
           first["reaped"][0]["when"].endswith("Z"),
           "the next list says what was taken", first)
        ok(second["reaped"] == [], "once", second)
        many = [make(s) for _ in range(3)]
        ok(s.wait_for(lambda: len(records(s, "sandbox_reap")) == 4, 8) and
           {r["container_id"] for r in listed(s)["reaped"]} == set(many),
           "several at a time")


def test_ttl():
    with mcp.Suite(conf="sandbox_ttl 600\n",
                   stderr=open(os.devnull, "w")) as s:
        made = s.call("sandbox_initialize", ttl_seconds=2)
        box = made["container_id"]
        long = s.call("sandbox_initialize", ttl_seconds=100000)
        s.call("sandbox_exec_background", container_id=box,
               commands=["sleep 600"])
        n = s.start_call("sandbox_exec", container_id=box,
                         commands=["sleep 4; echo done"])
        got = s.answer(n)["result"]["structuredContent"]
        ok(got.get("stdout") == "done\n" or "done" in str(got),
           "the call under way is not cut", got)
        gone = s.wait_for(lambda: box not in ids(s), 8)
        ok(gone, "an expired one is taken, with its background job")
        ok("its ttl of 2 s" in
           s.call("sandbox_exec", container_id=box,
                  commands=["true"])["error"], "and says so")
        ok(long["container_id"] in ids(s), "the other lives")
        ok(long["ttl_seconds"] == 600 and made["ttl_seconds"] == 2,
           "with no more than the configuration allows", long)
        box = make(s, ttl_seconds=2)
        sh(s, box, "echo x > /workspace/w")
        why = s.wait_for(lambda: held(s, box), 8)
        ok(why and "its ttl of 2 s" in why, "work holds it", why)


def test_reap_work():
    with mcp.Suite(conf="sandbox_idle 1\nreap_work on\n",
                   stderr=open(os.devnull, "w")) as s:
        box = make(s)
        sh(s, box, "echo x > /workspace/new.c")
        ok(s.wait_for(lambda: box not in ids(s), 8),
           "told so, work is taken too")


def test_guard():
    src = project()
    with mcp.Suite(copy_root=src, conf="sandbox_idle 2\n",
                   stderr=open(os.devnull, "w")) as s:
        def copied():
            box = make(s)
            got = copy(box)
            ok(got["status"] == "ok", "a project is copied in", got)
            return box, got

        def copy(box):
            return s.call("copy_project", container_id=box,
                          include_untracked=True)

        def stop(box):
            return s.call("sandbox_stop", container_id=box)
        box, got = copied()
        dest = got["dest"]
        sh(s, box, "rm %s/a.c" % dest)
        got = stop(box)
        ok(got["status"] == "error" and "deleted" in got["error"],
           "a deletion is work", got)
        s.call("sandbox_stop", container_id=box, force=True)

        box, _ = copied()
        sh(s, box, "echo mine > %s/new.c" % dest)
        got = copy(box)
        ok(got["status"] == "ok", "the same project again", got)
        got = stop(box)
        ok(got["status"] == "error" and "new.c" in got["error"],
           "does not hide what was made between", got)
        sh(s, box, "rm %s/new.c" % dest)
        got = stop(box)
        ok(got["status"] == "ok", "and is no work itself", got)

        box, _ = copied()
        ok(s.wait_for(lambda: box not in ids(s), 8),
           "an untouched copy holds nobody")
        box, _ = copied()
        sh(s, box, "echo x > /workspace/beside")
        time.sleep(4)
        ok("beside" in (held(s, box) or ""), "a file beside it does",
           held(s, box))
    mcp.remove(src)


for test in (test_idle, test_told_once, test_ttl, test_reap_work, test_guard):
    print("#", test.__name__, flush=True)
    test()
tap.done()
