#!/usr/bin/env python3
"""sbx-broker, driven as the monitor does, with couriers that are the test's
own: what it takes as a source, what it gives to whom, and what it never
tells."""
import base64
import ctypes
import hashlib
import os
import pwd
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

PROGRAM = os.environ["SBX_BUILD"] + "/sbx-broker"
COURIER, JOURNALD, COMMAND = 12, 4, 17      # enum sbx_proc
FETCH, PUSH, API = 0, 1, 2                  # enum sbx_grant_op
REPO_VIEW, ISSUE_COMMENT = 0, 10            # enum sbx_rest_op
NOENT, TIMEOUT, POLICY = -15, -18, -19      # enum sbx_error
STATIC = "ghp_" + "StaticCanary" * 3
MINTED = "ghs_" + "MintedCanary" * 3
COMMANDED = "gho_" + "CommandCanary" * 2
OID = "%040x"
t = mcp.Tap()
top = tempfile.mkdtemp(prefix="sbx-broker-")


def unprivileged():
    """as nobody where the suite's users are not installed"""
    if os.geteuid() != 0:
        return {}
    try:
        pwd.getpwnam("sbx-broker")
        return {}
    except KeyError:
        return {"user": 65534, "group": 65534, "extra_groups": []}


def own(path):
    """Whoever the program will be when it opens files owns it."""
    u = unprivileged().get("user")
    if u is not None:
        os.chown(path, u, u)
    return path


def write(name, data, mode=0o600):
    path = os.path.join(top, name)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)
    return own(path)


def key(name, *argv):
    """A private key of openssl's, and its file."""
    pem = subprocess.run(["openssl", *argv], check=True,
                         capture_output=True).stdout
    return write(name, pem)


class Courier:
    """The other end of BROKER_CHILD."""

    def __init__(self, fd, want=0):
        import socket
        self.want = want        # the id of its BROKER_WANT
        self.ch = ipc.Chan(socket.socket(fileno=fd))

    def ready(self):
        m = self.ch.recv(want="COURIER_START")
        m.close()
        self.ch.send("COURIER_READY")
        return self

    def minted(self, token=MINTED, life=3600, **more):
        self.ch.send("COURIER_MINTED", status=201, token=token,
                     expires_wall_s=int(time.time()) + life, **more)

    def over(self, **more):
        self.ch.send("COURIER_OVER", **more)


