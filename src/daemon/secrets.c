/* Secrets: see secrets.h. */
#include "daemon/secrets.h"
#include "base/fd.h"
#include "base/log.h"
#include "control/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct given {
        char name[REQUEST_NAME_BYTES]; /* empty: free */
        uint8_t *bytes;
        size_t n;
};

/* One descriptor that is being read. */
struct intake {
        struct secrets *secrets;
        int fd; /* -1: free */
        struct event *read, *deadline;
        uint8_t *bytes;
        size_t n, limit;
        secrets_intake_fn *done;
        void *ctx;
};

struct secrets {
        struct event_base *base;
        const char *vault_path;
        struct vault *vault; /* NULL: its file is not safe to read */
        secrets_changed_fn *changed;
        void *ctx;
        struct given given[SECRETS_GIVEN_MAX];
        struct intake intakes[SECRET_INTAKES];
};

struct secrets *secrets_new(struct event_base *base, const char *vault_path, secrets_changed_fn *changed, void *ctx, struct err *err)
{
        struct secrets *s = calloc(1, sizeof(*s));
        struct err why = ERR_INIT;

        if (!s) {
                err_set(err, "out of memory");
                return NULL;
        }
        *s = (struct secrets){ .base = base, .vault_path = vault_path, .changed = changed, .ctx = ctx };
        for (size_t i = 0; i < SECRET_INTAKES; i++)
                s->intakes[i].fd = -1;
        s->vault = vault_load(vault_path, &why);
        if (!s->vault)
                log_error("the vault is left alone: %s", why.text);
        return s;
}

static void intake_end(struct intake *in)
{
        if (in->read)
                event_free(in->read);
        if (in->deadline)
                event_free(in->deadline);
        secret_free(in->bytes, in->limit + 1);
        fd_close(&in->fd);
        *in = (struct intake){ .fd = -1 };
}

void secrets_free(struct secrets *s)
{
        if (!s)
                return;
        for (size_t i = 0; i < SECRET_INTAKES; i++)
                intake_end(&s->intakes[i]);
        for (size_t i = 0; i < SECRETS_GIVEN_MAX; i++)
                secret_free(s->given[i].bytes, s->given[i].n);
        vault_free(s->vault);
        free(s);
}

struct vault *secrets_vault(struct secrets *s, struct err *why)
{
        /* Its user may have put the file right, put one back, or removed it. What is open is the truth itself. */
        if (s->vault && vault_state(s->vault) == VAULT_OPEN)
                return s->vault;
        vault_free(s->vault);
        s->vault = vault_load(s->vault_path, why);
        return s->vault;
}

/* --- finding --- */

static struct given *given_find(const struct secrets *s, struct slice name)
{
        for (size_t i = 0; name.n && i < SECRETS_GIVEN_MAX; i++)
                if (slice_is(name, s->given[i].name))
                        return (struct given *)(uintptr_t)&s->given[i];
        return NULL;
}

enum secret_have secrets_find(const struct secrets *s, const struct config_credential *c, struct slice *secret)
{
        const struct given *g;

        *secret = SLICE_EMPTY;
        if (c->source == SECRET_VAULT) {
                if (s->vault && vault_state(s->vault) == VAULT_LOCKED)
                        return SECRET_LOCKED;
                if (s->vault)
                        *secret = vault_get(s->vault, c->b.name);
        } else if ((g = given_find(s, c->b.name))) {
                *secret = slice_of(g->bytes, g->n);
        }
        return secret->n ? SECRET_HERE : SECRET_NONE;
}

int secrets_pipe(struct slice secret)
{
        int fds[2];

        if (secret.n > SECRET_BYTES_MAX) {
                errno = EFBIG;
                return -1;
        }
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -1;
        if (write(fds[1], secret.p, secret.n) != (ssize_t)secret.n)
                fd_close(&fds[0]);
        fd_close(&fds[1]);
        return fds[0];
}

/* --- changing --- */

/* A secret is one line that can stand in a header. */
static int checked(struct slice *secret, struct err *err)
{
        if (secret->n && secret->p[secret->n - 1] == '\n')
                secret->n--;
        if (secret->n && secret->p[secret->n - 1] == '\r')
                secret->n--;
        if (secret->n == 0)
                return err_set(err, "the secret is empty");
        if (secret->n > SECRET_BYTES_MAX)
                return err_set(err, "a secret has at most %d bytes", SECRET_BYTES_MAX);
        for (size_t i = 0; i < secret->n; i++)
                if (secret->p[i] < 0x20 || secret->p[i] == 0x7f)
                        return err_set(err, "the secret has a line break or another control character in it");
        return 0;
}

