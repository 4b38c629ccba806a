#!/usr/bin/env python3
"""G4: only the broker component can read a credential; its key process takes
messages from the monitor only, and parses nothing from a sandbox or the net.

The files are the broker's user's; every row of common/privs is entered as that
user and tries to read one; and what the key process accepts from whom is read
from the program itself, beside the table of all messages."""
import os
import pwd
import subprocess
import sys
import tempfile

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.setdefault("SBX_BUILD", os.getcwd())
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
# the broker's own row: its files are read before it, and never after
ROWS = ["monitor", "recorder", "journald", "broker", "proxy", "zygote",
        "front", "worker", "copyin", "courier", "judge"]
USERS = ("sbxd", "sbx-front", "sbx-proxy", "sbx-journal", "nobody")


def installed():
    try:
        return pwd.getpwnam("sbx-broker") if os.getuid() == 0 else None
    except KeyError:
        return None


def reads(path, user=None):
    def become():
        if user:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    return subprocess.run(["cat", path], preexec_fn=become,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout != b""


def probe(row, path, user):
    """what row_probe ended with"""
    def become():
        if user:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    return subprocess.run([BUILD + "/row_probe", row, path],
                          preexec_fn=become, stderr=subprocess.PIPE)


def files():
    """by users, and in every cage even as the file's own owner"""
    broker = installed()
    with tempfile.TemporaryDirectory(prefix="sbx-g4-") as d:
        os.chmod(d, 0o755)
        path = d + "/key"
        with open(path, "w") as f:
            f.write("a credential\n")
        os.chmod(path, 0o600)
        if broker:
            os.chown(path, broker.pw_uid, broker.pw_gid)
            for name in USERS:
                ok(not reads(path, pwd.getpwnam(name)),
                   "user %s cannot read a key's file" % name)
        else:
            tap.absent("the suite's users are not installed, or not ours to "
                       "become", "key files by user")
        ok(reads(path, broker), "its owner can, outside a cage")
        ok(probe("monitor", "/usr/bin/env", broker).returncode == 0,
           "the probe sees what a cage lets through")
        for row in ROWS:
            r = probe(row, path, broker)
            ok(r.returncode in (10, -31),
               "%s: in its cage a key's file cannot be opened, by its own "
               "owner either" % row, r)


def accepted(program):
    """{peer: {message}}, as the program itself lists it"""
    r = subprocess.run([BUILD + "/" + program, "-P"],
                       stdout=subprocess.PIPE, text=True, timeout=20)
    out = {}
    for line in r.stdout.splitlines():
        f = line.split()
        if len(f) >= 3:
            out.setdefault(f[1], set()).add(f[2])
    return out


def messages():
    """who may say anything to it at all"""
    got = accepted("sbx-broker")
    ok(set(got) <= {"monitor", "courier", "command", "journald"} and
       "monitor" in got, "the key process listens to the monitor, its "
       "couriers, the journal's answers and nobody else", got)
    ok(got.get("courier") == {"COURIER_READY", "COURIER_MINTED",
                              "COURIER_BEGUN", "COURIER_OVER"},
       "from a courier: that it is ready, a token, that it has begun, that it "
       "is over", got)
    ok(got.get("command") == {"COMMAND_TOKEN"},
       "from the operator's command: a token", got)
    ok(got.get("journald", set()) <= {"JOURNAL_DONE"},
       "from the journal: that a record is durable", got)


def links():
    """what parses the net is not even there"""
    r = subprocess.run(["ldd", BUILD + "/sbx-broker"], stdout=subprocess.PIPE,
                       text=True, timeout=20)
    for name in ("libcurl", "libssl", "json-c", "libarchive"):
        ok(name not in r.stdout, "the key process has no %s" % name, r.stdout)


def main():
    for part in (files, messages, links):
        if part.__name__ in (sys.argv[1:] or [part.__name__]):
            part()
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
