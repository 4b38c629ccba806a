#!/usr/bin/env python3
"""sbx-broker-courier, driven as its broker does, against a real TLS host:
git-http-backend and REST behind the fake GitHub, and hosts that misbehave."""
import base64
import json
import os
import select
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.environ.get("SBX_SRC", "."), "tests",
                                "lib"))
import courier  # noqa: E402
import egress  # noqa: E402
import fakegithub  # noqa: E402
import ipc  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
try:
    egress.enter()
    ca = egress.Authority()
except egress.Unable as e:
    tap.skip(str(e), "couriers")
    sys.exit(tap.done())

TOKEN = "ghs_" + fakegithub.word(30) + "_A-z.9"
REFS = "GET /o/r.git/info/refs?service=git-upload-pack HTTP/1.1"
HOST = "Host: github.com"
POST = "POST /o/r.git/git-upload-pack HTTP/1.1"
TYPE = "Content-Type: application/x-git-upload-pack-request"
PTYPE = "Content-Type: application/x-git-receive-pack-request"
PPOST = "POST /o/r.git/git-receive-pack HTTP/1.1"
ADVERTISED = {"Content-Type": "application/x-git-upload-pack-advertisement"}
RESULT = {"Content-Type": "application/x-git-upload-pack-result"}
OLD, NEW = "1" * 40, "2" * 40
home = tempfile.mkdtemp(prefix="courier-")
PEAK = 48000 if mcp.sanitized() else 24000      # KiB, of a courier


class Once:
    """The authority, for one certificate: there are many hosts here."""

    made = None

    @classmethod
    def issue(cls, names):
        cls.made = cls.made or ca.issue(names)
        return cls.made


def host(answer, **more):
    """a TLS host called github.com and api.github.com"""
    return egress.Upstream(Once, ["github.com", "api.github.com"],
                           answer=answer, **more)


def raw_host(fn):
    """fn(socket, file) is one connection, behind TLS"""
    return egress.Upstream(Once, ["github.com", "api.github.com"],
                           handler=lambda _u, s: fn(s, s.makefile("rb")))


def one(up, *lines, body=b"", roots=None, **job):
    """(answer, COURIER_OVER, exit status) of one request"""
    with courier.Courier(roots or ca.pem) as c:
        c.git(up.port, **{"token": TOKEN, **job})
        a = c.ask(*lines, body=body)
        over = c.over()
        over.begun = c.begun
        return a, over, c.wait()


def pkt(text):
    text = text if isinstance(text, bytes) else text.encode()
    return b"%04x" % (len(text) + 4) + text


# --- its start -------------------------------------------------------------------

def test_start():
    c = courier.Courier(ca.pem)
    ok(c.ready["features"] & 1 == 1 or c.ready["features"] == 0,
       "it is ready, from inside its cage", c.ready)
    if mcp.sanitized():
        tap.absent("a sanitizer takes no mlock(2)", "locked memory")
    else:
        ok(c.memory_kib("VmLck") >= 160, "what is secret is in locked memory")
    print("# idle: VmRSS %d KiB, of it RssAnon %d KiB" % (
        c.memory_kib("VmRSS"), c.memory_kib("RssAnon")))
    ok(c.close() == 3, "it ends with the broker")
    for what, roots in (("no certificate", b"nothing\n"),
                        ("a broken one", ca.pem[:200] + b"!\n" + ca.pem[200:]),
                        ("too many bytes", ca.pem * 4000)):
        mine, theirs = ipc.pair()
        p = ipc.spawn(courier.PROGRAM, theirs, stderr=-1)
        ch = ipc.Chan(mine)
        fd = ipc.memfd(roots)
        ch.send("COURIER_START", 1, [fd])
        os.close(fd)
        said = p.stderr.read().decode()
        ok(p.wait(10) == 2 and "roots" in said,
           "roots with %s: it does not start, and says so" % what, said)
        ch.close()


def test_two_jobs():
    up = host(lambda r: (200, ADVERTISED, b"x"))
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        a, b = socket.socketpair()
        with c.dial(up.port) as s:
            c.chan.send("COURIER_GIT", 9, [s.fileno(), b.fileno()],
                        host="github.com", port=443, repo="o/r")
        a.close()
        b.close()
        ok(c.wait() == 3, "a second job ends it")
    with courier.Courier(ca.pem) as c:
        c.chan.send("COURIER_MINTED", 9)
        ok(c.wait() == 3, "what is no job ends it")
    ok(not up.requests, "nothing had gone out", up.requests)


# --- requests that are not the granted one -----------------------------------------

def test_refused():
    up = host(lambda r: (200, ADVERTISED, b"x"))
    get = REFS.replace
    cases = [
        ("another repository", [get("/r.git", "/s.git"), HOST]),
        ("another owner", [get("/o/", "/p/"), HOST]),
        ("a longer name", [get("/r.git", "/rr.git"), HOST]),
        ("a path below it", [get("/info", "/x/info"), HOST]),
        ("a letter for a slash", [get("/info", "xinfo"), HOST]),
        ("an encoded path", [get("/o/", "/%6f/"), HOST]),
        ("dots", [get("/o/", "/o/../o/"), HOST]),
        ("two slashes", [get("/o/", "//o/"), HOST]),
        ("a push's refs", [get("upload", "receive"), HOST]),
        ("no query", [get("?service=git-upload-pack", ""), HOST]),
        ("a longer query", [get("-pack ", "-pack&x=1 "), HOST]),
        ("objects of dumb HTTP", [get("info/refs?service=git-upload-pack",
                                      "HEAD"), HOST]),
        ("LFS", ["POST /o/r.git/info/lfs/objects/batch HTTP/1.1", HOST, TYPE,
                 "Content-Length: 0"]),
        ("the API", ["GET /repos/o/r HTTP/1.1", HOST]),
        ("another method", [get("GET", "HEAD"), HOST]),
        ("DELETE", [get("GET", "DELETE"), HOST]),
        ("another host", [REFS, "Host: api.github.com"]),
        ("another port", [REFS, "Host: github.com:8443"]),
        ("an absolute target", [get("GET ", "GET http://github.com"), HOST]),
        ("CONNECT", ["CONNECT github.com:443 HTTP/1.1", HOST]),
        ("a body where none is", [REFS, HOST, "Content-Length: 3"]),
        ("no body where one is", [POST, HOST, TYPE]),
        ("another type", [POST, HOST, PTYPE, "Content-Length: 4"]),
        ("no type", [POST, HOST, "Content-Length: 4"]),
        ("deflate", [POST, HOST, TYPE, "Content-Encoding: deflate",
                     "Content-Length: 4"]),
        ("two encodings", [POST, HOST, TYPE, "Content-Encoding: gzip",
                           "Content-Encoding: gzip", "Content-Length: 4"]),
        ("two versions", [REFS, HOST, "Git-Protocol: version=2",
                          "Git-Protocol: version=1"]),
        ("a query at the service", [POST.replace("-pack", "-pack?x=1"), HOST,
                                    TYPE, "Content-Length: 4"]),
    ]
    for what, lines in cases:
        a, over, status = one(up, *lines, body=b"0000")
        ok(a.status == 403 and a.whole and a.body.startswith(
            b"BLOCKED by sbx: ") and over["code"] == "not_granted" and
            over["error"] == -19 and status == 0,
           "refused: %s" % what, (a, over))
    bad = [
        ("HTTP/1.0", [get("1.1", "1.0"), HOST]),
        ("no Host", [REFS]), ("two Hosts", [REFS, HOST, HOST]),
        ("two lengths", [POST, HOST, TYPE, "Content-Length: 4",
                         "Content-Length: 5"]),
        ("chunks and a length", [POST, HOST, TYPE, "Content-Length: 4",
                                 "Transfer-Encoding: chunked"]),
        ("a folded header", [REFS, HOST, "X: 1", " 2"]),
        ("a blank before the colon", [POST, HOST, TYPE,
                                      "Content-Length : 4"]),
        ("two authorizations", [REFS, HOST, "Authorization: Basic eA==",
                                "Authorization: Basic eQ=="]),
        ("a line feed alone", [REFS, HOST, "X: 1\nY: 2"]),
        ("another coding", [POST, HOST, TYPE, "Transfer-Encoding: gzip"]),
        ("too many headers", [REFS, HOST] + ["X: 1"] * 120),
        ("headers that are too long", [REFS, HOST] + ["X: " + "x" * 1000] *
         80),
    ]
    for what, lines in bad:
        a, over, status = one(up, *lines, body=b"0000")
        ok(a.status == 403 and a.whole and over["code"] == "bad_request" and
           status == 0, "refused as it stands: %s" % what, (a, over))
    a, over, _ = one(up, POST, HOST, TYPE, "Transfer-Encoding: chunked",
                     body=b"4;x=1\r\n0000\r\n0\r\n\r\n")
    ok(over["code"] == "bad_request", "refused: extensions of chunks", over)
    ok(not up.requests or all(r["method"] == "POST" for r in up.requests),
       "none of it went out", up.requests)
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.stream.sendall(b"GET /o/")
        c.stream.shutdown(socket.SHUT_WR)
        a = c.answer()
        ok(a.status == 403 and c.over()["code"] == "bad_request",
           "a request that is cut is none", a)


