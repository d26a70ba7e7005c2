/* SPDX-License-Identifier: MIT */
/* flame_page: a flame graph and a timeline as one page of HTML that needs nothing else. */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct event_desc;
struct flame_tree;
struct ledger_entry;
struct timeline;

struct flame_page {
	const char *title;
	const struct flame_tree *tree;
	const struct event_desc *events;
	size_t nr_events;
	const struct timeline *timeline; /* settled */
	unsigned nr_bins;
	const struct ledger_entry *gaps; /* where data was lost */
	size_t nr_gaps;
	uint64_t lost; /* samples */
};

/* Errors of `to` are left to the caller (ferror). */
void flame_page_print(const struct flame_page *page, FILE *to);
