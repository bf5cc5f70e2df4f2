"""brome-guest as PID 1: exec on pipes and terminals, flow control, signals, ends, bad input. Usage: test_guest.py BROME-GUEST [test name …]."""
import os, signal, struct, sys, time
from driver import *

PROGRAM = os.path.abspath(sys.argv[1])


def exit_of(status):
    return os.waitstatus_to_exitcode(status)


def test_exit_status():
    g = Guest(PROGRAM)
    assert exit_of(g.run("true").status) == 0
    assert exit_of(g.run("sh", "-c", "exit 7").status) == 7
    assert exit_of(g.run("sh", "-c", "kill -9 $$").status) == -9
    s = g.run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (s.out, s.err, exit_of(s.status)) == (b"out\n", b"err\n", 3) and s.out_end and s.err_end


def test_environment_is_exactly_what_was_sent():
    g = Guest(PROGRAM)
    s = g.run("env", env=["PATH=/usr/bin:/bin", "A=b=c"], cwd="/usr")
    assert s.out == b"PATH=/usr/bin:/bin\nA=b=c\n", s.out
    assert g.run("pwd", cwd="/usr").out == b"/usr\n"
    assert g.run("sh", "-c", "ls /proc/self/fd").out.split() == [b"0", b"1", b"2", b"3"]  # 3: ls's own
    assert g.run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").out.split()[1::2] == [b"0" * 16] * 2


def test_failures():
    g = Guest(PROGRAM)
    assert g.run("/no/such/program").failed == (2, "cannot run the program")
    assert g.run("nosuchprogram").failed[0] == 2
    assert g.run("/etc/passwd").failed[0] == 13
    assert g.run("true", cwd="/no/such").failed == (2, "cannot enter the working folder")
    assert g.run("true", cwd="relative").failed[0] == 22
    assert exit_of(g.run("true").status) == 0


def test_large_request_in_pieces():
    g = Guest(PROGRAM)
    big = "x" * 100000
    s = g.run("sh", "-c", "printf %s \"$1\" | wc -c", "sh", big, split=1000)
    assert s.out.strip() == b"100000"
    n = g.exec("true", "y" * 300000)
    assert g.wait(n).failed[0] == 7  # E2BIG
    assert exit_of(g.run("true").status) == 0


def serve(g, script, host="127.0.0.1"):
    """A server inside on a port of its own choice; (stream number, port)."""
    n = g.exec("python3", "-uc", f"""import socket, struct
s = socket.socket(socket.AF_INET6 if ':' in {host!r} else socket.AF_INET)
s.bind(({host!r}, 0)); s.listen(); print(s.getsockname()[1], flush=True)
""" + script)
    g.until(lambda: b"\n" in g.streams[n].out)
    return n, int(g.streams[n].out.split()[0])


def test_connections():
    g = Guest(PROGRAM)
    server, port = serve(g, "c,_=s.accept()\ngot=b''\nwhile d:=c.recv(9999): got+=d\nc.sendall(b'got %d' % len(got)); c.close()")
    n = g.connect(port)
    s = g.streams[n]
    g.until(lambda: s.pid is not None)
    assert s.pid == 0
    g.stdin(n, b"x" * 1000000)
    g.stdin(n, b"")  # half a close: the answer comes nevertheless
    g.wait(n)
    assert (bytes(s.out), s.out_end, exit_of(s.status)) == (b"got 1000000", True, 0), s.out
    g.wait(server)
    assert g.wait(g.connect(port)).failed == (111, "nothing answers at this port inside")  # nobody listens any more
    # What a terminal or a program would take ends the channel: nothing of it is there.
    for frame in (struct.pack("<HH", 24, 80), struct.pack("<I", 15)):
        g = Guest(PROGRAM)
        server, port = serve(g, "c,_=s.accept()\nc.recv(9)")
        n = g.connect(port)
        g.until(lambda: g.streams[n].pid is not None)
        g.send(n, RESIZE if len(frame) == 4 and frame[2] == 80 else SIGNAL, frame)
        try:
            while True:
                g.step()
        except (EOFError, ConnectionError):
            pass
        assert g.process.wait(30) == 70


def test_a_connection_that_is_closed_here_or_reset_there():
    g = Guest(PROGRAM)
    server, port = serve(g, "c,_=s.accept()\nprint('end',len(c.recv(9)),flush=True)\nc,_=s.accept(); c.recv(9)\nc.setsockopt(socket.SOL_SOCKET,socket.SO_LINGER,struct.pack('ii',1,0)); c.close()")
    n = g.connect(port)
    g.until(lambda: g.streams[n].pid is not None)
    g.send(n, CLOSE)
    g.until(lambda: b"end 0" in g.streams[server].out)
    n = g.connect(port)
    g.stdin(n, b"go")
    g.wait(n)
    assert exit_of(g.streams[n].status) == 1
    assert exit_of(g.run("true").status) == 0


