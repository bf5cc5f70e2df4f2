/* The configuration: see settings.h. */
#include "daemon/settings.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/daemon.h"
#include "daemon/stamps.h"
#include "daemon/tools.h"
#include "daemon/workspace.h"
#include "rules/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder part of a path; "." when there is none. */
static void folder_of(char out[PATH_MAX], const char *path)
{
        const char *slash = path ? strrchr(path, '/') : NULL;

        if (!slash)
                snprintf(out, PATH_MAX, ".");
        else
                snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

int settings_path(const struct daemon *d, char out[PATH_MAX], const char *dir, const char *path, struct err *err)
{
        int n;

        if (path[0] == '~' && (path[1] == '/' || path[1] == 0)) {
                if (!d->home)
                        return err_set(err, "%s: HOME is not set", esc_str(path));
                n = snprintf(out, PATH_MAX, "%s%s", d->home, path + 1);
        } else if (path[0] == '/') {
                n = snprintf(out, PATH_MAX, "%s", path);
        } else {
                n = snprintf(out, PATH_MAX, "%s/%s", dir, path);
        }
        return n < 0 || n >= PATH_MAX ? err_set(err, "%s: too long a path", esc_str(path)) : 0;
}

typedef int read_fn(const char *path, struct buf *out, size_t limit_bytes, struct err *err);

/* Reads, and says the way out where the file may be read, but not by bromed: its folder was not named when bromed sealed itself. */
static int read_file(read_fn *how, const char *file, struct buf *out, size_t limit_bytes, struct err *err)
{
        int fd;

        if (how(file, out, limit_bytes, err) == 0)
                return 0;
        fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && errno == EACCES && access(file, R_OK) == 0)
                err_set(err, "%s: its folder is new to the running bromed; 'brome daemon restart' lets it in (running sessions end)", esc_str(file));
        fd_close(&fd);
        return -1;
}

struct loading {
        const struct daemon *d;
        const struct settings_override *override;
        const struct config *before; /* texts that need not be read again; NULL: none */
};

static bool known_text(const struct config *c, const char *name, struct slice *text)
{
        for (size_t i = 0; c && i < config_file_count(c); i++)
                if (strcmp(config_file_at(c, i), name) == 0) {
                        *text = config_file_text(c, i);
                        return true;
                }
        return false;
}

static bool is_missing(const char *name) { return access(name, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR); }

/* Reads name into malloc'ed text. */
static int read_text(const struct loading *l, const char *name, bool may_miss, char **text, size_t *text_bytes, struct err *err)
{
        struct buf b;
        struct slice from = SLICE_EMPTY;
        int rc = 0;

        buf_init(&b, DAEMON_CONFIG_BYTES + 65536);
        if (l->override && strcmp(l->override->file, name) == 0)
                from = l->override->text;
        else if (!known_text(l->before, name, &from)) {
                stamps_add(l->d->stamps, name);
                if (!(may_miss && is_missing(name)) && (rc = read_file(fd_read_own_file, name, &b, DAEMON_CONFIG_BYTES, err)) == 0) {
                        from = buf_slice(&b);
                        stamps_read(l->d->stamps, name, from);
                }
        }
        if (rc == 0 && !(*text = malloc(from.n + 1)))
                rc = err_set(err, "out of memory");
        if (rc == 0) {
                if (from.n)
                        memcpy(*text, from.p, from.n);
                (*text)[from.n] = 0;
                *text_bytes = from.n;
        }
        buf_fini(&b);
        return rc;
}

static int load(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *text_bytes, char *why,
                size_t why_size)
{
        const struct loading *l = ctx;
        char dir[PATH_MAX], full[PATH_MAX];
        struct err err = ERR_INIT;

        folder_of(dir, from);
        if (settings_path(l->d, full, dir, path, &err) < 0 || snprintf(name, name_size, "%s", full) >= (int)name_size ||
            read_text(l, full, !from, text, text_bytes, &err) < 0) {
                snprintf(why, why_size, "%s", *err.text ? err.text : "too long a path");
                return -1;
        }
        return 0;
}

