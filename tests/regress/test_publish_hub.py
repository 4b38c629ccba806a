#!/usr/bin/env python3
"""Publications at sbxd among fakes, most of which lie or go away: what leaves is
what judge and publisher agree on, by a grant for that alone, or nothing does; no
end of anybody leaves one hanging, and each has its record.  One test is one
function."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fakehub  # noqa: E402
from fakehub import box_of, client  # noqa: E402
import ipc      # noqa: E402
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
BASE, TREE, NEW, MOVED = "a" * 40, "b" * 40, "c" * 40, "d" * 40
IMAGE = "sha256:" + "e" * 64
MAKING, FETCHING, JUDGING, BUILDING, GATE, APPROVAL, PUSHING, ENDED = range(8)
NONE, PUSHED, LANDED, WOULD, REFUSED, UNKNOWN = range(6)
FETCH, PUSH = 0, 1
OPEN, GRANT_REFUSED, USED = range(3)
CONF = ("allowed_repo O/W\nallow_read o/r\ngithub_app 12 34 /nowhere/key.pem\n"
        "grant_host git.example\nallowed_repo git.example/o/w\n")
OFF = CONF + "verify_gate off\n"


def kind(m):
    """which script an ENGINE_EXEC runs"""
    if len(m["argv"]) == 7 and m["argv"][4].startswith("https:"):
        return "look"
    return {6: "fetch", 3: "build", 2: "show", 5: "push"}.get(
        len(m["argv"]) - 4, "?")


class World(fakehub.Hub):
    """Everybody honest: the branch is not there, and the push goes well."""

    def __init__(self, conf=OFF, **kw):
        self.lines, self.line = {}, {
            "fetch": "tip - default main format sha1 like - fork -\n",
            "build": "tree %s commit %s\n" % (TREE, NEW),
            "show": "files 1 added 2 deleted 3 cut 0\n:raw\n\n+a diff\n",
            "look": "at %s in yes\n" % NEW,
            "push": "at %s said ok \n" % NEW}
        self.judged = {"tree": TREE, "commit": NEW, "added": 1}
        self.uses = True        # the push uses its grant
        self.got = {}
        super().__init__("--transport", "unix", conf=conf, **kw)
        self.wait(self.serving)

    def on_SANDBOX_CREATE(self, p, m):
        p.send("SANDBOX_READY", m.id, container=m["container"], digest=IMAGE)

    def on_ENGINE_EXEC(self, p, m):
        self.lines[m["run"]] = self.line[kind(m)]
        self.got[kind(m)] = ipc.read_fd(m.fds[0])
        m.close()
        if kind(m) == "push" and self.uses:
            self.peers["proxy"].send(
                "GRANT_STATE", grant=self.grant(PUSH)["grant"], state=USED,
                uses=0)
        p.send("ENGINE_EXEC_STARTED", m.id, run=m["run"])
        p.send("ENGINE_EXITED", run=m["run"], status=0, why=0)

    def on_RUN_READ(self, p, m):
        text = self.lines.get(m["run"], "").encode()
        if not text:
            p.send("RUN_NODATA", m.id, known=1)
            return
        fd = ipc.memfd(text)
        p.send("RUN_DATA", m.id, [fd], length=len(text), total=len(text))
        os.close(fd)

    def on_ENGINE_FILE(self, p, m):
        if m["op"] == 0:
            os.write(m.fds[1], b"of the base")
        else:
            self.got["pack"] = ipc.read_fd(m.fds[0])
        m.close()
        p.send("ENGINE_FILED", m.id)

    def on_ENGINE_UNPACK(self, p, m):
        m.close()
        p.send("ENGINE_UNPACKED", m.id, container=m["container"])

    def on_JUDGE_PUBLISH(self, _p, m):
        self.got["judge"] = [ipc.read_fd(fd) for fd in m.fds]
        m.close()

    def on_JUDGE_FILES(self, p, m):
        m.close()
        said(p, "JUDGED", **self.judged)

    # --- what there was ---------------------------------------------------------

    def grant(self, op):
        v = [g for g in self.named("GRANT_OPEN") if g["op"] == op]
        return v[-1] if v else None

    def publishes(self, phase, run=None):
        return [r for r in self.records if r["op"] == "publish" and
                r["phase"] == phase and run in (None, r["run"])]


def said(p, name, **values):
    """by a judge, who may be killed meanwhile"""
    try:
        p.send(name, 0, **values)
    except ipc.Closed:
        pass


def nothing(_p, m):
    m.close()


def start(h, w, box, names=b"a\0b/c\0", message=b"a message", **values):
    fds = [ipc.memfd(names), ipc.memfd(message)]
    m = h.ask(w, "PUBLISH_START", fds, **{
        "container": box, "dir": "/workspace", "host": "github.com",
        "repo": "o/w", "branch": "topic", "base": BASE, "flags": 0, **values})
    for fd in fds:
        os.close(fd)
    return m


def end(h, w, s, timeout=8):
    return h.ask(w, "PUBLISH_WAIT", [], timeout, publish=s["publish"],
                 wait_ms=timeout * 1000)


def begun(h, **values):
    a = client(h)
    box = box_of(h, a)
    w = h.begin(a, "publish")
    return w, box, start(h, w, box, **values)


def boxed(h):
    return h.named("SANDBOX_CREATE")[-1]["container"]


def refused(m, code):
    return m is not None and m.name == "WORK_REFUSED" and m["code"] == code


def clean(h, s, what, code):
    """no sandbox, judge or grant is left, and its end is recorded"""
    h.settle()
    made = {m["container"] for m in h.named("SANDBOX_CREATE")[1:]}
    gone = {m["container"] for m in h.named("SANDBOX_STOP")} | \
        set(getattr(h, "died", ()))
    ok(made <= gone, what + ": no sandbox stays", (made, gone))
    ok(not [p for p in h.all if p.proc == "judge"], what + ": nor a judge")
    left = {r["fields"]["grant"] for r in h.records if r["op"] == "grant" and
            r["phase"] == "start"} - {
        r["fields"]["grant"] for r in h.records if r["op"] == "grant" and
        r["phase"] == "end"}
    ok(not left, what + ": nor a grant", left)
    r = h.publishes("end", s["publish"])
    ok(len(r) == 1 and r[0]["flags"] == 2 and r[0]["code"] == code,
       what + ": its end is recorded, once", r)


def fails(h, w, s, step, what, outcome=REFUSED, timeout=8):
    m = end(h, w, s, timeout)
    good = m and m.name == "PUBLISH_STATE" and m["phase"] == ENDED and \
        m["outcome"] == outcome and m["step"] == step and m["reason"] and \
        m["next"]
    ok(good, what + ": " + step, m)
    clean(h, s, what, 1)
    if h.grant(PUSH) and "push" not in h.got:
        ok(h.grant(PUSH)["grant"] in [
            x["grant"] for x in h.named("GRANT_REVOKE")] or "proxy" in what,
           what + ": its grant is taken back")
    return m


# --- it goes --------------------------------------------------------------------

def test_push():
    with World() as h:
        w, box, s = begun(h)
        ok(s.name == "PUBLISH_STATE" and s["container"] == box and
           s["phase"] == MAKING and s["outcome"] == NONE, "it begins", s)
        m = end(h, w, s)
        ok(m["phase"] == ENDED and m["outcome"] == PUSHED and
           (m["tree"], m["commit"], m["tip"], m["branch"], m["added"]) ==
           (TREE, NEW, "", "topic", 1) and m["default_branch"] == "main",
           "and is pushed", m)
        pub = boxed(h)
        f, g = h.grant(FETCH), h.grant(PUSH)
        ok(f["container"] == g["container"] == pub != box, "both grants are "
           "the publisher's", (f, g))
        ok((g["ref"], g["old_id"], g["new_id"], g["uses"], g["force"]) ==
           ("refs/heads/topic", "0" * 40, NEW, 1, 0) and
           g["repo"] == "o/w" and g["credential"] == 1,
           "for that ref, from there, to there, once", g)
        v = h.named("ENGINE_EXEC")
        url = "https://github.com/o/w.git"
        ok([m["argv"][4:] for m in v] == [
            [url, BASE, "topic", "-", "-", "2"], [BASE, "-", "2"],
            [BASE, NEW], [url, NEW, "topic", "-", "0"]],
           "four scripts, by arguments", v)
        ok(all(m["container"] == pub and m["argv"][:2] == ["bash", "-c"] and
               "https_proxy=http://127.0.0.1:3128" in
               [e.lower() for e in m["env"]] for m in v),
           "with the publisher's way out", v)
        ok(h.got["fetch"] == h.got["build"] == h.got["pack"] ==
           h.got["judge"][0] == b"a\0b/c\0" and
           h.got["judge"][1:] == [b"of the base", b"a message", b""],
           "all of the same names", h.got)
        ok(h.named("SANDBOX_CREATE")[-1]["cpu_milli"] ==
           1000 * os.sysconf("SC_NPROCESSORS_ONLN"), "it has all processors")
        q = h.named("JUDGE_PUBLISH")[0]
        ok((q["base"], q["parent2"], q["base_offset"], q["base_length"],
            q["author"], q["allow"]) == (
                BASE, "", 0, 11, "sbx <sbx@localhost>", 0) and q["time"] >
           1700000000, "the judge knows", q)
        p, u = [m for m in h.named("ENGINE_FILE") if m["op"] == 3][0], \
            h.named("ENGINE_UNPACK")[-1]
        ok(p["container"] == box and p["flags"] == 8 and
           u["container"] == pub and u["dest"] == "/workspace/in",
           "files go from the one to the other", (p, u))
        h.settle()
        r = [(r["op"], r["phase"], r["flags"] & 1) for r in h.records
             if r["op"] in ("publish", "grant") and r["phase"] != "source"]
        ok(r == [("publish", "start", 1), ("grant", "start", 1),
                 ("publish", "verdict", 0), ("publish", "push", 0),
                 ("grant", "start", 1), ("grant", "use", 0),
                 ("grant", "end", 0), ("publish", "end", 0),
                 ("grant", "end", 0)], "records, in order", r)
        clean(h, s, "a push", 0)


def test_ways():
    for what, conf, line, values, want in (
            ("dry run", OFF, {}, {"flags": 1}, (WOULD, "")),
            ("landed", OFF, {"fetch": "tip %s default main format sha1 like "
                             "%s fork -\n" % (MOVED, TREE)}, {}, (LANDED, "")),
            ("merge", OFF, {}, {"parent2": NEW, "merge_branch": "next",
                                "merged": 1}, (PUSHED, "")),
            ("merge of the default", OFF, {
                "fetch": "tip - default next format sha1 like - fork %s\n" %
                MOVED}, {"parent2": NEW, "merge_branch": "next", "merged": 1},
             (PUSHED, "")),
            ("existing", OFF, {"fetch": "tip %s default - format sha1 like "
                               "- fork -\n" % BASE}, {}, (PUSHED, "")),
            ("forced", OFF + "allow_force yes\n", {
                "fetch": "tip %s default main format sha1 like - fork -\n" %
                MOVED},
             {"flags": 2}, (PUSHED, "")),
            ("default", OFF + "allow_protected_ref yes\n", {},
             {"branch": "main"}, (PUSHED, "")),
            ("moved on after it", OFF, {"push": "at %s said ok \n" % MOVED},
             {}, (PUSHED, ""))):
        with World(conf) as h:
            h.line.update(line)
            w, _, s = begun(h, **values)
            m = end(h, w, s)
            ok(m and (m["outcome"], m["step"]) == want, what, m)
            clean(h, s, what, 0)
            if want[0] != PUSHED:
                ok(h.grant(PUSH) is None, what + ": no push is granted")
            if what == "landed":
                ok(m["commit"] == MOVED, "as that commit", m)
            if what == "merge":
                v = h.named("ENGINE_EXEC")
                ok([x["argv"][5:] for x in v][:2] == [
                    [BASE, "topic", NEW, "next", "1"], [NEW, "1"]],
                   "scripts know what is merged", v)
                ok(h.got["pack"] == b"a\0" and h.got["fetch"] ==
                   h.got["build"] == h.got["judge"][0] == b"a\0b/c\0" and
                   h.named("JUDGE_PUBLISH")[0]["merged"] == 1 and
                   h.named("JUDGE_PUBLISH")[0]["parent2"] == NEW,
                   "and no byte of it comes from the sandbox", h.got)
            if what.startswith("merge"):
                ok(look(h, s)[1]["merged_files"] == "1", "an operator is "
                   "told how much it brings")
                q = h.named("JUDGE_PUBLISH")[0]
                ok((q["allow"], q["fork"]) == ((4, MOVED) if "of" in what else
                                               (0, "")),
                   "what others run is taken from the default branch", q)
            if what == "forced":
                g = h.grant(PUSH)
                ok((g["force"], g["old_id"]) == (1, MOVED), "from there", g)
            if what == "existing":
                ok(h.grant(PUSH)["old_id"] == BASE, "from the base")
    with World(OFF + "publish_signoff yes\npublish_author \"A B <a@b.c>\"\n"
               "publish_image git\n") as h:
        w, _, s = begun(h, message=b"one\n\ntwo\n")
        end(h, w, s)
        ok(h.got["judge"][2] == b"one\n\ntwo\n\nSigned-off-by: A B <a@b.c>\n"
           and h.named("JUDGE_PUBLISH")[0]["author"] == "A B <a@b.c>",
           "signed off", h.got["judge"])
        ok(h.named("SANDBOX_CREATE")[-1]["image"] == "git",
           "in the operator's image")
    with World(OFF) as h:       # a host without a source of credentials
        w, _, s = begun(h, host="git.example")
        m = end(h, w, s)
        ok(m and m["outcome"] == PUSHED and h.grant(FETCH) is None and
           h.grant(PUSH)["credential"] == 0, "without a credential", m)


def test_again():
    """What was pushed is known again by its paths, as long as it is there."""
    at = "tip %s default main format sha1 like - fork -\n" % NEW
    for what, step, more, values, want in (
            ("again", "unchanged", {}, {}, LANDED),
            ("again, with what was deleted", "missing", {}, {}, LANDED),
            ("a change", "missing", {"modified": 1}, {}, REFUSED),
            ("other paths", "unchanged", {}, {"names": b"a\0"}, REFUSED),
            ("another branch", "unchanged", {}, {"branch": "x"}, REFUSED),
            ("secrets", "secret", {}, {}, REFUSED)):
        with World() as h:
            w, box, s = begun(h)
            ok(end(h, w, s)["outcome"] == PUSHED, "it is pushed")
            h.line["fetch"] = at
            h.judged = {"step": step, "reason": "x", **more}
            s = start(h, w, box, base=NEW, **values)
            m = end(h, w, s)
            ok(m["outcome"] == want and (
                want != LANDED or (m["commit"], m["tree"]) == (NEW, TREE)),
               what, m)
    with World() as h:      # it has moved on
        w, box, s = begun(h)
        end(h, w, s)
        h.judged = {"step": "unchanged", "reason": "x"}
        h.line["fetch"] = "tip - default main format sha1 like - fork -\n"
        m = end(h, w, start(h, w, box, base=NEW))
        ok(m["outcome"] == REFUSED, "it is there no more", m)
    with World() as h:      # as many as there is room for are kept
        w, box, s = begun(h)
        end(h, w, s)
        h.line["fetch"], h.judged = at, {"step": "unchanged", "reason": "x"}
        for i in range(6):
            end(h, w, start(h, w, box, base=NEW, names=b"a%d\0" % i))
        m = end(h, w, start(h, w, box, base=NEW))
        ok(m["outcome"] == LANDED, "whatever was refused since", m)


PRINTS = ["%064x" % i for i in range(320)]
YES = '{"inputResponses":{"x":[{"a":"}"}],"confirm":{"content":{},' \
      '"action":"accept"}}}'
TOOL = "secret_scan_override"


def found(n=2, start=0):
    return [s for i in range(start, start + n)
            for s in ("aws-key", "f%d" % i, str(i), PRINTS[i])]


def override(h, w, box, s, prints, **values):
    return h.ask(w, "OVERRIDE_ASK", **{
        "container": box, "publish": s["publish"], "hold": 1,
        "reason": "a test's", "fingerprints": prints, **values})


def waived(h):
    return h.named("JUDGE_PUBLISH")[-1]["waived"]


def secret(h, w, box, what=(2, 0), **values):
    """one that is refused"""
    good, h.judged = h.judged, {"step": "secret", "reason": "x", "total": 2,
                                "findings": found(*what)}
    s = start(h, w, box, **values)
    m = end(h, w, s)
    ok(m["step"] == "secret" and m["findings"] == found(*what), "a secret", m)
    h.judged = good
    return s


def test_override():
    with World(OFF + "allowed_repo o/v\n") as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        u = h.begin(a, TOOL, client_can=1, inputs=YES)
        s = secret(h, w, box)
        m = override(h, u, box, s, PRINTS[1:2], hold=0)
        ok((m["host"], m["repo"], m["branch"], m["confirm"], m["count"]) == (
            "github.com", "o/w", "topic", 1, 0) and
           m["findings"] == found(1, 1), "what is asked for is told", m)
        secret(h, w, box)
        ok(waived(h) == [], "and does not hold by that")
        m = override(h, u, box, s, PRINTS[1:2])
        ok(m.name == "OVERRIDE_STATE" and m["count"] == 1 and
           m["left_s"] == 3600, "it holds", m)
        h.settle()
        r = [r for r in h.records if r["op"] == TOOL]
        ok([(x["phase"], x["flags"] & 1) for x in r] == [
            ("finding", 0), ("start", 1)] and
           (r[0]["fields"]["rule"], r[0]["fields"]["path"],
            r[0]["fields"]["line"], r[0]["fields"]["fingerprint"]) ==
           ("aws-key", "f1", "1", PRINTS[1]) and
           r[1]["fields"]["reason"] == "a test's" and
           r[1]["fields"]["agreed"] == "user", "on record", r)
        secret(h, w, box, branch="other")
        ok(waived(h) == [], "not for another branch")
        secret(h, w, box, repo="o/v")
        ok(waived(h) == [], "nor for another repository")
        b = client(h, 1002)
        theirs, v = box_of(h, b), h.begin(b, "publish")
        secret(h, v, theirs)
        ok(waived(h) == [], "nor for another client")
        s = secret(h, w, box)
        ok(waived(h) == PRINTS[1:2], "a refused one does not use it up")
        ok(override(h, u, box, s, PRINTS[:2])["count"] == 2, "another adds")
        h.line["push"] = "at - said no declined\n"
        ok(end(h, w, start(h, w, box))["outcome"] == REFUSED and
           waived(h) == [PRINTS[1], PRINTS[0]], "nor does a push that fails")
        h.line["push"] = "at %s said ok \n" % NEW
        h.judged.update(nwaived=1, waived=found(1))
        m = end(h, w, start(h, w, box))
        ok(m["outcome"] == PUSHED and m["waived"] == found(1) and
           m["nwaived"] == 1 and len(waived(h)) == 2, "a push is told of it",
           m)
        ok(h.publishes("verdict")[-1]["fields"]["waived"] == "1",
           "and the record")
        end(h, w, start(h, w, box))
        ok(waived(h) == [], "and uses it up")
        v = h.begin(b, TOOL, client_can=1, inputs=YES)
        ok(refused(override(h, v, box, s, PRINTS[:1]), "unknown_run"),
           "another client's is none")
    with World() as h:      # pushed meanwhile
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        u = h.begin(a, TOOL, client_can=1, inputs=YES)
        override(h, u, box, secret(h, w, box), PRINTS[:1])
        h.judged["nwaived"] = 1
        h.on_ENGINE_UNPACK = nothing
        s = start(h, w, box)
        h.wait(lambda: len(h.named("ENGINE_UNPACK")) == 2)
        late = h.named("ENGINE_UNPACK")[-1]
        del h.on_ENGINE_UNPACK
        ok(end(h, w, start(h, w, box))["outcome"] == PUSHED, "one is pushed")
        h.peers["engine"].send("ENGINE_UNPACKED", late.id,
                               container=late["container"])
        m = end(h, w, s)
        ok(m["outcome"] == REFUSED and m["step"] == "secret", "for one only",
           m)
    with World() as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        u = h.begin(a, TOOL, client_can=1, inputs=YES)
        h.judged["nwaived"] = 1
        m = end(h, w, start(h, w, box))
        ok(m["outcome"] == REFUSED and m["step"] == "secret",
           "a judge lets out none by itself", m)
        for i in range(4):
            m = override(h, u, box, secret(h, w, box, (64, 64 * i)),
                         PRINTS[64 * i:64 * i + 64])
        ok(m["count"] == 256, "as many as may be", m)
        m = override(h, u, box, secret(h, w, box, (64, 250)),
                     PRINTS[250:314])
        ok(refused(m, "busy"), "and no more", m)
        m = override(h, u, box, secret(h, w, box, (64, 192)),
                     PRINTS[192:256])
        ok(m["count"] == 256, "the same ones again", m)
        v = h.begin(a, "publish", client_can=1, inputs=YES)
        ok(refused(override(h, v, box, secret(h, w, box), PRINTS[:1]),
                   "declined"), "what agreed to another tool is no word")
        for i, branch in enumerate("abcd"):
            m = override(h, u, box, secret(h, w, box, branch=branch),
                         PRINTS[:1])
            ok(m.name == "OVERRIDE_STATE" if i < 3 else refused(m, "busy"),
               "four branches at once", m)
        operator(h, "CTL_LOCKDOWN", on=1)
        s = {"publish": h.publishes("end")[-1]["run"]}
        ok(refused(override(h, u, box, s, PRINTS[:1]), "locked"),
           "not amid a lockdown", m)
        operator(h, "CTL_LOCKDOWN", on=0)
        h.settle()
        secret(h, w, box)
        ok(waived(h) == [], "which ends what held")


def test_override_barred():
    for what, conf, can, inputs, code in (
            ("off", "secret_override off\n", 1, YES, "not_allowed"),
            ("on", "secret_override on\n", 0, "", None),
            ("nobody to ask", "", 0, YES, "not_allowed"),
            ("nobody was asked", "", 1, "", "declined"),
            ("no", "", 1, YES.replace("accept", "decline"), "declined"),
            ("elsewhere", "", 1, '{"inputResponses":{"x":{"confirm":{'
             '"action":"accept"}}},"confirm":{"action":"accept"}}',
             "declined"),
            ("another name", "", 1, '{"inputResponses":{"confirmed":{'
             '"action":"accept"}}}', "declined"),
            ("in a string", "", 1, '{"inputResponses":{"confirm":{"content":'
             '{"action":"accept"},"a":"\\",\\"action\\":\\"accept"}}}',
             "declined"),
            ("accepted", "", 1, '{"inputResponses":{"confirm":{"action":'
             '"acceptable"}}}', "declined")):
        with World(OFF + conf) as h:
            a = client(h)
            box = box_of(h, a)
            w = h.begin(a, "publish")
            u = h.begin(a, TOOL, client_can=can, inputs=inputs)
            m = override(h, u, box, secret(h, w, box), PRINTS[:1])
            ok(m.name == "OVERRIDE_STATE" if code is None else
               refused(m, code), "the user's word: " + what, m)
            if code == "not_allowed":
                ok("secret_override" in m["reason"], "by its keyword", m)
            secret(h, w, box)
            ok(waived(h) == ([] if code else PRINTS[:1]), what + ": so it is")
    with World() as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        ok(refused(override(h, w, box, {"publish": "a" * 16}, PRINTS[:1]),
                   "unknown_run"), "of no publication")
        u = h.begin(a, TOOL, client_can=1, inputs=YES)
        s = secret(h, w, box)
        for what, code, values in (
                ("another finding", "unknown_finding", {
                    "fingerprints": PRINTS[:3]}),
                ("none", "bad_argument", {"fingerprints": []}),
                ("no reason", "bad_argument", {"reason": ""}),
                ("another sandbox", "unknown_run", {"container": "f" * 16})):
            ok(refused(override(h, u, box, s, **{"prints": PRINTS[:1], **{
                "prints" if k == "fingerprints" else k: v
                for k, v in values.items()}}), code), what)
        h.judged = {"step": "secret", "reason": "x", "total": 1, "findings": [
            "scan-limit", "big", "1", PRINTS[0]]}
        s = start(h, w, box)
        end(h, w, s)
        ok(refused(override(h, u, box, s, PRINTS[:1]), "not_scanned"),
           "what was not scanned never holds")
        h.judged = {"tree": TREE, "commit": NEW}
        m = start(h, w, box)
        end(h, w, m)
        ok(refused(override(h, u, box, m, PRINTS[:1]), "not_refused"),
           "nor what was pushed")
        h.on_JOURNAL_APPEND = lambda p, m: p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="disk full") \
            if m["flags"] & 1 and m["op"] == TOOL else \
            fakehub.Hub.on_JOURNAL_APPEND(h, p, m)
        s = secret(h, w, box)
        ok(refused(override(h, u, box, s, PRINTS[:1]), "journal_unavailable"),
           "without a record it does not hold")
        secret(h, w, box)
        ok(waived(h) == [], "so it is")


ARMOR = ("-----BEGIN SSH SIGNATURE-----\nAAAA\n"
         "-----END SSH SIGNATURE-----\n")
KEY = OFF + "publish_signing_key /nowhere/sign.pem\n"


class Signs(World):
    """As World, with a broker that signs."""

    def __init__(self, conf=KEY, **kw):
        self.says = {"commit": NEW, "signature": ARMOR}
        super().__init__(conf, **kw)

    def on_JUDGE_FILES(self, p, m):
        m.close()
        if self.named("JUDGE_PUBLISH")[-1]["allow"] & 2:
            said(p, "JUDGE_COMMIT", commit="a commit")
        else:
            said(p, "JUDGED", **self.judged)

    def on_JUDGE_SIGNED(self, p, _m):
        said(p, "JUDGED", **self.judged)

    def on_BROKER_SIGN(self, p, m):
        p.send("BROKER_SIGNED", m.id, **self.says)


def test_sign():
    with Signs() as h:
        ok("publish_signing_key /nowhere/sign.pem" in
           h.named("BROKER_START")[0]["sources"] and
           h.named("BROKER_START")[0]["author"] == "sbx <sbx@localhost>",
           "the broker knows key and author")
        w, box, s = begun(h, parent2="f" * 40, merge_branch="next")
        m = end(h, w, s)
        ok(m["outcome"] == PUSHED and m["is_signed"] == 1, "a signed one", m)
        a, q = h.named("BROKER_ANNOUNCE"), h.named("BROKER_SIGN")
        ok(len(a) == len(q) == 1 and (a[0]["publish"], a[0]["host"],
           a[0]["repo"], a[0]["base"], a[0]["parent2"]) == (
               s["publish"], "github.com", "o/w", BASE, "f" * 40) and
           (q[0]["publish"], q[0]["commit"]) == (s["publish"], "a commit") and
           h.named("JUDGE_SIGNED")[0]["signature"] == ARMOR,
           "the judge's bytes to the broker, its signature back", (a, q))
        m = end(h, w, start(h, w, box, flags=1))
        ok(m["outcome"] == WOULD and m["is_signed"] == 2 and
           len(h.named("BROKER_SIGN")) == 1, "a dry run signs nothing", m)
    with Signs(broker={"bad": 1, "signer_bad": "its mode is 0644"}) as h:
        w, box, s = begun(h, flags=1)
        m = fails(h, w, s, "sign", "a dry run whose key cannot be used")
        ok("its mode is 0644" in m["reason"] and
           not h.named("BROKER_ANNOUNCE"), "nothing is signed for that", m)
        h.on_BROKER_STATUS = nothing    # the next one says nothing of it yet
        h.kill("broker")
        h.wait(lambda: len(h.named("BROKER_START")) == 2)
        h.settle()
        m = end(h, w, start(h, w, box, flags=1))
        ok(m["outcome"] == WOULD, "one broker's word is none of the next", m)
    for what, says, word in (
            ("it does not", {"error": -19, "reason": "no key"}, "no key"),
            ("no id", {"commit": "x"}, "what it signed"),
            ("another commit", {"commit": MOVED, "signature": ARMOR}, MOVED)):
        with Signs() as h:
            h.says = says
            w, _, s = begun(h)
            m = fails(h, w, s, "sign", what)
            ok(word in m["reason"] and "push" not in h.got, what + ": it says "
               "so", m)
    for what, judge in (
            ("without being asked", lambda p: said(p, "JUDGED", tree=TREE,
                                                   commit=NEW)),
            ("nothing", lambda p: said(p, "JUDGED"))):
        with Signs() as h:      # a judge that does without
            h.on_JUDGE_FILES = lambda p, m, judge=judge: (m.close(), judge(p))
            w, _, s = begun(h)
            m = end(h, w, s)
            ok(m["outcome"] == REFUSED and "push" not in h.got,
               "what is not signed does not go: " + what, m)
    with World() as h:          # and one that asks for it
        h.on_JUDGE_FILES = lambda p, m: (m.close(), said(
            p, "JUDGE_COMMIT", commit="x"))
        w, _, s = begun(h)
        m = end(h, w, s)
        ok(m["outcome"] == REFUSED and not h.named("BROKER_SIGN"),
           "nor is what is not to be signed", m)
    with Signs() as h:
        h.on_BROKER_SIGN = nothing
        w, _, s = begun(h)
        h.wait(lambda: h.named("BROKER_SIGN"))
        h.kill("broker")
        fails(h, w, s, "sign", "the broker goes")


RULES = "[[rules]]\nid = 'x'\nregex = 'x[0-9]{8}'\n"


def test_rules():
    path = "/tmp/sbx-rules-%d" % os.getpid()
    with open(path, "w") as f:
        f.write(RULES)
    os.chmod(path, 0o644)
    try:
        with World(OFF + "secret_rules %s\nallow_sensitive_paths yes\n" %
                   path) as h:
            os.unlink(path)
            w, _, s = begun(h)
            end(h, w, s)
            ok(h.got["judge"][3] == RULES.encode() and
               h.named("JUDGE_PUBLISH")[0]["allow"] == 1,
               "the judge has the operator's rules", h.got["judge"])
    finally:
        if os.path.exists(path):
            os.unlink(path)


def test_gate():
    with World(CONF) as h:
        w, _, s = begun(h)
        m = fails(h, w, s, "verify_gate", "without a pass")
        ok("publish again" in m["next"], "what to do", m)
        ok(h.publishes("verdict")[0]["code"] == 0, "the judge's word is on "
           "record")
    for tree, who, good in ((TREE, 1001, True), (MOVED, 1001, False),
                            (TREE, 1002, False)):
        with World(CONF) as h:
            tested(h, tree, 1)
            a, b = client(h), client(h, who)
            w = h.begin(b, "sandbox_initialize")
            m = h.ask(w, "GATE_WAIT", [], 8, gate=verify(
                h, w, h.box(w)["container"]), wait_ms=8000)
            ok(m["passed"] == 1, "a pass", m)
            w = h.begin(a, "sandbox_initialize")
            s = start(h, w, h.box(w)["container"])
            m = end(h, w, s)
            ok(m["outcome"] == (PUSHED if good else REFUSED),
               "a pass of %s, of uid %d" % (tree[:4], who), m)


def tested(h, tree, green):
    """fresh verifications there come to that"""
    h.on_JUDGE_TREE = lambda p, m: (m.close(), said(
        p, "JUDGE_TREED", sha1=tree, sha256="f" * 64, files=1, found=1))
    h.on_JUDGE_REPORT = lambda p, m: (m.close(), said(
        p, "JUDGE_VERDICT", green=green, total=1,
        verdict="green" if green else "failed"))
    h.on_ENGINE_EXEC = lambda p, m: World.on_ENGINE_EXEC(
        h, p, m) if len(m["argv"]) > 3 else (
            m.close(), h.lines.update({m["run"]: "pytest\n"}),
            p.send("ENGINE_EXEC_STARTED", m.id, run=m["run"]),
            p.send("ENGINE_EXITED", run=m["run"]))


def verify(h, w, box):
    fd = ipc.memfd(b"a\0")
    g = h.ask(w, "GATE_START", [fd], container=box, dir="/workspace",
              timeout_ms=60000)
    os.close(fd)
    return g["gate"]


def test_gate_first():
    """A publication waits for the verification that is told of, and goes on."""
    with World(CONF) as h:
        tested(h, MOVED, 1)
        a, b = client(h), client(h, 1002)
        box, theirs = box_of(h, a), box_of(h, b)
        w, w2 = h.begin(a, "publish"), h.begin(b, "publish")

        def unverified(flags=4):
            h.got.pop("push", None)
            s = start(h, w, box, flags=flags)
            m = end(h, w, s)
            ok(m["phase"] == GATE and m["gate_status"] == "missing" and
               m["gate"] == "" and m["tree"] == TREE, "it waits", m)
            return s

        def told(s, g):
            return h.ask(w, "PUBLISH_GATE", publish=s["publish"], gate=g)

        s = unverified()
        g = verify(h, w2, theirs)
        ok(refused(told(s, g), "unknown_run"), "another's is none")
        g = verify(h, w, box)
        ok(h.ask(w, "GATE_WAIT", [], 8, gate=g, wait_ms=8000)["passed"] == 1,
           "green, of another tree")
        t = start(h, w, box)
        ok(end(h, w, t)["step"] == "verify_gate" and refused(
            told(t, g), "busy"), "what has ended waits for none")
        m = told(s, g)
        ok(m["outcome"] == REFUSED and m["step"] == "verify_gate" and
           MOVED in m["reason"], "that does not open it", m)
        tested(h, TREE, 0)
        s = unverified()
        g = verify(h, w, box)
        m = told(s, g)
        ok(m["gate"] == g and m["gate_status"] in ("running", "failed"),
           "it waits for that", m)
        ok(refused(told(s, g), "busy"), "and for no other")
        m = end(h, w, s)
        ok(m["outcome"] == REFUSED and m["step"] == "verify_gate" and
           (m["gate_status"], m["gate_ran"]) == ("failed", "python") and
           "push" not in h.got, "red", m)
        tested(h, TREE, 1)
        s = unverified(5)
        told(s, verify(h, w, box))
        m = end(h, w, s)
        ok(m["outcome"] == WOULD and m["gate_status"] == "passed" and
           "push" not in h.got, "green, and a dry run", m)
        m = end(h, w, start(h, w, box, flags=4))
        ok(m["outcome"] == PUSHED and m["gate_status"] == "passed" and
           m["gate"] != g, "the pass is known from then on", m)
    with World(CONF) as h:
        tested(h, TREE, 1)
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        s = start(h, w, box, flags=4)
        end(h, w, s)
        g = h.grant(FETCH)["grant"]
        ok(g in [x["grant"] for x in h.named("GRANT_REVOKE")],
           "no credential waits with it")
        h.result(w)         # handed over: it goes on without its call
        w = h.begin(a, "publish")
        h.ask(w, "PUBLISH_GATE", publish=s["publish"],
              gate=verify(h, w, box))
        h.result(w)
        w = h.begin(a, "publish")
        m = end(h, w, s)
        ok(m["outcome"] == PUSHED and h.grant(FETCH)["grant"] != g,
           "by itself, and with a new one", m)
        ok([x["op"] for x in h.named("GRANT_OPEN")] == [FETCH, FETCH, PUSH],
           "it may be read again for the push")
        clean(h, s, "a verified one", 0)
    with World(CONF) as h:  # cancelled meanwhile
        a = client(h)
        box, came = box_of(h, a), hold(h, "JUDGE_TREE")
        w, w2 = h.begin(a, "publish"), h.begin(a, "publish")
        s = start(h, w, box, flags=4)
        end(h, w, s)
        h.ask(w, "PUBLISH_GATE", publish=s["publish"], gate=verify(h, w, box))
        h.wait(came)
        h.kill_worker(w)
        m = end(h, w2, s)
        ok(m["outcome"] == REFUSED and m["step"] == "cancelled" and
           "push" not in h.got, "a cancelled one is not pushed", m)
        clean(h, s, "cancelled", 1)
# --- what an operator sees, and says ------------------------------------------------

def operator(h, name, **values):
    """the answer to that on the control socket; and the descriptor's bytes"""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(h.dir + "/run/suite-0/ctl.sock")
    c = ipc.Chan(s)
    try:
        h.wait(lambda: came(c))     # CTL_HELLO
        c.send(name, 1, **values)
        return h.wait(lambda: came(c))[0]
    finally:
        c.close()


