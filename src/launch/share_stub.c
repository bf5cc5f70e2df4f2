#include "share/share.h"
#include <fcntl.h>
#include <stdio.h>
#include <errno.h>
#define W __attribute__((weak))
W int share_check(const char *path, enum share_mode mode, bool sockets_ok, const char *const *protect, size_t protect_count, struct share_checked *out, struct err *err)
{ (void)mode,(void)sockets_ok,(void)protect,(void)protect_count; out->fd = open(path, O_PATH|O_DIRECTORY|O_CLOEXEC); snprintf(out->path, sizeof(out->path), "%s", path); out->warning[0]=0; return out->fd<0?err_sys(err, errno, "%s", path):0; }
W int share_config_inside(const char *const *files, size_t count, const struct share_checked *share, struct err *err) {(void)files,(void)count,(void)share,(void)err; return 0;}
W int share_protected(int dirfd, share_protected_fn *fn, void *arg, struct err *err) {(void)dirfd,(void)fn,(void)arg,(void)err; return 0;}
W int share_open(int dirfd, const char *relative, int flags, mode_t mode) { return openat(dirfd, relative, flags, mode);}
W int share_git_config_carry(int dirfd, const char *relative, int copy_fd, unsigned *refused, struct err *err) {(void)dirfd,(void)relative,(void)copy_fd,(void)refused,(void)err; return 0;}
W struct share_snapshot *share_snapshot_take(int dirfd, struct err *err) {(void)dirfd,(void)err; return (void *)1;}
W void share_snapshot_free(struct share_snapshot *s) {(void)s;}
W long share_snapshot_compare(const struct share_snapshot *s, int dirfd, size_t limit, share_changed_fn *fn, void *arg, struct err *err) {(void)s,(void)dirfd,(void)limit,(void)fn,(void)arg,(void)err; return 0;}
