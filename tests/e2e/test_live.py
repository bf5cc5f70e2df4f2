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
