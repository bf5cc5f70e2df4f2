#!/usr/bin/python3
"""The command table as a person meets it: help, usage errors, what was meant, errors as JSON. usage: test_commands.py BROME"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tap import check, done

BROME = sys.argv[1]
TABLE = (pathlib.Path(__file__).resolve().parents[3] / "src/cli/commands.tbl").read_text()
COMMANDS = re.findall(r'^COMMAND\("([^"]+)", \w+, "([^"]*)", "([^"]+)",\s*"([^"]+)"\)', TABLE, re.M)
home = tempfile.TemporaryDirectory()
ENV = dict(os.environ, BROME_CONFIG=home.name + "/brome.conf", BROME_STATE=home.name + "/state", BROME_RUNTIME=home.name + "/run")

SHARE_APPLY = """usage: brome share apply [OPTION …] WORKSPACE [PATH …]

Take changes of an overlay share over into the folder.

      --all                   take every change, but for files that this machine would execute by itself
      --json                  print listings as one JSON object a line, errors as one object
  -h, --help                  print this

example:
  brome share apply api src/main.c

Exit status: brome(1) lists the codes; 64 is a wrong command line.
"""


def brome(*args, rules=""):
    return subprocess.run([BROME, *args], input=rules, capture_output=True, text=True, env=ENV)


def options_of(name):
    """The option rows below a command, groups of them unfolded."""
    rows = TABLE[TABLE.index(f'COMMAND("{name}"') + 1:].split("\nCOMMAND(")[0].split("\n#undef")[0]
    groups = {m[1]: m[2] for m in re.finditer(r"#define (\w+_OPTIONS) \\\n((?:.*\\\n)*.*)", TABLE)}
    for _ in range(2):
        rows = re.sub(r"\b(\w+_OPTIONS)\b", lambda m: groups[m[1]], rows)
    return re.findall(r'OPTION\("([^"]+)", (0|\'.\'), "([^"]*)", "([^"]+)"\)', rows)


check("the table is read", len(COMMANDS) == TABLE.count("\nCOMMAND(") > 30, COMMANDS)
r = brome("help")
check("help lists every command", all(f"\n  {c[0]} " in r.stdout for c in COMMANDS) and r.returncode == 0, r.stdout)
for name, operands, sentence, example in COMMANDS:
    r = brome(*name.split(), "--help")
    page = r.stdout
    whole = page.startswith(f"usage: brome {name}") and f"\n\n{sentence}.\n" in page and f"\nexample:\n  brome {example}\n" in page and "brome(1)" in page
    told = all(f"--{o[0]}" in page and o[3] in page for o in options_of(name))
    check(f"{name} --help: usage, sentence, options with text, example", r.returncode == 0 and not r.stderr and whole and told, page + r.stderr)
    check(f"{name}: the example is of this command", example.split()[:len(name.split())] == name.split(), example)
    r = brome(*name.split(), "--no-such-option", "--json")
    e = json.loads(r.stderr)
    check(f"{name}: a wrong option with --json is one object", r.returncode == 64 and not r.stdout and set(e) == {"error", "hint"} and "--no-such-option" in e["error"], r.stderr)
check("a whole page", brome("share", "apply", "--help").stdout == SHARE_APPLY, brome("share", "apply", "--help").stdout)
check("help COMMAND is COMMAND --help", brome("help", "share", "apply").stdout == SHARE_APPLY)
r = brome("workspace", "--help")
check("a group's --help lists the group", r.returncode == 0 and "workspace thaw" in r.stdout and "rules" not in r.stdout.split("Show effective")[0], r.stdout)

MEANT = [
    (["workspce", "ls"], "workspace ls"), (["workspace", "lst"], "workspace ls"), (["rnu", "--", "true"], "run"), (["timelin"], "timeline"),
    (["freeze", "api"], "workspace freeze"), (["rules", "chekc", "-"], "rules check"), (["help", "docter"], "doctor"), (["wrkspace"], "workspace"),
]
for words, want in MEANT:
    r = brome(*words)
    check(f"brome {' '.join(words)}: did you mean {want}", r.returncode == 64 and r.stderr.count("\n") == 1 and f"did you mean `brome {want}`?" in r.stderr, r.stderr)
for words, want in [(["trace", "ls", "--dennied"], "--denied"), (["run", "--alow", "web x.example"], "--allow"), (["workspace", "stop", "x", "--forse"], "--force")]:
    r = brome(*words)
    check(f"brome {' '.join(words)}: did you mean {want}", r.returncode == 64 and f"did you mean `{want}`?" in r.stderr and "usage: brome" in r.stderr, r.stderr)
for words in (["xyzzy"], ["workspace", "xyzzy"], ["trace", "ls", "--xyzzy"], ["\x1b]52;c;x\x07"], ["x" * 5000], ["trace", "ls", "--" + "x" * 5000]):
    r = brome(*words)
    check(f"nothing is near {ascii(words[-1][:8])}", r.returncode == 64 and "did you mean" not in r.stderr and "\x1b" not in r.stderr and len(r.stderr) < 2000, r.stderr)
for words, says in [(["trace", "ls", "--host"], "--host needs HOST"), (["trace", "ls", "-n"], "--lines needs N"), (["trace", "ls", "--denied=1"], "takes no argument"),
                    (["trace", "ls", "-Z"], "no option `-Z`"), (["workspace"], "needs another word"), (["--config"], "--config needs a file"),
                    (["run"] + ["--allow", "web a.example"] * 65, "at most 64 times"), (["trace", "ls", "a", "b"], "unexpected `b`")]:
    r = brome(*words)
    check(f"{says}", r.returncode == 64 and says in r.stderr, r.stderr)

ERRORS = [
    (["workspace", "ls", "x"], 64), (["workspce", "ls"], 64), (["--config", "/nonexistent/x", "check"], 65), (["rules", "check", "-"], 65), (["rules", "test", "nix", "https://a.example/"], 1),
    (["share", "diff", "nix"], 1), (["rules", "test", "nix", "ftp://x"], 64), (["exec", "nix", "--", "true"], 125), (["daemon", "status"], 75), (["trace", "ls"], 1),
]
for words, code in ERRORS:
    plain, r = brome(*words, rules="allow wbe x\n"), brome("--json", *words, rules="allow wbe x\n")
    lines = r.stderr.splitlines()
    e = json.loads(lines[0]) if len(lines) == 1 else {}
    check(f"--json {' '.join(words)}: one object, the same exit status {code}",
          r.returncode == plain.returncode == code and not r.stdout and isinstance(e.get("error"), str) and "hint" in e and plain.stderr and not plain.stderr.startswith("{"),
          f"{plain.returncode} {plain.stderr}{r.returncode} {r.stderr}{r.stdout}")
e = json.loads(brome("daemon", "status", "--json").stderr)
check("the hint says what to do", e == {"error": "the supervisor is not running", "hint": "`brome daemon start` starts it"}, e)
e = json.loads(brome("trace", "ls", "--dennied", "--json").stderr)
check("what was meant is the hint", e["hint"] == "did you mean `--denied`?", e)
e = json.loads(brome("rules", "check", "-", "--json", rules="allow wbe x\n").stderr)
check("diagnostics keep their lines", e["error"].startswith("-:1:7: ") and len(e["diagnostics"]) == 3, e)
r = brome("rules", "check", "-", "--json", rules="allow web .example.com\nallow web a.example.com read-only\n")
check("a warning is a note, not an error", r.returncode == 0 and "note" in json.loads(r.stderr) and "error" not in json.loads(r.stderr), r.stderr)
r = brome("--json", "rules", "check", "/nonexistent/\udcff; x")
check("a name that is no UTF-8 is still JSON", r.returncode == 65 and json.loads(r.stderr)["error"], r.stderr)
done()
