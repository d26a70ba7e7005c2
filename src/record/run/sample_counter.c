/* SPDX-License-Identifier: MIT */
#include "record/run/sample_counter.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

struct counting_stage {
	struct stage stage;
	struct sample_counter *counter;
};

static int process(struct stage *stage, struct batch *batch)
{
	struct sample_counter *counter = ((struct counting_stage *)stage)->counter;
	struct perf_event_header header;
	uint64_t nr = 0;

	for (size_t at = 0; batch->len - at >= sizeof(header); at += header.size) {
		memcpy(&header, batch->records + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > batch->len - at)
			break;
		nr += header.type == PERF_RECORD_SAMPLE;
	}
	atomic_fetch_add_explicit(&counter->nr, nr, memory_order_relaxed);
	return stage_pass(stage, batch);
}

static void free_stage(struct stage *stage)
{
	free(stage);
}

int sample_counter_make(struct stage_maker *maker, const struct stage_output *output, struct stage **ret)
{
	static const struct stage_ops ops = {.name = "sample-counter", .process = process, .free = free_stage};
	struct counting_stage *counting = calloc(1, sizeof(*counting));

	(void)output;
	if (!counting)
		return -ENOMEM;
	counting->stage.ops = &ops;
	counting->counter = (struct sample_counter *)maker;
	*ret = &counting->stage;
	return 0;
}
