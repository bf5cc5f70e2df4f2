/* Files with placeholders in a home that a guest had for itself before: links, FIFOs, folders, other mounts. Nothing outside the home is ever touched. */
#include "guest/homefiles.h"
#include "base/buf.h"
#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PLACEHOLDER "ghp_brmaaaaaaaaaaaaaaaaaaaaaaaaaaa234567"

static const struct binding_host hosts[] = { { { (const uint8_t *)"forge.example", 13 }, 443 } };
static const struct binding github = { .name = { (const uint8_t *)"forge", 5 }, .kind = ACCOUNT_GITHUB, .hosts = hosts, .host_count = 1,
                                       .placeholder = { (const uint8_t *)PLACEHOLDER, sizeof(PLACEHOLDER) - 1 } };

struct world {
        char top[64], home[96], notes[HOMEFILES_NOTES_BYTES];
        int fd;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        snprintf(w->top, sizeof(w->top), "/tmp/homefiles-XXXXXX");
        assert_non_null(mkdtemp(w->top));
        snprintf(w->home, sizeof(w->home), "%s/home", w->top);
        assert_int_equal(mkdir(w->home, 0700), 0);
        w->fd = open(w->home, O_PATH | O_DIRECTORY);
        *state = w;
        return w->fd < 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;
        pid_t pid = fork();

        if (pid == 0) {
                execl("/bin/rm", "rm", "-rf", w->top, (char *)NULL);
                _exit(1);
        }
        waitpid(pid, NULL, 0);
        close(w->fd);
        free(w);
        return 0;
}

static void put(struct world *w, const char *name, const char *text)
{
        char path[256];
        struct err err;

        snprintf(path, sizeof(path), "%s/%s", w->top, name);
        assert_int_equal(fd_write_file_unsynced(path, 0640, text, strlen(text), &err), 0);
}

/* The file's text in a static buffer; NULL when there is none. */
static const char *get(struct world *w, const char *name)
{
        static char text[8192];
        char path[256];
        ssize_t n;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", w->top, name);
        fd = open(path, O_RDONLY | O_NONBLOCK);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = 0;
        return n < 0 ? NULL : text;
}

static void link_in(struct world *w, const char *name, const char *target)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", w->top, name);
        assert_int_equal(symlink(target, path), 0);
}

static void test_written_and_taken_out(void **state)
{
        struct world *w = *state;
        struct stat st;
        char first[8192];

        put(w, "home/.git-credentials", "https://me:mine@other.example\n");
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_string_equal(w->notes, "");
        assert_non_null(strstr(get(w, "home/.git-credentials"), PLACEHOLDER));
        assert_non_null(strstr(get(w, "home/.git-credentials"), "https://me:mine@other.example\n"));
        assert_non_null(strstr(get(w, "home/.config/gh/hosts.yml"), PLACEHOLDER));
        assert_int_equal(fstatat(w->fd, ".git-credentials", &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0640);
        assert_int_equal(fstatat(w->fd, ".config/gh/hosts.yml", &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        snprintf(first, sizeof(first), "%s", get(w, "home/.git-credentials"));
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_string_equal(get(w, "home/.git-credentials"), first);
        homefiles_write(w->fd, NULL, 0, w->notes);
        assert_string_equal(get(w, "home/.git-credentials"), "https://me:mine@other.example\n");
        assert_null(get(w, "home/.npmrc"));
}

static void test_links_lead_nowhere(void **state)
{
        struct world *w = *state;

        put(w, "outside", "the host's");
        link_in(w, "home/.git-credentials", "../outside");
        link_in(w, "home/.gitconfig", "/etc/passwd");
        link_in(w, "home/.config", "..");
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_string_equal(get(w, "outside"), "the host's");
        assert_null(get(w, "gh/hosts.yml"));
        assert_non_null(strstr(w->notes, "~/.git-credentials in the workspace is left alone: a link"));
        assert_non_null(strstr(w->notes, "~/.gitconfig in"));
        assert_non_null(strstr(w->notes, "~/.config/gh/hosts.yml in"));
        assert_null(strstr(w->notes, PLACEHOLDER));
}

static void test_descriptors_of_ours(void **state)
{
        struct world *w = *state;
        char target[64];
        int top = open(w->top, O_PATH | O_DIRECTORY);

        snprintf(target, sizeof(target), "/proc/self/fd/%d", top);
        link_in(w, "home/.config", target);
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_null(get(w, "gh/hosts.yml"));
        close(top);
}

static void test_what_is_no_file(void **state)
{
        struct world *w = *state;

        assert_int_equal(mkfifoat(w->fd, ".git-credentials", 0600), 0);
        assert_int_equal(mkdirat(w->fd, ".gitconfig", 0700), 0);
        put(w, "home/.config", "a file where a folder should be");
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_non_null(strstr(w->notes, "~/.git-credentials in the workspace is left alone: it is no regular file"));
        assert_non_null(strstr(w->notes, "~/.gitconfig in the workspace is left alone: it is no regular file"));
        assert_string_equal(get(w, "home/.config"), "a file where a folder should be");
}

/* What a killed session, or a guest that knows the name, left where the new file is made. */
static void test_the_new_file(void **state)
{
        struct world *w = *state;

        put(w, "outside", "the host's");
        link_in(w, "home/.gitconfig.brome-new", "../outside");
        assert_int_equal(mkdirat(w->fd, ".git-credentials.brome-new", 0700), 0);
        homefiles_write(w->fd, &github, 1, w->notes);
        assert_string_equal(get(w, "outside"), "the host's");
        assert_non_null(strstr(w->notes, "~/.git-credentials in the workspace is left alone: it cannot be written"));
        assert_non_null(get(w, "home/.gitconfig"));
        assert_null(get(w, "home/.gitconfig.brome-new"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_written_and_taken_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_links_lead_nowhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_descriptors_of_ours, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_no_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_new_file, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
