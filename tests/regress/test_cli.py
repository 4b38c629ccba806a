#!/usr/bin/env python3
"""The command line beside a private suite: what it prints, how it exits."""
import os
import sys

sys.path.insert(0, os.environ["SBX_SRC"] + "/tests/lib")
import mcp  # noqa: E402

ok = None


def usage(s):
    for words in (["ps", "-x"], ["ps", "more"], ["mcp", "-h"], ["exec"],
                  ["exec", "-y"], ["stop"], ["clean", "more"],
                  ["doctor", "more"]):
        r = s.sbx(*words)
        ok(r.returncode == 1 and r.stdout == "" and
           f"usage: sbx {words[0]}" in r.stderr,
           f"a wrong call prints the usage: {' '.join(words)}", r)
    for words in (["-h"], ["--help"], ["help"]):
        r = s.sbx(*words)
        ok(r.returncode == 0 and "journal" in r.stdout,
           f"{words[0]} prints all commands", r)
    ok(s.sbx("--version").stdout == s.sbx("version").stdout != "",
       "--version is version")
    for words, cause in (
            (["exec", "-t", "x", "cli", "--", "true"], "-t takes"),
            (["journal", "tail", "-n", "x"], "-n takes"),
            (["journal", "verify", "--checkpoint", "3:00"], "SEQ:HASH"),
            (["image", "rm", "host"], "host is the programs"),
            (["image", "inspect", "host"], "host is the programs"),
            (["-s", "30", "exec", "cli", "--", "true"], "in suite 30")):
        r = s.sbx(*words)
        ok(r.returncode == 1 and cause in r.stderr,
           f"the cause of a wrong call: {' '.join(words)}", r)
    ok("suite 30 is not running" in s.sbx("-s", "30", "ps").stderr,
       "ps of a suite that is not there says so")
    ok(max(map(len, s.sbx("--help").stdout.splitlines())) <= 80,
       "the help fits into 80 columns")
    r = s.sbx("bogus")
    ok(r.returncode == 1 and "'bogus'" in r.stderr, "no such command", r)


def explain(s):
    """what egress would say, without a suite's help"""
    os.makedirs(f"{s.root}/etc", exist_ok=True)
    with open(f"{s.root}/etc/sbx.conf", "a") as f:
        f.write("allow_host .tunnel.example\ngrant_host git.example\n"
                "allowed_repo me/it.git\n"
                "intercept_host seen.example\n")
    for words, code, said in (
            (["https://a.tunnel.example/x?y"], 0, "as it is"),
            (["http://tunnel.example/"], 0, "in the clear"),
            (["https://seen.example/"], 0, "TLS ends in the proxy"),
            (["https://other.example/"], 3, "allow_host"),
            (["https://10.0.0.1/"], 3, "host_not_allowed"),
            (["-X", "POST", "https://pypi.org/simple/"], 3, "GET and HEAD"),
            (["https://git.example/o/r/info/refs?service=git-upload-pack"], 0,
             "git read"),
            (["https://git.example/api/v4/projects"], 3, "git's requests"),
            (["push", "git.example/O/R", "refs/heads/x"], 3,
             "push of refs/heads/x to git.example/o/r: refused"),
            (["push", "o/r", "refs/heads/x"], 3, "allowed_repo OWNER/NAME"),
            (["push", "me/it", "refs/heads/x"], 3, "sbx register"),
            (["push", "git.example/me/it", "refs/heads/x"], 3, "in no list"),
            (["push", "me/it", "refs/heads/main"], 3, "publish refuses main"),
            (["push", "ghe.test/a/b", "refs/tags/x"], 3, "grant_host ghe.test"),
            (["https://api.github.com/repos/me/it"], 0, "listed, but"),
            (["https://github.com/me/it"], 3, "clone_repo"),
            (["-X", "POST", "https://api.github.com/graphql"], 3, "REST")):
        r = s.sbx("explain", *words)
        ok(r.returncode == code and said in r.stdout,
           f"explain {' '.join(words)}", r)
    for words in (["ftp://a.example/"], ["https://us@er.example/"],
                  ["https://a.example/b c"], ["push", "r", "refs/heads/x"],
                  ["push", "o/r", "main"]):
        r = s.sbx("explain", *words)
        ok(r.returncode == 1 and r.stdout == "" and r.stderr != "",
           f"explain takes no {' '.join(words)}", r)
    for last, word in ((["refs/heads/x", "a" * 40], "none"),
                       (["refs/heads/x", "a" * 12], "rev-parse"),
                       (["x", "a" * 40], "refs/heads/x"),
                       (["refs/heads/x", "0" * 40], "deletes")):
        r = s.sbx("grant", "none", "o/r", *last)
        ok(r.returncode in (1, 3) and word in r.stderr, "no grant: " + word, r)
    r = s.sbx("grant", "-t", "3601", "none", "o/r", "refs/heads/x", "a" * 40)
    ok(r.returncode == 1 and "1 to 3600" in r.stderr, "no grant that long", r)
    ok("no lockdown" in s.sbx("lockdown", "status").stdout, "lockdown status")


