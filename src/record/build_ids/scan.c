/* SPDX-License-Identifier: MIT */
#include "record/build_ids/scan.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "compress/extent_stats.h"
#include "compress/index_builder.h"
#include "compress/zstd.h"
#include "perfdata/ledger.h"
#include "perfdata/record.h"
#include "perfdata/sample.h"
#include "record/build_ids/chain_blocks.h"
#include "tasks/task_event.h"

enum {
	CHUNK_BYTES = 1 << 20,    /* of the file at a time: stays in the cache */
	UNPACKED_BYTES = 1 << 18, /* at a time, too */
	USER_TOP_SHIFT = 56,      /* no user address has a higher bit: 5-level paging of x86, 52 bits of arm64 */
	USER_BOTTOM = 0x10000,    /* nothing is mapped below: sysctl vm.mmap_min_addr */
	AHEAD_BYTES = 8192,       /* that are fetched while a record is looked at: 80 of the usual ones */
	LINE_BYTES = 64,
};

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int32_t s32_at(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* perf_event_open(2), "PERF_RECORD_SAMPLE": each of these fields is 8 bytes, in this order. */
static struct sample_layout sample_layout_make(const struct perf_event_attr *attr)
{
	static const uint64_t order[] = {
		PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,        PERF_SAMPLE_TID, PERF_SAMPLE_TIME,   PERF_SAMPLE_ADDR,
		PERF_SAMPLE_ID,         PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD,
	};
	struct sample_layout layout = {
		.trailer_bytes = sample_id_bytes(attr),
		.has_read = attr->sample_type & PERF_SAMPLE_READ,
		.has_chain = attr->sample_type & PERF_SAMPLE_CALLCHAIN,
		.has_stack = attr->sample_type & PERF_SAMPLE_STACK_USER,
	};
	size_t at = sizeof(struct perf_event_header);
	int distance = sample_time_distance(attr);

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!(attr->sample_type & order[i]))
			continue;
		layout.ip = order[i] == PERF_SAMPLE_IP ? at : layout.ip;
		layout.tid = order[i] == PERF_SAMPLE_TID ? at : layout.tid;
		layout.time = order[i] == PERF_SAMPLE_TIME ? at : layout.time;
		at += sizeof(uint64_t);
	}
	if (layout.has_chain)
		layout.tail = at;
	if (layout.has_chain && layout.has_read)
		layout.read_format = attr->read_format;
	else
		layout.has_read = false;
	if (distance > 0)
		layout.trailer_time = (size_t)distance;
	return layout;
}

/* Whether records of both can be read alike. Never with user stacks, which are decoded by their attr. */
static bool sample_layout_equal(const struct sample_layout *a, const struct sample_layout *b)
{
	return a->ip == b->ip && a->tid == b->tid && a->time == b->time && a->tail == b->tail &&
	       a->trailer_bytes == b->trailer_bytes && a->trailer_time == b->trailer_time &&
	       a->read_format == b->read_format && a->has_read == b->has_read && a->has_chain == b->has_chain &&
	       !a->has_stack && !b->has_stack;
}

/* perf_event_open(2), "read_format": the bytes of a READ field, 0 when it runs past the end. */
static size_t read_bytes(uint64_t format, const uint8_t *at, size_t left)
{
	size_t times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	size_t each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);
	uint64_t nr = 1, head = times;

	if (format & PERF_FORMAT_GROUP) {
		if (left < sizeof(nr))
			return 0;
		nr = u64_at(at);
		head++;
	}
	if (nr > left / (each * sizeof(uint64_t)))
		return 0;
	size_t bytes = (head + nr * each) * sizeof(uint64_t);
	return bytes <= left ? bytes : 0;
}

/*
 * The call chain of a sample of `size` readable bytes: returns the number of addresses, which start at *ret_offset, or
 * -EBADMSG.
 */
