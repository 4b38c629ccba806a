"""Git and GitHub: services taken for others, and grants used by others, twice,
late, or for another push."""
import gzip
import threading
import time

from technique import T, TOKEN, origin

GH, API = ("inner", "github.com"), ("inner", "api.github.com")
GATE = {("gate", "not_recognised"), ("gate", "body_not_allowed")}
GRANT = {("grant", "no_grant"), ("grant", "grant_ended")}
BOTH = GATE | GRANT
UP, RP = b"git-upload-pack", b"git-receive-pack"
OLD, NEW, OTHER, ZERO = b"1" * 40, b"2" * 40, b"3" * 40, b"0" * 40
REF = b"refs/heads/topic"


def pkt(data):
    return b"%04x" % (len(data) + 4) + data


def push(*commands, caps=b"report-status atomic", before=b"", after=b"",
         pack=b"PACK" + TOKEN):
    """The body of a push; each command is (old, new, ref)."""
    out = before
    for i, (old, new, ref) in enumerate(commands):
        line = old + b" " + new + b" " + ref
        out += pkt(line + (b"\0" + caps if i == 0 else b"") + b"\n")
    return out + b"0000" + after + pack


GOODPUSH = push((OLD, NEW, REF))
RPTYPE = b"Content-Type: application/x-git-receive-pack-request\r\n"


def receive(path=b"/o/r.git/git-receive-pack", body=GOODPUSH, extra=RPTYPE,
            method=b"POST", host="github.com"):
    return origin(host, path, extra, method, body)


# --- service confusion: no grant is open, so no push whatever it is called ------------

for path in (b"/o/r.git/git-receive-pack", b"/o/r/git-receive-pack",
             b"/o/r.git/git-receive-pack?service=git-upload-pack",
             b"/o/r.git/git-receive-pack?service=x",
             b"/o/r.git/git-receive-pack?service=git-upload-pack"
             b"&service=git-receive-pack",
             b"/o/r.git/git-receive-pack?", b"/o/r.git/git-receive-pack/",
             b"/o/r.git/git-receive%2dpack", b"/o/r.git/%67it-receive-pack",
             b"/o/r.git/git-receive-pack%00", b"/o/r.git/git-receive-pack%20",
             b"//o/r.git/git-receive-pack", b"/o//r.git/git-receive-pack",
             b"/o/r.git//git-receive-pack", b"/./o/r.git/git-receive-pack",
             b"/o/r.git/./git-receive-pack",
             b"/o/r.git/x/../git-receive-pack",
             b"/o/r.git/git-upload-pack/../git-receive-pack",
             b"/o/r.git/..;/git-receive-pack",
             b"/o/r.git/git-receive-pack;x=y",
             b"/o/r.git;x/git-receive-pack",
             b"/o/r.git/GIT-RECEIVE-PACK", b"/o/r.git/Git-Receive-Pack",
             b"/o/r.git.git/git-receive-pack",
             b"/x/o/r.git/git-receive-pack", b"/o/r.git\\git-receive-pack",
             b"/o/r.git/git-upload-pack/git-receive-pack",
             b"/o%2fr.git/git-receive-pack", b"/o/../o/r/git-receive-pack",
             b"/r.git/git-receive-pack", b"/git-receive-pack",
             b"/o/r.git/info/refs/../git-receive-pack",
             b"/-/r.git/git-receive-pack", b"/o/./git-receive-pack",
             b"/o/..git/git-receive-pack"):
    T("git", "POST %s" % path.decode(), receive(path), {400, 403}, BOTH,
      via=GH, control="github")
for m in (b"PUT", b"GET", b"HEAD", b"PATCH", b"OPTIONS", b"post", b"POSTX"):
    T("git", "%s git-receive-pack" % m.decode(), receive(method=m),
      {400, 403, 405}, BOTH, via=GH, control="github")
for q in (b"?service=git-receive-pack",
          b"?service=git-upload-pack&service=git-receive-pack",
          b"?service=git-receive-pack&service=git-upload-pack",
          b"?service=git-upload-pack&x=" + TOKEN, b"?x=y&service=git-upload-"
          b"pack", b"?service=GIT-UPLOAD-PACK", b"?service=git-upload-pack%00",
          b"?service=git%2dupload-pack", b"?SERVICE=git-upload-pack",
          b"?service=git-upload-archive", b"?service=", b"?", b"",
          b"?service=git-upload-pack?service=git-receive-pack",
          b"?service=git-upload-pack;service=git-receive-pack"):
    T("git", "info/refs%s" % q.replace(TOKEN, b"").decode(),
      origin("github.com", b"/o/r.git/info/refs" + q,
             b"X: " + TOKEN + b"\r\n"), 403, BOTH, via=GH, control="github")
