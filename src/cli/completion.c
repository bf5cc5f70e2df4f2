/* brome completion: scripts made from the command table, so that they never lag behind it. */
#include "cli/cli.h"

#include <stdio.h>

static const char *const names[] = {
#define COMMAND(name, fn, usage, help, sample) name,
#define OPTION(word, ch, argument, sentence)
#include "cli/commands.tbl"
#undef COMMAND
#undef OPTION
};
static const char *const helps[] = {
#define COMMAND(name, fn, usage, help, sample) help,
#define OPTION(word, ch, argument, sentence)
#include "cli/commands.tbl"
#undef COMMAND
#undef OPTION
};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

static size_t first_word(size_t i) { return strcspn(names[i], " "); }

/* Is row i the first with its first word? */
static bool opens_group(size_t i)
{
        return i == 0 || first_word(i) != first_word(i - 1) || strncmp(names[i], names[i - 1], first_word(i)) != 0;
}

static void bash_script(const char *prelude)
{
        fputs(prelude, stdout);
        puts("_brome() {\n        local cur=${COMP_WORDS[COMP_CWORD]} words=\n        COMPREPLY=()");
        puts("        if [ \"$COMP_CWORD\" -eq 1 ]; then\n                words=\"\\");
        for (size_t i = 0; i < NAME_COUNT; i++)
                if (opens_group(i))
                        printf("%.*s ", (int)first_word(i), names[i]);
        puts("--config --json --help --version\"\n        elif [ \"$COMP_CWORD\" -eq 2 ]; then\n                case ${COMP_WORDS[1]} in");
        for (size_t i = 0; i < NAME_COUNT; i++) {
                if (!names[i][first_word(i)])
                        continue;
                if (opens_group(i))
                        printf("                %.*s) words=\"", (int)first_word(i), names[i]);
                printf("%s ", names[i] + first_word(i) + 1);
                if (i + 1 == NAME_COUNT || opens_group(i + 1))
                        puts("\" ;;");
        }
        puts("                run|shell|exec|timeline) words=$(brome workspace ls --json 2>/dev/null | sed -n 's/.*\"\\(workspace\\|name\\)\": *\"\\([^\"]*\\)\".*/\\2/p') ;;\n"
             "                esac\n"
             "        elif [ \"$COMP_CWORD\" -eq 3 ]; then\n"
             "                case ${COMP_WORDS[1]} in\n"
             "                workspace|rules|share|trace) words=$(brome workspace ls --json 2>/dev/null | sed -n 's/.*\"\\(workspace\\|name\\)\": *\"\\([^\"]*\\)\".*/\\2/p') ;;\n"
             "                esac\n        fi\n        # shellcheck disable=SC2207\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
             "complete -o default -F _brome brome");
}

static void fish_script(void)
{
        for (size_t i = 0; i < NAME_COUNT; i++) {
                if (opens_group(i))
                        printf("complete -c brome -n __fish_use_subcommand -a %.*s -d '%s'\n", (int)first_word(i), names[i], names[i][first_word(i)] ? "" : helps[i]);
                if (names[i][first_word(i)])
                        printf("complete -c brome -n '__fish_seen_subcommand_from %.*s' -a %s -d '%s'\n", (int)first_word(i), names[i],
                               names[i] + first_word(i) + 1, helps[i]);
        }
}

int cmd_completion(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at == 1 && strcmp(argv[at], "bash") == 0)
                bash_script("# bash completion for brome\n");
        else if (argc - at == 1 && strcmp(argv[at], "zsh") == 0)
                bash_script("#compdef brome\nautoload -U +X bashcompinit && bashcompinit\n");
        else if (argc - at == 1 && strcmp(argv[at], "fish") == 0)
                fish_script();
        else
                return cli_usage(cli, "bash, zsh or fish");
        return EXIT_OK;
}
