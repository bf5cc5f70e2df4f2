#!/usr/bin/python3
"""Runs the end-to-end, attack and fault tests: each file in a network and mount namespace of its own, two at a time.
usage: tests/run.py BROME [FILE…] [-k PATTERN] [-j N]; ends with `N passed, N failed, N skipped` and exit status 1 on failure."""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
FILE_SECONDS = 900  # one file, at most
for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(s, signal.SIG_DFL)  # what a shell starts in the background has them ignored, and so would everything that is tried here


def run_file(args):
    path, options = args
    env = {**os.environ, "BROME_UNDER_TEST": options.brome, "PYTHONDONTWRITEBYTECODE": "1"}
    flags = [] if "# world: outside" in path.read_text() else ["--net"]
    argv = ["unshare", "--mount", *flags, "/usr/bin/python3", str(TOP / "tests/lib/runner.py"), str(path), options.k]
    try:
        p = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=FILE_SECONDS)
        out = p.stdout.decode(errors="replace")
        if p.returncode and "not ok" not in out:
            out += f"not ok {path.name}: ended with {p.returncode}\n"
        return out
    except subprocess.TimeoutExpired as e:
        return (e.stdout or b"").decode(errors="replace") + f"not ok {path.name}: took longer than {FILE_SECONDS} s\n"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("brome")
    a.add_argument("files", nargs="*")
    a.add_argument("-k", default="", help="only tests whose name holds this")
    a.add_argument("-j", type=int, default=2)
    a.add_argument("--full", action="store_true", help="long ones too (files that say `# long`)")
    options = a.parse_args()
    options.brome = os.path.abspath(options.brome)
    if os.geteuid() != 0:
        sys.exit("tests/run.py needs root: it makes network namespaces (the tests themselves also run as an ordinary user)")
    files = [pathlib.Path(f).resolve() for f in options.files]
    if not files:
        files = sorted(f for d in ("e2e", "attack", "fault") for f in (TOP / "tests" / d).glob("test_*.py"))
        if not options.full:
            files = [f for f in files if "# long" not in f.read_text().splitlines()[:5]]
    count = {"ok": 0, "not": 0, "skip": 0}
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for out in pool.map(run_file, [(f, options) for f in files]):
            sys.stdout.write(out)
            sys.stdout.flush()
            for line in out.splitlines():
                word = line.split(" ", 1)[0]
                if word in count:
                    count[word] += 1
    print(f"{count['ok']} passed, {count['not']} failed, {count['skip']} skipped")
    sys.exit(1 if count["not"] or not count["ok"] else 0)


main()
