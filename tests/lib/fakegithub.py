"""GitHub as far as the suite asks of it, made of real parts: git-http-backend
behind TLS, and a REST service whose tokens are minted, limited and checked.

    ca = egress.Authority()
    gh = fakegithub.Github(ca, enterprise="ghe.test")
    app = gh.app(["acme/secret"])           # .id .installation .pem
    r = gh.repo("acme/secret", private=True, files={"README.md": "hello\\n"})
    pr = r.pull("feature", files={"a.c": "int a;\\n"})
    conf = gh.conf() + "github_app %d %d %s\\n" % (...)
    gh.log                                  # Seen: every request
    gh.tokens                               # Token: all that were minted
    gh.answer_next("GET", "/repos/", 403, {"x-ratelimit-remaining": "0"})

What it is asked is validated against GitHub's published description (npm
@octokit/openapi) where that is installed: gh.validated says so, and gh.wrong
lists what did not fit, which was answered by 500.

Answers hold what must not get through: temp_clone_token, download_url with a
token, Set-Cookie, and with gh.echo the token that came, in some encoding.
"""
import base64
import binascii
import hashlib
import io
import json
import os
import pwd
import random
import re
import shutil
import string
import subprocess
import tempfile
import threading
import time
import urllib.parse

import egress
import node

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
BLOCK = 1 << 18
GIT = re.compile(r"/([^/]+/[^/]+?)(?:\.git)?/(info/refs|git-upload-pack|"
                 r"git-receive-pack|info/lfs/objects/batch)$")
WORD = string.ascii_letters + string.digits
LEVELS = {"read": 1, "write": 2, "admin": 3}


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def word(n):
    return "".join(random.SystemRandom().choices(WORD, k=n))


def encodings(secret):
    """{name: bytes}: what a scan for it has to look for.  Each by itself is
    enough to have it back, or half of it."""
    raw = secret.encode() if isinstance(secret, str) else secret
    half = len(raw) // 2
    out = {"raw": raw, "hex": raw.hex().encode(),
           "HEX": raw.hex().upper().encode(), "reversed": raw[::-1],
           "first half": raw[:half], "second half": raw[half:],
           "first half reversed": raw[:half][::-1],
           "second half reversed": raw[half:][::-1],
           "URL": urllib.parse.quote(secret, safe="").encode()
           if isinstance(secret, str) else b"",
           "JSON": json.dumps(secret)[1:-1].encode()
           if isinstance(secret, str) else b""}
    for phase in range(3):
        # what stays the same whatever comes before and after it
        text = base64.b64encode(b"\0" * phase + raw)
        text = text[(0, 2, 3)[phase]:len(text) - 4]
        out["base64 at %d" % phase] = text
        out["base64url at %d" % phase] = text.translate(
            bytes.maketrans(b"+/", b"-_"))
    out["Basic pair"] = base64.b64encode(b"x-access-token:" + raw)[:-4]
    return {k: v for k, v in out.items() if len(v) >= 12}


class Refuse(Exception):
    """An answer that is not the one that was asked for."""

    def __init__(self, status, message="", headers=None, errors=None):
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.body = {"message": message or "Error", "documentation_url":
                     "https://docs.github.com/rest", "status": str(status)}
        if errors is not None:
            self.body["errors"] = errors


class Token:
    """repos: full names, None: all; permissions: {name: level}"""

    def __init__(self, text, repos, permissions, life, login):
        self.text, self.repos, self.permissions = text, repos, permissions
        self.expires, self.revoked, self.login = time.time() + life, False, \
            login

    def live(self):
        return not self.revoked and time.time() < self.expires

    def can(self, repo, needs):
        """needs: [(permission, level)], one of them"""
        return any(LEVELS.get(self.permissions.get(name), 0) >=
                   LEVELS[level] for name, level in needs)

    def reaches(self, repo):
        return self.repos is None or not self.repos.isdisjoint(repo.names)


class Seen:
    """One request.  auth: "" or "basic", "bearer", "other"; token: the Token
    it was, if there is such a one."""

    def __init__(self, host, method, target, headers):
        self.host, self.method, self.target = host, method, target
        self.headers, self.token, self.status = headers, None, 0
        self.path, _, self.query = target.partition("?")
        self.auth, self.secret, self.user = "", "", ""
        self.body, self.at = b"", time.time()
        value = headers.get("authorization", "")
        kind, _, rest = value.partition(" ")
        if kind.lower() == "basic":
            self.auth = "basic"
            try:
                self.user, _, self.secret = base64.b64decode(
                    rest).decode().partition(":")
            except (binascii.Error, ValueError):
                pass    # then it is nobody's
        elif kind.lower() in ("bearer", "token"):
            self.auth, self.secret = "bearer", rest
        elif value:
            self.auth = "other"

    def __repr__(self):
        return "<%s %s%s auth=%r %d>" % (self.method, self.host, self.target,
                                         self.auth, self.status)


class App:
    def __init__(self, gh, number, repos, permissions):
        self.id, self.installation = number, number + 50000
        self.client_id = "Iv23li" + word(14)
        self.login = "sbx-app-%d[bot]" % number
        self.repos = {r.lower() for r in repos}
        self.permissions = permissions
        self.enterprise = any(r.count("/") == 2 for r in repos)
        self.pem = os.path.join(gh.dir, "app%d.pem" % number)
        subprocess.run(["openssl", "genrsa", "-traditional", "-out", self.pem,
                        "2048"], check=True, capture_output=True, timeout=60)
        gh.broker_owns(self.pem)
        out = subprocess.run(["openssl", "rsa", "-in", self.pem, "-noout",
                              "-modulus"], check=True, capture_output=True,
                             timeout=60).stdout
        self.n = int(out.strip().split(b"=")[1], 16)

    def signed(self, text, signature):
        """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, 8.2.2)"""
        if len(signature) != 256:
            return False
        got = pow(int.from_bytes(signature, "big"), 65537, self.n)
        info = bytes.fromhex("3031300d060960864801650304020105000420")
        want = b"\0\1" + b"\xff" * (256 - 3 - 51) + b"\0" + info + \
            hashlib.sha256(text).digest()
        return got == int.from_bytes(want, "big")

    def secrets(self):
        """what of the key file must not be found elsewhere: its lines"""
        with open(self.pem) as f:
            return [x.strip() for x in f if not x.startswith("-")][4:-1]


