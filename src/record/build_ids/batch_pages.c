/* SPDX-License-Identifier: MIT */
#include "record/build_ids/batch_pages.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>

#include "record/build_ids/chain_blocks.h"
#include "stream/stage.h"

enum {
	NR_SLOTS = 512,                /* a power of two; */
	MOST_PAGES = NR_SLOTS / 2 - 2, /* so that the set never grows */
};

/* All records, if they are samples. */
static bool find(struct scan *scan, const struct batch *batch, struct sample_batch *ret)
{
	struct perf_event_header header;
	size_t at;

	for (at = 0; at < batch->len; at += header.size) {
		memcpy(&header, batch->records + at, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE ||
		    scan_sample(scan, batch->records + at, header.size, header.misc) || scan->broken ||
		    !scan->sample_ns)
			return false;
		ret->last = at;
	}
	if (scan_flush_chains(scan))
		return false;
	ret->nr = scan->totals.nr;
	ret->bytes = at;
	ret->first_ns = scan->totals.first_ns;
	ret->last_ns = scan->totals.last_ns;
	return ret->nr > 0;
}

void batch_pages_find(const struct scan *scan, struct batch *batch)
{
	struct sampled_page slots[NR_SLOTS] = {0};
	struct chain_blocks blocks = {0};
	uint32_t used[NR_SLOTS];
	struct scan ours = {
		.events = scan->events,
		.layouts = scan->layouts,
		.nr_layouts = scan->nr_layouts,
		.uniform = scan->uniform,
		.ids = scan->ids,
		.nr_ids = scan->nr_ids,
		.id_offset = scan->id_offset,
		.id_distance = scan->id_distance,
		.blocks = scan->blocks ? &blocks : NULL,
		.pages = {.slots = slots, .mask = NR_SLOTS - 1, .used = used, .most = MOST_PAGES},
		.while_recording = true,
	};
	struct sample_batch samples = {0};
	const size_t at = (batch->len + 7) & ~(size_t)7;

	batch->examined = NULL;
	if (!find(&ours, batch, &samples))
		return;
	struct batch_pages *found = (struct batch_pages *)(batch->records + at);
	if (at + sizeof(*found) + ours.pages.nr * sizeof(found->list[0]) > batch->room)
		return;
	found->samples = samples;
	found->nr = ours.pages.nr;
	for (size_t i = 0; i < found->nr; i++)
		found->list[i] = slots[used[i]];
	batch->examined = found;
}
