/* SPDX-License-Identifier: MIT */
/* drain_choice: how many threads drain the rings, into what, and which engine writes. Pure; used by the main thread. */
#pragma once

#include <stdbool.h>

struct record_options;
struct recording_options;

/*
 * Fills in threads, directory, thread_spec, cpus_per_thread and writer of a recording whose target and compression_level
 * are known, and its output where the writer is null. `pipe`: the output is one.
 */
void drain_choose(const struct record_options *options, bool pipe, struct recording_options *recording);
