/* SPDX-License-Identifier: MIT */
#include "perfdata/sample.h"

#include <errno.h>
#include <string.h>

/* PERF_SAMPLE_BRANCH_COUNTERS, Linux 6.8: one u64 per entry behind the entries. */
#define BRANCH_COUNTERS_BIT (1ull << 19)
#define READ_LOST_BIT (1ull << 4) /* PERF_FORMAT_LOST, Linux 6.0 */

/* The fields of one word, which come first. */
enum { NR_WORDS = 9 };
#define WORDS                                                                                                          \
	((uint64_t)(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |  \
		    PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD))

/* What comes behind them: of any length. */
#define VARIABLE                                                                                                       \
	((uint64_t)(PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK |            \
		    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER))

struct decoder {
	struct cursor at;
	const struct perf_event_attr *attr;
	bool empty_stack_has_hw_idx; /* see decode_branches() */
	bool empty_stack_seen;
};

static bool has(const struct perf_event_attr *attr, uint64_t bit)
{
	return attr->sample_type & bit;
}

/* `nr` values of `bytes` each; nr is checked before it is multiplied. */
static const void *take_array(struct cursor *at, uint64_t nr, size_t bytes)
{
	if (nr > cursor_left(at) / bytes) {
		at->bad = true;
		return NULL;
	}
	return cursor_take(at, nr * bytes);
}

/* Bytes that the kernel pads to a multiple of 8; anything else would leave what follows unaligned. */
static struct span take_padded(struct cursor *at, uint64_t len, uint64_t already)
{
	struct span taken = {0};

	if ((len + already) % 8) {
		at->bad = true;
		return taken;
	}
	taken.ptr = cursor_take(at, len);
	taken.len = taken.ptr ? len : 0;
	return taken;
}

static uint64_t next_word(const uint64_t **at)
{
	return *(*at)++;
}

/* Two numbers in one word; structs of bytes, as the kernel writes them. */
struct halves {
	uint32_t first, second;
};

static struct halves next_halves(const uint64_t **at)
{
	struct halves halves;

	memcpy(&halves, (*at)++, sizeof(halves));
	return halves;
}

static void decode_words(struct decoder *d, struct sample *ret)
{
	uint64_t type = d->attr->sample_type; /* in a register */
	const uint64_t *at = (const void *)d->at.at;

	/* Counting bits takes longer than to see that there are enough words for all of them. */
	if (cursor_left(&d->at) < sizeof(*at) * NR_WORDS &&
	    cursor_left(&d->at) < sizeof(*at) * (unsigned)__builtin_popcountll(type & WORDS)) {
		d->at.bad = true;
		return;
	}
	if (type & PERF_SAMPLE_IDENTIFIER)
		ret->id = next_word(&at);
	if (type & PERF_SAMPLE_IP)
		ret->ip = next_word(&at);
	if (type & PERF_SAMPLE_TID) {
		struct halves ids = next_halves(&at);
		ret->pid = ids.first;
		ret->tid = ids.second;
	}
	if (type & PERF_SAMPLE_TIME)
		ret->time = next_word(&at);
	if (type & PERF_SAMPLE_ADDR)
		ret->addr = next_word(&at);
	if (type & PERF_SAMPLE_ID)
		ret->id = next_word(&at);
	if (type & PERF_SAMPLE_STREAM_ID)
		ret->stream_id = next_word(&at);
	if (type & PERF_SAMPLE_CPU)
		ret->cpu = next_halves(&at).first; /* the second is reserved */
	if (type & PERF_SAMPLE_PERIOD)
		ret->period = next_word(&at);
	d->at.at = (const void *)at;
}

/* Words per value and before the values of a read_format. perf_event_open(2), "Reading results". */
static uint64_t read_value_words(uint64_t format)
{
	return 1 + !!(format & PERF_FORMAT_ID) + !!(format & READ_LOST_BIT);
}

