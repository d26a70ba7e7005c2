/* SPDX-License-Identifier: MIT */
/*
 * buf: bytes on the heap that grow at the end. One owner, one thread.
 *
 * A failed allocation sets `failed` and turns every later call into a no-op, so that an encoder tests once, at its
 * end. buf_fini() leaves an empty, usable buf behind.
 *
 * array_room() does the same for an array of any element type whose pointer, length and capacity are fields of its
 * owner. partition_point() searches a sorted one.
 */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/span.h"

struct buf {
	uint8_t *data;
	size_t len, room; /* bytes in use, bytes allocated */
	bool failed;      /* -ENOMEM happened */
};

/* 0, or -ENOMEM when an append failed. */
static inline int buf_status(const struct buf *buf)
{
	return buf->failed ? -ENOMEM : 0;
}

void buf_fini(struct buf *buf);

/* Room for `len` more bytes, zeroed, now part of the buf. NULL: out of memory. Valid until the next call. */
void *buf_extend(struct buf *buf, size_t len);
/*
 * Room for `len` more bytes behind the end, not cleared and not yet part of the buf: the caller adds the number of
 * bytes that it has used to buf->len. NULL: out of memory. Valid until the next call.
 */
void *buf_room(struct buf *buf, size_t len);
void buf_put(struct buf *buf, const void *bytes, size_t len);
void buf_put_u8(struct buf *buf, uint8_t value);
void buf_put_u16(struct buf *buf, uint16_t value);
void buf_put_u32(struct buf *buf, uint32_t value);
void buf_put_u64(struct buf *buf, uint64_t value);
void buf_put_text(struct buf *buf, const char *text); /* without the NUL */
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_align(struct buf *buf, size_t to); /* zero bytes until len is a multiple of `to` (a power of two) */

/* The text so far, NUL-terminated (the NUL is not counted in len). "" when nothing was put or memory ran out. */
const char *buf_text(struct buf *buf);

/*
 * open_memstream(3), but for one difference: fclose(3) returns EOF when memory ran out, where glibc's returns 0, and
 * the text has a gap. The text is on the heap, with a NUL, after fclose(3); NULL if that fails. NULL: out of memory.
 */
FILE *text_stream_open(char **ret_text, size_t *ret_len);

/* A stream that writes to the end of a buf, which fclose(3) leaves as it is; borrowed. NULL: out of memory. */
FILE *buf_stream_open(struct buf *buf);

static inline struct span buf_span(const struct buf *buf)
{
	return (struct span){buf->data, buf->len};
}

/*
 * Makes sure that an array on the heap has room for one more element behind its first `nr`. A full array is reallocated
 * with twice the room, so pointers to its elements become invalid. `array` and `room` (its capacity in elements, of any
 * unsigned type) are lvalues, evaluated more than once; NULL and 0 make a new array. 0; -ENOMEM: out of memory, or the
 * array has `most` elements already; then nothing was changed.
 */
#define array_room_up_to(array, nr, room, most)                                                                        \
	((nr) < (room) ? 0 : ({                                                                                        \
		size_t room_ = (room), most_ = (most), last_ = (typeof(room))-1;                                       \
		void *grown_ = array_grown((array), &room_, most_ < last_ ? most_ : last_, sizeof(*(array)));          \
		if (grown_) {                                                                                          \
			(array) = grown_;                                                                              \
			(room) = (typeof(room))room_;                                                                  \
		}                                                                                                      \
		grown_ ? 0 : -ENOMEM;                                                                                  \
	}))
#define array_room(array, nr, room) array_room_up_to(array, nr, room, SIZE_MAX)

/*
 * Called by array_room(): returns the array with twice the room, but not more than `most` elements; NULL means -ENOMEM,
 * as above.
 */
void *array_grown(void *array, size_t *room, size_t most, size_t element_bytes);

/*
 * The partition point of an array of `nr` elements: how many of the first ones a condition holds for, when it holds for
 * none of the others. `at` is the name that the index has in the condition. A binary search.
 */
#define partition_point(nr, at, condition)                                                                             \
	({                                                                                                             \
		size_t low_ = 0, high_ = (nr);                                                                         \
		while (low_ < high_) {                                                                                 \
			const size_t at = low_ + (high_ - low_) / 2;                                                   \
			if (condition)                                                                                 \
				low_ = at + 1;                                                                         \
			else                                                                                           \
				high_ = at;                                                                            \
		}                                                                                                      \
		low_;                                                                                                  \
	})