def test_the_other_loopback():
    g = Guest(PROGRAM)
    c = g.connect(serve(g, "c,_=s.accept(); c.sendall(b'six')", "::1")[1])
    g.until(lambda: g.streams[c].out_end)
    assert g.streams[c].out == b"six"


def test_pty_size_and_resize():
    g = Guest(PROGRAM)
    s = g.run("sh", "-c", "stty size; tty; ps -o tty= -p $$", pty=(31, 97))
    assert b"31 97" in s.out and b"/dev/pts/" in s.out, s.out
    n = g.exec("bash", "-c", "trap 'stty size; exit 5' WINCH; echo ready; while :; do read -t 1 x; done", pty=(24, 80))
    s = g.streams[n]
    g.until(lambda: b"ready" in s.out)
    g.send(n, RESIZE, struct.pack("<HH", 50, 132))
    g.wait(n)
    assert b"50 132" in s.out and exit_of(s.status) == 5, s.out


def test_pty_interrupt_and_job_control():
    g = Guest(PROGRAM)
    n = g.exec("bash", "--norc", "--noprofile", "-i", pty=(24, 80))
    s = g.streams[n]
    g.until(lambda: b"prompt> " in s.out)

    def line(text, expect, count=1):
        start = len(s.out)
        g.stdin(n, text)
        g.until(lambda: s.out[start:].count(expect) >= count)

    def in_front(name):
        end = time.monotonic() + 20
        while name not in g.run("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null | awk '$5 == $8 {print $2}'").out:
            assert time.monotonic() < end

    line(b"echo $((40+2)); sleep 1000\n", b"42")
    in_front(b"(sleep)")
    line(b"\x03", b"prompt> ")
    line(b"echo status $?\n", b"status 130")
    line(b"echo $((40+3)); sleep 1000\n", b"43")
    in_front(b"(sleep)")
    line(b"\x1a", b"Stopped")
    line(b"jobs\n", b"Stopped")
    line(b"bg\n", b"sleep 1000 &")
    line(b"kill %1; wait %1; echo gone $?\n", b"gone 143")
    # a signal frame reaches the foreground group, not the shell
    line(b"echo $((40+4)); sleep 1000\n", b"44")
    in_front(b"(sleep)")
    g.send(n, SIGNAL, struct.pack("<I", signal.SIGTERM))
    g.until(lambda: b"Terminated" in s.out)
    line(b"exit 9\n", b"exit")
    assert exit_of(g.wait(n).status) == 9


def test_signal_without_pty_reaches_the_group():
    g = Guest(PROGRAM)
    n = g.exec("sh", "-c", "trap 'echo got; exit 4' INT; sleep 1000 & echo ready; wait")
    g.until(lambda: b"ready" in g.streams[n].out)
    g.send(n, SIGNAL, struct.pack("<I", signal.SIGINT))
    s = g.wait(n)
    assert b"got" in s.out and exit_of(s.status) == 4
    n = g.exec("sleep", "1000")
    g.until(lambda: g.streams[n].pid)
    for bad in (0, 65, 1 << 31):
        g.send(n, SIGNAL, struct.pack("<I", bad))
    g.send(n, SIGNAL, struct.pack("<I", 9))
    assert exit_of(g.wait(n).status) == -9


def test_large_output_is_bounded():
    g = Guest(PROGRAM)
    g.keep = False
    before = g.memory_kb()
    n = g.exec("head", "-c", str(100 << 20), "/dev/zero")
    p = g.exec("head", "-c", str(20 << 20), "/dev/zero", pty=(24, 80))
    peak, s = 0, g.streams[n]
    while not s.over or not g.streams[p].over:
        g.step()
        if s.total % (1 << 20) < 32768:
            peak = max(peak, g.memory_kb())
    assert s.total == 100 << 20 and g.streams[p].total == 20 << 20, (s.total, g.streams[p].total)
    assert peak - before < 4096, (before, peak)


def test_reader_that_stops_holds_only_itself():
    g = Guest(PROGRAM)
    n = g.exec("sh", "-c", "yes")
    g.hold.add(n)
    s = g.streams[n]
    g.until(lambda: s.total == WINDOW_BYTES)
    assert exit_of(g.run("true").status) == 0
    g.send(n, SIGNAL, struct.pack("<I", 9))
    # the rest of the pipe waits for window; EXIT comes when it is given
    assert exit_of(g.run("true").status) == 0 and s.status is None
    g.hold.clear()
    g.ack(n, STDOUT)
    assert exit_of(g.wait(n).status) == -9


