/* The TPM as root of trust, by tpm2-tss's ESYS, which is opened when it is asked for: who has no TPM needs no library of it.
 *
 * A primary key of the owner hierarchy, made anew each time from the TPM's own seed by the template of a storage root key (ECC P-256), is the parent of one sealed
 * object: the vault's random key. What the TPM gave back stands in the vault's header; only this TPM, with this seed, opens it. Neither key has a password
 * (noDA, so no dictionary lockout): it protects a copied file, not against another process of the same user on this machine.
 * SECURITY: the key crosses the bus only as an encrypted parameter of a session salted with the parent's public key, and the parent is pinned by the name that
 * stands in the header, so that whoever sits on the bus cannot put a key of his own in its place when the vault is opened. */
#include "vault/root_priv.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_tctildr.h>
#include <unistd.h>

static const char device[] = "/dev/tpmrm0"; /* the kernel's resource manager: what we load is flushed when we end */

/* --- the library --- */

static struct {
        __typeof__(Tss2_TctiLdr_Initialize) *tcti_open;
        __typeof__(Tss2_TctiLdr_Finalize) *tcti_close;
        __typeof__(Esys_Initialize) *open;
        __typeof__(Esys_Finalize) *close;
        __typeof__(Esys_Free) *free;
        __typeof__(Esys_CreatePrimary) *create_primary;
        __typeof__(Esys_TR_GetName) *name;
        __typeof__(Esys_StartAuthSession) *start_session;
        __typeof__(Esys_TRSess_SetAttributes) *session_attributes;
        __typeof__(Esys_Create) *create;
        __typeof__(Esys_Load) *load;
        __typeof__(Esys_Unseal) *unseal;
        __typeof__(Esys_FlushContext) *flush;
} lib;

static const struct {
        bool tcti;
        const char *name;
        void *to;
} symbols[] = {
        { true, "Tss2_TctiLdr_Initialize", &lib.tcti_open },
        { true, "Tss2_TctiLdr_Finalize", &lib.tcti_close },
        { false, "Esys_Initialize", &lib.open },
        { false, "Esys_Finalize", &lib.close },
        { false, "Esys_Free", &lib.free },
        { false, "Esys_CreatePrimary", &lib.create_primary },
        { false, "Esys_TR_GetName", &lib.name },
        { false, "Esys_StartAuthSession", &lib.start_session },
        { false, "Esys_TRSess_SetAttributes", &lib.session_attributes },
        { false, "Esys_Create", &lib.create },
        { false, "Esys_Load", &lib.load },
        { false, "Esys_Unseal", &lib.unseal },
        { false, "Esys_FlushContext", &lib.flush },
};

static int load(struct err *err)
{
        void *tcti = dlopen("libtss2-tctildr.so.0", RTLD_NOW | RTLD_LOCAL), *esys = tcti ? dlopen("libtss2-esys.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;

        if (!esys)
                return err_set(err, "the TPM's library is not installed; on Debian it is libtss2-esys-3.0.2-0 with libtss2-tctildr0 and libtss2-tcti-device0");
        for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
                void *p = dlsym(symbols[i].tcti ? tcti : esys, symbols[i].name);

                if (!p)
                        return err_set(err, "the TPM's library is too old: it has no %s", symbols[i].name);
                memcpy(symbols[i].to, &p, sizeof(p));
        }
        return 0;
}

/* --- what a TPM says --- */

static int denied(struct err *err)
{
        return err_set(err, "you may not open the TPM (%s); the group tss may: 'sudo usermod -aG tss USER', then log in again", device);
}

/* One row a response that has a way out; others by number. */
static int said(struct err *err, TSS2_RC rc, const char *what)
{
        static const struct {
                TPM2_RC rc;
                const char *text;
        } rows[] = {
                { TPM2_RC_LOCKOUT, "the TPM is locked after wrong passwords; wait, or 'tpm2_dictionarylockout --clear-lockout' ends it" },
                { TPM2_RC_BAD_AUTH, "the TPM's owner hierarchy has a password, which brome does not know; choose another root of trust" },
                { TPM2_RC_AUTH_FAIL, "the TPM's owner hierarchy has a password, which brome does not know; choose another root of trust" },
                { TPM2_RC_HIERARCHY, "the TPM's owner hierarchy is switched off; the machine's firmware settings turn it on" },
                { TPM2_RC_INTEGRITY, "the TPM does not take what the vault's header holds; put the vault's file back from a copy" },
                { TPM2_RC_CURVE, "this TPM knows no P-256 keys; choose another root of trust" },
                { TPM2_RC_INITIALIZE, "the TPM was not started; the machine's firmware settings turn it on" },
                { TPM2_RC_FAILURE, "the TPM has failed its own test; restart the machine" },
                { TPM2_RC_OBJECT_MEMORY, "the TPM has no room for another key now; try again, or restart what uses it" },
                { TPM2_RC_SESSION_MEMORY, "the TPM has no room for another session now; try again, or restart what uses it" },
        };
        TPM2_RC own = rc & ~TSS2_RC_LAYER_MASK;

        if (own & TPM2_RC_FMT1) /* without the number of the parameter, handle or session */
                own &= TPM2_RC_FMT1 | 0x3f;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if ((rc & TSS2_RC_LAYER_MASK) == TSS2_TPM_RC_LAYER && rows[i].rc == own)
                        return err_set(err, "%s", rows[i].text);
        return err_set(err, "the TPM cannot %s (response 0x%x)", what, (unsigned)rc);
}

