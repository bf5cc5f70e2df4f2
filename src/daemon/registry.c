/* The registry of workspaces: what brome.conf names, what `workspace new` made, and the folders of those that are gone (workspace.h). */
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/evidence.h"
#include "daemon/record.h"
#include "daemon/secrets.h"
#include "daemon/session.h"
#include "daemon/spawn.h"
#include "daemon/stamps.h"
#include "daemon/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWEEP_FOLDER "sweep"

int registry_block_name(const struct daemon *d, struct slice text, const char *file, char name[REQUEST_NAME_BYTES], struct settings **settings,
                        struct diags *errors)
{
        struct settings *s = settings_load_block(d, text, file, errors);
        const struct config_workspace *found = NULL;

        if (!s)
                return -1;
        for (size_t i = 0; i < config_workspace_count(s->config); i++) {
                const struct config_workspace *w = config_workspace_at(s->config, i);

                if (!slice_is(w->file, file))
                        continue;
                if (found) { /* two blocks: which one was meant? */
                        found = NULL;
                        break;
                }
                found = w;
        }
        if (!found || found->name.n >= REQUEST_NAME_BYTES) {
                errors->total = errors->count = 1;
                errors->list[0] = (struct diag){ .message = "expected one block: workspace NAME { … }" };
                snprintf(errors->list[0].file, sizeof(errors->list[0].file), "%s", file);
                settings_drop(s);
                return -1;
        }
        snprintf(name, REQUEST_NAME_BYTES, "%.*s", SLICE_FMT(found->name));
        *settings = s;
        return 0;
}

/* Rules as they would go to the doors; NULL when they cannot be printed. */
static char *policy_text(const struct settings *s, const struct config_workspace *w)
{
        static struct diags errors;
        struct buf out;
        char *text = NULL;

        errors = (struct diags){ 0 };
        buf_init(&out, 0);
        if (config_policy_text(s->config, w, SLICE_EMPTY, SLICE_EMPTY, NULL, &out, &errors) == 0)
                text = strndup((const char *)buf_slice(&out).p, buf_len(&out));
        buf_fini(&out);
        return text;
}

/* Credentials whose secret comes from another place now: their doors hold the old one. */
static void forget_moved(struct daemon *d, const struct settings *before, const struct settings *after)
{
        for (size_t i = 0; i < config_credential_count(before->config); i++) {
                const struct config_credential *old = config_credential_at(before->config, i), *now = config_credential(after->config, old->b.name);

                if (now && now->source == old->source && slice_eq(now->value, old->value) && slice_eq(now->dir, old->dir))
                        continue;
                secrets_forget(d->secrets, old->b.name);
        }
}

/* New settings for a known workspace; a session that runs gets other rules at once. Takes settings. */
static void renew(struct workspace *ws, struct settings *settings)
{
        char *before = policy_text(ws->settings, ws->conf), *after;

        workspace_adopt(ws, settings);
        snprintf(ws->file, sizeof(ws->file), "%.*s", SLICE_FMT(ws->conf->file));
        after = policy_text(ws->settings, ws->conf);
        if (!before || !after || strcmp(before, after) != 0) {
                ws->generation++;
                if (ws->session)
                        session_policy(ws, (struct reply){ 0 }, "the configuration was read again");
        }
        free(before);
        free(after);
}

static void made_is_broken(struct daemon *d, const char *name, const char *why)
{
        log_error("workspace %s: %s", name, why);
        if (!d->settings_error[0])
                snprintf(d->settings_error, sizeof(d->settings_error), "%s", why);
}