for m, path in [(b"POST", b"/o/r.git/info/refs?service=git-upload-pack"),
                (b"HEAD", b"/o/r.git/info/refs?service=git-upload-pack"),
                (b"GET", b"/o/r.git/HEAD"),
                (b"GET", b"/o/r.git/objects/info/packs"),
                (b"GET", b"/o/r.git/objects/12/" + b"3" * 38),
                (b"POST", b"/o/r.git/git-upload-archive"),
                (b"GET", b"/o/r.git/git-upload-pack"),
                (b"POST", b"/o/r.git/git-upload-pack?service=" + RP),
                (b"POST", b"/o/r.git/git-upload-pack/"),
                (b"POST", b"/o/r.git/info/lfs/objects/batch"),
                (b"POST", b"/o/r.git/info/lfs/locks"),
                (b"PUT", b"/o/r.git/info/lfs/objects/x"),
                (b"POST", b"/o/r/issues"), (b"POST", b"/session"),
                (b"POST", b"/login/oauth/access_token"),
                (b"POST", b"/login/device/code"), (b"GET", b"/o/r"),
                (b"GET", b"/search?q=" + TOKEN), (b"POST", b"/api/graphql"),
                (b"GET", b"/o/r/archive/../../x/y"),
                (b"POST", b"/o/r/upload/main"),
                (b"GET", b"/o/r/releases/download/v1/x?" + TOKEN)]:
    T("git", "%s %s" % (m.decode(), path.replace(TOKEN, b"").decode()),
      origin("github.com", path, b"X: " + TOKEN + b"\r\n", m,
             b"x=1" if m in (b"POST", b"PUT") else b""), {400, 403}, BOTH,
      via=GH, control="github")
for host, m, path in [("www.github.com", b"POST", b"/o/r.git/" + RP),
                      ("gist.github.com", b"POST", b"/x.git/" + RP),
                      ("gist.github.com", b"GET", b"/x.git/info/refs"),
                      ("uploads.github.com", b"POST",
                       b"/repos/o/r/releases/1/assets?name=x"),
                      ("codeload.github.com", b"POST", b"/o/r/zip/main"),
                      ("raw.githubusercontent.com", b"PUT", b"/o/r/m/f"),
                      ("objects.githubusercontent.com", b"PUT", b"/x/y"),
                      ("lfs.github.com", b"POST", b"/o/r"),
                      ("ssh.github.com", b"GET", b"/"),
                      ("a.b.github.com", b"GET", b"/o/r")]:
    T("git", "%s %s on %s" % (m.decode(), path.decode(), host),
      origin(host, path, b"X: " + TOKEN + b"\r\n", m,
             b"x" if m != b"GET" else b""), {400, 403}, BOTH,
      via=("inner", host), control="github")
for m, path, body in [
        (b"POST", b"/repos/o/r/issues", b"{}"),
        (b"PATCH", b"/repos/o/r/issues/1", b"{}"),
        (b"PUT", b"/repos/o/r/contents/x", b"{}"),
        (b"DELETE", b"/repos/o/r/git/refs/heads/x", b""),
        (b"POST", b"/repos/o/r/git/blobs", b"{}"),
        (b"POST", b"/repos/o/r/merges", b"{}"),
        (b"POST", b"/graphql", b'{"query":"mutation{x}"}'),
        (b"POST", b"/graphql", b'{"query":"query{viewer{login}}"}'),
        (b"POST", b"/graphql", b'{"query":"query{x}","query":"mutation{x}"}'),
        (b"POST", b"/gists", b"{}"), (b"GET", b"/user", b""),
        (b"GET", b"/repos/o/r/../../user", b""),
        (b"POST", b"/user/repos", b"{}"), (b"PUT", b"/user/starred/o/r", b""),
        (b"POST", b"/repos/o/r/dispatches", b"{}"),
        (b"POST", b"/repos/o/r/forks", b"{}"),
        (b"POST", b"/markdown", b"{}"), (b"LINK", b"/repos/o/r", b""),
        (b"POST", b"/app/installations/1/access_tokens", b"")]:
    T("git", "API: %s %s %s" % (m.decode(), path.decode(), body.decode()),
      origin("api.github.com", path, b"X: " + TOKEN + b"\r\n", m, body),
      {400, 403, 405}, BOTH, via=API,
      control="api")
