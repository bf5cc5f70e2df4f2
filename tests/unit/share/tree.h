/* Small trees for the tests of shares: a folder of its own for each test, paths relative to it. */
#ifndef BROME_TESTS_TREE_H
#define BROME_TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern char tree_root[256];

int tree_setup(void **state);
int tree_teardown(void **state);
const char *tree_path(const char *relative); /* a ring of 8 */
void tree_dir(const char *relative);         /* with its parents */
void tree_file(const char *relative, const char *text);
void tree_link(const char *target, const char *relative);
void tree_chmod(const char *relative, mode_t mode);
void tree_whiteout(const char *relative);
void tree_opaque(const char *relative);
int tree_open(const char *relative);
bool tree_has(const char *relative, const char *text); /* text NULL: exists */
/* Runs the group as we are and, as root, once more as an ordinary user. Returns the number of failures. */
int tree_run(int (*group)(void));

#endif
