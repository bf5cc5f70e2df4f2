/* The host's package sources, as far as an image is made of them: both formats of sources.list(5), one-line and deb822, read and written again as deb822.
 * Taken are binary packages ("deb") over http or https, of the host's suite and what belongs to it (SUITE, SUITE-security, SUITE-updates, …), which have a
 * component `main`. A mark that signatures need not be checked is not taken over. Pure: no I/O. */
#ifndef BROME_VM_SOURCES_H
#define BROME_VM_SOURCES_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        SOURCES_FILE_BYTES = 256 * 1024,
        SOURCES_OUT_BYTES = 512 * 1024,
        SOURCES_KEYS = 64, /* key files named by what was taken */
        SOURCES_PATH_BYTES = 512,
};

struct sources {
        struct buf with_logins; /* for apt on this machine */
        struct buf text;        /* for the image: no user names and passwords in addresses */
        size_t count;           /* stanzas taken */
        char keys[SOURCES_KEYS][SOURCES_PATH_BYTES]; /* absolute paths of Signed-By */
        size_t key_count;
};

void sources_init(struct sources *s);
void sources_fini(struct sources *s);
/* Adds what is taken of one file's text. deb822: its name ends in .sources. -1: too much, or no memory. What cannot be read is not taken. */
int sources_add(struct sources *s, struct slice text, bool deb822, const char *suite) __attribute__((warn_unused_result));

#endif
