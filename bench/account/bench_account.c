/* Figures of the tripwire's eye and of re-masking: bytes a second of one core over bodies without a hit, one line a corpus and kernel, the best of
 * several rounds; what a head costs; then false alarms in a million generated requests. The bodies go through in pieces of 64 KiB, as at a door. */
#include <stdio.h>
#include <time.h>

#include "account/check.h"
#include "account/find.h"
#include "account/mask.h"
#include "scan_test.h"

enum { CORPUS_BYTES = 32 * 1024 * 1024, PIECE_BYTES = 64 * 1024, ROUNDS = 5, REQUESTS = 1000000 };

static uint64_t random_state = 88172645463325252u;
static uint32_t random_u32(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return (uint32_t)(random_state >> 16);
}
static uint32_t below(uint32_t n) { return (uint32_t)((uint64_t)random_u32() * n >> 32); }

static double now_s(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The last eight are for the false alarms only: no text has the marker in every tenth word. */
static const char *const words[] = { "the",       "web",   "submit",  "library", "algorithm", "club",   "arm",    "norm",    "return", "if",
                                     "function",  "value", "user",    "request", "of",        "string", "a",      "to",      "and",    "job",
                                     "stub",      "form",  "perform", "in",      "with",      "token",  "model",  "agent",   "header", "GitHub",
                                     "x86_64",    "utf-8", "static",  "const",   "int",       "char",   "size_t", "self",    "import", "struct",
                                     "Biomarker", "brm",   "6272",    "62.72",   "icm",       "Jyb",    "YnJ",    "0x62726d" };
enum { WORDS = sizeof(words) / sizeof(words[0]), WORDS_PLAIN = WORDS - 8 };
static uint32_t words_used = WORDS_PLAIN;
static const char *word(void) { return words[below(words_used)]; }

static const char base64_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static void add_base64(struct buf *out, size_t n, size_t line, const char *between)
{
        for (size_t i = 0; i < n; i++) {
                if (line && i && i % line == 0)
                        buf_add_str(out, between);
                buf_add(out, base64_chars + below(64), 1);
        }
}

/* A line of a program, as an agent quotes it; `quote` and `end` as the text around it spells them. */
static void add_line(struct buf *out, const char *quote, const char *end)
{
        for (uint32_t i = below(8) * 4; i; i--)
                buf_add(out, " ", 1);
        for (uint32_t i = 1 + below(7); i; i--)
                buf_addf(out, below(6) ? "%s " : "%s(", word());
        if (below(3) == 0)
                buf_addf(out, "%s%s %s%s, %u", quote, word(), word(), quote, below(100000));
        buf_addf(out, ");%s", end);
}

static void add_chat(struct buf *out, size_t lines)
{
        buf_add_str(out, "{\"model\":\"some-model-4\",\"max_tokens\":32000,\"stream\":true,\"messages\":[");
        for (int m = 0; m < 4; m++) {
                buf_addf(out, "%s{\"role\":\"%s\",\"content\":[{\"type\":\"text\",\"text\":\"", m ? "," : "", m % 2 ? "assistant" : "user");
                for (size_t i = 0; i < lines; i++)
                        add_line(out, "\\\"", "\\n");
                buf_add_str(out, "\"}]}");
        }
        buf_add_str(out, "]}");
}

static void corpus_chat(struct buf *out) { add_chat(out, 400); }
static void corpus_base64(struct buf *out) { add_base64(out, 100000, 0, ""); }
static void corpus_base64_lines(struct buf *out) { add_base64(out, 100000, 76, "\n"); }
static void corpus_base64_json(struct buf *out) { add_base64(out, 100000, 60, "\\n"); }
static void corpus_source(struct buf *out) { add_line(out, "\"", "\n"); }
static void corpus_random(struct buf *out)
{
        uint32_t x = random_u32();
        buf_add(out, &x, 4);
}
static void corpus_hex(struct buf *out) { buf_addf(out, "%08x%08x", random_u32(), random_u32()); }
static void corpus_form(struct buf *out) { buf_addf(out, "%s=%s%%20%s%%3A%%2F%%2f%s%%22%%0A&", word(), word(), word(), word()); }
static void corpus_unicode(struct buf *out)
{
        for (int i = 0; i < 20; i++)
                buf_addf(out, "\\u%04x", 0x4e00 + below(0x2000));
        buf_addf(out, " %s ", word());
}

struct corpus {
        const char *name;
        void (*make)(struct buf *out);
        bool asked; /* the aim of 2 GB/s is for these */
};
static const struct corpus corpora[] = {
        { "JSON chat bodies", corpus_chat, true },
        { "base64 blob", corpus_base64, true },
        { "base64, lines of 76", corpus_base64_lines, true },
        { "source text", corpus_source, true },
        { "random binary", corpus_random, true },
        { "base64 in JSON, \\n at 60", corpus_base64_json, false },
        { "hex", corpus_hex, false },
        { "percent-encoded form", corpus_form, false },
        { "JSON of \\uXXXX", corpus_unicode, false },
};

static void scan_all(const struct token_set *set, struct slice text)
{
        struct scan s;
        struct scan_hit hit;
        size_t at = 0;

        scan_begin(&s, set);
        while (at < text.n) {
                struct slice held = slice_first(slice_skip(text, at), PIECE_BYTES);
                bool found;
                size_t clear = scan_step(&s, held, at + held.n == text.n, &found, &hit);
                if (found) {
                        printf("a hit at %zu\n", at + hit.at);
                        exit(1);
                }
                scan_drop(&s, clear);
                at += clear;
        }
}

static void mask_all(struct mask *m, struct slice text)
{
        struct mask_stream s;
        struct buf out;

        buf_init(&out, 0);
        mask_begin(&s, m);
        for (size_t at = 0; at < text.n; at += PIECE_BYTES) {
                buf_clear(&out);
                if (mask_feed(&s, slice_first(slice_skip(text, at), PIECE_BYTES), at + PIECE_BYTES >= text.n, &out) < 0 || s.found)
                        exit(1);
        }
        mask_end(&s);
        buf_fini(&out);
}

/* m: what to mask; NULL: scan. */
static double rate(const struct token_set *set, struct mask *m, struct slice text)
{
        double best = 1e9;

        for (int i = 0; i < ROUNDS; i++) {
                double start = now_s(), took;
                if (m)
                        mask_all(m, text);
                else
                        scan_all(set, text);
                took = now_s() - start;
                if (took < best)
                        best = took;
        }
        return (double)text.n / best / 1e9;
}

static void bench_text(const struct token_set *set, const struct corpus *c, struct slice text)
{
        static const char *const secrets[] = { "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
                                               "sk-ant-api03-Qm9ndXMga2V5IGZvciBhIGJlbmNobWFyay1ub3QtcmVhbC1hdC1hbGw-AA",
                                               "glpat-4XyZq9-LmN0pQrStUvWx" };
        struct mask *m = mask_new();

        printf("scan, %-26s", c->name);
        for (enum find_kernel k = FIND_PORTABLE; k < FIND_KERNEL_COUNT; k++)
                if (find_kernel_use(k))
                        printf("  %s %5.2f GB/s", find_kernel_name(k), rate(set, NULL, text));
        find_kernel_use(FIND_AUTO);
        printf("%s\nmask, %-26s", c->asked ? "" : "   (no aim)", c->name);
        for (size_t i = 0; m && i < sizeof(secrets) / sizeof(secrets[0]); i++)
                if (mask_add(m, slice_str(secrets[i]), slice_str("brm-a-placeholder")) == 0 && i != 1)
                        printf("  %zu secret%s %5.2f GB/s", i + 1, i ? "s" : "", rate(set, m, text));
        printf("\n");
        mask_free(m);
}

static void bench_corpus(const struct token_set *set, const struct corpus *c)
{
        struct buf text;

        buf_init(&text, 0);
        while (buf_len(&text) < CORPUS_BYTES)
                c->make(&text);
        bench_text(set, c, buf_slice(&text));
        buf_fini(&text);
}

/* One benign request: a path, headers, a body of one of several kinds. */
static void make_request(struct buf *out)
{
        buf_addf(out, "POST /%s/%s?q=%s%%20%s&id=%08x HTTP/1.1\r\nhost: %s.example\r\nauthorization: Bearer ", word(), word(), word(), word(),
                 random_u32(), word());
        add_base64(out, 40 + below(40), 0, "");
        buf_addf(out, "\r\nx-request-id: %08x-%04x\r\n\r\n", random_u32(), below(65536));
        switch (below(6)) {
        case 0: add_chat(out, 1 + below(6)); break;
        case 1: add_base64(out, below(1500), 76, "\r\n"); break;
        case 2:
                for (uint32_t i = below(30); i; i--)
                        corpus_form(out);
                break;
        case 3:
                for (uint32_t i = below(200); i; i--)
                        corpus_random(out);
                break;
        case 4:
                for (uint32_t i = below(60); i; i--)
                        corpus_hex(out);
                break;
        default:
                /* What looks like a placeholder and is none of this workspace's. */
                buf_addf(out, "{\"doc\": \"a placeholder looks like ghp_brm%s or brm-", word());
                for (uint32_t i = below(30); i; i--)
                        buf_addf(out, "%c", "abcdefghijklmnopqrstuvwxyz234567"[below(32)]);
                buf_add_str(out, "\"}");
        }
}

static void bench_alarms(const struct token_set *set)
{
        size_t alarms = 0, bytes = 0;
        struct scan_hit hit;
        struct buf text;

        buf_init(&text, 0);
        words_used = WORDS;
        for (int i = 0; i < REQUESTS; i++) {
                buf_clear(&text);
                make_request(&text);
                bytes += buf_len(&text);
                alarms += scan_text(set, buf_slice(&text), &hit);
        }
        printf("false alarms in %d generated requests (%zu MB): %zu\n", REQUESTS, bytes / 1000000, alarms);
        buf_fini(&text);
}

/* ---- heads ---- */

/* The head of a request to a model, as an agent sends it. */
static struct header head_fields[] = {
        { SLICE_LIT("accept"), SLICE_LIT("application/json") },
        { SLICE_LIT("accept-encoding"), SLICE_LIT("gzip, deflate, br, zstd") },
        { SLICE_LIT("accept-language"), SLICE_LIT("*") },
        { SLICE_LIT("anthropic-beta"), SLICE_LIT("fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14") },
        { SLICE_LIT("anthropic-version"), SLICE_LIT("2023-06-01") },
        { SLICE_LIT("content-type"), SLICE_LIT("application/json") },
        { SLICE_LIT("sec-fetch-mode"), SLICE_LIT("cors") },
        { SLICE_LIT("user-agent"), SLICE_LIT("agent-cli/1.0.98 (external, cli)") },
        { SLICE_LIT("x-app"), SLICE_LIT("cli") },
        { SLICE_LIT("x-stainless-arch"), SLICE_LIT("x64") },
        { SLICE_LIT("x-stainless-lang"), SLICE_LIT("js") },
        { SLICE_LIT("x-stainless-os"), SLICE_LIT("Linux") },
        { SLICE_LIT("x-stainless-package-version"), SLICE_LIT("0.60.0") },
        { SLICE_LIT("x-stainless-retry-count"), SLICE_LIT("0") },
        { SLICE_LIT("x-stainless-runtime"), SLICE_LIT("node") },
        { SLICE_LIT("x-stainless-runtime-version"), SLICE_LIT("v22.19.0") },
        { SLICE_LIT("x-stainless-timeout"), SLICE_LIT("600") },
        { SLICE_LIT("authorization"), SLICE_EMPTY }, /* its value is the placeholder; the last, so that it can be left out */
};
enum { HEAD_FIELDS = sizeof(head_fields) / sizeof(head_fields[0]), HEADS = 1000000 };

static void bench_head(const char *name, const struct binding *b, struct request *req, size_t fields)
{
        struct account_use u;
        double best = 1e9;

        req->headers = (struct headers){ head_fields, fields };
        for (int round = 0; round < ROUNDS; round++) {
                double start = now_s(), took;
                for (int i = 0; i < HEADS / ROUNDS; i++)
                        account_check(b, req, &u);
                took = now_s() - start;
                if (took < best)
                        best = took;
        }
        printf("account fields, %-28s %4.0f ns a request, %s\n", name, best / (HEADS / ROUNDS) * 1e9, account_reason_sentence(u.reason));
}

static void bench_heads(void)
{
        static const struct { enum account_kind kind; const char *name; } kinds[] = { { ACCOUNT_BEARER, "a bearer's host" }, { ACCOUNT_GITHUB, "a github host" } };
        static const uint8_t random_part[PLACEHOLDER_RANDOM_BYTES] = { 1, 2, 3, 4, 5 };
        struct request req = { .method = SLICE_LIT("POST"), .scheme = SCHEME_HTTPS, .authority = { .name = SLICE_LIT("api.example"), .port = 443 },
                               .target = { .path = SLICE_LIT("/v1/messages"), .query = SLICE_LIT("beta=true"), .has_query = true } };

        bench_head("a host without an account", NULL, &req, HEAD_FIELDS - 1);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                char placeholder[PLACEHOLDER_BYTES_MAX + 1], value[PLACEHOLDER_BYTES_MAX + 8];
                const struct binding_host host = { .name = SLICE_LIT("api.example"), .port = 443 };
                const struct account_field field = { .slot = SLOT_AUTHORIZATION };
                struct binding b = { .name = SLICE_LIT("api"), .kind = kinds[i].kind, .hosts = &host, .host_count = 1, .fields = &field, .field_count = 1 };

                placeholder_mint(b.kind, random_part, placeholder);
                b.placeholder = slice_str(placeholder);
                snprintf(value, sizeof(value), "Bearer %s", placeholder);
                head_fields[HEAD_FIELDS - 1].value = slice_str(value);
                bench_head(kinds[i].name, &b, &req, HEAD_FIELDS);
        }
}

/* A file, over and over, until there is enough of it. */
static void bench_file(const struct token_set *set, const char *path)
{
        struct corpus c = { .name = path };
        struct buf text;
        FILE *f = fopen(path, "rb");
        uint8_t piece[4096];
        size_t n;

        if (!f)
                return perror(path);
        buf_init(&text, 0);
        while (buf_len(&text) < CORPUS_BYTES) {
                while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
                        buf_add(&text, piece, n);
                if (buf_len(&text) == 0)
                        break;
                rewind(f);
        }
        fclose(f);
        bench_text(set, &c, buf_slice(&text));
        buf_fini(&text);
}

/* Files given are measured besides the generated bodies. */
int main(int argc, char **argv)
{
        struct token_set *set = spelt_set();

        if (!set)
                return 1;
        bench_heads();
        for (size_t i = 0; i < sizeof(corpora) / sizeof(corpora[0]); i++)
                bench_corpus(set, &corpora[i]);
        for (int i = 1; i < argc; i++)
                bench_file(set, argv[i]);
        bench_alarms(set);
        token_set_free(set);
        return 0;
}
