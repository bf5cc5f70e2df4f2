"""Real coding agents from npm in a workspace, over the transparent path, against stand-ins of their model APIs: each is asked once, is told to
run a command, runs it inside and sends the result back. The rules and the environment are those of presets/agents; nothing else is allowed,
so whatever an agent asks for besides inference is refused and it goes on without."""
import os
import re
import shlex
import shutil
import subprocess

import search
from ground import inside, ordinary_user, tree
from models import Models
from world import TOP, Brome, Skip, World, sh, wait_for

# Who holds the key: "brome" (a credential; the guest holds a placeholder, the origin sees the key), or "guest" (it is given by --env): the same over the same gate, as
# a control of every search. (BROME_TEST_KEYS=guest tests/run.py …)
KEYS = os.environ.get("BROME_TEST_KEYS", "brome")

ORIGIN = ("203.0.113.20", 8443)  # pinned by `host`; the agents dial 443
# No substitution in it: gemini refuses to run one. The sum shows that a shell ran it, the file that it ran in the workspace.
COMMAND = "expr 600 + 65 | tee tool-ran; env"


class Agent:
    def __init__(self, name, argv, key, variable, field, paths, more=""):
        """more: words of the command that brome's files and variables make needless."""
        self.name, self.key, self.variable, self.field, self.paths = name, key, variable, field, paths
        self.argv = argv if KEYS == "brome" else argv.replace(" 'run it'", f"{more} 'run it'")
        self.folder = (TOP / "build/npm" / name).resolve()
        text = re.sub(r"\s#.*|^#.*", "", (TOP / "presets/agents" / f"{name}.conf").read_text(), flags=re.M)
        self.kind = re.search(r"\bkind (\S+)", text)[1]
        self.hosts = re.search(r"\bmodel \{ (.*?) \}", text)[1].split(", ")
        self.env = re.findall(r'\benv (\w+) "(.*)"', text)
        self.rules = re.search(r"\brules \{(.*?)\n\s*\}", text, re.S)[1]

    def installed(self):
        return (self.folder / "done").exists()

    def share(self):
        return f'share "{self.folder}" read-only' if self.installed() else ""

    def workspace(self, w, user="root", name=None, key=None, more=""):
        name = name or self.name
        secret = w.dir / f"{name}.{user}.key"
        secret.write_text(key or self.key)
        secret.chmod(0o600)
        shutil.chown(secret, user, user)
        if KEYS == "brome":
            return f"""
                credential {name} {{ kind {self.kind}; secret file "{secret}"; for {{ {', '.join(self.hosts)} }}; {more} }}
                workspace {name} {{ agent {self.name}; credential {name} }}"""
        env = "\n".join(f'env {k} "{v}"' for k, v in self.env)
        return f'workspace {name} {{ {self.share()}\n{env}\nrules {{ {self.rules}\n default deny }} }}'


AGENTS = {a.name: a for a in (
    Agent("claude", "claude -p --dangerously-skip-permissions 'run it'",
          "sk-ant-api03-" + "dummy-" * 15, "ANTHROPIC_API_KEY", "x-api-key", {"/v1/messages?beta=true"}),
    Agent("codex", "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox 'run it'",
          "sk-proj-" + "dummy" * 20, "CODEX_API_KEY", "authorization", {"/v1/responses"},
          " --disable api_key_model_discovery --disable plugins -c analytics.enabled=false"),
    Agent("gemini", "gemini --yolo -p 'run it'",
          "AIzaSy" + "Dummy" * 6 + "xyz", "GEMINI_API_KEY", "x-goog-api-key", None),
    Agent("opencode", "opencode run -m anthropic/claude-sonnet-4-5 'run it'",
          "sk-ant-api03-" + "other-" * 15, "ANTHROPIC_API_KEY", "x-api-key", {"/v1/messages"}),
)}
GEMINI_PATHS = re.compile(r"/v1beta/models/[^/:]+:(generateContent|countTokens|streamGenerateContent\?alt=sse)")


TOKEN = "sk-ant-oat01-" + "dummy-" * 15
# Whatever a workspace with an agent says itself, first and last.
OPEN = "\nworkspace open { agent claude; credential claude; rules { allow web any; default allow } }" if KEYS == "brome" else ""


