"""Stand-ins for the model APIs that coding agents speak: Anthropic Messages, OpenAI Responses (SSE and WebSocket), OpenAI Chat Completions,
Gemini generateContent. They are no models: the first request that offers a shell tool is answered with one call of it, a request that brings
the call's result back is answered with a final text. What is recorded is what the origin saw: every request's head and body, in order."""
import base64
import gzip
import hashlib
import http.server
import json
import socketserver
import ssl
import struct
import threading
import urllib.parse
import zlib

from world import DEADLINE

KEY_FIELDS = ("x-api-key", "authorization", "x-goog-api-key", "api-key", "cookie", "proxy-authorization")
TITLE = "A short title"  # for requests that offer no tools: titles, summaries, quota probes
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Request:
    """One request as the origin saw it. A message of a WebSocket is one too, with the opening's head."""

    def __init__(self, host, method, target, headers, body, kind="http"):
        self.host, self.method, self.target, self.headers, self.raw, self.kind = host, method, target, headers, body, kind
        parts = urllib.parse.urlsplit(target)
        self.path, self.query = parts.path, parts.query
        self.text = decoded(body, self.header("content-encoding")).decode("utf-8", "replace")
        try:
            self.json = json.loads(self.text) if self.text else None
        except ValueError:
            self.json = None

    def header(self, name):
        return next((v for k, v in self.headers if k.lower() == name), None)

    def keys(self):
        """{field: key}: whatever came as an account, the word Bearer taken off."""
        found = {f: v[7:] if v.lower().startswith("bearer ") else v for f in KEY_FIELDS if (v := self.header(f)) is not None}
        found.update({f"?{k}": v for k, v in urllib.parse.parse_qsl(self.query) if "key" in k.lower() or "token" in k.lower()})
        return found

    def everything(self):
        """Head and body as text: for searching."""
        return "\n".join([f"{self.method} {self.target}", *(f"{k}: {v}" for k, v in self.headers), "", self.text])

    def __repr__(self):
        return f"<{self.kind} {self.method} {self.host}{self.target} {len(self.raw)} B keys={sorted(self.keys())}>"


def decoded(body, coding):
    if coding == "gzip":
        return gzip.decompress(body)
    if coding == "deflate":
        return zlib.decompress(body)
    return body  # another coding is recorded as it came


# --- what the stand-ins say, one pair of functions an API: which tool, and the answer -----------------------------------------------------

def shell_arguments(schema, command):
    """Arguments for whatever shell tool was offered, by the names in its schema: a string or an argument vector, and what else it insists on."""
    properties = (schema or {}).get("properties", {})
    arguments = {}
    for name, p in properties.items():
        if name in ("command", "cmd"):
            types = p.get("type")
            arguments[name] = ["bash", "-c", command] if types in ("array", "ARRAY") else command
        elif name in (schema.get("required") or []):
            arguments[name] = "runs a command" if str(p.get("type")).lower() == "string" else 10000
    return arguments


SHELL_TOOLS = ("Bash", "bash", "shell", "shell_command", "exec_command", "container.exec", "run_shell_command", "local_shell")


def pick(tools):
    """(name, schema) of the shell tool among [(name, schema)…]."""
    return next(((n, s) for want in SHELL_TOOLS for n, s in tools if n == want), None)


def anthropic_blocks(request, command, final):
    body = request.json or {}
    content = [b for m in body.get("messages", []) if isinstance(m.get("content"), list) for b in m["content"]]
    if any(b.get("type") == "tool_result" for b in content):
        return [{"type": "text", "text": final}]
    tool = pick([(t.get("name"), t.get("input_schema")) for t in body.get("tools") or []])
    if tool:
        return [{"type": "text", "text": "Running it."},
                {"type": "tool_use", "id": "toolu_01StandIn0000000000000001", "name": tool[0], "input": shell_arguments(tool[1], command)}]
    return [{"type": "text", "text": TITLE}]


