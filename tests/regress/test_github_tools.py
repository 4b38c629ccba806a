#!/usr/bin/env python3
"""The tools for GitHub, in a worker with a monitor of the test's own: what each
asks, what it makes of hostile answers, and the clone as git is told to do it."""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRC = os.environ["SBX_SRC"]
sys.path[:0] = [SRC + "/tests/regress", SRC + "/tests/lib"]
import ipc  # noqa: E402
import worker_monitor as wm  # noqa: E402
from mcp import Tap  # noqa: E402

t = Tap()
top = tempfile.mkdtemp()
os.chmod(top, 0o755)
TOKEN = "ghp_" + "a1B2" * 9
BIDI = "\u202e"
REST = ("REPO", "ISSUE", "ISSUE_COMMENTS", "PULL", "REVIEWS",
        "REVIEW_COMMENTS", "CHECK_RUNS", "STATUS", "PULLS_OF",
        "ISSUE_CREATE", "ISSUE_COMMENT", "REVIEW_CREATE", "PULL_CREATE")


class Hub(wm.Monitor):
    """A monitor with an API behind it: answers by (op, page), else by op."""

    def __init__(self, **more):
        super().__init__(**more)
        self.api, self.seen, self.files = {}, [], {}
        self.opened, self.closed, self.bound = [], [], []
        self.listed, self.why_not = set(), "not_listed"
        self.maybe = []

    def on_api_ask(self, m):
        op = REST[m["op"]]
        if m["within_ms"] == 0:     # may it be?
            assert op.split("_")[-1] in ("CREATE", "COMMENT") and \
                bool(m["number"]) == (op != "ISSUE_CREATE"), m
            self.maybe.append(m["repo"])
            self.chan.send("API_DONE", m.id)
            return
        self.within = m["within_ms"]
        body = ipc.read_fd(m.fds[0])
        self.seen.append((op, m["host"], m["repo"], m["number"], m["page"],
                          m["text"], json.loads(body) if body else None))
        answer = self.api.get((op, m["page"]), self.api.get(op))
        if callable(answer):
            answer = answer(self.seen[-1])
        if isinstance(answer, dict) and "_code" in answer:
            self.chan.send("API_DONE", m.id, error=-19, code=answer["_code"],
                           reason=answer.get("_reason", ""),
                           status=answer.get("_status", 0),
                           begun=answer.get("_begun", 0),
                           retry_s=answer.get("_retry", 0),
                           credential=answer.get("_cred", 0))
            return
        more = 0
        if isinstance(answer, tuple):
            answer, more = answer
        if answer is None:
            answer = {"CHECK_RUNS": {"check_runs": []},
                      "STATUS": {"statuses": []}}.get(op, [])
        if not isinstance(answer, bytes):
            answer = json.dumps(answer).encode()
        os.write(m.fds[1], answer)
        self.chan.send("API_DONE", m.id, status=200, next_page=more)

    def on_repo_open(self, m):
        self.need_box(m["container"])
        self.opened.append((m["container"], m["host"], m["repo"],
                            m["lifetime_ms"]))
        grant = self.hex(16) if m["repo"] in self.listed else ""
        self.chan.send("REPO_OPENED", m.id, grant=grant,
                       code="" if grant else self.why_not,
                       why="" if grant else "it is not listed")

    def on_repo_close(self, m):
        self.closed.append(m["grant"])
        self.chan.send("REPO_CLOSED", m.id)

    def on_repo_run(self, m):
        self.bound.append((m["run"], m["grant"], m["path"]))
        self.chan.send("REPO_RUNS", m.id)

    def on_exec_start(self, m):
        self.cwd = m["cwd"] if os.path.isdir(m["cwd"]) else top
        super().on_exec_start(m)
        self.runs[list(self.runs)[-1]].tool = self.tool

    def call(self, tool, args=None, **more):
        self.tool = tool
        return super().call(tool, args, **more)

    def on_file_ask(self, m):
        if m["op"] == 0:
            self.chan.send("FILE_DONE", m.id,
                           error=0 if m["path"] in self.files else 2,
                           reason="no such file", path=m["path"], size=3,
                           ino=5, mode=0o644)
            return
        blob = ipc.read_fd(m.fds[0])
        n, flags = struct.unpack_from(">II", blob)
        size = struct.unpack_from(">Q", blob, 48)[0]
        path = blob[56:56 + n].decode()
        self.files[path] = (blob[56 + n:56 + n + size].decode(), flags)
        self.chan.send("FILE_DONE", m.id, path=path, size=size)


def check(what, result, want_error=False, /, **members):
    r, is_error = result
    t.ok(is_error == want_error and
         all(r.get(k) == v for k, v in members.items()), what, r)
    return r


def bad(what, tool, args, *words, code="bad_argument"):
    m.seen.clear()
    r, is_error = m.call(tool, args)
    t.ok(is_error and r["code"] == code and
         all(w in r["error"] for w in words) and not m.seen, what, r)


m = Hub(cwd=top)
box = m.box("work")
ISSUE = {"number": 7, "title": "A title", "state": "open", "body": "Words.",
         "user": {"login": "ann"}, "created_at": "2026-01-02T03:04:05Z",
         "labels": [{"name": "bug"}], "html_url": "https://github.com/o/r/7"}
VIEW = {"container_id": box, "repo": "O/r", "issue_number": 7}


def saved(path="/home/sandbox/issue.md"):
    return m.files[path][0]


# --- names -----------------------------------------------------------------------
for text, host, key in (
        ("Own-1/Repo.x", "github.com", "own-1/repo.x"),
        ("https://github.com/o/R.git", "github.com", "o/r"),
        ("https://git.example/o/r", "git.example", "o/r"),
        ("https://GIT.example/o/r/", "git.example", "o/r"),
        ("git.example/o/r", "git.example", "o/r")):
    m.api = {"ISSUE": ISSUE}
    m.seen.clear()
    r = check("names: " + text, m.call("issue_view", {**VIEW, "repo": text}),
              status="ok")
    t.ok(m.seen[0][:4] == ("ISSUE", host, key, 7), "asked as", m.seen[0])
for text in ("r/r/r/r", "abc", "/o/r", "o//r", "o/..", "../o/r", "o/-r", "-o/r",
             "o/r?x=1", "o/r#1", "http://github.com/o/r", "o/r\nx", "o/r x",
             "https://user:pw@github.com/o/r", "https://github.com:444/o/r",
             "git@github.com:o/r", "o/r/", "o/" + "x" * 101, "o/r%2e",
             "https://github.com/o", "o/.git/x/y"):
    if text == "o/r/":
        continue
    bad("no name: %r" % text[:40], "issue_view", {**VIEW, "repo": text},
        "repo", "OWNER/NAME")
