#!/usr/bin/env python3
"""The fake GitHub itself, by plain git and curl's like: it gives what it
should to whom it should, and refuses the rest.  What the suite's tests say of
credentials is worth no more than this."""
import base64
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
GHE = "ghe.test"


class World:
    def __init__(self):
        self.ca = egress.Authority()
        self.gh = fakegithub.Github(self.ca, enterprise=GHE)
        self.home = tempfile.mkdtemp(prefix="fakegithub-home-")
        self.ctx = ssl.create_default_context(cadata=self.ca.pem.decode())
        self.secret = self.gh.repo("acme/secret", private=True,
                                   files={"README.md": "hello\n"})
        self.open = self.gh.repo("acme/open")
        self.other = self.gh.repo("acme/other", private=True)
        self.app = self.gh.app(["acme/secret", "acme/open"])

    def jwt(self, app, iat=-60, exp=540, iss=None, alg="RS256", spoil=False):
        now = int(time.time())
        text = ".".join(fakegithub.b64url(json.dumps(x).encode()) for x in (
            {"alg": alg, "typ": "JWT"}, {"iat": now + iat, "exp": now + exp,
                                         "iss": iss or str(app.id)}))
        sig = subprocess.run(["openssl", "dgst", "-sha256", "-sign", app.pem],
                             input=text.encode(), stdout=subprocess.PIPE,
                             check=True, timeout=30).stdout
        if spoil:
            sig = sig[:-1] + bytes([sig[-1] ^ 1])
        return text + "." + fakegithub.b64url(sig)

    def rest(self, method, path, token=None, body=None, host="api.github.com",
             **headers):
        """(status, headers, JSON)"""
        c = http.client.HTTPSConnection(host, timeout=30)
        c.sock = self.ctx.wrap_socket(
            socket.create_connection(("127.0.0.1", self.gh.port), 30),
            server_hostname=host)
        h = {"User-Agent": "test", "Host": host, **headers}
        if token:
            h["Authorization"] = "Bearer " + token
        data = None
        if body is not None:
            h["Content-Type"] = "application/json"
            data = json.dumps(body)
        c.request(method, path, data, {k: v for k, v in h.items() if v})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, \
            json.loads(text) if text[:1] in b"{[" and text else text

    def mint(self, repos, permissions, app=None, **kw):
        a = app or self.app
        host = GHE if a.enterprise else "api.github.com"
        return self.rest("POST", "%s/app/installations/%d/access_tokens" % (
            "/api/v3" if a.enterprise else "", a.installation), self.jwt(
                a, **kw), {"repositories": repos, "permissions": permissions},
            host=host)

    def git(self, *args, token=None, host="github.com", version=2, cwd=None):
        """(exit status, what it said)"""
        conf = ["-c", "http.curloptResolve=%s:%d:127.0.0.1" % (
            host, self.gh.port), "-c", "http.sslCAInfo=%s/root.pem" %
            self.ca.dir, "-c", "protocol.version=%d" % version]
        if token:
            conf += ["-c", "http.extraHeader=Authorization: Basic " +
                     base64.b64encode(
                         b"x-access-token:" + token.encode()).decode()]
        r = subprocess.run(["git", *conf, *args], cwd=cwd or self.home,
                           env={"PATH": os.environ["PATH"], "HOME": self.home,
                                "GIT_TERMINAL_PROMPT": "0",
                                "GIT_CONFIG_NOSYSTEM": "1"},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=120)
        return r.returncode, r.stdout.decode(errors="replace")

    def url(self, repo, host="github.com"):
        return "https://%s:%d/%s" % (host, self.gh.port, repo)

    def close(self):
        self.gh.close()
        self.ca.close()
        shutil.rmtree(self.home, ignore_errors=True)


READ = {"contents": "read", "metadata": "read"}


def minting(w):
    status, _, t = w.mint(["secret"], READ)
    ok(status == 201 and t["token"].startswith("ghs_") and
       480 < len(t["token"]) < 620 and t["token"].count(".") == 2,
       "a token is minted, in the long form", (status, len(str(t))))
    for what, kw in (("one that lasts too long", {"exp": 700}),
                     ("one that is over", {"exp": -1}),
                     ("one of the future", {"iat": 300}),
                     ("another App's", {"iss": "999"}),
                     ("another signature", {"spoil": True}),
                     ("no signature's algorithm", {"alg": "none"})):
        status, _, r = w.mint(["secret"], READ, **kw)
        ok(status == 401, "a JWT is refused: " + what, (status, r))
    status, _, r = w.mint(["other"], READ)
    ok(status == 422, "a repository that is not the installation's", r)
    status, _, r = w.mint(["secret"], {"administration": "write"})
    ok(status == 422, "a permission that it has not", r)
    status, _, r = w.rest("POST", "/app/installations/1/access_tokens",
                          w.jwt(w.app), {})
    ok(status == 404, "an installation of somebody else", r)
    return t["token"]


