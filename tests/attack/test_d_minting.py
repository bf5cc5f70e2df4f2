"""D5: a registry's token server hands out a new secret in every way that there is; the guest gets a placeholder that works, or nothing. A stand-in plays registry and token server."""
import gzip
import json
import re
import zlib

from accounts import KEYS, Account, Brome, Search, configuration, start, tool
from attack import check
from world import Recorder, Skip, World

TOKEN = "eyJNintedMintedMinted0123456789.abcdef.ghijkl"
PASSWORD = "RealRegistryPassword01234567"
BOTH = {"token": TOKEN, "access_token": TOKEN, "expires_in": 300}
JSON = "Content-Type: application/json"


def answer(body, *fields, status="200 OK"):
    body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return f"HTTP/1.1 {status}\r\n".encode() + "".join(f + "\r\n" for f in fields).encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def by_chunks(body, *fields, n=1, trailers=""):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + n]), body[i:i + n]) for i in range(0, len(body), n))
    return ("HTTP/1.1 200 OK\r\n" + "".join(f + "\r\n" for f in fields) + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks + b"0\r\n" + trailers.encode() + b"\r\n"


def cases():
    """name -> what the server says. `good`: a placeholder comes; `pass`: it comes, without the token; `bad`: nothing of it comes."""
    plain = json.dumps(BOTH)
    br, zstd = tool("brotli", "-c")(plain.encode()), tool("zstd", "-c", "-q")(plain.encode())
    good = {
        "json": answer(BOTH, JSON), "no-type": answer(BOTH), "octets": answer(BOTH, "Content-Type: application/octet-stream"), "image": answer(BOTH, "Content-Type: image/png"),
        "jose": answer(BOTH, "Content-Type: application/jose"), "html": answer(BOTH, "Content-Type: text/html"), "two-types": answer(BOTH, "Content-Type: image/png", JSON),
        "created": answer(BOTH, JSON, status="201 Created"), "non-authoritative": answer(BOTH, status="203 Non-Authoritative Information"), "one-byte-chunks": by_chunks(plain.encode(), JSON),
        "access-only": answer({"access_token": TOKEN}, JSON), "with-refresh": answer({"token": TOKEN, "refresh_token": TOKEN + "r", "identity_token": TOKEN + "i", "Token": TOKEN, "x": {"token": TOKEN}}, JSON),
        "escaped": answer('{"t\\u006fken":"' + "".join(f"\\u{ord(c):04x}" for c in TOKEN) + '"}', JSON), "gzip": answer(gzip.compress(plain.encode()), "Content-Encoding: gzip"),
        "gzip-gzip": answer(gzip.compress(gzip.compress(plain.encode())), "Content-Encoding: gzip, gzip"), "deflate": answer(zlib.compress(plain.encode()), "Content-Encoding: deflate"),
        "cookie": answer(BOTH, JSON, f"Set-Cookie: t={TOKEN}; Path=/"), "header": answer(BOTH, JSON, f"X-Auth-Token: {TOKEN}", f"Authorization: Bearer {TOKEN}", f"X-What-Ever: <{TOKEN}>"),
        "trailer": by_chunks(plain.encode(), "Trailer: x-what", trailers=f"x-what: {TOKEN}\r\nx-auth-token: {TOKEN}\r\n"), "scope": answer({**BOTH, "scope": "of " + TOKEN}, JSON),
        "error-with-token": answer(BOTH, JSON, status="401 Unauthorized"), **({"br": answer(br, "Content-Encoding: br")} if br else {}), **({"zstd": answer(zstd, "Content-Encoding: zstd")} if zstd else {}),
    }
    passes = {
        "error": answer({"errors": [{"code": "DENIED"}]}, JSON, f"Set-Cookie: t={TOKEN}", status="403 Forbidden"), "nothing": b"HTTP/1.1 204 No Content\r\nX-Auth-Token: " + TOKEN.encode() + b"\r\n\r\n",
        "empty": answer("", f"X-Registry-Auth: {TOKEN}"), "moved": answer("", "Location: https://auth.example/token?service=x", f"Set-Cookie: t={TOKEN}", status="302 Found"),
        "hints": f"HTTP/1.1 103 Early Hints\r\nX-Auth-Token: {TOKEN}\r\n\r\n".encode() + answer("", status="404 Not Found"),
    }
    bad = {
        "text": answer(TOKEN, "Content-Type: text/plain"), "bare-octets": answer(TOKEN, "Content-Type: application/octet-stream"), "form": answer(f"access_token={TOKEN}&expires_in=300", "Content-Type: application/x-www-form-urlencoded"),
        "xml": answer(f"<token>{TOKEN}</token>", "Content-Type: application/xml"), "string": answer(json.dumps(TOKEN), JSON), "list": answer([BOTH], JSON), "nested": answer({"data": BOTH}, JSON),
        "other-case": answer({"Token": TOKEN}, JSON), "other-name": answer({"jwt": TOKEN}, JSON), "camel": answer({"accessToken": TOKEN}, JSON), "refresh-only": answer({"refresh_token": TOKEN}, JSON),
        "identity-only": answer({"identity_token": TOKEN}, JSON), "twice": answer('{"token":"' + TOKEN + '","token":"' + TOKEN + '2"}', JSON), "trailing": answer(plain + " x", JSON), "two-values": answer(plain + plain, JSON),
        "two-values-escaped": answer(plain.replace("token", "t\\u006fken") + "{}", JSON), "bom": answer(b"\xef\xbb\xbf" + plain.replace("token", "t\\u006fken").encode(), JSON), "utf-16": answer(plain.encode("utf-16"), JSON),
        "comment": answer("/**/" + plain, JSON), "single-quotes": answer(plain.replace('"', "'"), JSON), "number": answer({"token": 1234567890123456}, JSON), "blank": answer({"token": TOKEN + " x"}, JSON), "large": answer(" " * 300_000 + plain, JSON),
        "large-octets": answer({**BOTH, "x": "y" * 300_000}, "Content-Type: application/octet-stream"), "large-chunks": by_chunks((" " * 300_000 + plain).encode(), n=4096), "undeclared-gzip": answer(gzip.compress(plain.encode()), JSON),
        "unknown-coding": answer(BOTH, "Content-Encoding: compress"), "cut-gzip": answer(gzip.compress(plain.encode())[:-9], "Content-Encoding: gzip"), "part": answer(BOTH, "Content-Range: bytes 0-9/10", status="206 Partial Content"),
        "events": answer("data: " + plain + "\n\n", "Content-Type: text/event-stream"), "multipart": answer(f'--b\r\n\r\n{plain}\r\n--b--', "Content-Type: multipart/mixed; boundary=b"), "moved-with-token": answer("", f"Location: https://auth.example/in?token={TOKEN}", status="302 Found"),
        "moved-with-fragment": answer("", f"Location: /in#access_token={TOKEN}", status="302 Found"), "error-other-case": answer({"TOKEN": TOKEN}, JSON, status="401 Unauthorized"), "jsonp": answer(f"x({plain})", "Content-Type: text/javascript"),
        "until-it-closes": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + TOKEN.encode(), "guid-json-type": answer({"id_token": TOKEN}, "Content-Type: application/vnd.x+json"),
    }
    return good, passes, bad


def serve(w, c, data):
    if b"\r\n\r\n" not in data:
        return False
    end = data.rfind(b"\r\n\r\n")
    head = data[data.rfind(b"\r\n\r\n", 0, end) + 4 if data.count(b"\r\n\r\n") > 1 else 0:end].decode("latin-1")
    path = re.match(r"\S+ (\S+)", head)[1]
    name = path.split("?")[0].rpartition("/")[2]
    if path.startswith("/v2/"):
        c.sendall(answer("", 'WWW-Authenticate: Bearer realm="https://auth.example/give",service="oci.example"', status="401 Unauthorized") if "uthorization: Bearer" not in head and "uthorization: bearer" not in head else answer("in"))
    else:
        c.sendall(w.cases.get(name) or answer("what?", status="404 Not Found"))
    return name == "until-it-closes"


def make_world():
    w = World()
    w.good, w.passes, w.bad = cases()
    w.cases = {**w.good, **w.passes, **w.bad}
    for name in ("oci.example", "auth.example"):
        w.dns.set(name, "203.0.113.20")
    w.origin = Recorder("203.0.113.20", 443, w.server_tls("oci.example", "auth.example"), lambda c, d: serve(w, c, d))
    w.accounts = [Account(w, "oci", "registry", PASSWORD, ["oci.example", "auth.example"], user="builder")]
    w.b = Brome(w, configuration(w.accounts, "s", "allow web { oci.example, auth.example }"))
    start(w.b, w.accounts)
    w.held = w.accounts[0].held(w.b)
    return w


def get(w, url, *options):
    return w.b("exec", "-T", "s", "--", "curl", "-sSi", "--compressed", "--raw", "-m", "20", *options, url, text=False)


def get_all(w, urls, *options):
    """The same for many, in one command: name -> head and body."""
    more = " ".join(options)
    script = "".join(f"printf '\\n=====%s\\n' {name}; curl -sSi --compressed --raw -m 20 {more} -u 'builder:{w.held}' '{url}' 2>&1\n" for name, url in urls.items())
    out = w.b("exec", "-T", "s", "--", "sh", "-c", script, text=False, timeout=120).stdout
    return {part.split(b"\n", 1)[0].decode(): part.split(b"\n", 1)[1] for part in out.split(b"\n=====")[1:]}


def need_brome():
    if KEYS == "guest":
        raise Skip("only brome's answers are of interest")


def leaks(data):
    text = data.decode("latin-1")
    unescaped = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text)
    return [t for t in (text, unescaped, text.replace("\0", "")) if "eyJNinted" in t] or "1234567890123456" in text or data[:2] == b"\x1f\x8b" or b"\r\n\r\n\x1f\x8b" in data


