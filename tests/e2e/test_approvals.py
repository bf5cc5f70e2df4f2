"""Ask before use (E1–E3): a request that waits while a person decides from another terminal, one question for fifty, denials and what is not one, and a grant that
ends cuts what it had opened. The secret is on the wire only after the yes."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import threading
import time

from accounts import KEYS, Account, Search, configuration, start
from attack import Origin
from world import Brome, Recorder, Skip, World, sh, wait_for

SECRETS = {n: f"Real{n.title()}Secret0123456789abcdef" for n in ("gate", "slow", "nobody", "other")}


def make_world():
    if KEYS == "guest":
        raise Skip("consent is asked for the gate's accounts")
    w = World()
    for name, address in (("gate.example", 20), ("nobody.example", 20), ("other.example", 20), ("docs.example", 20), ("free.example", 20), ("duplex.example", 20), ("slow.example", 21)):
        w.dns.set(name, f"203.0.113.{address}")
    w.origin = Origin("203.0.113.20", 443, tls=w.server_tls("gate.example", "nobody.example", "other.example", "docs.example", "free.example", "duplex.example"))
    w.stop = threading.Event()
    w.slow = Recorder("203.0.113.21", 443, w.server_tls("slow.example"), lambda c, d: stream(w, c, d))
    w.accounts = [Account(w, "gate", "bearer", SECRETS["gate"], "gate.example", "ask wait"), Account(w, "slow", "bearer", SECRETS["slow"], "slow.example", "ask wait"),
                  Account(w, "nobody", "bearer", SECRETS["nobody"], "nobody.example", "ask before use"), Account(w, "other", "bearer", SECRETS["other"], "other.example", "ask wait")]
    w.b = Brome(w, configuration(w.accounts, "s", "allow web { gate.example, nobody.example, other.example, slow.example }\nask web docs.example read-only\nallow web free.example\nallow web duplex.example stream ok"))
    start(w.b, w.accounts)
    w.held = {a.name: a.held(w.b) for a in w.accounts}
    return w


def stream(w, c, data):
    """Sends a line each 100 ms until it is cut."""
    if b"\r\n\r\n" not in data:
        return False
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    with contextlib.suppress(OSError):
        while not w.stop.wait(0.1):
            c.sendall(b"data: tick\n\n")
    return True


def curl(w, path, *options, host="gate", account=None):
    account = account or host
    bearer = ["-H", f"Authorization: Bearer {w.held[account]}"] if account in w.held else []
    return w.b.popen("exec", "-T", "s", "--", "curl", "-sSi", "-m", "90", *bearer, *options, f"https://{host}.example/{path}")


def listed(w, kind, host="gate"):
    return [x for x in w.b.json("approvals") if x["kind"] == kind and x["host"] == f"{host}.example"]


def waiting(w, host="gate", requests=1, fn=None):
    """The one question about that host, when so many requests wait."""
    wait_for(f"a question about {host}; there is {w.b('approvals').stdout}", lambda: sum(x["waiting"] for x in listed(w, "waiting", host)) >= requests, 20)
    found = listed(w, "waiting", host)
    assert len(found) == 1, found
    return found[0]


def forget(w, *hosts):
    for host in hosts or ("gate", "slow", "nobody", "other", "docs"):
        for x in listed(w, "waiting", host):
            w.b("approvals", "deny", x["id"], check=0)
        for kind in ("grant", "denial"):
            for x in listed(w, kind, host):
                w.b("approvals", "revoke", x["id"], check=0)
        assert not [x for kind in ("waiting", "grant", "denial") for x in listed(w, kind, host)]


def status(p, timeout=60):
    out, err = p.communicate(timeout=timeout)
    return re.sub(rb"^(HTTP/1.1 200 Connection established\r\n\r\n)?", b"", out).split(b"\r\n")[0].decode().split(" ")[1] if out else f"exit {p.returncode} {err.decode()}", out.decode(errors="replace")


def state(w):
    return next(x["state"] for x in w.b.json("workspace", "ls") if x["name"] == "s")


def origin_has(w, text):
    return text.encode() in w.origin.everything()


def test_once(w):
    """What is shown is what is sent: this request, and no other."""
    p = curl(w, "one?a=1", "--http1.1")
    a = waiting(w)
    assert a["what"] == "credential" and a["name"] == "gate" and a["port"] == 443 and [(r["method"], r["path"]) for r in a["requests"]] == [("GET", "/one?a=1")], a
    assert not origin_has(w, "/one?a=1") and not origin_has(w, SECRETS["gate"]) and p.poll() is None
    looks = Search(w.b, w.held["gate"], SECRETS["gate"])  # while it waits
    looks()
    shown = w.b("approvals", check=0).stdout
    assert "GET" in shown and "/one?a=1" in shown and "gate.example:443" in shown and SECRETS["gate"] not in shown, shown
    w.b("approvals", "allow", a["id"], "--for", "once", check=0)
    assert status(p)[0] == "200"
    looks.check()
    assert w.origin.everything().count(SECRETS["gate"].encode()) == 1
    # Another path, another query, another method: each is another request.
    for n, (path, options) in enumerate((("two", ()), ("one?a=2", ()), ("one?a=1", ("-X", "POST", "-d", "x")))):
        p = curl(w, path, *options)
        a = waiting(w)
        assert len(a["requests"]) == 1 and a["requests"][0]["path"] == "/" + path, a
        w.b("approvals", "allow", a["id"], check=0)  # once is what it says when nothing is said
        assert status(p)[0] == "200"
    # The same one again within five minutes is the retry that was meant: over another version of HTTP, in another spelling, and once.
    assert status(curl(w, "%6fne?a=1", "--http2"))[0] == "200"
    assert w.origin.everything().count(b"GET /one?a=1 ") == 2 and not origin_has(w, "%6fne")
    for options, host in ((("--http1.1",), "gate"), (("-X", "get"), "gate"), ((), "other")):
        p = curl(w, "one?a=1", *options, host=host)
        wait_for("a question, or a refusal", lambda: p.poll() is not None or listed(w, "waiting", host), 20)
        for x in listed(w, "waiting", host):
            w.b("approvals", "deny", x["id"], check=0)
        assert status(p)[0] in ("400", "403", "405", "501"), (options, host)
        forget(w, host)
    assert w.origin.everything().count(b" /one?a=1 ") == 3 and not origin_has(w, "get /one")  # the third: the POST above
    rows = w.b.timeline(engine="Consent", workspace="s")
    assert rows and SECRETS["gate"] not in json.dumps(rows), rows
    forget(w)


def post(w, path, body, *options, host="gate"):
    return curl(w, path, "-X", "POST", "--data-binary", body, *options, host=host)


def test_once_is_one_body(w):
    """Two with the same head: the yes lets go the one that was listed. The other body reaches the origin neither beside it nor as a retry."""
    for version in ("--http1.1", "--http2"):
        path = "pay" + version
        watcher = Watcher(w.b)
        first = post(w, path, "harmless-" + path, version)
        a = waiting(w)
        assert a["requests"] == [{"method": "POST", "path": "/" + path, "count": 1, "body": True}] and "(with a body)" in w.b("approvals").stdout, a
        second = post(w, path, "second-" + path, version)
        while watcher.until(op="notice", kind="approval")["approval"]["waiting"] != 2:
            pass
        said = w.b("approvals", "allow", a["id"], "--for", "once", check=0)
        assert "1 request was" in said.stderr + said.stdout, said
        assert status(first)[0] == "200"
        b = waiting(w)
        assert b["id"] != a["id"] and second.poll() is None and len(b["requests"]) == 1, b
        w.b("approvals", "deny", b["id"], check=0)
        assert status(second)[0] == "403"
        for x in listed(w, "denial"):
            w.b("approvals", "revoke", x["id"], check=0)
        third = post(w, path, "retried-" + path, version)  # within the five minutes of that yes
        assert waiting(w)["waiting"] == 1
        # It gives up: what it leaves is no yes for another.
        third.terminate()
        third.wait(20)
        w.b.sh("s", "pkill curl; true", check=0)
        wait_for("nobody waits", lambda: [x["waiting"] for x in listed(w, "waiting")] == [0], 20)
        said = w.b("approvals", "allow", listed(w, "waiting")[0]["id"], check=0)
        assert "nobody waits any more" in said.stderr + said.stdout and not listed(w, "waiting"), said
        fourth = post(w, path, "fourth-" + path, version)
        w.b("approvals", "deny", waiting(w)["id"], check=0)
        assert status(fourth)[0] == "403"
        assert origin_has(w, "harmless-" + path) and w.origin.everything().count(b"POST /" + path.encode()) == 1
        for body in ("second-", "retried-", "fourth-"):
            assert not origin_has(w, body + path), body
        watcher.close()
        forget(w)


def test_once_is_all_that_was_listed(w):
    """Both were shown, both go; a third that came meanwhile does not."""
    ps = [post(w, "both", f"listed-{i}") for i in range(2)]
    a = waiting(w, requests=2)
    assert len(a["requests"]) == 2 and w.b("approvals").stdout.count("/both") == 2, a
    watcher = Watcher(w.b)
    late = post(w, "both", "listed-late")
    while watcher.until(op="notice", kind="approval")["approval"]["waiting"] != 3:
        pass
    watcher.close()
    w.b("approvals", "allow", a["id"], check=0)
    assert [status(p)[0] for p in ps] == ["200", "200"]
    w.b("approvals", "deny", waiting(w)["id"], check=0)
    assert status(late)[0] == "403" and not origin_has(w, "listed-late") and origin_has(w, "listed-0") and origin_has(w, "listed-1")
    forget(w)


def test_not_what_is_shown(w):
    """A GET that asks to be read as a DELETE: nobody is asked, nothing goes."""
    code, text = status(curl(w, "disguised", "-H", "X-HTTP-Method-Override: DELETE"))
    assert code == "403" and "(override)" in text and not listed(w, "waiting") and not origin_has(w, "/disguised"), text


STALL = r"""
import concurrent.futures, json, socket, ssl, time
def request(host, path, length, *pieces):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    s.settimeout(60)
    began = time.monotonic()
    s.sendall(f"POST /{path} HTTP/1.1\r\nHost: {host}\r\n{length}\r\n\r\n".encode())
    for wait, piece in pieces:
        time.sleep(wait)
        s.sendall(piece)
    return s.recv(65536).decode("latin-1"), time.monotonic() - began
