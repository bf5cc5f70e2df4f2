/* brome: the command line. Finds the command in the table by its first one or two words and runs it. Holds no policy of its own: verdicts
 * come from src/rules, state from bromed, records from the journal. */
#include "cli/table.h"
#include "base/esc.h"
#include "base/log.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A word that is missing or wrong: what there is, what was meant. */
static int unknown(int argc, char **argv)
{
        bool group = table_is_group(argv[0]);
        const char *second = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
        char near[64], hint[128], what[256];

        for (int i = 1; i < argc && group && !second; i++)
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
                        table_print_group(stdout, argv[0]);
                        return EXIT_OK;
                }
        esc_text(what, sizeof(what), slice_str(argv[0]));
        table_near_command(second ? 2 : 1, argv, near, sizeof(near));
        if (*near && (second || !group))
                snprintf(hint, sizeof(hint), "did you mean `brome %s`?", near);
        else
                snprintf(hint, sizeof(hint), "`brome %s%s` lists them", group ? argv[0] : "help", group ? " --help" : "");
        if (!group)
                return cli_fail_hint(EXIT_USAGE_, hint, "there is no command `%s`", what);
        if (second)
                return cli_fail_hint(EXIT_USAGE_, hint, "there is no command `%s %s`", what, esc_str(second));
        return cli_fail_hint(EXIT_USAGE_, hint, "`%s` needs another word", what);
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
        int words;

        cli->command = table_find(argc, argv, &words);
        if (!cli->command) {
                /* --json may stand after the words. */
                for (int i = 1; i < argc; i++)
                        if (strcmp(argv[i], "--json") == 0)
                                cli_json_on(cli);
                return unknown(argc, argv);
        }
        return cli->command->run(cli, argc - words + 1, argv + words - 1);
}

int cmd_help(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0), words;
        const struct cli_row *r;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        r = table_find(argc - at, argv + at, &words);
        if (at == argc)
                table_print_all(stdout);
        else if (r)
                table_print_command(r);
        else if (argc - at == 1 && table_is_group(argv[at]))
                table_print_group(stdout, argv[at]);
        else
                return unknown(argc - at, argv + at);
        return EXIT_OK;
}

int cmd_version(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (at < argc)
                return cli_usage(cli, "unexpected `%s`", esc_str(argv[at]));
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
        opterr = 0;
        while ((c = getopt_long(argc, argv, "+:hV", global, NULL)) != -1)
                switch (c) {
                case 'c': cli.config_override = optarg; break;
                case 'j': cli_json_on(&cli); break;
                case 'h': table_print_all(stdout); return EXIT_OK;
                case 'V': puts("brome " BROME_VERSION); return EXIT_OK;
                case ':': return cli_fail(EXIT_USAGE_, "--config needs a file");
                default:
                        return cli_fail_hint(EXIT_USAGE_, "before the command there may be --config FILE and --json; `brome help` lists the commands",
                                             "there is no option `%s`", esc_str(argv[optind - 1]));
                }
        if (paths_find(&cli.paths, cli.config_override, &err) < 0)
                return cli_fail(EXIT_HOST, "%s", err.text);
        if (optind == argc) {
                table_print_all(stderr);
                return EXIT_USAGE_;
        }
        if (cli.config_override && access(cli.config_override, R_OK) < 0)
                return cli_fail(EXIT_CONFIG_, "--config %s: %s", cli.config_override, strerror(errno));
        c = dispatch(&cli, argc - optind, argv + optind);
        if (fflush(stdout) != 0 && errno != EPIPE && c == EXIT_OK)
                c = cli_fail(EXIT_INTERNAL, "the output could not be written: %s", strerror(errno));
        return c;
}
