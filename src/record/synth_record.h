/* SPDX-License-Identifier: MIT */
/*
 * synth_record: what the synth files share: kernel records as structs, and how one is appended. Private to
 * synth. Source of the layouts: perf_event_open(2) "PERF_RECORD_*", <linux/perf_event.h>.
 */
#pragma once

#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct synth_params;

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
 * Appends a kernel record: `fixed` starts with its header (size is set here), then the name with its NUL and
 * zeroes up to a multiple of 8 (name.ptr NULL: the record has none), then the zeroed trailer.
 */
void synth_put(struct buf *out, const void *fixed, size_t fixed_bytes, struct span name,
	       size_t trailer_bytes);

static inline struct span synth_name(const char *text)
{
	return (struct span){text, __builtin_strlen(text)};
}

/* 0, or -ENOMEM when an append failed. */
static inline int synth_status(const struct buf *out)
{
	return out->failed ? -ENOMEM : 0;
}

struct kallsyms_line {
	uint64_t addr;
	struct span name, module; /* module: "[bpf]", "[ext4]"; empty: the kernel itself */
};

/*
 * Calls `visit` for each line of /proc/kallsyms until it returns something else than 0, which is the result
 * (0 at the end). -errno when the file cannot be read.
 */
int synth_kallsyms_each(int (*visit)(const struct kallsyms_line *line, void *arg), void *arg);

/* The name of a type in a BTF blob, inside it. NULL: none, or the blob is broken. */
const char *synth_btf_name(struct span btf, uint32_t type_id);

/* The records of modules, from the texts of /proc/modules and `dir`/modules.dep. Apart so that tests can give
 * them. */
int synth_modules_text(const struct synth_params *params, const char *modules, const char *dep,
		       const char *dir, struct buf *out);
