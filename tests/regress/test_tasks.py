#!/usr/bin/env python3
"""Tasks (io.modelcontextprotocol/tasks) against a real daemon: calls that last
longer than their request, what becomes of them, and to whom they exist."""
import concurrent.futures
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fixture  # noqa: E402
import mcp  # noqa: E402
import web  # noqa: E402
from web import MODERN, Daemon, Http  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
TASKS = "io.modelcontextprotocol/tasks"
ENDS = ("completed", "failed", "cancelled")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
MEMBERS = {"resultType", "_meta", "taskId", "status", "statusMessage",
           "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}


def meta(tasks=True, **more):
    return {"io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities":
            dict({"extensions": {TASKS: {}}} if tasks else {}, **more)}


class Client(Http):
    """that knows tasks"""
    can = {}

    def m(self, method, named=None, tasks=True, **params):
        h = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method,
             "Mcp_Name": named}
        return self.rpc(method, dict(params, _meta=meta(tasks, **self.can)), **h)[1]

    def start(self, tool, tasks=True, **arguments):
        return self.m("tools/call", tool, tasks, name=tool,
                      arguments=arguments)

    def run(self, box, script, tasks=True, **kw):
        return self.start("sandbox_exec", tasks, container_id=box,
                          argv=["bash", "-c", script], **kw)

    def task(self, box, script, **kw):
        """id of a task that runs it"""
        return self.run(box, script, **kw)["result"]["taskId"]

    def get(self, task):
        return self.m("tasks/get", task, taskId=task)

    def cancel(self, task):
        return self.m("tasks/cancel", task, taskId=task)

    def wait(self, task, timeout=60, until=ENDS):
        end = time.time() + timeout
        while True:
            r = self.get(task)["result"]
            if r["status"] in until or time.time() > end:
                return r
            time.sleep(0.1)

    def box(self):
        r = self.m("tools/call", "sandbox_initialize", False,
                   name="sandbox_initialize", arguments={"image": "host"})
        return r["result"]["structuredContent"]["container_id"]


def steady(result):
    """a tool's result without what differs from run to run"""
    s = dict(result["structuredContent"])
    for name in ("run_id", "elapsed_seconds"):
        s.pop(name)
    return s, [c["type"] for c in result["content"]], result["isError"], \
        result["resultType"], sorted(result)


def count(mark):
    """processes with that in their command line"""
    n = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                n += mark.encode() in f.read()
        except OSError:
            pass
    return n


def until(condition, timeout=15):
    end = time.time() + timeout
    while not condition() and time.time() < end:
        time.sleep(0.05)
    return condition()


def test_declared(d):
    h = Client(d)
    caps = h.m("server/discover")["result"]["capabilities"]
    ok(caps.get("extensions") == {TASKS: {}} and "tasks" not in caps,
       "server/discover declares the extension", caps)
    old = Http(d).initialize()[1]["result"]["capabilities"]
    ok("extensions" not in old and "tasks" not in old,
       "an older revision hears nothing of it", old)
    for method, more in [("tasks/get", {}), ("tasks/cancel", {}),
                         ("tasks/update", {"inputResponses": {}})]:
        e = h.m(method, "x", False, taskId="x", **more)["error"]
        ok(e["code"] == -32021 and e["data"] == {"requiredCapabilities": {
            "extensions": {TASKS: {}}}}, f"{method} needs it declared", e)
        e = h.m(method, "x", taskId="x", **more)["error"]
        ok(e["code"] == -32602, f"{method}: no such task", e)
        e = h.m(method, None, taskId="x", **more)["error"]
        ok(e["code"] == -32020, f"{method}: Mcp-Name must repeat the id", e)
    for method in ("tasks/list", "tasks/result"):
        e = h.m(method)["error"]
        ok(e["code"] == -32601, f"{method} is of another revision", e)
    e = h.m("tasks/get", taskId=5)["error"]
    ok(e["code"] == -32602, "an id that is no string", e)


