/* The image's kernel: fetched by apt from the sources of the new root folder, unpacked beside it, never installed. What the first file system needs goes
 * into the initrd in the order in which it is to be loaded, without signatures that would be checked for nothing; what a workspace may want later goes into the root for modprobe. See build.h. */
#include "vm/build_priv.h"
#include "vm/cpio.h"
#include "vm/modules.h"
#include "vm/vmlinux.h"
#include "base/esc.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        KERNEL_BYTES = 128 * 1024 * 1024, /* packed: 8 to 15 MB */
        MODULE_BYTES = 32 * 1024 * 1024,  /* one module; ext4 is 1.5 MB */
        INIT_BYTES = 64 * 1024 * 1024,    /* /init with its debug symbols */
        INITRD_BYTES = 256 * 1024 * 1024, /* it stands in the machine's memory while it is unpacked */
        CONFIG_BYTES = 2 * 1024 * 1024,   /* the kernel's configuration: 260 KB */
        DEBS = 16,
};

/* The programs that unpack, by what is packed: those of the new root. */
static const struct {
        const char *program, *ending;
} unpackers[] = { [MODULES_XZ] = { "xz", "xz" }, [MODULES_ZSTD] = { "zstd", "zst" }, [MODULES_GZIP] = { "gzip", "gz" } };

/* What must be there before the root is. A module that is built in needs no file. */
static const struct {
        const char *name;
        bool optional; /* some kernels do not have it at all */
        const char *why;
} early[] = {
        { "virtio_pci", false, "the bus of all of them" },
        { "virtio_console", false, "the port to brome-launch" },
        { "virtio_blk", false, "the disks" },
        { "virtio_net", false, "the card" },
        { "virtio_rng", false, "randomness before SETUP brings some" },
        { "crc32c_generic", true, "ext4 asks for it by name, which modules.dep does not say" },
        { "crc32c_intel", true, "the same, fast" },
        { "ext4", false, "the disks' file system" },
        { "9pnet_virtio", false, "shares" },
        { "9p", false, "shares" },
        { "overlay", false, "layers, of containers inside too" },
        { "af_packet", true, "tcpdump and DHCP clients" },
};

/* Folders of the kernel's tree that go into the root, and single drivers besides. */
static const struct {
        const char *start, *why;
} later[] = {
        { "kernel/fs/", "overlay, fuse, squashfs, nfs, … " },
        { "kernel/net/", "nf_tables, bridges, tunnels" },
        { "kernel/lib/", "what those need" },
        { "kernel/crypto/", "the same" },
        { "kernel/arch/", "the same, fast" },
        { "kernel/drivers/virtio/", "devices of this machine" },
        { "kernel/drivers/block/", "loop, nbd, zram" },
        { "kernel/drivers/md/", "device mapper" },
        { "kernel/drivers/net/tun.ko", "tunnels of programs" },
        { "kernel/drivers/net/veth.ko", "containers inside" },
        { "kernel/drivers/net/dummy.ko", "tests of networks" },
        { "kernel/drivers/net/macvlan.ko", "containers inside" },
        { "kernel/drivers/net/vxlan/", "containers inside" },
        { "kernel/drivers/net/wireguard/", "tunnels" },
        { "kernel/drivers/net/virtio_net.ko", "devices of this machine" },
        { "kernel/drivers/char/virtio_console.ko", "devices of this machine" },
        { "kernel/drivers/char/hw_random/", "devices of this machine" },
};

/* ---- fetching ---- */

