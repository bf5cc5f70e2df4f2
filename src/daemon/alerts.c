/* Alerts: see alerts.h. */
#include "daemon/alerts.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct alerts {
        const char *path;
        json_t *list; /* the oldest first */
        json_int_t last;
};

static const char *text_of(const json_t *alert, const char *key)
{
        const char *s = json_string_value(json_object_get(alert, key));

        return s ? s : "";
}

static bool is_open(const json_t *alert) { return strcmp(text_of(alert, "decision"), "open") == 0; }

static void put_aside(const char *path)
{
        char to[PATH_MAX];

        if (snprintf(to, sizeof(to), "%s.damaged", path) < (int)sizeof(to) && rename(path, to) == 0)
                log_error("%s is damaged and was put aside as %s; earlier alerts stand in the journal", path, to);
        else
                log_error("%s is damaged; earlier alerts stand in the journal", path);
}

static json_t *read_list(const char *path)
{
        json_t *all = NULL, *list = NULL, *alert;
        struct err err = ERR_INIT;
        struct buf text;
        size_t i;

        if (access(path, F_OK) < 0 && errno == ENOENT)
                return json_array();
        buf_init(&text, ALERTS_FILE_BYTES + 65536);
        if (fd_read_file(path, &text, ALERTS_FILE_BYTES, &err) == 0)
                all = json_loadb((const char *)buf_slice(&text).p, buf_len(&text), 0, NULL);
        buf_fini(&text);
        list = json_incref(json_object_get(all, "alerts"));
        json_decref(all);
        if (!json_is_array(list)) {
                json_decref(list);
                put_aside(path);
                return json_array();
        }
        for (i = json_array_size(list); i-- > 0;) {
                alert = json_array_get(list, i);
                if (!json_is_object(alert) || !json_is_integer(json_object_get(alert, "id")))
                        json_array_remove(list, i);
        }
        return list;
}

struct alerts *alerts_new(const char *path)
{
        struct alerts *a = calloc(1, sizeof(*a));
        json_t *alert;
        size_t i;

        if (!a)
                return NULL;
        *a = (struct alerts){ .path = path, .list = read_list(path) };
        json_array_foreach(a->list, i, alert)
                if (json_integer_value(json_object_get(alert, "id")) > a->last)
                        a->last = json_integer_value(json_object_get(alert, "id"));
        return a;
}

void alerts_free(struct alerts *a)
{
        if (!a)
                return;
        json_decref(a->list);
        free(a);
}

static int save(const struct alerts *a, struct err *err)
{
        json_t *all = json_pack("{s:O}", "alerts", a->list);
        char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
        int rc = text ? fd_write_file(a->path, 0600, text, strlen(text), err) : err_set(err, "out of memory");

        free(text);
        json_decref(all);
        return rc;
}

static void make_room(struct alerts *a)
{
        while (json_array_size(a->list) >= ALERTS_KEPT) {
                size_t gone = 0;

                while (gone < json_array_size(a->list) && is_open(json_array_get(a->list, gone)))
                        gone++;
                json_array_remove(a->list, gone < json_array_size(a->list) ? gone : 0);
        }
}

json_t *alerts_add(struct alerts *a, json_t *alert, struct err *err)
{
        make_room(a);
        json_object_set_new(alert, "id", json_integer(++a->last));
        json_object_set_new(alert, "time_us", json_integer(clock_real_us()));
        json_object_set_new(alert, "decision", json_string("open"));
        json_array_append_new(a->list, alert);
        (void)!save(a, err);
        return alert;
}

size_t alerts_decide(struct alerts *a, const char *workspace, const char *decision)
{
        struct err err = ERR_INIT;
        json_t *alert;
        size_t i, n = 0;

        json_array_foreach(a->list, i, alert)
                if (is_open(alert) && strcmp(text_of(alert, "workspace"), workspace) == 0) {
                        json_object_set_new(alert, "decision", json_string(decision));
                        n++;
                }
        if (n && save(a, &err) < 0)
                log_error("alerts: %s", err.text);
        return n;
}

json_t *alerts_open(const struct alerts *a, const char *workspace)
{
        for (size_t i = json_array_size(a->list); i-- > 0;) {
                json_t *alert = json_array_get(a->list, i);

                if (is_open(alert) && strcmp(text_of(alert, "workspace"), workspace) == 0)
                        return alert;
        }
        return NULL;
}

size_t alerts_count_open(const struct alerts *a)
{
        size_t n = 0;

        for (size_t i = 0; i < json_array_size(a->list); i++)
                n += is_open(json_array_get(a->list, i));
        return n;
}

json_t *alerts_list(const struct alerts *a, const char *workspace, bool all)
{
        json_t *list = json_array();
        size_t bytes = 0;

        for (size_t i = json_array_size(a->list); i-- > 0;) {
                json_t *alert = json_array_get(a->list, i);
                char *text;

                if ((!all && !is_open(alert)) || (workspace && strcmp(text_of(alert, "workspace"), workspace) != 0))
                        continue;
                text = json_dumps(alert, JSON_COMPACT);
                bytes += text ? strlen(text) + 1 : ALERTS_LISTED_BYTES;
                free(text);
                if (bytes > ALERTS_LISTED_BYTES)
                        break;
                json_array_append(list, alert);
        }
        return list;
}
