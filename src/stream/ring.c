/* SPDX-License-Identifier: MIT */
#include "stream/ring.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "perfdata/sample.h"

int ring_map(struct ring *ring, int event_fd, size_t data_pages)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (data_pages + 1) * page_bytes;
	/*
	 * Who drains must not wait for its first look at each page: before Linux 6.14 that is a fault, as dear as 100
	 * records.
	 */
	void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, event_fd, 0);

	if (mapping == MAP_FAILED)
		return -errno;
	ring_attach(ring, mapping, (const char *)mapping + page_bytes, data_pages * page_bytes);
	ring->mapping = mapping;
	ring->mapping_bytes = bytes;
	return 0;
}

void ring_attach(struct ring *ring, struct perf_event_mmap_page *page, const void *data, size_t bytes)
{
	assert(bytes && !(bytes & (bytes - 1)));
	*ring = (struct ring){.page = page, .data = data, .bytes = bytes};
	ring->taken = ring->released = page->data_tail;
}

void ring_unmap(struct ring *ring)
{
	if (ring->mapping)
		munmap(ring->mapping, ring->mapping_bytes);
	ring->page = NULL;
	ring->data = NULL;
	ring->mapping = NULL;
	ring->bytes = ring->mapping_bytes = 0;
}

size_t ring_peek(const struct ring *ring, struct span ret_spans[2])
{
	/* Pairs with the write barrier in perf_output_put_handle(): what lies below the head has been written. */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	size_t ready = (size_t)(head - ring->taken);

	assert(ready <= ring->bytes);
	if (!ready)
		return 0;
	size_t at = (size_t)(ring->taken & (ring->bytes - 1));
	size_t first = ring->bytes - at < ready ? ring->bytes - at : ready;
	ret_spans[0] = (struct span){ring->data + at, first};
	ret_spans[1] = (struct span){ring->data, ready - first};
	return ready;
}

#ifdef __SSE2__
/* Whole lines: none of the destination is read first. Source: Intel SDM 1, 10.4.6.2. */
static size_t copy_lines(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t at = 0;

	for (; bytes - at >= 64; at += 64) {
		const __m128i *line = (const __m128i *)(const void *)(from + at);
		__m128i *copy = (__m128i *)(void *)(to + at);
		const __m128i first = _mm_loadu_si128(line), second = _mm_loadu_si128(line + 1);
		const __m128i third = _mm_loadu_si128(line + 2), last = _mm_loadu_si128(line + 3);
		_mm_stream_si128(copy, first);
		_mm_stream_si128(copy + 1, second);
		_mm_stream_si128(copy + 2, third);
		_mm_stream_si128(copy + 3, last);
	}
	return at;
}

void ring_copy_uncached(uint8_t *to, const struct span spans[2])
{
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *from = spans[i].ptr;
		const size_t bytes = spans[i].len, to_line = -(uintptr_t)to % 64;
		const size_t front = to_line < bytes ? to_line : bytes;
		if (!bytes) /* there may be no second one: NULL */
			continue;
		memcpy(to, from, front);
		const size_t done = front + copy_lines(to + front, from + front, bytes - front);
		memcpy(to + done, from + done, bytes - done);
		to += bytes;
	}
	_mm_sfence(); /* else later writes, by which others learn of these, may be seen first */
}
#else
void ring_copy_uncached(uint8_t *to, const struct span spans[2])
{
	for (unsigned i = 0; i < 2; i++) {
		if (spans[i].len)
			memcpy(to, spans[i].ptr, spans[i].len);
		to += spans[i].len;
	}
}
#endif

void ring_take(struct ring *ring, size_t bytes)
{
	ring->taken += bytes;
}

void ring_release(struct ring *ring, size_t bytes)
{
	assert(bytes <= ring->taken - ring->released);
	ring->released += bytes;
	/* Pairs with the control dependency on data_tail in __perf_output_begin(): our reads come before its writes. */
	__atomic_store_n(&ring->page->data_tail, ring->released, __ATOMIC_RELEASE);
}

void ring_publish_renames(struct ring *ring, const struct ring_renames *renames)
{
	/* Pairs with the acquire in ring_rename(): the records come after the events are enabled. */
	__atomic_store_n(&ring->renames, renames, __ATOMIC_RELEASE);
}

