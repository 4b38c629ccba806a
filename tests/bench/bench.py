#!/usr/bin/env python3
"""Figures of a whole suite, each beside a rival measured in the same run.

Prints one JSON object a line: name, unit, median and p95 of `runs` samples,
and where there is a rival its name, median and the ratio of the medians, or
`rivals` with those of several.  SBX_BENCH_RUNS: samples of each (50).

Against bwrap, and crun where it is installed and this is root; the latter in
a mount namespace of its own, since it refuses hybrid control groups.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD, SRC = os.environ["SBX_BUILD"], os.environ["SBX_SRC"]
sys.path.insert(0, os.path.join(SRC, "tests", "lib"))
import mcp  # noqa: E402

RUNS = int(os.environ.get("SBX_BENCH_RUNS", "50"))


def timed(action):
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def p95(samples):
    return sorted(samples)[int(len(samples) * 0.95) - 1]


def report(name, unit, samples, aim, rival=None, rival_samples=None,
           rivals=None):
    line = {"name": name, "unit": unit, "runs": len(samples), "aim": aim,
            "median": round(statistics.median(samples), 3),
            "p95": round(p95(samples), 3)}
    if rival:
        line["rival"] = rival
        line["rival_median"] = round(statistics.median(rival_samples), 3)
        line["ratio"] = round(line["median"] / line["rival_median"], 2)
    for other, theirs in (rivals or {}).items():
        line.setdefault("rivals", {})[other] = {
            "median": round(statistics.median(theirs), 3),
            "p95": round(p95(theirs), 3),
            "ratio": round(line["median"] / statistics.median(theirs), 2)}
    print(json.dumps(line), flush=True)


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("Pss:"))


def tree(pid):
    """pid and everything below it"""
    kids = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
                kids.setdefault(parent, []).append(int(entry))
            except OSError:
                pass
    todo, seen = [pid], []
    while todo:
        seen.append(todo.pop())
        todo += kids.get(seen[-1], [])
    return seen


def suite_pss(pid):
    total = 0
    for p in tree(pid):
        try:
            total += pss_kib(p)
        except OSError:
            pass    # ended meanwhile
    return total


def bwrap_true():
    subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
                   check=True)


def fork_exec_true():
    pid = os.posix_spawn("/usr/bin/true", ["true"], {})
    os.waitpid(pid, 0)


def crun_config():
    """a bundle's: what a sandbox has, as far as crun knows it"""
    spaces = [{"type": t} for t in ("pid", "mount", "ipc", "uts", "network",
                                    "cgroup")]
    return {
        "ociVersion": "1.0.2", "root": {"path": "rootfs", "readonly": True},
        "process": {"args": ["/usr/bin/sleep", "1000"], "cwd": "/",
                    "env": ["PATH=/usr/bin"], "noNewPrivileges": True,
                    "user": {"uid": 0, "gid": 0}, "capabilities": {}},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/usr", "type": "bind", "source": "/usr",
             "options": ["rbind", "ro", "nosuid", "nodev"]}],
        "linux": {"namespaces": spaces, "resources": {
            "memory": {"limit": 1 << 30}, "pids": {"limit": 500}}}}


