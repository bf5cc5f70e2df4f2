/* QEMU's command line, and the layers that its disks are. */
#include "base/buf.h"
#include "vm/command.h"
#include "vm/qcow2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct command usual(void)
{
        return (struct command){ .program = "/usr/bin/qemu-system-x86_64", .memory_mib = 2048, .cpus = 2, .kernel = "/image/vmlinuz", .initrd = "/image/initrd",
                .system_base = "/image/base.ext4", .system = "/disk/system.qcow2", .home_base = "/image/home.ext4", .home = "/disk/home.qcow2",
                .guest = 3, .console = 6, .monitor = 7, .network = 8, .network_is_tap = true, .mac = { 2, 0x62, 0x72, 0x6f, 0, 2 }, .mtu = 65520 };
}

/* The value that follows the n-th `name`, or NULL. */
static const char *value(char **argv, const char *name, size_t n)
{
        for (; *argv; argv++)
                if (strcmp(*argv, name) == 0 && n-- == 0)
                        return argv[1];
        return NULL;
}

static bool has(char **argv, const char *part)
{
        for (; *argv; argv++)
                if (strstr(*argv, part))
                        return true;
        return false;
}

static void test_usual(void **state)
{
        struct command c = usual();
        char **argv = command_arguments(&c);

        (void)state;
        assert_non_null(argv);
        assert_string_equal(argv[0], c.program);
        assert_true(has(argv, "-nodefaults") && has(argv, "-no-user-config") && has(argv, "-no-reboot"));
        assert_string_equal(value(argv, "-sandbox", 0), "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        assert_string_equal(value(argv, "-accel", 0), "tcg,thread=multi,tb-size=256");
        assert_null(value(argv, "-accel", 1));
        assert_non_null(strstr(value(argv, "-append", 0), " nokaslr mitigations=off"));
        assert_string_equal(value(argv, "-m", 0), "2048");
        assert_string_equal(value(argv, "-smp", 0), "2");
        assert_string_equal(value(argv, "-netdev", 0), "tap,id=net,fd=8");
        assert_string_equal(value(argv, "-display", 0), "none");
        assert_true(has(argv, "mac=02:62:72:6f:00:02,host_mtu=65520"));
        assert_true(has(argv, "virtserialport,chardev=guest,name=org.brome.guest"));
        assert_true(has(argv, "driver=qcow2,node-name=system,discard=unmap,file=system-file,backing=system-base"));
        assert_true(has(argv, "driver=file,node-name=system-base-file,read-only=on,locking=off,filename=/image/base.ext4"));
        assert_null(value(argv, "-fsdev", 0));
        /* No way to a human monitor, to the host's network, to a display or a socket by name. */
        assert_false(has(argv, "-netdev user") || has(argv, "user,") || has(argv, "mode=readline") || has(argv, "vnc") || has(argv, "path=") || has(argv, "hostfwd"));
        command_free(argv);
}

static void test_kvm(void **state)
{
        struct command c = usual();
        char **argv;

        (void)state;
        c.kvm = true;
        c.network_is_tap = false;
        argv = command_arguments(&c);
        assert_non_null(argv);
        assert_string_equal(value(argv, "-accel", 0), "kvm");
        assert_string_equal(value(argv, "-cpu", 0), "host");
        assert_true(has(argv, "panic=-1"));
        assert_false(has(argv, "mitigations") || has(argv, "nokaslr")); /* a guest with processors of its own keeps them */
        assert_string_equal(value(argv, "-netdev", 0), "socket,id=net,fd=8");
        command_free(argv);
}

static void test_shares(void **state)
{
        struct command_share shares[SETUP_SHARES];
        struct command c = usual();
        char **argv, *last = NULL;
        size_t pairs = 0;

        (void)state;
        for (size_t i = 0; i < SETUP_SHARES; i++)
                shares[i] = (struct command_share){ "/shares/home/me/src", false };
        shares[1] = (struct command_share){ "/shares/a,readonly=off,b", true };
        c.shares = shares;
        c.share_count = SETUP_SHARES;
        argv = command_arguments(&c);
        assert_non_null(argv);
        assert_string_equal(value(argv, "-fsdev", 0), "local,id=share0,security_model=none,multidevs=remap,path=/shares/home/me/src");
        assert_string_equal(value(argv, "-fsdev", 1), "local,id=share1,security_model=none,multidevs=remap,readonly=on,path=/shares/a,,readonly=off,,b");
        assert_true(has(argv, "fsdev=share0,mount_tag=share0,disable-legacy=on,multifunction=on,addr=10.0"));
        assert_true(has(argv, "fsdev=share63,mount_tag=share63,disable-legacy=on,multifunction=on,addr=17.7"));
        for (char **a = argv; *a; a++) {
                pairs += strcmp(*a, "-fsdev") == 0;
                last = *a;
        }
        assert_int_equal(pairs, SETUP_SHARES);
        assert_non_null(strstr(last, "share63"));
        command_free(argv);
}

static void test_refused(void **state)
{
        static char name[2 * PATH_MAX + 2];
        struct command_share share = { name, false };
        struct command c = usual();

        (void)state;
        c.cpus = 0;
        assert_null(command_arguments(&c));
        c.cpus = COMMAND_CPUS + 1;
        assert_null(command_arguments(&c));
        c = usual();
        c.memory_mib = 0;
        assert_null(command_arguments(&c));
        c = usual();
        c.share_count = SETUP_SHARES + 1;
        assert_null(command_arguments(&c));
        memset(name, ',', sizeof(name) - 1);
        c.share_count = 1;
        c.shares = &share;
        assert_null(command_arguments(&c));
}

static uint64_t big(struct slice s, size_t at, size_t n)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++)
                v = v << 8 | s.p[at + i];
        return v;
}

