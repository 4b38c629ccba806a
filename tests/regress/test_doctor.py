#!/usr/bin/env python3
"""sbx doctor where something is missing for real: exactly that row says so,
with the call that failed and a mend, and nothing stays behind."""
import json
import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import fault as F  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
ROOT = os.geteuid() == 0
with open(os.environ["SBX_SRC"] + "/tests/regress/doctor.schema.json") as f:
    SCHEMA = json.load(f)
TYPES = {"object": dict, "array": list, "string": str, "integer": int,
         "boolean": bool}
SHELL_WORDS = ("#", "sysctl ", "echo ", "sbx ", "sbxd ", "useradd ", "mkdir ",
               "chown ", "chmod ", "mount ", "umount ", "df ", "apt-get ",
               "ulimit ", "modprobe ", "sed ", "update-grub", "timedatectl ",
               "cat ", "apparmor_parser ", "runuser ")


def fits(schema, v):
    """The part of JSON Schema that doctor.schema.json uses."""
    if not isinstance(v, TYPES[schema["type"]]) or \
            isinstance(v, bool) != (schema["type"] == "boolean"):
        return False
    if isinstance(v, str):
        return re.search(schema.get("pattern", ""), v) is not None
    if isinstance(v, list):
        return all(fits(schema["items"], x) for x in v)
    if isinstance(v, dict):
        return set(v) == set(schema["required"]) and \
            all(fits(schema["properties"][k], x) for k, x in v.items())
    return schema.get("minimum", v) <= v <= schema.get("maximum", v)


class Place:
    """An SBX_ROOT, and who asks."""

    def __init__(self, name=None, deep=""):
        self.user = pwd.getpwnam(name) if name else pwd.getpwuid(os.geteuid())
        self.top = tempfile.mkdtemp(prefix="sbx-doctor-test.")
        self.root = self.top + deep
        os.makedirs(self.root + "/state", mode=0o755, exist_ok=True)
        for path in (self.top, self.root, self.root + "/state"):
            os.chmod(path, 0o755)
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)

    def run(self, before=None, *args, env=(), **popen):
        def preexec():
            # what root alone can do comes first, seccomp filters last
            if before is not None and getattr(before, "by_root", False):
                before()
            if self.user.pw_uid != os.geteuid():
                F.user(self.user.pw_uid, self.user.pw_gid)()
            if before is not None and not getattr(before, "by_root", False):
                F.libc.prctl(38, 1, 0, 0, 0)    # no_new_privs
                before()
        return subprocess.run(
            [mcp.BUILD + "/sbx", "doctor", *args], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=120, preexec_fn=preexec,
            close_fds=False, env=dict(os.environ, SBX_ROOT=self.root,
                                      HOME=self.user.pw_dir, **dict(env)),
            **popen)

    def files(self):
        return sorted(os.path.join(d, f) for d, ds, fs in os.walk(self.top)
                      for f in ds + fs)


def by_root(before):
    before.by_root = True
    return before


def ask(place, before=None, **kw):
    """(exit status, {row: check} of what is missing, the whole answer)"""
    had = place.files()
    r = place.run(before, "--json", **kw)
    try:
        all = json.loads(r.stdout)
    except ValueError:
        ok(False, "an answer", r)
        return r.returncode, {}, {"checks": []}
    good = fits(SCHEMA, all) and r.stderr == "" and place.files() == had
    rows = {c["name"]: c for c in all["checks"] if c["state"] == "missing"}
    good = good and len([c for c in rows.values() if c["essential"]]) == \
        all["missing"] and all["missing"] + all["less"] == len(rows) and \
        r.returncode == (2 if all["missing"] else 0)
    for c in all["checks"]:
        good = good and (c["state"] == "missing") == (c["without"] != "") and \
            (c["state"] == "untried") == c["detail"].startswith("not tried")
    if not good:
        ok(False, "its form, its exit status, nothing left",
           (r.stderr, all, had, place.files()))
    return r.returncode, rows, all


