#!/usr/bin/env python3
"""Images of the store as the engine takes them: directories that are made
here, hostile ones among them.  What an image holds must never make the engine
touch the host, and what its files say must never be used as a path."""
import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import imgsrc  # noqa: E402
from box import Engine, Tap, have, make_scratch, remove  # noqa: E402

A, B = "0123456789ab", "ba9876543210"
CREATE, IMAGE = 0, 6                    # enum sbx_end_why
RANGE = (500000, 4096)
DIRS = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777,
        "run": 0o755, "workspace": 0o755, "home": 0o755,
        "home/sandbox": 0o755, "etc": 0o755}
FILES = {"etc/passwd": "root:x:0:0::/:/bin/sh\nsandbox:x:1000:1000::"
         "/home/sandbox:/bin/sh\n", "etc/group": "sandbox:x:1000:\n",
         "etc/hosts": "", "etc/hostname": "", "etc/resolv.conf": ""}
PROGRAMS = ("sh", "cat", "ls", "env", "id", "touch", "rm", "readlink", "stat")
tap = Tap()


class Store:
    def __init__(self, base, user):
        self.dir, self.owner = os.path.join(base, "images"), user
        os.mkdir(self.dir, 0o700)
        self.names = []
        self.template = os.path.join(base, "template")
        for path, source in imgsrc.programs(PROGRAMS).items():
            to = os.path.join(self.template, path)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(source, to)
        os.symlink("usr/bin", self.template + "/bin")
        self.own(self.dir)

    def own(self, top):
        pw = pwd.getpwnam(self.owner)
        for base, dirs, files in os.walk(top):
            for n in ["."] + dirs + files:
                os.lchown(os.path.join(base, n), pw.pw_uid, pw.pw_gid)

    def path(self, hexa, *parts):
        return os.path.join(self.dir, hexa, *parts)

    def add(self, digit, config="", names=(), **marks):
        """An image of digits `digit`; marks: files of its root."""
        hexa = (digit * 64)[:64]
        os.makedirs(self.path(hexa, "skel"))
        for d, mode in DIRS.items():
            os.mkdir(self.path(hexa, "skel", d))
            os.chmod(self.path(hexa, "skel", d), mode)
        for f, text in FILES.items():
            with open(self.path(hexa, "skel", f), "w") as out:
                out.write(text)
        # programs are links to one copy: nothing here writes to them
        shutil.copytree(self.template, self.path(hexa, "rootfs"),
                        symlinks=True, copy_function=os.link)
        for name, text in marks.items():
            with open(self.path(hexa, "rootfs", name), "w") as out:
                out.write(text)
        with open(self.path(hexa, "config"), "w") as out:
            out.write("sbx-image 1\n" + config)
        open(self.path(hexa, "lock"), "w").close()
        self.own(self.path(hexa))
        for n in names:
            self.names.append("%s sha256:%s\n" % (n, hexa))
        self.write_names("".join(self.names))
        return hexa

    def write_names(self, text):
        path = self.dir + "/names"
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w") as out:
            out.write(text)
        self.own(self.dir)


def error(m, *words):
    return m.name == "SANDBOX_ENDED" and all(w in m["reason"] for w in words)