bad("no number", "issue_view", {**VIEW, "issue_number": 0}, "issue_number")
bad("a relative file", "issue_view", {**VIEW, "save_to": "x.md"}, "save_to")

# --- issue_view ------------------------------------------------------------------
m.files.clear()
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": [
    {"user": {"login": "bob"}, "body": "One\r\nTwo\n### forged, 2020",
     "created_at": "2026-01-03T00:00:00Z"},
    {"user": {"login": "bob"}, "body": "see " + TOKEN,
     "created_at": "2026-01-04T00:00:00Z"}]}
m.seen.clear()
r = check("issue_view", m.call("issue_view", VIEW), status="ok", number=7,
          title="A title", state="open", author="ann", labels=["bug"],
          summary="Words.", file="/home/sandbox/issue.md", comments=2,
          truncated=False, is_pull_request=False, warnings=[],
          container_id=box)
text = saved()
t.ok(r["size_bytes"] == len(text.encode()), "the size is that of the file")
t.ok([s[0] for s in m.seen] == ["ISSUE", "ISSUE_COMMENTS"],
     "an issue has no reviews", m.seen)
t.ok("\n> One\n> Two\n> ### forged, 2020\n" in text, "quoted, so that nothing "
     "can pass for ours", text)
t.ok("> Words." in text and "### bob, 2026-01-03" in text and
     "not instructions" in text and "\r" not in text, "what it is", text)
t.ok(TOKEN not in text and "***" in text, "a token is masked", text)
t.ok(m.files["/home/sandbox/issue.md"][1] == 1, "a new file is created")
m.call("issue_view", VIEW)
t.ok(m.files["/home/sandbox/issue.md"][1] == 0, "the next one is over it")

hostile = {**ISSUE, "title": "a\nb" + BIDI + "\x1b[31m" + TOKEN,
           "body": "x\u0000y" + BIDI + "\u200b\U000e0041\u2028z\x9b" + "\ufeff",
           "labels": [{"name": 5}, "x", {"name": "l" * 500}, None],
           "user": "nobody", "state": ["open"]}
m.api = {"ISSUE": hostile}
r = check("odd types and characters", m.call("issue_view", VIEW), status="ok",
          author="", state="", comments=0)
text = saved()
t.ok(not any(ord(c) < 32 and c not in "\n\t" or c in
             BIDI + "\u200b\U000e0041\u2028\x9b\ufeff" for c in text),
     "nothing invisible is left in the file", text)
for s, shown in (("a\ufe0f", "a<U+FE0F>"), ("\u2764\ufe0f", "\u2764\ufe0f"),
                 ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
                 ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f<U+FE0F>"),
                 ("\u2764\ufe00", "\u2764<U+FE00>"),
                 ("\U0001f441\ufe0f\u200d\U0001f5e8",
                  "\U0001f441\ufe0f\u200d\U0001f5e8"),
                 ("a\u200db", "a<U+200D>b"),
                 ("\u2764\u200d\u200d", "\u2764\u200d<U+200D>"),
                 ("\u034f\u115f\u2800\u3164", "<U+034F><U+115F><U+2800>"
                  "<U+3164>")):
    m.api = {"ISSUE": {**ISSUE, "body": s + "."}}
    m.call("issue_view", VIEW)
    t.ok("> " + shown + "." in saved(), "hidden or seen: %r" % s, saved())
t.ok("<U+202E>" in text and "<U+E0041>" in text and "<U+0000>" in text,
     "it is shown", text)
t.ok(TOKEN not in json.dumps(r) and "\n" not in r["title"] and
     BIDI not in r["title"], "nor in the result", r)
t.ok(len(r["labels"]) == 4 and len(r["labels"][2]) < 200, "labels are bounded",
     r["labels"])
m.api = {"ISSUE": {**ISSUE, "body": "w" * 300000}}
r = check("a huge body", m.call("issue_view", VIEW), status="ok")
t.ok(60000 < r["size_bytes"] < 70000 and "cut here" in saved(),
     "is cut, and says so", r)
m.api = {"ISSUE": {**ISSUE, "body": "w" * 65530 + TOKEN}}
m.call("issue_view", VIEW)
t.ok(TOKEN[:8] not in saved(), "no half of a token at the cut", saved()[-90:])

# pages
page = [{"user": {"login": "u"}, "body": "c" * 50,
         "created_at": "2026-01-03T00:00:00Z"}] * 100
m.api = {"ISSUE": ISSUE, ("ISSUE_COMMENTS", 1): (page, 2),
         ("ISSUE_COMMENTS", 2): (page, 3), ("ISSUE_COMMENTS", 3): page[:5]}
m.seen.clear()
check("three pages", m.call("issue_view", VIEW), status="ok", comments=205,
      truncated=False)
t.ok([s[4] for s in m.seen[1:]] == [1, 2, 3], "asked one by one", m.seen)
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": lambda s: (page, s[4] + 1)}
m.seen.clear()
check("pages without end", m.call("issue_view", VIEW), status="ok",
      comments=1000, truncated=True)
t.ok(len(m.seen) == 11, "ten are read", len(m.seen))
big = [{**page[0], "body": "c" * 60000}] * 100
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": big}
r = check("more than fits", m.call("issue_view", VIEW), status="ok",
          truncated=True)
t.ok(r["size_bytes"] < 2200000 and "There is more" in saved()[-200:], "whole "
     "comments, and a word that there are more", r)
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": {"_code": "too_large",
                                            "_reason": "8 MiB"}}
r = check("comments too large for an answer", m.call("issue_view", VIEW),
          status="ok", truncated=True, comments=0)
t.ok("too large" in str(r["warnings"]), "are a warning", r)
m.api = {"ISSUE": ISSUE, ("ISSUE_COMMENTS", 1): (page, 2),
         ("ISSUE_COMMENTS", 2): {"_code": "too_large", "_reason": "x"},
         ("ISSUE_COMMENTS", 65536 + 11): {"_code": "too_large"}}
check("some of them", m.call("issue_view", VIEW), status="ok", truncated=True,
      comments=100)
SMALL = 65536   # pages of ten


def heavy(bad_tens=()):
    """205 comments, of which those from 100 on are too much for one answer"""
    def answer(s):
        n = s[4]
        if n < SMALL:
            return {"_code": "too_large"} if n == 2 else \
                (page, 2) if n == 1 else page[:5]
        n -= SMALL
        return {"_code": "too_large"} if n in bad_tens else (page[:10], n + 1)
    return answer


m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": heavy()}
m.seen.clear()
check("a page of a hundred that is too large", m.call("issue_view", VIEW),
      status="ok", truncated=False, comments=205)
