/* Policy generations: see ruleset.h. */
#include "outer/ruleset.h"

#include "base/fd.h"
#include "outer/limits.h"
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdlib.h>

struct ruleset_ca {
        char *path;
        X509_STORE *store;
        uint8_t digest[32]; /* SHA-256 of its file: the same path may hold another CA in another generation */
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

static const struct ruleset_ca *find_ca(const struct ruleset *r, struct slice ca_path)
{
        for (size_t i = 0; i < r->ca_count; i++)
                if (slice_is(ca_path, r->cas[i].path))
                        return &r->cas[i];
        return NULL;
}

struct x509_store_st *ruleset_store(const struct ruleset *r, struct slice ca_path)
{
        const struct ruleset_ca *ca = find_ca(r, ca_path);

        return ca ? ca->store : NULL;
}

/* ---- routes ------------------------------------------------------------------------------------------------------------------------ */

static bool same_ca(const struct ruleset *before, struct slice was, const struct ruleset *after, struct slice is)
{
        const struct ruleset_ca *a, *b;

        if (was.n == 0 || is.n == 0)
                return was.n == is.n;
        a = find_ca(before, was);
        b = find_ca(after, is);
        return a && b && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

bool ruleset_keeps_route(const struct ruleset *before, const struct ruleset *after, const struct authority *to, bool tls, const struct addr *address)
{
        struct policy_host was, is;

        if (to->is_addr)
                return true; /* host blocks are about names */
        was = policy_host(before->policy, to->name);
        is = policy_host(after->policy, to->name);
        if ((was.port ? was.port : to->port) != (is.port ? is.port : to->port))
                return false;
        if (!address && was.pinned)
                address = &was.address; /* on its way there */
        if (is.pinned ? !address || !addr_eq(address, &is.address) : was.pinned)
                return false;
        return !tls || same_ca(before, was.ca_path, after, is.ca_path);
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
                if (!EVP_Digest(json_string_value(pem), json_string_length(pem), ca->digest, NULL, EVP_sha256(), NULL))
                        return err_set(err, "OpenSSL: no SHA-256");
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
