/* TLS towards the guest: see tls.h.
 *
 * One key for all leaves, made at start: a guest that got it from here could only fool itself. Leaves differ in name only and are kept. A session
 * ticket is bound to the flow's place by the session id context, so no resumption crosses from one name to another. */
#include "inner/tls.h"
#include "inner/limits.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/queue.h>

enum { CERT_BUCKETS = 256, CERT_SERIAL_BYTES = 16, CERT_CN_BYTES = 64 /* RFC 5280 ub-common-name */ };

struct leaf {
        TAILQ_ENTRY(leaf) age;
        struct leaf *next;
        X509 *cert;
        size_t n;
        uint8_t place[]; /* name, or the 16 bytes of an address */
};

struct tls {
        SSL_CTX *ctx;
        X509 *ca;
        EVP_PKEY *ca_key, *leaf_key;
        X509_EXTENSION *ext[4]; /* what every leaf has */
        size_t ext_n;
        struct leaf *bucket[CERT_BUCKETS];
        TAILQ_HEAD(, leaf) age; /* oldest first */
        size_t leaves;
};

/* --- leaves --- */

static struct slice place_of(const struct authority *to)
{
        return to->is_addr ? slice_of(to->addr.b, sizeof(to->addr.b)) : to->name;
}

static struct leaf **bucket_of(struct tls *t, struct slice place)
{
        uint32_t h = 2166136261u;

        for (size_t i = 0; i < place.n; i++)
                h = (h ^ place.p[i]) * 16777619u;
        return &t->bucket[h % CERT_BUCKETS];
}

static int add_san(X509 *cert, const struct authority *to)
{
        GENERAL_NAMES *names = GENERAL_NAMES_new();
        GENERAL_NAME *name = GENERAL_NAME_new();
        ASN1_STRING *text = to->is_addr ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
        struct slice v = place_of(to);
        int ok = 0;

        if (to->is_addr && addr_is_v4(&to->addr))
                v = slice_skip(v, 12);
        if (!names || !name || !text || !ASN1_STRING_set(text, v.p, (int)v.n))
                goto out;
        GENERAL_NAME_set0_value(name, to->is_addr ? GEN_IPADD : GEN_DNS, text);
        text = NULL;
        if (!sk_GENERAL_NAME_push(names, name))
                goto out;
        name = NULL;
        ok = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT);
out:
        ASN1_STRING_free(text);
        GENERAL_NAME_free(name);
        GENERAL_NAMES_free(names);
        return ok ? 0 : -1;
}

static int set_serial(X509 *cert)
{
        uint8_t bytes[CERT_SERIAL_BYTES];
        BIGNUM *bn;
        int ok;

        if (RAND_bytes(bytes, sizeof(bytes)) != 1)
                return -1;
        bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, no leading zero */
        bn = BN_bin2bn(bytes, sizeof(bytes), NULL);
        ok = bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(cert));
        BN_free(bn);
        return ok ? 0 : -1;
}

static int set_subject(X509 *cert, const struct authority *to)
{
        X509_NAME *subject = X509_get_subject_name(cert);

        if (to->is_addr || to->name.n > CERT_CN_BYTES)
                return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const uint8_t *)"brome", -1, -1, 0) ? 0 : -1;
        return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, to->name.p, (int)to->name.n, -1, 0) ? 0 : -1;
}

/* Not beyond the CA's own life. */
static int set_times(const struct tls *t, X509 *cert)
{
        if (!X509_gmtime_adj(X509_getm_notBefore(cert), -CERT_BACKDATE_S) || !X509_gmtime_adj(X509_getm_notAfter(cert), (long)CERT_DAYS * 86400))
                return -1;
        if (ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(t->ca)) > 0)
                return X509_set1_notAfter(cert, X509_get0_notAfter(t->ca)) ? 0 : -1;
        return 0;
}

static X509 *sign_leaf(struct tls *t, const struct authority *to)
{
        X509 *cert = X509_new();

        if (!cert || !X509_set_version(cert, X509_VERSION_3) || set_serial(cert) < 0 || !X509_set_issuer_name(cert, X509_get_subject_name(t->ca)) ||
            set_subject(cert, to) < 0 || set_times(t, cert) < 0 || !X509_set_pubkey(cert, t->leaf_key) || add_san(cert, to) < 0)
                goto bad;
        for (size_t i = 0; i < t->ext_n; i++)
                if (!X509_add_ext(cert, t->ext[i], -1))
                        goto bad;
        if (X509_sign(cert, t->ca_key, EVP_sha256()))
                return cert;
bad:
        X509_free(cert);
        return NULL;
}

static void forget_oldest(struct tls *t)
{
        struct leaf *l = TAILQ_FIRST(&t->age), **at = bucket_of(t, slice_of(l->place, l->n));

        while (*at != l)
                at = &(*at)->next;
        *at = l->next;
        TAILQ_REMOVE(&t->age, l, age);
        X509_free(l->cert);
        free(l);
        t->leaves--;
}

static X509 *leaf_for(struct tls *t, const struct authority *to)
{
        struct slice place = place_of(to);
        struct leaf **bucket = bucket_of(t, place), *l;

        for (l = *bucket; l; l = l->next)
                if (slice_eq(slice_of(l->place, l->n), place) && X509_cmp_current_time(X509_get0_notAfter(l->cert)) > 0)
                        return l->cert;
        if (t->leaves >= CERTS_MAX)
                forget_oldest(t);
        l = malloc(sizeof(*l) + place.n);
        if (!l)
                return NULL;
        l->cert = sign_leaf(t, to);
        if (!l->cert) {
                free(l);
                return NULL;
        }
        l->n = place.n;
        memcpy(l->place, place.p, place.n);
        l->next = *bucket;
        *bucket = l;
        TAILQ_INSERT_TAIL(&t->age, l, age);
        t->leaves++;
        return l->cert;
}

