"""D2, D3, D4, D8: an account is used at its host, over https, in its field, once, by nobody else's key; and an origin that echoes the secret, in whatever form and
however it is cut, gives the guest its placeholder again. The control (BROME_TEST_KEYS=guest) is the same echo with the secret in the guest."""
import base64
import contextlib
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import urllib.parse
import zlib

import search
from accounts import KEYS, Account, Search, alerts, configuration, deflated, start, state, tool
from attack import Origin, check, guest
from services import Front, basic
from world import Brome, Recorder, Skip, World, wait_for

SECRET = "Real+Echo/Secret?0123456789~xyz"  # each encoding has something to encode
PAIR, SILENT = "RealPair:Secret/0123456789", "RealSilentSecret?0123456789"
LOOSE, KEY, ATTACHED = "RealLooseSecret0123456789abcd", "RealHeaderKey0123456789abcdef", "RealAttachedSecret0123456789ab"


def make_world():
    w = World()
    for name, address in (("echo.example", 20), ("loose.example", 21), ("key.example", 21), ("attached.example", 21), ("open.example", 21), ("anon.example", 21),
                          ("evilecho.example", 30), ("echo.example.evil.example", 30), ("sub.echo.example", 30), ("xn--cho-9la.example", 30)):
        w.dns.set(name, f"203.0.113.{address}")
    w.go, w.went = threading.Event(), threading.Event()
    w.echo = Recorder("203.0.113.20", 443, w.server_tls("echo.example"), lambda c, d: echo(w, c, d))
    w.echo_plain, w.echo_port = Origin("203.0.113.20", 80), Origin("203.0.113.20", 8443, tls=w.server_tls("echo.example"))
    w.origin = Origin("203.0.113.21", 443, tls=w.server_tls("loose.example", "key.example", "attached.example", "open.example", "anon.example"))
    w.alike = Origin("203.0.113.30", 443, tls=w.server_tls("evilecho.example", "echo.example.evil.example", "sub.echo.example", "xn--cho-9la.example", "203.0.113.30"))
    w.front = Front(w)
    w.front.site("h2.example", 'location / { add_header X-Echo $http_authorization always; return 200 "you are $http_authorization\\n"; }')
    for name in ("basic.example", "attach.example"):
        w.front.site(name, 'location / { add_header X-Echo $http_authorization always; return 200 "you are $http_authorization\\n"; } location /wrong { return 401 "no $http_authorization\\n"; }')
    w.front.start()
    w.accounts = [Account(w, "pair", "basic", PAIR, "basic.example", user="deploy"), Account(w, "silent", "basic", SILENT, "attach.example", "attach", user="robot"),Account(w, "echo", "bearer", SECRET, "echo.example", "field websocket"), Account(w, "loose", "bearer", LOOSE, "loose.example", "foreign ok"),
                  Account(w, "key", "header", KEY, "key.example", 'header "X-Search-Key"'), Account(w, "attached", "bearer", ATTACHED, "attached.example", "attach"),
                  Account(w, "two", "bearer", "RealH2Secret0123456789abcdefgh", "h2.example")]
    rules = """allow web echo.example:80,443,8443
        allow web { basic.example, attach.example, loose.example, key.example, attached.example, h2.example, open.example, evilecho.example, echo.example.evil.example, sub.echo.example, xn--cho-9la.example }
        allow web 203.0.113.30
        allow web anon.example anonymous"""
    w.b = Brome(w, configuration(w.accounts, "s", rules))
    start(w.b, w.accounts)
    w.held = {a.name: a.held(w.b) for a in w.accounts if not a.attach}
    return w


# ---- D4 ----------------------------------------------------------------------------------------------------------------------------------------

def chunked(body, n=1):
    return b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + n]), body[i:i + n]) for i in range(0, len(body), n)) + b"0\r\n"


def answer(body, *fields, status="200 OK"):
    return f"HTTP/1.1 {status}\r\n".encode() + "".join(f + "\r\n" for f in fields).encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def by_chunks(body, *fields, n=1, trailers=b""):
    return b"HTTP/1.1 200 OK\r\n" + "".join(f + "\r\n" for f in fields).encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, n) + trailers + b"\r\n"


