/* The plan: see plan.h. */
#include "launch/plan.h"
#include "account/listed.h"
#include "base/esc.h"
#include "base/fd.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool path_clean(const char *p)
{
        if (p[0] != '/' || strlen(p) >= PATH_MAX - 256)
                return false;
        for (const char *at = p; (at = strstr(at, "/..")); at += 3)
                if (at[3] == '/' || at[3] == 0)
                        return false;
        return true;
}

static bool name_clean(const char *s)
{
        size_t n = strlen(s);

        return n > 0 && n <= 64 && s[0] != '-' && s[0] != '.' &&
               strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

bool plan_env_name(const char *name)
{
        return name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name) &&
               !(name[0] >= '0' && name[0] <= '9');
}

static int take_path(char *out, const struct chan_msg *msg, const char *key, struct err *err)
{
        const char *s = chan_str(msg, key, "");

        if (!path_clean(s))
                return err_set(err, "plan: %s is not an absolute path", key);
        snprintf(out, PATH_MAX, "%s", s);
        return 0;
}

static int take_name(char out[65], const struct chan_msg *msg, const char *key, struct err *err)
{
        const char *s = chan_str(msg, key, "");

        if (!name_clean(s))
                return err_set(err, "plan: %s is not a name", key);
        snprintf(out, 65, "%s", s);
        return 0;
}

static int take_number(long long *out, const struct chan_msg *msg, const char *key, long long most, struct err *err)
{
        *out = chan_int(msg, key, 0);
        return *out < 0 || *out > most ? err_set(err, "plan: %s is out of range", key) : 0;
}

static int take_share(struct plan_share *s, const json_t *v, struct err *err)
{
        static const char *const mode_names[SHARE_MODE_COUNT] = { [SHARE_READ_WRITE] = "rw", [SHARE_READ_ONLY] = "ro", [SHARE_OVERLAY] = "overlay" };
        const char *path = json_string_value(json_object_get(v, "path")), *mode = json_string_value(json_object_get(v, "mode"));

        if (!path || !path_clean(path) || !mode)
                return err_set(err, "plan: a share needs an absolute path and a mode");
        snprintf(s->path, sizeof(s->path), "%s", path);
        s->sockets = json_is_true(json_object_get(v, "sockets"));
        for (size_t i = 0; i < SHARE_MODE_COUNT; i++)
                if (strcmp(mode, mode_names[i]) == 0) {
                        s->mode = (enum share_mode)i;
                        return 0;
                }
        return err_set(err, "plan: unknown share mode %s", esc_str(mode));
}

static int take_lists(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        const json_t *shares = json_object_get(msg->body, "shares"), *protect = json_object_get(msg->body, "protect");
        size_t i;
        json_t *v;

        if (json_array_size(shares) > PLAN_SHARES)
                return err_set(err, "more than %d shares in one workspace", PLAN_SHARES);
        if (json_array_size(protect) > PLAN_PROTECT)
                return err_set(err, "plan: too many protected paths");
        json_array_foreach(shares, i, v) {
                if (take_share(&plan->shares[i], v, err) < 0)
                        return -1;
                plan->share_count++;
        }
        json_array_foreach(protect, i, v) {
                const char *p = json_string_value(v);
                if (!p || !path_clean(p) || !(plan->protect[i] = strdup(p)))
                        return err_set(err, "plan: a protected path is not absolute");
                plan->protect_count++;
        }
        return 0;
}

static int take_tools(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        const json_t *tools = json_object_get(msg->body, "tools");
        size_t i;
        json_t *v;

        if (json_array_size(tools) > PLAN_TOOLS)
                return err_set(err, "plan: too many folders of tools");
        json_array_foreach(tools, i, v) {
                struct plan_share *t = &plan->tools[i];
                const char *p = json_string_value(v);

                if (!p || !path_clean(p))
                        return err_set(err, "plan: a tool's folder is not absolute");
                *t = (struct plan_share){ .mode = SHARE_READ_ONLY };
                snprintf(t->path, sizeof(t->path), "%s", p);
                plan->tool_count++;
        }
        return 0;
}

static int take_links(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        json_t *links = json_object_get(msg->body, "tool_links"), *v;
        const char *name;

        if (json_object_size(links) > PLAN_TOOLS)
                return err_set(err, "plan: too many programs");
        json_object_foreach(links, name, v) {
                struct plan_link *l = &plan->links[plan->link_count++];
                const char *p = json_string_value(v);

                if (!*name || strlen(name) > NAME_MAX || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !p || !path_clean(p))
                        return err_set(err, "plan: a program is no name with an absolute path");
                snprintf(l->name, sizeof(l->name), "%s", name);
                snprintf(l->target, sizeof(l->target), "%s", p);
        }
        return 0;
}