pool = concurrent.futures.ThreadPoolExecutor(3)
print(json.dumps([f.result() for f in [
    pool.submit(request, "free.example", "stalls", "Transfer-Encoding: chunked", (0, b"7\r\nstalled\r\n")),
    pool.submit(request, "free.example", "slow", "Content-Length: 8", (0, b"slow"), (11, b"body")),
    pool.submit(request, "duplex.example", "streams", "Transfer-Encoding: chunked", (0, b"8\r\nstreamed\r\n"), (11, b"0\r\n\r\n"))]]))
"""


def test_body_that_stalls(w):
    """Ten seconds without a byte of a body of unknown length: refused with the way out, and none of it left. One of known length may take its time."""
    h2 = w.b.popen("exec", "-T", "s", "--", "sh", "-c", "(printf stalled; sleep 12) | curl -sSi -m 60 --http2 -T - https://free.example/stalls-2")
    p = w.b("exec", "-T", "s", "--", "python3", "-c", STALL, timeout=120, check=0)
    (stalled, took), (slow, _), (streams, _) = json.loads(p.stdout)
    for text in (stalled, status(h2)[1]):
        assert " 403" in text.splitlines()[0] and "(body-stalled)" in text and "`stream ok`" in text, text
    assert took > 9, took
    assert " 200 " in slow.splitlines()[0] and " 200 " in streams.splitlines()[0], (slow, streams)
    assert origin_has(w, "slowbody") and origin_has(w, "streamed") and not origin_has(w, "stalled") and not origin_has(w, "/stalls")
    assert sum(r.get("count") or 1 for r in w.b.trace(reason="body-stalled")) >= 2, w.b.trace(reason="body-stalled")


def test_for_a_time(w):
    for term in ("5m", "1h", "session"):
        p = curl(w, "first", "--http2")
        a = waiting(w)
        w.b("approvals", "allow", a["id"], "--for", term, check=0)
        assert status(p)[0] == "200"
        for path in ("second", "third"):
            assert status(curl(w, path, "-X", "POST", "-d", "x"))[0] == "200"
        grant = listed(w, "grant")
        assert len(grant) == 1 and (grant[0].get("session") is True) == (term == "session"), grant
        if term != "session":
            left = (grant[0]["until_us"] / 1e6 - time.time()) / {"5m": 300, "1h": 3600}[term]
            assert 0.8 < left <= 1.01, grant
        # It is good for this account and host, not for another.
        q = curl(w, "elsewhere", host="other")
        b = waiting(w, "other")
        w.b("approvals", "deny", b["id"], check=0)
        assert status(q)[0] == "403"
        forget(w)
    p = curl(w, "again")
    w.b("approvals", "deny", waiting(w)["id"], check=0)
    assert status(p)[0] == "403"
    forget(w)


def test_deny(w):
    p = curl(w, "denied-1")
    w.b("approvals", "deny", waiting(w)["id"], check=0)
    code, text = status(p)
    assert code == "403" and "(consent-denied)" in text, text
    code, text = status(curl(w, "denied-2"))  # remembered: nobody is asked again
    assert code == "403" and "(consent-denied)" in text and listed(w, "denial"), text
    assert not origin_has(w, "denied-")
    forget(w)
    p = curl(w, "after-denial")
    w.b("approvals", "allow", waiting(w)["id"], check=0)
    assert status(p)[0] == "200"
    forget(w)


def test_giving_up_is_no_denial(w):
    for version in ("--http1.1", "--http2"):
        p = curl(w, "impatient" + version, version, "-m", "2")
        waiting(w)
        p.communicate(timeout=30)
        assert p.returncode == 28
        # The question stays: a yes is good for who comes again.
        wait_for("nobody waits", lambda: [x["waiting"] for x in listed(w, "waiting")] == [0], 20)
        assert not listed(w, "denial"), listed(w, "denial")
        assert not origin_has(w, "/impatient" + version), [x for x in w.origin.everything().split(b"\r\n") if b"impatient" in x]
        w.b("approvals", "allow", listed(w, "waiting")[0]["id"], check=0)
        assert status(curl(w, "impatient" + version))[0] == "200"
    p = curl(w, "patient")
    w.b("approvals", "allow", waiting(w)["id"], check=0)
    assert status(p)[0] == "200"
    forget(w)


def test_giving_up_while_it_is_answered(w):
    """The yes and the client's end cross each other: the request goes or does not go, and no other body goes in its place."""
    went = 0
    for n in range(6):
        p = post(w, "cross", f"first-{n};", "--http2" if n % 2 else "--http1.1")
        a = waiting(w)
        end = w.b.popen("exec", "-T", "s", "--", "sh", "-c", f"sleep 0.0{n}; pkill curl")
        w.b("approvals", "allow", a["id"], check=0)
        went += status(p)[0] == "200"
        end.communicate(timeout=30)
        q = post(w, "cross", f"other-{n};", "--http1.1" if n % 2 else "--http2")
        w.b("approvals", "deny", waiting(w)["id"], check=0)
        assert status(q)[0] == "403" and not origin_has(w, f"other-{n};")
        assert w.origin.everything().count(f"first-{n};".encode()) <= 1
        forget(w)
    assert went <= w.origin.everything().count(b"first-") <= 6 and state(w) == "running"


