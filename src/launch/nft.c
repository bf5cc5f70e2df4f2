/* Packet rules: see nft.h. */
#include "launch/nft.h"
#include "base/esc.h"
#include "launch/gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TABLE "gate"
#define SET "links"
#define PORT "50880"
_Static_assert(GATEWAY_PORT == 50880, "the rules name the port");

/* early: what no honest guest of ours sends, before the kernel reassembles anything (that is at -400). Dropped in silence where an answer would go to
 * somebody else, or cannot be made; IP options and extension headers, which any program may set on its socket, are refused.
 * gate: the switch, then TPROXY; each TPROXY rule falls through to a reject when nobody listens.
 * No connection tracking anywhere: no state table to fill. Local packets of `lo` are ours alone. */
static const char rules[] = /* a format: what `neighbours` says below */
        "table inet " TABLE " {\n"
        "  set " SET " {\n"
        "    type ifname\n"
        "  }\n"
        "  chain early {\n"
        "    type filter hook prerouting priority -450; policy drop;\n"
        "    iifname \"lo\" accept\n"
        "    iifname != \"" GATEWAY_LINK "\" drop\n"
        "    ether saddr != " GATEWAY_GUEST_MAC " drop\n"
        "    ip frag-off & 0x3fff != 0 drop\n"
        "    exthdr frag exists drop\n"
        "    ip option lsrr exists drop\n"
        "    ip option ssrr exists drop\n"
        "%s"
        "    ip saddr " GATEWAY_GUEST_V4 " ip hdrlength 5 accept\n"
        "    ip saddr " GATEWAY_GUEST_V4 " goto refuse\n"
        "    ip6 saddr != " GATEWAY_GUEST_V6 " drop\n"
        "    exthdr rt exists goto refuse\n"
        "    exthdr hbh exists goto refuse\n"
        "    exthdr dst exists goto refuse\n"
        "    ip6 saddr " GATEWAY_GUEST_V6 " accept\n"
        "  }\n"
        "  chain refuse {\n"
        "    meta l4proto tcp reject with tcp reset\n"
        "    meta l4proto udp reject with icmpx type port-unreachable\n"
        "    reject with icmpx type admin-prohibited\n"
        "  }\n"
        "  chain gate {\n"
        "    type filter hook prerouting priority -150; policy drop;\n"
        "    iifname \"lo\" accept\n"
        "    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept\n"
        "    iifname @" SET " jump admit\n"
        "    goto refuse\n"
        "  }\n"
        "  chain admit {\n"
        "    meta l4proto tcp tproxy to :" PORT " meta mark set 1 accept\n"
        "    meta l4proto udp tproxy to :" PORT " meta mark set 1 accept\n"
        "    icmp type echo-request meta mark set 1 accept\n"
        "    icmpv6 type echo-request meta mark set 1 accept\n"
        "  }\n"
        "  chain input {\n"
        "    type filter hook input priority 0; policy drop;\n"
        "    iifname \"lo\" accept\n"
        "    meta mark 1 accept\n"
        "    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept\n"
        "  }\n"
        "  chain forward {\n"
        "    type filter hook forward priority 0; policy drop;\n"
        "  }\n"
        "  chain output {\n"
        "    type filter hook output priority 0; policy drop;\n"
        "    oifname \"lo\" accept\n"
        "    oifname \"" GATEWAY_LINK "\" ip daddr " GATEWAY_GUEST_V4 " accept\n"
        "    oifname \"" GATEWAY_LINK "\" ip6 daddr " GATEWAY_GUEST_V6 " accept\n"
        "  }\n"
        "}\n";

/* Neighbours are fixed on both ends. The kernel of a namespace guest, which is ours, checks on them all the same. SECURITY: a machine's kernel is the guest's,
 * and each solicitation from yet another address would be an entry in a table that all namespaces of the host have in common: none gets in. */
static const char neighbours[] = "    ip6 saddr fe80::/64 ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n";
static const char no_neighbours[] = "    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert, nd-redirect } drop\n";

