/* SPDX-License-Identifier: MIT */
/*
 * extent_stats: counts the records of an extent by kind and event, for the index (extent_index.h). After
 * extent_stats_new() many threads may use it at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct event_desc;
struct extent_info;
struct extent_stats;

/* `events` is only used during the call. 0 or -ENOMEM. */
int extent_stats_new(const struct event_desc *events, size_t nr_events, struct extent_stats **ret);
void extent_stats_free(struct extent_stats *stats); /* NULL is fine */

/*
 * The index of the event that the record belongs to; 0 when the record has no id. All header.size bytes of the record
 * must be readable.
 */
size_t extent_stats_event_of(const struct extent_stats *stats, const uint8_t *record);

/*
 * Sets the fields of *ret that depend on the records alone: all but part, offset and packed_bytes. When memory runs out
 * the counts by event are missing.
 */
void extent_stats_records(const struct extent_stats *stats, struct span records, struct extent_info *ret);
