/* Secrets: see secret.h. */
#include "cli/secret.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/ask.h"
#include "cli/secret_wrong.h"
#include "cli/session.h"
#include "files/loader.h"
#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int secret_open(struct secret *s, struct err *err)
{
        /* One byte more than may be, to tell what is too long; and a line break. */
        *s = (struct secret){ .cap = SECRET_WRONG_BYTES_MAX + 2 };
        s->bytes = secret_alloc(s->cap);
        return s->bytes ? 0 : err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
}

void secret_close(struct secret *s)
{
        secret_free(s->bytes, s->cap);
        *s = (struct secret){ 0 };
}

static int trim(struct secret *s, const char *where, struct err *err)
{
        if (s->n && s->bytes[s->n - 1] == '\n')
                s->n--;
        if (s->n && s->bytes[s->n - 1] == '\r')
                s->n--;
        if (s->n > SECRET_WRONG_BYTES_MAX)
                return err_set(err, "%s: a secret has at most %d bytes", where, SECRET_WRONG_BYTES_MAX);
        return s->n ? 0 : err_set(err, "%s: there is nothing", where);
}

/* To its end, or until it is too long. */
static int read_all(struct secret *s, int fd, const char *where, struct err *err)
{
        for (s->n = 0; s->n < s->cap;) {
                ssize_t n = read(fd, s->bytes + s->n, s->cap - s->n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_sys(err, errno, "%s", where);
                if (n == 0)
                        break;
                s->n += (size_t)n;
        }
        return s->n == s->cap ? err_set(err, "%s: a secret has at most %d bytes", where, SECRET_WRONG_BYTES_MAX) : 0;
}

int secret_from_terminal(struct secret *s, const char *prompt, struct err *err)
{
        return ask_hidden(prompt, s->bytes, s->cap, &s->n, err) < 0 ? -1 : trim(s, "the secret", err);
}

int secret_from_input(struct secret *s, struct err *err)
{
        return read_all(s, STDIN_FILENO, "standard input", err) < 0 ? -1 : trim(s, "standard input", err);
}

static int from_file(struct secret *s, const char *value, const char *dir, struct err *err)
{
        char path[PATH_MAX], where[PATH_MAX + 32];
        struct stat st;
        int fd, rc;

        if (loader_expand(path, sizeof(path), slice_str(value), slice_str(dir), err) < 0)
                return -1;
        snprintf(where, sizeof(where), "the secret's file %s", esc_str(path));
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return err_sys(err, errno, "%s", where);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                rc = err_set(err, "%s is no regular file", where);
        else if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022))
                rc = err_set(err, "%s can be changed by somebody else; 'chmod 600' it", where);
        else
                rc = read_all(s, fd, where, err) < 0 ? -1 : trim(s, where, err);
        fd_close(&fd);
        return rc;
}

static int from_env(struct secret *s, const char *name, struct err *err)
{
        const char *v = getenv(name);
        char where[160];

        if (!v || !*v)
                return err_set(err, "the variable %s is not set where this command runs", esc_str(name));
        snprintf(where, sizeof(where), "the variable %s", esc_str(name));
        s->n = strlen(v);
        if (s->n > SECRET_WRONG_BYTES_MAX)
                return err_set(err, "%s: a secret has at most %d bytes", where, SECRET_WRONG_BYTES_MAX);
        memcpy(s->bytes, v, s->n);
        return trim(s, where, err);
}

static _Noreturn void become_command(const char *command, int out)
{
        sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
        if (dup2(out, STDOUT_FILENO) >= 0)
                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
}