def came(c):
    try:
        return [c.recv(0.01)]   # without members one is false
    except ipc.Timeout:
        return None


def look(h, s):
    m = operator(h, "CTL_PUBLISH_SHOW", publish=s["publish"], offset=0)
    v = dict(zip(m["members"][::2], m["members"][1::2]))
    return m, v, ipc.read_fd(m.fds[0])


def sbx(h, *args):
    """what an operator's terminal gets"""
    with tempfile.TemporaryFile() as f, subprocess.Popen(
            [os.environ["SBX_BUILD"] + "/sbx", *args], stdout=f, stderr=f,
            env=dict(os.environ, SBX_ROOT=h.dir)) as p:
        h.wait(lambda: p.poll() is not None)
        f.seek(0)
        return f.read().decode("utf-8", "backslashreplace")


def test_terminal():
    """Whoever lies steers no terminal, and speaks for nobody else."""
    lie = "x\nverified_by      gate\r\x1b[2J\u202e"
    with World() as h:
        w, box, s = begun(h)
        h.judged = {"step": "secret", "reason": lie, "total": 1, "findings": [
            "rule" + lie, "path" + lie, "1", "f" * 64]}
        end(h, w, s)
        t = sbx(h, "publish", "show", s["publish"]).partition("\nrecords:")[0]
        ok("\\x0averified_by" in t and "\nverified_by" not in t and
           not set(t) & set("\r\x1b\u202e"), "a lying judge", t)


