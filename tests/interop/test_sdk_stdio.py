#!/usr/bin/env python3
"""The official TypeScript clients over stdio: 1.x, and 2.x in both eras."""
import os
import sys
import tempfile

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402
import node  # noqa: E402

tap = mcp.Tap()
node.need("@modelcontextprotocol/sdk", "@modelcontextprotocol/client")


def tour(kind, project):
    root = tempfile.mkdtemp(prefix="sbx-sdk-")
    os.chmod(root, 0o755)
    return root, node.Tour(kind, os.environ["SBX_BUILD"] + "/sbx", project,
                           SBX_ROOT=root)


def main():
    project = node.project()
    for kinds in (("sdk-stdio", "client-stdio-modern"),
                  ("client-stdio-legacy", "client-stdio-auto")):
        tours = [tour(kind, project) for kind in kinds]
        for root, t in tours:
            t.wait(tap)
            node.remove(root)
    node.remove(project)
    tap.done()


main()