int secrets_give(struct secrets *s, struct slice credential, struct slice secret, struct err *err)
{
        struct given *g = given_find(s, credential);
        uint8_t *bytes;

        if (checked(&secret, err) < 0)
                return -1;
        if (g && slice_eq(slice_of(g->bytes, g->n), secret))
                return 0;
        for (size_t i = 0; !g && i < SECRETS_GIVEN_MAX; i++)
                if (!s->given[i].name[0])
                        g = &s->given[i];
        if (!g || credential.n >= sizeof(g->name))
                return err_set(err, "too many secrets were brought; 'brome daemon restart' forgets them");
        bytes = secret_alloc(secret.n);
        if (!bytes)
                return err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        memcpy(bytes, secret.p, secret.n);
        secret_free(g->bytes, g->n);
        g->bytes = bytes;
        g->n = secret.n;
        snprintf(g->name, sizeof(g->name), "%.*s", SLICE_FMT(credential));
        s->changed(s->ctx, credential);
        return 0;
}

void secrets_forget(struct secrets *s, struct slice credential)
{
        struct given *g = given_find(s, credential);

        if (g) {
                secret_free(g->bytes, g->n);
                *g = (struct given){ 0 };
        }
        s->changed(s->ctx, credential);
}

int secrets_put(struct secrets *s, struct slice name, struct slice secret, struct err *err)
{
        if (!secrets_vault(s, err) || checked(&secret, err) < 0)
                return -1;
        if (slice_eq(vault_get(s->vault, name), secret))
                return 0;
        if (vault_put(s->vault, name, secret, err) < 0)
                return -1;
        s->changed(s->ctx, name);
        return 0;
}

int secrets_remove(struct secrets *s, struct slice name, struct err *err)
{
        int rc = secrets_vault(s, err) ? vault_remove(s->vault, name, err) : -1;

        if (rc == 0)
                s->changed(s->ctx, name);
        return rc;
}

int secrets_unlock(struct secrets *s, const uint8_t *key, struct err *err)
{
        bool was_open = s->vault && vault_state(s->vault) == VAULT_OPEN;

        if (!secrets_vault(s, err) || vault_unlock(s->vault, key, err) < 0)
                return -1;
        if (was_open) /* read from disk again: it may be another copy */
                s->changed(s->ctx, SLICE_EMPTY);
        return 0;
}

void secrets_lock(struct secrets *s)
{
        if (!s->vault || vault_state(s->vault) != VAULT_OPEN)
                return;
        vault_lock(s->vault);
        s->changed(s->ctx, SLICE_EMPTY);
}

/* --- intake --- */

static void finish(struct intake *in, const char *why)
{
        struct intake taken = *in;

        /* Its place is free before `done` runs, which may begin another. */
        if (taken.read)
                event_free(taken.read);
        if (taken.deadline)
                event_free(taken.deadline);
        fd_close(&taken.fd);
        *in = (struct intake){ .fd = -1 };
        taken.done(taken.ctx, why ? SLICE_EMPTY : slice_of(taken.bytes, taken.n), why);
        secret_free(taken.bytes, taken.limit + 1);
}

static void on_read(evutil_socket_t fd, short what, void *ctx)
{
        struct intake *in = ctx;
        ssize_t n = read(fd, in->bytes + in->n, in->limit + 1 - in->n);

        (void)what;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0) {
                finish(in, "the descriptor cannot be read");
        } else if (n == 0) {
                finish(in, NULL);
        } else {
                in->n += (size_t)n;
                if (in->n > in->limit)
                        finish(in, "that is longer than a secret or a key may be");
        }
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
        (void)fd;
        (void)what;
        finish(ctx, "nothing more came over the descriptor, and not its end");
}

int secrets_intake(struct secrets *s, int fd, size_t limit_bytes, secrets_intake_fn *done, void *ctx, struct err *err)
{
        struct timeval t = { .tv_sec = SECRET_INTAKE_MS / 1000 };
        struct intake *in = NULL;
        struct stat st;

        for (size_t i = 0; !in && i < SECRET_INTAKES; i++)
                if (s->intakes[i].fd < 0)
                        in = &s->intakes[i];
        /* Only what the loop can wait for. */
        if (!in || fstat(fd, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) || fd_nonblock(fd) < 0) {
                fd_close(&fd);
                return err_set(err, in ? "a secret or key must come over a pipe" : "too many secrets are coming in at once; try again");
        }
        *in = (struct intake){ .secrets = s, .fd = fd, .limit = limit_bytes, .done = done, .ctx = ctx, .bytes = secret_alloc(limit_bytes + 1) };
        in->read = event_new(s->base, fd, EV_READ | EV_PERSIST, on_read, in);
        in->deadline = event_new(s->base, -1, 0, on_deadline, in);
        if (in->bytes && in->read && in->deadline && event_add(in->read, NULL) == 0 && event_add(in->deadline, &t) == 0)
                return 0;
        err_set(err, in->bytes ? "out of memory" : "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        intake_end(in);
        return -1;
}
