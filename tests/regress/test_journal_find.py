#!/usr/bin/env python3
"""`sbx journal show` with filters, against a reader that looks at each line:
random journals of several files, torn and overlong lines, ids inside texts and
keys, ids written with escapes, a line without an end, reading while written."""
import functools
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import journal as J  # noqa: E402

t = J.Tap()
SEED = int(os.environ.get("SBX_SEED", time.time_ns() & 0xffffffff))
rnd = random.Random(SEED)
print("# seed %d" % SEED, flush=True)
RUNS = ["%016x" % rnd.getrandbits(64) for _ in range(6)]
BOXES = ["%012x" % rnd.getrandbits(48) for _ in range(3)] + ["abcdef012345",
                                                             "abcdef999999"]
OPS = ["exec", "exec2", "copy", "torn", "a b", "x\u00e9"]
seq = 0


def escaped(text):
    return "".join("\\u%04x" % ord(c) for c in text)


def line(run="", box="", op="exec", fields=None, esc=()):
    """A record as bytes; the members named in `esc` written with escapes."""
    global seq
    seq += 1
    rec = {"seq": seq, "prev": "%064x" % rnd.getrandbits(256),
           "wall": "2026-07-%02dT10:00:00.%09dZ" % (1 + seq % 28, seq),
           "mono_ns": seq, "component": "monitor", "op": op, "phase": "start",
           "principal": "uid:1000", "container_id": box, "run_id": run,
           "code": 0, "fields": fields or {}}
    text = json.dumps(rec, separators=(",", ":"))
    for name in esc:
        text = text.replace('"%s":"%s"' % (name, rec[name]),
                            '"%s":"%s"' % (name, escaped(rec[name])), 1)
    return text.encode()


def random_line(big):
    run, box = rnd.choice(RUNS + [""] * 9), rnd.choice(BOXES + [""])
    other = rnd.choice(RUNS)
    fields = rnd.choice([
        {}, {"argv": '"run_id":"%s"' % other}, {"run_id": other},
        {"container_id": BOXES[0], "op": "exec"},
        {"text": '\\","run_id":"%s","code":0' % other},
        {"argv": "\x1b\n" + other}, {"pad": "x" * rnd.randrange(big)}])
    kind = rnd.random()
    text = line(run, box, rnd.choice(OPS), fields,
                esc=rnd.choice([["run_id"], ["container_id"], ["op"],
                                ["run_id", "container_id"]])
                if kind < .05 else ())
    if kind > .97:
        text = text[:rnd.randrange(1, len(text))]       # torn
    elif kind > .95:
        text = b""
    elif kind > .94:
        text = b'"run_id":"%s"' % other.encode() * 3    # garbage
    return text


def plain(text):
    return all(c.isascii() and (c.isalnum() or c in "_.-") for c in text)


@functools.lru_cache(None)
def parse(text):
    """The record, or None."""
    try:
        r = json.loads(text)
    except ValueError:
        return None
    if not isinstance(r, dict) or list(r) != J.MEMBERS:
        return None
    if any(plain(r[m]) and b'"%s":"%s"' % (m.encode(), r[m].encode()) not in
           text for m in ("op", "container_id", "run_id")):
        return None         # such a text is not escaped
    del r["fields"]
    return r


def naive(data, run=None, box=None, op=None, since=None):
    """Every line, one after another."""
    return [text for text in data for r in [parse(text)] if r is not None and
            (run is None or r["run_id"] == run) and
            (box is None or r["container_id"].startswith(box)) and
            (op is None or r["op"] == op) and
            (since is None or r["wall"] >= since)]


def compare(path, data, what):
    bad = []
    for _ in range(25):
        args, want = [], {}
        for key, opt, values in (("run", "-r", RUNS + ["0" * 16]),
                                 ("box", "-c", BOXES + ["abcdef", "a"]),
                                 ("op", "-o", OPS),
                                 ("since", "-s", ["2026-07-14", "2027"])):
            if rnd.random() < .45:
                want[key] = rnd.choice(values)
                args += [opt, want[key]]
        if not args:
            continue
        n = rnd.choice([None, 0, 1, 2, 7, 100, 100000])
        lines = naive(data, **want)
        if n is not None:
            args += ["-n", str(n)]
            lines = lines[len(lines) - n:] if n < len(lines) else lines
        status, out, err = J.read(path, "show", "--json", *args)
        if status != 0 or out.split(b"\n")[:-1] != lines or err:
            bad.append((args, status, len(lines), out.count(b"\n"), err[:200]))
    t.ok(not bad, "%s, seed %d: %r" % (what, SEED, bad[:3]))


