/* QEMU's command line for one machine: a pure function from what is wanted to the list of arguments. No device is there that is not named here, nothing
 * is opened that is not below QEMU's own root folder (launch/vmroot.h), and every connection is a descriptor that it inherits. */
#ifndef BROME_VM_COMMAND_H
#define BROME_VM_COMMAND_H

#include "vm/setup.h"
#include <limits.h>

enum {
        COMMAND_ARGS = 96 + 4 * SETUP_SHARES, /* the fixed ones are some 70; a share has four */
        COMMAND_CPUS = 64,                    /* a machine larger than most hosts */
        COMMAND_SHARES_A_SLOT = 8,            /* functions of one PCI device */
        COMMAND_SHARE_SLOT = 0x10,            /* the first PCI slot of shares; what is named below has the lower ones */
        COMMAND_TRANSLATED_MIB = 256,         /* translated code that emulation keeps: its default is a gigabyte */
        COMMAND_OVERHEAD_MIB = 768,           /* what QEMU needs beyond the machine's memory: 240 MiB measured, translated code, disk caches */
};
/* Where QEMU is: Debian, Fedora and Arch; RHEL and its kin. */
#define COMMAND_PROGRAMS "/usr/bin/qemu-system-x86_64", "/usr/libexec/qemu-kvm"
#define COMMAND_PORT "org.brome.guest"
#define COMMAND_SYSTEM "system" /* serial numbers of the disks */
#define COMMAND_HOME "home"

struct command_share {
        const char *path; /* in QEMU's root */
        bool read_only;
};

struct command {
        const char *program;
        bool kvm;
        unsigned memory_mib, cpus;
        const char *kernel, *initrd;             /* all paths as in QEMU's root */
        const char *system_base, *system, *home_base, *home; /* raw, and qcow2 over it */
        int guest, console, monitor, network;    /* descriptors that QEMU inherits; the last a tap's, or one of a pair of datagram sockets */
        bool network_is_tap;
        uint8_t mac[6];
        unsigned mtu;
        const struct command_share *shares; /* tags share0, share1, …, as in setup.h */
        size_t share_count;
};

/* The tag of share i. */
void command_tag(char out[SETUP_TAG_BYTES + 1], size_t i);
/* NULL terminated, the program first; command_free. NULL: out of memory, or a value that no machine can have. */
char **command_arguments(const struct command *c) __attribute__((warn_unused_result));
void command_free(char **argv);

#endif
