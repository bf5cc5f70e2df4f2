/* Profiles on any bytes. The first byte chooses: a request against the regular expressions, fields (never more than a reader's), or a git body, which is read the same
 * however it is cut and holds nothing but what a reader sends. */
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

static bool reads(struct slice in, size_t cut)
{
        struct git_body g;

        git_body_begin(&g);
        for (size_t i = 0; i < in.n; i += cut)
                if (!git_body_feed(&g, slice_first(slice_skip(in, i), cut)))
                        return false;
        return git_body_end(&g);
}

static void fuzz_body(struct slice in)
{
        bool whole = reads(in, in.n ? in.n : 1);

        must(reads(in, 1) == whole && reads(in, 3) == whole && reads(in, 7) == whole);
        must(!whole || (in.n >= 4 && memcmp(in.p + in.n - 4, "0000", 4) == 0));
        for (size_t i = 0; whole && i < in.n; i++)
                must(in.p[i] == '\n' || (in.p[i] >= ' ' && in.p[i] < 0x7f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static void (*const entrances[])(struct slice) = { fuzz_request, fuzz_fields, fuzz_body };

        if (n)
                entrances[data[0] % 3](slice_of(data + 1, n - 1));
        return 0;
}