def test_view():
    with World() as h:
        w, box, s = begun(h)
        end(h, w, s)
        m = operator(h, "CTL_PUBLISH_LIST")
        ok(m["rows"][:9] == [s["publish"], "ended", "pushed", "", "uid:1001",
                             box, "github.com/o/w", "topic", NEW] and
           len(m["rows"]) == 10, "it is in the list", m)
        m, v, text = look(h, s)
        ok(text == h.line["show"].encode() and m["total"] == len(text),
           "what was shown of it is there after its end", text)
        ok((v["outcome"], v["commit"], v["tree_id"], v["judge"],
            v["publisher_made"], v["files"], v["lines_added"],
            v["lines_deleted"], v["diff_cut"], v["grant"], v["grant_ref"],
            v["grant_used"], v["base"]) == (
                "pushed", NEW, TREE, "lets it go",
                "the same tree and commit", "1", "2", "3", "0",
                h.grant(PUSH)["grant"], "refs/heads/topic", "1", BASE) and
           v["publisher_image"] == IMAGE, "and what all said of it", v)
        h.judged = {"step": "secret", "reason": "a secret", "total": 99,
                    "findings": found(64)}
        s = start(h, w, box)
        end(h, w, s)
        m, v, text = look(h, s)
        ok((v["outcome"], v["step"], v["reason"], text, m["findings"]) == (
            "refused", "secret", "a secret", b"", h.judged["findings"]) and
           "judge" not in v and "grant" not in v,
           "a refused one, as far as it came", (m, v))
        m = operator(h, "CTL_PUBLISH_LIST")
        ok(m["rows"][0] == s["publish"] and len(m["rows"]) == 20,
           "the newest is first", m)
        ok(operator(h, "CTL_PUBLISH_SHOW", publish="f" * 16)["code"] ==
           "unknown_run", "none")
    for line in ("files 1 added 2 deleted 3\n", "no suite x\n", "",
                 "files -1 added 2 deleted 3 cut 0\nx", "files 1 added 2 "
                 "deleted 3 cut 0", "x" * 2000 + "\n"):
        with World() as h:
            h.line["show"] = line
            w, _, s = begun(h)
            fails(h, w, s, "suite", "what cannot be shown: %r" % line[:20])


