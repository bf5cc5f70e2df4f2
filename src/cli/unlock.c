/* brome unlock, and the vault for whoever needs it: made on first use, opened with its root of trust. The key goes to bromed over a pipe; the kernel's
 * session keyring keeps it for a while, so that one passphrase serves a morning of restarts. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/ask.h"
#include "cli/secret.h"
#include "cli/session.h"
#include "vault/root.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRIES = 3 /* of a passphrase: fingers slip */ };

/* `confirm`: a new one, typed twice. */
static int ask_passphrase(void *ctx, bool confirm, char *out, size_t *n, struct err *err)
{
        char *again;
        size_t m = 0;
        int rc = ask_hidden(confirm ? "brome: a new passphrase for the vault: " : "brome: the vault's passphrase: ", out, ROOT_PASSPHRASE_BYTES, n, err);

        (void)ctx;
        if (rc < 0 || !confirm)
                return rc;
        again = secret_alloc(ROOT_PASSPHRASE_BYTES);
        if (!again)
                return err_set(err, "no memory can be locked for secrets");
        rc = ask_hidden("brome: once more: ", again, ROOT_PASSPHRASE_BYTES, &m, err);
        if (rc == 0 && (m != *n || memcmp(out, again, m) != 0))
                rc = err_set(err, "the two are not the same; nothing was made");
        secret_free(again, ROOT_PASSPHRASE_BYTES);
        return rc;
}

/* From standard input, for `brome unlock < file`. */
static int read_passphrase(void *ctx, bool confirm, char *out, size_t *n, struct err *err)
{
        struct secret s;
        int rc = secret_open(&s, err);

        (void)ctx;
        (void)confirm;
        if (rc == 0)
                rc = secret_from_input(&s, err);
        if (rc == 0 && s.n > ROOT_PASSPHRASE_BYTES)
                rc = err_set(err, "that is longer than a passphrase");
        if (rc == 0)
                memcpy(out, s.bytes, *n = s.n);
        secret_close(&s);
        return rc;
}

int vault_want_check(const struct cli *cli, const struct vault_want *want)
{
        enum root_kind kind = want->root ? root_by_name(slice_str(want->root)) : ROOT_KIND_COUNT;

        if (want->root && want->key_file)
                return cli_usage(cli, "--root or --key-file, not both");
        if (want->root && (kind == ROOT_KIND_COUNT || kind == ROOT_KEY_FILE))
                return cli_usage(cli, "--root is secret-service, passphrase or tpm; --key-file FILE names a file");
        return EXIT_OK;
}

static enum root_kind choose(const struct vault_want *want)
{
        if (want->key_file)
                return ROOT_KEY_FILE;
        return want->root ? root_by_name(slice_str(want->root)) : root_default(ask_possible());
}

