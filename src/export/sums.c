/* SPDX-License-Identifier: MIT */
#include "export/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/stack_table.h"

int sums_add(struct sums *sums, const struct sum_key *key, uint64_t period)
{
	uint64_t hash =
		hash_mix((uint64_t)key->thread << 32 | key->stack, (uint64_t)key->event << 32 | (uint32_t)key->cpu);

	for (struct hash_slot *slot = hash_table_find(&sums->by_key, hash); slot;
	     slot = hash_table_next(&sums->by_key, slot)) {
		struct sum *sum = &sums->sums[slot->number - 1];
		if (memcmp(&sum->key, key, sizeof(*key)) == 0) {
			sum->nr_samples++;
			sum->period += period;
			return 0;
		}
	}
	if (table_make_room((void **)&sums->sums, sizeof(*sums->sums), sums->nr, &sums->room) ||
	    hash_table_add_number(&sums->by_key, hash, (uint64_t)sums->nr + 1))
		return -ENOMEM;
	sums->sums[sums->nr++] = (struct sum){*key, 1, period};
	return 0;
}

void sums_clear(struct sums *sums)
{
	hash_table_clear(&sums->by_key);
	sums->nr = 0;
}

void sums_fini(struct sums *sums)
{
	free(sums->sums);
	hash_table_fini(&sums->by_key);
	*sums = (struct sums){0};
}
