#!/usr/bin/python3
"""How long a session takes to begin and to end, seen from the command line, with a warm supervisor.

usage: bench/start/start.py BROME [--runs N] [--user NAME] [--phases]   (root; makes a network namespace of its own)

Per row: median and minimum of the wall time, and the median of the CPU time that the machine spent meanwhile (busy time of /proc/stat: on an
idle machine that is brome's; on a busy one read the minimum of the wall time). --phases: what the log tells of one run, in milliseconds."""
import argparse
import os
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
if "BROME_BENCH_INSIDE" not in os.environ:
    os.environ["BROME_BENCH_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable, *sys.argv])
import world as W  # noqa: E402


def busy_ms():
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * 1000 / os.sysconf("SC_CLK_TCK")


def timed(fn):
    cpu, t = busy_ms(), time.monotonic()
    fn()
    return (time.monotonic() - t) * 1000, busy_ms() - cpu


def row(name, samples):
    wall, cpu = [s[0] for s in samples], [s[1] for s in samples]
    print(f"{name:44} {statistics.median(wall):8.0f} {min(wall):8.0f} {statistics.median(cpu):8.0f}", flush=True)


def first_byte_ms(b):
    """From the start of the command line to the first byte of the answer on its standard output."""
    t = time.monotonic()
    p = b.popen("run", "--allow", "web allowed.example", "--", "curl", "-sS", "http://allowed.example/small")
    p.stdout.read(1)
    t = (time.monotonic() - t) * 1000
    p.communicate(timeout=W.DEADLINE)
    assert p.returncode == 0
    return t


def phases(b):
    """The lines of one run in bromed's log, by when they appear."""
    log, seen, stop = b.dir / "run/bromed.log", [], threading.Event()
    with open(log, errors="replace") as f:
        f.seek(0, os.SEEK_END)

        def follow():
            while not stop.wait(0.0005):
                now = time.monotonic()
                seen.extend((now, line.rstrip()) for line in f.read().splitlines())
        t = threading.Thread(target=follow)
        t.start()
        begin = time.monotonic()
        b("run", "--", "true", check=0)
        end = time.monotonic()
        stop.set()
        t.join()
    for at, line in [*seen, (end, "the command line ended")]:
        print(f"  {(at - begin) * 1000:7.1f}  {line[:120]}")


def measure(w, user, o):
    b = W.Brome(w, "workspace kept {\n  rules {\n    default deny\n  }\n}\n", user=user)
    who = user or "root"
    b("daemon", "start", check=0)
    b("run", "--", "true", check=0)  # the supervisor is warm, what is kept for all workspaces is there
    row(f"{who}: run -- true", [timed(lambda: b("run", "--", "true", check=0)) for _ in range(o.runs)])
    row(f"{who}: run -- curl, first byte", [(first_byte_ms(b), 0) for _ in range(o.runs)])
    starts, stops, execs = [], [], []
    for _ in range(o.runs):
        starts.append(timed(lambda: b("workspace", "start", "kept", check=0)))
        execs.append(timed(lambda: b("exec", "-T", "kept", "--", "true", check=0)))
        stops.append(timed(lambda: b("workspace", "stop", "kept", check=0)))
    row(f"{who}: workspace start (kept)", starts[1:])
    row(f"{who}: exec -- true", execs)
    row(f"{who}: workspace stop", stops)
    if o.phases:
        phases(b)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("brome")
    a.add_argument("--runs", type=int, default=11)
    a.add_argument("--user", default="nobody", help="the ordinary user")
    a.add_argument("--phases", action="store_true")
    o = a.parse_args()
    os.environ["BROME_UNDER_TEST"] = os.path.abspath(o.brome)
    if o.phases:
        os.environ["BROME_DEBUG"] = "1"
    w = W.World(sniff=False)
    try:
        w.nginx()
        (w.dir / "www/small").write_text("x" * 1024)
        print(f"{'milliseconds':44} {'median':>8} {'minimum':>8} {'CPU':>8}")
        for user in (None, o.user):
            measure(w, user, o)
    finally:
        w.close()


main()
