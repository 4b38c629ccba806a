#!/usr/bin/env python3
"""sbx register: a key or a token ends in a file that its owner alone reads, and
a line of sbx.conf that sbxd takes; no secret is an argument, or printed."""
import os
import pty
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp      # noqa: E402

tap = mcp.Tap()
ok = tap.ok
TOKEN = "ghp_" + "Z" * 36
KEY = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True,
                     text=True, check=True).stdout
top = tempfile.mkdtemp(prefix="sbx-register-")
os.chmod(top, 0o755)


def sbx(*args, text="", **more):
    return subprocess.run([mcp.BUILD + "/sbx", *args], input=text,
                          capture_output=True, text=True, timeout=20,
                          start_new_session=True,
                          env=dict(os.environ, SBX_ROOT=top), **more)


def owner():
    return pwd.getpwnam("sbx-broker").pw_uid if os.getuid() == 0 else \
        os.getuid()


def kept(name, what, text):
    path = f"{top}/etc/credentials/{name}"
    st, d = os.stat(path), os.stat(os.path.dirname(path))
    ok(stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid == owner() and
       stat.S_IMODE(d.st_mode) == 0o700 and d.st_uid == owner(),
       f"{what}: its owner's alone", st)
    with open(path) as f:
        ok(f.read() == text, f"{what}: as it came")


def conf_ok(lines):
    path = top + "/check.conf"
    with open(path, "w") as f:
        f.write(lines)
    r = subprocess.run([mcp.BUILD + "/sbxd", "-n", "-f", path], text=True,
                       capture_output=True, timeout=20)
    return r.returncode == 0, r


def test_unit():
    """%d/NAME is below where systemd puts a unit's credentials."""
    source = "%d/tok"
    for env, words in (({"CREDENTIALS_DIRECTORY": top + "/given"},
                        f"{top}/given/tok: No such file"),
                       ({}, f"{source}: %d is where systemd")):
        with mcp.Suite(conf=f"github_token_file {source}\n"
                       "github_app 1 2 /none\n", env=env) as s:
            r = s.sbx("broker", "status")
            ok(words in r.stdout, "a unit's credential, " + words, r)
    for line in ("github_token_file %d/", "github_token_file %d/x/y",
                 "github_app 1 2 %d", "github_app 1 2 %x/y"):
        good, r = conf_ok(line + "\n")
        ok(not good and "%d/NAME" in r.stderr, line + " is none", r)
    ok(conf_ok("github_app 1 2 %d/key\n")[0], "and so it is written")


def test_token():
    r = sbx("register", "token", "--stdin", text=TOKEN + "\n")
    want = f"github_token_file {top}/etc/credentials/github.com-token\n"
    ok(r.returncode == 0 and r.stdout == want and TOKEN not in r.stderr,
       "a token by standard input", r)
    kept("github.com-token", "a token", TOKEN)
    good, r = conf_ok(r.stdout)
    ok(good, "sbxd takes the line", r)
    with open(top + "/etc/sbx.conf", "w") as f:
        f.write("log_level info")       # no newline: not ours to run on into
    for i in range(2):
        r = sbx("register", "token", "--stdin", "--host", "Git.Example",
                "--write", *["--replace"][:i], text=TOKEN)
        with open(top + "/etc/sbx.conf") as f:
            text = f.read()
        ok(r.returncode == 0 and r.stdout == "" and text ==
           "log_level info\ngrant_host git.example\ngithub_token_file "
           f"git.example {top}/etc/credentials/git.example-token\n",
           "of another host, into sbx.conf, once", (r, text))
        ok(("takes it at SIGHUP", "anew at SIGHUP")[i] in r.stderr,
           "and when it counts", r)
    good, r = conf_ok(text)
    ok(good, "sbxd takes that, too", r)
    r = sbx("register", "token", "--stdin", text="ghp_" + "Y" * 36)
    ok(r.returncode == 1 and "--replace" in r.stderr,
       "one in use is not replaced unasked", r)
    for text, word in (("", "empty"), ("two words" * 3, "characters"),
                       ("x" * 2049, "20 to 2048"), ("x", "20 to 2048"),
                       ("x" * 40, "ghp_")):
        r = sbx("register", "token", "--stdin", "--replace", text=text)
        ok(r.returncode == 1 and word in r.stderr, f"no token: "
           f"{text[:9]!r}", r)
    kept("github.com-token", "what was there stays", TOKEN)
    r = sbx("register", "token", "--stdin", text="y" * 20000)
    ok(r.returncode == 1 and "longer" in r.stderr, "much too long", r)


def make(name, *how):
    r = subprocess.run(["openssl", *how], capture_output=True, check=True)
    with open(f"{top}/{name}", "wb") as f:
        f.write(r.stdout)
    return f.name