static int write_apt_config(struct build *b, struct err *err)
{
        char path[PATH_MAX], text[3 * PATH_MAX];

        /* Of the new root: its lists and its sources, and nothing of the host's apt but its keys. */
        snprintf(text, sizeof(text),
                 "Dir \"%s/root\";\nDir::State::status \"%s/root/var/lib/dpkg/status\";\nDir::Cache::archives \"%s/debs\";\nDir::Etc::trusted \"/etc/apt/trusted.gpg\";\n"
                 "Dir::Etc::trustedparts \"/etc/apt/trusted.gpg.d\";\nDir::Bin::dpkg \"/usr/bin/dpkg\";\nAPT::Architecture \"%s\";\nAPT::Architectures { \"%s\"; };\n"
                 "APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n",
                 b->work, b->work, b->work, b->architecture, b->architecture);
        build_path(b, path, "apt.conf");
        if (fd_write_file_unsynced(path, 0644, text, strlen(text), err) < 0)
                return -1;
        snprintf(b->apt_config, sizeof(b->apt_config), "APT_CONFIG=%s", path);
        for (size_t i = 0; i + 1 < sizeof(b->env) / sizeof(b->env[0]); i++)
                if (!b->env[i]) {
                        b->env[i] = b->apt_config;
                        b->env[i + 1] = NULL;
                        return 0;
                }
        return err_set(err, "too many variables");
}

/* Of what apt fetched, the packages with the kernel and its modules; its helpers stay packed. */
static int unpack(struct build *b, struct err *err)
{
        char folder[PATH_MAX], deb[PATH_MAX], to[PATH_MAX];
        const struct dirent *e;
        size_t found = 0;
        int rc = 0;
        DIR *d;

        build_path(b, folder, "debs");
        build_path(b, to, "root/.kernel");
        d = opendir(folder);
        if (!d)
                return err_sys(err, errno, "%s", folder);
        while (rc == 0 && (e = readdir(d)) != NULL) {
                struct slice name = slice_str(e->d_name);
                if (!slice_ends(name, SLICE_LIT(".deb")) || (!slice_starts(name, SLICE_LIT("linux-image-")) && !slice_starts(name, SLICE_LIT("linux-modules-"))))
                        continue;
                build_path(b, deb, "debs/%s", e->d_name);
                rc = ++found > DEBS ? err_set(err, "apt fetched more kernels than one") : BUILD_RUN(b, false, err, "dpkg-deb", "-x", deb, to);
        }
        closedir(d);
        if (rc == 0 && found == 0)
                return err_set(err, "apt fetched no kernel package");
        build_path(b, folder, "debs");
        return rc == 0 && owners_remove_tree(AT_FDCWD, folder) < 0 ? err_sys(err, errno, "%s", folder) : rc;
}

int build_kernel_fetch(struct build *b, struct err *err)
{
        const char *package = strcmp(b->architecture, "amd64") == 0 ? b->distribution->kernel_amd64 : b->distribution->kernel_arm64;
        char path[PATH_MAX];

        build_path(b, path, "debs/partial");
        if (write_apt_config(b, err) < 0 || fd_mkdirs(path, 0755, err) < 0)
                return -1;
        if (BUILD_RUN(b, false, err, "apt-get", "--yes", "--quiet", "--no-install-recommends", "--download-only", "install", package) < 0)
                return -1;
        return unpack(b, err);
}

/* ---- what was unpacked ---- */

/* The one folder of modules; packages have it at /lib/modules or /usr/lib/modules, and depmod looks at one of them: both lead there afterwards. */
static int find_version(struct build *b, char version[MANIFEST_TEXT_BYTES], struct err *err)
{
        char lib[PATH_MAX], usr[PATH_MAX], modules[PATH_MAX];
        const struct dirent *e;
        struct stat st;
        DIR *d;

        build_path(b, lib, "root/.kernel/lib");
        build_path(b, usr, "root/.kernel/usr/lib");
        build_path(b, modules, "root/.kernel/usr");
        if (stat(lib, &st) < 0) {
                if (symlink("usr/lib", lib) < 0)
                        return err_sys(err, errno, "%s", lib);
        } else if (stat(usr, &st) < 0 && (fd_mkdirs(modules, 0755, err) < 0 || symlink("../lib", usr) < 0)) {
                return err_sys(err, errno, "%s", usr);
        }
        version[0] = 0;
        build_path(b, modules, "root/.kernel/lib/modules");
        d = opendir(modules);
        while (d && (e = readdir(d)) != NULL) {
                if (e->d_name[0] == '.')
                        continue;
                if (version[0] || snprintf(version, MANIFEST_TEXT_BYTES, "%s", e->d_name) >= MANIFEST_TEXT_BYTES) {
                        closedir(d);
                        return err_set(err, "the kernel packages have modules of more versions than one");
                }
        }
        if (d)
                closedir(d);
        return version[0] ? 0 : err_set(err, "the kernel packages have no modules");
}

