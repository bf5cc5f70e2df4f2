#!/usr/bin/env python3
"""The outer door of an account: who is served, what the origin receives, what the guest's side receives. Usage: test_account.py DRIVER DOOR"""
from outer import *
import base64, gzip, urllib.parse, zlib

import h2.config, h2.connection, h2.events

with open(sys.argv[2], "rb") as f:
    SANITIZED = b"__asan_init" in f.read()  # its memory says nothing then

SECRET = "s3cr3t/Token+With=Odd~chars-0123456789"
HOLDER = "brm_" + "abcdefghijklmnopqrstuvwxyz234567"
pki = Pki()
LEAF = pki.leaf("bound", "api.example", "other.example", "mirror.example", "auth.example")
TLS = tls_server(*LEAF)
CA = {"ca.pem": pki.ca}
tap = Tap()


class Request:
    def __init__(self, method, path, fields, body):
        self.method, self.path, self.fields, self.body = method, path, fields, body

    def __getitem__(self, name):
        return ", ".join(v for n, v in self.fields if n == name)

    def __repr__(self):
        return "%s %s %s %r" % (self.method, self.path, self.fields, self.body)


class Origin(Raw):
    """HTTP/1.1 over TLS. answer(request): status, fields, body (bytes, or a list of chunks)."""
    def __init__(self, answer=None, tls=TLS):
        self.got, self.answer = [], answer or (lambda r: (200, [], b"ok"))
        super().__init__(self.talk, tls)

    def talk(self, c):
        f = c.makefile("rb")
        while True:
            line = f.readline()
            if not line:
                return
            method, path, _ = line.decode("latin-1").split(" ", 2)
            fields = []
            while (line := f.readline().strip()):
                n, v = line.decode("latin-1").split(":", 1)
                fields.append((n.lower(), v.strip()))
            r = Request(method, path, fields, b"")
            if r["content-length"]:
                r.body = f.read(int(r["content-length"]))
            elif r["transfer-encoding"]:
                while (n := int(f.readline(), 16)):
                    r.body += f.read(n)
                    f.readline()
                while f.readline().strip():
                    pass
            self.got.append(r)
            if r["upgrade"]:
                self.upgraded(c, f, r)
                return
            out = self.answer(r)
            if out is None:
                return
            self.send(c, r, *out)

    def send(self, c, r, status, fields, body, trailers=()):
        head = "HTTP/1.1 %d X\r\n" % status + "".join("%s: %s\r\n" % f for f in fields)
        if isinstance(body, bytes):
            c.sendall((head + "content-length: %d\r\n\r\n" % len(body)).encode("latin-1") + (b"" if r.method == "HEAD" else body))
            return
        c.sendall((head + "transfer-encoding: chunked\r\n\r\n").encode("latin-1"))
        for part in body:
            if part:
                c.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        c.sendall(b"0\r\n" + "".join("%s: %s\r\n" % t for t in trailers).encode() + b"\r\n")

    def upgraded(self, c, f, r):
        key = base64.b64encode(hashlib.sha1((r["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        c.sendall(("HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: %s\r\n\r\n" % key).encode())
        self.frames(c, f)

    def frames(self, c, f):
        """Echoes what text it gets, then the secret, split over two frames."""
        while True:
            op, text, fin = read_frame(f)
            if op is None or op == 8:
                return
            while not fin:
                _, more, fin = read_frame(f)
                text += more
            self.got.append((op, text))
            half = len(SECRET) // 2
            c.sendall(frame(1, b"<" + text + b">"))
            c.sendall(frame(1, SECRET[:half].encode(), fin=False) + frame(9, SECRET.encode()) + frame(0, SECRET[half:].encode() + b"!"))
            c.sendall(frame(2, b"\x00" + SECRET.encode() + b"\xff"))


def frame(op, payload, fin=True, key=None):
    head = bytes([(0x80 if fin else 0) | op])
    n, m = len(payload), 0x80 if key else 0
    head += bytes([m | n]) if n < 126 else bytes([m | 126]) + n.to_bytes(2, "big") if n < 65536 else bytes([m | 127]) + n.to_bytes(8, "big")
    return head + (key + bytes(b ^ key[i % 4] for i, b in enumerate(payload)) if key else payload)


def read_frame(f):
    head = f.read(2)
    if len(head) < 2:
        return None, b"", True
    n = head[1] & 127
    n = int.from_bytes(f.read(2), "big") if n == 126 else int.from_bytes(f.read(8), "big") if n == 127 else n
    key = f.read(4) if head[1] & 128 else None
    payload = f.read(n)
    return head[0] & 15, bytes(b ^ key[i % 4] for i, b in enumerate(payload)) if key else payload, bool(head[0] & 128)


def messages(data):
    """Frames of a server as messages: [(opcode, payload)]."""
    import io
    f, out, text = io.BytesIO(data), [], None
    while True:
        op, payload, fin = read_frame(f)
        if op is None:
            return out
        if op >= 8:
            out.append((op, payload))
            continue
        text = (op, payload) if op else (text[0], text[1] + payload)
        if fin:
            out.append(text)


class H2Origin(Raw):
    """HTTP/2 over TLS; counts what its decoder's dynamic table remembers of the secret."""
    def __init__(self, answer=None):
        self.got, self.remembered, self.never = [], 0, 0
        self.answer = answer or (lambda r: ([], b"ok"))
        super().__init__(self.talk, tls_server(*LEAF, alpn=["h2"]))

    def talk(self, c):
        conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        conn.initiate_connection()
        c.sendall(conn.data_to_send())
        bodies, heads = {}, {}
        while (data := c.recv(65536)):
            for e in conn.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    heads[e.stream_id], bodies[e.stream_id] = e.headers, b""
                    self.never += sum(1 for h in e.headers if type(h).__name__.startswith("Never") and SECRET in h[1])
                elif isinstance(e, h2.events.DataReceived):
                    bodies[e.stream_id] += e.data
                    conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                elif isinstance(e, h2.events.StreamEnded):
                    d = dict(heads[e.stream_id])
                    r = Request(d[":method"], d[":path"], heads[e.stream_id], bodies[e.stream_id])
                    self.got.append(r)
                    fields, body = self.answer(r)
                    conn.send_headers(e.stream_id, [(":status", "200")] + fields)
                    conn.send_data(e.stream_id, body, end_stream=True)
            table = getattr(conn.decoder.header_table, "dynamic_entries", ())
            self.remembered += sum(1 for n, v in table if SECRET.encode() in bytes(v))
            c.sendall(conn.data_to_send())


def policy(origin, extra="", kind="bearer", hosts=("api.example",), rules=("allow web api.example", "allow web other.example"), name="acct", placeholder=HOLDER, bind=None, ports=None):
    text = "".join('host %s { address 127.0.0.1 port %d; ca file "ca.pem" }\n' % (h, (ports or {}).get(h, origin.port)) for h in ("api.example", "other.example", "mirror.example", "auth.example"))
    for n, h, more in bind if bind is not None else [(name, hosts, extra)]:
        text += "credential %s { kind %s; for { %s }; %s%s }\n" % (n, kind, ", ".join(h), more + "; " if more else "", "" if "attach" in more else 'placeholder "%s"' % placeholder)
    return text + "rules {\n" + "\n".join(rules) + "\ndefault deny\n}\n"


def forms(secret):
    """Every spelling in which the secret must not be found."""
    b = secret.encode()
    out = [secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret, safe="").lower()]
    for pad in range(3):
        for enc in (base64.b64encode, base64.urlsafe_b64encode):
            text = enc(b"x" * pad + b).decode().rstrip("=")
            out.append(text[pad + 1 if pad else 0:-2])
    out.append("".join("\\u%04x" % c for c in b))
    return out


class Account(Door):
    def __init__(self, rules, account="acct", secret=SECRET, **kw):
        super().__init__(rules, CA, account=account, secret=secret, **kw)

    def close(self):
        super().close()
        self.clean()

    def clean(self):
        """The door said it to nobody: not to the inner door, not to bromed, not in a record."""
        for line in self.lines:
            e = json.loads(line)
            text = line + json.dumps(e, ensure_ascii=False) + (bytes.fromhex(e["text"][4:]).decode("latin-1") if str(e.get("text", "")).startswith("hex:") else "")
            for f in forms(SECRET):
                expect(f not in text, "the secret came out: %s in %s" % (f, line))

    def asked(self):
        return self.wait(lambda e: e["ev"] == "ask")

    def answer(self, ask, what="allow", ttl=0):
        self.say("answer", ask["id"], what, ttl)


@contextlib.contextmanager
def world(answer=None, origin=None, secret=SECRET, account="acct", **kw):
    o = origin or Origin(answer)
    d = Account(policy(o, **kw), account=account, secret=secret)
    try:
        yield d, o
        expect(d.p.poll() is None, "the door died")
    finally:
        d.close()
        o.close()


AUTH = ("authorization", "Bearer " + HOLDER)


# ---- who is served ----

def t_hosts():
    with world() as (d, o):
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.status == 200 and r.head["brome-account"] == "acct", r)
        r = d.get("https", "other.example:443", "/")
        expect(r.status == 403 and r.reason == "policy-changed", r)
        r = d.get("https", "api.example:443", "/")
        expect(r.status == 200 and "brome-account" not in r.head, r)
        expect(len(o.got) == 2 and o.got[0]["authorization"] == "Bearer " + SECRET and o.got[1]["authorization"] == "", o.got)
        e = d.wait(lambda e: e["ev"] == "used")
        expect(e["count"] == 1 and e["host"] == "api.example", e)
        e = d.wait(lambda e: e["ev"] == "record" and e["engine"] == "Credential")
        expect(e["account"] == "acct" and e["subject"] == "used" and e["host"] == "api.example", e)


def t_plain_door():
    o = Origin()
    d = Door(policy(o), CA)
    try:
        for scheme, authority in (("https", "api.example:443"),):
            r = d.get(scheme, authority, "/", AUTH)
            expect(r.status == 403 and r.reason == "policy-changed", r)
        expect(d.get("https", "other.example:443", "/").status == 200, "others")
        expect(len(o.got) == 1, o.got)
    finally:
        d.close()
        o.close()


def t_fields():
    rules = ["allow any api.example:*"]
    with world(rules=rules) as (d, o):
        for fields, reason in [
                ([("authorization", "Bearer somebody-elses-token-0123456789")], "foreign-account"), ([("cookie", "session=1")], "foreign-account"),
                ([("x-note", HOLDER)], "wrong-field"), ([AUTH, ("x-note", HOLDER)], "placeholder-twice"), ([("authorization", "Basic ???")], "foreign-account")]:
            r = d.get("https", "api.example:443", "/", *fields)
            expect(r.status == 403 and r.reason == reason, (fields, r))
            e = d.wait(lambda e: e["ev"] == "record")
            expect(e["engine"] == "Credential" and e["reason"] == reason, e)
        for scheme, authority, reason in [("http", "api.example:443", "account-cleartext"), ("http", "api.example:80", "policy-changed"), ("https", "api.example:8443", "policy-changed")]:
            r = d.get(scheme, authority, "/", AUTH)
            expect(r.status == 403 and r.reason == reason, (scheme, authority, r))
        r = d.result(d.open((":method", "CONNECT"), (":authority", "api.example:443"), ("brome-kind", "any")))
        expect(r.status == 403 and r.reason == "uninspected", r)
        expect(o.got == [], o.got)


def t_wrong_certificate():
    crt, key = pki.leaf("wrong", "wrong.example")
    o = Origin(tls=tls_server(crt, key))
    with world(origin=o) as (d, o):
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.status == 502 and r.reason == "upstream-tls" and o.got == [], r)


def t_anonymous():
    with world(rules=["allow web api.example anonymous"]) as (d, o):
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.status == 403 and r.reason == "not-anonymous" and o.got == [], r)
        expect(d.get("https", "api.example:443", "/").status == 200, "without")


