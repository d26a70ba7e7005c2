/* SPDX-License-Identifier: MIT */
#include "cmd/cli/output.h"

#include <errno.h>
#include <stdlib.h>

#include "base/escape.h"
#include "base/fd.h"
#include "base/text.h"

enum { FEW_BLANKS = 32 };

int output_open(struct output *out, int fd)
{
	*out = (struct output){.fd = fd, .data = malloc(OUTPUT_ROOM), .room = OUTPUT_ROOM};
	return out->data ? 0 : -ENOMEM;
}

void output_flush(struct output *out)
{
	if (!out->err)
		out->err = fd_write(out->fd, out->data, out->len);
	out->len = 0;
}

void output_move(struct output *out, struct output *from)
{
	output_flush(out);
	if (!out->err)
		out->err = from->err;
	if (!out->err)
		out->err = fd_write(out->fd, from->data, from->len);
	from->len = 0;
}

/* False: no memory. */
static bool grow(struct output *out, size_t more)
{
	size_t room = out->room ? out->room : OUTPUT_ROOM;

	while (room - out->len < more)
		room *= 2;
	char *data = realloc(out->data, room);
	if (!data) {
		out->err = -ENOMEM;
		return false;
	}
	out->data = data;
	out->room = room;
	return true;
}

int output_close(struct output *out)
{
	if (out->fd != OUTPUT_MEMORY)
		output_flush(out);
	free(out->data);
	out->data = NULL;
	out->len = out->room = 0;
	return out->err;
}

void output_split(struct output *out, const char *bytes, size_t len)
{
	if (out->fd == OUTPUT_MEMORY && !grow(out, len))
		return;
	while (len) {
		if (out->len == out->room)
			output_flush(out);
		size_t step = len < out->room - out->len ? len : out->room - out->len;
		memcpy(out->data + out->len, bytes, step);
		out->len += step;
		bytes += step;
		len -= step;
	}
}

char *output_reserve(struct output *out, size_t len)
{
	if (out->room - out->len >= len)
		return out->data + out->len;
	if (out->fd == OUTPUT_MEMORY)
		return grow(out, len) ? out->data + out->len : NULL;
	output_flush(out);
	return out->data;
}

/* `len` digits behind what fills the width. */
static void put_digits(struct output *out, const char *digits, unsigned len, struct output_pad pad)
{
	unsigned width = pad.width < OUTPUT_SLACK ? pad.width : OUTPUT_SLACK;
	char *to = output_reserve(out, OUTPUT_SLACK);

	if (!to)
		return;
	for (unsigned i = len; i < width; i++)
		*to++ = pad.fill;
	memcpy(to, digits, len);
	out->len = (size_t)(to + len - out->data);
}

void output_decimal(struct output *out, uint64_t number, struct output_pad pad)
{
	char digits[DIGITS_ROOM];

	put_digits(out, digits, (unsigned)(digits_put_decimal(digits, number) - digits), pad);
}

void output_hex(struct output *out, uint64_t number, struct output_pad pad)
{
	char digits[DIGITS_ROOM];

	put_digits(out, digits, (unsigned)(digits_put_hex(digits, number) - digits), pad);
}

void output_aligned(struct output *out, const char *bytes, size_t len, unsigned width)
{
	for (size_t left = len < width ? width - len : 0, step; left; left -= step) {
		step = left < FEW_BLANKS ? left : FEW_BLANKS;
		char *to = output_reserve(out, FEW_BLANKS);
		if (!to)
			return;
		memset(to, ' ', FEW_BLANKS); /* a known size is a few stores */
		out->len += step;
	}
	output_bytes(out, bytes, len);
}

void output_escaped(struct output *out, const char *bytes, size_t len, unsigned width)
{
	AUTO_ESCAPED shown = escaped_bytes(bytes, len);

	output_aligned(out, shown.text, (size_t)shown.len, width);
}
