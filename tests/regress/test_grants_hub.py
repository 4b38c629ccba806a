#!/usr/bin/env python3
"""Credentials at sbxd among fakes: which repositories are read and written with
one, by whom and for how long; and nothing is done with one that has no record,
that is not listed, that is somebody else's, or while the suite is locked down.
One test is one function."""
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
from fakehub import client  # noqa: E402
import ipc      # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
CONF = ("grant_host git.example\ngrant_host bare.example\n"
        "allowed_repo O/W\nallowed_repo git.example/o/w\n"
        "allowed_repo bare.example/o/w\n"
        "allow_read o/r\nallow_read Acct/*\n"
        "github_app 12 34 /nowhere/key.pem\n"
        "github_token_file git.example /nowhere/token\n")
OPEN, REFUSED, USED, EXPIRED, REVOKED = range(5)
FETCH, PUSH = 0, 1
NOENT, POLICY = -15, -19
ISSUE, PULL, CHECKS, CREATE = 1, 3, 6, 9


def hub(conf=CONF, **kw):
    h = fakehub.Hub("--transport", "unix", conf=conf, **kw)
    h.wait(h.serving)
    return h


def box_of(h, handle, **values):
    w = h.begin(handle, "sandbox_initialize")
    box = h.box(w, **{"want_network": 1, **values})["container"]
    h.result(w)
    return box


def reads(h, w, box, repo="o/r", host="github.com", **values):
    return h.ask(w, "REPO_OPEN", [], container=box, host=host, repo=repo,
                 **{"lifetime_ms": 60000, **values})


def placed(h):
    """a principal, its sandbox with a way out, a worker in a call"""
    a = client(h)
    box = box_of(h, a)
    return a, box, h.begin(a, "clone_repo")


def refused(m, code):
    return m is not None and m.name == "WORK_REFUSED" and m["code"] == code


def anonymous(m):
    return m is not None and m.name == "REPO_OPENED" and m["grant"] == "" and \
        m["why"] != ""


def order(h, *names):
    """do these come in that order?"""
    have = [(x.name + ":" + x["op"] if x.name == "JOURNAL_APPEND" else x.name)
            for _, x in h.seen]
    at = [have.index(n) if n in have else -1 for n in names]
    return -1 not in at and at == sorted(at)


def records(h, op, phase=None):
    return [r for r in h.records if r["op"] == op and
            phase in (None, r["phase"])]


def ends(h, grant):
    return [r["fields"]["reason"] for r in records(h, "grant", "end")
            if r["fields"]["grant"] == grant]


def told(h, name, grant):
    return [m for m in h.named(name) if m["grant"] == grant]


def operator(h, name, timeout=5, **values):
    """what an operator is told who asks for that"""
    def came():
        try:
            return c.recv(0.01)
        except ipc.Timeout:
            return None
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(h.dir + "/run/suite-0/ctl.sock")
    c = ipc.Chan(s)
    h.wait(came)                    # CTL_HELLO
    c.send(name, 1, **values)
    m = h.wait(came, timeout)
    c.close()
    return m


# --- reads -----------------------------------------------------------------------

def test_read():
    with hub() as h:
        a, box, w = placed(h)
        m = reads(h, w, box)
        ok(m and m.name == "REPO_OPENED" and len(m["grant"]) == 16,
           "a listed repository is read with a credential", m)
        ok(order(h, "JOURNAL_APPEND:grant", "BROKER_GRANT", "GRANT_OPEN",
                 "REPO_OPENED"), "record, broker, proxy, worker: in this "
           "order")
        b, p = told(h, "BROKER_GRANT", m["grant"])[0], told(
            h, "GRANT_OPEN", m["grant"])[0]
        ok((b["op"], b["host"], b["repo"], b["lifetime_ms"]) ==
           (FETCH, "github.com", "o/r", 60000), "what the broker is told", b)
        ok((p["op"], p["container"], p["repo"], p["credential"], p["uses"]) ==
           (FETCH, box, "o/r", 1, 1000), "and the proxy", p)
        r = records(h, "grant", "start")[0]
        ok(r["flags"] & 1 and r["fields"]["credential"] == "1" and
           r["principal"] == "uid:1001", "its record is durable", r)
        w.send("REPO_CLOSE", 78, grant=m["grant"])
        ok(h.wait(lambda: [x for x in h.named("REPO_CLOSED") if x.id == 78]),
           "it is closed")
        h.settle()
        ok(told(h, "GRANT_REVOKE", m["grant"]) and
           told(h, "BROKER_REVOKE", m["grant"]) and
           ends(h, m["grant"]) == ["closed"], "at both, on record")
        ok(refused(h.ask(w, "REPO_CLOSE", [], grant=m["grant"]),
                   "unknown_grant"), "once")
        ok(reads(h, w, box, "acct/anything")["grant"] != "",
           "all that an account has")
        ok(reads(h, w, box, "o/w")["grant"] != "",
           "what may be written may be read")
        ok(reads(h, w, box, "o/w", "git.example")["grant"] != "",
           "also of another host that has a source")
        m = reads(h, w, box, lifetime_ms=4000000000)
        ok(told(h, "BROKER_GRANT", m["grant"])[0]["lifetime_ms"] == 3600000,
           "an hour at most")


