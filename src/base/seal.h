/* Sealing a process, in this order and never another:
 *   seal_early      before anything is opened: no new privileges, not dumpable, no core file, dies with its parent
 *   (open resources)
 *   seal_caps       drop every capability but the listed ones, in all sets
 *   seal_files      Landlock: only the listed paths; no abstract sockets and signals to the outside where the kernel can (ABI 6)
 *   seal_calls      seccomp: only the listed calls; anything else kills the process
 *   (loop)
 * Each kept capability, path and call has its line of reason in the program's table. */
#ifndef BROME_BASE_SEAL_H
#define BROME_BASE_SEAL_H

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

int seal_early(struct err *err) __attribute__((warn_unused_result));

/* keep: capability numbers (CAP_*), may be NULL with count 0. Keeps them effective and permitted, not inheritable or ambient. */
int seal_caps(const int *keep, size_t count, struct err *err) __attribute__((warn_unused_result));

enum seal_access { SEAL_READ, SEAL_READ_WRITE, SEAL_EXECUTE };
struct seal_path {
        const char *path; /* a missing path is skipped */
        enum seal_access access;
};
/* 0; 1 when the kernel has no Landlock (nothing done: the caller decides); -1 on error. */
int seal_files(const struct seal_path *paths, size_t count, struct err *err) __attribute__((warn_unused_result));

/* One allowed system call. With arg_count 1 the argument `arg` masked by `mask` must equal `value` (several rows for one call: any); with 2 the argument
 * behind it must be `next`, too. */
struct seal_call {
        const char *name; /* as libseccomp spells it; unknown on this architecture is skipped */
        const char *why;
        uint8_t arg_count, arg;
        uint64_t mask, value, next;
};
#define SEAL_CALL(call, reason) { .name = #call, .why = reason }
#define SEAL_CALL_ARG(call, n, m, v, reason) { .name = #call, .why = reason, .arg_count = 1, .arg = n, .mask = m, .value = v }
/* setsockopt of this very option: a number alone means something else at another level. The kernel reads both as ints. */
#define SEAL_SOCKOPT(level, option, reason) \
        { .name = "setsockopt", .why = reason, .arg_count = 2, .arg = 1, .mask = 0xffffffffu, .value = level, .next = option }
/* Calls that every event-loop program of ours needs: memory, clocks, read/write/close, epoll, exit, signals' return. */
extern const struct seal_call seal_calls_base[];
extern const size_t seal_calls_base_count;
int seal_calls(const struct seal_call *calls, size_t count, struct err *err) __attribute__((warn_unused_result));

#endif
