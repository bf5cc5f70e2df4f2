/* TLS client: see tls.h. */
#include "outer/tls.h"

#include "outer/limits.h"
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

struct session {
        char *key;
        SSL_SESSION *session;
};

struct tls {
        SSL_CTX *ctx;
        struct roots *roots;
        struct session sessions[TLS_SESSIONS_MAX]; /* by hash of the key; a collision replaces */
        uint32_t seed;
        uint64_t era; /* how often the sessions were forgotten */
};

static int tls_index = -1, key_index = -1;

static struct session *session_slot(struct tls *t, const char *key)
{
        uint32_t h = 2166136261u ^ t->seed;

        for (const char *p = key; *p; p++)
                h = (h ^ (uint8_t)*p) * 16777619u;
        return &t->sessions[h % TLS_SESSIONS_MAX];
}

static void session_drop(struct session *s)
{
        free(s->key);
        SSL_SESSION_free(s->session);
        *s = (struct session){ 0 };
}

/* Takes the reference of session when it returns 1. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
        struct tls *t = SSL_get_ex_data(ssl, tls_index);
        const char *key = SSL_get_ex_data(ssl, key_index);
        struct session *s;

        if (!t || !key || SSL_get_verify_result(ssl) != X509_V_OK)
                return 0;
        s = session_slot(t, key);
        session_drop(s);
        s->key = strdup(key);
        s->session = session;
        return s->key ? 1 : (s->session = NULL, 0);
}

static void key_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
        (void)parent;
        (void)ad;
        (void)idx;
        (void)argl;
        (void)argp;
        free(ptr);
}

struct tls *tls_new(bool secrets, struct err *err)
{
        struct tls *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->roots = roots_open(err);
        if (!t->roots)
                goto fail;
        t->ctx = SSL_CTX_new(TLS_client_method());
        tls_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
        key_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, key_free);
        if (!t->ctx || tls_index < 0 || key_index < 0 || !SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) ||
            roots_attach(t->roots, SSL_CTX_get_cert_store(t->ctx)) < 0) {
                err_set(err, "OpenSSL: cannot make a client context");
                goto fail;
        }
        SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_options(t->ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
        if (secrets) /* what was decrypted is wiped when it was read; what is encrypted is so in place */
                SSL_CTX_set_options(t->ctx, SSL_OP_CLEANSE_PLAINTEXT);
        SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(t->ctx, on_session);
        return t;
fail:
        SSL_CTX_free(t->ctx);
        free(t);
        return NULL;
}

size_t tls_root_count(const struct tls *t) { return roots_count(t->roots); }

static int add_pem(X509_STORE *store, struct slice pem, struct err *err)
{
        BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
        X509 *x;
        int n = 0;

        if (!bio)
                return err_set(err, "out of memory");
        while ((x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
                n += X509_STORE_add_cert(store, x) == 1;
                X509_free(x);
        }
        BIO_free(bio);
        ERR_clear_error();
        return n ? 0 : err_set(err, "policy: a CA file without a certificate");
}

X509_STORE *tls_store_new(struct tls *t, struct slice pem, struct err *err)
{
        X509_STORE *store = X509_STORE_new();

        if (pem.n > INT32_MAX || !store || roots_attach(t->roots, store) < 0) {
                err_set(err, "OpenSSL: out of memory");
                X509_STORE_free(store);
                return NULL;
        }
        if (add_pem(store, pem, err) < 0) {
                X509_STORE_free(store);
                return NULL;
        }
        return store;
}

/* SECURITY: the name that the certificate must bear is the canonical one that the policy judged, never one from the guest's bytes. */
static int set_identity(SSL *ssl, const char *host, bool is_addr)
{
        if (is_addr)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

SSL *tls_client(struct tls *t, struct cipher *below, const char *host, bool is_addr, const char *key, X509_STORE *store, bool h2)
{
        static const unsigned char both[] = "\x02h2\x08http/1.1", one[] = "\x08http/1.1";
        SSL *ssl = SSL_new(t->ctx);
        char *copy = NULL;
        struct session *s = NULL;
        BIO *bio = ssl ? cipher_bio(below) : NULL;

        /* SECURITY: with the era in it, what a connection of before the last change of policy hands out later is found by nobody: its certificate may
         * have been verified by a CA that counts no more. */
        if (key && asprintf(&copy, "%llu %s", (unsigned long long)t->era, key) < 0)
                copy = NULL;
        if (copy)
                s = session_slot(t, copy);
        if (!bio || (key && !copy)) {
                BIO_free(bio);
                goto fail;
        }
        SSL_set_bio(ssl, bio, bio);
        if (copy && !SSL_set_ex_data(ssl, key_index, copy))
                goto fail;
        key = copy; /* the connection's now */
        copy = NULL;
        if (!SSL_set_ex_data(ssl, tls_index, t) || !set_identity(ssl, host, is_addr))
                goto fail;
        if (store && !SSL_set1_verify_cert_store(ssl, store))
                goto fail;
        if (SSL_set_alpn_protos(ssl, h2 ? both : one, (unsigned)(h2 ? sizeof(both) : sizeof(one)) - 1) != 0)
                goto fail;
        if (s && s->key && strcmp(s->key, key) == 0)
                (void)!SSL_set_session(ssl, s->session);
        SSL_set_connect_state(ssl);
        return ssl;
fail:
        free(copy);
        SSL_free(ssl);
        return NULL;
}

bool tls_why(SSL *ssl, const char *host, char *out, size_t size)
{
        long verify = SSL_get_verify_result(ssl);
        unsigned long e = ERR_peek_last_error();
        const char *reason = e ? ERR_reason_error_string(e) : NULL;

        if (verify != X509_V_OK) {
                snprintf(out, size, "the certificate of %s cannot be trusted: %s", host, X509_verify_cert_error_string(verify));
                return true;
        }
        snprintf(out, size, "the TLS handshake with %s failed: %s", host, reason ? reason : "the server closed the connection");
        return false;
}

void tls_forget_sessions(struct tls *t)
{
        t->era++;
        for (size_t i = 0; i < TLS_SESSIONS_MAX; i++)
                session_drop(&t->sessions[i]);
}
