/* The newc writer: see cpio.h. */
#include "vm/cpio.h"

enum { ALIGN = 4, BLOCK = 512, MODE_FOLDER = 0040000, MODE_FILE = 0100000, MODE_BITS = 07777 };

static int pad(struct buf *out, size_t n, size_t to)
{
        static const uint8_t zeros[BLOCK];
        return buf_add(out, zeros, (to - n % to) % to);
}

static bool name_ok(struct slice name)
{
        if (name.n == 0 || name.n > CPIO_NAME_BYTES)
                return false;
        while (name.n > 0) {
                ptrdiff_t slash = slice_find(name, '/');
                struct slice part = slash < 0 ? name : slice_first(name, (size_t)slash);
                if (part.n == 0 || slice_is(part, ".") || slice_is(part, ".."))
                        return false;
                if (slash >= 0 && (size_t)slash + 1 == name.n)
                        return false;
                name = slash < 0 ? SLICE_EMPTY : slice_skip(name, (size_t)slash + 1);
        }
        return true;
}

static int entry(struct cpio *c, uint32_t inode, uint32_t mode, uint32_t links, uint32_t mtime, const char *name, struct slice bytes)
{
        size_t name_bytes = strlen(name) + 1;

        /* magic, inode, mode, uid, gid, links, mtime, size, device, device of a node, name's length with its NUL, no checksum */
        if (buf_addf(c->out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", inode, mode, 0, 0, links, mtime, (uint32_t)bytes.n, 0, 0, 0, 0,
                     (uint32_t)name_bytes, 0) < 0)
                return -1;
        if (buf_add(c->out, name, name_bytes) < 0 || pad(c->out, 110 + name_bytes, ALIGN) < 0)
                return -1;
        return buf_add_slice(c->out, bytes) < 0 || pad(c->out, bytes.n, ALIGN) < 0 ? -1 : 0;
}

int cpio_folder(struct cpio *c, const char *name, uint32_t mode)
{
        if (!name_ok(slice_str(name)) || (mode & ~(uint32_t)MODE_BITS))
                return -1;
        return entry(c, ++c->last_inode, MODE_FOLDER | mode, 2, c->mtime, name, SLICE_EMPTY);
}

int cpio_file(struct cpio *c, const char *name, uint32_t mode, struct slice bytes)
{
        if (!name_ok(slice_str(name)) || (mode & ~(uint32_t)MODE_BITS) || bytes.n > CPIO_FILE_BYTES)
                return -1;
        return entry(c, ++c->last_inode, MODE_FILE | mode, 1, c->mtime, name, bytes);
}

int cpio_end(struct cpio *c)
{
        if (entry(c, 0, 0, 1, 0, "TRAILER!!!", SLICE_EMPTY) < 0)
                return -1;
        return pad(c->out, buf_len(c->out), BLOCK);
}
