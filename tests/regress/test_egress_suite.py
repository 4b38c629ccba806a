#!/usr/bin/env python3
"""A whole suite with a way out: what clients in a sandbox see of it, the
settings read again, a proxy that dies, forks, grants by an operator's hand."""
import base64
import hashlib
import io
import json
import os
import re
import signal
import sys
import tarfile
import time
import zipfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
CODE = "curl -s -m 10 -o /dev/null -w '%%{http_code} %%{http_connect}' %s"
SECRET = "canary-0123456789abcdef"


def wheel():
    """sbxdemo, at pypi.org"""
    b, info = io.BytesIO(), "sbxdemo-1.0.dist-info/"
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("sbxdemo.py", "VERSION = '1.0'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\n"
                   "Name: sbxdemo\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\n"
                   "Root-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return b.getvalue()


def tarball():
    """@sbx/demo, of npm's"""
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w:gz") as t:
        for name, text in (("package.json", '{"name": "@sbx/demo", '
                            '"version": "3.1.0"}'),
                           ("index.js", "module.exports = 31;\n")):
            member = tarfile.TarInfo("package/" + name)
            member.size = len(text)
            t.addfile(member, io.BytesIO(text.encode()))
    return b.getvalue()


WHEEL, TARBALL = wheel(), tarball()
NAME = "sbxdemo-1.0-py3-none-any.whl"
REGISTRY = {
    "/simple/sbxdemo/": ("text/html", f'<a href="../../f/{NAME}">'
                         f'{NAME}</a>\n'.encode()),
    "/f/" + NAME: ("application/zip", WHEEL),
    "/@sbx%2fdemo": ("application/json", json.dumps({
        "name": "@sbx/demo", "dist-tags": {"latest": "3.1.0"}, "versions": {
            "3.1.0": {"name": "@sbx/demo", "version": "3.1.0", "dist": {
                "tarball": "https://registry" ".npmjs.org/demo.tgz",
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(
                    TARBALL).digest()).decode()}}}}).encode()),
    "/demo.tgz": ("application/octet-stream", TARBALL),
}


def registry(r):
    kind, body = REGISTRY.get(r["target"], ("", b""))
    return (200 if body else 404), {"Content-Type": kind or "text/plain"}, \
        body


class Place:
    def __init__(self):
        self.ca = egress.Authority()
        self.ends = {n: egress.Upstream(self.ca, [n]) for n in (
            "api.github.com", "tunnel.example", "deep.example",
            "later.example")}
        self.ends.update({n: egress.Upstream(self.ca, [n], answer=registry)
                          for n in ("pypi.org", "registry" ".npmjs.org")})
        self.conf = "".join(
            "resolve %s:443 127.0.0.1:%d\n" % (n, u.port)
            for n, u in self.ends.items()) + \
            "upstream_ca %s/root.pem\n" % self.ca.dir + \
            "grant_host git.example\n"
        os.chmod(self.ca.dir, 0o755)
        os.chmod(self.ca.dir + "/root.pem", 0o644)
        self.hosts = "allow_host tunnel.example\nintercept_host deep.example\n"
        self.s = mcp.Suite(conf=self.conf + self.hosts)

    def sh(self, box, command, **more):
        r = self.s.call("sandbox_exec", container_id=box, commands=[command],
                        **more)
        return r.get("output", "") + r.get("stderr", "") or str(r)

    def settings(self, hosts):
        with open(self.s.root + "/etc/sbx.conf", "w") as f:
            f.write(self.conf + hosts)
        os.kill(self.s.processes()["sbxd"][0], signal.SIGHUP)

    def proxy(self):
        return self.s.processes().get("sbx-proxy", [None])[0]


