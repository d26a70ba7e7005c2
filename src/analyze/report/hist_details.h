/* SPDX-License-Identifier: MIT */
/*
 * hist_details: the keys of a table of samples, its columns, and the values of those keys that need more than task and
 * function.
 */
#pragma once

#include <stdint.h>

struct dso;
struct location;
struct symbol;

/* The columns of a table: keys, by which samples are distinguished, then numbers, which are counted. */
enum hist_column {
	HIST_COMM,
	HIST_DSO,
	HIST_SYM,
	HIST_TID,
	HIST_CPU,
	/* from here on in struct hist_details */
	HIST_SOCKET,
	HIST_TIME,
	HIST_SRCLINE,
	HIST_SRCFILE,
	HIST_TRACE,
	HIST_STATE,
	HIST_WAKER,
	HIST_HOST,
	HIST_PARENT,
	HIST_FIELD, /* and so on, HIST_FIELDS of them: fields of tracepoints, by their number */
	HIST_FIELD_LAST = HIST_FIELD + 15,
	/* from here on in its ends, in the order of enum hist_end */
	HIST_DSO_FROM,
	HIST_SYM_FROM,
	HIST_ADDRESS_FROM,
	HIST_SRCLINE_FROM,
	HIST_DSO_TO,
	HIST_SYM_TO,
	HIST_ADDRESS_TO,
	HIST_SRCLINE_TO,
	HIST_DSO_DATA,
	HIST_SYM_DATA,
	HIST_CACHE_LINE,
	HIST_SYM_CODE,
	/* from here on in its numbers */
	HIST_WEIGHT,
	HIST_LOCAL_WEIGHT,
	HIST_INS_LAT,
	HIST_LOCAL_INS_LAT,
	HIST_CGROUP,
	HIST_CGROUP_ID,
	HIST_CODE_PAGE_SIZE,
	HIST_ADDRESS,
	HIST_PARALLELISM,
	HIST_SYM_SIZE,
	HIST_DSO_SIZE, /* of the map of the address, in bytes */
	HIST_TRANSACTION,
	HIST_MISPREDICTED, /* the bits of perf_branch_entry: mispred, predicted */
	HIST_ABORTED,
	HIST_IN_TRANSACTION,
	HIST_CYCLES,
	HIST_LOCKED, /* this and the next four: fields of perf_mem_data_src where they lie in it */
	HIST_TLB,
	HIST_MEMORY, /* all of it; compared by mem_lvl */
	HIST_SNOOP,
	HIST_BLOCKED,
	HIST_PHYSICAL,
	HIST_DATA_PAGE_SIZE,
	HIST_KEYS, /* so many keys; numbers follow */
	HIST_CHILDREN = HIST_KEYS,
	HIST_SELF,
	HIST_SELF_KERNEL,
	HIST_SELF_USER,
	HIST_SELF_GUEST_KERNEL,
	HIST_SELF_GUEST_USER,
	HIST_ON_CPU, /* this and the next three: by hist_place.activity */
	HIST_BLOCKED_TIME,
	HIST_RUNNABLE,
	HIST_OFF_CPU, /* the two before it */
	HIST_LATENCY, /* hist_amount.latency */
	HIST_SAMPLES,
	HIST_PERIOD,
	HIST_COLUMNS,
};

enum { HIST_NUMBERS = HIST_KEYS - HIST_WEIGHT };

/* Where a branch came from and went to, the data of an access, and the code that made it. */
enum hist_end { HIST_FROM, HIST_TO, HIST_DATA, HIST_CODE, HIST_ENDS };

/* As struct location, all words. What no key needs is zero; so are the addresses of what has a symbol, unless asked
 * for. */
struct hist_place_end {
	const struct dso *dso;
	const struct symbol *symbol;
	uint64_t ip, address;
	const char *srcline;
	uint64_t level; /* a char; of data 's': shared, 'X': no map there */
};

enum { HIST_FIELDS = HIST_FIELD_LAST - HIST_FIELD + 1 };

/* The value of a field of a tracepoint. Values are equal if their bytes are equal. */
struct hist_field {
	const char *text;
	const uint8_t *bytes;
	uint32_t nr_bytes;
	uint32_t width; /* columns that its type takes */
};

/* What only some keys need to know; those that no key needs are zero. Equal ones share one object. */
struct hist_details {
	int64_t socket;                               /* -1: not recorded */
	uint64_t time_ns;                             /* the beginning of the quantum */
	const char *srcline;                          /* "file.c:7", or in place of it what there is */
	const char *srcfile;                          /* "file.c"; "": unknown */
	const struct location *line_at;               /* whose srcline and srcfile are still to be found; NULL: none */
	const char *trace;                            /* the fields of the tracepoint */
	const char *state;                            /* of the task: on the CPU, or why not */
	const char *waker;                            /* "name:tid" of the task that woke it */
	const char *host;                             /* the name of the machine */
	const char *cgroup;                           /* the path of numbers[HIST_CGROUP - HIST_WEIGHT], its id */
	uint64_t cgroup_device;                       /* of numbers[HIST_CGROUP_ID - HIST_WEIGHT], an inode */
	const char *parent;                           /* the caller that was asked for; NULL: the chain has none */
	const struct hist_field *fields[HIST_FIELDS]; /* NULL: the event has no such field */
	struct hist_place_end ends[HIST_ENDS];
	uint64_t numbers[HIST_NUMBERS];
};

/* The end that a key from HIST_DSO_FROM to HIST_SYM_CODE is about. */
enum hist_end hist_end_of(enum hist_column key);
