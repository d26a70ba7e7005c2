/* SPDX-License-Identifier: MIT */
/*
 * stage: what looks at the records of an output on their way from the rings to the writer, or changes them. Draining
 * never waits for a stage: the drain copies ring bytes into batches of pool memory, and worker threads call the stages.
 *
 * One stage instance belongs to one output (a file, a pipe, one data file of a directory). It is called by one thread
 * at a time, not always by the same, with one batch after the other in the order in which they were filled. What
 * instances share (struct stage_maker is the place for it) they lock themselves. Stages may take as long as they have
 * to: what comes in that time waits in the pool. When the pool is full the rings fill, and the kernel counts what it
 * drops.
 *
 * Batches are whole records. Each ring's records come in their order; those of different rings are mixed.
 *
 * What a stage does with a batch: it passes it on (stage_pass()), changed or not, at once or later, or it frees it
 * (stage_batch_free()). Until then the batch is the stage's own; it counts against the pool's bound. The order in which
 * batches are passed on is the order of the file, marks of rounds (FINISHED_ROUND, in `tail`) included: a
 * stage that keeps a batch keeps all that come behind it, so that no mark overtakes the records that it is about.
 * Records are changed in place, or written into a new batch (stage_batch_new()), of which the old one's tail is part.
 *
 * When is everything known that happened before a sample? Batches and flushes carry two times (CLOCK_MONOTONIC):
 * batch->read_ns is not before the time of any of its records; and all records of this output's rings that the kernel
 * had written before stage->complete_ns have come to process(). So a sample of a batch can be resolved when *each*
 * output of the recording (with --threads into a directory there is one for each ring, and task events lie in other
 * outputs than samples) has a complete_ns >= the batch's read_ns; at STAGE_END all outputs have. complete_ns grows with
 * rounds where there are marks, and with each commit; flush() is called then, once for all batches that have come. The
 * state before the first batch: initial_state().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define STAGE_NO_OFFSET UINT64_MAX

enum { BATCH_TAIL_BYTES = 56 };

struct batch {
	uint8_t *records; /* 8-aligned; whole records */
	size_t len;       /* of them, in bytes; may be changed, up to `room` */
	size_t room;      /* bytes; the same for all batches of a recording; at least 64 KiB */
	uint8_t *tail;    /* plain records behind them, never compressed: FINISHED_ROUND */
	size_t tail_len;  /* up to BATCH_TAIL_BYTES */
	uint64_t offset;  /* in the file, of the first byte, for the last stage; STAGE_NO_OFFSET: it is compressed */
	uint64_t read_ns; /* CLOCK_MONOTONIC: they were copied out of their rings before that */
	uint64_t complete_ns; /* what stage->complete_ns becomes when the stage has got this batch */
	void *examined;       /* what examine() found, in the memory behind `len`; NULL: nothing */
	struct batch *next;   /* for the stage that has the batch; NULL when it comes */
};

/* Why what a stage keeps has to be passed on. */
enum stage_flush {
	STAGE_ROUND,  /* stage->complete_ns has grown, by a round or otherwise: what is resolved now can go */
	STAGE_COMMIT, /* at least each 400 ms: what came before the last one must go, for it is lost with a kill */
	STAGE_MEMORY, /* the pool runs short, and this stage has some of it: everything must go, resolved or not */
	STAGE_END,    /* the output ends, at a switch or with the recording: everything must go, the last call */
};

struct ledger;
struct stage;

struct stage_ops {
	const char *name;
	/*
	 * NULL: not wanted. What can be found out of a batch in any order and beside other batches, before process()
	 * gets it in its turn: several threads at once, which change nothing but batch->examined and what it points to.
	 */
	void (*examine)(const struct stage *stage, struct batch *batch);
	/*
	 * Takes over the batch. 0 or -errno, with which the output ends; the batch must be passed on or freed then,
	 * too.
	 */
	int (*process)(struct stage *stage, struct batch *batch);
	/* NULL: it keeps nothing. 0 or -errno, as above. With STAGE_END also after an error. */
	int (*flush)(struct stage *stage, enum stage_flush why);
	void (*free)(struct stage *stage); /* after the output was closed and finished */
};

/* First member of a stage's own struct. */
struct stage {
	const struct stage_ops *ops; /* set by the maker; the rest by the pipeline */
	struct stage *next;          /* behind it in the same output */
	struct pipeline *output;
	uint64_t complete_ns; /* CLOCK_MONOTONIC: see above; 0: not yet */
};

/* The output that a stage is made for. */
struct stage_output {
	size_t index, nr; /* of the outputs that are open at once: in a directory the ring's, else 0 of 1 */
	bool regular;     /* a file that can be read back; else a pipe or a device */
};

/*
 * One feature that puts stages in place: first member of its own struct, which may hold what its stages share. A
 * recording has a list of them (recording.c, choose_stages()), in the order of the stages; each output, also those that
 * come by a switch, gets a stage of each.
 */
struct stage_maker {
	/* *ret NULL: this output needs none. 0 or -errno. By the thread that opens the output. */
	int (*make)(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
	/*
	 * NULL: not wanted. Records that describe all tasks and maps as they were when the first output began (COMM,
	 * MMAP2, ... as synthesised), once, before the first batch; later outputs begin with what the batches told.
	 * Borrowed for the call. Not called with --tail-synthesize. 0 or -errno.
	 */
	int (*initial_state)(struct stage_maker *maker, struct span records);
	/*
	 * NULL: not wanted. When all stages of an output have ended: adds to its ledger what they counted since the
	 * last call. By the thread that finishes the output. 0 or -errno.
	 */
	int (*account)(struct stage_maker *maker, struct ledger *ledger);
	/* Set by the pipeline: */
	struct stage_maker *next;
	bool knows_state;
};

/* Behind those that are there; borrowed. */
void stage_makers_add(struct stage_maker **first, struct stage_maker *maker);
/* Calls initial_state() of the makers that have it, once for each. 0 or -errno. */
int stage_makers_initial_state(struct stage_maker *first, struct span records);

/*
 * For stages, in process() and flush().
 */

/* The batch is as it will be passed on: the next stage's examine(), where it has one. Any thread, but not process(). */
static inline void stage_examine(const struct stage *stage, struct batch *batch)
{
	batch->examined = NULL;
	if (stage->next && stage->next->ops->examine)
		stage->next->ops->examine(stage->next, batch);
}

/*
 * To the next stage, or on to be compressed and written. The batch is no longer the caller's. 0, or an error to return.
 */
int stage_pass(struct stage *stage, struct batch *batch);

/* An empty batch out of the pool; NULL: none is free, and waiting would not help: pass on or free some. */
struct batch *stage_batch_new(struct stage *stage);
void stage_batch_free(struct stage *stage, struct batch *batch);

/*
 * So many samples that came in batches are not passed on, nor any other in their place: they count as lost, with the
 * reason, in the summary and in the ledger. `reason`: a static string, such as "unwinding: no memory". At most
 * POOL_DROP_REASONS different ones in a recording are told apart.
 */
void stage_count_dropped(struct stage *stage, const char *reason, uint64_t nr_samples);
