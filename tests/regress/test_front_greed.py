#!/usr/bin/env python3
"""The front's HTTP among clients that take all they can: what one of them
holds is never what another one needs, and nothing stays of who has gone."""
import json
import os
import select
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import front_monitor  # noqa: E402
from front_monitor import Front, META, MODERN, P, Tap  # noqa: E402
import ipc  # noqa: E402

t = Tap()
BOTH = "application/json, text/event-stream"
INPUT = 3          # SBX_RESULT_INPUT
FORM = {"method": "elicitation/create", "params": {
    "message": "m", "requestedSchema": {"type": "object", "properties": {}}}}
TASKS = dict(META, **{P + "clientCapabilities": {"extensions": {
    "io.modelcontextprotocol/tasks": {}}}})


class Wire:
    """One connection, as bytes: pipelining and leaving in the middle."""

    def __init__(self, w, token):
        self.w, self.token, self.buf = w, token, b""
        self.s = socket.create_connection(("127.0.0.1", w.port), timeout=10)

    @staticmethod
    def bytes(token, method, path="/mcp", body=None, session=None, more=""):
        head = ("%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n"
                "Authorization: Bearer %s\r\n" % (method, path, BOTH, token))
        if session:
            head += "Mcp-Session-Id: %s\r\n" % session
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else \
                json.dumps(body).encode()
            head += ("Content-Type: application/json\r\nContent-Length: %d"
                     "\r\n" % len(data))
        return (head + more + "\r\n").encode() + data

    def send(self, method, path="/mcp", body=None, session=None, more=""):
        self.s.sendall(self.bytes(self.token, method, path, body, session,
                                  more))
        self.w.known(self.token)

    def recv(self):
        end = time.monotonic() + self.s.gettimeout()
        while True:
            mon = self.w.f.mon.sock
            ready = select.select([self.s, mon], [], [], max(
                0, end - time.monotonic()))[0]
            if self.s in ready:
                return self.s.recv(1 << 20)
            if not ready:
                raise TimeoutError()
            self.w.pump()

    def until(self, end):
        while end not in self.buf:
            data = self.recv()
            if not data:
                return None
            self.buf += data
        text, _, self.buf = self.buf.partition(end)
        return text + end

    def head(self):
        """status, headers by their lower names"""
        text = self.until(b"\r\n\r\n")
        if text is None:
            return 0, {}
        lines = text.decode().split("\r\n")
        return int(lines[0].split()[1]), {
            k.lower(): v.strip() for k, _, v in
            (x.partition(":") for x in lines[1:] if x)}

    def answer(self):
        """status, headers and the whole body of an answer that is no stream"""
        status, h = self.head()
        n = int(h.get("content-length", 0))
        while len(self.buf) < n:
            data = self.recv()
            if not data:
                break
            self.buf += data
        body, self.buf = self.buf[:n], self.buf[n:]
        return status, h, body

    def close(self):
        self.s.close()


class Web:
    """HTTP of a front; the monitor here knows every token of one letter."""

    def __init__(self, args=()):
        self.f = Front(stdio=False, args=args)
        self.seen = {}
        self.take, self.f.mon._one = self.f.mon._one, self.one
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen(200)
            self.port = s.getsockname()[1]
            self.f.mon.send("FRONT_LISTEN", 0, [s.fileno()], kind=1)

    def known(self, token):
        if token not in self.seen.values():
            m = self.f.mon.recv(want="FRONT_TOKEN")
            self.seen[m["number"]] = token
            self.tell(m["number"])

    def tell(self, number):
        self.f.mon.send("FRONT_USER", number=number,
                        principal=ord(self.seen[number]))

    def one(self, end):
        """the next message but those that ask again for a known token"""
        while True:
            m = self.take(end)
            if m.name != "FRONT_TOKEN" or m["number"] not in self.seen:
                return m
            self.tell(m["number"])

    def pump(self):
        try:
            self.f.mon.kept.append(self.one(time.monotonic()))
        except ipc.Timeout:
            pass

    def ask(self, token, *args, **kw):
        c = Wire(self, token)
        c.send(*args, **kw)
        got = c.answer()
        c.close()
        return got

    def session(self, token, version="2025-11-25", can=None):
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": can or {},
            "clientInfo": {"name": "t", "version": "1"}}}
        return self.ask(token, "POST", body=body)[1]["mcp-session-id"]

    def pair(self, token):
        """of 2024-11-05, initialized as 2025-03-26: its stream, a connection
        for messages, and their path"""
        pair, post = Wire(self, token), Wire(self, token)
        pair.send("GET", "/sse")
        pair.head()
        path = pair.until(b"\n\n").decode().split("data: ")[1].strip()
        post.send("POST", path, {
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-03-26", "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}})
        t.ok(post.answer()[0] == 202, "the pair: a message is taken")
        return pair, post, path

    def ping(self, token, session):
        return self.ask(token, "POST", session=session, body={
            "jsonrpc": "2.0", "id": 1, "method": "ping"})[0]

    def modern(self, c, method, name=None, meta=META, session=None, **params):
        more = "MCP-Protocol-Version: %s\r\nMcp-Method: %s\r\n" % (
            MODERN, method)
        if name:
            more += "Mcp-Name: %s\r\n" % name
            params["name"] = name
        c.send("POST", session=session, more=more, body={
            "jsonrpc": "2.0", "id": 1, "method": method,
            "params": dict(params, _meta=meta)})

    def state(self, name):
        """a number of what the front says of itself"""
        self.f.mon.send("PING", 7)
        m = self.f.mon.recv(want="PONG")
        return int(dict(x.split("=") for x in m["state"].split())[name])

    def end(self):
        t.ok(self.f.end() == 0, "the front ends well")


