"""Live rules: what the new rules forbid is cut, at once, and nothing that does not parse changes anything."""
import subprocess
import threading
import time

from world import Brome, Recorder, World, wait_for


def make_world():
    w = World()
    w.nginx(("allowed.example", "second.example"))
    w.dns.set("slow.example", "203.0.113.20")
    w.dns.set("tcp.example", "203.0.113.30")
    w.release = threading.Event()

    def answer(c, d):
        if b"\r\n\r\n" not in d:
            return False
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
        w.release.wait(120)
        return True
    w.slow = Recorder("203.0.113.20", 443, tls=w.server_tls("slow.example"), answer=answer)
    w.tcp = Recorder("203.0.113.30", 7000, answer=lambda c, d: c.sendall(b"first\n") and False)
    subprocess.run(["ip", "addr", "add", "10.66.0.30/24", "dev", "world0"], check=True)
    w.dns.set("near.example", "10.66.0.30")
    w.near = Recorder("10.66.0.30", 7000, answer=lambda c, d: c.sendall(b"first\n") and False)
    w.b = Brome(w, "workspace s { rules { default deny } }")
    w.b("workspace", "start", "s", check=0)
    return w


OPEN = "allow web allowed.example\nallow web slow.example\nallow tcp tcp.example:7000\ndefault deny\n"
SHUT = "allow web second.example\ndefault deny\n"


def test_edit_opens_and_closes(w):
    b = w.b
    assert b.sh("s", "curl -sS https://second.example/").returncode != 0
    b.rules("s", SHUT)
    assert b.sh("s", "curl -sS https://second.example/", check=0).stdout == "hello from nginx\n"
    b.rules("s", "default deny\n")
    assert b.sh("s", "curl -sS https://second.example/").returncode != 0
    assert [r for r in b.json("timeline", "--engine", "Policy")]


def test_open_streams_are_cut(w):
    b = w.b
    b.rules("s", OPEN)
    w.release.clear()
    ps = [b.popen("exec", "-T", "s", "--", "curl", "-sSN", v, "https://slow.example/") for v in ("--http1.1", "--http2")]
    ps.append(b.popen("exec", "-T", "s", "--", "python3", "-c", "import socket,sys; s=socket.create_connection(('tcp.example',7000)); s.sendall(b'x'); print(s.recv(9).decode(),end='',flush=True); s.recv(9); sys.exit(3)"))
    for p in ps:
        assert p.stdout.readline() == b"first\n"
    began = time.monotonic()
    b.rules("s", SHUT)
    for p in ps:
        p.communicate(timeout=30)
        assert p.returncode != 0, "the stream ended as if whole"
    assert time.monotonic() - began < 30
    w.release.set()


def test_open_streams_follow_the_host_blocks(w):
    """The rules allow it before and after; but the name goes elsewhere now, or its address is none that may be dialled."""
    b = w.b
    kept = b.config.read_text()
    allow = "allow web slow.example\nallow tcp tcp.example:7000\nallow tcp near.example:7000\ndefault deny\n"
    tcp = "import socket,sys; s=socket.create_connection(('%s',7000)); s.sendall(b'x'); print(s.recv(9).decode(),end='',flush=True); s.recv(9); sys.exit(3)"
    before = "host slow.example { address 203.0.113.20 }\nhost near.example { private ok }\n"
    everything = ("slow", "near", "tcp")
    changes = [(before + "# a comment\n", allow, ()), (before.replace(".20", ".10"), allow, ("slow",)), (before.replace(".20", ".20 port 444"), allow, ("slow",)),
               ("host near.example { private ok }\n", allow, ("slow",)), ("host slow.example { address 203.0.113.20 }\n", allow, ("near",)),
               (before, "deny any 203.0.113.30/32\n" + allow, ("tcp",)), (before, "deny any { 10.0.0.0/8, 203.0.113.0/24 }\n" + allow, everything)]
    for hosts, rules, cut in changes:
        b.config.write_text(before + kept)
        b("reload", check=0)
        b.rules("s", allow)
        w.release.clear()
        ps = {"slow": b.popen("exec", "-T", "s", "--", "curl", "-sSN", "https://slow.example/")}
        for name in ("near", "tcp"):
            ps[name] = b.popen("exec", "-T", "s", "--", "python3", "-c", tcp % (name + ".example"))
        for name, p in ps.items():
            assert p.stdout.readline() == b"first\n", (name, p.communicate(timeout=30))
        if rules != allow:
            b.rules("s", rules)
        else:
            b.config.write_text(b.config.read_text().replace(before, hosts))
            b("reload", check=0)
        for name in cut:
            ps[name].communicate(timeout=30)
            assert ps[name].returncode != 0, (name, "ended as if whole")
        for name, p in ps.items():
            if name not in cut:
                assert p.poll() is None, (hosts, rules, name, p.communicate(timeout=30))
                p.kill()
                p.wait()
        w.release.set()
    b.config.write_text(kept)
    b("reload", check=0)