for hd in (b"X-HTTP-Method-Override: PATCH", b"X-HTTP-Method: DELETE"):
    T("git", "API: GET with " + hd.decode(),
      origin("api.github.com", b"/repos/o/r",
             hd + b"\r\nX-HTTP-Method-Override: " + TOKEN + b"\r\n"),
      {200, 400, 403}, {None} | BOTH, via=API, control="api")
T("git", "an upload-pack request with a method override",
  origin("github.com", b"/o/r.git/git-upload-pack",
         b"X-HTTP-Method-Override: " + TOKEN + b"\r\n", b"POST", b"0000"),
  {200, 400, 403}, {None} | BOTH, via=GH, control="github")

# --- grants: one push, exactly one --------------------------------------------------------

PUSH = {("push", "push_not_granted"), ("push", "push_unreadable"),
        ("push", "push_encoded")}


def granted(body=None, data=None, host="git.test", grant=None, **kw):
    """A grant for the good push is open; then this is sent instead."""
    def f(run):
        g = dict(op="push", host="git.test", repo="o/r", ref=REF, old=OLD,
                 new=NEW, uses=1, ms=20000)
        g.update(grant or {})
        run.target.grant(g.pop("box", run.box), **g)
        got = run.ask(run.inner(host), data or receive(body=body, host=host,
                                                       **kw))
        return got
    return f


for name, body in [
        ("another ref", push((OLD, NEW, b"refs/heads/main"))),
        ("a ref that begins like it", push((OLD, NEW, REF + b"x"))),
        ("a ref below it", push((OLD, NEW, REF + b"/x"))),
        ("the ref in capitals", push((OLD, NEW, b"refs/heads/TOPIC"))),
        ("the ref with NUL and another", push((OLD, NEW, REF + b"\0x"))),
        ("a tag of the same name", push((OLD, NEW, b"refs/tags/topic"))),
        ("another new id", push((OLD, OTHER, REF))),
        ("another old id", push((OTHER, NEW, REF))),
        ("the ref made anew", push((ZERO, NEW, REF))),
        ("delete", push((OLD, ZERO, REF), pack=b"")),
        ("delete another", push((OLD, ZERO, b"refs/heads/main"), pack=TOKEN)),
        ("two commands, the granted one first",
         push((OLD, NEW, REF), (OLD, NEW, b"refs/heads/main"))),
        ("two commands, the granted one last",
         push((OLD, NEW, b"refs/heads/main"), (OLD, NEW, REF))),
        ("the granted command twice", push((OLD, NEW, REF), (OLD, NEW, REF))),
        ("the granted command and a delete",
         push((OLD, NEW, REF), (OLD, ZERO, b"refs/heads/main"))),
        ("the granted command behind the flush",
         push((OLD, OTHER, REF), after=pkt(OLD + b" " + NEW + b" " + REF) +
              b"0000")),
        ("the granted command in the capabilities",
         push((OLD, OTHER, REF), caps=b"\0" + OLD + b" " + NEW + b" " + REF)),
        ("upper case in an id", push((OLD, b"A" * 40, REF))),
        ("an id of 39 digits", push((OLD, NEW[:39], REF))),
        ("an id of SHA-256", push((b"1" * 64, b"2" * 64, REF))),
        ("ids of two lengths", push((OLD, b"2" * 64, REF))),
        ("two blanks", pkt(OLD + b"  " + NEW + b" " + REF + b"\0x\n") +
         b"0000PACK" + TOKEN),
        ("a tab", pkt(OLD + b"\t" + NEW + b" " + REF + b"\0x\n") +
         b"0000PACK" + TOKEN),
        ("no ref", pkt(OLD + b" " + NEW + b" \0x\n") + b"0000PACK" + TOKEN),
        ("a signed push", pkt(b"push-cert\0report-status\n") + pkt(
            b"certificate version 0.1\n") + b"0000PACK" + TOKEN),
        ("a delimiter of protocol 2", pkt(OLD + b" " + NEW + b" " + REF +
                                          b"\0x\n") + b"0001PACK" + TOKEN),
        ("a response end of protocol 2", b"0002" + GOODPUSH),
        ("a packet of three bytes", b"0003" + GOODPUSH),
        ("a packet of ffff", b"ffff" + b"x" * 70000 + TOKEN),
        ("a length that is no hexadecimal", b"00g0" + GOODPUSH),
        ("a length with a sign", b"+06e" + GOODPUSH[4:]),
        ("no command", b"0000PACK" + TOKEN),
        ("an empty packet first", b"0004" + GOODPUSH),
        ("a shallow line behind the command",
         pkt(OLD + b" " + NEW + b" " + REF + b"\0x\n") +
         pkt(b"shallow " + OLD) + b"0000PACK" + TOKEN),
        ("a shallow line without an id", pkt(b"shallow main") + GOODPUSH),
        ("push options that never end",
         push((OLD, NEW, REF), caps=b"push-options", after=pkt(
             b"o" * 60000) * 4)),
        ("commands that never end", pkt(b"shallow " + OLD) * 4000 + TOKEN),
        ("a request of upload-pack", pkt(b"want " + OLD + b"\n") +
         b"00000009done\n" + TOKEN),
        ("the pack alone", b"PACK\0\0\0\2\0\0\0\0" + TOKEN),
]:
    T("grants", "granted one push, sent: " + name, granted(body), {400, 403},
      PUSH, control="push", only="sbx")


