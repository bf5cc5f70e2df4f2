/* A stand-in for the world: an HTTPS server on 127.0.0.1 that answers for every name, for `brome demo`. It says what it got; of a key, the first characters,
 * and then the whole of it, as a careless server would. */
#ifndef BROME_CLI_DEMO_ORIGIN_H
#define BROME_CLI_DEMO_ORIGIN_H

#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct demo_origin {
        pid_t pid;
        uint16_t port;
        _Atomic unsigned *requests; /* that it got so far; shared with the server */
};

/* Makes a certificate for the names (written to ca_path, it vouches for itself), listens, forks the server. 0 or -1. */
int demo_origin_start(struct demo_origin *o, const char *ca_path, const char *const *names, struct err *err) __attribute__((warn_unused_result));
void demo_origin_stop(struct demo_origin *o);

#endif