def held(h, **values):
    """a publication that waits for its operator"""
    w, _, s = begun(h, **values)
    m = end(h, w, s)
    ok(m["phase"] == APPROVAL and m["commit"] == NEW and not h.grant(PUSH),
       "it waits, and that is told", m)
    return w, s


def word(h, s, approve=1, commit=NEW, branch="topic", reason=""):
    return operator(h, "CTL_PUBLISH_ANSWER", publish=s["publish"],
                    commit=commit, branch=branch, approve=approve,
                    reason=reason)


def test_approve():
    conf = OFF + "confirm_publish yes\n"
    with World(conf) as h:
        w, s = held(h)
        ok(look(h, s)[1]["waiting_for"] == "approval", "its state says so")
        for values in ({"commit": MOVED}, {"branch": "other"},
                       {"commit": NEW[1:]}):
            m = word(h, s, **values)
            ok(m.name == "CTL_REFUSED" and m["code"] == "another",
               "not another: %r" % values, m)
        ok(word(h, {"publish": "f" * 16})["code"] == "unknown_run", "nor none")
        h.settle()
        ok(h.ask(w, "PUBLISH_WAIT", publish=s["publish"])["phase"] ==
           APPROVAL and not h.grant(PUSH), "it waits on")
        m = word(h, s)
        ok(m.name == "CTL_PUBLISH_ANSWERED", "the operator approves", m)
        m = end(h, w, s)
        ok(m["outcome"] == PUSHED, "and it is pushed", m)
        v = [(r["op"], r["phase"], r["flags"] & 1) for r in h.records
             if r["op"] in ("publish", "grant") and r["phase"] != "source"]
        ok(v[3:9] == [("grant", "end", 0), ("publish", "held", 0),
                      ("publish", "approved", 1), ("grant", "start", 1),
                      ("publish", "push", 0), ("grant", "start", 1)],
           "it waits without a grant, and its record is durable before "
           "another", v)
        r = h.publishes("approved")[0]["fields"]
        ok((r["commit"], r["branch"], r["operator"]) == (NEW, "topic", "0"),
           "for that commit and branch, by whom", r)
        m = word(h, s)
        ok(m["code"] == "not_waiting", "once", m)
        clean(h, s, "an approved one", 0)
    with World(conf) as h:
        w, s = held(h)
        ok(word(h, s, 0, reason="no\x1bway").name == "CTL_PUBLISH_ANSWERED",
           "the operator refuses")
        m = fails(h, w, s, "confirm", "and so it is")
        ok("no\\x1bway" in m["reason"], "with the reason", m)
    with World(conf) as h:      # what was allowed when it began
        w, s = held(h, host="git.example")
        h.on_JOURNAL_APPEND = lambda p, m: p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="disk full")
        ok(word(h, s)["code"] == "journal_unavailable", "not unrecorded")
        del h.on_JOURNAL_APPEND
        with open(h.dir + "/etc/sbx.conf", "w", encoding="ascii") as f:
            f.write(CONF.replace("allowed_repo git.example/o/w\n", "") +
                    "publish_signoff yes\nallow_protected_ref yes\n")
        h.term(signal.SIGHUP)
        h.settle()
        ok("until the suite is started again: verify_gate confirm_publish "
           "allow_protected_ref publish_signoff\n" in h.said(),
           "what does not count before the next start is named", h.said())
        ok(word(h, s).name == "CTL_PUBLISH_ANSWERED", "it is said again")
        fails(h, w, s, "not_allowed", "the repository is taken away")
    with World(conf) as h:
        w, s = held(h)
        h.died = [boxed(h)]
        h.peers["engine"].send("SANDBOX_ENDED", 0, container=boxed(h), why=0,
                               reason="no more memory")
        fails(h, w, s, "suite", "its sandbox ends meanwhile")
        ok(word(h, s)["code"] == "not_waiting", "nothing to approve")
    with World(conf) as h:
        w, s = held(h)
        h.on_JOURNAL_APPEND = lambda p, m: None     # it ends before the record
        n = len(h.records)
        c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        c.connect(h.dir + "/run/suite-0/ctl.sock")
        c = ipc.Chan(c)
        h.wait(lambda: came(c))
        c.send("CTL_PUBLISH_ANSWER", 1, publish=s["publish"], commit=NEW,
               branch="topic", approve=1)
        h.settle()
        ok(word(h, s)["code"] == "not_waiting", "one word is enough")
        h.died = [boxed(h)]
        h.peers["engine"].send("SANDBOX_ENDED", 0, container=boxed(h), why=0,
                               reason="no more memory")
        m = h.wait(lambda: came(c))[0]
        ok(m.name == "CTL_REFUSED" and m["code"] == "not_waiting" and
           not h.grant(PUSH) and n <= len(h.records), "a late one", m)
        c.close()
    with World(conf) as h:
        w, s = held(h)
        h.term()
        ok(h.ended(5) == 0 and h.publishes("end", s["publish"])[0]["fields"][
            "outcome"] == "refused", "the suite's end refuses it")
    with World(conf) as h:
        w, _, s = begun(h, flags=1)
        ok(end(h, w, s)["outcome"] == WOULD, "a dry run waits for nobody")
    with World(conf) as h:      # both wait; what is waived is for one
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        u = h.begin(a, TOOL, client_can=1, inputs=YES)
        override(h, u, box, secret(h, w, box), PRINTS[:1])
        h.judged["nwaived"] = 1
        s, t = [end(h, w, start(h, w, box)) for _ in "12"]
        word(h, s)
        ok(end(h, w, s)["outcome"] == PUSHED, "the first is pushed")
        h.got.pop("push")
        word(h, t)
        m = end(h, w, t)
        ok((m["outcome"], m["step"]) == (REFUSED, "secret") and
           "push" not in h.got, "the second is not", m)


