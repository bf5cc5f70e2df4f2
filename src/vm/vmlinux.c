/* The kernel out of its archive: see vmlinux.h. */
#include "vm/vmlinux.h"

/* ---- the bzImage: boot.rst, "The Real-Mode Kernel Header" ---- */

enum {
        SETUP_SECTORS = 0x1f1,  /* u8; 0 means 4 */
        BOOT_FLAG = 0x1fe,      /* u16 */
        HEADER = 0x202,         /* "HdrS" */
        VERSION = 0x206,        /* u16 */
        PAYLOAD_OFFSET = 0x248, /* u32, of the protected-mode code */
        PAYLOAD_LENGTH = 0x24c, /* u32 */
        HEADER_END = 0x250,
        VERSION_PAYLOAD = 0x208, /* the first that has the two */
        SECTOR = 512,
        SIZE_BYTES = 4, /* the unpacked size, behind what is packed; gzip's own last four bytes are that */
};

static uint64_t little(const uint8_t *p, size_t n)
{
        uint64_t v = 0;

        while (n > 0)
                v = v << 8 | p[--n];
        return v;
}

static void put_little(uint8_t *p, size_t n, uint64_t v)
{
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

static const struct {
        struct slice magic;
        enum modules_coding coding;
} codings[] = {
        { { (const uint8_t *)"\x1f\x8b\x08", 3 }, MODULES_GZIP },
        { { (const uint8_t *)"\xfd" "7zXZ\0", 6 }, MODULES_XZ },
        { { (const uint8_t *)"\x28\xb5\x2f\xfd", 4 }, MODULES_ZSTD },
};

int vmlinux_find(struct slice image, struct vmlinux_packed *out, struct err *err)
{
        struct slice payload;
        uint64_t length;

        if (image.n < HEADER_END || little(image.p + BOOT_FLAG, 2) != 0xaa55 || memcmp(image.p + HEADER, "HdrS", 4) != 0)
                return err_set(err, "it is no bzImage");
        if (little(image.p + VERSION, 2) < VERSION_PAYLOAD)
                return err_set(err, "its boot protocol is older than 2.08");
        payload = slice_skip(image, ((image.p[SETUP_SECTORS] ? image.p[SETUP_SECTORS] : 4) + (size_t)1) * SECTOR);
        payload = slice_skip(payload, little(image.p + PAYLOAD_OFFSET, 4));
        length = little(image.p + PAYLOAD_LENGTH, 4);
        if (length > payload.n || length <= SIZE_BYTES)
                return err_set(err, "its header names a place that is not in it");
        payload = slice_first(payload, length);
        for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
                if (!slice_starts(payload, codings[i].magic))
                        continue;
                *out = (struct vmlinux_packed){ payload, codings[i].coding, (uint32_t)little(payload.p + length - SIZE_BYTES, SIZE_BYTES) };
                if (out->coding != MODULES_GZIP)
                        out->bytes.n -= SIZE_BYTES;
                return out->unpacked_bytes <= VMLINUX_BYTES ? 0 : err_set(err, "it is larger than %d MB", VMLINUX_BYTES >> 20);
        }
        return err_set(err, "it is packed neither by gzip nor xz nor zstd");
}

/* ---- the ELF file: elf(5), and Xen's elfnote.h for the note ---- */

enum {
        EHDR_BYTES = 64,
        PHDR_BYTES = 56,
        NOTE_BYTES = 12,       /* three u32: sizes of name and description, type */
        PT_LOAD_ = 1,
        PT_NOTE_ = 4,
        NOTE_PVH = 18,         /* XEN_ELFNOTE_PHYS32_ENTRY, name "Xen": where a machine without BIOS enters */
        NOTE_ALIGN = 4,
};

struct segment {
        uint64_t type, offset, physical, file_bytes, memory_bytes;
        uint8_t *header;
};

static struct segment segment_at(uint8_t *p)
{
        return (struct segment){ little(p, 4), little(p + 8, 8), little(p + 24, 8), little(p + 32, 8), little(p + 40, 8), p };
}

/* The entry of the PVH note among a segment's notes; 0: there is none. */
static uint64_t pvh_entry(struct slice notes)
{
        while (notes.n >= NOTE_BYTES) {
                uint64_t name = little(notes.p, 4), description = little(notes.p + 4, 4), type = little(notes.p + 8, 4);
                uint64_t name_room = (name + NOTE_ALIGN - 1) & ~(uint64_t)(NOTE_ALIGN - 1);
                notes = slice_skip(notes, NOTE_BYTES);
                if (name_room > notes.n || description > notes.n - name_room)
                        return 0;
                if (type == NOTE_PVH && slice_eq(slice_first(notes, name), slice_of("Xen", 4)) && (description == 4 || description == 8))
                        return little(notes.p + name_room, description);
                notes = slice_skip(notes, name_room + ((description + NOTE_ALIGN - 1) & ~(uint64_t)(NOTE_ALIGN - 1)));
        }
        return 0;
}