/* One workspace.conf; a broken one is reported and left as it was. */
static void load_made(struct daemon *d, const char *dir_name)
{
        static struct diags errors;
        char file[PATH_MAX], name[REQUEST_NAME_BYTES];
        struct settings *settings;
        struct workspace *ws;
        struct err err = ERR_INIT;
        struct buf text;
        char *copy;

        if (!request_name_ok(dir_name) ||
            snprintf(file, sizeof(file), "%s/workspaces/%s/workspace.conf", d->paths.state, dir_name) >= (int)sizeof(file) || access(file, F_OK) < 0)
                return;
        errors = (struct diags){ 0 };
        buf_init(&text, DAEMON_BLOCK_BYTES + 65536);
        stamps_add(d->stamps, file);
        if (fd_read_file(file, &text, DAEMON_BLOCK_BYTES, &err) == 0)
                stamps_read(d->stamps, file, buf_slice(&text));
        if (*err.text) {
                made_is_broken(d, dir_name, err.text);
        } else if (registry_block_name(d, buf_slice(&text), file, name, &settings, &errors) < 0) {
                settings_first(&errors, &err);
                made_is_broken(d, dir_name, err.text);
        } else if (strcmp(name, dir_name) != 0) {
                log_error("workspace %s: its workspace.conf is about another one", dir_name);
                settings_drop(settings);
        } else if ((ws = workspace_find(d, name))) {
                if (ws->origin == WS_FROM_STATE && (copy = strndup((const char *)buf_slice(&text).p, buf_len(&text)))) {
                        free(ws->text);
                        ws->text = copy;
                        renew(ws, settings);
                } else if (ws->origin == WS_FROM_STATE) {
                        log_error("workspace %s: out of memory", name);
                        settings_drop(settings);
                } else {
                        log_error("workspace %s: the configuration defines it too, and counts", name);
                        settings_drop(settings);
                }
        } else {
                copy = strndup((const char *)buf_slice(&text).p, buf_len(&text));
                if (!copy || !workspace_add(d, name, WS_FROM_STATE, settings, copy, &err))
                        log_error("workspace %s: %s", name, err.text);
        }
        buf_fini(&text);
}

static DIR *open_folder(const struct daemon *d, const char *name)
{
        char path[PATH_MAX];

        return snprintf(path, sizeof(path), "%s/%s", d->paths.state, name) < (int)sizeof(path) ? opendir(path) : NULL;
}

static void load_all_made(struct daemon *d)
{
        DIR *dir = open_folder(d, "workspaces");
        struct dirent *e;

        while (dir && (e = readdir(dir)))
                load_made(d, e->d_name);
        if (dir)
                closedir(dir);
}

static void load_configured(struct daemon *d, struct settings *s)
{
        struct err err = ERR_INIT;

        for (size_t i = 0; i < config_workspace_count(s->config); i++) {
                const struct config_workspace *w = config_workspace_at(s->config, i);
                struct workspace *ws = workspace_find(d, (const char *)w->name.p);

                if (!ws) {
                        if (!workspace_add(d, (const char *)w->name.p, WS_FROM_CONFIG, settings_keep(s), NULL, &err))
                                log_error("workspace %s: %s", esc(w->name), err.text);
                } else if (ws->origin == WS_FROM_CONFIG) {
                        ws->gone = false;
                        renew(ws, settings_keep(s));
                }
        }
}

/* What the configuration no longer names leaves, at once or at its session's end. */
static void drop_unnamed(struct daemon *d, const struct settings *s)
{
        for (size_t i = d->workspace_count; i-- > 0;) {
                struct workspace *ws = d->workspaces[i];

                if (ws->origin != WS_FROM_CONFIG || config_workspace(s->config, slice_str(ws->name)))
                        continue;
                ws->gone = true;
                if (!workspace_busy(ws))
                        workspace_remove(ws);
        }
}

/* Throw-away ones rest on the configuration's hosts and tables too. */
static void renew_throw_away(struct daemon *d)
{
        static struct diags errors;

        for (size_t i = 0; i < d->workspace_count; i++) {
                struct workspace *ws = d->workspaces[i];
                char name[REQUEST_NAME_BYTES];
                struct settings *s;

                if (ws->origin != WS_THROW_AWAY)
                        continue;
                errors = (struct diags){ 0 };
                if (registry_block_name(d, slice_str(ws->text), ws->file, name, &s, &errors) == 0)
                        renew(ws, s);
                else /* what it was opened with may be what the person just took away */
                        session_fail(ws, "its rules do not fit the configuration that was read again");
        }
}

int registry_load(struct daemon *d, struct diags *errors)
{
        struct settings *s;
        int64_t now_us = clock_real_us();

        if (!d->stamps && !(d->stamps = stamps_new())) {
                snprintf(d->settings_error, sizeof(d->settings_error), "out of memory");
                return -1;
        }
        stamps_clear(d->stamps);
        s = settings_load(d, SLICE_EMPTY, "", NULL, errors);
        if (!s) {
                struct err err = ERR_INIT;

                settings_first(errors, &err);
                snprintf(d->settings_error, sizeof(d->settings_error), "%s", err.text);
                return -1;
        }
        if (d->settings)
                forget_moved(d, d->settings, s);
        settings_drop(d->settings);
        d->settings = s;
        d->settings_generation++;
        d->settings_read_us = now_us;
        d->settings_error[0] = 0;
        drop_unnamed(d, s);
        load_configured(d, s);
        load_all_made(d);
        renew_throw_away(d);
        return 0;
}

