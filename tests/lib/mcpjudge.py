"""Judges what a server sent, from the files of mcprecord.py: each message by
the JSON schema of the revision that it was sent in, the result of each
request by the type of that request's results.
"""
import collections
import glob
import json
import os

import mcprecord
import mcpschema

VERSION = mcpschema.RESERVED + "protocolVersion"
SUBSCRIPTION = mcpschema.RESERVED + "subscriptionId"

# JSON-RPC 2.0, section 5: the id of an error is null when the request's could
# not be read; and what HTTP refuses has none by the text on the transport.
# The schemas until 2025-06-18 want an id and allow no null, so that no answer
# at all would be right by both.
NULL_ID = ("2024-11-05", "2025-03-26", "2025-06-18")
UNREADABLE = (-32700, -32600)
REFUSED = (-32022, -32602)      # a notification, which had no id

# What the extensions of a revision add, and its schema therefore lacks:
# methods whose results are of a type that is looked at loosely.
EXTENSION_METHODS = {"2026-07-28": {"tasks/get", "tasks/update",
                                    "tasks/cancel"}}
EXTENSION_NOTIFICATIONS = {"2026-07-28": {"notifications/tasks"}}
EXTENSION_FILTERS = {"2026-07-28": {"taskIds"}}    # of subscriptions/listen
EXTENSION_RESULTS = {"2026-07-28": {"task"}}    # values of resultType


def json_of(text):
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


class State:
    """one connection, or one session of HTTP"""

    def __init__(self):
        self.rev = None
        self.requests = {}      # id, as JSON: [request]

    def asked(self, key, request):
        """One more; those of the same id that were answered are dropped, but
        one that is in flight stays: its answer comes, too."""
        self.requests[key] = [r for r in self.requests.get(key, ())
                              if not r.get("done")] + [request]

    def of(self, key):
        """the requests that an answer may be to"""
        all_ = self.requests.get(key, [])
        return [r for r in all_ if not r.get("done")] or all_


