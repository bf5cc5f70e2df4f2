"""Real clients with accounts, against real services that want them: git, npm, skopeo, pip, cargo, an MCP client. Each account's secret is put in by the gate; while the
first authenticated request waits, the memory, files and environment of the guest and the memory of the inner door are searched for it."""
import hashlib
import json
import os
import shutil

from accounts import KEYS, Account, Brome, Search, configuration, start, watched
from services import Front, Git, Mcp, Npm, Registry, basic, cargo_home, cargo_index, oci_image, python_index
from world import Skip, World

SECRETS = {
    "forge": "ghp_RealForgeSecret0123456789abcdefghijk", "lab": "glpat-RealLabSecret01234567", "repo": "deploy password: with / and @ in it",
    "stale": "ghp_RealStaleSecret0123456789abcdefghijk", "mirror": "RealMirrorKey0123456789abcdef", "oci": "RealRegistryPassword01234567",
    "shelf": "RealShelfPassword0123456789", "index": "pypi-RealIndexSecret0123456789abcdefghijklmnop", "crates": "cioRealCrateSecret0123456789abcd", "tool": "RealToolBearer0123456789abcdef",
}
CURL = "curl -sS -m 30 -o /dev/null -w '%{http_code}\\n' "


def optional(make):
    """A service that cannot be had here skips its own tests only."""
    try:
        return make(), None
    except Skip as e:
        return None, str(e)


def make_world():
    w = World()
    w.front, w.missing, s = Front(w), {}, SECRETS
    w.git, w.missing["git"] = optional(lambda: Git(w.front))
    if w.git:
        for name, user, password in (("forge.example", "x-access-token", s["forge"]), ("lab.example", "oauth2", s["lab"]), ("repo.example", "deploy", s["repo"]), ("stale.example", "x-access-token", "another")):
            w.git.site(name, user, password)
    w.npm, w.missing["npm"] = optional(lambda: Npm(w.front, "npm.example", "mirror.corp.example", s["mirror"]))
    w.oci, w.missing["oci"] = optional(lambda: Registry(w.front, "oci.example", "builder", s["oci"], "auth.example", port=5000))
    w.shelf, w.missing["shelf"] = optional(lambda: Registry(w.front, "shelf.example", "reader", s["shelf"], port=5002))
    python_index(w.front, "index.example", "__token__", s["index"])
    cargo_index(w.front, "crates.example", s["crates"])
    w.mcp, w.missing["mcp"] = optional(lambda: Mcp(w.front, "tool.example", s["tool"]))
    w.front.start()
    w.image, w.cargo = oci_image(w.dir / "image"), cargo_home()
    w.accounts = {a.name: a for a in (
        Account(w, "forge", "github", s["forge"], "forge.example"), Account(w, "lab", "gitlab", s["lab"], "lab.example"),
        Account(w, "repo", "basic", s["repo"], "repo.example", user="deploy"), Account(w, "stale", "github", s["stale"], "stale.example"),
        *([Account(w, "npm", "npm", w.npm.token, "npm.example"), Account(w, "mirror", "bearer", s["mirror"], "mirror.corp.example", "attach")] if w.npm else []),
        Account(w, "oci", "registry", s["oci"], ["oci.example", "auth.example"], user="builder"), Account(w, "shelf", "registry", s["shelf"], "shelf.example", user="reader"),
        Account(w, "index", "pypi", s["index"], "index.example"), Account(w, "crates", "cargo", s["crates"], "crates.example"), Account(w, "tool", "mcp", s["tool"], "tool.example"))}
    hosts = ", ".join(h for a in w.accounts.values() for h in a.hosts if not a.attach)
    via = f'allow web registry.example as npm via "https://mirror.corp.example{Npm.PREFIX}"\n' if w.npm and KEYS == "brome" else ""
    shares = "\n".join(f'share "{f}" read-only' for f in (w.image, w.cargo, Mcp.FOLDER if w.mcp else None) if f)
    w.b = Brome(w, configuration(list(w.accounts.values()), "s", f"{via}allow web {{ {hosts} }}", shares))
    start(w.b, w.accounts.values())
    Search.skip = [w.cargo] if w.cargo else []
    return w


