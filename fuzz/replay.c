/* Replays corpora through a fuzz target without a fuzzer: `replay-x FILE-OR-FOLDER…`. Links with any LLVMFuzzerTestOneInput; also runs the empty input. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int replayed;

static int replay_file(const char *path)
{
        FILE *f = fopen(path, "rb");
        uint8_t *data = NULL;
        long size;
        int rc = -1;

        if (!f)
                return -1;
        /* Exactly as large as the input, so that a sanitizer sees the first byte past it. */
        if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 && (data = malloc(size ? (size_t)size : 1)) != NULL &&
            fread(data, 1, (size_t)size, f) == (size_t)size) {
                LLVMFuzzerTestOneInput(data, (size_t)size);
                replayed++;
                rc = 0;
        }
        free(data);
        fclose(f);
        return rc;
}

static int replay_folder(const char *path)
{
        DIR *d = opendir(path);
        struct dirent *e;
        char file[4096];
        int rc = 0;

        if (!d)
                return -1;
        while (rc == 0 && (e = readdir(d)) != NULL) {
                if (e->d_name[0] == '.')
                        continue;
                snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
                rc = replay_file(file);
        }
        closedir(d);
        return rc;
}

int main(int argc, char **argv)
{
        struct stat st;

        LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
        for (int i = 1; i < argc; i++) {
                if (stat(argv[i], &st) < 0 || (S_ISDIR(st.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i])) < 0) {
                        fprintf(stderr, "%s: cannot be read\n", argv[i]);
                        return 1;
                }
        }
        printf("%d inputs replayed\n", replayed);
        return 0;
}