class Broker:
    """The program and the test as its monitor."""

    def __init__(self, *sources, bot_commands=0, ready=True, journal=False,
                 author="", program=PROGRAM, **popen):
        popen = {**unprivileged(), **popen}
        mine, theirs = ipc.pair()
        roots = ipc.memfd(b"roots")
        self.ch = ipc.Chan(mine)
        self.ch.send("BROKER_START", _fds=[roots], sources=sources,
                     bot_commands=bot_commands, author=author)
        os.close(roots)
        self.proc = ipc.spawn(program, theirs, stderr=subprocess.PIPE,
                              **popen)
        self.next = 0
        self.ch.recv(want="HELLO")
        self.journal = None
        if journal:
            a, b = ipc.pair()
            self.ch.send("INTRODUCE", _fds=[b.fileno()], peer=JOURNALD)
            b.close()
            self.journal = ipc.Chan(a)
        self.idle = []
        if ready and sources:
            self.idle = [self.courier() for _ in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()

    def end(self):
        self.ch.close()
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.err = self.proc.stderr.read().decode("utf-8", "replace")
        self.proc.stderr.close()

    def courier(self, timeout=5.0):
        """Bring the one that it wants, and make it ready."""
        return self.child(COURIER, timeout).ready()

    def child(self, proc, timeout=5.0):
        others = []
        try:
            while True:
                m = self.ch.recv(timeout, want="BROKER_WANT")
                if m["proc"] == proc:
                    break
                others.append(m)
        finally:
            self.ch.kept += others
        a, b = ipc.pair()
        self.ch.send("BROKER_CHILD", m.id, [b.fileno()], proc=proc)
        b.close()
        return Courier(a.detach(), m.id)

    def dial(self, timeout=5.0):
        """Its next dial, answered by one end of a pair."""
        m = self.ch.recv(timeout, want="BROKER_DIAL")
        a, b = ipc.pair()
        self.ch.send("BROKER_DIALLED", m.id, [b.fileno()])
        a.close()
        b.close()
        return m

    def job(self, want=None, timeout=5.0):
        """The courier that is given something, and what; others are made
        ready meanwhile."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for c in list(self.idle):
                if not select.select([c.ch], [], [], 0.02)[0]:
                    continue
                m = c.ch.recv(1)
                self.idle.remove(c)
                assert want is None or m.name == want, (m.name, want)
                return c, m
            try:
                self.idle.append(self.courier(0.02))
            except (ipc.Timeout, ipc.Closed):
                pass    # there is no wish, or it is over
        raise ipc.Timeout()

    def ask(self, name, timeout=5.0, want=None, **fields):
        self.next += 1
        self.ch.send(name, 0x1000 + self.next, **fields)
        return self.ch.recv(timeout, want=want)

    def grant(self, n=1, op=FETCH, host="github.com", repo="own/repo",
              uses=10, lifetime_ms=60000, **more):
        self.ch.send("BROKER_GRANT", grant="%016x" % n, op=op, host=host,
                     repo=repo, uses=uses, lifetime_ms=lifetime_ms, **more)
        return self.ch.recv(want="BROKER_GRANTED")

    def exchange(self, n=1, mid=None):
        """Its id; the answer comes later."""
        self.next += 1
        mid = mid or 0x2000 + self.next
        fds = [os.open("/dev/null", os.O_RDWR) for _ in range(2)]
        self.ch.send("BROKER_EXCHANGE", mid, fds, grant="%016x" % n)
        for fd in fds:
            os.close(fd)
        return mid

    def rest(self, credential=1, op=REPO_VIEW, host="github.com",
             repo="Own/Repo", **more):
        self.next += 1
        mid = 0x3000 + self.next
        fds = [os.open("/dev/null", os.O_RDWR) for _ in range(3)]
        self.ch.send("BROKER_REST", mid, fds, **{
            "op": op, "host": host, "repo": repo, "credential": credential,
            "within_ms": 38000, **more})
        for fd in fds:
            os.close(fd)
        return mid

    def done(self, mid, timeout=5.0, want="BROKER_EXCHANGED"):
        m = self.ch.recv(timeout, want=want)
        assert m.id == mid, (m, mid)
        return m

    def killed(self, c, timeout=5.0):
        """Is the monitor to kill that courier?"""
        return self.ch.recv(timeout, want="BROKER_KILL").id == c.want

    def status(self):
        return self.state()["lines"]

    def state(self):
        return self.ask("BROKER_STATUS", want="BROKER_STATE")


RSA = key("rsa.pem", "genrsa", "-traditional", "2048")
RSA8 = key("rsa8.pem", "genpkey", "-algorithm", "RSA", "-pkeyopt",
           "rsa_keygen_bits:2048")
APP = "github_app 12345 678 " + RSA
TOKEN = "github_token_file " + write("token", b"\n  " + STATIC.encode() + b"\n")


def mint(b, c=None, **more):
    """Serve one mint."""
    b.dial()
    c, m = b.job("COURIER_MINT")
    m.close()
    c.minted(**more)
    c.ch.close()
    return m


def revoked(b, **over):
    """Serve one revocation; the token."""
    b.dial()
    c, m = b.job("COURIER_REVOKE")
    m.close()
    c.over(**{"status": 204, **over})
    c.ch.close()
    return m["token"]


def serve(b, mid, **over):
    """Serve one exchange of git; what its courier was told."""
    c, m = b.job("COURIER_GIT")
    m.close()
    c.over(**over)
    c.ch.close()
    b.done(mid)
    return m


# --- sources -------------------------------------------------------------------


def bad_source(line, *words, **popen):
    with Broker(line, ready=False, **popen) as b:
        lines = [x for x in b.status() if re.match(r"[\w.]+: github_", x)]
        ok = len(lines) == 1 and all(w in lines[0] for w in words) and \
            not lines[0].endswith(": usable")
        t.ok(ok, "status says why: " + ", ".join(words), b.status())
        m = b.grant(host=lines[0].split(":")[0] if lines else "github.com")
        t.ok(m["error"] not in (0, NOENT) and words[0] in m["reason"],
             "so does a grant", m)
        t.ok(b.ask("PING", want="PONG")["healthy"] == 1,
             "and the broker lives")


def test_good_sources():
    with Broker(APP, TOKEN, "github_token_command 30",
                "github_app ghe.example Iv1.0abc 9 " + RSA8,
                "github_token_file ghe.example " + write(
                    "gtoken", b"0123456789abcdef0123456789abcdef01234567"),
                ready=False) as b:
        lines = b.status()
        want = subprocess.run(
            "openssl rsa -in %s -pubout -outform DER 2>/dev/null | openssl "
            "sha256 -binary | openssl base64" % RSA, shell=True, check=True,
            capture_output=True, text=True).stdout.strip()
        t.ok("github.com: github_app 12345 installation 678 key SHA256:%s: "
             "usable" % want in lines, "an App is shown with its fingerprint",
             lines)
        t.ok(any(x.startswith("ghe.example: github_app Iv1.0abc installation "
                              "9 key SHA256:") and x.endswith(": usable")
                 for x in lines), "PKCS#8 and a client id, too", lines)
        t.ok("github.com: github_token_file: usable" in lines and
             "ghe.example: github_token_file: usable" in lines and
             "github.com: github_token_command: usable" in lines,
             "the others are usable", lines)
        t.ok("/bin/x" not in repr(lines) and STATIC not in repr(lines),
             "nothing of a secret is shown")
        t.ok(b.grant()["source"] == "command", "the command comes first")
        t.ok(b.grant(2, host="ghe.example")["source"] == "app",
             "an App comes before a token")
        m = b.grant(3, host="other.example")
        t.ok(m["error"] == NOENT and "no source" in m["reason"],
             "a host without source", m)
    t.ok(STATIC not in b.err, "nothing of a secret is logged", b.err)


def test_bad_files():
    link = os.path.join(top, "link")
    os.symlink(RSA, link)
    fifo = os.path.join(top, "fifo")
    os.mkfifo(fifo, 0o600)
    own(fifo)
    ec = key("ec.pem", "ecparam", "-genkey", "-name", "prime256v1", "-noout")
    small = key("small.pem", "genrsa", "-traditional", "1024")
    enc = key("enc.pem", "genrsa", "-aes128", "-passout", "pass:x", "2048")
    app = "github_app 1 2 "
    for path, *words in (
            (link, "symbolic link"), (fifo, "no regular file"),
            (top, "no regular file"), (top + "/none", "No such file"),
            (write("group", b"x", 0o640), "mode is 0640", "chmod 0600"),
            (write("other", b"x", 0o604), "mode is 0604"),
            (write("junk", b"x" * 100), "no private key"),
            (write("big", b"x" * 20000), "larger than 16384"),
            (ec, "not of RSA"), (small, "1024 bits"),
            (enc, "no private key", "encrypted")):
        bad_source(app + path, *words)
    token = "github_token_file "
    for data, *words in (
            (b"", "empty"), (b" \n ", "empty"), (b"short", "length"),
            (STATIC.encode() + b" x", "characters"),
            (STATIC.encode() + b"\nghp_second", "characters"),
            (b"x" * 40, "begin as GitHub's"), (b"ghp_" + b"a" * 2100, "length"),
            (b"x" * 5000, "larger than 4096")):
        bad_source(token + write("bad", data), *words)
    if os.geteuid() == 0:
        path = write("foreign", STATIC.encode())
        os.chown(path, 12345, 12345)
        bad_source(token + path, "owner is uid 12345", "chown")
    else:
        t.absent("only root has files of others", "a file of somebody else")


NOBODY = 65534


def acl(path, *users, group=0, other=0):
    """As systemd does it: root reads, and so do users."""
    entries = [(1, 4, 2**32 - 1), *((2, 4, u) for u in users),
               (4, group, 2**32 - 1), (16, 4, 2**32 - 1),
               (32, other, 2**32 - 1)]
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) +
                b"".join(struct.pack("<HHI", *e) for e in entries))


def mount(*argv):
    r = subprocess.run(["mount", *argv], capture_output=True, text=True)
    return r.stderr if r.returncode else ""


def test_systemd():
    """What systemd gives to a unit's user is taken, and nothing weaker."""
    what = "a credential of systemd"
    if os.geteuid() != 0:
        t.absent("only root can give files away", what)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    at = os.path.join(top, "given")
    os.mkdir(at)
    why = "unshare" if libc.unshare(0x00020000) else \
        mount("--make-rprivate", "/") or \
        mount("-t", "tmpfs", "-o", "mode=0755", "none", at)
    if why:
        t.absent("nothing can be mounted: " + why, what)
        return
    os.chmod(top, 0o755)
    files = {"good": ((NOBODY,), {}), "two": ((NOBODY, 12345), {}),
             "alien": ((12345,), {}), "group": ((NOBODY,), {"group": 4}),
             "other": ((NOBODY,), {"other": 4})}
    for d in (at, top):
        for name, (users, more) in files.items():
            path = os.path.join(d, "given-" + name)
            with open(path, "w", encoding="ascii") as f:
                f.write(STATIC)
            acl(path, *users, **more)
    as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    line = f"github_token_file {at}/given-"
    bad_source(line + "good", "owner is uid 0", "read-only", **as_user)
    t.ok(mount("-o", "remount,ro", at) == "", "it is read-only now")
    with Broker(line + "good", ready=False, **as_user) as b:
        t.ok("github.com: github_token_file: usable" in b.status(),
             "root's file on a tmpfs, with an ACL for us alone", b.status())
    for name in ("two", "group", "other"):
        bad_source(line + name, "readable by others", **as_user)
    bad_source(line + "alien", "Permission denied", **as_user)
    bad_source(f"github_token_file {top}/given-good", "in memory", **as_user)
    if mount("-t", "tmpfs", "none", "/run") == "":
        os.makedirs("/run/credentials/x.service", 0o700)
        bad_source("github_token_file /run/credentials/x.service/y",
                   "Permission denied", "User=", **as_user)
        subprocess.run(["umount", "/run"], check=True)
    subprocess.run(["umount", at], check=True)


def in_unit():
    """What the broker of a unit's user says of its credentials."""
    at = os.environ["CREDENTIALS_DIRECTORY"]
    for name in sorted(os.listdir(at)):
        path = os.path.join(at, name)
        with Broker("github_token_file " + path, ready=False,
                    user=os.geteuid(), group=os.getegid(),
                    extra_groups=[]) as b:
            print(name, "%o" % os.stat(path).st_mode, b.status())


def test_unit():
    """The same by systemd itself, where it runs the machine."""
    what = "credentials of a unit"
    if os.geteuid() != 0 or not os.path.isdir("/run/systemd/system"):
        t.absent("systemd does not run this machine, or not for us", what)
        return
    plain = write("unit", STATIC.encode())
    subprocess.run(["systemd-creds", "encrypt", "--name=sealed", plain,
                    plain + ".cred"], check=True, capture_output=True)
    r = subprocess.run([
        "systemd-run", "--quiet", "--wait", "--pipe", "-p", "User=nobody",
        "-p", "LoadCredential=plain:" + plain, "-p",
        "LoadCredentialEncrypted=sealed:" + plain + ".cred", "-E", "SBX_BUILD",
        "-E", "SBX_SRC", sys.executable, os.path.abspath(__file__), "unit"],
        capture_output=True, text=True, timeout=60)
    t.ok(r.returncode == 0 and
         r.stdout.count("github_token_file: usable") == 2 and
         STATIC not in r.stdout, what, (r.stdout, r.stderr))


def test_bad_lines():
    for line, *words in (
            ("github_app 1 2", "[HOST] ID INSTALLATION KEYFILE"),
            ("github_app a b c d e", "[HOST] ID INSTALLATION KEYFILE"),
            ("github_app no/id 2 /x", "no App's id"),
            ("github_app 1 x /x", "no installation's number"),
            ("github_app 1 2 rel", "begins with /"),
            ("github_app 1 2 %d/x", "LoadCredential="),
            ("github_token_file /run/credentials/no.service/x",
             "No such file"),
            ("github_app 0x7f.1 1 2 /x", "no host"),
            ("github_token_file", "[HOST] FILE")):
        bad_source(line, *words)
    mine, theirs = ipc.pair()
    ch = ipc.Chan(mine)
    null = os.open("/dev/null", os.O_RDONLY)
    ch.send("BROKER_START", _fds=[null], sources=["allowed_repo x/y"])
    os.close(null)
    p = ipc.spawn(PROGRAM, theirs, stderr=subprocess.PIPE, **unprivileged())
    err = p.communicate(timeout=10)[1]
    t.ok(p.returncode == 2 and b"is none of" in err,
         "a line that names no source ends it at once", err)
    ch.close()


# --- git ------------------------------------------------------------------------


def test_static():
    with Broker(TOKEN, journal=True) as b:
        t.ok(b.grant(repo="own/repo")["source"] == "token", "granted")
        mid = b.exchange()
        c, m = b.job("COURIER_GIT")
        t.ok((m["op"], m["host"], m["port"], m["repo"], m["user"],
              m["token"], m["ref"], len(m.fds)) ==
             (FETCH, "github.com", 443, "own/repo", "x-access-token", STATIC,
              "", 2), "the courier gets grant, token and descriptors", m)
        m.close()
        c.over(status=200, out_bytes=7, in_bytes=9)
        m = b.done(mid)
        t.ok((m["error"], m["begun"], m["status"], m["out_bytes"],
              m["in_bytes"]) == (0, 1, 200, 7, 9), "its end is told", m)
        c.ch.close()
        r = b.journal.recv(want="JOURNAL_APPEND")
        f = dict(zip(r["fields"][::2], r["fields"][1::2]))
        t.ok(r["op"] == "exchange" and r["code"] == 0 and
             f == {"verdict": "allowed", "grant": "%016x" % 1,
                   "what": "fetch", "host": "github.com",
                   "repo": "own/repo", "source": "token", "status": "200",
                   "out": "7", "in": "9"}, "and recorded", (r, f))


def test_grants():
    with Broker(TOKEN) as b:
        for more, words in (
                ({"op": API}, "none of git"), ({"op": 77}, "none of git"),
                ({"host": "GitHub.com"}, "canonical"),
                ({"host": "github.com."}, "canonical"),
                ({"repo": "Own/repo"}, "lower case"),
                ({"repo": "own/../x"}, "lower case"),
                ({"repo": "own"}, "lower case"),
                ({"uses": 0}, "no use"), ({"lifetime_ms": 0}, "no use"),
                ({"lifetime_ms": 3600001}, "too long"),
                ({"ref": "refs/heads/x"}, "only a push"),
                ({"op": PUSH}, "its ref"),
                ({"op": PUSH, "ref": "refs/heads/x", "old_id": OID % 1,
                  "new_id": OID % 0}, "delete"),
                ({"op": PUSH, "ref": "refs/heads/x", "old_id": OID % 1,
                  "new_id": "%064x" % 2}, "of one kind")):
            m = b.grant(**more)
            t.ok(m["error"] < 0 and words in m["reason"],
                 "refused: " + words, (more, m))
        t.ok(b.grant(7, uses=1)["error"] == 0, "a good one")
        t.ok("there is one" in b.grant(7)["reason"], "not twice")
        m = b.done(b.exchange(8))
        t.ok(m["code"] == "not_granted" and m["begun"] == 0,
             "an exchange of no grant", m)
        serve(b, b.exchange(7))
        m = b.done(b.exchange(7))
        t.ok(m["code"] == "not_granted" and "used up" in m["reason"],
             "a read uses one each time", m)
        b.grant(9, lifetime_ms=300)
        time.sleep(0.5)
        t.ok(b.done(b.exchange(9))["code"] == "not_granted", "it expires")
        b.grant(10)
        mid = b.exchange(10)
        c, m = b.job()
        m.close()
        b.ch.send("BROKER_REVOKE", grant="%016x" % 10)
        m = b.done(mid)
        t.ok(m["code"] == "not_granted" and m["begun"] == 1 and
             "revoked" in m["reason"],
             "revoked, and with it what was under way", m)
        try:
            c.ch.recv(2)
            ended = False
        except ipc.Closed:
            ended = True
        t.ok(ended, "its courier is let go")
        t.ok("grants: 1" in b.status(), "and it is gone", b.status())


def test_push():
    with Broker(TOKEN) as b:
        push = {"op": PUSH, "ref": "refs/heads/x", "old_id": OID % 1,
                "new_id": OID % 2, "force": 1, "uses": 1}
        b.grant(1, **push)
        a = b.exchange()
        c, m = b.job()
        t.ok((m["op"], m["ref"], m["old_id"], m["new_id"], m["force"]) ==
             (PUSH, "refs/heads/x", OID % 1, OID % 2, 1),
             "the courier is told the one change", m)
        m.close()
        second = b.exchange()
        try:
            b.job(timeout=0.5)
            t.ok(False, "a second one waits for the first")
        except ipc.Timeout:
            t.ok(True, "a second one waits for the first")
        c.over(status=200, out_bytes=0, in_bytes=500)
        c.ch.close()
        b.done(a)
        c, m = b.job()
        m.close()
        c.over(status=200, out_bytes=4, in_bytes=10)
        c.ch.close()
        b.done(second)
        t.ok(True, "asking for the refs is no use, nor a probe")
        third = b.exchange()
        c, m = b.job()
        m.close()
        fourth = b.exchange()
        c.over(status=200, out_bytes=1000, in_bytes=10)
        c.ch.close()
        b.done(third)
        m = b.done(fourth)
        t.ok(m["code"] == "not_granted" and "used up" in m["reason"],
             "a push is, and who waited is refused", m)
        b.grant(2, **push)
        mid = b.exchange(2)
        c, m = b.job()
        m.close()
        c.ch.close()
        b.done(mid)
        mid = b.exchange(2)
        c, m = b.job()
        t.ok(m["new_id"] == OID % 2,
             "a courier that dies before it begins costs no use", m)
        m.close()
        c.ch.send("COURIER_BEGUN")
        c.ch.close()
        b.done(mid)
        m = b.done(b.exchange(2))
        t.ok("used up" in m["reason"],
             "one that dies after it may have pushed", m)
        b.grant(3, lifetime_ms=500, **push)
        mid = b.exchange(3)
        c, m = b.job()
        m.close()
        second = b.exchange(3)
        time.sleep(0.7)
        c.over(status=200)
        c.ch.close()
        b.done(mid)
        m = b.done(second)
        t.ok(m["code"] == "not_granted" and "time is over" in m["reason"] and
             "grants: 2" in b.status(), "none begins behind its time", m)


def test_push_reads():
    with Broker(TOKEN) as b:
        b.grant(1, op=PUSH, ref="refs/heads/x", old_id=OID % 1,
                new_id=OID % 2, uses=1)
        for _ in range(8):
            serve(b, b.exchange(), status=200, in_bytes=500)
        m = b.done(b.exchange())
        t.ok(m["code"] == "not_granted" and "too often" in m["reason"],
             "a push grant is no grant to read", m)
        b.grant(2, op=PUSH, ref="refs/heads/x", old_id=OID % 1,
                new_id=OID % 2, uses=1)
        for _ in range(7):
            serve(b, b.exchange(2), status=200, in_bytes=500)
        serve(b, b.exchange(2), status=200, out_bytes=500)
        m = b.done(b.exchange(2))
        t.ok("used up" in m["reason"], "with seven reads it pushes", m)


# --- minting -----------------------------------------------------------------------


def test_mint():
    with Broker(APP, journal=True) as b:
        b.grant(1, uses=20)
        first, second = b.exchange(), b.exchange()
        d = b.dial()
        t.ok((d["host"], d["port"]) == ("api.github.com", 443),
             "the API is dialled", d)
        c, m = b.job("COURIER_MINT")
        t.ok((m["host"], m["port"], m["prefix"], m["installation"], m["repo"],
              m["permissions"], len(m.fds)) ==
             ("api.github.com", 443, "", 678, "own/repo",
              '{"contents":"read","metadata":"read"}', 1),
             "one mint, for one repository and the least there is", m)
        t.ok(m["jwt"].count(".") == 2 and len(m["jwt"]) > 300,
             "with a JWT")
        m.close()
        t.ok(not any(x.name == "BROKER_DIAL" for x in b.ch.kept) and
             b.ch.quiet(0.3) or all(x.name != "BROKER_DIAL"
                                    for x in b.ch.kept),
             "the second exchange waits for the same")
        c.minted()
        c.ch.close()
        got = [serve_one(b) for _ in range(2)]
        t.ok(all(x["token"] == MINTED for x in got), "both get it", got)
        ends = {b.ch.recv(want="BROKER_EXCHANGED").id for _ in range(2)}
        t.ok(ends == {first, second}, "and both end")
        serve(b, b.exchange())
        t.ok(all(x.name != "BROKER_DIAL" for x in b.ch.kept),
             "a third finds it in the cache")
        t.ok("tokens: 1 kept, 1 minted" in b.status(), "status counts it",
             b.status())
        b.grant(2, repo="own/other")
        mid = b.exchange(2)
        m = mint(b, token="ghs_" + "B" * 36)
        t.ok(m["repo"] == "own/other", "another repository, another token")
        t.ok(serve(b, mid)["token"] == "ghs_" + "B" * 36, "its own")
        b.grant(3, op=PUSH, ref="refs/heads/x", old_id=OID % 1,
                new_id=OID % 2)
        mid = b.exchange(3)
        m = mint(b, token="ghs_" + "C" * 36)
        t.ok(m["permissions"] == '{"contents":"write","metadata":"read"}',
             "a push needs another, too", m)
        serve(b, mid, out_bytes=100)
        records = []
        while b.journal.kept or select.select([b.journal], [], [], 0.3)[0]:
            records.append(b.journal.recv(1))
        mints = [dict(zip(r["fields"][::2], r["fields"][1::2]))
                 for r in records if r["op"] == "token_mint"]
        t.ok(len(mints) == 3 and [x["token"] for x in mints] ==
             ["1", "2", "3"] and mints[0]["app"] == "12345" and
             mints[0]["repo"] == "own/repo" and "expires" in mints[0] and
             mints[0]["permissions"] == m_perm(), "each mint is recorded",
             mints)
        uses = [dict(zip(r["fields"][::2], r["fields"][1::2]))
                for r in records if r["op"] == "exchange"]
        t.ok([x["token"] for x in uses] == ["1", "1", "1", "2", "3"],
             "and which token an exchange had", uses)
        t.ok(MINTED not in repr(records), "nothing of it is recorded")
    t.ok(MINTED not in b.err, "nor logged")


def m_perm():
    return '{"contents":"read","metadata":"read"}'


def serve_one(b):
    c, m = b.job("COURIER_GIT")
    m.close()
    c.over(status=200)
    c.ch.close()
    return m


def test_expiry():
    with Broker(APP) as b:
        b.grant(1, uses=20)
        mid = b.exchange()
        mint(b, life=301)
        serve(b, mid)
        mid = b.exchange()
        t.ok(serve(b, mid)["token"] == MINTED, "one second of use")
        t.ok(revoked(b) == MINTED, "it is revoked five minutes before its end")
        mid = b.exchange()
        mint(b, token="ghs_" + "N" * 36, life=100)
        t.ok(serve(b, mid)["token"] == "ghs_" + "N" * 36,
             "none is used in its last five minutes")
        t.ok(revoked(b) == "ghs_" + "N" * 36,
             "one that was so young is revoked after its exchange")
        mid = b.exchange()
        mint(b)
        serve(b, mid)
        t.ok(any("clock" in x for x in b.ch.log),
             "a strange life is blamed on the clock", b.ch.log)
        mid = b.exchange()
        other = b.exchange()
        serve(b, mid, error=-19, code="unauthorized", status=401)
        t.ok(any("last used " in x and x.endswith("not take its token")
                 for x in b.status()), "status says that its host refused it",
             b.status())
        serve(b, other)
        t.ok(any(x.endswith(" UTC: it went well") for x in b.status()),
             "and that it took it", b.status())
        t.ok(revoked(b, error=-19, code="unauthorized", status=401) == MINTED,
             "one that its host did not take is revoked when no other has it")
        mid = b.exchange()
        mint(b, token="ghs_" + "O" * 36)
        t.ok(serve(b, mid)["token"] == "ghs_" + "O" * 36,
             "one that its host does not take is forgotten")


def test_refusals():
    with Broker(APP, journal=True) as b:
        b.grant(1, uses=100)
        for fields, code, *words in (
                ({"error": -3, "status": 401}, "source_failed", "401", "id",
                 "key", "clock", "12345"),
                ({"error": -3, "status": 403}, "source_failed", "403",
                 "678", "contents"),
                ({"error": -3, "status": 404}, "source_failed", "404",
                 "own/repo", "678"),
                ({"error": -3, "status": 422}, "source_failed", "422",
                 "own/repo"),
                ({"error": -3, "status": 429}, "rate_limited", "429"),
                ({"error": -3, "status": 502, "reason": "bad \x1b gateway"},
                 "upstream", "502", "bad \\x1b gateway"),
                ({"error": TIMEOUT, "reason": "no answer"}, "timeout",
                 "no answer"),
                ({"error": -3, "status": 201, "token": MINTED, "reason":
                  "gives other permissions"}, "wide", "201", "permissions"),
                ({"token": "xxx"}, "source_failed", "no token"),
                ({"token": "ghp " + "x" * 40}, "source_failed", "no token"),
                ({"token": "x" * 40}, "source_failed", "GitHub's")):
            mid = b.exchange()
            b.dial()
            c, m = b.job("COURIER_MINT")
            m.close()
            c.ch.send("COURIER_MINTED", **fields)
            c.ch.close()
            m = b.done(mid)
            t.ok(m["code"] == code.replace("wide", "upstream") and
                 not m["begun"] and
                 all(w in m["reason"] for w in words), "told: " + words[0],
                 (fields, m))
            if code == "wide" or "GitHub's" in words:
                t.ok(revoked(b) == fields["token"], "and revoked")
        mid = b.exchange()
        m = b.ch.recv(want="BROKER_DIAL")
        b.ch.send("BROKER_NOT_DIALLED", m.id, reason="no route")
        m = b.done(mid)
        t.ok(m["code"] == "upstream" and "no route" in m["reason"],
             "told: no connection", m)
        mid = b.exchange()
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        c.ch.close()
        m = b.done(mid)
        t.ok(m["code"] == "no_courier" and "without a word" in m["reason"],
             "told: its courier died", m)
        r = b.journal.recv(want="JOURNAL_APPEND")
        f = dict(zip(r["fields"][::2], r["fields"][1::2]))
        t.ok(r["op"] == "token_mint" and r["code"] == 1 and
             "401" in f["reason"] and f["source"] == "app",
             "a refusal is recorded", (r, f))


def test_next_source():
    second = "github_app 99 1 " + RSA8
    with Broker(APP, second, TOKEN) as b:
        b.grant()
        mid = b.exchange()
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        c.ch.send("COURIER_MINTED", error=-3, status=404)
        c.ch.close()
        m = mint(b)
        t.ok(m["installation"] == 1, "behind one App comes the next", m)
        t.ok(serve(b, mid)["token"] == MINTED, "whose token is used")
        serve(b, b.exchange())
        t.ok("tokens: 1 kept, 1 minted" in b.status(),
             "and found again at once", b.status())
        b.grant(2, repo="own/third")
        mid = b.exchange(2)
        for _ in range(2):
            b.dial()
            c, m = b.job("COURIER_MINT")
            m.close()
            c.ch.send("COURIER_MINTED", error=-3, status=422)
            c.ch.close()
        t.ok(serve(b, mid)["token"] == STATIC, "the token comes last")
    with Broker("github_app 1 2 /none", TOKEN) as b:
        t.ok(b.grant()["source"] == "token",
             "one that cannot be used is passed over")
        t.ok(serve(b, b.exchange())["token"] == STATIC, "in an exchange, too")


def test_enterprise():
    with Broker("github_app ghe.example 1 2 " + RSA) as b:
        b.grant(host="ghe.example")
        mid = b.exchange()
        d = b.dial()
        t.ok(d["host"] == "ghe.example", "its API is on the host itself", d)
        c, m = b.job("COURIER_MINT")
        t.ok(m["prefix"] == "/api/v3", "below /api/v3", m)
        m.close()
        c.minted(token="v1.0123456789abcdef01")
        c.ch.close()
        m = serve(b, mid)
        t.ok(m["token"] == "v1.0123456789abcdef01" and
             m["host"] == "ghe.example", "its tokens look otherwise", m)


def test_command():
    with Broker("github_token_command 30", APP, TOKEN) as b:
        b.grant(1, uses=20)
        b.grant(2, repo="own/other")
        first, second = b.exchange(), b.exchange(2)
        m = b.child(COMMAND)
        m.ch.send("COMMAND_TOKEN", token=COMMANDED)
        m.ch.close()
        got = [serve_one(b) for _ in range(2)]
        t.ok([x["token"] for x in got] == [COMMANDED] * 2,
             "one run for all that wait", got)
        t.ok({b.ch.recv(want="BROKER_EXCHANGED").id for _ in range(2)} ==
             {first, second}, "and both end")
        for fields, *words in (
                ({"error": -3, "reason": "it ended with 1"},
                 "it ended with 1"),
                ({"token": "no token"}, "no token")):
            mid = b.exchange()
            c = b.child(COMMAND)
            c.ch.send("COMMAND_TOKEN", **fields)
            m = b.done(mid)
            t.ok(m["code"] == "source_failed" and
                 all(w in m["reason"] for w in words) and
                 "github_token_command" in m["reason"],
                 "each use runs it again, and nothing is asked behind it", m)
            c.ch.close()
        mid = b.exchange()
        m = {"proc": None}
        while m["proc"] != COMMAND:
            m = b.ch.recv(want="BROKER_WANT")
        b.ch.send("BROKER_NO_CHILD", m.id, proc=COMMAND, reason="no such")
        m = b.done(mid)
        t.ok("no such" in m["reason"] and any(
            "last used " in x and "no such" in x for x in b.status()),
             "it cannot be started, and the status says so", m)
        mid = b.exchange()
        c = b.child(COMMAND)
        c.ch.send("COURIER_READY")
        m = b.done(mid)
        t.ok("may not" in m["reason"], "it says what it may not", m)
    # with what is freed overwritten at once
    with Broker("github_token_command 30", ready=False, env={
            **os.environ, "GLIBC_TUNABLES": "glibc.malloc.perturb=165:"
            "glibc.malloc.tcache_count=0"}) as b:
        b.grant(1)
        b.exchange()
        c = b.child(COMMAND)
        b.status()
        b.ch.send("SHUTDOWN")
        t.ok(b.proc.wait(5) == 0, "the broker ends while one runs",
             b.proc.returncode)
        c.ch.close()


def test_command_hangs():
    """Its process has its own deadline; this one is behind it."""
    with Broker("github_token_command 1") as b:
        b.grant(1)
        mid = b.exchange()
        begin = time.monotonic()
        c = b.child(COMMAND)
        m = b.done(mid, 12)
        t.ok(m["code"] == "source_failed" and "in time" in m["reason"] and
             5.5 < time.monotonic() - begin < 9,
             "one that says nothing is given up 5 s after its time", m)
        t.ok(ended_soon(c), "and its channel ends")
    for bad in ("0", "301", "x", "1 2", ""):
        bad_source(("github_token_command " + bad).strip(), "SECONDS")


# --- its patience: broker_hasty has little, and the same code ------------------------

HASTY = os.environ["SBX_BUILD"] + "/broker_hasty"


def timed(b, mid, least, most, *words, code="timeout"):
    begin = time.monotonic()
    m = b.done(mid, most + 3)
    took = time.monotonic() - begin
    t.ok(m["code"] == code and all(w in m["reason"] for w in words) and
         least < took < most, "over in time: " + words[0], (took, m))


def test_exchange_in_time():
    """what lasts an hour, and who waits for it"""
    with Broker(TOKEN, program=HASTY) as b:
        b.grant(1, PUSH, ref="refs/heads/x", old_id="0" * 40, new_id="1" * 40,
                uses=1)
        mid = b.exchange()
        c, m = b.job("COURIER_GIT")
        m.close()
        other = b.exchange()
        begin = time.monotonic()
        timed(b, other, 0.8, 1.6, "other exchanges of that grant")
        timed(b, mid, 0.5, 1.5, "the exchange did not end")
        t.ok(b.killed(c) and time.monotonic() - begin < 3.5,
             "and its courier is killed")


def test_courier_in_time():
    """one that is not ready, one that does not end, and none"""
    with Broker(TOKEN, program=HASTY) as b:
        b.grant(1, uses=9)
        mid = b.exchange()
        c, m = b.job("COURIER_GIT")
        m.close()
        c.over(status=200)
        b.done(mid)
        t.ok(b.killed(c, 3), "one that said its last word and stays is killed")
        for c in b.idle:
            c.ch.close()
        b.idle = []
        time.sleep(0.2)
        mid = b.exchange()
        slow = [b.child(COURIER) for _ in range(2)]
        timed(b, mid, 0.5, 1.6, "no courier was free", code="no_courier")
        t.ok(b.ch.recv(3, want="BROKER_KILL").id in [c.want for c in slow],
             "and one that does not get ready is killed")


def test_token_in_time():
    """how long one is used, and minting one"""
    with Broker(APP, journal=True, program=HASTY) as b:
        b.grant(1, uses=9)
        mid = b.exchange()
        mint(b)
        serve(b, mid)
        begin = time.monotonic()
        t.ok(revoked(b) == MINTED and 1.2 < time.monotonic() - begin < 3.5,
             "a token that is used no more is revoked when its time is over")
        code, f = next_revoke(b)
        t.ok(code == 0 and f["why"] == "its time is over", "with why", f)
        mid = b.exchange()
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        timed(b, mid, 0.9, 2, "the exchange did not end")
        t.ok(b.killed(c, 3), "one that mints has a little longer, since a token "
             "may come")


# --- REST ------------------------------------------------------------------------


def test_rest():
    with Broker(APP, bot_commands=1) as b:
        mid = b.rest(credential=0, number=7, page=2, text="t")
        c, m = b.job("COURIER_REST")
        t.ok((m["op"], m["bot_commands"], m["host"], m["port"], m["prefix"],
              m["repo"], m["number"], m["page"], m["text"], m["token"],
              len(m.fds)) == (REPO_VIEW, 1, "api.github.com", 443, "",
                              "Own/Repo", 7, 2, "t", "", 3),
             "without a credential none is looked for", m)
        m.close()
        c.over(status=200, next_page=3, retry_s=4)
        c.ch.close()
        m = b.done(mid, want="BROKER_RESTED")
        t.ok((m["error"], m["status"], m["next_page"], m["retry_s"]) ==
             (0, 200, 3, 4), "what was answered is told", m)
        mid = b.rest(op=ISSUE_COMMENT)
        m = mint(b)
        t.ok('"issues":"write"' in m["permissions"] and
             "contents" not in m["permissions"],
             "a write's token can do that alone", m)
        c, m = b.job("COURIER_REST")
        m.close()
        t.ok(m["token"] == MINTED, "and goes to its courier")
        c.over(error=-3, status=422, code="validation", reason="no \x07 way")
        c.ch.close()
        m = b.done(mid, want="BROKER_RESTED")
        t.ok((m["code"], m["reason"], m["status"]) ==
             ("validation", "no \\x07 way", 422), "a refusal is told", m)
        for more in ({"op": 200}, {"repo": "x"}, {"host": "A.b"},
                     {"repo": "../x"}):
            m = b.done(b.rest(**more), want="BROKER_RESTED")
            t.ok(m["code"] == "bad_request", "refused: %r" % more, m)
        m = b.done(b.rest(host="other.example"), want="BROKER_RESTED")
        t.ok(m["code"] == "no_source", "a host without source", m)


def test_rest_deadline():
    with Broker(APP) as b:
        for ms in (0, 42001):
            m = b.done(b.rest(within_ms=ms), want="BROKER_RESTED")
            t.ok(m["code"] == "bad_request" and "time" in m["reason"],
                 "no time, or too much: refused", m)
        mid = b.rest(credential=0, within_ms=30000)
        c, m = b.job("COURIER_REST")
        t.ok(25000 < m["within_ms"] <= 28000,
             "a courier has a step less than the broker", m)
        m.close()
        c.over(status=200)
        b.done(mid, want="BROKER_RESTED")
        began = time.monotonic()
        mid = b.rest(op=ISSUE_COMMENT, within_ms=900)
        d = b.ch.recv(want="BROKER_DIAL")
        m = b.done(mid, want="BROKER_RESTED")
        t.ok(m["code"] == "timeout" and not m["begun"] and
             0.8 < time.monotonic() - began < 3,
             "the mint that it waits for is within its time", m)
        b.ch.send("BROKER_NOT_DIALLED", d.id, reason="late")
        m = b.done(b.rest(credential=0, within_ms=4000),
                   want="BROKER_RESTED")
        t.ok(m["code"] == "timeout" and not m["begun"],
             "with too little left no courier begins", m)
        began = time.monotonic()
        mid = b.rest(credential=0, op=ISSUE_COMMENT, within_ms=5600)
        c, m = b.job("COURIER_REST")
        m.close()
        c.ch.send("COURIER_BEGUN")
        b.ch.kept = [x for x in b.ch.kept if x.name != "BROKER_KILL"]
        m = b.done(mid, 8, want="BROKER_RESTED")
        t.ok(m["code"] == "timeout" and m["begun"] == 1 and
             5 < time.monotonic() - began < 7,
             "a courier past its deadline is not waited for; it had begun", m)
        t.ok(b.killed(c), "and is killed")


def test_cancel():
    with Broker(APP) as b:
        for begin in (False, True):
            mid = b.rest(credential=0, op=ISSUE_COMMENT)
            c, m = b.job("COURIER_REST")
            m.close()
            if begin:
                c.ch.send("COURIER_BEGUN")
                time.sleep(0.2)
            b.ch.send("BROKER_CANCEL", mid)
            m = b.done(mid, want="BROKER_RESTED")
            t.ok(m["code"] == "cancelled" and m["begun"] == begin and
                 b.killed(c), "who asked has gone: its courier is killed", m)
            t.ok(ended(c), "and let go")
        b.ch.send("BROKER_CANCEL", mid)
        b.ch.send("BROKER_CANCEL", 1)
        t.ok(b.ask("PING", want="PONG")["healthy"] == 1,
             "what is over cannot be cancelled")


def ended(c):
    try:
        c.ch.recv(2)
        return False
    except ipc.Closed:
        return True


# --- couriers -----------------------------------------------------------------------


def test_pool():
    with Broker(ready=False) as b:
        t.ok(b.ch.quiet(0.3), "without sources none is kept ready")
        mid = b.rest(credential=0)
        c, m = b.job("COURIER_REST", 5)
        m.close()
        t.ok(m["token"] == "", "but one comes when it is needed")
        c.over(status=200)
        b.done(mid, want="BROKER_RESTED")
    with Broker(TOKEN) as b:
        t.ok(b.ch.quiet(0.3), "two are kept ready, no more")
        b.idle.pop().ch.close()
        b.idle.append(b.courier())
        t.ok(True, "one that ends is replaced")
        b.grant()
        mid = b.exchange()
        c, m = b.job()
        m.close()
        c.ch.send("COURIER_MINTED", token=MINTED)
        m = b.done(mid)
        t.ok(m["code"] == "no_courier" and "may not" in m["reason"] and
             b.killed(c), "a courier that says what is not due is ended", m)
        mid = b.exchange()
        c, m = b.job()
        m.close()
        c.ch.send_raw(b"\0" * 40)
        t.ok(b.done(mid)["code"] == "no_courier", "or what is nothing")
        mid = b.exchange()
        c, m = b.job()
        m.close()
        c.over(status=200)
        c.over(status=500)
        m = b.done(mid)
        t.ok(m["status"] == 200 and (b.ch.quiet(0.3) or
             all(x.name in ("BROKER_WANT", "BROKER_KILL")
                 for x in b.ch.kept)), "its last word is one", m)
        mid = b.exchange()
        c, m = b.job()
        m.close()
        c.over(error=-3, code="evil\nword", reason="x" * 255)
        m = b.done(mid)
        t.ok(m["code"] == "upstream", "a word of its own is none of ours", m)
        t.ok(b.ask("PING", want="PONG")["healthy"] == 1,
             "nothing of it ends the broker")
    with Broker(APP) as b:
        b.grant()
        mid = b.exchange()
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        c.over(status=200)
        m = b.done(mid)
        t.ok(m["code"] == "no_courier" and "may not" in m["reason"] and
             b.killed(c), "one that mints has nothing else to tell", m)
    with Broker(TOKEN, ready=False) as b:
        b.grant()
        mid = b.exchange()
        for _ in range(6):
            try:
                m = b.ch.recv(2.5, want=("BROKER_WANT", "BROKER_EXCHANGED"))
            except ipc.Timeout:
                break
            if m.name == "BROKER_EXCHANGED":
                break
            b.ch.send("BROKER_NO_CHILD", m.id, proc=COURIER, reason="full")
        t.ok(m.name == "BROKER_EXCHANGED" and m.id == mid and
             m["code"] == "no_courier" and m["begun"] == 0,
             "no courier at all is told soon", m)


def test_limits():
    with Broker(TOKEN) as b:
        for n in range(1, 20):
            b.grant(n, uses=1000)
        ids = [b.exchange(n % 19 + 1) for n in range(120)]
        ends = []
        while True:
            try:
                m = b.ch.recv(0.5, want="BROKER_EXCHANGED")
            except ipc.Timeout:
                break
            ends.append(m)
        t.ok(len(ends) == 120 - 96 and {m["code"] for m in ends} ==
             {"no_courier"}, "so many exchanges and no more", len(ends))
        wants = [m for m in b.ch.kept if m.name == "BROKER_WANT"]
        t.ok(0 < len(wants) <= 30, "so many couriers are asked for",
             len(wants))
        work = []
        while True:
            try:
                c, m = b.job(timeout=1.5)
            except ipc.Timeout:
                break
            m.close()
            work.append(c)
        t.ok(len(work) == 24, "git leaves some couriers to others", len(work))
        t.ok(len(set(ids)) == 120 and b.ask("PING", want="PONG")["healthy"],
             "it is well")


def test_shares():
    with Broker(TOKEN) as b:
        def work(kind, most):
            got = []
            while len(got) < most:
                try:
                    c, m = b.job(kind, 1.0)
                except ipc.Timeout:
                    break
                m.close()
                got.append(c)
            return got
        for n in range(1, 9):
            b.grant(n, uses=1000)
        for n in range(32):
            b.exchange(n % 8 + 1)
        git = work("COURIER_GIT", 32)
        for _ in range(5):
            b.rest(credential=0)
        rest = work("COURIER_REST", 5)
        t.ok((len(git), len(rest)) == (24, 4), "git leaves some couriers to "
             "REST, and both to mints", (len(git), len(rest)))


def test_violations():
    for name, fields in (("BROKER_DIALLED", {}), ("BROKER_CHILD",
                                                  {"proc": COURIER}),
                         ("BROKER_CHILD", {"proc": 3}),
                         ("INTRODUCE", {"peer": 2})):
        with Broker() as b:
            fd = os.open("/dev/null", os.O_RDONLY)
            b.ch.send(name, 77, [fd], **fields)
            os.close(fd)
            try:
                code = b.proc.wait(5)
            except subprocess.TimeoutExpired:
                code = None
            t.ok(code == 3, "%s that nobody asked for ends it" % name, code)
    with Broker(APP) as b:
        b.grant(1)
        mid = b.exchange()
        mint(b)
        serve(b, mid)
        for i in range(9):
            b.ch.send("BROKER_LOCK", 500 + i, on=1)
        try:
            code = b.proc.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        t.ok(code == 3, "more locks than can be waited for, too", code)


# --- lock --------------------------------------------------------------------------


def test_lock():
    with Broker(APP, TOKEN, journal=True) as b:
        b.grant(1, uses=20)
        mid = b.exchange()
        mint(b)
        serve(b, mid)
        mid = b.exchange()
        c, m = b.job()
        m.close()
        b.ch.send("BROKER_LOCK", 500, on=1)
        m = b.done(mid)
        t.ok(m["code"] == "locked" and m["begun"], "what goes on ends", m)
        d = b.dial()
        t.ok(d["host"] == "api.github.com", "the API is dialled", d)
        c, m = b.job("COURIER_REVOKE")
        t.ok((m["host"], m["prefix"], m["token"]) ==
             ("api.github.com", "", MINTED), "the token is revoked", m)
        m.close()
        c.over(status=204)
        c.ch.close()
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok((m.id, m["tokens"], m["failed"]) == (500, 1, 0), "and told", m)
        t.ok(b.done(b.exchange())["code"] == "locked" and
             b.done(b.rest(credential=0),
                    want="BROKER_RESTED")["code"] == "locked" and
             "locked down" in b.grant(2)["reason"], "nothing is taken now")
        lines = b.status()
        t.ok("locked: yes" in lines and "grants: 0" in lines and
             "tokens: 0 kept, 1 minted" in lines, "status says so", lines)
        b.ch.send("BROKER_LOCK", 501, on=1)
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok((m.id, m["tokens"]) == (501, 0), "again: nothing is left", m)
        b.ch.send("BROKER_LOCK", 502, on=0)
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok(m.id == 502 and b.grant(3, repo="own/new")["error"] == 0,
             "it is lifted", m)
        mid = b.exchange(3)
        mint(b)
        t.ok(serve(b, mid)["token"] == MINTED, "and all goes on")
        b.ch.send("BROKER_LOCK", 503, on=1)
        begin = time.monotonic()
        b.ch.recv(want="BROKER_DIAL")
        m = b.ch.recv(want="BROKER_LOCKED")
        took = time.monotonic() - begin
        t.ok((m["tokens"], m["failed"]) == (0, 1) and 1 < took < 2.5,
             "a host that is not reached holds it up for 2 s at most",
             (m, took))
        seen = {}
        while select.select([b.journal], [], [], 0.3)[0]:
            r = b.journal.recv(1)
            seen.setdefault(r["op"], []).append(r["code"])
        t.ok(seen.get("token_revoke") == [0, 1], "both are recorded", seen)
        b.ask("BROKER_LOCK", want="BROKER_LOCKED", on=0)
        b.grant(4, repo="own/third")
        mid = b.exchange(4)
        mint(b)
        serve(b, mid)
        b.ch.send("BROKER_LOCK", 504, on=1)
        d = b.ch.recv(want="BROKER_DIAL")
        b.ch.send("BROKER_LOCK", 505, on=0)
        told = [b.ch.recv(1, want="BROKER_LOCKED") for _ in range(2)]
        t.ok([(m.id, m["failed"]) for m in told] == [(504, 1), (505, 0)],
             "one that is lifted is waited for no more", told)
        time.sleep(2)
        a, c = ipc.pair()
        b.ch.send("BROKER_DIALLED", d.id, [c.fileno()])
        a.close()
        c.close()
        c, m = b.job("COURIER_REVOKE")
        m.close()
        t.ok(m["token"] == MINTED, "and what was begun goes on", m)
        c.over(status=204)


def fields(r):
    return dict(zip(r["fields"][::2], r["fields"][1::2]))


def test_late():
    """A mint that nobody waits for any more."""
    with Broker(APP, journal=True) as b:
        b.grant(1)
        mid = b.exchange()
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        b.ch.send("BROKER_REVOKE", grant="%016x" % 1)
        b.done(mid)
        c.minted()
        c.ch.close()
        t.ok(revoked(b) == MINTED and "tokens: 0 kept, 1 minted" in
             b.status(), "of a grant that ended: revoked, not kept")
        r = b.journal.recv(want="JOURNAL_APPEND")
        while r["op"] != "token_revoke":
            r = b.journal.recv(want="JOURNAL_APPEND")
        t.ok(r["code"] == 0 and fields(r)["why"] ==
             "nobody waits for it any more" and fields(r)["repo"] ==
             "own/repo", "on record with why", r)
        b.grant(2)
        b.exchange(2)
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        b.ch.send("BROKER_LOCK", 500, on=1)
        t.ok(not ended_soon(c) and not any(
            x.name == "BROKER_LOCKED" for x in b.ch.kept),
            "a lock waits for one under way")
        c.minted(token="ghs_" + "L" * 36)
        c.ch.close()
        t.ok(revoked(b) == "ghs_" + "L" * 36, "and has it revoked")
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok((m["tokens"], m["failed"]) == (1, 0), "which is counted", m)
        b.ask("BROKER_LOCK", want="BROKER_LOCKED", on=0)
        b.grant(3)
        b.exchange(3)
        b.dial()
        c, m = b.job("COURIER_MINT")
        m.close()
        b.ch.send("BROKER_LOCK", 501, on=1)
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok(m.id == 501 and m["failed"] == 1 and b.killed(c),
             "one that never ends is killed, and told of", m)


def refused(b, **over):
    """A revocation that fails."""
    return revoked(b, error=-3, code="upstream", **{"status": 502, **over})


def next_revoke(b):
    while True:
        r = b.journal.recv(want="JOURNAL_APPEND")
        if r["op"] == "token_revoke":
            return r["code"], fields(r)


def test_again():
    """What a host does not revoke is tried again, and on record each time."""
    with Broker(APP, journal=True) as b:
        def used(token):
            mid = b.exchange()
            mint(b, token=token, life=100)
            serve(b, mid)
        b.grant(1, uses=20)
        used(MINTED)
        refused(b)
        begin = time.monotonic()
        t.ok(revoked(b) == MINTED and 0.9 < time.monotonic() - begin < 4,
             "a second later it is tried again")
        code, f = next_revoke(b)
        t.ok(code == 1 and f["again"] in ("1", "2") and "tries" not in f and
             f["code"] == "upstream", "the failure is on record, and that it "
             "is tried again", f)
        code, f = next_revoke(b)
        t.ok(code == 0 and f["tries"] == "2" and "again" not in f and
             f["token"] == "1", "and that it went", f)
        used("ghs_" + "T" * 36)
        refused(b, retry_s=4000)
        code, f = next_revoke(b)
        t.ok(code == 1 and "again" not in f, "not when the token has ended by "
             "itself until then", f)
        used("ghs_" + "U" * 36)
        refused(b, retry_s=1000)
        code, f = next_revoke(b)
        t.ok(code == 1 and 999 < int(f["again"]) < 1003,
             "as late as its host asks for", f)
        begin = time.monotonic()
        b.ch.send("BROKER_LOCK", 500, on=1)
        m = b.ch.recv(want="BROKER_DIAL")
        b.ch.send("BROKER_NOT_DIALLED", m.id, reason="no")
        t.ok(revoked(b) == "ghs_" + "U" * 36, "a lock, which is also how a "
             "suite ends, waits for none of that")
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok((m["tokens"], m["failed"]) == (1, 0) and
             time.monotonic() - begin < 2, "and has time for another try", m)
        codes = [next_revoke(b) for _ in range(2)]
        t.ok([c for c, _ in codes] == [1, 0], "each on record", codes)


def ended_soon(c):
    return bool(select.select([c.ch], [], [], 0.3)[0])


def test_evicted():
    """The cache is full, and revocations wait for each other."""
    with Broker(APP) as b:
        def use(n):
            b.grant(n, repo="own/r%d" % n)
            mid = b.exchange(n)
            b.dial()
            c, m = b.job("COURIER_MINT", 10)
            m.close()
            c.minted(token="ghs_%036d" % n)
            c.ch.close()
            serve(b, mid)
            b.ch.send("BROKER_REVOKE", grant="%016x" % n)
        for n in range(1, 66):
            use(n)
        t.ok(revoked(b) == "ghs_%036d" % 1 and any(
            x.startswith("tokens: 64 kept") for x in b.status()),
            "the oldest leaves, and is revoked", b.status())
        b.ch.send("BROKER_LOCK", 500, on=1)
        dials = [b.ch.recv(want="BROKER_DIAL") for _ in range(8)]
        t.ok(all(x.name != "BROKER_DIAL" for x in b.ch.kept) and
             not select.select([b.ch], [], [], 0.2)[0],
             "as many at once as the monitor dials")
        for d in dials:
            b.ch.send("BROKER_NOT_DIALLED", d.id, reason="no")
        t.ok(b.ch.recv(want="BROKER_DIAL"), "then the next")
        m = b.ch.recv(want="BROKER_LOCKED")
        t.ok(m["failed"] == 64, "what is not told in time is told of", m)


# --- what can be seen from outside -----------------------------------------------------


def in_memory(pid, secrets):
    """{secret: flags of each mapping that holds it}"""
    found = {}
    with open("/proc/%d/smaps" % pid) as f:
        maps = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) .*?^VmFlags: "
                          r"(.*?)$", f.read(), re.S | re.M)
    with open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for a, z, perm, flags in maps:
            # a sanitizer's shadow is terabytes of nothing
            if "r" not in perm or int(z, 16) - int(a, 16) > 1 << 30:
                continue
            try:
                mem.seek(int(a, 16))
                data = mem.read(int(z, 16) - int(a, 16))
            except (OSError, ValueError, OverflowError):
                continue
            for s in secrets:
                if data and s in data:
                    found.setdefault(s, []).append(flags.split())
    return found


