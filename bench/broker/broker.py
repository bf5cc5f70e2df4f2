#!/usr/bin/python3
"""What accounts cost: the same load through a workspace without credentials and through one with three, alternating in short turns, so that a machine whose speed
changes under the run changes both. The ratio of each pair of turns is what counts, of CPU time per request first; requests a second are the noisier figure.

usage: bench/broker/broker.py BROME [--quick] [--parts PART[,PART]] [--json FILE]   (root; makes a network namespace of its own)

Three ways: `without` (no credential in the workspace), `tripwire` (three credentials, the same host, no placeholder), `bound` (a host of one of them: the placeholder is
swapped, answers are re-masked). docs/BENCH.md says what came out."""
import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "gate"), str(HERE.parents[1] / "tests/lib")]
os.environ["BROME_TEST_KEYS"] = "brome"
import gate as G  # noqa: E402  (starts this again in a namespace)
import world as W  # noqa: E402
from accounts import Account, alerts, configuration, start, wait_for  # noqa: E402

SECRETS = {"api": "RealApiSecret0123456789abcdefghijklmnop", "forge": "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "tools": "RealToolsSecret-4XyZq9-LmN0pQrStUvWx"}
RULES = "allow web { allowed.example, api.example, forge.example, tools.example, asked.example, .trip.example }\n"
LINES = ("        if (!buf_add_slice(&out, piece))", "                return refuse(x, \"too much is held\");", "def add(self, name, value):", "    self.rows[name] = value",
         "The function reads its input in blocks, and what it returns is what was found in them.", "for (size_t i = 0; i < count; i++) {", "}", "")
HEADERS = ("Accept: application/json", "Content-Type: application/json", "Anthropic-Version: 2023-06-01", "X-Stainless-Lang: js", "X-Stainless-Package-Version: 0.60.0",
           "X-Stainless-Runtime: node", "Accept-Language: *", "Sec-Fetch-Mode: cors", "User-Agent: agent-cli/1.0.98 (external, cli)")


def chat(size):
    """A request to a model as an agent sends it: text and source, quoted."""
    messages, n = [], 0
    while n < size - 200:
        text = "\n".join(LINES[(n + i) % len(LINES)] for i in range(20))[:size - 150 - n]
        messages.append({"role": "user" if len(messages) % 2 else "assistant", "content": text})
        n += len(json.dumps(messages[-1])) + 2
    return json.dumps({"model": "some-model-4", "max_tokens": 4096, "messages": messages, "pad": ""}).replace('"pad": ""', '"pad": "' + "x" * max(0, size - n - 90) + '"')[:size]


# --- the ways ---

class Way(G.BromeGate):
    """A set-up with one workspace; bearer: what its requests carry."""
    def __init__(self, world, name, accounts, host, bearer=None):
        G.Peer.__init__(self, world)
        self.name, self.url = name, "https://" + host
        self.b = W.Brome(world, configuration(accounts, "s", RULES))
        start(self.b, accounts)
        self.bearer = bearer(self) if bearer else None

    def also(self, name, host, bearer=None):
        """The same workspace towards another host."""
        other = object.__new__(Way)
        other.__dict__.update(self.__dict__, name=name, url="https://" + host, bearer=bearer)
        return other

    def pids(self):
        return self.b.pids("brome-inner") + self.b.pids("brome-outer")

    def groups(self):
        outer = sorted(self.b.pids("brome-outer"))  # the plain door is started first
        return {"inner": self.b.pids("brome-inner"), "outer": outer[:1], "accounts": outer[1:], "bromed": self.b.pids("bromed")}


def held(account):
    return lambda way: account.held(way.b)


def ways(w):
    accounts = [Account(w, n, "github" if n == "forge" else "bearer", s, f"{n}.example") for n, s in SECRETS.items()]
    without = Way(w, "without", [], "allowed.example")
    guarded = Way(w, "tripwire", accounts, "allowed.example")
    for a in accounts:  # each of them has its door
        guarded.run("curl", "-sS", "--fail", "-o", "/dev/null", "-H", f"Authorization: Bearer {a.held(guarded.b)}", f"https://{a.hosts[0]}/")
    return without, guarded, guarded.also("bound", "api.example", accounts[0].held(guarded.b))


# --- cost a request ---

def lua(way, method, size):
    """wrk's script, in the guest: the headers of an agent, and a body."""
    p = f"/tmp/{way.name}-{method}-{size}.lua"
    headers = [*HEADERS] + ([f"Authorization: Bearer {way.bearer}"] if way.bearer else [])
    lines = [f'wrk.method = "{method}"'] + [f'wrk.headers["{h.split(": ")[0]}"] = "{h.split(": ", 1)[1]}"' for h in headers]
    if method == "POST":
        lines.append(f'local f = assert(io.open("/tmp/body{size}")); wrk.body = f:read("*a"); f:close()')
        put(way, f"/tmp/body{size}", chat(size * 1024))
    put(way, p, "\n".join(lines) + "\n")
    return p


def put(way, path, text):
    p = way.b("exec", "-T", "s", "--", "sh", "-c", f"cat >{path}", input=text)
    assert p.returncode == 0, p.stderr


def turn(way, script, path, connections, seconds):
    r = {}
    with G.Meter(way, r, "cpu") as m:
        out = way.run("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script, way.url + path)
        m.operations = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Socket errors.*|Non-2xx.*", out)
    if bad:
        raise RuntimeError(f"{way.name} {path}: {bad.group(0)}")
    r["rate"] = float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1))
    return r