def t_policy_change():
    with world() as (d, o):
        expect(d.get("https", "api.example:443", "/", AUTH).status == 200, "before")
        new = "brm_" + HOLDER[:3:-1]
        d.policy(policy(o, placeholder=new), CA)
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.status == 403 and r.reason == "foreign-account", r)
        r = d.get("https", "api.example:443", "/", ("authorization", "Bearer " + new))
        expect(r.status == 200 and o.got[-1]["authorization"] == "Bearer " + SECRET, r)


# ---- substitution ----

def t_slots():
    b64 = lambda s: base64.b64encode(s.encode()).decode()
    for kind, extra, sent, path, got in [
            ("bearer", "", [AUTH], "/", lambda r: r["authorization"] == "Bearer " + SECRET),
            ("npm", "", [("authorization", "Bearer " + HOLDER)], "/", lambda r: r["authorization"] == "Bearer " + SECRET),
            ("basic", 'user "u"', [("authorization", "Basic " + b64("u:" + HOLDER))], "/", lambda r: r["authorization"] == "Basic " + b64("u:" + SECRET)),
            ("header", 'header "X-Key"', [("x-key", HOLDER)], "/", lambda r: r["x-key"] == SECRET),
            ("bearer", 'field query "token"', [], "/p?a=1&token=%s&b=2" % HOLDER, lambda r: r.path == "/p?a=1&token=%s&b=2" % urllib.parse.quote(SECRET, safe="-._~"))]:
        with world(kind=kind, extra=extra) as (d, o):
            r = d.get("https", "api.example:443", path, *sent)
            expect(r.status == 200 and r.head.get("brome-account") == "acct" and got(o.got[0]), (kind, r, o.got))
            expect(HOLDER not in repr(o.got), o.got)


