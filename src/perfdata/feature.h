/* SPDX-License-Identifier: MIT */
/*
 * feature: the optional sections behind the data of a perf.data file (or HEADER_FEATURE records of a pipe).
 * Encoders append one payload to a buf; decoders read one payload. Pure: the caller supplies the values.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "perfdata/attr.h"
#include "perfdata/layout.h"

struct buf;

/* Payloads by bit, ready to be written. Owner frees with feature_set_fini(). */
struct feature_set {
	struct feature_payload {
		enum feature_bit bit;
		uint8_t *
			bytes; /* heap; NULL with len 0: a section without content, whose presence is the information */
		size_t len;
	} * payloads; /* ascending by bit */
	size_t nr;
};

void feature_set_fini(struct feature_set *set);

/*
 * Moves the bytes of `payload`, which is empty afterwards, into the set, in the order of bits. An earlier payload of
 * that bit is replaced. 0, or -ENOMEM (also when the encoder of the payload ran out of memory).
 */
int feature_set_add(struct feature_set *set, enum feature_bit bit, struct buf *payload);

/* But for `kept`; false: there is nothing else in the set. */
bool feature_set_remove_largest(struct feature_set *set, enum feature_bit kept);

/*
 * Appends table, private sections and payloads, to be written at file offset `at` (= data.offset +
 * data.size), and sets the bits of what is not private.
 */
int feature_set_encode(const struct feature_set *set, uint64_t at, struct buf *out,
		       uint64_t ret_bits[LAYOUT_FEATURE_WORDS]);

/*
 * Finds the section of `bit` in a table (popcount(bits) entries of struct file_section at the start of
 * `table`). 1 found, 0 not there, -EBADMSG when the table is shorter than the bits say.
 */
int feature_section(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct span table, enum feature_bit bit,
		    struct file_section *ret);

/*
 * Finds the block of private sections behind a table. 1: found, and complete; 0: there is none; -EBADMSG: it is
 * damaged, truncated, or of another version.
 */
int feature_private_block(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct span table, struct span *ret);

/* A section of a block that was found: 1; 0: not there; -EBADMSG: it is not within the block. */
int feature_private_section(struct span block, enum feature_bit bit, struct span *ret);

/* "HOSTNAME", as perf spells it; NULL for a bit that perf 6.1 does not know. */
const char *feature_name(enum feature_bit bit);

/* A string: u32 length of what follows, text, NUL, zeroes up to a multiple of 64. */
void feature_put_string(struct buf *out, const char *text);

/*
 * Reads such a string: returns a pointer into the payload, where the text ends with a NUL; NULL, and the cursor is bad,
 * when it does not fit.
 */
const char *feature_take_string(struct cursor *at);

/* A payload that is one string: HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID. */
int feature_decode_string(struct span payload, const char **ret);

/*
 * A payload, or a part of one, that is a list: u32 count, then as many entries. Every reader of entries
 * (here and in the other feature headers) returns 1 and an entry, 0 at the end, -EBADMSG when the entry is
 * not whole. A count is never trusted for anything but the end.
 */
struct feature_list {
	struct cursor at;
	uint64_t left;
};
int feature_list_open(struct span payload, struct feature_list *ret);
int feature_list_string(struct feature_list *list, const char **ret);

/* CMDLINE: path of the program, then the arguments from the subcommand on. A list of strings. */
void feature_encode_cmdline(const char *program, int argc, char *const argv[], struct buf *out);

/* EVENT_DESC: the only place of event names in file mode. */
void feature_encode_event_desc(const struct event_desc *events, size_t nr_events, struct buf *out);

/* Heap array of events for the caller (event_desc_fini each, then free). -EBADMSG, -ENOMEM. */
int feature_decode_event_desc(struct span payload, struct event_desc **ret, size_t *ret_nr);

/* GROUP_DESC: {…} of -e. A list; left out of a file without groups. */
struct feature_group {
	const char *name; /* into the payload; "{anon_group}" when it has none */
	uint32_t leader;  /* index of the event */
	uint32_t members; /* with the leader; the others follow it */
};
void feature_encode_groups(const struct feature_group *groups, uint32_t nr, struct buf *out);
int feature_list_group(struct feature_list *list, struct feature_group *ret);

/* SAMPLE_TIME: the times of the first and the last sample. */
struct feature_sample_time {
	uint64_t first_ns, last_ns;
};
void feature_encode_sample_time(const struct feature_sample_time *times, struct buf *out);
int feature_decode_sample_time(struct span payload, struct feature_sample_time *ret);

/* COMPRESSED: how the COMPRESSED records of the file were made. */
enum { FEATURE_COMPRESSED_ZSTD = 1 };
struct feature_compressed {
	uint32_t version, type, level, ratio;
	uint32_t mmap_bytes; /* no record holds more than this once decompressed */
};
void feature_encode_compressed(const struct feature_compressed *how, struct buf *out);
int feature_decode_compressed(struct span payload, struct feature_compressed *ret);

/* CLOCK_DATA: two clocks read at the same moment. */
struct feature_clock {
	uint32_t version; /* 1 */
	uint32_t clockid;
	uint64_t wall_ns, clock_ns;
};
void feature_encode_clock(const struct feature_clock *clock, struct buf *out);
int feature_decode_clock(struct span payload, struct feature_clock *ret);

/*
 * Payloads that are one number: TOTAL_MEM (kB), CLOCKID (resolution in ns), DIR_FORMAT (version), AUXTRACE
 * (count).
 */
int feature_decode_u64(struct span payload, uint64_t *ret);

/*
 * BPF_PROG_INFO and BPF_BTF: lists; encoded as the u32 count and then that many entries.
 * A program's info is struct bpf_prog_info of <linux/bpf.h>, of any length; its pointers are offsets in data.
 */
struct feature_bpf_prog {
	uint64_t arrays; /* which arrays of the info lie in data */
	struct span info, data;
};
struct feature_bpf_btf {
	uint32_t id;
	struct span data;
};
void feature_put_bpf_prog(const struct feature_bpf_prog *prog, struct buf *out);
void feature_put_bpf_btf(const struct feature_bpf_btf *btf, struct buf *out);
int feature_list_bpf_prog(struct feature_list *list, struct feature_bpf_prog *ret);
int feature_list_bpf_btf(struct feature_list *list, struct feature_bpf_btf *ret);

/* Elements of an array of the info, whose pointer there is `offset`. A bad cursor: they are not all in the data. */
struct cursor feature_bpf_array(const struct feature_bpf_prog *prog, uint64_t offset, uint64_t nr, size_t element);
/* The BTF of that id in a payload of BPF_BTF. len 0: there is none. */
struct span feature_find_btf(struct span payload, uint32_t id);
