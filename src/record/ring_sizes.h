/* SPDX-License-Identifier: MIT */
/* ring_sizes: how large rings are when a recording starts. Sizes of one ring are in pages, of a power of two, without its control page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan;

struct eventset_sizes {
	size_t pages; /* of each ring, a power of two; 0: as much as the kernel gives by default, or more */
	bool exact;   /* the user named it: fail rather than take less */
	uint64_t most_bytes; /* of all rings: smaller ones then, unless the size is exact; 0: any */
	bool bounded; /* the user named most_bytes: fail rather than take more */
	bool grows;   /* they may be exchanged for larger ones: carriers have them, if the kernel lets us */
	bool roomy;   /* without a size: larger than by default, where nothing speaks against it */
};

/*
 * How much has come into a larger ring than by default when its reader is woken: a quarter, or as soon as it is worth it, so that
 * who comes late finds room for three times as much, and more. However large the ring is, that is in some cache still.
 */
size_t ring_sizes_roomy_wakeup(size_t ring_bytes);

/* The largest ring that every user may have: the locked-memory allowance per CPU without the control page. */
size_t ring_sizes_default_pages(void);

/* Of a side ring where memory is not short. */
size_t ring_sizes_side_pages(void);

size_t ring_sizes_count_data(const struct plan *plan);

/* Of all rings of the plan, with their control pages. */
uint64_t ring_sizes_bytes(const struct plan *plan, size_t data_pages, size_t side_pages);

/* Halves what may be halved, the side rings first while they are not much smaller, until all take no more than they may. */
void ring_sizes_fit(const struct plan *plan, struct eventset_sizes sizes, size_t *data_pages, size_t *side_pages);

/*
 * For who may lock as much memory as he likes: data rings that hold what comes while the writer is stuck for some 20 ms, as far as
 * the machine (memory_bytes) has memory for them. 0: no larger than by default.
 */
size_t ring_sizes_roomy_pages(const struct plan *plan, struct eventset_sizes sizes, uint64_t memory_bytes);
