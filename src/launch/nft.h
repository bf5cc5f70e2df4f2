/* The gateway's packet rules: one static table, and one switch in it.
 *
 * The table is loaded once by libnftables; afterwards only one thing ever changes: whether the set `links` holds the link's name. While it does
 * not, every packet is answered with a reset or an ICMP error. The switch is two prepared netlink messages, so that the process which holds the
 * capability for it (keeper.h) needs no parser. */
#ifndef BROME_LAUNCH_NFT_H
#define BROME_LAUNCH_NFT_H

#include "base/err.h"
#include <stdbool.h>

/* Loads the table, closed, into the current network namespace. machine: the other end of the link is a kernel of the guest's own. */
int nft_load(bool machine, struct err *err) __attribute__((warn_unused_result));
/* A netlink socket of this namespace for nft_switch. */
int nft_open(void) __attribute__((warn_unused_result));
/* Opens or closes the gate; the same state again is no error. 0, or -1 with errno. Blocks until the kernel has done it. */
int nft_switch(int fd, bool open) __attribute__((warn_unused_result));

#endif
