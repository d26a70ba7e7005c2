/* SPDX-License-Identifier: MIT */
/*
 * json_writer: JSON (RFC 8259) into a stream or a buf, as it is made: commas, quotes, escapes and brackets. Whatever
 * bytes a text holds, the result is valid. One owner, one thread.
 *
 *	struct json_writer json = {.to = stdout};
 *	json_object(&json, NULL);
 *	json_text(&json, "name", name);
 *	json_array(&json, "cpus");
 *	json_number(&json, NULL, 3);
 *	json_end(&json);
 *	json_end(&json);
 *
 * `key`: the name of a value in an object; NULL in an array and outside of both. Errors are kept in the stream
 * (ferror(3)) or in the buf (`failed`).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct buf;

enum { JSON_DEPTH_MAX = 63 }; /* objects and arrays that are open at once; asserted */

/* Exactly one of `to` and `buf` is set; the rest is zeroed and private. */
struct json_writer {
	FILE *to;
	struct buf *buf;
	unsigned depth;
	uint64_t has_value, is_array; /* bit: of the depth */
	bool breaks;
};

void json_object(struct json_writer *json, const char *key);
void json_array(struct json_writer *json, const char *key);
void json_end(struct json_writer *json); /* of the object or array that was begun last */

/*
 * Bytes that are no UTF-8 become U+FFFD; "<" is escaped, so that the text may stand inside a <script> of a page (the
 * HTML standard on script data); so are control characters and marks of direction (base/escape.h). NULL: null.
 */
void json_text(struct json_writer *json, const char *key, const char *text);
void json_bytes(struct json_writer *json, const char *key, const char *bytes, size_t len);

void json_number(struct json_writer *json, const char *key, uint64_t number);
void json_signed(struct json_writer *json, const char *key, int64_t number);
void json_bool(struct json_writer *json, const char *key, bool value);
void json_null(struct json_writer *json, const char *key);
/* "0x…", or "0", as a string, because many JSON parsers keep numbers as doubles, which hold 53 bits. */
void json_address(struct json_writer *json, const char *key, uint64_t address);
/* Appends what printf(3) makes, without quotes: for numbers with a decimal point. */
void json_printf(struct json_writer *json, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The next value begins on a new line, so that people can read the text. */
void json_break(struct json_writer *json);