def t_http2():
    for extra, path in (("", "/"), ('field query "token"', "/p?token=" + HOLDER)):
        o = H2Origin(lambda r: ([("x-echo", r["authorization"] or r.path)], b"<" + SECRET.encode() + b">"))
        with world(origin=o, extra=extra) as (d, o):
            for i in range(3):
                r = d.get("https", "api.example:443", path, *([AUTH] if not extra else []), method="POST" if i else "GET", body="hello" if i else None)
                expect(r.status == 200 and r.body == "<%s>" % HOLDER and HOLDER in r.head["x-echo"], r)
            if not extra:
                expect(all(g["authorization"] == "Bearer " + SECRET for g in o.got) and o.never == 3, (o.got, o.never))
            expect(o.remembered == 0 and len(o.got) == 3 and o.accepted == 1, (o.remembered, o.got))


def t_attach():
    with world(extra="attach") as (d, o):
        r = d.get("https", "api.example:443", "/p?api_key=guest&x=1", ("authorization", "Bearer guest-token"), ("cookie", "a=b"), ("x-api-key", "guest"))
        expect(r.status == 200 and r.head["brome-account"] == "acct", r)
        g = o.got[0]
        expect(g["authorization"] == "Bearer " + SECRET and "guest" not in repr(g) and g["cookie"] == "" and g.path == "/p?x=1", g)


def t_redirect():
    with world(lambda r: (302, [("location", "https://elsewhere.example/?t=" + urllib.parse.quote(SECRET, safe=""))], b"")) as (d, o):
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.status == 302 and r.head["location"].startswith("https://elsewhere.example/?t=") and HOLDER in r.head["location"] and len(o.got) == 1, r)


def t_body():
    with world(extra="field body") as (d, o):
        for type_, sent, want in [("application/json", '{"key":"%s","n":1}' % HOLDER, '{"key":"%s","n":1}' % SECRET),
                                  ("application/x-www-form-urlencoded", "a=1&key=%s" % HOLDER, "a=1&key=" + urllib.parse.quote(SECRET, safe="-._~")),
                                  ("text/plain", "x" * 3000 + HOLDER + "y" * 3000, "x" * 3000 + SECRET + "y" * 3000)]:
            i = d.request("POST", "https", "api.example:443", "/", ("content-type", type_), ("content-length", str(len(sent))), stream=True)
            for k in range(0, len(sent), 1500):
                d.say("data", i, d.esc(sent[k:k + 1500]))
            d.say("end", i)
            r = d.result(i)
            g = o.got[-1]
            expect(r.status == 200 and r.head["brome-account"] == "acct" and g.body.decode() == want and g["content-length"] == str(len(want)), (r, g))
        i = d.request("POST", "https", "api.example:443", "/", ("content-length", "9"), stream=True)
        d.say("data", i, "ninebytes"), d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and o.got[-1].body == b"ninebytes" and o.got[-1]["content-length"] == "9", (r, o.got[-1]))
        i = d.request("POST", "https", "api.example:443", "/", stream=True)
        for part in (HOLDER[:7], HOLDER[7:20], HOLDER[20:] + "tail"):
            d.say("data", i, part)
        d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and o.got[-1].body == (SECRET + "tail").encode() and o.got[-1]["transfer-encoding"] == "chunked", (r, o.got[-1]))
        n = len(o.got)
        r = d.get("https", "api.example:443", "/", method="POST", body=HOLDER + "," + HOLDER)
        expect(r.reason == "placeholder-twice" and len(o.got) == n, r)
        r = d.get("https", "api.example:443", "/", AUTH, method="POST", body=HOLDER)
        expect(r.reason == "placeholder-twice" and len(o.got) == n, r)
        # Longer than what is held: its length is not told.
        i = d.request("POST", "https", "api.example:443", "/", ("content-length", str(2000000 + len(HOLDER))), stream=True)
        d.say("data", i, HOLDER), d.say("fill", i, 2000000), d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and o.got[-1].body == SECRET.encode() + b"x" * 2000000, (r, len(o.got[-1].body)))


# ---- consent ----

def digest(method, scheme, host, port, path, query=None):
    parts = [method, scheme, host, str(port), path, "?" if query is not None else "", query or ""]
    return hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p.encode() for p in parts)).hexdigest()


def t_ask_credential():
    with world(extra="ask before use") as (d, o):
        i = d.request("POST", "https", "api.example:443", "/a%2fb?x=1", AUTH, body="hello")
        a = d.asked()
        expect((a["what"], a["name"], a["host"], a["port"], a["method"], a["path"]) == ("credential", "acct", "api.example", 443, "POST", "/a%2Fb?x=1"), a)
        expect(a["digest"] == digest("POST", "https", "api.example", 443, "/a%2Fb", "x=1"), a)
        expect(d.get("https", "api.example:443", "/free").status == 200, "what does not use it is not asked for")
        expect(len(o.got) == 1, o.got)
        d.answer(a)
        r = d.result(i)
        expect(r.status == 200 and o.got[-1]["authorization"] == "Bearer " + SECRET and o.got[-1].body == b"hello", r)
        # once was once
        for what, status, reason in (("deny", 403, "consent-denied"), ("expired", 503, "consent-expired"), ("nobody", 503, "consent-nobody")):
            n = len(o.got)
            i = d.request("GET", "https", "api.example:443", "/", AUTH)
            d.answer(d.asked(), what)
            r = d.result(i)
            expect(r.status == status and r.reason == reason and ("retry-after" in r.head) == (status == 503) and len(o.got) == n, r)
            e = d.wait(lambda e: e["ev"] == "record" and e["engine"] == "Consent")
            expect(e["reason"] == reason and e["account"] == "acct", e)
        # for as long as was said
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        d.answer(d.asked(), "allow", -1)
        expect(d.result(i).status == 200 and d.get("https", "api.example:443", "/", AUTH).status == 200, "granted")
        # gone before the answer
        d.policy(policy(o, extra="ask before use; foreign ok"), CA)
        d.say("revoke", "credential", "acct", "api.example", 443)
        d.wait(lambda e: e["ev"] == "revoke")
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        a = d.asked()
        d.say("reset", i)
        e = d.wait(lambda e: e["ev"] == "ask-end")
        expect(e["id"] == a["id"], e)
        d.answer(a)
        expect(d.get("https", "api.example:443", "/free").status == 200, "goes on")


