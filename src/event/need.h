/* SPDX-License-Identifier: MIT */
/* need: what an event asks for that nothing can stand in for. Private to this room. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct perf_event_attr;

enum { NEED_MAX = 32 };

/*
 * Takes the index-th need out of the attr. false: the attr has no such need, or there is no such index. *ret_word: what it is,
 * and how it is left out, for a message.
 */
bool need_leave_out(struct perf_event_attr *attr, size_t index, const char **ret_word);