# --- repositories ---------------------------------------------------------------

class Repo:
    def __init__(self, gh, full, private, number):
        self.gh, self.full, self.private, self.id = gh, full, private, number
        self.path = os.path.join(gh.root, full.lower() + ".git")
        self.names = {full.lower()}     # a token goes on after a new one
        self.issues, self.checks, self.statuses = {}, {}, {}
        self.git("init", "-q", "--bare", "-b", "main", self.path, at=None)
        for k, v in (("http.receivepack", "true"),
                     ("uploadpack.allowFilter", "true"),
                     ("uploadpack.allowAnySHA1InWant", "true"),
                     ("core.compression", "0"), ("gc.auto", "0"),
                     ("core.bigFileThreshold", "1m")):
            self.git("config", k, v)

    @property
    def name(self):
        """OWNER/NAME, without the host"""
        return "/".join(self.full.split("/")[-2:])

    def git(self, *args, at="", data=None):
        """what it printed"""
        where = [] if at is None else ["-C", self.path]
        return subprocess.run(
            ["git", *where, *args], check=True, input=data, env=self.gh.env(),
            stdout=subprocess.PIPE, timeout=600).stdout.decode().strip()

    def tip(self, ref="refs/heads/main"):
        return self.git("rev-parse", ref)

    def commit(self, files, ref="refs/heads/main", base=None,
               message="a commit"):
        """files: {path: text or bytes, (mode, text), None}; the new id"""
        out = b"commit %s\ncommitter T <t@example.invalid> 1700000000 +0000\n" \
            b"data %d\n%s\n" % (ref.encode(), len(message), message.encode())
        if base:
            out += b"from %s\n" % base.encode()
        for path, what in files.items():
            mode, text = what if isinstance(what, tuple) else ("100644", what)
            if mode == "160000":
                out += b"M 160000 %s %s\n" % (text.encode(), path.encode())
                continue
            if text is None:
                out += b"D %s\n" % path.encode()
                continue
            text = text.encode() if isinstance(text, str) else text
            out += b"M %s inline %s\ndata %d\n%s\n" % (
                mode.encode(), path.encode(), len(text), text)
        self.git("fast-import", "--quiet", "--force", data=out)
        return self.tip(ref)

    def large(self, mib, piece=16):
        """so many MiB that no compression makes smaller, in pieces"""
        p = subprocess.Popen(["git", "-C", self.path, "-c",
                              "fastimport.unpackLimit=0", "fast-import",
                              "--quiet", "--force"], stdin=subprocess.PIPE,
                             env=self.gh.env())
        p.stdin.write(b"commit refs/heads/main\ncommitter T <t@example."
                      b"invalid> 1700000000 +0000\ndata 5\nlarge\n")
        for i in range(0, mib, piece):
            n = min(piece, mib - i) << 20
            p.stdin.write(b"M 100644 inline piece%d\ndata %d\n" % (i, n))
            for _ in range(n >> 20):
                p.stdin.write(os.urandom(1 << 20))
            p.stdin.write(b"\n")
        p.stdin.close()
        if p.wait(900) != 0:
            raise RuntimeError("git fast-import failed")
        return self.tip()

    # --- what REST shows ------------------------------------------------------

    def number(self):
        return len(self.issues) + 1

    def issue(self, title="a title", body="a body", login="somebody"):
        i = {"number": self.number(), "title": title, "body": body,
             "login": login, "comments": [], "state": "open", "pull": None}
        self.issues[i["number"]] = i
        return i

    def pull(self, branch="feature", files=None, login="somebody", base="main",
             **more):
        i = self.issue(login=login, **more)
        head = self.commit(files or {"new.txt": "new\n"}, "refs/heads/" +
                           branch, self.tip("refs/heads/" + base))
        self.git("update-ref", "refs/pull/%d/head" % i["number"], head)
        i["pull"] = {"branch": branch, "head": head, "base": base,
                     "reviews": [], "comments": []}
        return i

    def comment(self, issue, body, login="somebody"):
        issue["comments"].append({"body": body, "login": login,
                                  "id": random.getrandbits(40)})

    def review(self, issue, body, state="COMMENTED", login="somebody"):
        issue["pull"]["reviews"].append({
            "body": body, "state": state, "login": login,
            "id": random.getrandbits(40)})

    def remark(self, issue, body, path="new.txt", line=1, login="somebody"):
        issue["pull"]["comments"].append({
            "body": body, "path": path, "line": line, "login": login,
            "id": random.getrandbits(40)})

    def check(self, sha, name, conclusion="success"):
        self.checks.setdefault(sha, []).append((name, conclusion))

    def status(self, sha, context, state="success"):
        self.statuses.setdefault(sha, []).append((context, state))


# --- the answers of REST -----------------------------------------------------------

