/* Verbs: see verbs.h. The same order as the policy's: the first rule whose scope fits governs. */
#include "daemon/verbs.h"
#include "base/buf.h"
#include "base/esc.h"

#include <stdio.h>

static bool below(struct slice name, struct slice base)
{
        return name.n > base.n && slice_ends(name, base) && name.p[name.n - base.n - 1] == '.';
}

static bool target_covers(const struct target *t, struct slice name)
{
        switch (t->kind) {
        case TARGET_ANY:
                return true;
        case TARGET_NAME:
                return slice_eq(t->name, name);
        case TARGET_SUBTREE:
                return slice_eq(t->name, name) || below(name, t->name);
        case TARGET_BELOW:
                return below(name, t->name);
        case TARGET_TABLE:
                for (size_t i = 0; t->table && i < t->table->count; i++)
                        if (target_covers(&t->table->entries[i], name))
                                return true;
                return false;
        case TARGET_CIDR:
                return false; /* an account's host is a name */
        }
        return false;
}

static bool fits(const struct rule *r, struct slice host, uint16_t port)
{
        if (r->proto != PROTO_WEB && r->proto != PROTO_ANY)
                return false;
        for (size_t k = 0; k < r->port_count; k++)
                for (size_t i = 0; port >= r->ports[k].lo && port <= r->ports[k].hi && i < r->target_count; i++)
                        if (target_covers(&r->targets[i], host))
                                return true;
        return false;
}

/* Nothing of this host gets past it to a later rule. */
static bool governs_all(const struct rule *r)
{
        if (r->path.n)
                return false;
        return r->action == RULE_ALLOW || (!r->read_only && !r->method_count && r->query == QUERY_ANY && r->body == BODY_ANY);
}

static json_t *text(struct slice s)
{
        json_t *t = json_stringn((const char *)s.p, s.n);

        return t ? t : json_string(esc(s));
}

/* NULL: any. */
static json_t *methods_of(const struct rule *r)
{
        json_t *list;

        if (r->read_only)
                return json_pack("[s, s, s]", "GET", "HEAD", "OPTIONS");
        if (!r->method_count)
                return r->profile == PROFILE_NPM ? json_pack("[s, s]", "GET", "HEAD") : r->profile == PROFILE_GIT ? json_pack("[s, s]", "GET", "POST") : NULL;
        list = json_array();
        for (size_t i = 0; i < r->method_count; i++)
                json_array_append_new(list, text(r->methods[i]));
        return list;
}

static void set_query(json_t *o, const struct rule *r)
{
        json_t *keys;

        if (r->query == QUERY_NONE)
                json_object_set_new(o, "query", json_string("none"));
        if (r->query != QUERY_KEYS)
                return;
        keys = json_array();
        for (size_t i = 0; i < r->query_key_count; i++)
                json_array_append_new(keys, text(r->query_keys[i]));
        json_object_set_new(o, "query", keys);
}

static void set_rest(json_t *o, const struct rule *r)
{
        static const char *const profiles[PROFILE_COUNT] = { [PROFILE_NPM] = "npm", [PROFILE_GIT] = "git" };
        char via[1024];

        if (r->path.n)
                json_object_set_new(o, "path", text(r->path));
        if (r->body == BODY_NONE)
                json_object_set_new(o, "body", json_string("none"));
        if (r->body == BODY_MAX)
                json_object_set_new(o, "body", json_integer((json_int_t)r->body_max_bytes));
        if (r->ask)
                json_object_set_new(o, "ask", json_true());
        if (r->profile != PROFILE_NONE)
                json_object_set_new(o, "profile", json_string(profiles[r->profile]));
        if (r->via.found) {
                if (r->via.port == 443)
                        snprintf(via, sizeof(via), "https://%.*s%.*s", SLICE_FMT(r->via.name), SLICE_FMT(r->via.base));
                else
                        snprintf(via, sizeof(via), "https://%.*s:%u%.*s", SLICE_FMT(r->via.name), r->via.port, SLICE_FMT(r->via.base));
                json_object_set_new(o, "via", text(slice_str(via)));
        }
}

/* What the rule's line says of its target, in words that a listing has room for. */
static json_t *rule_json(const struct config_workspace *w, const struct rule *r)
{
        json_t *o = json_object(), *methods = methods_of(r);

        json_object_set_new(o, "rule", json_integer((json_int_t)(r - w->rules)));
        if (methods)
                json_object_set_new(o, "methods", methods);
        else
                json_object_set_new(o, "any", json_true());
        set_query(o, r);
        set_rest(o, r);
        return o;
}

json_t *verbs_of(const struct config_workspace *w, struct slice host, uint16_t port, size_t most)
{
        json_t *list = json_array();
        bool closed = false;
        size_t more = 0;

        for (size_t i = 0; i < w->rule_count; i++) {
                const struct rule *r = &w->rules[i];
                bool rerouted = r->via.found && r->via.port == port && slice_eq(r->via.name, host), here = !closed && fits(r, host, port);

                closed = closed || (here && governs_all(r));
                /* A rule with `via` leads away from the host it names. */
                if (r->action != RULE_ALLOW || !(rerouted || (here && !r->via.found)))
                        continue;
                if (json_array_size(list) < most)
                        json_array_append_new(list, rule_json(w, r));
                else
                        more++;
        }
        if (!closed && w->default_allow)
                json_array_append_new(list, json_pack("{s:i, s:b}", "rule", POLICY_DEFAULT_RULE, "any", 1));
        if (more)
                json_array_append_new(list, json_pack("{s:I}", "more", (json_int_t)more));
        return list;
}
