/* attach_run as a program, for test_attach.py: the stream is descriptor 3, "pty" as argument asks for one; with "watch" descriptor 4 is bromed's. */
#include "attach/attach.h"

#include <stdio.h>
#include <string.h>

static void note(const char *text) { fprintf(stderr, "note: %s\n", text); }

int main(int argc, char **argv)
{
        long long last_id = 7;
        struct attach_watch watch = { .fd = 4, .last_id = &last_id, .note = note };
        bool pty = false, watched = false;

        for (int i = 1; i < argc; i++) {
                pty = pty || strcmp(argv[i], "pty") == 0;
                watched = watched || strcmp(argv[i], "watch") == 0;
        }
        return attach_run(3, &(struct attach_options){ .pty = pty, .watch = watched ? &watch : NULL });
}
