/* The names table over any file (cut, doubled, foreign lines): it opens, every number keeps its one name, names asked for get an address that is theirs,
 * and a second opening of the file that came of it gives every name the same number. */
#include "base/host.h"
#include "hold.h"
#include "inner/names.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_of(struct slice s)
{
        int fd = memfd_create("names", MFD_CLOEXEC);

        HOLDS(fd >= 0 && write(fd, s.p, s.n) == (ssize_t)s.n && fcntl(fd, F_SETFL, O_APPEND) == 0);
        return fd;
}

static void check(const struct names *n)
{
        for (size_t i = 0; i < names_count(n); i++) {
                struct addr v4 = names_v4((int)i), v6 = names_v6((int)i);
                struct slice owner = names_owner(n, &v4);

                HOLDS(names_is_synthetic(&v4) && names_is_synthetic(&v6) && slice_eq(owner, names_owner(n, &v6)));
                HOLDS(owner.n == 0 || host_is_canonical(owner));
        }
}

/* First byte: how much of the input is the file (of 256); the rest is names asked for, a line each. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        size_t part = (size_t)fuzz_byte(&in) * in.n / 255;
        int fd = file_of(fuzz_take(&in, part)), copy;
        struct err err;
        struct names *first, *second;

        copy = dup(fd);
        first = names_open(fd, &err);
        HOLDS(copy >= 0 && first);
        check(first);
        while (in.n) {
                ptrdiff_t nl = slice_find(in, '\n');
                struct slice name = fuzz_take(&in, nl < 0 ? in.n : (size_t)nl);
                int number = names_number(first, name);

                in = slice_skip(in, 1);
                HOLDS(number >= 0 || !host_is_canonical(name));
                if (number >= 0) {
                        struct addr a = names_v4(number);
                        HOLDS(slice_eq(names_owner(first, &a), name) && names_number(first, name) == number);
                }
        }
        check(first);
        second = names_open(copy, &err);
        HOLDS(second && names_count(second) == names_count(first));
        for (size_t i = 0; i < names_count(first); i++) {
                struct addr a = names_v4((int)i);
                HOLDS(slice_eq(names_owner(first, &a), names_owner(second, &a)));
        }
        names_close(first);
        names_close(second);
        return 0;
}
