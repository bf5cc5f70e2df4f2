/* Trust: see trust.h. */
#include "launch/trust.h"
#include "launch/place.h"
#include "base/buf.h"
#include "base/fd.h"
#include "launch/javastore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* No single variable is enough: each line has clients that read nothing else. Those that *replace* the store point at the whole bundle. */
const struct trust_variable trust_variables[] = {
        { "SSL_CERT_FILE", TRUST_BUNDLE },        /* OpenSSL, Go, rustls-native-certs, ruby */
        { "SSL_CERT_DIR", "/etc/ssl/certs" },     /* OpenSSL */
        { "NODE_EXTRA_CA_CERTS", TRUST_OWN },     /* Node adds it to its own roots */
        { "REQUESTS_CA_BUNDLE", TRUST_BUNDLE },   /* Python requests carries its own roots */
        { "CURL_CA_BUNDLE", TRUST_BUNDLE },       /* curl, and requests */
        { "PIP_CERT", TRUST_BUNDLE },             /* pip */
        { "GIT_SSL_CAINFO", TRUST_BUNDLE },       /* git, whichever TLS library its curl has */
        { "CARGO_HTTP_CAINFO", TRUST_BUNDLE },    /* cargo */
        { "DENO_CERT", TRUST_OWN },               /* Deno adds it */
        { "AWS_CA_BUNDLE", TRUST_BUNDLE },        /* AWS's tools */
        { "npm_config_cafile", TRUST_BUNDLE },    /* npm */
        { "PERL_LWP_SSL_CA_FILE", TRUST_BUNDLE }, /* LWP */
        { "CODEX_CA_CERTIFICATE", TRUST_OWN },    /* Codex adds it */
};
const size_t trust_variable_count = COUNT(trust_variables);

static const char *const bundles[] = { TRUST_BUNDLE, TRUST_OTHER_BUNDLES };

const char *trust_host_bundle(void)
{
        for (size_t i = 0; i < COUNT(bundles); i++)
                if (access(bundles[i], R_OK) == 0)
                        return bundles[i];
        return NULL;
}

static int write_at(const char *etc, const char *tail, struct slice text, struct err *err)
{
        char path[PATH_MAX];
        int fd, e;

        place(path, sizeof(path), "%s/%s", etc, tail);
        unlink(path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        e = fd_write_all(fd, text.p, text.n) < 0 ? errno : 0;
        fd_close(&fd);
        return e ? err_sys(err, e, "%s", path) : 0;
}

static int link_at(const char *etc, const char *tail, const char *target, struct err *err)
{
        char path[PATH_MAX], parent[PATH_MAX];
        char *slash;

        place(path, sizeof(path), "%s/%s", etc, tail);
        place(parent, sizeof(parent), "%s", path);
        slash = strrchr(parent, '/');
        if (slash)
                *slash = 0;
        if (fd_mkdirs(parent, 0755, err) < 0)
                return -1;
        unlink(path);
        return symlink(target, path) < 0 ? err_sys(err, errno, "%s", path) : 0;
}

int trust_hash(struct slice pem, char hash[9], struct err *err)
{
        BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
        X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

        if (cert)
                snprintf(hash, 9, "%08lx", X509_subject_name_hash(cert));
        BIO_free(bio);
        X509_free(cert);
        return cert ? 0 : err_set(err, "the workspace's CA is not a certificate; wipe the workspace to make a new one");
}

/* With the first free number. */
static int link_hash(const char *etc, const char *below, struct slice pem, struct err *err)
{
        char hash[9], tail[64], path[PATH_MAX];
        struct stat st;
        int rc = -1;

        if (trust_hash(pem, hash, err) < 0)
                return -1;
        for (int n = 0; n < 16 && rc < 0; n++) {
                place(tail, sizeof(tail), "ssl/certs/%s.%d", hash, n);
                place(path, sizeof(path), "%s/%s", below, tail);
                if (lstat(path, &st) < 0)
                        rc = link_at(etc, tail, "brome.pem", err);
        }
        return rc;
}

static int write_java(const char *etc, struct slice bundle, struct err *err)
{
        struct buf store;
        struct stat st;
        char path[PATH_MAX];
        int rc;

        if (stat("/etc/ssl/certs/java", &st) < 0 && stat("/usr/lib/jvm", &st) < 0)
                return 0;
        place(path, sizeof(path), "%s/ssl/certs/java", etc);
        buf_init(&store, 0);
        rc = fd_mkdirs(path, 0755, err) < 0 || javastore_make(&store, bundle, err) < 0 ? -1 : write_at(etc, "ssl/certs/java/cacerts", buf_slice(&store), err);
        buf_fini(&store);
        return rc;
}

int trust_write_links(const char *etc, struct err *err)
{
        for (size_t i = 1; i < COUNT(bundles); i++)
                if (link_at(etc, bundles[i] + strlen("/etc/"), TRUST_BUNDLE, err) < 0)
                        return -1;
        return 0;
}

static int write_all(const char *etc, const char *below, struct slice pem, struct buf *bundle, struct err *err)
{
        if (write_at(etc, "ssl/certs/ca-certificates.crt", buf_slice(bundle), err) < 0)
                return -1;
        if (pem.n && (write_at(etc, "ssl/certs/brome.pem", pem, err) < 0 || link_hash(etc, below, pem, err) < 0))
                return -1;
        return write_java(etc, buf_slice(bundle), err);
}

int trust_write(const char *etc, const char *below, struct slice pem, struct err *err)
{
        const char *host = trust_host_bundle();
        char path[PATH_MAX];
        struct buf bundle;
        int rc;

        buf_init(&bundle, 0);
        place(path, sizeof(path), "%s/ssl/certs", etc);
        rc = fd_mkdirs(path, 0755, err);
        if (rc == 0 && host)
                rc = fd_read_file(host, &bundle, TRUST_BUNDLE_BYTES, err);
        if (rc == 0 && buf_len(&bundle))
                rc = buf_add_str(&bundle, "\n");
        if (rc == 0)
                rc = buf_add_slice(&bundle, pem) < 0 ? err_set(err, "out of memory") : write_all(etc, below, pem, &bundle, err);
        buf_fini(&bundle);
        return rc;
}