def expect(what, place, base, before, row, call, errno="", mend="",
           essential=True, also=(), **kw):
    """Exactly `row` is missing beyond what is missing in `base`."""
    status, rows, all = ask(place, before, **kw)
    new = set(rows) - set(base)
    if row != "uid_range":  # tried as that user, if the machine gives him one
        new -= {"uid_range"}
    c = rows.get(row, {})
    text = "\n".join(c.get("mend", []))
    ok(new == {row} | set(also) and call in c["call"] and
       c["errno"] == errno and c["essential"] == essential and
       (status == 2) == essential and text != "" and re.search(mend, text),
       f"{place.user.pw_name}: {what}", (status, new, c))
    return all


# row, call, filter, errno, regular expression of the mend
CALLS = [
    ("clone3", "clone3", F.refuse("clone3", "ENOSYS"), "ENOSYS", "pass clone3"),
    ("clone3", "clone3", F.refuse("clone3"), "EPERM", "pass clone3"),
    ("close_range", "close_range", F.refuse("close_range", "ENOSYS"), "ENOSYS",
     "Linux 5.9"),
    ("openat2", "openat2", F.refuse("openat2", "ENOSYS"), "ENOSYS",
     "Linux 5.6"),
    ("pidfd", "pidfd_open", F.refuse("pidfd_open"), "EPERM", "pidfd_open"),
    ("pidfd", "pidfd_send_signal", F.refuse("pidfd_send_signal", "ENOSYS"),
     "ENOSYS", "pidfd_send_signal"),
    ("execveat", "execveat", F.refuse("execveat", "ENOSYS"), "ENOSYS",
     "execveat"),
    ("memfd", "memfd_create", F.refuse("memfd_create"), "EPERM",
     "vm.memfd_noexec=1"),
    ("memfd", "F_ADD_SEALS", F.refuse("fcntl", "EPERM", 1, 1033), "EPERM",
     "vm.memfd_noexec"),
    ("seccomp", "SECCOMP_SET_MODE_FILTER", F.refuse("seccomp", "EINVAL", 0, 1),
     "EINVAL", "CONFIG_SECCOMP_FILTER"),
    ("seccomp", "SECCOMP_GET_ACTION_AVAIL",
     F.refuse("seccomp", "EOPNOTSUPP", 0, 2), "EOPNOTSUPP", "Linux 4.14"),
    ("landlock", "landlock_create_ruleset",
     F.refuse("landlock_create_ruleset", "ENOSYS"), "ENOSYS", "lsm=landlock"),
    ("landlock", "landlock_create_ruleset",
     F.refuse("landlock_create_ruleset", "EOPNOTSUPP"), "EOPNOTSUPP",
     "lsm=landlock"),
    ("landlock", "landlock_restrict_self", F.refuse("landlock_restrict_self"),
     "EPERM", "landlock_restrict_self"),
    ("ns_user", "unshare(CLONE_NEWUSER)", F.refuse("unshare"), "EPERM",
     "seccomp=unconfined"),
    # mount(2) is told by its flags which of ours it is
    ("mounts", "mount(/, MS_REC", F.refuse("mount", "EPERM"), "EPERM",
     "mount umount2"),
    ("mounts", "mount(/, MS_REC", F.refuse("mount", "EACCES"), "EACCES",
     "mount umount2"),
    ("tmpfs", "mount(tmpfs)", F.refuse("mount", "EPERM", 3, 2), "EPERM",
     "pass mount"),
    ("overlay", "mount(overlay, userxattr)", F.refuse("mount", "ENODEV", 3, 6),
     "ENODEV", "modprobe overlay"),
    ("devices", "mount(/dev/null, MS_BIND)",
     F.refuse("mount", "EPERM", 3, 4096), "EPERM", "mknod"),
    ("proc", "mount(proc)", F.refuse("mount", "EPERM", 3, 14), "EPERM",
     "systempaths=unconfined"),
    ("devpts", "mount(devpts", F.refuse("mount", "ENODEV", 3, 10), "ENODEV",
     "CONFIG_UNIX98_PTYS"),
    ("mount_setattr", "mount_setattr", F.refuse("mount_setattr", "ENOSYS"),
     "ENOSYS", "Linux 5.12"),
    ("pivot_root", "pivot_root", F.refuse("pivot_root"), "EPERM",
     "pass pivot_root"),
    ("pivot_root", "umount2", F.refuse("umount2"), "EPERM", "pivot_root"),
    ("hostname", "sethostname", F.refuse("sethostname"), "EPERM",
     "sethostname"),
    ("loopback", "SIOCSIFFLAGS", F.refuse("ioctl", "EPERM", 1, 0x8914),
     "EPERM", "SIOCSIFFLAGS"),
    ("loopback", "socket(AF_INET)",
     F.refuse("socket", "EAFNOSUPPORT", 0, 2), "EAFNOSUPPORT", "."),
]