def t_answer_too_late():
    """Who left is answered to nobody: nothing goes out, no grant stands for the next one, and an old question's answer is not a new one's."""
    with world(extra="ask before use") as (d, o):
        old = []
        for end in ("reset", "policy"):
            i = d.request("POST", "https", "api.example:443", "/left", AUTH, stream=True)
            old.append(d.asked())
            if end == "reset":
                d.say("reset", i)
            else:  # the rule that let it in is gone
                d.policy(policy(o, extra="ask before use", rules=("allow web other.example",)), CA)
                d.policy(policy(o, extra="ask before use"), CA)
            e = d.wait(lambda e: e["ev"] == "ask-end")
            expect(e["id"] == old[-1]["id"], e)
            d.answer(old[-1], "allow", -1)
        i = d.request("GET", "https", "api.example:443", "/next", AUTH)
        a = d.asked()
        expect(a["id"] > max(b["id"] for b in old), (a, old))
        for b in old:
            d.answer(b, "allow", -1)
        d.answer(a, "deny")
        expect(d.result(i).reason == "consent-denied" and o.accepted == 0, o.got)


def t_many_ask_once():
    with world(extra="ask before use") as (d, o):
        ids = [d.request("GET", "https", "api.example:443", "/%d" % k, AUTH) for k in range(1000)]
        asks = [d.asked() for _ in ids]
        expect(o.accepted == 0 and len({a["id"] for a in asks}) == 1000, o.accepted)
        for a in asks:
            d.answer(a, "allow", 60000)
        for i in ids:
            expect(d.result(i).status == 200, i)


def t_ask_body_waits():
    """The body stops at the window: nothing of it is taken while nobody answered."""
    with world(extra="ask before use") as (d, o):
        i = d.request("POST", "https", "api.example:443", "/", AUTH, stream=True)
        d.say("fill", i, 8000000), d.say("end", i)
        a = d.asked()
        expect(d.get("https", "api.example:443", "/free").status == 200 and len(o.got) == 1, o.got)
        d.answer(a)
        expect(d.result(i).status == 200 and len(o.got[-1].body) == 8000000, len(o.got[-1].body))


