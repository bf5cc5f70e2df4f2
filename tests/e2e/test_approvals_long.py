"""What takes its time: a question that nobody answers within ten minutes, and an account's door that ends after a minute without use and comes again."""
# long
import os
import re
import time

from accounts import KEYS, Account, configuration, start
from attack import Origin
from world import Brome, Skip, World, wait_for

HOLD_S, IDLE_S = 600, 60
SECRETS = {"gate": "RealGateSecret0123456789abcdef", "idle": "RealIdleSecret0123456789abcdef"}


def make_world():
    if KEYS == "guest":
        raise Skip("consent is asked for the gate's accounts")
    w = World()
    for name in ("gate.example", "idle.example"):
        w.dns.set(name, "203.0.113.20")
    w.origin = Origin("203.0.113.20", 443, tls=w.server_tls("gate.example", "idle.example"))
    w.accounts = [Account(w, "gate", "bearer", SECRETS["gate"], "gate.example", "ask wait"), Account(w, "idle", "bearer", SECRETS["idle"], "idle.example")]
    w.b = Brome(w, configuration(w.accounts, "s", "allow web { gate.example, idle.example }"))
    start(w.b, w.accounts)
    w.held = {a.name: a.held(w.b) for a in w.accounts}
    # They wait while the other test runs.
    w.asked = time.monotonic()
    w.waits = [curl(w, "gate", "unanswered" + v, v, "-m", "800") for v in ("--http1.1", "--http2")]
    wait_for("the question", lambda: [x["waiting"] for x in of(w, "waiting")] == [2])
    w.question = of(w, "waiting")[0]["id"]
    return w


def curl(w, host, path, *options):
    return w.b.popen("exec", "-T", "s", "--", "curl", "-sSi", "-H", f"Authorization: Bearer {w.held[host]}", *options, f"https://{host}.example/{path}")


def of(w, kind):
    return [x for x in w.b.json("approvals") if x["kind"] == kind]


def answered(p, timeout=60):
    out, err = p.communicate(timeout=timeout)
    m = re.match(r"HTTP/\S+ (\d+)", out.decode())
    return m and m[1], out.decode() + err.decode()


def test_door_ends_and_comes_again(w):
    """After a minute without use it is gone, and the secret with it; the next use starts another, which is handed the secret anew. One that holds a request stays."""
    before = set(w.b.pids("brome-outer"))
    assert answered(curl(w, "idle", "first", "-m", "60"))[0] == "200"
    door = set(w.b.pids("brome-outer")) - before
    assert len(door) == 1 and w.origin.everything().count(SECRETS["idle"].encode()) == 1, (door, before)
    used = time.monotonic()
    wait_for("the door's end", lambda: not door & set(w.b.pids("brome-outer")), IDLE_S + 60)
    assert time.monotonic() - used > IDLE_S - 2, "it ended before its minute"
    assert set(w.b.pids("brome-outer")) == before, "another door ended with it"
    assert not any(os.path.exists(f"/proc/{p}") for p in door)
    for n, version in enumerate(("--http1.1", "--http2")):
        assert answered(curl(w, "idle", f"again-{n}", version, "-m", "60"))[0] == "200"
    again = set(w.b.pids("brome-outer")) - before
    assert len(again) == 1 and not again & door, (again, door)
    assert w.origin.everything().count(SECRETS["idle"].encode()) == 3 and w.held["idle"].encode() not in w.origin.everything()
    assert w.b.json("workspace", "ls") and not w.b.timeline(severity="error")


def test_nobody_answers(w):
    """Ten minutes: 503 and when to come again, which is not what a denial says; nothing went, and nothing is remembered as a no."""
    for p in w.waits:
        code, text = answered(p, HOLD_S + 60)
        assert code == "503" and "(consent-expired)" in text and re.search(r"(?im)^retry-after: [1-9][0-9]*\r$", text) and "consent-denied" not in text, text
    assert HOLD_S - 2 < time.monotonic() - w.asked < HOLD_S + 60, time.monotonic() - w.asked
    wait_for("the question's end", lambda: not of(w, "waiting"), 20)
    assert not w.b.json("approvals"), w.b.json("approvals")
    assert w.b("approvals", "allow", w.question).returncode != 0, "a yes that comes too late lets nothing go"
    rows = [r.get("detail") or r.get("text") or str(r) for r in w.b.timeline(engine="Consent")]
    assert any("expired: nobody answered" in r for r in rows) and not any("denied" in r for r in rows), rows
    reasons = [r["reason"] for r in w.b.trace(verdict="deny") for _ in range(r.get("count") or 1)]
    assert reasons.count("consent-expired") == 2 and "consent-denied" not in reasons, reasons
    assert b"/unanswered" not in w.origin.everything() and SECRETS["gate"].encode() not in w.origin.everything()
    # It is asked for again, and a no is told otherwise.
    p = curl(w, "gate", "unanswered--http2", "-m", "60")
    wait_for("a new question", lambda: of(w, "waiting"))
    assert of(w, "waiting")[0]["id"] != w.question
    w.b("approvals", "deny", of(w, "waiting")[0]["id"], check=0)
    code, text = answered(p)
    assert code == "403" and "(consent-denied)" in text and "retry-after" not in text.lower(), text
    assert of(w, "denial") and any("denied" in (r.get("detail") or str(r)) for r in w.b.timeline(engine="Consent"))
    p = curl(w, "gate", "unanswered--http2", "-m", "60")
    assert answered(p)[0] == "403" and b"/unanswered" not in w.origin.everything()