def test_read_ends():
    """With its call, its sandbox, the proxy's word, the broker, the proxy."""
    with hub() as h:
        a, box, w = placed(h)
        g = reads(h, w, box)["grant"]
        h.result(w)
        h.settle()
        ok(told(h, "GRANT_REVOKE", g) and told(h, "BROKER_REVOKE", g) and
           ends(h, g) == ["its call ended"], "with its call", ends(h, g))
        w = h.begin(a)
        g = reads(h, w, box)["grant"]
        w2 = h.begin(a)
        ok(refused(h.ask(w2, "REPO_CLOSE", [], grant=g), "unknown_grant"),
           "another call does not close it")
        h.peers["proxy"].send("GRANT_STATE", 0, grant=g, state=EXPIRED,
                              reason="its time is over")
        h.settle()
        ok(told(h, "BROKER_REVOKE", g) and ends(h, g) ==
           ["its time is over"], "with its time")
        g = reads(h, w, box)["grant"]
        h.ask(w2, "SB_STOP", [], container=box, force=1)
        h.settle()
        ok(told(h, "BROKER_REVOKE", g) and ends(h, g) ==
           ["its sandbox ended"], "with its sandbox")
        h.result(w2)
        box = box_of(h, a)
        g = reads(h, w, box)["grant"]
        h.kill("broker")
        h.settle(0.4)
        ok(told(h, "GRANT_REVOKE", g) and ends(h, g) == ["the broker ended"],
           "with the broker", ends(h, g))
        ok(h.wait(lambda: "broker" in h.peers), "which is started again")
        h.settle(0.3)
        g = reads(h, w, box)["grant"]
        h.kill("proxy")
        ok(h.wait(lambda: ends(h, g)) == ["the proxy was started again"] and
           h.wait(lambda: told(h, "BROKER_REVOKE", g)), "with the proxy")


def test_read_refused():
    with hub() as h:
        a, box, w = placed(h)
        n = len(h.named("BROKER_GRANT"))
        for repo, host, what in (
                ("o/x", "github.com", "one that is not listed"),
                ("o/.github", "github.com", "one whose name begins so"),
                ("acct2/x", "github.com", "one of another account"),
                ("o/r", "git.example", "one of another host"),
                ("o/w", "bare.example", "one of a host without a source")):
            ok(anonymous(reads(h, w, box, repo, host)), "without one: " + what)
        for repo, host in (("o", "github.com"), ("o/r/x", "github.com"),
                           ("O/R", "github.com"), ("../r", "github.com"),
                           ("o/..", "github.com"), ("o/r", "GitHub.com"),
                           ("o/r", "127.0.0.1"), ("o/*", "github.com"),
                           ("acct/*", "github.com"), ("", "")):
            ok(refused(reads(h, w, box, repo, host), "bad_argument"),
               f"no repository: {host}/{repo}")
        ok(refused(reads(h, w, "0" * 12), "not_found"), "no such sandbox")
        wb = h.begin(client(h, 1002))
        ok(refused(reads(h, wb, box), "not_found"), "nobody else's sandbox")
        ok([r for r in records(h, "policy_refusal")
            if r["principal"] == "uid:1002"], "which is recorded")
        none = box_of(h, a, want_network=0)
        ok(refused(reads(h, w, none), "no_network"), "a sandbox without a "
           "way out")
        ok(len(h.named("BROKER_GRANT")) == n and not h.named("GRANT_OPEN"),
           "the broker and the proxy hear of none of them")


def test_read_fails():
    with hub() as h:
        a, box, w = placed(h)
        h.on_BROKER_GRANT = lambda p, m: p.send(
            "BROKER_GRANTED", 0, grant=m["grant"], error=NOENT)
        ok(anonymous(reads(h, w, box)), "no source after all: without one")
        h.on_BROKER_GRANT = lambda p, m: p.send(
            "BROKER_GRANTED", 0, grant=m["grant"], error=POLICY,
            reason="the key is not ours")
        m = reads(h, w, box)
        ok(refused(m, "source_failed") and "the key is not ours" in
           m["reason"], "a source that fails, with its reason", m)
        ok(not h.named("GRANT_OPEN"), "the proxy hears of neither")
        del h.on_BROKER_GRANT
        h.on_GRANT_OPEN = lambda p, m: p.send(
            "GRANT_STATE", 0, grant=m["grant"], state=REFUSED, reason="full")
        m = reads(h, w, box)
        g = h.named("GRANT_OPEN")[-1]["grant"]
        ok(m and m.name == "WORK_REFUSED" and "full" in m["reason"] and
           told(h, "BROKER_REVOKE", g), "the proxy's refusal ends it at the "
           "broker", m)
        h.on_GRANT_OPEN = lambda p, m: h.kill("broker")
        ok(refused(reads(h, w, box), "suite_degraded"), "the broker dies "
           "meanwhile")
        ok(refused(reads(h, w, box), "suite_degraded"), "it is not there")
        h.wait(lambda: "broker" in h.peers)
        h.settle(0.3)
        del h.on_GRANT_OPEN
        h.on_JOURNAL_APPEND = lambda p, m: m["flags"] & 1 and p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="no space")
        n = len(h.named("BROKER_GRANT"))
        m = reads(h, w, box)
        ok(m and m.name == "WORK_REFUSED" and "no space" in m["reason"] and
           len(h.named("BROKER_GRANT")) == n, "no record, no grant", m)


def test_read_journal_ends():
    with hub() as h:
        _, box, w = placed(h)
        honest = h.on_JOURNAL_APPEND
        h.on_JOURNAL_APPEND = lambda p, m: m["op"] == "grant" or honest(p, m)
        w.send("REPO_OPEN", 1, container=box, host="github.com", repo="o/r",
               lifetime_ms=60000)
        h.wait(lambda: records(h, "grant", "start"))
        h.on_JOURNAL_APPEND = honest
        h.kill("journald")
        m = h.wait(lambda: [x for p, x in h.seen if p == "worker" and
                            x.name == "WORK_REFUSED"])
        ok(m and m[-1]["code"] == "journal_unavailable", "refused when the "
           "journal ends before it answers", m)
        h.wait(lambda: "journald" in h.peers)
        h.settle(0.3)
        ok(reads(h, w, box)["grant"], "and the next is opened")


