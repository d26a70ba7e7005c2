/* SPDX-License-Identifier: MIT */
#include "record/unwind/stack_unwinder.h"

#include <linux/perf_event.h>
#include <string.h>

#include "perfdata/attr.h"
#include "perfdata/callchain.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/order/ring_events.h"
#include "record/unwind/mapped_objects.h"
#include "tasks/maps.h"
#include "unwind/unwind.h"

/* Why the user part of a chain is the innermost frame alone. */
enum unresolved {
	RESOLVED,
	UNRESOLVED_MEMORY, /* there was none to wait in, or unwinding had failed */
	UNRESOLVED_LOSS,   /* enum doubt */
	UNRESOLVED_NO_PROCESS,
	UNRESOLVED_LATE,  /* TASK_STATE_TOO_LATE */
	UNRESOLVED_TABLE, /* not yet: the table of an object is to be built */
};

static struct unwind_object *find_object(void *ctx, uint64_t pc, uint64_t *ret_offset)
{
	struct stack_unwinder *unwinder = ctx;
	const struct map *map = maps_find(unwinder->task.maps, pc);

	if (!map || !map->object)
		return NULL;
	unwinder->found = map->object;
	*ret_offset = map_address(map, pc);
	return mapped_object_table(map->object);
}

static bool is_code(void *ctx, uint64_t pc)
{
	const struct stack_unwinder *unwinder = ctx;

	return map_may_be_code(maps_find(unwinder->task.maps, pc));
}

/*
 * The innermost frame of the program: where it was sampled or, of a sample in the kernel, where it came into it.
 * Returns how many frames that is.
 */
static unsigned innermost(const struct stack_unwinder *unwinder, const struct sample *sample, uint64_t *ret_ip)
{
	if (sample->cpumode == PERF_RECORD_MISC_USER && sample->present & PERF_SAMPLE_IP) {
		*ret_ip = sample->ip;
		return 1;
	}
	return unwind_sampled_pc(unwinder->cache, &sample->user_regs, ret_ip) ? 1 : 0;
}

/* What of the kernel's own chain is of the program: by frame pointers, and longer than the copy of the stack. */
static void find_recorded(const struct sample *sample, uint64_t at, struct unwind_chain *chain)
{
	const uint64_t *const ips = sample->ips;

	if (at == sample->nr_ips || ips[at] != (uint64_t)PERF_CONTEXT_USER)
		return;
	chain->recorded = &ips[++at];
	while (at < sample->nr_ips && ips[at] < (uint64_t)PERF_CONTEXT_MAX)
		at++;
	chain->nr_recorded = (size_t)(&ips[at] - chain->recorded);
}

/*
 * The user frames of a sample whose registers are there, into unwinder->ips, by what was mapped at its time. user->nr:
 * how many.
 */
static inline __attribute__((always_inline)) enum unresolved user_frames(struct stack_unwinder *unwinder,
									 const struct perf_event_attr *attr,
									 const struct sample *sample,
									 struct callchain *user)
{
	struct unwind_chain chain = {.ips = unwinder->ips,
				     .max = user->most - user->kernel.nr_frames,
				     .thread = sample->tid,
				     .dump_bytes = attr->sample_stack_user,
				     .never_waits = unwinder->never_waits};

	if (sample->time < unwinder->known_from_ns)
		return UNRESOLVED_LOSS;
	switch (task_state_maps(unwinder->state, sample, &unwinder->task)) {
	case TASK_STATE_NO_PROCESS: return UNRESOLVED_NO_PROCESS;
	case TASK_STATE_TOO_LATE: return UNRESOLVED_LATE;
	case TASK_STATE_KNOWN: break;
	}
	find_recorded(sample, user->kernel.nr_words, &chain);
	const struct unwind_space space = {
		.find = find_object, .is_code = is_code, .ctx = unwinder, .generation = unwinder->task.generation};
	unwind_chain(unwinder->cache, &space, &sample->user_regs, sample->user_stack, &chain);
	unwinder->lacks_rows = chain.end == UNWIND_NOT_READY;
	if (unwinder->lacks_rows)
		return UNRESOLVED_TABLE;
	unwinder->counts.by_end[chain.end]++;
	unwinder->counts.nr_continued += chain.is_continued;
	user->nr = chain.nr;
	return RESOLVED;
}