int build_kernel_version(const struct build *b, char out[MANIFEST_TEXT_BYTES], struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        int rc;

        build_path(b, path, "kernel-version");
        buf_init(&text, 0);
        rc = fd_read_file(path, &text, MANIFEST_TEXT_BYTES - 1, err);
        if (rc == 0 && buf_len(&text) > 0)
                memcpy(out, buf_slice(&text).p, buf_len(&text));
        out[rc == 0 ? buf_len(&text) : 0] = 0;
        buf_fini(&text);
        return rc;
}

struct kernel {
        char version[MANIFEST_TEXT_BYTES];
        char folder[PATH_MAX]; /* …/root/.kernel/lib/modules/VERSION */
        struct buf dep, builtin;
        struct modules modules;
        bool loads_unsigned;
};

/* Debian and Ubuntu have it beside the kernel. What cannot be read says no. */
static void read_config(const struct build *b, struct kernel *k)
{
        char path[PATH_MAX];
        struct err quiet = ERR_INIT;
        struct buf text;

        build_path(b, path, "root/.kernel/boot/config-%s", k->version);
        buf_init(&text, 0);
        k->loads_unsigned = fd_read_file(path, &text, CONFIG_BYTES, &quiet) == 0 && vmlinux_loads_unsigned(buf_slice(&text));
        buf_fini(&text);
}

static int kernel_read(struct build *b, struct kernel *k, struct err *err)
{
        char path[PATH_MAX];

        if (find_version(b, k->version, err) < 0)
                return -1;
        build_path(b, k->folder, "root/.kernel/lib/modules/%s", k->version);
        if (BUILD_RUN(b, true, err, "depmod", "-b", "/.kernel", k->version) < 0)
                return -1;
        build_path(b, path, "root/.kernel/lib/modules/%s/modules.dep", k->version);
        if (fd_read_file(path, &k->dep, MODULES_TEXT_BYTES, err) < 0)
                return -1;
        build_path(b, path, "root/.kernel/lib/modules/%s/modules.builtin", k->version);
        if (fd_read_file(path, &k->builtin, MODULES_TEXT_BYTES, err) < 0)
                return -1;
        read_config(b, k);
        return modules_parse(&k->modules, buf_slice(&k->dep), err);
}

/* ---- the kernel itself ---- */

/* Unpacked beside the packages, in the new root: found.bytes goes to a file there, one of the root's own programs makes another of it. */
static int unpack_kernel(struct build *b, const struct vmlinux_packed *found, struct buf *out, struct err *err)
{
        char packed[PATH_MAX], plain[PATH_MAX], inside[64];

        build_path(b, packed, "root/.kernel/vmlinux.%s", unpackers[found->coding].ending);
        build_path(b, plain, "root/.kernel/vmlinux");
        snprintf(inside, sizeof(inside), "/.kernel/vmlinux.%s", unpackers[found->coding].ending);
        if (fd_write_file_unsynced(packed, 0600, found->bytes.p, found->bytes.n, err) < 0 || BUILD_RUN(b, true, err, unpackers[found->coding].program, "-dkq", inside) < 0)
                return -1;
        if (fd_read_file(plain, out, VMLINUX_BYTES, err) < 0)
                return -1;
        return buf_len(out) == found->unpacked_bytes ? 0 : err_set(err, "it does not unpack to the size that it names");
}

