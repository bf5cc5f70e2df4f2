/* The certificate authority of a workspace: see ca.h. */
#include "daemon/ca.h"
#include "base/buf.h"
#include "base/fd.h"

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum { CA_FILE_BYTES = 16 * 1024 };

static int add_extension(X509 *cert, int nid, const char *value)
{
        X509V3_CTX ctx;
        X509_EXTENSION *e;
        int ok;

        X509V3_set_ctx_nodb(&ctx);
        X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
        e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
        ok = e && X509_add_ext(cert, e, -1);
        X509_EXTENSION_free(e);
        return ok;
}

/* 16 random bytes, positive: RFC 5280 §4.1.2.2. */
static int set_serial(X509 *cert)
{
        unsigned char bytes[16];
        BIGNUM *n = NULL;
        int ok = RAND_bytes(bytes, sizeof(bytes)) == 1;

        bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
        ok = ok && (n = BN_bin2bn(bytes, sizeof(bytes), NULL)) && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
        BN_free(n);
        return ok;
}

static X509 *make_certificate(EVP_PKEY *key, const char *workspace)
{
        char name[128];
        X509 *cert = X509_new();
        X509_NAME *dn;
        int ok;

        snprintf(name, sizeof(name), "brome workspace %.63s", workspace);
        if (!cert)
                return NULL;
        dn = X509_get_subject_name(cert);
        ok = X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
             X509_NAME_add_entry_by_txt(dn, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) && X509_set_issuer_name(cert, dn) &&
             X509_gmtime_adj(X509_getm_notBefore(cert), -CA_BACKDATE_S) &&
             X509_time_adj_ex(X509_getm_notAfter(cert), CA_YEARS * 365, 0, NULL) && X509_set_pubkey(cert, key) &&
             add_extension(cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
             add_extension(cert, NID_key_usage, "critical,keyCertSign,cRLSign") && add_extension(cert, NID_subject_key_identifier, "hash") &&
             X509_sign(cert, key, EVP_sha256());
        if (!ok) {
                X509_free(cert);
                return NULL;
        }
        return cert;
}

static int write_pem(const char *path, EVP_PKEY *key, X509 *cert, bool kept, struct err *err)
{
        BIO *bio = BIO_new(key ? BIO_s_secmem() : BIO_s_mem());
        char *p = NULL;
        long n = 0;
        int rc;

        if (bio && (key ? PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) : PEM_write_bio_X509(bio, cert)))
                n = BIO_get_mem_data(bio, &p);
        if (n <= 0)
                rc = err_set(err, "%s: OpenSSL could not write it", path);
        else
                rc = kept ? fd_write_file(path, 0600, p, (size_t)n, err) : fd_write_file_unsynced(path, 0600, p, (size_t)n, err);
        BIO_free(bio);
        return rc;
}

static int make(const char *key_path, const char *cert_path, const char *workspace, bool kept, struct err *err)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *cert = key ? make_certificate(key, workspace) : NULL;
        int rc = -1;

        /* The key first: a certificate without its key is replaced next time, a key without a certificate too. */
        if (!cert)
                err_set(err, "OpenSSL could not make the certificate authority of workspace %s", workspace);
        else if (write_pem(key_path, key, NULL, kept, err) == 0)
                rc = write_pem(cert_path, NULL, cert, kept, err);
        X509_free(cert);
        EVP_PKEY_free(key);
        return rc;
}

static BIO *read_pem(const char *path, struct buf *out)
{
        buf_init(out, CA_FILE_BYTES + 32 * 1024); /* fd_read_all reserves ahead */
        if (fd_read_file(path, out, CA_FILE_BYTES, NULL) < 0)
                return NULL;
        return BIO_new_mem_buf(buf_slice(out).p, (int)buf_len(out));
}

static int usable(const char *key_path, const char *cert_path)
{
        struct buf k = { 0 }, c = { 0 };
        BIO *kb = read_pem(key_path, &k), *cb = read_pem(cert_path, &c);
        EVP_PKEY *key = kb ? PEM_read_bio_PrivateKey(kb, NULL, NULL, NULL) : NULL;
        X509 *cert = cb ? PEM_read_bio_X509(cb, NULL, NULL, NULL) : NULL;
        time_t soon = time(NULL) + CA_RENEW_DAYS * 86400L;
        int ok = key && cert && X509_check_private_key(cert, key) == 1 && X509_cmp_time(X509_get0_notAfter(cert), &soon) > 0;

        X509_free(cert);
        EVP_PKEY_free(key);
        BIO_free(kb);
        BIO_free(cb);
        buf_fini(&k);
        buf_fini(&c);
        return ok;
}

int ca_ensure(const char *folder, const char *workspace, bool kept, struct err *err)
{
        char key_path[PATH_MAX], cert_path[PATH_MAX];

        if (snprintf(key_path, sizeof(key_path), "%s/ca.key", folder) >= (int)sizeof(key_path) ||
            snprintf(cert_path, sizeof(cert_path), "%s/ca.pem", folder) >= (int)sizeof(cert_path))
                return err_set(err, "%s is too long a path", folder);
        return usable(key_path, cert_path) ? 0 : make(key_path, cert_path, workspace, kept, err);
}
