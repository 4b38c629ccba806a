"""A suite with one program replaced by a hostile one.

    with evil.suite("sbxd-worker", CODE) as s: ...

CODE is Python that runs in place of the program, uncaged, with the channel to
the monitor as descriptor 3: what the real one could be made to do by whoever
took it over, and more.  `mon` is an ipc.Chan, HELLO was sent.
"""
import os
import shutil
import subprocess
import tempfile

import mcp

os.environ.pop("SBX_MCP_RECORD", None)  # what it says is nothing to judge

PROGRAMS = ["sbx", "sbxd", "sbxd-starter", "sbxd-engine", "sbxd-recorder",
            "sbxd-front", "sbxd-worker", "sbxd-copyin", "sbxd-judge", "sbx-init",
            "sbx-broker", "sbx-proxy", "sbx-journald", "sbx-privs"]
# that only the broker starts
HELPERS = ["sbx-broker-courier", "sbx-broker-command"]

PRELUDE = """import sys, os, socket
os.environ["SBX_SRC"] = {src!r}
sys.path.insert(0, {lib!r})
sys.dont_write_bytecode = True
import ipc
mon = ipc.Chan(socket.socket(fileno=3))
def say(text):
    with open({log!r}, "a") as f:
        f.write(text + "\\n")
mon.send("HELLO", version="evil", pid=os.getpid(), features=0)
"""


def suite(program, code, binary="evil_exec", files=None, **kw):
    """mcp.Suite whose `program` is `code`; .said() is what it say()s.  binary:
    of this build, that takes its place instead, with files ({name: text}) and
    `said` beside it."""
    directory = tempfile.mkdtemp(prefix="sbx-evil-")
    os.chmod(directory, 0o755)
    log = directory + "/said"
    open(log, "w").close()
    os.chmod(log, 0o666)
    for name in PROGRAMS + HELPERS:
        shutil.copy2(os.path.join(mcp.BUILD, name), directory)
    shutil.copy2(os.path.join(mcp.BUILD, binary),
                 os.path.join(directory, program))
    for name, text in (files or {}).items():
        path = os.path.join(directory, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o666)
    path = os.path.join(directory, program + ".py")
    lib = os.path.join(os.environ["SBX_SRC"], "tests", "lib")
    with open(path, "w") as f:
        f.write(PRELUDE.format(src=os.environ["SBX_SRC"], lib=lib, log=log))
        f.write(code)
    os.chmod(path, 0o755)
    return _Evil(directory, log, **kw)


class _Evil(mcp.Suite):
    def __init__(self, directory, log, hello=True, **kw):
        self.directory, self.log = directory, log
        saved, mcp.BUILD = mcp.BUILD, directory
        try:
            if not hello:
                self.initialize = lambda *_: None
            super().__init__(**kw)
        finally:
            mcp.BUILD = saved

    def said(self):
        with open(self.log) as f:
            return f.read().splitlines()

    def sbx(self, *arguments, **kw):
        return subprocess.run([self.directory + "/sbx", *arguments],
                              env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, text=True,
                              **kw)

    def __exit__(self, *a):
        super().__exit__(*a)
        shutil.rmtree(self.directory, ignore_errors=True)
