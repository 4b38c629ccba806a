"""A model on loopback that plays a script: what agents are driven with, so
that their real MCP clients call our tools and nothing leaves the machine.

    with model.Model(steps) as m:       # m.url
        ...                             # m.results: what the tools said

steps: (tool, function from the last result's text to its arguments).  The
tool is the one whose name ends so.  Who shows no such tool is answered with
a word.  Anthropic's messages and OpenAI's chat completions, with and without
streaming.
"""
import http.server
import json
import threading


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(c.get("text", "") for c in content if isinstance(c, dict))


class Model:
    def __init__(self, steps):
        self.steps, self.results, self.asked = steps, [], 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({"data": []})

            do_HEAD = do_GET

            def do_POST(self):
                body = json.loads(self.rfile.read(int(
                    self.headers.get("Content-Length", 0))) or b"{}")
                outer.asked += 1
                if self.path.startswith("/v1/messages/count_tokens"):
                    return self.answer({"input_tokens": 1})
                kind = outer.anthropic if "/messages" in self.path else \
                    outer.openai
                events, whole = kind(body)
                if body.get("stream"):
                    return self.stream(events)
                return self.answer(whole)

            def answer(self, o):
                data = json.dumps(o).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def stream(self, events):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                for name, o in events:
                    head = f"event: {name}\n" if name else ""
                    data = o if isinstance(o, str) else json.dumps(o)
                    self.wfile.write(f"{head}data: {data}\n\n".encode())
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever,
                         daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def next(self, names, results):
        """(tool, arguments), or (None, the last word)"""
        n = len(results)
        if not any(x.endswith(self.steps[0][0]) for x in names):
            return None, "ok"
        self.results = results
        if n >= len(self.steps):
            return None, "all done"
        tool, make = self.steps[n]
        name = [x for x in names if x.endswith(tool)][0]
        try:
            return name, make(results[-1] if results else "")
        except (ValueError, KeyError, TypeError) as e:
            return None, f"step {n}: {e!r}"

    def anthropic(self, body):
        results = [text_of(c["content"]) for m in body["messages"]
                   if isinstance(m["content"], list) for c in m["content"]
                   if c.get("type") == "tool_result"]
        name, what = self.next([t["name"] for t in body.get("tools", [])],
                               results)
        block = {"type": "text", "text": what} if name is None else {
            "type": "tool_use", "id": f"toolu_{len(results)}", "name": name,
            "input": what}
        stop = "end_turn" if name is None else "tool_use"
        whole = {"id": "msg_1", "type": "message", "role": "assistant",
                 "model": body.get("model"), "content": [block],
                 "stop_reason": stop, "stop_sequence": None,
                 "usage": {"input_tokens": 1, "output_tokens": 1}}
        empty = dict(block, **({"text": ""} if name is None else
                               {"input": {}}))
        delta = {"type": "text_delta", "text": what} if name is None else {
            "type": "input_json_delta", "partial_json": json.dumps(what)}
        events = [
            {"type": "message_start", "message": dict(
                whole, content=[], stop_reason=None)},
            {"type": "content_block_start", "index": 0,
             "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {
                "stop_reason": stop, "stop_sequence": None},
             "usage": {"output_tokens": 1}},
            {"type": "message_stop"}]
        return [(e["type"], e) for e in events], whole

    def openai(self, body):
        results = [text_of(m["content"]) for m in body["messages"]
                   if m["role"] == "tool"]
        name, what = self.next([t["function"]["name"] for t in
                                body.get("tools", [])], results)
        message = {"role": "assistant", "content": what} if name is None \
            else {"role": "assistant", "content": None, "tool_calls": [{
                "index": 0, "id": f"call_{len(results)}",
                "type": "function", "function": {
                    "name": name, "arguments": json.dumps(what)}}]}
        stop = "stop" if name is None else "tool_calls"
        base = {"id": "c1", "created": 1, "model": body.get("model")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1,
                 "total_tokens": 2}
        whole = dict(base, object="chat.completion", usage=usage, choices=[{
            "index": 0, "message": message, "finish_reason": stop}])
        chunk = dict(base, object="chat.completion.chunk")
        events = [
            dict(chunk, choices=[{"index": 0, "delta": message,
                                  "finish_reason": None}]),
            dict(chunk, choices=[{"index": 0, "delta": {},
                                  "finish_reason": stop}], usage=usage),
            "[DONE]"]
        return [(None, e) for e in events], whole
