/* SPDX-License-Identifier: MIT */
#include "cmd/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define FIRST_NS 1000000000ull /* what is quicker is not long */
#define EACH_NS 200000000ull

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_start(struct progress *progress, const char *what)
{
	bool wanted = log_level() >= LOG_NORMAL && isatty(STDERR_FILENO);

	*progress = (struct progress){.what = wanted ? what : NULL, .next_ns = now_ns() + FIRST_NS};
}

void progress_show(struct progress *progress)
{
	uint64_t now = now_ns();

	if (now < progress->next_ns)
		return;
	progress->next_ns = now + EACH_NS;
	progress->shown = true;
	fprintf(stderr, "\rmillrace: %s: %" PRIu64 " records", progress->what, progress->nr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
	progress->what = NULL;
}