def reported(*commands, big=0, **kw):
    """As a git sends it that reads reports: the status is 200, the word for
    each ref "ng", and nothing of it goes on."""
    body = push(*commands, caps=b"report-status-v2 side-band-64k atomic",
                pack=b"PACK" + TOKEN + bytes(big), **kw)

    def f(run):
        got = granted(body)(run)
        said = [x for x in got.text.split("\n") if x[4:].startswith("ng ")]
        refs = [c[2].split(b"\0")[0].decode() for c in commands]
        good = got.verdict() == 200 and len(got.statuses) == 1 and \
            b"application/x-git-receive-pack-result" in got.raw and \
            "unpack BLOCKED by sbx: " in got.text and \
            [x[7:].split(" BLOCKED by sbx: ")[0] for x in said] == refs
        return "ng" if good else "%s %r" % (got.verdict(), got.text[:200])
    return f


MAIN = b"refs/heads/main"
for name, data in [
        ("another ref", reported((OLD, NEW, MAIN))),
        ("another new id", reported((OLD, OTHER, REF))),
        ("another old id", reported((OTHER, NEW, REF))),
        ("delete", reported((OLD, ZERO, REF))),
        ("two commands", reported((OLD, NEW, REF), (OLD, NEW, MAIN))),
        ("the granted command twice", reported((OLD, NEW, REF),
                                               (OLD, NEW, REF))),
        ("the granted command behind the flush",
         reported((OLD, OTHER, REF), after=pkt(OLD + b" " + NEW + b" " + REF) +
                  b"0000")),
        ("another ref from a shallow clone",
         reported((OLD, NEW, MAIN), before=pkt(b"shallow " + OLD))),
        ("another ref with a pack of 5 MiB", reported((OLD, NEW, MAIN),
                                                      big=5 << 20))]:
    T("grants", "told by report: " + name, data, "ng", PUSH, control="push",
      only="sbx")
for name, body in [
        ("a ref that a terminal obeys", (OLD, NEW, b"refs/heads/\x1b[2Jx")),
        ("a line feed in the ref", (OLD, NEW, REF + b"\nok " + REF)),
        ("a ref of 300 bytes", (OLD, NEW, b"refs/heads/" + b"x" * 300))]:
    T("grants", "no report: " + name,
      granted(push(body, caps=b"report-status side-band-64k")), 403, PUSH,
      control="push", only="sbx")


