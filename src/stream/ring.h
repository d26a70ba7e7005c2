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
