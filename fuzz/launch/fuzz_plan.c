/* The plan message: whatever JSON bromed sends, what is taken satisfies a naive reading of the contract (paths absolute and without "..", names that are
 * names, numbers in range), a refusal says why, and nothing is left behind either way. */
#include "hold.h"
#include "launch/plan.h"

#include <string.h>

static bool naive_path(const char *p)
{
        size_t n = strlen(p);

        return p[0] == '/' && n < PATH_MAX && !strstr(p, "/../") && !(n >= 3 && !strcmp(p + n - 3, "/.."));
}

static bool naive_name(const char *s)
{
        size_t n = strlen(s);

        for (size_t i = 0; i < n; i++)
                if (s[i] <= ' ' || s[i] == '/' || s[i] == 0x7f || (s[i] & 0x80))
                        return false;
        return n > 0 && n <= 64 && s[0] != '.' && s[0] != '-';
}

static void check(const struct plan *p)
{
        const char *name;
        json_t *v;

        HOLDS(naive_name(p->workspace) && naive_name(p->hostname) && naive_path(p->state) && naive_path(p->home) && (!p->cache[0] || naive_path(p->cache)));
        HOLDS(p->session >= 0 && p->memory_bytes >= 0 && p->processes > 0 && p->cpu_percent >= 0);
        HOLDS(p->share_count <= PLAN_SHARES && p->protect_count <= PLAN_PROTECT);
        for (size_t i = 0; i < p->share_count; i++)
                HOLDS(naive_path(p->shares[i].path) && p->shares[i].mode < SHARE_MODE_COUNT);
        for (size_t i = 0; i < p->protect_count; i++)
                HOLDS(naive_path(p->protect[i]));
        if (p->env)
                json_object_foreach(p->env, name, v)
                        HOLDS(name[0] && !strchr(name, '=') && json_is_string(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct plan plan;
        struct chan_msg msg = { .body = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL) };
        struct err err = ERR_INIT;

        if (!json_is_object(msg.body)) {
                json_decref(msg.body);
                return 0;
        }
        if (plan_parse(&plan, &msg, &err) == 0)
                check(&plan);
        else
                HOLDS(err.text[0]);
        plan_fini(&plan);
        chan_msg_fini(&msg);
        return 0;
}
