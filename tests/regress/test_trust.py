#!/usr/bin/env python3
"""What a sandbox's clients are to trust: from the proxy, through a real
engine, into a sandbox that can read it and do nothing else with it."""
import os
import sys
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import ipc  # noqa: E402
from box import Engine, Tap, make_scratch, remove, users  # noqa: E402

A, B, SNAP = "0123456789ab", "ba9876543210", "abcdef012345"
BUNDLE, OWN, JKS = b"roots\n" * 40000, b"own\n", bytes(range(256)) * 700
KEPT = b"the authority"
FILE_MAX = 3 << 20
tap = Tap()


def trust(e, container, blobs=(BUNDLE, OWN, JKS, KEPT), fds=None):
    fds = fds or [ipc.memfd(b) for b in blobs]
    mid = e.next_id()
    e.proxy.send("PROXY_TRUST", mid, fds, container=container)
    for fd in fds:
        os.close(fd)
    m = e.proxy.recv(10, "PROXY_TRUSTED")
    tap.ok(m.id == mid and m["container"] == container,
           "the answer is to that question", m)
    return m


def content(m):
    with os.fdopen(os.dup(m.fds[0]), "rb") as f:
        f.seek(0)
        return f.read()


def seen(e, container):
    return e.run(container, "ls -A /run/sbx; sha256sum < /run/sbx/"
                 "ca-bundle.pem; cat /run/sbx/ca.pem; sha256sum < "
                 "/run/sbx/java.jks").out


NAMES = ["ca-bundle.pem", "ca.pem", "env.sh", "java.jks", "wgetrc"]


def test_files(e):
    r = e.run(A, "ls -A /run/sbx")
    tap.ok(r.code == 0 and r.out == b"", "nothing there before", r)
    tap.same(e.run(A, "env -i bash -l -c env").out.count(b"_PROXY="), 0,
             "and no variable in a login shell")
    m = trust(e, A)
    tap.ok(m["error"] == 0 and m["reason"] == "", "taken", m)
    r = e.run(A, "ls -A /run/sbx")
    tap.same(r.out.decode().split(), NAMES, "five files")
    for name, want in (("ca-bundle.pem", BUNDLE), ("ca.pem", OWN),
                       ("java.jks", JKS)):
        tap.ok(e.run(A, ["cat", "/run/sbx/" + name]).out == want,
               name + " has its bytes")
    r = e.run(A, "cat /run/sbx/*; cat /proc/mounts")
    tap.ok(KEPT not in r.out, "the authority is in none of them")
    tap.same(e.run(B, "ls -A /run/sbx").out, b"", "nor in another sandbox")


def test_variables(e):
    r = e.run(A, ["env", "-i", "bash", "-l", "-c", "env"])
    env = dict(x.split("=", 1) for x in r.out.decode().splitlines())
    want = {"HTTPS_PROXY": "http://127.0.0.1:3128",
            "no_proxy": "localhost,127.0.0.1,::1",
            "SSL_CERT_FILE": "/run/sbx/ca-bundle.pem",
            "NODE_EXTRA_CA_CERTS": "/run/sbx/ca-bundle.pem",
            "SYSTEM_WGETRC": "/run/sbx/wgetrc"}
    tap.ok(want.items() <= env.items() and "ALL_PROXY" not in env,
           "env -i bash -l has the variables", r)
    r = e.run(A, ["env", "-i", "SSL_CERT_FILE=/x", "HTTP_PROXY=http://x",
                  "GIT_CONFIG_COUNT=1", "bash", "-l", "-c", "env"])
    lines = r.out.splitlines()
    tap.ok(b"SSL_CERT_FILE=/x" in lines and b"GIT_CONFIG_COUNT=1" in lines and
           b"HTTP_PROXY=http://127.0.0.1:3128" in lines and
           b"GIT_CONFIG_KEY_0" not in r.out,
           "a shell keeps its own, but for the proxy", r)
    r = e.run(A, ["sh", "-euc", ". /run/sbx/env.sh; echo $PIP_CERT"])
    tap.same((r.out, r.err), (b"/run/sbx/ca-bundle.pem\n", b""),
             "sh -eu takes the file")


