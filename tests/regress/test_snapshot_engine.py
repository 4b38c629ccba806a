#!/usr/bin/env python3
"""Snapshots, forks and restores at the engine, driven as the monitor does."""
import os
import resource
import signal
import sys
import threading
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import box  # noqa: E402

tap = box.Tap()
STACKED, REFLINK, COPY = 0, 1, 2
LAYERS = 32         # SBX_MAX_LAYERS

# What of a tree counts: everything but the times of directories, numbers of
# inodes and what the sandbox itself mounts.
LISTING = r"""
cd /; python3 - <<'X'
import os, stat, hashlib
links = {}
for top in ("workspace", "home/sandbox", "tmp", "opt", "srv"):
    for d, dirs, files in os.walk(top):
        dirs.sort()
        for n in sorted(files + dirs) + ["."]:
            p = os.path.join(d, n)
            try: st = os.lstat(p)
            except OSError: continue
            k, what = stat.S_IFMT(st.st_mode), ""
            if k == stat.S_IFLNK: what = os.readlink(p)
            elif k == stat.S_IFREG:
                try: what = hashlib.sha256(open(p, "rb").read()).hexdigest()
                except OSError as e: what = str(e)
                what += " %d %d %d" % (st.st_size, st.st_nlink, st.st_mtime)
                if st.st_nlink > 1: what += links.setdefault(st.st_ino, p)
            print(p, oct(st.st_mode), st.st_uid, what)
X
"""
# Things of every kind, over what was there before.
MAKE = r"""
set -e; cd /workspace; umask 022
mkdir -p keep gone made/deep/er; echo one >keep/a; echo two >gone/b
echo stay >keep/c; echo old >keep/d
"""
CHANGE = r"""
set -e; cd /workspace
rm -r gone; mkdir gone; echo new >gone/n; rm keep/a; echo changed >keep/d
ln -s ../keep/c made/link; ln -s /nowhere made/dangling
echo twin >made/t1; ln made/t1 made/t2; mkdir made/other; ln made/t1 made/other/t3
mkfifo made/pipe; chmod 4751 made/t1; touch -d 2001-01-01 made/t1
mkdir made/closed; echo x >made/closed/x; chmod 0 made/closed
printf s >made/sparse; truncate -s 64M made/sparse
head -c 3000000 /dev/urandom >made/big; echo n >"made/a
b"; chmod 1777 made/other
python3 -c 'import os; os.setxattr("made/big", "user.mine", b"v")'
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("made/sock")'
echo h >/home/sandbox/h; echo t >/tmp/t; mkdir -p /opt/x 2>/dev/null || true
"""


def hexid():
    return os.urandom(6).hex()


def take(e, c, snap=None, may_move=1, end=0, timeout=60):
    snap, mid = snap or hexid(), e.next_id()
    e.mon.send("SNAP_TAKE", mid, container=c, snapshot=snap,
               may_move=may_move, end=end)
    return e.answer(mid, "SNAP_TAKEN", timeout)


def restore(e, c, snap):
    mid = e.next_id()
    e.mon.send("SNAP_RESTORE", mid, container=c, snapshot=snap)
    return e.answer(mid, "SNAP_RESTORED", 30)


def drop(e, snap):
    e.mon.send("SNAP_DROP", 0, snapshot=snap)


def fork(e, snap):
    c, mid = hexid(), e.next_id()
    e.mon.send("SANDBOX_CREATE", mid, container=c, image="host",
               snapshot=snap)
    m = e.answer(mid, ("SANDBOX_READY", "SANDBOX_ENDED"))
    return c, m


def new(e):
    c = hexid()
    m = e.create(c)
    assert m.name == "SANDBOX_READY", m
    return c


def sh(e, c, text):
    r = e.run(c, ["bash", "-c", text], timeout=60, gone=True)
    if r.code != 0:
        print("# %r: %r" % (text[:60], r), flush=True)
    return r.out