def test_outside():
    with Broker(APP, TOKEN, "github_token_file ghe.example " + write(
            "gt", b"ghe0123456789canary0123456789")) as b:
        b.grant(1, uses=20)
        mid = b.exchange()
        mint(b)
        serve(b, mid)
        pid = b.proc.pid
        for name in ("environ", "cmdline"):
            try:
                with open("/proc/%d/%s" % (pid, name), "rb") as f:
                    data = f.read()
            except PermissionError:
                data = b""
            t.ok(not any(s.encode() in data for s in (STATIC, MINTED)),
                 "nothing of a secret in its " + name)
        with open("/proc/%d/limits" % pid) as f:
            core = re.search(r"Max core file size\s+(\d+)", f.read())
        t.ok(core and int(core[1]) <= 1, "it leaves no core", core)
        if os.geteuid() != 0:
            t.absent("only root reads its memory", "memory")
            return
        secrets = (STATIC.encode(), MINTED.encode())
        found = in_memory(pid, secrets)
        t.ok(set(found) == set(secrets), "its memory holds both", found)
        flags = {"dd", "wf"} if mcp.sanitized() else {"dd", "wf", "lo"}
        t.ok(all(flags <= set(f) for fl in found.values() for f in fl),
             "each in locked pages that are not dumped, and nowhere else",
             found)
        b.ch.send("BROKER_LOCK", 1, on=1)
        b.dial()
        c, m = b.job("COURIER_REVOKE")
        m.close()
        c.over(status=204)
        b.ch.recv(want="BROKER_LOCKED")
        t.ok(not in_memory(pid, secrets[1:]), "what is revoked is wiped")


