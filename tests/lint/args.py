#!/usr/bin/env python3
"""Every argument that a tool's code asks for by name is one of its schema: the
worker aborts at any other, so nothing else would tell of it before a client
does.  Of a file with tools it must be of one of them, or of one whose file calls
a function of it; of another file, of any tool, or of what is no tool."""
import json
import os
import re
import subprocess
import sys

import source

TOOL = re.compile(r"^tool_(\w+)\(struct call \*", re.M)
ASKED = re.compile(r"\bargs_(?:str|bool|int|number|json|has)\(\s*"
                   r"(?:&?[\w>.-]+),\s*\"(\w+)\"")
PUBLIC = re.compile(r"^(?!static\b)[\w ]+[ *]*\n(\w+)\(", re.M)


def tools():
    out = subprocess.run([os.environ["SBX_BUILD"] + "/tools-dump"],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    return {t["name"]: set(t["input"]["properties"])
            for t in map(json.loads, out.splitlines())}


def main():
    tap, known, asked = source.Tap(), tools(), 0
    text = {p: source.read(p) for p in source.files(".c")
            if p.startswith("sbxd/worker/")}
    has = {p: set().union(*(known.get(n, ()) for n in TOOL.findall(t)))
           for p, t in text.items()}
    other = set(re.findall(r'(?:\\|STRINGS\()"(\w+)\\?"',
                           text["sbxd/worker/serves.c"]))
    for path, t in text.items():
        names = set(ASKED.findall(t))
        may = has[path] or other.union(*known.values())
        for name in PUBLIC.findall(t) if has[path] else ():
            for p in text:
                if has[p] and re.search(r"\b%s\(" % name, text[p]):
                    may = may | has[p]
        asked += len(names)
        if names:
            tap.ok(names <= may, "%s asks for what its schemas have" % path,
                   sorted(names - may))
    tap.ok(asked > 100, "they ask by name: %d" % asked)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