def test_plain(e, s, own):
    hexa = s.add("1a", "user app:app\nworkdir /proc/self/fd/7\n"
                 "env PATH=/usr/bin:/opt/x\nenv HOME=/evil\nenv USER=evil\n"
                 "env LOGNAME=evil\nenv SHELL=/evil\nenv HTTP_PROXY=evil\n"
                 "env https_proxy=evil\nenv No_Proxy=evil\nenv TWICE=1\n"
                 "env TWICE=2\nenv EMPTY=\nentrypoint /bin/app\n"
                 "entrypoint --flag\n", ["full", "reg.example/team/app:1.2"],
                 marker="plain")
    m = e.create(A, "full")
    if not tap.ok(m.name == "SANDBOX_READY", "a sandbox of an image", m):
        return
    tap.same((m["image"], m["digest"], m["user"], m["workdir"],
              m["entrypoint"], len(m["env"])),
             ("full", "sha256:" + hexa, "app:app", "/proc/self/fd/7",
              ["/bin/app", "--flag"], 11), "READY says what it is")
    tap.same(m["own_user"], int(own), "and whether its user is its own")
    r = e.run(A, "cat /marker; pwd; id -u; ls /")
    tap.ok(r.out.startswith(b"plain/workspace\n1000\n") and
           b"marker" in r.out, "its files, our working directory", r)
    r = e.run(A, ["env"])
    env = dict(line.split("=", 1) for line in r.out.decode().splitlines())
    tap.same({k: env.get(k) for k in ("PATH", "TWICE", "EMPTY", "HOME",
                                      "USER", "LOGNAME", "SHELL")},
             {"PATH": "/usr/bin:/opt/x", "TWICE": "2", "EMPTY": "",
              "HOME": "/home/sandbox", "USER": "sandbox",
              "LOGNAME": "sandbox", "SHELL": "/bin/bash"},
             "its environment, but for who the user is")
    tap.ok(not [k for k in env if "PROXY" in k.upper()], "no proxy of its",
           env)
    r = e.run(A, "touch ~/a /tmp/b /workspace/c && echo new >/tmp/b && "
              "echo x >/marker; cat /tmp/b /etc/hosts")
    tap.ok(r.code == 0 and b"new" in r.out and A.encode() in r.out,
           "home, /tmp and /workspace can be written", r)
    tap.ok(open(s.path(hexa, "rootfs", "marker")).read() == "plain" and
           not os.listdir(s.path(hexa, "skel", "tmp")),
           "nothing reaches the store")
    e.stop(A)
    for wanted in ("sha256:" + hexa, hexa, hexa[:12], "sha256:" + hexa[:20],
                   "reg.example/team/app:1.2"):
        m = e.create(A, wanted)
        tap.ok(m.name == "SANDBOX_READY" and m["image"] == wanted and
               m["digest"] == "sha256:" + hexa, "asked for by " + wanted, m)
        e.stop(A)


def test_unknown(e, s):
    m = e.create(A, "nosuch")
    tap.ok(error(m, "no image nosuch", "host", "full", "sbx image import")
           and m["why"] == IMAGE, "an unknown one: which there are, the mend",
           m)
    tap.ok(error(e.create(A, "1a" * 5)), "ten digits are too few")
    tap.ok(error(e.create(A, "../" + "1a" * 32)), "a path is no name")
    tap.ok(error(e.create(A, "1b" * 8), "no image"), "digits of none")
    other = "1a" * 8 + "0" * 48
    os.mkdir(s.path(other))
    tap.ok(error(e.create(A, "1a" * 7), "several", "more digits"),
           "digits of several")
    os.rmdir(s.path(other))
    m = e.create(A, "host")
    tap.ok(m.name == "SANDBOX_READY" and m["digest"] == "" and
           m["env"] == [], "host is not in the store", m)
    e.stop(A)


def hostile_targets(outside):
    """{what: how to make it} for one name of a root; outside: a directory of
    the host that nothing may be mounted on or written to."""
    def absolute(p):
        os.symlink(outside, p)

    def relative(p):
        os.symlink("../" * 12 + outside.lstrip("/"), p)

    def chain(p):
        os.symlink(os.path.basename(p) + ".1", p)
        os.symlink(os.path.basename(p) + ".2", p + ".1")
        os.symlink(outside, p + ".2")

    def loop(p):
        os.symlink(os.path.basename(p), p)

    def proc(p):
        os.symlink("/proc/self/root" + outside, p)

    def file(p):
        open(p, "w").close()

    def missing(p):
        pass
    return {f.__name__: f for f in (absolute, relative, chain, loop, proc,
                                    file, missing)}


def listing(top):
    return sorted((os.path.join(b, n), os.lstat(os.path.join(b, n)).st_mtime_ns)
                  for b, ds, fs in os.walk(top) for n in ds + fs)


def victim(base):
    """What the links lead to: with all that a sandbox is mounted on."""
    out = os.path.join(base, "victim")
    for d in DIRS:
        os.makedirs(os.path.join(out, d), exist_ok=True)
    for n in ("hostname", "hosts", "passwd"):
        for d in (out, out + "/etc"):
            with open(os.path.join(d, n), "w") as f:
                f.write("the host's\n")
    os.chmod(out, 0o777)
    return out


