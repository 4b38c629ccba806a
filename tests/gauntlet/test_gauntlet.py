#!/usr/bin/env python3
"""The gauntlet as a test: every technique is refused as it should be, each of
its controls passes, and 10,000 allowed and denied requests in turns get the
right answer each."""
import os
import sys
import threading

SRC = os.environ.get("SBX_SRC") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SRC, "tests", d) for d in ("lib", "gauntlet")]
import box as tests  # noqa: E402
import gauntlet  # noqa: E402
import ours  # noqa: E402
import technique  # noqa: E402
import world  # noqa: E402

tap = tests.Tap()
LEAST = 120
TURNS = int(os.environ.get("SBX_TURNS", "10000"))


class Talk:
    """One connection after the other, as long as each is kept."""

    def __init__(self, target, box):
        self.target, self.box, self.c, self.buf = target, box, None, b""
        self.connections = 0

    def ask(self, data):
        """(status, body)"""
        if self.c is None:
            self.c, self.buf = self.target.connect(self.box), b""
            self.c.settimeout(20)
            self.connections += 1
        self.c.sendall(data)
        while b"\r\n\r\n" not in self.buf:
            self.more()
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        fields = dict(x.lower().split(b": ", 1)
                      for x in head.split(b"\r\n")[1:])
        n = int(fields[b"content-length"])
        while len(self.buf) < n:
            self.more()
        body, self.buf = self.buf[:n], self.buf[n:]
        if fields.get(b"connection") == b"close":
            self.close()
        return int(head.split(b" ")[1]), body

    def more(self):
        b = self.c.recv(1 << 16)
        if not b:
            raise OSError("closed in the middle")
        self.buf += b

    def close(self):
        if self.c:
            self.c.close()
        self.c = None


def turns(target, n, many):
    """n requests, every second one denied, by four clients of one sandbox;
    many: a new connection every 50."""
    target.world.mark()
    box, wrong, made = target.box(), [], [0]

    def one(k):
        t = Talk(target, box)
        try:
            for i in range(n // 4):
                path = b"/%d.%d" % (k, i)
                if i % 2:
                    status, body = t.ask(technique.get("evil.test", path))
                    good = status == 403 and b"BLOCKED by sbx" in body
                else:
                    status, body = t.ask(technique.get("plain.test", path))
                    good = status == 200 and body == b"good GET " + path + \
                        b"\n"
                if not good:
                    wrong.append((k, i, status, body[:80]))
                if i % 50 == 49 and many:
                    t.close()
        except (OSError, KeyError, ValueError) as e:
            wrong.append((k, i, repr(e)))
        made[0] += t.connections
        t.close()
    threads = [threading.Thread(target=one, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    reached = [a for a in target.world.arrivals(True)]
    tap.ok(not wrong and not reached and
           "evil.test" not in target.world.questions(),
           "%d requests in turns, over %d connections: no wrong verdict" %
           (n, made[0]), (wrong[:5], reached[:3]))
    target.drop(box)
    target.forget(box)


def main():
    why = world.why_not()
    if why:
        tap.skip("the gauntlet", why)
        return tap.done()
    n = len(technique.ALL)
    tap.ok(n >= LEAST, "%d techniques" % n)
    w = gauntlet.make_world()
    target = ours.Ours(w, gauntlet.ENTRIES)
    only = sys.argv[1:]

    def each(row):
        if row.skipped:
            tap.skip(row.t.group + ": " + gauntlet.ascii(row.t.name),
                     row.skipped)
        else:
            tap.ok(not row.wrong, row.t.group + ": " +
                   gauntlet.ascii(row.t.name), "; ".join(row.wrong))
    try:
        rows, wrong = gauntlet.run_all(target, only, each)
        for name in sorted({r.t.control for r in rows}):
            bad = [v for k, v in wrong.items() if k.startswith(name + ",")]
            tap.ok(not bad, "control: " + name, bad)
        turns(target, TURNS // 2, False)
        turns(target, TURNS // 2, True)
        tap.ok(target.alive(), "the proxy lives", target.log()[-3:])
        peak = target.peak_kib()
        tap.ok(peak < 65536, "its peak was %d KiB" % peak)
    finally:
        code = target.close()
        w.close()
    tap.same(code, 0, "and ends as it should")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