def need(w, service=None, *programs):
    if service and not getattr(w, service):
        raise Skip(w.missing[service])
    for p in programs:
        if not shutil.which(p, path="/usr/local/bin:/usr/bin:/bin"):
            raise Skip(f"{p} is not installed")


def run(w, script, check=0, **kw):
    return w.b.sh("s", script, check=check, timeout=180, **kw)


def arrived(w, mark, host, *authorizations):
    """What came at that origin: exactly these values, the first of which may be none (the pre-flight)."""
    rows = w.front.some(mark, host=host, authorization=authorizations[-1])
    assert {r["authorization"] for r in w.front.seen(mark, host=host)} <= {"", *authorizations}, w.front.seen(mark, host=host)
    return rows


# ---- git ------------------------------------------------------------------------------------------------------------------------------------

def clone_push(w, host, account, user):
    need(w, "git", "git")
    a, mark = w.accounts[account], w.front.mark()
    want = basic(user, a.secret)
    script = f"""set -e; export GIT_TERMINAL_PROMPT=0; rm -rf ~/tool; cd; git clone -q https://{host}/acme/tool.git; cd tool; cat README
        git config user.name t; git config user.email t@t.example"""
    out = watched(w.front, w.b, [a], lambda: run(w, script)).stdout
    assert out == "a repository\n", out
    rows = arrived(w, mark, host, want)
    assert w.front.seen(mark, host=host)[0]["status"] == 401 and rows[-1]["uri"].endswith("/git-upload-pack"), rows
    # More than http.postBuffer (1 MiB): git asks with four bytes first, then sends chunks. Two of them: one just above, one of eight MiB.
    for size in ((1 << 20) + 4096, 8 << 20):
        mark = w.front.mark()
        out = run(w, f"set -e; cd ~/tool; head -c {size} /dev/urandom >data; git add data; git commit -qm data; git push -q origin HEAD:refs/heads/agent; git rev-parse HEAD").stdout
        assert w.git.head(host, "agent") == out.strip()
        rows = arrived(w, mark, host, want)
        pushed = [r for r in rows if r["uri"].endswith("/git-receive-pack") and r["method"] == "POST"]
        assert len(pushed) == 2 and pushed[0]["length"] < 4096 and pushed[1]["length"] > size, pushed
    run(w, "set -e; cd ~/tool; git fetch -q; git log --oneline origin/agent | wc -l")


def test_git_github(w):
    clone_push(w, "forge.example", "forge", "x-access-token")


def test_git_gitlab(w):
    clone_push(w, "lab.example", "lab", "oauth2")


def test_git_basic(w):
    """A password with everything in it that a URL does not take, held by the gate."""
    if KEYS == "guest":
        raise Skip("the password cannot stand in .git-credentials as it is")
    clone_push(w, "repo.example", "repo", "deploy")


def test_git_wrong_password(w):
    """The server says no to the secret that the gate put in: the client hears it, and the placeholder was not sent."""
    need(w, "git", "git")
    a, mark = w.accounts["stale"], w.front.mark()
    p = run(w, "GIT_TERMINAL_PROMPT=0 git clone -q https://stale.example/acme/tool.git ~/stale", check=128)
    assert "could not read" in p.stderr or "Authentication failed" in p.stderr, p.stderr
    rows = arrived(w, mark, "stale.example", basic("x-access-token", a.secret))
    assert {r["status"] for r in rows} == {401}, rows


def test_git_token_in_the_url(w):
    """As CI does it: the token as user name, alone or with x-oauth-basic."""
    need(w, "git", "git")
    a = w.accounts["forge"]
    held = a.held(w.b)
    for userinfo, arrives in ((f"{held}", basic(a.secret, "")), (f"{held}:x-oauth-basic", basic(a.secret, "x-oauth-basic")), (f"x-access-token:{held}", basic("x-access-token", a.secret))):
        mark = w.front.mark()
        p = run(w, f"GIT_TERMINAL_PROMPT=0 git -c credential.helper= ls-remote https://{userinfo}@forge.example/acme/tool.git", check=None)
        rows = w.front.some(mark, host="forge.example", authorization=arrives)
        assert (p.returncode == 0) == (rows[-1]["status"] == 200), (p, rows)


# ---- npm ------------------------------------------------------------------------------------------------------------------------------------