def make_world():
    w = World()
    w.models = Models(w, *ORIGIN, COMMAND)
    w.pins = "\n".join(f'host {h} {{ address {ORIGIN[0]} port {ORIGIN[1]}; ca file "{w.dir}/ca.pem" }}' for h in sorted({h for a in AGENTS.values() for h in a.hosts}))
    w.b = with_tools(Brome(w, w.pins + "\n" + "\n".join(a.workspace(w) for a in AGENTS.values()) + "\n" +
                           AGENTS["claude"].workspace(w, name="claude-token", key=TOKEN, more="as env CLAUDE_CODE_OAUTH_TOKEN") + OPEN))
    return w


def with_tools(b):
    """The agents are in the PATH of who starts brome."""
    b.env["PATH"] = ":".join([str(a.folder / "node_modules/.bin") for a in AGENTS.values()] + [b.env["PATH"]])
    return b


def is_result(r):
    return "665" in r.text and "/etc/ssl/certs/brome.pem" in r.text


class Holders:
    """While the agent waits for the answer to its command's result: in whose memory, in which files of the guest its key stands; and as a control, where
    what the guest holds instead is found."""

    def __init__(self, b, key, held):
        self.b, self.key, self.held, self.guest, self.inner, self.files, self.told, self.looked = b, key, held, set(), set(), [], [], 0
        self.control = {"guest": set(), "inner": set(), "files": []}

    def __call__(self, request):
        if not is_result(request) or self.looked:
            return
        processes = tree(self.b)
        for top in processes["guest"]:
            for pid in inside(top):
                self.keep("guest", search.in_memory(pid, self.key, self.held))
            for folder in ("root", "tmp", "etc", "run", "var", "home", "dev/shm"):
                self.files += search.in_files(f"/proc/{top}/root/{folder}", self.key)
            self.control["files"] += search.in_files(f"/proc/{top}/root/root", self.held)
        for pid in processes["brome-inner"]:
            self.keep("inner", search.in_memory(pid, self.key, self.held))
        for program, pids in processes.items():
            for pid in [p for top in pids for p in (inside(top) if program == "guest" else [top])]:
                for what in ("cmdline", "environ"):
                    try:
                        text = open(f"/proc/{pid}/{what}", "rb").read()
                    except OSError:
                        continue
                    if self.key.encode() in text:
                        self.told.append((program, what))
        self.looked = len(processes["guest"]) * len(processes["brome-inner"])


    def keep(self, whose, found):
        """Sorts what a search found: the key's forms, what the guest holds."""
        held = set(search.forms(self.held))
        self.control[whose] |= found & held
        getattr(self, whose).update(found if self.held == self.key else found - held)


def ask(w, name, variable=None, key=None, b=None, terminal=None, workspace=None):
    """One run of an agent; what the origin saw of it, and who held the key meanwhile. terminal: see on_a_terminal."""
    a, b = AGENTS[name], b or w.b
    if not a.installed():
        raise Skip(f"{name} is not installed: the npm registry was not reachable (tests/peers)")
    if name == "gemini" and int(sh("node", "--version").stdout.strip(b"v").split(b".")[0]) < 20:
        raise Skip("gemini needs node 20")
    workspace = workspace or name
    b("workspace", "start", workspace)  # it may run already
    w.models.forget()
    mark, asked = w.sniffer.mark(), len(w.dns.queries)
    variable, key = variable or a.variable, key or a.key
    env = ["-e", f"{variable}={key}"] if KEYS == "guest" else []
    path = f"PATH={a.folder}/node_modules/.bin:$PATH && " if KEYS == "guest" else ""
    script = f"rm -rf /tmp/w && mkdir /tmp/w && cd /tmp/w && {path}"
    held = key if KEYS == "guest" else b.sh(workspace, f"printf %s ${variable}", check=0).stdout
    assert held and (held == key) == (KEYS == "guest"), (variable, held)
    w.models.before_answer = holders = Holders(b, key, held)
    try:
        if terminal:
            on_a_terminal(w, b.argv("exec", "-t", *env, workspace, "--", "sh", "-c", script + terminal[0]), b.env, terminal[1])
            p = b.sh(workspace, f"echo '{w.models.final}'; cat /tmp/w/tool-ran")
        else:
            p = b("exec", "-T", *env, workspace, "--", "sh", "-c", f"{script}{a.argv} && echo && cat tool-ran", timeout=180)
    finally:
        w.models.before_answer = None
    said = f"{name}: exit {p.returncode}\n{p.stdout[-3000:]}\n{p.stderr[-3000:]}\n{w.models.seen()}\n{b.log()}"
    assert p.returncode == 0, said
    assert w.models.final in p.stdout and p.stdout.endswith("\n665\n"), said
    for packet in w.sniffer.since(mark):
        assert ORIGIN in ((packet["dst"], packet["dport"]), (packet["src"], packet["sport"])) or packet["dst"] == "127.0.0.1", f"{name} reached {packet}"
    assert not w.dns.queries[asked:], f"{name}: a pinned name needs no query, another one gets none: {w.dns.queries[asked:]}"
    holders.workspace = workspace
    return w.models.seen(), holders