def test_jobs_refused():
    up = host(lambda r: (200, ADVERTISED, b"x"))
    for what, job in (("a repository of dots", {"repo": "o/.."}),
                      ("no owner", {"repo": "r"}),
                      ("three names", {"repo": "o/r/s"}),
                      ("a host with a slash", {"host": "github.com/x"}),
                      ("an unknown op", {"op": 2}),
                      ("a token with a line feed", {"token": TOKEN + "\n"}),
                      ("a token that is short", {"token": "abc"}),
                      ("a user with a colon", {"user": "a:b"}),
                      ("a push of no ref", {"op": 1, "ref": "HEAD"})):
        a, over, status = one(up, REFS, HOST, **job)
        ok(over["code"] == "bad_request" and a.status == 403 and status == 0,
           "a job with %s is refused" % what, (a, over))
    ok(not up.requests, "none of it went out", up.requests)


def test_rebuilt():
    """what goes out is written anew from the grant"""
    up = host(lambda r: (200, dict(ADVERTISED, **{
        "Set-Cookie": "a=b", "X-Secret": "s", "Cache-Control": "no-cache",
        "Pragma": "no-cache", "Expires": "Fri, 01 Jan 1980 00:00:00 GMT",
        "WWW-Authenticate": "Basic", "Alt-Svc": "h3=\":443\"",
        "Link": "<https://x/>"}), b"refs"))
    a, over, status = one(
        up, REFS.replace("/o/r", "/O/R"), HOST, "Git-Protocol: version=2",
        "Authorization: Basic c2FuZGJveDpzYW5kYm94", "Cookie: c=1",
        "X-HTTP-Method-Override: DELETE", "X-Forwarded-Host: evil.example",
        "User-Agent: evil/1", "Accept-Encoding: gzip", "Range: bytes=1-2",
        "Connection: keep-alive", body=b"GET / HTTP/1.1\r\n\r\n")
    r = up.requests[0]
    ok(a.status == 200 and a.body == b"refs" and a.whole and
       over["error"] == 0 and over["in_bytes"] == 4 and status == 0,
       "a granted request is answered", (a, over))
    ok(r["target"] == "/o/r.git/info/refs?service=git-upload-pack" and
       set(r["headers"]) == {"host", "authorization", "user-agent", "accept",
                             "git-protocol"},
       "its line and headers are the courier's own", r["headers"])
    ok(r["headers"]["authorization"] == "Basic " + base64.b64encode(
        b"x-access-token:" + TOKEN.encode()).decode(),
       "with the credential")
    ok(set(a.headers) == {"content-type", "cache-control", "pragma",
                          "expires", "transfer-encoding", "connection"},
       "of the answer's headers, git's pass", a.headers)
    ok(len(up.requests) == 1 and up.connections == 1,
       "what follows a request is not another", up.requests)
    a, _, _ = one(up, REFS.replace(".git", ""), HOST,
                  "Git-Protocol: version=2:x=y", token="")
    r = up.requests[1]
    ok(a.status == 200 and "authorization" not in r["headers"] and
       "git-protocol" not in r["headers"] and r["target"].startswith(
           "/o/r/info"), "without a token: none; a version that is not 1 or "
       "2 is not passed on", r)


def test_push_judged():
    up = host(lambda r: (200, {
        "Content-Type": "application/x-git-receive-pack-result"}, b"done"))
    job = {"op": 1, "ref": "refs/heads/x", "old_id": OLD, "new_id": NEW}
    caps = "\0 report-status side-band-64k agent=git/2"

    def push(*commands, tail=b"PACKdata", chunked=False, more=(), **changed):
        body = b"".join(pkt(c) for c in commands) + b"0000" + tail
        head = [PPOST, HOST, PTYPE, *more]
        if chunked:
            head.append("Transfer-Encoding: chunked")
            body = b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n"
        else:
            head.append("Content-Length: %d" % len(body))
        before = len(up.requests)
        a, over, status = one(up, *head, body=body, **{**job, **changed})
        return a, over, len(up.requests) - before, status

    good = "%s %s refs/heads/x%s" % (OLD, NEW, caps)
    for chunked in (False, True):
        a, over, n, status = push(good, chunked=chunked)
        sent = up.requests[-1]["body"] if n else b""
        ok(a.status == 200 and n == 1 and sent == pkt(good) +
           b"0000PACKdata" and status == 0 and over.begun and
           over["out_bytes"] == len(sent),
           "the granted push goes out, byte by byte (chunked %d)" % chunked,
           (a, over, sent))
    for body, framing in ((b"0000", ["Content-Length: 4"]),
                          (b"4\r\n0000\r\n0\r\n\r\n",
                           ["Transfer-Encoding: chunked"])):
        a, over, _ = one(up, PPOST, HOST, PTYPE, *framing, body=body, **job)
        ok(a.status == 200 and up.requests[-1]["body"] == b"0000" and
           not over.begun, "git's probe goes out (%s)" % framing[0], (a, over))
    bad = [
        ("another ref", ["%s %s refs/heads/y%s" % (OLD, NEW, caps)], {}),
        ("another commit", ["%s %s refs/heads/x%s" % (OLD, "3" * 40, caps)],
         {}),
        ("from another commit", ["%s %s refs/heads/x%s" % ("3" * 40, NEW,
                                                           caps)], {}),
        ("a deletion", ["%s %s refs/heads/x%s" % (OLD, "0" * 40, caps)], {}),
        ("one change more", [good, "%s %s refs/heads/y" % (OLD, NEW)], {}),
        ("the same twice", [good, "%s %s refs/heads/x" % (OLD, NEW)], {}),
        ("nothing", [], {}),
        ("what is no command", ["push-cert\0x"], {}),
        ("compressed bytes", [good], {"more": ["Content-Encoding: gzip"]}),
        ("nothing and a pack", [], {"tail": b"PACK"}),
    ]
    for what, commands, more in bad:
        for chunked in (False, True):
            if what == "nothing" and not chunked:
                more = {"tail": b"0000"}
            a, over, n, status = push(*commands, chunked=chunked, **more)
            ok(a.status == 403 and n == 0 and status == 0 and
               over["code"] == "not_granted" and over["out_bytes"] == 0 and
               not over.begun,
               "not a byte of it goes out: %s (chunked %d)" % (what, chunked),
               (a, over, n))
            if what == "nothing":
                break
    a, over, n, _ = push("%s %s refs/heads/x%s" % ("3" * 40, NEW, caps),
                         force=1)
    ok(a.status == 200 and n == 1, "with force, from any commit", over)
    a, over, n, _ = push(good, op=0)
    ok(a.status == 403 and n == 0, "a grant to fetch is none to push", over)
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN, **job)
        c.send(PPOST, HOST, PTYPE, "Content-Length: 500",
               body=pkt(good)[:30])
        c.stream.shutdown(socket.SHUT_WR)
        a = c.answer()
        over = c.over()
        ok(a.status == 403 and over["out_bytes"] == 0,
           "commands that are cut go nowhere", (a, over))


