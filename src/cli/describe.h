/* bromed's answers to `workspace.describe` and `status` as text for a person, on standard output. */
#ifndef BROME_CLI_DESCRIBE_H
#define BROME_CLI_DESCRIBE_H

#include <jansson.h>

void describe_workspace(json_t *answer);
void describe_supervisor(json_t *answer);

#endif
