/* SPDX-License-Identifier: MIT */
#include "record/coverage.h"

#include "base/cleanup.h"
#include "format/loss_times.h"

/* The ring, and as much again as came while it was full, in the next power of two. */
static size_t enough_bytes(const struct coverage_params *params, uint64_t lost)
{
	enum { LIKELY_RECORD = 128 };
	uint64_t record = params->nr_samples ? params->drained_bytes / params->nr_samples + 1 : LIKELY_RECORD;
	uint64_t need = params->ring_bytes + lost * record;
	size_t bytes = params->ring_bytes ? params->ring_bytes : 1;

	while (bytes < need && bytes < (size_t)1 << 40)
		bytes *= 2;
	return bytes;
}

static bool was_fed(const struct loss_times *losses)
{
	return losses && losses->nr_places && losses->last_ns;
}

static int sum_exactly(struct ledger *ledger, struct loss_times *losses, struct ledger_sum *ret)
{
	AUTO_FREE struct ledger_entry *gaps = NULL;
	size_t nr_gaps;
	int err = ledger_join(ledger, losses->gaps, losses->nr_gaps, &gaps, &nr_gaps);

	return err ? err : ledger_sum(gaps, nr_gaps, ret);
}

int coverage_make(const struct coverage_params *params, struct coverage *ret)
{
	struct ledger *ledger = params->ledger;
	struct coverage coverage = {.exact = was_fed(params->losses), .nr_places = params->nr_places};
	int err = coverage.exact ? sum_exactly(ledger, params->losses, &coverage.sum)
				 : ledger_sum(ledger->entries, ledger->nr_entries, &coverage.sum);

	if (err)
		return err;
	if (coverage.exact)
		coverage.nr_places = params->losses->nr_places;
	if (ledger->ended_ns > ledger->started_ns)
		coverage.elapsed_ns = ledger->ended_ns - ledger->started_ns;
	else if (coverage.exact)
		coverage.elapsed_ns = params->losses->last_ns - params->losses->first_ns;
	if (coverage.sum.worst.cause == LEDGER_RING_FULL)
		coverage.enough_bytes = enough_bytes(params, coverage.sum.worst.count);
	*ret = coverage;
	return 0;
}

double coverage_percent(const struct coverage *coverage)
{
	double all_ns = (double)coverage->elapsed_ns * (double)coverage->nr_places;
	double percent = all_ns > 0 ? 100.0 * (1.0 - (double)coverage->sum.gap_ns / all_ns) : 100.0;

	return percent < 0 ? 0 : percent;
}
