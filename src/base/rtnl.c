/* Route netlink: see rtnl.h, rtnetlink(7). */
#include "base/rtnl.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RUNNING_PAUSE_US = 500, RUNNING_TRIES = 10000 }; /* 5 s: the kernel rests a second between two looks at its links */

struct request {
        union {
                struct nlmsghdr head;
                uint8_t bytes[1024];
        };
};

/* Room is a constant of this file: the largest request (veth) is under 300 bytes. */
static void *push(struct request *r, const void *p, size_t n)
{
        uint8_t *at = r->bytes + NLMSG_ALIGN(r->head.nlmsg_len);

        if (at + n > r->bytes + sizeof(r->bytes))
                return NULL;
        if (n)
                memcpy(at, p, n);
        r->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->head.nlmsg_len) + n);
        return at;
}

static struct rtattr *attr(struct request *r, unsigned short type, const void *p, size_t n)
{
        struct rtattr a = { .rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(n) };
        struct rtattr *at = push(r, &a, sizeof(a));

        push(r, p, n);
        return at;
}

static void attr_u32(struct request *r, unsigned short type, uint32_t v) { attr(r, type, &v, sizeof(v)); }

static struct rtattr *nest(struct request *r, unsigned short type) { return attr(r, type, NULL, 0); }

static void nest_end(struct request *r, struct rtattr *a)
{
        a->rta_len = (unsigned short)(r->bytes + NLMSG_ALIGN(r->head.nlmsg_len) - (uint8_t *)a);
}

static void begin(struct request *r, uint16_t type, uint16_t flags, const void *body, size_t n)
{
        memset(r, 0, sizeof(*r));
        r->head = (struct nlmsghdr){ .nlmsg_len = NLMSG_LENGTH(0), .nlmsg_type = type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags),
                .nlmsg_seq = 1 };
        push(r, body, n);
}

int rtnl_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE); }

static int run(int fd, const struct request *r)
{
        union { struct nlmsghdr head; uint8_t bytes[4096]; } answer;
        const struct nlmsgerr *e = NLMSG_DATA(&answer.head);
        ssize_t n;

        if (send(fd, r, r->head.nlmsg_len, 0) < 0)
                return -1;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < (ssize_t)NLMSG_LENGTH(sizeof(*e)) || answer.head.nlmsg_type != NLMSG_ERROR) {
                errno = EPROTO;
                return -1;
        }
        errno = -e->error;
        return e->error ? -1 : 0;
}

static size_t address_bytes(int family) { return family == AF_INET ? 4 : 16; }

static void push_end(struct request *r, const struct rtnl_end *end, uint32_t mtu)
{
        attr(r, IFLA_IFNAME, end->name, strlen(end->name) + 1);
        attr(r, IFLA_ADDRESS, end->mac, 6);
        attr_u32(r, IFLA_MTU, mtu);
}

int rtnl_veth(int fd, const struct rtnl_end *here, const struct rtnl_end *there, int there_netns, uint32_t mtu)
{
        struct request r;
        struct ifinfomsg i = { .ifi_family = AF_UNSPEC, .ifi_index = here->index };
        struct rtattr *info, *data, *peer;

        begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &i, sizeof(i));
        push_end(&r, here, mtu);
        info = nest(&r, IFLA_LINKINFO);
        attr(&r, IFLA_INFO_KIND, "veth", 4);
        data = nest(&r, IFLA_INFO_DATA);
        i.ifi_index = there->index;
        peer = nest(&r, VETH_INFO_PEER);
        push(&r, &i, sizeof(i));
        push_end(&r, there, mtu);
        attr_u32(&r, IFLA_NET_NS_FD, (uint32_t)there_netns);
        nest_end(&r, peer);
        nest_end(&r, data);
        nest_end(&r, info);
        return run(fd, &r);
}

int rtnl_mtu(int fd, int index, uint32_t mtu)
{
        struct request r;
        struct ifinfomsg i = { .ifi_family = AF_UNSPEC, .ifi_index = index };

        begin(&r, RTM_NEWLINK, 0, &i, sizeof(i));
        attr_u32(&r, IFLA_MTU, mtu);
        return run(fd, &r);
}

