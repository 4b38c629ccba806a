"""sbx-proxy as a target: the real program among parts in python."""
import os
import socket
import ssl
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
import box  # noqa: E402
import egress  # noqa: E402
import ipc  # noqa: E402


class Whole(egress.Sandbox):
    """A sandbox that an engine has built, with the socket that it hands on."""

    def __init__(self, proxy):
        self.proxy, self.container = proxy, "%012x" % os.getpid()
        self.principal, self.error, self.reason = "", None, ""
        self.trust, self.dir = {}, os.path.join(proxy.dir, self.container)
        os.makedirs(self.dir, exist_ok=True)
        self.ns = None
        self.scratch = box.make_scratch(USERS[0][0])
        self.engine = box.Engine(self.scratch[1], USERS[0][0])
        self.engine.introduce("recorder").introduce("proxy")
        m = self.engine.create(self.container)
        if m.name != "SANDBOX_READY":
            raise RuntimeError("no sandbox: %r" % m)
        m = self.engine.proxy.recv(5, "PROXY_LISTENER")
        self.listener = socket.socket(fileno=m.fds[0])
        self.engine.proxy.send("PROXY_LISTENER_STATE", 0,
                               container=self.container, error=0, reason="")

    def close(self):
        self.listener.close()
        self.engine.close()
        box.remove(self.scratch[0])


USERS = box.users()


class Ours:
    name = "sbx"
    has_records = has_grants = has_inner = True
    has_whole = bool(USERS)
    whole = None

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

    def inside(self, program, *args):
        """What a program in python prints, in a sandbox as it is."""
        if self.whole is None:
            self.whole = Whole(self.p)
            self.p.sandboxes.append(self.whole)
            self.p.hand_in(self.whole)
            n = self.p.ask_open(self.whole.container)
            if not self.p.wait(lambda: self.p.opened.get(n), 15):
                raise RuntimeError("PROXY_OPENED did not come")
        try:
            r = self.whole.engine.run(self.whole.container, [
                "python3", "-I", "-c", program, *args])
        except (ipc.Timeout, ipc.Closed) as e:
            return repr(e)
        return r.out.decode("utf-8", "replace").strip() or repr(r)

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
