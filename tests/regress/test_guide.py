#!/usr/bin/env python3
"""The workflow guide as a tool and as a prompt, completion, what the server
says of itself, and the cursors of lists."""
import base64
import os
import re
import sys
import time
import xml.dom.minidom

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
from web import Daemon, Http, META  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
PHASES = ["init", "explore", "edit", "verify", "publish", "issue", "cleanup"]
TEMPLATE = "sbx://run/{run_id}/{stream}"


def failed(c, method, params):
    return c.answer(c.start(method, params)).get("error", {}).get("code")


def complete(c, ref, name, value=""):
    return c.request("completion/complete", {
        "ref": ref, "argument": {"name": name, "value": value}})["completion"]


PROMPT = {"type": "ref/prompt", "name": "workflow"}
RESOURCE = {"type": "ref/resource", "uri": TEMPLATE}
JOURNAL = {"type": "ref/resource", "uri": "sbx://run/{run_id}/journal"}


def check_guide(s):
    tools = {t["name"]: t for t in s.request("tools/list")["tools"]}
    schema = tools["get_workflow_guide"]["inputSchema"]
    ok(schema["properties"]["phase"]["enum"] == PHASES, "the phases", schema)
    named = set()
    for i, phase in enumerate(PHASES):
        g = s.call("get_workflow_guide", phase=phase)
        text = g["guide"]
        said = {w for w in re.findall(r"[a-z]+(?:_[a-z]+)+", text)
                if w not in ("run_id", "container_id")}
        named |= set(g["tools"])
        ok(g["status"] == "ok" and g["phase"] == phase and
           set(g["tools"]) <= set(tools) and said <= set(g["tools"]),
           f"{phase}: every tool that it names exists", g)
        ok(g["next_phase"] == (PHASES + [None])[i + 1], f"{phase}: what is "
           "next", g)
        p = s.request("prompts/get", {"name": "workflow",
                                      "arguments": {"phase": phase}})
        body = p["messages"][0]["content"]["text"]
        ok(p["messages"][0]["role"] == "user" and text in body and
           all(t in body for t in g["tools"]), f"{phase}: the prompt says "
           "the same", p)
    ok(set(tools) - named == {"get_workflow_guide"}, "no tool is left out",
       set(tools) - named)
    ok(s.call("get_workflow_guide")["phase"] == "init", "init by default")
    r = s.call("get_workflow_guide", phase="deploy")
    ok(r["status"] == "error" and "phase" in r["error"],
       "an unknown phase is refused by name", r)


def check_prompts(s):
    prompts = s.request("prompts/list")["prompts"]
    ok([p["name"] for p in prompts] == ["workflow"] and
       [a["name"] for a in prompts[0]["arguments"]] ==
       ["phase", "container_id", "image"], "one prompt", prompts)
    text = s.request("prompts/get", {"name": "workflow", "arguments": {
        "container_id": "0123456789ab", "image": "python"}})["messages"][0][
        "content"]["text"]
    ok("container_id 0123456789ab" in text and "image: python" in text and
       "Phase init" in text, "arguments are put in", text)
    for what, params in [
            ("an unknown prompt", {"name": "x"}),
            ("an unknown argument", {"name": "workflow",
                                     "arguments": {"x": "y"}}),
            ("an unknown phase", {"name": "workflow",
                                  "arguments": {"phase": "x"}}),
            ("a long value", {"name": "workflow",
                              "arguments": {"image": "x" * 256}}),
            ("no name", {})]:
        ok(failed(s, "prompts/get", params) == -32602, f"{what}: -32602")
    for method in ("tools/list", "prompts/list", "resources/list",
                   "resources/templates/list"):
        ok(failed(s, method, {"cursor": "nobody's"}) == -32602,
           f"{method}: a cursor that was not given: -32602")


