/* Accounts of a list: see listed.h. */
#include "account/listed.h"
#include "account/placeholder.h"

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
static const char variable[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static struct slice text_of(const json_t *o, const char *key)
{
        json_t *v = json_object_get(o, key);

        return json_is_string(v) ? slice_of(json_string_value(v), json_string_length(v)) : SLICE_EMPTY;
}

/* All of s out of `alphabet`, or (NULL) without control characters, quotes and backslashes: it comes to stand in files that tools parse. */
static bool made_of(struct slice s, const char *alphabet)
{
        for (size_t i = 0; i < s.n; i++) {
                char c = (char)s.p[i];
                bool good = alphabet ? c && strchr(alphabet, c) : s.p[i] >= 0x20 && s.p[i] != 0x7f && c != '"' && c != '\\';

                if (!good)
                        return false;
        }
        return true;
}

static bool take_hosts(struct binding *b, struct binding_host out[ACCOUNT_HOSTS_MAX], const json_t *hosts)
{
        size_t i;
        json_t *v;

        if (json_array_size(hosts) == 0 || json_array_size(hosts) > ACCOUNT_HOSTS_MAX)
                return false;
        json_array_foreach(hosts, i, v) {
                json_int_t port = json_integer_value(json_object_get(v, "port"));
                struct slice name = text_of(v, "name");

                if (name.n == 0 || name.n > 253 || !made_of(name, lower) || port < 1 || port > 65535)
                        return false;
                out[i] = (struct binding_host){ .name = name, .port = (uint16_t)port };
        }
        b->hosts = out;
        b->host_count = json_array_size(hosts);
        return true;
}

bool listed_read(const json_t *v, struct binding *b, struct binding_host hosts[ACCOUNT_HOSTS_MAX], struct slice *as_env)
{
        *b = (struct binding){ .name = text_of(v, "name"), .kind = kind_by_name(text_of(v, "kind")), .user = text_of(v, "user"), .placeholder = text_of(v, "placeholder") };
        *as_env = text_of(v, "env");
        if (b->name.n == 0 || b->name.n > 64 || !made_of(b->name, lower) || slice_find(b->name, '.') >= 0 || b->kind == ACCOUNT_KIND_COUNT)
                return false;
        if (as_env->n > 64 || !made_of(*as_env, variable) || (as_env->n > 0 && as_env->p[0] >= '0' && as_env->p[0] <= '9'))
                return false;
        return placeholder_ok(b->placeholder) && b->user.n <= LISTED_USER_BYTES && made_of(b->user, NULL) && take_hosts(b, hosts, json_object_get(v, "hosts"));
}
