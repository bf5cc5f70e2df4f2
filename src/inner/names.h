/* Names ↔ synthetic addresses: name n of the table owns one IPv4 and one IPv6 address of the workspace (docs/CONTROL.md), for ever.
 *
 * So an address is a name: there is no answer to poison and no shared address to confuse. The table only grows; each new name is in the file
 * before its address is in an answer. */
#ifndef BROME_INNER_NAMES_H
#define BROME_INNER_NAMES_H

#include "base/addr.h"
#include "base/err.h"
#include "base/slice.h"

struct names;

/* Takes fd (open for reading and appending); reads what is there. A line that is no canonical name keeps its address and has no name. */
struct names *names_open(int fd, struct err *err) __attribute__((warn_unused_result));
void names_close(struct names *n); /* NULL is fine */
size_t names_count(const struct names *n);
/* The number of a canonical name, given one when it is new; -1: the table is full or the file cannot be written. */
int names_number(struct names *n, struct slice name) __attribute__((warn_unused_result));
struct addr names_v4(int number);
struct addr names_v6(int number);
/* Lies the address in the ranges for names? */
bool names_is_synthetic(const struct addr *a);
/* The name that owns it, NUL terminated, kept until names_close; empty: none. */
struct slice names_owner(const struct names *n, const struct addr *a);

#endif