bool registry_stale(const struct daemon *d, char out[REGISTRY_STALE_BYTES])
{
        time_t at = (time_t)(d->settings_read_us / 1000000);
        char when[32] = "an unknown time";
        struct tm tm;

        if (!d->settings_error[0] || !d->settings)
                return false;
        if (localtime_r(&at, &tm) && !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm))
                snprintf(when, sizeof(when), "an unknown time");
        snprintf(out, REGISTRY_STALE_BYTES, "%s; the configuration read at %s is in force", d->settings_error, when);
        return true;
}

int registry_discard(struct daemon *d, const char *name, struct err *err)
{
        char from[PATH_MAX], to[PATH_MAX];

        if (snprintf(from, sizeof(from), "%s/workspaces/%s", d->paths.state, name) >= (int)sizeof(from))
                return err_set(err, "the state folder is too long a path");
        for (unsigned n = 0; n < 10000; n++) {
                if (snprintf(to, sizeof(to), "%s/" SWEEP_FOLDER "/%s.%u", d->paths.state, name, n) >= (int)sizeof(to))
                        return err_set(err, "the state folder is too long a path");
                if (rename(from, to) == 0 || errno == ENOENT) {
                        registry_sweep(d);
                        return 0;
                }
                if (errno != EEXIST && errno != ENOTEMPTY)
                        return err_sys(err, errno, "%s", from);
        }
        return err_set(err, "%s/" SWEEP_FOLDER " is full of folders that cannot be removed", d->paths.state);
}

/* An empty folder (with the workspace's block) in `to`, somewhere under sweep/. */
static int fresh_folder(struct workspace *ws, char to[PATH_MAX], struct err *err)
{
        char file[PATH_MAX];

        for (unsigned n = 0; n < 10000; n++) {
                if (snprintf(to, PATH_MAX, "%s/" SWEEP_FOLDER "/%s.w%u", ws->daemon->paths.state, ws->name, n) >= PATH_MAX - 32)
                        return err_set(err, "the state folder is too long a path");
                if (mkdir(to, 0700) == 0)
                        break;
                if (errno != EEXIST)
                        return err_sys(err, errno, "%s", to);
        }
        if (ws->origin != WS_FROM_STATE)
                return 0;
        snprintf(file, sizeof(file), "%.*s/workspace.conf", PATH_MAX - 32, to);
        return fd_write_file(file, 0600, ws->text, strlen(ws->text), err);
}

int registry_wipe(struct workspace *ws, struct err *err)
{
        char to[PATH_MAX];

        if (access(ws->folder, F_OK) < 0 && errno == ENOENT)
                return 0;
        if (fresh_folder(ws, to, err) < 0)
                return -1;
        /* In one step: at no moment is the workspace without its block, nor the old folder still there. */
        if (renameat2(AT_FDCWD, to, AT_FDCWD, ws->folder, RENAME_EXCHANGE) < 0) {
                err_sys(err, errno, "%s", ws->folder);
                registry_sweep(ws->daemon);
                return -1;
        }
        registry_sweep(ws->daemon);
        return 0;
}

static bool sweeping(const struct daemon *d, const char *name)
{
        for (size_t i = 0; i < DAEMON_SWEEPS; i++)
                if (d->sweep_ids[i] && strcmp(d->sweep_names[i], name) == 0)
                        return true;
        return false;
}

/* Starts brome-sweep on one folder. */
static void sweep_one(struct daemon *d, int parent, const char *name)
{
        int pair[2], fds[2];

        for (size_t i = 0; i < DAEMON_SWEEPS; i++) {
                if (d->sweep_ids[i])
                        continue;
                fds[1] = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fds[1] < 0)
                        return;
                if (chan_pair(pair) == 0) {
                        fds[0] = pair[1];
                        d->sweep_ids[i] = spawn_program(d->spawn, "sweep", name, fds, 2);
                        snprintf(d->sweep_names[i], sizeof(d->sweep_names[i]), "%s", name);
                        d->sweeps += d->sweep_ids[i] != 0;
                        fd_close(&pair[0]);
                        fd_close(&pair[1]);
                }
                fd_close(&fds[1]);
                return;
        }
        d->sweep_again = true;
}