static void put_gap(uint8_t *at, size_t size)
{
	struct perf_event_header gap = {.type = RECORD_GAP, .size = (uint16_t)size};

	if (size)
		memcpy(at, &gap, sizeof(gap));
}

static void count(struct unwinding_counts *counts, enum unresolved why)
{
	counts->nr_stacks++;
	counts->nr_too_soon += why == UNRESOLVED_MEMORY;
	counts->nr_after_loss += why == UNRESOLVED_LOSS;
	counts->nr_unmapped += why == UNRESOLVED_NO_PROCESS;
	counts->nr_too_late += why == UNRESOLVED_LATE;
}

/*
 * Replaces the stack in the record by its chain, and leaves a gap behind it. Without `state` it could not wait until it
 * is known what was mapped, and has the innermost frame alone.
 */
enum unwind_outcome stack_unwinder_convert(struct stack_unwinder *unwinder, uint8_t *bytes, size_t event)
{
	struct perf_event_header *record = (struct perf_event_header *)bytes;
	size_t size = record->size;
	const struct perf_event_attr *attr = &unwinder->events->events[event].attr;
	const struct unwinding_event *how = &unwinder->by_event[event];
	struct callchain user = {.ips = unwinder->ips, .most = how->max_stack};
	struct sample sample;

	if (!dump_decode(attr, &how->shape, record, &sample) &&
	    sample_decode(attr, record, &sample)) { /* the kernel makes no such sample; it may hold a stack */
		put_gap(bytes, size);
		return UNWIND_BROKEN;
	}
	if (sample.user_regs.abi != PERF_SAMPLE_REGS_ABI_NONE) {
		enum unresolved why = UNRESOLVED_MEMORY;
		user.kernel = callchain_kernel_part(&sample, user.most);
		unwinder->task = (struct known_task){0}; /* the state may have changed since */
		if (unwinder->state)
			why = user_frames(unwinder, attr, &sample, &user);
		if (why == UNRESOLVED_TABLE)
			return UNWIND_WAITS;
		count(&unwinder->counts, why);
		if (!user.nr)
			user.nr = innermost(unwinder, &sample, unwinder->ips);
	}
	size_t new_size = callchain_convert(attr, record, &sample, &user);
	put_gap(bytes + new_size, size - new_size);
	return UNWIND_DONE;
}

size_t stack_unwinder_convert_copy(struct stack_unwinder *unwinder, const uint8_t *record,
				   const struct unwinding_event *event, uint8_t *to)
{
	const struct perf_event_header *header = (const struct perf_event_header *)record;
	struct callchain user = {.ips = unwinder->ips, .most = event->max_stack};
	struct sample sample;

	unwinder->lacks_rows = false;
	if (!dump_decode(event->attr, &event->shape, header, &sample))
		return 0;
	if (sample.user_regs.abi != PERF_SAMPLE_REGS_ABI_NONE) {
		user.kernel = callchain_kernel_part(&sample, user.most);
		if (user_frames(unwinder, event->attr, &sample, &user) != RESOLVED)
			return 0;
		count(&unwinder->counts, RESOLVED);
		unwinder->counts.nr_in_rings++;
		if (!user.nr)
			user.nr = innermost(unwinder, &sample, unwinder->ips);
	}
	size_t size = callchain_convert_copy(event->attr, header, &sample, &user, to);
	((struct perf_event_header *)to)->type = RECORD_UNWOUND;
	return size;
}

/* Closes the gaps. Returns the bytes that are left. */
size_t record_gaps_close(uint8_t *records, size_t len)
{
	size_t to = 0;

	for (size_t at = 0; at < len;) {
		struct perf_event_header header;
		memcpy(&header, records + at, sizeof(header));
		if (header.type != RECORD_GAP) {
			if (to != at)
				memmove(records + to, records + at, header.size);
			to += header.size;
		}
		at += header.size;
	}
	return to;
}
