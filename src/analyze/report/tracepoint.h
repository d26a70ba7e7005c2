/* SPDX-License-Identifier: MIT */
/*
 * tracepoint: the formats of the recorded machine's tracepoints (TRACING_DATA), and the fields of a sample as text.
 * One owner (tracepoints_close), one thread. The parsing of formats and the printing are libtraceevent's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct buf;
struct diag;
struct tracepoints;

/*
 * `blob`: the payload of the TRACING_DATA feature; copied. -EBADMSG: it is incomplete, or no TRACING_DATA; -ENOMEM.
 * Formats that libtraceevent does not understand are left out.
 */
int tracepoints_open(struct span blob, struct tracepoints **ret, struct diag *reterr);
void tracepoints_close(struct tracepoints *tracepoints); /* NULL is fine */

/*
 * Sets the function that finds names of addresses in fields such as "function=%ps": it returns the name of the symbol
 * and sets *ret_start to its start, or returns NULL. `ctx` is passed to it.
 */
void tracepoints_set_resolver(struct tracepoints *tracepoints,
			      const char *(*resolve)(void *ctx, uint64_t address, uint64_t *ret_start), void *ctx);

/* "sched:sched_switch" of an attr.config, or NULL. Valid until tracepoints_close(). */
const char *tracepoint_name(const struct tracepoints *tracepoints, uint64_t id);

/*
 * Appends the fields of a sample in the format of the tracepoint ("print fmt"). When the sample has too few bytes for
 * the format, the text says so. Appends nothing when the tracepoint is not known. true: the text has nothing to escape.
 */
bool tracepoint_print(struct tracepoints *tracepoints, struct span raw, uint32_t cpu, struct buf *out);

/* A field of a tracepoint as a column: what it says, and its bytes. */
struct tracepoint_field {
	struct span bytes; /* in the record */
	unsigned width;    /* columns that its type takes */
};

/*
 * Appends one field of a sample: as in the text of the tracepoint where that has "name=value", or by its type (raw).
 * 0; -ENOENT: there is no such field, or the tracepoint is not known; -EBADMSG: the bytes are too few.
 */
struct tracepoint_field_query {
	const char *name;
	bool raw;
	uint32_t cpu;
};
int tracepoint_print_field(struct tracepoints *tracepoints, struct span raw, const struct tracepoint_field_query *query,
			   struct tracepoint_field *ret, struct buf *out);

/* As tracepoint_print(), but by the types of the fields instead of the format. */
void tracepoint_print_raw(struct tracepoints *tracepoints, struct span raw, struct buf *out);

/*
 * The name of field number `index`, from 0 on, of the tracepoint with that attr.config; NULL: no more. Valid until
 * tracepoints_close().
 */
const char *tracepoint_field_name(const struct tracepoints *tracepoints, uint64_t id, unsigned index);
/* Whether the tracepoint has that field. Fields that all tracepoints have count, too. */
bool tracepoint_has_field(const struct tracepoints *tracepoints, uint64_t id, const char *name);

enum tracepoint_value_kind { VALUE_SIGNED, VALUE_UNSIGNED, VALUE_TEXT, VALUE_BYTES };

/* Valid while the record is. */
struct tracepoint_value {
	const char *name;
	enum tracepoint_value_kind kind;
	uint64_t number;   /* SIGNED: as int64_t */
	struct span bytes; /* TEXT: without the NUL and what is behind it */
};

typedef void tracepoint_visitor(const struct tracepoint_value *value, void *ctx);

/*
 * Calls `visit` for each field of a sample, except for those that all tracepoints have. 0; -ENOENT: the tracepoint is
 * not known; -EBADMSG: the bytes are too few for the format.
 */
int tracepoint_values(struct tracepoints *tracepoints, struct span raw, tracepoint_visitor *visit, void *ctx);
