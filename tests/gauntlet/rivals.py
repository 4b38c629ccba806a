"""squid and tinyproxy as targets, with a configuration as near to ours as they
can have: the same hosts, the same ports, squid with TLS interception of the
same names (squid-openssl).  They run in the world's host namespace and are
spoken to there; they have no sandboxes, no grants and no journal."""
import os
import shutil
import socket
import ssl
import subprocess
import time

TUNNELS = ["tunnel.test", "budget.test"]
INNER = ["inner.test", "git.test", "pypi.org", "files.pythonhosted.org",
         "crates.io", ".npmjs.org", ".github.com", ".githubusercontent.com"]
PLAIN = ["plain.test", "45.10.0.4"]


def find(*names):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    for n in names:
        p = shutil.which(n, path=path)
        if p:
            return p
    return None


class Rival:
    has_records = has_grants = False
    has_inner = has_whole = False

    def __init__(self, world):
        self.world, self.ctx = world, None
        self.dir = os.path.join(world.dir, self.name)
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o777)
        self.proc = self.start()
        end = time.monotonic() + 20
        while True:
            try:
                self.connect(None).close()
                return
            except OSError:
                if time.monotonic() > end or self.proc.poll() is not None:
                    raise RuntimeError(self.name + " does not start: " +
                                       self.said()) from None
                time.sleep(0.05)

    def said(self):
        try:
            with open(os.path.join(self.dir, "log"), encoding="utf-8") as f:
                return f.read()[-600:]
        except OSError:
            return ""

    def spawn(self, argv):
        with open(os.path.join(self.dir, "log"), "wb") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log, cwd=self.dir)

    def spawn_asking(self, argv):
        """One that asks the system's name servers only gets a view of its own
        where they are ours."""
        with open(self.dir + "/resolv", "w", encoding="ascii") as f:
            f.write("nameserver 127.0.0.1\n")
        return self.spawn(["unshare", "-m", "sh", "-c", 'mount --bind resolv '
                           '"$(realpath /etc/resolv.conf)" && exec "$@"',
                           "sh", *argv])

    def box(self, opened=True):
        return None

    def drop(self, box):
        pass

    def forget(self, box):
        pass

    def connect(self, box):
        s = socket.socket()
        s.settimeout(5)
        s.connect(("127.0.0.1", self.port))
        return s

    def trust(self, box):
        c = ssl.create_default_context(cafile=self.world.certs.ca)
        own = os.path.join(self.dir, "ca.crt")
        if os.path.exists(own):
            c.load_verify_locations(own)
        return c

    def pids(self):
        return [self.proc.pid]

    def peak_kib(self):
        n = 0
        for pid in self.pids():
            with open("/proc/%d/status" % pid, encoding="ascii") as f:
                n += int([x for x in f if x.startswith("VmHWM")][0].split()[1])
        return n

    def close(self):
        self.proc.terminate()
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()


class Tinyproxy(Rival):
    name, port = "tinyproxy", 3129

    @staticmethod
    def missing():
        return None if find("tinyproxy") else "tinyproxy is not installed"

    def start(self):
        with open(self.dir + "/filter", "w", encoding="ascii") as f:
            for h in TUNNELS + PLAIN + ["odd.test"] + INNER:
                h = h.replace(".", "\\.")
                f.write("^(.*)%s$\n" % h if h[0] == "\\" else "^%s$\n" % h)
            f.write("^(.*\\.)?wide\\.test$\n^(.*\\.)?dns\\.test$\n")
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write("Port 3129\nListen 127.0.0.1\nTimeout 20\nMaxClients 400\n"
                    "LogLevel Error\nAllow 127.0.0.1\nFilter \"%s/filter\"\n"
                    "FilterDefaultDeny Yes\nFilterExtended On\nFilterURLs Off\n"
                    "FilterCaseSensitive Off\nConnectPort 443\n"
                    "ConnectPort 8443\nDisableViaHeader Yes\n" % self.dir)
        return self.spawn_asking([find("tinyproxy"), "-d", "-c",
                                  self.dir + "/conf"])


