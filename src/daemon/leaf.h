/* bromed's place in the control groups of version 2. */
#ifndef BROME_DAEMON_LEAF_H
#define BROME_DAEMON_LEAF_H

/* A group with processes in it cannot hand controllers down (cgroups(7), "no internal processes"). So where bromed has a group to itself, it
 * moves into a leaf of it, and what it starts is born there; workspaces get groups beside the leaf. In a group that others share, or that is
 * not ours to divide, nothing happens. To be called before anything is started. */
void leaf_enter(void);

#endif