static struct settings *load_all(struct loading *l, struct slice extra, const char *extra_name, struct diags *errors)
{
        const struct daemon *d = l->d;
        struct config_loader loader = { .load = load, .ctx = l, .agents = d->paths.agents[0] ? d->paths.agents : NULL };
        struct settings *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->refs = 1;
        s->config = config_load(&loader, d->paths.config, extra, extra_name, errors);
        if (!s->config) {
                free(s);
                return NULL;
        }
        return s;
}

struct settings *settings_load(const struct daemon *d, struct slice extra, const char *extra_name, const struct settings_override *override,
                               struct diags *errors)
{
        return load_all(&(struct loading){ .d = d, .override = override }, extra, extra_name, errors);
}

struct settings *settings_load_block(const struct daemon *d, struct slice block, const char *name, struct diags *errors)
{
        return load_all(&(struct loading){ .d = d, .before = d->settings->config }, block, name, errors);
}

struct settings *settings_keep(struct settings *s)
{
        s->refs++;
        return s;
}

void settings_drop(struct settings *s)
{
        if (!s || --s->refs)
                return;
        config_free(s->config);
        free(s);
}

void settings_first(const struct diags *errors, struct err *err)
{
        char line[sizeof(err->text)];

        diags_first(errors, line, sizeof(line));
        err_set(err, "%s", *line ? line : "out of memory");
}

json_t *settings_errors(const struct diags *errors)
{
        json_t *list = json_array();

        for (size_t i = 0; list && i < errors->count; i++) {
                static struct diags one; /* large */
                struct buf text;
                json_t *item;

                one.count = one.total = 1;
                one.list[0] = errors->list[i];
                buf_init(&text, 0);
                diags_print(&one, &text);
                /* Texts are printable by contract; what is no UTF-8 all the same is left out. */
                item = json_stringn((const char *)buf_slice(&text).p, buf_len(&text));
                if (item)
                        json_array_append_new(list, item);
                buf_fini(&text);
        }
        return list;
}

/* Adds one CA file under the name by which the policy knows it. */
static int add_ca(const struct daemon *d, json_t *cas, const char *path, struct err *err)
{
        char full[PATH_MAX];
        struct buf pem;
        json_t *text = NULL;
        int rc = -1;

        buf_init(&pem, DAEMON_CA_BYTES + 65536);
        if (settings_path(d, full, "/", path, err) == 0 && read_file(fd_read_file, full, &pem, DAEMON_CA_BYTES, err) == 0) {
                text = json_stringn((const char *)buf_slice(&pem).p, buf_len(&pem));
                rc = text && json_object_set_new(cas, path, text) == 0 ? 0 : err_set(err, "%s: no PEM text", esc_str(full));
        }
        buf_fini(&pem);
        return rc;
}

static int add_cas(const struct daemon *d, const struct policy *p, json_t *cas, struct err *err)
{
        for (size_t i = 0; i < policy_host_count(p); i++) {
                struct slice name;
                struct policy_host h = policy_host_at(p, i, &name);
                char path[PATH_MAX];

                if (h.ca_path.n == 0)
                        continue;
                if (h.ca_path.n >= sizeof(path))
                        return err_set(err, "host %s: too long a path", esc(name));
                snprintf(path, sizeof(path), "%.*s", SLICE_FMT(h.ca_path));
                if (add_ca(d, cas, path, err) < 0)
                        return -1;
        }
        return 0;
}

/* The policy object as text in a memory file. */
static int policy_file(const struct daemon *d, struct slice text, struct policy **policy, struct err *err)
{
        static struct diags errors; /* large */
        struct policy *p;
        json_t *cas = json_object(), *all = NULL, *rules = json_stringn((const char *)text.p, text.n);
        char *out = NULL;
        int fd = -1;

        errors = (struct diags){ 0 };
        p = policy_parse(text, "policy", &errors);
        if (!p)
                settings_first(&errors, err);
        else if (cas && add_cas(d, p, cas, err) == 0) {
                all = json_pack("{s:O, s:O}", "rules", rules, "cas", cas);
                out = all ? json_dumps(all, JSON_COMPACT) : NULL;
                fd = out ? fd_memfd("policy", out, strlen(out)) : -1;
                if (fd < 0)
                        err_sys(err, out ? errno : ENOMEM, "cannot hand over the rules");
        }
        free(out);
        json_decref(all);
        json_decref(rules);
        json_decref(cas);
        if (fd >= 0 && policy)
                *policy = p;
        else
                policy_free(p);
        return fd;
}

