/* SPDX-License-Identifier: MIT */
#include "synthetic_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int synthetic_rings_map(struct synthetic_rings *rings, size_t nr, size_t ring_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), stride, bytes;

	if (!nr || !ring_bytes || ring_bytes & (ring_bytes - 1) || ring_bytes % page ||
	    __builtin_add_overflow(ring_bytes, page, &stride) || __builtin_mul_overflow(stride, nr, &bytes))
		return -EINVAL;
	struct synthetic_ring *array = calloc(nr, sizeof(*array));
	if (!array)
		return -ENOMEM;
	/* Touched now, as the kernel's rings are: no page fault counts as a cost of recording. */
	void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mapping == MAP_FAILED) {
		free(array);
		return -ENOMEM;
	}
	*rings = (struct synthetic_rings){array, nr, ring_bytes, stride, mapping};
	for (size_t i = 0; i < nr; i++) {
		uint8_t *start = rings->mapping + i * stride;
		array[i].page = (struct perf_event_mmap_page *)(void *)start;
		array[i].data = start + page;
		array[i].bytes = ring_bytes;
		array[i].index = i;
		array[i].marked_tail = UINT64_MAX;
	}
	return 0;
}

void synthetic_rings_unmap(struct synthetic_rings *rings)
{
	if (rings->mapping)
		munmap(rings->mapping, rings->nr * rings->stride);
	free(rings->rings);
	*rings = (struct synthetic_rings){0};
}

struct synthetic_ring *synthetic_rings_find(const struct synthetic_rings *rings, const void *at)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)rings->mapping;

	return offset < rings->nr * rings->stride ? &rings->rings[offset / rings->stride] : NULL;
}

void synthetic_sample_init(struct synthetic_sample *sample, size_t bytes)
{
	uint8_t *raw = (uint8_t *)sample;

	for (size_t i = 0; i < bytes; i++)
		raw[i] = (uint8_t)(i ^ i >> 8);
	sample->header = (struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = (uint16_t)bytes};
}

static void append(struct synthetic_ring *ring, const void *bytes, size_t len)
{
	size_t at = (size_t)(ring->head & (ring->bytes - 1));
	size_t first = ring->bytes - at < len ? ring->bytes - at : len;

	memcpy(ring->data + at, bytes, first);
	memcpy(ring->data, (const uint8_t *)bytes + first, len - first);
	ring->head += len;
}

/*
 * Starts the time that the ring waits for its visit: once for each place of the tail, when half of the ring lies
 * before it. Not where a wake-up is due: that counts from the last one, also bytes that are gone.
 */
static void mark(struct synthetic_ring *ring, uint64_t tail, uint64_t now_ns)
{
	if (ring->head - tail <= ring->bytes / 2 || tail == ring->marked_tail)
		return;
	ring->marked_tail = tail;
	/* Before the head: a reader that sees these bytes sees the mark too. */
	atomic_store_explicit(&ring->marked_ns, now_ns, memory_order_relaxed);
}

unsigned synthetic_ring_put(struct synthetic_ring *ring, struct synthetic_sample *sample, uint64_t now_ns)
{
	struct synthetic_lost lost = {
		.header = {.type = PERF_RECORD_LOST, .size = sizeof(lost)},
		.ring = ring->index,
		.lost = ring->untold,
	};
	size_t len = sample->header.size + (ring->untold ? sizeof(lost) : 0);
	/* Pairs with the release in ring_release(): the reader is done with what lies below the tail. */
	uint64_t tail = __atomic_load_n(&ring->page->data_tail, __ATOMIC_ACQUIRE);
	unsigned outcome = SYNTHETIC_STORED;

	sample->ring = ring->index;
	sample->number = ring->made++;
	/* As ring_buffer_has_space(): one byte stays free, so that a full ring is not an empty one. */
	if (ring->bytes - 1 - (size_t)(ring->head - tail) < len) {
		ring->dropped++;
		ring->untold++;
		return 0;
	}
	if (ring->untold) {
		append(ring, &lost, sizeof(lost));
		ring->untold = 0;
		outcome |= SYNTHETIC_REPORTED;
	}
	append(ring, sample, sample->header.size);
	ring->fit_ns = now_ns;
	if (ring->head - ring->wakeup > ring->bytes / 2) {
		ring->wakeup += ring->bytes / 2;
		outcome |= SYNTHETIC_WAKE;
	}
	mark(ring, tail, now_ns);
	/* Pairs with the acquire in ring_peek(). */
	__atomic_store_n(&ring->page->data_head, ring->head, __ATOMIC_RELEASE);
	return outcome;
}
