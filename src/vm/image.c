/* Images that are there: see image.h. */
#include "vm/image.h"
#include "base/esc.h"
#include "base/fd.h"
#include "vm/owners.h"
#include "vm/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ACCEL_BYTES = 512, RECORD_BYTES = PATH_MAX + 1 /* of an image that was named by its path */, STAT_BLOCK = 512 };

static int path_of(char out[PATH_MAX], const char *state, const char *id, const char *file, struct err *err)
{
        if (snprintf(out, PATH_MAX, "%s/images/%s%s%s", state, id, *file ? "/" : "", file) >= PATH_MAX)
                return err_set(err, "the state folder's path is too long");
        return 0;
}

/* A small file's text with a NUL, in text; -1: not there. */
static int small_file(const char *path, char *text, size_t size)
{
        struct buf b;
        struct err quiet = ERR_INIT;
        int rc;

        buf_init(&b, 0);
        rc = fd_read_file(path, &b, size - 1, &quiet);
        if (rc == 0 && buf_len(&b) > 0)
                memcpy(text, buf_slice(&b).p, buf_len(&b));
        text[rc == 0 ? buf_len(&b) : 0] = 0;
        buf_fini(&b);
        return rc;
}

static void read_accel(struct image *image, const char *path)
{
        char text[ACCEL_BYTES], *line;

        if (small_file(path, text, sizeof(text)) < 0)
                return;
        line = strchr(text, '\n');
        if (line)
                *line++ = 0;
        snprintf(image->accel, sizeof(image->accel), "%.7s", esc_str(text));
        snprintf(image->why, sizeof(image->why), "%.255s", line ? esc(slice_first(slice_str(line), strcspn(line, "\n"))) : "");
}

static int read_one(const char *state, const char *id, struct image *image, struct err *err)
{
        char path[PATH_MAX];
        struct err why = ERR_INIT;
        struct buf text;
        struct stat st;

        memcpy(image->id, id, IMAGE_ID_CHARS + 1);
        if (path_of(path, state, id, "manifest.json", err) < 0)
                return -1;
        buf_init(&text, 0);
        if (fd_read_own_file(path, &text, MANIFEST_BYTES, &why) < 0 || manifest_read(buf_slice(&text), &image->manifest, &why) < 0) {
                image->broken = true;
                snprintf(image->why, sizeof(image->why), "%.255s", why.text);
        } else if (path_of(path, state, id, "accel", err) == 0) {
                read_accel(image, path);
        }
        buf_fini(&text);
        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++)
                if (path_of(path, state, id, image_file_names[i], err) == 0 && lstat(path, &st) == 0)
                        image->disk_bytes += (uint64_t)st.st_blocks * STAT_BLOCK;
        return 0;
}

/* The ID that the link names; "" when there is none. */
static void current_of(const char *state, char id[IMAGE_ID_CHARS + 1])
{
        char path[PATH_MAX], to[IMAGE_ID_CHARS + 2];
        ssize_t n = path_of(path, state, "current", "", NULL) == 0 ? readlink(path, to, sizeof(to)) : -1;

        id[0] = 0;
        if (n != IMAGE_ID_CHARS)
                return;
        memcpy(id, to, IMAGE_ID_CHARS);
        id[IMAGE_ID_CHARS] = 0;
}

static int user_add(struct image *image, const char *name)
{
        char **more = reallocarray(image->users, image->user_count + 1, sizeof(*more));

        if (!more)
                return -1;
        image->users = more;
        more[image->user_count] = strdup(name);
        return more[image->user_count] ? (image->user_count++, 0) : -1;
}

static int one_user(const char *path, const char *workspace, int (*fn)(void *arg, const char *workspace, const char *id), void *arg, struct err *err)
{
        char text[RECORD_BYTES];

        if (small_file(path, text, sizeof(text)) < 0)
                return err_set(err, "%s cannot be read, so which image the disks of %s stand on is not known", esc_str(path), esc_str(workspace));
        text[strcspn(text, "\n")] = 0;
        return fn(arg, workspace, text) < 0 ? err_set(err, "no memory") : 0;
}

/* Calls back with every workspace that has a machine's disk, and the image it stands on. A record that cannot be read, or one workspace too many, is an error: an
 * image would be removed under its disks. */
static int each_user(const char *state, int (*fn)(void *arg, const char *workspace, const char *id), void *arg, struct err *err)
{
        char path[PATH_MAX];
        const struct dirent *e;
        DIR *d;
        int rc = 0;

        if (snprintf(path, sizeof(path), "%s/workspaces", state) >= (int)sizeof(path))
                return err_set(err, "the state folder's path is too long");
        d = opendir(path);
        if (!d)
                return errno == ENOENT ? 0 : err_sys(err, errno, "%s", path);
        for (size_t n = 0; rc == 0 && (e = readdir(d)) != NULL;) {
                if (e->d_name[0] == '.')
                        continue;
                if (++n > IMAGE_USERS_MAX)
                        rc = err_set(err, "there are more than %d workspaces in %s/workspaces; remove some", IMAGE_USERS_MAX, state);
                else if (snprintf(path, sizeof(path), "%s/workspaces/%s/vm/image", state, e->d_name) >= (int)sizeof(path))
                        rc = err_set(err, "the state folder's path is too long");
                else if (access(path, F_OK) == 0)
                        rc = one_user(path, e->d_name, fn, arg, err);
        }
        closedir(d);
        return rc;
}

static int note_user(void *arg, const char *workspace, const char *id)
{
        struct images *images = arg;

        for (size_t i = 0; i < images->count; i++)
                if (strcmp(images->all[i].id, id) == 0)
                        return user_add(&images->all[i], workspace);
        return 0;
}