# --- commits -----------------------------------------------------------------------

AUTHOR = "A B <a@b.c>"


def commit(base=OID % 1, parent2="", author=AUTHOR, when=None, tree=OID % 7,
           head="", message="m\n"):
    when = int(time.time()) if when is None else when
    return "tree %s\nparent %s\n%sauthor %s %d +0000\ncommitter %s %d " \
        "+0000\n%s\n%s" % (tree, base, parent2 and "parent %s\n" % parent2,
                          author, when, author, when, head, message)


def announce(b, n, base=OID % 1, parent2="", **values):
    b.ch.send("BROKER_ANNOUNCE", 0, **{
        "publish": "%016x" % n, "host": "github.com", "repo": "own/repo",
        "base": base, "parent2": parent2, **values})


def sign(b, n, text):
    return b.ask("BROKER_SIGN", want="BROKER_SIGNED", publish="%016x" % n,
                 commit=text)


def verifies(line, text, signature, namespace="git"):
    """ssh-keygen's word"""
    with open(os.path.join(top, "sig"), "w") as f:
        f.write(signature)
    with open(os.path.join(top, "allowed"), "w") as f:
        f.write("who " + line + "\n")
    return subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", os.path.join(top, "allowed"),
         "-I", "who", "-n", namespace, "-s", os.path.join(top, "sig")],
        input=text.encode(), capture_output=True).returncode == 0