/* ---- accounts ---- */

static int take_accounts(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        json_t *list = json_object_get(msg->body, "accounts"), *v;
        size_t i;

        if (json_array_size(list) > PLAN_ACCOUNTS)
                return err_set(err, "plan: too many accounts");
        plan->account_parts = calloc(PLAN_ACCOUNTS, sizeof(*plan->account_parts));
        if (!plan->account_parts)
                return err_set(err, "out of memory");
        plan->accounts_json = json_incref(list);
        json_array_foreach(list, i, v) {
                if (!listed_read(v, &plan->accounts[i], plan->account_parts[i].hosts, &plan->account_parts[i].as_env))
                        return err_set(err, "plan: account %zu is none", i);
                plan->account_count++;
        }
        return 0;
}

static int take_env(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        const char *name;
        json_t *v;

        plan->env = json_incref(json_object_get(msg->body, "env"));
        if (plan->env && !json_is_object(plan->env))
                return err_set(err, "plan: env is not an object");
        json_object_foreach(plan->env, name, v)
                if (!plan_env_name(name) || !json_is_string(v))
                        return err_set(err, "plan: %s is not a variable", esc_str(name));
        return 0;
}

static long long usual_cpus(void)
{
        cpu_set_t set;
        int n = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);

        return n < PLAN_MACHINE_CPUS ? 1 : PLAN_MACHINE_CPUS;
}

/* bromed that does not say a kind wants namespaces; a word that is none ends the launch, since the other kind could be the weaker one. */
static int take_kind(struct plan *plan, const struct chan_msg *msg, struct err *err)
{
        const char *kind = json_object_get(msg->body, "isolation") ? chan_str(msg, "isolation", "") : "namespace";

        plan->machine = strcmp(kind, "vm") == 0;
        if (!plan->machine)
                return strcmp(kind, "namespace") == 0 ? 0 : err_set(err, "plan: unknown isolation %s", esc_str(kind));
        if (take_path(plan->image, msg, "image", err) < 0 || take_number(&plan->cpus, msg, "cpus", COMMAND_CPUS, err) < 0)
                return -1;
        if (plan->cpus == 0)
                plan->cpus = usual_cpus();
        if (plan->memory_bytes == 0)
                plan->memory_bytes = PLAN_MACHINE_BYTES;
        plan->processes = PLAN_MACHINE_THREADS;
        return 0;
}

long long plan_group_bytes(const struct plan *plan)
{
        return plan->memory_bytes && plan->machine ? plan->memory_bytes + (COMMAND_OVERHEAD_MIB * (1LL << 20)) : plan->memory_bytes;
}

int plan_parse(struct plan *plan, struct chan_msg *msg, struct err *err)
{
        *plan = (struct plan){ .ca_cert = -1 };
        if (take_name(plan->workspace, msg, "workspace", err) < 0 || take_name(plan->hostname, msg, "hostname", err) < 0 ||
            take_path(plan->state, msg, "state", err) < 0 || take_path(plan->home, msg, "home", err) < 0 ||
            (json_object_get(msg->body, "cache") && take_path(plan->cache, msg, "cache", err) < 0) ||
            take_number(&plan->session, msg, "session", LLONG_MAX, err) < 0 || take_number(&plan->memory_bytes, msg, "memory_bytes", 1LL << 50, err) < 0 ||
            take_number(&plan->processes, msg, "processes", 1 << 22, err) < 0 || take_number(&plan->cpu_percent, msg, "cpu_percent", 1000 * 1000, err) < 0 ||
            take_kind(plan, msg, err) < 0 || take_lists(plan, msg, err) < 0 || take_tools(plan, msg, err) < 0 || take_links(plan, msg, err) < 0 || take_accounts(plan, msg, err) < 0 || take_env(plan, msg, err) < 0)
                return -1;
        if (plan->processes == 0)
                plan->processes = PLAN_PROCESSES;
        plan->nested = chan_bool(msg, "nested", false);
        plan->ca_cert = chan_take_fd(msg, 0);
        return 0;
}

void plan_fini(struct plan *plan)
{
        for (size_t i = 0; i < plan->protect_count; i++)
                free(plan->protect[i]);
        json_decref(plan->env);
        json_decref(plan->accounts_json);
        free(plan->account_parts);
        fd_close(&plan->ca_cert);
        plan->protect_count = plan->account_count = 0;
        plan->accounts_json = NULL;
        plan->account_parts = NULL;
        plan->env = NULL;
}