FIFTY = r"""
import concurrent.futures, subprocess, sys
def one(i):
    return subprocess.run(["curl", "-sS", "-m", "90", "--http1.1" if i % 2 else "--http2", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer " + sys.argv[1], f"https://gate.example/fifty-{i % 5}"], capture_output=True, text=True).stdout
with concurrent.futures.ThreadPoolExecutor(50) as pool:
    print(sorted(pool.map(one, range(50))))
"""


def test_one_question_for_fifty(w):
    p = w.b.popen("exec", "-T", "s", "--", "python3", "-c", FIFTY, w.held["gate"])
    a = waiting(w, requests=50)
    assert a["waiting"] == 50 and sorted((r["path"], r["count"]) for r in a["requests"]) == [(f"/fifty-{i}", 10) for i in range(5)], a
    assert not origin_has(w, "/fifty-")
    said = w.b("approvals", "allow", a["id"], "--for", "5m", check=0)
    out, err = p.communicate(timeout=60)
    assert out.decode().count("200") == 50, (out, err, said)
    grant = listed(w, "grant")
    assert len(grant) == 1, grant
    forget(w)


def test_revoking_cuts_a_stream(w):
    w.stop.clear()
    ps = [curl(w, "events", "-N", v, host="slow") for v in ("--http1.1", "--http2")]
    a = waiting(w, "slow", 2)
    w.b("approvals", "allow", a["id"], "--for", "session", check=0)
    for p in ps:
        while p.stdout.readline() != b"data: tick\n":
            assert p.poll() is None
    w.b("approvals", "revoke", listed(w, "grant", "slow")[0]["id"], check=0)
    for p in ps:
        p.communicate(timeout=30)
        assert p.returncode not in (0, 28), "the stream ended as if whole"
    q = curl(w, "events", host="slow")
    w.b("approvals", "deny", waiting(w, "slow")["id"], check=0)
    assert status(q)[0] == "403"
    w.stop.set()
    forget(w)