def test_app():
    key = top + "/key.pem"
    with open(key, "w") as f:
        f.write(KEY)
    r = sbx("register", "app", "--id", "12", "--installation", "34", "--key",
            key)
    ok(r.returncode == 0 and r.stdout == "github_app 12 34 "
       f"{top}/etc/credentials/github.com-app-12.pem\n" and
       "MII" not in r.stdout + r.stderr, "an App", r)
    kept("github.com-app-12.pem", "its key", KEY)
    good, r = conf_ok(r.stdout)
    ok(good, "sbxd takes the line", r)
    for what, word, args in (
            ("no number", "numbers", ["--id", "x"]),
            ("0 is nobody's", "numbers", ["--id", "0"]),
            ("no key", "no private key", ["--key", "/etc/passwd"]),
            ("another kind", "not of RSA", ["--key", make("ec", "ecparam",
             "-genkey", "-name", "prime256v1", "-noout")]),
            ("a short one", "1024 bits", ["--key", make("short", "genrsa",
                                                        "1024")]),
            ("one that is there", "--replace", []),
            ("nothing there", "No such file", ["--key", top + "/none"]),
            ("no host", "no name of a host", ["--host", "a/../b"]),
            ("no host", "no name of a host", ["--host", ".."])):
        r = sbx("register", "app", "--id", "12", "--installation", "34",
                "--key", key, *args)
        ok(r.returncode == 1 and word in r.stderr, "refused: " + what, r)
    with open(key, "w") as f:
        f.write(KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"))
    r = sbx("register", "app", "--id", "12", "--installation", "34", "--key",
            key)
    ok(r.returncode == 1 and "encrypted" in r.stderr, "one with a password", r)


def test_arguments():
    for args in ([], ["key"], ["token", TOKEN], ["token", "--token", TOKEN],
                 ["app", "--stdin"], ["token", "--key", "x"]):
        r = sbx("register", *args, text=TOKEN)
        ok(r.returncode == 1 and "usage" in r.stderr,
           f"usage: {args[:2]}", r)
    r = sbx("register", "token")
    ok(r.returncode == 1 and "--stdin" in r.stderr and "option" not in
       r.stderr, "without a terminal", r)
    r = sbx("register", "app", "--id", "1")
    ok(r.returncode == 1 and "give --installation" in r.stderr,
       "without a terminal: which option", r)
    top2 = top + "/new/root"
    r = subprocess.run([mcp.BUILD + "/sbx", "register", "token", "--stdin"],
                       input=TOKEN, text=True, capture_output=True,
                       timeout=20, env=dict(os.environ, SBX_ROOT=top2))
    ok(r.returncode == 0 and os.path.exists(
        top2 + "/etc/credentials/github.com-token"), "in a new place", r)


def typed(*args, keys):
    """register on a terminal: its wait status, and all that was seen"""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["SBX_ROOT"] = top
        # a shell's job in the background is to ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(mcp.BUILD + "/sbx", ["sbx", "register", *args])
    seen, done = b"", False
    while True:
        ready, _, _ = select.select([fd], [], [], 10)
        if not ready:
            os.kill(pid, 9)
            break
        try:
            got = os.read(fd, 4096)
        except OSError:
            break
        if not got:
            break
        seen += got
        if b": " in seen and not done:
            done = True
            select.select([], [], [], 0.3)      # until the echo is off
            if isinstance(keys, int):
                os.kill(pid, keys)
            else:
                os.write(fd, keys)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return status, seen


def test_terminal():
    """what is typed is not shown"""
    token = "ghp_typed" + "T" * 30
    status, seen = typed("token", "--replace", keys=token.encode() + b"\n")
    ok(status == 0 and b"ghp_typed" not in seen,
       "a token is asked for and not shown", seen)
    kept("github.com-token", "typed", token)
    for what, args, keys, sig in (
            ("^C", ["token"], b"\x03", signal.SIGINT),
            ("^C at what is shown", ["app"], b"\x03", signal.SIGINT),
            ("SIGTERM", ["token"], signal.SIGTERM.value, signal.SIGTERM)):
        status, seen = typed(*args, keys=keys)
        ok(os.WIFSIGNALED(status) and os.WTERMSIG(status) == sig,
           what + " ends it at once", (status, seen))


def test_links():
    """a name that leads elsewhere is not followed"""
    path = top + "/etc/credentials/github.com-token"
    with open(top + "/elsewhere", "w") as f:
        f.write("mine")
    os.unlink(path)
    os.symlink(top + "/elsewhere", path)
    sbx("register", "token", "--stdin", "--replace", text=TOKEN)
    with open(top + "/elsewhere") as f:
        ok(f.read() == "mine" and not os.path.islink(path),
           "a link is replaced")
    shutil.rmtree(top + "/etc/credentials")
    os.mkdir(top + "/d")
    os.symlink(top + "/d", top + "/etc/credentials")
    r = sbx("register", "token", "--stdin", text=TOKEN)
    ok(r.returncode == 1 and not os.listdir(top + "/d"),
       "nor is a directory", r)


try:
    mcp.main(tap, globals(), sys.argv[1:])
finally:
    shutil.rmtree(top, ignore_errors=True)