def percent(text, upper=True):
    return "".join(f"%{ord(c):02X}" if upper else f"%{ord(c):02x}" for c in text)


PACKED = {"gzip": gzip.compress, "deflate": zlib.compress, "br": tool("brotli", "-c"), "zstd": tool("zstd", "-c", "-q"), "x-gzip": gzip.compress}
UNPACK = {"gzip": lambda d: zlib.decompress(d, 47), "x-gzip": lambda d: zlib.decompress(d, 47), "deflate": zlib.decompress, "br": tool("brotli", "-dc"), "zstd": tool("zstd", "-dc", "-q")}


def answers(s):
    """path -> what the origin sends, for the secret that came. Built anew for each request: the origin knows it only from there."""
    raw, text = s.encode(), f"your token is {s}, and again: {s}.\n".encode()
    plain = {
        "header": answer(b"-", f"X-Echo: {s}", f"X-Two: a={s}; b"), "cookie": answer(b"-", f"Set-Cookie: t={s}; Path=/"), "body": answer(text), "chunk-after-each-byte": by_chunks(text),
        "chunks-of-5": by_chunks(text, n=5), "until-it-closes": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text, "error-page": answer(b"<p>bad token " + raw + b"</p>", status="500 Internal Server Error"),
        "unauthorized": answer(raw, f'WWW-Authenticate: Bearer realm="x", error_description="{s}"', status="401 Unauthorized"),
        "location": answer(b"", f"Location: https://echo.example/next?t={urllib.parse.quote(s, safe='')}", status="302 Found"), "reason-phrase": answer(b"-", status=f"200 {s}"),
        "json": answer(json.dumps({"token": s}).encode(), "Content-Type: application/json"), "json-u": answer(b'{"t":"' + "".join(f"\\u{ord(c):04x}" for c in s).encode() + b'"}', "Content-Type: application/json"),
        "json-slash": answer(b'{"t":"' + s.replace("/", "\\/").encode() + b'"}', "Content-Type: application/json"), "percent": answer(percent(s).encode()), "percent-lower": answer(percent(s, False).encode()),
        "percent-quoted": answer(urllib.parse.quote(s, safe="").encode()), "trailer": by_chunks(b"-", "Trailer: x-echo", trailers=f"x-echo: {s}\r\n".encode()),
        "early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: <" + raw + b">\r\n\r\n" + answer(b"-"), "header-name-case": answer(b"-", f"x-ECHO: Bearer {s}"),
        "two-gzip-members": answer(gzip.compress(raw[:9]) + gzip.compress(raw[9:]), "Content-Encoding: gzip"), "range": answer(text),
        "long": answer(b"x" * 300_000 + raw + b"y" * 300_000), "at-the-end": answer(b"x" * 70_000 + raw), "nearly": answer(raw[:-1] + b"! " + raw[:5] + raw),
    }
    for name, pack in PACKED.items():
        packed = pack(text)
        if packed is not None:
            plain[name], plain[name + "-in-chunks"] = answer(packed, f"Content-Encoding: {name}"), by_chunks(packed, f"Content-Encoding: {name}", n=3)
    for i in range(3):
        plain[f"base64-{i}"] = answer(base64.b64encode(b"#" * i + raw + b"!!"))
        plain[f"base64url-{i}"] = answer(base64.urlsafe_b64encode(b"#" * i + raw + b"!!").rstrip(b"="))
    plain["basic"] = answer(b"-", "X-Echo: Basic " + base64.b64encode(b"user:" + raw).decode())
    return plain