/* --- one conversation --- */

enum { OBJECTS = 3 };
struct talk {
        TSS2_TCTI_CONTEXT *tcti;
        ESYS_CONTEXT *esys;
        ESYS_TR primary, session, object; /* ESYS_TR_NONE: none */
        uint8_t parent[ROOT_TPM_NAME_BYTES];
};

static void talk_end(struct talk *t)
{
        const ESYS_TR all[OBJECTS] = { t->session, t->object, t->primary };

        for (size_t i = 0; t->esys && i < OBJECTS; i++)
                if (all[i] != ESYS_TR_NONE)
                        (void)lib.flush(t->esys, all[i]);
        if (t->esys)
                lib.close(&t->esys);
        if (t->tcti)
                lib.tcti_close(&t->tcti);
}

/* Which TPM: BROME_TPM in the words of a TCTI, for tests and simulators; otherwise the machine's own. */
static int reach(struct talk *t, struct err *err)
{
        const char *named = secure_getenv("BROME_TPM");
        char conf[64];
        int fd;

        if (named && *named) {
                if (lib.tcti_open(named, &t->tcti) != TSS2_RC_SUCCESS)
                        return err_set(err, "there is no TPM at %.200s (BROME_TPM)", named);
                return 0;
        }
        fd = open(device, O_RDWR | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 && (errno == EACCES || errno == EPERM))
                return denied(err);
        if (fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV))
                return err_set(err, "this machine has no TPM, or it is switched off: there is no %s", device);
        if (fd < 0)
                return err_sys(err, errno, "%s", device);
        close(fd);
        snprintf(conf, sizeof(conf), "device:%s", device);
        if (lib.tcti_open(conf, &t->tcti) != TSS2_RC_SUCCESS)
                return err_set(err, "%s cannot be used; is libtss2-tcti-device0 installed?", device);
        return 0;
}

/* The template of a storage root key, TCG TPM v2.0 Provisioning Guidance §7.5.1 with TCG EK Credential Profile's L-2: always the same key of the same seed. */
static const TPM2B_PUBLIC parent_template = {
        .publicArea = {
                .type = TPM2_ALG_ECC,
                .nameAlg = TPM2_ALG_SHA256,
                .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH | TPMA_OBJECT_NODA |
                                    TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT,
                .parameters.eccDetail = {
                        .symmetric = { .algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB },
                        .scheme.scheme = TPM2_ALG_NULL,
                        .curveID = TPM2_ECC_NIST_P256,
                        .kdf.scheme = TPM2_ALG_NULL,
                },
                .unique.ecc = { .x.size = 32, .y.size = 32 },
        },
};

static TPM2B_PUBLIC sealed_template(void)
{
        return (TPM2B_PUBLIC){
                .publicArea = {
                        .type = TPM2_ALG_KEYEDHASH,
                        .nameAlg = TPM2_ALG_SHA256,
                        .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_USERWITHAUTH | TPMA_OBJECT_NODA,
                        .parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL,
                },
        };
}

static int make_primary(struct talk *t, struct err *err)
{
        const TPM2B_SENSITIVE_CREATE nothing = { 0 };
        const TPML_PCR_SELECTION no_pcr = { 0 };
        const TPM2B_DATA no_data = { 0 };
        TPM2B_NAME *name = NULL;
        TSS2_RC rc = lib.create_primary(t->esys, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &nothing, &parent_template, &no_data, &no_pcr, &t->primary,
                                        NULL, NULL, NULL, NULL);

        if (rc != TSS2_RC_SUCCESS)
                return said(err, rc, "make its storage key");
        rc = lib.name(t->esys, t->primary, &name);
        if (rc != TSS2_RC_SUCCESS || name->size != ROOT_TPM_NAME_BYTES) {
                lib.free(name);
                return said(err, rc, "name its storage key");
        }
        memcpy(t->parent, name->name, ROOT_TPM_NAME_BYTES);
        lib.free(name);
        return 0;
}

