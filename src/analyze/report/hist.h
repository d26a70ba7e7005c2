/* SPDX-License-Identifier: MIT */
/*
 * hist: a table of the samples of one event: those with equal keys are counted in one entry (row). One owner, one
 * thread.
 *
 * What makes two samples fall into one entry, and the order of the entries, are perf 6.1's rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "analyze/machine/use_list.h"
#include "analyze/report/hist_details.h"

struct hist_options {
	enum hist_column keys[HIST_KEYS]; /* samples with equal keys are one entry; each key at most once */
	unsigned nr_keys;
	/* Entries are sorted by these columns, numbers descending; nr_order 0: by children, self, then the keys. */
	enum hist_column order[HIST_COLUMNS];
	unsigned nr_order;
	bool activities; /* periods are times, and HIST_ON_CPU and so on are counted */
	/* an entry also counts samples in what it called; without that HIST_CHILDREN is no valid order */
	bool children;
	/*
	 * Order of entries of one task that are equal otherwise: those with the longest chains first (1) or last (-1);
	 * 0: the length does not count.
	 */
	int by_depth;
	/* of a group: the member whose numbers are compared first; 0: the leader, 1: the first member… */
	unsigned sort_member;
	/* Samples that are filtered have entries of their own: the filter is not by keys. */
	bool splits_filtered;
	bool any_ties; /* rows with equal numbers may be in another order than perf's, which is faster */
};

/* What a task did in the time that a period is, where periods are times on and off the CPU. */
enum hist_activity { ACTIVITY_ON_CPU, ACTIVITY_BLOCKED, ACTIVITY_RUNNABLE, ACTIVITY_UNKNOWN, ACTIVITIES };

/* The keys of an entry: what its samples have in common. Strings and pointers live as long as the machine. */
struct hist_place {
	const struct comm *comm; /* may get its text later */
	const struct task *task;
	uint32_t tid;
	int32_t cpu;
	struct dso *dso;             /* NULL: unknown */
	const struct symbol *symbol; /* NULL: unknown; then the address tells places apart */
	uint64_t address;
	const struct hist_details *details; /* NULL: no key asks for any */
	char level;                         /* as in struct location; not compared */
	uint8_t activity;                   /* enum hist_activity; not compared either */
	bool filtered;                      /* counted, but not to be shown; of an entry: of its first sample */
};

/* Samples of one place. */
struct hist_amount {
	uint64_t period, nr_samples;
	uint64_t latency; /* the part of the period that counts as elapsed time (parallelism.h); 0: not counted */
};

/* Parts of a sample may have been rounded to none, and not those of its period, or the other way round. */
static inline bool amount_is_used(const struct hist_amount *amount)
{
	return amount->nr_samples || amount->period;
}

struct hist_entry {
	struct hist_place place; /* of the first sample */
	uint64_t period;         /* of the samples that were taken here */
	uint64_t nr_samples, latency;
	uint64_t *level_periods;    /* of `period`, by HIST_SELF_KERNEL and so on; NULL: all 0 */
	uint64_t children_period;   /* of these and of the samples in what it called, each once */
	uint64_t *activity_periods; /* of that, by enum hist_activity; NULL: hist_options.activities was not set */
	struct use_list uses;       /* see hist_note_use() */
	uint32_t depth;             /* number of frames of its longest chain */
	/* Of the leader of a group, see hist_link(): those of its members, NULL: that member has none there. */
	struct hist_entry **members;
	/* private: */
	uint64_t stamp;
};

struct hist;

int hist_new(const struct hist_options *options, struct hist **ret);
void hist_free(struct hist *hist); /* NULL is fine */

/*
 * Counts samples in the entry of that place. The names of their tasks must be final. *ret lives as long as the hist. 0
 * or -ENOMEM.
 */
int hist_add(struct hist *hist, const struct hist_place *place, const struct hist_amount *amount,
	     struct hist_entry **ret);

/*
 * Counts the samples of the last hist_add() as children of `place`, a caller. *entry: the entry of that place, or NULL:
 * it is looked up and set. 1; 0: these samples were counted there before; -ENOMEM.
 */
int hist_add_caller(struct hist *hist, const struct hist_place *place, uint64_t period, struct hist_entry **entry);

/*
 * Stores which cell uses the entry, to be called in the order of the cells. depth: number of frames of the chain from
 * the entry on. 0 or -ENOMEM.
 */
int hist_note_use(struct hist *hist, struct hist_entry *entry, const struct use *use, uint32_t depth);

/*
 * Links the entries of the members of a group to the leader's entries of the same places; the leader gets empty entries
 * for places that it does not have. Afterwards only the leader is sorted. 0 or -ENOMEM.
 */
int hist_link(struct hist *leader, struct hist *const members[], unsigned nr_members);

/*
 * Makes a hist that counts the same samples by only some of the keys: each of its entries is the sum of several
 * entries, also for the members of a group. To be called before hist_sort(); *ret must be freed before `hist`. 0 or
 * -ENOMEM.
 */
int hist_new_sums(const struct hist *hist, const enum hist_column keys[], unsigned nr_keys, struct hist **ret);

/* The entry of that place; NULL: there is none. */
struct hist_entry *hist_entry_of(struct hist *hist, const struct hist_place *place);

uint64_t hist_nr_samples(const struct hist *hist);
uint64_t hist_period(const struct hist *hist); /* sum of all, filtered or not; likewise: */
uint64_t hist_latency(const struct hist *hist);

/* Sorts all entries; to be called once, after all were added. *ret is valid until hist_free(). 0 or -ENOMEM. */
int hist_sort(struct hist *hist, struct hist_entry *const **ret, size_t *ret_nr);

/* The number of that column, HIST_KEYS <= column < HIST_COLUMNS. */
uint64_t hist_number(const struct hist_entry *entry, enum hist_column column);

/* Is the key among those that tell entries apart? */
bool hist_has_key(const struct hist_options *options, enum hist_column key);
