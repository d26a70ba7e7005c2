/* SPDX-License-Identifier: MIT */
/* loss_records: what the kernel dropped since the last file, as records for this one. One thread at a time. */
#pragma once

#include <stdint.h>

struct buf;
struct described_events;
struct eventset;

/*
 * Appends a LOST_SAMPLES for each slot that has lost more (`lost`, by slot) than `told`, which is advanced; *total
 * grows. 0, -ENOMEM.
 */
int loss_records_add(const struct eventset *set, const struct described_events *described, const uint64_t lost[],
		     uint64_t told[], struct buf *out, uint64_t *total);
