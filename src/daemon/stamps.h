/* What the configuration's files were when they were last read, so that bromed notices that a person edited one.
 *
 * A file that was not there has a stamp too: its appearance is a change. The stamp is taken before the file is read, so that a write between the two
 * is seen next time. A time alone does not tell two writes of one tick of the file system's clock apart: while a stamp is that young, what the file holds is
 * compared with a digest of what was read, or of what bromed wrote there itself. Only names and figures are kept here, never a text. */
#ifndef BROME_DAEMON_STAMPS_H
#define BROME_DAEMON_STAMPS_H

#include "base/slice.h"

#include <stdbool.h>

struct stamps;

struct stamps *stamps_new(void); /* NULL: out of memory */
void stamps_free(struct stamps *s);
void stamps_clear(struct stamps *s);
/* `file` is about to be read. The first stamp of a name stays. NULL is fine. */
void stamps_add(struct stamps *s, const char *file);
/* What was read from it then. Without this a young stamp counts as changed. */
void stamps_read(struct stamps *s, const char *file, struct slice text);
/* bromed replaced the file by this text and obeys it already. Somebody else's write at the same moment is seen next time. */
void stamps_wrote(struct stamps *s, const char *file, struct slice text);
/* Is any of them another file now, or of another size or time, or, while that says nothing, of another text? */
bool stamps_changed(struct stamps *s);

#endif