int settings_policy(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const struct config_live *live,
                    struct policy **policy, struct err *err)
{
        static struct diags errors;
        struct buf text;
        int fd = -1;

        errors = (struct diags){ 0 };
        buf_init(&text, 0);
        if (config_policy_text(s->config, w, SLICE_EMPTY, SLICE_EMPTY, live, &text, &errors) < 0)
                settings_first(&errors, err);
        else
                fd = policy_file(d, buf_slice(&text), policy, err);
        buf_fini(&text);
        return fd;
}

bool settings_names_ca(const struct settings *s, const struct config_workspace *w)
{
        static struct diags errors;
        struct policy *p;
        bool named = false;

        errors = (struct diags){ 0 };
        p = config_policy(s->config, w, SLICE_EMPTY, SLICE_EMPTY, &errors);
        for (size_t i = 0; p && !named && i < policy_host_count(p); i++) {
                struct slice name;

                named = policy_host_at(p, i, &name).ca_path.n != 0;
        }
        policy_free(p);
        return named;
}

static bool lies_in(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        if (strcmp(folder, "/") == 0)
                return true;
        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* The name by which the file is found: its folder resolved, its last part as it is, perhaps a link. */
static bool real_name(const char *file, char out[PATH_MAX])
{
        char folder[PATH_MAX], real[PATH_MAX];
        const char *last = strrchr(file, '/');

        folder_of(folder, file);
        return last && realpath(*folder ? folder : "/", real) && snprintf(out, PATH_MAX, "%s%s", strcmp(real, "/") == 0 ? "" : real, last) < PATH_MAX;
}

enum guarded { FROM_CHANGE, FROM_READING };

/* One file against the shares, as the kernel resolves them; a file that is not there harms nobody. */
static int guard_one(const struct daemon *d, const struct config_workspace *w, const char *file, enum guarded from, struct err *err)
{
        char share[PATH_MAX], real_share[PATH_MAX], real_file[PATH_MAX], name[PATH_MAX];

        if (!realpath(file, real_file))
                return 0;
        for (size_t i = 0; i < w->share_count; i++) {
                if (from == FROM_CHANGE && w->shares[i].mode != SHARE_READ_WRITE)
                        continue;
                if (settings_path(d, share, (const char *)w->dir.p, (const char *)w->shares[i].path.p, err) < 0)
                        return -1;
                if (!realpath(share, real_share) || !(lies_in(real_file, real_share) || (real_name(file, name) && lies_in(name, real_share))))
                        continue;
                return err_set(err, from == FROM_CHANGE ? "%s lies in the share %s, where the guest could change it; move it, or share read-only"
                                                        : "%s lies in the share %s, where the guest could read the secret; move it",
                               esc_str(file), esc_str(share));
        }
        return 0;
}

/* The file that the command line reads the secret from; false: it is no file. */
static bool secret_file(const struct daemon *d, const struct config_credential *c, char full[PATH_MAX])
{
        struct err quiet = ERR_INIT;
        char dir[PATH_MAX];

        if (c->source != SECRET_FILE || c->dir.n >= sizeof(dir))
                return false;
        snprintf(dir, sizeof(dir), "%.*s", SLICE_FMT(c->dir));
        return settings_path(d, full, dir, (const char *)c->value.p, &quiet) == 0;
}

/* SECURITY: of every credential, not only of those that are bound to this workspace. */
static int guard_secrets(const struct daemon *d, const struct settings *s, const struct config_workspace *w, struct err *err)
{
        char full[PATH_MAX];
        int rc = 0;

        for (size_t i = 0; rc == 0 && i < config_credential_count(s->config); i++)
                if (secret_file(d, config_credential_at(s->config, i), full))
                        rc = guard_one(d, w, full, FROM_READING, err);
        return rc;
}

int settings_guard(const struct daemon *d, const struct settings *s, const struct config_workspace *w, struct err *err)
{
        static struct diags errors;
        struct policy *p;
        int rc = 0;

        for (size_t i = 0; rc == 0 && i < config_file_count(s->config); i++)
                rc = guard_one(d, w, config_file_at(s->config, i), FROM_CHANGE, err);
        if (rc < 0 || guard_secrets(d, s, w, err) < 0)
                return -1;
        errors = (struct diags){ 0 };
        p = config_policy(s->config, w, SLICE_EMPTY, SLICE_EMPTY, &errors);
        if (!p) {
                settings_first(&errors, err);
                return -1;
        }
        for (size_t i = 0; rc == 0 && i < policy_host_count(p); i++) {
                struct slice name;
                struct policy_host h = policy_host_at(p, i, &name);
                char path[PATH_MAX], full[PATH_MAX];

                if (h.ca_path.n == 0 || h.ca_path.n >= sizeof(path))
                        continue;
                snprintf(path, sizeof(path), "%.*s", SLICE_FMT(h.ca_path));
                rc = settings_path(d, full, "/", path, err) < 0 ? -1 : guard_one(d, w, full, FROM_CHANGE, err);
        }
        policy_free(p);
        return rc;
}

static json_t *plan_shares(const struct daemon *d, const struct config_workspace *w, struct err *err)
{
        static const char *const modes[] = { [SHARE_READ_WRITE] = "rw", [SHARE_READ_ONLY] = "ro", [SHARE_OVERLAY] = "overlay" };
        json_t *list = json_array();

        for (size_t i = 0; list && i < w->share_count; i++) {
                char path[PATH_MAX], real[PATH_MAX];
                json_t *item;

                if (settings_path(d, path, (const char *)w->dir.p, (const char *)w->shares[i].path.p, err) < 0)
                        goto bad;
                /* The launcher takes no ".."; what such a path means is settled here. */
                if (strstr(path, "/..") && realpath(path, real))
                        snprintf(path, sizeof(path), "%s", real);
                item = json_pack("{s:s, s:s, s:b}", "path", path, "mode", modes[w->shares[i].mode], "sockets", w->shares[i].sockets_ok);
                if (!item || json_array_append_new(list, item) < 0) {
                        err_set(err, "share %s: the path is no UTF-8", esc_str(path));
                        goto bad;
                }
        }
        return list;
bad:
        json_decref(list);
        return NULL;
}

enum { PROTECTED = 64 /* what the launcher takes; every further file is still kept out of writable shares by settings_guard */ };

/* What no share and no tool's folder may contain or lie in: brome's own folders, every file it obeys, every file with a secret. */
static json_t *plan_protect(const struct daemon *d, const struct settings *s)
{
        char folder[PATH_MAX], full[PATH_MAX];
        json_t *list = json_pack("[s, s]", d->paths.state, d->paths.runtime);

        folder_of(folder, d->paths.config);
        if (list && lies_in("/brome", strrchr(folder, '/') ? strrchr(folder, '/') : "-"))
                json_array_append_new(list, json_string(folder));
        for (size_t i = 0; list && i < config_file_count(s->config) && json_array_size(list) < PROTECTED; i++)
                if (config_file_at(s->config, i)[0] == '/') /* not the name of a block from the command line */
                        json_array_append_new(list, json_string(config_file_at(s->config, i)));
        for (size_t i = 0; list && i < config_credential_count(s->config) && json_array_size(list) < PROTECTED; i++)
                if (secret_file(d, config_credential_at(s->config, i), full))
                        json_array_append_new(list, json_string(full));
        return list;
}

static int add_closed(const struct daemon *d, json_t *list, const struct config_workspace *w, struct err *err)
{
        char path[PATH_MAX], real[PATH_MAX];

        for (size_t i = 0; i < w->share_count; i++) {
                if (w->shares[i].mode != SHARE_READ_WRITE)
                        continue;
                if (settings_path(d, path, (const char *)w->dir.p, (const char *)w->shares[i].path.p, err) < 0)
                        return -1;
                if (realpath(path, real) && json_array_append_new(list, json_string(real)) < 0)
                        return err_set(err, "share %s: the path is no UTF-8", esc_str(path));
        }
        return 0;
}

/* SECURITY: no tool is looked for where a guest, of whichever workspace, may have put it. */
static json_t *plan_tools(const struct daemon *d, const struct config_workspace *w, const char *path, json_t *links, struct err *err)
{
        struct tools_search where = { .path = path, .own_path = getenv("PATH"), .home = d->home, .closed = json_pack("[s]", d->paths.state), .links = links };
        json_t *list = NULL;
        int rc = where.closed ? add_closed(d, where.closed, w, err) : err_set(err, "out of memory");

        for (size_t i = 0; rc == 0 && i < d->workspace_count; i++)
                rc = add_closed(d, where.closed, d->workspaces[i]->conf, err);
        if (rc == 0)
                list = tools_folders(w, &where);
        json_decref(where.closed);
        return list;
}

const char *settings_kind(const struct config_workspace *w) { return w->isolation == ISOLATION_VM ? "vm" : "namespace"; }

/* An image is named by its ID, 16 hexadecimal digits, or it is a folder. */
static bool is_image_id(struct slice s)
{
        bool hex = s.n == 16;

        for (size_t i = 0; hex && i < s.n; i++)
                hex = s.p[i] && strchr("0123456789abcdef", s.p[i]);
        return hex;
}

/* What holds the guest. The launcher follows `current`; here nothing reads an image. */
static int plan_kind(const struct daemon *d, const struct config_workspace *w, json_t *plan, struct err *err)
{
        char image[PATH_MAX], real[PATH_MAX];
        int rc = 0;

        if (w->isolation != ISOLATION_VM)
                return json_object_set_new(plan, "isolation", json_string(settings_kind(w)));
        if (w->image.n && !is_image_id(w->image))
                rc = settings_path(d, image, (const char *)w->dir.p, (const char *)w->image.p, err);
        else if (snprintf(image, sizeof(image), "%s/images/%s", d->paths.state, w->image.n ? (const char *)w->image.p : "current") >= (int)sizeof(image))
                rc = err_set(err, "the state folder is too long a path");
        if (rc == 0 && strstr(image, "/..") && realpath(image, real))
                snprintf(image, sizeof(image), "%s", real);
        return rc < 0 || json_object_set_new(plan, "isolation", json_string(settings_kind(w))) < 0 || json_object_set_new(plan, "image", json_string(image)) < 0 ||
                               json_object_set_new(plan, "cpus", json_integer((w->cpu_percent + 99) / 100)) < 0
                       ? -1
                       : 0;
}

int settings_plan(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const char *path, json_t *plan, struct err *err)
{
        json_t *shares = plan_shares(d, w, err), *env = json_object(), *links = w->isolation == ISOLATION_VM ? json_object() : NULL;

        if ((links && json_object_set_new(plan, "tool_links", links) < 0) || !shares || !env || plan_kind(d, w, plan, err) < 0)
                goto bad;
        for (size_t i = 0; i < w->env_count; i++)
                if (json_object_set_new(env, (const char *)w->env[i].name.p, json_string((const char *)w->env[i].value.p)) < 0) {
                        err_set(err, "env %s: the value is no UTF-8", esc(w->env[i].name));
                        goto bad;
                }
        if (json_object_set_new(plan, "shares", shares) < 0 || json_object_set_new(plan, "env", env) < 0 ||
            json_object_set_new(plan, "protect", plan_protect(d, s)) < 0 || json_object_set_new(plan, "tools", plan_tools(d, w, path, links, err)) < 0)
                return err->text[0] ? -1 : err_set(err, "out of memory");
        return 0;
bad:
        json_decref(shares);
        json_decref(env);
        return err->text[0] ? -1 : err_set(err, "out of memory");
}
