#!/usr/bin/env python3
"""Calls that have no place here, and two habits: // comments and typedefs of
structs.  Tests may do as they like with calls.  EXCEPT holds what is meant."""
import os
import re
import sys

import source

CALLS = {
    "strcpy": "sbx_strlcpy", "stpcpy": "sbx_strlcpy", "strcat": "sbx_buf_str",
    "strncat": "sbx_buf_str", "sprintf": "snprintf", "vsprintf": "vsnprintf",
    "strncpy": "sbx_strlcpy", "strtok": "strcspn and strspn",
    "strtok_r": "strcspn and strspn", "atoi": "sbx_parse_u64",
    "atol": "sbx_parse_u64", "atoll": "sbx_parse_u64", "atof": "nothing",
    "strtol": "sbx_parse_u64", "strtoll": "sbx_parse_u64",
    "strtoul": "sbx_parse_u64", "strtoull": "sbx_parse_u64",
    "strtod": "nothing", "strtof": "nothing", "strtoimax": "sbx_parse_u64",
    "strtoumax": "sbx_parse_u64", "sscanf": "a parser", "gets": "fgets",
    "system": "execve", "popen": "pipe2 and execve", "alloca": "the heap",
    "rand": "sbx_random", "srand": "sbx_random", "random": "sbx_random",
    "drand48": "sbx_random", "mktemp": "mkdtemp", "tmpnam": "mkdtemp",
    "assert": "an error, or sbx_fatal for a broken invariant",
    "getenv": "main() reads the environment, others are told",
    "secure_getenv": "main() reads the environment, others are told",
}
# (path, call): why it is right there
EXCEPT = {
}
tap = source.Tap()
paths = source.files(".c", ".h")
pattern = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(CALLS))

found, used = [], set()
for path in paths:
    if path.startswith("tests/"):
        continue
    text = source.code(path)
    for m in pattern.finditer(text):
        call = m[1]
        if call.endswith("getenv") and os.path.basename(path) == "main.c":
            continue
        if (path, call) in EXCEPT:
            used.add((path, call))
            continue
        found.append("%s:%d: %s: use %s" % (
            path, text.count("\n", 0, m.start()) + 1, call, CALLS[call]))
tap.ok(not found, "no banned call", found)
unused = ["%s: %s" % e for e in sorted(set(EXCEPT) - used)]
tap.ok(not unused, "no exception without a use", unused)

lines = ["%s:%d" % (p, n) for p in paths for n in source.line_comments(p)]
tap.ok(not lines, "no // comment", lines)
types = ["%s: %s" % (p, m[0]) for p in paths
         for m in re.finditer(r"typedef\s+(?:const\s+)?(?:struct|union)\b.*",
                              source.code(p))]
tap.ok(not types, "no typedef of a struct", types)

# What cleans itself up at each return must be whole at each.
bare = ["%s:%d: %s" % (p, source.code(p).count("\n", 0, m.start()) + 1, m[0])
        for p in paths for m in re.finditer(
            r"SBX_CLEANUP(?:_BUF|\(\w+\))\s[^;={]*;", source.code(p))]
tap.ok(not bare, "what has a clean-up is initialized where it is declared",
       bare)

# Locked memory for secrets is for those that hold one.
holders = ("sbx-broker/", "sbx-proxy/", "common/base/secret.",
           "tests/unit/test_secret.c")
wrong = [p for p in paths if not p.startswith(holders) and re.search(
    r'#\s*include\s+["<][^">]*secret\.h', source.read(p))]
tap.ok(not wrong, "secret.h is included by the holders of secrets only",
       wrong)
sys.exit(tap.done())