def test_every_answer_of_a_token_server(w):
    """By the usual path with what is asked for, and by a path that only the challenge named."""
    need_brome()
    problems = []
    assert b" 401 " in get(w, "https://oci.example/v2/").stdout  # here it is named
    for where in ("https://auth.example/token/{}?service=oci.example", "https://auth.example/give/{}"):
        version = "--http1.1" if "give" in where else "--http2"  # each case over both, each way once
        for name, out in get_all(w, {name: where.format(name) for name in w.cases}, version).items():
            said = (where, version, name, out[:500])
            if leaks(out):
                problems.append(("the token is there", *said))
            elif name in w.good and not (re.search(rb'token":"brm_', out) and re.search(rb"HTTP/\S+ [24]0", out)):
                problems.append(("no placeholder", *said))
            elif name in w.bad and not re.search(rb"HTTP/\S+ 502", out):
                problems.append(("it is not refused", *said))
            elif name in w.passes and not re.search(rb"HTTP/\S+ (200|204|302|403|404)", out):
                problems.append(("it does not pass", *said))
            if re.search(rb"(?i)\n(set-cookie|x-auth-token|authorization|x-registry-auth):", out):
                problems.append(("a field that may hold one", *said))
    check(problems)
    assert PASSWORD.encode() not in w.origin.bytes[0]  # it travels in base64
    looks = Search(w.b, w.held, PASSWORD, TOKEN)
    looks()
    looks.check()


