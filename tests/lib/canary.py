"""Where did a secret get to?  Files, and processes as root sees them: memory,
environment, arguments.

    c = canary.Canary(gh.secrets())         # {what it is: text}
    c.tree(suite.root)                      # found: [(where, what, form)]
    c.processes(suite, besides=canary.HOLDERS)
    c.text("stderr", data)

Each secret is looked for as it is and in the encodings that a program might
put it into (fakegithub.encodings).  grep(1) does the work.
"""
import os
import shutil
import stat
import subprocess
import threading

import fakegithub
import mcp

# where a credential may be; comm has 15 bytes
HOLDERS = ("sbx-broker", "sbx-broker-cour", "sbx-broker-comm")
PIECE = 1 << 20
ENOUGH = 40     # bytes from the middle of a form: nothing else has them


class Canary:
    def __init__(self, secrets):
        self.forms, self.found = {}, []
        for what, text in secrets.items():
            for form, data in fakegithub.encodings(text).items():
                at = max(0, (len(data) - ENOUGH) // 2)
                self.forms.setdefault(data[at:at + ENOUGH], (what, form))
        self.looked = 0     # bytes

    def _grep(self, where, pieces):
        """pieces: of what is looked through, in order"""
        r, w = os.pipe()
        with os.fdopen(w, "wb") as f:
            feed = threading.Thread(target=f.write, args=(
                b"\n".join(self.forms) + b"\n",), daemon=True)
            p = subprocess.Popen(
                ["grep", "-z", "-a", "-o", "-F", "-f", "/dev/fd/%d" % r],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[r],
                env={"LC_ALL": "C", "PATH": os.environ["PATH"]})
            os.close(r)
            feed.start()
            feed.join(60)
        out = []
        take = threading.Thread(target=lambda: out.append(p.stdout.read()),
                                daemon=True)
        take.start()
        try:
            for data in pieces:
                self.looked += len(data)
                p.stdin.write(data)
            p.stdin.close()
        except BrokenPipeError:
            pass    # then its status says so
        take.join(300)
        if p.wait(60) > 1:
            raise RuntimeError("grep failed: %d" % p.returncode)
        p.stdout.close()
        new = [(where, *self.forms[x]) for x in
               sorted(set(out[0].split(b"\0")) - {b""})]
        self.found += new
        return new

    def text(self, where, data):
        return self._grep(where, [data if isinstance(data, bytes) else
                                  data.encode("utf-8", "surrogateescape")])

    @staticmethod
    def _file(path):
        """its name counts, too"""
        yield os.fsencode(path) + b"\0"
        with open(path, "rb") as f:
            while True:
                data = f.read(PIECE)
                if not data:
                    return
                yield data

    def _files(self, top):
        for base, dirs, names in os.walk(top):
            for d in dirs:
                yield os.fsencode(os.path.join(base, d)) + b"\0"
            for n in names:
                path = os.path.join(base, n)
                try:
                    mode = os.lstat(path).st_mode
                    if stat.S_ISREG(mode):
                        yield from self._file(path)
                    elif stat.S_ISLNK(mode):
                        yield os.fsencode(os.readlink(path)) + b"\0"
                except FileNotFoundError:
                    pass    # it went meanwhile
                yield b"\0"

    def tree(self, top):
        """all files below it; where tells nothing but the top, so of what is
        found the files are looked through one by one"""
        new = self._grep(top, self._files(top))
        if new:
            for base, _, names in os.walk(top):
                for n in names:
                    path = os.path.join(base, n)
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        self._grep(path, self._file(path))
        return new

    @staticmethod
    def _memory(pid):
        """every mapping that can be read"""
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (pid, name), "rb") as f:
                yield f.read() + b"\0"
        with open("/proc/%d/maps" % pid) as f:
            maps = [x.split() for x in f]
        fd = os.open("/proc/%d/mem" % pid, os.O_RDONLY)
        try:
            for m in maps:
                if not m[1].startswith("r") or m[-1] in ("[vvar]",
                                                         "[vsyscall]",
                                                         "[vvar_vclock]"):
                    continue
                at, end = (int(x, 16) for x in m[0].split("-"))
                while at < end:
                    try:
                        data = os.pread(fd, min(PIECE, end - at), at)
                    except OSError:
                        break   # a device's pages, or a file that is shorter
                    if not data:
                        break
                    yield data
                    at += len(data)
                yield b"\0"
        finally:
            os.close(fd)

    def process(self, pid, name=""):
        """None: it ended"""
        try:
            return self._grep("%s (%d)" % (name or mcp.program(pid), pid),
                              self._memory(pid))
        except (FileNotFoundError, ProcessLookupError):
            return None

    def processes(self, suite, besides=HOLDERS):
        """of everything below the suite's monitor: {name: how many}"""
        seen = {}
        for name, pids in suite.processes().items():
            if name in besides:
                continue
            for pid in pids:
                if self.process(pid, name) is not None:
                    seen[name] = seen.get(name, 0) + 1
        return seen


def why_not():
    """"" or what is missing for the memory of others"""
    if os.getuid() != 0:
        return "the memory of others is for root to read"
    return "" if shutil.which("grep") else "there is no grep"
