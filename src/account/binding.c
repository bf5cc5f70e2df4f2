/* Bindings: see binding.h. */
#include "account/binding.h"

bool binding_covers(const struct binding *b, struct slice host, uint16_t port)
{
        for (size_t i = 0; i < b->host_count; i++)
                if (b->hosts[i].port == port && slice_eq(b->hosts[i].name, host))
                        return true;
        return false;
}
