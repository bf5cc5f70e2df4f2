/* Evidence: see evidence.h. */
#include "daemon/evidence.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/alerts.h"
#include "daemon/record.h"
#include "journal/print.h"
#include "journal/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
        JOURNAL_ROWS = 20000,                   /* the newest: a second of work for the one loop */
        TEXT_ROWS = 5000,                       /* of the listings for a person, of the last hour */
        CONSOLE_BYTES = 512 * 1024,             /* of console.log, which the launcher keeps shorter */
        EXTRACT_BYTES = 32 * 1024 * 1024,       /* of one file of the evidence */
        FILES_MAX = 20000,                      /* names in files.txt: likewise a second */
        FILES_DEPTH_MAX = 64,                   /* folders in folders; each is an open descriptor */
        LAST_HOUR_S = 3600,
        PROCESS_SHOWN_BYTES = 2048,             /* of one line: the launcher cuts before */
        PLACEHOLDER_BYTES_MIN = 24, SHOWN_BYTES = 12, /* of a word that may be a placeholder; what is shown of it */
        PROCESSES_BYTES = 256 * 1024,           /* of the list that the trip left behind: what a message holds, escaped */
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

/* --- the journal --- */

struct rows {
        struct buf out;
        size_t count;
};

static int json_line(void *ctx, const struct row *row)
{
        struct rows *r = ctx;
        r->count++;
        return print_timeline(&r->out, PRINT_JSON, row);
}
static int timeline_line(void *ctx, const struct row *row)
{
        struct rows *r = ctx;
        r->count++;
        return print_timeline(&r->out, PRINT_TEXT, row);
}
static int trace_line(void *ctx, const struct row *row)
{
        struct rows *r = ctx;
        r->count++;
        return print_trace(&r->out, PRINT_TEXT, row);
}

/* One listing. JSON stays JSON: there the cut is a line of its own kind. */
static int write_rows(struct reader *r, const struct filter *f, enum view view, row_fn *fn, const char *folder, const char *name, struct err *err)
{
        struct rows rows = { .count = 0 };
        int rc;

        buf_init(&rows.out, EXTRACT_BYTES);
        if (fn == timeline_line)
                (void)!print_timeline_head(&rows.out, PRINT_TEXT);
        else if (fn == trace_line)
                (void)!print_trace_head(&rows.out, PRINT_TEXT);
        rc = view == VIEW_TRACE ? reader_trace(r, f, fn, &rows, err) : reader_timeline(r, f, fn, &rows, err);
        if (rows.out.failed || (f->limit && rows.count >= f->limit)) {
                rows.out.failed = false;
                rows.out.limit_bytes = 0;
                buf_addf(&rows.out, fn == json_line ? "{\"cut\":\"only the newest %zu; brome timeline --json has the rest\"}\n"
                                                    : "CUT: only the newest %zu lines are here; brome timeline and brome trace ls have the rest\n", f->limit);
        }
        rc = rc < 0 ? -1 : write_in(folder, name, buf_slice(&rows.out), err);
        buf_fini(&rows.out);
        return rc;
}

/* How far the chain goes and its MAC there: what of the journal was written before this cannot be changed unnoticed from now on. */
static int write_head(const struct daemon *d, const char *folder, struct err *err)
{
        char path[PATH_MAX];
        struct buf head;
        int rc;

        buf_init(&head, 0);
        snprintf(path, sizeof(path), "%.*s/journal.head", PATH_MAX - 32, d->paths.state);
        rc = fd_read_file(path, &head, 4096, err) < 0 ? -1 : write_in(folder, "journal.head", buf_slice(&head), err);
        buf_fini(&head);
        return rc;
}

static int write_journal(const struct workspace *ws, uint64_t session, const char *folder, struct err *err)
{
        struct filter f = { .workspace = slice_str(ws->name), .session = session, .limit = JOURNAL_ROWS };
        struct reader *r;
        int rc = -1;

        record_flush(ws->daemon);
        r = reader_open(ws->daemon->paths.state, err);
        if (r && write_rows(r, &f, VIEW_TIMELINE, json_line, folder, "journal.jsonl", err) == 0) {
                f = (struct filter){ .workspace = f.workspace, .since_us = clock_real_us() - LAST_HOUR_S * INT64_C(1000000), .limit = TEXT_ROWS };
                rc = write_rows(r, &f, VIEW_TIMELINE, timeline_line, folder, "timeline.txt", err) < 0 ||
                                     write_rows(r, &f, VIEW_TRACE, trace_line, folder, "requests.txt", err) < 0 || write_head(ws->daemon, folder, err) < 0
                             ? -1
                             : 0;
        }
        reader_close(r);
        return rc;
}