static uint64_t read_time_words(uint64_t format)
{
	return !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
}

static struct span take_read(struct cursor *at, uint64_t format)
{
	const uint8_t *start = at->at;
	uint64_t nr = 1;

	if (format & PERF_FORMAT_GROUP)
		nr = cursor_u64(at);
	cursor_take(at, read_time_words(format) * sizeof(uint64_t));
	take_array(at, nr, read_value_words(format) * sizeof(uint64_t));
	return at->bad ? (struct span){0} : (struct span){start, (size_t)(at->at - start)};
}

/*
 * A sample without branches is "nr = 0", with the hw_idx behind it when the hardware gave an empty stack, and without
 * it when it gave none at all (kernel/events/core.c perf_output_sample()): nothing in the record tells which. So the
 * short form is tried first, and what makes the fields end where the record ends is taken.
 */
static void decode_branches(struct decoder *d, struct sample *ret)
{
	uint64_t type = d->attr->branch_sample_type;
	struct sample_branch_stack *branches = &ret->branches;

	branches->nr = cursor_u64(&d->at);
	if (type & PERF_SAMPLE_BRANCH_HW_INDEX) {
		if (branches->nr == 0)
			d->empty_stack_seen = true;
		if (branches->nr || d->empty_stack_has_hw_idx)
			branches->hw_idx = cursor_u64(&d->at);
	}
	branches->entries = take_array(&d->at, branches->nr, sizeof(*branches->entries));
	if (type & BRANCH_COUNTERS_BIT)
		take_array(&d->at, branches->nr, sizeof(uint64_t));
}

static void decode_regs(struct cursor *at, uint64_t mask, struct sample_regs *ret)
{
	ret->abi = cursor_u64(at);
	if (ret->abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	ret->mask = mask;
	ret->regs = take_array(at, (uint64_t)__builtin_popcountll(mask), sizeof(uint64_t));
}

static void decode_stack(struct cursor *at, struct sample *ret)
{
	uint64_t size = cursor_u64(at);

	if (size == 0)
		return;
	ret->user_stack = take_padded(at, size, 0);
	uint64_t used = cursor_u64(at);
	if (used < ret->user_stack.len)
		ret->user_stack.len = used;
}

static void decode_variable(struct decoder *d, struct sample *ret)
{
	const struct perf_event_attr *attr = d->attr;
	uint64_t type = attr->sample_type; /* in a register */
	struct cursor *at = &d->at;

	if (type & PERF_SAMPLE_READ)
		ret->read = take_read(at, attr->read_format);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		ret->nr_ips = cursor_u64(at);
		ret->ips = take_array(at, ret->nr_ips, sizeof(uint64_t));
	}
	if (type & PERF_SAMPLE_RAW)
		ret->raw = take_padded(at, cursor_u32(at), sizeof(uint32_t));
	if (type & PERF_SAMPLE_BRANCH_STACK)
		decode_branches(d, ret);
	const uint8_t *dump = at->at;
	if (type & PERF_SAMPLE_REGS_USER)
		decode_regs(at, attr->sample_regs_user, &ret->user_regs);
	if (type & PERF_SAMPLE_STACK_USER)
		decode_stack(at, ret);
	ret->user_dump = (struct span){dump, (size_t)(at->at - dump)};
}

static void decode_rest(struct decoder *d, struct sample *ret)
{
	const struct perf_event_attr *attr = d->attr;
	uint64_t type = attr->sample_type; /* in a register */
	struct cursor *at = &d->at;

	if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		ret->weight = cursor_u64(at);
	if (type & PERF_SAMPLE_DATA_SRC)
		ret->data_src = cursor_u64(at);
	if (type & PERF_SAMPLE_TRANSACTION)
		ret->transaction = cursor_u64(at);
	if (type & PERF_SAMPLE_REGS_INTR)
		decode_regs(at, attr->sample_regs_intr, &ret->intr_regs);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		ret->phys_addr = cursor_u64(at);
	if (type & PERF_SAMPLE_CGROUP)
		ret->cgroup = cursor_u64(at);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		ret->data_page_size = cursor_u64(at);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		ret->code_page_size = cursor_u64(at);
	if (type & PERF_SAMPLE_AUX) {
		uint64_t size = cursor_u64(at);
		ret->aux = take_padded(at, size, 0);
	}
}