def content(e, may_move, what):
    c = new(e)
    sh(e, c, MAKE)
    first = take(e, c, may_move=may_move)
    tap.ok(first["error"] == 0, what + ": a snapshot is taken", first)
    want = STACKED if may_move else (REFLINK, COPY)
    tap.ok(first["method"] == want if may_move else first["method"] in want,
           what + ": it says how", first)
    one = sh(e, c, LISTING)
    sh(e, c, CHANGE)
    two = sh(e, c, LISTING)
    tap.ok(b"made/t2" in two and one != two, what + ": there is something "
           "to compare", two)
    second = take(e, c, may_move=may_move)
    tap.ok(second["error"] == 0 and second["files"] > 10 and
           second["bytes"] > 3000000 and second["bytes"] < 5000000,
           what + ": it counts what was written", second)
    tap.same(sh(e, c, LISTING), two, what + ": the sandbox is as it was")
    f1, m = fork(e, first["snapshot"])
    tap.ok(m.name == "SANDBOX_READY", what + ": a fork stands", m)
    tap.same(sh(e, f1, LISTING), one, what + ": the fork of the first "
             "state has it")
    f2, m = fork(e, second["snapshot"])
    tap.same(sh(e, f2, LISTING), two, what + ": deletions, opaque "
             "directories, links, modes, times and sparse files are kept")
    tap.same(sh(e, f2, "cat /proc/sys/kernel/hostname; hostname;"
                "python3 -c 'import os; print(os.getxattr("
                "\"/workspace/made/big\", \"user.mine\"))'").split()[1:],
             [f2.encode(), b"b'v'"], what + ": it is called by its own id, "
             "and attributes are kept")
    sh(e, f2, "chmod 755 /workspace/made/closed; rm -r /workspace/made; "
       "echo more >>/workspace/keep/d")
    f3, m = fork(e, second["snapshot"])
    tap.same(sh(e, f3, LISTING), two, what + ": what a fork does reaches "
             "neither the snapshot")
    tap.same(sh(e, c, LISTING), two, what + ": nor its source")
    sh(e, c, "rm -rf /workspace/keep; echo broken >/workspace/made/big")
    r = restore(e, c, second["snapshot"])
    tap.ok(r["error"] == 0, what + ": a restore", r)
    tap.same(sh(e, c, LISTING), two, what + ": it is what the snapshot was")
    r = restore(e, c, first["snapshot"])
    tap.same(sh(e, c, LISTING), one, what + ": also an earlier one")
    drop(e, first["snapshot"])
    drop(e, second["snapshot"])
    m = fork(e, second["snapshot"])[1]
    tap.ok(m.name == "SANDBOX_ENDED", what + ": a dropped one is gone", m)
    tap.same(sh(e, f3, LISTING), two, what + ": what stands on it stays")
    for x in (c, f1, f2, f3):
        e.stop(x)


def live(e):
    c = new(e)
    sh(e, c, "echo kept >/workspace/f")
    run, m = e.start(c, ["bash", "-c", "i=0; while :; do echo $i >"
                         "/workspace/n$((i%50)); i=$((i+1)); done"])
    e.wait(run, 0.3)
    s = take(e, c)
    tap.ok(s["error"] == 0 and s["method"] in (REFLINK, COPY),
           "live: a sandbox with a job is copied", s)
    f, m = fork(e, s["snapshot"])
    tap.same(sh(e, f, "cat /workspace/f"), b"kept\n", "live: the copy holds "
             "what stood still")
    before = sh(e, c, "cat /workspace/n*")
    e.wait(run, 0.3)
    tap.ok(sh(e, c, "cat /workspace/n*") != before, "live: the job goes on")
    # at once after a command: its last process may not be gone yet
    f2 = new(e)
    got = []
    for _ in range(10):
        e.run(f2, ["sh", "-c", "echo >>/workspace/x"])
        m = take(e, f2)
        got.append(m["method"])
        drop(e, m["snapshot"])
    tap.same(got, [STACKED] * 10, "live: what has just ended is waited for")
    e.run(f2, ["sh", "-c", "sleep 100 &"])
    m = take(e, f2)
    tap.ok(m["method"] != STACKED, "live: what goes on is not", m)
    drop(e, m["snapshot"])
    e.stop(f2)
    r = restore(e, c, s["snapshot"])
    tap.ok(r["error"] == 0, "live: restore over a job", r)
    ended = e.wait(run, 5)
    tap.ok(ended.why == 3, "live: its job ended with its sandbox", ended)
    tap.same(sh(e, c, "ls /workspace/n* >/dev/null; cat /workspace/f; "
                "ps ax 2>/dev/null | grep -c [w]hile"), b"kept\n0\n"
             if os.path.exists("/bin/ps") else b"kept\n",
             "live: its processes are gone")
    drop(e, s["snapshot"])
    for x in (c, f):
        e.stop(x)


