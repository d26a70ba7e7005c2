/* SPDX-License-Identifier: MIT */
/*
 * deferred_chains: joins samples with their user call chains, which the kernel writes later, in CALLCHAIN_DEFERRED
 * records. One owner (deferred_chains_fini), one thread.
 *
 * A sample is kept until the chain of its task comes, and is then delivered, later than its time, as perf does. Memory
 * is bounded: when too many bytes are kept the oldest sample is delivered without its user part. Samples of a thread
 * that execs or exits are delivered just before that, too.
 *
 * Source: Linux 6.19, include/uapi/linux/perf_event.h: the chain of the sample ends with PERF_CONTEXT_USER_DEFERRED and
 * a cookie; the record is u64 cookie, u64 nr, u64 ips[nr], sample_id, and its ips begin with PERF_CONTEXT_USER.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "read/session.h"

struct kept_sample;

struct deferred_chains {
	struct session *session;          /* borrowed */
	struct kept_sample *first, *last; /* as they came */
	struct hash_table tasks;          /* the first sample of each task, by its tid */
	size_t bytes;                     /* of all that are kept */
	struct kept_sample *ready;        /* the next sample of a task whose chain has come; the chain: */
	struct {
		const uint64_t *ips;
		uint64_t nr_ips;
	} chain;
	uint64_t cookie; /* of the samples that the chain belongs to */
	bool ended;
	struct kept_sample *given;    /* the sample that deferred_chains_next() returned last */
	struct session_record record; /* the same, as it was returned */
	uint64_t *ips;                /* heap; its chain */
	size_t room;                  /* of ips, in elements */
	uint64_t nr_incomplete;       /* samples that were returned without their user part */
};

/* Whether samples of the event may have a deferred chain. */
bool deferred_chains_has(const struct perf_event_attr *attr);

void deferred_chains_fini(struct deferred_chains *chains); /* zeroed is fine */

/*
 * Returns 1: the record was an incomplete sample, which was copied, or a chain, which was used; deferred_chains_next()
 * returns the samples that are complete now, as long as the record is valid. 2: the record was not used, and the
 * samples of deferred_chains_next() must be delivered before it. 0: any other record, not used. -ENOMEM.
 */
int deferred_chains_take(struct deferred_chains *chains, const struct session_record *record);

/* After the last record: deferred_chains_next() returns all samples that are kept. */
void deferred_chains_end(struct deferred_chains *chains);

/* The next sample that is ready, valid until the next call; NULL: no more. */
const struct session_record *deferred_chains_next(struct deferred_chains *chains);
