/* The TPM as root of trust, with a simulated one: the key comes back from the TPM that sealed it and from no other, a changed header is refused in one line, and
 * the key never crosses the bus in the clear. */
#include "base/fd.h"
#include "vault/root_priv.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { PAIRS = 8, RECORD_BYTES = 1 << 20, SKIPPED = 77 };
static char folder[64];
static pid_t tpm;

static const char *in_folder(const char *name)
{
        static char path[4][108];
        static unsigned turn;
        char *p = path[turn++ % 4];

        snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
        return p;
}

static int dial(const char *path)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
                return fd;
        close(fd);
        return -1;
}

/* A command in the TPM's own bytes; the answer's response code. */
static unsigned raw(const char *socket_name, const uint8_t *command, size_t n, uint8_t *answer, size_t size)
{
        int fd = dial(in_folder(socket_name));
        ssize_t got;

        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, command, n), 0);
        got = read(fd, answer, size);
        assert_true(got >= 10);
        close(fd);
        return (unsigned)answer[6] << 24 | (unsigned)answer[7] << 16 | (unsigned)answer[8] << 8 | answer[9];
}

static const uint8_t get_random[] = { 0x80, 1, 0, 0, 0, 12, 0, 0, 1, 0x7b, 0, 32 }; /* TPM2_GetRandom(32) */

/* A TPM whose seed is in `state`; the same state is the same TPM. */
static void plug(const char *state)
{
        char dir[160], data[160], ctrl[160];
        uint8_t answer[64];

        snprintf(dir, sizeof(dir), "dir=%s", in_folder(state));
        snprintf(data, sizeof(data), "type=unixio,path=%s", in_folder("tpm"));
        snprintf(ctrl, sizeof(ctrl), "type=unixio,path=%s", in_folder("tpm.ctrl"));
        mkdir(in_folder(state), 0700);
        tpm = fork();
        assert_true(tpm >= 0);
        if (tpm == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
                        _exit(1);
                execlp("swtpm", "swtpm", "socket", "--tpm2", "--tpmstate", dir, "--server", data, "--ctrl", ctrl, "--flags", "not-need-init,startup-clear", (char *)NULL);
                _exit(1);
        }
        /* Ready when it answers. */
        for (size_t i = 0; i < 2; i++)
                for (int fd; (fd = dial(in_folder(i ? "tpm" : "tpm.ctrl"))) < 0 || close(fd) < 0;) {
                        assert_int_equal(waitpid(tpm, NULL, WNOHANG), 0);
                        usleep(1000);
                }
        assert_int_equal(raw("tpm", get_random, sizeof(get_random), answer, sizeof(answer)), 0);
}

static void unplug(void)
{
        if (tpm > 0) {
                kill(tpm, SIGTERM);
                waitpid(tpm, NULL, 0);
        }
        tpm = 0;
        unlink(in_folder("tpm"));
        unlink(in_folder("tpm.ctrl"));
}

static void use(const char *socket_name)
{
        char conf[160];

        snprintf(conf, sizeof(conf), "swtpm:path=%s", in_folder(socket_name));
        setenv("BROME_TPM", conf, 1);
}

static int set_up(void **state)
{
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-tpm-XXXXXX");
        assert_non_null(mkdtemp(folder));
        plug("one");
        use("tpm");
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        unplug();
        if (fork() == 0) {
                execlp("rm", "rm", "-r", folder, (char *)NULL);
                _exit(1);
        }
        wait(NULL);
        return 0;
}

static json_t *made(uint8_t *key)
{
        struct err err = ERR_INIT;
        json_t *root = NULL;

        if (root_make(ROOT_TPM, NULL, NULL, &root, key, &err) < 0)
                fail_msg("%s", err.text);
        return root;
}

static void opens(json_t *root, const uint8_t *key)
{
        uint8_t again[VAULT_KEY_BYTES];
        struct err err = ERR_INIT;

        if (root_key(root, NULL, again, &err) < 0)
                fail_msg("%s", err.text);
        assert_memory_equal(again, key, VAULT_KEY_BYTES);
}