def test_life(d, box):
    h = Client(d)
    r = h.run(box, "echo quick")["result"]
    ok(r["resultType"] == "complete" and "taskId" not in r,
       "what is quick is answered as ever", r)
    began = time.time()
    r = h.run(box, "sleep 4; echo out; echo err >&2; exit 3")["result"]
    ok(r["resultType"] == "task" and r["status"] == "working" and
       set(r) <= MEMBERS and 1 < time.time() - began < 3,
       "what lasts becomes a task after a short while", r)
    ok(re.fullmatch("[0-9a-f]{32}", r["taskId"]) and r["ttlMs"] is None and
       r["pollIntervalMs"] > 0 and TIME.fullmatch(r["createdAt"]) and
       TIME.fullmatch(r["lastUpdatedAt"]), "with all members", r)
    g = Client(d).get(r["taskId"])["result"]
    ok(g["status"] == "working" and g["resultType"] == "complete" and
       set(g) <= MEMBERS, "another connection sees it", g)
    g = h.wait(r["taskId"])
    ok(g["status"] == "completed" and g["createdAt"] == r["createdAt"] and
       g["lastUpdatedAt"] > g["createdAt"] and
       600000 < g["ttlMs"] < 620000 and set(g) == MEMBERS -
       {"statusMessage"} | {"result"}, "it ends completed", g)
    direct = h.run(box, "sleep 4; echo out; echo err >&2; exit 3",
                   tasks=False)["result"]
    ok(steady(g["result"]) == steady(direct),
       "its result is the direct one", (g["result"], direct))
    ok(h.get(r["taskId"])["result"] == g, "and stays")
    a = h.cancel(r["taskId"])["result"]
    ok(set(a) == {"resultType", "_meta"}, "cancelling the ended is nothing",
       a)
    ok(h.get(r["taskId"])["result"] == g, "and changes nothing")
    a = h.m("tasks/update", r["taskId"], taskId=r["taskId"],
            inputResponses={"x": {"action": "accept"}})["result"]
    ok(set(a) == {"resultType", "_meta"},
       "an answer to what was not asked is ignored", a)
    g = h.wait(h.task(box, "sleep 30", timeout=3))
    s = g["result"]["structuredContent"]
    ok(g["status"] == "completed" and s["status"] == "timeout",
       "a tool's time-out holds", g)
    t = h.task(box, "sleep 3")
    h.start("sandbox_exec", container_id=box, argv=["true"])
    g = h.wait(h.start("sandbox_exec", container_id="nope",
                       argv=["true"]).get("result", {}).get("taskId") or t)
    ok(g["status"] == "completed", "others go on meanwhile", g)


def test_error(d, box):
    h = Client(d)
    t = h.task(box, "sleep 60 # gone-box")
    other = Client(d)
    other.start("sandbox_stop", container_id=box)
    g = h.wait(t)
    ok(g["status"] == "completed" and g["result"]["isError"] and
       g["result"]["structuredContent"]["code"] == "sandbox_gone",
       "a tool's error is a completed task", g)


def test_cancel(d, box):
    h = Client(d)
    t = h.task(box, "sleep 7191 & sleep 7191; wait")
    ok(until(lambda: count("7191") >= 2), "its processes run", count("7191"))
    r = h.cancel(t)["result"]
    ok(set(r) == {"resultType", "_meta"}, "a cancel is acknowledged", r)
    g = h.wait(t)
    ok(g["status"] == "cancelled" and "result" not in g and
       "error" not in g and g["ttlMs"] > 0, "it is cancelled", g)
    ok(until(lambda: count("7191") == 0), "the whole tree is killed",
       count("7191"))
    r = h.run(box, "echo again")["result"]["structuredContent"]
    ok(r["status"] == "ok", "the sandbox goes on", r)


def test_connection(d, box):
    """It is of no connection."""
    h = Client(d)
    t = h.task(box, "sleep 5; echo alone")
    h.c.close()
    g = Client(d).wait(t)
    ok(g["status"] == "completed" and "alone" in json.dumps(g["result"]),
       "a closed connection ends no task", g)
    h = Client(d)
    h.c.timeout = 0.5
    try:
        h.run(box, "sleep 7192")
    except OSError:
        pass
    h.c.close()
    ok(until(lambda: count("7192") == 0),
       "but one that closes before there is a task cancels the call")