def rest(w, token):
    see = lambda path, t=None: w.rest("GET", path, t)[0]    # noqa: E731
    ok(see("/repos/acme/open") == 200, "a public repository, by anybody")
    ok(see("/repos/acme/secret") == 404, "a private one is not there")
    ok(see("/repos/acme/secret", token) == 200, "but for its token")
    ok(see("/repos/acme/other", token) == 404, "which has no other")
    ok(see("/repos/acme/secret", "ghs_" + "x" * 36) == 401, "a wrong token")
    w.secret.issue("a title", "a body")
    ok(see("/repos/acme/secret/issues/1", token) == 403,
       "a permission that was not asked for")
    ok(w.rest("GET", "/repos/acme/open", **{"User-Agent": ""})[0] == 403,
       "nobody without a User-Agent")
    t = w.mint(["secret"], {"issues": "write", "pull_requests": "write"})[2][
        "token"]
    status, _, i = w.rest("GET", "/repos/acme/secret/issues/1", t)
    ok(status == 200 and i["title"] == "a title", "an issue", i)
    for n in range(130):
        w.secret.comment(w.secret.issues[1], "comment %d" % n)
    path = "/repos/acme/secret/issues/1/comments?per_page=100"
    status, h, c = w.rest("GET", path, t)
    ok(len(c) == 100 and 'page=2>; rel="next"' in h["link"], "a page", h)
    status, h, c = w.rest("GET", path + "&page=2", t)
    ok(len(c) == 30 and 'rel="next"' not in h["link"], "the last page", h)
    status, _, i = w.rest("POST", "/repos/acme/secret/issues", t,
                          {"title": "new", "body": "text"})
    ok(status == 201 and i["user"]["login"] == w.app.login, "a new issue", i)
    ok(w.rest("POST", "/repos/acme/secret/issues", t, {"body": "x"})[0] ==
       (500 if w.gh.validated else 422), "without a title")
    p = w.secret.pull(login=w.app.login)
    path = "/repos/acme/secret/pulls/%d" % p["number"]
    ok(w.rest("GET", path, t)[2]["head"]["ref"] == "feature", "a pull")
    status, _, r = w.rest("POST", path + "/reviews", t, {"event": "APPROVE"})
    ok(status == 422 and "your own pull request" in str(r),
       "one does not approve one's own", r)
    status, _, r = w.rest("POST", path + "/reviews", t, {
        "event": "COMMENT", "body": "well", "comments": [
            {"path": "new.txt", "body": "here", "line": 1}]})
    ok(status == 200 and w.rest("GET", path + "/comments", t)[2][0]["body"] ==
       "here", "a review with a remark", r)
    w.gh.limited("GET", "/issues/1")
    status, h, _ = w.rest("GET", "/repos/acme/secret/issues/1", t)
    ok(status == 403 and h["x-ratelimit-remaining"] == "0", "a rate limit", h)
    ok(w.rest("GET", "/repos/acme/secret/issues/1", t)[0] == 200, "is over")
    w.gh.echo = "hex"
    ok(t.encode().hex() in w.rest("GET", "/repos/acme/secret/issues/1", t)[2][
        "body"], "an echo of the token")
    w.gh.echo = None
    checks(w)
    status, h, r = w.rest("GET", "/repos/acme/secret", t)
    ok(r["temp_clone_token"] == w.gh.hidden and w.gh.hidden in h["set-cookie"],
       "and what else must not get through", (r, h))
    ok(w.gh.hidden not in str(w.rest("GET", "/repos/acme/open")),
       "which is for those that came with a token")
    ok(w.rest("DELETE", "/installation/token", t)[0] == 204 and
       see("/repos/acme/secret/issues/1", t) == 401, "a token is revoked")


def checks(w):
    sha = w.secret.tip()
    t = w.mint(["secret"], {"checks": "read", "statuses": "read"})[2]["token"]
    w.secret.check(sha, "build", "failure")
    w.secret.status(sha, "lint")
    c = w.rest("GET", "/repos/acme/secret/commits/%s/check-runs" % sha, t)[2]
    s = w.rest("GET", "/repos/acme/secret/commits/%s/status" % sha, t)[2]
    ok(c["check_runs"][0]["conclusion"] == "failure" and
       s["state"] == "success", "checks and statuses", (c, s))


