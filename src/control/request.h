/* The server's end of the control socket: one table of requests, one decoder. Pure: a parsed message in, a checked request or an error out.
 * The peer is the user's own program, yet everything is bounded and typed: it may be another version, or broken. */
#ifndef BROME_CONTROL_REQUEST_H
#define BROME_CONTROL_REQUEST_H

#include "base/chan.h"
#include "base/err.h"

#include <stdint.h>

enum request_op {
        REQUEST_NONE = 0,
#define REQUEST(NAME, op, members, fd, wanted) REQUEST_##NAME,
#include "control/requests.tbl"
#undef REQUEST
        REQUEST_OP_COUNT
};

/* Why a request was refused: `code` of the error answer. */
enum request_error {
        REQUEST_E_USAGE,
        REQUEST_E_NO_WORKSPACE,
        REQUEST_E_EXISTS,
        REQUEST_E_STATE,
        REQUEST_E_CONFIG,
        REQUEST_E_HOST,
        REQUEST_E_AGAIN, /* of session.open: the same request will go another way */
        REQUEST_E_JOURNAL,
        REQUEST_E_INTERNAL,
        REQUEST_ERROR_COUNT
};
const char *request_error_code(enum request_error e);

enum {
        REQUEST_NAME_BYTES = 64,     /* a workspace's name with its NUL; the journal's limit too */
        REQUEST_ARGS = 4096,         /* argv and env entries of one exec: the message bounds the bytes */
        REQUEST_PATH_BYTES = 16384,  /* of PATH: a hundred folders with long names */
        REQUEST_TEXT_BYTES = 1 << 20, /* rules or a workspace block handed over as a memory file: 10,000 rules take half of it */
};

struct request {
        enum request_op op;
        long long id;
        const char *workspace;   /* a valid name, or NULL; borrowed from the message, as all strings here */
        const char *name;        /* of workspace.new, .rm, .wipe, vault.put, .rm */
        const char *credential;  /* a valid name, or NULL */
        const char *term;        /* `for`, or NULL */
        const char *proxy, *no_proxy, *cwd; /* or NULL */
        const char *path;        /* PATH of the caller, or NULL */
        json_t *argv, *env;      /* checked: strings without NUL, non-empty argv; borrowed */
        json_t *root;            /* an object, or NULL; borrowed */
        bool pty, keep, rm, force, evidence, all, hears;
        bool go_on;              /* `continue` */
        int rows, cols;
        long long base_generation; /* -1: absent */
        uint16_t port;
        long long files, bytes;  /* of `copied` */
        bool out;                /* of `copied`: out of the workspace */
        long long approval, seen; /* seen -1: absent */
        int fd;                  /* the descriptor of its row in requests.tbl, or -1; borrowed: chan_take_fd(msg, 0) when kept */
};

/* Checks one message after the hello. 0; -1 with one line for the error answer: out->id and out->op are then set as far as they are known
 * (id 0 when there is none). Unknown members are ignored, an unknown op or a wrong type is refused. */
int request_parse(struct request *out, const struct chan_msg *msg, struct err *err) __attribute__((warn_unused_result));
/* 1–63 bytes of a–z, 0–9 and '-', the first no '-': as the configuration's names; a file name and a host name at once. */
bool request_name_ok(const char *name);

/* Answers. Both give a new reference, NULL when memory is out. */
json_t *request_answer(const char *op, long long id);
json_t *request_error(long long id, enum request_error code, const char *text);

#endif
