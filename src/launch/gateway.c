/* The gateway: see gateway.h. Order matters: settings before links, so that no link is ever up with the kernel's defaults. */
#include "launch/gateway.h"
#include "base/fd.h"
#include "launch/nft.h"
#include "base/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif
#ifndef IPV6_RECVORIGDSTADDR
#define IPV6_RECVORIGDSTADDR 74
#endif
#ifndef IP_RECVORIGDSTADDR
#define IP_RECVORIGDSTADDR 20
#endif
#ifndef IP_TRANSPARENT
#define IP_TRANSPARENT 19
#endif

enum {
        /* Fixed, so that nobody has to ask (tunnel modules may add links with small numbers). Different on both ends: where an end's number is
         * its peer's, the kernel takes it for a link without a peer and is up to a second late to see that it is up. */
        GATE_INDEX = 88,
        GUEST_INDEX = 89,
        LOOPBACK_INDEX = 1,
        MARK = 1,
        TABLE = 100,
};
const uint8_t gateway_mac[6] = { 0x02, 0x62, 0x72, 0x6f, 0x00, 0x01 };
const uint8_t gateway_guest_mac[6] = { 0x02, 0x62, 0x72, 0x6f, 0x00, 0x02 };

const char *const gateway_socket_names[GATEWAY_SOCKET_COUNT] = { "tcp", "udp", "raw4", "raw6", "icmp4", "icmp6" };

struct setting {
        const char *path; /* below /proc/sys/net */
        const char *value;
        bool wanted;      /* false: newer or older kernels may lack it */
};

/* `default` is what a link made later starts with. */
static const struct setting both_sides[] = {
        { "ipv4/conf/all/accept_redirects", "0", true },
        { "ipv4/conf/default/accept_redirects", "0", true },
        { "ipv4/conf/default/send_redirects", "0", true },
        { "ipv4/conf/all/send_redirects", "0", true },
        { "ipv4/conf/all/accept_source_route", "0", true },
        { "ipv4/conf/default/accept_source_route", "0", true },
        { "ipv6/conf/default/accept_ra", "0", false },
        { "ipv6/conf/default/autoconf", "0", false },
        { "ipv6/conf/default/accept_redirects", "0", false },
        { "ipv6/conf/default/accept_source_route", "-1", false },
        { "ipv6/conf/default/accept_dad", "0", false },
        { "ipv6/conf/default/dad_transmits", "0", false },
        { "ipv6/conf/default/addr_gen_mode", "1", false }, /* no link-local addresses: nothing here needs them */
};

static const struct setting gate_side[] = {
        { "ipv4/ip_forward", "0", true },
        { "ipv6/conf/all/forwarding", "0", false },
        { "ipv4/conf/all/rp_filter", "1", true },
        { "ipv4/conf/default/rp_filter", "1", true },
        { "ipv4/conf/default/arp_ignore", "8", true },   /* neighbours are fixed: no ARP */
        /* A new namespace starts with the host's own `all` and `default`, and for these one of the two is enough. */
        { "ipv4/conf/all/log_martians", "0", true },     /* a guest does not write the host's log */
        { "ipv4/conf/default/log_martians", "0", true },
        { "ipv4/conf/all/arp_accept", "0", true },       /* nor the table of neighbours that all namespaces share */
        { "ipv4/conf/default/arp_accept", "0", true },
        { "ipv4/conf/all/route_localnet", "0", true },   /* as kube-proxy sets it: 127.0.0.0/8 over the wire stays a martian */
        { "ipv4/conf/default/route_localnet", "0", true },
        { "ipv4/conf/all/src_valid_mark", "0", true },   /* as wg-quick sets it: our mark would make every packet one from here */
        { "ipv4/conf/default/src_valid_mark", "0", true },
        { "ipv4/conf/all/accept_local", "0", true },
        { "ipv4/conf/default/accept_local", "0", true },
        { "ipv4/conf/all/proxy_arp", "0", true },
        { "ipv4/conf/default/proxy_arp", "0", true },
        { "ipv4/icmp_echo_ignore_all", "1", true },      /* echo is the inner door's to answer */
        { "ipv6/icmp/echo_ignore_all", "1", false },
        { "ipv4/icmp_ratelimit", "0", true },            /* refused, not timed out: also the thousandth datagram */
        { "ipv6/icmp/ratelimit", "0", false },
        { "ipv4/icmp_msgs_per_sec", "1000000", false },
        { "ipv4/icmp_msgs_burst", "100000", false },
        { "ipv4/tcp_challenge_ack_limit", "1000000", false },
        { "ipv4/tcp_max_syn_backlog", "4096", false },
        { "ipv4/tcp_syncookies", "1", false },
        { "core/somaxconn", "4096", false },
        { "ipv4/tcp_fin_timeout", "10", false },         /* both ends are this machine: nothing is late by a minute */
};

