/* QEMU's arguments: see command.h. */
#include "vm/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* quiet: the console is for what goes wrong. panic=-1 with -no-reboot: a panic ends QEMU. tsc=reliable: no watchdog that emulation would set off.
 * no_timer_check: on a busy host an emulated timer looks broken. cryptomgr.notests: ciphers that test themselves take a second under emulation. */
#define KERNEL_ARGUMENTS "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check cryptomgr.notests"
/* Emulated processors do not speculate, and emulation is no boundary that hidden addresses would strengthen: what the kernel does about either costs time alone.
 * SECURITY: never with KVM, where both protect the programs of the guest from each other and the guest's kernel from them. */
#define EMULATED_ARGUMENTS " nokaslr mitigations=off"

struct list {
        char **argv;
        size_t n;
        bool failed;
};

static void put(struct list *l, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void put_text(struct list *l, const char *text)
{
        char *copy = l->n < COMMAND_ARGS ? strdup(text) : NULL;

        if (copy)
                l->argv[l->n++] = copy;
        else
                l->failed = true;
}

/* An option and, unless fmt is NULL, its value. */
static void put(struct list *l, const char *name, const char *fmt, ...)
{
        char text[2 * PATH_MAX + 256];
        va_list ap;
        int n;

        put_text(l, name);
        if (!fmt)
                return;
        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (n < 0 || (size_t)n >= sizeof(text))
                l->failed = true;
        else
                put_text(l, text);
}

/* A comma ends a value; a doubled one is a comma. */
static const char *quoted(char out[2 * PATH_MAX], const char *path, bool *failed)
{
        size_t n = 0;

        for (const char *p = path; *p && !*failed; p++) {
                if (n + 3 > 2 * PATH_MAX)
                        *failed = true;
                else if (*p == ',')
                        out[n++] = ',';
                if (!*failed)
                        out[n++] = *p;
        }
        out[n] = 0;
        return out;
}

void command_tag(char out[SETUP_TAG_BYTES + 1], size_t i) { snprintf(out, SETUP_TAG_BYTES + 1, "share%zu", i); }

static void put_machine(struct list *l, const struct command *c)
{
        /* Nothing that is not asked for: no default devices, no configuration of the host's, no window, no user networking, no second boot. */
        put(l, "-nodefaults", NULL);
        put(l, "-no-user-config", NULL);
        put(l, "-no-reboot", NULL);
        put(l, "-display", "none");
        put(l, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        put(l, "-machine", "q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off,dump-guest-core=off,mem-merge=off");
        if (c->kvm)
                put(l, "-accel", "kvm");
        else
                put(l, "-accel", "tcg,thread=multi,tb-size=%d", COMMAND_TRANSLATED_MIB);
        /* Five levels of page tables are one more to emulate for nothing. */
        put(l, "-cpu", "%s", c->kvm ? "host" : "max,la57=off");
        put(l, "-smp", "%u", c->cpus);
        put(l, "-m", "%u", c->memory_mib);
}

static void put_boot(struct list *l, const struct command *c)
{
        put(l, "-kernel", "%s", c->kernel);
        put(l, "-initrd", "%s", c->initrd);
        put(l, "-append", "%s", c->kvm ? KERNEL_ARGUMENTS : KERNEL_ARGUMENTS EMULATED_ARGUMENTS);
}

/* SECURITY: the layer's own header does not say what lies below it; a QEMU that was taken over may have written another there. */
static void put_disk(struct list *l, const char *name, const char *base, const char *layer)
{
        char path[2 * PATH_MAX];

        put(l, "-blockdev", "driver=file,node-name=%s-base-file,read-only=on,locking=off,filename=%s", name, quoted(path, base, &l->failed));
        put(l, "-blockdev", "driver=raw,node-name=%s-base,read-only=on,file=%s-base-file", name, name);
        put(l, "-blockdev", "driver=file,node-name=%s-file,discard=unmap,filename=%s", name, quoted(path, layer, &l->failed));
        put(l, "-blockdev", "driver=qcow2,node-name=%s,discard=unmap,file=%s-file,backing=%s-base", name, name, name);
        put(l, "-device", "virtio-blk-pci,drive=%s,serial=%s,disable-legacy=on", name, name);
}

static void put_network(struct list *l, const struct command *c)
{
        if (c->network_is_tap)
                put(l, "-netdev", "tap,id=net,fd=%d", c->network);
        else
                put(l, "-netdev", "socket,id=net,fd=%d", c->network);
        /* No option ROM: nothing boots from it. */
        put(l, "-device", "virtio-net-pci,netdev=net,mac=%02x:%02x:%02x:%02x:%02x:%02x,host_mtu=%u,romfile=,disable-legacy=on", c->mac[0], c->mac[1], c->mac[2],
            c->mac[3], c->mac[4], c->mac[5], c->mtu);
}

static void put_channels(struct list *l, const struct command *c)
{
        put(l, "-chardev", "socket,id=guest,fd=%d", c->guest);
        put(l, "-device", "virtio-serial-pci,max_ports=2,disable-legacy=on");
        put(l, "-device", "virtserialport,chardev=guest,name=" COMMAND_PORT);
        put(l, "-chardev", "socket,id=console,fd=%d", c->console);
        put(l, "-serial", "chardev:console");
        put(l, "-chardev", "socket,id=monitor,fd=%d", c->monitor);
        put(l, "-mon", "chardev=monitor,mode=control");
        put(l, "-object", "rng-builtin,id=random");
        put(l, "-device", "virtio-rng-pci,rng=random,disable-legacy=on");
}

/* security_model=none: a file of the guest's is made as QEMU's own user, and a change of owner that the host refuses is no error. */
static void put_share(struct list *l, const struct command_share *s, size_t i)
{
        char tag[SETUP_TAG_BYTES + 1], path[2 * PATH_MAX];

        command_tag(tag, i);
        put(l, "-fsdev", "local,id=%s,security_model=none,multidevs=remap%s,path=%s", tag, s->read_only ? ",readonly=on" : "", quoted(path, s->path, &l->failed));
        put(l, "-device", "virtio-9p-pci,fsdev=%s,mount_tag=%s,disable-legacy=on,multifunction=on,addr=%x.%zx", tag, tag,
            COMMAND_SHARE_SLOT + (unsigned)(i / COMMAND_SHARES_A_SLOT), i % COMMAND_SHARES_A_SLOT);
}

char **command_arguments(const struct command *c)
{
        struct list l = { calloc(COMMAND_ARGS + 1, sizeof(char *)), 0, false };

        if (!l.argv)
                return NULL;
        if (c->cpus < 1 || c->cpus > COMMAND_CPUS || c->memory_mib == 0 || c->share_count > SETUP_SHARES) {
                command_free(l.argv);
                return NULL;
        }
        put_text(&l, c->program);
        put_machine(&l, c);
        put_boot(&l, c);
        put_disk(&l, COMMAND_SYSTEM, c->system_base, c->system);
        put_disk(&l, COMMAND_HOME, c->home_base, c->home);
        put_network(&l, c);
        put_channels(&l, c);
        for (size_t i = 0; i < c->share_count; i++)
                put_share(&l, &c->shares[i], i);
        if (l.failed) {
                command_free(l.argv);
                return NULL;
        }
        return l.argv;
}

void command_free(char **argv)
{
        for (char **a = argv; a && *a; a++)
                free(*a);
        free(argv);
}
