#!/usr/bin/env python3
"""The script that lists the files of a fresh verification (tool_gate.c), in
real repositories: with nothing declared that changed, the tree is HEAD's."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

src = os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(src, "tests", "lib"))
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
if not shutil.which("git"):
    tap.skip("no git", "the list")
    sys.exit(tap.done())
CLEAN = {**{k: v for k, v in os.environ.items() if k[:4] != "GIT_"},
         "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def script():
    with open(os.path.join(src, "sbxd/worker/gate.h")) as f:
        base = f.read().partition("define GATE_BASE")[2].partition("#endif")[0]
    with open(os.path.join(src, "sbxd/worker/tool_gate.c")) as f:
        text = f.read().partition("script[] =")[2].partition(";\n\n")[0]
    text = text.replace("GATE_BASE", base)
    text = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text))
    return text.encode().decode("unicode_escape")


def git(cwd, *args, data=b"", **env):
    return subprocess.run(["git", *args], cwd=cwd, env={**CLEAN, **env},
                          input=data, check=True, capture_output=True,
                          timeout=60).stdout.strip()


def listed(cwd, *files, branch=""):
    """where, the names, and what was said"""
    p = subprocess.run(["bash", "-c", script(), "sbx", cwd, branch], cwd="/",
                       input="".join(f + "\0" for f in files).encode(),
                       env=CLEAN, capture_output=True, timeout=60)
    top, _, names = p.stdout.partition(b"\n")
    return top, names.split(b"\0")[:-1], (p.returncode, p.stderr.decode())


def tree(top, names, fmt):
    """of the bytes, as they would cross"""
    with tempfile.TemporaryDirectory() as g:
        env = {"GIT_DIR": g, "GIT_WORK_TREE": os.fsdecode(top)}
        git("/", "init", "-q", "--object-format=" + fmt, **env)
        lines = b""
        for n in names:
            full = os.path.join(top, n)
            link = os.path.islink(full)
            if link:
                data, mode = os.readlink(full), b"120000"
            else:
                with open(full, "rb") as f:
                    data = f.read()
                mode = b"100755" if os.stat(full).st_mode & 64 else b"100644"
            blob = git("/", "hash-object", "-w", "--stdin", "--no-filters",
                       data=data, **env)
            lines += mode + b" " + blob + b"\t" + n + b"\0"
        git("/", "update-index", "-z", "--index-info", data=lines, **env)
        return git("/", "write-tree", **env)


SETUP = r"""
git config user.email a@b; git config user.name x
printf '* text eol=crlf\n*.f filter=up\n*.id ident\n*.w working-tree-encoding=UTF-16\n' \
    >.gitattributes
