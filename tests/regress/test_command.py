#!/usr/bin/env python3
"""sbx-broker-command, driven as the monitor and the broker do: what the
operator's command is given, and what comes of what it does."""
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import ipc  # noqa: E402
import mcp  # noqa: E402

PROGRAM = os.environ["SBX_BUILD"] + "/sbx-broker-command"
NOENT, LIMIT, TIMEOUT, CLOSED, SYNTAX = -15, -17, -18, -2, -14
TOKEN = "ghp_" + "CommandCanary" * 3
t = mcp.Tap()
top = tempfile.mkdtemp(prefix="sbx-command-")
os.chmod(top, 0o755)


def unprivileged():
    """as nobody where the suite's users are not installed"""
    if os.geteuid() != 0:
        return {}
    try:
        pwd.getpwnam("sbx-command")
        return {}
    except KeyError:
        return {"user": 65534, "group": 65534, "extra_groups": []}


def script(text, name="cmd"):
    path = os.path.join(top, name)
    with open(path, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)
    return path


def run(*argv, timeout_ms=5000, env=None, wait=20):
    """(COMMAND_TOKEN, seconds, exit status)"""
    mine, theirs = ipc.pair()
    ours, brokers = ipc.pair()
    ch, broker = ipc.Chan(mine), ipc.Chan(brokers)
    ch.send("COMMAND_START", _fds=[ours.fileno()], argv=argv,
            timeout_ms=timeout_ms)
    ours.close()
    begin = time.monotonic()
    p = ipc.spawn(PROGRAM, theirs, stderr=subprocess.PIPE, env=env,
                  **unprivileged())
    try:
        m = broker.recv(wait, want="COMMAND_TOKEN")
        took = time.monotonic() - begin
        code = p.wait(10)
        err = p.stderr.read().decode()
        t.ok(code == 0 and TOKEN not in err,
             "it ends with 0 and logs no token", (code, err))
        try:
            broker.recv(1)
            more = True
        except ipc.Closed:
            more = False
        t.ok(not more, "it says one thing")
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()
        p.stderr.close()
        ch.close()
        broker.close()
    return m, took


def gone(path):
    """The process whose id is in that file ended."""
    with open(path, encoding="ascii") as f:
        pid = int(f.read())
    for _ in range(100):
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def out(name):
    """A file that the command may write, whoever it is."""
    path = os.path.join(top, name)
    with open(path, "w", encoding="ascii"):
        pass
    os.chmod(path, 0o666)
    return path


def test_prints():
    m, _ = run(script("printf ' \\n %s \\n\\n'" % TOKEN))
    t.ok((m["error"], m["token"], m["reason"]) == (0, TOKEN, ""),
         "what it prints is the token, without the blanks", m)
    m, _ = run("printf", "%s", TOKEN)
    t.ok(m["token"] == TOKEN, "a name without a slash is looked for", m)
    m, _ = run(script('printf %s "$1"'), TOKEN + "$(id)")
    t.ok(m["error"] == SYNTAX, "no shell reads its arguments", m)


def test_given():
    env, fds, rest = out("env"), out("fds"), out("rest")
    m, _ = run(script("env >%s; ls -l /proc/self/fd >%s\n"
                      "{ readlink /proc/self/fd/0 /proc/self/fd/2; "
                      "cat; ps -o pgid= -p $$ || echo; } >%s\n"
                      "echo noise >&2; echo %s" % (env, fds, rest, TOKEN)),
               env={"SECRET_OF_SUITE": "x", "LD_PRELOAD": ""})
    t.ok(m["error"] == 0, "it runs", m)
    with open(env, encoding="ascii") as f:
        names = {x.partition("=")[0] for x in f if "=" in x}
    t.ok(names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "LANG"},
         "its environment has three variables", names)
    with open(fds, encoding="ascii") as f:
        n = [x.split()[-3] for x in f if "->" in x]
    t.ok(set(n) <= {"0", "1", "2", "3"}, "it holds no descriptor of ours", n)
    with open(rest, encoding="ascii") as f:
        links = f.read().split("\n")
    t.ok(links[:2] == ["/dev/null", "/dev/null"],
         "no input, and its errors are dropped", links)


def keyctl(*argv, **more):
    """As the user that the command is."""
    user = unprivileged()
    if os.geteuid() == 0 and not user:
        p = pwd.getpwnam("sbx-command")
        user = {"user": p.pw_uid, "group": p.pw_gid, "extra_groups": []}
    return subprocess.run(["keyctl", *argv], capture_output=True, text=True,
                          **user, **more)


def test_keyring():
    what = "a token in the kernel's keyring"
    name = "sbx-test-%d" % os.getpid()
    if shutil.which("keyctl") is None:
        t.skip("keyctl is not installed (keyutils)", what)
        return
    r = keyctl("padd", "user", name, "@u", input=TOKEN)
    if r.returncode:
        t.absent("no keyring: " + r.stderr.strip(), what)
        return
    key = r.stdout.strip()
    try:
        keyctl("setperm", key, "0x3f030000")
        m, _ = run("keyctl", "pipe", "%user:" + name)
        t.ok((m["error"], m["token"]) == (0, TOKEN), what + " is one", m)
    finally:
        keyctl("revoke", key)   # unlinked alone, it is there for a while
        keyctl("unlink", key, "@u")
    m, _ = run("keyctl", "pipe", "%user:" + name)
    t.ok(m["error"] == CLOSED, "one that is gone", m)


