"""The question on the terminal, asked by a scripted bromed. Usage: test_question.py ATTACH BROME-GUEST [test name …]."""
import json, re

from test_attach import *
import test_attach

APPROVAL = {"id": 9, "workspace": "api", "what": "credential", "name": "forge", "host": "api.forge.example", "port": 443, "waiting": 2, "since_us": 1, "expires_us": 2,
            "requests": [{"method": "GET", "path": "/user", "count": 2}, {"method": "POST", "path": "/repos/a\x1b[2J/\u202eb", "count": 1}]}


class Asked(Peer):
    """A Peer whose descriptor 4 is bromed's end of a watch."""

    def __init__(self, **how):
        self.bromed, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.dup2(theirs.fileno(), 40, inheritable=True)
        real = subprocess.Popen

        def popen(argv, preexec_fn, pass_fds, **more):
            def both():
                preexec_fn()
                os.dup2(40, 4)
                os.set_inheritable(4, True)
            return real(argv + ["watch"], preexec_fn=both, pass_fds=(3, 4, 40), **more)

        test_attach.subprocess.Popen = popen
        try:
            super().__init__(**how)
        finally:
            test_attach.subprocess.Popen = real
        theirs.close()
        os.close(40)
        self.bromed.settimeout(20)

    def notice(self, **members):
        self.bromed.send(json.dumps(dict(op="notice", id=1, **members)).encode())

    def ask(self, **changes):
        self.notice(kind="approval", approval=dict(APPROVAL, **changes))
        return self.screen(b"\r\n> ")

    def answer(self):
        return json.loads(self.bromed.recv(65536))

    def type(self, data):
        os.write(self.master, data)

    def nothing_typed_arrives(self):
        """The next thing that comes is a resize, then what we typed for the program."""
        assert self.expect(RESIZE) == struct.pack("<HH", 32, 99)
        while self.expect(RESIZE) != struct.pack("<HH", 33, 99):
            pass
        self.type(b"after")
        got = self.expect(STDIN)
        assert got == b"after", got


def terminal():
    p = Asked(pty_asked=True, terminal=True)
    p.expect(RESIZE)
    p.send(STARTED, struct.pack("<I", 5))
    return p


def code(screen, what):
    return re.search(rb"\b(\d\d)  " + what, screen)[1]


def test_allow_once():
    p = terminal()
    p.send(STDOUT, b"before\x1b[?2004h\x1b[?25l\x1b[31m\x1b[>1u\x1b[>4;2m\x1b[?1049h")
    p.screen(b"before")
    text = p.ask()
    assert b"\x1b[?2004l" in text and b"\x1b[?1049l" in text and b"\x1b[<8u" in text and b"\x1b[?25h" in text and text.index(b"\x1b[0m") < text.index(b"--- brome ---"), text
    assert b"api asks for api.forge.example:443 with the credential forge" in text and b"GET    /user  (2 times)" in text, text
    shown = text[text.index(b"--- brome"):]
    assert b"\r\n\x1b[J--- brome" in text, "what stood below is still there"
    assert b"\\x1b[2J" in shown and b"\x1b" not in shown and "\u202e".encode() not in shown, shown
    p.send(STDOUT, b"HELD")
    p.type(code(text, b"once") + b"\rrm -rf /\r")
    a = p.answer()
    assert a == {"op": "approvals.allow", "id": 8, "approval": 9, "for": "once", "seen": 2}, a
    after = p.screen(b"HELD")
    assert b"brome: allowed once" in after and after.index(b"allowed once") < after.index(b"HELD"), after
    assert all(m in after for m in (b"\x1b[?2004h", b"\x1b[?25l", b"\x1b[>1u", b"\x1b[>4;2m", b"\x1b[?1049h")), after
    p.nothing_typed_arrives()
    assert p.exit() == 0 and termios.tcgetattr(p.slave) == p.before


def test_every_answer():
    for what, word in ((b"for 5 minutes", "5m"), (b"for 1 hour", "1h"), (b"for this session", "session")):
        p = terminal()
        p.type(code(p.ask(), what) + b"\r")
        assert p.answer()["for"] == word
        p.exit()
    p = terminal()
    p.ask()
    p.type(b"n\r")
    assert p.answer() == {"op": "approvals.deny", "id": 8, "approval": 9}
    p.screen(b"denied")
    p.nothing_typed_arrives()
    p.exit()