def test_read_late():
    """The worker goes while it waits; what comes then is nothing."""
    with hub() as h:
        a, box, w = placed(h)
        h.on_BROKER_GRANT = lambda p, m: None
        w.send("REPO_OPEN", 1, container=box, host="github.com", repo="o/r",
               lifetime_ms=1000)
        g = h.wait(lambda: h.named("BROKER_GRANT"))[0]["grant"]
        h.kill_worker(w)
        h.settle()
        ok(told(h, "BROKER_REVOKE", g) and ends(h, g), "its end", ends(h, g))
        h.peers["broker"].send("BROKER_GRANTED", 0, grant=g, source="app")
        h.settle()
        ok(not told(h, "GRANT_OPEN", g) and "broker" in h.peers,
           "a late answer opens nothing")
        h.peers["broker"].send("BROKER_GRANTED", 0, grant="e" * 16)
        h.settle()
        ok("broker" in h.peers, "nor one about none")


def test_read_limits():
    with hub() as h:
        a, box, w = placed(h)
        got = [reads(h, w, box) for _ in range(33)]
        ok(all(m.name == "REPO_OPENED" and m["grant"] for m in got[:32]) and
           refused(got[32], "busy"), "32 of one principal", got[-1])
        b = client(h, 1002)
        box, w = box_of(h, b), h.begin(b)
        got = [reads(h, w, box) for _ in range(17)]
        ok([m.name for m in got] == ["REPO_OPENED"] * 16 + ["WORK_REFUSED"],
           "48 of all workers")
        m = operator(h, "CTL_GRANT", container=box, host="git.example",
                     repo="o/w", ref="refs/heads/x", old_id="0" * 40,
                     new_id="b" * 40, uses=1, lifetime_ms=1000)
        ok(m and m.name == "CTL_GRANTED", "an operator finds room", m)


# --- pushes ----------------------------------------------------------------------

def push(h, box, host="git.example", repo="o/w"):
    return operator(h, "CTL_GRANT", container=box, host=host, repo=repo,
                    ref="refs/heads/x", old_id="0" * 40, new_id="b" * 40,
                    uses=1, lifetime_ms=60000)


def test_push():
    with hub() as h:
        a, box, w = placed(h)
        for host, repo, cred in (("git.example", "o/w", 1),
                                 ("github.com", "o/w", 1),
                                 ("git.example", "o/x", 0),
                                 ("bare.example", "o/w", 0)):
            n = len(h.named("BROKER_GRANT"))
            m = push(h, box, host, repo)
            ok(m and m.name == "CTL_GRANTED" and h.named("GRANT_OPEN")[-1][
                "credential"] == cred and len(h.named("BROKER_GRANT")) - n ==
               cred, f"{host}/{repo}: credential {cred}", m)
        b = h.named("BROKER_GRANT")[0]
        ok((b["op"], b["ref"], b["new_id"], b["force"]) ==
           (PUSH, "refs/heads/x", "b" * 40, 0), "the broker knows the change",
           b)
        for repo, word in (("o/r", "not one that may be written"),
                           ("o/x", "not one that may be written")):
            m = push(h, box, "github.com", repo)
            ok(m and m.name == "CTL_REFUSED" and word in m["reason"] and
               m["next"], f"GitHub takes none of {repo}", m)
        h.on_BROKER_GRANT = lambda p, m: p.send(
            "BROKER_GRANTED", 0, grant=m["grant"], error=NOENT)
        m = push(h, box, "github.com")
        ok(m and m["code"] == "no_source", "GitHub without a source: refused",
           m)
        m = push(h, box)
        ok(m and m.name == "CTL_GRANTED" and
           h.named("GRANT_OPEN")[-1]["credential"] == 0,
           "another host without one: as before", m)
    with hub(CONF.split("github_app")[0]) as h:
        a, box, w = placed(h)
        m = push(h, box, "github.com")
        ok(m and m["code"] == "no_source" and "sbx register" in m["next"],
           "none is configured", m)


# --- exchanges ---------------------------------------------------------------------

def exchange(h, grant, number=5):
    pair = socket.socketpair()
    have = len(h.seen)
    h.peers["proxy"].send("PROXY_EXCHANGE", number, [
        s.fileno() for s in pair], grant=grant)
    for s in pair:
        s.close()
    return h.wait(lambda: next((m for _, m in h.seen[have:] if m.name in (
        "BROKER_EXCHANGE", "PROXY_NO_EXCHANGE")), None))


def test_exchange():
    with hub() as h:
        a, box, w = placed(h)
        g = reads(h, w, box)["grant"]
        m = exchange(h, g)
        ok(m.name == "BROKER_EXCHANGE" and m["grant"] == g and
           len(m.fds) == 2, "an exchange goes to the broker", m)
        h.peers["broker"].send("BROKER_EXCHANGED", m.id, begun=1, status=200,
                               out_bytes=3, in_bytes=4)
        h.settle()
        r = records(h, "exchange", "end")[0]
        ok(not h.named("PROXY_NO_EXCHANGE") and r["container"] == box and
           r["fields"]["status"] == "200" and r["fields"]["in"] == "4",
           "and is recorded", r)
        h.peers["broker"].send("BROKER_EXCHANGED", m.id, begun=0)
        h.settle()
        ok(not h.named("PROXY_NO_EXCHANGE"), "once")
        m = exchange(h, g, 9)
        h.peers["broker"].send("BROKER_EXCHANGED", m.id, begun=0,
                               error=POLICY, code="no_courier", reason="full")
        m = h.wait(lambda: h.named("PROXY_NO_EXCHANGE"))[0]
        ok(m.id == 9 and m["code"] == "no_courier" and m["reason"] == "full",
           "that none took it, the proxy is told", m)
        got = [exchange(h, g, n).name for n in range(20, 29)]
        ok(got == ["BROKER_EXCHANGE"] * 8 + ["PROXY_NO_EXCHANGE"],
           "so many at once of one grant", got)
        more = [reads(h, w, box)["grant"] for _ in range(2)]
        got = [exchange(h, more[0], n).name for n in range(30, 35)]
        ok(got == ["BROKER_EXCHANGE"] * 4 + ["PROXY_NO_EXCHANGE"] and
           "of this client" in h.named("PROXY_NO_EXCHANGE")[-1]["reason"],
           "and twelve of one client", got)
        other = client(h, 1002)
        box2, w2 = box_of(h, other), h.begin(other, "clone_repo")
        got = [exchange(h, reads(h, w2, box2)["grant"], n).name
               for n in range(40, 43)]
        ok(got == ["BROKER_EXCHANGE"] * 3, "another has its own", got)
        h.kill("broker")
        h.settle(0.4)
        ok({m.id for m in h.named("PROXY_NO_EXCHANGE")} >= set(range(20, 28)),
           "the broker's end is theirs")
        was, over = records(h, "exchange", "start"), records(h, "exchange",
                                                             "end")
        last = [x["fields"] for x in over[-15:]]
        ok(len(was) == len(over) and all(
            x["what"] == "no_courier" and "not known" in x["reason"]
            for x in last) and {x["grant"] for x in last} >= {g, more[0]},
           "each has an end on record, which says what is not known", last)
        g = push(h, box)["grant"]
        exchange(h, g, 60)
        h.kill("broker")
        h.settle(0.4)
        ok("not known" in records(h, "exchange", "end")[-1]["fields"]["reason"]
           and ends(h, g) == ["the broker ended"], "a push has both: its own "
           "and its grant's")


