"""The suite with the names that the official conformance suites call: the
programs of the build, with the front and the worker of tests/conformance.

    with fixture.programs() as build:       # instead of SBX_BUILD
        subprocess.Popen([build + "/sbxd", ...])
"""
import contextlib
import os
import shutil
import tempfile

import mcp

OWN = ("sbxd-front", "sbxd-worker")


@contextlib.contextmanager
def programs():
    """a directory of all programs; a daemon finds the others beside itself,
    by the kernel's name of it, so these are files and not links"""
    build = os.environ["SBX_BUILD"]
    directory = tempfile.mkdtemp(prefix="sbx-fixture-")
    os.chmod(directory, 0o755)
    try:
        for name in os.listdir(build):
            path = os.path.join(build, name)
            if name.startswith("sbx") and os.path.isfile(path) and \
                    os.access(path, os.X_OK):
                if name in OWN:
                    path = os.path.join(build, "tests/conformance", name)
                shutil.copy(path, directory)
        yield directory
    finally:
        mcp.remove(directory)
