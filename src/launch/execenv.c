/* Exec orders: see execenv.h. */
#include "launch/execenv.h"
#include "account/guest.h"
#include "launch/trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct trust_variable own_variables[] = {
        { "HOME", "/root" },
        { "USER", "root" },
        { "LOGNAME", "root" },
        { "SHELL", "/bin/bash" },
        { "LANG", "C.UTF-8" },
};

/* The folders of tools before the system's: an agent finds the interpreter that it was installed with. */
static void set_path(json_t *env, const char *tool_path)
{
        json_object_set_new(env, "PATH", json_sprintf("/root/.local/bin:%s%s/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", tool_path, *tool_path ? ":" : ""));
}

static void set_placeholder(void *env, const char *name, struct slice value)
{
        if (plan_env_name(name))
                json_object_set_new(env, name, json_stringn((const char *)value.p, value.n));
}

json_t *execenv_make(const struct plan *plan, const char *tool_path, const json_t *wanted)
{
        json_t *env = json_object(), *v;
        const char *name;

        set_path(env, tool_path);
        for (size_t i = 0; i < sizeof(own_variables) / sizeof(own_variables[0]); i++)
                json_object_set_new(env, own_variables[i].name, json_string(own_variables[i].value));
        if (plan->ca_cert >= 0)
                for (size_t i = 0; i < trust_variable_count; i++)
                        json_object_set_new(env, trust_variables[i].name, json_string(trust_variables[i].value));
        for (size_t i = 0; i < plan->account_count; i++)
                guest_env(&plan->accounts[i], plan->account_parts[i].as_env, set_placeholder, env);
        if (plan->env)
                json_object_update(env, plan->env);
        json_object_foreach((json_t *)(uintptr_t)wanted, name, v)
                if (plan_env_name(name) && json_is_string(v))
                        json_object_set(env, name, v);
        return env;
}

/* A NULL terminated vector; the strings are the caller's business. */
static char **vector(size_t count) { return calloc(count + 1, sizeof(char *)); }

static char **arguments(const json_t *argv)
{
        size_t n = json_array_size(argv);
        char **out = n && n <= PROTO_EXEC_STRINGS ? vector(n) : NULL;

        for (size_t i = 0; out && i < n; i++)
                if (!(out[i] = (char *)(uintptr_t)json_string_value(json_array_get(argv, i)))) {
                        free(out);
                        return NULL;
                }
        return out;
}

static void free_environment(char **env)
{
        for (size_t i = 0; env && env[i]; i++)
                free(env[i]);
        free(env);
}

static char **environment(json_t *env)
{
        char **out = vector(json_object_size(env));
        const char *name;
        size_t n = 0;
        json_t *v;

        if (!out)
                return NULL;
        json_object_foreach(env, name, v) {
                if (asprintf(&out[n], "%s=%s", name, json_string_value(v)) < 0) {
                        out[n] = NULL;
                        free_environment(out);
                        return NULL;
                }
                n++;
        }
        return out;
}

static uint16_t cells(const struct chan_msg *msg, const char *key, uint16_t otherwise)
{
        long long v = chan_int(msg, key, otherwise);

        return v > 0 && v < 10000 ? (uint16_t)v : otherwise;
}

int execenv_exec(struct mux *m, long long id, const struct chan_msg *msg, const struct plan *plan, const char *tool_path, int *client_fd, struct err *err)
{
        const char *cwd = chan_str(msg, "cwd", "/root");
        char **argv = arguments(json_object_get(msg->body, "argv")), **env = NULL;
        json_t *variables = execenv_make(plan, tool_path, json_object_get(msg->body, "env"));
        int rc;

        env = variables ? environment(variables) : NULL;
        if (!argv || !env || cwd[0] != '/') {
                rc = err_set(err, "exec: not a command");
        } else {
                struct proto_exec e = { .argv = (const char *const *)argv, .env = (const char *const *)env, .cwd = cwd, .pty = chan_bool(msg, "pty", false),
                                        .rows = cells(msg, "rows", 24), .cols = cells(msg, "cols", 80) };
                rc = mux_exec(m, id, &e, client_fd, err);
        }
        free(argv);
        free_environment(env);
        json_decref(variables);
        return rc;
}