def guard(e):
    """Work is found wherever in the layers it lies."""
    for may_move in (1, 0):
        what = "guard %s: " % ("stacked" if may_move else "copied")
        c = new(e)
        sh(e, c, "cd /workspace; mkdir p; echo old >p/old; echo x >p/x; "
           "echo y >p/y")
        time.sleep(0.03)
        since = time.time_ns()
        time.sleep(0.03)
        sh(e, c, "cd /workspace/p; echo work >work; rm y")
        s = take(e, c, may_move=may_move)
        m = e.work(c, "/workspace", since)
        tap.same((m["complete"], m["names"]), (1, ["p/work"]),
                 what + "in a snapshot's sandbox")
        f, _ = fork(e, s["snapshot"])
        m = e.work(f, "/workspace", since)
        tap.same((m["complete"], m["names"]), (1, ["p/work"]),
                 what + "in a fork")
        sh(e, f, "cd /workspace/p; touch -d 2000-01-01 x; rm work")
        m = e.work(f, "/workspace", since)
        tap.same((m["complete"], sorted(m["names"])), (1, ["p/work", "p/x"]),
                 what + "changed above, and deleted above")
        m = e.work(f, "/workspace", time.time_ns())
        tap.same(m["count"], 0, what + "none is newer than now")
        drop(e, s["snapshot"])
        e.stop(c)
        e.stop(f)


def chain(e):
    c = new(e)
    kept, slow = [], 0
    for i in range(40):
        sh(e, c, "echo %d >/workspace/f%d; rm -f /workspace/f%d; "
           "echo %d >/workspace/same" % (i, i, i - 3, i))
        s = take(e, c)
        if s["error"] != 0:
            tap.ok(False, "chain: snapshot %d" % i, s)
            break
        tap.ok(s["depth"] <= LAYERS, "chain: depth") if \
            s["depth"] > LAYERS else None
        slow += s["method"] != STACKED
        kept.append(s["snapshot"])
    tap.same((len(kept), slow), (40, 1), "chain: 40 snapshots, one of them "
             "made the layers one")
    for i in (3, 31, 32, 33, 39):
        f, m = fork(e, kept[i])
        tap.same(sh(e, f, "cd /workspace; echo *; cat same"),
                 b"f%d f%d f%d same\n%d\n" % (*sorted((i - 2, i - 1, i),
                                                     key=str), i),
                 "chain: state %d" % i)
        e.stop(f)
    tap.same(sh(e, c, "cd /workspace; echo *"), b"f37 f38 f39 same\n",
             "chain: the sandbox itself")
    for s in kept:
        drop(e, s)
    e.stop(c)
    time.sleep(0.3)
    left = [n for n in os.listdir(e.scratch) if n.startswith("layer.")]
    tap.same(left, [], "chain: no layer stays without a holder")


def many(e):
    c = new(e)
    sh(e, c, "mkdir /workspace/d; for i in {1..50}; do echo $i >"
       "/workspace/d/$i; done")
    s = take(e, c)
    forks = [fork(e, s["snapshot"])[0] for _ in range(8)]
    for i, f in enumerate(forks):
        sh(e, f, "rm /workspace/d/%d; echo mine%d >/workspace/d/50" %
           (i + 1, i))
    got = [sh(e, f, "cd /workspace/d; ls | wc -l; cat 50; cat %d" %
              (20 + i)) for i, f in enumerate(forks)]
    tap.same(got, [b"49\nmine%d\n%d\n" % (i, 20 + i) for i in range(8)],
             "many: 8 forks are independent")
    tap.same(sh(e, c, "cd /workspace/d; ls | wc -l; cat 50"), b"50\n50\n",
             "many: their source is untouched")
    for f in [c] + forks:
        e.stop(f)
    drop(e, s["snapshot"])