def t_ask_says_whether_there_is_a_body():
    with world(extra="ask before use") as (d, o):
        for method, more, end, body in (("GET", (), True, False), ("POST", (), True, False), ("POST", (("content-length", "0"),), True, False), ("POST", (("content-length", "4"),), False, True),
                                        ("POST", (), False, True), ("GET", (("content-length", "4"),), False, True)):
            i = d.request(method, "https", "api.example:443", "/", AUTH, *more, stream=not end)
            a = d.asked()
            expect(a["body"] is body and a["method"] == method, (method, more, a))
            if not end:
                d.say("data", i, "body"), d.say("end", i)
            d.answer(a, "deny")
            expect(d.result(i).reason == "consent-denied", i)
        d.open((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", "api.example:443"), (":path", "/"), AUTH, ("sec-websocket-version", "13"))
        expect(d.asked()["body"] is True, "a WebSocket's messages")
        expect(o.accepted == 0, o.got)


def t_ask_in_disguise():
    """What would be shown as a GET, and read as a DELETE, is not asked for; where a person agreed to everything it goes."""
    with world(extra="ask before use") as (d, o):
        for path, field in (("/", ("x-http-method-override", "DELETE")), ("/?_method=DELETE", ("x-a", "b")), ("/", ("x-original-url", "/other"))):
            r = d.result(d.request("GET", "https", "api.example:443", path, AUTH, field))
            expect(r.status == 403 and r.reason == "override", r)
        expect(o.accepted == 0 and not any(json.loads(line)["ev"] == "ask" for line in d.lines), o.got)
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        d.answer(d.asked(), "allow", -1)
        expect(d.result(i).status == 200, i)
        expect(d.get("https", "api.example:443", "/", AUTH, ("x-http-method-override", "DELETE")).status == 200, "agreed to")


def t_ask_attach():
    with world(extra="attach; ask before use") as (d, o):
        i = d.request("GET", "https", "api.example:443", "/")
        d.answer(d.asked(), "allow", -1)
        expect(d.result(i).status == 200, i)


def t_ask_rule():
    rules = ["ask web api.example"]
    with world(rules=rules, extra="ask before use") as (d, o):
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        a = d.asked()
        expect(a["what"] == "rule" and a["name"] == "ask web api.example" and o.accepted == 0, a)
        d.answer(a)
        b = d.asked()
        expect(b["what"] == "credential" and b["id"] != a["id"], b)
        d.answer(b)
        expect(d.result(i).status == 200, i)


def t_ask_long_rule():
    """A rule that no message could hold: its beginning is its name, and it is one name."""
    rules = ["ask web { %s }" % ", ".join(["api.example"] + ["h%05d.registry.example" % k for k in range(5000)])]
    with world(rules=rules) as (d, o):
        names = set()
        for k in range(2):
            i = d.request("GET", "https", "api.example:443", "/%d" % k)
            a = d.asked()
            names.add(a["name"])
            d.answer(a, "allow", 0 if k == 0 else -1)
            expect(d.result(i).status == 200, a["id"])
        name = names.pop()
        expect(not names and name.startswith("ask web { api.example, ") and len(name) < 9000, name[-100:])
        expect(d.get("https", "api.example:443", "/x").status == 200, "granted")
        d.say("revoke", "rule", d.esc(name), "api.example", 443)
        d.wait(lambda e: e["ev"] == "revoke")
        i = d.request("GET", "https", "api.example:443", "/y")
        d.answer(d.asked(), "deny")
        expect(d.result(i).reason == "consent-denied", i)


def t_ask_plain_flows():
    """At the plain door: a rule for the web, and flows that are not read."""
    echo = Raw(lambda c: c.sendall(c.recv(100)))
    d = Door('host h.example { address 127.0.0.1 port %d }\nrules {\n ask web h.example\n ask tcp h.example:22\n ask tls h.example:993\n ask any h.example:7\n default deny\n}\n' % echo.port)
    try:
        for kind, port in (("tcp", 22), ("tls", 993), ("any", 7)):
            i = d.open((":method", "CONNECT"), (":authority", "h.example:%d" % port), ("brome-kind", kind))
            d.say("data", i, "hello"), d.say("end", i)
            a = d.wait(lambda e: e["ev"] == "ask")
            expect(a["what"] == "rule" and a["host"] == "h.example" and a["port"] == port and a["path"] == "", a)
            before = echo.accepted
            d.say("answer", a["id"], "allow", -1)
            r = d.result(i)
            expect(r.status == 200 and r.body == "hello" and echo.accepted == before + 1, r)
        i = d.request("GET", "http", "h.example:80", "/x")
        d.say("answer", d.wait(lambda e: e["ev"] == "ask")["id"], "deny", 0)
        r = d.result(i)
        expect(r.status == 403 and r.reason == "consent-denied", r)
    finally:
        d.close()
        echo.close()


def t_revoke_cuts():
    hold = threading.Event()

    def answer(r):
        def parts():
            yield b"first"
            hold.wait(DEADLINE)
            yield b"last"
        return 200, [], parts()
    with world(answer, extra="ask before use") as (d, o):
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        d.answer(d.asked(), "allow", -1)
        d.wait(lambda e: e.get("id") == i and e["ev"] == "data")
        d.say("revoke", "credential", "acct", "other.example", 443)
        expect(d.wait(lambda e: e["ev"] == "revoke")["cut"] == 0, "another's")
        d.say("revoke", "credential", "acct", "api.example", 443)
        expect(d.wait(lambda e: e["ev"] == "revoke")["cut"] == 1, "cut")
        r = d.result(i)
        hold.set()
        expect(r.code >= 0x62720000 and "last" not in r.body, r)
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        d.answer(d.asked(), "deny")
        expect(d.result(i).reason == "consent-denied", "asked again")


def t_rules_change_while_asked():
    with world(extra="ask before use") as (d, o):
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        a = d.asked()
        d.policy(policy(o), CA)  # nobody asks any more
        e = d.wait(lambda e: e["ev"] == "ask-end")
        expect(e["id"] == a["id"] and d.result(i).status == 200, e)


# ---- answers ----

def t_masked_heads():
    def answer(r):
        b = base64.b64encode(b"u:" + SECRET.encode()).decode()
        return 200, [("x-echo", "a" + SECRET + "b"), ("set-cookie", "t=" + SECRET), ("www-authenticate", 'Bearer realm="%s"' % SECRET), ("x-basic", b),
                     ("etag", '"1"'), ("content-md5", "x"), ("digest", "y"), ("accept-ranges", "bytes")], [b"hi"], [("x-trailer", SECRET), ("repr-digest", "z")]
    with world(answer) as (d, o):
        r = d.get("https", "api.example:443", "/", AUTH)
        expect(r.head["x-echo"] == "a" + HOLDER + "b" and r.head["set-cookie"] == "t=" + HOLDER and HOLDER in r.head["www-authenticate"], r)
        expect(r.trailers == {"x-trailer": HOLDER} and r.head["etag"] == '"1"' and not {"content-md5", "digest", "accept-ranges", "content-length"} & set(r.head), r)
        base64.b64decode(r.head["x-basic"])


def t_masked_bodies():
    text = ("before " + SECRET + " middle " + base64.b64encode(b"x" + SECRET.encode()).decode() + " " + urllib.parse.quote(SECRET, safe="") + " after").encode()
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    codings = {"": text, "gzip": gzip.compress(text), "x-gzip": gzip.compress(text), "deflate": zlib.compress(text)}
    for coding, body in codings.items():
        for step in (1, 7, len(body)):
            def answer(r):
                return 200, [("content-encoding", coding)] if coding else [], [body[k:k + step] for k in range(0, len(body), step)]
            with world(answer) as (d, o):
                r = d.get("https", "api.example:443", "/", AUTH, ("accept-encoding", "br, gzip;q=0.5"), ("range", "bytes=0-9"), ("if-range", '"x"'))
                expect(r.status == 200 and r.body.startswith("before " + HOLDER + " middle ") and r.body.endswith(" after") and "content-encoding" not in r.head, (coding, step, r))
                g = o.got[0]
                expect(g["accept-encoding"] == "gzip" and g["range"] == "" and g["if-range"] == "", g)
    with world() as (d, o):
        d.get("https", "api.example:443", "/", AUTH)
        expect(o.got[0]["accept-encoding"] == "identity", o.got)


def t_undecodable():
    for status, fields, body in [(200, [("content-encoding", "lzma")], b"x"), (200, [("content-encoding", "gzip, gzip, gzip, gzip")], b"x"),
                                 (206, [("content-range", "bytes 0-0/5")], b"x")]:
        with world(lambda r: (status, fields, body)) as (d, o):
            r = d.get("https", "api.example:443", "/", AUTH)
            expect(r.status == 502 and r.reason == "answer-undecodable", (fields, r))
    for body in (b"not gzip at all", gzip.compress(b"x" * 9999)[:-12], gzip.compress(b"x") + b"trailing"):
        with world(lambda r: (200, [("content-encoding", "gzip")], body)) as (d, o):
            r = d.get("https", "api.example:443", "/", AUTH)
            expect(not r.ended and (r.code >= 0x62720000 or r.reason == "answer-undecodable"), (body, r))
    with world(lambda r: (200, [("content-encoding", "gzip")], b"")) as (d, o):  # HEAD
        r = d.get("https", "api.example:443", "/", AUTH, method="HEAD")
        expect(r.status == 200 and r.head["content-encoding"] == "gzip", r)


def t_bomb():
    bomb = gzip.compress(b"\0" * (200 << 20))
    with world(lambda r: (200, [("content-encoding", "gzip")], bomb)) as (d, o):
        i = d.request("GET", "https", "api.example:443", "/", AUTH, quiet=True)
        d.say("hold", i)
        expect(d.get("https", "api.example:443", "/x", method="HEAD").status == 200, "others go on")
        expect(d.rss_kb() < 64 * 1024, d.rss_kb())
        d.say("release", i)
        r = d.result(i, 120)
        expect(r.total == 200 << 20, r)


def t_sse():
    go = threading.Event()

    def answer(r):
        def parts():
            yield ("data: one %s\n\n" % SECRET).encode()
            go.wait(DEADLINE)
            yield b"data: two\n\n"
        return 200, [("content-type", "text/event-stream")], parts()
    with world(answer) as (d, o):
        i = d.request("GET", "https", "api.example:443", "/", AUTH)
        got = ""
        while not got.endswith("\n\n"):
            got += d.wait(lambda e: e.get("id") == i and e["ev"] == "data")["text"]
        expect(got == "data: one %s\n\n" % HOLDER, got)
        go.set()
        expect(d.result(i).body == "data: two\n\n", "two")


def t_websocket():
    for extra, sent in (("", "hello"), ("field websocket", "key=" + HOLDER)):
        with world(extra=extra) as (d, o):
            i = d.open((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", "api.example:443"), (":path", "/ws"),
                       ("sec-websocket-version", "13"), ("sec-websocket-extensions", "permessage-deflate"), *([AUTH] if not extra else []))
            data = frame(1, sent.encode(), key=b"abcd")
            for part in (data[:5], data[5:9], data[9:]):
                d.say("data", i, "".join("%%%02x" % b for b in part))
            head = d.head(i)
            got = b""
            while True:
                e = d.wait(lambda e: e.get("id") == i and e["ev"] == "data")
                got += bytes.fromhex(e["text"][4:]) if e["text"].startswith("hex:") else e["text"].encode()
                with contextlib.suppress(IndexError):
                    m = messages(got)
                    if m and m[-1][0] == 2:
                        break
            expect(head[":status"] == "200" and o.got[0]["sec-websocket-extensions"] == "", (head, o.got))
            expect(o.got[1] == (1, sent.replace(HOLDER, SECRET).encode()), o.got)
            expect(m == [(1, b"<%s>" % sent.encode()), (9, HOLDER.encode()), (1, HOLDER.encode() + b"!"), (2, b"\0" + HOLDER.encode() + b"\xff")], m)
            if not extra:
                expect(o.got[0]["authorization"] == "Bearer " + SECRET, o.got)
            d.say("reset", i)


def t_bulk():
    """Large bodies through the mask, over both versions, with a reader that stops: whole, and never much of them here."""
    nginx = Nginx(pki, "api.example")
    size = 48 << 20
    with open(os.path.join(nginx.www, "large"), "wb") as f:
        block = hashlib.sha512(b"x").digest() * 1024
        f.write((block * (size // len(block) + 1))[:size - len(SECRET)] + SECRET.encode())
    with open(os.path.join(nginx.www, "large"), "rb") as f:
        want = hashlib.sha256(f.read().replace(SECRET.encode(), HOLDER.encode())).hexdigest()
    o = Origin()
    try:
        for port in (nginx.h1, nginx.h2):
            d = Account(policy(o, ports={"api.example": port}))
            try:
                ids = [d.request("GET", "https", "api.example:443", "/large", AUTH, quiet=True) for _ in range(3)]
                d.say("hold", ids[1])
                for i in (ids[0], ids[2]):
                    r = d.result(i, 120)
                    expect(r.total == size - len(SECRET) + len(HOLDER) and r.sha256 == want, (port, r, want))
                expect(SANITIZED or d.rss_kb() < 64 * 1024, d.rss_kb())
                d.say("release", ids[1])
                expect(d.result(ids[1], 120).sha256 == want, port)
                i = d.request("POST", "https", "api.example:443", "/upload", AUTH, stream=True)
                d.say("fill", i, 30000000), d.say("end", i)
                expect(d.result(i, 120).body.startswith("30000000 "), "up")
            finally:
                d.close()
    finally:
        nginx.close()
        o.close()


def t_streams_of_one_connection():
    """What one exchange waits for holds up no other on the same connection."""
    o = H2Origin(lambda r: ([("content-encoding", "gzip")], gzip.compress((r.path + SECRET).encode() * 2000)))
    with world(origin=o) as (d, o):
        ids = [d.request("GET", "https", "api.example:443", "/%d/" % k, AUTH, quiet=True) for k in range(80)]
        for k, i in enumerate(ids):
            r = d.result(i)
            expect(r.sha256 == hashlib.sha256(("/%d/" % k + HOLDER).encode() * 2000).hexdigest(), (k, r))


# ---- re-routing ----

MIRROR = "https://mirror.example/api/npm/npm/"
PACKUMENT = json.dumps({"name": "left-pad", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
    "name": "left-pad", "version": "1.0.0", "dist": {"tarball": MIRROR + "left-pad/-/left-pad-1.0.0.tgz", "shasum": "0" * 40}}}, "u": "https://elsewhere.example/api/npm/npm/x"})


def mirror(r):
    if r.path == "/api/npm/npm/left-pad":
        body = PACKUMENT.replace("/", "\\/").encode() if r["accept"] == "*/*" else PACKUMENT.encode()
        fields = [("content-type", "application/vnd.npm.install-v1+json"), ("etag", '"e"'), ("link", "<%sx>; rel=next, </api/npm/npm/y>; rel=prev" % MIRROR)]
        return (200, fields + [("content-encoding", "gzip")], gzip.compress(body)) if r["accept-encoding"] == "gzip" else (200, fields, [body[k:k + 3] for k in range(0, len(body), 3)])
    if r.path == "/api/npm/npm/moved":
        return 301, [("location", MIRROR + "left-pad"), ("content-location", "/api/npm/npm/left-pad")], b""
    return 200, [("content-type", "application/octet-stream"), ("etag", '"t"')], b"tar " + MIRROR.encode()


def check_npm(d, o, key):
    accept = ("accept", "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*")
    want = json.loads(PACKUMENT.replace(MIRROR, "https://registry.example/"))
    for fields in ([accept], [accept, ("accept-encoding", "gzip, br")], [("accept", "x/y")]):
        r = d.get("https", "registry.example:443", "/left-pad", ("authorization", "Bearer guests-own-token-0123456789"), ("npm-session", "exfiltrate"), ("x-y", "z"), *fields)
        expect(r.status == 200 and json.loads(r.body) == want, r)
        expect(r.head["link"] == "<https://registry.example/x>; rel=next, </y>; rel=prev" and r.head["etag"] == 'W/"e"' and "content-encoding" not in r.head, r)
        g = o.got[-1]
        expect(g.path == "/api/npm/npm/left-pad" and g["host"] == "mirror.example" and g["authorization"] == key and g["user-agent"] == "npm/10 (brome)", g)
        expect("guest" not in repr(g) and "exfiltrate" not in repr(g) and g["x-y"] == "", g)
    r = d.get("https", "registry.example:443", "/moved")
    expect(r.status == 301 and r.head["location"] == "https://registry.example/left-pad" and r.head["content-location"] == "/left-pad", r)
    r = d.get("https", "registry.example:443", "/left-pad/-/left-pad-1.0.0.tgz")
    expect(r.body == "tar " + MIRROR and o.got[-1].path == "/api/npm/npm/left-pad/-/left-pad-1.0.0.tgz" and r.head["etag"] == '"t"', r)
    n = len(o.got)
    for method, path in (("PUT", "/left-pad"), ("GET", "/left-pad?write=true"), ("GET", "/-/v1/search?text=x")):
        r = d.get("https", "registry.example:443", path, method=method)
        expect(r.status == 403 and r.reason == "profile" and len(o.got) == n, (path, r))


def t_via_attached():
    with world(mirror, extra="attach", hosts=("mirror.example",), rules=['allow web registry.example as npm via "%s"' % MIRROR]) as (d, o):
        check_npm(d, o, "Bearer " + SECRET)
        r = d.get("https", "mirror.example:443", "/api/npm/npm/left-pad")
        expect(r.status == 403 and r.reason == "default-deny", r)


def t_via_plain():
    o = Origin(mirror)
    d = Door(policy(o, bind=[], rules=['allow web registry.example as npm via "%s"' % MIRROR]), CA)
    try:
        check_npm(d, o, "")
    finally:
        d.close()
        o.close()


def t_via_changes():
    hold = threading.Event()

    def answer(r):
        def parts():
            yield b"first"
            hold.wait(DEADLINE)
            yield b"last"
        return 200, [], parts()
    rule = 'allow web registry.example via "https://mirror.example/%s/"'
    with world(answer, extra="attach", hosts=("mirror.example",), rules=[rule % "a"]) as (d, o):
        i = d.request("GET", "https", "registry.example:443", "/")
        d.wait(lambda e: e.get("id") == i and e["ev"] == "data")
        e = d.policy(policy(o, extra="attach", hosts=("mirror.example",), rules=[rule % "b"]), CA)
        r = d.result(i)
        hold.set()
        expect(e["cut"] == 1 and "last" not in r.body and r.code >= 0x62720000, (e, r))


def t_profile_git():
    with world(rules=["allow web api.example as git"], kind="github", placeholder="ghp_brm" + "a" * 33) as (d, o):
        basic = lambda t: "Basic " + base64.b64encode(("x-access-token:" + t).encode()).decode()
        r = d.get("https", "api.example:443", "/a/b.git/info/refs?service=git-upload-pack", ("git-protocol", "version=2"), ("authorization", basic("ghp_brm" + "a" * 33)), ("x-y", "z"))
        g = o.got[0]
        expect(r.status == 200 and g["authorization"] == basic(SECRET) and g["git-protocol"] == "version=2" and g["x-y"] == "" and g["user-agent"].startswith("git/"), g)
        r = d.get("https", "api.example:443", "/a/b.git/info/refs?service=git-upload-pack")
        expect(r.reason == "profile" and "version 2" in r.detail and len(o.got) == 1, r)


def pkt(*lines):
    return "".join(x if x in ("0000", "0001") else "%04x%s" % (len(x) + 4, x) for x in lines)


def t_git_named():
    """An inner door that was taken over says what it likes: the outer one knows what the server named, to which repository, and writes the body anew."""
    one, two, made_up = "1" * 40, "2" * 40, "badc0de5" * 5
    result = [("content-type", "application/x-git-upload-pack-result")]

    def answer(r):
        if b"ls-refs" in r.body:
            return 200, result + ([("content-encoding", "gzip")] if "packed" in r.path else []), pkt(one + " HEAD\n", two + " refs/tags/a peeled:" + "3" * 40 + "\n", "0000").encode()
        return 200, result, pkt("shallow-info\n", "shallow " + "4" * 40 + "\n", "0001", "packfile\n").encode() + b"0031" + b"5" * 40 + b" x\n\n\n"
    o = Origin(answer)
    d = Door(policy(o, bind=[], rules=["allow web api.example as git"]), CA)
    head = [("git-protocol", "version=2"), ("content-type", "application/x-git-upload-pack-request")]
    post = lambda body, path="/a/b.git", *more: d.result(d.request("POST", "https", "api.example:443", path + "/git-upload-pack", *head, *more, body=body))
    fetch = lambda *lines: pkt("command=fetch", "agent=smuggled", "session-id=smuggled", "0001", *lines, "0000")
    try:
        def closed(*args):
            n = len(o.got)
            r = post(*args)
            expect(r.status == 403 and r.reason == "profile" and len(o.got) == n, (args, r, o.got[n:]))
        closed(fetch("want " + one))
        expect(post(pkt("command=ls-refs", "0001", "ref-prefix refs/heads/smuggled", "0000")).status == 200 and o.got[-1].body == pkt("command=ls-refs", "0001", "ref-prefix refs/heads/\n", "0000").encode(), o.got[-1])
        expect(post(fetch("want " + one, "want " + "3" * 40, "want " + one, "have " + made_up, "done")).status == 200, "")
        expect(o.got[-1].body == pkt("command=fetch", "agent=git/2", "0001", "want " + one + "\n", "want " + "3" * 40 + "\n", "done\n", "0000").encode() and o.got[-1]["content-length"] == str(len(o.got[-1].body)), o.got[-1])
        expect(post(fetch("want " + two, "shallow " + "4" * 40, "have " + two, "have " + made_up)).status == 200 and made_up.encode() not in o.got[-1].body and b"have " + two.encode() in o.got[-1].body, o.got[-1])
        for wrong in ((fetch("want " + made_up),), (fetch("want " + one, "want " + made_up),), (fetch("want " + "5" * 40),), (fetch("want " + one, "shallow " + made_up),), (fetch("want " + one), "/a/other.git"), ("garbage",), ("",),
                      (fetch("want " + one)[:-4],), (fetch("want " + one) + "x",), (gzip.compress(fetch("want " + one).encode()).decode("latin-1"), "/a/b.git", ("content-encoding", "gzip"))):
            closed(*wrong)
        # What the server packs is not read, so it names nothing.
        expect(post(pkt("command=ls-refs", "0000"), "/a/packed.git").status == 200, "")
        closed(fetch("want " + one), "/a/packed.git")
        expect(not [g for g in o.got if b"smuggled" in g.body or made_up.encode() in g.body], o.got)
    finally:
        d.close()
        o.close()


def t_misses():
    """A name that is not there is counted whether the guest waits for the answer or not; a server that fails is not the guest's doing."""
    hold = threading.Event()

    def answer(r):
        if r.path.startswith("/slow"):
            hold.wait(DEADLINE)
        return (200 if r.path.startswith("/there") else 503 if r.path.startswith("/fails") else 404), [], b"{}"
    o = Origin(answer)
    d = Door(policy(o, bind=[], rules=["allow web api.example as npm misses 6/h"]), CA)
    get = lambda path: d.get("https", "api.example:443", path)
    try:
        expect([get("/there%d" % k).status for k in range(20)] == [200] * 20 and [get("/fails%d" % k).status for k in range(10)] == [503] * 10, "")
        expect([get("/gone%d" % k).status for k in range(4)] == [404] * 4, "")
        for k in range(2):
            i = d.request("GET", "https", "api.example:443", "/slow%d" % k)
            end = time.monotonic() + DEADLINE
            while not [g for g in o.got if g.path == "/slow%d" % k]:
                expect(time.monotonic() < end, "it was not sent")
            d.say("reset", i)
        n = len(o.got)
        r = get("/gone9")
        expect(r.status == 403 and r.reason == "misses" and len(o.got) == n, r)
        expect(get("/gone1").status == 404 and get("/there3").status == 200, "what was asked before")
    finally:
        hold.set()
        d.close()
        o.close()


def t_misses_redirects():
    """A server that sends every name elsewhere says of none that it is there; one that sends a package's file elsewhere does."""
    def answer(r):
        if r.path.endswith(".tgz") and not r.path.startswith("/all"):
            return 302, [("location", "https://files.example/sha256/%d" % len(r.path))], b""
        return 301, [("location", "https://api.example" + r.path)], b""
    o = Origin(answer)
    d = Door(policy(o, bind=[], rules=["allow web api.example as npm misses 6/h"]), CA)
    get = lambda path: d.get("https", "api.example:443", path)
    try:
        expect([get("/p/-/p-1.0.%d.tgz" % k).status for k in range(20)] == [302] * 20, "files")
        expect([get("/carry%d" % k).status for k in range(3)] + [get("/all%d/-/all%d-1.0.0.tgz" % (k, k)).status for k in range(3)] == [301] * 6, "")
        n = len(o.got)
        for path in ("/carry9", "/all9/-/all9-1.0.0.tgz"):
            r = get(path)
            expect(r.status == 403 and r.reason == "misses" and len(o.got) == n, r)
        expect(get("/carry1").status == 301 and get("/p/-/p-1.0.3.tgz").status == 302, "what was asked before")
    finally:
        d.close()
        o.close()


# ---- registries ----

def t_registry_tokens():
    token = "eyJhbGciOiJub25lIn0.real-registry-token-%d.sig"
    count = [0]

    def answer(r):
        if r.path.startswith("/token"):
            count[0] += 1
            body = json.dumps({"token": token % count[0], "access_token": token % count[0], "expires_in": 300, "other": token % count[0]}).encode()
            return (200, [("content-type", "application/json"), ("content-encoding", "gzip")], gzip.compress(body)) if count[0] % 2 else (200, [], body)
        if not r["authorization"].startswith("Bearer "):
            return 401, [("www-authenticate", 'Bearer realm="https://auth.example/token",service="r",scope="s"')], b"{}"
        if r.path == "/v2/x/tags/list":
            return 200, [("content-type", "application/json")], json.dumps({"name": "x", "tags": ["a"], "echo": r["authorization"]}).encode()
        return 200, [("content-type", "application/vnd.oci.image.manifest.v1+json")], b"{}"
    basic = "Basic " + base64.b64encode(("user:" + HOLDER).encode()).decode()
    with world(answer, kind="registry", hosts=("api.example", "auth.example"), rules=["allow web api.example read-only", "allow web auth.example read-only"]) as (d, o):
        r = d.get("https", "api.example:443", "/v2/")
        expect(r.status == 401 and "auth.example/token" in r.head["www-authenticate"], r)
        seen = []
        for k in range(60):  # more than are kept
            r = d.get("https", "auth.example:443", "/token?service=r&scope=s", *([("authorization", basic)] if k % 3 else []))
            expect(r.status == 200 and "real-registry-token" not in r.body, r)
            holder = json.loads(r.body)["token"]
            expect(json.loads(r.body)["access_token"] == holder and r.head["brome-minted"] == holder and holder not in seen and r.ended, r)
            expect("other" not in json.loads(r.body) and json.loads(r.body)["expires_in"] == 300, r)
            seen.append(holder)
            r = d.get("https", "api.example:443", "/v2/x/tags/list", ("authorization", "Bearer " + holder))
            expect(r.status == 200 and o.got[-1]["authorization"] == "Bearer " + token % count[0] and r.head["brome-account"] == "acct", (r, o.got[-1]))
            expect(json.loads(r.body)["echo"] == "Bearer " + holder and "brome-minted" not in r.head, r)
        r = d.get("https", "api.example:443", "/v2/x/tags/list", ("authorization", "Bearer " + seen[0]))
        expect(r.status == 403 and r.reason == "foreign-account", r)
        expect(not any("real-registry-token" in line for line in d.lines), "tokens")


def t_registry_odd_answers():
    for body in (b'{"token":"short"}', b'{"token":{"a":"b"}}', b'{"access_token":"good-token-0123456789","token":3}', b'{"token":"x-y-z-0123456789"', b'{"token":"tttttttttttttttt","a":"' + b"x" * 300000 + b'"}'):
        with world(lambda r: (200, [("content-type", "application/json")], body), kind="registry") as (d, o):
            r = d.get("https", "api.example:443", "/token")
            expect(r.reason == "answer-undecodable" or r.code >= 0x62720000, (body[:60], r))
            expect("0123456789" not in r.body and "tttt" not in r.body, r)
    for body in (b'{"name":"x"}', b"[]", b"not json", b'{"a":"' + b"x" * 300000 + b'"}'):
        with world(lambda r: (200, [("content-type", "application/json")], body), kind="registry") as (d, o):
            r = d.get("https", "api.example:443", "/v2/_catalog")
            expect(r.status == 200 and r.total == len(body), (body[:60], r))


# ---- git over https ----

def t_push():
    """The pre-flight without an account, then a large body in chunks: each is sent once."""
    def answer(r):
        return (200, [], b"ok %d" % len(r.body)) if r["authorization"] else (401, [("www-authenticate", 'Basic realm="git"')], b"")
    holder = "ghp_brm" + "a" * 33
    with world(answer, kind="github", placeholder=holder) as (d, o):
        expect(d.get("https", "api.example:443", "/r.git/git-receive-pack", method="POST", body="0000").status == 401, "pre-flight")
        i = d.request("POST", "https", "api.example:443", "/r.git/git-receive-pack", ("authorization", "Basic " + base64.b64encode(("x:" + holder).encode()).decode()), stream=True)
        d.say("fill", i, 5000000), d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and r.body == "ok 5000000", r)
        expect([g["transfer-encoding"] for g in o.got] == ["chunked", "chunked"] and o.got[1]["expect"] == "", o.got[0])


def t_no_second_try():
    """A connection that ends under a request that may have been obeyed: told, not tried again; what is idempotent once more, on a new connection."""
    with world(lambda r: None if r.path == "/dies" else (200, [], b"ok")) as (d, o):
        expect(d.get("https", "api.example:443", "/", AUTH).status == 200, "keeps the connection")
        r = d.get("https", "api.example:443", "/dies", AUTH, method="POST", body="hello")
        expect(r.status == 502 and r.reason == "upstream-closed" and [g.path for g in o.got] == ["/", "/dies"], (r, o.got))
        expect(d.get("https", "api.example:443", "/", AUTH).status == 200, "keeps the connection")
        r = d.get("https", "api.example:443", "/dies", AUTH, method="PUT", body="hello")
        expect(r.status == 502 and [g.path for g in o.got[2:]] == ["/", "/dies", "/dies"] and [g.body for g in o.got[3:]] == [b"hello"] * 2, (r, o.got))


def t_its_last_word():
    """Which streams it took: the others go to the next door."""
    with world() as (d, o):
        expect(d.get("https", "api.example:443", "/", AUTH).status == 200, "serves")
        d.say("policy", d.policy_file("no rules at all"))
        expect(d.wait(lambda e: e["ev"] == "goaway")["code"] == 0, "it ends as it should")


for name, fn in list(globals().items()):
    if name.startswith("t_"):
        only = sys.argv[3:]
        if not only or name in only:
            tap(name[2:].replace("_", " "), fn)
sys.exit(tap.end())
