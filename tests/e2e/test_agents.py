"""Real coding agents from npm in a workspace, over the transparent path, against stand-ins of their model APIs: each is asked once, is told to
run a command, runs it inside and sends the result back. The rules and the environment are those of presets/agents; nothing else is allowed,
so whatever an agent asks for besides inference is refused and it goes on without."""
import re
import shutil
import subprocess

import search
from ground import inside, ordinary_user, tree
from models import Models
from world import TOP, Brome, Skip, World

# Who holds the key: "guest" (it is given by --env), or "brome" (a credential; the guest holds a placeholder, the origin sees the key).
KEYS = "guest"

ORIGIN = ("203.0.113.20", 8443)  # pinned by `host`; the agents dial 443
# No substitution in it: gemini refuses to run one. The sum shows that a shell ran it, the file that it ran in the workspace.
COMMAND = "expr 600 + 65 | tee tool-ran; env"


class Agent:
    def __init__(self, name, argv, key, variable, field, paths, folder=None):
        self.name, self.argv, self.key, self.variable, self.field, self.paths = name, argv, key, variable, field, paths
        self.folder = TOP / "build/npm" / (folder or name)
        text = re.sub(r"\s#.*|^#.*", "", (TOP / "presets/agents" / f"{name}.conf").read_text(), flags=re.M)
        self.kind = re.search(r"\bkind (\S+)", text)[1]
        self.hosts = re.search(r"\bmodel \{ (.*?) \}", text)[1].split(", ")
        self.env = re.findall(r'\benv (\w+) "(.*)"', text)
        self.rules = re.search(r"\brules \{(.*?)\n\s*\}", text, re.S)[1]

    def installed(self):
        return (self.folder / "done").exists()

    def share(self):
        return f'share "{self.folder}" read-only' if self.installed() else ""

    def workspace(self, w, user="root"):
        secret = w.dir / f"{self.name}.{user}.key"
        secret.write_text(self.key)
        secret.chmod(0o600)
        shutil.chown(secret, user, user)
        if KEYS == "brome":
            return f"""
                credential {self.name} {{ kind {self.kind}; secret file "{secret}"; for {{ {', '.join(self.hosts)} }} }}
                workspace {self.name} {{ agent {self.name}; credential {self.name}; {self.share()} }}"""
        env = "\n".join(f'env {k} "{v}"' for k, v in self.env)
        return f'workspace {self.name} {{ {self.share()}\n{env}\nrules {{ {self.rules}\n default deny }} }}'


AGENTS = {a.name: a for a in (
    Agent("claude", "claude -p --dangerously-skip-permissions 'run it'",
          "sk-ant-api03-" + "dummy-" * 15, "ANTHROPIC_API_KEY", "x-api-key", {"/v1/messages?beta=true"}),
    # Where the key is a placeholder it stands in OPENAI_API_KEY, which codex does not read.
    Agent("codex", "CODEX_API_KEY=$OPENAI_API_KEY codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
          " --disable api_key_model_discovery --disable plugins -c analytics.enabled=false 'run it'",
          "sk-proj-" + "dummy" * 20, "OPENAI_API_KEY", "authorization", {"/v1/responses"}),
    Agent("gemini", "gemini --yolo -p 'run it'",
          "AIzaSy" + "Dummy" * 6 + "xyz", "GEMINI_API_KEY", "x-goog-api-key", None),
    Agent("opencode", "opencode run -m anthropic/claude-sonnet-4-5 'run it'",
          "sk-ant-api03-" + "other-" * 15, "ANTHROPIC_API_KEY", "x-api-key", {"/v1/messages"}),
)}
GEMINI_PATHS = re.compile(r"/v1beta/models/[^/:]+:(generateContent|countTokens|streamGenerateContent\?alt=sse)")


def make_world():
    w = World()
    w.models = Models(w, *ORIGIN, COMMAND)
    w.pins = "\n".join(f'host {h} {{ address {ORIGIN[0]} port {ORIGIN[1]}; ca file "{w.dir}/ca.pem" }}' for h in sorted({h for a in AGENTS.values() for h in a.hosts}))
    w.b = Brome(w, w.pins + "\n" + "\n".join(a.workspace(w) for a in AGENTS.values()))
    return w