def wipe(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def test_hostile_root(e, s, outside):
    """All names at once, one way after the other, in the image's own root."""
    before = listing(outside)
    for n, (what, make) in enumerate(hostile_targets(outside).items()):
        hexa = s.add("2%x" % n)
        for name in ("dev", "proc", "sys", "etc", "tmp", "run", "home",
                     "workspace"):
            make(s.path(hexa, "rootfs", name))
        s.own(s.path(hexa))
        m = e.create(A, hexa)
        tap.ok(m.name == "SANDBOX_READY", "root of the image: " + what, m)
        r = e.run(A, "cat /etc/hostname; stat -c %F /dev /proc /sys /etc /tmp "
                  "/workspace /home/sandbox; echo x >/dev/null && "
                  "touch /tmp/a /workspace/a ~/a && cat /proc/self/comm; "
                  "ls /etc")
        tap.ok(r.out.decode().split("\n")[:9] == [A] + ["directory"] * 7 +
               ["cat"] and b"the host" not in r.out,
               "what is mounted is ours: " + what, r)
        e.stop(A)
    tap.same(listing(outside), before, "the host was not touched")


def test_hostile_skel(e, s, outside):
    """The layer that should be ours is not: refused, never followed."""
    before = listing(outside)
    for name in ("dev", "proc", "etc", "etc/hostname", "etc/hosts"):
        for n, (what, make) in enumerate(hostile_targets(outside).items()):
            if what == "file" and name.startswith("etc/"):
                continue        # as it should be
            hexa = s.add("3%x" % n)
            wipe(s.path(hexa, "skel", name))
            to = outside + "/hostname"
            if name.startswith("etc/"):
                hostile_targets(to)[what](s.path(hexa, "skel", name))
            else:
                make(s.path(hexa, "skel", name))
            s.own(s.path(hexa))
            m = e.create(A, hexa)
            tap.ok(m.name == "SANDBOX_ENDED" and m["why"] == CREATE and
                   m["reason"] != "", "skel/%s %s: refused" % (name, what), m)
            if m.name == "SANDBOX_READY":
                e.stop(A)
            shutil.rmtree(s.path(hexa))
    for part in ("skel", "rootfs"):
        for what in ("absolute", "relative", "chain", "file", "missing"):
            hexa = s.add("34")
            wipe(s.path(hexa, part))
            hostile_targets(outside)[what](s.path(hexa, part))
            m = e.create(A, hexa)
            tap.ok(error(m, part), "%s %s: refused" % (part, what), m)
            shutil.rmtree(s.path(hexa))
    tap.same(listing(outside), before, "the host was not touched")
    tap.ok(open(outside + "/hostname").read() == "the host's\n" and
           open("/etc/hostname").read() != A + "\n", "nor its files")


def locked(s, hexa):
    """Is it in use?  As whoever removes it asks."""
    with open(s.path(hexa, "lock")) as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True


def test_removal(e, s):
    hexa = s.add("4a", names=["short"], marker="one")
    e.create(A, "short")
    e.create(B, "short")
    tap.ok(locked(s, hexa), "in use: it cannot be removed")
    e.stop(A)
    tap.ok(locked(s, hexa), "nor while one of two uses it")
    e.stop(B)
    tap.ok(not locked(s, hexa), "free when the last has ended, although one "
           "may be made ahead")
    e.create(A, "short")
    e.wait("x" * 16, timeout=0.3)       # the next one is made ahead
    e.stop(A)
    os.rename(s.path(hexa), s.dir + "/tmp.gone")
    tap.ok(error(e.create(A, "short"), "removed"), "removed: not used again")
    s.names = [n for n in s.names if not n.startswith("short ")]
    s.add("4a", names=["short"], marker="two")
    e.create(A, "short")
    r = e.run(A, ["cat", "/marker"])
    tap.ok(r.out == b"two", "imported again: the new one", r)
    shutil.rmtree(s.dir + "/tmp.gone")
    e.stop(A)
    with open(s.path(hexa, "lock")) as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        tap.ok(error(e.create(A, "short"), "being removed"),
               "being removed: refused at once")
    os.unlink(s.path(hexa, "lock"))
    os.mkfifo(s.path(hexa, "lock"))
    s.own(s.path(hexa))
    m = e.create(A, "short")
    tap.ok(m.name in ("SANDBOX_READY", "SANDBOX_ENDED"),
           "a lock that is a pipe: no hanging", m)
    if m.name == "SANDBOX_READY":
        e.stop(A)


def test_files(e, s):
    hexa = s.add("5a")
    path = s.path(hexa, "config")
    secret = "/etc/shadow" if os.path.exists("/etc/shadow") else "/etc/passwd"
    big = "sbx-image 1\n" + "env A%d=%s\n" * 1
    for what, text in (
            ("empty", ""), ("of another version", "sbx-image 2\n"),
            ("unknown key", "sbx-image 1\nmount /\n"),
            ("a key twice", "sbx-image 1\nuser a\nuser b\n"),
            ("NUL", "sbx-image 1\nuser a\0b\n"),
            ("escape", "sbx-image 1\nuser \033[2J\n"),
            ("no newline", "sbx-image 1\nuser a"),
            ("a number too large", "sbx-image 1\nfiles 99999999999999999999\n"),
            ("a negative number", "sbx-image 1\nfiles -1\n"),
            ("a bad variable", "sbx-image 1\nenv 0=1\n"),
            ("65 variables", "sbx-image 1\n" + "".join(
                big[12:] % (i, "x") for i in range(65))),
            ("9 KiB of variables", "sbx-image 1\n" + "".join(
                big[12:] % (i, "x" * 3000) for i in range(3))),
            ("100 KiB", "sbx-image 1\n" + "source x\n" * 12000)):
        with open(path, "w") as f:
            f.write(text)
        m = e.create(A, hexa)
        tap.ok(error(m, "config"), "config: " + what, m)
    for what, make in (("link", lambda p: os.symlink(secret, p)),
                       ("pipe", os.mkfifo), ("directory", os.mkdir),
                       ("missing", lambda p: None)):
        wipe(path)
        make(path)
        tap.ok(error(e.create(A, hexa), "config"), "config: " + what)
    names = s.dir + "/names"
    good = "".join(s.names)
    for what, text in (("a path", "../x sha256:%s\n" % hexa),
                       ("host", "host sha256:%s\n" % hexa),
                       ("no digest", "a ../../etc\n"),
                       ("twice", good + good),
                       ("NUL", good + "\0\n"),
                       ("70 KiB", "".join("n%d sha256:%s\n" % (i, hexa)
                                          for i in range(900)))):
        s.write_names(text)
        tap.ok(error(e.create(A, "full"), "names"), "names: " + what)
    for what, make in (("link", lambda p: os.symlink(secret, p)),
                       ("pipe", os.mkfifo), ("directory", os.mkdir)):
        wipe(names)
        make(names)
        tap.ok(error(e.create(A, "full"), "names"), "names: " + what)
    tap.same(e.create(A, "host").name, "SANDBOX_READY",
             "host needs none of it")
    e.stop(A)
    wipe(names)
    tap.ok(error(e.create(A, "full"), "no image"), "no names at all")
    s.write_names(good)
    tap.same(e.create(A, "full").name, "SANDBOX_READY", "mended: as before")
    e.stop(A)


def round_of(uids):
    base = tempfile.mkdtemp(prefix="sbx-images.")
    os.chmod(base, 0o711)
    top, scratch = make_scratch(None)
    try:
        s = Store(base, "sbxd")
        outside = victim(base)
        e = Engine(scratch, images=s.dir, uids=uids).introduce("recorder")
        test_plain(e, s, uids is not None)
        test_unknown(e, s)
        test_hostile_root(e, s, outside)
        test_hostile_skel(e, s, outside)
        test_removal(e, s)
        test_files(e, s)
        tap.same(e.close(), 0, "the engine ends well")
    finally:
        remove(top)
        remove(base)


def main():
    if os.geteuid() != 0:
        tap.absent("images", "only root can hand files to another user")
        return tap.done()
    if not have("sbxd"):
        tap.skip("images", "needs the user sbxd")
        return tap.done()
    for tap.prefix, uids in (("one id: ", None), ("a range: ", RANGE)):
        round_of(uids)
    tap.prefix = ""
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