/* The C library's memset(3): of a known size gcc makes a "rep stos", which takes longer than decoding most samples. */
static void clear(void *at, size_t bytes)
{
	__asm__("" : "+r"(bytes)); /* no longer known */
	memset(at, 0, bytes);
}

static void sample_start(const struct perf_event_attr *attr, const struct perf_event_header *record, struct sample *ret)
{
	clear(ret, sizeof(*ret));
	ret->period = attr->sample_period;
	ret->pid = ret->tid = ret->cpu = ~0u;
	ret->cpumode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	ret->branches.hw_idx = ~0ull;
}

/*
 * The body of a record whose size is sound; nothing when it is not. Field by field: a struct that is returned is copied
 * by 16 bytes right after it was written by 8, and the processor waits until that is in the cache.
 */
static void body_open(struct cursor *ret, const struct perf_event_header *record)
{
	size_t size = record->size < sizeof(*record) ? sizeof(*record) : record->size;

	ret->at = (const uint8_t *)(record + 1);
	ret->end = (const uint8_t *)record + size;
	ret->bad = false;
}

static int decode_as(struct decoder *d, const struct perf_event_header *record, struct sample *ret)
{
	sample_start(d->attr, record, ret);
	body_open(&d->at, record);
	decode_words(d, ret);
	if (d->attr->sample_type & ~WORDS)
		decode_variable(d, ret);
	if (d->attr->sample_type & ~(WORDS | VARIABLE))
		decode_rest(d, ret);
	if (d->at.bad)
		return -EBADMSG;
	ret->present = d->attr->sample_type & (PERF_SAMPLE_MAX - 1);
	return 0;
}

int sample_decode(const struct perf_event_attr *attr, const struct perf_event_header *record, struct sample *ret)
{
	struct decoder d = {.attr = attr};
	int err = decode_as(&d, record, ret);

	if (d.empty_stack_seen && (err || cursor_left(&d.at))) {
		struct sample longer;
		d.empty_stack_has_hw_idx = true;
		if (!decode_as(&d, record, &longer)) {
			*ret = longer;
			err = 0;
		}
	}
	return err;
}

/* The trailer's fields in the order they are written: all, or those from `from` on. */
enum trailer_field { TRAILER_TID, TRAILER_TIME, TRAILER_ID, TRAILER_STREAM, TRAILER_CPU, TRAILER_IDENTIFIER };

static const uint64_t trailer_bits[] = {
	[TRAILER_TID] = PERF_SAMPLE_TID, [TRAILER_TIME] = PERF_SAMPLE_TIME,
	[TRAILER_ID] = PERF_SAMPLE_ID,   [TRAILER_STREAM] = PERF_SAMPLE_STREAM_ID,
	[TRAILER_CPU] = PERF_SAMPLE_CPU, [TRAILER_IDENTIFIER] = PERF_SAMPLE_IDENTIFIER,
};

static size_t trailer_bytes_from(const struct perf_event_attr *attr, enum trailer_field from)
{
	size_t bytes = 0;

	if (!attr->sample_id_all)
		return 0;
	for (unsigned i = from; i <= TRAILER_IDENTIFIER; i++)
		bytes += has(attr, trailer_bits[i]) ? sizeof(uint64_t) : 0;
	return bytes;
}

size_t sample_id_bytes(const struct perf_event_attr *attr)
{
	return trailer_bytes_from(attr, TRAILER_TID);
}

