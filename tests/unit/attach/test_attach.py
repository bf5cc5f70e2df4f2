"""attach_run against a scripted peer and against brome-guest. Usage: test_attach.py ATTACH BROME-GUEST [test name …]."""
import fcntl, hashlib, os, pty, select, signal, socket, struct, subprocess, sys, termios, threading, time, tty

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "guest"))
from driver import *

for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(s, signal.SIG_DFL)  # whoever started the tests may have ignored it, and a program inherits that

ATTACH, GUEST = map(os.path.abspath, sys.argv[1:3])


class Peer:
    """The other end of the stream."""

    def __init__(self, pty_asked=False, terminal=False, **how):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.buffer, self.master = bytearray(), None
        number = theirs.fileno()

        def place():
            os.dup2(number, 3)
            os.set_inheritable(3, True)
            if not terminal:
                os.setpgid(0, 0)  # a job of a shell: a group that is no orphan, or the kernel would not stop it
            if terminal:
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        if terminal:
            self.master, slave = pty.openpty()
            self.slave = slave
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("<HHHH", 33, 99, 0, 0))
            self.before = termios.tcgetattr(slave)
            how = dict(stdin=slave, stdout=slave, stderr=slave)
        self.process = subprocess.Popen([ATTACH] + (["pty"] if pty_asked else []), preexec_fn=place, pass_fds=(3,), **how)
        theirs.close()
        self.socket.settimeout(30)

    def send(self, kind, payload=b""):
        self.socket.sendall(struct.pack("<IBBH", 0, kind, 0, len(payload)) + payload)

    frame = Guest.frame

    def expect(self, kind):
        while True:
            stream, got, payload = self.frame()
            assert stream == 0
            if got == kind:
                return payload
            assert got in (WINDOW, RESIZE, STDIN), got

    def screen(self, until, seconds=20):
        out, end = b"", time.monotonic() + seconds
        while until not in out:
            assert time.monotonic() < end, out
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    out += os.read(self.master, 4096)
                except OSError:
                    break
        return out

    def exit(self, status=0):
        self.send(EXIT, struct.pack("<I", status))
        return self.process.wait(20)


PIPES = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_relay_and_exit_status():
    for status, expected in ((0, 0), (7 << 8, 7), (9, 137)):
        p = Peer(**PIPES)
        p.process.stdin.write(b"in")
        p.process.stdin.close()
        assert p.expect(STDIN) == b"in" and p.expect(STDIN) == b""
        p.send(STARTED, struct.pack("<I", 5))
        p.send(STDOUT, b"out\x1b]52;c;AAAA\a")  # no terminal: bytes as they are
        p.send(STDERR, b"err")
        assert p.exit(status) == expected
        assert p.process.stdout.read() == b"out\x1b]52;c;AAAA\a" and p.process.stderr.read() == b"err"


def test_failures():
    for code, expected in ((2, 127), (13, 126), (99999, 126)):
        p = Peer(**PIPES)
        p.send(FAILED, struct.pack("<I", code) + b"cannot run\x1b[2J")
        assert p.process.wait(20) == expected
        text = p.process.stderr.read()
        assert b"cannot run\\x1b" in text and b"\x1b" not in text, text
    p = Peer(**PIPES)
    p.send(STDOUT, b"partial")
    p.socket.close()
    assert p.process.wait(20) == 125 and p.process.stdout.read() == b"partial"
    for bad in (struct.pack("<IBBH", 0, 77, 0, 0), struct.pack("<IBBH", 1, STDOUT, 0, 0), struct.pack("<IBBH", 0, HELLO, 0, 0), struct.pack("<IBBHIB", 0, WINDOW, 0, 5, 9, STDIN),
                struct.pack("<IBBHIB", 0, WINDOW, 0, 5, 9, STDOUT), struct.pack("<IBBH", 0, EXIT, 0, 0)):
        p = Peer(**PIPES)
        p.socket.sendall(bad)
        assert p.process.wait(20) == 125, bad


def test_windows_are_enforced_both_ways():
    p = Peer(**PIPES)
    threading.Thread(target=lambda: (p.process.stdin.write(bytes(1 << 20)), p.process.stdin.close())).start()
    got = 0
    while got < WINDOW_BYTES:
        got += len(p.expect(STDIN))
    assert got == WINDOW_BYTES
    p.socket.settimeout(0.3)
    try:
        p.frame()
        raise AssertionError("input beyond the window")
    except TimeoutError:
        p.socket.settimeout(30)
    while got < 1 << 20:
        p.send(WINDOW, struct.pack("<IB", 32768, STDIN))
        need = got + 32768
        while got < need:
            got += len(p.expect(STDIN))
    p.send(WINDOW, struct.pack("<IB", 32768, STDIN))
    assert p.expect(STDIN) == b""
    p.exit()
    p = Peer(**PIPES)  # nobody reads its standard output
    try:
        for _ in range(40):
            p.send(STDOUT, bytes(32768))
    except OSError:
        pass
    end = time.monotonic() + 20
    while b"more than it may" not in (line := p.process.stderr.read1(4096) if select.select([p.process.stderr], [], [], 0)[0] else b""):
        if p.process.poll() is not None or time.monotonic() > end:
            break
        p.process.stdout.read1(65536)
    assert p.process.wait(20) == 125


