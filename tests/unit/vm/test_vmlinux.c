/* The kernel out of its archive: where it lies, what QEMU can start, what is cut off, every cut. */
#include "vm/vmlinux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void put(uint8_t *p, size_t n, uint64_t v)
{
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

/* ---- bzImages ---- */

enum { IMAGE_BYTES = 2048, PROTECTED = 1024, OFFSET = 16, LENGTH = 100 };

/* One sector of set-up, its payload 16 bytes behind. */
static void image(uint8_t *p, const char *magic, size_t magic_bytes)
{
        memset(p, 0xcc, IMAGE_BYTES);
        p[0x1f1] = 1;
        put(p + 0x1fe, 2, 0xaa55);
        memcpy(p + 0x202, "HdrS", 4);
        put(p + 0x206, 2, 0x20f);
        put(p + 0x248, 4, OFFSET);
        put(p + 0x24c, 4, LENGTH);
        memcpy(p + PROTECTED + OFFSET, magic, magic_bytes);
        put(p + PROTECTED + OFFSET + LENGTH - 4, 4, 5000);
}

static void found(void **state)
{
        static const struct { const char *magic; size_t bytes, less; enum modules_coding coding; } cases[] = {
                { "\x1f\x8b\x08", 3, 0, MODULES_GZIP }, { "\xfd" "7zXZ", 6, 4, MODULES_XZ }, { "\x28\xb5\x2f\xfd", 4, 4, MODULES_ZSTD } };
        uint8_t p[IMAGE_BYTES];
        struct vmlinux_packed one;
        struct err err = ERR_INIT;
        (void)state;

        for (size_t i = 0; i < 3; i++) {
                image(p, cases[i].magic, cases[i].bytes);
                assert_int_equal(vmlinux_find(slice_of(p, sizeof(p)), &one, &err), 0);
                assert_ptr_equal(one.bytes.p, p + PROTECTED + OFFSET);
                assert_int_equal(one.bytes.n, LENGTH - cases[i].less);
                assert_int_equal(one.coding, cases[i].coding);
                assert_int_equal(one.unpacked_bytes, 5000);
        }
}

static void not_found(void **state)
{
        static const struct { size_t at, n; uint64_t value; const char *says; } wrong[] = {
                { 0x1fe, 2, 0, "no bzImage" }, { 0x202, 1, 'h', "no bzImage" }, { 0x206, 2, 0x207, "older" }, { 0x248, 4, 0xffffffff, "not in it" }, { 0x24c, 4, 0xffffffff, "not in it" },
                { 0x24c, 4, IMAGE_BYTES - PROTECTED - OFFSET + 1, "not in it" }, { 0x24c, 4, 4, "not in it" }, { 0x1f1, 1, 0, "not in it" }, { PROTECTED + OFFSET, 1, 'B', "neither" },
                { PROTECTED + OFFSET + LENGTH - 4, 4, VMLINUX_BYTES + 1u, "larger" } };
        uint8_t p[IMAGE_BYTES];
        (void)state;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct vmlinux_packed one;
                struct err err = ERR_INIT;
                image(p, "\xfd" "7zXZ", 6);
                put(p + wrong[i].at, wrong[i].n, wrong[i].value);
                assert_int_equal(vmlinux_find(slice_of(p, sizeof(p)), &one, &err), -1);
                assert_non_null(strstr(err.text, wrong[i].says));
        }
}

static void image_cuts(void **state)
{
        uint8_t p[IMAGE_BYTES];
        (void)state;

        image(p, "\xfd" "7zXZ", 6);
        for (size_t n = 0; n < sizeof(p); n++) {
                uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer sees a read behind it */
                struct vmlinux_packed one;
                struct err err = ERR_INIT;
                assert_non_null(copy);
                memcpy(copy, p, n);
                assert_int_equal(vmlinux_find(slice_of(copy, n), &one, &err), n < PROTECTED + OFFSET + LENGTH ? -1 : 0);
                free(copy);
        }
}

/* ---- ELF files ---- */

