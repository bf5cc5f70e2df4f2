/* Workspaces: see workspace.h. */
#include "daemon/workspace.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/record.h"
#include "daemon/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const state_names[WS_STATE_COUNT] = {
        [WS_STOPPED] = "stopped", [WS_PREPARING] = "preparing", [WS_OPENING] = "opening", [WS_RUNNING] = "running",
        [WS_FROZEN] = "frozen",   [WS_COMPROMISED] = "compromised", [WS_COMPROMISED_REST] = "compromised",
        [WS_STOPPING] = "stopping", [WS_FAILED] = "failed",
};

#define TO(s) (1u << WS_##s)
static const unsigned edges[WS_STATE_COUNT] = {
        [WS_STOPPED] = TO(PREPARING),
        [WS_FAILED] = TO(PREPARING),
        [WS_PREPARING] = TO(OPENING) | TO(FAILED),
        [WS_OPENING] = TO(RUNNING) | TO(STOPPING),
        [WS_RUNNING] = TO(FROZEN) | TO(COMPROMISED) | TO(STOPPING),
        [WS_FROZEN] = TO(RUNNING) | TO(COMPROMISED) | TO(STOPPING),
        [WS_COMPROMISED] = TO(RUNNING) | TO(STOPPING),
        [WS_STOPPING] = TO(STOPPED) | TO(COMPROMISED_REST) | TO(FAILED),
        [WS_COMPROMISED_REST] = TO(STOPPED),
};

const char *workspace_state_name(enum workspace_state s) { return state_names[s]; }
bool workspace_edge(enum workspace_state from, enum workspace_state to) { return edges[from] >> to & 1; }
bool workspace_busy(const struct workspace *ws) { return !(1u << ws->state & (TO(STOPPED) | TO(COMPROMISED_REST) | TO(FAILED))); }

void workspace_state(struct workspace *ws, enum workspace_state to, const char *reason)
{
        MUST(workspace_edge(ws->state, to));
        log_debug("workspace %s: %s → %s", ws->name, state_names[ws->state], state_names[to]);
        ws->state = to;
        ws->since_us = clock_real_us();
        snprintf(ws->reason, sizeof(ws->reason), "%s", reason ? reason : "");
        record_state(ws);
}

void workspace_used(struct workspace *ws, const char *credential, const char *host, uint64_t count)
{
        size_t i = 0;

        while (i < ws->use_count && (strcmp(ws->uses[i].credential, credential) != 0 || strcmp(ws->uses[i].host, host) != 0))
                i++;
        if (i == WORKSPACE_USES)
                return;
        if (i == ws->use_count) {
                snprintf(ws->uses[i].credential, sizeof(ws->uses[i].credential), "%s", credential);
                snprintf(ws->uses[i].host, sizeof(ws->uses[i].host), "%s", host);
                ws->use_count++;
        }
        ws->uses[i].count += count;
        ws->uses[i].last_us = clock_real_us();
}

struct workspace *workspace_find(const struct daemon *d, const char *name)
{
        for (size_t i = 0; i < d->workspace_count; i++)
                if (strcmp(d->workspaces[i]->name, name) == 0)
                        return d->workspaces[i];
        return NULL;
}

void workspace_adopt(struct workspace *ws, struct settings *settings)
{
        settings_drop(ws->settings);
        ws->settings = settings;
        ws->conf = config_workspace(settings->config, slice_str(ws->name));
        MUST(ws->conf);
}

static void workspace_free(struct workspace *ws)
{
        settings_drop(ws->settings);
        free(ws->text);
        free(ws);
}

static int grow(struct daemon *d)
{
        size_t cap = d->workspace_cap ? 2 * d->workspace_cap : 16;
        struct workspace **list;

        if (d->workspace_count < d->workspace_cap)
                return 0;
        list = reallocarray(d->workspaces, cap, sizeof(struct workspace *));
        if (!list)
                return -1;
        d->workspaces = list;
        d->workspace_cap = cap;
        return 0;
}

struct workspace *workspace_add(struct daemon *d, const char *name, enum workspace_origin origin, struct settings *settings, char *text,
                                struct err *err)
{
        struct workspace *ws = calloc(1, sizeof(*ws));
        char mark[PATH_MAX];

        if (!ws || grow(d) < 0 || d->workspace_count >= RULES_WORKSPACES_MAX) {
                settings_drop(settings);
                free(text);
                free(ws);
                err_set(err, "too many workspaces, or out of memory");
                return NULL;
        }
        *ws = (struct workspace){ .daemon = d, .origin = origin, .state = WS_STOPPED, .since_us = clock_real_us(), .text = text, .generation = 1 };
        snprintf(ws->name, sizeof(ws->name), "%s", name);
        if (snprintf(ws->folder, sizeof(ws->folder), "%s/workspaces/%s", d->paths.state, name) >= (int)sizeof(ws->folder)) {
                settings_drop(settings);
                workspace_free(ws);
                err_set(err, "the state folder is too long a path");
                return NULL;
        }
        workspace_adopt(ws, settings);
        snprintf(ws->file, sizeof(ws->file), "%.*s", SLICE_FMT(ws->conf->file));
        /* SECURITY: a decision that is still owed outlives bromed. */
        if (snprintf(mark, sizeof(mark), "%s/" WORKSPACE_COMPROMISED_MARK, ws->folder) >= (int)sizeof(mark) || access(mark, F_OK) == 0 || errno != ENOENT) {
                ws->state = WS_COMPROMISED_REST;
                ws->undecided = true;
                snprintf(ws->reason, sizeof(ws->reason), "a placeholder was on its way to where it does not belong; nobody has decided yet");
        }
        d->workspaces[d->workspace_count++] = ws;
        return ws;
}

void workspace_remove(struct workspace *ws)
{
        struct daemon *d = ws->daemon;

        MUST(!workspace_busy(ws) && !ws->session);
        for (size_t i = 0; i < d->workspace_count; i++)
                if (d->workspaces[i] == ws) {
                        d->workspaces[i] = d->workspaces[--d->workspace_count];
                        break;
                }
        workspace_free(ws);
}