def look(p, box):
    """what a sandbox with egress can do, and what it cannot"""
    ok(p.sh(box, CODE % "https://api.github.com/repos/o/r") == "200 200",
       "an intercepted host answers")
    ok(p.sh(box, CODE % "https://tunnel.example/x") == "200 200",
       "a tunnelled host answers")
    ok(p.sh(box, CODE % "https://deep.example/x") == "200 200",
       "a host that the operator has intercepted answers")
    ok(p.sh(box, CODE % "https://later.example/x") == "000 403",
       "one that is not allowed is refused")
    text = p.sh(box, "curl -s -m 10 http://later.example/")
    ok(text.startswith("BLOCKED by sbx: ") and "allow_host http://later"
       in text, "with the reason and the mend", text)
    ok(p.sh(box, "curl -s -m 5 --noproxy '*' https://192.0.2.1/; echo $?") ==
       "7\n", "nothing goes round the proxy")


def canary(p, box):
    """G1, the other way: what a guest sends as its own goes nowhere"""
    p.sh(box, "curl -s -m 10 -H 'Authorization: Bearer %s' -H 'Cookie: a=%s' "
         "'https://deep.example/q?access_token=%s&b=1'" % ((SECRET,) * 3))
    r = p.ends["deep.example"].requests[-1]
    ok(SECRET not in repr(r) and "b=1" in r["target"],
       "credentials of a client's own are removed", r)
    ok(SECRET not in repr([j for j in p.s.journal()
                           if j["component"] == "proxy"]),
       "and the proxy's records have none")


def environment(p, box):
    names = {"HTTP_PROXY", "https_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO",
             "NODE_EXTRA_CA_CERTS", "NO_PROXY"}
    for what, command in (
            ("an exec", "env"),
            ("a login shell that begins with nothing",
             "env -i HOME=/home/sandbox bash -l -c env")):
        got = {line.split("=")[0] for line in p.sh(box, command).split("\n")}
        ok(names <= got, what + " has the variables", names - got)
    r = p.s.call("sandbox_exec", container_id=box, commands=["echo $NO_PROXY"],
                 env={"NO_PROXY": "mine"})
    ok(r["output"] == "mine\n", "a caller's own value wins", r)
    ok("Read-only" in p.sh(box, "echo > /run/sbx/ca.pem"),
       "what clients trust cannot be changed")


def setup(p, _):
    """what is installed once has the way out that was asked for"""
    s = ["curl -s -f -m 10 -o ~/got https://deep.example/x"]
    r = p.s.call("sandbox_initialize", setup=s)
    ok(r["status"] == "error" and "container_id" not in r,
       "setup has none by itself", r)
    for cached in (False, True):
        r = p.s.call("sandbox_initialize", setup=s, allow_network=True)
        ok(r["status"] == "ok" and r["deps"]["cached"] is cached and p.sh(
            r["container_id"], "test -s ~/got && echo there") == "there\n",
           "with allow_network it has one, and is kept", r)
        p.s.call("sandbox_stop", container_id=r["container_id"], force=True)


def fresh(p, box, **kw):
    n = p.s.start_call("verify_in_container", container_id=box, fresh=True,
                       **kw)
    r = p.s.answer(n, 60)["result"]["structuredContent"]
    while r["status"] == "running":
        r = p.s.call("verify_in_container", container_id=box, fresh=True,
                     run_id=r["run_id"])
    return r


def fetched(p):
    return len(p.ends["pypi.org"].requests) + \
        len(p.ends["registry" ".npmjs.org"].requests)