enum { ELF_BYTES = 1200, TEXT = 512, TEXT_BYTES = 128, NOTES = 544, DATA = 800, DATA_BYTES = 256, DATA_USED = 10, ENTRY = 0x1000010 };

static void segment(uint8_t *p, uint32_t type, uint64_t offset, uint64_t physical, uint64_t file, uint64_t memory)
{
        put(p, 4, type), put(p + 8, 8, offset), put(p + 24, 8, physical), put(p + 32, 8, file), put(p + 40, 8, memory);
}

/* Text with the notes in it, data that is zeros from its eleventh byte, something behind. */
static void elf(uint8_t *p)
{
        static const uint8_t magic[] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };

        memset(p, 0, ELF_BYTES);
        memcpy(p, magic, sizeof(magic));
        put(p + 16, 2, 2), put(p + 18, 2, 62), put(p + 32, 8, 64), put(p + 40, 8, 1100), put(p + 54, 2, 56), put(p + 56, 2, 3), put(p + 60, 2, 7), put(p + 62, 2, 6);
        segment(p + 64, 1, TEXT, 0x1000000, TEXT_BYTES, TEXT_BYTES);
        segment(p + 64 + 56, 1, DATA, 0x1001000, DATA_BYTES, 4096);
        segment(p + 64 + 112, 4, NOTES, 0x1000020, 56, 56);
        memset(p + TEXT, 0x90, TEXT_BYTES);
        put(p + NOTES, 4, 4), put(p + NOTES + 4, 4, 6), put(p + NOTES + 8, 4, 6);
        memcpy(p + NOTES + 12, "Xen\0linux\0\0", 12);
        put(p + NOTES + 24, 4, 4), put(p + NOTES + 28, 4, 8), put(p + NOTES + 32, 4, 18);
        memcpy(p + NOTES + 36, "Xen", 4);
        put(p + NOTES + 40, 8, ENTRY);
        memset(p + DATA, 0x11, DATA_USED);
        memset(p + DATA + DATA_BYTES, 0x22, ELF_BYTES - DATA - DATA_BYTES);
}

static void trimmed(void **state)
{
        uint8_t p[ELF_BYTES], before[ELF_BYTES];
        struct err err = ERR_INIT;
        size_t kept = 0;
        (void)state;

        elf(p);
        memcpy(before, p, sizeof(p));
        assert_int_equal(vmlinux_trim(p, sizeof(p), &kept, &err), 0);
        assert_int_equal(kept, DATA + DATA_USED);
        assert_int_equal(p[64 + 56 + 32], DATA_USED);
        assert_int_equal(p[64 + 56 + 33], 0);
        assert_memory_equal(p + 64 + 56 + 40, before + 64 + 56 + 40, 16); /* the size in memory stays */
        assert_int_equal(p[40] | p[41] | p[60] | p[62], 0);
        assert_memory_equal(p + 64, before + 64, 56);
        assert_memory_equal(p + 200, before + 200, ELF_BYTES - 200);
        assert_int_equal(vmlinux_trim(p, kept, &kept, &err), 0);
        assert_int_equal(kept, DATA + DATA_USED);
}