size_t sample_id_end(const void *record, size_t trailer_bytes)
{
	/* KSYMBOL: u64 addr; u32 len; u16 kind, flags; a name with its NUL, padded to a multiple of 8. */
	/* BPF_EVENT: u16 kind, flags; u32 id; u8 tag[8]. */
	/* TEXT_POKE: u64 addr; u16 old_len, new_len; old_len and new_len bytes, padded to a multiple of 8. */
	enum { KSYMBOL_NAME_AT = 24, BPF_EVENT_BYTES = 24, TEXT_POKE_LENS_AT = 16 };
	struct perf_event_header header;
	uint16_t lens[2];

	memcpy(&header, record, sizeof(header));
	size_t end = header.size;
	if (header.type == PERF_RECORD_BPF_EVENT) {
		end = BPF_EVENT_BYTES + trailer_bytes;
	} else if (header.type == PERF_RECORD_KSYMBOL && header.size > KSYMBOL_NAME_AT) {
		size_t len = strnlen((const char *)record + KSYMBOL_NAME_AT, header.size - KSYMBOL_NAME_AT);
		end = KSYMBOL_NAME_AT + (len + 8) / 8 * 8 + trailer_bytes;
	} else if (header.type == PERF_RECORD_TEXT_POKE && header.size >= TEXT_POKE_LENS_AT + sizeof(lens)) {
		memcpy(lens, (const char *)record + TEXT_POKE_LENS_AT, sizeof(lens));
		end = TEXT_POKE_LENS_AT + (sizeof(lens) + lens[0] + lens[1] + 7) / 8 * 8 + trailer_bytes;
	}
	return end < header.size ? end : header.size;
}

int sample_id_field(const void *record, size_t trailer_bytes, int distance)
{
	int end = (int)sample_id_end(record, trailer_bytes), at = end - distance;

	return distance < (int)sizeof(uint64_t) || at < (int)sizeof(struct perf_event_header) ? -1 : at;
}

int sample_id_decode(const struct perf_event_attr *attr, const struct perf_event_header *record, struct sample *ret)
{
	size_t bytes = sample_id_bytes(attr);
	struct cursor at;

	body_open(&at, record);
	sample_start(attr, record, ret);
	if (bytes > cursor_left(&at))
		return -EBADMSG;
	if (!bytes)
		return 0;
	size_t behind = record->size - sample_id_end(record, bytes);
	cursor_take(&at, cursor_left(&at) - behind - bytes);
	if (has(attr, PERF_SAMPLE_TID)) {
		ret->pid = cursor_u32(&at);
		ret->tid = cursor_u32(&at);
	}
	if (has(attr, PERF_SAMPLE_TIME))
		ret->time = cursor_u64(&at);
	if (has(attr, PERF_SAMPLE_ID))
		ret->id = cursor_u64(&at);
	if (has(attr, PERF_SAMPLE_STREAM_ID))
		ret->stream_id = cursor_u64(&at);
	if (has(attr, PERF_SAMPLE_CPU)) {
		ret->cpu = cursor_u32(&at);
		cursor_u32(&at); /* reserved */
	}
	if (has(attr, PERF_SAMPLE_IDENTIFIER))
		ret->id = cursor_u64(&at);
	for (unsigned i = 0; i <= TRAILER_IDENTIFIER; i++)
		ret->present |= attr->sample_type & trailer_bits[i];
	return 0;
}

static int words_before(const struct perf_event_attr *attr, uint64_t bits)
{
	return (int)sizeof(struct perf_event_header) +
	       8 * __builtin_popcountll(attr->sample_type & (bits | PERF_SAMPLE_IDENTIFIER));
}

int sample_id_offset(const struct perf_event_attr *attr)
{
	if (has(attr, PERF_SAMPLE_IDENTIFIER))
		return sizeof(struct perf_event_header);
	if (has(attr, PERF_SAMPLE_ID))
		return words_before(attr, PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR);
	return -1;
}

