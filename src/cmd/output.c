/* SPDX-License-Identifier: MIT */
#include "cmd/output.h"

#include <errno.h>
#include <stdlib.h>

#include "base/digits.h"
#include "base/fd.h"

int output_open(struct output *out, int fd)
{
	*out = (struct output){.fd = fd, .data = malloc(OUTPUT_ROOM)};
	return out->data ? 0 : -ENOMEM;
}

void output_flush(struct output *out)
{
	if (!out->err)
		out->err = fd_write(out->fd, out->data, out->len);
	out->len = 0;
}

int output_close(struct output *out)
{
	output_flush(out);
	free(out->data);
	out->data = NULL;
	return out->err;
}

void output_split(struct output *out, const char *bytes, size_t len)
{
	while (len) {
		if (out->len == OUTPUT_ROOM)
			output_flush(out);
		size_t step = len < OUTPUT_ROOM - out->len ? len : OUTPUT_ROOM - out->len;
		memcpy(out->data + out->len, bytes, step);
		out->len += step;
		bytes += step;
		len -= step;
	}
}

/* Where `len` digits go, behind what fills the width; there is room for them. */
static char *digits_room(struct output *out, unsigned len, struct output_pad pad)
{
	unsigned width = pad.width < OUTPUT_SLACK ? pad.width : OUTPUT_SLACK;

	if (OUTPUT_ROOM - out->len < OUTPUT_SLACK)
		output_flush(out);
	char *to = out->data + out->len;
	for (unsigned i = len; i < width; i++)
		*to++ = pad.fill;
	out->len = (size_t)(to + len - out->data);
	return to;
}

void output_decimal(struct output *out, uint64_t number, struct output_pad pad)
{
	unsigned len = digits_of_decimal(number);

	digits_put_last(digits_room(out, len, pad), number, len);
}

void output_hex(struct output *out, uint64_t number, struct output_pad pad)
{
	char digits[DIGITS_ROOM];
	size_t len = (size_t)(digits_put_hex(digits, number) - digits);

	memcpy(digits_room(out, (unsigned)len, pad), digits, len);
}

void output_padded(struct output *out, const char *text, unsigned width)
{
	size_t len = strlen(text);

	for (size_t missing = len < width ? width - len : 0; missing;) {
		static const char blanks[] = "                                ";
		size_t step = missing < sizeof(blanks) - 1 ? missing : sizeof(blanks) - 1;
		output_bytes(out, blanks, step);
		missing -= step;
	}
	output_bytes(out, text, len);
}
