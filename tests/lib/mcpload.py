"""Clients that cost little, for many requests: bytes made once, answers found
by their framing and not parsed.  They speak with any MCP server."""
import json
import os
import selectors
import socket
import time

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {},
         "clientInfo": {"name": "load", "version": "1"}}


class Gone(Exception):
    """the server closed the connection, or answered with an error"""


def good(answer):
    if b'"isError":true' in answer or b'"error":{' in answer[:400]:
        raise Gone(answer[:400])


def message(method, params=None, number=1):
    m = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        m["id"] = number
    if params is not None:
        m["params"] = params
    return json.dumps(m, separators=(",", ":")).encode()


class Lines:
    """One message a line, on a pair of descriptors."""

    def __init__(self, fd_in, fd_out):
        self.fd_in, self.fd_out, self.buf = fd_in, fd_out, b""
        self.ask(self.make("initialize", HELLO, 0))
        os.write(fd_in, message("notifications/initialized", None, None) +
                 b"\n")

    def make(self, method, params=None, number=1):
        return message(method, params, number) + b"\n"

    def ask(self, data):
        os.write(self.fd_in, data)
        while True:
            n = self.buf.find(b"\n")
            if n >= 0:
                line, self.buf = self.buf[:n], self.buf[n + 1:]
                return line
            part = os.read(self.fd_out, 1 << 18)
            if not part:
                raise Gone()
            self.buf += part


class Web:
    """One connection of Streamable HTTP; session "": none is begun."""

    def __init__(self, port, token=None, session=None):
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf, self.session = b"", session or ""
        self.head = ("Host: 127.0.0.1:%d\r\nAccept: %s\r\n" % (port, BOTH) +
                     (f"Authorization: Bearer {token}\r\n" if token else ""))
        if session is None:
            self.begin()

    def begin(self):
        answer = self.ask(self.make("initialize", HELLO, 0))
        for line in answer.split(b"\r\n\r\n")[0].split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name.lower() == b"mcp-session-id":
                self.session = value.decode()
        self.ask(self.make("notifications/initialized", None, None))

    def request(self, method, more="", body=b"", path="/mcp"):
        more += f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        if body:
            more += ("Content-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n")
        return (f"{method} {path} HTTP/1.1\r\n{self.head}{more}\r\n"
                ).encode() + body

    def make(self, method, params=None, number=1):
        return self.request("POST", body=message(method, params, number))

    def modern(self, method, params=None, name=None):
        """a request of the revision without sessions"""
        more = f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n"
        if name:
            more += f"Mcp-Name: {name}\r\n"
        return self.request("POST", more, message(
            method, dict(params or {}, _meta=META)))

    def take(self):
        """an answer that is whole, or None"""
        n = self.buf.find(b"\r\n\r\n")
        if n < 0:
            return None
        head = self.buf[:n].lower()
        at = head.find(b"\r\ncontent-length: ")
        if at >= 0:
            end = n + 4 + int(head[at + 18:].split(b"\r\n", 1)[0])
        elif b"\r\ntransfer-encoding: chunked" in head:
            end = self.buf.find(b"\r\n0\r\n\r\n", n)
            end = end + 7 if end >= 0 else len(self.buf) + 1
        else:
            end = n + 4
        if len(self.buf) < end:
            return None
        answer, self.buf = self.buf[:end], self.buf[end:]
        return answer

    def receive(self):
        part = self.sock.recv(1 << 18)
        if not part:
            raise Gone()
        self.buf += part
        return self.take()

    def ask(self, data):
        self.sock.sendall(data)
        while True:
            answer = self.receive()
            if answer is not None:
                return answer

    def close(self):
        self.sock.close()


LIST = {"name": "sandbox_list_containers", "arguments": {}}