def on_a_terminal(w, argv, env, ready):
    """As a person does: waits for the prompt, types a line, waits for the answer."""
    if not shutil.which("tmux"):
        raise Skip("tmux is not installed")
    tmux = ["tmux", "-S", w.dir / "tmux"]

    def shows(text):
        return text in sh(*tmux, "capture-pane", "-p", "-t", "a").stdout.decode(errors="replace")
    sh(*tmux, "new-session", "-d", "-s", "a", "-x", "120", "-y", "40", shlex.join(str(x) for x in argv), env={**env, "TERM": "xterm-256color"})
    try:
        sh(*tmux, "set-option", "-t", "a", "remain-on-exit", "on")
        wait_for(f"its prompt ({ready})", lambda: shows(ready))
        sh(*tmux, "send-keys", "-t", "a", "-l", "run it now")
        wait_for("what was typed", lambda: shows("run it now"))
        for _ in range(20):  # what comes at once after typing is taken for a paste, Enter with it
            sh(*tmux, "send-keys", "-t", "a", "Enter")
            try:
                return wait_for("the answer", lambda: shows(w.models.final), deadline=2)
            except AssertionError:
                pass
        raise AssertionError("no answer")
    except AssertionError as e:
        raise AssertionError(f"{e}\n{sh(*tmux, 'capture-pane', '-p', '-t', 'a').stdout.decode(errors='replace')}") from e
    finally:
        sh(*tmux, "kill-server", check=False)


def check(w, name, asked, field=None, hidden=False):
    """What the origin must have seen: inference only, each request with the key in its one field, and the command's result; and who may hold it.
    hidden: the agent takes the key out of the environment of what it runs."""
    a, (requests, holders) = AGENTS[name], asked
    b, key = holders.b, holders.key
    for r in requests:
        assert r.host in a.hosts, r
        assert r.target in a.paths if a.paths else GEMINI_PATHS.fullmatch(r.target), r
        assert r.method in ("POST", "MESSAGE") or r.kind == "websocket", r
        assert r.keys() == {field or a.field: key}, (r, r.keys())
    assert any(is_result(r) for r in requests), f"no request brought the command's result: {requests}"
    assert holders.looked, "memory and files were searched"
    shown = any(key in r.text for r in requests)  # `env` was run: what the guest holds went to the model
    assert shown == (KEYS == "guest" and not hidden), f"{name}: the key in a body: {shown}"
    if KEYS == "guest":
        assert key.encode() in holders.guest and key.encode() in holders.inner, vars(holders)
    else:
        assert not holders.guest and not holders.inner and not holders.files and not holders.told, vars(holders)
        # `env` was run, its output went to the model with the placeholder taken out, and the agent went on.
        assert not any(holders.held in r.everything() for r in requests), [r for r in requests if holders.held in r.everything()]
        state = [x["state"] for x in b.json("workspace", "ls") if x["name"] == holders.workspace]
        assert state == ["running"] and not b.json("alerts"), (state, b.json("alerts"))
    held = holders.held.encode()  # the control of the search
    assert held in holders.control["guest"] and held in holders.control["inner"], vars(holders)
    assert name != "codex" or KEYS == "guest" or any(f.endswith("/.codex/auth.json") for f in holders.control["files"]), vars(holders)
    own = [f for f in search.in_files(b.dir, key) if "/home/" not in f]  # what brome itself writes down
    assert not own, own
    allowed = [t for t in b.trace(workspace=holders.workspace) if t.get("host") in a.hosts and t.get("verdict") == "allow"]
    assert allowed, "the trace has the requests"


