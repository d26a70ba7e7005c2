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

struct hist_entry {
	struct hist_place place; /* of the first sample */
	uint64_t period;         /* of the samples that were taken here */
	uint64_t nr_samples;
	uint64_t children_period; /* and of those below, each sample once */
	/* private: */
	uint64_t stamp;
	uint32_t hash;
};

struct hist;

int hist_new(const struct hist_options *options, struct hist **ret);
void hist_free(struct hist *hist); /* NULL is fine */

/* A sample was taken there. 0 or -ENOMEM. */
int hist_add(struct hist *hist, const struct hist_place *place, uint64_t period);

/* That place called where the sample of the last hist_add() was taken. Counts it once however often it is
 * told. */
int hist_add_caller(struct hist *hist, const struct hist_place *place, uint64_t period);

uint64_t hist_nr_samples(const struct hist *hist);
uint64_t hist_period(const struct hist *hist); /* sum of all, filtered or not */

/* All entries in order, by the names that tasks have now. Valid until something is added. 0 or -ENOMEM. */
int hist_sort(struct hist *hist, struct hist_entry *const **ret, size_t *ret_nr);

/* "comm", "dso", "sym" or "symbol", "pid" or "tid", "cpu". -EINVAL: another word. */
int hist_key_parse(const char *word, size_t len, enum hist_key *ret);
