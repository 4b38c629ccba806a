"""Programs in a sandbox's network namespace, with the environment that the
suite gives them (common/base/egress_env.c), its paths moved to where the test
put what the engine would have."""
import os
import re
import subprocess
import sys

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def variables():
    """{name: value} as common/base/egress_env.c has them; None: not there."""
    path = os.path.join(SRC, "common/base/egress_env.c")
    try:
        with open(path, encoding="ascii") as f:
            text = f.read()
        with open(path[:-1] + "h", encoding="ascii") as f:
            head = f.read()
    except OSError:
        return None
    text = text.replace("\\\n", " ")
    macro = dict(re.findall(r"#define (\w+)[ \t]+(.+?)[ \t]*(?:/\*.*)?\n",
                            head + text))
    macro["PORT"] = '"3128"'
    table = text[text.index("sbx_egress_vars[]"):]
    table = re.sub(r"/\*.*?\*/", "", table[:table.index("};")], flags=re.S)

    def value(expr):
        out = ""
        for s, word in re.findall(r'"((?:[^"\\]|\\.)*)"|(\w+)', expr):
            out += value(macro[word]) if word else s
        return out
    return {n: value(v) for n, v in re.findall(
        r'\{\s*"(\w+)",\s*(.+?),\s*(?:true|false)\s*\}', table, re.S)}


def environment(box, home):
    """Of a program of that sandbox."""
    os.makedirs(home, exist_ok=True)
    have = variables()
    if have is None:
        have = {k: v for k, v in box.env().items() if k != "all_proxy"}
    with open(box.file("wgetrc"), "w", encoding="ascii") as f:
        f.write("ca_certificate = %s\n" % box.file("ca-bundle.pem"))
    out = {k: v.replace("/run/sbx", box.dir) for k, v in have.items()}
    out.update({"PATH": PATH, "HOME": home, "LC_ALL": "C.UTF-8",
                "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"})
    return out


def run(box, argv, env, timeout=120, **popen):
    """CompletedProcess, text"""
    # not the variables that box.popen() adds
    argv = ["env", "-i", *["%s=%s" % kv for kv in env.items()], *argv]
    p = box.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True, errors="replace", **popen)
    try:
        out, err = p.communicate(timeout=timeout)
        code = p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        code = "timeout"
    return subprocess.CompletedProcess(argv, code, out, err)
