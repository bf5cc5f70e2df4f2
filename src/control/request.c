/* Requests: see request.h. Every member has one row here: its letter in requests.tbl and the function that checks it. */
#include "control/request.h"

#include <string.h>

static const struct request_row {
        const char *op, *members, *fd;
        int fd_wanted;
} request_rows[REQUEST_OP_COUNT] = {
#define REQUEST(NAME, op, members, fd, wanted) [REQUEST_##NAME] = { op, members, fd, wanted },
#include "control/requests.tbl"
#undef REQUEST
};

static const char *const request_codes[REQUEST_ERROR_COUNT] = {
        [REQUEST_E_USAGE] = "usage",   [REQUEST_E_NO_WORKSPACE] = "no-such-workspace", [REQUEST_E_EXISTS] = "exists",
        [REQUEST_E_STATE] = "state",   [REQUEST_E_CONFIG] = "config",                  [REQUEST_E_HOST] = "host", [REQUEST_E_AGAIN] = "again",
        [REQUEST_E_JOURNAL] = "journal", [REQUEST_E_INTERNAL] = "internal",
};

const char *request_error_code(enum request_error e) { return request_codes[e]; }

bool request_name_ok(const char *name)
{
        size_t n = name ? strlen(name) : 0;

        if (n == 0 || n >= REQUEST_NAME_BYTES || name[0] == '-' || name[0] == '_')
                return false;
        return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n;
}

/* A member that may be absent; when present it must be a string. */
static int get_string(const char **out, const struct chan_msg *msg, const char *key, struct err *err)
{
        json_t *v = json_object_get(msg->body, key);

        if (v && !json_is_string(v))
                return err_set(err, "%s is no text", key);
        *out = json_string_value(v);
        return 0;
}

static int get_bool(bool *out, const struct chan_msg *msg, const char *key, struct err *err)
{
        json_t *v = json_object_get(msg->body, key);

        if (v && !json_is_boolean(v))
                return err_set(err, "%s is neither true nor false", key);
        *out = json_is_true(v);
        return 0;
}

static int get_int(long long *out, const struct chan_msg *msg, const char *key, long long otherwise, long long most, struct err *err)
{
        json_t *v = json_object_get(msg->body, key);

        if (v && (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most))
                return err_set(err, "%s is no number from 0 to %lld", key, most);
        *out = v ? json_integer_value(v) : otherwise;
        return 0;
}

static int get_name(const char **out, const struct chan_msg *msg, const char *key, struct err *err)
{
        if (get_string(out, msg, key, err) < 0)
                return -1;
        if (*out && !request_name_ok(*out))
                return err_set(err, "%s is no name: letters a-z, digits and '-', at most %d", key, REQUEST_NAME_BYTES - 1);
        return 0;
}

static int check_workspace(struct request *r, const struct chan_msg *msg, struct err *err) { return get_name(&r->workspace, msg, "workspace", err); }
static int check_name(struct request *r, const struct chan_msg *msg, struct err *err) { return get_name(&r->name, msg, "name", err); }
static int check_cwd(struct request *r, const struct chan_msg *msg, struct err *err)
{
        if (get_string(&r->cwd, msg, "cwd", err) < 0)
                return -1;
        return r->cwd && r->cwd[0] != '/' ? err_set(err, "cwd is no absolute path") : 0;
}

static int check_argv(struct request *r, const struct chan_msg *msg, struct err *err)
{
        json_t *argv = json_object_get(msg->body, "argv"), *env = json_object_get(msg->body, "env"), *v;
        const char *key;
        size_t i;

        if (argv && (!json_is_array(argv) || json_array_size(argv) == 0 || json_array_size(argv) > REQUEST_ARGS))
                return err_set(err, "argv is no list of 1 to %d texts", REQUEST_ARGS);
        if (env && (!json_is_object(env) || json_object_size(env) > REQUEST_ARGS))
                return err_set(err, "env is no object of at most %d texts", REQUEST_ARGS);
        json_array_foreach(argv, i, v)
                if (!json_is_string(v))
                        return err_set(err, "argv is no list of texts");
        json_object_foreach(env, key, v)
                if (!json_is_string(v) || !*key || strchr(key, '='))
                        return err_set(err, "env has an entry that is no NAME: text");
        r->argv = argv;
        r->env = env;
        return 0;
}

static int check_pty(struct request *r, const struct chan_msg *msg, struct err *err)
{
        long long rows, cols;

        if (get_bool(&r->pty, msg, "pty", err) < 0 || get_int(&rows, msg, "rows", 0, 65535, err) < 0 ||
            get_int(&cols, msg, "cols", 0, 65535, err) < 0)
                return -1;
        r->rows = (int)rows;
        r->cols = (int)cols;
        return 0;
}

static int check_keep(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_bool(&r->keep, msg, "keep", err) < 0 ? -1 : get_bool(&r->rm, msg, "rm", err);
}

static int check_proxy(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_string(&r->proxy, msg, "proxy", err) < 0 ? -1 : get_string(&r->no_proxy, msg, "no_proxy", err);
}

static int check_path(struct request *r, const struct chan_msg *msg, struct err *err)
{
        if (get_string(&r->path, msg, "path", err) < 0)
                return -1;
        return r->path && strlen(r->path) > REQUEST_PATH_BYTES ? err_set(err, "path is longer than %d bytes", REQUEST_PATH_BYTES) : 0;
}

static int check_force(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_bool(&r->force, msg, "force", err) < 0 ? -1 : get_bool(&r->evidence, msg, "evidence", err);
}