static void rename_word(const struct ring_renames *renames, uint8_t *at)
{
	uint64_t id;

	memcpy(&id, at, sizeof(id));
	size_t low = 0, high = renames->nr;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (renames->ids[middle].from < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < renames->nr && renames->ids[low].from == id)
		memcpy(at, &renames->ids[low].to, sizeof(id));
}

static void rename_record(const struct ring_renames *renames, uint8_t *record, const struct perf_event_header *header)
{
	/* LOST: id, lost. THROTTLE and UNTHROTTLE: time, id, stream_id. */
	enum { LOST_ID_AT = 8, THROTTLE_ID_AT = 16, THROTTLE_STREAM_ID_AT = 24 };
	const bool throttle = header->type == PERF_RECORD_THROTTLE || header->type == PERF_RECORD_UNTHROTTLE;
	const int ids_at[] = {
		header->type == PERF_RECORD_SAMPLE ? renames->offset
						   : sample_id_field(record, renames->trailer_bytes, renames->distance),
		header->type == PERF_RECORD_LOST ? LOST_ID_AT : -1,
		throttle ? THROTTLE_ID_AT : -1,
		throttle ? THROTTLE_STREAM_ID_AT : -1,
	};

	for (size_t i = 0; i < sizeof(ids_at) / sizeof(ids_at[0]); i++)
		if (ids_at[i] >= (int)sizeof(*header) && ids_at[i] + (int)sizeof(uint64_t) <= header->size)
			rename_word(renames, record + ids_at[i]);
}

/* A copy: before Linux 6.14 the data pages of a ring cannot be written, perf_mmap_fault() of kernel/events/core.c. */
size_t ring_rename(const struct ring *ring, struct span spans[2], size_t bytes)
{
	const struct ring_renames *renames = __atomic_load_n(&ring->renames, __ATOMIC_ACQUIRE);
	struct perf_event_header header;
	size_t len = 0;

	if (!renames)
		return bytes;
	for (; len < bytes && len < RING_RENAMED_BYTES; len += header.size) {
		/* Records are aligned to 8 bytes, and so no header is in two parts. */
		memcpy(&header, ring->data + ((ring->taken + len) & (ring->bytes - 1)), sizeof(header));
		if (header.size < sizeof(header) || header.size > bytes - len)
			return bytes; /* what it is, the writer tells */
		for (size_t done = 0, part; done < header.size; done += part) {
			size_t at = (size_t)((ring->taken + len + done) & (ring->bytes - 1));
			part = header.size - done;
			part = part < ring->bytes - at ? part : ring->bytes - at;
			memcpy(renames->copy + len + done, ring->data + at, part);
		}
		rename_record(renames, renames->copy + len, &header);
	}
	spans[0] = (struct span){renames->copy, len};
	spans[1] = (struct span){0};
	return len;
}

int backward_ring_map(struct backward_ring *ring, int event_fd, size_t data_pages)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (data_pages + 1) * page_bytes;
	/* Without PROT_WRITE the kernel looks at no data_tail: perf_event_open(2). */
	void *mapping = mmap(NULL, bytes, PROT_READ, MAP_SHARED, event_fd, 0);

	if (mapping == MAP_FAILED)
		return -errno;
	backward_ring_attach(ring, mapping, (const char *)mapping + page_bytes, data_pages * page_bytes);
	ring->mapping = mapping;
	ring->mapping_bytes = bytes;
	return 0;
}

void backward_ring_attach(struct backward_ring *ring, const struct perf_event_mmap_page *page, const void *data,
			  size_t bytes)
{
	assert(bytes && !(bytes & (bytes - 1)));
	*ring = (struct backward_ring){.page = page, .data = data, .bytes = bytes, .taken = page->data_head};
}

void backward_ring_unmap(struct backward_ring *ring)
{
	if (ring->mapping)
		munmap(ring->mapping, ring->mapping_bytes);
	*ring = (struct backward_ring){0};
}