/* --- servers --- */

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned in_n, void *arg)
{
        static const unsigned char ours[] = "\x02h2\x08http/1.1\x08http/1.0";
        unsigned char *chosen;

        (void)ssl, (void)arg;
        if (SSL_select_next_proto(&chosen, out_n, ours, sizeof(ours) - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *out = chosen;
        return SSL_TLSEXT_ERR_OK;
}

/* SECURITY: name and port go into the session's context; OpenSSL resumes no session of another context. */
static int bind_sessions(SSL *ssl, const struct authority *to)
{
        uint8_t text[HOST_BYTES_MAX + 3], id[EVP_MAX_MD_SIZE];
        struct slice place = place_of(to);
        unsigned n;

        if (place.n > HOST_BYTES_MAX)
                return -1;
        text[0] = to->is_addr;
        text[1] = (uint8_t)(to->port >> 8);
        text[2] = (uint8_t)to->port;
        memcpy(text + 3, place.p, place.n);
        if (!EVP_Digest(text, place.n + 3, id, &n, EVP_sha256(), NULL))
                return -1;
        return SSL_set_session_id_context(ssl, id, n) ? 0 : -1;
}

SSL *tls_accept(struct tls *t, const struct authority *to)
{
        X509 *cert = leaf_for(t, to);
        SSL *ssl = cert ? SSL_new(t->ctx) : NULL;

        if (ssl && SSL_use_certificate(ssl, cert) == 1 && SSL_use_PrivateKey(ssl, t->leaf_key) == 1 && bind_sessions(ssl, to) == 0) {
                SSL_set_accept_state(ssl);
                return ssl;
        }
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
}

bool tls_is_h2(SSL *ssl)
{
        const unsigned char *p;
        unsigned n;

        SSL_get0_alpn_selected(ssl, &p, &n);
        return slice_is(slice_of(p, n), "h2");
}

static SSL_CTX *server_ctx(void)
{
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

        if (!ctx)
                return NULL;
        SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
        SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets only: no memory a guest could fill */
        SSL_CTX_set_num_tickets(ctx, 1);
        SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
        if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION)) {
                SSL_CTX_free(ctx);
                return NULL;
        }
        return ctx;
}

/* --- life --- */

static int add_ext(struct tls *t, int nid, const char *value)
{
        X509V3_CTX ctx;
        X509_EXTENSION *ext;

        X509V3_set_ctx(&ctx, t->ca, NULL, NULL, NULL, 0); /* no subject: were it the CA too, OpenSSL would leave its key identifier out */
        ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
        if (!ext)
                return -1;
        t->ext[t->ext_n++] = ext;
        return 0;
}

static void *read_pem(struct slice pem, bool key)
{
        BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
        void *p = NULL;

        if (b && key)
                p = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
        else if (b)
                p = PEM_read_bio_X509(b, NULL, NULL, NULL);
        BIO_free(b);
        return p;
}

/* The key of all leaves. Made the old way on purpose: OpenSSL 3.0 encodes and decodes a key of the new kind anew for each certificate that gets
 * it (220 µs, eight times the signature), one of the old kind it only refers to. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static EVP_PKEY *new_key(void)
{
        EC_KEY *ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
        EVP_PKEY *key = EVP_PKEY_new();

        if (ec && key && EC_KEY_generate_key(ec) == 1 && EVP_PKEY_set1_EC_KEY(key, ec) == 1) {
                EC_KEY_free(ec);
                return key;
        }
        EC_KEY_free(ec);
        EVP_PKEY_free(key);
        return NULL;
}
#pragma GCC diagnostic pop

struct tls *tls_open(struct slice key_pem, struct slice cert_pem, struct err *err)
{
        struct tls *t = calloc(1, sizeof(*t));

        if (!t) {
                err_set(err, "TLS: out of memory");
                return NULL;
        }
        TAILQ_INIT(&t->age);
        t->ca_key = read_pem(key_pem, true);
        t->ca = read_pem(cert_pem, false);
        if (!t->ca_key || !t->ca || X509_check_private_key(t->ca, t->ca_key) != 1) {
                err_set(err, "the workspace's CA cannot be read: remove its ca.key and ca.pem and start it again");
                goto bad;
        }
        t->leaf_key = new_key();
        t->ctx = server_ctx();
        if (!t->leaf_key || !t->ctx || add_ext(t, NID_basic_constraints, "critical,CA:FALSE") < 0 || add_ext(t, NID_key_usage, "critical,digitalSignature") < 0 ||
            add_ext(t, NID_ext_key_usage, "serverAuth") < 0 || add_ext(t, NID_authority_key_identifier, "keyid") < 0) {
                err_set(err, "TLS: OpenSSL failed: %s", ERR_error_string(ERR_get_error(), NULL));
                goto bad;
        }
        ERR_clear_error();
        return t;
bad:
        ERR_clear_error();
        tls_close(t);
        return NULL;
}

void tls_close(struct tls *t)
{
        if (!t)
                return;
        while (t->leaves)
                forget_oldest(t);
        for (size_t i = 0; i < t->ext_n; i++)
                X509_EXTENSION_free(t->ext[i]);
        SSL_CTX_free(t->ctx);
        X509_free(t->ca);
        EVP_PKEY_free(t->ca_key);
        EVP_PKEY_free(t->leaf_key);
        free(t);
}