def test_npm_scope(w):
    """An authenticated scope from the real Verdaccio: nothing in the project but its registry."""
    need(w, "npm", "npm")
    a, mark = w.accounts["npm"], w.front.mark()
    script = """set -e; rm -rf ~/p ~/.npm; mkdir ~/p; cd ~/p; printf '@acme:registry=https://npm.example/\\nregistry=https://npm.example/\\n' >.npmrc; echo '{}' >package.json
        npm install --no-audit --no-fund @acme/thing >/dev/null; node -p 'require("@acme/thing")'"""
    assert watched(w.front, w.b, [a], lambda: run(w, script)).stdout == "42\n"
    rows = arrived(w, mark, "npm.example", f"Bearer {w.npm.token}")
    assert {"/@acme%2fthing", "/@acme/thing/-/thing-1.0.0.tgz", "/left-thing"} <= {r["uri"].replace("%2F", "%2f") for r in rows}, rows
    assert run(w, "cd ~/p; npm whoami").stdout == "reader\n"
    lock = run(w, "cat ~/p/package-lock.json").stdout
    assert "https://npm.example/" in lock and w.npm.token not in lock


def test_npm_publish(w):
    """What the account may do, it does: the rule here allows every method."""
    need(w, "npm", "npm")
    run(w, """set -e; rm -rf ~/q; mkdir ~/q; cd ~/q; echo 'registry=https://npm.example/' >.npmrc; echo '{"name": "from-inside", "version": "1.0.0"}' >package.json; npm publish; npm dist-tag add from-inside@1.0.0 beta""")
    assert w.npm.document("from-inside")["dist-tags"]["beta"] == "1.0.0"


def via(w):
    need(w, "npm", "npm")
    if KEYS == "guest":
        raise Skip("`via` needs an account of the gate")


def test_npm_via_mirror(w):
    """The client keeps its registry's usual name; the mirror gets the key, and what the client sent as its account is gone."""
    via(w)
    a, mark, asked = w.accounts["mirror"], w.front.mark(), len(w.dns.queries)
    script = """set -e; rm -rf ~/m ~/.npm; mkdir ~/m; cd ~/m; printf 'registry=https://registry.example/\\n//registry.example/:_authToken=npm_somebodyelses0123456789abcdef\\n' >.npmrc; echo '{}' >package.json
        npm install --no-audit --no-fund @acme/thing >/dev/null; node -p 'require("@acme/thing")'"""
    assert watched(w.front, w.b, [a], lambda: run(w, script)).stdout == "42\n"
    rows = w.front.some(mark, 4, host="mirror.corp.example")
    assert {r["authorization"] for r in rows} == {f"Bearer {a.secret}"} and not [r for r in w.front.seen(mark) if r["host"] != "mirror.corp.example"], w.front.seen(mark)
    wanted = {"/api/npm/npm/@acme%2fthing", "/api/npm/npm/@acme/thing/-/thing-1.0.0.tgz", "/api/npm/npm/left-thing", "/api/npm/npm/left-thing/-/left-thing-1.0.0.tgz"}
    came = {r["uri"].replace("%2F", "%2f") for r in rows}
    assert wanted <= came <= wanted | {"/api/npm/npm/npm"}, rows  # it asks whether there is a newer npm
    assert "npm_somebody" not in json.dumps(rows) and {r["cookie"] for r in rows} == {""}, rows
    lock = run(w, "cat ~/m/package-lock.json").stdout
    assert "https://registry.example/left-thing/-/left-thing-1.0.0.tgz" in lock and "mirror" not in lock, lock
    assert not [q for q, _ in w.dns.queries[asked:] if "registry.example" in q], "nobody asks for the name that is re-routed"


