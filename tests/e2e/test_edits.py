"""A person edits brome.conf and goes on, without a reload; and what a trip leaves behind where nobody sits at a terminal."""
import json
import os
import pty
import select
import time

from accounts import Account, alerts, configuration, state
from world import Brome, Recorder, World, wait_for

RULES = "allow web { api.example, allowed.example, other.example }"


def make_world():
    w = World()
    w.nginx(("allowed.example", "second.example"))
    w.dns.set("api.example", "203.0.113.11")
    w.dns.set("other.example", "203.0.113.20")
    w.other = Recorder("203.0.113.20", 443, w.server_tls("other.example"))
    w.account = Account(w, "api", "bearer", "RealApiSecret0123456789abcdefgh", "api.example")
    w.good = configuration([w.account], "s", RULES)
    w.b = Brome(w, w.good)
    return w


def get(b, host, *how):
    return b(*how, "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"https://{host}/").stdout


def test_an_edit_counts_at_once(w):
    b = w.b
    assert get(b, "second.example", "run", "s") in ("000", "403")
    b.config.write_text(w.good.replace("other.example }", "other.example, second.example }"))
    assert get(b, "second.example", "run", "s") == "200"
    b.config.write_text(w.good + "workspace t { rules { allow web second.example; default deny } }\n")
    assert " t " in b("workspace", "ls").stdout.replace("\n", " ") and get(b, "second.example", "run", "t") == "200"
    # One that runs already.
    b("workspace", "start", "s", check=0)
    assert get(b, "second.example", "exec", "-T", "s") in ("000", "403")
    b.config.write_text(w.good.replace("other.example }", "second.example }"))
    assert "second.example" in b("rules", "show", "s", check=0).stdout
    wait_for("the new rules", lambda: get(b, "second.example", "exec", "-T", "s") == "200")
    b("workspace", "stop", "s", check=0)
    b.config.write_text(w.good)


def test_a_broken_edit_is_said_once(w):
    b = w.b
    b("workspace", "ls"), b("daemon", "status")
    b.config.write_text(w.good.replace("rules {", "ruels {") + "workspace later { }\n")
    line = next(i for i, x in enumerate(b.config.read_text().splitlines(), 1) if "ruels" in x)
    for how in (("run", "s", "--", "true"), ("workspace", "describe", "s"), ("rules", "show", "s"), ("credential", "ls"), ("accounts", "s"), ("workspace", "ls"),
                ("run", "--allow", "web allowed.example", "--", "true")):
        p = b(*how, check=0)
        said = [x for x in p.stderr.splitlines() if f"{b.config}:{line}:1: " in x]
        assert len(said) == 1 and said[0].startswith("brome: ") and "; the configuration read at 20" in said[0] and said[0].endswith(" is in force"), (how, p.stderr)
    p = b("run", "later", "--", "true")
    assert p.returncode == 125 and "no workspace later" in p.stderr and "is in force" in p.stderr, p
    p = b("reload")
    assert p.returncode == 65 and "is in force" not in p.stderr and f":{line}:1: " in p.stderr, p
    b.config.write_text(w.good)
    assert "is in force" not in b("run", "s", "--", "true", check=0).stderr


def edited(b, script, name, answers="y\n"):
    """workspace edit with a shell script in the editor's place; $1 is the file."""
    tool = b.dir / "editor"
    tool.write_text("#!/bin/sh\nset -e\n" + script + "\n")
    tool.chmod(0o755)
    return b("workspace", "edit", name, env={"EDITOR": str(tool), "VISUAL": "", "TMPDIR": str(b.dir)}, input=answers)


def test_workspace_edit(w):
    b = w.b
    p = edited(b, "sed -i 's/other.example }/second.example }/' $1", "s")
    assert p.returncode == 0 and "+" in p.stdout and "second.example" in b.config.read_text(), p
    assert get(b, "second.example", "run", "s") == "200"
    # What does not parse, and what is no workspace s any more, changes nothing.
    before = b.config.read_text()
    for script in ("sed -i 's/rules {/ruels {/' $1", "echo > $1", "sed -i 's/workspace s/workspace other/' $1"):
        p = edited(b, script, "s", "q\n")
        assert p.returncode == 65 and b.config.read_text() == before and "your edit is kept in" in p.stderr, p
    p = edited(b, "sed -i 's/second.example }/other.example }/' $1", "s", "n\n")
    assert p.returncode == 1 and b.config.read_text() == before, p
    p = edited(b, f"echo >> {b.config}; sed -i 's/second.example }}/other.example }}/' $1", "s")
    assert p.returncode == 65 and "changed meanwhile" in p.stderr and b.config.read_text() == before + "\n", p
    assert "nothing changed" in edited(b, "true", "s", "").stderr and "there is no workspace nix" in edited(b, "true", "nix").stderr
    # One that `workspace new` saved.
    b("workspace", "new", "made", "--allow", "web allowed.example", check=0)
    p = edited(b, "sed -i 's/allowed.example/second.example/' $1", "made")
    assert p.returncode == 0 and get(b, "second.example", "run", "made") == "200" and get(b, "allowed.example", "run", "made") in ("000", "403"), p
    b("workspace", "rm", "made", check=0)
    b.config.write_text(w.good)


def test_trace_show_and_clear(w):
    b = w.b
    get(b, "allowed.example", "run", "s")
    row = next(r for r in b.trace(host="allowed.example") if r.get("method") == "GET")
    parts = [json.loads(x) for x in b("trace", "show", str(row["seq"]), "--json").stdout.splitlines()]
    assert {"verdict", "end"} <= {r["type"] for r in parts} and {r["id"] for r in parts} == {row["id"]}, parts
    assert f"{row['seq']}  verdict" in b("trace", "show", str(row["seq"])).stdout
    for bad, code in (("999999999", 1), ("x", 64), ("-1", 64), ("0", 64)):
        assert b("trace", "show", bad).returncode == code, bad
    assert b("trace", "clear", "s").returncode == 1 and [r for r in b.trace(host="allowed.example") if r["workspace"] == "s"]
    b("trace", "clear", "s", "--yes", check=0)
    assert not [r for r in b.trace(host="allowed.example") if r["workspace"] == "s"] and b("trace", "verify").returncode == 0
    assert b("trace", "clear", "nix", "--yes").returncode == 1


def test_nobody_there(w):
    """Without a terminal the command ends after the note, with a status of its own; what waits for a decision says how."""
    b = w.b
    name = w.account.variable
    script = f'echo before; curl -sS -m 60 -H "x-note: ${{{name}}}" https://other.example/; echo after; sleep 100'
    before = time.monotonic()
    p = b("run", "s", "--", "sh", "-c", script, timeout=60)
    assert p.returncode == 123 and p.stdout.startswith("before\n") and "after" not in p.stdout and "TRIPWIRE: s was sending" in p.stderr and "^C" not in p.stderr, p
    assert time.monotonic() - before < 45 and state(b) == "compromised" and w.other.everything() == b""
    assert [a["decision"] for a in alerts(b)] == ["open"]
    ls = b("workspace", "ls", check=0).stdout.splitlines()
    row = next(i for i, x in enumerate(ls) if x.startswith("s "))
    assert "compromised" in ls[row] and "brome alerts s" in ls[row + 1] and "brome workspace wipe s" in ls[row + 1], ls
    assert b("run", "s", "--", "true").returncode == 125
    lines = [x for x in b("timeline", "--engine", "Tripwire", check=0).stdout.splitlines() if "other.example" in x]
    assert len(lines) == 1 and "issued for api.example" in lines[0], lines
    assert len([r for r in b.timeline(engine="Tripwire") if r.get("host") == "other.example"]) == 2
    b("workspace", "wipe", "--yes", "s", check=0)
    assert state(b) == "stopped" and "brome alerts" not in b("workspace", "ls", check=0).stdout
    # A throw-away one is gone, with its alert kept.
    p = b("run", "--allow", "web other.example", "--credential", "api", "--", "sh", "-c", script, timeout=60)
    assert p.returncode == 123 and "TRIPWIRE: run-" in p.stderr, p
    wait_for("its end", lambda: "run-" not in b("workspace", "ls", check=0).stdout)
    assert any(a["workspace"].startswith("run-") for a in b.json("alerts", "--all")), b.json("alerts", "--all")


def test_somebody_there(w):
    """On a terminal it stands still until a person decides; ^C leaves, also where the output goes elsewhere."""
    b = w.b
    b("workspace", "wipe", "--yes", "s")
    name = w.account.variable
    top, below = pty.openpty()
    p = b.popen("run", "s", "--", "sh", "-c", f'curl -sS -m 60 -H "x-note: ${{{name}}}" https://other.example/; sleep 100', stderr=below, stdin=below, start_new_session=True)
    os.close(below)
    wait_for("compromised", lambda: state(b) == "compromised")
    said = b""
    while b"^C leaves" not in said:
        assert select.select([top], [], [], 20)[0], said
        said += os.read(top, 4096)
    assert p.poll() is None
    p.send_signal(2)
    assert p.wait(30) == 130
    os.close(top)
    assert state(b) == "compromised"
    b("workspace", "wipe", "--yes", "s", check=0)
