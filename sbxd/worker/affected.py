# Which test files import what changed, directly or not; given to python3 -c in
# a sandbox.  Writes names to the first argument, each with a NUL: =NAME for a
# test file that is selected, +NAME for a changed file; and to the second why
# all tests must run, if so.  Becomes verify_script.h.
import ast
import os
import subprocess
import sys

SKIP = {".git", "node_modules", ".venv", "venv", ".tox", "build", "dist", "__pycache__"}


def git(*args):
    return subprocess.run(("git", "--no-optional-locks", "-c", "core.fsmonitor=") + args,
                          stdout=subprocess.PIPE, check=True).stdout.decode("utf-8", "surrogateescape")


def modules(path):
    """the names that a file can be imported by"""
    parts = path[:-3].split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return {".".join(parts[i:]) for i in range(len(parts))}


def imports(path):
    with open(path, "rb") as f:
        tree = ast.parse(f.read(), path)
    package = path.split("/")[:-1]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package[:len(package) - node.level + 1]
                base = ".".join(up + ([base] if base else []))
            found.add(base)
            found.update(base + "." + a.name for a in node.names)
    return {".".join(n.split(".")[:i]) for n in found for i in range(1, n.count(".") + 2)}


def select():
    changed, gone = set(), False
    for entry in git("diff", "--no-ext-diff", "--name-status", "--no-renames", "-z", "--relative", "HEAD").split("\0"):
        if len(entry) == 1:
            gone = gone or entry == "D"
        elif entry:
            changed.add(entry)
    changed.update(n for n in git("ls-files", "-o", "--exclude-standard", "-z").split("\0") if n)
    changed = {n for n in changed if "__pycache__/" not in n}
    if gone:
        return changed, [], "a file was deleted"
    for name in sorted(changed):
        base = name.rsplit("/", 1)[-1]
        if base == "conftest.py":
            return changed, [], name + " changed"
        if not name.endswith(".py"):
            return changed, [], name + " is not Python"
    files, users = [], {}
    for top, dirs, names in os.walk("."):
        dirs[:] = [d for d in dirs if d not in SKIP]
        files += [os.path.join(top, n)[2:] for n in names if n.endswith(".py")]
    for name in files:
        try:
            for module in imports(name):
                users.setdefault(module, set()).add(name)
        except (SyntaxError, ValueError, OSError):
            return changed, [], name + " does not parse"
    reached, todo = set(changed), list(changed)
    while todo:
        for module in modules(todo.pop()):
            new = users.get(module, set()) - reached
            reached |= new
            todo += new
    tests = [n for n in sorted(reached) if os.path.exists(n) and
             (n.rsplit("/", 1)[-1].startswith("test_") or n.endswith("_test.py"))]
    return changed, tests, ""


CHANGED, TESTS, WHY = select()
with open(sys.argv[1], "wb") as OUT:
    for n in sorted(CHANGED):
        OUT.write(os.fsencode("+" + n) + b"\0")
    for n in TESTS:
        OUT.write(os.fsencode("=" + n) + b"\0")
with open(sys.argv[2], "w", encoding="utf-8", errors="replace") as OUT:
    OUT.write(WHY)
