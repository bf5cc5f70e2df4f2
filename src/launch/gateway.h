/* The gateway namespace: the one place where a workspace's packets arrive, made before anything else runs.
 *
 * It has no uplink and does not forward. Its one link is a veth pair into the guest's own network namespace; what comes over it is either
 * handed to the inner door's transparent sockets or refused with a reset or an ICMP error. There is no way from here to the host, nor to another
 * workspace: not by a rule that could be wrong, but because no interface leads there.
 * brome-launch enters it for good and so has no network itself. */
#ifndef BROME_LAUNCH_GATEWAY_H
#define BROME_LAUNCH_GATEWAY_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum gateway_socket { GATEWAY_TCP, GATEWAY_UDP, GATEWAY_RAW4, GATEWAY_RAW6, GATEWAY_ICMP4, GATEWAY_ICMP6, GATEWAY_SOCKET_COUNT };
extern const char *const gateway_socket_names[GATEWAY_SOCKET_COUNT];

enum {
        GATEWAY_PORT = 50880,  /* the transparent sockets' own port; nothing in the namespace could collide with it */
        GATEWAY_MTU = 65520,   /* MACHINE of the veth: fewest packets a byte; a multiple of 8 below 64 KB */
        GATEWAY_BACKLOG = 4096, /* connections that wait for the inner door: a burst of a browser test farm */
};
#define GATEWAY_LINK "gate0"
#define GATEWAY_GUEST_LINK "eth0"
#define GATEWAY_GUEST_V4 "10.88.0.2"
#define GATEWAY_V4 "10.88.0.1"
#define GATEWAY_GUEST_V6 "fd62:726f:6d65::2"
#define GATEWAY_V6 "fd62:726f:6d65::1"
#define GATEWAY_GUEST_MAC "02:62:72:6f:00:02"

struct gateway {
        bool machine;     /* the link is a tap, and the guest's namespace has none: QEMU has no network */
        int tap;          /* of a machine: QEMU's end; -1 */
        int guest_netns;  /* the guest's namespace, for its first process */
        int guest_rtnl;   /* route socket opened in it */
        int sockets[GATEWAY_SOCKET_COUNT]; /* to be passed on, then closed here */
};

extern const uint8_t gateway_mac[6], gateway_guest_mac[6];

/* A network namespace for the guest, then a second one, the gateway, in which this process is from then on; link, addresses, routes, rules (closed)
 * and the sockets. */
int gateway_make(struct gateway *g, bool machine, struct err *err) __attribute__((warn_unused_result));
void gateway_close_sockets(struct gateway *g);
/* The guest's first process is in its namespace, and has the tap. */
void gateway_close_guest(struct gateway *g);

#endif