int rtnl_dress(int fd, const struct rtnl_end *end, uint32_t mtu)
{
        struct request r;
        struct ifinfomsg i = { .ifi_family = AF_UNSPEC, .ifi_index = end->index };

        begin(&r, RTM_NEWLINK, 0, &i, sizeof(i));
        attr(&r, IFLA_ADDRESS, end->mac, 6);
        attr_u32(&r, IFLA_MTU, mtu);
        return run(fd, &r);
}

int rtnl_up(int fd, int index)
{
        struct request r;
        struct ifinfomsg i = { .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };

        begin(&r, RTM_NEWLINK, 0, &i, sizeof(i));
        return run(fd, &r);
}

int rtnl_running(int fd, int index)
{
        static const struct timespec pause = { 0, RUNNING_PAUSE_US * 1000 };
        struct ifinfomsg i = { .ifi_family = AF_UNSPEC, .ifi_index = index };
        union { struct nlmsghdr head; uint8_t bytes[8192]; } answer; /* a link with all its attributes */
        const struct ifinfomsg *found = NLMSG_DATA(&answer.head);
        struct request r;

        for (int tries = 0; tries < RUNNING_TRIES; tries++) {
                begin(&r, RTM_GETLINK, 0, &i, sizeof(i));
                r.head.nlmsg_flags = NLM_F_REQUEST; /* the link itself is the answer */
                if (send(fd, &r, r.head.nlmsg_len, 0) < 0)
                        return -1;
                if (recv(fd, &answer, sizeof(answer), 0) < (ssize_t)NLMSG_LENGTH(sizeof(*found)) || answer.head.nlmsg_type != RTM_NEWLINK) {
                        errno = EPROTO;
                        return -1;
                }
                if (found->ifi_flags & IFF_RUNNING)
                        return 0;
                nanosleep(&pause, NULL);
        }
        errno = ETIMEDOUT;
        return -1;
}

int rtnl_address(int fd, int index, int family, const void *address, uint8_t prefix)
{
        struct request r;
        struct ifaddrmsg a = { .ifa_family = (uint8_t)family, .ifa_prefixlen = prefix, .ifa_index = (uint32_t)index };

        begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &a, sizeof(a));
        attr(&r, IFA_LOCAL, address, address_bytes(family));
        attr(&r, IFA_ADDRESS, address, address_bytes(family));
        attr_u32(&r, IFA_FLAGS, family == AF_INET6 ? IFA_F_NODAD : 0);
        return run(fd, &r);
}

int rtnl_neighbour(int fd, int index, int family, const void *address, const uint8_t *mac)
{
        struct request r;
        struct ndmsg n = { .ndm_family = (uint8_t)family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT };

        begin(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &n, sizeof(n));
        attr(&r, NDA_DST, address, address_bytes(family));
        attr(&r, NDA_LLADDR, mac, 6);
        return run(fd, &r);
}

static int route(int fd, const struct rtmsg *m, int index, const void *gateway, uint32_t table)
{
        struct request r;

        begin(&r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, m, sizeof(*m));
        attr_u32(&r, RTA_TABLE, table);
        attr_u32(&r, RTA_OIF, (uint32_t)index);
        if (gateway)
                attr(&r, RTA_GATEWAY, gateway, address_bytes(m->rtm_family));
        return run(fd, &r);
}

int rtnl_default_route(int fd, int index, int family, const void *gateway)
{
        struct rtmsg m = { .rtm_family = (uint8_t)family, .rtm_protocol = RTPROT_STATIC, .rtm_scope = RT_SCOPE_UNIVERSE, .rtm_type = RTN_UNICAST,
                            .rtm_flags = RTNH_F_ONLINK }; /* no route leads to the gateway itself */

        return route(fd, &m, index, gateway, RT_TABLE_MAIN);
}

int rtnl_local_table(int fd, int loopback, int family, uint32_t mark, uint32_t table)
{
        struct request r;
        struct fib_rule_hdr h = { .family = (uint8_t)family, .action = FR_ACT_TO_TBL };
        struct rtmsg m = { .rtm_family = (uint8_t)family, .rtm_protocol = RTPROT_STATIC, .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL };

        begin(&r, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &h, sizeof(h));
        attr_u32(&r, FRA_FWMARK, mark);
        attr_u32(&r, FRA_FWMASK, UINT32_MAX);
        attr_u32(&r, FRA_TABLE, table);
        attr_u32(&r, FRA_PRIORITY, 100);
        return run(fd, &r) < 0 ? -1 : route(fd, &m, loopback, NULL, table);
}
