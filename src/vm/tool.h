/* Programs of the host (and of a root file system under construction), run with an explicit argument vector and a small environment, never by a shell. */
#ifndef BROME_VM_TOOL_H
#define BROME_VM_TOOL_H

#include "base/buf.h"
#include "base/err.h"
#include <limits.h>

/* Where programs are looked up: the folders of the system, whatever PATH says. */
#define TOOL_PATH "/usr/sbin:/usr/bin:/sbin:/bin"
enum { TOOL_TAIL_LINES = 6, TOOL_TAIL_BYTES = 4096 };

struct tool {
        const char *const *argv; /* argv[0]: a name, looked up in TOOL_PATH */
        const char *const *env;  /* besides PATH, LC_ALL; NULL: none */
        const char *root;        /* in this root folder; NULL: the host's */
        const char *folder;      /* starts here; NULL: / */
        int log;                 /* standard output and error go here; -1: nowhere */
        int out;                 /* standard output goes here instead, when > 0 */
};

/* "/usr/bin/NAME" in out. -1: it is not there. */
int tool_find(char out[PATH_MAX], const char *name) __attribute__((warn_unused_result));
/* Runs it and waits. 0: it ended with 0; else -1 with "NAME ended with 2" in err. */
int tool_run(const struct tool *c, struct err *err) __attribute__((warn_unused_result));
/* The last lines of a log, escaped, one a line, each with `indent` before it. */
void tool_tail(int log, const char *indent, struct buf *out);

#endif