def echo(w, c, data):
    """The origin. Everything that it says of the secret it has from the request."""
    end = data.rfind(b"\r\n\r\n")
    if b"\r\n\r\n" not in data or b"upgrade: websocket" in data.lower():
        return websocket(c, data) if b"\r\n\r\n" in data else False
    head = data[data.rfind(b"\r\n\r\n", 0, end) + 4 if data.count(b"\r\n\r\n") > 1 else 0:end].decode("latin-1")
    path = re.match(r"\S+ /([^ ?/]*)", head)[1]
    got = re.search(r"(?i)authorization: *bearer (\S+)", head)
    secret = got[1] if got else "nobody-at-all"
    if path == "events":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for cut in (secret, secret[:7], None):
            c.sendall(f"data: {cut or secret[7:]}\n\n".encode() if cut != secret[:7] else f"data: {cut}".encode())
            if cut == secret:
                w.went.set()
                w.go.wait(60)
        return goodbye(c)
    if path == "unknown-coding":
        c.sendall(answer(secret.encode(), "Content-Encoding: compress"))
        return True
    if path == "not-gzip":
        c.sendall(answer(secret.encode(), "Content-Encoding: gzip"))
        return True
    c.sendall(answers(secret).get(path) or answer(b"-", "X-Head: " + base64.b64encode(head.encode("latin-1")).decode()))
    return path == "until-it-closes" and goodbye(c)


def goodbye(c):
    with contextlib.suppress(OSError):
        c.unwrap()  # TLS says that it ends
    return True


def websocket(c, data):
    at = data.index(b"\r\n\r\n") + 4
    if at == len(data):
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", data)[1]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        secret = re.search(rb"(?i)authorization: *bearer (\S+)", data)[1]
        packed = b"permessage-deflate" in data
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n"
                  + (b"Sec-WebSocket-Extensions: permessage-deflate\r\n" if packed else b"") + b"\r\n")

        def frame(op, fin, payload, rsv1=0):
            return bytes([fin << 7 | rsv1 << 6 | op, len(payload)]) + payload
        out = frame(1, 1, b"text " + secret) + frame(2, 1, b"\0binary " + secret) + frame(1, 0, b"cut " + secret[:6]) + frame(0, 1, secret[6:])
        out += frame(1, 1, deflated("packed " + secret.decode()), 1) if packed else b""
        for i in range(0, len(out), 7):
            c.sendall(out[i:i + 7])
        c.sendall(b"\x88\x00")
    return False


def fetch(w, path, *options, host="echo.example", held=None):
    """What the guest gets, head and body, as bytes; the second value decoded."""
    p = w.b("exec", "-T", "s", "--", "curl", "-sSi", "-m", "30", *options, "-H", f"Authorization: Bearer {held or w.held['echo']}", f"https://{host}/{path}", text=False)
    raw = p.stdout
    head, _, body = raw.rpartition(b"\r\n\r\n") if b"\r\n\r\n" not in raw[:-4] else (raw[:raw.rindex(b"\r\n\r\n", 0, len(raw))], b"", raw[raw.rindex(b"\r\n\r\n") + 4:])
    coding = re.search(rb"(?i)content-encoding: *(\S+)", head)
    unpack = UNPACK.get(coding[1].decode()) if coding else None
    try:
        body = unpack(body) if unpack else body
    except (zlib.error, subprocess.CalledProcessError):
        pass
    return p, raw, head + b"\r\n\r\n" + body


def plainly(data):
    """All the ways in which a text says the same, undone."""
    text = data.decode("latin-1").replace("\\/", "/")
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text)
    return text + "\n" + urllib.parse.unquote(text)


def unmasked(data, secret):
    return [f for f in search.forms(secret) if f in data or f in data.translate(bytes.maketrans(b"-_", b"+/"))] or secret in plainly(data)


def test_echoes(w):
    problems = []
    for path in answers("x" * 20):
        for version in ("--http1.1", "--http2"):
            p, raw, data = fetch(w, path, version)
            said = (path, version, p.returncode, p.stderr, data[:400])
            if KEYS == "guest":
                if not unmasked(data, SECRET) and path not in ("reason-phrase", "trailer", "two-gzip-members"):
                    problems.append(("control: the echo is seen", *said))
                continue
            if p.returncode or unmasked(raw, SECRET) or unmasked(data, SECRET):
                problems.append(("the secret is there", *said))
            if not path.startswith("base64") and path not in ("reason-phrase", "basic", "trailer", "cookie-2") and w.held["echo"] not in plainly(data):
                problems.append(("the placeholder is not there", *said))
    assert SECRET.encode() in w.echo.everything(), "the origin got the secret"
    check(problems)