/* It may ask for a PIN on the terminal, as long as it likes; ^C ends both. */
static int from_command(struct secret *s, const char *command, struct err *err)
{
        char where[600];
        int out[2], rc, status = 0;
        pid_t pid;

        snprintf(where, sizeof(where), "the command `%s`", esc_str(command));
        if (pipe2(out, O_CLOEXEC) < 0)
                return err_sys(err, errno, "pipe");
        pid = fork();
        if (pid == 0)
                become_command(command, out[1]);
        fd_close(&out[1]);
        rc = pid < 0 ? err_sys(err, errno, "fork") : read_all(s, out[0], where, err);
        /* Too much: what it writes from here on ends it. */
        fd_close(&out[0]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (rc < 0)
                return -1;
        if (WIFSIGNALED(status))
                return err_set(err, "%s was ended by signal %d", where, WTERMSIG(status));
        if (WEXITSTATUS(status) != 0)
                return err_set(err, "%s failed with status %d", where, WEXITSTATUS(status));
        return trim(s, where, err);
}

int secret_from_source(struct secret *s, enum secret_source source, const char *value, const char *dir, struct err *err)
{
        switch (source) {
        case SECRET_FILE: return from_file(s, value, dir, err);
        case SECRET_ENV: return from_env(s, value, err);
        case SECRET_COMMAND: return from_command(s, value, err);
        case SECRET_VAULT: break;
        }
        return err_set(err, "the vault gives no secret out");
}

int secret_check(const struct secret *s, enum account_kind kind, const char *name, struct err *err)
{
        const char *problem = secret_wrong(kind, secret_slice(s));

        return problem ? err_set(err, "the secret of %s cannot be used: %s", name, problem) : 0;
}

void secret_masked(struct slice secret, char out[64])
{
        /* Four of twelve say nothing that helps; of fewer they would. */
        if (secret.n >= 12)
                snprintf(out, 64, "%s… (%zu characters)", esc(slice_first(secret, 4)), secret.n);
        else
                snprintf(out, 64, "… (%zu characters)", secret.n);
}

int secret_pipe(struct slice bytes)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -1;
        /* A pipe holds it whole: 64 KB, or at least a page of 4 KB where the user has too many; then bromed would be waited for, so it must not block. */
        if (fd_nonblock(fds[1]) < 0 || write(fds[1], bytes.p, bytes.n) != (ssize_t)bytes.n)
                fd_close(&fds[0]);
        fd_close(&fds[1]);
        return fds[0];
}

int secret_call(struct cli *cli, struct control *c, const char *op, json_t *body, const char *fd_name, struct slice bytes)
{
        struct chan_msg answer;
        int fd = secret_pipe(bytes), rc;

        if (fd < 0) {
                json_decref(body);
                return cli_fail(EXIT_INTERNAL, "the secret does not fit into a pipe");
        }
        rc = session_call_fd(cli, c, op, body, fd_name, fd, &answer);
        fd_close(&fd);
        if (rc == EXIT_OK)
                chan_msg_fini(&answer);
        return rc;
}

/* ---- what bromed needs ---- */

static const char *text_of(json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

static int bring_one(struct cli *cli, struct control *c, json_t *need, bool have)
{
        static const struct { const char *word; enum secret_source source; } sources[] = { { "file", SECRET_FILE }, { "env", SECRET_ENV }, { "command", SECRET_COMMAND } };
        const char *name = text_of(need, "credential"), *word = text_of(need, "source");
        struct err err = ERR_INIT;
        struct secret s;
        size_t i = 0;
        int rc;

        while (i < 3 && strcmp(sources[i].word, word) != 0)
                i++;
        if (i == 3)
                return cli_fail(EXIT_INTERNAL, "credential %s: its secret is kept in a way that this brome does not know", esc_str(name));
        /* A command may ask its user something: once while bromed runs. A file or variable may be another one now, or gone, while bromed still has it. */
        if (have && sources[i].source == SECRET_COMMAND)
                return EXIT_OK;
        if (secret_open(&s, &err) < 0)
                return cli_fail(EXIT_HOST, "%s", err.text);
        if (secret_from_source(&s, sources[i].source, text_of(need, "value"), text_of(need, "dir"), &err) == 0)
                rc = secret_call(cli, c, "secret.give", json_pack("{s:s}", "credential", name), "secret", secret_slice(&s));
        else
                rc = have ? EXIT_OK : cli_fail_hint(EXIT_CONFIG_, "`brome credential ls` says where each secret comes from", "credential %s: %s", esc_str(name), err.text);
        secret_close(&s);
        return rc;
}

int needs_bring(struct cli *cli, struct control *c, const char *workspace, struct slice block)
{
        struct chan_msg answer;
        json_t *need;
        size_t i;
        bool locked, vault = false;
        int rc = session_call(cli, c, "session.needs", json_pack("{s:s*}", "workspace", workspace), block, &answer);

        if (rc != EXIT_OK)
                return rc;
        /* Or unreadable: then asking for it says why. */
        locked = strcmp(chan_str(&answer, "vault", ""), "locked") == 0 || strcmp(chan_str(&answer, "vault", ""), "unreadable") == 0;
        json_array_foreach(json_object_get(answer.body, "secrets"), i, need) {
                bool have = json_is_true(json_object_get(need, "have")), from_vault = strcmp(text_of(need, "source"), "vault") == 0;

                if (rc != EXIT_OK)
                        break;
                if (!from_vault)
                        rc = bring_one(cli, c, need, have);
                else if (!have && !locked)
                        cli_note("credential %s has no secret yet, so its requests will be refused; `brome credential add` asks for it", esc_str(text_of(need, "credential")));
                vault = vault || (from_vault && !have);
        }
        chan_msg_fini(&answer);
        return rc == EXIT_OK && vault && locked ? vault_ready(cli, c, NULL) : rc;
}
