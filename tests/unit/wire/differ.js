// Our HTTP/1 head reader against llhttp, as Node carries it: whatever ours accepts, llhttp accepts and reads the same way. The other
// direction is free: ours may be stricter. usage: differ.js HEAD_DUMP CORPUS [CASES [SEED]]; exit 77: no llhttp to compare with.
'use strict';
const fs = require('fs');
const path = require('path');
const { execFileSync } = require('child_process');

process.removeAllListeners('warning');
process.on('warning', () => {});
let HTTPParser, methods;
try {
    ({ HTTPParser, methods } = process.binding('http_parser'));
} catch (e) {
    console.log('skipped: this node has no http_parser binding');
    process.exit(77);
}

const [dump, corpus, cases = '40000', seed = '1'] = process.argv.slice(2);
let state = Number(seed) >>> 0 || 1;
function rand(n) { // xorshift32: the same cases in every run
    state ^= state << 13; state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5; state >>>= 0;
    return state % n;
}

const tokens = ['\r\n', '\n', '\r', ' ', '\t', ':', ',', ';', '\0', '\x01', '\x7f', '\xff', 'chunked', 'Transfer-Encoding: chunked\r\n',
    'Content-Length: 5\r\n', 'Content-Length: 0\r\n', 'content-length:', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'GET ', 'POST ', 'PUT ', '/', '*',
    '0', '1', '10', 'x', 'X-A: b\r\n', ' folded\r\n', 'Connection: close\r\n', 'Connection: Upgrade\r\nUpgrade: x\r\n', 'http://a/', '+', '-', '%', '"'];

function mutate(seedBytes) {
    let b = Buffer.from(seedBytes);
    for (let k = rand(5); k > 0; k--) {
        const at = rand(b.length + 1), t = Buffer.from(tokens[rand(tokens.length)], 'latin1');
        switch (rand(5)) {
        case 0: b = Buffer.concat([b.subarray(0, at), t, b.subarray(at)]); break;
        case 1: b = Buffer.concat([b.subarray(0, at), t, b.subarray(at + t.length)]); break;
        case 2: b = Buffer.concat([b.subarray(0, at), b.subarray(at + 1 + rand(4))]); break;
        case 3: if (at < b.length) b[at] = rand(256); break;
        default: { // repeat a line
            const lines = b.toString('latin1').split('\r\n');
            lines.splice(rand(lines.length), 0, lines[rand(lines.length)]);
            b = Buffer.from(lines.join('\r\n'), 'latin1');
        }
        }
    }
    return b;
}

// What llhttp makes of the bytes: { error } or { method, target, minor, status, fields, complete, consumed }.
function llhttp(isRequest, bytes) {
    const p = new HTTPParser(), out = { fields: [], complete: false };
    p.initialize(isRequest ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {});
    const take = (list) => { for (let i = 0; i < list.length; i += 2) out.fields.push([list[i], list[i + 1]]); };
    p[HTTPParser.kOnHeaders | 0] = (list, url) => { take(list); if (url) out.target = url; };
    p[HTTPParser.kOnHeadersComplete | 0] = (major, minor, list, method, url, status) => {
        if (list) take(list);
        Object.assign(out, { head: true, major, minor, status });
        if (isRequest) { out.method = methods[method]; if (url !== undefined) out.target = url; }
        return 0;
    };
    p[HTTPParser.kOnBody | 0] = () => {};
    p[HTTPParser.kOnMessageComplete | 0] = () => { out.complete = true; };
    const r = p.execute(bytes);
    if (r instanceof Error) out.error = r.code;
    return out;
}

const unhex = (s) => Buffer.from(s, 'hex').toString('latin1');
const trim = (s) => s.replace(/^[ \t]+|[ \t]+$/g, '');
const BODY = ['none', 'length', 'chunked', 'close'];

// The bytes that finish the message as ours frames it.
function rest(ours) {
    if (BODY[ours.body] === 'length') return ours.length <= 65536 ? Buffer.alloc(ours.length, 0x61) : null;
    return Buffer.from(BODY[ours.body] === 'chunked' ? '0\r\n\r\n' : '');
}

function difference(isRequest, bytes, ours) {
    const body = rest(ours);
    if (body === null) return null;
    if (isRequest && !methods.includes(unhex(ours.method))) return null; // llhttp knows a fixed list
    if (isRequest && unhex(ours.method) === 'CONNECT') return null;       // refused later, by request_from_h1
    const theirs = llhttp(isRequest, Buffer.concat([bytes.subarray(0, ours.used), body]));
    // Raw bytes from 0x80 in a target, as curl sends them: ours goes on, and writes them percent-encoded.
    if (theirs.error === 'HPE_INVALID_URL' && /[\x80-\xff]/.test(unhex(ours.target))) return null;
    if (theirs.error) return `llhttp refuses: ${theirs.error}`;
    if (!theirs.head) return 'llhttp wants more head';
    if (theirs.minor !== ours.minor || theirs.major !== 1) return 'version';
    if (isRequest ? theirs.method !== unhex(ours.method) : theirs.status !== ours.status) return 'method or status';
    if (isRequest && theirs.target !== unhex(ours.target)) return `target ${theirs.target}`;
    const a = theirs.fields.map(([n, v]) => `${n.toLowerCase()}: ${trim(v)}`).join('\n');
    const b = ours.fields.map((f) => `${unhex(f.n)}: ${unhex(f.v)}`).join('\n');
    if (a !== b) return `fields:\n${a}\n--\n${b}`;
    const untilClose = BODY[ours.body] === 'close';
    if (!theirs.complete && !untilClose) return 'llhttp sees a longer body';
    if (theirs.complete && untilClose) return 'llhttp sees no body';
    return null;
}

const seeds = fs.readdirSync(corpus).map((f) => fs.readFileSync(path.join(corpus, f)))
    .map((b) => ({ request: b[0] & 1, bytes: b.subarray(1) }));
const all = [];
for (let i = 0; i < Number(cases); i++) {
    const s = seeds[i % seeds.length];
    all.push({ request: s.request, bytes: i < seeds.length ? s.bytes : mutate(s.bytes) });
}
const input = Buffer.concat(all.flatMap((c) => {
    const h = Buffer.alloc(5);
    h.writeUInt32BE(c.bytes.length);
    h[4] = c.request ? 0x71 : 0x72;
    return [h, c.bytes];
}));
const lines = execFileSync(dump, [], { input, maxBuffer: 1 << 30 }).toString('latin1').trimEnd().split('\n');
let accepted = 0, stricter = 0, different = 0;
all.forEach((c, i) => {
    const ours = JSON.parse(lines[i]);
    if (ours.used === undefined) {
        if (ours.why && !llhttp(c.request, c.bytes).error) stricter++;
        return;
    }
    accepted++;
    const d = difference(c.request, c.bytes, ours);
    if (d && ++different <= 10) console.log(`DIFFERENT ${d}\n${JSON.stringify(c.bytes.toString('latin1'))}`);
});
console.log(`${all.length} heads, ${accepted} accepted, ${stricter} refused by us alone, ${different} read differently`);
process.exit(different || accepted < all.length / 20 ? 1 : 0);