def a_run(client):
    """A call that reads what one run wrote; of LIST, four are served at once,
    of this one 24."""
    answer = client.ask(client.make("tools/call", {
        "name": "run_container_and_exec", "arguments": {
            "commands": ["echo one line"], "image": "host"}}))
    good(answer)
    text = answer[answer.index(b'{"jsonrpc"'):].split(b"\r\n")[0]
    text = text.split(b"\n")[0]
    return {"name": "read_output", "arguments": {"run_id": json.loads(
        text)["result"]["structuredContent"]["run_id"]}}


def in_turn(client, data, calls):
    """seconds each of so many requests took, one after the other"""
    out, now = [], time.perf_counter
    for _ in range(calls):
        began = now()
        answer = client.ask(data)
        out.append(now() - began)
        good(answer)
    return out


def at_once(clients, make, calls, check=good):
    """The same of Web clients together: each asks again when answered."""
    sel, out, now, left = selectors.DefaultSelector(), [], \
        time.perf_counter, calls
    began = {}
    for c in clients:
        sel.register(c.sock, selectors.EVENT_READ, (c, make(c)))
    for c in clients[:calls]:
        began[c] = now()
        c.sock.sendall(sel.get_key(c.sock).data[1])
        left -= 1
    while len(out) < calls:
        ready = sel.select(30)
        if not ready:
            raise Gone()
        for key, _ in ready:
            c, data = key.data
            answer = c.receive()
            if answer is None:
                continue
            out.append(now() - began[c])
            check(answer)
            if left > 0:
                left -= 1
                began[c] = now()
                c.sock.sendall(data)
    sel.close()
    return out


def steady(clients, make, rate, seconds):
    """So many requests a second from all together, whatever the answers
    take: the seconds from when each was due."""
    out, now, due = [], time.perf_counter, {}
    sel, idle, turn = selectors.DefaultSelector(), list(clients), 0
    data = {c: make(c) for c in clients}
    for c in clients:
        sel.register(c.sock, selectors.EVENT_READ, c)
    begin = now()
    while len(out) < rate * seconds:
        while idle and turn < rate * seconds and \
                now() >= begin + turn / rate:
            c = idle.pop(0)
            due[c] = begin + turn / rate
            turn += 1
            c.sock.sendall(data[c])
        wait = begin + turn / rate - now() if turn < rate * seconds else 30
        ready = sel.select(max(0.0005, wait))
        if not ready and wait == 30:
            raise Gone()
        for key, _ in ready:
            answer = key.data.receive()
            if answer is None:
                continue
            out.append(now() - due[key.data])
            good(answer)
            idle.append(key.data)
    sel.close()
    return out


def quantile(samples, q):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * q))]


def pss_kib(pid, field="Pss"):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith(field + ":"))


def crowd(port, token, count):
    """So many connections that ask for nothing more: a half is kept alive, a
    quarter each listens in a session and without one."""
    out = []
    for i in range(count):
        c = Web(port, token, None if i % 4 == 0 else "")
        if i % 4 == 0:
            data = c.request("GET")
        elif i % 4 == 1:
            data = c.modern("subscriptions/listen", {"notifications": {}})
        else:
            data = c.modern("tools/list")
        c.sock.sendall(data)
        while c.receive() is None and (
                i % 4 > 1 or b"\r\n\r\n" not in c.buf):
            pass
        out.append(c)
    return out


def churn(clients, port, token, calls, call=LIST):
    """So many calls, of which some begin a session that is ended, or not, and
    some clients go while they wait."""
    done = 0
    while done < calls:
        n = min(200, calls - done)
        # some are told busy, while those that went are not forgotten yet
        at_once(clients, lambda c: c.make("tools/call", call), n, len)
        done += n
        one = Web(port, token)
        one.ask(one.make("tools/call", call))
        one.sock.sendall(one.request("DELETE"))
        one.receive()
        one.close()
        for method in ("GET", "POST"):
            one = Web(port, token)
            one.sock.sendall(one.request("GET") if method == "GET" else
                             one.make("tools/call", call))
            one.close()
        one = Web(port, token, "")
        one.sock.sendall(one.modern("tools/call", call, call["name"]))
        one.close()
