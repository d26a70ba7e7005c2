/* SPDX-License-Identifier: MIT */
/* report_page: writes recordings that report_samples has counted as a page of HTML. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/page/page.h"

struct diag;
struct loss_data;
struct machine;
struct samples;
struct samples_place;
struct session;
struct session_record;
struct wall;

/* When the samples of a recording were, and the times off the CPU. Zeroed; report_page_times_fini(). */
struct report_page_times {
	struct page_times samples;
	struct page_waits waits;
	/* private: */
	struct wall *wall; /* NULL: not both on and off the CPU were recorded */
	bool started;
	uint64_t on_cpu_ns, on_cpu_periods;
};

/* A sample that was counted at `place`. 0 or -ENOMEM. */
int report_page_times_add(struct report_page_times *times, const struct samples *samples,
			  const struct session_record *record, const struct samples_place *place);
void report_page_times_fini(struct report_page_times *times);

/* A recording that was read to its end, and the times of its samples. All is borrowed. */
struct report_page_input {
	const char *name;
	struct session *session;
	const struct samples *samples;
	const struct report_page_times *times;
	const struct loss_data *lost;
	uint64_t lost_samples;
};

struct report_page_options {
	const char *title, *output; /* output: as of page_write() */
	enum page_base base;
	struct page_limits limits; /* 0: the default */
	const char *table;         /* JSON; NULL: none */
	const struct page_text *texts;
	size_t nr_texts;
};

/* Two inputs are compared, the first one being the baseline. 0, or -errno and why. */
int report_page_write(const struct report_page_input inputs[], unsigned nr, const struct report_page_options *options,
		      struct diag *reterr);

/* Setter of --base. */
struct option;
int report_page_set_base(const struct option *option, const char *arg, bool negated, void *page_base,
			 struct diag *reterr);
