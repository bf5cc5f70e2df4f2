/* Profiles on any bytes. The first byte chooses: a request against the regular expressions, fields (never more than a reader's), a git body, which is written anew
 * the same however it is cut and holds nothing but what a reader sends, or the answer to one. */
#include <stdlib.h>

#include "naive.h"
#include "rules/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
        if (!ok)
                abort();
}

static void fuzz_request(struct slice in)
{
        enum { PATH_BYTES = 96 }; /* the expressions have a back reference: slow on long ones */
        static const char *const methods[] = { "GET", "HEAD", "POST", "PUT" };
        static const char *const queries[] = { "", "service=git-upload-pack", "a=b" };
        struct policy_request_query q = { .body_bytes = -1 };
        uint8_t choice;
        bool body_ok;

        if (in.n == 0)
                return;
        choice = in.p[0];
        q.path = slice_first(slice_skip(in, 1), PATH_BYTES);
        q.method = slice_str(methods[choice & 3]);
        q.query = slice_str(queries[(choice >> 2) % 3]);
        q.has_query = q.query.n != 0;
        q.has_body = choice >> 6 & 1;
        for (enum policy_profile p = PROFILE_NPM; p < PROFILE_COUNT; p++)
                must(profile_request(p, q.path, &q, &body_ok) == (memchr(q.path.p ? q.path.p : in.p, '\n', q.path.n) == NULL && naive_profile(p, q.path, &q)));
}

static struct profile_field field_at(void *ctx, size_t i)
{
        static const char *const names[] = { "accept", "accept-encoding", "content-type", "content-encoding", "git-protocol", "authorization", "cookie", "x" };
        const struct slice *in = ctx;

        return (struct profile_field){ slice_str(names[in->p[i] % 8]), slice_skip(*in, i) };
}

static void fuzz_fields(struct slice in)
{
        struct profile_field out[PROFILE_FIELDS_MAX];
        const char *problem;

        for (enum policy_profile p = PROFILE_NPM; p < PROFILE_COUNT; p++) {
                int n = profile_fields(p, in.n & 1 ? SLICE_LIT("GET") : SLICE_LIT("POST"), in.n, field_at, &in, false, out, &problem);
                must(n <= PROFILE_FIELDS_MAX && (n >= 0) == (problem == NULL));
                for (int i = 0; i < n; i++) /* constants: nothing of the guest's */
                        must(!slice_is(out[i].name, "authorization") && !(out[i].value.p >= in.p && out[i].value.p < in.p + in.n));
        }
}

static bool reads(struct slice in, size_t cut, git_named_fn *named, struct buf *out)
{
        struct git_body g;

        git_body_begin(&g, named, NULL);
        for (size_t i = 0; i < in.n; i += cut)
                if (!git_body_feed(&g, slice_first(slice_skip(in, i), cut), out))
                        return false;
        return git_body_end(&g);
}

static enum git_named name_none(void *ctx, enum git_use use, struct slice id)
{
        (void)ctx;
        (void)use;
        (void)id;
        return GIT_UNNAMED;
}

/* What goes on is the same for every cut, is read as itself, and has nothing of the guest's but ids, numbers and words of the protocol. */
static void fuzz_body(struct slice in)
{
        static const size_t cuts[] = { 1, 3, 7 };
        struct buf out, other;
        bool whole;

        buf_init(&out, 0);
        buf_init(&other, 0);
        whole = reads(in, in.n ? in.n : 1, NULL, &out);
        for (size_t i = 0; i < 3; i++) {
                buf_clear(&other);
                must(reads(in, cuts[i], NULL, &other) == whole && slice_eq(buf_slice(&out), buf_slice(&other)));
        }
        buf_clear(&other);
        must(!whole || (reads(buf_slice(&out), 5, NULL, &other) && slice_eq(buf_slice(&out), buf_slice(&other))));
        must(!whole || slice_ends(buf_slice(&out), SLICE_LIT("0000")));
        must(!buf_len(&out) || !memmem(buf_slice(&out).p, buf_len(&out), "session", 7));
        /* With nothing named no id goes on. */
        buf_clear(&other);
        (void)!reads(in, 2, name_none, &other);
        for (size_t i = 0, run = 0; i < buf_len(&other); i++) {
                uint8_t c = buf_slice(&other).p[i];
                run = (c >= '1' && c <= '9') || (c >= 'a' && c <= 'f') ? run + 1 : 0;
                must(run < 24);
        }
        buf_fini(&out);
        buf_fini(&other);
}

static void note(void *ctx, struct slice id)
{
        must(id.n == 40 || id.n == 64);
        must(buf_add_slice(ctx, id) == 0);
}

static void fuzz_answer(struct slice in)
{
        static const size_t cuts[] = { 4096, 1, 5 };
        struct buf got[3];

        for (size_t k = 0; k < 3; k++) {
                struct git_answer a;
                buf_init(&got[k], 0);
                git_answer_begin(&a, note, &got[k]);
                for (size_t i = 0; i < in.n; i += cuts[k])
                        git_answer_feed(&a, slice_first(slice_skip(in, i), cuts[k]));
                must(slice_eq(buf_slice(&got[0]), buf_slice(&got[k])));
        }
        for (size_t i = 0; i < buf_len(&got[0]); i += 40) /* it stands in the answer */
                must(buf_len(&got[0]) - i < 40 || memmem(in.p, in.n, buf_slice(&got[0]).p + i, 16));
        for (size_t k = 0; k < 3; k++)
                buf_fini(&got[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static void (*const entrances[])(struct slice) = { fuzz_request, fuzz_fields, fuzz_body, fuzz_answer };

        if (n)
                entrances[data[0] % 4](slice_of(data + 1, n - 1));
        return 0;
}