static int check_continue(struct request *r, const struct chan_msg *msg, struct err *err) { return get_bool(&r->go_on, msg, "continue", err); }
static int check_all(struct request *r, const struct chan_msg *msg, struct err *err) { return get_bool(&r->all, msg, "all", err); }
static int check_hears(struct request *r, const struct chan_msg *msg, struct err *err) { return get_bool(&r->hears, msg, "hears", err); }
static int check_credential(struct request *r, const struct chan_msg *msg, struct err *err) { return get_name(&r->credential, msg, "credential", err); }
static int check_approval(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_int(&r->approval, msg, "approval", 0, (1LL << 53), err);
}

static int check_term(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_string(&r->term, msg, "for", err) < 0 ? -1 : get_int(&r->seen, msg, "seen", -1, (1LL << 31), err);
}

static int check_root(struct request *r, const struct chan_msg *msg, struct err *err)
{
        json_t *root = json_object_get(msg->body, "root");

        if (root && !json_is_object(root))
                return err_set(err, "root is no object");
        r->root = root;
        return 0;
}
static int check_port(struct request *r, const struct chan_msg *msg, struct err *err)
{
        long long port;

        if (get_int(&port, msg, "port", 0, UINT16_MAX, err) < 0)
                return -1;
        r->port = (uint16_t)port;
        return json_object_get(msg->body, "port") && port == 0 ? err_set(err, "port is 0") : 0;
}

static int check_copied(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_int(&r->files, msg, "files", 0, (1LL << 53), err) < 0 || get_int(&r->bytes, msg, "bytes", 0, (1LL << 53), err) < 0 ? -1
                                                                                                                                       : get_bool(&r->out, msg, "out", err);
}

static int check_generation(struct request *r, const struct chan_msg *msg, struct err *err)
{
        return get_int(&r->base_generation, msg, "base_generation", -1, (1LL << 53), err);
}

static const struct {
        char letter;
        int (*check)(struct request *, const struct chan_msg *, struct err *);
        const char *key; /* what a capital letter requires */
} members[] = {
        { 'w', check_workspace, "workspace" }, { 'n', check_name, "name" }, { 'a', check_argv, "argv" },  { 'c', check_cwd, "cwd" },
        { 'p', check_pty, "pty" },             { 'k', check_keep, "keep" }, { 'x', check_proxy, "proxy" }, { 'f', check_force, "force" },
        { 'g', check_generation, "base_generation" },
        { 'o', check_continue, "continue" },   { 'r', check_credential, "credential" }, { 'd', check_approval, "approval" },
        { 's', check_term, "for" },            { 'l', check_all, "all" },    { 'j', check_root, "root" },
        { 'h', check_hears, "hears" },       { 't', check_path, "path" },    { 'b', check_port, "port" },
        { 'm', check_copied, "files" },
};

static int check_members(struct request *r, const struct chan_msg *msg, const char *letters, struct err *err)
{
        for (; *letters; letters++)
                for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                        if ((*letters | 0x20) != members[i].letter)
                                continue;
                        if (members[i].check(r, msg, err) < 0)
                                return -1;
                        if (*letters < 'a' && !json_object_get(msg->body, members[i].key))
                                return err_set(err, "%s needs the member %s", msg->op, members[i].key);
                }
        return 0;
}

/* The first descriptor, when the message names it as its row does. */
static int check_fd(struct request *r, const struct chan_msg *msg, const struct request_row *row, struct err *err)
{
        json_t *names = json_object_get(msg->body, "fds");
        const char *first = json_string_value(json_array_get(names, 0));

        if (row->fd_wanted && msg->fd_count >= 1 && first && strcmp(first, row->fd) == 0)
                r->fd = msg->fds[0];
        if (row->fd_wanted == 2 && r->fd < 0)
                return err_set(err, "%s needs the descriptor %s", msg->op, row->fd);
        return 0;
}

int request_parse(struct request *out, const struct chan_msg *msg, struct err *err)
{
        struct request r = { .fd = -1, .base_generation = -1, .seen = -1 };

        *out = r;
        if (get_int(&r.id, msg, "id", 0, (1LL << 53), err) < 0)
                return -1;
        out->id = r.id;
        for (size_t i = 1; i < REQUEST_OP_COUNT; i++)
                if (strcmp(msg->op, request_rows[i].op) == 0)
                        r.op = (enum request_op)i;
        if (r.op == REQUEST_NONE)
                return err_set(err, "this bromed does not know the request; restart it with 'brome daemon restart' after an update");
        out->op = r.op;
        if (check_members(&r, msg, request_rows[r.op].members, err) < 0 || check_fd(&r, msg, &request_rows[r.op], err) < 0)
                return -1;
        *out = r;
        return 0;
}

json_t *request_answer(const char *op, long long id) { return json_pack("{s:s, s:I}", "op", op, "id", (json_int_t)id); }

json_t *request_error(long long id, enum request_error code, const char *text)
{
        /* %-free, and whatever the text holds: jansson refuses malformed UTF-8, then a plain sentence stands in for it. */
        json_t *e = json_pack("{s:s, s:I, s:s, s:s}", "op", "error", "id", (json_int_t)id, "code", request_error_code(code), "text", text);

        return e ? e : json_pack("{s:s, s:I, s:s, s:s}", "op", "error", "id", (json_int_t)id, "code", request_error_code(code), "text",
                                 "refused (the reason cannot be shown: it is no UTF-8)");
}