def packages(p, _):
    """what package_install got by name is below a fresh verification"""
    def install(box, **kw):
        n = p.s.start_call("package_install", container_id=box, **kw)
        return p.s.answer(n, 60)["result"]["structuredContent"]

    def project():
        # with a pip that need not be unpacked first
        r = p.s.call("sandbox_initialize", allow_network=True, setup=[
            "python3 -m venv --without-pip --system-site-packages ~/.venv"])
        box = r["container_id"]
        p.sh(box, "printf '[project]\\nname = \"p\"\\nversion = \"1\"\\n' "
             ">pyproject.toml; printf 'import json, os, sbxdemo\\n"
             "def test_v():\\n    assert sbxdemo.VERSION == \"1.0\"\\n"
             "    assert not os.path.exists(\"package.json\")\\n"
             "    p = \"node_modules/@sbx/demo/package.json\"\\n"
             "    assert json.load(open(p))[\"version\"] == \"3.1.0\"\\n'"
             " >test_p.py; printf 'node_modules\\n/package*\\n' >.gitignore; "
             "git init -q; git add -A; "
             "git -c user.name=t -c user.email=t@t commit -qm base")
        return box

    box = project()
    r = fresh(p, box)
    ok(r["status"] == "failed" and not r["gate"] and
       r["dependencies"]["packages"] == [], "nothing was installed", r)
    for kw in ({"packages": ["sbxdemo >= 1"]},
               {"packages": ["@sbx/demo"], "manager": "npm"}):
        r = install(box, **kw)
        ok(r["status"] == "ok" and r["changed"] == 1 and r["in_fresh"],
           "package_install", r)
    # what runs there writes where the manager looks, and a command of its own
    p.sh(box, "echo 'VERSION = 6' >~/.venv/lib/python3*/site-packages/"
         "sbxdemo.py; echo 7 >node_modules/@sbx/demo/package.json; "
         "~/.venv/bin/python -m pip install --no-input -q sbxdemo; "
         "printf '[global]\\nindex-url = http://127.0.0.1:1/\\n' "
         ">~/.config/pip/pip.conf || mkdir -p ~/.config/pip; "
         "echo 'registry=http://127.0.0.1:1/' | tee ~/.npmrc .npmrc")
    n = fetched(p)
    r = fresh(p, box, files=["test_p.py"])
    d = r["dependencies"]
    ok(r["status"] == "ok" and r["gate"] and d["prepared"] and
       d["packages"] == ["pip install 'sbxdemo >= 1'",
                         "npm install @sbx/demo"] and
       d["layer"] == r["layer"] and d["layer"].startswith("sha256:") and
       d["setup"] != d["layer"] and d["left_out"] == 0 and not d["cached"] and
       fetched(p) > n, "a fresh verification installs the same anew", r)
    n = fetched(p)
    r = p.s.call("sandbox_fork", container_id=box, count=1)
    fork = r["sandboxes"][0]["container_id"]
    p.sh(fork, "cp -r node_modules/@sbx/demo ~/here; rm -rf node_modules; "
         "echo '{\"name\": \"h\", \"version\": \"1.0.0\"}' "
         ">~/here/package.json; rm -f .npmrc ~/.npmrc")
    r = install(fork, packages=["/home/sandbox/here"], manager="npm")
    ok(r["status"] == "ok" and r["in_fresh"] is False, "a path is not", r)
    r = fresh(p, fork, files=["test_p.py"])
    ok(r["gate"] and r["layer"] == d["layer"] and
       r["dependencies"]["cached"] and fetched(p) == n and
       r["dependencies"]["left_out"] == 1 and
       "setup" in r["dependencies"]["note"],
       "a fork has what was installed, and what is left out is said", r)
    below = project()
    kw = {"packages": ["@sbx/demo"], "manager": "npm"}
    REGISTRY["/demo.tgz"] = ("application/octet-stream", b"broken")
    r = install(below, **kw)
    ok(r["status"] == "failed", "a failed install", r)
    REGISTRY["/demo.tgz"] = ("application/octet-stream", TARBALL)
    r = install(below, **kw)
    REGISTRY["/demo.tgz"] = ("application/octet-stream", b"broken")
    ok(r["status"] == "ok", "and one that is none", r)
    r = fresh(p, below)
    d = r["dependencies"]
    ok(r["status"] == "failed" and not r["gate"] and not d["prepared"] and
       d["packages"] == ["npm install @sbx/demo"] and
       "cannot be installed again" in r["why"] and
       "command 1 of 1 ended" in d["stderr"] and
       "npm install @sbx/demo" in d["stderr"] and r["tree_id"] is None and
       d["layer"] is None and d["setup"].startswith("sha256:"),
       "what cannot be installed again opens nothing", r)
    REGISTRY["/demo.tgz"] = ("application/octet-stream", TARBALL)
    r = fresh(p, below)
    ok(r["dependencies"]["prepared"] and r["dependencies"]["setup"] ==
       d["setup"] != r["layer"] and r["tests"] and not r["gate"],
       "and later it is, on what setup made", r)
    for b in (box, fork, below):
        p.s.call("sandbox_stop", container_id=b, force=True)


