/* Runs a fuzzer's body over a corpus folder, once each: the corpora are part of the ordinary test run. */
#include "base/fd.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CORPUS_FILE_BYTES = 1 << 20 };

static int one(const char *folder, const char *name)
{
        char path[4096];
        struct err err = ERR_INIT;
        struct buf b;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        buf_init(&b, 0);
        if (fd_read_file(path, &b, CORPUS_FILE_BYTES, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return -1;
        }
        LLVMFuzzerTestOneInput(buf_slice(&b).p, buf_len(&b));
        buf_fini(&b);
        return 0;
}

int main(int argc, char **argv)
{
        struct dirent *d;
        DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
        int n = 0;

        if (!dir)
                return 2;
        while ((d = readdir(dir)))
                if (d->d_name[0] != '.' && (one(argv[1], d->d_name) < 0 || !++n))
                        return 1;
        closedir(dir);
        printf("%d inputs\n", n);
        return n ? 0 : 1;
}