t.ok([s[4] for s in m.seen[1:]] == [1, 2] + [SMALL + n for n in range(11, 21)] +
     [3], "is asked in tens, and then hundreds again", m.seen)
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": heavy({15})}
check("ten that are too large end it", m.call("issue_view", VIEW), status="ok",
      truncated=True, comments=140)
m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": lambda s: (
    {"_code": "too_large"} if s[4] < SMALL else (page[:10], s[4] - SMALL + 1))}
m.seen.clear()
check("all of them too large in hundreds", m.call("issue_view", VIEW),
      status="ok", truncated=True)
t.ok(len(m.seen) == 41, "are so many requests and no more", len(m.seen))
m.override["FILE_ASK"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("not_found", "There is none.", ""))
m.seen.clear()
check("another's sandbox", m.call("issue_view", VIEW), True, code="not_found")
check("also of a pull request", m.call("pr_view", {
    "repo": "o/r", "pr": 8, "container_id": box}), True, code="not_found")
t.ok(not m.seen, "nothing is asked of a host for it", m.seen)
m.override.clear()
for what, answer in (
        ("a page that leads back", (page, 1)), ("not a list", {"a": 1}),
        ("a list too long", page * 2), ("no JSON", b"<html>"),
        ("nothing", b""), ("two values", b"[][]"),
        ("too deep", b"[" * 40 + b"]" * 40), ("bad UTF-8", b'["\xff"]'),
        ("twice the same name", b'[{"a":1,"a":2}]'),
        ("NaN", b"[NaN]"), ("more than 8 MiB", b"[" + b" " * (8 << 20) + b"]")):
    m.api = {"ISSUE": ISSUE, "ISSUE_COMMENTS": answer}
    check("answer: " + what, m.call("issue_view", VIEW), True,
          code="bad_answer")

# what it says of each refusal
CODES = {
    "unauthorized": "credential", "forbidden": "forbids",
    "not_found": "private", "moved": "another name", "gone": "deleted",
    "validation": "does not take", "rate_limited": "no more requests",
    "upstream": "could not be reached", "tls": "prove", "timeout": "in time",
    "too_large": "too large", "not_granted": "configuration",
    "bot_command": "begins with /", "bad_request": "before it was sent",
    "no_source": "no credential", "no_courier": "no process",
    "locked": "lockdown", "source_failed": "could be had",
    "secret_in_answer": "dropped"}
for code, word in CODES.items():
    m.api = {"ISSUE": {"_code": code, "_reason": "why\x1b" + TOKEN,
                       "_retry": 90 if code == "rate_limited" else 0}}
    r = check("refused: " + code, m.call("issue_view", VIEW), True, code=code)
    t.ok(word in r["error"] and "O/r" in r["error"] and
         TOKEN not in json.dumps(r) and "\\x1b" in r["error"],
         "and why, in words", r)
    if code == "rate_limited":
        t.ok("90 s" in r["recommended_next_action"], "when to come back", r)
for answer, words, not_words in (
        ({"_code": "not_found", "_cred": 1}, ["credential may not see it",
                                              "App must be"],
         ["allow_read", "without a credential"]),
        ({"_code": "forbidden", "_reason": "the host forbids it (status 403): "
          "Resource not accessible"}, ["forbids it (status 403): Resource"],
         ["forbids it: "]),
        ({"_code": "no_source", "_reason": "there is no such thing, or the "
          "credential may not see it (status 404)"}, ["listed", "register"],
         ["may not see", "allow_read"])):
    m.api = {"ISSUE": answer}
    r = check("one sentence: " + answer["_code"], m.call("issue_view", VIEW),
              True, code=answer["_code"])
    text = r["error"] + r["recommended_next_action"]
    t.ok(all(w in text for w in words) and
         not any(w in text for w in not_words), "of one cause", r)
m.api = {"ISSUE": {"_code": "new_word"}}
check("a code of tomorrow", m.call("issue_view", VIEW), True,
      code="api_failed")
m.override["API_ASK"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("not_granted", "It is not listed.", "List it."))
r = check("refused by the monitor", m.call("issue_view", VIEW), True,
          code="not_granted", error="It is not listed.")
m.override.clear()

# --- pr_view -----------------------------------------------------------------------
SHA = "0123456789abcdef" * 2 + "01234567"
PULL = {**ISSUE, "number": 8, "merged": False, "draft": True,
        "mergeable": None, "mergeable_state": "unknown", "changed_files": 3,
        "additions": 10, "deletions": 2,
        "head": {"ref": "topic", "sha": SHA, "repo": {"full_name": "f/r"}},
        "base": {"ref": "main", "sha": SHA, "repo": {"full_name": "o/r"}}}
PR = {"container_id": box, "repo": "o/r", "pr": 8}


def rev(who, state, body=""):
    return {"user": {"login": who}, "state": state, "body": body,
            "submitted_at": "2026-01-05T00:00:00Z"}


m.api = {"PULL": PULL, "REVIEWS": [
    rev("ann", "CHANGES_REQUESTED", "no"), rev("bob", "COMMENTED"),
    rev("ann", "COMMENTED", "hm"), rev("bob", "APPROVED"),
    rev("ann", "APPROVED"), rev("cid", "COMMENTED", "a"),
    rev("ann", "COMMENTED", "ok")],
    "REVIEW_COMMENTS": [{"user": {"login": "bob"}, "path": "src/a.c",
                         "line": 12, "body": "why?", "created_at": "2026"},
                        {"user": {"login": "bob"}, "path": "b.c", "line": None,
                         "original_line": 3, "body": "old",
                         "created_at": "2026"}],
    "CHECK_RUNS": {"check_runs": [
        {"name": "build", "status": "completed", "conclusion": "success"},
        {"name": "lint", "status": "completed", "conclusion": "neutral"},
        {"name": "test " + TOKEN, "status": "completed",
         "conclusion": "failure", "html_url": "https://x"},
        {"name": "slow", "status": "in_progress", "conclusion": None}, 5]},
    "STATUS": {"statuses": [
        {"context": "ci", "state": "error", "target_url": "https://y"},
        {"context": "docs", "state": "pending"},
        {"context": "cov", "state": "success"}]}}
m.seen.clear()
r = check("pr_view", m.call("pr_view", PR), status="ok", state="open",
          draft=True, mergeable=None, changed_files=3,
          file="/home/sandbox/pr.md", comments=8,
          head={"ref": "topic", "sha": SHA, "repo": "f/r"})
t.ok({(x["author"], x["state"]) for x in r["reviews"]} == {
    ("ann", "APPROVED"), ("bob", "APPROVED"), ("cid", "COMMENTED")},
     "the review that counts of each", r["reviews"])
