#!/usr/bin/env python3
"""The whole of a model's work on a project through the official client."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import node  # noqa: E402

FILES = {
    "package.json": '{"name": "sum", "type": "module"}\n',
    "sum.js": "// adds\nexport function sum(a, b) {\n  return a - b;\n}\n"
              "export const one = 1;\n",
    "sum.test.js": "import test from 'node:test';\n"
                   "import assert from 'node:assert';\n"
                   "import { sum } from './sum.js';\n"
                   "test('adds', () => assert.strictEqual(sum(1, 2), 3));\n"
                   "test('zero', () => assert.strictEqual(sum(0, 0), 0));\n",
}
tap = mcp.Tap()
node.need("@modelcontextprotocol/sdk", "@modelcontextprotocol/client")


def main():
    with tempfile.TemporaryDirectory() as project, \
            tempfile.TemporaryDirectory() as root:
        for d in project, root:
            os.chmod(d, 0o755)
        for name, text in FILES.items():
            with open(os.path.join(project, name), "w",
                      encoding="utf-8") as f:
                f.write(text)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"],
                      ["-c", "user.name=t", "-c", "user.email=t@t",
                       "commit", "-qm", "base"]):
            subprocess.run(["git", "-C", project, *words], check=True,
                           timeout=30)
        node.Tour("sdk-stdio", os.environ["SBX_BUILD"] + "/sbx", project,
                  program="loop.mjs", SBX_ROOT=root).wait(tap)
        node.remove(root)


main()
tap.done()
sys.exit(tap.bad > 0)
