/* A machine's network: one card with fixed addresses, and neighbours that are told, so that no ARP, NDP or router advertisement is needed or heard. */
#ifndef BROME_GUEST_VM_NET_H
#define BROME_GUEST_VM_NET_H

#include "base/err.h"
#include "vm/setup.h"

/* Loopback, and the card if there is one. May be done again. 0; -1 with the reason. */
int vm_net_up(const struct setup *setup, struct err *err) __attribute__((warn_unused_result));

#endif