def pair(turns, key, way):
    """The median of the turns' ratios to the one without; > 1: more."""
    return statistics.median(b[key] / a[key] for a, b in zip(turns["without"], turns[way]))


def part_request(w, o, all_ways, result):
    print(f"{'medians of ' + str(o.turns) + ' turns':26}{'CPU µs a request':>33}{'÷ without':>18}{'requests/s':>27}{'÷ without':>18}")
    print(f"{'':26}" + "".join(f"{x.name:>11}" for x in all_ways) + f"{'tripwire':>10}{'bound':>8}" + "".join(f"{x.name:>9}" for x in all_ways) + f"{'tripwire':>10}{'bound':>8}")
    for method, size in (("GET", 2), ("POST", 2), ("GET", 200), ("POST", 200)):
        path = f"/json{size}" if method == "GET" else "/sink"
        scripts = {x.name: lua(x, method, size) for x in all_ways}
        for connections in (1, 32):
            turns = {x.name: [] for x in all_ways}
            for i in range(o.turns + 1):
                for x in all_ways if i % 2 else reversed(all_ways):
                    r = turn(x, scripts[x.name], path, connections, 1)
                    if i:  # the first is for warming up
                        turns[x.name].append(r)
            result[f"{method} {size} KB, {connections}"] = turns
            med = {k: [statistics.median(t[k] for t in turns[x.name]) for x in all_ways] for k in ("cpu", "rate")}
            print(f"{f'{method} {size} KB, {connections} connections':26}" + "".join(f"{v:>11.1f}" for v in med["cpu"]) + f"{pair(turns, 'cpu', 'tripwire'):>10.2f}{pair(turns, 'cpu', 'bound'):>8.2f}"
                  + "".join(f"{v:>9.0f}" for v in med["rate"]) + f"{pair(turns, 'rate', 'tripwire'):>10.2f}{pair(turns, 'rate', 'bound'):>8.2f}", flush=True)


def part_memory(w, o, all_ways, result):
    without, guarded, _ = all_ways
    for x in (without, guarded):
        result["memory " + x.name] = {k: (len(v), G.private_mb(v)) for k, v in x.groups().items()}
        print(f"private dirty MB, {x.name}: " + ", ".join(f"{k} {G.private_mb(v):.1f}" + (f" ({len(v)})" if len(v) > 1 else "") for k, v in x.groups().items() if v))


# --- one prompt ---

MANY = r'''
import asyncio, ssl, sys
host, count, bearer = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context, begun = ssl.create_default_context(), asyncio.Semaphore(64)
async def one(i):
    async with begun:
        r, w = await asyncio.open_connection(host, 443, ssl=context)
    w.write(f"GET /?{i} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\nConnection: close\r\n\r\n".encode())
    return (await r.read())[:12]
async def main():
    said = await asyncio.gather(*(one(i) for i in range(count)), return_exceptions=True)
    print({x: said.count(x) for x in set(map(lambda s: s if isinstance(s, bytes) else None, said))}, [repr(x) for x in said if not isinstance(x, bytes)][:3])
asyncio.run(main())
'''


