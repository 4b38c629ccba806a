#!/usr/bin/env python3
"""G2: a sandbox has no network device but lo.  Its only way out is a socket
that was bound inside and lives in sbx-proxy."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

PROBE = r"""
import socket, errno, fcntl, struct
def attempt(name, f):
    try:
        f()
        print(name, "OPEN")
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2)
    s.connect(address)
def udp(address):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", address)
print("devices", ",".join(sorted(n for _, n in socket.if_nameindex())))
attempt("tcp4", lambda: tcp(socket.AF_INET, ("192.0.2.1", 443)))
attempt("tcp6", lambda: tcp(socket.AF_INET6, ("2001:db8::1", 443)))
attempt("udp4", lambda: udp(("192.0.2.1", 53)))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
attempt("egress", lambda: tcp(socket.AF_INET, ("127.0.0.1", 3128)))
attempt("rebind", lambda: socket.socket().bind(("127.0.0.1", 3128)))
def up():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0))
attempt("lo_down", up)
attempt("host_abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0%s"))
"""
REFUSED = {"tcp4": {"ENETUNREACH"}, "tcp6": {"ENETUNREACH", "EADDRNOTAVAIL"},
           "udp4": {"ENETUNREACH"}, "packet": {"EPERM", "EAFNOSUPPORT"},
           "raw": {"EPERM"}, "vsock": {"EAFNOSUPPORT", "EPERM"},
           "alg": {"EAFNOSUPPORT", "EPERM"}, "egress": {"ECONNREFUSED"},
           "rebind": {"EADDRINUSE"}, "lo_down": {"EPERM"},
           "host_abstract": {"ECONNREFUSED", "EPERM"}}


def refusals(tap, s, box, name, refused, prefix):
    r = s.call("sandbox_exec", container_id=box,
               argv=["python3", "-c", PROBE % name])
    got = dict(line.split(None, 1) for line in r["output"].splitlines()
               if " " in line)
    tap.ok(got.get("devices") == "lo", prefix + "the only device is lo", r)
    for what, allowed in refused.items():
        tap.ok(got.get(what) in allowed,
               f"{prefix}{what}: {' or '.join(sorted(allowed))}", got)


def main():
    import socket
    tap = mcp.Tap()
    host = socket.socket(socket.AF_UNIX)
    name = f"sbx-g2-{os.getpid()}"
    host.bind("\0" + name)
    host.listen()
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize")["container_id"]
        refusals(tap, s, box, name, REFUSED, "")
        out = s.call("sandbox_initialize",
                     allow_network=True)["container_id"]
        refusals(tap, s, out, name, dict(REFUSED, egress={"OPEN"}),
                 "with egress: ")
        procs = s.processes()
        nets = {pid: os.readlink(f"/proc/{pid}/ns/net")
                for pid in procs["sbx-init"] + procs["sbxd-engine"]} \
            if os.getuid() == 0 else {}
        mine = os.readlink("/proc/self/ns/net")
        tap.ok(mine not in nets.values(),
               "neither it nor the engine is in the host's network namespace",
               nets)
        inside = s.call("sandbox_exec", container_id=box,
                        argv=["readlink", "/proc/self/ns/net"])
        tap.ok(inside["output"].strip() not in ("", mine),
               "its network namespace is another than ours", inside)
    host.close()
    tap.done()


main()
