/* SPDX-License-Identifier: MIT */
/*
 * backward: a kernel ring buffer that is filled from its end to its start and never waits for a reader: the newest
 * records stay. Mapped without PROT_WRITE. Read only while nothing writes into it. One thread at a time.
 *
 * Source: perf_event_open(2) "write_backward"; kernel/events/ring_buffer.c, __perf_output_begin().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct perf_event_mmap_page;

struct backward_ring {
	const struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t bytes;   /* of the data area, a power of two */
	uint64_t taken; /* the head of the last take: what lies above it has been taken, or was overwritten */
	void *mapping;  /* NULL: the memory is the caller's */
	size_t mapping_bytes;
};

/* As ring_map(); the event has attr.write_backward. */
int backward_ring_map(struct backward_ring *ring, int event_fd, size_t data_pages);
void backward_ring_attach(struct backward_ring *ring, const struct perf_event_mmap_page *page, const void *data,
			  size_t bytes);
void backward_ring_unmap(struct backward_ring *ring); /* zeroed is fine */

struct backward_taken {
	const uint8_t *records; /* oldest first, in the caller's room */
	size_t bytes, nr_records;
	size_t nr_broken; /* 1: a header that no record can have ended the walk; never seen in a still ring */
	uint64_t came;    /* bytes that were written since the last take, also those that are overwritten */
};

/*
 * The records since the last take that are still whole, oldest first: a record whose end lies where newer ones were
 * written is left out. `room` has ring->bytes.
 */
void backward_ring_take(struct backward_ring *ring, uint8_t *room, struct backward_taken *ret);