def test_echo_over_h2(w):
    """The same where the origin speaks HTTP/2 (nginx)."""
    for version in ("--http1.1", "--http2"):
        p, raw, data = fetch(w, "x", version, host="h2.example", held=w.held["two"])
        assert p.returncode == 0 and data.count(w.held["two"].encode()) == 2 and (KEYS == "guest" or b"RealH2" not in data), data
    assert {r["authorization"] for r in w.front.some(host="h2.example")} == {"Bearer RealH2Secret0123456789abcdefgh"}


def test_echo_of_basic_and_of_what_is_attached(w):
    """The pair comes back as the pair that the guest knows; what was attached comes back as nothing that is of use."""
    need_brome()
    sent = basic("deploy", w.held["pair"])
    for path in ("x", "wrong"):
        for version in ("--http1.1", "--http2"):
            p = w.b("exec", "-T", "s", "--", "curl", "-sSi", "-m", "20", version, "-u", f"deploy:{w.held['pair']}", f"https://basic.example/{path}", text=False)
            assert p.returncode == 0 and not unmasked(p.stdout, PAIR) and basic("deploy", PAIR).encode() not in p.stdout, p.stdout
            back = re.search(rb"(?:are|no) Basic (\S+)", p.stdout)
            assert back and base64.b64decode(back[1] + b"=="), (p.stdout, sent)  # masked at the same length: it still decodes
            p = w.b("exec", "-T", "s", "--", "curl", "-sSi", "-m", "20", version, "-u", "some:body", f"https://attach.example/{path}", text=False)
            assert p.returncode == 0 and b"Basic " in p.stdout and not unmasked(p.stdout, SILENT) and basic("robot", SILENT).encode() not in p.stdout, p.stdout
    assert {r["authorization"] for r in w.front.some(host="basic.example")} == {basic("deploy", PAIR)}
    assert {r["authorization"] for r in w.front.some(host="attach.example")} == {basic("robot", SILENT)}
    looks = Search(w.b, w.held["pair"], PAIR, SILENT)
    looks()
    looks.check()


def test_door_that_dies(w):
    """A killed door of an account takes its exchange with it; the next use has a new one."""
    need_brome()
    assert fetch(w, "body")[0].returncode == 0
    w.go.clear()
    w.went.clear()
    p = w.b.popen("exec", "-T", "s", "--", "curl", "-sSN", "-m", "60", "-H", f"Authorization: Bearer {w.held['echo']}", "https://echo.example/events")
    assert p.stdout.readline().startswith(b"data:")
    holders = [pid for pid in w.b.pids("brome-outer") if search.in_memory(pid, SECRET)]
    assert len(holders) == 1, holders  # the control of every search that finds nothing: the one process that has it
    os.kill(holders[0], signal.SIGKILL)
    p.communicate(timeout=30)
    assert p.returncode != 0, "the stream ended as if whole"
    w.go.set()

    def again():
        return b" 200" in fetch(w, "body")[1].split(b"\r\n")[0]
    wait_for("a new door", again, 20)
    assert state(w.b) == "running" and holders[0] not in w.b.pids("brome-outer")


def test_events_and_memory(w):
    """A stream is re-masked as it goes, not at its end; while it stands, neither the guest nor the inner door has the secret."""
    w.go.clear()
    w.went.clear()
    p = w.b.popen("exec", "-T", "s", "--", "curl", "-sSN", "-m", "60", "-H", f"Authorization: Bearer {w.held['echo']}", "https://echo.example/events")
    assert p.stdout.readline() == f"data: {w.held['echo']}\n".encode()
    looks = Search(w.b, w.held["echo"], SECRET)
    looks()
    w.go.set()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and (KEYS == "guest" or not unmasked(out, SECRET)), (out, err)
    looks.check()