# --- what hosts answer -----------------------------------------------------------------

def test_statuses():
    where = "https://github.com/n/new.git/info/refs?service=git-upload-pack"
    for status, headers, want, code in (
            (401, {"WWW-Authenticate": "Basic realm=x"}, 403, "unauthorized"),
            (407, {"Proxy-Authenticate": "Basic"}, 403, "unauthorized"),
            (403, {}, 403, "forbidden"), (404, {}, 404, "not_found"),
            (410, {}, 410, "gone"), (429, {}, 429, "rate_limited"),
            (500, {}, 500, "upstream"), (503, {}, 503, "upstream"),
            (301, {"Location": where}, 301, "moved"),
            (308, {"Location": where}, 308, "moved")):
        up = host(lambda r, s=status, h=headers: (s, h, b"sorry"))
        a, over, _ = one(up, REFS, HOST)
        ok(a.status == want and a.whole and over["code"] == code and
           over["error"] < 0 and over["status"] == status and
           "www-authenticate" not in a.headers,
           "status %d: %d, %s" % (status, want, code), (a, over))
        if status == 401:
            ok(b"credential" in a.body, "and a sentence", a.body)
        if status in (301, 308):
            ok(a.headers.get("location") == where,
               "its Location passes: the same host and request", a.headers)
    for to in ("http://github.com/n/r.git/info/refs?service=git-upload-pack",
               "https://evil.example/n/r.git/info/refs?service="
               "git-upload-pack",
               "https://github.com.evil.example/n/r.git/info/refs?service="
               "git-upload-pack",
               "https://x@github.com/n/r.git/info/refs?service="
               "git-upload-pack",
               "https://github.com:8443/n/r.git/info/refs?service="
               "git-upload-pack",
               "https://github.com/n/r/x/info/refs?service=git-upload-pack",
               "https://github.com/n/r/info/refs?service=git-receive-pack",
               "https://github.com/n/r/info/refs?service=git-upload-pack&t=1",
               "https://github.com/n/..%2f/info/refs?service=git-upload-pack",
               "/n/r.git/info/refs?service=git-upload-pack"):
        up = host(lambda r, to=to: (302, {"Location": to}, b""))
        a, over, _ = one(up, REFS, HOST)
        ok(a.status == 302 and "location" not in a.headers,
           "no Location of %s" % to, a)
    up = host(lambda r: (200, {"Content-Type": "text/html"}, b"<html>"))
    a, over, _ = one(up, REFS, HOST)
    ok(a.status == 502 and over["code"] == "upstream" and
       b"html" not in a.body, "a page is no answer of git's", (a, over))
    up = host(lambda r: (200, dict(ADVERTISED, **{
        "Content-Encoding": "gzip"}), b"\x1f\x8b"))
    a, over, _ = one(up, REFS, HOST)
    ok(a.status == 502 and over["code"] == "upstream",
       "nor what is compressed, which was not asked for", (a, over))


def test_tls():
    other = egress.Authority("Other Root")
    up = host(lambda r: (200, ADVERTISED, b"x"))
    a, over, _ = one(up, REFS, HOST, roots=other.pem)
    ok(a.status == 502 and over["code"] == "tls" and not up.requests,
       "a certificate of another authority", (a, over))
    up = egress.Upstream(ca, ["gitlab.example"])
    a, over, _ = one(up, REFS, HOST)
    ok(a.status == 502 and over["code"] == "tls" and not up.requests,
       "a certificate for another name", (a, over))
    up = egress.Upstream(handler=lambda _u, s: s.sendall(b"HTTP/1.1 200 OK\r\n"
                                                         b"\r\n"))
    a, over, _ = one(up, REFS, HOST)
    ok(a.status == 502 and over["code"] == "tls", "no TLS at all", (a, over))
    up = host(lambda r: (200, ADVERTISED, b"x"))
    up.context.minimum_version = ssl.TLSVersion.TLSv1
    up.context.maximum_version = ssl.TLSVersion.TLSv1_1
    a, over, _ = one(up, REFS, HOST)
    ok(a.status == 502 and over["code"] == "tls", "TLS 1.1", (a, over))
    other.close()


def encodings():
    raw = TOKEN.encode()
    pair = b"x-access-token:" + raw
    out = {"as it is": raw, "hex": raw.hex().encode(),
           "hex, upper case": raw.hex().upper().encode(),
           "URL": "".join("%%%02X" % b for b in raw).encode(),
           "URL, lower case": "".join("%%%02x" % b for b in raw).encode(),
           "URL, of what is no letter": urllib.parse.quote(
               TOKEN, safe="").replace("_", "%5F").replace(
                   "-", "%2D").replace(".", "%2E").encode(),
           "JSON": "".join("\\u%04x" % b for b in raw).encode(),
           "Basic": base64.b64encode(pair),
           "base64url of Basic": base64.urlsafe_b64encode(pair)}
    for n in range(3):
        out["base64 behind %d" % n] = base64.b64encode(b"xyz"[:n] + raw +
                                                       b"more")
    return out