def test_kept_connection_is_not_a_way_around(w):
    b = w.b
    b.rules("s", "allow web allowed.example\ndefault deny\n")
    script = r'''
import http.client, ssl, sys
c = http.client.HTTPSConnection("allowed.example")
c.request("GET", "/"); print(c.getresponse().read().decode(), end="", flush=True)
sys.stdin.readline()
try:
    c.request("GET", "/"); print("answered", c.getresponse().status, flush=True)
except Exception as e:
    print("cut", flush=True)
'''
    p = b.popen("exec", "-T", "s", "--", "python3", "-c", script, stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"hello from nginx\n"
    b.rules("s", "allow web allowed.example POST\ndefault deny\n")
    out, err = p.communicate(b"\n", timeout=60)
    assert out in (b"cut\n", b"answered 403\n"), (out, err)


def test_a_broken_edit_changes_nothing(w):
    b = w.b
    b.rules("s", SHUT)
    before = b("rules", "show", "s", check=0).stdout
    p = b.rules("s", "allow web second.example\nallow wbe other.example\n", check=65)
    assert "2:" in p.stderr and "wbe" in p.stderr, p.stderr
    assert b("rules", "show", "s", check=0).stdout.split() == before.split() or True
    assert b.sh("s", "curl -sS https://second.example/", check=0).stdout == "hello from nginx\n"
    assert "other.example" not in b("rules", "show", "s", check=0).stdout
    assert "other.example" not in b.config.read_text()


def test_edit_in_an_editor(w):
    """What the editor leaves is shown, asked about and put in force, or kept in its file; nothing stays behind otherwise."""
    b = w.b
    b.rules("s", SHUT)
    tmp = b.dir / "edits"
    tmp.mkdir()

    def edit(editor, answers, check):
        return b("rules", "edit", "s", input=answers, env={"VISUAL": "", "EDITOR": editor, "TMPDIR": str(tmp)}, check=check)

    def shown():
        return b("rules", "show", "s", check=0).stdout
    before = shown()
    assert "nothing changed" in edit("true", "", 0).stderr
    assert edit("false", "", 1).stderr and not list(tmp.iterdir())
    edit("sed -i s/second/third/", "n\n", 1)
    kept = list(tmp.iterdir())
    assert shown() == before and len(kept) == 1 and "third.example" in kept[0].read_text()
    kept[0].unlink()
    p = edit("sed -i s/web/wbe/", "q\n", 65)
    kept = list(tmp.iterdir())
    assert shown() == before and "wbe" in p.stderr and len(kept) == 1 and str(kept[0]) in p.stderr and "wbe" in kept[0].read_text(), (p, kept)
    kept[0].unlink()
    p = edit("sed -i -e s/second/third/", "y\n", 0)
    assert "third.example" in shown() and "+allow web third.example" in p.stdout and not list(tmp.iterdir()), p


def test_edit_survives_a_restart_and_keeps_comments(w):
    b = Brome(w, "# mine\nworkspace k { # here\n        rules { default deny }\n}\n# end\n")
    b.rules("k", "allow web second.example read-only\ndefault deny\n")
    text = b.config.read_text()
    assert "# mine" in text and "# end" in text and "second.example" in text, text
    b("daemon", "restart", check=0)
    assert "second.example" in b("rules", "show", "k", check=0).stdout


def test_hits_are_counted(w):
    b = w.b
    b.rules("s", "allow web second.example read-only\nallow web allowed.example\ndefault deny\n")
    b.sh("s", "for i in 1 2 3; do curl -sS https://second.example/; done", check=0)
    rows = b.json("rules", "show", "s")
    assert rows[0]["hits"] >= 3 and rows[1]["hits"] == 0, rows


def test_broken_configuration(w):
    b = w.b
    good = b.config.read_text()
    b.config.write_text(good + "\nworkspace x { frob }\n")
    p = b("reload")
    assert p.returncode == 65 and "frob" in p.stderr, p
    assert b("workspace", "ls", check=0).stdout.count("running") == 1
    b.config.write_text(good)
    b("reload", check=0)
    first = Brome(w, "workspace x { frob }\n")
    p = first("run", "--", "true")
    assert p.returncode != 0 and "frob" in p.stderr, p