class Squid(Rival):
    name, port = "squid", 3128

    @staticmethod
    def missing():
        return None if find("squid") else "squid is not installed"

    def start(self):
        squid, helper = find("squid"), "/usr/lib/squid/security_file_certgen"
        out = subprocess.run([squid, "-v"], stdout=subprocess.PIPE,
                             check=False, text=True).stdout
        self.has_inner = "--enable-ssl-crtd" in out and os.path.exists(helper)
        port = "http_port 127.0.0.1:3128"
        if self.has_inner:
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                 "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj",
                 "/CN=Test Interception"], cwd=self.dir, check=True,
                stderr=subprocess.DEVNULL)
            with open(self.dir + "/ca.pem", "wb") as f:
                for n in ("ca.key", "ca.crt"):
                    with open(os.path.join(self.dir, n), "rb") as g:
                        f.write(g.read())
            subprocess.run([helper, "-c", "-s", self.dir + "/certs", "-M",
                            "4MB"], check=True, stdout=subprocess.DEVNULL)
            port += " ssl-bump generate-host-certificates=on " \
                "dynamic_cert_mem_cache_size=4MB tls-cert=%s/ca.pem\n" \
                "sslcrtd_program %s -s %s/certs -M 4MB\nsslcrtd_children 2\n" \
                "tls_outgoing_options cafile=%s" % (self.dir, helper, self.dir,
                                                    self.world.certs.ca)
        bump = """acl at_connect at_step SslBump1
acl sni_tunnel ssl::server_name --client-requested %s
acl sni_inner ssl::server_name --client-requested %s
ssl_bump peek at_connect
ssl_bump bump sni_inner
ssl_bump splice sni_tunnel
ssl_bump terminate all
""" % (" ".join(TUNNELS + ["odd.test", ".wide.test"]), " ".join(INNER)) \
            if self.has_inner else ""
        with open(self.dir + "/conf", "w", encoding="ascii") as f:
            f.write("""%s
%sacl connect method CONNECT
acl reading method GET HEAD
acl tunnels dstdomain -n %s .wide.test .dns.test
acl inner dstdomain -n %s
acl registries dstdomain -n pypi.org files.pythonhosted.org crates.io .npmjs.org
acl plain dstdomain -n %s .dns.test
acl odd dstdomain -n odd.test
acl p443 port 443
acl p8443 port 8443
acl p80 port 80
acl private dst 0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 45.10.0.1 2a0b::1 ::/128 ::1 64:ff9b::/96 64:ff9b:1::/48 100::/64 fc00::/7 fe80::/10 fec0::/10 ff00::/8 2001::/23 2001:db8::/32 2002::/16
acl named dstdomain -n %s
http_access deny !named
http_access deny private
http_access deny registries !reading !connect
http_access allow connect p443 tunnels
http_access allow connect p443 inner
http_access allow connect p8443 odd
http_access allow !connect p443 inner
http_access allow !connect p80 plain
http_access deny all
cache deny all
access_log none
cache_log %s/cache.log
pid_filename none
coredump_dir %s
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
request_header_access Authorization deny inner
request_header_access Cookie deny inner
via off
forwarded_for delete
workers 1
max_filedescriptors 4096
""" % (port, bump, " ".join(TUNNELS), " ".join(INNER), " ".join(PLAIN),
                " ".join(TUNNELS + INNER + PLAIN +
                         ["odd.test", ".wide.test", ".dns.test"]),
                self.dir, self.dir))
        subprocess.run(["chmod", "-R", "a+rwX", self.dir], check=True)
        return self.spawn([squid, "-N", "-f", self.dir + "/conf"])

    def said(self):
        try:
            with open(self.dir + "/cache.log", encoding="utf-8") as f:
                return f.read()[-800:]
        except OSError:
            return super().said()


class Mitmproxy(Rival):
    """Without a policy, which would be a program of ours: to measure, not for
    the gauntlet.  Bodies are streamed and nothing is kept."""
    name, port, has_inner = "mitmproxy", 3130, True

    @staticmethod
    def missing():
        return None if find("mitmdump") else "mitmproxy is not installed"

    def start(self):
        hosts = "|".join(h.replace(".", "\\.") for h in TUNNELS)
        options = {"confdir": self.dir + "/conf", "stream_large_bodies": "1",
                   "ssl_verify_upstream_trusted_ca": self.world.certs.ca,
                   "http2": "false", "connection_strategy": "lazy"}
        return self.spawn_asking(
            [find("mitmdump"), "-q", "--listen-host", "127.0.0.1",
             "--listen-port", str(self.port), "--ignore-hosts",
             "^(%s):443$" % hosts, *[x for k, v in options.items()
                                     for x in ("--set", k + "=" + v)]])

    def trust(self, box):
        c = super().trust(box)
        c.load_verify_locations(self.dir + "/conf/mitmproxy-ca-cert.pem")
        return c


RIVALS = {"squid": Squid, "tinyproxy": Tinyproxy}
MEASURED = {**RIVALS, "mitmproxy": Mitmproxy}
