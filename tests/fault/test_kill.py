"""kill -9 of each process in each state: the workspace is closed, the journal verifies, the next start works, nothing is left behind."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

from ground import alive, both, gone, groups_of, inside, quiet, status, tree, two
from world import Brome, World, wait_for

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\n"
VICTIMS = ("bromed", "brome-spawn", "brome-launch", "keeper", "guest", "brome-inner", "brome-outer")


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    two(w, CONFIG)
    w.launchers = set()
    return w


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def state(b):
    return next((r["state"] for r in b.json("workspace", "ls") if r["name"] == "s"), "none")


def first(pids):
    return {name: p[0] for name, p in pids.items()}


# --- states: each puts the workspace there and returns its processes and a way to let go of what was held ---

def opening(b):
    b("daemon", "start")
    p = b.popen("workspace", "start", "s")
    held = []

    def has_inner():
        pids = first(tree(b))
        if "brome-inner" in pids and not held:
            held.append(pids["brome-inner"])
            kill(pids["brome-inner"], signal.SIGSTOP)  # it will not say that it is ready
        return pids if held and {"brome-launch", "brome-outer", "keeper", "guest"} <= set(pids) else None
    pids = wait_for("the opening", has_inner)
    return pids, lambda: (kill(held[0], signal.SIGCONT), p.wait(60))


def up(b):
    b("workspace", "start", "s")
    return wait_for("the workspace", lambda: (lambda p: p if state(b) == "running" and set(VICTIMS) <= set(p) else None)(first(tree(b))))


def running(b):
    return up(b), lambda: None


def setting_rules(b):
    pids = up(b)
    kill(pids["brome-inner"], signal.SIGSTOP)  # the change waits for it
    p = b.popen("rules", "set", "s", "-", stdin=subprocess.PIPE)
    p.stdin.write(b"allow web allowed.example\nallow web second.example\ndefault deny\n")
    p.stdin.close()
    p.stdin = None
    time.sleep(0.15)  # under way; where exactly does not matter to what must hold
    return pids, lambda: (kill(pids["brome-inner"], signal.SIGCONT), p.wait(60))


def executing(b):
    pids = up(b)
    p = b.popen("exec", "-T", "s", "--", "sh", "-c", "trap '' HUP TERM INT; yes | head -c 50000000000 & while :; do echo tick; done")
    p.stdout.readline()
    return pids, lambda: (p.stdout.close(), p.wait(60))


def frozen(b):
    pids = up(b)
    b("workspace", "freeze", "s", check=0)
    return pids, lambda: None


def stopping(b):
    pids = up(b)
    q = b.popen("exec", "-T", "s", "--", "sh", "-c", "trap '' HUP TERM INT; echo up; while :; do sleep 1; done")
    q.stdout.readline()
    p = b.popen("workspace", "stop", "s")
    wait_for("the stopping", lambda: state(b) in ("stopping", "stopped"))
    return pids, lambda: (p.wait(60), q.stdout.close(), q.wait(60))


STATES = (opening, running, setting_rules, executing, frozen, stopping)


def left_behind(b, pids, before):
    mounts = [m for m in pathlib.Path("/proc/self/mounts").read_text().splitlines() if m not in before["mounts"]]
    links = set(os.listdir("/sys/class/net")) - before["links"]
    groups = groups_of(pids["brome-launch"]) if "brome-launch" in pids else []
    return {"mounts": mounts, "links": links, "groups": groups}


def strike(w, b, into, victim):
    before = {"mounts": set(pathlib.Path("/proc/self/mounts").read_text().splitlines()), "links": set(os.listdir("/sys/class/net"))}
    pids, let_go = into(b)
    w.launchers.add(pids["brome-launch"])
    where = f"{victim} killed while {into.__name__}"
    everyone = inside(pids["guest"]) if os.path.exists(f"/proc/{pids['guest']}") else []
    kill(pids[victim])
    if victim == "brome-spawn" or victim == "bromed":
        wait_for(f"the end of bromed: {where}", lambda: not os.path.exists(f"/proc/{pids['bromed']}") or status(pids["bromed"])["State"][0] == "Z")
    # Closed: no process of the guest or of the gate is left, whoever was killed. A held door goes on only when it is let go.
    let_go()
    session = [pids[n] for n in ("brome-launch", "keeper", "guest", "brome-inner", "brome-outer") if n in pids]
    try:
        gone(*session, *everyone)
    except AssertionError as e:
        raise AssertionError(f"{where}: {e}") from e
    if victim in ("bromed", "brome-spawn"):
        gone(pids["bromed"], pids["brome-spawn"])
    else:
        got = wait_for(f"the verdict: {where}", lambda: (lambda s: s if s in ("failed", "stopped") else None)(state(b)))
        assert got == "failed" or into in (stopping, setting_rules) or victim == "guest", f"{where}: the workspace says {got}"
    left = left_behind(b, pids, before)
    groups = left.pop("groups") if victim == "keeper" else []  # the keeper is who removes them; the next start sweeps
    assert not any(left.values()), f"{where}: left behind {left}"
    p = b("trace", "verify")
    assert p.returncode == 0, f"{where}: {p.stdout}{p.stderr}"
    p = b("workspace", "start", "s")
    assert p.returncode == 0, f"{where}: the next start: {p.stderr}{b.log()}"
    alive(b)
    assert not [g for g in groups if os.path.exists(g)], f"{where}: left behind {groups}"
    b("workspace", "stop", "s", "--force", check=0)


def struck(into):
    def test(w):
        bad = []
        for b in (w.root, w.plain):
            for victim in VICTIMS:
                try:
                    strike(w, b, into, victim)
                except AssertionError as e:
                    bad.append(f"as {b.user or 'root'}: {e}")
                    b("workspace", "stop", "s", "--force")
                    b("daemon", "restart")
        assert not bad, "\n".join(bad)
    return test


test_opening, test_running, test_setting_rules, test_executing, test_frozen, test_stopping = map(struck, STATES)


@both
def test_the_command_line_killed(w, b):
    b("daemon", "start")
    # A throw-away session ends with the `brome` that opened it.
    p = b.popen("run", "--", "sh", "-c", "trap '' HUP TERM; echo up; while :; do sleep 1; done")
    assert p.stdout.readline() == b"up\n"
    pids = first(tree(b))
    everyone = inside(pids["guest"])
    p.kill()
    gone(pids["guest"], pids["brome-launch"], pids["keeper"], pids["brome-inner"], pids["brome-outer"], *everyone)
    wait_for("its folder to go", lambda: not [d for d in os.listdir(b.dir / "state/workspaces") if d.startswith("run-")])
    # An exec ends with its client; the session stays.
    up(b)
    p = b.popen("exec", "-T", "s", "--", "sh", "-c", "echo up; exec sleep 4321")
    assert p.stdout.readline() == b"up\n"
    p.kill()
    wait_for("the hang-up", lambda: "4321" not in b.sh("s", "cat /proc/*/cmdline | tr '\\0' ' '").stdout.replace("cat", ""))
    assert state(b) == "running"
    # One that waits for an opening, for a stop, for a change: nothing of the daemon's hangs on it.
    for words in (("workspace", "stop", "s"), ("workspace", "start", "s"), ("rules", "show", "s"), ("workspace", "freeze", "s"), ("workspace", "thaw", "s"), ("timeline", "-f")):
        p = b.popen(*words)
        time.sleep(0.02)
        p.kill()
        p.wait()
    wait_for("a settled state", lambda: state(b) in ("running", "stopped", "frozen"))
    b("workspace", "stop", "s", "--force")
    up(b)
    alive(b)
    b("trace", "verify", check=0)


@both
def test_nothing_recorded_is_lost(w, b):
    up(b)
    for i in range(20):
        b.sh("s", f"curl -sS https://allowed.example/before-{i}; curl -sS -m 5 http://203.0.113.66:{1000 + i}/")
    wait_for("the last record", lambda: [r for r in b.trace() if r.get("path") == "/before-19"])
    rows = len(b.trace())
    kill(first(tree(b))["bromed"])
    time.sleep(0.1)
    b("daemon", "start", check=0)
    assert len(b.trace()) >= rows
    assert len([r for r in b.trace() if (r.get("path") or "").startswith("/before-")]) >= 20
    b("trace", "verify", check=0)
    assert [r for r in b.json("timeline") if "bromed" in str(r).lower()], "the death of bromed is not in the timeline"


@both
def test_many_deaths_in_a_row(w, b):
    """Every process of a set-up at once, and bromed again and again while it starts."""
    for _ in range(4):
        pids = up(b)
        for p in pids.values():
            kill(p)
        gone(*pids.values())
    for delay in (0, 0.005, 0.02, 0.05, 0.1, 0.2):
        p = b.popen("workspace", "start", "s")
        time.sleep(delay)
        lock = b.dir / "run/bromed.lock"
        for d in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if d.isdigit() and pathlib.Path(f"/proc/{d}/cmdline").read_bytes().startswith(b"bromed") and os.readlink(f"/proc/{d}/fd/3") == str(lock):
                    kill(int(d))
        p.wait(60)
    up(b)
    alive(b)
    b("trace", "verify", check=0)
    b("workspace", "stop", "s", "--force")


def test_no_group_stays(w):
    left = [os.path.join(r, d) for r, ds, _ in os.walk("/sys/fs/cgroup") for d in ds if d.startswith("brome.s.")]
    mine = [g for g in left if int(g.rsplit(".", 1)[1]) in w.launchers and not os.path.exists(f"/proc/{g.rsplit('.', 1)[1]}")]
    assert not mine, mine