def test_echoed():
    """the credential in what a host sends back"""
    for name, value in encodings().items():
        up = host(lambda r, v=value: (200, dict(
            ADVERTISED, **{"Cache-Control": v.decode()}), b"refs"))
        a, over, _ = one(up, REFS, HOST)
        ok(over["code"] == "secret_in_answer" and value not in a.raw and
           a.status == 502, "in a header: %s" % name, (a, over))
        up = host(lambda r, v=value: (404, {}, b"no " + v + b" here"))
        a, over, _ = one(up, REFS, HOST)
        ok(over["code"] == "secret_in_answer" and value not in a.raw and
           not a.whole, "in a body: %s" % name, (a, over))

        def bytewise(s, f, v=value):
            egress.read_head(f)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-"
                      b"upload-pack-advertisement\r\nTransfer-Encoding: "
                      b"chunked\r\n\r\n")
            for b in b"before " + v + b" behind":
                s.sendall(b"1\r\n%c\r\n" % b)
                time.sleep(0.001)
            s.sendall(b"0\r\n\r\n")
        a, over, _ = one(raw_host(bytewise), REFS, HOST)
        ok(over["code"] == "secret_in_answer" and not a.whole and
           value[:8] not in a.raw, "byte by byte: %s" % name, (a, over))
    half = TOKEN[:20].encode()
    up = host(lambda r: (200, ADVERTISED, half + b"\n" + half))
    a, over, _ = one(up, REFS, HOST)
    ok(a.body == half + b"\n" + half and a.whole and over["error"] == 0,
       "half of it is not it, and comes through whole", (a, over))
    a, over, _ = one(host(lambda r: (401, {}, TOKEN.encode())), REFS, HOST)
    ok(TOKEN.encode() not in a.raw and TOKEN not in over["reason"],
       "nor is it in a refusal", (a, over))


def test_hosts_that_misbehave():
    def answers(text, wait=0):
        def fn(s, f):
            egress.read_head(f)
            s.sendall(text)
            time.sleep(wait)
        return raw_host(fn)
    git = b"Content-Type: application/x-git-upload-pack-advertisement\r\n"
    for what, text, code in (
            ("no answer", b"", "upstream"),
            ("HTTP/0.9", b"hello\n", "upstream"),
            ("a body that is cut", b"HTTP/1.1 200 OK\r\n" + git +
             b"Content-Length: 10\r\n\r\nx", "upstream"),
            ("chunks that are cut", b"HTTP/1.1 200 OK\r\n" + git +
             b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", "upstream"),
            ("chunks that are none", b"HTTP/1.1 200 OK\r\n" + git +
             b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc", "upstream"),
            ("endless headers", b"HTTP/1.1 200 OK\r\n" + git + (
                b"X: " + b"x" * 1000 + b"\r\n") * 200 +
             b"Content-Length: 1\r\n\r\nx", "upstream"),
            ("endless trailers", b"HTTP/1.1 200 OK\r\n" + git +
             b"Transfer-Encoding: chunked\r\n\r\n4\r\n0000\r\n0\r\n" + (
                 b"X: " + b"x" * 1000 + b"\r\n") * 200 + b"\r\n", "upstream"),
            ("two codings", b"HTTP/1.1 200 OK\r\n" + git +
             b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
             "upstream"),
            ("a coding in odd letters", b"HTTP/1.1 200 OK\r\n" + git +
             b"CONTENT-Encoding:\tgzip\x01\r\nContent-Length: 1\r\n\r\nx",
             "upstream")):
        a, over, status = one(answers(text), REFS, HOST)
        ok(over["code"] == code and not (a.whole and a.status == 200) and
           status == 0, "%s: it is not whole" % what, (a, over))
    a, over, _ = one(answers(b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n"
                             b"HTTP/1.0 200 OK\r\n" + git + b"\r\nold"), REFS,
                     HOST)
    ok(a.status == 200 and a.body == b"old" and a.whole,
       "100 before, and HTTP/1.0", (a, over))
    a, over, _ = one(answers(b"HTTP/1.1 200 OK\r\n" + git + b"Transfer-"
                             b"Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
                             b"X-Trailer: 1\r\n\r\n"), REFS, HOST)
    ok(a.status == 200 and a.body == b"abc" and b"railer" not in a.raw,
       "a trailer goes nowhere", (a, over))


def test_early_413():
    """the host answers and closes while a body is on its way"""
    def fn(s, f):
        egress.read_head(f)
        f.read(100000)
        s.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n"
                  b"Connection: close\r\n\r\nlarge")
        time.sleep(0.5)     # its reset would overtake that
    up = raw_host(fn)
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.send(POST, HOST, TYPE, "Content-Length: %d" % (64 << 20))

        def pump():
            try:
                for _ in range(64):
                    c.stream.sendall(b"x" * (1 << 20))
            except OSError:
                pass    # told to stop
        t = threading.Thread(target=pump, daemon=True)
        t.start()
        a = c.answer()
        over = c.over()
        t.join(10)
        ok(a.status == 413 and a.body == b"large" and
           over["code"] == "too_large", "it comes through", (a, over))
        ok(c.wait() == 0, "and the courier ends")


def test_slow_reader():
    """a sandbox that does not read: the host is not read either"""
    total, sent = 64 << 20, [0]

    def fn(s, f):
        head = egress.read_head(f)
        egress.read_body(f, head[1])
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-"
                  b"pack-result\r\nContent-Length: %d\r\n\r\n" % total)
        while sent[0] < total:
            s.sendall(b"%015d\n" % sent[0] * 65536)
            sent[0] += 1 << 20
    up = raw_host(fn)
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.send(POST, HOST, TYPE, "Content-Length: 4", body=b"0000")
        time.sleep(1.5)
        held = sent[0]
        time.sleep(0.5)
        ok(held < 24 << 20 and sent[0] == held,
           "after %d MiB nothing more is taken" % (held >> 20), sent)
        a = c.answer(60)
        peak = c.memory_kib()
        ok(a.whole and len(a.body) == total and c.over()["in_bytes"] == total,
           "then all of it comes", (len(a.body), a.whole))
        ok(all(a.body[n << 20:(n << 20) + 16] == b"%015d\n" % (n << 20)
               for n in range(64)), "in order")
        ok(peak < PEAK, "with %d KiB of memory" % peak)
    sent[0] = 0
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.send(POST, HOST, TYPE, "Content-Length: 4", body=b"0000")
        time.sleep(0.5)
        c.stream.close()
        ok(c.over(10)["error"] < 0 and c.wait() == 0,
           "a sandbox that goes away ends it")


def test_large_push():
    """100 MiB of chunks, counted and compared"""
    took, size, piece = [0, 0], 100, os.urandom(1 << 20)

    def fn(s, f):
        head = egress.read_head(f)
        took[1] = head[1].get("transfer-encoding")
        first = f.readline()
        while first.strip() != b"0":
            n = int(first, 16)
            data = f.read(n)
            took[0] += len(data)
            f.readline()
            first = f.readline()
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive"
                  b"-pack-result\r\nContent-Length: 4\r\n\r\ndone")
    up = raw_host(fn)
    command = pkt("%s %s refs/heads/x\0 report-status" % (OLD, NEW)) + b"0000"
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN, op=1, ref="refs/heads/x", old_id=OLD,
              new_id=NEW)
        c.send(PPOST, HOST, PTYPE, "Transfer-Encoding: chunked",
               body=b"%x\r\n%s\r\n" % (len(command), command))
        began = time.monotonic()
        for _ in range(size):
            c.stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        c.stream.sendall(b"0\r\n\r\n")
        a, peak = c.answer(60), c.memory_kib()
        over = c.over()
        ok(a.body == b"done" and took[0] == len(command) + (size << 20) and
           over["out_bytes"] == took[0], "a push of %d MiB in %.1f s" % (
               size, time.monotonic() - began), (a, took, over))
        ok(peak < PEAK, "with %d KiB of memory" % peak)


