/* SPDX-License-Identifier: MIT */
/*
 * output: text for standard output in big pieces, with the number formats that reports need. One thread.
 * After a write failed nothing more is written; output_close() says whether all of it went out.
 *
 * One without a descriptor (OUTPUT_MEMORY) keeps its text, up to whoever moves it on: it is empty when zeroed but for that,
 * takes memory when it is written to, and after -ENOMEM what it holds is not whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Writes, behind all of its own, the text that one without a descriptor holds, which is empty then. */
void output_move(struct output *out, struct output *from);

/* Flushes and frees; without a descriptor it only frees. 0 or the first -errno. */
int output_close(struct output *out);

/* True when the reader of a pipe went away (| head): no reason to go on, nor to complain. */
static inline bool output_is_over(const struct output *out)
{
	return out->err != 0;
}

/* Room for `len` bytes, at most OUTPUT_ROOM, behind the text: add what was used to out->len. NULL: out of memory. */
char *output_reserve(struct output *out, size_t len);

/* However many there are, and whatever room is left. */
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
void output_padded(struct output *out, const char *text, unsigned width); /* right-aligned, any width */
