/* SPDX-License-Identifier: MIT */
/*
 * stage: looks at the records of one output on their way from the rings to the writer, or changes them: the build-id
 * collector, and whatever else comes between (pack_stage_add()). Draining does not wait for a stage: worker threads
 * call it, one at a time, with one batch after the other in the order of the output. Each ring's records come in their
 * order, those of different rings mixed up to the next FINISHED_ROUND. Order, memory, back-pressure and the end are the
 * pipeline's business.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define STAGE_NO_OFFSET UINT64_MAX

struct batch {
	uint8_t *records; /* 8-aligned; whole records */
	size_t len;       /* of them; may be changed, up to `room` */
	size_t room;
	const uint8_t *tail; /* plain records behind them, such as FINISHED_ROUND */
	size_t tail_len;
	uint64_t offset; /* in the file, of the first byte; STAGE_NO_OFFSET: what is written has another size */
};

struct stage;

struct stage_ops {
	const char *name;
	/* 0, or -errno, with which the output ends. Takes as long as it has to: what comes meanwhile waits in memory.
	 */
	int (*process)(struct stage *stage, struct batch *batch);
};

/* First member of a stage's own struct, whose owner outlives the output. */
struct stage {
	const struct stage_ops *ops;
	struct stage *next; /* behind it in the same output; set by pack_stage_add() */
};
