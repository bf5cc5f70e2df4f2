/* brome-inner: the door that faces the guest. It holds no secret and can reach nothing but the guest and the outer doors.
 *
 * Life: seal early → wait for `start` with every descriptor → open what needs files and memory → seal → loop until bromed is gone.
 * Everything happens in one thread; one turn of the loop reads what came, then sends what was made, then frees what was closed. */
#include "base/chan.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/seal.h"
#include "inner/accounts.h"
#include "inner/control.h"
#include "inner/events.h"
#include "inner/flow.h"
#include "inner/gram.h"
#include "inner/hold.h"
#include "inner/link.h"
#include "inner/names.h"
#include "inner/outbox.h"
#include "inner/sealed.h"
#include "inner/tls.h"
#include "inner/tripwire.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CONTROL_FD = 3, START_MS = 30 * 1000, PEM_BYTES = 64 * 1024 };

static struct door door;
static struct gram *gram;

static void end_turn(void)
{
        flow_admit(&door);
        hold_turn(&door);
        /* Sending may free room, which may make more to send; a bound keeps one turn finite. */
        for (int i = 0; i < 8; i++) {
                bool any;

                conn_turn_end();
                tripwire_turn_end(&door); /* SECURITY: before anything is sent */
                any = link_turn_end(door.link);
                if (!(accounts_turn_end(&door) || any || door.trip))
                        break;
        }
        conn_turn_end();
        tripwire_turn_end(&door);
        exchange_free_dead(&door);
        flow_free_dead(&door);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
        int64_t now = clock_mono_ms();

        (void)fd, (void)what, (void)arg;
        flow_tick(&door, now);
        hold_tick(&door, now);
        accounts_tick(&door, now);
        gram_tick(gram, now);
}

static struct tls *open_tls(int key_fd, int cert_fd, struct err *err)
{
        struct buf key, cert;
        struct tls *t = NULL;

        buf_init(&key, 0);
        buf_init(&cert, 0);
        if (fd_read_all(key_fd, &key, PEM_BYTES, err) == 0 && fd_read_all(cert_fd, &cert, PEM_BYTES, err) == 0)
                t = tls_open(buf_slice(&key), buf_slice(&cert), err);
        if (buf_len(&key))
                explicit_bzero(key.bytes, key.cap);
        buf_fini(&key);
        buf_fini(&cert);
        fd_close(&key_fd);
        fd_close(&cert_fd);
        return t;
}

static int open_all(struct chan_msg *start, struct err *err)
{
        static const struct timeval second = { TICK_MS / 1000, TICK_MS % 1000 * 1000 };
        int fds[INNER_FD_COUNT];
        struct event *tick;

        if (strcmp(start->op, "start") != 0 || control_take_fds(start, fds, err) < 0)
                return start->op[0] && err->text[0] ? -1 : err_set(err, "the first message is no start");
        if (strcmp(chan_str(start, "dns", "synthetic"), "synthetic") != 0)
                return err_set(err, "`dns real` is not available yet: leave the line out");
        snprintf(door.workspace, sizeof(door.workspace), "%s", chan_str(start, "workspace", "?"));
        log_init("brome-inner", door.workspace);
        door.tcp = fds[INNER_TCP], door.udp = fds[INNER_UDP], door.raw4 = fds[INNER_RAW4], door.raw6 = fds[INNER_RAW6];
        door.icmp4 = fds[INNER_ICMP4], door.icmp6 = fds[INNER_ICMP6];
        for (int i = INNER_TCP; i <= INNER_ICMP6; i++)
                if (fd_nonblock(fds[i]) < 0)
                        return err_set(err, "a descriptor of the gateway is broken");
        door.base = event_base_new();
        if (!door.base)
                return err_set(err, "no event loop");
        door.tls = open_tls(fds[INNER_CA_KEY], fds[INNER_CA_CERT], err);
        door.names = door.tls ? names_open(fds[INNER_NAMES], err) : NULL;
        if (!door.names)
                return -1;
        door.outbox = outbox_open(&door, fds[INNER_EVENTS]);
        door.link = link_open(&door, fds[INNER_LINK], NULL);
        gram = gram_open(&door);
        tick = event_new(door.base, -1, EV_PERSIST, on_tick, NULL);
        if (!door.outbox || !door.link || !gram || !tick || event_add(tick, &second) < 0 || flow_listen(&door) < 0 || control_open(&door) < 0)
                return err_set(err, "out of memory");
        return 0;
}

/* OpenSSL loads parts at first use; after the seal it could not. */
static int warm_up(struct err *err)
{
        struct authority to = { .name = SLICE_LIT("localhost"), .port = 443 };
        SSL *ssl = tls_accept(door.tls, &to);

        if (!ssl)
                return err_set(err, "TLS: the first certificate failed");
        SSL_free(ssl);
        return 0;
}

/* One descriptor a flow and a few more. What the machine does not give is refused at accept. */
static void raise_descriptors(void)
{
        struct rlimit want = { FLOWS_MAX + 64, FLOWS_MAX + 64 }, have;

        if (getrlimit(RLIMIT_NOFILE, &have) < 0)
                return;
        want.rlim_max = have.rlim_max;
        if (want.rlim_cur > have.rlim_max)
                want.rlim_cur = have.rlim_max;
        if (want.rlim_cur > have.rlim_cur && setrlimit(RLIMIT_NOFILE, &want) < 0)
                log_info("cannot raise the limit on descriptors");
}

static int start(struct err *err)
{
        struct chan_msg msg;
        int rc = chan_wait(CONTROL_FD, START_MS, &msg, err);

        if (rc <= 0)
                return rc < 0 ? -1 : err_set(err, "no start message");
        rc = open_all(&msg, err);
        chan_msg_fini(&msg);
        if (rc == 0)
                rc = warm_up(err);
        return rc == 0 ? sealed(err) : -1;
}

int main(void)
{
        struct err err = ERR_INIT;

        log_init("brome-inner", NULL);
        if (seal_early(&err) < 0) {
                log_error("%s", err.text);
                return 1;
        }
        (void)!mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
        (void)!mallopt(M_TRIM_THRESHOLD, MMAP_BYTES);
        door.control = CONTROL_FD;
        door.next_id = 1;
        raise_descriptors();
        TAILQ_INIT(&door.accounts);
        TAILQ_INIT(&door.hold_queue);
        TAILQ_INIT(&door.flows);
        TAILQ_INIT(&door.dead_flows);
        TAILQ_INIT(&door.exchanges);
        TAILQ_INIT(&door.dead_exchanges);
        if (start(&err) < 0) {
                log_error("%s", err.text);
                return 1;
        }
        while (!door.quit) {
                if (event_base_loop(door.base, EVLOOP_ONCE) < 0)
                        break;
                end_turn();
        }
        outbox_close(door.outbox);
        return 0;
}
