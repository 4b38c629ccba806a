#!/usr/bin/env python3
"""Clients that people use, to a host whose TLS ends in the proxy and to one
that is tunnelled, with nothing set up by the user: the proxy alone with the
variables of common/base/egress_env.c, and then a sandbox of the suite."""
import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SRC, "tests", d) for d in ("lib", "gauntlet")]
import box as tests  # noqa: E402
import clients  # noqa: E402
import egress  # noqa: E402
import mcp  # noqa: E402

tap = tests.Tap()
HOSTS = {"intercepted": "inner.test", "tunnelled": "tunnel.test"}

# --- what the host serves -----------------------------------------------------


def wheel():
    out, info = io.BytesIO(), "tiny-1.0.dist-info/"
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("tiny.py", "x = 1\n")
        z.writestr(info + "METADATA",
                   "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\n"
                   "Root-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return out.getvalue()


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            i = tarfile.TarInfo(name)
            i.size, i.mode = len(text), 0o644
            t.addfile(i, io.BytesIO(text.encode()))
    return out.getvalue()


def gozip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("m.test/m@v1.0.0/go.mod", "module m.test/m\n")
        z.writestr("m.test/m@v1.0.0/m.go", "package m\n")
    return out.getvalue()


CRATE = tar({"tiny-1.0.0/Cargo.toml": '[package]\nname="tiny"\nversion="1.0.0"'
             '\nedition="2018"\n', "tiny-1.0.0/src/lib.rs": ""})
NPM = tar({"package/package.json": '{"name":"tiny","version":"1.0.0"}'})
INTEGRITY = "sha512-" + base64.b64encode(hashlib.sha512(NPM).digest()).decode()


def pages(host):
    sha = "1" * 40
    return {
        "/file": b"hello from upstream\n",
        "/simple/tiny/": b'<a href="/files/tiny-1.0-py3-none-any.whl">'
                         b"tiny-1.0-py3-none-any.whl</a>",
        "/files/tiny-1.0-py3-none-any.whl": wheel(),
        "/tiny": json.dumps({
            "name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {
                "1.0.0": {"name": "tiny", "version": "1.0.0", "dist": {
                    "integrity": INTEGRITY, "tarball":
                    "https://%s/tiny/-/tiny-1.0.0.tgz" % host}}}}).encode(),
        "/tiny/-/tiny-1.0.0.tgz": NPM,
        "/m.test/m/@v/v1.0.0.info": b'{"Version":"v1.0.0"}',
        "/m.test/m/@v/v1.0.0.mod": b"module m.test/m\n",
        "/m.test/m/@v/v1.0.0.zip": gozip(),
        "/index/config.json": b'{"dl":"https://%s/crates"}' % host.encode(),
        "/index/ti/ny/tiny": json.dumps({
            "name": "tiny", "vers": "1.0.0", "deps": [], "features": {},
            "yanked": False,
            "cksum": hashlib.sha256(CRATE).hexdigest()}).encode() + b"\n",
        "/crates/tiny/1.0.0/download": CRATE,
        "/r.git/info/refs?service=git-upload-pack":
            sha.encode() + b"\trefs/heads/main\n",
        "/r.git/info/refs": sha.encode() + b"\trefs/heads/main\n",
        "/r.git/HEAD": b"ref: refs/heads/main\n",
    }


def answer(request):
    body = pages(request["headers"].get("host", "")).get(request["target"])
    kind = {"/si": "text/html", "/ti": "application/json"}.get(
        request["target"][:3], "application/octet-stream")
    return (404, {}, b"nothing here\n") if body is None else \
        (200, {"Content-Type": kind}, body)


# --- the clients ----------------------------------------------------------------

JAVA = """import java.net.*; import java.io.*;
public class Fetch { public static void main(String[] a) throws Exception {
 System.out.write(new URL(a[0]).openStream().readAllBytes());
 System.out.flush(); } }
"""
NODE = "fetch(process.argv[1]).then(r=>r.text()).then(t=>process.stdout." \
    "write(t)).catch(e=>{console.error(e.cause||e);process.exit(1)})"
HELLO = "hello from upstream"
PY = "/usr/bin/python3"


def node_has_proxy():
    """By NODE_USE_ENV_PROXY: from 22.21 and 24 on."""
    try:
        v = subprocess.run(["node", "-v"], stdout=subprocess.PIPE, text=True,
                           check=False).stdout
    except OSError:
        return True
    m = re.match(r"v(\d+)\.(\d+)", v)
    return bool(m) and (int(m[1]) >= 24 or
                        (int(m[1]) == 22 and int(m[2]) >= 21))


