"""What a test's client and the server said to each other, as JSON lines in
the directory SBX_MCP_RECORD: one file a connection, or a process for HTTP.

The first line says what the connection is; each other one has "d" (">" to the
server, "<" from it) and "m", the message, or "many" lines.  Of what goes to the server only
what tells how to judge the answer is kept, and nothing of what is not JSON:
tests send that on purpose.  check_messages.py reads it all.
"""
import itertools
import json
import os
import sys
import threading

_numbers = itertools.count(1)
SHORT = 4096    # bytes of a line
_KEPT = ("name", "uri", "_meta", "task", "protocolVersion")


def reduced(message):
    """a request or notification without its payload"""
    if isinstance(message, list):
        return [reduced(m) for m in message]
    if not isinstance(message, dict):
        return None
    out = {k: message[k] for k in ("id", "method") if k in message}
    params = message.get("params")
    if isinstance(params, dict):
        out["params"] = {k: params[k] for k in _KEPT if k in params}
    return out


class Recorder:
    """fake: what answers is a test's, too, so its tools return anything."""

    def __init__(self, transport, fake=False):
        self.about = {"transport": transport, "fake": fake,
                      "test": os.path.basename(sys.argv[0])}
        self.dir = os.environ.get("SBX_MCP_RECORD")
        self.file = self.pid = None
        self.out = b""              # of the client's last line, so far
        self.lock = threading.Lock()

    def _write(self, **record):
        if self.dir:
            self._line(json.dumps(record))

    def _line(self, text):
        with self.lock:
            if self.pid != os.getpid():     # at first, and after a fork
                self.pid = os.getpid()
                try:
                    os.makedirs(self.dir, exist_ok=True)
                    self.file = open(  # pylint: disable=consider-using-with
                        f"{self.dir}/{self.pid}-{next(_numbers)}.jsonl", "x",
                        encoding="utf-8", buffering=1)
                except PermissionError:     # played by another user than
                    self.dir = None         # who built it: not judged
                    return
                self.file.write(json.dumps(self.about) + "\n")
            self.file.write(text + "\n")

    def sent(self, data, **where):
        """bytes of lines to the server"""
        if not self.dir:
            return
        *lines, self.out = (self.out + bytes(data)).split(b"\n")
        # many at once are read later, for the server waits for them
        short = [line.decode(errors="replace") for line in lines
                 if len(line) < SHORT]
        if len(short) == len(lines) > 1:
            self._write(d=">", many=short, **where)
            return
        for line in lines:
            self.request(line, **where)

    def request(self, text, **where):
        """one message, as JSON text"""
        try:
            message = reduced(json.loads(text))
        except (ValueError, RecursionError):
            return
        self._write(d=">", m=message, **where)

    def got(self, text, **where):
        """One message of the server.  What is no JSON is kept as text, for
        that is a fault."""
        if not self.dir:
            return
        try:
            message = json.loads(text)
            if not where and isinstance(text, bytes) and b"\n" not in text:
                self._line('{"d":"<","m":' + text.decode() + "}")
            else:
                self._write(d="<", m=message, **where)
        except (ValueError, RecursionError):
            self._write(d="<", text=repr(text)[:300], **where)


class Response:
    """An HTTP response that records the messages in what is read of it."""

    def __init__(self, response, recorder, where):
        self._r, self._to, self._where = response, recorder, where
        kind = (response.getheader("Content-Type") or "").split(";")[0]
        self._stream = kind == "text/event-stream"
        self._json = kind == "application/json"
        self._seen = b""

    def __getattr__(self, name):
        return getattr(self._r, name)

    def read(self, *n):
        data = self._r.read(*n)
        self._take(data, not n or not data or self._r.isclosed())
        return data

    def readline(self, *n):
        data = self._r.readline(*n)
        self._take(data, not data)
        return data

    def _take(self, data, end):
        self._seen += data
        if self._stream:
            *blocks, self._seen = self._seen.split(b"\n\n")
            for block in blocks:
                self._event(block)
        elif self._json and end and self._seen:
            self._to.got(self._seen, **self._where)
            self._seen = b""

    def _event(self, block):
        text = "\n".join(line[6:] for line in block.decode().split("\n")
                         if line.startswith("data: "))
        if b"event: endpoint" in block.split(b"\n"):
            self._where["s"] = text.partition("session_id=")[2]
        elif text:
            self._to.got(text, **self._where)
