"""The gauntlet: every technique against a target, judged.

A technique is refused when the answer is one that was expected, nothing of it
reached a server, nobody was asked for a name that is not allowed, and the
journal says so.  Each stands on a control: the same without the trick passes,
before all of them and after them.
"""
import os
import time

import framing  # noqa: F401
import git
import hello
import inside
import names
import technique
import tls  # noqa: F401
import world
from technique import TOKEN, Got, Refused, Run, get, origin

GOOD_NAMES = ["tunnel.test", "plain.test", "odd.test", "wide.test",
              "a.wide.test", "inner.test", "git.test", "budget.test",
              "good.dns.test", "pypi.org", "files.pythonhosted.org",
              "crates.io", "x.npmjs.org", "github.com", "www.github.com",
              "api.github.com", "gist.github.com", "uploads.github.com",
              "codeload.github.com", "raw.githubusercontent.com",
              "objects.githubusercontent.com", "lfs.github.com",
              "ssh.github.com", "a.b.github.com", world.LISTED]
EVIL_NAMES = ["evil.test", "eviltunnel.test", "tunnel.test.evil.test",
              "plain.test.evil.test", "data.tunnel.test", "evilwide.test",
              "wide.test.evil.test", "xn--tunnl-esa.test",
              "c2vjcmv0.evil.test", "x.tunnel.test", "inner.test.evil.test"]
ENTRIES = ["allow_host https://tunnel.test", "allow_host http://plain.test",
           "allow_host https://odd.test:8443", "allow_host https://.wide.test",
           "allow_host https://budget.test", "allow_host .dns.test",
           "allow_host http://" + world.LISTED,
           "intercept_host https://inner.test", "grant_host https://git.test"]


def make_world():
    w = world.World(GOOD_NAMES, EVIL_NAMES)
    w.answers.pop(world.LISTED)
    w.answers.update(names.BEHIND)
    return w


# --- controls ------------------------------------------------------------------

def plainly(host, **kw):
    return lambda run: run.ask(run.dial(), get(host, **kw))


def within(host, path=b"/" + TOKEN, port=443, **kw):
    name = host if port == 443 else "%s:%d" % (host, port)
    return lambda run: run.ask(run.inner(host, port=port),
                               origin(name, path, **kw))


def pieces(run):
    """A ClientHello in small records and segments, then a whole exchange."""
    msg, (obj, rd, wr) = hello.real("tunnel.test")
    c, out = run.tunnel("tunnel.test"), hello.records(msg, 30)
    technique.push_out(c, [out[i:i + 70] for i in range(0, len(out), 70)])
    c.settimeout(5)
    while True:
        try:
            obj.do_handshake()
            break
        except technique.ssl.SSLWantReadError:
            c.sendall(wr.read())
            b = c.recv(1 << 16)
            if not b:
                raise OSError("closed") from None
            rd.write(b)
    obj.write(run.fill(origin("tunnel.test")))
    c.sendall(wr.read())
    got, buf = Got(), b""
    while b"\r\n\r\n" not in buf:
        rd.write(c.recv(1 << 16))
        try:
            buf += obj.read(1 << 16)
        except technique.ssl.SSLWantReadError:
            pass
    got.raw = buf
    return got.parse()


def push_granted(run):
    return git.granted(git.GOODPUSH)(run)


CONTROLS = {
    "plain": plainly("plain.test"),
    "post": plainly("plain.test", method=b"POST", body=b"hello",
                    extra=b"Content-Length: 5\r\n"),
    "chunked": plainly("plain.test", method=b"POST",
                       body=b"5\r\nhello\r\n0\r\n\r\n",
                       extra=b"Transfer-Encoding: chunked\r\n"),
    "literal": plainly(world.LISTED),
    "dns": plainly("good.dns.test"),
    "tunnel": within("tunnel.test"),
    "odd": within("odd.test", port=8443),
    "pieces": pieces,
    "inner": within("inner.test"),
    "registry": within("pypi.org"),
    "github": within("github.com", b"/" + TOKEN +
                     b"/r.git/info/refs?service=git-upload-pack"),
    "gitread": within("git.test", b"/" + TOKEN +
                      b"/r.git/info/refs?service=git-upload-pack"),
    "push": push_granted,
    "inside": inside.through,
    "api": within("api.github.com", b"/repos/o/r/pulls?x=" + TOKEN),
}
WAIT = float(os.environ.get("SBX_RECORD_WAIT", "1"))
NEEDS = {"inner": "has_inner", "registry": "has_inner", "github": "has_inner",
         "gitread": "has_inner", "api": "has_inner", "push": "has_grants",
         "inside": "has_whole"}


def token(n):
    return b"tok%013x" % (n * 7919 + 4096)


def arrived(w, tok):
    """At a good server; maybe over a connection that is older than this."""
    return any(tok in a.data for a in w.arrived if not world.is_evil(*a.to))