/* --- its files --- */

struct walk {
        struct buf out;
        size_t left;
        bool cut;
};

static void put_file(struct walk *w, const char *path, const char *name, const struct stat *st)
{
        char when[32] = "-", shown[1024];
        struct tm t;

        if (gmtime_r(&st->st_mtim.tv_sec, &t))
                strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &t);
        buf_addf(&w->out, "%s %06o %7u %12lld  %s", when, (unsigned)st->st_mode, (unsigned)st->st_uid, (long long)st->st_size, path);
        buf_addf(&w->out, "%s%s\n", esc_text(shown, sizeof(shown), slice_str(name)), S_ISDIR(st->st_mode) ? "/" : "");
}

/* SECURITY: the guest made these names. No link is followed and no file is opened, folders by their descriptor only. Takes fd. */
static void list_files(struct walk *w, int fd, const char *path, unsigned depth)
{
        DIR *dir = fdopendir(fd);
        const struct dirent *e;

        if (!dir) {
                fd_close(&fd);
                return;
        }
        while ((e = readdir(dir))) {
                char below[PATH_MAX], shown[1024];
                struct stat st;
                int sub;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || (!*path && strcmp(e->d_name, "ca.key") == 0) ||
                    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (!w->left) {
                        w->cut = true;
                        break;
                }
                w->left--;
                put_file(w, path, e->d_name, &st);
                if (!S_ISDIR(st.st_mode))
                        continue;
                sub = depth < FILES_DEPTH_MAX && snprintf(below, sizeof(below), "%s%s/", path, esc_text(shown, sizeof(shown), slice_str(e->d_name))) < (int)sizeof(below)
                              ? openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                              : -1;
                if (sub < 0)
                        buf_addf(&w->out, "NOT READ: what is in it\n");
                else
                        list_files(w, sub, below, depth + 1);
        }
        closedir(dir);
}