static inline int64_t sample_layout_chain(const struct sample_layout *layout, const uint8_t *sample, size_t size,
					  size_t *ret_offset)
{
	size_t at = layout->tail;

	if (layout->has_read) {
		size_t bytes = at <= size ? read_bytes(layout->read_format, sample + at, size - at) : 0;
		if (bytes == 0)
			return -EBADMSG;
		at += bytes;
	}
	if (at + sizeof(uint64_t) > size)
		return -EBADMSG;
	uint64_t nr = u64_at(sample + at);
	if (nr > (size - at) / sizeof(uint64_t) - 1)
		return -EBADMSG;
	*ret_offset = at + sizeof(uint64_t);
	return (int64_t)nr;
}

static struct fixed_layout fixed_layout_make(const struct sample_layout *layouts, size_t nr, bool uniform)
{
	struct fixed_layout plain = {
		.ip = (uint32_t)layouts[0].ip, .tid = (uint32_t)layouts[0].tid, .time = (uint32_t)layouts[0].time};
	uint32_t last = plain.ip;

	last = plain.tid > last ? plain.tid : last;
	last = plain.time > last ? plain.time : last;
	plain.bytes = last + sizeof(uint64_t);
	plain.has_chain = uniform && layouts[0].has_chain;
	for (size_t i = 0; i < nr; i++) {
		const struct sample_layout *layout = &layouts[i];
		if (!layout->ip || !layout->tid || !layout->time || layout->has_chain != plain.has_chain ||
		    layout->has_stack || layout->ip != plain.ip || layout->tid != plain.tid ||
		    layout->time != plain.time)
			plain.bytes = UINT32_MAX;
	}
	return plain;
}

void scan_fini(struct scan *scan)
{
	free(scan->layouts);
	free(scan->ids);
	page_set_fini(&scan->pages);
	map_history_fini(&scan->history);
	zstd_unpacker_free(scan->unpacker);
	free(scan->unpacked);
	free(scan->aligned);
	free(scan->blocks);
	index_builder_free(scan->index_builder);
}

