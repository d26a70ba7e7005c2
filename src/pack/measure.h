/* SPDX-License-Identifier: MIT */
/* measure: what the records of an extent are, for its index. Read by many threads at once after measure_new(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct event_desc;
struct extent_info;
struct measure;

/* Keeps nothing of the events. 0 or -ENOMEM. */
int measure_new(const struct event_desc *events, size_t nr_events, struct measure **ret);
void measure_free(struct measure *measure); /* NULL is fine */

/* Which event's record it is; 0 when it does not tell. All header.size bytes are there. */
size_t measure_event_of(const struct measure *measure, const uint8_t *record);

/* Fills in what is known of the records: all but where they are stored. Memory that runs out leaves out the counts. */
void measure_records(const struct measure *measure, struct span records, struct extent_info *ret);
