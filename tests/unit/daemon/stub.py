#!/usr/bin/env python3
"""Stands in for brome-launch, brome-inner and brome-outer: plays its part of docs/CONTROL.md over descriptor 3.

Started by brome-spawn under the name of the program it plays. The file $BROME_LIBEXEC/mode.<program> holds words that make it
misbehave; "$BROME_LIBEXEC/said.<program>" gets one line for each message it receives. What it should say by itself comes as datagrams to
"$BROME_LIBEXEC/do.<program>" (of an account's outer door: do.outer.<account>)."""
import array, json, os, select, socket, sys, time, signal

PROGRAM = os.path.basename(sys.argv[0]).replace("brome-", "")
PLACE = os.environ["BROME_LIBEXEC"]
chan = socket.socket(fileno=3)
chan.setblocking(True)


def modes():
    try:
        with open(f"{PLACE}/mode.{PROGRAM}") as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def say(body, fds=()):
    anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    chan.sendmsg([json.dumps(body).encode()], anc)


orders = None


def take_orders(name):
    global orders
    path = f"{PLACE}/do.{name}"
    if os.path.exists(path):
        os.unlink(path)
    orders = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    orders.bind(path)


def hear():
    while orders:
        ready = select.select([chan, orders], [], [])[0]
        if orders in ready:
            order = json.loads(orders.recv(70000))
            if "exit" in order:
                os._exit(order["exit"])
            say(order)
            continue
        break
    data, anc, _, _ = chan.recvmsg(70000, socket.CMSG_SPACE(32 * 4))
    fds = array.array("i")
    for level, kind, raw in anc:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(raw[: len(raw) - len(raw) % 4])
    if not data:
        sys.exit(0)
    msg = json.loads(data)
    with open(f"{PLACE}/said.{PROGRAM}", "a") as f:
        f.write(json.dumps({**msg, "pid": os.getpid()}) + "\n")
    return msg, dict(zip(msg.get("fds", []), fds)) | {"#": len(fds)}


def record(host, decision="deny"):
    """One verdict record of src/journal/event.h."""
    def text(tag, s):
        b = s.encode()
        return bytes([tag]) + len(b).to_bytes(4, "little") + b

    fields = [text(2, "Firewall"), text(3, "outer"), text(4, "http/1.1"), text(5, host), text(9, decision), text(10, "rule")]
    body = bytes([1, 1, 0, len(fields)]) + b"".join(fields)
    return len(body).to_bytes(4, "little") + body


events = None


def launch():
    take_orders("launch")
    while True:
        msg, fds = hear()
        op, mode = msg["op"], modes()
        if op == "plan":
            if "mute" in mode:
                continue
            if "failed" in mode:
                say({"op": "failed", "text": "no user namespaces here; see brome doctor"})
                sys.exit(1)
            say({"op": "progress", "step": "making the gateway"})
            say({"op": "gateway", "fds": ["tcp", "udp", "raw4", "raw6", "icmp4", "icmp6"]},
                [socket.socket(socket.AF_UNIX).detach() for _ in range(6)])
            if "half" in mode:
                continue
            say({"op": "ready", "isolation": {"limits": ["pids"], "warnings": []}})
        elif op == "exec":
            if "refuse-exec" in mode:
                say({"op": "exec", "id": msg["id"], "error": "no such file"})
                continue
            a, b = socket.socketpair()
            say({"op": "exec", "id": msg["id"], "fds": ["stream"]}, [b.fileno()])
            a.sendall(("ran " + " ".join(msg["argv"])).encode())
            a.close(), b.close()
            say({"op": "exec-end", "id": msg["id"], "status": 0})
        elif op in ("freeze", "thaw"):
            if op == "thaw" and "late-thaw" in mode:
                continue
            say({"op": op, "ok": "stiff" not in mode})
            if op == "freeze" and "telling" in mode:
                say({"op": "processes", "list": ["7 1 0 sh -c evil", "8 7 0 \x1b[2Jcurl"]})
        elif op == "stop":
            if "stubborn" in mode:
                continue
            say({"op": "exit", "reason": "stopped", "changed": ["/x/.envrc"], "changed_more": 3, "kept_out": [{"path": "/x/.git/config", "count": 1, "keys": "core.pager"}]})
            sys.exit(0)


def door():
    global events
    generation = None
    started = False
    while True:
        msg, fds = hear()
        op, mode = msg["op"], modes()
        if op == "start":
            events = fds.get("events")
            started = True
            take_orders(PROGRAM + ("." + msg["account"] if msg.get("account") else ""))
            if "secret" in fds:
                with open(f"{PLACE}/secret.{msg['account']}", "ab") as f:
                    f.write(os.read(fds["secret"], 70000) + b"|" + os.read(fds["secret"], 1))
                if "die" in mode:
                    os._exit(3)
            if "bad-op" in mode:
                say({"op": "pwn"})
            if "garbage" in mode:
                os.write(events, b"\xff" * 5000)
            if "half-record" in mode:
                os.write(events, record("half.example")[:7])
        elif op == "policy":
            body = json.loads(os.pread(fds["policy"], 1 << 22, 0))
            with open(f"{PLACE}/policy.{PROGRAM}", "w") as f:
                f.write(body["rules"])
            with open(f"{PLACE}/cas.{PROGRAM}", "w") as f:
                json.dump(body["cas"], f)
            os.close(fds["policy"])
            if "no-ack" in mode or ("no-ack-later" in mode and generation is not None):
                continue
            say({"op": "policy", "generation": msg["generation"], "cut": 3 if generation else 0})
            if generation is None:
                if "no-ready" not in mode:
                    say({"op": "ready"})
                if events is not None and "quiet" not in mode:
                    os.write(events, record("seen.example"))
                if "flood" in mode:
                    piece = b"".join(record("flood%d.example" % i) for i in range(500))
                    os.set_blocking(events, True)
                    for _ in range(200):
                        at = 0
                        while at < len(piece):
                            at += os.write(events, piece[at:])
                    with open(f"{PLACE}/flooded.{PROGRAM}", "w") as f:
                        f.write("done")
            generation = msg["generation"]
        elif op in ("refuse", "admit"):
            say({"op": op})
        elif op == "revoke":
            say({"op": op, "cut": 2})
        elif op == "stats":
            say({"op": "stats", "generation": generation, "hits": [[0, 7]], "flows": 1, "exchanges": 0, "held_bytes": 0})


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
(launch if PROGRAM == "launch" else door)()
