/* SPDX-License-Identifier: MIT */
/*
 * stage: looks at the records of an output on their way from the rings to the writer, or changes them. Draining never
 * waits for a stage: who drains copies ring bytes into batches of pool memory, and worker threads call the stages.
 *
 * A stage instance belongs to one output (a file, a pipe, one data file of a directory). It is called by one thread at
 * a time, not always the same one, with the batches in the order in which they were filled. State that instances share
 * is kept in the maker's own struct, with a lock of its own. A stage may take as long as it needs: records wait in the
 * pool. When the pool is full the rings fill, and the kernel counts what it drops.
 *
 * A batch holds whole records: those of one ring in its order, those of different rings mixed. A stage passes each
 * batch on (stage_pass()), changed or not, at once or later, or frees it (stage_batch_free()). Until then it owns the
 * batch, which counts against the pool's limit. Batches get into the file in the order in which they are passed on,
 * with the round marks in `tail` (FINISHED_ROUND). So a stage that keeps a batch must also keep all later ones: else a
 * mark would overtake records of its round. Records are changed in place, or written into a new batch
 * (stage_batch_new()), which must also get the tail of the old one.
 *
 * How a stage knows that all before a sample has come: no record of a batch is newer than batch->read_ns, and
 * all records that the kernel wrote into this output's rings before stage->complete_ns were given to process() (both:
 * CLOCK_MONOTONIC). So the samples of a batch can be resolved as soon as *each* output of the recording has a
 * complete_ns >= the batch's read_ns (with --threads into a directory each ring has an output, and task events come in
 * other outputs than samples), or STAGE_END. complete_ns grows at round marks and at commits; then flush() is called,
 * once for all batches that have come. The state before the first batch: initial_state().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define STAGE_NO_OFFSET UINT64_MAX

enum { BATCH_TAIL_BYTES = 56 };

struct batch {
	uint8_t *records;     /* 8-aligned; whole records */
	size_t len;           /* bytes of records; a stage may change it, up to `room` */
	size_t room;          /* capacity in bytes; at least 64 KiB, the same for all batches of a recording */
	uint8_t *tail;        /* records behind them that are never compressed: FINISHED_ROUND */
	size_t tail_len;      /* up to BATCH_TAIL_BYTES */
	uint64_t offset;      /* for the last stage: of records in the file; STAGE_NO_OFFSET: they will be compressed */
	uint64_t read_ns;     /* CLOCK_MONOTONIC: the records were copied out of their rings before this time */
	uint64_t complete_ns; /* the value of stage->complete_ns from this batch on */
	void *examined;       /* result of examine(), in the memory behind `len`; NULL: none */
	struct batch *next;   /* free for use by the stage that owns the batch; NULL when the batch comes */
};

/* Why flush() is called, and which of the batches that a stage keeps it must pass on. */
enum stage_flush {
	STAGE_ROUND, /* stage->complete_ns has grown: batches that can be resolved now should be passed on */
	/* at least every 400 ms: batches that came before the last one must go, as SIGKILL would lose them */
	STAGE_COMMIT,
	STAGE_MEMORY, /* the pool runs short of memory, or the output failed: all batches must go, resolved or not */
	STAGE_END,    /* the output ends, at a switch or at the end of the recording: all batches must go; last call */
};

struct extent_info;
struct extent_stats;
struct extent_tally;
struct ledger;
struct stage;

struct stage_look {
	struct extent_tally *tally; /* counts them; NULL: they will not be compressed: */
	uint64_t offset;            /* then: of the first one in the file */
	size_t most;                /* then: those that begin in so many bytes are enough, but at least one */
};

