/* Sessions: see session.h. */
#include "link/session.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory that is wiped ---- */

static void *wipe_malloc(size_t n, void *user)
{
        (void)user;
        return malloc(n);
}

static void *wipe_calloc(size_t n, size_t size, void *user)
{
        (void)user;
        return calloc(n, size);
}

static void wipe_free(void *p, void *user)
{
        (void)user;
        if (p)
                explicit_bzero(p, malloc_usable_size(p));
        free(p);
}

static void *wipe_realloc(void *p, size_t n, void *user)
{
        size_t had = p ? malloc_usable_size(p) : 0;
        void *q = malloc(n);

        if (!q)
                return NULL;
        if (p)
                memcpy(q, p, had < n ? had : n);
        wipe_free(p, user);
        return q;
}

static nghttp2_mem wiping = { NULL, wipe_malloc, wipe_free, wipe_calloc, wipe_realloc };

/* ---- sessions ---- */

static void set_callbacks(nghttp2_session_callbacks *cb, const struct session_plan *plan)
{
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, plan->begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(cb, plan->header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, plan->frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, plan->data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, plan->stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(cb, plan->frame_send);
        nghttp2_session_callbacks_set_send_data_callback(cb, plan->send_data);
        nghttp2_session_callbacks_set_data_source_read_length_callback(cb, plan->frame_length);
}

nghttp2_session *session_new(const struct session_plan *plan, void *user)
{
        nghttp2_session_callbacks *cb = NULL;
        nghttp2_option *opt = NULL;
        nghttp2_session *s = NULL;

        if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&opt) != 0)
                goto out;
        set_callbacks(cb, plan);
        nghttp2_option_set_no_auto_window_update(opt, 1);
        nghttp2_option_set_no_closed_streams(opt, 1);
        plan->limit(opt);
        if ((plan->server ? nghttp2_session_server_new3 : nghttp2_session_client_new3)(&s, cb, user, opt, plan->wipe ? &wiping : NULL) != 0) {
                s = NULL;
        } else if (nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, plan->settings, plan->settings_n) != 0 ||
                   nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, plan->window_bytes) != 0) {
                nghttp2_session_del(s);
                s = NULL;
        }
out:
        nghttp2_session_callbacks_del(cb);
        nghttp2_option_del(opt);
        return s;
}
