/* attach_run as a program, for test_attach.py: the stream is descriptor 3, "pty" as argument asks for one. */
#include "attach/attach.h"

#include <string.h>

int main(int argc, char **argv)
{
        return attach_run(3, &(struct attach_options){ .pty = argc > 1 && strcmp(argv[1], "pty") == 0 });
}
