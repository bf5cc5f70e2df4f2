/* What a machine's system disk and home say of this workspace: names, resolver, the CA in the trust stores, files with placeholders.
 * Run after the change of root and before shares are mounted: whatever links the guest left lead to nothing but its own disks. */
#ifndef BROME_GUEST_VM_ETC_H
#define BROME_GUEST_VM_ETC_H

#include "base/err.h"
#include "guest/homefiles.h"
#include "vm/setup.h"

enum { VM_ETC_FILE_BYTES = 4 * 1024 * 1024 }; /* as launch/trust.h has it for the largest, the bundle */

/* 0; -1 with the reason. */
int vm_etc_write(const struct setup *setup, struct err *err) __attribute__((warn_unused_result));
/* notes: as homefiles_write has them. */
int vm_etc_home(const struct setup *setup, char notes[HOMEFILES_NOTES_BYTES], struct err *err) __attribute__((warn_unused_result));

#endif
