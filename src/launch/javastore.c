/* Java trust store: see javastore.h. The layout is that of sun.security.provider.JavaKeyStore: magic, version 2, count, entries (tag 2, alias, date in
 * ms, "X.509", DER), then SHA-1 over the password as UTF-16BE, the words "Mighty Aphrodite" and all of the above. */
#include "launch/javastore.h"

#include <openssl/asn1.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = (int)0xfeedfeedU, VERSION = 2, TAG_TRUSTED = 2, CERTS = 2000 };

static void put_u32(struct buf *b, uint32_t v)
{
        uint8_t p[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

        (void)!buf_add(b, p, 4); /* failure is sticky, checked at the end */
}

static void put_text(struct buf *b, const char *s)
{
        uint8_t p[2] = { (uint8_t)(strlen(s) >> 8), (uint8_t)strlen(s) };

        (void)!buf_add(b, p, 2);
        (void)!buf_add_str(b, s);
}

/* One DER value that fills its bytes exactly: what else the guest's Java makes of it is the guest's. Parsing 140 certificates would cost 20 ms. */
static bool whole(const unsigned char *der, long n)
{
        const unsigned char *p = der;
        long len;
        int tag, class;

        return (ASN1_get_object(&p, &len, &tag, &class, n) & 0x80) == 0 && tag == V_ASN1_SEQUENCE && p + len == der + n;
}

static void put_cert(struct buf *b, const unsigned char *der, long n_der, unsigned n)
{
        char alias[32];

        snprintf(alias, sizeof(alias), "ca-%u", n);
        put_u32(b, TAG_TRUSTED);
        put_text(b, alias);
        put_u32(b, 0); /* the date: the epoch, so that the same input gives the same file */
        put_u32(b, 0);
        put_text(b, "X.509");
        put_u32(b, (uint32_t)n_der);
        (void)!buf_add(b, der, (size_t)n_der);
}

static int put_digest(struct buf *b)
{
        static const char password[] = "changeit", salt[] = "Mighty Aphrodite";
        uint8_t digest[EVP_MAX_MD_SIZE], wide[2 * (sizeof(password) - 1)];
        unsigned n = 0;
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        bool ok;

        for (size_t i = 0; i < sizeof(password) - 1; i++) {
                wide[2 * i] = 0;
                wide[2 * i + 1] = (uint8_t)password[i];
        }
        ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) == 1 && EVP_DigestUpdate(ctx, wide, sizeof(wide)) == 1 &&
             EVP_DigestUpdate(ctx, salt, sizeof(salt) - 1) == 1 && EVP_DigestUpdate(ctx, buf_slice(b).p, buf_len(b)) == 1 &&
             EVP_DigestFinal_ex(ctx, digest, &n) == 1;
        EVP_MD_CTX_free(ctx);
        return ok ? buf_add(b, digest, n) : -1;
}

int javastore_make(struct buf *out, struct slice bundle, struct err *err)
{
        struct buf entries;
        BIO *bio = BIO_new_mem_buf(bundle.p, (int)bundle.n);
        char *name, *header;
        unsigned char *der;
        long n;
        unsigned count = 0;
        int rc = -1;

        buf_init(&entries, 0);
        while (bio && count < CERTS && PEM_read_bio(bio, &name, &header, &der, &n) == 1) {
                if (strcmp(name, PEM_STRING_X509) == 0 && whole(der, n))
                        put_cert(&entries, der, n, count++);
                OPENSSL_free(name);
                OPENSSL_free(header);
                OPENSSL_free(der);
        }
        BIO_free(bio);
        put_u32(out, (uint32_t)MAGIC);
        put_u32(out, VERSION);
        put_u32(out, count);
        (void)!buf_add_slice(out, buf_slice(&entries));
        if (!entries.failed && !out->failed)
                rc = put_digest(out);
        buf_fini(&entries);
        return rc < 0 ? err_set(err, "cannot make the Java trust store") : 0;
}