/* Pairs with the write barrier in perf_output_put_handle(): what lies above the head has been written. */
static uint64_t backward_head(const struct backward_ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

/* What a walk reads: bytes as in a ring, of which `limit` from the head on are valid. */
struct backward_walk {
	const uint8_t *data;
	uint64_t head;
	size_t limit;
};

static void copy_out(const struct backward_ring *ring, const uint8_t *data, uint64_t at, uint8_t *to, size_t bytes)
{
	size_t offset = (size_t)(at & (ring->bytes - 1));
	size_t first = ring->bytes - offset < bytes ? ring->bytes - offset : bytes;

	memcpy(to, data + offset, first);
	memcpy(to + first, data, bytes - first);
}

/* From the newest record, at the head, to the oldest; they are put into the room from its end on. */
static void walk_back(struct backward_ring *ring, const struct backward_walk *walk, uint8_t *room,
		      struct backward_taken *ret)
{
	struct backward_taken taken = {.came = ring->taken - walk->head};
	size_t walked = 0;

	while (walk->limit - walked >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;

		/* 8-aligned in a ring of a multiple of 8: a header does not wrap. */
		memcpy(&header, walk->data + ((walk->head + walked) & (ring->bytes - 1)), sizeof(header));
		if (header.size < sizeof(header) || header.size % 8) {
			taken.nr_broken = 1;
			break;
		}
		if (header.size > walk->limit - walked)
			break; /* its end was overwritten */
		walked += header.size;
		copy_out(ring, walk->data, walk->head + walked - header.size, room + ring->bytes - walked, header.size);
		taken.nr_records++;
	}
	taken.overwritten = taken.came > walk->limit;
	taken.records = room + ring->bytes - walked;
	taken.bytes = walked;
	ring->taken = walk->head;
	*ret = taken;
}

static size_t least(uint64_t bytes, size_t most)
{
	return bytes < most ? (size_t)bytes : most;
}

void backward_ring_take(struct backward_ring *ring, uint8_t *room, struct backward_taken *ret)
{
	uint64_t head = backward_head(ring);
	const struct backward_walk walk = {
		.data = ring->data, .head = head, .limit = least(ring->taken - head, ring->bytes)};

	walk_back(ring, &walk, room, ret);
}

void backward_ring_mark(const struct backward_ring *ring, struct backward_copy *copy)
{
	copy->head = backward_head(ring);
}

enum { ENOUGH_CHANGES = 2 };

/* What is overwritten first, the oldest, is copied first. */
void backward_ring_copy(const struct backward_ring *ring, struct backward_copy *copy)
{
	size_t bytes = least(ring->taken - copy->head, ring->bytes);
	size_t offset = (size_t)(copy->head & (ring->bytes - 1));
	size_t first = ring->bytes - offset < bytes ? ring->bytes - offset : bytes;

	memcpy(copy->data, ring->data, bytes - first);
	memcpy(copy->data + offset, ring->data + offset, first);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* heads that are read now are newer than those bytes */
	copy->later_head = backward_head(ring);
	copy->nr_changes = bytes ? 0 : ENOUGH_CHANGES;
}

/*
 * The kernel publishes a head when the outermost writer of the CPU is done, and after each it looks for records that
 * interrupts have added (perf_output_put_handle()). So the first new head may lack what was begun before the copy was
 * made, the second has it.
 */
bool backward_copy_is_known(const struct backward_ring *ring, struct backward_copy *copy)
{
	uint64_t head = backward_head(ring);

	if (copy->nr_changes < ENOUGH_CHANGES && head != copy->later_head) {
		copy->later_head = head;
		copy->nr_changes++;
	}
	return copy->nr_changes == ENOUGH_CHANGES;
}

void backward_copy_end(const struct backward_ring *ring, struct backward_copy *copy)
{
	copy->later_head = backward_head(ring);
}

void backward_ring_take_copy(struct backward_ring *ring, const struct backward_copy *copy, uint8_t *room,
			     struct backward_taken *ret)
{
	uint64_t newer = copy->head - copy->later_head;
	size_t whole = newer < ring->bytes ? ring->bytes - (size_t)newer : 0;
	const struct backward_walk walk = {
		.data = copy->data, .head = copy->head, .limit = least(ring->taken - copy->head, whole)};

	walk_back(ring, &walk, room, ret);
}
