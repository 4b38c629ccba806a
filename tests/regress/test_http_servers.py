#!/usr/bin/env python3
"""Our parser of requests beside servers that many run, nginx and squid, as
black boxes with the same heads: what one of them refuses, ours must refuse,
too, or it stands below with its reason.  The other way is counted only.  Of
what nginx takes it must read the same method, target and body: a second
request behind the body is answered as the second."""
import collections
import glob
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.environ.get("SBX_BUILD", os.getcwd())
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import box as tests  # noqa: E402

tap = tests.Tap()
PATIENCE = 2.0      # seconds for all answers of one round
Head = collections.namedtuple("Head", "text taken method target length "
                              "chunked close used")

# What they refuse and ours takes: (server, pattern of the head, why it may).
# An entry that explains nothing any more is an error.
DIFFERENCES = [
    ("nginx", rb"^CONNECT ", "it is no proxy"),
    ("nginx", rb"^GET http://u@a/", "the parser leaves the target's host to "
     "who goes there, and the proxy takes none with a user (bad_host)"),
    ("nginx", rb"^get / ", "a method is any token, by RFC 9110; the gate knows "
     "those in capitals only, and a host gets it as it is"),
    ("nginx", rb"\r\nHost:\r\n", "an empty one is well-formed, by RFC 9112; "
     "it is never the host that the proxy goes to (host_mismatch)"),
    ("squid", rb"\r\nHost:\r\n", "the same"),
    ("nginx", rb"\r\nTransfer-Encoding:\tchunked\r\n", "blanks before a value "
     "may be tabs, by RFC 9110; what goes on is written anew with one space"),
]


