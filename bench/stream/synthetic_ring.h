/* SPDX-License-Identifier: MIT */
/*
 * synthetic_ring: rings in memory that a thread of ours fills as the kernel fills those of perf events: room is what
 * lies behind data_tail, a record that does not fit is dropped and counted, a LOST record goes before the next one
 * that fits, and the reader is to be woken when half a ring has come.
 *
 * Source: kernel/events/ring_buffer.c, __perf_output_begin() and perf_output_put_handle(); perf_event_open(2).
 *
 * Two threads: one puts records; one reads, through ring_attach() of `page` and `data`.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What every sample starts with; a fixed pattern fills it up to its size. */
struct synthetic_sample {
	struct perf_event_header header;
	uint64_t ring;
	uint64_t number; /* counts all samples made for the ring, also those dropped */
};

struct synthetic_lost {
	struct perf_event_header header;
	uint64_t ring;
	uint64_t lost;
};

struct synthetic_ring {
	struct perf_event_mmap_page *page;
	uint8_t *data;
	size_t bytes;
	uint64_t index;
	/* Of the filling thread; read by others when it is done. */
	uint64_t head;
	uint64_t wakeup; /* where the last wake-up was due */
	uint64_t made;   /* samples, with the dropped ones */
	uint64_t dropped;
	uint64_t untold;      /* dropped since the last LOST record */
	uint64_t fit_ns;      /* when the last sample fitted */
	uint64_t marked_tail; /* where the tail was at the last mark */
	/*
	 * When the ring became half full: set by the filling thread, cleared by the reader's visit. 0: it has not. A
	 * mark that is set while the reader takes the bytes is left over: it tells of a later visit only if that finds
	 * more than half a ring.
	 */
	_Atomic uint64_t marked_ns;
};

/* All in one mapping. Owned by their creator. */
struct synthetic_rings {
	struct synthetic_ring *rings;
	size_t nr, ring_bytes, stride; /* stride: bytes from one data area to the next */
	uint8_t *mapping;
};

/* ring_bytes: a power of two and a multiple of the page size. 0, -ENOMEM, -EINVAL. */
int synthetic_rings_map(struct synthetic_rings *rings, size_t nr, size_t ring_bytes);
void synthetic_rings_unmap(struct synthetic_rings *rings);

/* The ring whose data area holds this address; NULL: none. */
struct synthetic_ring *synthetic_rings_find(const struct synthetic_rings *rings, const void *at);

enum {
	SYNTHETIC_SAMPLE_MIN = sizeof(struct synthetic_sample),
	SYNTHETIC_SAMPLE_MAX = 65528, /* the size of a record has 16 bits; a multiple of 8 */
};

/* A sample of header.size bytes, ready to be put; `bytes` a multiple of 8, within the limits above. */
void synthetic_sample_init(struct synthetic_sample *sample, size_t bytes);

enum synthetic_outcome {
	SYNTHETIC_STORED = 1,
	SYNTHETIC_WAKE = 2,     /* and the reader is to be woken */
	SYNTHETIC_REPORTED = 4, /* and a LOST record went before it */
};

/* Numbers the sample and puts it, or drops it: 0. */
unsigned synthetic_ring_put(struct synthetic_ring *ring, struct synthetic_sample *sample, uint64_t now_ns);