static void refused(json_t *root, const char *why)
{
        uint8_t key[VAULT_KEY_BYTES] = { 0 };
        static const uint8_t none[VAULT_KEY_BYTES];
        struct err err = ERR_INIT;

        assert_int_equal(root_key(root, NULL, key, &err), -1);
        if (!strstr(err.text, why))
                fail_msg("`%s` does not say `%s`", err.text, why);
        assert_null(strchr(err.text, '\n'));
        assert_memory_equal(key, none, sizeof(none));
}

static void sealed(void **state)
{
        uint8_t key[VAULT_KEY_BYTES], other[VAULT_KEY_BYTES];
        char hex[2 * VAULT_KEY_BYTES + 1];
        struct err err = ERR_INIT;
        json_t *root = made(key), *second = made(other);
        char *header = json_dumps(root, JSON_COMPACT);

        (void)state;
        assert_true(root_available(ROOT_TPM, &err));
        assert_memory_not_equal(key, other, sizeof(key));
        opens(root, key);
        opens(second, other);
        root_hex(key, sizeof(key), hex);
        assert_null(strstr(header, hex));
        assert_true(strlen(header) < 1024);
        /* More often than it has places for keys and sessions: each conversation leaves none behind. */
        for (int i = 0; i < 8; i++)
                opens(root, key);
        /* Its seed outlives a restart. */
        unplug();
        refused(root, "there is no TPM");
        plug("one");
        opens(root, key);
        free(header);
        json_decref(root);
        json_decref(second);
}

static void elsewhere(void **state)
{
        uint8_t key[VAULT_KEY_BYTES];
        json_t *root = made(key), *there;

        (void)state;
        unplug();
        plug("two");
        refused(root, "not the one that sealed");
        /* Who lets the file say that this is the parent has an object of another one. */
        there = made(key);
        json_object_set(root, "parent", json_object_get(there, "parent"));
        refused(root, "put the vault's file back from a copy");
        json_decref(root);
        json_decref(there);
}

static void changed(void **state)
{
        static const char *const fields[] = { "parent", "public", "private" };
        uint8_t key[VAULT_KEY_BYTES];
        json_t *root = made(key), *copy;

        (void)state;
        for (size_t i = 0; i < 3; i++) {
                const char *is = json_string_value(json_object_get(root, fields[i]));
                size_t n = strlen(is);
                char text[2 * ROOT_TPM_PRIVATE_BYTES_MAX + 4];

                for (size_t at = 0; at < n; at += 7) {
                        snprintf(text, sizeof(text), "%s", is);
                        text[at] = text[at] == '0' ? '1' : '0';
                        copy = json_deep_copy(root);
                        json_object_set_new(copy, fields[i], json_string(text));
                        refused(copy, i == 0 ? "not the one that sealed" : "");
                        json_decref(copy);
                }
                for (size_t cut = 0; cut < n; cut += i == 2 ? 13 : 1) {
                        copy = json_deep_copy(root);
                        json_object_set_new(copy, fields[i], json_stringn(is, cut));
                        refused(copy, i == 2 && cut && cut % 2 == 0 ? "" : "does not accept");
                        json_decref(copy);
                }
                memset(text, 'a', sizeof(text));
                copy = json_deep_copy(root);
                json_object_set_new(copy, fields[i], json_stringn(text, 2 * ROOT_TPM_PRIVATE_BYTES_MAX + 2));
                refused(copy, "does not accept");
                json_object_del(copy, fields[i]);
                refused(copy, "does not accept");
                json_decref(copy);
        }
        opens(root, key);
        json_decref(root);
}

static void owned(void **state)
{
        /* TPM2_HierarchyChangeAuth(owner, "pw") and TPM2_HierarchyControl(platform, owner, off) with empty passwords. */
        static const uint8_t password[] = { 0x80, 2, 0, 0, 0, 31, 0, 0, 1, 0x29, 0x40, 0, 0, 1, 0, 0, 0, 9, 0x40, 0, 0, 9, 0, 0, 0, 0, 0, 0, 2, 'p', 'w' };
        static const uint8_t off[] = { 0x80, 2, 0, 0, 0, 32, 0, 0, 1, 0x21, 0x40, 0, 0, 12, 0, 0, 0, 9, 0x40, 0, 0, 9, 0, 0, 0, 0, 0, 0x40, 0, 0, 1, 0 };
        uint8_t key[VAULT_KEY_BYTES], answer[64];
        struct err err = ERR_INIT;
        json_t *root = made(key), *none = NULL;

        (void)state;
        assert_int_equal(raw("tpm", password, sizeof(password), answer, sizeof(answer)), 0);
        refused(root, "owner hierarchy has a password");
        assert_int_equal(root_make(ROOT_TPM, NULL, NULL, &none, key, &err), -1);
        assert_null(none);
        assert_int_equal(raw("tpm", off, sizeof(off), answer, sizeof(answer)), 0);
        refused(root, "owner hierarchy is switched off");
        json_decref(root);
}

