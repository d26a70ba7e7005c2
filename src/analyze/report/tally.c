/* SPDX-License-Identifier: MIT */
#include "analyze/report/tally.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { FIRST_ITEMS = 64 };

/* Numbers must not wrap; so many items are beyond any recording that fits in memory. */
static const uint32_t most = UINT32_MAX / 4;

/* The item of a number. Valid until the next one is new. */
static inline const void *interned_at(const struct interned *interned, uint32_t words, uint32_t number)
{
	return interned->items + (size_t)number * words;
}

static void interned_fini(struct interned *interned)
{
	free(interned->items);
	hash_table_fini(&interned->numbers);
	*interned = (struct interned){0};
}

static int grow_items(struct interned *interned, uint32_t words)
{
	uint32_t room = interned->room ? interned->room * 2 : FIRST_ITEMS;
	uint32_t *items = room <= most ? reallocarray(interned->items, room, words * sizeof(*items)) : NULL;

	if (!items)
		return -ENOMEM;
	interned->items = items;
	interned->room = room;
	return 0;
}

/* Inline, as most items have few words: a sample needs three of these. */
static inline uint64_t item_hash(const void *item, uint32_t words)
{
	uint64_t hash = 1;
	uint32_t word;

	for (uint32_t i = 0; i < words; i++) {
		memcpy(&word, (const uint8_t *)item + i * sizeof(word), sizeof(word));
		hash = hash_mix(hash, word);
	}
	return hash;
}

/*
 * The number of an item of so many 32-bit words, the same for all of a table; nothing in it is padding. It is copied
 * when it is new. 0 or -ENOMEM.
 */
static int interned_find(struct interned *interned, const void *item, uint32_t words, uint32_t *ret)
{
	const size_t bytes = words * sizeof(*interned->items);
	uint64_t key = item_hash(item, words);

	for (struct hash_slot *slot = hash_table_find(&interned->numbers, key); slot;
	     slot = hash_table_next(&interned->numbers, slot)) {
		*ret = (uint32_t)slot->number - 1;
		if (memcmp(interned_at(interned, words, *ret), item, bytes) == 0)
			return 0;
	}
	if (interned->nr == interned->room && grow_items(interned, words))
		return -ENOMEM;
	if (hash_table_add_number(&interned->numbers, key, interned->nr + 1))
		return -ENOMEM;
	memcpy(interned->items + (size_t)interned->nr * words, item, bytes);
	*ret = interned->nr++;
	return 0;
}

/* A place is cut into what belongs to the task and what belongs to the function; a cell is the numbers of both. */
struct task_part {
	const struct comm *comm;
	const struct task *task;
	const struct hist_details *details;
	uint32_t tid;
	int32_t cpu;
};

struct function_part {
	struct dso *dso;
	const struct symbol *symbol;
	uint64_t address;
	uint16_t level, activity;
	uint32_t filtered;
};

struct cell_part {
	uint32_t task, function, chain;
};

#define WORDS(type) ((uint32_t)(sizeof(type) / sizeof(uint32_t)))

/* Compared by their bytes: nothing is padding. */
static_assert(sizeof(struct task_part) == 3 * sizeof(void *) + 8, "no padding");
static_assert(sizeof(struct function_part) == 2 * sizeof(void *) + 16, "no padding");
static_assert(sizeof(struct cell_part) == 12, "no padding");

void tally_fini(struct tally *tally)
{
	interned_fini(&tally->tasks);
	interned_fini(&tally->functions);
	interned_fini(&tally->cells);
	free(tally->amounts);
	*tally = (struct tally){0};
}

static int find_cell(struct tally *tally, const struct cell_part *cell, uint32_t *ret)
{
	if (array_room_up_to(tally->amounts, tally->nr, tally->room, UINT32_MAX / 4) ||
	    interned_find(&tally->cells, cell, WORDS(*cell), ret))
		return -ENOMEM;
	if (*ret == tally->nr)
		tally->amounts[tally->nr++] = (struct hist_amount){0};
	return 0;
}

int tally_find(struct tally *tally, const struct hist_place *place, uint32_t chain, uint32_t *ret_cell)
{
	const struct task_part task = {place->comm, place->task, place->details, place->tid, place->cpu};
	const struct function_part function = {place->dso,      place->symbol,  place->address, (uint8_t)place->level,
					       place->activity, place->filtered};
	struct cell_part cell = {.chain = chain};

	if (interned_find(&tally->tasks, &task, WORDS(task), &cell.task) ||
	    interned_find(&tally->functions, &function, WORDS(function), &cell.function))
		return -ENOMEM;
	return find_cell(tally, &cell, ret_cell);
}

