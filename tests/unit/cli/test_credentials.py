#!/usr/bin/python3
"""Credentials on the command line with a real supervisor and no workspace: what is written, what is asked, what never shows. usage: test_credentials.py BROME BUILD"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

from tap import check, done

BROME, BUILD = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
top = tempfile.TemporaryDirectory()
TOP = pathlib.Path(top.name)
LIBEXEC, CONF = TOP / "libexec", TOP / "etc" / "brome.conf"
LIBEXEC.mkdir()
for part, names in {"daemon": ["bromed", "brome-spawn", "brome-sweep"], "launch": ["brome-launch"], "inner": ["brome-inner"], "outer": ["brome-outer"], "guest": ["brome-guest"]}.items():
    for n in names:
        (LIBEXEC / n).symlink_to(BUILD / "src" / part / n)
ENV = {"PATH": os.environ["PATH"], "HOME": top.name, "LANG": "C.UTF-8", "BROME_CONFIG": str(CONF), "BROME_STATE": str(TOP / "state"), "BROME_RUNTIME": str(TOP / "run"),
       "BROME_LIBEXEC": str(LIBEXEC), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
KEY = ["--key-file", str(TOP / "key")]
SECRETS = ["ghp_" + "R3alS3cr3t" * 3 + "123456", "sk-ant-api03-" + "anthr0pic" * 9, "glpat-0penSesame1234567890", "t0psecret-command-output", "t0psecret-from-a-file", "t0psecret-environment",
           "t0psecret-typed-blindly", "correct horse battery"]
said = []


def brome(*args, given=None, session=True, **env):
    """Without a terminal: in a session of its own."""
    r = subprocess.run([BROME, *args], input=given if given is not None else "", capture_output=True, text=True, env=dict(ENV, **env), start_new_session=session, timeout=60)
    said.append(r.stdout + r.stderr)
    return r


class Terminal:
    """brome on a terminal of its own; what it shows and what was typed are one text, as a person sees it."""

    def __init__(self, *args, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BROME, [BROME, *args], dict(ENV, TERM="xterm", **env))
        self.text = b""

    def until(self, what, seconds=30):
        end = time.monotonic() + seconds
        while what.encode() not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.fd, 4096)
                except OSError:
                    break
        return self

    def type(self, text):
        os.write(self.fd, text.encode())
        return self

    def echo(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def end(self):
        while True:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                break
            if not data:
                break
            self.text += data
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        said.append(self.text.decode(errors="replace"))
        return status


def rows():
    return {x["name"]: x for x in map(json.loads, brome("credential", "ls", "--json").stdout.splitlines())}


# ---- add

OWN = "# mine, as I like it   \nworkspace api { rules { default deny } }   # no newline at the end"
r = brome("credential", "add", "forge", "--kind", "github", "--for", "api.forge.example,forge.example:8443", "--ask", *KEY, given=SECRETS[0] + "\n")
check("a first credential makes configuration and vault", r.returncode == 0 and CONF.read_text().startswith("credential forge {\n") and (TOP / "state/vault").exists(), r.stderr)
check("its files are the user's alone", CONF.stat().st_mode & 0o777 == 0o600 and (TOP / "key").stat().st_mode & 0o777 == 0o600)
f = rows()["forge"]
check("and it is in force", f["kind"] == "github" and f["source"] == "vault" and f["have"] and f["hosts"] == ["api.forge.example", "forge.example:8443"] and f["ask"] == "before use", f)
check("the vault does not show it", SECRETS[0].encode() not in (TOP / "state/vault").read_bytes())
brome("credential", "rm", "forge")
brome("daemon", "stop")  # a folder that is new to it is closed to a running one
CONF.write_text(OWN)
real = TOP / "dotfiles.conf"
CONF.rename(real)
CONF.symlink_to(real)
real.chmod(0o640)
r = brome("credential", "add", "forge", "--kind", "github", "--for", "api.forge.example", given=SECRETS[0])
check("what the user wrote stays byte for byte, a link a link, a mode a mode",
      r.returncode == 0 and real.read_text().startswith(OWN + "\n\ncredential forge {") and CONF.is_symlink() and real.stat().st_mode & 0o777 == 0o640, r.stderr + real.read_text())
before = real.read_text()
for what, args, given, code, words in [
    ("the same name again", ["forge", "--kind", "github"], SECRETS[0], 1, "there is a credential forge already"),
    ("a short secret", ["x", "--kind", "bearer", "--for", "x.example"], "short", 1, "shorter than 8"),
    ("no secret", ["x", "--kind", "bearer", "--for", "x.example"], "", 1, "there is nothing"),
    ("a secret of two lines", ["x", "--kind", "bearer", "--for", "x.example"], "two-lines-of\nsecret-text", 1, "line break"),
    ("a placeholder", ["x", "--kind", "bearer", "--for", "x.example"], "brm_" + "a" * 32, 1, "a placeholder, not a secret"),
    ("a huge one", ["x", "--kind", "basic", "--for", "x.example"], "y" * 40000, 1, "at most 16384 bytes"),
    ("no kind", ["x"], SECRETS[1], 64, "--kind is one of bearer"),
    ("an unknown kind", ["x", "--kind", "githob"], SECRETS[1], 64, "no kind `githob`"),
    ("no host", ["x", "--kind", "bearer"], SECRETS[1], 64, "for which hosts"),
    ("a pattern as host", ["x", "--kind", "bearer", "--for", "*.example"], SECRETS[1], 64, "no list of hosts"),
    ("a host that ends the list", ["x", "--kind", "bearer", "--for", "a.example }"], SECRETS[1], 64, "no list of hosts"),
    ("an address as host", ["x", "--kind", "bearer", "--for", "10.0.0.1"], SECRETS[1], 65, ""),
    ("a bad name", ["X y", "--kind", "bearer", "--for", "x.example"], SECRETS[1], 64, "no credential's name"),
    ("a header without a name", ["x", "--kind", "header", "--for", "x.example"], SECRETS[1], 65, "header"),
    ("two places", ["x", "--kind", "bearer", "--for", "x.example", "--env", "A", "--file", "b"], "", 64, "one place"),
    ("a value as variable", ["x", "--kind", "bearer", "--for", "x.example", "--env", "A=" + SECRETS[5]], "", 64, "never stands on a command line"),
    ("a secret as operand", ["x", SECRETS[5], "--kind", "bearer", "--for", "x.example"], "", 64, "a secret is never an operand"),
    ("a command that fails", ["x", "--kind", "bearer", "--for", "x.example", "--command", "echo partial; exit 7"], "", 1, "`echo partial; exit 7` failed with status 7"),
    ("a command that is killed", ["x", "--kind", "bearer", "--for", "x.example", "--command", "kill -9 $$"], "", 1, "ended by signal 9"),
    ("a command without end", ["x", "--kind", "bearer", "--for", "x.example", "--command", "yes"], "", 1, "at most 16384 bytes"),
    ("a missing file", ["x", "--kind", "bearer", "--for", "x.example", "--file", "/nonexistent/secret"], "", 1, "No such file"),
    ("an unset variable", ["x", "--kind", "bearer", "--for", "x.example", "--env", "NOT_SET"], "", 1, "NOT_SET is not set"),
]:
    r = brome("credential", "add", *args, given=given)
    check(f"{what}: refused, nothing written", r.returncode == code and words in r.stderr and real.read_text() == before and not list(TOP.glob("*.brome-new")), f"{r.returncode} {r.stderr}")
loose = TOP / "loose"
loose.write_text(SECRETS[4])
loose.chmod(0o666)
r = brome("credential", "add", "x", "--kind", "bearer", "--for", "x.example", "--file", str(loose))
check("a secret that others can change is refused", r.returncode == 1 and "chmod 600" in r.stderr, r.stderr)
loose.chmod(0o600)
os.chdir(TOP)
ADDED = [("byfile", ["--file", "loose"], f'secret file "{os.getcwd()}/loose"'), ("bycommand", ["--command", f'printf "%s\\n" {SECRETS[3]}'], 'secret command "printf \\"%s\\\\n\\" t0p'),
         ("byenv", ["--env", "MY_TOKEN"], "secret env MY_TOKEN")]
for name, args, line in ADDED:
    r = brome("credential", "add", name, "--kind", "bearer", "--for", name + ".example", *(["--attach"] if name == "byenv" else ["--ask", "--as-env", "TOKEN_X"]), *args, MY_TOKEN=SECRETS[5])
    check(f"{name}: the block says where the secret is", r.returncode == 0 and line in real.read_text(), r.stderr + real.read_text())
check("what is not in the vault is not kept", not rows()["byfile"]["have"] and json.loads(brome("credential", "ls", "--json").stdout.splitlines()[0])["name"] == "forge")
r = brome("check", "--print")
check("the whole configuration is good", r.returncode == 0 and "attach" in r.stdout and "as env TOKEN_X" in r.stdout, r.stderr)

# ---- on a terminal

t = Terminal("credential", "add", "typed", "--kind", "bearer", "--for", "typed.example").until("(nothing is shown): ")
check("no echo while it is typed", not t.echo())
t.type(SECRETS[6] + "\n").until("added to")
check("typed blindly", t.end() == 0 and SECRETS[6] not in t.text.decode() and rows()["typed"]["have"], t.text)
for number in (signal.SIGINT, signal.SIGTERM):
    t = Terminal("credential", "add", "never", "--kind", "bearer", "--for", "never.example").until("(nothing is shown): ")
    keep = os.dup(t.fd)
    t.type("half a secr\x03") if number == signal.SIGINT else os.kill(t.pid, number)
    status = t.end()
    check(f"ended by {number.name} with the echo on again", status == -number and termios.tcgetattr(keep)[3] & termios.ECHO and "never" not in real.read_text(), (status, t.text))
    os.close(keep)

# ---- rm

real.write_text(real.read_text().replace("workspace api { ", "workspace api { credential forge; "))
r = brome("credential", "rm", "forge")
check("one that a workspace uses is not removed", r.returncode == 1 and "the workspace api uses the credential forge" in r.stderr and "forge {" in real.read_text(), r.stderr)
real.write_text(real.read_text().replace("credential forge; ", ""))
for name in ("byenv", "forge", "byfile", "bycommand", "typed"):
    r = brome("credential", "rm", name)
    check(f"{name} is removed", r.returncode == 0 and f"credential {name} " not in real.read_text() and name not in rows(), r.stderr)
check("the rest is as it was", real.read_text().rstrip("\n") == OWN, real.read_text())
check("what is not there", brome("credential", "rm", "forge").returncode == 1)
TRICKY = 'words = "credential a {"\n# credential a { kind bearer; for old.example }\nworkspace w { env X "credential a {" }\ncredential b { kind bearer; secret vault; for b.example } ; credential a {\n' \
         '  kind bearer   # }\n  secret file "}"; for { a.example,\n  c.example } }\nworkspace z { rules { default deny } }\n'
real.write_text(TRICKY)
r = brome("credential", "rm", "a")
check("only the block itself goes", r.returncode == 0 and real.read_text() == TRICKY.replace(TRICKY[TRICKY.index("credential a {\n  kind"):TRICKY.index("\nworkspace z")], ""), r.stderr + real.read_text())
(TOP / "more.conf").write_text("credential far { kind bearer; secret env X; for far.example }\n")
real.write_text(f'include "{TOP}/more.conf"\n')
r = brome("credential", "rm", "far")
check("one in an included file is the user's to remove", r.returncode == 65 and "includes" in r.stderr and "far" in (TOP / "more.conf").read_text(), r.stderr)

# ---- import

real.write_text("")
(TOP / ".env").write_text(f"""# a comment
export GITHUB_TOKEN={SECRETS[0]}   # trailing
GH_TOKEN='{SECRETS[0]}'
ANTHROPIC_API_KEY="{SECRETS[1]}"
GITLAB_PAT = {SECRETS[2]}
NPM_TOKEN=npm_abcdefghijklmnopqrstuvwxyz0123456789
DATABASE_URL="postgres://u:p#{SECRETS[5]}@db/x"
EMPTY=
OPENAI_API_KEY=short
MULTI="a
b"
not a variable
DEBUG=1
""")
r = brome("credential", "import", ".env")
check("without a terminal and --yes nothing is added", r.returncode == 1 and "--yes" in r.stderr and real.read_text() == "", r.stderr)
shown = r.stdout
check("values are masked", "ghp_…" in shown and f"({len(SECRETS[0])} characters)" in shown and not any(s in shown + r.stderr for s in SECRETS) and SECRETS[0][4:12] not in shown, shown)
LEFT = {"GH_TOKEN": "the same secret as GITHUB_TOKEN", "NPM_TOKEN": "--kind npm --for HOST", "DATABASE_URL": "not known", "EMPTY": "not known", "OPENAI_API_KEY": "shorter", "MULTI": "not known", "DEBUG": "not known"}
check("what is left has its reason", all(re.search(rf"^{v} +left: .*{re.escape(w)}", shown, re.M) for v, w in LEFT.items()) and "line 12 is left out: there is no =" in r.stderr, shown + r.stderr)
t = Terminal("credential", "import", ".env").until("add these 3 credentials? [y/N]").type("y\n")
check("a yes adds them", t.end() == 0 and set(rows()) == {"github", "anthropic", "gitlab"} and all(x["have"] for x in rows().values()), t.text)
check("a variable that its clients do not look for is one more", "as env GITLAB_PAT" in real.read_text() and real.read_text().count("as env") == 1, real.read_text())
r = brome("credential", "import", ".env", "--yes")
check("twice is refused whole", r.returncode == 1 and "already" in r.stderr, r.stderr)
r = brome("credential", "import", "-", "--yes", "--json", given="ANTHROPIC_TOKEN=" + SECRETS[1])
check("from standard input, as JSON", r.returncode == 1 and [json.loads(x)["variable"] for x in r.stdout.splitlines()] == ["ANTHROPIC_TOKEN"], r.stdout + r.stderr)

# ---- the vault

check("open", "open already" in brome("unlock").stderr)
check("locked", brome("unlock", "--lock").returncode == 0 and not any(x["have"] for x in rows().values()))
r = brome("unlock")
check("its key file opens it", r.returncode == 0 and all(x["have"] for x in rows().values()), r.stderr)
brome("daemon", "stop")
(TOP / "state/vault").unlink()
r = brome("credential", "add", "p", "--kind", "bearer", "--for", "p.example", given=SECRETS[3])
check("without a terminal a vault needs a key file", r.returncode == 69 and "--key-file" in r.stderr and "credential p" not in real.read_text(), r.stderr)
t = Terminal("credential", "add", "p", "--kind", "bearer", "--for", "p.example").until("(nothing is shown): ").type(SECRETS[3] + "\n")
t.until("a new passphrase").type(SECRETS[7] + "\n").until("once more").type("something else\n").until("not the same")
check("two different passphrases make nothing", t.end() == 69 and not (TOP / "state/vault").exists() and "credential p" not in real.read_text(), t.text)
t = Terminal("credential", "add", "p", "--kind", "bearer", "--for", "p.example").until("(nothing is shown): ").type(SECRETS[3] + "\n")
t.until("a new passphrase").type(SECRETS[7] + "\n").until("once more").type(SECRETS[7] + "\n")
check("the same twice makes it", t.end() == 0 and rows()["p"]["have"], t.text)
brome("unlock", "--lock")
r = brome("unlock", given="wrong one\n")
check("a wrong passphrase", r.returncode == 75 and "stays locked" in r.stderr and not rows()["p"]["have"], r.stderr)
r = brome("unlock", "--for", "0s", given=SECRETS[7] + "\n")
check("from standard input", r.returncode == 0 and rows()["p"]["have"], r.stderr)
brome("unlock", "--lock")
t = Terminal("unlock", "--for", "0s").until("passphrase: ").type("wrong\n").until("that is not the passphrase\r\nbrome: the vault's passphrase: ").type(SECRETS[7] + "\n").until("the vault is open")
check("on a terminal, after a slip", t.end() == 0 and rows()["p"]["have"], t.text)
brome("unlock", "--lock")
real.write_text(real.read_text() + "workspace w { credential p }\n")
brome("reload")
r = brome("run", "w", "--", "true")
check("a session with the vault locked and nobody to ask", r.returncode == 125 and "`brome unlock` opens it" in r.stderr, r.stderr)
real.write_text(real.read_text() + "credential q { kind bearer; secret command \"echo no >&2; exit 4\"; for q.example }\nworkspace v { credential q }\n")
brome("reload")
r = brome("run", "v", "--", "true")
check("a session whose command fails", r.returncode == 65 and "credential q: the command `echo no >&2; exit 4` failed with status 4" in r.stderr, f"{r.returncode} {r.stderr}")

brome("daemon", "stop")
(TOP / "state/vault").chmod(0o644)
r = brome("run", "w", "--", "true")
check("a session whose vault others can read", r.returncode == 125 and "vault" in r.stderr and "no secret yet" not in r.stderr, f"{r.returncode} {r.stderr}")
brome("daemon", "stop")
(TOP / "state/vault").chmod(0o600)

# ---- listings without anything

for words, says in [(["approvals"], "nothing waits"), (["approvals", "ls", "w"], "nothing waits"), (["alerts"], "no open alert"), (["alerts", "--all"], "no alert"), (["accounts", "v"], "")]:
    r = brome(*words)
    check(f"{' '.join(words)}", r.returncode == 0 and says in r.stderr, r.stderr)
r = brome("accounts", "v", "--json")
check("accounts as JSON", json.loads(r.stdout)["credential"] == "q" and json.loads(r.stdout)["host"] == "q.example", r.stdout)
for words, code in [(["approvals", "allow", "1"], 1), (["approvals", "allow", "x"], 64), (["approvals", "allow", "1", "--for", "2h"], 64), (["approvals", "deny"], 64), (["approvals", "revoke", "5"], 1),
                    (["workspace", "wipe", "w"], 1), (["workspace", "wipe", "nix", "--yes"], 1), (["credential", "test", "nix"], 1), (["credential", "test", "p"], 64), (["accounts", "nix"], 1),
                    (["unlock", "--for", "40d"], 64), (["workspace", "thaw", "w", "--continue"], 1)]:
    r = brome(*words)
    check(f"{' '.join(words)}: {code}", r.returncode == code and r.stderr, f"{r.returncode} {r.stderr}")
r = brome("workspace", "wipe", "w", "--yes")
check("a workspace at rest is wiped", r.returncode == 0, r.stderr)
brome("daemon", "stop")

# ---- nothing of them anywhere

log = (TOP / "run/bromed.log").read_text()
check("no secret was ever shown or logged", not any(s in t for s in SECRETS if s != SECRETS[3] for t in said + [log]), said)
done()
