"""Raw clients that run inside a workspace: bytes over TCP and TLS, and HTTP/2 by hand-made frames. Nothing here is polite.

This text is sent to `python3 -` in the guest (see attack.py), so it imports the standard library only. Every wait ends: what a client
got is told together with how it ended (`eof`, `reset`, `refused`, `alert`, `timeout`)."""
import concurrent.futures
import functools
import json
import select
import socket
import ssl
import struct
import time

PATIENCE = 20  # seconds; a prompt refusal takes milliseconds


def connect(host, port, timeout=PATIENCE):
    s = socket.create_connection((host, port), timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


@functools.lru_cache(maxsize=None)
def context(named, alpn, verify):
    c = ssl.create_default_context()  # reads the whole bundle of roots: once a kind
    c.check_hostname = bool(named and verify)
    if not verify:
        c.verify_mode = ssl.CERT_NONE
    if alpn:
        c.set_alpn_protocols(list(alpn))
    return c


def tls(s, sni, alpn=None, verify=True):
    return context(sni is not None, tuple(alpn or ()), verify).wrap_socket(s, server_hostname=sni)


def ending(e):
    if isinstance(e, (TimeoutError, socket.timeout)):
        return "timeout"
    if isinstance(e, ConnectionRefusedError):
        return "refused"
    if isinstance(e, ssl.SSLError) and (e.reason or "").startswith(("TLSV1_", "SSLV3_", "TLSV13_")):
        return "alert"
    if isinstance(e, ssl.SSLEOFError):
        return "eof"
    if isinstance(e, (ConnectionError, ssl.SSLError)):
        return "reset"
    return repr(e)


def read_all(s, timeout=PATIENCE, until=None):
    data, end = b"", time.monotonic() + timeout
    try:
        while True:
            s.settimeout(max(0.01, end - time.monotonic()))
            d = s.recv(65536)
            if not d:
                return data, "eof"
            data += d
            if until and until in data:
                return data, "more"
    except OSError as e:
        return data, ending(e)


def talk(host, port, pieces, sni="", use_tls=False, alpn=None, pause=0.0, timeout=PATIENCE, fin=False, until=None, verify=True):
    """Sends the pieces, reads until the end. sni "": the host's own; None: no SNI."""
    began = time.monotonic()
    out = {"data": "", "end": "", "t": 0}
    try:
        s = connect(host, port, timeout)
        if use_tls:
            s = tls(s, host if sni == "" else sni, alpn, verify)
        try:
            for i, p in enumerate(pieces):
                if i and pause:
                    time.sleep(pause)
                s.sendall(p)
            if fin:
                s.shutdown(socket.SHUT_WR)
        except OSError as e:
            out["end"] = ending(e)
        data, end = read_all(s, timeout, until)
        out["data"], out["end"] = data.decode("latin-1"), end
        s.close()
    except OSError as e:
        out["end"] = ending(e)
    out["t"] = time.monotonic() - began
    return out


def status_of(text):
    """Status codes of the HTTP/1 answers in a text, in order."""
    import re
    return [int(x) for x in re.findall(r"(?:^|\n|\r\n)?HTTP/1\.[01] (\d\d\d) ", text)]


# --- HTTP/2 by hand (RFC 9113), headers as literals without indexing and without Huffman coding (RFC 7541 §6.2.2)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(n, bits, first=0):
    top = (1 << bits) - 1
    if n < top:
        return bytes([first | n])
    out, n = [first | top], n - top
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + [n])


def hpack(fields):
    b = lambda x: x if isinstance(x, bytes) else x.encode("latin-1")  # noqa: E731
    return b"".join(b"\0" + integer(len(b(n)), 7) + b(n) + integer(len(b(v)), 7) + b(v) for n, v in fields)


def status_in(block):
    """The status of a response head; enough HPACK for that, the peer's table being empty."""
    at = 0
    while at < len(block) and block[at] & 0xe0 == 0x20:  # table size update
        n = block[at] & 31
        at += 1
        if n == 31:
            while block[at] & 128:
                at += 1
            at += 1
    first = block[at]
    if first & 128:
        return {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}.get(first & 127)
    name = first & (63 if first & 0x40 else 15)
    at += 1
    if name == 15 and not first & 0x40:
        name += block[at]
        at += 1
    if name not in range(8, 15):
        return None
    n, text = block[at] & 127, block[at + 1:at + 1 + (block[at] & 127)]
    if not block[at] & 128:
        return int(text[:n])
    bits, out = "".join(f"{x:08b}" for x in text), ""
    while len(out) < 3:
        if bits[:5] in ("00000", "00001", "00010"):
            out, bits = out + str(int(bits[:5], 2)), bits[5:]
        else:
            out, bits = out + str(int(bits[:6], 2) - 0b011001 + 3), bits[6:]
    return int(out)


