/* Profiles: see profile.h. Each is a grammar, written as a reader of that grammar; what it does not know is refused. */
#include "rules/profile.h"

static const char *const names[PROFILE_COUNT] = { "", "npm", "git" };

const char *profile_name(enum policy_profile p) { return names[p]; }

/* ---- pieces of a path ------------------------------------------------------------------------------------------------------------------------- */

static bool is_lower_alnum(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
static bool is_alnum(uint8_t c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

static bool eat(struct slice *s, struct slice what)
{
        if (!slice_starts(*s, what))
                return false;
        *s = slice_skip(*s, what.n);
        return true;
}
#define EAT(s, literal) eat(s, SLICE_LIT(literal))

/* The longest run of letters (upper case too, or not), digits and, but in front, bytes of `more`. */
static struct slice eat_run(struct slice *s, bool upper, const char *more)
{
        size_t n = 0;

        for (; n < s->n; n++) {
                uint8_t c = s->p[n];
                if (!(upper ? is_alnum(c) : is_lower_alnum(c)) && !(n && c && strchr(more, c)))
                        break;
        }
        *s = slice_skip(*s, n);
        return slice_of(s->p - n, n);
}

static bool eat_number(struct slice *s)
{
        enum { DIGITS_MAX = 16 }; /* semver's numbers are safe integers */
        size_t n = 0;

        while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
                n++;
        if (n == 0 || n > DIGITS_MAX || (n > 1 && s->p[0] == '0'))
                return false;
        *s = slice_skip(*s, n);
        return true;
}

/* ---- npm ---------------------------------------------------------------------------------------------------------------------------------------- */

enum { NPM_NAME_BYTES = 214, NPM_TAIL_BYTES = 64 }; /* npm's own limit; a pre-release or build tag */

/* Semantic version (semver.org 2.0.0), to the end of s. */
static bool npm_version(struct slice s)
{
        if (!eat_number(&s) || !EAT(&s, ".") || !eat_number(&s) || !EAT(&s, ".") || !eat_number(&s))
                return false;
        for (int i = 0; i < 2; i++) {
                struct slice tail;
                if (!(i == 0 ? EAT(&s, "-") : EAT(&s, "+")))
                        continue;
                tail = eat_run(&s, true, ".-");
                if (tail.n == 0 || tail.n > NPM_TAIL_BYTES)
                        return false;
        }
        return s.n == 0;
}

struct npm_name {
        struct slice scope; /* "@scope/", the separator as it was; empty: none */
        struct slice name;
        bool encoded; /* the separator was %2F */
};

/* [@scope/]name, the separator as it is or encoded: the doors judge both readings. New names are in lower case; old packages (JSONStream) are
 * not, and stand in dependencies. No scope is that old. */
static bool npm_name(struct slice *s, struct npm_name *out)
{
        const uint8_t *start = s->p;

        *out = (struct npm_name){ .encoded = false };
        if (EAT(s, "@")) {
                if (eat_run(s, false, "._-").n == 0)
                        return false;
                out->encoded = EAT(s, "%2F") || EAT(s, "%2f");
                if (!out->encoded && !EAT(s, "/"))
                        return false;
                out->scope = slice_of(start, (size_t)(s->p - start));
        }
        out->name = eat_run(s, true, "._-");
        return out->name.n && out->scope.n + out->name.n <= NPM_NAME_BYTES;
}

static bool npm_service(struct slice s)
{
        struct npm_name name;

        if (slice_is(s, "npm/v1/keys"))
                return true;
        if (EAT(&s, "npm/v1/attestations/"))
                return npm_name(&s, &name) && EAT(&s, "@") && npm_version(s);
        return EAT(&s, "package/") && npm_name(&s, &name) && slice_is(s, "/dist-tags");
}

/* "name-1.2.3.tgz"; Artifactory says the scope once more in front of it. */
static bool npm_file(struct slice s, const struct npm_name *name)
{
        eat(&s, name->scope);
        if (!eat(&s, name->name) || !EAT(&s, "-") || !slice_ends(s, SLICE_LIT(".tgz")))
                return false;
        return npm_version(slice_first(s, s.n - 4));
}

static bool npm_request(struct slice path, const struct policy_request_query *q)
{
        bool get = slice_is(q->method, "GET");
        struct npm_name name;

        if ((!get && !slice_is(q->method, "HEAD")) || !EAT(&path, "/"))
                return false;
        if (EAT(&path, "-/"))
                return get && npm_service(path);
        if (!npm_name(&path, &name))
                return false;
        if (path.n == 0)
                return true;
        return get && !name.encoded && EAT(&path, "/-/") && npm_file(path, &name);
}

/* ---- git ---------------------------------------------------------------------------------------------------------------------------------------- */

enum { GIT_REPOSITORY_BYTES = 255 };

/* "/" and at least one segment; no percent-encoding. */
static bool git_repository(struct slice s)
{
        if (s.n < 2 || s.n > GIT_REPOSITORY_BYTES || s.p[0] != '/' || s.p[s.n - 1] == '/')
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (!is_alnum(s.p[i]) && (!s.p[i] || !strchr("/._~@+-", s.p[i])))
                        return false;
        return true;
}

static bool git_request(struct slice path, const struct policy_request_query *q, bool *body_ok)
{
        static const struct slice refs = SLICE_LIT("/info/refs"), pack = SLICE_LIT("/git-upload-pack");

        if (slice_is(q->method, "GET") && slice_ends(path, refs))
                return slice_is(q->query, "service=git-upload-pack") && git_repository(slice_first(path, path.n - refs.n));
        *body_ok = true;
        return slice_is(q->method, "POST") && slice_ends(path, pack) && !q->has_query && q->query.n == 0 && git_repository(slice_first(path, path.n - pack.n));
}

bool profile_request(enum policy_profile p, struct slice path, const struct policy_request_query *q, bool *body_ok)
{
        bool ok = false;

        *body_ok = false;
        if (q->upgrade != UPGRADE_NONE || q->override_header)
                return false;
        switch (p) {
        case PROFILE_NONE:
        case PROFILE_COUNT:
                return false;
        case PROFILE_NPM:
                ok = !q->has_query && q->query.n == 0 && npm_request(path, q);
                break;
        case PROFILE_GIT:
                ok = git_request(path, q, body_ok);
                break;
        }
        return ok && (*body_ok || !q->has_body || q->body_bytes == 0);
}

/* ---- fields ----------------------------------------------------------------------------------------------------------------------------------- */

/* What of the request's fields matters; each at most once, or it counts as what it is not. */
struct asked {
        struct slice accept, accept_encoding, content_type, content_encoding, git_protocol, authorization;
};

static void ask(struct asked *a, struct profile_field f)
{
        const struct {
                const char *name;
                struct slice *to;
        } known[] = { { "accept", &a->accept },
                      { "accept-encoding", &a->accept_encoding },
                      { "content-type", &a->content_type },
                      { "content-encoding", &a->content_encoding },
                      { "git-protocol", &a->git_protocol },
                      { "authorization", &a->authorization } };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (slice_is(f.name, known[i].name))
                        *known[i].to = known[i].to->n ? SLICE_LIT("?") : f.value;
}

static bool contains(struct slice s, const char *what)
{
        return s.n && memmem(s.p, s.n, what, strlen(what)) != NULL;
}

struct fields {
        struct profile_field *out;
        int n;
};

static void give(struct fields *f, const char *name, struct slice value) { f->out[f->n++] = (struct profile_field){ slice_str(name), value }; }

/* One of three: what install asks for, what everything else that reads documents asks for, and files. */
static struct slice npm_accept(struct slice asked)
{
        if (contains(asked, "application/vnd.npm.install-v1+json"))
                return SLICE_LIT("application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*");
        return contains(asked, "application/json") ? SLICE_LIT("application/json") : SLICE_LIT("*/*");
}

static int git_fields(struct fields *f, bool post, const struct asked *a, const char **problem)
{
        if (!slice_is(a->git_protocol, "version=2")) {
                *problem = "git speaks its protocol version 2 here: `git -c protocol.version=2`";
                return -1;
        }
        give(f, "git-protocol", SLICE_LIT("version=2"));
        if (!post)
                return f->n;
        if (!slice_is(a->content_type, "application/x-git-upload-pack-request")) {
                *problem = "the body is not a request to git-upload-pack";
                return -1;
        }
        give(f, "content-type", SLICE_LIT("application/x-git-upload-pack-request"));
        if (a->content_encoding.n && !slice_is(a->content_encoding, "gzip")) {
                *problem = "a request to git-upload-pack is sent as it is, or with gzip";
                return -1;
        }
        if (a->content_encoding.n) /* for the inner door's decoder, which takes it off */
                give(f, "content-encoding", SLICE_LIT("gzip"));
        return f->n;
}

int profile_fields(enum policy_profile p, struct slice method, size_t count, struct profile_field (*get)(void *ctx, size_t i), void *ctx, bool account,
                   struct profile_field out[PROFILE_FIELDS_MAX], const char **problem)
{
        struct asked a = { .accept = SLICE_EMPTY };
        struct fields f = { out, 0 };
        bool post = slice_is(method, "POST");

        *problem = NULL;
        for (size_t i = 0; i < count; i++)
                ask(&a, get(ctx, i));
        if (p != PROFILE_NPM && p != PROFILE_GIT) {
                *problem = "no such profile";
                return -1;
        }
        give(&f, "accept", p == PROFILE_NPM ? npm_accept(a.accept) : post ? SLICE_LIT("application/x-git-upload-pack-result") : SLICE_LIT("*/*"));
        /* What git's server names is read by the outer door, as it comes; and packs are packed. */
        give(&f, "accept-encoding", p == PROFILE_NPM && contains(a.accept_encoding, "gzip") ? SLICE_LIT("gzip") : SLICE_LIT("identity"));
        /* Servers look at the first word: git's smart protocol is for who calls itself git. */
        give(&f, "user-agent", p == PROFILE_NPM ? SLICE_LIT("npm/10 (brome)") : SLICE_LIT("git/2 (brome)"));
        if (account && a.authorization.n)
                give(&f, "authorization", a.authorization);
        return p == PROFILE_GIT ? git_fields(&f, post, &a, problem) : f.n;
}