def test_npm_via_reads_only(w):
    """`as npm`: nothing but what an install reads."""
    via(w)
    mark, base = w.front.mark(), "https://registry.example"
    refused = ["-X PUT -d '{}' {}/left-thing", "-X PUT -d '\"1.0.0\"' {}/-/package/left-thing/dist-tags/msg", "{}/-/v1/search?text=secret", "{}/left-thing?write=true", "-X DELETE {}/left-thing/-rev/1",
               "-X POST -d '{}' {}/-/npm/v1/security/advisories/bulk", "{}/-/whoami", "{}/-/user/org.couchdb.user:x", "{}/left-thing/../../../secret --path-as-is", "{}/left-thing%2f..%2fx", "-d x -X GET {}/left-thing",
               "{}/-/npm/v1/tokens", "{}/left-thing/-/right-thing-1.0.0.tgz", "-H 'X-HTTP-Method-Override: PUT' {}/left-thing", "-H 'Upgrade: websocket' -H 'Connection: upgrade' --http1.1 {}/left-thing"]
    for version in ("--http1.1", "--http2"):
        codes = run(w, "\n".join(CURL + version + " " + r.replace("{}/", base + "/") for r in refused)).stdout.split()
        assert [c for c in codes if c not in ("403", "400")] == [] and len(codes) == len(refused), list(zip(codes, refused))
    assert not w.front.seen(mark), w.front.seen(mark)
    p = run(w, "cd ~/q 2>/dev/null || cd; npm dist-tag add left-thing@1.0.0 mail --registry https://registry.example/ --//registry.example/:_authToken=x", check=None)
    assert p.returncode != 0 and "mail" not in w.npm.document("left-thing")["dist-tags"]
    # What a client adds stays behind: it is rebuilt, not filtered.
    mark = w.front.mark()
    out = run(w, CURL + f"-H 'X-Smuggled: out' -H 'Cookie: a=out' -A out-agent -H 'Authorization: Bearer out' -H 'npm-session: out' -H 'Referer: out' -H 'Accept: out' {base}/left-thing").stdout
    rows = w.front.some(mark, host="mirror.corp.example")
    assert out == "200\n" and len(rows) == 1 and "out" not in json.dumps([rows[0][k] for k in ("smuggled", "cookie", "agent", "authorization", "query")]), (out, rows)
    assert w.front.seen(mark)[0]["authorization"] == f"Bearer {SECRETS['mirror']}"


# ---- container registry -----------------------------------------------------------------------------------------------------------------------

SKOPEO = "skopeo --insecure-policy --override-os linux --override-arch amd64 "


class Tokens(Search):
    """Looks for the tokens that were given out by then, too, and at every request."""

    def __init__(self, b, held, password, server):
        super().__init__(b, held, password)
        self.password, self.server = password, server

    def __call__(self, request):
        if request.headers.get("authorization", "").startswith("Bearer") and self.looks < 4:
            self.secrets = [self.password] + [t for token in self.server.issued for t in (token, token.rsplit(".", 1)[1])]
            self.looks += 1
            self.now()


def test_registry_tokens(w):
    """skopeo's whole dance: challenge, token for Basic, push and pull. The guest never has a real token."""
    need(w, "oci", "skopeo")
    a, tokens = w.accounts["oci"], w.oci.tokens
    w.front.looker.before, mark, first = Tokens(w.b, a.held(w.b), a.secret, tokens), w.front.mark(), len(tokens.issued)
    looks = w.front.looker.before
    try:
        run(w, f"set -e; {SKOPEO} copy oci:{w.image}:one docker://oci.example/acme/thing:1 >/dev/null; {SKOPEO} inspect docker://oci.example/acme/thing:1 >/tmp/inspected")
        run(w, f"set -e; rm -rf /tmp/back; {SKOPEO} copy docker://oci.example/acme/thing:1 oci:/tmp/back:one >/dev/null")
    finally:
        w.front.looker.before = None
    assert not w.front.looker.errors, w.front.looker.errors
    looks.check()
    assert json.loads(run(w, "cat /tmp/inspected").stdout)["Name"] == "oci.example/acme/thing"
    layer = hashlib.sha256((w.image / "layer.tar").read_bytes()).hexdigest()
    assert layer in run(w, "cat /tmp/back/blobs/sha256/*").stdout, "the layer came back"
    asked = tokens.asked
    assert asked and all(got in (None, basic("builder", a.secret)) for got, _ in asked), asked
    issued = tokens.issued[first:]
    came = {r["authorization"] for r in w.front.seen(mark, host="oci.example")} - {""}
    assert issued and came <= {f"Bearer {t}" for t in issued}, "the registry got real tokens, and nothing else"
    assert any("push" in " ".join(q.get("scope", [])) for _, q in asked) and any(" ".join(q.get("scope", [])).endswith(":pull") for _, q in asked), asked


def token(w, scope="repository:acme/thing:pull"):
    held = w.accounts["oci"].held(w.b)
    return run(w, f"curl -sS -u builder:{held} 'https://auth.example/token?service=oci.example&scope={scope}'").stdout