def test_input_flow_and_half_close():
    g = Guest(PROGRAM)
    data = os.urandom(1 << 20) * 8
    n = g.exec("sha256sum")
    g.stdin(n, data)
    g.stdin(n, b"")
    import hashlib
    assert g.wait(n).out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    n = g.exec("cat")
    g.stdin(n, b"abc")
    g.until(lambda: g.streams[n].out == b"abc")
    g.stdin(n, b"")
    assert exit_of(g.wait(n).status) == 0
    # a program that never reads: input is swallowed once it is gone, and the guest lives
    n = g.exec("sh", "-c", "exec <&-; echo closed; sleep 0.2; exit 6")
    g.stdin(n, b"z" * 1000000)
    assert exit_of(g.wait(n).status) == 6
    # the end of input on a terminal
    for text in (b"line\n", b"half"):
        n = g.exec("sh", "-c", "stty -echo; echo go; cat; echo end", pty=(24, 80))
        g.until(lambda: b"go" in g.streams[n].out)
        g.stdin(n, text)
        g.stdin(n, b"")
        assert g.wait(n).out.replace(b"\r\n", b"\n") == b"go\n" + text + b"end\n", g.streams[n].out


def test_fifty_at_once_and_no_descriptor_leaks():
    g = Guest(PROGRAM)
    fds = lambda: len(os.listdir(f"/proc/{g.guest_pid()}/fd"))
    before = fds()
    for kind in (None, (24, 80)):
        many = [g.exec("sh", "-c", f"read x; echo $x {i}; exit {i}", pty=kind) for i in range(50)]
        for n in many:
            g.stdin(n, b"hello\n")
        for i, n in enumerate(many):
            s = g.wait(n)
            assert f"hello {i}".encode() in s.out and exit_of(s.status) == i
    assert fds() == before


def test_too_many():
    g = Guest(PROGRAM)
    many = [g.exec("cat") for _ in range(256)]
    g.until(lambda: all(g.streams[n].pid for n in many))
    n = g.exec("true")
    assert g.wait(n).failed == (errno.EAGAIN, "too many programs at once")
    for n in many:
        g.stdin(n, b"")
    for n in many:
        assert exit_of(g.wait(n).status) == 0
    assert exit_of(g.run("true").status) == 0


def test_background_program_does_not_hold_the_exit():
    g = Guest(PROGRAM)
    for pty in (None, (24, 80)):
        started = time.monotonic()
        s = g.run("sh", "-c", "nohup sleep 100 & echo text; exit 2", pty=pty)
        assert exit_of(s.status) == 2 and b"text" in s.out and time.monotonic() - started < 20
        # one that floods: bounded by the drain
        s = g.run("sh", "-c", "trap '' HUP; yes & exit 2", pty=pty)
        assert exit_of(s.status) == 2


def test_close_hangs_up_and_kills():
    g = Guest(PROGRAM)
    for pty in (None, (24, 80)):
        n = g.exec("sh", "-c", "exec 2>/dev/null; trap 'exit 3' HUP; echo ready; while :; do sleep 0.1; done", pty=pty)
        g.until(lambda: b"ready" in g.streams[n].out)
        g.send(n, CLOSE)
        assert exit_of(g.wait(n).status) == 3
        n = g.exec("sh", "-c", "trap '' HUP TERM; sleep 999 & echo ready; while :; do sleep 0.1; done", pty=pty)
        g.until(lambda: b"ready" in g.streams[n].out)
        g.send(n, CLOSE)
        assert exit_of(g.wait(n).status) == -9
    n = g.exec("sh", "-c", "(trap '' HUP; exec sleep 998) & echo ready; wait")
    g.until(lambda: b"ready" in g.streams[n].out)
    g.send(n, CLOSE)
    g.wait(n)
    end = time.monotonic() + 20
    while b"sleep" in g.run("sh", "-c", "cat /proc/[0-9]*/comm").out:
        assert time.monotonic() < end


def test_orphans_are_reaped():
    g = Guest(PROGRAM)
    g.run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (setsid true &) ; done")
    end = time.monotonic() + 20
    while b"Z" in g.run("sh", "-c", "cat /proc/[0-9]*/stat | sed 's/.*) //' | cut -c1").out:
        assert time.monotonic() < end