def test_codes_are_new_and_differ():
    seen = set()
    for i in range(6):
        p = terminal()
        codes = re.findall(rb"   (\d\d)  ", p.ask())
        assert len(codes) == 4 == len(set(codes)), codes
        seen.add(tuple(codes))
        p.type(b"n\r")
        p.answer()
        p.exit()
    assert len(seen) > 4


def test_typed_ahead_and_forged():
    """What is in the line before the codes are shown answers nothing and reaches nobody; a picture of the guest's own asks nobody."""
    p = terminal()
    p.send(STDOUT, b"--- brome ---\r\n   11  once: what is shown here\r\n> ")
    p.screen(b"> ")
    p.type(b"11\r")
    assert p.expect(STDIN) == b"11\r"  # the program gets it, bromed nothing
    p.bromed.settimeout(0.3)
    try:
        raise AssertionError(p.answer())
    except TimeoutError:
        p.bromed.settimeout(20)
    os.kill(p.process.pid, signal.SIGSTOP)
    p.type(b"".join(b"%02d\r" % i for i in range(10, 100)))
    p.notice(kind="approval", approval=APPROVAL)
    os.kill(p.process.pid, signal.SIGCONT)
    text = p.screen(b"\r\n> ")
    assert not select.select([p.bromed], [], [], 0.3)[0], "typed ahead, and taken as an answer"
    p.type(code(text, b"once")[:1] + b"\r" + b"zz\r\x1b[A\r" + code(text, b"once") + b"1\r")
    p.screen(b"none of the answers\r\n> ")
    assert not select.select([p.bromed], [], [], 0.3)[0]
    p.type(b"n\r")
    assert p.answer()["op"] == "approvals.deny"
    p.exit()


def test_later_and_wrong():
    for typed in (b"\x03", b"l\r", b"x\r" * 5):
        p = terminal()
        p.ask()
        p.type(typed)
        assert b"approvals allow 9 --for once" in p.screen(b"lets it go\r\n")
        p.notice(kind="approval", approval=dict(APPROVAL, waiting=3))  # grown: not asked again
        p.notice(kind="approval", approval=dict(APPROVAL, id=10, host="other.example"))
        text = p.screen(b"\r\n> ")
        assert b"other.example" in text and text.count(b"--- brome ---") == 1, text
        p.type(b"n\r")
        assert p.answer()["approval"] == 10
        p.exit()


def test_answered_elsewhere():
    p = terminal()
    p.ask()
    p.notice(kind="approval", approval=dict(APPROVAL, id=10, host="second.example"))
    p.notice(kind="approval-end", approval=9, answer="1h")
    text = p.screen(b"\r\n> ")
    assert b"answered elsewhere, or is over: allowed for 1 hour" in text and b"second.example" in text, text
    p.notice(kind="approval-end", approval=10, answer="expired")
    p.screen(b"expired\r\n")
    p.nothing_typed_arrives()
    p.exit()


def test_what_waited_already():
    p = terminal()
    p.bromed.send(json.dumps(dict(op="approvals", id=2, waiting=[APPROVAL], grants=[], denials=[])).encode())
    p.type(code(p.screen(b"\r\n> "), b"once") + b"\r")
    assert p.answer()["approval"] == 9
    p.exit()


def test_many_requests_are_bounded():
    p = terminal()
    text = p.ask(requests=[{"method": "GET", "path": "/" + "x" * 900 + str(i), "count": 1} for i in range(32)], more=100)
    assert len(text) < 4000 and b"x0\r\n" in text and b"and 131 more" in text, (len(text), text)
    p.type(code(text, b"once") + b"\r")
    assert p.answer()["seen"] == 1
    p.exit()
    p = terminal()
    text = p.ask(requests=[{"method": "GET", "path": "/" + "\\" * 1000, "count": 1}, {"method": "GET", "path": "/b", "count": 1}])
    assert b"which does not fit here" in text and len(text) < 4000, text
    p.type(b"n\r")
    p.answer()
    p.exit()


