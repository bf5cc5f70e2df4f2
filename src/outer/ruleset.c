/* Policy generations: see ruleset.h. */
#include "outer/ruleset.h"

#include "base/fd.h"
#include "outer/limits.h"
#include <jansson.h>
#include <openssl/x509.h>
#include <stdlib.h>

struct ruleset_ca {
        char *path;
        X509_STORE *store;
};

void ruleset_free(struct ruleset *r)
{
        if (!r)
                return;
        for (size_t i = 0; i < r->ca_count; i++) {
                free(r->cas[i].path);
                X509_STORE_free(r->cas[i].store);
        }
        free(r->cas);
        policy_free(r->policy);
        free(r);
}

struct x509_store_st *ruleset_store(const struct ruleset *r, struct slice ca_path)
{
        for (size_t i = 0; i < r->ca_count; i++)
                if (slice_is(ca_path, r->cas[i].path))
                        return r->cas[i].store;
        return NULL;
}

static int load_cas(struct ruleset *r, json_t *cas, struct tls *tls, struct err *err)
{
        const char *path;
        json_t *pem;

        if (!cas || json_object_size(cas) == 0)
                return 0;
        r->cas = calloc(json_object_size(cas), sizeof(*r->cas));
        if (!r->cas)
                return err_set(err, "out of memory");
        json_object_foreach(cas, path, pem) {
                struct ruleset_ca *ca = &r->cas[r->ca_count];

                if (!json_is_string(pem))
                        return err_set(err, "policy: a CA that is no text");
                ca->store = tls_store_new(tls, slice_of(json_string_value(pem), json_string_length(pem)), err);
                if (!ca->store)
                        return -1;
                ca->path = strdup(path);
                r->ca_count++;
                if (!ca->path)
                        return err_set(err, "out of memory");
        }
        return 0;
}

static int load_rules(struct ruleset *r, json_t *rules, struct err *err)
{
        struct diags *diags = calloc(1, sizeof(*diags));
        char first[400];

        if (!diags)
                return err_set(err, "out of memory");
        if (json_is_string(rules))
                r->policy = policy_parse(slice_of(json_string_value(rules), json_string_length(rules)), "policy", diags);
        diags_first(diags, first, sizeof(first));
        free(diags);
        return r->policy ? 0 : err_set(err, "policy: %s", first[0] ? first : "no rules in it");
}

struct ruleset *ruleset_load(int fd, long long generation, struct tls *tls, struct err *err)
{
        struct ruleset *r = NULL;
        struct buf text;
        json_t *root = NULL;
        json_error_t je;

        buf_init(&text, POLICY_BYTES);
        if (fd_read_all(fd, &text, POLICY_BYTES, err) == 0) {
                root = json_loadb((const char *)buf_slice(&text).p, buf_len(&text), JSON_REJECT_DUPLICATES, &je);
                r = calloc(1, sizeof(*r));
        }
        buf_fini(&text);
        if (!root || !r) {
                if (r)
                        err_set(err, "policy: not JSON");
                free(r);
                json_decref(root);
                return NULL;
        }
        r->generation = generation;
        if (load_rules(r, json_object_get(root, "rules"), err) < 0 || load_cas(r, json_object_get(root, "cas"), tls, err) < 0) {
                ruleset_free(r);
                r = NULL;
        }
        json_decref(root);
        return r;
}