def anthropic(request, command, final):
    if request.path.endswith("/count_tokens"):
        return whole({"input_tokens": 10})
    blocks = anthropic_blocks(request, command, final)
    stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    message = {"id": "msg_01StandIn", "type": "message", "role": "assistant", "model": (request.json or {}).get("model", "m"), "content": blocks,
               "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 10}}
    if not (request.json or {}).get("stream"):
        return whole(message)
    events = [("message_start", {"message": {**message, "content": [], "stop_reason": None}})]
    for i, b in enumerate(blocks):
        if b["type"] == "text":
            events += [("content_block_start", {"index": i, "content_block": {"type": "text", "text": ""}}),
                       ("content_block_delta", {"index": i, "delta": {"type": "text_delta", "text": b["text"]}})]
        else:
            text = json.dumps(b["input"])
            events += [("content_block_start", {"index": i, "content_block": {**b, "input": {}}})]
            events += [("content_block_delta", {"index": i, "delta": {"type": "input_json_delta", "partial_json": text[at:at + 20]}}) for at in range(0, len(text), 20)]
        events += [("content_block_stop", {"index": i})]
    events += [("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}), ("message_stop", {})]
    return stream(*[f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events])


def flat(tools):
    """Tools, also those inside a namespace."""
    return [x for t in tools or [] for x in (flat(t.get("tools")) if t.get("type") == "namespace" else [t])]


def responses_items(body, command, final):
    given = body.get("input") if isinstance(body.get("input"), list) else []
    if body.get("generate") is False:
        return []  # a WebSocket is warmed up: instructions are sent ahead, nothing is asked yet
    if any(str(i.get("type", "")).endswith("_call_output") for i in given):
        return [message_item(final)]
    tools = flat(body.get("tools")) + [t for i in given if i.get("type") == "additional_tools" for t in flat(i.get("tools"))]
    call = {"call_id": "call_1", "status": "completed"}
    tool = pick([(t.get("name"), t.get("parameters")) for t in tools if t.get("type") == "function"])
    if tool:
        return [{"type": "function_call", "id": "fc_1", **call, "name": tool[0], "arguments": json.dumps(shell_arguments(tool[1], command))}]
    if any(t.get("type") == "custom" and t.get("name") == "exec" for t in tools):  # a tool that takes JavaScript, in which the others are functions
        script = f"const r = await tools.exec_command({{cmd: {json.dumps(command)}}});\ntext(r.output);"
        return [{"type": "custom_tool_call", "id": "ctc_1", **call, "name": "exec", "input": script}]
    if any(t.get("type") == "local_shell" for t in tools):
        return [{"type": "local_shell_call", "id": "lsh_1", **call, "action": {"type": "exec", "command": ["bash", "-c", command], "env": {}}}]
    return [message_item(TITLE)]


def message_item(text):
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}


def responses_events(body, command, final):
    response = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": body.get("model", "m"), "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": response}]
    items = responses_items(body, command, final)
    for i, item in enumerate(items):
        started = {**item, "status": "in_progress", **({"arguments": ""} if "arguments" in item else {}), **({"content": []} if "content" in item else {})}
        events.append({"type": "response.output_item.added", "output_index": i, "item": started})
        ids = {"item_id": item["id"], "output_index": i}
        if item["type"] == "function_call":
            text = item["arguments"]
            events += [{"type": "response.function_call_arguments.delta", **ids, "delta": text[at:at + 20]} for at in range(0, len(text), 20)]
            events.append({"type": "response.function_call_arguments.done", **ids, "arguments": text})
        elif item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            events += [{"type": "response.content_part.added", **ids, "content_index": 0, "part": part},
                       {"type": "response.output_text.delta", **ids, "content_index": 0, "delta": item["content"][0]["text"]},
                       {"type": "response.output_text.done", **ids, "content_index": 0, "text": item["content"][0]["text"]},
                       {"type": "response.content_part.done", **ids, "content_index": 0, "part": item["content"][0]}]
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20}
    events.append({"type": "response.completed", "response": {**response, "status": "completed", "output": items, "usage": usage}})
    return [{**e, "sequence_number": n} for n, e in enumerate(events)]


def responses(request, command, final):
    events = responses_events(request.json or {}, command, final)
    if not (request.json or {}).get("stream"):
        return whole(events[-1]["response"])
    return stream(*[f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events])


def chat(request, command, final):
    body = request.json or {}
    tool = pick([(t["function"].get("name"), t["function"].get("parameters")) for t in body.get("tools") or [] if t.get("type") == "function"])
    message, stop = {"role": "assistant", "content": TITLE}, "stop"
    if any(m.get("role") == "tool" for m in body.get("messages", [])):
        message["content"] = final
    elif tool:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": tool[0], "arguments": json.dumps(shell_arguments(tool[1], command))}}
        message, stop = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    base = {"id": "chatcmpl-1", "created": 1700000000, "model": body.get("model", "m")}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    if not body.get("stream"):
        return whole({**base, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": stop}], "usage": usage})
    chunks = [{"choices": [{"index": 0, "delta": message, "finish_reason": None}]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}]
    return stream(*[f"data: {json.dumps({**base, 'object': 'chat.completion.chunk', **c})}\n\n" for c in chunks], "data: [DONE]\n\n")


def gemini(request, command, final):
    body = request.json or {}
    if request.path.endswith(":countTokens"):
        return whole({"totalTokens": 10})
    parts = [p for c in body.get("contents", []) for p in c.get("parts", [])]
    declared = [(f.get("name"), f.get("parametersJsonSchema") or f.get("parameters")) for t in body.get("tools") or [] for f in t.get("functionDeclarations", [])]
    tool = pick(declared)
    if any("functionResponse" in p for p in parts):
        part = {"text": final}
    elif tool:
        part = {"functionCall": {"name": tool[0], "args": shell_arguments(tool[1], command)}}
    else:
        part = {"text": json.dumps({"reasoning": "r", "model_choice": "flash", "complexity_reasoning": "r", "complexity_score": 1, "title": TITLE})}
    answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
              "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}, "modelVersion": "stand-in"}
    return stream(f"data: {json.dumps(answer)}\r\n\r\n") if ":stream" in request.path else whole(answer)


def whole(value, status=200):
    return status, "application/json", [json.dumps(value)]


def stream(*pieces):
    return 200, "text/event-stream", list(pieces)


# Which API a request is one of, by the end of its path.
APIS = ((("/v1/messages", "/v1/messages/count_tokens"), anthropic), (("/responses",), responses), (("/chat/completions",), chat),
        ((":generateContent", ":streamGenerateContent", ":countTokens"), gemini))


class Models(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """One TLS server on `address`:`port` that plays every API for whatever name it is asked for by SNI, with a certificate of the test CA.
    command: what the tool call runs; final: the closing text. websocket=False refuses WebSockets (426);
    deflate: permessage-deflate is accepted where it is offered (RFC 7692, one window for the whole connection)."""
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

    def __init__(self, world, address, port, command, final="All done, says the stand-in.", websocket=True):
        self.world, self.command, self.final, self.websocket = world, command, final, websocket
        self.deflate = False
        self.requests, self.lock, self.contexts = [], threading.Lock(), {}
        self.before_answer = None  # called with each request while its client waits
        super().__init__((address, port), Handler)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["http/1.1"])
        self.tls.sni_callback = self.by_name
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def by_name(self, sock, name, _context):
        with self.lock:
            if name not in self.contexts:
                self.contexts[name] = self.world.server_tls(name or "nameless.example")
        sock.context = self.contexts[name]

    def handle_error(self, request, client_address):
        pass  # a client that goes away in the middle is no news

    def record(self, request):
        with self.lock:
            self.requests.append(request)
        if self.before_answer:
            self.before_answer(request)

    def seen(self, **want):
        with self.lock:
            return [r for r in self.requests if all(getattr(r, k) == v for k, v in want.items())]

    def forget(self):
        with self.lock:
            self.requests.clear()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, timeout, disable_nagle_algorithm = "HTTP/1.1", DEADLINE, True
    server_version, sys_version = "stand-in", ""

    def setup(self):
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            out = b""
            while n := int(self.rfile.readline().split(b";")[0], 16):
                out += self.rfile.read(n)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return out
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def any_method(self):
        r = Request(self.headers.get("host", ""), self.command, self.path, self.headers.items(), self.body())
        upgrade = (self.headers.get("upgrade") or "").lower() == "websocket"
        r.kind = "websocket" if upgrade else "http"
        self.server.record(r)
        if upgrade and self.server.websocket and r.path.endswith("/responses"):
            return self.talk(r)
        if upgrade and not self.server.websocket:
            return self.send_whole(*whole({"error": {"message": "no WebSocket here"}}, 426))
        api = next((fn for ends, fn in APIS if r.path.endswith(ends)), None) if r.method == "POST" else None
        self.send_whole(*(api(r, self.server.command, self.server.final) if api else self.other(r)))

    def send_whole(self, status, kind, pieces):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for p in pieces if self.command != "HEAD" else []:  # one chunk an event, as a stream comes
            data = p.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = any_method

    @staticmethod
    def other(r):
        return whole({"error": {"type": "not_found_error", "message": f"the stand-in has no {r.path}"}}, 404)

    # WebSocket (RFC 6455): text messages in, one response's events out as text messages.
    def talk(self, opening):
        key = (self.headers.get("sec-websocket-key") or "").encode()
        deflate = self.server.deflate and "permessage-deflate" in (self.headers.get("sec-websocket-extensions") or "")
        self.inflater, self.deflater = (zlib.decompressobj(-15), zlib.compressobj(wbits=-15)) if deflate else (None, None)
        self.send_response_only(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + WS_GUID).digest()).decode())
        if deflate:
            self.send_header("Sec-WebSocket-Extensions", "permessage-deflate")
        self.end_headers()
        self.close_connection, message, packed = True, b"", False
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return
            n = head[1] & 127
            n = struct.unpack(">H", self.rfile.read(2))[0] if n == 126 else struct.unpack(">Q", self.rfile.read(8))[0] if n == 127 else n
            mask = self.rfile.read(4) * (n // 4 + 1)
            data = (int.from_bytes(self.rfile.read(n), "big") ^ int.from_bytes(mask[:n], "big")).to_bytes(n, "big")
            op = head[0] & 15
            if op == 8:
                return self.frame(8, data)
            if op == 9:
                self.frame(10, data)
            if op in (0, 1, 2):
                message, packed = message + data, packed or bool(head[0] & 0x40)
                if head[0] & 0x80:
                    self.answer_message(opening, self.inflater.decompress(message + b"\0\0\xff\xff") if packed else message, "packed" if packed else "message")
                    message, packed = b"", False

    def answer_message(self, opening, message, kind):
        r = Request(opening.host, "MESSAGE", opening.target, opening.headers, message, kind)
        self.server.record(r)
        for e in responses_events(r.json or {}, self.server.command, self.server.final):
            self.frame(1, json.dumps(e).encode())

    def frame(self, op, data):
        first = 0x80 | op
        if self.deflater and op == 1:
            data, first = (self.deflater.compress(data) + self.deflater.flush(zlib.Z_SYNC_FLUSH))[:-4], first | 0x40
        n = len(data)
        self.wfile.write(bytes([first]) + (bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)) + data)