/* --- the bus --- */

static int listener(const char *name)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_folder(name));
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, PAIRS), 0);
        return fd;
}

/* Passes on what came from p[i] to p[i ^ 1], on record; both end together. */
static void pass_on(struct pollfd *p, int i, int record)
{
        uint8_t buf[8192];
        ssize_t n = read(p[i].fd, buf, sizeof(buf));

        if (n > 0 && fd_write_all(record, buf, (size_t)n) == 0 && fd_write_all(p[i ^ 1].fd, buf, (size_t)n) == 0)
                return;
        fd_close(&p[i].fd);
        fd_close(&p[i ^ 1].fd);
}

/* Everything between `bus` and `tpm`, both ways, into the file `record`. */
static _Noreturn void tap(int data, int ctrl)
{
        struct pollfd p[2 + 2 * PAIRS] = { { .fd = data, .events = POLLIN }, { .fd = ctrl, .events = POLLIN } };
        FILE *f = fopen(in_folder("record"), "w");

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 2; i < 2 + 2 * PAIRS; i++)
                p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
        while (f && poll(p, 2 + 2 * PAIRS, -1) > 0) {
                for (int i = 2; i < 2 + 2 * PAIRS; i++)
                        if (p[i].fd >= 0 && p[i].revents)
                                pass_on(p, i, fileno(f));
                for (int l = 0; l < 2; l++)
                        for (int i = 2; p[l].revents && i < 2 + 2 * PAIRS; i += 2)
                                if (p[i].fd < 0) {
                                        p[i].fd = accept(p[l].fd, NULL, NULL);
                                        p[i + 1].fd = dial(in_folder(l ? "tpm.ctrl" : "tpm"));
                                        break;
                                }
        }
        _exit(1);
}

static void bus(void **state)
{
        int data = listener("bus"), ctrl = listener("bus.ctrl");
        uint8_t key[VAULT_KEY_BYTES], answer[64];
        struct err err = ERR_INIT;
        json_t *root;
        struct buf all;
        pid_t pid = fork();

        (void)state;
        if (pid == 0)
                tap(data, ctrl);
        close(data);
        close(ctrl);
        use("bus");
        root = made(key);
        opens(root, key);
        assert_int_equal(raw("bus", get_random, sizeof(get_random), answer, sizeof(answer)), 0);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        use("tpm");
        buf_init(&all, 0);
        assert_int_equal(fd_read_file(in_folder("record"), &all, RECORD_BYTES, &err), 0);
        assert_true(buf_len(&all) > 1000);
        /* What is in the clear is found; the sealed blob as well, which the TPM encrypted itself. */
        assert_non_null(memmem(buf_slice(&all).p, buf_len(&all), answer + 12, 32));
        assert_null(memmem(buf_slice(&all).p, buf_len(&all), key, VAULT_KEY_BYTES));
        assert_null(memmem(buf_slice(&all).p, buf_len(&all), key, 8));
        assert_null(memmem(buf_slice(&all).p, buf_len(&all), key + VAULT_KEY_BYTES - 8, 8));
        buf_fini(&all);
        json_decref(root);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(sealed, set_up, tear_down),  cmocka_unit_test_setup_teardown(elsewhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(changed, set_up, tear_down), cmocka_unit_test_setup_teardown(owned, set_up, tear_down),
                cmocka_unit_test_setup_teardown(bus, set_up, tear_down),
        };

        if (access("/usr/bin/swtpm", X_OK) != 0 && access("/usr/local/bin/swtpm", X_OK) != 0) {
                puts("skipped: swtpm is not installed");
                return SKIPPED;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
