"""The C files of the tree, and their text without comments and strings."""
import os
import re

SRC = os.environ["SBX_SRC"]
_SKIP = {".git", "build-aux", "autom4te.cache", "node_modules"}


def files(*suffixes):
    """Paths below the source directory, build directories left out."""
    out = []
    for root, dirs, names in os.walk(SRC):
        dirs[:] = sorted(
            d for d in dirs if d not in _SKIP and not
            os.path.exists(os.path.join(root, d, "config.status")) and not
            (root == SRC and re.match(r"_?build|sbx-[0-9]", d)))
        out += [os.path.relpath(os.path.join(root, n), SRC)
                for n in sorted(names) if n.endswith(suffixes)]
    return out


def read(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as f:
        return f.read()


def _blank(m):
    """Same line breaks, nothing else; a string stays one, empty."""
    quote = m[0][0] if m[0][0] in "\"'" else ""
    return quote + "".join(c for c in m[0] if c == "\n") + quote


_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|"
                    r"'(?:\\.|[^'\\\n])*'", re.S)


def code(path):
    return _TOKEN.sub(_blank, read(path))


def line_comments(path):
    """Lines with a // comment."""
    text = read(path)
    return [text.count("\n", 0, m.start()) + 1
            for m in _TOKEN.finditer(text) if m[0].startswith("//")]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, cond, text, why=()):
        self.count += 1
        self.failed += not cond
        print("%sok %d - %s" % ("" if cond else "not ", self.count, text))
        for line in () if cond else why:
            print("# " + line)

    def skip(self, why):
        if os.environ.get("SBX_MUST_WORK") == "1":
            self.ok(False, "must work here: " + why)
            return
        self.count += 1
        print("ok %d # SKIP %s" % (self.count, why))

    def done(self):
        print("1..%d" % self.count)
        return 1 if self.failed else 0
