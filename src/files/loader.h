/* Configuration from disk, for the pure code of src/rules: includes resolved against the file that names them, each file read once,
 * regular files of the user or root only. */
#ifndef BROME_FILES_LOADER_H
#define BROME_FILES_LOADER_H

#include "base/err.h"
#include "rules/config.h"

enum { LOADER_FILE_BYTES = 16 * 1024 * 1024 }; /* 10,000 rules are 1 MB */

/* Loads the configuration at `path`; a missing file counts as an empty one when `missing_ok`. `extra` as in config_load. */
struct config *loader_config(const char *path, bool missing_ok, struct slice extra, const char *extra_name, struct diags *errors)
        __attribute__((warn_unused_result));

/* Writes the absolute form of a path as the configuration has it ("~/x", "x" relative to dir) to out. 0, or -1 when too long or HOME is unset. */
int loader_expand(char *out, size_t size, struct slice path, struct slice dir, struct err *err) __attribute__((warn_unused_result));

#endif
