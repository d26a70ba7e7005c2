/* SPDX-License-Identifier: MIT */
/* sums: how many samples, and the sum of their periods, of what is equal. One owner, one thread; zeroed is empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

struct sum_key {
	uint32_t stack, thread, event;
	int32_t cpu;
};

struct sum {
	struct sum_key key;
	uint64_t nr_samples, period;
};

struct sums {
	struct sum *sums; /* heap; in the order in which they came first */
	uint32_t nr, room;
	struct hash_table by_key; /* index + 1, by a hash */
};

int sums_add(struct sums *sums, const struct sum_key *key, uint64_t period); /* 0 or -ENOMEM */
void sums_clear(struct sums *sums);
void sums_fini(struct sums *sums);