/* The plain kernel as the image's; -1 with the reason: it cannot be had. */
static int plain_kernel(struct build *b, const char *from, const char *to, struct err *err)
{
        struct vmlinux_packed found;
        struct buf packed, plain;
        size_t kept;
        int rc;

        buf_init(&packed, 0);
        buf_init(&plain, 0);
        rc = fd_read_file(from, &packed, KERNEL_BYTES, err);
        if (rc == 0)
                rc = vmlinux_find(buf_slice(&packed), &found, err);
        if (rc == 0)
                rc = unpack_kernel(b, &found, &plain, err);
        if (rc == 0)
                rc = vmlinux_trim(plain.bytes + plain.start, buf_len(&plain), &kept, err);
        if (rc == 0)
                rc = fd_write_file_unsynced(to, 0600, buf_slice(&plain).p, kept, err);
        buf_fini(&packed);
        buf_fini(&plain);
        return rc;
}

static int install_kernel(struct build *b, const struct kernel *k, struct err *err)
{
        char from[PATH_MAX], to[PATH_MAX], line[sizeof(struct err) + 160];
        struct err why = ERR_INIT;

        build_path(b, from, "root/.kernel/boot/vmlinuz-%s", k->version);
        build_path(b, to, "vmlinuz");
        if (plain_kernel(b, from, to, &why) == 0)
                return 0;
        /* Slower, and right all the same. */
        snprintf(line, sizeof(line), "the kernel stays packed, which costs each start under emulation some seconds: %s", why.text);
        if (b->how->step)
                b->how->step(line);
        return rename(from, to) < 0 ? err_sys(err, errno, "%s", from) : 0;
}

/* ---- the initrd ---- */

static int add_program(struct cpio *c, const char *name, uint32_t mode, const char *path, size_t limit, bool cut_signature, struct err *err)
{
        struct buf bytes;
        struct slice program;
        int rc;

        buf_init(&bytes, 0);
        rc = fd_read_file(path, &bytes, limit, err);
        program = cut_signature ? vmlinux_module_unsigned(buf_slice(&bytes)) : buf_slice(&bytes);
        if (rc == 0 && !slice_starts(program, SLICE_LIT("\177ELF")))
                rc = err_set(err, "%s is no ELF file", path);
        if (rc == 0 && cpio_file(c, name, mode, program) < 0)
                rc = err_set(err, "%s does not fit into the first file system", path);
        buf_fini(&bytes);
        return rc;
}

/* A module as the kernel loads it, beside the compressed one. */
static int add_module(struct build *b, struct kernel *k, struct cpio *c, struct slice path, unsigned number, struct err *err)
{
        char host[PATH_MAX], inside[PATH_MAX], name[CPIO_NAME_BYTES + 1];
        enum modules_coding coding = modules_coding(path);
        struct slice plain = modules_name(path);

        build_path(b, host, "root/.kernel/lib/modules/%s/%.*s", k->version, SLICE_FMT(path));
        if (coding != MODULES_PLAIN) {
                snprintf(inside, sizeof(inside), "/.kernel/lib/modules/%s/%.*s", k->version, SLICE_FMT(path));
                if (BUILD_RUN(b, true, err, unpackers[coding].program, "-dkq", inside) < 0)
                        return -1;
                *strrchr(host, '.') = 0;
        }
        snprintf(name, sizeof(name), "modules/%03u-%.*s.ko", number, SLICE_FMT(plain));
        if (add_program(c, name, 0644, host, MODULE_BYTES, k->loads_unsigned, err) < 0)
                return -1;
        return coding != MODULES_PLAIN && unlink(host) < 0 ? err_sys(err, errno, "%s", host) : 0;
}

static int order_early(struct kernel *k, struct err *err)
{
        for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
                ptrdiff_t at = modules_find(&k->modules, early[i].name);
                if (at >= 0) {
                        if (modules_need(&k->modules, (size_t)at, err) < 0)
                                return -1;
                } else if (!early[i].optional && !modules_built_in(buf_slice(&k->builtin), early[i].name)) {
                        return err_set(err, "kernel %s has no %s (%s), so it cannot run a workspace", esc_str(k->version), early[i].name, early[i].why);
                }
        }
        return 0;
}

