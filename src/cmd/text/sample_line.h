/* SPDX-License-Identifier: MIT */
/*
 * sample_line: the fields that a line of `millrace script` is made of: a row each, in the order of the line. One
 * thread.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdio.h>

#include "analyze/machine/machine.h"
#include "base/buf.h"
#include "cmd/cli/output.h"
#include "perfdata/feature.h"
#include "read/session.h"

struct diag;

/* The rows of sample_fields_table. */
enum sample_field {
	FIELD_COMM,
	FIELD_PID,
	FIELD_TID,
	FIELD_CPU,
	FIELD_MISC,
	FIELD_TOD,
	FIELD_TIME,
	FIELD_PERIOD,
	FIELD_EVENT,
	FIELD_TRACE,
	FIELD_ADDR,
	FIELD_DATA_SRC,
	FIELD_WEIGHT,
	FIELD_INS_LAT,
	FIELD_STATE,
	FIELD_WAIT,
	FIELD_IP,
	FIELD_SYM,
	FIELD_SYMOFF,
	FIELD_DSO,
	FIELD_IREGS,
	FIELD_UREGS,
	FIELD_BRANCHES,
	FIELD_BRANCH_SYMBOLS,
	FIELD_BRANCH_OFFSETS,
	FIELD_BPF_OUTPUT,
	FIELD_PHYS_ADDR,
	FIELD_DATA_PAGE_SIZE,
	FIELD_CODE_PAGE_SIZE,
	FIELD_SRCLINE,
	FIELD_CGROUP,
	NR_FIELDS, /* those behind are refused by name */
};

#define FIELD_BIT(field) (1u << (field))

enum { LINE_MAX_FRAMES = 4096 };

enum sample_clock {
	CLOCK_MICROSECONDS = 0,
	CLOCK_NANOSECONDS = 1, /* nine digits */
	CLOCK_SINCE_FIRST = 2, /* since the first line */
	CLOCK_SINCE_LAST = 4,  /* since the line before */
};

/* Kinds of events, each with fields of its own: the types of perf_event_attr, and one for all dynamic types. */
enum { KIND_OTHER = PERF_TYPE_MAX, NR_KINDS };

static inline unsigned sample_kind(const struct perf_event_attr *attr)
{
	return attr->type < PERF_TYPE_MAX ? attr->type : KIND_OTHER;
}

/* A second as text: many lines have the same. */
struct second {
	uint64_t start_ns, end_ns; /* both 0: none */
	char text[24];             /* "12345." */
	unsigned len;
};

enum { EVENT_LABELS = 16, EVENT_LABEL_BYTES = 64 };

/* An event's name as a line has it, "     raw_syscalls:sys_enter: ": escaped and aligned. */
struct event_label {
	char name[EVENT_LABEL_BYTES], text[EVENT_LABEL_BYTES]; /* name: with its NUL */
	size_t len;                                            /* of the text; 0: none yet */
};

/* What all lines of an output share. */
struct line_context {
	struct session *session;
	struct lookup *lookup;
	struct output *out;
	unsigned name_width; /* of all lines: known before the first */
	struct event_label labels[EVENT_LABELS];
	unsigned clock; /* enum sample_clock */
	bool narrow;    /* -L: commands of eight characters, CPUs without brackets */
	unsigned max_frames;
	uint64_t first_ns, last_ns;      /* of the lines before; 0: none */
	struct second second;            /* of the line before */
	struct feature_clock wall_clock; /* of the recording; version 0: not looked for yet */
	struct tracepoints *tracepoints; /* NULL until the first sample of one */
	struct debug_info *debug_info;   /* the machine's */
	bool full_paths;                 /* of source files */
	const char *stop_at;             /* --stop-bt: functions behind which a chain is not printed; NULL: none */
	struct buf text;
	struct location frames[LINE_MAX_FRAMES];
};

/* Is a call chain printed up to this frame only? */
bool line_context_ends_chain(const struct line_context *of, const struct location *frame);

/* One line. */
struct sample_line {
	struct line_context *of;
	const struct session_record *record;
	struct task *task;
	uint32_t fields; /* FIELD_BIT()s */
	bool chains;     /* call chains are shown where there are any */
};

struct sample_field_row {
	const char *name;
	unsigned kinds; /* 1 << kind: events of others never have it; 0: any may */
	/* Samples that have none of these bits (PERF_SAMPLE_*) have not got the field. 0: all have it. */
	uint64_t sample_type;
	/* NULL: it changes what another one prints. 0, or -errno and why. */
	int (*print)(struct sample_line *line, struct diag *reterr);
	const char *refused; /* what to use in its place; the fields behind NR_FIELDS only */
};

/* Ends with a row without a name. */
extern const struct sample_field_row sample_fields_table[];

/* Is it the call chain that is printed for the address? */
bool sample_line_shows_chain(const struct sample_line *line);

/* Its time; since another line's with CLOCK_SINCE_*: once for each line. */
uint64_t sample_line_time(struct sample_line *line);

/* What time of day it was, for FIELD_TOD. 0; -EINVAL: the recording does not say. */
int sample_line_find_clock(struct line_context *of, struct diag *reterr);

/* The line of the source of a frame, NULL: there is nothing to look up. Valid until the next call. */
const char *sample_line_source(struct line_context *of, const struct location *at);

/* What the sample's addr is in; false: no address that means something to this event. */
bool sample_line_resolve_addr(struct sample_line *line, struct location *ret);

/* sample_json: a sample as one line of JSON: an object whose keys are the fields of a sample_line. */
/* 0, or -errno and why; errors of `to` are left to the caller (ferror). */
int sample_json_print(struct sample_line *line, FILE *to, struct diag *reterr);
