/* SPDX-License-Identifier: MIT */
/*
 * ring: one kernel ring buffer mapped here. Owned by one stream; one thread at a time.
 *
 * Bytes are first looked at (peek), then handed on while they still lie in the ring (take), then given back to the
 * kernel (release), which overwrites them.
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

enum { RING_RENAMED_BYTES = 128 << 10 }; /* that ring_rename() copies at a time, and what is left of a record */

/*
 * Ids of events that were opened again, and those that the file has for them. Where records have ids:
 * sample_id_offset() and sample_id_distance() of their attr. Not changed once published; owned by who did.
 */
struct ring_renames {
	int offset, distance;
	size_t trailer_bytes;
	uint8_t *copy;               /* RING_RENAMED_BYTES and the largest record; used by who drains the ring */
	struct ring_renames *before; /* published earlier; for the owner */
	size_t nr;
	struct {
		uint64_t from, to;
	} ids[]; /* ascending by `from` */
};

struct ring {
	struct perf_event_mmap_page *page; /* control page */
	const uint8_t *data;
	size_t bytes;      /* size of the data area, a power of two */
	uint64_t taken;    /* position up to which bytes were handed on */
	uint64_t released; /* position up to which bytes were given back; released <= taken <= head */
	void *mapping;     /* NULL: the memory is the caller's (ring_attach) */
	size_t mapping_bytes;
	const struct ring_renames *renames; /* NULL: none; stored by another thread: ring_publish_renames() */
	bool no_map_ids; /* set by the owner: all are task events, and maps have no build-ids: object_id_unmark() */
};

/*
 * Maps the buffer of a perf event fd. data_pages: a power of two, >= 1. The ring does not need the fd afterwards. 0, or
 * -errno of mmap(2), such as -EPERM: more than the allowed locked memory (kernel.perf_event_mlock_kb).
 */
int ring_map(struct ring *ring, int event_fd, size_t data_pages);

/* A ring over memory that something else fills by the kernel's protocol: tests, synthetic load. */
void ring_attach(struct ring *ring, struct perf_event_mmap_page *page, const void *data, size_t bytes);
void ring_unmap(struct ring *ring);

/*
 * Reads the head once. Sets the spans to the bytes that were not taken yet, oldest first; the second span is the part
 * after the wrap, or empty. Returns the number of bytes; 0: there are none, and the spans are untouched.
 */
size_t ring_peek(const struct ring *ring, struct span ret_spans[2]);

/*
 * Copies both spans, one behind the other, to memory that a device will read: past the caches of this CPU, where it can
 * do so. To read the copy on a CPU is right, too, but slow. `to`: span_total() bytes.
 */
void ring_copy_uncached(uint8_t *to, const struct span spans[2]);

/* Marks the first `bytes` of the last peek as handed on. They stay readable until they are released. */
void ring_take(struct ring *ring, size_t bytes);

/* Gives the oldest `bytes` of what was taken back to the kernel. */
void ring_release(struct ring *ring, size_t bytes);

/* From now on ring_rename() replaces these ids, which stay valid. By any thread, before their events are enabled. */
void ring_publish_renames(struct ring *ring, const struct ring_renames *renames);

/*
 * `spans` are the first `bytes` that were not taken yet, whole records. Where ids are to be replaced the spans become
 * those of a copy, which may have fewer records. Returns its bytes. By the thread that drains the ring.
 */
size_t ring_rename(const struct ring *ring, struct span spans[2], size_t bytes);

/*
 * backward_ring: a kernel ring buffer that is filled from its end to its start and never waits for a reader: the newest
 * records stay. Mapped without PROT_WRITE. One thread at a time.
 *
 * Source: perf_event_open(2) "write_backward"; kernel/events/ring_buffer.c, __perf_output_begin().
 */
struct backward_ring {
	const struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t bytes;   /* of the data area, a power of two */
	uint64_t taken; /* data_head at the last take: records at higher addresses were taken or overwritten */
	void *mapping;  /* NULL: the memory is the caller's */
	size_t mapping_bytes;
};

/* As ring_map(); the event has attr.write_backward. */
int backward_ring_map(struct backward_ring *ring, int event_fd, size_t data_pages);
void backward_ring_attach(struct backward_ring *ring, const struct perf_event_mmap_page *page, const void *data,
			  size_t bytes);
void backward_ring_unmap(struct backward_ring *ring); /* zeroed is fine */

struct backward_taken {
	const uint8_t *records; /* oldest first, in the caller's `room` */
	size_t bytes, nr_records;
	/* 1: the walk ended early at an invalid record header; never seen while nothing writes into the ring */
	size_t nr_broken;
	uint64_t came;    /* bytes that were written since the last take, including those that were overwritten */
	bool overwritten; /* of these bytes some were */
};

/*
 * Copies the records since the last take that are still whole into `room`, which has ring->bytes bytes, oldest first. A
 * record whose end was overwritten by newer ones is left out. Only while nothing writes into the ring.
 */
void backward_ring_take(struct backward_ring *ring, uint8_t *room, struct backward_taken *ret);

/*
 * The same while records go on to come: those up to a moment, from a copy of the ring. What newer records overwrite
 * before it is copied is left out.
 */
struct backward_copy {
	uint8_t *data;       /* the caller's; ring->bytes bytes */
	uint64_t head;       /* data_head at the moment */
	uint64_t later_head; /* since the copy was made; what was written up to here may have been overwriting */
	unsigned nr_changes; /* of later_head */
};

void backward_ring_mark(const struct backward_ring *ring, struct backward_copy *copy); /* this is the moment */
void backward_ring_copy(const struct backward_ring *ring, struct backward_copy *copy);

/*
 * To be called after that, until it returns true: then it is known what was overwritten. Only records that come make it
 * so.
 */
bool backward_copy_is_known(const struct backward_ring *ring, struct backward_copy *copy);

/* Instead: all records are complete whose writing had begun when the copy was made. */
void backward_copy_end(const struct backward_ring *ring, struct backward_copy *copy);

/* As backward_ring_take(); the next take begins at the moment. */
void backward_ring_take_copy(struct backward_ring *ring, const struct backward_copy *copy, uint8_t *room,
			     struct backward_taken *ret);
