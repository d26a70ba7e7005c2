/* SPDX-License-Identifier: MIT */
/*
 * feature: the optional sections behind the data of a perf.data file (or HEADER_FEATURE records of a pipe).
 * Encoders append one payload to a buf; decoders read one payload. Pure: what they hold comes from elsewhere.
 */
#pragma once

#include "base/span.h"
#include "format/event_desc.h"
#include "format/layout.h"

struct buf;
struct diag;

/* Payloads by bit, ready to be written. Owner frees with feature_set_fini(). */
struct feature_set {
	struct feature_payload {
		enum feature_bit bit;
		uint8_t *bytes; /* heap; NULL with len 0: the section is empty and its presence is what counts */
		size_t len;
	} * payloads; /* ascending by bit */
	size_t nr;
};

void feature_set_fini(struct feature_set *set);

/* Takes the bytes out of `payload` (which is left empty) and puts them in their place. 0 or -ENOMEM. */
int feature_set_add(struct feature_set *set, enum feature_bit bit, struct buf *payload);

/*
 * Appends table and payloads, to be written at file offset `at` (= data.offset + data.size), and sets the bits.
 */
int feature_set_encode(const struct feature_set *set, uint64_t at, struct buf *out,
		       uint64_t ret_bits[LAYOUT_FEATURE_WORDS]);

/*
 * Finds the section of `bit` in a table (popcount(bits) entries of struct file_section at the start of `table`).
 * 1 found, 0 not there, -EBADMSG when the table is shorter than the bits say.
 */
int feature_section(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct span table, enum feature_bit bit,
		    struct file_section *ret);

/* A string: u32 length of what follows, text, NUL, zeroes up to a multiple of 64. */
void feature_put_string(struct buf *out, const char *text);

/* EVENT_DESC: the only place of event names in file mode. */
void feature_encode_event_desc(const struct event_desc *events, size_t nr_events, struct buf *out);

/* Heap array of events for the caller (event_desc_fini each, then free). -EBADMSG, -ENOMEM. */
int feature_decode_event_desc(struct span payload, struct event_desc **ret, size_t *ret_nr);