def test_revoking_cuts_what_once_let_go(w):
    w.stop.clear()
    p = curl(w, "once-events", "-N", host="slow")
    w.b("approvals", "allow", waiting(w, "slow")["id"], check=0)
    while p.stdout.readline() != b"data: tick\n":
        assert p.poll() is None
    w.b("approvals", "revoke", listed(w, "grant", "slow")[0]["id"], check=0)
    p.communicate(timeout=30)
    assert p.returncode not in (0, 28), "the stream ended as if whole"
    q = curl(w, "once-events", host="slow")  # its retry is gone with it
    w.b("approvals", "deny", waiting(w, "slow")["id"], check=0)
    assert status(q)[0] == "403"
    w.stop.set()
    forget(w)


def test_credential_taken_out(w):
    """A grant for the session ends with the credential: put back, it is asked for again, and what the grant had opened is cut."""
    text = w.b.config.read_text()
    w.stop.clear()
    p = curl(w, "out", "-N", host="slow")
    w.b("approvals", "allow", waiting(w, "slow")["id"], "--for", "session", check=0)
    while p.stdout.readline() != b"data: tick\n":
        assert p.poll() is None
    w.b.config.write_text(text.replace("credential { gate, slow, ", "credential { gate, "))
    w.b("reload", check=0)
    p.communicate(timeout=30)
    assert p.returncode not in (0, 28), "the stream ended as if whole"
    assert not listed(w, "grant", "slow")
    w.b.config.write_text(text)
    w.b("reload", check=0)
    q = curl(w, "back-again", host="slow")
    b = waiting(w, "slow")
    w.b("approvals", "deny", b["id"], check=0)
    assert status(q)[0] == "403" and b"/back-again" not in w.slow.everything()
    w.stop.set()
    forget(w)