def part_prompt(w, o, all_ways, result):
    count = 1000
    a = Account(w, "asked", "bearer", "RealAskedSecret0123456789abcdef", "asked.example", "ask wait")
    b = W.Brome(w, configuration([a], "s", RULES))
    start(b, [a])
    began = time.monotonic()
    p = b.popen("exec", "-T", "s", "--", "python3", "-c", MANY, "asked.example", str(count), a.held(b))
    seen = set()

    def all_wait():
        rows = b.json("approvals")
        seen.update(x["id"] for x in rows if x["kind"] == "waiting")
        return sum(x["waiting"] for x in rows if x["kind"] == "waiting") == count or p.poll() is not None
    wait_for("all of them to wait", all_wait, 120)
    asked = time.monotonic()
    prompts = [x for x in b.json("approvals") if x["kind"] == "waiting"]
    b("approvals", "allow", prompts[0]["id"], "--for", "5m", check=0)
    out = p.communicate(timeout=120)[0]
    result["prompt"] = {"prompts": len(seen), "waiting": prompts[0]["waiting"], "released_s": time.monotonic() - asked, "asked_s": asked - began, "said": out.decode()}
    print(f"{count} simultaneous first uses: {len(seen)} prompt(s), {prompts[0]['waiting']} waiting, after the yes: {out.decode().strip()}; "
          f"all waited after {asked - began:.1f} s, all had their answer {time.monotonic() - asked:.1f} s after the yes")


# --- detection to frozen ---

def part_frozen(w, o, all_ways, result):
    guarded = all_ways[1]
    b, n, times = guarded.b, 5 if o.quick else 20, []
    for i in range(n):  # each to a host of its own: a person decides about a host once
        w.dns.set(f"c{i}.trip.example", "203.0.113.10")
    bearer = all_ways[2].bearer
    for i in range(n):
        p = b.popen("exec", "-T", "s", "--", "curl", "-sS", "-m", "60", "-H", f"X-Note: {bearer}", f"https://c{i}.trip.example/")
        wait_for("the alert", lambda: [a for a in alerts(b) if a["decision"] == "open"])
        notes = wait_for("the note", lambda: (lambda r: r if len(r) > i else None)([r for r in b.timeline() if r.get("engine") == "Tripwire" and "stands still" in json.dumps(r, ensure_ascii=False)]))
        times = sorted(int(re.search(r"(\d+) µs", json.dumps(r, ensure_ascii=False)).group(1)) for r in notes)
        b("workspace", "thaw", "s", "--continue", check=0)
        p.communicate(timeout=60)
    result["frozen_us"] = times
    print(f"detection to frozen, {len(times)} trips: median {statistics.median(times):.0f} µs, second most {times[-2]} µs, most {times[-1]} µs")


PARTS = {"request": part_request, "memory": part_memory, "prompt": part_prompt, "frozen": part_frozen}


def origin(w):
    hosts = ["allowed.example", "asked.example", *(f"{n}.example" for n in SECRETS)]
    # /sink reads a body to its end before it answers.
    asked = "if ($http_anthropic_version = '') { return 400; }"  # wrk without its script does not go unnoticed
    w.nginx(hosts, extra=f"""
            location /json {{ {asked} default_type application/json; }}
            location = /drain {{ default_type application/json; return 200 '{{"ok":true}}'; }}
            location = /sink {{ {asked} if ($request_method != POST) {{ return 400; }} client_body_buffer_size 1m; proxy_pass http://203.0.113.10/drain; }}""")
    for kb in (2, 200):
        (w.dir / f"www/json{kb}").write_text(chat(kb * 1024))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("brome")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--turns", type=int)
    a.add_argument("--parts", default="memory,request,memory,prompt,frozen")
    a.add_argument("--json")
    o = a.parse_args()
    o.turns = o.turns or (3 if o.quick else 7)
    os.environ["BROME_UNDER_TEST"] = os.path.abspath(o.brome)
    w, result = W.World(sniff=False), {}
    try:
        origin(w)
        all_ways = ways(w)
        print("load average " + ", ".join(f"{x:.1f}" for x in os.getloadavg()) + f", {os.cpu_count()} cores")
        for name in o.parts.split(","):
            PARTS[name](w, o, all_ways, result)
    finally:
        w.close()
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(result, indent=1))


main()
