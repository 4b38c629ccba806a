"""Framing, smuggling, methods, headers: one request for the proxy's eyes,
another for the server's."""
import time

from technique import PARSE, T, TOKEN, get, origin

BODY_ = ("parse", "bad_body")
POLICY = ("policy", "host_not_allowed")
IN = ("inner", "inner.test")


def post(headers, body=b"", host="plain.test", path=b"/x", first=b""):
    return first + get(host, path, headers, b"POST", body=body)


# a body that is a request, for a reader that ends the first one early
HIDDEN = b"GET http://plain.test/" + TOKEN + \
    b" HTTP/1.1\r\nHost: plain.test\r\n\r\n"
N = b"%d" % len(HIDDEN.replace(TOKEN, b"x" * 16))
BODY = b"0\r\n\r\n" + HIDDEN

# --- framing: heads that two readers take for two requests ---------------------

for name, headers, body in [
        ("Content-Length and Transfer-Encoding",
         b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", BODY),
        ("Transfer-Encoding and Content-Length",
         b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", BODY),
        ("Content-Length twice, differing",
         b"Content-Length: 5\r\nContent-Length: 50\r\n", BODY),
        ("Content-Length twice, the same",
         b"Content-Length: 5\r\nContent-Length: 5\r\n", BODY),
        ("a list of lengths", b"Content-Length: 5, 50\r\n", BODY),
        ("a list of one length twice", b"Content-Length: 5, 5\r\n", BODY),
        ("a length with a plus", b"Content-Length: +5\r\n", BODY),
        ("a negative length", b"Content-Length: -1\r\n", BODY),
        ("a length in hexadecimal", b"Content-Length: 0x5\r\n", BODY),
        ("a length with a blank inside", b"Content-Length: 5 0\r\n", BODY),
        ("a length beyond 64 bits",
         b"Content-Length: 18446744073709551621\r\n", BODY),
        ("a length of 40 zeros and 5", b"Content-Length: " + b"0" * 40 +
         b"5\r\n", BODY),
        ("an empty length", b"Content-Length:\r\n", BODY),
        ("a length with NUL", b"Content-Length: 5\0\r\n", BODY),
        ("a length with a decimal point", b"Content-Length: 5.0\r\n", BODY),
        ("chunked, identity", b"Transfer-Encoding: chunked, identity\r\n",
         BODY),
        ("identity", b"Transfer-Encoding: identity\r\n", BODY),
        ("gzip, chunked", b"Transfer-Encoding: gzip, chunked\r\n", BODY),
        ("a coding that is none", b"Transfer-Encoding: xchunked\r\n", BODY),
        ("chunked in quotes", b'Transfer-Encoding: "chunked"\r\n', BODY),
        ("chunked with a parameter", b"Transfer-Encoding: chunked;q=1\r\n",
         BODY),
        ("chunked twice in a list", b"Transfer-Encoding: chunked, chunked\r\n",
         BODY),
        ("Transfer-Encoding twice",
         b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
         BODY),
        ("an empty Transfer-Encoding", b"Transfer-Encoding:\r\n", BODY),
        ("a blank before the colon", b"Transfer-Encoding : chunked\r\n", BODY),
        ("a tab before the colon", b"Content-Length\t: 5\r\n", BODY),
        ("a vertical tab before the value",
         b"Transfer-Encoding:\x0bchunked\r\n", BODY),
        ("a header that goes on in a second line",
         b"X-A: 1\r\n Transfer-Encoding: chunked\r\n", BODY),
        ("the first header folded", b" X-A: 1\r\n", b""),
        ("a length that goes on in a second line",
         b"Content-Length: 5\r\n 0\r\n", BODY),
        ("a bare line feed ends a header",
         b"X-A: 1\nTransfer-Encoding: chunked\r\n", BODY),
        ("a bare CR ends a header", b"X-A: 1\rTransfer-Encoding: chunked\r\n",
         BODY),
        ("CR CR LF", b"X-A: 1\r\r\nTransfer-Encoding: chunked\r\n", BODY),
        ("NUL in a value", b"X-A: 1\0Transfer-Encoding: chunked\r\n", BODY),
        ("NUL in a name", b"Transfer\0-Encoding: chunked\r\n", BODY),
        ("a name with a blank", b"Transfer Encoding: chunked\r\n", BODY),
        ("a header without a colon", b"Transfer-Encoding chunked\r\n", BODY),
        ("a header without a name", b": chunked\r\n", BODY),
        ("a name that is not ASCII", b"Transf\xc3\xa9r: chunked\r\n", BODY),
        ("two Hosts", b"Host: evil.test\r\n", b""),
        ("two Hosts, the same", b"Host: plain.test\r\n", b""),
        ("an Expect that is unknown", b"Expect: 200-maybe\r\n", b""),
]:
    T("framing", name, post(headers, body), 400, PARSE, control="post")

for name, data in [
        ("no Host", b"GET http://plain.test/" + TOKEN + b" HTTP/1.1\r\n\r\n"),
        ("HTTP/1.0", get("plain.test", version=b"HTTP/1.0")),
        ("HTTP/0.9", b"GET http://plain.test/" + TOKEN + b"\r\n"),
        ("HTTP/2.0 in the line", get("plain.test", version=b"HTTP/2.0")),
        ("HTTP/1.2", get("plain.test", version=b"HTTP/1.2")),
        ("HTTP/1.10", get("plain.test", version=b"HTTP/1.10")),
        ("http/1.1 in small letters", get("plain.test", version=b"http/1.1")),
        ("a blank behind the version", get("plain.test",
                                           version=b"HTTP/1.1 ")),
        ("two blanks in the request line",
         get("plain.test").replace(b"GET ", b"GET  ", 1)),
        ("tabs in the request line",
         get("plain.test").replace(b" ", b"\t", 2)),
        ("a blank before the method", b" " + get("plain.test")),
        ("an empty line first", b"\r\n" + get("plain.test")),
        ("a line feed first", b"\n" + get("plain.test")),
        ("NUL first", b"\0" + get("plain.test")),
        ("all lines end with a line feed",
         get("plain.test").replace(b"\r\n", b"\n")),
        ("all lines end with CR", get("plain.test").replace(b"\r\n", b"\r") +
         b"\n\r\n"),
        ("a fragment in the target", get("plain.test", b"/#/" + TOKEN)),
        ("a control character in the path", get("plain.test",
                                                b"/\x01" + TOKEN)),
        ("a blank in the path", get("plain.test", b"/a b/" + TOKEN)),
        ("a byte above 127 in the path", get("plain.test", b"/\xff" + TOKEN)),
        ("https:// in the target", get("x").replace(
            b"http://x", b"https://tunnel.test").replace(
                b"Host: x", b"Host: tunnel.test")),
        ("ftp:// in the target", get("plain.test").replace(b"http:", b"ftp:")),
        ("no scheme in the target",
         get("plain.test").replace(b"http://", b"")),
        ("one slash behind the scheme",
         get("plain.test").replace(b"http://", b"http:/")),
        ("three slashes behind the scheme",
         get("plain.test").replace(b"http://", b"http:///")),
        ("a scheme in capitals",
         get("plain.test").replace(b"http://", b"HTTP://")),
        ("OPTIONS *", b"OPTIONS * HTTP/1.1\r\nHost: plain.test\r\nX-Data: " +
         TOKEN + b"\r\n\r\n"),
        ("origin form to the proxy", origin("plain.test")),
        ("origin form with an unlisted Host", origin("evil.test")),
        ("no path behind the host", b"GET http://plain.test?" + TOKEN +
         b" HTTP/1.1\r\nHost: plain.test\r\n\r\n"),
        ("a method that is no token", get("plain.test", method=b"GE(T")),
        ("a method with NUL", get("plain.test", method=b"GE\0T")),
        ("an empty method", get("plain.test", method=b"")),
        ("CONNECT with a path", b"CONNECT tunnel.test:443/" + TOKEN +
         b" HTTP/1.1\r\nHost: tunnel.test\r\n\r\n"),
        ("connect in small letters", b"connect tunnel.test:443"
         b" HTTP/1.1\r\nHost: tunnel.test\r\nX: " + TOKEN + b"\r\n\r\n"),
        ("random bytes", bytes((i * 37 + 11) & 255 for i in range(400)) +
         b"\r\n\r\n"),
]:
    T("framing", name, data, {400, 431, 505, "close"}, PARSE)

# --- smuggling: bodies, and what is behind them --------------------------------

CH = b"Transfer-Encoding: chunked\r\n"
EVIL = b"GET http://evil.test/" + TOKEN + \
    b" HTTP/1.1\r\nHost: evil.test\r\n\r\n"
for name, body in [
        ("a chunk extension", b"5;x=y\r\nhello\r\n0\r\n\r\n"),
        ("a chunk extension without a name", b"5;\r\nhello\r\n0\r\n\r\n"),
        ("a chunk's size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
        ("a chunk's size with a plus", b"+5\r\nhello\r\n0\r\n\r\n"),
        ("a negative chunk", b"-5\r\nhello\r\n0\r\n\r\n"),
        ("a chunk's size of 17 digits",
         b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
        ("a chunk's size with 40 zeros",
         b"0" * 40 + b"5\r\nhello\r\n0\r\n\r\n"),
        ("a blank before a chunk's size", b" 5\r\nhello\r\n0\r\n\r\n"),
        ("a blank behind a chunk's size", b"5 \r\nhello\r\n0\r\n\r\n"),
        ("no chunk's size", b"\r\nhello\r\n0\r\n\r\n"),
        ("a line feed ends a chunk's size", b"5\nhello\r\n0\r\n\r\n"),
        ("a CR ends a chunk's size", b"5\rhello\r\n0\r\n\r\n"),
        ("a line feed behind a chunk", b"5\r\nhello\n0\r\n\r\n"),
        ("nothing behind a chunk", b"5\r\nhello0\r\n\r\n"),
        ("more than the chunk has", b"5\r\nhello world\r\n0\r\n\r\n"),
        ("a trailer", b"5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n"),
        ("a Content-Length in the trailer",
         b"5\r\nhello\r\n0\r\nContent-Length: 500\r\n\r\n"),
        ("letters as a chunk's size", b"zz\r\nhello\r\n0\r\n\r\n"),
        ("NUL in a chunk's size", b"5\0\r\nhello\r\n0\r\n\r\n"),
]:
    T("smuggling", name, post(CH, body + HIDDEN), 400, BODY_,
      control="chunked")


T("smuggling", "behind an allowed request, one to an unlisted host",
  get("plain.test", b"/ok") + EVIL, 403, POLICY)
T("smuggling", "behind a request that does not parse, an allowed one",
  b"GET  http://plain.test/ HTTP/1.1\r\n\r\n" + HIDDEN, 400, PARSE)
T("smuggling", "an allowed request as the body of a refused one",
  get("evil.test", b"/", b"Content-Length: " + N + b"\r\n", b"POST",
      body=HIDDEN), 403, POLICY)
T("smuggling", "an allowed request as the chunk of a refused one",
  get("evil.test", b"/", CH, b"POST", body=b"%x\r\n" % int(N) + HIDDEN +
      b"\r\n0\r\n\r\n"), 403, POLICY)
T("smuggling", "CONNECT with a length",
  b"CONNECT tunnel.test:443 HTTP/1.1\r\nHost: tunnel.test:443\r\n"
  b"Content-Length: " + N + b"\r\n\r\n" + HIDDEN, 400, PARSE, control="tunnel")
T("smuggling", "CONNECT with a chunked body",
  b"CONNECT tunnel.test:443 HTTP/1.1\r\nHost: tunnel.test:443\r\n" + CH +
  b"\r\n%x\r\n" % int(N) + HIDDEN + b"\r\n0\r\n\r\n", 400, PARSE,
  control="tunnel")
T("smuggling", "CONNECT to an unlisted host, then an allowed request",
  b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n" + HIDDEN,
  403, POLICY, control="tunnel")


def one_request(method, headers, body, path=b"/outer"):
    """The body stays a body: its server reads one request."""
    def f(run):
        c = run.dial()
        got = run.ask(c, get("plain.test", path, headers, method, body=body))
        time.sleep(0.1)
        seen = [a for a in run.world.arrivals(False)]
        lines = b"".join(a.data for a in seen)
        if got.verdict() in (400, 403, 413):
            return "one request, one answer"
        if len(got.statuses) != 1 or lines.count(b"/outer") != 1:
            return "%r, %r" % (got.statuses, lines)
        return "one request, one answer"
    return f


for name, method, headers, body in [
        ("GET whose body is a request", b"GET",
         b"Content-Length: " + N + b"\r\n", HIDDEN),
        ("HEAD whose body is a request", b"HEAD",
         b"Content-Length: " + N + b"\r\n", HIDDEN),
        ("a length of nothing named in Connection", b"POST",
         b"Content-Length: " + N + b"\r\nConnection: content-length\r\n",
         HIDDEN),
        ("Transfer-Encoding named in Connection", b"POST",
         CH + b"Connection: transfer-encoding\r\n",
         b"%x\r\n" % int(N) + HIDDEN + b"\r\n0\r\n\r\n"),
        ("Host named in Connection", b"POST",
         b"Content-Length: " + N + b"\r\nConnection: close, host\r\n",
         HIDDEN)]:
    T("smuggling", name, one_request(method, headers, body),
      "one request, one answer", None, reach=True, only="sbx", control="post")


def cut_body(run):
    """A body that ends before its length: nothing after it is one's own."""
    c = run.dial()
    c.sendall(run.fill(get("plain.test", b"/cut", b"Content-Length: 500\r\n",
                           b"POST", body=b"short")))
    time.sleep(0.05)
    c.close()
    got = run.ask(run.dial(), get("plain.test", b"/after"))
    return got.verdict()


T("smuggling", "a body that is cut leaves nothing to the next request",
  cut_body, 200, None, only="sbx", control="post")


def split_head(run):
    """One byte a segment, the forbidden name in the middle."""
    c = run.dial()
    data = run.fill(get("evil.test"))
    for i in range(len(data)):
        c.sendall(data[i:i + 1])
    return run.ask(c, b"").verdict()


T("framing", "an unlisted host, one byte a segment", split_head, 403, POLICY,
  only="sbx")

for name, data in [
        ("inside of TLS: Content-Length and Transfer-Encoding",
         origin("inner.test", b"/x", b"Content-Length: 5\r\n" + CH, b"POST",
                BODY)),
        ("inside of TLS: a bare line feed",
         origin("inner.test", extra=b"X: 1\nY: 2\r\n")),
        ("inside of TLS: a folded header",
         origin("inner.test", extra=b"X: 1\r\n 2\r\n")),
        ("inside of TLS: Content-Length twice",
         origin("inner.test", b"/x", b"Content-Length: 5\r\n"
                b"Content-Length: 6\r\n", b"POST", BODY)),
        ("inside of TLS: a blank before the colon",
         origin("inner.test", b"/x", b"Transfer-Encoding : chunked\r\n",
                b"POST", BODY)),
        ("inside of TLS: HTTP/1.0", origin("inner.test").replace(
            b"HTTP/1.1", b"HTTP/1.0")),
        ("inside of TLS: two Hosts",
         origin("inner.test", extra=b"Host: evil.test\r\n")),
        ("inside of TLS: no Host", b"GET /" + TOKEN + b" HTTP/1.1\r\n\r\n"),
        ("inside of TLS: NUL in the path", origin("inner.test",
                                                  b"/\0" + TOKEN)),
        ("inside of TLS: a second request that does not parse",
         origin("inner.test", b"/ok") + origin("inner.test",
                                               extra=b"X : 1\r\n"))]:
    T("smuggling", name, data, {400, "close"}, PARSE, via=IN, control="inner")

# --- methods ---------------------------------------------------------------------

REG = ("inner", "pypi.org")
METHOD = ("gate", "method_not_allowed")
for m in (b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE",
          b"PROPFIND", b"MKCOL", b"PURGE", b"get", b"Get", b"GETX", b"PO",
          b"REPORT", b"SUBSCRIBE"):
    T("methods", "%s to a registry" % m.decode(),
      origin("pypi.org", b"/legacy/" + TOKEN, method=m), {400, 403, 405},
      METHOD, via=REG, control="registry")
T("methods", "publishing a package",
  origin("x.npmjs.org", method=b"PUT", body=b"{}"), {403, 405}, METHOD,
  via=("inner", "x.npmjs.org"), control="registry")
T("methods", "publishing a crate",
  origin("crates.io", b"/api/v1/crates/new?" + TOKEN, method=b"PUT",
         body=b"{}"), {403, 405}, METHOD, via=("inner", "crates.io"),
  control="registry")
T("methods", "uploading to the file store",
  origin("files.pythonhosted.org", method=b"POST", body=b"x"), {403, 405},
  METHOD, via=("inner", "files.pythonhosted.org"), control="registry")
for name, extra, body in [
        ("GET with a body to a registry", b"Content-Length: %d\r\n" % 16,
         TOKEN),
        ("GET with a chunked body to a registry", CH,
         b"10\r\n" + TOKEN + b"\r\n0\r\n\r\n"),
        ("HEAD with a body to a registry", b"Content-Length: 16\r\n", TOKEN)]:
    T("methods", name, origin("pypi.org", b"/x", extra,
                              b"HEAD" if name[0] == "H" else b"GET", body),
      {400, 403, 413}, ("gate", "body_not_allowed"),
      via=REG, control="registry")
for h in (b"X-HTTP-Method-Override", b"X-HTTP-Method", b"X-Method-Override"):
    T("methods", "%s: DELETE, by GET to a registry" % h.decode(),
      origin("pypi.org", b"/x", h + b": DELETE " + TOKEN + b"\r\n"),
      {200, 400, 403}, None, via=REG, control="registry")
T("methods", "CONNECT inside of TLS",
  b"CONNECT evil.test:443 HTTP/1.1\r\nHost: inner.test\r\nX: " + TOKEN +
  b"\r\n\r\n", {400, 403, 405}, PARSE | {POLICY, METHOD}, via=IN,
  control="inner")
T("methods", "CONNECT inside of TLS to the same host",
  b"CONNECT inner.test:443 HTTP/1.1\r\nHost: inner.test:443\r\nX: " + TOKEN +
  b"\r\n\r\n", {400, 403, 405}, PARSE | {POLICY, METHOD}, via=IN,
  control="inner")

# --- headers: what the client must not say, or the server must not hear --------------

for h in (b"Authorization: Bearer ", b"Proxy-Authorization: Basic ", b"Cookie: session=",
          b"X-GitHub-Token: ", b"X-Api-Key: ", b"PRIVATE-TOKEN: ",
          b"X-Forwarded-Host: ", b"Proxy-Connection: "):
    name = h.split(b":")[0].decode()
    if name in ("X-Api-Key", "PRIVATE-TOKEN", "X-GitHub-Token",
                "X-Forwarded-Host"):
        host, ctl = "github.com", "github"
        path = b"/o/r.git/info/refs?service=git-upload-pack"
    else:
        host, ctl, path = "inner.test", "inner", b"/x"
    T("headers", "%s is not passed on to %s" % (name, host),
      origin(host, path, h + TOKEN + b"\r\n"), {200, 400, 403}, None,
      via=("inner", host), control=ctl)
for h in (b"Authorization: Bearer ", b"Cookie: a="):
    T("headers", "%s is not passed on to a registry" %
      h.split(b":")[0].decode(),
      origin("pypi.org", b"/simple/", h + TOKEN + b"\r\n"), {200, 400, 403},
      None, via=REG, control="registry")
for q in (b"access_token=", b"client_secret=", b"ACCESS_TOKEN=",
          b"a=b&access_token=", b"access%5Ftoken="):
    T("headers", "a credential in the query: " + q.decode(),
      origin("api.github.com", b"/repos/o/r?" + q + TOKEN), {200, 400, 403},
      {None, ("gate", "")}, via=("inner", "api.github.com"), control="api")
T("headers", "Proxy-Authorization is the proxy's, not the server's",
  get("plain.test", b"/x", b"Proxy-Authorization: Basic " + TOKEN + b"\r\n"),
  {200, 400}, None)
T("headers", "what Connection names is not passed on",
  get("plain.test", b"/x", b"Connection: x-secret\r\nX-Secret: " + TOKEN +
      b"\r\n"), {200, 400}, None)