void registry_sweep(struct daemon *d)
{
        DIR *dir = open_folder(d, SWEEP_FOLDER);
        struct dirent *e;

        d->sweep_again = false;
        while (dir && (e = readdir(dir)) && !d->sweep_again) {
                if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(d->sweep_names[0]) || sweeping(d, e->d_name))
                        continue;
                /* Empty: swept before. */
                if (unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) == 0)
                        continue;
                sweep_one(d, dirfd(dir), e->d_name);
        }
        if (dir)
                closedir(dir);
}

/* A folder that could not be emptied gets a dot in front: it is not tried again and again. */
static void put_off(const char *path, const char *name)
{
        char to[PATH_MAX];

        snprintf(to, sizeof(to), "%.*s.%s", (int)(strlen(path) - strlen(name)), path, name);
        if (rename(path, to) < 0)
                log_error("%s: %s", path, strerror(errno));
}

/* At the start the dots go. */
static void take_up_again(const struct daemon *d)
{
        DIR *dir = open_folder(d, SWEEP_FOLDER);
        struct dirent *e;

        while (dir && (e = readdir(dir)))
                if (e->d_name[0] == '.' && e->d_name[1] && e->d_name[1] != '.' && renameat(dirfd(dir), e->d_name, dirfd(dir), e->d_name + 1) < 0)
                        log_error("%s: %s", e->d_name, strerror(errno));
        if (dir)
                closedir(dir);
}

bool registry_swept(struct daemon *d, uint64_t id)
{
        for (size_t i = 0; i < DAEMON_SWEEPS; i++) {
                char path[PATH_MAX];

                if (d->sweep_ids[i] != id)
                        continue;
                d->sweep_ids[i] = 0;
                d->sweeps--;
                if (snprintf(path, sizeof(path), "%s/" SWEEP_FOLDER "/%s", d->paths.state, d->sweep_names[i]) < (int)sizeof(path) && rmdir(path) < 0) {
                        log_error("%s: %s; tried again at the next start", path, strerror(errno));
                        put_off(path, d->sweep_names[i]);
                }
                if (d->sweep_again && d->spawn)
                        registry_sweep(d);
                return true;
        }
        return false;
}

void registry_sweep_left_over(struct daemon *d)
{
        DIR *dir = open_folder(d, "workspaces");
        struct dirent *e;
        struct err err = ERR_INIT;

        while (dir && (e = readdir(dir))) {
                char mark[NAME_MAX + 32];

                if (!request_name_ok(e->d_name))
                        continue;
                snprintf(mark, sizeof(mark), "%s/" SESSION_RUNNING_MARK, e->d_name);
                if (unlinkat(dirfd(dir), mark, 0) == 0)
                        record_left_over(d, e->d_name);
                snprintf(mark, sizeof(mark), "%s/" WORKSPACE_COMPROMISED_MARK, e->d_name);
                if (faccessat(dirfd(dir), mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                        /* One whose own block cannot be read just now is still to be decided about, when it can. */
                        snprintf(mark, sizeof(mark), "%s/workspace.conf", e->d_name);
                        if (!workspace_find(d, e->d_name) && faccessat(dirfd(dir), mark, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                                evidence_left_over(d, e->d_name);
                        continue;
                }
                snprintf(mark, sizeof(mark), "%s/" SESSION_THROW_AWAY_MARK, e->d_name);
                if (faccessat(dirfd(dir), mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && registry_discard(d, e->d_name, &err) < 0)
                        log_error("%s", err.text);
        }
        if (dir)
                closedir(dir);
        take_up_again(d);
        registry_sweep(d);
}

bool registry_exists(void *ctx, struct slice name)
{
        const struct daemon *d = ctx;
        char text[REQUEST_NAME_BYTES], path[PATH_MAX];

        if (!d->settings || name.n >= sizeof(text))
                return true;
        snprintf(text, sizeof(text), "%.*s", SLICE_FMT(name));
        if (!request_name_ok(text) || snprintf(path, sizeof(path), "%s/workspaces/%s", d->paths.state, text) >= (int)sizeof(path))
                return true;
        return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT || workspace_find(d, text);
}
