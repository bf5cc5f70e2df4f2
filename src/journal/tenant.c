/* Workspaces known to the writer, by name: loaded once, kept in memory, because every record needs one; and their lists by age. */
#include "journal/journal_priv.h"

#include "base/log.h"
#include "journal/schema.h"

#include <stdlib.h>

static size_t bucket_of(struct slice name, size_t buckets)
{
        uint64_t h = 0xcbf29ce484222325u;

        for (size_t i = 0; i < name.n; i++)
                h = (h ^ name.p[i]) * 0x100000001b3u;
        return (size_t)((h ^ h >> 32) & (buckets - 1));
}

static struct slice name_of(const struct tenant *t) { return slice_of(t->name, t->name_len); }

struct tenant *tenant_find(struct journal *j, struct slice name)
{
        struct tenant *t = j->bucket_count ? j->buckets[bucket_of(name, j->bucket_count)] : NULL;

        while (t && !slice_eq(name_of(t), name))
                t = t->bucket_next;
        return t;
}

static void bucket_add(struct tenant **buckets, size_t count, struct tenant *t)
{
        size_t at = bucket_of(name_of(t), count);

        t->bucket_next = buckets[at];
        buckets[at] = t;
}

/* Room for one more: as many buckets as names. */
static int grow(struct journal *j)
{
        size_t count = j->bucket_count ? j->bucket_count * 2 : 64;
        struct tenant **buckets, *t;

        if (j->tenant_count < j->bucket_count)
                return 0;
        buckets = calloc(count, sizeof(struct tenant *));
        if (!buckets)
                return -1;
        TAILQ_FOREACH(t, &j->traced, age)
                bucket_add(buckets, count, t);
        TAILQ_FOREACH(t, &j->bare, age)
                bucket_add(buckets, count, t);
        free(j->buckets);
        j->buckets = buckets;
        j->bucket_count = count;
        return 0;
}

static void list_leave(struct journal *j, struct tenant *t)
{
        if (t->bare) {
                TAILQ_REMOVE(&j->bare, t, age);
        } else {
                TAILQ_REMOVE(&j->traced, t, age);
                j->traced_count--;
        }
}

static void list_join(struct journal *j, struct tenant *t, bool bare)
{
        t->bare = bare;
        if (bare) {
                TAILQ_INSERT_TAIL(&j->bare, t, age);
        } else {
                TAILQ_INSERT_TAIL(&j->traced, t, age);
                j->traced_count++;
        }
}

void tenant_age(struct journal *j, struct tenant *t, bool bare)
{
        list_leave(j, t);
        list_join(j, t, bare);
}

void tenant_use(struct journal *j, struct tenant *t)
{
        tenant_age(j, t, false);
        if (t->active)
                return;
        t->active = true;
        LIST_INSERT_HEAD(&j->active, t, work);
}

static void free_coalesce(struct tenant *t)
{
        if (t->coalesce)
                coalesce_fini(t->coalesce);
        free(t->coalesce);
        t->coalesce = NULL;
}

void tenants_rest(struct journal *j, int64_t now_ms)
{
        struct tenant *t = LIST_FIRST(&j->active), *next;

        for (; t; t = next) {
                next = LIST_NEXT(t, work);
                if (t->pruned || (t->coalesce && !coalesce_over(t->coalesce, now_ms)))
                        continue;
                free_coalesce(t);
                LIST_REMOVE(t, work);
                t->active = false;
        }
}

struct tenant *tenant_get(struct journal *j, struct slice name)
{
        struct tenant *t = tenant_find(j, name);

        if (t || name.n > JOURNAL_WORKSPACE_BYTES || j->tenant_count >= JOURNAL_WORKSPACES || grow(j) < 0)
                return t;
        t = calloc(1, sizeof(*t));
        if (!t)
                return NULL;
        if (name.n)
                memcpy(t->name, name.p, name.n);
        t->name_len = name.n;
        t->id = j->next_workspace++;
        bucket_add(j->buckets, j->bucket_count, t);
        list_join(j, t, false);
        j->tenant_count++;
        return t;
}

void tenant_drop(struct journal *j, struct tenant *t)
{
        struct tenant **at = &j->buckets[bucket_of(name_of(t), j->bucket_count)];

        MUST(!t->active);
        while (*at != t)
                at = &(*at)->bucket_next;
        *at = t->bucket_next;
        list_leave(j, t);
        j->tenant_count--;
        free_coalesce(t);
        free(t);
}

/* ---- loading ---- */

struct loaded {
        struct tenant *t;
        int64_t last; /* its youngest record */
};

static int by_age(const void *a, const void *b)
{
        const struct loaded *x = a, *y = b;

        return x->last < y->last ? -1 : x->last > y->last;
}

/* A row: a workspace and one of its classes. 1, 0 when it is not to be had. */
static int load_row(struct journal *j, sqlite3_stmt *s, struct loaded *to)
{
        struct tenant *t = tenant_get(j, schema_blob(s, 1));
        int64_t class = sqlite3_column_int64(s, 3), last = sqlite3_column_int64(s, 6);

        if (!t)
                return 0;
        t->id = sqlite3_column_int64(s, 0);
        t->sessions = (uint64_t)sqlite3_column_int64(s, 2);
        t->stored = true;
        if (t->id >= j->next_workspace)
                j->next_workspace = t->id + 1;
        *to = (struct loaded){ t, to->t == t && to->last > last ? to->last : last };
        if (sqlite3_column_type(s, 3) != SQLITE_NULL && class >= 0 && class < JOURNAL_CLASS_COUNT)
                t->usage[class] = (struct usage){ (uint64_t)sqlite3_column_int64(s, 4), (uint64_t)sqlite3_column_int64(s, 5) };
        return 1;
}

static bool has_trace(const struct tenant *t) { return t->usage[JOURNAL_TRACE].rows || t->usage[JOURNAL_LOGGED].rows || t->usage[JOURNAL_DOOR].rows; }

int tenants_load(struct journal *j, struct err *err)
{
        static const char all[] = "SELECT w.id, w.name, w.sessions, u.class, u.rows, u.bytes,"
                                  " (SELECT max(seq) FROM record r WHERE r.workspace = u.workspace AND r.class = u.class)"
                                  " FROM workspace w LEFT JOIN usage u ON u.workspace = w.id ORDER BY w.id";
        struct loaded *list = calloc(JOURNAL_WORKSPACES, sizeof(*list)), one = { 0 };
        sqlite3_stmt *s = NULL;
        int rc = SQLITE_DONE;

        j->next_workspace = 1;
        if (!list || schema_prepare(j->db, all, &s, err) < 0) {
                free(list);
                return list ? -1 : err_set(err, "out of memory");
        }
        while ((rc = sqlite3_step(s)) == SQLITE_ROW && load_row(j, s, &one))
                list[j->tenant_count - 1] = one;
        sqlite3_finalize(s);
        qsort(list, j->tenant_count, sizeof(*list), by_age);
        for (size_t i = 0; i < j->tenant_count; i++)
                tenant_age(j, list[i].t, !has_trace(list[i].t));
        free(list);
        return rc == SQLITE_DONE ? 0 : schema_fail(j->db, err, "workspaces");
}

static void free_all(struct tenant_ages *list)
{
        struct tenant *t;

        while ((t = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, t, age);
                free_coalesce(t);
                free(t);
        }
}

void tenants_free(struct journal *j)
{
        free_all(&j->traced);
        free_all(&j->bare);
        free(j->buckets);
}