def test_nobody_to_ask(w):
    began = time.monotonic()
    code, text = status(curl(w, "nobody", host="nobody"))
    assert code == "503" and "(consent-nobody)" in text and "retry-after" in text.lower() and time.monotonic() - began < 20, text
    assert not origin_has(w, "/nobody ") and not listed(w, "waiting", "nobody") and not listed(w, "denial", "nobody")


class Watcher:
    """Somebody to ask: a client of the control socket that watches, as a terminal or the console does."""

    def __init__(self, b):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30)
        self.sock.connect(os.path.join(b.env["BROME_RUNTIME"], "bromed.sock"))
        self.tell(op="hello", version=1, build="test")
        assert self.hear()["op"] == "hello"
        self.tell(op="watch", id=1)

    def tell(self, **message):
        self.sock.send(json.dumps(message).encode())

    def hear(self):
        return json.loads(self.sock.recv(65536))

    def until(self, **want):
        while True:
            m = self.hear()
            if all(m.get(k) == v for k, v in want.items()):
                return m

    def close(self):
        self.sock.close()


def test_somebody_watches(w):
    """The question reaches who watches; the answer may come from elsewhere; it survives that the watcher goes; and its end is told."""
    first, second = Watcher(w.b), Watcher(w.b)
    p = curl(w, "watched", host="nobody")
    told = first.until(op="notice", kind="approval")["approval"]
    assert told["host"] == "nobody.example" and told["requests"][0]["path"] == "/watched" and SECRETS["nobody"] not in json.dumps(told), told
    first.close()
    assert waiting(w, "nobody")["id"] == told["id"] and p.poll() is None
    w.b("approvals", "allow", told["id"], check=0)
    assert second.until(op="notice", kind="approval-end")["answer"] == "once"
    assert status(p)[0] == "200"
    second.close()
    forget(w)