static const struct setting guest_side[] = {
        { "ipv4/ip_unprivileged_port_start", "0", true }, /* the guest's root has no capability here, yet may serve on port 80 */
        { "ipv4/ping_group_range", "0 0", false },        /* filled in below: every group of the guest may ping */
        { "ipv6/conf/lo/accept_dad", "0", false },
};

static int apply(const struct setting *settings, size_t count, struct err *err)
{
        for (size_t i = 0; i < count; i++) {
                const struct setting *s = &settings[i];
                char path[128];
                int fd, e;

                snprintf(path, sizeof(path), "/proc/sys/net/%s", s->path);
                fd = open(path, O_WRONLY | O_CLOEXEC);
                e = errno;
                if (fd >= 0 && write(fd, s->value, strlen(s->value)) < 0)
                        e = errno;
                else if (fd >= 0)
                        e = 0;
                fd_close(&fd);
                if (e && s->wanted)
                        return err_sys(err, e, "cannot set %s", path);
        }
        return 0;
}
#define APPLY(table, err) apply(table, sizeof(table) / sizeof(table[0]), err)

static int new_netns(struct err *err)
{
        if (unshare(CLONE_NEWNET) == 0)
                return 0;
        if (errno == EPERM)
                return err_set(err, "may not make a network namespace: on Ubuntu sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 or load brome's "
                                    "AppArmor profile (`brome doctor` tells); inside a container it needs CAP_SYS_ADMIN or user namespaces");
        return err_sys(err, errno, "cannot make a network namespace");
}

/* Group ids are those of the namespace's owner: all that the guest can have are in 0…2^31-2 of it. Where fewer are mapped the kernel wants those. */
static void allow_ping(void)
{
        static const char *const ranges[] = { "0 2147483647", "0 65535", "0 0" };

        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
                int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);
                bool done = fd >= 0 && write(fd, ranges[i], strlen(ranges[i])) > 0;
                fd_close(&fd);
                if (done)
                        return;
        }
}

static int guest_namespace(struct gateway *g, bool machine, struct err *err)
{
        *g = (struct gateway){ .machine = machine, .tap = -1, .guest_netns = -1, .guest_rtnl = -1 };
        for (size_t i = 0; i < GATEWAY_SOCKET_COUNT; i++)
                g->sockets[i] = -1;
        if (new_netns(err) < 0)
                return -1;
        if (APPLY(both_sides, err) < 0 || APPLY(guest_side, err) < 0)
                return -1;
        allow_ping();
        g->guest_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        g->guest_rtnl = rtnl_open();
        if (g->guest_netns < 0 || g->guest_rtnl < 0)
                return err_sys(err, errno, "cannot open the guest's network namespace");
        return rtnl_up(g->guest_rtnl, LOOPBACK_INDEX) < 0 ? err_sys(err, errno, "cannot raise the loopback link") : 0;
}

static int address_end(int rtnl, const char *own4, const char *own6, const char *peer4, const char *peer6, const uint8_t *peer_mac, bool guest)
{
        uint8_t a4[4], a6[16], p4[4], p6[16];
        int link = guest ? GUEST_INDEX : GATE_INDEX;

        if (inet_pton(AF_INET, own4, a4) != 1 || inet_pton(AF_INET6, own6, a6) != 1 || inet_pton(AF_INET, peer4, p4) != 1 || inet_pton(AF_INET6, peer6, p6) != 1)
                return -1;
        /* To the guest everything is behind the gateway: also a neighbour's address that does not exist is refused, not waited for. */
        if (rtnl_address(rtnl, link, AF_INET, a4, guest ? 32 : 24) < 0 || rtnl_address(rtnl, link, AF_INET6, a6, guest ? 128 : 64) < 0 ||
                rtnl_up(rtnl, link) < 0)
                return -1;
        if (rtnl_neighbour(rtnl, link, AF_INET, p4, peer_mac) < 0 || rtnl_neighbour(rtnl, link, AF_INET6, p6, peer_mac) < 0)
                return -1;
        if (!guest)
                return 0;
        return rtnl_default_route(rtnl, link, AF_INET, p4) < 0 || rtnl_default_route(rtnl, link, AF_INET6, p6) < 0 ? -1 : 0;
}

/* A tap belongs to the namespace in which its device was opened, and lasts as long as its descriptor: when QEMU is gone, so is the link. The header
 * before each packet lets a machine send what is larger than a frame. */