def test_fails():
    for text, error, *words in (
            ("exit 3", CLOSED, "ended with 3"),
            ("echo %s; exit 1" % TOKEN, CLOSED, "ended with 1"),
            ("kill -SEGV $$", CLOSED, "signal 11"),
            (":", SYNTAX, "prints nothing"),
            ("echo short", SYNTAX, "no token"),
            ("echo %s; echo %s" % (TOKEN, TOKEN), SYNTAX, "no token"),
            ("printf '%s\\001'" % TOKEN, SYNTAX, "no token"),
            ("head -c 3000 /dev/zero | tr '\\0' a", SYNTAX, "no token"),
            ("head -c 5000 /dev/zero", LIMIT, "more than 4096"),
            ("cat /dev/zero", LIMIT, "more than 4096"),
            ("yes", LIMIT, "more than 4096")):
        m, took = run(script(text))
        t.ok(m["error"] == error and m["token"] == "" and
             all(w in m["reason"] for w in words) and took < 5,
             "refused: " + text[:30], (m, took))
    for path in (top + "/none", "no-such-program-anywhere", top):
        m, _ = run(path)
        t.ok(m["error"] == NOENT and "cannot be run" in m["reason"],
             "what cannot be run", m)
    m, _ = run()
    t.ok(m["error"] < 0, "nothing to run", m)
    m, _ = run("printf", TOKEN, timeout_ms=0)
    t.ok(m["error"] < 0, "no time", m)


def test_hangs():
    pid = out("pid")
    m, took = run(script("echo $$ >%s; echo %s; sleep 60" % (pid, TOKEN)),
                  timeout_ms=700)
    t.ok(m["error"] == TIMEOUT and "github_token_timeout" in m["reason"] and
         0.6 < took < 5, "its time ends", (m, took))
    t.ok(gone(pid), "and it with it")
    m, took = run(script("trap '' TERM INT HUP; echo $$ >%s; "
                         "while :; do sleep 1; done" % pid), timeout_ms=700)
    t.ok(m["error"] == TIMEOUT and gone(pid), "whatever it ignores", m)
    m, took = run(script("exec 1>&-; echo $$ >%s; sleep 60" % pid),
                  timeout_ms=700)
    t.ok(m["error"] == TIMEOUT and gone(pid), "or closes", m)
    m, took = run(script("sleep 60 & echo $! >%s; echo %s" % (pid, TOKEN)),
                  timeout_ms=10000)
    t.ok(m["token"] == TOKEN and took < 5 and gone(pid),
         "what it leaves behind is not waited for, and killed", (m, took))


def test_left():
    """what goes into a session of its own is killed all the same"""
    pid = out("pid")
    for what, timeout, left in (
            ("by one that ended", 10000, "echo %s" % TOKEN),
            ("by one whose time ended", 700, "sleep 60")):
        m, took = run(script("setsid sh -c 'echo $$ >%s; (sleep 61 & "
                             "exec sleep 62)' &\nwhile ! [ -s %s ]; do "
                             "sleep 0.05; done\n%s" % (pid, pid, left)),
                      timeout_ms=timeout)
        t.ok(gone(pid) and took < 5, "what is left in another session " + what,
             (m, took))
        os.truncate(pid, 0)


def test_broker_ends():
    pid = out("pid")
    mine, theirs = ipc.pair()
    ours, brokers = ipc.pair()
    ch = ipc.Chan(mine)
    ch.send("COMMAND_START", _fds=[ours.fileno()],
            argv=[script("setsid sh -c 'echo $$ >%s; exec sleep 60' & "
                         "sleep 60" % pid)], timeout_ms=60000)
    ours.close()
    p = ipc.spawn(PROGRAM, theirs, **unprivileged())
    for _ in range(200):
        if os.path.getsize(pid):
            break
        time.sleep(0.02)
    brokers.close()
    t.ok(p.wait(10) == 3 and gone(pid), "with the broker all of it ends",
         p.returncode)
    ch.close()


def test_parent():
    pid = out("pid")
    mine, theirs = ipc.pair()
    ours, brokers = ipc.pair()
    ch = ipc.Chan(mine)
    ch.send("COMMAND_START", _fds=[ours.fileno()],
            argv=[script("echo $$ >%s; exec sleep 60" % pid)],
            timeout_ms=60000)
    ours.close()
    p = ipc.spawn(PROGRAM, theirs, **unprivileged())
    for _ in range(200):
        if os.path.getsize(pid):
            break
        time.sleep(0.02)
    p.send_signal(signal.SIGKILL)
    p.wait()
    t.ok(gone(pid), "a command dies with what runs it")
    ch.close()
    brokers.close()


try:
    mcp.main(t, globals(), sys.argv[1:])
finally:
    shutil.rmtree(top, ignore_errors=True)