def told(run, commit=NEW, action="accept"):
    """what the front passes on of its client"""
    return ('{"inputResponses":{"confirm":{"action":"%s"}},"state":{"run_id":'
            '"%s","commit":"%s"}}' % (action, run, commit))


def test_user():
    """His yes is as good as an operator's, where that is configured."""
    conf = OFF + "confirm_publish user\n"

    def confirm(h, a, s, said=1, inputs="", can=1, tool="publish"):
        w = h.begin(a, tool, client_can=can, inputs=inputs)
        m = h.ask(w, "PUBLISH_CONFIRM", publish=s["publish"], said=said)
        h.result(w)
        return m

    with World(conf) as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        s = start(h, w, box)
        end(h, w, s)
        h.result(w)
        good = told(s["publish"])
        m = confirm(h, a, s, 0)
        ok((m["host"], m["repo"], m["branch"], m["commit"], m["base"]) == (
            "github.com", "o/w", "topic", NEW, BASE) and
           (m["files"], m["plus"], m["minus"], m["declared"], m["merged"],
            m["paths"]) == (1, 2, 3, 2, 0, ["a", "b/c"]), "the question", m)
        for what, code, more in (
                ("without an answer", "another", {}),
                ("to no question", "another", {
                    "inputs": good.partition(',"state"')[0] + "}"}),
                ("of another one", "another", {"inputs": told("f" * 16)}),
                ("of another commit", "another", {
                    "inputs": told(s["publish"], MOVED)}),
                ("of a client that cannot ask", "not_asked", {
                    "inputs": good, "can": 0}),
                ("of another tool", "not_asked", {
                    "inputs": good, "tool": "secret_scan_override"})):
            ok(refused(confirm(h, a, s, **more), code), what)
        b = client(h, 1002)
        ok(refused(confirm(h, b, s, inputs=good), "unknown_run"),
           "of another client")
        ok(confirm(h, a, s, inputs=told(s["publish"], action="cancel"))[
            "phase"] == APPROVAL and not h.grant(PUSH), "he did not say")
        ok(confirm(h, a, s, inputs=good)["phase"] in (APPROVAL, PUSHING),
           "he agrees")
        w = h.begin(a, "publish")
        ok(end(h, w, s)["outcome"] == PUSHED, "and it is pushed")
        h.result(w)
        r = [x for x in h.records if x["phase"] in ("approved", "push")]
        ok(r[0]["fields"]["agreed"] == "user" and r[0]["flags"] & 1 and
           r[0]["fields"]["commit"] == NEW and r[1]["phase"] == "push",
           "on record before that", r)
        ok(refused(confirm(h, a, s, inputs=good), "not_waiting"), "once")
        clean(h, s, "by the user", 0)
        w = h.begin(a, "publish")
        s = start(h, w, box)
        end(h, w, s)
        h.result(w)
        m = confirm(h, a, s, inputs=told(s["publish"], action="decline"))
        ok((m["outcome"], m["step"]) == (REFUSED, "confirm") and
           "user" in m["reason"], "he does not agree", m)
        w = h.begin(a, "publish")
        s = start(h, w, box)
        end(h, w, s)
        ok(end(h, w, start(h, w, box, branch="other"))["phase"] == APPROVAL
           and h.ask(w, "PUBLISH_WAIT", publish=s["publish"])["phase"] ==
           APPROVAL, "two wait")
        h.result(w)
        confirm(h, a, s, 0)
        w = h.begin(a, "publish")
        n = start(h, w, box)
        ok(n.name == "PUBLISH_STATE" and end(h, w, s)["step"] ==
           "cancelled", "one that its user was asked about makes room for "
           "the next to that branch", n)
        end(h, w, n)
        ok(word(h, n).name == "CTL_PUBLISH_ANSWERED" and
           end(h, w, n)["outcome"] == PUSHED, "the operator may as well")
    with World(OFF + "confirm_publish yes\n") as h:
        a = client(h)
        w = h.begin(a, "publish")
        s = start(h, w, box_of(h, a))
        end(h, w, s)
        h.result(w)
        for said in 0, 1:
            ok(refused(confirm(h, a, s, said, told(s["publish"])),
                       "not_asked"), "where the operator alone does (%d)" %
               said)


