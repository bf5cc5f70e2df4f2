/* What only a workspace that runs knows of its policy: its placeholders, and what a person decided after trips (`known`). Kept in its folder. */
#ifndef BROME_DAEMON_LIVE_H
#define BROME_DAEMON_LIVE_H

#include "daemon/placeholders.h"
#include "daemon/settings.h"

enum { LIVE_KNOWN_MAX = 256, LIVE_HOST_BYTES = 256 };

struct live_known {
        char credential[REQUEST_NAME_BYTES], host[LIVE_HOST_BYTES];
};
struct live {
        struct placeholders placeholders;
        struct live_known known[LIVE_KNOWN_MAX];
        size_t known_count;
};

/* From the folder. NULL with the reason. */
struct live *live_read(const char *folder, struct err *err) __attribute__((warn_unused_result));
void live_free(struct live *l);
/* Mints what is missing for the workspace's credentials, on disk when it returns 0. */
int live_mint(struct live *l, const struct config_workspace *w, const char *folder, struct err *err) __attribute__((warn_unused_result));
/* Remembers a decision, on disk when it returns 0. Texts that are no name or host are not kept. */
int live_remember(struct live *l, const char *folder, const char *credential, const char *host, struct err *err) __attribute__((warn_unused_result));
/* The policy file for the doors; *policy, when not NULL, gets the compiled text. The descriptor, or -1 with the reason. l: NULL to only look. */
int live_policy(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const struct live *l, struct policy **policy,
                struct err *err) __attribute__((warn_unused_result));

#endif