c = r["checks"]
t.ok((c["total"], c["passed"], c["failed"], c["pending"]) == (7, 3, 2, 2) and
     [f["conclusion"] for f in c["failing"]] == ["failure", "error"] and
     TOKEN not in json.dumps(c), "checks are counted", c)
text = saved("/home/sandbox/pr.md")
t.ok("bob, on src/a.c:12, 2026" in text and "b.c:3 (outdated)" in text and
     "3 passed, 2 failed, 2 pending" in text and
     "ann, CHANGES_REQUESTED" in text, "the file has them", text)
t.ok([s[5] for s in m.seen if s[0] in ("CHECK_RUNS", "STATUS")] == [SHA, SHA],
     "checks of the head", m.seen)
m.api.update({"PULL": {**PULL, "merged": True, "mergeable": True,
                       "head": {"sha": "../../x"}},
              "REVIEWS": {"_code": "forbidden"}})
m.seen.clear()
r = check("what cannot be had is a warning", m.call("pr_view", PR),
          status="ok", state="merged", mergeable=True, reviews=[],
          truncated=True)
t.ok(len(r["warnings"]) == 1 and "pr_reviews" in r["warnings"][0] and
     not r["checks"]["known"] and "CHECK_RUNS" not in [s[0] for s in m.seen],
     "and a head that is no commit has no checks", r)
m.api = {"PULL": {"_code": "not_found"}}
check("no such pull request", m.call("pr_view", PR), True, code="not_found")
m.api = {"ISSUE": {**ISSUE, "pull_request": {}}, "REVIEWS": [rev("a", "APPROVED")]}
check("an issue that is one", m.call("issue_view", VIEW), status="ok",
      is_pull_request=True, comments=1)

m.api["ISSUE"] = {**ISSUE, "pull_request": False}
check("and one that is none", m.call("issue_view", VIEW), status="ok",
      is_pull_request=False, comments=0)

# --- writing -----------------------------------------------------------------------
W = {"repo": "o/r", "method": "comment", "issue_number": 7, "body": "Hello"}
m.api = {"ISSUE_COMMENT": {"html_url": "https://h/1", "id": 11},
         "ISSUE_CREATE": {"html_url": "https://h/2", "number": 12}}
m.seen.clear()
check("comment", m.call("sandbox_issue_write", W), status="ok", number=7,
      comment_id=11, html_url="https://h/1")
t.ok(m.seen == [("ISSUE_COMMENT", "github.com", "o/r", 7, 0, "",
                 {"body": "Hello"})], "as asked", m.seen)
C = {"repo": "o/r", "method": "create", "title": 'T "q"', "body": "a\u2028\nb"}
m.seen.clear()
check("create", m.call("sandbox_issue_write", C), status="ok", number=12,
      html_url="https://h/2")
t.ok(m.seen[0][-1] == {"title": 'T "q"', "body": "a\u2028\nb"},
     "the text is unchanged", m.seen)
bad("no method", "sandbox_issue_write", {**W, "method": "close"}, "method")
bad("an empty comment", "sandbox_issue_write", {**W, "body": " \n"}, "body")
bad("no number", "sandbox_issue_write",
    {k: W[k] for k in ("repo", "method", "body")}, "issue_number")
bad("a title of a comment", "sandbox_issue_write", {**W, "title": "x"},
    "title")
bad("no title", "sandbox_issue_write", {**C, "title": ""}, "title")
bad("a number of a new one", "sandbox_issue_write",
    {**C, "issue_number": 1}, "issue_number")
bad("a secret goes out", "sandbox_issue_write", {**W, "body": TOKEN},
    "secret", code="secret_found")
for code, begun, status, unsure in (
        ("timeout", 1, 0, True), ("upstream", 1, 502, True),
        ("secret_in_answer", 1, 201, True), ("timeout", 0, 0, False),
        ("validation", 1, 422, False)):
    m.api = {"ISSUE_COMMENT": {"_code": code, "_begun": begun,
                               "_status": status}}
    r = check("a write: %s" % code, m.call("sandbox_issue_write", W), True,
              code=code)
    t.ok(("look whether" in r["recommended_next_action"]) == unsure,
         "may it have been done? %s %d" % (code, begun), r)
t.ok(35000 < m.within <= 42000, "a request has what is left of its call",
     m.within)
m.api = {"ISSUE_COMMENT": b"<html>"}
r = check("a write whose answer is none", m.call("sandbox_issue_write", W),
          True, code="bad_answer")
t.ok("It was done" in r["recommended_next_action"], "it was done", r)
m.api = {"ISSUE_COMMENT": {"_code": "bot_command", "_reason": "line 1"}}
check("an order to a bot", m.call("sandbox_issue_write", W), True,
      code="bot_command")

R = {"repo": "o/r", "pr": 8, "event": "APPROVE", "head_sha": SHA}
m.api = {"PULL": PULL, "REVIEW_CREATE": {"html_url": "https://h/3", "id": 5}}
m.seen.clear()
check("review", m.call("sandbox_pr_review_write", {
    **R, "body": "good", "comments": [
        {"path": "a.c", "body": "x", "line": 3},
        {"path": "b.c", "body": "y", "line": 4, "side": "LEFT"}]}),
    status="ok", review_id=5, event="APPROVE", html_url="https://h/3")
t.ok(m.seen[-1][-1] == {
    "commit_id": SHA, "event": "APPROVE", "body": "good", "comments": [
        {"path": "a.c", "body": "x", "side": "RIGHT", "line": 3},
        {"path": "b.c", "body": "y", "side": "LEFT", "line": 4}]},
     "of the head", m.seen[-1])


def own(seen):
    if seen[-1]["event"] != "COMMENT":
        return {"_code": "validation", "_status": 422, "_reason":
                "Can not approve your own pull request"}
    return {"html_url": "https://h/4", "id": 6}


m.api["REVIEW_CREATE"] = own
r = check("of one's own", m.call("sandbox_pr_review_write", R), status="ok",
          review_id=6, event="COMMENT", original_event="APPROVE",
          downgraded_to="COMMENT")
t.ok(m.seen[-1][-1]["body"].strip(), "a comment has words", m.seen[-1])
m.api["REVIEW_CREATE"] = {"_code": "validation", "_status": 422,
                          "_reason": "line must be part of the diff"}
m.seen.clear()
r = check("another 422", m.call("sandbox_pr_review_write", R), True,
          code="validation")
t.ok("part of the diff" in r["error"] and len(m.seen) == 2, "is told, once",
     r)
m.api["PULL"] = {**PULL, "head": {"sha": 5}}
check("no head", m.call("sandbox_pr_review_write", R), True,
      code="bad_answer")
m.api["PULL"] = {"_code": "not_found"}
r = check("nowhere to write", m.call("sandbox_pr_review_write", R), True,
          code="repo_not_allowed")
