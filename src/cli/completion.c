/* brome completion. The scripts are the same few lines for ever: at each tab they ask `brome completion words -- WORD…` what may stand in the
 * place of the last word, and brome answers from commands.tbl and from the names of the workspaces. So completion cannot lag behind the table.
 *
 * An answer is a line: the word, a tab, its text. The lines ":file" and ":folder" ask the shell for its own. Nothing is started and nobody is
 * asked: a tab must not wait. Every word printed is [a-z0-9_-], whatever the configuration says. */
#include "cli/local.h"
#include "cli/table.h"

#include <ctype.h>
#include <stdio.h>

static const char bash_script[] =
        "# bash completion for brome\n"
        "_brome() {\n"
        "        local line word words=() cur=${COMP_WORDS[COMP_CWORD]} i\n"
        "        # The shell splits at = and :, which brome does not.\n"
        "        for ((i = 1; i <= COMP_CWORD; i++)); do\n"
        "                word=${COMP_WORDS[i]}\n"
        "                if ((${#words[@]})) && [[ $word == [=:]* || ${words[-1]} == *[=:] ]]; then\n"
        "                        words[-1]+=$word\n"
        "                else\n"
        "                        words+=(\"$word\")\n"
        "                fi\n"
        "        done\n"
        "        COMPREPLY=()\n"
        "        while IFS= read -r line; do\n"
        "                case $line in\n"
        "                :file) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
        "                :folder) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
        "                *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
        "                esac\n"
        "        done < <(brome completion words -- \"${words[@]}\" 2>/dev/null)\n"
        "}\n"
        "complete -F _brome brome\n";

static const char zsh_script[] =
        "#compdef brome\n"
        "_brome() {\n"
        "        local line\n"
        "        local -a found\n"
        "        for line in ${(f)\"$(brome completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"}; do\n"
        "                case $line in\n"
        "                :file) _files ;;\n"
        "                :folder) _files -/ ;;\n"
        "                *) found+=(\"${line%%$'\\t'*}:${line#*$'\\t'}\") ;;\n"
        "                esac\n"
        "        done\n"
        "        (( $#found )) && _describe -t words brome found\n"
        "}\n"
        "if [[ $funcstack[1] == _brome ]]; then\n"
        "        _brome \"$@\"\n"
        "else\n"
        "        compdef _brome brome\n"
        "fi\n";

static const char fish_script[] =
        "# fish completion for brome\n"
        "function __brome_words\n"
        "        set -l words (commandline -opc) (commandline -ct)\n"
        "        set -e words[1]\n"
        "        brome completion words -- $words 2>/dev/null\n"
        "end\n"
        "complete -c brome -f -a '(__brome_words | string match -v \":*\")'\n"
        "complete -c brome -n '__brome_words | string match -q \":*\"' -F\n";

/* ---- candidates ---- */

struct asked {
        struct cli *cli;
        const char *cur; /* the word under the cursor */
};

static void offer(const struct asked *a, const char *dashes, const char *word, size_t n, const char *text)
{
        char full[96];

        if (snprintf(full, sizeof(full), "%s%.*s", dashes, (int)n, word) < (int)sizeof(full) && strncmp(full, a->cur, strlen(a->cur)) == 0)
                printf("%s\t%s\n", full, text);
}

static void offer_workspaces(const struct asked *a)
{
        struct diags errors = { 0 };
        struct config *c = local_config(a->cli, NULL, &errors);

        for (size_t i = 0; c && i < config_workspace_count(c); i++) {
                struct slice name = config_workspace_at(c, i)->name;
                offer(a, "", (const char *)name.p, name.n, "workspace");
        }
        config_free(c);
}

/* What `takes` says: WORKSPACE|FILE, bash|zsh|fish, DIR[:ro|:overlay]…, NAME=VALUE… */
static void offer_kind(const struct asked *a, const char *takes)
{
        static const struct { const char *word, *directive; } kinds[] = { { "FILE", ":file" }, { "PATH", ":file" }, { "COMMAND", ":file" }, { "DIR", ":folder" } };

        for (takes += strspn(takes, "["); isalnum((unsigned char)*takes); takes++) {
                size_t n = 0;
                while (isalnum((unsigned char)takes[n]) || takes[n] == '-')
                        n++;
                if (islower((unsigned char)*takes) || isdigit((unsigned char)*takes))
                        offer(a, "", takes, n, "");
                else if (n == strlen("WORKSPACE") && strncmp(takes, "WORKSPACE", n) == 0)
                        offer_workspaces(a);
                for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                        if (strlen(kinds[i].word) == n && strncmp(kinds[i].word, takes, n) == 0)
                                puts(kinds[i].directive);
                takes += n;
                if (*takes != '|')
                        break;
        }
}

/* Operand number n of a command; the last one may repeat. */
static void offer_operand(const struct asked *a, const char *takes, size_t n)
{
        const char *last = "";

        while (*takes) {
                size_t len = strcspn(takes, " ");
                if (strncmp(takes, "[--]", len) == 0) {
                        /* No operand. */
                } else if (strncmp(takes, "…", strlen("…")) == 0) {
                        offer_kind(a, last);
                        return;
                } else {
                        last = takes;
                        if (n-- == 0) {
                                offer_kind(a, takes);
                                return;
                        }
                }
                takes += len;
                takes += *takes == ' ';
        }
}