def test_others(d, box):
    """To another principal there is none."""
    token = d.sbx("token", "add", "other").stdout.strip()
    h, o = Client(d), Client(d, token)
    t = h.task(box, "sleep 7193")
    for method, more in [("tasks/get", {}), ("tasks/cancel", {}),
                         ("tasks/update", {"inputResponses": {}})]:
        a = o.m(method, t, taskId=t, **more)
        b = o.m(method, "0" * 32, taskId="0" * 32, **more)
        a.pop("id"), b.pop("id")
        ok(a == b and a["error"]["code"] == -32602,
           f"another's {method} finds nothing, as for no id at all", (a, b))
    for wrong in (t[:-1], t + "0", t.upper(), "", t[:-1] + "g", "%s"):
        e = h.m("tasks/get", wrong, taskId=wrong) if wrong else \
            h.m("tasks/get", None, taskId=wrong)
        ok("error" in e, "not quite the id: nothing", e) \
            if wrong != t else None
    ids = {h.task(box, "sleep 2") for _ in range(3)}
    ok(len(ids | {t}) == 4, "ids differ")
    g = h.get(t)["result"]
    ok(g["status"] == "working", "its own sees it", g)
    h.cancel(t)
    ok(h.wait(t)["status"] == "cancelled", "and ends it")


def test_long(d, box):
    """Longer than any call may take without one."""
    h = Client(d)
    began = time.time()
    script = "for i in $(seq 12); do echo line $i; sleep 4; done"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        direct = pool.submit(Client(d).run, box, script, tasks=False)
        t = h.task(box, script)
        g = h.wait(t, 70)
        took = time.time() - began
        r = direct.result()["result"]["structuredContent"]
    s = g["result"]["structuredContent"] if "result" in g else g
    ok(g["status"] == "completed" and s["status"] == "ok" and took > 46 and
       "line 12" in json.dumps(s), "a task of 48 s has its result", g)
    ok(r["status"] == "running" and r["job_id"],
       "who declares nothing gets a job's handle after 45 s", r)


def test_many(d):
    """Some of a principal's tasks may last; the next ones end with a job."""
    h = Client(d)
    boxes = [h.box(), h.box(), h.box()]
    tasks = [h.task(b, "sleep 7194") for b in boxes for _ in range(4)]
    ok(len(set(tasks)) == 12, "a dozen tasks run", tasks)
    r = h.run(boxes[0], "echo fits")["result"]["structuredContent"]
    ok(r["status"] == "ok", "short calls find their place", r)
    for t in tasks:
        h.cancel(t)
    ok(until(lambda: count("7194") == 0), "all are cancelled")


def test_front(d, box):
    """It dies, and its tasks with it."""
    h = Client(d)
    t = h.task(box, "sleep 7195")
    ok(until(lambda: count("7195") == 1), "a task runs")
    front = [p for p in mcp.tree(d.proc.pid)
             if mcp.program(p) == "sbxd-front"]
    os.kill(front[0], signal.SIGKILL)
    ok(until(lambda: count("7195") == 0), "its work ends with the front")

    def again():
        try:
            return Client(d).get(t)
        except OSError:
            return None
    ok(until(lambda: again() is not None) and
       again()["error"]["code"] == -32602, "and it is not known any more")


class Listener(Client):
    """messages of a subscriptions/listen"""
    def listen(self, tasks=True, **what):
        m = "subscriptions/listen"
        self.r = self.send("POST", body={
            "jsonrpc": "2.0", "id": "L", "method": m, "params": {
                "notifications": what, "_meta": meta(tasks)}},
            MCP_Protocol_Version=MODERN, Mcp_Method=m)
        return self

    def next(self):
        while True:
            line = self.r.readline()
            if line.startswith(b"data: {"):
                return json.loads(line[6:])
            if not line:
                return None