def check_complete(s):
    ok(complete(s, PROMPT, "phase", "e") == {
        "values": ["explore", "edit"], "total": 2, "hasMore": False},
       "phases by prefix")
    ok(complete(s, PROMPT, "container_id")["values"] == [] and
       complete(s, RESOURCE, "run_id")["values"] == [],
       "nothing where there is nothing")
    s.notes.clear()
    box = s.call("sandbox_initialize", image="host")["container_id"]
    ok([n["params"]["level"] for n in s.notes if box in n["params"].get(
        "data", "")] == ["info"], "a new sandbox is in the client's log",
       s.notes)
    ok(complete(s, PROMPT, "container_id", box[:3])["values"] == [box] and
       complete(s, PROMPT, "container_id", "x")["values"] == [],
       "sandboxes by prefix")
    ok(complete(s, PROMPT, "image")["values"] == ["host"], "images")
    ok(complete(s, RESOURCE, "stream", "std")["values"] ==
       ["stdout", "stderr"] and complete(s, RESOURCE, "stream", "j")[
           "values"] == ["journal"], "streams, and the journal")
    runs = [s.call("sandbox_exec", container_id=box, argv=["true"])["run_id"]
            for _ in range(110)]
    c = complete(s, RESOURCE, "run_id")
    ok(len(c["values"]) == 100 and c["total"] >= 110 and c["hasMore"] and
       c["values"][0] == runs[-1], "at most 100, newest first, and how many "
       "there are", c["total"])
    ok(runs[0] in complete(s, RESOURCE, "run_id", runs[0])["values"] and
       runs[0] in complete(s, JOURNAL, "run_id", runs[0])["values"],
       "an old run is found, too")
    for what, ref, name in [
            ("prompt", {"type": "ref/prompt", "name": "x"}, "phase"),
            ("argument", PROMPT, "x"), ("type", {"type": "x"}, "phase"),
            ("template", {"type": "ref/resource", "uri": "x:y"}, "run_id")]:
        ok(failed(s, "completion/complete", {"ref": ref, "argument": {
            "name": name, "value": ""}}) == -32602,
           f"an unknown {what}: -32602")
    s.call("sandbox_stop", container_id=box, force=True)


def test_stdio():
    with mcp.Suite() as s:
        check_guide(s)
        check_prompts(s)
        check_complete(s)
        info = s.initialize("2025-11-25")["serverInfo"]
        icon = info["icons"][0]
        svg = base64.b64decode(icon["src"].split("base64,")[1])
        ok(info["title"] and info["description"] and
           icon["mimeType"] == "image/svg+xml" and
           xml.dom.minidom.parseString(svg).documentElement.tagName == "svg",
           "the server's icon is a drawing", info)
        ok(set(s.initialize("2025-06-18")["serverInfo"]) ==
           {"name", "version", "title"}, "2025-06-18: name and title")
        ok(set(s.initialize("2025-03-26")["serverInfo"]) ==
           {"name", "version"}, "2025-03-26: the name alone")
        r = s.request("prompts/list", {"_meta": META})
        ok(r["resultType"] == "complete" and r["cacheScope"] == "public",
           "2026-07-28: prompts can be kept", r)


def test_others():
    d = Daemon()
    try:
        alice, bob = (Http(d, d.sbx("token", "add", n).stdout.strip())
                      for n in ("alice", "bob"))
        time.sleep(1.1)  # a file that changed is looked at once a second
        alice.initialize()
        bob.initialize()
        box = alice.result("sandbox_initialize", image="host")["container_id"]
        run = alice.result("sandbox_exec", container_id=box,
                           argv=["true"])["run_id"]

        def values(h, ref, name):
            return h.rpc("completion/complete", {
                "ref": ref, "argument": {"name": name, "value": ""}})[1][
                "result"]["completion"]["values"]
        ok(values(alice, PROMPT, "container_id") == [box] and
           run in values(alice, RESOURCE, "run_id"), "one's own are offered")
        ok(values(bob, PROMPT, "container_id") == [] and
           values(bob, RESOURCE, "run_id") == [], "another's are not")
        alice.result("sandbox_stop", container_id=box, force=True)
    finally:
        d.close()


mcp.main(tap, globals(), sys.argv[1:])
