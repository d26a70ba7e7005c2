/* SPDX-License-Identifier: MIT */
#include "analyze/tracepoint_fields.h"

#include <string.h>
#include <traceevent/event-parse.h>

/* Where the bytes of a field are: a dynamic one tells it, as offset and length << 16. */
static struct span field_bytes(const struct tep_format_field *field, struct span raw)
{
	const char *at = (const char *)raw.ptr + field->offset;
	uint32_t place;

	if (!(field->flags & TEP_FIELD_IS_DYNAMIC))
		return (struct span){at, (size_t)field->size};
	if (field->size < (int)sizeof(place))
		return (struct span){at, 0};
	memcpy(&place, at, sizeof(place));
	size_t base = field->flags & TEP_FIELD_IS_RELATIVE ? (size_t)field->offset + sizeof(place) : 0;
	return (struct span){(const char *)raw.ptr + base + (place & 0xffff), place >> 16};
}

/* Little-endian, as the formats that are read are; false: no number. */
static bool field_number(const struct tep_format_field *field, struct span bytes, struct tracepoint_value *value)
{
	unsigned bits = (unsigned)bytes.len * 8;

	if (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC) || !bytes.len || bytes.len > sizeof(value->number))
		return false;
	value->number = 0;
	memcpy(&value->number, bytes.ptr, bytes.len);
	value->kind = field->flags & TEP_FIELD_IS_SIGNED ? VALUE_SIGNED : VALUE_UNSIGNED;
	if (value->kind == VALUE_SIGNED && bits < 64 && value->number >> (bits - 1))
		value->number |= UINT64_MAX << bits;
	return true;
}

void tracepoint_fields_visit(const struct tep_event *event, struct span raw, tracepoint_visitor *visit, void *of)
{
	for (const struct tep_format_field *field = event->format.fields; field; field = field->next) {
		struct tracepoint_value value = {.name = field->name, .kind = VALUE_BYTES};
		value.bytes = field_bytes(field, raw);
		if (field->flags & TEP_FIELD_IS_STRING) {
			value.kind = VALUE_TEXT;
			value.bytes.len = strnlen(value.bytes.ptr, value.bytes.len);
		} else {
			field_number(field, value.bytes, &value);
		}
		visit(&value, of);
	}
}