static const char *header_wrong(const uint8_t *elf, size_t n)
{
        static const uint8_t magic[] = { 0x7f, 'E', 'L', 'F', 2 /* 64 bit */, 1 /* little-endian */, 1 };
        uint64_t at, count;

        if (n < EHDR_BYTES || memcmp(elf, magic, sizeof(magic)) != 0)
                return "what is packed is no ELF file of 64 bits";
        if (little(elf + 16, 2) != 2 || little(elf + 18, 2) != 62)
                return "what is packed is no program for x86-64";
        at = little(elf + 32, 8);
        count = little(elf + 56, 2);
        if (little(elf + 54, 2) != PHDR_BYTES || count == 0 || count > VMLINUX_SEGMENTS || at < EHDR_BYTES || at > n || count * PHDR_BYTES > n - at)
                return "its segments are not where it says";
        return NULL;
}

/* All segments lie in the file, and one has a PVH note that enters a segment which is loaded. */
static const char *segments_wrong(const struct segment *s, size_t count, const uint8_t *elf, size_t n)
{
        uint64_t entry = 0;

        for (size_t i = 0; i < count; i++) {
                if (s[i].offset > n || s[i].file_bytes > n - s[i].offset)
                        return "its segments are not where it says";
                if (s[i].type == PT_LOAD_ && (s[i].file_bytes > s[i].memory_bytes || s[i].physical > UINT32_MAX))
                        return "its segments have no place in memory";
                if (s[i].type == PT_NOTE_ && entry == 0)
                        entry = pvh_entry(slice_of(elf + s[i].offset, s[i].file_bytes));
        }
        for (size_t i = 0; i < count && entry != 0; i++)
                if (s[i].type == PT_LOAD_ && entry >= s[i].physical && entry - s[i].physical < s[i].file_bytes)
                        return NULL;
        return "it has no PVH note";
}

int vmlinux_trim(uint8_t *elf, size_t n, size_t *kept, struct err *err)
{
        struct segment s[VMLINUX_SEGMENTS];
        const char *wrong = header_wrong(elf, n);
        uint64_t at, end;
        size_t count, last = 0;

        if (wrong)
                return err_set(err, "%s", wrong);
        at = little(elf + 32, 8);
        count = little(elf + 56, 2);
        for (size_t i = 0; i < count; i++)
                s[i] = segment_at(elf + at + i * PHDR_BYTES);
        wrong = segments_wrong(s, count, elf, n);
        if (wrong)
                return err_set(err, "%s", wrong);
        for (size_t i = 0; i < count; i++)
                if (s[i].offset + s[i].file_bytes > s[last].offset + s[last].file_bytes)
                        last = i;
        /* What other segments have, and the table itself, stays. */
        end = at + count * PHDR_BYTES;
        for (size_t i = 0; i < count; i++)
                if (i != last && s[i].offset + s[i].file_bytes > end)
                        end = s[i].offset + s[i].file_bytes;
        if (s[last].type == PT_LOAD_) {
                while (s[last].file_bytes > 0 && s[last].offset + s[last].file_bytes > end && elf[s[last].offset + s[last].file_bytes - 1] == 0)
                        s[last].file_bytes--;
                put_little(s[last].header + 32, 8, s[last].file_bytes);
        }
        if (s[last].offset + s[last].file_bytes > end)
                end = s[last].offset + s[last].file_bytes;
        put_little(elf + 40, 8, 0); /* no sections */
        put_little(elf + 60, 2, 0);
        put_little(elf + 62, 2, 0);
        *kept = end;
        return 0;
}

/* ---- modules ---- */

struct slice vmlinux_module_unsigned(struct slice module)
{
        static const uint8_t pkcs7[8] = { 0, 0, 2 }; /* struct module_signature of include/linux/module_signature.h: the only kind that kernels take, then a u32, big-endian */
        const struct slice magic = SLICE_LIT("~Module signature appended~\n");
        const size_t fixed = sizeof(pkcs7) + 4;
        struct slice rest;
        size_t bytes = 0;

        if (!slice_ends(module, magic) || module.n - magic.n < fixed)
                return module;
        rest = slice_first(module, module.n - magic.n - fixed);
        for (size_t i = 0; i < 4; i++)
                bytes = bytes << 8 | rest.p[rest.n + sizeof(pkcs7) + i];
        if (memcmp(rest.p + rest.n, pkcs7, sizeof(pkcs7)) != 0 || bytes > rest.n)
                return module;
        return slice_first(rest, rest.n - bytes);
}

bool vmlinux_loads_unsigned(struct slice config)
{
        static const char *const strict[] = { "CONFIG_MODULE_SIG_FORCE=y", "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y", "CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y" };
        bool loads = config.n > 0;

        while (config.n > 0) {
                ptrdiff_t end = slice_find(config, '\n');
                struct slice line = end < 0 ? config : slice_first(config, (size_t)end);
                config = end < 0 ? SLICE_EMPTY : slice_skip(config, (size_t)end + 1);
                for (size_t i = 0; i < sizeof(strict) / sizeof(strict[0]); i++)
                        if (slice_is(line, strict[i]))
                                loads = false;
        }
        return loads;
}
