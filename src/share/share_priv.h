/* For the files of this folder: opening and walking beneath a share. */
#ifndef BROME_SHARE_PRIV_H
#define BROME_SHARE_PRIV_H

#include "share/share.h"
#include <sys/stat.h>

/* The folder that holds the last component (O_PATH), *name pointing into relative; -1 with errno. Close it. */
int share_open_parent(int dirfd, const char *relative, const char **name) __attribute__((warn_unused_result));
/* A folder by its canonical path, through mounts but no links. */
int share_open_from_root(int root_fd, const char *path) __attribute__((warn_unused_result));
/* lstat beneath. */
int share_stat(int dirfd, const char *relative, struct stat *st) __attribute__((warn_unused_result));

/* One entry met by share_walk. */
struct share_entry {
        const char *path;     /* relative to the root; borrowed for the call */
        const char *name;     /* its last component */
        int parent_fd;        /* the folder that holds it, readable; borrowed */
        unsigned char type;   /* DT_*, never DT_UNKNOWN */
        size_t depth;         /* 0: directly in the root */
};
enum { WALK_ENTER = 0, WALK_SKIP = 1, WALK_STOP = -1 };
/* Called for every entry but "." and "..", a folder before what is in it. For folders: WALK_SKIP does not enter. WALK_STOP ends the walk. */
typedef int share_walk_fn(void *arg, const struct share_entry *e);
/* Called after the entries of a folder (path "" for the root) have been seen; may be NULL. Returns 0 or WALK_STOP. */
typedef int share_leave_fn(void *arg, const char *path, int fd);
/* Walks the tree below root_fd (may be O_PATH), not entering other file systems nor links. 0; 1: stopped by a callback; -1: too large, too deep or a
 * folder that cannot be read, in err. */
int share_walk(int root_fd, share_walk_fn *fn, share_leave_fn *leave, void *arg, struct err *err) __attribute__((warn_unused_result));

/* Pattern match of protected.tbl and changed.tbl on one name: '*' any text; letters of either case, as some file systems have it. */
bool share_name_matches(const char *pattern, const char *name, size_t name_bytes);

/* As share_protected_reason, knowing what it is: a folder called .git is a repository, a file of that name says where one is. */
const char *share_protected_match(const char *relative, bool is_directory);

#endif
