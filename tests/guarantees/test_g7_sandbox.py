#!/usr/bin/env python3
"""G7, a sandbox: it can neither read a key or the journal, nor touch another
sandbox, the suite or the host."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

# each prints REFUSED or what it got
ATTEMPTS = {
    "uid 0 inside": "import os; os.setuid(0)",
    "chroot": "import os; os.chroot('/')",
    "mount": "import ctypes,os; c=ctypes.CDLL(None,use_errno=True); "
             "r=c.mount(b'x',b'/tmp',b'tmpfs',0,None); "
             "assert r==0, ctypes.get_errno()",
    "user namespace": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                      "assert c.unshare(0x10000000)==0, ctypes.get_errno()",
    "network namespace": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                         "assert c.unshare(0x40000000)==0, ctypes.get_errno()",
    "bpf": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
           "assert c.syscall(321,0,0,0)>=0, ctypes.get_errno()",
    "io_uring": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                "b=ctypes.create_string_buffer(120); "
                "assert c.syscall(425,1,b)>=0, ctypes.get_errno()",
    "add_key": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
               "assert c.syscall(248,b'user',b'k',b'v',1,-2)>=0, "
               "ctypes.get_errno()",
    "memory of pid 1": "open('/proc/1/mem','rb').read(1)",
    "environment of pid 1": "assert open('/proc/1/environ','rb').read()",
    "descriptors of pid 1": "import os; os.listdir('/proc/1/fd')",
    "ptrace of pid 1": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                       "assert c.ptrace(16,1,0,0)==0, ctypes.get_errno()",
    "limits of pid 1": "import resource; resource.prlimit(1, "
                       "resource.RLIMIT_CPU, (1,1))",
    "write /usr": "open('/usr/x','w')",
    "sysctl": "open('/proc/sys/kernel/hostname','w').write('x')",
    "sysrq": "open('/proc/sysrq-trigger','w').write('h')",
    "core_pattern": "open('/proc/sys/kernel/core_pattern','w').write('|/x')",
    "device node": "import os; os.mknod('/tmp/n', 0o20666, os.makedev(1,1))",
    "host's home": "import os; assert os.listdir('/root')",
    "host's var": "import os; assert os.listdir('/var/lib')",
    "host's etc": "open('/etc/shadow').read(); open('/etc/fstab').read()",
    "host's run": "assert [x for x in __import__('os').listdir('/run') "
                  "if x not in ('lock', 'user', 'shm', 'sbx')]",
    "open_by_handle_at": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                         "b=ctypes.create_string_buffer(128); "
                         "c.syscall(304,-100,b,0); "
                         "assert ctypes.get_errno() not in (1,38)",
    "kill everything": "import os; os.kill(1,9); import time; time.sleep(.1); "
                       "raise SystemExit(0 if False else 1)",
    "personality": "import ctypes; c=ctypes.CDLL(None,use_errno=True); "
                   "r=c.personality(0x0400000); "
                   "assert r!=-1, ctypes.get_errno()",
    "TIOCSTI": "import fcntl,os; m,s=os.openpty(); "
               "fcntl.ioctl(s,0x5412,b'x')",
}


def attempt(s, box, name, code):
    return s.call("sandbox_exec", container_id=box, argv=[
        "python3", "-c", code], timeout=30)


def inside(tap, s, box):
    for name, code in ATTEMPTS.items():
        r = attempt(s, box, name, code)
        tap.ok(r["status"] == "failed", f"{name}: refused", r)
    r = s.call("sandbox_exec", container_id=box,
               commands=["ls -l /proc/self/fd | awk 'NR>1{print $9}' | sort -n | tr '\\n' ' '"])
    # ls has the directory itself open as 3
    tap.ok(r["output"].split() == ["0", "1", "2", "3"],
           "only 0, 1, 2 are open in a command", r)
    r = s.call("sandbox_exec", container_id=box, argv=[
        "grep", "-E", "^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):",
        "/proc/self/status"])
    values = dict(line.split(":\t") for line in r["output"].splitlines())
    tap.ok(all(int(values[k], 16) == 0 for k in values if k[:3] == "Cap") and
           values["NoNewPrivs"] == "1" and values["Seccomp"] == "2",
           "no capability in any set, no_new_privs, a filter", r)
    r = s.call("sandbox_exec", container_id=box, argv=["cat",
                                                       "/proc/self/uid_map"])
    tap.ok(r["output"].split()[0] == "1000" and
           r["output"].split()[2] == "1", "one uid, not 0, is mapped", r)


def between(tap, s, one, two):
    s.call("sandbox_exec", container_id=one, commands=[
        "echo secret-of-one > /workspace/f", "echo x > /tmp/f",
        "echo x > /dev/shm/f"])
    s.call("sandbox_exec_background", container_id=one, commands=[
        "python3 -m http.server 8123 --bind 127.0.0.1"])
    r = s.call("sandbox_exec", container_id=two, commands=[
        "ls -A /workspace /tmp /dev/shm", "ps -e 2>/dev/null || ls /proc"])
    tap.ok("f" not in r["output"].split(), "no file of the other", r)
    r = s.call("sandbox_exec", container_id=one, commands=[
        "for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c 'import socket; "
        "socket.create_connection((\"127.0.0.1\",8123),1)' 2>/dev/null && "
        "exit 0; sleep 0.3; done; exit 1"])
    tap.ok(r["status"] == "ok", "its server answers on its own loopback", r)
    r = s.call("sandbox_exec", container_id=two, argv=[
        "python3", "-c", "import socket; "
        "socket.create_connection(('127.0.0.1',8123),1)"])
    tap.ok(r["status"] == "failed", "and not on the other's", r)
    r = s.call("sandbox_exec", container_id=two, commands=[
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null"])
    tap.ok("http.server" not in r["output"].replace("for p in", ""),
           "no process of the other", r)


def main():
    tap = mcp.Tap()
    with mcp.Suite() as s:
        one = s.call("sandbox_initialize")["container_id"]
        two = s.call("sandbox_initialize")["container_id"]
        inside(tap, s, one)
        between(tap, s, one, two)
        r = s.call("sandbox_exec", container_id=one, commands=[
            f"ls -d {s.root} {s.root}/state 2>&1; true"])
        tap.ok("No such file" in r["output"],
               "the suite's own directories are not there", r)
    tap.done()


main()
