/* SPDX-License-Identifier: MIT */
/*
 * sample: what a SAMPLE record and the sample_id trailer of the other kernel records hold.
 *
 * Pure; nothing is copied: arrays point into the record and live as long as it.
 * Source: perf_event_open(2) "PERF_RECORD_SAMPLE", kernel/events/core.c perf_output_sample() for the order.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct sample_regs {
	uint64_t abi;         /* PERF_SAMPLE_REGS_ABI_*: NONE: no registers */
	uint64_t mask;        /* which registers, from the attr */
	const uint64_t *regs; /* popcount(mask) values, ascending */
};

struct sample_branch_stack {
	uint64_t nr;
	uint64_t hw_idx; /* ~0: not there */
	const struct perf_branch_entry *entries;
};

struct sample {
	uint64_t present; /* the PERF_SAMPLE_* bits that were decoded */
	uint64_t id;      /* of the event's fd; 0 when the layout has none */
	uint64_t ip, time, addr, stream_id;
	uint64_t period;   /* the attr's own when the record has none */
	uint32_t pid, tid; /* ~0: not there */
	uint32_t cpu;      /* ~0: not there */
	uint8_t cpumode;   /* PERF_RECORD_MISC_CPUMODE_MASK part of misc */
	struct span read;  /* bytes in the attr's read_format */
	uint64_t nr_ips;
	const uint64_t *ips; /* with PERF_CONTEXT_* markers */
	struct span raw;
	struct sample_branch_stack branches;
	struct sample_regs user_regs, intr_regs;
	struct span user_stack; /* the bytes in use (dyn_size), not the whole dump */
	struct span user_dump;  /* user_regs and user_stack as they lie in the record, with ABI and sizes */
	uint64_t weight, data_src, transaction, phys_addr, cgroup, data_page_size, code_page_size;
	struct span aux;
};

/*
 * `record` is a SAMPLE, 8-aligned, whose header.size bytes are readable. 0, or -EBADMSG: a field ends behind the end of
 * the record, or its length is not a multiple of 8, which the kernel never writes. Bytes behind the last field are
 * ignored.
 */
int sample_decode(const struct perf_event_attr *attr, const struct perf_event_header *record, struct sample *ret);

/*
 * The weight of a sample; with PERF_SAMPLE_WEIGHT_STRUCT the same field also holds the latency of the instruction.
 * Source: <linux/perf_event.h>, union perf_sample_weight.
 */
static inline uint64_t sample_weight(const struct sample *sample)
{
	return sample->present & PERF_SAMPLE_WEIGHT_STRUCT ? (uint32_t)sample->weight : sample->weight;
}

static inline uint64_t sample_instruction_latency(const struct sample *sample)
{
	return sample->present & PERF_SAMPLE_WEIGHT_STRUCT ? (uint16_t)(sample->weight >> 32) : 0;
}

/* What sample_is_whole() needs of an event's attr, computed once for all its samples. */
struct sample_shape {
	uint32_t words_bytes; /* the record's header and the fields of a fixed 8 bytes, which come first */
	bool chain, raw;      /* the sample has a call chain, then a RAW field, behind the fixed fields */
	bool more;            /* it has other fields of variable length */
};
struct sample_shape sample_shape(const struct perf_event_attr *attr);

/* Whether sample_decode() would succeed, decided faster. `shape` is sample_shape(attr). */
bool sample_is_whole(const struct perf_event_attr *attr, const struct sample_shape *shape,
		     const struct perf_event_header *record);

/* What dump_decode() needs of an event's attr, computed once for all its samples. Offsets in the record; 0: none. */
struct dump_shape {
	uint16_t words_bytes; /* as of struct sample_shape; 0: its samples are for sample_decode() */
	uint16_t ip, tid, time;
	uint16_t nr_regs;
	bool chain;
};
struct dump_shape dump_shape(const struct perf_event_attr *attr);

/*
 * What unwinding needs of a sample with user registers and stack: as sample_decode(), faster, of `present`, ip, pid,
 * tid, time, cpumode, read, ips, user_regs, user_stack and user_dump; the other fields are not set. false:
 * sample_decode() is to be asked. `shape` is dump_shape(attr).
 */
bool dump_decode(const struct perf_event_attr *attr, const struct dump_shape *shape,
		 const struct perf_event_header *record, struct sample *ret);

/*
 * The trailer of a kernel record that is no SAMPLE; fields that are not there are ~0 (pid, tid, cpu), 0 (time, id).
 * 0, or -EBADMSG when the record is too short for it.
 */
int sample_id_decode(const struct perf_event_attr *attr, const struct perf_event_header *record, struct sample *ret);

/* Bytes of the trailer: 0 without sample_id_all. */
size_t sample_id_bytes(const struct perf_event_attr *attr);

/*
 * Bytes from the start of a record that is no SAMPLE to the end of its trailer. This is header.size except for KSYMBOL,
 * BPF_EVENT and TEXT_POKE: the kernel (6.18: perf_event_ksymbol_output() and perf_event_bpf_output(), both seen, and
 * perf_event_text_poke_output()) adds a trailer to the size once for each event that gets the record. So, with several
 * recorders, all but one get old bytes of the ring behind the trailer.
 */
size_t sample_id_end(const void *record, size_t trailer_bytes);

/*
 * Bytes from the start of such a record, of any alignment, to what begins `distance` bytes before sample_id_end(). -1:
 * distance is -1, or the record too short for 8 bytes there.
 */
int sample_id_field(const void *record, size_t trailer_bytes, int distance);

/*
 * Where the event id of a record is: all events of a file have it at the same position, so any attr of the file may be
 * used. For a SAMPLE sample_id_offset(): bytes from the record's start to the id. For other records
 * sample_id_distance(): bytes from the id's first byte to sample_id_end(). -1: records have no id.
 */
int sample_id_offset(const struct perf_event_attr *attr);
int sample_id_distance(const struct perf_event_attr *attr);

/* The same for the time. */
int sample_time_offset(const struct perf_event_attr *attr);
int sample_time_distance(const struct perf_event_attr *attr);
int sample_period_offset(const struct perf_event_attr *attr); /* of a SAMPLE; other records have none */

/* The values of a READ field or record, whose read_format is that of the attr. */
struct sample_read {
	uint64_t enabled_ns, running_ns; /* 0 without the TOTAL_TIME bits */
	uint64_t nr;                     /* 1, or the members of a GROUP, leader first */
	struct cursor at;                /* for sample_read_next() */
	uint64_t format;
};
struct sample_value {
	uint64_t value, id, lost; /* 0 where the format has none */
};
int sample_read_open(const struct perf_event_attr *attr, struct span read, struct sample_read *ret);
bool sample_read_next(struct sample_read *read, struct sample_value *ret); /* false: no more */
