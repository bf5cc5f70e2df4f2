/* The files that tools in the guest read their credentials from (account/guest.h says which and what stands in them): written into the guest's home at
 * the start of a session, with placeholders, never with a secret.
 *
 * SECURITY: the home is the guest's: in every earlier session it could put links, FIFOs and folders where these files belong. So this runs as the guest's
 * root, and opens beneath the home's descriptor, through no link, onto no other mount. What is not as it should be is left alone, and said. */
#ifndef BROME_GUEST_HOMEFILES_H
#define BROME_GUEST_HOMEFILES_H

#include "account/binding.h"

enum { HOMEFILES_NOTES_BYTES = 1024 }; /* a sentence for each of a few files */

/* home: the home's folder (O_PATH). The same again changes nothing; without accounts what was written before is taken out. notes: sentences, one a line, of
 * files that were left alone; empty when there is none. */
void homefiles_write(int home, const struct binding *accounts, size_t count, char notes[HOMEFILES_NOTES_BYTES]);

#endif
