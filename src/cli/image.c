/* brome image build, ls, rm, and the first use of a machine: the images of virtual machines (docs/VM.md). Everything happens here, as this user; bromed is not asked. */
#include "cli/cli.h"
#include "base/esc.h"
#include "cli/session.h"
#include "vm/build.h"
#include "vm/command.h"
#include "vm/image.h"
#include "vm/probe.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { interrupted = number; }

static void say_step(const char *text) { cli_note("%s", text); }
static void say_lines(struct slice lines)
{
        if (lines.n > 0)
                cli_note_lines(lines);
}

static void print_object(json_t *o)
{
        char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

        if (text)
                puts(text);
        free(text);
        json_decref(o);
}

/* A build and its progress. EXIT_OK, or an exit code after printing the reason; ^C leaves nothing. */
static int build(struct cli *cli, char id[IMAGE_ID_CHARS + 1])
{
        static const int stops[] = { SIGINT, SIGTERM, SIGHUP };
        static struct image_build how; /* large path */
        struct sigaction action = { .sa_handler = on_signal }, before[COUNT(stops)];
        struct err err = ERR_INIT;
        int rc;

        how = (struct image_build){ .state = cli->paths.state, .step = say_step, .lines = say_lines, .stop = &interrupted };
        if (paths_program(how.init, "brome-guest-vm", &err) < 0)
                return cli_fail(EXIT_HOST, "%s", err.text);
        for (size_t i = 0; i < COUNT(stops); i++)
                sigaction(stops[i], &action, &before[i]);
        rc = image_build(&how, id, &err);
        for (size_t i = 0; i < COUNT(stops); i++)
                sigaction(stops[i], &before[i], NULL);
        if (rc < 0 && interrupted)
                return cli_fail(128 + interrupted, "%s", err.text);
        return rc < 0 ? cli_fail(rc == -2 ? EXIT_HOST : EXIT_NO, "%s", err.text) : EXIT_OK;
}

int cmd_image_build(struct cli *cli, int argc, char **argv)
{
        char id[IMAGE_ID_CHARS + 1];
        int at = cli_options(cli, argc, argv, NULL, 0), rc;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        rc = build(cli, id);
        if (rc != EXIT_OK)
                return rc;
        if (cli->json)
                print_object(json_pack("{s:s}", "image", id));
        else
                printf("%s\n", id);
        return EXIT_OK;
}

/* Are there disks already? They know their image, and the current one is none of their business. */
static bool has_disks(const struct cli *cli, const char *workspace)
{
        char path[PATH_MAX];

        return workspace && snprintf(path, sizeof(path), "%s/workspaces/%s/vm/image", cli->paths.state, workspace) < (int)sizeof(path) && access(path, F_OK) == 0;
}

int image_first(struct cli *cli, const char *workspace)
{
        static const char *const programs[] = { COMMAND_PROGRAMS };
        char path[PATH_MAX], id[IMAGE_ID_CHARS + 1];
        bool qemu = false;

        if (snprintf(path, sizeof(path), "%s/images/current", cli->paths.state) >= (int)sizeof(path) || access(path, F_OK) == 0 || has_disks(cli, workspace))
                return EXIT_OK;
        /* Without it the start will say what to install, and not after minutes. */
        for (size_t i = 0; i < COUNT(programs); i++)
                qemu = qemu || access(programs[i], X_OK) == 0;
        if (!qemu)
                return EXIT_OK;
        cli_note("there is no image for machines yet, so one is made now: once, some minutes, 1 GB (`--no-build` leaves it)");
        return build(cli, id);
}

int cmd_image_probe(struct cli *cli, int argc, char **argv)
{
        struct sigaction action = { .sa_handler = on_signal };
        struct probe p = { .stop = &interrupted };
        struct err err = ERR_INIT;
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        if (images_probe(cli->paths.state, &p, &err) < 0)
                return cli_fail(interrupted ? 128 + interrupted : EXIT_NO, "%s", err.text);
        if (!p.accel[0])
                return cli_fail(EXIT_HOST, "%s", p.text);
        cli_note("%s", p.text);
        if (cli->json)
                print_object(json_pack("{s:s, s:s}", "accel", p.accel, "accel_why", p.text));
        else
                puts(p.accel);
        return EXIT_OK;
}

static const char *when(int64_t us, char out[32])
{
        time_t t = (time_t)(us / 1000000);
        struct tm tm;

        if (us <= 0 || !localtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M", &tm))
                memcpy(out, "-", 2);
        return out;
}

static void list_json(const struct image *i)
{
        json_t *users = json_array(), *o;

        for (size_t u = 0; u < i->user_count; u++)
                json_array_append_new(users, json_string(esc_str(i->users[u])));
        o = json_pack("{s:s, s:b, s:I, s:o}", "image", i->id, "current", i->current, "disk_bytes", (json_int_t)i->disk_bytes, "workspaces", users);
        if (i->broken) {
                json_object_set_new(o, "broken", json_string(i->why));
        } else {
                json_object_update_new(o, json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "suite", i->manifest.suite, "kernel", i->manifest.kernel, "architecture",
                                                    i->manifest.architecture, "init", i->manifest.init, "owners", i->manifest.all_owners ? "all" : "root", "packages",
                                                    (json_int_t)json_object_size(i->manifest.packages), "made_us", (json_int_t)i->manifest.made_us));
                json_object_set_new(o, "accel", i->accel[0] ? json_string(i->accel) : json_null());
                json_object_set_new(o, "accel_why", i->why[0] ? json_string(i->why) : json_null());
        }
        print_object(o);
}

static void list_text(const struct image *i)
{
        char made[32];

        printf("%-16s %c %-10s %-22s %6.1f MB  %-16s %-5s", i->id, i->current ? '*' : ' ', i->broken ? "-" : i->manifest.suite, i->broken ? "-" : i->manifest.kernel,
               (double)i->disk_bytes / (1024 * 1024), when(i->manifest.made_us, made), i->accel[0] ? i->accel : "-");
        for (size_t u = 0; u < i->user_count; u++)
                printf("%s%s", u ? ", " : " ", esc_str(i->users[u]));
        printf("%s\n", i->user_count ? "" : " -");
        if (i->broken)
                printf("                   broken: %s\n", i->why);
}

int cmd_image_ls(struct cli *cli, int argc, char **argv)
{
        struct images images;
        struct err err = ERR_INIT;
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
        if (images_list(cli->paths.state, &images, &err) < 0)
                return cli_fail(EXIT_NO, "%s", err.text);
        if (!cli->json && images.count)
                printf("%-16s   %-10s %-22s %9s  %-16s %-5s %s\n", "IMAGE", "SUITE", "KERNEL", "ON DISK", "MADE", "ACCEL", "WORKSPACES");
        for (size_t i = 0; i < images.count; i++) {
                if (cli->json)
                        list_json(&images.all[i]);
                else
                        list_text(&images.all[i]);
        }
        if (!images.count)
                cli_note("there is no image yet; `brome image build` makes one");
        images_free(&images);
        return EXIT_OK;
}

int cmd_image_rm(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at >= argc)
                return cli_usage(cli, "which image? `brome image ls` lists them");
        for (; at < argc; at++) {
                struct err err = ERR_INIT;
                if (images_remove(cli->paths.state, argv[at], &err) != 0)
                        return cli_fail(EXIT_NO, "%s", err.text);
                if (cli->json)
                        print_object(json_pack("{s:s}", "removed", argv[at]));
        }
        return EXIT_OK;
}
