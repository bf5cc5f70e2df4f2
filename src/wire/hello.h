/* TLS ClientHello reader (RFC 8446 §4.1.2, RFC 6066 §3), from bytes cut into any segments and records.
 *
 * Only reads; the handshake itself is OpenSSL's. It must never guess a name: several names, an address, an empty or malformed name
 * are refused. */
#ifndef BROME_WIRE_HELLO_H
#define BROME_WIRE_HELLO_H

#include "wire/authority.h"

#define HELLO_BYTES_MAX 65536  /* the handshake message; post-quantum hellos are 2 KB, padded test ones 16 KB */
#define HELLO_RECORDS_MAX 4096 /* a hello cut into records of one byte stays readable */
#define HELLO_ALPN_MAX 16      /* protocols kept; more are counted, not kept */

struct hello {
        struct authority sni; /* canonical name, port 0; see has_sni */
        bool has_sni;
        bool has_ech;         /* encrypted_client_hello, outer (0xfe0d) */
        bool tls12, tls13;    /* offered */
        struct slice alpn[HELLO_ALPN_MAX];
        size_t alpn_n;
};
struct hello_reader {
        uint32_t next;    /* offset of the next record header */
        uint32_t got;     /* handshake bytes in whole records so far */
        uint16_t records;
};

void hello_reader_init(struct hello_reader *r);
/* `in`: all bytes of the connection so far, from the first. WIRE_DONE: *out is filled; its slices belong to the arena. */
enum wire_step hello_read(struct hello_reader *r, struct slice in, struct arena *a, struct hello *out, enum wire_reason *why) __attribute__((warn_unused_result));
bool hello_offers(const struct hello *h, const char *protocol);

#endif