int sample_time_offset(const struct perf_event_attr *attr)
{
	return has(attr, PERF_SAMPLE_TIME) ? words_before(attr, PERF_SAMPLE_IP | PERF_SAMPLE_TID) : -1;
}

int sample_period_offset(const struct perf_event_attr *attr)
{
	return has(attr, PERF_SAMPLE_PERIOD)
		       ? words_before(attr, PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
						    PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU)
		       : -1;
}

int sample_id_distance(const struct perf_event_attr *attr)
{
	if (attr->sample_id_all && has(attr, PERF_SAMPLE_IDENTIFIER))
		return (int)trailer_bytes_from(attr, TRAILER_IDENTIFIER);
	if (attr->sample_id_all && has(attr, PERF_SAMPLE_ID))
		return (int)trailer_bytes_from(attr, TRAILER_ID);
	return -1;
}

int sample_time_distance(const struct perf_event_attr *attr)
{
	if (!attr->sample_id_all || !has(attr, PERF_SAMPLE_TIME))
		return -1;
	return (int)trailer_bytes_from(attr, TRAILER_TIME);
}

int sample_read_open(const struct perf_event_attr *attr, struct span read, struct sample_read *ret)
{
	struct cursor whole = cursor_over(read), at = whole;
	uint64_t format = attr->read_format;

	take_read(&whole, format);
	if (whole.bad)
		return -EBADMSG;
	*ret = (struct sample_read){.nr = format & PERF_FORMAT_GROUP ? cursor_u64(&at) : 1, .format = format};
	/* Without GROUP the times stand between the value and its id. */
	if (format & PERF_FORMAT_GROUP) {
		ret->enabled_ns = format & PERF_FORMAT_TOTAL_TIME_ENABLED ? cursor_u64(&at) : 0;
		ret->running_ns = format & PERF_FORMAT_TOTAL_TIME_RUNNING ? cursor_u64(&at) : 0;
	}
	ret->at = at;
	return 0;
}

bool sample_read_next(struct sample_read *read, struct sample_value *ret)
{
	uint64_t format = read->format;
	struct cursor *at = &read->at;

	if (!read->nr)
		return false;
	read->nr--;
	*ret = (struct sample_value){.value = cursor_u64(at)};
	if (!(format & PERF_FORMAT_GROUP)) {
		read->enabled_ns = format & PERF_FORMAT_TOTAL_TIME_ENABLED ? cursor_u64(at) : 0;
		read->running_ns = format & PERF_FORMAT_TOTAL_TIME_RUNNING ? cursor_u64(at) : 0;
	}
	ret->id = format & PERF_FORMAT_ID ? cursor_u64(at) : 0;
	ret->lost = format & READ_LOST_BIT ? cursor_u64(at) : 0;
	return !at->bad;
}

struct sample_shape sample_shape(const struct perf_event_attr *attr)
{
	return (struct sample_shape){
		.words_bytes = (uint32_t)words_before(attr, WORDS),
		.chain = has(attr, PERF_SAMPLE_CALLCHAIN),
		.raw = has(attr, PERF_SAMPLE_RAW),
		.more = attr->sample_type & ~(WORDS | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW),
	};
}

static uint16_t word_offset(const struct perf_event_attr *attr, uint64_t bit, uint64_t before)
{
	return has(attr, bit) ? (uint16_t)words_before(attr, before) : 0;
}

struct dump_shape dump_shape(const struct perf_event_attr *attr)
{
	static const uint64_t needed = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

