/* SPDX-License-Identifier: MIT */
/*
 * sample_details: source lines (source_text) and fields of tracepoints (trace_formats) of samples, as report and script
 * print them, and words for times off the CPU. source_text: any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct debug_info;
struct diag;
struct location;
struct lookup;
struct session;
struct tracepoints;

enum source_flags {
	SOURCE_FULL_PATH = 1, /* else the name of the file alone */
	SOURCE_SYMBOL = 2,    /* where there is no line, "symbol+7", if there is a symbol */
};

/*
 * Appends "file.c:7", or "symbol+7", or "object[address]", or "??:0". The caller checks buf_status(out).
 * Returns whether the line is known.
 */
bool source_text_line(struct debug_info *info, const struct location *at, unsigned flags, struct buf *out);

/* Appends "file.c"; nothing when it is not known. */
void source_text_file(struct debug_info *info, const struct location *at, unsigned flags, struct buf *out);

/* trace_formats: the tracepoint formats of a recording, with names for the kernel addresses in their fields. */
/*
 * Opens the formats, if *formats is NULL and the session has them (they are in the file, or in a pipe before the first
 * sample). 0: also when there are none yet; -EBADMSG or -ENOMEM, and why. The caller calls tracepoints_close() before
 * it frees the lookup.
 */
int trace_formats_open(struct session *session, struct lookup *lookup, struct tracepoints **formats,
		       struct diag *reterr);

/* What is not known of a time off the CPU, or how it began or ended. Ends with a NULL text. */
struct wait_word {
	uint32_t flag; /* enum off_cpu_flag */
	const char *text;
};
extern const struct wait_word wait_words[];
