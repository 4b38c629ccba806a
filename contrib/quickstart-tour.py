#!/usr/bin/env python3
"""A minimal MCP client over stdio, and a tour of the suite with it.

usage: quickstart-tour.py SBX DIRECTORY

Nothing beyond the standard library; exits 1 at the first surprise.
"""
import json
import os
import subprocess
import sys
import time


class Client:
    def __init__(self, argv):
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        self.last = 0

    def send(self, message):
        message["jsonrpc"] = "2.0"
        self.proc.stdin.write(json.dumps(message).encode() + b"\n")
        self.proc.stdin.flush()

    def request(self, method, params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        while True:
            line = self.proc.stdout.readline()
            if not line:
                sys.exit("the server ended")
            answer = json.loads(line)
            if answer.get("id") == self.last:
                break
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']}")
        return answer["result"]

    def call(self, tool, **arguments):
        print(f"\n> {tool} " + json.dumps(arguments)[:150])
        result = self.request("tools/call",
                              {"name": tool, "arguments": arguments})
        return result["structuredContent"]

    def end(self):
        self.proc.stdin.close()
        return self.proc.wait(timeout=5)


def show(result, *names):
    for name in names:
        value = result.get(name)
        if isinstance(value, str) and "\n" in value:
            print(f"  {name}:")
            for line in value.rstrip("\n").split("\n"):
                print(f"    {line}")
        elif value is not None:
            print(f"  {name}: {json.dumps(value)}")


def expect(result, status):
    if result.get("status") != status:
        sys.exit(f"expected status {status}: {json.dumps(result, indent=1)}")
    return result


def connect(sbx, directory):
    client = Client([sbx, "mcp", "--private", "--copy-root", directory])
    hello = client.request("initialize", {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "quickstart", "version": "1"}})
    client.send({"method": "notifications/initialized"})
    tools = client.request("tools/list", {})["tools"]
    print(f"connected: {hello['serverInfo']['name']} "
          f"{hello['serverInfo']['version']}, protocol "
          f"{hello['protocolVersion']}, {len(tools)} tools")
    return client


def commands(client, box):
    print("\n-- commands on a real repository, without any network")
    show(expect(client.call("copy_project", container_id=box,
                            local_src_dir="."), "ok"),
         "files", "bytes", "refused")
    show(expect(client.call("sandbox_exec", container_id=box, commands=[
        "git log --oneline | head -n 5", "ls", "id", "cat /proc/net/dev | wc -l"]),
        "ok"), "output")
    print("\n-- a failing command shows how it ended")
    failed = client.call("sandbox_exec", container_id=box, max_lines=12,
                         commands=[
        "seq 1 2000 | sed 's/^/compiling unit /'",
        "echo 'unit 2001: undefined reference to frobnicate' >&2; exit 3"])
    show(expect(failed, "failed"), "exit_code", "output", "stderr",
         "total_lines", "truncated")
    print("\n-- and the rest of it is stored, not run again")
    page = expect(client.call("read_output", run_id=failed["run_id"],
                              stream="stdout", offset=0, limit=3), "ok")
    show(page, "output", "next_offset")
    page = expect(client.call("read_output", run_id=failed["run_id"],
                              stream="stdout", offset=page["next_offset"],
                              limit=3), "ok")
    show(page, "output", "next_offset")


def background(client, box):
    print("\n-- a background job")
    job = expect(client.call("sandbox_exec_background", container_id=box,
                             commands=["for i in 1 2 3 4; do echo step $i; "
                                       "sleep 0.3; done"]), "running")
    show(job, "status", "job_id")
    time.sleep(0.5)
    show(client.call("sandbox_exec_check", container_id=box,
                     job_id=job["job_id"]), "status", "output")
    time.sleep(1.2)
    show(expect(client.call("sandbox_exec_check", container_id=box,
                            job_id=job["job_id"]), "ok"),
         "status", "exit_code", "output")


def stop(client, box):
    print("\n-- stopping refuses to lose work")
    expect(client.call("sandbox_exec", container_id=box,
                       commands=["echo edited >> README.md"]), "ok")
    refused = client.call("sandbox_stop", container_id=box)
    show(expect(refused, "error"), "error", "recommended_next_action")
    show(expect(client.call("sandbox_stop", container_id=box, force=True),
                "ok"), "status")


def main():
    sbx, directory = sys.argv[1], os.path.realpath(sys.argv[2])
    client = connect(sbx, directory)
    made = expect(client.call("sandbox_initialize", name="tour"), "ok")
    show(made, "container_id", "image", "network", "limits")
    box = made["container_id"]
    commands(client, box)
    background(client, box)
    stop(client, box)
    began = time.monotonic()
    status = client.end()
    print(f"\nsession ended, exit status {status}, "
          f"{(time.monotonic() - began) * 1000:.0f} ms after closing stdin")
    if status != 0:
        sys.exit(1)


main()