# --- pushes whose end is not known --------------------------------------------------

class Again(World):
    """a suite that finds what another left"""

    def __init__(self, left, conf=OFF, line=None):
        self.left = left
        super().__init__(conf)
        if line is not None:
            self.line["look"] = line

    def _program(self, conf):
        super()._program(conf)
        os.makedirs(self.dir + "/state/suite-0")
        with open(self.dir + "/state/suite-0/pushes", "wb") as f:
            f.write(self.left)
        for n in "state", "state/suite-0", "state/suite-0/pushes":
            os.chown(self.dir + "/" + n, self.uid, self.uid)
            os.chmod(self.dir + "/" + n, 0o600 if n[-1] == "s" else 0o700)


class Pipe(fakehub.Hub):
    """a suite whose file of pushes is none"""

    def __init__(self):
        try:
            super().__init__("--transport", "unix", conf=OFF)
        except RuntimeError as e:
            self.why = str(e)
            shutil.rmtree(self.dir)

    def _program(self, conf):
        super()._program(conf)
        os.makedirs(self.dir + "/state/suite-0")
        os.mkfifo(self.dir + "/state/suite-0/pushes")
        for n in "state", "state/suite-0", "state/suite-0/pushes":
            os.chown(self.dir + "/" + n, self.uid, self.uid)
            os.chmod(self.dir + "/" + n, 0o600 if n[-1] == "s" else 0o700)


def left_of(h):
    """what it leaves, as if that had been a while ago; of how many"""
    with open(h.dir + "/state/suite-0/pushes", "rb") as f:
        data = bytearray(f.read())
    size = len(data) // 16
    v = [i for i in range(0, len(data), size) if data[i:i + 4] != bytes(4)]
    for i in v:
        data[i + 8:i + 16] = (1 << 60).to_bytes(8, "little")
    return bytes(data), len(v)


def reconciled(h, run):
    return h.wait(lambda: h.publishes("settled", run), 5)