static void test_layer(void **state)
{
        struct buf out;
        struct slice s;

        (void)state;
        buf_init(&out, 0);
        assert_int_equal(qcow2_layer(&out, 8ULL << 30, "/image/base.ext4"), 0);
        s = buf_slice(&out);
        assert_int_equal(s.n, 4 * 65536);
        assert_memory_equal(s.p, "QFI\xfb", 4);
        assert_int_equal(big(s, 4, 4), 3);
        assert_int_equal(big(s, 24, 8), 8ULL << 30);
        assert_int_equal(big(s, 36, 4), 16); /* half a gigabyte each */
        assert_int_equal(big(s, 16, 4), strlen("/image/base.ext4"));
        assert_memory_equal(s.p + big(s, 8, 8), "/image/base.ext4", strlen("/image/base.ext4"));
        buf_fini(&out);
}

static void test_layer_refused(void **state)
{
        char name[QCOW2_NAME_BYTES + 2];
        struct buf out;

        (void)state;
        buf_init(&out, 0);
        memset(name, 'a', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        assert_int_equal(qcow2_layer(&out, 0, "/b"), -1);
        assert_int_equal(qcow2_layer(&out, 513, "/b"), -1);
        assert_int_equal(qcow2_layer(&out, QCOW2_DISK_BYTES + 512, "/b"), -1);
        assert_int_equal(qcow2_layer(&out, 512, ""), -1);
        assert_int_equal(qcow2_layer(&out, 512, name), -1);
        assert_int_equal(buf_len(&out), 0);
        name[QCOW2_NAME_BYTES] = 0;
        assert_int_equal(qcow2_layer(&out, QCOW2_DISK_BYTES, name), 0);
        buf_fini(&out);
}

/* What QEMU's own tool says of it, where it is installed. */
static void test_layer_judged(void **state)
{
        char folder[] = "/tmp/brome-qcow2-XXXXXX", base[64], layer[64], command[512];
        struct buf out;
        FILE *f;
        int rc;

        (void)state;
        if (access("/usr/bin/qemu-img", X_OK) < 0)
                skip();
        assert_non_null(mkdtemp(folder));
        snprintf(base, sizeof(base), "%s/base", folder);
        snprintf(layer, sizeof(layer), "%s/layer", folder);
        assert_non_null(f = fopen(base, "w"));
        assert_int_equal(ftruncate(fileno(f), 1 << 30), 0);
        fclose(f);
        buf_init(&out, 0);
        assert_int_equal(qcow2_layer(&out, 1 << 30, base), 0);
        assert_non_null(f = fopen(layer, "w"));
        assert_int_equal(fwrite(buf_slice(&out).p, 1, buf_len(&out), f), buf_len(&out));
        fclose(f);
        buf_fini(&out);
        snprintf(command, sizeof(command), "qemu-img check -q %s && qemu-img compare -q %s %s && qemu-img commit -q %s", layer, layer, base, layer);
        rc = system(command); /* NOLINT(cert-env33-c) */
        unlink(layer);
        unlink(base);
        rmdir(folder);
        assert_true(WIFEXITED(rc) && WEXITSTATUS(rc) == 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_usual),         cmocka_unit_test(test_kvm),   cmocka_unit_test(test_shares),        cmocka_unit_test(test_refused),
                cmocka_unit_test(test_layer),         cmocka_unit_test(test_layer_refused), cmocka_unit_test(test_layer_judged),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