def wrong(e):
    c = new(e)
    a = hexid()
    tap.ok(take(e, hexid())["error"] != 0, "wrong: no such sandbox")
    tap.ok(restore(e, c, a)["error"] != 0, "wrong: no such snapshot")
    tap.ok(restore(e, hexid(), a)["error"] != 0, "wrong: neither")
    tap.ok(take(e, c, a)["error"] == 0 and take(e, c, a)["error"] != 0,
           "wrong: an id is used once")
    mids = []
    for _ in range(2):
        mids.append(e.next_id())
        e.mon.send("SNAP_TAKE", mids[-1], container=c, snapshot=hexid(),
                   may_move=1)
    got = [e.answer(m, "SNAP_TAKEN")["error"] for m in mids]
    tap.ok(got[0] == 0 and got[1] != 0, "wrong: one at a time", got)
    mid, stop = e.next_id(), e.next_id()
    e.mon.send("SNAP_TAKE", mid, container=c, snapshot=hexid(), may_move=1)
    e.mon.send("SANDBOX_STOP", stop, container=c)
    s = e.answer(mid, "SNAP_TAKEN")
    end = e.answer(stop, "SANDBOX_ENDED")
    tap.ok(end["container"] == c, "wrong: stop in the middle", (s, end))
    time.sleep(0.2)
    tap.ok(not any(n.startswith("next.") or n == c
                   for n in os.listdir(e.scratch)), "wrong: nothing is left "
           "of it", os.listdir(e.scratch))
    # guests must not reach the host by what they leave where mounts go
    c = new(e)
    sh(e, c, "cd /; mv workspace w2 2>/dev/null; ln -s /etc /workspace; "
       "rm -rf /home/sandbox; ln -s /root /home/sandbox; ls / >/dev/null")
    s = take(e, c)
    f, m = fork(e, s["snapshot"])
    tap.ok(m.name in ("SANDBOX_READY", "SANDBOX_ENDED"), "wrong: links where "
           "directories were", m)
    drop(e, s["snapshot"])


def failed(e):
    """The next sandbox cannot be made: this one keeps what it wrote."""
    c = new(e)
    sh(e, c, "echo mine >/workspace/f")
    way = "%s/next.%s" % (e.scratch, c)         # where its scratch will be
    os.mkdir(way)
    own = os.stat("%s/%s" % (e.scratch, c))
    os.chown(way, own.st_uid, own.st_gid)
    s = take(e, c)
    tap.ok(s["error"] != 0, "failed: no snapshot", s)
    time.sleep(0.3)
    tap.ok(os.path.isdir("%s/%s" % (e.scratch, c)),
           "failed: the sandbox's scratch is where it was")
    tap.same(sh(e, c, "cat /workspace/f; echo two >>/workspace/f;"
                "cat /workspace/f"), b"mine\nmine\ntwo\n",
             "failed: the sandbox is as it was")
    s = take(e, c)
    f, _ = fork(e, s["snapshot"])
    tap.same(sh(e, f, "cat /workspace/f"), b"mine\ntwo\n",
             "failed: the next try has it all")
    drop(e, s["snapshot"])
    e.stop(c)
    e.stop(f)


def ending(e):
    """What the dependency layer is made with."""
    digests = []
    for _ in range(2):
        c = new(e)
        sh(e, c, "echo lib >/home/sandbox/lib; mkdir /workspace/x")
        s = take(e, c, end=1)
        digests.append(s["digest"])
        tap.ok(s["error"] == 0 and s["files"] == 1, "end: its scratch is the "
               "snapshot", s)
        m = [k for k in e.mon.kept if k.name == "SANDBOX_ENDED" and
             k["container"] == c]
        tap.ok(len(m) == 1, "end: and it has ended", m)
    tap.ok(len(digests[0]) == 64 and digests[0] == digests[1],
           "end: the same content has the same digest", digests)
    f, m = fork(e, s["snapshot"])
    tap.same(sh(e, f, "cat /home/sandbox/lib; echo more >/home/sandbox/m"),
             b"lib\n", "end: sandboxes begin from it, and may write there")


