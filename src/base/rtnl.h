/* Route netlink, the few requests that the gateway and a machine need. Each sends one message and waits for its acknowledgement; a socket stays with the
 * network namespace in which it was opened. Set-up only: nothing of this is reachable once the guest runs. */
#ifndef BROME_BASE_RTNL_H
#define BROME_BASE_RTNL_H

#include <stdint.h>

struct rtnl_end {
        const char *name;
        int index;
        const uint8_t *mac; /* 6 bytes */
};

int rtnl_open(void) __attribute__((warn_unused_result));
/* All return 0, or -1 with errno. `family`: AF_INET or AF_INET6; addresses are 4 or 16 bytes in network order. */
int rtnl_veth(int fd, const struct rtnl_end *here, const struct rtnl_end *there, int there_netns, uint32_t mtu) __attribute__((warn_unused_result));
int rtnl_mtu(int fd, int index, uint32_t mtu) __attribute__((warn_unused_result));
/* Gives a link that is there its address and MTU; its name and number are what they are. */
int rtnl_dress(int fd, const struct rtnl_end *end, uint32_t mtu) __attribute__((warn_unused_result));
int rtnl_up(int fd, int index) __attribute__((warn_unused_result));
/* Waits until the kernel has seen that the link is up on both ends: it does so behind the answer to rtnl_up. -1 and ETIMEDOUT after 5 s. */
int rtnl_running(int fd, int index) __attribute__((warn_unused_result));
int rtnl_address(int fd, int index, int family, const void *address, uint8_t prefix) __attribute__((warn_unused_result));
int rtnl_neighbour(int fd, int index, int family, const void *address, const uint8_t *mac) __attribute__((warn_unused_result));
int rtnl_default_route(int fd, int index, int family, const void *gateway) __attribute__((warn_unused_result));
/* Everything that carries `mark` is looked up in `table`, where everything is local. */
int rtnl_local_table(int fd, int loopback, int family, uint32_t mark, uint32_t table) __attribute__((warn_unused_result));

#endif
