/* SPDX-License-Identifier: MIT */
/*
 * output: text for standard output in large writes, with the number formats that reports need. One thread. After a
 * write has failed nothing more is written; output_close() returns the error.
 *
 * With fd OUTPUT_MEMORY the text is only kept in memory, for output_move(). Such an output is zeroed except for its fd,
 * needs no output_open(), and allocates memory when text is added; after -ENOMEM its text is incomplete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/escape.h"

enum { OUTPUT_MEMORY = -1 };

struct output {
	int fd;
	int err; /* first -errno of write(2), or -ENOMEM */
	char *data;
	size_t len, room;
};

enum { OUTPUT_ROOM = 1 << 18, OUTPUT_SLACK = 64 /* what one number may take */ };

/* 0 or -ENOMEM. The descriptor stays the caller's. */
int output_open(struct output *out, int fd);

void output_flush(struct output *out);

/* Writes its own text, then that of `from` (OUTPUT_MEMORY), which is empty afterwards. */
void output_move(struct output *out, struct output *from);

/* Flushes (not OUTPUT_MEMORY) and frees. 0 or the first -errno. */
int output_close(struct output *out);

/* Has a write failed? After -EPIPE (| head) printing ends without a message. */
static inline bool output_is_over(const struct output *out)
{
	return out->err != 0;
}

/*
 * Returns room for `len` bytes, at most OUTPUT_ROOM, behind the text; the caller adds the number of bytes used to
 * out->len. NULL: out of memory.
 */
char *output_reserve(struct output *out, size_t len);

/* output_bytes() where they do not fit into the buffer. */
void output_split(struct output *out, const char *bytes, size_t len);

static inline void output_bytes(struct output *out, const char *bytes, size_t len)
{
	if (len > out->room - out->len) {
		output_split(out, bytes, len);
		return;
	}
	if (len) /* a buffer that is empty may have no memory: memcpy(3) takes no NULL */
		memcpy(out->data + out->len, bytes, len);
	out->len += len;
}

static inline void output_text(struct output *out, const char *text)
{
	output_bytes(out, text, strlen(text));
}

static inline void output_char(struct output *out, char c)
{
	output_bytes(out, &c, 1);
}

/* `width` columns at least, filled with `fill` from the left; at most OUTPUT_SLACK. */
struct output_pad {
	unsigned width;
	char fill;
};
void output_decimal(struct output *out, uint64_t number, struct output_pad pad);
void output_hex(struct output *out, uint64_t number, struct output_pad pad);

/* Right-aligned in a column of any width. */
void output_aligned(struct output *out, const char *bytes, size_t len, unsigned width);
static inline void output_padded(struct output *out, const char *text, unsigned width)
{
	output_aligned(out, text, strlen(text), width);
}

/* Text from the recording: escaped (base/escape.h), then right-aligned. */
void output_escaped(struct output *out, const char *bytes, size_t len, unsigned width);

static inline void output_shown_bytes(struct output *out, const char *bytes, size_t len)
{
	if (escape_is_special(bytes, len))
		output_escaped(out, bytes, len, 0);
	else
		output_bytes(out, bytes, len);
}

static inline void output_shown(struct output *out, const char *text)
{
	output_shown_bytes(out, text, strlen(text));
}

static inline void output_shown_padded(struct output *out, const char *text, unsigned width)
{
	size_t len = strlen(text);

	if (escape_is_special(text, len))
		output_escaped(out, text, len, width);
	else
		output_aligned(out, text, len, width);
}
