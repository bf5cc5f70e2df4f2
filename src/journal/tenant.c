/* Workspaces known to the writer, by name: loaded once, kept in memory, because every record needs one. */
#include "journal/journal_priv.h"

#include "journal/schema.h"

#include <stdlib.h>

static size_t bucket_of(const struct journal *j, struct slice name)
{
        uint64_t h = 0xcbf29ce484222325u;

        for (size_t i = 0; i < name.n; i++)
                h = (h ^ name.p[i]) * 0x100000001b3u;
        return (size_t)((h ^ h >> 32) & (j->bucket_count - 1));
}

struct tenant *tenant_find(struct journal *j, struct slice name, size_t *index)
{
        if (!j->bucket_count)
                return NULL;
        for (size_t at = bucket_of(j, name); j->buckets[at]; at = (at + 1) & (j->bucket_count - 1)) {
                struct tenant *t = j->tenants[j->buckets[at] - 1];
                if (!slice_eq(slice_of(t->name, t->name_len), name))
                        continue;
                if (index)
                        *index = j->buckets[at] - 1;
                return t;
        }
        return NULL;
}

static void bucket_add(struct journal *j, size_t index)
{
        const struct tenant *t = j->tenants[index];
        size_t at = bucket_of(j, slice_of(t->name, t->name_len));

        while (j->buckets[at])
                at = (at + 1) & (j->bucket_count - 1);
        j->buckets[at] = index + 1;
}

/* Room for one more; the table stays at most half full. */
static int grow(struct journal *j)
{
        size_t cap = j->tenant_cap ? j->tenant_cap * 2 : 16;
        struct tenant **tenants;
        size_t *buckets;

        if (j->tenant_count < j->tenant_cap)
                return 0;
        tenants = realloc(j->tenants, cap * sizeof(*tenants));
        if (!tenants)
                return -1;
        j->tenants = tenants;
        buckets = calloc(cap * 2, sizeof(*buckets));
        if (!buckets)
                return -1;
        free(j->buckets);
        j->buckets = buckets;
        j->bucket_count = cap * 2;
        j->tenant_cap = cap;
        for (size_t i = 0; i < j->tenant_count; i++)
                bucket_add(j, i);
        return 0;
}

struct tenant *tenant_get(struct journal *j, struct slice name, size_t *index)
{
        struct tenant *t = tenant_find(j, name, index);

        if (t || name.n > JOURNAL_WORKSPACE_BYTES || j->tenant_count >= JOURNAL_WORKSPACES || grow(j) < 0)
                return t;
        t = calloc(1, sizeof(*t));
        if (!t)
                return NULL;
        if (name.n)
                memcpy(t->name, name.p, name.n);
        t->name_len = name.n;
        t->id = j->next_workspace++;
        j->tenants[j->tenant_count] = t;
        bucket_add(j, j->tenant_count);
        if (index)
                *index = j->tenant_count;
        j->tenant_count++;
        return t;
}

/* Loaded in the order of their ids, so halving finds one. */
static struct tenant *by_id(struct journal *j, int64_t id)
{
        size_t lo = 0, hi = j->tenant_count;

        while (lo < hi) {
                size_t mid = lo + (hi - lo) / 2;
                if (j->tenants[mid]->id == id)
                        return j->tenants[mid];
                if (j->tenants[mid]->id < id)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return NULL;
}

static int load_names(struct journal *j, struct err *err)
{
        sqlite3_stmt *s;
        int rc;

        if (schema_prepare(j->db, "SELECT id, name, sessions FROM workspace ORDER BY id", &s, err) < 0)
                return -1;
        while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
                struct tenant *t = tenant_get(j, schema_blob(s, 1), NULL);
                if (!t)
                        break;
                t->id = sqlite3_column_int64(s, 0);
                t->sessions = (uint64_t)sqlite3_column_int64(s, 2);
                t->stored = true;
                if (t->id >= j->next_workspace)
                        j->next_workspace = t->id + 1;
        }
        sqlite3_finalize(s);
        return rc == SQLITE_DONE ? 0 : schema_fail(j->db, err, "workspaces");
}

int tenants_load(struct journal *j, struct err *err)
{
        sqlite3_stmt *s;
        int rc;

        j->next_workspace = 1;
        if (load_names(j, err) < 0 || schema_prepare(j->db, "SELECT workspace, class, rows, bytes FROM usage", &s, err) < 0)
                return -1;
        while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
                struct tenant *t = by_id(j, sqlite3_column_int64(s, 0));
                int64_t class = sqlite3_column_int64(s, 1);
                if (!t || class < 0 || class >= JOURNAL_CLASS_COUNT)
                        continue;
                t->usage[class] = (struct usage){ (uint64_t)sqlite3_column_int64(s, 2), (uint64_t)sqlite3_column_int64(s, 3) };
        }
        sqlite3_finalize(s);
        return rc == SQLITE_DONE ? 0 : schema_fail(j->db, err, "usage");
}

void tenants_free(struct journal *j)
{
        for (size_t i = 0; i < j->tenant_count; i++) {
                if (j->tenants[i]->coalesce)
                        coalesce_fini(j->tenants[i]->coalesce);
                free(j->tenants[i]->coalesce);
                free(j->tenants[i]);
        }
        free(j->tenants);
        free(j->buckets);
}