def test_ask_rule(w):
    """The same for a rule, without an account: its limits hold first, then the person is asked."""
    code, text = status(curl(w, "x", "-X", "POST", "-d", "x", host="docs"))
    assert code == "403" and "consent" not in text, text
    assert status(curl(w, "unasked", host="docs"))[1].count("(consent-nobody)") == 1
    watcher = Watcher(w.b)
    p = curl(w, "asked", host="docs")
    a = waiting(w, "docs")
    assert a["what"] == "rule" and "docs.example" in a["name"] and not origin_has(w, "/asked"), a
    w.b("approvals", "allow", a["id"], "--for", "5m", check=0)
    assert status(p)[0] == "200" and status(curl(w, "asked-again", host="docs"))[0] == "200"
    forget(w, "docs")
    p = curl(w, "asked-denied", host="docs")
    w.b("approvals", "deny", waiting(w, "docs")["id"], check=0)
    assert status(p)[0] == "403" and not origin_has(w, "/asked-denied")
    watcher.close()
    forget(w)


def test_what_the_guest_writes_forges_nothing(w):
    """E2: control characters, other scripts and long texts in a path are shown as escapes; the list has one line for them."""
    p = curl(w, "x%E2%80%AE%C2%9B%20%20GET%20/harmless?q=%1b%5b2J%0a%0d" + "y" * 3000)
    a = waiting(w)
    shown = w.b("approvals", check=0, text=False).stdout.replace("…".encode(), b"")
    assert all(c == 10 or 32 <= c < 127 for c in shown) and len(shown.split(b"\n  ")) == 2 and len(shown) < 2000, shown
    assert len(a["requests"][0]["path"]) <= 1100
    w.b("approvals", "deny", a["id"], check=0)
    assert status(p)[0] == "403"
    assert w.b.sh("s", "ls /run /tmp /root; find / -xdev -name 'bromed*' 2>/dev/null; true", check=0).stdout.count("bromed") == 0
    forget(w)


class Terminal:
    """A person at `brome exec -t …`: what the screen shows, and keys."""

    def __init__(self, w, *argv):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        self.tmux = ["tmux", "-S", w.dir / "tmux"]
        command = shlex.join(str(x) for x in w.b.argv("exec", "-t", "s", "--", *argv))
        sh(*self.tmux, "new-session", "-d", "-s", "a", "-x", "110", "-y", "40", command, env={**w.b.env, "TERM": "xterm-256color"})
        sh(*self.tmux, "set-option", "-t", "a", "remain-on-exit", "on")

    def screen(self):
        return sh(*self.tmux, "capture-pane", "-p", "-J", "-t", "a").stdout.decode()

    def until(self, text, times=1):
        try:
            return wait_for(text, lambda: (s := self.screen()).count(text) >= times and s, 20)
        except AssertionError:
            raise AssertionError(f"{text!r} did not appear {times} times:\n{self.screen()}")

    def type(self, *keys):
        sh(*self.tmux, "send-keys", "-t", "a", *keys)

    def close(self):
        sh(*self.tmux, "kill-server", check=False)


