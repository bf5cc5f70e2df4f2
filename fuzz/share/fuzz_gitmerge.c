/* Carrying back a git configuration: whatever the copy says, the result is a configuration that a second merge leaves alone, and outside branch.* and
 * remote.* it holds exactly what the original held. */
#include "share/share.h"
#include "share/gitconf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char host[] = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://h.example/\n\tpushurl = x\n[branch \"m\"]\n\tremote = o\n[alias]\n\tx = y\n";

struct sum {
        unsigned others, last_was_evil;
};
static int count(void *arg, const struct gitconf_entry *e)
{
        struct sum *s = arg;
        bool carried = (slice_is(e->section, "branch") && (slice_is(e->key, "remote") || slice_is(e->key, "merge"))) ||
                       (slice_is(e->section, "remote") && (slice_is(e->key, "url") || slice_is(e->key, "fetch")));
        if (e->key.n > 0 && !carried)
                s->others++;
        if (slice_is(e->key, "url") && (slice_starts(e->value, SLICE_LIT("ext:")) || slice_starts(e->value, SLICE_LIT("-")) || slice_starts(e->value, SLICE_LIT("/"))))
                abort();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct buf one, two;
        struct err err = ERR_INIT;
        struct sum s = { 0 };
        struct share_git_dropped dropped = { 0 };
        buf_init(&one, 0);
        buf_init(&two, 0);
        if (share_git_config_merge(slice_str(host), slice_of(data, n), &one, &dropped, &err) == 0) {
                if (gitconf_read(buf_slice(&one), count, &s) != 0 || s.others != 3)
                        abort();
                if (share_git_config_merge(buf_slice(&one), buf_slice(&one), &two, &dropped, &err) < 0 || dropped.count != 0 || !slice_eq(buf_slice(&one), buf_slice(&two)))
                        abort();
        }
        /* and as the host's own file, against itself */
        buf_clear(&two);
        if (share_git_config_merge(slice_of(data, n), slice_of(data, n), &two, &dropped, &err) == 0 && !slice_eq(buf_slice(&two), slice_of(data, n)))
                abort();
        buf_fini(&one);
        buf_fini(&two);
        return 0;
}
