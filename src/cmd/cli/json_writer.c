/* SPDX-License-Identifier: MIT */
#include "cmd/cli/json_writer.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/text.h"

static void put(struct json_writer *json, const char *bytes, size_t len)
{
	if (json->to)
		fwrite_unlocked(bytes, 1, len, json->to);
	else
		buf_put(json->buf, bytes, len);
}

static void put_char(struct json_writer *json, char c)
{
	if (json->to)
		fputc_unlocked(c, json->to);
	else
		buf_put_u8(json->buf, (uint8_t)c);
}

/* Bytes of the front that stand for themselves in any text. */
static size_t plain_bytes(const char *bytes, size_t len)
{
	size_t nr = 0;

	while (nr < len && bytes[nr] >= ' ' && bytes[nr] <= '~' && bytes[nr] != '"' && bytes[nr] != '\\' &&
	       bytes[nr] != '<')
		nr++;
	return nr;
}

static void put_quoted(struct json_writer *json, const char *bytes, size_t left)
{
	char escape[8];

	put_char(json, '"');
	while (left) {
		size_t plain = plain_bytes(bytes, left);
		put(json, bytes, plain);
		bytes += plain;
		left -= plain;
		if (!left)
			break;
		size_t len = escape_utf8_bytes(bytes, left);
		if (len && (*bytes == '"' || *bytes == '\\')) {
			put_char(json, '\\');
			put_char(json, *bytes);
		} else if (len && *bytes != '<' && escape_is_printable(bytes, len)) {
			put(json, bytes, len);
		} else {
			snprintf(escape, sizeof(escape), "\\u%04x",
				 len ? (unsigned)escape_code_point(bytes, len) & 0xffff : 0xfffd);
			put(json, escape, 6);
		}
		bytes += len ? len : 1;
		left -= len ? len : 1;
	}
	put_char(json, '"');
}

/* What stands before each value. */
static void begin_value(struct json_writer *json, const char *key)
{
	const uint64_t bit = UINT64_C(1) << json->depth;

	if (json->has_value & bit && json->depth)
		put_char(json, ',');
	json->has_value |= bit;
	if (json->breaks)
		put_char(json, '\n');
	json->breaks = false;
	if (key) {
		put_quoted(json, key, strlen(key));
		put_char(json, ':');
	}
}

static void begin_level(struct json_writer *json, bool is_array)
{
	assert(json->depth < JSON_DEPTH_MAX);
	const uint64_t bit = UINT64_C(1) << ++json->depth;
	json->has_value &= ~bit;
	json->is_array = is_array ? json->is_array | bit : json->is_array & ~bit;
	put_char(json, is_array ? '[' : '{');
}

void json_object(struct json_writer *json, const char *key)
{
	begin_value(json, key);
	begin_level(json, false);
}

void json_array(struct json_writer *json, const char *key)
{
	begin_value(json, key);
	begin_level(json, true);
}

void json_end(struct json_writer *json)
{
	assert(json->depth);
	json->breaks = false;
	put_char(json, json->is_array >> json->depth & 1 ? ']' : '}');
	json->depth--;
}

void json_bytes(struct json_writer *json, const char *key, const char *bytes, size_t len)
{
	begin_value(json, key);
	put_quoted(json, bytes, len);
}

void json_text(struct json_writer *json, const char *key, const char *text)
{
	if (text)
		json_bytes(json, key, text, strlen(text));
	else
		json_null(json, key);
}

void json_number(struct json_writer *json, const char *key, uint64_t number)
{
	char digits[DIGITS_ROOM];

	begin_value(json, key);
	put(json, digits, (size_t)(digits_put_decimal(digits, number) - digits));
}

void json_signed(struct json_writer *json, const char *key, int64_t number)
{
	char digits[1 + DIGITS_ROOM] = "-";
	uint64_t absolute = number < 0 ? -(uint64_t)number : (uint64_t)number;

	begin_value(json, key);
	put(json, digits + (number >= 0), (size_t)(digits_put_decimal(digits + 1, absolute) - digits) - (number >= 0));
}

void json_bool(struct json_writer *json, const char *key, bool value)
{
	begin_value(json, key);
	put(json, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json_writer *json, const char *key)
{
	begin_value(json, key);
	put(json, "null", 4);
}

void json_address(struct json_writer *json, const char *key, uint64_t address)
{
	char text[3 + DIGITS_ROOM + 1] = "\"0x";

	begin_value(json, key);
	char *end = digits_put_hex(text + (address ? 3 : 1), address);
	*end++ = '"';
	put(json, text, (size_t)(end - text));
}

void json_printf(struct json_writer *json, const char *key, const char *format, ...)
{
	char text[64];
	va_list args;

	begin_value(json, key);
	va_start(args, format);
	int len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert(len >= 0 && (size_t)len < sizeof(text));
	put(json, text, (size_t)len);
}

void json_break(struct json_writer *json)
{
	json->breaks = true;
}