def test_shutdown():
    g = Guest(PROGRAM)
    n = g.exec("sh", "-c", "trap 'echo bye; exit 1' TERM; echo ready; while :; do sleep 0.1; done")
    stubborn = g.exec("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.1; done")
    g.until(lambda: b"ready" in g.streams[n].out and b"ready" in g.streams[stubborn].out)
    g.send(0, SHUTDOWN, struct.pack("<I", 500))
    assert exit_of(g.wait(n).status) == 1 and b"bye" in g.streams[n].out
    shell = g.exec("true")
    assert g.wait(shell).failed[1] == "the workspace is stopping"
    assert exit_of(g.wait(stubborn).status) == -9
    assert g.process.wait(20) == 0
    g = Guest(PROGRAM)
    n = g.exec("bash", "--norc", "-i", pty=(24, 80))
    g.until(lambda: b"prompt> " in g.streams[n].out)
    g.send(0, SHUTDOWN, struct.pack("<I", 1000))
    assert exit_of(g.wait(n).status) in (-1, 129)
    assert g.process.wait(20) == 0
    g = Guest(PROGRAM)
    g.send(0, SHUTDOWN, struct.pack("<I", 50000))
    assert g.process.wait(20) == 0


def test_end_of_the_channel_ends_everything():
    g = Guest(PROGRAM)
    n = g.exec("sh", "-c", "trap '' TERM HUP; echo ready; sleep 1000")
    g.until(lambda: b"ready" in g.streams[n].out)
    assert g.end() == 0


def test_protocol_errors_end_it():
    bad = [
        struct.pack("<IBBH", 1, 99, 0, 0), struct.pack("<IBBH", 1, STDIN, 0, 40000), struct.pack("<IBBH", 1, STDIN, 1, 0),
        struct.pack("<IBBH", 7, STDIN, 0, 0), struct.pack("<IBBHI", 0, HELLO, 0, 4, VERSION), struct.pack("<IBBHH", 9, CONNECT, 0, 2, 0), struct.pack("<IBBH", 0, READY, 0, 0),
        struct.pack("<IBBH", 0, SHUTDOWN, 0, 1) + b"x", struct.pack("<IBBH", 1, EXIT, 0, 4) + bytes(4), os.urandom(4096),
    ]
    for b in bad:
        g = Guest(PROGRAM)
        g.socket.sendall(b)
        assert g.process.wait(20) == 70, b
    g = Guest(PROGRAM, hello=False)
    g.exec("true")
    assert g.process.wait(20) == 70
    g = Guest(PROGRAM)
    n = g.exec("sleep", "1000")
    g.until(lambda: g.streams[n].pid)
    g.send(n, WINDOW, struct.pack("<IB", 1, STDOUT))  # more than was taken
    assert g.process.wait(20) == 70
    g = Guest(PROGRAM)
    n = g.exec("sleep", "1000")
    try:
        for _ in range(20):
            g.send(n, STDIN, bytes(32768))
    except OSError:
        pass
    assert g.process.wait(20) == 70


def test_hostile_programs_do_not_stop_pid_1():
    g = Guest(PROGRAM)
    g.run("sh", "-c", "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; kill -9 1; kill -STOP 1; true")
    assert exit_of(g.run("true").status) == 0
    # a fork bomb under a limit: starting fails, nothing else; then it can be killed
    n = g.exec("sh", "-c", "ulimit -u 200; trap '' TERM; (for i in $(seq 200); do sleep 300 & done) 2>/dev/null; echo full; wait")
    g.until(lambda: b"full" in g.streams[n].out)
    assert exit_of(g.run("true").status) == 0
    g.send(n, CLOSE)
    g.wait(n)
    assert exit_of(g.run("true").status) == 0


def test_other_user():
    if os.geteuid() != 0:
        return
    g = Guest(PROGRAM)
    assert g.run("id", "-u", user=(12345, 12346)).out == b"12345\n"
    s = g.run("sh", "-c", "id -g; echo x > $(tty) && echo fine", user=(12345, 12346), pty=(24, 80))
    assert b"12346" in s.out and b"fine" in s.out, s.out


if __name__ == "__main__":
    tests = [(n, f) for n, f in list(globals().items()) if n.startswith("test_") and (len(sys.argv) < 3 or n in sys.argv[2:])]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, f) in enumerate(tests, 1):
        try:
            started = time.monotonic()
            f()
            print(f"ok {i} - {name} # {time.monotonic() - started:.2f} s", flush=True)
        except BaseException as e:
            import traceback
            bad += 1
            print(f"not ok {i} - {name}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    sys.exit(bad > 0)