static int tap(struct gateway *g, int rtnl)
{
        struct ifreq r = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        struct rtnl_end here = { GATEWAY_LINK, GATE_INDEX, gateway_mac };
        int index = GATE_INDEX;

        snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", GATEWAY_LINK);
        g->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
        if (g->tap < 0 || ioctl(g->tap, TUNSETIFINDEX, &index) < 0 || ioctl(g->tap, TUNSETIFF, &r) < 0 || rtnl_dress(rtnl, &here, GATEWAY_MTU) < 0)
                return -1;
        return rtnl_up(rtnl, GATE_INDEX) < 0 || rtnl_running(rtnl, GATE_INDEX) < 0 ? -1 : 0;
}

static int pair(const struct gateway *g, int rtnl)
{
        struct rtnl_end here = { GATEWAY_LINK, GATE_INDEX, gateway_mac }, there = { GATEWAY_GUEST_LINK, GUEST_INDEX, gateway_guest_mac };

        if (rtnl_veth(rtnl, &here, &there, g->guest_netns, GATEWAY_MTU) < 0)
                return -1;
        /* IPv6 has no use for an address on a link that is not yet running: both ends first. */
        return rtnl_up(rtnl, GATE_INDEX) < 0 || rtnl_up(g->guest_rtnl, GUEST_INDEX) < 0 || rtnl_running(rtnl, GATE_INDEX) < 0 ||
                               rtnl_running(g->guest_rtnl, GUEST_INDEX) < 0
                       ? -1
                       : 0;
}

static int wire(struct gateway *g, int rtnl)
{
        if (rtnl_up(rtnl, LOOPBACK_INDEX) < 0 || (g->machine ? tap(g, rtnl) : pair(g, rtnl)) < 0)
                return -1;
        if (address_end(rtnl, GATEWAY_V4, GATEWAY_V6, GATEWAY_GUEST_V4, GATEWAY_GUEST_V6, gateway_guest_mac, false) < 0)
                return -1;
        if (rtnl_local_table(rtnl, LOOPBACK_INDEX, AF_INET, MARK, TABLE) < 0 || rtnl_local_table(rtnl, LOOPBACK_INDEX, AF_INET6, MARK, TABLE) < 0)
                return -1;
        /* A machine does that for its own card (vm/setup.h). */
        if (g->machine)
                return 0;
        return address_end(g->guest_rtnl, GATEWAY_GUEST_V4, GATEWAY_GUEST_V6, GATEWAY_V4, GATEWAY_V6, gateway_mac, true);
}

struct option_row {
        enum gateway_socket socket;
        int level, name, value;
};

/* The inner door has no capability: whatever a socket needs one for is set here. */
static const struct option_row option_rows[] = {
        { GATEWAY_TCP, SOL_IPV6, IPV6_V6ONLY, 0 },
        { GATEWAY_TCP, SOL_IPV6, IPV6_TRANSPARENT, 1 },
        { GATEWAY_TCP, SOL_IP, IP_TRANSPARENT, 1 },
        { GATEWAY_TCP, SOL_TCP, TCP_NODELAY, 1 }, /* inherited by what is accepted */
        { GATEWAY_UDP, SOL_IPV6, IPV6_V6ONLY, 0 },
        { GATEWAY_UDP, SOL_IPV6, IPV6_TRANSPARENT, 1 },
        { GATEWAY_UDP, SOL_IP, IP_TRANSPARENT, 1 },
        { GATEWAY_UDP, SOL_IPV6, IPV6_RECVORIGDSTADDR, 1 },
        { GATEWAY_UDP, SOL_IP, IP_RECVORIGDSTADDR, 1 },
        { GATEWAY_UDP, SOL_IPV6, IPV6_RECVPKTINFO, 1 },
        { GATEWAY_UDP, SOL_IP, IP_PKTINFO, 1 },
        { GATEWAY_UDP, SOL_SOCKET, SO_RCVBUF, 4 << 20 },
        { GATEWAY_RAW4, SOL_IP, IP_TRANSPARENT, 1 },
        { GATEWAY_RAW4, SOL_IP, IP_FREEBIND, 1 },
        { GATEWAY_RAW6, SOL_IPV6, IPV6_TRANSPARENT, 1 },
        { GATEWAY_RAW6, SOL_IPV6, IPV6_FREEBIND, 1 },
        { GATEWAY_RAW6, SOL_IPV6, IPV6_CHECKSUM, 6 }, /* the UDP checksum's place */
        { GATEWAY_ICMP4, SOL_IP, IP_TRANSPARENT, 1 },
        { GATEWAY_ICMP4, SOL_IP, IP_PKTINFO, 1 },
        { GATEWAY_ICMP6, SOL_IPV6, IPV6_TRANSPARENT, 1 },
        { GATEWAY_ICMP6, SOL_IPV6, IPV6_RECVPKTINFO, 1 },
};