/* The option that a word names and whose argument the next word is; NULL: none. */
static const struct cli_row *awaits(const struct cli_row *command, const char *word)
{
        for (const struct cli_row *o = command + 1; o < row_next_command(command); o++) {
                bool named = strncmp(word, "--", 2) == 0 ? strcmp(word + 2, o->name) == 0 : o->letter && word[0] == '-' && word[1] == o->letter && !word[2];
                if (named && *o->takes)
                        return o;
        }
        return NULL;
}

static void offer_options(const struct asked *a, const struct cli_row *command)
{
        for (const struct cli_row *o = command + 1; o < row_next_command(command); o++)
                offer(a, "--", o->name, strlen(o->name), o->text);
        offer(a, "--", "json", 4, "print JSON");
        offer(a, "--", "help", 4, "say what the command takes");
}

static void in_command(const struct asked *a, const struct cli_row *command, int n, char *const *words)
{
        const char *takes = command->takes, *behind = strstr(takes, "[--] ");
        const struct cli_row *pending = NULL;
        bool operands_only = false;
        size_t operands = 0;

        for (int i = 0; i < n; i++) {
                bool option = words[i][0] == '-' && words[i][1] && !operands_only && !pending;
                if (option && strcmp(words[i], "--") == 0) {
                        operands_only = true;
                        if (behind) {
                                takes = behind;
                                operands = 0;
                        }
                        continue;
                }
                operands += !option && !pending;
                /* The second word of `exec WORKSPACE COMMAND …` begins what belongs to somebody else. */
                operands_only = operands_only || (behind && operands > 1);
                pending = option ? awaits(command, words[i]) : NULL;
        }
        if (pending)
                offer_kind(a, pending->takes);
        else if (a->cur[0] == '-' && !operands_only)
                offer_options(a, command);
        else
                offer_operand(a, takes, operands);
}

/* First words, or the second words of a group. */
static void offer_commands(const struct asked *a, const char *group)
{
        const char *before = "";

        for (const struct cli_row *r = cli_rows; r->name; r = row_next_command(r)) {
                size_t n = strcspn(r->name, " ");
                const char *second = r->name[n] ? r->name + n + 1 : NULL;
                if (group && second && strlen(group) == n && strncmp(group, r->name, n) == 0)
                        offer(a, "", second, strlen(second), r->text);
                if (!group && (strlen(before) < n || strncmp(before, r->name, n + (second != NULL)) != 0))
                        offer(a, "", r->name, n, second ? "" : r->text);
                before = r->name;
        }
}

static void answer(struct cli *cli, int n, char *const *words)
{
        static const char *const global[][2] = {
                { "config", "use another configuration" }, { "json", "print JSON" }, { "help", "list the commands" }, { "version", "print the version" },
        };
        struct asked a = { .cli = cli, .cur = words[n - 1] };
        const struct cli_row *command;
        int taken;

        while (n > 1 && words[0][0] == '-') {
                int skip = strcmp(words[0], "--config") == 0 ? 2 : 1;
                if (skip == n) { /* the file itself */
                        puts(":file");
                        return;
                }
                words += skip;
                n -= skip;
        }
        if (n > 1 && strcmp(words[0], "help") == 0) {
                words++;
                n--;
        }
        command = table_find(n - 1, words, &taken);
        /* A command that is a group as well: `approvals`, `approvals allow`. */
        if (command && n == 2 && table_is_group(words[0]) && a.cur[0] != '-')
                offer_commands(&a, words[0]);
        if (command)
                in_command(&a, command, n - 1 - taken, words + taken);
        else if (n == 1 && a.cur[0] == '-')
                for (size_t i = 0; i < sizeof(global) / sizeof(global[0]); i++)
                        offer(&a, "--", global[i][0], strlen(global[i][0]), global[i][1]);
        else if (n <= 2)
                offer_commands(&a, n == 2 ? words[0] : NULL);
}

int cmd_completion(struct cli *cli, int argc, char **argv)
{
        static const struct { const char *shell, *script; } shells[] = { { "bash", bash_script }, { "zsh", zsh_script }, { "fish", fish_script } };
        int at = cli_options_before(cli, argc, argv, NULL, 0);

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        for (size_t i = 0; at + 1 == argc && i < sizeof(shells) / sizeof(shells[0]); i++)
                if (strcmp(argv[at], shells[i].shell) == 0) {
                        fputs(shells[i].script, stdout);
                        return EXIT_OK;
                }
        if (at == argc || strcmp(argv[at], "words") != 0)
                return cli_usage(cli, "for which shell? bash, zsh or fish");
        at++;
        if (at < argc && strcmp(argv[at], "--") == 0)
                at++;
        if (at < argc)
                answer(cli, argc - at, argv + at);
        return EXIT_OK;
}