def test_registry_token_by_hand(w):
    """What the token server answers is re-minted; it works at the registry, twice, and nowhere else in its form."""
    need(w, "oci", "skopeo")
    first = len(w.oci.tokens.issued)
    said = json.loads(token(w))
    real = w.oci.tokens.issued[first]
    assert set(said) >= {"token", "expires_in"} and (real in json.dumps(said)) == (KEYS == "guest"), said
    mark = w.front.mark()
    run(w, f"{SKOPEO} copy oci:{w.image}:one docker://oci.example/acme/thing:1")
    w.front.some(mark, host="oci.example", method="PUT", uri="/v2/acme/thing/manifests/1")  # its line may come late
    mark = w.front.mark()
    out = run(w, (CURL + f"-H 'Authorization: Bearer {said['token']}' https://oci.example/v2/acme/thing/manifests/1 -H 'Accept: application/vnd.oci.image.manifest.v1+json';") * 2).stdout
    assert out.split() == ["200", "200"], out
    arrived(w, mark, "oci.example", f"Bearer {real}")
    if KEYS == "brome":
        assert run(w, CURL + f"-H 'Authorization: Bearer {real}' https://oci.example/v2/acme/thing/manifests/1").stdout == "403\n", "a real token is an account that is not the workspace's"


def test_registry_basic(w):
    need(w, "shelf", "skopeo")
    a, mark = w.accounts["shelf"], w.front.mark()
    watched(w.front, w.b, [a], lambda: run(w, f"set -e; {SKOPEO} copy oci:{w.image}:one docker://shelf.example/acme/thing:1; {SKOPEO} inspect docker://shelf.example/acme/thing:1"))
    arrived(w, mark, "shelf.example", basic("reader", a.secret))


# ---- pip, cargo, MCP --------------------------------------------------------------------------------------------------------------------------

def test_pip(w):
    need(w, None, "pip3")
    a, mark = w.accounts["index"], w.front.mark()
    script = "rm -rf ~/py; pip3 install -q --disable-pip-version-check --no-cache-dir --no-input --root-user-action ignore --target ~/py --index-url https://index.example/simple/ tiny-thing && PYTHONPATH=~/py python3 -c 'import tiny_thing; print(tiny_thing.answer)'"
    assert watched(w.front, w.b, [a], lambda: run(w, script)).stdout == "42\n"
    rows = arrived(w, mark, "index.example", basic("__token__", a.secret))
    assert any(r["uri"].endswith(".whl") for r in rows), rows


def test_cargo(w):
    if not w.cargo:
        raise Skip("no cargo that knows registries with tokens (1.74)")
    a, mark = w.accounts["crates"], w.front.mark()
    script = f"""set -e; export PATH={w.cargo}/bin:$PATH; rm -rf ~/app; mkdir -p ~/app/src ~/app/.cargo; cd ~/app; printf '[registries.crates]\\nindex = "sparse+https://crates.example/index/"\\n' >.cargo/config.toml
        printf '[package]\\nname = "app"\\nversion = "0.1.0"\\nedition = "2021"\\n[dependencies]\\ntiny-crate = {{ version = "1", registry = "crates" }}\\n' >Cargo.toml; echo 'fn main() {{}}' >src/main.rs
        cargo fetch -q; cat ~/.cargo/registry/src/*/tiny-crate-1.0.0/src/lib.rs"""
    assert "answer" in watched(w.front, w.b, [a], lambda: run(w, script)).stdout
    rows = arrived(w, mark, "crates.example", a.secret)
    assert {"/index/config.json", "/index/ti/ny/tiny-crate", "/dl/tiny-crate/1.0.0"} <= {r["uri"] for r in rows if r["status"] == 200}, rows


