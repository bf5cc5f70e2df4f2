"""Closed, never open (A5, A6): a policy that does not parse, a gate or daemon that died, a half-started workspace, a rule edit in flight; and what a new
rule forbids is cut."""
import os
import signal
import threading
import time

from ground import both, gone, quiet, tree, two
from world import Recorder, World, wait_for

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\n"


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    w.dns.set("tcp.example", "203.0.113.30", "2001:db8::30")
    w.tcp = [Recorder(a, 7000, answer=lambda c, d: c.sendall(b"echo\n") and False) for a in ("203.0.113.30", "2001:db8::30")]
    two(w, CONFIG)
    return w


@both
def test_a_policy_that_does_not_parse(w, b):
    good = b.config.read_text()
    mark = w.sniffer.mark()
    for text in ("workspace s { rules { allow web } }", "workspace s { rules { allow web allowed.example", "workspace s { rules { default allow ", "\0\0", 'include "/nonexistent"\n' + good, "workspace s { rules { ask udp x.example:53 } }"):
        b.config.write_text(text)
        b("daemon", "stop")
        p = b("run", "s", "--", "sh", "-c", "echo RAN; curl -sS http://203.0.113.66/")
        assert p.returncode and "RAN" not in p.stdout, (text, p.stdout, p.stderr)
    b.config.write_text(good)
    b("daemon", "stop")
    quiet(w, mark)
    b("run", "s", "--", "curl", "-sS", "https://allowed.example/", check=0)


@both
def test_the_gate_dies_under_traffic(w, b):
    for victim in ("brome-inner", "brome-outer", "bromed", "keeper", "brome-launch"):
        wait_for("a start", lambda: b("workspace", "start", "s").returncode == 0)
        pids = {n: p[0] for n, p in tree(b).items()}
        p = b.popen("exec", "-T", "s", "--", "sh", "-c", "echo up; while :; do curl -sS -m 5 http://203.0.113.66/ ; curl -sS -m 5 https://allowed.example/ >/dev/null; curl -sS -m 5 'http://[2001:db8::66]/'; done 2>/dev/null")
        p.stdout.readline()
        mark = w.sniffer.mark()
        os.kill(pids[victim], signal.SIGKILL)
        gone(pids["guest"], pids["brome-inner"], pids["brome-outer"])
        p.kill()
        quiet(w, mark)


@both
def test_a_rule_edit_in_flight(w, b):
    """While rules are swapped again and again, nothing that neither generation allows gets out; afterwards what is forbidden is cut, both families."""
    wait_for("a start", lambda: b("workspace", "start", "s").returncode == 0)
    open_, shut = "allow tcp tcp.example:7000\nallow web allowed.example\ndefault deny\n", "allow web allowed.example\ndefault deny\n"
    stop, mark = threading.Event(), w.sniffer.mark()

    def flip():
        while not stop.is_set():
            b.rules("s", open_)
            b.rules("s", shut)
    t = threading.Thread(target=flip)
    t.start()
    try:
        b.sh("s", "for i in $(seq 30); do curl -sS -m 9 http://203.0.113.66:7000/; curl -sS -m 9 http://evil.example/; curl -sS -m 9 'http://[2001:db8::66]/'; done 2>/dev/null")
    finally:
        stop.set()
        t.join()
    quiet(w, mark, "203.0.113.30", "2001:db8::30")
    assert not w.dns.asked("evil")
    for family in ("AF_INET", "AF_INET6"):
        b.rules("s", open_)
        p = b.popen("exec", "-T", "s", "--", "python3", "-c", f"import socket\ns = socket.socket(socket.{family})\ns.settimeout(30)\ns.connect(socket.getaddrinfo('tcp.example', 7000, socket.{family}, socket.SOCK_STREAM)[0][4])\n"
                    "s.sendall(b'x'); s.recv(9); print('open', flush=True)\ntry: print('end', s.recv(9))\nexcept ConnectionError as e: print('cut')")
        assert p.stdout.readline() == b"open\n", p.stderr.read()
        before = time.monotonic()
        b.rules("s", shut)
        out, _ = p.communicate(timeout=30)
        assert time.monotonic() - before < 10 and (b"cut" in out or b"end b''" in out), out
