"""What the tests of accounts share: accounts as configuration, the files that their clients read, and the search for a secret where it must not be.

KEYS says who holds the secrets. "brome": credentials; the guest holds placeholders. "guest": the same tests over the same gate with the secrets in the guest, as
a control: the clients and servers do the same then, and every search that must find nothing finds something. (BROME_TEST_KEYS=guest tests/run.py …)"""
import os
import re
import shlex
import shutil
import struct
import subprocess
import zlib

import search
from ground import inside, tree
from world import Brome, wait_for

KEYS = os.environ.get("BROME_TEST_KEYS", "brome")
FOLDERS = ("root", "tmp", "etc", "run", "var", "home", "dev/shm")  # of a guest, where something can have been written


class Account:
    def __init__(self, w, name, kind, secret, hosts, *lines, user=None, owner="root"):
        self.name, self.kind, self.secret, self.user = name, kind, secret, user
        self.hosts = [hosts] if isinstance(hosts, str) else list(hosts)
        self.variable = "HELD_" + name.upper().replace("-", "_")
        self.attach = "attach" in lines
        folder = w.dir / "secrets"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        self.file = folder / f"{name}.{owner}"
        self.file.write_text(secret + "\n")
        self.file.chmod(0o600)
        os.chown(self.file, *((0, 0) if owner == "root" else _ids(owner)))
        self.lines = list(lines) + ([f'user "{user}"'] if user else []) + ([] if self.attach else [f"as env {self.variable}"])

    def credential(self):
        if KEYS == "guest":
            return ""
        return f'credential {self.name} {{ kind {self.kind}; secret file "{self.file}"; for {{ {", ".join(self.hosts)} }}\n' + "\n".join(self.lines) + "\n}\n"

    def environment(self):
        """Of the workspace, where the guest holds the secret itself."""
        more = {"mcp": "MCP_BEARER_TOKEN", "cargo": "CARGO_REGISTRIES_" + self.name.upper() + "_TOKEN"}.get(self.kind)
        names = [self.variable] + ([more] if more else [])
        return "" if KEYS == "brome" or self.attach else "\n".join(f'env {n} "{self.secret}"' for n in names) + ("\nenv CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS \"cargo:token\"" if self.kind == "cargo" else "")

    def files(self):
        """A script that writes what the kind's clients read; brome does that itself."""
        user, host = self.user or {"github": "x-access-token", "gitlab": "oauth2", "pypi": "__token__"}.get(self.kind, "git"), self.hosts[0]
        q = shlex.quote
        return {
            "git": f"echo {q(f'https://{user}:{self.secret}@{host}')} >>~/.git-credentials; git config --global credential.https://{host}.helper store",
            "npm": f"echo {q(f'//{host}/:_authToken={self.secret}')} >>~/.npmrc",
            "pypi": f"echo {q(f'machine {host} login {user} password {self.secret}')} >>~/.netrc",
            "registry": "python3 -c " + q(f"""
import base64, json, os
path = os.path.expanduser('~/.docker/config.json')
os.makedirs(os.path.dirname(path), exist_ok=True)
auths = json.load(open(path))['auths'] if os.path.exists(path) else {{}}
auths[{host!r}] = {{'auth': base64.b64encode(b{f'{user}:{self.secret}'!r}).decode()}}
auths.update({{h: auths[{host!r}] for h in {self.hosts!r}}})
json.dump({{'auths': auths}}, open(path, 'w'))"""),
            "mcp": f"""printf '{{"mcpServers": {{"{self.name}": {{"type": "http", "url": "https://{host}/mcp", "headers": {{"Authorization": "Bearer %s"}}}}}}}}' {q(self.secret)} >~/.claude.json""",
        }.get({"github": "git", "gitlab": "git", "basic": "git"}.get(self.kind, self.kind), ":")

    def held(self, b, workspace="s"):
        """What the guest holds: the placeholder (or, as a control, the secret)."""
        value = b.sh(workspace, f"printf %s ${self.variable}", check=0).stdout
        assert value and (value == self.secret) == (KEYS == "guest"), (self.name, value)
        return value


def _ids(user):
    import pwd
    p = pwd.getpwnam(user)
    return p.pw_uid, p.pw_gid


def configuration(accounts, workspace, rules, more=""):
    names = ", ".join(a.name for a in accounts)
    held = f"credential {{ {names} }}" if KEYS == "brome" and accounts else "\n".join(a.environment() for a in accounts)
    return "".join(a.credential() for a in accounts) + f"\nworkspace {workspace} {{\n{held}\n{more}\nrules {{ {rules}\ndefault deny }}\n}}\n"


