"""Numbered results for meson (TAP): check(what, ok, said), skip(what, why), and done() at the end."""
import sys

count = 0


def check(what, ok, said=""):
    global count
    count += 1
    print(("ok" if ok else "not ok"), count, what)
    if not ok:
        print("".join(f"# {line}\n" for line in str(said).splitlines()))
        sys.exit(1)


def skip(what, why):
    global count
    count += 1
    print(f"ok {count} {what} # SKIP {why}")


def done():
    print(f"1..{count}")