def test_shell(e):
    """A command on a terminal has what the monitor gives it."""
    mid, out = e.next_id(), b""
    e.mon.send("ENGINE_SHELL", mid, container=A, run=os.urandom(8).hex(),
               argv=["sh", "-c", "echo =$FOO=$TERM="], env=["FOO=bar"],
               cwd="/workspace", term="xterm", rows=24, cols=80)
    m = e.answer(mid, "ENGINE_PTY")
    end = time.monotonic() + 5
    while b"\n" not in out and time.monotonic() < end:
        try:
            out += os.read(m.fds[0], 4096)
        except OSError:     # the other side is closed
            break
    m.close()
    tap.same(out, b"=bar=xterm=\r\n", "a shell: variables, and its terminal")


ATTEMPTS = {
    "write": "echo x >> /run/sbx/ca.pem",
    "create": "touch /run/sbx/x",
    "remove": "rm -f /run/sbx/ca.pem",
    "chmod": "chmod 666 /run/sbx/ca.pem",
    "chmod of the directory": "chmod 777 /run/sbx",
    "replace": "mv /tmp/evil /run/sbx/ca.pem",
    "rename of the directory": "mv /run/sbx /run/old",
    "remove the directory": "rmdir /run/sbx",
    "rename what is above": "mv /run /run.old",
    "touch": "touch -d 2001-01-01 /run/sbx/ca.pem",
    "execute": "/run/sbx/env.sh",
}


def test_guest(e):
    e.run(A, "echo evil > /tmp/evil")
    before = seen(e, A)
    for name, command in ATTEMPTS.items():
        r = e.run(A, command)
        tap.ok(r.code not in (0, None), "a guest cannot: " + name, r)
    tap.same(seen(e, A), before, "and all is as it was")
    r = e.run(A, "grep ' /run/sbx ' /proc/self/mountinfo")
    opts = r.out.decode().split()[5].split(",")
    tap.ok({"ro", "nosuid", "nodev", "noexec"} <= set(opts),
           "how it is mounted", opts)


def refused(e, name, **how):
    m = trust(e, A, **how)
    tap.ok(m["error"] != 0 and m["reason"] != "", "refused: " + name, m)


def test_hostile(e):
    before = seen(e, A)
    ok = [ipc.memfd(b) for b in (BUNDLE, OWN, JKS, KEPT)]
    for i in range(4):
        fds = [os.dup(f) for f in ok]
        os.close(fds[i])
        fds[i] = ipc.memfd(b"x", seal=False)
        refused(e, "memory that can change (%d)" % i, fds=fds)
    r, w = os.pipe()
    refused(e, "a pipe", fds=[os.dup(f) for f in ok[:3]] + [r])
    os.close(w)
    refused(e, "a directory", fds=[os.open("/", os.O_RDONLY)] +
            [os.dup(f) for f in ok[1:]])
    refused(e, "a large file", blobs=(b"x" * (FILE_MAX + 1), OWN, JKS, KEPT))
    refused(e, "a large authority", blobs=(BUNDLE, OWN, JKS, b"x" * 65537))
    tap.same(seen(e, A), before, "the files are those of before")
    tap.same(trust(e, "cccccccccccc")["error"], 3, "no such sandbox: ESRCH")
    last = [trust(e, B)["error"] for _ in range(17)]
    tap.ok(last[:16] == [0] * 16 and last[16] == 11,
           "a flood is refused in the end", last)
    for fd in ok:
        os.close(fd)


def test_kept(e):
    """A new proxy gets the authority before the socket."""
    e.introduce("proxy")
    got = [e.proxy.recv(5) for _ in range(4)]
    for c in (A, B):
        mine = [m for m in got if m["container"] == c]
        tap.same([m.name for m in mine], ["PROXY_KEPT", "PROXY_LISTENER"],
                 "the authority, then the socket")
        tap.ok(content(mine[0]) == KEPT, "it is what was given")
    for m in got:
        m.close()