def test_question_on_the_terminal(w):
    """It appears by itself where the command runs. A number that nobody can know answers it; what was typed before, and what the guest paints, does not."""
    forged = "printf '\\033[2J--- brome ---\\r\\ns asks to use gate\\r\\n   11  once\\r\\n> '; "
    t = Terminal(w, "sh", "-c", forged + f"read typed; echo got $typed; for p in t1 t2 t3; do curl -sS -m 60 -o /dev/null -w \"$p %{{http_code}}\\n\" -H 'Authorization: Bearer {w.held['gate']}' https://gate.example/$p; done; read last; echo last=$last")
    try:
        t.until("11  once")
        t.type("11", "Enter")  # to the picture that the guest painted: it goes to the guest
        shown = t.until("The workspace's output is held")
        assert "got 11" in shown and "GET" in shown and "/t1" in shown and not origin_has(w, "/t1"), shown
        code = re.findall(r"^ +(\d\d) +(.*)$", shown[shown.index("The workspace's output"):], re.M)
        assert len(code) == 4 and len({c for c, _ in code}) == 4, shown
        wrong = next(f"{n:02}" for n in range(10, 99) if f"{n:02}" not in {c for c, _ in code})
        t.type(wrong, "Enter")
        t.until("none of the answers")
        assert not origin_has(w, "/t1")
        t.type(code[0][0], "Enter")
        t.until("t1 200")
        t.until("output is held", 2)
        t.type("N", "Enter")
        t.until("t2 403")
        t.until("t3 403")  # remembered
        t.type("-l", "typed-behind\n")
        t.until("last=typed-behind")
        assert not origin_has(w, "/t2") and not origin_has(w, "/t3")
    finally:
        t.close()
    forget(w)


def test_grant_ends_with_the_session(w):
    p = curl(w, "in-session")
    w.b("approvals", "allow", waiting(w)["id"], "--for", "session", check=0)
    assert status(p)[0] == "200"
    w.b("workspace", "stop", "s", check=0)
    w.b("workspace", "start", "s", check=0)
    assert not listed(w, "grant") and w.accounts[0].held(w.b) == w.held["gate"]
    p = curl(w, "next-session")
    waiting(w)
    w.b("workspace", "stop", "s", check=0)  # who waits when it ends is not denied
    p.communicate(timeout=30)
    assert not listed(w, "waiting") and not listed(w, "denial") and not origin_has(w, "/next-session")


def test_bromed_ends_while_it_asks(w):
    """Killed with a question open: nobody's yes is made up. The client fails, nothing went, and the next session asks anew."""
    w.b("workspace", "start", "s", check=0)
    p = curl(w, "orphaned")
    a = waiting(w)
    os.kill(int(w.b.json("daemon", "status")[0]["pid"]), signal.SIGKILL)
    out, _ = p.communicate(timeout=60)
    assert p.returncode != 0 and not out, out
    start(w.b, w.accounts)
    assert not w.b.json("approvals") and w.accounts[0].held(w.b) == w.held["gate"] and not origin_has(w, "/orphaned")
    p = curl(w, "orphaned")
    b = waiting(w)
    assert b["id"] != a["id"], "a number that was read before names another question now"  # drawn of 9,000
    assert w.b("approvals", "allow", a["id"]).returncode != 0 and p.poll() is None
    w.b("approvals", "deny", b["id"], check=0)
    assert status(p)[0] == "403" and not origin_has(w, "/orphaned")
    w.b("workspace", "stop", "s", check=0)
