/* QEMU's root folder: see vmroot.h. */
#include "launch/vmroot.h"
#include "base/esc.h"
#include "base/fd.h"
#include "launch/layer.h"
#include "launch/place.h"
#include "launch/procfs.h"
#include "vm/qcow2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { NOTE_BYTES = 4096 /* a small text of ours or of `brome image build` */ };

static const char *const programs[] = { COMMAND_PROGRAMS };
/* Of the host's root: links into /usr are made again, folders of their own are shown read-only. */
static const char *const system_names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
static const char *const folders[] = { "usr", "etc", "dev", "proc", "image", "disk", "shares" };
static const char *const image_files[] = { "vmlinuz", "initrd", "base.ext4", "home.ext4" };
static const struct layer_node devices[] = { { "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 } };
static const struct layer_node kvm_device = { "kvm", 10, 232 };
/* The disks, by the name of their layer and of what lies below it. */
static const struct { const char *layer, *base; } disks[] = { { "system.qcow2", "base.ext4" }, { "home.qcow2", "home.ext4" } };

static void state_path(char out[PATH_MAX], const struct plan *plan, const char *tail) { place(out, PATH_MAX, "%s/%s", plan->state, tail); }

/* ---- which image ---- */

/* The first line of a small file; empty: there is none. */
static void first_line(char out[NOTE_BYTES], const char *path)
{
        struct buf text;
        struct err quiet;

        out[0] = 0;
        buf_init(&text, 0);
        if (fd_read_file(path, &text, NOTE_BYTES - 1, &quiet) == 0) {
                size_t n = buf_len(&text);
                if (n > 0)
                        memcpy(out, buf_slice(&text).p, n);
                out[n] = 0;
                out[strcspn(out, "\n")] = 0;
        }
        buf_fini(&text);
}

/* The folder that a record names: an ID among the images of brome's state folder, or a path. */
static void image_of(char out[PATH_MAX], const struct plan *plan, const char *record)
{
        if (record[0] == '/')
                place(out, PATH_MAX, "%s", record);
        else
                place(out, PATH_MAX, "%s/../../images/%s", plan->state, record);
}

/* And back: an ID, so that the state folder may be moved. */
static const char *record_of(const struct plan *plan, const char *image)
{
        char images[PATH_MAX], real[PATH_MAX];
        size_t n;

        place(images, sizeof(images), "%s/../../images", plan->state);
        if (!realpath(images, real))
                return image;
        n = strlen(real);
        return strncmp(image, real, n) == 0 && image[n] == '/' && !strchr(image + n + 1, '/') ? image + n + 1 : image;
}

static bool has_disks(const struct plan *plan)
{
        char path[PATH_MAX], tail[64];
        struct stat st;
        bool has = false;

        for (size_t i = 0; i < COUNT(disks); i++) {
                place(tail, sizeof(tail), "vm/%s", disks[i].layer);
                state_path(path, plan, tail);
                has = has || lstat(path, &st) == 0;
        }
        return has;
}

/* The image that the workspace's disks were made from, or the plan's. */
static int find_image(struct vmroot *r, struct err *err)
{
        const struct plan *plan = r->plan;
        char path[PATH_MAX], made[NOTE_BYTES], wanted[PATH_MAX] = "";
        bool current = strcmp(strrchr(plan->image, '/'), "/current") == 0;

        state_path(path, plan, "vm/image");
        first_line(made, path);
        /* Over another image they would be rubble. */
        if (!made[0] && has_disks(plan))
                return err_set(err, "nothing says which image this workspace's disks were made from (%s cannot be read, or is empty); write the image's ID there, or "
                                    "`brome workspace wipe %s`", esc_str(path), plan->workspace);
        if (!realpath(plan->image, wanted) && !(made[0] && current))
                return current ? err_set(err, "there is no image for machines yet; `brome image build` makes one")
                               : err_set(err, "the image %s is not there", esc_str(plan->image));
        /* A workspace stays with its image when a newer one is built; a configuration that names another means another. */
        if (made[0] && !current && strcmp(made, record_of(plan, wanted)) != 0)
                return err_set(err, "this workspace's disks were made from the image %s, its configuration names %s; change that back, or `brome workspace wipe %s`",
                               esc_str(made), esc_str(wanted), plan->workspace);
        if (!made[0]) {
                snprintf(r->image, sizeof(r->image), "%s", wanted);
                return 0;
        }
        image_of(path, plan, made);
        return realpath(path, r->image) ? 0 : err_set(err, "the image %s that this workspace's disks were made from is gone; `brome workspace wipe %s` starts anew from the current one",
                                                      esc_str(made), plan->workspace);
}

static int image_whole(const struct vmroot *r, struct err *err)
{
        char path[PATH_MAX];
        struct stat st;

        for (size_t i = 0; i < COUNT(image_files); i++) {
                place(path, sizeof(path), "%s/%s", r->image, image_files[i]);
                /* What is mounted follows no link. */
                if (!path[0] || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
                        return err_set(err, "the image %s has no file %s; `brome image build` makes a new one", esc_str(r->image), image_files[i]);
                /* QEMU runs as an id of the workspace's own. */
                if (geteuid() == 0 && !(st.st_mode & S_IROTH))
                        return err_set(err, "%s is readable by root only, and QEMU is not root: chmod a+r", esc_str(path));
        }
        return 0;
}

/* ---- how it runs ---- */

static int find_program(struct vmroot *r, struct err *err)
{
#ifndef __x86_64__
        return err_set(err, "machines run on amd64 alone so far; leave `isolation vm` out"); /* vm/command.c: q35 and its devices */
#endif
        for (size_t i = 0; i < COUNT(programs); i++)
                if (access(programs[i], X_OK) == 0) {
                        r->qemu = programs[i];
                        return 0;
                }
        return err_set(err, "QEMU is not installed: sudo apt install qemu-system-x86 (or leave `isolation vm` out)");
}

/* What the image's probe boot found, if the device is still there. */
static void judge_accelerator(struct vmroot *r, json_t *warnings)
{
        char path[PATH_MAX], found[NOTE_BYTES];

        place(path, sizeof(path), "%s/accel", r->image);
        first_line(found, path);
        r->kvm = strcmp(found, "kvm") == 0 && access("/dev/kvm", R_OK | W_OK) == 0;
        if (!r->kvm)
                json_array_append_new(warnings, json_string("without KVM the machine is emulated: some fifteen times slower, and emulation is no security boundary "
                                                            "(`brome doctor` says what is missing)"));
}

int vmroot_judge(struct vmroot *r, json_t *warnings, struct err *err)
{
        if (find_program(r, err) < 0 || find_image(r, err) < 0 || image_whole(r, err) < 0)
                return -1;
        judge_accelerator(r, warnings);
        return 0;
}

/* ---- disks ---- */

static int make_disk(const struct vmroot *r, size_t i, struct err *err)
{
        char path[PATH_MAX], base[PATH_MAX], tail[64];
        struct stat st;
        struct buf bytes;
        int rc;

        place(tail, sizeof(tail), "vm/%s", disks[i].layer);
        state_path(path, r->plan, tail);
        if (lstat(path, &st) == 0)
                return S_ISREG(st.st_mode) ? 0 : err_set(err, "%s is no file", path);
        place(base, sizeof(base), "%s/%s", r->image, disks[i].base);
        if (stat(base, &st) < 0)
                return err_sys(err, errno, "%s", esc_str(base));
        buf_init(&bytes, 0);
        place(base, sizeof(base), VMROOT_IMAGE "/%s", disks[i].base);
        rc = qcow2_layer(&bytes, (uint64_t)st.st_size, base) < 0 ? err_set(err, "%s is no disk that a machine could have", disks[i].base)
                                                                  : fd_write_file(path, 0600, buf_slice(&bytes).p, buf_len(&bytes), err);
        buf_fini(&bytes);
        return rc;
}

int vmroot_prepare(const struct vmroot *r, struct err *err)
{
        char path[PATH_MAX], tail[64];
        const char *record;

        state_path(path, r->plan, "root");
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        state_path(path, r->plan, "vm");
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        /* Before the first disk: one whose image is unknown would be of no use. */
        state_path(path, r->plan, "vm/image");
        record = record_of(r->plan, r->image);
        if (access(path, F_OK) < 0 && fd_write_file(path, 0600, record, strlen(record), err) < 0)
                return -1;
        for (size_t i = 0; i < COUNT(disks); i++) {
                if (make_disk(r, i, err) < 0)
                        return -1;
                place(tail, sizeof(tail), "vm/%s", disks[i].layer);
                state_path(path, r->plan, tail);
                if (lchown(path, r->ids->base, r->ids->base) < 0)
                        return err_sys(err, errno, "%s", path);
        }
        return 0;
}

/* ---- the root ---- */

static int system_folders(const struct vmroot *r, struct err *err)
{
        /* An ordinary user's namespace may not look behind what is mounted below a folder, so it takes that along. */
        unsigned flags = LAYER_READ_ONLY | (r->ids->root ? 0u : LAYER_RECURSIVE);

        for (size_t i = 0; i < COUNT(folders); i++)
                if (layer_mkdir(r->ids, folders[i], 0755, err) < 0)
                        return -1;
        if (layer_bind("/usr", "usr", flags, err) < 0)
                return -1;
        for (size_t i = 0; i < COUNT(system_names); i++) {
                char host[64];
                int rc = layer_system_link(system_names[i], err);

                place(host, sizeof(host), "/%s", system_names[i]);
                if (rc < 0 || (rc == 0 && (layer_mkdir(r->ids, system_names[i], 0755, err) < 0 || layer_bind(host, system_names[i], flags, err) < 0)))
                        return -1;
        }
        return 0;
}

/* Where the dynamic linker finds libraries that are in no usual folder. */
static int linker_cache(struct err *err)
{
        if (access("/etc/ld.so.cache", R_OK) < 0)
                return 0;
        return layer_touch("etc/ld.so.cache", err) < 0 ? -1 : layer_bind("/etc/ld.so.cache", "etc/ld.so.cache", LAYER_READ_ONLY, err);
}

/* SECURITY: as root a node that only this QEMU may open; the host's /dev/kvm is for its group. As an ordinary user the host's, if we may open it. */
static int kvm(const struct vmroot *r, struct err *err)
{
        if (layer_device(r->ids, &kvm_device, err) < 0)
                return -1;
        if (r->ids->root && (chown("dev/kvm", r->ids->base, r->ids->base) < 0 || chmod("dev/kvm", 0600) < 0))
                return err_sys(err, errno, "dev/kvm");
        return 0;
}

static int device_folder(const struct vmroot *r, struct err *err)
{
        if (layer_tmpfs(r->ids, "dev", MS_NOEXEC, "mode=755,size=64k,nr_inodes=32", err) < 0)
                return -1;
        for (size_t i = 0; i < COUNT(devices); i++)
                if (layer_device(r->ids, &devices[i], err) < 0)
                        return -1;
        return r->kvm ? kvm(r, err) : 0;
}

static int files(const struct vmroot *r, struct err *err)
{
        char from[PATH_MAX], to[64], tail[64];

        for (size_t i = 0; i < COUNT(image_files); i++) {
                place(from, sizeof(from), "%s/%s", r->image, image_files[i]);
                place(to, sizeof(to), "image/%s", image_files[i]);
                if (layer_touch(to, err) < 0 || layer_bind(from, to, LAYER_READ_ONLY, err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < COUNT(disks); i++) {
                place(tail, sizeof(tail), "vm/%s", disks[i].layer);
                state_path(from, r->plan, tail);
                place(to, sizeof(to), "disk/%s", disks[i].layer);
                if (layer_touch(to, err) < 0 || layer_bind(from, to, 0, err) < 0)
                        return -1;
        }
        return 0;
}

static bool is_shared(const struct vmroot *r, const char *path)
{
        for (size_t i = 0; i < r->shares->count; i++) {
                size_t n = strlen(r->shares->one[i].checked.path);
                if (strncmp(path, r->shares->one[i].checked.path, n) == 0 && path[n] == '/')
                        return true;
        }
        return false;
}

/* Programs that a folder of many has on the host: a link to where the machine sees it, or the file itself. In the folder of shares. */
static int links(const struct vmroot *r, struct err *err)
{
        static const char *const parts[] = { "run", "run/brome", SHARES_LINKS + 1 };
        char path[PATH_MAX];

        for (size_t i = 0; r->plan->link_count && i < COUNT(parts); i++)
                if (mkdir(parts[i], 0755) < 0 && errno != EEXIST)
                        return err_sys(err, errno, "%s", parts[i]);
        for (size_t i = 0; i < r->plan->link_count; i++) {
                const struct plan_link *l = &r->plan->links[i];

                place(path, sizeof(path), "%s/%s", SHARES_LINKS + 1, l->name);
                if (is_shared(r, l->target)) {
                        if (symlink(l->target, path) < 0)
                                return err_sys(err, errno, "%s", path);
                } else if (strncmp(l->target, "/usr/local/", strlen("/usr/local/")) == 0 &&
                           (layer_touch(path, err) < 0 || layer_bind(l->target, path, LAYER_READ_ONLY, err) < 0)) {
                        return -1;
                }
        }
        return 0;
}

/* The code that mounts shares takes the working directory for the root: here they have a folder of their own, so that none lies over QEMU's files. */
static int shared(const struct vmroot *r, struct err *err)
{
        if (chdir("shares") < 0)
                return err_sys(err, errno, "shares");
        if (shares_mount(r->shares, r->ids, r->plan, err) < 0 || links(r, err) < 0)
                return -1;
        return chdir("..") < 0 ? err_sys(err, errno, "shares") : 0;
}

int vmroot_enter(const void *arg, struct err *err)
{
        const struct vmroot *r = arg;
        char path[PATH_MAX];

        umask(022);
        state_path(path, r->plan, "root");
        /* Only folders and empty files to mount over live in it. */
        if (layer_stage(r->ids, path, "mode=755,size=4m,nr_inodes=8192", err) < 0 || system_folders(r, err) < 0 || linker_cache(err) < 0 ||
            device_folder(r, err) < 0 || files(r, err) < 0 || shared(r, err) < 0 || procfs_mount(r->ids, err) < 0)
                return -1;
        return layer_become_root(err);
}
