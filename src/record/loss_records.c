/* SPDX-License-Identifier: MIT */
#include "record/loss_records.h"

#include "record/described_events.h"
#include "record/eventset.h"
#include "record/synth.h"

int loss_records_add(const struct eventset *set, const struct described_events *described, uint64_t told[],
		     struct buf *out, uint64_t *total)
{
	for (size_t i = 0; i < set->plan->nr_slots; i++) {
		uint64_t lost = eventset_lost(set, i);
		if (lost <= told[i])
			continue;
		int err = synth_lost_samples(&described->descs[set->plan->slots[i].event].attr, set->ids[i],
					     lost - told[i], out);
		if (err)
			return err;
		*total += lost - told[i];
		told[i] = lost;
	}
	return 0;
}
