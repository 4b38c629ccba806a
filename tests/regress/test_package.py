#!/usr/bin/env python3
"""package_install: every manager, without a network."""
import os
import shutil
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import imgsrc  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
MAKE = r"""
import io, os, tarfile, zipfile
os.makedirs("wheels")
for version in ("1.0", "2.0"):
    info = "sbxdemo-%s.dist-info/" % version
    with zipfile.ZipFile("wheels/sbxdemo-%s-py3-none-any.whl" % version,
                         "w") as z:
        z.writestr("sbxdemo.py", "VERSION = '%s'\n" % version)
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\n"
                   "Name: sbxdemo\nVersion: %s\n" % version)
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\n"
                   "Root-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
with tarfile.open("demo.tgz", "w:gz") as t:
    text = b'{"name": "@sbx/demo", "version": "3.1.0"}'
    member = tarfile.TarInfo("package/package.json")
    member.size = len(text)
    t.addfile(member, io.BytesIO(text))
def put(name, text):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w") as f:
        f.write(text)
put("js/package.json", '{"name": "x", "version": "1.0.0"}')
put("rs/Cargo.toml", '[package]\nname = "app"\nversion = "0.1.0"\n')
put("rs/src/lib.rs", "")
put("rs/dep/Cargo.toml", '[package]\nname = "dep"\nversion = "0.2.0"\n')
put("rs/dep/src/lib.rs", "")
put("go/go.mod", "module app\n\ngo 1.19\n\nrequire example.org/dep v0.0.0\n"
    "\nreplace example.org/dep => ./dep\n")
put("go/a.go", 'package app\n\nimport _ "example.org/dep"\n')
put("go/dep/go.mod", "module example.org/dep\n\ngo 1.19\n")
put("go/dep/d.go", "package dep\n")
"""


def install(**kw):
    kw.setdefault("container_id", BOX)
    number = S.start_call("package_install", **kw)
    return S.answer(number, 120)["result"]["structuredContent"]


def py(code):
    return S.call("run_python", container_id=BOX, code=code)


def test_refused():
    for kw, code in (({"packages": ["requests"]}, "no_network"),
                     ({"requirements": "r.txt"}, "no_network"),
                     ({"packages": ["x"], "manager": "npm"}, "no_network"),
                     ({"manager": "npm"}, "no_network"),
                     ({"packages": ["./x", "y"]}, "no_network"),
                     ({"manager": "cargo"}, "no_network"),
                     ({"manager": "go"}, "no_network"),
                     ({"offline": True}, "bad_argument"),
                     ({"packages": ["--index-url=x"]}, "bad_argument"),
                     ({"packages": ["./x"], "editable": "."},
                      "bad_argument"),
                     ({"packages": ["./x"], "extras": "dev"},
                      "bad_argument"),
                     ({"packages": ["./x"], "manager": "npm",
                       "constraints": "c"}, "bad_argument"),
                     ({"manager": "apt"}, "bad_argument")):
        r = install(**kw)
        ok(r.get("code") == code, f"{kw}: {code}", r)


def test_pip():
    r = install(packages=["sbxdemo==1.0"], find_links="wheels")
    ok(r["status"] == "ok" and r["installed_packages"] == ["sbxdemo==1.0"] and
       r["changed"] == 1 and r["environment"] == "/home/sandbox/.venv" and
       r["run_id"] and r["manager"] == "pip", "pip, into a venv", r)
    ok(py("import sbxdemo; print(sbxdemo.VERSION)").get("output") == "1.0\n",
       "run_python has it")
    r = install(packages=["sbxdemo"], find_links="wheels")
    ok(r["status"] == "ok" and r["changed"] == 0, "nothing to do", r)
    r = install(packages=["sbxdemo"], find_links="wheels", upgrade=True)
    ok(r["installed_packages"] == ["sbxdemo==2.0"], "upgrade", r)
    r = install(packages=["./wheels/sbxdemo-1.0-py3-none-any.whl"])
    ok(r["installed_packages"] == ["sbxdemo==1.0"], "a local path", r)
    r = install(packages=["sbxnone"], find_links="wheels")
    ok(r["status"] == "failed" and r["exit_code"] == 1 and "sbxnone" in
       r["stderr"] and r["installed_packages"] == [], "a failure", r)


def test_npm():
    r = install(packages=["../demo.tgz"], manager="npm",
                working_dir="/workspace/js")
    ok(r["status"] == "ok" and r["installed_packages"] ==
       ["@sbx/demo==3.1.0"] and r["environment"] ==
       "/workspace/js/node_modules", "npm", r)
    r = install(manager="npm", working_dir="/workspace/js", offline=True)
    ok(r["status"] == "ok" and r["changed"] == 0, "npm ci, offline", r)


def test_cargo():
    r = install(packages=["./dep"], manager="cargo",
                working_dir="/workspace/rs")
    ok(r["status"] == "ok" and "dep==0.2.0" in r["installed_packages"],
       "cargo", r)


def test_go():
    r = install(manager="go", working_dir="/workspace/go", offline=True)
    ok(r["status"] == "ok" and "example.org/dep" in r["output"], "go", r)


def test_missing():
    ok(imgsrc.small(S, "bare"), "an image without managers")
    box = S.call("sandbox_initialize", image="bare")["container_id"]
    for manager in ("pip", "npm", "cargo", "go"):
        r = install(container_id=box, packages=["./x"], manager=manager)
        ok(r.get("code") == "no_manager" and manager in r["error"],
           f"no {manager}", r)


if __name__ == "__main__":
    for name, needs in (("test_npm", "npm"), ("test_cargo", "cargo"),
                        ("test_go", "go")):
        if shutil.which(needs, path="/usr/bin:/bin") is None:
            # contrib/check brings npm; the others are large
            (tap.skip if needs == "npm" else tap.absent)(
                f"{needs} is not installed", name)
            del globals()[name]
    with mcp.Suite() as S:
        BOX = S.call("sandbox_initialize")["container_id"]
        py(MAKE)
        mcp.main(tap, globals(), sys.argv[1:])