/* SECURITY: salted: its key goes to the TPM encrypted to the parent. */
static int start_session(struct talk *t, struct err *err)
{
        const TPMT_SYM_DEF aes = { .algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB };
        TSS2_RC rc = lib.start_session(t->esys, t->primary, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL, TPM2_SE_HMAC, &aes, TPM2_ALG_SHA256, &t->session);

        return rc == TSS2_RC_SUCCESS ? 0 : said(err, rc, "start a session");
}

/* The session's next commands encrypt their first parameter, or that of the answer. */
static int encrypt(struct talk *t, TPMA_SESSION which, struct err *err)
{
        TSS2_RC rc = lib.session_attributes(t->esys, t->session, which | TPMA_SESSION_CONTINUESESSION,
                                            TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT | TPMA_SESSION_CONTINUESESSION);

        return rc == TSS2_RC_SUCCESS ? 0 : said(err, rc, "encrypt what crosses its bus");
}

static int talk_begin(struct talk *t, struct err *err)
{
        TSS2_RC rc;

        *t = (struct talk){ .primary = ESYS_TR_NONE, .session = ESYS_TR_NONE, .object = ESYS_TR_NONE };
        if (load(err) < 0 || reach(t, err) < 0)
                return -1;
        rc = lib.open(&t->esys, t->tcti, NULL);
        return rc == TSS2_RC_SUCCESS ? 0 : said(err, rc, "be talked to");
}

/* --- sealing --- */

struct made {
        uint8_t key[VAULT_KEY_BYTES];
        struct root_tpm_blob blob;
};
_Static_assert(sizeof(struct made) <= ROOT_ASIDE_BYTES_MAX, "what comes back fits");

static int seal(struct talk *t, struct made *m, struct err *err)
{
        TPM2B_SENSITIVE_CREATE in = { .sensitive.data.size = VAULT_KEY_BYTES };
        const TPML_PCR_SELECTION no_pcr = { 0 };
        const TPM2B_DATA no_data = { 0 };
        const TPM2B_PUBLIC template = sealed_template();
        TPM2B_PRIVATE *private = NULL;
        TPM2B_PUBLIC *public = NULL;
        TSS2_RC rc;
        int ok = -1;

        memcpy(in.sensitive.data.buffer, m->key, VAULT_KEY_BYTES);
        rc = lib.create(t->esys, t->primary, t->session, ESYS_TR_NONE, ESYS_TR_NONE, &in, &template, &no_data, &no_pcr, &private, &public, NULL, NULL, NULL);
        explicit_bzero(&in, sizeof(in));
        if (rc != TSS2_RC_SUCCESS)
                said(err, rc, "seal the vault's key");
        else if (private->size > ROOT_TPM_PRIVATE_BYTES_MAX || public->publicArea.unique.keyedHash.size != ROOT_TPM_UNIQUE_BYTES)
                err_set(err, "the TPM sealed the vault's key in a way that brome does not know; choose another root of trust");
        else
                ok = 0;
        if (ok == 0) {
                memcpy(m->blob.parent, t->parent, ROOT_TPM_NAME_BYTES);
                memcpy(m->blob.unique, public->publicArea.unique.keyedHash.buffer, ROOT_TPM_UNIQUE_BYTES);
                memcpy(m->blob.private, private->buffer, private->size);
                m->blob.private_bytes = private->size;
        }
        lib.free(private);
        lib.free(public);
        return ok;
}

/* The sealed object, as the header has it, under today's parent. */
static int load_object(struct talk *t, const struct root_tpm_blob *blob, struct err *err)
{
        TPM2B_PRIVATE private = { .size = blob->private_bytes };
        TPM2B_PUBLIC public = sealed_template(); /* what the header could say otherwise has no say */
        TSS2_RC rc;

        if (memcmp(t->parent, blob->parent, ROOT_TPM_NAME_BYTES) != 0)
                return err_set(err, "this machine's TPM is not the one that sealed the vault's key, or it was cleared since; on the machine where it was sealed it opens, after a "
                                    "clearing nothing opens it: remove the vault's file and add the credentials again");
        memcpy(private.buffer, blob->private, blob->private_bytes);
        public.publicArea.unique.keyedHash.size = ROOT_TPM_UNIQUE_BYTES;
        memcpy(public.publicArea.unique.keyedHash.buffer, blob->unique, ROOT_TPM_UNIQUE_BYTES);
        rc = lib.load(t->esys, t->primary, t->session, ESYS_TR_NONE, ESYS_TR_NONE, &private, &public, &t->object);
        return rc == TSS2_RC_SUCCESS ? 0 : said(err, rc, "load the vault's sealed key");
}