struct tally_cell tally_cell(const struct tally *tally, uint32_t cell)
{
	const struct cell_part *parts = interned_at(&tally->cells, WORDS(*parts), cell);
	const struct task_part *task = interned_at(&tally->tasks, WORDS(*task), parts->task);
	const struct function_part *function = interned_at(&tally->functions, WORDS(*function), parts->function);

	return (struct tally_cell){
		.place = {.comm = task->comm,
			  .task = task->task,
			  .tid = task->tid,
			  .cpu = task->cpu,
			  .dso = function->dso,
			  .symbol = function->symbol,
			  .address = function->address,
			  .details = task->details,
			  .level = (char)function->level,
			  .activity = (uint8_t)function->activity,
			  .filtered = function->filtered},
		.chain = parts->chain,
		.amount = tally->amounts[cell],
	};
}

uint32_t tally_chain(const struct tally *tally, uint32_t cell)
{
	const struct cell_part *parts = interned_at(&tally->cells, WORDS(*parts), cell);

	return parts->chain;
}

/* The numbers that parts of cells have in another tally, plus 1; 0: not known yet. */
struct selection {
	const struct tally *from;
	struct tally *to;
	const struct tally_change *change;
	uint32_t *tasks, *functions;
};

static int select_task(struct selection *selection, uint32_t number, uint32_t *ret)
{
	const struct tally_change *change = selection->change;
	struct task_part task;

	if (!selection->tasks[number]) {
		memcpy(&task, interned_at(&selection->from->tasks, WORDS(task), number), sizeof(task));
		if (change->details && task.details) {
			task.details = change->details(change->ctx, task.details);
			if (!task.details)
				return -ENOMEM;
		}
		if (interned_find(&selection->to->tasks, &task, WORDS(task), ret))
			return -ENOMEM;
		selection->tasks[number] = *ret + 1;
	}
	*ret = selection->tasks[number] - 1;
	return 0;
}

static int select_function(struct selection *selection, uint32_t number, uint32_t *ret)
{
	const uint32_t words = WORDS(struct function_part);

	if (!selection->functions[number]) {
		const void *function = interned_at(&selection->from->functions, words, number);
		if (interned_find(&selection->to->functions, function, words, ret))
			return -ENOMEM;
		selection->functions[number] = *ret + 1;
	}
	*ret = selection->functions[number] - 1;
	return 0;
}

static int select_cell(struct selection *selection, uint32_t number)
{
	const struct hist_amount *amount = &selection->from->amounts[number];
	const uint32_t *chains = selection->change->chains;
	struct cell_part cell;
	uint32_t to;

	memcpy(&cell, interned_at(&selection->from->cells, WORDS(cell), number), sizeof(cell));
	if (select_task(selection, cell.task, &cell.task) || select_function(selection, cell.function, &cell.function))
		return -ENOMEM;
	if (chains)
		cell.chain = chains[cell.chain];
	if (find_cell(selection->to, &cell, &to))
		return -ENOMEM;
	selection->to->amounts[to].period += amount->period;
	selection->to->amounts[to].nr_samples += amount->nr_samples;
	selection->to->amounts[to].latency += amount->latency;
	return 0;
}

int tally_select(const struct tally *tally, const struct tally_change *change, struct tally *ret)
{
	AUTO_FREE uint32_t *tasks = calloc(tally->tasks.nr + 1, sizeof(*tasks));
	AUTO_FREE uint32_t *functions = calloc(tally->functions.nr + 1, sizeof(*functions));
	struct selection selection = {tally, ret, change, tasks, functions};
	int err = tasks && functions ? 0 : -ENOMEM;

	*ret = (struct tally){0};
	for (uint32_t i = 0; i < tally->nr && !err; i++)
		if (!change->keep || change->keep[i])
			err = select_cell(&selection, i);
	if (err)
		tally_fini(ret);
	return err;
}

static size_t interned_bytes(const struct interned *interned, uint32_t words)
{
	return interned->room * words * sizeof(*interned->items) +
	       interned->numbers.nr_slots * sizeof(struct hash_slot);
}

size_t tally_bytes(const struct tally *tally)
{
	return interned_bytes(&tally->tasks, WORDS(struct task_part)) +
	       interned_bytes(&tally->functions, WORDS(struct function_part)) +
	       interned_bytes(&tally->cells, WORDS(struct cell_part)) + tally->room * sizeof(*tally->amounts);
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
		tally->amounts[i].period += share->amounts[i].period;
		tally->amounts[i].nr_samples += share->amounts[i].nr_samples;
	}
	tally_share_fini(share);
}