git config filter.up.smudge 'tr a-z A-Z'; git config filter.up.clean 'tr A-Z a-z'
printf 'a\nb\n' >text; echo low >x.f; echo '$Id$' >y.id
printf 'u' | iconv -t UTF-16 >u.w
mkdir -p d/e; echo 1 >d/e/f; ln -s d link; echo x >run; chmod +x run
printf n >"$(printf 'n\377x')"; printf n >'new
line'; printf n >-dash
git add -A; git commit -qm1; rm -f text x.f y.id; git checkout -q .
"""


# Of what is changed then, some has line ends as a checkout has them, and some
# had them in the base already.
EOL = r"""
git config user.email a@b; git config user.name x
printf 'x\r\ny\r\n' >old; printf 'x\r\ny\r\n' >oldtext; echo 1 >same
printf '$Id$\n' >i.c; mkdir d; printf 'a\0\r\n' >d/bin; echo 1 >gone
git add -A; git commit -qm1
printf '* text=auto eol=crlf\r\n*.c ident\noldtext text\nsame -text\n' >.gitattributes
git add .gitattributes; git commit -qm2; git checkout -q -f .
printf 'x\r\nz\r\n' >old; printf 'x\r\nz\r\n' >oldtext; printf '1\r\n' >same
printf '$Id: 1234 $\r\nx\r\n' >i.c; printf 'a\0\r\nb\n' >d/bin; rm gone
printf 'a\r\nb\r\n' >d/new.txt; printf 'a\nb\r\n' >d/mixed; ln -s old l
git add -A
"""


def repository(at, fmt):
    git("/", "init", "-q", "--object-format=" + fmt, at)
    subprocess.run(["bash", "-ec", SETUP], cwd=at, env=CLEAN, check=True,
                   timeout=60, capture_output=True)
    return git(at, "rev-parse", "HEAD^{tree}")


with tempfile.TemporaryDirectory() as t:
    for fmt in "sha1", "sha256":
        at = os.path.join(t, fmt)
        head = repository(at, fmt)
        with open(at + "/junk", "w") as f:
            f.write("of nobody")
        top, names, said = listed(at + "/d", "run", "-dash")
        ok(said == (0, "") and tree(top, names, fmt) == head,
           f"{fmt}: unchanged files declared are HEAD's tree, whatever "
           "attributes and filters say", said)
        shutil.rmtree(top.removesuffix(b"/w"))
        top, names, said = listed(at)
        ok(top == at.encode() and b"junk" in names and b"new\nline" in names,
           f"{fmt}: none declared: the work tree as it is", (top, names))
    for args, word in ((("d",), "a directory"), (("nix",), "neither"),
                       (("../x",), "not a path"), (("/etc/passwd",), "not a"),
                       ((".git/config",), "not a path")):
        top, names, said = listed(at, *args)
        ok(said[0] == 3 and word in said[1] and not names,
           f"declared {args[0]}: refused, with the reason", said)
    os.remove(at + "/d/e/f")
    os.rmdir(at + "/d/e")
    with open(at + "/d/e", "w") as f:
        f.write("now a file")
    os.remove(at + "/run")
    os.mkdir(at + "/run")
    with open(at + "/run/x", "w") as f:
        f.write("now a directory")
    os.remove(at + "/text")
    top, names, said = listed(at, "d/e", "run", "run/x", "text")
    ok(said == (0, "") and {b"d/e", b"run/x"} <= set(names) and
       not {b"d/e/f", b"run", b"text"} & set(names),
       "a directory that is a file now, the reverse, and what was deleted",
       (names, said))
    shutil.rmtree(top.removesuffix(b"/w"))
    shutil.rmtree(os.path.join(t, "sha256"))
    for fmt in "sha1", "sha256":
        at = os.path.join(t, fmt + "-eol")
        git("/", "init", "-q", "--object-format=" + fmt, at)
        subprocess.run(["bash", "-ec", EOL], cwd=at, env=CLEAN, check=True,
                       timeout=60, capture_output=True)
        made = git(at, "write-tree")
        files = git(at, "diff", "--cached", "--name-only", "HEAD").decode()
        files = files.split("\n")
        top, names, said = listed(at, *files)
        ok(said == (0, "") and tree(top, names, fmt) == made and
           len(files) == 9, f"{fmt}: what is declared is as the base's "
           "attributes take it in: line ends and $Id$", (files, said))
        shutil.rmtree(top.removesuffix(b"/w"))
        attrs = at + "/d/.gitattributes"    # its own do not count yet
        with open(attrs, "w") as f:
            f.write("*.txt -text\r\n")
        git(at, "reset", "-q")
        top, names, said = listed(at, "./d/.gitattributes", "d/new.txt")
        data = [open(os.path.join(top.decode(), n), "rb").read()
                for n in ("d/.gitattributes", "d/new.txt")]
        ok(said == (0, "") and data == [b"*.txt -text\n", b"a\nb\n"],
           f"{fmt}: and not those that are declared", (data, said))
        shutil.rmtree(top.removesuffix(b"/w"))
    plain = os.path.join(t, "plain")
    os.makedirs(plain + "/.git-no")
    for n in "a", ".git-no/b":
        with open(os.path.join(plain, n), "w") as f:
            f.write("1")
    top, names, said = listed(plain)
    ok(said[0] == 0 and set(names) == {b"a", b".git-no/b"},
       "without a repository: all files", (names, said))
    ok(listed(plain, "a")[2][0] == 3, "of which none can be declared")
tap.done()
sys.exit(tap.bad > 0)