def test_claude(w):
    check(w, "claude", ask(w, "claude"))


def test_claude_token(w):
    """An OAuth token, as a bearer."""
    check(w, "claude", ask(w, "claude", "CLAUDE_CODE_OAUTH_TOKEN", TOKEN, workspace="claude-token"), "authorization", hidden=True)


def test_codex_websocket(w):
    asked = ask(w, "codex")
    check(w, "codex", asked)
    assert {r.kind for r in asked[0]} == {"websocket", "message"}, asked[0]


def test_codex_websocket_packed(w):
    """It offers permessage-deflate; an origin may take it. What the gate must read, the gate must see to."""
    w.models.deflate = True
    try:
        asked = ask(w, "codex")
    finally:
        w.models.deflate = False
    check(w, "codex", asked)
    if KEYS == "guest":  # nothing is to be looked for in the messages: the offer passes
        assert {r.kind for r in asked[0]} == {"websocket", "packed"}, asked[0]


def test_codex_sse(w):
    """An origin without WebSockets: it tries a few times, then streams."""
    w.models.websocket = False
    try:
        asked = ask(w, "codex")
    finally:
        w.models.websocket = True
    check(w, "codex", asked)
    assert sum(r.method == "POST" for r in asked[0]) == 2, asked[0]


def test_gemini(w):
    check(w, "gemini", ask(w, "gemini"))


def test_opencode(w):
    check(w, "opencode", ask(w, "opencode"))


# On a terminal each wants a file first: brome writes it; where the guest holds the key, the test does. What Claude Code asks besides a person answers once.
CLAUDE_ANSWERED = """
import json, os
path = os.path.expanduser("~/.claude.json")
said = json.load(open(path))
said.setdefault("projects", {}).setdefault("/tmp/w", {})["hasTrustDialogAccepted"] = True
json.dump(said, open(path, "w"))
os.makedirs(os.path.expanduser("~/.claude"), exist_ok=True)
json.dump({"skipDangerousModePermissionPrompt": True}, open(os.path.expanduser("~/.claude/settings.json"), "w"))
"""


def test_claude_on_a_terminal(w):
    if KEYS == "brome":
        script = f"python3 -c {shlex.quote(CLAUDE_ANSWERED)} && claude --dangerously-skip-permissions"
        return check(w, "claude", ask(w, "claude", terminal=(script, "bypass permissions on")))
    tail = "$(printf %s $ANTHROPIC_API_KEY | tail -c 20)"
    members = '"hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true, "projects": {"/tmp/w": {"hasTrustDialogAccepted": true}}'
    check(w, "claude", ask(w, "claude", terminal=(
        f"""printf '{{{members}, "customApiKeyResponses": {{"approved": ["%s"], "rejected": []}}}}' "{tail}" >~/.claude.json && claude --dangerously-skip-permissions""",
        "bypass permissions on")))


def test_codex_on_a_terminal(w):
    if KEYS == "brome":
        return check(w, "codex", ask(w, "codex", terminal=("codex --dangerously-bypass-approvals-and-sandbox", "Ask Codex to do anything")))
    asked = ask(w, "codex", terminal=(
        """mkdir -p ~/.codex && printf '{"auth_mode": "apikey", "OPENAI_API_KEY": "%s"}' "$CODEX_API_KEY" >~/.codex/auth.json && """
        """printf '[features]\\napi_key_model_discovery = false\\nplugins = false\\n[analytics]\\nenabled = false\\n' >~/.codex/config.toml && """
        "codex --dangerously-bypass-approvals-and-sandbox; rm -r ~/.codex", "Ask Codex to do anything"))
    check(w, "codex", asked)