def ask(w, name, variable=None, key=None, b=None):
    """One run of an agent; what the origin saw of it."""
    a, b = AGENTS[name], b or w.b
    if not a.installed():
        raise Skip(f"{name} is not installed: the npm registry was not reachable (tests/peers)")
    b("workspace", "start", name)  # it may run already
    w.models.forget()
    mark, asked = w.sniffer.mark(), len(w.dns.queries)
    env = ["-e", f"{variable or a.variable}={key or a.key}"] if KEYS == "guest" or key else []
    script = f"rm -rf /tmp/w && mkdir /tmp/w && cd /tmp/w && PATH={a.folder}/node_modules/.bin:$PATH && {a.argv} && echo && cat tool-ran"
    p = b("exec", "-T", *env, name, "--", "sh", "-c", script, timeout=180)
    said = f"{name}: exit {p.returncode}\n{p.stdout[-3000:]}\n{p.stderr[-3000:]}\n{w.models.seen()}\n{b.log()}"
    assert p.returncode == 0, said
    assert w.models.final in p.stdout and p.stdout.endswith("\n665\n"), said
    for packet in w.sniffer.since(mark):
        assert ORIGIN in ((packet["dst"], packet["dport"]), (packet["src"], packet["sport"])) or packet["dst"] == "127.0.0.1", f"{name} reached {packet}"
    assert not w.dns.queries[asked:], f"{name}: a pinned name needs no query, another one gets none: {w.dns.queries[asked:]}"
    return w.models.seen()


def is_result(r):
    return "665" in r.text and "/etc/ssl/certs/brome.pem" in r.text


def check(w, name, requests, field=None, key=None, hidden=False, b=None):
    """What the origin must have seen: inference only, each request with the key in its one field, and the command's result.
    hidden: the agent takes the key out of the environment of what it runs."""
    a, b = AGENTS[name], b or w.b
    key = key or a.key
    for r in requests:
        assert r.host in a.hosts, r
        assert r.target in a.paths if a.paths else GEMINI_PATHS.fullmatch(r.target), r
        assert r.method in ("POST", "MESSAGE") or r.kind == "websocket", r
        assert r.keys() == {field or a.field: key}, (r, r.keys())
    assert any(is_result(r) for r in requests), f"no request brought the command's result: {requests}"
    shown = any(key in r.text for r in requests)  # `env` was run: what the guest holds went to the model
    assert shown == (KEYS == "guest" and not hidden), f"{name}: the key in a body: {shown}"
    if KEYS == "brome":
        held = b.sh(name, f"printf %s ${a.variable}", check=0).stdout
        assert held and held != key and not any(held in r.everything() for r in requests), held
    allowed = [t for t in b.trace(workspace=name) if t.get("host") in a.hosts and t.get("verdict") == "allow"]
    assert allowed, "the trace has the requests"


def test_claude(w):
    check(w, "claude", ask(w, "claude"))


def test_claude_token(w):
    """An OAuth token, as a bearer."""
    if KEYS == "brome":
        raise Skip("the credential of this workspace is an API key")
    token = "sk-ant-oat01-" + "dummy-" * 15
    check(w, "claude", ask(w, "claude", "CLAUDE_CODE_OAUTH_TOKEN", token), "authorization", token, hidden=True)


def test_codex_websocket(w):
    requests = ask(w, "codex")
    check(w, "codex", requests)
    assert {r.kind for r in requests} == {"websocket", "message"}, requests


def test_codex_websocket_packed(w):
    """It offers permessage-deflate; an origin may take it. What the gate must read, the gate must see to."""
    w.models.deflate = True
    try:
        requests = ask(w, "codex")
    finally:
        w.models.deflate = False
    check(w, "codex", requests)
    if KEYS == "guest":  # nothing is to be looked for in the messages: the offer passes
        assert {r.kind for r in requests} == {"websocket", "packed"}, requests


def test_codex_sse(w):
    """An origin without WebSockets: it tries a few times, then streams."""
    w.models.websocket = False
    try:
        requests = ask(w, "codex")
    finally:
        w.models.websocket = True
    check(w, "codex", requests)
    assert sum(r.method == "POST" for r in requests) == 2, requests


def test_gemini(w):
    check(w, "gemini", ask(w, "gemini"))


def test_opencode(w):
    check(w, "opencode", ask(w, "opencode"))