class Views:
    """JSON as GitHub has it: what is asked for, much else, and the traps."""

    def __init__(self, gh, api, web):
        self.gh, self.api, self.web = gh, api, web

    def user(self, login):
        bot = login.endswith("[bot]")
        n = int(hashlib.sha256(login.encode()).hexdigest()[:6], 16)
        return {"login": login, "id": n, "node_id": "U_%d" % n,
                "type": "Bot" if bot else "User", "site_admin": False,
                "avatar_url": self.web + "/u/%d?v=4&token=%s" % (
                    n, self.gh.trap), "url": self.api + "/users/" +
                urllib.parse.quote(login), "html_url":
                self.web + "/" + urllib.parse.quote(login)}

    def repo(self, r):
        owner, name = r.name.split("/")
        return {"id": r.id, "node_id": "R_%d" % r.id, "name": name,
                "full_name": r.name, "private": r.private,
                "owner": self.user(owner), "html_url": "%s/%s" % (
                    self.web, r.name), "description": "a repository",
                "fork": False, "url": "%s/repos/%s" % (self.api, r.name),
                "default_branch": "main", "visibility":
                "private" if r.private else "public", "archived": False,
                "clone_url": "%s/%s.git" % (self.web, r.name),
                "temp_clone_token": self.gh.trap, "size": 12,
                "permissions": {"admin": False, "push": True, "pull": True}}

    def where(self, r, *more):
        return "/".join([self.api, "repos", r.name, *map(str, more)])

    def comment(self, r, i, c):
        url = self.where(r, "issues", "comments", c["id"])
        return {"id": c["id"], "node_id": "IC_%d" % c["id"], "url": url,
                "html_url": "%s/%s/issues/%d#issuecomment-%d" % (
                    self.web, r.name, i["number"], c["id"]),
                "body": self.gh.echoed(c["body"]),
                "user": self.user(c["login"]),
                "created_at": "2026-01-02T03:04:05Z",
                "updated_at": "2026-01-02T03:04:05Z",
                "issue_url": self.where(r, "issues", i["number"]),
                "author_association": "MEMBER"}

    def issue(self, r, i):
        kind = "pull" if i["pull"] else "issues"
        out = {"id": r.id * 1000 + i["number"], "node_id": "I_%d" %
               i["number"], "number": i["number"], "state": i["state"],
               "title": i["title"], "body": self.gh.echoed(i["body"]),
               "user": self.user(i["login"]), "labels": [
                   {"id": 1, "name": "bug", "color": "f00", "default": True}],
               "url": self.where(r, "issues", i["number"]),
               "repository_url": self.where(r), "html_url": "%s/%s/%s/%d" % (
                   self.web, r.name, kind, i["number"]), "locked": False,
               "comments": len(i["comments"]), "assignees": [],
               "milestone": None, "closed_at": None,
               "created_at": "2026-01-02T03:04:05Z",
               "updated_at": "2026-01-02T03:04:05Z",
               "author_association": "MEMBER"}
        if i["pull"]:
            out["pull_request"] = {"url": self.where(
                r, "pulls", i["number"]), "html_url": out["html_url"],
                "diff_url": out["html_url"] + ".diff?token=" + self.gh.trap,
                "patch_url": out["html_url"] + ".patch"}
        return out

    def pull(self, r, i):
        p = i["pull"]
        out = self.issue(r, i)
        side = lambda ref, sha: {   # noqa: E731
            "label": r.name.split("/")[0] + ":" + ref, "ref": ref, "sha": sha,
            "user": self.user(r.name.split("/")[0]), "repo": self.repo(r)}
        for name in ("pull_request", "repository_url"):
            out.pop(name, None)
        out.update({
            "head": side(p["branch"], p["head"]),
            "base": side(p["base"], r.tip("refs/heads/" + p["base"])),
            "draft": False, "merged": False, "mergeable": True,
            "mergeable_state": "clean", "merged_at": None,
            "url": self.where(r, "pulls", i["number"]),
            "review_comments": len(p["comments"]), "commits": 1,
            "additions": 1, "deletions": 0, "changed_files": 1})
        return out

    def review(self, r, i, v):
        return {"id": v["id"], "node_id": "PRR_%d" % v["id"],
                "user": self.user(v["login"]), "state": v["state"],
                "body": self.gh.echoed(v["body"]), "html_url":
                "%s/%s/pull/%d#pullrequestreview-%d" % (
                    self.web, r.name, i["number"], v["id"]),
                "pull_request_url": self.where(r, "pulls", i["number"]),
                "submitted_at": "2026-01-02T03:04:05Z",
                "commit_id": i["pull"]["head"],
                "author_association": "MEMBER"}

    def remark(self, r, i, c):
        return {"id": c["id"], "node_id": "RC_%d" % c["id"],
                "url": self.where(r, "pulls", "comments", c["id"]),
                "path": c["path"], "line": c["line"], "side": "RIGHT",
                "body": self.gh.echoed(c["body"]), "diff_hunk": "@@ -0 +1 @@",
                "user": self.user(c["login"]), "commit_id":
                i["pull"]["head"], "original_commit_id": i["pull"]["head"],
                "html_url": "%s/%s/pull/%d#discussion_r%d" % (
                    self.web, r.name, i["number"], c["id"]),
                "pull_request_url": self.where(r, "pulls", i["number"]),
                "created_at": "2026-01-02T03:04:05Z",
                "updated_at": "2026-01-02T03:04:05Z",
                "author_association": "MEMBER"}

    def check(self, n, sha, c):
        return {"id": n, "head_sha": sha, "node_id": "CR_%d" % n,
                "name": c[0], "status": "completed", "conclusion": c[1],
                "url": self.api + "/check-runs/%d" % n, "html_url":
                self.web + "/checks/%d?download_token=%s" % (n, self.gh.trap),
                "details_url": "https://ci.example/%d?token=%s" % (
                    n, self.gh.trap), "external_id": "",
                "started_at": "2026-01-02T03:04:05Z",
                "completed_at": "2026-01-02T03:05:05Z",
                "output": {"title": c[0], "summary": "all well",
                           "text": "text", "annotations_count": 0,
                           "annotations_url": self.api + "/x"}}

    def status(self, n, c):
        return {"id": n, "node_id": "SC_%d" % n, "context": c[0],
                "state": c[1], "description": "of " + c[0],
                "url": self.api + "/x", "avatar_url": self.web + "/x",
                "target_url": "https://ci.example/s/%d" % n,
                "created_at": "2026-01-02T03:04:05Z",
                "updated_at": "2026-01-02T03:04:05Z"}


