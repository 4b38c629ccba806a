#!/usr/bin/env python3
"""Foreign text in the journal: no secret, no second line, no terminal codes,
neither in the file nor in what `sbx journal` shows."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SBX_SRC"], "tests", "lib"))
import journal as J  # noqa: E402

t = J.Tap()
# put together here, so that this file holds none itself
SECRETS = {
    "a GitHub token": "ghp_" + "A1b2C3d4E5f6" * 3,
    "an installation token": "ghs_" + "12345_" + "eyJhbGciOi.J9" * 8,
    "a provider key": "sk-" + "ant-" + "api03-" + "Zz9" * 20,
    "an AWS key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "a header": "Authorization: Bearer " + "q1w2e3r4t5" * 4,
    "a URL": "https://user:" + "s3cr3tpassw0rd" + "@example.test/x.git",
    "a variable": "API_KEY=" + "0f1e2d3c4b5a" * 3,
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\n" +
                     "MIIEow" * 12 + "\n-----END RSA PRIVATE KEY-----",
}
# the part of each that must not be there
CORE = {"a header": "q1w2e3r4t5" * 2, "a URL": "s3cr3tpassw0rd",
        "a variable": "0f1e2d3c4b5a", "a private key": "MIIEow" * 4}
HOSTILE = {
    "newline": 'a\n{"seq":1}', "carriage return": "a\r\rb",
    "escape": "\x1b[2J\x1b]0;t\x07", "C1": "\u009b31m",
    "line separator": "a\u2028b\u2029c", "bidi": "\u202eabc\u2066\u200f",
    "zero width": "a\u200bb\ufeff", "quotes": '","seq":9,"x":"',
    "backslash": "\\\\n\\", "delete": "a\x7fb",
    "another field": 'x code=0 principal=root y="1" z',
    "not UTF-8": "\udcff\udcc0\udc80", "only blanks": "   ", "empty": "",
}
UNSAFE = [c.encode() for c in "\x1b\r\x7f\x07\u009b\u2028\u2029\u202e\u2066"
          "\u200f\u200b\ufeff"]


def secrets(d):
    p = d.new("secrets")
    dm = J.Daemon(p)
    for text in SECRETS.values():
        dm.append(flags=0, fields=["argv", "run " + text + " end"])
        dm.append(flags=0, principal=text.split("\n")[0][:64],
                  fields=["argv", text])
    # cut, as a long argument is: the end of the key is not there
    dm.append(flags=0, fields=["argv", SECRETS["a private key"][:90]])
    dm.put()
    dm.stop()
    raw = J.raw(p)
    for what, text in SECRETS.items():
        core = CORE.get(what, text[4:]).encode()
        t.ok(core not in raw, what + " is not written")
    t.ok(b"***" in raw and J.read(p, "verify")[0] == 0,
         "in their place are stars, in a good chain")


def hostile(d):
    p = d.new("hostile")
    dm = J.Daemon(p)
    for text in HOSTILE.values():
        b = text.encode("utf-8", "surrogateescape")
        dm.append(flags=0, op=b[:32], phase=b[:8], principal=b[:64],
                  container=b[:16], run=b[:16], fields=["argv", b])
    dm.put()
    dm.stop()
    rec = J.records(p)
    t.ok(len(rec) == len(HOSTILE) + 2, "each is one line")
    for r, (what, text) in zip(rec[1:], HOSTILE.items()):
        want = text.encode("utf-8", "surrogateescape").decode(
            "utf-8", "replace")
        t.ok(r["fields"]["argv"] == want, what + " is kept")
    raw = J.raw(p)
    t.ok(not any(c in raw for c in UNSAFE),
         "nothing in the file steers a terminal")
    code, out, _ = J.read(p, "show")
    t.ok(code == 0 and not any(c in out for c in UNSAFE) and
         out.count(b"\n") == len(rec), "nor in what is shown")
    shown = [x for x in out.split(b"\n") if b"principal=root" in x]
    t.ok(len(shown) == 1 and b'argv="x code=0 principal=root y=\\"1\\" z"' in
         shown[0], "a value cannot look like another field")
    t.ok(J.read(p, "verify")[0] == 0, "verify agrees")


def forged(d):
    """A journal written by somebody else: shown without its codes."""
    p = d.new("forged")
    dm = J.Daemon(p)
    dm.put(fields=["argv", "PLACE"])
    dm.stop()
    J.write(p, J.raw(p).replace(b"PLACE", "\u202e\u009b1m".encode()) +
            b"\x1b[2J no record\n")
    code, out, err = J.read(p, "show")
    t.ok(code == 0 and not any(c in out + err for c in UNSAFE),
         "a forged file cannot steer the terminal either")
    t.ok(b"\\u202e" in out and b"no record, skipping" in err,
         "it is escaped, what is no record left out")


def large(d):
    p = d.new("large")
    dm = J.Daemon(p)
    b = b"\x01" * 24000
    t.ok(dm.put(fields=["argv", b])["seq"] == 2, "a field of 24000 bytes")
    t.ok(dm.put(fields=["k%d" % i if j == 0 else "v" for i in range(32)
                        for j in range(2)])["seq"] == 3, "32 fields")
    t.ok(dm.put(fields=["a", "1", "cut"])["seq"] == 4,
         "a last key without value")
    dm.stop()
    rec = J.records(p)
    t.ok(rec[1]["fields"]["argv"] == b.decode() and
         len(rec[2]["fields"]) == 32 and
         rec[3]["fields"] == {"a": "1", "cut": ""}, "are all written")
    t.ok(len(json.dumps(rec)) > 0 and J.read(p, "verify")[0] == 0,
         "and verified")


with J.Dir() as scratch:
    for test in (secrets, hostile, forged, large):
        test(scratch)
t.end()