static int create(struct cli *cli, struct control *c, const struct vault_want *want)
{
        static const char *const made[ROOT_KIND_COUNT] = {
                [ROOT_SECRET_SERVICE] = "made the vault; your desktop's keyring holds its key",
                [ROOT_PASSPHRASE] = "made the vault; its passphrase opens it, and nothing else does",
                [ROOT_TPM] = "made the vault; this machine's TPM opens it, and nothing else does",
                [ROOT_KEY_FILE] = "made the vault; the key file opens it, and nothing else does",
        };
        struct root_ask ask = { .passphrase = ask_passphrase };
        enum root_kind kind = choose(want);
        uint8_t *key = secret_alloc(VAULT_KEY_BYTES);
        struct err err = ERR_INIT;
        json_t *root = NULL;
        int rc;

        if (!key)
                return cli_fail(EXIT_HOST, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        if (kind == ROOT_KIND_COUNT)
                rc = cli_fail_hint(EXIT_HOST, "run it on a terminal, or name a file with --key-file",
                                   "the vault is to be made, and there is neither a keyring or TPM to hold its key nor a terminal to ask for a passphrase");
        else if (kind == ROOT_PASSPHRASE && !ask_possible())
                rc = cli_fail_hint(EXIT_HOST, "run it on a terminal", "the vault is to be made, and there is no terminal to ask for a passphrase");
        else if (root_make(kind, want->key_file, &ask, &root, key, &err) < 0)
                rc = cli_fail_hint(EXIT_HOST, kind == ROOT_SECRET_SERVICE || kind == ROOT_TPM ? "`--root passphrase` needs neither" : NULL, "%s", err.text);
        else
                rc = secret_call(cli, c, "vault.create", json_pack("{s:O}", "root", root), "key", slice_of(key, VAULT_KEY_BYTES));
        if (rc == EXIT_OK) {
                (void)root_cache_put(root, key, ROOT_CACHE_S);
                cli_note("%s", made[kind]);
        }
        json_decref(root);
        secret_free(key, VAULT_KEY_BYTES);
        return rc;
}

/* 0: open; 1: not this key; -1 printed. */
static int try_key(struct control *c, const uint8_t *key, struct err *why)
{
        static const char *const names[] = { "key" };
        struct chan_msg answer;
        int fd = secret_pipe(slice_of(key, VAULT_KEY_BYTES)), rc;

        if (fd < 0)
                return err_set(why, "no pipe can be made");
        rc = control_call(c, "vault.unlock", NULL, &fd, names, 1, NULL, NULL, &answer, why);
        fd_close(&fd);
        chan_msg_fini(&answer);
        return rc;
}

static int unlock(struct control *c, json_t *root, const struct root_ask *ask, unsigned keep_s, struct err *err)
{
        const char *kind = json_string_value(json_object_get(root, "kind"));
        bool typed = kind && root_by_name(slice_str(kind)) == ROOT_PASSPHRASE;
        int tries = typed && ask->passphrase == ask_passphrase ? TRIES : 1, rc;
        uint8_t *key = secret_alloc(VAULT_KEY_BYTES);

        if (!key)
                return err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        rc = root_cache_get(root, key) ? try_key(c, key, err) : 1;
        while (rc == 1 && tries-- > 0) {
                if (root_key(root, ask, key, err) < 0)
                        rc = -1;
                else if ((rc = try_key(c, key, err)) == 1 && tries > 0)
                        cli_note("that is not the passphrase");
        }
        if (rc == 0 && keep_s)
                (void)root_cache_put(root, key, keep_s);
        secret_free(key, VAULT_KEY_BYTES);
        return rc;
}

static int open_vault(struct control *c, json_t *root, const struct root_ask *ask, unsigned keep_s)
{
        const char *kind = json_string_value(json_object_get(root, "kind"));
        struct err err = ERR_INIT;

        if (kind && root_by_name(slice_str(kind)) == ROOT_PASSPHRASE && ask->passphrase == ask_passphrase && !ask_possible())
                return cli_fail_hint(EXIT_DAEMON, "`brome unlock` opens it", "the vault is locked, and there is no terminal to ask for its passphrase");
        if (unlock(c, root, ask, keep_s, &err) == 0)
                return EXIT_OK;
        return cli_fail_hint(EXIT_DAEMON, strstr(err.text, "; ") ? NULL : "`brome unlock` tries again", "the vault stays locked: %s", err.text);
}

static int vault_state_of(struct cli *cli, struct control *c, struct chan_msg *answer) { return session_call(cli, c, "vault", NULL, SLICE_EMPTY, answer); }

int vault_ready(struct cli *cli, struct control *c, const struct vault_want *want)
{
        struct root_ask ask = { .passphrase = ask_passphrase };
        struct chan_msg answer;
        const char *state;
        int rc = vault_state_of(cli, c, &answer);

        if (rc != EXIT_OK)
                return rc;
        state = chan_str(&answer, "state", "");
        if (strcmp(state, "locked") == 0)
                rc = open_vault(c, json_object_get(answer.body, "root"), &ask, ROOT_CACHE_S);
        else if (strcmp(state, "absent") == 0 && want)
                rc = create(cli, c, want);
        chan_msg_fini(&answer);
        return rc;
}

/* `--for 8h`: how long the kernel's keyring keeps the key. */
static int keep_for(const char *text, unsigned *out)
{
        char *end;
        unsigned long n = strtoul(text, &end, 10);
        unsigned long unit = *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : *end == 'd' ? 86400 : 0;

        if (end == text || *text == '-' || !unit || end[1] || n > 30 * 86400 / unit)
                return -1;
        *out = (unsigned)(n * unit);
        return 0;
}

static int close_vault(struct cli *cli, struct control *c)
{
        struct chan_msg answer;
        int rc = vault_state_of(cli, c, &answer);

        if (rc != EXIT_OK)
                return rc;
        if (json_object_get(answer.body, "root"))
                root_cache_forget(json_object_get(answer.body, "root"));
        chan_msg_fini(&answer);
        rc = session_call(cli, c, "vault.lock", NULL, SLICE_EMPTY, &answer);
        if (rc == EXIT_OK) {
                chan_msg_fini(&answer);
                cli_note("the vault is locked; account doors that held one of its secrets ended");
        }
        return rc;
}

static int open_named(struct cli *cli, struct control *c, unsigned keep_s)
{
        struct root_ask ask = { .passphrase = isatty(STDIN_FILENO) ? ask_passphrase : read_passphrase };
        struct chan_msg answer;
        const char *state;
        int rc = vault_state_of(cli, c, &answer);

        if (rc != EXIT_OK)
                return rc;
        state = chan_str(&answer, "state", "");
        if (strcmp(state, "open") == 0)
                cli_note("the vault is open already");
        else if (strcmp(state, "absent") == 0)
                rc = cli_fail_hint(EXIT_NO, "`brome credential add` makes it", "there is no vault yet");
        else if ((rc = open_vault(c, json_object_get(answer.body, "root"), &ask, keep_s)) == EXIT_OK)
                cli_note("the vault is open");
        chan_msg_fini(&answer);
        return rc;
}

int cmd_unlock(struct cli *cli, int argc, char **argv)
{
        const char *keep = NULL;
        bool lock = false;
        unsigned keep_s = ROOT_CACHE_S;
        const struct cli_option options[] = { { .name = "for", .text = &keep }, { .name = "lock", .flag = &lock } };
        struct control c = { .fd = -1 };
        int at = cli_options(cli, argc, argv, options, 2), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        if (keep && keep_for(keep, &keep_s) < 0)
                return cli_usage(cli, "--for takes a time of at most 30 days, for example 8h; 0s keeps no key");
        rc = session_connect(cli, &c, true);
        if (rc == EXIT_OK)
                rc = lock ? close_vault(cli, &c) : open_named(cli, &c, keep_s);
        control_close(&c);
        return rc;
}