def test_idle():
    """a host that takes the request and says nothing holds no sandbox that
    has gone, and no broker that has"""
    up = raw_host(lambda s, f: (egress.read_head(f), time.sleep(20)))
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.send(REFS, HOST)
        time.sleep(0.3)
        began = time.monotonic()
        c.stream.close()
        ok(c.over(10)["error"] < 0 and time.monotonic() - began < 5,
           "the sandbox goes away: over at once")
    with courier.Courier(ca.pem) as c:
        c.git(up.port, token=TOKEN)
        c.send(REFS, HOST)
        time.sleep(0.3)
        c.chan.close()
        ok(c.wait(5) == 3, "the broker goes away: the courier ends")
        ok(not c.answer().whole, "and the stream with it")


def test_trickle():
    """a sandbox that moves a byte now and then holds no courier"""
    up = host(lambda r: (200, RESULT, b"x" * (8 << 20)))

    def end(c, began, what):
        o = c.over(10)
        took = time.monotonic() - began
        ok(o["code"] == "timeout" and "bytes a second" in o["reason"] and
           1.5 < took < 6, what, (o, took))
    hasty = courier.BUILD + "/courier_hasty"
    for what, lines, byte in (
            ("a head in bytes", (), b"GET /o/r.git/info/refs?service=gi"),
            ("a body in bytes", (POST, HOST, TYPE, "Content-Length: 9999"),
             b"x" * 40)):
        with courier.Courier(ca.pem, program=hasty) as c:
            c.git(up.port, token=TOKEN)
            if lines:
                c.send(*lines)
            began = time.monotonic()
            for k in range(len(byte)):
                try:
                    c.stream.send(byte[k:k + 1])
                except OSError:
                    break
                if select.select([c.chan], [], [], 0.25)[0]:
                    break
            end(c, began, what)
    up.answer = lambda r: (200, ADVERTISED, b"x" * (8 << 20))
    with courier.Courier(ca.pem, program=hasty) as c:
        began = time.monotonic()
        c.git(up.port, token=TOKEN)
        c.send(REFS, HOST)
        o = c.over(12)
        took = time.monotonic() - began
        ok(o["code"] == "timeout" and took < 8, "nor one that takes nothing; its courier says so",
           (o, took))
    up.close()


def test_whole():
    """one that moves all the time ends all the same: after an hour, which is
    five seconds of the one with less patience"""
    def for_ever(s, f):
        egress.read_head(f)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close"
                  b"\r\n\r\n" % ADVERTISED["Content-Type"].encode())
        try:
            while True:
                s.sendall(b"x" * 32768)
                time.sleep(0.1)
        except OSError:
            pass
    up = raw_host(for_ever)
    with courier.Courier(ca.pem,
                         program=courier.BUILD + "/courier_hasty") as c:
        c.git(up.port, token=TOKEN)
        began = time.monotonic()
        c.send(REFS, HOST)
        threading.Thread(target=c.answer, args=(20,), daemon=True).start()
        o = c.over(12)
        took = time.monotonic() - began
        ok(o["code"] == "timeout" and o["in_bytes"] > 1000000 and
           4.5 < took < 9, "an exchange has an end", (o, took))
    up.close()


def test_blocking():
    """Whoever shares the courier's connection makes its reads block."""
    asked = threading.Event()

    def part_of_a_record(s, f):
        egress.read_head(f)
        asked.set()
        time.sleep(0.3)
        socket.socket.send(s, b"\x17\x03\x03\x01\x00")
        time.sleep(15)
    up = raw_host(part_of_a_record)
    with courier.Courier(ca.pem) as c:
        shared = courier.Courier.dial(up.port)
        began = time.monotonic()
        c.rest(up.port, 0, sock=shared.dup(), within_ms=2000)
        asked.wait(5)
        os.set_blocking(shared.fileno(), True)
        code = c.wait(10)
        took = time.monotonic() - began
        ok(code == -signal.SIGALRM and took < 6,
           "its alarm ends it, a little after its deadline", (code, took))
        shared.close()


# --- git itself ----------------------------------------------------------------------------

gh = None


def github():
    global gh
    gh = gh or fakegithub.Github(ca)
    return gh


def test_git():
    if not shutil.which("git"):
        tap.skip("git is not installed", "git itself")
        return
    g = github()
    r = g.repo("acme/secret", private=True, files={"README.md": "hello\n",
                                                   "big.txt": "x\n" * 9000})
    for n in range(40):
        r.git("update-ref", "refs/heads/b%d" % n, r.commit(
            {"n.txt": "%d\n" % n}, base=r.tip()))
    token = g.static(["acme/secret"])
    job = {"repo": "acme/secret", "token": token.text}
    gate = courier.Gate(ca.pem, g.port, lambda: job, home)
    for what, args, config in (
            ("protocol 0", [], ["protocol.version=0"]),
            ("protocol 1", [], ["protocol.version=1"]),
            ("protocol 2", [], ["protocol.version=2"]),
            ("shallow", ["--depth=1"], []),
            ("partial", ["--filter=blob:none"], []),
            ("bodies that are compressed", [], ["http.postBuffer=65536",
                                                "protocol.version=0"])):
        to = os.path.join(home, what.replace(" ", "-"))
        status, said = gate.git("clone", "-q", *args, gate.url("Acme/Secret"),
                                to, config=config)
        ok(status == 0 and os.path.exists(to + "/README.md"),
           "clone: %s" % what, (said, gate.overs[-3:], gate.errors))
    to = os.path.join(home, "protocol-2")
    r.commit({"later.txt": "later\n"}, base=r.tip())
    status, said = gate.git("-C", to, "pull", "-q")
    ok(status == 0 and os.path.exists(to + "/later.txt"), "pull", said)
    ok(any("gzip" in s.headers.get("content-encoding", "") for s in g.log),
       "git compressed a request")
    ok(all(o["error"] == 0 for o in gate.overs) and not gate.errors,
       "each exchange ended well", (gate.overs, gate.errors))
    job["repo"] = "acme/other"
    status, said = gate.git("ls-remote", gate.url("acme/secret"))
    ok(status != 0 and "403" in said, "another repository's grant", said)
    job.update(repo="acme/secret", token="ghs_" + "0" * 36)
    status, said = gate.git("ls-remote", gate.url("acme/secret"))
    ok(status != 0 and "403" in said and "terminal prompts" not in said,
       "a credential that the host does not take asks nobody", said)
    ok(gate.settled()[-1]["code"] == "unauthorized", "and is called so",
       gate.overs[-1])
    gate.close()


