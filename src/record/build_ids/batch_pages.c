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

/* Asked first: samples in front of another record would be gone through in vain, and once more by others. */
static bool has_samples_alone(const struct batch *batch)
{
	struct perf_event_header header;

	for (size_t at = 0; at < batch->len; at += header.size) {
		memcpy(&header, batch->records + at, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < sizeof(header))
			return false;
	}
	return true;
}

/* Of one that is not as most are. */
static bool find_one(struct scan *scan, const uint8_t *record)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	return !scan_sample(scan, record, header.size, header.misc) && !scan->broken && scan->sample_ns;
}

static bool find(struct scan *scan, const struct batch *batch, struct sample_batch *ret)
{
	struct sample_batch run;

	for (; ret->bytes < batch->len; ret->bytes += run.bytes) {
		const uint8_t *records = batch->records + ret->bytes;
		scan_samples(scan, (struct span){records, batch->len - ret->bytes}, UINT64_MAX, NULL, &run);
		if (run.nr) {
			sample_totals_add(&scan->totals, run.nr, run.first_ns, run.last_ns);
		} else {
			if (!find_one(scan, records))
				return false;
			run = (struct sample_batch){.bytes = ((const struct perf_event_header *)records)->size};
		}
		ret->last = ret->bytes + run.last;
	}
	ret->nr = scan->totals.nr;
	ret->first_ns = scan->totals.first_ns;
	ret->last_ns = scan->totals.last_ns;
	return ret->nr > 0 && !scan_flush_chains(scan);
}

/* Of samples alone. */
static void find_pages(const struct scan *scan, struct batch *batch)
{
	struct sampled_page slots[NR_SLOTS] = {0};
	struct chain_blocks blocks = {0};
	uint32_t used[NR_SLOTS];
	struct scan ours = {
		.events = scan->events,
		.layouts = scan->layouts,
		.nr_layouts = scan->nr_layouts,
		.uniform = scan->uniform,
		.fixed = scan->fixed,
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

void batch_pages_find(const struct scan *scan, struct batch *batch)
{
	batch->examined = NULL;
	if (has_samples_alone(batch))
		find_pages(scan, batch);
}