def test_killed():
    with World() as h:
        _, _, s = placed(h, "exec push")
        left, n = left_of(h)
        ok(n == 1, "a push that may begin is noted", n)
        h.proc.kill()
        h.proc.wait()
    for line, outcome, n in (
            ("at %s in yes\n" % NEW, "pushed", 0),
            ("at %s in yes\n" % MOVED, "pushed", 0),
            ("at - in no\n", "refused", 0),
            ("at %s in no\n" % MOVED, "unknown", 1),
            ("no fetch x\n", "unknown", 1), ("at %s in\n" % NEW, "unknown", 1),
            ("", "unknown", 1)):
        with Again(left, line=line) as h:
            r = reconciled(h, s["publish"])
            ok(r and r[0]["fields"]["outcome"] == outcome and
               r[0]["fields"]["commit"] == NEW and r[0]["flags"] == 2 and
               r[0]["fields"]["of"] == "uid:1001", "the next suite finds out: "
               "%r is %s" % (line[:12], outcome), r)
            h.settle()
            ok(left_of(h)[1] == n, "and forgets what it knows")
            g = h.grant(FETCH)
            ok(g and g["credential"] and not h.grant(PUSH) and
               [m["argv"][5:] for m in h.named("ENGINE_EXEC")] == [
                   ["topic", NEW]], "by reading alone", g)
            v = look(h, s)[1]
            ok((v["outcome"], v["principal"], v["commit"]) == (
                outcome, "uid:1001", NEW) and "reconciled" in v,
               "which is shown", v)
            ok({m["container"] for m in h.named("SANDBOX_CREATE")} <=
               {m["container"] for m in h.named("SANDBOX_STOP")},
               "no sandbox stays")
            if n:
                m = operator(h, "CTL_PUBLISH_RECONCILE", publish=s["publish"])
                h.line["look"] = "at %s in yes\n" % NEW
                ok(m.name == "CTL_PUBLISH_ANSWERED" and h.wait(
                    lambda h=h: left_of(h)[1] == 0, 5), "asked again: known",
                   m)
                ok(look(h, s)[1]["outcome"] == "pushed", "and shown")
            m = operator(h, "CTL_PUBLISH_RECONCILE", publish=s["publish"])
            ok(m["code"] == "unknown_run", "then there is nothing to ask", m)
            if outcome == "pushed":     # and is known again
                h.line["fetch"] = \
                    "tip %s default main format sha1 like - fork -\n" \
                    % NEW
                h.judged = {"step": "unchanged", "reason": "x"}
                w, _, t = begun(h, base=NEW)
                m = end(h, w, t)
                ok((m["outcome"], m["commit"], m["tree"]) == (
                    LANDED, NEW, TREE), "the same again landed", m)
    late = (1 << 63).to_bytes(8, "little")
    i = next(i for i in range(0, len(left), len(left) // 16)
             if left[i:i + 4] != bytes(4))
    with Again(left[:i + 8] + late + left[i + 16:]) as h:
        ok(reconciled(h, s["publish"]), "also where the clock was set back")
    at = left.index(b"github.com")
    branch = left.index(b"topic")
    for what, data in (("damaged", left[:at] + b"/" + left[at + 1:]),
                       ("no branch", left[:branch] + b"-" +
                        left[branch + 1:]),
                       ("cut off", left[:at]), ("empty", b"")):
        with Again(data) as h:
            h.settle(0.5)
            ok(not h.named("SANDBOX_CREATE") and h.serving() and
               left_of(h)[1] == 0, "what is %s is left alone" % what,
               left_of(h)[1])
    why = Pipe().why
    ok("pushes: it is no file of this user's" in why, "what is no file is "
       "not taken", why)
    now = int(time.time() * 1e9).to_bytes(8, "little")
    with Again(left[:i + 8] + now + left[i + 16:]) as h:
        h.settle(1.5)
        ok(not h.named("SANDBOX_CREATE"), "a server has its time")
        operator(h, "CTL_LOCKDOWN", on=1)
        m = operator(h, "CTL_PUBLISH_RECONCILE", publish=s["publish"])
        ok(m["code"] == "busy" and not h.named("SANDBOX_CREATE"),
           "nothing is looked at amid a lockdown", m)


def test_unknown_again():
    """the same suite finds out when it is asked"""
    with World() as h:
        h.line["push"] = "at ? said ok \n"
        w, _, s = begun(h)
        m = end(h, w, s)
        ok(m["outcome"] == UNKNOWN and left_of(h)[1] == 1, "unknown", m)
        m = operator(h, "CTL_PUBLISH_RECONCILE", publish=s["publish"])
        ok(m.name == "CTL_PUBLISH_ANSWERED" and reconciled(h, s["publish"]),
           "it is looked at", m)
        h.settle()
        m = end(h, w, s)
        ok(m["outcome"] == PUSHED and left_of(h)[1] == 0, "and its client "
           "is told", m)
        ok(operator(h, "CTL_PUBLISH_LIST")["rows"].count(s["publish"]) == 1,
           "one row of it")
    for line, n in (("at - said no x\n", 0), ("at %s said ok \n" % NEW, 0),
                    ("at - said none x\n", 1)):
        with World() as h:
            h.line["push"] = line
            w, _, s = begun(h)
            end(h, w, s)
            ok(left_of(h)[1] == n, "left of %r: %d" % (line[:14], n))
    with World() as h:
        _, _, s = placed(h, "exec push")
        h.term()
        ok(h.ended(5) == 0 and left_of(h)[1] == 1, "what its end cut off is "
           "noted")
    with World() as h:
        _, _, s = placed(h, "exec build")
        h.term()
        ok(h.ended(5) == 0 and left_of(h)[1] == 0, "what had not begun is "
           "not")


# --- it does not -------------------------------------------------------------------

def test_barred():
    with World(CONF) as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        n = len(h.named("SANDBOX_CREATE"))
        long = b"".join(b"%d\0" % i for i in range(20001))
        for step, values in (
                ("not_allowed", {"repo": "o/other"}),
                ("not_allowed", {"repo": "o/r"}),
                ("not_allowed", {"host": "other.example"}),
                ("malformed", {"repo": "../x"}), ("malformed", {"host": ""}),
                ("malformed", {"repo": "o/w?x"}),
                ("not_allowed", {"flags": 2}),
                ("protected_ref", {"branch": "main"}),
                ("protected_ref", {"branch": "master"}),
                ("no_such_base", {"base": ""}),
                ("malformed", {"base": "a" * 39}),
                ("malformed", {"base": "0" * 40}),
                ("malformed", {"base": "A" * 40}),
                ("malformed", {"parent2": BASE}),
                ("malformed", {"parent2": "b" * 64}),
                ("malformed", {"parent2": NEW}),
                ("malformed", {"parent2": NEW, "merge_branch": "../x"}),
                ("malformed", {"merge_branch": "main"}),
                ("malformed", {"merged": 1}),
                ("malformed", {"parent2": NEW, "merge_branch": "main",
                               "merged": 3}),
                ("malformed", {"names": b"a"}),
                ("path", {"names": b"\0"}), ("path", {"names": b"/a\0"}),
                ("path", {"names": b"a/../b\0"}),
                ("path", {"names": b"./a\0"}), ("path", {"names": b"a/\0"}),
                ("path", {"names": b"a//b\0"}),
                ("too_large", {"names": long}),
                ("malformed", {"message": b""}),
                ("malformed", {"message": b" \n"}),
                ("malformed", {"message": b"a\0b"}),
                ("malformed", {"message": b"\xff"}),
                ("malformed", {"message": b"\x1b[m"}),
                ("malformed", {"message": b"x" * 65537})) + tuple(
                    ("malformed", {"branch": b}) for b in (
                        "", "a b", "-a", "a..b", "a.lock", "a/.b", "a//b",
                        "/a", "a/", "a~1", "a^", "a:b", "a?", "a*", "a[",
                        "a\\b", "a@{b", "HEAD", "@", "refs/heads/a", BASE,
                        "a.", "x/-y", "a;b", "$(a)", "a'b", "ä", "a\tb")):
            m = start(h, w, box, **values)
            ok(refused(m, step) and len(m["reason"]) > 20 and m["next"],
               "%s %r" % (step, values if values.get("names") is not long
                          else ""), m)
        ok(len(h.named("SANDBOX_CREATE")) == n and
           not h.named("GRANT_OPEN"), "nothing of it was begun")
        for values, word in (
                ({"repo": "o/other"}, "not in allowed_repo: to have it "
                 "written, the operator writes `allowed_repo o/other`"),
                ({"repo": "o/r"}, "in allow_read, to be read only"),
                ({"host": "other.example"},
                 "`allowed_repo other.example/o/w`"),
                ({"branch": "refs/heads/x"}, "without refs/heads/"),
                ({"branch": "a;b"}, "letters, digits")):
            m = start(h, w, box, **values)
            ok(word in m["reason"], "the mend: " + word, m)
        r = h.publishes("refused")
        ok(len(r) > 20 and r[0]["fields"]["step"] == "not_allowed" and
           r[0]["fields"]["repo"] == "o/other", "each is recorded", r[:1])
        b = h.begin(client(h, 1002), "publish")
        ok(refused(start(h, b, box), "not_found"), "no other's sandbox")
        h.peers["proxy"].end()
    with World(OFF) as h:
        a = client(h)
        box = box_of(h, a)
        w = h.begin(a, "publish")
        # a worker that would change the list under the judge's eyes
        fds = [os.memfd_create("x"), ipc.memfd(b"m")]
        os.write(fds[0], b"a\0")
        m = h.ask(w, "PUBLISH_START", fds, container=box, dir="/workspace",
                  host="github.com", repo="o/w", branch="t", base=BASE)
        ok(refused(m, "malformed"), "a list that is not sealed", m)
        s = start(h, w, box)
        b = h.begin(client(h, 1002), "publish")
        ok(refused(h.ask(b, "PUBLISH_WAIT", publish=s["publish"]),
                   "unknown_run"), "another learns nothing of it")
        ok(refused(h.ask(w, "PUBLISH_WAIT", publish=s["publish"],
                         wait_ms=3600001), "bad_argument"),
           "a wait has a limit")


def test_fetch():
    for step, line in (
            ("fetch", "no fetch fatal: unable to access\n"),
            ("no_such_base", "no no_such_base the repository is empty\n"),
            ("upstream_moved",
             "tip %s default main format sha1 like - fork -\n" % MOVED),
            ("protected_ref", "tip - default topic format sha1 like - fork -\n"),
            ("suite", ""), ("suite", "\n"), ("suite", "tip -\n"),
            ("suite", "no nonsense\n"),
            ("suite", "tip - default main format sha256 like - fork -\n"),
            ("suite",
             "tip %s default main format sha1 like - fork -\n" % MOVED[1:]),
            ("suite", "tip - default main format sha1 like - fork x\n"),
            ("suite", "tip - default main format sha1 like - fork - more\n"),
            ("suite", "tip - default main format sha1 like - fork -"),
            ("suite",
             "tip - default %s format sha1 like - fork -\n" % ("x" * 245)),
            ("suite", "x" * 2000 + "\n"), ("suite", "tip\0 -\n")):
        with World() as h:
            h.line["fetch"] = line
            w, _, s = begun(h)
            m = fails(h, w, s, step, "fetch says %r" % line[:40])
            ok(not h.named("JUDGE_PUBLISH"), "and nothing is judged")
            if step == "fetch":
                ok("unable to access" in m["reason"], "with git's words", m)


def test_judge_says():
    for step, values in (
            ("secret", {"step": "secret", "reason": "a secret", "total": 2,
                        "findings": ["aws x 1 " + "f" * 64]}),
            ("sensitive", {"step": "sensitive", "reason": "a workflow"}),
            ("unchanged", {"step": "unchanged", "reason": "nothing"})):
        with World() as h:
            h.judged = values
            w, _, s = begun(h)
            m = fails(h, w, s, step, "the judge refuses")
            ok(m["reason"] == values["reason"] and
               m["total"] == values.get("total", 0) and
               m["findings"] == values.get("findings", []), "in its words",
               m)
            ok("build" not in h.got, "and nothing is built")


def test_judge_lies():
    def twice(h):
        h.on_RUN_READ = lambda p, m: None if "build" in h.got else \
            World.on_RUN_READ(h, p, m)
        h.on_ENGINE_UNPACK = lambda p, m: m.close()
        h.on_JUDGE_FILES = lambda p, m: (m.close(), [
            said(p, "JUDGED", **h.judged) for _ in range(2)])

    def treed(h):
        h.on_JUDGE_FILES = lambda p, m: (m.close(), said(
            p, "JUDGE_TREED", sha1=TREE, sha256="f" * 64))

    def ids(h):
        h.judged = {"tree": TREE, "commit": NEW[1:]}

    def word(h):
        h.judged = {"step": "nonsense", "reason": "x"}

    def dies(h):
        h.on_JUDGE_FILES = lambda p, m: (m.close(), h.kill("judge"))
    for how in twice, ids, word, dies:
        with World() as h:
            how(h)
            w, _, s = begun(h)
            fails(h, w, s, "suite", "a judge: " + how.__name__)
    with World() as h:      # says nothing that counts, and is ended in the end
        treed(h)
        w, _, s = begun(h)
        h.settle()
        ok(h.ask(w, "PUBLISH_WAIT", publish=s["publish"])["phase"] == JUDGING,
           "a tree is no verdict")
    # the publisher and the judge, one of whom lies
    for line in ("tree %s commit %s\n" % (MOVED, NEW),
                 "tree %s commit %s\n" % (TREE, MOVED)):
        with World() as h:
            h.line["build"] = line
            w, _, s = begun(h)
            fails(h, w, s, "disagree", "another id")
    for line in ("no disagree more changed\n",):
        with World() as h:
            h.line["build"] = line
            w, _, s = begun(h)
            fails(h, w, s, "disagree", "more than was declared")


def test_files():
    for step, name, how in (
            ("mode", "ENGINE_FILE", lambda h, p, m: p.send(
                "ENGINE_FILED", m.id, error=22, reason="a directory")),
            ("suite", "ENGINE_UNPACK", lambda h, p, m: p.send(
                "ENGINE_UNPACKED", m.id, error=28, reason="disk full"))):
        with World() as h:
            def on(p, m, h=h, how=how, name=name):
                if m.name == "ENGINE_FILE" and m["op"] == 0:
                    return World.on_ENGINE_FILE(h, p, m)
                m.close()
                return how(h, p, m)
            h.on_JUDGE_FILES = nothing
            setattr(h, "on_" + name, on)
            w, _, s = begun(h)
            fails(h, w, s, step, name)
    with World() as h:      # what the judge refuses is the cause, not a pipe
        h.judged = {"step": "path", "reason": "a bad path"}

        def on_file(p, m):
            if m["op"] == 0:
                World.on_ENGINE_FILE(h, p, m)
            else:
                m.close()
                p.send("ENGINE_FILED", m.id, error=32, reason="Broken pipe")
        h.on_ENGINE_FILE = on_file
        w, _, s = begun(h)
        fails(h, w, s, "path", "a broken pipe")
    with World() as h:      # the publisher keeps a hand in what is judged
        import mmap     # pylint: disable=import-outside-toplevel

        def held(p, m):
            if m["op"] == 0:
                os.ftruncate(m.fds[1], 4096)
                h.map = mmap.mmap(m.fds[1], 4096)
                m.close()
                p.send("ENGINE_FILED", m.id)
            else:
                World.on_ENGINE_FILE(h, p, m)
        h.on_ENGINE_FILE = held
        w, _, s = begun(h)
        fails(h, w, s, "base", "a base that can change")


def test_push_says():
    for outcome, step, line, uses in (
            (REFUSED, "push", "at - said no declined (hook)\n", True),
            (REFUSED, "push", "at - said none 403\n", False),
            (REFUSED, "push", "at ? said no fetch first\n", False),
            (REFUSED, "upstream_moved", "at %s said no fetch first\n" % MOVED,
             False),
            (REFUSED, "disagree", "at %s said ok \n" % NEW, False),
            (REFUSED, "disagree", "at - said ok \n", False),
            (UNKNOWN, "unknown", "at - said none broken\n", True),
            (UNKNOWN, "unknown", "at ? said ok \n", True),
            (UNKNOWN, "unknown", "at %s said none \n" % MOVED, True),
            (UNKNOWN, "unknown", "nonsense\n", True),
            (UNKNOWN, "unknown", "no push\n", True),
            (UNKNOWN, "unknown", "", False)):
        with World() as h:
            h.line["push"], h.uses = line, uses
            w, _, s = begun(h)
            m = fails(h, w, s, step, "push says %r (%d)" % (line[:20], uses),
                      outcome)
            if "declined" in line:
                ok("declined (hook)" in m["reason"], "with the remote's "
                   "words", m)
    with World() as h:
        h.line["push"] = "at - said none \x1b[31mred\n"
        h.uses = False
        w, _, s = begun(h)
        ok("\x1b" not in end(h, w, s)["reason"], "nothing is sent to "
           "terminals")


# --- ends ------------------------------------------------------------------------------

PLACES = ("SANDBOX_CREATE", "PROXY_OPEN", "BROKER_GRANT", "GRANT_OPEN",
          "exec fetch", "RUN_READ", "file 0", "JUDGE_FILES", "exec build",
          "grant push", "exec push", "read push")


def hold(h, place):
    """it stops there; a function that says whether it came there"""
    name, _, arg = place.partition(" ")
    n = len(h.named("SANDBOX_CREATE"))
    if name == "exec":
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"])) \
            if kind(m) == arg else World.on_ENGINE_EXEC(h, p, m)
        return lambda: [m for m in h.named("ENGINE_EXEC") if kind(m) == arg]
    if name == "file":
        h.on_ENGINE_FILE = lambda p, m: m.close()
        return lambda: h.named("ENGINE_FILE")
    if name == "grant":
        h.on_GRANT_OPEN = lambda p, m: None if m["op"] == PUSH else \
            fakehub.Hub.on_GRANT_OPEN(h, p, m)
        return lambda: h.grant(PUSH)
    if name == "read":
        h.on_RUN_READ = lambda p, m: None if "push" in h.got else \
            World.on_RUN_READ(h, p, m)
        return lambda: len(h.named("RUN_READ")) == 4
    setattr(h, "on_" + name, nothing)
    return lambda: len(h.named(name)) > (n if name == "SANDBOX_CREATE" else 0)


def placed(h, place):
    """a publication that stopped there"""
    a = client(h)
    box = box_of(h, a)
    came = hold(h, place)
    w, w2 = h.begin(a, "publish"), h.begin(a, "publish")
    s = start(h, w, box)
    ok(h.wait(came), "it came to " + place)
    h.settle()
    return w, w2, s


def test_goes():
    """Somebody goes at each place: it ends, or goes on to its end."""
    def box(h, _w):
        h.died = [boxed(h)]
        h.peers["engine"].send("SANDBOX_ENDED", 0, container=boxed(h), why=0,
                               reason="no more memory")

    def call(h, w):
        h.kill_worker(w)

    def lock(h, _w):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(h.dir + "/run/suite-0/ctl.sock")
        h.ctl = ipc.Chan(s)
        h.settle()
        h.ctl.send("CTL_LOCKDOWN", 1, on=1)

    for place in PLACES:
        pushing = place in ("exec push", "read push")
        outcome = UNKNOWN if pushing else REFUSED
        for how, step in ((box, "suite"), (call, "cancelled"),
                          (lock, "locked")):
            if how is call and pushing:
                continue    # what goes out is seen to its end: test_pushing
            with World() as h:
                w, w2, s = placed(h, place)
                how(h, w)
                if place == "SANDBOX_CREATE" and how in (call, lock):
                    h.settle()      # a late one is not kept
                    h.peers["engine"].send("SANDBOX_READY", 0,
                                           container=boxed(h))
                what = "%s goes at %s" % (how.__name__, place)
                m = end(h, w2, s)
                ok(m and m["phase"] == ENDED and m["outcome"] == outcome and
                   m["step"] == ("unknown" if pushing else step), what, m)
                if how is not lock:
                    clean(h, s, what, 1)
                if not pushing:
                    ok("push" not in h.got, what + ": nothing was pushed")


def test_broker_goes():
    for name in ("broker", "proxy"):
        for place in ("BROKER_GRANT", "GRANT_OPEN", "exec fetch",
                      "JUDGE_FILES", "exec build", "grant push"):
            if (name, place) == ("proxy", "BROKER_GRANT"):
                continue
            with World() as h:
                _, w2, s = placed(h, place)
                h.kill(name)
                fails(h, w2, s, "suite", "%s goes at %s" % (name, place))
    with World() as h:      # its script finds that out by itself
        _, w2, s = placed(h, "exec push")
        h.kill("proxy")
        h.settle()
        run = [m for m in h.named("ENGINE_EXEC") if kind(m) == "push"][0]
        h.lines[run["run"]] = "at ? said none cannot connect\n"
        h.peers["engine"].send("ENGINE_EXITED", run=run["run"])
        m = end(h, w2, s)
        ok(m["outcome"] == REFUSED and m["step"] == "push", "a grant that "
           "was never used let nothing out", m)


def test_pushing():
    with World() as h:
        w, w2, s = placed(h, "exec push")
        h.kill_worker(w)
        h.settle()
        ok(h.ask(w2, "PUBLISH_WAIT", publish=s["publish"])["phase"] ==
           PUSHING, "a push that began is not given up")
        ok(operator(h, "CTL_PUBLISH_RECONCILE", publish=s["publish"])[
            "code"] == "unknown_run", "nor looked at by others")
        run = [m for m in h.named("ENGINE_EXEC") if kind(m) == "push"][0]
        h.lines[run["run"]] = h.line["push"]
        h.peers["proxy"].send("GRANT_STATE", grant=h.grant(PUSH)["grant"],
                              state=USED, uses=0)
        h.settle()
        h.peers["engine"].send("ENGINE_EXITED", run=run["run"])
        m = end(h, w2, s)
        ok(m["outcome"] == PUSHED, "its end is known", m)
        clean(h, s, "a push without its call", 0)
    with World() as h:      # killed: nobody knows how far it got
        _, w2, s = placed(h, "exec push")
        run = [m for m in h.named("ENGINE_EXEC") if kind(m) == "push"][0]
        h.peers["engine"].send("ENGINE_EXITED", run=run["run"], status=9,
                               why=2)
        fails(h, w2, s, "unknown", "a push that is killed", UNKNOWN)
    with World() as h:      # it could not be started
        h.on_ENGINE_EXEC = lambda p, m: (m.close(), p.send(
            "ENGINE_EXEC_STARTED", m.id, run=m["run"], error=12,
            reason="no memory")) if kind(m) == "push" else \
            World.on_ENGINE_EXEC(h, p, m)
        w, _, s = begun(h)
        fails(h, w, s, "suite", "a push that does not start")


def test_journal():
    with World() as h:
        a = client(h)
        box = box_of(h, a)
        h.on_JOURNAL_APPEND = lambda p, m: p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="disk full") \
            if m["flags"] & 1 else None
        w = h.begin(a, "publish")
        n = len(h.named("SANDBOX_CREATE"))
        for _ in range(20):     # more than there are places
            m = start(h, w, box)
        ok(refused(m, "journal_unavailable") and "disk full" in m["reason"] and
           len(h.named("SANDBOX_CREATE")) == n,
           "what cannot be recorded is not begun", m)
        del h.on_JOURNAL_APPEND
        s = start(h, w, box)
        ok(end(h, w, s)["outcome"] == PUSHED, "later it is")
    with World() as h:      # full when the push is to be granted
        h.on_JOURNAL_APPEND = lambda p, m: p.send(
            "JOURNAL_DONE", m.id, seq=0, reason="disk full") \
            if m["flags"] & 1 and "build" in h.got else \
            fakehub.Hub.on_JOURNAL_APPEND(h, p, m)
        w, _, s = begun(h)
        fails(h, w, s, "suite", "no push without its record")
        ok("push" not in h.got, "nothing was pushed")
    for place in ("GRANT_OPEN", "exec build"):
        with World() as h:
            _, w2, s = placed(h, place)
            h.kill("journald")
            h.settle()
            if place == "GRANT_OPEN":
                del h.on_GRANT_OPEN
                g = h.grant(FETCH)
                h.peers["proxy"].send("GRANT_STATE", grant=g["grant"],
                                      state=OPEN, uses=g["uses"])
            else:
                run = h.named("ENGINE_EXEC")[-1]["run"]
                h.lines[run] = h.line["build"]
                h.peers["engine"].send("ENGINE_EXITED", run=run)
            m = end(h, w2, s)
            ok(m and m["phase"] == ENDED, "without a journal it comes to an "
               "end at " + place, m)
            ok(m["outcome"] != PUSHED or [
                r for r in h.records if r["op"] == "grant" and
                r["phase"] == "start" and r["fields"]["what"] == "push"],
               "no push without its record", m)