def start(b, accounts, workspace="s"):
    b("workspace", "start", workspace, check=0)
    if KEYS == "guest":
        for a in accounts:
            b.sh(workspace, a.files(), check=0)


class Search:
    """Where a secret stands while a client waits for its answer; for the looker of services.py, or to be called. The control is what the guest holds instead: it is found."""

    skip = []  # folders of the host that are shared with the guest read-only: large, and nobody writes there

    def __init__(self, b, held=None, *secrets):
        self.b, self.secrets, self.held, self.looks = b, list(secrets), held, 0
        self.guest, self.inner, self.files, self.control = set(), set(), [], set()

    def __call__(self, request=None):
        if self.looks or (request is not None and not request.headers.get("authorization")):
            return
        self.looks += 1
        self.now()

    def now(self):
        secrets = [s for s in self.secrets if s] + ([self.held] if self.held else [])
        control = set(search.forms(self.held)) if self.held and self.held not in self.secrets else set()
        processes = tree(self.b)
        assert processes.get("guest") and processes.get("brome-inner"), processes
        for top in processes["guest"]:
            for pid in inside(top):
                found = search.in_memory(pid, *secrets)
                self.control |= found & control
                self.guest |= found - control
            for folder in FOLDERS:
                self.files += search.in_files(f"/proc/{top}/root/{folder}", *self.secrets, skip=[f"/proc/{top}/root{s}" for s in self.skip])
        for pid in processes["brome-inner"]:
            found = search.in_memory(pid, *secrets)
            self.control |= found & control
            self.inner |= found - control
        for program, pids in processes.items():
            for pid in pids:
                for what in ("cmdline", "environ"):
                    try:
                        text = open(f"/proc/{pid}/{what}", "rb").read()
                    except OSError:
                        continue
                    assert KEYS == "guest" or not any(s.encode() in text for s in self.secrets), f"{program}: the secret in its {what}"

    def check(self):
        """After it: nobody had it; and what brome writes down (state, runtime, log, journal) has it nowhere."""
        assert self.looks, "nothing was searched"
        if KEYS == "guest":
            assert self.guest or self.files, vars(self)
            return
        assert not self.guest and not self.inner and not self.files, vars(self)
        assert self.control or not self.held, "the control: what the guest holds is found"
        own = search.in_files(self.b.dir, *self.secrets)
        assert not own, own
        for listing in ("timeline", "trace"):
            text = self.b(*((listing,) if listing == "timeline" else (listing, "ls")), "--json", check=0).stdout
            assert not any(s in text for s in self.secrets), listing


def watched(front, b, accounts, fn, workspace="s"):
    """Runs fn while the first authenticated request is held and everything is searched for the accounts' secrets; what fn returned."""
    looks = Search(b, next((a.held(b, workspace) for a in accounts if not a.attach), None), *[a.secret for a in accounts])
    front.looker.before, front.looker.errors[:] = looks, []
    try:
        out = fn()
    finally:
        front.looker.before = None
    assert not front.looker.errors, front.looker.errors
    looks.check()
    return out


def random_part(p):
    return re.search(r"brm(?:-mcp_|[-_])?([a-z2-7]{26,})", p)[1]


def alerts(b, workspace="s"):
    return [a for a in b.json("alerts") if a["workspace"] == workspace]


def state(b, workspace="s"):
    return next(x["state"] for x in b.json("workspace", "ls") if x["name"] == workspace)


# ---- messages --------------------------------------------------------------------------------------------------------------------------

def frames(*messages, rsv1=0, masked=True):
    out = b""
    for opcode, fin, payload in messages:
        n = len(payload)
        size = bytes([n | 128]) if n < 126 else bytes([126 | 128]) + struct.pack(">H", n)
        mask = b"\x11\x92\xa3\x54"
        out += bytes([fin << 7 | rsv1 << 6 | opcode]) + size + mask + bytes(x ^ mask[i & 3] for i, x in enumerate(payload))
    return out


def deflated(text):
    z = zlib.compressobj(wbits=-15)
    return (z.compress(text.encode()) + z.flush(zlib.Z_SYNC_FLUSH))[:-4]


def tool(name, *args):
    def pack(data):
        if not shutil.which(name):
            return None
        return subprocess.run([name, *args], input=data, capture_output=True, check=True).stdout
    return pack


__all__ = ["KEYS", "Account", "Brome", "Search", "alerts", "configuration", "deflated", "frames", "random_part", "start", "state", "tool", "wait_for", "watched"]
