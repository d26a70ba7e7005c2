/* SPDX-License-Identifier: MIT */
/* progress: how far long work has come, on standard error when that is a terminal. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what; /* borrowed; NULL: nothing is shown */
	uint64_t nr, next_ns;
	bool shown;
};

/* Shows nothing unless standard error is a terminal and notes are wanted; "what: 12345678 records". */
void progress_start(struct progress *progress, const char *what);

void progress_show(struct progress *progress);

/* After `nr` more records. */
static inline void progress_step(struct progress *progress, uint64_t nr)
{
	enum { STEP = 1 << 14 };
	uint64_t before = progress->nr;

	progress->nr += nr;
	if (progress->nr / STEP != before / STEP && progress->what)
		progress_show(progress);
}

/* Takes away what was shown; before anything else is printed, and more than once if need be. */
void progress_end(struct progress *progress);