def test_restore(e):
    """A sandbox that is built anew has it all again."""
    before = seen(e, A)
    mid = e.next_id()
    e.mon.send("SNAP_TAKE", mid, container=A, snapshot=SNAP, may_move=1)
    m = e.answer(mid, "SNAP_TAKEN", 40)
    tap.same(m["error"], 0, "a snapshot is taken")
    tap.same(seen(e, A), before, "the same files after it")
    e.mon.send("SNAP_RESTORE", mid + 1, container=A, snapshot=SNAP)
    m = e.answer(mid + 1, "SNAP_RESTORED", 40)
    e.next_id()
    tap.same(m["error"], 0, "and restored")
    tap.same(seen(e, A), before, "the same files after that")
    names = []
    try:
        while True:         # of the snapshot, where it is stacked, too
            m = e.proxy.recv(1)
            names.append(m.name)
            m.close()
    except ipc.Timeout:
        pass
    tap.same(set(names), {"PROXY_LISTENER"},
             "the proxy that lives gets the new socket, and no authority")
    e.introduce("proxy")
    kept = [content(m) for m in (e.proxy.recv(5) for _ in range(4))
            if m.name == "PROXY_KEPT" and m["container"] == A]
    tap.same(kept, [KEPT], "a new one gets both")
    tap.same(trust(e, A, (b"new\n", OWN, JKS, KEPT))["error"], 0,
             "they can be written again")
    tap.same(e.run(A, "cat /run/sbx/ca-bundle.pem").out, b"new\n",
             "and are seen")


def held(e):
    """Descriptors of what was sent that the engine still has."""
    fds, out = "/proc/%d/fd" % e.proc.pid, []
    for f in os.listdir(fds):
        try:
            if "memfd:test" in os.readlink(os.path.join(fds, f)):
                out.append(f)
        except FileNotFoundError:
            pass    # closed meanwhile
    return out


def soon(look):
    """What is still there after a while: an end is told before it is over."""
    end = time.monotonic() + 5
    while look() and time.monotonic() < end:
        time.sleep(0.01)
    return look()


def test_end(e, scratch):
    if os.geteuid() == 0:
        tap.same(len(held(e)), 2, "one descriptor is held of each")
    e.stop(A)
    e.stop(B)
    e.proxy.close()
    if os.geteuid() == 0:
        tap.same(soon(lambda: held(e)), [],
                 "the end of a sandbox is that of its authority")
    tap.same(soon(lambda: [d for d in os.listdir(scratch) if d in (A, B)]),
             [], "and of its files")


def test_old_image(e, scratch):
    """An image of before there was such a directory."""
    os.rmdir(os.path.join(scratch, "skel", "run", "sbx"))
    for c in (A, B):        # one may have been made ahead
        tap.same(e.create(c).name, "SANDBOX_READY", "an old image will do")
    tap.same(trust(e, B)["error"], 0, "and takes the files")
    tap.same(e.run(B, "ls -A /run/sbx").out.decode().split(), NAMES,
             "they are seen")
    e.stop(A)
    e.stop(B)


def suite(user, **how):
    d, s = make_scratch(user)
    e = Engine(s, user, **how).introduce("recorder").introduce("proxy")
    if "storage" in how:    # the monitor says how large
        create = e.create
        e.create = lambda c: create(c, disk_bytes=64 << 20)
    try:
        m = [e.create(c) for c in (A, B)]
        if not tap.ok([x.name for x in m] == ["SANDBOX_READY"] * 2, "create",
                      m):
            return
        test_files(e)
        test_variables(e)
        test_shell(e)
        test_guest(e)
        test_hostile(e)
        test_kept(e)
        test_restore(e)
        test_end(e, s)
        if not how:
            test_old_image(e.introduce("proxy"), s)
        tap.ok(e.proc.poll() is None, "the engine lives", e.mon.log)
    finally:
        e.close()
        remove(d)


def main():
    if not users():
        tap.skip("everything", "started by root, and there is no user sbxd")
    for user, tap.prefix in users():
        suite(user)
    if os.geteuid() == 0 and users():
        tap.prefix = "a range of ids: "
        suite(None, uids=(600000, 3))
    tap.prefix = "in memory: "
    suite(None, storage=1)
    return tap.done()


sys.exit(main())