def crun_main(directory):
    """in the mount namespace: {what: samples} of crun"""
    bundle = os.path.join(directory, "bundle")
    os.makedirs(bundle + "/rootfs/usr")
    for d in ("proc", "dev", "tmp"):
        os.mkdir(bundle + "/rootfs/" + d)
    for d in ("bin", "lib", "lib64", "sbin"):
        os.symlink("usr/" + d, bundle + "/rootfs/" + d)
    with open(bundle + "/config.json", "w") as f:
        json.dump(crun_config(), f)

    def crun(*argv):
        subprocess.run(["crun", "--root", directory + "/state", *argv],
                       check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
    out = {"create": [], "exec": [], "stop": []}
    for i in range(RUNS):
        name = "sbx-bench-%d-%d" % (os.getpid(), i)

        def start():
            crun("create", "--bundle", bundle, name)
            crun("start", name)
        out["create"].append(timed(start))
        out["exec"].append(timed(lambda: crun("exec", name, "/usr/bin/true")))
        out["stop"].append(timed(lambda: crun("delete", "-f", name)))
    print(json.dumps(out))


def crun_samples(directory):
    """{} where there is no crun, or no way to run it"""
    if os.geteuid() != 0 or not shutil.which("crun"):
        return {}
    p = subprocess.run([
        "unshare", "-m", "sh", "-c", "umount /sys/fs/cgroup/unified "
        "2>/dev/null; exec \"$@\"", "sh", sys.executable, __file__, "--crun",
        directory], stdout=subprocess.PIPE, check=False)
    return json.loads(p.stdout) if p.returncode == 0 else {}


def bwrap_samples():
    """up, one more program in it, gone; it has no exec: nsenter(1) is one"""
    out = {"create": [], "stop": []}
    for _ in range(RUNS):
        p = None

        def start():
            nonlocal p
            p = subprocess.Popen(
                ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind",
                 "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink",
                 "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
                 "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "sh",
                 "-c", "echo up; exec sleep 1000"], stdout=subprocess.PIPE)
            p.stdout.readline()

        def end():
            p.kill()
            p.wait()
        out["create"].append(timed(start))
        out["stop"].append(timed(end))
        p.stdout.close()
    return out


def lifecycle(client, directory):
    """create, exec and stop, each against both"""
    ours = {"create": [], "exec": [], "stop": []}
    for _ in range(RUNS):
        made = {}

        def start():
            made.update(client.call("sandbox_initialize"))
        ours["create"].append(timed(start))
        box = made["container_id"]
        ours["exec"].append(timed(lambda: client.call(
            "sandbox_exec", container_id=box, argv=["true"])))
        ours["stop"].append(timed(lambda: client.call(
            "sandbox_stop", container_id=box, force=True)))
    bwrap, crun = bwrap_samples(), crun_samples(directory)
    aims = {"create": "ratio 1.0 of bwrap", "exec": "below crun",
            "stop": "below crun"}
    for what, samples in ours.items():
        report("lifecycle_" + what, "ms", samples, aims[what], rivals={
            n: r[what] for n, r in (("bwrap", bwrap), ("crun", crun))
            if what in r})


def create(client):
    ours, theirs = [], []
    for _ in range(RUNS):
        made = {}

        def start():
            made.update(client.call("sandbox_initialize"))
        ours.append(timed(start))
        assert made["status"] == "ok", made
        theirs.append(timed(bwrap_true))
        client.call("sandbox_stop", container_id=made["container_id"],
                    force=True)
    report("sandbox_initialize", "ms", ours, "ratio 1.0",
           "bwrap --unshare-all --ro-bind / / true", theirs)


def calls(client, box):
    ours, theirs, quick = [], [], []
    for _ in range(RUNS):
        ours.append(timed(lambda: client.call(
            "sandbox_exec", container_id=box, argv=["true"])))
        theirs.append(timed(fork_exec_true))
        quick.append(timed(lambda: client.call("sandbox_list_containers")))
    report("sandbox_exec_true", "ms", ours, "ratio 2.0", "fork+exec of true",
           theirs)
    report("tools_call_no_sandbox", "ms", quick, "0.3 ms")


def memory(client):
    idle = suite_pss(client.pid)
    report("suite_pss_idle", "KiB", [idle], "12288 KiB")
    boxes = [client.call("sandbox_initialize")["container_id"]
             for _ in range(20)]
    time.sleep(0.2)
    report("sandbox_pss_idle", "KiB", [(suite_pss(client.pid) - idle) / 20],
           "1024 KiB")
    for box in boxes:
        client.call("sandbox_stop", container_id=box, force=True)


def main():
    root = tempfile.mkdtemp(prefix="sbx-bench-")
    os.chmod(root, 0o755)
    client = mcp.Client([f"{BUILD}/sbx", "mcp", "--private"],
                        env=dict(os.environ, SBX_ROOT=root))
    try:
        time.sleep(0.5)
        memory(client)
        time.sleep(1)       # what it stopped is deleted in the background
        box = client.call("sandbox_initialize")["container_id"]
        calls(client, box)
        create(client)
        time.sleep(1)
        lifecycle(client, root)
    finally:
        client.close()
        shutil.rmtree(root, ignore_errors=True)


if sys.argv[1:2] == ["--crun"]:
    crun_main(sys.argv[2])
else:
    main()
