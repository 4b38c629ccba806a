"""sbx-proxy as a target: the real program among parts in python."""
import os
import ssl
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
import egress  # noqa: E402


class Ours:
    name = "sbx"
    has_records = has_grants = has_inner = True

    def __init__(self, world, entries, out_bytes=1 << 20):
        self.world = world
        self.p = egress.Proxy(entries, roots_pem=world.certs.pem,
                              out_bytes=out_bytes)

    # --- sandboxes ------------------------------------------------------------

    def box(self, opened=True):
        s = self.p.open() if opened else self.p.sandbox()
        if s.error:
            raise RuntimeError(s.reason)
        s.listener.close()      # as init does; the proxy has its own
        return s

    def drop(self, s):
        self.p.end(s)

    def forget(self, s):
        """Nothing of it is kept here."""
        if s in self.p.sandboxes:
            self.p.sandboxes.remove(s)
            s.close()

    def connect(self, s):
        return s.connect(5)

    def trust(self, s):
        return ssl.create_default_context(
            cadata=s.trust["bundle"].decode("ascii"))

    # --- grants ------------------------------------------------------------------

    def grant(self, s, op, host, repo, ref=b"", old=b"", new=b"", uses=1,
              ms=10000, force=False):
        """Its id; the proxy may refuse it, which is for the test to see."""
        ref, old, new = (x.decode() if isinstance(x, bytes) else x
                         for x in (ref, old, new))
        self.state = self.p.grant(s, op, host, repo, ref, old, new, force,
                                  uses, ms)
        return self.state and self.state["grant"]

    def revoke(self, g):
        self.p.revoke(g)

    # --- the journal --------------------------------------------------------------

    def records(self, s, timeout=1.0, want=1):
        """Of one sandbox; waits until there are so many."""
        end = time.monotonic() + timeout
        while True:
            out = self.p.find(s)
            if len(out) >= want or time.monotonic() > end:
                return out
            time.sleep(0.002)

    def denials(self, s, timeout=1.0):
        """{(layer, code)} of what was refused."""
        end = time.monotonic() + timeout
        while True:
            out = {(r["layer"], r.get("code", "")) for r in self.p.find(s)
                   if r.get("layer")}
            if out or time.monotonic() > end:
                return out
            time.sleep(0.002)

    def log(self):
        return self.p.log + [self.p.said()]

    def alive(self):
        return self.p.proc.poll() is None

    def peak_kib(self):
        with open("/proc/%d/status" % self.p.proc.pid, encoding="ascii") as f:
            return int([x for x in f if x.startswith("VmHWM")][0].split()[1])

    def reset_peak(self):
        """The peak is counted anew from here (proc(5), clear_refs)."""
        with open("/proc/%d/clear_refs" % self.p.proc.pid, "w",
                  encoding="ascii") as f:
            f.write("5")
        return self.peak_kib()

    def close(self):
        return self.p.close()