static int younger(const void *a, const void *b)
{
        int64_t x = ((const struct image *)a)->manifest.made_us, y = ((const struct image *)b)->manifest.made_us;
        return (x < y) - (x > y);
}

static int read_all(DIR *d, const char *state, struct images *out, struct err *err)
{
        char current[IMAGE_ID_CHARS + 1];
        const struct dirent *e;

        current_of(state, current);
        out->all = calloc(IMAGES_MAX, sizeof(*out->all));
        if (!out->all)
                return err_set(err, "no memory");
        while (out->count < IMAGES_MAX && (e = readdir(d)) != NULL) {
                if (!image_id_ok(e->d_name))
                        continue;
                if (read_one(state, e->d_name, &out->all[out->count], err) < 0)
                        return -1;
                out->all[out->count].current = strcmp(current, e->d_name) == 0;
                out->count++;
        }
        qsort(out->all, out->count, sizeof(*out->all), younger);
        return each_user(state, note_user, out, err);
}

int images_list(const char *state, struct images *out, struct err *err)
{
        char path[PATH_MAX];
        DIR *d;
        int rc;

        *out = (struct images){ 0 };
        if (snprintf(path, sizeof(path), "%s/images", state) >= (int)sizeof(path))
                return err_set(err, "the state folder's path is too long");
        d = opendir(path);
        if (!d)
                return errno == ENOENT ? 0 : err_sys(err, errno, "%s", path);
        rc = read_all(d, state, out, err);
        closedir(d);
        if (rc < 0)
                images_free(out);
        return rc;
}

void images_free(struct images *images)
{
        for (size_t i = 0; i < images->count; i++) {
                for (size_t u = 0; u < images->all[i].user_count; u++)
                        free(images->all[i].users[u]);
                free(images->all[i].users);
                manifest_fini(&images->all[i].manifest);
        }
        free(images->all);
        *images = (struct images){ 0 };
}

int images_lock(const char *state, struct err *err)
{
        char path[PATH_MAX];
        int fd;

        if (snprintf(path, sizeof(path), "%s/images", state) >= (int)sizeof(path) - 8)
                return err_set(err, "the state folder's path is too long");
        if (fd_mkdirs(path, 0700, err) < 0)
                return -1;
        memcpy(path + strlen(path), "/.lock", sizeof("/.lock"));
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                return fd;
        if (errno == EWOULDBLOCK)
                err_set(err, "another `brome image build` or `brome image rm` is at work; wait for it to end");
        else
                err_sys(err, errno, "%s", path);
        fd_close(&fd);
        return -1;
}

/* ---- changing ---- */

struct search {
        const char *id;
        char user[NAME_MAX + 1];
        size_t count;
};

static int match_user(void *arg, const char *workspace, const char *id)
{
        struct search *s = arg;

        if (strcmp(id, s->id) == 0 && s->count++ == 0)
                snprintf(s->user, sizeof(s->user), "%s", workspace);
        return 0;
}

static int remove_unused(const char *state, const char *id, struct err *err)
{
        char path[PATH_MAX], current[IMAGE_ID_CHARS + 1];

        current_of(state, current);
        if (strcmp(current, id) == 0 && (path_of(path, state, "current", "", err) < 0 || unlink(path) < 0))
                return err_sys(err, errno, "the link STATE/images/current");
        if (path_of(path, state, id, "", err) < 0)
                return -1;
        return owners_remove_tree(AT_FDCWD, path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

int images_remove(const char *state, const char *id, struct err *err)
{
        struct search s = { .id = id };
        char path[PATH_MAX];
        int lock, rc = 1;

        if (!image_id_ok(id) || path_of(path, state, id, "", err) < 0 || access(path, F_OK) < 0) {
                err_set(err, "there is no image %s; `brome image ls` lists them", esc_str(id));
                return 1;
        }
        lock = images_lock(state, err);
        if (lock < 0)
                return -1;
        if (each_user(state, match_user, &s, err) < 0)
                rc = -1;
        else if (s.count > 1)
                err_set(err, "the disks of %s and %zu more workspaces stand on image %s; `brome workspace wipe` or `rm` removes them", esc_str(s.user), s.count - 1, id);
        else if (s.count == 1)
                err_set(err, "the disk of workspace %s stands on image %s; `brome workspace wipe %s` or `rm` removes it", esc_str(s.user), id, esc_str(s.user));
        else
                rc = remove_unused(state, id, err);
        fd_close(&lock);
        return rc;
}

int images_make_current(const char *state, const char *id, struct err *err)
{
        char link[PATH_MAX], fresh[PATH_MAX];

        if (path_of(link, state, "current", "", err) < 0 || path_of(fresh, state, ".current", "", err) < 0)
                return -1;
        unlink(fresh);
        return symlink(id, fresh) < 0 || rename(fresh, link) < 0 ? err_sys(err, errno, "%s", link) : 0;
}

int images_probe(const char *state, struct probe *p, struct err *err)
{
        static const char *const left[] = { "console.log", "qemu.log" };
        char folder[PATH_MAX], path[PATH_MAX], text[PROBE_TEXT_BYTES + 16];
        int lock, rc;

        if (path_of(folder, state, "current", "", err) < 0 || path_of(path, state, "current", "accel", err) < 0)
                return -1;
        if (access(folder, F_OK) < 0)
                return err_set(err, "there is no image yet; `brome image build` makes one");
        lock = images_lock(state, err);
        if (lock < 0)
                return -1;
        rc = probe_boot(folder, p, err);
        snprintf(text, sizeof(text), "%s\n%s\n", p->accel, p->text);
        if (rc == 0 && p->accel[0])
                rc = fd_write_file(path, 0600, text, strlen(text), err);
        for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
                if (path_of(path, state, "current", left[i], NULL) == 0)
                        unlink(path);
        fd_close(&lock);
        return rc;
}