# (name, program, script for sh, what its output has)
CLIENTS = [
    ("curl", "curl", "curl -sS https://$H/file", HELLO),
    ("wget", "wget", "wget -qO- https://$H/file", HELLO),
    ("git", "git", "git ls-remote https://$H/r.git", "refs/heads/main"),
    ("python urllib", PY, PY + " -c 'import sys, urllib.request as u; "
     "print(u.urlopen(sys.argv[1]).read().decode())' https://$H/file", HELLO),
    ("python requests", PY + ":requests", PY + " -c 'import sys, requests; "
     "print(requests.get(sys.argv[1]).text)' https://$H/file", HELLO),
    ("python httpx", PY + ":httpx", PY + " -c 'import sys, httpx; "
     "print(httpx.get(sys.argv[1]).text)' https://$H/file", HELLO),
    ("pip", PY + ":pip", PY + " -m pip --disable-pip-version-check download "
     "-q --no-deps -d . -i https://$H/simple tiny && ls", "tiny-1.0-py3"),
    ("node fetch", "node", "node -e '%s' https://$H/file" % NODE, HELLO),
    ("npm", "npm", "npm install --no-audit --no-fund --no-update-notifier "
     "--registry https://$H/ tiny && ls node_modules", "tiny"),
    ("go", "go", "export GOPROXY=https://$H GONOSUMDB=* GOFLAGS=-mod=mod "
     "GOPATH=$PWD/go GOCACHE=$PWD/cache; printf 'module x\\n' >go.mod; "
     "go mod download -json m.test/m@v1.0.0; chmod -R u+w go", '"v1.0.0"'),
    ("cargo", "cargo", "mkdir -p src; : >src/lib.rs; printf '[package]\\n"
     'name="x"\\nversion="0.1.0"\\n[dependencies]\\ntiny={version="1",'
     "registry=\"x\"}\\n' >Cargo.toml; export CARGO_HOME=$PWD/.cargo-home "
     "CARGO_REGISTRIES_X_INDEX=sparse+https://$H/index/; cargo fetch && "
     "find .cargo-home -name 'tiny*.crate'", "tiny-1.0.0.crate"),
    ("java", "java", "printf '%s' '" + JAVA.replace("\n", " ") +
     "' >Fetch.java; java Fetch.java https://$H/file", HELLO),
]


def have(program):
    """A line for sh: does that sandbox have it?"""
    name, _, module = program.partition(":")
    return ("%s -c 'import %s'" % (name, module) if module else
            "command -v " + name) + " >/dev/null 2>&1"


def matrix(prefix, run):
    """run(script) -> (exit code, output)"""
    for name, program, script, want in CLIENTS:
        if run(have(program))[0] != 0:
            tap.absent("%s%s" % (prefix, name), "there is no " + program)
            continue
        if name == "node fetch" and not node_has_proxy():
            tap.absent(prefix + name, "this node asks no proxy")
            continue
        if name == "cargo" and run("v=$(cargo --version); v=${v#cargo 1.}; "
                                   "[ ${v%%.*} -ge 68 ]")[0] != 0:
            tap.absent(prefix + name, "this one has no sparse registries")
            continue
        for how, host in HOSTS.items():
            code, out = run("d=$(mktemp -d) && cd $d && H=%s && %s" % (
                host, script))
            tap.ok(code == 0 and want in out, "%s%s, %s" % (prefix, name, how),
                   out)


# --- the two ways -------------------------------------------------------------------

def cargo_path():
    """Where this user's own tools are, first: their cargo wants the rustc
    it came with.  A sandbox does not see them."""
    home = os.path.expanduser("~/.cargo/bin")
    return home + ":" if os.path.isdir(home) else ""


def entries(port):
    return ["intercept_host https://inner.test",
            "allow_host https://tunnel.test"] + \
        ["resolve %s:443 127.0.0.1:%d" % (h, port) for h in HOSTS.values()]


def alone(ca, up):
    """In the namespace of enter()."""
    with egress.Proxy(entries(up.port), roots_pem=ca.pem) as p:
        s = p.open()
        env = clients.environment(s, s.dir + "/home")
        env["PATH"] = cargo_path() + env["PATH"]
        if os.path.isdir(os.path.expanduser("~/.rustup")):
            env["RUSTUP_HOME"] = os.path.expanduser("~/.rustup")
        env["TMPDIR"] = s.dir + "/home"

        def run(script):
            r = clients.run(s, ["sh", "-c", script], env)
            return r.returncode, r.stdout + r.stderr
        matrix("", run)


def in_suite(ca, up):
    conf = "".join(e + "\n" for e in entries(up.port))
    path = os.path.join(ca.dir, "root.pem")
    os.chmod(ca.dir, 0o755)
    conf += "upstream_ca %s\n" % path
    with mcp.Suite(conf=conf) as s:
        r = s.call("sandbox_initialize", allow_network=True)
        if not tap.ok(r.get("status") == "ok", "a sandbox with egress", r):
            return
        box = r["container_id"]

        def run(script):
            r = s.call("sandbox_exec", timeout=150, container_id=box,
                       argv=["bash", "-c", script])
            for _ in range(60):
                if r.get("status") != "running":
                    break
                time.sleep(2)
                r = s.call("sandbox_exec_check", container_id=box,
                           job_id=r["job_id"])
            return r.get("exit_code", r), str(r.get("output", r))
        matrix("in a sandbox: ", run)

        def bare(script):
            return run("env -i bash -lc '%s'" % script)
        code, out = bare("curl -sS https://inner.test/file && "
                         "curl -sS https://tunnel.test/file")
        tap.ok(code == 0 and HELLO in out, "in a sandbox: curl in a login shell "
               "that begins with nothing", (code, out))
        code, out = run("curl -sS https://other.test/file 2>&1")
        tap.ok(code != 0 and "403" in out, "in a sandbox: a host that is not "
               "listed", out)
        s.call("sandbox_stop", container_id=box, force=True)


def main():
    try:
        egress.enter()
        ca = egress.Authority()
    except egress.Unable as e:
        tap.skip("clients through the proxy", str(e))
        return tap.done()
    up = egress.Upstream(ca, list(HOSTS.values()), answer=answer)
    ways = sys.argv[1:] or ["alone", "suite"]
    for name, way in (("alone", alone), ("suite", in_suite)):
        if name in ways:
            way(ca, up)
    up.close()
    ca.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
