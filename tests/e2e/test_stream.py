"""Bodies and streams through the gate: large ones with flat memory, SSE, WebSocket, trailers, 1xx, Expect, long polls."""
import hashlib
import os
import socket
import threading
import time

from world import Brome, Recorder, World, sh, wait_for


def make_world():
    w = World()
    w.nginx(("allowed.example",), extra="location /put/ { dav_methods PUT; }" if "with-http_dav" in sh("nginx", "-V").stderr.decode() else "")
    w.b = Brome(w, """
        workspace s {
                rules { allow web allowed.example; allow web raw.example; allow tcp tcp.example:7000; default deny }
        }""")
    w.raw = None
    w.b("workspace", "start", "s", check=0)
    return w


def memory_kb(pid):
    total = 0
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith(("Private_Dirty:", "Private_Clean:")):
            total += int(line.split()[1])
    return total


def raw(w, answer):
    """A TLS origin at raw.example whose answer the test chooses."""
    if w.raw is None:
        w.dns.set("raw.example", "203.0.113.20")
        w.raw = Recorder("203.0.113.20", 443, tls=w.server_tls("raw.example"))
    w.raw.answer = answer
    return w.raw


def test_large_bodies_flat_memory(w):
    size = int(os.environ.get("BROME_TEST_BODY_MB", "200")) << 20
    path = w.dir / "www/big"
    h = hashlib.sha256()
    with open(path, "wb") as f:
        block = os.urandom(1 << 20)
        for i in range(size >> 20):
            piece = i.to_bytes(8, "little") + block[8:]
            f.write(piece)
            h.update(piece)
    path.chmod(0o644)
    peak = {}

    def watch():
        while not done.is_set():
            for name in ("brome-inner", "brome-outer"):
                for pid in w.b.pids(name):
                    try:
                        peak[name] = max(peak.get(name, 0), memory_kb(pid))
                    except OSError:
                        pass
            done.wait(0.3)
    done = threading.Event()
    t = threading.Thread(target=watch)
    t.start()
    try:
        for version in ("--http1.1", "--http2"):
            out = w.b.sh("s", f"curl -sS --fail {version} https://allowed.example/big | sha256sum", check=0, timeout=600).stdout
            assert out.split()[0] == h.hexdigest(), (version, out)
        got = hashlib.sha256()
        count = [0]

        def answer(c, so_far):
            head, _, rest = so_far.partition(b"\r\n\r\n")
            if b"xpect" in head:
                c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            left = size - len(rest)
            got.update(rest)
            while left > 0:
                d = c.recv(min(left, 1 << 20))
                if not d:
                    break
                got.update(d)
                left -= len(d)
            count[0] += 1
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            return True
        raw(w, lambda c, d: answer(c, d) if b"\r\n\r\n" in d else False)
        for version in ("--http1.1", "--http2"):
            got = hashlib.sha256()
            out = w.b.sh("s", f"cat /usr/share/dict/words >/dev/null 2>&1; curl -sS --fail {version} https://allowed.example/big -o /tmp/big && curl -sS --fail {version} -T /tmp/big https://raw.example/up && rm /tmp/big",
                         check=0, timeout=600).stdout
            assert out.endswith("ok") and got.hexdigest() == h.hexdigest(), (version, out)
    finally:
        done.set()
        t.join()
        path.unlink()
    assert sum(peak.values()) <= 64 * 1024, f"both doors held {peak} kB"