def test_signals_are_passed_on():
    p = Peer(**PIPES)
    p.send(STDOUT, b"x")
    assert p.process.stdout.read(1) == b"x"
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        p.process.send_signal(s)
        assert struct.unpack("<I", p.expect(SIGNAL))[0] == s
    p.process.send_signal(signal.SIGTSTP)
    assert struct.unpack("<I", p.expect(SIGNAL))[0] == signal.SIGSTOP
    end = time.monotonic() + 10
    while open(f"/proc/{p.process.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < end
    p.process.send_signal(signal.SIGCONT)
    assert struct.unpack("<I", p.expect(SIGNAL))[0] == signal.SIGCONT
    assert p.exit(2) == 130


def test_a_reader_that_goes_away():
    r, w = os.pipe()
    p = Peer(stdin=subprocess.DEVNULL, stdout=w, stderr=subprocess.PIPE)
    os.close(w)
    os.close(r)
    p.send(STDOUT, b"x")
    assert struct.unpack("<I", p.expect(SIGNAL))[0] == signal.SIGPIPE
    p.send(STDOUT, bytes(32768))
    assert p.exit(13) == 141


def test_terminal_is_raw_filtered_and_restored():
    p = Peer(pty_asked=True, terminal=True)
    assert struct.unpack("<HH", p.expect(RESIZE)) == (33, 99)
    mode = termios.tcgetattr(p.slave)
    assert not mode[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
    os.write(p.master, b"\x03\x1a")
    got = p.expect(STDIN)
    while len(got) < 2:
        got += p.expect(STDIN)
    assert got == b"\x03\x1a"
    p.send(STDOUT, b"a\x1b]52;c;AA\x07b\x1b[21tc\x1b[?1049h\x1b[?1000;1006h\x1b[?25l\x1b[?2004h\x1b[1mdone\x1b[6n")
    assert p.screen(b"done\x1b[6n") == b"abc\x1b[?1049h\x1b[?1000;1006h\x1b[?25l\x1b[?2004h\x1b[1mdone\x1b[6n"
    fcntl.ioctl(p.slave, termios.TIOCSWINSZ, struct.pack("<HHHH", 44, 55, 0, 0))
    assert struct.unpack("<HH", p.expect(RESIZE)) == (44, 55)
    p.send(EXIT, struct.pack("<I", 3 << 8))
    out = p.screen(b"\x1b[0m")
    for back in (b"\x1b[?2004l", b"\x1b[?1049l", b"\x1b[?1006l", b"\x1b[?1000l", b"\x1b[?25h"):
        assert back in out, out
    os.write(p.master, b"\x1b[1;1R")  # the answer, under way when the program ended
    assert p.process.wait(20) == 3
    assert termios.tcgetattr(p.slave) == p.before
    tty.setraw(p.slave)
    assert not select.select([p.slave], [], [], 0.1)[0], "input is left for the shell"


def test_terminal_is_restored_after_signals_and_crashes():
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT):
        p = Peer(pty_asked=True, terminal=True)
        p.expect(RESIZE)
        p.process.send_signal(s)
        if s in (signal.SIGTERM, signal.SIGHUP):
            assert p.expect(CLOSE) == b""
            assert p.process.wait(20) == 128 + s
        else:
            assert p.process.wait(20) == -s
        assert termios.tcgetattr(p.slave) == p.before, s
    p = Peer(pty_asked=True, terminal=True)
    p.expect(RESIZE)
    p.socket.close()
    assert p.process.wait(20) == 125 and termios.tcgetattr(p.slave) == p.before


def test_with_the_real_guest():
    g = Guest(GUEST)
    p = Peer(**PIPES)
    n = g.exec("sh", "-c", "sha256sum; head -c 20000000 /dev/zero; exit 5")
    g.socket.settimeout(30)
    stop = threading.Event()

    def relay(a, b, stream):
        try:
            while not stop.is_set():
                _, kind, payload = a.frame()
                b.sendall(struct.pack("<IBBH", stream, kind, 0, len(payload)) + payload)
        except (EOFError, OSError):
            pass

    threading.Thread(target=relay, args=(g, p.socket, 0), daemon=True).start()
    threading.Thread(target=relay, args=(p, g.socket, n), daemon=True).start()
    data = os.urandom(1 << 20) * 10
    threading.Thread(target=lambda: (p.process.stdin.write(data), p.process.stdin.close()), daemon=True).start()
    out = p.process.stdout.read()
    assert p.process.wait(60) == 5
    assert out[:64].decode() == hashlib.sha256(data).hexdigest() and out.endswith(bytes(20000000)) and len(out) == 20000000 + 68
    stop.set()


if __name__ == "__main__":
    tests = [(n, f) for n, f in list(globals().items()) if n.startswith("test_") and (len(sys.argv) < 4 or n in sys.argv[3:])]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, f) in enumerate(tests, 1):
        try:
            started = time.monotonic()
            f()
            print(f"ok {i} - {name} # {time.monotonic() - started:.2f} s", flush=True)
        except BaseException:
            import traceback
            bad += 1
            print(f"not ok {i} - {name}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    sys.exit(bad > 0)
