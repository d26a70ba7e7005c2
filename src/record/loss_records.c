/* SPDX-License-Identifier: MIT */
#include "record/loss_records.h"

#include "record/described_events.h"
#include "record/eventset.h"
#include "record/synth.h"

int loss_records_add(const struct eventset *set, const struct described_events *described, const uint64_t lost[],
		     uint64_t told[], struct buf *out, uint64_t *total)
{
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		if (lost[i] <= told[i])
			continue;
		int err = synth_lost_samples(&described->descs[set->plan->slots[i].event].attr, set->ids[i],
					     lost[i] - told[i], out);
		if (err)
			return err;
		*total += lost[i] - told[i];
		told[i] = lost[i];
	}
	return 0;
}