class H2:
    """One connection. Answers are collected per stream: status, body, how it ended."""

    def __init__(self, host, port=443, sni="", plain=False, settings=(), window=1 << 20, sndbuf=0):
        s = connect(host, port)
        self.s = s if plain else tls(s, host if sni == "" else sni, ["h2"])
        assert plain or self.s.selected_alpn_protocol() == "h2", "no h2"
        self.streams, self.end, self.goaway, self.next, self.pings, self.buf, self.host = {}, "", None, 1, 0, b"", host
        entries = [(1, 0), (4, window), *settings]  # HEADER_TABLE_SIZE 0: status_in needs no table
        self.send(PREFACE + frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *e) for e in entries)) + frame(WINDOW, 0, 0, struct.pack(">I", 1 << 24)))

    def send(self, data):
        try:
            self.s.settimeout(PATIENCE)
            self.s.sendall(data)
            return True
        except OSError as e:
            self.end = self.end or ending(e)
            return False

    def head(self, fields, flags=END_STREAM | END_HEADERS, stream=None):
        if stream is None:
            stream, self.next = self.next, self.next + 2
        self.send(frame(HEADERS, flags, stream, hpack(fields)))
        return stream

    def get(self, path="/", method="GET", host=None, scheme="https", extra=(), flags=END_STREAM | END_HEADERS):
        return self.head([(":method", method), (":scheme", scheme), (":authority", host or self.host), (":path", path), *extra], flags)

    def state(self, stream):
        return self.streams.setdefault(stream, {"status": None, "body": b"", "end": "", "heads": 0})

    def one(self, kind, flags, stream, p):
        if kind == HEADERS:
            st = self.state(stream)
            st["heads"] += 1
            code = status_in(p)
            if code is not None:
                st["status"] = code
        elif kind == DATA:
            self.state(stream)["body"] += p
        elif kind == RST:
            self.state(stream)["end"] = "rst:%d" % struct.unpack(">I", p)[0]
        elif kind == GOAWAY:
            self.goaway = struct.unpack(">I", p[4:8])[0]
        elif kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and flags & ACK:
            self.pings += 1
        if kind in (HEADERS, DATA) and flags & END_STREAM and not self.state(stream)["end"]:
            self.state(stream)["end"] = "end"

    def pump(self, done, timeout=PATIENCE):
        """Reads frames until done() or the connection's end."""
        stop = time.monotonic() + timeout
        while not done() and not self.end:
            while len(self.buf) >= 9 and len(self.buf) >= 9 + int.from_bytes(self.buf[:3], "big"):
                n = int.from_bytes(self.buf[:3], "big")
                kind, flags, stream = self.buf[3], self.buf[4], struct.unpack(">I", self.buf[5:9])[0] & 0x7fffffff
                p, self.buf = self.buf[9:9 + n], self.buf[9 + n:]
                self.one(kind, flags, stream, p)
            if done():
                return
            try:
                self.s.settimeout(max(0.01, stop - time.monotonic()))
                d = self.s.recv(65536)
                if not d:
                    self.end = "eof"
                self.buf += d
            except OSError as e:
                self.end = ending(e)
                return

    def wait(self, *streams, timeout=PATIENCE):
        self.pump(lambda: all(self.streams.get(s, {}).get("end") for s in streams), timeout)
        rows = [self.result(s) for s in streams]
        return rows if len(rows) != 1 else rows[0]

    def result(self, stream):
        st = self.state(stream)
        return {"status": st["status"], "data": st["body"].decode("latin-1"), "end": st["end"] or ("goaway:%s" % self.goaway if self.goaway is not None else self.end) or "none"}

    def close(self):
        self.s.close()


def each(fn, jobs, width=8):
    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        return list(pool.map(fn, jobs))


def tell(value):
    print(json.dumps(value))