def run_control(target, name, number):
    """None, or what is wrong with it."""
    w, tok = target.world, token(number)
    w.mark()
    box = target.box()
    run = Run(target, box, tok, number)
    try:
        got = CONTROLS[name](run)
        v = got.verdict()
        time.sleep(0.05)
        if v != 200:
            return "answered %s %s" % (v, got.text[:120])
        if not arrived(w, tok):
            return "did not arrive"
    except Refused as e:
        return "refused: %s %s" % (e.got.verdict(), e.got.text[:120])
    except (OSError, technique.ssl.SSLError) as e:
        return repr(e)
    finally:
        run.close()
        target.drop(box)
        target.forget(box)
    return None


# --- techniques -------------------------------------------------------------------

class Row:
    """What came of one."""

    def __init__(self, t):
        self.t, self.got, self.text = t, "", ""
        self.leaks, self.records, self.wrong, self.skipped = [], set(), [], ""

    @property
    def refused(self):
        return not self.leaks

    def judge(self, target):
        t = self.t
        want = t.want if isinstance(t.want, (set, frozenset)) else {t.want}
        if self.leaks:
            self.wrong.append("; ".join(self.leaks))
        if target.name == "sbx":
            if self.got not in want:
                self.wrong.append("got %s %s" % (self.got, self.text))
            w = t.record if isinstance(t.record, (set, frozenset)) else \
                {t.record}
            if None not in w and not any(fits(r, x) for r in self.records
                                         for x in w):
                self.wrong.append("recorded %s" % (self.records or "nothing"))
        return not self.wrong


def fits(record, want):
    return want is not None and record[0] == want[0] and \
        want[1] in ("", record[1])


def leaks(run, t):
    """How anything of it got out."""
    w, out = run.world, []
    for a in w.arrivals():
        if world.is_evil(*a.to):
            out.append("reached %s:%d" % a.to)
        elif t.group == "sni" and a.spoke:
            out.append("bytes reached the good server")
    if not t.reach and arrived(w, run.token):
        out.append("the data reached the good server")
    evil = {q for q in map(str.lower, w.questions())
            if q in EVIL_NAMES or q.endswith(".evil.test")}
    if evil:
        out.append("asked for " + ", ".join(sorted(evil)[:3]))
    return sorted(set(out))


def run_one(target, t, number):
    row = Row(t)
    if t.only and t.only != target.name:
        row.skipped = "only " + t.only
        return row
    need = NEEDS.get(t.control)
    if need and not getattr(target, need):
        row.skipped = "no " + need[4:]
        return row
    target.world.mark()
    box = target.box()
    run = Run(target, box, token(number), number)
    try:
        row.got, row.text = run.do(t)
    except Refused as e:
        row.got, row.text = e.got.verdict(), e.got.text
    except (OSError, technique.ssl.SSLError) as e:
        row.got, row.text = "close", repr(e)
    run.close()
    time.sleep(0.03)
    row.leaks = leaks(run, t)
    if target.has_records:
        w = t.record if isinstance(t.record, (set, frozenset)) else {t.record}
        row.records = target.denials(box, 0 if None in w else WAIT)
    if hasattr(target, "alive") and not target.alive():
        row.wrong.append("the proxy died")
    target.drop(box)
    target.forget(box)
    row.judge(target)
    return row


def select(only=()):
    """Techniques whose group is one of only, or whose name has one."""
    return [t for t in technique.ALL if not only or t.group in only or
            any(o in t.name for o in only)]


def run_all(target, only=(), each=None):
    """(rows, {control: what is wrong})"""
    todo, number, wrong = select(only), 0, {}
    controls = sorted({t.control for t in todo} & set(CONTROLS))
    for again in ("before", "after"):
        for name in controls:
            need = NEEDS.get(name)
            if need and not getattr(target, need):
                continue
            number += 1
            why = run_control(target, name, 100000 + number)
            if why:
                wrong[name + ", " + again] = why
        if again == "before":
            rows = []
            for i, t in enumerate(todo):
                row = run_one(target, t, i)
                rows.append(row)
                if each:
                    each(row)
    return rows, wrong


# --- the table --------------------------------------------------------------------

def ascii(text):
    return text.encode("ascii", "backslashreplace").decode()


def shown(x):
    if isinstance(x, (set, frozenset)):
        return "|".join(sorted(map(shown, x)))
    if isinstance(x, tuple):
        return "/".join(map(str, x)) if x else ""
    return "-" if x is None else str(x)


def line(row):
    return "%-4s %-10s %-58.58s %-20s %-16s %s" % (
        "SKIP" if row.skipped else "ok" if not row.wrong else "FAIL",
        row.t.group, ascii(row.t.name),
        shown(row.t.want), shown(row.got), shown(row.records) or "-")


def by_group(rows):
    out = {}
    for r in rows:
        g = out.setdefault(r.t.group, [0, 0, 0])
        g[0] += 1
        if r.skipped:
            g[2] += 1
        elif r.refused:
            g[1] += 1
    return out


def main(target, only=(), verbose=True):
    def each(row):
        if verbose or row.wrong:
            print(line(row), flush=True)
        if row.wrong:
            print("     ^ " + "; ".join(row.wrong)[:300], flush=True)
    rows, wrong = run_all(target, only, each)
    for name, why in wrong.items():
        print("control %s: %s" % (name, why))
    return rows, wrong