def page(call, items):
    """the items of the page that was asked for, and its Link header"""
    q = dict(urllib.parse.parse_qsl(call.seen.query))
    try:
        n, size = int(q.get("page", 1)), min(int(q.get("per_page", 30)), 100)
    except ValueError as e:
        raise Refuse(422, "bad page") from e
    last = max(1, -(-len(items) // size))
    links = []
    base = "https://%s%s" % (call.seen.host, call.seen.path)
    for rel, k, on in (("prev", n - 1, n > 1), ("next", n + 1, n < last),
                       ("last", last, n < last), ("first", 1, n > 1)):
        if on:
            links.append('<%s?per_page=%d&page=%d>; rel="%s"' % (
                base, size, k, rel))
    return items[(n - 1) * size:n * size], \
        {"Link": ", ".join(links)} if links else {}


class Call:
    """One request of REST on its way to an answer."""

    def __init__(self, gh, seen, views, body, match, repo):
        self.gh, self.seen, self.views, self.json = gh, seen, views, body
        self.match, self.repo, self.headers = match, repo, {}

    @property
    def me(self):
        return self.seen.token.login if self.seen.token else "nobody"

    def issue(self):
        i = self.repo.issues.get(int(self.match["n"]))
        if not i:
            raise Refuse(404, "Not Found")
        return i

    def pulled(self):
        i = self.issue()
        if not i["pull"]:
            raise Refuse(404, "Not Found")
        return i

    def paged(self, items):
        items, headers = page(self, items)
        self.headers.update(headers)
        return items

    def commit(self):
        try:
            return self.repo.git("rev-parse", "--verify", "-q",
                                 self.match["ref"] + "^{commit}")
        except subprocess.CalledProcessError as e:
            raise Refuse(422, "No commit found for SHA: " +
                         self.match["ref"]) from e


def get_repo(c):
    return 200, c.views.repo(c.repo)


def get_issue(c):
    return 200, c.views.issue(c.repo, c.issue())


def get_comments(c):
    i = c.issue()
    return 200, c.paged([c.views.comment(c.repo, i, x)
                         for x in i["comments"]])


def get_pull(c):
    return 200, c.views.pull(c.repo, c.pulled())


def get_pulls(c):
    q = dict(urllib.parse.parse_qsl(c.seen.query))
    head = q.get("head", "").partition(":")
    return 200, c.paged([
        c.views.pull(c.repo, i) for i in c.repo.issues.values()
        if i["pull"] and q.get("state", "open") in (i["state"], "all") and
        (not head[1] or (c.repo.name.split("/")[0].lower() == head[0].lower()
                         and i["pull"]["branch"] == head[2]))])


def post_pull(c):
    def invalid(**error):
        raise Refuse(422, "Validation Failed", errors=[
            {"resource": "PullRequest", **error}])
    r, head, base = c.repo, c.json["head"], c.json["base"]
    if not c.json.get("title"):
        invalid(field="title", code="missing_field")
    for name, ref in (("head", head), ("base", base)):
        try:
            r.tip("refs/heads/" + ref)
        except subprocess.CalledProcessError:
            invalid(field=name, code="invalid")
    tip = r.tip("refs/heads/" + head)
    if any(i["pull"] and i["state"] == "open" and i["pull"]["branch"] == head
           and i["pull"]["base"] == base for i in r.issues.values()):
        invalid(code="custom", message="A pull request already exists for "
                "%s:%s." % (r.name.split("/")[0], head))
    if tip == r.tip("refs/heads/" + base):
        invalid(code="custom", message="No commits between %s and %s" % (
            base, head))
    i = r.issue(c.json["title"], c.json.get("body") or "", c.me)
    r.git("update-ref", "refs/pull/%d/head" % i["number"], tip)
    i["pull"] = {"branch": head, "head": tip, "base": base, "reviews": [],
                 "comments": []}
    return 201, c.views.pull(r, i)


def get_reviews(c):
    i = c.pulled()
    return 200, c.paged([c.views.review(c.repo, i, x)
                         for x in i["pull"]["reviews"]])


def get_remarks(c):
    i = c.pulled()
    return 200, c.paged([c.views.remark(c.repo, i, x)
                         for x in i["pull"]["comments"]])


def get_checks(c):
    sha = c.commit()
    all_ = [c.views.check(n, sha, x)
            for n, x in enumerate(c.repo.checks.get(sha, ()), 1)]
    return 200, {"total_count": len(all_), "check_runs": c.paged(all_)}


def get_status(c):
    sha = c.commit()
    all_ = [c.views.status(n, x)
            for n, x in enumerate(c.repo.statuses.get(sha, ()), 1)]
    states = {x["state"] for x in all_}
    return 200, {"sha": sha, "total_count": len(all_), "statuses":
                 c.paged(all_), "repository": c.views.repo(c.repo),
                 "commit_url": c.views.where(c.repo, "commits", sha),
                 "url": c.views.where(c.repo, "commits", sha, "status"),
                 "state": "failure" if states & {"failure", "error"} else
                 "pending" if not states or "pending" in states else
                 "success"}


def post_issue(c):
    if not c.json.get("title"):
        raise Refuse(422, "Validation Failed", errors=[
            {"resource": "Issue", "field": "title", "code": "missing_field"}])
    i = c.repo.issue(c.json["title"], c.json.get("body") or "", c.me)
    return 201, c.views.issue(c.repo, i)


def post_comment(c):
    i = c.issue()
    if not c.json.get("body"):
        raise Refuse(422, "Validation Failed", errors=[
            {"resource": "IssueComment", "field": "body",
             "code": "missing_field"}])
    c.repo.comment(i, c.json["body"], c.me)
    return 201, c.views.comment(c.repo, i, i["comments"][-1])


STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED",
          "COMMENT": "COMMENTED", None: "PENDING"}


def post_review(c):
    i, event = c.pulled(), c.json.get("event")
    if i["login"] == c.me and event in ("APPROVE", "REQUEST_CHANGES"):
        raise Refuse(422, "Unprocessable Entity", errors=[
            "Review Can not %s your own pull request" %
            event.lower().replace("_", " ")])
    if event in ("REQUEST_CHANGES", "COMMENT") and not c.json.get("body") \
            and not c.json.get("comments"):
        raise Refuse(422, "Unprocessable Entity", errors=[
            "Body can not be blank"])
    for x in c.json.get("comments") or ():
        if not x.get("line") and not x.get("position"):
            raise Refuse(422, "Unprocessable Entity", errors=[
                "Pull request review thread line must be part of the diff"])
        c.repo.remark(i, x["body"], x["path"], x.get("line"), c.me)
    c.repo.review(i, c.json.get("body") or "", STATES[event], c.me)
    return 200, c.views.review(c.repo, i, i["pull"]["reviews"][-1])


ISSUES = lambda way: [("issues", way), ("pull_requests", way)]  # noqa: E731
PULLS = lambda way: [("pull_requests", way)]    # noqa: E731
ROUTES = [(method, re.compile("(?:/repos/(?P<full>[^/]+/[^/]+)|"
                              "/repositories/(?P<id>[0-9]+))%s$" % path),
           needs, fn) for method, path, needs, fn in (
    ("GET", "", [("metadata", "read")], get_repo),
    ("GET", "/issues/(?P<n>[0-9]+)", ISSUES("read"), get_issue),
    ("GET", "/issues/(?P<n>[0-9]+)/comments", ISSUES("read"), get_comments),
    ("GET", "/pulls", PULLS("read"), get_pulls),
    ("POST", "/pulls", PULLS("write"), post_pull),
    ("GET", "/pulls/(?P<n>[0-9]+)", PULLS("read"), get_pull),
    ("GET", "/pulls/(?P<n>[0-9]+)/reviews", PULLS("read"), get_reviews),
    ("GET", "/pulls/(?P<n>[0-9]+)/comments", PULLS("read"), get_remarks),
    ("GET", "/commits/(?P<ref>[^/]+)/check-runs", [("checks", "read")],
     get_checks),
    ("GET", "/commits/(?P<ref>[^/]+)/status", [("statuses", "read")],
     get_status),
    ("POST", "/issues", [("issues", "write")], post_issue),
    ("POST", "/issues/(?P<n>[0-9]+)/comments", ISSUES("write"),
     post_comment),
    ("POST", "/pulls/(?P<n>[0-9]+)/reviews", PULLS("write"), post_review))]
MINT = re.compile("/app/installations/([0-9]+)/access_tokens$")


# --- GitHub's own description of what may be asked ------------------------------

class Description:
    """openapi.mjs, a line to it and a line from it for each request."""

    def __init__(self):
        self.lock, self.proc = threading.Lock(), None
        self.why = "no @octokit/openapi: npm ci in a copy of tests/interop, " \
            "SBX_INTEROP names it"
        if node.binary() and node.package("@octokit/openapi") and \
                node.package("ajv"):
            self.why = ""
            self.proc = subprocess.Popen(
                [node.binary(), SRC + "/tests/interop/openapi.mjs",
                 os.environ["SBX_INTEROP"]], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE)

    def judge(self, **request):
        """"" or what does not fit"""
        if not self.proc:
            return ""
        with self.lock:
            self.proc.stdin.write(json.dumps(request).encode() + b"\n")
            self.proc.stdin.flush()
            line = self.proc.stdout.readline()
        return json.loads(line)["error"] if line else "openapi.mjs ended"

    def close(self):
        if self.proc:
            self.proc.stdin.close()
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
            self.proc.stdout.close()


# --- the service -------------------------------------------------------------------

def described(path):
    """where a renamed repository is sent to is not in the description"""
    return re.sub("^/repositories/[0-9]+", "/repos/o/r", path)


class Github:
    """enterprise: the name of a GitHub Enterprise Server, a second such world
    with its own repositories ("HOST/OWNER/NAME")."""

    def __init__(self, ca, enterprise=None, validate=True, token_life=3600):
        self.ca, self.enterprise = ca, enterprise
        self.dir = tempfile.mkdtemp(prefix="fakegithub-")
        os.chmod(self.dir, 0o755)
        self.root = os.path.join(self.dir, "git")
        os.mkdir(self.root)
        self.repos, self.moved, self.apps, self.tokens = {}, {}, {}, []
        self.log, self.wrong, self.rules, self.errors = [], [], [], []
        self.hidden, self.echo, self.token_life = "TRAP" + word(32), None, \
            token_life
        self.short_tokens, self.local = False, threading.local()
        self.pace = 0       # seconds of rest after each block of git's
        self.kept = None    # {}: packs are made once, and sent from files
        self.lock = threading.Lock()
        self.description = Description() if validate else None
        self.validated = bool(self.description and self.description.proc)
        self.names = ["github.com", "api.github.com"] + \
            ([enterprise] if enterprise else [])
        self.up = egress.Upstream(ca, self.names, handler=self._connection)
        self.port = self.up.port

    def env(self):
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "HOME": self.dir, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}

    def conf(self):
        """lines of sbx.conf"""
        os.chmod(self.ca.dir, 0o755)
        os.chmod(self.ca.dir + "/root.pem", 0o644)
        return "".join("resolve %s:443 127.0.0.1:%d\n" % (n, self.port)
                       for n in self.names) + \
            "upstream_ca %s/root.pem\n" % self.ca.dir + \
            ("grant_host %s\n" % self.enterprise if self.enterprise else "")

    def broker_owns(self, path):
        """as a credential's file must be"""
        try:
            if os.getuid() == 0:
                u = pwd.getpwnam("sbx-broker")
                os.chown(path, u.pw_uid, u.pw_gid)
        except KeyError:
            pass    # no users are installed: it is ours
        os.chmod(path, 0o600)
        return path

    def put(self, name, text):
        """a file for the broker alone; its path"""
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return self.broker_owns(path)

    @property
    def trap(self):
        """a credential in an answer: of use to whoever came with one"""
        return self.hidden if getattr(self.local, "secret", "") else "nothing"

    # --- what there is ---------------------------------------------------------

    def repo(self, full, private=False, files=None):
        r = Repo(self, full, private, 1000 + len(self.repos))
        self.repos[full.lower()] = r
        r.commit(files or {"README.md": "of %s\n" % full})
        return r

    def app(self, repos, number=None, **permissions):
        a = App(self, number or 4100 + len(self.apps), repos, permissions or {
            "metadata": "read", "contents": "write", "issues": "write",
            "pull_requests": "write", "checks": "read", "statuses": "read"})
        self.apps[a.id] = a
        return a

    def static(self, repos=None, kind="github_pat_", **permissions):
        """a token that somebody made by hand"""
        t = Token(kind + word(22) + "_" + word(59), repos and {
            r.lower() for r in repos}, permissions or {
            "metadata": "read", "contents": "write", "issues": "write",
            "pull_requests": "write", "checks": "read", "statuses": "read"},
            1 << 30, "somebody")
        self.tokens.append(t)
        return t

    def rename(self, old, new):
        """what asks for old is sent to new"""
        r = self.repos.pop(old.lower())
        r.full = new
        r.names.add(new.lower())
        self.repos[new.lower()] = r
        path = os.path.join(self.root, new.lower() + ".git")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(r.path, path)
        r.path = path
        self.moved[old.lower()] = r

    def answer_next(self, method, path, status, headers=None, body=None,
                    times=1, host=None):
        """The next requests whose target holds `path` are answered so."""
        self.rules.append([times, method, path, host, status, headers or {},
                           body or {"message": "as a test asked for it"}])

    def limited(self, method="", path="/", secondary=False, times=1,
                host=None):
        """a rate limit is reached"""
        if secondary:
            return self.answer_next(method, path, 429, {"retry-after": "41"}, {
                "message": "You have exceeded a secondary rate limit."},
                times, host)
        return self.answer_next(method, path, 403, {
            "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": str(int(time.time()) + 77)}, {
            "message": "API rate limit exceeded for installation."}, times,
            host)

    def seen(self, host=None, method=None, path="", **fields):
        """requests that were, whose target holds `path`"""
        return [s for s in list(self.log) if host in (None, s.host) and
                method in (None, s.method) and path in s.target and
                all(getattr(s, k) == v for k, v in fields.items())]

    def secrets(self):
        """{what it is: text}: nothing of it may get anywhere"""
        out = {"trap": self.hidden}
        for n, s in enumerate(self.seen(method="POST", path="/access_tokens")):
            out["JWT %d" % n] = s.secret
            out["signature of JWT %d" % n] = s.secret.split(".")[-1]
        for n, t in enumerate(self.tokens):
            out["token %d" % n] = t.text
            if "." in t.text:   # its last part alone would do to look for it
                out["signature of token %d" % n] = t.text.split(".")[-1]
        for a in self.apps.values():
            for n, line in enumerate(a.secrets()):
                out["key of app %d, line %d" % (a.id, n)] = line
        return out

    def echoed(self, text):
        """with gh.echo the token that came, so encoded"""
        secret = getattr(self.local, "secret", "")
        if not self.echo or not secret:
            return text
        kind, _, phase = self.echo.partition(" at ")
        if not phase:
            return text + " " + encodings(secret)[kind].decode()
        before = {"Basic": b"x-access-token:"}.get(kind, b"x" * int(phase))
        value = base64.b64encode(before + secret.encode() + b"yy").decode()
        return text + " " + (value if kind != "base64url" else
                             value.replace("+", "-").replace("/", "_"))

    # --- one connection ---------------------------------------------------------

    def _connection(self, _server, s):
        f = s.makefile("rb")
        while True:
            head = egress.read_head(f)
            if not head:
                return
            line, headers, _ = head
            method, target, _ = (line + "  ").split(" ", 2)
            host = headers.get("host", "").split(":")[0].lower()
            seen = Seen(host, method, target, headers)
            self.log.append(seen)
            if headers.get("expect", "").lower() == "100-continue":
                s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                keep = self._one(s, f, seen)
            except OSError:
                raise
            except Exception as e:  # pylint: disable=broad-except
                self.errors.append("%r: %r" % (seen, e))
                keep = self._send(s, seen, 500, {}, {"message": repr(e)})
            if not keep or headers.get("connection", "").lower() == "close":
                return

    def _one(self, s, f, seen):
        api = seen.host == "api.github.com"
        self.local.secret = seen.secret
        if seen.host not in self.names:
            return self._send(s, seen, 421, {}, {"message": "not here"})
        if not api and not seen.path.startswith("/api/v3/"):
            m = GIT.match(seen.path)
            if m:
                return self._git(s, f, seen, m[1], m[2])
            return self._send(s, seen, 404, {}, b"no such page\n")
        seen.body = egress.read_body(f, seen.headers)
        try:
            self._rules(seen)
            status, headers, body = self._rest(seen, api)
        except Refuse as e:
            status, headers, body = e.status, e.headers, e.body
        return self._send(s, seen, status, headers, body)

    def _send(self, s, seen, status, headers, body):
        seen.status = status
        data = b"" if status == 204 else body if isinstance(body, bytes) \
            else json.dumps(body).encode()
        out = {"Server": "github.com", "Content-Type":
               "application/json; charset=utf-8" if not isinstance(
                   body, bytes) else "text/plain; charset=utf-8",
               "Set-Cookie": "_gh_sess=%s; secure; HttpOnly" % self.trap,
               "X-GitHub-Request-Id": "%08X" % random.getrandbits(32),
               "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999",
               "x-ratelimit-reset": str(int(time.time()) + 3600)}
        if status != 204:
            out["Content-Length"] = str(len(data))
        out.update(headers)
        s.sendall(("HTTP/1.1 %d X\r\n" % status + "".join(
            "%s: %s\r\n" % kv for kv in out.items()) + "\r\n").encode() +
            (data if seen.method != "HEAD" else b""))
        return status < 500

    def _rules(self, seen):
        with self.lock:
            for r in self.rules:
                times, method, path, host, status, headers, body = r
                if times and method in ("", seen.method) and \
                        path in seen.target and host in (None, seen.host):
                    r[0] -= 1
                    e = Refuse(status, "", headers)
                    e.body = body
                    raise e

    # --- who asks ------------------------------------------------------------------

    def _token(self, seen):
        """the token that came with it, None without one; a wrong one is 401"""
        if not seen.auth:
            return None
        for t in self.tokens:
            if t.text == seen.secret and t.live():
                seen.token = t
                return t
        raise Refuse(401, "Bad credentials")

    def _repo(self, full):
        """(repository, True: asked for by the name that it has now)"""
        full = full.lower()
        r = self.repos.get(full)
        return (r, True) if r else (self.moved.get(full), False)

    def _may(self, seen, repo, needs):
        """404 where it must not even be known, 403 where it is"""
        t = self._token(seen)
        write = any(level != "read" for _, level in needs)
        if repo.private and (t is None or not t.reaches(repo)):
            raise Refuse(404, "Not Found")
        if t is None:
            if write:
                raise Refuse(401, "Requires authentication")
            return
        if not t.reaches(repo) and write:
            raise Refuse(403, "Resource not accessible by integration")
        if (repo.private or write) and not t.can(repo, needs):
            raise Refuse(403, "Resource not accessible by integration", {
                "X-Accepted-GitHub-Permissions": "; ".join(
                    "%s=%s" % n for n in needs)})

    # --- REST --------------------------------------------------------------------

    def _rest(self, seen, api):
        prefix = "" if api else "/api/v3"
        path = seen.path[len(prefix):]
        if not seen.headers.get("user-agent"):
            raise Refuse(403, "Request forbidden by administrative rules. "
                         "Please make sure your request has a User-Agent "
                         "header")
        try:
            body = json.loads(seen.body) if seen.body else None
        except ValueError as e:
            raise Refuse(400, "Problems parsing JSON") from e
        self._judge(seen, path, body)
        host = seen.host
        views = Views(self, "https://" + host + prefix,
                      "https://" + ("github.com" if api else host))
        m = MINT.match(path)
        if m and seen.method == "POST":
            return self._mint(seen, int(m[1]), body or {}, views)
        if path == "/installation/token" and seen.method == "DELETE":
            t = self._token(seen)
            if t is None:
                raise Refuse(401, "Requires authentication")
            t.revoked = True
            return 204, {}, b""
        for method, pattern, needs, fn in ROUTES:
            m = pattern.match(path)
            if m and method == seen.method:
                return self._answer(seen, views, body, m, needs, fn, prefix)
        raise Refuse(404, "Not Found")

    def _judge(self, seen, path, body):
        if not self.description:
            return
        error = self.description.judge(
            method=seen.method, path=described(path), query=seen.query,
            body=body, headers=seen.headers)
        if error:
            self.wrong.append("%s %s: %s" % (seen.method, seen.target, error))
            raise Refuse(500, "not what GitHub describes: " + error)

    def _answer(self, seen, views, body, m, needs, fn, prefix):
        if m["full"]:
            full = m["full"] if not prefix else seen.host + "/" + m["full"]
            r, now = self._repo(full)
        else:
            r, now = next((r for r in self.repos.values()
                           if r.id == int(m["id"])), None), True
        if not r:
            self._token(seen)
            raise Refuse(404, "Not Found")
        self._may(seen, r, needs)
        if not now:
            rest = seen.target[len(prefix) + len("/repos/") + len(m["full"]):]
            to = "%s/repositories/%d%s" % (views.api, r.id, rest)
            e = Refuse(307 if seen.method != "GET" else 301, "Moved",
                       {"Location": to})
            e.body.update(url=to, message="Moved Permanently")
            raise e
        call = Call(self, seen, views, body or {}, m, r)
        status, out = fn(call)
        self._judge_answer(seen, seen.path[len(prefix):], status, out)
        return status, call.headers, out

    def _judge_answer(self, seen, path, status, answer):
        """a mistake of this file, if it is one"""
        if self.description:
            error = self.description.judge(
                method=seen.method, path=described(path), status=status,
                answer=answer)
            if error:
                self.errors.append("%s %s: the answer: %s" % (
                    seen.method, seen.target, error))

    def _mint(self, seen, installation, body, views):
        api = seen.host == "api.github.com"
        a = self._app(seen, api)
        if a.installation != installation:
            raise Refuse(404, "Integration not found")
        prefix = "" if api else seen.host + "/"
        repos = set(a.repos)
        if "repositories" in body:
            owned = {r[len(prefix):].split("/")[1]: r for r in a.repos}
            names = [n.lower() for n in body["repositories"]]
            if not all(n in owned for n in names):
                raise Refuse(422, "There is at least one repository that does "
                             "not exist or is not accessible to the parent "
                             "installation.")
            repos = {owned[n] for n in names}
        # the one of every token
        asked = dict(body.get("permissions") or a.permissions,
                     metadata="read")
        for name, level in asked.items():
            if LEVELS.get(level, 9) > LEVELS.get(a.permissions.get(name), 0):
                raise Refuse(422, "The permissions requested are not granted "
                             "to this installation.")
        short = self.short_tokens or not api or seen.headers.get(
            "x-github-stateless-s2s-token") == "disabled"
        t = Token(self._text(a, short), repos, asked, self.token_life,
                  a.login)
        t.asked = body
        self.tokens.append(t)
        answer = {
            "token": t.text, "expires_at": time.strftime(
                "%Y-%m-%dT%H:%M:%SZ", time.gmtime(t.expires)),
            "permissions": asked, "repository_selection": "selected"}
        if "repositories" in body:
            answer["repositories"] = [views.repo(self._repo(r)[0])
                                      for r in sorted(repos)
                                      if self._repo(r)[0]]
        self._judge_answer(seen, seen.path if api else
                           seen.path[len("/api/v3"):], 201, answer)
        return 201, {}, answer

    @staticmethod
    def _text(a, short):
        if short:
            return "ghs_" + word(36)
        head = b64url(json.dumps({"alg": "RS256", "typ": "JWT"}).encode())
        body = b64url(json.dumps({"i": a.installation, "n": word(48)}
                                 ).encode())
        return "ghs_%d_%s.%s.%s" % (a.id, head, body, b64url(os.urandom(256)))

    def _app(self, seen, api):
        """The App whose JWT that is: RS256, not older or longer than GitHub
        takes."""
        bad = Refuse(401, "A JSON web token could not be decoded")
        part = seen.secret.split(".")
        if seen.auth != "bearer" or len(part) != 3:
            raise bad
        try:
            head, claims = (json.loads(unb64url(p)) for p in part[:2])
            signature = unb64url(part[2])
            a = next((a for a in self.apps.values() if str(
                claims["iss"]) in (str(a.id), a.client_id)), None)
            iat, exp = claims["iat"], claims["exp"]
        except (ValueError, KeyError, TypeError, binascii.Error) as e:
            raise bad from e
        if head.get("alg") != "RS256" or not a or a.enterprise == api or \
                not a.signed(
                    ".".join(part[:2]).encode(), signature):
            raise bad
        now = time.time()
        if type(iat) is not int or type(exp) is not int:    # noqa: E721
            raise bad
        if exp <= now:
            raise Refuse(401, "'Expiration time' claim ('exp') must be a "
                         "numeric value representing the future time at which "
                         "the assertion expires")
        if exp - now > 600:
            raise Refuse(401, "'Expiration time' claim ('exp') is too far in "
                         "the future")
        if iat > now + 5 or exp - iat > 660:
            raise Refuse(401, "'Issued at' claim ('iat') must be an Integer "
                         "representing the time that the assertion was "
                         "issued")
        return a

    # --- git ---------------------------------------------------------------------------

    def _git(self, s, f, seen, name, what):
        full = name if seen.host == "github.com" else seen.host + "/" + name
        push = "git-receive-pack" in (what, seen.query.partition("=")[2])
        try:
            self._rules(seen)
            r, now = self._repo(full)
            self._may_git(seen, r, push)
        except Refuse as e:
            if seen.method == "POST":
                egress.read_body(f, seen.headers)
            text = self.echoed(e.body["message"]) + "\n"
            return self._send(s, seen, e.status, e.headers, text.encode())
        if not now:
            if seen.method == "POST":
                egress.read_body(f, seen.headers)
            to = "https://%s/%s.git/%s%s" % (
                seen.host, r.name, what,
                "?" + seen.query if seen.query else "")
            return self._send(s, seen, 301, {"Location": to}, b"moved\n")
        if what.startswith("info/lfs"):
            seen.body = egress.read_body(f, seen.headers)
            return self._lfs(s, seen, r)
        if self.kept is not None and what == "git-upload-pack":
            return self._again(s, f, seen, r)
        return self._backend(s, f, seen, r, what)

    def _may_git(self, seen, r, push):
        """git asks without a credential first, and again when told to"""
        if not seen.auth:
            if r is None or r.private or push:
                raise Refuse(401, "Repository not found.", {
                    "WWW-Authenticate": 'Basic realm="GitHub"'})
            return
        if seen.auth != "basic" or seen.user != "x-access-token":
            raise Refuse(401, "Invalid username or token.")
        t = self._token(seen)
        if r is None or r.private and not t.reaches(r):
            raise Refuse(404, "Repository not found.")
        level = "write" if push else "read"
        if (r.private or push) and not (t.reaches(r) and t.can(
                r, [("contents", level)])):
            raise Refuse(403, "Write access to repository not granted.")

    def _lfs(self, s, seen, r):
        """what a batch answer holds: credentials of other hosts"""
        try:
            objects = json.loads(seen.body)["objects"]
        except (ValueError, KeyError):
            return self._send(s, seen, 422, {}, {"message": "bad batch"})
        return self._send(s, seen, 200, {}, {"transfer": "basic", "objects": [
            {"oid": o["oid"], "size": o["size"], "authenticated": True,
             "actions": {"download": {
                 "href": "https://media.example/%s?sig=%s" % (
                     o["oid"], self.trap),
                 "header": {"Authorization": "RemoteAuth " + self.trap}}}}
            for o in objects]})

    def _again(self, s, f, seen, r):
        """as it was framed for who asked the same before"""
        body = egress.read_body(f, seen.headers)
        key = r.path, re.sub(rb"....(agent|session-id)=[^\n]*\n", b"", body)
        if key not in self.kept:
            path = os.path.join(self.dir, "kept%d" % len(self.kept))
            with open(path, "wb") as out:
                out.sendall = out.write
                self._backend(out, io.BytesIO(body), seen, r,
                              "git-upload-pack")
            self.kept[key] = path
        with open(self.kept[key], "rb") as e:
            while data := e.read(1 << 20):
                s.sendall(data)
        seen.status = 200
        return True

    def _backend(self, s, f, seen, r, what):
        h = seen.headers
        env = dict(self.env(), GIT_PROJECT_ROOT=r.path, GIT_HTTP_EXPORT_ALL="1",
                   PATH_INFO="/" + what, REQUEST_METHOD=seen.method,
                   QUERY_STRING=seen.query, REMOTE_ADDR="127.0.0.1",
                   CONTENT_TYPE=h.get("content-type", ""),
                   HTTP_CONTENT_ENCODING=h.get("content-encoding", ""))
        if seen.auth:
            env["REMOTE_USER"] = "x-access-token"
        if h.get("git-protocol"):
            env["GIT_PROTOCOL"] = h["git-protocol"]
        p = subprocess.Popen(["git", "http-backend"], env=env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        up = threading.Thread(target=self._upload, args=(f, h, p.stdin, seen),
                              daemon=True)
        up.start()
        try:
            return self._download(s, seen, p)
        finally:
            p.stdout.close()
            if p.poll() is None and seen.status == 0:
                p.kill()
            p.wait(60)
            up.join(60)

    @staticmethod
    def _upload(f, headers, to, seen):
        """the body of a request to the program"""
        n, seen.sent = 0, 0
        try:
            if headers.get("transfer-encoding", "").lower() == "chunked":
                while True:
                    n = int(f.readline().split(b";")[0], 16)
                    left = n
                    while left:
                        data = f.read(min(left, BLOCK))
                        left -= len(data)
                        to.write(data)
                        seen.sent += len(data)
                    f.readline()
                    if n == 0:
                        break
            else:
                left = int(headers.get("content-length", 0))
                while left:
                    data = f.read(min(left, BLOCK))
                    if not data:
                        break
                    left -= len(data)
                    to.write(data)
                    seen.sent += len(data)
        except (OSError, ValueError):
            pass    # whoever sent it has gone, or the program has
        finally:
            try:
                to.close()
            except OSError:
                pass    # the program was told of its end already

    def _download(self, s, seen, p):
        """what the program answers"""
        status, headers = 200, {}
        while True:
            line = p.stdout.readline().decode("latin-1").strip()
            if not line:
                break
            k, _, v = line.partition(": ")
            if k == "Status":
                status = int(v.split()[0])
            else:
                headers[k] = v
        headers["Set-Cookie"] = "_gh_sess=%s; secure" % self.trap
        headers["Transfer-Encoding"] = "chunked"
        s.sendall(("HTTP/1.1 %d X\r\n" % status + "".join(
            "%s: %s\r\n" % kv for kv in headers.items()) + "\r\n").encode())
        while True:
            data = p.stdout.read1(BLOCK)
            if not data:
                break
            s.sendall(b"%x\r\n" % len(data) + data + b"\r\n")
            time.sleep(self.pace)
        s.sendall(b"0\r\n\r\n")
        seen.status = status
        return True

    def close(self):
        self.up.close()
        if self.description:
            self.description.close()
        shutil.rmtree(self.dir, ignore_errors=True)
