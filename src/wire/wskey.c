/* The two base64 texts of a WebSocket opening (RFC 6455 §4). SHA-1 is what the protocol wants; nothing rests on its strength. */
#include "wire/http_priv.h"

#include <openssl/evp.h>

enum { SHA1_BYTES = 20, WS_KEY_BYTES = 24 };

void ws_key(char out[WS_KEY_TEXT], const uint8_t random[16])
{
        EVP_EncodeBlock((unsigned char *)out, random, 16);
}

int ws_accept(char out[WS_ACCEPT_TEXT], struct slice key)
{
        static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        uint8_t text[WS_KEY_BYTES + sizeof(guid) - 1], digest[EVP_MAX_MD_SIZE];
        unsigned n = 0;

        if (key.n != WS_KEY_BYTES)
                return -1;
        memcpy(text, key.p, WS_KEY_BYTES);
        memcpy(text + WS_KEY_BYTES, guid, sizeof(guid) - 1);
        if (EVP_Digest(text, sizeof(text), digest, &n, EVP_sha1(), NULL) != 1 || n != SHA1_BYTES)
                return -1;
        EVP_EncodeBlock((unsigned char *)out, digest, SHA1_BYTES);
        return 0;
}

/* Base64 of 16 bytes: 22 characters and "==". */
bool ws_key_ok(struct slice key)
{
        if (key.n != WS_KEY_BYTES || key.p[22] != '=' || key.p[23] != '=')
                return false;
        for (size_t i = 0; i < 22; i++) {
                uint8_t c = ascii_lower(key.p[i]);

                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/'))
                        return false;
        }
        return true;
}
