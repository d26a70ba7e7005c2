/* SPDX-License-Identifier: MIT */
/*
 * layout: the fixed parts of a perf.data file, as bytes. Native byte order, no padding beyond what stands here.
 *
 * Source: Documentation/perf.data-file-format.txt of the kernel's tools/perf; checked against files of perf 6.1.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdint.h>

/* "PERFILE2" read as a little-endian number; a file of the other byte order shows LAYOUT_MAGIC_SWAPPED. */
#define LAYOUT_MAGIC 0x32454c4946524550ull
#define LAYOUT_MAGIC_SWAPPED 0x50455246494c4532ull

enum {
	LAYOUT_ATTR_BYTES = 128,       /* what we store of an attr: perf 6.1 refuses a file that stores more */
	LAYOUT_ATTR_MIN_BYTES = 64,    /* PERF_ATTR_SIZE_VER0; an attr.size of 0 means this */
	LAYOUT_PIPE_HEADER_BYTES = 16, /* magic and size alone: records follow */
	LAYOUT_FEATURE_WORDS = 4,
};

struct file_section {
	uint64_t offset, size; /* bytes */
};

struct file_header {
	uint64_t magic;
	uint64_t size;      /* 104, or 16 in a pipe */
	uint64_t attr_size; /* bytes of one entry of attrs: attr and ids section */
	struct file_section attrs;
	struct file_section data;
	struct file_section event_types; /* always 0, 0 */
	uint64_t features[LAYOUT_FEATURE_WORDS];
};
_Static_assert(sizeof(struct file_header) == 104, "header of perf.data");

enum feature_bit {
	FEATURE_TRACING_DATA = 1,
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CPUDESC = 8,
	FEATURE_CPUID = 9,
	FEATURE_TOTAL_MEM = 10,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
	FEATURE_CPU_TOPOLOGY = 13,
	FEATURE_NUMA_TOPOLOGY = 14,
	FEATURE_BRANCH_STACK = 15,
	FEATURE_PMU_MAPPINGS = 16,
	FEATURE_GROUP_DESC = 17,
	FEATURE_AUXTRACE = 18,
	FEATURE_STAT = 19,
	FEATURE_CACHE = 20,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_MEM_TOPOLOGY = 22,
	FEATURE_CLOCKID = 23,
	FEATURE_DIR_FORMAT = 24,
	FEATURE_BPF_PROG_INFO = 25,
	FEATURE_BPF_BTF = 26,
	FEATURE_COMPRESSED = 27,
	FEATURE_CPU_PMU_CAPS = 28,
	FEATURE_CLOCK_DATA = 29,
	FEATURE_HYBRID_TOPOLOGY = 30,
	FEATURE_PMU_CAPS = 31,
	FEATURE_STOCK_END, /* what perf 6.1 knows: no file of ours has other bits in its header */

	/* From here on numbers of millrace's private sections, which earlier versions stored as bits. */
	FEATURE_PRIVATE_FIRST = 128,
	FEATURE_EXTENT_INDEX = 132, /* extent_index.h */
	FEATURE_LEDGER = 134,       /* ledger.h */
	FEATURE_MAPPED_FILES = 135, /* object_id.h */
	FEATURE_PERF_MAPS = 136,    /* perf_maps.h */
	FEATURE_BITS = 256,
};

/*
 * A file that `millrace merge` made of recordings of several machines has their names in FEATURE_HOSTNAME, separated by
 * commas. n * LAYOUT_PIDS_OF_HOST was added to the pids and tids of the machine with index n; it is PID_MAX_LIMIT of
 * 64-bit kernels (include/linux/threads.h).
 */
enum { LAYOUT_PIDS_OF_HOST = 1 << 22 };

/*
 * Private sections: data that only millrace reads, in one block between the feature table and the payloads of the
 * features. Other readers find the payloads by the offsets in the table, and do not look at the bytes between.
 */
struct private_header {
	uint64_t magic;    /* LAYOUT_PRIVATE_MAGIC */
	uint32_t version;  /* LAYOUT_PRIVATE_VERSION */
	uint32_t nr;       /* entries behind this header; then the payloads, each padded to 8 bytes */
	uint64_t size;     /* bytes of the block, with this header */
	uint64_t checksum; /* FNV-1a of 64 bits, of all other bytes of the block */
};
_Static_assert(sizeof(struct private_header) == 32, "as stored");

struct private_entry {
	uint64_t number;       /* enum feature_bit */
	uint64_t offset, size; /* of the payload; from the start of the block */
};
_Static_assert(sizeof(struct private_entry) == 24, "as stored");

#define LAYOUT_PRIVATE_MAGIC 0x454341524c4c494dull /* "MILLRACE" */
enum { LAYOUT_PRIVATE_VERSION = 1 };
