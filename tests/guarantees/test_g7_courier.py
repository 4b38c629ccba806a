#!/usr/bin/env python3
"""G7 and G4: what a courier that was taken over can do.  It has one token and
one repository; it reads no key, dials nobody, speaks in no other's name."""
import errno
import os
import sys

SRC = os.environ.setdefault("SBX_SRC", os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import egress  # noqa: E402
import evil  # noqa: E402
import fakegithub  # noqa: E402
import mcp  # noqa: E402

tap = mcp.Tap()
ok = tap.ok
# in the order of tests/guarantees/evil_courier.c; None: the cage kills it
CAGE = ("key", "file", "inet", "unix", "connect", "fastopen", "exec", "kill")
WORDS = ("journal", "grant", "minted", "twice", "ready")
REFUSED = (errno.EACCES, errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT)


def suite(gh, token):
    """whose couriers are hostile, in a courier's own cage"""
    return evil.suite(
        "sbx-broker-courier", "", binary="evil_courier",
        files={"key": token, "turn": ""}, conf=gh.conf() +
        "allowed_repo acme/secret\nallowed_repo acme/other\n"
        "github_token_file %s\n" % token)


def clone(s, box, repo, n):
    return s.call("clone_repo", container_id=box, repo=repo,
                  dest_dir="/workspace/%d" % n, timeout=120)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def attempts(s, box, token):
    """one clone for each thing that it tries"""
    for n, name in enumerate(CAGE + WORDS):
        if name not in (sys.argv[1:] or CAGE + WORDS):
            continue
        with open(s.directory + "/turn", "w", encoding="ascii") as f:
            f.write("x" * n)
        repo = ("acme/secret", "acme/other")[n % 2]
        before = len(s.said())
        r = clone(s, box, repo, n)
        ok(r.get("status") == "error" and len(r.get("error", "")) > 20,
           "%s: the clone fails with a sentence" % name, r)
        s.wait_for(lambda: [x for x in s.said()[before:] if x.startswith(
            ("try ", "got "))], 5)
        said = s.said()[before:]
        jobs = [x for x in said if x.startswith("job ")]
        ok(jobs == ["job github.com %s %s" % (repo, token.text)],
           "%s: it has one token and one repository" % name, said)
        ok("try " + name in said, "%s: is tried" % name, said)
        got = [x.split()[2] for x in said if x.startswith("got " + name)]
        if name in CAGE:
            ok(not got or int(got[0]) in REFUSED,
               "%s: the cage kills it, or refuses" % name, said)
        else:
            # before it gives up one that is over, which is 10 s; and it may
            # be killed before it can say so
            pid = [int(x.split()[1]) for x in said if x.startswith("pid ")]
            ok(s.wait_for(lambda b=before, n=name, p=pid: [
                x for x in s.said()[b:] if x == "got %s %d" % (
                    n, errno.ECONNRESET)] or not alive(*p), 5),
               "%s: the broker hangs up" % name, s.said()[before:])


def after(s, gh, broker):
    """what is left of all that"""
    records = s.journal()
    ok(not [r for r in records if r["op"] == "forged" or
            "acme/forged" in str(r)], "no record of another's was written")
    ok(not gh.seen(path="git-receive-pack"), "nothing was pushed")
    ok(not [r for r in records if r.get("component") == "courier"],
       "couriers write none")
    ok(s.processes().get("sbx-broker") == broker, "the broker goes on")


def main():
    try:
        ca = egress.Authority()
    except egress.Unable as e:
        tap.skip(str(e), "a fake GitHub")
        return tap.done()
    gh = fakegithub.Github(ca)
    try:
        gh.repo("acme/secret", private=True)
        gh.repo("acme/other", private=True)
        token = gh.static(["acme/secret", "acme/other"])
        path = gh.put("token", token.text + "\n")
        with suite(gh, path) as s:
            box = s.call("sandbox_initialize",
                         allow_network=True)["container_id"]
            broker = s.processes()["sbx-broker"]
            attempts(s, box, token)
            ok("uncaged key 0" in s.said(), "before its cage it could read "
               "the key: the cage is what is tested", s.said())
            after(s, gh, broker)
    finally:
        gh.close()
        ca.close()
    return tap.done()


if __name__ == "__main__":
    main()
    sys.exit(tap.bad > 0)