def test_gemini_on_a_terminal(w):
    if KEYS == "brome":
        return check(w, "gemini", ask(w, "gemini", terminal=("gemini --yolo", "Type your message")))
    settings = '{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}'
    check(w, "gemini", ask(w, "gemini", terminal=(
        f"mkdir -p /etc/gemini-cli && echo '{settings}' >/etc/gemini-cli/settings.json && gemini --yolo", "Type your message")))


def test_ordinary_user(w):
    """The same without root: guest root is then the user."""
    user, name = ordinary_user(), "codex"
    folder = AGENTS[name].folder
    if AGENTS[name].installed() and subprocess.run(["setpriv", "--reuid", user, "--clear-groups", "test", "-r", folder / "done"]).returncode:
        raise Skip(f"{user} cannot read {folder}")
    b = with_tools(Brome(w, w.pins + "\n" + AGENTS[name].workspace(w, user), user=user))
    check(w, name, ask(w, name, b=b))


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


def test_open_rules(w):
    """`allow web any`, in the configuration or set live, opens no file and no batch of the model's host to the account; what is shown says whose a rule is."""
    if KEYS != "brome":
        raise Skip("what the gate does with a preset")
    w.b("workspace", "start", "open", check=0)
    w.models.forget()

    def refused():
        for r in ("v1/files", "v1/messages/batches", "v1/messages?x=1"):
            p = w.b.sh("open", f"curl -sS -m 20 -w '%{{http_code}}' -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{{}}' 'https://api.anthropic.com/{r}'", check=0)
            assert p.stdout.endswith("403") and "to allow it" not in p.stdout, p.stdout
        assert not w.models.seen(), w.models.seen()
        p = w.b.sh("open", "curl -sS -m 20 -o /dev/null -w '%{http_code}' -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{\"messages\":[]}' 'https://api.anthropic.com/v1/messages?beta=true'", check=0)
        assert p.stdout == "200" and [r.keys() for r in w.models.seen()] == [{"x-api-key": AGENTS["claude"].key}], (p.stdout, w.models.seen())
        w.models.forget()
    refused()
    shown = w.b("rules", "show", "open", check=0).stdout
    assert shown.count("# agent claude") == 3 and [r.get("agent") for r in w.b.json("rules", "show", "open")] == ["claude"] * 3 + [None] * 2, shown
    for text in ("allow web api.anthropic.com\n", "allow web any\n" + re.sub(r"(?m)^ *\d+  ", "", shown), ""):
        w.b.rules("open", text + "default allow\n" if "default" not in text else text)
        refused()
        assert "# agent claude" not in w.b.config.read_text() and w.b("rules", "show", "open", check=0).stdout.count("# agent claude") == 3
    hits = w.b.json("rules", "show", "open")
    assert [r["hits"] > 0 for r in hits] == [True, False, True, False], hits


def test_presets(w):
    """What is installed is what was tried here. Its rules for its model come before the workspace's own: whatever stands there opens nothing more of that host."""
    b = Brome(w, "".join(f"credential c-{a.name} {{ kind {a.kind}; for {{ {', '.join(a.hosts)} }} }}\nworkspace {n} {{ agent {n}; credential c-{a.name} }}\n" for n, a in AGENTS.items()) +
              "workspace open { agent claude; credential c-claude; rules { deny web .anthropic.com; allow web any; default allow } }\n")
    p = b("check", check=0)
    said = p.stdout + p.stderr
    assert said.count("warning") == said.count("workspace open: ") == 2, said
    assert "the rules of the agent `claude` come before this one, which closes nothing that they open" in said and "`default allow`" in said, said
    messages, files = "POST https://api.anthropic.com/v1/messages?beta=true", "POST https://api.anthropic.com/v1/files"
    for workspace, request, verdict in (("claude", messages, "allow"), ("claude", files, "refuse"), ("claude", "GET https://downloads.example/", "refuse"),
                                        ("open", messages, "allow"), ("open", files, "refuse"), ("open", "GET https://downloads.example/", "allow")):
        p = b("rules", "test", workspace, *request.split())
        assert verdict in p.stdout, (workspace, request, p.stdout, p.stderr)
