/* SPDX-License-Identifier: MIT */
#include "perfdata/feature.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { STRING_ALIGN = 64 };

static const char *const names[] = {
	[FEATURE_TRACING_DATA] = "TRACING_DATA",
	[FEATURE_BUILD_ID] = "BUILD_ID",
	[FEATURE_HOSTNAME] = "HOSTNAME",
	[FEATURE_OSRELEASE] = "OSRELEASE",
	[FEATURE_VERSION] = "VERSION",
	[FEATURE_ARCH] = "ARCH",
	[FEATURE_NRCPUS] = "NRCPUS",
	[FEATURE_CPUDESC] = "CPUDESC",
	[FEATURE_CPUID] = "CPUID",
	[FEATURE_TOTAL_MEM] = "TOTAL_MEM",
	[FEATURE_CMDLINE] = "CMDLINE",
	[FEATURE_EVENT_DESC] = "EVENT_DESC",
	[FEATURE_CPU_TOPOLOGY] = "CPU_TOPOLOGY",
	[FEATURE_NUMA_TOPOLOGY] = "NUMA_TOPOLOGY",
	[FEATURE_BRANCH_STACK] = "BRANCH_STACK",
	[FEATURE_PMU_MAPPINGS] = "PMU_MAPPINGS",
	[FEATURE_GROUP_DESC] = "GROUP_DESC",
	[FEATURE_AUXTRACE] = "AUXTRACE",
	[FEATURE_STAT] = "STAT",
	[FEATURE_CACHE] = "CACHE",
	[FEATURE_SAMPLE_TIME] = "SAMPLE_TIME",
	[FEATURE_MEM_TOPOLOGY] = "MEM_TOPOLOGY",
	[FEATURE_CLOCKID] = "CLOCKID",
	[FEATURE_DIR_FORMAT] = "DIR_FORMAT",
	[FEATURE_BPF_PROG_INFO] = "BPF_PROG_INFO",
	[FEATURE_BPF_BTF] = "BPF_BTF",
	[FEATURE_COMPRESSED] = "COMPRESSED",
	[FEATURE_CPU_PMU_CAPS] = "CPU_PMU_CAPS",
	[FEATURE_CLOCK_DATA] = "CLOCK_DATA",
	[FEATURE_HYBRID_TOPOLOGY] = "HYBRID_TOPOLOGY",
	[FEATURE_PMU_CAPS] = "PMU_CAPS",
};

const char *feature_name(enum feature_bit bit)
{
	return bit < sizeof(names) / sizeof(names[0]) ? names[bit] : NULL;
}

void feature_set_fini(struct feature_set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		free(set->payloads[i].bytes);
	free(set->payloads);
	*set = (struct feature_set){0};
}

/* Index of the first payload whose bit is not below `bit`. */
static size_t feature_set_place(const struct feature_set *set, enum feature_bit bit)
{
	size_t at = 0;

	while (at < set->nr && set->payloads[at].bit < bit)
		at++;
	return at;
}

int feature_set_add(struct feature_set *set, enum feature_bit bit, struct buf *payload)
{
	size_t at = feature_set_place(set, bit);
	bool replace = at < set->nr && set->payloads[at].bit == bit;

	if (payload->failed)
		return -ENOMEM;
	if (replace) {
		free(set->payloads[at].bytes);
	} else {
		struct feature_payload *grown = reallocarray(set->payloads, set->nr + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memmove(grown + at + 1, grown + at, (set->nr - at) * sizeof(*grown));
		set->payloads = grown;
		set->nr++;
	}
	set->payloads[at] = (struct feature_payload){.bit = bit, .bytes = payload->data, .len = payload->len};
	*payload = (struct buf){0};
	return 0;
}

bool feature_set_remove_largest(struct feature_set *set, enum feature_bit kept)
{
	size_t largest = set->nr;

	for (size_t i = 0; i < set->nr; i++)
		if (set->payloads[i].bit != kept &&
		    (largest == set->nr || set->payloads[i].len > set->payloads[largest].len))
			largest = i;
	if (largest == set->nr)
		return false;
	free(set->payloads[largest].bytes);
	set->nr--;
	memmove(set->payloads + largest, set->payloads + largest + 1, (set->nr - largest) * sizeof(*set->payloads));
	return true;
}

static uint64_t add_checksum(uint64_t sum, const uint8_t *bytes, size_t len)
{
	const uint64_t prime = 0x100000001b3;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ bytes[i]) * prime;
	return sum;
}

static uint64_t block_checksum(const uint8_t *block, size_t len)
{
	const uint64_t start = 0xcbf29ce484222325;
	uint64_t sum = add_checksum(start, block, offsetof(struct private_header, checksum));

	return add_checksum(sum, block + sizeof(struct private_header), len - sizeof(struct private_header));
}