def test_ordinary_user(w):
    """The same without root: guest root is then the user."""
    user, name = ordinary_user(), "codex"
    folder = AGENTS[name].folder
    if AGENTS[name].installed() and subprocess.run(["setpriv", "--reuid", user, "--clear-groups", "test", "-r", folder / "done"]).returncode:
        raise Skip(f"{user} cannot read {folder}")
    b = Brome(w, w.pins + "\n" + AGENTS[name].workspace(w, user), user=user)
    check(w, name, ask(w, name, b=b), b=b)


def test_where_the_key_is(w):
    """While each agent waits for the answer to its command's result: in whose memory, in which files. Where the guest holds the key itself,
    the search must find it there and in the inner door: the control."""
    for name, a in AGENTS.items():
        if not a.installed():
            continue
        guest, inner, files = set(), set(), []

        def look(r):
            if not is_result(r) or guest or inner:
                return
            processes = tree(w.b)
            for top in processes["guest"]:
                for pid in inside(top):
                    guest.update(search.in_memory(pid, a.key))
                for folder in ("root", "tmp", "etc", "run", "var", "home", "dev/shm"):
                    files.extend(search.in_files(f"/proc/{top}/root/{folder}", a.key))
            for pid in processes["brome-inner"]:
                inner.update(search.in_memory(pid, a.key))
            assert processes["guest"] and processes["brome-inner"], processes
            looked.append(name)
        looked = []
        w.models.before_answer = look
        try:
            ask(w, name)
        finally:
            w.models.before_answer = None
        assert looked == [name], "the search was made"
        if KEYS == "brome":
            assert not guest and not inner and not files, (name, guest, inner, files)
        else:
            assert a.key.encode() in guest and a.key.encode() in inner, (name, guest, inner, files)
        # Never in what brome itself writes down, whoever holds it.
        own = [f for f in search.in_files(w.b.dir, a.key) if "/home/" not in f]
        assert not own, own


def test_nothing_but_inference(w):
    """Files, batches, stored conversations, uploads, a key in the query: refused at the gate, whoever asks."""
    refused = {
        "claude": ["POST https://api.anthropic.com/v1/files", "POST https://api.anthropic.com/v1/messages/batches", "GET https://api.anthropic.com/v1/models",
                   "GET https://api.anthropic.com/v1/messages", "POST https://api.anthropic.com/api/event_logging/v2/batch", "POST https://api.anthropic.com/v1/messages?x=1",
                   "POST https://api.anthropic.com/v1/messages/../files", "POST https://api.anthropic.com/v1/messages%2f..%2ffiles"],
        "codex": ["POST https://api.openai.com/v1/files", "POST https://api.openai.com/v1/batches", "POST https://api.openai.com/v1/uploads", "GET https://api.openai.com/v1/responses/resp_1",
                  "POST https://api.openai.com/v1/conversations", "DELETE https://api.openai.com/v1/responses", "POST https://api.openai.com/v1/responses?api-key=1"],
        "gemini": ["POST https://generativelanguage.googleapis.com/v1beta/models/m:generateContent?key=x", "POST https://generativelanguage.googleapis.com/upload/v1beta/files",
                   "POST https://generativelanguage.googleapis.com/v1beta/models/m:batchGenerateContent", "POST https://generativelanguage.googleapis.com/v1beta/cachedContents",
                   "GET https://generativelanguage.googleapis.com/v1beta/models/m:generateContent", "POST https://generativelanguage.googleapis.com/v1beta/files/m:generateContent"],
        "opencode": ["POST https://api.anthropic.com/v1/files", "POST https://api.anthropic.com/v1/messages?beta=true"],
    }
    for name, requests in refused.items():
        w.b("workspace", "start", name)
        w.models.forget()
        for version in ("--http1.1", "--http2"):
            lines = "\n".join(f"curl -sS -o /dev/null --path-as-is {version} -m 20 -w '%{{http_code}}\\n' -X {r.split()[0]} {'-d x ' if r.startswith('POST') else ''}'{r.split()[1]}'" for r in requests)
            codes = w.b.sh(name, lines, check=0).stdout.split()
            assert len(codes) == len(requests) and all(c in ("400", "403") for c in codes), list(zip(codes, requests))
        assert not w.models.seen(), w.models.seen()
