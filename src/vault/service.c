/* The Secret Service by libsecret, opened when it is asked for: who has no desktop needs neither libsecret nor glib, and bromed never loads them.
 *
 * The three functions and two structures below are libsecret's stable public interface (libsecret-1.so.0). */
#include "vault/root_priv.h"

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

static int load(struct err *err)
{
        void *so = dlopen("libsecret-1.so.0", RTLD_NOW | RTLD_LOCAL);

        if (!so)
                return err_set(err, "its library is not installed; on Debian it is libsecret-1-0");
        *(void **)&lib.store = dlsym(so, "secret_password_store_sync");
        *(void **)&lib.free = dlsym(so, "secret_password_free");
        *(void **)&lib.lookup = lib.store && lib.free ? dlsym(so, "secret_password_lookup_nonpageable_sync") : NULL;
        return lib.lookup ? 0 : err_set(err, "its library is too old");
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

/* --- in a process of its own --- */

enum { HEX_KEY = 2 * VAULT_KEY_BYTES + 1 };
struct store_ask {
        char id[ROOT_ID_TEXT + 1];
};

/* A look: 0 found, 1 nothing there, -1 no answer. A keyring that is locked asks its user to open it, or says that nobody can be asked. */
static int lookup(const char *id, char *out, size_t size, struct err *err)
{
        struct gerror *e = NULL;
        char *text;
        int rc = 0;

        if (load(err) < 0)
                return -1;
        text = lib.lookup(&vault_schema, NULL, &e, "vault", id, NULL);
        if (!text && !e)
                return 1;
        if (!text)
                return err_set(err, "%.200s", e->message ? e->message : "it gives no reason");
        if (snprintf(out, size, "%s", text) >= (int)size)
                rc = err_set(err, "it holds something else under this vault's name");
        lib.free(text);
        return rc;
}

static int there_aside(const void *in, void *out, struct err *err)
{
        char text[8];

        (void)in;
        (void)out;
        /* A look for nothing: is anybody there to answer? */
        return lookup("none", text, sizeof(text), err) < 0 ? -1 : 0;
}

static int key_aside(const void *in, void *out, struct err *err)
{
        const struct store_ask *ask = in;
        char text[HEX_KEY];
        int rc = lookup(ask->id, text, sizeof(text), err);

        if (rc == 0 && !root_unhex(text, out, VAULT_KEY_BYTES))
                rc = err_set(err, "it holds no key under this vault's name");
        explicit_bzero(text, sizeof(text));
        return rc;
}

static int make_aside(const void *in, void *out, struct err *err)
{
        const struct store_ask *ask = in;
        struct gerror *e = NULL;
        char label[96], text[HEX_KEY];
        int rc = 0;

        if (load(err) < 0 || root_random(out, VAULT_KEY_BYTES, err) < 0)
                return -1;
        root_hex(out, VAULT_KEY_BYTES, text);
        snprintf(label, sizeof(label), "brome vault %s", ask->id);
        if (!lib.store(&vault_schema, "default", label, text, NULL, &e, "vault", ask->id, NULL))
                rc = err_set(err, "it did not take the key: %.200s", e && e->message ? e->message : "no reason given");
        explicit_bzero(text, sizeof(text));
        return rc;
}

bool root_service_there(struct err *why)
{
        if (!bus_there()) {
                err_set(why, "there is no session bus");
                return false;
        }
        return root_aside(there_aside, NULL, NULL, 0, ROOT_LIBRARY_S, why) == 0;
}

static int ask_aside(root_aside_fn *fn, const char *id, uint8_t *key, struct err *err)
{
        struct store_ask ask = { 0 };

        if (!bus_there())
                return err_set(err, "there is no session bus here");
        if (!id || strlen(id) != ROOT_ID_TEXT)
                return err_set(err, "the vault has no id");
        snprintf(ask.id, sizeof(ask.id), "%s", id);
        return root_aside(fn, &ask, key, VAULT_KEY_BYTES, ROOT_PERSON_S, err);
}

int root_service_make(const char *id, uint8_t key[VAULT_KEY_BYTES], struct err *err) { return ask_aside(make_aside, id, key, err); }
int root_service_key(const char *id, uint8_t key[VAULT_KEY_BYTES], struct err *err) { return ask_aside(key_aside, id, key, err); }