def test_exchange_refused():
    """G6: what the proxy says of a grant opens none"""
    with hub() as h:
        a, box, w = placed(h)
        plain = push(h, box, "bare.example")["grant"]
        h.on_GRANT_OPEN = lambda p, m: None
        w.send("REPO_OPEN", 1, container=box, host="github.com", repo="o/r",
               lifetime_ms=60000)
        half = h.wait(lambda: h.named("GRANT_OPEN")[1:])[0]["grant"]
        for grant, what in (("e" * 16, "no grant"), ("", "nothing"),
                            ("../../etc/passwd", "no id"),
                            (plain, "one without a credential"),
                            (half, "one that it has not said is open")):
            m = exchange(h, grant)
            ok(m.name == "PROXY_NO_EXCHANGE" and m["code"] == "not_granted",
               "refused: " + what, m)
        ok(not h.named("BROKER_EXCHANGE"), "the broker hears of none")
        r = records(h, "exchange", "refused")
        ok(len(r) == 1 and r[0]["code"] == 1, "recorded, once a second", r)
        h.peers["proxy"].send("GRANT_STATE", 0, grant=half, state=OPEN,
                              uses=1000)
        h.settle()
        ok(exchange(h, half).name == "BROKER_EXCHANGE", "then it may")
        w.send("REPO_CLOSE", 78, grant=half)
        h.wait(lambda: h.named("REPO_CLOSED"))
        ok(exchange(h, half).name == "PROXY_NO_EXCHANGE", "not any more")


def test_exchange_outlives():
    """A grant that is used up ends at the broker behind what it began."""
    with hub() as h:
        a, box, w = placed(h)
        g = push(h, box)["grant"]
        m = exchange(h, g)
        h.peers["proxy"].send("GRANT_STATE", 0, grant=g, state=USED, uses=0)
        h.settle()
        ok(ends(h, g) == ["used up"] and not told(h, "BROKER_REVOKE", g),
           "used up: what is under way goes on", ends(h, g))
        ok(exchange(h, g).name == "PROXY_NO_EXCHANGE", "nothing more begins")
        h.peers["broker"].send("BROKER_EXCHANGED", m.id, begun=1, status=200)
        ok(h.wait(lambda: told(h, "BROKER_REVOKE", g)), "then it ends there")
        g = push(h, box)["grant"]
        exchange(h, g)
        h.peers["proxy"].send("GRANT_STATE", 0, grant=g, state=USED, uses=0)
        h.settle()
        h.ask(w, "SB_STOP", [], container=box, force=1)
        ok(h.wait(lambda: told(h, "BROKER_REVOKE", g)) and
           len(ends(h, g)) == 1, "or with its sandbox, at once", ends(h, g))


# --- REST ---------------------------------------------------------------------------

def api(h, w, op=ISSUE, repo="o/r", timeout=5, **values):
    """the answer, and what was written to its descriptor"""
    body, out = ipc.memfd(b"{}"), os.memfd_create("answer")
    q = {"host": "github.com", "number": 7, "within_ms": 42000, **values}
    m = h.ask(w, "API_ASK", [body, out], timeout, op=op, repo=repo, **q)
    text = os.pread(out, 100, 0)
    os.close(body)
    os.close(out)
    return m, text


def test_api():
    with hub() as h:
        a, box, w = placed(h)
        m, text = api(h, w)
        ok(m and m.name == "API_DONE" and m["status"] == 200 and
           m["credential"] == 1 and text == b'{"ok":true}',
           "a listed repository is read with a credential", m)
        ok(order(h, "JOURNAL_APPEND:api", "PROXY_DIAL", "BROKER_REST",
                 "API_DONE"), "record, connection, broker, worker")
        d = h.named("PROXY_DIAL")[0]
        ok((d["host"], d["port"]) == ("api.github.com", 443), "to the API", d)
        r = records(h, "api")
        ok([(x["phase"], x["flags"] & 1) for x in r] ==
           [("start", 1), ("end", 0)] and r[0]["fields"]["request"] ==
           "issue_view" and r[1]["fields"]["status"] == "200", "on record", r)
        m, _ = api(h, w, repo="any/body")
        ok(m["credential"] == 0 and not records(h, "api")[2]["flags"] & 1,
           "any other without one", m)
        m, _ = api(h, w, CREATE, "o/w", number=0)
        ok(m.name == "API_DONE" and m["credential"] == 1, "a write", m)
        m, _ = api(h, w, CHECKS, number=0, page=1, text="a" * 40)
        ok(m.name == "API_DONE", "by commit", m)
        api(h, w, repo="o/w", host="git.example")
        ok(h.named("PROXY_DIAL")[-1]["host"] == "git.example",
           "another host is its own API")
        n, nr = len(h.named("PROXY_DIAL")), len(records(h, "api"))
        m, _ = api(h, w, CREATE, "o/w", number=0, within_ms=0)
        ok(m.name == "API_DONE" and m["credential"] == 1 and not m["begun"] and
           m["status"] == 0 and len(records(h, "api")) == nr,
           "may it be written? yes, and nobody is dialled", m)
        for what, code, values in (
                ("a write where reading is allowed", "repo_not_allowed",
                 {"op": CREATE, "repo": "o/r", "number": 0}),
                ("a write where nothing is", "repo_not_allowed",
                 {"op": CREATE, "repo": "x/y", "number": 0}),
                ("a write without a source", "no_source",
                 {"op": CREATE, "repo": "o/w", "number": 0,
                  "host": "bare.example"}),
                ("no request", "bad_argument", {"op": 99}),
                ("no number", "bad_argument", {"number": 0}),
                ("a number too many", "bad_argument",
                 {"op": CREATE, "repo": "o/w"}),
                ("no repository", "bad_argument", {"repo": "o/../r"}),
                ("a host in capitals", "bad_argument", {"host": "GitHub.com"}),
                ("an id that is none", "bad_argument",
                 {"op": CHECKS, "number": 0, "page": 1, "text": "main"}),
                ("may it be written? no", "repo_not_allowed",
                 {"op": CREATE, "repo": "o/r", "number": 0, "within_ms": 0}),
                ("no page of ten", "bad_argument",
                 {"op": CHECKS, "number": 0, "page": 65536, "text": "a" * 40}),
                ("a page too many", "bad_argument", {"page": 1})):
            m, _ = api(h, w, **values)
            ok(refused(m, code), "refused: " + what, m)
        ok(len(h.named("PROXY_DIAL")) == n, "of which nothing is seen outside")
        ok(len(records(h, "api", "refused")) == 3, "writes are on record")