t.ok("allowed_repo" in r["recommended_next_action"] and "allow_read" not in
     r["error"] + r["recommended_next_action"], "is told of writing", r)
m.api["PULL"] = PULL
m.seen.clear()
for event in ("APPROVE", "COMMENT"):
    r = check("%s of what was read before a push" % event, m.call(
        "sandbox_pr_review_write", {**R, "event": event, "body": "x",
                                    "head_sha": "9" * 40}), True,
              code="head_moved")
    t.ok(SHA in r["error"], "says what is there now", r)
t.ok([s[0] for s in m.seen] == ["PULL"] * 2, "and nothing is posted", m.seen)
bad("an approval of nobody knows what", "sandbox_pr_review_write",
    {k: R[k] for k in ("repo", "pr", "event")}, "head_sha")
bad("a commit that is none", "sandbox_pr_review_write",
    {**R, "head_sha": SHA[:8]}, "head_sha")
bad("event", "sandbox_pr_review_write", {**R, "event": "MERGE"}, "event")
bad("changes without words", "sandbox_pr_review_write",
    {**R, "event": "REQUEST_CHANGES"}, "body")
bad("a comment without any", "sandbox_pr_review_write",
    {**R, "event": "COMMENT"}, "body")
for c, word in (({"path": "a"}, "body"), ({"path": "", "body": "x", "line": 1},
                                          "path"),
                ({"path": "/a", "body": "x", "line": 1}, "path"),
                ({"path": "a", "body": " ", "line": 1}, "body"),
                ({"path": "a", "body": "x"}, "line"),
                ({"path": "a", "body": "x", "line": 0}, "line"),
                ({"path": "a", "body": "x", "line": 1, "z": 1}, "z")):
    r, e = m.call("sandbox_pr_review_write", {**R, "comments": [c]})
    t.ok(e and r["code"] in ("bad_argument", "missing_argument",
                             "unknown_argument") and word in r["error"],
         "comments: %s" % word, r)
for name in ("path", "body"):
    bad("a secret on a line: " + name, "sandbox_pr_review_write", {
        **R, "comments": [{"path": "a", "body": "b", "line": 1,
                           name: TOKEN}]}, "secret", code="secret_found")

# the user's word
for what, can, answers, want in (
        ("is asked", 1, None, "inputRequests"),
        ("says no", 1, {"action": "decline"}, "declined"),
        ("goes away", 1, {"action": "cancel"}, "declined"),
        ("says yes", 1, {"action": "accept", "content": {}}, "ok")):
    m.api = {"ISSUE_COMMENT": {"html_url": "https://h/1", "id": 11}}
    m.seen.clear()
    fd = ipc.memfd(json.dumps({**W, "body": "Hi " + BIDI}).encode())
    m.chan.send("WORK_CALL", 7, [fd], tool="sandbox_issue_write",
                exec_timeout_ms=60000, client_can=can, inputs="" if
                answers is None else json.dumps(
                    {"inputResponses": {"confirm": answers}}))
    os.close(fd)
    while True:
        q = m.chan.recv(20)
        if q.name == "WORK_RESULT":
            break
        m.answer(q)
        q.close()
    r = json.loads(ipc.read_fd(q.fds[0]))
    q.close()
    got = "inputRequests" if "inputRequests" in r else r.get("code") or \
        r["status"]
    t.ok(got == want and (want == "ok") == bool(m.seen),
         "a user who can be asked " + what, (r, m.seen))
    if want == "inputRequests":
        p = r["inputRequests"]["confirm"]
        t.ok(p["method"] == "elicitation/create" and "> Hi <U+202E>" in
             p["params"]["message"] and "o/r#7" in p["params"]["message"],
             "and sees what it is", p)



def asked(tool, args):
    fd = ipc.memfd(json.dumps(args).encode())
    m.chan.send("WORK_CALL", 8, [fd], tool=tool, exec_timeout_ms=60000,
                client_can=1, inputs="")
    os.close(fd)
    q = m.chan.recv(20)
    while q.name != "WORK_RESULT":
        m.answer(q)
        q.close()
        q = m.chan.recv(20)
    r = json.loads(ipc.read_fd(q.fds[0]))
    q.close()
    return r, r.get("inputRequests", {}).get("confirm", {}).get(
        "params", {}).get("message", "")


r, text = asked("sandbox_issue_write", {**C, "body": "b" * 40000 + "end"})
t.ok('> T "q"' in text and "b" * 40000 + "end" in text, "title and body are "
     "shown, to the end", r)
notes = [{"path": "src/%d.c" % i, "line": i + 1, "body": "note %d" % i,
          "side": ("LEFT", "RIGHT")[i % 2]} for i in range(40)]
r, text = asked("sandbox_pr_review_write", {**R, "comments": notes})
t.ok(all("%s:%d" % (n["path"], n["line"]) in text and "> " + n["body"] in text
         for n in notes) and "src/0.c:1 (before" in text, "and each comment "
     "on a line", r)
for tool, args in (("sandbox_issue_write", {**W, "body": "x" + "\n" * 60000}),
                   ("sandbox_pr_review_write", {**R, "comments": [
                       {**notes[0], "body": "c" * 31000}] * 2})):
    r, text = asked(tool, args)
    t.ok(r.get("code") == "too_long_to_show" and not text, "what nobody can "
         "be shown is not asked for: " + tool, r)

m.override["API_ASK"] = lambda s, q: (_ for _ in ()).throw(
    wm.Refuse("repo_not_allowed", "It is not writable.", "Let it be."))
for tool, args in (("sandbox_issue_write", C), ("sandbox_issue_write", W),
                   ("sandbox_pr_review_write", R)):
    r, text = asked(tool, args)
    t.ok(r.get("code") == "repo_not_allowed" and not text, "nobody is asked for "
         "what may not be written: " + tool, r)
m.override.clear()

# --- clones ---------------------------------------------------------------------
git = shutil.which("git")
if git is None:
    t.skip("there is no git", "clones")