def test_listen(d, box):
    h = Client(d)
    r = Listener(d).listen(tasks=False, taskIds=["x"])
    e = json.loads(r.r.read())["error"]
    ok(e["code"] == -32021 and TASKS in e["data"]["requiredCapabilities"][
        "extensions"], "who declares nothing is told of no task", e)
    t = h.task(box, "until [ -e /tmp/tell ]; do sleep 0.1; done; echo told")
    u = h.task(box, "sleep 240")
    o = Listener(d, d.sbx("token", "add", "ear").stdout.strip()).listen(
        taskIds=[t, u])
    a = o.next()["params"]["notifications"]
    ok(a == {}, "another is told of none", a)
    n = Listener(d).listen(taskIds=[t, u, "0" * 32])
    a = n.next()
    ok(a["method"] == "notifications/subscriptions/acknowledged" and
       set(a["params"]["notifications"]["taskIds"]) == {t, u},
       "its own are acknowledged", a)
    first = [n.next() for _ in range(2)]
    ok({f["params"]["taskId"] for f in first} == {t, u} and
       all(f["method"] == "notifications/tasks" and
           f["params"]["status"] == "working" for f in first),
       "how they stand is told at once", first)
    h.run(box, "touch /tmp/tell", tasks=False)
    m = n.next()
    g = h.get(t)["result"]
    g.pop("resultType"), g.pop("_meta")
    p = dict(m["params"])
    ok(p.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": "L"} and
       p == g and p["status"] == "completed",
       "the end is told as tasks/get says it", (m, g))
    h.cancel(u)
    m = n.next()
    ok(m["params"]["taskId"] == u and m["params"]["status"] == "cancelled",
       "so is a cancel", m)
    n.c.close(), o.c.close()


def answer(h, task, **responses):
    return h.m("tasks/update", task, taskId=task, inputResponses={
        k: v if isinstance(v, dict) and "action" in v else
        {"action": "accept", "content": v} for k, v in responses.items()})


def ask_one(h):
    r = h.start("confirm_delete", filename="f")["result"]
    ok(r["resultType"] == "task" and "inputRequests" not in r,
       "a tool that asks is a task first", r)
    t = r["taskId"]
    g = h.wait(t, until=("input_required",))
    ok(g["status"] == "input_required" and g["resultType"] == "complete" and
       set(g) <= MEMBERS | {"inputRequests"} and g["ttlMs"] is None and
       g["inputRequests"]["confirm"]["method"] == "elicitation/create" and
       g["inputRequests"]["confirm"]["params"]["mode"] == "form",
       "then its client is asked", g)
    e = answer(h, t, confirm={"action": 5})["error"]
    ok(e["code"] == -32602 and
       h.get(t)["result"]["inputRequests"] == g["inputRequests"],
       "what is no answer is refused, and asked still", e)
    a = answer(h, t, other={"x": 1}, confirm={"confirm": True})["result"]
    ok(set(a) == {"resultType", "_meta"}, "an answer is acknowledged", a)
    g = h.wait(t)
    ok(g["status"] == "completed" and "inputRequests" not in g and
       g["result"]["content"][0]["text"] == "Deleted f",
       "and the tool goes on with it", g)
    a = answer(h, t, confirm={"confirm": False})["result"]
    ok(h.get(t)["result"] == g, "a late one changes nothing", a)


def ask_more(h):
    t = h.start("multi_input")["result"]["taskId"]
    g = h.wait(t, until=("input_required",))
    ok(set(g["inputRequests"]) == {"name", "confirm"}, "two at once", g)
    answer(h, t, name={"name": "Ann"})
    g = h.get(t)["result"]
    ok(g["status"] == "input_required" and
       set(g["inputRequests"]) == {"confirm"}, "one answered, one left", g)
    answer(h, t, name={"name": "Eve"}, confirm={"confirm": True})
    g = h.wait(t)
    ok(g["result"]["content"][0]["text"] == "Ann: sure",
       "the first answer counts", g)
    t = h.start("asks_again")["result"]["taskId"]
    seen = set()
    for n in range(3):
        g = h.wait(t, until=("input_required",))
        keys = set(g.get("inputRequests", {}))
        ok(len(keys) == 1 and not keys & seen,
           "a key of the tool's that comes again is another for the client",
           (g, seen))
        old, seen = seen, seen | keys
        answer(h, t, **{k: {"word": "no"} for k in old})
        ok(h.get(t)["result"]["status"] == "input_required",
           "what is answered to an old key is ignored")
        answer(h, t, **{k: {"word": "yes" if n == 2 else "no"}
                        for k in keys})
    g = h.wait(t)
    ok(g["status"] == "completed" and
       g["result"]["content"][0]["text"] == "yes", "until it is right", g)
    t = h.start("asks_again")["result"]["taskId"]
    for _ in range(8):
        g = h.wait(t, until=("input_required",) + ENDS)
        answer(h, t, **{k: {"word": "no"}
                        for k in g.get("inputRequests", {})})
    g = h.wait(t)
    ok(g["result"]["structuredContent"]["code"] == "too_many_rounds",
       "but not for ever", g)