def sandboxes(s, box):
    rows = [line.split() for line in s.sbx("ps").stdout.splitlines()]
    ok(len(rows) == 2 and rows[1][:4] == [box, "cli", "host", "running"],
       "ps shows id, name, image and state", rows)
    for who in (box, box[:5], "cli"):
        r = s.sbx("exec", who, "--", "sh", "-c", "echo out; exit 7")
        ok((r.returncode, r.stdout) == (7, "out\n"),
           "exec by id, by its beginning, by name", r)
    r = s.sbx("exec", "-t", "1", "cli", "--", "sleep", "9")
    ok(r.returncode == 124, "exec ends at its timeout as timeout(1) does", r)
    r = s.sbx("exec", "none", "--", "true")
    ok(r.returncode == 1 and "'none'" in r.stderr, "no such sandbox", r)
    r = s.sbx("stop", "cli")
    ok((r.returncode, r.stdout) == (0, box + "\n"), "stop by name", r)


def journal(s, box):
    def count(*words):
        r = s.sbx("journal", "show", "-o", "exec", *words)
        return len(r.stdout.splitlines()) if r.returncode == 0 else r.stderr

    total = count()
    ok(total > 3, "show -o: one operation", total)
    for since, n in (("1h", total), ("2020", total), ("2020-01-01T00:00",
                     total), ("2999-01-01", 0), ("1d", total)):
        ok(count("-s", since) == n, f"show -s {since}", count("-s", since))
    for since in ("bogus", "", "1", "h", "1x", "-1h", "202", "1h "):
        ok("ago" in str(count("-s", since)), f"not a time: '{since}'")
    ok(count("-c", box) == count("-c", box[:4]) == total, "show -c id")
    for words in (["-c", "cli"], ["-c", box + "0"], ["-r", box]):
        ok("not the id" in str(count(*words)), "not an id", words)
    r = s.sbx("-s", "9", "journal", "verify")
    ok(r.returncode == 2 and "failed" not in r.stderr,
       "verify: a journal that is not there is not one that failed", r)
    ok(s.sbx("journal", "verify").returncode == 0, "verify")


def newest(s):
    """A suite that runs again appends to a file: no directory is touched."""
    for slot in ("7", "8", "7"):
        c = mcp.Client([mcp.BUILD + "/sbxd", "-S", slot, "--transport",
                        "stdio"], env=s.env)
        c.close()
        r = s.sbx("journal", "tail", "-n", "1")
        ok(f"suite={slot}" in r.stdout,
           f"journal means suite {slot}, which wrote last", r)


def main():
    global ok
    tap = mcp.Tap()
    ok = tap.ok
    with mcp.Suite() as s:
        box = s.call("sandbox_initialize", name="cli")["container_id"]
        usage(s)
        sandboxes(s, box)
        journal(s, box)
        r = s.sbx("doctor")
        ok(r.returncode == 0 and "is running" in r.stdout, "doctor", r)
        newest(s)
        explain(s)
    sys.exit(tap.done())


main()