struct stage_ops {
	const char *name;
	/* NULL: not wanted. Before process(), for several batches in parallel. Sets only batch->examined. */
	void (*examine)(const struct stage *stage, struct batch *batch);
	/*
	 * NULL: not wanted. In place of process(), in order with it, for records in their ring, and marks, by the
	 * thread that drains: neither waits nor allocates. One record may lie in two spans. Returns the bytes of those
	 * that it has seen: all, or without `tally` the first. 0: they, and all later ones, are given to process().
	 */
	size_t (*look)(struct stage *stage, const struct span spans[], unsigned nr_spans, const struct stage_look *how);
	/* Owns the batch: passes it on or frees it, also after an error. 0, or -errno, with which the output ends. */
	int (*process)(struct stage *stage, struct batch *batch);
	/* NULL: the stage never keeps a batch. 0 or -errno, as above. STAGE_MEMORY, STAGE_END: also after an error. */
	int (*flush)(struct stage *stage, enum stage_flush why);
	bool keeps_until_commit; /* what it keeps waits for no other records: passes before a commit are in vain */
	void (*free)(struct stage *stage); /* after the output was closed and finished */
};

struct stage {                       /* first member of a stage's own struct */
	const struct stage_ops *ops; /* set by the maker; the other fields are set by the pipeline */
	struct stage *next;          /* the stage behind it in the same output */
	struct pipeline *output;
	uint64_t complete_ns; /* CLOCK_MONOTONIC: see above; 0: not yet */
};

struct stage_output {     /* that a stage is made for */
	size_t index, nr; /* of the outputs that are open at once: in a directory the number of the ring, else 0 of 1 */
	bool regular;     /* it is a file that can be read back; false: a pipe or a device */
	bool one_ring;    /* it has no marks: readers take it that the records of a ring are in the order of time */
};

/*
 * Makes the stages of one feature: first member of its own struct, which may hold what they share. A recording has a
 * list of makers in the order of the stages; each output, also after a switch, gets a stage of each.
 */
struct stage_maker {
	/* Called by the thread that opens the output. *ret NULL: this output needs no such stage. 0 or -errno. */
	int (*make)(struct stage_maker *maker, const struct stage_output *output, struct stage **ret);
	/*
	 * NULL: not wanted. Called once, before the first batch, with the synthesised records (COMM, MMAP2, ...) of all
	 * tasks and maps as they were when the first output began; later outputs continue from the batches. Borrowed
	 * for the call. Not called with --tail-synthesize. 0 or -errno.
	 */
	int (*initial_state)(struct stage_maker *maker, struct span records);
	/* NULL: not wanted. By who has finished an output: adds what its stages counted since then. 0 or -errno. */
	int (*account)(struct stage_maker *maker, struct ledger *ledger);
	struct stage_maker *next; /* Set by the pipeline: */
	bool knows_state;
};

/* Appends a maker, which is borrowed, to the list. */
void stage_makers_add(struct stage_maker **first, struct stage_maker *maker);
/* Calls initial_state() of the makers that have it, once for each. 0 or -errno. */
int stage_makers_initial_state(struct stage_maker *first, struct span records);

/* Outside of process(), by any thread, for a batch in its final form: calls the next stage's examine(). */
static inline void stage_examine(const struct stage *stage, struct batch *batch)
{
	batch->examined = NULL;
	if (stage->next && stage->next->ops->examine)
		stage->next->ops->examine(stage->next, batch);
}

/* In process() and flush(), as all below: to the next stage, or to be stored. 0, or an error that is to be returned. */
int stage_pass(struct stage *stage, struct batch *batch);
/* Statistics for the index of a batch without offset: the last stage may make them. */
const struct extent_stats *stage_extent_stats(const struct stage *stage);
void stage_set_extent_info(struct batch *batch, const struct extent_info *info); /* which gets info->counts */
/* An empty batch of the pool. NULL: none is free, and waiting would not help: pass on or free some. */
struct batch *stage_batch_new(struct stage *stage);
void stage_batch_free(struct stage *stage, struct batch *batch);
/* Adds the next batch, for which there is room, and frees it. A mark between the two is dropped. */
void stage_batch_join(struct stage *stage, struct batch *batch, struct batch *next);

/*
 * Counts samples that are neither passed on nor replaced: they are lost, with the reason (a static string; at most
 * POOL_DROP_REASONS different ones), in the summary and in the ledger.
 */
void stage_count_dropped(struct stage *stage, const char *reason, uint64_t nr_samples);