static int by_id(const void *a, const void *b)
{
	const struct layout_of_id *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

static int scan_init_ids(struct scan *scan)
{
	size_t nr = 0;

	for (size_t i = 0; i < scan->nr_layouts; i++)
		nr += scan->events[i].nr_ids;
	scan->ids = calloc(nr + 1, sizeof(*scan->ids));
	if (!scan->ids)
		return -ENOMEM;
	for (size_t i = 0; i < scan->nr_layouts; i++) {
		for (size_t k = 0; k < scan->events[i].nr_ids; k++)
			scan->ids[scan->nr_ids++] = (struct layout_of_id){scan->events[i].ids[k], i};
	}
	qsort(scan->ids, scan->nr_ids, sizeof(*scan->ids), by_id);
	return 0;
}

int scan_init(struct scan *scan, const struct event_desc *events, size_t nr_events)
{
	*scan = (struct scan){.events = events, .nr_layouts = nr_events, .uniform = true};
	scan->layouts = calloc(nr_events, sizeof(*scan->layouts));
	if (!scan->layouts)
		return -ENOMEM;
	for (size_t i = 0; i < nr_events; i++) {
		scan->layouts[i] = sample_layout_make(&events[i].attr);
		scan->uniform &= i == 0 || sample_layout_equal(&scan->layouts[0], &scan->layouts[i]);
		if (scan->layouts[i].has_chain && !scan->blocks)
			scan->blocks = calloc(1, sizeof(*scan->blocks));
		if (scan->layouts[i].has_chain && !scan->blocks)
			return -ENOMEM;
	}
	scan->fixed = fixed_layout_make(scan->layouts, nr_events, scan->uniform);
	scan->id_offset = sample_id_offset(&events[0].attr);
	scan->id_distance = sample_id_distance(&events[0].attr);
	return scan->uniform ? 0 : scan_init_ids(scan);
}

/* The event of a record, by its id. Records without a known id have the first event's layout. */
static size_t scan_event(struct scan *scan, const uint8_t *record, size_t size, bool is_sample)
{
	if (scan->uniform)
		return 0;
	int at = is_sample ? scan->id_offset
			   : sample_id_field(record, scan->layouts[0].trailer_bytes, scan->id_distance);
	if (at < 0 || (size_t)at + sizeof(uint64_t) > size)
		return 0;
	struct layout_of_id key = {.id = u64_at(record + at)};
	if (key.id != scan->last_id.id) {
		const struct layout_of_id *found =
			scan->nr_ids ? bsearch(&key, scan->ids, scan->nr_ids, sizeof(key), by_id) : NULL;
		scan->last_id = found ? *found : key;
	}
	return scan->last_id.layout;
}

void scan_mark_pages(struct scan *scan, const struct page_set *pages)
{
	for (size_t i = 0; i < pages->nr; i++) {
		const struct sampled_page *page = &pages->slots[pages->used[i]];
		uint64_t start = (page->page - 1) << SAMPLED_PAGE_SHIFT;
		struct history_range range = {start, start | ((1u << SAMPLED_PAGE_SHIFT) - 1), page->first_ns,
					      page->last_ns};
		map_history_mark(&scan->history, page->pid, &range);
	}
}

/* memory has a bound: what is mapped behind this place is not found for the pages so far */
static int scan_hit_again(struct scan *scan, uint64_t ip, int32_t pid, struct page_times times)
{
	scan_mark_pages(scan, &scan->pages);
	page_set_clear(&scan->pages);
	return page_set_add_times(&scan->pages, ip, pid, times);
}

/* For each address of each chain: a call would cost as much as it does. */
static inline __attribute__((always_inline)) int scan_hit(struct scan *scan, uint64_t ip, int32_t pid,
							  struct page_times times)
{
	int err = page_set_add_times(&scan->pages, ip, pid, times);

	return err == -ENOSPC && !scan->while_recording ? scan_hit_again(scan, ip, pid, times) : err;
}

/* Of the address of a sample. Unknown: of a hypervisor, or a guest. */
static enum chain_owner mode_owner(uint16_t misc)
{
	const uint16_t mode = misc & PERF_RECORD_MISC_CPUMODE_MASK;

	return mode == PERF_RECORD_MISC_KERNEL ? CHAIN_KERNEL
	       : mode == PERF_RECORD_MISC_USER ? CHAIN_TASK
					       : CHAIN_UNKNOWN;
}

static bool is_marker(uint64_t word)
{
	return word >= (uint64_t)PERF_CONTEXT_MAX;
}

static enum chain_owner owner_behind(uint64_t marker)
{
	return marker == (uint64_t)PERF_CONTEXT_KERNEL ? CHAIN_KERNEL
	       : marker == (uint64_t)PERF_CONTEXT_USER ? CHAIN_TASK
						       : CHAIN_UNKNOWN;
}

static int32_t owner_pid(enum chain_owner owner, int32_t task_pid)
{
	return owner == CHAIN_KERNEL ? HISTORY_KERNEL_PID : task_pid;
}

/* Addresses, with markers between them that say whose the following ones are (perf_callchain_context). */
static inline __attribute__((always_inline)) int hit_words(struct scan *scan, struct span words, int32_t task_pid,
							   struct page_times times, enum chain_owner *owner)
{
	const uint8_t *const end = (const uint8_t *)words.ptr + words.len;
	int32_t pid = owner_pid(*owner, task_pid);

	for (const uint8_t *at = words.ptr; at < end; at += sizeof(uint64_t)) {
		uint64_t word = u64_at(at);

		if (word - 1 >= (uint64_t)PERF_CONTEXT_MAX - 1) { /* a marker, or 0 */
			*owner = word ? owner_behind(word) : *owner;
			pid = owner_pid(*owner, task_pid);
		} else if (*owner != CHAIN_UNKNOWN) {
			int err = scan_hit(scan, word, pid, times);
			if (err)
				return err;
		}
	}
	return 0;
}

/* Adds the pages of a block, whose slot is free then. */
static int hit_block(struct scan *scan, struct chain_block *block)
{
	const uint64_t key = block->key;
	enum chain_owner owner = chain_key_owner(key);

	if (!key)
		return 0;
	int err = hit_words(scan, (struct span){block->words, sizeof(block->words)}, chain_key_pid(key), block->times,
			    &owner);
	if (!err)
		block->key = 0;
	return err;
}

/* Another block has had the slot: its pages are added. Returns 0 or -errno. */
static int replace_block(struct scan *scan, struct chain_block *slot, const uint8_t *words, uint64_t key,
			 uint64_t time_ns)
{
	int err = hit_block(scan, slot);

	if (err)
		return err;
	memcpy(slot->words, words, sizeof(slot->words));
	slot->key = key;
	slot->owner_behind = chain_key_owner(key);
	for (size_t i = 0; i < CHAIN_BLOCK_WORDS; i++)
		if (is_marker(slot->words[i]))
			slot->owner_behind = owner_behind(slot->words[i]);
	slot->times = (struct page_times){time_ns, time_ns};
	return 0;
}

int scan_flush_chains(struct scan *scan)
{
	int err = 0;

	for (size_t i = 0; scan->blocks && i < NR_CHAIN_BLOCKS && !err; i++)
		err = hit_block(scan, &scan->blocks->slots[i]);
	return err;
}

/* That of a sample, and what of the sample tells about it. */
struct chain {
	const uint8_t *words; /* not aligned */
	size_t nr;
	int32_t task_pid;
	uint64_t time_ns;
	uint64_t ip; /* of the sample, noted already; */
	enum chain_owner ip_owner;
};

/*
 * A marker, then the address of the sample, which most often differs from that of the sample before, do not belong to
 * blocks; nor do the inner calls that do not fill one.
 */
static inline __attribute__((always_inline)) int scan_chain(struct scan *scan, const struct chain *chain)
{
	enum { IN_FRONT = 2 };
	const size_t front = chain->nr < IN_FRONT ? chain->nr : IN_FRONT + (chain->nr - IN_FRONT) % CHAIN_BLOCK_WORDS;
	const uint8_t *const blocks = chain->words + front * sizeof(uint64_t);
	const uint8_t *const end = chain->words + chain->nr * sizeof(uint64_t);
	const uint8_t *words = chain->words;
	enum chain_owner owner = CHAIN_UNKNOWN;

	if (front >= IN_FRONT && u64_at(words + sizeof(uint64_t)) == chain->ip && !is_marker(chain->ip) &&
	    owner_behind(u64_at(words)) == chain->ip_owner) {
		owner = chain->ip_owner;
		words += IN_FRONT * sizeof(uint64_t);
	}
	int err = hit_words(scan, (struct span){words, (size_t)(blocks - words)}, chain->task_pid,
			    (struct page_times){chain->time_ns, chain->time_ns}, &owner);
	for (words = blocks; !err && words < end; words += CHAIN_BLOCK_WORDS * sizeof(uint64_t)) {
		const uint64_t key = chain_key(chain->task_pid, owner);
		struct chain_block *block = chain_block_slot(scan->blocks, words, key);
		if (chain_block_is(block, words, key))
			chain_block_extend(block, chain->time_ns);
		else
			err = replace_block(scan, block, words, key, chain->time_ns);
		owner = block->owner_behind;
	}
	return err;
}

static int scan_sample_chain(struct scan *scan, const struct sample_layout *layout, const uint8_t *record, size_t size,
			     struct chain *chain)
{
	size_t at;
	int64_t nr = sample_layout_chain(layout, record, size, &at);

	if (nr < 0) {
		scan->broken = true;
		return 0;
	}
	chain->words = record + at;
	chain->nr = (size_t)nr;
	return scan_chain(scan, chain);
}

/* Three functions are made of it: for samples with call chains, and for others with statistics, and without. */
static inline __attribute__((always_inline)) void scan_fixed(struct scan *scan, struct span records, uint64_t room,
							     struct extent_tally *tally, bool has_chain,
							     struct sample_batch *ret)
{
	const struct fixed_layout at = scan->fixed;
	const int id_offset = tally ? tally->id_offset : -1;
	const uint32_t id_end = (uint32_t)(id_offset + (int)sizeof(uint64_t));
	const uint32_t bytes = id_end > at.bytes ? id_end : at.bytes;
	const uint8_t *const start = records.ptr, *record = start, *last = start;
	const uint8_t *const end = start + records.len;
	const uint8_t *const stop = room < records.len ? start + room : end;
	struct sample_batch run = {.first_ns = UINT64_MAX};
	struct perf_event_header header;

	for (; record < stop && (size_t)(end - record) >= sizeof(header); record += header.size) {
		/* Mostly another CPU has just copied them: each line comes from its cache. Most without chains have
		 * two. */
		__builtin_prefetch((const void *)((uintptr_t)record + AHEAD_BYTES));
		__builtin_prefetch((const void *)((uintptr_t)record + AHEAD_BYTES + LINE_BYTES));
		memcpy(&header, record, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size < bytes || header.size > end - record)
			break;
		uint64_t time_ns = u64_at(record + at.time);
		struct chain chain = {
			.task_pid = s32_at(record + at.tid),
			.time_ns = time_ns,
			.ip = u64_at(record + at.ip),
			.ip_owner = mode_owner(header.misc),
		};
		if (!time_ns || chain.ip_owner == CHAIN_UNKNOWN ||
		    page_set_add(&scan->pages, chain.ip, owner_pid(chain.ip_owner, chain.task_pid), time_ns))
			break;
		if (has_chain) {
			size_t offset;
			int64_t nr = sample_layout_chain(&scan->layouts[0], record, header.size, &offset);
			chain.words = record + offset;
			chain.nr = (size_t)nr;
			if (nr < 0 || scan_chain(scan, &chain))
				break;
		}
		if (id_offset >= 0)
			extent_tally_id(tally, u64_at(record + id_offset));
		run.first_ns = time_ns < run.first_ns ? time_ns : run.first_ns;
		run.last_ns = time_ns > run.last_ns ? time_ns : run.last_ns;
		run.nr++;
		last = record;
	}
	run.bytes = (uint64_t)(record - start);
	run.last = (uint64_t)(last - start);
	*ret = run;
}

void scan_samples(struct scan *scan, struct span records, uint64_t room, struct extent_tally *tally,
		  struct sample_batch *ret)
{
	*ret = (struct sample_batch){0};
	if (scan->fixed.bytes == UINT32_MAX)
		return;
	if (scan->fixed.has_chain)
		scan_fixed(scan, records, room, tally, true, ret);
	else if (tally)
		scan_fixed(scan, records, room, tally, false, ret);
	else
		scan_fixed(scan, records, room, NULL, false, ret);
	if (tally && ret->nr)
		extent_tally_samples(tally, ret->nr, ret->first_ns, ret->last_ns);
}

/* Records behind compressed ones may lie anywhere. NULL: out of memory. */
static const uint8_t *align(struct scan *scan, const uint8_t *record, size_t size)
{
	if ((uintptr_t)record % 8 == 0)
		return record;
	if (!scan->aligned)
		scan->aligned = malloc(RECORD_MAX_BYTES + 1);
	return scan->aligned ? memcpy(scan->aligned, record, size) : NULL;
}

/* Any of them may be a return address. */
static int scan_words(struct scan *scan, const uint8_t *words, size_t nr, int32_t pid, uint64_t time_ns)
{
	int err = 0;

	for (size_t i = 0; !err && i < nr; i++) {
		uint64_t word = u64_at(words + i * sizeof(word));
		if (word >= USER_BOTTOM && word >> USER_TOP_SHIFT == 0)
			err = scan_hit(scan, word, pid, (struct page_times){time_ns, time_ns});
	}
	return err;
}

/* The registers, too: the sample itself may be in the kernel, and the function that called it is only there. */
static int scan_stack(struct scan *scan, size_t event, const uint8_t *record, int32_t pid, uint64_t time_ns)
{
	struct sample sample;

	if (!record)
		return -ENOMEM;
	if (sample_decode(&scan->events[event].attr, (const void *)record, &sample)) {
		scan->broken = true;
		return 0;
	}
	const struct sample_regs *regs = &sample.user_regs;
	size_t nr_regs = regs->abi == PERF_SAMPLE_REGS_ABI_NONE ? 0 : (size_t)__builtin_popcountll(regs->mask);
	int err = scan_words(scan, (const uint8_t *)regs->regs, nr_regs, pid, time_ns);
	if (err)
		return err;
	return scan_words(scan, sample.user_stack.ptr, sample.user_stack.len / sizeof(uint64_t), pid, time_ns);
}

void sample_totals_add(struct sample_totals *totals, uint64_t nr, uint64_t first_ns, uint64_t last_ns)
{
	totals->nr += nr;
	if (first_ns && (totals->first_ns == 0 || first_ns < totals->first_ns))
		totals->first_ns = first_ns;
	if (last_ns > totals->last_ns)
		totals->last_ns = last_ns;
}

int scan_sample(struct scan *scan, const uint8_t *record, size_t size, uint16_t misc)
{
	size_t event = scan_event(scan, record, size, true);
	const struct sample_layout *layout = &scan->layouts[event];
	struct chain chain = {.ip_owner = CHAIN_UNKNOWN};
	int err = 0;

	scan->totals.nr++;
	scan->sample_ns = 0;
	if (layout->ip + 8 > size || layout->tid + 8 > size || layout->time + 8 > size) {
		scan->broken = true;
		return 0;
	}
	if (layout->time) {
		chain.time_ns = scan->sample_ns = u64_at(record + layout->time);
		sample_totals_add(&scan->totals, 0, chain.time_ns, chain.time_ns);
	}
	if (layout->tid)
		chain.task_pid = s32_at(record + layout->tid);
	if (layout->ip) {
		chain.ip = u64_at(record + layout->ip);
		chain.ip_owner = mode_owner(misc);
	}
	if (chain.ip_owner != CHAIN_UNKNOWN)
		err = scan_hit(scan, chain.ip, owner_pid(chain.ip_owner, chain.task_pid),
			       (struct page_times){chain.time_ns, chain.time_ns});
	if (!err && layout->has_chain)
		err = scan_sample_chain(scan, layout, record, size, &chain);
	if (!err && layout->has_stack)
		err = scan_stack(scan, event, align(scan, record, size), chain.task_pid, chain.time_ns);
	return err;
}

/* The time in the trailer of a record that is no sample. */
static uint64_t trailer_time(const struct sample_layout *layout, const uint8_t *record)
{
	int at = layout->trailer_time ? sample_id_field(record, layout->trailer_bytes, (int)layout->trailer_time) : -1;

	return at < 0 ? 0 : u64_at(record + at);
}

/* COMM, FORK, MMAP, MMAP2 */
static int scan_task_event(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	const struct sample_layout *layout = &scan->layouts[scan_event(scan, record, header->size, false)];
	struct task_event event;
	int got = task_event_decode(header, record, layout->trailer_bytes, &event);

	if (got < 0) {
		scan->broken = true;
		return 0;
	}
	return map_history_add(&scan->history, &event, trailer_time(layout, record));
}

/* For the index. */
void scan_index(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	uint64_t time_ns = 0;

	if (!scan->index_builder)
		return;
	if (header->type == PERF_RECORD_SAMPLE && !scan->inside) {
		if (scan->sample_ns && index_builder_room(scan->index_builder, scan->place))
			index_builder_samples(scan->index_builder, header->size, 1, scan->sample_ns, scan->sample_ns);
		else
			index_builder_record(scan->index_builder, scan->place, record, scan->sample_ns);
		return;
	}
	if (header->type == PERF_RECORD_SAMPLE)
		time_ns = scan->sample_ns;
	else if (header->type < RECORD_USER_FIRST)
		time_ns = trailer_time(&scan->layouts[scan_event(scan, record, header->size, false)], record);
	if (scan->inside)
		index_builder_unpacked(scan->index_builder, record, time_ns);
	else
		index_builder_record(scan->index_builder, scan->place, record, time_ns);
}

static bool is_compressed(uint32_t type)
{
	return type == RECORD_COMPRESSED || type == RECORD_COMPRESSED2;
}

/* COMPRESSED2 records get no extents: such are those of one frame in COMPRESSED records. */
static void index_builder_compressed(struct scan *scan, const struct perf_event_header *header, struct span payload)
{
	struct zstd_frame frame;
	bool starts = zstd_frame_start(payload, &frame);
	uint64_t bytes = starts && header->type == RECORD_COMPRESSED && frame.bytes ? frame.bytes : UINT64_MAX;

	if (scan->index_builder)
		index_builder_packed(scan->index_builder, scan->place, header->size, starts ? bytes : 0);
}

/* Of a record of header->size readable bytes. false: it says that it has more. */
static bool payload_of(const struct scan *scan, const uint8_t *record, const struct perf_event_header *header,
		       struct span *ret)
{
	size_t head = header->type == RECORD_COMPRESSED ? sizeof(*header) : sizeof(struct record_compressed2);
	uint64_t len = header->size - head;

	if (header->size < head)
		return false;
	if (header->type == RECORD_COMPRESSED2 && scan->chunk_end <= scan->place) {
		len = u64_at(record + sizeof(*header));
		if (len > header->size - head)
			return false;
	}
	*ret = (struct span){record + head, len};
	return true;
}

static int scan_bytes(struct scan *scan, const uint8_t *bytes, size_t len, size_t *ret_used);

static int start_unpacking(struct scan *scan)
{
	if (!scan->unpacked)
		scan->unpacked = malloc(UNPACKED_BYTES);
	if (!scan->unpacked)
		return -ENOMEM;
	return scan->unpacker ? 0 : zstd_unpacker_new(&scan->unpacker);
}

static int scan_compressed(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	struct span payload;
	uint8_t *unpacked;
	int64_t got = 0;
	size_t used;
	int err = scan->inside || !payload_of(scan, record, header, &payload) ? -EBADMSG : start_unpacking(scan);

	if (!err)
		index_builder_compressed(scan, header, payload);
	unpacked = (uint8_t *)scan->unpacked;
	scan->inside = true;
	while (!err) {
		size_t kept = scan->unpacked_len;
		got = zstd_unpack(scan->unpacker, &payload, unpacked + kept, UNPACKED_BYTES - kept);
		if (got <= 0)
			break;
		scan->unpacked_len += (size_t)got;
		err = scan_bytes(scan, unpacked, scan->unpacked_len, &used);
		scan->unpacked_len -= used;
		memmove(unpacked, unpacked + used, scan->unpacked_len);
	}
	scan->inside = false;
	if (err || got >= 0)
		return err;
	scan->broken = true;
	zstd_unpack_reset(scan->unpacker);
	scan->unpacked_len = 0;
	return 0;
}

/* `record` has header->size readable bytes. */
int scan_look_at(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	if (is_compressed(header->type))
		return scan_compressed(scan, record, header);
	if (scan->losses) {
		int err = loss_times_take(scan->losses, record, header);
		if (err)
			return err;
	}
	if (header->type == PERF_RECORD_SAMPLE)
		return scan_sample(scan, record, header->size, header->misc);
	switch (header->type) {
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return scan_task_event(scan, record, header);
	default: return 0;
	}
}

static int scan_record(struct scan *scan, const uint8_t *record, const struct perf_event_header *header)
{
	int err = scan_look_at(scan, record, header);

	if (!err && !is_compressed(header->type))
		scan_index(scan, record, header);
	if (!scan->inside) {
		scan->place += header->size;
		if (header->type >= RECORD_USER_FIRST)
			scan->outside_bytes = record_outside_bytes(header, record + sizeof(*header));
	}
	return err;
}

/*
 * The samples that the bytes begin with, as scan_record() one by one, but faster. *ret_used: how many bytes they take.
 * 0 or -ENOMEM.
 */
static int scan_run(struct scan *scan, const uint8_t *bytes, size_t len, size_t *ret_used)
{
	const uint64_t room = scan->index_builder ? index_builder_room(scan->index_builder, scan->place) : UINT64_MAX;
	struct perf_event_header header;
	struct sample_batch run;
	int err = 0;

	*ret_used = 0;
	if (scan->inside || scan->chunk_end > scan->place)
		return 0;
	scan_samples(scan, (struct span){bytes, len}, room, NULL, &run);
	if (!run.nr)
		return 0;
	sample_totals_add(&scan->totals, run.nr, run.first_ns, run.last_ns);
	if (scan->index_builder)
		index_builder_samples(scan->index_builder, run.bytes, run.nr, run.first_ns, run.last_ns);
	for (size_t at = 0; scan->losses && at < run.bytes && !err; at += header.size) {
		memcpy(&header, bytes + at, sizeof(header));
		err = loss_times_take(scan->losses, bytes + at, &header);
	}
	scan->place += run.bytes;
	*ret_used = run.bytes;
	return err;
}

/* What follows a record and is none. Returns how many of the `len` bytes that is. */
static size_t pass_outside(struct scan *scan, size_t len)
{
	size_t bytes = scan->outside_bytes < len ? (size_t)scan->outside_bytes : len;

	scan->outside_bytes -= bytes;
	scan->place += bytes;
	return bytes;
}

/* The header of the next record of the file. 1; 0: more bytes have to be readable; -EBADMSG: here is no record. */
static int file_header(struct scan *scan, const uint8_t *bytes, size_t len, struct perf_event_header *ret)
{
	bool first = scan->chunk_end <= scan->place;
	struct record_compressed2 record;

	if (first && ret->type != RECORD_COMPRESSED2)
		return 1;
	if (len < sizeof(record))
		return 0;
	memcpy(&record, bytes, sizeof(record));
	if (first)
		scan->chunk_end = scan->place + record_compressed2_chunk(&record);
	if (scan->chunk_end <= scan->place)
		return 1;
	if (!record_compressed2_in_chunk(&record, first, scan->chunk_end - scan->place))
		return -EBADMSG;
	*ret = record.header;
	return 1;
}

/* All whole records of the bytes. *ret_used: how many bytes they take. -EBADMSG: here is no record. */
static int scan_bytes(struct scan *scan, const uint8_t *bytes, size_t len, size_t *ret_used)
{
	struct perf_event_header header;
	size_t at = scan->inside ? 0 : pass_outside(scan, len);
	int err = 0;

	while (!err && len - at >= sizeof(header)) {
		size_t used;
		err = scan_run(scan, bytes + at, len - at, &used);
		at += used;
		if (err || len - at < sizeof(header))
			break;
		memcpy(&header, bytes + at, sizeof(header));
		int known = scan->inside ? 1 : file_header(scan, bytes + at, len - at, &header);
		if (known < 0 || header.size < sizeof(header))
			err = -EBADMSG;
		else if (!known || header.size > len - at)
			break;
		else
			err = scan_record(scan, bytes + at, &header);
		at += err ? 0 : header.size;
		if (!err && !scan->inside)
			at += pass_outside(scan, len - at);
	}
	*ret_used = at;
	return err;
}

/*
 * Read, not mapped: when another process cuts a mapped file, a load ends in SIGBUS; and a byte that was checked must
 * not change before it is used.
 */
int scan_file(struct scan *scan, int fd, uint64_t offset, uint64_t bytes)
{
	AUTO_FREE uint8_t *chunk = malloc(CHUNK_BYTES);
	size_t kept = 0, used;

	if (!chunk)
		return -ENOMEM;
	scan->place = offset;
	scan->chunk_end = scan->outside_bytes = 0;
	if (scan->unpacker)
		zstd_unpack_reset(scan->unpacker); /* each file has its own stream, whose last frame may have no end */
	scan->unpacked_len = 0;
	while (bytes > 0) {
		size_t want = CHUNK_BYTES - kept < bytes ? CHUNK_BYTES - kept : (size_t)bytes;
		ssize_t got = pread(fd, chunk + kept, want, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
		kept += (size_t)got;
		if (scan->progress)
			progress_step(scan->progress, (uint64_t)got, scan->progress->done + (uint64_t)got);
		int err = scan_bytes(scan, chunk, kept, &used);
		if (err)
			return err;
		kept -= used;
		memmove(chunk, chunk + used, kept);
	}
	return kept || scan->outside_bytes ? -EBADMSG : 0;
}
