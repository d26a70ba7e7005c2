/* SPDX-License-Identifier: MIT */
/*
 * extent_stats: what the records of an extent are, for its index. Read by many threads at once after
 * extent_stats_new().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct event_desc;
struct extent_info;
struct extent_stats;

/* Keeps nothing of the events. 0 or -ENOMEM. */
int extent_stats_new(const struct event_desc *events, size_t nr_events, struct extent_stats **ret);
void extent_stats_free(struct extent_stats *stats); /* NULL is fine */

/* Which event's record it is; 0 when it does not tell. All header.size bytes are there. */
size_t measure_event_of(const struct extent_stats *stats, const uint8_t *record);

/* Fills in what is known of the records: all but where they are stored. Memory that runs out leaves out the counts. */
void extent_stats_records(const struct extent_stats *stats, struct span records, struct extent_info *ret);
