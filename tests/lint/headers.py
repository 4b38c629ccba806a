#!/usr/bin/env python3
"""Every header compiles alone and twice, and has a guard of its own."""
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import source

tap = source.Tap()
build = os.environ["SBX_BUILD"]


def make_variable(name):
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        m = re.search(r"^%s = (.*)$" % name, f.read(), re.M)
    return shlex.split(m[1]) if m else []


cc = (make_variable("CC") or ["cc"])
flags = ["-fsyntax-only", "-std=gnu17", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-function", "-D_GNU_SOURCE", "-I" + source.SRC,
         "-I" + build]
for library in ("EVENT", "JSON", "SECCOMP", "CAP", "CURL", "CRYPTO", "PCRE2"):
    flags += make_variable(library + "_CFLAGS")
headers = source.files(".h")


def compiles(path):
    with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
        # the second one shows a missing guard
        f.write('#include "%s"\n#include "%s"\nint x_;\n' % (path, path))
        f.flush()
        p = subprocess.run(cc + flags + [f.name], capture_output=True,
                           text=True, timeout=120)
    return p.returncode == 0, p.stderr.splitlines()[:8]


with ThreadPoolExecutor(os.cpu_count()) as pool:
    for header, (good, why) in zip(headers, pool.map(compiles, headers)):
        tap.ok(good, "%s compiles alone" % header, why)

seen, wrong = {}, []
for header in headers:
    m = re.match(r"\s*#ifndef (SBX_\w+_H)\n#define (\w+)\n",
                 source.code(header))
    if not m or m[1] != m[2]:
        wrong.append("%s: no guard SBX_..._H" % header)
    elif m[1] in seen:
        wrong.append("%s: the guard of %s" % (header, seen[m[1]]))
    else:
        seen[m[1]] = header
tap.ok(not wrong, "every header has a guard of its own", wrong)
sys.exit(tap.done())