def heads():
    out = subprocess.run(
        [BUILD + "/test_http_differ", "-p"] + sorted(glob.glob(
            SRC + "/tests/fuzz/corpus/http/*")),
        check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in out.splitlines():
        f = line.split(" ")
        text = bytes.fromhex(f[0])
        if f[1] == "0":
            yield Head(text, False, b"", b"", 0, False, False, 0)
        else:
            yield Head(text, True, bytes.fromhex(f[2]), bytes.fromhex(f[3]),
                       None if f[4] == "-" else int(f[4]), f[5] == "1",
                       f[6] == "1", int(f[7]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One that listens at self.port, with its configuration in self.dir."""
    says_what_it_read = False

    def __init__(self, mode):
        self.mode = mode
        self.dir = tempfile.mkdtemp(prefix="sbx-%s." % self.name)
        os.chmod(self.dir, 0o755)
        self.port = free_port()
        self.proc = None

    def fits(self, _):
        """Is it to be asked that?"""
        return True

    def start(self, conf, argv):
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write(conf)
        with open(self.dir + "/said", "wb") as said:
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                         stdout=said, stderr=said)
        end = time.monotonic() + 15
        while time.monotonic() < end and self.proc.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        with open(self.dir + "/said", encoding="utf-8",
                  errors="replace") as f:
            raise RuntimeError("%s does not start: %s" % (self.name,
                                                          f.read()[-800:]))

    def ask(self, texts):
        """What comes back for each, all on connections of their own, and
        whether it closed."""
        socks, got = {}, [[b"", False] for _ in texts]
        for i, text in enumerate(texts):
            c = socket.create_connection(("127.0.0.1", self.port), 5)
            socks[c] = i
            try:
                c.sendall(text)
            except OSError:
                pass    # it closed before it had read all
        end = time.monotonic() + PATIENCE
        while socks and time.monotonic() < end:
            ready = select.select(list(socks), [], [],
                                  max(0, end - time.monotonic()))[0]
            for c in ready:
                try:
                    b = c.recv(1 << 16)
                except OSError:
                    b = b""
                got[socks[c]][0] += b
                if not b:
                    got[socks.pop(c)][1] = True
                    c.close()
        for c in socks:
            c.close()
        return got

    def close(self):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Nginx(Server):
    """A server of its own; what it read is its answer."""
    name, package = "nginx", "nginx-light"
    taken, says_what_it_read = {b"200"}, True
    program = os.environ.get("SBX_NGINX") or shutil.which(
        "nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")

    def run(self):
        paths = "".join("%s_temp_path %s/t;" % (x, self.dir) for x in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return self.start("""
daemon off; worker_processes 1; pid %s/pid; error_log %s/log; %s
events { worker_connections 512; }
http {
	access_log off; default_type text/plain; client_max_body_size 0;
	%s
	server {
		listen 127.0.0.1:%d;
		location / {
			return 200 "[$request_method $request_uri]";
		}
	}
}
""" % (self.dir, self.dir, "user nobody nogroup;" if os.getuid() == 0 else "",
       paths, self.port), [self.program, "-p", self.dir, "-e",
                           self.dir + "/log", "-c", self.dir + "/conf"])


class Squid(Server):
    """A proxy, before a server for what has no host in its target; it passes
    nothing on: what it reads is answered 403."""
    name, package = "squid", "squid"
    taken = {b"403"}
    program = shutil.which("squid", path=os.environ["PATH"] +
                           ":/usr/sbin:/sbin")
    MODES = {"accel": "accel vhost allow-direct", "proxy": ""}

    def __init__(self, mode):
        super().__init__(mode)
        if os.getuid() == 0:
            shutil.chown(self.dir, "proxy", "proxy")

    def run(self):
        return self.start("""
http_port 127.0.0.1:%d %s
http_access deny all
cache_log %s/log
cache deny all
access_log none
pid_filename none
coredump_dir none
max_filedescriptors 1024
shutdown_lifetime 0 seconds
visible_hostname black.box
""" % (self.port, self.MODES[self.mode], self.dir),
            [self.program, "-N", "-n", "sbx%d" % os.getpid(), "-f",
             self.dir + "/conf"])

    def fits(self, h):
        """As a server it takes paths, as a proxy the rest."""
        first = h.text.split(b" ")[1:2]
        path = bool(first) and first[0][:1] in (b"/", b"*")
        return path == (self.mode == "accel")


def shown(text):
    return ascii(text.decode("latin-1"))[1:-1][:90]


def status(got):
    """Of the first answer; nothing: that is waited for or closed."""
    m = re.match(rb"(?:HTTP/1\.1 100 [^\r]*\r\n\r\n)?HTTP/1\.[01] (\d+)",
                 got[0])
    return m[1] if m else b"none" if not got[0] else b"odd"


def body_of(h):
    return b"0\r\n\r\n" if h.chunked else b"x" * (h.length or 0)


def excuse(server, h, used):
    for d in DIFFERENCES:
        if d[0] == server.name and re.search(d[1], h.text):
            used.add(d)
            return d[2]
    return None


def verdicts(server, todo, used):
    """Those that both take; used: of DIFFERENCES."""
    looser, alike = 0, []
    for h, got in zip(todo, server.ask([h.text for h in todo])):
        st = status(got)
        name = "%s: %s" % (server.name, shown(h.text))
        if not h.taken:
            looser += st in server.taken
            tap.ok(True, name + ": refused%s" % (
                ", by ours only" if st in server.taken else ""))
        elif st in server.taken:
            tap.ok(True, name + ": taken by both")
            alike.append(h)
        else:
            why = excuse(server, h, used)
            tap.ok(why, name + ": refused by it (%s)%s" % (
                st.decode(), ": " + why if why else ""), got)
    print("# %d are taken by %s only" % (looser, server.name), flush=True)
    tap.ok(len(alike) > 5, "%s takes %d of what ours takes" %
           (server.name, len(alike)))
    return alike


def same_requests(server, todo):
    """A second request comes behind the body of each."""
    second = b"GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    todo = [h for h in todo if (h.length or 0) <= 65536]
    for h, got in zip(todo, server.ask([h.text[:h.used] + body_of(h) + second
                                        for h in todo])):
        path = re.sub(rb"^http://[^/?]*", b"", h.target) or b"/"
        want = [b"[%s %s]" % (h.method, path)]
        seen = re.findall(rb"\[[^\] ]+ [^\] ]*\]", got[0])
        if h.method == b"HEAD":
            want = []       # there is no body to see it in
        if not h.close:
            want.append(b"[GET /second]")
        tap.ok(seen == want and got[1], "%s reads the same: %s" % (
            server.name, shown(h.text)), (want, got))


def beside(server, todo, used):
    try:
        server.run()
        alike = verdicts(server, [h for h in todo if server.fits(h)], used)
        if server.says_what_it_read:
            same_requests(server, alike)
    finally:
        server.close()


def main():
    todo = list(heads())
    tap.ok(len(todo) > 130 and sum(h.taken for h in todo) > 30,
           "%d heads, of which ours takes %d" % (
               len(todo), sum(h.taken for h in todo)))
    for kind, modes in ((Nginx, [""]), (Squid, list(Squid.MODES))):
        if not kind.program:
            tap.absent("beside " + kind.name, "%s is not installed (package "
                       "%s)" % (kind.name, kind.package))
            continue
        used = set()
        for mode in modes:
            beside(kind(mode), todo, used)
        unused = [d[1] for d in DIFFERENCES if d[0] == kind.name and
                  d not in used]
        tap.ok(not unused, "%s: no difference is listed that there is not" %
               kind.name, unused)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
