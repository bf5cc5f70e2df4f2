/* The inner door's seal: see sealed.h. SECURITY: no socket, connect, bind, listen, open, clone or exec is in this table. */
#include "inner/sealed.h"
#include "base/log.h"
#include "base/seal.h"

#include <sys/socket.h>

static const struct seal_call calls[] = {
        SEAL_CALL(accept4, "the guest's connections"),
        SEAL_CALL(getsockname, "where a connection of the guest goes"),
        SEAL_SOCKOPT(SOL_SOCKET, SO_LINGER, "reset instead of a close"),
};

int sealed(struct err *err)
{
        if (seal_caps(NULL, 0, err) < 0)
                return -1;
        if (seal_files(NULL, 0, err) < 0)
                return -1;
        return seal_calls(calls, sizeof(calls) / sizeof(calls[0]), err);
}
