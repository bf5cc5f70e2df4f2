/* Descriptors: small helpers that all set close-on-exec. */
#ifndef BROME_BASE_FD_H
#define BROME_BASE_FD_H

#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

/* Closes *fd when it is ≥ 0 and sets it to -1; keeps errno. */
void fd_close(int *fd);
int fd_nonblock(int fd) __attribute__((warn_unused_result));
int fd_cloexec(int fd, bool on) __attribute__((warn_unused_result));
/* A sealed (no write, no grow, no shrink) memory file that holds the bytes, its offset at 0; -1 with errno. */
int fd_memfd(const char *name, const void *p, size_t n) __attribute__((warn_unused_result));
/* Reads all of fd, from offset 0 when it can seek, up to limit bytes. 0, or -1 with the reason. */
int fd_read_all(int fd, struct buf *out, size_t limit_bytes, struct err *err) __attribute__((warn_unused_result));
/* Opens and reads a regular file (O_NOFOLLOW is the caller's business). */
int fd_read_file(const char *path, struct buf *out, size_t limit_bytes, struct err *err) __attribute__((warn_unused_result));
/* The same of a file that only this user or root can have written; any other is refused. */
int fd_read_own_file(const char *path, struct buf *out, size_t limit_bytes, struct err *err) __attribute__((warn_unused_result));
/* Writes everything (blocking or not); 0 or -1 with errno. */
int fd_write_all(int fd, const void *p, size_t n) __attribute__((warn_unused_result));
/* Sends on a non-blocking socket what is queued, then head, then body, in one call; of head and body is queued what the socket did not take.
 * 1: head and body are sent or queued; 0: the socket took neither, nothing of them was queued; -1 with errno. */
int fd_send_after(int fd, struct buf *queued, struct slice head, struct slice body) __attribute__((warn_unused_result));
/* Replaces path with the bytes: temporary file, fsync, rename, fsync of the folder. */
int fd_write_file(const char *path, mode_t mode, const void *p, size_t n, struct err *err) __attribute__((warn_unused_result));
/* The same without waiting for the disk: for what a crash of the machine may lose. */
int fd_write_file_unsynced(const char *path, mode_t mode, const void *p, size_t n, struct err *err) __attribute__((warn_unused_result));
/* mkdir -p with mode for what it makes. */
int fd_mkdirs(const char *path, mode_t mode, struct err *err) __attribute__((warn_unused_result));

#endif