static const struct { int family, type, protocol; } socket_kinds[GATEWAY_SOCKET_COUNT] = {
        [GATEWAY_TCP] = { AF_INET6, SOCK_STREAM, IPPROTO_TCP },   [GATEWAY_UDP] = { AF_INET6, SOCK_DGRAM, IPPROTO_UDP },
        [GATEWAY_RAW4] = { AF_INET, SOCK_RAW, IPPROTO_UDP },      [GATEWAY_RAW6] = { AF_INET6, SOCK_RAW, IPPROTO_UDP },
        [GATEWAY_ICMP4] = { AF_INET, SOCK_RAW, IPPROTO_ICMP },    [GATEWAY_ICMP6] = { AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 },
};

/* SECURITY: the raw UDP sockets only send; locked, so that whoever takes over the inner door cannot open them again. */
static int deafen(int fd)
{
        struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
        struct sock_fprog prog = { 1, &none };
        int on = 1;

        return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? -1 : setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
}

static int only_echo(const struct gateway *g)
{
        struct icmp_filter f4 = { ~(1u << ICMP_ECHO) };
        struct icmp6_filter f6;

        ICMP6_FILTER_SETBLOCKALL(&f6);
        ICMP6_FILTER_SETPASS(ICMP6_ECHO_REQUEST, &f6);
        if (setsockopt(g->sockets[GATEWAY_ICMP4], SOL_RAW, ICMP_FILTER, &f4, sizeof(f4)) < 0)
                return -1;
        return setsockopt(g->sockets[GATEWAY_ICMP6], SOL_ICMPV6, ICMP6_FILTER, &f6, sizeof(f6));
}

static int open_sockets(struct gateway *g)
{
        struct sockaddr_in6 own = { .sin6_family = AF_INET6, .sin6_port = htons(GATEWAY_PORT), .sin6_addr = IN6ADDR_ANY_INIT };

        for (size_t i = 0; i < GATEWAY_SOCKET_COUNT; i++) {
                g->sockets[i] = socket(socket_kinds[i].family, socket_kinds[i].type | SOCK_NONBLOCK | SOCK_CLOEXEC, socket_kinds[i].protocol);
                if (g->sockets[i] < 0)
                        return -1;
        }
        for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++) {
                const struct option_row *o = &option_rows[i];
                if (setsockopt(g->sockets[o->socket], o->level, o->name, &o->value, sizeof(o->value)) < 0)
                        return -1;
        }
        /* Bound to the one link: of no use elsewhere even if a second link came. */
        for (size_t i = 0; i < GATEWAY_SOCKET_COUNT; i++)
                if (i != GATEWAY_TCP && i != GATEWAY_UDP && setsockopt(g->sockets[i], SOL_SOCKET, SO_BINDTODEVICE, GATEWAY_LINK, sizeof(GATEWAY_LINK)) < 0)
                        return -1;
        if (bind(g->sockets[GATEWAY_TCP], (struct sockaddr *)&own, sizeof(own)) < 0 || bind(g->sockets[GATEWAY_UDP], (struct sockaddr *)&own, sizeof(own)) < 0)
                return -1;
        if (deafen(g->sockets[GATEWAY_RAW4]) < 0 || deafen(g->sockets[GATEWAY_RAW6]) < 0 || only_echo(g) < 0)
                return -1;
        return listen(g->sockets[GATEWAY_TCP], GATEWAY_BACKLOG);
}

int gateway_make(struct gateway *g, bool machine, struct err *err)
{
        int rtnl, rc = -1;

        if (guest_namespace(g, machine, err) < 0 || new_netns(err) < 0 || APPLY(both_sides, err) < 0 || APPLY(gate_side, err) < 0)
                return -1;
        /* The rules first: a link that is up is never without them. */
        if (nft_load(machine, err) < 0)
                return -1;
        rtnl = rtnl_open();
        if (rtnl < 0 || wire(g, rtnl) < 0)
                err_sys(err, errno, machine ? "cannot wire the gateway (a machine needs /dev/net/tun, readable and writable by you: sudo modprobe tun)"
                                            : "cannot wire the gateway (is the veth module there? sudo modprobe veth)");
        else if (open_sockets(g) < 0)
                err_sys(err, errno, "cannot make the gateway's transparent sockets");
        else
                rc = 0;
        fd_close(&rtnl);
        fd_close(&g->guest_rtnl);
        return rc;
}

void gateway_close_sockets(struct gateway *g)
{
        for (size_t i = 0; i < GATEWAY_SOCKET_COUNT; i++)
                fd_close(&g->sockets[i]);
}

void gateway_close_guest(struct gateway *g)
{
        fd_close(&g->guest_netns);
        fd_close(&g->tap);
}
