/* SPDX-License-Identifier: MIT */
/* cgroup: where the cgroups that events can be limited to lie in the file system. */
#pragma once

struct diag;
struct event_list;

/*
 * The directory of the hierarchy that perf events follow: the one mounted with perf_event, or cgroup2. Heap; NULL: none is
 * mounted.
 */
char *cgroup_root(void);

/* "a,,b": the next events of the list, from *position on, are counted in these cgroups only; an empty name leaves one out. */
int cgroup_assign(struct event_list *list, const char *names, unsigned *position, struct diag *reterr);

/* A single name is for all events so far, as in perf. */
int cgroup_assign_all(struct event_list *list, const char *name, struct diag *reterr);
