/* Basic credentials (RFC 7617): base64 of user-id ":" password, read strictly, so that every reader finds the same two sides in it. Pure. */
#ifndef BROME_ACCOUNT_BASIC_H
#define BROME_ACCOUNT_BASIC_H

#include "base/slice.h"

enum { BASIC_BYTES_MAX = 8192 }; /* of the encoded text that a guest sends: a field line holds no more */

/* Room for what n bytes become. */
static inline size_t base64_encoded_bytes(size_t n) { return (n + 2) / 3 * 4; }
/* RFC 4648 §4, padded; no NUL. Returns the length. */
size_t base64_encode(struct slice in, char *out);
/* Only what base64_encode writes: padded, no blanks, unused bits zero. out has room for in.n / 4 * 3. */
bool base64_decode(struct slice in, uint8_t *out, size_t *n) __attribute__((warn_unused_result));

/* What stands behind the scheme word "Basic", decoded into store; both sides borrow from it. False: not base64, no colon, control characters. */
bool basic_decode(struct slice encoded, uint8_t store[BASIC_BYTES_MAX], struct slice *user, struct slice *password) __attribute__((warn_unused_result));

#endif
