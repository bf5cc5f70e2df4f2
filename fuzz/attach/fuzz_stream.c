/* A client's stream: whatever comes, in whatever pieces, is told the same way as at once; what waits stays within a window; nothing comes after the end. */
#include "attach/stream.h"
#include "guest/proto.h"
#include "hold.h"

static void check(const struct stream *s)
{
        for (int i = 0; i < STREAM_OUTPUTS; i++) {
                HOLDS(stream_output(s, (enum stream_output)i).n <= PROTO_WINDOW_BYTES);
                HOLDS(s->output[i].unacked <= PROTO_WINDOW_BYTES && s->output[i].taken <= s->output[i].unacked);
        }
        HOLDS(s->window <= PROTO_WINDOW_BYTES && stream_room(s) <= s->window);
        HOLDS(!s->failed || (s->over && s->err.text[0]));
}

/* What is taken is given back in whole frames. */
static void take(struct stream *s, size_t n)
{
        struct proto_frame f;
        size_t used;
        int rc;

        for (int i = 0; i < STREAM_OUTPUTS; i++) {
                struct slice out = stream_output(s, (enum stream_output)i);

                HOLDS(stream_take(s, (enum stream_output)i, out.n < n ? out.n : n) == 0);
        }
        while ((rc = proto_read(buf_slice(&s->out), &f, &used)) == 1) {
                HOLDS(f.stream == 0 && f.type == PROTO_WINDOW);
                buf_consume(&s->out, used);
        }
        HOLDS(rc == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), all;
        struct stream whole, cut;
        uint8_t step = fuzz_byte(&in);
        int one, two = 0;

        all = slice_first(in, 60 * 1024); /* as one read brings */
        stream_open(&whole, -1);
        stream_open(&cut, -1);
        one = stream_feed(&whole, all);
        check(&whole);
        for (struct slice rest = all; rest.n && two == 0;) {
                two = stream_feed(&cut, fuzz_take(&rest, 1u + step));
                check(&cut);
        }
        HOLDS(one == two && whole.over == cut.over && whole.status == cut.status && whole.window == cut.window);
        for (int i = 0; i < STREAM_OUTPUTS; i++)
                HOLDS(slice_eq(stream_output(&whole, (enum stream_output)i), stream_output(&cut, (enum stream_output)i)));
        take(&whole, step * 400u);
        check(&whole);
        stream_close(&whole);
        stream_close(&cut);
        return 0;
}