def test_git_push():
    if not shutil.which("git"):
        tap.skip("git is not installed", "git push")
        return
    g = github()
    r = g.repo("acme/pushed", private=True)
    token = g.static(["acme/pushed"])
    job = {"repo": "acme/pushed", "token": token.text}
    gate = courier.Gate(ca.pem, g.port, lambda: job, home)
    to = os.path.join(home, "pushed")
    gate.git("clone", "-q", gate.url("acme/pushed"), to)
    with open(to + "/large", "wb") as f:
        for _ in range(40):
            f.write(os.urandom(1 << 20))
    gate.git("-C", to, "add", "large", config=["core.compression=0"])
    gate.git("-C", to, "commit", "-qm", "large")
    new = gate.git("-C", to, "rev-parse", "HEAD")[1].strip()
    job.update(op=1, ref="refs/heads/topic", old_id="0" * 40, new_id=new)
    status, said = gate.git("-C", to, "push", "-q", "origin",
                            "HEAD:refs/heads/other")
    ok(status != 0 and "403" in said, "another ref than the granted one",
       said)
    gate.peak = 0
    status, said = gate.git("-C", to, "push", "-q", "origin",
                            "HEAD:refs/heads/topic")
    ok(status == 0 and r.tip("refs/heads/topic") == new,
       "the granted push of 40 MiB", (said, gate.settled()[-2:]))
    ok(gate.peak < PEAK, "with %d KiB of memory" % gate.peak)
    gate.close()


# --- REST ----------------------------------------------------------------------------------

(REPO, ISSUE, ISSUE_COMMENTS, PULL, REVIEWS, REVIEW_COMMENTS, CHECKS, STATUS,
 PULLS_OF, ISSUE_CREATE, ISSUE_COMMENT, REVIEW_CREATE, PULL_CREATE
 ) = range(13)


def ask(up, op, body=b"", **job):
    """(COURIER_OVER, what it wrote) of one request of REST"""
    with courier.Courier(ca.pem) as c:
        c.rest(up.port, op, body if isinstance(body, bytes) else
               json.dumps(body).encode(), **{"token": TOKEN, **job})
        over = c.over(50)
        text = c.text()
        ok(c.wait() == 0, "it ends") if over["error"] == 99 else None
        os.close(c.file)
        return over, text


def test_rest_reads():
    g = github()
    r = g.repo("acme/rest", private=True)
    i = r.issue(body="the body\n/not a command here")
    r.comment(i, "first")
    p = r.pull("feature")
    r.review(p, "good")
    r.remark(p, "a remark")
    sha = p["pull"]["head"]
    r.check(sha, "build")
    r.status(sha, "ci")
    token = g.static(["acme/rest"]).text
    job = {"repo": "acme/rest", "token": token}
    for op, more, have in (
            (REPO, {}, lambda a: a["full_name"] == "acme/rest" and
             a["private"] is True and a["default_branch"] == "main"),
            (ISSUE, {"number": i["number"]}, lambda a: a["title"] and
             a["user"] == {"login": "somebody"} and
             a["labels"] == [{"name": "bug"}]),
            (ISSUE_COMMENTS, {"number": i["number"]},
             lambda a: a[0]["body"] == "first" and "#" in a[0]["html_url"]),
            (PULL, {"number": p["number"]}, lambda a: a["head"]["sha"] == sha
             and a["head"]["repo"] == {"full_name": "acme/rest"}),
            (REVIEWS, {"number": p["number"]},
             lambda a: a[0]["state"] == "COMMENTED"),
            (REVIEW_COMMENTS, {"number": p["number"]},
             lambda a: a[0]["path"] == "new.txt" and a[0]["line"] == 1),
            (CHECKS, {"text": sha},
             lambda a: a["check_runs"][0]["conclusion"] == "success" and
             a["check_runs"][0]["output"] == {"title": "build"} and
             "html_url" not in a["check_runs"][0]),
            (STATUS, {"text": sha},
             lambda a: a["statuses"][0]["context"] == "ci")):
        over, text = ask(g, op, **{**job, **more})
        try:
            good = over["error"] == 0 and have(json.loads(text))
        except (ValueError, KeyError, IndexError, TypeError) as e:
            good = repr(e) == ""
        ok(good, "op %d is answered" % op, (over, text))
        ok(g.hidden.encode() not in text and token.encode() not in text and
           b"token" not in text and b"?" not in text,
           "op %d: nothing that was not asked for" % op, text)
    seen = g.seen(path="/issues/%d/comments" % i["number"])[-1]
    ok(seen.query == "per_page=100&page=1" and seen.auth == "bearer" and
       seen.headers["x-github-api-version"] == "2022-11-28" and
       seen.headers["accept"] == "application/vnd.github+json" and
       seen.headers["user-agent"] == "sbx", "as GitHub asks it to be asked",
       seen.headers)
    over, text = ask(g, ISSUE, number=i["number"], repo="acme/rest", token="")
    ok(over["code"] == "not_found" and over["status"] == 404 and text == b"",
       "without a credential a private one is not there", (over, text))
    over, _ = ask(g, ISSUE, number=999, **job)
    ok(over["code"] == "not_found", "nor is what is not there", over)


def test_rest_writes():
    g = github()
    r = g.repo("acme/writes", private=True)
    i, p = r.issue(), r.pull("feature")
    token = g.static(["acme/writes"]).text
    job = {"repo": "acme/writes", "token": token}
    over, text = ask(g, ISSUE_CREATE, {
        "title": "a <title> \"x\"", "body": "b\u2028ody", "labels": ["bug"]},
        **job)
    made = json.loads(text or b"{}")
    ok(over["error"] == 0 and set(made) == {"number", "id", "html_url"},
       "an issue is made", (over, text))
    over, text = ask(g, ISSUE_COMMENT, {"body": "words"}, number=i["number"],
                     **job)
    ok(over["error"] == 0 and "id" in json.loads(text or b"{}"),
       "a comment", (over, text))
    over, text = ask(g, REVIEW_CREATE, {
        "event": "COMMENT", "body": "so so", "commit_id": p["pull"]["head"],
        "comments": [{"path": "new.txt", "line": 1, "side": "RIGHT",
                      "body": "here"}]}, number=p["number"], **job)
    ok(over["error"] == 0 and "id" in json.loads(text or b"{}"),
       "a review", (over, text))
    sent = len(g.log)
    for what, op, body, code in (
            ("no JSON", ISSUE_COMMENT, b"{", "bad_request"),
            ("a list", ISSUE_COMMENT, [], "bad_request"),
            ("a member twice", ISSUE_COMMENT, b'{"body":"a","body":"b"}',
             "bad_request"),
            ("a member too many", ISSUE_COMMENT, {"body": "a", "x": 1},
             "bad_request"),
            ("a NUL", ISSUE_COMMENT, {"body": "a\0b"}, "bad_request"),
            ("33 labels", ISSUE_CREATE, {"title": "a", "labels": ["x"] * 33},
             "bad_request"),
            ("a member too few", ISSUE_CREATE, {"body": "a"}, "bad_request"),
            ("another type", ISSUE_CREATE, {"title": 1}, "bad_request"),
            ("null", ISSUE_CREATE, {"title": "a", "body": None},
             "bad_request"),
            ("an unknown event", REVIEW_CREATE, {"event": "MERGE"},
             "bad_request"),
            ("a number below 1", REVIEW_CREATE, {
                "event": "COMMENT", "comments": [{"path": "a", "body": "b",
                                                  "line": 0}]},
             "bad_request"),
            ("a body that is too long", ISSUE_COMMENT, {"body": "x" * 300000},
             "too_large"),
            ("an assignee", ISSUE_CREATE, {"title": "a", "assignees": ["x"]},
             "bad_request"),
            ("a command", ISSUE_COMMENT, {"body": "/merge"}, "bot_command"),
            ("a command in a later line", ISSUE_COMMENT,
             {"body": "fine\r\n \t/merge"}, "bot_command"),
            ("a mention", ISSUE_COMMENT, {"body": "a\n@bot merge"},
             "bot_command"),
            ("a command behind what cannot be seen", ISSUE_COMMENT,
             {"body": "a\u2028\u200b\u00a0/merge"}, "bot_command"),
            ("a command in a title", ISSUE_CREATE, {"title": "@bot"},
             "bot_command"),
            ("a command in a review's comment", REVIEW_CREATE, {
                "event": "COMMENT", "comments": [
                    {"path": "a", "line": 1, "body": "/x"}]},
             "bot_command")):
        over, text = ask(g, op, body, number=1, **job)
        ok(over["code"] == code and text == b"" and over["reason"],
           "refused: %s" % what, over)
    ok(len(g.log) == sent, "none of it went out", g.log[sent:])
    over, _ = ask(g, ISSUE_COMMENT, {"body": "/merge it"},
                  number=i["number"], bot_commands=1, **job)
    ok(over["error"] == 0, "a command that the operator allows", over)
    over, _ = ask(g, ISSUE_COMMENT, {"body": "see a/b, mail x@y and 1/2"},
                  number=i["number"], **job)
    ok(over["error"] == 0, "no command: marks within a line", over)


