/* SPDX-License-Identifier: MIT */
/* tracepoint_fields: the fields of one sample of a tracepoint as values. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct tep_event;

enum tracepoint_value_kind { VALUE_SIGNED, VALUE_UNSIGNED, VALUE_TEXT, VALUE_BYTES };

/* Valid while the record is. */
struct tracepoint_value {
	const char *name;
	enum tracepoint_value_kind kind;
	uint64_t number;   /* SIGNED: as int64_t */
	struct span bytes; /* TEXT: without the NUL and what is behind it */
};

typedef void tracepoint_visitor(const struct tracepoint_value *value, void *of);

/* Without those that all tracepoints have in common. The format's fields, and what they point to, must lie in `raw`. */
void tracepoint_fields_visit(const struct tep_event *event, struct span raw, tracepoint_visitor *visit, void *of);