def test_places():
    with World() as h:
        hold(h, "exec fetch")
        a, b, c = client(h), client(h, 1002), client(h, 1003)
        w = {x: h.begin(x, "sandbox_initialize") for x in (a, b, c)}
        box = {x: h.box(w[x])["container"] for x in w}
        v = [start(h, w[x], box[x]) for x in (a, a, b, b)]
        ok({m.name for m in v} == {"PUBLISH_STATE"},
           "two of one client, four of all", v)
        ok(refused(start(h, w[a], box[a]), "busy") and
           refused(start(h, w[c], box[c]), "busy"), "and no more")
        h.wait(lambda: len(h.named("ENGINE_EXEC")) == 4)
        for m in h.named("ENGINE_EXEC"):
            h.lines[m["run"]] = "no fetch x\n"
            h.peers["engine"].send("ENGINE_EXITED", run=m["run"])
        for i, x in enumerate((a, a, b, b)):
            ok(end(h, w[x], v[i])["step"] == "fetch", "then they end")
        h.on_ENGINE_EXEC = lambda p, m: World.on_ENGINE_EXEC(h, p, m)
        for _ in range(20):     # b's many push out b's own, not a's
            end(h, w[b], start(h, w[b], box[b]))
        ok(h.ask(w[a], "PUBLISH_WAIT", publish=v[0]["publish"]).name ==
           "PUBLISH_STATE", "what one learns is not lost by others")


def test_shutdown():
    for place in ("SANDBOX_CREATE", "exec fetch", "JUDGE_FILES", "exec push"):
        with World() as h:
            _, _, s = placed(h, place)
            h.term()
            ok(h.ended(5) == 0, "the suite ends at " + place, h.said())
            r = h.publishes("end", s["publish"])
            ok(len(r) == 1 and r[0]["fields"]["outcome"] == (
                "unknown" if place == "exec push" else "refused"),
               "and that of a publication is recorded", r)
            ok(place != "exec push" or h.publishes("push", s["publish"]),
               "with what it was to push")
    for place in "exec build", "exec push":     # with it all sandboxes end
        with World() as h:
            _, _, s = placed(h, place)
            h.kill("engine")
            ok(h.ended(5) is not None, "without an engine the suite ends")
            r = h.publishes("end", s["publish"])
            ok(len(r) == 1 and r[0]["fields"]["outcome"] == (
                "unknown" if place == "exec push" else "refused"),
               "and its publications, on record", r)


if os.getuid() != 0:
    print("1..0 # SKIP only root can play clients of several uids")
    sys.exit(0)
mcp.main(tap, globals(), sys.argv[1:])
