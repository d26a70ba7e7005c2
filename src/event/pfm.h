/* SPDX-License-Identifier: MIT */
/*
 * pfm: events of this machine's CPU by the names that libpfm4 has for them, which it takes from the vendors' manuals.
 * In builds without libpfm4 no name is known. Not by two threads at once: the library has state of its own.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>

/* Whether this build has the library. */
bool pfm_built(void);

/*
 * "EVENT[:UMASK][:MODIFIER]…" of libpfm(3): what to count, and where not (exclude_*); nothing else of *ret is set. On
 * failure -EINVAL, *ret is untouched, and *ret_why (NULL: not wanted) is the library's reason, static text.
 */
int pfm_encode(const char *name, struct perf_event_attr *ret, const char **ret_why);
