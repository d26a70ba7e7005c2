/* SPDX-License-Identifier: MIT */
/*
 * ring: one kernel ring buffer mapped here. Owned by one stream; one thread at a time.
 *
 * Bytes are peeked (seen), taken (handed on, still in place), released (given back to the kernel). Released bytes
 * never come back: the kernel writes over them.
 *
 * Source: perf_event_open(2) "MMAP layout"; kernel/events/ring_buffer.c for the order of accesses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct diag;
struct perf_event_mmap_page;

struct ring {
	struct perf_event_mmap_page *page; /* control page */
	const uint8_t *data;
	size_t bytes;      /* size of the data area, a power of two */
	uint64_t taken;    /* position up to which bytes were handed on */
	uint64_t released; /* position up to which bytes were given back; released <= taken <= head */
	void *mapping;     /* NULL: the memory is the caller's (ring_attach) */
	size_t mapping_bytes;
};

/*
 * Maps the buffer of a perf event fd. data_pages: power of two, >= 1. The fd may be closed afterwards as far as the
 * ring is concerned. -EPERM (over the locked-memory budget), -EINVAL, -ENOMEM, -errno of mmap(2).
 */
int ring_map(struct ring *ring, int event_fd, size_t data_pages);

/* A ring over memory that something else fills by the kernel's protocol: tests, synthetic load. */
void ring_attach(struct ring *ring, struct perf_event_mmap_page *page, const void *data, size_t bytes);
void ring_unmap(struct ring *ring);

/*
 * Looks at the head once. The bytes not yet taken, oldest first, the part after the wrap second. Returns their
 * number; 0: none, spans untouched.
 */
size_t ring_peek(const struct ring *ring, struct span ret_spans[2]);

/* The first `bytes` of the last peek are handed on. They stay readable until released. */
void ring_take(struct ring *ring, size_t bytes);

/* The oldest `bytes` of what was taken go back to the kernel. */
void ring_release(struct ring *ring, size_t bytes);

/*
 * backward_ring: a kernel ring buffer that is filled from its end to its start and never waits for a reader: the newest
 * records stay. Mapped without PROT_WRITE. Read only while nothing writes into it. One thread at a time.
 *
 * Source: perf_event_open(2) "write_backward"; kernel/events/ring_buffer.c, __perf_output_begin().
 */
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