static int write_initrd(struct build *b, struct kernel *k, struct err *err)
{
        static const char *const folders[] = { "dev", "proc", "sys", "newroot", "modules" };
        char path[PATH_MAX];
        struct buf out;
        struct cpio c = { .out = &out };
        int rc = 0;

        buf_init(&out, INITRD_BYTES);
        for (size_t i = 0; rc == 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
                rc = cpio_folder(&c, folders[i], 0755);
        if (rc == 0)
                rc = add_program(&c, "init", 0755, b->how->init, INIT_BYTES, false, err);
        if (rc == 0)
                rc = order_early(k, err);
        for (size_t i = 0; rc == 0 && i < k->modules.order_count; i++)
                rc = add_module(b, k, &c, k->modules.all[k->modules.order[i]].path, (unsigned)i, err);
        if (rc == 0 && cpio_end(&c) < 0)
                rc = err_set(err, "no memory for the first file system");
        build_path(b, path, "initrd");
        if (rc == 0)
                rc = fd_write_file_unsynced(path, 0600, buf_slice(&out).p, buf_len(&out), err);
        buf_fini(&out);
        return rc;
}

/* ---- modules of the root ---- */

static int move_module(struct build *b, const struct kernel *k, struct slice path, struct err *err)
{
        char from[PATH_MAX], to[PATH_MAX], folder[PATH_MAX];

        build_path(b, from, "root/.kernel/lib/modules/%s/%.*s", k->version, SLICE_FMT(path));
        build_path(b, to, "root/lib/modules/%s/%.*s", k->version, SLICE_FMT(path));
        memcpy(folder, to, sizeof(folder));
        *strrchr(folder, '/') = 0;
        if (fd_mkdirs(folder, 0755, err) < 0)
                return -1;
        return rename(from, to) < 0 ? err_sys(err, errno, "%s", to) : 0;
}

static int order_later(struct kernel *k, struct err *err)
{
        modules_forget(&k->modules);
        for (size_t i = 0; i < k->modules.count; i++)
                for (size_t j = 0; j < sizeof(later) / sizeof(later[0]); j++)
                        if (slice_starts(k->modules.all[i].path, slice_str(later[j].start)) && modules_need(&k->modules, i, err) < 0)
                                return -1;
        return 0;
}

static int fill_root(struct build *b, struct kernel *k, struct err *err)
{
        static const char *const lists[] = { "modules.order", "modules.builtin", "modules.builtin.modinfo" };

        if (order_later(k, err) < 0)
                return -1;
        for (size_t i = 0; i < k->modules.order_count; i++)
                if (move_module(b, k, k->modules.all[k->modules.order[i]].path, err) < 0)
                        return -1;
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                char path[PATH_MAX];
                build_path(b, path, "root/.kernel/lib/modules/%s/%s", k->version, lists[i]);
                if (access(path, F_OK) == 0 && move_module(b, k, slice_str(lists[i]), err) < 0)
                        return -1;
        }
        return BUILD_RUN(b, true, err, "depmod", k->version);
}

int build_kernel_install(struct build *b, struct err *err)
{
        static struct kernel kernel; /* large paths */
        struct kernel *k = &kernel;
        char to[PATH_MAX];
        int rc;

        *k = (struct kernel){ .version = "" };
        buf_init(&k->dep, 0);
        buf_init(&k->builtin, 0);
        rc = kernel_read(b, k, err);
        if (rc == 0)
                rc = install_kernel(b, k, err);
        if (rc == 0)
                rc = write_initrd(b, k, err);
        if (rc == 0)
                rc = fill_root(b, k, err);
        build_path(b, to, "kernel-version");
        if (rc == 0)
                rc = fd_write_file_unsynced(to, 0600, k->version, strlen(k->version), err);
        modules_free(&k->modules);
        buf_fini(&k->dep);
        buf_fini(&k->builtin);
        return rc;
}
