/* SPDX-License-Identifier: MIT */
/* The layout is that of trace-cmd.dat(5) up to the formats, as perf writes it into its own files. */
#include "perfdata/tracing.h"

#include <string.h>

/* A string of any length up to its NUL. NULL (and bad): there is none. */
static const char *take_string(struct cursor *at)
{
	const uint8_t *end = memchr(at->at, '\0', cursor_left(at));

	return cursor_take(at, end ? (uint64_t)(end - at->at) + 1 : UINT64_MAX);
}

/* A text behind its size. */
static struct span take_text(struct cursor *at)
{
	uint64_t size = cursor_u64(at);
	const void *text = cursor_take(at, size);

	return text ? (struct span){text, size} : (struct span){0};
}

/* What stands before the tracepoints. */
static void skip_front(struct cursor *at)
{
	enum { MAGIC_BYTES = 10, ORDER_AND_LONG_BYTES = 2 };

	cursor_take(at, MAGIC_BYTES);
	take_string(at); /* version */
	cursor_take(at, ORDER_AND_LONG_BYTES);
	cursor_u32(at);  /* size of a page */
	take_string(at); /* "header_page" */
	take_text(at);
	take_string(at); /* "header_event" */
	take_text(at);
	uint32_t nr_own = cursor_u32(at);
	for (uint32_t i = 0; i < nr_own && !at->bad; i++)
		take_text(at); /* formats of ftrace itself */
}

/* The rest of the line that begins with `key`; empty: there is none. */
static struct span line_of(struct span text, const char *key)
{
	const char *at = text.ptr, *end = at + text.len;
	size_t key_len = strlen(key);

	for (const char *next; at && at < end; at = next) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		next = newline ? newline + 1 : end;
		if ((size_t)(next - at) > key_len && memcmp(at, key, key_len) == 0)
			return (struct span){at + key_len, (size_t)((newline ? newline : end) - at) - key_len};
	}
	return (struct span){0};
}

/* Decimal, as the kernel prints it. */
static bool read_number(struct span text, uint64_t *ret)
{
	const char *digits = text.ptr;

	*ret = 0;
	for (size_t i = 0; i < text.len; i++)
		if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(*ret, 10, ret) ||
		    __builtin_add_overflow(*ret, (uint64_t)(digits[i] - '0'), ret))
			return false;
	return text.len;
}

struct tracing_names tracing_names_over(struct span blob)
{
	struct tracing_names names = {.at = cursor_over(blob)};

	skip_front(&names.at);
	names.systems_left = cursor_u32(&names.at);
	return names;
}

bool tracing_names_next(struct tracing_names *names, struct tracing_name *ret)
{
	while (!names->at.bad && (names->left || names->systems_left)) {
		if (!names->left) {
			names->system = take_string(&names->at);
			names->left = cursor_u32(&names->at);
			names->systems_left--;
			continue;
		}
		struct span format = take_text(&names->at);
		names->left--;
		*ret = (struct tracing_name){.system = names->system, .name = line_of(format, "name: ")};
		if (ret->name.len && read_number(line_of(format, "ID: "), &ret->id))
			return true;
	}
	return false;
}
