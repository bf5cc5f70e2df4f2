/* A boot to see which accelerator runs an image: by doing, with a deadline, since a /dev/kvm that opens may still boot no kernel. */
#ifndef BROME_VM_PROBE_H
#define BROME_VM_PROBE_H

#include "base/err.h"
#include <signal.h>
#include <stdint.h>

enum {
        PROBE_KVM_MS = 10 * 1000,  /* 1 s where it works; one that hangs must not be waited for long */
        PROBE_TCG_MS = 240 * 1000, /* 2 to 5 s on an idle machine; a minute was seen on a busy one */
        PROBE_TEXT_BYTES = 240,
        PROBE_HELLO_BYTES = 12,
};
extern const uint8_t probe_hello[PROBE_HELLO_BYTES]; /* the first bytes of a guest on its port */

struct probe {
        const volatile sig_atomic_t *stop; /* or NULL */
        char accel[8];                     /* kvm or tcg; "" when there is no QEMU to try */
        char text[PROBE_TEXT_BYTES];       /* why, for a person */
};

/* Boots folder/vmlinuz with folder/initrd until its first process says hello on the port. 0; -1: neither did, or it was stopped. */
int probe_boot(const char *folder, struct probe *p, struct err *err) __attribute__((warn_unused_result));

#endif
