/* Texts of a machine's own system disk that brome has a part in: what is ours is put in, all else stays byte for byte. Pure.
 * 1: *out has the new text; 0: it is as it should be; -1: no memory. */
#ifndef BROME_GUEST_VM_TEXT_H
#define BROME_GUEST_VM_TEXT_H

#include "base/buf.h"

/* /etc/hosts: localhost in both families, and 127.0.1.1 for the machine's name and no other. */
int vm_text_hosts(struct slice present, struct slice name, struct buf *out) __attribute__((warn_unused_result));
/* A bundle of certificates: `fresh` in it once, `old` (what we put in before; may be empty) gone. Both end with a newline. */
int vm_text_bundle(struct slice present, struct slice old, struct slice fresh, struct buf *out) __attribute__((warn_unused_result));

#endif
