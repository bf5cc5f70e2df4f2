#include "tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

char tree_root[256];

const char *tree_path(const char *relative)
{
        static char ring[8][1024];
        static unsigned at;
        char *p = ring[at++ % 8];
        snprintf(p, 1024, "%s/%s", tree_root, relative);
        return p;
}

int tree_setup(void **state)
{
        (void)state;
        snprintf(tree_root, sizeof(tree_root), "/tmp/brome-share-test.XXXXXX");
        assert_non_null(mkdtemp(tree_root));
        tree_dir("home");
        setenv("HOME", tree_path("home"), 1);
        return 0;
}

static int take_away(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
        (void)st;
        (void)flag;
        (void)ftw;
        return remove(path);
}

int tree_teardown(void **state)
{
        (void)state;
        nftw(tree_root, take_away, 16, FTW_DEPTH | FTW_PHYS);
        return 0;
}

void tree_dir(const char *relative)
{
        char path[1024];
        snprintf(path, sizeof(path), "%s", tree_path(relative));
        for (char *p = path + strlen(tree_root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
                *p = 0;
                mkdir(path, 0755);
        }
        mkdir(path, 0755);
}

static void parent_of(const char *relative)
{
        char parent[512];
        snprintf(parent, sizeof(parent), "%s", relative);
        char *slash = strrchr(parent, '/');
        if (slash != NULL) {
                *slash = 0;
                tree_dir(parent);
        }
}

void tree_file(const char *relative, const char *text)
{
        parent_of(relative);
        FILE *f = fopen(tree_path(relative), "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

void tree_link(const char *target, const char *relative)
{
        parent_of(relative);
        assert_int_equal(symlink(target, tree_path(relative)), 0);
}
void tree_chmod(const char *relative, mode_t mode) { assert_int_equal(chmod(tree_path(relative), mode), 0); }
void tree_whiteout(const char *relative)
{
        parent_of(relative);
        assert_int_equal(mknod(tree_path(relative), S_IFCHR | 0600, makedev(0, 0)), 0);
}
void tree_opaque(const char *relative)
{
        tree_dir(relative);
        assert_int_equal(setxattr(tree_path(relative), "user.overlay.opaque", "y", 1, 0), 0);
}

int tree_open(const char *relative)
{
        int fd = open(tree_path(relative), O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        return fd;
}

bool tree_has(const char *relative, const char *text)
{
        char have[4096];
        struct stat st;
        if (lstat(tree_path(relative), &st) < 0)
                return false;
        if (text == NULL)
                return true;
        FILE *f = fopen(tree_path(relative), "r");
        size_t n = f != NULL ? fread(have, 1, sizeof(have) - 1, f) : 0;
        have[n] = 0;
        if (f != NULL)
                fclose(f);
        return strcmp(have, text) == 0;
}

int tree_run(int (*group)(void))
{
        int failed = group(), status = 0;
        if (getuid() != 0)
                return failed;
        pid_t pid = fork();
        if (pid == 0) {
                if (setgroups(0, NULL) < 0 || setresgid(54321, 54321, 54321) < 0 || setresuid(54321, 54321, 54321) < 0)
                        _exit(99);
                prctl(PR_SET_DUMPABLE, 1); /* or /proc/self stays root's */
                exit(group());
        }
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? failed + WEXITSTATUS(status) : failed + 1;
}