static int write_files(const struct workspace *ws, const char *folder, struct err *err)
{
        struct walk w = { .left = FILES_MAX };
        int fd = open(ws->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

        buf_init(&w.out, EXTRACT_BYTES);
        if (fd >= 0)
                list_files(&w, fd, "", 0);
        if (w.cut || w.out.failed || fd < 0) {
                w.out.failed = false;
                w.out.limit_bytes = 0;
                buf_addf(&w.out, fd < 0 ? "NOT READ: its folder\n" : "CUT: only %d names are here\n", FILES_MAX);
        }
        rc = write_in(folder, "files.txt", buf_slice(&w.out), err);
        buf_fini(&w.out);
        return rc;
}

/* Names only: a value may be what nobody should read twice. */
static int write_environment(const struct workspace *ws, const char *folder, struct err *err)
{
        struct buf out;
        int rc;

        buf_init(&out, 0);
        for (size_t i = 0; i < ws->conf->env_count; i++)
                buf_addf(&out, "%s  of the configuration\n", esc(ws->conf->env[i].name));
        for (size_t i = 0; i < ws->conf->credential_count; i++)
                buf_addf(&out, "(the variables of credential %s: a placeholder in each)\n", esc(ws->conf->credentials[i]->b.name));
        rc = write_in(folder, "environment.txt", buf_slice(&out), err);
        buf_fini(&out);
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

/* As the trip left it; NULL: it did not. */
static json_t *kept_processes(const struct workspace *ws)
{
        struct err quiet = ERR_INIT;
        char path[PATH_MAX];
        json_t *list = NULL;
        struct buf text;

        buf_init(&text, 0);
        if (snprintf(path, sizeof(path), "%s/" WORKSPACE_PROCESSES, ws->folder) < (int)sizeof(path) && fd_read_file(path, &text, PROCESSES_BYTES, &quiet) == 0)
                list = json_loadb((const char *)buf_slice(&text).p, buf_len(&text), JSON_REJECT_DUPLICATES, NULL);
        buf_fini(&text);
        return list;
}

/* A placeholder in an argument: its prefix says which one it was, the rest is nobody's to copy. */
static void add_masked(struct buf *out, const char *line)
{
        static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

        while (*line) {
                size_t n = strspn(line, word), shown = n;
                bool ours = n >= PLACEHOLDER_BYTES_MIN && memmem(line, n, "brm", 3);

                if (ours)
                        shown = SHOWN_BYTES;
                buf_add(out, line, shown ? shown : 1);
                if (ours)
                        buf_add_str(out, "…");
                line += n ? n : 1;
        }
        buf_add_str(out, "\n");
}

/* A machine's list would hold QEMU alone. SECURITY: what runs inside only its kernel could tell, which is the guest's, and which stands still. */
static int write_no_processes(const char *folder, struct err *err)
{
        return write_in(folder, "processes.txt", SLICE_LIT("NOT KNOWN: a machine that stands still cannot be asked, and one that runs would have changed; its disks and its console are kept\n"), err);
}

static int write_processes(const struct workspace *ws, json_t *processes, const char *folder, struct err *err)
{
        json_t *list, *line;
        char shown[PROCESS_SHOWN_BYTES];
        struct buf out;
        size_t i;
        int rc;

        if (ws->conf->isolation == ISOLATION_VM)
                return write_no_processes(folder, err);
        list = processes ? json_incref(processes) : kept_processes(ws);
        buf_init(&out, 0);
        json_array_foreach(list, i, line)
                add_masked(&out, esc_text(shown, sizeof(shown), slice_str(json_is_string(line) ? json_string_value(line) : "")));
        if (!json_array_size(list))
                buf_addf(&out, "NOT KNOWN: nothing was stopped in it, or its programs were gone before anybody could look\n");
        rc = write_in(folder, "processes.txt", buf_slice(&out), err);
        buf_fini(&out);
        json_decref(list);
        return rc;
}

/* The next start empties the log; here it stays, one escaped line for each of the machine's. */
static int write_console(const struct workspace *ws, const char *folder, struct err *err)
{
        char path[PATH_MAX], shown[PROCESS_SHOWN_BYTES];
        struct buf text, out;
        struct err quiet = ERR_INIT;
        struct slice rest;
        int rc;

        buf_init(&text, 0);
        buf_init(&out, 0);
        snprintf(path, sizeof(path), "%.*s/console.log", PATH_MAX - 32, ws->folder);
        if (ws->conf->isolation != ISOLATION_VM)
                buf_addf(&out, "NONE: the workspace was no virtual machine\n");
        else if (fd_read_file(path, &text, CONSOLE_BYTES, &quiet) < 0)
                buf_addf(&out, "NOT READ: %s\n", quiet.text);
        for (rest = buf_slice(&text); rest.n;) {
                ptrdiff_t end = slice_find(rest, '\n');
                struct slice line = end < 0 ? rest : slice_first(rest, (size_t)end);

                rest = slice_skip(rest, line.n + (end >= 0));
                add_masked(&out, esc_text(shown, sizeof(shown), line));
        }
        rc = write_in(folder, "console.txt", buf_slice(&out), err);
        buf_fini(&text);
        buf_fini(&out);
        return rc;
}

static int write_readme(const struct workspace *ws, uint64_t session, bool moved, const char *folder, struct err *err)
{
        struct buf out;
        int rc;

        buf_init(&out, 0);
        buf_addf(&out, "Evidence of workspace %s, session %llu.\n\n"
                       "alerts.json      what the tripwire met\n"
                       "rules.conf       the rules and accounts it had (no secrets)\n"
                       "environment.txt  names of the variables it was given, without their values\n"
                       "processes.txt    what ran when it was stopped: number, parent, user, arguments\n"
                       "console.txt      of a virtual machine: what it and QEMU wrote to its console\n"
                       "files.txt        its folder: time, mode, owner and size of every file of home and layers\n"
                       "timeline.txt     the Security Timeline of the last hour\n"
                       "requests.txt     requests and flows of the last hour; one without a status or an end was open\n"
                       "journal.jsonl    what the journal holds of that session; each line has its number in the chain\n"
                       "journal.head     how far the chain went, and its MAC there; `brome trace verify` checks it\n"
                       "SHA256SUMS       of all these; its own digest stands in the journal\n\n"
                       "Text of the guest is escaped. Where something was too long, a line says CUT.\n\n",
                 ws->name, (unsigned long long)session);
        if (moved)
                buf_addf(&out, "workspace/       its folder: home and layers\n");
        else
                buf_addf(&out, "Its home and layers stay where they are: %s. They go on changing when it is started again; a copy is yours to make.\n", ws->folder);
        if (ws->conf->isolation == ISOLATION_VM)
                buf_addf(&out, "\nA virtual machine's home and system are its disks, %s/vm/home.qcow2 and system.qcow2: layers over home.ext4 and base.ext4 of the image that vm/image names.\n"
                               "Keep that image. Look at a copy, read-only, and never with what lies below a layer taken from its own head: the machine may have written it.\n"
                               "No memory is kept.\n", moved ? "workspace" : ws->folder);
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

/* --- sums --- */

static const char *const kept[] = { "README", "alerts.json", "console.txt", "environment.txt", "files.txt", "journal.head", "journal.jsonl", "processes.txt", "requests.txt", "rules.conf", "timeline.txt" };

static bool hex_digest(char out[65], struct slice text)
{
        uint8_t digest[32];

        if (EVP_Digest(text.n ? text.p : (const uint8_t *)"", text.n, digest, NULL, EVP_sha256(), NULL) != 1)
                return false;
        for (size_t i = 0; i < sizeof(digest); i++)
                snprintf(out + 2 * i, 3, "%02x", digest[i]);
        return true;
}

/* What was saved shows a later change: sums beside it, their sum in the chain. */
static int write_sums(const struct workspace *ws, const char *folder, struct err *err)
{
        struct event_record e;
        char path[PATH_MAX], hex[65], detail[PATH_MAX + 128];
        struct buf sums;
        int rc = 0;

        buf_init(&sums, 0);
        for (size_t i = 0; rc == 0 && i < sizeof(kept) / sizeof(kept[0]); i++) {
                struct buf text;

                buf_init(&text, 0);
                snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - 64, folder, kept[i]);
                rc = fd_read_file(path, &text, EXTRACT_BYTES + 4096, err);
                if (rc == 0 && !hex_digest(hex, buf_slice(&text)))
                        rc = err_set(err, "libcrypto has no SHA-256");
                if (rc == 0)
                        buf_addf(&sums, "%s  %s\n", hex, kept[i]);
                buf_fini(&text);
        }
        if (rc == 0)
                rc = write_in(folder, "SHA256SUMS", buf_slice(&sums), err);
        if (rc == 0 && hex_digest(hex, buf_slice(&sums))) {
                snprintf(detail, sizeof(detail), "in %s; SHA-256 of its SHA256SUMS: %s", esc_str(folder), hex);
                event_init(&e, EVENT_NOTE);
                event_text(&e, EVENT_ENGINE, SLICE_LIT("Tripwire"));
                event_text(&e, EVENT_SUBJECT, SLICE_LIT("evidence"));
                event_text(&e, EVENT_DETAIL, slice_str(detail));
                (void)!record_note(ws->daemon, ws, &e, false);
        }
        buf_fini(&sums);
        return rc;
}

int evidence_save(struct workspace *ws, uint64_t session, json_t *processes, bool keep_folder, char out[PATH_MAX], struct err *err)
{
        json_t *alerts = alerts_list(ws->daemon->alerts, ws->name, true);
        int rc = make_folder(ws->daemon, ws->name, out, err);

        if (rc == 0 &&
            (write_json(out, "alerts.json", alerts, err) < 0 || write_rules(ws, out, err) < 0 || write_journal(ws, session, out, err) < 0 ||
             write_environment(ws, out, err) < 0 || write_processes(ws, processes, out, err) < 0 || write_files(ws, out, err) < 0 || write_console(ws, out, err) < 0 ||
             write_readme(ws, session, keep_folder, out, err) < 0 || write_sums(ws, out, err) < 0 || (keep_folder && move_folder(ws->folder, out, err) < 0)))
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
