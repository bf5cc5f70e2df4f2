#!/usr/bin/python3
"""Completion: what brome answers, bash really completing on a terminal, zsh and fish where they are installed. usage: test_completion.py BROME"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

from tap import check, done, skip

BROME = pathlib.Path(sys.argv[1]).resolve()
home = tempfile.TemporaryDirectory()
HOME = pathlib.Path(home.name)
(HOME / "brome.conf").write_text("workspace api-one {\n}\nworkspace zebra {\n}\n")
(HOME / "state/workspaces/saved-x").mkdir(parents=True)
(HOME / "state/workspaces/saved-x/workspace.conf").write_text("workspace saved-x {\n}\n")
(HOME / "a file.rules").write_text("default deny\n")
(HOME / "afolder").mkdir()
(HOME / "bin").mkdir()
(HOME / "bin/brome").symlink_to(BROME)
ENV = {"HOME": home.name, "PATH": f"{home.name}/bin:/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8", "BROME_CONFIG": str(HOME / "brome.conf"),
       "BROME_STATE": str(HOME / "state"), "BROME_RUNTIME": str(HOME / "run"), "PS1": "$ ", "HISTFILE": "/dev/null"}
TABLE = (pathlib.Path(__file__).resolve().parents[3] / "src/cli/commands.tbl").read_text()
NAMES = re.findall(r'^COMMAND\("([^"]+)"', TABLE, re.M)


def run(*argv, **kw):
    return subprocess.run(argv, capture_output=True, text=True, env=ENV, cwd=home.name, **kw)


def words(*typed):
    r = run("brome", "completion", "words", "--", *typed)
    check(f"words for {' '.join(typed)!r} are words", r.returncode == 0 and not r.stderr and all(re.match(r"[a-z0-9_-]+\t|:file$|:folder$", x) for x in r.stdout.splitlines()), r.stdout + r.stderr)
    return [x.split("\t")[0] for x in r.stdout.splitlines()]


check("first words are all there, once", sorted(words("")) == sorted({n.split()[0] for n in NAMES}), words(""))
for group in sorted({n.split()[0] for n in NAMES if " " in n}):
    seconds = [n.split()[1] for n in NAMES if n.startswith(group + " ")]
    # A command that is a group as well offers its operands behind them.
    check(f"second words of {group}", words(group, "")[:len(seconds)] == seconds and (group in NAMES or len(words(group, "")) == len(seconds)))
SAVED = ["api-one", "zebra", "saved-x"]
for typed, want in [
    (["workspace", "describe", ""], SAVED), (["trace", "ls", "z"], ["zebra"]), (["exec", "-e", "A=b", ""], SAVED), (["run", "--rm", "s"], ["saved-x"]),
    (["rules", "set", "api-one", ""], [":file"]), (["rules", "test", ""], SAVED + [":file"]), (["run", "--share", ""], [":folder"]), (["exec", "zebra", "--", ""], [":file"]),
    (["run", "--", ""], [":file"]), (["exec", "zebra", "git", "--"], [":file"]), (["trace", "ls", "--de"], ["--denied"]), (["trace", "ls", "--host", ""], []),
    (["--config", ""], [":file"]), (["--json", "timel"], ["timeline"]), (["help", "doc"], ["doctor"]), (["completion", "f"], ["fish"]), (["workspace", "new", ""], []),
    (["approvals", ""], ["ls", "allow", "deny", "revoke"] + SAVED), (["approvals", "z"], ["zebra"]), (["approvals", "ls", "z"], ["zebra"]),
    (["approvals", "allow", "3", "--for", ""], ["once", "5m", "1h", "session"]), (["credential", "import", ""], [":file"]),
    (["nix", ""], []), (["trace", "nix", ""], []), (["share", "diff", "zebra", "a", ""], [":file"]), (["run", "--ver"], []), (["--ver"], ["--version"]),
]:
    check(f"`brome {' '.join(typed)}`", words(*typed) == want, words(*typed))
r = run("brome", "completion", "tcsh")
check("another shell is refused", r.returncode == 64 and "bash, zsh or fish" in r.stderr, r.stderr)
(HOME / "bad.conf").write_text("workspace \x1b[31m {")
r = subprocess.run([BROME, "--config", str(HOME / "bad.conf"), "completion", "words", "--", "shell", ""], capture_output=True, text=True, env=ENV)
check("a configuration that does not parse costs the names only", r.returncode == 0 and not r.stdout and not r.stderr, r.stdout + r.stderr)

SCRIPT = {s: run("brome", "completion", s).stdout for s in ("bash", "zsh", "fish")}
for shell, text in SCRIPT.items():
    (HOME / f"brome.{shell}").write_text(text)


def typed(keys, until, seconds=20):
    """bash on a terminal of its own with the script read: these keys, then what the screen says when `until` is seen."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(home.name)
        os.execve("/bin/bash", ["bash", "--noprofile", "--norc", "-i"], ENV)
    seen, sent, end = "", 0, time.monotonic() + seconds
    steps = [("$ ", "bind 'set bell-style none'; . ./brome.bash; echo rea''dy\n"), ("\nready", keys)]
    while time.monotonic() < end:
        if sent < len(steps) and steps[sent][0] in seen.replace("\r", ""):
            os.write(fd, steps[sent][1].encode())
            seen, sent = "", sent + 1
        elif sent == len(steps) and until in seen:
            break
        if select.select([fd], [], [], 0.5)[0]:
            try:
                seen += os.read(fd, 4096).decode(errors="replace")
            except OSError:
                break
    os.close(fd)
    os.waitpid(pid, 0)
    return seen


if not shutil.which("bash"):
    skip("bash", "bash is not installed")
else:
    r = run("bash", "-n", "brome.bash")
    check("bash reads the script", r.returncode == 0, r.stderr)
    for keys, want in [("brome works\t", "brome workspace "), ("brome trace ho\t", "brome trace hostnames "), ("brome trace ls --de\t", "--denied "), ("brome shell ze\t", "shell zebra "),
                       ("brome exec -e A=b:c sa\t", "saved-x "), ("brome rules check a\\ f\t", "a\\ file.rules "), ("brome run --share af\t", "afolder/"), ("brome workspace \t\t", "describe")]:
        screen = typed(keys, want)
        check(f"bash completes {keys!r}", want in screen, repr(screen))

if not shutil.which("zsh"):
    skip("zsh", "zsh is not installed")
else:
    r = run("zsh", "-n", "brome.zsh")
    check("zsh reads the script", r.returncode == 0, r.stderr)
if not shutil.which("fish"):
    skip("fish", "fish is not installed")
else:
    r = run("fish", "--no-execute", "brome.fish")
    check("fish reads the script", r.returncode == 0, r.stderr)
    r = run("fish", "--no-config", "-c", "source brome.fish; complete -C 'brome trace ho'; complete -C 'brome shell z'")
    check("fish completes", "hostnames\tList" in r.stdout and "zebra\t" in r.stdout, r.stdout + r.stderr)
done()
