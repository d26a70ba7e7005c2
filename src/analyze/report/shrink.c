/* SPDX-License-Identifier: MIT */
#include "analyze/report/shrink.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "analyze/machine/machine.h"
#include "analyze/machine/stacks.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "tasks/tasks.h"

/* The cells of an event that stay. */
struct selection {
	bool *keep; /* heap */
	struct tally tally;
};

struct selections {
	struct selection *events; /* heap */
	size_t nr;
};

static void selections_fini(struct selections *selections)
{
	for (size_t i = 0; i < selections->nr; i++) {
		free(selections->events[i].keep);
		tally_fini(&selections->events[i].tally);
	}
	free(selections->events);
}

/* Marks the cells that are used, here or in what is shown, and their chains. 0 or -ENOMEM. */
static int select_cells(const struct tally *tally, const struct tally *shown, struct selection *ret, bool used[])
{
	ret->keep = calloc((size_t)tally->nr + 1, sizeof(*ret->keep));
	if (!ret->keep)
		return -ENOMEM;
	for (uint32_t i = 0; i < tally->nr; i++) {
		ret->keep[i] =
			amount_is_used(&tally->amounts[i]) || (i < shown->nr && amount_is_used(&shown->amounts[i]));
		if (ret->keep[i])
			used[tally_cell(tally, i).chain] = true;
	}
	return 0;
}

static bool is_used(const void *ctx, const struct task *task)
{
	const struct hash_table *used = ctx;

	return hash_table_find(used, (uintptr_t)task) != NULL;
}

/* The tasks that what is left is about. 0 or -ENOMEM. */
static int forget_tasks(const struct shrink *shrink)
{
	struct hash_table used = {0};
	int err = 0;

	for (size_t event = 0; event < shrink->nr; event++) {
		const struct tally *tally = shrink->tallies[event];
		for (uint32_t i = 0; i < tally->nr && !err; i++) {
			uintptr_t task = (uintptr_t)tally_cell(tally, i).place.task;
			if (!hash_table_find(&used, task))
				err = hash_table_add_number(&used, task, 1);
		}
	}
	if (!err)
		err = machine_forget_ended(shrink->machine, is_used, &used);
	hash_table_fini(&used);
	return err;
}

static void apply(const struct shrink *shrink, struct selections *selections)
{
	for (size_t i = 0; i < shrink->nr; i++) {
		struct selection *selection = &selections->events[i];
		struct tally *shown = shrink->shown[i];
		uint32_t nr = 0;
		for (uint32_t cell = 0; cell < shown->nr; cell++)
			if (selection->keep[cell])
				shown->amounts[nr++] = shown->amounts[cell];
		shown->nr = nr;
		tally_fini(shrink->tallies[i]);
		*shrink->tallies[i] = selection->tally;
		selection->tally = (struct tally){0};
	}
}

int shrink_tallies(const struct shrink *shrink)
{
	__attribute__((cleanup(selections_fini))) struct selections selections = {
		.events = calloc(shrink->nr + 1, sizeof(*selections.events))};
	AUTO_FREE bool *used = calloc(stacks_end_chain(shrink->stacks), sizeof(*used));
	struct stacks_choice choice = {0};
	int err = selections.events && used ? 0 : -ENOMEM;

	selections.nr = selections.events ? shrink->nr : 0;
	for (size_t i = 0; i < shrink->nr && !err; i++)
		err = select_cells(shrink->tallies[i], shrink->shown[i], &selections.events[i], used);
	if (!err)
		err = stacks_choose(shrink->stacks, used, &choice);
	for (size_t i = 0; i < shrink->nr && !err; i++) {
		const struct tally_change change = {.keep = selections.events[i].keep, .chains = choice.numbers};
		err = tally_select(shrink->tallies[i], &change, &selections.events[i].tally);
	}
	if (!err) {
		apply(shrink, &selections);
		stacks_keep(shrink->stacks, &choice);
		err = forget_tasks(shrink);
	}
	stacks_choice_fini(&choice);
	return err;
}
