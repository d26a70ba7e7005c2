/* SPDX-License-Identifier: MIT */
/*
 * sample_fields: which fields `millrace script -F` chose, for each kind of event. No owner: plain values.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/sample_line.h"

struct diag;
struct event_desc;

struct kind_fields {
	uint32_t shown;   /* FIELD_BIT()s */
	uint32_t asked;   /* by name: samples without them are an error */
	uint32_t removed; /* by name */
	bool chosen;      /* -F spoke of this kind, or of all */
	bool silenced;    /* "KIND:": there must be such events, and nothing of them is shown */
};

struct sample_fields {
	struct kind_fields kinds[NR_KINDS];
};

/* What is shown without -F. */
void sample_fields_init(struct sample_fields *fields);

/*
 * "comm,tid,ip" (just these), "+pid,-comm" (changes), "trace:comm,trace" (of one kind: hw, sw, trace, raw, break), "trace:"
 * (nothing of that kind). Once for each -F. 0, or -EINVAL and why.
 */
int sample_fields_parse(const char *text, struct sample_fields *fields, struct diag *reterr);

/*
 * The first event of a kind is known: takes away what its samples have not got; -EINVAL and why when that was asked for by
 * name, or when the fields make no sense together.
 */
int sample_fields_settle(struct kind_fields *fields, const struct event_desc *event, struct diag *reterr);

/* "software", for messages. */
const char *sample_kind_name(unsigned kind);