def test_rest_refused():
    now = int(time.time())
    api = {"Content-Type": "application/json"}
    new = "https://api.github.com/repositories/123"
    for what, status, headers, body, code, more in (
            ("401", 401, {}, {"message": "Bad credentials"}, "unauthorized",
             lambda o: "Bad credentials" in o["reason"]),
            ("403", 403, {}, {"message": "Resource not accessible"},
             "forbidden", lambda o: o["retry_s"] == 0),
            ("no more requests", 403, {"x-ratelimit-remaining": "0",
                                       "x-ratelimit-reset": str(now + 90)},
             {}, "rate_limited", lambda o: 80 < o["retry_s"] <= 90),
            ("a second limit", 403, {"Retry-After": "60"}, {}, "rate_limited",
             lambda o: o["retry_s"] == 60),
            ("429", 429, {"Retry-After": "7"}, {}, "rate_limited",
             lambda o: o["retry_s"] == 7),
            ("410", 410, {}, {"message": "Issues are disabled"}, "gone",
             lambda o: "disabled" in o["reason"]),
            ("422", 422, {}, {"message": "Validation Failed", "errors": [
                {"resource": "Issue", "field": "title", "code": "missing"}]},
             "validation", lambda o: "title missing" in o["reason"]),
            ("500", 500, {}, b"<html>", "upstream", lambda o: True),
            ("a move", 301, {"Location": new + "/issues/1"}, {}, "moved",
             lambda o: o["reason"] == "/repositories/123"),
            ("a move by name", 308, {
                "Location": "https://api.github.com/repos/n/new/issues/1"},
             {}, "moved", lambda o: o["reason"] == "/repos/n/new"),
            ("a move to another host", 301, {
                "Location": "https://evil.example/repositories/1"}, {},
             "moved", lambda o: "/repositories" not in o["reason"]),
            ("a move to dots", 301, {
                "Location": "https://api.github.com/repos/n/..?x"}, {},
             "moved", lambda o: "/repos" not in o["reason"]),
            ("a move to elsewhere", 307, {
                "Location": "https://api.github.com/user/repos"}, {},
             "moved", lambda o: "/user" not in o["reason"]),
            ("200 that is no JSON", 200, {}, b"{]", "upstream",
             lambda o: True),
            ("200 that is JSON twice", 200, {}, b'{"a":1,"a":2}', "upstream",
             lambda o: True),
            ("200 that is a list", 200, {}, b"[]", "upstream",
             lambda o: True),
            ("201", 201, {}, {}, "upstream", lambda o: True),
            ("204", 204, {}, b"", "upstream", lambda o: True),
            ("8 MiB and more", 200, {}, b'{"body":"' + b"x" * (8 << 20) +
             b'"}', "too_large", lambda o: True),
            ("deep nesting", 200, {}, b'{"a":' + b"[" * 40 + b"]" * 40 + b"}",
             "upstream", lambda o: True)):
        up = host(lambda r, s=status, h=headers, b=body: (
            s, dict(api, **h), b if isinstance(b, bytes) else
            json.dumps(b).encode()))
        over, text = ask(up, ISSUE, number=1)
        ok(over["code"] == code and over["error"] < 0 and more(over) and
           over["status"] in (status, 0) and text == b"", "%s: %s" % (
               what, code), (over, text))
    for name, value in encodings().items():
        v = value.decode()
        quoted = v if "\\u" in v else json.dumps(v)[1:-1]
        for text in ('{"title":"%s"}', '{"not_passed":"%s"}'):
            up = host(lambda r, t=text, q=quoted: (200, api, (
                t % q).encode()))
            over, got = ask(up, ISSUE, number=1)
            ok(over["code"] == "secret_in_answer" and got == b"" and
               v not in over["reason"], "the credential in it: %s" % name,
               (over, got))
    mixed = "\\u%04x" % ord(TOKEN[0]) + TOKEN[1:]
    up = host(lambda r: (200, api, ('{"title":"%s"}' % mixed).encode()))
    over, got = ask(up, ISSUE, number=1)
    ok(over["code"] == "secret_in_answer" and got == b"",
       "the credential with one letter escaped", (over, got))
    up = host(lambda r: (422, api, json.dumps({"message": TOKEN}).encode()))
    over, _ = ask(up, ISSUE, number=1)
    ok(TOKEN not in over["reason"] and over["code"] == "secret_in_answer",
       "the credential in an error", over)
    odd = "opaque-%s-word" % fakegithub.word(20)
    up = host(lambda r: (422, api, ('{"message":"\\u006f%s"}' %
                                    odd[1:]).encode()))
    over, _ = ask(up, ISSUE, number=1, token=odd)
    ok(odd not in over["reason"] and "credential" in over["reason"],
       "one that only the courier knows for one, too", over)