def with_signature(text, m, word="gpgsig"):
    head, _, body = text.partition("\n\n")
    return "%s\n%s %s\n\n%s" % (head, word, m["signature"].strip().replace(
        "\n", "\n "), body)


def test_sign():
    pem = key("ed.pem", "genpkey", "-algorithm", "ed25519")
    with Broker("publish_signing_key " + pem, author=AUTHOR, ready=False,
                journal=True) as b:
        lines = b.status()
        at = lines.index("publish_signing_key: usable")
        m = b.state()
        t.ok(m["bad"] == 0 and m["signer_bad"] == "", "and nothing is bad", m)
        line = lines[at + 1].strip()
        raw = subprocess.run(["openssl", "pkey", "-in", pem, "-pubout",
                              "-outform", "DER"], check=True,
                             capture_output=True).stdout[-32:]
        blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + raw
        t.ok(line == "ssh-ed25519 " + base64.b64encode(blob).decode(),
             "the public key is shown", lines)
        announce(b, 1)
        text = commit(message="subject\n\nb\u00f6dy\n")
        m = sign(b, 1, text)
        t.ok(m["error"] == 0 and m["commit"] == oid(with_signature(text, m)),
             "a commit is signed, and its id is known", m)
        r = b.journal.recv(want="JOURNAL_APPEND")
        f = dict(zip(r["fields"][::2], r["fields"][1::2]))
        t.ok(r["op"] == "commit_sign" and (f["commit"], f["repo"], f["number"],
             f["publish"]) == (m["commit"], "own/repo", "1", "%016x" % 1),
             "on record", r)
        if shutil.which("ssh-keygen") is None:
            t.skip("no ssh-keygen", "its signatures")
        else:
            t.ok(verifies(line, text, m["signature"]), "ssh-keygen takes it")
            t.ok(not verifies(line, text + "x", m["signature"]) and
                 not verifies(line, text, m["signature"], "file"),
                 "of nothing else")
        m = sign(b, 1, text)
        t.ok(m["error"] == POLICY and "already" in m["reason"] and
             not m["signature"], "once", m)
        t.ok("not announced" in sign(b, 9, text)["reason"],
             "what was not announced is not signed")
        announce(b, 2, "%064x" % 1, "%064x" % 2)
        text = commit("%064x" % 1, "%064x" % 2, tree="%064x" % 7)
        m = sign(b, 2, text)
        t.ok(m["error"] == 0 and m["commit"] == oid(with_signature(
            text, m, "gpgsig-sha256"), "sha256"), "a merge, of SHA-256", m)
        announce(b, 3, OID % 1, OID % 2)
        now = int(time.time())
        good = commit(parent2=OID % 2)
        for what, text in (
                ("nothing", ""), ("a text", "hello\n"),
                ("another base", commit(OID % 3, OID % 2)),
                ("another merge", commit(parent2=OID % 3)),
                ("no merge", commit()),
                ("a third parent", good.replace(
                    "author", "parent %s\nauthor" % (OID % 4), 1)),
                ("a short tree", commit(parent2=OID % 2, tree="12")),
                ("capitals", commit(parent2=OID % 2, tree="A" * 40)),
                ("another author", commit(parent2=OID % 2,
                                          author="X <a@b.c>")),
                ("another committer", good.replace("committer A B",
                                                   "committer X")),
                ("two times", good.replace("%d +0000\n\n" % now,
                                           "%d +0000\n\n" % (now - 1))),
                ("long ago", commit(parent2=OID % 2, when=now - 7200)),
                ("later", commit(parent2=OID % 2, when=now + 7200)),
                ("elsewhere", good.replace("+0000", "+0100")),
                ("a signature", commit(parent2=OID % 2, head="gpgsig x\n")),
                ("an encoding", commit(parent2=OID % 2,
                                       head="encoding x\n")),
                ("no message", commit(parent2=OID % 2, message="")),
                ("no end", commit(parent2=OID % 2, message="m")),
                ("no UTF-8", commit(parent2=OID % 2, message="m\udcff\n")),
                ("a tag", "object %s\ntype commit\ntag v\ntagger %s %d "
                 "+0000\n\nm\n" % (OID % 1, AUTHOR, now))):
            m = sign(b, 3, text)
            t.ok(m["error"] == POLICY and m["reason"] and not m["signature"],
                 "not signed: " + what, m)
        b.ch.send("BROKER_LOCK", 1, on=1)
        b.ch.recv(want="BROKER_LOCKED")
        t.ok("locked" in sign(b, 3, good)["reason"], "nor when locked")
        b.ch.send("BROKER_LOCK", 2, on=0)
        b.ch.recv(want="BROKER_LOCKED")
        t.ok(sign(b, 3, good)["error"] == 0, "what is right is signed after "
             "all that")
        announce(b, 3)
        t.ok(b.proc.wait(10) == 3, "an announcement twice ends it")
    for bad in ({"repo": "own/repo/x"}, {"repo": "../repo"}, {"host": "a b"},
                {"base": "x" * 40}, {"parent2": "%064x" % 2},
                {"publish": "x" * 16}):
        with Broker("publish_signing_key " + pem, author=AUTHOR,
                    ready=False) as b:
            announce(b, 1, **bad)
            t.ok(b.proc.wait(10) == 3, "so does %r" % bad)