def hidden(e):
    """What hides the layers below is part of what a layer is."""
    c = new(e)
    sh(e, c, "mkdir /workspace/d; echo below >/workspace/d/below")
    base = take(e, c)
    digests = []
    for how in ("", "rm -r d; mkdir d;"):
        f, _ = fork(e, base["snapshot"])
        sh(e, f, "cd /workspace; %s echo n >d/n" % how)
        digests.append(take(e, f, end=1)["digest"])
    tap.ok(digests[0] != digests[1] and len(digests[1]) == 64,
           "end: an opaque directory is not one that is merged", digests)


def layers(e):
    """The digest of a layer is of all that it is."""
    c = new(e)
    sh(e, c, "cd /workspace; mkdir d; echo x >d/f")
    s = take(e, c)
    got = []
    for text in ("cd /workspace; chmod 700 d; chmod 755 d",
                 "cd /workspace; rm -r d; mkdir d", "rm -r /workspace/d",
                 "cd /workspace; rm d/f", "cd /workspace; >d/f"):
        f, _ = fork(e, s["snapshot"])
        sh(e, f, text)
        t = take(e, f, end=1)
        got.append(t["digest"])
        drop(e, t["snapshot"])
    tap.ok(all(len(d) == 64 for d in got) and len(set(got)) == len(got),
           "layers: hidden, deleted, emptied: each has its own digest", got)
    c = new(e)
    e.run(c, ["bash", "-c", "echo x >/workspace/f; (while :; do echo $RANDOM "
              ">/workspace/f; done) </dev/null >/dev/null 2>&1 &"])
    t = take(e, c, end=1)
    f, _ = fork(e, t["snapshot"])
    one = take(e, f, end=1)
    tap.ok(t["error"] == one["error"] == 0, "layers: of one where something "
           "went on", (t, one))


def attributes(e):
    """As many as the filesystem takes."""
    c = new(e)
    sh(e, c, "cat >/tmp/x.py <<'X'\nimport os\nopen('/workspace/a', "
       "'w')\ntry:\n for i in range(60): os.setxattr('/workspace/a', "
       "'user.%03d' % i + 'n' * 200, b'')\nexcept OSError: pass\n"
       "print(len(os.listxattr('/workspace/a')))\nX\n"
       "python3 /tmp/x.py")
    s = take(e, c, may_move=0)
    tap.ok(s["error"] == 0, "attributes: a file with many", s)


def files(user, scratch):
    """Runs take descriptors until there are no more; a sandbox is made all
    the same, and the engine goes on."""
    rd, wr = os.pipe()
    pid = os.fork()     # a hard limit cannot be raised again
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
            take_files(user, scratch)
        except Exception as x:  # pylint: disable=broad-except
            tap.ok(False, "files: it ended", x)
        os.write(wr, b"%d %d" % (tap.n, tap.failed))
        os._exit(0)
    os.waitpid(pid, 0)
    tap.n, tap.failed = map(int, os.read(rd, 100).split())
    os.close(rd)
    os.close(wr)


def take_files(user, scratch):
    e = box.Engine(scratch, user).introduce("recorder")
    boxes, runs = [new(e) for _ in range(6)], []
    refused = None
    for c in boxes:
        for _ in range(60):
            run, m = e.start(c, ["sleep", "600"])
            e.forget(run)
            if m["error"] != 0:
                refused = m
                break
            runs.append(run)
    tap.ok(refused is not None and "descriptors" in refused["reason"] and
           len(runs) > 100, "files: runs are refused at last",
           (refused, len(runs)))
    for _ in range(3):
        m = e.create(hexid())
        tap.ok(m.name == "SANDBOX_READY", "files: a sandbox is made", m)
    e.mon.send("PING", 4711)
    tap.same(e.answer(4711, "PONG")["healthy"], 1, "files: the engine goes on")
    e.close()


