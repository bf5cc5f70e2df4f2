/* An nghttp2 session from a table: what it calls, what it settles, how much it takes unasked. */
#ifndef BROME_LINK_SESSION_H
#define BROME_LINK_SESSION_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>

struct session_plan {
        bool server;
        nghttp2_on_begin_headers_callback begin_headers;
        nghttp2_on_header_callback header;
        nghttp2_on_frame_recv_callback frame_recv;
        nghttp2_on_data_chunk_recv_callback data;
        nghttp2_on_stream_close_callback stream_close;
        nghttp2_on_frame_send_callback frame_send;                    /* NULL: nobody asks */
        nghttp2_send_data_callback send_data;                         /* NULL: the read callback copies */
        nghttp2_data_source_read_length_callback frame_length;        /* NULL: nghttp2's 16 KiB */
        void (*limit)(nghttp2_option *opt);                           /* options beyond those that every session has */
        const nghttp2_settings_entry *settings;
        size_t settings_n;
        int32_t window_bytes; /* of the connection */
        bool wipe;            /* memory is overwritten before it is given back: secrets pass through */
};

/* Window updates are never automatic: whoever passes bytes on gives the window back. NULL: no memory. */
nghttp2_session *session_new(const struct session_plan *plan, void *user) __attribute__((warn_unused_result));

#endif