def test_websocket_echo(w):
    script = r'''
s = tls(connect("echo.example", 443), "echo.example", ["http/1.1"])
s.sendall(b"GET /ws HTTP/1.1\r\nHost: echo.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer " + HELD.encode() + b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
data, end = read_all(s, until=b"\x88\x00")
tell([data.decode("latin-1"), end])
'''
    data, end = guest(w.b, script, HELD=w.held["echo"])
    got, texts, at = data.encode("latin-1"), [], data.index("\r\n\r\n") + 4
    while at + 2 <= len(got):
        n, rsv1 = got[at + 1], got[at] & 0x40
        at += 2
        if n == 126:
            n, at = int.from_bytes(got[at:at + 2], "big"), at + 2
        texts.append(zlib.decompressobj(-15).decompress(got[at:at + n] + b"\0\0\xff\xff") if rsv1 else got[at:at + n])
        at += n
    whole = b"".join(texts)
    assert whole.count(w.held["echo"].encode()) >= 3, (texts, end)
    if KEYS == "brome":
        assert not unmasked(whole, SECRET) and not unmasked(got, SECRET), texts


def test_what_cannot_be_read_is_refused(w):
    if KEYS == "guest":
        raise Skip("this is the gate's")
    for path in ("unknown-coding", "not-gzip"):
        p, raw, _ = fetch(w, path)
        assert not unmasked(raw, SECRET) and (path == "not-gzip" or b" 502" in raw.split(b"\r\n")[0] and b"answer-undecodable" in raw), raw
    # What is asked of the origin: only codings that can be read; no part of a body, in which a secret may be cut in two requests.
    p, raw, _ = fetch(w, "other", "-H", "Accept-Encoding: br, zstd, compress, snappy", "-H", "Range: bytes=0-5", "-H", "If-Range: x")
    head = base64.b64decode(re.search(rb"(?i)x-head: *(\S+)", raw)[1]).decode().lower()
    assert "snappy" not in head and "compress" not in head.replace("accept-encoding", "") and "range:" not in head, head


# ---- D2, D3, D8 ----------------------------------------------------------------------------------------------------------------------------------

def refused(w, requests, origins, workspace="s"):
    """Each is refused with its reason, over both versions; nothing arrives, nothing freezes."""
    problems = []
    for reason, options in requests:
        for version in ("--http1.1", "--http2"):
            before = [len(o.everything()) for o in origins]
            p = w.b("exec", "-T", workspace, "--", "curl", "-sS", "-m", "20", "-k", version, "-w", " %{http_code}", *[str(x) for x in options])
            if f"({reason})" not in p.stdout or not p.stdout.endswith(" 403") or [len(o.everything()) for o in origins] != before:
                problems.append((reason, options, version, p.stdout[-200:], p.stderr, b"".join(o.everything()[n:] for o, n in zip(origins, before))[:200]))
    if state(w.b, workspace) != "running":
        problems.append(("the workspace is", state(w.b, workspace)))
    check(problems)


def need_brome():
    if KEYS == "guest":
        raise Skip("this is about placeholders")


def test_right_host_wrong_way(w):
    need_brome()
    p, url = w.held["echo"], "https://echo.example/d2"
    bearer = ("-H", f"Authorization: Bearer {p}")
    refused(w, [("account-cleartext", ["http://echo.example/d2", *bearer]), ("account-cleartext", ["https://echo.example:8443/d2", *bearer]),
                ("wrong-field", [url, "-H", f"X-Note: {p}"]), ("wrong-field", [f"{url}/{p}"]), ("wrong-field", [f"{url}?a={p}"]), ("wrong-field", [url, "-H", f"Cookie: a={p}"]),
                ("wrong-field", [url, "-H", "Authorization: Basic " + base64.b64encode(f"u:{p}".encode()).decode()]), ("wrong-field", [url, "-H", f"Authorization: Bearer x{p}"]),
                ("placeholder-twice", [url, *bearer, "-H", f"X-Note: {p}"]), ("placeholder-twice", [f"{url}?x={p}", *bearer])], [w.echo, w.echo_plain, w.echo_port])
    refused(w, [("wrong-field", [url, "-d", f"a={p}"]), ("wrong-field", [url, *bearer, "-H", "Content-Type: application/json", "-d", json.dumps({"a": p})])], [w.echo])