def killed(user, scratch):
    """SIGKILL in the middle of a copy."""
    e = box.Engine(scratch, user).introduce("recorder")
    c = new(e)
    sh(e, c, "head -c 300000000 /dev/urandom >/workspace/big; "
       "for i in {1..3000}; do echo $i >/workspace/f$i; done")
    e.mon.send("SNAP_TAKE", e.next_id(), container=c, snapshot=hexid(),
               may_move=0)
    end = time.monotonic() + 5
    while time.monotonic() < end and not any(
            n.startswith("layer.") for n in os.listdir(scratch)):
        time.sleep(0.002)
    pids = box.children(e.proc.pid)
    e.proc.send_signal(signal.SIGKILL)
    e.proc.wait()
    tap.ok(box.all_dead(pids, 5), "killed: its children die with it")
    e.mon.close()
    e = box.Engine(scratch, user).introduce("recorder")
    m = e.mon.recv(5, "ENGINE_LEFTOVER")
    tap.same(m["container"], c, "killed: the next life says what it found")
    tap.same(box.wait_trash(scratch, 20), [], "killed: and removes it")
    tap.same([n for n in os.listdir(scratch) if n.startswith(("layer.",
             "next."))], [], "killed: no layer is left")
    e.close()


def apart(e, scratch):
    """With a range of ids: whose files are whose."""
    a, b = new(e), new(e)
    sh(e, a, "echo x >/workspace/x")
    for may_move in (1, 0):
        s = take(e, a, may_move=may_move)
        f, _ = fork(e, s["snapshot"])
        sh(e, f, "echo more >>/workspace/x; mkdir /workspace/n")
        tap.same(sh(e, f, "stat -c %u /workspace/x /workspace /home/sandbox; "
                    "cat /workspace/x"), b"1000\n1000\n1000\nx\nmore\n",
                 "range: a fork owns what it stands on")
        # one may be restored to the state of another
        r = restore(e, b, s["snapshot"])
        tap.ok(r["error"] == 0, "range: another's state", r)
        tap.same(sh(e, b, "echo y >>/workspace/x; stat -c %u /workspace/x"),
                 b"1000\n", "range: and owns it then")
        ids = {os.stat(os.path.join(scratch, c, "upper")).st_uid
               for c in (a, b, f)}
        tap.ok(len(ids) == 1 and 0 not in ids, "range: one state, one id",
               ids)
        drop(e, s["snapshot"])
        e.stop(f)
    c = new(e)
    other = os.stat(os.path.join(scratch, c, "upper")).st_uid
    tap.ok(other not in ids, "range: a new one has another", (ids, other))
    for x in (a, b, c):
        e.stop(x)
    d = [new(e) for _ in range(3)]
    got = {os.stat(os.path.join(scratch, x, "upper")).st_uid for x in d}
    tap.same(len(got), 3, "range: ids come back when no layer has them")
    for x in d:
        e.stop(x)


def with_range():
    tap.prefix = "a range of ids: "
    top, scratch = box.make_scratch(None)
    e = box.Engine(scratch, uids=(600000, 3)).introduce("recorder")
    try:
        apart(e, scratch)
        content(e, 1, "stacked")
        content(e, 0, "copied")
        guard(e)
        ending(e)
        tap.same(e.close(), 0, "the engine ends in order")
    finally:
        if e.proc.poll() is None:
            e.proc.kill()
            e.proc.wait()
        box.remove(top)


def main():
    if os.geteuid() == 0:
        with_range()
    for user, prefix in box.users():
        tap.prefix = prefix
        top, scratch = box.make_scratch(user)
        e = box.Engine(scratch, user).introduce("recorder")
        try:
            content(e, 1, "stacked")
            content(e, 0, "copied")
            live(e)
            many(e)
            guard(e)
            chain(e)
            wrong(e)
            failed(e)
            ending(e)
            hidden(e)
            layers(e)
            attributes(e)
            tap.same(e.close(), 0, "the engine ends in order")
            files(user, scratch)
            killed(user, scratch)
        finally:
            if e.proc.poll() is None:
                e.proc.kill()
                e.proc.wait()
            box.remove(top)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