def report_then_push(run):
    """What follows a report on its connection is a request of its own."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    caps = b"report-status side-band-64k"
    bad = receive(host="git.test", body=push((OLD, NEW, MAIN), caps=caps))
    good = receive(host="git.test", body=push((OLD, NEW, REF), caps=caps,
                                              pack=b"PACK"))
    got = run.ask(run.inner("git.test"), bad + good + receive(
        host="git.test"))
    reports = got.raw.count(b"ng refs/heads/main")
    return (reports, *got.statuses)


T("grants", "a push told by report, then the granted one, then one more",
  report_then_push, (1, 200, 200, 403), PUSH | BOTH, control="push",
  only="sbx")
for name, kw, want in [
        ("gzip", dict(body=gzip.compress(GOODPUSH), extra=RPTYPE +
                      b"Content-Encoding: gzip\r\n"), {400, 403, 415}),
        ("deflate", dict(body=GOODPUSH, extra=RPTYPE +
                         b"Content-Encoding: deflate\r\n"), {400, 403, 415}),
        ("to another repository", dict(path=b"/o/other.git/" + RP,
                                       body=GOODPUSH), {403}),
        ("to another owner", dict(path=b"/x/r.git/" + RP, body=GOODPUSH),
         {403}),
        ("to another path", dict(path=b"/o/r.git/x/" + RP, body=GOODPUSH),
         {403}),
        ("with a query", dict(path=b"/o/r.git/" + RP + b"?x", body=GOODPUSH),
         {403}),
        ("by PUT", dict(method=b"PUT", body=GOODPUSH), {400, 403, 405}),
        ("to another host", dict(host="github.com", body=GOODPUSH), {403})]:
    T("grants", "granted one push, sent: " + name, granted(**kw), want,
      PUSH | BOTH,
      control="push", only="sbx")
T("grants", "a read grant, used to push",
  granted(GOODPUSH, grant=dict(op="fetch")), 403, BOTH | PUSH, control="push",
  only="sbx")
T("grants", "a grant for the API, used to push",
  granted(GOODPUSH, grant=dict(op="api")), 403, BOTH | PUSH, control="push",
  only="sbx")
T("grants", "a grant of no use", granted(GOODPUSH, grant=dict(uses=0)), 403,
  BOTH | PUSH, control="push", only="sbx")


def of_another(run):
    other = run.target.box()
    try:
        return granted(GOODPUSH, grant=dict(box=other))(run)
    finally:
        run.target.drop(other)


T("grants", "the grant of another sandbox", of_another, 403, BOTH | PUSH,
  control="push", only="sbx")


def twice(run):
    first = granted(push((OLD, NEW, REF), pack=b"PACK"))(run)
    if first.verdict() != 200:
        return "the first: %s" % first.verdict()
    return run.ask(run.inner("git.test"), receive(host="git.test"))


T("grants", "a grant, used twice", twice, 403, BOTH | PUSH, control="push",
  only="sbx")


def twice_one(run):
    """Both in one connection, at once."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    first = receive(host="git.test", body=push((OLD, NEW, REF), pack=b"PACK"))
    return run.ask(run.inner("git.test"), first + receive(host="git.test"))


T("grants", "a grant, used twice in one connection", twice_one, 403,
  BOTH | PUSH, control="push", only="sbx")


def at_once(run):
    """Eight at the same time, one may."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    body = receive(host="git.test", body=push((OLD, NEW, REF), pack=b"PACK"))
    socks, got = [run.inner("git.test") for _ in range(8)], []

    def one(c):
        got.append(run.ask(c, body).verdict())
    threads = [threading.Thread(target=one, args=(c,)) for c in socks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return "one of eight" if sorted(map(str, got)) == ["200"] + ["403"] * 7 \
        else str(got)


T("grants", "a grant, used by eight at once", at_once, "one of eight",
  BOTH | PUSH, control="push", only="sbx", reach=True)


def expired(run):
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=300)
    time.sleep(0.6)
    return run.ask(run.inner("git.test"), receive(host="git.test"))


T("grants", "a grant whose time is over", expired, 403, BOTH | PUSH,
  control="push", only="sbx")


def revoked(run):
    g = run.target.grant(run.box, op="push", host="git.test", repo="o/r",
                         ref=REF, old=OLD, new=NEW, uses=1, ms=20000)
    run.target.revoke(g)
    return run.ask(run.inner("git.test"), receive(host="git.test"))


T("grants", "a grant that was revoked", revoked, 403, BOTH | PUSH,
  control="push", only="sbx")


def half(run):
    """The commands in the time of the grant, decided when they are whole."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=700)
    c = run.inner("git.test")
    data = run.fill(receive(host="git.test"))
    cut = data.index(b"PACK") - 30
    c.sendall(data[:cut])
    time.sleep(1.2)
    return run.ask(c, data[cut:])