def test_api_no_source():
    """what nobody sees is blamed on the missing source where it is listed"""
    with hub(CONF.split("github_app")[0]) as h:
        h.on_BROKER_REST = lambda p, m: (m.close(), p.send(
            "BROKER_RESTED", m.id, error=NOENT, status=404, code="not_found"))
        a, box, w = placed(h)
        for repo, code in (("o/r", "no_source"), ("x/y", "not_found")):
            m, _ = api(h, w, repo=repo)
            ok(m and m.name == "API_DONE" and m["credential"] == 0 and
               m["code"] == code, f"{repo}: {code}", m)


def test_api_fails():
    with hub() as h:
        a, box, w = placed(h)
        h.on_PROXY_DIAL = lambda p, m: p.send(
            "PROXY_NOT_DIALLED", m.id, code="address_refused",
            reason="it is loopback")
        m, _ = api(h, w)
        ok(m.name == "API_DONE" and m["error"] != 0 and m["code"] ==
           "upstream" and "loopback" in m["reason"], "no connection", m)
        h.on_PROXY_DIAL = lambda p, m: h.kill("proxy")
        m, _ = api(h, w)
        ok(refused(m, "suite_degraded"), "the proxy dies", m)
        m, _ = api(h, w)
        ok(refused(m, "suite_degraded"), "it is not there", m)
        h.wait(lambda: "proxy" in h.peers)
        h.settle(0.3)
        del h.on_PROXY_DIAL
        h.on_BROKER_REST = lambda p, m: (m.close(), h.kill("broker"))
        m, _ = api(h, w)
        ok(refused(m, "suite_degraded") and "broker" in m["reason"],
           "the broker dies", m)
        m, _ = api(h, w)
        ok(refused(m, "suite_degraded"), "it is not there", m)
        ok(len(records(h, "api", "start")) == len(records(h, "api", "end")),
           "each has its end on record")
        h.wait(lambda: "broker" in h.peers)
        h.settle(0.3)
        held = []
        h.on_BROKER_REST = lambda p, m: held.append((p, m))
        body, out = ipc.memfd(b""), os.memfd_create("answer")
        w.send("API_ASK", 1, [body, out], op=CREATE, host="github.com",
               repo="o/w", within_ms=42000)
        h.wait(lambda: held)
        h.kill_worker(w)
        p, m = held[0]
        m.close()
        ok(h.wait(lambda: [x for x in h.named("BROKER_CANCEL")
                           if x.id == m.id]),
           "a request whose worker is gone is called off")
        p.send("BROKER_RESTED", m.id, status=201)
        h.settle()
        ok(records(h, "api", "end")[-1]["fields"]["status"] == "201",
           "what became of a write is recorded without its worker")
        p.send("BROKER_RESTED", m.id, status=201)
        p.send("BROKER_RESTED", 0, status=201)
        h.settle()
        ok("broker" in h.peers, "another answer is none")
        w = h.begin(a)
        n = len(h.named("PROXY_DIAL"))
        h.on_JOURNAL_APPEND = lambda p, m: m["flags"] & 1 and p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="no space")
        m, _ = api(h, w)
        ok(refused(m, "journal_unavailable") and len(
            h.named("PROXY_DIAL")) == n, "no record, no request", m)
        os.close(body)
        os.close(out)


def test_api_deadline():
    with hub() as h:
        a, box, w = placed(h)
        api(h, w, within_ms=99000)
        api(h, w, within_ms=20000)
        got = [m["within_ms"] for m in h.named("BROKER_REST")]
        ok(38000 < got[0] <= 40000 and 16000 < got[1] <= 18000,
           "the broker has a step less than the call, and what is left", got)
        m, _ = api(h, w, within_ms=6000)
        ok(refused(m, "timeout"), "with too little nothing begins", m)
        m, _ = api(h, w, within_ms=0)
        ok(m.name == "API_DONE" and m["error"] == 0 and m["status"] == 0,
           "with none it is only asked whether it may", m)
        ok(len(h.named("BROKER_REST")) == 2, "and nothing is sent")
        h.on_BROKER_REST = lambda p, m: m.close()
        began = time.monotonic()
        m, _ = api(h, w, CREATE, "o/w", 12, number=0, within_ms=7600)
        took = time.monotonic() - began
        ok(refused(m, "timeout") and "may have done it" in m["reason"] and
           "Look whether" in m["next"] and 7 < took < 10,
           "a write that is not answered: look whether it was done", (m, took))
        ok(h.wait(lambda: h.named("BROKER_CANCEL")) and
           h.named("BROKER_CANCEL")[0].id == h.named("BROKER_REST")[2].id,
           "it is called off")
        h.peers["broker"].send("BROKER_RESTED", h.named("BROKER_REST")[2].id,
                               error=-1, code="cancelled", begun=1)
        ok(h.wait(lambda: records(h, "api", "end")[-1]["fields"].get(
            "begun") == "1"), "and on record as begun",
           records(h, "api", "end")[-1])


