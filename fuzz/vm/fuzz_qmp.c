/* QMP: what comes out is short and printable, a cut line waits, and one line more does not change what the first means. */
#include "hold.h"
#include "vm/qmp.h"

static bool printable(const char *s, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!s[i])
                        return true;
                else if (s[i] < ' ' || s[i] > '~')
                        return false;
        return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        struct qmp_message m, again;
        size_t used, same;

        while (qmp_read(in, &m, &used) == 1) {
                HOLDS(used > 0 && used <= in.n && used <= QMP_MESSAGE_BYTES && in.p[used - 1] == '\n');
                HOLDS(printable(m.word, sizeof(m.word)) && printable(m.text, sizeof(m.text)));
                HOLDS(m.kind == QMP_RETURN ? m.id > 0 : m.kind == QMP_ERROR || m.id == 0);
                HOLDS(qmp_read(slice_first(in, used - 1), &again, &same) == 0);
                HOLDS(qmp_read(slice_first(in, used), &again, &same) == 1 && same == used && again.kind == m.kind && again.id == m.id);
                in = slice_skip(in, used);
        }
        return 0;
}