def test_the_placeholder_works(w):
    need_brome()
    got = json.loads(get(w, "https://auth.example/token/json?service=oci.example", "-u", f"builder:{w.held}").stdout.rpartition(b"\r\n\r\n")[2])
    assert got["token"] == got["access_token"] and got["expires_in"] == 300, got
    p = get(w, "https://oci.example/v2/acme/manifests/1", "-H", f"Authorization: Bearer {got['token']}")
    assert b" 200" in p.stdout[:16] and p.stdout.endswith(b"in"), p
    assert any(f"uthorization: Bearer {TOKEN}".encode() in b for b in w.origin.bytes)


def test_more_tokens_than_are_kept(w):
    """The table is bounded; the newest are good, the oldest are refused here, and never sent as they are."""
    need_brome()
    w.cases.update({f"next-{i}": answer({"token": f"{TOKEN}{i:03d}", "expires_in": 300 + i}, JSON) for i in range(50)})
    got = get_all(w, {f"n{i}": f"https://auth.example/token/next-{i}?service=x" for i in range(50)})
    names = [re.search(rb'"token":"([^"]+)', got[f"n{i}"])[1].decode() for i in range(50)]
    assert len(set(names)) == 50
    p = get(w, "https://oci.example/v2/a/manifests/1", "-H", f"Authorization: Bearer {names[-1]}")
    assert b" 200" in p.stdout[:16] and any(f"{TOKEN}049".encode() in b for b in w.origin.bytes), p
    p = get(w, "https://oci.example/v2/a/manifests/1", "-H", f"Authorization: Bearer {names[0]}")
    assert b" 403" in p.stdout[:16] and not any(names[0].encode() in b for b in w.origin.bytes), p
