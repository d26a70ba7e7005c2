/* SPDX-License-Identifier: MIT */
#include "format/feature.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

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

int feature_set_encode(const struct feature_set *set, uint64_t at, struct buf *out,
		       uint64_t ret_bits[LAYOUT_FEATURE_WORDS])
{
	uint64_t bits[LAYOUT_FEATURE_WORDS] = {0};
	uint64_t next = at + set->nr * sizeof(struct file_section);

	for (size_t i = 0; i < set->nr; i++) {
		const struct feature_payload *payload = &set->payloads[i];
		struct file_section section = {next, payload->len};
		buf_put(out, &section, sizeof(section));
		next += payload->len;
		bits[payload->bit / 64] |= (uint64_t)1 << payload->bit % 64;
	}
	for (size_t i = 0; i < set->nr; i++)
		buf_put(out, set->payloads[i].bytes, set->payloads[i].len);
	if (out->failed)
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
