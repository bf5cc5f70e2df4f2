/* The Secret Service by libsecret, opened when it is asked for: who has no desktop needs neither libsecret nor glib, and bromed never loads them.
 *
 * The three functions and two structures below are libsecret's stable public interface (libsecret-1.so.0). */
#include "vault/root.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SecretSchema, GError. */
struct schema {
        const char *name;
        int flags;
        struct {
                const char *name;
                int type;
        } attributes[32];
        int reserved;
        void *reserved_pointers[7];
};
struct gerror {
        uint32_t domain;
        int code;
        char *message;
};

typedef int store_fn(const struct schema *, const char *collection, const char *label, const char *password, void *cancellable, struct gerror **, ...);
typedef char *lookup_fn(const struct schema *, void *cancellable, struct gerror **, ...);
typedef void free_fn(char *);

static const struct schema vault_schema = { .name = "org.brome.vault", .flags = 0, .attributes = { { "vault", 0 } } };

static struct {
        store_fn *store;
        lookup_fn *lookup;
        free_fn *free;
} lib;

static bool load(struct err *why)
{
        void *so;

        if (lib.lookup)
                return true;
        so = dlopen("libsecret-1.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!so) {
                err_set(why, "libsecret is not installed");
                return false;
        }
        *(void **)&lib.store = dlsym(so, "secret_password_store_sync");
        *(void **)&lib.free = dlsym(so, "secret_password_free");
        *(void **)&lib.lookup = lib.store && lib.free ? dlsym(so, "secret_password_lookup_nonpageable_sync") : NULL;
        if (!lib.lookup)
                err_set(why, "this libsecret is too old");
        return lib.lookup != NULL;
}

/* Without a bus, glib might start one of its own that nobody else sees. */
static bool bus_there(void)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR"), *address = getenv("DBUS_SESSION_BUS_ADDRESS");
        char path[4096];

        if (address && *address)
                return true;
        return runtime && snprintf(path, sizeof(path), "%s/bus", runtime) < (int)sizeof(path) && access(path, F_OK) == 0;
}

bool root_service_there(struct err *why)
{
        char text[8];
        struct err err = ERR_INIT;

        if (!bus_there()) {
                err_set(why, "there is no session bus");
                return false;
        }
        /* A look for nothing: is anybody there to answer? */
        if (load(why) && root_service_lookup("none", text, sizeof(text), &err) < 0 && strcmp(err.text, "none") != 0) {
                err_set(why, "%s", err.text);
                return false;
        }
        return lib.lookup != NULL;
}

int root_service_store(const char *id, const char *text, struct err *err)
{
        struct gerror *e = NULL;
        char label[96];

        if (!load(err))
                return -1;
        snprintf(label, sizeof(label), "brome vault %s", id);
        if (lib.store(&vault_schema, "default", label, text, NULL, &e, "vault", id, NULL))
                return 0;
        return err_set(err, "the keyring did not take the key: %.200s", e && e->message ? e->message : "no reason given");
}

int root_service_lookup(const char *id, char *out, size_t size, struct err *err)
{
        struct gerror *e = NULL;
        char *text;
        int rc = 0;

        if (!load(err))
                return -1;
        text = lib.lookup(&vault_schema, NULL, &e, "vault", id, NULL);
        if (!text)
                return err_set(err, "%.200s", e && e->message ? e->message : "none");
        if (snprintf(out, size, "%s", text) >= (int)size)
                rc = err_set(err, "the keyring holds something else under this name");
        lib.free(text);
        return rc;
}
