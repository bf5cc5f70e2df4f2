/* The kernel out of its archive: what is found lies in the image; what is trimmed is the same in memory, and trimmed once for all; a module loses its end only. */
#include "hold.h"
#include "vm/vmlinux.h"

static uint64_t number(const uint8_t *p, size_t n)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++)
                v |= (uint64_t)p[i] << (8 * i);
        return v;
}

static bool inside(struct slice part, struct slice whole) { return part.n <= whole.n && part.p >= whole.p && part.p + part.n <= whole.p + whole.n; }

static void check_find(struct slice in)
{
        struct vmlinux_packed found;
        struct err err = ERR_INIT;

        if (vmlinux_find(in, &found, &err) < 0) {
                HOLDS(err.text[0]);
                return;
        }
        HOLDS(inside(found.bytes, in) && found.coding != MODULES_PLAIN && found.unpacked_bytes <= VMLINUX_BYTES);
        HOLDS(found.bytes.p >= in.p + 1024); /* behind at least two sectors */
}

/* Byte i of what a loader puts into memory for this segment. */
static uint8_t loaded(const uint8_t *elf, const uint8_t *header, uint64_t i) { return i < number(header + 32, 8) ? elf[number(header + 8, 8) + i] : 0; }

static void check_trim(struct slice in)
{
        uint8_t *copy = malloc(in.n ? in.n : 1);
        struct err err = ERR_INIT;
        size_t kept = 0, again = 0, table;

        HOLDS(copy);
        if (in.n)
                memcpy(copy, in.p, in.n);
        if (vmlinux_trim(copy, in.n, &kept, &err) < 0) {
                HOLDS(err.text[0] && kept == 0 && (in.n == 0 || memcmp(copy, in.p, in.n) == 0));
                free(copy);
                return;
        }
        HOLDS(kept <= in.n);
        table = number(in.p + 32, 8);
        for (size_t i = 0; i < number(in.p + 56, 2); i++) {
                const uint8_t *before = in.p + table + 56 * i, *after = copy + table + 56 * i;
                HOLDS(number(after + 8, 8) + number(after + 32, 8) <= kept && number(after + 32, 8) <= number(before + 32, 8));
                /* A segment that holds the headers themselves differs where they do. */
                for (uint64_t at = 0; at < number(before + 32, 8); at++) {
                        uint64_t place = number(before + 8, 8) + at;
                        if (place >= 64 && (place < table || place >= table + 56 * number(in.p + 56, 2)))
                                HOLDS(loaded(in.p, before, at) == loaded(copy, after, at));
                }
        }
        HOLDS(vmlinux_trim(copy, kept, &again, &err) == 0 && again == kept);
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), rest = vmlinux_module_unsigned(in);

        HOLDS(rest.p == in.p && rest.n <= in.n && (rest.n == in.n || in.n - rest.n >= 40));
        (void)!vmlinux_loads_unsigned(in);
        check_find(in);
        check_trim(in);
        return 0;
}