T("grants", "commands that are whole when the grant is over", half, 403,
  BOTH | PUSH, control="push", only="sbx")


def after_end(run):
    """The sandbox ends; another takes its place."""
    box = run.target.box()
    run.target.grant(box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    run.target.drop(box)
    return run.ask(run.inner("git.test"), receive(host="git.test"))


T("grants", "the grant of a sandbox that has ended", after_end, 403,
  BOTH | PUSH, control="push", only="sbx")


def probe(run):
    """The probe of a large push does not use the grant up, and grants
    nothing."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    c = run.inner("git.test")
    first = run.ask(c, receive(host="git.test", body=b"0000")).verdict()
    try:
        second = run.ask(c, receive(host="git.test")).verdict()
    except OSError:
        second = "close"
    if second == "close":
        second = run.ask(run.inner("git.test"),
                         receive(host="git.test")).verdict()
    third = run.ask(run.inner("git.test"), receive(
        host="git.test", body=push((OLD, NEW, REF), pack=b"PACK"))).verdict()
    return (first, second, third)


T("grants", "the probe of a large push, the push, and one more", probe,
  (200, 200, 403), BOTH | PUSH, control="push", only="sbx", reach=True)


def body_then_other(run):
    """Chunked, and the second chunk holds another command."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    one = pkt(OLD + b" " + NEW + b" " + REF + b"\0report-status\n")
    two = pkt(OLD + b" " + NEW + b" refs/heads/main\n") + b"0000PACK"
    c = run.inner("git.test")
    head = origin("git.test", b"/o/r.git/" + RP, RPTYPE + b"X: " + TOKEN +
                  b"\r\nTransfer-Encoding: chunked\r\n", b"POST")
    return run.ask(c, [head, b"%x\r\n" % len(one) + one + b"\r\n",
                       b"%x\r\n" % len(two) + two + b"\r\n0\r\n\r\n"])


T("grants", "a second command in a second chunk", body_then_other, 403, PUSH,
  control="push", only="sbx")


def body_bytes(run):
    """One byte a chunk, another ref at the end."""
    run.target.grant(run.box, op="push", host="git.test", repo="o/r", ref=REF,
                     old=OLD, new=NEW, uses=1, ms=20000)
    body = pkt(OLD + b" " + NEW + b" refs/heads/main\0report-status\n") + \
        b"0000PACK"
    head = origin("git.test", b"/o/r.git/" + RP, RPTYPE + b"X: " + TOKEN +
                  b"\r\nTransfer-Encoding: chunked\r\n", b"POST")
    return run.ask(run.inner("git.test"), head + b"".join(
        b"1\r\n" + body[i:i + 1] + b"\r\n" for i in range(len(body))) +
        b"0\r\n\r\n")


T("grants", "another ref, one byte a chunk", body_bytes, 403, PUSH,
  control="push", only="sbx")


def expect(run):
    """100 Continue is said after the decision only."""
    got = run.ask(run.inner("github.com"), origin(
        "github.com", b"/o/r.git/" + RP, RPTYPE + b"Expect: 100-continue\r\n"
        b"Content-Length: 5000000\r\nX: " + TOKEN + b"\r\n", b"POST"))
    return "refused" if b" 100 " not in got.raw and got.verdict() == 403 \
        else repr(got.raw[:80])


T("git", "Expect: 100-continue before a push without a grant", expect,
  "refused", BOTH, control="github", only="sbx")
for host in ("git.test",):
    for m, path in [(b"GET", b"/"), (b"POST", b"/o/r/issues"),
                    (b"GET", b"/o/r.git/HEAD"), (b"POST", b"/o/r.git/" + RP),
                    (b"GET", b"/o/r.git/info/refs?service=" + RP),
                    (b"PUT", b"/o/r.git/" + UP),
                    (b"POST", b"/o/r.git/info/lfs/objects/batch"),
                    (b"GET", b"/o/r.git/info/refs?service=" + UP + b"&x")]:
        T("git", "%s %s on a grant_host" % (m.decode(), path.decode()),
          origin(host, path, b"X: " + TOKEN + b"\r\n", m,
                 b"0000" if m != b"GET" else b""), {400, 403, 405},
          BOTH, via=("inner", host),
          control="gitread")
