/* Shares: folders of the host inside a workspace, and what keeps them from becoming a way out.
 *
 * The one idea: a share is named by a descriptor, not by a path. share_check opens the folder once, judges what it opened and gives that
 * descriptor; the launcher mounts that very object. Everything below it is treated as written by an enemy: every later step opens
 * beneath the descriptor, never follows a link and never leaves the file system of the share.
 *
 * The launcher, for each share:
 *   1. share_check (every kind), share_config_inside (read-write only)
 *   2. read-write: share_protected → one read-only bind mount, private copy or pin for each path it names; share_snapshot_take
 *   3. mounts the descriptor itself, not recursively (mounts below the share stay outside; the scans do not enter them either)
 *   4. at the end: share_snapshot_compare for the list of changed files, then share_git_config_carry for each private copy
 * Overlays are in overlay.h. Nothing here prints; text of files and names is raw: show it through esc(). */
#ifndef BROME_SHARE_SHARE_H
#define BROME_SHARE_SHARE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum share_mode { SHARE_READ_WRITE, SHARE_READ_ONLY, SHARE_OVERLAY, SHARE_MODE_COUNT };

enum {
        SHARE_SCAN_ENTRIES = 2 * 1000 * 1000, /* directory entries one scan reads: a large monorepo with its modules; some 2 s */
        SHARE_SCAN_DEPTH = 64,                /* folders below each other: one open descriptor each */
        SHARE_PROTECTED = 512,                /* protected paths a share: each is a mount */
        SHARE_SNAPSHOT_FILES = 200 * 1000,    /* files the snapshot remembers: about 20 MB */
        SHARE_GIT_CONFIG_BYTES = 256 * 1024,  /* a .git/config larger than this is nobody's */
};

struct share_checked {
        int fd;               /* O_PATH | O_DIRECTORY, the caller's; mount this */
        char path[PATH_MAX];  /* canonical: no link, no "..", as the kernel names fd */
        char warning[256];    /* a sentence, or empty */
};

/* Judges one share. `protect`: brome's own folders and files (configuration, state, runtime, programs): a share may neither contain one nor lie in
 * one; missing ones are compared by their text. Refused, in every mode: system folders, a home itself or what contains it, folders that hold
 * keys (~/.ssh …), another user's folder (another's or root's may be shared read-only), a tree that holds a socket, FIFO or device
 * (unless sockets_ok), a tree too large to tell. 0; or -1, the reason and the way out in err, nothing to close. */
int share_check(const char *path, enum share_mode mode, bool sockets_ok, const char *const *protect, size_t protect_count, struct share_checked *out,
                struct err *err) __attribute__((warn_unused_result));

/* Is one of the files that brome reads (configuration, included files, CAs, secrets, images) inside the share, by its name, by any link that
 * leads to it, or possibly by a hard link? 0: none; -1: one is, named in err: a read-write share is refused then. Missing files count by name. */
int share_config_inside(const char *const *files, size_t count, const struct share_checked *share, struct err *err) __attribute__((warn_unused_result));

enum share_protection {
        SHARE_PROTECT_READ_ONLY, /* mount it on itself, read-only */
        SHARE_PROTECT_COPY,      /* .git/config: mount a private writable copy over it, carry back at the end */
        SHARE_PROTECT_PIN,       /* mount it on itself, writable: a mount point cannot be renamed away with what is protected below it */
};
struct share_protected_path {
        const char *path;    /* relative to the share; borrowed for the call. A parent always comes before what is in it. */
        enum share_protection how;
        bool directory;
        bool missing;        /* of a git folder only, does not exist: first make an empty folder, mode 0755, or a file that says nothing new to git
                              * (commondir: "."; config.worktree: empty), beneath the share; remove the file when the guest is gone */
        const char *reason;  /* a sentence, static */
};
/* Finds every path of protected.tbl in the tree, those of nested repositories, submodules and worktrees included, and what a .git/config
 * names by include.path and core.hooksPath inside the share. The callback returns 0, or -1 to stop. `dirfd` may be O_PATH.
 * 0; -1: the callback's stop, more than SHARE_PROTECTED paths, or a tree too large (then refuse the share: err says why). */
typedef int share_protected_fn(void *arg, const struct share_protected_path *p);
int share_protected(int dirfd, share_protected_fn *fn, void *arg, struct err *err) __attribute__((warn_unused_result));
/* Is this relative path one of the table, or inside one? The reason, or NULL. By its text only, letters of either case. */
const char *share_protected_reason(const char *relative);

/* Opens beneath dirfd: no link in any component, no mount crossed, no "..". As openat2; -1 with errno. */
int share_open(int dirfd, const char *relative, int flags, mode_t mode) __attribute__((warn_unused_result));

/* Settings of a copy that are not carried back: new, changed, or gone from it. */
struct share_git_dropped {
        unsigned count;
        char names[400]; /* "section.sub.key", each once, with ", " between; raw; ends with ", …" when there is no room for all */
};
/* The host's .git/config after a session: the original text with its branch.* and remote.* keys `url`, `fetch`, `merge`, `remote` replaced by
 * those of the edited copy, as far as they are harmless (no helper transports, no local paths, no options in disguise, refs in their place).
 * Everything else of the copy is dropped. Without a difference the output is the original, byte for byte. *dropped: what the copy has otherwise and
 * the host will not have. 0; -1: one of the texts is not a git configuration (out untouched: leave the file alone). Pure. */
int share_git_config_merge(struct slice original, struct slice edited, struct buf *out, struct share_git_dropped *dropped, struct err *err) __attribute__((warn_unused_result));
/* The same on files: reads `relative` beneath the share and the copy, replaces the former when they differ. 0: unchanged; 1: carried; -1. */
int share_git_config_carry(int dirfd, const char *relative, int copy_fd, struct share_git_dropped *dropped, struct err *err) __attribute__((warn_unused_result));

/* Files the host may execute later (changed.tbl, protected.tbl, or any execute bit): remembered at the start, compared at the end. */
struct share_snapshot;
struct share_snapshot *share_snapshot_take(int dirfd, struct err *err) __attribute__((warn_unused_result)); /* NULL: the tree is too large or unreadable */
void share_snapshot_free(struct share_snapshot *s);
struct share_changed {
        const char *path;   /* relative, raw, borrowed for the call */
        const char *reason; /* why it may run, static */
        bool added;         /* was not there, or not such a file, at the start */
};
typedef void share_changed_fn(void *arg, const struct share_changed *c);
/* Calls fn for each, sorted by path, at most `limit`. Returns how many there are (may exceed limit), or -1. */
long share_snapshot_compare(const struct share_snapshot *s, int dirfd, size_t limit, share_changed_fn *fn, void *arg, struct err *err) __attribute__((warn_unused_result));

#endif