def journals(d):
    for i, (big, lines, files) in enumerate((
            (40, 300, 1), (3000, 1500, 3), (200000, 120, 2), (40, 30, 5))):
        p, data = d.new("j%d" % i), []
        for number in range(1, files + 1):
            part = [random_line(big) for _ in range(lines)]
            if number == 2:     # longer than a step backwards, with an id in it
                part.insert(lines // 2, b"#" * 2500000 +
                            b'"run_id":"%s"' % RUNS[0].encode() + b"#" * 1300000)
            blob = b"\n".join(part) + b"\n"
            if number == files:
                blob += line(RUNS[0], BOXES[0])         # without its end
                part.append(blob.rsplit(b"\n", 1)[1])
            J.write(p, blob, number)
            data += part
        if i == 3:
            J.write(p, b"", files + 1)      # made, and then the disk was full
        compare(p, data, "%d files, fields up to %d bytes" % (files, big))


def borders(d):
    """A wanted line on each side of, and across, the border of a step."""
    step, bad = 1 << 20, []
    for shift in list(range(-2, 3)) + [-200, -330, -331, -332, -333, -334, -335]:
        p = d.new("b%d" % shift)
        want = line(RUNS[0], BOXES[0])
        blob = b"#" * (step + shift - 1) + b"\n" + want + b"\n" + \
            b"#" * step + b"\n" + want + b"\n"
        J.write(p, blob)
        for n in ("1", "2", "3"):
            status, out, _ = J.read(p, "show", "--json", "-r", RUNS[0],
                                    "-n", n)
            if status != 0 or out != (want + b"\n") * min(2, int(n)):
                bad.append((shift, n, out.count(b"\n")))
    t.ok(not bad, "lines at the border of a step: %r" % bad)


def forged(d):
    """A record of the true writer's names, but with an escaped id."""
    p = d.new("forged")
    J.write(p, line(RUNS[0], BOXES[0]) + b"\n" +
            line(RUNS[0], BOXES[0], esc=["run_id"]) + b"\n")
    status, out, _ = J.read(p, "show", "--json", "-r", RUNS[0])
    t.ok(status == 0 and out.count(b"\n") == 1,
         "an id that is written with escapes is no id")
    status, out, err = J.read(p, "show", "--json")
    t.ok(out.count(b"\n") == 1 and b"no record" in err,
         "and its line is told to be no record")


def follow(d):
    """A record comes in two pieces, and in the next file."""
    p = d.new("follow")
    a, b, c = (line(RUNS[0], BOXES[0]) for _ in range(3))
    J.write(p, line(RUNS[1]) + b"\n" + a + b"\n")
    proc = subprocess.Popen(
        [os.path.join(J.BUILD, "journal-read"), p, "tail", "-f", "--json"],
        stdout=subprocess.PIPE)
    try:
        got = [proc.stdout.readline(), proc.stdout.readline()]
        with open(J.files(p)[0], "ab") as f:
            f.write(b[:100])
            f.flush()
            time.sleep(.5)
            f.write(b[100:] + b"\n")
        J.write(p, c + b"\n", 2)
        os.set_blocking(proc.stdout.fileno(), False)
        tail, end = b"", time.monotonic() + 10
        while tail.count(b"\n") < 2 and time.monotonic() < end:
            tail += proc.stdout.read() or b""
            time.sleep(.05)
    finally:
        proc.kill()
        proc.wait()
    t.ok(got[1] == a + b"\n" and tail == b + b"\n" + c + b"\n",
         "tail -f waits for the end of a line that is being written")