int nft_load(bool machine, struct err *err)
{
        char text[sizeof(rules) + sizeof(neighbours) + sizeof(no_neighbours)];
        struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
        const char *why;
        int rc = -1;

        if (!ctx)
                return err_set(err, "nftables: out of memory");
        snprintf(text, sizeof(text), rules, machine ? no_neighbours : neighbours);
        if (nft_ctx_buffer_error(ctx) == 0 && nft_ctx_buffer_output(ctx) == 0)
                rc = nft_run_cmd_from_buffer(ctx, text);
        if (rc) {
                why = nft_ctx_get_error_buffer(ctx);
                err_set(err, "the kernel refuses the gateway's packet rules (it needs nf_tables, nft_tproxy, nft_reject_inet, nft_socket: sudo modprobe -a nft_tproxy "
                             "nft_reject_inet): %.120s", esc_str(why ? why : ""));
        }
        nft_ctx_free(ctx);
        return rc ? -1 : 0;
}

int nft_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER); }

struct batch {
        uint8_t bytes[512]; /* three messages, some 200 bytes */
        size_t n;
};

static void put(struct batch *b, const void *p, size_t n)
{
        memcpy(b->bytes + b->n, p, n);
        b->n += NLMSG_ALIGN(n);
}

/* Returns where the length stands; close() fills it in. */
static size_t message(struct batch *b, uint16_t type, uint16_t flags, uint8_t family, uint16_t res_id)
{
        struct nlmsghdr h = { .nlmsg_type = type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags), .nlmsg_seq = 1 };
        struct nfgenmsg g = { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(res_id) };
        size_t at = b->n;

        put(b, &h, sizeof(h));
        put(b, &g, sizeof(g));
        return at;
}

static void message_end(struct batch *b, size_t at)
{
        uint32_t n = (uint32_t)(b->n - at);

        memcpy(b->bytes + at, &n, sizeof(n));
}

static size_t nest(struct batch *b, uint16_t type)
{
        struct nlattr a = { .nla_type = (uint16_t)(type | NLA_F_NESTED) };
        size_t at = b->n;

        put(b, &a, sizeof(a));
        return at;
}

static void nest_end(struct batch *b, size_t at)
{
        uint16_t n = (uint16_t)(b->n - at);

        memcpy(b->bytes + at, &n, sizeof(n));
}

static void attr(struct batch *b, uint16_t type, const void *p, size_t n)
{
        struct nlattr a = { .nla_len = (uint16_t)(sizeof(a) + n), .nla_type = type };

        put(b, &a, sizeof(a));
        put(b, p, n);
}

static void element(struct batch *b, bool open)
{
        char key[16] = GATEWAY_LINK; /* an interface name is compared in all its 16 bytes */
        uint16_t type = (uint16_t)((NFNL_SUBSYS_NFTABLES << 8) | (open ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM));
        size_t msg = message(b, type, (uint16_t)(NLM_F_ACK | (open ? NLM_F_CREATE : 0)), NFPROTO_INET, 0), list, one, k;

        attr(b, NFTA_SET_ELEM_LIST_TABLE, TABLE, sizeof(TABLE));
        attr(b, NFTA_SET_ELEM_LIST_SET, SET, sizeof(SET));
        list = nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
        one = nest(b, NFTA_LIST_ELEM);
        k = nest(b, NFTA_SET_ELEM_KEY);
        attr(b, NFTA_DATA_VALUE, key, sizeof(key));
        nest_end(b, k);
        nest_end(b, one);
        nest_end(b, list);
        message_end(b, msg);
}

int nft_switch(int fd, bool open)
{
        struct batch b = { .n = 0 };
        union { struct nlmsghdr head; uint8_t bytes[4096]; } answer;
        const struct nlmsgerr *e = NLMSG_DATA(&answer.head);
        ssize_t n;

        message_end(&b, message(&b, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
        element(&b, open);
        message_end(&b, message(&b, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
        if (send(fd, b.bytes, b.n, 0) < 0)
                return -1;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < (ssize_t)NLMSG_LENGTH(sizeof(*e)) || answer.head.nlmsg_type != NLMSG_ERROR) {
                errno = EPROTO;
                return -1;
        }
        errno = -e->error;
        return e->error && !(!open && errno == ENOENT) ? -1 : 0;
}
