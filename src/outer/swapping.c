/* The placeholder behind the head: see swapping.h. */
#include "outer/swapping.h"

#include "account/swap.h"
#include "outer/account.h"
#include "outer/frames.h"
#include <stdlib.h>

struct swapping {
        struct exchange *ex;
        struct binding binding; /* with a placeholder of the exchange's own memory: the policy may change under it */
        struct swap_stream stream;
        bool websocket, whole, is_open; /* whole: the body was here before it went */
        bool used; /* of a WebSocket: in one of its messages; they are one use each connection */
        struct frames frames;
};

static bool declares(const struct binding *b, enum account_slot slot)
{
        for (size_t i = 0; i < b->field_count; i++)
                if (b->fields[i].slot == slot)
                        return true;
        return false;
}

/* One message of the client: a text message is looked through, binary ones go as they are. */
static int on_message(void *ctx, struct slice in, bool text, bool first, bool last, struct buf *out)
{
        struct swapping *s = ctx;

        (void)first;
        return text ? swap_feed(&s->stream, in, last, out) : buf_add_slice(out, in);
}

static int on_control(void *ctx, struct slice in, struct buf *out)
{
        (void)ctx;
        return buf_add_slice(out, in);
}

static bool field_has(const struct exchange *ex, const char *name, const char *word)
{
        struct slice v = headers_value(&ex->req.headers, name);

        return v.n && memmem(v.p, v.n, word, strlen(word)) != NULL;
}

static bool carries(const struct exchange *ex, const struct binding *b)
{
        if (ex->decision.profile == PROFILE_GIT) /* its body has no place for one */
                return false;
        if (b->attach || !b->placeholder.n || ex->req.scheme != SCHEME_HTTPS || ex->decision.via.found)
                return false;
        return ex->kind == KIND_WEBSOCKET ? declares(b, SLOT_WEBSOCKET) : ex->kind == KIND_HTTP && ex->req.body != BODY_NONE && declares(b, SLOT_BODY);
}

int swapping_begin(struct exchange *ex)
{
        const struct binding *b = ex->decision.binding;
        struct swapping *s;
        bool ok = true;

        if (!b || !carries(ex, b))
                return 0;
        s = calloc(1, sizeof(*s));
        if (!s)
                return -1;
        s->ex = ex;
        s->websocket = ex->kind == KIND_WEBSOCKET;
        s->binding = (struct binding){ .placeholder = arena_copy(&ex->arena, b->placeholder, &ok) };
        swap_begin(&s->stream, &s->binding, account_secret(ex->outer->account, SLICE_EMPTY), s->websocket || field_has(ex, "content-type", "json"));
        s->stream.form = field_has(ex, "content-type", "x-www-form-urlencoded");
        s->stream.done = ex->decision.use.used; /* once a request, wherever it stands */
        frames_init(&s->frames, true, &(struct frames_filter){ on_message, on_control, s });
        ex->up.wipe = true;
        ex->swap = s;
        return ok ? 0 : -1;
}

void swapping_free(struct swapping *s)
{
        if (!s)
                return;
        frames_fini(&s->frames);
        free(s);
}

enum reason swapping_feed(struct exchange *ex, struct slice in, bool last)
{
        struct swapping *s = ex->swap;
        int rc = s->websocket ? frames_feed(&s->frames, in, &ex->up) : swap_feed(&s->stream, in, last, &ex->up);

        if (rc == 0)
                return REASON_NONE;
        return rc == ACCOUNT_TWICE ? REASON_PLACEHOLDER_TWICE : rc == -2 ? REASON_FRAMING : REASON_LIMIT;
}

bool swapping_ready(struct exchange *ex)
{
        struct swapping *s = ex->swap;

        if (s->is_open)
                return true;
        if (ex->to.body == BODY_LENGTH && !ex->up_ended && buf_len(&ex->up) < SWAP_HOLD_BYTES)
                return false;
        s->is_open = true;
        s->whole = !s->websocket && ex->up_ended;
        if (s->whole && ex->to.body == BODY_LENGTH)
                ex->to.length = buf_len(&ex->up);
        else if (ex->to.body == BODY_LENGTH)
                ex->to.body = BODY_CHUNKED;
        return true;
}

bool swapping_uses(const struct exchange *ex) { return !ex->swap->whole || ex->swap->stream.done; }

bool swapping_fits(const struct exchange *ex, const struct decision *d)
{
        return d->binding && carries(ex, d->binding) && slice_eq(d->binding->placeholder, ex->swap->binding.placeholder);
}
