/* Capsules: see capsule.h. */
#include "wire/capsule.h"

size_t varint_read(struct slice in, uint64_t *out)
{
        size_t n;
        uint64_t v;

        if (in.n == 0)
                return 0;
        n = (size_t)1 << (in.p[0] >> 6);
        if (in.n < n)
                return 0;
        v = in.p[0] & 0x3f;
        for (size_t i = 1; i < n; i++)
                v = v << 8 | in.p[i];
        *out = v;
        return n;
}

size_t varint_write(uint8_t out[8], uint64_t v)
{
        unsigned log = v < 1u << 6 ? 0 : v < 1u << 14 ? 1 : v < 1u << 30 ? 2 : 3;
        size_t n = (size_t)1 << log;

        for (size_t i = 0; i < n; i++)
                out[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
        out[0] = (uint8_t)((out[0] & 0x3f) | log << 6);
        return n;
}

enum wire_step capsule_read(struct slice in, struct capsule *out, size_t *used, enum wire_reason *why)
{
        struct capsule c = { 0 };
        uint64_t length, context;
        size_t type_n = varint_read(in, &c.type), length_n, n;

        if (type_n == 0)
                return WIRE_MORE;
        length_n = varint_read(slice_skip(in, type_n), &length);
        if (length_n == 0)
                return WIRE_MORE;
        if (length > CAPSULE_BYTES_MAX) {
                *why = WIRE_CAPSULE;
                return WIRE_BAD;
        }
        n = type_n + length_n;
        if (in.n - n < length)
                return WIRE_MORE;
        c.value = slice_of(in.p + n, (size_t)length);
        if (c.type == CAPSULE_DATAGRAM) {
                size_t context_n = varint_read(c.value, &context);

                if (context_n == 0) {
                        *why = WIRE_CAPSULE;
                        return WIRE_BAD;
                }
                c.is_udp = context == 0;
                c.payload = slice_skip(c.value, context_n);
        }
        *out = c;
        *used = n + (size_t)length;
        return WIRE_DONE;
}

size_t capsule_udp_head(uint8_t out[CAPSULE_HEAD_BYTES_MAX], size_t payload_bytes)
{
        size_t n = varint_write(out, CAPSULE_DATAGRAM);

        n += varint_write(out + n, payload_bytes + 1);
        out[n++] = 0; /* context */
        return n;
}