def test_changed():
    """A file that is another since it was read, in whatever way."""
    name = write("rotated", b"ghp_" + b"a" * 36)
    other = top + "/rotated.new"

    def place():
        write("rotated.new", b"ghp_" + b"a" * 36)
        os.rename(other, name)

    for what, change in (("in place", lambda: write("rotated", b"x")),
                         ("by name", place), ("gone",
                         lambda: os.unlink(name)), ("its mode",
                         lambda: os.chmod(name, 0o400)), ("moved",
                         lambda: os.rename(name, other))):
        place()
        with Broker("github_token_file " + name) as b:
            m = b.state()
            t.ok(m["changed"] == 0 and not re.search("read anew", str(m[
                "lines"])), "as it was read: " + what, m)
            change()
            m = b.state()
            t.ok(m["changed"] == 1 and m["bad"] == 0 and
                 re.search(name + " changed since it was read", str(
                     m["lines"])), "and changed", m)


def test_sign_keys():
    enc = key("edenc.pem", "genpkey", "-algorithm", "ed25519", "-aes128",
              "-pass", "pass:x")
    for path, word in ((RSA, "not of Ed25519"), (enc, "encrypted"),
                       (write("junk2", b"x" * 100), "no private key"),
                       (write("open", b"-----BEGIN OPENSSH PRIVATE KEY-----\n"),
                        "of Ed25519"), ("%d/x", "systemd"), ("x", "begins with"),
                       (top + "/none", "No such file")):
        with Broker("publish_signing_key " + path, author=AUTHOR,
                    ready=False) as b:
            lines = [x for x in b.status() if x.startswith("publish_sign")]
            t.ok(len(lines) == 1 and word in lines[0], "status says why: " +
                 word, b.status())
            m = b.state()
            t.ok(m["bad"] == 1 and word in m["signer_bad"], "to the monitor, "
                 "too", m)
            announce(b, 1)
            m = sign(b, 1, commit())
            t.ok(m["error"] == POLICY and word in m["reason"] and
                 not m["signature"], "so does who asks", m)
    with Broker(TOKEN, author=AUTHOR) as b:
        announce(b, 1)
        t.ok("no publish_signing_key" in sign(b, 1, commit())["reason"],
             "without a key nothing is signed")


def oid(text, fmt="sha1"):
    data = text.encode()
    return hashlib.new(fmt, b"commit %d\0" % len(data) + data).hexdigest()


try:
    if shutil.which("openssl") is None:
        t.skip("no openssl", "the broker")
        t.done()
        sys.exit(0)
    if sys.argv[1:] == ["unit"]:
        in_unit()
    else:
        mcp.main(t, globals(), sys.argv[1:])
finally:
    shutil.rmtree(top, ignore_errors=True)
