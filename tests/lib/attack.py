"""What the attack tests share: scripts run in the guest over guestwire.py, a keep-alive origin that records each byte, and verdict lines."""
import json
import pathlib
import re
import textwrap
import threading

from world import Recorder, wait_for

WIRE = (pathlib.Path(__file__).parent / "guestwire.py").read_text()


def guest(b, script, workspace="s", timeout=300, **values):
    """Runs a script in the workspace after guestwire.py; `values` are its variables, what it tells comes back."""
    lines = "".join(f"{k} = {v!r}\n" for k, v in values.items())
    p = b("exec", "-T", workspace, "--", "python3", "-", input=WIRE + "\n" + lines + textwrap.dedent(script), timeout=timeout)
    assert p.returncode == 0, f"guest script: exit {p.returncode}\n{p.stdout[-2000:]}\n{p.stderr[-4000:]}\n{b.log()}"
    return json.loads(p.stdout.splitlines()[-1])


class Origin(Recorder):
    """Keeps connections, answers each whole request with 200 and its request line, and keeps every byte."""

    def __init__(self, address, port, tls=None):
        self.parsed = threading.local()
        super().__init__(address, port, tls, self.serve_requests)

    @staticmethod
    def body_end(head, data, at):
        """Where the body ends, or None. Lenient in nothing: what comes here must be plain."""
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length:
            return at + int(length[1]) if len(data) >= at + int(length[1]) else None
        if re.search(rb"(?i)\r\ntransfer-encoding:", head):
            end = re.search(rb"(?:^|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n", data[at:])
            return at + end.end() if end else None
        return at

    def serve_requests(self, c, data):
        if data[:1] == b"\x16" and not self.tls:
            return True  # TLS, which this server does not speak
        at = getattr(self.parsed, "at", 0)  # a thread serves one connection
        while True:
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                break
            head = data[at:end + 2]
            after = self.body_end(head, data, end + 4)
            if after is None:
                break
            line = head.split(b"\r\n", 1)[0] + b"\n"
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(line) + (b"" if head.startswith(b"HEAD ") else line))
            at = after
        self.parsed.at = at
        return False

    def saw(self, text):
        return (text if isinstance(text, bytes) else text.encode()) in self.everything()


def refusals(b):
    """Every refusal that the journal holds, as the command line lists it."""
    return [r for r in b.trace() if r.get("verdict") == "deny"]


def rows_for(b, wanted, get=refusals):
    """Waits until the journal holds a refusal for each wanted (field -> value) set; what is missing comes back."""
    missing = []

    def all_there():
        # Identical refusals that come fast share a record that counts them.
        rows, missing[:] = [r for r in get(b) for _ in range(r.get("count") or 1)], []
        for want in wanted:
            hit = next((i for i, r in enumerate(rows) if all(r.get(k) == v for k, v in want.items())), None)
            if hit is None:
                missing.append(want)
            else:
                rows.pop(hit)
        return not missing
    try:
        wait_for("verdict lines", all_there, 15)
    except AssertionError:
        pass
    return missing


def check(problems):
    assert not problems, "\n" + "\n".join(str(p) for p in problems[:40]) + f"\n{len(problems)} problems"
