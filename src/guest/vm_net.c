/* The network: see vm_net.h. */
#include "guest/vm_net.h"
#include "base/fd.h"
#include "base/rtnl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOPBACK = 1 }; /* its index, in every network namespace */

/* The card with that address; its name in name. False: there is none. */
static bool find_card(const uint8_t mac[6], char name[IF_NAMESIZE])
{
        DIR *dir = opendir("/sys/class/net");
        const struct dirent *e;
        char wanted[20], path[sizeof("/sys/class/net//address") + IF_NAMESIZE];
        bool found = false;
        snprintf(wanted, sizeof(wanted), "%02x:%02x:%02x:%02x:%02x:%02x\n", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
        while (dir != NULL && !found && (e = readdir(dir)) != NULL) {
                struct buf text;
                struct err quiet;
                buf_init(&text, 0);
                if (e->d_name[0] != '.' && snprintf(name, IF_NAMESIZE, "%s", e->d_name) < IF_NAMESIZE) {
                        snprintf(path, sizeof(path), "/sys/class/net/%s/address", name);
                        found = fd_read_file(path, &text, sizeof(wanted), &quiet) == 0 && slice_is(buf_slice(&text), wanted);
                }
                buf_fini(&text);
        }
        if (dir != NULL)
                closedir(dir);
        return found;
}

static int setting(const char *where, const char *what, const char *value, struct err *err)
{
        char path[128];
        snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", where, what);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        int e = fd < 0 || fd_write_all(fd, value, strlen(value)) < 0 ? errno : 0;
        fd_close(&fd);
        return e != 0 ? err_sys(err, e, "%s", path) : 0;
}

/* Only what is told: no address of its own making, no router heard, no search for doubles. */
static int told_only(const char *where, struct err *err)
{
        if (setting(where, "accept_ra", "0", err) < 0 || setting(where, "autoconf", "0", err) < 0 || setting(where, "accept_dad", "0", err) < 0)
                return -1;
        return setting(where, "addr_gen_mode", "1", err);
}

static int family_up(int fd, int index, int family, const uint8_t *own, const uint8_t *gate, const uint8_t gate_mac[6])
{
        uint8_t whole = family == AF_INET ? 32 : 128;
        return rtnl_address(fd, index, family, own, whole) < 0 || rtnl_neighbour(fd, index, family, gate, gate_mac) < 0 ||
                               rtnl_default_route(fd, index, family, gate) < 0
                       ? -1
                       : 0;
}

static int card_up(int fd, const struct setup *s, struct err *err)
{
        char name[IF_NAMESIZE];
        if (!find_card(s->mac, name))
                return err_set(err, "the machine has no network card with the address that it was told");
        int index = (int)if_nametoindex(name);
        if (told_only("all", err) < 0 || told_only("default", err) < 0 || told_only(name, err) < 0)
                return -1;
        if (rtnl_mtu(fd, index, s->mtu) < 0)
                return err_sys(err, errno, "the network card does not take an MTU of %u", s->mtu);
        if (rtnl_up(fd, index) < 0 || (s->has_v4 && family_up(fd, index, AF_INET, s->v4, s->gate_v4, s->gate_mac) < 0) ||
            (s->has_v6 && family_up(fd, index, AF_INET6, s->v6, s->gate_v6, s->gate_mac) < 0))
                return err_sys(err, errno, "the network card cannot be set up");
        return 0;
}

int vm_net_up(const struct setup *s, struct err *err)
{
        int fd = rtnl_open();
        if (fd < 0 || rtnl_up(fd, LOOPBACK) < 0) {
                err_sys(err, errno, "the loopback device cannot be set up");
                fd_close(&fd);
                return -1;
        }
        int r = s->has_link ? card_up(fd, s, err) : 0;
        fd_close(&fd);
        return r;
}