def test_rest_paths():
    up = host(lambda r: (200, {
        "Link": '<https://api.github.com/x?per_page=100&page=1>; rel="prev", '
        '<https://api.github.com/x?per_page=100&page=3>; rel="next", '
        '<https://api.github.com/x?page=9>; rel="last"'}, b"[]"))
    over, text = ask(up, ISSUE_COMMENTS, number=7, page=2, prefix="/api/v3")
    ok(over["next_page"] == 3 and text == b"[]", "the next page is told",
       (over, text))
    ok(up.requests[-1]["target"] ==
       "/api/v3/repos/o/r/issues/7/comments?per_page=100&page=2",
       "a prefix, a number and a page", up.requests[-1]["target"])
    ask(up, ISSUE_COMMENTS, number=7, page=65536 + 12)
    ok(up.requests[-1]["target"].endswith("?per_page=10&page=12"),
       "a page of ten", up.requests[-1]["target"])
    before = len(up.requests)
    for what, job in (("no such op", {"op": 11}), ("op 255", {"op": 255}),
                      ("no number", {"op": ISSUE, "number": 0}),
                      ("no page", {"op": ISSUE_COMMENTS, "number": 1,
                                   "page": 0}),
                      ("no id", {"op": STATUS, "text": "main"}),
                      ("a path for an id", {"op": STATUS, "text": "../x"}),
                      ("dots", {"op": REPO, "repo": "o/.."}),
                      ("a query", {"op": REPO, "repo": "o/r?x=1"}),
                      ("a bad prefix", {"op": REPO, "prefix": "/a/../b"})):
        over, text = ask(up, job.pop("op"), **job)
        ok(over["code"] == "bad_request" and text == b"",
           "refused: %s" % what, over)
    r, w = os.pipe()
    with courier.Courier(ca.pem) as c:
        c.rest(up.port, REPO, answer=w)
        ok(c.over()["code"] == "bad_request", "a pipe for the answer")
    os.close(r)
    os.close(w)
    fd = ipc.memfd(b"")
    with courier.Courier(ca.pem) as c:
        c.rest(up.port, REPO, answer=fd)
        ok(c.over()["code"] == "bad_request", "a sealed one")
    os.close(fd)
    ok(len(up.requests) == before, "none of it went out", up.requests[before:])


# --- tokens of Apps -----------------------------------------------------------------------

def test_mint():
    api = {"Content-Type": "application/json"}
    new = "ghs_" + fakegithub.word(36)
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    asked = '{"contents":"read","metadata":"read"}'
    whole = {"token": new, "expires_at": soon, "permissions": {
        "contents": "read", "metadata": "read"}, "repository_selection":
        "selected", "repositories": [{"id": 1, "name": "r",
                                      "full_name": "O/r"}]}

    def mint(answer, status=201, **job):
        up = host(lambda r: (status, api, answer if isinstance(
            answer, bytes) else json.dumps(answer).encode()))
        with courier.Courier(ca.pem) as c:
            m = c.mint(up.port, **{"jwt": "header.claims.signature",
                                   "installation": 77, "permissions": asked,
                                   **job})
            return m, up.requests, c.wait()

    m, sent, status = mint(whole)
    ok(m["error"] == 0 and m["token"] == new and m["status"] == 201 and
       abs(m["expires_wall_s"] - time.time() - 3600) < 60 and status == 0,
       "a token is minted", m)
    ok(sent[0]["target"] == "/app/installations/77/access_tokens" and
       json.loads(sent[0]["body"]) == {"repositories": ["r"], "permissions":
                                       json.loads(asked)} and
       sent[0]["headers"]["authorization"] == "Bearer header.claims.signature",
       "for one repository, by the JWT", sent)
    m, sent, _ = mint(whole, prefix="/api/v3")
    ok(sent[0]["target"].startswith("/api/v3/app/"), "on an Enterprise "
       "Server", sent)

    def changed(**more):
        return {k: v for k, v in {**whole, **more}.items() if v is not None}
    for what, answer, http in (
            ("200", whole, 200), ("401", {"message": "no"}, 401),
            ("404", {}, 404), ("no token", changed(token=None), 201),
            ("a token with a blank", changed(token="ghs_ 12345678"), 201),
            ("a token that is a number", changed(token=5), 201),
            ("a long one", changed(token="x" * 2049), 201),
            ("no end", changed(expires_at=None), 201),
            ("an end that is no time", changed(expires_at="tomorrow"), 201),
            ("another zone", changed(expires_at=soon[:-1] + "+00:00"), 201),
            ("a day", changed(expires_at="2099-01-01T00:00:00Z"), 201),
            ("no permissions", changed(permissions=None), 201),
            ("more permissions", changed(permissions={
                "contents": "write", "metadata": "read"}), 201),
            ("other permissions", changed(permissions={
                "administration": "read"}), 201),
            ("no repositories", changed(repositories=None), 201),
            ("two repositories", changed(repositories=[
                {"full_name": "o/r"}, {"full_name": "o/s"}]), 201),
            ("another repository", changed(repositories=[
                {"full_name": "o/s"}]), 201),
            ("what is no JSON", b"token=x", 201),
            ("a member twice", json.dumps(whole).encode()[:-1] +
             b',"token":"ghs_other00000"}', 201)):
        m, _, status = mint(answer, http)
        # one that was minted goes back with the refusal, to be revoked
        got = new if http == 201 and isinstance(answer, dict) and \
            answer.get("token") == new else ""
        ok(m["error"] < 0 and m["token"] == got and m["reason"] and
           m["expires_wall_s"] == 0 and new not in m["reason"] and
           status == 0, "refused: %s" % what, m)
    g = github()
    up = host(lambda r: (204, {}, b""))
    with courier.Courier(ca.pem) as c:
        over = c.revoke(up.port, token=TOKEN)
        ok(over["error"] == 0 and up.requests[0]["method"] == "DELETE" and
           up.requests[0]["target"] == "/installation/token" and
           up.requests[0]["headers"]["authorization"] == "Bearer " + TOKEN,
           "a token is revoked", (over, up.requests))
    up = host(lambda r: (401, {}, b"{}"))
    with courier.Courier(ca.pem) as c:
        over = c.revoke(up.port, token=TOKEN)
        ok(over["code"] == "unauthorized" and over["status"] == 401,
           "one that is none", over)
    ok(not g.errors, "the fake GitHub had no error", g.errors)


def test_times():
    """from the job to the first bytes of TLS, and to the request"""
    first, whole, ready = [], [], []
    for _ in range(12):
        got = {}

        def fn(s, got=got):
            s.recv(1, socket.MSG_PEEK)
            got["tls"] = time.monotonic()
        listener = socket.create_server(("127.0.0.1", 0))
        up = host(lambda r: (200, ADVERTISED, b"x"))
        began = time.monotonic()
        with courier.Courier(ca.pem) as c:
            ready.append(time.monotonic() - began)
            t = time.monotonic()
            c.git(listener.getsockname()[1], token=TOKEN)
            s, _ = listener.accept()
            c.send(REFS, HOST)
            fn(s)
            first.append(got["tls"] - t)
            s.close()
            c.answer()
        listener.close()
        with courier.Courier(ca.pem) as c:
            t = time.monotonic()
            c.git(up.port, token=TOKEN)
            c.ask(REFS, HOST)
            whole.append(time.monotonic() - t)
        up.close()
    mid = lambda x: sorted(x)[len(x) // 2] * 1000   # noqa: E731
    print("# start to ready %.1f ms; job to first TLS bytes %.1f ms; to the "
          "end of an answer %.1f ms (medians of %d)" % (
              mid(ready), mid(first), mid(whole), len(first)))
    ok(mid(first) < 500, "a job begins within half a second", mid(first))


try:
    mcp.main(tap, {k: v for k, v in list(globals().items())
                   if callable(v)}, sys.argv[1:])
finally:
    shutil.rmtree(home, ignore_errors=True)
    if gh:
        gh.close()
    ca.close()
