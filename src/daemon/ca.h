/* A workspace's own certificate authority: ECDSA P-256, made when the workspace is, trusted by nothing outside it. The key is handed to
 * the inner door as a descriptor; bromed never signs anything else with it. */
#ifndef BROME_DAEMON_CA_H
#define BROME_DAEMON_CA_H

#include "base/err.h"
#include <stdbool.h>

enum {
        CA_YEARS = 10,
        CA_BACKDATE_S = 3600, /* a guest's clock may lag */
        CA_RENEW_DAYS = 30,   /* renewed at a session's start when it ends within this time */
};

/* Makes sure that <folder>/ca.key (0600, PKCS#8 PEM) and <folder>/ca.pem are there, belong together and last; makes both new otherwise,
 * on the disk before it returns when `kept` (a throw-away workspace does not outlive the machine). 0 or -1. */
int ca_ensure(const char *folder, const char *workspace, bool kept, struct err *err) __attribute__((warn_unused_result));

#endif