def test_sse_arrives_as_it_is_sent(w):
    gate = threading.Event()

    def answer(c, d):
        if b"\r\n\r\n" not in d:
            return False
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        gate.wait(60)
        c.sendall(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
        return True
    raw(w, answer)
    for version in ("--http1.1", "--http2"):
        gate.clear()
        p = w.b.popen("exec", "-T", "s", "--", "curl", "-sSN", version, "https://raw.example/events")
        assert p.stdout.readline() == b"data: 1\n", version  # before the origin has sent the rest
        gate.set()
        out, err = p.communicate(timeout=60)
        assert b"data: 2" in out, (out, err)


def test_trailers_and_informational(w):
    raw(w, b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
           b"2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n")
    out = w.b.sh("s", "curl -sSi --http2 https://raw.example/t; curl -sSi --raw --http1.1 https://raw.example/t", check=0).stdout
    assert out.count("103") == 2 and out.lower().count("x-sum: 7") == 2, out


def test_redirect_is_handed_over_never_followed(w):
    mark = w.sniffer.mark()
    out = w.b.sh("s", "curl -sSi https://allowed.example/redirect", check=0).stdout
    assert "302" in out and "https://evil.example/elsewhere" in out
    assert not w.dns.asked("evil.example")
    assert not w.sniffer.since(mark, dst="203.0.113.66")


def test_truncated_answer_is_not_made_whole(w):
    for body in (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"):
        raw(w, body)
        for version in ("--http1.1", "--http2"):
            p = w.b.sh("s", f"curl -sS --fail {version} https://raw.example/cut; echo exit $?")
            assert "exit 0" not in p.stdout, (version, p.stdout)


def test_websocket_both_ways(w):
    import base64
    import hashlib as hl

    def answer(c, d):
        if b"\r\n\r\n" not in d:
            return False
        key = [l.split(b":", 1)[1].strip() for l in d.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key")][0]
        accept = base64.b64encode(hl.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:  # echo the frames, unmasked
            head = c.recv(2)
            if len(head) < 2:
                return True
            n = head[1] & 127
            if n == 126:
                n = int.from_bytes(c.recv(2), "big")
            mask = c.recv(4)
            data = b""
            while len(data) < n:
                data += c.recv(n - len(data))
            data = bytes(x ^ mask[i % 4] for i, x in enumerate(data))
            length = bytes([n]) if n < 126 else bytes([126]) + n.to_bytes(2, "big")
            c.sendall(bytes([head[0]]) + length + data)
            if head[0] & 15 == 8:
                return True
    raw(w, answer)
    script = r'''
import socket, ssl, os, base64
c = ssl.create_default_context().wrap_socket(socket.create_connection(("raw.example", 443)), server_hostname="raw.example")
c.sendall(b"GET /ws HTTP/1.1\r\nHost: raw.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(os.urandom(16)) + b"\r\n\r\n")
head = b""
while b"\r\n\r\n" not in head: head += c.recv(1)
assert head.startswith(b"HTTP/1.1 101"), head
def frame(op, data):
    m = os.urandom(4); n = len(data)
    return bytes([0x80 | op]) + (bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + n.to_bytes(2, "big")) + m + bytes(x ^ m[i % 4] for i, x in enumerate(data))
def exactly(n):
    d = b""
    while len(d) < n: d += c.recv(n - len(d))
    return d
for data in (b"hello", b"x" * 5000):
    c.sendall(frame(1, data))
    h = exactly(2); n = h[1]
    if n == 126: n = int.from_bytes(exactly(2), "big")
    assert exactly(n) == data
c.sendall(frame(8, b"\x03\xe8"))
print("echoed")
'''
    assert "echoed" in w.b("exec", "-T", "s", "--", "python3", "-c", script, check=0).stdout


def test_tcp_splice_half_close(w):
    w.dns.set("tcp.example", "203.0.113.30")

    def answer(c, d):
        return False
    r = Recorder("203.0.113.30", 7000, answer=lambda c, d: c.sendall(b"got " + d) and False)
    out = w.b.sh("s", "python3 -c \"import socket; s=socket.create_connection(('tcp.example',7000)); s.sendall(b'ping'); print(s.recv(100)); s.shutdown(1); print(s.recv(100))\"", check=0).stdout
    assert out == "b'got ping'\nb''\n", out
    assert r.everything() == b"ping"


def test_tcp_that_nobody_answers_is_refused(w):
    w.dns.set("tcp.example", "203.0.113.31")
    began = time.monotonic()
    p = w.b.sh("s", "curl -sS telnet://tcp.example:7001; echo $?")
    assert time.monotonic() - began < 30
    assert p.stdout.strip() != "0"