static int unseal(struct talk *t, uint8_t *key, struct err *err)
{
        TPM2B_SENSITIVE_DATA *data = NULL;
        TSS2_RC rc = lib.unseal(t->esys, t->object, t->session, ESYS_TR_NONE, ESYS_TR_NONE, &data);
        int ok = -1;

        if (rc != TSS2_RC_SUCCESS)
                said(err, rc, "unseal the vault's key");
        else if (data->size != VAULT_KEY_BYTES)
                err_set(err, "the TPM holds no key of a vault in this header");
        else
                ok = 0;
        if (ok == 0)
                memcpy(key, data->buffer, VAULT_KEY_BYTES);
        if (data)
                explicit_bzero(data, sizeof(*data));
        lib.free(data);
        return ok;
}

/* --- in a process of its own --- */

static int make_aside(const void *in, void *out, struct err *err)
{
        struct made *m = out;
        struct talk t;
        int rc = talk_begin(&t, err);

        (void)in;
        if (rc == 0)
                rc = make_primary(&t, err);
        if (rc == 0)
                rc = start_session(&t, err);
        if (rc == 0)
                rc = encrypt(&t, TPMA_SESSION_DECRYPT, err);
        if (rc == 0)
                rc = root_random(m->key, VAULT_KEY_BYTES, err);
        if (rc == 0)
                rc = seal(&t, m, err);
        talk_end(&t);
        return rc;
}

static int key_aside(const void *in, void *out, struct err *err)
{
        struct talk t;
        int rc = talk_begin(&t, err);

        if (rc == 0)
                rc = make_primary(&t, err);
        if (rc == 0)
                rc = start_session(&t, err);
        if (rc == 0)
                rc = load_object(&t, in, err);
        if (rc == 0)
                rc = encrypt(&t, TPMA_SESSION_ENCRYPT, err);
        if (rc == 0)
                rc = unseal(&t, out, err);
        talk_end(&t);
        return rc;
}

static int there_aside(const void *in, void *out, struct err *err)
{
        struct talk t;
        int rc = talk_begin(&t, err);

        (void)in;
        (void)out;
        talk_end(&t);
        return rc;
}

bool root_tpm_there(struct err *why) { return root_aside(there_aside, NULL, NULL, 0, ROOT_LIBRARY_S, why) == 0; }

int root_tpm_key(const struct root_tpm_blob *blob, uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        return root_aside(key_aside, blob, key, VAULT_KEY_BYTES, ROOT_LIBRARY_S, err);
}

int root_tpm_make(struct root_tpm_blob *blob, uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        struct made *m = secret_alloc(sizeof(*m));
        int rc;

        if (!m)
                return err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
        rc = root_aside(make_aside, NULL, m, sizeof(*m), ROOT_LIBRARY_S, err);
        if (rc == 0) {
                *blob = m->blob;
                memcpy(key, m->key, VAULT_KEY_BYTES);
        }
        secret_free(m, sizeof(*m));
        return rc;
}

/* --- the header --- */

int root_tpm_read(json_t *root, struct root_tpm_blob *out)
{
        const char *private = json_string_value(json_object_get(root, "private"));
        size_t digits = private ? strlen(private) : 0;
        struct root_tpm_blob b = { 0 };

        if (digits == 0 || digits > 2 * ROOT_TPM_PRIVATE_BYTES_MAX || !root_unhex(private, b.private, digits / 2) ||
            !root_unhex(json_string_value(json_object_get(root, "parent")), b.parent, ROOT_TPM_NAME_BYTES) ||
            !root_unhex(json_string_value(json_object_get(root, "public")), b.unique, ROOT_TPM_UNIQUE_BYTES))
                return -1;
        b.private_bytes = (uint16_t)(digits / 2);
        *out = b;
        return 0;
}

int root_tpm_write(json_t *root, const struct root_tpm_blob *b)
{
        char parent[2 * ROOT_TPM_NAME_BYTES + 1], unique[2 * ROOT_TPM_UNIQUE_BYTES + 1], private[2 * ROOT_TPM_PRIVATE_BYTES_MAX + 1];

        root_hex(b->parent, ROOT_TPM_NAME_BYTES, parent);
        root_hex(b->unique, ROOT_TPM_UNIQUE_BYTES, unique);
        root_hex(b->private, b->private_bytes, private);
        return json_object_set_new(root, "parent", json_string(parent)) < 0 || json_object_set_new(root, "public", json_string(unique)) < 0 ||
                               json_object_set_new(root, "private", json_string(private)) < 0 ? -1 : 0;
}