MCP_CLIENT = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import fs from 'node:fs'; import os from 'node:os';
const server = JSON.parse(fs.readFileSync(os.homedir() + '/.claude.json')).mcpServers.tool;
const client = new Client({ name: 'test', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } }));
const tools = (await client.listTools()).tools.map(t => t.name), said = {}, steps = [];
said.echo = (await client.callTool({ name: 'echo', arguments: { message: 'hello' } })).content[0].text;
said.sum = (await client.callTool({ name: tools.find(t => /sum|add/.test(t)), arguments: { a: 600, b: 65 } })).content[0].text;
said.env = (await client.callTool({ name: tools.find(t => /env/i.test(t)), arguments: {} })).content[0].text.length;
said.long = (await client.callTool({ name: tools.find(t => /long-?running/i.test(t)), arguments: { duration: 1, steps: 4 } }, undefined, { onprogress: p => steps.push(p.progress) })).content[0].text;
console.log(JSON.stringify({ said, steps, tools: tools.length, held: process.env.MCP_BEARER_TOKEN, header: server.headers.Authorization }));
await client.close();
"""


def test_mcp(w):
    """The real client and server of the protocol over streamable HTTP: calls, a stream of progress, and the file that clients read."""
    need(w, "mcp", "node")
    a, mark = w.accounts["tool"], w.front.mark()
    run(w, f"mkdir -p ~/mcp; ln -sfn {Mcp.FOLDER}/node_modules ~/mcp/node_modules; cat >~/mcp/client.mjs", input=MCP_CLIENT)
    out = watched(w.front, w.b, [a], lambda: run(w, "cd ~/mcp && node client.mjs"))
    told = json.loads(out.stdout)
    assert "hello" in told["said"]["echo"] and "665" in told["said"]["sum"] and "ompleted" in told["said"]["long"] and told["said"]["env"] > 10 and len(told["steps"]) >= 3, told
    assert told["header"] == f"Bearer {told['held']}" and (KEYS == "guest" or told["held"].startswith("brm-mcp_")), told
    w.front.some(mark, host="tool.example", method="GET")  # the stream, cut at the end
    rows = arrived(w, mark, "tool.example", f"Bearer {a.secret}")
    assert {"POST", "GET"} <= {r["method"] for r in rows} and len(rows) >= 6, rows
    assert {r["status"] for r in rows if r["method"] == "POST"} <= {200, 202}, rows


def test_what_they_hold(w):
    """All accounts of one workspace: variables and files hold different placeholders, each of its kind's shape, and no secret."""
    if KEYS == "guest":
        raise Skip("this is about placeholders")
    env = dict(line.split("=", 1) for line in run(w, "env").stdout.splitlines() if "=" in line)
    held = {a.name: a.held(w.b) for a in w.accounts.values() if not a.attach}
    assert len(set(held.values())) == len(held) and all("brm" in v for v in held.values()), held
    for name, variables in {"forge": ("GITHUB_TOKEN", "GH_TOKEN"), "lab": ("GITLAB_TOKEN",), "npm": ("NPM_TOKEN",), "index": ("TWINE_PASSWORD",), "crates": ("CARGO_REGISTRIES_CRATES_TOKEN",), "tool": ("MCP_BEARER_TOKEN",)}.items():
        for v in variables:
            assert name not in held or env.get(v) in held.values(), (v, env.get(v))
    assert held["forge"].startswith("ghp_") and len(held["forge"]) == 40 and held["lab"].startswith("glpat-"), held
    assert not any(s in v for s in SECRETS.values() for v in env.values())
    looks = Search(w.b, held["forge"], *[a.secret for a in w.accounts.values()])
    looks()
    looks.check()


def test_ordinary_user(w):
    """The same without root: git over https, and the package index."""
    need(w, "git", "git", "pip3")
    from ground import ordinary_user
    user, s = ordinary_user(), SECRETS
    accounts = [Account(w, "forge", "github", s["forge"], "forge.example", owner=user), Account(w, "index", "pypi", s["index"], "index.example", owner=user)]
    b = Brome(w, configuration(accounts, "s", "allow web { forge.example, index.example }"), user=user)
    start(b, accounts)
    mark = w.front.mark()
    out = watched(w.front, b, accounts, lambda: b.sh("s", "cd && GIT_TERMINAL_PROMPT=0 git clone -q https://forge.example/acme/tool.git && cat tool/README", check=0)).stdout
    assert out == "a repository\n", out
    arrived(w, mark, "forge.example", basic("x-access-token", s["forge"]))
    b.sh("s", "pip3 download -q --disable-pip-version-check --no-cache-dir --no-input -d /tmp/d --index-url https://index.example/simple/ tiny-thing", check=0)
    arrived(w, mark, "index.example", basic("__token__", s["index"]))
    assert os.path.exists(w.accounts["forge"].file)