def test_spellings_of_the_right_host(w):
    """A final dot, capitals, the port written out: the same host."""
    for url in ("https://echo.example./body", "https://ECHO.Example/body", "https://echo.example:443/body"):
        p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-H", f"Authorization: Bearer {w.held['echo']}", url)
        assert p.stdout.count(w.held["echo"]) == 2, (url, p.stdout, p.stderr)


def test_look_alikes(w):
    need_brome()
    for host in ("evilecho.example", "echo.example.evil.example", "sub.echo.example", "xn--cho-9la.example", "203.0.113.30"):
        before = len(w.alike.everything())
        p = w.b.popen("exec", "-T", "s", "--", "curl", "-sS", "-k", "-m", "20", "-w", " %{http_code}", "-H", f"Authorization: Bearer {w.held['echo']}", f"https://{host}/alike")
        wait_for(f"the alert for {host}", lambda: p.poll() is not None or state(w.b) == "compromised")
        a = [a for a in alerts(w.b) if a["decision"] == "open"]
        assert a and a[0]["going_to"] == host and a[0]["credential"] == "echo" and a[0]["issued_for"] == "echo.example", (host, a, p.poll() is not None and p.communicate())
        w.b("workspace", "thaw", "s", "--continue", check=0)
        p.communicate(timeout=30)
        assert w.alike.everything()[before:] == b""


FOREIGN = ["Authorization: Bearer ghp_somebodyelses0123456789abcdefghijkl", "Authorization: Basic dTpw", "Authorization: token abc", "Cookie: session=1", "X-Api-Key: k", "PRIVATE-TOKEN: k",
           "X-Goog-Api-Key: k", "Api-Key: k", "X-Auth-Token: k", "Job-Token: k"]
FOREIGN_QUERY = ["key=1", "api_key=1", "access_token=1", "private_token=1", "sig=1", "X-Amz-Signature=1", "%61pi_key=1",
                 "user%5Baccess_token%5D=1", "user.access_token=1", "access_token%5B%5D=1", "a%5Bb%5D%5BPassword%5D=1", "a%5Bkey%5D=1", "x=1&Access_Token=1&x=2", "%2561pi_key=1", "user%255Bsig%255D=1"]


def test_no_foreign_account(w):
    """On a host with an account nobody else's works, with ours beside it or without; no account at all is fine."""
    need_brome()
    ours = ["-H", f"Authorization: Bearer {w.held['echo']}"]
    rows = [("foreign-account", ["https://echo.example/d8", "-H", f]) for f in FOREIGN] + [("foreign-account", [f"https://echo.example/d8?{q}"]) for q in FOREIGN_QUERY]
    rows += [("foreign-account", ["https://echo.example/d8", "-H", f, *ours]) for f in FOREIGN if not f.startswith("Authorization")]
    rows += [("foreign-account", ["https://key.example/d8", "-H", f]) for f in FOREIGN[:3]] + [("foreign-account", ["https://key.example/d8", "-H", "X-Search-Key: mine"])]
    refused(w, rows, [w.echo, w.origin])
    # A proxy's own field ends at the gate, which is no proxy.
    p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Proxy-Authorization: Basic dTpw", "https://echo.example/anonymous")
    assert p.stdout == "200" and b"proxy-auth" not in w.echo.everything().lower(), p


def test_another_user_beside_the_placeholder(w):
    """The credential says whose it is: its secret goes out beside that name and no other, in no spelling."""
    need_brome()
    x, mark = w.held["pair"], w.front.mark()
    for user in (f"root:{x}", f"Deploy:{x}", f"deploy%00:{x}", f":{x}", f"{x}:", f"{x}:x-oauth-basic", f"deploy:{x}x", f"x-access-token:{x}"):
        for version in ("--http1.1", "--http2"):
            p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", version, "-w", " %{http_code}", "-H", f"Authorization: {basic(*user.split(':'))}", "https://basic.example/whose")
            assert p.stdout.endswith(" 403") and x not in p.stdout, (user, p.stdout)
    assert "another user" in w.b("exec", "-T", "s", "--", "curl", "-sS", "-u", f"root:{x}", "https://basic.example/whose").stdout
    p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "-u", f"deploy:{x}", "https://basic.example/mine")
    assert p.stdout == "200"
    w.front.some(mark, host="basic.example", uri="/mine", authorization=basic("deploy", PAIR))
    assert not [r for r in w.front.seen(mark, host="basic.example") if r["uri"] == "/whose"]


