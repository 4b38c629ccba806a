#!/usr/bin/env python3
"""usage: mcprelay.py PROGRAM [ARGUMENT ...]

Stands between a client of somebody else's and a server on stdio, and records
what they say (mcprecord.py).  Ends when the server has, as it did."""
import os
import subprocess
import sys
import threading

import mcprecord


def main():
    record = mcprecord.Recorder("relay")
    record.about["test"] = os.path.basename(sys.argv[1])
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)

    def forth():
        while data := os.read(0, 1 << 16):
            record.sent(data)
            try:
                server.stdin.write(data)
                server.stdin.flush()
            except OSError:
                return
        server.stdin.close()

    threading.Thread(target=forth, daemon=True).start()
    for line in server.stdout:
        record.got(line)
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except OSError:
            break       # the client went away first
    os._exit(server.wait() & 0xff)


main()
