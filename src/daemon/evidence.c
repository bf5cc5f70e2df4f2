/* Evidence: see evidence.h. */
#include "daemon/evidence.h"
#include "base/buf.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/alerts.h"
#include "daemon/record.h"
#include "journal/print.h"
#include "journal/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
        JOURNAL_ROWS = 20000,                   /* the newest: a second of work for the one loop */
        JOURNAL_EXTRACT_BYTES = 32 * 1024 * 1024,
};

/* A folder that was not there. */
static int make_folder(const struct daemon *d, const char *name, char out[PATH_MAX], struct err *err)
{
        char stamp[32];
        time_t now = time(NULL);
        struct tm t;
        int n;

        if (!gmtime_r(&now, &t) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &t) == 0)
                snprintf(stamp, sizeof(stamp), "%lld", (long long)now);
        if (snprintf(out, PATH_MAX, "%s/evidence", d->paths.state) >= PATH_MAX - 128)
                return err_set(err, "the state folder is too long a path");
        if (fd_mkdirs(out, 0700, err) < 0)
                return -1;
        for (unsigned i = 0; i < 1000; i++) {
                n = snprintf(out, PATH_MAX, i ? "%s/evidence/%s-%s.%u" : "%s/evidence/%s-%s", d->paths.state, name, stamp, i);
                if (n >= PATH_MAX - 64)
                        break;
                if (mkdir(out, 0700) == 0)
                        return 0;
                if (errno != EEXIST)
                        return err_sys(err, errno, "%s", out);
        }
        return err_set(err, "no folder for the evidence can be made");
}

static int write_in(const char *folder, const char *name, struct slice text, struct err *err)
{
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - 64, folder, name);
        return fd_write_file(path, 0600, text.p, text.n, err);
}

static int write_json(const char *folder, const char *name, json_t *value, struct err *err)
{
        char *text = json_dumps(value, JSON_INDENT(1));
        int rc = text ? write_in(folder, name, slice_str(text), err) : err_set(err, "out of memory");

        free(text);
        return rc;
}

static int one_row(void *ctx, const struct row *row) { return print_timeline(ctx, PRINT_JSON, row); }

static int write_journal(const struct workspace *ws, uint64_t session, const char *folder, struct err *err)
{
        struct filter f = { .workspace = slice_str(ws->name), .session = session, .limit = JOURNAL_ROWS };
        struct reader *r;
        struct buf out;
        int rc = -1;

        record_flush(ws->daemon);
        r = reader_open(ws->daemon->paths.state, err);
        buf_init(&out, JOURNAL_EXTRACT_BYTES);
        if (r && reader_timeline(r, &f, one_row, &out, err) == 0)
                rc = write_in(folder, "journal.jsonl", buf_slice(&out), err);
        buf_fini(&out);
        reader_close(r);
        return rc;
}

static int write_rules(const struct workspace *ws, const char *folder, struct err *err)
{
        static struct diags errors;
        struct buf out;
        int rc;

        errors = (struct diags){ 0 };
        buf_init(&out, 0);
        rc = config_policy_text(ws->settings->config, ws->conf, SLICE_EMPTY, SLICE_EMPTY, NULL, &out, &errors);
        rc = rc < 0 ? err_set(err, "the rules cannot be printed") : write_in(folder, "rules.conf", buf_slice(&out), err);
        buf_fini(&out);
        return rc;
}

static int write_processes(json_t *processes, const char *folder, struct err *err)
{
        struct buf out;
        json_t *line;
        size_t i;
        int rc;

        buf_init(&out, 0);
        json_array_foreach(processes, i, line)
                buf_addf(&out, "%s\n", esc_str(json_is_string(line) ? json_string_value(line) : ""));
        rc = write_in(folder, "processes.txt", buf_slice(&out), err);
        buf_fini(&out);
        return rc;
}

static int write_readme(const struct workspace *ws, uint64_t session, bool moved, const char *folder, struct err *err)
{
        struct buf out;
        int rc;

        buf_init(&out, 0);
        buf_addf(&out, "Evidence of workspace %s, session %llu.\n\nalerts.json    what the tripwire met\nrules.conf     the rules and accounts it had (no secrets)\n"
                       "journal.jsonl  what the journal holds of that session\nprocesses.txt  what ran in it, where the launcher could tell\n",
                 ws->name, (unsigned long long)session);
        if (moved)
                buf_addf(&out, "workspace/     its folder: home and layers\n");
        else
                buf_addf(&out, "\nIts home and layers stay where they are: %s. They go on changing when it is started again; a copy is yours to make.\n", ws->folder);
        rc = write_in(folder, "README", buf_slice(&out), err);
        buf_fini(&out);
        return rc;
}

/* The folder is renamed as a whole: what the guest wrote stays with its owners, times and modes. The key of its CA is nobody's evidence. */
static int move_folder(const char *from, const char *folder, struct err *err)
{
        char to[PATH_MAX], key[PATH_MAX];

        snprintf(to, sizeof(to), "%.*s/workspace", PATH_MAX - 64, folder);
        if (rename(from, to) < 0)
                return err_sys(err, errno, "%s", from);
        snprintf(key, sizeof(key), "%.*s/ca.key", PATH_MAX - 64, to);
        if (unlink(key) < 0 && errno != ENOENT)
                log_error("%s: %s", key, strerror(errno));
        return 0;
}

int evidence_save(struct workspace *ws, uint64_t session, json_t *processes, bool keep_folder, char out[PATH_MAX], struct err *err)
{
        json_t *alerts = alerts_list(ws->daemon->alerts, ws->name, true);
        int rc = make_folder(ws->daemon, ws->name, out, err);

        if (rc == 0 &&
            (write_json(out, "alerts.json", alerts, err) < 0 || write_rules(ws, out, err) < 0 || write_journal(ws, session, out, err) < 0 ||
             write_processes(processes, out, err) < 0 || write_readme(ws, session, keep_folder, out, err) < 0 || (keep_folder && move_folder(ws->folder, out, err) < 0)))
                rc = -1;
        json_decref(alerts);
        return rc;
}

void evidence_left_over(struct daemon *d, const char *name)
{
        char folder[PATH_MAX], from[PATH_MAX];
        json_t *alerts = alerts_list(d->alerts, name, true);
        struct err err = ERR_INIT;

        snprintf(from, sizeof(from), "%.*s/workspaces/%s", PATH_MAX - 128, d->paths.state, name);
        if (make_folder(d, name, folder, &err) < 0 || write_json(folder, "alerts.json", alerts, &err) < 0 || move_folder(from, folder, &err) < 0) {
                log_error("workspace %s: it was compromised, and its evidence could not be put aside: %s", name, err.text);
        } else {
                log_info("workspace %s: it was compromised when bromed was killed; the evidence is in %s", name, folder);
                alerts_decide(d->alerts, name, "stopped");
        }
        json_decref(alerts);
}
