"""The host's end of the guest protocol, for tests: a stream socket pair with brome-guest as PID 1 of a fresh pid namespace at the other end."""
import collections, errno, os, signal, socket, struct, subprocess, time

HELLO, SETUP, READY, EXEC, STARTED, FAILED, STDIN, STDOUT, STDERR, WINDOW, RESIZE, SIGNAL, EXIT, CLOSE, SHUTDOWN, CLOCK, CONNECT = range(1, 18)
VERSION = 2
WINDOW_BYTES = 256 * 1024
ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm", "HOME=/tmp", "PS1=prompt> "]


class Stream:
    def __init__(self):
        self.out, self.err = bytearray(), bytearray()
        self.out_end = self.err_end = False
        self.pid = self.status = self.failed = None
        self.stdin_window = WINDOW_BYTES
        self.unacked = {STDOUT: 0, STDERR: 0}
        self.total = 0

    @property
    def over(self):
        return self.status is not None or self.failed is not None


class Guest:
    def __init__(self, program, pid1=True, hello=True):
        host, guest = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pass_fd = guest.fileno()

        def place():
            os.dup2(pass_fd, 3)
            os.set_inheritable(3, True)

        argv = [program]
        if pid1:
            argv = ["unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"] + argv
            if os.geteuid() != 0:
                argv[1:1] = ["--user", "--map-root-user"]
        self.process = subprocess.Popen(argv, preexec_fn=place, pass_fds=(3,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        guest.close()
        self.socket, self.buffer, self.next = host, bytearray(), 1
        self.streams = collections.OrderedDict()
        self.ready, self.hold, self.keep = False, set(), True
        host.settimeout(60)
        if hello:
            assert self.frame()[:2] == (0, HELLO)
            self.send(0, HELLO, struct.pack("<I", VERSION))
            self.send(0, SETUP)
            self.until(lambda: self.ready)

    def send(self, stream, kind, payload=b"", flags=0):
        self.socket.sendall(struct.pack("<IBBH", stream, kind, flags, len(payload)) + payload)

    def frame(self):
        while True:
            if len(self.buffer) >= 8:
                stream, kind, flags, n = struct.unpack_from("<IBBH", self.buffer)
                if len(self.buffer) >= 8 + n:
                    payload = bytes(self.buffer[8:8 + n])
                    del self.buffer[:8 + n]
                    return stream, kind, payload
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError
            self.buffer += data

    def step(self):
        stream, kind, payload = self.frame()
        if stream == 0:
            assert kind == READY
            self.ready = True
            return
        s = self.streams[stream]
        assert not s.over, "a frame after the end of the stream"
        if kind == STARTED:
            s.pid = struct.unpack("<I", payload)[0]
        elif kind == FAILED:
            s.failed = (struct.unpack_from("<I", payload)[0], payload[4:].decode())
        elif kind in (STDOUT, STDERR):
            end, buf = ("out_end", s.out) if kind == STDOUT else ("err_end", s.err)
            assert not getattr(s, end), "output after its end"
            s.total += len(payload)
            if self.keep:
                buf += payload
            setattr(s, end, not payload)
            s.unacked[kind] += len(payload)
            assert s.unacked[kind] <= WINDOW_BYTES, "beyond the window"
            if stream not in self.hold and payload:
                self.ack(stream, kind)
        elif kind == WINDOW:
            n, which = struct.unpack("<IB", payload)
            assert which == STDIN
            s.stdin_window += n
            assert s.stdin_window <= WINDOW_BYTES
        elif kind == EXIT:
            s.status = struct.unpack("<I", payload)[0]
        else:
            raise AssertionError(f"frame {kind}")

    def ack(self, stream, kind):
        s = self.streams[stream]
        if s.unacked[kind]:
            self.send(stream, WINDOW, struct.pack("<IB", s.unacked[kind], kind))
            s.unacked[kind] = 0

    def until(self, done, seconds=60):
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, "timed out"
            self.step()

    def exec(self, *argv, pty=None, cwd="/", env=ENV, user=None, split=32768):
        tlv = lambda tag, b: struct.pack("<BI", tag, len(b)) + b
        body = b"".join(tlv(1, os.fsencode(a)) for a in argv) + b"".join(tlv(2, e.encode()) for e in env)
        if cwd is not None:
            body += tlv(3, cwd.encode())
        if pty:
            body += tlv(4, struct.pack("<HH", *pty))
        if user:
            body += tlv(5, struct.pack("<II", *user))
        number, self.next = self.next, self.next + 1
        self.streams[number] = Stream()
        pieces = [body[i:i + split] for i in range(0, len(body), split)]
        for i, piece in enumerate(pieces):
            self.send(number, EXEC, piece, 1 if i == len(pieces) - 1 else 0)
        return number

    def connect(self, port):
        number, self.next = self.next, self.next + 1
        self.streams[number] = Stream()
        self.send(number, CONNECT, struct.pack("<H", port))
        return number

    def stdin(self, stream, data):
        """All of data through the window; then nothing more is implied: end with data=b''."""
        s = self.streams[stream]
        if not data:
            self.send(stream, STDIN)
        while data:
            self.until(lambda: s.stdin_window > 0 or s.over)
            if s.over:
                return
            piece = data[:min(32768, s.stdin_window)]
            s.stdin_window -= len(piece)
            self.send(stream, STDIN, piece)
            data = data[len(piece):]

    def wait(self, stream, seconds=60):
        s = self.streams[stream]
        self.until(lambda: s.over, seconds)
        return s

    def run(self, *argv, **how):
        n = self.exec(*argv, **how)
        self.stdin(n, b"")
        return self.wait(n)

    def guest_pid(self):
        """brome-guest's pid as this process sees it."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            children = f.read().split()
        return int(children[0]) if children else self.process.pid

    def memory_kb(self):
        with open(f"/proc/{self.guest_pid()}/status") as f:
            return int([l for l in f if l.startswith("VmRSS")][0].split()[1])

    def end(self):
        self.socket.close()
        return self.process.wait(30)
