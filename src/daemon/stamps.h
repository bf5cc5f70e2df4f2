/* What the configuration's files were when they were last read, so that bromed notices that a person edited one.
 *
 * A file that was not there has a stamp too: its appearance is a change. The stamp is taken before the file is read, so that a write between the two
 * is seen next time. Only names and figures are kept here, never a text. */
#ifndef BROME_DAEMON_STAMPS_H
#define BROME_DAEMON_STAMPS_H

#include <stdbool.h>

struct stamps;

struct stamps *stamps_new(void); /* NULL: out of memory */
void stamps_free(struct stamps *s);
void stamps_clear(struct stamps *s);
/* `file` is about to be read. The first stamp of a name stays. NULL is fine. */
void stamps_add(struct stamps *s, const char *file);
/* Is any of them another file now, or of another size or time? */
bool stamps_changed(const struct stamps *s);

#endif
