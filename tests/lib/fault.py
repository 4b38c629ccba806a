"""Things to take away from a program before it starts: preexec functions."""
import ctypes
import errno
import os
import resource

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
SCMP_ALLOW, SCMP_KILL, SCMP_NOTIFY = 0x7fff0000, 0x80000000, 0x7fc00000
SCMP_EQ = 4


class Arg(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int),
                ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def check(r, what):
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, what + ": " + os.strerror(e))
    return r


def filtered(call, action, arg=None, value=0):
    """A filter with one rule; the library, to ask for its notify descriptor."""
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
        ctypes.c_void_p]
    ctx = ctypes.c_void_p(lib.seccomp_init(SCMP_ALLOW))
    nr = lib.seccomp_syscall_resolve_name(call.encode())
    if nr < 0:
        nr = {"landlock_create_ruleset": 444, "landlock_restrict_self": 446,
              "mount_setattr": 442}[call]     # younger than the library
    args = (Arg * 1)(Arg(arg or 0, SCMP_EQ, value, 0))
    r = lib.seccomp_rule_add_array(ctx, action, nr, arg is not None, args)
    assert r == 0, (call, os.strerror(-r))
    r = lib.seccomp_load(ctx)
    assert r == 0, (call, os.strerror(-r))
    return lib, ctx


def refuse(call, error="EPERM", arg=None, value=0):
    """The call fails; only with that value of that argument, when given."""
    return lambda: filtered(call, 0x50000 | getattr(errno, error), arg, value)


def kill(call):
    return lambda: filtered(call, SCMP_KILL)


def hang(call, arg=None, value=0):
    """The call does not return.  Needs Popen(close_fds=False)."""
    def before():
        lib, ctx = filtered(call, SCMP_NOTIFY, arg, value)
        os.set_inheritable(check(lib.seccomp_notify_fd(ctx), "notify"), True)
    return before


def limit(which, value):
    return lambda: resource.setrlimit(which, (value, value))


def user(uid, gid):
    def before():
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    return before


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


def map_all(unshare):
    parent, (r, w) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        for name in ("gid_map", "uid_map"):
            put("/proc/%d/%s" % (parent, name), "0 0 65536")
        os._exit(0)
    unshare()
    os.close(w)
    os.close(r)
    os.waitpid(pid, 0)


def user_namespace(*sysctls):
    """One of its own, with these settings of /proc/sys/user in it at 0."""
    def before():
        uid, gid = os.geteuid(), os.getegid()
        libc.prctl(4, 1, 0, 0, 0)   # its /proc/self is its own
        if uid == 0:                # and all ids, as somebody outside gives
            map_all(lambda: check(libc.unshare(CLONE_NEWUSER), "unshare"))
        else:
            check(libc.unshare(CLONE_NEWUSER), "unshare")
            put("/proc/self/setgroups", "deny")
            put("/proc/self/gid_map", "%d %d 1" % (gid, gid))
            put("/proc/self/uid_map", "%d %d 1" % (uid, uid))
        for name in sysctls:
            put("/proc/sys/user/" + name, "0")
    return before


def mount(source, target, kind=None, flags=0, data=None):
    def text(s):
        return None if s is None else s.encode()
    return check(libc.mount(text(source), text(target), text(kind),
                            ctypes.c_ulong(flags), text(data)),
                 "mount " + target)


def mounts(*steps):
    """A mount namespace of its own (root), with mount()s or functions."""
    def before():
        check(libc.unshare(CLONE_NEWNS), "unshare")
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        for step in steps:
            if callable(step):
                step()
            else:
                mount(*step)
    return before


def together(*befores):
    def before():
        for b in befores:
            b()
    return before