def test_a_body_and_who_gave_up_are_said():
    p = terminal()
    text = p.ask(requests=[{"method": "POST", "path": "/a", "count": 1, "body": True}, {"method": "POST", "path": "/a", "count": 1, "body": True, "gone": True},
                           {"method": "GET", "path": "/b", "count": 3}])
    assert b"POST   /a  (with a body)\r\n" in text and b"POST   /a  (with a body)  (gave up)\r\n" in text and b"GET    /b  (3 times)\r\n" in text, text
    p.type(code(text, b"once") + b"\r")
    assert p.answer()["seen"] == 3
    p.exit()


def test_bromed_goes_and_program_ends():
    p = terminal()
    p.ask()
    p.bromed.close()
    p.screen(b"the supervisor is gone\r\n")
    p.nothing_typed_arrives()
    p.exit()
    p = terminal()
    p.ask()
    p.send(STDOUT, b"last words")
    assert p.exit(3 << 8) == 3
    assert termios.tcgetattr(p.slave) == p.before and b"last words" in p.screen(b"last words")


def test_signals_put_the_terminal_back():
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV):
        p = terminal()
        p.ask()
        p.process.send_signal(s)
        p.process.wait(20)
        assert termios.tcgetattr(p.slave) == p.before, s


def test_an_alert_is_a_line():
    p = terminal()
    alert = dict(id=1, workspace="api", credential="forge", placeholder="ghp_brmabcd…", issued_for="api.forge.example", going_to="evil\x1b[2J.example", port=443)
    p.notice(kind="alert", alert=alert)
    text = p.screen(b"how to go on; ^C leaves\r\n")
    assert b"TRIPWIRE: api" in text and b"evil\\x1b[2J.example" in text, text
    p.type(b"nobody hears this")
    p.notice(kind="state", workspace="api", state="running", reason="thawed")
    p.notice(kind="approval", approval=dict(APPROVAL))  # after it the state was heard
    p.screen(b"\r\n> ")
    p.type(b"n\r")
    p.answer()
    p.nothing_typed_arrives()
    p.notice(kind="alert", alert=alert)
    p.screen(b"^C leaves\r\n")
    p.type(b"x\x03")
    assert p.expect(CLOSE) == b"" and p.process.wait(20) == 130 and termios.tcgetattr(p.slave) == p.before


def test_without_a_terminal():
    p = Asked(**PIPES)
    p.notice(kind="approval", approval=APPROVAL)
    p.notice(kind="approval", approval=dict(APPROVAL, waiting=5))
    line = p.process.stderr.readline()
    assert line.startswith(b"note: api asks for api.forge.example:443 with the credential forge (GET /user)") and b"`brome approvals allow 9 --for once`" in line, line
    p.process.stdin.write(b"11\n")
    p.process.stdin.flush()
    assert p.expect(STDIN) == b"11\n"
    p.send(STDOUT, b"goes on")
    assert p.exit() == 0 and p.process.stdout.read() == b"goes on" and p.process.stderr.read() == b""


def test_a_terminal_without_pty():
    """`exec -T`: the line discipline is the terminal's; the question still takes the keyboard alone."""
    p = Asked(terminal=True)
    text = p.ask()
    p.type(code(text, b"once") + b"\r")
    assert p.answer()["for"] == "once"
    p.screen(b"allowed once")
    deadline = time.monotonic() + 20
    while termios.tcgetattr(p.slave) != p.before:
        assert time.monotonic() < deadline
    p.type(b"line\n")
    assert p.expect(STDIN) == b"line\n"
    assert p.exit() == 0


if __name__ == "__main__":
    mine = {n: f for n, f in globals().items() if n.startswith("test_") and callable(f) and f.__module__ == "__main__"}
    tests = [(n, f) for n, f in mine.items() if len(sys.argv) < 4 or n in sys.argv[3:]]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, f) in enumerate(tests, 1):
        try:
            f()
            print(f"ok {i} - {name}", flush=True)
        except BaseException:
            import traceback
            bad += 1
            print(f"not ok {i} - {name}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    sys.exit(bad > 0)