def calls(place, base):
    for row, call, before, error, mend in CALLS:
        expect(f"{call} {error}", place, base, before, row, call, error, mend)
    all = expect("an untried row says what it needs", place, base,
                 F.refuse("unshare"), "ns_user", "unshare", "EPERM", ".")
    state = {c["name"]: c for c in all["checks"]}
    ok(all["missing"] == 1 and state["proc"]["state"] == "untried" and
       state["maps"]["state"] == "untried" and
       "ns_user" in state["ns_net"]["detail"] and
       state["seccomp"]["state"] == "found",
       "and what does not need it is tried", state)
    expect("a call that kills", place, base, F.kill("pivot_root"),
           "pivot_root", "pivot_root", "", ".")
    began = time.monotonic()
    expect("a call that hangs", place, base, F.hang("mount", 3, 14), "proc",
           "mount(proc)", "ETIMEDOUT", ".")
    ok(4 < time.monotonic() - began < 20, "is given up after its deadline",
       time.monotonic() - began)


def namespaces(place, base):
    """Each limit of /proc/sys/user at 0, in a user namespace around it, where
    root is not root of the files."""
    also = {"append_only"} if place.user.pw_uid == 0 else ()
    for kind, key in (("mount", "mnt"), ("pid", "pid"), ("net", "net"),
                      ("ipc", "ipc"), ("uts", "uts"), ("cgroup", "cgroup")):
        name = f"max_{key}_namespaces"
        expect(f"user.{name} is 0", place, base, F.user_namespace(name),
               "ns_" + kind, "clone3(CLONE_NEWUSER | CLONE_NEW", "ENOSPC",
               f"sysctl -w user.{name}=10000", also=also)
    expect("user.max_user_namespaces is 0", place, base,
           F.user_namespace("max_user_namespaces"), "ns_user",
           "unshare(CLONE_NEWUSER)", "ENOSPC",
           r"sysctl -w user.max_user_namespaces=10000\n"
           r"echo 'user.max_user_namespaces = 10000' >>/etc/sysctl.d",
           also=also)


def resources(place, base):
    nofile = resource.RLIMIT_NOFILE
    expect("600 open files", place, base, F.limit(nofile, 600), "nofile",
           "RLIMIT_NOFILE", "", "ulimit -Hn 4096")
    expect("1000 open files are few", place, base, F.limit(nofile, 1000),
           "nofile", "RLIMIT_NOFILE", "", "LimitNOFILE=4096", essential=False)
    long = Place(place.user.pw_name, "/" + "x" * 60)
    try:
        expect("a long path of the socket", long, base, None, "run", "bind",
               "ENAMETOOLONG", "SBX_ROOT")
    finally:
        long.remove()
    os.makedirs(place.root + "/etc", exist_ok=True)
    for text, row, mend in (("nonsense 1\n", "config", "sbxd -n"),
                            ("default_image nowhere\n", "images",
                             "sbx image list")):
        with open(place.root + "/etc/sbx.conf", "w") as f:
            f.write(text)
        expect("sbx.conf: " + text.strip(), place, base, None, row, "", "",
               mend)
    with open(place.root + "/etc/sbx.conf", "w") as f:
        f.write("github_token_file /nowhere/token\n")
    expect("a credential that is not there", place, base, None,
           "credentials", "lstat", "ENOENT", "sbx register", essential=False)
    with open(place.root + "/etc/sbx.conf", "w") as f:
        f.write("publish_signing_key /nowhere/key\n")
    expect("a key that is not there", place, base, None, "credentials",
           "lstat", "ENOENT", "openssl genpkey", essential=False)
    with open(place.root + "/etc/rules", "w") as f:
        f.write("[[rules]]\nid = 'x'\n")
    with open(place.root + "/etc/sbx.conf", "w") as f:
        f.write("secret_rules %s/etc/rules\n" % place.root)
    expect("rules without an expression", place, base, None, "secret_rules",
           "sbxd-judge -R", "", "rules.toml")
    with open(place.root + "/etc/rules", "a") as f:
        f.write("regex = 'x[0-9]{8}'\n")
    ok("secret_rules" not in ask(place)[1], "with one")
    shutil.rmtree(place.root + "/etc")
    disk(place)


