/* The system's root certificates, as an index over the mapped bundle: 140 parsed certificates cost over a megabyte of every process
 * that loads them; a door needs two or three. See tls.h. */
#include "outer/tls.h"

#include "outer/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Alpine, Arch */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* older ones of these */
        "/var/lib/ca-certificates/ca-bundle.pem",            /* SUSE */
        "/etc/ssl/ca-bundle.pem",                            /* older SUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine, BSD layouts */
};

struct root {
        unsigned long subject_hash;
        uint32_t at, n; /* of the PEM block in the map */
};

struct roots {
        const char *map;
        size_t map_bytes;
        struct root root[TLS_ROOTS_MAX];
        size_t count;
        X509_LOOKUP_METHOD *method;
};

static X509 *root_parse(const struct roots *r, const struct root *root)
{
        BIO *bio = BIO_new_mem_buf(r->map + root->at, (int)root->n);
        X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

        BIO_free(bio);
        return x;
}

/* One value at *p of at most *n bytes: its content, or NULL when it is not of that tag. *p and *n go past it. */
static const unsigned char *der_next(const unsigned char **p, long *n, int want, long *content)
{
        const unsigned char *at = *p;
        int tag, class;

        if (*n <= 0 || (ASN1_get_object(&at, content, &tag, &class, *n) & 0x81) || tag != want || class != V_ASN1_UNIVERSAL)
                return NULL;
        *n -= (at - *p) + *content;
        *p = at + *content;
        return at;
}

/* The subject out of a certificate's bytes: Certificate { TBSCertificate { [0] version, serial, signature, issuer, validity, subject … (RFC 5280 §4.1).
 * Parsing whole certificates would cost each start of a door 30 ms, most of it for keys that nobody asks for. */
static X509_NAME *subject_of(const unsigned char *p, long n)
{
        static const int before[] = { V_ASN1_INTEGER, V_ASN1_SEQUENCE, V_ASN1_SEQUENCE, V_ASN1_SEQUENCE };
        const unsigned char *at;
        long len;

        if (!(p = der_next(&p, &n, V_ASN1_SEQUENCE, &len)) || (n = len, !(p = der_next(&p, &n, V_ASN1_SEQUENCE, &len))))
                return NULL;
        n = len;
        if (n > 4 && p[0] == 0xa0) {
                int tag, class;

                at = p;
                if (ASN1_get_object(&at, &len, &tag, &class, n) & 0x81)
                        return NULL;
                n -= (at - p) + len;
                p = at + len;
        }
        for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
                if (!der_next(&p, &n, before[i], &len))
                        return NULL;
        return d2i_X509_NAME(NULL, &p, n);
}

static X509_NAME *subject_at(const struct roots *r, const struct root *root)
{
        BIO *bio = BIO_new_mem_buf(r->map + root->at, (int)root->n);
        char *name = NULL, *header = NULL;
        unsigned char *der = NULL;
        X509_NAME *subject = NULL;
        long n;

        if (bio && PEM_read_bio(bio, &name, &header, &der, &n) == 1)
                subject = subject_of(der, n);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(der);
        BIO_free(bio);
        return subject;
}

/* One pass over the bundle: where each certificate stands and whose it is. Nothing parsed is kept. */
static void roots_index(struct roots *r)
{
        static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----";
        const char *p = r->map, *stop = r->map + r->map_bytes;

        while (r->count < TLS_ROOTS_MAX && (p = memmem(p, (size_t)(stop - p), begin, sizeof(begin) - 1))) {
                struct root *root = &r->root[r->count];
                const char *q = memmem(p, (size_t)(stop - p), end, sizeof(end) - 1);
                X509_NAME *subject;

                if (!q)
                        break;
                q += sizeof(end) - 1;
                *root = (struct root){ .at = (uint32_t)(p - r->map), .n = (uint32_t)(q - p) };
                subject = subject_at(r, root);
                if (subject) {
                        root->subject_hash = X509_NAME_hash_ex(subject, NULL, NULL, NULL);
                        r->count++;
                }
                X509_NAME_free(subject);
                p = q;
        }
        ERR_clear_error();
        malloc_trim(0);
}

static int open_bundle(struct roots *r, struct err *err)
{
        struct stat st;

        for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
                int fd = open(bundles[i], O_RDONLY | O_CLOEXEC);
                void *map;

                if (fd < 0)
                        continue;
                if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > TLS_ROOTS_BYTES) {
                        close(fd);
                        continue;
                }
                map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
                close(fd);
                if (map == MAP_FAILED)
                        return err_sys(err, errno, "%s", bundles[i]);
                r->map = map;
                r->map_bytes = (size_t)st.st_size;
                return 0;
        }
        return 0; /* no roots: every verification fails and says so */
}

/* Adds every root of that name to the store and hands the first to the caller, as by_dir of OpenSSL does. */
static int roots_by_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *out)
{
        struct roots *r = X509_LOOKUP_get_method_data(lookup);
        X509_STORE *store = X509_LOOKUP_get_store(lookup);
        unsigned long hash = X509_NAME_hash_ex(name, NULL, NULL, NULL);
        int found = 0;

        if (type != X509_LU_X509 || !r || !store)
                return 0;
        for (size_t i = 0; i < r->count; i++) {
                X509 *x;

                if (r->root[i].subject_hash != hash)
                        continue;
                x = root_parse(r, &r->root[i]);
                if (x && X509_NAME_cmp(X509_get_subject_name(x), name) == 0 && X509_STORE_add_cert(store, x) == 1 && !found) {
                        found = X509_OBJECT_set1_X509(out, x);
                        /* The caller takes its own reference of what stands in `out` and drops none: the store's must be the one that counts. */
                        if (found)
                                X509_free(x);
                }
                X509_free(x);
        }
        return found;
}

struct roots *roots_open(struct err *err)
{
        struct roots *r = calloc(1, sizeof(*r));

        if (!r || open_bundle(r, err) < 0) {
                free(r);
                return NULL;
        }
        r->method = X509_LOOKUP_meth_new("mapped bundle");
        if (!r->method || !X509_LOOKUP_meth_set_get_by_subject(r->method, roots_by_subject)) {
                err_set(err, "OpenSSL: out of memory");
                free(r);
                return NULL;
        }
        if (r->map)
                roots_index(r);
        return r;
}

size_t roots_count(const struct roots *r) { return r->count; }

int roots_attach(struct roots *r, X509_STORE *store)
{
        X509_LOOKUP *lookup = X509_STORE_add_lookup(store, r->method);

        return lookup && X509_LOOKUP_set_method_data(lookup, r) ? 0 : -1;
}