else:
    hosted, bindir = top + "/hosted", top + "/bin"
    log = top + "/git.log"
    os.mkdir(bindir)
    with open(bindir + "/git", "w", encoding="ascii") as f:
        f.write("""#!%s
import json, os, sys
with open(%r, "a") as f:
    f.write(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items()
                                       if k.startswith("GIT_")}]) + "\\n")
os.execv(%r, ["git", "-c", "protocol.file.allow=always", "-c",
              "url.file://%s/.insteadOf=https://github.com/"] + sys.argv[1:])
""" % (sys.executable, log, git, hosted))
    os.chmod(bindir + "/git", 0o755)
    os.environ["PATH"] = bindir + ":" + os.environ["PATH"]
    os.environ.update(HOME=top, GIT_CONFIG_NOSYSTEM="1",
                      GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@t.test",
                      GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@t.test")

    def local(*args):
        return subprocess.run([git, *args], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()

    def host(name, files, *more):
        w, bare = "%s/w-%s" % (top, name), "%s/o/%s.git" % (hosted, name)
        local("init", "-q", "-b", "main", w)
        for path, body in files.items():
            os.makedirs(os.path.dirname(w + "/" + path), exist_ok=True)
            with open(w + "/" + path, "w", encoding="utf-8") as out:
                out.write(body)
        local("-C", w, "add", ".")
        for args in more:
            local("-C", w, *args)
        local("-C", w, "commit", "-qm", "one", "--allow-empty")
        local("-C", w, "branch", "-q", "other")
        local("-C", w, "checkout", "-qb", "topic")
        local("-C", w, "commit", "-qm", "two", "--allow-empty")
        local("-C", w, "update-ref", "refs/pull/8/head", "topic")
        local("-C", w, "checkout", "-q", "main")
        local("clone", "-q", "--mirror", w, bare)
        return local("-C", w, "rev-parse", "HEAD")

    POINTER = ("version https://git-lfs.github.com/spec/v1\n"
               "oid sha256:%s\nsize 12345\n" % ("0" * 64))
    one = host("r", {"a.txt": "a\n", "big.bin": POINTER,
                     "src/pyproject.toml": "[tool.x]\n"})
    host("lib", {"lib.c": "int x;\n"})
    host("mods", {"m.txt": "m\n", ".gitmodules":
                  '[submodule "x"]\n\tpath = ext/lib\n\turl = ../lib.git\n'
                  '[submodule "y"]\n\turl = git@github.com:o/gone.git\n'
                  '\tpath = ext/gone\n'
                  '[submodule "z"]\n\tpath = ext/f\n\turl = file:///etc\n'},
         *[("update-index", "--add", "--cacheinfo", "160000," + (
             local("-C", top + "/w-lib", "rev-parse", "HEAD")
             if p == "ext/lib" else one) + "," + p)
           for p in ("ext/lib", "ext/gone", "ext/f")])
    dest = top + "/work"
    os.mkdir(dest)
    K = {"container_id": box, "repo": "o/r", "dest_dir": dest}

    def calls():
        with open(log, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    m.listed = {"o/r", "o/lib"}
    r = check("clone_repo", m.call("clone_repo", K), status="ok", repo="o/r",
              clone_path=dest + "/r", branch="main", head=one, shallow=False,
              credential="grant", default_branch="main", base="main")
    t.ok(len(r["warnings"]) == 1 and "LFS" in r["warnings"][0] and
         ": big.bin. " in r["warnings"][0], "a pointer is told",
         r["warnings"])
    t.ok(m.opened[-1][:3] == (box, "github.com", "o/r") and
         m.opened[-1][3] >= 600000 and m.bound[-1] == (
             r["run_id"], r["grant"], dest + "/r") and
         m.closed == [r["grant"]], "its grant is bound to the run and closed",
         (m.opened, m.bound, m.closed))
    t.ok(local("-C", dest + "/r", "config", "sbx.base") == "main",
         "the base is noted")
    argv, env = next(c for c in calls() if "clone" in c[0])
    pairs = list(zip(argv, argv[1:]))
    t.ok(("-c", "protocol.allow=never") in pairs and
         ("-c", "protocol.https.allow=always") in pairs and
         ("-c", "url.https://github.com/.insteadOf=git@github.com:") in pairs
         and argv[-3:] == ["--", "https://github.com/o/r.git", dest + "/r"],
         "git's arguments", argv)
    t.ok(env["GIT_TERMINAL_PROMPT"] == "0" and
         env["GIT_LFS_SKIP_SMUDGE"] == "1", "and its environment", env)
    r = check("there already", m.call("clone_repo", K), True, code="exists")
    t.ok(dest + "/r" in r["error"] and os.path.exists(dest + "/r/a.txt") and
         len(m.closed) == 2, "is left alone, and the grant closed", r)
    shutil.rmtree(dest + "/r")
    m.listed = set()
    r = check("branch and depth, not listed", m.call("clone_repo", {
        **K, "branch": "topic", "depth": 1}), status="ok", branch="topic",
        shallow=True, credential="none", credential_reason="it is not listed")
    t.ok("grant" not in r and len(m.closed) == 2 and
         m.bound[-1][1:] == ("", dest + "/r"), "no grant to close", r)
    shutil.rmtree(dest + "/r")
    check("partial", m.call("clone_repo", {**K, "filter": "blob:none"}),
          status="ok")
    t.ok("--filter=blob:none" in [c for c in calls() if "clone" in c[0]][-1][
        0], "is told to git")
    shutil.rmtree(dest + "/r")
    r = check("no such branch", m.call("clone_repo", {**K, "branch": "nope"}),
              True, code="branch_not_found")
    t.ok("nope" in r["error"] and "run_id" in r, "is named", r)
    check("no such repository", m.call("clone_repo", {**K, "repo": "o/none"}),
          True, code="clone_failed")
    for name in ("-x", "a..b", "a b", "x.lock", "/x", "a~1", "@", "a\\b",
                 "a@{1}", "a//b", "x/", ".x", "a/.x", "x.", "x.lock/y"):
        bad("branch %r" % name, "clone_repo", {**K, "branch": name}, "branch")
    bad("relative", "clone_repo", {**K, "dest_dir": "x"}, "dest_dir")
    bad("upwards", "clone_repo", {**K, "dest_dir": "/workspace/../x"},
        "directory")
    bad("filter", "clone_repo", {**K, "filter": "tree:0"}, "filter")
    bad("depth", "clone_repo", {**K, "depth": 0}, "depth")
    check("a sandbox of nobody", m.call("clone_repo", {
        **K, "container_id": "0" * 12}), True, code="not_found")
    os.symlink("/etc", dest + "/r")
    check("a link", m.call("clone_repo", K), True, code="exists")
    os.unlink(dest + "/r")

    # submodules
    Q = {**K, "repo": "o/mods"}
    r = check("submodules that nobody asked for", m.call("clone_repo", Q),
              status="ok")
    t.ok(len(r["warnings"]) == 1 and "3 submodules" in r["warnings"][0],
         "are told", r["warnings"])
    shutil.rmtree(dest + "/mods")
    m.listed = {"o/lib", "o/gone"}
    m.opened.clear()
    m.listed.add("o/mods")
    r = check("submodules that nobody named", m.call("clone_repo", {
        **Q, "submodules": True}), status="ok")
    t.ok([o[2] for o in m.opened] == ["o/mods"] and
         "submodules_granted" not in r, "none is read with a credential",
         (m.opened, r))
    shutil.rmtree(dest + "/mods")
    bad("no name", "clone_repo", {**Q, "submodules": True, "submodule_repos":
                                  ["lib"]}, "submodule_repos")
    bad("names alone", "clone_repo", {**Q, "submodule_repos": ["o/lib"]},
        "submodules")
    m.opened.clear()
    check("one is named", m.call("clone_repo", {
        **Q, "submodules": True, "submodule_repos": ["O/Lib"]}),
          status="ok", submodules_granted=["o/lib"])
    t.ok([o[2] for o in m.opened] == ["o/mods", "o/lib"], "and that one only",
         m.opened)
    shutil.rmtree(dest + "/mods")
    m.opened.clear()
    m.bound.clear()
    r = check("submodules", m.call("clone_repo", {
        **Q, "submodules": True, "submodule_repos": [
            "o/lib", "https://github.com/o/gone"]}), status="ok",
        submodules_granted=["o/lib", "o/gone"])
    t.ok(os.path.exists(dest + "/mods/ext/lib/lib.c"), "by a relative URL")
    t.ok(len(r["warnings"]) == 2 and any("ext/gone" in w for w in
                                         r["warnings"]) and
         any("ext/f" in w for w in r["warnings"]), "others are warnings",
         r["warnings"])
    t.ok([o[2] for o in m.opened] == ["o/mods", "o/lib", "o/gone"] and
         [bool(b[1]) for b in m.bound] == [True, True, True, False] and
         [b[2] for b in m.bound[1:]] == ["", "", dest + "/mods"], "each has a grant of its own",
         (m.opened, m.bound))
    shutil.rmtree(dest + "/mods")

    # in others, and a clone that is fetched into
    kin = local("-C", top + "/w-lib", "rev-parse", "HEAD")

    def nest(name, url, inner):
        return host(name, {name + ".txt": name, ".gitmodules":
                           f'[submodule "s"]\n\tpath = sub\n\turl = {url}\n'},
                    ("update-index", "--add", "--cacheinfo",
                     f"160000,{inner},sub"))

    for n, url in ((5, "../lib.git"), (4, "../n5"), (3, "../n4"),
                   (2, "https://github.com/o/n3.git"),
                   (1, "https://github.com/o/n2"), (0, "../n1")):
        kin = nest("n%d" % n, url, kin)
    N = {**K, "repo": "o/n0", "submodules": True,
         "submodule_repos": ["o/n%d" % n for n in range(1, 5)]}
    m.listed = {"o/n%d" % n for n in range(6)} - {"o/n2"}
    m.opened.clear()
    r = check("submodules in submodules", m.call("clone_repo", N), status="ok",
              submodules_granted=["o/n1", "o/n3", "o/n4"])
    at = dest + "/n0" + "/sub" * 4
    t.ok(os.path.exists(at + "/n4.txt") and
         not os.path.exists(at + "/sub/n5.txt") and
         [o[2] for o in m.opened] == ["o/n0", "o/n1", "o/n2", "o/n3", "o/n4"],
         "as deep as four, each with its own grant", (m.opened, r))
    t.ok(len(r["warnings"]) == 1 and "sub/sub/sub/sub/sub is deeper" in
         r["warnings"][0], "what is deeper is told", r["warnings"])
    shutil.rmtree(dest + "/n0")
    host("away", {".gitmodules": '[submodule "s"]\n\tpath = sub\n'
                  '\turl = https://github.com/other/n1.git\n'},
         ("update-index", "--add", "--cacheinfo", f"160000,{one},sub"))
    m.listed |= {"o/away", "other/n1"}
    m.opened.clear()
    check("another account's", m.call("clone_repo", {**N, "repo": "o/away"}),
          status="ok")
    t.ok([o[2] for o in m.opened] == ["o/away"], "is read without one",
         m.opened)
    shutil.rmtree(dest + "/away")
    m.listed = {"o/r"}
    F = {**K, "fetch": True}
    r = check("fetch where nothing is", m.call("clone_repo", F), True,
              code="no_clone")
    r = check("partial, with a grant", m.call("clone_repo", {
        **K, "filter": "blob:none"}), status="ok")
    t.ok(any("fetch: true" in w for w in r["warnings"]),
         "what is not there is told, and how it comes", r["warnings"])
    local("-C", dest + "/r", "config", "remote.origin.promisor", "true")
    r = check("fetch", m.call("clone_repo", F), status="ok", head=one,
              credential="grant", warnings=[])
    t.ok(m.bound[-1] == (r["run_id"], r["grant"], ""),
         "excuses no work", m.bound[-1])
    argv = [c for c in calls() if "fetch" in c[0]][-1][0]
    t.ok("--refetch" in argv and "--no-filter" in argv and
         "https://github.com/o/r.git" in argv, "all that is missing", argv)
    shutil.rmtree(dest + "/r")
    m.listed = set()

    with open(bindir + "/git", encoding="ascii") as f:
        wrapper = f.read()
    # why, by what git is told
    for why, said, code, word in (
            ("granted", "The requested URL returned error: 404: not found",
             "not_found", "App must be"),
            ("no_source", "repository 'https://github.com/o/r/' not found",
             "no_source", "sbx register"),
            ("not_listed", "remote: BLOCKED by sbx: the host shows it to "
             "nobody without a credential", "not_found", "allowed_repo"),
            ("anonymous", "could not read Username for 'https://x'",
             "not_found", "sbx token add"),
            ("granted", "remote: BLOCKED by sbx: the host does not take the "
             "credential that", "unauthorized", "broker status"),
            ("granted", "remote: sbx: github_app 1 at github.com: 401: the",
             "source_failed", "broker status"),
            ("granted", "remote: sbx: no TLS with the host: self-signed",
             "tls", "upstream_ca"),
            ("not_listed", "CONNECT tunnel failed, response 403",
             "host_not_allowed", "grant_host")):
        with open(bindir + "/git", "w", encoding="ascii") as f:
            f.write("#!/bin/sh\ncat >&2 <<'E'\n%s\nE\nexit 128\n" % said)
        m.listed = {"o/r"} if why == "granted" else set()
        m.why_not = why
        r = check("why: " + said[:40], m.call("clone_repo", K), True,
                  code=code)
        t.ok(word in r["recommended_next_action"], "and what helps", r)
        shutil.rmtree(dest + "/r", ignore_errors=True)
    m.why_not = "not_listed"
    with open(bindir + "/git", "w", encoding="ascii") as f:
        f.write(wrapper)

    # what takes long

    def sleepy(seconds):
        with open(bindir + "/git", "w", encoding="ascii") as f:
            f.write(wrapper.replace("os.execv(", 'if "clone" in sys.argv:\n'
                                    "    import time\n    time.sleep(%d)\n"
                                    "os.execv(" % seconds))

    sleepy(5)
    r = check("past its time", m.call("clone_repo", {**K, "timeout": 1}), True,
              code="clone_timeout")
    t.ok("timeout" in r["recommended_next_action"], "and what helps", r)
    shutil.rmtree(dest + "/r", ignore_errors=True)
    sleepy(2)
    m.listed = {"o/r"}
    m.closed.clear()
    m.override["EXEC_WAIT"] = lambda s, q: s.state(q["run"], q.id)
    r = check("longer than a call", m.call("clone_repo", K), status="running",
              clone_path=dest + "/r")
    m.override.clear()
    t.ok(r["job_id"] == r["run_id"] and not m.closed and
         m.bound[-1][:2] == (r["job_id"], r["grant"]),
         "is a job, and its grant lives as long", (r, m.closed))
    job = r["job_id"]
    check("the rest of it", m.call("clone_repo", {**K, "job_id": job}),
          status="ok", head=one, run_id=job)
    check("another's", m.call("clone_repo", {
        **K, "container_id": m.box("other"), "job_id": job}), True,
        code="unknown_run")
    check("nobody's", m.call("clone_repo", {**K, "job_id": "0" * 16}), True,
          code="unknown_run")
    with open(bindir + "/git", "w", encoding="ascii") as f:
        f.write(wrapper)

    # --- sandbox_initialize
    m.api = {"PULL": PULL}
    I = {"clone_repo": "o/r", "clone_dest": dest + "/i", "deps": False}
    r = check("initialize with a clone", m.call("sandbox_initialize", I),
              status="ok", deps=None)
    t.ok(r["clone"]["status"] == "ok" and r["clone"]["head"] == one and
         r["clone"]["clone_path"] == dest + "/i" and
         any("LFS" in w for w in r["warnings"]), "has it", r["clone"])
    t.ok(m.opened[-1][0] == r["container_id"], "in the new sandbox")
    shutil.rmtree(dest + "/i")
    r = check("a pull request", m.call("sandbox_initialize", {
        "repo": "o/r", "pr": 8, "clone_dest": dest + "/i", "deps": False}),
        status="ok")
    t.ok(r["clone"]["branch"] == "topic" and r["clone"]["pr"] == 8 and
         r["clone"]["base"] == "main" and r["clone"]["head"] == local(
             "-C", top + "/w-r", "rev-parse", "topic") and
         local("-C", dest + "/i", "config", "sbx.base") == "main",
         "is checked out under its name", r["clone"])
    n = len(m.boxes)
    r = check("the target is taken", m.call("sandbox_initialize", {
        **I}), True, code="exists", kept=False)
    t.ok(len(m.boxes) == n, "and the sandbox gone")
    r = check("kept", m.call("sandbox_initialize", {
        **I, "keep_on_error": True}), True, code="exists", kept=True)
    t.ok(r["container_id"] in m.boxes and len(m.boxes) == n + 1, "on demand",
         r)
    shutil.rmtree(dest + "/i")
    before = len(m.boxes)
    for what, args, word in (
            ("both", {**I, "branch": "x", "pr": 1, "repo": "o/r"}, "not both"),
            ("a branch of nothing", {"branch": "x"}, "clone_repo"),
            ("a pull request of nothing", {"pr": 1}, "repo"),
            ("a repo for nothing", {"repo": "o/r"}, "pr"),
            ("an empty branch", {**I, "branch": ""}, "branch"),
            ("a clone without a way out", {**I, "allow_network": False},
             "allow_network"),
            ("two repositories", {**I, "pr": 1}, "in place of"),
            ("no name", {"clone_repo": "x y"}, "clone_repo"),
            ("extras", {**I, "pip_extras": "dev; rm"}, "pip_extras"),
            ("an open quote", {**I, "pip_args": "'x"}, "pip_args")):
        bad("initialize: " + what, "sandbox_initialize", args, word)
    m.api = {"PULL": {"_code": "not_found"}}
    check("initialize: no such pull request", m.call("sandbox_initialize", {
        "repo": "o/r", "pr": 9}), True, code="not_found")
    m.api = {"PULL": {**PULL, "head": {"ref": "--upload-pack=x"}}}
    check("a hostile name of a branch", m.call("sandbox_initialize", {
        "repo": "o/r", "pr": 9}), True, code="bad_answer")
    t.ok(len(m.boxes) == before, "none of them made a sandbox")

    # what it needs
    with open(bindir + "/npm", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho \"$@\" >>%s/npm.log\n" % top)
    with open(bindir + "/python3", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nprintf '%%s|' \"$@\" >>%s/py.log\n"
                "[ \"$1\" != -c ] || exit 1\n"
                "case $* in *pip*) echo no such extra >&2; exit 1;; esac\n"
                % top)
    for n in ("npm", "python3"):
        os.chmod(bindir + "/" + n, 0o755)
    host("js", {"package.json": "{}", "package-lock.json": "{}",
                "go.mod": "module x\n"})
    host("py", {"pyproject.toml": "[project]\nname='x'\n"})
    host("none", {"x": ""})

    def init(name, **more):
        r = check("needs of " + name, m.call("sandbox_initialize", {
            "clone_repo": "o/" + name, "clone_dest": dest + "/" + name,
            **more}), status="ok")
        return (r.get("deps") or {}).get("install") or {}

    m.notes = []
    d = init("js")
    t.ok(m.notes == [(d["run_id"], 0, [])], "that fresh verifications have "
         "not got it is known", m.notes)
    t.ok(m.bound[-1] == (d["run_id"], "", dest + "/js"), "what it made is no "
         "work to the guard", m.bound[-1])
    t.ok(d["status"] == "ok" and [(x["manager"], x["status"]) for x in d[
        "managers"]] == [("npm", "ok"), ("go", "skipped")] and
         open(top + "/npm.log").read().startswith("ci "), "npm ci", d)
    d = init("py", pip_args="--index-url 'a b' c\\ d")
    said = open(top + "/py.log").read()
    t.ok(d["status"] == "failed" and "no such extra" in d["stderr"] and
         "-e|.[dev]|--index-url|a b|c d|" in said, "a failure is told, and no "
         "reason to fail", (d, said))
    m.notes = []
    d = init("none", pip_extras="")
    t.ok(not m.notes and d["status"] == "ok" and d["managers"][0]["manager"] == "none",
         "nothing to do", d)

t.ok(stat.S_ISDIR(os.stat(top).st_mode) and m.checked > 120,
     "%d results fit their schemas" % m.checked)
t.ok(m.close() == 0, "the zygote ends")
shutil.rmtree(top)
t.done()
sys.exit(t.bad > 0)