def describes(w):
    """GitHub's own description, and not only ours"""
    if not w.gh.validated:
        skip = tap.absent if os.environ.get("SBX_INTEROP") == "no" else \
            tap.skip
        return skip(w.gh.description.why, "validated by the description")
    t = w.mint(["secret"], {"issues": "write"})[2]["token"]
    before = len(w.gh.wrong)
    for what, method, path, body in (
            ("a parameter that there is not", "GET",
             "/repos/acme/secret/issues/1?nothing=1", None),
            ("a number that is none", "GET",
             "/repos/acme/secret/issues/1/comments?page=x", None),
            ("a member that there is not", "POST", "/repos/acme/secret/issues",
             {"title": "x", "text": "y"}),
            ("a member of another type", "POST",
             "/repos/acme/secret/issues/1/comments", {"body": 7}),
            ("one that must be there", "POST",
             "/repos/acme/secret/issues/1/comments", {}),
            ("a path that there is not", "GET", "/repos/acme/secret/x", None)):
        status, _, r = w.rest(method, path, t, body)
        ok(status == 500, "the description refuses " + what, r)
    ok(len(w.gh.wrong) == before + 6, "and that is kept", w.gh.wrong)
    return True


def git(w, token):
    for v in (0, 1, 2):
        code, out = w.git("clone", "-q", w.url("acme/secret"), "v%d" % v,
                          token=token, version=v)
        ok(code == 0 and os.path.exists(w.home + "/v%d/README.md" % v),
           "a clone, protocol %d" % v, out)
    code, out = w.git("clone", "-q", w.url("acme/secret.git"), "none")
    ok(code != 0 and w.gh.log[-1].status == 401, "not without a token", out)
    code, out = w.git("clone", "-q", w.url("acme/other"), "o", token=token)
    ok(code != 0 and w.gh.log[-1].status == 404, "no other by it", out)
    code, out = w.git("clone", "-q", w.url("acme/open"), "open")
    ok(code == 0, "a public one by anybody", out)
    w.secret.commit({"second.txt": b"x" * 100000}, base=w.secret.tip())
    code, out = w.git("clone", "-q", "--depth=1", w.url("acme/secret"), "sh",
                      token=token)
    ok(code == 0 and os.path.exists(w.home + "/sh/.git/shallow"), "shallow",
       out)
    code, out = w.git("clone", "-q", "--filter=blob:none", "--no-checkout",
                      w.url("acme/secret"), "part", token=token)
    n = w.git("rev-list", "--objects", "--all", "--missing=print",
              cwd=w.home + "/part")[1]
    ok(code == 0 and "?" in n, "partial", (out, n))
    push(w, token)


def push(w, token):
    at = w.home + "/v2"
    blob = os.urandom(3 << 20)
    with open(at + "/large.bin", "wb") as f:
        f.write(blob)
    w.git("add", ".", cwd=at)
    code, out = w.git("-c", "user.name=t", "-c", "user.email=t@e.invalid",
                      "commit", "-qm", "large", cwd=at)
    code, out = w.git("push", "-q", "origin", "HEAD:refs/heads/x", cwd=at,
                      token=token)
    ok(code != 0 and w.gh.log[-1].status == 403, "a push needs more", out)
    t = w.mint(["secret"], {"contents": "write"})[2]["token"]
    code, out = w.git("push", "-q", "origin", "HEAD:refs/heads/x", cwd=at,
                      token=t)
    ok(code == 0 and w.secret.tip("refs/heads/x") == w.git(
        "rev-parse", "HEAD", cwd=at)[1].strip(), "a push of 3 MiB", out)
    w.gh.rename("acme/secret", "acme/renamed")
    code, out = w.git("ls-remote", w.url("acme/secret"), token=t)
    s = w.gh.log[-1]
    ok(s.status == 301, "a renamed one is elsewhere", (out, s))
    status, h, _ = w.rest("GET", "/repos/acme/secret", t)
    ok(status == 301 and h["location"].startswith(
        "https://api.github.com/repositories/"), "by REST, too", h)
    ok(w.rest("GET", h["location"][len("https://api.github.com"):], t)[0] ==
       200, "where it is", h)


def enterprise(w):
    r = w.gh.repo(GHE + "/corp/tool", private=True)
    a = w.gh.app([GHE + "/corp/tool"])
    status, _, t = w.mint(["tool"], READ, app=a)
    ok(status == 201 and len(t["token"]) == 40, "an Enterprise Server's token",
       t)
    code, out = w.git("clone", "-q", w.url("corp/tool", GHE), "corp",
                      host=GHE, token=t["token"])
    ok(code == 0, "and a clone by it", out)
    status, _, r = w.rest("GET", "/api/v3/repos/corp/tool", t["token"],
                          host=GHE)
    ok(status == 200 and r["full_name"] == "corp/tool" and
       r["url"] == "https://ghe.test/api/v3/repos/corp/tool", "and REST", r)


def main():
    try:
        w = World()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return tap.done()
    try:
        token = minting(w)
        rest(w, token)
        describes(w)
        enterprise(w)
        git(w, token)
        print("# validated by GitHub's description:", w.gh.validated)
        ok(not w.gh.errors and not w.gh.up.errors, "no mistakes of its own",
           (w.gh.errors, w.gh.up.errors))
    finally:
        w.close()
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
