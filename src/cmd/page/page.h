/* SPDX-License-Identifier: MIT */
/*
 * page: recordings as one page of HTML without other files: a flame graph, a timeline of the samples, and what a report
 * adds to them. The page holds the call chains as one tree of names, with the samples of each event and thread in
 * each interval of time, so that it can count again what a viewer selects. One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/page/page_times.h"
#include "cmd/page/page_tree.h"
#include "cmd/page/page_waits.h"

struct diag;
struct ledger_entry;

/* What a page shows of one recording beside the tree. */
struct page_file {
	const char *name;
	const struct page_times *times;
	const struct page_waits *waits;  /* those in the stretches of the tree; NULL: none */
	const struct ledger_entry *gaps; /* where data was lost */
	size_t nr_gaps;
	uint64_t lost; /* samples */
};

/* What the samples of an event are about: code on the CPUs, or times of tasks off the CPU, in nanoseconds. */
enum page_role { PAGE_OTHER, PAGE_ON_CPU, PAGE_OFF_CPU };

/* The samples of one event of one file. */
struct page_series {
	const char *name;
	uint32_t file;
	int32_t baseline;    /* the series it is compared with; -1: none */
	enum page_role role; /* in a file at most one each of PAGE_ON_CPU and PAGE_OFF_CPU */
	double unit_ns;      /* of PAGE_ON_CPU: a period of 1 stands for so much time on the CPU */
};

/* A part of the page that is text, or made by the caller. */
struct page_text {
	const char *title, *text;
};

struct page {
	const char *title;
	const struct page_tree *tree;
	const struct page_series *series;
	uint32_t nr_series;
	const struct page_file *files;
	uint32_t nr_files;
	const char *table; /* JSON, as of report --json; NULL: none */
	const struct page_text *texts;
	size_t nr_texts;
};

/* 0 or -ENOMEM. Errors of `to` are left to the caller (ferror). */
int page_print(const struct page *page, FILE *to);

/*
 * Prints into a new file of mode 0600 that replaces what has its name when it is complete; "-": standard output. 0, or
 * -errno and why.
 */
int page_write(const struct page *page, const char *path, struct diag *reterr);
