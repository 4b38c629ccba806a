#!/usr/bin/env python3
"""The whole way through an official client: a private repository is cloned, its
issue read, the code mended, verified, published and reviewed."""
import os
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import egress  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402
import node  # noqa: E402

FILES = {
    "package.json": '{"name": "p", "version": "1.0.0"}\n',
    "add.js": "exports.add = (a, b) => a - b;\n",
    "test/add.test.js": "const t = require('node:test');\n"
    "const a = require('node:assert');\n"
    "t('adds', () => a.strictEqual(require('../add').add(1, 2), 3));\n"}
tap = mcp.Tap()
node.need("@modelcontextprotocol/sdk")
try:
    ca = egress.Authority()
except egress.Unable as e:
    tap.skip("the whole way", str(e))
    sys.exit(tap.done())
gh = fakegithub.Github(ca)
repo = gh.repo("acme/secret", private=True, files=FILES)
number = repo.issue(title="add subtracts", body="It should add.")["number"]
app = gh.app(["acme/secret"])
with tempfile.TemporaryDirectory() as root:
    os.chmod(root, 0o755)
    os.mkdir(root + "/etc")
    with open(root + "/etc/sbx.conf", "w", encoding="utf-8") as f:
        f.write("%sallowed_repo acme/secret\ngithub_app %d %d %s\n" % (
            gh.conf(), app.id, app.installation, app.pem))
    before = repo.git("rev-parse", "main")
    node.Tour("sdk-stdio", mcp.BUILD + "/sbx", "acme/secret", str(number),
              program="pipeline.mjs", SBX_ROOT=root).wait(tap)
    tap.ok(repo.git("show", "fix:add.js") == "exports.add = (a, b) => a + b;"
           and repo.git("rev-parse", "fix^") == before,
           "the repository has what was published, on its main branch")
    node.remove(root)
gh.close()
ca.close()
tap.done()
sys.exit(tap.bad > 0)