static size_t padded(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

/* Makes the block of private sections in `block`, which is empty; nothing without any. */
static void put_private(const struct feature_payload *payloads, size_t nr, struct buf *block)
{
	struct private_header header = {
		.magic = LAYOUT_PRIVATE_MAGIC,
		.version = LAYOUT_PRIVATE_VERSION,
		.nr = (uint32_t)nr,
	};
	uint64_t next = sizeof(header) + nr * sizeof(struct private_entry);

	buf_put(block, &header, sizeof(header));
	for (size_t i = 0; i < nr; i++) {
		struct private_entry entry = {payloads[i].bit, next, payloads[i].len};
		buf_put(block, &entry, sizeof(entry));
		next += padded(payloads[i].len);
	}
	for (size_t i = 0; i < nr; i++) {
		buf_put(block, payloads[i].bytes, payloads[i].len);
		buf_extend(block, padded(payloads[i].len) - payloads[i].len);
	}
	if (block->failed)
		return;
	header.size = block->len;
	memcpy(block->data, &header, sizeof(header));
	header.checksum = block_checksum(block->data, block->len);
	memcpy(block->data, &header, sizeof(header));
}

int feature_set_encode(const struct feature_set *set, uint64_t at, struct buf *out,
		       uint64_t ret_bits[LAYOUT_FEATURE_WORDS])
{
	AUTO_BUF struct buf block = {0};
	uint64_t bits[LAYOUT_FEATURE_WORDS] = {0};
	size_t nr = feature_set_place(set, FEATURE_PRIVATE_FIRST);

	if (nr < set->nr)
		put_private(&set->payloads[nr], set->nr - nr, &block);
	uint64_t next = at + nr * sizeof(struct file_section) + block.len;
	for (size_t i = 0; i < nr; i++) {
		const struct feature_payload *payload = &set->payloads[i];
		struct file_section section = {next, payload->len};
		buf_put(out, &section, sizeof(section));
		next += payload->len;
		bits[payload->bit / 64] |= (uint64_t)1 << payload->bit % 64;
	}
	buf_put(out, block.data, block.len);
	for (size_t i = 0; i < nr; i++)
		buf_put(out, set->payloads[i].bytes, set->payloads[i].len);
	if (out->failed || block.failed)
		return -ENOMEM;
	memcpy(ret_bits, bits, sizeof(bits));
	return 0;
}

static bool bit_is_set(const uint64_t bits[LAYOUT_FEATURE_WORDS], unsigned bit)
{
	return bits[bit / 64] >> bit % 64 & 1;
}

int feature_section(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct span table, enum feature_bit bit,
		    struct file_section *ret)
{
	size_t index = 0;

	if ((unsigned)bit >= FEATURE_BITS || !bit_is_set(bits, bit))
		return 0;
	for (unsigned before = 0; before < (unsigned)bit; before++)
		index += bit_is_set(bits, before);
	if (table.len / sizeof(*ret) <= index)
		return -EBADMSG;
	memcpy(ret, (const char *)table.ptr + index * sizeof(*ret), sizeof(*ret));
	return 1;
}

int feature_private_block(const uint64_t bits[LAYOUT_FEATURE_WORDS], struct span table, struct span *ret)
{
	struct private_header header;
	size_t at = 0;

	for (size_t i = 0; i < LAYOUT_FEATURE_WORDS; i++)
		at += (size_t)__builtin_popcountll(bits[i]) * sizeof(struct file_section);
	if (!at || at > table.len || table.len - at < sizeof(header))
		return 0;
	const uint8_t *block = (const uint8_t *)table.ptr + at;
	memcpy(&header, block, sizeof(header));
	if (header.magic != LAYOUT_PRIVATE_MAGIC)
		return 0;
	if (header.version != LAYOUT_PRIVATE_VERSION || header.size < sizeof(header) || header.size > table.len - at ||
	    header.nr > (header.size - sizeof(header)) / sizeof(struct private_entry) ||
	    block_checksum(block, header.size) != header.checksum)
		return -EBADMSG;
	*ret = (struct span){block, header.size};
	return 1;
}

int feature_private_section(struct span block, enum feature_bit bit, struct span *ret)
{
	struct private_header header;
	struct private_entry entry;

	memcpy(&header, block.ptr, sizeof(header));
	for (uint32_t i = 0; i < header.nr; i++) {
		memcpy(&entry, (const uint8_t *)block.ptr + sizeof(header) + i * sizeof(entry), sizeof(entry));
		if (entry.number != (uint64_t)bit)
			continue;
		if (entry.offset > block.len || entry.size > block.len - entry.offset)
			return -EBADMSG;
		*ret = (struct span){(const uint8_t *)block.ptr + entry.offset, entry.size};
		return 1;
	}
	return 0;
}

void feature_put_string(struct buf *out, const char *text)
{
	size_t len = strlen(text);
	size_t room = (len + 1 + STRING_ALIGN - 1) & ~(size_t)(STRING_ALIGN - 1);

	buf_put_u32(out, (uint32_t)room);
	buf_put(out, text, len);
	buf_extend(out, room - len);
}

const char *feature_take_string(struct cursor *at)
{
	return cursor_string(at, cursor_u32(at));
}

int feature_decode_string(struct span payload, const char **ret)
{
	struct cursor at = cursor_over(payload);
	const char *text = feature_take_string(&at);

	if (!text)
		return -EBADMSG;
	*ret = text;
	return 0;
}

int feature_list_open(struct span payload, struct feature_list *ret)
{
	struct cursor at = cursor_over(payload);
	uint32_t nr = cursor_u32(&at);

	if (at.bad)
		return -EBADMSG;
	*ret = (struct feature_list){.at = at, .left = nr};
	return 0;
}

int feature_list_string(struct feature_list *list, const char **ret)
{
	if (!list->left)
		return 0;
	const char *text = feature_take_string(&list->at);
	if (!text)
		return -EBADMSG;
	list->left--;
	*ret = text;
	return 1;
}

void feature_encode_cmdline(const char *program, int argc, char *const argv[], struct buf *out)
{
	buf_put_u32(out, (uint32_t)argc + 1);
	feature_put_string(out, program);
	for (int i = 0; i < argc; i++)
		feature_put_string(out, argv[i]);
}

int feature_decode_u64(struct span payload, uint64_t *ret)
{
	struct cursor at = cursor_over(payload);
	uint64_t value = cursor_u64(&at);

	if (at.bad)
		return -EBADMSG;
	*ret = value;
	return 0;
}

/* The features that tell of the events: EVENT_DESC, GROUP_DESC. */

void feature_encode_event_desc(const struct event_desc *events, size_t nr_events, struct buf *out)
{
	buf_put_u32(out, (uint32_t)nr_events);
	buf_put_u32(out, LAYOUT_ATTR_BYTES);
	for (const struct event_desc *event = events; event < events + nr_events; event++) {
		struct perf_event_attr attr = event->attr;
		size_t known = sizeof(attr) < LAYOUT_ATTR_BYTES ? sizeof(attr) : LAYOUT_ATTR_BYTES;

		attr.size = LAYOUT_ATTR_BYTES;
		buf_put(out, &attr, known);
		buf_extend(out, LAYOUT_ATTR_BYTES - known);
		buf_put_u32(out, (uint32_t)event->nr_ids);
		feature_put_string(out, event->name ? event->name : "");
		buf_put(out, event->ids, event->nr_ids * sizeof(*event->ids));
	}
}

/* One event of the list; attr_bytes is the length of its attr as stored. */
static int event_desc_take(struct cursor *at, uint32_t attr_bytes, struct event_desc *ret)
{
	const void *attr = cursor_take(at, attr_bytes);
	uint32_t nr_ids = cursor_u32(at);
	const char *name = feature_take_string(at);
	uint64_t ids_bytes = (uint64_t)nr_ids * sizeof(*ret->ids);
	const void *ids = cursor_take(at, ids_bytes);

	if (at->bad)
		return -EBADMSG;
	*ret = (struct event_desc){.nr_ids = nr_ids};
	memcpy(&ret->attr, attr, attr_bytes < sizeof(ret->attr) ? attr_bytes : sizeof(ret->attr));
	ret->name = strdup(name);
	ret->ids = malloc(ids_bytes ? ids_bytes : 1);
	if (!ret->name || !ret->ids) {
		event_desc_fini(ret);
		return -ENOMEM;
	}
	memcpy(ret->ids, ids, ids_bytes);
	return 0;
}

static void event_descs_free(struct event_desc *events, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		event_desc_fini(&events[i]);
	free(events);
}

int feature_decode_event_desc(struct span payload, struct event_desc **ret, size_t *ret_nr)
{
	struct cursor at = cursor_over(payload);
	uint32_t nr = cursor_u32(&at);
	uint32_t attr_bytes = cursor_u32(&at);
	/* An entry is an attr, a count, and the length of a string: so many at most can be there. */
	uint64_t entry_bytes = (uint64_t)attr_bytes + 8;

	if (at.bad || attr_bytes < LAYOUT_ATTR_MIN_BYTES || nr > cursor_left(&at) / entry_bytes)
		return -EBADMSG;
	struct event_desc *events = calloc(nr ? nr : 1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		int err = event_desc_take(&at, attr_bytes, &events[i]);
		if (err) {
			event_descs_free(events, i);
			return err;
		}
	}
	*ret = events;
	*ret_nr = nr;
	return 0;
}

void feature_encode_groups(const struct feature_group *groups, uint32_t nr, struct buf *out)
{
	buf_put_u32(out, nr);
	for (uint32_t i = 0; i < nr; i++) {
		feature_put_string(out, groups[i].name ? groups[i].name : "{anon_group}");
		buf_put_u32(out, groups[i].leader);
		buf_put_u32(out, groups[i].members);
	}
}

int feature_list_group(struct feature_list *list, struct feature_group *ret)
{
	struct feature_group group;

	if (!list->left)
		return 0;
	group.name = feature_take_string(&list->at);
	group.leader = cursor_u32(&list->at);
	group.members = cursor_u32(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = group;
	return 1;
}

/*
 * The features that tell how and when was recorded: SAMPLE_TIME, COMPRESSED, CLOCK_DATA, and the BPF
 * programs.
 */

void feature_encode_sample_time(const struct feature_sample_time *times, struct buf *out)
{
	buf_put_u64(out, times->first_ns);
	buf_put_u64(out, times->last_ns);
}

int feature_decode_sample_time(struct span payload, struct feature_sample_time *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_sample_time times;

	times.first_ns = cursor_u64(&at);
	times.last_ns = cursor_u64(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = times;
	return 0;
}

void feature_encode_compressed(const struct feature_compressed *how, struct buf *out)
{
	buf_put_u32(out, how->version);
	buf_put_u32(out, how->type);
	buf_put_u32(out, how->level);
	buf_put_u32(out, how->ratio);
	buf_put_u32(out, how->mmap_bytes);
}

int feature_decode_compressed(struct span payload, struct feature_compressed *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_compressed how;

	how.version = cursor_u32(&at);
	how.type = cursor_u32(&at);
	how.level = cursor_u32(&at);
	how.ratio = cursor_u32(&at);
	how.mmap_bytes = cursor_u32(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = how;
	return 0;
}

void feature_encode_clock(const struct feature_clock *clock, struct buf *out)
{
	buf_put_u32(out, clock->version);
	buf_put_u32(out, clock->clockid);
	buf_put_u64(out, clock->wall_ns);
	buf_put_u64(out, clock->clock_ns);
}

int feature_decode_clock(struct span payload, struct feature_clock *ret)
{
	struct cursor at = cursor_over(payload);
	struct feature_clock clock;

	clock.version = cursor_u32(&at);
	clock.clockid = cursor_u32(&at);
	clock.wall_ns = cursor_u64(&at);
	clock.clock_ns = cursor_u64(&at);
	if (at.bad)
		return -EBADMSG;
	*ret = clock;
	return 0;
}

void feature_put_bpf_prog(const struct feature_bpf_prog *prog, struct buf *out)
{
	buf_put_u32(out, (uint32_t)prog->info.len);
	buf_put_u32(out, (uint32_t)prog->data.len);
	buf_put_u64(out, prog->arrays);
	buf_put(out, prog->info.ptr, prog->info.len);
	buf_put(out, prog->data.ptr, prog->data.len);
}

int feature_list_bpf_prog(struct feature_list *list, struct feature_bpf_prog *ret)
{
	struct feature_bpf_prog prog;

	if (!list->left)
		return 0;
	prog.info.len = cursor_u32(&list->at);
	prog.data.len = cursor_u32(&list->at);
	prog.arrays = cursor_u64(&list->at);
	prog.info.ptr = cursor_take(&list->at, prog.info.len);
	prog.data.ptr = cursor_take(&list->at, prog.data.len);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = prog;
	return 1;
}

void feature_put_bpf_btf(const struct feature_bpf_btf *btf, struct buf *out)
{
	buf_put_u32(out, btf->id);
	buf_put_u32(out, (uint32_t)btf->data.len);
	buf_put(out, btf->data.ptr, btf->data.len);
}

int feature_list_bpf_btf(struct feature_list *list, struct feature_bpf_btf *ret)
{
	struct feature_bpf_btf btf;

	if (!list->left)
		return 0;
	btf.id = cursor_u32(&list->at);
	btf.data.len = cursor_u32(&list->at);
	btf.data.ptr = cursor_take(&list->at, btf.data.len);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = btf;
	return 1;
}

struct cursor feature_bpf_array(const struct feature_bpf_prog *prog, uint64_t offset, uint64_t nr, size_t element)
{
	struct cursor at = cursor_over(prog->data);

	cursor_take(&at, offset);
	if (nr > cursor_left(&at) / element)
		at.bad = true;
	return at;
}

struct span feature_find_btf(struct span payload, uint32_t id)
{
	struct feature_list list;
	struct feature_bpf_btf btf;

	if (!id || feature_list_open(payload, &list))
		return (struct span){0};
	while (feature_list_bpf_btf(&list, &btf) > 0)
		if (btf.id == id)
			return btf.data;
	return (struct span){0};
}