def test_foreign_ok_and_anonymous(w):
    need_brome()
    for f in FOREIGN:
        p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f, "https://loose.example/loose")
        assert p.stdout.endswith(" 200"), (f, p.stdout)
        if not f.startswith("Authorization"):
            p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f, "-H", f"Authorization: Bearer {w.held['loose']}", "https://loose.example/loose")
            assert p.stdout.endswith(" 200"), (f, p.stdout)
    assert LOOSE.encode() in w.origin.everything()
    for q in ("page%5Btoken%5D=1", "sort%5Bkey%5D=1", "filter%5Bname%5D%5B%5D=1", "keys=1"):  # the control: these name no account
        assert w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"https://anon.example/a?{q}").stdout == "200", q
    refused(w, [("not-anonymous", ["https://anon.example/a", "-H", f]) for f in FOREIGN] + [("not-anonymous", [f"https://anon.example/a?{q}"]) for q in FOREIGN_QUERY], [w.origin])
    assert w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "https://anon.example/a").stdout == "200"


def test_attach(w):
    """The guest holds nothing of it; what it sends as an account is taken out, the gate's is put in."""
    need_brome()
    before = len(w.origin.everything())
    for i, f in enumerate(FOREIGN):
        p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f, "-H", "X-Kept: 1", f"https://attached.example/attach-{i}?a=1&api_key=guests&b=2")
        assert p.stdout.endswith(" 200"), (f, p.stdout)
    got = w.origin.everything()[before:].decode("latin-1")
    for i in range(len(FOREIGN)):
        request = re.search(rf"GET /attach-{i}\?(\S*) HTTP/1.1\r\n(.*?)\r\n\r\n", got, re.S)
        fields = [line.lower() for line in request[2].split("\r\n")]
        assert request[1] == "a=1&b=2" and [x for x in fields if x.startswith("authorization:")] == [f"authorization: bearer {ATTACHED}".lower()] and "x-kept: 1" in fields, request[0]
        assert not [x for x in fields if x.split(":")[0] in ("cookie", "x-api-key", "private-token", "api-key", "x-goog-api-key", "proxy-authorization", "x-auth-token", "job-token")], fields
    assert ATTACHED.lower() not in json.dumps(w.b.sh("s", "env; cat ~/.* 2>/dev/null; true").stdout).lower()


def test_header_kind(w):
    need_brome()
    p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f"X-Search-Key: {w.held['key']}", "https://key.example/search")
    assert p.stdout.endswith(" 200") and f"x-search-key: {KEY}".encode().lower() in w.origin.everything().lower(), p


def test_leak_is_noted(w):
    """A bearer that brome did not issue, to a host without an account: it goes, and the trace says so, without it."""
    key = "ghp_" + "LeakedLeakedLeakedLeakedLeakedLeaked"
    p = w.b("exec", "-T", "s", "--", "curl", "-sS", "-m", "20", "-w", " %{http_code}", "-H", f"Authorization: Bearer {key}", "https://open.example/leak")
    assert p.stdout.endswith(" 200"), p
    need_brome()
    rows = [r for r in w.b.trace(host="open.example")] + w.b.timeline(engine="Credential")
    text = json.dumps(rows)
    assert "leak" in text and "github" in text and key not in text and key[:14] not in text, rows
    listed = [json.loads(x) for x in w.b("trace", "leaks", "--host", "open.example", "--json").stdout.splitlines()]
    mine = [r for r in listed if r["class"] == "github"]
    assert len(mine) == 1 and mine[0]["preview"] == "ghp_…" and mine[0]["field"] == "header authorization" and mine[0]["kind"] == "github" and "open.example" in mine[0]["rule"], listed
    said = w.b("trace", "leaks").stdout
    assert "brome credential add NAME --kind github --for open.example\n" in said and mine[0]["rule"] + " anonymous\n" in said and key[:9] not in said, said

