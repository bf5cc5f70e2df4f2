/* Rules set live: see rules_set.h. */
#include "daemon/rules_set.h"
#include "base/buf.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/bounds.h"
#include "daemon/record.h"
#include "daemon/stamps.h"
#include "rules/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool rules_text_regular(int fd)
{
        struct stat st;

        return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Is line `want` one of text's lines? */
static bool has_line(struct slice text, struct slice want)
{
        while (text.n) {
                ptrdiff_t end = slice_find(text, '\n');
                struct slice line = end < 0 ? text : slice_first(text, (size_t)end);

                if (slice_eq(line, want))
                        return true;
                text = slice_skip(text, line.n + 1);
        }
        return false;
}

/* Appends "sign line" for each line of `of` that is not in `in`; a note has room for the first few. */
static void differences(struct buf *out, struct slice of, struct slice in, char sign, unsigned *left)
{
        enum { SHOWN_BYTES = 1400 }; /* of the 2,048 of a note */

        while (of.n) {
                ptrdiff_t end = slice_find(of, '\n');
                struct slice line = end < 0 ? of : slice_first(of, (size_t)end);

                if (line.n && !has_line(in, line)) {
                        if (buf_len(out) + line.n < SHOWN_BYTES)
                                buf_addf(out, "%s%c %.*s", buf_len(out) ? "; " : "", sign, SLICE_FMT(line));
                        else
                                ++*left;
                }
                of = slice_skip(of, line.n + 1);
        }
}

/* "+ rule; - rule" for the journal. Ten thousand changed rules would take long to compare: then their number must do. */
static void note_difference(const struct workspace *ws, struct slice before, struct slice after)
{
        enum { COMPARED_BYTES = 64 * 1024 };
        struct buf out;
        unsigned left = 0;

        buf_init(&out, 0);
        if (before.n + after.n <= COMPARED_BYTES) {
                differences(&out, after, before, '+', &left);
                differences(&out, before, after, '-', &left);
                if (left)
                        buf_addf(&out, "; and %u more", left);
                if (!buf_len(&out))
                        buf_addf(&out, "same rules, other order or spelling");
        } else {
                buf_addf(&out, "rules replaced: %zu bytes before, %zu after", before.n, after.n);
        }
        buf_addf(&out, "%c", 0);
        record_policy(ws, out.failed ? "rules replaced" : (const char *)buf_slice(&out).p);
        buf_fini(&out);
}

/* The block's text with other rules in it. 0 or -1. */
static int replaced_text(const struct workspace *ws, struct slice rules, struct buf *out, struct diags *errors, struct err *err)
{
        struct buf file, own;
        int rc = 0;

        buf_init(&file, DAEMON_CONFIG_BYTES + 65536);
        buf_init(&own, 0);
        config_own_rules(ws->settings->config, ws->conf, rules, &own);
        if (ws->text)
                buf_add_str(&file, ws->text);
        else
                rc = fd_read_file(ws->file, &file, DAEMON_CONFIG_BYTES, err);
        if (own.failed || file.failed)
                rc = err_set(err, "out of memory");
        if (rc == 0)
                rc = config_replace_rules(buf_slice(&file), ws->file, slice_str(ws->name), buf_slice(&own), out, errors);
        buf_fini(&own);
        buf_fini(&file);
        return rc;
}

/* The whole configuration as it would be with the new text. */
static struct settings *load_with(const struct workspace *ws, struct slice text, struct diags *errors)
{
        struct settings_override over = { ws->file, text };

        return ws->text ? settings_load(ws->daemon, text, ws->file, NULL, errors)
                        : settings_load(ws->daemon, SLICE_EMPTY, "", &over, errors);
}

static int keep(struct workspace *ws, struct slice text, enum request_error *code, struct err *err)
{
        char real[PATH_MAX];
        struct stat st;

        *code = REQUEST_E_HOST;
        if (ws->origin == WS_THROW_AWAY)
                return 0;
        /* A configuration under a link (dotfiles) stays one: the link's target is replaced. */
        if (!realpath(ws->file, real) || stat(real, &st) < 0)
                return err_set(err, "%s cannot be found any more", esc_str(ws->file));
        return fd_write_file(real, st.st_mode & 0777, text.p, text.n, err);
}

int rules_set(struct workspace *ws, struct slice rules, struct diags *errors, enum request_error *code, struct err *err)
{
        struct buf text, before, after;
        struct settings *s = NULL;
        char *copy = NULL;
        int rc = -1, policy = -1;

        buf_init(&text, 0);
        buf_init(&before, 0);
        buf_init(&after, 0);
        *code = REQUEST_E_CONFIG;
        /* First alone, so that errors name lines of what the person wrote. */
        if (config_policy_text(ws->settings->config, ws->conf, rules, SLICE_EMPTY, NULL, &after, errors) < 0)
                goto out;
        buf_clear(&after);
        if (replaced_text(ws, rules, &text, errors, err) < 0 || !(s = load_with(ws, buf_slice(&text), errors)))
                goto out;
        const struct config_workspace *w = config_workspace(s->config, slice_str(ws->name));
        if (!w) {
                err_set(err, "%s was changed meanwhile and no longer has workspace %s; 'brome reload' reads it again", esc_str(ws->file), ws->name);
                goto out;
        }
        policy = settings_policy(ws->daemon, s, w, NULL, NULL, err);
        copy = strndup((const char *)buf_slice(&text).p, buf_len(&text));
        if (policy < 0 || !copy || keep(ws, buf_slice(&text), code, err) < 0)
                goto out;
        config_print_rules(ws->settings->config, ws->conf, &before);
        config_print_rules(s->config, w, &after);
        if (ws->text) {
                if (ws->origin == WS_FROM_STATE)
                        stamps_wrote(ws->daemon->stamps, ws->file, buf_slice(&text));
                free(ws->text);
                ws->text = copy;
                copy = NULL;
        }
        workspace_adopt(ws, settings_keep(s));
        ws->generation++;
        note_difference(ws, buf_slice(&before), buf_slice(&after));
        rc = 0;
        /* Somebody may have edited more of the file meanwhile: what is written there now is what counts everywhere. */
        if (!ws->text && registry_load(ws->daemon, errors) < 0)
                log_error("the configuration was not read again: %s", ws->daemon->settings_error);
out:
        settings_drop(s);
        free(copy);
        fd_close(&policy);
        buf_fini(&text);
        buf_fini(&before);
        buf_fini(&after);
        return rc;
}

void describe_settings(const struct daemon *d, const struct workspace *ws, json_t *answer)
{
        const struct config_workspace *c = ws->conf;
        json_t *plan = json_object(), *credentials = json_array();
        struct err err = ERR_INIT;

        if (plan && settings_plan(d, ws->settings, c, NULL, plan, &err) == 0) {
                json_object_set(answer, "shares", json_object_get(plan, "shares"));
                json_object_set(answer, "env", json_object_get(plan, "env"));
                if (json_object_get(plan, "image"))
                        json_object_set(answer, "image", json_object_get(plan, "image"));
        }
        json_decref(plan);
        for (size_t i = 0; i < c->credential_count; i++)
                json_array_append_new(credentials, json_stringn((const char *)c->credentials[i]->b.name.p, c->credentials[i]->b.name.n));
        json_object_set_new(answer, "credentials", credentials);
        json_object_set_new(answer, "agent", c->agent.n ? json_stringn((const char *)c->agent.p, c->agent.n) : json_string(""));
        json_object_set_new(answer, "isolation", json_string(settings_kind(c)));
        json_object_set_new(answer, "memory_bytes", json_integer(c->memory_bytes || c->isolation != ISOLATION_VM ? (json_int_t)c->memory_bytes : SETTINGS_MACHINE_BYTES));
        json_object_set_new(answer, "processes", json_integer((json_int_t)c->processes));
        json_object_set_new(answer, "cpu_percent", json_integer((json_int_t)c->cpu_percent));
        json_object_set_new(answer, "dns", json_string(c->dns == DNS_REAL ? "real" : "synthetic"));
        json_object_set_new(answer, "nested", json_boolean(c->nested));
        json_object_set_new(answer, "detect", json_string("off")); /* there is no detector yet */
        json_object_set_new(answer, "trace", json_string(c->trace_activity ? "activity" : "off"));
}
