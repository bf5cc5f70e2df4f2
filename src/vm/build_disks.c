/* The image's disks, sparse ext4 made from folders by mke2fs, and the digests of what is in an image. See build.h. */
#include "vm/build_priv.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1024 * 1024 };

static int make_disk(struct build *b, const char *name, const char *label, unsigned gib, const char *from, struct err *err)
{
        char path[PATH_MAX], folder[PATH_MAX];
        int fd, rc;

        build_path(b, path, "%s", name);
        build_path(b, folder, "%s", from);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return build_out_of_space(b, errno, err, path);
        rc = ftruncate(fd, (off_t)gib << 30) < 0 ? build_out_of_space(b, errno, err, path) : 0;
        fd_close(&fd);
        if (rc < 0)
                return rc;
        /* Tables not lazily: on a sparse file zeroing makes holes, and lazy ones would be zeroed by each machine, into its own layer. The journal would be written. */
        return BUILD_RUN(b, false, err, "mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-m", "1", "-J", "size=64", "-E",
                         "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=1", "-d", folder, path);
}

int build_disks(struct build *b, struct err *err)
{
        char path[PATH_MAX];

        build_path(b, path, "home");
        if (mkdir(path, 0700) < 0)
                return build_out_of_space(b, errno, err, path);
        if (make_disk(b, image_file_names[IMAGE_BASE], "brome-system", BUILD_SYSTEM_GIB, "root", err) < 0 ||
            make_disk(b, image_file_names[IMAGE_HOME], "brome-home", BUILD_HOME_GIB, "home", err) < 0)
                return -1;
        if (rmdir(path) < 0)
                return err_sys(err, errno, "%s", path);
        /* mke2fs does not take the mode of the folder itself over. */
        build_path(b, path, "%s", image_file_names[IMAGE_HOME]);
        return BUILD_RUN(b, false, err, "debugfs", "-w", "-R", "set_inode_field / mode 040700", path);
}

/* ---- digests ---- */

static int add_block(EVP_MD_CTX *md, uint64_t offset, const uint8_t *p, size_t n)
{
        static const uint8_t zeros[IMAGE_BLOCK_BYTES];
        uint8_t le[8];

        if (memcmp(p, zeros, n) == 0)
                return 0;
        for (int i = 0; i < 8; i++)
                le[i] = (uint8_t)(offset >> (8 * i));
        return EVP_DigestUpdate(md, le, sizeof(le)) == 1 && EVP_DigestUpdate(md, p, n) == 1 ? 0 : -1;
}

/* The bytes from `at` up to `end`; at is the start of a block. */
static int digest_run(EVP_MD_CTX *md, int fd, bool disk, off_t at, off_t end, struct err *err)
{
        static uint8_t bytes[READ_BYTES];

        while (at < end) {
                ssize_t n = pread(fd, bytes, end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES, at);
                if (n <= 0)
                        return err_sys(err, n < 0 ? errno : EIO, "reading");
                if (!disk && EVP_DigestUpdate(md, bytes, (size_t)n) != 1)
                        return err_set(err, "no digest");
                if (disk && n % IMAGE_BLOCK_BYTES != 0 && at + n < end)
                        n -= n % IMAGE_BLOCK_BYTES;
                for (ssize_t i = 0; disk && i < n; i += IMAGE_BLOCK_BYTES)
                        if (add_block(md, (uint64_t)(at + i), bytes + i, n - i < IMAGE_BLOCK_BYTES ? (size_t)(n - i) : IMAGE_BLOCK_BYTES) < 0)
                                return err_set(err, "no digest");
                if (n == 0)
                        return err_set(err, "a short read");
                at += n;
        }
        return 0;
}

static int digest_file(EVP_MD_CTX *md, int fd, bool disk, off_t size, struct err *err)
{
        for (off_t at = 0; at < size;) {
                off_t data = disk ? lseek(fd, at, SEEK_DATA) : at, end = size;
                if (data < 0 && errno == ENXIO)
                        return 0; /* holes up to the end */
                if (data < 0)
                        data = at; /* a file system that knows no holes */
                else if (disk && (end = lseek(fd, data, SEEK_HOLE)) < 0)
                        end = size;
                data -= data % IMAGE_BLOCK_BYTES;
                if (end < size && end % IMAGE_BLOCK_BYTES != 0)
                        end += IMAGE_BLOCK_BYTES - end % IMAGE_BLOCK_BYTES;
                if (end > size)
                        end = size;
                if (digest_run(md, fd, disk, data, end, err) < 0)
                        return -1;
                at = end;
        }
        return 0;
}

int build_digest(const struct build *b, enum image_file file, struct manifest *m, struct err *err)
{
        char path[PATH_MAX];
        EVP_MD_CTX *md = EVP_MD_CTX_new();
        struct stat st;
        int fd, rc = -1;

        build_path(b, path, "%s", image_file_names[file]);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st) < 0)
                err_sys(err, errno, "%s", path);
        else if (!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
                err_set(err, "no digest");
        else if (digest_file(md, fd, image_file_is_disk(file), st.st_size, err) == 0)
                rc = EVP_DigestFinal_ex(md, m->files[file].sha256, NULL) == 1 ? 0 : err_set(err, "no digest");
        if (rc == 0)
                m->files[file].bytes = (uint64_t)st.st_size;
        EVP_MD_CTX_free(md);
        fd_close(&fd);
        return rc;
}
