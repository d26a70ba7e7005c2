/* SPDX-License-Identifier: MIT */
#include "analyze/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

void tally_fini(struct tally *tally)
{
	free(tally->cells);
	free(tally->slots);
	*tally = (struct tally){0};
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static uint32_t cell_hash(const struct hist_place *place, uint32_t chain)
{
	uint64_t hash = mix(1, (uintptr_t)place->comm);

	hash = mix(hash, (uintptr_t)place->task);
	hash = mix(hash, (uintptr_t)place->dso);
	hash = mix(hash, (uintptr_t)place->symbol);
	hash = mix(hash, place->address);
	hash = mix(hash, (uintptr_t)place->details);
	hash = mix(hash, (uint64_t)place->tid << 32 | (uint32_t)place->cpu);
	hash = mix(hash, (uint64_t)chain << 16 | (uint8_t)place->level << 1 | place->filtered);
	return (uint32_t)hash;
}

static bool same_place(const struct hist_place *a, const struct hist_place *b)
{
	return a->comm == b->comm && a->task == b->task && a->dso == b->dso && a->symbol == b->symbol &&
	       a->address == b->address && a->details == b->details && a->tid == b->tid && a->cpu == b->cpu &&
	       a->level == b->level && a->filtered == b->filtered;
}

static int grow(struct tally *tally)
{
	uint32_t room = tally->room ? tally->room * 2 : FIRST_ROOM;

	if (room > UINT32_MAX / 4)
		return -ENOMEM;
	struct tally_cell *cells = reallocarray(tally->cells, room, sizeof(*cells));
	if (cells)
		tally->cells = cells;
	uint32_t *slots = calloc((size_t)room * 2, sizeof(*slots));
	if (!cells || !slots) {
		free(slots);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < tally->nr; i++) {
		uint32_t at = cells[i].hash & (room * 2 - 1);
		while (slots[at])
			at = (at + 1) & (room * 2 - 1);
		slots[at] = i + 1;
	}
	free(tally->slots);
	tally->slots = slots;
	tally->nr_slots = room * 2;
	tally->room = room;
	return 0;
}

int tally_find(struct tally *tally, const struct hist_place *place, uint32_t chain, uint32_t *ret_cell)
{
	uint32_t hash = cell_hash(place, chain);

	if (tally->nr == tally->room && grow(tally))
		return -ENOMEM;
	uint32_t at = hash & (tally->nr_slots - 1);
	for (; tally->slots[at]; at = (at + 1) & (tally->nr_slots - 1)) {
		const struct tally_cell *cell = &tally->cells[tally->slots[at] - 1];
		if (cell->hash == hash && cell->chain == chain && same_place(&cell->place, place)) {
			*ret_cell = tally->slots[at] - 1;
			return 0;
		}
	}
	tally->cells[tally->nr] = (struct tally_cell){.place = *place, .chain = chain, .hash = hash};
	*ret_cell = tally->nr++;
	tally->slots[at] = tally->nr;
	return 0;
}

void tally_share_fini(struct tally_share *share)
{
	free(share->amounts);
	*share = (struct tally_share){0};
}

int tally_share_fit(struct tally_share *share, const struct tally *tally)
{
	if (share->room >= tally->nr)
		return 0;
	struct hist_amount *amounts = reallocarray(share->amounts, tally->room, sizeof(*amounts));
	if (!amounts)
		return -ENOMEM;
	memset(amounts + share->room, 0, (tally->room - share->room) * sizeof(*amounts));
	share->amounts = amounts;
	share->room = tally->room;
	return 0;
}

void tally_join(struct tally *tally, struct tally_share *share)
{
	for (uint32_t i = 0; i < tally->nr && i < share->room; i++) {
		tally->cells[i].amount.period += share->amounts[i].period;
		tally->cells[i].amount.nr_samples += share->amounts[i].nr_samples;
		share->amounts[i] = (struct hist_amount){0};
	}
}