def test_api_limits():
    with hub() as h:
        a = client(h)
        h.on_PROXY_DIAL = lambda p, m: None
        fds = [ipc.memfd(b""), os.memfd_create("answer")]
        got = []
        for _ in range(5):
            w = h.begin(a)
            w.send("API_ASK", 77, fds, op=ISSUE, host="github.com",
                   repo="o/r", number=1, within_ms=42000)
            h.settle(0.1)
            got.append([m["code"] for p, m in h.seen if p == "worker" and
                        m.name == "WORK_REFUSED"])
        ok(got == [[]] * 4 + [["busy"]], "four at once of a principal", got)
        for fd in fds:
            os.close(fd)
    with hub() as h:
        w = h.begin(client(h))
        got = [api(h, w, repo="x/y")[0] for _ in range(130)]
        n = sum(m.name == "API_DONE" for m in got)
        ok(120 <= n < 130 and refused(got[-1], "busy"),
           "so many in a minute", n)


# --- the broker's own wishes ----------------------------------------------------------

def wish(h, name, number=9, **values):
    have = len(h.seen)
    h.peers["broker"].send(name, number, **values)
    # a message without fields counts as false
    return (h.wait(lambda: [m for p, m in h.seen[have:] if p == "broker" and
                            m.id == number]) or [None])[0]


COURIER, COMMAND = (fakehub.PROCS.index(n) for n in ("courier", "command"))


def test_children():
    with hub("github_token_command \"prog  a b\"\ngithub_token_timeout 7\n") as h:
        s = h.named("BROKER_START")[0]
        ok(s["sources"] == ["github_token_command 7"] and
           s["bot_commands"] == 0 and len(s.fds) == 1, "the broker's start: "
           "of a command the time it has", s)
        m = wish(h, "BROKER_WANT", proc=COURIER)
        ok(m and m.name == "BROKER_CHILD" and m["proc"] == COURIER and
           "courier" in h.peers, "a courier", m)
        mine, its = socket.socket(fileno=m.fds.pop()), h.peers["courier"].sock
        mine.send(b"x")
        ok(its.recv(9) == b"x", "whose channel leads to the broker")
        have = len(h.seen)
        m = wish(h, "BROKER_WANT", 10, proc=COMMAND)
        ok(m and m.name == "BROKER_CHILD" and m["proc"] == COMMAND,
           "a run of the command", m)
        h.settle()
        c = [x for p, x in h.seen[have:] if p == "command"]
        ok(len(c) == 1 and c[0].name == "COMMAND_START" and
           c[0]["argv"] == ["prog", "a", "b"] and c[0]["timeout_ms"] == 7000,
           "as it is configured", c)
        ends_ = [socket.socket(fileno=x.fds.pop()) for x in (m, c[0])]
        ends_[0].send(b"y")
        ok(ends_[1].recv(9) == b"y", "whose answer goes to the broker")
        ok(records(h, "token_command"), "on record")
        b, courier = h.peers["broker"], h.peers["courier"]
        for ident in (0, 10, 77):       # none, the command's, none
            b.send("BROKER_KILL", ident)
        h.settle()
        ok(not h.named("START_KILL"), "none of another's is killed")
        got = [wish(h, "BROKER_WANT", 100 + i, proc=COURIER).name
               for i in range(40)]
        ok(got.count("BROKER_CHILD") in (38, 39) and
           got[-1] == "BROKER_NO_CHILD", "so many at once", got)
        b.send("BROKER_KILL", 9)
        ok(h.wait(lambda: h.named("START_KILL")) and
           [(m["proc"], m["instance"]) for m in h.named("START_KILL")] ==
           [(COURIER, courier.instance)], "its own are, by the starter",
           h.named("START_KILL"))
        more = iter(range(300, 400))    # its end is still to be told
        ok(h.wait(lambda: wish(h, "BROKER_WANT", next(more), proc=COURIER)
                  .name == "BROKER_CHILD"), "one ends, one more may begin")
        p = h.peers["broker"]
        n = len(h.named("START_KILL"))
        p.send("BROKER_WANT", 1, proc=3)
        ok(h.wait(lambda: not p.open), "nothing else: that ends the broker")
        ok(h.wait(lambda: len(h.named("START_KILL")) - n == 39),
           "and all couriers of its", len(h.named("START_KILL")))
        for s in [mine, *ends_]:
            s.close()
    with hub() as h:
        m = wish(h, "BROKER_WANT", proc=COMMAND)
        ok(m and m.name == "BROKER_NO_CHILD", "no command is configured", m)


