/* SPDX-License-Identifier: MIT */
/*
 * hist: the samples of one event, counted by what they have in common. One owner, one thread.
 *
 * What makes two samples fall into one entry, and the order of the entries, are perf 6.1's rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/machine.h"

enum hist_key { HIST_COMM, HIST_DSO, HIST_SYM, HIST_TID, HIST_CPU, HIST_KEYS };

struct hist_options {
	enum hist_key keys[HIST_KEYS]; /* in the order of sorting; each at most once */
	unsigned nr_keys;
	bool children; /* order by what an entry and all it called took, not by what it took itself */
	/* Of equal ones of a task, those with the longest chains noted first (1) or last (-1); 0: whatever their length. */
	int by_depth;
};

/* What an entry is about. Strings and pointers live as long as the machine. */
struct hist_place {
	const struct comm *comm; /* may get its text later */
	const struct task *task;
	uint32_t tid;
	int32_t cpu;
	struct dso *dso;             /* NULL: unknown */
	const struct symbol *symbol; /* NULL: unknown; then the address tells places apart */
	uint64_t address;
	char level;    /* as in struct location; not compared */
	bool filtered; /* counted, but not to be shown; depends on nothing but the keys and the above */
};

/* Samples of one place. */
struct hist_amount {
	uint64_t period, nr_samples;
};

/* Where an entry occurs: a chain of a cell of the tally, without its first `skip` frames. */
struct hist_use {
	struct hist_use *next;
	uint32_t cell, skip;
};

struct hist_entry {
	struct hist_place place; /* of the first sample */
	uint64_t period;         /* of the samples that were taken here */
	uint64_t nr_samples;
	uint64_t children_period;     /* and of those below, each sample once */
	struct hist_use *uses, *last; /* see hist_note_use() */
	uint32_t depth;               /* frames of the longest */
	/* private: */
	uint64_t stamp;
	uint32_t hash;
};

struct hist;

int hist_new(const struct hist_options *options, struct hist **ret);
void hist_free(struct hist *hist); /* NULL is fine */

/* Samples were taken there, by tasks whose names are what they will be. *ret lives as long as the hist. 0 or -ENOMEM. */
int hist_add(struct hist *hist, const struct hist_place *place, const struct hist_amount *amount,
	     struct hist_entry **ret);

/*
 * That place called where the samples of the last hist_add() were taken. 1; 0 and nothing is counted when it was told
 * of them before; -ENOMEM.
 */
int hist_add_caller(struct hist *hist, const struct hist_place *place, uint64_t period, struct hist_entry **ret);

/* Remembers a use of an entry, behind those it has; depth: the frames that are left. 0 or -ENOMEM. */
int hist_note_use(struct hist *hist, struct hist_entry *entry, const struct hist_use *use, uint32_t depth);

uint64_t hist_nr_samples(const struct hist *hist);
uint64_t hist_period(const struct hist *hist); /* sum of all, filtered or not */

/* All entries in order; once, after all was added. Valid until hist_free(). 0 or -ENOMEM. */
int hist_sort(struct hist *hist, struct hist_entry *const **ret, size_t *ret_nr);

/* "comm", "dso", "sym" or "symbol", "pid" or "tid", "cpu". -EINVAL: another word. */
int hist_key_parse(const char *word, size_t len, enum hist_key *ret);