def reload_(p, box):
    hold = p.s.start_call(
        "sandbox_exec", container_id=box, timeout=60, commands=[
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT "
            "tunnel.example:443 HTTP/1.1\\r\\nHost: tunnel.example:443\\r\\n"
            "\\r\\n' >&3; read -r line <&3; echo \"$line\"; cat <&3 "
            ">/dev/null; date +%s.%N"])
    time.sleep(1.5)
    p.settings(p.hosts.replace("tunnel", "later"))
    began = time.time()
    ended = p.s.answer(hold)["result"]["structuredContent"]["output"]
    ok("200" in ended and float(ended.split()[-1]) - began < 1.2,
       "a tunnel that is not allowed any more is closed", (ended, began))
    ok(p.sh(box, CODE % "https://later.example/x") == "200 200",
       "and what is allowed now answers")
    ok(p.sh(box, CODE % "https://tunnel.example/x") == "000 403",
       "and what is not, does not")
    p.settings("allow_host https://\n")
    time.sleep(0.5)
    ok(p.sh(box, CODE % "https://later.example/x") == "200 200",
       "a mistake changes nothing")
    p.settings(p.hosts)
    ok(p.s.wait_for(lambda: p.sh(box, CODE % "https://tunnel.example/x") ==
                    "200 200"), "as it was before")


def dies(p, box):
    """the proxy; its sandboxes go on with what they trust"""
    was, trust = p.proxy(), p.sh(box, "cat /run/sbx/ca.pem")
    os.kill(was, signal.SIGKILL)
    ok(p.s.wait_for(lambda: p.proxy() not in (None, was)),
       "another proxy takes its place")
    ok(p.s.wait_for(lambda: p.sh(
        box, CODE % "https://api.github.com/repos/o/r") == "200 200"),
       "the way out is open again")
    ok(p.sh(box, "cat /run/sbx/ca.pem") == trust,
       "under the authority that it had")


def others(p, box):
    """what comes of a sandbox that has a way out"""
    r = p.s.call("sandbox_snapshot", container_id=box)
    ok(r["status"] == "ok", "a snapshot", r)
    snap = r["snapshot_id"]
    r = p.s.call("sandbox_restore", container_id=box, snapshot=snap,
                 force=True)
    ok(r["status"] == "ok" and p.s.wait_for(lambda: p.sh(
        box, CODE % "https://deep.example/x") == "200 200"),
       "after a restore it answers", r)
    r = p.s.call("sandbox_fork", container_id=box, count=2)
    forks = [c["container_id"] for c in r.get("sandboxes", ())]
    ok(len(forks) == 2, "forks", r)
    for f in forks:
        ok(p.sh(f, CODE % "https://deep.example/x") == "200 200",
           "a fork has a way out of its own")
    ok(len({p.sh(f, "cat /run/sbx/ca.pem") for f in [box, *forks]}) == 3,
       "and an authority of its own")
    for f in forks:
        p.s.call("sandbox_stop", container_id=f, force=True)
    r = p.s.call("run_container_and_exec", allow_network=True,
                 commands=[CODE % "https://deep.example/x"])
    ok(r.get("output") == "200 200", "a throwaway sandbox, too", r)