def test_dial():
    with hub() as h:
        m = wish(h, "BROKER_DIAL", host="api.github.com", port=443)
        ok(m is not None and m.name == "BROKER_DIALLED" and len(m.fds) == 1,
           "the API of a source's host", m)
        m = wish(h, "BROKER_DIAL", host="git.example", port=443)
        ok(m is not None and m.name == "BROKER_DIALLED", "of another", m)
        n = len(h.named("PROXY_DIAL"))
        for host, port in (("github.com", 443), ("bare.example", 443),
                           ("api.github.com", 80), ("evil.example", 443),
                           ("127.0.0.1", 443), ("", 443)):
            m = wish(h, "BROKER_DIAL", host=host, port=port)
            ok(m and m.name == "BROKER_NOT_DIALLED", f"not {host}:{port}", m)
        ok(len(h.named("PROXY_DIAL")) == n, "of which the proxy hears nothing")
        h.on_PROXY_DIAL = lambda p, m: p.send(
            "PROXY_NOT_DIALLED", m.id, code="timeout", reason="too slow")
        m = wish(h, "BROKER_DIAL", host="api.github.com", port=443)
        ok(m.name == "BROKER_NOT_DIALLED" and m["reason"] == "too slow",
           "with the reason", m)
        h.on_PROXY_DIAL = lambda p, m: None
        b = h.peers["broker"]
        for i in range(8):
            b.send("BROKER_DIAL", 50 + i, host="api.github.com", port=443)
        m = wish(h, "BROKER_DIAL", 60, host="api.github.com", port=443)
        ok(m.name == "BROKER_NOT_DIALLED" and "too many" in m["reason"],
           "eight at once", m)
        h.kill("proxy")
        ok(h.wait(lambda: {x.id for x in h.named("BROKER_NOT_DIALLED")} >=
                  set(range(50, 58))), "the proxy's end is theirs")
        ok(h.wait(lambda: "proxy" in h.peers), "it comes back")
        fd = os.memfd_create("x")
        h.peers["proxy"].send("PROXY_DIALLED", 1, [fd])
        h.settle()
        ok("proxy" in h.peers, "an answer to nothing is nothing")
        os.close(fd)


# --- lockdown -----------------------------------------------------------------------------

def test_lockdown():
    with hub() as h:
        a, box, w = placed(h)
        g = reads(h, w, box)["grant"]
        first = h.peers["proxy"]
        m = operator(h, "CTL_LOCKDOWN", on=1)
        ok(m and m.name == "CTL_LOCKED" and (m["grants"], m["tokens"]) ==
           (1, 2), "locked down", m)
        ok(told(h, "GRANT_REVOKE", g) and told(h, "BROKER_REVOKE", g),
           "the grant is over at both")
        ok(h.named("PROXY_POLICY")[-1]["locked"] == 1 and
           h.named("BROKER_LOCK")[-1]["on"] == 1, "proxy and broker know")
        ok(h.wait(lambda: not first.open and "proxy" in h.peers and
                  h.peers["proxy"] is not first),
           "another proxy takes the place of the one that was")
        h.wait(lambda: len(h.named("PROXY_POLICY")) > 2)
        h.settle(0.3)
        ok(h.named("PROXY_POLICY")[-1]["locked"] == 1, "locked as well")
        ok(refused(reads(h, w, box), "locked"), "no repository")
        ok(refused(api(h, w)[0], "locked"), "no request")
        ok(push(h, box)["code"] == "locked", "no push")
        ok(refused(h.box(w, want_network=1), "locked"), "no new way out")
        ok(h.box(w).name == "SB_CREATED", "a sandbox without one, though")
        h.kill("broker")
        h.wait(lambda: "broker" in h.peers)
        h.settle(0.3)
        ok(len(h.named("BROKER_LOCK")) == 2, "a new broker is locked, too")
        r = records(h, "lockdown")
        ok([x["phase"] for x in r] == ["start", "tokens"] and
           r[0]["flags"] & 1, "on record", r)
        m = operator(h, "CTL_LOCKDOWN", on=0)
        ok(m and m.name == "CTL_LOCKED" and
           h.wait(lambda: h.named("PROXY_POLICY")[-1]["locked"] == 0) and
           h.wait(lambda: h.named("BROKER_LOCK")[-1]["on"] == 0),
           "lifted", m)
        ok(reads(h, w, box)["grant"], "and all goes on")
        n = len(h.named("PROXY_POLICY"))
        for _ in range(6):
            operator(h, "CTL_LOCKDOWN", on=1)
            h.wait(lambda: "proxy" in h.peers and len(
                h.named("PROXY_POLICY")) > n)
            h.settle(0.25)
        ok("stays down" not in h.said(), "its own ends are no deaths")


def test_lockdown_journal():
    """What closes does not wait for a record; what opens does."""
    with hub() as h:
        h.on_JOURNAL_APPEND = lambda p, m: m["flags"] & 1 and p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="no space")
        ok(operator(h, "CTL_LOCKDOWN", on=1).name == "CTL_LOCKED", "closes")
        h.wait(lambda: "proxy" in h.peers)
        m = operator(h, "CTL_LOCKDOWN", on=0)
        ok(m and m.name == "CTL_REFUSED" and "no space" in m["reason"] and
           h.named("PROXY_POLICY")[-1]["locked"] == 1, "stays closed", m)


def test_lockdown_broker():
    with hub() as h:
        h.on_BROKER_LOCK = lambda p, m: h.kill("broker")
        m = operator(h, "CTL_LOCKDOWN", on=1)
        ok(m and m["code"] == "tokens_unknown" and
           h.named("PROXY_POLICY")[-1]["locked"] == 1,
           "closed, and what of the tokens is not known", m)
    for how in ("answers", "ends"):
        with hub() as h:
            held, first = [], h.peers["proxy"]
            h.on_BROKER_LOCK = lambda p, m: held.append((p, m))
            operator(h, "CTL_LOCKDOWN", timeout=0.3, on=1)
            h.wait(lambda: held)
            h.settle(0.2)
            if how == "ends":
                h.kill("broker")
            else:
                held[0][0].send("BROKER_LOCKED", held[0][1].id, tokens=2)
            ok(h.wait(lambda: not first.open and "proxy" in h.peers and
                      h.peers["proxy"] is not first) and
               (how == "ends" or records(h, "lockdown", "tokens")),
               "the operator left, the broker %s: another proxy" % how)
    with hub("") as h:
        m = operator(h, "CTL_LOCKDOWN", on=1)
        ok(m and m.name == "CTL_LOCKED" and not h.named("BROKER_LOCK"),
           "without sources there are none", m)


CONF_LISTS = [line for word in ("allowed_repo", "allow_read")
              for line in CONF.splitlines() if line.split()[0] == word]


