/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ELEMENTS = 16 };

void buf_fini(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){0};
}

/* More than there is. Not inline: most calls find room. */
static __attribute__((noinline)) bool buf_grow(struct buf *buf, size_t more)
{
	if (buf->failed)
		return false;
	size_t room = buf->room ? buf->room : 256;
	while (room - buf->len < more) {
		if (__builtin_mul_overflow(room, (size_t)2, &room)) {
			buf->failed = true;
			return false;
		}
	}
	void *data = realloc(buf->data, room);
	if (!data) {
		buf->failed = true;
		return false;
	}
	buf->data = data;
	buf->room = room;
	return true;
}

static inline bool buf_reserve(struct buf *buf, size_t more)
{
	return (more <= buf->room - buf->len && !buf->failed) || buf_grow(buf, more);
}

void *buf_extend(struct buf *buf, size_t len)
{
	void *at = buf_room(buf, len);

	if (!at)
		return NULL;
	memset(at, 0, len);
	buf->len += len;
	return at;
}

void *buf_room(struct buf *buf, size_t len)
{
	return buf_reserve(buf, len ? len : 1) ? buf->data + buf->len : NULL;
}

void buf_put(struct buf *buf, const void *bytes, size_t len)
{
	if (!len || !buf_reserve(buf, len))
		return;
	memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
}

void buf_put_u8(struct buf *buf, uint8_t value)
{
	buf_put(buf, &value, sizeof(value));
}

void buf_put_u16(struct buf *buf, uint16_t value)
{
	buf_put(buf, &value, sizeof(value));
}

void buf_put_u32(struct buf *buf, uint32_t value)
{
	buf_put(buf, &value, sizeof(value));
}

void buf_put_u64(struct buf *buf, uint64_t value)
{
	buf_put(buf, &value, sizeof(value));
}

void buf_put_text(struct buf *buf, const char *text)
{
	buf_put(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (len < 0 || !buf_reserve(buf, (size_t)len + 1))
		return;
	va_start(args, format);
	vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, format, args);
	va_end(args);
	buf->len += (size_t)len;
}

void buf_align(struct buf *buf, size_t to)
{
	buf_extend(buf, -buf->len & (to - 1));
}

const char *buf_text(struct buf *buf)
{
	if (!buf_reserve(buf, 1))
		return "";
	buf->data[buf->len] = '\0';
	return (const char *)buf->data;
}

void *array_grown(void *array, size_t *room, size_t most, size_t element_bytes)
{
	size_t wanted = *room ? *room : FIRST_ELEMENTS / 2;

	if (*room >= most)
		return NULL;
	wanted = wanted <= most / 2 ? 2 * wanted : most;
	void *grown = reallocarray(array, wanted, element_bytes);
	if (grown)
		*room = wanted;
	return grown;
}

struct text_stream {
	struct buf buf;
	char **ret_text;
	size_t *ret_len;
};

static ssize_t buf_stream_write(void *cookie, const char *bytes, size_t len)
{
	struct buf *buf = cookie;

	buf_put(buf, bytes, len);
	return buf->failed ? 0 : (ssize_t)len;
}

FILE *buf_stream_open(struct buf *buf)
{
	static const cookie_io_functions_t functions = {.write = buf_stream_write};

	return fopencookie(buf, "w", functions);
}

static ssize_t text_stream_write(void *cookie, const char *bytes, size_t len)
{
	struct text_stream *stream = cookie;

	return buf_stream_write(&stream->buf, bytes, len);
}

static int text_stream_close(void *cookie)
{
	struct text_stream *stream = cookie;

	buf_put_u8(&stream->buf, '\0');
	bool failed = stream->buf.failed;
	if (failed) {
		buf_fini(&stream->buf);
	} else {
		*stream->ret_text = (char *)stream->buf.data;
		*stream->ret_len = stream->buf.len - 1;
	}
	free(stream);
	return failed ? EOF : 0;
}

FILE *text_stream_open(char **ret_text, size_t *ret_len)
{
	static const cookie_io_functions_t functions = {.write = text_stream_write, .close = text_stream_close};
	struct text_stream *stream = calloc(1, sizeof(*stream));
	FILE *file = stream ? fopencookie(stream, "w", functions) : NULL;

	*ret_text = NULL;
	*ret_len = 0;
	if (!file) {
		free(stream);
		return NULL;
	}
	stream->ret_text = ret_text;
	stream->ret_len = ret_len;
	return file;
}
