/* brome: the command line. Finds the command in the table by its first one or two words and runs it. Holds no policy of its own: verdicts
 * come from src/rules, state from bromed, records from the journal. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/log.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command commands[] = {
#define COMMAND(name, fn, usage, help) { name, fn, usage, help },
#include "cli/commands.tbl"
#undef COMMAND
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *to)
{
        fputs("brome runs a coding agent in a workspace that has nothing to log in with.\n\n"
              "usage: brome [--config FILE] [--json] COMMAND …\n\n", to);
        for (size_t i = 0; i < COMMAND_COUNT; i++)
                fprintf(to, "  %-20s %s\n", commands[i].name, commands[i].help);
        fputs("\nFirst steps: `brome demo` tells the whole story; `brome COMMAND --help` shows a command's options; brome(1) is the reference.\n", to);
}

/* Words of argv that a command name takes, 0 when it does not match. */
static int match(const char *name, int argc, char **argv)
{
        const char *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);

        if (argc < 1 || strlen(argv[0]) != first || strncmp(argv[0], name, first) != 0)
                return 0;
        if (!space)
                return 1;
        return argc > 1 && strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

static int unknown(int argc, char **argv)
{
        bool group = false;

        for (size_t i = 0; i < COMMAND_COUNT; i++)
                if (strncmp(commands[i].name, argv[0], strlen(argv[0])) == 0 && commands[i].name[strlen(argv[0])] == ' ')
                        group = true;
        if (!group)
                return cli_fail(EXIT_USAGE_, "there is no command `%s`; `brome help` lists them", esc_str(argv[0]));
        fprintf(stderr, "brome: `%s` needs one of:\n", esc_str(argv[0]));
        for (size_t i = 0; i < COMMAND_COUNT; i++)
                if (match(argv[0], 1, argv) && strncmp(commands[i].name, argv[0], strlen(argv[0])) == 0)
                        fprintf(stderr, "  brome %s %s\n", commands[i].name, commands[i].usage);
        (void)argc;
        return EXIT_USAGE_;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
        const struct cli_command *best = NULL;
        int words = 0;

        for (size_t i = 0; i < COMMAND_COUNT; i++) {
                int n = match(commands[i].name, argc, argv);
                if (n > words) {
                        best = &commands[i];
                        words = n;
                }
        }
        if (!best)
                return unknown(argc, argv);
        cli->command = best;
        return best->run(cli, argc - words + 1, argv + words - 1);
}

int cmd_help(struct cli *cli, int argc, char **argv)
{
        bool found = false;

        if (argc < 2) {
                print_help(stdout);
                return EXIT_OK;
        }
        for (size_t i = 0; i < COMMAND_COUNT; i++) {
                bool whole = match(commands[i].name, argc - 1, argv + 1) > 0, group = strncmp(commands[i].name, argv[1], strlen(argv[1])) == 0 &&
                                                                                       commands[i].name[strlen(argv[1])] == ' ' && argc == 2;
                if (whole || group)
                        printf("brome %s %s\n        %s\n", commands[i].name, commands[i].usage, commands[i].help);
                found = found || whole || group;
        }
        return found ? EXIT_OK : cli_usage(cli, "there is no command `%s`", esc_str(argv[1]));
}

int cmd_version(struct cli *cli, int argc, char **argv)
{
        (void)cli;
        (void)argc;
        (void)argv;
        puts("brome " BROME_VERSION);
        return EXIT_OK;
}

int main(int argc, char **argv)
{
        static const struct option global[] = {
                { "config", required_argument, NULL, 'c' }, { "json", no_argument, NULL, 'j' },
                { "help", no_argument, NULL, 'h' },         { "version", no_argument, NULL, 'V' }, { 0 },
        };
        struct cli cli = { 0 };
        struct err err = ERR_INIT;
        int c;

        /* A closed standard descriptor would be given to the next socket. */
        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_WRONLY : O_RDONLY) != fd)
                        return EXIT_INTERNAL;
        setlocale(LC_CTYPE, "C.UTF-8");
        log_init("brome", NULL);
        sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
        while ((c = getopt_long(argc, argv, "+hV", global, NULL)) != -1)
                switch (c) {
                case 'c': cli.config_override = optarg; break;
                case 'j': cli.json = true; break;
                case 'h': print_help(stdout); return EXIT_OK;
                case 'V': return cmd_version(&cli, 0, NULL);
                default: return EXIT_USAGE_;
                }
        if (paths_find(&cli.paths, cli.config_override, &err) < 0)
                return cli_fail(EXIT_HOST, "%s", err.text);
        if (optind == argc) {
                print_help(stderr);
                return EXIT_USAGE_;
        }
        if (cli.config_override && access(cli.config_override, R_OK) < 0)
                return cli_fail(EXIT_CONFIG_, "--config %s: %s", cli.config_override, strerror(errno));
        c = dispatch(&cli, argc - optind, argv + optind);
        if (fflush(stdout) != 0 && errno != EPIPE && c == EXIT_OK)
                c = cli_fail(EXIT_INTERNAL, "the output could not be written: %s", strerror(errno));
        return c;
}
