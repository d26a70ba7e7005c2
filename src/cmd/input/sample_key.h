/* SPDX-License-Identifier: MIT */
/*
 * sample_key: 128 bits that are equal for samples of the same thread, code and call chain, so that these are looked up
 * once. Samples with a copy of the stack, and code that changes without a record, have no key.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/machine/machine.h"
#include "perfdata/sample.h"

/* Two independent sums. Both being 0 is as unlikely as two samples with one key: zeroed is an empty slot of a cache. */
struct sample_key {
	uint64_t a, b;
};

static inline void sample_key_add(struct sample_key *key, uint64_t value)
{
	key->a = (key->a ^ value) * 0x9e3779b97f4a7c15ull;
	key->a ^= key->a >> 29;
	key->b = (key->b + value) * 0xd6e8feb86659fd93ull;
	key->b ^= key->b >> 32;
}

static inline bool sample_key_equals(const struct sample_key *key, const struct sample_key *other)
{
	return key->a == other->a && key->b == other->b;
}

/* false: such samples are to be looked up one by one. `chains`: their call chains count. */
static inline bool sample_has_key(const struct machine *machine, const struct sample *sample, bool chains)
{
	return !machine_is_timed(machine) && !(chains && sample->user_stack.len);
}

/* Changes nothing: several threads may call it at once, while none changes the machine. */
static inline struct sample_key sample_key(const struct machine *machine, const struct task *task,
					   const struct sample *sample, bool chains)
{
	struct task_epoch epoch = task_epoch(machine, task);
	struct sample_key key = {epoch.common, epoch.own};

	sample_key_add(&key, (uintptr_t)task);
	sample_key_add(&key, (uint64_t)sample->cpumode << 32 | sample->tid);
	sample_key_add(&key, sample->ip);
	for (uint64_t i = 0; chains && i < sample->nr_ips; i++)
		sample_key_add(&key, sample->ips[i]);
	return key;
}
