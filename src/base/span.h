/* SPDX-License-Identifier: MIT */
/*
 * span: a pointer to borrowed bytes and their number; and a cursor that reads them. A span owns nothing; it is valid as
 * long as the bytes are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const void *ptr;
	size_t len; /* bytes */
};

static inline size_t span_total(const struct span spans[], unsigned nr_spans)
{
	size_t len = 0;

	for (unsigned i = 0; i < nr_spans; i++)
		len += spans[i].len;
	return len;
}

/* Leaves the first bytes of both, of which there are as many. */
static inline void spans_cut(struct span spans[2], size_t bytes)
{
	if (spans[0].len > bytes)
		spans[0].len = bytes;
	spans[1].len = bytes - spans[0].len;
}

/* A text without its NUL. */
static inline struct span span_of_text(const char *text)
{
	return (struct span){text, strlen(text)};
}

/*
 * cursor: reads fixed-size values from a span, front to back, never past the end.
 *
 * A read that does not fit sets `bad` and returns zero or NULL, and so does every read after it: a decoder reads
 * all its fields and tests `bad` once. Values are in native byte order and need no alignment.
 */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct cursor cursor_over(struct span bytes)
{
	const uint8_t *start = bytes.ptr;
	return (struct cursor){.at = start, .end = bytes.len ? start + bytes.len : start};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

/* The next `len` bytes, or NULL when there are not as many. */
static inline const void *cursor_take(struct cursor *c, uint64_t len)
{
	if (c->bad || len > cursor_left(c)) {
		c->bad = true;
		return NULL;
	}
	const void *taken = c->at;
	c->at += len;
	return taken;
}

static inline void cursor_copy(struct cursor *c, void *ret, size_t len)
{
	const void *from = cursor_take(c, len);

	if (from)
		memcpy(ret, from, len);
	else
		memset(ret, 0, len);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	uint8_t value;
	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	uint16_t value;
	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	uint32_t value;
	cursor_copy(c, &value, sizeof(value));
	return value;
}

static inline uint64_t cursor_u64(struct cursor *c)
{
	uint64_t value;
	cursor_copy(c, &value, sizeof(value));
	return value;
}

/* LEB128 numbers, unsigned and signed; bits beyond 64 are lost. Source: DWARF 5, 7.6 "Variable Length Data". */
static inline uint64_t cursor_uleb(struct cursor *c)
{
	uint64_t value = 0;

	if (!c->bad && c->at < c->end && *c->at < 0x80) /* as most are */
		return *c->at++;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = cursor_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (byte & 0x40 && shift < 64)
		value |= UINT64_MAX << shift;
	return (int64_t)value;
}

/* A NUL-terminated string inside the next `len` bytes, or NULL (and bad) when no NUL is among them. */
static inline const char *cursor_string(struct cursor *c, uint64_t len)
{
	const char *text = cursor_take(c, len);

	if (text && !memchr(text, '\0', len)) {
		c->bad = true;
		return NULL;
	}
	return text;
}
