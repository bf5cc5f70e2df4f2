/* sources.list(5) and subuid(5): what is written of a source can be read again and gives the same; the image's text has no login; ids are in range.
 * The first byte says the format. */
#include "hold.h"
#include "vm/sources.h"
#include "vm/subids.h"

/* No address has a login: between "http://" or "https://" at the start of a word and the next slash or space is no "@". */
static bool no_login(struct slice text)
{
        for (size_t i = 0; i + 4 < text.n; i++) {
                size_t at = i;
                if (text.p[i] != ' ' || memcmp(text.p + i + 1, "http", 4) != 0)
                        continue;
                while (at < text.n && text.p[at] != '/' && text.p[at] != '\n')
                        at++;
                for (at += 2; at < text.n && text.p[at] > ' ' && text.p[at] != '/'; at++)
                        if (text.p[at] == '@')
                                return false;
        }
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct sources s, again;
        struct slice in = slice_of(data, n), uris;
        bool deb822 = fuzz_byte(&in) & 1;
        uint32_t first;

        if (subids_find(in, "me", 1000, &first))
                HOLDS(first > 0 && first < UINT32_MAX - SUBIDS_NEEDED);
        sources_init(&s);
        sources_init(&again);
        if (sources_add(&s, in, deb822, "bookworm") == 0) {
                HOLDS((s.count > 0) == (buf_len(&s.text) > 0) && buf_len(&s.text) <= buf_len(&s.with_logins));
                uris = buf_slice(&s.text);
                /* A key in the text is taken over as it is, whatever looks like an address in it. */
                if (!memmem(uris.p ? uris.p : (const uint8_t *)"", uris.n, "Signed-By", 9))
                        HOLDS(no_login(uris));
                HOLDS(sources_add(&again, buf_slice(&s.text), true, "bookworm") == 0);
                HOLDS(again.count == s.count && slice_eq(buf_slice(&again.text), buf_slice(&s.text)));
        }
        sources_fini(&s);
        sources_fini(&again);
        return 0;
}