def tool(mid, name="sandbox_exec"):
    return {"jsonrpc": "2.0", "id": mid, "method": "tools/call",
            "params": {"name": name, "arguments": {}}}


def test_streams():
    """streams of GET whose clients are gone, more than there is room for"""
    w = Web()
    b = w.session("b")
    sessions = [w.session("a") for _ in range(321)]
    for s in sessions * 4:
        c = Wire(w, "a")
        c.send("GET", session=s)
        status = c.head()[0]
        c.close()
    t.ok(status == 200, "streams that are left behind leave room for a new "
         "one", status)
    t.ok(w.ping("b", b) == 200, "and for another client's")
    w.end()


def test_pair():
    """the pair's session is no session of /mcp"""
    w = Web()
    pair, post, path = w.pair("a")
    sid = path.split("=")[1]
    post.send("POST", path, [tool(1), tool(2)])
    post.answer()
    calls = [w.f.call()["call"] for _ in range(2)]
    gets = []
    for _ in range(5):
        gets.append(Wire(w, "a"))
        gets[-1].send("GET", session=sid)
        status = gets[-1].head()[0]
    t.ok(status == 404, "GET of /mcp does not know it", status)
    t.ok(w.ping("a", sid) == 404, "nor does POST")
    t.ok(w.ask("a", "DELETE", session=sid)[0] == 404, "nor DELETE")
    for n in calls:
        w.f.result(n, {})
    t.ok(pair.until(b'"id":2') is not None, "its batch is answered")
    w.end()


def test_listen():
    """a subscription whose client goes before it is granted"""
    w = Web()
    s = w.session("a")
    c = Wire(w, "a")
    w.modern(c, "subscriptions/listen", session=s, notifications={
        "resourceSubscriptions": ["sbx://run/0123456789abcdef/stdout"]})
    n = w.f.call()["call"]
    c.close()
    end = time.monotonic() + 5
    while w.state("http") > 0 and time.monotonic() < end:
        time.sleep(0.02)
    t.ok(w.state("calls") == 0, "who leaves before it is granted listens no "
         "more", w.state("calls"))
    w.f.result(n, {"granted": []})
    t.ok(w.state("calls") == 0, "nor when it is granted")
    w.end()


def test_whose():
    """what the monitor says of a run reaches the handle that it names"""
    w = Web()
    uri = "sbx://run/0123456789abcdef/stdout"
    listens = {}
    for token in "ab":
        c = listens[token] = Wire(w, token)
        w.modern(c, "subscriptions/listen", notifications={
            "resourceSubscriptions": [uri]})
        w.f.result(w.f.call()["call"], {"granted": [
            {"uri": uri, "watch": "0123456789abcdef"}]})
        c.head()
        t.ok(uri.encode() in c.until(b"acknowledged") + c.until(b"\n\n"),
             token + ": listens")
    for principal, run in (("c", "0123456789abcdef"),
                           ("a", "fedcba9876543210")):
        w.f.mon.send("RUN_CHANGED", principal=ord(principal), run=run)
    m = w.f.mon.recv(want="RUN_UNWATCH")
    t.ok(m["principal"] == ord("a") and m["run"] == "fedcba9876543210",
         "of what nobody wants to know the monitor is told so", m)
    for c in listens.values():
        c.s.settimeout(0.3)
    w.f.mon.send("RUN_CHANGED", principal=ord("a"), run="0123456789abcdef")
    t.ok(listens["a"].until(b"resources/updated"), "its own is told")
    told = b""
    try:
        told = listens["b"].recv()
    except TimeoutError:
        pass
    t.ok(b"updated" not in listens["b"].buf + told, "another's is not", told)
    w.end()