def grants(p, box, without):
    new = "a" * 40
    own = "git.example/o/r"
    g = p.s.sbx("grant", "-t", "2", box, own, "refs/heads/x", new)
    found = re.match(r"granted ([0-9a-f]{16}): one push", g.stdout)
    ok(g.returncode == 0 and found, "a grant is opened", g)
    for what, args in (
            ("of a sandbox without a way out",
             [without, own, "refs/heads/x", new]),
            ("of no ref", [box, own, "HEAD", new]),
            ("of no commit", [box, own, "refs/heads/x", "xyz"]),
            ("that GitHub takes with a credential only",
             [box, "o/r", "refs/heads/x", new]),
            ("of a host that is no git server",
             [box, "tunnel.example/o/r", "refs/heads/x", new])):
        g = p.s.sbx("grant", *args)
        ok(g.returncode in (1, 3) and g.stderr.startswith("sbx: "),
           "refused: one " + what, g)
        ok("GitHub" not in what or g.stderr.endswith(
            "and send the suite SIGHUP.\n"), "with all of the mend", g)
    ident = found.group(1)

    def records():
        return [j for j in p.s.journal() if j["op"] == "grant" and
                j["fields"].get("grant") == ident]
    ok(p.s.wait_for(lambda: [j["phase"] for j in records()] ==
                    ["start", "end"], 6), "its records: start, end",
       records())
    ok(records()[0]["fields"]["new_id"] == new, "with what it was for",
       records()[0])


def lockdown(p, box):
    """closed for old and new, over a restart of the proxy, until lifted"""
    was = p.proxy()
    r = p.s.sbx("lockdown")
    ok(r.returncode == 0 and "locked down, 0 grants" in r.stdout and
       os.path.exists(p.s.root + "/state/lockdown"), "sbx lockdown", r)
    ok(p.s.wait_for(lambda: p.proxy() not in (None, was)),
       "what the proxy held ends with it")
    ok(p.s.wait_for(lambda: p.sh(
        box, CODE % "https://api.github.com/repos/o/r") == "000 403"),
       "no way out")
    ok("locked down" in p.sh(box, "curl -s -m 10 http://later.example/"),
       "with the reason")
    ok("locked down" in p.s.sbx("ps").stderr, "sbx ps says so")
    r = p.s.call("sandbox_initialize", allow_network=True)
    ok(r["status"] == "error" and r["code"] == "locked",
       "a new sandbox gets none", r)
    g = p.s.sbx("grant", box, "git.example/o/r", "refs/heads/x", "a" * 40)
    ok(g.returncode == 3 and "locked down" in g.stderr, "nor is a push", g)
    ok(p.s.sbx("lockdown").returncode == 0, "twice is once")
    r = p.s.sbx("lockdown", "off")
    ok(r.returncode == 0 and not os.path.exists(p.s.root + "/state/lockdown"),
       "sbx lockdown off", r)
    ok(p.s.wait_for(lambda: p.sh(
        box, CODE % "https://api.github.com/repos/o/r") == "200 200"),
       "the way out is open again")
    ok({(j["op"], j["phase"]) for j in p.s.journal()} >=
       {("lockdown", "start"), ("lockdown", "end")}, "both are on record")
    ok(p.s.sbx("lockdown", "maybe").returncode == 1, "on or off")


def main():
    p = Place()
    with p.s as s:
        r = s.call("sandbox_initialize")
        without = r["container_id"]
        ok(r["network"] == "off" and p.sh(
            without, "env | grep -ci proxy; curl -s -m 5 -x "
            "http://127.0.0.1:3128 https://api.github.com/; echo $?") ==
           "0\n7\n", "without allow_network: no variable, refused", r)
        r = s.call("sandbox_initialize", allow_network=True)
        ok(r.get("network") == "on", "allow_network", r)
        box = r["container_id"]
        for part in (look, canary, environment, setup, packages, reload_, dies,
                     others):
            part(p, box)
        grants(p, box, without)
        lockdown(p, box)
        seen = s.wait_for(lambda: [
            j for j in s.journal() if j["component"] == "proxy" and
            j["op"] == "egress" and j["fields"].get("layer") == "policy" and
            j["container_id"] == box])
        ok(seen, "refusals are in the journal under the sandbox")
        r = {c["container_id"]: c["network"] for c in
             s.call("sandbox_list_containers")["containers"]}
        ok(r == {without: "off", box: "on"}, "the list says which", r)
    for u in p.ends.values():
        u.close()
    p.ca.close()
    tap.done()
    sys.exit(tap.bad > 0)


try:
    main()
except egress.Unable as e:
    tap.skip(str(e), "a suite with egress")
    tap.done()