static void not_trimmed(void **state)
{
        static const struct { size_t at, n; uint64_t value; const char *says; } wrong[] = {
                { 0, 1, 0, "no ELF" }, { 4, 1, 1, "no ELF" }, { 16, 2, 3, "no program" }, { 18, 2, 3, "no program" }, { 32, 8, UINT64_MAX, "where" }, { 32, 8, 0, "where" },
                { 54, 2, 55, "where" }, { 56, 2, 0, "where" }, { 56, 2, VMLINUX_SEGMENTS + 1, "where" }, { 56, 2, 30, "where" }, { 64 + 8, 8, ELF_BYTES, "where" },
                { 64 + 8, 8, UINT64_MAX, "where" }, { 64 + 32, 8, UINT64_MAX, "where" }, { 64 + 40, 8, 1, "place" }, { 64 + 24, 8, 1ull << 32, "place" },
                { 64 + 112, 4, 6, "no PVH" }, { NOTES + 32, 4, 17, "no PVH" }, { NOTES + 36, 1, 'x', "no PVH" }, { NOTES + 24, 4, 3, "no PVH" }, { NOTES, 4, UINT32_MAX, "no PVH" },
                { NOTES + 4, 4, UINT32_MAX, "no PVH" }, { NOTES + 28, 4, 5, "no PVH" }, { NOTES + 40, 8, 0, "no PVH" }, { NOTES + 40, 8, 0x2000000, "no PVH" }, { NOTES + 40, 8, 0xffffff, "no PVH" } };
        uint8_t p[ELF_BYTES], before[ELF_BYTES];
        (void)state;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct err err = ERR_INIT;
                size_t kept = 7;
                elf(p);
                put(p + wrong[i].at, wrong[i].n, wrong[i].value);
                memcpy(before, p, sizeof(p));
                if (vmlinux_trim(p, sizeof(p), &kept, &err) != -1 || !strstr(err.text, wrong[i].says))
                        fail_msg("case %zu: %s", i, err.text);
                assert_int_equal(kept, 7);
                assert_memory_equal(p, before, sizeof(p));
        }
}

static void elf_cuts(void **state)
{
        uint8_t p[ELF_BYTES];
        (void)state;

        elf(p);
        for (size_t n = 0; n < sizeof(p); n++) {
                uint8_t *copy = malloc(n ? n : 1);
                struct err err = ERR_INIT;
                size_t kept;
                assert_non_null(copy);
                memcpy(copy, p, n);
                assert_int_equal(vmlinux_trim(copy, n, &kept, &err), n < DATA + DATA_BYTES ? -1 : 0);
                free(copy);
        }
}

/* ---- modules ---- */

#define SIGNED "\177ELF module" "SIGNATURE" "\0\0\2\0\0\0\0\0" "\0\0\0\x09" "~Module signature appended~\n"

static void modules(void **state)
{
        static const char end[] = "~Module signature appended~\n";
        struct slice whole = SLICE_LIT(SIGNED);
        uint8_t p[sizeof(SIGNED) - 1];
        (void)state;

        assert_true(slice_is(vmlinux_module_unsigned(whole), "\177ELF module"));
        assert_true(slice_is(vmlinux_module_unsigned(slice_str("\177ELF module")), "\177ELF module"));
        for (size_t n = 0; n < whole.n; n++) /* the end makes it */
                assert_int_equal(vmlinux_module_unsigned(slice_first(whole, n)).n, n);
        for (size_t n = whole.n - sizeof(end) + 1 - 11; n < whole.n; n++) /* too short for one */
                assert_int_equal(vmlinux_module_unsigned(slice_skip(whole, n)).n, whole.n - n);
        for (size_t i = 0; i < 12; i++) { /* another kind; more than there is */
                size_t at = sizeof(p) - (sizeof(end) - 1) - 12 + i;
                memcpy(p, whole.p, sizeof(p));
                p[at] = i == 11 ? 22 : 1;
                assert_int_equal(vmlinux_module_unsigned(slice_of(p, sizeof(p))).n, sizeof(p));
        }
}

static void configurations(void **state)
{
        (void)state;
        assert_true(vmlinux_loads_unsigned(SLICE_LIT("CONFIG_MODULE_SIG=y\n# CONFIG_MODULE_SIG_FORCE is not set\n")));
        assert_false(vmlinux_loads_unsigned(SLICE_EMPTY));
        assert_false(vmlinux_loads_unsigned(SLICE_LIT("CONFIG_X=y\nCONFIG_MODULE_SIG_FORCE=y")));
        assert_false(vmlinux_loads_unsigned(SLICE_LIT("CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y\nCONFIG_X=y\n")));
        assert_false(vmlinux_loads_unsigned(SLICE_LIT("CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y\n")));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(found),       cmocka_unit_test(not_found), cmocka_unit_test(image_cuts), cmocka_unit_test(trimmed),
                cmocka_unit_test(not_trimmed), cmocka_unit_test(elf_cuts),  cmocka_unit_test(modules),    cmocka_unit_test(configurations),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