def test_input():
    with fixture.programs() as build:
        web.BUILD = build
        d = Daemon()
        try:
            h = Client(d)
            h.can = {"elicitation": {}}
            ask_one(h)
            ask_more(h)
            t = h.start("confirm_delete", filename="g")["result"]["taskId"]
            h.wait(t, until=("input_required",))
            h.cancel(t)
            g = h.get(t)["result"]
            ok(g["status"] == "cancelled" and "inputRequests" not in g,
               "one that waits for its client can be cancelled", g)
            o = Client(d, d.sbx("token", "add", "other").stdout.strip())
            t = h.start("confirm_delete", filename="h")["result"]["taskId"]
            h.wait(t, until=("input_required",))
            e = answer(o, t, confirm={"confirm": True})["error"]
            ok(e["code"] == -32602 and h.get(t)["result"]["status"] ==
               "input_required", "another cannot answer for it", e)
            h.can = {}
            t = h.start("confirm_delete", filename="i")["result"]["taskId"]
            g = h.wait(t)
            ok(g["status"] == "failed" and g["error"]["code"] == -32021 and
               g["statusMessage"], "who cannot be asked is not", g)
            t = h.start("protocol_error_job")["result"]["taskId"]
            g = h.wait(t)
            ok(g["status"] == "failed" and g["error"]["code"] == -32603 and
               g["statusMessage"] == g["error"]["message"] and
               "result" not in g, "a JSON-RPC error is a failed task", g)
            e = h.start("failing_job", False)["error"]
            ok(e["code"] == -32021, "a tool may be nothing but a task", e)
            ids = [h.start("failing_job")["result"]["taskId"]
                   for _ in range(24)]
            r = h.start("failing_job")["result"]["structuredContent"]
            ok(r["status"] == "busy", "no more than 32 of a principal", r)
            r = o.start("failing_job")["result"]
            ok(r["resultType"] == "task", "another's are not full", r)
            g = h.wait(ids[-1])
            ok(g["status"] == "completed" and g["result"]["isError"],
               "those that are there end well", g)
        finally:
            d.close()
            web.BUILD = os.environ["SBX_BUILD"]


def test_stdio():
    with mcp.Suite() as s:
        def ask(method, timeout=30, **params):
            return s.request(method, dict(params, _meta=meta()), timeout)
        box = ask("tools/call", name="sandbox_initialize", arguments={
            "image": "host"})["structuredContent"]["container_id"]
        r = ask("tools/call", name="sandbox_exec", arguments={
            "container_id": box, "argv": ["sleep", "3"]})
        ok(r["resultType"] == "task", "on stdio, too", r)
        until(lambda: ask("tasks/get", taskId=r["taskId"])["status"] in ENDS)
        g = ask("tasks/get", taskId=r["taskId"])
        ok(g["status"] == "completed", "and its result", g)
        r = ask("tools/call", name="sandbox_exec", arguments={
            "container_id": box, "argv": ["sleep", "7196"]})
        ok(r["resultType"] == "task", "another one", r)
    ok(until(lambda: count("7196") == 0), "the end of input ends it")


def main():
    d = Daemon()
    tests = {k: v for k, v in globals().items() if k.startswith("test_") and
             (len(sys.argv) < 2 or k in sys.argv[1:])}
    try:
        for name, test in tests.items():
            try:
                if name in ("test_stdio", "test_input"):
                    test()
                elif name in ("test_declared", "test_many"):
                    test(d)
                else:
                    box = Client(d).box()
                    test(d, box)
                    Client(d).start("sandbox_stop", container_id=box)
            except Exception as e:  # pylint: disable=broad-except
                import traceback
                ok(False, f"{name}: {e!r}", traceback.format_exc())
    finally:
        d.close()
    tap.done()
    sys.exit(tap.bad > 0)


if __name__ == "__main__":
    main()