def disk(place):
    """The mend of the disk's limit, where there is a file and where not."""
    for text in (None, "  scratch_storage disk\nlog_level err\n"):
        conf = place.root + "/etc/sbx.conf"
        if text is not None:
            os.makedirs(place.root + "/etc", exist_ok=True)
            with open(conf, "w") as f:
                f.write(text)
        mend = ask(place)[1].get("limit_disk", {}).get("mend", [])
        if ROOT or place.user.pw_uid != os.geteuid():
            r = subprocess.run(["sh", "-ec", "\n".join(mend)],
                               stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
            rows = ask(place)[1]
            ok(mend and r.returncode == 0 and "config" not in rows and
               "limit_disk" not in rows,
               f"{place.user.pw_name}: the mend of the disk's limit works, "
               f"{'with' if text else 'without'} a file",
               (mend, r.stdout, rows))
            ok(os.stat(conf).st_uid == place.user.pw_uid,
               "and leaves the file its user's", os.stat(conf))
    shutil.rmtree(place.root + "/etc", ignore_errors=True)


def leftovers(place, base):
    state = place.root + "/state"
    os.makedirs(state + "/suite-3/scratch/abc", mode=0o700)
    open(state + "/suite-3/lock", "w").close()
    # what a doctor left that was killed is removed by the next
    os.makedirs(state + "/.sbx-doctor.abcdef/o/work/x")
    for d, ds, fs in os.walk(state):
        for name in ds + fs + ["."]:
            os.chown(os.path.join(d, name), place.user.pw_uid,
                     place.user.pw_gid)
    place.run()
    ok(not os.path.exists(state + "/.sbx-doctor.abcdef"),
       "what a killed doctor left is removed")
    expect("scratch of a dead suite", place, base, None, "leftovers",
           "suite-", "", "sbx clean", essential=False)
    row = ask(place)[1].get("leftovers", {})
    ok(row.get("detail") == "files of dead suites: 3", "it says which", row)
    shutil.rmtree(state + "/suite-3")
    os.chmod(state, 0o777)
    expect("others may write to the state directory", place, base, None,
           "state_owner", "stat", "", f"chmod go-w {state}", essential=False)
    os.chmod(state, 0o755)


def hide(path, text=""):
    """A plain file over it, in a mount namespace of the test's own."""
    def step():
        name = tempfile.mktemp(prefix="sbx-doctor-hide.")
        with open(name, "w") as f:
            f.write(text)
        os.chmod(name, 0o644)
        F.mount(name, path, None, F.MS_BIND)
        os.unlink(name)
    return step


def mounted(place, base):
    """Only root can arrange these; who asks is place's user."""
    state = place.root + "/state"
    expect("something over a part of /proc", place, base, by_root(F.mounts(
        ("tmpfs", "/proc/bus", "tmpfs"))), "proc", "mount(proc)", "EPERM",
        r"^umount /proc/bus\n.*\n# systemd: ProtectKernelTunables=no")
    expect("state on a read-only filesystem", place, base, by_root(F.mounts(
        (state, state, None, F.MS_BIND),
        (None, state, None, F.MS_BIND | F.MS_REMOUNT | F.MS_RDONLY))),
        "state", "mkdir in " + state, "EROFS", "remount,rw " + state)
    uid = place.user.pw_uid
    for options, essential in ((f"size=1m,uid={uid},mode=0755", True),
                               (f"nr_inodes=100,uid={uid},mode=0755", True),
                               (f"size=500m,uid={uid},mode=0755", False)):
        expect("little room: " + options, place, base, by_root(F.mounts(
            ("tmpfs", state, "tmpfs", 0, options))), "space", "fstatvfs", "",
            "sbx clean", essential=essential)

    def overlay():
        F.mount("tmpfs", "/mnt", "tmpfs")
        for d in ("lower", "upper", "work"):
            os.mkdir("/mnt/" + d)
        os.chown("/mnt/upper", uid, place.user.pw_gid)
        F.mount("overlay", state, "overlay", 0, "lowerdir=/mnt/lower,"
                "upperdir=/mnt/upper,workdir=/mnt/work")
    expect("state on an overlay", place, base, by_root(F.mounts(overlay)),
           "overlay", "mount(overlay, userxattr)", "EINVAL", "a volume",
           also={"append_only", "space"} & set(
               ask(place, by_root(F.mounts(overlay)))[1]))
    for name, essential in (("bash", True), ("git", False)):
        expect("no " + name, place, base, by_root(F.mounts(
            hide("/usr/bin/" + name))), name, f"/usr/bin/{name}", "EACCES",
            "apt-get install " + name, essential=essential)

    def no_full():
        F.mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0755")
        for n in ("null", "zero", "random", "urandom", "tty"):
            os.mknod("/mnt/" + n, 0o20666, os.stat("/dev/" + n).st_rdev)
            os.chmod("/mnt/" + n, 0o666)
        F.mount("/mnt", "/dev", None, F.MS_BIND)
    expect("no /dev/full", place, base, by_root(F.mounts(no_full)), "devices",
           "mount(/dev/full, MS_BIND)", "ENOENT", "mknod -m 666 /dev/full")


def ids(place, base):
    name = place.user.pw_name if place.user.pw_uid else "sbxd"
    files = ("/etc/subuid", "/etc/subgid")
    none = {k: v for k, v in base.items() if k != "uid_range"}

    def given(*texts):
        return by_root(F.mounts(*map(hide, files, texts)))
    line = f"{name}:200000:65536\n"
    rows = ask(place, given(line, line))[1]
    ok("uid_range" not in rows, f"{name} has a range", rows.get("uid_range"))
    expect("no line in /etc/subuid", place, none, given(
        "else:300000:65536\nnonsense\n", ""), "uid_range", "/etc/subuid", "",
        rf"^echo '{name}:365536:65536' >>/etc/subuid\n"
        rf"echo '{name}:365536:65536' >>/etc/subgid$", essential=False)
    expect("too few of them", place, none, given(
        f"{name}:300000:10\n", line), "uid_range", "/etc/subuid", "",
        f"^echo '{name}:300010:65536'", essential=False)
    if place.user.pw_uid == 0:
        return
    expect("no newgidmap", place, none, given(line, line), "uid_range",
           "execvp(newgidmap)", "ENOENT", "apt-get install uidmap",
           essential=False, env={"PATH": "/nowhere"})
    given_nnp = given(line, line)
    expect("newgidmap without its privilege", place, none, by_root(
        lambda: (given_nnp(), F.libc.prctl(38, 1, 0, 0, 0))), "uid_range",
        "execvp(newgidmap)", "", "no no_new_privs", essential=False)


def locks(place, base):
    """What distributions close user namespaces with, as far as it can be
    shown here: the settings are files over /proc/sys/kernel."""
    def settings():
        F.mount("tmpfs", "/proc/sys/kernel", "tmpfs", 0, "mode=0755")
        F.put("/proc/sys/kernel/unprivileged_userns_clone", "0\n")
        F.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")

    def before():
        F.mounts(settings)()
        F.refuse("unshare")()
    _, rows, _ = ask(place, by_root(before))
    mend = "\n".join(rows.get("ns_user", {}).get("mend", []))
    ok("sysctl -w kernel.unprivileged_userns_clone=1\n" in mend,
       "Debian's lock is named", mend)
    with open(os.environ["SBX_SRC"] + "/contrib/apparmor/sbx") as f:
        rules = [x.rstrip() for x in f if not x.startswith("#")]
    text = mend.partition("cat >/etc/apparmor.d/sbx <<'EOF'\n")[2]
    mine = text.partition("\nEOF\n")[0].splitlines()
    ok(len(mine) == len(rules) and all(
        a == b or (a.startswith("profile sbx /{") and
                   mcp.BUILD.lstrip("/") in a) for a, b in zip(mine, rules)) and
       "apparmor_parser -r /etc/apparmor.d/sbx" in text,
       "AppArmor's profile is that of contrib, with the paths of this build",
       mend)


def users(place, base):
    for name in ("sbxd", "sbx-front", "sbx-broker", "sbx-proxy",
                 "sbx-command", "sbx-journal"):
        with open("/etc/passwd") as f:
            text = "".join(x for x in f if not x.startswith(name + ":"))
        expect("no user " + name, place, base, by_root(F.mounts(
            hide("/etc/passwd", text))), "user_" + name, f"getpwnam({name})",
            "", f"^useradd --system .* {name}$")
    expect("no append-only files", place, base,
           F.refuse("ioctl", "EPERM", 1, 0x40086602), "append_only",
           "FS_IOC_SETFLAGS", "EPERM", "CAP_LINUX_IMMUTABLE", essential=False)
    expect("the suite's user cannot be become", place, base,
           F.refuse("setresuid"), "setuid", "setresuid", "EPERM",
           "CAP_SETUID")


def texts(place, base):
    """What a human reads."""
    r = place.run()
    names = [c["name"] for c in ask(place)[2]["checks"]]
    ok(r.returncode == 0 and "nothing" in r.stdout.splitlines()[-1] and
       all(re.search(rf"^(ok|less) +{n} ", r.stdout, re.M) for n in names),
       "each row as text, exit status 0", r)
    r = place.run(F.refuse("pivot_root"))
    ok(r.returncode == 2 and "MISSING pivot_root" in r.stdout and
       "failed:  pivot_root: EPERM (Operation not permitted)\n"
       "        without: no sandbox can be made\n        mend:\n"
       "            # in a container" in r.stdout and
       "1 missing" in r.stdout.splitlines()[-1],
       "what is missing: the call, its error, what for, the mend", r)
    for args in (["more"], ["-x"], ["--jso=1"]):
        r = place.run(None, *args)
        ok(r.returncode == 1 and "usage: sbx doctor" in r.stderr,
           f"doctor {args[0]}: exit status 1", r)
    bad = [(n, line) for n, c in base.items() for line in c["mend"]
           if not line.startswith(SHELL_WORDS)]
    ok(not bad, "a mend is what a shell takes", bad)


def one_user(name):
    place = Place(name)
    try:
        # a filter without root needs no_new_privs, and then newuidmap fails
        status, base, all = ask(place, lambda: None)
        ok(status == 0 and all["missing"] == 0 and len(all["checks"]) > 45,
           f"{place.user.pw_name}: nothing essential is missing here", base)
        calls(place, base)
        namespaces(place, base)
        resources(place, base)
        leftovers(place, base)
        texts(place, base)
        if ROOT:
            mounted(place, base)
            ids(place, base)
            locks(place, base)
            if place.user.pw_uid == 0:
                users(place, base)
    finally:
        place.remove()


if ROOT:
    one_user("root")
    try:
        other = pwd.getpwnam("tester").pw_name
    except KeyError:
        other = "nobody"
    one_user(other)
else:
    one_user(None)
    tap.absent("root arranges them", "mounts and missing users")
tap.done()
sys.exit(tap.bad > 0)
