/* Digits of base64 (RFC 4648): both alphabets are read, either is written. Codecs over whole texts are elsewhere: this is for those who look at
 * digits. */
#ifndef BROME_ACCOUNT_BASE64_H
#define BROME_ACCOUNT_BASE64_H

#include <stdint.h>

static const char base64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static inline int base64_digit(uint8_t c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

#endif