def test_lag():
    """calls and cancels faster than the monitor reads them"""
    w = Web()
    pair, post, path = w.pair("a")      # held, or its session ends
    batch = []
    for i in range(32):
        batch += [tool(i), {"jsonrpc": "2.0",
                            "method": "notifications/cancelled",
                            "params": {"requestId": i}}]
    one = Wire.bytes("a", "POST", path, batch)
    post.s.settimeout(1)
    sent = 0
    try:
        for _ in range(60):
            post.s.sendall(one)
            sent += 1
    except OSError:
        pass
    time.sleep(0.5)
    n = 0
    w.f.mon.send("PING", 7)
    try:
        while True:
            m = w.f.mon.recv(10)
            m.close()
            n += 1
            if m.name == "PONG":
                break
        alive = True
    except Exception as e:      # noqa: BLE001
        alive = repr(e)
    t.ok(alive is True, "a monitor that lags behind does not end the front",
         (alive, n, sent))
    if alive is True:
        post.close()
        pair.close()
        w.f.mon.close()
        w.f.proc.wait(10)


def test_unread():
    """requests whose answers nobody reads"""
    w = Web()
    s = w.session("a")
    c = Wire(w, "a")
    one = Wire.bytes("a", "POST", session=s, body={
        "jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    c.s.sendall(one * 2400)
    peak, still = 0, 0
    while still < 10:           # it does nothing any more
        time.sleep(0.1)
        with open("/proc/%d/stat" % w.f.proc.pid, encoding="ascii") as f:
            used = f.read().rsplit(")", 1)[1].split()[11:13]
        still = still + 1 if used == peak else 0
        peak = used
    got = 0
    try:
        while got < 2400 and c.answer()[0] == 200:
            got += 1
    except OSError:
        pass
    t.ok(got == 2400, "requests wait while answers are not read, and all are "
         "answered then", got)
    w.end()


def test_calls():
    """calls that wait for their clients"""
    w = Web()
    for _ in range(4):
        s = w.session("a", can={"elicitation": {}})
        for i in range(64):
            c = Wire(w, "a")
            c.send("POST", session=s, body=tool(i))
            try:
                m = w.f.mon.recv(0.3, want="CALL")
            except ipc.Timeout:
                break
            w.f.result(m["call"], {"inputRequests": {"k": FORM}}, INPUT)
            m.close()
            c.head()
            c.close()
    s = w.session("b")
    c = Wire(w, "b")
    c.send("POST", session=s, body=tool(1))
    try:
        room = w.f.mon.recv(2, want="CALL") is not None
    except ipc.Timeout:
        room = False
    t.ok(room, "calls that wait for one's client leave room for another's")
    w.end()


def test_task_bytes():
    """results of tasks that nobody takes"""
    w = Web()

    def task(token, text):
        c = Wire(w, token)
        w.modern(c, "tools/call", "sandbox_exec", TASKS, arguments={})
        n = w.f.call()["call"]
        status, _, body = c.answer()
        tid = json.loads(body)["result"]["taskId"]
        w.f.result(n, {"x": text})
        c.close()
        return tid

    def get(token, tid):
        c = Wire(w, token)
        c.send("POST", more="MCP-Protocol-Version: %s\r\nMcp-Method: "
               "tasks/get\r\nMcp-Name: %s\r\n" % (MODERN, tid), body={
                   "jsonrpc": "2.0", "id": 1, "method": "tasks/get",
                   "params": {"taskId": tid, "_meta": TASKS}})
        r = json.loads(c.answer()[2])
        c.close()
        return r["result"]["status"] if "result" in r else r

    for size in [4000000] * 8 + [1500000]:
        task("a", "x" * size)
    tid = task("b", "y" * 200000)
    state = get("b", tid)
    t.ok(state == "completed", "results that one client does not take leave "
         "room for another's", state)
    w.end()


def test_headers():
    """a header that is there twice"""
    w = Web()
    w.session("a")
    for name, value, other in (("Mcp-Name", "sandbox_exec", "sandbox_stop"),
                               ("Mcp-Method", "tools/call", "tools/list")):
        more = ("MCP-Protocol-Version: %s\r\nMcp-Method: tools/call\r\n"
                "Mcp-Name: sandbox_exec\r\n%s: %s\r\n" % (MODERN, name,
                                                          other))
        c = Wire(w, "a")
        c.send("POST", more=more, body={
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "sandbox_exec", "arguments": {}, "_meta": META}})
        c.s.settimeout(3)
        try:
            status = c.answer()[0]
        except OSError:
            status = "served"
        t.ok(status == 400, name + " twice, which two readers could "
             "understand differently: 400", status)
        c.close()
    w.end()


def test_resume():
    """the older of two streams of GET is gone on with"""
    w = Web()
    s = w.session("a")
    ids = []
    for _ in range(2):
        c = Wire(w, "a")
        c.send("GET", session=s)
        c.head()
        ids.append(c.until(b"\n\n").decode().split("id: ")[1].split("\n")[0])
        c.close()
        time.sleep(0.1)
    post = Wire(w, "a")
    post.send("POST", session=s, body={
        "jsonrpc": "2.0", "id": 5, "method": "resources/subscribe",
        "params": {"uri": "sbx://run/0123456789abcdef/stdout"}})
    w.f.result(w.f.call()["call"], {"granted": [{
        "uri": "sbx://run/0123456789abcdef/stdout", "watch": "w"}]})
    post.answer()
    c = Wire(w, "a")
    c.send("GET", session=s, more="Last-Event-ID: %s\r\n" % ids[0])
    c.head()
    w.f.mon.send("RUN_CHANGED", principal=ord("a"), run="w", ended=1)
    c.s.settimeout(3)
    try:
        got = c.until(b"resources/updated")
    except OSError:
        got = None
    t.ok(got is not None, "the stream that is gone on with is told")
    w.end()


def test_kept():
    """answers that nobody took: much in a session, little in another"""
    front_monitor.FRONT = front_monitor.FRONT.replace("sbxd-front",
                                                      "front-hasty")
    w = Web()               # keeps 1 MiB of events
    ids = []
    for token, size in [("b", 1000)] + [("a", 400000)] * 4:
        session = w.session(token)
        c = Wire(w, token)
        c.send("POST", session=session, body=dict(
            tool(5), params={"name": "sandbox_exec", "arguments": {},
                             "_meta": {"progressToken": 1}}))
        number = w.f.call()["call"]
        w.f.mon.send("CALL_PROGRESS", call=number, done=1, message="m")
        c.head()
        ids.append((token, session, c.until(b"-0").split(b"id: ")[-1]))
        c.close()
        w.ping(token, session)      # its going is seen before the result
        w.f.result(number, {"status": "ok", "x": "x" * size})
        w.ping(token, session)
    sizes = []
    for token, session, last in ids:
        c = Wire(w, token)
        c.send("GET", session=session, more="Last-Event-ID: %s\r\n" %
               last.decode())
        good = c.head()[0] == 200
        sizes.append(c.until(b"0\r\n\r\n").count(b"x") if good else 0)
        c.close()
    t.ok(sizes[0] > 1000, "a small answer is kept beside large ones", sizes)
    t.ok(sum(n > 100000 for n in sizes) == 1, "all of them have a limit",
         sizes)
    w.end()


def test_bodies():
    """long requests that do not end"""
    front_monitor.FRONT = front_monitor.FRONT.replace("sbxd-front",
                                                      "front-hasty")
    w = Web()               # takes 1 MiB of bodies
    sessions = {x: w.session(x) for x in "ab"}
    half = []
    for size in [262000] * 4 + [300] * 4:
        c = Wire(w, "a")
        data = Wire.bytes("a", "POST", session=sessions["a"],
                          body=b" " * size)
        c.s.sendall(data[:-10])
        half.append(c)
        time.sleep(0.1)
        w.pump()
    t.ok(w.ping("b", sessions["b"]) == 200, "requests of one client that do "
         "not end leave room for another's")
    for c in half:
        c.close()
    end = time.monotonic() + 5
    while w.state("http") > 0 and time.monotonic() < end:
        time.sleep(0.02)
    t.ok(w.ping("a", sessions["a"]) == 200, "and for its own when they are "
         "over")
    w.end()


which = sys.argv[1:] or [n for n in dict(globals()) if n.startswith("test_")]
for name in which:
    print("# " + name)
    globals()[name]()
t.done()
sys.exit(t.bad > 0)