def test_status():
    with hub() as h:
        m = operator(h, "CTL_BROKER")
        ok(m and m.name == "CTL_BROKER_STATE" and m["lines"] ==
           ["source app", *CONF_LISTS], "what the broker says of itself, and "
           "the lists", m)
        h.on_BROKER_STATUS = lambda p, m: h.kill("broker")
        m = operator(h, "CTL_BROKER")
        ok(m and m.name == "CTL_REFUSED" and "broker" in m["reason"],
           "it dies", m)


# --- settings ---------------------------------------------------------------------------

def test_reload():
    with hub() as h:
        a, box, w = placed(h)
        g, keep = reads(h, w, box)["grant"], reads(h, w, box, "o/w")["grant"]
        with open(h.dir + "/etc/sbx.conf", "w") as f:
            f.write(CONF.replace("allow_read o/r\n", ""))
        h.term(1)
        ok(h.wait(lambda: told(h, "BROKER_REVOKE", g)) and ends(h, g) ==
           ["the repository is not listed any more"], "a grant ends with its "
           "entry", ends(h, g))
        ok(not ends(h, keep), "another stays")
        ok(anonymous(reads(h, w, box)), "it is not listed now")
        with open(h.dir + "/etc/sbx.conf", "w") as f:
            f.write(CONF + "allowed_repo o\n")
        h.term(1)
        ok(h.wait(lambda: "allowed_repo o: write OWNER/NAME" in h.said()) and
           not ends(h, keep), "a mistake changes nothing")
        with open(h.dir + "/etc/sbx.conf", "w") as f:
            f.write(CONF + "github_app 99 34 /nowhere/key.pem\n")
        h.term(1)
        ok(h.wait(lambda: "credentials are read anew" in h.said()),
           "other sources are read")


def test_settings():
    key = tempfile.NamedTemporaryFile()     # of mode 0600
    for line, word in (
            ("allowed_repo o", "write OWNER/NAME"),
            ("allowed_repo o/r/x/y", "write OWNER/NAME"),
            ("allow_read */r", "write OWNER/NAME"),
            ("allow_read o/r*", "write OWNER/NAME"),
            ("allow_read x.example/o/r", "grant_host x.example"),
            ("github_app 1 2", "ID INSTALLATION KEYFILE"),
            ("github_app x 2 /k", "ID INSTALLATION KEYFILE"),
            ("github_app 1 2 key.pem", "ID INSTALLATION KEYFILE"),
            ("github_token_file token", "FILE"),
            ("github_token_file x.example /t", "grant_host x.example"),
            ("github_app 0 2 /k", "ID INSTALLATION KEYFILE"),
            ("github_app 1 2 /nowhere/k", "/nowhere/k: No such file"),
            ("upstream_ca /nowhere/ca", "upstream_ca /nowhere/ca: No such"),
            ("github_token_file /etc/passwd", "chmod 0600"),
            ("log_level info\n\n  allow_read  o/r/x/y # c", ":3: "),
            ("resolve x\nresolve a:1 b", ":1: "),
            ("allowed_repo O/R\nallow_read o/*\ngrant_host g.example\n"
             "allow_read G.example/o/r.git\ngithub_app 1 2 %s\n"
             "github_token_file g.example %s" % (key.name, key.name), "")):
        env = dict(os.environ, SBX_ROOT="/nonexistent")
        path = os.environ.get("TMPDIR", "/tmp") + f"/sbx-conf.{os.getpid()}"
        with open(path, "w") as f:
            f.write(line + "\n")
        r = subprocess.run([mcp.BUILD + "/sbxd", "-n", "-f", path], env=env,
                           capture_output=True, text=True, timeout=20)
        os.unlink(path)
        ok(r.returncode == (1 if word else 0) and word in r.stderr,
           f"sbxd -n: {line.splitlines()[0]}", r)


def test_shutdown():
    """Tokens are revoked before the network is gone; not for ever."""
    with hub() as h:
        held = []
        h.on_BROKER_LOCK = lambda p, m: held.append((p, m))
        h.term()
        h.wait(lambda: held)
        h.settle(0.9)
        ok(not h.named("SHUTDOWN", "proxy") and not h.named("SHUTDOWN",
                                                            "broker"),
           "proxy and broker wait")
        m = wish(h, "BROKER_DIAL", host="api.github.com", port=443)
        ok(m is not None and m.name == "BROKER_DIALLED", "it still gets connections", m)
        m = wish(h, "BROKER_WANT", 11, proc=COURIER)
        ok(m and m.name == "BROKER_CHILD", "and couriers", m)
        p, m = held[0]
        p.send("BROKER_LOCKED", m.id, tokens=1)
        ok(h.ended() == 0, "then all ends")
    with hub() as h:
        h.on_BROKER_LOCK = lambda p, m: None
        began = time.monotonic()
        h.term()
        ok(h.ended(4) == 0 and 1.9 < time.monotonic() - began < 3.5,
           "a broker that says nothing has two seconds")
    with hub() as h:
        h.on_BROKER_LOCK = lambda p, m: h.kill("broker")
        began = time.monotonic()
        h.term()
        ok(h.ended() == 0 and time.monotonic() - began < 1.5,
           "one that dies is not waited for")


def test_nobody_in_particular():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with fakehub.Hub("--transport", "http", "--port", str(port),
                     conf=CONF + "http_auth none\n") as h:
        h.wait(h.serving)
        h.peers["front"].send("FRONT_TOKEN", number=1, sha256="")
        a = h.wait(lambda: h.named("FRONT_USER"))[-1]["principal"]
        ok(a != 0, "a client of http_auth none")
        box = box_of(h, a)
        w = h.begin(a, "clone_repo")
        ok(anonymous(reads(h, w, box)), "reads a listed repository without "
           "a credential")
        h.result(w)
        w = h.begin(a, "sandbox_issue_write")
        m, _ = api(h, w, CREATE, "o/w", number=0)
        ok(refused(m, "repo_not_allowed"), "and writes none", m)


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
mcp.main(tap, globals(), sys.argv[1:])