	if ((attr->sample_type & needed) != needed ||
	    attr->sample_type & ~(WORDS | needed | (uint64_t)PERF_SAMPLE_CALLCHAIN))
		return (struct dump_shape){0};
	return (struct dump_shape){
		.words_bytes = (uint16_t)words_before(attr, WORDS),
		.ip = word_offset(attr, PERF_SAMPLE_IP, 0),
		.tid = word_offset(attr, PERF_SAMPLE_TID, PERF_SAMPLE_IP),
		.time = word_offset(attr, PERF_SAMPLE_TIME, PERF_SAMPLE_IP | PERF_SAMPLE_TID),
		.nr_regs = (uint16_t)__builtin_popcountll(attr->sample_regs_user),
		.chain = has(attr, PERF_SAMPLE_CALLCHAIN),
	};
}

/* From `at` on, of `left` words. false: they break off. */
static bool dump_take(const struct perf_event_attr *attr, const struct dump_shape *shape, const uint64_t *at,
		      size_t left, struct sample *ret)
{
	const uint64_t *dump = at;

	if (!left--)
		return false;
	const uint64_t abi = *at++;
	if (abi == PERF_SAMPLE_REGS_ABI_NONE) {
		ret->user_regs = (struct sample_regs){0};
	} else {
		if (left < shape->nr_regs)
			return false;
		ret->user_regs = (struct sample_regs){abi, attr->sample_regs_user, at};
		at += shape->nr_regs;
		left -= shape->nr_regs;
	}
	if (!left--)
		return false;
	const uint64_t bytes = *at++;
	ret->user_stack = (struct span){0};
	if (bytes) { /* the stack, and how much of it is in use */
		if (bytes % sizeof(*at) || bytes / sizeof(*at) >= left)
			return false;
		const uint64_t used = at[bytes / sizeof(*at)];
		ret->user_stack = (struct span){at, used < bytes ? used : bytes};
		at += bytes / sizeof(*at) + 1;
	}
	ret->user_dump = (struct span){dump, (size_t)(at - dump) * sizeof(*at)};
	return true;
}

/* 0: it has none. */
static uint64_t dump_word(const struct perf_event_header *record, uint16_t offset)
{
	uint64_t word = 0;

	if (offset)
		memcpy(&word, (const uint8_t *)record + offset, sizeof(word));
	return word;
}

/* A fast sample_decode(): what it tells must be the same. */
bool dump_decode(const struct perf_event_attr *attr, const struct dump_shape *shape,
		 const struct perf_event_header *record, struct sample *ret)
{
	const uint64_t *const words = (const uint64_t *)record;
	const size_t nr_words = record->size / sizeof(*words), nr_first = shape->words_bytes / sizeof(*words);
	const struct halves none = {~0u, ~0u};
	size_t at = nr_first;

	if (!nr_first || nr_words <= nr_first)
		return false;
	ret->present = attr->sample_type & (PERF_SAMPLE_MAX - 1);
	ret->cpumode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	ret->ip = dump_word(record, shape->ip);
	ret->time = dump_word(record, shape->time);
	struct halves ids = none;
	if (shape->tid)
		memcpy(&ids, (const uint8_t *)record + shape->tid, sizeof(ids));
	ret->pid = ids.first;
	ret->tid = ids.second;
	ret->read = (struct span){0};
	ret->nr_ips = 0;
	ret->ips = NULL;
	if (shape->chain) {
		ret->nr_ips = words[at++];
		ret->ips = &words[at];
		if (ret->nr_ips > nr_words - at)
			return false;
		at += ret->nr_ips;
	}
	return dump_take(attr, shape, &words[at], nr_words - at, ret);
}

bool sample_is_whole(const struct perf_event_attr *attr, const struct sample_shape *shape,
		     const struct perf_event_header *record)
{
	struct sample sample;

	if (shape->more)
		return !sample_decode(attr, record, &sample);
	struct cursor at;
	body_open(&at, record);
	cursor_take(&at, shape->words_bytes - sizeof(*record));
	if (shape->chain)
		take_array(&at, cursor_u64(&at), sizeof(uint64_t));
	if (shape->raw)
		take_padded(&at, cursor_u32(&at), sizeof(uint32_t));
	return !at.bad;
}
