/* Memory for secrets: locked (never in swap), left out of core dumps, zero in a forked child, wiped when it is given back. There is no fallback to
 * ordinary memory: where nothing can be locked, there is no secret. Not thread safe. */
#ifndef BROME_BASE_SECRET_H
#define BROME_BASE_SECRET_H

#include <stddef.h>

enum { SECRET_ALLOC_BYTES_MAX = 16 * 1024 * 1024 }; /* twice the largest vault: its file and what stands in it */

/* NULL when there is none. The caller gives it back with the same size. */
void *secret_alloc(size_t bytes) __attribute__((warn_unused_result));
void secret_free(void *p, size_t bytes); /* NULL is fine */

#endif
