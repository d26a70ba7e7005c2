/* SPDX-License-Identifier: MIT */
/*
 * record: the records of a perf.data stream: the kernel's types are in <linux/perf_event.h>, those that recorders
 * add are here. Structs describe bytes; pointers to them are only formed after the record's size was checked.
 *
 * Source: perf_event_open(2), <linux/perf_event.h>; user records: tools/lib/perf/include/perf/event.h (facts).
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf;

/* Not in the kernel headers that we build with. */
enum { RECORD_CALLCHAIN_DEFERRED = 22 /* PERF_RECORD_CALLCHAIN_DEFERRED, Linux 6.19 */ };

enum user_record_type {
	RECORD_USER_FIRST = 64,
	RECORD_HEADER_ATTR = 64,
	RECORD_EVENT_TYPE = 65,
	RECORD_TRACING_DATA = 66, /* the blob follows outside the record */
	RECORD_BUILD_ID = 67,
	RECORD_FINISHED_ROUND = 68,
	RECORD_ID_INDEX = 69,
	RECORD_AUXTRACE_INFO = 70,
	RECORD_AUXTRACE = 71, /* data follows outside the record */
	RECORD_AUXTRACE_ERROR = 72,
	RECORD_THREAD_MAP = 73,
	RECORD_CPU_MAP = 74,
	RECORD_STAT_CONFIG = 75,
	RECORD_STAT = 76,
	RECORD_STAT_ROUND = 77,
	RECORD_EVENT_UPDATE = 78,
	RECORD_TIME_CONV = 79,
	RECORD_HEADER_FEATURE = 80,
	RECORD_COMPRESSED = 81,
	RECORD_FINISHED_INIT = 82,
	RECORD_COMPRESSED2 = 83,
	RECORD_BPF_METADATA = 84,
	RECORD_USER_LAST = 86,
};

enum {
	RECORD_MAX_BYTES = 65535,
	RECORD_MISC_BUILD_ID_SIZE = 1 << 15, /* BUILD_ID record: its size byte is valid */
	RECORD_MISC_FORK_EXEC = 1 << 13,     /* FORK record made by a recorder: do not clone the parent's maps */
};

enum event_update_kind {
	EVENT_UPDATE_UNIT = 0,
	EVENT_UPDATE_SCALE = 1,
	EVENT_UPDATE_NAME = 2,
	EVENT_UPDATE_CPUS = 3,
};

/* One record where it lies. `header` is valid until the next call of the function that returned the view. */
struct record_view {
	const struct perf_event_header *header;
	uint64_t offset;  /* bytes from the start of the file or pipe, for messages */
	const char *file; /* which file of a data directory: "data", "data.0"; NULL: there is only one */
};

/* "SAMPLE", "MMAP2", "FINISHED_ROUND", as perf's raw dump spells it; "UNKNOWN" for the rest. */
const char *record_type_name(uint32_t type);
bool record_type_known(uint32_t type);

/*
 * Bytes behind header->size that belong to the record: TRACING_DATA: u32 size, rounded to 8; AUXTRACE: u64 size.
 * `body`: the header->size bytes without the header.
 */
uint64_t record_outside_bytes(const struct perf_event_header *header, const void *body);

struct record_compressed2 {
	struct perf_event_header header;
	uint64_t data_bytes;
}; /* then the compressed bytes, and padding. Source: tools/lib/perf/include/perf/event.h of 6.16 (facts) */

/*
 * perf 6.16 and later writes what does not fit into one COMPRESSED2 record as if it did: data_bytes and header.size of
 * the first one are those of all, header.size rounded up to 8 and cut to 16 bits; the data_bytes of the others means
 * nothing, and no padding follows. Source: tools/perf/builtin-record.c, record__pushfn() and process_comp_header()
 * (facts); hotspot's issue 736.
 *
 * Returns the bytes of such a chunk of records, of which `first` may be the first one; 0: it is one record.
 */
uint64_t record_compressed2_chunk(const struct record_compressed2 *first);

/*
 * Puts the sizes of a record right that is the first or another one of a chunk, of which it and those behind it are
 * `left` bytes. false: there is none.
 */
bool record_compressed2_in_chunk(struct record_compressed2 *record, bool first, uint64_t left);

/* The fixed parts of kernel records: perf_event_open(2) "PERF_RECORD_*". */
struct record_mmap {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
}; /* then the name */

struct record_mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
}; /* then the name */

struct record_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
}; /* then the name */

struct record_fork {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

struct record_ksymbol {
	struct perf_event_header header;
	uint64_t addr;
	uint32_t len;
	uint16_t ksym_type, flags;
}; /* then the name */

struct record_bpf_event {
	struct perf_event_header header;
	uint16_t type, flags;
	uint32_t id;
	uint8_t tag[8];
};

/*
 * Appends a kernel record: the `fixed_bytes` at `fixed`, which begin with the header (header.size is set here); the
 * name with its NUL, padded with zeroes to a multiple of 8 (name.ptr NULL: the record has no name); and `trailer_bytes`
 * zeroes for the sample_id.
 */
void record_put(struct buf *out, const void *fixed, size_t fixed_bytes, struct span name, size_t trailer_bytes);
