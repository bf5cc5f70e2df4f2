/* The demonstration's server: see demo_origin.h. One connection at a time, one request each, HTTP/1.1. It serves only what brome demo asks. */
#include "cli/demo_origin.h"
#include "base/addr.h"
#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEAD_BYTES = 16 * 1024, BODY_BYTES = 1024, READ_SECONDS = 5, KEY_SHOWN = 8 /* of a key: the vendor's prefix and a little */ };

static int add_names(X509 *cert, const char *const *names)
{
        struct buf text;
        X509_EXTENSION *san;
        int ok;

        buf_init(&text, 0);
        for (size_t i = 0; names[i]; i++)
                buf_addf(&text, "%sDNS:%s", i ? "," : "", names[i]);
        buf_add(&text, "", 1);
        san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, (const char *)buf_slice(&text).p);
        ok = san && X509_add_ext(cert, san, -1);
        X509_EXTENSION_free(san);
        buf_fini(&text);
        return ok ? 0 : -1;
}

static X509 *make_cert(EVP_PKEY *key, const char *const *names)
{
        X509 *cert = X509_new();
        X509_NAME *subject;

        if (!cert)
                return NULL;
        subject = X509_get_subject_name(cert);
        if (X509_set_version(cert, 2) && ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) && X509_gmtime_adj(X509_getm_notBefore(cert), -3600) &&
            X509_gmtime_adj(X509_getm_notAfter(cert), 86400) && X509_set_pubkey(cert, key) &&
            X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)"brome demo", -1, -1, 0) &&
            X509_set_issuer_name(cert, subject) && add_names(cert, names) == 0 && X509_sign(cert, key, EVP_sha256()))
                return cert;
        X509_free(cert);
        return NULL;
}

static SSL_CTX *make_tls(const char *ca_path, const char *const *names, struct err *err)
{
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *cert = key ? make_cert(key, names) : NULL;
        FILE *f = fopen(ca_path, "we");
        int ok = ctx && cert && f && SSL_CTX_use_certificate(ctx, cert) && SSL_CTX_use_PrivateKey(ctx, key) && PEM_write_X509(f, cert);

        if (f && fclose(f) != 0)
                ok = 0;
        X509_free(cert);
        EVP_PKEY_free(key);
        if (ok)
                return ctx;
        SSL_CTX_free(ctx);
        err_set(err, "the demonstration's certificate could not be made in %s", ca_path);
        return NULL;
}

static int listen_local(uint16_t *port, struct err *err)
{
        struct sockaddr_storage sa;
        struct addr loopback = addr_v4(0x7f000001);
        socklen_t n = addr_to_sockaddr(&sa, &loopback, 0, false);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&sa, n) < 0 || listen(fd, 16) < 0 || getsockname(fd, (struct sockaddr *)&sa, &n) < 0 ||
            addr_from_sockaddr(&loopback, port, (struct sockaddr *)&sa, n) < 0) {
                err_sys(err, errno, "cannot listen on 127.0.0.1");
                fd_close(&fd);
        }
        return fd;
}

/* The value of a field, "" without it; it ends with its line. */
static const char *field(const char *head, const char *name)
{
        size_t n = strlen(name);

        for (const char *line = strchr(head, '\n'); line; line = strchr(line + 1, '\n'))
                if (strncasecmp(line + 1, name, n) == 0 && line[1 + n] == ':')
                        return line + 2 + n + strspn(line + 2 + n, " ");
        return "";
}

static int describe(const char *head, char *body, size_t size)
{
        int method = (int)strcspn(head, " "), path = (int)strcspn(head + method + 1, " ");
        const char *value = field(head, "authorization"), *key = value + strcspn(value, " \r");
        int all = (int)strcspn(value, "\r");

        key += strspn(key, " ");
        if (!all)
                return snprintf(body, size, "the origin got: %.*s %.*s\n", method, head, path, head + method + 1);
        return snprintf(body, size, "the origin got: %.*s %.*s\nwith the key:   %.*s…\nand echoes it:  %.*s\n", method, head, path, head + method + 1, KEY_SHOWN, key, all, value);
}

/* Reads a request's head, answers with what was asked. */
static void serve(SSL *ssl, _Atomic unsigned *requests)
{
        char head[HEAD_BYTES + 1], body[BODY_BYTES], answer[BODY_BYTES + 256];
        size_t at = 0;
        int n;

        head[0] = 0;
        while (at < HEAD_BYTES && !strstr(head, "\r\n\r\n")) {
                n = SSL_read(ssl, head + at, (int)(HEAD_BYTES - at));
                if (n <= 0)
                        return;
                at += (size_t)n;
                head[at] = 0;
        }
        atomic_fetch_add(requests, 1);
        n = describe(head, body, sizeof(body));
        if (n <= 0 || n >= BODY_BYTES)
                return;
        n = snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", n, body);
        if (n > 0 && SSL_write(ssl, answer, n) > 0)
                SSL_shutdown(ssl);
}

static _Noreturn void serve_forever(int listener, SSL_CTX *ctx, _Atomic unsigned *requests)
{
        struct timeval patience = { READ_SECONDS, 0 };

        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                _exit(1);
        for (;;) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                SSL *ssl = SSL_new(ctx);
                if (fd >= 0 && ssl && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 && SSL_set_fd(ssl, fd) && SSL_accept(ssl) == 1)
                        serve(ssl, requests);
                SSL_free(ssl);
                fd_close(&fd);
        }
}

int demo_origin_start(struct demo_origin *o, const char *ca_path, const char *const *names, struct err *err)
{
        SSL_CTX *ctx = make_tls(ca_path, names, err);
        int listener;

        *o = (struct demo_origin){ 0 };
        if (!ctx)
                return -1;
        o->requests = mmap(NULL, sizeof(*o->requests), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (o->requests == MAP_FAILED) {
                o->requests = NULL;
                SSL_CTX_free(ctx);
                return err_sys(err, errno, "no memory for the demonstration's server");
        }
        listener = listen_local(&o->port, err);
        if (listener >= 0) {
                o->pid = fork();
                if (o->pid == 0)
                        serve_forever(listener, ctx, o->requests);
                if (o->pid < 0)
                        err_sys(err, errno, "cannot start the demonstration's server");
        }
        fd_close(&listener);
        SSL_CTX_free(ctx);
        return o->pid > 0 ? 0 : -1;
}

void demo_origin_stop(struct demo_origin *o)
{
        if (o->pid > 0) {
                kill(o->pid, SIGKILL);
                waitpid(o->pid, NULL, 0);
        }
        o->pid = 0;
        if (o->requests)
                munmap(o->requests, sizeof(*o->requests));
        o->requests = NULL;
}