def cached(d):
    """The same answers with what is remembered, and when that is damaged."""
    p, cache, data = d.new("cached"), d.new("cache"), []
    runs = ["%016x" % rnd.getrandbits(64) for _ in range(40)]

    def write(number, lines):
        # a run and a sandbox are together for a while, as they are
        part = [line(rnd.choice(runs[i * 38 // lines:][:3]), BOXES[i * 4 // lines],
                     fields={"pad": "x" * rnd.randrange(8000)})
                for i in range(lines)]
        part.insert(lines // 3, b"#" * 1500000 + b'"run_id":"%s"' %
                    runs[39].encode())
        part.insert(lines // 2, line(runs[0], "", fields={"run_id": runs[1]}))
        J.write(p, b"\n".join(part) + b"\n", number)
        return part
    data = write(1, 4000) + write(2, 3000)
    os.environ["JOURNAL_CACHE"] = cache

    def questions(what, runs=runs[:40:5] + runs[38:]):
        bad = []
        for want in [{"run": x} for x in runs] + [{"box": x} for x in BOXES] + \
                [{"box": "abcdef"}, {"box": "0"}, {"box": BOXES[0], "op": "exec",
                                                   "run": runs[0]}]:
            args = [x for k, v in want.items()
                    for x in ({"run": "-r", "box": "-c", "op": "-o"}[k], v)]
            n = rnd.choice([1, 7, 100, 5000])
            lines = naive(data, **want)[-n:]
            status, out, err = J.read(p, "show", "--json", *args, "-n", str(n))
            if status or err or out.split(b"\n")[:-1] != lines:
                bad.append((want, n, status, err[:200], len(lines),
                            out.count(b"\n")))
        t.ok(not bad, "%s, seed %d: %r" % (what, SEED, bad[:3]))
    questions("remembering")
    names = sorted(os.listdir(cache))
    t.ok(len(names) == 2 and all(len(n) == 64 for n in names),
         "a file of the cache for each of the journal: %r" % names)
    questions("remembered")
    # nothing of it is made again
    before = [os.stat(os.path.join(cache, n)).st_mtime_ns for n in names]
    t0 = time.monotonic()
    for _ in range(5):
        J.read(p, "show", "-r", runs[0], "-n", "1")
    t.ok(before == [os.stat(os.path.join(cache, n)).st_mtime_ns
                    for n in names], "and then it stays, %.0f ms a question" %
         ((time.monotonic() - t0) * 200))
    with open(J.files(p)[1], "ab") as f:
        more = [line(runs[39], BOXES[4], fields={"pad": "y" * 4000})
                for _ in range(4000)]
        f.write(b"\n".join(more) + b"\n")
    data += more
    questions("appended")

    def damage(what, how):
        for n in sorted(os.listdir(cache)):
            path = os.path.join(cache, n)
            with open(path, "rb") as f:
                blob = f.read()
            with open(path, "wb") as f:
                f.write(how(blob))
        questions("the cache is damaged: " + what, runs[:40:9])
    damage("cut", lambda b: b[:len(b) // 2])
    damage("empty", lambda b: b"")
    damage("longer", lambda b: b + b"\0" * 16)
    damage("zeros", lambda b: bytes(len(b)))
    for _ in range(6):
        def flip(b):
            at = rnd.randrange(len(b))
            return b[:at] + bytes([b[at] ^ 1 << rnd.randrange(8)]) + b[at + 1:]
        damage("a bit", flip)
    damage("one file for another", lambda b: b"")
    two = [os.path.join(cache, n) for n in sorted(os.listdir(cache))[:2]]
    questions("made anew")
    os.rename(two[0], two[0] + ".x")
    os.rename(two[1], two[0])
    os.rename(two[0] + ".x", two[1])
    questions("files of the cache are exchanged")

    # another journal in the place of this one, with the same first line
    first = data[0]
    inode = os.stat(J.files(p)[0]).st_ino
    rest = [line(runs[38], BOXES[3], fields={"pad": "z" * 6000})
            for _ in range(4000)]
    with open(J.files(p)[1], "rb") as f:
        tail = f.read().split(b"\n")[:-1]
    J.write(p, b"\n".join([first] + rest) + b"\n", 1)
    assert os.stat(J.files(p)[0]).st_ino == inode
    data = [first] + rest + tail
    questions("the journal was written anew under the same first line")

    for what, mode in (("no directory", None), ("of others", 0o777),
                       ("read-only", 0o500)):
        os.environ["JOURNAL_CACHE"] = d.new("none/none") if mode is None else \
            d.new("mode%o" % mode)
        if mode is not None:
            os.mkdir(os.environ["JOURNAL_CACHE"])
            os.chmod(os.environ["JOURNAL_CACHE"], mode)
        questions("works without a cache: " + what, runs[:40:13])
        if mode == 0o777:
            t.ok(os.listdir(os.environ["JOURNAL_CACHE"]) == [],
                 "and what others may write is not used")
    del os.environ["JOURNAL_CACHE"]


def real(d):
    """What the true writer wrote is found, whatever its texts hold."""
    p = d.new("real")
    dm = J.Daemon(p, rotate=65536)
    mark = RUNS[0]
    for i in range(600):
        dm.append(flags=0, run=RUNS[i % 6], container=BOXES[i % 5],
                  fields=["argv", '"run_id":"%s"' % mark, "run_id", mark])
    dm.append(flags=0, run="a\nb", container="x\u00e9", op="\x1b[m")
    dm.put()
    dm.stop()
    status, out, _ = J.read(p, "show", "--json", "-r", mark, "-n", "100")
    got = [json.loads(x) for x in out.splitlines()]
    want = [r for r in J.records(p) if r["run_id"] == mark]
    t.ok(len(J.files(p)) > 1 and status == 0 and got == want[-100:] and
         len(want) == 100, "100 of 600 over %d files" % len(J.files(p)))
    t.ok(J.read(p, "verify")[0] == 0, "and odd ids leave it verifiable")


with J.Dir() as d:
    journals(d)
    borders(d)
    forged(d)
    follow(d)
    cached(d)
    real(d)
t.end()