class Judge:
    def __init__(self, revs):
        self.revs = revs
        self.newest = list(revs)[-1]
        self.seen = {r: collections.Counter() for r in list(revs) + [None]}
        self.bad = collections.Counter()    # (revision, sentence)
        self.where = {}                     # the first place of each
        self.outputs = {}                   # tool: its outputSchema
        self.results = []                   # of tools, for the end
        self.cache = {}
        self.here, self.fake = "", False

    def wrong(self, rev, sentence):
        self.bad[rev, sentence] += 1
        self.where.setdefault((rev, sentence), self.here)

    # --- files

    def read(self, top):
        for path in sorted(glob.glob(os.path.join(
                glob.escape(top), "**", "*.jsonl"), recursive=True)):
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            if not lines[-1]:
                lines.pop()
            about = json_of(lines[0]) if lines else None
            if not about:
                continue
            self.fake = about["fake"]
            states = collections.defaultdict(State)
            for n, line in enumerate(lines[1:], 2):
                record = json_of(line)
                self.here = f"{about['test']}, {os.path.relpath(path, top)}" \
                    f":{n}"
                if record is not None:  # a line that was cut by a kill
                    self.record(states, record)

    def record(self, states, r):
        state = states[("s", r.get("s")) if r.get("s") else "all"]
        exchange = states[("x", r.get("x"))] if r.get("x") else state
        if "many" in r:
            for text in r["many"]:
                m = mcprecord.reduced(json_of(text))
                self.record(states, dict(d=">", m=m))
        elif r["d"] == ">":
            batch = r["m"] if isinstance(r["m"], list) else [r["m"]]
            for m in batch:
                if isinstance(m, dict) and "method" in m and "id" in m:
                    key = json.dumps(m["id"])
                    m["then"] = state.rev
                    state.asked(key, m)
                    if exchange is not state:
                        exchange.asked(key, m)
        elif "text" in r:
            self.wrong(state.rev, "no JSON: " + r["text"])
        elif isinstance(r["m"], list):
            rev = state.rev or r.get("v")
            if rev not in self.revs or "JSONRPCBatchResponse" not in \
                    self.revs[rev].defs:
                self.wrong(rev, "a batch, which the revision has not")
            for m in r["m"]:
                self.message(state, exchange, m, r.get("v"))
        else:
            self.message(state, exchange, r["m"], r.get("v"))

    # --- messages

    def message(self, state, exchange, m, header):
        if not isinstance(m, dict):
            self.wrong(state.rev, "a message that is no object")
            return
        if "method" in m:
            self.unasked(state, exchange, m, header)
            return
        request = self.request_of(state, exchange, m)
        revs = self.revisions(state, request, header)
        if "result" in m and request is not None and \
                request["method"] == "initialize":
            version = (m["result"] or {}).get("protocolVersion")
            if version not in self.revs:
                self.wrong(None, f"initialize selects {version!r}")
                return
            state.rev = version
            revs = [version]
        self.best(revs, lambda rev: self.response(rev, m, request))

    def request_of(self, state, exchange, m):
        """What a response answers; None when nothing of that id was asked.
        Of several in flight the one that an error is about is the last, a
        result one that has such results."""
        if m.get("id") is None:
            return None
        key = json.dumps(m["id"])
        found = exchange.of(key) or state.of(key)
        if not found:
            return None
        request = found[-1]
        if "result" in m and len(found) > 1:
            request = next((r for r in found if not self.fits(r, m)), request)
        request["done"] = True
        return request

    def fits(self, request, m):
        return self.response(self.revs[request["then"] or self.newest], m,
                             request)[1]

    def revisions(self, state, request, header=None):
        """Those that the answer to a request may be of, the likeliest first:
        after another initialize, also the one before."""
        if request is not None:
            meta = request.get("params", {}).get("_meta")
            if isinstance(meta, dict) and VERSION in meta:
                asked = meta[VERSION]
                return [asked if asked in self.revs and
                        asked == self.newest else self.newest]
        if state.rev is not None:
            return list(dict.fromkeys(
                [state.rev] + ([request["then"]] if request is not None and
                               request["then"] else [])))
        return [header] if header in self.revs else \
            [None] + list(self.revs)[::-1]

    def best(self, revs, check):
        """check(revision) gives (its type, what is wrong); the first that is
        right, else the first.  None: before any revision was chosen, where a
        message must be right by one of them."""
        name = revs[0]
        first = None
        for rev in revs:
            if rev is None:
                continue
            kind, bad = check(self.revs[rev])
            if not bad:
                self.seen[name if name is None else rev][kind] += 1
                return
            first = first or (kind, bad)
        self.seen[name][first[0]] += 1
        for sentence in first[1]:
            self.wrong(name, sentence)

    def valid(self, rev, value, kind, strict=True):
        text = json.dumps(value)
        if len(text) > 2000:
            return rev.errors(value, kind, strict)
        key = (rev.name, kind, strict, text)
        if key not in self.cache:
            self.cache[key] = rev.errors(value, kind, strict)
        return self.cache[key]

    def response(self, rev, m, request):
        if "error" in m:
            return self.error(rev, m)
        bad = [f"{key} in an answer" for key in m
               if key not in ("jsonrpc", "id", "result")]
        bad += rev.validate(dict(m, result={"resultType": ""}),
                            rev.defs[rev.response], rev.response)
        if request is None and not self.fake:
            return "?", bad + ["a result that was not asked for"]
        kinds, strict, result = self.kinds(rev, request, m.get("result"))
        if not kinds:
            return "?", bad + [f"a result of {request['method']}, or one of "
                               "a type, that the revision has not"]
        tried = [(self.valid(rev, result, k, strict), k) for k in kinds]
        wrong, kind = min(tried, key=lambda t: len(t[0]))
        if not wrong and kind == "CallToolResult":
            wrong = self.tool_result(rev, request, result)
        if not wrong and kind == "ListToolsResult":
            wrong = self.tools(result)
        return kind, bad + wrong

    def kinds(self, rev, request, result):
        """(types, whether to look closely, the result)"""
        if request is None:     # it went past the recorder, as bytes
            return ["Result"], False, result
        method = request["method"]
        what = result.get("resultType") if isinstance(result, dict) else None
        if what in EXTENSION_RESULTS.get(rev.name, ()) or \
                method in EXTENSION_METHODS.get(rev.name, ()):
            return ["Result"], False, result
        kinds = rev.result_types(method, request.get("params"))
        if "InputRequiredResult" in kinds:
            kinds = [k for k in kinds if (k == "InputRequiredResult") ==
                     (what == "input_required")]
        elif what not in (None, "complete"):
            kinds = []
        return kinds, True, result

    def error(self, rev, m):
        e = m["error"]
        code = e.get("code") if isinstance(e, dict) else None
        bad = [f"{key} in an error" for key in m
               if key not in ("jsonrpc", "id", "error")]
        fixed = m
        if m.get("id") is None and rev.name in NULL_ID and \
                (code in UNREADABLE or code in REFUSED and "id" not in m):
            fixed = dict(m, id=0)
        bad += self.valid(rev, fixed, rev.error)
        for kind, whole in rev.error_types(code):
            bad += self.valid(rev, fixed if whole else e, kind)
        return f"error {code}", bad

    def unasked(self, state, exchange, m, header):
        """A notification, or a request of the server's, which only a
        revision that initialize selected has."""
        params = m.get("params") if isinstance(m.get("params"), dict) else {}
        meta = params.get("_meta")
        request = self.about(state, exchange, params, meta)
        method = m["method"]

        def check(rev):
            methods = rev.server_requests if "id" in m else rev.notifications
            if "id" not in m and method in EXTENSION_NOTIFICATIONS.get(
                    rev.name, ()):
                return method, []
            if method not in methods:
                return method, [f"{method}, which the revision's server does "
                                "not send"]
            kind = methods[method]
            filters = params.get("notifications")
            if isinstance(filters, dict):
                m["params"] = dict(params, notifications={
                    k: v for k, v in filters.items()
                    if k not in EXTENSION_FILTERS.get(rev.name, ())})
            # the older schemas have the envelope in another definition
            whole = "jsonrpc" in rev.defs[kind]["properties"]
            inner = m if whole else {k: v for k, v in m.items()
                                     if k not in ("jsonrpc", "id")}
            return kind, self.valid(rev, inner, kind) + ([] if whole else
                self.valid(rev, m, "JSONRPCRequest" if "id" in m else
                           "JSONRPCNotification", strict=False))
        revs = self.revisions(state, request, header)
        self.best([state.rev or self.newest] if "id" in m else revs, check)

    @staticmethod
    def about(state, exchange, params, meta):
        """the request that a notification belongs to, or None"""
        number = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        for requests in (exchange.requests, state.requests):
            if number is not None and json.dumps(number) in requests:
                return requests[json.dumps(number)][-1]
            token = params.get("progressToken")
            for r in [r for some in requests.values() for r in some
                      if token is not None]:
                its = r.get("params", {}).get("_meta")
                if isinstance(its, dict) and its.get("progressToken") == \
                        token:
                    return r
        return None

    # --- tools

    def tools(self, result):
        bad = []
        for t in result["tools"]:
            for key in ("inputSchema", "outputSchema"):
                try:
                    mcpschema.check_keywords(t.get(key, {}))
                except mcpschema.Unknown as e:
                    bad.append(f"{key} of {t['name']}: {e}")
            if "outputSchema" not in t:
                continue
            known = self.outputs.setdefault(t["name"], t["outputSchema"])
            if known != t["outputSchema"]:
                bad.append(f"two outputSchemas of {t['name']}")
        return bad

    def tool_result(self, rev, request, result):
        name = request.get("params", {}).get("name")
        texts = [c["text"] for c in result["content"] if c["type"] == "text"]
        data = [json_of(t) for t in texts]
        if "structuredContent" not in \
                rev.defs["CallToolResult"]["properties"]:
            if not any(isinstance(d, dict) for d in data):
                return [f"{name}: no text block is a JSON object"]
            content = next(d for d in data if isinstance(d, dict))
        else:
            content = result.get("structuredContent")
            if not any(mcpschema.same(d, content) for d in data):
                return [f"{name}: no text block is the structuredContent"]
        if not self.fake:
            self.results.append((rev.name, name, content, self.here))
        return []

    def finish(self):
        """The results of tools by their outputSchemas, which tools/list may
        have told after them.  How many could be checked."""
        n, schemas = 0, {}
        for rev, name, content, self.here in self.results:
            if name not in self.outputs:
                continue
            n += 1
            if name not in schemas:
                schemas[name] = mcpschema.Schema(dict(
                    self.outputs[name], **{"$schema": "2020-12"}))
            s = schemas[name]
            for sentence in s.validate(content, s.root, name):
                self.wrong(rev, "not its outputSchema: " + sentence)
        return n


def report(judge, tap):
    """One test a revision, what was seen as comments."""
    checked = judge.finish()
    for rev, seen in judge.seen.items():
        name = rev or "before a revision is chosen"
        bad = [(s, n) for (r, s), n in judge.bad.items() if r == rev]
        tap.ok(not bad, f"{name}: {sum(seen.values())} messages are as its "
               "schema says")
        for sentence, n in bad[:25]:
            print(f"# {n} times, first {judge.where[rev, sentence]}: "
                  f"{sentence}")
        print("# " + ", ".join(f"{k} {n}" for k, n in sorted(seen.items())))
    print(f"# {checked} results of tools checked against their "
          f"outputSchemas, of {len(judge.outputs)} tools")
    return checked
